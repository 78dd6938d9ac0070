//! A lock for whoever goes on without it. Never waits longer than it was told, and takes nothing over.

use std::fs::TryLockError;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use super::{Directory, Held, enter, is_at, lock_file, open, taking};
use crate::home::{Home, Mode};

/// Between tries.
const PAUSE: Duration = Duration::from_millis(1);

/// Takes the lock of the file `name`: `None` when it is not free within `patience`, or cannot be had at all.
pub(crate) fn briefly(home: &Home, name: &str, patience: Duration) -> Option<Held> {
    let until = Instant::now() + patience;
    let path = lock_file(home, name);
    let file = loop {
        let file = open(&path).ok()?;
        match file.try_lock() {
            Ok(()) if is_at(&file, &path) => break file,
            Err(TryLockError::Error(_)) => return None,
            Ok(()) | Err(TryLockError::WouldBlock) => rest(until)?,
        }
    };
    let foreign = match home.mode() {
        Mode::Native => None,
        Mode::Shared => {
            let path = home.path(&format!("{name}.lock"));
            loop {
                match enter(home, name, &path, &file) {
                    Ok(made) => {
                        let aside = taking(home, name);
                        break Some(Directory { path, aside, made });
                    }
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => rest(until)?,
                    Err(_) => return None,
                }
            }
        }
    };
    Some(Held { foreign, _file: file })
}

fn rest(until: Instant) -> Option<()> {
    (Instant::now() < until).then(|| std::thread::sleep(PAUSE))
}
