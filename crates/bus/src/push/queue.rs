//! What is pushed to one seat, and when: a machine that is told what is unread and what came of each delivery, and says what to do next. Never has a clock, a file or a pane of its own.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::limits::ROOM_READ;
use crate::log::Entry;
use crate::message;

use super::text::{self, Quoted};
use super::tier::{self, Hearer, Sort, Tier};
use super::{
    ControlCommand, Delivery, Hold, Outcome, Pending, PendingSource, Report, Seat, Settings, Standing, Why,
};

/// The inbox, as a source.
pub const INBOX: &str = "inbox";
/// A command that could not be typed for this long is not typed any more: whoever sent it has given it up.
pub const LAPSE: Duration = Duration::from_secs(120);
/// Between tries while nothing may be typed, at first and at last.
const TRIES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// Longest time without a look.
pub const IDLE: Duration = Duration::from_secs(30);

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Nothing, for so long.
    Wait(Duration),
    /// Type this, and say what came of it with [`Queue::done`].
    Deliver(Delivery),
    /// Note that everything of a source up to this entry was delivered, and say so with [`Queue::acked`].
    Ack {
        /// `inbox`, or a channel's name with `#`.
        source: String,
        /// The entry.
        up_to: String,
    },
    /// Write this receipt, and say so with [`Queue::receipted`].
    Receipt(Report),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It was not typed.
    New,
    /// It was typed, or never will be: the cursor may pass it.
    Done,
    /// It may have been typed. The cursor does not pass it, and it is not typed again.
    Unknown,
}

#[derive(Debug, Clone)]
struct Item {
    key: String,
    entry: Entry,
    sort: Sort,
    /// When it was first seen, on the machine's own time.
    seen: Duration,
    state: State,
}

/// The machine. All its times are spans since one moment, the same for every call.
#[derive(Debug)]
pub struct Queue {
    seat: Seat,
    settings: Settings,
    /// Makes the words that blocks are found again by unlike those of any other machine.
    salt: String,
    blocks: u64,
    sources: BTreeMap<String, Vec<Item>>,
    older: HashMap<String, usize>,
    archived: BTreeMap<String, u64>,
    archived_urgent: BTreeMap<String, u64>,
    facts: Facts,
    /// Which items the delivery under way holds, by source and place.
    under_way: Vec<(String, String)>,
    receipts: VecDeque<Report>,
    acked: HashMap<String, String>,
    tries: u32,
    retry: Duration,
    held: Option<Hold>,
    suppressed: u64,
}

/// What the last look said besides the messages.
#[derive(Debug, Default)]
struct Facts {
    gate_runner: bool,
    ci: bool,
    trusted: Vec<String>,
    owner_prefix: Option<String>,
    /// The bus's clock and the machine's at the same moment.
    clocks: Option<(i64, Duration)>,
    other: bool,
}

impl Queue {
    /// A machine that has seen nothing. `salt` is unlike that of any other one.
    pub fn new(seat: Seat, settings: Settings, salt: String) -> Self {
        Self {
            seat,
            settings,
            salt,
            blocks: 0,
            sources: BTreeMap::new(),
            older: HashMap::new(),
            archived: BTreeMap::new(),
            archived_urgent: BTreeMap::new(),
            facts: Facts::default(),
            under_way: Vec::new(),
            receipts: VecDeque::new(),
            acked: HashMap::new(),
            tries: 0,
            retry: Duration::ZERO,
            held: None,
            suppressed: 0,
        }
    }

    /// Takes in everything that is unread at `now`. What is not among it was read, and is forgotten.
    pub fn see(&mut self, pending: &Pending, now: Duration) {
        self.facts = Facts {
            gate_runner: pending.gate_runner,
            ci: pending.ci,
            trusted: pending.trusted.clone(),
            owner_prefix: pending.owner_prefix.clone(),
            clocks: (pending.now > 0).then_some((pending.now, now)),
            other: pending.other_deliverer.is_some(),
        };
        self.acked.clear();
        let mut before = std::mem::take(&mut self.sources);
        self.older.clear();
        self.archived.clone_from(&pending.archived);
        self.archived_urgent.clone_from(&pending.archived_urgent);
        if self.facts.other {
            // Somebody else types, and knows what was typed.
            self.tries = 0;
            self.held = None;
            return;
        }
        for source in &pending.sources {
            if source.source != INBOX && !self.seat.include_room {
                continue;
            }
            let known = before.remove(&source.source).unwrap_or_default();
            let items = self.recognise(known, source, &pending.typed, now);
            self.older.insert(source.source.clone(), source.older);
            self.sources.insert(source.source.clone(), items);
        }
    }

