//! What a statement of MySQL or MariaDB needs, whatever `sql_mode` the session has. Never believes that a comment is one when the server may run it.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::lex::{Dialect, Executable, lex};
use super::sql::{Call, Grammar, Tokens, listed, words};
use super::verdict::{Class, Verdict, shown};

static READS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words(include_str!("words/mysql_reads.txt")));

/// Files, locks, waits, replication.
const REFUSED: &[&str] = &[
    "load_file",
    "sleep",
    "benchmark",
    "get_lock",
    "release_lock",
    "release_all_locks",
    "master_pos_wait",
    "master_gtid_wait",
    "source_pos_wait",
    "wait_for_executed_gtid_set",
    "wait_until_sql_thread_after_gtids",
    "sys_exec",
    "sys_eval",
    "sys_get",
    "sys_set",
    "asynchronous_connection_failover_add_source",
    "wsrep_sync_wait_upto_gtid",
    "service_get_write_locks",
    "service_get_read_locks",
    "service_release_locks",
    "version_tokens_set",
    "keyring_key_fetch",
    "keyring_key_store",
    "group_replication_set_as_primary",
    "set_system_variable",
    "debug_sync",
];
const REFUSED_FRONTS: &[&str] = &[
    "lib_mysqludf_",
    "http_",
    "group_replication_",
    "asynchronous_connection_failover_",
    "ps_setup_",
];

const CONSTRUCTS: &[&str] = &[
    "all",
    "and",
    "any",
    "as",
    "between",
    "binary",
    "by",
    "case",
    "collate",
    "cross",
    "div",
    "distinct",
    "distinctrow",
    "else",
    "end",
    "except",
    "exists",
    "explain",
    "desc",
    "describe",
    "analyze",
    "for",
    "force",
    "from",
    "group",
    "having",
    "ignore",
    "in",
    "index",
    "inner",
    "intersect",
    "into",
    "is",
    "join",
    "key",
    "keys",
    "lateral",
    "left",
    "like",
    "limit",
    "mod",
    "natural",
    "not",
    "of",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "partition",
    "primary",
    "regexp",
    "right",
    "rlike",
    "select",
    "some",
    "straight_join",
    "table",
    "then",
    "union",
    "unique",
    "use",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
    "xor",
    "decimal",
    "numeric",
    "dec",
    "varchar",
    "varbinary",
    "float",
    "double",
    "real",
    "int",
    "integer",
    "bigint",
    "smallint",
    "tinyint",
    "mediumint",
    "row",
    "returning",
];
const SOFT_CONSTRUCTS: &[&str] = &[
    "member",
    "recursive",
    "ordinality",
    "do",
    "against",
    "columns",
    "over",
];

static LEADING: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    words(
        "accessible add all alter analyze and as asc before between binary both by call cascade case change check collate column \
         condition constraint continue convert create cross current_date current_time current_timestamp current_user cursor default \
         delayed delete desc describe distinct distinctrow div do else elseif end enclosed escape escaped except exists explain \
         false fetch for force foreign from fulltext generated grant group having high_priority if ignore in index inner insert \
         intersect interval into is join key keys lateral leading left like limit lines load lock low_priority match member mod \
         natural not null of offset on optimize option or order outer over partition path precision primary procedure range \
         read recursive regexp rename repeat replace require restrict return returning right rlike row rows select separator set \
         show some sounds sql_big_result sql_buffer_result sql_cache sql_calc_found_rows sql_no_cache sql_small_result \
         straight_join table tables then to trailing true union unique unknown update usage use using value values when where while \
         window with xor against format extended partitions json tree traditional do second minute hour day month year week \
         quarter microsecond preceding following current empty error within at timestamp transaction system_time",
    )
});

pub(super) static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar {
    constructs: CONSTRUCTS,
    soft_constructs: SOFT_CONSTRUCTS,
    leading: &LEADING,
    folds_quoted: true,
});

pub(super) fn classify(statement: &str) -> Verdict {
    let modes: &[(bool, bool)] = match (statement.contains('\\'), statement.contains('"')) {
        // (backslash escapes, ANSI_QUOTES): settings of a session that change where a text ends.
        (true, true) => &[(true, false), (false, false), (true, true), (false, true)],
        (true, false) => &[(true, false), (false, false)],
        (false, _) => &[(true, false)],
    };
    let mut verdicts = modes.iter().map(|(backslash, ansi)| {
        as_lexed(
            statement,
            Dialect::Mysql {
                backslash: *backslash,
                ansi: *ansi,
            },
        )
    });
    let usual = verdicts.next().unwrap_or(Err("there is no statement"));
    // What cannot be cut under a mode is an error there and runs nothing.
    verdicts
        .filter_map(Result::ok)
        .fold(usual.unwrap_or_else(Verdict::refuse), Verdict::or_stricter)
}

