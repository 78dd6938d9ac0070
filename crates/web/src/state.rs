//! What every door shares: the app, the public origin, the set-up code, the server's key, limits on sign-ins. Never holds a request.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use muster_app::App;
use muster_core::secret::{self, NoRandomness, random_hex};
use muster_core::{Fault, Secret};
use muster_plugin_host::Launcher;

use crate::key::Key;
use crate::mcp_agent::{Calls, Databases};
use crate::packages::{PackageLimits, Packages};
use crate::tries::Tries;

/// Shared by all doors. Cloning shares it.
#[derive(Clone)]
pub struct Web {
    /// What muster does.
    pub app: App,
    /// Where people reach it.
    pub origin: Arc<Origin>,
    /// The one-time set-up link.
    pub setup: Setup,
    /// The shared hook credential of an armed server.
    pub hook_token: Option<Secret>,
    /// Who has tried to sign in how often.
    pub(crate) tries: Arc<Tries>,
    /// Marks known browsers, and makes what a name without a passkey is answered.
    pub(crate) key: Key,
    /// Agents' calls under way.
    pub(crate) calls: Calls,
    /// Databases that agents use.
    pub(crate) databases: Databases,
    /// Servers of plugin packages that agents use.
    pub(crate) packages: Packages,
}

impl Web {
    /// The doors of `app`.
    pub fn new(app: App, origin: Origin, setup: Setup, hook_token: Option<Secret>) -> Self {
        let key = Key::of(&app.settings.data_dir);
        let packages = Packages::new(&app, Launcher::this_program(), PackageLimits::default());
        Self {
            app,
            origin: Arc::new(origin),
            setup,
            hook_token,
            tries: Arc::default(),
            key,
            calls: Calls::default(),
            databases: Databases::default(),
            packages,
        }
    }

    /// The same, with another program that starts package servers, and other limits on them.
    #[must_use]
    pub fn with_packages(mut self, launcher: Launcher, limits: PackageLimits) -> Self {
        self.packages = Packages::new(&self.app, launcher, limits);
        self
    }
}

/// The public address: which `Host` and `Origin` headers are muster's own, and whether cookies travel over TLS.
#[derive(Debug, Clone)]
pub struct Origin {
    base: String,
    origins: Vec<String>,
    hosts: Vec<String>,
    any_host: bool,
    cookie: String,
}

impl Origin {
    /// From the address people use, such as `https://muster.example`, with no path.
    pub fn public(url: &str) -> Self {
        let base = url.trim_end_matches('/').to_owned();
        let host = base
            .split_once("://")
            .map_or(base.as_str(), |(_, host)| host)
            .to_ascii_lowercase();
        Self {
            origins: vec![base.to_ascii_lowercase()],
            cookie: session_cookie(&base, &host),
            hosts: vec![host],
            base,
            any_host: false,
        }
    }

    /// From a listener on a loopback address, under each of its names.
    pub fn listener(address: SocketAddr) -> Self {
        let port = address.port();
        let names = [
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "[::1]".to_owned(),
            host_text(address.ip()),
        ];
        let hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        Self {
            base: format!(
                "http://{}:{port}",
                if address.ip().is_loopback() {
                    "localhost".to_owned()
                } else {
                    host_text(address.ip())
                }
            ),
            origins: hosts.iter().map(|host| format!("http://{host}")).collect(),
            hosts,
            any_host: false,
            cookie: format!("muster-{port}"),
        }
    }

    /// The same, answering to the listener's own address too: what runs on this machine talks to it directly, whatever name people use.
    #[must_use]
    pub fn and_listener(mut self, address: SocketAddr) -> Self {
        self.hosts
            .push(format!("{}:{}", host_text(address.ip()), address.port()));
        self
    }

    /// The same, answering to any `Host`: for an address that is open on purpose (`MUSTER_INSECURE=1`).
    #[must_use]
    pub fn any_host(mut self) -> Self {
        self.any_host = true;
        self
    }

    /// The base of links, without a slash at its end.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether people reach muster over TLS.
    pub fn secure(&self) -> bool {
        self.base.starts_with("https://")
    }

