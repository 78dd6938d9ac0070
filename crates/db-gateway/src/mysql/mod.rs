//! MySQL and MariaDB: every read with the session and the transaction read-only, as a prepared statement, rolled back and the session reset. Never reads a local file for the server.

mod check;
mod describe;
mod values;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, DriverError, IoError, Opts, OptsBuilder, Params, SslOpts, Value};

use crate::address::{Place, Tls, Url};
use crate::answer::{Cell, Collector, Column, Rows};
use crate::classify::mysql::without_hash;
use crate::error::{Error, Scrub};
use crate::limits::Limits;
use crate::{net, stopping};
use muster_core::engine::Engine;

const MAX_IDLE: usize = 4;
const IDLE_FOR: Duration = Duration::from_secs(60);
/// A row larger than this is an error of the connection, whatever the limits say.
const LARGEST_PACKET: usize = 32 * 1024 * 1024;

pub(crate) struct Server {
    opts: Opts,
    scrub: Scrub,
    engine: Engine,
    idle: Mutex<Vec<(Conn, Instant)>>,
}

fn options(url: &Url) -> Opts {
    let mut builder = OptsBuilder::default()
        .user(url.user.clone())
        .pass(url.password.clone())
        .db_name(url.database.clone())
        .prefer_socket(false)
        .stmt_cache_size(0)
        .max_allowed_packet(Some(LARGEST_PACKET))
        .wait_timeout(Some(28_800))
        .tcp_nodelay(true)
        .client_found_rows(false);
    builder = match &url.place {
        Place::Tcp { host, port } => builder.ip_or_hostname(host.clone()).tcp_port(*port),
        Place::Socket(path) => builder.socket(Some(path.to_string_lossy().into_owned())),
        Place::File(_) | Place::Cluster => builder,
    };
    let over_tcp = matches!(url.place, Place::Tcp { .. });
    let ssl = (url.tls != Tls::Off && over_tcp).then(|| {
        let roots = url.roots.iter().map(|path| path.clone().into()).collect();
        let any = url.tls == Tls::Unverified;
        SslOpts::default()
            .with_root_certs(roots)
            .with_danger_accept_invalid_certs(any)
            .with_danger_skip_domain_validation(any)
    });
    builder.ssl_opts(ssl).into()
}

impl Server {
    pub(crate) fn new(url: Url) -> Self {
        Self {
            opts: options(&url),
            scrub: url.scrub(),
            engine: url.engine,
            idle: Mutex::new(Vec::new()),
        }
    }

    pub(crate) const fn engine(&self) -> Engine {
        self.engine
    }

    async fn connect(&self, limits: Limits) -> Result<Conn, Error> {
        let patience = limits.connecting();
        tokio::time::timeout(patience, Conn::new(self.opts.clone()))
            .await
            .map_err(|_| self.scrub.silent(patience))?
            .map_err(|error| {
                if does_not_let_in(&error) {
                    self.scrub.not_let_in(said(&error))
                } else {
                    self.scrub.closed(said(&error), nobody_there(&error))
                }
            })
    }

    /// One that is kept and still there, else a new one.
    async fn session(&self, limits: Limits) -> Result<Conn, Error> {
        let reaching = async {
            loop {
                let taken = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
                match taken {
                    Some((mut conn, since)) if since.elapsed() < IDLE_FOR => {
                        if conn.ping().await.is_ok() {
                            return Ok(conn);
                        }
                    }
                    Some(_) => {}
                    None => return self.connect(limits).await,
                }
            }
        };
        let patience = limits.connecting();
        tokio::time::timeout(patience, reaching)
            .await
            .unwrap_or_else(|_| Err(self.scrub.silent(patience)))
    }

    fn error(&self, error: &mysql_async::Error, limits: Limits) -> Error {
        match error {
            mysql_async::Error::Server(server) if matches!(server.code, 1317 | 1969 | 3024) => {
                Error::TimedOut { after: limits.time }
            }
            mysql_async::Error::Server(server) if server.code == PASSWORD_EXPIRED => {
                self.scrub.not_let_in(said(error))
            }
            mysql_async::Error::Server(server) => Error::Engine {
                code: server.code.to_string(),
                message: self.scrub.clean(&server.message),
                position: None,
            },
            mysql_async::Error::Driver(DriverError::PacketTooLarge) => {
                Error::Invalid("A row is larger than 32 MiB; ask for less of it".to_owned())
            }
            mysql_async::Error::Driver(DriverError::StmtParamsMismatch { .. }) => {
                Error::Invalid("A statement has no parameters; write the values out".to_owned())
            }
            other => self.scrub.unreachable(said(other)),
        }
    }

    /// One statement that cannot leave a trace.
    pub(crate) async fn read(&self, statement: &str, limits: Limits) -> Result<Rows, Error> {
        self.read_with(statement, Vec::new(), limits).await
    }

