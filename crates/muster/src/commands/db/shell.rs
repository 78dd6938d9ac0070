//! `muster db shell`: the gateway for a person. Never runs what the gate stops, and never writes unless the person said so.

use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use muster_app::App;
use muster_app::databases::{self, Connection, Look};
use muster_core::ids::OwnerId;
use muster_core::text::terminal;
use muster_db_gateway::{Class, Connection as Gateway, Engine, Error, Limits};
use muster_policy::Permit;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::{look, refused, table};
use crate::output::{self, Failure};

/// Longest line; no statement is longer either.
const LONGEST: usize = 256 * 1024;
/// How long a server has to hear that a statement was given up.
const STOPPING: Duration = Duration::from_secs(5);
/// Rows of a preview.
const PREVIEW: usize = 20;

const HELP: &str = "\
A statement ends with ';' at the end of a line (SQL), with its line (Redis) or with its last bracket (MongoDB).
  \\schemas              schemas
  \\objects [SCHEMA]     tables, views and their like
  \\describe OBJECT      columns, keys and indexes
  \\preview OBJECT       the first rows
  \\explain STATEMENT    how the engine would run it; it is not run
  \\write on|off         let statements that write through, or no more
  \\q                    leave, as Ctrl-D does; also in the middle of a statement
Ctrl-C stops a statement that runs and gives up one that is half written. Every statement is in the audit log.";

/// What a person reads from and is told.
struct Shell<'s> {
    app: &'s App,
    owner: OwnerId,
    found: Connection,
    gateway: Gateway,
    writes: bool,
    json: bool,
    /// Whether a person types.
    typed: bool,
    /// Whether anything was refused or failed.
    failed: bool,
}

/// What goes on after a line.
#[derive(PartialEq, Eq)]
enum Next {
    Line,
    End,
}

/// What ends a statement from outside.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Whether it was the person's Ctrl-C.
    async fn any(&mut self) -> bool {
        tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => false,
            _ = self.hangup.recv() => false,
        }
    }
}

/// A line that was read, or why it cannot be taken.
type Line = Result<String, &'static str>;

/// Reads standard input on a thread of its own, which may wait in a read when everything else has ended.
fn lines() -> mpsc::Receiver<Line> {
    let (tell, told) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut raw = Vec::new();
            let most = u64::try_from(LONGEST).unwrap_or(u64::MAX);
            match stdin.by_ref().take(most).read_until(b'\n', &mut raw) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let line = if raw.len() == LONGEST && !raw.ends_with(b"\n") {
                // The rest of it is read past.
                if stdin.skip_until(b'\n').is_err() {
                    return;
                }
                Err("the line is longer than 256 KiB; it was not run")
            } else {
                String::from_utf8(raw).map_err(|_| "the line is no UTF-8; it was not run")
            };
            if tell.blocking_send(line).is_err() {
                return;
            }
        }
    });
    told
}

/// Whether what was read so far is a whole statement.
fn is_whole(engine: Engine, text: &str) -> bool {
    match engine {
        Engine::Redis => true,
        Engine::Mongodb => !serde_json::from_str::<IgnoredAny>(text).is_err_and(|error| error.is_eof()),
        Engine::Postgres | Engine::Mysql | Engine::Mariadb | Engine::Sqlite => text.trim_end().ends_with(';'),
    }
}

pub(super) async fn run(
    app: &App,
    owner: OwnerId,
    found: Connection,
    writes: bool,
    json: bool,
) -> Result<(), Failure> {
    // A signal while this waits for a server simply ends the program.
    let gateway = look::stored(app, owner, &found).await?;
    let mut signals = Signals::new()?;
    let mut shell = Shell {
        gateway,
        app,
        owner,
        found,
        writes,
        json,
        typed: std::io::stdin().is_terminal(),
        failed: false,
    };
    if shell.typed {
        let mode = if writes { "reads and writes" } else { "reads only" };
        output::notice(&format!(
            "{} ({}), {mode}; \\? says what can be done here",
            shell.found.name,
            shell.found.engine.as_str()
        ));
    }
    let ended = shell.through(&mut signals).await;
    muster_db_gateway::stopped(STOPPING).await;
    ended?;
    // A script has to be told; a person has read it.
    if shell.failed && !shell.typed {
        return Err(Failure::silent());
    }
    Ok(())
}

