//! The projects' acts. Never gives an id out twice, and never forgets the last name of one that was removed.

use std::path::{Path, PathBuf};

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{ConnectionId, IntegrationId, OwnerId, PolicyId, ProjectId, TaskId};
use muster_core::text::{Slug, terminal};
use muster_store::Tx;
use serde_json::{Value, json};

use super::{ProjectError, RepoName, sql};
use crate::audit::{self, Event, Subject};
use crate::integrations::{self, IntegrationError};
use crate::named::{Named, Word, is_taken};
use crate::{App, RESOURCES, policies};

/// Longest path of a root, in bytes.
const ROOT_MAX: usize = 4096;

/// A policy by id and name.
pub type PolicyName = Named<PolicyId>;

/// A repository and the integration that reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repo {
    /// `OWNER/NAME`.
    pub path: String,
    /// The integration.
    pub integration: Named<IntegrationId>,
}

/// A live project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    /// Its id.
    pub id: ProjectId,
    /// Its name.
    pub name: String,
    /// Its root folder, an absolute path without links. Outside text.
    pub root: String,
    /// Its repository.
    pub repo: Option<Repo>,
    /// The policy that its new tasks get; none for the built-in one that grants nothing.
    pub default_policy: Option<PolicyName>,
    /// When it was added.
    pub created_at: Time,
}

/// A new project.
#[derive(Debug, Clone)]
pub struct NewProject {
    /// Unique among the owner's live projects.
    pub name: Slug,
    /// The root folder, as it was written; a relative one is below the working folder of this process.
    pub root: PathBuf,
    /// The repository and the integration that reaches it.
    pub repo: Option<(RepoName, IntegrationId)>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    name: String,
    root: String,
    repo: Option<String>,
    integration_id: Option<i64>,
    integration_name: Option<String>,
    default_policy_id: Option<i64>,
    default_policy_name: Option<String>,
    created_at: i64,
}

impl From<Row> for Project {
    fn from(row: Row) -> Self {
        let integration = row
            .integration_id
            .zip(row.integration_name)
            .map(|(id, name)| Named {
                id: IntegrationId::new(id),
                name,
            });
        Self {
            id: ProjectId::new(row.id),
            name: row.name,
            root: row.root,
            repo: row
                .repo
                .zip(integration)
                .map(|(path, integration)| Repo { path, integration }),
            default_policy: row
                .default_policy_id
                .zip(row.default_policy_name)
                .map(|(id, name)| Named {
                    id: PolicyId::new(id),
                    name,
                }),
            created_at: Time::from_micros(row.created_at),
        }
    }
}

fn name_taken(fault: Fault) -> ProjectError {
    if is_taken(&fault, "projects") {
        ProjectError::NameTaken
    } else {
        ProjectError::Fault(fault)
    }
}

fn event(name: &'static str, project: ProjectId, data: Value) -> Event {
    Event::by_owner(name, Subject::Project(project), data)
}

/// The folder itself: absolute, without links, so that two names of one folder are one.
async fn folder(root: &Path) -> Result<String, ProjectError> {
    let refused = |reason: String| ProjectError::Root {
        path: terminal(&root.display().to_string()),
        reason,
    };
    let found = tokio::fs::canonicalize(root)
        .await
        .map_err(|error| refused(error.to_string()))?;
    let facts = tokio::fs::metadata(&found)
        .await
        .map_err(|error| refused(error.to_string()))?;
    if !facts.is_dir() {
        return Err(refused("it is a file".to_owned()));
    }
    let text = found
        .into_os_string()
        .into_string()
        .map_err(|_| refused("its path is not UTF-8".to_owned()))?;
    if text.len() > ROOT_MAX {
        return Err(refused(format!("its path has more than {ROOT_MAX} bytes")));
    }
    Ok(text)
}

/// Adds a project.
///
/// # Errors
/// [`ProjectError::Root`], [`ProjectError::NameTaken`], [`ProjectError::NoIntegration`], or a fault.
pub async fn add(app: &App, owner: OwnerId, new: NewProject) -> Result<Project, ProjectError> {
    let root = folder(&new.root).await?;
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let (repo, integration) = new.repo.unzip();
                if let Some(integration) = integration {
                    integrations::of(tx, integration)
                        .await
                        .map_err(|error| match error {
                            IntegrationError::Fault(fault) => ProjectError::Fault(fault),
                            _ => ProjectError::NoIntegration,
                        })?;
                }
                let repo = repo.as_ref().map(RepoName::as_str);
                let id = tx
                    .number(&sql::INSERT, (new.name.as_str(), root, repo, integration, now))
                    .await
                    .map_err(name_taken)?;
                let id = ProjectId::new(id);
                let data = json!({"name": new.name.as_str()});
                audit::record(tx, now, event("project.add", id, data)).await?;
                of(tx, id).await
            })
        })
        .await
}

/// The owner's projects, oldest first, without removed ones.
///
/// # Errors
/// A fault.
pub async fn list(app: &App, owner: OwnerId) -> Result<Vec<Project>, Fault> {
    let rows: Vec<Row> = app
        .db
        .read(owner, |tx| Box::pin(async move { tx.all(&sql::LIST, ()).await }))
        .await?;
    Ok(rows.into_iter().map(Project::from).collect())
}

