//! The bus from another machine: what a pusher asks of it over MCP, as a feed that blocks. Never touches a file of the bus's, and never says a token or a message.

mod door;

use std::time::{Duration, Instant};

use muster_bus::SeatId;
use muster_bus::push::{Feed, FeedError, Outcome, Pending, Report, Standing};
use muster_core::{Secret, text};
use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResult, JsonObject};
use rmcp::service::{RunningService, ServiceError};
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use door::{Broken, Door, chain, plain, refused_token, stopped, unreached};

/// How long one request may wait at the server for something new. Shorter than what stands between the two is likely to allow.
const WAIT: Duration = Duration::from_secs(25);

/// How long the bus may take for everything but waiting.
const ANSWER: Duration = Duration::from_secs(15);

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The first pause after a failure, and the longest one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// What a pusher says of itself.
#[derive(Debug, Clone)]
pub struct Pusher {
    /// Whose messages it delivers.
    pub seat: SeatId,
    /// Who it is among all that may deliver to this seat.
    pub holder: String,
    /// Its machine.
    pub host: String,
    /// The pane it types into.
    pub pane: String,
    /// The socket of the tmux server that has it.
    pub socket: Option<String>,
    /// Its build.
    pub build: Option<String>,
    /// Since when it runs, in milliseconds.
    pub since: i64,
    /// Whether channel posts are delivered.
    pub include_room: bool,
    /// How often memberships are looked at again.
    pub refresh: Duration,
    /// It takes the seat although a session is live as that agent, which is recorded.
    pub force: bool,
}

/// The bus of a server, for one seat. Every call blocks its thread, which must not be one of the runtime's; `stop` ends every wait.
pub struct Remote {
    runtime: Handle,
    door: Door,
    stop: CancellationToken,
    pusher: Pusher,
    session: Option<Session>,
    /// What the bus said of its last answer, handed back with the next question.
    seen: Option<Value>,
    /// How the push stands, as long as the bus was not told.
    standing: Option<Standing>,
    pause: Pause,
}

type Session = RunningService<RoleClient, ()>;

/// Looks whether a bus can be reached with a token, and whether a pusher with it may act as this agent: by `force` also where a session is live
/// as it.
///
/// # Errors
/// [`FeedError`].
pub async fn check(url: &str, token: Secret, seat: &SeatId, force: bool) -> Result<(), FeedError> {
    match once(url, token, "heartbeat", object(json!({"agentId": seat}))).await {
        // It may act as that agent, which was never here.
        Err(Broken::Said { code, .. }) if code == "not_registered" => Ok(()),
        Err(Broken::Said { code, .. }) if code == "identity_live" && force => Ok(()),
        other => other.map_err(Broken::into_error),
    }
}

/// Takes an agent's marker away if it names this pane: another pusher that took the place has its own.
///
/// # Errors
/// [`FeedError`].
pub async fn clear(url: &str, token: Secret, seat: &SeatId, pane: &str) -> Result<(), FeedError> {
    let arguments = object(json!({"agentId": seat, "tmuxTarget": pane}));
    once(url, token, "clear_transport", arguments)
        .await
        .map_err(Broken::into_error)
}

/// One call in a session of its own.
async fn once(url: &str, token: Secret, tool: &'static str, arguments: JsonObject) -> Result<(), Broken> {
    let door = Door::new(url, token).map_err(Broken::Session)?;
    let asking = async {
        let session = door.open().await?;
        let called = call(&session, tool, arguments).await;
        close(session).await;
        called.map(drop)
    };
    door.limited(ANSWER, asking).await
}

impl Remote {
    /// The way to the bus at `url`, not yet gone.
    ///
    /// # Errors
    /// [`FeedError::Refused`] when that is no address.
    pub fn new(
        runtime: Handle,
        url: &str,
        token: Secret,
        pusher: Pusher,
        stop: CancellationToken,
    ) -> Result<Self, FeedError> {
        Ok(Self {
            runtime,
            door: Door::new(url, token)?,
            stop,
            pusher,
            session: None,
            seen: None,
            standing: None,
            pause: Pause::default(),
        })
    }

    /// Says who is there: enters the seat into the registry and publishes its marker. Every new session begins with it by itself.
    ///
    /// # Errors
    /// [`FeedError`].
    pub fn begin(&mut self) -> Result<(), FeedError> {
        self.waiting(|remote| remote.session())
    }

