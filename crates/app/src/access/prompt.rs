//! Prompts for the tools of plugin packages: on the same queue as permissions. Never runs a tool unasked because nobody was there.

use muster_core::Fault;
use muster_core::ids::{AskId, OwnerId};
use muster_core::secret::sha256_hex;
use muster_store::Stored;
use serde_json::{Value, json};

use super::gate::{Facts, Wanted, Who};
use super::lapsing::{ends_alone, lapse, leaves};
use super::presence;
use super::queue::{New, Place, Placed, TOO_LARGE, place};
use super::sql;
use super::state::{AskState, Unasked, canonical};
use super::waiting::{Waiting, lives, to_its_end, until_decided};
use crate::App;
use crate::accounts::AgentCaller;
use crate::audit::{Caller, UNREADABLE};

/// The longest description that an ask keeps, in characters.
const DESCRIPTION: usize = 2_000;

/// Who calls a plugin package's tool.
#[derive(Debug, Clone)]
pub enum Asker {
    /// An agent of muster's.
    Agent(AgentCaller),
    /// A program that its owner started, which has no agent's token.
    Session {
        /// Whose.
        owner: OwnerId,
        /// The session's id. Outside text.
        session: String,
    },
}

impl Asker {
    fn who(&self) -> Who {
        match self {
            Self::Agent(caller) => Who::of(caller),
            Self::Session { owner, session } => Who {
                owner: *owner,
                agent: Caller::Session(session.clone()),
                label: session.clone(),
                task: None,
            },
        }
    }
}

/// A call of a plugin package's tool that its approval rules want asked.
#[derive(Debug, Clone)]
pub struct ToolPrompt {
    /// The package.
    pub plugin: String,
    /// Its server.
    pub server: String,
    /// The tool's registered name.
    pub tool: String,
    /// What is asked about, as a text that is another one for another tool, or for another state of it: a yes covers no other.
    pub definition: String,
    /// The arguments as the agent gave them; outside text.
    pub arguments: Value,
    /// What the server would get beside them, as JSON; outside text.
    pub beside: Option<String>,
    /// What the server says about the tool; outside text.
    pub description: Option<String>,
    /// Why it is asked, as a sentence.
    pub reason: &'static str,
}

impl ToolPrompt {
    fn about(&self) -> String {
        let description: Option<String> = self
            .description
            .as_ref()
            .map(|text| text.chars().take(DESCRIPTION).collect());
        json!({"plugin": self.plugin, "server": self.server, "description": description, "reason": self.reason, "beside": self.beside})
            .to_string()
    }
}

/// What refuses a call by the time of a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overruled {
    /// The outcome, as the audit log words it.
    pub outcome: &'static str,
    /// What happened, for the model that reads it.
    pub sentence: String,
}

/// How a prompt ended that did not end in a yes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unanswered {
    /// A person said no.
    ByPerson,
    /// A person said yes, and something refuses the call by then.
    Overruled(Overruled),
    /// Nobody answered in time.
    Expired,
    /// Nobody can be asked.
    NobodyToAsk,
    /// Sixteen wait already.
    Saturated,
    /// It has this many bytes, more than [`super::LARGEST_ASKED`]; nothing is stored of it but its audit row.
    TooLarge(usize),
    /// The call was given up, or something broke.
    Withdrawn,
}

fn broke(fault: &Fault) -> Unanswered {
    tracing::error!(error = %fault.chain(), "a plugin tool's call could not be asked about, so it was refused");
    Unanswered::Withdrawn
}

/// Asks a person about a plugin tool's call: the same queue, expiry and page as permissions. With nobody to ask it is refused, whatever the
/// setting says: only a grant of `ask` that somebody authored runs unasked. Dropping the future withdraws the ask.
///
/// `again` looks once more at what decides about the tool. It is awaited when a person has said yes, also where that was said about a call before, and before
/// that is written down, so that the call's row says what counts by then.
///
/// # Errors
/// [`Unanswered`]; the call must not be forwarded.
pub async fn prompt(
    app: &App,
    asker: &Asker,
    tool: ToolPrompt,
    again: impl Future<Output = Result<(), Overruled>> + Send,
) -> Result<AskId, Unanswered> {
    let who = asker.who();
    let owner = who.owner;
    let facts = Facts {
        title: title(app, &who).await.map_err(|fault| broke(&fault))?,
        who,
        tool: tool.tool.clone(),
        pairs: json!([]),
        policy: None,
        wanted: Wanted::default(),
    };
    let mut waiting = match find(app, &facts, &tool).await.map_err(|fault| broke(&fault))? {
        Found::Waits(waiting) => waiting,
        Found::Covered { ask, by } => {
            let overruled = again.await.err();
            return covered(app, facts, ask, by, overruled)
                .await
                .map_err(|fault| broke(&fault))?;
        }
        Found::Unanswered(why) => return Err(why),
    };
    let place = waiting.place;
    let (state, by) = until_decided(app, owner, place)
        .await
        .map_err(|fault| broke(&fault))?;
    let overruled = match state {
        AskState::Approved => again.await.err(),
        _ => None,
    };
    let answer = end(app, facts, place, state, by, overruled)
        .await
        .map_err(|fault| broke(&fault))?;
    waiting.ended = true;
    answer
}

/// The title of the caller's task, as its audit rows show it.
async fn title(app: &App, who: &Who) -> Result<Option<String>, Fault> {
    let Some(task) = who.task else {
        return Ok(None);
    };
    let found: Option<(Stored,)> = app
        .db
        .read(who.owner, move |tx| {
            Box::pin(async move { tx.optional(&sql::TASK_TITLE, (task,)).await })
        })
        .await?;
    Ok(found.map(|(title,)| title.text().unwrap_or(UNREADABLE).to_owned()))
}

