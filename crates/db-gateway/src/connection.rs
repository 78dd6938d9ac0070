//! A connection as the policy knows it: who holds the permit may read, or write, or ask what is there. Never runs a statement before it was classified, and never believes a permit for another connection.

use std::time::Duration;

use muster_policy::{Action, Permit, Resource};

use crate::address::Url;
use crate::answer::{Answer, Rows};
use crate::catalogue::{Description, Guarantee, Listed, Object, Schema, Wide};
use crate::classify::{Class, Verdict, classify_connected};
use crate::error::Error;
use crate::limits::Limits;
use crate::{mongodb, mysql, postgres, redis, sqlite};
use muster_core::engine::Engine;

/// How long a server has to say who it is and what an account may do.
const PATIENCE: Duration = Duration::from_secs(20);

/// One database with the account that reads it, and perhaps one that writes it.
pub struct Connection {
    resource: Resource,
    read: Server,
    write: Option<Server>,
    private: bool,
}

/// What a connection runs on.
enum Server {
    Postgres(postgres::Server),
    Mysql(mysql::Server),
    Sqlite(sqlite::File),
    Redis(redis::Server),
    Mongodb(mongodb::Server),
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("resource", &self.resource.id())
            .field("engine", &self.engine())
            .finish_non_exhaustive()
    }
}

impl Server {
    fn new(url: Url) -> Self {
        match url.engine {
            Engine::Postgres => Self::Postgres(postgres::Server::new(url)),
            Engine::Mysql | Engine::Mariadb => Self::Mysql(mysql::Server::new(url)),
            Engine::Sqlite => Self::Sqlite(sqlite::File::new(&url)),
            Engine::Redis => Self::Redis(redis::Server::new(url)),
            Engine::Mongodb => Self::Mongodb(mongodb::Server::new(url)),
        }
    }

    const fn engine(&self) -> Engine {
        match self {
            Self::Postgres(_) => Engine::Postgres,
            Self::Mysql(server) => server.engine(),
            Self::Sqlite(_) => Engine::Sqlite,
            Self::Redis(_) => Engine::Redis,
            Self::Mongodb(_) => Engine::Mongodb,
        }
    }

    async fn read(&self, statement: &str, limits: Limits) -> Result<Answer, Error> {
        match self {
            Self::Postgres(server) => server.query(statement, limits).await.map(Answer::Rows),
            Self::Mysql(server) => server.read(statement, limits).await.map(Answer::Rows),
            Self::Sqlite(file) => file.read(statement, limits).await.map(Answer::Rows),
            Self::Redis(server) => server.read(statement, limits).await,
            Self::Mongodb(server) => server.read(statement, limits).await,
        }
    }

    async fn version(&self) -> Result<String, Error> {
        match self {
            Self::Postgres(server) => server.version().await,
            Self::Mysql(server) => server.version().await,
            Self::Sqlite(file) => file.version().await,
            Self::Redis(server) => server.version().await,
            Self::Mongodb(server) => server.version().await,
        }
    }

    async fn write(&self, statement: &str, limits: Limits) -> Result<Answer, Error> {
        match self {
            Self::Postgres(server) => given_up(server.write(statement, limits).await),
            Self::Mysql(server) => given_up(server.write(statement, limits).await),
            Self::Sqlite(file) => file.write(statement, limits).await.map(Answer::Rows),
            Self::Redis(server) => server.write(statement, limits).await,
            Self::Mongodb(server) => server.write(statement, limits).await,
        }
    }
}

/// What the server stopped at its limit may be done in part: an engine without transactions keeps the rows that it had reached, and a procedure
/// what it had committed.
fn given_up(answer: Result<Rows, Error>) -> Result<Answer, Error> {
    match answer {
        Err(Error::TimedOut { after }) => Err(Error::GivenUp { after }),
        answer => answer.map(Answer::Rows),
    }
}

/// Whether an engine's own code says that the account has no right to what it asked for.
fn lacks_rights(engine: Engine, code: &str) -> bool {
    match engine {
        Engine::Postgres => code == "42501",
        // To a database, a table, a column, a routine; or one of the server's own rights.
        Engine::Mysql | Engine::Mariadb => matches!(code, "1044" | "1142" | "1143" | "1370" | "1227"),
        Engine::Redis => code == "NOPERM",
        Engine::Mongodb => code == "13",
        // A file has no accounts.
        Engine::Sqlite => false,
    }
}

