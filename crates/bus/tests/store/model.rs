//! Any order of sends, posts, reads and cuts against a plain model in memory. Never looks at how the files do it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_bus::limits::{Bound, Limits, ROOM_READ};
use muster_bus::read::{Want, depth, read, unread};
use muster_bus::{Entry, Home, Kind, RoomName, Source, history, post};
use muster_core::{Clock, Time};
use proptest::prelude::*;

use crate::support::{room, seat, word};

const MAX: usize = 12;
const KEEP: usize = 5;
const STATUS_MAX: usize = 9;
const STATUS_KEEP: usize = 4;
const AGENTS: [&str; 3] = ["ann", "bob", "cid"];
const ROOMS: [&str; 2] = ["general", "seo"];
const THIRTY_DAYS: i64 = 30 * 24 * 60 * 60 * 1_000;

#[derive(Debug, Clone)]
enum Act {
    Send {
        from: usize,
        to: usize,
    },
    Post {
        from: usize,
        room: usize,
        kind: Option<Kind>,
    },
    Status {
        from: usize,
    },
    Read {
        agent: usize,
        source: usize,
        limit: Option<usize>,
        peek: bool,
        since: Option<i64>,
    },
    Wait {
        millis: i64,
    },
    Reopen,
}

fn act() -> impl Strategy<Value = Act> {
    let agent = 0..AGENTS.len();
    let kind = prop_oneof![Just(None), Just(Some(Kind::Chatter)), Just(Some(Kind::Decision))];
    let limit = prop_oneof![Just(None), (1_usize..8).prop_map(Some)];
    let since = prop_oneof![3 => Just(None), 1 => (0_i64..40).prop_map(Some)];
    prop_oneof![
        4 => (agent.clone(), agent.clone()).prop_map(|(from, to)| Act::Send { from, to }),
        6 => (agent.clone(), 0..ROOMS.len(), kind).prop_map(|(from, room, kind)| Act::Post { from, room, kind }),
        3 => agent.clone().prop_map(|from| Act::Status { from }),
        6 => (agent, 0_usize..4, limit, any::<bool>(), since)
            .prop_map(|(agent, source, limit, peek, since)| Act::Read { agent, source, limit, peek, since }),
        2 => (1_i64..6).prop_map(|millis| Act::Wait { millis }),
        1 => Just(Act::Wait { millis: THIRTY_DAYS }),
        1 => Just(Act::Reopen),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    id: String,
    ts: i64,
    from: String,
    decision: bool,
}

/// One log: what is in the file, what went to the archive, and how far each agent has read.
#[derive(Debug, Default)]
struct Log {
    live: Vec<Said>,
    archived: Vec<String>,
    read: BTreeMap<usize, usize>,
}

impl Log {
    fn add(&mut self, said: Said, now: i64, bound: Option<(usize, usize)>) {
        self.live.push(said);
        let Some((max, keep)) = bound else { return };
        if self.live.len() <= max {
            return;
        }
        let surplus = self.live.len() - keep;
        let before = std::mem::take(&mut self.live);
        let mut read_before = vec![0; before.len() + 1];
        for (number, said) in before.into_iter().enumerate() {
            let spared = said.decision && said.ts >= now - THIRTY_DAYS;
            let goes = number < surplus && !spared;
            read_before[number + 1] = read_before[number] + usize::from(goes);
            if goes {
                self.archived.push(said.id);
            } else {
                self.live.push(said);
            }
        }
        for offset in self.read.values_mut() {
            *offset -= read_before[*offset];
        }
    }

    /// What a read returns and what its digest stands for; notes what was read.
    fn read(&mut self, agent: usize, inbox: bool, want: Want) -> (Vec<String>, Vec<String>) {
        let first = self.read.get(&agent).copied().unwrap_or(0);
        let looks_back = want.peek && want.since.is_some();
        let from = if looks_back { 0 } else { first };
        let new: Vec<&Said> = self.live[from..]
            .iter()
            .filter(|said| inbox || said.from != AGENTS[agent])
            .filter(|said| want.since.is_none_or(|since| said.ts > since))
            .collect();
        let limit = want
            .limit
            .unwrap_or(if inbox { usize::MAX } else { ROOM_READ })
            .min(new.len());
        let (older, shown) = if inbox {
            (&new[..0], &new[..limit])
        } else {
            new.split_at(new.len() - limit)
        };
        let ids = |said: &[&Said]| said.iter().map(|said| said.id.clone()).collect::<Vec<_>>();
        let (older, shown) = (ids(older), ids(shown));
        if !want.peek {
            let seen: BTreeSet<&String> = older.iter().chain(&shown).collect();
            let passed = self.live[first..]
                .iter()
                .take_while(|said| seen.contains(&said.id) || (!inbox && said.from == AGENTS[agent]))
                .count();
            self.read.insert(agent, first + passed);
        }
        (older, shown)
    }

    fn unread(&self, agent: usize, inbox: bool) -> usize {
        let first = self.read.get(&agent).copied().unwrap_or(0);
        self.live[first..]
            .iter()
            .filter(|said| inbox || said.from != AGENTS[agent])
            .count()
    }
}

struct Both {
    dir: tempfile::TempDir,
    clock: Clock,
    home: Home,
    logs: BTreeMap<String, Log>,
}

fn limits() -> Limits {
    Limits {
        room: Bound { max: MAX, keep: KEEP },
        status: Bound {
            max: STATUS_MAX,
            keep: STATUS_KEEP,
        },
    }
}

fn file(source: usize, agent: usize) -> (Source, String) {
    match source {
        0 => (Source::Inbox, format!("inbox/{}.jsonl", AGENTS[agent])),
        1 => (Source::Status, "status.jsonl".to_owned()),
        2 => (room("general"), "room.jsonl".to_owned()),
        _ => (room("seo"), "rooms/seo.jsonl".to_owned()),
    }
}

fn ids(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| word(entry, "id")).collect()
}

