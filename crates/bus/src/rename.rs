//! A new id for an agent, with all that belongs to it. Never undone half-way: once it has begun it is completed, by whoever comes next. Never loses a message to the old id.
//!
//! What is sent to the old id later goes on to the new one: a private note (`.muster/alias/<old>.json`) says so until somebody acts as the old
//! id again. [`forwarded`] answers it to senders, and [`gather`] fetches what was written into the old inbox all the same, by a sender that had
//! looked before the note was there or by a program that does not know of it.

mod late;

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{BusError, failed};
use crate::files::{NotPlain, exists, open_plain, read_plain};
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock::{self, Held};
use crate::log::{self, Log};
use crate::message::{self, Message};
use crate::names::{RoomName, SeatId};
use crate::push::lease;
use crate::registry::{self, Agents};
use crate::rooms::{self, Rooms};
use crate::tokens::Tokens;
use crate::{post, sessions, tokens, transports};

use late::alias;
pub(crate) use late::reclaim;
pub use late::{forwarded, gather};

/// The lock over everything that decides who is who: claims, renames and the notes about old ids. Taken before every other one.
pub(crate) const IDENTITY: &str = ".muster/identity";
/// Renames that have begun.
const RENAMES: &str = ".muster/rename";
/// Where messages to an id that nobody has any more go on to.
const ALIASES: &str = ".muster/alias";

/// A rename that has begun, as its file says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Intent {
    old: String,
    new: String,
    /// Milliseconds since 1970.
    since: i64,
    /// The id of the notice, so that it is posted once.
    notice: String,
    /// The connection that asked, whose marker follows, as do those of all that came with the agent's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// The inbox has left its old place. Before, what lies there is it; after, it is what came late.
    #[serde(default)]
    taken: bool,
}

impl Intent {
    fn seats(&self) -> Result<(SeatId, SeatId), BusError> {
        Ok((SeatId::parse(&self.old)?, SeatId::parse(&self.new)?))
    }

    fn concerns(&self, seat: &SeatId) -> bool {
        self.old == seat.as_str() || self.new == seat.as_str()
    }
}

/// A rename that was begun by a process that died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    /// The id before.
    pub old: SeatId,
    /// The id after.
    pub new: SeatId,
    /// When it began, in milliseconds.
    pub since: i64,
}

fn intent_file(old: &str) -> String {
    format!("{RENAMES}/{old}.json")
}

/// Takes the lock over identities.
pub(crate) fn identity_lock(home: &Home) -> Result<Held, BusError> {
    lock::lock(home, IDENTITY)
}

/// Gives an agent a new id: its registry entry, inbox (the archived one, too), cursors, marker, memberships and token move, and a notice tells
/// it in `general`. Receipts stay where their sender looks for them. The binding of the connection that asks is its own to move:
/// [`crate::identity::Session::rename`].
///
/// # Errors
/// [`BusError::NotRegistered`], [`BusError::IdInUse`], a file that cannot be read: nothing was changed then. [`BusError::RenameUnfinished`].
pub fn rename(home: &Home, old: &SeatId, new: &SeatId) -> Result<(), BusError> {
    let _held = identity_lock(home)?;
    let mut intent = begin(home, old, new, None)?;
    go_on(home, &mut intent)
}

/// Checks that a rename can be, and notes that it has begun. The caller holds the identity lock.
pub(crate) fn begin(
    home: &Home,
    old: &SeatId,
    new: &SeatId,
    session: Option<&str>,
) -> Result<Intent, BusError> {
    settle(home, old)?;
    settle(home, new)?;
    free(home, old, new, session)?;
    let intent = Intent {
        old: old.as_str().to_owned(),
        new: new.as_str().to_owned(),
        since: home.now(),
        notice: sessions::new_id()?,
        session: session.map(str::to_owned),
        taken: false,
    };
    home::make_folder(&home.path(RENAMES))?;
    json::write(home, &intent_file(old.as_str()), &intent, Keep::Durably)?;
    Ok(intent)
}

