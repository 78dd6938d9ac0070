//! Private files that outlived what they were for: locks of logs that are gone, notes about ids that nobody has. Never takes one away that somebody holds, or whose owner may come back to it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::error::{BusError, failed};
use crate::files::exists;
use crate::home::Home;
use crate::known::{Known, is_stem};
use crate::{last, lock, log, rename, sessions};

/// Folders with a lock file for each file. Those of all other locks are few and always in use.
const FOLDERS: [&str; 5] = ["inbox", "cursors", "rooms", "receipts", "work"];

/// What was found, or taken away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unused {
    /// Lock files of files that are not there.
    pub(crate) locks: usize,
    /// Notes about who held an id last that nobody has any more.
    pub(crate) notes: usize,
}

/// Counts them. Changes nothing.
///
/// # Errors
/// [`BusError::Damaged`] when it cannot be told who is known, a fault.
pub(crate) fn count(home: &Home) -> Result<Unused, BusError> {
    Ok(Unused {
        locks: locks(home)?.len(),
        notes: notes(home)?.len(),
    })
}

/// Takes them away. What is in use by then stays.
///
/// # Errors
/// As [`count`]; some may be gone then.
pub(crate) fn sweep(home: &Home) -> Result<Unused, BusError> {
    let mut swept = Unused::default();
    for name in locks(home)? {
        let unused = || {
            if exists(&home.path(&name)) {
                return Ok(false);
            }
            // Of other programs' kind, begun by one who died. There is hardly ever one.
            let _ = fs::remove_dir(lock::taking(home, &name));
            // Under the lock of its log: an index of what is not there says nothing.
            for of_log in [log::index_file(home, &name), log::left_file(home, &name)] {
                remove(&of_log)?;
            }
            Ok(true)
        };
        swept.locks += usize::from(lock::discard(home, &name, unused)?);
    }
    // Nobody becomes somebody meanwhile.
    let _held = rename::identity_lock(home)?;
    for stem in notes(home)? {
        remove(&home.path(last::FOLDER).join(format!("{stem}.json")))?;
        swept.notes += 1;
    }
    Ok(swept)
}

/// The names of locked files that are not there, whose lock files are.
fn locks(home: &Home) -> Result<Vec<String>, BusError> {
    let folder = home.private("locks");
    let broke = |error| failed("read", &folder, error);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(broke(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let file = entry.map_err(broke)?.file_name();
        let parts = file.to_str().and_then(|file| file.split_once('+'));
        if let Some((folder, stem)) = parts
            && FOLDERS.contains(&folder)
            && is_stem(stem)
        {
            let name = format!("{folder}/{stem}");
            if !exists(&home.path(&name)) {
                names.push(name);
            }
        }
    }
    names.sort();
    Ok(names)
}

fn notes(home: &Home) -> Result<Vec<String>, BusError> {
    let mut stems = sessions::stems(home, last::FOLDER)?;
    if !stems.is_empty() {
        let known = Known::load(home)?;
        stems.retain(|stem| !known.has(stem));
    }
    Ok(stems)
}

fn remove(path: &Path) -> Result<(), BusError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", path, error)),
        _ => Ok(()),
    }
}
