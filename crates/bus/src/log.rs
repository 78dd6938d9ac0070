//! One JSONL log under its lock: append, read from an entry on, cut. Never counts or returns a line that is not finished, and never glues a line to one.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::error::{BusError, failed};
use crate::files::{self, open_plain};
use crate::home::{self, Home, Mode};
use crate::index::{self, Index, Known, STRIDE};
use crate::lock::{self, Held};

mod archive;
pub(crate) mod cut;
pub(crate) mod glimpse;
pub(crate) mod scan;

pub(crate) use archive::append_to_archive;
mod lenient;

pub(crate) use lenient::entry;

/// One entry as it stands in the file, fields of other programs included.
pub type Entry = Map<String, Value>;

/// A line longer than this is passed over as damaged: nothing of ours is as long, and a reader's memory is bounded.
const LONGEST_LINE: u64 = 32 * 1024 * 1024;

/// A log that this process alone may write to, and whose entries it has counted.
pub(crate) struct Log<'a> {
    home: &'a Home,
    name: String,
    path: PathBuf,
    file: File,
    index: Index,
    known: Known,
    /// Bytes in the file, with what may be an unfinished line.
    size: u64,
    /// Whether this opening made the file.
    made: bool,
    held: Held,
}

impl<'a> Log<'a> {
    /// Locks a log, makes it if it is absent, and counts what was added since it was last counted.
    ///
    /// # Errors
    /// [`BusError::Held`], a fault.
    pub(crate) fn open(home: &'a Home, name: &str) -> Result<Self, BusError> {
        let path = home.path(name);
        let held = lock::lock(home, name)?;
        cut::finish(home, name)?;
        let open = || open_plain(&path, File::options().read(true).append(true));
        let (file, made) = match open() {
            Ok(file) => (file, false),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                home::make_folder(path.parent().unwrap_or(&path))?;
                let made = home.create_early(name, "")?;
                (open().map_err(|error| failed("open", &path, error))?, made)
            }
            Err(error) => return Err(failed("open", &path, error)),
        };
        let index = Index::open(&index_file(home, name))?;
        let mut log = Self {
            home,
            name: name.to_owned(),
            path,
            file,
            index,
            known: Known::default(),
            size: 0,
            made,
            held,
        };
        log.count()?;
        Ok(log)
    }

    /// The same for a log that need not exist: `None` then, and none is made.
    pub(crate) fn open_existing(home: &'a Home, name: &str) -> Result<Option<Self>, BusError> {
        if files::exists(&home.path(name)) {
            Self::open(home, name).map(Some)
        } else {
            Ok(None)
        }
    }

    /// How many entries it holds.
    pub(crate) fn entries(&self) -> u64 {
        self.known.entries
    }

    /// Which file it is: one that takes its place has another number.
    pub(crate) fn inode(&self) -> u64 {
        self.known.inode
    }

    /// Whether another program may still believe this file absent, and empty it when it makes it.
    pub(crate) fn is_new(&self) -> bool {
        // A file that has stood for a while is believed absent by nobody, however lately muster wrote to it first.
        self.made || (self.index.is_new() && index::is_young(&self.file))
    }

    /// Looks at the file again and counts what stands there now.
    fn count(&mut self) -> Result<(), BusError> {
        let meta = self
            .file
            .metadata()
            .map_err(|error| failed("read", &self.path, error))?;
        self.size = meta.len();
        self.known = self.index.known(&self.file, meta.ino(), meta.len());
        // Somebody emptied the log, or put another in its place, without telling.
        let rewritten = self.known.bytes == 0 && self.index.knew_entries();
        if self.known.bytes == self.size && !rewritten {
            return Ok(());
        }
        if self.known.bytes == 0 {
            self.index.clear()?;
        }
        let from = self.known;
        let mut known = from;
        let mut places = Vec::new();
        self.lines(from.bytes, |line, begins, ends| {
            if is_entry(line) {
                if known.entries > 0 && known.entries.is_multiple_of(STRIDE) {
                    places.push((known.entries, begins));
                }
                known.entries += 1;
            }
            known.bytes = ends;
            Ok(true)
        })?;
        self.known = known;
        if known != from {
            self.note(&places);
        }
        // A program that shares the directory and cut the log moves the cursors itself, and may be about to; it never cuts one to nothing.
        if rewritten && (self.home.mode() == Mode::Native || known.entries == 0) {
            cut::forget_past_end(self.home, &self.name, known.entries)?;
        }
        Ok(())
    }

    /// Notes in the index what is known now. The index is a help that is built again when it is lost, so a disk too full for it fails
    /// neither a read nor, still less, an append that is already in the file.
    fn note(&self, places: &[(u64, u64)]) {
        let noted = places
            .iter()
            .try_for_each(|(number, byte)| self.index.place(*number, *byte))
            .and_then(|()| self.index.remember(&self.file, self.known));
        if let Err(error) = noted {
            tracing::warn!(file = %self.path.display(), error = %error.chain(), "the index of a log could not be written; it is built again when it is needed");
            // Half of it must not stay: emptying needs no room.
            if let Err(error) = self.index.clear() {
                tracing::warn!(file = %self.path.display(), error = %error.chain(), "the index of a log could not be emptied");
            }
        }
    }

    /// Calls `each` with every finished line from `byte` on, where it begins and where the next one does, until it answers `false`.
    fn lines(
        &self,
        byte: u64,
        mut each: impl FnMut(&[u8], u64, u64) -> Result<bool, BusError>,
    ) -> Result<(), BusError> {
        let mut renewed = Instant::now();
        let renewing = |line: &[u8], begins, ends| {
            // Other programs take over a lock that its holder seems to have forgotten.
            if renewed.elapsed() > Duration::from_secs(1) {
                self.held.renew()?;
                renewed = Instant::now();
            }
            each(line, begins, ends)
        };
        walk(&self.file, &self.path, byte, renewing).map(drop)
    }

    /// Calls `each` with every entry from number `first` on (counted from 0), until it answers `false`.
    pub(crate) fn read(&self, first: u64, mut each: impl FnMut(u64, Entry) -> bool) -> Result<(), BusError> {
        self.read_lines(first, |number, line| each(number, entry(line)))
    }

    /// Calls `each` with every entry's line from number `first` on, until it answers `false`.
    pub(crate) fn read_lines(
        &self,
        first: u64,
        mut each: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<(), BusError> {
        if first >= self.known.entries {
            return Ok(());
        }
        let (mut number, byte) = self.index.before(first);
        self.lines(byte, |line, _, _| {
            if number >= self.known.entries {
                return Ok(false);
            }
            if is_entry(line) {
                let this = number;
                number += 1;
                if this >= first {
                    return Ok(each(this, line));
                }
            }
            Ok(true)
        })
    }

    /// Appends whole entries, each a JSON object on a line of its own. They are all there when it returns; when it fails, none is.
    ///
    /// # Errors
    /// A fault.
    pub(crate) fn append(&mut self, lines: &[String]) -> Result<(), BusError> {
        let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.len() + 1).sum::<usize>() + 1);
        // An unfinished line of a writer that died would swallow the next one.
        let torn = self.known.bytes < self.size;
        if torn {
            bytes.push(b'\n');
        }
        for line in lines {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        let mut file = &self.file;
        if let Err(error) = file.write_all(&bytes) {
            // A full disk took a part of it: what nobody was told of must not stay, nor stand before the next entry.
            let ours = self
                .file
                .metadata()
                .is_ok_and(|meta| meta.len() < self.size + bytes.len() as u64);
            if !ours {
                tracing::warn!(file = %self.path.display(), "somebody else wrote while the disk was full; the next append closes what is unfinished");
            } else if let Err(error) = self.file.set_len(self.size) {
                tracing::warn!(file = %self.path.display(), error = %error, "half a line stays in the file; the next append closes it");
            }
            return Err(failed("write to", &self.path, error));
        }
        let ends = self.file.metadata().map(|meta| meta.len()).ok();
        if torn || ends != Some(self.size + bytes.len() as u64) {
            // A line was closed, or somebody who takes no lock wrote in between: where ours stands is only known by looking. The index is
            // the one from before, so whatever fails here is made good by the next one who opens the log.
            if let Err(error) = self.count() {
                tracing::warn!(file = %self.path.display(), error = %error.chain(), "a log could not be counted after a line was added");
            }
            return Ok(());
        }
        let mut places = Vec::new();
        for line in lines {
            if self.known.entries > 0 && self.known.entries.is_multiple_of(STRIDE) {
                places.push((self.known.entries, self.known.bytes));
            }
            self.known.entries += 1;
            self.known.bytes += line.len() as u64 + 1;
        }
        self.size = self.known.bytes;
        self.note(&places);
        Ok(())
    }

    /// The directory.
    pub(crate) fn home(&self) -> &'a Home {
        self.home
    }

    /// Its name inside the directory.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Calls `each` with every finished line of a file from `byte` on, where it begins and where the next one does, until it answers `false`. A
