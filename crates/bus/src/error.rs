//! What the bus refuses, each with its sentence, and the faults below it. Never repeats a message's text.

use std::io;
use std::path::Path;

use muster_core::{Fault, FaultKind};

use crate::files::NotPlain;
use crate::names::{RoomName, SeatId};

/// Why the bus did not do what was asked. Nothing was changed when one is answered, unless its sentence says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BusError {
    /// An agent id that no file may be named after, or that two spellings would share.
    #[error(
        "an agent id is 1 to 64 characters of a-z, A-Z, 0-9, '.', '_' and '-', does not begin with '.' or '-', and is none of {RESERVED}; nothing was changed"
    )]
    SeatName,
    /// A channel name that no file may be named after.
    #[error(
        "a channel name is 1 to 64 characters of a-z, 0-9, '.', '_' and '-' after its '#', and does not begin with '.' or '-'; nothing was changed"
    )]
    RoomName,
    /// A text with nothing in it.
    #[error("the {0} is empty; nothing was written")]
    Empty(&'static str),
    /// A text over its limit, in bytes of UTF-8.
    #[error(
        "the {field} is {bytes} bytes long and at most {limit} are accepted; nothing was written and nothing was cut"
    )]
    TooLong {
        /// Which argument.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// What is accepted.
        limit: usize,
    },
    /// An argument outside what its tool takes.
    #[error("{0}; nothing was changed")]
    Argument(&'static str),
    /// An act of an agent that has no entry.
    #[error("agent '{0}' is not registered; call join or register first")]
    NotRegistered(SeatId),
    /// A channel that nobody made.
    #[error("there is no channel '#{0}'; join_room makes it")]
    NoRoom(RoomName),
    /// `general` is where everybody is.
    #[error("nobody leaves general; nothing was changed")]
    LeavesGeneral,
    /// A rename onto an id that something still belongs to.
    #[error("'{id}' is in use ({why}), so nothing was renamed")]
    IdInUse {
        /// The wanted id.
        id: SeatId,
        /// What is there.
        why: &'static str,
    },
    /// The session acts as somebody else. The words are the text's.
    #[error("identity bound to '{bound}'; rejected attempt to act as '{claimed}'")]
    Bound {
        /// Who the session is.
        bound: SeatId,
        /// Who it wanted to be.
        claimed: SeatId,
    },
    /// The session was renamed, and the call names the id before.
    #[error(
        "identity bound to '{bound}'; rejected attempt to act as '{claimed}': this session is '{bound}' (renamed from '{claimed}'), so call with '{bound}'"
    )]
    Renamed {
        /// Who the session is.
        bound: SeatId,
        /// Who it was.
        claimed: SeatId,
    },
    /// An unbound session claims an id that is in use elsewhere.
    #[error(
        "'{id}' is live ({evidence}), so this session was not bound to it. If it is yours: call from its own pane, pass its token, or pass force:true to join or register, which is recorded"
    )]
    Live {
        /// The claimed id.
        id: SeatId,
        /// What says that it is live.
        evidence: String,
    },
    /// Evidence for or against a claim cannot be read.
    #[error(
        "it cannot be told whether '{id}' is live, because {what} cannot be read; the session was not bound. `muster bus doctor` says more"
    )]
    CannotVerify {
        /// The claimed id.
        id: SeatId,
        /// The file, by its name inside the directory.
        what: String,
    },
    /// A claim that carries a token which is not the id's.
    #[error(
        "the token given for '{0}' is not the one that tokens.json has for it; the session was not bound"
    )]
    WrongToken(SeatId),
    /// The map of tokens cannot be trusted. It says why and shows no id and no token.
    #[error(
        "tokens.json is malformed ({0}), so no token of it is accepted and nothing was written over it; correct it by hand, or move it away and make new tokens with `muster bus token add`"
    )]
    Tokens(&'static str),
    /// A transport that there is not.
    #[error("there is no transport {0}; the valid ones are herdr and tmux-push-remote. Nothing was changed")]
    TransportKind(String),
    /// Two agents cannot be typed into one pane.
    #[error(
        "the pane '{pane}' is held by '{by}', which is live, so nothing was attached to it; detach '{by}' first"
    )]
    PaneHeld {
        /// The wanted pane, made harmless for a terminal.
        pane: String,
        /// Whose marker names it.
        by: String,
    },
    /// An attach without a pane, on a connection that has none of its own.
    #[error("no pane can be told from this connection, so nothing was attached; pass tmuxTarget")]
    NoPane,
    /// A rename that began and could not go on. It will only ever be completed, never undone.
    #[error(
        "the rename of '{old}' to '{new}' began and is not finished ({cause}); nothing is lost, the session is '{new}' now, and `muster bus doctor --fix` completes it"
    )]
    RenameUnfinished {
        /// The id before.
        old: SeatId,
        /// The id after.
        new: SeatId,
        /// What stopped it.
        cause: String,
    },
    /// A file that is JSON and not what its name says it is.
    #[error("{file} is not what it should be ({why}), so nothing was changed; `muster bus doctor` says more")]
    Odd {
        /// The file, by its name inside the directory.
        file: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A folder inside the directory that is a symbolic link.
    #[error(
        "the folder {0} is a symbolic link, and the bus keeps its files in one place, so nothing was opened; put a folder in its place (the directory as a whole may be a link)"
    )]
    LinkedFolder(String),
    /// A mode that there is not.
    #[error(
        "the mode '{0}' of config.json does not exist; the valid ones are native and shared, so nothing was opened: put one of them there"
    )]
    Mode(String),
    /// A directory without a bus.
    #[error("there is no bus at {dir}: `muster init --dir {dir}` makes one", dir = muster_core::text::terminal(&.0.display().to_string()))]
    NoBus(std::path::PathBuf),
    /// Reading met this. Whatever else it was about, the reader's place stands where it stood.
    #[error("{}", unread(.0))]
    Unread(Box<BusError>),
    /// A digest that another agent was given.
    #[error("this digest was made for another agent; nothing is shown")]
    NotYourDigest,
    /// A digest that is too old.
    #[error(
        "this digest has expired (30 minutes); read_messages with sinceTs shows what is still in the channel"
    )]
    DigestExpired,
    /// A hash that no digest has.
    #[error("no digest has this hash")]
    NoDigest,
    /// A JSON file of the directory is damaged, so nothing is derived from it and nothing is written over it.
    #[error(
        "{0} cannot be read as JSON, so nothing was changed; `muster bus doctor --fix` puts it right and keeps a copy"
    )]
    Damaged(String),
    /// Another process holds a file for longer than anyone should.
    #[error("{}", held(file, holder, *seconds, "nothing was written"))]
    Held {
        /// The file inside the directory.
        file: String,
        /// Who, as far as it can be told.
        holder: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A `scopes.json` that is there and does not say who owns what.
    #[error(
        "scopes.json cannot be used ({0}), so who owns a document is not known; it is an object of paths and roles, as in {{\"docs/QUEUE.md\": \"lead\"}}"
    )]
    Scopes(String),
    /// A project that no file may be named after.
    #[error(
        "a project is named by 1 to 64 characters of a-z, A-Z, 0-9, '.', '_' and '-', does not begin with '.' or '-', and is none of {RESERVED}; nothing was changed"
    )]
    ProjectName,
    /// A project whose repository nobody named.
    #[error(
        "where project '{0}' lives is not known: pass repo, the absolute path of its repository; nothing was changed"
    )]
    NoRepo(String),
    /// A repository without work documents.
    #[error("none of {names} is in {0:?}; nothing was changed", names = crate::work::NAMES)]
    NoDocuments(std::path::PathBuf),
    /// A work document, or its repository, that is not read or written.
    #[error("{path:?} {why}, so nothing was read from it or written to it")]
    Document {
        /// Which.
        path: std::path::PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An export of a project that nobody imported.
    #[error(
        "nothing was imported of project '{0}', so there is nothing to export and no document was touched; call import_work first"
    )]
    NothingImported(String),
    /// Documents that were edited since they were imported.
    #[error(
        "{0} changed since it was imported, and the document counts: it stays as it is. Call import_work first"
    )]
    Edited(String),
    /// Nothing here reaches the agent's pane.
    #[error("{0}; nothing was changed")]
    NoTransport(&'static str),
    /// The transport cannot reach a pane, in its own words.
    #[error("{0}; nothing was changed")]
    Pane(String),
    /// Whoever asked has gone away.
    #[error("nobody waits for this answer any more; nothing was marked as read")]
    Gone,
    /// The disk, the directory or the system.
    #[error("{}", sentence(.0))]
    Fault(#[from] Fault),
}

/// Names the protocol or its readers keep for themselves.
pub(crate) const RESERVED: &str = "system, __proto__, constructor and prototype";

impl BusError {
    /// Whether something broke, rather than was refused.
    pub fn is_fault(&self) -> bool {
        matches!(
            self,
            Self::Fault(_)
                | Self::Damaged(_)
                | Self::Held { .. }
                | Self::Tokens(_)
                | Self::Odd { .. }
                | Self::RenameUnfinished { .. }
                | Self::LinkedFolder(_)
                | Self::Unread(_)
        )
    }

    /// The same for whoever reads: what holds then is that nothing was marked as read.
    pub(crate) fn reading(self) -> Self {
        match self {
            Self::Held { .. } | Self::Fault(_) => Self::Unread(Box::new(self)),
            other => other,
        }
    }

    /// What it is apart from what it was met at: the error itself, unless reading met it.
    pub fn cause(&self) -> &Self {
        match self {
            Self::Unread(error) => error.cause(),
            other => other,
        }
    }

    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unread(error) => error.code(),
            Self::SeatName | Self::RoomName | Self::ProjectName => "invalid_name",
            Self::Empty(_) | Self::TooLong { .. } | Self::Argument(_) => "invalid_arguments",
            Self::NotRegistered(_) => "not_registered",
            Self::NoRoom(_) => "no_room",
            Self::NoBus(_) => "no_bus",
            Self::Bound { .. } | Self::Renamed { .. } => "identity_bound",
            Self::Live { .. } => "identity_live",
            Self::CannotVerify { .. } => "cannot_verify",
            Self::WrongToken(_) => "wrong_token",
            Self::IdInUse { .. } => "id_in_use",
            Self::NoPane | Self::NoTransport(_) | Self::Pane(_) | Self::PaneHeld { .. } => "not_attached",
            Self::DigestExpired => "digest_expired",
            Self::NoDigest => "no_digest",
            Self::Damaged(_) => "damaged",
            Self::Held { .. } => "busy",
            Self::Gone => "cancelled",
            Self::Fault(_) => "fault",
            _ => "refused",
        }
    }

    /// The whole story in one line, for a log and for a person at this machine.
    pub fn chain(&self) -> String {
        match self {
            Self::Fault(fault) => fault.chain(),
            Self::Unread(error) => error.chain(),
            other => other.to_string(),
        }
    }
}

