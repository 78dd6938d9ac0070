//! Looking through a log without its lock, for whoever only reports. Never writes a byte: no lock file, no index, no repair.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::cut::{Line, parsed};
use super::{Log, walk};
use crate::error::{BusError, failed};
use crate::files::{self, NotPlain};
use crate::home::Home;

/// What a log holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    /// Lines that are entries.
    pub(crate) entries: u64,
    /// Bytes of an unfinished line at the end.
    pub(crate) tail: u64,
}

/// Calls `each` with every finished line of a file and its number, counted from 1. An absent file has none.
///
/// # Errors
/// A fault; also for what is no plain file: a link may lead out of the directory.
pub(crate) fn scan(path: &Path, mut each: impl FnMut(u64, &Line<'_>)) -> Result<Scanned, BusError> {
    let broke = |error| failed("read", path, error);
    let file = match files::open_plain(path, File::options().read(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Scanned::default()),
        Err(error) => return Err(broke(error)),
    };
    let (mut entries, mut line_number) = (0, 0);
    let end = walk(&file, path, 0, |bytes, begins, ends| {
        line_number += 1;
        let entry = parsed(bytes);
        let is_entry = entry.is_some();
        let line = Line {
            bytes,
            number: is_entry.then_some(entries),
            entry: entry.as_ref(),
            length: ends - begins,
        };
        each(line_number, &line);
        entries += u64::from(is_entry);
        Ok(true)
    })?;
    // A writer may add to it meanwhile: only what stood there at the end of the walk is looked at.
    let size = file.metadata().map_err(broke)?.len();
    Ok(Scanned {
        entries,
        tail: tail(&file, end, size).map_err(broke)?,
    })
}

/// The bytes of the unfinished line that begins at `end`, if there is one and it is still unfinished.
fn tail(file: &File, end: u64, size: u64) -> std::io::Result<u64> {
    let length = size.saturating_sub(end);
    let mut last = [0_u8];
    if length == 0 || file.read_at(&mut last, size - 1)? == 0 || last == [b'\n'] {
        return Ok(0);
    }
    Ok(length)
}

/// Opens a log for whoever cleans up. `None` when it is absent.
///
/// # Errors
/// [`BusError::Held`], a fault; also for what is no plain file: a link may lead out of the directory.
pub(crate) fn open_plain<'h>(home: &'h Home, log: &str) -> Result<Option<Log<'h>>, BusError> {
    let path = home.path(log);
    match fs::symlink_metadata(&path) {
        Ok(meta) => match NotPlain::of(meta.file_type()) {
            None => Log::open_existing(home, log),
            Some(odd) => Err(failed("clean", &path, std::io::Error::other(odd))),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path, error)),
    }
}
