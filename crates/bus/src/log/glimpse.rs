//! Reading a log without its lock, for whoever must not wait. Never writes a byte, and never takes a log for the one that took its place.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use super::{Entry, cut, entry, index_file, is_entry, walk};
use crate::error::{BusError, failed};
use crate::files::{exists, open_plain};
use crate::home::Home;
use crate::index::Index;

/// A log as it was when it was opened. Writers may add to it meanwhile; a cut puts another file in its place, which [`Glimpse::stands`] sees.
pub(crate) struct Glimpse {
    file: File,
    path: PathBuf,
    index: PathBuf,
    intent: PathBuf,
    inode: u64,
    size: u64,
}

impl Glimpse {
    /// Opens a log: `None` when it is absent.
    ///
    /// # Errors
    /// A fault; also for what is no plain file.
    pub(crate) fn open(home: &Home, name: &str) -> Result<Option<Self>, BusError> {
        let path = home.path(name);
        let file = match open_plain(&path, File::options().read(true)) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("read", &path, error)),
        };
        let meta = file.metadata().map_err(|error| failed("read", &path, error))?;
        Ok(Some(Self {
            index: index_file(home, name),
            intent: cut::intent_file(home, name),
            inode: meta.ino(),
            size: meta.len(),
            path,
            file,
        }))
    }

    /// Whether it is still the log, and no cut of it is under way: only then do cursors count its entries.
    pub(crate) fn stands(&self) -> bool {
        !exists(&self.intent) && fs::symlink_metadata(&self.path).is_ok_and(|now| now.ino() == self.inode)
    }

    /// Calls `each` with every entry from number `first` on (counted from 0), until it answers `false`. Answers up to which number it came; at
    /// the end of the log that is how many it holds.
    ///
    /// # Errors
    /// A fault.
    pub(crate) fn read(&self, first: u64, mut each: impl FnMut(u64, Entry) -> bool) -> Result<u64, BusError> {
        let (mut number, byte) = self.place(first);
        walk(&self.file, &self.path, byte, |line, _, _| {
            if is_entry(line) {
                let this = number;
                number += 1;
                if this >= first {
                    return Ok(each(this, entry(line)));
                }
            }
            Ok(true)
        })?;
        Ok(number)
    }

    /// An entry at or before `first` whose place is known, and its place.
    fn place(&self, first: u64) -> (u64, u64) {
        let known = |index: &Index| index.known(&self.file, self.inode, self.size);
        let place = Index::look(&self.index).and_then(|index| {
            let before = known(&index);
            let place = if first >= before.entries {
                (before.entries, before.bytes)
            } else {
                index.before(first)
            };
            // Nobody holds still: places of another log may have been written between the two looks.
            (known(&index) == before).then_some(place)
        });
        place.unwrap_or((0, 0))
    }
}
