//! `muster db classify`: what a statement would need. Never connects, and never opens muster's own database.

use muster_core::text::terminal;
use muster_db_gateway::{Engine, UnknownEngine};
use serde_json::Value;

use super::super::policy;
use crate::output::{self, Failure};

/// One verdict for a statement, or a line for each line of a file.
pub(in crate::commands) fn classify(
    engine: &str,
    statement: Option<&str>,
    from: Option<&str>,
    json: bool,
) -> Result<(), Failure> {
    let engine: Engine = engine
        .parse()
        .map_err(|error: UnknownEngine| Failure::usage(error.to_string()))?;
    if let Some(file) = from {
        return lines(engine, file);
    }
    let verdict = muster_db_gateway::classify(engine, statement.unwrap_or_default());
    if json {
        return output::document(&serde_json::to_value(&verdict).unwrap_or(Value::Null));
    }
    output::line(&format!("{}: {}", verdict.class, terminal(&verdict.reason)))
}

fn lines(engine: Engine, file: &str) -> Result<(), Failure> {
    let text = policy::read(file)?;
    let mut statements: Vec<String> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let statement = serde_json::from_str(line).map_err(|error| {
            let what = terminal(&error.to_string());
            Failure::refused(
                "bad_statement",
                format!(
                    "line {} is no JSON string: {what}; nothing was answered",
                    number + 1
                ),
            )
        })?;
        statements.push(statement);
    }
    let mut out = String::new();
    for statement in statements {
        let verdict = muster_db_gateway::classify(engine, &statement);
        let line =
            serde_json::to_string(&verdict).map_err(|error| Failure::refused("io", error.to_string()))?;
        out.push_str(&line);
        out.push('\n');
    }
    output::bytes(out.as_bytes())
}
