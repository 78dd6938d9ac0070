//! What comes of a server in a session: answers, questions, notices, silence and its end. Never gives an agent an answer that it did not ask for.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::state::{Kind, Up};
use super::{Inner, Refused, calls, outcome};
use crate::diagnostic::shown;
use crate::events::Happening;
use crate::jsonrpc::{self, Fields, Message, Shape, answer, code, failure, quoted};
use crate::ledger::LastStart;
use crate::link::{Incoming, Over};

impl Inner {
    pub(super) async fn from_server(self: &Arc<Self>, found: Incoming) {
        match found {
            Incoming::Message(bytes) => {
                let Some(message) = Message::parse(&bytes) else {
                    return;
                };
                match message.shape() {
                    Shape::Answer => self.answered(&message).await,
                    Shape::Request => self.asked(&message).await,
                    Shape::Notification => self.told(&message).await,
                    Shape::Unanswerable | Shape::Nonsense => {}
                }
            }
            Incoming::TooLarge(call) => {
                let sentence = "The server's answer is larger than 16 MiB and was thrown away.";
                let ids = match call {
                    Some(id) => vec![id],
                    // Whose it was cannot be told; no call is left waiting for it.
                    None => self.state().pending.keys().copied().collect(),
                };
                for id in ids {
                    self.fail(id, "answer_too_large", sentence).await;
                }
            }
            Incoming::Failed(id, why) => {
                let kind = self.state().pending.get(&id).map(|pending| pending.kind.word());
                if kind == Some("initialize") {
                    self.down(&Over::Unstarted(why)).await;
                } else {
                    self.fail(id, "server_failed", &format!("The call failed: {why}."))
                        .await;
                }
            }
            Incoming::Unknown(id) => {
                self.unknown(id).await;
            }
            Incoming::Closed(over) => self.down(&over).await,
        }
    }

    async fn answered(self: &Arc<Self>, message: &Message<'_>) {
        let number = message.id.and_then(|id| id.get().parse::<u64>().ok());
        // A second answer, a late one, or one to a number that nobody gave: there is nobody to take it.
        let Some(pending) = number.and_then(|number| self.state().pending.remove(&number)) else {
            return;
        };
        let Some((word, value)) = outcome(message) else {
            return;
        };
        let agent = pending.agent.as_deref().unwrap_or("null");
        match pending.kind {
            Kind::Inside(waiting) => {
                let found = if word == "result" {
                    Ok(value.to_owned())
                } else {
                    Err(Refused::Error(value.to_owned()))
                };
                let _ = waiting.send(found);
            }
            Kind::Initialize(_) if word == "result" => {
                let text = self.introduced(value);
                self.tell(&answer(agent, word, &text)).await;
            }
            Kind::Initialize(_) => {
                self.is_ready(Some("the server answered initialize with an error".to_owned()));
                self.tell(&answer(agent, word, value)).await;
            }
            Kind::Discover(meta) if word == "result" => {
                let text = self.introduced(value);
                self.tell(&answer(agent, word, &text)).await;
                self.look_ahead(meta);
            }
            Kind::Plain | Kind::Call | Kind::Discover(_) => self.tell(&answer(agent, word, value)).await,
        }
    }

    /// What the server says of itself, under the name by which the agent knows it.
    fn introduced(&self, value: &str) -> String {
        const SERVER: &str = "io.modelcontextprotocol/serverInfo";
        let Ok(fields) = Fields::parse(value) else {
            return value.to_owned();
        };
        let name = quoted(&self.ready.key.entry());
        let renamed = |info: &Fields<'_>| info.with(&[("name", &name)]);
        let object = |fields: &Fields<'_>, name: &str| fields.get(name).map(|value| value.get().to_owned());
        let offers = fields
            .get("capabilities")
            .and_then(|capabilities| Fields::parse(capabilities.get()).ok())
            .is_some_and(|capabilities| capabilities.get("tools").is_some());
        {
            let mut state = self.state();
            state.up = Up::Ready;
            state.offers_tools = offers;
        }
        let info = object(&fields, "serverInfo").and_then(|info| Some(renamed(&Fields::parse(&info).ok()?)));
        let meta = object(&fields, "_meta").and_then(|meta| {
            let meta = Fields::parse(&meta).ok()?;
            let info = renamed(&Fields::parse(meta.get(SERVER)?.get()).ok()?);
            Some(meta.with(&[(SERVER, &info)]))
        });
        let mut changes = Vec::new();
        if let Some(info) = &info {
            changes.push(("serverInfo", info.as_str()));
        }
        if let Some(meta) = &meta {
            changes.push(("_meta", meta.as_str()));
        }
        fields.with(&changes)
    }

