//! Redis and Valkey: a command runs when the list of this crate, the server's own flags and the account all let it. Never sends RESET, AUTH or HELLO for a caller.

mod rights;
mod wire;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::address::Url;
use crate::answer::{Answer, Cell};
use crate::catalogue::{ColumnInfo, Description, Guarantee, Listed, Object, Schema, Wide, not_found};
use crate::classify::redis::{flags_agree, of_words, words};
use crate::classify::{Class, Verdict, shown};
use crate::error::Error;
use crate::limits::Limits;
use wire::Session;

const MAX_IDLE: usize = 4;
/// Commands that a sentence names.
const NAMED: usize = 12;
const IDLE_FOR: Duration = Duration::from_secs(60);

pub(crate) struct Server {
    url: Url,
    idle: Mutex<Vec<(Session, Instant)>>,
    /// What the server says about its commands; an empty list: it does not know the command. It does not change while it runs.
    flags: Mutex<HashMap<String, Vec<String>>>,
}

impl Server {
    pub(crate) fn new(url: Url) -> Self {
        Self {
            url,
            idle: Mutex::new(Vec::new()),
            flags: Mutex::new(HashMap::new()),
        }
    }

    /// One that is kept and still there, else a new one.
    async fn session(&self, limits: Limits) -> Result<Session, Error> {
        let reaching = async {
            loop {
                let taken = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
                match taken {
                    Some((mut session, since)) if since.elapsed() < IDLE_FOR => {
                        // Whatever else it says, it is there.
                        if !matches!(session.own(&["PING"]).await, Err(Error::Unreachable { .. })) {
                            return Ok(session);
                        }
                    }
                    Some(_) => {}
                    None => return Session::connect(&self.url).await,
                }
            }
        };
        let patience = limits.connecting();
        tokio::time::timeout(patience, reaching)
            .await
            .unwrap_or_else(|_| Err(self.url.scrub().silent(patience)))
    }

