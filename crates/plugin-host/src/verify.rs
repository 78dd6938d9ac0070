//! Whether a stored copy is what was installed, asked at every start. Never reads a file that cannot have changed, and never believes one that can.
//!
//! **Verifying without reading.** A stored copy has an index: for each file its SHA-256 and its stamp (device, inode, size, mode and the time of
//! the last change of its inode, ctime). No program can set a ctime; the kernel moves it at every write, truncation, rename of a link, change
//! of mode or of mtime. So a file whose stamp is the one in the index holds the bytes that were hashed, unless it was changed within one tick
//! of the clock of being hashed. That is why a stamp counts only when its ctime lies at least two seconds before the ctime of the index file
//! itself, which was written after the hashing, by the same clock; a younger one is read and hashed again, and the index written anew. A
//! file or folder that is not in the index, or not in the folder, fails the verification. What is left is who may write the index, or write
//! through a memory mapping that was there before the hashing, which moves the ctime late or not at all: the same user, who may write the
//! approvals too.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::diagnostic::shown;
use crate::tree::{
    Index, LEFT_OUT, MOST_ENTRIES, Stamp, hash_file, in_parallel, index_of, list, open_plain, open_root,
    remove, replace,
};

/// How much older than the index a stamp must be to count.
const SETTLED_SECONDS: i64 = 2;

/// How thoroughly to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Files whose stamps say that they did not change are not read.
    Stamps,
    /// Every file is read.
    Bytes,
}

/// Why a stored copy may not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotWhatWasInstalled {
    #[error("the stored copy is missing")]
    Missing,
    #[error("{0} in the stored copy is not what was installed")]
    Differs(String),
    #[error("the stored copy could not be read ({0})")]
    Unreadable(io::Error),
}

/// Checks that `root` holds exactly what has the digest `digest`. What interpreters left there (`__pycache__`) is removed first, so that it
/// cannot run either.
///
/// # Errors
/// What differs, in a sentence.
pub(crate) fn verify(
    root: &Path,
    index_path: &Path,
    digest: &str,
    depth: Depth,
) -> Result<Index, NotWhatWasInstalled> {
    let unreadable = NotWhatWasInstalled::Unreadable;
    match fs::symlink_metadata(root) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(NotWhatWasInstalled::Missing),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(NotWhatWasInstalled::Missing),
        Err(error) => return Err(unreadable(error)),
    }
    remove_left_out(root).map_err(unreadable)?;
    let known = read_index(index_path).filter(|(index, _)| index.digest() == digest);
    let Some((mut index, written)) = known.filter(|_| depth == Depth::Stamps) else {
        let index = index_of(root).map_err(unreadable)?;
        if index.digest() != digest {
            return Err(NotWhatWasInstalled::Differs("a file".to_owned()));
        }
        let _ = write_index(index_path, &index);
        return Ok(index);
    };
    let listing = list(root).map_err(unreadable)?;
    if let Some(problem) = listing.problems.first() {
        return Err(NotWhatWasInstalled::Differs(
            problem.field.clone().unwrap_or_default(),
        ));
    }
    let differs = |path: &str| NotWhatWasInstalled::Differs(shown(path));
    if let Some(path) = listing.folders.symmetric_difference(&index.folders).next() {
        return Err(differs(path));
    }
    let strange = |path: &&String| !index.files.contains_key(*path);
    if let Some(path) = listing.files.keys().find(strange) {
        return Err(differs(path));
    }
    let mut doubtful = Vec::new();
    for (path, file) in &index.files {
        let found = fs::symlink_metadata(root.join(path)).map_err(|_| differs(path))?;
        if !found.is_file() || found.len() != file.size || (found.mode() & 0o111 != 0) != file.exec {
            return Err(differs(path));
        }
        let settled = file.stamp.ctime.saturating_add(SETTLED_SECONDS) <= written;
        if Stamp::of(&found) != file.stamp || !settled {
            doubtful.push(path);
        }
    }
    if doubtful.is_empty() {
        return Ok(index);
    }
    let opened = open_root(root).map_err(unreadable)?;
    let read = in_parallel(doubtful.into_iter(), |path| hash_file(&opened, path)).map_err(unreadable)?;
    for (path, now) in read {
        match index.files.get_mut(&path) {
            Some(file) if file.sha256 == now.sha256 && file.exec == now.exec => *file = now,
            _ => return Err(differs(&path)),
        }
    }
    // An index that cannot be renewed costs time at the next start, never trust.
    let _ = write_index(index_path, &index);
    Ok(index)
}

/// The index and when the file was written, by the clock of its file system.
fn read_index(path: &Path) -> Option<(Index, i64)> {
    let mut file = open_plain(path).ok()?;
    let written = file.metadata().ok()?.ctime();
    let mut text = Vec::new();
    file.read_to_end(&mut text).ok()?;
    Some((serde_json::from_slice(&text).ok()?, written))
}

/// The index alone, for a comparison of two copies.
pub(crate) fn stored_index(path: &Path) -> Option<Index> {
    read_index(path).map(|(index, _)| index)
}

/// Writes the index beside the copy, whole.
pub(crate) fn write_index(path: &Path, index: &Index) -> io::Result<()> {
    replace(path, &serde_json::to_vec(index)?, false)
}

