//! A desk with a project, two databases, a host, a policy and agents. Never decides.

use std::time::Duration;

use muster_app::access::{self, Ask, AskState, Call, Decider, Permitted, Present, Refused, Seat};
use muster_app::accounts::{self, AgentCaller};
use muster_app::audit::{self, Entry, Filter};
use muster_app::databases::{self, DbUrl, NewConnection};
use muster_app::policies::{self, Chosen, Edit, PolicyError, Shown};
use muster_app::projects::{self, NewProject};
use muster_app::tasks::{self, By, NewTask, PolicyChoice};
use muster_app::{App, hosts};
use muster_core::Secret;
use muster_core::ids::{OwnerId, PolicyId, ProjectId, TaskId};
use muster_core::secret::TokenKind;
use muster_core::text::{AgentLabel, Label, Slug, TaskBody, TaskTitle};
use muster_policy::{Action, LayerName, Needs, Pair, ScopeKind};
use muster_testkit::{TestMuster, on_both};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const TASK: LayerName = LayerName::Task;
pub(crate) const PROJECT: LayerName = LayerName::Project;
pub(crate) const GLOBAL: LayerName = LayerName::Global;

/// One owner's desk.
pub(crate) struct Desk {
    pub(crate) muster: TestMuster,
    pub(crate) project: ProjectId,
    /// The policy that `task` is under.
    pub(crate) policy: PolicyId,
    pub(crate) task: TaskId,
    /// An agent on `task`.
    pub(crate) agent: AgentCaller,
}

/// Runs a law on a desk on each engine.
pub(crate) fn on_desks<F: Future<Output = ()>>(law: impl Fn(Desk) -> F) {
    on_both(|muster| async { law(Desk::new(muster).await).await });
}

impl Desk {
    async fn new(muster: TestMuster) -> Self {
        let (app, owner) = (muster.app.clone(), muster.owner);
        let root = muster.dir.path().join("root");
        std::fs::create_dir_all(&root).unwrap();
        let new = NewProject {
            name: slug("engine"),
            root,
            repo: None,
        };
        let project = projects::add(&app, owner, new).await.unwrap().id;
        for name in ["staging", "prod"] {
            add_connection(&app, owner, project, name).await;
        }
        hosts::add(&app, owner, slug("workstation")).await.unwrap();
        let policy = policies::create(&app, owner, "careful").await.unwrap();
        let task = add_task(&app, owner, project, PolicyChoice::Policy(policy)).await;
        let agent = add_agent(&app, owner, Some(task), "worker").await;
        Self {
            muster,
            project,
            policy,
            task,
            agent,
        }
    }

    pub(crate) fn app(&self) -> &App {
        &self.muster.app
    }

    pub(crate) fn owner(&self) -> OwnerId {
        self.muster.owner
    }

    pub(crate) fn advance(&self, span: Duration) {
        self.muster.clock.advance(span);
    }

    pub(crate) fn edit(&self, layer: LayerName) -> Edit {
        Edit {
            policy: self.policy,
            layer,
            revision: None,
        }
    }

    /// Grants on the desk's policy.
    pub(crate) async fn grant(&self, layer: LayerName, action: &str, scope: &str, effect: &str) {
        self.try_grant(layer, action, scope, effect).await.unwrap();
    }

    pub(crate) async fn try_grant(
        &self,
        layer: LayerName,
        action: &str,
        scope: &str,
        effect: &str,
    ) -> Result<(), PolicyError> {
        policies::grant(self.app(), self.owner(), self.edit(layer), action, scope, effect).await
    }

    pub(crate) async fn revoke(&self, layer: LayerName, action: &str, scope: &str) {
        policies::revoke(self.app(), self.owner(), self.edit(layer), action, scope)
            .await
            .unwrap();
    }

    pub(crate) async fn shown(&self) -> Shown {
        self.show(self.policy).await
    }

    pub(crate) async fn show(&self, policy: PolicyId) -> Shown {
        show(self.app(), self.owner(), policy).await
    }

    /// What a call charges: each pair is an action and a resource by name.
    pub(crate) async fn needs(&self, pairs: &[(Action, ScopeKind, &str)]) -> Needs {
        let resources = muster_app::resources::list(&self.app().db, self.owner())
            .await
            .unwrap();
        let mut pairs = pairs.iter().map(|(action, kind, name)| {
            let target = resources
                .find(*kind, name)
                .unwrap_or_else(|| panic!("no {kind}:{name}"));
            Pair::new(*action, target.clone())
        });
        let first = pairs.next().unwrap();
        Needs::new(first, pairs)
    }

    pub(crate) async fn reads(&self, connection: &str) -> Call {
        self.query(connection, "SELECT 1").await
    }

