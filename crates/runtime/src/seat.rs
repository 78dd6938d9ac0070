//! One turn at a time per chief: the lock in its work folder, and the end of a child that a killed muster left there. It never waits for a turn
//! to end, and never touches a child whose muster still lives.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::{Settings, Turn};

const LOCK: &str = "turn.lock";
const CHILD: &str = "turn.child";
const CONVERSATION_LENGTH: std::ops::RangeInclusive<usize> = 1..=128;

/// The right to run one turn in a work folder; given back when dropped, also by the end of the process.
pub(crate) struct Seat {
    /// The work folder, absolute.
    pub(crate) folder: PathBuf,
    _lock: File,
}

impl Seat {
    /// Takes the place of the chief's one turn.
    ///
    /// # Errors
    /// A sentence that says why no turn can start now: the chief is busy, or its folder cannot be used.
    pub(crate) async fn take(settings: &Settings, turn: &Turn) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !turn.conversation.bytes().all(fits) || !CONVERSATION_LENGTH.contains(&turn.conversation.len()) {
            return Err("the conversation's id is not made of 1 to 128 of a-z, 0-9 and hyphen; the turn was not handed over".to_owned());
        }
        let (folder, lock) = open(&settings.work_dir).map_err(|error| {
            format!("the chief's work folder cannot be used ({error}); check that muster may write there")
        })?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err("the chief is busy with another turn".to_owned());
            }
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(format!(
                    "the chief's work folder cannot be locked ({error}); put it on a disk that knows file locks"
                ));
            }
        }
        end_orphan(&folder).await?;
        Ok(Self { folder, _lock: lock })
    }

    /// Notes the child of this turn, so that it can be ended should this process be killed. Without /proc nothing is noted.
    ///
    /// # Errors
    /// A sentence when the note cannot be written; the turn must not start then.
    pub(crate) fn note_child(&self, child: Option<i32>) -> Result<(), String> {
        let Some(note) = child.and_then(Note::of_living) else {
            return Ok(());
        };
        replace(&self.folder.join(CHILD), note.to_line().as_bytes()).map_err(|error| {
            format!("the chief's work folder cannot be written ({error}); free some space, the message waits")
        })
    }
}

/// Ends the program that a killed muster left running in this work folder, if there is one. Does nothing while a turn runs there, or where
/// the folder was never used.
///
/// # Errors
/// A sentence that says why it still runs.
pub async fn end_left_over(work_dir: &Path) -> Result<(), String> {
    if !work_dir.join(CHILD).exists() {
        return Ok(());
    }
    let (folder, lock) = open(work_dir).map_err(|error| {
        format!(
            "the chief's work folder {} cannot be used ({error})",
            work_dir.display()
        )
    })?;
    match lock.try_lock() {
        Ok(()) => end_orphan(&folder).await,
        Err(std::fs::TryLockError::WouldBlock) => Ok(()),
        Err(std::fs::TryLockError::Error(error)) => Err(format!(
            "the chief's work folder {} cannot be locked ({error})",
            work_dir.display()
        )),
    }
}

/// Writes a whole file at once: a reader sees the old content or the new.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    std::fs::write(&fresh, bytes)?;
    std::fs::rename(&fresh, path)
}

fn open(work_dir: &Path) -> io::Result<(PathBuf, File)> {
    DirBuilder::new().recursive(true).mode(0o700).create(work_dir)?;
    let folder = work_dir.canonicalize()?;
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(folder.join(LOCK))?;
    Ok((folder, lock))
}

/// A child as it can be recognised after its muster is gone. The start time tells it from a later process with the same number, the boot id
/// from one of another day.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    boot: String,
    child: i32,
    started: u64,
    parent: i32,
}

impl Note {
    fn of_living(child: i32) -> Option<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()?
            .trim()
            .to_owned();
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        // The name in parentheses may hold anything, blanks and parentheses too; what follows the last one are numbers.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self {
            boot,
            child,
            started,
            parent,
        })
    }

    fn to_line(&self) -> String {
        format!("{} {} {} {}\n", self.boot, self.child, self.started, self.parent)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let note = Self {
            boot: words.next()?.to_owned(),
            child: words.next()?.parse().ok()?,
            started: words.next()?.parse().ok()?,
            parent: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(note)
    }

    /// Whether the noted child still runs and its muster does not: it has got another parent.
    fn is_orphan(&self) -> bool {
        Self::of_living(self.child).is_some_and(|now| {
            now.boot == self.boot && now.started == self.started && now.parent != self.parent
        })
    }
}

/// Ends the group of a child whose muster was killed. It could still be acting on a turn that is already settled as broken off, and a second
/// program in the same conversation would spoil both.
async fn end_orphan(folder: &Path) -> Result<(), String> {
    let Ok(line) = std::fs::read_to_string(folder.join(CHILD)) else {
        return Ok(());
    };
    let Some(note) = Note::parse(&line).filter(|note| note.child > 1) else {
        return Ok(());
    };
    for _ in 0..40 {
        if !note.is_orphan() {
            return Ok(());
        }
        let _ = killpg(Pid::from_raw(note.child), Signal::SIGKILL);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(
        "a program that an earlier muster left behind cannot be ended; end it by hand, the message waits"
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_as_it_was_written() {
        let note = Note::of_living(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert_eq!(Note::parse(&note.to_line()), Some(note.clone()));
        assert!(note.started > 0 && note.parent > 0 && note.boot.len() == 36);
        assert!(!note.is_orphan());
        assert!(
            Note {
                parent: note.parent + 1,
                ..note.clone()
            }
            .is_orphan()
        );
        assert!(
            !Note {
                parent: note.parent + 1,
                started: note.started + 1,
                ..note.clone()
            }
            .is_orphan()
        );
        assert!(
            !Note {
                parent: note.parent + 1,
                boot: "another".to_owned(),
                ..note
            }
            .is_orphan()
        );
    }

    #[test]
    fn a_spoiled_note_is_no_note() {
        for line in ["", "x", "b 1 2", "b 1 2 3 4", "b one 2 3", "b 99999999999 2 3"] {
            assert_eq!(Note::parse(line), None, "{line:?}");
        }
    }
}