impl Connection {
    /// Puts together a connection; nothing is reached yet. Without `write` the account of `read` writes, too.
    ///
    /// # Errors
    /// `resource` is no connection to a database, or the two addresses are of different engines.
    pub fn new(resource: Resource, read: Url, write: Option<Url>) -> Result<Self, Error> {
        if resource.kind() != muster_policy::ScopeKind::DbConnection {
            return Err(Error::Invalid(
                "A database is reached as a db_connection".to_owned(),
            ));
        }
        let family = |engine: Engine| {
            if engine == Engine::Mariadb {
                Engine::Mysql
            } else {
                engine
            }
        };
        if let Some(write) = &write
            && family(write.engine()) != family(read.engine())
        {
            return Err(Error::Invalid(
                "The account that writes is on another kind of database".to_owned(),
            ));
        }
        let private = read.is_encrypted_or_local() && write.as_ref().is_none_or(Url::is_encrypted_or_local);
        Ok(Self {
            resource,
            read: Server::new(read),
            write: write.map(Server::new),
            private,
        })
    }

    /// Which kind of database it is.
    #[must_use]
    pub const fn engine(&self) -> Engine {
        self.read.engine()
    }

    /// What a permit must name.
    #[must_use]
    pub const fn resource(&self) -> &Resource {
        &self.resource
    }

    /// What a statement would need here; nothing is sent. What that leaves open is asked of the server when it is read.
    #[must_use]
    pub fn classify(&self, statement: &str) -> Verdict {
        classify_connected(self.engine(), statement)
    }

    fn holds(&self, permit: &Permit, action: Action) -> Result<(), Error> {
        if permit.covers(action, &self.resource) {
            Ok(())
        } else {
            Err(Error::NotPermitted {
                missing: action.as_str(),
            })
        }
    }

    /// Runs a statement that only reads, so that nothing it does stays.
    ///
    /// When the future is dropped, the server is told to stop.
    ///
    /// # Errors
    /// No `db_read` for this connection; a verdict other than read; what the engine answers; a limit of time.
    pub async fn read(&self, permit: &Permit, statement: &str, limits: Limits) -> Result<Answer, Error> {
        self.holds(permit, Action::DbRead)?;
        let verdict = self.classify(statement);
        if verdict.class != Class::Read {
            return Err(Error::Gate { verdict });
        }
        self.read.read(statement, limits).await
    }

    /// Runs a statement that may write; `write` is what the caller said about it. A statement that only reads is run as
    /// [`Connection::read`] runs it.
    ///
    /// # Errors
    /// No `db_read` or no `db_write` for this connection; `write` is false; the verdict refuse; what the engine answers.
    pub async fn write(
        &self,
        permit: &Permit,
        statement: &str,
        write: bool,
        limits: Limits,
    ) -> Result<Answer, Error> {
        self.holds(permit, Action::DbRead)?;
        self.holds(permit, Action::DbWrite)?;
        let verdict = self.classify(statement);
        let writing = self.write.as_ref().unwrap_or(&self.read);
        match verdict.class {
            Class::Refuse => Err(Error::Gate { verdict }),
            _ if !write => Err(Error::Gate {
                verdict: Verdict {
                    reason: "the call does not say write: true".into(),
                    ..verdict
                },
            }),
            Class::Read => match self.read.read(statement, limits).await {
                // The server has a function of which the class could not know: nothing ran yet, and this call may write.
                Err(Error::Gate { verdict }) if verdict.class == Class::Write => {
                    self.told(writing.write(statement, limits).await)
                }
                answer => answer,
            },
            Class::Write => self.told(writing.write(statement, limits).await),
        }
    }

    /// A write that was refused to the account that reads, where there is no other.
    fn told(&self, answer: Result<Answer, Error>) -> Result<Answer, Error> {
        match answer {
            Err(Error::Engine { code, message, .. })
                if self.write.is_none() && lacks_rights(self.engine(), &code) =>
            {
                Err(Error::MayNotWrite { code, message })
            }
            answer => answer,
        }
    }

