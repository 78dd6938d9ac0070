//! Which repository a project's root is, and what its names mean. Never writes: these are the only calls that git makes with the repository's own configuration, and none of them runs a program.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::Refusal;
use crate::git::{Call, Git, line};

/// A repository whose top is a project's root.
#[derive(Debug, Clone)]
pub(crate) struct Repository {
    /// The project's root, resolved.
    pub(crate) root: PathBuf,
    /// The folder that all its worktrees share.
    pub(crate) common: PathBuf,
    /// `sha1` or `sha256`.
    pub(crate) format: String,
}

impl Repository {
    pub(crate) fn open(git: &Git, root: &Path) -> Result<Self, Refusal> {
        let root = root
            .canonicalize()
            .ok()
            .filter(|root| root.is_dir())
            .ok_or_else(|| Refusal::NoFolder(root.to_owned()))?;
        let call = Call::new(
            &root,
            [
                "rev-parse",
                "--path-format=absolute",
                "--is-bare-repository",
                "--is-inside-work-tree",
                "--show-object-format",
                "--git-common-dir",
            ],
        );
        let output = git.run("read the repository", call)?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.complaint);
            return Err(if words.contains("dubious ownership") {
                Refusal::NotOwned(root)
            } else if words.contains("not a git repository") {
                Refusal::NotARepository(root)
            } else {
                Refusal::Git {
                    doing: "read the repository",
                    said: output.said(),
                }
            });
        }
        let mut parts = output.out.splitn(4, |byte| *byte == b'\n');
        let mut part = || parts.next().unwrap_or_default();
        let (bare, inside, format, common) = (part(), part(), line(part()), part());
        if bare == b"true" {
            return Err(Refusal::Bare(root));
        }
        if inside != b"true" {
            return Err(Refusal::NotARepository(root));
        }
        let below = git.good(
            "read the repository",
            Call::new(&root, ["rev-parse", "--show-prefix"]),
        )?;
        if !line(&below).is_empty() {
            return Err(Refusal::BelowTop(root));
        }
        let common = common.strip_suffix(b"\n").unwrap_or(common);
        let common = PathBuf::from(std::ffi::OsStr::from_bytes(common));
        // A line feed in a path would end the line of a file that names it.
        if common.as_os_str().as_bytes().contains(&b'\n') {
            return Err(Refusal::NotARepository(root));
        }
        let common = common.canonicalize().map_err(Refusal::io(&common))?;
        Ok(Self { root, common, format })
    }

    /// Whether its references are kept in tables instead of files.
    pub(crate) fn has_reftable(&self) -> bool {
        self.common.join("reftable").is_dir()
    }

    /// The branch that the root stands on.
    pub(crate) fn branch(&self, git: &Git) -> Result<String, Refusal> {
        let call = Call::new(&self.root, ["symbolic-ref", "--quiet", "HEAD"]);
        let output = git.run("read where the project's checkout stands", call)?;
        line(&output.out)
            .strip_prefix("refs/heads/")
            .filter(|_| output.status.success())
            .map(str::to_owned)
            .ok_or(Refusal::Detached)
    }

    /// Whether there is a commit in it that the root stands on, or any branch at all.
    pub(crate) fn is_empty(&self, git: &Git) -> Result<bool, Refusal> {
        let call = Call::new(&self.root, ["for-each-ref", "--count=1", "--format=%(refname)"]);
        if !git.good("read the repository", call)?.is_empty() {
            return Ok(false);
        }
        let call = Call::new(&self.root, ["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]);
        Ok(!git.run("read the repository", call)?.status.success())
    }
}

/// Whether a text can be the name of a branch or tag and nothing else that git understands.
pub(crate) fn is_name(name: &str) -> bool {
    let forbidden = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    !name.is_empty()
        && name.len() <= 244
        && !name.chars().any(forbidden)
        && !name.starts_with('-')
        && !name.ends_with('.')
        && name != "@"
        && !name.contains("..")
        && !name.contains("@{")
        && name
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
}
