//! Reads any text as an agent id and as a channel name. Never may one that is accepted name anything but a file in its own folder.
#![no_main]

use std::path::{Component, Path};

use libfuzzer_sys::fuzz_target;
use muster_bus::{MAX_NAME, RoomName, SeatId};

fn is_one_file(name: &str) {
    let parts: Vec<_> = Path::new(name).components().collect();
    assert!(matches!(parts.as_slice(), [Component::Normal(part)] if *part == name));
    assert!((1..=MAX_NAME).contains(&name.len()) && name.is_ascii());
    assert!(
        !name.starts_with(['.', '-']) && !name.contains(|letter: char| letter.is_control() || letter == ' ')
    );
}

fuzz_target!(|text: &str| {
    if let Ok(seat) = SeatId::parse(text) {
        is_one_file(seat.as_str());
        assert_eq!(seat.as_str(), text);
    }
    if let Ok(room) = RoomName::parse(text) {
        is_one_file(room.as_str());
        assert_eq!(RoomName::parse(room.as_str()).ok().as_ref(), Some(&room));
        assert_eq!(RoomName::parse(&format!("#{room}")).ok().as_ref(), Some(&room));
        assert!(!room.as_str().contains(|letter: char| letter.is_ascii_uppercase()));
    }
});