fn as_lexed(statement: &str, dialect: Dialect) -> Result<Verdict, &'static str> {
    let lexed = lex(dialect, statement)?;
    if lexed.loosening_hint {
        return Ok(Verdict::refuse("a hint in a comment changes settings"));
    }
    let verdict = match Tokens::single(&lexed.tokens) {
        Ok(tokens) => one(tokens),
        Err(why) => Verdict::refuse(why),
    };
    Ok(match (lexed.executable, verdict.class) {
        (None, _) | (Some(Executable::Always), Class::Write) => verdict,
        (Some(_), _) => {
            Verdict::refuse("what stands in /*! */ runs or not by the server's version; write it without")
        }
    })
}

fn one(tokens: Tokens<'_, '_>) -> Verdict {
    let head = tokens.head();
    let Some(word) = tokens.word(head) else {
        return Verdict::refuse("it does not begin with a statement");
    };
    let word = word.text.to_ascii_lowercase();
    if head > 0 && !matches!(word.as_str(), "select" | "values" | "table" | "with") {
        return Verdict::refuse("only a query may stand in parentheses");
    }
    match word.as_str() {
        "select" | "values" | "table" | "with" | "do" => query(tokens),
        "explain" | "describe" | "desc" => explain(tokens),
        "analyze" => analyze(tokens),
        "show" => show(tokens),
        "help" => Verdict::read("it shows the manual"),
        "checksum" => judged(Verdict::read("it reads tables for a checksum"), tokens),
        "insert" | "update" | "delete" | "replace" => {
            let verdict = if assigns(tokens) || into_place(tokens, true) {
                Verdict::refuse("it changes a variable of the session or writes a file")
            } else {
                Verdict::write("it changes rows")
            };
            judged(verdict, tokens)
        }
        "load" => load(tokens),
        "rename" if tokens.is_at(1, &["user"]) => Verdict::refuse("it changes accounts of the server"),
        "truncate" | "rename" | "optimize" | "repair" | "check" => {
            judged(Verdict::write("it changes tables"), tokens)
        }
        "call" => judged(Verdict::write("it runs code that can write"), tokens),
        "create" | "alter" | "drop" => judged(definition(&word, tokens), tokens),
        "grant" | "revoke" => Verdict::refuse("it changes rights of accounts"),
        "commit" | "rollback" | "begin" | "start" | "savepoint" | "release" | "xa" => {
            Verdict::refuse("it controls the transaction or the server")
        }
        "set" | "use" | "prepare" | "execute" | "deallocate" | "handler" | "lock" | "unlock" | "get"
        | "signal" | "resignal" | "delimiter" | "declare" => {
            Verdict::refuse("it controls the session or holds a lock")
        }
        "flush" | "reset" | "kill" | "purge" | "change" | "stop" | "install" | "uninstall" | "binlog"
        | "cache" | "shutdown" | "restart" | "clone" | "import" | "backup" => {
            Verdict::refuse("it acts on the server or on other sessions")
        }
        _ => Verdict::refuse(format!("{} begins no statement that is known", shown(&word))),
    }
}

fn query(tokens: Tokens<'_, '_>) -> Verdict {
    let verdict = if assigns(tokens) {
        Verdict::refuse("it changes a variable of the session")
    } else if into_place(tokens, false) {
        Verdict::refuse("SELECT INTO writes a file or a variable")
    } else if tokens.has_pair("for", &["update", "share"]) || tokens.has_pair("lock", &["in"]) {
        Verdict::write("it locks rows")
    } else if changes_data(tokens) {
        Verdict::write("a part of it changes rows")
    } else if tokens.has_pair("next", &["value"]) {
        Verdict::write("it moves a sequence")
    } else {
        Verdict::read("it is a query")
    };
    judged(verdict, tokens)
}

/// These words are reserved: without quotes they name nothing, unless a dot or `@` stands before them. INSERT() and REPLACE() are
/// functions.
fn changes_data(tokens: Tokens<'_, '_>) -> bool {
    tokens.all().iter().enumerate().any(|(at, token)| {
        let called = tokens.get(at + 1).is_some_and(|next| next.is_mark("("));
        (token.is_any(&["delete", "update"]) || (token.is_any(&["insert", "replace"]) && !called))
            && !tokens
                .before(at)
                .is_some_and(|before| before.is_mark(".") || before.is_mark("@"))
    })
}

/// `:=`
fn assigns(tokens: Tokens<'_, '_>) -> bool {
    tokens.all().windows(2).any(
        |pair| matches!(pair, [colon, equal] if colon.is_mark(":") && equal.is_mark("=") && colon.at + 1 == equal.at),
    )
}

