//! Taking lines out of a log: into the archive, or away. Never loses a line to a death in between, and never leaves a cursor counting what is gone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use muster_core::Fault;
use serde::{Deserialize, Serialize};

use super::archive::Archive;
use super::{Entry, Log, entry, index_file, is_entry, left_file};
use crate::cursor::{Cursor, Source};
use crate::error::{BusError, failed};
use crate::files::{exists, open_plain, read_plain};
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock;
use crate::names::RoomName;
use crate::push::tier;

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stays in the log.
    Stays,
    /// It moves to the archive.
    Archived,
    /// It goes. Whoever asks for that has kept a copy.
    Dropped,
}

/// A finished line of a log.
pub(crate) struct Line<'l> {
    /// Without the line break; nothing when it is too long to be looked at.
    pub(crate) bytes: &'l [u8],
    /// Which entry it is, if it is one, counted from 0.
    pub(crate) number: Option<u64>,
    /// The entry, if it is one.
    pub(crate) entry: Option<&'l Entry>,
    /// Bytes in the file, line break included.
    pub(crate) length: u64,
}

/// The entry that a line is, if it is one. Nearly all are what they should be, so they are looked at once.
pub(super) fn parsed(line: &[u8]) -> Option<Entry> {
    if line.iter().find(|byte| !byte.is_ascii_whitespace()) != Some(&b'{') {
        return None;
    }
    let strict = serde_json::from_slice(line).ok();
    strict.or_else(|| is_entry(line).then(|| entry(line)))
}

impl Line<'_> {
    /// Whether no program can make anything of it. Empty lines hurt nobody.
    pub(crate) fn is_malformed(&self) -> bool {
        let blank =
            self.bytes.len() as u64 + 1 == self.length && self.bytes.iter().all(u8::is_ascii_whitespace);
        self.number.is_none() && !blank
    }
}

/// Numbers of entries that went, as ranges from the first to the one after the last, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Gone(Vec<(u64, u64)>);

impl Gone {
    fn push(&mut self, number: u64) {
        match self.0.last_mut() {
            Some((_, until)) if *until == number => *until += 1,
            _ => self.0.push((number, number + 1)),
        }
    }

    /// How many went.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|(from, until)| until - from).sum()
    }

    /// How many of the first `offset` entries went.
    fn before(&self, offset: u64) -> u64 {
        self.0
            .iter()
            .take_while(|(from, _)| *from < offset)
            .map(|(from, until)| (*until).min(offset) - from)
            .sum()
    }
}

/// A cut that was begun: on disk from before the log is replaced until the last cursor was moved. Whoever opens the log next completes it,
/// under the log's lock, which every reader holds as well, so nobody reads by a cursor that counts what is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Intent {
    log: String,
    /// Of the file that takes the log's place, for a person who looks.
    inode: u64,
    gone: Gone,
    /// Those of them that wake everybody, whoever said them.
    #[serde(default)]
    urgent: Gone,
    /// Where each cursor stood and where it belongs, by its file, so that one is not moved twice.
    cursors: BTreeMap<String, (u64, u64)>,
    /// Set when the others were moved and these could not be read or written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    only: Option<Vec<String>>,
}

/// The folder of begun cuts.
pub(crate) const INTENTS: &str = "cut";

pub(crate) fn intent_file(home: &Home, log: &str) -> PathBuf {
    home.private(INTENTS)
        .join(format!("{}.json", log.replace('/', "+")))
}

/// The file that is to take a log's place. While it is there, it has not. One name for each log is enough, under its lock.
pub(crate) fn new_file(home: &Home, log: &str) -> PathBuf {
    home.private("new").join(format!("cut-{}", log.replace('/', "+")))
}

