//! One writer at a time for each file: kernel locks on private files, and beside them the directory locks of other programs in shared mode. Never waits without end and never trusts a timer to hold a lock.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::error::{BusError, failed};
use crate::files::open_plain;
use crate::home::{Home, Mode};

mod brief;
#[cfg(test)]
mod tests;

pub(crate) use brief::briefly;

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
        Mode::Shared => Some(Directory::take(home, name, &file)?),
    };
    Ok(Held { foreign, _file: file })
}

/// The private file whose kernel lock stands for `name`.
pub(crate) fn lock_file(home: &Home, name: &str) -> PathBuf {
    home.private("locks").join(name.replace('/', "+"))
}

/// Takes the lock file of `name` away if nobody holds it and `unused` says, under that lock, that it belongs to nothing any more. Whoever
/// waited for it sees that it went, and makes another. Answers whether it went.
///
/// # Errors
/// What `unused` answers; a fault.
pub(crate) fn discard(
    home: &Home,
    name: &str,
    unused: impl FnOnce() -> Result<bool, BusError>,
) -> Result<bool, BusError> {
    let path = lock_file(home, name);
    let file = match open_plain(&path, File::options().read(true).write(true)) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed("open", &path, error)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(failed("lock", &path, error)),
    }
    if !is_at(&file, &path) || !unused()? {
        return Ok(false);
    }
    fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
    Ok(true)
}

/// Whether an open file is the one that stands under its name.
fn is_at(file: &File, path: &Path) -> bool {
    let number = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => number(open) == number(there),
        _ => false,
    }
}

