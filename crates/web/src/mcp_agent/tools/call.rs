//! One call on its way to its permit: it can be given up until it is decided, and tells a client that asked for it that it waits. Never begins an effect.

use std::time::Duration;

use muster_app::access::{self, Call, Refused};
use muster_app::accounts::AgentCaller;
use muster_app::{App, resources};
use muster_policy::{Action, Needs, Permit, ScopeKind, Target};
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RequestContext};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::answer::Failed;
use super::arguments::Arguments;
use super::databases::Databases;

/// When a client first hears that its call waits, and how often afterwards. Clients give a silent call up after a minute.
const WAITED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// How long calls go on after their client has closed its end.
const LEFT: Duration = Duration::from_secs(2);

/// The same for a statement that a database runs. A session on standard streams ends only after that.
const LEFT_RUNNING: Duration = Duration::from_secs(5);

/// What ends a call before it is decided, and whom to tell that it waits.
pub(crate) struct Client {
    given_up: CancellationToken,
    gone: CancellationToken,
    progress: Option<(Peer<RoleServer>, ProgressToken)>,
}

impl Client {
    /// `given_up` ends with the call, `gone` with everything that its client has.
    pub(crate) fn new(
        context: &RequestContext<RoleServer>,
        given_up: CancellationToken,
        gone: CancellationToken,
    ) -> Self {
        let token = context.meta.get_progress_token();
        Self {
            given_up,
            gone,
            progress: token.map(|token| (context.peer.clone(), token)),
        }
    }

    /// Waits for something as long as somebody waits for the call, and tells the client so. `None` when it was given up.
    pub(crate) async fn waiting<T>(&self, something: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.leaves() => None,
            something = something => Some(something),
            never = self.tell() => match never {},
        }
    }

    /// Ends when nobody waits for the answer any more.
    async fn leaves(&self) {
        tokio::select! {
            () = self.given_up.cancelled() => {}
            () = self.left() => {}
        }
    }

    /// A script may write all its calls, close, and read the answers: only what waits for a person is given up then.
    async fn left(&self) {
        self.gone.cancelled().await;
        tokio::time::sleep(LEFT).await;
    }

    /// Ends when nobody waits for a database's answer any more: at once for a call that was given up, and later than for a decision for one whose
    /// client only closed its end, since that may be a script that reads the answers to what it wrote.
    async fn hangs_up(&self) {
        tokio::select! {
            () = self.given_up.cancelled() => {}
            () = async {
                self.gone.cancelled().await;
                tokio::time::sleep(LEFT_RUNNING).await;
            } => {}
        }
    }

    /// Tells the client again and again that its call waits. It never ends.
    async fn tell(&self) -> std::convert::Infallible {
        let Some((peer, token)) = &self.progress else {
            return std::future::pending().await;
        };
        let mut told = 0.0;
        tokio::time::sleep(WAITED.0).await;
        loop {
            told += 1.0;
            let progress = ProgressNotificationParam::new(token.clone(), told)
                .with_message("the call waits until it is decided whether it may run");
            // Who does not hear it learns how the call ended all the same.
            let _ = peer.notify_progress(progress).await;
            tokio::time::sleep(WAITED.1).await;
        }
    }
}

/// One call of one tool.
pub(super) struct Calling<'c> {
    pub(super) app: &'c App,
    pub(super) caller: &'c AgentCaller,
    pub(super) tool: &'c str,
    pub(super) arguments: Arguments,
    pub(super) client: &'c Client,
    pub(super) databases: &'c Databases,
}

impl Calling<'_> {
    /// Waits for a decision as long as somebody waits for the call. Dropping a decision withdraws its ask.
    pub(super) async fn decided<T>(
        &self,
        deciding: impl Future<Output = Result<T, Refused>>,
    ) -> Result<T, Failed> {
        match self.client.waiting(deciding).await {
            None => Err(Failed::withdrawn()),
            Some(decided) => decided.map_err(Failed::from),
        }
    }

    /// Waits for a database as long as somebody waits for the call. What is dropped then is stopped on the server, too.
    pub(super) async fn running<T, E: Into<Failed>>(
        &self,
        something: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failed> {
        tokio::select! {
            biased;
            done = something => done.map_err(Into::into),
            () = self.client.hangs_up() => Err(Failed::new(
                "withdrawn",
                "Given up: the database was told to stop the statement. If it writes, it may be done or not; look before you call again.",
            )),
        }
    }

    /// The permit of a call that charges these pairs.
    pub(super) async fn permitted(&self, needs: Needs) -> Result<Permit, Failed> {
        let call = Call {
            tool: self.tool.to_owned(),
            arguments: self.arguments.whole(),
            needs,
        };
        let permitted = self.decided(access::decide(self.app, self.caller, call)).await?;
        Ok(permitted.permit)
    }

    /// Charges one action on what the call names. A call that names nothing that exists ends here, refused or, where nothing restricts the
    /// caller, told so.
    pub(super) async fn charge(
        &self,
        action: Action,
        target: Option<Target>,
        what: &str,
    ) -> Result<(Permit, Target), Failed> {
        let needs = target.clone().map_or_else(
            || Needs::naming_nothing(action),
            |target| Needs::of(action, target),
        );
        let permit = self.permitted(needs).await?;
        target
            .filter(|target| permit.covers(action, target.resource()))
            .map(|target| (permit, target))
            .ok_or_else(|| Failed::missing(what))
    }

    /// The existing resource that an argument names.
    pub(super) async fn named(&self, kind: ScopeKind, argument: &str) -> Result<Option<Target>, Failed> {
        let Some(id) = self.arguments.text(argument) else {
            return Ok(None);
        };
        let all = resources::list(&self.app.db, self.caller.owner).await?;
        Ok(all.target(kind, id).cloned())
    }

    /// A resource as results show it.
    pub(super) fn shown(kind: ScopeKind, id: impl ToString, name: &str) -> serde_json::Value {
        json!({"kind": kind.as_str(), "id": id.to_string(), "name": name})
    }
}
