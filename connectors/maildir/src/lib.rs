//! Connects one Maildir to muster: posts the mails that arrive, and sends the replies that the owner approved. Never decides what is answered, never removes a mail, never sends one reply twice.
//!
//! It is a program of its own that speaks muster's connector contract over HTTP and shares no code with the server, so
//! it can be read as an example; `docs/connectors.md` walks through it.
//!
//! Two loops run side by side. `inbound` posts each file of `new/` under an id that is made from its content, and
//! moves it to `cur/` when muster has it. `outbound` waits for approved replies, writes down the number of each
//! before anything leaves, hands it to an outbox Maildir or a sendmail program, and reports the outcome until muster has it.

mod ambient;
mod auth;
mod automatic;
mod error;
mod handover;
mod headers;
mod inbound;
pub mod mail;
mod options;
mod outbound;
mod pace;
mod parts;
mod people;
pub mod reply;
mod server;
mod state;
mod status;
mod text;

use std::path::Path;

use tokio::signal::unix::{SignalKind, signal};

pub use crate::error::ConnectorError;
pub use crate::options::{Options, TOKEN_VARIABLE};

use crate::inbound::Inbound;
use crate::options::{Settings, Way};
use crate::outbound::Outbound;
use crate::pace::{Stop, Stopper};
use crate::server::Server;
use crate::state::State;

/// What both loops work with.
pub(crate) struct Connector {
    settings: Settings,
    state: State,
    server: Server,
    /// When a mail was last posted, or the connector started: muster may still have some to hand to a chief that was busy.
    last_posted: std::sync::Mutex<tokio::time::Instant>,
}

impl Connector {
    fn note_posted(&self) {
        *self
            .last_posted
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = tokio::time::Instant::now();
    }

    fn since_posted(&self) -> std::time::Duration {
        self.last_posted
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .elapsed()
    }
}

/// Runs the connector until SIGTERM or SIGINT, or as long as `options` say (`once`, `status`, `dismiss`).
///
/// The calling program must have chosen a TLS library for rustls before, even when the server speaks plain http:
/// `rustls::crypto::ring::default_provider().install_default()`.
///
/// # Errors
/// When an option is wrong, another process has the state folder, the file system refuses, or muster turns the connector
/// away (401, 404). A server that is merely away is no error: mails and results wait until it is back.
pub async fn run(options: Options) -> Result<(), ConnectorError> {
    if let Some(draft_id) = options.dismiss {
        return status::dismiss(&options.state, draft_id);
    }
    if options.status {
        return status::show(&options.state);
    }
    let connector = connect(&options)?;
    let (stopper, stop) = pace::stop();
    let signals = tokio::spawn(listen(stopper.clone())?);
    tracing::info!("connected to the Maildir");
    let result = work(&connector, &stopper, &stop).await;
    signals.abort();
    result
}

fn connect(options: &Options) -> Result<Connector, ConnectorError> {
    let settings = Settings::check(options)?;
    let server = Server::new(&settings.url, &settings.token)?;
    let state = State::open(&options.state)?;
    if let Way::Outbox(outbox) = &settings.way {
        handover::prepare_outbox(outbox)?;
    }
    outbound::recover(&state)?;
    Ok(Connector {
        settings,
        state,
        server,
        last_posted: std::sync::Mutex::new(tokio::time::Instant::now()),
    })
}

async fn work(connector: &Connector, stopper: &Stopper, stop: &Stop) -> Result<(), ConnectorError> {
    let mut inbound = Inbound::new(connector, stop.clone());
    let mut outbound = Outbound::new(connector, stop.clone());
    if connector.settings.once {
        inbound.pass().await?;
        return outbound.pass().await;
    }
    // Each loop ends by itself when the other one has to: a reply that is being sent is finished and written down.
    let (posted, sent) = tokio::join!(
        async {
            let result = inbound.watch().await;
            stopper.stop();
            result
        },
        async {
            let result = outbound.watch().await;
            stopper.stop();
            result
        }
    );
    posted.and(sent)
}

/// Turns the first SIGTERM or SIGINT into a request to stop.
fn listen(stopper: Stopper) -> Result<impl Future<Output = ()>, ConnectorError> {
    let unavailable = |error: std::io::Error| ConnectorError::Start(format!("no signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(unavailable)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unavailable)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping");
        stopper.stop();
    })
}

/// Whether the folder has the three parts of a Maildir.
pub(crate) fn missing_part(maildir: &Path) -> Option<&'static str> {
    ["new", "cur", "tmp"]
        .into_iter()
        .find(|part| !maildir.join(part).is_dir())
}
