//! Where each entry of a log stands, so that a read costs what is new and not what is old. Never trusted beyond what the log itself confirms; lost, it is built again.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{BusError, failed};
use crate::files::open_plain;

/// One place is remembered for this many entries.
pub(crate) const STRIDE: u64 = 128;
/// The head: mark, inode of the log, entries, bytes, print of what stands before `bytes`, check over these five.
const HEAD: usize = 48;
const MARK: u64 = u64::from_le_bytes(*b"musterI1");
/// For how long a log is new to muster.
const NEW: Duration = Duration::from_secs(3);
/// How many bytes before a place prove that the log is still the one that was indexed.
const PROOF: u64 = 96;

/// What is known of a log: how many entries its first `bytes` bytes hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Known {
    /// Which file, by inode: a log that was replaced is another.
    pub(crate) inode: u64,
    /// Entries: lines that are JSON objects. A damaged line is none, as every program here counts.
    pub(crate) entries: u64,
    /// Up to here.
    pub(crate) bytes: u64,
}

/// An index file, open. The log's lock is held while it is.
pub(crate) struct Index {
    file: File,
    path: PathBuf,
}

impl Index {
    pub(crate) fn open(path: &Path) -> Result<Self, BusError> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let open = || open_plain(path, &options);
        let file = match open() {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                crate::home::make_folder(path.parent().unwrap_or(path))?;
                open()
            }
            other => other,
        };
        Ok(Self {
            file: file.map_err(|error| failed("open", path, error))?,
            path: path.to_owned(),
        })
    }

    /// The index of a log as it stands, only to look at: `None` when there is none.
    pub(crate) fn look(path: &Path) -> Option<Self> {
        let file = open_plain(path, File::options().read(true)).ok()?;
        (file.metadata().ok()?.len() >= HEAD as u64).then(|| Self {
            file,
            path: path.to_owned(),
        })
    }

    /// What is known of `log`, as far as it still holds: nothing of a log that was replaced, cut or rewritten.
    pub(crate) fn known(&self, log: &File, inode: u64, size: u64) -> Known {
        let nothing = Known {
            inode,
            ..Known::default()
        };
        let mut head = [0_u8; HEAD];
        if self.file.read_exact_at(&mut head, 0).is_err() {
            return nothing;
        }
        let mut words = head.chunks_exact(8).map(|word| {
            let mut bytes = [0_u8; 8];
            bytes.copy_from_slice(word);
            u64::from_le_bytes(bytes)
        });
        let mut next = || words.next().unwrap_or(0);
        let (mark, of, entries, bytes, print, check) = (next(), next(), next(), next(), next(), next());
        let sound = mark == MARK && check == sum(&[mark, of, entries, bytes, print]);
        if sound && of == inode && bytes <= size && proof(log, bytes) == Some(print) {
            Known {
                inode,
                entries,
                bytes,
            }
        } else {
            nothing
        }
    }

    /// Whether a log of entries was known here, be it this one or another.
    pub(crate) fn knew_entries(&self) -> bool {
        let mut head = [[0_u8; 8]; HEAD / 8];
        let read = self.file.read_exact_at(head.as_flattened_mut(), 0);
        let [mark, of, entries, bytes, print, check] = head.map(u64::from_le_bytes);
        let sound = mark == MARK && check == sum(&[mark, of, entries, bytes, print]);
        read.is_ok() && sound && entries > 0
    }

    /// Remembers what is known. Lost with a power cut, it is built again.
    pub(crate) fn remember(&self, log: &File, known: Known) -> Result<(), BusError> {
        let print = proof(log, known.bytes).unwrap_or(0);
        let words = [MARK, known.inode, known.entries, known.bytes, print];
        let mut head = Vec::with_capacity(HEAD);
        for word in words.iter().chain([&sum(&words)]) {
            head.extend_from_slice(&word.to_le_bytes());
        }
        self.file
            .write_all_at(&head, 0)
            .map_err(|error| failed("write to", &self.path, error))
    }

    /// Remembers that entry `number` (a multiple of [`STRIDE`]) begins at `byte`.
    pub(crate) fn place(&self, number: u64, byte: u64) -> Result<(), BusError> {
        self.file
            .write_all_at(&byte.to_le_bytes(), at(number / STRIDE))
            .map_err(|error| failed("write to", &self.path, error))
    }

    /// The remembered entry at or before `number`, and where it begins.
    pub(crate) fn before(&self, number: u64) -> (u64, u64) {
        let mut step = number / STRIDE;
        while step > 0 {
            let mut byte = [0_u8; 8];
            if self.file.read_exact_at(&mut byte, at(step)).is_ok() {
                let byte = u64::from_le_bytes(byte);
                if byte > 0 {
                    return (step * STRIDE, byte);
                }
            }
            step -= 1;
        }
        (0, 0)
    }

    /// Whether this index was begun a moment ago, which is when muster wrote to its log first.
    pub(crate) fn is_new(&self) -> bool {
        is_young(&self.file)
    }

    /// Forgets every place, for a log that is counted anew.
    pub(crate) fn clear(&self) -> Result<(), BusError> {
        self.file
            .set_len(0)
            .map_err(|error| failed("write to", &self.path, error))
    }
}

/// Whether a file was made a moment ago.
pub(crate) fn is_young(file: &File) -> bool {
    let begun = file.metadata().and_then(|meta| meta.created());
    begun.is_ok_and(|begun| begun.elapsed().is_ok_and(|age| age < NEW))
}

/// Where the place of the step `step` stands. The first step needs none: its entry begins at 0.
fn at(step: u64) -> u64 {
    HEAD as u64 + step.saturating_sub(1) * 8
}

/// A print of what stands right before `end`.
fn proof(log: &File, end: u64) -> Option<u64> {
    let length = usize::try_from(end.min(PROOF)).ok()?;
    let mut bytes = [0_u8; PROOF as usize];
    let bytes = bytes.get_mut(..length)?;
    log.read_exact_at(bytes, end - end.min(PROOF)).ok()?;
    Some(bytes.iter().fold(FNV, |sum, byte| mix(sum, u64::from(*byte))))
}

fn sum(words: &[u64]) -> u64 {
    words.iter().fold(FNV, |sum, word| mix(sum, *word))
}

/// FNV-1a: it tells accidents apart, which is all that is asked here.
const FNV: u64 = 0xcbf2_9ce4_8422_2325;

fn mix(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x0100_0000_01b3)
}
