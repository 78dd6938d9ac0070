//! Renames, from the outside.

use std::fs;

use muster_bus::post;
use muster_bus::read::{self, Want};
use muster_bus::rename::{self, gather};
use muster_bus::transports::{self, Attach};
use muster_bus::{BusError, RoomName, Source, registry, rooms, tokens};
use serde_json::Value;

use crate::{World, bind, seat};

fn texts(world: &World, id: &str) -> Vec<String> {
    let batch = read::read(&world.home, &seat(id), &Source::Inbox, Want::default()).unwrap();
    batch
        .messages
        .iter()
        .map(|message| message["text"].as_str().unwrap().to_owned())
        .collect()
}

/// Alice with everything an agent can have, two of her five messages read.
fn alice(world: &World) -> String {
    let home = &world.home;
    registry::register(home, &seat("alice"), Some("site"), Some("frontend")).unwrap();
    registry::register(home, &seat("bob"), None, None).unwrap();
    for room in ["seo", "ops"] {
        rooms::join(home, &seat("alice"), &RoomName::parse(room).unwrap()).unwrap();
    }
    rooms::join(home, &seat("bob"), &RoomName::parse("seo").unwrap()).unwrap();
    post::post(home, &seat("bob"), &RoomName::parse("seo").unwrap(), "one", None).unwrap();
    for number in 1..=5 {
        post::send(home, &seat("bob"), &seat("alice"), &format!("m{number}")).unwrap();
    }
    let want = Want {
        limit: Some(2),
        ..Want::default()
    };
    assert_eq!(
        read::read(home, &seat("alice"), &Source::Inbox, want)
            .unwrap()
            .returned,
        2
    );
    let target = "w3:p1".to_owned();
    transports::attach(
        home,
        &seat("alice"),
        Attach {
            target,
            ..Attach::default()
        },
    )
    .unwrap();
    world.put("archive/inbox/alice.jsonl", "{\"id\":\"aged\"}\n");
    tokens::mint(home, &seat("alice")).unwrap().expose().to_owned()
}

fn sources() -> [Source; 4] {
    [
        Source::Inbox,
        Source::Status,
        Source::Room(RoomName::general()),
        Source::Room(RoomName::parse("seo").unwrap()),
    ]
}

// spec: TOOL-082..TOOL-086 IDN-032
#[test]
fn everything_that_is_an_agents_moves() {
    for world in [World::new(), World::shared()] {
        let token = alice(&world);
        let home = &world.home;
        let unread = |id: &str| sources().map(|source| read::unread(home, &seat(id), &source).unwrap());
        let (before, marker) = (unread("alice"), world.json("transports/alice.json"));
        assert_eq!(before[0], 3);
        let row = world.json("agents.json")["alice"].clone();

        rename::rename(home, &seat("alice"), &seat("carol")).unwrap();

        let agents = world.json("agents.json");
        assert_eq!(agents.get("alice"), None);
        for field in ["project", "role", "registeredAt", "lastHeartbeat"] {
            assert_eq!(agents["carol"][field], row[field], "{field}");
        }
        assert_eq!(agents["carol"]["agentId"], "carol");
        let after = unread("carol");
        assert_eq!((after[0], after[1]), (before[0], before[1]));
        assert_eq!(
            after[3],
            before[3] + 1,
            "what alice did is no act of carol's any more"
        );
        assert_eq!(after[2], before[2], "the notice of her own act is not new to her");
        assert_eq!(texts(&world, "carol"), ["m3", "m4", "m5"]);
        let moved = world.json("transports/carol.json");
        assert_eq!(
            (&moved["agentId"], &moved["target"], &moved["pid"]),
            (&"carol".into(), &marker["target"], &marker["pid"])
        );
        let rooms = world.json("rooms.json");
        assert_eq!(rooms["seo"]["members"], serde_json::json!(["carol", "bob"]));
        assert_eq!(rooms["ops"]["members"], serde_json::json!(["carol"]));
        let map = tokens::Tokens::load(home).unwrap().unwrap();
        assert_eq!(
            (map.find(&token), map.seats()),
            (Some(seat("carol")), vec![seat("carol")])
        );
        let general = fs::read_to_string(world.dir.path().join("room.jsonl")).unwrap();
        let notices: Vec<Value> = general
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .filter(|entry: &Value| entry["text"] == "alice is now known as carol")
            .collect();
        assert_eq!(notices.len(), 1);
        assert_eq!(
            (&notices[0]["system"], &notices[0]["from"]),
            (&true.into(), &"system".into())
        );
        assert_eq!(
            fs::read_to_string(world.dir.path().join("archive/inbox/carol.jsonl")).unwrap(),
            "{\"id\":\"aged\"}\n"
        );
        for gone in [
            "inbox/alice.jsonl",
            "cursors/alice.json",
            "transports/alice.json",
            "archive/inbox/alice.jsonl",
        ] {
            assert!(!world.exists(gone), "{gone}");
        }
        assert!(rename::unfinished(home).unwrap().is_empty());
    }
}

