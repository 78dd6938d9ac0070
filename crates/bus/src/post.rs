//! Writing: direct messages, channel posts, notices, the status stream, and the cut of a log that grew too long. Never answers before the line is in the file.

use std::thread;
use std::time::Duration;

use muster_core::Fault;
use serde::{Deserialize, Serialize};

use crate::error::BusError;
use crate::files;
use crate::fresh;
use crate::home::{self, Home, Mode};
use crate::json::{self, Keep};
use crate::limits::{Bound, DECISION_AGE};
use crate::log::{self, Entry, Log};
use crate::message::{self, Kind, Message, Status};
use crate::names::{RoomName, SeatId};
use crate::push::ControlCommand;
use crate::registry::Agents;
use crate::rename;
use crate::rooms;

/// A message that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its id.
    pub id: String,
    /// Its time, in milliseconds.
    pub ts: i64,
    /// What its sender should know.
    pub warning: Option<String>,
}

/// Sends a direct message. An agent that nobody registered gets it all the same, and the sender is warned, with the names it may have meant.
///
/// # Errors
/// A text that is empty or too long; [`BusError::Held`], a fault. Nothing was written then.
pub fn send(home: &Home, from: &SeatId, to: &SeatId, text: &str) -> Result<Sent, BusError> {
    message::text("text", text)?;
    let mut message = Message::new(home.now(), from.as_str(), text.to_owned())?;
    message.to = Some(to.clone());
    deliver(home, to, &message)?;
    Ok(Sent {
        id: message.id,
        ts: message.ts,
        warning: unknown(home, to),
    })
}

/// Writes a command for an agent's own program into its inbox, where whoever delivers to it finds it in its place.
pub(crate) fn command(
    home: &Home,
    from: &SeatId,
    to: &SeatId,
    command: ControlCommand,
) -> Result<Sent, BusError> {
    let mut message = Message::new(home.now(), from.as_str(), command.as_str().to_owned())?;
    message.to = Some(to.clone());
    message.control = true;
    marked(home, to, message)
}

/// Sends a direct message that must be read now, whoever its reader listens to.
pub(crate) fn remind(home: &Home, from: &SeatId, to: &SeatId, text: String) -> Result<Sent, BusError> {
    let mut message = Message::new(home.now(), from.as_str(), text)?;
    message.to = Some(to.clone());
    message.urgent = true;
    marked(home, to, message)
}

fn marked(home: &Home, to: &SeatId, message: Message) -> Result<Sent, BusError> {
    deliver(home, to, &message)?;
    Ok(Sent {
        id: message.id,
        ts: message.ts,
        warning: None,
    })
}

/// Puts a message into an inbox.
pub(crate) fn deliver(home: &Home, to: &SeatId, message: &Message) -> Result<(), BusError> {
    let name = home::inbox(to);
    let line = message.line()?;
    let mut log = Log::open(home, &name)?;
    log.append(std::slice::from_ref(&line))?;
    guard_new(log, message, line)
}

/// Another program that believed the file absent a moment ago may empty it after our first lines. Each of them is looked for again: once
/// before its sender hears that it is stored, and twice later.
fn guard_new(log: Log<'_>, message: &Message, line: String) -> Result<(), BusError> {
    let home = log.home().clone();
    if home.mode() == Mode::Native || !log.is_new() {
        return Ok(());
    }
    let (name, id, inode) = (log.name().to_owned(), message.id.clone(), log.inode());
    // Others may write meanwhile.
    drop(log);
    thread::sleep(Duration::from_millis(50));
    // The line is in the file, so this is no failure of the message: the later looks may do what this one could not.
    if let Err(error) = restore(&home, &name, inode, &id, &line) {
        tracing::warn!(error = %error.chain(), "a first message could not be looked after yet");
    }
    let later = move || {
        for pause in [450, 1_500] {
            thread::sleep(Duration::from_millis(pause));
            if let Err(error) = restore(&home, &name, inode, &id, &line) {
                tracing::warn!(error = %error.chain(), "a first message could not be looked after");
            }
        }
    };
    // Without the thread the message is looked after once; that is said, not hidden.
    if let Err(error) = thread::Builder::new()
        .name("first-message".to_owned())
        .spawn(later)
    {
        tracing::warn!(error = %error, "no thread could be started to look after a first message");
    }
    Ok(())
}