/// Completes a rename that has begun. The caller holds the identity lock.
pub(crate) fn go_on(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    let done = STEPS.iter().try_for_each(|step| step(home, intent));
    let (old, new) = intent.seats()?;
    done.and_then(|()| gather(home, &new).map(drop))
        .map_err(|error| BusError::RenameUnfinished {
            old,
            new,
            cause: error.chain(),
        })
}

/// Refuses an id that something belongs to.
fn free(home: &Home, old: &SeatId, new: &SeatId, session: Option<&str>) -> Result<(), BusError> {
    let agents = Agents::load(home)?;
    if !agents.has(old.as_str()) {
        return Err(BusError::NotRegistered(old.clone()));
    }
    let tokened = Tokens::load(home)?.is_some_and(|tokens| tokens.has(new));
    let bound = sessions::live(home)?
        .iter()
        .any(|(id, marker)| marker.agent_id == new.as_str() && Some(id.as_str()) != session);
    let read = has_read(home, new)?;
    // Read before anything moves: what is damaged there would stop the rename half-way.
    transports::load(home, old)?;
    let inbox = home::inbox(old);
    let waiting = format!("{RENAMES}/{old}.inbox");
    for moved in [home::archive(&inbox), inbox, waiting, home::cursor(old)] {
        size(&home.path(&moved))?;
    }
    let in_use = [
        (old == new, "it is the id it has already"),
        (agents.has(new.as_str()), "it is registered"),
        (tokened, "it has a token"),
        (bound, "a live session is bound to it"),
        (
            transports::load(home, new)?.is_some(),
            "it has a transport marker",
        ),
        (
            size(&home.path(&home::inbox(new)))? > 0,
            "its inbox holds messages",
        ),
        (read, "it has read messages"),
        (
            !Rooms::load(home)?.of(new).is_empty(),
            "it is a member of a channel",
        ),
    ];
    match in_use.into_iter().find(|(holds, _)| *holds) {
        Some((_, why)) => Err(BusError::IdInUse { id: new.clone(), why }),
        None => Ok(()),
    }
}

/// Whether an agent's cursor file says anything.
fn has_read(home: &Home, seat: &SeatId) -> Result<bool, BusError> {
    let cursor: Option<Map<String, Value>> = json::read(home, &home::cursor(seat))?;
    Ok(cursor.is_some_and(|cursor| !cursor.is_empty()))
}

/// The size of a file, 0 when there is none.
fn size(path: &Path) -> Result<u64, BusError> {
    match fs::symlink_metadata(path) {
        Ok(meta) => match NotPlain::of(meta.file_type()) {
            None => Ok(meta.len()),
            Some(odd) => Err(failed("look at", path, std::io::Error::other(odd))),
        },
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
        Err(error) => Err(failed("look at", path, error)),
    }
}

type Step = fn(&Home, &mut Intent) -> Result<(), BusError>;

/// What a rename does, in order. Each step may be done again by somebody who does not know that it was done, wherever the first one died.
const STEPS: [Step; 9] = [
    take,
    give,
    session,
    registry,
    memberships,
    marker,
    token,
    notice,
    end,
];

/// The locks of both inboxes and both cursors, logs before cursors, each pair in the order of its names.
fn both(home: &Home, a: &SeatId, b: &SeatId) -> Result<Vec<Held>, BusError> {
    let (first, second) = if a < b { (a, b) } else { (b, a) };
    [
        home::inbox(first),
        home::inbox(second),
        home::cursor(first),
        home::cursor(second),
    ]
    .iter()
    .map(|name| lock::lock(home, name))
    .collect()
}

/// The place beside the intent where the inbox waits: nobody else makes a file there, so whether it has left its old place is never in doubt.
fn waiting(home: &Home, intent: &Intent) -> PathBuf {
    home.path(RENAMES).join(format!("{}.inbox", intent.old))
}

/// Moves a file if it is there. Answers whether it was.
fn shift(from: &Path, to: &Path) -> Result<bool, BusError> {
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound && !from.exists() => Ok(false),
        Err(error) => Err(failed("move", from, error)),
    }
}

