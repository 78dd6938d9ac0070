//! A file of somebody else's program: read, kept aside, replaced whole. Never leaves half of one, and never makes one readable that was not.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::shown;
use crate::output::Failure;

/// What stood at a path.
pub(super) struct Found {
    /// Where the file itself is, behind whatever links lead to it.
    path: PathBuf,
    text: Option<String>,
    mode: u32,
}

impl Found {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let unreadable = |error: std::io::Error| {
            Failure::refused(
                "settings",
                format!("{} cannot be read ({error}), so nothing was changed", shown(path)),
            )
        };
        let path = match fs::canonicalize(path) {
            Ok(path) => path,
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
                return Ok(Self {
                    path: path.to_owned(),
                    text: None,
                    mode: 0o600,
                });
            }
            Err(error) => return Err(unreadable(error)),
        };
        let meta = fs::metadata(&path).map_err(unreadable)?;
        Ok(Self {
            text: Some(fs::read_to_string(&path).map_err(unreadable)?),
            mode: meta.permissions().mode() & 0o7777,
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_there(&self) -> bool {
        self.text.is_some()
    }

    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Keeps the file as it is beside it and replaces it. Answers where it was kept.
    pub(super) fn replace(&self, text: &str) -> Result<Option<PathBuf>, Failure> {
        let failed = |error: std::io::Error| {
            Failure::refused(
                "settings",
                format!(
                    "{} could not be written ({error}); it stands as it was",
                    shown(&self.path)
                ),
            )
        };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
        let backup = self.text.as_ref().map(|_| self.beside(".before-muster"));
        if let (Some(text), Some(backup)) = (&self.text, &backup) {
            self.put(backup, text).map_err(failed)?;
        }
        self.put(&self.path, text).map_err(failed)?;
        Ok(backup)
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(end);
        self.path.with_file_name(name)
    }

    /// Writes a file beside its place and moves it there.
    fn put(&self, path: &Path, text: &str) -> std::io::Result<()> {
        let new = self.beside(&format!(".new-{}", std::process::id()));
        let written = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.set_permissions(Permissions::from_mode(self.mode))?;
                file.sync_all()
            });
        written.and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
            // What cannot be taken away bears a name that says whose it is.
            let _ = fs::remove_file(&new);
        })
    }
}
