//! Replies on their way out: the real program against a strict stub of muster, with an outbox and with sendmail programs. Never more than loopback.
#![cfg(test)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use common::stub::{Fate, Fault};
use common::{Rig, header};

/// A rig with one posted mail and its external_id.
fn posted(subject: &str, way: &[&str]) -> (Rig, String) {
    let rig = Rig::new();
    rig.deliver_plain(subject);
    rig.once_ok(way);
    let id = rig.stub.world().external_id_of(subject).unwrap();
    (rig, id)
}

fn fate(rig: &Rig, draft_id: u64) -> Fate {
    rig.stub.world().drafts[&draft_id].fate
}

fn results(rig: &Rig, draft_id: u64) -> Vec<serde_json::Value> {
    rig.stub.world().drafts[&draft_id].results.clone()
}

#[test]
fn an_approved_reply_becomes_a_mail_in_the_right_thread() {
    let (rig, id) = posted("noon", &[]);
    let draft = rig.stub.world().approve(&id, "Thanks, noon works.\n— ü");
    rig.once_ok(&[]);
    let outbox = rig.outbox();
    assert_eq!(outbox.len(), 1);
    let mail = &outbox[0];
    assert_eq!(header(mail, "From").as_deref(), Some("Me <me@ours.test>"));
    assert_eq!(header(mail, "To").as_deref(), Some("ada@example.test"));
    assert_eq!(header(mail, "Subject").as_deref(), Some("Re: noon"));
    assert_eq!(
        header(mail, "In-Reply-To").as_deref(),
        Some("<noon@example.test>")
    );
    assert_eq!(
        header(mail, "References").as_deref(),
        Some("<root-noon@example.test> <noon@example.test>")
    );
    assert_eq!(header(mail, "MIME-Version").as_deref(), Some("1.0"));
    assert!(mail.contains("Thanks, noon works.\n=E2=80=94 =C3=BC\n"), "{mail}");
    assert!(!mail.contains('\r'));
    let message_id = header(mail, "Message-ID").unwrap();
    assert_eq!(fate(&rig, draft), Fate::Sent);
    let results = results(&rig, draft);
    assert_eq!(
        results,
        [serde_json::json!({ "ok": true, "external_ref": message_id })]
    );
    rig.assert_no_violations();
}

#[test]
fn a_waiting_claim_sends_without_delay_and_several_replies_leave_in_one_pass() {
    let (rig, id) = posted("noon", &[]);
    let running = rig.start(&[]);
    rig.wait("a waiting claim", || rig.stub.world().claims > 1);
    let draft = rig.stub.world().approve(&id, "one");
    rig.wait("the result", || fate(&rig, draft) == Fate::Sent);
    drop(running);
    for text in ["two", "three", "four"] {
        rig.stub.world().approve(&id, text);
    }
    rig.once_ok(&[]);
    assert_eq!(rig.outbox().len(), 4);
}

#[test]
fn a_lost_result_is_posted_again_and_the_reply_is_not() {
    let (rig, id) = posted("noon", &[]);
    let draft = rig.stub.world().approve(&id, "one");
    rig.stub
        .world()
        .result_faults
        .extend([Fault::LoseAnswer, Fault::Status(500), Fault::RetryAfter(1)]);
    let _running = rig.start(&[]);
    rig.wait("two results", || results(&rig, draft).len() == 2);
    rig.wait("the end of it", || rig.names("state/drafts/open").is_empty());
    let results = results(&rig, draft);
    assert_eq!(results[0], results[1]);
    assert_eq!(rig.outbox().len(), 1);
}

