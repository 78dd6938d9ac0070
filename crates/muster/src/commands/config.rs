//! `muster config show`. Never shows a secret.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::serve;
use crate::config::{Config, Takes, VARIABLES, Variable};
use crate::output::{self, Failure};

pub(super) fn show(config: &Config, json: bool) -> Result<(), Failure> {
    let from = |variable: &Variable| config.origin(variable.name).map_or("default", |(_, from)| from);
    if json {
        let all: Vec<Value> = VARIABLES
            .iter()
            .map(|v| {
                json!({"name": v.name, "value": value(config, v), "default": v.default.plain(), "from": from(v), "description": v.meaning})
            })
            .collect();
        return output::document(&Value::Array(all));
    }
    let rows: Vec<Vec<String>> = VARIABLES
        .iter()
        .map(|v| vec![v.name.to_owned(), words(config, v), from(v).to_owned()])
        .collect();
    output::table(&["SETTING", "VALUE", "FROM"], &rows)
}

/// What is in force, a secret that somebody set only as that. muster's own default of a secret setting is none.
fn shown(config: &Config, variable: &Variable) -> Option<String> {
    if variable.secret && config.origin(variable.name).is_some() {
        return Some("(set)".to_owned());
    }
    config.in_force(variable).or_else(|| {
        let listen = config.text("MUSTER_LISTEN").unwrap_or("127.0.0.1:7447");
        let address: SocketAddr = listen.parse().ok()?;
        // Which port 0 becomes, only the server that listens knows.
        (variable.name == "MUSTER_PUBLIC_URL" && address.port() != 0).then(|| {
            serve::listener_origin(address, config.on("MUSTER_INSECURE"))
                .base()
                .to_owned()
        })
    })
}

/// For a script: a switch as true or false, a number as one, what nothing is in force for as null.
fn value(config: &Config, variable: &Variable) -> Value {
    let Some(text) = shown(config, variable) else {
        return Value::Null;
    };
    match variable.takes {
        Takes::Switch => json!(text == "1"),
        Takes::Number => text
            .parse::<i64>()
            .map_or_else(|_| json!(text), |number| json!(number)),
        Takes::Text => json!(text),
    }
}

/// For a person.
fn words(config: &Config, variable: &Variable) -> String {
    match shown(config, variable) {
        Some(text) if variable.takes == Takes::Switch => if text == "1" { "on" } else { "off" }.to_owned(),
        Some(text) => text,
        None => variable.default.plain(),
    }
}
