//! A running agent and the connection to it. It never decides what an answer means for a turn.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, ContentBlock, Implementation, InitializeRequest, PermissionOptionKind,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, SelectedPermissionOutcome,
    SessionId, SessionNotification, SessionUpdate,
};
use agent_client_protocol::{Agent, Client};
use futures::FutureExt as _;
use muster_core::secret::Secret;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::Shared;
use crate::child::{Group, Lines, Started, beside, pump, start};
use crate::seat::Seat;
use crate::text::{Complaint, Reply, told};
use crate::{Program, Settings, Turn};

/// The longest message an agent may send, in bytes.
const LINE_LIMIT: usize = 64 * 1024 * 1024;
/// How long an agent may take to answer a turn that was cancelled.
pub(super) const CANCEL: Duration = Duration::from_secs(2);

/// What the callbacks hear of the turn that runs.
#[derive(Clone)]
pub(super) struct Hearing(Shared<Heard>);

struct Heard {
    session: Option<SessionId>,
    reply: Reply,
    last: Instant,
}

impl Hearing {
    fn new() -> Self {
        Self(Arc::new(std::sync::Mutex::new(Heard {
            session: None,
            reply: Reply::default(),
            last: Instant::now(),
        })))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Heard) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on the words of this session are the reply. What a session repeats while it is taken up again came before.
    pub(super) fn begin(&self, session: &SessionId) {
        self.with(|heard| {
            *heard = Heard {
                session: Some(session.clone()),
                reply: Reply::default(),
                last: Instant::now(),
            }
        });
    }

    /// The reply so far; nothing more is heard.
    pub(super) fn end(&self) -> Reply {
        self.with(|heard| {
            heard.session = None;
            std::mem::take(&mut heard.reply)
        })
    }

    /// When the agent last said anything.
    pub(super) fn last(&self) -> Instant {
        self.with(|heard| heard.last)
    }

    fn hear(&self, session: &SessionId, update: Option<&SessionUpdate>) {
        self.with(|heard| {
            heard.last = Instant::now();
            if heard.session.as_ref() == Some(session)
                && let Some(SessionUpdate::AgentMessageChunk(chunk)) = update
                && let ContentBlock::Text(text) = &chunk.content
            {
                heard.reply.push(text.text.as_bytes());
            }
        });
    }
}

/// Ends the task that drives a connection when the connection is no longer wanted.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A running agent. Dropping it kills it at once; [`Live::end`] asks first.
pub(super) struct Live {
    pub(super) connection: ConnectionTo<Agent>,
    pub(super) hearing: Hearing,
    pub(super) abilities: AgentCapabilities,
    /// The sessions that are open in it, by conversation.
    pub(super) open: HashMap<String, SessionId>,
    group: Group,
    driver: Driver,
    complaint: Shared<Complaint>,
    mcp_url: String,
    agent_token: Secret,
}

impl Live {
    /// Starts the agent and connects to it.
    ///
    /// # Errors
    /// A sentence that says why there is none.
    pub(super) async fn start(
        program: &Program,
        settings: &Settings,
        seat: &Seat,
        turn: &Turn,
    ) -> Result<Self, String> {
        let Started {
            group,
            stdin,
            stdout,
            stderr,
        } = start(program, &[], settings, turn)?;
        if let Err(reason) = seat.note_child(group.id()) {
            group.end().await;
            return Err(reason);
        }
        let hearing = Hearing::new();
        let complaint: Shared<Complaint> = Arc::default();
        let (announce, connected) = oneshot::channel();
        let driver = {
            let (heard, asked) = (hearing.clone(), hearing.clone());
            let complaint = complaint.clone();
            // The agent may speak between turns, and must never find a full pipe: somebody has to read it all its life.
            tokio::spawn(async move {
                let drain = pump(stderr, |piece| {
                    complaint
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(piece)
                })
                .fuse();
                let mut drain = std::pin::pin!(drain);
                beside(serve(stdin, stdout, heard, asked, announce), drain.as_mut()).await;
                drain.await;
            })
        };
        let driver = Driver(driver);
        let Ok(connection) = connected.await else {
            return Err("the chief's agent ended before it was connected".to_owned());
        };
        Ok(Self {
            connection,
            hearing,
            abilities: AgentCapabilities::default(),
            open: HashMap::new(),
            group,
            driver,
            complaint,
            mcp_url: turn.mcp_url.clone(),
            agent_token: turn.agent_token.clone(),
        })
    }

