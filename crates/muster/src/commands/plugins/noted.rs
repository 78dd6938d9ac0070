//! Audit rows of what the command line did about packages. Never undoes it: the packages' own ledger is what counts, and the only record where there is no owner.

use muster_app::accounts;
use muster_app::packages::{Done, record};
use muster_core::text::terminal;

use super::super::{app, base, connect};
use crate::config::Config;
use crate::output::{self, Failure};

/// Writes the rows into the audit of the first account, whose agents the packages are for. A database that is not there is not made.
pub(super) async fn note(config: &Config, done: Vec<Done>) {
    if config.database_file().is_some_and(|file| !file.exists()) {
        return;
    }
    if let Err(failure) = write(config, done).await {
        output::notice(&format!(
            "muster: it is done and stands in the packages' own ledger, but the audit has no row of it: {}",
            terminal(failure.sentence())
        ));
    }
}

async fn write(config: &Config, done: Vec<Done>) -> Result<(), Failure> {
    let db = connect(config).await?;
    let app = app(config, db, String::new(), base(config))?;
    let written = async {
        if let Some(owner) = accounts::first(&app).await? {
            record(&app, owner.id, done).await?;
        }
        Ok(())
    };
    let written = written.await;
    app.db.close().await;
    written
}
