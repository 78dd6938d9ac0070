//! Who wrote an owned document last, by its git history. Never changes a repository, runs no program but `git`, and waits for it only so long.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{Scope, is_pattern, list, of, owns, roles, shown};
use crate::error::BusError;
use crate::home::Home;
use crate::names::SeatId;
use crate::registry::Agents;
use crate::work;

/// How long one call of git may take, and all of them.
const PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE_FOR_ALL: Duration = Duration::from_secs(20);
/// Most documents that one pattern is looked up for.
const MOST: usize = 200;
/// Most output of git that is read.
const OUTPUT: u64 = 256 * 1024;

/// A document whose last writer has not the role that owns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drifted {
    /// The document.
    pub path: String,
    /// The agent whose name its last commit bears.
    pub agent: SeatId,
    /// That agent's role.
    pub role: Option<String>,
    /// The roles that own it.
    pub owners: Vec<String>,
}

/// What a look at all declared documents found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// Documents written by another role.
    pub drifted: Vec<Drifted>,
    /// What could not be told, in sentences.
    pub unknown: Vec<String>,
}

/// Compares the last writer of each declared document with its owner. Looked at are documents declared by an absolute path, and those
/// declared by a relative one in every repository whose work documents were imported; a document outside git, one never committed and an
/// author who is no registered agent say nothing.
///
/// # Errors
/// [`BusError::Scopes`], [`BusError::Damaged`] for the registry, a fault.
pub fn drift(home: &Home) -> Result<Drift, BusError> {
    let scopes = list(home)?;
    let mut found = Drift::default();
    if scopes.is_empty() {
        return Ok(found);
    }
    let agents = Agents::load(home)?;
    let begun = Instant::now();
    let mut seen = BTreeSet::new();
    for document in documents(&scopes, &work::repos(home)?, &mut found.unknown) {
        if !seen.insert(document.clone()) {
            continue;
        }
        if begun.elapsed() > PATIENCE_FOR_ALL {
            found.unknown.push(
                "git took too long, so the last writers of the remaining documents were not looked up"
                    .to_owned(),
            );
            break;
        }
        let author = match last_author(&document) {
            Ok(Some(author)) => author,
            Ok(None) => continue,
            Err(why) => {
                found
                    .unknown
                    .push(format!("who wrote {document:?} last cannot be told: {why}"));
                continue;
            }
        };
        let path = shown(&document);
        let Some(scope) = of(&scopes, &path) else { continue };
        let Some(agent) = agents
            .all()
            .into_iter()
            .find(|agent| agent.agent_id.eq_ignore_ascii_case(&author))
        else {
            continue;
        };
        let Ok(seat) = SeatId::parse(&agent.agent_id) else {
            continue;
        };
        let has = roles(&agent);
        if !owns(scope, &has) {
            found.drifted.push(Drifted {
                path,
                agent: seat,
                role: has.into_iter().next(),
                owners: scope.roles.clone(),
            });
        }
    }
    Ok(found)
}

/// The documents on this machine that are declared, by absolute paths.
fn documents(scopes: &[Scope], repos: &[PathBuf], unknown: &mut Vec<String>) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for scope in scopes {
        let (roots, inside): (Vec<PathBuf>, &str) = match scope.path.strip_prefix('/') {
            Some(inside) => (vec![PathBuf::from("/")], inside),
            None => (repos.to_vec(), &scope.path),
        };
        for root in roots {
            if is_pattern(inside) {
                match matching(&root, inside) {
                    Ok(more) => paths.extend(more),
                    Err(why) => unknown.push(format!(
                        "which documents {:?} stands for cannot be told: {why}",
                        scope.path
                    )),
                }
            } else {
                paths.push(root.join(inside));
            }
        }
    }
    paths
}

/// The committed documents that a pattern stands for.
fn matching(root: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    // Git is asked from the last folder that the pattern names itself.
    let fixed = pattern
        .split('/')
        .take_while(|part| !is_pattern(part))
        .collect::<Vec<_>>()
        .join("/");
    let folder = root.join(&fixed);
    let rest = pattern
        .strip_prefix(&fixed)
        .unwrap_or(pattern)
        .trim_start_matches('/');
    if !folder.is_dir() || !in_git(&folder) {
        return Ok(Vec::new());
    }
    let said = git(&folder, &["--glob-pathspecs", "ls-files", "-z", "--", rest])?;
    Ok(said
        .split('\0')
        .filter(|name| !name.is_empty())
        .take(MOST)
        .map(|name| folder.join(name))
        .collect())
}

/// Who made the last commit that touched a document.
fn last_author(document: &Path) -> Result<Option<String>, String> {
    let (Some(folder), Some(name)) = (
        document.parent(),
        document.file_name().and_then(|name| name.to_str()),
    ) else {
        return Ok(None);
    };
    if !document.is_file() || !in_git(folder) {
        return Ok(None);
    }
    let said = match git(
        folder,
        &["--literal-pathspecs", "log", "-1", "--format=%an", "--", name],
    ) {
        // Before the first commit that is a failure; nobody has written anything then.
        Err(why) => match git(folder, &["rev-list", "--all", "-n", "1"]) {
            Ok(commits) if commits.is_empty() => return Ok(None),
            _ => return Err(why),
        },
        Ok(said) => said,
    };
    let author = said.trim_end_matches('\n');
    Ok((!author.is_empty()).then(|| author.to_owned()))
}

fn in_git(folder: &Path) -> bool {
    folder.ancestors().any(|above| above.join(".git").exists())
}

/// Runs git in a folder and answers what it wrote. Nothing of the repository's own settings may start another program.
fn git(folder: &Path, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command
        .args([
            "--no-pager",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "log.showSignature=false",
        ])
        .args(words)
        .current_dir(folder)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for name in [
        "GIT_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_COMMON_DIR",
        "GIT_EXTERNAL_DIFF",
    ] {
        command.env_remove(name);
    }
    let mut child = command
        .spawn()
        .map_err(|error| format!("git could not be started ({error})"))?;
    let out = child.stdout.take();
    let (send, read) = mpsc::channel();
    let reader = std::thread::Builder::new()
        .name("git-output".to_owned())
        .spawn(move || {
            let mut text = Vec::new();
            let whole = out.map(|out| out.take(OUTPUT).read_to_end(&mut text));
            // Nobody waits any more when git took too long.
            let _ = send.send(whole.is_some_and(|read| read.is_ok()).then_some(text));
        });
    let said = reader
        .ok()
        .and_then(|_| read.recv_timeout(PATIENCE).ok())
        .flatten();
    let begun = Instant::now();
    while said.is_some() && matches!(child.try_wait(), Ok(None)) && begun.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(2));
    }
    // For one that has ended this does nothing.
    let _ = child.kill();
    let ended = child
        .wait()
        .map_err(|error| format!("git could not be waited for ({error})"))?;
    match said {
        None => Err(format!(
            "git did not answer within {} seconds",
            PATIENCE.as_secs()
        )),
        Some(_) if !ended.success() => Err(format!("git ended with {ended}")),
        Some(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
    }
}
