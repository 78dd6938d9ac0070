//! PostgreSQL: every read in a read-only transaction with a snapshot, rolled back and the session discarded. Never runs two statements, and never one by the simple protocol.

mod asking;
mod check;
mod describe;
mod rights;
mod values;
mod wire;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fallible_iterator::FallibleIterator as _;
use postgres_protocol::message::backend::{DataRowBody, Message, RowDescriptionBody};

use crate::address::Url;
use crate::answer::{Cell, Collector, Column, Rows};
use crate::classify::asked::{Asked, asked};
use crate::error::Error;
use crate::limits::Limits;
use crate::own;
use asking::{Question, questions};
use wire::{Held, Incoming, Session, told};

const MAX_IDLE: usize = 4;
const IDLE_FOR: Duration = Duration::from_secs(60);

/// Ends in an error unless the transaction cannot write, and with it everything that was sent behind it.
const GUARD: &str = "SELECT 1 / (CASE WHEN current_setting('transaction_read_only') = 'on' \
     AND current_setting('standard_conforming_strings') = 'on' THEN 1 ELSE 0 END), \
     set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true), \
     set_config('IntervalStyle', 'iso_8601', true), set_config('bytea_output', 'hex', true), \
     set_config('extra_float_digits', '1', true), \
     CASE WHEN $2 <> '' THEN set_config('client_connection_check_interval', $2, true) END";

/// How often the server looks, while a statement runs, whether this end of the connection is still there: a muster that was killed asks
/// nobody to stop what it began.
const LOOKS: &str = "1s";
/// Whether the server takes that: not before PostgreSQL 14, not on every system, not every server that speaks its protocol. The setting
/// holds for this one statement alone.
const MAY_LOOK: &str = "SELECT pg_catalog.set_config('client_connection_check_interval', '1s', true)";

/// Ends in a division by zero where muster's own tables stand in one schema. Any account may look into the catalogue, whatever else it may do.
fn not_musters_own() -> String {
    format!(
        "SELECT 1 OPERATOR(pg_catalog./) (CASE WHEN EXISTS (SELECT 1 FROM pg_catalog.pg_class c \
         WHERE c.relname OPERATOR(pg_catalog.=) ANY ('{{{}}}'::pg_catalog.name[]) \
         AND c.relkind OPERATOR(pg_catalog.=) 'r'::pg_catalog.\"char\" \
         GROUP BY c.relnamespace HAVING pg_catalog.count(*) OPERATOR(pg_catalog.=) {}) THEN 0 ELSE 1 END)",
        own::TABLES.join(","),
        own::TABLES.len()
    )
}

/// What a division by zero is told as.
const DIVISION_BY_ZERO: &str = "22012";
/// How the codes begin of what a server does not have, or does not know in these words.
const NO_SUCH_THING: [&str; 2] = ["42", "0A"];

/// Nothing stands in front of the server's own functions, wherever the account's `search_path` puts them. Everywhere else they come first by themselves.
const PATH: &str = "SELECT pg_catalog.set_config('search_path', CASE \
     WHEN pg_catalog.strpos(pg_catalog.current_setting('search_path'), 'pg_catalog') OPERATOR(pg_catalog.>) 1 \
     THEN pg_catalog.concat('pg_catalog, ', pg_catalog.current_setting('search_path')) \
     ELSE pg_catalog.current_setting('search_path') END, true)";

pub(crate) struct Server {
    url: Arc<Url>,
    idle: Mutex<Vec<(Session, Instant)>>,
}

impl Server {
    pub(crate) fn new(url: Url) -> Self {
        Self {
            url: Arc::new(url),
            idle: Mutex::new(Vec::new()),
        }
    }

    async fn session(&self, limits: Limits) -> Result<Session, Error> {
        loop {
            let taken = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match taken {
                Some((session, since)) if since.elapsed() < IDLE_FOR => return Ok(session),
                Some(_) => {}
                None => return self.connect(limits).await,
            }
        }
    }

