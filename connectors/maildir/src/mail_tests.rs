//! What becomes of ordinary, odd and hostile mails. Never reads a file: each mail stands here.

use super::*;

const NOW: i64 = 1_900_000_000;

fn rules() -> Rules {
    Rules {
        own_address: "me@ours.test".to_owned(),
        authority: Some(Authority {
            authserv_id: "mx.ours.test".to_owned(),
            received_above: 0,
        }),
    }
}

fn read_bytes(raw: &[u8]) -> Mail {
    let head = &raw[..raw.len().min(READ_LIMIT)];
    let size = u64::try_from(raw.len()).unwrap();
    let found = Found {
        head,
        size,
        file_name: "1.a.host",
    };
    let mail = read(found, &rules(), NOW);
    assert_fits(&mail);
    mail
}

fn read_text(raw: &str) -> Mail {
    read_bytes(raw.as_bytes())
}

/// The limits of muster's door, which every mail must keep.
fn assert_fits(mail: &Mail) {
    assert!(
        (1..=BODY_LIMIT).contains(&mail.body.len()),
        "body of {}",
        mail.body.len()
    );
    assert!(!mail.body.contains('\0'));
    for line in [&mail.sender, &mail.subject].into_iter().flatten() {
        assert!(line.chars().count() <= LINE_LIMIT && !line.is_empty());
        assert!(!line.contains(char::is_control), "{line:?}");
    }
    if let Some(thread) = &mail.thread {
        assert!((1..=200).contains(&thread.len()));
        assert!(!thread.contains(|letter: char| letter.is_whitespace() || letter.is_control()));
    }
    let ids = mail.reply.references.iter().chain(&mail.reply.message_id);
    assert!(ids.clone().count() <= 50);
    for id in ids {
        assert!(
            id.is_ascii() && id.len() <= 250 && !id.contains(['<', '>', ' ', '\r', '\n']),
            "{id:?}"
        );
    }
    for recipient in &mail.reply.recipients {
        assert!(
            recipient.is_ascii() && !recipient.contains(char::is_whitespace),
            "{recipient:?}"
        );
    }
}

const ORDINARY: &str = "From: Ada Lovelace <ada@example.test>\r\nTo: me@ours.test\r\nSubject: noon?\r\n\
    Date: Sat, 1 Jan 2028 10:00:00 +0200\r\nMessage-ID: <m2@example.test>\r\n\
    In-Reply-To: <m1@example.test>\r\nReferences: <m0@example.test> <m1@example.test>\r\n\r\nHello,\r\nis noon fine?\r\n";

#[test]
fn an_ordinary_mail_arrives_whole() {
    let mail = read_text(ORDINARY);
    assert_eq!(mail.sender.as_deref(), Some("Ada Lovelace <ada@example.test>"));
    assert_eq!(mail.subject.as_deref(), Some("noon?"));
    assert_eq!(mail.body, "Hello,\nis noon fine?");
    assert_eq!(
        mail.sent_at.map(|at| at.to_string()).as_deref(),
        Some("2028-01-01T08:00:00Z")
    );
    assert_eq!(mail.thread.as_deref(), Some("m0@example.test"));
    assert!(!mail.no_reply && !mail.sender_verified && !mail.from_own_address);
    assert_eq!(mail.reply.recipients, ["ada@example.test"]);
    assert_eq!(mail.reply.subject, "noon?");
    assert_eq!(mail.reply.message_id.as_deref(), Some("m2@example.test"));
    assert_eq!(mail.reply.references, ["m0@example.test", "m1@example.test"]);
}