    pub(crate) async fn read_with(
        &self,
        statement: &str,
        values: Vec<Value>,
        limits: Limits,
    ) -> Result<Rows, Error> {
        tokio::time::timeout(limits.hang_up(), async {
            let mut conn = self.session(limits).await?;
            let mut canceller = Canceller::armed(&self.opts, conn.id());
            self.guard(&mut conn, limits).await?;
            let answer = self.run(&mut conn, statement, values, limits, true).await;
            let clean = conn.query_drop("ROLLBACK").await.is_ok() && conn.reset().await.unwrap_or(false);
            canceller.armed = false;
            if clean {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                if idle.len() < MAX_IDLE {
                    idle.push((conn, Instant::now()));
                }
            }
            answer
        })
        .await
        .unwrap_or(Err(Error::Unanswered { after: limits.time }))
    }

    /// The session first, or DDL would commit the transaction implicitly and then run; then the transaction; then a look
    /// whether it took.
    async fn guard(&self, conn: &mut Conn, limits: Limits) -> Result<(), Error> {
        let unguarded = |error: mysql_async::Error| match &error {
            mysql_async::Error::Server(server) if server.code == PASSWORD_EXPIRED => {
                self.scrub.not_let_in(said(&error))
            }
            _ => Error::Unguarded {
                why: self.scrub.clean(&said(&error)),
            },
        };
        let maria = is_maria(conn).await.map_err(unguarded)?;
        let milliseconds = limits.milliseconds();
        let seconds = (milliseconds / 1000).max(1);
        let longest = if maria {
            format!(
                "SESSION max_statement_time = {}.{:03}",
                milliseconds / 1000,
                milliseconds % 1000
            )
        } else {
            format!("SESSION max_execution_time = {milliseconds}")
        };
        conn.query_drop("SET SESSION TRANSACTION READ ONLY")
            .await
            .map_err(unguarded)?;
        conn.query_drop(format!(
            "SET {longest}, SESSION lock_wait_timeout = {seconds}, SESSION time_zone = '+00:00'"
        ))
        .await
        .map_err(unguarded)?;
        conn.query_drop("START TRANSACTION READ ONLY")
            .await
            .map_err(unguarded)?;
        let asked = if maria {
            "SELECT @@session.tx_read_only"
        } else {
            "SELECT @@session.transaction_read_only"
        };
        let on: Option<i64> = conn.query_first(asked).await.map_err(unguarded)?;
        if on == Some(1) {
            Ok(())
        } else {
            Err(Error::Unguarded {
                why: "the server says that the session may write".to_owned(),
            })
        }
    }

    async fn run(
        &self,
        conn: &mut Conn,
        statement: &str,
        values: Vec<Value>,
        limits: Limits,
        may_cut: bool,
    ) -> Result<Rows, Error> {
        let fail = |error: &mysql_async::Error| self.error(error, limits);
        let params = if values.is_empty() {
            Params::Empty
        } else {
            Params::Positional(values)
        };
        let prepared = conn.prep(statement).await.map_err(|error| fail(&error))?;
        if prepared.num_params() > 0 && matches!(params, Params::Empty) {
            return Err(Error::Invalid(
                "A statement has no parameters; write the values out".to_owned(),
            ));
        }
        let mut result = conn
            .exec_iter(&prepared, params)
            .await
            .map_err(|error| fail(&error))?;
        let described = result.columns().unwrap_or_else(|| std::sync::Arc::from([]));
        let mut collector = Collector::new(limits);
        collector.rows.columns = described
            .iter()
            .map(|column| Column {
                name: column.name_str().into_owned(),
                kind: values::type_name(column),
            })
            .collect();
        // SHOW GRANTS tells the hash of the account's own password with its rights.
        let of_grants = described
            .first()
            .is_some_and(|column| column.name_str().starts_with("Grants for "));
        let mut full = false;
        while let Some(row) = result.next().await.map_err(|error| fail(&error))? {
            if full {
                continue;
            }
            let cells = described
                .iter()
                .zip(row.unwrap())
                .map(|(column, value)| values::cell(column, value))
                .map(|cell| match cell {
                    Cell::Text(grant) if of_grants => Cell::Text(without_hash(&grant).unwrap_or(grant)),
                    other => other,
                })
                .collect();
            full = !collector.push(cells);
            if full && may_cut {
                break;
            }
        }
        let affected = result.affected_rows();
        if full && may_cut {
            // What is left is not read: the connection goes, and its statement with it.
            drop(result);
            kill(self.opts.clone(), conn.id()).await;
            return Ok(collector.rows);
        }
        result.drop_result().await.map_err(|error| fail(&error))?;
        if described.is_empty() || affected > 0 {
            collector.rows.affected = (!may_cut).then_some(affected);
        }
        self.name_json(conn, &described, &mut collector.rows).await;
        Ok(collector.rows)
    }

