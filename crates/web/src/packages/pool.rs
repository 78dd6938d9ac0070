//! The servers that run for agents over HTTP: one for each agent and server, warm while it is used. Never keeps one that may not start now, and never more
//! than its limits.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use muster_app::accounts::{self, AgentCaller};
use muster_app::{App, access, projects, tasks};
use muster_core::ids::{OwnerId, TokenId};
use muster_core::{Fault, FaultKind};
use muster_plugin_host::session::{Door, Notices, Options, Posted, unheard};
use muster_plugin_host::{Budgets, Host, Launcher, PluginError, ServerKey, Standing};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Queue;

/// How many servers may run and how long.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Servers at once, of all agents.
    pub servers: usize,
    /// Servers at once of one agent.
    pub of_one_agent: usize,
    /// Messages at once that wait for one server.
    pub messages: usize,
    /// How long a server stays without a message.
    pub idle: Duration,
    /// How soon after its start a server that died is started again.
    pub again: Duration,
    /// How often decisions and idle servers are looked at.
    pub look: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            servers: 64,
            of_one_agent: 16,
            messages: 128,
            idle: Duration::from_secs(300),
            again: Duration::from_secs(5),
            look: Duration::from_millis(250),
        }
    }
}

/// How long a stop waits for servers to end: a little longer than a launcher takes with the most stubborn one.
const STOP: Duration = Duration::from_secs(8);
/// What an agent of another account is told.
const NOT_YOURS: &str = "servers of packages run as the user that runs muster, so they are only for agents of the server's first account; nothing was sent";
/// Most bytes of messages that wait at once, of all agents, in KiB: 256 MiB.
const WAITING: usize = 256 * 1024;
/// How many looks lie between two questions whether a token still counts.
const LOOKS: u32 = 4;

/// Why a message reached no server.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// No such server is installed.
    #[error("{0}")]
    Unknown(String),
    /// It may not start.
    #[error("{0}")]
    NotRunnable(String),
    /// It was ended while the message waited.
    #[error("{}", .0.sentence())]
    Ended(Why),
    /// Too much runs already.
    #[error("{0}; nothing was sent. Try again later")]
    Busy(&'static str),
    /// muster is being stopped.
    #[error("muster is being stopped; nothing was sent")]
    Stopping,
    /// Something broke.
    #[error("{}", .0.sentence())]
    Broken(Fault),
}

impl Refused {
    /// For an address that names nothing.
    pub(super) fn nameless() -> Self {
        Self::Unknown("this address names no package and server; nothing was sent".to_owned())
    }

    /// The word for programs.
    pub(super) const fn code(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "not_found",
            Self::NotRunnable(_) => "not_runnable",
            Self::Ended(_) => "server_over",
            Self::Busy(_) => "busy",
            Self::Stopping => "stopping",
            Self::Broken(_) => "fault",
        }
    }
}

/// Why a server was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It may not start any more as it is.
    Decision,
    /// Its agent's token does not count any more.
    Token,
    /// Nobody used it, or it was dead.
    Spent,
    /// muster is being stopped.
    Stop,
}

impl Why {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Decision => {
                "The server was ended while the call waited: its package was changed, or its owner decided about it anew. What the call did until then is not known."
            }
            Self::Token => {
                "The server was ended while the call waited: the token of this agent was revoked. What the call did until then is not known."
            }
            Self::Spent => {
                "The server was ended while the call waited. What the call did until then is not known."
            }
            Self::Stop => {
                "muster was stopped while the call waited. What the call did until then is not known."
            }
        }
    }
}

/// The servers. Cloning shares them.
#[derive(Clone)]
pub(crate) struct Packages(Arc<Shared>);

struct Shared {
    app: App,
    host: Host,
    standing: Standing,
    launcher: Launcher,
    limits: Limits,
    servers: Mutex<Servers>,
    /// Held by who starts a server, so that none is started twice and the limits hold.
    starting: tokio::sync::Mutex<()>,
    /// KiB of messages that may come yet.
    room: Semaphore,
    /// The server's first account, once it was looked up: it never moves to another.
    first: OnceLock<OwnerId>,
}

#[derive(Default)]
struct Servers {
    all: HashMap<Key, Arc<Running>>,
    /// Whether somebody looks after them.
    kept: bool,
}

