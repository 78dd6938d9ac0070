//! The directory itself: may it be written, by whom, is there room, are the programs there. Never follows a link.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::unistd::AccessFlags;

use super::Severity::{Error, Info, Warning};
use super::{Exam, Fix, MAX_FILE, WHOLE};
use crate::error::{BusError, failed};
use crate::files::NotPlain;
use crate::home::open_to_others;
use crate::registry::Agents;
use crate::transports;

/// Less room than this, in bytes, is soon none.
const ROOM: u64 = 64 * 1024 * 1024;
/// Deepest folder that is looked into.
const DEEP: usize = 8;

/// Whether it can be written, and by whom read.
pub(super) fn directory(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let root = exam.home.root().to_owned();
    for folder in [
        WHOLE,
        "inbox",
        "cursors",
        "rooms",
        ".muster",
        ".muster/locks",
        ".muster/new",
    ] {
        let path = root.join(folder);
        match fs::symlink_metadata(&path) {
            Ok(meta) if !meta.is_dir() => exam.find(
                "directory",
                Error,
                folder,
                "a folder belongs here and something else stands in its place",
            ),
            Ok(_) => {
                if let Err(error) =
                    nix::unistd::access(&path, AccessFlags::R_OK | AccessFlags::W_OK | AccessFlags::X_OK)
                {
                    let why = format!(
                        "nothing can be written here ({}), so no message is accepted",
                        error.desc()
                    );
                    exam.find("directory", Error, folder, why);
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => exam.cannot("directory", folder, &failed("look at", &path, error)),
        }
    }
    if open_to_others(&root) {
        let why = "other users of this machine may look into the directory; with fix, only its owner may";
        exam.fixable("directory", Warning, WHOLE, why, |home| {
            fs::set_permissions(home.root(), Permissions::from_mode(0o700))
                .map_err(|error| failed("change the mode of", home.root(), error))?;
            Ok(Fix::Done)
        });
    }
    Ok(())
}

pub(super) fn disk_space(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let root = exam.home.root();
    let disk = nix::sys::statvfs::statvfs(root)
        .map_err(|error| failed("look at the disk of", root, error.into()))?;
    let left = disk.blocks_available().saturating_mul(disk.fragment_size());
    if left < ROOM {
        let why = format!(
            "{} MiB are left on this disk; when it is full no message is accepted",
            left / (1024 * 1024)
        );
        exam.find("disk-space", Warning, WHOLE, why);
    }
    Ok(())
}

/// The programs that the bus works with, as far as somebody chose them.
pub(super) fn programs(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let Some(path) = exam.options.path.clone() else {
        return Ok(());
    };
    let there = |name: &str| {
        std::env::split_paths(&path)
            .any(|folder| nix::unistd::access(&folder.join(name), AccessFlags::X_OK).is_ok())
    };
    let herdr = transports::configured(exam.home, |_| None)
        .is_ok_and(|chosen| chosen.kind == transports::TransportKind::Herdr);
    if herdr && !there("herdr") {
        exam.find(
            "missing-program",
            Warning,
            "herdr",
            "config.json chooses the transport herdr, and there is no herdr in PATH",
        );
    }
    if exam.home.path("scopes.json").exists() && !there("git") {
        exam.find(
            "missing-program",
            Warning,
            "git",
            "there is no git in PATH, so who wrote a document last cannot be told",
        );
    }
    // Whoever has an agent already knows where its client is.
    let nobody = Agents::load(exam.home).is_ok_and(|agents| agents.ids().next().is_none());
    if nobody && !["claude", "codex", "opencode", "gemini"].into_iter().any(there) {
        exam.find(
            "missing-program",
            Info,
            "claude",
            "no agent client is in PATH; agents on this machine would be started from somewhere else",
        );
    }
    Ok(())
}

/// Links are not followed, so what stands behind one is not part of the bus; and nothing is read or written through what is no file.
pub(super) fn links(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let mut odd = Vec::new();
    walk(exam, "symbolic-link", &mut |name, meta| {
        if let Some(NotPlain(what)) = NotPlain::of(meta.file_type()) {
            odd.push((name.to_owned(), meta.file_type().is_symlink(), what));
        }
    });
    for (name, link, what) in odd {
        let check = if link { "symbolic-link" } else { "not-a-file" };
        if is_of_a_file(&name, what == NotPlain::FOLDER) {
            let why = format!(
                "this is {what} where the bus keeps a file, so nothing is read from it or written through it; move it away, and put the file back if there was one"
            );
            exam.find(check, Error, &name, why);
        } else if link {
            exam.find(
                check,
                Warning,
                &name,
                "this is a link; doctor and prune do not follow it, and what it leads to is not looked after",
            );
        }
    }
    Ok(())
}

/// Where the bus keeps files, besides the directory itself.
const KEPT: [&str; 9] = [
    "inbox",
    "cursors",
    "rooms",
    "receipts",
    "sessions",
    "transports",
    "work",
    "archive",
    ".muster",
];

/// Whether a name is one that a file of the bus has. Some of its own names are those of folders as well.
fn is_of_a_file(name: &str, folder: bool) -> bool {
    let (top, rest) = name.split_once('/').unwrap_or(("", name));
    // Locks of other programs' kind wait here until they are taken, under the name of the file that they lock, and pass through.
    let lock = rest.strip_prefix("locks/").filter(|_| top == ".muster" && folder);
    if lock.is_some_and(|lock| lock.starts_with("stolen-") || lock.starts_with("taking-")) {
        return false;
    }
    let ending = Path::new(rest).extension().and_then(|ending| ending.to_str());
    if matches!(ending, Some("json" | "jsonl")) && (top.is_empty() || KEPT.contains(&top)) {
        return true;
    }
    match rest.split_once('/') {
        Some(("locks", _)) if folder => top == ".muster",
        Some(_) => top == ".muster" && !folder,
        None => false,
    }
}

pub(super) fn oversized(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let limit = exam.options.max_file_bytes.unwrap_or(MAX_FILE);
    let mut large = Vec::new();
    walk(exam, "oversized-file", &mut |name, meta| {
        if meta.is_file() && meta.len() > limit && !name.starts_with(".muster/") {
            large.push((name.to_owned(), meta.len()));
        }
    });
    for (name, size) in large {
        if name.starts_with("archive/") {
            let why = format!("{size} bytes; nothing reads the archive, so it may be moved to another disk");
            exam.find("oversized-file", Info, &name, why);
        } else {
            let why =
                format!("{size} bytes, and {limit} are the limit; prune moves old entries to the archive");
            exam.find("oversized-file", Warning, &name, why);
        }
    }
    Ok(())
}

/// Calls `each` with the name inside the directory and what it is, for everything below it.
fn walk(exam: &mut Exam<'_>, check: &'static str, each: &mut impl FnMut(&str, &fs::Metadata)) {
    let root = exam.home.root().to_owned();
    let mut folders = vec![(root.clone(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let shown = |path: &Path| {
            path.strip_prefix(&root)
                .unwrap_or(path)
                .to_string_lossy()
                .into_owned()
        };
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                exam.cannot(check, &shown(&folder), &failed("read", &folder, error));
                continue;
            }
        };
        for entry in entries.flatten() {
            let path = entry.path();
            // What goes away between the two looks was in passing.
            let Ok(meta) = fs::symlink_metadata(&path) else {
                continue;
            };
            each(&shown(&path), &meta);
            if meta.is_dir() && depth < DEEP {
                folders.push((path, depth + 1));
            }
        }
    }
}
