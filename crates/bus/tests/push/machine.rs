//! The machine alone, against chance: nothing lost, nothing typed twice, no cursor past what nobody confirmed, each sender in order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_bus::Entry;
use muster_bus::push::queue::{LAPSE, Queue, Step};
use muster_bus::push::{Delivery, Door, Outcome, Pending, PendingSource, Report, Seat, Settings, Why};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::json;

use crate::support::{hold, seat, unknown};
use crate::text::{assert_inert, queue};

const SOURCES: [&str; 3] = ["inbox", "#a", "#b"];
const SENDERS: [&str; 3] = ["alice", "bob", "mallory"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Chatter,
    Blocker,
    Slash,
    Command,
    Own,
    Reminder,
}

#[derive(Debug, Clone)]
enum Act {
    Post {
        source: usize,
        from: usize,
        what: What,
    },
    Pass(u64),
    /// What comes of the next deliveries.
    Outcome(u8),
    /// The agent reads a source itself.
    Read(usize),
    /// An answer is lost: what was to be noted is not.
    LoseAck,
    Restart,
}

fn acts(restarts: bool) -> impl Strategy<Value = Vec<Act>> {
    let what = prop_oneof![
        6 => Just(What::Chatter),
        3 => Just(What::Blocker),
        1 => Just(What::Slash),
        2 => Just(What::Command),
        1 => Just(What::Own),
        1 => Just(What::Reminder),
    ];
    let post = (0..SOURCES.len(), 0..SENDERS.len(), what).prop_map(|(source, from, what)| Act::Post {
        source,
        from,
        what,
    });
    let act = prop_oneof![
        12 => post,
        8 => prop_oneof![0..50_u64, 500..20_000_u64].prop_map(Act::Pass),
        3 => (0..3_u8).prop_map(Act::Outcome),
        1 => (0..SOURCES.len()).prop_map(Act::Read),
        1 => Just(Act::LoseAck),
        2 => Just(if restarts { Act::Restart } else { Act::LoseAck }),
    ];
    prop::collection::vec(act, 1..80)
}

fn settings() -> Settings {
    Settings {
        max_queue: Some(Duration::from_secs(15)),
        ..Settings::default()
    }
}

fn machine(salt: usize) -> Queue {
    let seat = Seat {
        id: seat("me"),
        target: "w1:p1".to_owned(),
        include_room: true,
        allowlist: Some(vec!["alice".to_owned(), "bob".to_owned()]),
        debounce: Duration::from_secs(1),
    };
    Queue::new(seat, settings(), salt.to_string())
}

/// One message and what became of it.
struct Said {
    entry: Entry,
    source: usize,
    from: &'static str,
    what: What,
    at: Duration,
    /// How often it was typed, for sure or perhaps.
    typed: usize,
    confirmed: bool,
    unknown: bool,
    lapsed: bool,
    /// The agent read it, so nobody need type it.
    read: bool,
}

impl Said {
    fn is_typed_at_all(&self) -> bool {
        let allowed = self.from != "mallory" || self.what == What::Reminder;
        allowed
            && match self.what {
                What::Slash | What::Own => false,
                What::Command => self.source == 0,
                What::Chatter | What::Blocker | What::Reminder => true,
            }
    }
}

/// The files, the pane and the machine between them.
struct Bus {
    said: Vec<Said>,
    /// Of each source: which messages, and how many of them its cursor passed.
    files: [(Vec<usize>, usize); 3],
    now: Duration,
    queue: Queue,
    outcomes: u8,
    lose_ack: bool,
    restarts: usize,
    receipts: BTreeMap<String, Outcome>,
    /// What was typed first, in the order of the pane.
    pane: Vec<usize>,
}

const EPOCH: i64 = 1_800_000_000_000;