/// Takes the inbox out of the old id's place, and leaves the note of where late messages go.
fn take(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    if intent.taken {
        return Ok(());
    }
    let (old, new) = intent.seats()?;
    // Opening it completes a cut that somebody died in, whose cursors are still the old ones.
    drop(Log::open_existing(home, &home::inbox(&old))?);
    let _held = both(home, &old, &new)?;
    home::make_folder(&home.path(ALIASES))?;
    alias(home, &old, &new)?;
    let inbox = waiting(home, intent);
    size(&inbox)?;
    if !exists(&inbox) {
        shift(&home.path(&home::inbox(&old)), &inbox)?;
    }
    // The index is keyed by the file itself, so it goes on being true.
    let _ = fs::rename(
        log::index_file(home, &home::inbox(&old)),
        log::index_file(home, &home::inbox(&new)),
    );
    intent.taken = true;
    json::write(home, &intent_file(&intent.old), intent, Keep::Durably)
}

/// Puts inbox, archived inbox and cursor where the new id's are.
fn give(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    let (old, new) = intent.seats()?;
    let _held = both(home, &old, &new)?;
    let inbox = waiting(home, intent);
    let place = home.path(&home::inbox(&new));
    home::make_folder(&home.path("inbox"))?;
    home::make_folder(&home.path("cursors"))?;
    size(&inbox)?;
    if exists(&inbox) {
        if size(&place)? > 0 {
            // Somebody wrote to the new id meanwhile: that comes after what was there, so that the cursor stays true.
            follow(&inbox, &place)?;
        }
        shift(&inbox, &place)?;
    }
    // The cursor keeps its place among the others until now, so that a channel that is cut meanwhile moves it. One of the new id that says
    // anything is the one that was moved already.
    if !has_read(home, &new)? {
        shift(&home.path(&home::cursor(&old)), &home.path(&home::cursor(&new)))?;
    }
    archived(home, &old, &new)?;
    home.create_early(&home::inbox(&new), "")?;
    home.create_early(&home::cursor(&new), "{}").map(drop)
}

/// Appends what stands in `late` to `inbox`, unless it was appended already.
fn follow(inbox: &Path, late: &Path) -> Result<(), BusError> {
    let broke = |error| failed("write to", inbox, error);
    let late = read_plain(late).map_err(|error| failed("read", late, error))?;
    let mut file = open_plain(inbox, File::options().read(true).append(true)).map_err(broke)?;
    let length = file.metadata().map_err(broke)?.len();
    let mut tail = Vec::new();
    let begin = length.saturating_sub(late.len() as u64);
    file.seek(SeekFrom::Start(begin)).map_err(broke)?;
    file.read_to_end(&mut tail).map_err(broke)?;
    if tail == late {
        return Ok(());
    }
    let torn = tail.last().is_some_and(|byte| *byte != b'\n');
    let mut bytes = if torn { b"\n".to_vec() } else { Vec::new() };
    bytes.extend_from_slice(&late);
    let written = file.write_all(&bytes).and_then(|()| file.sync_data());
    written.map_err(|error| {
        let _ = file.set_len(length);
        broke(error)
    })
}

/// Moves the archived inbox. Beside one that is there already it is appended; a death in between doubles lines of the archive and loses none.
fn archived(home: &Home, old: &SeatId, new: &SeatId) -> Result<(), BusError> {
    let (from, to) = (home::archive(&home::inbox(old)), home::archive(&home::inbox(new)));
    let (source, place) = (home.path(&from), home.path(&to));
    if !exists(&place) {
        return shift(&source, &place).map(drop);
    }
    match read_plain(&source) {
        Ok(lines) => {
            log::append_to_archive(home, &to, &lines)?;
            fs::remove_file(&source).map_err(|error| failed("remove", &source, error))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed("read", &source, error)),
    }
}

fn session(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    let (old, new) = intent.seats()?;
    sessions::rename(home, &old, &new, intent.session.as_deref())
}

