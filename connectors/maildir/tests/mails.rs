//! Mails on their way in: the real program against a strict stub of muster. Never more than loopback.
#![cfg(test)]

mod common;

use std::fs;
use std::time::{Duration, Instant};

use common::stub::{Fault, Stub, TOKEN};
use common::{Rig, plain};

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_mail_is_posted_once_and_moved_to_cur_as_seen() {
    let rig = Rig::new();
    let name = rig.deliver_plain("noon");
    rig.once_ok(&[]);
    assert_eq!(rig.names("maildir/new"), [""; 0]);
    assert_eq!(rig.names("maildir/cur"), [format!("{name}:2,S")]);
    let moved = fs::read_to_string(rig.path("maildir/cur").join(format!("{name}:2,S"))).unwrap();
    assert_eq!(moved, plain("noon"));
    {
        let world = rig.stub.world();
        let message = world.messages.values().next().unwrap();
        assert_eq!(message["sender"], "Ada <ada@example.test>");
        assert_eq!(message["subject"], "noon");
        assert_eq!(message["body"], "body of noon");
        assert_eq!(message["received_at"], "2024-01-01T10:00:00Z");
        assert_eq!(message["thread"], "root-noon@example.test");
        assert_eq!(
            (&message["no_reply"], &message["sender_verified"]),
            (&false.into(), &false.into())
        );
    }
    // The same bytes under another name are the same mail, and no second post is needed to know it.
    rig.deliver_plain("noon");
    rig.once_ok(&[]);
    assert_eq!(rig.stub.world().posts.len(), 1);
    assert_eq!(rig.names("maildir/cur").len(), 2);
    rig.assert_no_violations();
}

#[test]
fn the_date_of_the_file_stands_in_for_a_missing_date() {
    let rig = Rig::new();
    let name = rig.deliver("From: ada@example.test\n\nhello");
    let file = fs::File::options()
        .write(true)
        .open(rig.path("maildir/new").join(name))
        .unwrap();
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
        .unwrap();
    rig.once_ok(&[]);
    let world = rig.stub.world();
    assert_eq!(
        world.messages.values().next().unwrap()["received_at"],
        "2023-11-14T22:13:20Z"
    );
}

#[test]
fn a_lost_answer_is_followed_by_the_same_post_and_nothing_doubles() {
    let rig = Rig::new();
    rig.stub
        .world()
        .message_faults
        .extend([Fault::LoseAnswer, Fault::LoseAnswer]);
    rig.deliver_plain("noon");
    rig.once_ok(&[]);
    let world = rig.stub.world();
    assert_eq!(world.posts.len(), 3);
    assert_eq!(world.messages.len(), 1);
    assert!(world.posts.iter().all(|(_, post)| post == &world.posts[0].1));
}

