//! Work documents: the queue, the done list and the board of a project, imported into records and rendered back. Never the authority: the markdown is, and an edit made there is never written over.
//!
//! What was imported stands in `work/<project>.json` of the bus directory. The repository is what the caller names (`repo`, an absolute
//! path), else what the caller knows the project by (`default_repo`), else the one that was imported.

mod document;
mod files;

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use document::{Document, Kind, Record};

use crate::error::{BusError, failed};
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock;
use crate::names::SeatId;
use crate::scopes;
pub(crate) use files::NAMES;
use files::{Found, Repo, print};

/// What was imported of one project.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Store {
    project: String,
    repo: PathBuf,
    imported_at: i64,
    documents: Vec<Stored>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    path: String,
    /// Of the bytes that were imported.
    sha256: String,
    document: Document,
}

/// The repository that a call is about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Place<'a> {
    /// What the caller named.
    pub repo: Option<&'a Path>,
    /// Where the project lives, when muster knows a project of this name.
    pub default_repo: Option<&'a Path>,
}

/// How many records of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Items of the queue, ticked ones included.
    pub queue: usize,
    /// Done items.
    pub done: usize,
    /// Rows of the board.
    pub board: usize,
}

impl Counts {
    fn of<'r>(records: impl Iterator<Item = &'r Record>) -> Self {
        records.fold(Self::default(), |mut counts, record| {
            match record.kind() {
                Kind::Queue => counts.queue += 1,
                Kind::Done => counts.done += 1,
                Kind::Board => counts.board += 1,
            }
            counts
        })
    }
}

/// What an import read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The project.
    pub project: String,
    /// Its repository.
    pub repo: PathBuf,
    /// The documents that were there.
    pub documents: Vec<String>,
    /// What they hold.
    #[serde(flatten)]
    pub counts: Counts,
    /// What the caller should know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Reads a project's documents into the store, in place of what was there.
///
/// # Errors
/// [`BusError::ProjectName`], [`BusError::NoRepo`], [`BusError::NoDocuments`], [`BusError::Document`], a fault. Nothing was imported then.
pub fn import_work(home: &Home, project: &str, place: Place<'_>) -> Result<Imported, BusError> {
    let name = file(project)?;
    home::make_folder(&home.path("work"))?;
    let _held = lock::lock(home, &name)?;
    let mut note = None;
    let before = match load(home, project) {
        Err(BusError::Damaged(_)) => {
            // The documents hold everything that this file did, but it is not written over all the same.
            let (from, to) = (home.path(&name), home.path(&format!("{name}.bak")));
            fs::rename(&from, &to).map_err(|error| failed("move", &from, error))?;
            note = Some(format!(
                "{name} could not be read and now stands beside it as {name}.bak"
            ));
            None
        }
        other => other?,
    };
    let repo = repo(project, place, before.as_ref())?;
    let documents = repo.documents()?.into_iter().map(stored).collect();
    let store = Store {
        project: project.to_owned(),
        repo: repo.path().to_owned(),
        imported_at: home.now(),
        documents,
    };
    json::write(home, &name, &store, Keep::Durably)?;
    Ok(Imported {
        project: store.project,
        repo: store.repo,
        counts: Counts::of(
            store
                .documents
                .iter()
                .flat_map(|stored| stored.document.records()),
        ),
        documents: store.documents.into_iter().map(|stored| stored.path).collect(),
        note,
    })
}

fn stored(found: Found) -> Stored {
    Stored {
        path: found.path.to_owned(),
        sha256: print(&found.text),
        document: Document::parse(found.kind, &found.text),
    }
}

/// Which records to list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filter<'a> {
    /// Only this kind. Done items are then listed when it is theirs.
    pub kind: Option<Kind>,
    /// Only queue items of this priority, as in `P0`.
    pub priority: Option<&'a str>,
    /// Ticked items of the queue and done items as well.
    pub include_done: bool,
}

