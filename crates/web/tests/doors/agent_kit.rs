//! What the tests of agents' tools share: projects, tasks, policies, agents, and their calls over `/mcp`. It tests nothing itself.

use muster_app::access::{self, Ask as Asked, AskState, Present, Seat};
use muster_app::audit::{self, Entry, Filter};
use muster_app::policies::{self, Edit};
use muster_app::projects::NewProject;
use muster_app::tasks::{self, By, MadeWorktree, NewTask, PolicyChoice};
use muster_app::{accounts, databases, hosts, integrations, projects};
use muster_core::Secret;
use muster_core::ids::{
    ConnectionId, HostId, IntegrationId, OwnerId, PolicyId, ProjectId, TaskId, TokenId, WorktreeId,
};
use muster_core::text::{AgentLabel, Slug, TaskBody, TaskTitle};
use muster_policy::LayerName;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::kit::{Answer, Ask, Doors, soon};

/// An agent on a task, with the only copy of its token.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) token: String,
    pub(crate) id: TokenId,
    pub(crate) task: TaskId,
}

/// A call that waits.
pub(crate) struct Waiting(JoinHandle<Answer>);

impl Waiting {
    pub(crate) async fn result(self) -> Value {
        self.0.await.unwrap().json()["result"].clone()
    }

    /// The same once it waits.
    pub(crate) async fn hang_up_once_parked(self, doors: &Doors) {
        doors.parked(1).await;
        self.hang_up();
    }

    /// Its client is gone, and the connection with it.
    pub(crate) fn hang_up(self) {
        self.0.abort();
    }
}

fn slug(name: &str) -> Slug {
    Slug::parse("name", name).unwrap()
}

/// A call as the days of `initialize` send it.
pub(crate) fn call(agent: &str, id: i64, tool: &str, arguments: &Value) -> Ask {
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}});
    message(agent, &body)
}

pub(crate) fn message(agent: &str, body: &Value) -> Ask {
    Ask::json("/mcp", body)
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-11-25")
        .bearer(agent)
}

/// The error of a refused call, after a look at its form.
pub(crate) fn refused(result: &Value) -> Value {
    assert_eq!(result["isError"], true, "{result}");
    let read: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(read, result["structuredContent"]);
    let error = result["structuredContent"]["error"].clone();
    assert!(error["message"].as_str().unwrap().contains(' '), "{error}");
    assert!(error["pairs"].is_array(), "{error}");
    error
}

/// The code of a refused call.
pub(crate) fn code(result: &Value) -> String {
    refused(result)["code"].as_str().unwrap().to_owned()
}

/// What a call that did its work answers.
pub(crate) fn done(result: &Value) -> Value {
    assert_ne!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    let told = &result["structuredContent"];
    if let Some(rows) = told["rows"].as_array() {
        // A table: its columns first, and how many rows there are at its end.
        let head = text.lines().next().unwrap();
        for column in told["columns"].as_array().unwrap() {
            assert!(head.contains(column["name"].as_str().unwrap()), "{text}");
        }
        assert!(
            text.lines()
                .last()
                .unwrap()
                .contains(&format!("{} row", rows.len())),
            "{text}"
        );
    } else if let Some(plan) = told["plan"].as_str() {
        assert_eq!(text, plan);
    } else {
        assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), told);
    }
    told.clone()
}

impl Doors {
    pub(crate) async fn project(&self, name: &str, repo: Option<(&str, IntegrationId)>) -> ProjectId {
        let root = self.muster.dir.path().join(format!("root-{name}"));
        std::fs::create_dir_all(&root).unwrap();
        let new = NewProject {
            name: slug(name),
            root,
            repo: repo.map(|(repo, integration)| (projects::RepoName::parse(repo).unwrap(), integration)),
        };
        projects::add(&self.app, self.ada(), new).await.unwrap().id
    }

    pub(crate) async fn host(&self, name: &str) -> HostId {
        hosts::add(&self.app, self.ada(), slug(name)).await.unwrap().id
    }

    pub(crate) async fn integration(&self, name: &str, kind: &str, url: &str) -> IntegrationId {
        let new = integrations::NewIntegration {
            name: slug(name),
            kind: integrations::ForgeKind::parse(kind).unwrap(),
            url: integrations::ForgeUrl::parse(url).unwrap(),
            token: Secret::new("forge-token-0123456789"),
        };
        integrations::add(&self.app, self.ada(), new).await.unwrap().id
    }

    pub(crate) async fn connection(&self, project: ProjectId, name: &str, url: &str) -> ConnectionId {
        let new = databases::NewConnection {
            project,
            name: slug(name),
            url: databases::DbUrl::parse(Secret::new(url)).unwrap(),
            write_url: None,
            wide: false,
            looked: false,
        };
        databases::add(&self.app, self.ada(), new).await.unwrap().id
    }