/// What makes an id be in use, and the words that say so.
type Case<'c> = (&'c str, &'c dyn Fn(&World));

// spec: TOOL-088
#[test]
fn an_id_that_anything_belongs_to_is_refused_and_nothing_moves() {
    let world = World::new();
    alice(&world);
    let cases: [Case<'_>; 8] = [
        ("registered", &|world| {
            drop(registry::register(&world.home, &seat("carol"), None, None).unwrap())
        }),
        ("token", &|world| {
            drop(tokens::mint(&world.home, &seat("carol")).unwrap())
        }),
        ("transport marker", &|world| {
            world.put(
                "transports/carol.json",
                r#"{"agentId":"carol","transport":"herdr","pid":1999999999}"#,
            )
        }),
        ("inbox", &|world| {
            drop(post::send(&world.home, &seat("bob"), &seat("carol"), "early").unwrap())
        }),
        ("has read", &|world| {
            world.put("cursors/carol.json", "{\"inboxOffset\":0}")
        }),
        ("channel", &|world| {
            drop(rooms::join(&world.home, &seat("carol"), &RoomName::parse("x").unwrap()).unwrap())
        }),
        ("the id it has", &|_| {}),
        ("live session", &|_| {}),
    ];
    for (words, make) in cases {
        let world = World::new();
        alice(&world);
        make(&world);
        let new = if words == "the id it has" {
            "alice"
        } else {
            "carol"
        };
        let holder = world.session();
        if words == "live session" {
            bind(&holder, "carol").unwrap();
        }
        let before = world.files();
        let error = rename::rename(&world.home, &seat("alice"), &seat(new)).unwrap_err();
        assert!(
            matches!(&error, BusError::IdInUse { why, .. } if why.contains(words)),
            "{words}: {error}"
        );
        assert_eq!(world.files(), before, "{words}");
    }
    let before = world.files();
    assert!(matches!(
        rename::rename(&world.home, &seat("nobody"), &seat("carol")),
        Err(BusError::NotRegistered(_))
    ));
    assert_eq!(world.files(), before);
}

#[test]
fn files_that_register_made_early_are_no_obstacle() {
    let world = World::new();
    alice(&world);
    registry::register(&world.home, &seat("carol"), None, None).unwrap();
    registry::unregister(&world.home, &seat("carol")).unwrap();
    assert!(world.exists("inbox/carol.jsonl") && world.exists("cursors/carol.json"));
    rename::rename(&world.home, &seat("alice"), &seat("carol")).unwrap();
    assert_eq!(texts(&world, "carol"), ["m3", "m4", "m5"]);
}

#[test]
fn a_file_that_cannot_be_read_refuses_before_anything_moves() {
    for file in [
        "agents.json",
        "rooms.json",
        "tokens.json",
        "transports/alice.json",
        "transports/carol.json",
        "cursors/carol.json",
        "sessions/x.json",
    ] {
        let world = World::new();
        alice(&world);
        world.put(file, "{\"torn");
        let before = world.files();
        assert!(
            rename::rename(&world.home, &seat("alice"), &seat("carol")).is_err(),
            "{file}"
        );
        assert_eq!(world.files(), before, "{file}");
    }
}