    /// Takes the seat's marker away, as far as it is this pusher's, and ends the session, also after the stop.
    ///
    /// # Errors
    /// [`FeedError`]: then the marker counts until the seat's heartbeat is too old.
    pub fn leave(mut self) -> Result<(), FeedError> {
        let own = object(json!({
            "agentId": self.pusher.seat,
            "tmuxTarget": self.pusher.pane,
            "tmuxSocket": self.pusher.socket,
            "holder": self.pusher.holder,
        }));
        let held = self.session.take();
        let leaving = async {
            let session = match held {
                Some(session) if !session.is_closed() => session,
                _ => self.door.open().await?,
            };
            let called = call(&session, "clear_transport", own).await;
            close(session).await;
            called.map(drop)
        };
        self.runtime
            .block_on(self.door.limited(LAST_WORDS, leaving))
            .map_err(Broken::into_error)
    }

    /// Who the seat is by now, if its agent was renamed; from then on it is asked for under that id, in a session of its own. [`Remote::begin`]
    /// says so to the bus.
    pub fn follow(&mut self) -> Option<SeatId> {
        let now = self.renamed()?;
        self.pusher.seat = now.clone();
        if let Some(session) = self.session.take() {
            self.runtime.block_on(close(session));
        }
        self.seen = None;
        Some(now)
    }

    /// Who the bus says that the seat is by now, asked in a session that is nobody's.
    fn renamed(&self) -> Option<SeatId> {
        let about = object(json!({"to": self.pusher.seat}));
        let asking = async {
            let session = self.door.open().await?;
            let called = call(&session, "ping", about).await;
            close(session).await;
            called
        };
        let asked = self.runtime.block_on(async {
            tokio::select! {
                () = self.stop.cancelled() => Err(Broken::Stopped),
                asked = self.door.limited(ANSWER, asking) => asked,
            }
        });
        let said = asked.ok()?;
        SeatId::parse(said.get("renamedTo")?.as_str()?).ok()
    }

    fn own(&self) -> JsonObject {
        object(json!({"agentId": self.pusher.seat}))
    }

    /// Calls a tool in the session there is, or in a new one.
    fn call(
        &mut self,
        tool: &'static str,
        arguments: JsonObject,
        time: Duration,
    ) -> Result<JsonObject, FeedError> {
        self.waiting(|remote| {
            remote.session()?;
            let Some(session) = &remote.session else {
                return Err(stopped());
            };
            let called = remote.runtime.block_on(async {
                tokio::select! {
                    () = remote.stop.cancelled() => Err(Broken::Stopped),
                    called = remote.door.limited(time, call(session, tool, arguments)) => called,
                }
            });
            if matches!(called, Err(Broken::Session(_))) {
                // The next call begins another: the server may have been started anew.
                remote.session = None;
            }
            called.map_err(Broken::into_error)
        })
    }

    /// Notes something at the bus, also after the stop: what was typed must not be typed again.
    fn note(&mut self, tool: &'static str, arguments: JsonObject) -> Result<(), FeedError> {
        if !self.stop.is_cancelled() {
            return self.call(tool, arguments, ANSWER).map(drop);
        }
        let Some(session) = &self.session else {
            return Err(stopped());
        };
        self.runtime
            .block_on(self.door.limited(LAST_WORDS, call(session, tool, arguments)))
            .map(drop)
            .map_err(Broken::into_error)
    }

    /// Does something after the pause that the last failure asks for.
    fn waiting<T>(&mut self, act: impl FnOnce(&mut Self) -> Result<T, FeedError>) -> Result<T, FeedError> {
        if let Some(rest) = self.pause.left() {
            self.runtime.block_on(async {
                tokio::select! {
                    () = self.stop.cancelled() => {}
                    () = tokio::time::sleep(rest) => {}
                }
            });
        }
        if self.stop.is_cancelled() {
            return Err(stopped());
        }
        let done = act(self);
        match &done {
            Err(FeedError::Later(_)) => self.pause.longer(),
            _ => self.pause = Pause::default(),
        }
        done
    }

