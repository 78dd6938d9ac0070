//! What a task has changed: its worktree against the merge base with its base, with what is in no commit and what git does not know yet. Never enters another repository, and reads no file outside of the worktree.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::time::Duration;

use crate::git::{Git, line};
use crate::make::is_folder;
use crate::note::{Home, Stage};
use crate::repository::Repository;
use crate::view::View;
use crate::{Place, Refusal};

/// Most files that git does not know yet which are looked at.
const MAX_NEW: usize = 20_000;
/// How often a worktree is read whose files vanish while they are read.
const ATTEMPTS: u64 = 10;
/// Most bytes of a list of names.
const NAMES: usize = 8 * 1024 * 1024;

/// How a diff is written: text only, no program, no colour, renames found in bounded time, other repositories by the id of their commit.
const FORM: [&str; 10] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--find-renames",
    "-l200",
    "--ignore-submodules=dirty",
    "--submodule=short",
    "--no-relative",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];

/// Bounds of a diff.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most bytes of the text.
    pub bytes: usize,
    /// Most files in the list.
    pub files: usize,
    /// How long it may take.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 512 * 1024,
            files: 2_000,
            time: Duration::from_secs(30),
        }
    }
}

/// What of a diff is wanted.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiffQuery<'a> {
    /// Only this file, or what lies below this folder: relative to the worktree.
    pub path: Option<&'a str>,
    /// Only the list of files, not the text.
    pub stat: bool,
}

/// A diff. Names and text are the agent's: outside text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// The text in the unified form, cut after a whole line; bytes that are no UTF-8 are replaced. Empty when only the list was wanted.
    pub diff: String,
    /// The files, by name.
    pub files: Vec<FileChange>,
    /// Whether a limit cut the text or the list.
    pub truncated: bool,
}

/// One changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Its path in the worktree, or the one that it had when it is gone.
    pub path: String,
    /// The path that it had, when it was renamed.
    pub old_path: Option<String>,
    /// What happened to it.
    pub change: Change,
    /// Lines that are new; none for a binary file.
    pub added: Option<u64>,
    /// Lines that are gone; none for a binary file.
    pub removed: Option<u64>,
}

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Change {
    /// It is new.
    Added,
    /// Its content or mode is another.
    Modified,
    /// It is gone.
    Deleted,
    /// It has another path.
    Renamed,
    /// It became another kind of thing, such as a link.
    TypeChanged,
    /// It is a repository of its own that git does not know here; what is in it is not looked at.
    Repository,
}

impl Change {
    /// The word, for JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
            Self::Renamed => "renamed",
            Self::TypeChanged => "type_changed",
            Self::Repository => "repository",
        }
    }
}

/// Reads what the task has changed since it left its base: commits, staged and unstaged changes, new files that no ignore rule names.
///
/// It is taken against the merge base of what the worktree stands on and the base as it is now (a base that is gone: the commit that it was).
/// Whether a file is binary is judged by its content; a binary file, or one of 4 MiB and more, is named and not shown.
///
/// # Errors
/// [`Refusal::NoWorktree`], [`Refusal::NotAsMade`], [`Refusal::BadPath`], [`Refusal::TooSlow`]; any other [`Refusal`].
pub fn diff(place: Place<'_>, query: DiffQuery<'_>, limits: &Limits) -> Result<Diff, Refusal> {
    let within = query.path.map(checked).transpose()?;
    let git = Git::within(limits.time);
    let home = Home::of(place)?;
    let note = home
        .read()?
        .filter(|note| note.stage == Stage::Made)
        .ok_or(Refusal::NoWorktree)?;
    let repository = Repository::open(&git, place.root)?;
    if note.common != repository.common {
        return Err(Refusal::OtherRepository);
    }
    let view = View::open(&git, &repository)?;
    let path = home.path();
    let head = stands_on(&view, &path)?;
    let base = view.base(&note.base)?.unwrap_or(note.base_commit);
    let since = match &head {
        Some(head) => fork_point(&view, &base, head)?,
        None => base,
    };
    let work = Work {
        view: &view,
        path: &path,
        known: head.unwrap_or_else(|| since.clone()),
        since,
        within,
    };
    work.read(query.stat, limits)
}

/// How many files differ from the commit that the worktree stands on; where that is still to come, from `base`.
pub(crate) fn uncommitted(view: &View<'_>, path: &Path, base: &str) -> Result<usize, Refusal> {
    let head = stands_on(view, path)?.unwrap_or_else(|| base.to_owned());
    let work = Work {
        view,
        path,
        since: head.clone(),
        known: head,
        within: None,
    };
    let limits = Limits {
        bytes: 0,
        files: MAX_NEW,
        ..Limits::default()
    };
    Ok(work.read(true, &limits)?.files.len())
}

