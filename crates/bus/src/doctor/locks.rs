//! Lock folders of other programs, and signs that such programs write here although nobody said so. Never touches a lock that its holder renews.

use std::fs;
use std::path::Path;

use super::Severity::{Error, Warning};
use super::{Exam, Fix, put_aside};
use crate::error::{BusError, failed};
use crate::files::{open_plain, read_plain};
use crate::home::{Home, Mode};
use crate::index::Index;
use crate::known::files;
use crate::{lock, log, sessions};

/// Where other programs lock files.
const FOLDERS: [&str; 8] = [
    "",
    "inbox",
    "cursors",
    "rooms",
    "receipts",
    "work",
    "sessions",
    "transports",
];
/// Age in milliseconds at which a lock that is a file, and names no process, belongs to nobody.
const OLD: i64 = 60_000;

pub(super) fn locks(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let path = exam.home.path(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                exam.cannot("stale-lock", folder, &failed("read", &path, error));
                continue;
            }
        };
        for name in entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
        {
            if name.ends_with(".lock") {
                found.push(if folder.is_empty() {
                    name
                } else {
                    format!("{folder}/{name}")
                });
            }
        }
    }
    found.sort();
    for name in found {
        look(exam, &name);
    }
    Ok(())
}

fn look(exam: &mut Exam<'_>, name: &str) {
    let path = exam.home.path(name);
    let Ok(meta) = fs::symlink_metadata(&path) else {
        return;
    };
    if meta.is_dir() {
        if lock::stale(&path) {
            let why = "the holder of this lock has not renewed it for five seconds, so it has ended; every writer waits for it once";
            exam.fixable("stale-lock", Warning, name, why, |home| {
                lock::steal(home, &home.path(name));
                Ok(if home.path(name).exists() {
                    Fix::Left("somebody holds it, or something lies in it")
                } else {
                    Fix::Done
                })
            });
        } else if exam.home.mode() == Mode::Native {
            let why = "another program is writing here now, and config.json says that only muster does, so its writes and ours may cross; set \"mode\":\"shared\" and restart";
            exam.find("foreign-writer", Error, name, why);
        }
    } else if meta.is_file() {
        match holder(&path) {
            Some(pid) if sessions::running(pid, None) => {}
            Some(pid) => {
                let why = format!("this lock names process {pid}, which has ended");
                exam.fixable("stale-lock", Warning, name, why, |home| remove(home, name));
            }
            None if exam.age(&path).is_some_and(|age| age > OLD) => {
                let why = "this lock names no process and is more than a minute old";
                exam.fixable("stale-lock", Warning, name, why, |home| remove(home, name));
            }
            None => {}
        }
    }
}

/// Puts a lock file away that nobody alive holds.
fn remove(home: &Home, name: &str) -> Result<Fix, BusError> {
    let path = home.path(name);
    if holder(&path).is_some_and(|pid| sessions::running(pid, None)) {
        return Ok(Fix::Left("its process runs"));
    }
    put_aside(&path)?;
    Ok(Fix::Done)
}

/// The process that a lock file names, alone or in JSON.
fn holder(path: &Path) -> Option<u32> {
    let text = String::from_utf8(read_plain(path).ok()?).ok()?;
    let text = text.trim();
    text.parse().ok().or_else(|| {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        u32::try_from(value.get("pid")?.as_u64()?).ok()
    })
}

/// Signs of programs that write here without our locks, in a directory that is said to be ours alone.
pub(super) fn foreign_writers(exam: &mut Exam<'_>) -> Result<(), BusError> {
    if exam.home.mode() != Mode::Native {
        return Ok(());
    }
    for name in files(exam.home, "pids", ".pid")? {
        let file = format!("pids/{name}.pid");
        // A pusher of muster's own has a note beside its number.
        if exam.home.path(&format!("pids/{name}.json")).exists() {
            continue;
        }
        if let Some(pid) = holder(&exam.home.path(&file)).filter(|pid| sessions::running(*pid, None)) {
            let why = format!(
                "process {pid} of another program serves this directory, and config.json says that only muster does; set \"mode\":\"shared\" and restart"
            );
            exam.find("foreign-writer", Warning, &file, why);
        }
    }
    for log in super::logs::all(exam.home)? {
        if unseen(exam.home, &log) {
            let why = "the last entries were not written by muster, or by one that was killed at that moment; if another program writes here, set \"mode\":\"shared\"";
            exam.find("foreign-writer", super::Severity::Info, &log, why);
        }
    }
    Ok(())
}

/// Whether a log holds bytes that its index has never seen, though it knows those before.
fn unseen(home: &Home, name: &str) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let seen = || {
        let file = open_plain(&home.path(name), fs::File::options().read(true)).ok()?;
        let meta = file.metadata().ok()?;
        let known = Index::look(&log::index_file(home, name))?.known(&file, meta.ino(), meta.len());
        Some(known.bytes > 0 && known.bytes < meta.len())
    };
    seen().unwrap_or(false)
}