/// Whose server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    agent: TokenId,
    server: ServerKey,
}

/// A server that was started.
struct Running {
    owner: OwnerId,
    definition: String,
    door: Door,
    opened: Instant,
    used: Mutex<Instant>,
    messages: AtomicUsize,
    why: OnceLock<Why>,
    ended: CancellationToken,
}

impl Running {
    fn end(&self, why: Why) {
        // The first reason is the one that is told.
        let _ = self.why.set(why);
        self.ended.cancel();
        self.door.end();
    }

    fn idle_since(&self) -> Option<Instant> {
        let idle = self.messages.load(Ordering::Acquire) == 0;
        idle.then(|| *self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A message that waits for a server; while there is one, the server is in use.
struct Using(Arc<Running>);

impl Using {
    fn of(running: Arc<Running>) -> Self {
        running.messages.fetch_add(1, Ordering::AcqRel);
        Self(running)
    }
}

impl Drop for Using {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.messages.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Packages {
    pub(crate) fn new(app: &App, launcher: Launcher, limits: Limits) -> Self {
        let host = Host::new(&app.settings.data_dir, app.clock.clone());
        Self(Arc::new(Shared {
            app: app.clone(),
            standing: host.standing(),
            host,
            launcher,
            limits,
            servers: Mutex::default(),
            starting: tokio::sync::Mutex::default(),
            room: Semaphore::new(WAITING),
            first: OnceLock::new(),
        }))
    }

    /// What is installed and what was decided.
    pub(crate) fn host(&self) -> &Host {
        &self.0.host
    }

    /// Passes a message on and waits for its answer; one that `asks` for none starts no server. Dropping the future cancels the call and withdraws its ask.
    /// `notices` hears what the server says before the answer.
    pub(super) async fn post(
        &self,
        caller: &AgentCaller,
        server: &ServerKey,
        body: &[u8],
        asks: bool,
        notices: Option<Notices>,
    ) -> Result<Posted, Refused> {
        // A body has 2 MiB at most.
        let size = u32::try_from(body.len() / 1024 + 1).unwrap_or(u32::MAX);
        let _room = self
            .0
            .room
            .try_acquire_many(size)
            .map_err(|_| Refused::Busy("the messages under way are as large as they may be"))?;
        let Some(using) = self.using(caller, server, asks).await? else {
            // As where a server runs, but for the server.
            return Ok(unheard(&self.0.host, &session(caller.token), server, body));
        };
        if using.0.messages.load(Ordering::Acquire) > self.0.limits.messages {
            return Err(Refused::Busy("too many messages wait for this server already"));
        }
        tokio::select! {
            biased;
            () = using.0.ended.cancelled() => {
                Err(Refused::Ended(using.0.why.get().copied().unwrap_or(Why::Spent)))
            }
            posted = using.0.door.post(body, notices) => Ok(posted),
        }
    }

    /// The caller's server, started if it does not run and `start` says so.
    async fn using(
        &self,
        caller: &AgentCaller,
        server: &ServerKey,
        start: bool,
    ) -> Result<Option<Using>, Refused> {
        let shared = &self.0;
        if shared.app.tasks.stopping().is_cancelled() {
            return Err(Refused::Stopping);
        }
        if !shared.is_of_the_first(caller.owner).await? {
            return Err(Refused::NotRunnable(NOT_YOURS.to_owned()));
        }
        let looked = Instant::now();
        let Some(definition) = shared.may_start(server).await? else {
            return Err(shared.why_not(server).await);
        };
        let key = Key {
            agent: caller.token,
            server: server.clone(),
        };
        if let Some(using) = shared.good(&key, &definition, looked) {
            return Ok(Some(using));
        }
        if !start {
            return Ok(None);
        }
        let _starting = shared.starting.lock().await;
        if let Some(using) = shared.good(&key, &definition, looked) {
            return Ok(Some(using));
        }
        shared.make_room(&key)?;
        let running = Arc::new(self.start(caller, server).await?);
        let mut servers = shared.servers();
        if shared.app.tasks.stopping().is_cancelled() {
            running.end(Why::Stop);
            return Err(Refused::Stopping);
        }
        let using = Using::of(running.clone());
        servers.all.insert(key, running);
        if !std::mem::replace(&mut servers.kept, true) {
            let shared = shared.clone();
            self.0.app.tasks.spawn(async move { shared.look_after().await });
        }
        Ok(Some(using))
    }

    async fn start(&self, caller: &AgentCaller, server: &ServerKey) -> Result<Running, Refused> {
        let shared = &self.0;
        let dir = shared.folder(caller).await.map_err(Refused::Broken)?;
        let (host, key) = (shared.host.clone(), server.clone());
        // Verifying a copy looks at each of its files.
        let ready = blocking(move || host.ready(&key)).await?.map_err(refused)?;
        let definition = ready.definition.clone();
        let door = Door::open(
            ready,
            Options {
                session: session(caller.token),
                dir,
                launcher: shared.launcher.clone(),
                approver: Arc::new(Queue::new(
                    shared.app.clone(),
                    access::Asker::Agent(caller.clone()),
                )),
                budgets: Budgets::default(),
            },
        );
        let now = Instant::now();
        Ok(Running {
            owner: caller.owner,
            definition,
            door,
            opened: now,
            used: Mutex::new(now),
            messages: AtomicUsize::new(0),
            why: OnceLock::new(),
            ended: CancellationToken::new(),
        })
    }
}

/// The session that an agent's servers over HTTP belong to: one for each token, as long as that lives, whatever starts and ends meanwhile.
fn session(agent: TokenId) -> String {
    format!("agent-{agent}")
}

fn refused(error: PluginError) -> Refused {
    match error {
        PluginError::NotFound(_) => Refused::Unknown(error.to_string()),
        // No database is away: another process holds the packages' own ledger.
        PluginError::Fault(fault) if *fault.kind() == FaultKind::Unavailable => {
            Refused::Busy("another process is at work on the plugin packages")
        }
        PluginError::Fault(fault) => Refused::Broken(fault),
        // What a person does about it is no business of an agent that may have a shell.
        PluginError::NotRunnable { what, status, .. } => Refused::NotRunnable(format!(
            "{what} does not start: its status is {}; nothing was sent. Only your owner can change that, on the page of the package",
            status.word()
        )),
        other => Refused::NotRunnable(other.to_string()),
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Refused::Broken(Fault::other("a look at the packages broke off").because(error)))
}

impl Shared {
    fn servers(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Servers of packages run as the user that muster runs as, with that user's files: they are for the agents of the account that was made with
    /// the server, and of no other.
    async fn is_of_the_first(&self, owner: OwnerId) -> Result<bool, Refused> {
        if let Some(first) = self.first.get() {
            return Ok(*first == owner);
        }
        let found = accounts::first(&self.app).await.map_err(Refused::Broken)?;
        Ok(found.is_some_and(|first| *self.first.get_or_init(|| first.id) == owner))
    }

    /// The definition of the server when it may start now. The ledger may have to be read for it, which must hold up nobody else.
    async fn may_start(self: &Arc<Self>, server: &ServerKey) -> Result<Option<String>, Refused> {
        let (shared, key) = (self.clone(), server.clone());
        blocking(move || shared.standing.definition(&key))
            .await?
            .map_err(refused)
    }

    /// Why a server does not start, in the words of who looked closely.
    async fn why_not(&self, server: &ServerKey) -> Refused {
        let (host, key) = (self.host.clone(), server.clone());
        match blocking(move || host.ready(&key)).await {
            Ok(Err(error)) => refused(error),
            // Approved in this very moment.
            Ok(Ok(_)) => Refused::Busy("the server was only just approved"),
            Err(refused) => refused,
        }
    }

    /// The server that runs for this agent, if it is the one that may. One that was started after the look was looked at later.
    fn good(&self, key: &Key, definition: &str, looked: Instant) -> Option<Using> {
        let mut servers = self.servers();
        let running = servers.all.get(key)?;
        let why = if running.definition != definition && running.opened < looked {
            Why::Decision
        } else if self.is_spent(running) {
            Why::Spent
        } else {
            return Some(Using::of(running.clone()));
        };
        running.end(why);
        servers.all.remove(key);
        None
    }

    /// Whether nothing comes of it any more. A server that died is not started again at once: it may die each time.
    fn is_spent(&self, running: &Running) -> bool {
        running.ended.is_cancelled()
            || running.door.is_over()
            || (running.door.is_without_server() && running.opened.elapsed() >= self.limits.again)
    }

    /// Sees to it that one more server may run, by ending the one that was not used for the longest time.
    fn make_room(&self, key: &Key) -> Result<(), Refused> {
        let mut servers = self.servers();
        let own = servers
            .all
            .keys()
            .filter(|other| other.agent == key.agent)
            .count();
        let full_of_own = own >= self.limits.of_one_agent;
        if !full_of_own && servers.all.len() < self.limits.servers {
            return Ok(());
        }
        let longest = servers
            .all
            .iter()
            .filter(|(other, _)| !full_of_own || other.agent == key.agent)
            .filter_map(|(other, running)| Some((running.idle_since()?, other)))
            .min_by_key(|(since, _)| *since)
            .map(|(_, other)| other.clone());
        let Some(ended) = longest.and_then(|other| servers.all.remove(&other)) else {
            return Err(Refused::Busy("too many package servers run already"));
        };
        ended.end(Why::Spent);
        Ok(())
    }

    /// Where an agent's servers run: in the worktree of its task, else in its project's folder, else in an empty one.
    async fn folder(&self, caller: &AgentCaller) -> Result<PathBuf, Fault> {
        if let Some(task) = caller.task {
            match tasks::find(&self.app, caller.owner, task).await {
                Ok(task) => {
                    let worktree = task.worktree.map(|worktree| PathBuf::from(worktree.path));
                    if let Some(path) = worktree.filter(|path| path.is_dir()) {
                        return Ok(path);
                    }
                    let root = projects::root(&self.app, caller.owner, task.project.id).await;
                    if let Some(path) = root.ok().filter(|path| path.is_dir()) {
                        return Ok(path);
                    }
                }
                Err(tasks::TaskError::Fault(fault)) => return Err(fault),
                // Removed meanwhile.
                Err(_) => {}
            }
        }
        self.host.work_dir()
    }

    /// Ends what may not run any more, until nothing runs.
    async fn look_after(self: Arc<Self>) {
        let stop = self.app.tasks.stopping();
        let mut looks = 0_u32;
        loop {
            tokio::select! {
                () = stop.cancelled() => return self.stop().await,
                () = sleep(self.limits.look) => {}
            }
            let dead = if looks.is_multiple_of(LOOKS) {
                self.dead_tokens().await
            } else {
                HashSet::new()
            };
            looks = looks.wrapping_add(1);
            let (shared, looked) = (self.clone(), Instant::now());
            // What cannot be read approves nothing.
            let definitions = blocking(move || shared.standing.definitions()).await;
            let definitions = definitions.ok().and_then(Result::ok).unwrap_or_default();
            self.look(&dead, &definitions, looked);
            let mut servers = self.servers();
            if servers.all.is_empty() {
                servers.kept = false;
                return;
            }
        }
    }

    /// Tokens of running servers that do not count any more. Where the database does not answer, the next look asks again.
    async fn dead_tokens(&self) -> HashSet<TokenId> {
        let owners: HashMap<TokenId, OwnerId> = self
            .servers()
            .all
            .iter()
            .map(|(key, running)| (key.agent, running.owner))
            .collect();
        let mut dead = HashSet::new();
        for (token, owner) in owners {
            if let Ok(false) = access::is_live(&self.app, owner, token).await {
                dead.insert(token);
            }
        }
        dead
    }

    fn look(&self, dead: &HashSet<TokenId>, definitions: &BTreeMap<ServerKey, String>, looked: Instant) {
        self.servers().all.retain(|key, running| {
            let idle = running.idle_since();
            let other = definitions.get(&key.server) != Some(&running.definition);
            let why = if other && running.opened < looked {
                Why::Decision
            } else if dead.contains(&key.agent) {
                Why::Token
            } else if running.door.is_over() || idle.is_some_and(|since| since.elapsed() >= self.limits.idle)
            {
                Why::Spent
            } else {
                return true;
            };
            running.end(why);
            false
        });
    }

    async fn stop(&self) {
        let all: Vec<_> = self.servers().all.drain().map(|(_, running)| running).collect();
        for running in &all {
            running.end(Why::Stop);
        }
        let ended = async {
            for running in &all {
                while !running.door.is_over() {
                    sleep(Duration::from_millis(20)).await;
                }
            }
        };
        if timeout(STOP, ended).await.is_err() {
            tracing::warn!("some package servers did not end in time and were left to their launchers");
        }
    }
}
