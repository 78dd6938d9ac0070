//! The same server on standard streams, for one agent's client: through a running muster where one answers, else on the database itself. Never answers before its token was found to count.
//!
//! A token that counts in the database here is sent to no other server than this database's own: whatever else listens at the address may be anybody.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_app::App;
use muster_app::accounts::{self, AgentCaller};
use muster_core::{Secret, text};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::exact;
use super::remote::{Heard, Remote};
use super::server;
use super::tools::{self, Client, Databases};
use crate::mcp_bus::input::Lines;

/// How long a call looks for a server that is being restarted, and how often.
const RESTART: (Duration, Duration) = (Duration::from_secs(10), Duration::from_millis(200));
/// How long calls have for their end after their client left.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// How long databases have to hear that a statement is not waited for any more.
const STOPPING: Duration = Duration::from_secs(5);

/// Opens the app on the database, or says why not.
pub type Open = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<App, String>> + Send>> + Send + Sync>;

/// The server at the address that was set.
pub struct Server {
    /// The address.
    pub url: String,
    /// Where the data folder's own server is reached, if the address leads to it and it listens now.
    pub own: Box<dyn Fn() -> Option<String> + Send + Sync>,
}

/// One agent's session on standard streams.
pub struct Session {
    token: Secret,
    remote: Option<Remote>,
    own: Option<Box<dyn Fn() -> Option<String> + Send + Sync>>,
    open: Open,
    app: OnceCell<App>,
    /// Whether the token has counted in the database here.
    counted: AtomicBool,
    /// A signal ends the session.
    stopped: CancellationToken,
    databases: Databases,
    calls: TaskTracker,
}

impl Session {
    /// A session of the agent with this token: through the muster at `server` where it answers, else on what `open` opens.
    ///
    /// # Errors
    /// A sentence, for an address that is none.
    pub fn new(token: Secret, server: Option<Server>, open: Open) -> Result<Self, String> {
        let remote = server
            .as_ref()
            .map(|server| Remote::new(&server.url, token.clone()))
            .transpose()?;
        Ok(Self {
            token,
            remote,
            own: server.map(|server| server.own),
            open,
            app: OnceCell::new(),
            counted: AtomicBool::new(false),
            stopped: CancellationToken::new(),
            databases: Databases::default(),
            calls: TaskTracker::new(),
        })
    }

    /// Makes sure that the token counts.
    ///
    /// # Errors
    /// A sentence: it counts nowhere, or nowhere is anything that could tell.
    pub async fn begin(&self) -> Result<(), String> {
        // First where it may be looked up without telling it to anybody.
        let Err(away) = self.here().await else {
            return Ok(());
        };
        if let Some(remote) = &self.remote {
            match remote.ask("ping", &json!({})).await {
                Heard::Result(_) => return Ok(()),
                Heard::Unauthorized => return Err(NOT_LIVE.to_owned()),
                Heard::Error(_) | Heard::Nobody | Heard::Broken => {}
            }
        }
        Err(away.sentence())
    }

    /// Who calls, looked up anew in the database here.
    async fn here(&self) -> Result<AgentCaller, Away> {
        let app = self
            .app
            .get_or_try_init(|| (self.open)())
            .await
            .map_err(Away::Broken)?;
        match accounts::agent(app, self.token.expose()).await {
            Ok(Some(caller)) => {
                self.counted.store(true, Ordering::Relaxed);
                Ok(caller)
            }
            Ok(None) => Err(Away::NotLive),
            Err(fault) => {
                tracing::error!(error = %fault.chain(), "the token could not be looked up");
                Err(Away::Broken(fault.sentence().to_owned()))
            }
        }
    }

    /// The server that a request may be sent to: where the token has counted here, only the one of this data folder, as long as it listens.
    fn server(&self) -> Option<Remote> {
        let remote = self.remote.as_ref()?;
        if !self.counted.load(Ordering::Relaxed) {
            return Some(remote.clone());
        }
        let base = self.own.as_ref().and_then(|own| own())?;
        remote.at(&base).ok()
    }

    /// Serves until the client leaves or `stop`.
    ///
    /// # Errors
    /// A sentence, when the client does not speak the protocol.
    pub async fn serve(self, stop: CancellationToken) -> Result<(), String> {
        let this = Arc::new(self);
        let gone = CancellationToken::new();
        let handler = Handler {
            session: this.clone(),
            gone: gone.clone(),
        };
        let (stdin, stdout) = rmcp::transport::stdio();
        let lines = Lines::new(stdin, exact::Writer::new(stdout), gone.clone());
        let stopping = stop.clone();
        let this_too = this.clone();
        // Calls that wait are ended by the app's own stop, with an answer, before the streams are.
        let cut = CancellationToken::new();
        let ending = {
            let (cut, gone) = (cut.clone(), gone.clone());
            async move {
                tokio::select! {
                    () = stopping.cancelled() => {
                        // What waits at a server hears of no stop here: it is given up.
                        this_too.stopped.cancel();
                        this_too.end().await;
                        cut.cancel();
                    }
                    () = gone.cancelled() => {}
                }
            }
        };
        let serving = async {
            match handler.serve_with_ct(lines, cut.clone()).await {
                Ok(running) => match running.waiting().await {
                    Ok(_) => Ok(()),
                    Err(error) => Err(text::terminal(&error.to_string())),
                },
                // It left before it said anything, or a signal came first: no fault.
                Err(_) if stop.is_cancelled() => Ok(()),
                Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => Ok(()),
                Err(error) => Err(text::terminal(&error.to_string())),
            }
        };
        let served = {
            let mut serving = std::pin::pin!(serving);
            let mut ending = std::pin::pin!(ending);
            tokio::select! {
                served = &mut serving => served,
                () = &mut ending => serving.await,
            }
        };
        gone.cancel();
        this.end().await;
        if let Some(app) = this.app.get() {
            app.db.close().await;
        }
        served
    }