    pub(crate) async fn task_of(&self, project: ProjectId, title: &str, policy: PolicyChoice) -> TaskId {
        let new = NewTask {
            project,
            title: TaskTitle::parse("title", title).unwrap(),
            body: TaskBody::parse("body", "").unwrap(),
            policy,
        };
        tasks::add(&self.app, self.ada(), By::Owner, new)
            .await
            .unwrap()
            .id
    }

    pub(crate) async fn worktree(&self, task: TaskId, path: &str) -> WorktreeId {
        let made = MadeWorktree {
            path: path.to_owned(),
            branch: format!("muster/task-{task}"),
            base: "main".to_owned(),
        };
        tasks::record_worktree(&self.app, self.ada(), By::Owner, task, made)
            .await
            .unwrap()
            .id
    }

    pub(crate) async fn agent_on(&self, task: TaskId, label: &str) -> Agent {
        let label = AgentLabel::parse("label", label).unwrap();
        let made = accounts::create_agent_token(&self.app, self.ada(), label, task)
            .await
            .unwrap();
        Agent {
            token: made.token.expose().to_owned(),
            id: made.id,
            task,
        }
    }

    /// A policy with these grants in its global layer.
    pub(crate) async fn policy(&self, name: &str, grants: &[(&str, &str, &str)]) -> PolicyId {
        let policy = policies::create(&self.app, self.ada(), name).await.unwrap();
        for (action, scope, effect) in grants {
            self.grant(policy, LayerName::Global, action, scope, effect).await;
        }
        policy
    }

    pub(crate) async fn grant(
        &self,
        policy: PolicyId,
        layer: LayerName,
        action: &str,
        scope: &str,
        effect: &str,
    ) {
        let edit = Edit {
            policy,
            layer,
            revision: None,
        };
        policies::grant(&self.app, self.ada(), edit, action, scope, effect)
            .await
            .unwrap();
    }

    pub(crate) async fn revoke(&self, policy: PolicyId, layer: LayerName, action: &str, scope: &str) {
        let edit = Edit {
            policy,
            layer,
            revision: None,
        };
        policies::revoke(&self.app, self.ada(), edit, action, scope)
            .await
            .unwrap();
    }

    /// An agent on a task of its own in `project`, under these grants.
    pub(crate) async fn agent_with(
        &self,
        project: ProjectId,
        name: &str,
        grants: &[(&str, &str, &str)],
    ) -> (Agent, PolicyId) {
        let policy = self.policy(name, grants).await;
        let task = self
            .task_of(project, &format!("task of {name}"), PolicyChoice::Policy(policy))
            .await;
        (self.agent_on(task, name).await, policy)
    }

    /// Calls a tool over the door and reads the result.
    pub(crate) async fn tool(&self, agent: &Agent, tool: &str, arguments: Value) -> Value {
        let answer = self.send(call(&agent.token, 1, tool, &arguments)).await;
        assert_eq!(answer.status, 200, "{tool}: {}", answer.text());
        answer.json()["result"].clone()
    }

    /// The same from a task of its own, for a call that waits.
    pub(crate) fn waiting(&self, agent: &Agent, id: i64, tool: &str, arguments: Value) -> Waiting {
        Waiting(self.sending(call(&agent.token, id, tool, &arguments)))
    }

    /// Audit rows of calls, oldest first.
    pub(crate) async fn calls(&self) -> Vec<Entry> {
        let filter = Filter {
            event: "call".to_owned(),
            ..Filter::default()
        };
        let mut rows = audit::list(&self.app.db, self.ada(), filter).await.unwrap();
        rows.sort_by_key(|row| row.id);
        rows
    }

    pub(crate) async fn last_call(&self) -> Entry {
        self.calls().await.pop().unwrap()
    }

    pub(crate) async fn asks(&self, state: AskState) -> Vec<Asked> {
        access::list(&self.app, self.ada(), state).await.unwrap()
    }

    /// Waits until this many asks are parked.
    pub(crate) async fn parked(&self, count: usize) -> Vec<Asked> {
        soon("the asks to park", || async {
            self.asks(AskState::Parked).await.len() == count
        })
        .await;
        self.asks(AskState::Parked).await
    }

    /// Somebody who can be asked.
    pub(crate) async fn somebody(&self) -> Present {
        access::present(&self.app, self.ada(), Seat::Watch).await.unwrap()
    }

    pub(crate) async fn titles(&self, owner: OwnerId) -> Vec<String> {
        let all = tasks::list(&self.app, owner, None).await.unwrap();
        all.into_iter().map(|task| task.title).collect()
    }
}
