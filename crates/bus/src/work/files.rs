//! The work documents on disk: found, read and replaced inside one repository. Never follows a link out of it, and never writes over a document that changed since it was last looked at.

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::document::Kind;
use crate::error::{BusError, failed};

/// Largest document, in bytes.
pub(crate) const MAX_DOCUMENT: usize = 4 * 1024 * 1024;

const QUEUE: &str = "docs/QUEUE.md";
const BACKLOG: &str = "docs/BACKLOG.md";
const DONE: &str = "docs/DONE.md";
const BOARD: &str = "docs/WORKSTREAMS.md";
/// Every document that is looked for, for a sentence.
pub(crate) const NAMES: &str = "docs/QUEUE.md, docs/BACKLOG.md, docs/DONE.md and docs/WORKSTREAMS.md";

/// A repository's folder.
pub(crate) struct Repo(PathBuf);

/// A document as it stands on disk.
pub(crate) struct Found {
    pub(crate) path: &'static str,
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Repo {
    /// Opens a folder that somebody named.
    pub(crate) fn open(path: &Path) -> Result<Self, BusError> {
        let refuse = |why| BusError::Document {
            path: path.to_owned(),
            why,
        };
        if !path.is_absolute() {
            return Err(refuse(
                "is no absolute path, and the bus has no folder of its own to begin at",
            ));
        }
        let real = fs::canonicalize(path).map_err(|_| refuse("is no folder that this user can open"))?;
        if !real.is_dir() {
            return Err(refuse("is no folder"));
        }
        Ok(Self(real))
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Every work document that is there. The old single list counts only where there is no queue.
    pub(crate) fn documents(&self) -> Result<Vec<Found>, BusError> {
        let mut found = Vec::new();
        for (path, kind) in [
            (QUEUE, Kind::Queue),
            (BACKLOG, Kind::Queue),
            (DONE, Kind::Done),
            (BOARD, Kind::Board),
        ] {
            let queued = found.iter().any(|found: &Found| found.kind == Kind::Queue);
            if kind == Kind::Queue && queued {
                continue;
            }
            if let Some(text) = self.read(path)? {
                found.push(Found { path, kind, text });
            }
        }
        if found.is_empty() {
            return Err(BusError::NoDocuments(self.0.clone()));
        }
        Ok(found)
    }

    /// One document's text: `None` when it is absent.
    pub(crate) fn read(&self, name: &str) -> Result<Option<String>, BusError> {
        let Some(path) = self.real(name)? else {
            return Ok(None);
        };
        let broke = |error| failed("read", &path, error);
        let refuse = |why| BusError::Document {
            path: path.clone(),
            why,
        };
        // Before it is opened: opening a pipe would wait for its other end.
        if !fs::metadata(&path).map_err(broke)?.is_file() {
            return Err(refuse("is no file"));
        }
        let file = File::open(&path).map_err(broke)?;
        let mut bytes = Vec::new();
        file.take(MAX_DOCUMENT as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(broke)?;
        if bytes.len() > MAX_DOCUMENT {
            return Err(refuse("is longer than 4 MiB"));
        }
        String::from_utf8(bytes)
            .map(Some)
            .map_err(|_| refuse("is not UTF-8"))
    }

    /// Where a document really stands: `None` when nothing is there.
    fn real(&self, name: &str) -> Result<Option<PathBuf>, BusError> {
        let path = self.0.join(name);
        match fs::canonicalize(&path) {
            Ok(real) if real.starts_with(&self.0) => Ok(Some(real)),
            Ok(_) => Err(BusError::Document {
                path,
                why: "is a link to a place outside its repository",
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if fs::symlink_metadata(&path).is_ok() {
                    return Err(BusError::Document {
                        path,
                        why: "is a link to nothing",
                    });
                }
                Ok(None)
            }
            Err(error) => Err(failed("read", &path, error)),
        }
    }

    /// Replaces a document, or makes it, with its mode kept. `before` is what was seen there; anything else is an edit and stays.
    pub(crate) fn write(&self, name: &str, before: Option<&str>, text: &str) -> Result<(), BusError> {
        let target = match self.real(name)? {
            Some(real) => real,
            None => self.place(name)?,
        };
        let folder = target.parent().unwrap_or(&self.0);
        let file_name = target.file_name().unwrap_or_default().to_string_lossy();
        // In the same folder, so that it is moved and not copied; hidden, so that no pattern of documents finds it.
        let chance = muster_core::secret::random_hex::<8>()
            .map_err(|error| failed("write", &target, std::io::Error::other(error)))?;
        let beside = folder.join(format!(".{file_name}.{chance}"));
        let mode = fs::metadata(&target).ok().map(|meta| meta.permissions());
        let moved = fill(&beside, text, mode)
            .map_err(|error| failed("write", &target, error))
            .and_then(|()| {
                if self.read(name)?.as_deref() != before {
                    return Err(BusError::Edited(name.to_owned()));
                }
                fs::rename(&beside, &target).map_err(|error| failed("write", &target, error))
            });
        if moved.is_err() {
            let _ = fs::remove_file(&beside);
        }
        moved
    }

    /// Where a document that is not there would stand; its folder is made.
    fn place(&self, name: &str) -> Result<PathBuf, BusError> {
        let path = self.0.join(name);
        let folder = path.parent().unwrap_or(&self.0);
        match fs::create_dir(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(failed("make the folder", folder, error));
            }
            _ => {}
        }
        let real = fs::canonicalize(folder).map_err(|error| failed("open", folder, error))?;
        if !real.starts_with(&self.0) {
            return Err(BusError::Document {
                path: folder.to_owned(),
                why: "is a link to a place outside its repository",
            });
        }
        Ok(real.join(path.file_name().unwrap_or_default()))
    }
}

fn fill(path: &Path, text: &str, mode: Option<fs::Permissions>) -> std::io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    if let Some(mode) = mode {
        file.set_permissions(mode)?;
    }
    file.sync_all()
}

/// What tells two texts of a document apart.
pub(crate) fn print(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
