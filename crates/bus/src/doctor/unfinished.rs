//! What a process began and did not live to complete: cuts, renames, files that were never put in their place. Never gives one up that can be completed.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

use super::Severity::{Error, Info, Warning};
use super::{Exam, Fix};
use crate::error::{BusError, failed};
use crate::files::{exists, read_plain};
use crate::home::Home;
use crate::lock;
use crate::log::cut::{INTENTS, intent_file, new_file};
use crate::names::SeatId;
use crate::{rename, unused};

/// A rename that is at work needs less than this, in milliseconds.
const AT_WORK: i64 = 5_000;
/// What was to be put in its place and is older than this, in milliseconds, never will be.
const NEVER: i64 = 60 * 60 * 1_000;

#[derive(Deserialize)]
struct Cut {
    log: String,
}

pub(super) fn cuts(exam: &mut Exam<'_>) -> Result<(), BusError> {
    for name in names(&exam.home.private(INTENTS))? {
        if !name.ends_with(".json") {
            continue;
        }
        let path = exam.home.private(INTENTS).join(&name);
        // One at work holds its log's lock and is gone in a moment.
        if exam.age(&path).is_none_or(|age| age < AT_WORK) {
            std::thread::sleep(std::time::Duration::from_millis(40));
        }
        let text = match read_plain(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                exam.cannot("unfinished-cut", &name, &failed("read", &path, error));
                continue;
            }
        };
        let log = serde_json::from_slice::<Cut>(&text).ok().map(|cut| cut.log);
        match log.filter(|log| intent_file(exam.home, log) == path) {
            Some(log) => {
                let why = "a process died while it moved old entries to the archive; whoever opens the log next completes it";
                exam.fixable("unfinished-cut", Warning, &log, why, |home| complete(home, &log));
            }
            None => exam.find("unfinished-cut", Error, &name, "what is left of an interrupted cut cannot be read; cursors of that log may count entries that are gone"),
        }
    }
    Ok(())
}

fn complete(home: &Home, log: &str) -> Result<Fix, BusError> {
    {
        let _held = lock::lock(home, log)?;
        crate::log::cut::finish(home, log)?;
    }
    Ok(if exists(&intent_file(home, log)) {
        Fix::Left("a cursor file cannot be read or written")
    } else {
        Fix::Done
    })
}

#[derive(Deserialize)]
struct Rename {
    new: String,
    #[serde(default)]
    since: i64,
}

/// Looked at without the lock over identities, which is a file that looking must not make.
pub(super) fn renames(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let folder = exam.home.private("rename");
    for name in names(&folder)? {
        let Some(old) = name.strip_suffix(".json") else {
            continue;
        };
        let text = match read_plain(&folder.join(&name)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                exam.cannot(
                    "unfinished-rename",
                    old,
                    &failed("read", &folder.join(&name), error),
                );
                continue;
            }
        };
        let (Ok(begun), Ok(seat)) = (serde_json::from_slice::<Rename>(&text), SeatId::parse(old)) else {
            exam.find(
                "unfinished-rename",
                Error,
                old,
                "what is left of an interrupted rename cannot be read; nobody is renamed until it is gone",
            );
            continue;
        };
        if exam.now.saturating_sub(begun.since) < AT_WORK {
            continue;
        }
        let why = format!(
            "a process died while it gave this agent the id '{}'; it is completed as soon as either acts",
            begun.new
        );
        exam.fixable("unfinished-rename", Warning, old, why, |home| {
            Ok(if rename::finish(home, &seat)? {
                Fix::Done
            } else {
                Fix::NotNeeded
            })
        });
    }
    Ok(())
}

/// Files that were written and never put in their place, since their writer died.
pub(super) fn leftovers(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let folder = exam.home.private("new");
    let cuts: Vec<_> = super::logs::all(exam.home)?
        .iter()
        .filter(|log| exists(&intent_file(exam.home, log)))
        .map(|log| new_file(exam.home, log))
        .collect();
    let old = |exam: &Exam<'_>, path: &Path| exam.age(path).is_some_and(|age| age > NEVER);
    let mut left: Vec<_> = names(&folder)?
        .into_iter()
        .map(|name| folder.join(name))
        .filter(|path| old(exam, path) && !cuts.contains(path))
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file()))
        .collect();
    left.sort();
    if left.is_empty() {
        return Ok(());
    }
    let why = format!(
        "{} files were written and never put in their place; what they were to replace stands as it did",
        left.len()
    );
    exam.fixable("leftover-file", Info, ".muster/new", why, |_| {
        for path in &left {
            match fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(failed("remove", path, error));
                }
                _ => {}
            }
        }
        Ok(Fix::Done)
    });
    Ok(())
}

/// Locks of files that are gone and notes about ids that nobody has. They hurt nobody but by their number.
pub(super) fn unused(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let found = unused::count(exam.home)?;
    if found == unused::Unused::default() {
        return Ok(());
    }
    let why = format!(
        "{} lock files of logs and cursors that are gone, and {} notes about ids that nobody has any more; prune takes them away, too",
        found.locks, found.notes
    );
    exam.fixable("unused-file", Info, ".muster", why, |home| {
        unused::sweep(home)?;
        let left = unused::count(home)?;
        Ok(if left == unused::Unused::default() {
            Fix::Done
        } else {
            Fix::Left("some are in use")
        })
    });
    Ok(())
}

fn names(folder: &Path) -> Result<Vec<String>, BusError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", folder, error)),
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}
