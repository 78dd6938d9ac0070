//! `muster bus check`: whether this machine's transport runs and every attached seat uses it, for a script. Never changes anything.

use std::path::Path;

use muster_bus::BusError;
use muster_bus::identity::Session;
use muster_bus::sessions::Link;
use muster_bus::tools::{Called, Caller};
use muster_bus::transports::{self, Panes};
use muster_core::text::terminal;
use serde_json::{Map, Value};

use super::pusher::from_environment;
use super::{open, refused, serve};
use crate::output::{self, Failure};

pub(super) fn run(dir: Option<&Path>, json: bool) -> Result<(), Failure> {
    let folder = super::folder(dir)?;
    if !muster_bus::home::is_bus(&folder) {
        return Err(refused(BusError::NoBus(folder)));
    }
    let home = open(Some(&folder))?;
    let chosen = transports::configured(&home, from_environment)
        .map_err(|error| Failure::refused("transport", error.to_string()))?;
    let tools = serve::tools(home, chosen, Panes::default())?;
    let session = Session::new(tools.home(), Link::Stdio, Panes::default()).map_err(refused)?;
    let called = tools.call(&session, &Caller::default(), "capabilities", Map::new(), &|| true);
    session.end().map_err(refused)?;
    let Called::Done(answer) = called else {
        return Err(Failure::refused("fault", "the bus did not say what it can do"));
    };
    let Some(transport) = answer.body.get("transport").and_then(Value::as_object) else {
        let why = answer
            .body
            .get("error")
            .and_then(Value::as_str)
            .unwrap_or_default();
        return Err(Failure::refused("fault", terminal(why)));
    };
    let disagreeing: Vec<&str> = transport
        .get("disagreeingAgents")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let agrees = transport.get("agrees") == Some(&Value::Bool(true));
    if json {
        output::document(&Value::Object(transport.clone()))?;
    } else {
        say(transport, agrees, &disagreeing)?;
    }
    if agrees && disagreeing.is_empty() {
        Ok(())
    } else {
        Err(Failure::silent())
    }
}

fn say(transport: &Map<String, Value>, agrees: bool, disagreeing: &[&str]) -> Result<(), Failure> {
    let word = |name: &str| transport.get(name).and_then(Value::as_str);
    output::line(&format!(
        "configured {} ({}), running {}: {}",
        word("configured").unwrap_or("nothing"),
        word("configuredSource").unwrap_or("nowhere"),
        word("running").unwrap_or("nothing"),
        if agrees { "agrees" } else { "does not agree" },
    ))?;
    let reason = transport
        .get("evidence")
        .and_then(|evidence| evidence.get("reason")?.as_str());
    if let Some(reason) = reason {
        output::line(&format!("because {}", terminal(reason)))?;
    }
    for agent in disagreeing {
        output::line(&format!("disagrees: {}", terminal(agent)))?;
    }
    Ok(())
}
