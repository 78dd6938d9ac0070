//! Reads any text as a statement of Redis. Never may it end the gate, nor a read stay one with a write behind it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_db_gateway::{Class, Engine, classify};

fuzz_target!(|text: &str| {
    let verdict = classify(Engine::Redis, text);
    assert!(!verdict.reason.is_empty() && !verdict.reason.contains(char::is_control));
    if verdict.class == Class::Read {
        assert_ne!(
            classify(Engine::Redis, &format!("{text}\nSET a b")).class,
            Class::Read
        );
        assert_ne!(classify(Engine::Redis, &format!("SET {text}")).class, Class::Read);
    }
});