    /// MariaDB says of a JSON column only that it is long text; its check says the rest.
    async fn name_json(&self, conn: &mut Conn, described: &[mysql_async::Column], rows: &mut Rows) {
        for (at, column) in described.iter().enumerate() {
            if !values::may_be_json(column) {
                continue;
            }
            let found: Option<i64> = conn
                .exec_first(
                    "SELECT COUNT(*) FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = ? AND TABLE_NAME = ? \
                     AND CONSTRAINT_NAME = ? AND CHECK_CLAUSE LIKE 'json_valid(%'",
                    (
                        column.schema_str().into_owned(),
                        column.org_table_str().into_owned(),
                        column.org_name_str().into_owned(),
                    ),
                )
                .await
                .unwrap_or_default();
            if found.unwrap_or(0) == 0 {
                continue;
            }
            if let Some(named) = rows.columns.get_mut(at) {
                "json".clone_into(&mut named.kind);
            }
            for cell in rows.rows.iter_mut().filter_map(|row| row.get_mut(at)) {
                if let Cell::Text(text) = cell {
                    *cell = Cell::json(text);
                }
            }
        }
    }

    /// One statement that may write, on a connection of its own.
    pub(crate) async fn write(&self, statement: &str, limits: Limits) -> Result<Rows, Error> {
        tokio::time::timeout(limits.hang_up(), async {
            let mut conn = self.connect(limits).await?;
            let mut canceller = Canceller::armed(&self.opts, conn.id());
            let fail = |error: mysql_async::Error| self.error(&error, limits);
            let milliseconds = limits.milliseconds();
            let seconds = (milliseconds / 1000).max(1);
            let mut set = format!("SET SESSION lock_wait_timeout = {seconds}, SESSION time_zone = '+00:00'");
            if is_maria(&mut conn).await.map_err(fail)? {
                set = format!(
                    "{set}, SESSION max_statement_time = {}.{:03}",
                    milliseconds / 1000,
                    milliseconds % 1000
                );
            }
            conn.query_drop(set).await.map_err(fail)?;
            let answer = self.run(&mut conn, statement, Vec::new(), limits, false).await;
            canceller.armed = false;
            let _ = conn.disconnect().await;
            answer
        })
        .await
        .unwrap_or(Err(Error::GivenUp { after: limits.time }))
    }
}

async fn is_maria(conn: &mut Conn) -> Result<bool, mysql_async::Error> {
    let version: Option<String> = conn.query_first("SELECT VERSION()").await?;
    Ok(version.is_some_and(|version| version.to_ascii_lowercase().contains("mariadb")))
}

/// Codes of a server that knows who asks and does not let them in, whatever the state beside them: a wrong name or password, no right to the
/// database, no such database, an account that is locked or whose password has expired. MySQL and MariaDB share the first ones.
const NOT_LET_IN: [u16; 8] = [1044, 1045, 1049, 1698, PASSWORD_EXPIRED, 1862, 3118, 4151];
/// Some servers let such an account sign in, and then run nothing but a change of its password.
const PASSWORD_EXPIRED: u16 = 1820;

/// Whether an error of a connection that begins means that the account or the database of the address is not taken, by the server or by the
/// ways to sign in that the driver will not go.
fn does_not_let_in(error: &mysql_async::Error) -> bool {
    match error {
        mysql_async::Error::Server(server) => server.state == "28000" || NOT_LET_IN.contains(&server.code),
        mysql_async::Error::Driver(
            DriverError::UnknownAuthPlugin { .. }
            | DriverError::CleartextPluginDisabled
            | DriverError::MysqlOldPasswordDisabled,
        ) => true,
        _ => false,
    }
}

/// Whether an error means that nobody was there.
fn nobody_there(error: &mysql_async::Error) -> bool {
    matches!(error, mysql_async::Error::Io(IoError::Io(error)) if net::nobody_there(error))
}

/// The driver's errors show packets and options in Debug; only their sentences leave.
fn said(error: &mysql_async::Error) -> String {
    match error {
        mysql_async::Error::Server(server) => format!("{} ({})", server.message, server.code),
        mysql_async::Error::Driver(DriverError::UnexpectedPacket { .. }) => {
            "the server sent what nobody understands".to_owned()
        }
        other => other.to_string(),
    }
}

/// Ends a connection that is not used again. Ending its statement alone would not do: what lies with the server and has not begun yet would
/// begin afterwards, and nobody would be there to end it.
async fn kill(opts: Opts, id: u32) {
    let asking = async {
        if let Ok(mut conn) = Conn::new(opts).await {
            // It may be gone by now, and then there is nothing to end.
            let _ = conn.query_drop(format!("KILL CONNECTION {id}")).await;
            let _ = conn.disconnect().await;
        }
    };
    let _ = tokio::time::timeout(Duration::from_secs(10), asking).await;
}

/// Ends on a second connection what the first one runs, unless disarmed.
struct Canceller {
    opts: Opts,
    id: u32,
    armed: bool,
}

impl Canceller {
    fn armed(opts: &Opts, id: u32) -> Self {
        Self {
            opts: opts.clone(),
            id,
            armed: true,
        }
    }
}

impl Drop for Canceller {
    fn drop(&mut self) {
        if self.armed {
            stopping::spawn(kill(self.opts.clone(), self.id));
        }
    }
}
