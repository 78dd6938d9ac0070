//! The window against a source of which it only ever sees pages.

use muster_bus::{Entry, RoomName, SeatId};
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A source as the bus holds it.
struct Held {
    entries: Vec<Entry>,
    next: u64,
}

impl Held {
    fn new(count: u64) -> Self {
        let mut held = Self {
            entries: Vec::new(),
            next: 0,
        };
        held.add(count);
        held
    }

    fn add(&mut self, count: u64) {
        for _ in 0..count {
            let number = self.next;
            // Every seventh message takes more than one row.
            let more = if number.is_multiple_of(7) {
                "\nand more\nof it"
            } else {
                ""
            };
            let entry = json!({"id": number, "ts": 1, "from": "bob", "text": format!("n{number}{more}")});
            self.entries.push(entry.as_object().unwrap().clone());
            self.next += 1;
        }
    }

    fn cut(&mut self, keep: usize) {
        let gone = self.entries.len().saturating_sub(keep);
        self.entries.drain(..gone);
    }

    fn stretch(&self, first: usize, end: usize) -> Stretch {
        let me = SeatId::parse("david").unwrap();
        let source = Source::Room(RoomName::general());
        Stretch {
            first: first as u64,
            end: end as u64,
            total: self.entries.len() as u64,
            read: self.entries.len() as u64,
            posts: (first..end)
                .map(|number| Numbered {
                    number: number as u64,
                    entry: self.entries[number].clone(),
                    post: Post::of(&self.entries[number], &source, &me),
                })
                .collect(),
        }
    }

    fn answer(&self, way: &Way, limit: usize) -> Option<Stretch> {
        let total = self.entries.len();
        let same =
            |number: u64, entry: &Entry| self.entries.get(usize::try_from(number).unwrap()) == Some(entry);
        match way {
            Way::Newest => Some(self.stretch(total.saturating_sub(limit), total)),
            Way::Oldest => Some(self.stretch(0, limit.min(total))),
            Way::Before(number, entry) => same(*number, entry).then(|| {
                let end = usize::try_from(*number).unwrap();
                self.stretch(end.saturating_sub(limit), end)
            }),
            Way::After(number, entry) => same(*number, entry).then(|| {
                let first = usize::try_from(*number).unwrap() + 1;
                self.stretch(first, (first + limit).min(total))
            }),
            Way::From(_) => unreachable!("no window asks so"),
        }
    }
}

fn timeline() -> Timeline {
    Timeline::new(Source::Room(RoomName::general()))
}

/// Answers everything that is asked for, at once.
fn serve(timeline: &mut Timeline, held: &Held, asked: Option<Way>) {
    serve_by(timeline, held, asked, 50);
}

fn serve_by(timeline: &mut Timeline, held: &Held, asked: Option<Way>, limit: usize) {
    let mut asked = asked;
    for _ in 0..20 {
        let Some(way) = asked.or_else(|| timeline.wants()) else {
            return;
        };
        timeline.take(&way, held.answer(&way, limit));
        asked = None;
    }
    panic!("one page after another is asked for, and the person does not move");
}

fn shown(timeline: &mut Timeline, columns: usize, height: usize) -> Vec<String> {
    timeline
        .window(columns, height, 1, &Watch::utc())
        .into_iter()
        .map(|row| row.into_iter().map(|(_, text)| text).collect())
        .collect()
}

/// The ids of the messages whose first row is in sight.
fn ids(rows: &[String]) -> Vec<u64> {
    rows.iter()
        .filter_map(|row| row.split_once("<bob> n")?.1.parse().ok())
        .collect()
}

#[test]
fn the_newest_message_is_in_sight_until_one_scrolls_and_again_at_the_end() {
    let (mut timeline, mut held) = (timeline(), Held::new(500));
    serve(&mut timeline, &held, Some(Way::Newest));
    assert_eq!(ids(&shown(&mut timeline, 60, 10)).last(), Some(&499));
    assert!(timeline.at_end());
    timeline.scroll(20, 10, &Watch::utc());
    let before = shown(&mut timeline, 60, 10);
    held.add(3);
    let asked = timeline.grow(held.stretch(500, 503), false, 0);
    assert_eq!(asked, None);
    assert_eq!(
        shown(&mut timeline, 60, 10),
        before,
        "what is read stays where it is"
    );
    assert!(timeline.below() > 3);
    assert_eq!(timeline.newest(), None);
    let asked = timeline.go_to_end();
    serve(&mut timeline, &held, asked);
    assert_eq!(ids(&shown(&mut timeline, 60, 10)).last(), Some(&502));
    assert_eq!(timeline.newest().map(|found| found.number), Some(502));
}