    async fn connect(&self, limits: Limits) -> Result<Session, Error> {
        let connecting = async {
            let mut session = Session::connect(&self.url).await?;
            session.put_own(MAY_LOOK)?;
            session.put_own(&not_musters_own())?;
            session.send().await?;
            // One that is gone by now is told by what comes next.
            session.looks = settle(&mut session).await.is_ok();
            match settled(&mut session).await? {
                Some((code, _)) if code == DIVISION_BY_ZERO => Err(Error::Own),
                // A server that only speaks the protocol may have no such catalogue.
                Some((code, message)) if !NO_SUCH_THING.iter().any(|begins| code.starts_with(begins)) => {
                    Err(session.scrub.unreachable(format!("{message} ({code})")))
                }
                _ => Ok(session),
            }
        };
        let patience = limits.connecting();
        tokio::time::timeout(patience, connecting)
            .await
            .unwrap_or_else(|_| Err(self.url.scrub().silent(patience)))
    }

    fn keep(&self, mut session: Session) {
        session.used = true;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push((session, Instant::now()));
        }
    }

    /// One statement of this crate's own that cannot leave a trace.
    pub(crate) async fn read(&self, statement: &str, limits: Limits) -> Result<Rows, Error> {
        self.read_with(statement, &[], limits).await
    }

    /// The same for a statement that somebody else wrote.
    pub(crate) async fn query(&self, statement: &str, limits: Limits) -> Result<Rows, Error> {
        self.reading(statement, &[], &asked(statement), limits).await
    }

    pub(crate) async fn read_with(
        &self,
        statement: &str,
        values: &[&str],
        limits: Limits,
    ) -> Result<Rows, Error> {
        self.reading(statement, values, &Asked::default(), limits).await
    }

    async fn reading(
        &self,
        statement: &str,
        values: &[&str],
        about: &Asked,
        limits: Limits,
    ) -> Result<Rows, Error> {
        tokio::time::timeout(limits.hang_up(), async {
            let mut session = self.session(limits).await?;
            // Nobody saw an answer yet, and a read changes nothing: a session that went away meanwhile is replaced once.
            match self.read_on(session, statement, values, about, limits).await {
                (Err(Error::Unreachable { .. }), true) => {
                    session = self.connect(limits).await?;
                    self.read_on(session, statement, values, about, limits).await.0
                }
                (answer, _) => answer,
            }
        })
        .await
        .unwrap_or(Err(Error::Unanswered { after: limits.time }))
    }

    /// The answer, and whether the session had served before.
    async fn read_on(
        &self,
        session: Session,
        statement: &str,
        values: &[&str],
        about: &Asked,
        limits: Limits,
    ) -> (Result<Rows, Error>, bool) {
        let used = session.used;
        let mut held = Held::new(&self.url, session);
        let answer = match held.get() {
            Ok(session) => guarded(session, statement, values, about, limits).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok((answer, clean)) => {
                // A session that still sends is cut off, and its statement with it.
                if clean && let Some(session) = held.release() {
                    self.keep(session);
                }
                (answer, used)
            }
            Err(error) => (Err(error), used),
        }
    }

    /// One statement that may write. Its transaction is its own.
    pub(crate) async fn write(&self, statement: &str, limits: Limits) -> Result<Rows, Error> {
        tokio::time::timeout(limits.hang_up(), async {
            let mut held = Held::new(&self.url, self.connect(limits).await?);
            let session = held.get()?;
            let looks = if session.looks {
                format!("; SET client_connection_check_interval = '{LOOKS}'")
            } else {
                String::new()
            };
            session.put_own(&format!(
                "SET statement_timeout = {}; SET IntervalStyle = 'iso_8601'; SET bytea_output = 'hex'{looks}",
                limits.milliseconds()
            ))?;
            session.send().await?;
            settle(session).await?;
            session.put(statement, &[], true, 0)?;
            session.put_sync();
            session.send().await?;
            let mut taking = Taking::new(limits, 0, false);
            let mut answer = taking.all(session).await;
            if let Ok(rows) = &mut answer {
                self.name_types(session, rows, &taking.types).await?;
            }
            answer
        })
        .await
        .unwrap_or(Err(Error::GivenUp { after: limits.time }))
    }

    async fn name_types(&self, session: &mut Session, rows: &mut Rows, types: &[u32]) -> Result<(), Error> {
        name_types(session, rows, types).await
    }
}

