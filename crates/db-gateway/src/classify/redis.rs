//! What a command line of Redis needs, by name and subcommand. Never takes "no write flag" for a promise: a command that is not listed is refused.

use super::lex::MAX_STATEMENT;
use super::script;
use super::verdict::{Verdict, shown};

const READS: &[&str] = &[
    "get",
    "mget",
    "getrange",
    "substr",
    "strlen",
    "getbit",
    "bitcount",
    "bitpos",
    "bitfield_ro",
    "lcs",
    "digest",
    "exists",
    "type",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "randomkey",
    "scan",
    "clusterscan",
    "dbsize",
    "dump",
    "touch",
    "sort_ro",
    "hget",
    "hmget",
    "hgetall",
    "hkeys",
    "hvals",
    "hlen",
    "hexists",
    "hstrlen",
    "hrandfield",
    "hscan",
    "httl",
    "hpttl",
    "hexpiretime",
    "hpexpiretime",
    "lindex",
    "llen",
    "lpos",
    "lrange",
    "scard",
    "sdiff",
    "sinter",
    "sintercard",
    "sismember",
    "smembers",
    "smismember",
    "srandmember",
    "sscan",
    "sunion",
    "zcard",
    "zcount",
    "zdiff",
    "zinter",
    "zintercard",
    "zlexcount",
    "zmscore",
    "zrandmember",
    "zrange",
    "zrangebylex",
    "zrangebyscore",
    "zrank",
    "zrevrange",
    "zrevrangebylex",
    "zrevrangebyscore",
    "zrevrank",
    "zscan",
    "zscore",
    "zunion",
    "geodist",
    "geohash",
    "geopos",
    "geosearch",
    "georadius_ro",
    "georadiusbymember_ro",
    "pfcount",
    "xlen",
    "xrange",
    "xrevrange",
    "xpending",
    "time",
    "ping",
    "echo",
    "lolwut",
    "info",
    "lastsave",
    // Modules that Redis and Valkey ship or that are common beside them.
    "json.get",
    "json.mget",
    "json.type",
    "json.strlen",
    "json.arrlen",
    "json.arrindex",
    "json.objkeys",
    "json.objlen",
    "json.resp",
    "ft.search",
    "ft.aggregate",
    "ft.info",
    "ft._list",
    "ft.explain",
    "ft.explaincli",
    "ft.tagvals",
    "ft.dictdump",
    "ft.syndump",
    "ft.sugget",
    "ft.suglen",
    "ft.spellcheck",
    "ft.hybrid",
    "ts.get",
    "ts.mget",
    "ts.range",
    "ts.revrange",
    "ts.mrange",
    "ts.mrevrange",
    "ts.info",
    "ts.queryindex",
    "bf.exists",
    "bf.mexists",
    "bf.info",
    "bf.card",
    "bf.scandump",
    "cf.exists",
    "cf.mexists",
    "cf.count",
    "cf.info",
    "cf.scandump",
    "cms.query",
    "cms.info",
    "topk.query",
    "topk.list",
    "topk.info",
    "topk.count",
    "tdigest.quantile",
    "tdigest.cdf",
    "tdigest.info",
    "tdigest.max",
    "tdigest.min",
    "tdigest.rank",
    "tdigest.revrank",
    "tdigest.byrank",
    "tdigest.byrevrank",
    "tdigest.trimmed_mean",
    "vsim",
    "vcard",
    "vdim",
    "vemb",
    "vinfo",
    "vlinks",
    "vrandmember",
    "vgetattr",
    "vismember",
    "vrange",
    "graph.ro_query",
];

/// Commands with words below them: the subcommands that read.
const READ_BELOW: &[(&str, &[&str])] = &[
    ("object", &["encoding", "freq", "idletime", "refcount", "help"]),
    ("memory", &["usage", "doctor", "stats", "malloc-stats", "help"]),
    ("xinfo", &["stream", "groups", "consumers", "help"]),
    (
        "command",
        &[
            "info",
            "count",
            "docs",
            "list",
            "getkeys",
            "getkeysandflags",
            "help",
        ],
    ),
    ("client", &["id", "getname", "info", "help"]),
    ("acl", &["whoami", "cat", "help"]),
    (
        "pubsub",
        &[
            "channels",
            "numsub",
            "numpat",
            "shardchannels",
            "shardnumsub",
            "help",
        ],
    ),
    (
        "cluster",
        &["info", "keyslot", "myid", "myshardid", "countkeysinslot", "help"],
    ),
    ("script", &["exists", "help"]),
    ("function", &["list", "stats", "help"]),
    ("json.debug", &["memory", "help"]),
];

