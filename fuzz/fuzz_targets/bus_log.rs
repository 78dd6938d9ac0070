//! Reads any bytes as an inbox of the bus. Never may its index count or place an entry otherwise than a reader that begins at the beginning, nor a send change a byte that stood there.
#![no_main]

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use muster_bus::limits::Limits;
use muster_bus::read::{Want, depth, read};
use muster_bus::{Entry, Home, SeatId, Source, post};
use muster_core::Clock;
use serde::de::IgnoredAny;

static BUS: LazyLock<(tempfile::TempDir, Home)> = LazyLock::new(|| {
    let dir = tempfile::tempdir().expect("a folder");
    let home = Home::open(dir.path(), Limits::default(), Clock::system()).expect("a bus");
    (dir, home)
});

/// The entries of a log, as a reader finds them who knows nothing but lines: what they say, where it is plain JSON.
fn entries(bytes: &[u8]) -> Vec<Option<Entry>> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    lines.pop();
    lines
        .into_iter()
        .filter(|line| {
            line.trim_ascii_start().first() == Some(&b'{')
                && serde_json::from_slice::<IgnoredAny>(line).is_ok()
        })
        .map(|line| serde_json::from_slice(line).ok())
        .collect()
}

fuzz_target!(|input: &[u8]| {
    let Some((times, part)) = input.split_first() else {
        return;
    };
    // Repeated, so that a small input goes beyond the places that an index remembers.
    let bytes = part.repeat(usize::from(*times).max(1));
    if bytes.len() > 512 * 1024 {
        return;
    }
    let (dir, home) = &*BUS;
    let seat = SeatId::parse("ann").expect("a plain id");
    let (log, cursor) = (
        dir.path().join("inbox/ann.jsonl"),
        dir.path().join("cursors/ann.json"),
    );
    fs::write(&log, &bytes).expect("a log");

    let wanted = entries(&bytes);
    let count = wanted.len() as u64;
    for _ in 0..2 {
        assert_eq!(depth(home, &seat, &Source::Inbox).expect("a count"), count);
    }
    let step = (wanted.len() / 6).max(1);
    for first in (0..=wanted.len()).step_by(step) {
        fs::write(&cursor, format!("{{\"inboxOffset\":{first}}}")).expect("a cursor");
        let want = Want {
            limit: Some(2),
            peek: true,
            since: None,
        };
        let batch = read(home, &seat, &Source::Inbox, want).expect("a read");
        assert_eq!(batch.total_new, wanted.len() - first);
        assert_eq!(batch.returned, (wanted.len() - first).min(2));
        for (found, entry) in batch.messages.iter().zip(&wanted[first..]) {
            assert!(entry.as_ref().is_none_or(|entry| entry == found));
        }
    }

    let sent = post::send(home, &seat, &seat, "after it").expect("a send");
    let after = fs::read(&log).expect("the log");
    assert!(after.starts_with(&bytes), "a byte that stood there changed");
    let whole = entries(&after);
    assert_eq!(
        depth(home, &seat, &Source::Inbox).expect("a count"),
        whole.len() as u64
    );
    let last = whole
        .last()
        .and_then(Option::as_ref)
        .and_then(|entry| entry.get("id"))
        .and_then(|id| id.as_str());
    assert_eq!(last, Some(sent.id.as_str()));
});
