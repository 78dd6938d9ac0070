//! SQLite: every read on a handle that cannot write, behind an authorizer that lets through only what reads. Never opens a second file.

mod bounded;
mod describe;
mod thread;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use crate::address::{Place, Url};
use crate::answer::{Cell, Collector, Column, Rows};
use crate::catalogue::{Guarantee, first};
use crate::classify::sqlite::{ASKING, GETTERS};
use crate::error::Error;
use crate::limits::Limits;
use crate::own;
use thread::Stop;

/// The largest value that a reading statement may make or read. One step of the machine works on values as a whole and is not interrupted, so
/// their size bounds how long it takes.
const LARGEST_READ: i32 = 4 * 1024 * 1024;
/// The same of a statement that writes: who may write may fill the disk as well.
const LARGEST_WRITTEN: i32 = 64 * 1024 * 1024;
/// The longest pattern of LIKE and GLOB, in bytes; each letter of a value may be held against each of a pattern.
const LONGEST_PATTERN: i32 = 512;
/// How many steps of the machine go by between two looks at the clock.
const STEPS: i32 = 50;
const CODE_INTERRUPT: i32 = 9;

#[derive(Clone)]
pub(crate) struct File {
    path: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    /// A plan of any statement; nothing runs.
    Plan,
    Write,
}

impl File {
    pub(crate) fn new(url: &Url) -> Self {
        let path = match &url.place {
            Place::File(path) => path.clone(),
            _ => PathBuf::new(),
        };
        Self { path }
    }

    pub(crate) async fn read(&self, statement: &str, limits: Limits) -> Result<Rows, Error> {
        let plan = statement
            .split_whitespace()
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("explain"));
        self.run(
            statement,
            Vec::new(),
            limits,
            if plan { Mode::Plan } else { Mode::Read },
        )
        .await
    }

    pub(crate) async fn write(&self, statement: &str, limits: Limits) -> Result<Rows, Error> {
        self.run(statement, Vec::new(), limits, Mode::Write).await
    }

    async fn run(
        &self,
        statement: &str,
        values: Vec<String>,
        limits: Limits,
        mode: Mode,
    ) -> Result<Rows, Error> {
        let (path, statement) = (self.path.clone(), statement.to_owned());
        let after = limits.time;
        let unheard = match mode {
            Mode::Read | Mode::Plan => Error::TimedOut { after },
            Mode::Write => Error::GivenUp { after },
        };
        thread::run(limits, unheard, move |stop| {
            run(&path, &statement, &values, limits, mode, stop)
        })
        .await
    }

    pub(crate) async fn version(&self) -> Result<String, Error> {
        let rows = self.read("SELECT sqlite_version()", Limits::default()).await?;
        Ok(format!("SQLite {}", first(&rows).unwrap_or_default()))
    }

    /// Tries what must fail, each on a handle of its own.
    pub(crate) async fn check(&self) -> Vec<Guarantee> {
        let limits = Limits {
            rows: 10,
            bytes: 64 * 1024,
            time: Duration::from_secs(5),
        };
        let version = self.version().await;
        let mut found = vec![Guarantee::reached(&version)];
        if version.is_err() {
            return found;
        }
        for (id, what, statement) in [
            (
                "no_write",
                "to make a temporary table",
                "CREATE TEMPORARY TABLE muster_check (x)",
            ),
            (
                "no_other_file",
                "to open another file",
                "ATTACH DATABASE ':memory:' AS muster_check",
            ),
            (
                "no_setting",
                "to leave the read-only mode",
                "PRAGMA query_only = OFF",
            ),
            ("no_copy", "to write a copy of the database", "VACUUM INTO ''"),
            ("no_lock", "to hold the lock of a writer", "BEGIN IMMEDIATE"),
            ("one_statement", "two statements at once", "SELECT 1; SELECT 2"),
        ] {
            let answer = self.run(statement, Vec::new(), limits, Mode::Read).await;
            let ok = answer.is_err();
            let said = answer.map_or_else(|error| error.to_string(), |_| "that it ran".to_owned());
            found.push(Guarantee::refused(
                id,
                what,
                ok,
                said.trim_end_matches('.'),
                "by SQLite or by muster",
            ));
        }
        let limits = Limits {
            time: Duration::from_millis(200),
            ..limits
        };
        let endless =
            "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
        let slow = self.run(endless, Vec::new(), limits, Mode::Read).await;
        found.push(Guarantee::of(
            "time_limit",
            matches!(slow, Err(Error::TimedOut { .. })),
            "Let a statement without end run with a limit of 0.2 s: it was stopped.",
            "Let a statement without end run with a limit of 0.2 s: it was not stopped.",
        ));
        found
    }
}

