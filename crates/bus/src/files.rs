//! Opening the files of the directory, which are plain files or nothing. Never follows a link in place of one, and never waits for the other end of a pipe.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;

/// What stands where a file belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is {0}")]
pub(crate) struct NotPlain(pub(crate) &'static str);

impl NotPlain {
    /// What a folder is called.
    pub(crate) const FOLDER: &str = "a folder";

    /// What a thing is that is no file; `None` for a file.
    pub(crate) fn of(kind: FileType) -> Option<Self> {
        if kind.is_file() {
            return None;
        }
        Some(Self(if kind.is_symlink() {
            "a symbolic link"
        } else if kind.is_dir() {
            Self::FOLDER
        } else if kind.is_fifo() {
            "a named pipe"
        } else if kind.is_socket() {
            "a socket"
        } else {
            "a device"
        }))
    }
}

/// Opens a file as `options` say, at once and without following a link.
///
/// # Errors
/// [`NotPlain`] inside the error, for what is no plain file; what the system answers.
pub(crate) fn open_plain(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let opened = options.clone().custom_flags(flags.bits()).open(path);
    let kind = match &opened {
        Ok(file) => file.metadata()?.file_type(),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
            return opened;
        }
        // A link, a folder and a socket are refused by the system, each in words of its own.
        Err(_) => match fs::symlink_metadata(path) {
            Ok(meta) => meta.file_type(),
            Err(_) => return opened,
        },
    };
    NotPlain::of(kind).map_or(opened, |odd| Err(io::Error::other(odd)))
}

/// Reads a whole file.
///
/// # Errors
/// As [`open_plain`].
pub(crate) fn read_plain(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_plain(path, File::options().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether anything stands at a path, be it a link to nothing.
pub(crate) fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
