//! The reply mail as another mail program would read it. Never compares whole mails byte by byte: the library's layout may change.

use super::*;
use crate::mail::{Found, Rules, read};
use mail_parser::{HeaderValue, MessageParser, MimeHeaders as _};
use std::time::Duration;

fn from() -> Mailbox {
    "Jürgen Müller <me@ours.test>".parse().unwrap()
}

fn facts() -> ReplyFacts {
    ReplyFacts {
        recipients: vec!["ada@example.test".to_owned()],
        subject: "noon?".to_owned(),
        message_id: Some("m2@example.test".to_owned()),
        references: vec!["m0@example.test".to_owned(), "m1@example.test".to_owned()],
    }
}

fn composed(facts: &ReplyFacts, text: &str) -> Vec<u8> {
    let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
    let bytes = compose(facts, &from(), "<muster.17.00@ours.test>", text, date).unwrap();
    assert!(!bytes.contains(&b'\r'), "LF line ends only");
    assert!(bytes.is_ascii());
    assert!(bytes.split(|byte| *byte == b'\n').all(|line| line.len() <= 998));
    bytes
}

fn header_names(mail: &[u8]) -> Vec<String> {
    let fields = crate::headers::split(mail);
    fields.into_iter().map(|field| field.name).collect()
}

#[test]
fn a_reply_reaches_the_right_people_in_the_right_thread() {
    let bytes = composed(&facts(), "Thanks, noon works.\r\n\r\n— Jürgen\u{a0}\n");
    let mail = MessageParser::default().parse(&bytes).unwrap();
    let sender = mail.from().unwrap().first().unwrap();
    assert_eq!(
        (sender.name(), sender.address()),
        (Some("Jürgen Müller"), Some("me@ours.test"))
    );
    assert_eq!(
        mail.to().unwrap().first().unwrap().address(),
        Some("ada@example.test")
    );
    assert_eq!(mail.subject(), Some("Re: noon?"));
    assert_eq!(mail.message_id(), Some("muster.17.00@ours.test"));
    assert_eq!(mail.in_reply_to(), &HeaderValue::Text("m2@example.test".into()));
    let references = ["m0@example.test", "m1@example.test", "m2@example.test"];
    assert_eq!(
        mail.references().as_text_list().unwrap(),
        references.map(std::borrow::Cow::from)
    );
    assert_eq!(mail.date().unwrap().to_timestamp(), 1_900_000_000);
    assert_eq!(
        mail.body_text(0).unwrap().replace("\r\n", "\n"),
        "Thanks, noon works.\n\n— Jürgen\u{a0}\n"
    );
    let content_type = mail.content_type().unwrap();
    assert_eq!(
        (content_type.ctype(), content_type.subtype()),
        ("text", Some("plain"))
    );
    assert_eq!(content_type.attribute("charset"), Some("utf-8"));
    let mut names = header_names(&bytes);
    names.sort();
    assert_eq!(
        names,
        [
            "content-transfer-encoding",
            "content-type",
            "date",
            "from",
            "in-reply-to",
            "message-id",
            "mime-version",
            "references",
            "subject",
            "to"
        ]
    );
}

#[test]
fn the_approved_text_arrives_unchanged() {
    for text in [
        "one line",
        ".\n..\nFrom the start\n.",
        "trailing blanks  \n\ttabs\t\n=3D=\n",
        "a\n\n\n\nb",
        "\u{1F600} \u{202e}bidi\u{feff}",
        "lone \r carriage return",
        "nul \0 inside",
        &"long line ".repeat(1000),
        &"ü".repeat(8000),
    ] {
        let bytes = composed(&facts(), text);
        let mail = MessageParser::default().parse(&bytes).unwrap();
        let got = mail.body_text(0).unwrap().replace("\r\n", "\n");
        assert_eq!(
            got.trim_end_matches('\n'),
            text.trim_end_matches('\n'),
            "{text:?}"
        );
    }
}

#[test]
fn no_field_of_the_original_can_add_a_header() {
    let expected = header_names(&composed(&facts(), "x"));
    for evil in [
        "a\r\nBcc: eve@evil.test",
        "a\nBcc: eve@evil.test",
        "a\rBcc: eve@evil.test",
        "a\r\n\r\nbody",
        "\u{85}Bcc: x",
        "\u{2028}Bcc: x",
        "=?utf-8?q?=0D=0ABcc:_x?=",
        "\0\0",
        "<>",
        "> <eve",
        "é\r\nBcc: x",
    ] {
        let mut hostile = facts();
        hostile.subject = evil.to_owned();
        hostile.message_id = Some(format!("m{evil}@x.test"));
        hostile.references = vec![format!("r{evil}@x.test")];
        let bytes = composed(&hostile, "x");
        assert_eq!(header_names(&bytes), expected, "{evil:?}");
        hostile.recipients = vec![format!("ada{evil}@x.test")];
        let date = SystemTime::UNIX_EPOCH;
        assert_eq!(
            compose(&hostile, &from(), "<m@x>", "x", date),
            Err(ReplyError::NoRecipient),
            "{evil:?}"
        );
    }
}

