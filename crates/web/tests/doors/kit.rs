//! What the doors' tests share: requests, answers, a person who signs in, a connector, a draft. It tests nothing itself.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use muster_app::accounts::{self, OwnerName, Password};
use muster_app::chief::{self, Delivery};
use muster_app::messages::{self, NewMessage};
use muster_app::plugins::{self, NewPlugin, PluginCaller};
use muster_app::{App, Settings, drafts};
use muster_core::Secret;
use muster_core::clock::{Clock, Time};
use muster_core::ids::{DraftId, MessageId, OwnerId, PluginId};
use muster_core::secret::TokenKind;
use muster_core::text::{DataScope, Label, Slug};
use muster_runtime::{Kind, Outcome};
use muster_store::{Db, Engine, Options};
use muster_testkit::{PASSWORD, PgDatabase, ScriptedChief, Step, TestMuster, engines, on_both, settings};
use muster_web::{Origin, Setup, Web, router};
use serde_json::Value;
use tower::ServiceExt as _;

pub(crate) use super::ask::{Answer, Ask, HTML, escaped};

/// The shared hook credential of the tests' server.
pub(crate) const HOOK: &str = "hook-token-of-this-server";

/// A server without a socket: the app, and its doors.
pub(crate) struct Doors {
    pub(crate) muster: Arc<TestMuster>,
    pub(crate) app: App,
    pub(crate) web: Web,
    pub(crate) router: Router,
    host: String,
}

/// Runs `law` on the doors of a fresh app on each engine.
pub(crate) fn doors<F: Future<Output = ()>>(law: impl Fn(Doors) -> F) {
    on_both(|muster| law(Doors::new(muster)));
}

impl Doors {
    fn new(muster: TestMuster) -> Self {
        let origin = Origin::listener(SocketAddr::from(([127, 0, 0, 1], 7447)));
        let app = muster.app.clone();
        Self::at(Arc::new(muster), app, origin, Some(Secret::new(HOOK)))
    }

    fn at(muster: Arc<TestMuster>, app: App, origin: Origin, hook: Option<Secret>) -> Self {
        let host = origin.base().split_once("://").unwrap().1.to_owned();
        let web = Web::new(app.clone(), origin, Setup::default(), hook);
        Self {
            muster,
            app,
            router: router(web.clone()),
            web,
            host,
        }
    }

    /// The same database behind a server with other settings.
    pub(crate) fn with(&self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = (*self.app.settings).clone();
        change(&mut settings);
        let mut app = self.app.clone();
        app.settings = Arc::new(settings);
        Self::at(
            self.muster.clone(),
            app,
            (*self.web.origin).clone(),
            self.web.hook_token.clone(),
        )
    }

    /// The same database behind other doors.
    pub(crate) fn behind(&self, web: Web) -> Self {
        Self {
            muster: self.muster.clone(),
            app: self.app.clone(),
            router: router(web.clone()),
            web,
            host: self.host.clone(),
        }
    }

    /// The same database behind a server with plugins off.
    pub(crate) fn off(&self) -> Self {
        self.with(|settings| settings.plugins = false)
    }

    /// The same database behind a server that people reach at `url`.
    pub(crate) fn public(&self, url: &str) -> Self {
        Self::at(
            self.muster.clone(),
            self.app.clone(),
            Origin::public(url),
            self.web.hook_token.clone(),
        )
    }

    /// The same database behind a server that is not armed with a hook token.
    pub(crate) fn without_hook(&self) -> Self {
        Self::at(
            self.muster.clone(),
            self.app.clone(),
            (*self.web.origin).clone(),
            None,
        )
    }

    /// The first owner.
    pub(crate) fn ada(&self) -> OwnerId {
        self.muster.owner
    }