    /// Ends what runs here: calls that wait are told, what they noted is stored.
    async fn end(&self) {
        if let Some(app) = self.app.get() {
            let stopping = app.tasks.stopping();
            stopping.cancel();
        }
        self.calls.close();
        if tokio::time::timeout(LAST_WORDS, self.calls.wait()).await.is_err() {
            tracing::warn!("some calls did not end in time and were left");
        }
        muster_db_gateway::stopped(STOPPING).await;
        if let Some(app) = self.app.get() {
            app.tasks.stop().await;
        }
    }
}

/// Why a call cannot be answered on the database here.
enum Away {
    /// The token is none that counts in it.
    NotLive,
    /// It could not be opened or read; a sentence.
    Broken(String),
}

impl Away {
    fn sentence(self) -> String {
        match self {
            Self::NotLive => NOT_LIVE.to_owned(),
            Self::Broken(sentence) => sentence,
        }
    }
}

const NOT_LIVE: &str = "MUSTER_AGENT_TOKEN is no live agent token here; `muster token create --kind agent --task TASK` makes one. Nothing was answered";

/// What the protocol's library calls.
#[derive(Clone)]
struct Handler {
    session: Arc<Session>,
    /// Ends when the client has left.
    gone: CancellationToken,
}

/// Where a request was answered.
enum Place {
    There(Value),
    Refused(ErrorData),
    Broken,
    Here(AgentCaller),
}

impl Handler {
    /// Answers a request through the server, or finds that it is to be answered here. A server that is being restarted is waited for where its
    /// database is not here.
    async fn place(&self, method: &str, params: &Value) -> Result<Place, ErrorData> {
        let until = tokio::time::Instant::now() + RESTART.0;
        loop {
            if let Some(remote) = self.session.server() {
                match remote.ask(method, params).await {
                    Heard::Result(value) => return Ok(Place::There(value)),
                    Heard::Error(error) => return Ok(Place::Refused(error)),
                    // One that counted here is looked up here once more: the server may be on another database.
                    Heard::Unauthorized if self.session.counted.load(Ordering::Relaxed) => {}
                    Heard::Unauthorized => return Err(ErrorData::invalid_request(NOT_LIVE, None)),
                    Heard::Broken => return Ok(Place::Broken),
                    Heard::Nobody => {}
                }
            }
            match self.session.here().await {
                Ok(caller) => return Ok(Place::Here(caller)),
                // It counted here, so this is the database that decides it.
                Err(Away::NotLive) if self.session.counted.load(Ordering::Relaxed) => {
                    return Err(ErrorData::invalid_request(NOT_LIVE, None));
                }
                Err(away) if self.session.remote.is_none() => {
                    return Err(ErrorData::invalid_request(away.sentence(), None));
                }
                Err(_) if tokio::time::Instant::now() < until => tokio::time::sleep(RESTART.1).await,
                Err(Away::NotLive) => {
                    return Err(ErrorData::internal_error(
                        "no muster answers at MUSTER_URL, and MUSTER_AGENT_TOKEN is no live agent token in the database here; nothing was done",
                        None,
                    ));
                }
                Err(Away::Broken(sentence)) => {
                    let sentence = format!(
                        "no muster answers at MUSTER_URL, and the database here does not answer either ({sentence}); nothing was done"
                    );
                    return Err(ErrorData::internal_error(sentence, None));
                }
            }
        }
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        server::info()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let unread = || ErrorData::internal_error("the server's list of tools cannot be read", None);
        match self.place("tools/list", &json!({})).await? {
            Place::There(value) => serde_json::from_value(value).map_err(|_| unread()),
            Place::Refused(error) => Err(error),
            Place::Broken => Err(unread()),
            Place::Here(caller) => match self.session.app.get() {
                Some(app) => Ok(ListToolsResult::with_all_items(tools::offered(app, &caller))),
                None => Err(unread()),
            },
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let _call = self.session.calls.token();
        let client = Client::new(&context, context.ct.clone(), self.gone.clone());
        let name = request.name;
        let arguments = request.arguments.unwrap_or_default();
        let params = json!({"name": name, "arguments": arguments});
        let placed = tokio::select! {
            biased;
            placed = client.waiting(self.place("tools/call", &params)) => placed,
            () = self.session.stopped.cancelled(), if self.session.remote.is_some() => {
                return Ok(tools::given_up().into());
            }
        };
        let Some(placed) = placed else {
            return Ok(tools::withdrawn().into());
        };
        match placed? {
            Place::There(value) => serde_json::from_value::<CallToolResult>(value)
                .map(Into::into)
                .map_err(|_| ErrorData::internal_error("the server's answer cannot be read", None)),
            Place::Refused(error) => Err(error),
            Place::Broken => Ok(tools::unknown().into()),
            Place::Here(caller) => match self.session.app.get() {
                Some(app) => {
                    let databases = &self.session.databases;
                    tools::call(app, databases, &caller, &name, arguments, &client)
                        .await
                        .map(Into::into)
                }
                None => Ok(tools::unknown().into()),
            },
        }
    }
}