impl Bus {
    fn new() -> Self {
        Self {
            said: Vec::new(),
            files: Default::default(),
            now: Duration::ZERO,
            queue: machine(0),
            outcomes: 0,
            lose_ack: false,
            restarts: 0,
            receipts: BTreeMap::new(),
            pane: Vec::new(),
        }
    }

    fn clock(&self) -> i64 {
        EPOCH + i64::try_from(self.now.as_millis()).unwrap()
    }

    fn pending(&self) -> Pending {
        let unread = |at: usize| {
            let (file, passed) = &self.files[at];
            let entries: Vec<Entry> = file[*passed..]
                .iter()
                .map(|said| self.said[*said].entry.clone())
                .collect();
            PendingSource {
                source: SOURCES[at].to_owned(),
                entries,
                older: 0,
            }
        };
        Pending {
            sources: (0..SOURCES.len())
                .map(unread)
                .filter(|source| !source.entries.is_empty())
                .collect(),
            now: self.clock(),
            ..Pending::default()
        }
    }

    fn post(&mut self, source: usize, from: usize, what: What) {
        // Which of two messages of the same millisecond in two files came first, nobody can tell.
        self.now += Duration::from_millis(1);
        let number = self.said.len();
        let from = if what == What::Own { "me" } else { SENDERS[from] };
        let text = match what {
            What::Chatter | What::Own | What::Reminder => format!("say m{number}."),
            What::Blocker => format!("BLOCKER: m{number}."),
            What::Slash => format!("/say m{number}."),
            What::Command => "/clear".to_owned(),
        };
        // Some are so long that a block holds few of them.
        let text = match what {
            What::Command => text,
            _ if number % 4 == 3 => format!("{text}\n{}", "x".repeat(6_000)),
            _ => text,
        };
        let mut entry = json!({"id": format!("id{number}"), "ts": self.clock(), "from": from, "text": text});
        match what {
            What::Command => entry["control"] = json!(true),
            What::Reminder => entry["urgent"] = json!(true),
            _ => {}
        }
        self.said.push(Said {
            entry: entry.as_object().unwrap().clone(),
            source,
            from,
            what,
            at: self.now,
            typed: 0,
            confirmed: false,
            unknown: false,
            lapsed: false,
            read: false,
        });
        self.files[source].0.push(number);
    }

    /// Lets the machine work until it only waits, and answers for how long.
    fn work(&mut self) -> Result<Duration, TestCaseError> {
        let mut fresh = false;
        for _ in 0..10_000 {
            match self.queue.next(self.now) {
                Step::Wait(wait) if fresh => {
                    // Roles and channels are looked up again with every look.
                    prop_assert!(wait <= Duration::from_secs(30), "{wait:?}");
                    return Ok(wait);
                }
                Step::Wait(_) => {
                    let pending = self.pending();
                    self.queue.see(&pending, self.now);
                    fresh = true;
                }
                Step::Deliver(_) if !fresh => {
                    let pending = self.pending();
                    self.queue.see(&pending, self.now);
                    fresh = true;
                }
                Step::Deliver(delivery) => {
                    fresh = false;
                    let outcome = self.type_in(&delivery)?;
                    self.queue.done(&outcome, self.now);
                }
                Step::Receipt(report) => {
                    self.receipt(&report)?;
                    self.queue.receipted();
                }
                Step::Ack { source, up_to } => {
                    self.ack(&source, &up_to)?;
                    self.queue.acked(&source, &up_to);
                }
            }
        }
        Err(TestCaseError::fail("the machine does not come to rest"))
    }