    /// The opening of the protocol.
    ///
    /// # Errors
    /// A sentence when the agent fails it or speaks another version.
    pub(super) async fn introduce(&mut self) -> Result<(), String> {
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_info(Implementation::new("muster", env!("CARGO_PKG_VERSION")).title("muster".to_owned()));
        // The connection itself refuses an answer in another version of the protocol.
        let response = self.connection.send_request(request).block_task().await.map_err(|error| {
            told("the chief's program does not answer as an agent that speaks version 1 of the Agent Client Protocol.", &error.to_string())
        })?;
        self.abilities = response.agent_capabilities;
        Ok(())
    }

    /// Whether it still runs and was started with the address and token of this turn.
    pub(super) fn serves(&mut self, turn: &Turn) -> bool {
        let same = self.mcp_url == turn.mcp_url && self.agent_token.expose() == turn.agent_token.expose();
        same && !self.is_cut() && !self.group.is_over()
    }

    /// Whether the connection has ended.
    pub(super) fn is_cut(&self) -> bool {
        self.connection.is_incoming_closed() || self.connection.termination().is_some()
    }

    /// Ends the agent; what it complained of.
    pub(super) async fn end(self) -> String {
        let Self {
            group,
            mut driver,
            complaint,
            ..
        } = self;
        group.end().await;
        // The pipes are closed now unless a process left the group with them, so the last words are in within moments.
        let _ = timeout(Duration::from_millis(200), &mut driver.0).await;
        complaint.lock().unwrap_or_else(PoisonError::into_inner).text()
    }
}

async fn serve(
    stdin: ChildStdin,
    stdout: ChildStdout,
    heard: Hearing,
    asked: Hearing,
    announce: oneshot::Sender<ConnectionTo<Agent>>,
) {
    let outgoing = futures::sink::unfold(stdin, async |mut stdin: ChildStdin, line: String| {
        stdin.write_all(line.as_bytes()).await?;
        stdin.write_all(b"\n").await?;
        stdin.flush().await?;
        Ok::<_, std::io::Error>(stdin)
    });
    let incoming = futures::stream::try_unfold(Lines::new(stdout, LINE_LIMIT), async |mut lines| {
        let line = lines.next().await?;
        Ok::<_, std::io::Error>(line.map(|line| (String::from_utf8_lossy(&line).into_owned(), lines)))
    });
    let served = Client
        .v1()
        .name("muster")
        .on_receive_notification(
            async move |notification: SessionNotification, _connection| {
                heard.hear(&notification.session_id, Some(&notification.update));
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _connection| {
                asked.hear(&request.session_id, None);
                tracing::info!(
                    "the chief's agent asked for a permission; muster refused it, as it refuses every one"
                );
                responder.respond(refusal(&request))
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(
            agent_client_protocol::Lines::new(outgoing, incoming),
            async move |connection: ConnectionTo<Agent>| {
                let _ = announce.send(connection.clone());
                connection.incoming_closed().await;
                Ok(())
            },
        )
        .await;
    if served.is_err() {
        tracing::warn!(
            "the connection to the chief's agent failed; the agent is started anew for the next turn"
        );
    }
}

/// The narrowest refusal that the agent offers: this once, else always, else the request as a whole.
fn refusal(request: &RequestPermissionRequest) -> RequestPermissionResponse {
    let option = [
        PermissionOptionKind::RejectOnce,
        PermissionOptionKind::RejectAlways,
    ]
    .iter()
    .find_map(|kind| request.options.iter().find(|option| option.kind == *kind));
    RequestPermissionResponse::new(match option {
        Some(option) => {
            RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(option.option_id.clone()))
        }
        None => RequestPermissionOutcome::Cancelled,
    })
}