#[test]
fn a_person_reaches_the_first_message_and_comes_back_with_a_few_pages_in_memory() {
    let (mut timeline, held) = (timeline(), Held::new(20_000));
    serve(&mut timeline, &held, Some(Way::Newest));
    for _ in 0..3_000 {
        timeline.scroll(9, 10, &Watch::utc());
        serve(&mut timeline, &held, None);
        assert!(timeline.items.len() <= KEPT);
    }
    assert_eq!(ids(&shown(&mut timeline, 60, 10)).first(), Some(&0));
    for _ in 0..3_000 {
        timeline.scroll(-9, 10, &Watch::utc());
        serve(&mut timeline, &held, None);
        assert!(timeline.items.len() <= KEPT);
    }
    assert_eq!(ids(&shown(&mut timeline, 60, 10)).last(), Some(&19_999));
    assert!(timeline.at_end());
    let asked = timeline.go_to_start();
    serve(&mut timeline, &held, asked);
    assert_eq!(ids(&shown(&mut timeline, 60, 10)).first(), Some(&0));
}

#[test]
fn who_wants_to_the_first_message_while_a_page_is_on_its_way_gets_there() {
    let (mut timeline, held) = (timeline(), Held::new(20_000));
    serve(&mut timeline, &held, Some(Way::Newest));
    let page = std::iter::from_fn(|| {
        timeline.scroll(9, 10, &Watch::utc());
        Some(timeline.wants())
    });
    let before = page.flatten().next().unwrap();
    assert_eq!(timeline.go_to_start(), None, "one page is asked for at a time");
    timeline.take(&before, held.answer(&before, 50));
    serve(&mut timeline, &held, None);
    assert_eq!(ids(&shown(&mut timeline, 60, 10)).first(), Some(&0));
    // Who has gone elsewhere by the time it comes stays there.
    timeline
        .go_to_end()
        .into_iter()
        .for_each(|way| timeline.take(&way, held.answer(&way, 50)));
    let page = std::iter::from_fn(|| {
        timeline.scroll(9, 10, &Watch::utc());
        Some(timeline.wants())
    });
    let before = page.flatten().next().unwrap();
    assert_eq!(timeline.go_to_start(), None);
    assert_eq!(timeline.go_to_end(), None);
    timeline.take(&before, held.answer(&before, 50));
    serve(&mut timeline, &held, None);
    assert_eq!(ids(&shown(&mut timeline, 60, 10)).last(), Some(&19_999));
}

#[test]
fn an_answer_is_in_sight_and_survives_the_page_that_comes_after_it() {
    let (mut timeline, held) = (timeline(), Held::new(300));
    assert_eq!(timeline.say(Tone::Answer, vec!["early".into()]), None);
    serve(&mut timeline, &held, Some(Way::Newest));
    let rows = shown(&mut timeline, 60, 6);
    assert!(rows.last().unwrap().contains("early"), "{rows:?}");
    assert!(ids(&rows).contains(&299));
}

#[test]
fn a_cut_source_is_told_of_by_a_new_page_and_never_by_a_gap() {
    let (mut timeline, mut held) = (timeline(), Held::new(300));
    serve(&mut timeline, &held, Some(Way::Newest));
    timeline.scroll(30, 10, &Watch::utc());
    held.add(1);
    held.cut(100);
    assert_eq!(timeline.grow(held.stretch(99, 100), true, 0), None);
    // What stood before is still there, and nothing of the new numbers is put beside it.
    for _ in 0..50 {
        timeline.scroll(10, 10, &Watch::utc());
        serve(&mut timeline, &held, None);
        let ids = ids(&shown(&mut timeline, 60, 10));
        assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{ids:?}");
    }
    let asked = timeline.go_to_end();
    serve(&mut timeline, &held, asked);
    assert_eq!(ids(&shown(&mut timeline, 60, 10)).last(), Some(&300));
}