fn failed(error: &rusqlite::Error, limits: Limits) -> Error {
    match error {
        rusqlite::Error::SqliteFailure(code, message) => {
            if code.extended_code & 0xff == CODE_INTERRUPT {
                return Error::TimedOut { after: limits.time };
            }
            Error::Engine {
                code: code.extended_code.to_string(),
                message: message.clone().unwrap_or_else(|| code.to_string()),
                position: None,
            }
        }
        rusqlite::Error::SqlInputError {
            error, msg, offset, ..
        } => Error::Engine {
            code: error.extended_code.to_string(),
            message: msg.clone(),
            position: u32::try_from(*offset).ok().map(|offset| offset + 1),
        },
        rusqlite::Error::MultipleStatement => Error::Engine {
            code: "1".to_owned(),
            message: "there is more than one statement".to_owned(),
            position: None,
        },
        other => Error::Engine {
            code: "1".to_owned(),
            message: other.to_string(),
            position: None,
        },
    }
}

fn open(path: &Path, limits: Limits, mode: Mode, stop: &Arc<Stop>) -> Result<Connection, Error> {
    // A pipe or a device would block or act.
    match std::fs::metadata(path) {
        Ok(kind) if kind.is_file() => {}
        Ok(_) => {
            return Err(Error::Unreachable {
                why: "the path is no file".to_owned(),
                away: false,
            });
        }
        Err(error) => {
            return Err(Error::Unreachable {
                why: error.to_string(),
                away: false,
            });
        }
    }
    let access = if mode == Mode::Write {
        OpenFlags::SQLITE_OPEN_READ_WRITE
    } else {
        OpenFlags::SQLITE_OPEN_READ_ONLY
    };
    let unguarded = |error: rusqlite::Error| Error::Unguarded {
        why: error.to_string(),
    };
    let connection =
        Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(|error| {
            Error::Unreachable {
                why: error.to_string(),
                away: false,
            }
        })?;
    stop.holds(connection.get_interrupt_handle());
    connection
        .busy_timeout(limits.time.min(Duration::from_secs(5)))
        .map_err(unguarded)?;
    connection
        .set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)
        .map_err(unguarded)?;
    let largest = if mode == Mode::Write {
        LARGEST_WRITTEN
    } else {
        LARGEST_READ
    };
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, largest),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, LONGEST_PATTERN),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, 512 * 1024),
        (Limit::SQLITE_LIMIT_ATTACHED, i32::from(mode == Mode::Write)),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most).map_err(unguarded)?;
    }
    let deadline = Instant::now() + limits.time;
    bounded::put(&connection).map_err(unguarded)?;
    let stop = Arc::clone(stop);
    connection
        .progress_handler(STEPS, Some(move || stop.is_told() || Instant::now() >= deadline))
        .map_err(unguarded)?;
    // Of the file that is open now, and not of the one that a name led to a moment ago.
    if is_musters_own(&connection).map_err(|error| failed(&error, limits))? {
        return Err(Error::Own);
    }
    connection
        .authorizer(Some(move |context: AuthContext<'_>| {
            authorize(mode, &context.action)
        }))
        .map_err(unguarded)?;
    Ok(connection)
}

/// Whether muster's own tables stand in the file.
fn is_musters_own(connection: &Connection) -> rusqlite::Result<bool> {
    let names = own::TABLES.map(|name| format!("'{name}'")).join(",");
    connection.query_row(
        &format!(
            "SELECT count(*) = {} FROM main.sqlite_schema WHERE type = 'table' AND name IN ({names})",
            own::TABLES.len()
        ),
        [],
        |row| row.get(0),
    )
}

