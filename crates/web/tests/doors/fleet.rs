//! What the tests of permissions share: a project with a host and a database, a task under a policy, its agent, and calls that wait. It tests nothing itself.

use std::path::Path;

use muster_app::access::{self, Call, Permitted, Refused};
use muster_app::accounts::{self, AgentCaller};
use muster_app::databases::{self, DbUrl, NewConnection};
use muster_app::policies::{self, Edit, LayerName};
use muster_app::projects::{self, NewProject};
use muster_app::tasks::{self, By, NewTask, PolicyChoice};
use muster_app::{App, hosts};
use muster_core::Secret;
use muster_core::ids::{ConnectionId, HostId, OwnerId, PolicyId, ProjectId, TaskId};
use muster_core::text::{AgentLabel, Slug, TaskBody, TaskTitle};
use muster_policy::{Action, Needs, Resource, ScopeKind, Target};
use serde_json::{Value, json};

use super::kit::{Doors, soon};

/// A project, what is in it, and an agent on a task of its.
pub(crate) struct Fleet {
    pub(crate) project: ProjectId,
    pub(crate) host: HostId,
    pub(crate) staging: ConnectionId,
    pub(crate) policy: PolicyId,
    pub(crate) task: TaskId,
    pub(crate) agent: AgentCaller,
}

impl Fleet {
    /// One whose policy asks before an agent learns of the host or reads the database.
    pub(crate) async fn asking(doors: &Doors) -> Self {
        let fleet = Self::new(doors).await;
        let (app, ada) = (&doors.app, doors.ada());
        let host = format!("host:{}", fleet.host);
        let staging = format!("db_connection:{}", fleet.staging);
        for (action, scope) in [("hosts_read", host), ("db_read", staging)] {
            policies::grant(app, ada, fleet.edit(LayerName::Global), action, &scope, "ask")
                .await
                .unwrap();
        }
        fleet
    }

    /// One whose policy has no layers.
    pub(crate) async fn new(doors: &Doors) -> Self {
        let (app, ada) = (&doors.app, doors.ada());
        let new = NewProject {
            name: slug("engine"),
            root: doors.muster.dir.path().to_owned(),
            repo: None,
        };
        let project = projects::add(app, ada, new).await.unwrap().id;
        let host = hosts::add(app, ada, slug("tower")).await.unwrap().id;
        let staging = connection(app, ada, project, "staging", doors.muster.dir.path()).await;
        let policy = policies::create(app, ada, "shared").await.unwrap();
        let task = task(app, ada, project, "Tidy up", PolicyChoice::Policy(policy)).await;
        Self {
            project,
            host,
            staging,
            policy,
            task,
            agent: agent(app, ada, task, "helper").await,
        }
    }

    pub(crate) fn edit(&self, layer: LayerName) -> Edit {
        Edit {
            policy: self.policy,
            layer,
            revision: None,
        }
    }

    /// A call that lists the host.
    pub(crate) fn listing(&self, arguments: Value) -> Call {
        Call {
            tool: "muster_list_hosts".to_owned(),
            arguments,
            needs: Needs::of(Action::HostsRead, target(ScopeKind::Host, self.host.get())),
        }
    }

    /// A call that queries the database.
    pub(crate) fn query(&self, sql: &str) -> Call {
        Call {
            tool: "muster_db_query".to_owned(),
            arguments: json!({"connection_id": self.staging.to_string(), "sql": sql}),
            needs: Needs::of(
                Action::DbRead,
                target(ScopeKind::DbConnection, self.staging.get()),
            ),
        }
    }

    /// Makes a call that must wait, and waits until it does.
    pub(crate) async fn parks(&self, doors: &Doors, call: Call) -> Parked {
        let before = waiting(doors).await;
        let (app, agent) = (doors.app.clone(), self.agent.clone());
        let parked = tokio::spawn(async move { access::decide(&app, &agent, call).await });
        soon("a call that waits", || async { waiting(doors).await > before }).await;
        parked
    }
}

/// A call on its way.
pub(crate) type Parked = tokio::task::JoinHandle<Result<Permitted, Refused>>;

pub(crate) async fn waiting(doors: &Doors) -> usize {
    access::outlook(&doors.app, doors.ada()).await.unwrap().waiting
}

pub(crate) fn slug(name: &str) -> Slug {
    Slug::parse("name", name).unwrap()
}

fn target(kind: ScopeKind, id: i64) -> Target {
    Target::new(Resource::new(kind, &id.to_string()).unwrap()).unwrap()
}

pub(crate) async fn connection(
    app: &App,
    owner: OwnerId,
    project: ProjectId,
    name: &str,
    folder: &Path,
) -> ConnectionId {
    let url = format!("sqlite://{}", folder.join(format!("{name}.db")).display());
    let new = NewConnection {
        name: slug(name),
        project,
        url: DbUrl::parse(Secret::new(url)).unwrap(),
        write_url: None,
        wide: false,
        looked: false,
    };
    databases::add(app, owner, new).await.unwrap().id
}

pub(crate) async fn task(
    app: &App,
    owner: OwnerId,
    project: ProjectId,
    title: &str,
    policy: PolicyChoice,
) -> TaskId {
    let new = NewTask {
        project,
        title: TaskTitle::parse("title", title).unwrap(),
        body: TaskBody::parse("body", "").unwrap(),
        policy,
    };
    tasks::add(app, owner, By::Owner, new).await.unwrap().id
}

pub(crate) async fn agent(app: &App, owner: OwnerId, task: TaskId, label: &str) -> AgentCaller {
    let label = AgentLabel::parse("label", label).unwrap();
    let made = accounts::create_agent_token(app, owner, label, task)
        .await
        .unwrap();
    accounts::agent(app, made.token.expose()).await.unwrap().unwrap()
}