/// The live project that a word names: its id, or its name.
///
/// # Errors
/// [`ProjectError::NotFound`], or a fault.
pub async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Project, ProjectError> {
    let word = Word::of(word);
    app.db
        .read(owner, move |tx| Box::pin(async move { found(tx, word).await }))
        .await
}

async fn found(tx: &mut Tx, word: Word) -> Result<Project, ProjectError> {
    let row: Option<Row> = tx.optional(&sql::FIND, (word.id, word.name)).await?;
    row.map(Project::from).ok_or(ProjectError::NotFound)
}

pub(crate) async fn of(tx: &mut Tx, project: ProjectId) -> Result<Project, ProjectError> {
    found(tx, Word::of_id(project.get())).await
}

/// The root folder of a project, of a removed one too.
///
/// # Errors
/// [`ProjectError::NotFound`], or a fault.
pub async fn root(app: &App, owner: OwnerId, project: ProjectId) -> Result<PathBuf, ProjectError> {
    let row: Option<(String,)> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.optional(&sql::ROOT, (project,)).await })
        })
        .await?;
    row.map(|(root,)| PathBuf::from(root))
        .ok_or(ProjectError::NotFound)
}

/// The policy that a word names: its id, or its name.
///
/// # Errors
/// [`ProjectError::NoPolicy`], or a fault.
pub async fn policy(app: &App, owner: OwnerId, word: &str) -> Result<PolicyName, ProjectError> {
    let word = Word::of(word);
    let row: Option<(i64, String)> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.optional(&sql::POLICY, (word.id, word.name)).await })
        })
        .await?;
    row.map(|(id, name)| Named {
        id: PolicyId::new(id),
        name,
    })
    .ok_or(ProjectError::NoPolicy)
}

/// Gives a project another name. Its id, which is what grants hold, stays.
///
/// # Errors
/// [`ProjectError::NotFound`], [`ProjectError::NameTaken`], or a fault.
pub async fn rename(
    app: &App,
    owner: OwnerId,
    project: ProjectId,
    name: Slug,
) -> Result<Project, ProjectError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, project).await?;
                tx.run(&sql::RENAME, (project, name.as_str()))
                    .await
                    .map_err(name_taken)?;
                let data = json!({"from": before.name, "to": name.as_str()});
                audit::record(tx, now, event("project.rename", project, data)).await?;
                Ok(Project {
                    name: name.into_string(),
                    ..before
                })
            })
        })
        .await
}

/// Chooses the policy that new tasks of the project get; `None` for the built-in one that grants nothing. Tasks that are there keep theirs.
///
/// # Errors
/// [`ProjectError::NotFound`], [`ProjectError::NoPolicy`], or a fault.
pub async fn set_default(
    app: &App,
    owner: OwnerId,
    project: ProjectId,
    policy: Option<PolicyId>,
) -> Result<Project, ProjectError> {
    set_default_at(app, owner, project, policy, None).await
}

/// The same where the choice was made for one revision of the policy; the built-in one has revision 0.
///
/// # Errors
/// [`ProjectError::StaleRevision`], and those of [`set_default`].
pub async fn set_default_at(
    app: &App,
    owner: OwnerId,
    project: ProjectId,
    policy: Option<PolicyId>,
    revision: Option<i64>,
) -> Result<Project, ProjectError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, project).await?;
                if let Some(given) = revision {
                    let current = policies::revision(tx, policy)
                        .await?
                        .ok_or(ProjectError::NoPolicy)?;
                    if given != current {
                        return Err(ProjectError::StaleRevision { given, current });
                    }
                }
                let set = tx.run(&sql::SET_DEFAULT, (project, policy)).await;
                set.map_err(|fault| match fault.constraint() {
                    // The only thing here that a key can miss: a policy that is not there, or no longer.
                    Some(_) => ProjectError::NoPolicy,
                    None => ProjectError::Fault(fault),
                })?;
                let data = json!({
                    "from": before.default_policy.map(|policy| policy.id.to_string()),
                    "to": policy.map(|policy| policy.to_string()),
                });
                audit::record(tx, now, event("project.set_default", project, data)).await?;
                of(tx, project).await
            })
        })
        .await
}

/// Removes a project that has no open task and no database connection: its name is free again, its id never comes back, and its closed tasks
/// stay. Nothing in its folder is touched.
///
/// # Errors
/// [`ProjectError::NotFound`], [`ProjectError::InUse`], or a fault.
pub async fn remove(app: &App, owner: OwnerId, project: ProjectId) -> Result<Project, ProjectError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, project).await?;
                let tasks: Vec<(i64, String)> = tx.all(&sql::OPEN_TASKS, (project,)).await?;
                let connections: Vec<(i64, String)> = tx.all(&sql::CONNECTIONS, (project,)).await?;
                if !(tasks.is_empty() && connections.is_empty()) {
                    let task = |(id, name)| Named {
                        id: TaskId::new(id),
                        name,
                    };
                    let connection = |(id, name)| Named {
                        id: ConnectionId::new(id),
                        name,
                    };
                    return Err(ProjectError::InUse {
                        tasks: tasks.into_iter().map(task).collect(),
                        connections: connections.into_iter().map(connection).collect(),
                    });
                }
                tx.run(&sql::REMOVE, (project, now)).await?;
                let data = json!({"name": before.name});
                audit::record(tx, now, event("project.remove", project, data)).await?;
                Ok(before)
            })
        })
        .await
}