fn new(who: &Who, tool: &ToolPrompt) -> New {
    let arguments = canonical(&tool.arguments).to_string();
    let key = json!([
        who.agent.token(),
        who.agent.session(),
        tool.tool,
        tool.definition,
        tool.beside,
        arguments
    ])
    .to_string();
    New {
        kind: "plugin_tool",
        parking: sha256_hex(key.as_bytes()),
        approval: sha256_hex(key.as_bytes()),
        arguments,
        beside: tool.beside.as_ref().map_or(0, String::len),
        pairs: json!([]),
        unasked: Some(Unasked::Never),
        about: Some(tool.about()),
    }
}

/// What a prompt comes to at first.
enum Found {
    /// It waits.
    Waits(Box<Waiting>),
    /// A yes of the last minute covers it, by whom where that is known. No row says so yet.
    Covered { ask: AskId, by: Option<String> },
    /// It was refused, and its row written.
    Unanswered(Unanswered),
}

/// Finds the prompt a place in the queue, or what is answered without one.
async fn find(app: &App, facts: &Facts, tool: &ToolPrompt) -> Result<Found, Fault> {
    let process = app.process.number(app).await?;
    let seen = presence::look(app, facts.who.owner).await?;
    let new = new(&facts.who, tool);
    let (own, placing, guarded) = (app.clone(), facts.clone(), facts.clone());
    let now = app.clock.now();
    to_its_end(app, async move {
        let owner = placing.who.owner;
        let size = new.size();
        let placed = own
            .db
            .write_in_turn(owner, "asks", owner.get(), move |tx| {
                Box::pin(async move {
                    lapse(tx, now, &seen.gone).await?;
                    place(tx, now, process, &seen, &placing, &new).await
                })
            })
            .await?;
        Ok(match placed {
            Placed::Covered { ask, by } => Found::Covered { ask, by },
            Placed::Refused(refused) if refused.code == "refused_queue_saturated" => {
                Found::Unanswered(Unanswered::Saturated)
            }
            Placed::Refused(refused) if refused.code == TOO_LARGE => {
                Found::Unanswered(Unanswered::TooLarge(size))
            }
            Placed::Refused(_) | Placed::AutoAllowed => Found::Unanswered(Unanswered::NobodyToAsk),
            Placed::Waits(place) => Found::Waits(Box::new(Waiting::new(&own, guarded, place))),
        })
    })
    .await
}

/// Writes down what becomes of a call that a yes of the last minute covers, now that it was looked at again.
async fn covered(
    app: &App,
    facts: Facts,
    ask: AskId,
    by: Option<String>,
    overruled: Option<Overruled>,
) -> Result<Result<AskId, Unanswered>, Fault> {
    let (now, owner) = (app.clock.now(), facts.who.owner);
    let writing = app.clone();
    to_its_end(app, async move {
        writing
            .db
            .write_in_turn(owner, "asks", owner.get(), move |tx| {
                Box::pin(async move {
                    let (outcome, answer) = if !lives(tx, &facts.who).await? {
                        ("withdrawn", Err(Unanswered::Withdrawn))
                    } else if let Some(overruled) = overruled {
                        (overruled.outcome, Err(Unanswered::Overruled(overruled)))
                    } else {
                        ("allowed_by_recent_approval", Ok(ask))
                    };
                    // As at the end of an ask.
                    let by = by.filter(|_| answer.is_ok());
                    facts.record(tx, now, outcome, Some(ask), by.as_deref());
                    Ok::<_, Fault>(answer)
                })
            })
            .await
    })
    .await
}

/// Ends a prompt whose ask has ended, in one transaction with the row that says how.
async fn end(
    app: &App,
    facts: Facts,
    place: Place,
    state: AskState,
    by: Option<String>,
    overruled: Option<Overruled>,
) -> Result<Result<AskId, Unanswered>, Fault> {
    let (now, owner) = (app.clock.now(), facts.who.owner);
    app.db
        .write_in_turn(owner, "asks", owner.get(), move |tx| {
            Box::pin(async move {
                let there = leaves(tx, place).await?;
                if state == AskState::Parked {
                    ends_alone(tx, now, place, AskState::Expired).await?;
                }
                let (outcome, answer) = match (state, overruled) {
                    (AskState::Approved, _) if !there || !lives(tx, &facts.who).await? => {
                        ("withdrawn", Err(Unanswered::Withdrawn))
                    }
                    (AskState::Approved, Some(overruled)) => {
                        (overruled.outcome, Err(Unanswered::Overruled(overruled)))
                    }
                    (AskState::Approved, None) => ("allowed_by_person", Ok(place.ask)),
                    (AskState::Refused, _) => ("refused_by_person", Err(Unanswered::ByPerson)),
                    (AskState::Withdrawn, _) => ("withdrawn", Err(Unanswered::Withdrawn)),
                    (AskState::Expired | AskState::Parked, _) => {
                        ("refused_expired", Err(Unanswered::Expired))
                    }
                };
                // Whose yes was overruled by a rule did not decide what became of the call.
                let by = by.filter(|_| matches!(answer, Ok(_) | Err(Unanswered::ByPerson)));
                if there {
                    facts.record(tx, now, outcome, Some(place.ask), by.as_deref());
                }
                Ok::<_, Fault>(answer)
            })
        })
        .await
}
