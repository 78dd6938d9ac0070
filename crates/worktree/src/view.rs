//! A throw-away git directory that borrows a repository's objects, references and list of worktrees, with a configuration of its own. Never reads the repository's hooks, attributes or programs.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Refusal;
use crate::git::{Call, Git, Output, line};
use crate::repository::{Repository, is_name};

/// Most bytes of a file that is copied out of a repository.
const COPIED: u64 = 4 * 1024 * 1024;
/// What of the repository's configuration says how files are spelled on this machine. Each value is one plain word, none names a program.
const SPELLING: [&str; 6] = [
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
];

/// A view of a repository, gone when it is dropped.
pub(crate) struct View<'g> {
    folder: TempDir,
    git: &'g Git,
    /// The folder that all worktrees of the repository share.
    common: PathBuf,
    format: String,
}

/// A worktree as the repository lists it.
pub(crate) struct Listed {
    /// The commit that it stands on, unless that is still to come.
    pub(crate) head: Option<String>,
}

impl<'g> View<'g> {
    pub(crate) fn open(git: &'g Git, repository: &Repository) -> Result<Self, Refusal> {
        let folder = tempfile::Builder::new()
            .prefix("muster-view-")
            .tempdir()
            .map_err(Refusal::io(&std::env::temp_dir()))?;
        let common = &repository.common;
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, bytes: &[u8]| fs::write(at(name), bytes).map_err(Refusal::io(&at(name)));
        for name in ["objects/info", "info", "empty"] {
            fs::create_dir_all(at(name)).map_err(Refusal::io(&at(name)))?;
        }
        let worktrees = common.join("worktrees");
        fs::create_dir_all(&worktrees).map_err(Refusal::io(&worktrees))?;
        let mut borrowed = vec!["refs", "packed-refs", "worktrees"];
        if repository.has_reftable() {
            borrowed.push("reftable");
        }
        for name in borrowed {
            symlink(common.join(name), at(name)).map_err(Refusal::io(&at(name)))?;
        }
        let mut alternates = common.join("objects").into_os_string().into_vec();
        alternates.push(b'\n');
        write("objects/info/alternates", &alternates)?;
        write("HEAD", &copied(&common.join("HEAD")).unwrap_or_default())?;
        for name in ["shallow", "info/exclude"] {
            if let Some(bytes) = copied(&common.join(name)) {
                write(name, &bytes)?;
            }
        }
        // A file is text or binary by its content, whatever an attribute says: nothing is hidden from a diff by calling it binary.
        write("info/attributes", b"* !diff\n")?;
        write("config", configuration(git, repository)?.as_bytes())?;
        Ok(Self {
            folder,
            git,
            common: common.clone(),
            format: repository.format.clone(),
        })
    }

    /// The folder that all worktrees of the repository share.
    pub(crate) fn common(&self) -> &Path {
        &self.common
    }

    /// An index that is this view's alone.
    pub(crate) fn own_index(&self) -> PathBuf {
        self.folder.path().join("index")
    }

