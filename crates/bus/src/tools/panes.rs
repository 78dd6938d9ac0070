//! Panes and the transports that reach them, as far as this process has one. Never says that something was read or delivered that was not.

use serde_json::{Map, Value, json};

use super::args::{Attach, AttachAgent, AttachHow, Nothing, Own, ReadPane, Report, SendCommand};
use super::{Call, Said, object, said};
use crate::error::BusError;
use crate::message;
use crate::names::{RoomName, SeatId};
use crate::registry::Agents;
use crate::rooms::{self, Rooms};
use crate::sessions::Link;
use crate::transports::{self, TransportKind};
use crate::{Mode, build_id};

/// The only commands that are ever typed into an agent's own program.
const COMMANDS: [&str; 3] = ["/clear", "/compact", "/reload-skills"];

/// Why nothing is typed or read here.
const UNWIRED: &str =
    "this build of muster delivers to no panes by itself; messages wait in the inbox until they are read";

/// What whoever attaches without an allowlist should know.
const HINT: &str = "whatever any peer writes to this seat becomes a prompt in its pane; allowlist names the only senders whose messages may";

/// What a join says of the transport.
pub(super) fn attach_on_join(call: &Call<'_>, seat: &SeatId, attach: Option<Attach>) -> Value {
    let how = match attach {
        Some(Attach::Whether(false)) => return Value::Null,
        Some(Attach::Whether(true)) | None => AttachHow::default(),
        Some(Attach::How(how)) => how,
    };
    let explicit = how.tmux_target.is_some();
    match try_attach(call, seat, &how) {
        Ok(body) => Value::Object(body),
        Err(error) => json!({"ok": false, "tried": explicit, "reason": error.to_string()}),
    }
}

pub(super) fn attach_agent(call: &Call<'_>, args: AttachAgent) -> Said {
    call.acting(&args.agent_id, |seat| {
        let how = AttachHow {
            tmux_target: args.tmux_target,
            include_room: args.include_room,
            allowlist: args.allowlist,
            debounce_ms: args.debounce_ms,
        };
        try_attach(call, seat, &how)
    })
}

fn try_attach(call: &Call<'_>, seat: &SeatId, how: &AttachHow) -> Said {
    for id in how.allowlist.iter().flatten() {
        SeatId::parse(id)?;
    }
    if how.debounce_ms.is_some_and(|ms| ms > 60_000) {
        return Err(BusError::Argument("debounceMs is at most 60000"));
    }
    let target = call.tools.place().panes.target(how.tmux_target.as_deref())?;
    let kind = call.tools.transport().kind;
    if let Some(hands) = call
        .tools
        .hands()
        .filter(|hands| hands.transport().kind() == kind)
        && kind == TransportKind::Herdr
    {
        let marker = hands.attach(
            seat,
            transports::Attach {
                target: target.to_owned(),
                include_room: how.include_room,
                allowlist: how.allowlist.clone(),
                debounce_ms: how.debounce_ms,
                build: None,
            },
        )?;
        let mut body = object! {"transport": marker};
        if how.allowlist.is_none() {
            body.insert("hint".to_owned(), HINT.into());
        }
        body.insert("ok".to_owned(), true.into());
        return Ok(body);
    }
    Err(BusError::NoTransport(match kind {
        TransportKind::Herdr => UNWIRED,
        TransportKind::TmuxPushRemote => {
            "this machine's transport is tmux-push-remote: the pusher beside the agent reports it with report_transport"
        }
    }))
}

pub(super) fn detach_agent(call: &Call<'_>, args: Own) -> Said {
    call.acting(&args.agent_id, |seat| {
        Ok(object! {"detached": detach(call, seat)?})
    })
}

/// Ends the push into a seat's pane. Answers whether there was a marker.
pub(super) fn detach(call: &Call<'_>, seat: &SeatId) -> Result<bool, BusError> {
    let cleared = transports::clear(call.home(), seat)?;
    if let Some(hands) = call.tools.hands() {
        hands.stop(seat);
    }
    Ok(cleared)
}

pub(super) fn report_transport(call: &Call<'_>, args: Report) -> Said {
    call.acting(&args.agent_id, |seat| {
        let report = transports::Report {
            transport: &args.transport,
            host: args.host.as_deref().or_else(|| host(call, &args)),
            target: args.tmux_target.as_deref(),
            since: args.since,
            build: None,
        };
        Ok(object! {"transport": transports::report(call.home(), seat, report)?})
    })
}