#[test]
fn a_late_message_goes_on_to_the_new_id_until_somebody_is_the_old_one_again() {
    for world in [World::new(), World::shared()] {
        alice(&world);
        let home = &world.home;
        rename::rename(home, &seat("alice"), &seat("carol")).unwrap();
        assert_eq!(
            rename::forwarded(home, &seat("alice")).unwrap(),
            Some(seat("carol"))
        );
        assert_eq!(rename::forwarded(home, &seat("carol")).unwrap(), None);
        assert_eq!(rename::forwarded(home, &seat("nobody")).unwrap(), None);

        // A program that does not know of the note writes to the old inbox; a torn line of one that died stands there, too.
        world.put("inbox/alice.jsonl", "{\"id\":\"l1\",\"ts\":1,\"from\":\"bob\",\"to\":\"alice\",\"text\":\"late 1\"}\nno json\n{\"id\":\"l2\",\"text\":\"late 2\"}\n");
        assert_eq!(gather(home, &seat("carol")).unwrap(), 2);
        assert_eq!(gather(home, &seat("carol")).unwrap(), 0);
        assert!(!world.exists("inbox/alice.jsonl"));
        assert_eq!(texts(&world, "carol"), ["m3", "m4", "m5", "late 1", "late 2"]);
        let archive = fs::read_to_string(world.dir.path().join("archive/inbox/carol.jsonl")).unwrap();
        assert_eq!(archive, "{\"id\":\"aged\"}\nno json\n");
        // A death after the copy and before the removal doubles nothing.
        world.put(
            "inbox/alice.jsonl",
            "{\"id\":\"l2\",\"text\":\"late 2\"}\n{\"id\":\"l3\",\"text\":\"late 3\"}\n",
        );
        assert_eq!(gather(home, &seat("carol")).unwrap(), 1);
        assert_eq!(texts(&world, "carol"), ["late 3"]);

        // Somebody is alice again: what is sent to her is hers.
        let other = world.session();
        bind(&other, "alice").unwrap();
        assert_eq!(rename::forwarded(home, &seat("alice")).unwrap(), None);
        post::send(home, &seat("bob"), &seat("alice"), "for the second").unwrap();
        assert_eq!(gather(home, &seat("carol")).unwrap(), 0);
        assert_eq!(texts(&world, "alice"), ["for the second"]);
    }
}

#[test]
fn an_id_that_another_program_registers_again_is_forwarded_no_more() {
    let world = World::new();
    alice(&world);
    let home = &world.home;
    rename::rename(home, &seat("alice"), &seat("carol")).unwrap();
    registry::register(home, &seat("alice"), None, None).unwrap();
    post::send(home, &seat("bob"), &seat("alice"), "for the second").unwrap();
    assert_eq!(rename::forwarded(home, &seat("alice")).unwrap(), None);
    assert_eq!(gather(home, &seat("carol")).unwrap(), 0);
    assert_eq!(texts(&world, "alice"), ["for the second"]);
}

#[test]
fn names_given_one_after_the_other_all_lead_to_the_last_one() {
    let world = World::new();
    alice(&world);
    let home = &world.home;
    let now = |id: &str| {
        rename::forwarded(home, &seat(id))
            .unwrap()
            .map(|seat| seat.to_string())
    };
    for (old, new) in [("alice", "b"), ("b", "c"), ("c", "d")] {
        rename::rename(home, &seat(old), &seat(new)).unwrap();
    }
    assert_eq!(
        [now("alice"), now("b"), now("c")],
        [Some("d".into()), Some("d".into()), Some("d".into())]
    );
    for (id, text) in [("alice", "1"), ("b", "2"), ("c", "3")] {
        post::send(home, &seat("bob"), &seat(id), text).unwrap();
    }
    assert_eq!(gather(home, &seat("d")).unwrap(), 3);
    // And back to the first: nothing leads in a circle.
    rename::rename(home, &seat("d"), &seat("alice")).unwrap();
    assert_eq!(
        [now("alice"), now("b"), now("c"), now("d")],
        [
            None,
            Some("alice".into()),
            Some("alice".into()),
            Some("alice".into())
        ]
    );
    assert_eq!(texts(&world, "alice"), ["m3", "m4", "m5", "1", "2", "3"]);
}