    /// The name of the session cookie: with the `__Host-` prefix over TLS. Over plain HTTP, where a browser keeps cookies by host name and
    /// sends them to every port of it, with the port: two servers on one machine would else end each other's sessions.
    pub(crate) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// Whether a `Host` header names this server. Anything else is a page elsewhere that resolves to this machine.
    pub fn is_host(&self, host: &str) -> bool {
        self.any_host || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host))
    }

    /// Whether an `Origin` header is this server's own. `host` is the request's `Host`.
    pub fn is_origin(&self, origin: &str, host: Option<&str>) -> bool {
        let own = self.origins.iter().any(|own| own.eq_ignore_ascii_case(origin));
        own || (self.any_host
            && host.is_some_and(|host| {
                origin.eq_ignore_ascii_case(&format!("http://{host}"))
                    || origin.eq_ignore_ascii_case(&format!("https://{host}"))
            }))
    }
}

fn session_cookie(base: &str, host: &str) -> String {
    if base.starts_with("https://") {
        return "__Host-muster".to_owned();
    }
    let port = host
        .rsplit_once(':')
        .map(|(_, port)| port)
        .filter(|port| port.bytes().all(|b| b.is_ascii_digit()));
    format!("muster-{}", port.unwrap_or("80"))
}

fn host_text(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The one-time code of `/setup`: made when a server starts without an owner, gone when it was used.
#[derive(Clone, Default)]
pub struct Setup(Arc<Mutex<Option<Secret>>>);

impl Setup {
    /// Makes a code; the caller prints its link once.
    ///
    /// # Errors
    /// When the system gives no randomness.
    pub fn open(&self) -> Result<Secret, NoRandomness> {
        let code = Secret::new(random_hex::<16>()?);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(code.clone());
        Ok(code)
    }

    /// Whether `given` is the code.
    pub fn fits(&self, given: &str) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_some_and(|code| secret::same(code.expose(), given))
    }

    /// Forgets the code: it was used.
    pub fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the printed link still waits for the first owner. Asks the database only where a link was printed.
    ///
    /// # Errors
    /// A fault.
    pub async fn waits(&self, app: &App) -> Result<bool, Fault> {
        let printed = self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        Ok(printed && !muster_app::accounts::any_owner(app).await?)
    }

    /// Whether `/setup` exists right now: `given` is the code and the server still has no owner.
    ///
    /// # Errors
    /// A fault.
    pub async fn admits(&self, app: &App, given: &str) -> Result<bool, Fault> {
        Ok(self.fits(given) && !muster_app::accounts::any_owner(app).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_servers_own_names_are_its_host_and_origin() {
        let origin = Origin::listener(SocketAddr::from(([127, 0, 0, 1], 7447)));
        for good in ["localhost:7447", "127.0.0.1:7447", "LOCALHOST:7447"] {
            assert!(origin.is_host(good), "{good}");
        }
        for bad in [
            "evil.example",
            "localhost",
            "localhost:80",
            "127.0.0.1.evil.example:7447",
        ] {
            assert!(!origin.is_host(bad), "{bad}");
        }
        assert!(
            origin.is_origin("http://127.0.0.1:7447", None)
                && !origin.is_origin("https://evil.example", None)
                && !origin.is_origin("null", None)
        );
        let public = Origin::public("https://muster.example/");
        assert!(
            public.secure() && public.is_host("muster.example") && public.base() == "https://muster.example"
        );
    }

    #[test]
    fn two_servers_of_one_host_name_keep_their_sessions_apart() {
        let listener = |port| Origin::listener(SocketAddr::from(([127, 0, 0, 1], port)));
        assert_eq!(listener(7447).cookie(), "muster-7447");
        assert_eq!(listener(7448).any_host().cookie(), "muster-7448");
        for (url, name) in [
            ("http://localhost:7447", "muster-7447"),
            ("http://localhost", "muster-80"),
            ("http://[::1]", "muster-80"),
            ("http://[::1]:7449/", "muster-7449"),
            ("https://muster.example", "__Host-muster"),
            ("https://muster.example:8443", "__Host-muster"),
        ] {
            assert_eq!(Origin::public(url).cookie(), name, "{url}");
        }
    }

    #[test]
    fn a_setup_code_opens_once() {
        let setup = Setup::default();
        assert!(!setup.fits(""));
        let code = setup.open().unwrap();
        assert!(setup.fits(code.expose()) && !setup.fits("0"));
        setup.close();
        assert!(!setup.fits(code.expose()));
    }
}