    pub(crate) async fn query(&self, connection: &str, statement: &str) -> Call {
        Call {
            tool: "muster_db_query".to_owned(),
            arguments: json!({"connection_id": connection, "statement": statement}),
            needs: self
                .needs(&[(Action::DbRead, ScopeKind::DbConnection, connection)])
                .await,
        }
    }

    pub(crate) async fn writes(&self, connection: &str, statement: &str) -> Call {
        Call {
            tool: "muster_db_execute".to_owned(),
            arguments: json!({"connection_id": connection, "statement": statement, "write": true}),
            needs: self
                .needs(&[(Action::DbWrite, ScopeKind::DbConnection, connection)])
                .await,
        }
    }

    /// Decides a call of the desk's agent.
    pub(crate) async fn decide(&self, call: Call) -> Result<Permitted, Refused> {
        access::decide(self.app(), &self.agent, call).await
    }

    /// The outcome of a read, as the audit log words it.
    pub(crate) async fn read(&self, connection: &str) -> String {
        let call = self.reads(connection).await;
        self.outcome(call).await
    }

    /// Decides a call that does not wait, and answers the outcome that was recorded.
    pub(crate) async fn outcome(&self, call: Call) -> String {
        let decided = tokio::time::timeout(Duration::from_secs(60), self.decide(call)).await;
        let code = match decided.expect("the call waits") {
            Ok(_) => None,
            Err(refused) => Some(refused.code),
        };
        let recorded = self.newest_call().await.outcome.unwrap();
        if let Some(code) = code
            && !recorded.starts_with("refused_denied")
        {
            assert_eq!(recorded, code);
        }
        recorded
    }

    /// A call under way.
    pub(crate) fn start(&self, agent: &AgentCaller, call: Call) -> Waiting {
        let (app, agent) = (self.app().clone(), agent.clone());
        tokio::spawn(async move { access::decide(&app, &agent, call).await })
    }

    /// A call of the desk's agent that has parked.
    pub(crate) async fn parked(&self, call: Call) -> (Waiting, Ask) {
        let before = self.asks(AskState::Parked).await.len();
        let waiting = self.start(&self.agent, call);
        let asks = self.until_parked(before + 1).await;
        (waiting, asks.last().unwrap().clone())
    }