/// The machine of a pusher that does not name it: this one where the pane is the one that this process runs in.
fn host(call: &Call<'_>, args: &Report) -> Option<&'static str> {
    let session = call.session();
    match session.link() {
        Link::Http => Some(transports::UNKNOWN),
        Link::Stdio => transports::this_machine().filter(|_| {
            let pane = args.tmux_target.as_deref();
            pane.is_some_and(|pane| session.panes().hold(&args.transport, pane))
        }),
    }
}

pub(super) fn clear_transport(call: &Call<'_>, args: Own) -> Said {
    call.acting(&args.agent_id, |seat| {
        Ok(object! {"cleared": transports::clear(call.home(), seat)?})
    })
}

pub(super) fn read_pane(call: &Call<'_>, args: ReadPane) -> Said {
    let target = SeatId::parse(&args.target_agent_id)?;
    if args.lines.is_some_and(|lines| lines == 0 || lines > 2_000) {
        return Err(BusError::Argument("lines must be a number from 1 to 2000"));
    }
    call.acting(&args.agent_id, |_| {
        let home = call.home();
        let marker = transports::load(home, &target)?;
        let agent = Agents::load(home)?.get(&target);
        let reason = match &marker {
            None => "this seat is not attached, so there is no pane to read",
            Some(marker) if !transports::alive(marker, agent.as_ref(), home.now()) => {
                "the transport that this seat was attached by is gone"
            }
            Some(marker) if marker.transport == TransportKind::TmuxPushRemote.as_str() => {
                "tmux-push-remote cannot read panes from this host"
            }
            Some(_) => UNWIRED,
        };
        Ok(object! {"targetAgentId": target, "state": "unknown", "reason": reason})
    })
}

pub(super) fn send_command(call: &Call<'_>, args: SendCommand) -> Said {
    if !COMMANDS.contains(&args.command.as_str()) {
        return Err(BusError::Argument(
            "command must be exactly /clear, /compact or /reload-skills",
        ));
    }
    if args.reminder_ms.is_some_and(|ms| ms > 60_000) {
        return Err(BusError::Argument("reminderMs is at most 60000"));
    }
    if args.delivery_timeout_ms.is_some_and(|ms| ms == 0 || ms > 60_000) {
        return Err(BusError::Argument(
            "deliveryTimeoutMs must be a number from 1 to 60000",
        ));
    }
    if let Some(text) = &args.reminder_text {
        message::text("reminderText", text)?;
    }
    let to = args.to.as_deref().map(SeatId::parse).transpose()?;
    let room = args.room.as_deref().map(RoomName::parse).transpose()?;
    call.acting(&args.from, |from| {
        let targets = match (&to, &room) {
            (Some(to), _) if to == from => {
                return Err(BusError::Argument("an agent does not send a command to itself"));
            }
            (Some(to), _) => vec![to.clone()],
            (None, Some(room)) => members(call, room, from)?,
            (None, None) => return Err(BusError::Argument("name an agent (to) or a channel (room)")),
        };
        let home = call.home();
        let agents = Agents::load(home)?;
        let mut skipped = Map::new();
        for target in targets {
            let why = match transports::load(home, &target)? {
                None => "not attached",
                Some(marker) if !transports::alive(&marker, agents.get(&target).as_ref(), home.now()) => {
                    "its transport is gone"
                }
                Some(_) => UNWIRED,
            };
            skipped.insert(target.as_str().to_owned(), why.into());
        }
        Ok(object! {
            "ok": false,
            "code": "not_attached",
            "error": "nobody that this names has a live transport that this process can type through, so nothing was written",
            "command": args.command,
            "skipped": skipped,
        })
    })
}

/// The members of a channel, its sender aside.
fn members(call: &Call<'_>, room: &RoomName, from: &SeatId) -> Result<Vec<SeatId>, BusError> {
    let home = call.home();
    if !rooms::exists(home, room)? {
        return Err(BusError::NoRoom(room.clone()));
    }
    let entry = Rooms::load(home)?.get(room);
    let members = rooms::members(room, entry.as_ref(), &Agents::load(home)?);
    Ok(members
        .iter()
        .filter_map(|member| SeatId::parse(member).ok())
        .filter(|member| member != from)
        .collect())
}

pub(super) fn capabilities(call: &Call<'_>, _: Nothing) -> Said {
    let home = call.home();
    let configured = call.tools.transport();
    // Nothing is wired in this process, so nothing runs: no name is put there.
    let running: Option<TransportKind> = None;
    let disagreeing: Vec<Value> = transports::all(home)?
        .into_iter()
        .map(|found| match found.marker {
            Ok(marker) => {
                let agent = SeatId::parse(&found.id)
                    .ok()
                    .and_then(|seat| Agents::load(home).ok()?.get(&seat));
                let stale = !transports::alive(&marker, agent.as_ref(), home.now());
                let tag = if stale { " [stale]" } else { "" };
                json!(format!(
                    "{}: {}{tag}",
                    found.id,
                    muster_core::text::terminal(&marker.transport)
                ))
            }
            Err(error) => json!(format!("{}: {error}", muster_core::text::terminal(&found.id))),
        })
        .collect();
    let mut answered = object! {"version": env!("CARGO_PKG_VERSION"), "pid": std::process::id()};
    let module = build_id::module().map(|path| path.display().to_string());
    let stamp = build_id::stamp().map(str::to_owned);
    let behind = build_id::running_is_behind();
    answered.insert("module".to_owned(), text(module));
    answered.insert("build".to_owned(), text(stamp));
    answered.insert(
        "behindInstalled".to_owned(),
        behind.map_or(Value::Null, Value::Bool),
    );
    said(&json!({
        "answeredBy": answered,
        "mode": match home.mode() { Mode::Native => "native", Mode::Shared => "shared" },
        "dir": home.root(),
        "transport": {
            "configured": configured.kind,
            "configuredSource": configured.source,
            "running": running,
            "agrees": false,
            "evidence": {"available": false, "probe": null, "reason": UNWIRED},
            "disagreeingAgents": disagreeing,
        },
        "limits": {
            "room": {"max": home.limits().room.max, "keep": home.limits().room.keep},
            "status": {"max": home.limits().status.max, "keep": home.limits().status.keep},
            "textBytes": crate::limits::MAX_TEXT,
        },
        "tools": super::specs::names(),
    }))
}

fn text(value: Result<String, BusError>) -> Value {
    value.map_or(Value::Null, Value::String)
}
