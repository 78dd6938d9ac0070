//! One writer at a time for each file: kernel locks on private files, and beside them the directory locks of other programs in shared mode. Never waits without end and never trusts a timer to hold a lock.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::error::{BusError, failed};
use crate::files::open_plain;
use crate::home::{Home, Mode};

#[cfg(test)]
mod tests;

/// How long a lock is waited for. Every holder of ours needs well under a second; the foreign protocol steals after five.
const PATIENCE: Duration = Duration::from_secs(10);
/// Age at which a foreign lock directory belongs to nobody any more: its holder renews it every 2.5 s.
const STALE: Duration = Duration::from_secs(5);
/// A holder that has just begun sets the time of its lock up to a second ahead.
const AHEAD: Duration = Duration::from_secs(1);

/// A held lock. Dropping it gives it back; the kernel does that for a process that dies.
pub(crate) struct Held {
    /// Dropped first: the directory of other programs goes before the lock among our own.
    foreign: Option<Directory>,
    _file: File,
}

impl Held {
    /// Tells other programs that this holder lives. To be called at least every two seconds by whoever holds a lock for long.
    ///
    /// # Errors
    /// [`BusError::Held`] when another program took the lock over: what was begun must be given up.
    pub(crate) fn renew(&self) -> Result<(), BusError> {
        self.foreign.as_ref().map_or(Ok(()), Directory::renew)
    }
}

/// Takes the lock of the file `name` (its path inside the directory).
///
/// # Errors
/// [`BusError::Held`] after ten seconds; a fault.
pub(crate) fn lock(home: &Home, name: &str) -> Result<Held, BusError> {
    let file = kernel(home, name)?;
    let foreign = match home.mode() {
        Mode::Native => None,
        Mode::Shared => Some(Directory::take(home, name)?),
    };
    Ok(Held { foreign, _file: file })
}

/// The private file whose kernel lock stands for `name`.
pub(crate) fn lock_file(home: &Home, name: &str) -> PathBuf {
    home.private("locks").join(name.replace('/', "+"))
}

fn kernel(home: &Home, name: &str) -> Result<File, BusError> {
    let path = lock_file(home, name);
    let file = open(&path)?;
    let begun = Instant::now();
    let mut pause = Pause::default();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => pause.rest(),
            Err(TryLockError::WouldBlock) => {
                return Err(BusError::Held {
                    file: name.to_owned(),
                    holder: holder(&file),
                    seconds: PATIENCE.as_secs(),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock", &path, error)),
        }
    }
}

fn open(path: &Path) -> Result<File, BusError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    match open_plain(path, &options) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // The directory was removed and made again under a running process, which the text allows as a reset.
            crate::home::make_folder(path.parent().unwrap_or(path))?;
            open_plain(path, &options).map_err(|error| failed("open", path, error))
        }
        other => other.map_err(|error| failed("open", path, error)),
    }
}

/// Waits a little longer each time: first only lets others run, then sleeps, from 20 µs to a millisecond.
#[derive(Default)]
struct Pause(u32);

impl Pause {
    fn rest(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 < 16 {
            std::thread::yield_now();
        } else {
            let micros = 20_u64.saturating_mul(1 << (self.0 - 16).min(6));
            std::thread::sleep(Duration::from_micros(micros.min(1_000)));
        }
    }
}

/// Who holds the kernel lock of `file`, by the kernel's own list.
fn holder(file: &File) -> String {
    let unknown = || "a process that cannot be told".to_owned();
    let (Ok(meta), Ok(locks)) = (file.metadata(), fs::read_to_string("/proc/locks")) else {
        return unknown();
    };
    let inode = format!(":{} ", meta.ino());
    let pid = locks
        .lines()
        .filter(|line| line.contains(&inode) && !line.contains("->"))
        .find_map(|line| line.split_ascii_whitespace().nth(4)?.parse::<u32>().ok());
    pid.map_or_else(unknown, |pid| format!("process {pid}"))
}

/// The lock directory of the programs that share the directory: `<file>.lock`, made and removed.
pub(crate) struct Directory {
    path: PathBuf,
    made: Made,
}

/// Which directory it is. The inode alone does not tell: the next one made often gets the same.
type Made = (u64, Option<SystemTime>);

fn made(meta: &fs::Metadata) -> Made {
    (meta.ino(), meta.created().ok())
}

/// How long a lock that was stolen is watched before it is trusted: another program that saw the same stale lock a moment ago removes
/// whatever stands there now.
const SETTLED: Duration = Duration::from_millis(50);

