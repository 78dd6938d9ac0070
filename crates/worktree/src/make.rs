//! Making and removing a task's worktree. Never writes over what it did not make, and never loses work that is in no commit unless told to.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::diff::uncommitted;
use crate::git::Git;
use crate::note::{Home, Note, Stage, replace};
use crate::repository::Repository;
use crate::view::View;
use crate::{Place, Refusal, Worktree};

/// How long making or removing may take: a large repository is written file by file.
const SPAN: Duration = Duration::from_secs(300);
/// How long another maker of the same worktree is waited for.
const PATIENCE: Duration = Duration::from_secs(310);

/// What becomes of work that is in no commit when a worktree is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// With changed or new files, or on a commit that no branch has, the worktree stays, and the removal is refused. Ignored files go.
    Uncommitted,
    /// They are lost.
    Nothing,
}

/// The task's worktree, made when it does not stand yet: branch `muster/task-N` from `base` (a branch, a branch of a remote, a tag, or a full
/// commit id; without one the branch on which the root stands).
///
/// It can be called again and from several processes at once; all get the same worktree. One that was begun and not finished is made anew. A
/// worktree whose folder is gone gets its branch back as it was left. Once it stands, `base` is what it was made with, whatever is asked.
///
/// Files are written without the repository's filters; no hook runs.
///
/// # Errors
/// A [`Refusal`]; nothing of the owner's was changed.
pub fn ensure(place: Place<'_>, base: Option<&str>) -> Result<Worktree, Refusal> {
    let home = Home::of(place)?;
    let git = Git::within(SPAN).holding(home.lock(PATIENCE)?);
    let repository = Repository::open(&git, place.root)?;
    let view = View::open(&git, &repository)?;
    let note = match home.read()? {
        Some(note) if note.common != repository.common => return Err(Refusal::OtherRepository),
        Some(note) if note.stage == Stage::Made && stands(&view, &home)? => return Ok(home.worktree(&note)),
        Some(note) => note,
        None => begin(&git, &repository, &view, &home, base)?,
    };
    finish(&view, &home, note)
}

/// The task's worktree, if it was made and its folder is there. Asks git nothing.
///
/// # Errors
/// A [`Refusal`] when muster's own note of it cannot be read.
pub fn find(place: Place<'_>) -> Result<Option<Worktree>, Refusal> {
    let home = Home::of(place)?;
    let note = home.read()?.filter(|note| note.stage == Stage::Made);
    Ok(note
        .filter(|_| is_folder(&home.path()))
        .map(|note| home.worktree(&note)))
}

/// Removes the task's worktree and keeps its branch. One that does not exist is removed already.
///
/// # Errors
/// [`Refusal::Uncommitted`] and [`Refusal::NoBranchHas`] when `keep` says so; any other [`Refusal`].
pub fn remove(place: Place<'_>, keep: Keep) -> Result<(), Refusal> {
    let home = Home::of(place)?;
    let lock = home.lock(PATIENCE)?;
    let Some(note) = home.read()? else {
        return Ok(());
    };
    let git = Git::within(SPAN).holding(lock);
    let repository = Repository::open(&git, place.root)?;
    if note.common != repository.common {
        return Err(Refusal::OtherRepository);
    }
    let view = View::open(&git, &repository)?;
    let path = home.path();
    if keep == Keep::Uncommitted && note.stage == Stage::Made && is_there(&path) {
        let count = uncommitted(&view, &path, &note.base_commit)?;
        if count > 0 {
            return Err(Refusal::Uncommitted(count));
        }
        if is_on_a_lost_commit(&view, &path)? {
            return Err(Refusal::NoBranchHas(path));
        }
    }
    clear(&view, &path)?;
    home.write(&Note {
        stage: Stage::Removed,
        ..note
    })
}

/// Checks that nothing of anybody else's is in the way, and writes down what is about to be made.
fn begin(
    git: &Git,
    repository: &Repository,
    view: &View<'_>,
    home: &Home,
    base: Option<&str>,
) -> Result<Note, Refusal> {
    if repository.is_empty(git)? {
        return Err(Refusal::Empty);
    }
    let base = match base {
        Some(base) => base.to_owned(),
        None => repository.branch(git)?,
    };
    let base_commit = view.base(&base)?.ok_or_else(|| Refusal::NoBase(base.clone()))?;
    for taken in ["muster".to_owned(), home.branch()] {
        if view.commit(&format!("refs/heads/{taken}"))?.is_some() {
            return Err(Refusal::BranchTaken(taken));
        }
    }
    if is_there(&home.path()) || view.listed(&home.path())?.is_some() {
        return Err(Refusal::FolderTaken(home.path()));
    }
    let note = Note {
        stage: Stage::Making,
        common: repository.common.clone(),
        base,
        base_commit,
    };
    home.write(&note)?;
    Ok(note)
}