/// The statement inside of its read-only transaction. An error outside means that the session is of no further use; inside, the
/// flag says whether it is.
async fn guarded(
    session: &mut Session,
    statement: &str,
    values: &[&str],
    about: &Asked,
    limits: Limits,
) -> Result<(Result<Rows, Error>, bool), Error> {
    let rows = i32::try_from(limits.rows.saturating_add(1)).unwrap_or(i32::MAX);
    let timeout = limits.milliseconds().to_string();
    session.put("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY", &[], false, 0)?;
    session.put(PATH, &[], false, 0)?;
    let looks = if session.looks { LOOKS } else { "" };
    session.put(GUARD, &[&timeout, looks], false, 0)?;
    for question in questions(about) {
        question.put(session, about)?;
    }
    session.put(statement, values, true, rows)?;
    session.put_sync();
    session.send().await?;
    let mut taking = Taking::new(limits, 3 + questions(about).count(), true);
    taking.about = about.clone();
    let mut answer = taking.all(session).await;
    if matches!(answer, Err(Error::Unreachable { .. } | Error::Unguarded { .. })) || taking.cut_off {
        return match answer {
            Ok(mut rows) => {
                taking.name_known(&mut rows);
                Ok((Ok(rows), false))
            }
            Err(error) => Err(error),
        };
    }
    if let Ok(rows) = &mut answer {
        name_types(session, rows, &taking.types).await?;
    }
    session.put_own("ROLLBACK")?;
    session.put_own("DISCARD ALL")?;
    session.send().await?;
    let rolled_back = settle(session).await.is_ok();
    let discarded = settle(session).await.is_ok();
    Ok((answer, rolled_back && discarded))
}

/// Reads up to the end of one command of this crate, which nothing may stop.
async fn settle(session: &mut Session) -> Result<(), Error> {
    match settled(session).await? {
        None => Ok(()),
        Some((code, message)) => Err(session.scrub.unreachable(format!("{message} ({code})"))),
    }
}

/// Reads up to the end of one command of this crate: the code and the words of the error that it ended in.
async fn settled(session: &mut Session) -> Result<Option<(String, String)>, Error> {
    let mut failed = None;
    loop {
        match session.message(0).await? {
            Message::ReadyForQuery(body) => {
                return match failed {
                    None if body.status() != b'I' => {
                        Err(session.scrub.unreachable("the session is still in a transaction"))
                    }
                    failed => Ok(failed),
                };
            }
            Message::ErrorResponse(body) => {
                let (code, message, _) = told(&mut body.fields());
                failed = Some((code, message));
            }
            _ => {}
        }
    }
}

/// Asks the catalogue for the names of types that are not known by heart. Inside of the transaction of the read.
async fn name_types(session: &mut Session, rows: &mut Rows, types: &[u32]) -> Result<(), Error> {
    let unknown: Vec<String> = types
        .iter()
        .filter(|oid| values::type_name(**oid).is_none())
        .map(u32::to_string)
        .collect();
    let mut found: Vec<(String, String)> = Vec::new();
    if !unknown.is_empty() {
        let list = format!("{{{}}}", unknown.join(","));
        session.put(
            "SELECT t.oid::text, pg_catalog.format_type(t.oid, NULL) FROM pg_catalog.pg_type t WHERE t.oid = ANY ($1::oid[])",
            &[&list],
            true,
            0,
        )?;
        session.put_sync();
        session.send().await?;
        let mut taking = Taking::new(Limits::default(), 0, false);
        for row in taking.all(session).await?.rows {
            if let [Cell::Text(oid), Cell::Text(name)] = row.as_slice() {
                found.push((oid.clone(), name.clone()));
            }
        }
    }
    for (column, oid) in rows.columns.iter_mut().zip(types) {
        let asked = || {
            let oid = oid.to_string();
            found
                .iter()
                .find(|(known, _)| *known == oid)
                .map(|(_, name)| name.clone())
        };
        column.kind = values::type_name(*oid)
            .map(str::to_owned)
            .or_else(asked)
            .unwrap_or_else(|| "unknown".to_owned());
    }
    Ok(())
}

/// Takes the answer to a pipeline of statements, of which the last is the caller's.
struct Taking {
    collector: Collector,
    limits: Limits,
    types: Vec<u32>,
    /// How many statements of this crate come first.
    ahead: usize,
    /// What the last of these ask about.
    about: Asked,
    /// Whether to hang up when the answer grows too large, rather than to read it to its end.
    may_cut: bool,
    cut_off: bool,
    full: bool,
}

