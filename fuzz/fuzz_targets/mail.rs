//! Reads any bytes as a mail and composes the reply to it. Never may a field exceed the limits of muster's door, or text of the mail become a header of the reply.
#![no_main]

use std::time::SystemTime;

use libfuzzer_sys::fuzz_target;
use muster_maildir::mail::{self, Authority, BODY_LIMIT, Found, LINE_LIMIT, READ_LIMIT, Rules};
use muster_maildir::reply::{self, Mailbox};

const REPLY_HEADERS: [&str; 10] = [
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "MIME-Version",
    "Content-Type",
    "Content-Transfer-Encoding",
];

fuzz_target!(|raw: &[u8]| {
    let head = &raw[..raw.len().min(READ_LIMIT)];
    let rules = Rules {
        own_address: "me@ours.test".to_owned(),
        authority: Some(Authority {
            authserv_id: "mx.ours.test".to_owned(),
            received_above: 1,
        }),
    };
    assert!(mail::is_external_id(&mail::external_id(head, &[7; 32])));
    let found = Found {
        head,
        size: raw.len() as u64,
        file_name: "1.a.host",
    };
    let mail = mail::read(found, &rules, 1_900_000_000);

    assert!((1..=BODY_LIMIT).contains(&mail.body.len()) && !mail.body.contains('\0'));
    for line in [&mail.sender, &mail.subject].into_iter().flatten() {
        assert!(line.chars().count() <= LINE_LIMIT && !line.contains(char::is_control));
    }
    if let Some(thread) = &mail.thread {
        assert!((1..=200).contains(&thread.len()) && !thread.contains(char::is_whitespace));
    }
    assert!(!mail.sender_verified || mail.reply.recipients.len() == 1);

    let from: Mailbox = "Me <me@ours.test>".parse().expect("a plain address");
    let date = SystemTime::UNIX_EPOCH;
    if let Ok(reply) = reply::compose(&mail.reply, &from, "<m@ours.test>", &mail.body, date) {
        let text = std::str::from_utf8(&reply).expect("quoted-printable is ASCII");
        let (headers, _) = text.split_once("\n\n").expect("a header block and a body");
        for line in headers.lines().filter(|line| !line.starts_with([' ', '\t'])) {
            let name = line.split(':').next().unwrap_or_default();
            assert!(REPLY_HEADERS.contains(&name), "{line}");
            assert!(line.len() <= 998);
        }
    }
});
