//! What the suites share: a raw look past muster's own API, rows of any shape, children that run one test again. Never asserts a law.

use std::process::{Command, Output};
use std::str::FromStr as _;
use std::time::{Duration, Instant};

use muster_core::Fault;
use muster_core::ids::OwnerId;
use muster_store::{Db, Engine, JobFuture, Options, Sql, Topic, Tx, system};
use muster_testkit::{TestMuster, postgres_admin_url};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Column as _, Connection as _, Executor as _, FromRow, Row as _};

/// One value of a row whose shape the test does not know.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Bool(bool),
    Text(String),
}

/// A row of any shape: the columns' names and values.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loose(pub(crate) Vec<(String, Cell)>);

macro_rules! loose {
    ($row:ty) => {
        impl<'r> FromRow<'r, $row> for Loose {
            fn from_row(row: &'r $row) -> Result<Self, sqlx::Error> {
                let cell = |at: usize| {
                    // Each engine refuses to decode a value as another kind, so the first kind that fits is its kind.
                    if let Ok(value) = row.try_get::<Option<i64>, _>(at) {
                        return Ok(value.map_or(Cell::Null, Cell::Int));
                    }
                    if let Ok(value) = row.try_get::<Option<bool>, _>(at) {
                        return Ok(value.map_or(Cell::Null, Cell::Bool));
                    }
                    row.try_get::<Option<String>, _>(at)
                        .map(|value| value.map_or(Cell::Null, Cell::Text))
                };
                row.columns()
                    .iter()
                    .enumerate()
                    .map(|(at, column)| Ok((column.name().to_owned(), cell(at)?)))
                    .collect::<Result<_, sqlx::Error>>()
                    .map(Loose)
            }
        }
    };
}

loose!(SqliteRow);
loose!(PgRow);

impl Loose {
    /// The first value as text.
    pub(crate) fn text(&self) -> String {
        self.texts().remove(0)
    }

    /// Every value as text; NULL is a dash.
    pub(crate) fn texts(&self) -> Vec<String> {
        let text = |cell: &Cell| match cell {
            Cell::Null => "-".to_owned(),
            Cell::Int(n) => n.to_string(),
            Cell::Bool(b) => b.to_string(),
            Cell::Text(t) => t.clone(),
        };
        self.0.iter().map(|(_, cell)| text(cell)).collect()
    }
}

/// A connection past muster's API: the file itself, or the superuser, whom row-level security does not bind.
pub(crate) enum Raw {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Raw {
    pub(crate) async fn of(muster: &TestMuster) -> Self {
        Self::at(&muster.url).await
    }

    pub(crate) async fn at(url: &str) -> Self {
        match url.strip_prefix("sqlite://") {
            Some(path) => Self::Sqlite(sqlite(path).await),
            None => {
                let name = PgConnectOptions::from_str(url)
                    .unwrap()
                    .get_database()
                    .unwrap()
                    .to_owned();
                let admin = PgConnectOptions::from_str(&postgres_admin_url())
                    .unwrap()
                    .database(&name);
                Self::Postgres(PgConnection::connect_with(&admin).await.unwrap())
            }
        }
    }

    /// Closes it and waits for that: the last to leave a SQLite file tidies it up.
    pub(crate) async fn close(self) {
        match self {
            Self::Sqlite(conn) => conn.close().await.unwrap(),
            Self::Postgres(conn) => conn.close().await.unwrap(),
        }
    }

    /// As muster's own role, with no setting of an owner.
    pub(crate) async fn as_muster(url: &str) -> PgConnection {
        PgConnection::connect_with(&PgConnectOptions::from_str(url).unwrap())
            .await
            .unwrap()
    }