    fn keep(&self, session: Session) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push((session, Instant::now()));
        }
    }

    async fn run(&self, words: &[Vec<u8>], limits: Limits, reads: bool) -> Result<Answer, Error> {
        let begun = Instant::now();
        let mut session = self.session(limits).await?;
        // A server that was reached has what is left of the time.
        let left = limits.time.saturating_sub(begun.elapsed());
        let after = limits.time;
        tokio::time::timeout(left, async {
            if reads {
                self.server_agrees(&mut session, words).await?;
            }
            // Dropped on the way, the session goes with everything that it still has to say.
            let reply = match session.send(words, limits).await {
                Ok(reply) => reply,
                Err(error @ Error::Engine { .. }) => {
                    self.keep(session);
                    return Err(error);
                }
                Err(error) => return Err(error),
            };
            if !reply.truncated {
                self.keep(session);
            }
            Ok(Answer::Reply {
                reply: reply.cell,
                truncated: reply.truncated,
            })
        })
        .await
        .unwrap_or(Err(if reads {
            Error::TimedOut { after }
        } else {
            Error::GivenUp { after }
        }))
    }

    async fn flags_of(
        &self,
        session: &mut Session,
        words: &[Vec<u8>],
    ) -> Result<Option<(String, Vec<String>)>, Error> {
        let lower = |at: usize| {
            words
                .get(at)
                .map(|word| String::from_utf8_lossy(word).to_ascii_lowercase())
        };
        let name = lower(0).unwrap_or_default();
        // Containers carry no flags of their own; their subcommands do.
        let container = matches!(
            name.as_str(),
            "object"
                | "memory"
                | "xinfo"
                | "command"
                | "client"
                | "acl"
                | "pubsub"
                | "cluster"
                | "script"
                | "function"
                | "xgroup"
        );
        let asked = match lower(1) {
            Some(below) if container => format!("{name}|{below}"),
            _ => name.clone(),
        };
        if let Some(known) = self
            .flags
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&asked)
        {
            return Ok(Some((name, known.clone())));
        }
        let info = match session.own(&["COMMAND", "INFO", &asked]).await {
            Ok(info) => info,
            // The account may not ask; then its own rules and the list of this crate stand.
            Err(Error::Engine { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut flags = Vec::new();
        if let Cell::List(commands) = info
            && let Some(Cell::List(fields)) = commands.into_iter().next()
            && let Some(Cell::List(words)) = fields.into_iter().nth(2)
        {
            flags = words
                .into_iter()
                .filter_map(|word| match word {
                    Cell::Text(word) => Some(word),
                    _ => None,
                })
                .collect();
            // A command without a flag is known all the same.
            flags.push("known".to_owned());
        }
        self.flags
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(asked, flags.clone());
        Ok(Some((name, flags)))
    }

    async fn server_agrees(&self, session: &mut Session, words: &[Vec<u8>]) -> Result<(), Error> {
        let Some((name, flags)) = self.flags_of(session, words).await? else {
            return Ok(());
        };
        // An older server does not list subcommands, nor a command that it does not have; it answers those itself.
        if flags.is_empty() || flags_agree(&name, &flags) {
            return Ok(());
        }
        Err(Error::Gate {
            verdict: Verdict {
                class: Class::Write,
                reason: format!("the server itself does not count {} as reading", shown(&name)).into(),
            },
        })
    }

    pub(crate) async fn read(&self, statement: &str, limits: Limits) -> Result<Answer, Error> {
        self.run(&cut(statement)?, limits, true).await
    }

    pub(crate) async fn write(&self, statement: &str, limits: Limits) -> Result<Answer, Error> {
        self.run(&cut(statement)?, limits, false).await
    }

    /// A reading command of this crate, which may take as long as the limits say. The reply, and whether a part of it was cut.
    async fn asked(&self, words: &[&str], limits: Limits) -> Result<(Cell, bool), Error> {
        let limits = Limits {
            rows: 20_000,
            time: limits.time,
            ..Limits::default()
        };
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        match self.run(&words, limits, true).await? {
            Answer::Reply { reply, truncated } => Ok((reply, truncated)),
            _ => Ok((Cell::Null, false)),
        }
    }

    async fn own(&self, words: &[&str], limits: Limits) -> Result<Cell, Error> {
        self.asked(words, limits).await.map(|(reply, _)| reply)
    }

    pub(crate) async fn version(&self) -> Result<String, Error> {
        match self.own(&["INFO", "server"], Limits::default()).await {
            Ok(Cell::Text(text)) => Ok(text
                .lines()
                .filter(|line| {
                    ["redis_version:", "valkey_version:", "server_name:"]
                        .iter()
                        .any(|key| line.starts_with(key))
                })
                .map(|line| line.replace(':', " "))
                .collect::<Vec<_>>()
                .join(", ")),
            Ok(_) => Ok("Redis".to_owned()),
            // The account may not ask, but somebody answered.
            Err(Error::Engine { code, .. }) if code == "NOPERM" => {
                Ok("Redis, of a version that the account may not ask for".to_owned())
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn schemas(&self, _limits: Limits) -> Result<Listed<Schema>, Error> {
        let current = self.url.database.clone().unwrap_or_else(|| "0".to_owned());
        Ok(Listed::whole(vec![Schema { name: current }]))
    }

    /// Keys with their types, as many as the limits of rows and of time allow.
    pub(crate) async fn objects(&self, limits: Limits) -> Result<Listed<Object>, Error> {
        within(limits, self.keys(limits)).await
    }

    async fn keys(&self, limits: Limits) -> Result<Listed<Object>, Error> {
        let begun = Instant::now();
        let (mut cursor, mut names, mut truncated) = ("0".to_owned(), Vec::new(), false);
        loop {
            // What is left of the time is for their types.
            if names.len() >= limits.rows || begun.elapsed() >= limits.time / 2 {
                truncated = true;
                break;
            }
            let (reply, cut) = self.asked(&["SCAN", &cursor, "COUNT", "500"], limits).await?;
            truncated |= cut;
            let Cell::List(page) = reply else { break };
            let mut page = page.into_iter();
            let (Some(Cell::Text(next)), Some(Cell::List(keys))) = (page.next(), page.next()) else {
                break;
            };
            names.extend(keys.into_iter().filter_map(|key| match key {
                Cell::Text(key) => Some(key),
                _ => None,
            }));
            if next == "0" {
                break;
            }
            cursor = next;
        }
        // A scan may tell a key twice.
        names.sort_unstable();
        names.dedup();
        truncated |= names.len() > limits.rows;
        names.truncate(limits.rows);
        let mut found = Vec::with_capacity(names.len());
        for name in names {
            if begun.elapsed() >= limits.time {
                truncated = true;
                break;
            }
            let kind = self.kind(&name, limits).await?;
            found.push(Object {
                name,
                kind,
                ..Object::default()
            });
        }
        Ok(Listed {
            all: found,
            truncated,
        })
    }

    async fn kind(&self, key: &str, limits: Limits) -> Result<String, Error> {
        match self.own(&["TYPE", key], limits).await? {
            Cell::Text(kind) => Ok(kind),
            _ => Ok("none".to_owned()),
        }
    }

    async fn existing(&self, key: &str, limits: Limits) -> Result<String, Error> {
        let kind = self.kind(key, limits).await?;
        if kind == "none" {
            Err(not_found(key))
        } else {
            Ok(kind)
        }
    }

    pub(crate) async fn describe(&self, key: &str, limits: Limits) -> Result<Description, Error> {
        within(limits, self.described(key, limits)).await
    }

    async fn described(&self, key: &str, limits: Limits) -> Result<Description, Error> {
        let kind = self.existing(key, limits).await?;
        let bytes = match self.own(&["MEMORY", "USAGE", key], limits).await {
            Ok(Cell::Int(bytes)) => u64::try_from(bytes).ok(),
            _ => None,
        };
        let mut columns = vec![ColumnInfo {
            name: "value".to_owned(),
            kind: kind.clone(),
            nullable: false,
            ..ColumnInfo::default()
        }];
        if let Ok(Cell::Int(left)) = self.own(&["PTTL", key], limits).await {
            columns.push(ColumnInfo {
                name: "ttl_ms".to_owned(),
                kind: "integer".to_owned(),
                nullable: true,
                default: (left >= 0).then(|| left.to_string()),
                comment: None,
            });
        }
        if kind == "hash"
            && let Ok(Cell::List(page)) = self.own(&["HSCAN", key, "0", "COUNT", "100"], limits).await
            && let Some(Cell::List(fields)) = page.into_iter().nth(1)
        {
            columns.extend(fields.into_iter().step_by(2).filter_map(|field| match field {
                Cell::Text(name) => Some(ColumnInfo {
                    name,
                    kind: "field".to_owned(),
                    nullable: true,
                    ..ColumnInfo::default()
                }),
                _ => None,
            }));
        }
        Ok(Description {
            object: Object {
                name: key.to_owned(),
                kind,
                bytes,
                ..Object::default()
            },
            columns,
            ..Description::default()
        })
    }

    pub(crate) async fn preview(&self, key: &str, rows: usize, limits: Limits) -> Result<Answer, Error> {
        within(limits, self.previewed(key, rows, limits)).await
    }

    async fn previewed(&self, key: &str, rows: usize, limits: Limits) -> Result<Answer, Error> {
        let kind = self.existing(key, limits).await?;
        let count = rows.max(1).to_string();
        let last = rows.saturating_sub(1).to_string();
        let command: Vec<&str> = match kind.as_str() {
            "string" => vec!["GET", key],
            "list" => vec!["LRANGE", key, "0", &last],
            "set" => vec!["SRANDMEMBER", key, &count],
            "zset" => vec!["ZRANGE", key, "0", &last, "WITHSCORES"],
            "hash" => vec!["HSCAN", key, "0", "COUNT", &count],
            "stream" => vec!["XRANGE", key, "-", "+", "COUNT", &count],
            "ReJSON-RL" => vec!["JSON.GET", key],
            _ => {
                return Err(Error::Unsupported {
                    engine: "Redis",
                    what: "preview of a key of this type",
                });
            }
        };
        let command: Vec<Vec<u8>> = command.into_iter().map(|word| word.as_bytes().to_vec()).collect();
        self.run(&command, limits, true).await
    }

    /// Redis plans nothing; what it can say is how it counts the command.
    pub(crate) async fn explain(&self, statement: &str, limits: Limits) -> Result<serde_json::Value, Error> {
        let words = cut(statement)?;
        let asked = within(limits, async {
            let mut session = self.session(limits).await?;
            let asked = self.flags_of(&mut session, &words).await?;
            self.keep(session);
            Ok(asked)
        })
        .await?;
        let (command, flags) = asked.unwrap_or_default();
        let verdict = of_words(&words);
        Ok(json!({
            "command": command,
            "flags": flags.iter().filter(|flag| *flag != "known").collect::<Vec<_>>(),
            "verdict": verdict.class.as_str(),
            "reason": verdict.reason,
        }))
    }

    /// Which commands the account may use, and so whether it only reads.
    pub(crate) async fn wide(&self) -> Result<Wide, Error> {
        let found = rights::beyond(Session::connect(&self.url).await?).await?;
        let mut reasons = Vec::new();
        let all: Vec<&str> = found.iter().map(String::as_str).collect();
        if let Some((shown, more)) = all.split_at_checked(NAMED.min(all.len()))
            && !shown.is_empty()
        {
            let more = if more.is_empty() {
                String::new()
            } else {
                format!(" and {} more", more.len())
            };
            reasons.push(format!("The account may use {}{more}.", shown.join(", ")));
        }
        Ok(Wide {
            wide: !reasons.is_empty(),
            reasons,
            statements: vec![
                "ACL SETUSER muster_reader reset on >CHANGE_ME ~* -@all +@read -@dangerous +ping +echo +time +select \
                 +command|info +command|docs +acl|whoami +acl|dryrun +client|id +memory|usage +sort_ro"
                    .to_owned(),
            ],
        })
    }

    pub(crate) async fn check(&self) -> Vec<Guarantee> {
        let version = self.version().await;
        let mut found = vec![Guarantee::reached(&version)];
        if version.is_err() {
            return found;
        }
        found.push(Guarantee::account(self.wide().await));
        found.push(self.nobody_else_is_let_in().await);
        let asked = match self.session(Limits::default()).await {
            Ok(mut session) => {
                let get = [b"get".to_vec()];
                let asked = self.flags_of(&mut session, &get).await;
                self.keep(session);
                matches!(asked, Ok(Some((_, flags))) if flags.iter().any(|flag| flag == "readonly"))
            }
            Err(_) => false,
        };
        let id = "server_is_asked";
        found.push(if asked {
            Guarantee::held(id, "Asked the server for its own flags of a command: it tells them, and they are held against muster's list.")
        } else {
            Guarantee::broken(
                id,
                "Asked the server for its own flags of a command: the account may not ask, so muster's list stands alone. An administrator grants it with ACL SETUSER NAME +command|info.",
            )
        });
        let limits = Limits {
            time: Duration::from_millis(200),
            ..Limits::default()
        };
        let slow: Vec<Vec<u8>> = ["XREAD", "BLOCK", "30000", "STREAMS", "muster:check:none", "0"]
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect();
        let begun = Instant::now();
        let _ = self.run(&slow, limits, true).await;
        found.push(Guarantee::of(
            "time_limit",
            begun.elapsed() < Duration::from_secs(15),
            "Let a command wait for 30 s with a limit of 0.2 s: it was given up.",
            "Let a command wait for 30 s with a limit of 0.2 s: it was not given up.",
        ));
        found
    }

    /// RESET and AUTH pass every rule for accounts, so what they lead to must be closed as well.
    async fn nobody_else_is_let_in(&self) -> Guarantee {
        let id = "default_user_closed";
        let Ok(mut session) = Session::bare(&self.url).await else {
            return Guarantee::broken(
                id,
                "Tried to reach the server a second time, without signing in: it was not reached. Try it again.",
            );
        };
        match session.own(&["DEL", "muster:check:none"]).await {
            Err(Error::Engine { code, .. }) if matches!(code.as_str(), "NOAUTH" | "NOPERM") => {
                Guarantee::held(
                    id,
                    "Tried to delete a key that nobody has without signing in: it was refused, as it must be.",
                )
            }
            Err(error @ Error::Unreachable { .. }) => Guarantee::broken(id, error.to_string()),
            _ => Guarantee::broken(
                id,
                "Tried to delete a key that nobody has without signing in: it was not refused, so whoever reaches the server may write. The gate keeps RESET and AUTH away. An administrator gives the user default a password, or closes it (ACL SETUSER default off) once there is another administrator: every client that signs in without a user is shut out then.",
            ),
        }
    }
}

/// Several commands for one call. Each has the time of the call, and a server that cannot be reached says so before this is over.
async fn within<T>(limits: Limits, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(limits.hang_up(), work)
        .await
        .unwrap_or(Err(Error::TimedOut { after: limits.time }))
}

fn cut(statement: &str) -> Result<Vec<Vec<u8>>, Error> {
    words(statement).map_err(|why| Error::Gate {
        verdict: Verdict {
            class: Class::Refuse,
            reason: why.into(),
        },
    })
}
