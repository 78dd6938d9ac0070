//! Limits of every bounded text, at their edges, and laws of the terminal form.

use proptest::prelude::*;

use super::{
    BODY_MAX_BYTES, DataScope, Detail, ExternalId, ExternalRef, Label, MessageBody, ReplyBody, Sender, Slug,
    Subject, TextError, ThreadId, fold, terminal, unseen,
};

macro_rules! verdicts {
    ($kind:ident: $($text:expr => $good:expr),+ $(,)?) => {
        $(assert_eq!($kind::parse("field", $text).is_ok(), $good, "{} {:?}", stringify!($kind), $text);)+
    };
}

// spec: MSG-005..MSG-007
#[test]
fn an_external_id_is_1_to_200_bytes_without_blanks_or_controls() {
    verdicts!(ExternalId:
        "" => false,
        "x" => true,
        "x".repeat(200) => true,
        "x".repeat(201) => false,
        "é".repeat(100) => true,
        "é".repeat(101) => false,
        "a b" => false,
        "a\tb" => false,
        "a\0b" => false,
        "a\u{7f}b" => false,
        "a\u{85}b" => false,
        "a\u{a0}b" => false,
        "a\u{3000}b" => false,
        "a\u{2028}b" => false,
        "a\n" => false,
        "<msg-0001@example.test>" => true,
    );
}

// spec: MSG-018
#[test]
fn a_thread_id_has_the_rule_of_an_external_id() {
    verdicts!(ThreadId:
        "" => false,
        "x".repeat(200) => true,
        "x".repeat(201) => false,
        "a b" => false,
        "a\u{1}b" => false,
        "T1" => true,
    );
    assert_ne!(ThreadId::parse("thread", "T1"), ThreadId::parse("thread", "t1"));
}

// spec: MSG-010 MSG-011
#[test]
fn a_body_is_1_byte_to_16_kib_of_utf_8() {
    verdicts!(MessageBody:
        "" => false,
        "x" => true,
        "x".repeat(16_384) => true,
        "x".repeat(16_385) => false,
        "é".repeat(8_192) => true,
        "é".repeat(8_193) => false,
        " " => true,
    );
}

// spec: MSG-012..MSG-014
#[test]
fn sender_and_subject_are_at_most_200_characters() {
    verdicts!(Sender: "" => true, "x".repeat(200) => true, "x".repeat(201) => false, "é".repeat(200) => true, "é".repeat(201) => false);
    verdicts!(Subject: "" => true, "x".repeat(200) => true, "x".repeat(201) => false, "👍".repeat(200) => true, "👍".repeat(201) => false);
}

#[test]
fn a_result_has_its_limits() {
    verdicts!(ExternalRef: "" => true, "é".repeat(200) => true, "x".repeat(201) => false);
    verdicts!(Detail: "" => true, "x".repeat(4_096) => true, "x".repeat(4_097) => false, "é".repeat(2_049) => false);
}

// spec: MSG-030
#[test]
fn a_nul_is_refused_in_every_text() {
    let text = "a\0b";
    let refused = TextError::Character {
        field: "f",
        what: "a NUL character",
        at: 2,
    };
    assert_eq!(Sender::parse("f", text), Err(refused.clone()));
    assert_eq!(Subject::parse("f", text), Err(refused.clone()));
    assert_eq!(MessageBody::parse("f", text), Err(refused.clone()));
    assert_eq!(ReplyBody::parse("f", text), Err(refused.clone()));
    assert_eq!(ExternalRef::parse("f", text), Err(refused.clone()));
    assert_eq!(Detail::parse("f", text), Err(refused.clone()));
    assert_eq!(ExternalId::parse("f", text), Err(refused.clone()));
    assert_eq!(ThreadId::parse("f", text), Err(refused.clone()));
    assert_eq!(Label::parse("f", text), Err(refused.clone()));
    assert_eq!(DataScope::parse("f", text), Err(refused));
    assert_eq!(Slug::parse("f", text), Err(TextError::Name { field: "f" }));
}

// spec: DRF-012
#[test]
fn a_reply_is_at_most_16_kib_before_and_after_folding() {
    verdicts!(ReplyBody:
        "x".repeat(16_384) => true,
        "x".repeat(16_385) => false,
        "é".repeat(8_192) => true,
        "é".repeat(8_193) => false,
        "ｘ".repeat(5_461) => true,
        "ｘ".repeat(5_462) => false,
    );
    // One character of three bytes that folds to 33.
    let grown = ReplyBody::parse("body", "\u{fdfa}".repeat(500)).expect_err("500 of them are over 16 KiB");
    assert_eq!(
        grown,
        TextError::FoldedLength {
            field: "body",
            max: BODY_MAX_BYTES,
            received: 16_500
        }
    );
}

