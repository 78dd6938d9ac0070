//! What is kept about a task's worktree beside it: which repository, from where, and how far the making came. Never lies about a worktree that was not finished: the word is written before the first step and after the last.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::{Place, Refusal, Worktree};

/// How far the making came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stage {
    /// Begun; whatever stands there was made by muster and seen by nobody.
    Making,
    /// It stands.
    Made,
    /// It was removed; the branch is kept.
    Removed,
    /// It is being made again from its branch; what stands in its folder was seen by nobody.
    Restoring,
}

/// The note of one task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) stage: Stage,
    pub(crate) common: PathBuf,
    pub(crate) base: String,
    pub(crate) base_commit: String,
}

/// Where a task's worktree and its note are.
pub(crate) struct Home {
    folder: PathBuf,
    task: i64,
}

impl Home {
    /// Finds the folder of all worktrees, and makes it when it is not there yet.
    pub(crate) fn of(place: Place<'_>) -> Result<Self, Refusal> {
        if place.task < 1 {
            return Err(Refusal::BadTask);
        }
        let folder = place.data_dir.join("worktrees");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(Refusal::io(&folder))?;
        Ok(Self {
            // git lists worktrees by their resolved paths.
            folder: folder.canonicalize().map_err(Refusal::io(&folder))?,
            task: place.task,
        })
    }

    /// The worktree's folder.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join(format!("task-{}", self.task))
    }

    /// The task's branch.
    pub(crate) fn branch(&self) -> String {
        format!("muster/task-{}", self.task)
    }

    fn note(&self) -> PathBuf {
        self.folder.join(format!("task-{}.json", self.task))
    }

    /// Holds the task's worktree against other makers, in this process and others, until the file is dropped.
    pub(crate) fn lock(&self, patience: Duration) -> Result<File, Refusal> {
        let path = self.folder.join(format!("task-{}.lock", self.task));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(Refusal::io(&path))?;
        let begin = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(fs::TryLockError::WouldBlock) if begin.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(fs::TryLockError::WouldBlock) => return Err(Refusal::Busy(patience)),
                Err(fs::TryLockError::Error(error)) => return Err(Refusal::Io { path, error }),
            }
        }
    }

    /// The note, when there is one.
    pub(crate) fn read(&self) -> Result<Option<Note>, Refusal> {
        let path = self.note();
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| Refusal::Io {
                    path,
                    error: error.into(),
                }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Refusal::Io { path, error }),
        }
    }

    /// Replaces the note, whole or not at all.
    pub(crate) fn write(&self, note: &Note) -> Result<(), Refusal> {
        let path = self.note();
        let text = serde_json::to_vec(note).map_err(|error| Refusal::Io {
            path: path.clone(),
            error: error.into(),
        })?;
        replace(&path, &text).map_err(Refusal::io(&path))
    }

    /// The worktree that a note tells of.
    pub(crate) fn worktree(&self, note: &Note) -> Worktree {
        Worktree {
            path: self.path(),
            branch: self.branch(),
            base: note.base.clone(),
            base_commit: note.base_commit.clone(),
        }
    }
}

/// Writes a file beside `path`, to the disk, and moves it there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::Builder::new().prefix(".muster-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}