    fn type_in(&mut self, delivery: &Delivery) -> Result<Outcome, TestCaseError> {
        let outcome = match self.outcomes {
            0 => Outcome::Delivered {
                door: Door::Paste,
                verified: false,
            },
            1 => Outcome::Held(hold(Why::Draft)),
            _ => unknown(),
        };
        let which: Vec<usize> = match delivery {
            Delivery::Text { text, .. } => {
                assert_inert(text.as_str());
                let marks = text.as_str().lines().filter_map(|line| {
                    let (_, after) = line.split_once(" m")?;
                    line.starts_with("# ")
                        .then(|| after.trim_end_matches('.').parse().unwrap())
                });
                marks.collect()
            }
            Delivery::Command(_) => {
                let (inbox, passed) = &self.files[0];
                let next = inbox[*passed..].iter().copied().find(|said| {
                    let said = &self.said[*said];
                    said.is_typed_at_all() && !said.confirmed && !said.unknown && !said.lapsed
                });
                let next = next.expect("a command that was sent");
                prop_assert_eq!(self.said[next].what, What::Command, "nothing before it waits");
                vec![next]
            }
        };
        prop_assert!(!which.is_empty());
        let mut twice = BTreeSet::new();
        for number in which {
            prop_assert!(twice.insert(number), "once in a block");
            let said = &mut self.said[number];
            prop_assert!(
                said.is_typed_at_all() && !said.read && !said.lapsed,
                "{:?}",
                said.entry
            );
            if matches!(outcome, Outcome::Held(_)) {
                continue;
            }
            if said.typed == 0 {
                self.pane.push(number);
            }
            said.typed += 1;
            prop_assert!(said.typed <= 1 + self.restarts, "typed twice: {:?}", said.entry);
            match outcome {
                Outcome::Delivered { .. } => said.confirmed = true,
                _ => said.unknown = true,
            }
        }
        Ok(outcome)
    }

    fn receipt(&mut self, report: &Report) -> Result<(), TestCaseError> {
        let number: usize = report.id.trim_start_matches("id").parse().unwrap();
        let said = &mut self.said[number];
        prop_assert_eq!(said.what, What::Command);
        prop_assert!(report.control);
        prop_assert_eq!(&report.from, said.from);
        match &report.outcome {
            Outcome::Delivered { .. } => prop_assert!(said.confirmed),
            Outcome::Unknown { .. } => prop_assert!(said.unknown),
            Outcome::Held(_) if said.is_typed_at_all() => {
                prop_assert!(
                    self.now >= said.at + LAPSE,
                    "it lapses after two minutes and no sooner"
                );
                said.lapsed = true;
            }
            Outcome::Held(_) => {}
        }
        self.receipts.insert(report.id.clone(), report.outcome.clone());
        Ok(())
    }

    fn ack(&mut self, source: &str, up_to: &str) -> Result<(), TestCaseError> {
        let at = SOURCES.iter().position(|known| *known == source).unwrap();
        let (file, passed) = &mut self.files[at];
        let found = file[*passed..]
            .iter()
            .position(|said| self.said[*said].entry["id"] == up_to);
        let Some(found) = found else { return Ok(()) };
        for number in &file[*passed..=*passed + found] {
            let said = &self.said[*number];
            let done = !said.is_typed_at_all() || said.confirmed || said.lapsed;
            prop_assert!(
                done && (said.confirmed || !said.unknown),
                "the cursor passes {:?}",
                said.entry
            );
        }
        if std::mem::take(&mut self.lose_ack) {
            return Ok(());
        }
        *passed += found + 1;
        Ok(())
    }

    fn act(&mut self, act: &Act) -> Result<(), TestCaseError> {
        match act {
            Act::Post { source, from, what } => self.post(*source, *from, *what),
            Act::Pass(millis) => {
                let until = self.now + Duration::from_millis(*millis);
                while self.now < until {
                    let wait = self.work()?;
                    prop_assert!(wait > Duration::ZERO);
                    self.now = until.min(self.now + wait);
                }
            }
            Act::Outcome(outcome) => self.outcomes = *outcome,
            Act::Read(at) => {
                let (file, passed) = &mut self.files[*at];
                for number in &file[*passed..] {
                    self.said[*number].read = true;
                }
                *passed = file.len();
            }
            Act::LoseAck => self.lose_ack = true,
            Act::Restart => {
                self.restarts += 1;
                self.queue = machine(self.restarts);
                // What was not noted is as if it had never been typed.
                for (file, passed) in &self.files {
                    for number in &file[*passed..] {
                        self.said[*number].confirmed = false;
                        self.said[*number].unknown = false;
                    }
                }
            }
        }
        Ok(())
    }

