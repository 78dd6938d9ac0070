//! Every kind of credential a request can carry, good, dead and misplaced. It tests nothing itself.

use http::header::{AUTHORIZATION, COOKIE, HeaderName};
use muster_app::{accounts, plugins};
use muster_core::Secret;
use muster_core::secret::TokenKind;
use muster_testkit::{PASSWORD, Step, message};
use muster_web::Door;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

use super::kit::{Ask, Connector, Doors, HOOK, add_owner};

/// One way to ask to be let in.
pub(crate) struct Credential {
    pub(crate) name: String,
    headers: Vec<(HeaderName, String)>,
    query: Option<String>,
    opens: Option<Door>,
}

impl Credential {
    fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            headers: Vec::new(),
            query: None,
            opens: None,
        }
    }

    fn opens_door(mut self, door: Door) -> Self {
        self.opens = Some(door);
        self
    }

    fn with(mut self, name: HeaderName, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn bearer(self, token: &str) -> Self {
        self.with(AUTHORIZATION, format!("Bearer {token}"))
    }

    /// Whether it has an `Authorization` header at all.
    pub(crate) fn authorizes(&self) -> bool {
        self.headers.iter().any(|(name, _)| *name == AUTHORIZATION)
    }

    /// Whether a route of this door lets it in.
    pub(crate) fn admitted_by(&self, door: Door) -> bool {
        match door {
            Door::Anyone | Door::Loopback => true,
            // Who signs in has no token, and whatever old cookie.
            Door::Visitor => !self.authorizes(),
            Door::Person | Door::Plugin | Door::Script | Door::Agent => self.opens == Some(door),
        }
    }

    /// The request, carrying it.
    pub(crate) fn on(&self, mut ask: Ask) -> Ask {
        if let Some(query) = &self.query {
            let sign = if ask.path.contains('?') { '&' } else { '?' };
            ask.path = format!("{}{sign}token={query}&access_token={query}", ask.path);
        }
        self.headers
            .iter()
            .fold(ask, |ask, (name, value)| ask.header(name.clone(), value))
    }
}