/// The commit that the worktree stands on, as the repository has it: what the worktree says about itself is not asked.
fn stands_on(view: &View<'_>, path: &Path) -> Result<Option<String>, Refusal> {
    match view.listed(path)? {
        Some(listed) if is_folder(path) => Ok(listed.head),
        _ => Err(Refusal::NotAsMade(path.to_owned())),
    }
}

fn fork_point(view: &View<'_>, base: &str, head: &str) -> Result<String, Refusal> {
    let output = view.run("find the merge base", view.call(["merge-base", base, head]))?;
    let id = line(&output.out);
    // Two histories without a common commit, or one whose beginning is not here.
    Ok(if output.status.success() && !id.is_empty() {
        id
    } else {
        base.to_owned()
    })
}

/// A path as it was asked for, made of plain names only.
fn checked(path: &str) -> Result<OsString, Refusal> {
    let refused = || Refusal::BadPath(path.chars().take(200).collect());
    let mut parts: Vec<&OsStr> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) if !name.eq_ignore_ascii_case(".git") => parts.push(name),
            Component::CurDir => {}
            _ => return Err(refused()),
        }
    }
    if parts.is_empty() || path.contains('\0') || path.len() > 4_096 {
        return Err(refused());
    }
    Ok(parts.join(OsStr::new("/")))
}

/// Whether git gave up because a file was no longer what it had just been.
fn is_vanished(said: &str) -> bool {
    [
        "No such file or directory",
        "Not a directory",
        "unsupported file type",
        "short read",
        // It was cut short while git had it in its memory.
        "SIGBUS",
    ]
    .iter()
    .any(|words| said.contains(words))
}

/// What the commit does not know.
struct NewFiles {
    names: Vec<Vec<u8>>,
    /// Repositories of their own.
    repositories: Vec<FileChange>,
    /// Whether there is more of it.
    more: bool,
}

/// A worktree that is being read.
struct Work<'a> {
    view: &'a View<'a>,
    path: &'a Path,
    /// The commit that the diff is against.
    since: String,
    /// The commit whose files count as known.
    known: String,
    within: Option<OsString>,
}

