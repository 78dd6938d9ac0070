//! The one file that says what is installed and what was decided: `<data dir>/plugins/ledger.json`. Never half written, never written by two at
//! once, and never taken for empty when it cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use muster_core::{Fault, FaultKind, Time};
use serde::{Deserialize, Serialize};

use crate::diagnostic::Diagnostic;
use crate::names::StableId;
use crate::tree;
use crate::trust::Trust;

const VERSION: u32 = 1;

/// Largest ledger that is read, in bytes.
const LARGEST: u64 = 256 * 1024 * 1024;
/// Largest one that a note makes, in bytes: what servers say leaves room for what a person decides.
const MOST_NOTED: usize = 128 * 1024 * 1024;

/// Most tools of one server.
pub(crate) const MOST_TOOLS: usize = 2_000;
/// Most bytes of what is kept of one server's tools.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// What people call it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The folder it was taken from, and is taken from again by an update.
    pub source: PathBuf,
    /// What the stored copy hashes to.
    pub digest: String,
    /// When this copy was taken.
    pub at: Time,
    /// What the last update found wrong; while there is an error in it nothing of the package starts.
    #[serde(default)]
    pub problems: Vec<Diagnostic>,
    /// What there is to review in it.
    pub capabilities: Vec<Capability>,
}

/// One server or hook of an installed package, as the manifest had it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Its id.
    pub id: StableId,
    /// The hash of its definition, the package's digest included.
    pub hash: String,
    /// `stdio` or `http`; none for a hook.
    pub transport: Option<String>,
    /// What is run.
    pub command: Option<Vec<String>>,
    /// What is asked.
    pub url: Option<String>,
}

/// What a server's tools were when they were first listed after the approval.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// The approved definition.
    pub definition: String,
    /// Each tool by its own name.
    pub tools: BTreeMap<String, Pin>,
    /// Tools that were listed differently since, or are new.
    #[serde(default)]
    pub changed: BTreeSet<String>,
    /// Those tools as they were listed last, for who approves them again; none of them where all that is kept would be too much.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub newest: BTreeMap<String, Pin>,
    /// Tools of the approval, or new since, that the last list had not.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub gone: BTreeSet<String>,
    /// Beginnings of names that are too long to be offered; not all of them where there are many.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub too_long: BTreeSet<String>,
}

impl Pins {
    /// Whether they are no more than the ledger keeps of one server.
    pub(crate) fn fits(&self) -> bool {
        if self.tools.len() > MOST_TOOLS || self.changed.len() > MOST_TOOLS {
            return false;
        }
        // No name is written into a text that is thrown away when the names alone are too much.
        let names: usize = self.tools.keys().chain(&self.changed).map(String::len).sum();
        names <= MOST_BYTES && serde_json::to_vec(self).is_ok_and(|text| text.len() <= MOST_BYTES)
    }
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// SHA-256 of its name, title, description, schemas and annotations.
    pub hash: String,
    /// Whether it says that it only reads.
    pub read_only: bool,
    /// What else it says of itself, for people. The hash covers it.
    #[serde(default)]
    pub says: Says,
}

impl Pin {
    /// Whether it is the same tool. How much of its words is kept for people says nothing about that.
    pub(crate) fn is(&self, other: &Self) -> bool {
        (&self.hash, self.read_only) == (&other.hash, other.read_only)
    }
}

/// What a tool says of itself beside its schema. Outside text, cut where it is long.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Says {
    /// Its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `destructiveHint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// `openWorldHint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

/// How the last start of a server went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastStart {
    /// When.
    pub at: Time,
    /// Whether it answered.
    pub ok: bool,
    /// Why not.
    pub error: Option<String>,
}

/// The whole file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    version: u32,
    /// Packages by id.
    pub packages: BTreeMap<String, Installed>,
    /// Reviews.
    #[serde(default)]
    pub trust: BTreeMap<StableId, Trust>,
    /// Pinned tools.
    #[serde(default)]
    pub pins: BTreeMap<StableId, Pins>,
    /// Last starts.
    #[serde(default)]
    pub starts: BTreeMap<StableId, LastStart>,
}

impl Ledger {
    /// What is remembered of the reviews of `id`.
    #[must_use]
    pub fn trust(&self, id: &StableId) -> Trust {
        self.trust.get(id).cloned().unwrap_or_default()
    }

