//! What the laws of resources share: short ways to make one of each, and a policy without the slice of policies. Never asserts a law.

use muster_app::audit::{self, Entry, Filter};
use muster_app::databases::{self, Connection, DatabaseError, DbUrl, NewConnection};
use muster_app::integrations::{self, ForgeKind, ForgeUrl, Integration, IntegrationError, NewIntegration};
use muster_app::projects::{self, NewProject, Project, ProjectError};
use muster_app::tasks::{self, By, NewTask, PolicyChoice, Task, TaskError};
use muster_app::{App, hosts};
use muster_core::ids::{OwnerId, PolicyId, ProjectId};
use muster_core::text::{Slug, TaskBody, TaskTitle};
use muster_core::{Fault, Secret};
use muster_store::{Sql, owned};
use muster_testkit::TestMuster;

static ADD_POLICY: Sql = owned(
    "test.add_policy",
    "INSERT INTO policies (owner_id, name, revision, created_at, updated_at) VALUES ($1, $2, 3, 1, 1) RETURNING id",
);
static DELETE_POLICY: Sql = owned(
    "test.delete_policy",
    "DELETE FROM policies WHERE owner_id = $1 AND id = $2",
);

pub(crate) fn slug(text: &str) -> Slug {
    Slug::parse("name", text).unwrap()
}

pub(crate) fn title(text: &str) -> TaskTitle {
    TaskTitle::parse("title", text).unwrap()
}

pub(crate) fn body(text: &str) -> TaskBody {
    TaskBody::parse("body", text).unwrap()
}

pub(crate) async fn add_policy(app: &App, owner: OwnerId, name: &str) -> PolicyId {
    let name = name.to_owned();
    let id: Result<i64, Fault> = app
        .db
        .write(owner, move |tx| {
            Box::pin(async move { tx.number(&ADD_POLICY, (name,)).await })
        })
        .await;
    PolicyId::new(id.unwrap())
}

/// Deletes a policy as an act that knows nothing of what depends on it would; whether the database let it.
pub(crate) async fn delete_policy(app: &App, owner: OwnerId, policy: PolicyId) -> bool {
    let done: Result<u64, Fault> = app
        .db
        .write(owner, move |tx| {
            Box::pin(async move { tx.run(&DELETE_POLICY, (policy,)).await })
        })
        .await;
    match done {
        Ok(deleted) => deleted == 1,
        Err(fault) => {
            assert!(fault.constraint().is_some(), "{}", fault.chain());
            false
        }
    }
}

pub(crate) async fn try_project(app: &App, owner: OwnerId, name: &str) -> Result<Project, ProjectError> {
    let new = NewProject {
        name: slug(name),
        root: app.settings.data_dir.clone(),
        repo: None,
    };
    projects::add(app, owner, new).await
}

pub(crate) async fn project(app: &App, owner: OwnerId, name: &str) -> Project {
    try_project(app, owner, name).await.unwrap()
}

pub(crate) async fn try_task(
    app: &App,
    owner: OwnerId,
    by: By,
    project: ProjectId,
    policy: PolicyChoice,
) -> Result<Task, TaskError> {
    let new = NewTask {
        project,
        title: title("a title"),
        body: body("a body"),
        policy,
    };
    tasks::add(app, owner, by, new).await
}

pub(crate) async fn task(app: &App, owner: OwnerId, project: ProjectId) -> Task {
    try_task(app, owner, By::Owner, project, PolicyChoice::Default)
        .await
        .unwrap()
}

pub(crate) async fn try_integration(
    app: &App,
    owner: OwnerId,
    name: &str,
    token: &str,
) -> Result<Integration, IntegrationError> {
    let new = NewIntegration {
        name: slug(name),
        kind: ForgeKind::Github,
        url: ForgeUrl::parse("https://api.forge.test").unwrap(),
        token: Secret::new(token),
    };
    integrations::add(app, owner, new).await
}

pub(crate) async fn integration(app: &App, owner: OwnerId, name: &str) -> Integration {
    try_integration(app, owner, name, "a-token").await.unwrap()
}

pub(crate) fn url(text: &str) -> DbUrl {
    DbUrl::parse(Secret::new(text)).unwrap()
}

pub(crate) async fn try_connection(
    app: &App,
    owner: OwnerId,
    project: ProjectId,
    name: &str,
) -> Result<Connection, DatabaseError> {
    let new = NewConnection {
        name: slug(name),
        project,
        url: url("postgres://reader:read-word@db.test/app"),
        write_url: Some(url("postgres://writer:write-word@db.test/app")),
        wide: false,
        looked: false,
    };
    databases::add(app, owner, new).await
}

pub(crate) async fn connection(app: &App, owner: OwnerId, project: ProjectId, name: &str) -> Connection {
    try_connection(app, owner, project, name).await.unwrap()
}

pub(crate) async fn host(app: &App, owner: OwnerId, name: &str) -> hosts::Host {
    hosts::add(app, owner, slug(name)).await.unwrap()
}

/// The audit rows of this event, oldest first.
pub(crate) async fn events(muster: &TestMuster, event: &str) -> Vec<Entry> {
    let filter = Filter {
        event: event.to_owned(),
        ..Filter::default()
    };
    let mut found = audit::list(&muster.app.db, muster.owner, filter).await.unwrap();
    found.reverse();
    found
}