    /// Sends a request and reads the whole answer; of an event stream only its head.
    pub(crate) async fn send(&self, ask: Ask) -> Answer {
        let response = self
            .router
            .clone()
            .oneshot(ask.request(&self.host, self.web.origin.base()))
            .await
            .unwrap();
        let (parts, body) = response.into_parts();
        let stream = parts
            .headers
            .get(CONTENT_TYPE)
            .is_some_and(|kind| kind == "text/event-stream");
        let body = if stream {
            Bytes::new()
        } else {
            body.collect().await.unwrap().to_bytes()
        };
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
        }
    }

    /// Sends a request from a task of its own and reads all of its answer, an event stream's too: its kind and its text.
    pub(crate) fn stream(&self, ask: Ask) -> tokio::task::JoinHandle<(String, String)> {
        let request = ask.request(&self.host, self.web.origin.base());
        let answer = self.router.clone().oneshot(request);
        tokio::spawn(async move {
            let (parts, body) = answer.await.unwrap().into_parts();
            let kind = parts
                .headers
                .get(CONTENT_TYPE)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let text = body.collect().await.unwrap().to_bytes();
            (kind, String::from_utf8(text.to_vec()).unwrap())
        })
    }

    /// A request on its way, which goes on only while somebody waits for it: one that hangs up drops it.
    pub(crate) fn on_its_way(&self, ask: Ask) -> std::pin::Pin<Box<dyn Future<Output = u16> + Send>> {
        let request = ask.request(&self.host, self.web.origin.base());
        let answer = self.router.clone().oneshot(request);
        Box::pin(async move { answer.await.unwrap().status().as_u16() })
    }

    /// Sends a request from a task of its own.
    pub(crate) fn sending(&self, ask: Ask) -> tokio::task::JoinHandle<Answer> {
        let doors = Self {
            muster: self.muster.clone(),
            app: self.app.clone(),
            web: self.web.clone(),
            router: self.router.clone(),
            host: self.host.clone(),
        };
        tokio::spawn(async move { doors.send(ask).await })
    }

    /// Opens a page and wants it to be there.
    pub(crate) async fn page(&self, cookie: &str, path: &str) -> String {
        let answer = self.send(Ask::get(path).cookie(cookie)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    }

    /// Signs in with the form; answers what the browser keeps.
    pub(crate) async fn sign_in(&self, name: &str) -> String {
        let answer = self
            .send(Ask::form("/sign-in", &[("name", name), ("password", PASSWORD)]))
            .await;
        assert_eq!(
            (answer.status, answer.location()),
            (303, "/"),
            "{}",
            answer.text()
        );
        answer.cookie()
    }

    /// A token of `owner`'s.
    pub(crate) async fn token(&self, owner: OwnerId, kind: TokenKind) -> String {
        let label = Label::parse("label", format!("a {} token", kind.prefix())).unwrap();
        let host = (kind == TokenKind::MirrorHost).then(|| Label::parse("host", "tower").unwrap());
        accounts::create_token(&self.app, owner, kind, label, host)
            .await
            .unwrap()
            .token
            .expose()
            .to_owned()
    }

    /// A connector of `owner`'s with its token.
    pub(crate) async fn connector(&self, owner: OwnerId, name: &str) -> Connector {
        let new = NewPlugin {
            name: Slug::parse("name", name).unwrap(),
            label: Label::parse("label", format!("Label of {name}")).unwrap(),
            data_scope: DataScope::parse("data scope", format!("scope of {name}")).unwrap(),
        };
        let made = plugins::create(&self.app, owner, new).await.unwrap();
        let token = made.token.expose().to_owned();
        let caller = plugins::authenticate(&self.app, &token).await.unwrap().unwrap();
        Connector {
            owner,
            id: made.id,
            token,
            caller,
        }
    }

    /// Gives `owner` the scripted chief unless there is one.
    pub(crate) async fn chief_of(&self, owner: OwnerId) {
        if chief::show(&self.app, owner).await.unwrap().is_none() {
            chief::set(&self.app, owner, Kind::Command, "scripted")
                .await
                .unwrap();
        }
    }

    /// Stores a message when nothing runs that could hand it over before it is this test's turn to.
    pub(crate) async fn store(&self, connector: &Connector, message: NewMessage) -> MessageId {
        self.muster.settle().await;
        messages::accept(&self.app, &connector.caller, message)
            .await
            .unwrap()
            .id
    }

    /// Stores a message and has its owner's chief take `step` about it.
    pub(crate) async fn delivered(
        &self,
        connector: &Connector,
        message: NewMessage,
        step: Step,
    ) -> MessageId {
        self.chief_of(connector.owner).await;
        let id = self.store(connector, message).await;
        self.deliver(connector.owner, id, step).await;
        id
    }

    /// Hands a stored message to the chief, which takes `step` and comes to an end.
    pub(crate) async fn deliver(&self, owner: OwnerId, id: MessageId, step: Step) -> Delivery {
        assert!(
            !matches!(step, Step::NotStarted | Step::Hold(_)),
            "a step that ends"
        );
        self.muster.chief.then(step);
        for _ in 0..6_000 {
            match chief::deliver(&self.app, owner, id).await.unwrap() {
                // On Postgres the chief's lock of the turn before goes when the server sees its connection end.
                Delivery::Pending => tokio::time::sleep(Duration::from_millis(10)).await,
                other => return other,
            }
        }
        panic!("the chief stayed busy");
    }

    /// Hands a stored message to the chief, which takes `step`, and returns once the turn has begun.
    pub(crate) async fn begin(&self, owner: OwnerId, id: MessageId, step: Step) {
        let turns = self.muster.chief.turns().len();
        self.muster.chief.then(step);
        soon("a turn", || async {
            if self.app.tasks.running() == 0 && self.muster.chief.turns().len() == turns {
                chief::start_delivery(&self.app, owner, id);
            }
            self.muster.chief.turns().len() > turns
        })
        .await;
    }

    /// Waits until the chief was given `turns` turns and all have ended. Where its lock may still be held by the turn before, so that a
    /// message stays queued, it claims as a connector does: what nobody could take is handed over at the next claim.
    pub(crate) async fn taken(&self, connector: &Connector, turns: usize) {
        soon("a turn", || async {
            if self.muster.engine == Engine::Postgres {
                self.send(Ask::post("/plugin/v1/drafts/claim").bearer(&connector.token))
                    .await;
            }
            self.muster.chief.turns().len() >= turns
        })
        .await;
        self.muster.settle().await;
    }

    /// A message that its owner's chief may have read: its turn broke off.
    pub(crate) async fn unconfirmed(&self, connector: &Connector, external_id: &str) -> MessageId {
        self.delivered(connector, muster_testkit::message(external_id), Step::BreakOff)
            .await
    }

    /// A draft that awaits the owner, about a message of its own.
    pub(crate) async fn draft(
        &self,
        connector: &Connector,
        message: NewMessage,
        reply: &str,
    ) -> (MessageId, DraftId) {
        self.chief_of(connector.owner).await;
        let message = self.store(connector, message).await;
        assert_eq!(
            self.deliver(connector.owner, message, filing(message, reply))
                .await,
            Delivery::Delivered
        );
        (message, self.newest_draft(connector.owner, message).await)
    }

    /// The newest open draft about `message`.
    pub(crate) async fn newest_draft(&self, owner: OwnerId, message: MessageId) -> DraftId {
        let open = drafts::open(&self.app, owner).await.unwrap();
        open.into_iter()
            .find(|card| card.message.id == message)
            .unwrap()
            .id
    }

    /// A draft the owner approved in the browser.
    pub(crate) async fn approved(
        &self,
        cookie: &str,
        connector: &Connector,
        external_id: &str,
        reply: &str,
    ) -> DraftId {
        let (_, draft) = self
            .draft(connector, muster_testkit::message(external_id), reply)
            .await;
        self.decide(cookie, draft, "approve").await;
        draft
    }

    /// Presses a button of a card and wants it to work.
    pub(crate) async fn decide(&self, cookie: &str, draft: DraftId, act: &str) {
        let answer = self
            .send(Ask::form(&format!("/attention/drafts/{draft}/{act}"), &[]).cookie(cookie))
            .await;
        assert_eq!(
            (answer.status, answer.location()),
            (303, format!("/attention?tab=drafts#draft-{draft}").as_str()),
            "{}",
            answer.text()
        );
    }

    /// Collects a reply as the connector and wants one to be there.
    pub(crate) async fn claim(&self, connector: &Connector) -> Value {
        let answer = self
            .send(Ask::post("/plugin/v1/drafts/claim").bearer(&connector.token))
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }

    /// All of an owner's rows that a door could change, as text: two equal texts mean that nothing changed.
    pub(crate) async fn state(&self, owner: OwnerId) -> String {
        self.state_but(owner, "").await
    }

    /// The same without the audit's rows of `event`.
    pub(crate) async fn state_but(&self, owner: OwnerId, event: &str) -> String {
        let app = &self.app;
        let mut audit = muster_app::audit::list(&app.db, owner, muster_app::audit::Filter::default())
            .await
            .unwrap();
        audit.retain(|entry| entry.event != event);
        let sessions: i64 = app
            .db
            .read(owner, |tx| {
                Box::pin(async move { tx.number(&LIVE_SESSIONS, ()).await })
            })
            .await
            .unwrap();
        format!(
            "{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\n{:#?}\nsessions {sessions}",
            plugins::list(app, owner).await.unwrap(),
            drafts::open(app, owner).await.unwrap(),
            drafts::archived(app, owner, DraftId::new(i64::MAX), 500)
                .await
                .unwrap(),
            messages::unconfirmed(app, owner).await.unwrap(),
            accounts::tokens(app, owner).await.unwrap(),
            accounts::passkeys(app, owner).await.unwrap(),
            chief::show(app, owner).await.unwrap(),
            audit,
        )
    }
}

