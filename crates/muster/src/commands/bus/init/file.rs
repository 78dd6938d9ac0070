//! A file of somebody else's program: read, kept aside, replaced whole. Never leaves half of one, and never makes one readable that was not.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::shown;
use crate::output::Failure;

/// The largest settings file that is read. Those of people are a few kilobytes, Claude Code's own list of projects a few megabytes.
const MAX: u64 = 32 * 1024 * 1024;
/// So many copies of one file are kept before a person is asked to look.
const COPIES: u32 = 1_000;

/// What stood at a path.
pub(super) struct Found {
    /// Where the file itself is, behind whatever links lead to it.
    path: PathBuf,
    text: Option<String>,
    mode: u32,
}

impl Found {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let unreadable = |error: std::io::Error| {
            Failure::refused(
                "settings",
                format!("{} cannot be read ({error}), so nothing was changed", shown(path)),
            )
        };
        let path = match fs::canonicalize(path) {
            Ok(path) => path,
            Err(error) if error.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
                return Ok(Self {
                    path: path.to_owned(),
                    text: None,
                    mode: 0o600,
                });
            }
            Err(error) => return Err(unreadable(error)),
        };
        let (text, mode) = whole(&path).map_err(unreadable)?;
        Ok(Self {
            text: Some(text),
            mode,
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_there(&self) -> bool {
        self.text.is_some()
    }

    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Keeps the file as it is beside it and replaces it. Answers where it was kept.
    pub(super) fn replace(&self, text: &str) -> Result<Option<PathBuf>, Failure> {
        let failed = |error: std::io::Error| {
            Failure::refused(
                "settings",
                format!(
                    "{} could not be written ({error}); it stands as it was",
                    shown(&self.path)
                ),
            )
        };
        let folder = self.path.parent().unwrap_or(Path::new("."));
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
        let backup = match &self.text {
            Some(text) => Some(self.keep(text).map_err(failed)?),
            None => None,
        };
        self.put(text).map_err(failed)?;
        Ok(backup)
    }

    /// Keeps the file as it is under a name that nothing has: what an earlier run kept may be the only copy of what a person wrote.
    fn keep(&self, text: &str) -> std::io::Result<PathBuf> {
        for number in 0..COPIES {
            let end = match number {
                0 => ".before-muster".to_owned(),
                number => format!(".before-muster.{number}"),
            };
            let copy = self.beside(&end);
            match self.fill(&copy, text) {
                Ok(()) => return Ok(copy),
                // Kept already, by an earlier run.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if whole(&copy).is_ok_and(|(kept, _)| kept == text) {
                        return Ok(copy);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(std::io::Error::other(
            "there are a thousand copies of earlier ones beside it; move them away",
        ))
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(end);
        self.path.with_file_name(name)
    }

    /// Writes the file beside its place and moves it there.
    fn put(&self, text: &str) -> std::io::Result<()> {
        let new = self.beside(&format!(".new-{}", std::process::id()));
        self.fill(&new, text)?;
        fs::rename(&new, &self.path).inspect_err(|_| {
            // What cannot be taken away bears a name that says whose it is.
            let _ = fs::remove_file(&new);
        })
    }

    /// Writes a file that is not there yet, with the mode of this one.
    fn fill(&self, path: &Path, text: &str) -> std::io::Result<()> {
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| {
            file.set_permissions(Permissions::from_mode(self.mode))?;
            file.sync_all()
        });
        written.inspect_err(|_| {
            let _ = fs::remove_file(path);
        })
    }
}

/// All of a file that is one, and its mode. What is no file may keep its reader waiting for ever.
fn whole(path: &Path) -> std::io::Result<(String, u32)> {
    let file = File::options()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    let read = file.take(MAX + 1).read_to_string(&mut text)?;
    if read as u64 > MAX {
        return Err(std::io::Error::other("it is larger than 32 MiB"));
    }
    Ok((text, meta.permissions().mode() & 0o7777))
}

/// An edited text with the line breaks of the text before: each line that was not changed has its own, a new one the first of the file's. Editors
/// of TOML and JSON know one kind of break only.
pub(super) fn with_breaks(before: &str, edited: String) -> String {
    if !before.contains("\r\n") {
        return edited;
    }
    let usual = if before
        .split_once('\n')
        .is_some_and(|(line, _)| line.ends_with('\r'))
    {
        "\r\n"
    } else {
        "\n"
    };
    let (old, new): (Vec<&str>, Vec<&str>) = (
        before.split_inclusive('\n').collect(),
        edited.split_inclusive('\n').collect(),
    );
    let bare = |line: &str| line.trim_end_matches(['\r', '\n']).to_owned();
    let same =
        |(old, new): &(&&str, &&str)| bare(old) == bare(new) && old.ends_with('\n') == new.ends_with('\n');
    let head = old.iter().zip(&new).take_while(same).count();
    let most = old.len().min(new.len()) - head;
    let tail = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(most)
        .take_while(same)
        .count();
    let mut out: String = old.iter().take(head).copied().collect();
    for line in new.iter().skip(head).take(new.len() - head - tail) {
        out.push_str(&bare(line));
        if line.ends_with('\n') {
            out.push_str(usual);
        }
    }
    out.extend(old.iter().skip(old.len() - tail).copied());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_not_changed_keep_their_breaks_and_new_ones_have_the_first_of_the_file() {
        let table = [
            ("a\nb\n", "a\nx\nb\n", "a\nx\nb\n"),
            ("a\r\nb\r\n", "a\nx\nb\n", "a\r\nx\r\nb\r\n"),
            ("a\r\nb\nc\r\n", "a\nx\nb\nc\n", "a\r\nx\r\nb\nc\r\n"),
            ("a\nb\r\n", "a\nb\nx\n", "a\nb\r\nx\n"),
            ("a\r\nb", "a\nb\nx\n", "a\r\nb\r\nx\r\n"),
            ("a\r\na\r\n", "a\na\na\n", "a\r\na\r\na\r\n"),
            ("a\r\nb\r\n", "a\n", "a\r\n"),
        ];
        for (before, edited, expected) in table {
            assert_eq!(
                with_breaks(before, edited.to_owned()),
                expected,
                "{before:?} {edited:?}"
            );
        }
    }
}
