//! What muster does, one folder per capability, whoever asks through whatever door. Never knows HTTP, HTML or MCP.
//!
//! Slices and what each may call: `audit` and `notices` call nobody; `accounts` and `plugins` call `audit`;
//! `drafts` calls `accounts`, `audit`, `chief`, `notices`, `plugins`; `chief` calls `audit`, `plugins`, `messages`; `messages` calls `audit`, `plugins`.
//! `packages` calls `audit`; `resources` calls nobody; `settings` calls `audit`; `policies` calls `audit`, `resources`; `access` calls `accounts`, `audit`, `policies`, `resources`, `settings`.
//! `seal` calls nobody; `hosts` calls `audit`; `integrations` and `databases` call `audit`, `seal`; `projects` calls `audit`, `integrations`;
//! `tasks` calls `audit`, `projects`.
//! A slice calls another's operations and names its types, never its statements or its state rules.

pub mod access;
pub mod accounts;
pub mod audit;
pub mod background;
pub mod chief;
pub mod databases;
pub mod drafts;
pub mod hosts;
pub mod integrations;
pub mod messages;
mod named;
pub mod notices;
pub mod packages;
pub mod plugins;
pub mod policies;
pub mod projects;
pub mod resources;
pub mod seal;
pub mod settings;
pub mod tasks;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use muster_core::Clock;
use muster_core::screen::DenyWords;
use muster_store::{Db, Sql};

pub use muster_store::Topic;
pub use named::Named;

/// Acts of one owner on what grants name take turns under this word, so that what one looks up stays true until it is stored.
pub(crate) const RESOURCES: &str = "resources";

/// What the owner of the server chose, parsed once at the start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whether connectors and `/plugins` are open (`MUSTER_PLUGINS=1`).
    pub plugins: bool,
    /// How old a sign-in may be for an approval (`MUSTER_STEPUP_WINDOW`).
    pub stepup_window: Duration,
    /// The deployment's own names that no reply may hold (`MUSTER_FLOW_AGENT_DENY_WORDS`).
    pub deny_words: DenyWords,
    /// Where the chief's agent token is good for: the address of the `/mcp` door.
    pub mcp_url: String,
    /// The data folder: working folders of chiefs and lock files lie below it.
    pub data_dir: PathBuf,
    /// What a command that a page shows needs beside its words to work on this data, such as `--data-dir /srv/muster`. Empty where that is usual.
    pub command_needs: String,
    /// How long a chief's turn may take before it is ended as broken off (`MUSTER_CHIEF_WATCHDOG`).
    pub turn_watchdog: Duration,
    /// Where passkeys belong: the public origin, such as `https://muster.example` (WebAuthn's relying party).
    pub public_url: String,
}

/// Everything the doors share. Cloning shares it.
#[derive(Clone)]
pub struct App {
    /// The database.
    pub db: Db,
    /// The clock.
    pub clock: Clock,
    /// The owner's choices.
    pub settings: Arc<Settings>,
    /// Passkeys, when the public address allows them.
    pub passkeys: Option<Arc<accounts::Passkeys>>,
    pub(crate) chiefs: chief::Chiefs,
    pub(crate) known_plugins: plugins::Known,
    pub(crate) password_gate: Arc<tokio::sync::Semaphore>,
    pub(crate) failed: Arc<accounts::Failed>,
    pub(crate) refusals: drafts::Refusals,
    pub(crate) process: access::Process,
    /// Work that outlives a request: deliveries and sweeps.
    pub tasks: background::Tasks,
}

impl App {
    /// An app on an open database.
    pub fn new(db: Db, clock: Clock, settings: Settings) -> Self {
        let passkeys = accounts::Passkeys::of(&settings.public_url).map(Arc::new);
        let tasks = background::Tasks::default();
        Self {
            db,
            clock,
            passkeys,
            chiefs: chief::Chiefs::default(),
            known_plugins: plugins::Known::default(),
            refusals: drafts::Refusals::default(),
            process: access::Process::default(),
            // Argon2id takes 19 MiB a time; two at once keep a burst of sign-ins from taking the machine.
            password_gate: Arc::new(tokio::sync::Semaphore::new(2)),
            failed: Arc::default(),
            settings: Arc::new(settings),
            tasks,
        }
    }

    /// The same app with chiefs made by `make`.
    #[must_use]
    pub fn with_runtimes(mut self, make: chief::MakeRuntime) -> Self {
        self.chiefs = chief::Chiefs::made_by(make);
        self
    }
}

/// Every statement muster runs on its own database, by slice: what the catalogue and leak tests walk.
pub fn statements() -> Vec<(&'static str, &'static [&'static Sql])> {
    vec![
        ("access", access::STATEMENTS),
        ("accounts", accounts::STATEMENTS),
        ("audit", audit::STATEMENTS),
        ("notices", notices::STATEMENTS),
        ("plugins", plugins::STATEMENTS),
        ("messages", messages::STATEMENTS),
        ("chief", chief::STATEMENTS),
        ("drafts", drafts::STATEMENTS),
        ("policies", policies::STATEMENTS),
        ("resources", resources::STATEMENTS),
        ("settings", settings::STATEMENTS),
        ("seal", seal::STATEMENTS),
        ("integrations", integrations::STATEMENTS),
        ("projects", projects::STATEMENTS),
        ("tasks", tasks::STATEMENTS),
        ("hosts", hosts::STATEMENTS),
        ("databases", databases::STATEMENTS),
    ]
}
