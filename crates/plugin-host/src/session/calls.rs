//! Lists and calls of tools. Never sends a call before it is decided and the decision is written down.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use muster_core::Fault;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::state::{Kind, Pending};
use super::tools::{self, Now, Tool, Tools};
use super::{Inner, Refused, lock};
use crate::events::Happening;
use crate::host::taken;
use crate::jsonrpc::{self, Fields, answer, code, failure, quoted};
use crate::ledger::{Book, Pins};
use crate::link::Outgoing;
use crate::names::ServerKey;
use crate::settings::{Ruling, Why};

/// Most pages and most bytes of a list of tools.
const MOST_PAGES: usize = 200;
const MOST_BYTES: usize = 32 * 1024 * 1024;
/// How often a list is asked for that changes while it comes.
const MOST_LOOKS: usize = 3;

/// The result of a call that was refused or failed: an error with a word for programs and a sentence for the model.
pub(super) fn refusal(code: &str, sentence: &str) -> String {
    format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{{\"error\":{{\"code\":{},\"message\":{}}}}},\"isError\":true}}",
        quoted(sentence),
        quoted(code),
        quoted(sentence)
    )
}

/// What is told of a tool that a rule refuses.
pub(super) const DENIED: &str = "A rule in settings.json refuses this tool. Nothing was sent to it.";

/// What comes of the rules for a call.
enum Ruled {
    /// It was refused and answered.
    Refused,
    /// It runs by this decision.
    Run(&'static str),
    /// A person is asked, for this reason.
    Ask(&'static str),
}

/// The answer to a call that was not made because it could not be written down.
pub(super) fn unrecorded(id: &str) -> String {
    let sentence = "The call could not be written into the event log, so it was not made.";
    answer(id, "result", &refusal("refused_error", sentence))
}

pub(super) fn not_recorded(fault: &Fault) {
    tracing::warn!(
        fault = fault.chain(),
        "a call was refused that could not be recorded"
    );
}

/// What was approved of the server `key`, noting what there is now. It waits for the ledger's lock.
///
/// # Errors
/// A sentence, when there is more than is kept of one server, with nothing noted; or when the ledger cannot be read.
fn pinned(
    book: &Book,
    key: &ServerKey,
    definition: &str,
    now: &Now,
) -> Result<(Option<Pins>, BTreeSet<String>), String> {
    let id = key.stable_id();
    let ledger = book.read().map_err(|fault| fault.to_string())?;
    let known = ledger.pins.get(&id);
    let pins = tools::pin(known, definition, now)?;
    if known == Some(&pins) {
        return Ok((Some(pins), taken(&ledger, key)));
    }
    let mut kept = Err(String::new());
    let noted = book.note(|ledger| {
        // Pinned by another session meanwhile, or approved anew: what the ledger says now counts.
        let pins = tools::pin(ledger.pins.get(&id), definition, now);
        let current = ledger.trust(&id).decision;
        if let Ok(pins) = &pins
            && current.is_some_and(|decision| decision.hash == *definition)
        {
            ledger.pins.insert(id.clone(), pins.clone());
        }
        // In the same look: of two servers that list at once one sees what the other noted.
        kept = pins.map(|pins| (Some(pins), taken(ledger, key)));
    });
    match noted {
        Ok(()) => kept,
        // Without a pin that is kept no tool is what was approved, so each asks.
        Err(_) => Ok((None, taken(&ledger, key))),
    }
}

impl Inner {
    /// Answers the agent's `tools/list`.
    pub(super) fn list(self: &Arc<Self>, id: &str, fields: &Fields<'_>) {
        let meta = fields.get("_meta").map(|meta| meta.get().to_owned());
        let (inner, agent) = (self.clone(), id.to_owned());
        self.apart(id, async move {
            let text = match inner.tools(meta, true).await {
                Ok(tools) => answer(&agent, "result", &tools.answer),
                Err(Refused::Error(error)) => answer(&agent, "error", &error),
                Err(Refused::Sentence(_)) if inner.is_down() => answer(&agent, "result", "{\"tools\":[]}"),
                Err(Refused::Sentence(why)) => failure(&agent, code::INTERNAL, &why),
            };
            inner.tell(&text).await;
        });
    }

    fn is_down(&self) -> bool {
        self.down_because().is_some()
    }

    /// Does something for the agent's request `id` beside the stream, so that a cancellation finds it.
    fn apart(self: &Arc<Self>, id: &str, work: impl Future<Output = ()> + Send + 'static) {
        let (inner, key) = (self.clone(), id.to_owned());
        // Begun only when it can be found.
        let (begin, begun) = oneshot::channel::<()>();
        let task = self.spawn(async move {
            if begun.await.is_ok() {
                work.await;
                inner.state().asking.remove(&key);
                inner.settled.notify_waiters();
            }
        });
        self.state().asking.insert(id.to_owned(), task);
        let _ = begin.send(());
    }

    /// The server's tools. `for_agent`: the agent asked for the list, so it is looked at anew unless that was just done.
    pub(super) async fn tools(&self, meta: Option<String>, for_agent: bool) -> Result<Arc<Tools>, Refused> {
        let _one = self.loading.lock().await;
        {
            let noted = self.beside.now(&self.ready.host, &self.ready.key);
            let mut state = self.state();
            if let (Some(tools), Ok(noted)) = (state.tools.clone(), noted)
                && (!for_agent || state.fresh)
                && !tools.meets(&noted.taken)
            {
                state.fresh = !for_agent && state.fresh;
                return Ok(tools);
            }
        }
        let (pages, changes) = self.newest(meta.as_deref()).await?;
        let tools = match self.noted(pages).await {
            Ok(tools) => Arc::new(tools),
            Err(why) => {
                // What was offered before is not what there is now.
                self.state().tools = None;
                if why == tools::TOO_MUCH && self.state().drop_tool(&why) {
                    self.events.server(Happening::ToolDropped, Some(why.clone()));
                }
                return Err(Refused::Sentence(why));
            }
        };
        let new: Vec<(String, String)> = {
            let mut state = self.state();
            // What changed since it was asked for is not kept: the next who needs it looks again.
            state.tools = (state.changes == changes).then(|| tools.clone());
            state.fresh = !for_agent;
            let new = tools.withheld.iter().filter(|(name, _)| state.drop_tool(name));
            new.map(|(name, why)| (name.clone(), why.clone())).collect()
        };
        for (name, why) in new {
            self.log_dropped(&name, &why);
        }
        self.is_ready(None);
        Ok(tools)
    }

    /// The list, asked for again when the server says meanwhile that it is another one, and how many changes it had when that was asked.
    async fn newest(&self, meta: Option<&str>) -> Result<(Vec<String>, u64), Refused> {
        let mut looks = 0;
        loop {
            let changes = self.state().changes;
            let pages = self.pages(meta).await?;
            looks += 1;
            if self.state().changes == changes || looks >= MOST_LOOKS {
                return Ok((pages, changes));
            }
        }
    }

    async fn pages(&self, meta: Option<&str>) -> Result<Vec<String>, Refused> {
        let mut pages = Vec::new();
        let mut cursor: Option<String> = None;
        let mut bytes = 0;
        loop {
            let mut parts = Vec::new();
            if let Some(cursor) = &cursor {
                parts.push(format!("\"cursor\":{cursor}"));
            }
            if let Some(meta) = meta {
                parts.push(format!("\"_meta\":{meta}"));
            }
            let page = self
                .inside("tools/list", &format!("{{{}}}", parts.join(",")))
                .await?;
            bytes += page.len();
            let next = Fields::parse(&page)
                .ok()
                .and_then(|fields| fields.text("nextCursor"))
                .filter(|cursor| !cursor.is_empty())
                .map(|cursor| quoted(&cursor));
            pages.push(page);
            match next {
                None => return Ok(pages),
                Some(_) if pages.len() >= MOST_PAGES || bytes > MOST_BYTES => {
                    return Err(Refused::Sentence(
                        "the server's list of tools does not end".to_owned(),
                    ));
                }
                Some(next) => cursor = Some(next),
            }
        }
    }

    /// Asks the server something for muster itself.
    async fn inside(&self, method: &str, params: &str) -> Result<String, Refused> {
        let (sender, answer) = oneshot::channel();
        let number = self.begin(Pending {
            agent: None,
            method: method.to_owned(),
            kind: Kind::Inside(sender),
            deadline: Some(Instant::now() + self.options.budgets.call),
            token: None,
        });
        let body = jsonrpc::call(Some(&number.to_string()), method, Some(params));
        self.pass(Some(number), body).await;
        answer
            .await
            .unwrap_or_else(|_| Err(Refused::Sentence(format!("the server did not answer {method}"))))
    }

    /// Reads a list and notes what it has, where nothing waits for it: another process may hold the ledger for as long as a large package takes.
    ///
    /// # Errors
    /// A sentence, as [`tools::read`] and [`pinned`] give it.
    async fn noted(&self, pages: Vec<String>) -> Result<Tools, String> {
        let (sender, read) = oneshot::channel();
        let (host, key) = (self.ready.host.clone(), self.ready.key.clone());
        let definition = self.ready.definition.clone();
        let note = tokio::task::spawn_blocking(move || {
            let tools = tools::read(&key, &pages, |now| pinned(&host.book, &key, &definition, now));
            // Nobody takes it when the session ended meanwhile; what was noted stays noted.
            let _ = sender.send(tools);
        });
        self.keep(note);
        read.await
            .unwrap_or_else(|_| Err("the look at the server's list of tools broke off".to_owned()))
    }

    /// Has the end of the session wait for what is being noted.
    pub(super) fn keep(&self, note: JoinHandle<()>) {
        let mut notes = lock(&self.notes);
        notes.retain(|note| !note.is_finished());
        notes.push(note);
    }

    /// Decides about the agent's `tools/call`.
    pub(super) async fn call(self: &Arc<Self>, id: &str, fields: &Fields<'_>) {
        // A server that does not mind the case would read another name than the one that is decided about.
        if let Some(field) = fields.mistakable(&["name", "arguments", "_meta"]) {
            let sentence = format!(
                "the field {} of \"params\" differs from another one in its case alone; nothing was sent",
                crate::diagnostic::shown(field)
            );
            self.tell(&failure(id, code::INVALID_PARAMS, &sentence)).await;
            return;
        }
        let Some(name) = fields.text("name") else {
            let sentence = "\"name\" must be the name of a tool";
            self.tell(&failure(id, code::INVALID_PARAMS, sentence)).await;
            return;
        };
        let tools = self.state().tools.clone();
        if let Some(tools) = tools {
            self.decide(id, fields, &name, &tools).await;
            return;
        }
        // An agent that knows the tools from elsewhere calls without a list.
        let meta = fields.get("_meta").map(|meta| meta.get().to_owned());
        let (inner, agent, params) = (self.clone(), id.to_owned(), fields.with(&[]));
        let name = name.into_owned();
        self.apart(id, async move {
            match (inner.tools(meta, false).await, Fields::parse(&params)) {
                (Ok(tools), Ok(fields)) => inner.decide_here(&agent, &fields, &name, &tools).await,
                (Err(refused), _) => {
                    // Of a list that was asked for on the way it is said as of any call.
                    let why = refused.sentence();
                    let why = why.strip_prefix("The call failed: ").unwrap_or(&why);
                    let sentence = format!("The tool could not be called: {}.", why.trim_end_matches('.'));
                    inner
                        .tell(&answer(&agent, "result", &refusal("server_failed", &sentence)))
                        .await;
                }
                (_, Err(_)) => {}
            }
        });
    }

    /// Decides; a call that asks goes on beside the stream.
    async fn decide(self: &Arc<Self>, id: &str, fields: &Fields<'_>, name: &str, tools: &Tools) {
        let Some(tool) = self.find(id, name, tools).await else {
            return;
        };
        match self.rule(id, &tool).await {
            Ruled::Refused => {}
            Ruled::Run(decision) => self.hold(id, fields, &tool, decision).await,
            Ruled::Ask(reason) => {
                let (inner, agent, params) = (self.clone(), id.to_owned(), fields.with(&[]));
                self.apart(id, async move {
                    if let Ok(fields) = Fields::parse(&params) {
                        inner.ask_person(&agent, &fields, &tool, reason).await;
                    }
                });
            }
        }
    }

    /// Decides where nothing waits for it.
    async fn decide_here(&self, id: &str, fields: &Fields<'_>, name: &str, tools: &Tools) {
        let Some(tool) = self.find(id, name, tools).await else {
            return;
        };
        match self.rule(id, &tool).await {
            Ruled::Refused => {}
            Ruled::Run(decision) => {
                if self.record(id, &tool, decision, None).await {
                    self.run(id, fields, &tool).await;
                }
            }
            Ruled::Ask(reason) => self.ask_person(id, fields, &tool, reason).await,
        }
    }

    async fn find(&self, id: &str, name: &str, tools: &Tools) -> Option<Arc<Tool>> {
        let Some(tool) = tools.offered.get(name).cloned() else {
            let sentence = format!(
                "{} has no tool {}",
                self.ready.key.entry(),
                crate::diagnostic::shown(name)
            );
            self.tell(&failure(id, code::INVALID_PARAMS, &sentence)).await;
            return None;
        };
        // Other sessions go on while this one has its list.
        let look = || self.beside.now(&self.ready.host, &self.ready.key);
        let noted = match self.together.noted.or(look) {
            Ok(noted) => noted,
            Err(fault) => {
                let sentence = format!("{fault}; nothing was sent");
                self.refuse(
                    id,
                    &tool,
                    "deny:rule",
                    "refused_error",
                    &sentence,
                    Some(sentence.clone()),
                )
                .await;
                return None;
            }
        };
        if noted.taken.contains(&tool.registered) {
            if self.state().drop_tool(&tool.registered) {
                self.log_dropped(&tool.registered, tools::TAKEN);
            }
            let sentence = format!("{} is withheld: {}", crate::diagnostic::shown(name), tools::TAKEN);
            self.tell(&failure(id, code::INVALID_PARAMS, &sentence)).await;
            return None;
        }
        if noted.changed.contains(&tool.name) {
            return Some(Arc::new(Tool {
                hinted: false,
                changed: true,
                ..Tool::clone(&tool)
            }));
        }
        Some(tool)
    }

    fn log_dropped(&self, name: &str, why: &str) {
        let written = self
            .events
            .tool(Happening::ToolDropped, name, None, Some(why.to_owned()));
        if let Err(fault) = written {
            tracing::warn!(
                fault = fault.chain(),
                "an event of a package's server was not written"
            );
        }
    }

    /// What the rules say; a call that they refuse is answered.
    async fn rule(&self, id: &str, tool: &Tool) -> Ruled {
        let look = || self.settings.read(&self.settings_path);
        let settings = match self.together.settings.or(look) {
            Ok(settings) => settings,
            Err(why) => {
                self.refuse(id, tool, "deny:rule", "refused_error", &why, Some(why.clone()))
                    .await;
                return Ruled::Refused;
            }
        };
        match settings.ruling(&tool.registered, tool.hinted, tool.changed) {
            Ruling::Deny => {
                self.refuse(id, tool, "deny:rule", "refused_denied", DENIED, None)
                    .await;
                Ruled::Refused
            }
            Ruling::Prompt(reason) => Ruled::Ask(reason),
            Ruling::Allow(Why::Rule) => Ruled::Run("allow:rule"),
            Ruling::Allow(Why::Hint) => Ruled::Run("allow:mcp_read_only_hint"),
            Ruling::Allow(Why::Mode) => Ruled::Run("allow:mode"),
        }
    }

    /// Writes a decision down; a call that cannot be recorded does not run.
    pub(super) async fn record(&self, id: &str, tool: &Tool, decision: &str, detail: Option<String>) -> bool {
        // What came before it stands before it.
        self.release().await;
        let written = self
            .events
            .tool(Happening::Call, &tool.registered, Some(decision), detail);
        let Err(fault) = written else {
            return true;
        };
        not_recorded(&fault);
        self.tell(&unrecorded(id)).await;
        false
    }

    pub(super) async fn refuse(
        &self,
        id: &str,
        tool: &Tool,
        decision: &str,
        word: &str,
        sentence: &str,
        detail: Option<String>,
    ) {
        if self.record(id, tool, decision, detail).await {
            self.tell(&answer(id, "result", &refusal(word, sentence))).await;
        }
    }

    /// Sends a call that was decided. Its time counts from here, not from the asking.
    pub(super) async fn run(&self, id: &str, fields: &Fields<'_>, tool: &Tool) {
        let call = self.numbered_call(id, fields, tool);
        self.pass(call.id, call.body).await;
    }

    pub(super) fn numbered_call(&self, id: &str, fields: &Fields<'_>, tool: &Tool) -> Outgoing {
        let budget: Duration = self.options.budgets.call;
        let with = [("name", tool.raw.as_str())];
        self.numbered(id, "tools/call", Some(fields), Kind::Call, Some(budget), &with)
    }

    /// Answers a request of which nothing more is to come.
    pub(super) async fn fail(&self, number: u64, word: &str, sentence: &str) {
        let pending = self.state().pending.remove(&number);
        let Some(pending) = pending else { return };
        match (pending.kind, pending.agent) {
            (Kind::Inside(waiting), _) => drop(waiting.send(Err(Refused::Sentence(sentence.to_owned())))),
            (Kind::Call, Some(agent)) => {
                self.tell(&answer(&agent, "result", &refusal(word, sentence)))
                    .await;
            }
            (_, Some(agent)) => self.tell(&failure(&agent, code::INTERNAL, sentence)).await,
            (_, None) => {}
        }
    }
}