#[test]
fn the_id_depends_on_all_bytes_and_never_on_the_file_name() {
    let one = external_id(ORDINARY.as_bytes(), &[1; 32]);
    assert!(is_external_id(&one) && one.len() <= 200, "{one}");
    assert_ne!(one, external_id(ORDINARY.as_bytes(), &[2; 32]));
    let other_id = ORDINARY.replace("<m2@", "<m3@");
    assert_ne!(one, external_id(other_id.as_bytes(), &[1; 32]));
    assert!(is_external_id(&external_id(b"\xff\0 no headers", &[0; 32])));
    for wrong in [
        "",
        "m-",
        "../x",
        one.trim_start_matches('m'),
        &format!("{one}0"),
        &one.to_uppercase(),
        &one.replace('a', "g"),
    ] {
        assert!(wrong == one || !is_external_id(wrong), "{wrong}");
    }
}

#[test]
fn the_thread_is_the_first_reference_else_the_parent_else_the_mail_itself() {
    let thread = |headers: &str| read_text(&format!("From: a@x.test\n{headers}\nx")).thread;
    assert_eq!(
        thread("References: <r1@x> <r2@x>\nIn-Reply-To: <p@x>\nMessage-ID: <m@x>\n").as_deref(),
        Some("r1@x")
    );
    assert_eq!(
        thread("In-Reply-To: <p@x>\nMessage-ID: <m@x>\n").as_deref(),
        Some("p@x")
    );
    assert_eq!(thread("Message-ID: <m@x>\n").as_deref(), Some("m@x"));
    assert_eq!(thread("Subject: none\n"), None);
    let long = thread(&format!("Message-ID: <{}@x>\n", "a".repeat(300))).unwrap();
    assert!(long.starts_with("t-") && long.len() == 66, "{long}");
    assert_ne!(
        long,
        thread(&format!("Message-ID: <{}@x>\n", "a".repeat(301))).unwrap()
    );
    let blank = thread("Message-ID: <a b@x>\n").unwrap();
    assert!(!blank.contains(' '), "{blank}");
}

#[test]
fn encoded_headers_are_decoded_and_cut() {
    let mail = read_text(
        "From: =?iso-8859-1?q?J=FCrgen?= =?utf-8?b?IOKCrA==?= <j@x.test>\nSubject: =?utf-8?q?caf=C3=A9_=0D=0ABcc:_x?=\n\nx",
    );
    assert_eq!(mail.sender.as_deref(), Some("Jürgen € <j@x.test>"));
    assert_eq!(mail.subject.as_deref(), Some("café Bcc: x"));
    let mail = read_text(&format!(
        "From: {} <j@x.test>\nSubject: {}\n\nx",
        "N".repeat(500),
        "S".repeat(500)
    ));
    let sender = mail.sender.unwrap();
    assert!(
        sender.ends_with("… <j@x.test>") && sender.chars().count() == 200,
        "{sender}"
    );
    let subject = mail.subject.unwrap();
    assert!(subject.ends_with('…') && subject.chars().count() == 200);
    assert_eq!(mail.reply.subject.chars().count(), 300);
}

#[test]
fn an_address_that_does_not_fit_is_never_cut() {
    let local = "a".repeat(240);
    let mail = read_text(&format!("From: N <{local}@x.test>\nSubject: s\n\nhello"));
    assert_eq!(mail.sender, None);
    assert!(mail.body.contains("address is too long to be shown"));
    assert!(!mail.no_reply, "it can still be answered");
    let mail = read_text(&format!("From: N <{}@x.test>\n\nhello", "a".repeat(190)));
    assert_eq!(mail.sender.map(|sender| sender.len()), Some(197));
}

#[test]
fn the_plain_part_is_chosen_and_attachments_are_only_named() {
    let mail = read_text(
        "From: a@x.test\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=A\n\n\
         --A\nContent-Type: multipart/alternative; boundary=B\n\n\
         --B\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\nna=C3=AFve\n\
         --B\nContent-Type: text/html\n\n<p>html</p>\n--B--\n\
         --A\nContent-Type: text/plain; name=notes.txt\nContent-Disposition: attachment; filename=\"notes\t.txt\"\n\nsecret\n\
         --A\nContent-Type: image/png\nContent-Disposition: attachment\n\nxx\n--A--\n",
    );
    assert_eq!(
        mail.body,
        "naïve\n\n[attachments, not included: notes .txt, a part without a name]"
    );
}