/// `INTO OUTFILE`, `INTO DUMPFILE`, `INTO @v`; in a query every INTO, in a change all but the one before its table.
fn into_place(tokens: Tokens<'_, '_>, change: bool) -> bool {
    tokens.all().iter().enumerate().any(|(at, token)| {
        if !token.is_word("into") {
            return false;
        }
        // `t.into` is a column; of `@a.` and of `1.` the dot is the end.
        let start = tokens.chain(at);
        let is_column = start < at && !tokens.before(start).is_some_and(|before| before.is_mark("@"));
        let begins_a_change = || {
            tokens.before(at).is_some_and(|before| {
                before.is_any(&[
                    "insert",
                    "replace",
                    "ignore",
                    "delayed",
                    "low_priority",
                    "high_priority",
                ])
            })
        };
        !(is_column || change && begins_a_change())
    })
}

fn judged(verdict: Verdict, tokens: Tokens<'_, '_>) -> Verdict {
    if verdict.class == Class::Refuse {
        return verdict;
    }
    let strict = verdict.class == Class::Read;
    tokens
        .calls(&GRAMMAR)
        .map(|call| function(&call, tokens, strict))
        .fold(verdict, Verdict::or_stricter)
}

fn function(call: &Call<'_>, tokens: Tokens<'_, '_>, strict: bool) -> Verdict {
    let name = call.name.as_ref();
    if listed(name, REFUSED, REFUSED_FRONTS) {
        return Verdict::refuse(format!(
            "{}() waits, locks or reaches beyond the tables",
            shown(name)
        ));
    }
    let empty = tokens
        .get(call.open)
        .is_some_and(|open| open.pair == call.open + 1);
    if name == "last_insert_id" {
        return if empty {
            Verdict::read("it is a query")
        } else {
            Verdict::refuse("LAST_INSERT_ID(…) sets what the session remembers")
        };
    }
    let builtin = call.qualifier.as_deref().is_none_or(|schema| schema == "sys");
    if !strict || (builtin && READS.contains(name)) {
        return Verdict::read("it is a query");
    }
    Verdict::write(format!(
        "{}() is no function that is known to only read",
        shown(name)
    ))
}

fn explain(tokens: Tokens<'_, '_>) -> Verdict {
    let mut at = 1;
    let mut runs = false;
    loop {
        if tokens.is_at(at, &["analyze"]) {
            runs = true;
            at += 1;
        } else if tokens.is_at(at, &["extended", "partitions"]) {
            at += 1;
        } else if tokens.is_at(at, &["format"]) && tokens.get(at + 1).is_some_and(|mark| mark.is_mark("=")) {
            at += 3;
        } else {
            break;
        }
    }
    if tokens.is_at(at, &["for"]) || tokens.is_at(at, &["into"]) {
        return Verdict::refuse("it looks into another session or sets a variable");
    }
    explained(tokens, at, runs)
}

/// MariaDB spells `EXPLAIN ANALYZE` as `ANALYZE`; with TABLE it counts keys and keeps them.
fn analyze(tokens: Tokens<'_, '_>) -> Verdict {
    if tokens.is_at(1, &["table", "tables", "local", "no_write_to_binlog"]) {
        return Verdict::write("it writes statistics");
    }
    let mut at = 1;
    if tokens.is_at(at, &["format"]) && tokens.get(at + 1).is_some_and(|mark| mark.is_mark("=")) {
        at += 3;
    }
    if !tokens.is_at(
        at + tokens.from(at).head(),
        &[
            "select", "values", "table", "with", "insert", "update", "delete", "replace",
        ],
    ) {
        return Verdict::refuse("ANALYZE of such a statement is not known");
    }
    explained(tokens, at, true)
}

fn explained(tokens: Tokens<'_, '_>, at: usize, runs: bool) -> Verdict {
    let head = at + tokens.from(at).head();
    let inner = match tokens
        .word(head)
        .map(|word| word.text.to_ascii_lowercase())
        .as_deref()
    {
        Some("select" | "values" | "table" | "with") => query(tokens),
        Some("insert" | "update" | "delete" | "replace") => {
            if assigns(tokens) || into_place(tokens, true) {
                Verdict::refuse("it changes a variable of the session")
            } else {
                judged(Verdict::write("it changes rows"), tokens)
            }
        }
        // DESCRIBE of a table, with or without a column.
        _ if !runs && tokens.get(head).is_some_and(super::lex::Token::is_name) => {
            return if tokens.all().iter().any(|token| token.is_mark("(")) {
                Verdict::refuse("EXPLAIN of such a statement is not known")
            } else {
                Verdict::read("it describes a table")
            };
        }
        _ => Verdict::refuse("EXPLAIN of such a statement is not known"),
    };
    match (runs, inner.class) {
        (_, Class::Refuse) | (true, Class::Write) => inner,
        (true, Class::Read) => Verdict::read("it runs a query and shows its plan"),
        // To make a plan the server calls functions that say they are deterministic, and whoever made one may have said so wrongly.
        (false, _) => tokens
            .calls(&GRAMMAR)
            .map(|call| function(&call, tokens, true))
            .fold(
                Verdict::read("it shows a plan and runs nothing"),
                Verdict::or_stricter,
            ),
    }
}

