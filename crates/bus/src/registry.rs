//! Who is here: `agents.json`. Never forgets an entry because its file could not be read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::BusError;
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::limits::{EVICTED, ONLINE};
use crate::lock;
use crate::message;
use crate::names::SeatId;

/// The file.
pub(crate) const FILE: &str = "agents.json";

/// One agent or person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its id.
    pub agent_id: String,
    /// What it works on, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What it does, in its own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub registered_at: i64,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub last_heartbeat: i64,
    /// Why it does not answer, while it is away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<String>,
    /// What other programs keep here.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Agent {
    /// Whether its last heartbeat is recent, at `now` milliseconds.
    pub fn online(&self, now: i64) -> bool {
        self.quiet(now) < ONLINE
    }

    /// How long ago its last heartbeat was.
    pub fn quiet(&self, now: i64) -> Duration {
        Duration::from_millis(u64::try_from(now.saturating_sub(self.last_heartbeat)).unwrap_or(0))
    }
}

/// All agents by id. An entry whose shape is strange is kept as it is and shown to nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Agents {
    entries: BTreeMap<String, Value>,
}

impl Agents {
    /// Reads the registry.
    ///
    /// # Errors
    /// [`BusError::Damaged`], a fault.
    pub fn load(home: &Home) -> Result<Self, BusError> {
        Ok(json::read(home, FILE)?.unwrap_or_default())
    }

    /// The registry, read again only when its file is another than the last time: for what every message asks.
    ///
    /// # Errors
    /// As [`Agents::load`].
    pub(crate) fn seen(home: &Home) -> Result<Arc<Self>, BusError> {
        home.agents().get(&home.path(FILE), || Self::load(home))
    }

    /// One agent.
    pub fn get(&self, seat: &SeatId) -> Option<Agent> {
        serde_json::from_value(self.entries.get(seat.as_str())?.clone()).ok()
    }

    /// All of them, by id.
    pub fn all(&self) -> Vec<Agent> {
        self.entries
            .values()
            .filter_map(|entry| serde_json::from_value(entry.clone()).ok())
            .collect()
    }

    /// Whether an id has an entry, whatever its shape.
    pub fn has(&self, id: &str) -> bool {
        self.entries.contains_key(id)
    }

    /// Every id that has an entry, as it stands there.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    pub(crate) fn put(&mut self, agent: &Agent) -> Result<(), BusError> {
        let value = serde_json::to_value(agent).map_err(|error| {
            muster_core::Fault::other("an entry could not be written as JSON").because(error)
        })?;
        self.entries.insert(agent.agent_id.clone(), value);
        Ok(())
    }

    pub(crate) fn take(&mut self, id: &str) -> Option<Value> {
        self.entries.remove(id)
    }
}

/// Changes the registry under its lock. Nothing is written when `change` answers an error or changes nothing.
///
/// # Errors
/// What `change` answers; [`BusError::Damaged`], a fault.
pub(crate) fn change<T>(
    home: &Home,
    change: impl FnOnce(&mut Agents) -> Result<T, BusError>,
) -> Result<T, BusError> {
    let _held = lock::lock(home, FILE)?;
    let before = Agents::load(home)?;
    let mut agents = before.clone();
    let answer = change(&mut agents)?;
    if agents != before {
        json::write(home, FILE, &agents, Keep::Durably)?;
    }
    Ok(answer)
}

/// Registers an agent, or refreshes its entry: what is not given stays as it was.
///
/// # Errors
/// A project or role that is empty or too long; [`BusError::Damaged`], a fault.
pub fn register(
    home: &Home,
    seat: &SeatId,
    project: Option<&str>,
    role: Option<&str>,
) -> Result<Agent, BusError> {
    for (field, text) in [("project", project), ("role", role)] {
        text.map_or(Ok(()), |text| message::short(field, text))?;
    }
    // Before anybody can write to them: a program that believes a file absent would empty it.
    home.create_early(&home::inbox(seat), "")?;
    home.create_early(&home::cursor(seat), "{}")?;
    let now = home.now();
    change(home, |agents| {
        let mut agent = agents.get(seat).unwrap_or_else(|| Agent {
            agent_id: seat.as_str().to_owned(),
            project: None,
            role: None,
            registered_at: now,
            last_heartbeat: now,
            away: None,
            more: Map::new(),
        });
        agent.last_heartbeat = now;
        agent.project = project.map(str::to_owned).or(agent.project);
        agent.role = role.map(str::to_owned).or(agent.role);
        agents.put(&agent)?;
        Ok(agent)
    })
}

/// Drops an agent's entry. Its messages stay. Answers whether there was one.
///
/// # Errors
/// [`BusError::Damaged`], a fault.
pub fn unregister(home: &Home, seat: &SeatId) -> Result<bool, BusError> {
    change(home, |agents| Ok(agents.take(seat.as_str()).is_some()))
}

/// Notes that an agent is there.
///
/// # Errors
/// [`BusError::NotRegistered`], [`BusError::Damaged`], a fault.
pub fn heartbeat(home: &Home, seat: &SeatId) -> Result<(), BusError> {
    let now = home.now();
    change(home, |agents| {
        let mut agent = agents
            .get(seat)
            .ok_or_else(|| BusError::NotRegistered(seat.clone()))?;
        agent.last_heartbeat = now;
        agents.put(&agent)
    })
}

/// Sets or clears the word that an agent is away.
///
/// # Errors
/// [`BusError::NotRegistered`], a text that is too long, [`BusError::Damaged`], a fault.
pub fn away(home: &Home, seat: &SeatId, why: Option<&str>) -> Result<(), BusError> {
    why.map_or(Ok(()), |why| message::short("message", why))?;
    change(home, |agents| {
        let mut agent = agents
            .get(seat)
            .ok_or_else(|| BusError::NotRegistered(seat.clone()))?;
        agent.away = why.map(str::to_owned);
        agents.put(&agent)
    })
}

/// Refreshes those who are proven to be there, drops those who were silent for a day, and answers the rest and the ids that went.
///
/// # Errors
/// [`BusError::Damaged`], a fault.
pub(crate) fn sweep(home: &Home, proven: &[SeatId]) -> Result<(Agents, Vec<String>), BusError> {
    let now = home.now();
    let refresh = Duration::from_secs(60);
    change(home, |agents| {
        for seat in proven {
            if let Some(mut agent) = agents.get(seat)
                && agent.quiet(now) >= refresh
            {
                agent.last_heartbeat = now;
                agents.put(&agent)?;
            }
        }
        let gone: Vec<String> = agents
            .all()
            .into_iter()
            .filter(|agent| agent.quiet(now) > EVICTED)
            .map(|agent| agent.agent_id)
            .collect();
        for id in &gone {
            agents.take(id);
        }
        Ok((agents.clone(), gone))
    })
}
