//! Who is here: agents with their presence, channels with their members. Never says of anybody what their files do not.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;

use muster_bus::registry::Agents;
use muster_bus::rooms::{self, Rooms};
use muster_bus::transports::{self, Marker};
use muster_bus::{BusError, Home, RoomName, SeatId};

use super::Person;
use crate::completion::Names;
use crate::text::short;

/// Where it is noted how each push stands.
const DELIVERERS: &str = ".muster/deliverers";

/// How long a look holds while no file changes, in milliseconds: presence ends by time alone.
const HOLDS: i64 = 10_000;

/// What some files of the directory look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp(Vec<Option<(u64, u64, i64, i64)>>);

impl Stamp {
    pub(super) fn of(home: &Home, names: &[&str]) -> Self {
        let look = |name: &&str| {
            let meta = std::fs::metadata(home.root().join(name)).ok()?;
            Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
        };
        Self(names.iter().map(look).collect())
    }
}

/// An agent or a person, safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) id: String,
    pub(crate) online: bool,
    /// Why it does not answer.
    pub(crate) away: Option<String>,
    /// How its pane is reached, while it is.
    pub(crate) attached: Option<String>,
    /// Why nothing is typed into it now, in a word.
    pub(crate) held: Option<String>,
    pub(crate) role: Option<String>,
    /// Seconds since its last heartbeat.
    pub(crate) quiet: u64,
}

/// Who and what is here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Here {
    pub(crate) me: String,
    /// The channel in focus.
    pub(crate) room: String,
    /// Its topic.
    pub(crate) topic: Option<String>,
    /// How many others are in it.
    pub(crate) peers: usize,
    /// Everybody, by id.
    pub(crate) agents: Vec<Peer>,
    /// The channels that the person hears.
    pub(crate) joined: Vec<RoomName>,
    /// What Tab may write.
    pub(crate) names: Names,
}

impl Here {
    /// The prompt: who, where, among how many.
    pub(crate) fn prompt(&self) -> String {
        let peers = if self.peers == 1 { "peer" } else { "peers" };
        format!("{} #{} ({} {peers})>", self.me, self.room, self.peers)
    }
}

impl Person {
    /// Who is here, if it may have changed since it was asked last.
    ///
    /// # Errors
    /// [`BusError::Damaged`], a fault.
    pub(crate) fn here(&mut self) -> Result<Option<Here>, BusError> {
        let stamp = Stamp::of(
            &self.home,
            &["agents.json", "rooms.json", "transports", DELIVERERS],
        );
        let now = self.now();
        if self
            .here
            .as_ref()
            .is_some_and(|(seen, at)| *seen == stamp && (0..HOLDS).contains(&now.saturating_sub(*at)))
        {
            return Ok(None);
        }
        let found = self.look_around()?;
        self.here = Some((stamp, now));
        Ok(Some(found))
    }

    /// The next [`Person::here`] answers, whatever the files look like.
    pub(super) fn stale(&mut self) {
        self.here = None;
    }

    fn look_around(&self) -> Result<Here, BusError> {
        let (agents, rooms) = (Agents::load(&self.home)?, Rooms::load(&self.home)?);
        let entry = rooms.get(&self.room);
        let members = rooms::members(&self.room, entry.as_ref(), &agents);
        let me = self.seat.as_str();
        let mut names: Vec<String> = rooms
            .names()
            .iter()
            .map(|room| room.as_str().to_owned())
            .collect();
        names.push(RoomName::GENERAL.to_owned());
        names.sort();
        names.dedup();
        let agents = self.peers(&agents)?;
        Ok(Here {
            me: me.to_owned(),
            room: self.room.as_str().to_owned(),
            topic: entry.and_then(|entry| entry.topic).map(|topic| short(&topic)),
            peers: members.iter().filter(|member| *member != me).count(),
            names: Names {
                agents: agents
                    .iter()
                    .map(|peer| peer.id.clone())
                    .filter(|id| id != me)
                    .collect(),
                rooms: names,
            },
            agents,
            joined: super::heard(&self.home, &self.seat, &self.room)?,
        })
    }

    /// Everybody who is registered.
    pub(super) fn peers(&self, agents: &Agents) -> Result<Vec<Peer>, BusError> {
        let now = self.now();
        let mut markers: HashMap<String, Marker> = HashMap::new();
        for found in transports::all(&self.home)? {
            // A damaged marker reaches nobody; the doctor tells of it.
            if let Ok(marker) = found.marker {
                markers.insert(found.id, marker);
            }
        }
        Ok(agents
            .all()
            .into_iter()
            .map(|agent| {
                let marker = markers
                    .get(&agent.agent_id)
                    .filter(|marker| transports::alive(marker, Some(&agent), now));
                let held = marker
                    .and_then(|_| SeatId::parse(&agent.agent_id).ok())
                    .and_then(|seat| self.held(&seat));
                Peer {
                    held: held.map(|held| short(held.split(':').next().unwrap_or_default())),
                    online: agent.online(now) || marker.is_some(),
                    quiet: agent.quiet(now).as_secs(),
                    attached: marker.map(|marker| {
                        let pane = marker.pane().map(|pane| format!(" {pane}")).unwrap_or_default();
                        short(&format!("{}{pane}", marker.transport))
                    }),
                    id: short(&agent.agent_id),
                    away: agent.away.as_deref().map(short),
                    role: agent.role.as_deref().map(short),
                }
            })
            .collect())
    }
}