fn remove_left_out(root: &Path) -> io::Result<()> {
    let mut left = vec![root.to_path_buf()];
    let mut seen = 0;
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            seen += 1;
            if seen > MOST_ENTRIES || !entry.file_type()?.is_dir() {
                continue;
            }
            if entry
                .file_name()
                .to_str()
                .is_some_and(|name| LEFT_OUT.contains(&name))
            {
                remove(&entry.path())?;
            } else {
                left.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;
    use crate::diagnostic::Code;
    use crate::tree::{copy, digest_of};

    fn package() -> (tempfile::TempDir, PathBuf, PathBuf, Index) {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("source");
        fs::create_dir_all(source.join("mcp/__pycache__")).unwrap();
        fs::write(source.join("mcp/server.py"), "print(1)").unwrap();
        fs::write(source.join("mcp/__pycache__/x.pyc"), "x").unwrap();
        fs::write(source.join("README"), "read me").unwrap();
        let (root, index_path) = (dir.path().join("copy"), dir.path().join("index.json"));
        let index = copy(&open_root(&source).unwrap(), &list(&source).unwrap(), &root).unwrap();
        write_index(&index_path, &index).unwrap();
        (dir, root, index_path, index)
    }

    #[test]
    fn the_digest_is_that_of_the_same_files_wherever_they_lie() {
        let (dir, root, _, index) = package();
        assert_eq!(digest_of(&dir.path().join("source")).unwrap(), index.digest());
        assert_eq!(digest_of(&root).unwrap(), index.digest());
        assert!(!root.join("mcp/__pycache__").exists());
    }

    // spec: TRU-024
    #[test]
    fn every_change_of_a_stored_copy_is_seen_without_reading_what_did_not_change() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 8] = [
            ("another byte", |root| {
                fs::set_permissions(root.join("README"), Permissions::from_mode(0o644)).unwrap();
                fs::write(root.join("README"), "read mf").unwrap();
                fs::set_permissions(root.join("README"), Permissions::from_mode(0o444)).unwrap();
            }),
            ("a longer file", |root| {
                fs::write(root.join("README"), "read me!").unwrap()
            }),
            ("a file less", |root| {
                fs::remove_file(root.join("README")).unwrap()
            }),
            ("a file more", |root| fs::write(root.join("more"), "").unwrap()),
            ("a folder more", |root| fs::create_dir(root.join("more")).unwrap()),
            ("a link in its place", |root| {
                fs::rename(root.join("README"), root.parent().unwrap().join("moved")).unwrap();
                std::os::unix::fs::symlink("../moved", root.join("README")).unwrap();
            }),
            ("another mode", |root| {
                fs::set_permissions(root.join("README"), Permissions::from_mode(0o555)).unwrap();
            }),
            ("another file under its name", |root| {
                fs::write(root.join("new"), "read mf").unwrap();
                fs::rename(root.join("new"), root.join("README")).unwrap();
            }),
        ];
        for (name, change) in changes {
            let (_dir, root, index_path, index) = package();
            for entry in [root.clone(), root.join("mcp")] {
                fs::set_permissions(entry, Permissions::from_mode(0o755)).unwrap();
            }
            assert!(verify(&root, &index_path, &index.digest(), Depth::Stamps).is_ok());
            fs::set_permissions(root.join("README"), Permissions::from_mode(0o644)).unwrap();
            change(&root);
            for depth in [Depth::Stamps, Depth::Bytes] {
                assert!(
                    verify(&root, &index_path, &index.digest(), depth).is_err(),
                    "{name} {depth:?}"
                );
            }
        }
    }

    #[test]
    fn a_stamp_counts_only_when_the_index_is_younger_than_the_clock_is_coarse() {
        let (_dir, root, index_path, mut index) = package();
        let digest = index.digest();
        // Just written: the stamps are too young to count, so a wrong one costs a reading and nothing else.
        for file in index.files.values_mut() {
            file.stamp.ino += 1;
        }
        write_index(&index_path, &index).unwrap();
        assert!(verify(&root, &index_path, &digest, Depth::Stamps).is_ok());
        let renewed = stored_index(&index_path).unwrap();
        assert_ne!(renewed, index);
        // An index whose stamps claim to be old is believed only where they match: same length, same mode, other bytes.
        fs::set_permissions(root.join("README"), Permissions::from_mode(0o644)).unwrap();
        fs::write(root.join("README"), "read mf").unwrap();
        assert!(verify(&root, &index_path, &digest, Depth::Stamps).is_err());
    }

    #[test]
    fn what_an_interpreter_left_in_the_copy_is_gone_before_anything_runs() {
        let (_dir, root, index_path, index) = package();
        fs::set_permissions(root.join("mcp"), Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(root.join("mcp/__pycache__")).unwrap();
        fs::write(root.join("mcp/__pycache__/server.cpython-311.pyc"), "evil").unwrap();
        assert!(verify(&root, &index_path, &index.digest(), Depth::Stamps).is_ok());
        assert!(!root.join("mcp/__pycache__").exists());
    }

    #[test]
    fn links_pipes_and_names_that_cannot_be_shown_are_problems_and_nothing_hangs() {
        use std::os::unix::ffi::OsStrExt as _;
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        nix::unistd::mkfifo(&dir.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(dir.path().join("a\u{202e}b"), "").unwrap();
        fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"\xff")), "").unwrap();
        let listing = list(dir.path()).unwrap();
        let mut codes: Vec<Code> = listing.problems.iter().map(|problem| problem.code).collect();
        codes.sort();
        assert_eq!(
            codes,
            [
                Code::InvalidPluginPackage,
                Code::UnsafePath,
                Code::UnsafePath,
                Code::UnsafePath
            ]
        );
        assert!(listing.files.is_empty());
        assert!(open_plain(&dir.path().join("pipe")).is_err());
        assert!(open_plain(&dir.path().join("link")).is_err());
    }
}
