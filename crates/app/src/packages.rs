//! What was done about plugin packages, as the audit tells it. What is installed and decided lies in files of `plugin-host`; never decides itself.

use muster_core::Fault;
use muster_core::ids::OwnerId;
use serde_json::json;

use crate::App;
use crate::audit::{self, Event, Subject};

/// What was done.
#[derive(Debug, Clone)]
pub struct Done {
    /// `package.approve`, `package.reject`, `package.enable` or `package.disable` of a server or hook; `package.install`, `package.update` or
    /// `package.remove` of a package.
    pub event: &'static str,
    /// The server or hook, by its stable id, or the package, by its id.
    pub what: String,
    /// What it was at that moment.
    pub hash: Hash,
}

/// Which bytes it is about.
#[derive(Debug, Clone)]
pub enum Hash {
    /// The definition that was decided about.
    Definition(String),
    /// The stored copy of a package.
    Copy(String),
    /// The stored copy that stays where an update found errors; nothing of it starts any more.
    Invalid(String),
}

/// Writes the audit rows of what stands in the packages' own ledger already: all of them or none.
///
/// # Errors
/// A fault.
pub async fn record(app: &App, owner: OwnerId, done: Vec<Done>) -> Result<(), Fault> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                for one in done {
                    let event = Event {
                        name: one.event,
                        actor: "owner".into(),
                        subject: Subject::Package(one.what),
                        data: match one.hash {
                            Hash::Definition(hash) => json!({"definition_hash": hash}),
                            Hash::Copy(digest) => json!({"digest": digest}),
                            Hash::Invalid(digest) => json!({"digest": digest, "outcome": "invalid"}),
                        },
                    };
                    audit::record(tx, now, event).await?;
                }
                Ok(())
            })
        })
        .await
}