impl Log<'_> {
    /// Moves the entries that `goes` picks (by number and entry) to the archive, in order, keeps the rest, and moves every cursor of this log
    /// with them. Answers which ones went. Damaged lines stay where they are. The file is read once and never held in memory.
    ///
    /// The archive is written first, so that a death in between doubles entries there and loses none; a failure that is not a death takes
    /// them out of it again.
    ///
    /// # Errors
    /// A fault; the log and all cursors then stand as they did, unless it broke between the two: the next one who opens the log completes it.
    pub(crate) fn archive(
        &mut self,
        mut goes: impl FnMut(u64, &Entry) -> bool,
        whereto: Option<&str>,
    ) -> Result<Gone, BusError> {
        let gone = if whereto.is_some() {
            Fate::Archived
        } else {
            Fate::Dropped
        };
        let fate = |line: &Line<'_>| match (line.number, line.entry) {
            (Some(number), Some(entry)) if goes(number, entry) => gone,
            _ => Fate::Stays,
        };
        self.cut(fate, Fate::Stays, whereto)
    }

    /// Takes the log away: every line of it goes to the archive, its cursors to the beginning, and the file ends to exist. Answers how many
    /// entries went.
    ///
    /// # Errors
    /// A fault; the log then stands as it did, or is empty.
    pub(crate) fn retire(mut self, archive: &str) -> Result<u64, BusError> {
        let gone = self.cut(|_| Fate::Archived, Fate::Archived, Some(archive))?;
        fs::remove_file(&self.path).map_err(|error| failed("remove", &self.path, error))?;
        // Without its log an index says nothing; the next log of this name has another inode.
        let _ = fs::remove_file(index_file(self.home, &self.name));
        let _ = fs::remove_file(left_file(self.home, &self.name));
        Ok(gone.count())
    }

    /// Gives each line its fate. `tail` is that of the unfinished line at the end. Answers which entries left the log.
    ///
    /// # Errors
    /// As [`Log::archive`].
    pub(crate) fn cut(
        &mut self,
        fate: impl FnMut(&Line<'_>) -> Fate,
        tail: Fate,
        whereto: Option<&str>,
    ) -> Result<Gone, BusError> {
        let intent = intent_file(self.home, &self.name);
        if exists(&intent) {
            let why = "the cursors of an earlier cut of this log could not all be moved";
            return Err(Fault::other(why).into());
        }
        let mut draft = Draft {
            new: new_file(self.home, &self.name),
            intent,
            kept: None,
            archive: None,
            done: false,
        };
        let Some((gone, urgent)) = self.sort(&mut draft, fate, tail, whereto)? else {
            return Ok(Gone::default());
        };
        let intent = self.intend(&draft, gone, urgent)?;
        self.swap(&mut draft)?;
        move_cursors(self.home, &intent)?;
        Ok(intent.gone)
    }

    /// Whether there is an unfinished line at the end.
    pub(crate) fn has_tail(&self) -> bool {
        self.known.bytes < self.size
    }

    /// Whether the unfinished line at the end is an entry but for its line break.
    ///
    /// # Errors
    /// A fault.
    pub(crate) fn tail_is_entry(&self) -> Result<bool, BusError> {
        let length = self
            .size
            .saturating_sub(self.known.bytes)
            .min(super::LONGEST_LINE);
        let mut tail = vec![0; usize::try_from(length).unwrap_or(0)];
        self.file
            .read_exact_at(&mut tail, self.known.bytes)
            .map_err(|error| failed("read", &self.path, error))?;
        Ok(is_entry(&tail))
    }

    /// Writes each line to where it goes. Nothing is written before the first one that does not stay; `None` when all do. Answers which entries
    /// went, and which of them were urgent.
    fn sort(
        &self,
        draft: &mut Draft,
        mut fate: impl FnMut(&Line<'_>) -> Fate,
        tail: Fate,
        whereto: Option<&str>,
    ) -> Result<Option<(Gone, Gone)>, BusError> {
        let (mut gone, mut urgent) = (Gone::default(), Gone::default());
        let (mut number, mut read_to) = (0_u64, 0_u64);
        self.lines(0, |bytes, begins, ends| {
            read_to = ends;
            let entry = parsed(bytes);
            let is_entry = entry.is_some();
            let line = Line {
                bytes,
                number: is_entry.then_some(number),
                entry: entry.as_ref(),
                length: ends - begins,
            };
            let fate = fate(&line);
            if fate != Fate::Stays {
                draft.begin(self, begins)?;
                if let Some(entry) = &entry {
                    gone.push(number);
                    if tier::wakes_all(entry) {
                        urgent.push(number);
                    }
                }
            }
            number += u64::from(is_entry);
            // Too long to be held: copied from the file.
            let whole = bytes.len() as u64 + 1 == ends - begins;
            let text = whole.then_some(bytes);
            draft.put(self, fate, whereto, text, begins..ends)?;
            Ok(true)
        })?;
        // Seen again here: a program that takes no lock may have written meanwhile.
        let size = self
            .file
            .metadata()
            .map_err(|error| failed("read", &self.path, error))?
            .len();
        if size > read_to {
            if tail != Fate::Stays {
                draft.begin(self, read_to)?;
            }
            draft.put(self, tail, whereto, None, read_to..size)?;
        }
        Ok(draft.finish()?.then_some((gone, urgent)))
    }

    /// Says on disk what is about to happen.
    fn intend(&self, draft: &Draft, gone: Gone, urgent: Gone) -> Result<Intent, BusError> {
        let mut cursors = BTreeMap::new();
        if let Some((source, files)) = readers(self.home, &self.name)? {
            for file in files {
                // One that cannot be read has no reader either, until it is put right: then everything is new to it.
                let Ok(cursor) = Cursor::load_file(self.home, &file) else {
                    continue;
                };
                if let Some(offset) = cursor.get(&source)
                    && gone.before(offset) > 0
                {
                    cursors.insert(file, (offset, offset - gone.before(offset)));
                }
            }
        }
        let inode = fs::metadata(&draft.new)
            .map_err(|error| failed("read", &draft.new, error))?
            .ino();
        let intent = Intent {
            log: self.name.clone(),
            inode,
            gone,
            urgent,
            cursors,
            only: None,
        };
        note(self.home, &intent)?;
        Ok(intent)
    }

    /// Puts the new file in the log's place.
    fn swap(&mut self, draft: &mut Draft) -> Result<(), BusError> {
        let broke = |error| failed("write", &self.path, error);
        // From here on nothing is given up any more, so this is the last moment to see that another program took the lock over.
        self.held.renew()?;
        fs::rename(&draft.new, &self.path).map_err(broke)?;
        draft.done = true;
        self.file = open_plain(&self.path, File::options().read(true).append(true)).map_err(broke)?;
        self.index.clear()?;
        self.count()
    }
}

/// What a cut has written so far. Dropped before the log was replaced, it takes all of it back.
struct Draft {
    new: PathBuf,
    intent: PathBuf,
    kept: Option<BufWriter<File>>,
    archive: Option<Archive>,
    done: bool,
}

impl Draft {
    /// Makes the new file, with what stands before the first line that leaves.
    fn begin(&mut self, log: &Log<'_>, before: u64) -> Result<(), BusError> {
        if self.kept.is_some() {
            return Ok(());
        }
        let broke = |error| failed("write", &self.new, error);
        home::make_folder(self.new.parent().unwrap_or(&self.new))?;
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = open_plain(&self.new, &options).map_err(broke)?;
        let kept = self.kept.insert(BufWriter::with_capacity(256 * 1024, file));
        copy(log, 0..before, kept)
    }

    /// Writes one line, given as `text` or to be copied from `range` of the log.
    fn put(
        &mut self,
        log: &Log<'_>,
        fate: Fate,
        whereto: Option<&str>,
        text: Option<&[u8]>,
        range: std::ops::Range<u64>,
    ) -> Result<(), BusError> {
        if fate == Fate::Archived
            && self.archive.is_none()
            && let Some(name) = whereto
        {
            self.archive = Some(Archive::open(log.home, name)?);
        }
        let (to, path) = match (fate, &mut self.kept, &mut self.archive) {
            (Fate::Stays, Some(kept), _) => (kept, &self.new),
            (Fate::Archived, _, Some(archive)) => (&mut archive.file, &archive.path),
            // All of it stays so far, or this line goes.
            _ => return Ok(()),
        };
        match text {
            Some(text) => to
                .write_all(text)
                .and_then(|()| to.write_all(b"\n"))
                .map_err(|error| failed("write to", path, error)),
            None => copy(log, range, to),
        }
    }

    /// Everything is on the disk now. Answers whether there is anything to do.
    fn finish(&mut self) -> Result<bool, BusError> {
        let Some(kept) = &mut self.kept else {
            return Ok(false);
        };
        if let Some(archive) = &mut self.archive {
            archive.finish()?;
        }
        kept.flush()
            .and_then(|()| kept.get_ref().sync_all())
            .map_err(|error| failed("write", &self.new, error))?;
        Ok(true)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        // In this order: an intent without its new file would say that the log was replaced.
        let _ = fs::remove_file(&self.intent);
        if self.kept.is_some() {
            let _ = fs::remove_file(&self.new);
        }
        if let Some(archive) = self.archive.take() {
            archive.undo();
        }
    }
}

/// Copies a part of the log as it is, by place: whoever walks through the same file goes on where it was.
fn copy(log: &Log<'_>, range: std::ops::Range<u64>, to: &mut BufWriter<File>) -> Result<(), BusError> {
    let broke = |error| failed("copy", &log.path, error);
    let mut buffer = vec![0; 64 * 1024];
    let mut at = range.start;
    while at < range.end {
        let length = usize::try_from(range.end - at)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        let part = buffer.get_mut(..length).unwrap_or_default();
        log.file.read_exact_at(part, at).map_err(broke)?;
        to.write_all(part).map_err(broke)?;
        at += length as u64;
    }
    Ok(())
}

fn note(home: &Home, intent: &Intent) -> Result<(), BusError> {
    let path = intent_file(home, &intent.log);
    let text = serde_json::to_vec(intent)
        .map_err(|error| Fault::other("a cut could not be written as JSON").because(error))?;
    json::replace(home, &path, &text, Keep::Durably)
}

/// Completes or gives up a cut that a death interrupted. The caller holds the log's lock.
///
/// # Errors
/// A fault: then the log must not be read.
pub(crate) fn finish(home: &Home, log: &str) -> Result<(), BusError> {
    let path = intent_file(home, log);
    let text = match read_plain(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed("read", &path, error)),
    };
    let Ok(intent) = serde_json::from_slice::<Intent>(&text) else {
        // Written whole, so the disk is in trouble. Cursors may count what is gone; one past the end is seen by its reader.
        let aside = path.with_extension("bak");
        tracing::warn!(file = %path.display(), "what was left of an interrupted cut cannot be read; it was put aside");
        return fs::rename(&path, &aside).map_err(|error| failed("move", &path, error));
    };
    if exists(&new_file(home, log)) {
        // The log was not replaced. What stands in the archive stands there twice before long, which is allowed.
        fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
        let _ = fs::remove_file(new_file(home, log));
        return Ok(());
    }
    move_cursors(home, &intent)
}

