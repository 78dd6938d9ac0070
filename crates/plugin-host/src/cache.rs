//! The stored copies: `<data dir>/plugins/cache/<id>/<digest>`. A copy is never written to after it got its name, and never removed while a session runs from it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use muster_core::Fault;
use serde::Serialize;

use crate::ledger::{failed, is_absent, make_folder};
use crate::manifest::{self, Checked};
use crate::tree::{self, Index};
use crate::verify::{self, Depth, NotWhatWasInstalled};

/// Where copies lie.
#[derive(Debug, Clone)]
pub(crate) struct Cache {
    folder: PathBuf,
    staging: PathBuf,
}

/// A copy that has no name yet. It is gone when this is dropped.
pub(crate) struct Staged {
    folder: PathBuf,
    lock: PathBuf,
    _held: File,
    pub(crate) index: Index,
    pub(crate) checked: Checked,
}

impl Drop for Staged {
    fn drop(&mut self) {
        let _ = tree::remove(&self.folder);
        let _ = fs::remove_file(&self.lock);
    }
}

/// Keeps a copy on the disk. Released by dropping it, and by the death of the process.
#[derive(Debug)]
pub(crate) struct InUse(#[expect(dead_code, reason = "the open file holds the lock")] File);

impl Cache {
    pub(crate) fn new(plugins: &Path) -> Self {
        Self {
            folder: plugins.join("cache"),
            staging: plugins.join("staging"),
        }
    }

    /// Where the copy of this digest lies.
    pub(crate) fn root(&self, id: &str, digest: &str) -> PathBuf {
        self.folder.join(id).join(digest)
    }

    fn index_path(&self, id: &str, digest: &str) -> PathBuf {
        self.folder.join(id).join(format!("{digest}.index.json"))
    }

    fn use_path(&self, id: &str, digest: &str) -> PathBuf {
        self.folder.join(id).join(format!("{digest}.use"))
    }

    /// Copies a package, hashes it and checks the copy. What is checked is what would be stored.
    pub(crate) fn stage(&self, source: &Path) -> Result<Staged, Fault> {
        let source = source
            .canonicalize()
            .map_err(|error| failed("find", source, &error))?;
        let read = |error: io::Error| failed("read the package in", &source, &error);
        let opened = tree::open_root(&source).map_err(read)?;
        let listing = tree::list_below(&opened).map_err(read)?;
        make_folder(&self.staging)?;
        // Who sweeps must not come between the making of a lock and its holding.
        let gate = self.staging.with_extension("gate");
        let sweeping = open_lock(&gate).and_then(|file| file.lock().map(|()| file));
        let sweeping = sweeping.map_err(|error| failed("lock", &gate, &error))?;
        self.sweep_staging();
        let name = tree::random().map_err(read)?;
        let lock = self.staging.join(format!("{name}.lock"));
        let held = open_lock(&lock).and_then(|file| file.lock().map(|()| file));
        let held = held.map_err(|error| failed("lock", &lock, &error))?;
        drop(sweeping);
        let mut staged = Staged {
            folder: self.staging.join(name),
            lock,
            _held: held,
            index: Index::default(),
            checked: Checked {
                id: None,
                package: None,
                diagnostics: Vec::new(),
            },
        };
        staged.index = tree::copy(&opened, &listing, &staged.folder)
            .map_err(|error| failed("copy the package from", &source, &error))?;
        let copied = tree::open_root(&staged.folder).map_err(read)?;
        staged.checked = manifest::check(&copied, &listing);
        Ok(staged)
    }

    /// Gives a copy its name. The caller holds the ledger's lock, so nobody else does, and nobody sweeps.
    pub(crate) fn place(&self, staged: &Staged, id: &str) -> Result<String, Fault> {
        let digest = staged.index.digest();
        let root = self.root(id, &digest);
        let index_path = self.index_path(id, &digest);
        make_folder(&self.folder.join(id))?;
        if !is_absent(&root) {
            if verify::verify(&root, &index_path, &digest, Depth::Bytes).is_ok() {
                return Ok(digest);
            }
            // Somebody wrote into the copy. A session that runs from it keeps its open files; the name gets the right ones.
            let aside = self
                .staging
                .join(tree::random().map_err(|error| failed("name", &root, &error))?);
            let moved = writable(&root).and_then(|()| fs::rename(&root, &aside));
            moved.map_err(|error| failed("replace", &root, &error))?;
            let _ = tree::remove(&aside);
        }
        let placed = (|| {
            sync(&staged.folder)?;
            // A folder is moved by writing into it.
            writable(&staged.folder)?;
            fs::rename(&staged.folder, &root)?;
            fs::set_permissions(&root, Permissions::from_mode(0o555))?;
            verify::write_index(&index_path, &staged.index)
        })();
        placed.map_err(|error| failed("store the package in", &root, &error))?;
        Ok(digest)
    }

    /// Whether the copy is what was installed.
    pub(crate) fn verify(&self, id: &str, digest: &str, depth: Depth) -> Result<(), NotWhatWasInstalled> {
        verify::verify(
            &self.root(id, digest),
            &self.index_path(id, digest),
            digest,
            depth,
        )
        .map(drop)
    }

    /// Keeps the copy until the result is dropped; `None` when it went away meanwhile.
    pub(crate) fn hold(&self, id: &str, digest: &str) -> Result<Option<InUse>, Fault> {
        let path = self.use_path(id, digest);
        let held = open_lock(&path).and_then(|file| file.lock_shared().map(|()| file));
        let file = match held {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("lock", &path, &error)),
        };
        // A lock on a file that has lost its name keeps nothing: who sweeps looks at the name.
        let named = fs::symlink_metadata(&path).ok();
        let held = file.metadata().ok();
        let same = named
            .zip(held)
            .is_some_and(|(named, held)| (named.dev(), named.ino()) == (held.dev(), held.ino()));
        Ok(same.then_some(InUse(file)))
    }

    /// The listing of a copy, which outlives the copy while a decision names it.
    pub(crate) fn index(&self, id: &str, digest: &str) -> Option<Index> {
        verify::stored_index(&self.index_path(id, digest))
    }

    /// Removes the copies that are not in `keep` and that no session runs from, and the listings that are not in `listings` either. The caller
    /// holds the ledger's lock.
    pub(crate) fn sweep(&self, keep: &BTreeSet<(String, String)>, listings: &BTreeSet<(String, String)>) {
        let Ok(packages) = fs::read_dir(&self.folder) else {
            return;
        };
        for package in packages.flatten() {
            let id = package.file_name().to_string_lossy().into_owned();
            let mut digests = BTreeSet::new();
            for entry in fs::read_dir(package.path()).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                digests.extend(name.split('.').next().map(str::to_owned));
            }
            for digest in digests {
                let named = (id.clone(), digest);
                if !keep.contains(&named) {
                    self.discard(&named.0, &named.1, !listings.contains(&named));
                }
            }
            // Only an empty one goes.
            let _ = fs::remove_dir(package.path());
        }
    }

    fn discard(&self, id: &str, digest: &str, listing_too: bool) {
        let use_path = self.use_path(id, digest);
        let Ok(file) = open_lock(&use_path) else {
            return;
        };
        if file.try_lock().is_err() {
            return;
        }
        let root = self.root(id, digest);
        if !is_absent(&root) && tree::remove(&root).is_err() {
            return;
        }
        if listing_too {
            let _ = fs::remove_file(self.index_path(id, digest));
        }
        let _ = fs::remove_file(use_path);
    }

    /// Removes what an install left that did not live to its end.
    fn sweep_staging(&self) {
        for entry in fs::read_dir(&self.staging).into_iter().flatten().flatten() {
            let path = entry.path();
            let lock = match path.extension() {
                Some(_) => path.clone(),
                None => path.with_extension("lock"),
            };
            let Ok(file) = open_lock(&lock) else {
                continue;
            };
            if file.try_lock().is_ok() {
                let _ = tree::remove(&lock.with_extension(""));
                let _ = fs::remove_file(lock);
            }
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
}

fn writable(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// Brings a whole copy to the disk before it gets its name.
fn sync(folder: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::unistd::syncfs(File::open(folder)?)?;
    #[cfg(not(target_os = "linux"))]
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// One file that is not in both packages as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Its path in the package.
    pub path: String,
    /// What became of it.
    pub change: Change,
    /// Its SHA-256 before.
    pub old: Option<String>,
    /// Its SHA-256 now.
    pub new: Option<String>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Its bytes differ, or whether it may be executed.
    Changed,
}

/// What is not the same in two packages, by path.
pub(crate) fn compare(old: &Index, new: &Index) -> Vec<FileChange> {
    let paths: BTreeSet<&String> = old.files.keys().chain(new.files.keys()).collect();
    paths
        .into_iter()
        .filter_map(|path| {
            let (before, after) = (old.files.get(path), new.files.get(path));
            let change = match (before, after) {
                (None, _) => Change::Added,
                (_, None) => Change::Removed,
                (Some(a), Some(b)) if a.sha256 == b.sha256 && a.exec == b.exec => return None,
                _ => Change::Changed,
            };
            Some(FileChange {
                path: path.clone(),
                change,
                old: before.map(|file| file.sha256.clone()),
                new: after.map(|file| file.sha256.clone()),
            })
        })
        .collect()
}
