//! Whether a write can be committed at this moment, into the very file that lies where it was opened. Never changes what the database holds.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_core::{Fault, FaultKind};
use tokio::sync::Mutex;

use crate::connect::{Db, Engine};
use crate::sql::{Sql, system_pair};

/// How long an answer stands for whoever asks next: a probe costs a commit.
const STANDS: Duration = Duration::from_secs(1);
/// How long a probe may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A write that leaves everything as it is and still has to reach the disk to be committed. An UPDATE to the same value would do on Postgres
/// only: SQLite leaves a page alone whose bytes stay the same, but writes this setting's page in any case.
static TOUCH: Sql = system_pair(
    "store.touch",
    "PRAGMA user_version = 0",
    "UPDATE _sqlx_migrations SET success = success WHERE version = 1",
);

/// What is needed to probe one database.
pub(crate) struct Probe {
    files: Vec<Opened>,
    last: Mutex<Option<Answer>>,
}

/// A file as it was when the database was opened.
struct Opened {
    path: PathBuf,
    identity: (u64, u64),
}

struct Answer {
    at: Instant,
    answer: Result<(), Fault>,
}

impl Probe {
    /// A probe of a database that is not a file of this machine's.
    pub(crate) fn elsewhere() -> Self {
        Self {
            files: Vec::new(),
            last: Mutex::default(),
        }
    }

    /// A probe of a SQLite database that is open: the file, and the two beside it, without which what is committed would be lost.
    pub(crate) fn of_file(path: &Path) -> std::io::Result<Self> {
        // SQLite puts them beside the file itself, not beside a link to it.
        let itself = path.canonicalize()?;
        let beside = |suffix: &str| {
            let mut name = OsString::from(&itself);
            name.push(suffix);
            PathBuf::from(name)
        };
        let mut files = Vec::new();
        for path in [path.to_owned(), beside("-wal"), beside("-shm")] {
            let identity = identity(&path)?;
            files.push(Opened { path, identity });
        }
        Ok(Self {
            files,
            last: Mutex::default(),
        })
    }

    /// Whether each file is still the one that was opened.
    fn in_place(&self) -> Result<(), Fault> {
        for file in &self.files {
            let why = match identity(&file.path) {
                Ok(now) if now == file.identity => continue,
                Ok(_) => "another file lies in its place",
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => "it is gone",
                Err(error) => {
                    let what = format!("the file {} cannot be looked at", file.path.display());
                    return Err(Fault::new(FaultKind::Unavailable, what).because(error));
                }
            };
            let what = format!(
                "the file {} is no longer the one that muster opened ({why}); what is written now would be lost. Stop muster, put the file back, and start it again",
                file.path.display()
            );
            return Err(Fault::new(FaultKind::Unavailable, what));
        }
        Ok(())
    }
}

/// What tells a file from every other of this machine. Only asked for by name: opening and closing a database's file would give back the
/// locks that SQLite holds on it.
fn identity(path: &Path) -> std::io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

impl Db {
    /// Proves that a write can be committed now, and on SQLite that the files it goes to are still those that were opened. At most one
    /// probe a second is made; whoever asks in between, or while one runs, gets its answer.
    ///
    /// # Errors
    /// A fault that says what is wrong; also after five seconds without an answer.
    pub async fn probe(&self) -> Result<(), Fault> {
        let mut last = self.probing().last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.at.elapsed() < STANDS) {
            return last.again();
        }
        let answer = match tokio::time::timeout(PATIENCE, self.touch()).await {
            Ok(answer) => answer,
            Err(_) => Err(Fault::new(
                FaultKind::Unavailable,
                "a write was not committed within five seconds",
            )),
        };
        last.insert(Answer {
            at: Instant::now(),
            answer,
        })
        .again()
    }

    async fn touch(&self) -> Result<(), Fault> {
        self.probing().in_place()?;
        let engine = self.engine();
        self.system_write("probing whether a write can be committed", move |tx| {
            Box::pin(async move {
                let changed = tx.run(&TOUCH, ()).await?;
                if engine == Engine::Postgres && changed != 1 {
                    return Err(Fault::contradiction(
                        "_sqlx_migrations",
                        1,
                        "it is missing, so nothing could be written to it",
                    ));
                }
                Ok(())
            })
        })
        .await
    }
}

impl Answer {
    /// The answer once more; its cause stays as text.
    fn again(&self) -> Result<(), Fault> {
        match &self.answer {
            Ok(()) => Ok(()),
            Err(fault) => Err(Fault::new(fault.kind().clone(), fault.chain())),
        }
    }
}
