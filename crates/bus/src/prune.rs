//! Keeping the room clean: what is old moves to the archive, those who left are dropped from channels, empty channels are put away. Never deletes a message, and never moves one away that its reader has not read.

mod inboxes;
mod rooms;

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::BusError;
use crate::home::{self, Home};
use crate::known::{Known, files};
use crate::log::Entry;
use crate::log::scan::{open_plain, scan};
use crate::message;
use crate::names::RoomName;
use crate::registry::Agents;
use crate::rooms::Rooms;
use crate::unused;

const DAY: f64 = 86_400_000.0;
const DAYS: f64 = 7.0;
const DECISION_DAYS: f64 = 30.0;

/// What is cleaned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// Posts of channels.
    Rooms,
    /// The status stream.
    Status,
    /// Direct messages that were read, and inboxes of nobody.
    Inbox,
    /// Receipts, which are really deleted.
    Receipts,
    /// Members who left, and channels that nobody is in.
    Members,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Rooms,
        Self::Status,
        Self::Inbox,
        Self::Receipts,
        Self::Members,
    ];

    /// Reads a target.
    ///
    /// # Errors
    /// [`BusError::Argument`] that names the targets.
    pub fn parse(text: &str) -> Result<Self, BusError> {
        match text {
            "rooms" => Ok(Self::Rooms),
            "status" => Ok(Self::Status),
            "inbox" => Ok(Self::Inbox),
            "receipts" => Ok(Self::Receipts),
            "members" => Ok(Self::Members),
            _ => Err(BusError::Argument(
                "targets are any of rooms, status, inbox, receipts and members",
            )),
        }
    }
}

/// What to clean.
#[derive(Debug, Clone, PartialEq)]
pub struct Want {
    /// Older than this many days goes; 7 unless given, at most 365.
    pub older_than_days: Option<f64>,
    /// The same for decisions; unless given 30, or `older_than_days` where that is more. At most 3650.
    pub decision_days: Option<f64>,
    /// Only this channel: its posts and its members.
    pub room: Option<RoomName>,
    /// Only these; all of them unless given.
    pub targets: Option<Vec<Target>>,
    /// Whether channels that nobody is in and nobody writes to are put away.
    pub archive_empty_rooms: bool,
    /// Whether inboxes of nobody move to the archive whole, unread messages with them, once nothing in them is younger than the limit. They do
    /// unless this says `false`.
    pub remove_orphan_inboxes: Option<bool>,
    /// Only says what would be done. Not one byte is changed.
    pub dry_run: bool,
}

impl Default for Want {
    fn default() -> Self {
        Self {
            older_than_days: None,
            decision_days: None,
            room: None,
            targets: None,
            archive_empty_rooms: true,
            remove_orphan_inboxes: None,
            dry_run: false,
        }
    }
}

/// What was moved, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Posts of all channels.
    pub room_messages: u64,
    /// The same by channel.
    pub rooms: BTreeMap<String, u64>,
    /// Entries of the status stream.
    pub status_entries: u64,
    /// Direct messages, those of inboxes of nobody not counted.
    pub inbox_messages: u64,
    /// The same by agent.
    pub inboxes: BTreeMap<String, u64>,
    /// Direct messages that are old enough and were not read, so they stay.
    pub unread_kept: u64,
    /// Inboxes of nobody, which move whole.
    pub orphan_inboxes: Vec<String>,
    /// Direct messages in them.
    pub orphan_messages: u64,
    /// Receipts. They are deleted.
    pub receipts: u64,
    /// Memberships.
    pub members: u64,
    /// The same by channel.
    pub swept_members: BTreeMap<String, Vec<String>>,
    /// Channels that were put away.
    pub archived_rooms: Vec<String>,
}

/// A file that was left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// Its name inside the directory.
    pub subject: String,
    /// Why.
    pub why: String,
}

/// What a cleaning did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Entries written before this moment are old, in milliseconds.
    pub cutoff: i64,
    /// The same for decisions.
    pub decision_cutoff: i64,
    /// The limit that held.
    pub older_than_days: f64,
    /// The limit that held for decisions.
    pub decision_days: f64,
    /// Of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub would_remove: Option<Counts>,
    /// Of a real one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<Counts>,
    /// What could not be cleaned, and stands as it was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<Skipped>,
    /// In words.
    pub note: &'static str,
}

impl Report {
    /// The counts, of whichever kind of run.
    pub fn counts(&self) -> Option<&Counts> {
        self.removed.as_ref().or(self.would_remove.as_ref())
    }
}

const NOTE_DRY: &str = "nothing was changed";
const NOTE: &str = "what removed counts was moved to archive/, which nothing reads back; only receipts were deleted. Direct messages that were not read stay, whatever their age; only the inbox of an agent that is not registered moves as a whole, once nothing in it is younger than the limit";

