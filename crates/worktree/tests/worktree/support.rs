//! A project's repository and a data folder, and git as a person runs it there. Never reads the configuration of whoever runs the tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use muster_worktree::{Diff, DiffQuery, Limits, Place, Refusal, Worktree, diff, ensure};
use tempfile::TempDir;

pub(crate) struct Site {
    folder: TempDir,
    pub(crate) root: PathBuf,
    pub(crate) data: PathBuf,
}

impl Site {
    /// A repository with one commit on `main`: `a.txt`, `sub/b.txt`.
    pub(crate) fn new() -> Self {
        let site = Self::bare_folder();
        site.git(&site.root, &["init", "--quiet", "--initial-branch=main"]);
        site.fill();
        site
    }

    /// The folders alone.
    pub(crate) fn bare_folder() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        let (root, data) = (top.join("root"), top.join("data"));
        fs::create_dir_all(&root).unwrap();
        fs::create_dir_all(top.join("home")).unwrap();
        Self { folder, root, data }
    }

    pub(crate) fn fill(&self) {
        self.put("a.txt", "one\ntwo\nthree\n");
        self.put("sub/b.txt", "b\n");
        self.commit(&self.root, "first");
    }

    /// The folder that all of it is in.
    pub(crate) fn top(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn place(&self, task: i64) -> Place<'_> {
        Place {
            root: &self.root,
            data_dir: &self.data,
            task,
        }
    }

    pub(crate) fn made(&self, task: i64) -> Worktree {
        ensure(self.place(task), None).unwrap()
    }

    pub(crate) fn diff(&self, task: i64) -> Diff {
        self.diff_of(task, DiffQuery::default()).unwrap()
    }

    pub(crate) fn diff_of(&self, task: i64, query: DiffQuery<'_>) -> Result<Diff, Refusal> {
        diff(self.place(task), query, &Limits::default())
    }

    /// Writes a file of the project's checkout.
    pub(crate) fn put(&self, name: &str, text: &str) {
        put(&self.root, name, text);
    }

    pub(crate) fn commit(&self, folder: &Path, message: &str) {
        self.git(folder, &["add", "--all"]);
        self.git(folder, &["commit", "--quiet", "--allow-empty", "-m", message]);
    }

    /// Runs git as a person does, and takes its good end for granted.
    pub(crate) fn git(&self, folder: &Path, arguments: &[&str]) -> String {
        let output = self.try_git(folder, arguments);
        assert!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    pub(crate) fn try_git(&self, folder: &Path, arguments: &[&str]) -> Output {
        Command::new("git")
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.top().join("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_AUTHOR_NAME", "A")
            .env("GIT_AUTHOR_EMAIL", "a@example.org")
            .env("GIT_COMMITTER_NAME", "A")
            .env("GIT_COMMITTER_EMAIL", "a@example.org")
            .env("GIT_TERMINAL_PROMPT", "0")
            .output()
            .unwrap()
    }

    /// A program that leaves a mark when it is run, and hands its input on as a filter does.
    pub(crate) fn trap(&self, name: &str) -> String {
        let program = self.top().join(format!("trap-{name}"));
        let mark = self.mark(name);
        fs::write(
            &program,
            format!(
                "#!/bin/sh\necho ran >> '{}'\ncat 2>/dev/null\nexit 0\n",
                mark.display()
            ),
        )
        .unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        program.to_str().unwrap().to_owned()
    }

    pub(crate) fn mark(&self, name: &str) -> PathBuf {
        self.top().join(format!("mark-{name}"))
    }

    /// The traps that were sprung.
    pub(crate) fn marks(&self) -> Vec<String> {
        let mut marks: Vec<String> = fs::read_dir(self.top())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("mark-"))
            .collect();
        marks.sort();
        marks
    }
}

pub(crate) fn put(folder: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Every file and link below a folder with its content, `.git` left out.
pub(crate) fn listing(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
            let kind = fs::symlink_metadata(&path).unwrap();
            if name == ".git" {
            } else if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() {
                all.push((name, fs::read_link(&path).unwrap().to_str().unwrap().into()));
            } else {
                all.push((name, fs::read(&path).unwrap()));
            }
        }
    }
    all.sort();
    all
}

/// The paths of a diff.
pub(crate) fn paths(diff: &Diff) -> Vec<&str> {
    diff.files.iter().map(|file| file.path.as_str()).collect()
}

/// That no process works in a folder, or none does soon: one that was killed still has to be scheduled once to end.
pub(crate) fn no_process_stays_in(folder: &Path) {
    let begin = Instant::now();
    loop {
        let left = processes_in(folder);
        if left.is_empty() {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{left:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes whose working folder lies in a folder.
fn processes_in(folder: &Path) -> Vec<String> {
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
        .map(|entry| fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default())
        .collect()
}
