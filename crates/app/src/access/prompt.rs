//! Prompts for the tools of plugin packages: on the same queue as permissions. Never runs a tool unasked because nobody was there.

use muster_core::Fault;
use muster_core::ids::{AskId, OwnerId};
use muster_core::secret::sha256_hex;
use serde_json::{Value, json};

use super::gate::{Facts, Wanted, Who};
use super::lapsing::{ends_alone, lapse, leaves};
use super::presence;
use super::queue::{New, Placed, TOO_LARGE, place};
use super::state::{AskState, Unasked, canonical};
use super::waiting::{Waiting, lives, to_its_end, until_decided};
use crate::App;
use crate::accounts::AgentCaller;
use crate::audit::Caller;

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

/// How a prompt ended that did not end in a yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unanswered {
    /// A person said no.
    ByPerson,
    /// Nobody answered in time.
    Expired,
    /// Nobody can be asked.
    NobodyToAsk,
    /// Sixteen wait already.
    Saturated,
    /// It is larger than [`super::LARGEST_ASKED`]; nothing is stored of it but its audit row.
    TooLarge,
    /// The call was given up, or something broke.
    Withdrawn,
}

/// Asks a person about a plugin tool's call: the same queue, expiry and page as permissions. With nobody to ask it is refused, whatever the
/// setting says: only a grant of `ask` that somebody authored runs unasked. Dropping the future withdraws the ask.
///
/// # Errors
/// [`Unanswered`]; the call must not be forwarded.
pub async fn prompt(app: &App, asker: &Asker, tool: ToolPrompt) -> Result<AskId, Unanswered> {
    let who = asker.who();
    let broke = |fault: Fault| {
        tracing::error!(error = %fault.chain(), "a plugin tool's call could not be asked about, so it was refused");
        Unanswered::Withdrawn
    };
    let process = app.process.number(app).await.map_err(broke)?;
    let seen = presence::look(app, who.owner).await.map_err(broke)?;
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
    let new = New {
        kind: "plugin_tool",
        parking: sha256_hex(key.as_bytes()),
        approval: sha256_hex(key.as_bytes()),
        arguments,
        beside: tool.beside.as_ref().map_or(0, String::len),
        pairs: json!([]),
        unasked: Some(Unasked::Never),
        about: Some(tool.about()),
    };
    let facts = Facts {
        who: who.clone(),
        tool: tool.tool,
        title: None,
        pairs: json!([]),
        policy: None,
        wanted: Wanted::default(),
    };
    let now = app.clock.now();
    let (own, placing, guarded) = (app.clone(), facts.clone(), facts.clone());
    let finding = async move {
        let owner = placing.who.owner;
        let placed = own
            .db
            .write_in_turn(owner, "asks", owner.get(), move |tx| {
                Box::pin(async move {
                    lapse(tx, now, &seen.gone).await?;
                    let placed = place(tx, now, process, &seen, &placing, &new).await?;
                    if let Placed::Covered { ask, by } = &placed {
                        placing.record(tx, now, "allowed_by_recent_approval", Some(*ask), by.as_deref());
                    }
                    Ok::<_, Fault>(placed)
                })
            })
            .await?;
        Ok(match placed {
            Placed::Covered { ask, .. } => Err(Ok(ask)),
            Placed::Refused(refused) if refused.code == "refused_queue_saturated" => {
                Err(Err(Unanswered::Saturated))
            }
            Placed::Refused(refused) if refused.code == TOO_LARGE => Err(Err(Unanswered::TooLarge)),
            Placed::Refused(_) | Placed::AutoAllowed => Err(Err(Unanswered::NobodyToAsk)),
            Placed::Waits(place) => Ok(Waiting::new(&own, guarded, place)),
        })
    };
    let mut waiting = match to_its_end(app, finding).await.map_err(broke)? {
        Ok(waiting) => waiting,
        Err(answered) => return answered,
    };
    let place = waiting.place;
    let (state, by) = until_decided(app, who.owner, place).await.map_err(broke)?;
    let now = app.clock.now();
    let answer = app
        .db
        .write_in_turn(who.owner, "asks", who.owner.get(), move |tx| {
            Box::pin(async move {
                let there = leaves(tx, place).await?;
                if state == AskState::Parked {
                    ends_alone(tx, now, place, AskState::Expired).await?;
                }
                let (outcome, answer) = match state {
                    AskState::Approved if !there || !lives(tx, &facts.who).await? => {
                        ("withdrawn", Err(Unanswered::Withdrawn))
                    }
                    AskState::Approved => ("allowed_by_person", Ok(place.ask)),
                    AskState::Refused => ("refused_by_person", Err(Unanswered::ByPerson)),
                    AskState::Withdrawn => ("withdrawn", Err(Unanswered::Withdrawn)),
                    AskState::Expired | AskState::Parked => ("refused_expired", Err(Unanswered::Expired)),
                };
                let by = by.filter(|_| outcome != "withdrawn");
                if there {
                    facts.record(tx, now, outcome, Some(place.ask), by.as_deref());
                }
                Ok::<_, Fault>(answer)
            })
        })
        .await
        .map_err(broke)?;
    waiting.ended = true;
    answer
}
