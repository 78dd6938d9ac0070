//! Who is here: joining, leaving, looking, renaming. Never binds a session by looking.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::args::{About, Join, Nothing, Own, Ping, Register, Rename};
use super::{Call, Said, object, panes, said, talking};
use crate::cursor::Source;
use crate::error::BusError;
use crate::identity::{Ask, How};
use crate::names::{RoomName, SeatId};
use crate::push::lease;
use crate::read::{Want, depth, unread};
use crate::registry::{self, Agent, Agents};
use crate::transports::{self, Marker};
use crate::{rename, sessions};

pub(super) fn register(call: &Call<'_>, args: Register) -> Said {
    let seat = SeatId::parse(&args.agent_id)?;
    call.claiming(ask(&seat, args.token.as_deref(), args.force), |seat| {
        let agent = enter(call, seat, args.project.as_deref(), args.role.as_deref())?;
        Ok(object! {"agent": agent})
    })
}

pub(super) fn join(call: &Call<'_>, args: Join) -> Said {
    let seat = SeatId::parse(&args.agent_id)?;
    call.claiming(ask(&seat, args.token.as_deref(), args.force), |seat| {
        let home = call.home();
        let agent = enter(call, seat, args.project.as_deref(), args.role.as_deref())?;
        let attach = panes::attach_on_join(call, seat, args.attach.clone());
        let general = RoomName::general();
        let mut body = object! {
            "agent": agent,
            "registered": true,
            "attached": attach.get("ok") == Some(&Value::Bool(true)),
            "attach": attach,
            "inTmux": call.tools.place().in_tmux(),
            "defaultRoom": talking::shown(call, seat, &general)?,
        };
        if let Some(warning) = doubled(call, seat)? {
            body.insert("warning".to_owned(), warning.into());
        }
        let (inbox, unread) = if args.read_inbox.unwrap_or(true) {
            // Last, and nothing after it can fail: what is marked read is in the answer.
            let inbox = talking::inbox(call, seat, Want::default())?;
            let remaining = inbox.get("remaining").cloned().unwrap_or_default();
            (Value::Object(inbox), remaining)
        } else {
            (Value::Null, unread(home, seat, &Source::Inbox)?.into())
        };
        body.insert("inbox".to_owned(), inbox);
        body.insert("unread".to_owned(), unread);
        Ok(body)
    })
}

/// What a session that its environment made an agent should know: nobody asked whether that agent is there already.
fn doubled(call: &Call<'_>, seat: &SeatId) -> Result<Option<String>, BusError> {
    if call.session().how() != Some(How::Environment) {
        return Ok(None);
    }
    let own = call.session().id();
    let other = sessions::live(call.home())?
        .into_iter()
        .find(|(id, marker)| id != own && marker.agent_id == seat.as_str());
    Ok(other.map(|(_, marker)| {
        format!(
            "another live session (of process {}) acts as '{seat}', too: both share one cursor, so each sees a part of the messages. AGENT_COORD_BOUND_AGENT belongs into one project's own entry, never into an entry for all projects",
            marker.pid
        )
    }))
}

fn ask<'a>(seat: &'a SeatId, token: Option<&'a str>, force: Option<bool>) -> Ask<'a> {
    Ask {
        token,
        force: force.unwrap_or(false),
        ..Ask::of(seat)
    }
}

fn enter(
    call: &Call<'_>,
    seat: &SeatId,
    project: Option<&str>,
    role: Option<&str>,
) -> Result<Agent, BusError> {
    registry::register(call.home(), seat, project, role)
}

pub(super) fn unregister(call: &Call<'_>, args: Own) -> Said {
    call.acting(&args.agent_id, |seat| {
        let detached = panes::detach(call, seat)?;
        let was = registry::unregister(call.home(), seat)?;
        Ok(object! {"wasRegistered": was, "detached": detached})
    })
}

pub(super) fn heartbeat(call: &Call<'_>, args: Own) -> Said {
    call.acting(&args.agent_id, |seat| {
        registry::heartbeat(call.home(), seat)?;
        Ok(Map::new())
    })
}