    /// All that was sent was typed, or was read by the agent itself, or is nothing that is typed. What lapsed has a receipt that says so.
    fn nothing_lost(&self) -> Result<(), TestCaseError> {
        for said in &self.said {
            let there = said.typed > 0 || said.read || said.lapsed || !said.is_typed_at_all();
            prop_assert!(there, "lost: {:?}", said.entry);
            if said.what == What::Command && said.source == 0 && !said.read {
                let id = said.entry["id"].as_str().unwrap();
                prop_assert!(self.receipts.contains_key(id), "no receipt: {:?}", said.entry);
            }
        }
        Ok(())
    }

    /// Of each sender what was written first was typed first.
    fn in_order(&self) -> Result<(), TestCaseError> {
        for from in SENDERS {
            let texts = |number: &&usize| {
                let said = &self.said[**number];
                said.from == from && said.what != What::Command
            };
            let row: Vec<usize> = self.pane.iter().filter(texts).copied().collect();
            prop_assert!(row.is_sorted(), "{from}: {row:?}");
        }
        let inbox: Vec<usize> = self
            .pane
            .iter()
            .filter(|number| self.said[**number].source == 0)
            .copied()
            .collect();
        prop_assert!(inbox.is_sorted(), "the inbox: {inbox:?}");
        Ok(())
    }