// spec: DRF-013
#[test]
fn an_empty_or_blank_reply_is_refused() {
    verdicts!(ReplyBody: "" => false, "  " => false, "\n\t\u{a0}\u{3000}" => false, " x " => true);
}

// spec: DRF-014
#[test]
fn a_reply_is_folded_to_nfkc() {
    let table = [
        ("\u{fb01}ne", "fine"),
        ("１０．０", "10.0"),
        ("e\u{301}", "é"),
        ("x²", "x2"),
        ("a\u{a0}b", "a b"),
    ];
    for (sent, kept) in table {
        assert_eq!(
            ReplyBody::parse("body", sent).expect("a good reply").as_str(),
            kept
        );
    }
}

#[test]
fn a_slug_is_a_name_and_no_number() {
    verdicts!(Slug:
        "mail" => true,
        "a" => true,
        "0a" => true,
        "mail.work_2-x" => true,
        "a".repeat(64) => true,
        "a".repeat(65) => false,
        "" => false,
        "42" => false,
        "-a" => false,
        ".a" => false,
        "_a" => false,
        "Mail" => false,
        "a b" => false,
        "a/b" => false,
        "é" => false,
        "a\n" => false,
    );
}

#[test]
fn labels_and_scopes_can_be_seen() {
    verdicts!(Label:
        "" => false,
        "  " => false,
        "Work mail (Ada's) – 東京 👍" => true,
        "é".repeat(80) => true,
        "é".repeat(81) => false,
        "a\nb" => false,
        "a\u{202e}b" => false,
        "a\u{200b}b" => false,
        "a\u{2028}b" => false,
    );
    verdicts!(DataScope: "" => false, " " => false, "inbox/work" => true, "x".repeat(200) => true, "x".repeat(201) => false, "a\u{7}b" => false, "a\u{200d}b" => false);
}

// spec: MSG-042
#[test]
fn a_refusal_names_field_limit_and_length_and_never_the_text() {
    let table = [
        (
            Subject::parse("subject", "hush".repeat(51)).map(drop),
            "subject has 204 characters; it must have at most 200",
        ),
        (
            ExternalId::parse("external_id", "").map(drop),
            "external_id has 0 bytes; it must have 1 to 200",
        ),
        (
            ExternalId::parse("external_id", "hush hush").map(drop),
            "external_id holds a blank at character 5",
        ),
        (
            Label::parse("label", "hush\u{202e}").map(drop),
            "label holds a text-direction control at character 5",
        ),
        (
            Slug::parse("name", "Hush hush").map(drop),
            "name is no valid name",
        ),
        (ReplyBody::parse("body", " ").map(drop), "body is blank"),
    ];
    for (verdict, words) in table {
        let sentence = verdict.expect_err(words).to_string();
        assert!(sentence.starts_with(words), "{sentence}");
        assert!(!sentence.contains("hush"), "{sentence}");
    }
}

#[test]
fn outside_text_does_not_print_itself() {
    let body = MessageBody::parse("body", "hush").expect("a good body");
    assert_eq!(format!("{body:?}"), "MessageBody(4 bytes)");
}

#[test]
fn a_terminal_is_shown_nothing_that_acts_on_it() {
    let table = [
        ("plain é 東京 👍", "plain é 東京 👍"),
        ("a\nb", r"a\nb"),
        ("\u{1b}]0;title\u{7}", r"\u{1b}]0;title\u{7}"),
        ("a\rb\tc\u{9b}31m", r"a\u{d}b\u{9}c\u{9b}31m"),
        (
            "\u{202e}\u{200b}\u{2028}\u{feff}",
            r"\u{202e}\u{200b}\u{2028}\u{feff}",
        ),
    ];
    for (text, shown) in table {
        assert_eq!(terminal(text), shown);
    }
}

proptest! {
    #[test]
    fn what_a_terminal_is_shown_can_be_seen(text in "(?s).{0,80}") {
        prop_assert!(terminal(&text).chars().all(|c| unseen(c).is_none()));
    }

    // spec: DRF-012 DRF-014
    #[test]
    fn an_accepted_reply_is_folded_and_bounded(text in "(?s).{0,80}") {
        if let Ok(reply) = ReplyBody::parse("body", &text) {
            prop_assert_eq!(fold(reply.as_str()), reply.as_str());
            prop_assert!(reply.as_str().len() <= BODY_MAX_BYTES);
        }
    }

    // spec: MSG-005..MSG-007
    #[test]
    fn an_accepted_id_holds_no_blank(text in "(?s).{0,20}") {
        let good = !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control()) && text.len() <= 200;
        prop_assert_eq!(ExternalId::parse("external_id", text).is_ok(), good);
    }
}
