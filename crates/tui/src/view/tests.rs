//! The drawn screen: what stands on it, at any size, whatever peers write.

use muster_bus::{Entry, RoomName, SeatId};
use muster_core::text::unseen;
use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::*;
use crate::app::Reply;
use crate::keys::Parser;
use crate::person::{Fresh, Here, Numbered, Stretch, Told, Way};
use crate::post::Post;
use crate::text::Watch;

fn room(name: &str) -> Source {
    Source::Room(RoomName::parse(name).unwrap())
}

fn stretch(source: &Source, entries: &[serde_json::Value]) -> Stretch {
    let me = SeatId::parse("david").unwrap();
    let posts: Vec<Numbered> = entries
        .iter()
        .zip(0..)
        .map(|(entry, number)| {
            let entry: Entry = entry.as_object().unwrap().clone();
            Numbered {
                number,
                post: Post::of(&entry, source, &me),
                entry,
            }
        })
        .collect();
    let total = posts.len() as u64;
    Stretch {
        first: 0,
        end: total,
        total,
        read: total,
        posts,
    }
}

fn app(entries: &[serde_json::Value]) -> App {
    let (mut app, _) = App::new("david", Watch::utc(), 0);
    let general = room("general");
    app.reply(Reply::Stretch {
        source: general.clone(),
        way: Way::Newest,
        stretch: Some(stretch(&general, entries)),
    });
    app
}

fn typed(app: &mut App, bytes: &[u8]) {
    for input in Parser::default().feed(bytes) {
        app.input(input);
    }
}

fn drawn(app: &mut App, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, app, Colours(true))).unwrap();
    let buffer = terminal.backend().buffer();
    (0..rows)
        .map(|y| {
            (0..columns)
                .map(|x| buffer[(x, y)].symbol().to_owned())
                .collect::<String>()
                .trim_end()
                .to_owned()
        })
        .collect()
}

fn peer(id: &str, online: bool, away: Option<&str>, attached: Option<&str>) -> Peer {
    Peer {
        held: None,
        id: id.into(),
        online,
        away: away.map(Into::into),
        attached: attached.map(Into::into),
        role: None,
        quiet: 0,
    }
}

// spec: CHAT-007
#[test]
fn the_prompt_says_who_where_and_among_how_many() {
    let mut app = app(&[]);
    app.reply(Reply::Here(Here {
        me: "david".into(),
        room: "general".into(),
        peers: 4,
        ..Here::default()
    }));
    typed(&mut app, b"hi");
    assert_eq!(
        drawn(&mut app, 50, 5).last().unwrap(),
        "david #general (4 peers)> hi"
    );
}

#[test]
fn channels_their_unread_and_who_is_here_stand_beside_the_messages() {
    let mut app = app(&[json!({"ts": 1, "from": "bob", "text": "hello"})]);
    app.reply(Reply::Here(Here {
        me: "david".into(),
        room: "general".into(),
        peers: 3,
        topic: Some("ship it".into()),
        agents: vec![
            peer("alice", true, None, Some("herdr %1")),
            peer("bob", true, Some("lunch"), None),
            peer("carol", false, None, None),
            Peer {
                held: Some("draft".into()),
                ..peer("dave", true, None, Some("herdr %2"))
            },
        ],
        joined: vec![RoomName::general(), RoomName::parse("ops").unwrap()],
        ..Here::default()
    }));
    app.reply(Reply::Unread(room("ops"), 12));
    let screen = drawn(&mut app, 90, 12);
    let text = screen.join("\n");
    assert!(screen[0].contains("#general: ship it"), "{text}");
    assert!(text.contains("│>1 #general"), "{text}");
    assert!(text.contains("│ 2 #ops 12"), "{text}");
    assert!(text.contains("● alice ⇄ herdr %1"), "{text}");
    assert!(text.contains("◐ bob away: lunch"), "{text}");
    assert!(text.contains("○ carol"), "{text}");
    assert!(text.contains("● dave held: draft"), "{text}");
    assert!(text.contains("00:00 <bob> hello"), "{text}");
}