impl Filter<'_> {
    fn wants(&self, record: &Record) -> bool {
        if self.kind.is_some_and(|kind| kind != record.kind()) {
            return false;
        }
        match record {
            Record::Queue { priority, done, .. } => {
                let wanted = |wanted: &str| {
                    priority
                        .as_deref()
                        .is_some_and(|has| has.eq_ignore_ascii_case(wanted.trim()))
                };
                (self.include_done || !done) && self.priority.is_none_or(wanted)
            }
            Record::Done { .. } => (self.include_done || self.kind.is_some()) && self.priority.is_none(),
            Record::Board { .. } => self.priority.is_none(),
        }
    }
}

/// Where listed records come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum From {
    /// What was imported.
    Store,
    /// The documents themselves: nothing was imported of this repository.
    Documents,
}

/// Records of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The project.
    pub project: String,
    /// Its repository.
    pub repo: PathBuf,
    /// Where the records come from.
    pub from: From,
    /// The records, in the order of the documents.
    pub records: Vec<Record>,
    /// What the caller should know: documents that were edited since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Lists a project's records; from the documents themselves when nothing was imported of the repository that is meant.
///
/// # Errors
/// [`BusError::ProjectName`], [`BusError::Damaged`]; without an import what [`import_work`] answers.
pub fn list_work(
    home: &Home,
    project: &str,
    filter: Filter<'_>,
    place: Place<'_>,
) -> Result<Listed, BusError> {
    let store = load(home, project)?;
    let named = place.repo.map(Repo::open).transpose()?;
    let usable = store.filter(|store| named.as_ref().is_none_or(|repo| repo.path() == store.repo));
    let (repo, from, documents, note) = match usable {
        Some(store) => {
            let note = Repo::open(&store.repo)
                .ok()
                .and_then(|repo| stale(&repo, &store.documents));
            (store.repo, From::Store, store.documents, note)
        }
        None => {
            let repo = match named {
                Some(repo) => repo,
                None => repo(project, place, None)?,
            };
            let documents = repo.documents()?.into_iter().map(stored).collect();
            (repo.path().to_owned(), From::Documents, documents, None)
        }
    };
    let records = documents
        .iter()
        .flat_map(|stored| stored.document.records())
        .filter(|record| filter.wants(record))
        .cloned()
        .collect();
    Ok(Listed {
        project: project.to_owned(),
        repo,
        from,
        records,
        note,
    })
}

/// A sentence about documents that are no longer what was imported.
fn stale(repo: &Repo, documents: &[Stored]) -> Option<String> {
    let edited: Vec<&str> = documents
        .iter()
        .filter(|stored| {
            !repo
                .read(&stored.path)
                .is_ok_and(|text| text.is_some_and(|text| print(&text) == stored.sha256))
        })
        .map(|stored| stored.path.as_str())
        .collect();
    (!edited.is_empty()).then(|| {
        format!(
            "{} changed since it was imported; import_work reads it anew",
            edited.join(" and ")
        )
    })
}

/// One document as an export renders it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rendered {
    /// Inside the repository.
    pub path: String,
    /// The whole document.
    pub text: String,
    /// Whether the file says the same already.
    pub same: bool,
    /// Whether the file was written.
    pub written: bool,
}

/// What an export rendered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The project.
    pub project: String,
    /// The repository.
    pub repo: PathBuf,
    /// The documents.
    pub documents: Vec<Rendered>,
    /// Write scopes that somebody else holds, and edits since the import.
    pub notes: Vec<String>,
}