fn kernel(home: &Home, name: &str) -> Result<File, BusError> {
    let path = lock_file(home, name);
    let mut file = open(&path)?;
    let begun = Instant::now();
    let mut pause = Pause::default();
    loop {
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => return Ok(file),
            // It was taken away as one of nobody's while it was waited for: a lock on it keeps nobody out.
            Ok(()) if begun.elapsed() < PATIENCE => file = open(&path)?,
            Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => pause.rest(),
            Ok(()) | Err(TryLockError::WouldBlock) => {
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
    /// Where it waits while nobody holds it.
    aside: PathBuf,
    made: Made,
}

/// Which directory it is. The inode alone does not tell: the next one made often gets the same.
type Made = (u64, Option<SystemTime>);

fn made(meta: &fs::Metadata) -> Made {
    (meta.ino(), meta.created().ok())
}

/// Which directory the last holder among our own made, as it noted in the file of its kernel lock. Whoever holds that lock knows that this
/// holder is gone, so what it left behind need not grow stale first. Where the file system keeps no time of making, nothing is noted.
fn noted(file: &File) -> Option<Made> {
    let mut note = [0; NOTE];
    file.read_exact_at(&mut note, 0).ok()?;
    let (inode, created) = note.split_first_chunk::<8>()?;
    let nanos = u64::from_le_bytes(created.try_into().ok()?);
    let created = SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(nanos))?;
    Some((u64::from_le_bytes(*inode), Some(created)))
}

/// Bytes of that note: the inode, and nanoseconds since 1970.
const NOTE: usize = 16;

fn note(file: &File, (inode, created): Made) {
    let since = created.and_then(|created| created.duration_since(SystemTime::UNIX_EPOCH).ok());
    let Some(nanos) = since.and_then(|since| u64::try_from(since.as_nanos()).ok()) else {
        return;
    };
    let mut note = [0; NOTE];
    let (first, second) = note.split_at_mut(NOTE / 2);
    first.copy_from_slice(&inode.to_le_bytes());
    second.copy_from_slice(&nanos.to_le_bytes());
    // Without it a death costs the next one five seconds, as that of another program does.
    let _ = file.write_all_at(&note, 0);
}

/// How long a lock that was stolen is watched before it is trusted: another program that saw the same stale lock a moment ago removes
/// whatever stands there now.
const SETTLED: Duration = Duration::from_millis(50);

impl Directory {
    /// Takes the directory lock of `name`, whose kernel lock `file` the caller holds.
    fn take(home: &Home, name: &str, file: &File) -> Result<Self, BusError> {
        let path = home.path(&format!("{name}.lock"));
        let begun = Instant::now();
        let (mut tries, mut was_stale) = (0_u32, false);
        let mut left = noted(file);
        loop {
            match enter(home, name, &path, file) {
                Ok(made) => {
                    let lock = Self {
                        path: path.clone(),
                        aside: taking(home, name),
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
                    if let Some(left) = left.take().filter(|left| is_made(&path, *left)) {
                        was_stale = true;
                        take_over(home, &path, |aside| is_made(aside, left));
                    } else if stale(&path) {
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
        is_made(&self.path, self.made)
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
        if !self.stands() {
            return;
        }
        // Moved back for the next holder: to make one and remove it each time takes the file system ten times as long.
        if place(&self.path, &self.aside).is_err() {
            // What cannot be removed is taken over as stale after five seconds.
            let _ = fs::remove_dir(&self.path);
        } else if !is_made(&self.aside, self.made) {
            // It was taken over between the look and the move: its new holder gets it back.
            let _ = place(&self.aside, &self.path);
        }
    }
}

/// Whether a certain directory stands at a path.
fn is_made(path: &Path, which: Made) -> bool {
    fs::symlink_metadata(path).is_ok_and(|now| made(&now) == which)
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

/// Moves a stale lock away.
pub(crate) fn steal(home: &Home, path: &Path) {
    take_over(home, path, stale);
}

/// Moves a lock of nobody's away under a name of its own, so that of two who see it only one removes it.
fn take_over(home: &Home, path: &Path, nobodys: impl Fn(&Path) -> bool) {
    // Without a new name there is nowhere to move it to; the next try may have one.
    let Ok(name) = crate::fresh::id() else { return };
    let aside = home.private("locks").join(format!("stolen-{name}"));
    if fs::rename(path, &aside).is_err() {
        return;
    }
    if nobodys(&aside) {
        let _ = fs::remove_dir(&aside);
        tracing::warn!(lock = %path.display(), "a lock whose holder has ended, or no longer renewed it, was taken over");
    } else {
        // Between the look and the move somebody released it and another took it: give it back unless a third has it.
        let back = place(&aside, path);
        if back.is_err() {
            let _ = fs::remove_dir(&aside);
        }
    }
}

/// Where the directory lock of `name` is made, before it is moved into its place.
pub(crate) fn taking(home: &Home, name: &str) -> PathBuf {
    home.private("locks")
        .join(format!("taking-{}", name.replace('/', "+")))
}

/// Puts the lock directory in its place and answers which one it is. It waits elsewhere, where nobody else comes, is noted in `file`, and is
/// moved: so whoever dies has said which one is theirs, and one that another program removes as stale is known to be gone.
fn enter(home: &Home, name: &str, path: &Path, file: &File) -> std::io::Result<Made> {
    use std::io::ErrorKind::{AlreadyExists, InvalidInput, Unsupported};
    let make = |path: &Path| {
        DirBuilder::new().mode(0o755).create(path)?;
        fs::symlink_metadata(path).map(|meta| made(&meta))
    };
    if fs::symlink_metadata(path).is_ok() {
        return Err(AlreadyExists.into());
    }
    let aside = taking(home, name);
    let made = match fs::symlink_metadata(&aside) {
        Ok(waits) if waits.is_dir() => {
            // Its age is what other programs judge it by.
            touch(&aside)?;
            made(&waits)
        }
        _ => make(&aside)?,
    };
    note(file, made);
    match place(&aside, path) {
        Ok(()) => Ok(made),
        Err(error) if matches!(error.kind(), InvalidInput | Unsupported) => {
            // A file system that cannot move a thing only to where nothing is.
            let _ = fs::remove_dir(&aside);
            let made = make(path)?;
            note(file, made);
            Ok(made)
        }
        Err(error) => Err(error),
    }
}

/// Sets the time of a directory to now.
fn touch(path: &Path) -> std::io::Result<()> {
    use nix::fcntl::AT_FDCWD;
    use nix::sys::stat::{UtimensatFlags, utimensat};
    use nix::sys::time::TimeSpec;
    let now = TimeSpec::UTIME_NOW;
    Ok(utimensat(
        AT_FDCWD,
        path,
        &now,
        &now,
        UtimensatFlags::NoFollowSymlink,
    )?)
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