#[test]
fn an_answer_that_is_not_musters_does_not_count() {
    let rig = Rig::new();
    rig.stub.world().message_faults.extend([Fault::OtherServer; 3]);
    rig.deliver_plain("noon");
    let output = rig.once(&[]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(rig.names("maildir/new").len(), 1);
    rig.once_ok(&[]);
    assert_eq!(rig.stub.world().messages.len(), 1);
}

#[test]
fn retry_after_is_kept_and_the_same_mail_comes_again() {
    let rig = Rig::new();
    rig.stub.world().message_faults.push_back(Fault::RetryAfter(2));
    rig.deliver_plain("first");
    rig.deliver_plain("second");
    let _running = rig.start(&[]);
    rig.wait("both mails stored", || rig.stub.world().messages.len() == 2);
    let world = rig.stub.world();
    assert_eq!(world.posts.len(), 3);
    assert_eq!(world.posts[0].1, world.posts[1].1);
    assert!(world.posts[1].0 - world.posts[0].0 >= Duration::from_secs(2));
}

#[test]
fn a_single_pass_does_not_wait_for_a_busy_muster() {
    let rig = Rig::new();
    rig.stub.world().message_faults.push_back(Fault::RetryAfter(1000));
    rig.deliver_plain("first");
    rig.deliver_plain("second");
    let started = Instant::now();
    rig.once_ok(&[]);
    assert!(started.elapsed() < Duration::from_secs(60));
    assert_eq!(rig.names("maildir/new").len(), 2);
    rig.once_ok(&[]);
    assert_eq!(rig.stub.world().messages.len(), 2);
}

#[test]
fn mails_wait_while_the_server_is_away_and_go_when_it_is_back() {
    let mut rig = Rig::new();
    let running = rig.start(&[]);
    rig.deliver_plain("before");
    rig.wait("the first mail", || rig.stub.world().messages.len() == 1);
    let (address, world) = (rig.stub.address, rig.stub.shared());
    rig.stub = Stub::start();
    rig.deliver_plain("while away");
    rig.wait("a failed attempt", || {
        rig.log().contains("not posted; trying again")
    });
    assert_eq!(rig.names("maildir/new").len(), 1);
    rig.stub = Stub::start_on(address, world);
    rig.stub
        .world()
        .message_faults
        .extend([Fault::Status(500), Fault::Status(503)]);
    rig.wait("the second mail", || rig.stub.world().messages.len() == 2);
    rig.wait("the move", || rig.names("maildir/new").is_empty());
    drop(running);
}

#[test]
fn a_poisoned_mail_is_set_aside_with_its_reason_and_the_others_go_on() {
    let rig = Rig::new();
    rig.stub.world().poison.push("poison".to_owned());
    rig.deliver_plain("poison");
    rig.deliver_plain("good");
    rig.once_ok(&[]);
    rig.once_ok(&[]);
    assert_eq!(rig.names("maildir/new"), [""; 0]);
    assert_eq!(rig.names("maildir/cur").len(), 2);
    assert_eq!(rig.stub.world().posts.len(), 2, "never refetched");
    let aside = rig.names("state/quarantine");
    assert_eq!(aside.len(), 1);
    let place = rig.path("state/quarantine").join(&aside[0]);
    assert_eq!(
        fs::read_to_string(place.join("mail.eml")).unwrap(),
        plain("poison")
    );
    let reason = fs::read_to_string(place.join("reason.txt")).unwrap();
    assert_eq!(reason, "muster answered 400: body: this is \\u{1b}[31mpoison\n");
    let status = rig.command(&[]).arg("--status").output().unwrap();
    assert!(
        String::from_utf8_lossy(&status.stdout).contains(reason.trim()),
        "{status:?}"
    );
    // Taking the copy away asks for another try.
    rig.stub.world().poison.clear();
    fs::rename(place.join("mail.eml"), rig.path("maildir/new/again")).unwrap();
    fs::remove_dir_all(place).unwrap();
    rig.once_ok(&[]);
    assert_eq!(rig.stub.world().messages.len(), 2);
}

#[test]
fn a_mail_that_always_breaks_the_server_does_not_hold_up_the_others() {
    let rig = Rig::new();
    rig.stub.world().breaking.push("breaking".to_owned());
    rig.deliver_plain("breaking");
    rig.deliver_plain("good");
    let _running = rig.start(&[]);
    // The server knows the mail a moment before the connector has moved it away.
    rig.wait("the other mail, and that only the breaking one is kept", || {
        rig.stub.world().external_id_of("good").is_some() && rig.names("maildir/new").len() == 1
    });
    rig.deliver_plain("later");
    rig.wait("a later mail", || {
        rig.stub.world().external_id_of("later").is_some()
    });
}

#[test]
fn a_connector_that_is_turned_away_stops_and_loses_nothing() {
    for (fault, expected) in [
        (401, "does not accept this connector's token"),
        (404, "MUSTER_PLUGINS=1"),
    ] {
        let rig = Rig::new();
        rig.stub.world().message_faults.push_back(Fault::Status(fault));
        rig.deliver_plain("noon");
        let mut running = rig.start(&[]);
        let status = running.0.wait().unwrap();
        assert_eq!(status.code(), Some(3), "{}", rig.log());
        assert!(rig.log().contains(expected), "{}", rig.log());
        assert_eq!(rig.names("maildir/new").len(), 1);
        rig.once_ok(&[]);
        assert_eq!(rig.stub.world().messages.len(), 1);
    }
}

#[test]
fn mail_from_the_own_address_is_never_posted() {
    let rig = Rig::new();
    rig.deliver(plain("loop").replace("Ada <ada@example.test>", "Me <ME@ours.test>"));
    rig.once_ok(&[]);
    rig.once_ok(&[]);
    assert_eq!(rig.stub.world().posts.len(), 0);
    assert_eq!(rig.names("maildir/cur").len(), 1);
}

#[test]
fn a_sender_is_verified_only_for_the_configured_server_id() {
    let verified = |results: &str, options: &[&str]| {
        let rig = Rig::new();
        rig.deliver(format!("Authentication-Results: {results}\n{}", plain("noon")));
        rig.once_ok(options);
        rig.stub.world().messages.values().next().unwrap()["sender_verified"]
            .as_bool()
            .unwrap()
    };
    let pass = "mx.ours.test; dmarc=pass header.from=example.test";
    assert!(verified(pass, &["--authserv-id", "MX.ours.test"]));
    assert!(!verified(pass, &[]));
    assert!(!verified(pass, &["--authserv-id", "mx.other.test"]));
    assert!(!verified(
        "mx.ours.test; spf=pass smtp.mailfrom=ada@example.test",
        &["--authserv-id", "mx.ours.test"]
    ));
}

#[test]
fn hostile_mails_all_arrive_within_the_limits() {
    let rig = Rig::new();
    let references: String = (0..10_000).map(|n| format!(" <r{n}@x.test>\n")).collect();
    let nested = "Content-Type: message/rfc822\n\n".repeat(50_000);
    let mails: Vec<Vec<u8>> = vec![
        b"\n".to_vec(),
        b"no headers, one line".to_vec(),
        (0..=255).collect::<Vec<u8>>().repeat(1000),
        format!("{}{}", plain("five megabytes"), "0123456789".repeat(500_000)).into_bytes(),
        plain("injection\r\n X: y\n\tBcc: eve@evil.test").into_bytes(),
        plain("id").replace("<id@", "<i\rd\0\n Bcc: eve@").into_bytes(),
        plain("references").replace("References:", &format!("References:\n{references} ")).into_bytes(),
        format!("From: a@x.test\n{nested}").into_bytes(),
        b"From: \xff\xfe <a@x.test>\nSubject: =?utf-8?b?/w==?=\nContent-Type: text/plain; charset=utf-16\n\n\x00\xd8".to_vec(),
        b"From: a@x.test, b@y.test\nFrom: c@z.test\nSubject: several\n\nx".to_vec(),
        b"From: Group of people: a@x.test, b@y.test;\nSubject: group\n\nx".to_vec(),
    ];
    let total = mails.len();
    for mail in mails {
        rig.deliver(mail);
    }
    rig.once_ok(&[]);
    assert_eq!(rig.names("maildir/new"), [""; 0]);
    assert_eq!(rig.names("state/quarantine"), [""; 0]);
    assert_eq!(rig.stub.world().messages.len(), total);
    rig.assert_no_violations();
}

#[test]
fn a_file_that_is_no_mail_is_left_alone() {
    let rig = Rig::new();
    fs::create_dir(rig.path("maildir/new/folder")).unwrap();
    nix::unistd::mkfifo(&rig.path("maildir/new/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("/dev/zero", rig.path("maildir/new/zero")).unwrap();
    rig.deliver_plain("good");
    rig.once_ok(&[]);
    assert_eq!(rig.stub.world().messages.len(), 1);
    assert_eq!(rig.names("maildir/new"), ["folder", "pipe", "zero"]);
}

#[test]
fn neither_the_token_nor_a_mail_reaches_the_log() {
    let rig = Rig::new();
    rig.stub.world().poison.push("secret subject".to_owned());
    rig.stub.world().message_faults.push_back(Fault::Status(500));
    rig.deliver_plain("secret subject");
    rig.deliver_plain("another secret");
    let output = rig
        .command(&[])
        .env("RUST_LOG", "trace")
        .arg("--once")
        .output()
        .unwrap();
    let log = stderr(&output);
    assert!(log.contains("posted"), "{log}");
    for word in [
        TOKEN.trim_start_matches("mpl_"),
        "secret",
        "poison",
        "ada@example.test",
        "body of",
    ] {
        assert!(!log.contains(word), "{word}: {log}");
    }
}

#[test]
fn a_hundred_thousand_handled_mails_do_not_slow_the_start() {
    let rig = Rig::new();
    rig.deliver_plain("first");
    rig.once_ok(&[]);
    let (id, record) = {
        let world = rig.stub.world();
        let id = world.messages.keys().next().unwrap().clone();
        let file = rig
            .path("state/mails")
            .join(id.split_at(id.len() - 2).1)
            .join(format!("{id}.json"));
        (id, fs::read(file).unwrap())
    };
    for shard in 0..256_u32 {
        let folder = rig.path("state/mails").join(format!("{shard:02x}"));
        fs::create_dir_all(&folder).unwrap();
        for number in 0..391_u32 {
            let name = format!("{}{number:06x}{shard:02x}.json", id.split_at(id.len() - 8).0);
            fs::write(folder.join(name), &record).unwrap();
        }
    }
    rig.deliver_plain("second");
    let started = Instant::now();
    rig.once_ok(&[]);
    let taken = started.elapsed();
    assert_eq!(rig.stub.world().messages.len(), 2);
    assert!(taken < Duration::from_secs(3), "{taken:?}");
}

#[test]
fn a_second_connector_on_the_same_state_is_refused() {
    let rig = Rig::new();
    let mut running = rig.start(&[]);
    rig.wait("the start", || rig.stub.world().claims > 0);
    let output = rig.once(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("Another muster-maildir works with the state folder"),
        "{output:?}"
    );
    let status = rig.command(&[]).arg("--status").output().unwrap();
    assert!(
        status.status.success(),
        "looking is allowed beside it: {status:?}"
    );
    let started = Instant::now();
    assert_eq!(running.terminate().code(), Some(0), "{}", rig.log());
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "a waiting claim does not delay the end"
    );
    rig.once_ok(&[]);
}

#[test]
fn wrong_usage_is_told_apart_and_touches_nothing() {
    let rig = Rig::new();
    let code = |command: &mut std::process::Command| {
        let output = command.output().unwrap();
        assert!(!output.stderr.is_empty());
        output.status.code()
    };
    assert_eq!(
        code(
            rig.command(&[])
                .arg("--once")
                .env_remove("MUSTER_CONNECTOR_TOKEN")
        ),
        Some(2)
    );
    assert_eq!(
        code(
            rig.command(&[])
                .arg("--once")
                .env("MUSTER_CONNECTOR_TOKEN", "mst_wrong_kind")
        ),
        Some(2)
    );
    assert_eq!(code(rig.command(&["--sendmail", ""]).arg("--once")), Some(2));
    assert_eq!(
        code(rig.command(&["--sendmail", "unbalanced '"]).arg("--once")),
        Some(2)
    );
    assert_eq!(
        code(rig.command(&["--sendmail", "true"]).args(["--outbox", "x"])),
        Some(2)
    );
    assert_eq!(code(rig.command(&["--unknown"]).arg("--once")), Some(2));
    assert_eq!(code(rig.command(&["--dismiss", "7"]).env_remove("X")), Some(2));
    fs::remove_dir(rig.path("maildir/cur")).unwrap();
    assert_eq!(code(rig.command(&[]).arg("--once")), Some(2));
    assert!(!rig.path("state").exists());
    let help = rig.command(&[]).arg("--help").output().unwrap();
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Example:"));
}

#[test]
fn the_token_comes_from_a_file_when_one_is_named() {
    let rig = Rig::new();
    fs::write(rig.path("token"), format!("{TOKEN}\n")).unwrap();
    rig.deliver_plain("noon");
    let output = rig
        .command(&["--once"])
        .arg("--token-file")
        .arg(rig.path("token"))
        .env_remove("MUSTER_CONNECTOR_TOKEN")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(rig.stub.world().messages.len(), 1);
}

#[test]
fn a_read_only_state_folder_is_a_sentence_and_no_loss() {
    let rig = Rig::new();
    rig.once_ok(&[]);
    // A file where a folder must be: the file system refuses, also for root.
    fs::remove_dir_all(rig.path("state/mails")).unwrap();
    fs::create_dir(rig.path("state/mails")).unwrap();
    rig.deliver_plain("noon");
    for shard in 0..256 {
        fs::write(rig.path("state/mails").join(format!("{shard:02x}")), b"").unwrap();
    }
    let output = rig.once(&[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("Nothing was lost"), "{output:?}");
    assert_eq!(rig.names("maildir/new").len(), 1);
    assert_eq!(rig.stub.world().messages.len(), 0);
}
