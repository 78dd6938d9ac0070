//! One hand at a time on each pane: a kernel lock that every process of this user finds at the same place and that dies with its holder. Never waits without end.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::getuid;

/// Longer than one delivery takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A held lock.
#[derive(Debug)]
pub(crate) struct Held(#[expect(dead_code, reason = "holding it is its use")] File);

/// Takes the lock of `name`.
///
/// # Errors
/// Why not, as a sentence.
pub(crate) fn take(name: &str) -> Result<Held, String> {
    let path = folder()?.join(name);
    let failed = |error: std::io::Error| format!("the lock {} cannot be taken: {error}", path.display());
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::fcntl::OFlag::O_NOFOLLOW.bits())
        .open(&path)
        .map_err(failed)?;
    let end = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Held(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                return Err("another process of muster is typing into this pane".to_owned());
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
}

/// The folder of locks: not taken from the environment, in which two processes of one user may differ.
fn folder() -> Result<PathBuf, String> {
    let user = getuid().as_raw();
    let run = PathBuf::from(format!("/run/user/{user}"));
    let folder = if is_private(&run) {
        run.join("muster-panes")
    } else {
        PathBuf::from(format!("/tmp/muster-panes-{user}"))
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("the folder {} cannot be made: {error}", folder.display())),
    }
    if is_private(&folder) {
        Ok(folder)
    } else {
        Err(format!(
            "{} is not a folder that only this user may write, so nothing is typed; remove it",
            folder.display()
        ))
    }
}

fn is_private(folder: &Path) -> bool {
    fs::symlink_metadata(folder)
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == getuid().as_raw() && meta.mode() & 0o022 == 0)
}
