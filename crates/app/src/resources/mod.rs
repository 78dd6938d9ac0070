//! What grants name: every resource by kind, stable id and name. Never decides and never changes one.

mod sql;

use std::collections::HashMap;

use muster_core::Fault;
use muster_core::ids::{OwnerId, TaskId};
use muster_core::text::terminal;
use muster_policy::{Pair, Resource, Scope, ScopeKind, Target};
use muster_store::{Db, Tx};
use serde::Serialize;

pub use sql::STATEMENTS;

/// A resource as every door shows it; a repo's id is its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResourceRef {
    /// The kind's word, or `any` for a scope that names none.
    pub kind: &'static str,
    /// Its stable id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What it is called now, or was last called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Every resource of an owner's there is or was.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    live: Vec<Target>,
    names: HashMap<Resource, String>,
    /// The project around each worktree and database connection.
    projects: HashMap<Resource, String>,
    alive: HashMap<Resource, usize>,
}

#[derive(sqlx::FromRow)]
struct Row {
    kind: String,
    id: i64,
    name: String,
    project: Option<i64>,
    removed_at: Option<i64>,
}

/// Reads all of an owner's resources, those that were removed for their last names.
///
/// # Errors
/// A fault.
pub async fn all(tx: &mut Tx) -> Result<Resources, Fault> {
    let mut rows: Vec<Row> = tx.all(&sql::ALL, ()).await?;
    rows.sort_by(|one, other| (&one.kind, one.id).cmp(&(&other.kind, other.id)));
    let repos: Vec<(String,)> = tx.all(&sql::REPOS, ()).await?;
    let mut found = Resources::default();
    for row in rows {
        found.add(row)?;
    }
    for (name,) in repos {
        found.add_repo(&name)?;
    }
    Ok(found)
}

/// Reads the resources that these pairs name, and no others: what one call costs must not grow with what an owner has or had.
///
/// # Errors
/// A fault.
pub async fn of_pairs(tx: &mut Tx, pairs: &[Pair]) -> Result<Resources, Fault> {
    let mut found = Resources::default();
    for resource in pairs.iter().filter_map(Pair::resource) {
        if found.names.contains_key(resource) {
            continue;
        }
        // Every id that a door hands on is a number; another names nothing. A repo's is its name.
        let id = resource.id().parse::<i64>().unwrap_or_default();
        let alone = |row: (String, Option<i64>)| (row.0, row.1, None);
        let around = |row: (String, Option<i64>, i64)| (row.0, row.1, Some(row.2));
        let row = match resource.kind() {
            ScopeKind::Project => tx.optional(&sql::PROJECT, (id,)).await?.map(alone),
            ScopeKind::Host => tx.optional(&sql::HOST, (id,)).await?.map(alone),
            ScopeKind::Integration => tx.optional(&sql::INTEGRATION, (id,)).await?.map(alone),
            ScopeKind::Worktree => tx.optional(&sql::WORKTREE, (id,)).await?.map(around),
            ScopeKind::DbConnection => tx.optional(&sql::DB_CONNECTION, (id,)).await?.map(around),
            ScopeKind::Repo => {
                let repo: Option<(String,)> = tx.optional(&sql::REPO, (resource.id(),)).await?;
                if let Some((name,)) = repo {
                    found.add_repo(&name)?;
                }
                None
            }
        };
        if let Some((name, removed_at, project)) = row {
            found.add(Row {
                kind: resource.kind().as_str().to_owned(),
                id,
                name,
                project,
                removed_at,
            })?;
        }
    }
    Ok(found)
}

/// The same in a transaction of its own.
///
/// # Errors
/// A fault.
pub async fn list(db: &Db, owner: OwnerId) -> Result<Resources, Fault> {
    db.read(owner, |tx| Box::pin(all(tx))).await
}

fn target_of(resource: &Resource, project: Option<i64>) -> Result<Target, Fault> {
    match (resource.kind(), project) {
        (ScopeKind::Worktree, Some(project)) => Target::worktree(resource.id(), &project.to_string()),
        _ => Target::new(resource.clone()),
    }
    .map_err(|error| Fault::other(error.to_string()))
}