    /// Notes once how the start went.
    pub(super) fn is_ready(&self, problem: Option<String>) {
        let first = !std::mem::replace(&mut self.state().start_noted, true);
        if !first {
            return;
        }
        match problem {
            None => {
                let tools = self.state().tools.as_ref().map_or(0, |tools| tools.offered.len());
                self.events.server(
                    Happening::Ready,
                    Some(match tools {
                        1 => "1 tool is offered".to_owned(),
                        tools => format!("{tools} tools are offered"),
                    }),
                );
                self.write_start(None);
            }
            Some(why) => {
                self.events.server(Happening::StartFailed, Some(why.clone()));
                self.write_start(Some(why));
            }
        }
    }

    pub(super) fn write_start(&self, error: Option<String>) {
        let start = LastStart {
            at: self.ready.host.clock.now(),
            ok: error.is_none(),
            error: error.map(|error| shown(&error)),
        };
        let id = self.ready.key.stable_id();
        let book = self.ready.host.book.clone();
        // Sessions that start together wait for the ledger one after the other; nothing else waits with them.
        let note = tokio::task::spawn_blocking(move || {
            let noted = book.note(|ledger| {
                // A package that was removed meanwhile stays forgotten.
                if ledger.packages.contains_key(&id.plugin) {
                    ledger.starts.insert(id, start);
                }
            });
            if let Err(fault) = noted {
                tracing::warn!(
                    fault = fault.chain(),
                    "the start of a package's server was not noted"
                );
            }
        });
        self.keep(note);
    }

    /// A request of the server's: sampling, elicitation, roots, a ping.
    async fn asked(&self, message: &Message<'_>) {
        let (Some(id), Some(method)) = (message.id, message.method.as_deref()) else {
            return;
        };
        let number = self.state().ask(id.get());
        let Some(number) = number else {
            let sentence = "too many requests of the server wait for the agent";
            self.pass(None, failure(id.get(), code::INTERNAL, sentence)).await;
            return;
        };
        let params = message.params.map(RawValue::get);
        self.tell(&jsonrpc::call(Some(&number.to_string()), method, params))
            .await;
    }

    /// A notification of the server's, with numbers of muster's own in it turned back into the agent's.
    async fn told(&self, message: &Message<'_>) {
        const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
        let method = message.method.as_deref().unwrap_or_default();
        let params = message.params.map(RawValue::get);
        if method == "notifications/tools/list_changed" {
            let mut state = self.state();
            state.tools = None;
            state.changes += 1;
        }
        let Some(fields) = params.and_then(|params| Fields::parse(params).ok()) else {
            self.tell(&jsonrpc::call(None, method, params)).await;
            return;
        };
        let number = |value: Option<&RawValue>| {
            value.and_then(|value| value.get().trim_matches('"').parse::<u64>().ok())
        };
        let changed = match method {
            "notifications/progress" => {
                let token = number(fields.get("progressToken"))
                    .and_then(|number| self.state().pending.get(&number)?.token.clone());
                // Progress of a call that is over, or of nobody's.
                let Some(token) = token else { return };
                Some(fields.with(&[("progressToken", &token)]))
            }
            "notifications/cancelled" => {
                let request = fields.get("requestId").map(|id| id.get().to_owned());
                let whose = request.and_then(|request| self.state().withdraw(&request));
                let Some(whose) = whose else { return };
                Some(fields.with(&[("requestId", &whose.to_string())]))
            }
            _ => fields
                .get("_meta")
                .and_then(|meta| Fields::parse(meta.get()).ok())
                .and_then(|meta| {
                    let number = number(meta.get(SUBSCRIPTION))?;
                    let agent = self.state().pending.get(&number)?.agent.clone()?;
                    let meta = meta.with(&[(SUBSCRIPTION, &agent)]);
                    Some(fields.with(&[("_meta", &meta)]))
                }),
        };
        self.tell(&jsonrpc::call(None, method, changed.as_deref().or(params)))
            .await;
    }