/// What one server's people, connectors, scripts and agents hold.
pub(crate) struct Wallet {
    bearers: Vec<(&'static str, String, Option<Door>)>,
    dead: Vec<(&'static str, String)>,
    cookies: Vec<(&'static str, String)>,
    /// What a browser keeps that has signed in before.
    mark: String,
    /// A browser session that lives.
    pub(crate) live: String,
    /// The connector whose token is good.
    pub(crate) connector: Connector,
}

impl Wallet {
    /// Makes them all. Afterwards the first owner's chief is in the middle of a turn.
    pub(crate) async fn new(doors: &Doors, expired: String) -> Self {
        let ada = doors.ada();
        let signed_out = cookie(doors, "ada").await;
        doors.send(Ask::form("/sign-out", &[]).cookie(&signed_out)).await;

        let connector = doors.connector(ada, "wallet").await;
        let revoked = doors.connector(ada, "revoked").await;
        plugins::revoke(&doors.app, ada, revoked.id).await.unwrap();
        let personal = doors.token(ada, TokenKind::Personal).await;
        let agent = doors.token(ada, TokenKind::Agent).await;
        let mirror = doors.token(ada, TokenKind::MirrorHost).await;
        let mut dead = vec![("a revoked mpl_", revoked.token)];
        for (name, kind) in [
            ("a revoked mst_", TokenKind::Personal),
            ("a revoked mag_", TokenKind::Agent),
        ] {
            let token = doors.token(ada, kind).await;
            let id = accounts::tokens(&doors.app, ada)
                .await
                .unwrap()
                .last()
                .unwrap()
                .id;
            accounts::revoke_token(&doors.app, ada, id).await.unwrap();
            dead.push((name, token));
        }
        for (name, kind) in [
            ("an unknown mpl_", TokenKind::Plugin),
            ("an unknown mst_", TokenKind::Personal),
            ("an unknown mag_", TokenKind::Agent),
        ] {
            dead.push((name, kind.mint().unwrap().expose().to_owned()));
        }

        // An account that is disabled takes everything of its own with it.
        let carol = add_owner(&doors.app, "carol").await;
        dead.push((
            "the mpl_ of a disabled owner",
            doors.connector(carol, "carols").await.token,
        ));
        dead.push((
            "the mst_ of a disabled owner",
            doors.token(carol, TokenKind::Personal).await,
        ));
        dead.push((
            "the mag_ of a disabled owner",
            doors.token(carol, TokenKind::Agent).await,
        ));
        let disabled = cookie(doors, "carol").await;
        accounts::disable(&doors.app, "carol").await.unwrap();

        doors
            .delivered(&connector, message("over"), Step::Complete("done"))
            .await;
        dead.push((
            "the mag_ of a turn that is over",
            doors
                .muster
                .chief
                .turns()
                .last()
                .unwrap()
                .agent_token
                .expose()
                .to_owned(),
        ));
        let running = doors.store(&connector, message("running")).await;
        doors
            .begin(ada, running, Step::Hold(Arc::new(Notify::new())))
            .await;
        let chiefs = doors
            .muster
            .chief
            .turns()
            .last()
            .unwrap()
            .agent_token
            .expose()
            .to_owned();

        let mark = doors
            .send(Ask::form("/sign-in", &[("name", "ada"), ("password", PASSWORD)]))
            .await
            .mark();
        let unknown = format!("muster-7447={}", "0".repeat(64));
        Self {
            bearers: vec![
                ("mpl_", connector.token.clone(), Some(Door::Plugin)),
                ("mst_", personal, Some(Door::Script)),
                ("the hook token", HOOK.to_owned(), Some(Door::Script)),
                ("mag_", agent, Some(Door::Agent)),
                ("the chief's mag_", chiefs, Some(Door::Agent)),
                ("mmh_", mirror, None),
            ],
            dead,
            cookies: vec![
                ("a signed-out session", signed_out),
                ("an expired session", expired),
                ("a disabled owner's session", disabled),
                ("an unknown session", unknown),
                ("a session that is no session", "muster-7447=%00".to_owned()),
            ],
            mark,
            live: cookie(doors, "ada").await,
            connector,
        }
    }

    /// All of them, each once.
    pub(crate) fn all(&self) -> Vec<Credential> {
        let mut all = vec![Credential::new("none")];
        for (name, token, door) in &self.bearers {
            let alone = Credential::new(*name).bearer(token);
            all.push(match door {
                Some(door) => alone.opens_door(*door),
                None => alone,
            });
            all.push(
                Credential::new(format!("a session beside {name}"))
                    .with(COOKIE, &*self.live)
                    .bearer(token),
            );
            all.push(Credential {
                query: Some(token.clone()),
                ..Credential::new(format!("{name} in the address"))
            });
            all.push(
                Credential::new(format!("{name} in cookies"))
                    .with(COOKIE, format!("token={token}; muster-7447={token}")),
            );
            all.push(
                Credential::new(format!("{name} twice"))
                    .bearer(token)
                    .bearer(token),
            );
            all.push(Credential::new(format!("{name} without its scheme")).with(AUTHORIZATION, token));
            let basic = Ask::get("/").basic(token, token).headers.pop().unwrap().1;
            all.push(
                Credential::new(format!("{name} as Basic")).with(AUTHORIZATION, basic.to_str().unwrap()),
            );
        }
        let plugin = &self.connector.token;
        all.push(
            Credential::new("mpl_ beside another's mst_")
                .bearer(plugin)
                .bearer(&self.bearers[1].1),
        );
        for (name, token) in &self.dead {
            all.push(Credential::new(*name).bearer(token));
            all.push(
                Credential::new(format!("a session beside {name}"))
                    .with(COOKIE, &*self.live)
                    .bearer(token),
            );
        }
        for (name, text) in [
            ("a malformed mpl_", "mpl_".to_owned()),
            ("an mpl_ in capitals", plugin.to_ascii_uppercase()),
            ("an mpl_ and one digit more", format!("{plugin}0")),
            ("a service secret", "a-service-secret-shared-by-many".to_owned()),
            ("a runner's token", format!("mrt_{}", "a".repeat(64))),
            (
                "a session's text as a token",
                self.live.trim_start_matches("muster-7447=").to_owned(),
            ),
            ("the hook token and one letter more", format!("{HOOK}x")),
            ("an empty token", String::new()),
        ] {
            all.push(Credential::new(name).bearer(&text));
        }
        all.push(
            Credential::new("Basic with the password")
                .with(AUTHORIZATION, "Basic YWRhOmNvcnJlY3QgaG9yc2UgYmF0dGVyeQ=="),
        );
        all.push(
            Credential::new("a session")
                .with(COOKIE, &*self.live)
                .opens_door(Door::Person),
        );
        let text = self.live.trim_start_matches("muster-7447=");
        let prefixed = format!("__Host-muster={text}");
        all.push(Credential::new("a session under the name it has behind TLS").with(COOKIE, prefixed));
        for (name, port) in [
            ("a session of another port", "-7448"),
            ("a session without its port", ""),
        ] {
            all.push(Credential::new(name).with(COOKIE, format!("muster{port}={text}")));
        }
        all.push(Credential::new("a known browser's mark").with(COOKIE, &*self.mark));
        all.extend(
            self.cookies
                .iter()
                .map(|(name, cookie)| Credential::new(*name).with(COOKIE, cookie)),
        );
        all
    }

    /// Makes sure that the live session is one.
    pub(crate) async fn refresh(&mut self, doors: &Doors) {
        let text = self.live.trim_start_matches("muster-7447=");
        if accounts::browser(&doors.app, text).await.unwrap().is_none() {
            self.live = cookie(doors, "ada").await;
        }
    }
}

/// A session that nobody used for too long. Moves the clock, so it comes before all that time could end.
pub(crate) async fn expired_session(doors: &Doors) -> String {
    let expired = cookie(doors, "ada").await;
    doors
        .muster
        .clock
        .advance(accounts::SESSION_IDLE + Duration::from_secs(1));
    expired
}

/// Signs in past the form.
async fn cookie(doors: &Doors, name: &str) -> String {
    let text = accounts::sign_in_password(&doors.app, name, &Secret::new(PASSWORD))
        .await
        .unwrap();
    format!("muster-7447={}", text.expose())
}
