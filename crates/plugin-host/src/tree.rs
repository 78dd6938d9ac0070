//! A package's files: listed within limits, copied and hashed in one reading, verified later by `verify`. Never follows a link and never opens anything but a regular file.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use muster_core::text::unseen;
use nix::dir::Dir;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstatat};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::diagnostic::{Code, Diagnostic, shown};

/// Most files and folders in a package.
pub const MOST_ENTRIES: usize = 20_000;
/// Most folders within folders.
pub const MOST_LEVELS: usize = 32;
/// Largest file, in bytes.
pub const LARGEST_FILE: u64 = 256 * 1024 * 1024;
/// Largest package, in bytes.
pub const LARGEST_PACKAGE: u64 = 1024 * 1024 * 1024;

/// Folders that are neither copied nor hashed: what an interpreter or git writes beside the sources while one works on them. They are not in the
/// copy, so nothing of them runs.
pub const LEFT_OUT: [&str; 2] = ["__pycache__", ".git"];

/// What lies in a folder, by path with `/`.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) files: BTreeMap<String, u64>,
    pub(crate) folders: BTreeSet<String>,
    pub(crate) problems: Vec<Diagnostic>,
    /// There was too much to list, so what is not in the list may be there.
    pub(crate) cut: bool,
}

impl Listing {
    fn problem(&mut self, code: Code, path: &str, message: String) {
        // A folder full of links gets a few sentences, not thousands.
        if self.problems.len() < 50 {
            self.problems.push(Diagnostic::error(code, message).at(path));
        }
    }
}

/// Opens a package's folder: every file of it is opened below this, so that no name on the way can become a link meanwhile.
///
/// # Errors
/// When it is no folder, or a link.
pub(crate) fn open_root(root: &Path) -> io::Result<File> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(root)
}

/// Opens what lies at `path` below `root`, one part after the other; no part may be a link or lead up.
fn open_part_by_part(root: &File, path: &str, last: OFlag) -> io::Result<File> {
    let mut folder = root.try_clone()?;
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        if part == ".." {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it leads up"));
        }
        let kind = if parts.peek().is_some() {
            OFlag::O_DIRECTORY
        } else {
            last
        };
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | kind;
        let part = if part.is_empty() { "." } else { part };
        folder = File::from(openat(&folder, part, flags, Mode::empty())?);
    }
    Ok(folder)
}

/// Opens a regular file below `root` and nothing else: no link is followed anywhere on the way, no pipe is waited for.
pub(crate) fn open_below(root: &File, path: &str) -> io::Result<File> {
    regular(open_part_by_part(root, path, OFlag::O_NONBLOCK)?)
}

/// Reads a regular file below `root` of at most `limit` bytes.
pub(crate) fn read_below(root: &File, path: &str, limit: u64) -> io::Result<Vec<u8>> {
    read_opened(open_below(root, path)?, limit)
}

/// The kind and the length of what a folder holds under a name; a link is a link.
fn look_at(folder: &Dir, name: &CStr) -> io::Result<(SFlag, u64)> {
    let found = fstatat(folder, name, AtFlags::AT_SYMLINK_NOFOLLOW)?;
    let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
    Ok((kind, u64::try_from(found.st_size).unwrap_or_default()))
}

/// The names in a folder.
fn names_in(folder: &mut Dir) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in folder.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
        // Nobody fills the memory with names; a few over the limit, beside those that are left out, are enough to say so.
        if names.len() > MOST_ENTRIES + LEFT_OUT.len() {
            break;
        }
    }
    Ok(names)
}

/// Lists a package's folder. What must not be in a package is a problem and is not listed.
///
/// # Errors
/// When a folder cannot be read.
pub(crate) fn list(root: &Path) -> io::Result<Listing> {
    list_below(&open_root(root)?)
}

