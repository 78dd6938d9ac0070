//! Reads any text as a statement of PostgreSQL. Never may it end the gate, nor a read stay one with a write behind it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_db_gateway::{Class, Engine, classify};

fuzz_target!(|text: &str| {
    let verdict = classify(Engine::Postgres, text);
    assert!(!verdict.reason.is_empty() && !verdict.reason.contains(char::is_control));
    if verdict.class == Class::Read {
        assert_eq!(
            classify(Engine::Postgres, &format!("{text}\n;")).class,
            Class::Read
        );
        assert_ne!(
            classify(Engine::Postgres, &format!("{text}\n;DELETE FROM t")).class,
            Class::Read
        );
        assert_ne!(
            classify(Engine::Postgres, &format!("{text}\n;SELECT 1")).class,
            Class::Read
        );
        assert_ne!(
            classify(Engine::Postgres, &format!("DELETE FROM t;{text}")).class,
            Class::Read
        );
    }
});
