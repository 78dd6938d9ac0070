//! Another program that shares the directory, written from its protocol and not from this crate: lock directories, a file emptied when it is believed absent, JSON rewritten in place. Never uses this crate's code.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A lock directory that is held.
pub(crate) struct Lock(PathBuf);

/// How a stale lock is taken away.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stealing {
    /// `rmdir`, without a second look, as the old program does.
    Removing,
    /// Moved aside first, as a careful one does.
    Moving,
}

/// Takes the lock of a file. The old program gives up after a second and a half; here it is tried for as long as a test lasts.
pub(crate) fn lock(file: &Path, stealing: Stealing) -> Lock {
    let dir = PathBuf::from(format!("{}.lock", file.display()));
    for round in 0_u32.. {
        match fs::create_dir(&dir) {
            Ok(()) => return Lock(dir),
            Err(_) if round > 100_000 => panic!("{} is never free", dir.display()),
            Err(_) => {}
        }
        if is_stale(&dir) {
            match stealing {
                Stealing::Removing => drop(fs::remove_dir(&dir)),
                Stealing::Moving => {
                    let aside = dir.with_extension(format!("aside-{}-{round}", std::process::id()));
                    if fs::rename(&dir, &aside).is_ok() {
                        fs::remove_dir(aside).unwrap();
                    }
                }
            }
            continue;
        }
        std::thread::sleep(Duration::from_micros(u64::from(200 + 37 * (round % 40))));
    }
    unreachable!("the loop above ends by itself")
}

fn is_stale(dir: &Path) -> bool {
    fs::metadata(dir)
        .and_then(|meta| meta.modified())
        .is_ok_and(|then| then.elapsed().is_ok_and(|age| age > Duration::from_secs(5)))
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Without a look whether it is still its own.
        let _ = fs::remove_dir(&self.0);
    }
}

impl Lock {
    /// What a holder does every two and a half seconds.
    pub(crate) fn renew(&self) {
        set_age(&self.0, Duration::ZERO);
    }
}

/// Sets the time of a file or folder to so long ago.
pub(crate) fn set_age(path: &Path, age: Duration) {
    File::open(path).unwrap().set_modified(now() - age).unwrap();
}

/// The present, by the file system's own clock.
fn now() -> SystemTime {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().metadata().unwrap().modified().unwrap()
}

/// Makes a file unless it is there, without a lock: a look, then an emptying. Between them lies `pause`.
pub(crate) fn ensure(file: &Path, pause: Duration) {
    if !file.exists() {
        std::thread::sleep(pause);
        fs::write(file, "").unwrap();
    }
}

/// Appends a line as the protocol wants it.
pub(crate) fn append(file: &Path, line: &str, stealing: Stealing) {
    let _held = lock(file, stealing);
    let mut file = File::options().append(true).create(true).open(file).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Changes a JSON file under its lock, in place: emptied first, filled a moment later.
pub(crate) fn rewrite(
    file: &Path,
    pause: Duration,
    change: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>),
) {
    let _held = lock(file, Stealing::Removing);
    let mut value = serde_json::from_slice(&fs::read(file).unwrap_or_default()).unwrap_or_default();
    change(&mut value);
    fs::write(file, "").unwrap();
    std::thread::sleep(pause);
    fs::write(file, serde_json::to_vec_pretty(&value).unwrap()).unwrap();
}

/// Writes a cursor as the hook does: beside it and renamed, under no lock.
pub(crate) fn hook_cursor(file: &Path, text: &str) {
    let beside = file.with_extension(format!("tmp-{}", std::process::id()));
    fs::write(&beside, text).unwrap();
    fs::rename(beside, file).unwrap();
}

/// A message of another program.
pub(crate) fn message(id: &str, to: &str) -> String {
    format!(
        "{{\"id\":\"{id}\",\"ts\":1700000000000,\"from\":\"old\",\"to\":\"{to}\",\"text\":\"text of {id}\"}}"
    )
}