    fn recognise(
        &mut self,
        known: Vec<Item>,
        source: &PendingSource,
        typed: &BTreeMap<String, bool>,
        now: Duration,
    ) -> Vec<Item> {
        let (direct, entries) = (source.source == INBOX, &source.entries);
        let mut known: HashMap<String, VecDeque<Item>> =
            known.into_iter().fold(HashMap::new(), |mut by, item| {
                by.entry(item.key.clone()).or_default().push_back(item);
                by
            });
        let mut twice = HashSet::new();
        let mut items: Vec<Item> = Vec::with_capacity(entries.len());
        for entry in entries {
            if message::field(entry, "from") == Some(self.seat.id.as_str()) {
                continue;
            }
            let key = message::key(entry);
            let same = known.get_mut(&key).and_then(|items| {
                let at = items.iter().position(|item| item.entry == *entry)?;
                items.remove(at)
            });
            let item = same.unwrap_or_else(|| {
                let sort = tier::sort(direct, entry, self.seat.allowlist.as_deref());
                let again = twice.contains(&key) && items.iter().any(|item| item.entry == *entry);
                let state = match sort {
                    _ if again => State::Done,
                    Sort::Never(_) => State::Done,
                    // Its receipt outlives whatever said that it was read.
                    Sort::Command(_) => match typed.get(&key) {
                        Some(true) => State::Done,
                        Some(false) => State::Unknown,
                        None => State::New,
                    },
                    Sort::Text => State::New,
                };
                if let (Sort::Never(why), false) = (sort, again) {
                    self.suppressed += 1;
                    self.refuse(entry, why);
                }
                Item {
                    key: key.clone(),
                    entry: entry.clone(),
                    sort,
                    seen: now,
                    state,
                }
            });
            twice.insert(key);
            items.push(item);
        }
        items
    }

    /// Tells the sender of a command that it is not typed.
    fn refuse(&mut self, entry: &Entry, why: tier::Never) {
        if tier::is_command(entry) {
            let hold = Hold {
                why: Why::Unavailable,
                detail: format!("it is not typed here: {}", why.as_str()),
            };
            self.receipts.push_back(report(entry, Outcome::Held(hold)));
        }
    }

    /// What to do at `now`.
    pub fn next(&mut self, now: Duration) -> Step {
        self.lapse(now);
        if let Some(report) = self.receipts.front() {
            return Step::Receipt(report.clone());
        }
        if let Some((source, up_to)) = self.passed() {
            return Step::Ack { source, up_to };
        }
        if self.facts.other {
            return Step::Wait(IDLE);
        }
        let due = self.due(now);
        let at = due.at().map(|at| at.max(self.retry));
        match (at, due) {
            (None, _) => Step::Wait(IDLE),
            (Some(at), _) if at > now => {
                let lapses = self.lapses().map(|at| at.saturating_sub(now));
                let wait = at.saturating_sub(now).min(IDLE);
                Step::Wait(lapses.map_or(wait, |lapses| wait.min(lapses)))
            }
            (Some(_), Due::Command { key, command }) => {
                self.under_way = vec![(INBOX.to_owned(), key)];
                Step::Deliver(Delivery::Command(command))
            }
            (Some(_), Due::Texts { chosen, .. }) => self.compose(&chosen),
            (Some(_), Due::Nothing) => Step::Wait(IDLE),
        }
    }

    /// Says what came of the last [`Step::Deliver`].
    pub fn done(&mut self, outcome: &Outcome, now: Duration) {
        let under_way = std::mem::take(&mut self.under_way);
        let state = match outcome {
            Outcome::Held(hold) => {
                let (first, last) = TRIES;
                let pause = first
                    .saturating_mul(2_u32.saturating_pow(self.tries.min(8)))
                    .min(last);
                self.tries = self.tries.saturating_add(1);
                self.retry = now + pause;
                self.held = Some(hold.clone());
                return;
            }
            Outcome::Delivered { .. } => State::Done,
            Outcome::Unknown { .. } => State::Unknown,
        };
        self.tries = 0;
        self.retry = now;
        self.held = None;
        for (source, key) in under_way {
            let items = self.sources.get_mut(&source).into_iter().flatten();
            for item in items.filter(|item| item.key == key && item.state == State::New) {
                item.state = state;
                if matches!(item.sort, Sort::Command(_)) {
                    self.receipts.push_back(report(&item.entry, outcome.clone()));
                }
            }
        }
    }

    /// Says that a [`Step::Ack`] was noted.
    pub fn acked(&mut self, source: &str, up_to: &str) {
        self.acked.insert(source.to_owned(), up_to.to_owned());
    }

    /// Says that a [`Step::Receipt`] was written.
    pub fn receipted(&mut self) {
        self.receipts.pop_front();
    }

