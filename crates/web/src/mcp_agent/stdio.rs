//! The same server on standard streams, for one agent's client: through a running muster where one answers, else on the database itself. Never answers before its token was found to count.

use std::pin::Pin;
use std::sync::Arc;
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

/// One agent's session on standard streams.
pub struct Session {
    token: Secret,
    remote: Option<Remote>,
    open: Open,
    app: OnceCell<App>,
    databases: Databases,
    calls: TaskTracker,
}

impl Session {
    /// A session of the agent with this token: through the muster at `url` where it answers, else on what `open` opens.
    ///
    /// # Errors
    /// A sentence, for an address that is none.
    pub fn new(token: Secret, url: Option<&str>, open: Open) -> Result<Self, String> {
        let remote = url.map(|url| Remote::new(url, token.clone())).transpose()?;
        Ok(Self {
            token,
            remote,
            open,
            app: OnceCell::new(),
            databases: Databases::default(),
            calls: TaskTracker::new(),
        })
    }

    /// Makes sure that the token counts.
    ///
    /// # Errors
    /// A sentence: it counts nowhere, or nowhere is anything that could tell.
    pub async fn begin(&self) -> Result<(), String> {
        if let Some(remote) = &self.remote {
            match remote.ask("ping", &json!({})).await {
                Heard::Result(_) => return Ok(()),
                Heard::Unauthorized => return Err(NOT_LIVE.to_owned()),
                Heard::Error(_) | Heard::Nobody | Heard::Broken => {}
            }
        }
        self.here().await.map(drop)
    }

    /// The app on the database, and who calls, looked up anew.
    async fn here(&self) -> Result<(&App, AgentCaller), String> {
        let app = self.app.get_or_try_init(|| (self.open)()).await?;
        match accounts::agent(app, self.token.expose()).await {
            Ok(Some(caller)) => Ok((app, caller)),
            Ok(None) => Err(NOT_LIVE.to_owned()),
            Err(fault) => {
                tracing::error!(error = %fault.chain(), "the token could not be looked up");
                Err(fault.sentence().to_owned())
            }
        }
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
        let lines = Lines::new(stdin, stdout, gone.clone());
        let stopping = stop.clone();
        let this_too = this.clone();
        // Calls that wait are ended by the app's own stop, with an answer, before the streams are.
        let cut = CancellationToken::new();
        let ending = {
            let (cut, gone) = (cut.clone(), gone.clone());
            async move {
                tokio::select! {
                    () = stopping.cancelled() => {
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
            if let Some(remote) = &self.session.remote {
                match remote.ask(method, params).await {
                    Heard::Result(value) => return Ok(Place::There(value)),
                    Heard::Error(error) => return Ok(Place::Refused(error)),
                    Heard::Unauthorized => return Err(ErrorData::invalid_request(NOT_LIVE, None)),
                    Heard::Broken => return Ok(Place::Broken),
                    Heard::Nobody => {}
                }
            }
            match self.session.here().await {
                Ok((_, caller)) => return Ok(Place::Here(caller)),
                Err(sentence) if self.session.remote.is_none() => {
                    return Err(ErrorData::invalid_request(sentence, None));
                }
                Err(_) if tokio::time::Instant::now() < until => tokio::time::sleep(RESTART.1).await,
                Err(_) => {
                    return Err(ErrorData::internal_error(
                        "no muster answers at MUSTER_URL, and its database is not on this machine; nothing was done",
                        None,
                    ));
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
        let Some(placed) = client.waiting(self.place("tools/call", &params)).await else {
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
