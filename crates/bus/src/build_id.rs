//! Which build of muster this process runs, and whether the one on the disk is another: merging is not deploying, and installing is not restarting. Never compares by name or version alone.

use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::error::{BusError, failed};

/// What tells two files, or two states of one, apart without reading them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Print {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last change of its content.
    changed: (i64, i64),
}

impl Print {
    fn of(meta: &Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.mtime(), meta.mtime_nsec()),
        }
    }
}

/// The file this process runs, whatever stands under its name by now.
const RUNNING: &str = "/proc/self/exe";

/// Where the executable of this process lies, or lay when it was replaced.
///
/// # Errors
/// A fault, when the system does not say.
pub fn module() -> Result<PathBuf, BusError> {
    let path = std::env::current_exe().map_err(|error| failed("find", Path::new(RUNNING), error))?;
    // The kernel says so of a file that was removed or replaced; the name before it is where a new build would stand.
    let name = path.to_string_lossy();
    Ok(name
        .strip_suffix(" (deleted)")
        .map(PathBuf::from)
        .unwrap_or_else(|| path.clone()))
}

/// The build that this process runs: 32 hexadecimal digits of its executable's SHA-256. Computed when it is first asked for, some tenths of a
/// second for a large file, and then known.
///
/// # Errors
/// A fault, when the executable cannot be read.
pub fn stamp() -> Result<&'static str, BusError> {
    static STAMP: OnceLock<String> = OnceLock::new();
    if let Some(stamp) = STAMP.get() {
        return Ok(stamp);
    }
    let mut file = running_file()?;
    let stamp = hash(&mut file).map_err(|error| failed("read", Path::new(RUNNING), error))?;
    Ok(STAMP.get_or_init(|| stamp))
}

fn running_file() -> Result<File, BusError> {
    match File::open(RUNNING) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A system without that file: the name is the best there is.
            let path = module()?;
            File::open(&path).map_err(|error| failed("open", &path, error))
        }
        other => other.map_err(|error| failed("open", Path::new(RUNNING), error)),
    }
}

/// The build that a process started now would run: the file on the disk at [`module`]. `None` when there is none. Read again only when the
/// file changed.
///
/// # Errors
/// A fault, when it cannot be read.
pub fn installed() -> Result<Option<String>, BusError> {
    static LAST: Mutex<Option<(Print, String)>> = Mutex::new(None);
    let path = module()?;
    let meta = match fs::metadata(&path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("look at", &path, error)),
    };
    let print = Print::of(&meta);
    if print == running_print()? {
        return stamp().map(|stamp| Some(stamp.to_owned()));
    }
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, stamp)) = last.as_ref()
        && *of == print
    {
        return Ok(Some(stamp.clone()));
    }
    let broke = |error| failed("read", &path, error);
    let stamp = File::open(&path)
        .and_then(|mut file| hash(&mut file))
        .map_err(broke)?;
    *last = Some((print, stamp.clone()));
    Ok(Some(stamp))
}

fn running_print() -> Result<Print, BusError> {
    let meta = running_file()?
        .metadata()
        .map_err(|error| failed("look at", Path::new(RUNNING), error))?;
    Ok(Print::of(&meta))
}

/// Whether a build is another than the one on the disk now. Without a file on the disk no build is behind it.
///
/// # Errors
/// A fault, when that cannot be told.
pub fn is_behind(stamp: &str) -> Result<bool, BusError> {
    Ok(installed()?.is_some_and(|installed| installed != stamp))
}

/// Whether this very process runs another build than the one on the disk. Costs no reading while nothing was installed.
///
/// # Errors
/// A fault, when that cannot be told.
pub fn running_is_behind() -> Result<bool, BusError> {
    let path = module()?;
    match fs::metadata(&path) {
        Ok(meta) if Print::of(&meta) == running_print()? => Ok(false),
        Ok(_) => is_behind(stamp()?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("look at", &path, error)),
    }
}

fn hash(file: &mut File) -> std::io::Result<String> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0_u8; 64 * 1024];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => sum.update(buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sum
        .finalize()
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
