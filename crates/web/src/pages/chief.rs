//! `/chief`: who the chief is and its conversations, turn by turn. Never sets one: a chief is a program of this machine, named by command.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use muster_app::chief::{self, Conversation, TurnRecord};
use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::fence::PREFIX;
use muster_core::ids::{PluginId, TurnId};
use serde::Deserialize;

use super::caller::Person;
use super::fields::{Asked, Id};
use super::refuse;
use super::view::{self, Here, Shell, When, counted, lines, one_line};
use crate::Web;

/// Turns on one page: each may hold a long text.
const TURNS: usize = 20;

#[derive(Template)]
#[template(path = "chief.html")]
pub(super) struct ChiefPage {
    shell: Shell,
    chief: Option<ChiefView>,
    conversations: Vec<ConversationView>,
    owner: String,
}

#[derive(Debug, Clone)]
struct ChiefView {
    runtime: String,
    command: String,
    since: When,
    stuck: Option<String>,
}

#[derive(Debug, Clone)]
struct ConversationView {
    plugin: i64,
    title: String,
    revoked: bool,
    turns: String,
    last: Option<When>,
}

impl ConversationView {
    fn new(conversation: &Conversation, now: Time) -> Self {
        Self {
            plugin: conversation.plugin.get(),
            title: one_line(&conversation.title),
            revoked: conversation.revoked,
            turns: counted(conversation.turns.unsigned_abs(), "turn"),
            last: When::maybe(conversation.last_at, now),
        }
    }
}

#[derive(Template)]
#[template(path = "conversation.html")]
pub(super) struct ConversationPage {
    shell: Shell,
    conversation: ConversationView,
    turns: Vec<TurnView>,
    older: Option<i64>,
}

#[derive(Debug, Clone)]
struct TurnView {
    id: i64,
    message: i64,
    attempt: i64,
    /// muster's own words before the message, folded away: they are the same in each turn.
    preface: Option<String>,
    /// The message in its fence, or whatever else the chief was given.
    text: String,
    reply: Option<String>,
    outcome: String,
    reason: Option<String>,
    began: When,
    ended: Option<When>,
}

impl TurnView {
    fn new(turn: TurnRecord, now: Time) -> Self {
        let (preface, text) = at_the_message(&turn.text);
        Self {
            id: turn.id.get(),
            message: turn.message.get(),
            attempt: turn.attempt,
            preface: preface.map(lines),
            text: lines(text),
            reply: turn.reply.as_deref().map(lines),
            outcome: turn.outcome,
            reason: turn.reason.as_deref().map(lines),
            began: When::new(turn.started_at, now),
            ended: When::maybe(turn.ended_at, now),
        }
    }
}