    pub(crate) async fn rows(&mut self, text: &str) -> Vec<Loose> {
        self.try_rows(text)
            .await
            .unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    pub(crate) async fn try_rows(&mut self, text: &str) -> Result<Vec<Loose>, sqlx::Error> {
        let text = AssertSqlSafe(text.to_owned());
        match self {
            Self::Sqlite(conn) => sqlx::query_as(text).fetch_all(conn).await,
            Self::Postgres(conn) => sqlx::query_as(text).fetch_all(conn).await,
        }
    }

    /// Runs a statement and answers how many rows it changed.
    pub(crate) async fn run(&mut self, text: &str) -> Result<u64, sqlx::Error> {
        let text = AssertSqlSafe(text.to_owned());
        match self {
            Self::Sqlite(conn) => conn.execute(text).await.map(|done| done.rows_affected()),
            Self::Postgres(conn) => conn.execute(text).await.map(|done| done.rows_affected()),
        }
    }

    pub(crate) async fn number(&mut self, text: &str) -> i64 {
        match self.rows(text).await.first().map(|row| row.0[0].1.clone()) {
            Some(Cell::Int(n)) => n,
            other => panic!("{text} answered {other:?}"),
        }
    }

    /// muster's own tables, in order.
    pub(crate) async fn tables(&mut self) -> Vec<String> {
        let text = match self {
            Self::Sqlite(_) => {
                "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' AND name <> '_sqlx_migrations' ORDER BY name"
            }
            Self::Postgres(_) => {
                "SELECT relname::text COLLATE \"C\" FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace AND relname <> '_sqlx_migrations' ORDER BY 1"
            }
        };
        self.rows(text).await.iter().map(Loose::text).collect()
    }

    /// Every row of one owner, table by table.
    pub(crate) async fn rows_of(&mut self, owner: OwnerId) -> Vec<(String, Vec<Loose>)> {
        let mut all = Vec::new();
        for table in self.tables().await {
            let column = owner_column(&table);
            all.push((
                table.clone(),
                self.rows(&format!(
                    "SELECT * FROM {table} WHERE {column} = {owner} ORDER BY id"
                ))
                .await,
            ));
        }
        all
    }

    /// Every text in every table.
    pub(crate) async fn every_text(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for table in self.tables().await {
            all.extend(
                self.rows(&format!("SELECT * FROM {table}"))
                    .await
                    .iter()
                    .flat_map(Loose::texts),
            );
        }
        all
    }
}

/// Which column of a table says whose a row is.
pub(crate) fn owner_column(table: &str) -> &'static str {
    if table == "owners" { "id" } else { "owner_id" }
}

pub(crate) async fn sqlite(path: &str) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(5));
    SqliteConnection::connect_with(&options).await.unwrap()
}

/// The path of a SQLite database's file.
pub(crate) fn file(muster: &TestMuster) -> std::path::PathBuf {
    muster.url.strip_prefix("sqlite://").unwrap().into()
}

/// Another process's view of the same database, in this process.
pub(crate) async fn second_db(muster: &TestMuster) -> Db {
    Db::open(&Options::new(&muster.url, muster.dir.path().join("locks")))
        .await
        .unwrap()
}

/// Adds a row that nothing else of a test knows: an owner of this name.
pub(crate) static ADD: Sql = system(
    "test.add",
    "INSERT INTO owners (name, password_hash, created_at) VALUES ($1, $2, 1)",
);
/// How many of them have names from a text on and before another.
pub(crate) static COUNT: Sql = system(
    "test.count",
    "SELECT count(*) FROM owners WHERE name >= $1 AND name < $2",
);

/// The texts between which every name lies that begins with `prefix`.
pub(crate) fn beginning(prefix: &str) -> (String, String) {
    (prefix.to_owned(), format!("{prefix}\u{10ffff}"))
}

/// Stores one row.
pub(crate) async fn add(db: &Db, name: &str) -> Result<(), Fault> {
    let name = name.to_owned();
    db.system_write("test", move |tx| Box::pin(async move { add_in(tx, &name).await }))
        .await
}