impl Both {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::manual(Time::from_micros(0));
        let home = Home::open(dir.path(), limits(), clock.clone()).unwrap();
        // Before anybody posts there it has no file to read from.
        std::fs::write(dir.path().join("rooms/seo.jsonl"), "").unwrap();
        Self {
            dir,
            clock,
            home,
            logs: BTreeMap::new(),
        }
    }

    fn said(
        &mut self,
        name: String,
        sent: post::Sent,
        from: usize,
        decision: bool,
        bound: Option<(usize, usize)>,
    ) {
        let now = self.home.now();
        let said = Said {
            id: sent.id,
            ts: sent.ts,
            from: AGENTS[from].to_owned(),
            decision,
        };
        self.logs.entry(name).or_default().add(said, now, bound);
    }

    fn act(&mut self, act: &Act) -> Result<(), TestCaseError> {
        match *act {
            Act::Send { from, to } => {
                let sent = post::send(&self.home, &seat(AGENTS[from]), &seat(AGENTS[to]), "x").unwrap();
                self.said(file(0, to).1, sent, from, false, None);
            }
            Act::Post { from, room, kind } => {
                let name = RoomName::parse(ROOMS[room]).unwrap();
                let sent = post::post(&self.home, &seat(AGENTS[from]), &name, "x", kind).unwrap();
                self.said(
                    file(2 + room, 0).1,
                    sent,
                    from,
                    kind == Some(Kind::Decision),
                    Some((MAX, KEEP)),
                );
            }
            Act::Status { from } => {
                let sent = post::status(&self.home, &seat(AGENTS[from]), "x", None).unwrap();
                self.said(file(1, 0).1, sent, from, false, Some((STATUS_MAX, STATUS_KEEP)));
            }
            Act::Wait { millis } => self.clock.advance(Duration::from_millis(millis.unsigned_abs())),
            Act::Reopen => self.home = Home::open(self.dir.path(), limits(), self.clock.clone()).unwrap(),
            Act::Read {
                agent,
                source,
                limit,
                peek,
                since,
            } => {
                let (source, name) = file(source, agent);
                // Counted from the present, so that it means something after thirty days too.
                let since = since.map(|ago| self.home.now() - ago);
                let want = Want { limit, peek, since };
                let batch = read(&self.home, &seat(AGENTS[agent]), &source, want).unwrap();
                let log = self.logs.entry(name).or_default();
                let inbox = source == Source::Inbox;
                prop_assert_eq!(batch.total_new, log.unread(agent, inbox));
                let (older, shown) = log.read(agent, inbox, want);
                prop_assert_eq!(ids(&batch.messages), shown);
                prop_assert_eq!(batch.note, None);
                let expanded = match &batch.history {
                    Some(digest) => {
                        prop_assert_eq!(digest.older, older.len());
                        ids(&history::retrieve(&self.home, &seat(AGENTS[agent]), &digest.hash, None).unwrap())
                    }
                    None => Vec::new(),
                };
                prop_assert_eq!(expanded, older);
                if !peek {
                    prop_assert_eq!(batch.remaining, log.unread(agent, inbox));
                }
            }
        }
        Ok(())
    }

    /// Every file against the model: what is live, what is archived, and what each agent has not read.
    fn same(&self) -> Result<(), TestCaseError> {
        for (agent, id) in AGENTS.iter().enumerate() {
            for source in 0..4 {
                let (source, name) = file(source, agent);
                let Some(log) = self.logs.get(&name) else { continue };
                let inbox = source == Source::Inbox;
                prop_assert_eq!(
                    unread(&self.home, &seat(id), &source).unwrap(),
                    log.unread(agent, inbox),
                    "{} of {}",
                    name,
                    id
                );
                prop_assert_eq!(
                    depth(&self.home, &seat(id), &source).unwrap(),
                    log.live.len() as u64
                );
                let live: Vec<String> = log.live.iter().map(|said| said.id.clone()).collect();
                prop_assert_eq!(&self.file(&name), &live, "{}", name);
                let archive = match name.as_str() {
                    "room.jsonl" => "archive/rooms/general.jsonl".to_owned(),
                    other => format!("archive/{other}"),
                };
                prop_assert_eq!(&self.file(&archive), &log.archived, "{}", archive);
            }
        }
        Ok(())
    }

    fn file(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        text.lines()
            .map(|line| word(&serde_json::from_str(line).unwrap(), "id"))
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    // spec: STO-031..STO-034 STO-051..STO-053 TOOL-051 TOOL-052 TOOL-055
    #[test]
    fn any_order_of_acts_reads_as_the_plain_model_does(acts in proptest::collection::vec(act(), 1..120)) {
        let mut both = Both::new();
        for act in &acts {
            both.act(act)?;
        }
        both.same()?;
    }
}
