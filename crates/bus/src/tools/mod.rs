//! The tools of the MCP server `agent-coord`: names, arguments and answers of the text. Never speaks MCP itself and never runs a task: whoever serves it does.

mod args;
mod command;
mod keeping;
mod orders;
mod panes;
mod pushing;
mod seats;
mod specs;
mod talking;
mod waiting;

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::BusError;
use crate::home::Home;
use crate::identity::{Ask, Session};
use crate::names::SeatId;
use crate::push::hands::Hands;
use crate::push::reminder::Reminders;
use crate::push::{Settings, Transport};
use crate::rename;
use crate::transports::{Configured, Panes};
use crate::wait::Watch;

pub use orders::{Orders, To};
pub use specs::{Spec, all, exists};
pub use waiting::Waiting;

/// The tools of one process on one directory. Cloning shares them.
#[derive(Clone)]
pub struct Tools {
    inner: Arc<Inner>,
}

struct Inner {
    home: Home,
    watch: Watch,
    transport: Configured,
    place: Place,
    /// What this process types with; without it nothing is typed or read.
    hands: Option<Hands>,
    reminders: Reminders,
}

/// Where this process runs, as far as answers and claims need it.
#[derive(Debug, Clone, Default)]
pub struct Place {
    /// The panes it runs in. A daemon has none: its callers run elsewhere.
    pub panes: Panes,
}

impl Place {
    fn in_tmux(&self) -> bool {
        self.panes.tmux().is_some()
    }
}

/// Who makes a call, as far as the door knows.
#[derive(Debug, Clone, Default)]
pub struct Caller {
    /// The agent whose token came with it.
    pub seat: Option<SeatId>,
    /// Under the token that all share: what tells callers of one machine from those of another.
    pub client: Option<String>,
    /// It makes one call and has no session, as the newest revision's clients.
    pub once: bool,
}

/// What a call came to.
pub enum Called {
    /// It is done.
    Done(Answer),
    /// It waits for a message; whoever serves it waits, and asks again.
    Wait(Box<Waiting>),
}

impl From<Said> for Called {
    fn from(said: Said) -> Self {
        Self::Done(Answer::of(said))
    }
}

impl From<Result<Waiting, BusError>> for Called {
    fn from(begun: Result<Waiting, BusError>) -> Self {
        match begun {
            Ok(waiting) => Self::Wait(Box::new(waiting)),
            Err(error) => Self::Done(Answer::of(Err(error))),
        }
    }
}

/// A tool's answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// `ok`, and what the tool says; on `ok: false`, `error` and `code`.
    pub body: Map<String, Value>,
    /// Something broke, or the arguments cannot be read: the protocol's own mark. A refusal is an answer like others.
    pub failed: bool,
}

impl Answer {
    pub(crate) fn of(result: Result<Map<String, Value>, BusError>) -> Self {
        match result {
            Ok(body) => Self::ok(body),
            Err(error) => {
                if error.is_fault() {
                    tracing::error!(error = %error.chain(), "a tool of the bus failed");
                }
                Self::not_ok(error.to_string(), error.code(), error.is_fault())
            }
        }
    }

    fn ok(mut body: Map<String, Value>) -> Self {
        body.entry("ok").or_insert(Value::Bool(true));
        Self { body, failed: false }
    }

    fn not_ok(error: String, code: &'static str, failed: bool) -> Self {
        let mut body = Map::new();
        body.insert("ok".to_owned(), false.into());
        body.insert("error".to_owned(), error.into());
        body.insert("code".to_owned(), code.into());
        Self { body, failed }
    }

    /// Arguments that are not this tool's.
    fn unread(error: &serde_path_to_error::Error<serde_json::Error>) -> Self {
        let place = match error.path().to_string() {
            // What is missing or too much names itself.
            whole if whole == "." => String::new(),
            place => format!("{place}: "),
        };
        // A name or a value that the caller made up may stand in it, at any length.
        let said: String = format!("{place}{}", plain(&error.inner().to_string()))
            .chars()
            .take(300)
            .collect();
        Self::not_ok(
            format!(
                "invalid arguments: {}; nothing was done",
                muster_core::text::terminal(&said)
            ),
            "invalid_arguments",
            true,
        )
    }
}

/// What was expected, in words of JSON in place of this program's own.
fn plain(said: &str) -> String {
    if said.starts_with("data did not match any variant of untagged enum") {
        return "expected true, false, or an object with any of tmuxTarget, includeRoom, allowlist and debounceMs"
            .to_owned();
    }
    // What was passed stands before it, and is left as it is.
    let Some((before, expected)) = said.rsplit_once(", expected ") else {
        return said.to_owned();
    };
    let expected = match expected {
        "u64" | "usize" | "u32" => "a whole number from 0",
        "i64" => "a whole number",
        "f64" => "a number",
        "a sequence" => "a list",
        other => other,
    };
    format!("{before}, expected {expected}")
}

impl Tools {
    /// The tools on `home`.
    pub fn new(home: Home, transport: Configured, place: Place) -> Self {
        let watch = Watch::new(&home);
        let reminders = Reminders::new(&home, &watch);
        Self {
            inner: Arc::new(Inner {
                reminders,
                home,
                watch,
                transport,
                place,
                hands: None,
            }),
        }
    }