impl Taking {
    fn new(limits: Limits, ahead: usize, may_cut: bool) -> Self {
        Self {
            collector: Collector::new(limits),
            limits,
            types: Vec::new(),
            ahead,
            about: Asked::default(),
            may_cut,
            cut_off: false,
            full: false,
        }
    }

    fn name_known(&self, rows: &mut Rows) {
        for (column, oid) in rows.columns.iter_mut().zip(&self.types) {
            column.kind = values::type_name(*oid).unwrap_or("unknown").to_owned();
        }
    }

    async fn all(&mut self, session: &mut Session) -> Result<Rows, Error> {
        let mut failed = None;
        loop {
            match session.incoming(self.limits.bytes).await? {
                Incoming::Oversized => {
                    self.collector.rows.truncated = true;
                    self.full = true;
                }
                Incoming::Message(Message::DataRow(body)) if self.ahead == 0 => self.row(&body),
                Incoming::Message(Message::CommandComplete(body)) => {
                    if self.ahead == 0 {
                        self.collector.rows.affected = affected(body.tag().unwrap_or_default());
                    }
                    self.ahead = self.ahead.saturating_sub(1);
                }
                Incoming::Message(Message::RowDescription(body)) => self.columns(&body),
                Incoming::Message(Message::PortalSuspended) => self.collector.rows.truncated = true,
                Incoming::Message(Message::CopyInResponse(_)) => {
                    session.put_copy_fail()?;
                    session.send().await?;
                    failed.get_or_insert(Error::Invalid(
                        "COPY … FROM STDIN needs a stream of rows, which a call does not have; use INSERT"
                            .to_owned(),
                    ));
                }
                Incoming::Message(Message::ErrorResponse(body)) => {
                    let (code, message, position) = told(&mut body.fields());
                    failed.get_or_insert(self.error(session, code, &message, position));
                }
                Incoming::Message(Message::ReadyForQuery(_)) => {
                    return match failed {
                        Some(error) => Err(error),
                        None => Ok(std::mem::take(&mut self.collector.rows)),
                    };
                }
                Incoming::Message(_) => {}
            }
            if self.full && self.may_cut {
                self.cut_off = true;
                return Ok(std::mem::take(&mut self.collector.rows));
            }
        }
    }

    fn error(&self, session: &Session, code: String, message: &str, position: Option<u32>) -> Error {
        let message = session.scrub.clean(message);
        let asked: Vec<Question> = questions(&self.about).collect();
        let question = asked.len().checked_sub(self.ahead).and_then(|at| asked.get(at));
        if let Some(question) = question.filter(|_| code == "22P02") {
            return Error::Gate {
                verdict: question.stops(&self.about, &message),
            };
        }
        if self.ahead > 0 {
            return Error::Unguarded { why: message };
        }
        if code == "57014" {
            return Error::TimedOut {
                after: self.limits.time,
            };
        }
        Error::Engine {
            code,
            message,
            position,
        }
    }

    fn columns(&mut self, body: &RowDescriptionBody) {
        // A statement has one description; a server that sends more of them must not be able to pile them up.
        self.types.clear();
        self.collector.rows.columns.clear();
        let mut fields = body.fields();
        while let Ok(Some(field)) = fields.next() {
            self.types.push(field.type_oid());
            self.collector.rows.columns.push(Column {
                name: field.name().to_owned(),
                kind: String::new(),
            });
        }
    }

    fn row(&mut self, body: &DataRowBody) {
        if self.full {
            return;
        }
        let mut cells = Vec::with_capacity(self.types.len());
        let mut ranges = body.ranges();
        let mut types = self.types.iter();
        while let Ok(Some(range)) = ranges.next() {
            let oid = types.next().copied().unwrap_or(25);
            let value = range.and_then(|range| body.buffer().get(range));
            cells.push(value.map_or(Cell::Null, |value| values::cell(oid, value)));
        }
        // A row over the number of rows ends the answer by itself; one over the bytes has more behind it.
        if !self.collector.push(cells) && self.collector.rows.rows.len() < self.limits.rows {
            self.full = true;
        }
    }
}

/// `INSERT 0 5`: 5. Queries change nothing.
fn affected(tag: &str) -> Option<u64> {
    let (verb, count) = tag.split_once(' ')?;
    if matches!(verb, "SELECT" | "FETCH" | "SHOW") {
        return None;
    }
    count.rsplit(' ').next().and_then(|count| count.parse().ok())
}