    pub(crate) async fn until_parked(&self, count: usize) -> Vec<Ask> {
        for _ in 0..6_000 {
            let asks = self.asks(AskState::Parked).await;
            if asks.len() == count {
                return asks;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!(
            "{count} asks were never parked: {:?}",
            self.asks(AskState::Parked).await
        );
    }

    pub(crate) async fn asks(&self, state: AskState) -> Vec<Ask> {
        access::list(self.app(), self.owner(), state).await.unwrap()
    }

    /// Somebody who can be asked, until it is dropped.
    pub(crate) async fn sits(&self) -> Present {
        access::present(self.app(), self.owner(), Seat::Page)
            .await
            .unwrap()
    }

    pub(crate) async fn approve(&self, ask: &Ask) {
        access::approve(self.app(), self.owner(), ask.id, Decider::Page)
            .await
            .unwrap();
    }

    pub(crate) async fn refuse(&self, ask: &Ask) {
        access::refuse(self.app(), self.owner(), ask.id, Decider::CommandLine)
            .await
            .unwrap();
    }

    /// The rows of calls, oldest first.
    pub(crate) async fn calls(&self) -> Vec<Entry> {
        self.rows("call").await
    }

    /// The rows of one event, oldest first.
    pub(crate) async fn rows(&self, event: &str) -> Vec<Entry> {
        let filter = Filter {
            event: event.to_owned(),
            ..Filter::default()
        };
        let mut rows = audit::list(&self.app().db, self.owner(), filter).await.unwrap();
        rows.reverse();
        rows
    }

    pub(crate) async fn newest_call(&self) -> Entry {
        self.calls().await.pop().unwrap()
    }

    /// The recorded outcomes, oldest first.
    pub(crate) async fn outcomes(&self) -> Vec<String> {
        self.calls()
            .await
            .into_iter()
            .filter_map(|row| row.outcome)
            .collect()
    }

    /// Another task with an agent on it.
    pub(crate) async fn another(&self, policy: PolicyChoice, label: &str) -> (TaskId, AgentCaller) {
        let task = add_task(self.app(), self.owner(), self.project, policy).await;
        (task, add_agent(self.app(), self.owner(), Some(task), label).await)
    }

    /// Another agent on the desk's own task.
    pub(crate) async fn colleague(&self, label: &str) -> AgentCaller {
        add_agent(self.app(), self.owner(), Some(self.task), label).await
    }

    pub(crate) async fn set(&self, key: muster_app::settings::Key, value: &str) {
        muster_app::settings::set(self.app(), self.owner(), key, value)
            .await
            .unwrap();
    }
}

/// A call under way.
pub(crate) type Waiting = JoinHandle<Result<Permitted, Refused>>;

/// The end of a call under way.
pub(crate) async fn ended(waiting: Waiting) -> Result<Permitted, Refused> {
    tokio::time::timeout(Duration::from_secs(60), waiting)
        .await
        .expect("the call still waits")
        .unwrap()
}

pub(crate) fn slug(text: &str) -> Slug {
    Slug::parse("name", text).unwrap()
}

pub(crate) async fn add_connection(
    app: &App,
    owner: OwnerId,
    project: ProjectId,
    name: &str,
) -> muster_core::ids::ConnectionId {
    let url = format!("sqlite:///tmp/{name}.db");
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

pub(crate) async fn add_task(app: &App, owner: OwnerId, project: ProjectId, policy: PolicyChoice) -> TaskId {
    let new = NewTask {
        project,
        title: TaskTitle::parse("title", "Look into it").unwrap(),
        body: TaskBody::parse("body", "").unwrap(),
        policy,
    };
    tasks::add(app, owner, By::Owner, new).await.unwrap().id
}

pub(crate) async fn add_agent(app: &App, owner: OwnerId, task: Option<TaskId>, label: &str) -> AgentCaller {
    let made = match task {
        Some(task) => {
            let label = AgentLabel::parse("label", label).unwrap();
            accounts::create_agent_token(app, owner, label, task)
                .await
                .unwrap()
        }
        None => {
            let label = Label::parse("label", label).unwrap();
            accounts::create_token(app, owner, TokenKind::Agent, label, None)
                .await
                .unwrap()
        }
    };
    accounts::agent(app, made.token.expose()).await.unwrap().unwrap()
}

pub(crate) async fn show(app: &App, owner: OwnerId, policy: PolicyId) -> Shown {
    let chosen = policies::find(app, owner, &policy.to_string()).await.unwrap();
    policies::show(app, owner, chosen).await.unwrap()
}

pub(crate) async fn chosen(app: &App, owner: OwnerId, word: &str) -> Chosen {
    policies::find(app, owner, word).await.unwrap()
}

/// A part of a document by its path.
pub(crate) fn at<'v>(value: &'v Value, path: &str) -> &'v Value {
    value
        .pointer(path)
        .unwrap_or_else(|| panic!("{path} is not in {value}"))
}

/// Waits until so many calls wait for an answer.
pub(crate) async fn until_callers(desk: &Desk, count: i64) {
    use sqlx::Connection as _;
    const CALLERS: &str = "SELECT count(*) FROM ask_callers";
    let mut found = -1;
    for _ in 0..3_000 {
        (found,) = match desk.muster.engine {
            muster_store::Engine::Sqlite => {
                let file = desk.muster.url.strip_prefix("sqlite://").unwrap();
                let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
                let mut conn = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
                sqlx::query_as(CALLERS).fetch_one(&mut conn).await.unwrap()
            }
            muster_store::Engine::Postgres => {
                let mut conn = sqlx::PgConnection::connect(&desk.muster.url).await.unwrap();
                sqlx::query("SELECT set_config('muster.system', 'test', false)")
                    .execute(&mut conn)
                    .await
                    .unwrap();
                sqlx::query_as(CALLERS).fetch_one(&mut conn).await.unwrap()
            }
        };
        if found == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{found} calls wait, not {count}");
}

/// Runs statements on the database past every rule of muster's, as a broken disk or an intruder would.
pub(crate) async fn tamper(desk: &Desk, statements: &[&str]) {
    use sqlx::{Connection as _, Executor as _};
    match desk.muster.engine {
        muster_store::Engine::Sqlite => {
            let file = desk.muster.url.strip_prefix("sqlite://").unwrap();
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
            let mut conn = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
            conn.execute("PRAGMA ignore_check_constraints = 1").await.unwrap();
            conn.execute("PRAGMA busy_timeout = 5000").await.unwrap();
            for statement in statements {
                conn.execute(sqlx::AssertSqlSafe((*statement).to_owned()))
                    .await
                    .unwrap();
            }
            conn.close().await.unwrap();
        }
        muster_store::Engine::Postgres => {
            let mut conn = sqlx::PgConnection::connect(&desk.muster.url).await.unwrap();
            conn.execute("SELECT set_config('muster.system', 'test', false)")
                .await
                .unwrap();
            for statement in statements {
                conn.execute(sqlx::AssertSqlSafe((*statement).to_owned()))
                    .await
                    .unwrap();
            }
            conn.close().await.unwrap();
        }
    }
}

impl Desk {
    /// The statement for the engine that this desk runs on.
    pub(crate) fn pick<'s>(&self, sqlite: &'s [&'s str], postgres: &'s [&'s str]) -> &'s [&'s str] {
        match self.muster.engine {
            muster_store::Engine::Sqlite => sqlite,
            muster_store::Engine::Postgres => postgres,
        }
    }
}