/// Cleans the directory.
///
/// # Errors
/// [`BusError::Argument`], [`BusError::NoRoom`]; [`BusError::Damaged`] when the registry, the channels or the tokens cannot be read, since
/// nobody can tell then who has left. Nothing was changed in all of these. A single file that fails is reported in `skipped`.
pub fn prune(home: &Home, want: &Want) -> Result<Report, BusError> {
    let rule = Rule::of(home.now(), want)?;
    let targets = targets(want)?;
    if let Some(room) = &want.room
        && !crate::rooms::exists(home, room)?
    {
        return Err(BusError::NoRoom(room.clone()));
    }
    // What decides who has left is read before anything is moved.
    let agents = Agents::load(home)?;
    Rooms::load(home)?;
    Known::load(home)?;
    let mut run = Run {
        home,
        want,
        rule,
        heartbeats: agents
            .all()
            .into_iter()
            .map(|a| (a.agent_id, a.last_heartbeat))
            .collect(),
        agents,
        counts: Counts::default(),
        skipped: Vec::new(),
    };
    let on = |target| targets.contains(&target);
    if on(Target::Members) {
        run.members()?;
    }
    if on(Target::Rooms) {
        run.rooms()?;
    }
    if on(Target::Status) {
        run.counts.status_entries = run.aged(home::STATUS, |_| true);
    }
    if on(Target::Inbox) {
        run.inboxes()?;
    }
    if on(Target::Receipts) {
        run.receipts()?;
    }
    if want.targets.is_none() && want.room.is_none() && !want.dry_run {
        let swept = unused::sweep(home);
        run.or_skip(home::PRIVATE, swept);
    }
    Ok(run.report())
}

fn targets(want: &Want) -> Result<Vec<Target>, BusError> {
    let of_room = [Target::Rooms, Target::Members];
    match (&want.targets, &want.room) {
        (None, None) => Ok(Target::ALL.to_vec()),
        (None, Some(_)) => Ok(of_room.to_vec()),
        (Some(targets), Some(_)) if targets.iter().any(|target| !of_room.contains(target)) => {
            Err(BusError::Argument(
                "with room, the targets are rooms and members; the other streams belong to no channel",
            ))
        }
        (Some(targets), _) => Ok(targets.clone()),
    }
}

/// What is old.
#[derive(Debug, Clone, Copy)]
struct Rule {
    days: f64,
    decision_days: f64,
    cutoff: i64,
    decision_cutoff: i64,
}

impl Rule {
    fn of(now: i64, want: &Want) -> Result<Self, BusError> {
        let days = want.older_than_days.unwrap_or(DAYS);
        let decision_days = want.decision_days.unwrap_or(DECISION_DAYS.max(days));
        if !(days > 0.0 && days <= 365.0) {
            return Err(BusError::Argument(
                "olderThanDays must be a number over 0 and at most 365",
            ));
        }
        if !(decision_days > 0.0 && decision_days <= 3650.0) {
            return Err(BusError::Argument(
                "decisionDays must be a number over 0 and at most 3650",
            ));
        }
        Ok(Self {
            days,
            decision_days,
            cutoff: now.saturating_sub(millis(days)),
            decision_cutoff: now.saturating_sub(millis(decision_days)),
        })
    }

    /// Whether an entry is old. One that does not say when it was written is not.
    fn aged(&self, entry: &Entry) -> bool {
        let cutoff = if message::is_decision(entry) {
            self.decision_cutoff
        } else {
            self.cutoff
        };
        entry.get("ts").is_some_and(serde_json::Value::is_number) && message::ts(entry) < cutoff
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "at most ten years of milliseconds"
)]
fn millis(days: f64) -> i64 {
    (days * DAY) as i64
}

struct Run<'a> {
    home: &'a Home,
    want: &'a Want,
    rule: Rule,
    agents: Agents,
    heartbeats: HashMap<String, i64>,
    counts: Counts,
    skipped: Vec<Skipped>,
}

impl Run<'_> {
    /// Moves the old entries of a log to its archive, of those that `may` go by their number. Answers how many.
    fn aged(&mut self, log: &str, may: impl Fn(u64) -> bool) -> u64 {
        let archive = home::archive(log);
        let moved = self.take(log, Some(&archive), may);
        self.or_skip(log, moved).unwrap_or(0)
    }

    fn take(&self, log: &str, whereto: Option<&str>, may: impl Fn(u64) -> bool) -> Result<u64, BusError> {
        let rule = self.rule;
        let goes = |number, entry: &Entry| may(number) && rule.aged(entry);
        if self.want.dry_run {
            let mut count = 0;
            scan(&self.home.path(log), |_, line| {
                if let (Some(number), Some(entry)) = (line.number, line.entry) {
                    count += u64::from(goes(number, entry));
                }
            })?;
            return Ok(count);
        }
        match open_plain(self.home, log)? {
            Some(mut log) => Ok(log.archive(goes, whereto)?.count()),
            None => Ok(0),
        }
    }

    fn or_skip<T>(&mut self, subject: &str, result: Result<T, BusError>) -> Option<T> {
        result
            .map_err(|error| {
                tracing::warn!(file = %subject, error = %error.chain(), "a file was left out of a cleaning");
                self.skipped.push(Skipped {
                    subject: muster_core::text::terminal(subject),
                    why: error.to_string(),
                });
            })
            .ok()
    }

    fn receipts(&mut self) -> Result<(), BusError> {
        for stem in files(self.home, "receipts", ".jsonl")? {
            let log = format!("receipts/{stem}.jsonl");
            let deleted = self.take(&log, None, |_| true);
            self.counts.receipts += self.or_skip(&log, deleted).unwrap_or(0);
        }
        Ok(())
    }

    fn report(self) -> Report {
        let dry = self.want.dry_run;
        let (would_remove, removed) = if dry {
            (Some(self.counts), None)
        } else {
            (None, Some(self.counts))
        };
        Report {
            dry_run: dry,
            cutoff: self.rule.cutoff,
            decision_cutoff: self.rule.decision_cutoff,
            older_than_days: self.rule.days,
            decision_days: self.rule.decision_days,
            would_remove,
            removed,
            skipped: self.skipped,
            note: if dry { NOTE_DRY } else { NOTE },
        }
    }
}