/// Makes what a note tells of, from whatever was left of an earlier try.
fn finish(view: &View<'_>, home: &Home, note: Note) -> Result<Worktree, Refusal> {
    let path = home.path();
    let fresh = note.stage == Stage::Making;
    if !fresh && note.stage != Stage::Restoring {
        if is_there(&path) {
            return Err(Refusal::NotAsMade(path));
        }
        home.write(&Note {
            stage: Stage::Restoring,
            ..note.clone()
        })?;
    }
    // Nobody has seen what stands there now, so that nothing in it is anybody's work.
    clear(view, &path)?;
    let commit = register(view, home, &note, fresh)?;
    let admin = point_home(view, &path)?;
    let index = admin.join("index");
    for arguments in [
        ["read-tree", commit.as_str()].as_slice(),
        ["checkout-index", "--all", "--force", "--index", "--quiet"].as_slice(),
    ] {
        view.good(
            "write the files of the worktree",
            view.call_in(&path, &index, arguments),
        )?;
    }
    let note = Note {
        stage: Stage::Made,
        ..note
    };
    home.write(&note)?;
    Ok(home.worktree(&note))
}

/// Has git make the branch, unless it is kept from before, and the worktree without its files. Gives the commit that it stands on.
fn register(view: &View<'_>, home: &Home, note: &Note, fresh: bool) -> Result<String, Refusal> {
    let (path, branch) = (home.path(), home.branch());
    let existing = view.commit(&format!("refs/heads/{branch}"))?;
    let commit = match existing {
        // The branch of a making that was cut short has not moved; one that has is somebody else's.
        Some(commit) if fresh && commit != note.base_commit => {
            return Err(Refusal::BranchTaken(branch));
        }
        Some(commit) => commit,
        None => {
            // By a call of its own, so that each of the two may be repeated.
            let arguments = ["branch", "--no-track", &branch, &note.base_commit];
            view.good("make the branch", view.call(arguments))?;
            note.base_commit.clone()
        }
    };
    let arguments = [
        "worktree".into(),
        "add".into(),
        "--no-checkout".into(),
        path.into_os_string(),
        branch.clone().into(),
    ];
    let output = view.run("make the worktree", view.call::<OsString>(arguments))?;
    if output.status.success() {
        return Ok(commit);
    }
    let words = String::from_utf8_lossy(&output.complaint);
    if words.contains("already used by worktree") || words.contains("already checked out") {
        return Err(Refusal::BranchInUse(branch));
    }
    Err(Refusal::Git {
        doing: "make the worktree",
        said: output.said(),
    })
}

/// git was called in the view, so that the new worktree names the view as its repository. It is given the real one; what git keeps about it
/// lies there already.
fn point_home(view: &View<'_>, path: &Path) -> Result<PathBuf, Refusal> {
    let link = path.join(".git");
    let text = fs::read(&link).map_err(Refusal::io(&link))?;
    let name = text
        .strip_prefix(b"gitdir: ")
        .map(|target| target.trim_ascii_end())
        .and_then(|target| target.rsplit(|byte| *byte == b'/').next())
        .filter(|name| !name.is_empty())
        .ok_or_else(|| Refusal::NotAsMade(path.to_owned()))?;
    let admin = view
        .common()
        .join("worktrees")
        .join(std::ffi::OsStr::from_bytes(name));
    if !admin.join("gitdir").is_file() {
        return Err(Refusal::NotAsMade(path.to_owned()));
    }
    let mut text = b"gitdir: ".to_vec();
    text.extend(admin.clone().into_os_string().into_vec());
    text.push(b'\n');
    replace(&link, &text).map_err(Refusal::io(&link))?;
    Ok(admin)
}

/// Removes a worktree's folder and git's entry about it, as far as they exist. The branch stays.
fn clear(view: &View<'_>, path: &Path) -> Result<(), Refusal> {
    let removed = match fs::symlink_metadata(path) {
        // Links below it are removed, not followed.
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(Refusal::io(path))?;
    if view.listed(path)?.is_some() {
        let arguments = [
            "worktree".into(),
            "remove".into(),
            "--force".into(),
            "--force".into(),
            path.as_os_str().to_owned(),
        ];
        view.good("forget the worktree", view.call(arguments))?;
    }
    Ok(())
}

/// Whether the worktree stands on a commit that no branch or tag leads to, so that nothing would lead to it any more.
fn is_on_a_lost_commit(view: &View<'_>, path: &Path) -> Result<bool, Refusal> {
    let Some(head) = view.listed(path)?.and_then(|listed| listed.head) else {
        return Ok(false);
    };
    let arguments = [
        "for-each-ref",
        "--count=1",
        "--format=%(refname)",
        "--contains",
        &head,
    ];
    Ok(view
        .good("look for a branch that has the commit", view.call(arguments))?
        .is_empty())
}

/// Whether the worktree is still what was made: a folder, known to the repository.
fn stands(view: &View<'_>, home: &Home) -> Result<bool, Refusal> {
    Ok(is_folder(&home.path()) && view.listed(&home.path())?.is_some())
}

/// Whether a folder itself is there, not a link to one.
pub(crate) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