    /// Time enough for everything, and a pane that takes it.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        self.outcomes = 0;
        self.lose_ack = false;
        self.act(&Act::Pass(300_000))?;
        for (at, (file, passed)) in self.files.iter().enumerate() {
            let stuck = file[*passed..].iter().map(|number| &self.said[*number]);
            let mut stuck = stuck.skip_while(|said| said.what == What::Own);
            prop_assert!(
                stuck.next().is_none_or(|said| said.unknown),
                "{} waits for nothing",
                SOURCES[at]
            );
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    // spec: PUSH-020 PUSH-033 PUSH-041
    #[test]
    fn nothing_is_lost_typed_twice_or_passed_over_and_each_sender_is_in_order(acts in acts(false)) {
        let mut bus = Bus::new();
        for act in &acts {
            bus.act(act)?;
            bus.work()?;
        }
        bus.settle()?;
        bus.nothing_lost()?;
        bus.in_order()?;
    }

    // spec: PUSH-034
    #[test]
    fn a_restart_at_any_moment_loses_nothing(acts in acts(true)) {
        let mut bus = Bus::new();
        for act in &acts {
            bus.act(act)?;
            bus.work()?;
        }
        bus.settle()?;
        bus.nothing_lost()?;
    }
}

fn one(entry: serde_json::Value, now: i64) -> Pending {
    Pending {
        sources: vec![PendingSource {
            source: "inbox".to_owned(),
            entries: vec![entry.as_object().unwrap().clone()],
            older: 0,
        }],
        now,
        ..Pending::default()
    }
}

#[test]
fn a_command_that_is_old_already_when_it_is_first_seen_is_not_typed_any_more() {
    let mut machine = queue(settings());
    let entry = json!({"id": "m1", "ts": EPOCH, "from": "lead", "text": "/clear", "control": true});
    machine.see(&one(entry.clone(), EPOCH + 120_000), Duration::ZERO);
    let Step::Receipt(report) = machine.next(Duration::ZERO) else {
        panic!("it lapsed");
    };
    let Outcome::Held(hold) = report.outcome else {
        panic!()
    };
    assert!(hold.detail.contains("two minutes"), "{}", hold.detail);
    machine.receipted();
    let ack = Step::Ack {
        source: "inbox".to_owned(),
        up_to: "m1".to_owned(),
    };
    assert_eq!(machine.next(Duration::ZERO), ack);

    // A moment earlier it would have been.
    let mut machine = queue(settings());
    machine.see(&one(entry.clone(), EPOCH + 119_999), Duration::ZERO);
    assert!(matches!(
        machine.next(Duration::ZERO),
        Step::Deliver(Delivery::Command(_))
    ));
    machine.done(&Outcome::Held(hold_of("a draft")), Duration::ZERO);
    assert_eq!(machine.next(Duration::ZERO), Step::Wait(Duration::from_millis(1)));
    // A bus that does not tell its time, or a sender from the future, makes no command live for ever.
    let mut machine = queue(settings());
    machine.see(&one(entry, 0), Duration::ZERO);
    machine.done(&Outcome::Held(hold_of("a draft")), Duration::ZERO);
    assert!(matches!(machine.next(LAPSE), Step::Receipt(_)));
}

fn hold_of(detail: &str) -> muster_bus::push::Hold {
    muster_bus::push::Hold {
        why: Why::Draft,
        detail: detail.to_owned(),
    }
}

#[test]
fn entries_without_an_id_and_entries_that_stand_twice_are_typed_once_each() {
    let entry = json!({"ts": EPOCH, "from": "alice", "text": "say m0."});
    let same = json!({"id": "m1", "ts": EPOCH, "from": "alice", "text": "say m1."});
    let other = json!({"id": "m1", "ts": EPOCH, "from": "alice", "text": "say m2."});
    let entries = [&entry, &same, &same, &other].map(|entry| entry.as_object().unwrap().clone());
    let pending = Pending {
        sources: vec![PendingSource {
            source: "inbox".to_owned(),
            entries: entries.into(),
            older: 0,
        }],
        ..Pending::default()
    };
    let mut machine = queue(settings());
    machine.see(&pending, Duration::ZERO);
    let Step::Deliver(Delivery::Text { text, .. }) = machine.next(Duration::ZERO) else {
        panic!()
    };
    let said: Vec<&str> = text
        .as_str()
        .lines()
        .filter(|line| line.starts_with("# "))
        .collect();
    assert_eq!(said, ["# say m0.", "# say m1.", "# say m2."]);
    let arrived = Outcome::Delivered {
        door: Door::Paste,
        verified: true,
    };
    machine.done(&arrived, Duration::ZERO);
    machine.see(&pending, Duration::ZERO);
    assert!(
        matches!(machine.next(Duration::ZERO), Step::Ack { .. }),
        "nothing is typed again"
    );
}

#[test]
fn while_another_delivers_nothing_is_typed_and_nothing_is_noted() {
    let mut machine = queue(settings());
    let entry = json!({"id": "m1", "ts": EPOCH, "from": "alice", "text": "x"});
    machine.see(&one(entry, EPOCH), Duration::ZERO);
    let other = Pending {
        other_deliverer: Some("p1".to_owned()),
        ..Pending::default()
    };
    machine.see(&other, Duration::ZERO);
    assert!(matches!(machine.next(Duration::from_secs(1)), Step::Wait(_)));
}

// spec: PUSH-040
#[test]
fn a_seat_that_wants_no_channels_gets_none_even_if_its_feed_has_them() {
    let seat = Seat {
        id: seat("me"),
        target: "w1:p1".to_owned(),
        include_room: false,
        allowlist: None,
        debounce: Duration::ZERO,
    };
    let mut machine = Queue::new(seat, settings(), "salt".to_owned());
    let mut pending = one(
        json!({"id": "m1", "ts": 1, "from": "alice", "text": "BLOCKER: x"}),
        1,
    );
    pending.sources[0].source = "#general".to_owned();
    machine.see(&pending, Duration::ZERO);
    assert!(matches!(machine.next(Duration::from_secs(60)), Step::Wait(_)));
}