/// line that is too long is given as an empty one. Answers where the last finished line ended.
fn walk(
    file: &File,
    path: &Path,
    byte: u64,
    mut each: impl FnMut(&[u8], u64, u64) -> Result<bool, BusError>,
) -> Result<u64, BusError> {
    let broke = |error| failed("read", path, error);
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    reader.seek(SeekFrom::Start(byte)).map_err(broke)?;
    let mut begins = byte;
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut length = 0_u64;
        let finished = loop {
            let read = reader.fill_buf().map_err(broke)?;
            if read.is_empty() {
                break false;
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let part = read.get(..end.unwrap_or(read.len())).unwrap_or(read);
            if length <= LONGEST_LINE {
                line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            length += used as u64;
            reader.consume(used);
            if end.is_some() {
                break true;
            }
        };
        if !finished {
            return Ok(begins);
        }
        if length > LONGEST_LINE {
            line.clear();
        }
        let ends = begins + length;
        if !each(&line, begins, ends)? {
            return Ok(ends);
        }
        begins = ends;
    }
}

/// The index of a log.
pub(crate) fn index_file(home: &Home, name: &str) -> PathBuf {
    home.private("index").join(name.replace('/', "+"))
}

/// What a cut that had to leave too much notes for the next one.
pub(crate) fn left_file(home: &Home, name: &str) -> PathBuf {
    home.private("index")
        .join(format!("{}.left", name.replace('/', "+")))
}

/// Whether a line is an entry: a JSON object. What stands in it is its reader's business.
fn is_entry(line: &[u8]) -> bool {
    line.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
        && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}