/// What a caller is told of a fault; the log has the cause.
fn sentence(fault: &Fault) -> String {
    told(fault, "nothing was written")
}

fn told(fault: &Fault, holds: &str) -> String {
    match fault.kind() {
        FaultKind::StorageFull => {
            format!("the disk that holds the bus is full, so {holds}; try again once there is room")
        }
        FaultKind::ReadOnly => {
            format!("{fault}: the directory of the bus cannot be written or read by this user; {holds}")
        }
        _ => format!("{fault}; {holds}"),
    }
}

/// What a reader is told.
fn unread(error: &BusError) -> String {
    let holds = "nothing was marked as read";
    match error {
        BusError::Held {
            file,
            holder,
            seconds,
        } => held(file, holder, *seconds, holds),
        BusError::Fault(fault) => told(fault, holds),
        other => other.to_string(),
    }
}

fn held(file: &str, holder: &str, seconds: u64, holds: &str) -> String {
    format!(
        "{file} has been held by {holder} for {seconds} seconds, so {holds}; try again, or end that process"
    )
}

/// A failed act on a file. `what` is the act, as in "write to".
pub(crate) fn failed(what: &'static str, path: &Path, error: io::Error) -> BusError {
    let odd = error.get_ref().and_then(|inner| inner.downcast_ref::<NotPlain>());
    if let Some(odd) = odd {
        let why = format!(
            "{} is not a plain file ({odd}), so it is neither read nor written; move it away",
            path.display()
        );
        return BusError::Fault(Fault::other(why));
    }
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FaultKind::StorageFull,
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => FaultKind::ReadOnly,
        _ => FaultKind::Other,
    };
    BusError::Fault(Fault::new(kind, format!("could not {what} {}", path.display())).because(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reads_hears_that_nothing_was_marked_as_read_and_the_rest_is_the_same() {
        let held = || BusError::Held {
            file: "inbox/bob.jsonl".to_owned(),
            holder: "process 7".to_owned(),
            seconds: 10,
        };
        let full = || BusError::Fault(Fault::new(FaultKind::StorageFull, "could not write x"));
        let broken = || BusError::Fault(Fault::other("could not read x"));
        for (error, same) in [
            (held().reading(), held()),
            (full().reading(), full()),
            (broken().reading(), broken()),
        ] {
            let said = same
                .to_string()
                .replace("nothing was written", "nothing was marked as read");
            assert_eq!(error.to_string(), said);
            assert!(said.contains("marked as read"));
            assert_eq!((error.code(), error.is_fault()), (same.code(), true));
            assert_eq!(error.cause().to_string(), same.to_string());
        }
        assert_eq!(BusError::Gone.reading().to_string(), BusError::Gone.to_string());
    }
}
