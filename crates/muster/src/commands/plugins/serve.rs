//! `muster plugins serve`: one approved server on the standard streams, for one session of one agent's client. Never starts what is not approved as it is, and opens the database
//! only when somebody has to be asked.

use std::sync::Arc;

use futures::future::BoxFuture;
use muster_app::access::Asker;
use muster_app::{App, accounts};
use muster_core::Secret;
use muster_plugin_host::session::{
    Again, Approver, Ask, Options, Verdict, serve_until, standard_input, standard_output,
};
use muster_plugin_host::{Budgets, Kind, Launcher, ServerKey, Target};
use muster_web::packages::Queue;
use tokio::sync::OnceCell;
use tracing::Level;

use super::super::{app, base, bus, connect, owner, serve};
use crate::cli::{OwnerArg, ServePackage};
use crate::config::Config;
use crate::output::Failure;

/// What is told where the token in MUSTER_AGENT_TOKEN does not count.
const NO_TOKEN: &str = "This call has to be approved, and nobody was asked: what is in MUSTER_AGENT_TOKEN is no live agent token. It was revoked, or its task was closed; have the owner make another one.";
/// What the sessions of agents over HTTP are called by muster alone: the log must not take one for the other.
const OF_AGENTS: &str = "agent-";
/// The longest id of a session, in characters.
const LONGEST: usize = 128;

pub(super) async fn run(config: Config, args: ServePackage) -> Result<(), Failure> {
    bus::log(Level::WARN);
    let host = super::host(&config);
    let usage = "what is served is PLUGIN:SERVER; nothing was started";
    let key = match super::meant(&host, &args.server, usage)? {
        Target::One(id) if id.kind == Kind::McpServer => ServerKey::new(id.plugin, id.id),
        _ => return Err(Failure::usage(usage)),
    };
    let session = match args.session {
        Some(session) => checked(session)?,
        None => match std::env::var("MUSTER_SESSION_ID") {
            Ok(session) if !session.is_empty() => checked(session)?,
            _ => fresh()?,
        },
    };
    let ready = host.ready(&key).map_err(super::refused)?;
    let stop = serve::stop_signal()?;
    let late = Arc::new(Late {
        config,
        owner: args.owner,
        session: session.clone(),
        token: std::env::var("MUSTER_AGENT_TOKEN")
            .ok()
            .filter(|token| !token.is_empty())
            .map(Secret::new),
        app: OnceCell::new(),
    });
    let options = Options {
        session,
        dir: std::env::current_dir()?,
        launcher: Launcher::this_program().sole(),
        approver: late.clone(),
        budgets: Budgets::default(),
    };
    let stopped = async move { stop.cancelled().await };
    serve_until(ready, options, standard_input(), standard_output(), stopped).await;
    if let Some(app) = late.app.get() {
        // What was asked and not answered is given up before this process is gone.
        app.tasks.stop().await;
        app.db.close().await;
    }
    Ok(())
}

/// An id for a new session.
pub(in crate::commands) fn fresh() -> Result<String, Failure> {
    muster_core::secret::random_hex::<16>().map_err(|error| Failure::refused("randomness", error.to_string()))
}

fn checked(session: String) -> Result<String, Failure> {
    let fits = !session.is_empty()
        && session.chars().count() <= LONGEST
        && muster_core::text::terminal(&session) == session;
    if session.starts_with(OF_AGENTS) {
        return Err(Failure::usage(format!(
            "a session whose id begins with {OF_AGENTS} is that of an agent over HTTP, and this one is named otherwise, with --session or MUSTER_SESSION_ID; nothing was started"
        )));
    }
    if fits {
        Ok(session)
    } else {
        Err(Failure::usage(format!(
            "a session's id has 1 to {LONGEST} characters, all of which can be seen; nothing was started"
        )))
    }
}

/// Asks on the owner's queue. The database is opened at the first ask: most sessions have none.
struct Late {
    config: Config,
    owner: OwnerArg,
    session: String,
    token: Option<Secret>,
    app: OnceCell<App>,
}

impl Late {
    async fn queue(&self) -> Result<Option<Queue>, Failure> {
        let app = self
            .app
            .get_or_try_init(|| async {
                if self.config.database_file().is_some_and(|file| !file.exists()) {
                    return Err(Failure::refused(
                        "not_found",
                        "there is no database in the data folder, so there is nobody to ask; muster serve makes it",
                    ));
                }
                let db = connect(&self.config).await?;
                app(&self.config, db, String::new(), base(&self.config))
            })
            .await?;
        // Looked up at each ask: a token that was revoked meanwhile asks nobody.
        let asker = match &self.token {
            Some(token) => accounts::agent(app, token.expose()).await?.map(Asker::Agent),
            None => Some(Asker::Session {
                owner: owner(app, &self.owner).await?,
                session: self.session.clone(),
            }),
        };
        Ok(asker.map(|asker| Queue::new(app.clone(), asker)))
    }
}

impl Approver for Late {
    fn ask<'a>(&'a self, ask: Ask, again: Again<'a>) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match self.queue().await {
                Ok(Some(queue)) => queue.ask(ask, again).await,
                Ok(None) => {
                    tracing::warn!(
                        "MUSTER_AGENT_TOKEN is no live agent token, so a call was refused unasked"
                    );
                    Verdict::Withdrawn(Some(NO_TOKEN.to_owned()))
                }
                Err(failure) => {
                    tracing::warn!(
                        reason = failure.sentence(),
                        "a call was refused because nobody could be asked"
                    );
                    let why = failure.sentence();
                    Verdict::NobodyToAsk(Some(format!(
                        "This call has to be approved, and nobody could be asked: {why}."
                    )))
                }
            }
        })
    }
}