    /// How the push stands.
    pub fn standing(&self) -> Standing {
        Standing {
            suppressed: self.suppressed,
            unconfirmed: {
                let items = self.sources.values().flatten();
                items.filter(|item| item.state == State::Unknown).count() as u64
            },
            held: self
                .held
                .as_ref()
                .map(|hold| format!("{}: {}", hold.why.as_str(), hold.detail)),
            stale: self.held.as_ref().is_some_and(|hold| hold.why.is_stale()),
        }
    }
}

/// What is due, and when.
enum Due {
    Nothing,
    Command { key: String, command: ControlCommand },
    Texts { at: Duration, chosen: Vec<Chosen> },
}

impl Due {
    fn at(&self) -> Option<Duration> {
        match self {
            Self::Nothing => None,
            Self::Command { .. } => Some(Duration::ZERO),
            Self::Texts { at, .. } => Some(*at),
        }
    }
}

/// A message that may be typed now.
struct Chosen {
    source: String,
    /// Its place among those of its source.
    at: usize,
    ts: i64,
    from: String,
    tier: Tier,
    /// It wakes nobody, however long it waits.
    notice: bool,
    seen: Duration,
    untold: bool,
}

impl Queue {
    /// The first command of the inbox that was not typed, and how many texts before it were not either.
    fn command(&self) -> Option<(&Item, ControlCommand, usize)> {
        let mut texts = 0;
        for item in self
            .sources
            .get(INBOX)?
            .iter()
            .filter(|item| item.state == State::New)
        {
            match item.sort {
                Sort::Command(command) => return Some((item, command, texts)),
                _ => texts += 1,
            }
        }
        None
    }

    fn due(&self, now: Duration) -> Due {
        let command = self.command();
        if let Some((item, command, 0)) = command {
            // What came after it is for the agent that it leaves behind.
            return Due::Command {
                key: item.key.clone(),
                command,
            };
        }
        let chosen = self.chosen(command.map(|(item, _, _)| item));
        let after = |tier, wait: Duration| {
            let wakes = |chosen: &&Chosen| chosen.tier == tier && !(tier == Tier::Routine && chosen.notice);
            let of_tier = chosen.iter().filter(wakes);
            of_tier.map(|chosen| chosen.seen).min().map(|seen| seen + wait)
        };
        let urgent = after(Tier::Now, self.seat.debounce);
        let aged = self
            .settings
            .max_queue
            .and_then(|wait| after(Tier::Routine, wait));
        let waiting = command.is_some().then_some(now);
        match [waiting, urgent, aged].into_iter().flatten().min() {
            Some(at) if !chosen.is_empty() => Due::Texts { at, chosen },
            _ => Due::Nothing,
        }
    }

    /// Every text that may be typed now, in the order in which it is shown.
    fn chosen(&self, command: Option<&Item>) -> Vec<Chosen> {
        let hearer = Hearer {
            gate_runner: self.facts.gate_runner,
            ci: self.facts.ci,
            trusted: &self.facts.trusted,
            owner_prefix: self.facts.owner_prefix.as_deref(),
        };
        let until = command.map(|item| message::ts(&item.entry));
        let mut queues: Vec<VecDeque<Chosen>> = Vec::new();
        for (source, items) in &self.sources {
            let direct = source == INBOX;
            let within = |item: &&Item| match (until, command) {
                (Some(until), _) if !direct => message::ts(&item.entry) <= until,
                (_, Some(command)) => !std::ptr::eq(*item, command),
                _ => true,
            };
            let texts = items
                .iter()
                .take_while(within)
                .enumerate()
                .filter(|(_, item)| item.state == State::New && item.sort == Sort::Text);
            let mut queue: VecDeque<Chosen> = texts
                .map(|(at, item)| Chosen {
                    source: source.clone(),
                    at,
                    ts: message::ts(&item.entry),
                    from: message::field(&item.entry, "from").unwrap_or("").to_owned(),
                    tier: tier::tier(direct, &item.entry, hearer, &self.settings),
                    notice: tier::is_notice(&item.entry),
                    seen: item.seen,
                    untold: false,
                })
                .collect();
            if !direct {
                leave_out(&mut queue);
            }
            queues.push(queue);
        }
        arrange(merge(queues))
    }

    fn compose(&mut self, chosen: &[Chosen]) -> Step {
        let mut quoted = Vec::with_capacity(chosen.len());
        let mut print = Sha256::new();
        print.update(self.salt.as_bytes());
        print.update(self.blocks.to_le_bytes());
        let mut under_way = Vec::with_capacity(chosen.len());
        for chosen in chosen {
            let items = self.sources.get(&chosen.source);
            let Some(item) = items.and_then(|items| items.get(chosen.at)) else {
                continue;
            };
            quoted.push(Quoted {
                source: &chosen.source,
                from: &chosen.from,
                ts: chosen.ts,
                text: message::field(&item.entry, "text").unwrap_or(""),
                routine: chosen.tier == Tier::Routine,
                untold: chosen.untold,
            });
            under_way.push((chosen.source.clone(), item.key.clone()));
        }
        let token: String = print
            .finalize()
            .iter()
            .take(6)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let older = |source: &str| self.older.get(source).copied().unwrap_or(0);
        let archived = |source: &str| self.archived.get(source).copied().unwrap_or(0);
        let urgent = |source: &str| self.archived_urgent.get(source).copied().unwrap_or(0);
        let archived = |source: &str| (archived(source), urgent(source));
        let (text, taken) = text::block(&token, &quoted, &older, &archived);
        self.blocks += 1;
        under_way.truncate(taken);
        self.under_way = under_way;
        Step::Deliver(Delivery::Text { text, token })
    }