/// Moves the cursors of a log that was replaced, each once, and forgets the intent. A cursor that cannot be read or written is left for the
/// next time and holds nobody up.
fn move_cursors(home: &Home, intent: &Intent) -> Result<(), BusError> {
    let path = intent_file(home, &intent.log);
    let mut left = Vec::new();
    if let Some((source, files)) = readers(home, &intent.log)? {
        for file in files {
            if intent.only.as_ref().is_some_and(|only| !only.contains(&file)) {
                continue;
            }
            if let Err(error) = move_one(home, intent, &source, &file) {
                tracing::warn!(cursor = %file, error = %error.chain(), "a cursor could not be moved after a cut; it is tried again");
                left.push(file);
            }
        }
    }
    if left.is_empty() {
        return fs::remove_file(&path).map_err(|error| failed("remove", &path, error));
    }
    let left = Intent {
        only: Some(left),
        ..intent.clone()
    };
    note(home, &left)
}

fn move_one(home: &Home, intent: &Intent, source: &Source, file: &str) -> Result<(), BusError> {
    let _held = lock::lock(home, file)?;
    let mut cursor = Cursor::load_file(home, file)?;
    let Some(offset) = cursor.get(source) else {
        return Ok(());
    };
    let after = match intent.cursors.get(file) {
        Some((before, after)) if offset == *before => *after,
        // Moved already; or set lower by hand, which shows more and hides nothing.
        Some((before, _)) if offset < *before => return Ok(()),
        // A cursor that got another name in between, after it was moved.
        None if renamed(home, intent, offset) => return Ok(()),
        _ => offset - intent.gone.before(offset),
    };
    let unread = |gone: &Gone| gone.count() - gone.before(offset);
    let missed = cursor.miss(source, unread(&intent.gone), unread(&intent.urgent), intent.inode);
    if after != offset || missed {
        cursor.set(source, after);
        cursor.store_file(home, file)?;
    }
    Ok(())
}