/// Renders a project's documents out of the store and, with `write`, writes them. A declared write scope is told of and never holds the
/// write back. A document that was edited since the import does: it is the authority. One that is absent is made.
///
/// # Errors
/// [`BusError::NothingImported`], [`BusError::Edited`] (no document was written), [`BusError::Document`], [`BusError::Damaged`], a fault.
pub fn export_work(
    home: &Home,
    project: &str,
    write: bool,
    seat: Option<&SeatId>,
    place: Place<'_>,
) -> Result<Exported, BusError> {
    let name = file(project)?;
    if !home.path(&name).exists() {
        return Err(BusError::NothingImported(project.to_owned()));
    }
    let _held = lock::lock(home, &name)?;
    let store = load(home, project)?
        .filter(|store| !store.documents.is_empty())
        .ok_or_else(|| BusError::NothingImported(project.to_owned()))?;
    let repo = repo(project, place, Some(&store))?;
    // Another checkout of the same project is one thing, any folder of this machine another.
    if write && repo.path() != store.repo && !repo.path().join(".git").exists() {
        return Err(BusError::Argument(
            "documents are written only into the repository they were imported from, or into another git checkout; this folder is neither",
        ));
    }
    let (mut documents, mut notes, mut edited, mut before) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for stored in &store.documents {
        let text = stored.document.render();
        let now = repo.read(&stored.path)?;
        let same = now.as_deref() == Some(text.as_str());
        match &now {
            None => notes.push(format!(
                "{} is not there{}",
                stored.path,
                if write { " and is made" } else { "" }
            )),
            Some(now) if !same && print(now) != stored.sha256 => edited.push(stored.path.as_str()),
            Some(_) => {}
        }
        notes.extend(held(home, &repo, &stored.path, seat));
        before.push(now);
        documents.push(Rendered {
            path: stored.path.clone(),
            text,
            same,
            written: false,
        });
    }
    if !edited.is_empty() {
        let edited = edited.join(" and ");
        if write {
            return Err(BusError::Edited(edited));
        }
        notes.push(format!("{edited} changed since it was imported; write:true would be refused until import_work reads it anew"));
    }
    if write {
        for (document, before) in documents.iter_mut().zip(&before) {
            repo.write(&document.path, before.as_deref(), &document.text)?;
            (document.same, document.written) = (true, true);
        }
    }
    Ok(Exported {
        project: project.to_owned(),
        repo: repo.path().to_owned(),
        documents,
        notes,
    })
}

/// What is declared about writing a document, unless nothing speaks against it.
fn held(home: &Home, repo: &Repo, name: &str, seat: Option<&SeatId>) -> Option<String> {
    let path = scopes::shown(&repo.path().join(name));
    let told = match seat {
        Some(seat) => {
            scopes::may_write(home, &path, seat).map(|answer| (!answer.may_write).then_some(answer.note))
        }
        None => scopes::owner(home, &path).map(|scope| {
            scope.map(|scope| {
                format!(
                    "this document is declared for {}, and no agentId was given",
                    scope.roles.join(" or ")
                )
            })
        }),
    };
    match told {
        Ok(note) => note.map(|note| format!("{name}: {note}")),
        Err(error) => Some(format!("{name}: who owns it cannot be told: {error}")),
    }
}

fn repo(project: &str, place: Place<'_>, store: Option<&Store>) -> Result<Repo, BusError> {
    let known = place
        .repo
        .or(place.default_repo)
        .or(store.map(|store| store.repo.as_path()));
    Repo::open(known.ok_or_else(|| BusError::NoRepo(project.to_owned()))?)
}

/// The store's file of a project, whose name is checked by the rule for agent ids.
fn file(project: &str) -> Result<String, BusError> {
    SeatId::parse(project).map_err(|_| BusError::ProjectName)?;
    Ok(format!("work/{project}.json"))
}

fn load(home: &Home, project: &str) -> Result<Option<Store>, BusError> {
    json::read(home, &file(project)?)
}

/// The repositories of all imported projects. A store that cannot be read names none.
///
/// # Errors
/// A fault.
pub(crate) fn repos(home: &Home) -> Result<Vec<PathBuf>, BusError> {
    let path = home.path("work");
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", &path, error)),
    };
    let mut repos = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed("read", &path, error))?;
        let name = entry.file_name();
        let project = name.to_str().and_then(|name| name.strip_suffix(".json"));
        if let Some(Ok(Some(store))) = project.map(|project| load(home, project)) {
            repos.push(store.repo);
        }
    }
    repos.sort();
    repos.dedup();
    Ok(repos)
}