/// What a call about a task names: the task itself, its project, and its worktree when it has one.
#[derive(Debug, Clone)]
pub struct OfTask {
    /// The project.
    pub project: Target,
    /// The worktree, once it was made.
    pub worktree: Option<Target>,
    /// The project's repository, when it has one.
    pub repo: Option<Target>,
}

impl OfTask {
    /// The task's worktree when `action` takes worktrees and the task has one, else its project.
    #[must_use]
    pub fn target(&self, action: muster_policy::Action) -> &Target {
        match &self.worktree {
            Some(worktree) if action.takes(ScopeKind::Worktree) => worktree,
            _ => &self.project,
        }
    }
}

#[derive(sqlx::FromRow)]
struct TaskRow {
    project_id: i64,
    worktree_id: Option<i64>,
    repo: Option<String>,
}

/// What calls about a task name; `None` when there is no such task, or its project was removed.
///
/// # Errors
/// A fault.
pub async fn of_task(tx: &mut Tx, task: TaskId) -> Result<Option<OfTask>, Fault> {
    let Some(row) = tx.optional::<TaskRow>(&sql::OF_TASK, (task,)).await? else {
        return Ok(None);
    };
    let broken = |error: muster_policy::Invalid| Fault::other(error.to_string());
    let project = row.project_id.to_string();
    let worktree = row
        .worktree_id
        .map(|id| Target::worktree(&id.to_string(), &project))
        .transpose()
        .map_err(broken)?;
    let project = Resource::new(ScopeKind::Project, &project)
        .and_then(Target::new)
        .map_err(broken)?;
    let repo = row
        .repo
        .map(|repo| Resource::new(ScopeKind::Repo, &repo).and_then(Target::new))
        .transpose()
        .map_err(broken)?;
    Ok(Some(OfTask {
        project,
        worktree,
        repo,
    }))
}

/// The same in a transaction of its own.
///
/// # Errors
/// A fault.
pub async fn task(db: &Db, owner: OwnerId, task: TaskId) -> Result<Option<OfTask>, Fault> {
    db.read(owner, move |tx| Box::pin(async move { of_task(tx, task).await }))
        .await
}

/// Whether a stored scope names what can be one: a repo by its name, everything else by an id in its one spelling.
pub(crate) fn is_stored_id(scope: &Scope) -> bool {
    scope.resource().is_none_or(|resource| {
        resource.kind() == ScopeKind::Repo
            || resource
                .id()
                .parse::<i64>()
                .is_ok_and(|id| id > 0 && id.to_string() == resource.id())
    })
}

impl Resources {
    fn add(&mut self, row: Row) -> Result<(), Fault> {
        let kind: ScopeKind = row
            .kind
            .parse()
            .map_err(|_| Fault::contradiction("resources", row.id, "its kind is none of the six"))?;
        let id = row.id.to_string();
        let resource = Resource::new(kind, &id)
            .map_err(|_| Fault::contradiction("resources", row.id, "its id is not one"))?;
        if let Some(project) = row.project {
            self.projects.insert(resource.clone(), project.to_string());
        }
        let name = match kind {
            // Its branch without what all of them begin with: a word that can be typed.
            ScopeKind::Worktree => row.name.strip_prefix("muster/").unwrap_or(&row.name).to_owned(),
            _ => row.name,
        };
        self.names.insert(resource.clone(), name);
        if row.removed_at.is_none() {
            let target = target_of(&resource, row.project)?;
            self.keep(target);
        }
        Ok(())
    }

    fn add_repo(&mut self, name: &str) -> Result<(), Fault> {
        let resource = Resource::new(ScopeKind::Repo, name)
            .map_err(|_| Fault::other("a project's repo is not OWNER/NAME"))?;
        if !self.alive.contains_key(&resource) {
            self.names.insert(resource.clone(), name.to_owned());
            let target = target_of(&resource, None)?;
            self.keep(target);
        }
        Ok(())
    }