impl Work<'_> {
    /// Reads it; once more, a few times, when a file vanished between two looks at it.
    fn read(&self, stat: bool, limits: &Limits) -> Result<Diff, Refusal> {
        for attempt in 1..ATTEMPTS {
            match self.read_once(stat, limits) {
                Err(Refusal::Git { said, .. }) if is_vanished(&said) => {
                    std::thread::sleep(Duration::from_millis(10 * attempt));
                }
                other => return other,
            }
        }
        self.read_once(stat, limits)
    }

    fn read_once(&self, stat: bool, limits: &Limits) -> Result<Diff, Refusal> {
        let index = self.view.own_index();
        let call = |arguments: &[&str]| self.view.call_in(self.path, &index, arguments);
        self.view
            .good("read the commit", call(&["read-tree", &self.known]))?;
        // Files that are as they were are found by their content: an index of the agent's could say what it likes.
        self.view
            .run("compare the files", call(&["update-index", "-q", "--refresh"]))?;
        self.leave_out_odd_files()?;
        let new = self.new_files()?;
        let mut truncated = new.more;
        if !new.names.is_empty() {
            let mut feed = Vec::new();
            for name in new.names {
                feed.extend_from_slice(format!("100644 {}\t", self.view.empty_blob()).as_bytes());
                feed.extend_from_slice(&name);
                feed.push(0);
            }
            let arguments = [
                "-c",
                "core.protectNTFS=false",
                "-c",
                "core.protectHFS=false",
                "update-index",
                "--add",
                "--replace",
                "-z",
                "--index-info",
            ];
            self.view
                .good("note the new files", call(&arguments).input(feed))?;
        }
        let (mut files, cut) = self.files(limits)?;
        truncated |= cut;
        files.extend(new.repositories);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        if files.len() > limits.files {
            files.truncate(limits.files);
            truncated = true;
        }
        let mut text = Vec::new();
        if !stat {
            let output = self
                .view
                .run("write the diff", self.diff_call(&["--patch"]).most(limits.bytes))?;
            if !output.status.success() && !output.cut {
                return Err(Refusal::Git {
                    doing: "write the diff",
                    said: output.said(),
                });
            }
            text = output.out;
            if output.cut {
                truncated = true;
                let whole = text
                    .iter()
                    .rposition(|byte| *byte == b'\n')
                    .map_or(0, |at| at + 1);
                text.truncate(whole);
            }
        }
        Ok(Diff {
            diff: String::from_utf8_lossy(&text).into_owned(),
            files,
            truncated,
        })
    }

    /// Where a pipe, a socket or a device took a file's place, the file counts as gone: git can read none of them.
    fn leave_out_odd_files(&self) -> Result<(), Refusal> {
        let own = self.view.own_index();
        let call = self
            .view
            .call_in(self.path, &own, ["diff-files", "--name-only", "-z"])
            .most(NAMES);
        let changed = self.view.run("compare the files", call)?.out;
        let mut odd = Vec::new();
        for name in changed.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let at = self.path.join(OsStr::from_bytes(name));
            if fs::symlink_metadata(&at).is_ok_and(|is| !(is.is_file() || is.is_symlink() || is.is_dir())) {
                odd.extend_from_slice(name);
                odd.push(0);
            }
        }
        if odd.is_empty() {
            return Ok(());
        }
        let arguments = ["update-index", "--force-remove", "-z", "--stdin"];
        let call = self.view.call_in(self.path, &own, arguments).input(odd);
        self.view.good("leave out what is no file", call).map(drop)
    }

    /// The names of files that the commit does not know, and the repositories among them; and whether there are more.
    fn new_files(&self) -> Result<NewFiles, Refusal> {
        let own = self.view.own_index();
        let mut arguments: Vec<OsString> = ["ls-files", "-z", "--others", "--exclude-standard"]
            .map(OsString::from)
            .into();
        self.limit_to_path(&mut arguments);
        let call = self.view.call_in(self.path, &own, arguments).most(NAMES);
        let output = self.view.run("list the new files", call)?;
        if !output.status.success() && !output.cut {
            return Err(Refusal::Git {
                doing: "list the new files",
                said: output.said(),
            });
        }
        let mut all = output.out;
        let mut more = output.cut;
        if output.cut {
            let whole = all.iter().rposition(|byte| *byte == 0).map_or(0, |at| at + 1);
            all.truncate(whole);
        }
        all.extend(self.added_by_force()?);

        let (mut names, mut repositories, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
        for name in all.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            if names.len() + repositories.len() >= MAX_NEW {
                more = true;
                break;
            }
            if !seen.insert(name) {
                continue;
            }
            if let Some(folder) = name.strip_suffix(b"/") {
                repositories.push(FileChange {
                    path: String::from_utf8_lossy(folder).into_owned(),
                    old_path: None,
                    change: Change::Repository,
                    added: None,
                    removed: None,
                });
                continue;
            }
            // What vanished since, and what is neither file nor link, has no content to show.
            let at = self.path.join(OsStr::from_bytes(name));
            if fs::symlink_metadata(&at).is_ok_and(|is| is.is_file() || is.is_symlink()) {
                names.push(name.to_vec());
            }
        }
        Ok(NewFiles {
            names,
            repositories,
            more,
        })
    }

    /// Names that the agent's own index knows although an ignore rule names them. Of that index nothing else is believed, and one that cannot be
    /// read adds nothing.
    fn added_by_force(&self) -> Result<Vec<u8>, Refusal> {
        let Some(index) = self.agents_index() else {
            return Ok(Vec::new());
        };
        let mut arguments: Vec<OsString> = [
            "diff-index",
            "--cached",
            "--no-renames",
            "--diff-filter=A",
            "--name-only",
            "-z",
            &self.known,
        ]
        .map(OsString::from)
        .into();
        self.limit_to_path(&mut arguments);
        let call = self.view.call_in(self.path, &index, arguments).most(NAMES);
        let output = self.view.run("list the staged files", call)?;
        Ok(if output.status.success() && !output.cut {
            output.out
        } else {
            Vec::new()
        })
    }

    /// The index that git keeps for the worktree, found from the repository's side.
    fn agents_index(&self) -> Option<std::path::PathBuf> {
        let link = self.path.join(".git");
        fs::read_dir(self.view.common().join("worktrees"))
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .find(|admin| {
                fs::read(admin.join("gitdir"))
                    .is_ok_and(|text| text.trim_ascii_end() == link.as_os_str().as_bytes())
            })
            .map(|admin| admin.join("index"))
            .filter(|index| fs::symlink_metadata(index).is_ok_and(|is| is.is_file()))
    }

    fn limit_to_path(&self, arguments: &mut Vec<OsString>) {
        arguments.push("--".into());
        arguments.extend(self.within.clone());
    }

    fn diff_call(&self, form: &[&str]) -> crate::git::Call<'_> {
        let mut arguments: Vec<OsString> = vec!["diff".into()];
        arguments.extend(FORM.into_iter().chain(form.iter().copied()).map(OsString::from));
        arguments.push(self.since.clone().into());
        self.limit_to_path(&mut arguments);
        self.view.call_in(self.path, &self.view.own_index(), arguments)
    }

    /// The changed files with their counts, and whether the list was cut.
    fn files(&self, limits: &Limits) -> Result<(Vec<FileChange>, bool), Refusal> {
        let call = self.diff_call(&["--raw", "--numstat", "-z"]).most(NAMES);
        let output = self.view.run("list the changed files", call)?;
        if !output.status.success() && !output.cut {
            return Err(Refusal::Git {
                doing: "list the changed files",
                said: output.said(),
            });
        }
        let (files, whole) = parse(&output.out);
        Ok((files, !whole || output.cut || limits.files == 0))
    }
}