    /// The schemas; says whether the list was cut.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub async fn schemas(&self, permit: &Permit, limits: Limits) -> Result<Listed<Schema>, Error> {
        self.holds(permit, Action::DbRead)?;
        match &self.read {
            Server::Postgres(server) => server.schemas(limits).await,
            Server::Mysql(server) => server.schemas(limits).await,
            Server::Sqlite(file) => file.schemas(limits).await,
            Server::Redis(server) => server.schemas(limits).await,
            Server::Mongodb(server) => server.schemas(limits).await,
        }
    }

    /// Tables, views and their like, of one schema or of all that are not the engine's own; says whether the list was cut.
    ///
    /// # Errors
    /// As [`Connection::read`].
    pub async fn objects(
        &self,
        permit: &Permit,
        schema: Option<&str>,
        limits: Limits,
    ) -> Result<Listed<Object>, Error> {
        self.holds(permit, Action::DbRead)?;
        match &self.read {
            Server::Postgres(server) => server.objects(schema, limits).await,
            Server::Mysql(server) => server.objects(schema, limits).await,
            Server::Sqlite(file) => file.objects(schema, limits).await,
            Server::Redis(server) => server.objects(limits).await,
            Server::Mongodb(server) => server.objects(limits).await,
        }
    }

    /// What an object, `NAME` or `SCHEMA.NAME`, is made of.
    ///
    /// # Errors
    /// [`Error::NotFound`]; as [`Connection::read`].
    pub async fn describe(
        &self,
        permit: &Permit,
        object: &str,
        limits: Limits,
    ) -> Result<Description, Error> {
        self.holds(permit, Action::DbRead)?;
        match &self.read {
            Server::Postgres(server) => server.describe(object, limits).await,
            Server::Mysql(server) => server.describe(object, limits).await,
            Server::Sqlite(file) => file.describe(object, limits).await,
            Server::Redis(server) => server.describe(object, limits).await,
            Server::Mongodb(server) => server.describe(object, limits).await,
        }
    }

    /// The first rows of an object, or with `sample` rows from all over it; at most `rows` and the limit.
    ///
    /// # Errors
    /// [`Error::NotFound`]; as [`Connection::read`].
    pub async fn preview(
        &self,
        permit: &Permit,
        object: &str,
        rows: usize,
        sample: bool,
        limits: Limits,
    ) -> Result<Answer, Error> {
        self.holds(permit, Action::DbRead)?;
        let rows = rows.min(limits.rows);
        match &self.read {
            Server::Postgres(server) => server
                .preview(object, rows, sample, limits)
                .await
                .map(Answer::Rows),
            Server::Mysql(server) => server
                .preview(object, rows, sample, limits)
                .await
                .map(Answer::Rows),
            Server::Sqlite(file) => file.preview(object, rows, sample, limits).await.map(Answer::Rows),
            Server::Redis(server) => server.preview(object, rows, limits).await,
            Server::Mongodb(server) => server.preview(object, rows, sample, limits).await,
        }
    }

    /// How the engine would run a statement. It is not run, unless it says itself that it is to be analysed and only reads.
    ///
    /// # Errors
    /// A statement that is refused, or that would be run and writes; as [`Connection::read`].
    pub async fn explain(
        &self,
        permit: &Permit,
        statement: &str,
        limits: Limits,
    ) -> Result<serde_json::Value, Error> {
        self.holds(permit, Action::DbRead)?;
        let asked = explaining(self.engine(), statement);
        let verdict = classify_explained(self.engine(), statement);
        if verdict.class != Class::Read {
            return Err(Error::Gate { verdict });
        }
        match &self.read {
            Server::Postgres(server) => server
                .explain(&asked, limits)
                .await
                .map(serde_json::Value::String),
            Server::Mysql(server) => server
                .explain(&asked, limits)
                .await
                .map(serde_json::Value::String),
            Server::Sqlite(file) => file.explain(&asked, limits).await.map(serde_json::Value::String),
            Server::Redis(server) => server.explain(&asked, limits).await,
            Server::Mongodb(server) => server.explain(&asked, limits).await,
        }
    }

    /// Whether the account that reads may do more, and the statements that make one which may not. For the owner; nothing of
    /// the data is read.
    ///
    /// # Errors
    /// The server is not reached or does not tell.
    pub async fn wide(&self) -> Result<Wide, Error> {
        soon(async {
            match &self.read {
                Server::Postgres(server) => server.wide().await,
                Server::Mysql(server) => server.wide().await,
                Server::Sqlite(_) => Ok(Wide::default()),
                Server::Redis(server) => server.wide().await,
                Server::Mongodb(server) => server.wide().await,
            }
        })
        .await
    }

    /// Reaches the server once and says what it is. For the owner.
    ///
    /// # Errors
    /// The server is not reached.
    pub async fn test(&self) -> Result<String, Error> {
        soon(self.read.version()).await
    }

    /// The same with the account that writes, where there is one of its own. Nothing is written. For the owner.
    ///
    /// # Errors
    /// The server is not reached.
    pub async fn test_write(&self) -> Result<Option<String>, Error> {
        match &self.write {
            None => Ok(None),
            Some(server) => soon(server.version()).await.map(Some),
        }
    }

    fn private_way(&self) -> Guarantee {
        let id = "private_way";
        if self.private {
            Guarantee::held(
                id,
                "Read the address: the way to the server is encrypted, or does not leave this machine.",
            )
        } else {
            Guarantee::broken(
                id,
                "Read the address: the way to the server leaves this machine and is not encrypted, so whoever listens on it reads the password and the data. Add the connection again without tls=off in its address, or reach the server through a tunnel.",
            )
        }
    }

    /// What [`Connection::check`] finds where the server was just not reached and its account was never looked at. Nothing is tried.
    #[must_use]
    pub fn unreached(&self, error: &Error) -> Vec<Guarantee> {
        vec![
            self.private_way(),
            Guarantee::not_reached(error),
            Guarantee::broken(
                "narrow_account",
                "The account was not looked at yet. Nothing is read until it was, which happens at the first use that reaches the server.",
            ),
        ]
    }

    /// What [`Connection::check`] finds where the account was just looked at for the first time and may do more than read, which its owner did
    /// not accept. Nothing else is tried.
    #[must_use]
    pub fn unread(&self, found: &Wide) -> Vec<Guarantee> {
        vec![
            self.private_way(),
            Guarantee::held("reachable", "Reached it: it said what the account may do."),
            Guarantee::broken(
                "narrow_account",
                format!(
                    "Asked the server what the account may do: more than read. {} So nothing is read through it, and nothing else was tried. Remove the connection and add it with an account that only reads (muster db test prints the statements that make one), or take this one with --accept-wide-account.",
                    found.reasons.join(" ")
                ),
            ),
        ]
    }

    /// Tries on the live connection what the gateway promises, and leaves nothing behind. For the owner.
    pub async fn check(&self) -> Vec<Guarantee> {
        let mut found = vec![self.private_way()];
        let tried = async {
            match &self.read {
                Server::Postgres(server) => server.check().await,
                Server::Mysql(server) => server.check().await,
                Server::Sqlite(file) => file.check().await,
                Server::Redis(server) => server.check().await,
                Server::Mongodb(server) => server.check().await,
            }
        };
        match tokio::time::timeout(3 * PATIENCE, tried).await {
            Ok(mut tried) => found.append(&mut tried),
            Err(_) => found.push(Guarantee::broken(
                "reachable",
                "The server did not answer to the end of the tries.",
            )),
        }
        found
    }
}

