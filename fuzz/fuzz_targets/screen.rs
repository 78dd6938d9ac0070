//! Feeds the screen with any reply and any list of names and checks that its verdict is sound; it never checks a heuristic's taste.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_core::screen::{DenyWords, screen};
use muster_core::text::{fold, unseen};

fuzz_target!(|input: (String, String)| {
    let (reply, list) = input;
    let words = DenyWords::parse(&list).unwrap_or_default();
    let folded = fold(&reply);
    let verdict = screen(&reply, &words);

    // Folding first or leaving it to the screen makes no difference.
    assert_eq!(screen(&folded, &words), verdict);
    match verdict {
        Ok(()) => {
            assert!(
                folded
                    .chars()
                    .all(|c| c == '\n' || c == '\t' || unseen(c).is_none())
            );
            assert!(!folded.contains("http://"));
            assert!(!folded.contains("-----BEGIN"));
        }
        Err(refusal) => {
            assert!((1..=folded.chars().count()).contains(&refusal.at()));
            assert!(refusal.to_string().chars().all(|c| matches!(c, ' '..='~')));
        }
    }

    // What leaks is refused wherever it stands.
    for leak in [
        "10.0.0.5",
        "build1.example.internal",
        "mpl_0123456789abcdef",
        "kubectl",
    ] {
        assert!(screen(&format!("{reply} {leak} {reply}"), &words).is_err());
    }
});