/// As [`list`], of a folder that is open.
pub(crate) fn list_below(root: &File) -> io::Result<Listing> {
    let mut listing = Listing::default();
    let mut total = 0_u64;
    let mut left = vec![(".".to_owned(), String::new(), 0_usize)];
    while let Some((folder, prefix, level)) = left.pop() {
        let mut folder = Dir::from_fd(open_part_by_part(root, &folder, OFlag::O_DIRECTORY)?.into())?;
        for entry in names_in(&mut folder)? {
            let Some(name) = entry
                .to_str()
                .ok()
                .filter(|name| name.chars().all(|c| unseen(c).is_none()))
            else {
                let path = format!("{prefix}{}", entry.to_string_lossy());
                let message = format!(
                    "the name of {} holds bytes or characters that cannot be shown; rename it",
                    shown(&path)
                );
                listing.problem(Code::UnsafePath, &path, message);
                continue;
            };
            let path = format!("{prefix}{name}");
            let (kind, length) = look_at(&folder, &entry)?;
            if kind == SFlag::S_IFDIR && LEFT_OUT.contains(&name) {
                continue;
            }
            if listing.files.len() + listing.folders.len() >= MOST_ENTRIES {
                let message = format!("the package has more than {MOST_ENTRIES} files and folders");
                listing.problem(Code::InvalidPluginPackage, &path, message);
                listing.cut = true;
                return Ok(listing);
            }
            if kind == SFlag::S_IFDIR {
                if level + 1 >= MOST_LEVELS {
                    let message = format!("{} lies deeper than {MOST_LEVELS} folders", shown(&path));
                    listing.problem(Code::InvalidPluginPackage, &path, message);
                    continue;
                }
                left.push((path.clone(), format!("{path}/"), level + 1));
                listing.folders.insert(path);
            } else if kind == SFlag::S_IFREG {
                total = total.saturating_add(length);
                if length > LARGEST_FILE || total > LARGEST_PACKAGE {
                    let message = format!(
                        "{} makes the package too large: a file may have {} MiB, a package {} MiB",
                        shown(&path),
                        LARGEST_FILE >> 20,
                        LARGEST_PACKAGE >> 20
                    );
                    listing.problem(Code::InvalidPluginPackage, &path, message);
                    if total > LARGEST_PACKAGE {
                        listing.cut = true;
                        return Ok(listing);
                    }
                    continue;
                }
                listing.files.insert(path, length);
            } else if kind == SFlag::S_IFLNK {
                let message = format!(
                    "{} is a symbolic link; put the file itself into the package",
                    shown(&path)
                );
                listing.problem(Code::UnsafePath, &path, message);
            } else {
                let message = format!(
                    "{} is neither a file nor a folder (a pipe, a socket or a device); remove it",
                    shown(&path)
                );
                listing.problem(Code::InvalidPluginPackage, &path, message);
            }
        }
    }
    Ok(listing)
}

/// Opens a regular file and nothing else: no link is followed, no pipe is waited for.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)?;
    regular(file)
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        ))
    }
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read_plain(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_opened(open_plain(path)?, limit)
}

/// Reads a regular file of at most `limit` bytes, also by a link: one of the owner's own files.
pub(crate) fn read_own(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is no regular file",
        ));
    }
    read_opened(file, limit)
}

fn read_opened(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {limit} bytes"),
        ));
    }
    Ok(bytes)
}

/// What a file's inode says, as far as it changes when the file does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    pub(crate) ctime: i64,
    pub(crate) nanos: i64,
}

impl Stamp {
    pub(crate) fn of(found: &Metadata) -> Self {
        Self {
            dev: found.dev(),
            ino: found.ino(),
            ctime: found.ctime(),
            nanos: found.ctime_nsec(),
        }
    }
}

/// One file of a stored copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// Whether it may be executed.
    pub(crate) exec: bool,
    /// Its length in bytes.
    pub(crate) size: u64,
    /// Its SHA-256.
    pub(crate) sha256: String,
    pub(crate) stamp: Stamp,
}

/// Everything in a stored copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) folders: BTreeSet<String>,
    pub(crate) files: BTreeMap<String, Stored>,
}

impl Index {
    /// The package's digest: SHA-256 over every folder and every file with its path, whether it may be executed, and its own SHA-256. Paths
    /// are written with their length, so that no two packages spell the same text.
    pub(crate) fn digest(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(b"muster package 1\n");
        for path in &self.folders {
            hash.update(format!("d {}:{path}\n", path.len()));
        }
        for (path, file) in &self.files {
            let exec = if file.exec { 'x' } else { '-' };
            hash.update(format!("f {exec} {} {}:{path}\n", file.sha256, path.len()));
        }
        hex(&hash.finalize())
    }
}

/// Copies what `listing` names from `from` into the new folder `to`, and hashes the bytes on their way: what is hashed is what is stored.
///
/// # Errors
/// Any failed read or write, a file that became another kind of thing, or grew over the limit. What was written stays for the caller to remove.
pub(crate) fn copy(from: &File, listing: &Listing, to: &Path) -> io::Result<Index> {
    DirBuilder::new().mode(0o700).create(to)?;
    for folder in &listing.folders {
        DirBuilder::new().mode(0o700).create(to.join(folder))?;
    }
    let total = AtomicU64::new(0);
    let files = in_parallel(listing.files.keys(), |path| {
        copy_file(open_below(from, path)?, &to.join(path), &total)
    })?;
    let folders = listing.folders.clone();
    // Nobody adds a file by mistake, an interpreter's cache for one.
    for folder in folders
        .iter()
        .rev()
        .map(|folder| to.join(folder))
        .chain([to.to_path_buf()])
    {
        fs::set_permissions(folder, Permissions::from_mode(0o555))?;
    }
    Ok(Index { folders, files })
}

fn copy_file(mut source: File, to: &Path, total: &AtomicU64) -> io::Result<Stored> {
    let exec = source.metadata()?.mode() & 0o111 != 0;
    let mut target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)?;
    let mut hash = Sha256::new();
    let mut size = 0_u64;
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let count = source.read(&mut buffer)?;
        let piece = buffer.get(..count).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        size += count as u64;
        if size > LARGEST_FILE || total.fetch_add(count as u64, Ordering::Relaxed) > LARGEST_PACKAGE {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                "it grew over the limit while it was read",
            ));
        }
        hash.update(piece);
        target.write_all(piece)?;
    }
    target.set_permissions(Permissions::from_mode(if exec { 0o555 } else { 0o444 }))?;
    Ok(Stored {
        exec,
        size,
        sha256: hex(&hash.finalize()),
        stamp: Stamp::of(&target.metadata()?),
    })
}