fn registry(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    registry::change(home, |agents| {
        let (old, new) = intent.seats()?;
        let moved = agents.get(&old);
        if agents.take(&intent.old).is_none() || agents.has(new.as_str()) {
            return Ok(());
        }
        match moved {
            Some(mut agent) => {
                agent.agent_id = intent.new.clone();
                agents.put(&agent)
            }
            // Of a strange shape: what can be told is that it was there.
            None => agents.put(&registry::Agent {
                agent_id: intent.new.clone(),
                project: None,
                role: None,
                registered_at: intent.since,
                last_heartbeat: intent.since,
                away: None,
                more: Map::new(),
            }),
        }
    })
}

fn memberships(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    rooms::change(home, |rooms| {
        let (old, _) = intent.seats()?;
        for room in rooms.of(&old) {
            let Some(mut entry) = rooms.get(&room) else {
                continue;
            };
            let mut there = false;
            for member in &mut entry.members {
                if *member == intent.old {
                    member.clone_from(&intent.new);
                }
            }
            entry.members.retain(|member| {
                let again = *member == intent.new && there;
                there |= *member == intent.new;
                !again
            });
            rooms.put(&room, &entry)?;
        }
        Ok(())
    })
}

fn marker(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    let (old, new) = intent.seats()?;
    transports::rename(home, &old, &new)?;
    // Whoever delivers to it asks under the new id.
    lease::forget(home, &old)
}

fn token(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    let (old, new) = intent.seats()?;
    tokens::rename(home, &old, &new).map(drop)
}

/// One notice, whoever completes the rename and however often.
fn notice(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    let general = RoomName::general();
    let mut there = false;
    if let Some(log) = Log::open_existing(home, &home::room(&general))? {
        log.read(0, |_, entry| {
            there = message::field(&entry, "id") == Some(intent.notice.as_str());
            !there
        })?;
    }
    if there {
        return Ok(());
    }
    let text = format!("{} is now known as {}", intent.old, intent.new);
    let (_, by) = intent.seats()?;
    let mut message = Message::notice(home.now(), general.clone(), &by, text)?;
    message.id.clone_from(&intent.notice);
    post::write(home, &general, &message)
}

fn end(home: &Home, intent: &mut Intent) -> Result<(), BusError> {
    let path = home.path(&intent_file(&intent.old));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", &path, error)),
        _ => Ok(()),
    }
}

/// The renames that a process began and did not live to complete.
///
/// # Errors
/// [`BusError::Damaged`], [`BusError::Held`], a fault.
pub fn unfinished(home: &Home) -> Result<Vec<Unfinished>, BusError> {
    let _held = identity_lock(home)?;
    intents(home)?
        .into_iter()
        .map(|intent| {
            let (old, new) = intent.seats()?;
            Ok(Unfinished {
                old,
                new,
                since: intent.since,
            })
        })
        .collect()
}

fn intents(home: &Home) -> Result<Vec<Intent>, BusError> {
    let mut intents = Vec::new();
    for old in sessions::stems(home, RENAMES)? {
        let name = intent_file(&old);
        let Some(intent) = json::read::<Intent>(home, &name)? else {
            continue;
        };
        if intent.old != old || intent.seats().is_err() {
            return Err(BusError::Damaged(name));
        }
        intents.push(intent);
    }
    Ok(intents)
}

/// Completes the rename of `old`. Answers whether there was one to complete.
///
/// # Errors
/// [`BusError::RenameUnfinished`] with what stops it, [`BusError::Damaged`], [`BusError::Held`], a fault.
pub fn finish(home: &Home, old: &SeatId) -> Result<bool, BusError> {
    let _held = identity_lock(home)?;
    match json::read::<Intent>(home, &intent_file(old.as_str()))? {
        Some(mut intent) => go_on(home, &mut intent).map(|()| true),
        None => Ok(false),
    }
}

/// Completes every rename from or to `seat`, so that nobody acts as it in the middle of one. The caller holds the identity lock, so whoever
/// began them is dead.
pub(crate) fn settle(home: &Home, seat: &SeatId) -> Result<(), BusError> {
    for mut intent in intents(home)? {
        if intent.concerns(seat) {
            go_on(home, &mut intent)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