const WRITES: &[&str] = &[
    "set",
    "setnx",
    "setex",
    "psetex",
    "setrange",
    "setbit",
    "append",
    "getset",
    "getdel",
    "getex",
    "incr",
    "incrby",
    "incrbyfloat",
    "decr",
    "decrby",
    "mset",
    "msetnx",
    "msetex",
    "del",
    "delex",
    "delifeq",
    "unlink",
    "copy",
    "rename",
    "renamenx",
    "move",
    "expire",
    "pexpire",
    "expireat",
    "pexpireat",
    "persist",
    "restore",
    "sort",
    "bitop",
    "bitfield",
    "hset",
    "hsetnx",
    "hmset",
    "hdel",
    "hincrby",
    "hincrbyfloat",
    "hexpire",
    "hpexpire",
    "hexpireat",
    "hpexpireat",
    "hpersist",
    "hgetex",
    "hgetdel",
    "hsetex",
    "lpush",
    "rpush",
    "lpushx",
    "rpushx",
    "lpop",
    "rpop",
    "lset",
    "lrem",
    "ltrim",
    "linsert",
    "lmove",
    "rpoplpush",
    "lmpop",
    "blpop",
    "brpop",
    "blmove",
    "brpoplpush",
    "blmpop",
    "sadd",
    "srem",
    "spop",
    "smove",
    "sdiffstore",
    "sinterstore",
    "sunionstore",
    "zadd",
    "zincrby",
    "zrem",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
    "zpopmin",
    "zpopmax",
    "zmpop",
    "bzpopmin",
    "bzpopmax",
    "bzmpop",
    "zrangestore",
    "zdiffstore",
    "zinterstore",
    "zunionstore",
    "geoadd",
    "georadius",
    "georadiusbymember",
    "geosearchstore",
    "pfadd",
    "pfmerge",
    "xadd",
    "xdel",
    "xdelex",
    "xackdel",
    "xtrim",
    "xsetid",
    "xack",
    "xclaim",
    "xautoclaim",
    "xreadgroup",
    "publish",
    "spublish",
    "eval",
    "fcall",
    "flushdb",
    "json.set",
    "json.mset",
    "json.merge",
    "json.del",
    "json.forget",
    "json.numincrby",
    "json.nummultby",
    "json.strappend",
    "json.arrappend",
    "json.arrinsert",
    "json.arrpop",
    "json.arrtrim",
    "json.toggle",
    "json.clear",
    "ft.create",
    "ft.alter",
    "ft.dropindex",
    "ft.aliasadd",
    "ft.aliasdel",
    "ft.aliasupdate",
    "ft.sugadd",
    "ft.sugdel",
    "ft.synupdate",
    "ft.dictadd",
    "ft.dictdel",
    "ts.create",
    "ts.add",
    "ts.madd",
    "ts.incrby",
    "ts.decrby",
    "ts.del",
    "ts.alter",
    "ts.createrule",
    "ts.deleterule",
    "bf.add",
    "bf.madd",
    "bf.insert",
    "bf.reserve",
    "bf.loadchunk",
    "cf.add",
    "cf.addnx",
    "cf.insert",
    "cf.insertnx",
    "cf.del",
    "cf.reserve",
    "cf.loadchunk",
    "cms.initbydim",
    "cms.initbyprob",
    "cms.incrby",
    "cms.merge",
    "topk.add",
    "topk.incrby",
    "topk.reserve",
    "tdigest.create",
    "tdigest.add",
    "tdigest.merge",
    "tdigest.reset",
    "vadd",
    "vrem",
    "vsetattr",
    "graph.query",
    "graph.delete",
];

const WRITE_BELOW: &[(&str, &[&str])] = &[
    (
        "xgroup",
        &["create", "createconsumer", "delconsumer", "destroy", "setid"],
    ),
    ("function", &["load", "delete", "flush", "restore"]),
];

/// Cuts a line as redis-cli does: blanks part the words, "…" knows `\n`, `\xFF` and their like, '…' only `\'`.
///
/// # Errors
/// A quote is open or goes on behind its end, or a line break stands outside of quotes.
pub(crate) fn words(line: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    if line.len() > MAX_STATEMENT {
        return Err("the command is longer than 256 KiB");
    }
    let mut words = Vec::new();
    let mut bytes = line.trim_matches([' ', '\t', '\n', '\r']).bytes().peekable();
    loop {
        while bytes.next_if(|byte| matches!(byte, b' ' | b'\t')).is_some() {}
        let Some(&first) = bytes.peek() else { break };
        let mut word = Vec::new();
        match first {
            b'"' => {
                bytes.next();
                double_quoted(&mut bytes, &mut word)?;
            }
            b'\'' => {
                bytes.next();
                single_quoted(&mut bytes, &mut word)?;
            }
            _ => {
                while let Some(byte) = bytes.next_if(|byte| !matches!(byte, b' ' | b'\t')) {
                    match byte {
                        b'\n' | b'\r' | 0 => return Err("a line break or a NUL stands outside of quotes"),
                        b'"' | b'\'' => return Err("a quote begins inside of a word"),
                        _ => word.push(byte),
                    }
                }
            }
        }
        if bytes.peek().is_some_and(|byte| !matches!(byte, b' ' | b'\t')) {
            return Err("a word goes on behind its closing quote");
        }
        words.push(word);
    }
    Ok(words)
}