impl Shell<'_> {
    async fn through(&mut self, signals: &mut Signals) -> Result<(), Failure> {
        let mut input = lines();
        let mut pending = String::new();
        loop {
            self.prompt(pending.is_empty());
            let line = tokio::select! {
                line = input.recv() => line,
                by_hand = signals.any() => {
                    if self.typed && by_hand && !pending.is_empty() {
                        pending.clear();
                        output::notice("");
                        continue;
                    }
                    return Ok(());
                }
            };
            let next = match line {
                None => {
                    let rest = std::mem::take(&mut pending);
                    if self.typed {
                        output::notice("");
                    }
                    // What a person did not end is not meant; a script's last line may lack its ';'.
                    if !self.typed && !rest.trim().is_empty() {
                        self.statement(&rest, signals).await?;
                    }
                    return Ok(());
                }
                Some(Err(why)) => {
                    pending.clear();
                    self.complain("invalid_argument", why)?;
                    Next::Line
                }
                Some(Ok(line)) => self.line(&line, &mut pending, signals).await?,
            };
            if next == Next::End {
                return Ok(());
            }
        }
    }

    fn prompt(&self, fresh: bool) {
        if !self.typed {
            return;
        }
        let mark = if self.writes { "!" } else { "" };
        let end = if fresh { "> " } else { "... " };
        let mut err = std::io::stderr().lock();
        // Where standard error is closed nobody reads it.
        let _ = write!(err, "{}{mark}{end}", self.found.name);
        let _ = err.flush();
    }

    async fn line(
        &mut self,
        line: &str,
        pending: &mut String,
        signals: &mut Signals,
    ) -> Result<Next, Failure> {
        let fresh = pending.is_empty();
        if fresh && line.trim().is_empty() {
            return Ok(Next::Line);
        }
        if fresh && let Some(words) = line.trim().strip_prefix('\\') {
            return self.word(words, signals).await;
        }
        if self.typed {
            match (fresh, line.trim()) {
                // What people type to leave and to be helped; a statement is none of these in any engine's language.
                (true, "quit" | "exit") | (false, "\\q") => return Ok(Next::End),
                (true, "help") | (false, "\\?") => {
                    output::notice(HELP);
                    return Ok(Next::Line);
                }
                _ => {}
            }
        }
        if pending.len() + line.len() > LONGEST {
            pending.clear();
            self.complain(
                "invalid_argument",
                "the statement is longer than 256 KiB; it was not run",
            )?;
            return Ok(Next::Line);
        }
        pending.push_str(line);
        if is_whole(self.gateway.engine(), pending) {
            let statement = std::mem::take(pending);
            return self.statement(&statement, signals).await;
        }
        Ok(Next::Line)
    }

    /// A line that begins with a backslash.
    async fn word(&mut self, words: &str, signals: &mut Signals) -> Result<Next, Failure> {
        let (word, rest) = words.split_once(char::is_whitespace).unwrap_or((words, ""));
        let rest = rest.trim();
        match (word, rest) {
            ("q" | "quit", "") => return Ok(Next::End),
            ("?" | "help", "") => output::notice(HELP),
            ("write", "on" | "off") => {
                self.writes = rest == "on";
                output::notice(match (self.writes, self.found.has_write_account) {
                    (true, true) => "statements that write run on the account that writes",
                    (true, false) => "statements that write run on the only account that there is",
                    (false, _) => "reads only",
                });
            }
            ("schemas", "") | ("objects", _) => return self.listed(word, rest, signals).await,
            ("describe" | "preview" | "explain", rest) if !rest.is_empty() => {
                return self.about(word, rest, signals).await;
            }
            _ => self.complain(
                "invalid_argument",
                "there is no such word, or it takes something else; \\? lists them",
            )?,
        }
        Ok(Next::Line)
    }

    async fn limits(&self) -> Result<Limits, Failure> {
        Ok(muster_web::databases::limits(self.app, self.owner).await?)
    }

    /// Writes what is about to be done into the audit log.
    async fn permit(&self, look: Look) -> Result<Permit, Failure> {
        databases::by_owner(self.app, self.owner, self.found.id, look)
            .await
            .map_err(refused)
    }

    async fn statement(&mut self, text: &str, signals: &mut Signals) -> Result<Next, Failure> {
        let text = text.trim();
        let verdict = self.gateway.classify(text);
        let class = verdict.class;
        let writes = class == Class::Write;
        let look = Look {
            act: if writes { "execute" } else { "query" },
            statement: Some(text.to_owned()),
            of: None,
            writes,
        };
        if class == Class::Refuse || (writes && !self.writes) {
            let error = Error::Gate { verdict };
            databases::stopped_by_gate(self.app, self.owner, self.found.id, look, error.to_string())
                .await
                .map_err(refused)?;
            self.told(&error)?;
            self.tells_how_to_write(&error);
            return Ok(Next::Line);
        }
        let permit = self.permit(look).await?;
        let limits = self.limits().await?;
        let running = async {
            if writes {
                self.gateway.write(&permit, text, true, limits).await
            } else {
                self.gateway.read(&permit, text, limits).await
            }
        };
        let mut answered = until(running, signals).await;
        // What the class takes for a read and the server knows for a write: it did not run, and goes on as what it is.
        if self.writes && !writes && matches!(&answered, Ok(Err(error)) if is_write(error)) {
            let look = Look {
                act: "execute",
                statement: Some(text.to_owned()),
                of: None,
                writes: true,
            };
            let permit = self.permit(look).await?;
            answered = until(self.gateway.write(&permit, text, true, limits), signals).await;
        }
        match answered {
            Ok(Ok(answer)) if self.json => output::json_line(&answer)?,
            Ok(Ok(answer)) => output::bytes(table::text(&answer).as_bytes())?,
            Ok(Err(error)) => {
                self.told(&error)?;
                self.tells_how_to_write(&error);
            }
            Err(by_hand) => return self.given_up(by_hand),
        }
        Ok(Next::Line)
    }

    /// Only for a statement that this would let run: what is explained never is.
    fn tells_how_to_write(&self, error: &Error) {
        if is_write(error) && !self.writes {
            output::notice(
                "muster: \\write on lets statements of this shell write, as --write does from its start",
            );
        }
    }

    async fn listed(&mut self, word: &str, schema: &str, signals: &mut Signals) -> Result<Next, Failure> {
        let (act, all) = if word == "schemas" {
            ("schemas", true)
        } else {
            ("objects", false)
        };
        let schema = (!schema.is_empty()).then_some(schema);
        let permit = self.permit(reading(act, None, schema)).await?;
        let limits = self.limits().await?;
        let running = async {
            if all {
                let found = self.gateway.schemas(&permit, limits).await?;
                Ok(found
                    .iter()
                    .map(|schema| (json!(schema), schema.name.clone()))
                    .collect::<Vec<_>>())
            } else {
                let found = self.gateway.objects(&permit, schema, limits).await?;
                let line = |object: &muster_db_gateway::Object| {
                    let schema = object
                        .schema
                        .as_ref()
                        .map_or_else(String::new, |name| format!("{name}."));
                    format!("{}  {schema}{}", object.kind, object.name)
                };
                Ok(found.iter().map(|object| (json!(object), line(object))).collect())
            }
        };
        match until(running, signals).await {
            Ok(Ok(found)) if self.json => {
                let all: Vec<Value> = found.into_iter().map(|(value, _)| value).collect();
                output::json_line(&json!({ act: all }))?;
            }
            Ok(Ok(found)) => {
                for (_, line) in found {
                    output::line(&terminal(&line))?;
                }
            }
            Ok(Err(error)) => self.told(&error)?,
            Err(by_hand) => return self.given_up(by_hand),
        }
        Ok(Next::Line)
    }

    async fn about(&mut self, word: &str, of: &str, signals: &mut Signals) -> Result<Next, Failure> {
        let (act, statement, object) = match word {
            "explain" => ("explain", Some(of), None),
            "preview" => ("preview", None, Some(of)),
            _ => ("describe", None, Some(of)),
        };
        let permit = self.permit(reading(act, statement, object)).await?;
        let limits = self.limits().await?;
        let running = async {
            match act {
                "explain" => {
                    let plan = self.gateway.explain(&permit, of, limits).await?;
                    let text = match &plan {
                        Value::String(text) => table::lines(text),
                        other => table::json(&other.to_string()),
                    };
                    Ok((spelled(&json!({ "plan": plan })), text))
                }
                "preview" => {
                    let rows = self.gateway.preview(&permit, of, PREVIEW, false, limits).await?;
                    Ok((spelled(&rows), table::text(&rows)))
                }
                _ => {
                    let found = self.gateway.describe(&permit, of, limits).await?;
                    Ok((spelled(&found), described(&found)))
                }
            }
        };
        match until(running, signals).await {
            Ok(Ok((json, _))) if self.json => output::bytes(format!("{json}\n").as_bytes())?,
            Ok(Ok((_, text))) => output::bytes(text.as_bytes())?,
            Ok(Err(error)) => self.told(&error)?,
            Err(by_hand) => return self.given_up(by_hand),
        }
        Ok(Next::Line)
    }

    fn given_up(&mut self, by_hand: bool) -> Result<Next, Failure> {
        self.complain(
            "withdrawn",
            "given up: the database was told to stop the statement; if it writes, it may be done or not",
        )?;
        Ok(if self.typed && by_hand {
            Next::Line
        } else {
            Next::End
        })
    }

    /// What the gateway says instead of an answer.
    fn told(&mut self, error: &Error) -> Result<(), Failure> {
        self.failed = true;
        output::notice(&format!(
            "muster: {}",
            table::lines(&error.to_string()).trim_end()
        ));
        if self.json {
            let mut told = json!({"code": error.code(), "message": error.to_string()});
            if let Some(fields) = told.as_object_mut() {
                if let Some(code) = error.engine_code() {
                    fields.insert("engine_code".to_owned(), json!(code));
                }
                if let Some(verdict) = error.verdict() {
                    fields.insert("verdict".to_owned(), json!(verdict.class.as_str()));
                }
            }
            output::json_line(&json!({ "error": told }))?;
        }
        Ok(())
    }

    fn complain(&mut self, code: &str, sentence: &str) -> Result<(), Failure> {
        self.failed = true;
        output::notice(&format!("muster: {sentence}"));
        if self.json {
            output::json_line(&json!({"error": {"code": code, "message": sentence}}))?;
        }
        Ok(())
    }
}

