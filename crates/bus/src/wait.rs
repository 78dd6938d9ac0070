//! Learning that a log grew: the kernel tells, and a look every half second finds what it did not. Never reads an entry and never moves a cursor.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::watch;

use crate::home::{self, Home};
use crate::receipts;

/// How often a waiter looks by itself: the kernel says nothing of files on some network file systems, and may drop what it has to say.
pub const LOOK: Duration = Duration::from_millis(500);

/// Tells waiters of one process which logs grew. Cloning shares it.
#[derive(Clone)]
pub struct Watch {
    shared: Arc<Shared>,
}

struct Shared {
    root: PathBuf,
    waiters: Arc<Mutex<Waiters>>,
    /// Started with the first waiter: most processes of a bus never wait.
    watcher: Mutex<Started>,
}

enum Started {
    No,
    /// Kept alive; its thread ends with it.
    Yes {
        watcher: RecommendedWatcher,
        /// Folders that are watched only once somebody waits for something in them.
        also: HashSet<String>,
    },
    /// The system has no more watches to give; waiters look by themselves.
    Failed,
}

type Waiters = HashMap<PathBuf, watch::Sender<u64>>;

/// One waiter for one log.
pub struct Waiter {
    path: PathBuf,
    told: watch::Receiver<u64>,
    seen: Option<Shape>,
    shared: Arc<Shared>,
}

/// What changes about a file when something is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Watch {
    /// For one directory. Nothing is watched before somebody waits.
    pub fn new(home: &Home) -> Self {
        Self {
            shared: Arc::new(Shared {
                root: home.root().to_owned(),
                waiters: Arc::default(),
                watcher: Mutex::new(Started::No),
            }),
        }
    }

    /// A waiter for a log, by its name inside the directory. What is written from now on is told.
    pub(crate) fn waiter(&self, name: &str) -> Waiter {
        let path = self.shared.root.join(name);
        self.shared.start();
        if let Some((folder @ receipts::FOLDER, _)) = name.split_once('/') {
            self.shared.also(folder);
        }
        let told = lock(&self.shared.waiters)
            .entry(path.clone())
            .or_insert_with(|| watch::Sender::new(0))
            .subscribe();
        Waiter {
            path,
            told,
            seen: None,
            shared: self.shared.clone(),
        }
    }
}

impl Waiter {
    /// Takes note of the file as it is now. Call it before reading: what is written after it makes the next [`Waiter::grew`] true.
    pub fn note(&mut self) {
        self.told.borrow_and_update();
        self.seen = shape(&self.path);
    }

    /// Whether the file is another than at the last note.
    pub fn grew(&self) -> bool {
        shape(&self.path) != self.seen
    }

    /// Ends when the kernel says that the file changed. Needs no runtime; whoever waits looks at [`Waiter::grew`] every [`LOOK`] besides.
    pub async fn told(&mut self) {
        if self.told.changed().await.is_err() {
            // The other end goes only with the watch itself; then there is only looking.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = lock(&self.shared.waiters);
        // This one still counts.
        if waiters
            .get(&self.path)
            .is_some_and(|told| told.receiver_count() <= 1)
        {
            waiters.remove(&self.path);
        }
    }
}

impl Shared {
    fn start(&self) {
        let mut started = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*started, Started::No) {
            return;
        }
        *started = match watcher(&self.root, self.waiters.clone()) {
            Ok(watcher) => Started::Yes {
                watcher,
                also: HashSet::new(),
            },
            Err(error) => {
                tracing::warn!(error = %error, "the system gives no file watch; waiting looks every half second instead");
                Started::Failed
            }
        };
    }
}

impl Shared {
    /// Watches a folder that may not be there yet. Where that fails, waiters look by themselves.
    fn also(&self, folder: &str) {
        let mut started = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let Started::Yes { watcher, also } = &mut *started else {
            return;
        };
        if also.contains(folder) {
            return;
        }
        let path = self.root.join(folder);
        let watched =
            home::make_folder(&path).is_ok() && watcher.watch(&path, RecursiveMode::NonRecursive).is_ok();
        if watched {
            also.insert(folder.to_owned());
        }
    }
}

/// Watches the folders, not the files: a file that is made or replaced is then seen too.
fn watcher(root: &Path, waiters: Arc<Mutex<Waiters>>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        let waiters = lock(&waiters);
        match event {
            Ok(event) if event.need_rescan() => waiters.values().for_each(tell),
            Ok(event) if matters(&event.kind) => event
                .paths
                .iter()
                .filter_map(|path| waiters.get(path))
                .for_each(tell),
            Ok(_) => {}
            Err(_) => waiters.values().for_each(tell),
        }
    })?;
    for folder in ["", "inbox", "rooms"] {
        watcher.watch(&root.join(folder), RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

fn matters(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Create(_) | EventKind::Modify(_) | EventKind::Any)
}

fn tell(told: &watch::Sender<u64>) {
    told.send_modify(|count| *count = count.wrapping_add(1));
}

fn lock(waiters: &Mutex<Waiters>) -> MutexGuard<'_, Waiters> {
    waiters.lock().unwrap_or_else(PoisonError::into_inner)
}

fn shape(path: &Path) -> Option<Shape> {
    let meta = std::fs::metadata(path).ok()?;
    Some(Shape {
        inode: meta.ino(),
        size: meta.len(),
        modified: (meta.mtime(), meta.mtime_nsec()),
    })
}
