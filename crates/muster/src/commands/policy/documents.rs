//! Documents of policies: read within bounds from a file or standard input, and taken in. Never takes in half of one.

use std::io::Read as _;

use muster_app::App;
use muster_app::policies::{self, Exported, PolicyError, WhenThere};
use muster_core::text::terminal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{refused, said};
use crate::cli::OwnerArg;
use crate::commands::owner;
use crate::output::Failure;

/// Most bytes of a document that is read.
const DOCUMENT: u64 = 64 * 1024 * 1024;

/// A whole document from a file or standard input, bounded.
pub(in crate::commands) fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let mut bounded: Box<dyn std::io::Read> = if file == "-" {
        Box::new(std::io::stdin().lock().take(DOCUMENT + 1))
    } else {
        let opened = std::fs::File::open(file)
            .map_err(|error| Failure::refused("io", format!("{} cannot be read: {error}", terminal(file))))?;
        Box::new(opened.take(DOCUMENT + 1))
    };
    bounded
        .read_to_string(&mut text)
        .map_err(|error| Failure::refused("io", format!("{} cannot be read: {error}", terminal(file))))?;
    if text.len() as u64 > DOCUMENT {
        return Err(Failure::refused(
            "too_long",
            "the document is longer than 64 MiB; nothing was read",
        ));
    }
    Ok(text)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    policies: Vec<Exported>,
}

fn broken(error: &serde_json::Error) -> String {
    format!(
        "the document cannot be read as exported policies: {}",
        terminal(&error.to_string())
    )
}

/// One policy, alone or as the only one of a document, for a simulation.
pub(super) fn one_exported(text: &str) -> Result<Exported, Failure> {
    let unfit = |what: String| Failure::refused("bad_document", format!("{what}; nothing was replayed"));
    let unread = |error: serde_json::Error| unfit(broken(&error));
    let value: Value = serde_json::from_str(text).map_err(unread)?;
    if value.get("policies").is_none() {
        return serde_json::from_value(value).map_err(unread);
    }
    let document: Document = serde_json::from_value(value).map_err(unread)?;
    let mut policies = document.policies.into_iter();
    match (policies.next(), policies.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(unfit("the document holds other than one policy".to_owned())),
    }
}

pub(super) async fn import(
    app: &App,
    whose: &OwnerArg,
    file: &str,
    there: WhenThere,
    revision: Option<i64>,
    json: bool,
) -> Result<(), Failure> {
    let document: Document =
        serde_json::from_str(&read(file)?).map_err(|error| refused(PolicyError::Import(broken(&error))))?;
    let owner = owner(app, whose).await?;
    let found = policies::import_at(app, owner, document.policies, there, revision)
        .await
        .map_err(refused)?;
    let all: Vec<Value> = found
        .iter()
        .map(|one| json!({"id": one.id.to_string(), "name": one.name, "revision": one.revision}))
        .collect();
    said(json, || json!({"policies": all}))
}