/// Reads the two lists that git writes one behind the other: what happened to each file, then the counts. Says whether all of it was understood.
fn parse(out: &[u8]) -> (Vec<FileChange>, bool) {
    let mut fields = out.split(|byte| *byte == 0);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut files: Vec<FileChange> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    while let Some(field) = fields.next() {
        if field.is_empty() {
            continue;
        }
        if field.starts_with(b":") && field.contains(&b' ') {
            let letter = field
                .rsplit(|byte| *byte == b' ')
                .next()
                .and_then(|word| word.first());
            let change = match letter {
                Some(b'A' | b'C') => Change::Added,
                Some(b'D') => Change::Deleted,
                Some(b'R') => Change::Renamed,
                Some(b'T') => Change::TypeChanged,
                _ => Change::Modified,
            };
            let two = matches!(letter, Some(b'R' | b'C'));
            let (Some(first), Some(second)) =
                (fields.next(), if two { fields.next() } else { Some(&b""[..]) })
            else {
                return (files, false);
            };
            let path = if two { second } else { first };
            places.insert(path.to_vec(), files.len());
            files.push(FileChange {
                path: text(path),
                old_path: two.then(|| text(first)),
                change,
                added: None,
                removed: None,
            });
            continue;
        }
        let mut parts = field.splitn(3, |byte| *byte == b'\t');
        let (Some(added), Some(removed), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
            return (files, false);
        };
        let name = if name.is_empty() {
            let _old = fields.next();
            fields.next().unwrap_or_default()
        } else {
            name
        };
        if let Some(file) = places.get(name).and_then(|at| files.get_mut(*at)) {
            let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse().ok();
            file.added = number(added);
            file.removed = number(removed);
        }
    }
    (files, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_plain_names_only() {
        for (asked, want) in [
            ("a", "a"),
            ("a/b", "a/b"),
            ("./a//b/", "a/b"),
            ("a/.gitignore", "a/.gitignore"),
        ] {
            assert_eq!(checked(asked).unwrap(), want);
        }
        for bad in [
            "",
            ".",
            "/",
            "/etc/passwd",
            "..",
            "a/../../b",
            "../x",
            ".git",
            ".git/config",
            "a/.GIT/x",
            "a\0b",
        ] {
            assert!(matches!(checked(bad), Err(Refusal::BadPath(_))), "{bad:?}");
        }
    }

    #[test]
    fn a_git_whose_file_was_cut_short_in_its_memory_looks_again() {
        let ended = |by: i32, complaint: &[u8]| crate::git::Output {
            status: std::os::unix::process::ExitStatusExt::from_raw(by),
            out: Vec::new(),
            complaint: complaint.to_vec(),
            cut: false,
        };
        let bus = nix::sys::signal::Signal::SIGBUS as i32;
        assert_eq!(ended(bus, b"").said(), "it was ended by SIGBUS");
        assert!(is_vanished(&ended(bus, b"").said()));
        assert!(!is_vanished(&ended(9, b"").said()));
        assert_eq!(ended(1 << 8, b"fatal: no\n").said(), "fatal: no");
        assert_eq!(ended(1 << 8, b"").said(), "it ended without saying why");
    }

    #[test]
    fn both_lists_are_read_whatever_the_names_are() {
        let out = b":100644 100644 aaa bbb M\0:odd name\0:100644 100644 aaa bbb R090\0old\0new\tname\0:000000 100644 000 000 A\0pic\0:100644 000000 aaa 000 D\0gone\x001\t2\t:odd name\x003\t4\t\0old\0new\tname\0-\t-\tpic\x000\t9\tgone\0";
        let (files, whole) = parse(out);
        assert!(whole);
        let seen: Vec<(&str, Change, Option<u64>, Option<u64>)> = files
            .iter()
            .map(|file| (file.path.as_str(), file.change, file.added, file.removed))
            .collect();
        assert_eq!(
            seen,
            [
                (":odd name", Change::Modified, Some(1), Some(2)),
                ("new\tname", Change::Renamed, Some(3), Some(4)),
                ("pic", Change::Added, None, None),
                ("gone", Change::Deleted, Some(0), Some(9)),
            ]
        );
        assert_eq!(files[1].old_path.as_deref(), Some("old"));
        for cut in 0..out.len() {
            let (cut, _) = parse(&out[..cut]);
            assert!(cut.len() <= 4);
        }
    }
}