pub(super) fn status(call: &Call<'_>, args: About) -> Said {
    let seat = SeatId::parse(&args.agent_id)?;
    let home = call.home();
    let agent = Agents::load(home)?.get(&seat);
    let marker = transports::load(home, &seat)?;
    let now = home.now();
    let attached = marker
        .as_ref()
        .is_some_and(|marker| transports::alive(marker, agent.as_ref(), now));
    Ok(object! {
        "agentId": seat,
        "registered": agent.is_some(),
        "online": agent.as_ref().is_some_and(|agent| agent.online(now)),
        "entry": agent,
        "attached": attached,
        "transport": marker,
        "push": lease::live(home, &seat)?.map(|row| row.standing),
        "inboxDepth": depth(home, &seat, &Source::Inbox)?,
        "inboxUnread": unread(home, &seat, &Source::Inbox)?,
        "inTmux": call.tools.place().in_tmux(),
        "tmuxPane": call.tools.place().panes.tmux(),
    })
}

pub(super) fn list_agents(call: &Call<'_>, _: Nothing) -> Said {
    let home = call.home();
    let now = home.now();
    let agents = Agents::load(home)?;
    let (mut markers, mut damaged) = (HashMap::new(), Vec::new());
    for found in transports::all(home)? {
        match (SeatId::parse(&found.id), found.marker) {
            (Ok(seat), Ok(marker)) => {
                markers.insert(seat, marker);
            }
            (_, Err(error)) => damaged.push(error.to_string()),
            (Err(_), Ok(_)) => {}
        }
    }
    let live = |seat: &SeatId, marker: &Marker| transports::alive(marker, agents.get(seat).as_ref(), now);
    // A process that delivers to an agent proves that the agent is there; a remote one says so by heartbeats of its own.
    let proven: Vec<SeatId> = markers
        .iter()
        .filter(|(seat, marker)| marker.pid > 0 && live(seat, marker))
        .map(|(seat, _)| seat.clone())
        .collect();
    let (agents, evicted) = registry::sweep(home, &proven)?;
    let listed: Vec<Value> = agents
        .all()
        .into_iter()
        .map(|agent| {
            let marker = SeatId::parse(&agent.agent_id)
                .ok()
                .and_then(|seat| markers.get(&seat));
            let attached = marker.is_some_and(|marker| transports::alive(marker, Some(&agent), now));
            let (online, quiet) = (agent.online(now), agent.quiet(now).as_secs());
            let mut entry = said(&agent).unwrap_or_default();
            entry.insert("online".to_owned(), (online || attached).into());
            entry.insert("secondsSinceHeartbeat".to_owned(), quiet.into());
            entry.insert("attached".to_owned(), attached.into());
            entry.insert("transport".to_owned(), serde_json::json!(marker));
            Value::Object(entry)
        })
        .collect();
    let mut body = object! {"agents": listed, "evicted": evicted};
    if !damaged.is_empty() {
        body.insert("damagedMarkers".to_owned(), damaged.into());
    }
    Ok(body)
}

pub(super) fn rename_agent(call: &Call<'_>, args: Rename) -> Said {
    let new = SeatId::parse(&args.new_agent_id)?;
    call.acting(&args.agent_id, |seat| {
        call.session().rename(&new)?;
        if let Some(hands) = call.tools.hands() {
            hands.look();
        }
        let mut note = format!("call with '{new}' from now on, and say so in your lasting instructions");
        if call.session().how() == Some(How::Environment) {
            note.push_str("; AGENT_COORD_BOUND_AGENT still says '");
            note.push_str(seat.as_str());
            note.push_str("', so until it is changed the next start of this client is that agent again");
        }
        Ok(object! {"from": seat, "agentId": new, "note": note})
    })
}

pub(super) fn ping(call: &Call<'_>, args: Ping) -> Said {
    let Some(to) = args.to else {
        return Ok(object! {"alive": true, "server": "agent-coord", "version": env!("CARGO_PKG_VERSION")});
    };
    let seat = SeatId::parse(&to)?;
    let home = call.home();
    let agent = Agents::load(home)?.get(&seat);
    let marker = transports::load(home, &seat)?;
    let now = home.now();
    let attached = marker
        .as_ref()
        .is_some_and(|marker| transports::alive(marker, agent.as_ref(), now));
    let session = sessions::live(home)?
        .iter()
        .any(|(_, marker)| marker.agent_id == seat.as_str());
    let heartbeat = agent.as_ref().is_some_and(|agent| agent.online(now));
    let reason = match (&agent, attached || session || heartbeat) {
        (_, true) => None,
        (None, false) => Some("it is not registered"),
        (Some(_), false) => Some("no heartbeat for five minutes, no live transport and no live session"),
    };
    Ok(object! {
        "to": seat,
        "alive": reason.is_none(),
        "reachable": attached,
        "reason": reason,
        "checks": object! {
            "registered": agent.is_some(), "heartbeat": heartbeat, "transport": attached, "session": session,
        },
        "renamedTo": rename::forwarded(home, &seat)?,
    })
}