static LIVE_SESSIONS: muster_store::Sql = muster_store::owned(
    "tests.live_sessions",
    "SELECT count(*) FROM browser_sessions WHERE owner_id = $1 AND ended_at IS NULL",
);

/// The chief files `reply` about `message` with its own tools.
pub(crate) fn filing(message: MessageId, reply: &str) -> Step {
    let reply = reply.to_owned();
    ScriptedChief::acting(move |app, caller, _| {
        let reply = reply.clone();
        async move {
            drafts::file(&app, &caller, message, &reply).await.unwrap();
            Outcome::Completed {
                reply: "drafted".to_owned(),
            }
        }
    })
}

/// A connector and the only copy of its token.
pub(crate) struct Connector {
    pub(crate) owner: OwnerId,
    pub(crate) id: PluginId,
    pub(crate) token: String,
    pub(crate) caller: PluginCaller,
}

/// An inline snapshot in a law that runs once an engine: each run must give the same.
macro_rules! same_on_both {
    ($value:expr, @$text:literal) => {{
        let value = $value;
        insta::allow_duplicates! { insta::assert_snapshot!(value, @$text) }
    }};
}
pub(crate) use same_on_both;

/// An app on a fresh database that has no owner yet.
pub(crate) struct Empty {
    pub(crate) app: App,
    pub(crate) web: Web,
    router: Router,
}