#[test]
fn a_result_waits_over_a_restart_until_muster_has_it() {
    let (rig, id) = posted("noon", &[]);
    let draft = rig.stub.world().approve(&id, "one");
    rig.stub.world().result_faults.extend([Fault::Status(503); 20]);
    let output = rig.once(&[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(fate(&rig, draft), Fate::Claimed);
    rig.stub.world().result_faults.clear();
    rig.once_ok(&[]);
    assert_eq!(fate(&rig, draft), Fate::Sent);
    assert_eq!(rig.outbox().len(), 1);
}

#[test]
fn a_409_is_final() {
    let (rig, id) = posted("noon", &[]);
    let draft = rig.stub.world().approve(&id, "one");
    rig.stub.world().result_faults.push_back(Fault::Status(409));
    rig.once_ok(&[]);
    rig.once_ok(&[]);
    assert_eq!(rig.outbox().len(), 1);
    assert_eq!(results(&rig, draft), [serde_json::Value::Null; 0]);
    assert_eq!(rig.names("state/drafts/open"), [""; 0]);
}

#[test]
fn a_404_is_final_only_when_the_door_is_open() {
    let (rig, id) = posted("noon", &[]);
    let draft = rig.stub.world().approve(&id, "one");
    rig.stub
        .world()
        .result_faults
        .extend([Fault::Status(404), Fault::Status(404)]);
    rig.once_ok(&[]);
    assert_eq!(
        rig.names("state/drafts/open"),
        [""; 0],
        "asked twice with a good claim between"
    );
    assert_eq!(results(&rig, draft).len(), 0);

    let draft = rig.stub.world().approve(&id, "two");
    rig.stub.world().result_faults.extend([Fault::Status(503); 20]);
    assert_eq!(rig.once(&[]).status.code(), Some(1));
    rig.stub.world().result_faults.clear();
    rig.stub.world().switched_off = true;
    assert_eq!(rig.once(&[]).status.code(), Some(3));
    assert_eq!(
        rig.names("state/drafts/open").len(),
        1,
        "kept while connectors are switched off"
    );
    rig.stub.world().switched_off = false;
    rig.once_ok(&[]);
    assert_eq!(fate(&rig, draft), Fate::Sent);
}

// spec: CLM-036
#[test]
fn a_draft_id_is_never_sent_twice_even_when_it_is_offered_again() {
    let (rig, id) = posted("noon", &[]);
    let draft = rig.stub.world().approve(&id, "one");
    rig.once_ok(&[]);
    for round in 2..5 {
        rig.stub.world().offer_again = Some(draft);
        rig.once_ok(&[]);
        assert_eq!(rig.outbox().len(), 1);
        assert_eq!(results(&rig, draft).len(), round, "its outcome is reported again");
    }
    // Another server that counts alike.
    {
        let mut world = rig.stub.world();
        let draft = world.drafts.get_mut(&draft).unwrap();
        draft.body = "quite another text".to_owned();
        draft.fate = Fate::Approved;
        draft.results.clear();
    }
    rig.once_ok(&[]);
    assert_eq!(rig.outbox().len(), 1);
    assert_eq!(fate(&rig, draft), Fate::Failed);
    assert!(
        results(&rig, draft)[0]["detail"]
            .as_str()
            .unwrap()
            .contains("own state folder")
    );
}

#[test]
fn a_reply_to_an_unknown_mail_is_reported_as_not_sent() {
    let (rig, _) = posted("noon", &[]);
    let draft = rig.stub.world().approve("m-unknown", "one");
    let outside = rig.stub.world().approve("../../../etc/passwd", "two");
    rig.once_ok(&[]);
    for draft in [draft, outside] {
        assert_eq!(fate(&rig, draft), Fate::Failed);
        let detail = results(&rig, draft)[0]["detail"].as_str().unwrap().to_owned();
        assert!(detail.starts_with("Nothing was sent"), "{detail}");
    }
    assert_eq!(rig.outbox().len(), 0);
}

#[test]
fn a_claim_whose_answer_is_lost_sends_nothing() {
    let (rig, id) = posted("noon", &[]);
    let draft = rig.stub.world().approve(&id, "one");
    rig.stub.world().claim_faults.push_back(Fault::LoseAnswer);
    rig.once_ok(&[]);
    assert_eq!(fate(&rig, draft), Fate::Claimed, "it lapses to unconfirmed");
    assert_eq!(rig.outbox().len(), 0);
}

#[test]
fn hostile_headers_cannot_steer_the_reply() {
    let rig = Rig::new();
    rig.deliver(
        "From: \"Ada\r\n Bcc: eve@evil.test\" <ada@example.test>\nSubject: =?utf-8?q?hi=0D=0ABcc:_eve@evil.test?=\n\
         Message-ID: <m@x.test>\nReferences: <a@x.test> <b\r\n Bcc: c@x.test>\n\nx",
    );
    rig.once_ok(&[]);
    let id = rig.stub.world().messages.keys().next().unwrap().clone();
    rig.stub.world().approve(&id, "Bcc: eve@evil.test\n\nhello");
    rig.once_ok(&[]);
    let mail = rig.outbox().remove(0);
    assert_eq!(header(&mail, "Bcc"), None);
    assert_eq!(header(&mail, "To").as_deref(), Some("ada@example.test"));
    assert_eq!(
        header(&mail, "Subject").as_deref(),
        Some("Re: hi Bcc: eve@evil.test")
    );
    assert_eq!(header(&mail, "In-Reply-To").as_deref(), Some("<m@x.test>"));
}

/// A sendmail program that writes what it gets to files in `sent/`, then runs `then`.
fn sendmail(rig: &Rig, then: &str) -> String {
    let script = rig.path("send mail.sh");
    let sent = rig.path("sent");
    fs::create_dir_all(&sent).unwrap();
    let text = format!(
        "#!/bin/sh\nout=$(mktemp {}/XXXXXX)\n{{ printf '%s\\n' \"$*\" \"token:$MUSTER_CONNECTOR_TOKEN\"; cat; }} >$out\n{then}\n",
        sent.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    format!("'{}' -f 'me@ours.test'", script.display())
}

#[test]
fn a_sendmail_program_gets_the_mail_and_its_exit_code_is_the_result() {
    let rig = Rig::new();
    let line = sendmail(&rig, "exit 0");
    let way = ["--sendmail", line.as_str()];
    rig.deliver_plain("noon");
    rig.once_ok(&way);
    let id = rig.stub.world().external_id_of("noon").unwrap();
    let draft = rig.stub.world().approve(&id, "hello");
    rig.once_ok(&way);
    assert_eq!(fate(&rig, draft), Fate::Sent);
    let sent = rig.names("sent");
    assert_eq!(sent.len(), 1);
    let seen = fs::read_to_string(rig.path("sent").join(&sent[0])).unwrap();
    let (arguments, rest) = seen.split_once('\n').unwrap();
    assert_eq!(arguments, "-f me@ours.test -i -- ada@example.test");
    let (token, mail) = rest.split_once('\n').unwrap();
    assert_eq!(token, "token:", "the token is not passed on");
    assert_eq!(header(mail, "To").as_deref(), Some("ada@example.test"));
    assert!(mail.ends_with("\n\nhello\n"), "{mail}");
}

#[test]
fn a_sendmail_program_that_refuses_is_a_failure_with_its_words() {
    let rig = Rig::new();
    let line = sendmail(&rig, "echo 'no such \u{1b}[1muser' >&2; exit 67");
    let way = ["--sendmail", line.as_str()];
    rig.deliver_plain("noon");
    rig.once_ok(&way);
    let id = rig.stub.world().external_id_of("noon").unwrap();
    let draft = rig.stub.world().approve(&id, "hello");
    let told = rig.once(&way);
    rig.once_ok(&way);
    let log = String::from_utf8(told.stderr).unwrap();
    let line = log.lines().find(|line| line.contains("WARN")).unwrap();
    for words in [
        "reply not sent",
        "send mail.sh ended with code 67",
        "no such",
        "[1muser",
    ] {
        assert!(line.contains(words), "{words}: {log}");
    }
    assert!(!log.contains('\u{1b}'), "{log:?}");
    assert_eq!(fate(&rig, draft), Fate::Failed);
    let detail = results(&rig, draft)[0]["detail"].as_str().unwrap().to_owned();
    assert!(
        detail.contains("code 67") && detail.contains("no such \\u{1b}[1muser"),
        "{detail}"
    );
    assert_eq!(rig.names("sent").len(), 1);
}

#[test]
fn without_its_mail_program_the_connector_does_not_start() {
    let rig = Rig::new();
    rig.deliver_plain("noon");
    for (line, name) in [
        ("/usr/sbin/no-sendmail -f me@ours.test", "/usr/sbin/no-sendmail"),
        ("no-sendmail", "no-sendmail"),
    ] {
        let refused = rig.once(&["--sendmail", line]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert_eq!(
            String::from_utf8(refused.stderr).unwrap(),
            format!(
                "muster-maildir: the mail program {name} is not found; name another with --sendmail, or use --outbox DIR.\n"
            )
        );
    }
    assert_eq!(rig.names("maildir/new").len(), 1, "the mail still waits");
    assert!(rig.stub.world().messages.is_empty());
}

#[test]
fn a_sendmail_program_that_hangs_is_killed_and_nothing_is_claimed_about_it() {
    let rig = Rig::new();
    let line = sendmail(&rig, "sleep 600");
    let way = ["--sendmail-seconds", "1", "--sendmail", line.as_str()];
    rig.deliver_plain("noon");
    rig.once_ok(&way);
    let id = rig.stub.world().external_id_of("noon").unwrap();
    let draft = rig.stub.world().approve(&id, "hello");
    rig.once_ok(&way);
    rig.once_ok(&way);
    assert_eq!(fate(&rig, draft), Fate::Claimed);
    assert_eq!(results(&rig, draft), [serde_json::Value::Null; 0]);
    assert_eq!(rig.names("sent").len(), 1, "not sent again");
    let status = rig.command(&way).arg("--status").output().unwrap();
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        status.contains(&format!("draft {draft}: look for Message-ID <muster.{draft}.")),
        "{status}"
    );
    let dismissed = rig
        .command(&way)
        .args(["--dismiss", &draft.to_string()])
        .output()
        .unwrap();
    assert!(dismissed.status.success(), "{dismissed:?}");
    let status = rig.command(&way).arg("--status").output().unwrap();
    assert!(String::from_utf8_lossy(&status.stdout).starts_with("0 replies whose fate is unknown"));
    rig.stub.world().offer_again = Some(draft);
    rig.once_ok(&way);
    assert_eq!(rig.names("sent").len(), 1, "not even when it is offered again");
}

// spec: CLM-036
#[test]
fn a_connector_killed_in_the_middle_of_a_send_never_sends_again() {
    let rig = Rig::new();
    let line = sendmail(&rig, "sleep 5");
    let way = ["--sendmail", line.as_str()];
    rig.deliver_plain("noon");
    rig.once_ok(&way);
    let id = rig.stub.world().external_id_of("noon").unwrap();
    let draft = rig.stub.world().approve(&id, "hello");
    let running = rig.start(&way);
    rig.wait("the hand-over", || rig.names("sent").len() == 1);
    running.kill_9();
    rig.once_ok(&way);
    rig.once_ok(&way);
    assert_eq!(rig.names("sent").len(), 1);
    assert_eq!(
        fate(&rig, draft),
        Fate::Claimed,
        "nobody knows, so nothing is reported"
    );
    assert_eq!(rig.names("state/drafts/unknown").len(), 1);
    // The next reply is not held up by it.
    let next = rig.stub.world().approve(&id, "again");
    let line = sendmail(&rig, "exit 0");
    rig.once_ok(&["--sendmail", line.as_str()]);
    assert_eq!(fate(&rig, next), Fate::Sent);
}

#[test]
fn a_stop_in_the_middle_of_a_send_lets_it_end_and_writes_it_down() {
    let rig = Rig::new();
    let line = sendmail(&rig, "sleep 1");
    let way = ["--sendmail", line.as_str()];
    rig.deliver_plain("noon");
    rig.once_ok(&way);
    let id = rig.stub.world().external_id_of("noon").unwrap();
    let draft = rig.stub.world().approve(&id, "hello");
    let mut running = rig.start(&way);
    rig.wait("the hand-over", || rig.names("sent").len() == 1);
    assert_eq!(running.terminate().code(), Some(0), "{}", rig.log());
    assert_eq!(fate(&rig, draft), Fate::Sent);
}