/// What a row of SHOW GRANTS is without the hash of the account's password, or what stands for it.
#[cfg(feature = "connect")]
pub(crate) fn without_hash(grant: &str) -> Option<String> {
    let (front, back) = grant.split_once(" IDENTIFIED ")?;
    let mut parts = back.split('\'');
    let mut kept = format!("{front} IDENTIFIED {}", parts.next().unwrap_or_default());
    // Of '…' every second part is inside.
    for (place, part) in parts.enumerate() {
        kept.push('\'');
        kept.push_str(if place % 2 == 0 { "(not shown)" } else { part });
    }
    Some(kept)
}

fn show(tokens: Tokens<'_, '_>) -> Verdict {
    if assigns(tokens) || into_place(tokens, false) {
        return Verdict::refuse("it changes a variable of the session");
    }
    // SHOW GRANTS is answered without it; of these nothing else would be left.
    if tokens.is_at(1, &["create"]) && tokens.is_at(2, &["user", "server"]) {
        return Verdict::refuse("it shows a password or its hash; SHOW GRANTS tells what the account may do");
    }
    // Accounts see their own sessions in all three, and whoever else signs in with the account has one.
    if tokens.is_at(1, &["explain", "analyze", "processlist"])
        || tokens.is_at(1, &["full"]) && tokens.is_at(2, &["processlist"])
    {
        return Verdict::refuse("it looks into other sessions");
    }
    judged(Verdict::read("it shows what the server knows"), tokens)
}

fn load(tokens: Tokens<'_, '_>) -> Verdict {
    if !tokens.is_at(1, &["data", "xml"]) {
        return Verdict::refuse("it acts on the server or on other sessions");
    }
    let clients = tokens.all().iter().take(4).any(|token| token.is_word("local"));
    if clients || assigns(tokens) || tokens.all().iter().any(|token| token.is_mark("@")) {
        return Verdict::refuse("LOCAL reads a file of the machine that muster runs on, @ sets a variable");
    }
    judged(Verdict::write("it adds rows"), tokens)
}

fn definition(word: &str, tokens: Tokens<'_, '_>) -> Verdict {
    let kinds = [
        "user",
        "role",
        "server",
        "instance",
        "tablespace",
        "undo",
        "logfile",
        "spatial",
        "resource",
        "library",
        "event",
        "trigger",
        "procedure",
        "function",
        "package",
        "table",
        "view",
        "database",
        "schema",
        "index",
        "sequence",
    ];
    let kind = (1..16).find_map(|at| tokens.word(at).filter(|token| token.is_any(&kinds)));
    let kind = kind
        .map(|token| token.text.to_ascii_lowercase())
        .unwrap_or_default();
    match (word, kind.as_str()) {
        (_, "user" | "role") => Verdict::refuse("it changes accounts of the server"),
        (_, "server" | "instance" | "tablespace" | "undo" | "logfile" | "resource" | "library") => {
            Verdict::refuse("it acts on the server or chooses its files")
        }
        (_, "spatial") if tokens.has(&["reference"]) => Verdict::refuse("it acts on the server"),
        ("create", "function") if tokens.has(&["soname"]) => Verdict::refuse("it loads code into the server"),
        _ if tokens.has(&["directory", "federated", "connection", "connect"]) => {
            Verdict::refuse("it chooses files of the server or connects it to another")
        }
        _ => Verdict::write("it changes the schema"),
    }
}

#[cfg(all(test, feature = "connect"))]
mod tests {
    use super::without_hash;

    #[test]
    fn a_grant_is_shown_without_the_hash_of_the_password() {
        for (grant, kept) in [
            (
                "GRANT USAGE ON *.* TO `r`@`localhost` IDENTIFIED BY PASSWORD '*0123AB' WITH GRANT OPTION",
                "GRANT USAGE ON *.* TO `r`@`localhost` IDENTIFIED BY PASSWORD '(not shown)' WITH GRANT OPTION",
            ),
            (
                "GRANT USAGE ON *.* TO `r`@`%` IDENTIFIED VIA ed25519 USING 'abc' OR mysql_native_password USING '*0'",
                "GRANT USAGE ON *.* TO `r`@`%` IDENTIFIED VIA ed25519 USING '(not shown)' OR mysql_native_password USING '(not shown)'",
            ),
        ] {
            assert_eq!(without_hash(grant).as_deref(), Some(kept));
        }
        assert_eq!(without_hash("GRANT SELECT ON `app`.* TO `r`@`localhost`"), None);
    }
}
