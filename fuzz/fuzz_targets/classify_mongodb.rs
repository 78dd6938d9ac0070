//! Reads any text as a statement of MongoDB. Never may it end the gate, nor a read stay one with a write behind it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_db_gateway::{Class, Engine, classify};

fuzz_target!(|text: &str| {
    let verdict = classify(Engine::Mongodb, text);
    assert!(!verdict.reason.is_empty() && !verdict.reason.contains(char::is_control));
    if verdict.class == Class::Read {
        assert_ne!(
            classify(Engine::Mongodb, &format!("{text}{{\"drop\":\"a\"}}")).class,
            Class::Read
        );
        // A name that writes in front makes a write of it, whatever follows.
        let fields = text
            .trim_start()
            .strip_prefix('{')
            .expect("a command is a document");
        let written = format!("{{\"drop\":\"a\",{fields}");
        assert_ne!(classify(Engine::Mongodb, &written).class, Class::Read);
    }
});