    /// A source whose first entries were delivered, and the last of those.
    fn passed(&self) -> Option<(String, String)> {
        self.sources.iter().find_map(|(source, items)| {
            let done = items.iter().take_while(|item| item.state == State::Done);
            let last = &done.last()?.key;
            let noted = self.acked.get(source) == Some(last);
            (!noted).then(|| (source.clone(), last.clone()))
        })
    }

    /// When the first command lapses.
    fn lapses(&self) -> Option<Duration> {
        let items = self.sources.get(INBOX)?.iter();
        let waiting = items.filter(|item| item.state == State::New && matches!(item.sort, Sort::Command(_)));
        waiting.map(|item| self.lapses_at(item)).min()
    }

    /// A command is as old as its time says by the bus's own clock, and at least as old as this machine knows it.
    fn lapses_at(&self, item: &Item) -> Duration {
        let known = item.seen + LAPSE;
        let Some((bus, own)) = self.facts.clocks else {
            return known;
        };
        let age = u64::try_from(bus.saturating_sub(message::ts(&item.entry))).unwrap_or(0);
        let left = LAPSE.saturating_sub(Duration::from_millis(age));
        known.min(own + left)
    }

    fn lapse(&mut self, now: Duration) {
        let lapsed: Vec<usize> = self
            .sources
            .get(INBOX)
            .into_iter()
            .flatten()
            .enumerate()
            .filter(|(_, item)| item.state == State::New && matches!(item.sort, Sort::Command(_)))
            .filter(|(_, item)| self.lapses_at(item) <= now)
            .map(|(at, _)| at)
            .collect();
        for at in lapsed {
            let item = self.sources.get_mut(INBOX).and_then(|items| items.get_mut(at));
            let Some(item) = item else { continue };
            item.state = State::Done;
            let entry = item.entry.clone();
            let held = self.held.clone().unwrap_or(Hold {
                why: Why::Unavailable,
                detail: "nobody delivered to this pane meanwhile".to_owned(),
            });
            let hold = Hold {
                detail: format!(
                    "it was not typed within two minutes and has lapsed; {}",
                    held.detail
                ),
                ..held
            };
            self.receipts.push_back(report(&entry, Outcome::Held(hold)));
        }
    }
}

/// Of a channel's routine messages only the newest are shown; the others are counted.
fn leave_out(queue: &mut VecDeque<Chosen>) {
    let routine = queue.iter().filter(|chosen| chosen.tier == Tier::Routine).count();
    let surplus = routine.saturating_sub(ROOM_READ);
    let routine = queue.iter_mut().filter(|chosen| chosen.tier == Tier::Routine);
    routine.take(surplus).for_each(|chosen| chosen.untold = true);
}

/// One row in the order of time, in which each source keeps its own order.
fn merge(mut queues: Vec<VecDeque<Chosen>>) -> Vec<Chosen> {
    let mut row = Vec::with_capacity(queues.iter().map(VecDeque::len).sum());
    loop {
        let heads = queues.iter_mut().filter(|queue| !queue.is_empty());
        let next = heads.min_by_key(|queue| queue.front().map(|chosen| chosen.ts));
        match next.and_then(VecDeque::pop_front) {
            Some(chosen) => row.push(chosen),
            None => return row,
        }
    }
}

/// The digest first, then what woke the reader. What a sender wrote after something urgent of his own stays after it.
fn arrange(row: Vec<Chosen>) -> Vec<Chosen> {
    let mut urgent: HashSet<String> = HashSet::new();
    let (mut digest, mut rest) = (Vec::new(), Vec::new());
    for chosen in row {
        if chosen.tier == Tier::Now {
            urgent.insert(chosen.from.clone());
        }
        if chosen.tier == Tier::Routine && !urgent.contains(&chosen.from) {
            digest.push(chosen);
        } else {
            rest.push(chosen);
        }
    }
    digest.extend(rest);
    digest
}

fn report(entry: &Entry, outcome: Outcome) -> Report {
    Report {
        id: message::field(entry, "id").unwrap_or("").to_owned(),
        from: message::field(entry, "from").unwrap_or("").to_owned(),
        control: true,
        outcome,
    }
}