impl Empty {
    pub(crate) async fn send(&self, ask: Ask) -> Answer {
        let response = self
            .router
            .clone()
            .oneshot(ask.request("localhost:7447", self.web.origin.base()))
            .await
            .unwrap();
        let (parts, body) = response.into_parts();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: body.collect().await.unwrap().to_bytes(),
        }
    }
}

/// Runs `law` on the doors of an app without an owner on each engine.
pub(crate) fn without_owner<F: Future<Output = ()>>(law: impl Fn(Arc<Empty>) -> F) {
    for engine in engines() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let postgres = match engine {
                Engine::Postgres => Some(PgDatabase::fresh().await),
                Engine::Sqlite => None,
            };
            let sqlite = format!("sqlite://{}", dir.path().join("muster.db").display());
            let url = postgres.as_ref().map_or(sqlite, |database| database.url.clone());
            let db = Db::open(&Options::new(url, dir.path().join("locks")))
                .await
                .unwrap();
            let app = App::new(
                db,
                Clock::manual(Time::from_micros(1_800_000_000_000_000)),
                settings(dir.path()),
            );
            let origin = Origin::listener(SocketAddr::from(([127, 0, 0, 1], 7447)));
            let web = Web::new(app.clone(), origin, Setup::default(), None);
            law(Arc::new(Empty {
                app: app.clone(),
                router: router(web.clone()),
                web,
            }))
            .await;
            app.tasks.stop().await;
            app.db.close().await;
            if let Some(database) = postgres {
                database.drop_now().await;
            }
        });
    }
}

/// Another owner, with the tests' password.
pub(crate) async fn add_owner(app: &App, name: &str) -> OwnerId {
    accounts::add(
        app,
        OwnerName::parse(name).unwrap(),
        Password::parse(PASSWORD).unwrap(),
        false,
    )
    .await
    .unwrap()
}

/// Waits until `done`, a minute at most.
pub(crate) async fn soon<F: Future<Output = bool>>(what: &str, done: impl Fn() -> F) {
    for _ in 0..12_000 {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} did not happen within a minute");
}