fn is_write(error: &Error) -> bool {
    error
        .verdict()
        .is_some_and(|verdict| verdict.class == Class::Write)
}

fn reading(act: &'static str, statement: Option<&str>, of: Option<&str>) -> Look {
    Look {
        act,
        statement: statement.map(str::to_owned),
        of: of.map(str::to_owned),
        writes: false,
    }
}

/// Waits for the gateway, or says by what it was given up: dropped, the statement is stopped on the server.
async fn until<T>(
    running: impl Future<Output = Result<T, Error>>,
    signals: &mut Signals,
) -> Result<Result<T, Error>, bool> {
    tokio::select! {
        biased;
        done = running => Ok(done),
        by_hand = signals.any() => Err(by_hand),
    }
}

/// As JSON of one line, every digit as the database wrote it.
fn spelled(answer: &impl serde::Serialize) -> String {
    // What the gateway answers has texts for keys, and so always is JSON.
    serde_json::to_string(answer).unwrap_or_default()
}

/// The columns, and below them the keys and indexes, each as a table.
fn described(found: &muster_db_gateway::Description) -> String {
    let null = |nullable: bool| if nullable { "null" } else { "not null" };
    let columns: Vec<Vec<String>> = found
        .columns
        .iter()
        .map(|column| {
            vec![
                column.name.clone(),
                column.kind.clone(),
                null(column.nullable).to_owned(),
                column.default.clone().unwrap_or_default(),
                column.comment.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let rules: Vec<Vec<String>> = found
        .keys
        .iter()
        .chain(&found.indexes)
        .map(|rule| vec![rule.kind.clone(), rule.name.clone(), rule.definition.clone()])
        .collect();
    let mut out = table::texts(&["column", "type", "null", "default", "comment"], &columns);
    if !rules.is_empty() {
        out.push('\n');
        out.push_str(&table::texts(&["kind", "name", "definition"], &rules));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_whole_as_its_engine_ends_it() {
        assert!(is_whole(Engine::Postgres, "SELECT 1; \n") && !is_whole(Engine::Sqlite, "SELECT 1\n"));
        assert!(is_whole(Engine::Redis, "GET a\n"));
        assert!(!is_whole(Engine::Mongodb, "{\"find\": \"a\",\n"));
        assert!(is_whole(Engine::Mongodb, "{\"find\": \"a\"}\n"));
        // What is no JSON at all does not become any by waiting.
        assert!(is_whole(Engine::Mongodb, "find a\n"));
    }
}