/// Sets cursors of a log that count more entries than it holds to its beginning. Later they would count what is written meanwhile, and hide
/// it. One that cannot be read or written is left: it is seen by its reader, unless the log grew past it. The caller holds the log's lock.
///
/// # Errors
/// A fault, when it cannot be told which there are.
pub(super) fn forget_past_end(home: &Home, log: &str, entries: u64) -> Result<(), BusError> {
    let Some((source, files)) = readers(home, log)? else {
        return Ok(());
    };
    tracing::warn!(file = %log, "a log was emptied or replaced by somebody else; readers who had read more than it holds begin it again");
    for file in files {
        if let Err(error) = begin_again(home, &source, &file, entries) {
            tracing::warn!(cursor = %file, error = %error.chain(), "a cursor past the end of its log could not be moved");
        }
    }
    Ok(())
}

fn begin_again(home: &Home, source: &Source, file: &str, entries: u64) -> Result<(), BusError> {
    let _held = lock::lock(home, file)?;
    let mut cursor = Cursor::load_file(home, file)?;
    if cursor.damaged || cursor.get(source).is_none_or(|offset| offset <= entries) {
        return Ok(());
    }
    cursor.set(source, 0);
    cursor.store_file(home, file)
}

fn renamed(home: &Home, intent: &Intent, offset: u64) -> bool {
    intent
        .cursors
        .iter()
        .any(|(file, (_, after))| *after == offset && !home.path(file).exists())
}

