//! Every request body of the connector API: reading one never panics, and what was read obeys its rules.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_wire::plugin_v1::{read_claim, read_message, read_result};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = read_message(bytes) {
        assert!((1..=200).contains(&message.external_id.as_str().len()));
        assert!((1..=16 * 1024).contains(&message.body.as_str().len()));
        assert!(!message.body.as_str().contains('\0'));
        for line in [
            message.sender.as_ref().map(|s| s.as_str()),
            message.subject.as_ref().map(|s| s.as_str()),
        ]
        .into_iter()
        .flatten()
        {
            assert!(line.chars().count() <= 200 && !line.contains('\0'));
        }
    }
    if let Ok(wait) = read_claim(bytes) {
        assert!(wait.as_secs() <= 25);
    }
    if let Ok(result) = read_result(bytes) {
        assert!(
            result
                .external_ref
                .is_none_or(|text| text.as_str().chars().count() <= 200)
        );
        assert!(result.detail.is_none_or(|text| text.as_str().len() <= 4096));
    }
});