#[test]
fn html_alone_becomes_text_and_a_blank_plain_part_does_not_hide_it() {
    let mail =
        read_text("From: a@x.test\nContent-Type: text/html\n\n<div>Hello</div><div>Ada &amp; Bob</div>");
    assert_eq!(mail.body, "Hello\nAda & Bob");
    let mail = read_text(
        "From: a@x.test\nContent-Type: multipart/alternative; boundary=B\n\n--B\n\n \n--B\nContent-Type: text/html\n\n<b>shown</b>\n--B--\n",
    );
    assert_eq!(mail.body.trim(), "shown");
    assert_eq!(read_text("From: a@x.test\n\n").body, "[this mail has no text]");
}

#[test]
fn a_long_text_is_cut_on_a_character_and_says_how_much_is_missing() {
    let text = "é".repeat(20_000);
    let mail = read_text(&format!(
        "From: a@x.test\nContent-Type: text/plain; charset=utf-8\n\n{text}"
    ));
    let (kept, note) = mail.body.rsplit_once("\n\n").unwrap();
    assert!(mail.body.len() > BODY_LIMIT - 200, "{}", mail.body.len());
    assert!(kept.chars().all(|letter| letter == 'é'));
    let left_out = text.len() - kept.len();
    assert_eq!(
        note,
        format!("[left out: {left_out} bytes of text; the whole mail is the file 1.a.host in the Maildir]")
    );
    for length in BODY_LIMIT - 300..=BODY_LIMIT {
        let mail = read_text(&format!("From: a@x.test\n\n{}", "x".repeat(length)));
        assert_eq!(mail.body.len(), length, "what fits is not touched");
    }
}

#[test]
fn what_lies_behind_the_read_limit_is_named_as_unread() {
    let mut raw = b"From: a@x.test\nContent-Type: multipart/mixed; boundary=A\n\n--A\n\nshort text\n--A\n\
        Content-Type: application/zip; name=big.zip\nContent-Transfer-Encoding: base64\n\n"
        .to_vec();
    raw.extend("QUJD".repeat(1_250_000).bytes());
    let mail = read_bytes(&raw);
    let expected = format!(
        "short text\n\n[attachments, not included: big.zip]\n\n[only the first {READ_LIMIT} bytes of {} were read; \
         the whole mail is the file 1.a.host in the Maildir]",
        raw.len()
    );
    assert_eq!(mail.body, expected);
    let mail = read_bytes(format!("From: a@x.test\n\n{}", "word ".repeat(1_000_000)).as_bytes());
    assert!(mail.body.contains("[left out: at least "), "{}", mail.body);
}

#[test]
fn a_date_that_no_mail_can_have_is_not_believed() {
    let sent = |date: &str| read_text(&format!("From: a@x.test\nDate: {date}\n\nx")).sent_at;
    for wrong in [
        "",
        "yesterday",
        "Sat, 99 Foo 2028 99:99:99 +9999",
        "Sat, 1 Jan 1960 10:00:00 +0000",
        "Sat, 1 Jan 2095 10:00:00 +0000",
        "Sat, 1 Jan 99999 10:00:00 +0000",
    ] {
        assert_eq!(sent(wrong), None, "{wrong}");
    }
    assert!(sent("1 Jan 2028 10:00 -0330").is_some());
}

#[test]
fn a_list_mail_and_an_unreachable_sender_take_no_reply() {
    assert!(read_text("From: a@x.test\nList-Id: <l.x.test>\n\nx").no_reply);
    assert!(read_text("From: noreply@x.test\n\nx").no_reply);
    assert!(read_text("Subject: no sender\n\nx").no_reply);
    assert!(read_text("From: a name without address\n\nx").no_reply);
    assert!(read_text("From: undisclosed:;\n\nx").no_reply);
    assert!(!read_text("From: noreply@forge.test\nReply-To: reply+1@forge.test\n\nx").no_reply);
}