/// What SQLite may do on behalf of a statement; asked while it is prepared.
fn authorize(mode: Mode, action: &AuthAction<'_>) -> Authorization {
    let allowed = match action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => true,
        AuthAction::Function { function_name } => !matches!(
            function_name.to_ascii_lowercase().as_str(),
            "load_extension" | "readfile" | "writefile" | "edit" | "fts3_tokenizer" | "fsdir" | "zipfile"
        ),
        AuthAction::Pragma {
            pragma_name,
            pragma_value,
        } => {
            let name = pragma_name.to_ascii_lowercase();
            ASKING.contains(&name.as_str())
                || (pragma_value.is_none() && GETTERS.contains(&name.as_str()))
                || (mode != Mode::Read && writes_the_file(&name))
        }
        // VACUUM attaches a nameless file for itself.
        AuthAction::Attach { filename } => mode == Mode::Write && filename.is_empty(),
        AuthAction::Detach { database_name } => mode == Mode::Write && *database_name == "vacuum_db",
        // It begins a transaction for itself, too; one that a statement begins ends with the handle.
        AuthAction::Transaction { .. } => mode == Mode::Write,
        AuthAction::Savepoint { .. } | AuthAction::Unknown { .. } => false,
        _ => mode != Mode::Read,
    };
    if allowed {
        Authorization::Allow
    } else {
        Authorization::Deny
    }
}

fn writes_the_file(pragma: &str) -> bool {
    matches!(
        pragma,
        "application_id"
            | "user_version"
            | "journal_mode"
            | "auto_vacuum"
            | "page_size"
            | "encoding"
            | "max_page_count"
            | "optimize"
            | "incremental_vacuum"
            | "wal_checkpoint"
    )
}

fn run(
    path: &Path,
    text: &str,
    values: &[String],
    limits: Limits,
    mode: Mode,
    stop: &Arc<Stop>,
) -> Result<Rows, Error> {
    let connection = open(path, limits, mode, stop)?;
    let fail = |error: rusqlite::Error| failed(&error, limits);
    let mut statement = connection.prepare(text).map_err(fail)?;
    if mode == Mode::Plan && statement.is_explain() == 0 {
        return Err(Error::Unguarded {
            why: "SQLite takes the statement for one that runs".to_owned(),
        });
    }
    let mut collector = Collector::new(limits);
    let kinds: Vec<String> = statement
        .columns()
        .iter()
        .map(|column| column.decl_type().unwrap_or_default().to_ascii_lowercase())
        .collect();
    collector.rows.columns = statement
        .column_names()
        .into_iter()
        .zip(&kinds)
        .map(|(name, kind)| Column {
            name: name.to_owned(),
            kind: kind.clone(),
        })
        .collect();
    let returns_rows = !kinds.is_empty();
    let reads_only = statement.readonly();
    let before = connection.changes();
    let mut rows = statement
        .query(rusqlite::params_from_iter(values))
        .map_err(fail)?;
    let mut full = false;
    while let Some(row) = rows.next().map_err(fail)? {
        if full {
            // A write is run to its end, or it would be undone.
            continue;
        }
        let mut cells = Vec::with_capacity(kinds.len());
        for (at, kind) in kinds.iter().enumerate() {
            let value = row.get_ref(at).map_err(fail)?;
            // An expression has no declared type; its first value says what it is.
            if let Some(column) = collector
                .rows
                .columns
                .get_mut(at)
                .filter(|column| column.kind.is_empty())
            {
                column.kind = storage(value).to_owned();
            }
            cells.push(cell(kind, value));
        }
        full = !collector.push(cells);
        if full && mode != Mode::Write {
            break;
        }
    }
    drop(rows);
    if mode == Mode::Write && !reads_only {
        let changed = connection.changes();
        let counts = returns_rows || changed != before || text_changes_rows(text);
        collector.rows.affected = counts.then_some(changed);
    }
    Ok(collector.rows)
}

fn text_changes_rows(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["insert", "update", "delete", "replace"]
        .iter()
        .any(|word| lower.contains(word))
}

const fn storage(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Null => "",
        ValueRef::Integer(_) => "integer",
        ValueRef::Real(_) => "real",
        ValueRef::Text(_) => "text",
        ValueRef::Blob(_) => "blob",
    }
}

/// SQLite's values have types of their own, whatever the column says.
fn cell(kind: &str, value: ValueRef<'_>) -> Cell {
    match value {
        ValueRef::Null => Cell::Null,
        ValueRef::Integer(number) => Cell::int(number),
        ValueRef::Real(number) => Cell::float(number),
        ValueRef::Text(text) if kind == "json" => {
            std::str::from_utf8(text).map_or_else(|_| Cell::bytes(text), Cell::json)
        }
        ValueRef::Text(text) => Cell::text(text),
        ValueRef::Blob(bytes) => Cell::bytes(bytes),
    }
}
