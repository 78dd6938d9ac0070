//! kill -9 at any moment: no mail lost or doubled, no reply sent twice. Never a moment chosen by the program under test.
#![cfg(test)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use common::stub::{Fate, Fault};
use common::{Rig, header, plain};

/// A small generator, so that a failed run can be repeated from its seed.
struct Chance(u64);

impl Chance {
    fn new() -> Self {
        let seed = std::env::var("MUSTER_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok());
        let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) * 7919 + 1);
        println!("MUSTER_TEST_SEED={seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// Runs the connector and kills it, `kills` times, while mails arrive and answers get lost; then lets it finish.
fn torment(rig: &Rig, way: &[&str], kills: u32) -> u32 {
    let mut chance = Chance::new();
    rig.stub.world().approve_all = true;
    let mut mails = 0;
    for _ in 0..kills {
        for _ in 0..chance.below(3) {
            mails += 1;
            rig.deliver_plain(&format!("mail-{mails}"));
        }
        if chance.below(4) == 0 {
            rig.stub.world().message_faults.push_back(Fault::LoseAnswer);
        }
        if chance.below(6) == 0 {
            rig.stub.world().result_faults.push_back(Fault::LoseAnswer);
        }
        let running = rig.start(way);
        // Most moments lie where the work is done, some before it starts and some in the waiting claim.
        std::thread::sleep(Duration::from_millis(5 + chance.below(120)));
        running.kill_9();
    }
    rig.stub.world().message_faults.clear();
    rig.stub.world().result_faults.clear();
    rig.once_ok(way);
    rig.once_ok(way);
    mails
}

fn assert_no_mail_lost_or_doubled(rig: &Rig, mails: u32) {
    let world = rig.stub.world();
    let mut stored: BTreeMap<&str, u32> = BTreeMap::new();
    for message in world.messages.values() {
        *stored.entry(message["subject"].as_str().unwrap()).or_default() += 1;
    }
    assert_eq!(u32::try_from(world.messages.len()).unwrap(), mails);
    for number in 1..=mails {
        assert_eq!(
            stored.get(format!("mail-{number}").as_str()),
            Some(&1),
            "mail-{number}"
        );
    }
    drop(world);
    assert_eq!(rig.names("maildir/new"), [""; 0]);
    let cur = rig.names("maildir/cur");
    assert_eq!(u32::try_from(cur.len()).unwrap(), mails);
    for (number, name) in (1..).zip(&cur) {
        assert!(name.ends_with(":2,S"), "{name}");
        let kept = fs::read_to_string(rig.path("maildir/cur").join(name)).unwrap();
        assert_eq!(kept, plain(&format!("mail-{number}")));
    }
    rig.assert_no_violations();
}

#[test]
fn kill_9_at_any_moment_loses_no_mail_and_doubles_no_reply() {
    let rig = Rig::new();
    let mails = torment(&rig, &[], 80);
    assert_no_mail_lost_or_doubled(&rig, mails);

    let mut sent: BTreeMap<String, u32> = BTreeMap::new();
    for mail in rig.outbox() {
        let parent = header(&mail, "In-Reply-To").unwrap();
        assert_eq!(header(&mail, "To").as_deref(), Some("ada@example.test"));
        let subject = parent
            .trim_start_matches('<')
            .split('@')
            .next()
            .unwrap()
            .to_owned();
        assert_eq!(
            header(&mail, "References"),
            Some(format!("<root-{subject}@example.test> {parent}"))
        );
        assert_eq!(header(&mail, "Subject"), Some(format!("Re: {subject}")));
        assert!(mail.ends_with(&format!("\n\nreply to {subject}\n")), "{mail}");
        *sent.entry(format!("reply to {subject}")).or_default() += 1;
    }
    let world = rig.stub.world();
    let mut fates: BTreeMap<&str, u32> = BTreeMap::new();
    for draft in world.drafts.values() {
        let count = sent.get(&draft.body).copied().unwrap_or_default();
        assert_eq!(draft.claims, 1, "{draft:?}");
        let (name, expected) = match draft.fate {
            Fate::Sent => ("sent", 1),
            Fate::Failed => ("failed", 0),
            // The answer of its claim was lost: nothing was sent, and it lapses to unconfirmed.
            Fate::Claimed => ("unconfirmed", 0),
            Fate::Approved => panic!("never claimed: {draft:?}"),
        };
        assert_eq!(count, expected, "{draft:?}");
        *fates.entry(name).or_default() += 1;
    }
    println!("{mails} mails, replies {fates:?}");
    assert!(fates.get("sent").copied().unwrap_or_default() > 0);
    drop(world);
    assert_eq!(
        rig.names("outbox/tmp"),
        [""; 0],
        "what was left half-written is cleared away"
    );
    assert_eq!(rig.names("state/drafts/open"), [""; 0]);
    assert_eq!(
        rig.names("state/drafts/unknown"),
        [""; 0],
        "an outbox leaves no doubt"
    );
}

#[test]
fn kill_9_at_any_moment_runs_no_sendmail_twice() {
    let rig = Rig::new();
    let script = rig.path("sendmail.sh");
    let sent = rig.path("sent");
    fs::create_dir(&sent).unwrap();
    let text = format!(
        "#!/bin/sh\nout=$(mktemp {}/XXXXXX)\ncat >$out\nsleep 0.0$((RANDOM_MS % 9))\n",
        sent.display()
    );
    fs::write(&script, text.replace("RANDOM_MS", "$$")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let line = script.display().to_string();
    let mails = torment(&rig, &["--sendmail", &line], 40);
    assert_no_mail_lost_or_doubled(&rig, mails);

    let mut runs: BTreeMap<String, u32> = BTreeMap::new();
    for name in rig.names("sent") {
        let mail = fs::read_to_string(sent.join(name)).unwrap();
        let body = mail.rsplit("\n\n").next().unwrap().trim().to_owned();
        *runs.entry(body).or_default() += 1;
    }
    let world = rig.stub.world();
    for draft in world.drafts.values() {
        let count = runs.get(&draft.body).copied().unwrap_or_default();
        match draft.fate {
            Fate::Sent => assert_eq!(count, 1, "{draft:?}"),
            Fate::Failed => assert_eq!(count, 0, "{draft:?}"),
            Fate::Claimed | Fate::Approved => assert!(count <= 1, "{draft:?}"),
        }
    }
    println!(
        "{mails} mails, {} runs of sendmail for {} replies",
        runs.len(),
        world.drafts.len()
    );
}
