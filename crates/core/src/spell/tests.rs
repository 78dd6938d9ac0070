//! Laws of the card's spelling.

use proptest::prelude::*;

use super::{characters, spell};

/// The reader's side of the spelling, written from its description alone.
fn unspell(card: &str) -> String {
    let mut out = String::new();
    let mut rest = card;
    while let Some(c) = rest.chars().next() {
        if let Some(tail) = rest.strip_prefix("\\n") {
            out.push('\n');
            rest = tail;
        } else if let Some(tail) = rest.strip_prefix("\\\\") {
            out.push('\\');
            rest = tail;
        } else if let Some(tail) = rest.strip_prefix("\\u{") {
            let (hex, tail) = tail.split_once('}').expect("a spelling is closed");
            let code = u32::from_str_radix(hex, 16).expect("a spelling is hexadecimal");
            out.push(char::from_u32(code).expect("a spelling is a character"));
            rest = tail;
        } else {
            out.push(c);
            rest = rest.strip_prefix(c).expect("c is its first character");
        }
    }
    out
}

// spec: DRF-038
#[test]
fn printable_ascii_looks_like_itself() {
    let all: String = (' '..='~').collect();
    assert_eq!(spell(&all), all);
    assert_eq!(spell(r"C:\temp\"), r"C:\temp\");
}

// spec: DRF-039
#[test]
fn every_other_character_is_spelled_out() {
    assert_eq!(spell("café"), r"caf\u{e9}");
    assert_eq!(spell("a\tb"), r"a\u{9}b");
    assert_eq!(spell("a\r"), r"a\u{d}");
    assert_eq!(spell("\u{202e}x\u{200b}\u{7f}"), r"\u{202e}x\u{200b}\u{7f}");
    assert_eq!(spell("👍"), r"\u{1f44d}");
}

// spec: DRF-040
#[test]
fn a_new_line_is_spelled() {
    assert_eq!(spell("one\ntwo\n"), r"one\ntwo\n");
}

// spec: DRF-042
#[test]
fn a_typed_backslash_never_reads_as_a_spelling() {
    let table = [
        (r"\n", r"\\n"),
        (r"\u{e9}", r"\\u{e9}"),
        (r"\\", r"\\\"),
        ("\\\n", r"\\\n"),
        ("\\é", r"\\\u{e9}"),
        (r"C:\new", r"C:\\new"),
        (r"\", r"\"),
    ];
    for (reply, card) in table {
        assert_eq!(spell(reply), card, "{reply:?}");
        assert_eq!(unspell(card), reply, "{card:?}");
    }
}

// spec: DRF-041
#[test]
fn a_length_counts_characters_and_not_bytes() {
    assert_eq!(characters("Noon works.\n"), 12);
    assert_eq!(characters("Grüße 👍"), 7);
    assert_eq!(characters(""), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    // spec: DRF-038..DRF-040 DRF-042
    #[test]
    fn two_different_replies_never_look_the_same(reply in "(?s)(.|[\\\\nu{}0-9a-f\n]){0,40}") {
        let card = spell(&reply);
        prop_assert!(card.chars().all(|c| matches!(c, ' '..='~')));
        prop_assert_eq!(unspell(&card), reply);
    }
}
