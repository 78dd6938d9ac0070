//! What the machine allows at best, measured without muster: a durable write, one SQLite commit after another, pgbench. Never tuned below what muster promises.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use sqlx::{Connection as _, SqliteConnection};

use crate::report::Samples;
use crate::seed::{Connector, text};

/// Length of a message's text in the rate figures, in bytes.
pub(crate) const BODY: usize = 1_000;

/// How long one durable write of 8 KiB over a file's own blocks takes, in milliseconds: the disk's share of a commit.
pub(crate) fn fdatasync(folder: &Path, time: Duration) -> Result<Samples> {
    let path = folder.join("fdatasync");
    let file = File::create_new(&path).context("no file could be made on the disk to measure")?;
    let block = [7_u8; 8192];
    for at in 0..128_u64 {
        file.write_all_at(&block, at * 8192)?;
    }
    file.sync_all()?;
    let (mut samples, begun) = (Samples::default(), Instant::now());
    while begun.elapsed() < time {
        let one = Instant::now();
        file.write_all_at(&block, 0)?;
        file.sync_data()?;
        samples.add(one.elapsed().as_secs_f64() * 1e3);
    }
    std::fs::remove_file(&path)?;
    Ok(samples)
}

/// SQLite alone, as durable as muster has it: one prepared INSERT after another on one connection, each its own commit.
pub(crate) struct SqliteLoop {
    conn: SqliteConnection,
    owner: i64,
    plugins: Vec<i64>,
    next: usize,
    body: String,
}

/// Which table the loop fills.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Table {
    /// muster's own, with its indexes and foreign keys.
    Messages,
    /// The same columns with nothing but the primary key.
    Bare,
}

const MESSAGES: &str = "INSERT INTO messages (owner_id, plugin_id, external_id, sender, subject, body, received_at, no_reply, sender_verified, thread, human_conversation, state, stored_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 1, $8, 0, 'queued', $7)";
const BARE: &str = "INSERT INTO bare (owner_id, plugin_id, external_id, sender, subject, body, received_at, no_reply, sender_verified, thread, human_conversation, state, stored_at) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 1, $8, 0, 'queued', $7)";
const MAKE_BARE: &str = "CREATE TABLE bare (id INTEGER PRIMARY KEY AUTOINCREMENT, owner_id INTEGER NOT NULL, plugin_id INTEGER NOT NULL, external_id TEXT NOT NULL, \
     sender TEXT, subject TEXT, body TEXT NOT NULL, received_at INTEGER, no_reply INTEGER NOT NULL, sender_verified INTEGER NOT NULL, thread TEXT, \
     human_conversation INTEGER NOT NULL, state TEXT NOT NULL, chief_id INTEGER, attempts INTEGER NOT NULL DEFAULT 0, retries INTEGER NOT NULL DEFAULT 0, \
     stored_at INTEGER NOT NULL, last_attempt_at INTEGER, delivered_at INTEGER) STRICT";

impl SqliteLoop {
    /// On the database of a place that muster made and nothing else uses.
    pub(crate) async fn open(url: &str, owner: i64, connectors: &[Connector]) -> Result<Self> {
        let path = url
            .strip_prefix("sqlite://")
            .context("the raw loop is SQLite's")?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .foreign_keys(true)
            .synchronous(SqliteSynchronous::Full);
        let mut conn = SqliteConnection::connect_with(&options).await?;
        let (mode,): (String,) = sqlx::query_as("PRAGMA journal_mode").fetch_one(&mut conn).await?;
        if mode != "wal" {
            bail!("the raw loop's database is in journal mode {mode}, not in muster's");
        }
        sqlx::query(MAKE_BARE).execute(&mut conn).await?;
        let plugins = connectors.iter().map(|connector| connector.id).collect();
        Ok(Self {
            conn,
            owner,
            plugins,
            next: 0,
            body: text(BODY),
        })
    }

    /// SQLite's version.
    pub(crate) async fn version(&mut self) -> Result<String> {
        let (version,): (String,) = sqlx::query_as("SELECT sqlite_version()")
            .fetch_one(&mut self.conn)
            .await?;
        Ok(version)
    }