fn restore(home: &Home, name: &str, inode: u64, id: &str, line: &str) -> Result<(), BusError> {
    // A program that empties a file leaves it the same file. Another one, or none, stands there after a rename or a cut, which took the
    // message along.
    let Some(mut log) = Log::open_existing(home, name)?.filter(|log| log.inode() == inode) else {
        return Ok(());
    };
    let mut there = false;
    log.read(0, |_, entry| {
        there = message::field(&entry, "id") == Some(id);
        !there
    })?;
    if there || moved(home, name)? {
        return Ok(());
    }
    tracing::warn!(file = %name, "another program emptied a new file; its first message was written again");
    log.append(&[line.to_owned()])
}

/// Whether an inbox's agent was renamed meanwhile, and its messages went along.
fn moved(home: &Home, name: &str) -> Result<bool, BusError> {
    let id = name
        .strip_prefix("inbox/")
        .and_then(|name| name.strip_suffix(".jsonl"));
    match id.map(SeatId::parse) {
        Some(Ok(seat)) => Ok(rename::forwarded(home, &seat)?.is_some()),
        _ => Ok(false),
    }
}

/// The sender's warning about a recipient that has no entry.
fn unknown(home: &Home, to: &SeatId) -> Option<String> {
    let agents = match Agents::seen(home) {
        Ok(agents) => agents,
        Err(error) => {
            return Some(format!(
                "the message is stored; whether '{to}' is registered cannot be told: {error}"
            ));
        }
    };
    if agents.has(to.as_str()) {
        return None;
    }
    let near: Vec<String> = agents
        .all()
        .into_iter()
        .map(|agent| agent.agent_id)
        .filter(|id| near(id, to.as_str()))
        .take(3)
        .collect();
    let meant = if near.is_empty() {
        String::new()
    } else {
        format!("; did you mean '{}'?", near.join("' or '"))
    };
    Some(format!(
        "nobody is registered as '{to}': the message is stored and waits until somebody is{meant}"
    ))
}

