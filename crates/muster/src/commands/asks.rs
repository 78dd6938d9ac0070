//! `muster asks`. Never answers an ask that does not wait, and never prints what an agent asked for unescaped to a terminal.

use std::collections::HashSet;
use std::io::IsTerminal as _;
use std::time::Duration;

use muster_app::access::{self, Ask, AskError, AskState, Decider, Seat};
use muster_app::{App, Topic};
use muster_core::ids::{AskId, OwnerId};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use super::{offline, owner, shown};
use crate::cli;
use crate::config::Config;
use crate::output::{self, Failure};

/// How often a watch looks by itself: what another process parks wakes nobody on SQLite.
const LOOK: Duration = Duration::from_millis(250);
/// How much of a call's arguments a watch prints on its line.
const ARGUMENTS: usize = 500;

pub(super) async fn run(config: &Config, command: cli::Asks, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.tasks.stop().await;
    app.db.close().await;
    done
}

async fn on(app: &App, command: cli::Asks, json: bool) -> Result<(), Failure> {
    match command {
        cli::Asks::List {
            owner: whose,
            state,
            ended,
        } => {
            let state = match state {
                None => AskState::Parked,
                Some(word) => AskState::parse(&word).ok_or_else(|| {
                    Failure::usage("an ask is parked, approved, refused, expired or withdrawn")
                })?,
            };
            let owner = owner(app, &whose).await?;
            let asks = if ended {
                all_ended(app, owner).await?
            } else {
                access::list(app, owner, state).await?
            };
            shown::list(
                json,
                || asks.iter().map(Ask::json).collect(),
                &["ID", "STATE", "AGENT", "TASK", "TOOL", "ASKS FOR", "EXPIRES"],
                || asks.iter().map(row).collect(),
            )
        }
        cli::Asks::Show { owner: whose, id } => {
            let owner = owner(app, &whose).await?;
            let ask = access::show(app, owner, id_of(&id)?).await.map_err(refused)?;
            if json {
                output::document(&ask.json())
            } else {
                in_full(&ask)
            }
        }
        cli::Asks::Approve { owner: whose, id } => {
            let owner = owner(app, &whose).await?;
            let id = id_of(&id)?;
            access::approve(app, owner, id, Decider::CommandLine)
                .await
                .map_err(refused)?;
            decided(app, owner, id, json).await
        }
        cli::Asks::Refuse { owner: whose, id } => {
            let owner = owner(app, &whose).await?;
            let id = id_of(&id)?;
            access::refuse(app, owner, id, Decider::CommandLine)
                .await
                .map_err(refused)?;
            decided(app, owner, id, json).await
        }
        cli::Asks::Watch { owner: whose } => {
            let owner = owner(app, &whose).await?;
            watch(app, owner, json).await
        }
    }
}

/// Every ask that waits no more, the oldest first.
async fn all_ended(app: &App, owner: OwnerId) -> Result<Vec<Ask>, Failure> {
    const PAGE: usize = 1_000;
    let (mut asks, mut before) = (Vec::new(), Some(AskId::new(i64::MAX)));
    while let Some(from) = before {
        let page = access::ended(app, owner, from, PAGE).await?;
        before = page.older;
        asks.extend(page.asks);
    }
    asks.reverse();
    Ok(asks)
}

fn id_of(word: &str) -> Result<AskId, Failure> {
    word.parse().map_err(|_| refused(AskError::NotFound))
}

async fn decided(app: &App, owner: OwnerId, id: AskId, json: bool) -> Result<(), Failure> {
    let ask = access::show(app, owner, id).await.map_err(refused)?;
    shown::changed(json, || ask.json())
}

/// What stands where a part of an ask cannot be read.
const UNREADABLE: &str = "(unreadable)";

fn arguments(ask: &Ask) -> String {
    if ask.arguments.is_null() && !ask.unreadable.is_empty() {
        return UNREADABLE.to_owned();
    }
    ask.arguments.to_string()
}

