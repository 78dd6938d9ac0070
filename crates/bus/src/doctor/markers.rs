//! Transport markers: of nobody, of a process that ended, of a program older than the one installed. Never removes one whose agent can be reached by it.

use std::fs;

use super::Severity::{Info, Warning};
use super::{Exam, Fix};
use crate::build_id;
use crate::error::{BusError, failed};
use crate::home::Home;
use crate::lock;
use crate::names::SeatId;
use crate::registry::Agents;
use crate::transports::{self, FOLDER, Marker, TransportKind};

pub(super) fn orphans(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let agents = Agents::load(exam.home)?;
    for found in transports::all(exam.home)? {
        let file = format!("{FOLDER}/{}.json", found.id);
        let marker = match found.marker {
            Ok(marker) => marker,
            // Told of by the check of damaged files.
            Err(BusError::Damaged(_)) => continue,
            Err(error) => {
                exam.find(
                    "odd-marker",
                    Warning,
                    &file,
                    format!("nothing is delivered by this marker: {error}"),
                );
                continue;
            }
        };
        let live = alive(&agents, &marker, exam.now);
        match (agents.has(&marker.agent_id), live) {
            (true, true) => {}
            (false, true) => {
                let why = "nobody of this id is registered, and the process that delivers to it runs; join registers it again";
                exam.find("orphan-marker", Warning, &file, why);
            }
            (false, false) => {
                let why = "nobody of this id is registered, so this transport marker belongs to nobody";
                exam.fixable("orphan-marker", Warning, &file, why, |home| {
                    remove(home, &found.id)
                });
            }
            (true, false) if marker.pid > 0 => {
                let why = format!(
                    "the process {} that delivered to this agent has ended, so nothing wakes it until it attaches again",
                    marker.pid
                );
                exam.fixable("dead-marker", Warning, &file, why, |home| remove(home, &found.id));
            }
            (true, false) => {
                let why = "no heartbeat of this agent came for five minutes, so its remote pusher counts as gone until one does";
                exam.find("dead-marker", Info, &file, why);
            }
        }
    }
    Ok(())
}

fn alive(agents: &Agents, marker: &Marker, now: i64) -> bool {
    let agent = SeatId::parse(&marker.agent_id)
        .ok()
        .and_then(|seat| agents.get(&seat));
    transports::alive(marker, agent.as_ref(), now)
}

/// Removes a marker under its lock, unless it lives after all.
fn remove(home: &Home, id: &str) -> Result<Fix, BusError> {
    let Ok(seat) = SeatId::parse(id) else {
        return Ok(Fix::Left("its name is no agent id"));
    };
    let _held = lock::lock(home, FOLDER)?;
    let Some(marker) = transports::load(home, &seat)? else {
        return Ok(Fix::NotNeeded);
    };
    if alive(&Agents::load(home)?, &marker, home.now()) {
        return Ok(Fix::Left("its agent can be reached again"));
    }
    let path = home.path(&format!("{FOLDER}/{id}.json"));
    fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
    Ok(Fix::Done)
}

/// Whether the programs that deliver are the ones that are installed.
pub(super) fn builds(exam: &mut Exam<'_>) -> Result<(), BusError> {
    for found in transports::all(exam.home)? {
        let Ok(marker) = found.marker else { continue };
        let file = format!("{FOLDER}/{}.json", found.id);
        // The program that other kinds belong to cannot be compared with this one.
        let ours = TransportKind::parse(&marker.transport);
        let Some(build) = marker.build.as_deref().filter(|build| !build.is_empty()) else {
            let why = "this marker does not say which build delivers to its agent, so whether it is the installed one is not known";
            exam.find("unstamped-marker", Warning, &file, why);
            continue;
        };
        if !build_id::is_behind(build)? {
            continue;
        }
        if ours.is_ok_and(|kind| kind == TransportKind::TmuxPushRemote) {
            let why = "the pusher that delivers to this agent runs another build than the one installed here; restart it";
            exam.find("stale-pusher", Warning, &file, why);
        } else {
            let why =
                "the server that wrote this marker ran another build than the one installed here; restart it";
            exam.find("stale-server-marker", Warning, &file, why);
        }
    }
    Ok(())
}