    /// The same with something to type with: seats that are attached here are delivered to by threads of this process, until [`Tools::end`].
    #[must_use]
    pub fn with_transport(self, transport: Arc<dyn Transport>, settings: Settings) -> Self {
        let inner = &self.inner;
        let hands = Hands::new(&inner.home, &inner.watch, transport, settings);
        Self {
            inner: Arc::new(Inner {
                home: inner.home.clone(),
                watch: inner.watch.clone(),
                transport: inner.transport,
                place: inner.place.clone(),
                hands: Some(hands),
                reminders: Reminders::new(&inner.home, &inner.watch),
            }),
        }
    }

    /// Ends what this process does for its seats: deliverers stop once what they type is typed, and the markers that name this process go. To be
    /// called when the process ends; waits for a few seconds at most.
    pub fn end(&self) {
        self.inner.reminders.end();
        if let Some(hands) = &self.inner.hands {
            hands.end();
        }
    }

    pub(crate) fn reminders(&self) -> &Reminders {
        &self.inner.reminders
    }

    /// The directory.
    pub fn home(&self) -> &Home {
        &self.inner.home
    }

    pub(crate) fn watch(&self) -> &Watch {
        &self.inner.watch
    }

    pub(crate) fn transport(&self) -> &Configured {
        &self.inner.transport
    }

    pub(crate) fn hands(&self) -> Option<&Hands> {
        self.inner.hands.as_ref()
    }

    pub(crate) fn place(&self) -> &Place {
        &self.inner.place
    }

    /// Calls a tool. Blocks for as long as its files take; what would be marked as read is not when `wanted` says no by then. Only [`Called::Wait`] leaves something to wait for.
    pub fn call(
        &self,
        session: &Session,
        caller: &Caller,
        name: &str,
        arguments: Map<String, Value>,
        wanted: &dyn Fn() -> bool,
    ) -> Called {
        let call = Call {
            tools: self,
            session,
            caller,
            wanted,
        };
        specs::act(&call, name, arguments)
    }
}

/// One call.
pub(crate) struct Call<'c> {
    pub(crate) tools: &'c Tools,
    session: &'c Session,
    caller: &'c Caller,
    /// Whether somebody still waits for the answer.
    pub(crate) wanted: &'c dyn Fn() -> bool,
}

/// What a tool says: a JSON object.
pub(crate) type Said = Result<Map<String, Value>, BusError>;

impl<'c> Call<'c> {
    pub(crate) fn home(&self) -> &'c Home {
        self.tools.home()
    }

    /// Does `act` as `id`, if this session may act as that agent. A session that is nobody yet becomes that agent when the act succeeds.
    pub(crate) fn acting<T>(
        &self,
        id: &str,
        act: impl FnOnce(&SeatId) -> Result<T, BusError>,
    ) -> Result<T, BusError> {
        let seat = SeatId::parse(id)?;
        self.claiming(Ask::of(&seat), act)
    }

    /// The same, with what proves that the id is the caller's.
    pub(crate) fn claiming<T>(
        &self,
        ask: Ask<'_>,
        act: impl FnOnce(&SeatId) -> Result<T, BusError>,
    ) -> Result<T, BusError> {
        if let Some(bearer) = &self.caller.seat
            && bearer != ask.seat
        {
            return Err(self.another(bearer.clone(), ask.seat.clone()));
        }
        let claimed = self.session.claim(Ask {
            bearer: self.caller.seat.is_some(),
            client: self.caller.client.as_deref(),
            once: self.caller.once,
            ..ask
        });
        let claim = claimed.map_err(|error| match error {
            BusError::Bound { bound, claimed } => self.another(bound, claimed),
            other => other,
        })?;
        let done = act(ask.seat)?;
        claim.commit();
        Ok(done)
    }

    /// Why a session is not the agent that a call names.
    fn another(&self, bound: SeatId, claimed: SeatId) -> BusError {
        match rename::forwarded(self.home(), &claimed) {
            Ok(Some(now)) if now == bound => BusError::Renamed { bound, claimed },
            _ => BusError::Bound { bound, claimed },
        }
    }

    pub(crate) fn session(&self) -> &'c Session {
        self.session
    }
}

/// Reads arguments.
pub(crate) fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, Answer> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| Answer::unread(&error))
}

/// A JSON object of something that is one.
pub(crate) fn said(value: &impl Serialize) -> Said {
    match serde_json::to_value(value) {
        Ok(Value::Object(body)) => Ok(body),
        Ok(other) => Ok(Map::from_iter([("result".to_owned(), other)])),
        Err(error) => Err(BusError::Fault(
            muster_core::Fault::other("an answer could not be written as JSON").because(error),
        )),
    }
}

/// A JSON object of a few fields.
macro_rules! object {
    ($($name:literal: $value:expr),* $(,)?) => {
        match serde_json::json!({$($name: $value),*}) {
            serde_json::Value::Object(body) => body,
            _ => serde_json::Map::new(),
        }
    };
}
pub(crate) use object;