#[test]
fn a_subject_says_re_once_and_is_encoded_when_it_must_be() {
    let subject = |original: &str| {
        let bytes = composed(
            &ReplyFacts {
                subject: original.to_owned(),
                ..facts()
            },
            "x",
        );
        let mail = MessageParser::default().parse(&bytes).unwrap();
        mail.subject().unwrap_or_default().to_owned()
    };
    assert_eq!(subject("noon?"), "Re: noon?");
    assert_eq!(subject("Re: noon?"), "Re: noon?");
    assert_eq!(subject("RE: noon?"), "RE: noon?");
    assert_eq!(subject("Ré: noon?"), "Re: Ré: noon?");
    assert_eq!(subject("Grüße aus 東京"), "Re: Grüße aus 東京");
    assert_eq!(
        subject(&"wörter ".repeat(40)),
        format!("Re: {}", "wörter ".repeat(40).trim())
    );
    assert_eq!(subject(""), "Re:");
    assert_eq!(subject("=?utf-8?q?x?="), "Re: = ?utf-8?q?x?=");
}

#[test]
fn names_and_addresses_that_the_library_would_not_parse_are_written() {
    let token = format!("reply+{}@forge.test", "A".repeat(100));
    let many = ReplyFacts {
        recipients: vec![token.clone(), "-oQ@x.test".to_owned()],
        ..facts()
    };
    let odd = Mailbox::new(
        Some("Müller, \"J\" <x>".to_owned()),
        "me@ours.test".parse().unwrap(),
    );
    let bytes = compose(&many, &odd, "<m@ours.test>", "x", SystemTime::UNIX_EPOCH).unwrap();
    let mail = MessageParser::default().parse(&bytes).unwrap();
    let to: Vec<_> = mail
        .to()
        .unwrap()
        .iter()
        .filter_map(|entry| entry.address())
        .collect();
    assert_eq!(to, [token.as_str(), "-oQ@x.test"]);
    let sender = mail.from().unwrap().first().unwrap();
    assert_eq!(
        (sender.name(), sender.address()),
        (Some("Müller, \"J\" <x>"), Some("me@ours.test"))
    );
}

#[test]
fn fifty_long_references_are_folded() {
    let mut long = facts();
    long.references = (0..49).map(|n| format!("{n:0>240}@x.test")).collect();
    let bytes = composed(&long, "x");
    let mail = MessageParser::default().parse(&bytes).unwrap();
    assert_eq!(mail.references().as_text_list().unwrap().len(), 50);
}

#[test]
fn a_mail_that_nobody_can_answer_gets_no_reply() {
    let nobody = ReplyFacts {
        recipients: Vec::new(),
        ..facts()
    };
    assert_eq!(
        compose(&nobody, &from(), "<m@x>", "x", SystemTime::UNIX_EPOCH),
        Err(ReplyError::NoRecipient)
    );
    let lonely = ReplyFacts {
        message_id: None,
        ..facts()
    };
    let names = header_names(&composed(&lonely, "x"));
    assert!(
        !names
            .iter()
            .any(|name| name == "in-reply-to" || name == "references")
    );
}

#[test]
fn a_reply_to_a_reply_stays_in_the_thread() {
    let bytes = composed(&facts(), "first answer");
    let text = String::from_utf8(bytes)
        .unwrap()
        .replace("me@ours.test", "ada@example.test");
    let rules = Rules {
        own_address: "me@ours.test".to_owned(),
        authority: None,
    };
    let found = Found {
        head: text.as_bytes(),
        size: 0,
        file_name: "f",
    };
    let mail = read(found, &rules, 0);
    assert_eq!(mail.thread.as_deref(), Some("m0@example.test"));
    assert_eq!(mail.reply.message_id.as_deref(), Some("muster.17.00@ours.test"));
    assert_eq!(
        mail.reply.references,
        ["m0@example.test", "m1@example.test", "m2@example.test"]
    );
}

#[test]
fn message_ids_of_two_servers_that_count_alike_differ() {
    assert_eq!(
        message_id(7, 255, &from()),
        "<muster.7.000000000000000000000000000000ff@ours.test>"
    );
    assert_ne!(message_id(7, 1, &from()), message_id(7, 2, &from()));
}
