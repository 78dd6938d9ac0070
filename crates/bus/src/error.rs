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
    #[error(
        "{file} has been held by {holder} for {seconds} seconds, so nothing was written; try again, or end that process"
    )]
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
        )
    }

    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SeatName | Self::RoomName | Self::ProjectName => "invalid_name",
            Self::Empty(_) | Self::TooLong { .. } | Self::Argument(_) => "invalid_arguments",
            Self::NotRegistered(_) => "not_registered",
            Self::NoRoom(_) => "no_room",
            Self::Bound { .. } => "identity_bound",
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
            other => other.to_string(),
        }
    }
}

/// What a caller is told of a fault; the log has the cause.
fn sentence(fault: &Fault) -> String {
    match fault.kind() {
        FaultKind::StorageFull => {
            "the disk that holds the bus is full, so nothing was written; try again once there is room"
                .to_owned()
        }
        FaultKind::ReadOnly => format!(
            "{fault}: the directory of the bus cannot be written or read by this user; nothing was written"
        ),
        _ => format!("{fault}; nothing was written"),
    }
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
