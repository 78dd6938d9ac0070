//! Decisions about plugin packages, as the audit tells them. What is installed and decided lies in files of `plugin-host`; never decides itself.

use muster_core::Fault;
use muster_core::ids::OwnerId;
use serde_json::json;

use crate::App;
use crate::audit::{self, Event, Subject};

/// A decision that was made.
#[derive(Debug, Clone)]
pub struct Decided {
    /// `package.approve`, `package.reject`, `package.enable` or `package.disable`.
    pub event: &'static str,
    /// The server or hook, by its stable id.
    pub what: String,
    /// The definition that it is about.
    pub hash: String,
}

/// Writes the audit row of a decision that stands in the packages' own ledger already.
///
/// # Errors
/// A fault.
pub async fn decided(app: &App, owner: OwnerId, decided: Decided) -> Result<(), Fault> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let event = Event {
                    name: decided.event,
                    actor: "owner".into(),
                    subject: Subject::Package(decided.what),
                    data: json!({"definition_hash": decided.hash}),
                };
                audit::record(tx, now, event).await
            })
        })
        .await
}