impl Directory {
    fn take(home: &Home, name: &str) -> Result<Self, BusError> {
        let path = home.path(&format!("{name}.lock"));
        let begun = Instant::now();
        let (mut tries, mut was_stale) = (0_u32, false);
        loop {
            match enter(home, &path, was_stale) {
                Ok(made) => {
                    let lock = Self {
                        path: path.clone(),
                        made,
                    };
                    if was_stale {
                        std::thread::sleep(SETTLED);
                    }
                    if !was_stale || lock.stands() {
                        return Ok(lock);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    if begun.elapsed() >= PATIENCE {
                        return Err(BusError::Held {
                            file: name.to_owned(),
                            holder: "another program's lock directory".to_owned(),
                            seconds: PATIENCE.as_secs(),
                        });
                    }
                    if stale(&path) {
                        was_stale = true;
                        steal(home, &path);
                    } else {
                        tries = tries.saturating_add(1);
                        std::thread::sleep(backoff(tries));
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    crate::home::make_folder(path.parent().unwrap_or(&path))?;
                }
                Err(error) => return Err(failed("lock", &path, error)),
            }
        }
    }
}

impl Directory {
    /// Whether it is still the one that was made.
    fn stands(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|now| made(&now) == self.made)
    }

    /// Sets its time to now, as long as it is the one that was made.
    fn renew(&self) -> Result<(), BusError> {
        use nix::fcntl::OFlag;
        use nix::sys::stat::futimens;
        use nix::sys::time::TimeSpec;
        let gone = || BusError::Held {
            file: self.path.display().to_string(),
            holder: "another program, which took the lock over".to_owned(),
            seconds: STALE.as_secs(),
        };
        // Without waiting, should a pipe stand there by now.
        let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let opened = File::options()
            .read(true)
            .custom_flags(flags.bits())
            .open(&self.path);
        let ours = opened.ok().filter(|lock| {
            lock.metadata()
                .is_ok_and(|now| now.is_dir() && made(&now) == self.made)
        });
        let lock = ours.ok_or_else(gone)?;
        futimens(&lock, &TimeSpec::UTIME_NOW, &TimeSpec::UTIME_NOW)
            .map_err(|error| failed("renew the lock", &self.path, error.into()))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Somebody who thought this lock stale may have taken it; theirs is not removed.
        if self.stands() {
            // What cannot be removed is taken over as stale after five seconds.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Between tries: from half a millisecond to ten, never the same twice for two processes.
fn backoff(tries: u32) -> Duration {
    let step = 250_u64.saturating_mul(1 << tries.min(5));
    let jitter = u64::from(std::process::id()).wrapping_mul(2_654_435_761)
        ^ SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |now| u64::from(now.subsec_nanos()));
    Duration::from_micros(step / 2 + jitter % step.max(1))
}

/// Whether the holder of a lock directory has stopped renewing it.
pub(crate) fn stale(path: &Path) -> bool {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return false;
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "compared with a time that the file system set, which no test moves either"
    )]
    let now = SystemTime::now();
    meta.modified().is_ok_and(|renewed| {
        now.duration_since(renewed).map_or_else(
            // A time further ahead than the protocol sets it was never set by a holder that lives.
            |error| error.duration() > AHEAD + STALE,
            |age| age > STALE,
        )
    })
}

/// Moves a stale lock away under a name of its own, so that of two who see it stale only one removes it.
pub(crate) fn steal(home: &Home, path: &Path) {
    // Without a new name there is nowhere to move it to; the next try may have one.
    let Ok(name) = crate::fresh::id() else { return };
    let aside = home.private("locks").join(format!("stolen-{name}"));
    if fs::rename(path, &aside).is_err() {
        return;
    }
    if stale(&aside) {
        let _ = fs::remove_dir(&aside);
        tracing::warn!(lock = %path.display(), "a lock that its holder no longer renewed was taken over");
    } else {
        // Between the look and the move somebody released it and another took it: give it back unless a third has it.
        let back = place(&aside, path);
        if back.is_err() {
            let _ = fs::remove_dir(&aside);
        }
    }
}

/// Makes the lock directory and answers which one it is. After a stale one another program may remove what stands there at any moment, so
/// then it is made elsewhere, known before anybody can reach it, and moved into its place.
fn enter(home: &Home, path: &Path, was_stale: bool) -> std::io::Result<Made> {
    let make = |path: &Path| {
        DirBuilder::new().mode(0o755).create(path)?;
        fs::symlink_metadata(path).map(|meta| made(&meta))
    };
    if !was_stale {
        return make(path);
    }
    let name = crate::fresh::id().map_err(std::io::Error::other)?;
    let aside = home.private("locks").join(format!("taking-{name}"));
    let made = make(&aside)?;
    let placed = place(&aside, path);
    if placed.is_err() {
        let _ = fs::remove_dir(&aside);
    }
    placed.map(|()| made)
}

/// Moves a directory to where nothing stands.
fn place(from: &Path, to: &Path) -> std::io::Result<()> {
    use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
    Ok(renameat2(
        AT_FDCWD,
        from,
        AT_FDCWD,
        to,
        RenameFlags::RENAME_NOREPLACE,
    )?)
}
