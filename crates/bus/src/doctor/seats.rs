//! Agents: ids that no file should bear, those who were silent for long, and files of nobody. Never removes a file: who comes back finds it.

use std::collections::BTreeMap;

use super::Severity::{self, Error, Info, Warning};
use super::{Exam, YOUNG};
use crate::cursor::Source;
use crate::error::BusError;
use crate::known::{Known, files, stem};
use crate::limits::EVICTED;
use crate::names::SeatId;
use crate::registry::Agents;
use crate::{last, read};

const ORPHAN_INBOX: &str = "orphan-inbox";

/// Ids that two agents' files would be shared by, and ids that are none.
pub(super) fn ids(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let agents = Agents::load(exam.home)?;
    let mut shared: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for id in agents.ids() {
        shared.entry(stem(id)).or_default().push(id);
        if SeatId::parse(id).is_err() {
            let why = "this id is registered and muster refuses it, so its agent can only be reached by other programs; it should register under another one";
            exam.find("agent-id", Warning, id, why);
        }
    }
    for (stem, ids) in shared.into_iter().filter(|(_, ids)| ids.len() > 1) {
        let why = format!(
            "other programs keep the messages of {} in this one inbox; all but one need another id",
            ids.join(" and ")
        );
        exam.find("agent-id", Error, &format!("inbox/{stem}.jsonl"), why);
    }
    Ok(())
}

pub(super) fn stale(exam: &mut Exam<'_>) -> Result<(), BusError> {
    for agent in Agents::load(exam.home)?.all() {
        let quiet = agent.quiet(exam.now);
        if quiet > EVICTED {
            let why = format!(
                "no heartbeat for {} hours; list_agents drops it from the registry, and its messages stay",
                quiet.as_secs() / 3600
            );
            exam.find("stale-agent", Warning, &agent.agent_id, why);
        }
    }
    Ok(())
}

/// Inboxes and cursors of nobody.
pub(super) fn orphans(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let known = Known::load(exam.home)?;
    for (folder, ending, check, what) in [
        (
            "inbox",
            ".jsonl",
            ORPHAN_INBOX,
            "messages wait here for an agent that is not registered; prune moves them to the archive once none of them is younger than its limit (7 days)",
        ),
        (
            "cursors",
            ".json",
            "orphan-cursor",
            "this says what an agent has read that is not registered; it stays for when it comes back",
        ),
    ] {
        for stem in files(exam.home, folder, ending)? {
            if !known.has(&stem) && !left(exam, &stem, check)? {
                let severity = severity(exam, &stem);
                exam.find(check, severity, &format!("{folder}/{stem}{ending}"), what);
            }
        }
    }
    Ok(())
}

/// Whether an id's last connection ended in order and left nothing unread: somebody who went home, and whose files wait for nobody.
fn left(exam: &Exam<'_>, stem: &str, check: &str) -> Result<bool, BusError> {
    let Ok(seat) = SeatId::parse(stem) else {
        return Ok(false);
    };
    let ended = last::of(exam.home, &seat).is_some_and(|last| last.ended_at.is_some());
    Ok(ended && (check != ORPHAN_INBOX || read::unread(exam.home, &seat, &Source::Inbox)? == 0))
}

/// An id whose files changed within the week belongs to somebody who may only be away: the registry forgets after a day.
pub(super) fn severity(exam: &Exam<'_>, id: &str) -> Severity {
    let stem = stem(id);
    let files = [format!("inbox/{stem}.jsonl"), format!("cursors/{stem}.json")];
    let young = files
        .iter()
        .filter_map(|file| exam.age(&exam.home.path(file)))
        .any(|age| age < YOUNG);
    if young { Info } else { Warning }
}