#[test]
fn a_note_that_is_damaged_leaves_messages_where_they_are() {
    let world = World::new();
    alice(&world);
    rename::rename(&world.home, &seat("alice"), &seat("carol")).unwrap();
    post::send(&world.home, &seat("bob"), &seat("alice"), "late").unwrap();
    world.put(".muster/alias/alice.json", "{");
    assert_eq!(rename::forwarded(&world.home, &seat("alice")).unwrap(), None);
    assert_eq!(gather(&world.home, &seat("carol")).unwrap(), 0);
    assert_eq!(
        read::depth(&world.home, &seat("alice"), &Source::Inbox).unwrap(),
        1
    );
}

#[test]
fn senders_lose_nothing_to_renames_that_go_on_meanwhile() {
    let world = World::new();
    let home = &world.home;
    registry::register(home, &seat("a0"), None, None).unwrap();
    const SENDERS: usize = 3;
    const EACH: usize = 200;
    let done = std::sync::atomic::AtomicUsize::new(0);
    let mut last = 0;
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let done = &done;
            scope.spawn(move || {
                for number in 0..EACH {
                    // Whoever knows only the first name.
                    post::send(home, &seat("bob"), &seat("a0"), &format!("{sender}-{number}")).unwrap();
                }
                done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        while done.load(std::sync::atomic::Ordering::SeqCst) < SENDERS {
            rename::rename(home, &seat(&format!("a{last}")), &seat(&format!("a{}", last + 1))).unwrap();
            last += 1;
        }
    });
    let id = format!("a{last}");
    gather(home, &seat(&id)).unwrap();
    let mut got = texts(&world, &id);
    got.sort();
    let mut sent: Vec<String> = (0..SENDERS)
        .flat_map(|s| (0..EACH).map(move |n| format!("{s}-{n}")))
        .collect();
    sent.sort();
    assert_eq!(got, sent, "after {last} renames");
}

// spec: TOOL-087 IDN-032
#[test]
fn a_new_id_is_that_of_every_connection_that_came_with_the_agents_token() {
    use muster_bus::identity::{Ask, Session};
    use muster_bus::sessions::{self, Link};
    use muster_bus::transports::Panes;

    let world = World::new();
    alice(&world);
    let by_token = |id: &str| {
        let session = Session::new(&world.home, Link::Http, Panes::default()).unwrap();
        let claimed = claim(&session, id);
        claimed.unwrap();
        session
    };
    fn claim(session: &Session, id: &str) -> Result<(), BusError> {
        let seat = seat(id);
        let ask = Ask {
            bearer: true,
            ..Ask::of(&seat)
        };
        session.claim(ask).map(|claim| claim.commit())
    }
    let (one, two, other) = (by_token("alice"), by_token("alice"), by_token("bob"));
    let own = world.session();
    bind(&own, "carol").unwrap();
    one.rename(&seat("alicia")).unwrap();
    let named = |session: &Session| {
        let marker = world.json(&format!("sessions/{}.json", session.id()));
        marker["agentId"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        (named(&one), named(&two)),
        ("alicia".to_owned(), "alicia".to_owned())
    );
    assert_eq!(
        (named(&other), named(&own)),
        ("bob".to_owned(), "carol".to_owned())
    );
    // The token is alicia's now, so nobody comes with it and asks for alice.
    claim(&two, "alicia").unwrap();
    assert_eq!(two.bound(), Some(seat("alicia")));
    assert_eq!(texts(&world, "alicia"), ["m3", "m4", "m5"]);
    // Without the token nobody gets another id, and nobody is left who holds the old one.
    let refused = two.claim(Ask::of(&seat("alice"))).map(drop);
    assert!(matches!(refused, Err(BusError::Bound { .. })), "{refused:?}");
    let refused = own
        .claim(Ask {
            bearer: true,
            ..Ask::of(&seat("alicia"))
        })
        .map(drop);
    assert!(matches!(refused, Err(BusError::Bound { .. })), "{refused:?}");
    assert!(
        sessions::live(&world.home)
            .unwrap()
            .iter()
            .all(|(_, marker)| marker.agent_id != "alice")
    );
    bind(&world.session(), "alice").unwrap();
}