/// Hashes one file of a stored copy where it lies.
pub(crate) fn hash_file(root: &File, path: &str) -> io::Result<Stored> {
    let mut file = open_below(root, path)?;
    // The stamp from before the reading: a write meanwhile moves it on and is seen the next time.
    let found = file.metadata()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let count = file.read(&mut buffer)?;
        let piece = buffer.get(..count).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        hash.update(piece);
    }
    Ok(Stored {
        exec: found.mode() & 0o111 != 0,
        size: found.len(),
        sha256: hex(&hash.finalize()),
        stamp: Stamp::of(&found),
    })
}

/// Does `work` for every path on all cores; the first error ends it.
pub(crate) fn in_parallel<'a, T: Send>(
    paths: impl Iterator<Item = &'a String>,
    work: impl Fn(&str) -> io::Result<T> + Sync,
) -> io::Result<BTreeMap<String, T>> {
    let paths: Vec<&String> = paths.collect();
    let (next, broken) = (AtomicUsize::new(0), AtomicBool::new(false));
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(8)
        .min(paths.len().div_ceil(16).max(1));
    let run = || -> io::Result<Vec<(String, T)>> {
        let mut done = Vec::new();
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            if broken.load(Ordering::Relaxed) {
                break;
            }
            match work(path) {
                Ok(value) => done.push(((*path).clone(), value)),
                Err(error) => {
                    broken.store(true, Ordering::Relaxed);
                    return Err(io::Error::new(error.kind(), format!("{}: {error}", shown(path))));
                }
            }
        }
        Ok(done)
    };
    if threads == 1 {
        return Ok(run()?.into_iter().collect());
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let mut all = BTreeMap::new();
        for worker in workers {
            let done = worker
                .join()
                .map_err(|_| io::Error::other("a thread that hashes ended early"))??;
            all.extend(done);
        }
        Ok(all)
    })
}

/// The index of a folder, by reading every file. Folders that packages leave out are not in it.
///
/// # Errors
/// A failed read, or something in it that no package may hold.
pub(crate) fn index_of(root: &Path) -> io::Result<Index> {
    let root = open_root(root)?;
    let listing = list_below(&root)?;
    if let Some(problem) = listing.problems.first() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            problem.message.clone(),
        ));
    }
    let files = in_parallel(listing.files.keys(), |path| hash_file(&root, path))?;
    Ok(Index {
        folders: listing.folders,
        files,
    })
}

/// The digest of a package that lies in `root`, by reading every file.
///
/// # Errors
/// A failed read, or something in it that no package may hold.
pub fn digest_of(root: &Path) -> io::Result<String> {
    Ok(index_of(root)?.digest())
}

/// Replaces a file by another with the same name, readable for its owner alone. `durable`: it is on the disk when the call returns.
pub(crate) fn replace(path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(format!(".new-{}", random()?));
    let beside = PathBuf::from(beside);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)?;
        file.write_all(bytes)?;
        if durable {
            file.sync_all()?;
        }
        fs::rename(&beside, path)?;
        if let (true, Some(folder)) = (durable, path.parent()) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A short name that nothing else has.
pub(crate) fn random() -> io::Result<String> {
    muster_core::secret::random_hex::<8>().map_err(io::Error::other)
}

/// Removes a copy, although its folders are not to be written in.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    let mut left = vec![folder.to_path_buf()];
    while let Some(folder) = left.pop() {
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            }
        }
    }
    fs::remove_dir_all(folder)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_becomes_a_link_after_it_was_listed_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (package, secret) = (dir.path().join("package"), dir.path().join("secret"));
        fs::create_dir_all(package.join("a/data")).unwrap();
        fs::create_dir_all(secret.join("data")).unwrap();
        fs::write(package.join("a/data/file"), "good").unwrap();
        fs::write(secret.join("data/file"), "secret").unwrap();
        let root = open_root(&package).unwrap();
        let listing = list_below(&root).unwrap();
        assert_eq!(listing.files.keys().collect::<Vec<_>>(), ["a/data/file"]);
        copy(&root, &listing, &dir.path().join("first")).unwrap();
        fs::rename(package.join("a"), dir.path().join("aside")).unwrap();
        std::os::unix::fs::symlink(&secret, package.join("a")).unwrap();
        assert!(copy(&root, &listing, &dir.path().join("second")).is_err());
        assert!(
            !fs::read_to_string(dir.path().join("second/a/data/file")).is_ok_and(|text| text == "secret")
        );
        assert!(read_below(&root, "a/data/file", 100).is_err());
        assert!(read_below(&root, "../secret/data/file", 100).is_err());
        assert!(hash_file(&root, "a/data/file").is_err());
        // The folder itself stays the one that was opened.
        fs::rename(&package, dir.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(&secret, &package).unwrap();
        assert!(read_below(&root, "data/file", 100).is_err());
        assert!(open_root(&package).is_err());
    }
}
