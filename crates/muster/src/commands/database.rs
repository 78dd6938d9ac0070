//! The database as a file among others: where it lies, and who may read it. Never opens it.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::config::Config;

/// A file of the database that other users of this machine may read or write.
pub(super) struct Exposed {
    /// The file.
    pub(super) path: PathBuf,
    /// Its permissions.
    pub(super) mode: u32,
    owner: u32,
}

/// The files of a SQLite database, and those of them that others may touch. Empty for Postgres.
pub(super) fn exposed(config: &Config) -> Vec<Exposed> {
    let Some(file) = config.database_file() else {
        return Vec::new();
    };
    // SQLite keeps the two others beside the file itself, not beside a link to it.
    let file = file.canonicalize().unwrap_or(file);
    ["", "-wal", "-shm"]
        .iter()
        .filter_map(|suffix| {
            let mut name = file.clone().into_os_string();
            name.push(suffix);
            let path = PathBuf::from(name);
            let found = std::fs::metadata(&path).ok()?;
            let mode = found.permissions().mode() & 0o7777;
            (found.is_file() && mode & 0o077 != 0).then(|| Exposed {
                path,
                mode,
                owner: found.uid(),
            })
        })
        .collect()
}

/// Takes every right of others away from the database's files. A file that is not muster's own is left as it is, and that is said.
pub(super) fn tighten(config: &Config) {
    for file in exposed(config) {
        let (path, mode) = (shown(&file.path), format!("{:03o}", file.mode));
        match close(&file) {
            Ok(()) => {
                tracing::warn!(
                    path,
                    mode,
                    "other users of this machine could read or write the database; the file now has mode 600"
                );
            }
            Err(reason) => {
                tracing::warn!(
                    path,
                    mode,
                    reason,
                    "other users of this machine may read or write the database; chmod 600 it"
                );
            }
        }
    }
}

/// By name only: opening and closing a database's file would give back locks that SQLite holds on it.
fn close(file: &Exposed) -> Result<(), String> {
    let own = nix::unistd::geteuid().as_raw();
    if file.owner != own {
        return Err(format!(
            "it belongs to the user with the number {}, and muster runs as {own}",
            file.owner
        ));
    }
    std::fs::set_permissions(&file.path, std::fs::Permissions::from_mode(0o600))
        .map_err(|error| error.to_string())
}

/// A path for a log or a terminal.
pub(super) fn shown(path: &Path) -> String {
    muster_core::text::terminal(&path.display().to_string())
}
