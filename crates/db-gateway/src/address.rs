//! Where a database is and who muster is there, read from a URL. Never shows the password: not in Debug, not in an error.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

use crate::error::Scrub;
use muster_core::engine::Engine;

/// The address of a database with the account that muster uses there.
#[derive(Clone)]
pub struct Url {
    pub(crate) engine: Engine,
    pub(crate) place: Place,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
    pub(crate) tls: Tls,
    /// A PEM file with the certificates to trust besides the usual ones.
    pub(crate) roots: Option<PathBuf>,
    /// As it was given, where a driver reads it by itself.
    pub(crate) given: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Tcp {
        host: String,
        port: u16,
    },
    Socket(PathBuf),
    File(PathBuf),
    /// Several hosts, or hosts that a name server knows.
    Cluster,
}

/// How the way to the server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tls {
    Off,
    /// Encrypted; whose certificate it is, is not asked.
    Unverified,
    Verified,
}

/// Why a text is no address of a database. It shows no part of the text but a parameter's name that every client knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("That is no address of a database: {0}.")]
pub struct InvalidUrl(String);

/// What a password with signs in it is written as.
const CODES: &str = "in a name or a password @ is written %40, : %3A, / %2F, ? %3F, # %23, & %26 and % %25";

/// Refuses what a sign in a password makes of an address: the rest of the password would be looked up as a host.
fn spelled(rest: &str) -> Result<(), InvalidUrl> {
    let front = rest.split(['?', '#']).next().unwrap_or_default();
    let authority = front
        .trim_start_matches('/')
        .split('/')
        .next()
        .unwrap_or_default();
    if rest.contains('#')
        || front.matches('@').count() > 1
        || front.matches('@').count() > authority.matches('@').count()
    {
        return invalid(format!("a sign in it stands where none can; {CODES}"));
    }
    Ok(())
}

/// The address with a host where only a parameter names one, as clients of PostgreSQL write it: `postgres://user@/db?host=/run/postgresql`.
fn with_host(text: &str, rest: &str) -> String {
    let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
    let named = query
        .split('&')
        .any(|pair| pair.starts_with("host=") || pair.starts_with("socket="));
    match text.split_once("@/") {
        // Behind the account, and not in a parameter's value.
        Some((account, path)) if named && front.contains("@/") => format!("{account}@localhost/{path}"),
        _ => text.to_owned(),
    }
}

fn invalid<T>(why: impl Into<String>) -> Result<T, InvalidUrl> {
    Err(InvalidUrl(why.into()))
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Url")
            .field("engine", &self.engine)
            .field("place", &self.place)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}

impl std::str::FromStr for Url {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        Self::parse(text)
    }
}

