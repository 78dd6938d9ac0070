//! The small JSON files: read whole, replaced whole. Never leaves half a file, and never writes over one that it could not read.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{BusError, failed};
use crate::files::read_plain;
use crate::fresh;
use crate::home::{Home, Mode};

/// Whether a replaced file must be on the disk before the call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Survives a power cut: registrations, channels, tokens.
    Durably,
    /// Survives the death of this process; after a power cut it may be the one before, which costs a second delivery.
    Quickly,
}

/// How often a file that another program may be rewriting in place is looked at again, ten milliseconds apart.
const REWRITTEN: u32 = 10;

/// Reads a file: `None` when it is absent.
///
/// # Errors
/// [`BusError::Damaged`] when it is there and is not what it should be; a fault.
pub(crate) fn read<T: DeserializeOwned>(home: &Home, name: &str) -> Result<Option<T>, BusError> {
    let path = home.path(name);
    let mut tries = 0;
    loop {
        let text = match read_plain(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path, error)),
        };
        if let Ok(value) = serde_json::from_slice(&text) {
            return Ok(Some(value));
        }
        // Other programs empty a file before they fill it again; what is damaged for longer than that is damaged.
        if home.mode() == Mode::Native || tries == REWRITTEN {
            return Err(BusError::Damaged(name.to_owned()));
        }
        tries += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Replaces a file: written beside it, then renamed over it. The caller holds its lock.
///
/// # Errors
/// A fault; the old file then stands as it was.
pub(crate) fn write<T: Serialize>(home: &Home, name: &str, value: &T, keep: Keep) -> Result<(), BusError> {
    let path = home.path(name);
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| failed("write", &path, std::io::Error::other(error)))?;
    text.push(b'\n');
    replace(home, &path, &text, keep)
}

/// Replaces a file's bytes.
///
/// # Errors
/// A fault; the old file then stands as it was.
pub(crate) fn replace(home: &Home, path: &Path, bytes: &[u8], keep: Keep) -> Result<(), BusError> {
    // In the private folder, on the same file system: readers of the public folders never see it.
    let beside = home.private("new").join(fresh::id()?);
    let written = fill(&beside, bytes, keep).and_then(|()| {
        fs::rename(&beside, path).or_else(|error| {
            if error.kind() != ErrorKind::NotFound {
                return Err(error);
            }
            // The folder was removed under a running process.
            folder(path)?;
            fs::rename(&beside, path)
        })
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&beside);
        failed("write", path, error)
    })
}

/// Makes the folder of a file, for its user alone.
fn folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path.parent().unwrap_or(path))
}

fn fill(path: &Path, bytes: &[u8], keep: Keep) -> std::io::Result<()> {
    let open = || {
        File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
    };
    let mut file = match open() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            folder(path)?;
            open()?
        }
        other => other?,
    };
    file.write_all(bytes)?;
    if keep == Keep::Durably {
        file.sync_all()?;
    }
    Ok(())
}