    fn keep(&mut self, target: Target) {
        self.alive.insert(target.resource().clone(), self.live.len());
        self.live.push(target);
    }

    /// Every resource that exists, in the order of kind and age.
    #[must_use]
    pub fn live(&self) -> &[Target] {
        &self.live
    }

    /// The target that this id names, while it exists.
    #[must_use]
    pub fn target(&self, kind: ScopeKind, id: &str) -> Option<&Target> {
        let resource = Resource::new(kind, id).ok()?;
        self.alive.get(&resource).and_then(|at| self.live.get(*at))
    }

    /// A resource as a call named it once, also when it is gone by now.
    #[must_use]
    pub fn target_as_it_was(&self, resource: &Resource) -> Option<Target> {
        if resource.kind() == ScopeKind::Worktree {
            let project = self.projects.get(resource)?;
            return Target::worktree(resource.id(), project).ok();
        }
        Target::new(resource.clone()).ok()
    }

    /// Whether this id was ever a resource's, which is also so while it is one's.
    #[must_use]
    pub fn was_there(&self, resource: &Resource) -> bool {
        self.names.contains_key(resource)
    }

    /// Of one that was removed what it was, `connection removed (id 3), last named staging`; nothing of one that exists or never did.
    #[must_use]
    pub fn removed(&self, resource: &Resource) -> Option<String> {
        if self.alive.contains_key(resource) {
            return None;
        }
        let name = terminal(self.names.get(resource)?);
        let what = match resource.kind() {
            ScopeKind::DbConnection => "connection",
            kind => kind.as_str(),
        };
        Some(format!(
            "{what} removed (id {}), last named {name}",
            resource.id()
        ))
    }

    /// What a word on the command line names: an id first, then a name of an existing resource.
    #[must_use]
    pub fn find(&self, kind: ScopeKind, word: &str) -> Option<&Target> {
        self.target(kind, word).or_else(|| {
            self.live.iter().find(|target| {
                target.resource().kind() == kind
                    && self.names.get(target.resource()).map(String::as_str) == Some(word)
            })
        })
    }

    /// Existing resources of a project: itself, its repo, its worktrees and connections, and what belongs to none (hosts, integrations).
    #[must_use]
    pub fn of_project(&self, project: &str, repo: Option<&str>, integration: Option<&str>) -> Vec<Target> {
        self.live
            .iter()
            .filter(|target| {
                let resource = target.resource();
                match resource.kind() {
                    ScopeKind::Project => resource.id() == project,
                    ScopeKind::Worktree | ScopeKind::DbConnection => {
                        self.projects.get(resource).map(String::as_str) == Some(project)
                    }
                    ScopeKind::Host => true,
                    ScopeKind::Integration => Some(resource.id()) == integration,
                    ScopeKind::Repo => repo.is_some_and(|repo| resource.id().eq_ignore_ascii_case(repo)),
                }
            })
            .cloned()
            .collect()
    }

    /// What a resource is called besides its id; a repo's id is its name.
    #[must_use]
    pub fn name(&self, resource: &Resource) -> Option<String> {
        let name = self
            .names
            .get(resource)
            .filter(|_| resource.kind() != ScopeKind::Repo);
        name.cloned()
    }

    /// A resource as it is shown. One that was never there is called by its id.
    #[must_use]
    pub fn named(&self, resource: &Resource) -> ResourceRef {
        let name = self.name(resource);
        ResourceRef {
            kind: resource.kind().as_str(),
            id: Some(resource.id().to_owned()),
            name: Some(name.unwrap_or_else(|| resource.id().to_owned())),
        }
    }

    /// A scope as it is shown.
    #[must_use]
    pub fn scope(&self, scope: &Scope) -> ResourceRef {
        match scope {
            Scope::Any => ResourceRef {
                kind: "any",
                id: None,
                name: None,
            },
            Scope::One(resource) => self.named(resource),
        }
    }

    /// What a pair names, as it is shown.
    #[must_use]
    pub fn of_pair(&self, pair: &Pair) -> Option<ResourceRef> {
        pair.resource().map(|resource| self.named(resource))
    }
}
