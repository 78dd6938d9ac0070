//! Peers who write what a terminal would act on: every byte that reaches the terminal is looked at.

use std::io::Write as _;

use super::support::{Bus, Raw};

/// What terminals were driven with.
const ATTACKS: [&str; 9] = [
    "\u{1b}]0;owned\u{7}",
    "\u{1b}]52;c;cm0gLXJmIC8=\u{7}",
    "\u{1b}[2J\u{1b}[H\u{1b}[31mred",
    "\u{1b}P$q\"p\u{1b}\\",
    "\u{9b}31mC1",
    "\u{1b}[201~\r/quit\r",
    "\r\u{8}\u{8}\u{8}overwritten",
    "\u{202e}desrever\u{2066}",
    "\u{1b}c\u{1b}(0\u{e}lqk",
];

/// A directory in which everything a peer can name is hostile.
fn hostile(bus: &Bus) {
    for attack in ATTACKS {
        bus.post("bob", "general", attack);
        bus.dm("bob", "david", attack);
    }
    let mut room = std::fs::File::options()
        .append(true)
        .open(bus.path("room.jsonl"))
        .unwrap();
    for attack in ATTACKS {
        let entry = serde_json::json!({"id": attack, "ts": 1, "from": attack, "text": "by a hostile name", "kind": attack});
        writeln!(room, "{entry}").unwrap();
    }
    let agents: serde_json::Map<String, serde_json::Value> = ATTACKS
        .iter()
        .map(|attack| {
            let agent = serde_json::json!({
                "agentId": attack, "role": attack, "project": attack, "away": attack,
                "registeredAt": 1, "lastHeartbeat": bus.home.now(),
            });
            ((*attack).to_owned(), agent)
        })
        .collect();
    std::fs::write(bus.path("agents.json"), serde_json::to_vec(&agents).unwrap()).unwrap();
    let rooms = serde_json::json!({"general": {"topic": ATTACKS[0], "motd": ATTACKS[2], "members": ATTACKS}});
    std::fs::write(bus.path("rooms.json"), rooms.to_string()).unwrap();
}

const COMMANDS: &[u8] = b"/rooms\r/list\r/topic\r/motd\r/history 40\r/doctor\r/join general\r/whois bob\r";

/// What a peer's bytes would look like if they got through.
fn looks_driven(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    ATTACKS.iter().any(|attack| text.contains(attack))
        || text.chars().any(|c| {
            matches!(c, '\u{7}' | '\u{e}' | '\u{80}'..='\u{9f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        })
}

// spec: CHAT-009
#[test]
fn no_byte_of_a_peer_drives_the_terminal_line_by_line() {
    let bus = Bus::new();
    hostile(&bus);
    let mut raw = Raw::open(bus.chat(&["--id", "david", "--plain"]), 80, 24);
    raw.shows("david #general (");
    raw.press(COMMANDS);
    raw.shows("nobody is registered as 'bob'");
    bus.post("bob", "general", ATTACKS[2]);
    raw.shows("\\u{1b}[2J\\u{1b}[H\\u{1b}[31mred");
    raw.press(b"/quit\r");
    assert_eq!(raw.wait().code(), Some(0));
    let bytes = raw.bytes();
    assert!(!looks_driven(&bytes), "{:?}", raw.text());
    // The only escapes are those that mark pastes, once on and once off.
    let text = raw
        .text()
        .replace("\u{1b}[?2004h", "")
        .replace("\u{1b}[?2004l", "");
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

// spec: CHAT-009
#[test]
fn no_byte_of_a_peer_drives_the_terminal_in_full_screen() {
    let bus = Bus::new();
    hostile(&bus);
    let mut raw = Raw::open(bus.chat(&["--id", "david"]), 100, 30);
    raw.shows("by a hostile name");
    raw.press(COMMANDS);
    raw.shows("nobody is registered as 'bob'");
    raw.press(b"\x1b0");
    raw.shows("direct messages>");
    raw.press(b"\x1b[5~\x1b[5~\x1b[5~\x03");
    assert_eq!(raw.wait().code(), Some(0));
    let bytes = raw.bytes();
    assert!(!looks_driven(&bytes), "{:?}", raw.text());
    // What stands on the screen are single cells; every sequence begins like one of the screen's own.
    let text = raw.text();
    for part in text.split('\u{1b}').skip(1) {
        let mut chars = part.chars();
        let own = chars.next() == Some('[')
            && chars
                .next()
                .is_some_and(|c| c.is_ascii_digit() || "?mHJK".contains(c));
        assert!(own, "{part:?}");
    }
}

#[test]
fn a_terminal_that_hangs_up_unregisters() {
    let bus = Bus::new();
    for args in [&["--id", "david"][..], &["--id", "david", "--plain"]] {
        let mut raw = Raw::open(bus.chat(args), 80, 24);
        raw.shows("david #general (");
        raw.hang_up();
        super::support::eventually("it is gone", || !bus.registered("david"));
        raw.wait();
    }
}
