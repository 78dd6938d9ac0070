//! What an account of Redis may do beyond reading, asked of the server in a way that runs nothing. Never sends a command that could change anything where it was let through.

use std::sync::atomic::{AtomicU64, Ordering};

use super::wire::Session;
use crate::answer::Cell;
use crate::error::Error;

/// Commands that write, each on `KEY`, which nobody has. As they stand here they change nothing: the key is missing, or an argument is wrong.
const HARMLESS: &[&str] = &[
    "SET KEY v XX",
    "GETDEL KEY",
    "GETEX KEY PERSIST",
    "SETEX KEY muster v",
    "PSETEX KEY muster v",
    "SETRANGE KEY muster v",
    "INCRBY KEY muster",
    "DECRBY KEY muster",
    "INCRBYFLOAT KEY muster",
    "MSET KEY v KEY",
    "MSETNX KEY v KEY",
    "SETBIT KEY muster 1",
    "BITFIELD KEY muster",
    "BITOP AND KEY KEY",
    "DEL KEY",
    "UNLINK KEY",
    "EXPIRE KEY muster",
    "PEXPIRE KEY muster",
    "EXPIREAT KEY muster",
    "PEXPIREAT KEY muster",
    "PERSIST KEY",
    "RENAME KEY KEY",
    "RENAMENX KEY KEY",
    "COPY KEY KEY2",
    "MOVE KEY muster",
    "RESTORE KEY muster v",
    "SORT KEY STORE KEY",
    "LPUSHX KEY v",
    "RPUSHX KEY v",
    "LPOP KEY",
    "RPOP KEY",
    "LREM KEY 0 v",
    "LTRIM KEY 0 1",
    "LSET KEY 0 v",
    "LINSERT KEY BEFORE v v",
    "LMOVE KEY KEY LEFT LEFT",
    "LMPOP 1 KEY LEFT",
    "RPOPLPUSH KEY KEY",
    "BLPOP KEY muster",
    "BRPOP KEY muster",
    "BRPOPLPUSH KEY KEY muster",
    "BLMOVE KEY KEY LEFT LEFT muster",
    "SREM KEY v",
    "SPOP KEY",
    "SMOVE KEY KEY2 v",
    "SINTERSTORE KEY KEY2",
    "SUNIONSTORE KEY KEY2",
    "SDIFFSTORE KEY KEY2",
    "HDEL KEY f",
    "HSET KEY f v f",
    "HMSET KEY f v f",
    "HINCRBY KEY f muster",
    "HINCRBYFLOAT KEY f muster",
    "ZADD KEY muster v",
    "ZREM KEY v",
    "ZINCRBY KEY muster v",
    "ZPOPMIN KEY",
    "ZPOPMAX KEY",
    "BZPOPMIN KEY muster",
    "BZPOPMAX KEY muster",
    "ZREMRANGEBYRANK KEY 0 1",
    "ZREMRANGEBYSCORE KEY 0 1",
    "ZREMRANGEBYLEX KEY - +",
    "ZRANGESTORE KEY KEY2 0 1",
    "ZUNIONSTORE KEY 1 KEY2",
    "ZINTERSTORE KEY 1 KEY2",
    "ZDIFFSTORE KEY 1 KEY2",
    "XADD KEY muster f v",
    "XDEL KEY 0-1",
    "XTRIM KEY MAXLEN 0",
    "XSETID KEY 0-1",
    "XACK KEY g 0-1",
    "XGROUP DESTROY KEY g",
    "GEOADD KEY muster muster v",
    "GEOSEARCHSTORE KEY KEY2 FROMLONLAT 0 0 BYRADIUS 1 m",
    "ZMPOP 1 KEY MIN",
    "BZMPOP muster 1 KEY MIN",
    "BLMPOP muster 1 KEY LEFT",
    "XCLAIM KEY g c 0 0-1",
    "XAUTOCLAIM KEY g c 0 0",
    "XREADGROUP GROUP g c STREAMS KEY 0",
    "GEORADIUS KEY 0 0 1 m",
    "HEXPIRE KEY muster FIELDS 1 f",
    "HGETDEL KEY FIELDS 1 f",
    "HSETEX KEY FXX FIELDS 1 f v",
    "JSON.DEL KEY",
    "JSON.SET KEY muster v",
    "MIGRATE muster 0 KEY muster muster",
    "PUBLISH KEY v",
    "SPUBLISH KEY v",
    "FLUSHDB muster",
    "FLUSHALL muster",
    "SWAPDB muster muster",
    "CONFIG GET muster-check",
    "CONFIG SET muster-check 1",
    "CLIENT KILL ID 0",
    "ACL SETUSER muster-check muster-check",
    "ACL DELUSER muster-check",
    "ACL GETUSER muster-check",
    "REPLICAOF muster muster",
    "MODULE LOAD /muster-check/none.so",
    "FUNCTION LOAD muster",
    "FUNCTION DELETE muster-check",
    "SCRIPT FLUSH muster",
    "EVAL return:0 0",
    "EVALSHA 0000000000000000000000000000000000000000 0",
    "FCALL muster-check 0",
    "BGSAVE muster",
    "LATENCY RESET muster-check",
    "PFDEBUG muster KEY",
];

/// Commands that would make the key, or act on the server, and so are only asked about where nothing runs.
const MAKING: &[&str] = &[
    "APPEND KEY v",
    "INCR KEY",
    "DECR KEY",
    "SETNX KEY v",
    "GETSET KEY v",
    "LPUSH KEY v",
    "RPUSH KEY v",
    "SADD KEY v",
    "HSETNX KEY f v",
    "PFADD KEY v",
    "PFMERGE KEY KEY2",
    "MEMORY PURGE",
    "SLOWLOG RESET",
    "SCRIPT KILL",
    "FAILOVER ABORT",
    "CLUSTER FAILOVER",
];

