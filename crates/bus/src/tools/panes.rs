//! Panes and the transports that reach them, as far as this process has one. Never says that something was read or delivered that was not.

use serde_json::{Value, json};

use super::args::{Attach, AttachAgent, AttachHow, Clear, Nothing, Own, ReadPane, Report};
use super::{Call, Said, object, said};
use crate::error::BusError;
use crate::names::SeatId;
use crate::push::{Probe, Screen, lease};
use crate::registry::Agents;
use crate::sessions::Link;
use crate::transports::{self, TransportKind};
use crate::{Mode, build_id};

/// Why nothing is typed or read here.
const UNWIRED: &str =
    "this build of muster delivers to no panes by itself; messages wait in the inbox until they are read";

/// What there is to say to a session that asked for nothing, where panes are reached by pushers of their own.
const UNPUSHED: &str = "nothing was to be attached: on this machine's transport, tmux-push-remote, messages wait until they are read, unless a pusher runs beside the agent";

/// What whoever attaches without an allowlist should know.
const HINT: &str = "whatever any peer writes to this seat becomes a prompt in its pane; allowlist names the only senders whose messages may";

/// What a join says of the transport.
pub(super) fn attach_on_join(call: &Call<'_>, seat: &SeatId, attach: Option<Attach>) -> Value {
    let omitted = attach.is_none();
    let how = match attach {
        Some(Attach::Whether(false)) => return Value::Null,
        Some(Attach::Whether(true)) | None => AttachHow::default(),
        Some(Attach::How(how)) => how,
    };
    let explicit = how.tmux_target.is_some();
    if omitted && call.tools.transport().kind == TransportKind::TmuxPushRemote {
        return json!({"ok": false, "tried": false, "reason": UNPUSHED});
    }
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
            socket: args.tmux_socket.as_deref(),
            since: args.since,
            build: args.build.as_deref(),
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

pub(super) fn clear_transport(call: &Call<'_>, args: Clear) -> Said {
    call.acting(&args.agent_id, |seat| {
        let home = call.home();
        let cleared = match &args.tmux_target {
            Some(target) => transports::clear_of(home, seat, target, args.tmux_socket.as_deref())?,
            None => transports::clear(home, seat)?,
        };
        lease::ended(home, seat, args.holder.as_deref())?;
        Ok(object! {"cleared": cleared})
    })
}

/// Lines of a pane that are read unless the caller says otherwise.
const USUAL_LINES: u32 = 200;

pub(super) fn read_pane(call: &Call<'_>, args: ReadPane) -> Said {
    let target = SeatId::parse(&args.target_agent_id)?;
    let lines = args.lines.unwrap_or(USUAL_LINES);
    if lines == 0 || lines > 2_000 {
        return Err(BusError::Argument("lines must be a number from 1 to 2000"));
    }
    call.acting(&args.agent_id, |_| {
        let lines = usize::try_from(lines).unwrap_or(usize::MAX);
        match screen(call, &target, lines, args.colors.unwrap_or(false))? {
            Ok(screen) => Ok(object! {
                "targetAgentId": target,
                "state": "read",
                "screen": screen.text,
                "lines": screen.text.lines().count(),
                "truncated": screen.truncated,
            }),
            Err(reason) => Ok(object! {"targetAgentId": target, "state": "unknown", "reason": reason}),
        }
    })
}

/// What a seat's pane shows, or why that cannot be told.
fn screen(
    call: &Call<'_>,
    target: &SeatId,
    lines: usize,
    colors: bool,
) -> Result<Result<Screen, String>, BusError> {
    let home = call.home();
    let unknown = |reason: &str| Ok(Err(reason.to_owned()));
    let Some(marker) = transports::load(home, target)? else {
        return unknown("this seat is not attached, so there is no pane to read");
    };
    let agent = Agents::load(home)?.get(target);
    if !transports::alive(&marker, agent.as_ref(), home.now()) {
        return unknown("the transport that this seat was attached by is gone");
    }
    if marker.transport == TransportKind::TmuxPushRemote.as_str() {
        return unknown("tmux-push-remote cannot read panes from this host");
    }
    let Some(hands) = call.tools.hands() else {
        return unknown(UNWIRED);
    };
    let transport = hands.transport();
    if marker.transport != transport.kind().as_str() {
        return unknown("this seat was attached by another transport than the one that runs here");
    }
    let Some(pane) = marker.pane() else {
        return unknown("the marker of this seat names no pane");
    };
    Ok(match transport.read(pane, lines, colors) {
        Ok(screen) if screen.text.is_empty() => Err("the transport answered with nothing at all".to_owned()),
        other => other,
    })
}

pub(super) fn capabilities(call: &Call<'_>, _: Nothing) -> Said {
    let home = call.home();
    let configured = call.tools.transport();
    let (running, evidence) = running(call);
    let agents = Agents::load(home);
    let disagreeing: Vec<Value> = transports::all(home)?
        .into_iter()
        .filter_map(|found| match found.marker {
            Ok(marker) if running.is_some_and(|running| running.as_str() == marker.transport) => None,
            Ok(marker) => {
                let seat = SeatId::parse(&found.id).ok();
                let agent = seat.and_then(|seat| agents.as_ref().ok()?.get(&seat));
                let stale = !transports::alive(&marker, agent.as_ref(), home.now());
                let tag = if stale { " [stale]" } else { "" };
                let kind = muster_core::text::terminal(&marker.transport);
                Some(json!(format!("{}: {kind}{tag}", found.id)))
            }
            Err(error) => Some(json!(format!(
                "{}: {error}",
                muster_core::text::terminal(&found.id)
            ))),
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
            "agrees": running == Some(configured.kind),
            "evidence": evidence,
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

/// A pane that cannot be.
const BOGUS: &str = "muster-probes-a-pane-that-is-not";

/// Which transport runs, by calling it, and what it answered. One that takes a pane for real that cannot be, or cannot tell, is not known to
/// run.
fn running(call: &Call<'_>) -> (Option<TransportKind>, Value) {
    let Some(hands) = call.tools.hands() else {
        return (
            None,
            json!({"available": false, "probe": null, "reason": UNWIRED}),
        );
    };
    let transport = hands.transport();
    if let Err(reason) = transport.available() {
        return (None, json!({"available": false, "probe": null, "reason": reason}));
    }
    let probe = transport.probe(BOGUS);
    let real = matches!(probe, Probe::Gone { .. });
    let evidence = json!({"available": true, "probed": BOGUS, "probe": probe});
    (real.then(|| transport.kind()), evidence)
}

fn text(value: Result<String, BusError>) -> Value {
    value.map_or(Value::Null, Value::String)
}