/// A server that takes a connection and says nothing is none.
async fn soon<T>(answer: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let silent = |patience: Duration| {
        Err(Error::Unreachable {
            why: format!("no whole answer came within {} s", patience.as_secs_f64()),
            away: true,
        })
    };
    match tokio::time::timeout(PATIENCE, answer).await {
        Ok(Err(Error::TimedOut { after } | Error::Unanswered { after })) => silent(after),
        Ok(answer) => answer,
        Err(_) => silent(PATIENCE),
    }
}

/// What [`Connection::explain`] of a statement would need: a read, unless the statement says itself that it is run and does more.
#[must_use]
pub fn classify_explained(engine: Engine, statement: &str) -> Verdict {
    classify_connected(engine, &explaining(engine, statement))
}

/// The statement with the engine's word for a plan before it, unless it has one.
fn explaining(engine: Engine, statement: &str) -> String {
    let has = |words: &[&str]| {
        let rest = statement.trim_start();
        words.iter().any(|word| {
            rest.get(..word.len())
                .is_some_and(|front| front.eq_ignore_ascii_case(word))
        })
    };
    match engine {
        Engine::Postgres if !has(&["explain"]) => format!("EXPLAIN {statement}"),
        Engine::Mysql | Engine::Mariadb if !has(&["explain", "describe", "desc ", "analyze"]) => {
            format!("EXPLAIN FORMAT=JSON {statement}")
        }
        Engine::Sqlite if !has(&["explain"]) => format!("EXPLAIN QUERY PLAN {statement}"),
        Engine::Mongodb if !has(&["{\"explain\"", "{ \"explain\""]) => {
            format!("{{\"explain\":{statement},\"verbosity\":\"queryPlanner\"}}")
        }
        _ => statement.to_owned(),
    }
}
