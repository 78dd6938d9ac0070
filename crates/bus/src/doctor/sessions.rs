//! Bus connections: two of one agent, those that a killed process left behind, and servers that still run what was replaced. Never removes the marker of a process that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::Severity::{Info, Warning};
use super::{Exam, Fix};
use crate::error::{BusError, failed};
use crate::home::Home;
use crate::sessions::{self, FOLDER, Link, SessionMarker};
use crate::transports;
use crate::{build_id, json, lock};

pub(super) fn leftovers(exam: &mut Exam<'_>) -> Result<(), BusError> {
    for (id, marker) in sessions::leftovers(exam.home)? {
        let file = format!("{FOLDER}/{id}.json");
        let why = format!(
            "process {}, which served this connection of '{}', has ended without saying so",
            marker.pid, marker.agent_id
        );
        exam.fixable("session-leftover", Info, &file, why, |home| remove(home, &file));
    }
    Ok(())
}

/// Removes a marker under the lock of them all, unless its process runs after all.
fn remove(home: &Home, file: &str) -> Result<Fix, BusError> {
    let _held = lock::lock(home, FOLDER)?;
    match json::read::<SessionMarker>(home, file)? {
        None => Ok(Fix::NotNeeded),
        Some(marker) if marker.alive() => Ok(Fix::Left("its process runs")),
        Some(_) => {
            let path = home.path(file);
            fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
            Ok(Fix::Done)
        }
    }
}

/// The readable markers whose process runs; those that cannot be read are told of by the check of damaged files.
fn live(home: &Home) -> Result<Vec<(String, SessionMarker)>, BusError> {
    let readable = |found: sessions::Found| Some((found.id, found.marker.ok()?));
    let mut live: Vec<(String, SessionMarker)> =
        sessions::all(home)?.into_iter().filter_map(readable).collect();
    live.retain(|(_, marker)| marker.alive());
    Ok(live)
}

pub(super) fn duplicates(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let mut by_seat: BTreeMap<String, Vec<(String, SessionMarker)>> = BTreeMap::new();
    // A pusher beside an agent takes nothing from it.
    for (id, marker) in live(exam.home)?.into_iter().filter(|(_, marker)| !marker.pusher) {
        by_seat
            .entry(marker.agent_id.clone())
            .or_default()
            .push((id, marker));
    }
    for (seat, sessions) in by_seat.into_iter().filter(|(_, sessions)| sessions.len() > 1) {
        let pids: BTreeSet<u32> = sessions.iter().map(|(_, marker)| marker.pid).collect();
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let forced = if sessions.iter().any(|(_, marker)| marker.forced) {
            ", one of them by force"
        } else {
            ""
        };
        let over_http = sessions
            .iter()
            .any(|(_, marker)| marker.transport == Link::Http.as_str());
        let end = if over_http {
            "End all but one: those of clients that are gone end by themselves within an hour, or restart the daemon"
        } else {
            "End all but one"
        };
        let why = format!(
            "{} live connections act as this agent{forced} (served by process {}); they share one cursor, so each sees a part of the messages. {end}",
            sessions.len(),
            pids.join(" and ")
        );
        exam.find("duplicate-session-binding", Warning, &seat, why);
    }
    Ok(())
}

/// Servers whose program was replaced while they run: merging is not deploying.
pub(super) fn stale_servers(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let mut servers: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for (_, marker) in live(exam.home)? {
        servers.entry(marker.pid).or_default().insert(marker.agent_id);
    }
    let mut markers: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for found in transports::all(exam.home)? {
        if let Ok(marker) = found.marker
            && marker.pid > 0
            && sessions::running(marker.pid, marker.pid_start)
        {
            servers.entry(marker.pid).or_default().insert(marker.agent_id);
            markers.entry(marker.pid).or_default().push(found.id);
        }
    }
    if build_id::running_is_behind()? {
        let mine = std::process::id();
        servers.entry(mine).or_default();
    }
    for (pid, seats) in servers {
        let subject = format!("process {pid}");
        let stale = if pid == std::process::id() {
            build_id::running_is_behind().ok()
        } else {
            replaced(pid)
        };
        let seats = seats.into_iter().collect::<Vec<_>>().join(", ");
        match stale {
            Some(true) => {
                let serves = if seats.is_empty() {
                    String::new()
                } else {
                    format!(" and serves {seats}")
                };
                let why = format!(
                    "it runs a build that has been replaced on the disk{serves}; restart it, since installing is not restarting"
                );
                exam.find("stale-server", Warning, &subject, why);
                for id in markers.remove(&pid).unwrap_or_default() {
                    let file = format!("{}/{id}.json", transports::FOLDER);
                    let why = format!(
                        "process {pid}, which wrote this marker, runs a build that has been replaced on the disk; restart it"
                    );
                    exam.find("stale-server-marker", Warning, &file, why);
                }
            }
            Some(false) => {}
            None => {
                let why = format!("which build it runs for {seats} cannot be told from this user");
                exam.find("stale-server", Info, &subject, why);
            }
        }
    }
    Ok(())
}

/// Whether the file a process was started from is no longer what stands under its name. `None` when the system does not say.
fn replaced(pid: u32) -> Option<bool> {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(exe.to_string_lossy().ends_with(" (deleted)"))
}
