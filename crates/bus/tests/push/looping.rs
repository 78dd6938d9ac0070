//! The loop between a feed and a pane, when the feed is at fault.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use muster_bus::push::{Feed, FeedError, Pending, PendingSource, Report, Seat, Settings, Stop, run};
use serde_json::{Value, json};

use crate::support::{Fake, seat, until};

/// What was asked of a feed, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Pending,
    Ack(String),
    Receipt(String),
    Heartbeat,
}

#[derive(Default)]
struct State {
    entries: Vec<Value>,
    /// The next calls fail: of which kind, and how.
    faults: VecDeque<(Asked, FeedError)>,
    asked: Vec<(Asked, Instant)>,
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<State>>);

impl Memory {
    fn asked(&self) -> Vec<Asked> {
        self.0
            .lock()
            .unwrap()
            .asked
            .iter()
            .map(|(asked, _)| asked.clone())
            .collect()
    }

    fn fails(&self, asked: Asked, times: usize) {
        let mut state = self.0.lock().unwrap();
        for _ in 0..times {
            state
                .faults
                .push_back((asked.clone(), FeedError::Later("not now".to_owned())));
        }
    }

    fn note(&self, asked: &Asked) -> Result<(), FeedError> {
        let mut state = self.0.lock().unwrap();
        state.asked.push((asked.clone(), Instant::now()));
        match state.faults.front() {
            Some((fault, _)) if fault == asked => Err(state.faults.pop_front().unwrap().1),
            _ => Ok(()),
        }
    }
}

impl Feed for Memory {
    fn pending(&mut self, wait: Duration) -> Result<Pending, FeedError> {
        self.note(&Asked::Pending)?;
        let entries = self.0.lock().unwrap().entries.clone();
        if entries.is_empty() {
            std::thread::park_timeout(wait.min(Duration::from_millis(20)));
        }
        let entries: Vec<_> = entries
            .iter()
            .map(|entry| entry.as_object().unwrap().clone())
            .collect();
        let source = PendingSource {
            source: "inbox".to_owned(),
            entries,
            older: 0,
        };
        Ok(Pending {
            sources: vec![source],
            ..Pending::default()
        })
    }

    fn ack(&mut self, _: &str, up_to: &str) -> Result<(), FeedError> {
        self.note(&Asked::Ack(up_to.to_owned()))?;
        let mut state = self.0.lock().unwrap();
        let at = state
            .entries
            .iter()
            .position(|entry| entry["id"] == up_to)
            .unwrap();
        state.entries.drain(..=at);
        Ok(())
    }

    fn receipt(&mut self, receipt: &Report) -> Result<(), FeedError> {
        self.note(&Asked::Receipt(receipt.id.clone()))
    }

    fn heartbeat(&mut self) -> Result<(), FeedError> {
        self.note(&Asked::Heartbeat)
    }
}

fn me() -> Seat {
    Seat {
        id: seat("me"),
        target: "w1:p1".to_owned(),
        include_room: true,
        allowlist: None,
        debounce: Duration::ZERO,
    }
}

/// Runs a deliverer until `done` holds.
fn while_running(memory: &Memory, fake: &Fake, done: impl Fn() -> bool) {
    let stop = Stop::new();
    std::thread::scope(|scope| {
        let deliverer = scope.spawn(|| run(&mut memory.clone(), fake, &me(), &Settings::default(), &stop));
        until(done);
        stop.set();
        deliverer.join().unwrap().unwrap();
    });
}

fn said(memory: &Memory, id: &str, text: &str, control: bool) {
    let entry = json!({"id": id, "ts": 1, "from": "lead", "text": text, "control": control});
    memory.0.lock().unwrap().entries.push(entry);
}

#[test]
fn what_was_typed_is_not_typed_again_because_it_could_not_be_noted() {
    let (memory, fake) = (Memory::default(), Fake::default());
    said(&memory, "m1", "hello", false);
    memory.fails(Asked::Ack("m1".to_owned()), 2);
    while_running(&memory, &fake, || memory.0.lock().unwrap().entries.is_empty());
    assert_eq!(fake.texts().len(), 1);
    let state = memory.0.lock().unwrap();
    let acks = state
        .asked
        .iter()
        .filter(|(asked, _)| matches!(asked, Asked::Ack(_)));
    let at: Vec<Instant> = acks.map(|(_, at)| *at).collect();
    assert_eq!(at.len(), 3);
    assert!(
        at[1] - at[0] >= Duration::from_millis(990) && at[2] - at[1] >= Duration::from_millis(1_990),
        "less and less often"
    );
}

#[test]
fn a_receipt_is_written_before_the_cursor_passes_its_command() {
    let (memory, fake) = (Memory::default(), Fake::default());
    said(&memory, "m1", "/clear", true);
    memory.fails(Asked::Receipt("m1".to_owned()), 1);
    while_running(&memory, &fake, || memory.0.lock().unwrap().entries.is_empty());
    let noted: Vec<Asked> = memory
        .asked()
        .into_iter()
        .filter(|asked| !matches!(asked, Asked::Pending | Asked::Heartbeat))
        .collect();
    let receipt = Asked::Receipt("m1".to_owned());
    assert_eq!(noted, [receipt.clone(), receipt, Asked::Ack("m1".to_owned())]);
    assert_eq!(fake.texts(), ["/clear"]);
}

#[test]
fn a_feed_that_cannot_be_reached_is_asked_again_and_one_that_refuses_is_not() {
    let (memory, fake) = (Memory::default(), Fake::default());
    memory.fails(Asked::Heartbeat, 1);
    memory.fails(Asked::Pending, 1);
    said(&memory, "m1", "hello", false);
    while_running(&memory, &fake, || !fake.texts().is_empty());
    assert_eq!(
        memory.asked()[..2],
        [Asked::Heartbeat, Asked::Heartbeat],
        "it says that it is there first"
    );

    let refuses = Memory::default();
    let refused = FeedError::Refused("not yours".to_owned());
    refuses
        .0
        .lock()
        .unwrap()
        .faults
        .push_back((Asked::Pending, refused));
    let ended = run(
        &mut refuses.clone(),
        &fake,
        &me(),
        &Settings::default(),
        &Stop::new(),
    );
    assert!(matches!(ended, Err(FeedError::Refused(reason)) if reason == "not yours"));
}

#[test]
fn the_last_look_before_typing_is_a_moment_old() {
    let (memory, fake) = (Memory::default(), Fake::default());
    said(&memory, "m1", "hello", false);
    while_running(&memory, &fake, || memory.0.lock().unwrap().entries.is_empty());
    let state = memory.0.lock().unwrap();
    let typed = fake.arrived.lock().unwrap()[0].at;
    let looks = state
        .asked
        .iter()
        .filter(|(asked, at)| *asked == Asked::Pending && *at <= typed);
    assert_eq!(looks.count(), 2, "once to find it, once more before it was typed");
}
