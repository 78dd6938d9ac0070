//! The person against real files: what is new, what is a page, and being there.

use muster_bus::limits::{Bound, Limits};
use muster_bus::post;
use muster_core::Clock;
use proptest::prelude::*;
use serde_json::json;

use super::*;

struct Bus {
    home: Home,
    dir: tempfile::TempDir,
}

fn bus(max: usize, keep: usize) -> Bus {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        room: Bound { max, keep },
        ..Limits::default()
    };
    let home = Home::open(dir.path(), limits, Clock::system()).unwrap();
    Bus { home, dir }
}

fn seat(id: &str) -> SeatId {
    SeatId::parse(id).unwrap()
}

fn sit(bus: &Bus) -> Person {
    Person::enter(&bus.home, &seat("david"), Panes::default(), None).unwrap()
}

fn say(bus: &Bus, text: &str) {
    post::post(&bus.home, &seat("bob"), &RoomName::general(), text, None).unwrap();
}

fn general() -> Source {
    Source::Room(RoomName::general())
}

fn texts(posts: &[Numbered]) -> Vec<String> {
    posts.iter().map(|found| found.post.body.join("\n")).collect()
}

fn fresh(told: Vec<Told>) -> Vec<String> {
    told.into_iter()
        .flat_map(|told| match told {
            Told::Fresh(fresh) => texts(&fresh.stretch.posts),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn names(numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("n{number}")).collect()
}

#[test]
fn what_was_there_before_is_not_new_and_everything_after_is() {
    let bus = bus(1_000, 500);
    say(&bus, "before");
    let mut person = sit(&bus);
    assert_eq!(fresh(person.look()), [""; 0]);
    assert_eq!(person.unread(&general()).unwrap(), 1);
    (0..700).for_each(|number| say(&bus, &format!("n{number}")));
    let Some(Told::Fresh(all)) = person.look().pop() else {
        panic!("nothing is new");
    };
    // Of very many the newest, and how many were left out.
    assert_eq!(texts(&all.stretch.posts), names(200..700));
    assert_eq!(all.skipped, 200);
    assert_eq!(fresh(person.look()), [""; 0]);
}

#[test]
fn a_channel_is_heard_from_the_moment_it_is_joined() {
    let bus = bus(1_000, 500);
    let mut person = sit(&bus);
    person.look();
    let ops = RoomName::parse("ops").unwrap();
    rooms::join(&bus.home, &seat("bob"), &ops).unwrap();
    post::post(&bus.home, &seat("bob"), &ops, "before", None).unwrap();
    assert_eq!(fresh(person.look()), [""; 0]);
    rooms::join(&bus.home, &seat("david"), &ops).unwrap();
    person.look();
    post::post(&bus.home, &seat("bob"), &ops, "after", None).unwrap();
    assert_eq!(fresh(person.look()), ["after"]);
    // Of what stood there before, nothing was taken for read. That one joined oneself is no news.
    assert_eq!(person.unread(&Source::Room(ops)).unwrap(), 3);
}

#[test]
fn a_page_goes_on_where_the_last_one_ended_in_both_directions() {
    let bus = bus(5_000, 2_500);
    let mut lines = String::new();
    for number in 0..1_000 {
        // Pages of long messages are cut short in bytes, not in order.
        let long = if number % 100 == 7 {
            "x".repeat(900 * 1024)
        } else {
            String::new()
        };
        let entry = json!({"id": number, "ts": 1, "from": "bob", "text": format!("n{number} {long}")});
        lines.push_str(&format!("{entry}\n"));
    }
    std::fs::write(bus.dir.path().join("room.jsonl"), lines).unwrap();
    let person = sit(&bus);
    let page = |way: &Way| person.stretch(&general(), way, 200).unwrap();
    let number = |found: &Numbered| found.entry.get("id").unwrap().as_u64().unwrap();

    let newest = page(&Way::Newest).unwrap();
    assert_eq!((newest.end, newest.total), (1_000, 1_000));
    let mut down: Vec<u64> = newest.posts.iter().map(number).collect();
    let mut first = newest.posts[0].clone();
    while first.number > 0 {
        let before = page(&Way::Before(first.number, first.entry.clone())).unwrap();
        assert!(!before.posts.is_empty());
        first = before.posts[0].clone();
        let mut numbers: Vec<u64> = before.posts.iter().map(number).collect();
        numbers.append(&mut down);
        down = numbers;
    }
    assert_eq!(down, (0..1_000).collect::<Vec<u64>>());

    let oldest = page(&Way::Oldest).unwrap();
    let mut up: Vec<u64> = oldest.posts.iter().map(number).collect();
    let mut last = oldest.posts.last().unwrap().clone();
    while last.number < 999 {
        let after = page(&Way::After(last.number, last.entry.clone())).unwrap();
        assert!(!after.posts.is_empty());
        last = after.posts.last().unwrap().clone();
        up.extend(after.posts.iter().map(number));
    }
    assert_eq!(up, (up[0]..1_000).collect::<Vec<u64>>());
    assert_eq!(page(&Way::From(990)).unwrap().posts.len(), 10);
}

#[test]
fn a_page_of_a_source_that_was_cut_meanwhile_is_none() {
    let bus = bus(20, 5);
    (0..20).for_each(|number| say(&bus, &format!("n{number}")));
    let person = sit(&bus);
    let newest = person.stretch(&general(), &Way::Newest, 10).unwrap().unwrap();
    say(&bus, "n20");
    let (first, last) = (newest.posts[0].clone(), newest.posts[9].clone());
    let before = Way::Before(first.number, first.entry);
    assert_eq!(person.stretch(&general(), &before, 10).unwrap(), None);
    let after = Way::After(last.number, last.entry);
    assert_eq!(person.stretch(&general(), &after, 10).unwrap(), None);
}

#[test]
fn whoever_was_dropped_meanwhile_is_registered_again_and_keeps_a_role_of_their_own() {
    let bus = bus(1_000, 500);
    registry::register(&bus.home, &seat("david"), None, Some("lead")).unwrap();
    registry::unregister(&bus.home, &seat("david")).unwrap();
    let mut person = sit(&bus);
    let role = || {
        Agents::load(&bus.home)
            .unwrap()
            .get(&seat("david"))
            .and_then(|agent| agent.role)
    };
    assert_eq!(role().as_deref(), Some("human"));
    registry::unregister(&bus.home, &seat("david")).unwrap();
    person.beat().unwrap();
    assert_eq!(role().as_deref(), Some("human"));
    registry::register(&bus.home, &seat("david"), None, Some("lead")).unwrap();
    person.beat().unwrap();
    assert_eq!(role().as_deref(), Some("lead"));
    person.leave().unwrap();
    person.leave().unwrap();
    assert_eq!(role(), None);
    // Somebody else may take the seat, and is not disturbed by the one who has left.
    let other = sit(&bus);
    drop(person);
    assert_eq!(role().as_deref(), Some("human"));
    drop(other);
    assert_eq!(role(), None);
}

#[test]
fn a_damaged_registry_is_told_of_and_keeps_nobody_from_reading() {
    let bus = bus(1_000, 500);
    let mut person = sit(&bus);
    person.look();
    std::fs::write(bus.dir.path().join("agents.json"), "{ half").unwrap();
    say(&bus, "still heard");
    assert_eq!(fresh(person.look()), ["still heard"]);
    assert!(person.here().unwrap_err().to_string().contains("agents.json"));
    assert!(person.beat().is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nothing_is_missed_or_heard_twice_however_often_the_channel_is_cut(steps in prop::collection::vec(0_usize..5, 1..40)) {
        let bus = bus(12, 6);
        let mut person = sit(&bus);
        person.look();
        let (mut said, mut heard) = (0, Vec::new());
        for count in steps {
            for _ in 0..count {
                say(&bus, &format!("n{said}"));
                said += 1;
            }
            heard.extend(fresh(person.look()));
        }
        prop_assert_eq!(heard, names(0..said));
    }
}