#[test]
fn mail_from_the_own_address_is_known_as_such() {
    for own in ["me@ours.test", "Me <ME@OURS.TEST>", "a@x.test, me@ours.test"] {
        assert!(read_text(&format!("From: {own}\n\nx")).from_own_address, "{own}");
    }
    assert!(!read_text("From: \"me@ours.test\" <a@x.test>\n\nx").from_own_address);
}

#[test]
fn recipients_that_are_not_the_sender_are_shown_to_the_owner() {
    let mail = read_text("From: a@x.test\nReply-To: B <b@y.test>, c@z.test\n\nhello");
    assert_eq!(mail.body, "hello\n\n[a reply goes to: b@y.test, c@z.test]");
    assert_eq!(mail.reply.recipients, ["b@y.test", "c@z.test"]);
    let mail = read_text("From: a@x.test, d@x.test\n\nhello");
    assert_eq!(mail.sender.as_deref(), Some("a@x.test"));
    assert_eq!(mail.body, "hello\n\n[a reply goes to: a@x.test, d@x.test]");
    assert_eq!(
        read_text("From: a@x.test\nReply-To: A@X.TEST\n\nhello")
            .body
            .lines()
            .count(),
        1
    );
}

#[test]
fn a_sender_is_verified_only_when_the_answer_goes_to_the_proven_address() {
    const PASS: &str =
        "Authentication-Results: mx.ours.test; dmarc=pass header.from=x.test\nReceived: by mx.ours.test\n";
    let verified = |rest: &str| read_text(&format!("{PASS}{rest}\n\nhello")).sender_verified;
    assert!(verified("From: Ada <a@x.test>"));
    assert!(verified("From: Ada <a@X.TEST>\nReply-To: a@x.test"));
    assert!(!verified("From: Ada <a@x.test>\nReply-To: eve@evil.test"));
    assert!(!verified(
        "From: Ada <a@x.test>\nReply-To: a@x.test, eve@evil.test"
    ));
    assert!(!verified("From: a@x.test, b@x.test"));
    assert!(!verified("From: a@x.test\nFrom: b@x.test"));
    assert!(!verified("From: a@y.test"));
    assert!(!verified("From: a@x.test <b@x.test>"));
    assert!(!verified("Sender: a@x.test"));
    let mut alone = rules();
    alone.authority = None;
    let raw = format!("{PASS}From: a@x.test\n\nhello");
    let found = Found {
        head: raw.as_bytes(),
        size: 0,
        file_name: "f",
    };
    assert!(!read(found, &alone, NOW).sender_verified);
}

#[test]
fn ten_thousand_references_keep_the_first_and_the_latest() {
    let list: String = (0..10_000).map(|n| format!(" <r{n}@x.test>\n")).collect();
    let mail = read_text(&format!(
        "From: a@x.test\nMessage-ID: <m@x.test>\nReferences:{list}\nx"
    ));
    assert_eq!(mail.thread.as_deref(), Some("r0@x.test"));
    assert_eq!(mail.reply.references.len(), 49);
    assert_eq!(mail.reply.references.first().unwrap(), "r0@x.test");
    assert_eq!(mail.reply.references.last().unwrap(), "r9999@x.test");
    let mail = read_text("From: a@x.test\nMessage-ID: <m@x>\nIn-Reply-To: <a@x> <b@x>\n\nx");
    assert_eq!(
        mail.reply.references, [""; 0],
        "which of two parents is the thread is not known"
    );
}