    /// Ends what takes longer than it may.
    pub(super) async fn overdue(self: &Arc<Self>) {
        let overdue = self.state().overdue(Instant::now());
        for id in overdue {
            let kind = self.state().pending.get(&id).map(|pending| pending.kind.word());
            match kind {
                Some("initialize") => self.down(&Over::Silent).await,
                Some("discover") => self.unknown(id).await,
                Some(_) => {
                    let span = self.options.budgets.call.as_secs_f64();
                    let params =
                        format!("{{\"requestId\":{id},\"reason\":\"no answer within {span} seconds\"}}");
                    self.pass(
                        None,
                        jsonrpc::call(None, "notifications/cancelled", Some(&params)),
                    )
                    .await;
                    self.forget(id);
                    let sentence = format!(
                        "The tool did not answer within {span} seconds. It was told to stop; what it did until then is not known."
                    );
                    self.fail(id, "timed_out", &sentence).await;
                }
                None => {}
            }
        }
    }

    /// The newer era's first question, answered for a server of the older one: the agent then goes on as that one wants.
    async fn unknown(&self, id: u64) {
        let agent = self.state().pending.remove(&id).and_then(|pending| pending.agent);
        if let Some(agent) = agent {
            let sentence = "the server does not know server/discover";
            self.tell(&failure(&agent, code::METHOD_NOT_FOUND, sentence))
                .await;
        }
    }

    /// The server is over: said once, and everything that waits is answered.
    async fn down(&self, over: &Over) {
        let (happening, why) = match over {
            Over::Silent => (
                Happening::InitializeTimeout,
                format!(
                    "the server did not answer initialize within {} seconds",
                    self.options.budgets.initialize.as_secs_f64()
                ),
            ),
            Over::Unstarted(why) => (Happening::StartFailed, why.clone()),
            Over::Ended(how) => (Happening::Exited, format!("the server {how}")),
        };
        let waiting: Vec<u64> = {
            let mut state = self.state();
            if matches!(state.up, Up::Down(_)) {
                return;
            }
            state.up = Up::Down(why.clone());
            self.over.store(true, Ordering::Release);
            state.pending.keys().copied().collect()
        };
        self.events.server(happening, Some(why.clone()));
        if !std::mem::replace(&mut self.state().start_noted, true) {
            self.write_start(Some(why));
        }
        for id in waiting {
            self.unanswered(id).await;
        }
        if !matches!(over, Over::Ended(_))
            && let Some(link) = &self.link
        {
            link.stop().await;
        }
    }

    /// Answers a request that the server never will.
    pub(super) async fn unanswered(&self, id: u64) {
        let Some(why) = self.down_because() else { return };
        let pending = self.state().pending.remove(&id);
        let Some(pending) = pending else { return };
        match (pending.kind, pending.agent) {
            (Kind::Inside(waiting), _) => drop(waiting.send(Err(Refused::Sentence(why)))),
            (Kind::Initialize(version), Some(agent)) => {
                let text = self.instead(&agent, &pending.method, version.as_deref(), &why);
                self.tell(&text).await;
            }
            (_, Some(agent)) => {
                self.tell(&self.instead(&agent, &pending.method, None, &why))
                    .await
            }
            (_, None) => {}
        }
    }

    /// The answer in the place of a server that is over: it has no tools.
    pub(super) fn instead(&self, id: &str, method: &str, version: Option<&str>, why: &str) -> String {
        match method {
            "initialize" => {
                let version = version.unwrap_or("\"2025-11-25\"");
                let name = quoted(&self.ready.key.entry());
                let result = format!(
                    "{{\"protocolVersion\":{version},\"capabilities\":{{\"tools\":{{}}}},\"serverInfo\":{{\"name\":{name},\"version\":\"0\"}}}}"
                );
                answer(id, "result", &result)
            }
            "tools/list" => answer(id, "result", "{\"tools\":[]}"),
            "ping" => answer(id, "result", "{}"),
            "tools/call" => answer(
                id,
                "result",
                &calls::refusal(
                    "server_over",
                    &format!("The call was not made or not answered: {why}."),
                ),
            ),
            _ => failure(
                id,
                code::METHOD_NOT_FOUND,
                &format!("the server is not there: {why}"),
            ),
        }
    }
}