    /// The id of the blob without content.
    pub(crate) fn empty_blob(&self) -> &'static str {
        if self.format == "sha256" {
            "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813"
        } else {
            "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
        }
    }

    /// A call that is about objects and references only.
    pub(crate) fn call<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Call<'_> {
        Call::new(self.folder.path(), arguments)
            .set("GIT_DIR", self.folder.path())
            .set("HOME", self.folder.path().join("empty"))
    }

    /// A call about the files below `folder`, as `index` lists them.
    pub(crate) fn call_in<'a, I: AsRef<OsStr>>(
        &self,
        folder: &'a Path,
        index: &Path,
        arguments: impl IntoIterator<Item = I>,
    ) -> Call<'a> {
        Call::new(folder, arguments)
            .set("GIT_DIR", self.folder.path())
            .set("HOME", self.folder.path().join("empty"))
            .set("GIT_WORK_TREE", folder)
            .set("GIT_INDEX_FILE", index)
    }

    pub(crate) fn good(&self, doing: &'static str, call: Call<'_>) -> Result<Vec<u8>, Refusal> {
        self.git.good(doing, call)
    }

    pub(crate) fn run(&self, doing: &'static str, call: Call<'_>) -> Result<Output, Refusal> {
        self.git.run(doing, call)
    }

    /// The commit that an exact reference stands for.
    pub(crate) fn commit(&self, reference: &str) -> Result<Option<String>, Refusal> {
        let wanted = format!("{reference}^{{commit}}");
        let output = self.run(
            "look up a commit",
            self.call(["rev-parse", "--quiet", "--verify", &wanted]),
        )?;
        let id = line(&output.out);
        Ok(Some(id).filter(|id| output.status.success() && is_id(id)))
    }

    /// The commit that a base stands for: a branch, a branch of a remote, a tag, or a full id.
    pub(crate) fn base(&self, name: &str) -> Result<Option<String>, Refusal> {
        if is_id(name) {
            return self.commit(name);
        }
        if !is_name(name) {
            return Ok(None);
        }
        for kind in ["heads", "remotes", "tags"] {
            if let Some(commit) = self.commit(&format!("refs/{kind}/{name}"))? {
                return Ok(Some(commit));
            }
        }
        Ok(None)
    }

    /// The worktree that the repository lists at `path`.
    pub(crate) fn listed(&self, path: &Path) -> Result<Option<Listed>, Refusal> {
        let list = self.good(
            "list the worktrees",
            self.call(["worktree", "list", "--porcelain", "-z"])
                .most(16 * 1024 * 1024),
        )?;
        let mut here = false;
        let mut found = None;
        for field in list.split(|byte| *byte == 0) {
            if let Some(at) = field.strip_prefix(b"worktree ") {
                here = at == path.as_os_str().as_bytes();
                if here {
                    found = Some(Listed { head: None });
                }
            } else if here && let Some(id) = field.strip_prefix(b"HEAD ") {
                let id = String::from_utf8_lossy(id).into_owned();
                found = Some(Listed {
                    head: Some(id).filter(|id| is_id(id) && id.bytes().any(|byte| byte != b'0')),
                });
            }
        }
        Ok(found)
    }
}

/// A full object id, in lower-case hexadecimal.
fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A small regular file's content.
fn copied(path: &Path) -> Option<Vec<u8>> {
    if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= COPIED) {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(COPIED)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

fn configuration(git: &Git, repository: &Repository) -> Result<String, Refusal> {
    let mut text =
        String::from("[core]\n\tbare = false\n\tlogAllRefUpdates = false\n\tbigFileThreshold = 4m\n");
    let extended = repository.format != "sha1" || repository.has_reftable();
    text.push_str(if extended {
        "\trepositoryFormatVersion = 1\n"
    } else {
        "\trepositoryFormatVersion = 0\n"
    });
    let file = repository.common.join("config");
    let arguments: [OsString; 5] = [
        "config".into(),
        "--file".into(),
        file.into_os_string(),
        "--null".into(),
        "--list".into(),
    ];
    let output = git.run(
        "read the repository's settings",
        Call::new(&repository.root, arguments),
    )?;
    for entry in output.out.split(|byte| *byte == 0) {
        let entry = String::from_utf8_lossy(entry);
        let Some((key, value)) = entry.split_once('\n') else {
            continue;
        };
        let plain = !value.is_empty() && value.len() <= 8 && value.bytes().all(|b| b.is_ascii_lowercase());
        if let (Some(name), true) = (key.strip_prefix("core."), plain && SPELLING.contains(&key)) {
            text.push_str(&format!("\t{name} = {value}\n"));
        }
    }
    if extended {
        text.push_str("[extensions]\n");
        if repository.format != "sha1" {
            text.push_str(&format!("\tobjectFormat = {}\n", repository.format));
        }
        if repository.has_reftable() {
            text.push_str("\trefStorage = reftable\n");
        }
    }
    Ok(text)
}