#[test]
fn hostile_bytes_become_a_message_that_muster_can_take() {
    let mut junk: Vec<u8> = (0..=255).collect::<Vec<u8>>().repeat(300);
    junk.extend(b"From: a@x.test\n");
    for raw in [
        b"".to_vec(),
        b"\n".to_vec(),
        b"\n\nno headers at all, only text".to_vec(),
        b"no colon anywhere".to_vec(),
        junk,
        vec![0; 100_000],
        b"From: \xff\xfe\x80 <a\xff@x.test>\nSubject: \xc3\x28\x1b[2J\nContent-Type: text/plain; charset=utf-8\n\n\xff\xfe\0\x1b[0m".to_vec(),
        b"From: =?x-none?q?=00=FF?= <a@x.test>\nSubject: =?utf-8?b?////?= =?utf-7?q?+AGE-?=\nContent-Type: text/plain; charset=x-none\n\n\x80\x81".to_vec(),
        b"From: a@x.test\nContent-Type: text/plain; charset=iso-2022-jp\n\n\x1b$B!!\x1b(B\x1b$".to_vec(),
        b"From: \"\\\"<a@x.test>\nReply-To: ((((((\nMessage-ID: <>\nReferences: <<<>>> <a\x00b@x>\n\nx".to_vec(),
        format!("From: {}\n\nx", "(".repeat(50_000)).into_bytes(),
        format!("From: {}a@x.test;\n\nx", "g:".repeat(10_000)).into_bytes(),
        format!("From: {}\n\nx", "a@x.test,".repeat(20_000)).into_bytes(),
        format!("Subject: {}\n\nx", "=?utf-8?q?a?= ".repeat(20_000)).into_bytes(),
        format!("From: a@x.test\nContent-Type: text/html\n\n{}", "<div".repeat(50_000)).into_bytes(),
    ] {
        read_bytes(&raw);
    }
}

#[test]
fn a_mail_with_any_bytes_changed_still_fits() {
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let mut below = |limit: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed % u64::try_from(limit).unwrap()).unwrap()
    };
    let seeds: [&[u8]; 4] = [
        ORDINARY.as_bytes(),
        b"From: =?utf-8?q?J=C3=BC?= <j@x.test>\nReply-To: a@x.test (c), G: b@x.test;\nContent-Type: multipart/alternative; boundary=\"B\"\n\n--B\nContent-Type: text/plain; charset=iso-2022-jp\nContent-Transfer-Encoding: base64\n\nYWJj\n--B\nContent-Type: text/html\n\n<p>a&amp;<!-- x --><br>\xc3\xa9&#x1F600;</p><style>x\n--B--\n",
        b"Authentication-Results: mx.ours.test (c); dkim=pass (ok) header.d=\"x.test\"\nReceived: by mx.ours.test\nFrom: a@x.test\nMessage-ID: <a@b>\nReferences: <c@d> <e@f>\n\nhello",
        b"From: a@x.test\nContent-Type: multipart/digest; boundary=x\n\n--x\n\nSubject: a\n\nb\n--x\nContent-Type: message/rfc822; name*=utf-8''%41\n\nFrom: b\n\nc\n--x--\n",
    ];
    const DICTIONARY: [&[u8]; 12] = [
        b"\n", b"\r\n", b"\n\n", b"=?", b"?=", b"<", b"(", b"\"", b"\\", b"\xff", b"\0", b"--x",
    ];
    for _ in 0..4000 {
        let mut raw = seeds[below(seeds.len())].to_vec();
        for _ in 0..=below(12) {
            let at = below(raw.len().max(1)).min(raw.len());
            match below(4) {
                0 => raw.insert(at, u8::try_from(below(256)).unwrap()),
                1 => drop(raw.drain(at..(at + below(20)).min(raw.len()))),
                2 => drop(raw.splice(at..at, DICTIONARY[below(DICTIONARY.len())].iter().copied())),
                _ => {
                    let other = seeds[below(seeds.len())];
                    let from = below(other.len());
                    let piece = &other[from..(from + below(60)).min(other.len())];
                    raw.splice(at..at, piece.iter().copied());
                }
            }
        }
        read_bytes(&raw);
    }
}