/// A turn's text in two: muster's words, and from the label of the first outside line on. No line of muster's starts as an outside one does.
fn at_the_message(turn: &str) -> (Option<&str>, &str) {
    let label = turn
        .find(&format!("\n{PREFIX}"))
        .and_then(|end| turn.get(..end)?.rfind('\n'));
    match label.and_then(|before| turn.split_at_checked(before + 1)) {
        Some((preface, text)) => (Some(preface), text),
        None => (None, turn),
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct From {
    before: Option<String>,
}

pub(super) async fn show(State(web): State<Web>, Person(caller): Person) -> Result<Response, Response> {
    let shell = Shell::of(&web, &caller, Here::Chief, "Chief").await?;
    let now = web.app.clock.now();
    let facts = async || -> Result<_, Fault> {
        Ok((
            chief::show(&web.app, caller.owner).await?,
            chief::conversations(&web.app, caller.owner).await?,
        ))
    };
    let (chief, conversations) = facts().await.map_err(|fault| refuse::fault(&fault))?;
    let chief = chief.map(|chief| ChiefView {
        runtime: chief.kind.to_string(),
        command: one_line(&chief.command),
        since: When::new(chief.created_at, now),
        stuck: chief::start_error(&web.app, caller.owner, chief.id).map(|error| lines(&error.reason)),
    });
    let conversations = conversations
        .iter()
        .map(|conversation| ConversationView::new(conversation, now))
        .collect();
    Ok(view::page(
        StatusCode::OK,
        &ChiefPage {
            shell,
            chief,
            conversations,
            owner: caller.name,
        },
    ))
}

pub(super) async fn conversation(
    State(web): State<Web>,
    Person(caller): Person,
    Id(plugin): Id<PluginId>,
    headers: HeaderMap,
    Asked(from): Asked<From>,
) -> Result<Response, Response> {
    let before: TurnId = match from.before.as_deref().map(str::parse) {
        None => TurnId::new(i64::MAX),
        Some(Ok(before)) => before,
        Some(Err(_)) => return Err(refuse::not_found(&headers)),
    };
    let now = web.app.clock.now();
    let all = chief::conversations(&web.app, caller.owner)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let Some(found) = all.iter().find(|conversation| conversation.plugin == plugin) else {
        return Err(refuse::not_found(&headers));
    };
    let conversation = ConversationView::new(found, now);
    // One more than is shown tells whether there are older ones.
    let asked = i64::try_from(TURNS).unwrap_or(i64::MAX - 1) + 1;
    let turns = chief::turns(&web.app, caller.owner, plugin, before, asked)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let more = turns.len() > TURNS;
    let turns: Vec<TurnView> = turns
        .into_iter()
        .take(TURNS)
        .map(|turn| TurnView::new(turn, now))
        .collect();
    let older = if more {
        turns.last().map(|turn| turn.id)
    } else {
        None
    };
    let shell = Shell::of(&web, &caller, Here::Chief, conversation.title.clone()).await?;
    Ok(view::page(
        StatusCode::OK,
        &ConversationPage {
            shell,
            conversation,
            turns,
            older,
        },
    ))
}

#[cfg(test)]
impl ConversationView {
    fn sample(revoked: bool) -> Self {
        Self {
            plugin: if revoked { 3 } else { 2 },
            title: super::tests::HOSTILE.to_owned(),
            revoked,
            turns: "3 turns".to_owned(),
            last: Some(super::tests::when()),
        }
    }
}

#[cfg(test)]
impl ChiefPage {
    pub(super) fn samples() -> Vec<Self> {
        let hostile = || super::tests::HOSTILE.to_owned();
        let chief = ChiefView {
            runtime: hostile(),
            command: hostile(),
            since: super::tests::when(),
            stuck: Some(hostile()),
        };
        let page = |chief, conversations| Self {
            shell: super::tests::shell(Here::Chief),
            chief,
            conversations,
            owner: hostile(),
        };
        vec![
            page(
                Some(chief),
                vec![ConversationView::sample(false), ConversationView::sample(true)],
            ),
            page(None, vec![]),
        ]
    }
}

#[cfg(test)]
impl ConversationPage {
    pub(super) fn samples() -> Vec<Self> {
        let hostile = || super::tests::HOSTILE.to_owned();
        let turn = |id, outcome: &str, reply, reason| TurnView {
            id,
            message: 2,
            attempt: 3,
            preface: (id < 3).then(hostile),
            text: hostile(),
            reply,
            outcome: outcome.to_owned(),
            reason,
            began: super::tests::when(),
            ended: Some(super::tests::when()),
        };
        let turns = vec![
            turn(1, "delivered", Some(hostile()), None),
            turn(2, "delivered", Some(String::new()), None),
            turn(3, "unconfirmed", None, Some(hostile())),
            turn(4, "running", None, None),
        ];
        let page = |turns, older| Self {
            shell: Shell {
                title: hostile(),
                ..super::tests::shell(Here::Chief)
            },
            conversation: ConversationView::sample(true),
            turns,
            older,
        };
        vec![page(turns, Some(1)), page(vec![], None)]
    }
}

#[cfg(test)]
mod tests {
    use muster_core::fence::{MessageTurn, Nonce, STANDING, message_turn};

    use super::*;

    #[test]
    fn a_turn_is_shown_from_its_message_on_and_loses_not_a_word() {
        let nonce = Nonce::parse(&"0".repeat(32)).unwrap();
        let turn = message_turn(&MessageTurn {
            nonce: &nonce,
            message_id: 7,
            plugin_label: "Inbox\n# from:",
            data_scope: "notes",
            sender: Some("Ada"),
            verified: false,
            received: None,
            subject: Some("from:\n# x"),
            body: "noon?\n# from:\n# y",
            no_reply: false,
            retry: None,
        });
        let (preface, text) = at_the_message(&turn);
        let preface = preface.unwrap();
        assert_eq!(format!("{preface}{text}"), turn);
        assert!(
            text.starts_with("from:\n# [message_id 7] from Ada") && text.contains("# noon?"),
            "{text}"
        );
        for words in STANDING {
            assert!(preface.contains(words), "{preface}");
        }
        assert!(preface.contains(&nonce.open()) && text.ends_with(&format!("{}\n", nonce.close())));
    }

    #[test]
    fn what_is_no_message_is_shown_whole() {
        for turn in ["", "words", "# first\nsecond", "x\n# y"] {
            assert_eq!(at_the_message(turn), (None, turn), "{turn:?}");
        }
    }
}