    /// Forgets everything about a package.
    pub(crate) fn forget(&mut self, plugin: &str) {
        self.packages.remove(plugin);
        self.trust.retain(|id, _| id.plugin != plugin);
        self.pins.retain(|id, _| id.plugin != plugin);
        self.starts.retain(|id, _| id.plugin != plugin);
    }
}

/// What a file's inode says, as far as it changes when the file does.
pub(crate) type Stamp = (u64, u64, u64, i64, i64);

/// How long an act waits while another process holds the ledger: the longest that a large package is copied.
const ACT_WAITS: Duration = Duration::from_secs(30);
/// How long a note waits. What a session notes is missed less than the answer that it holds up.
const NOTE_WAITS: Duration = Duration::from_secs(10);
/// How long between two looks whether the lock is free.
const AGAIN: Duration = Duration::from_millis(10);

/// Where the ledger lies.
#[derive(Debug, Clone)]
pub(crate) struct Book {
    path: PathBuf,
    lock: PathBuf,
    most_noted: usize,
    largest: u64,
    act_waits: Duration,
    note_waits: Duration,
}

impl Book {
    /// The ledger in `folder`, which is made when there is something to write.
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            path: folder.join("ledger.json"),
            lock: folder.join("ledger.lock"),
            most_noted: MOST_NOTED,
            largest: LARGEST,
            act_waits: ACT_WAITS,
            note_waits: NOTE_WAITS,
        }
    }

    /// What a change of the file moves. An absent file has none.
    pub(crate) fn stamp(&self) -> Option<Stamp> {
        let found = fs::metadata(&self.path).ok()?;
        Some((
            found.dev(),
            found.ino(),
            found.size(),
            found.ctime(),
            found.ctime_nsec(),
        ))
    }

    /// Reads it; an absent file is an empty ledger.
    pub(crate) fn read(&self) -> Result<Ledger, Fault> {
        let text = match tree::read_plain(&self.path, self.largest) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Ledger::default()),
            // muster writes none of that size.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                return Err(Fault::other(format!(
                    "{} has more than {} bytes, so nothing of any package starts; restore it from a backup, or remove it and review every package again",
                    self.path.display(),
                    self.largest
                ))
                .because(error));
            }
            Err(error) => return Err(failed("read", &self.path, &error)),
        };
        let ledger: Ledger = serde_json::from_slice(&text).map_err(|error| {
            Fault::other(format!(
                "{} is damaged, so nothing of any package starts; restore it from a backup, or remove it and review every package again",
                self.path.display()
            ))
            .because(error)
        })?;
        if ledger.version > VERSION {
            return Err(Fault::other(format!(
                "{} was written by a newer muster; use that one",
                self.path.display()
            )));
        }
        Ok(ledger)
    }

    /// Changes it under its lock. An error of `change` leaves it as it was, and so does one without a change.
    ///
    /// `settle` gets what stands in the file afterwards, still under the lock: only then may go what it does not name. It is not called when nobody
    /// knows what stands there.
    pub(crate) fn change<T, E: From<Fault>>(
        &self,
        change: impl FnOnce(&mut Ledger) -> Result<T, E>,
        settle: impl FnOnce(&Ledger),
    ) -> Result<T, E> {
        self.rewrite(true, change, settle)
    }

    /// Reads it under its lock, so that no act of another process is halfway while `look` looks.
    pub(crate) fn still<T>(&self, look: impl FnOnce(&Ledger) -> T) -> Result<T, Fault> {
        let _lock = self.lock(self.act_waits)?;
        Ok(look(&self.read()?))
    }

    /// As [`Book::change`], for facts whose loss in a power cut costs nothing, and only while there is room for them.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Ledger)) -> Result<(), Fault> {
        let change = |ledger: &mut Ledger| {
            change(ledger);
            Ok(())
        };
        self.rewrite(false, change, |_| ())
    }

    fn rewrite<T, E: From<Fault>>(
        &self,
        durable: bool,
        change: impl FnOnce(&mut Ledger) -> Result<T, E>,
        settle: impl FnOnce(&Ledger),
    ) -> Result<T, E> {
        let _lock = self.lock(if durable { self.act_waits } else { self.note_waits })?;
        let before = self.read()?;
        let mut after = before.clone();
        let changed = change(&mut after);
        if changed.is_err() || after == before {
            settle(&before);
            return changed;
        }
        after.version = VERSION;
        match self.write(&after, durable) {
            Ok(()) => settle(&after),
            Err(error) => {
                // A write that failed late may have given the file its new words already.
                if self.read().is_ok_and(|now| now == before) {
                    settle(&before);
                }
                return Err(error.into());
            }
        }
        changed
    }

    fn write(&self, ledger: &Ledger, durable: bool) -> Result<(), Fault> {
        let mut text = serde_json::to_vec_pretty(ledger)
            .map_err(|error| Fault::other("the ledger of packages could not be written").because(error))?;
        text.push(b'\n');
        if !durable && text.len() > self.most_noted {
            return Err(Fault::other(format!(
                "{} has no room for more notes about servers; remove packages that are not used",
                self.path.display()
            )));
        }
        // What could not be read again is not written: everything that was decided would be lost with it.
        if text.len() as u64 > self.largest {
            return Err(Fault::other(format!(
                "{} would have more than {} bytes, so it stays as it was and nothing was changed; remove packages that are not used",
                self.path.display(),
                self.largest
            )));
        }
        tree::replace(&self.path, &text, durable).map_err(|error| failed("write", &self.path, &error))
    }

    /// Waits for the lock, but not without end: whoever holds it may be stopped. It goes when the file is closed, also by a death.
    fn lock(&self, patience: Duration) -> Result<File, Fault> {
        if let Some(folder) = self.lock.parent() {
            make_folder(folder)?;
        }
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
            .open(&self.lock)
            .map_err(|error| failed("open", &self.lock, &error))?;
        let begun = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(failed("lock", &self.lock, &error)),
                Err(TryLockError::WouldBlock) if begun.elapsed() < patience => thread::sleep(AGAIN),
                Err(TryLockError::WouldBlock) => {
                    return Err(Fault::new(
                        FaultKind::Unavailable,
                        format!(
                            "another process is at work on the plugin packages and has held {} for {} s, so nothing was changed; try again when it is done",
                            self.lock.display(),
                            patience.as_secs_f64()
                        ),
                    ));
                }
            }
        }
    }
}

