//! An app on a fresh database with an owner, a chief that is scripted and a clock that is moved. Never listens anywhere.

use std::sync::Arc;
use std::time::Duration;

use muster_app::accounts::{self, OwnerName, Password};
use muster_app::messages::{self, Accepted, NewMessage};
use muster_app::plugins::{self, NewPlugin, PluginCaller};
use muster_app::{App, Settings, chief as chiefs};
use muster_core::clock::{Clock, Time};
use muster_core::ids::{ChiefId, OwnerId};
use muster_core::screen::DenyWords;
use muster_core::text::{DataScope, ExternalId, Label, MessageBody, Sender, Slug};
use muster_runtime::Kind;
use muster_store::{Db, Engine};

use crate::ScriptedChief;

/// The password of every owner made here.
pub const PASSWORD: &str = "correct horse battery";

/// An app on a fresh database, with one owner.
pub struct TestMuster {
    /// The app.
    pub app: App,
    /// Which engine it runs on.
    pub engine: Engine,
    /// The clock, which stands still until it is moved.
    pub clock: Clock,
    /// The first owner.
    pub owner: OwnerId,
    /// What the chief does and was told.
    pub chief: ScriptedChief,
    /// The database's address, for a second app or a raw look.
    pub url: String,
    /// The data folder.
    pub dir: Arc<tempfile::TempDir>,
}

impl TestMuster {
    /// An app on the database at `url`.
    pub async fn open(url: String, dir: Arc<tempfile::TempDir>) -> Self {
        // A round moment well after the epoch, so that windows before it exist.
        let clock = Clock::manual(Time::from_micros(1_800_000_000_000_000));
        let (app, chief) = app(&url, &dir, clock.clone()).await;
        let owner = add_owner(&app, "ada").await;
        Self {
            engine: app.db.engine(),
            app,
            clock,
            owner,
            chief,
            url,
            dir,
        }
    }

    /// Another process's view: a second app on the same database, clock and folder, with a chief of its own.
    pub async fn second(&self) -> (App, ScriptedChief) {
        app(&self.url, &self.dir, self.clock.clone()).await
    }

    /// A connector of the first owner's and its caller.
    pub async fn plugin(&self, name: &str) -> PluginCaller {
        add_plugin(&self.app, self.owner, name).await
    }

    /// Makes the scripted chief the first owner's chief.
    pub async fn set_chief(&self) -> ChiefId {
        chiefs::set(&self.app, self.owner, Kind::Command, "scripted")
            .await
            .unwrap()
    }

    /// Stores a plain message and does not deliver it.
    pub async fn accept(&self, plugin: &PluginCaller, external_id: &str) -> Accepted {
        messages::accept(&self.app, plugin, message(external_id))
            .await
            .unwrap()
    }

    /// Waits until no work runs in the background.
    pub async fn settle(&self) {
        idle(&self.app).await;
    }
}

/// Waits until an app's background work has ended.
pub async fn idle(app: &App) {
    for _ in 0..12_000 {
        if app.tasks.running() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("background work did not end within a minute");
}

/// Usual settings, plugins on.
pub fn settings(dir: &std::path::Path) -> Settings {
    Settings {
        plugins: true,
        stepup_window: Duration::from_secs(12 * 3600),
        deny_words: DenyWords::parse("bluebird").unwrap(),
        mcp_url: "http://127.0.0.1:9/mcp".to_owned(),
        data_dir: dir.to_owned(),
        command_needs: String::new(),
        turn_watchdog: Duration::from_secs(60),
        public_url: "http://localhost:7447".to_owned(),
    }
}

async fn app(url: &str, dir: &tempfile::TempDir, clock: Clock) -> (App, ScriptedChief) {
    let db = Db::open(&muster_store::Options::new(url, dir.path().join("locks")))
        .await
        .unwrap();
    let chief = ScriptedChief::default();
    let app = App::new(db, clock, settings(dir.path()));
    let app = app.clone().with_runtimes(chief.clone().factory());
    chief.serve(app.clone());
    (app, chief)
}

/// Another owner.
pub async fn add_owner(app: &App, name: &str) -> OwnerId {
    accounts::add(
        app,
        OwnerName::parse(name).unwrap(),
        Password::parse(PASSWORD).unwrap(),
        false,
    )
    .await
    .unwrap()
}

/// A connector of an owner's and its caller.
pub async fn add_plugin(app: &App, owner: OwnerId, name: &str) -> PluginCaller {
    let new = NewPlugin {
        name: Slug::parse("name", name).unwrap(),
        label: Label::parse("label", format!("Label of {name}")).unwrap(),
        data_scope: DataScope::parse("data scope", format!("scope of {name}")).unwrap(),
    };
    let made = plugins::create(app, owner, new).await.unwrap();
    plugins::authenticate(app, made.token.expose())
        .await
        .unwrap()
        .unwrap()
}

/// A plain verified message.
pub fn message(external_id: &str) -> NewMessage {
    NewMessage {
        external_id: ExternalId::parse("external_id", external_id).unwrap(),
        sender: Some(Sender::parse("sender", "Ada <ada@example.test>").unwrap()),
        subject: None,
        body: MessageBody::parse("body", format!("body of {external_id}")).unwrap(),
        received_at: None,
        no_reply: false,
        sender_verified: true,
        thread: None,
        human_conversation: false,
    }
}