/// Which source a log is, and the cursor files that may count its entries, those of other programs with them.
fn readers(home: &Home, log: &str) -> Result<Option<(Source, Vec<String>)>, BusError> {
    let within = |folder: &str| log.strip_prefix(folder)?.strip_suffix(".jsonl");
    if let Some(seat) = within("inbox/") {
        let file = format!("cursors/{seat}.json");
        let files = if is_file(&home.path(&file)) {
            vec![file]
        } else {
            Vec::new()
        };
        return Ok(Some((Source::Inbox, files)));
    }
    let source = match (log, within("rooms/")) {
        (home::STATUS, _) => Source::Status,
        ("room.jsonl", _) => Source::Room(RoomName::general()),
        (_, Some(room)) => Source::Room(RoomName::parse(room)?),
        _ => return Ok(None),
    };
    let folder = home.path("cursors");
    let broke = |error| failed("read", &folder, error);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some((source, Vec::new()))),
        Err(error) => return Err(broke(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let name = entry.map_err(broke)?.file_name();
        if let Some(name) = name.to_str()
            && name.ends_with(".json")
            && is_file(&folder.join(name))
        {
            files.push(format!("cursors/{name}"));
        }
    }
    files.sort();
    Ok(Some((source, files)))
}

/// Whether a file stands at a path: no link, no folder.
fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file())
}

#[cfg(test)]
mod tests;