pub(crate) fn add_in<'t>(tx: &'t mut Tx, name: &'t str) -> JobFuture<'t, Result<(), Fault>> {
    Box::pin(async move {
        tx.run(&ADD, (name, None::<&str>))
            .await
            .map(|changed| assert_eq!(changed, 1))
    })
}

/// How many stored rows have a name that begins so.
pub(crate) async fn count(db: &Db, prefix: &str) -> Result<i64, Fault> {
    let range = beginning(prefix);
    db.system_read("test", move |tx| {
        Box::pin(async move { tx.number(&COUNT, range).await })
    })
    .await
}

/// Waits until hints of other processes reach this one. Postgres is listened to from a task that has just been started; SQLite is looked at.
pub(crate) async fn hears(db: &Db, url: &str) {
    if db.engine() == Engine::Sqlite {
        return;
    }
    let topic = OwnerId::new(i64::MAX);
    let waiter = db.wakeups().waiter(Topic::Owner(topic));
    let mut conn = Raw::as_muster(url).await;
    let listening = async {
        loop {
            let woken = waiter.woken();
            sqlx::query("SELECT pg_notify('muster_wake', $1)")
                .bind(format!("o{topic}"))
                .execute(&mut conn)
                .await
                .unwrap();
            if tokio::time::timeout(Duration::from_millis(50), woken)
                .await
                .is_ok()
            {
                break;
            }
        }
        // What the beginning of the listening itself set off has passed.
        while tokio::time::timeout(Duration::from_millis(50), waiter.woken())
            .await
            .is_ok()
        {}
    };
    tokio::time::timeout(Duration::from_secs(60), listening)
        .await
        .expect("nobody listens");
}

/// Asks `holds` again and again until it answers true.
pub(crate) async fn within(limit: Duration, what: &str, mut holds: impl AsyncFnMut() -> bool) -> Duration {
    let from = Instant::now();
    while !holds().await {
        assert!(from.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    from.elapsed()
}

/// What a test that runs itself again in a process of its own is there.
pub(crate) const ROLE: &str = "MUSTER_STORE_SUITES_ROLE";
const PLACE: &str = "MUSTER_STORE_SUITES_PLACE";

/// The place a parent handed to its child: an address or a folder.
pub(crate) fn place() -> String {
    std::env::var(PLACE).unwrap()
}

/// Whether this process is the child of the test.
pub(crate) fn is_child() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// The command that runs `test` (its full name in this binary) again as a child.
pub(crate) fn child(test: &str, place: &str) -> Command {
    again(Command::new(std::env::current_exe().unwrap()), test, place)
}

/// The same in a mount namespace of its own, so that what it mounts is seen by nobody else and ends with it. `None` where that is not
/// possible; in CI it has to be.
pub(crate) fn child_with_mounts(test: &str, place: &str) -> Option<Command> {
    let root = Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|said| said.stdout == b"0\n");
    let words: &[&str] = if root {
        &["--mount"]
    } else {
        &["--mount", "--map-root-user"]
    };
    let possible = Command::new("unshare")
        .args(words)
        .args(["mount", "-t", "tmpfs", "tmpfs", place])
        .output();
    if !possible.is_ok_and(|said| said.status.success()) {
        assert!(
            std::env::var_os("CI").is_none(),
            "{test} needs a mount of its own (unshare --mount)"
        );
        eprintln!("SKIPPED {test}: nothing can be mounted here (unshare --mount)");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(words).arg(std::env::current_exe().unwrap());
    Some(again(command, test, place))
}

fn again(mut command: Command, test: &str, place: &str) -> Command {
    command
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, "child")
        .env(PLACE, place);
    command
}

/// Runs a child to its end, which must be a good one, and must have run the one test.
pub(crate) fn ends_well(mut command: Command) {
    let said = command.output().unwrap();
    let text = spoken(&said);
    assert!(
        said.status.success() && text.contains("1 passed"),
        "the child failed ({}):\n{text}",
        said.status
    );
}

fn spoken(said: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    )
}