    /// Commits per second over `time`.
    pub(crate) async fn run(&mut self, table: Table, time: Duration) -> Result<f64> {
        let statement = match table {
            Table::Messages => MESSAGES,
            Table::Bare => BARE,
        };
        let (begun, mut done) = (Instant::now(), 0_u32);
        while begun.elapsed() < time {
            let number = self.next;
            self.next += 1;
            let plugin = self
                .plugins
                .get(number % self.plugins.len().max(1))
                .copied()
                .unwrap_or(1);
            sqlx::query(statement)
                .bind(self.owner)
                .bind(plugin)
                .bind(format!("message-{number}"))
                .bind(format!("Sender {number} <sender{number}@example.org>"))
                .bind(format!("Question {number} about the order"))
                .bind(self.body.as_str())
                .bind(1_767_225_600_000_000_i64)
                .bind(format!("thread-{number}"))
                .execute(&mut self.conn)
                .await?;
            done += 1;
        }
        Ok(f64::from(done) / begun.elapsed().as_secs_f64())
    }

    /// Closes the connection.
    pub(crate) async fn close(self) -> Result<()> {
        Ok(self.conn.close().await?)
    }
}

/// pgbench on a table of the shape of muster's own, in a database of its own cluster.
pub(crate) struct Pgbench<'a> {
    cluster: &'a xtask::pg::Cluster,
    script: std::path::PathBuf,
    owner: i64,
    plugins: (i64, i64),
}

impl<'a> Pgbench<'a> {
    /// Makes the table beside muster's, with its columns, identity, checks, indexes and the foreign key to connectors.
    pub(crate) fn prepare(
        cluster: &'a xtask::pg::Cluster,
        folder: &Path,
        owner: i64,
        connectors: &[Connector],
    ) -> Result<Self> {
        let tables = "CREATE TABLE raw_messages (LIKE messages INCLUDING ALL); \
             ALTER TABLE raw_messages ADD FOREIGN KEY (owner_id, plugin_id) REFERENCES plugins (owner_id, id)";
        let made = psql(cluster, tables)?;
        if !made.success() {
            bail!("the raw table could not be made");
        }
        let script = folder.join("insert.sql");
        std::fs::write(
            &script,
            "\\set plugin random(:first, :last)\n\
             \\set number random(1, 9000000000000000000)\n\
             INSERT INTO raw_messages (owner_id, plugin_id, external_id, sender, subject, body, received_at, no_reply, sender_verified, thread, human_conversation, state, stored_at) \
             VALUES (:owner, :plugin, 'message-' || :number, 'Sender <sender@example.org>', 'Question about the order', :text, 1767225600000000, false, true, 'thread-' || :number, false, 'queued', 1767225600000000);\n",
        )?;
        let ids = connectors.iter().map(|connector| connector.id);
        let plugins = (
            ids.clone().min().context("there is no connector")?,
            ids.max().context("there is no connector")?,
        );
        Ok(Self {
            cluster,
            script,
            owner,
            plugins,
        })
    }

    /// Inserts per second with `clients` connections for whole seconds of `time`.
    pub(crate) fn run(&self, clients: usize, time: Duration) -> Result<f64> {
        let (first, last) = self.plugins;
        let output = client(self.cluster, "pgbench")
            .args(["--no-vacuum", "--protocol=prepared", "--jobs=2"])
            .arg(format!("--client={clients}"))
            .arg(format!("--time={}", time.as_secs().max(1)))
            .arg("--file")
            .arg(&self.script)
            .args([
                "-D",
                &format!("owner={}", self.owner),
                "-D",
                &format!("first={first}"),
                "-D",
                &format!("last={last}"),
            ])
            .args(["-D", &format!("text={}", text(BODY))])
            .arg(DATABASE)
            .output()
            .context("pgbench could not be started")?;
        let said = String::from_utf8_lossy(&output.stdout);
        let rate = said
            .lines()
            .find_map(|line| line.strip_prefix("tps = "))
            .and_then(|rest| rest.split(' ').next())
            .and_then(|number| number.parse().ok());
        rate.filter(|_| output.status.success())
            .with_context(|| format!("pgbench failed: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

const DATABASE: &str = "muster_test";

/// A client program of the cluster's own version, which logs in as the superuser and so past row-level security.
fn client(cluster: &xtask::pg::Cluster, program: &str) -> Command {
    let mut command = Command::new(cluster.bin().join(program));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command
        .arg("-h")
        .arg(cluster.dir())
        .args(["-U", xtask::pg::ADMIN])
        .stdin(Stdio::null());
    command
}

fn psql(cluster: &xtask::pg::Cluster, statements: &str) -> Result<std::process::ExitStatus> {
    client(cluster, "psql")
        .args([
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            DATABASE,
            "-c",
            statements,
        ])
        .status()
        .context("psql could not be started")
}

/// The server's version, as it says it.
pub(crate) fn postgres_version(cluster: &xtask::pg::Cluster) -> Result<String> {
    let output = Command::new(cluster.bin().join("postgres"))
        .arg("--version")
        .output()
        .context("postgres could not be started")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