    /// Opens a session if none is open, and says in it who is there: a server that was started anew may not know.
    fn session(&mut self) -> Result<(), FeedError> {
        if self.session.as_ref().is_some_and(|session| !session.is_closed()) {
            return Ok(());
        }
        let opening = async {
            let session = self.door.open().await?;
            match introduce(&session, &self.pusher).await {
                Ok(()) => Ok(session),
                Err(error) => {
                    close(session).await;
                    Err(error)
                }
            }
        };
        let opened = self.runtime.block_on(async {
            tokio::select! {
                () = self.stop.cancelled() => Err(Broken::Stopped),
                opened = self.door.limited(ANSWER, opening) => opened,
            }
        });
        self.session = Some(opened.map_err(Broken::into_error)?);
        self.seen = None;
        Ok(())
    }
}

impl Feed for Remote {
    fn pending(&mut self, wait: Duration) -> Result<Pending, FeedError> {
        let wait = wait.min(WAIT).min(self.pusher.refresh);
        let mut arguments = object(json!({
            "agentId": self.pusher.seat,
            "holder": self.pusher.holder,
            "includeRoom": self.pusher.include_room,
            "waitMs": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        }));
        if let Some(seen) = &self.seen {
            arguments.insert("seen".to_owned(), seen.clone());
        }
        if let Some(standing) = &self.standing {
            arguments.extend(object(json!({"standing": standing})));
        }
        let mut answer = self.call("pending_messages", arguments, wait + ANSWER)?;
        let seen = answer.remove("seen");
        let pending = serde_json::from_value(Value::Object(answer)).map_err(|_| {
            FeedError::Later("the bus's answer cannot be read; its build may be another".to_owned())
        })?;
        self.seen = seen;
        self.standing = None;
        Ok(pending)
    }

    fn ack(&mut self, source: &str, up_to: &str) -> Result<(), FeedError> {
        let mut arguments = self.own();
        arguments.insert("upTo".to_owned(), up_to.into());
        let source = match source.strip_prefix('#') {
            Some(room) => {
                arguments.insert("room".to_owned(), room.into());
                "room"
            }
            None => source,
        };
        arguments.insert("source".to_owned(), source.into());
        self.note("ack_messages", arguments)
    }

    fn receipt(&mut self, receipt: &Report) -> Result<(), FeedError> {
        let (submitted, verified, door, reason) = match &receipt.outcome {
            Outcome::Delivered { door, verified } => (Some(true), Some(*verified), Some(*door), None),
            Outcome::Held(hold) => (Some(false), None, None, Some(short(&hold.detail))),
            Outcome::Unknown { door, reason } => (None, Some(false), Some(*door), Some(short(reason))),
        };
        let arguments = json!({
            "agentId": self.pusher.seat,
            "id": receipt.id,
            "from": receipt.from,
            "control": receipt.control,
            "submitted": submitted,
            "verified": verified,
            "door": door,
            "reason": reason,
            "build": self.pusher.build,
        });
        self.note("report_receipt", object(arguments))
    }

    fn standing(&mut self, standing: &Standing) -> Result<(), FeedError> {
        self.standing = Some(Standing {
            held: standing.held.as_deref().map(short),
            ..standing.clone()
        });
        Ok(())
    }

    fn heartbeat(&mut self) -> Result<(), FeedError> {
        let own = self.own();
        match self.call("heartbeat", own, ANSWER) {
            // A session that all share is not turned away: nobody of that id is registered any more, and that is all it hears.
            Err(FeedError::Later(reason)) if self.session.is_some() => Err(match self.renamed() {
                Some(now) => FeedError::Refused(format!("'{}' is '{now}' now", self.pusher.seat)),
                None => FeedError::Later(reason),
            }),
            other => other.map(drop),
        }
    }
}

/// Between two tries: longer each time, and never the same for two pushers that lost one server.
#[derive(Default)]
struct Pause {
    tries: u32,
    until: Option<Instant>,
}

impl Pause {
    fn left(&self) -> Option<Duration> {
        self.until?.checked_duration_since(Instant::now())
    }