impl Url {
    /// Reads an address: `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, and alike `mysql`, `mariadb`, `redis`, `rediss`, `mongodb`
    /// and `mongodb+srv`; `sqlite:PATH` or `sqlite:///PATH`. The other spellings of an engine ([`Engine::spellings`]) are schemes, too;
    /// `valkeys` is TLS as `rediss` is.
    ///
    /// A host that is not this machine is reached by TLS with a certificate that is checked, unless `?tls=off` or
    /// `?tls=unverified` says otherwise; `sslmode` and `ssl-mode` are understood as the engines' own clients do, `sslrootcert` and
    /// `ssl-ca` name a file of certificates. `?host=/FOLDER` (PostgreSQL) and `?socket=/FILE` (MySQL, Redis) name a Unix socket.
    ///
    /// # Errors
    /// The scheme is unknown, a part is missing, a parameter is unknown.
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let Some((scheme, rest)) = text.split_once(':') else {
            return invalid("it has no scheme such as postgres:");
        };
        let scheme = scheme.to_ascii_lowercase();
        let engine = match scheme.parse() {
            Ok(Engine::Sqlite) => return sqlite(text, rest),
            Ok(Engine::Mongodb) => return mongodb(rest, scheme == "mongodb+srv"),
            Ok(engine) => engine,
            Err(_) => {
                return invalid(
                    "its scheme is none of postgres mysql mariadb sqlite redis rediss valkey valkeys mongodb mongodb+srv",
                );
            }
        };
        if !rest.starts_with("//") {
            return invalid("behind the scheme two slashes are missing");
        }
        spelled(rest)?;
        let url =
            url::Url::parse(&with_host(text, rest)).or_else(|error| invalid(format!("{error}; {CODES}")))?;
        let mut parameters = parameters(&url)?;
        let tls = tls(&mut parameters)?;
        let roots = parameters
            .remove("sslrootcert")
            .or_else(|| parameters.remove("ssl-ca"))
            .filter(|path| path != "system")
            .map(PathBuf::from);
        let host = match (url.host(), engine) {
            (Some(url::Host::Domain(name)), _) => decoded(name)?,
            (Some(url::Host::Ipv4(ip)), _) => ip.to_string(),
            (Some(url::Host::Ipv6(ip)), _) => ip.to_string(),
            (None, _) => String::new(),
        };
        let place = place(engine, host, url.port(), &mut parameters)?;
        let named = |part: &str| (!part.is_empty()).then(|| decoded(part)).transpose();
        let user = named(url.username())?.or_else(|| parameters.remove("user"));
        let password = url
            .password()
            .map(decoded)
            .transpose()?
            .or_else(|| parameters.remove("password"));
        let database = named(url.path().trim_start_matches('/'))?.or_else(|| parameters.remove("dbname"));
        for harmless in [
            "application_name",
            "connect_timeout",
            "channel_binding",
            "target_session_attrs",
            "charset",
        ] {
            parameters.remove(harmless);
        }
        if let Some(key) = parameters.keys().next() {
            return invalid(unknown(key));
        }
        let local = match &place {
            Place::Tcp { host, .. } => is_loopback(host),
            _ => true,
        };
        Ok(Self {
            engine,
            tls: tls.unwrap_or(if local && !matches!(scheme.as_str(), "rediss" | "valkeys") {
                Tls::Off
            } else {
                Tls::Verified
            }),
            place,
            user,
            password,
            database,
            roots,
            given: text.to_owned(),
        })
    }

    /// Which kind of database it is.
    #[must_use]
    pub const fn engine(&self) -> Engine {
        self.engine
    }

    /// Whether a check at the door can tell that nobody listens in.
    #[must_use]
    pub fn is_encrypted_or_local(&self) -> bool {
        self.tls != Tls::Off
            || match &self.place {
                Place::Tcp { host, .. } => is_loopback(host),
                Place::Socket(_) | Place::File(_) => true,
                Place::Cluster => false,
            }
    }

    pub(crate) fn scrub(&self) -> Scrub {
        let raw = self.given.split_once("://").and_then(|(_, rest)| {
            let (account, _) = rest.rsplit_once('@')?;
            let (_, password) = account.split_once(':')?;
            Some(password.to_owned())
        });
        Scrub::of(
            [Some(self.given.clone()), self.password.clone(), raw]
                .into_iter()
                .flatten()
                .filter(|_| self.engine != Engine::Sqlite),
        )
    }
}

/// Parameters that clients of these engines know. Any other word may be a part of a password with an & in it, and is not repeated.
const KNOWN: &[&str] = &[
    "application_name",
    "channel_binding",
    "charset",
    "client_encoding",
    "collation",
    "connect_timeout",
    "connection_limit",
    "currentschema",
    "dbname",
    "fallback_application_name",
    "gssencmode",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_idle",
    "krbsrvname",
    "max_connections",
    "options",
    "passfile",
    "password",
    "pgbouncer",
    "pool_timeout",
    "port",
    "protocol",
    "replication",
    "require_auth",
    "requirepeer",
    "schema",
    "search_path",
    "serverTimezone",
    "service",
    "socket",
    "socket_timeout",
    "ssl",
    "ssl-ca",
    "ssl-cert",
    "ssl-key",
    "ssl-mode",
    "ssl_mode",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslpassword",
    "sslrootcert",
    "statement_cache_capacity",
    "statement_timeout",
    "target_session_attrs",
    "timezone",
    "tls",
    "user",
];

fn named(key: &str) -> Option<&'static str> {
    KNOWN
        .iter()
        .copied()
        .find(|known| known.eq_ignore_ascii_case(key))
}

fn unknown(key: &str) -> String {
    named(key).map_or_else(
        || format!("it has a parameter that is unknown; {CODES}"),
        |name| format!("the parameter {name} is not one that muster takes"),
    )
}

fn decoded(part: &str) -> Result<String, InvalidUrl> {
    percent_decode_str(part)
        .decode_utf8()
        .map(std::borrow::Cow::into_owned)
        .or_else(|_| invalid("a part of it is no UTF-8"))
}

fn parameters(url: &url::Url) -> Result<HashMap<String, String>, InvalidUrl> {
    let mut parameters = HashMap::new();
    for (key, value) in url.query_pairs() {
        if parameters
            .insert(key.to_ascii_lowercase(), value.into_owned())
            .is_some()
        {
            return invalid(match named(&key) {
                Some(name) => format!("the parameter {name} stands twice"),
                None => "a parameter stands twice".to_owned(),
            });
        }
    }
    Ok(parameters)
}

