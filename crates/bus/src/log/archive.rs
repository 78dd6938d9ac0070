//! The files that take what leaves a log. Only ever appended to, and never read.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use crate::error::{BusError, failed};
use crate::files::open_plain;
use crate::home::{self, Home};

/// A file of the archive, which nothing here ever reads. One log writes to it, under that log's lock.
pub(super) struct Archive {
    pub(super) file: BufWriter<File>,
    pub(super) path: PathBuf,
    before: u64,
}

impl Archive {
    pub(super) fn open(home: &Home, name: &str) -> Result<Self, BusError> {
        let path = home.path(name);
        let broke = |error| failed("write to", &path, error);
        home::make_folder(path.parent().unwrap_or(&path))?;
        let mut options = File::options();
        options.read(true).create(true).append(true).mode(0o600);
        let file = open_plain(&path, &options).map_err(broke)?;
        let before = file.metadata().map_err(broke)?.len();
        let mut file = BufWriter::with_capacity(256 * 1024, file);
        let mut last = [b'\n'];
        if before > 0 {
            file.get_ref()
                .read_exact_at(&mut last, before - 1)
                .map_err(broke)?;
        }
        // Half a line of a process that died would swallow the first one.
        if last != [b'\n'] {
            file.write_all(b"\n").map_err(broke)?;
        }
        Ok(Self { file, path, before })
    }

    pub(super) fn finish(&mut self) -> Result<(), BusError> {
        self.file
            .flush()
            .and_then(|()| self.file.get_ref().sync_all())
            .map_err(|error| failed("write to", &self.path, error))
    }

    /// Takes back what was written. What was not flushed is thrown away.
    pub(super) fn undo(self) {
        let (file, _) = self.file.into_parts();
        let taken = file.set_len(self.before).and_then(|()| file.sync_all());
        if let Err(error) = taken {
            tracing::warn!(file = %self.path.display(), error = %error, "entries stand in the archive that are still in their log");
        }
    }
}

/// Adds whole lines to a file of the archive. The caller holds the lock of what they come from.
///
/// # Errors
/// A fault; the file then stands as it did.
pub(crate) fn append_to_archive(home: &Home, name: &str, bytes: &[u8]) -> Result<(), BusError> {
    let mut archive = Archive::open(home, name)?;
    let written = archive
        .file
        .write_all(bytes)
        .map_err(|error| failed("write to", &archive.path, error))
        .and_then(|()| archive.finish());
    if written.is_err() {
        archive.undo();
    }
    written
}