/// Makes a folder for its owner alone, and those above it.
pub(crate) fn make_folder(path: &Path) -> Result<(), Fault> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|error| failed("make", path, &error))
}

/// A failed act on a file as a fault with its kind. The sentence holds the cause, so it is not hung on as well: who prints both would say it twice.
pub(crate) fn failed(act: &str, path: &Path, error: &io::Error) -> Fault {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FaultKind::StorageFull,
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => FaultKind::ReadOnly,
        _ => FaultKind::Other,
    };
    Fault::new(
        kind,
        format!("muster could not {act} {}: {error}", path.display()),
    )
}

/// Whether nothing lies at `path`.
pub(crate) fn is_absent(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_act_tells_its_cause_once() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let cause = full.to_string();
        let fault = failed("write", Path::new("/x/ledger.json"), &full);
        assert_eq!(fault.chain().matches(&cause).count(), 1, "{}", fault.chain());
        assert_eq!(fault.to_string().matches(&cause).count(), 1);
        assert_eq!(*fault.kind(), FaultKind::StorageFull);
    }

    fn changed(book: &Book, change: impl FnOnce(&mut Ledger) -> Result<(), Fault>) -> Result<(), Fault> {
        book.change(change, |_| ())
    }

    #[test]
    fn a_damaged_ledger_is_an_error_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let book = Book::new(dir.path());
        fs::write(dir.path().join("ledger.json"), "{\"version\":1,\"packages\":").unwrap();
        assert!(book.read().is_err());
        assert!(book.note(|ledger| ledger.forget("a")).is_err());
        assert_eq!(
            fs::read_to_string(dir.path().join("ledger.json")).unwrap(),
            "{\"version\":1,\"packages\":"
        );
        fs::write(dir.path().join("ledger.json"), "{\"version\":9,\"packages\":{}}").unwrap();
        assert!(book.read().unwrap_err().to_string().contains("newer"));
    }

    #[test]
    fn notes_leave_room_for_decisions() {
        let dir = tempfile::tempdir().unwrap();
        let book = Book {
            most_noted: 2_000,
            ..Book::new(dir.path())
        };
        let pins = |server: &str, size: usize| {
            let pins = Pins {
                definition: "x".repeat(size),
                ..Pins::default()
            };
            (crate::ServerKey::new("p", server).stable_id(), pins)
        };
        let put = |ledger: &mut Ledger, (id, pins)| drop(ledger.pins.insert(id, pins));
        book.note(|ledger| put(ledger, pins("a", 1_000))).unwrap();
        assert!(book.note(|ledger| put(ledger, pins("b", 1_000))).is_err());
        assert_eq!(book.read().unwrap().pins.len(), 1);
        changed(&book, |ledger| {
            put(ledger, pins("c", 1_000));
            Ok::<_, Fault>(())
        })
        .unwrap();
        assert_eq!(book.read().unwrap().pins.len(), 2);
    }

    #[test]
    fn a_ledger_that_could_not_be_read_again_is_not_written_and_one_that_is_too_large_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let book = Book {
            largest: 2_000,
            ..Book::new(dir.path())
        };
        let add = |size: usize| {
            changed(&book, |ledger| {
                let pins = Pins {
                    definition: "x".repeat(size),
                    ..Pins::default()
                };
                ledger
                    .pins
                    .insert(crate::ServerKey::new("p", format!("s{size}")).stable_id(), pins);
                Ok::<_, Fault>(())
            })
        };
        add(1_000).unwrap();
        let refused = add(1_500).unwrap_err().to_string();
        assert!(refused.contains("nothing was changed"), "{refused}");
        assert_eq!(book.read().unwrap().pins.len(), 1);
        // Removing what is there always goes.
        changed(&book, |ledger| {
            ledger.pins.clear();
            Ok::<_, Fault>(())
        })
        .unwrap();
        fs::write(dir.path().join("ledger.json"), vec![b' '; 2_001]).unwrap();
        let refused = book.read().unwrap_err().to_string();
        assert!(refused.contains("nothing of any package starts"), "{refused}");
    }

    #[test]
    fn a_lock_that_somebody_never_lets_go_ends_the_wait_and_says_which() {
        let dir = tempfile::tempdir().unwrap();
        let book = Book {
            act_waits: Duration::from_millis(200),
            note_waits: Duration::from_millis(100),
            ..Book::new(dir.path())
        };
        book.note(|_| ()).unwrap();
        let held = File::open(dir.path().join("ledger.lock")).unwrap();
        held.lock().unwrap();
        let add = |ledger: &mut Ledger| {
            drop(
                ledger
                    .trust
                    .insert(crate::ServerKey::new("p", "s").stable_id(), Trust::default()),
            )
        };
        let refused = [
            book.note(add).unwrap_err(),
            changed(&book, |ledger| {
                add(ledger);
                Ok(())
            })
            .unwrap_err(),
            book.still(|_| ()).unwrap_err(),
        ];
        for fault in refused {
            assert_eq!(*fault.kind(), FaultKind::Unavailable);
            let said = fault.to_string();
            assert!(
                said.contains("ledger.lock") && said.contains("nothing was changed"),
                "{said}"
            );
        }
        assert!(book.read().unwrap().trust.is_empty());
        drop(held);
        book.note(add).unwrap();
        assert_eq!(book.read().unwrap().trust.len(), 1);
    }

    #[test]
    fn changes_of_many_at_once_are_all_kept_and_the_file_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let book = Book::new(&dir.path().join("plugins"));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let book = &book;
                scope.spawn(move || {
                    for round in 0..10 {
                        let id = crate::ServerKey::new(format!("p{number}"), format!("s{round}")).stable_id();
                        book.note(|ledger| drop(ledger.trust.insert(id, Trust::default())))
                            .unwrap();
                    }
                });
            }
        });
        assert_eq!(book.read().unwrap().trust.len(), 80);
        let found = fs::metadata(dir.path().join("plugins/ledger.json")).unwrap();
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        let names: Vec<_> = fs::read_dir(dir.path().join("plugins")).unwrap().collect();
        assert_eq!(names.len(), 2, "nothing is left beside the ledger and its lock");
    }
}