#[test]
fn long_messages_are_let_go_of_sooner_and_never_fetched_to_and_fro() {
    let (mut timeline, mut held) = (timeline(), Held::new(0));
    for number in 0..150 {
        let long = "words and words ".repeat(16_000);
        let entry = json!({"id": number, "ts": 1, "from": "bob", "text": format!("n{number} {long}")});
        held.entries.push(entry.as_object().unwrap().clone());
    }
    serve_by(&mut timeline, &held, Some(Way::Newest), 16);
    for way in [1, -1] {
        for _ in 0..100 {
            // A message and a half of what one of them takes.
            timeline.scroll(way * 4_000, 30, &Watch::utc());
            shown(&mut timeline, 100, 30);
            serve_by(&mut timeline, &held, None, 16);
            assert!(timeline.weight < 2 * HEAVY, "{}", timeline.weight);
            assert!(timeline.items.iter().filter(|item| item.rows.is_some()).count() < 40);
        }
        if way == 1 {
            assert_eq!(timeline.items.front().and_then(Item::number), Some(0));
        }
    }
    assert_eq!(timeline.items.back().and_then(Item::number), Some(149));
}

#[test]
fn a_muted_agent_leaves_no_trace_and_no_hole_to_fall_into() {
    let (mut timeline, held) = (timeline(), Held::new(400));
    let mut stretch = held.answer(&Way::Newest, 200).unwrap();
    for found in &mut stretch.posts {
        found.post.muted = true;
    }
    timeline.take(&Way::Newest, Some(stretch));
    timeline.scroll(5, 10, &Watch::utc());
    timeline.scroll(-5, 10, &Watch::utc());
    assert_eq!(shown(&mut timeline, 60, 10), Vec::<String>::new());
    serve(&mut timeline, &held, None);
    assert_eq!(ids(&shown(&mut timeline, 60, 10)).last(), Some(&199));
}

#[derive(Debug, Clone)]
enum Do {
    Up(isize),
    Down(isize),
    Start,
    End,
    Grow(u64),
    Cut(usize),
    Say,
    Size(usize, usize),
}

fn doing() -> impl Strategy<Value = Do> {
    prop_oneof![
        4 => (1_isize..60).prop_map(Do::Up),
        3 => (1_isize..60).prop_map(Do::Down),
        1 => Just(Do::Start),
        1 => Just(Do::End),
        2 => (1_u64..8).prop_map(Do::Grow),
        1 => (5_usize..200).prop_map(Do::Cut),
        1 => Just(Do::Say),
        1 => (20_usize..90, 1_usize..30).prop_map(|(columns, height)| Do::Size(columns, height)),
    ]
}

proptest! {
    #[test]
    fn whatever_one_does_messages_are_in_order_and_none_is_left_out(count in 0_u64..400, what in prop::collection::vec(doing(), 1..60)) {
        let (mut timeline, mut held) = (timeline(), Held::new(count));
        serve(&mut timeline, &held, Some(Way::Newest));
        let (mut columns, mut height) = (60, 12);
        for step in what {
            let before = held.entries.len();
            let asked = match step {
                Do::Up(rows) => { timeline.scroll(rows, height, &Watch::utc()); None }
                Do::Down(rows) => { timeline.scroll(-rows, height, &Watch::utc()); None }
                Do::Start => timeline.go_to_start(),
                Do::End => timeline.go_to_end(),
                Do::Grow(count) => {
                    held.add(count);
                    timeline.grow(held.stretch(before, held.entries.len()), false, 0)
                }
                Do::Cut(keep) => {
                    held.add(1);
                    held.cut(keep);
                    let total = held.entries.len();
                    timeline.grow(held.stretch(total - 1, total), true, 0)
                }
                Do::Say => timeline.say(Tone::Answer, vec!["said".into()]),
                Do::Size(wide, high) => { (columns, height) = (wide, high); None }
            };
            serve(&mut timeline, &held, asked);
            let rows = shown(&mut timeline, columns, height);
            prop_assert!(rows.len() <= height);
            let ids = ids(&rows);
            prop_assert!(ids.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{:?}", ids);
            if timeline.at_end() {
                let newest = timeline.newest().and_then(|found| found.entry.get("id").cloned());
                prop_assert_eq!(newest, held.entries.last().and_then(|entry| entry.get("id").cloned()));
            }
        }
        let asked = timeline.go_to_end();
        serve(&mut timeline, &held, asked);
        let newest = timeline.newest().and_then(|found| found.entry.get("id").cloned());
        prop_assert_eq!(newest, held.entries.last().and_then(|entry| entry.get("id").cloned()));
    }
}