/// Whether two ids differ by two edits at most, whatever their case.
fn near(a: &str, b: &str) -> bool {
    let (a, b) = (a.to_ascii_lowercase(), b.to_ascii_lowercase());
    if a.len().abs_diff(b.len()) > 2 {
        return false;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut next = vec![i + 1];
        for (y, (above_left, above)) in b.bytes().zip(row.iter().zip(row.iter().skip(1))) {
            let left = next.last().copied().unwrap_or(0);
            let change = above_left + usize::from(x != y);
            next.push(change.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().is_some_and(|edits| *edits <= 2)
}

/// Posts to a channel, which is made if nobody made it.
///
/// # Errors
/// A text that is empty or too long; [`BusError::Held`], [`BusError::Damaged`], a fault. Nothing was written then.
pub fn post(
    home: &Home,
    from: &SeatId,
    room: &RoomName,
    text: &str,
    kind: Option<Kind>,
) -> Result<Sent, BusError> {
    message::text("text", text)?;
    // Before there is a file, so that a channel whose entry cannot be made gets none.
    rooms::ensure(home, room, from.as_str())?;
    let mut message = Message::new(home.now(), from.as_str(), text.to_owned())?;
    message.room = Some(room.clone());
    message.kind = kind;
    write(home, room, &message)?;
    Ok(Sent {
        id: message.id,
        ts: message.ts,
        warning: None,
    })
}

/// Posts a notice of the bus itself, about an act of `by`.
pub(crate) fn notice(home: &Home, room: &RoomName, by: &SeatId, text: String) -> Result<(), BusError> {
    write(home, room, &Message::notice(home.now(), room.clone(), by, text)?)
}

/// Writes a line into a channel, and cuts it when it grew too long.
pub(crate) fn write(home: &Home, room: &RoomName, message: &Message) -> Result<(), BusError> {
    let line = message.line()?;
    let mut log = Log::open(home, &home::room(room))?;
    // It may have been put away since its writer looked; under this lock it cannot be.
    rooms::ensure(home, room, &message.from)?;
    log.append(std::slice::from_ref(&line))?;
    cut(&mut log, home.limits().room)?;
    guard_new(log, message, line)
}

/// Appends to the status stream.
///
/// # Errors
/// A status or detail that is empty or too long; [`BusError::Held`], a fault. Nothing was written then.
pub fn status(home: &Home, seat: &SeatId, status: &str, detail: Option<&str>) -> Result<Sent, BusError> {
    message::short("status", status)?;
    detail.map_or(Ok(()), |detail| message::text("detail", detail))?;
    let row = Status {
        id: fresh::id()?,
        ts: home.now(),
        agent_id: seat.clone(),
        from: seat.clone(),
        status: status.to_owned(),
        detail: detail.map(str::to_owned),
    };
    let mut log = Log::open(home, home::STATUS)?;
    log.append(&[message::line(&row)?])?;
    cut(&mut log, home.limits().status)?;
    Ok(Sent {
        id: row.id,
        ts: row.ts,
        warning: None,
    })
}

/// Moves what is too much to the archive, oldest first, decisions of the last thirty days excepted, and moves the cursors with it. The post
/// that made the log too long is stored already, so what fails here is logged and tried again at the next one.
fn cut(log: &mut Log<'_>, bound: Bound) -> Result<(), BusError> {
    let (max, keep) = (bound.max as u64, bound.keep as u64);
    if log.entries() <= max || Left::holds(log, max.saturating_sub(keep)) {
        return Ok(());
    }
    if let Err(error) = compact(log, keep).and_then(|()| Left::note(log, max)) {
        tracing::warn!(file = %log.name(), error = %error.chain(), "a log that grew too long could not be cut; its entries all stand");
    }
    Ok(())
}

/// What a cut left in a log of which too much may not go. To look for more costs the whole log, so it is worth it only after as many new
/// entries as a cut takes out.
#[derive(Serialize, Deserialize)]
struct Left {
    inode: u64,
    entries: u64,
}

impl Left {
    /// Whether a log holds what the last cut left in it and fewer than `more` entries besides. A note that cannot be read is none.
    fn holds(log: &Log<'_>, more: u64) -> bool {
        let note = files::read_plain(&log::left_file(log.home(), log.name())).ok();
        note.and_then(|text| serde_json::from_slice::<Self>(&text).ok())
            .is_some_and(|left| {
                let since = log.entries().checked_sub(left.entries);
                left.inode == log.inode() && since.is_some_and(|since| since < more)
            })
    }

    fn note(log: &Log<'_>, max: u64) -> Result<(), BusError> {
        if log.entries() <= max {
            return Ok(());
        }
        let left = Self {
            inode: log.inode(),
            entries: log.entries(),
        };
        let path = log::left_file(log.home(), log.name());
        let text = serde_json::to_vec(&left)
            .map_err(|error| Fault::other("what a cut left could not be written as JSON").because(error))?;
        json::replace(log.home(), &path, &text, Keep::Quickly)
    }
}

fn compact(log: &mut Log<'_>, keep: u64) -> Result<(), BusError> {
    let home = log.home();
    let spared = home
        .now()
        .saturating_sub(i64::try_from(DECISION_AGE.as_millis()).unwrap_or(i64::MAX));
    let surplus = log.entries().saturating_sub(keep);
    let goes = |number: u64, entry: &Entry| {
        number < surplus && !(message::is_decision(entry) && message::ts(entry) >= spared)
    };
    let archive = home::archive(log.name());
    log.archive(goes, Some(&archive)).map(drop)
}