/// How a command can be asked about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The server is asked what it would say.
    Asking,
    /// Put in a line that is thrown away.
    Queued,
    /// Sent; the key is one that the account may not touch.
    Closed,
    /// Sent.
    Sent,
}

/// What a try is named in a sentence: its command with a subcommand.
fn name(line: &str) -> String {
    let mut words = line.split(' ');
    let first = words.next().unwrap_or_default();
    let container = matches!(
        first,
        "CONFIG"
            | "CLIENT"
            | "ACL"
            | "MODULE"
            | "FUNCTION"
            | "SCRIPT"
            | "XGROUP"
            | "MEMORY"
            | "SLOWLOG"
            | "LATENCY"
            | "CLUSTER"
    );
    match words.next() {
        Some(below) if container => format!("{first} {below}"),
        _ => first.to_owned(),
    }
}

fn words(line: &str, key: &str) -> Vec<String> {
    line.split(' ')
        .map(|word| match word {
            "KEY" => key.to_owned(),
            "KEY2" => format!("{key}:2"),
            other => other.replace("return:0", "return 0"),
        })
        .collect()
}

/// Whether a refusal is one of the command itself. One of the key or the channel says that the command may be used on others.
fn of_the_command(code: &str, message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    match code {
        "NOPERM" => message.contains("permissions to run"),
        // A server that has not got the command, or has it switched off, lets nobody use it.
        "ERR" => {
            message.starts_with("unknown command")
                || message.starts_with("unknown subcommand")
                || message.contains("enable-module-command")
        }
        _ => false,
    }
}

/// The commands beyond reading that the account may use. The session is of no further use: what was put in its line goes with it.
pub(super) async fn beyond(mut session: Session) -> Result<Vec<String>, Error> {
    static TRIES: AtomicU64 = AtomicU64::new(0);
    let session = &mut session;
    let number = TRIES.fetch_add(1, Ordering::Relaxed);
    let key = format!("muster:check:{:x}:{number:x}", std::process::id());
    let user = match session.own(&["ACL", "WHOAMI"]).await {
        Ok(Cell::Text(user)) => Some(user),
        Ok(_) | Err(Error::Engine { .. }) => None,
        Err(error) => return Err(error),
    };
    let way = way(session, user.as_deref(), &key).await?;
    let making: &[&str] = if way == Way::Sent { &[] } else { MAKING };
    let mut found = Vec::new();
    for line in HARMLESS.iter().chain(making) {
        let tried = words(line, &key);
        let mut sent: Vec<&str> = tried.iter().map(String::as_str).collect();
        if way == Way::Asking {
            sent.splice(..0, ["ACL", "DRYRUN", user.as_deref().unwrap_or_default()]);
        }
        let may = match session.own(&sent).await {
            Ok(Cell::Text(said)) if way == Way::Asking => {
                said == "OK" || !said.contains("permissions to run")
            }
            Ok(_) => true,
            Err(Error::Engine { message, .. }) if way == Way::Asking && message.contains("not found") => {
                false
            }
            Err(Error::Engine { code, message, .. }) => !of_the_command(&code, &message),
            Err(error) => return Err(error),
        };
        if may {
            found.push(name(line));
        }
    }
    Ok(found)
}

async fn way(session: &mut Session, user: Option<&str>, key: &str) -> Result<Way, Error> {
    if let Some(user) = user {
        match session.own(&["ACL", "DRYRUN", user, "PING"]).await {
            Ok(_) => return Ok(Way::Asking),
            Err(Error::Engine { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    match session.own(&["MULTI"]).await {
        Ok(_) => return Ok(Way::Queued),
        Err(Error::Engine { .. }) => {}
        Err(error) => return Err(error),
    }
    match session.own(&["GET", key]).await {
        Err(Error::Engine { code, message, .. }) if code == "NOPERM" && !of_the_command(&code, &message) => {
            Ok(Way::Closed)
        }
        Ok(_) | Err(Error::Engine { .. }) => Ok(Way::Sent),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_of_the_command_itself_says_that_it_may_not_be_used() {
        for (code, message) in [
            (
                "NOPERM",
                "this user has no permissions to run the 'set' command or its subcommand",
            ),
            (
                "NOPERM",
                "User reader has no permissions to run the 'set' command",
            ),
            ("ERR", "unknown command 'LMPOP', with args beginning with: '1'"),
        ] {
            assert!(of_the_command(code, message), "{message}");
        }
        for (code, message) in [
            ("NOPERM", "No permissions to access a key"),
            (
                "NOPERM",
                "this user has no permissions to access one of the keys used as arguments",
            ),
            (
                "NOPERM",
                "User reader has no permissions to access the 'x' channel",
            ),
            ("ERR", "no such key"),
            (
                "WRONGTYPE",
                "Operation against a key holding the wrong kind of value",
            ),
        ] {
            assert!(!of_the_command(code, message), "{message}");
        }
    }

    #[test]
    fn nothing_is_tried_on_a_key_that_somebody_could_have() {
        for line in HARMLESS.iter().chain(MAKING) {
            let words = words(line, "muster:check:1:2");
            assert!(
                !words.iter().any(|word| word == "KEY" || word == "KEY2"),
                "{line}"
            );
        }
        assert_eq!(name("ACL SETUSER muster-check muster-check"), "ACL SETUSER");
        assert_eq!(name("MEMORY PURGE"), "MEMORY PURGE");
        assert_eq!(name("DEL KEY"), "DEL");
    }
}