    fn longer(&mut self) {
        let (first, longest) = PAUSES;
        let whole = first.saturating_mul(1 << self.tries.min(8)).min(longest);
        // Half of it for sure and half by chance; without chance all of it.
        let chance = muster_core::secret::random_hex::<1>()
            .ok()
            .and_then(|hex| u8::from_str_radix(&hex, 16).ok())
            .unwrap_or(u8::MAX);
        let pause = whole / 2 + whole.mul_f64(f64::from(chance) / 510.0);
        self.tries = self.tries.saturating_add(1);
        self.until = Some(Instant::now() + pause);
    }
}

/// Enters the seat into the registry and publishes its marker.
async fn introduce(session: &Session, pusher: &Pusher) -> Result<(), Broken> {
    // What is not needed is not said: it would be recorded.
    let force = pusher.force.then_some(true);
    let own = json!({"agentId": pusher.seat, "force": force});
    call(session, "register", object(own)).await?;
    let marker = json!({
        "agentId": pusher.seat,
        "transport": "tmux-push-remote",
        "host": pusher.host,
        "tmuxTarget": pusher.pane,
        "tmuxSocket": pusher.socket,
        "since": pusher.since,
        "build": pusher.build,
    });
    call(session, "report_transport", object(marker)).await.map(drop)
}

async fn call(session: &Session, tool: &'static str, arguments: JsonObject) -> Result<JsonObject, Broken> {
    let mut request = CallToolRequestParams::new(tool);
    request.arguments = Some(arguments);
    let later = |sentence| Broken::Session(FeedError::Later(sentence));
    match session.call_tool(request).await {
        Ok(result) => said(tool, result),
        Err(error) if error.auth_challenge().is_some() => Err(Broken::Session(refused_token(""))),
        Err(ServiceError::McpError(error)) if error.code == rmcp::model::ErrorCode::INVALID_PARAMS => {
            Err(Broken::Said {
                code: "no_tool".to_owned(),
                error: FeedError::Refused(format!(
                    "the bus knows no {tool} of this kind, so that its build is another than this one: {}",
                    shown(&error.message)
                )),
            })
        }
        Err(ServiceError::McpError(error)) => Err(later(format!(
            "{tool} broke at the bus: {}",
            shown(&error.message)
        ))),
        Err(ServiceError::TransportSend(error)) => Err(later(format!(
            "the connection to the bus is lost: {}",
            unreached(&error).unwrap_or_else(|| plain(&error))
        ))),
        Err(error) => Err(later(format!(
            "the connection to the bus is lost: {}",
            chain(&error)
        ))),
    }
}

/// What a tool answered.
fn said(tool: &str, result: CallToolResult) -> Result<JsonObject, Broken> {
    let Some(Value::Object(body)) = result.structured_content else {
        return Err(Broken::Said {
            code: String::new(),
            error: FeedError::Refused(format!("what answers {tool} is not a bus of muster's")),
        });
    };
    if body.get("ok") == Some(&Value::Bool(true)) {
        return Ok(body);
    }
    if body.get("cancelled") == Some(&Value::Bool(true)) {
        return Err(Broken::Said {
            code: String::new(),
            error: FeedError::Later(format!(
                "the bus ended {tool} before its time; it may be stopping"
            )),
        });
    }
    let word = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let hint = match word("code") {
        "identity_live" => " A pusher says so with --force; a token for each agent needs no such word.",
        _ => "",
    };
    let sentence = format!("the bus refuses {tool}: {}{hint}", shown(word("error")));
    let error = match word("code") {
        "identity_bound" | "identity_live" | "wrong_token" | "cannot_verify" | "invalid_name"
        | "invalid_arguments" => FeedError::Refused(sentence),
        _ => FeedError::Later(sentence),
    };
    Err(Broken::Said {
        code: word("code").to_owned(),
        error,
    })
}

/// Ends a session in order; one that cannot be ended ends by itself.
async fn close(mut session: Session) {
    let _ = session.close_with_timeout(LAST_WORDS).await;
}

fn object(value: Value) -> JsonObject {
    match value {
        // What is not said is left out.
        Value::Object(body) => body.into_iter().filter(|(_, value)| !value.is_null()).collect(),
        _ => JsonObject::new(),
    }
}

/// As much of a text of this machine's as the bus takes in one field.
fn short(text: &str) -> String {
    text.chars().take(1_000).collect()
}

fn shown(said: &str) -> String {
    text::terminal(&said.chars().take(400).collect::<String>())
}