fn pairs(ask: &Ask) -> String {
    if ask.pairs.is_null() {
        return UNREADABLE.to_owned();
    }
    let text = |pair: &Value| {
        let action = pair.get("action").and_then(Value::as_str).unwrap_or_default();
        let name = pair.pointer("/resource/name").and_then(Value::as_str);
        let kind = pair
            .pointer("/resource/kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        name.map_or_else(|| action.to_owned(), |name| format!("{action} {kind}:{name}"))
    };
    let all: Vec<String> = ask.pairs.as_array().into_iter().flatten().map(text).collect();
    all.join(", ")
}

fn agent(ask: &Ask) -> String {
    ask.agent.map_or_else(
        || format!("session {}", ask.label),
        |token| format!("{token} {}", ask.label),
    )
}

fn task(ask: &Ask) -> String {
    ask.task
        .as_ref()
        .map_or_else(|| "-".to_owned(), |(id, title)| format!("{id} {title}"))
}

fn row(ask: &Ask) -> Vec<String> {
    vec![
        ask.id.to_string(),
        ask.state.as_str().to_owned(),
        agent(ask),
        task(ask),
        ask.tool.clone(),
        pairs(ask),
        ask.expires_at.rfc3339(),
    ]
}

fn in_full(ask: &Ask) -> Result<(), Failure> {
    let mut rows = vec![
        ("id", ask.id.to_string()),
        ("state", ask.state.as_str().to_owned()),
        ("agent", agent(ask)),
        ("task", task(ask)),
        ("tool", ask.tool.clone()),
        ("asks for", pairs(ask)),
        ("arguments", arguments(ask)),
    ];
    let about = |field: &str| ask.about.get(field).and_then(Value::as_str);
    if let (Some(plugin), Some(server)) = (about("plugin"), about("server")) {
        rows.push(("package", format!("{plugin}, its server {server}")));
    }
    rows.extend(about("beside").map(|text| ("sent beside", text.to_owned())));
    rows.extend(about("description").map(|text| ("says of itself", text.to_owned())));
    rows.extend(about("reason").map(|text| ("asked because", text.to_owned())));
    rows.extend([
        ("since", ask.created_at.rfc3339()),
        ("expires", ask.expires_at.rfc3339()),
    ]);
    if let Some(at) = ask.decided_at {
        rows.push(("decided", at.rfc3339()));
    }
    if let Some(by) = &ask.decided_by {
        rows.push(("decided by", by.clone()));
    }
    shown::fields(&rows)?;
    if ask.state == AskState::Parked && !ask.unreadable.is_empty() {
        output::line("\nWhat muster stored of this ask is damaged, so it can only be refused.")?;
    } else if ask.state == AskState::Parked {
        output::line(
            "\nApproving lets this call go on, and covers matching calls of this agent for 60 seconds from then. Refusing covers nothing: the next call asks again.",
        )?;
    }
    Ok(())
}

/// Prints each ask once as it parks, and counts as somebody who can be asked until it ends.
async fn watch(app: &App, owner: OwnerId, json: bool) -> Result<(), Failure> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let waiter = app.db.wakeups().waiter(Topic::Owner(owner));
    let present = access::present(app, owner, Seat::Watch).await?;
    output::notice("watching");
    let mut told: HashSet<AskId> = HashSet::new();
    let ended = loop {
        let woken = waiter.woken();
        match access::list(app, owner, AskState::Parked).await {
            Ok(asks) => {
                if let Err(failure) = tell(&asks, &mut told, json) {
                    break Err(failure);
                }
            }
            // Whoever watches through the night stays there when the database was restarted.
            Err(fault) => output::notice(&format!("muster: {}; trying again", fault.chain())),
        }
        tokio::select! {
            () = woken => {}
            () = tokio::time::sleep(LOOK) => {}
            _ = interrupted.recv() => break Ok(()),
            _ = terminated.recv() => break Ok(()),
        }
    };
    present.leave().await?;
    ended
}

fn tell(asks: &[Ask], told: &mut HashSet<AskId>, json: bool) -> Result<(), Failure> {
    // What does not wait any more is forgotten, so that this stays small.
    told.retain(|id| asks.iter().any(|ask| ask.id == *id));
    for ask in asks.iter().filter(|ask| told.insert(ask.id)) {
        if json {
            output::json_line(&ask.json())?;
        } else {
            let arguments: String = arguments(ask).chars().take(ARGUMENTS).collect();
            let whose = match &ask.task {
                Some(_) => format!("{} on task {}", ask.label, task(ask)),
                None if ask.agent.is_some() => ask.label.clone(),
                None => format!("the session {}", ask.label),
            };
            let wants = match ask.kind.as_str() {
                "plugin_tool" => format!("wants to call {}", ask.tool),
                _ => format!("asks for {} with {}", pairs(ask), ask.tool),
            };
            let line = format!(
                "{} {whose} {wants} {arguments} until {}; muster asks show {} has all of it, muster asks approve {} lets it and matching calls go on for 60 seconds, muster asks refuse {} does not",
                ask.id,
                ask.expires_at.rfc3339(),
                ask.id,
                ask.id,
                ask.id
            );
            print(&line)?;
        }
    }
    Ok(())
}

/// Prints a line: on a terminal in rows of its width, so that none of an agent's words begins where an ask does; for a script on one line.
fn print(line: &str) -> Result<(), Failure> {
    if !std::io::stdout().is_terminal() {
        return output::line(&muster_core::text::terminal(line));
    }
    for row in muster_tui::folded(line, muster_tui::columns()) {
        output::line(&row)?;
    }
    Ok(())
}

fn refused(error: AskError) -> Failure {
    match error {
        AskError::NotFound => Failure::refused("not_found", error.to_string()),
        AskError::AlreadyDecided(_) => Failure::refused("already_decided", error.to_string()),
        AskError::Unreadable(_) => Failure::refused("unreadable", error.to_string()),
        AskError::Fault(fault) => fault.into(),
    }
}
