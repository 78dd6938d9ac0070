//! `muster mcp`: MCP server `muster` on the standard streams, for one agent's client. Never takes its token from the command line, where others of this machine could read it.

use std::sync::Arc;

use muster_core::Secret;
use muster_web::mcp_agent::{Open, Server, Session};
use tracing::Level;

use super::{app, base, bus, connect, serve, serving};
use crate::config::Config;
use crate::output::Failure;

/// Runs one session.
pub(super) async fn run(config: Config) -> Result<(), Failure> {
    bus::log(Level::WARN);
    let token = std::env::var("MUSTER_AGENT_TOKEN")
        .ok()
        .filter(|token| !token.is_empty())
        .map(Secret::new)
        .ok_or_else(|| {
            Failure::refused(
                "unauthorized",
                "set MUSTER_AGENT_TOKEN to an agent's token; `muster token create --kind agent --task TASK` makes one. Nothing was started",
            )
        })?;
    let stop = serve::stop_signal()?;
    let url = config.text("MUSTER_URL").map(str::to_owned);
    let data_dir = config.data_dir.clone();
    let config = Arc::new(config);
    let open: Open = Box::new(move || {
        let config = config.clone();
        Box::pin(async move {
            open_here(&config)
                .await
                .map_err(|failure| failure.sentence().to_owned())
        })
    });
    let server = url.map(|url| {
        let own: Box<dyn Fn() -> Option<String> + Send + Sync> = {
            let url = url.clone();
            Box::new(move || serving::found(&data_dir, &url))
        };
        Server { url, own }
    });
    let session =
        Session::new(token, server, open).map_err(|sentence| Failure::refused("bad_setting", sentence))?;
    tokio::select! {
        begun = session.begin() => begun.map_err(|sentence| Failure::refused("unauthorized", sentence))?,
        () = stop.cancelled() => return Ok(()),
    }
    session
        .serve(stop)
        .await
        .map_err(|sentence| Failure::refused("protocol", sentence))
}

/// The app on the database, if there is one: a session makes none, since no token could count in it.
async fn open_here(config: &Config) -> Result<muster_app::App, Failure> {
    if config.database_file().is_some_and(|file| !file.exists()) {
        return Err(Failure::refused(
            "not_found",
            "there is no muster on this machine: neither a server at MUSTER_URL nor a database in the data folder. `muster serve` begins one. Nothing was started",
        ));
    }
    let db = connect(config).await?;
    app(config, db, String::new(), base(config))
}
