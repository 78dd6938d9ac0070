//! Who held an id last, and whether that connection ended in order: so that an agent that restarts is not taken for a stranger. Private and never the only proof.

use serde::{Deserialize, Serialize};

use crate::error::BusError;
use crate::home::Home;
use crate::identity::Ask;
use crate::json::{self, Keep};
use crate::names::SeatId;
use crate::sessions;

/// One file for each id.
pub(crate) const FOLDER: &str = ".muster/last";

/// The last connection that was bound to an id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Last {
    /// Which connection.
    pub(crate) session: String,
    /// The machine it came from, under a token that all share.
    #[serde(default)]
    pub(crate) client: Option<String>,
    /// When it ended in order, in milliseconds. A process that was killed ends nothing.
    #[serde(default)]
    pub(crate) ended_at: Option<i64>,
}

fn file(seat: &SeatId) -> String {
    format!("{FOLDER}/{seat}.json")
}

/// What is known of the last connection. What cannot be read is not known.
pub(crate) fn of(home: &Home, seat: &SeatId) -> Option<Last> {
    json::read(home, &file(seat)).ok().flatten()
}

/// Notes that a connection holds an id now. The caller holds the identity lock.
pub(crate) fn began(home: &Home, seat: &SeatId, session: &str, client: Option<&str>) -> Result<(), BusError> {
    crate::home::make_folder(&home.path(FOLDER))?;
    let last = Last {
        session: session.to_owned(),
        client: client.map(str::to_owned),
        ended_at: None,
    };
    json::write(home, &file(seat), &last, Keep::Quickly)
}

/// Notes that a connection ended in order, unless another has held the id since.
pub(crate) fn ended(home: &Home, seat: &SeatId, session: &str) -> Result<(), BusError> {
    match of(home, seat) {
        Some(mut last) if last.session == session => {
            last.ended_at = Some(home.now());
            json::write(home, &file(seat), &last, Keep::Quickly)
        }
        _ => Ok(()),
    }
}

/// Whether a heartbeat of that moment is older than the end of the connection that gave it, with nobody else there since.
pub(crate) fn over(home: &Home, seat: &SeatId, heartbeat: i64) -> bool {
    of(home, seat).is_some_and(|last| last.ended_at.is_some_and(|ended| ended >= heartbeat))
}

/// Whether the same machine held the id last and no other connection holds it now.
pub(crate) fn returns(home: &Home, ask: &Ask<'_>, own: &str) -> bool {
    let same = |last: Last| ask.client.is_some() && last.client.as_deref() == ask.client;
    of(home, ask.seat).is_some_and(same)
        && sessions::live(home).is_ok_and(|live| {
            live.iter()
                .all(|(id, marker)| id == own || marker.agent_id != ask.seat.as_str())
        })
}
