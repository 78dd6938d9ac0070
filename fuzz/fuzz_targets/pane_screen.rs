//! Reads any bytes as the screen of a pane. Never may a control character come out of it, nor a screen be typed into whose input holds anything undimmed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use muster_mirror::composer::{Filling, Look, look};
use muster_mirror::guard::quoted;
use muster_mirror::screen::{Ghost, Screen};

fuzz_target!(|input: (&[u8], Option<(usize, usize)>)| {
    let (bytes, cursor) = input;
    let screen = Screen::parse(bytes);
    for row in &screen.rows {
        assert!(row.cells.iter().all(|cell| !cell.char.is_control()));
        assert!(quoted(&row.raw).chars().all(|char| !char.is_control()));
    }
    let ghost = Ghost::default();
    match look(&screen, cursor) {
        Look::Input(input) => {
            assert!(cursor.is_none_or(|(_, row)| row >= input.top && row < input.top + input.rows.len()));
            assert_eq!(input.rows.len(), input.raw.len());
            let marks = || input.rows.iter().flatten().filter(|cell| !cell.is_blank());
            match input.filling(&ghost) {
                Filling::Empty => assert_eq!(marks().count(), 0),
                Filling::Suggestion => assert!(marks().count() > 0),
                Filling::Draft => assert!(marks().any(|cell| !cell.style.dim)),
            }
            if !input.shell && input.text().is_ascii() && !input.text().trim().is_empty() {
                assert!(input.holds(&input.text()));
            }
        }
        Look::Dialog(row) => assert!(screen.rows.iter().any(|other| other.raw == row)),
        Look::Unknown => {}
    }
});
