//! What the screen asks of the bus, and when a message counts as seen.

use muster_bus::{Entry, SeatId};
use serde_json::json;

use super::*;
use crate::keys::Parser;
use crate::post::Post;

fn room(name: &str) -> Source {
    Source::Room(RoomName::parse(name).unwrap())
}

fn stretch(source: &Source, numbers: std::ops::Range<u64>) -> Stretch {
    let me = SeatId::parse("david").unwrap();
    Stretch {
        first: numbers.start,
        end: numbers.end,
        total: numbers.end,
        read: numbers.start,
        posts: numbers
            .map(|number| {
                let entry: Entry =
                    json!({"id": number, "ts": 1, "from": "bob", "text": format!("n{number}")})
                        .as_object()
                        .unwrap()
                        .clone();
                Numbered {
                    number,
                    post: Post::of(&entry, source, &me),
                    entry,
                }
            })
            .collect(),
    }
}

fn app() -> App {
    let (mut app, first) = App::new("david", Watch::utc(), 0);
    assert!(matches!(
        &first[..],
        [Effect::Job(Job::Stretch { way: Way::Newest, .. })]
    ));
    app.reply(Reply::Here(Here {
        me: "david".into(),
        room: "general".into(),
        joined: vec![RoomName::general(), RoomName::parse("ops").unwrap()],
        ..Here::default()
    }));
    app
}

fn press(app: &mut App, bytes: &[u8]) -> Vec<Effect> {
    Parser::default()
        .feed(bytes)
        .into_iter()
        .flat_map(|input| app.input(input))
        .collect()
}

fn seen(effects: &[Effect]) -> Vec<(Source, u64)> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Job(Job::Seen { source, number, .. }) => Some((source.clone(), *number)),
            _ => None,
        })
        .collect()
}

fn fresh(source: &Source, numbers: std::ops::Range<u64>) -> Reply {
    Reply::Told(Told::Fresh(Fresh {
        source: source.clone(),
        stretch: stretch(source, numbers),
        cut: false,
        skipped: 0,
    }))
}

fn page(source: &Source, numbers: std::ops::Range<u64>) -> Reply {
    Reply::Stretch {
        source: source.clone(),
        way: Way::Newest,
        stretch: Some(stretch(source, numbers)),
    }
}

#[test]
fn what_is_in_sight_is_seen_once_and_what_is_not_stays_unread() {
    let (mut app, general) = (app(), room("general"));
    let effects = app.reply(page(&general, 0..100));
    assert_eq!(seen(&effects), [(general.clone(), 99)]);
    let effects = app.reply(fresh(&general, 100..101));
    assert_eq!(seen(&effects), [(general.clone(), 100)]);
    press(&mut app, b"\x1b[5~");
    let effects = app.reply(fresh(&general, 101..102));
    assert_eq!(seen(&effects), []);
    let effects = press(&mut app, b"\x1b[6~\x1b[6~\x1b[6~");
    assert_eq!(seen(&effects), [(general, 101)]);
}

#[test]
fn another_channel_is_read_when_it_is_opened_and_not_before() {
    let (mut app, ops) = (app(), room("ops"));
    app.reply(page(&room("general"), 0..1));
    assert_eq!(seen(&app.reply(fresh(&ops, 0..3))), []);
    assert_eq!(app.unread(&ops), 3);
    let effects = press(&mut app, b"\x1ba");
    assert!(effects.contains(&Effect::Job(Job::Focus(RoomName::parse("ops").unwrap()))));
    let effects = app.reply(page(&ops, 0..3));
    assert_eq!(seen(&effects), [(ops.clone(), 2)]);
    assert_eq!(app.unread(&ops), 0);
}

#[test]
fn an_answer_about_the_channel_before_does_not_change_the_prompt() {
    let mut app = app();
    press(&mut app, b"\x1b2");
    assert!(app.prompt().starts_with("david #ops"));
    app.reply(Reply::Here(Here {
        me: "david".into(),
        room: "general".into(),
        peers: 9,
        ..Here::default()
    }));
    assert!(app.prompt().starts_with("david #ops"));
}

// spec: CHAT-028
#[test]
fn an_unknown_command_asks_nothing_of_the_bus() {
    let mut app = app();
    app.reply(page(&room("general"), 0..1));
    assert_eq!(press(&mut app, b"/foo bar\r"), []);
    assert_eq!(press(&mut app, b"   \r"), []);
    let effects = press(&mut app, b"//foo\r");
    assert_eq!(effects, [Effect::Job(Job::Obey(Command::Say("/foo".into())))]);
}

#[test]
fn plain_text_among_direct_messages_goes_to_no_channel() {
    let mut app = app();
    press(&mut app, b"\x1b0");
    assert_eq!(app.prompt(), "david direct messages>");
    app.reply(page(&Source::Inbox, 0..1));
    assert_eq!(press(&mut app, b"secret\r"), []);
    let effects = press(&mut app, b"/dm bob hi\r");
    assert!(matches!(
        &effects[..],
        [Effect::Job(Job::Obey(Command::Dm { .. }))]
    ));
}

#[test]
fn what_acts_on_the_channel_in_sight_does_nothing_among_direct_messages() {
    let mut app = app();
    press(&mut app, b"\x1b0");
    app.reply(page(&Source::Inbox, 0..1));
    for typed in ["/topic ship it", "/topic", "/motd be nice", "/history", "/part"] {
        assert_eq!(press(&mut app, format!("{typed}\r").as_bytes()), [], "{typed}");
    }
    let rows = app.timeline.window(200, 40, 0, &Watch::utc());
    let said =
        |row: &&crate::timeline::Row| row.iter().any(|(_, text)| text.contains("#general is the last"));
    assert_eq!(rows.iter().filter(said).count(), 5);
    assert!(
        !press(&mut app, b"/part #ops\r").is_empty(),
        "a channel that is named is meant"
    );
}

#[test]
fn direct_messages_are_shown_where_one_is_and_then_seen() {
    let mut app = app();
    app.reply(page(&room("general"), 0..1));
    let effects = app.reply(fresh(&Source::Inbox, 4..6));
    assert_eq!(seen(&effects), [(Source::Inbox, 5)]);
    // Whoever scrolled back does not see them.
    app.reply(page(&room("general"), 0..100));
    press(&mut app, b"\x1b[5~\x1b[5~");
    assert_eq!(seen(&app.reply(fresh(&Source::Inbox, 6..7))), []);
    assert_eq!(app.unread(&Source::Inbox), 1);
}

#[test]
fn a_lasting_trouble_is_told_of_once() {
    let mut app = app();
    app.reply(page(&room("general"), 0..1));
    let rows = |app: &mut App| app.timeline.window(60, 20, 0, &Watch::utc()).len();
    app.reply(Reply::Trouble("the disk is full".into()));
    let once = rows(&mut app);
    app.reply(Reply::Trouble("the disk is full".into()));
    assert_eq!(rows(&mut app), once);
}
