//! The file of the key. Never writes over one, and never leaves half of one under its name.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use muster_core::Fault;
use muster_core::secret::random_hex;
use muster_core::text::terminal;

use super::SealError;

/// The file's name in the data folder.
const NAME: &str = "secret.key";
/// A key's length in bytes.
pub(super) const LENGTH: usize = 32;

/// Where the key of this data folder lies.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// A path for a sentence.
pub(super) fn shown(path: &Path) -> String {
    terminal(&path.display().to_string())
}

fn unusable(path: &Path, error: &std::io::Error) -> SealError {
    SealError::Unusable {
        path: shown(path),
        reason: error.to_string(),
    }
}

/// Reads the key; `None` when there is no such file. A key that others could read is closed to them first.
pub(super) fn read(folder: &Path) -> Result<Option<[u8; LENGTH]>, SealError> {
    let path = path(folder);
    let failed = |error: std::io::Error| unusable(&path, &error);
    let damaged = || SealError::Damaged { path: shown(&path) };
    // Before it is opened: a pipe under this name would be waited for.
    match std::fs::metadata(&path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(damaged()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(damaged());
    }
    let mode = found.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))
            .map_err(failed)?;
        tracing::warn!(
            path = shown(&path),
            mode = format!("{mode:03o}"),
            "other users of this machine could read the key of the stored secrets; the file now has mode 600"
        );
    }
    let mut bytes = Vec::with_capacity(LENGTH);
    // One byte more than a key has, so that a longer file is known as one.
    file.take(LENGTH as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    <[u8; LENGTH]>::try_from(bytes).map(Some).map_err(|_| damaged())
}

/// Makes a key unless one is there by now. It gets its name when it is whole and on the disk; of several who do this at once one wins, and
/// all have its key.
pub(super) fn make(folder: &Path) -> Result<(), SealError> {
    let path = path(folder);
    let failed = |error: std::io::Error| unusable(&path, &error);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(failed)?;
    let mut bytes = [0_u8; LENGTH];
    getrandom::fill(&mut bytes).map_err(|_| Fault::other("no key could be made: no random bytes"))?;
    let fresh = folder.join(format!(".{NAME}.{}", random_hex::<8>().map_err(Fault::from)?));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| {
            file.write_all(&bytes)?;
            file.sync_all()
        });
    // A link takes a name that is free and no other.
    let linked = written.and_then(|()| match std::fs::hard_link(&fresh, &path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    });
    let removed = std::fs::remove_file(&fresh);
    linked
        .and(removed)
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_key_is_made_once_for_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("data");
        assert_eq!(read(&inside).unwrap(), None);
        make(&inside).unwrap();
        let first = read(&inside).unwrap().unwrap();
        make(&inside).unwrap();
        assert_eq!(read(&inside).unwrap().unwrap(), first);
        let mode = std::fs::metadata(path(&inside)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(names(&inside), [NAME]);
        let other = tempfile::tempdir().unwrap();
        make(other.path()).unwrap();
        assert_ne!(read(other.path()).unwrap().unwrap(), first);
    }

    #[test]
    fn those_who_make_one_at_once_have_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let keys: Vec<_> = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..16)
                .map(|_| {
                    scope.spawn(|| {
                        make(folder.path()).unwrap();
                        read(folder.path()).unwrap().unwrap()
                    })
                })
                .collect();
            makers.into_iter().map(|maker| maker.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|key| *key == keys[0]));
        assert_eq!(names(folder.path()), [NAME]);
    }

    #[test]
    fn what_is_no_key_is_not_used_and_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = path(folder.path());
        for wrong in [&b""[..], &[7; 31], &[7; 33], &[7; 5000]] {
            std::fs::write(&file, wrong).unwrap();
            assert!(matches!(read(folder.path()), Err(SealError::Damaged { .. })));
            make(folder.path()).unwrap();
            assert_eq!(std::fs::read(&file).unwrap(), wrong);
        }
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(matches!(read(folder.path()), Err(SealError::Damaged { .. })));
        std::fs::remove_dir(&file).unwrap();
        // Nobody writes into it, and nobody waits for that.
        let made = std::process::Command::new("mkfifo").arg(&file).status().unwrap();
        assert!(made.success());
        assert!(matches!(read(folder.path()), Err(SealError::Damaged { .. })));
    }

    #[test]
    fn a_key_that_others_could_read_is_closed_to_them() {
        let folder = tempfile::tempdir().unwrap();
        make(folder.path()).unwrap();
        let file = path(folder.path());
        std::fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert!(read(folder.path()).unwrap().is_some());
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
}