fn tls(parameters: &mut HashMap<String, String>) -> Result<Option<Tls>, InvalidUrl> {
    let mut chosen = None;
    for key in ["tls", "sslmode", "ssl-mode", "ssl_mode"] {
        let Some(word) = parameters.remove(key) else {
            continue;
        };
        chosen = match word.to_ascii_lowercase().replace('_', "-").as_str() {
            "off" | "disable" | "disabled" => Some(Tls::Off),
            "unverified" | "require" | "required" => Some(Tls::Unverified),
            "verified" | "on" | "true" | "verify-ca" | "verify-full" | "verify-identity" => {
                Some(Tls::Verified)
            }
            // These ask for the best that there is, which is the default.
            "prefer" | "preferred" | "allow" => chosen,
            _ if key == "tls" => return invalid("tls is one of off, unverified, verified"),
            _ => {
                return invalid(format!(
                    "{key} is one of disable, require (whose certificate it is, is not asked), verify-ca, verify-full"
                ));
            }
        };
    }
    Ok(chosen)
}

fn place(
    engine: Engine,
    host: String,
    port: Option<u16>,
    parameters: &mut HashMap<String, String>,
) -> Result<Place, InvalidUrl> {
    let usual = match engine {
        Engine::Postgres => 5432,
        Engine::Redis => 6379,
        _ => 3306,
    };
    let port = match parameters.remove("port").map(|port| port.parse()) {
        Some(Ok(port)) => port,
        Some(Err(_)) => return invalid("the port is no number"),
        None => port.unwrap_or(usual),
    };
    let host = match parameters.remove("host") {
        Some(named) => named,
        None => host,
    };
    if let Some(socket) = parameters.remove("socket") {
        return Ok(Place::Socket(PathBuf::from(socket)));
    }
    if host.starts_with('/') {
        let folder = PathBuf::from(host);
        return Ok(Place::Socket(if engine == Engine::Postgres {
            folder.join(format!(".s.PGSQL.{port}"))
        } else {
            folder
        }));
    }
    if host.contains(',') {
        return invalid("it names several hosts; name the one to read from");
    }
    Ok(Place::Tcp {
        host: if host.is_empty() {
            "localhost".to_owned()
        } else {
            host
        },
        port,
    })
}

pub(crate) fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().map_or_else(
        |_| {
            let name = bare.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        },
        |ip| ip.is_loopback(),
    )
}

fn sqlite(text: &str, rest: &str) -> Result<Url, InvalidUrl> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.contains('?') {
        return invalid("the path of a file takes no parameters");
    }
    let path = decoded(path)?;
    if path.is_empty() || path.contains('\0') || path.starts_with(':') {
        return invalid("it names no file");
    }
    Ok(Url {
        engine: Engine::Sqlite,
        place: Place::File(PathBuf::from(path)),
        user: None,
        password: None,
        database: None,
        tls: Tls::Off,
        roots: None,
        given: text.to_owned(),
    })
}

/// The driver reads the rest; what is needed here is whom it reaches and whether in the open.
fn mongodb(rest: &str, srv: bool) -> Result<Url, InvalidUrl> {
    let Some(rest) = rest.strip_prefix("//") else {
        return invalid("behind mongodb: two slashes are missing");
    };
    let (front, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (account, hosts) = front
        .rsplit_once('@')
        .map_or((None, front), |(account, hosts)| (Some(account), hosts));
    let (hosts, database) = hosts.split_once('/').unwrap_or((hosts, ""));
    if hosts.is_empty() {
        return invalid("it names no host");
    }
    let (user, password) = match account.map(|account| account.split_once(':').unwrap_or((account, ""))) {
        Some((user, password)) => (Some(decoded(user)?), Some(decoded(password)?)),
        None => (None, None),
    };
    let local = hosts.split(',').all(|host| {
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        is_loopback(name)
    });
    let says = |key: &str, word: &str| {
        query.split('&').any(|pair| {
            pair.split_once('=')
                .is_some_and(|(k, v)| k.eq_ignore_ascii_case(key) && v.eq_ignore_ascii_case(word))
        })
    };
    let tls = if says("tls", "false") || says("ssl", "false") {
        Tls::Off
    } else if says("tlsinsecure", "true") || says("tlsallowinvalidcertificates", "true") {
        Tls::Unverified
    } else if srv || !local || says("tls", "true") || says("ssl", "true") {
        Tls::Verified
    } else {
        Tls::Off
    };
    let mut one = hosts.split(',');
    let place = match (one.next(), one.next(), srv) {
        (Some(host), None, false) => match host.rsplit_once(':').map(|(name, port)| (name, port.parse())) {
            Some((name, Ok(port))) => Place::Tcp {
                host: name.to_owned(),
                port,
            },
            _ => Place::Tcp {
                host: host.to_owned(),
                port: 27017,
            },
        },
        _ => Place::Cluster,
    };
    Ok(Url {
        engine: Engine::Mongodb,
        place,
        user,
        password,
        database: (!database.is_empty()).then(|| decoded(database)).transpose()?,
        tls,
        roots: None,
        // The driver knows these two schemes alone.
        given: format!("mongodb{}://{rest}", if srv { "+srv" } else { "" }),
    })
}