// spec: CHAT-008
#[test]
fn traffic_of_another_channel_is_tagged_and_stays_unread() {
    let mut app = app(&[]);
    let ops = room("ops");
    app.reply(Reply::Here(Here {
        me: "david".into(),
        room: "general".into(),
        joined: vec![RoomName::general(), RoomName::parse("ops").unwrap()],
        ..Here::default()
    }));
    let effects = app.reply(Reply::Told(Told::Fresh(Fresh {
        stretch: stretch(&ops, &[json!({"ts": 1, "from": "bob", "text": "David, look"})]),
        source: ops.clone(),
        cut: false,
        skipped: 0,
    })));
    assert_eq!(effects, []);
    let text = drawn(&mut app, 90, 8).join("\n");
    assert!(text.contains("00:00 ! #ops <bob> David, look"), "{text}");
    assert!(text.contains("#ops 1"), "{text}");
}

#[test]
fn a_text_of_ten_thousand_lines_shows_the_part_around_the_cursor() {
    let mut app = app(&[json!({"ts": 1, "from": "bob", "text": "hello"})]);
    let mut paste = b"\x1b[200~".to_vec();
    paste.extend((0..10_000).flat_map(|number| format!("line {number}\n").into_bytes()));
    paste.extend(b"\x1b[201~the end");
    typed(&mut app, &paste);
    let screen = drawn(&mut app, 60, 12);
    assert_eq!(screen.last().unwrap(), "the end");
    assert_eq!(screen[screen.len() - 2], "line 9999");
    assert!(screen.iter().any(|row| row.contains("hello")), "{screen:?}");
}

/// Pieces of which hostile texts are made.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\u{1b}[2J".to_owned()),
        Just("\u{1b}]0;title\u{7}".to_owned()),
        Just("\u{1b}P+q\u{1b}\\".to_owned()),
        Just("\u{9b}31m".to_owned()),
        Just("\r\n\u{8}\u{7f}\u{85}\u{2028}".to_owned()),
        Just("\u{202e}\u{2066}\u{200b}\u{feff}\u{e0041}".to_owned()),
        Just(format!("a{}", "\u{301}".repeat(30))),
        any::<String>(),
        "[a-z ]{0,80}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    // spec: CHAT-009
    #[test]
    fn no_text_of_a_peer_puts_a_control_byte_on_the_screen(
        said in hostile(), from in hostile(), topic in hostile(), role in hostile(), typing in hostile(),
        columns in 0_u16..110, rows in 0_u16..30, up in 0_usize..40,
    ) {
        let entry = json!({"id": "1", "ts": 1, "from": from, "text": said, "kind": said, "to": said});
        let mut app = app(&[entry.clone(), entry.clone()]);
        app.reply(Reply::Here(Here {
            me: "david".into(),
            room: "general".into(),
            topic: Some(line(&topic)),
            agents: vec![peer(&line(&from), true, Some(&line(&role)), Some(&line(&role)))],
            ..Here::default()
        }));
        let inbox = stretch(&Source::Inbox, &[entry]);
        app.reply(Reply::Told(Told::Fresh(Fresh { source: Source::Inbox, stretch: inbox, cut: false, skipped: 0 })));
        let mut paste = b"\x1b[200~".to_vec();
        paste.extend(typing.as_bytes());
        paste.extend(b"\x1b[201~");
        typed(&mut app, &paste);
        for _ in 0..up {
            typed(&mut app, b"\x1b[1;5A");
        }
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, &mut app, Colours(true))).unwrap();
        for cell in terminal.backend().buffer().content() {
            prop_assert!(cell.symbol().chars().all(|c| unseen(c).is_none()), "{:?}", cell.symbol());
            prop_assert!(cell.symbol().chars().count() <= 6, "{:?}", cell.symbol());
        }
    }
}
