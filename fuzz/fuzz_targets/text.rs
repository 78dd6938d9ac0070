//! Feeds the bounded texts and the spellings with anything and checks their limits and that no two texts are spelled alike; it never stores a text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_core::spell::spell;
use muster_core::text::{
    BODY_MAX_BYTES, ExternalId, Label, MessageBody, ReplyBody, Sender, Slug, fold, terminal, unseen,
};

fuzz_target!(|input: (String, String)| {
    let (text, other) = input;
    let whole = |good: bool| good && !text.contains('\0');

    let id =
        !text.is_empty() && text.len() <= 200 && !text.chars().any(|c| c.is_whitespace() || c.is_control());
    assert_eq!(ExternalId::parse("external_id", text.as_str()).is_ok(), id);
    assert_eq!(
        Sender::parse("sender", text.as_str()).is_ok(),
        whole(text.chars().count() <= 200)
    );
    assert_eq!(
        MessageBody::parse("body", text.as_str()).is_ok(),
        whole((1..=BODY_MAX_BYTES).contains(&text.len()))
    );
    if let Ok(reply) = ReplyBody::parse("body", &text) {
        assert!(reply.as_str().len() <= BODY_MAX_BYTES && fold(reply.as_str()) == reply.as_str());
    }
    if let Ok(label) = Label::parse("label", text.as_str()) {
        assert!(label.as_str().chars().all(|c| unseen(c).is_none()));
    }
    if let Ok(name) = Slug::parse("name", text.as_str()) {
        assert!(name.as_str().len() <= 64 && name.as_str().is_ascii());
    }

    assert!(terminal(&text).chars().all(|c| unseen(c).is_none()));
    assert!(spell(&text).bytes().all(|b| matches!(b, b' '..=b'~')));
    assert_eq!(spell(&text) == spell(&other), text == other);
});