type Bytes<'a> = std::iter::Peekable<std::str::Bytes<'a>>;

fn double_quoted(bytes: &mut Bytes<'_>, word: &mut Vec<u8>) -> Result<(), &'static str> {
    let open = "a quote is not closed";
    loop {
        match bytes.next().ok_or(open)? {
            b'"' => return Ok(()),
            b'\\' => match bytes.next().ok_or(open)? {
                b'n' => word.push(b'\n'),
                b'r' => word.push(b'\r'),
                b't' => word.push(b'\t'),
                b'b' => word.push(8),
                b'a' => word.push(7),
                b'x' => {
                    let mut ahead = bytes.clone();
                    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                    match (digit(ahead.next()), digit(ahead.next())) {
                        (Some(high), Some(low)) => {
                            word.push(u8::try_from(high * 16 + low).unwrap_or_default());
                            *bytes = ahead;
                        }
                        _ => word.push(b'x'),
                    }
                }
                other => word.push(other),
            },
            byte => word.push(byte),
        }
    }
}

fn single_quoted(bytes: &mut Bytes<'_>, word: &mut Vec<u8>) -> Result<(), &'static str> {
    loop {
        match bytes.next().ok_or("a quote is not closed")? {
            b'\'' => return Ok(()),
            b'\\' if bytes.next_if_eq(&b'\'').is_some() => word.push(b'\''),
            byte => word.push(byte),
        }
    }
}

pub(super) fn classify(statement: &str) -> Verdict {
    match words(statement) {
        Ok(words) => of_words(&words),
        Err(why) => Verdict::refuse(why),
    }
}

/// The verdict on a command that is cut already.
pub(crate) fn of_words(words: &[Vec<u8>]) -> Verdict {
    let lower = |at: usize| {
        words
            .get(at)
            .map(|word| String::from_utf8_lossy(word).to_ascii_lowercase())
            .unwrap_or_default()
    };
    let name = lower(0);
    if name.is_empty() {
        return Verdict::refuse("there is no command");
    }
    let below = |list: &[(&str, &[&str])]| {
        list.iter()
            .find(|(parent, _)| *parent == name)
            .map(|(_, children)| children.contains(&lower(1).as_str()))
    };
    match name.as_str() {
        "xread" => return xread(words),
        "eval_ro" => return script::classify(words),
        _ => {}
    }
    let shown_name = shown(&name);
    if READS.contains(&name.as_str()) || below(READ_BELOW) == Some(true) {
        return Verdict::read(format!("{shown_name} reads"));
    }
    if WRITES.contains(&name.as_str()) || below(WRITE_BELOW) == Some(true) {
        return Verdict::write(format!("{shown_name} writes, takes away or runs code that can"));
    }
    if name == "keys" {
        return Verdict::refuse("KEYS walks over all keys and stalls the server; use SCAN");
    }
    Verdict::refuse(format!(
        "{shown_name} acts on the session, the server or other clients, or is not known"
    ))
}

fn xread(words: &[Vec<u8>]) -> Verdict {
    let mut options = words.iter().skip(1);
    while let Some(word) = options.next() {
        if word.eq_ignore_ascii_case(b"streams") {
            return Verdict::read("xread reads");
        }
        if word.eq_ignore_ascii_case(b"block") {
            let span = options
                .next()
                .and_then(|word| std::str::from_utf8(word).ok())
                .and_then(|word| word.parse::<u64>().ok());
            if span.is_none_or(|span| span == 0) {
                return Verdict::refuse("BLOCK 0 waits without end");
            }
        }
    }
    Verdict::refuse("XREAD without STREAMS")
}

/// Whether the server's own flags for a command agree with a verdict of "read". Some harmless commands carry no flag at all.
#[cfg(feature = "connect")]
pub(crate) fn flags_agree(name: &str, flags: &[String]) -> bool {
    let has = |flag: &str| {
        flags
            .iter()
            .any(|have| have.trim_start_matches('+').eq_ignore_ascii_case(flag))
    };
    if has("write") || has("blocking") && !name.eq_ignore_ascii_case("xread") {
        return false;
    }
    let unflagged = [
        "time",
        "ping",
        "echo",
        "info",
        "lastsave",
        "command",
        "client",
        "acl",
        "pubsub",
        "cluster",
        "script",
        "function",
        "memory",
        "object",
        "xinfo",
        "ft._list",
        "ft.info",
        "json.debug",
    ];
    has("readonly") || unflagged.iter().any(|known| name.eq_ignore_ascii_case(known))
}
