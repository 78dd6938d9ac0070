//! What a statement of PostgreSQL needs. Never connects: what a parser cannot see (a view or operator that calls a function) the engine's read-only transaction stops.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::lex::{Dialect, Kind, Token, lex};
use super::sql::{Call, Grammar, Tokens, listed, words};
use super::verdict::{Class, Verdict, shown};

static READS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words(include_str!("words/postgres_reads.txt")));

/// Functions of extensions that read, with names that a longer list would never complete.
const READ_FRONTS: [&str; 2] = ["st_", "h3_"];

/// Files, programs, the network, other sessions, locks, settings, waits.
const REFUSED: &[&str] = &[
    "pg_stat_file",
    "lo_import",
    "lo_export",
    "pg_cancel_backend",
    "pg_terminate_backend",
    "pg_reload_conf",
    "pg_switch_wal",
    "pg_switch_xlog",
    "pg_notify",
    "set_config",
    "pg_promote",
    "pg_export_snapshot",
    "pg_current_logfile",
    "pg_hba_file_rules",
    "pg_ident_file_mappings",
    "pg_show_all_file_settings",
    "pg_drop_replication_slot",
    "pg_start_backup",
    "pg_stop_backup",
    "pg_nextoid",
    "pg_stop_making_pinned_objects",
    "pg_stat_force_next_flush",
    "pg_extension_config_dump",
    "cursor_to_xml",
    "cursor_to_xmlschema",
    "connectby",
    "xslt_process",
    "pg_logdir_ls",
    "setseed",
    "set_limit",
    "heap_force_kill",
    "heap_force_freeze",
    "pg_isolation_test_session_is_blocked",
];
const REFUSED_FRONTS: &[&str] = &[
    "pg_read_",
    "pg_ls_",
    "pg_file_",
    "pg_sleep",
    "pg_advisory_",
    "pg_try_advisory_",
    "pg_create_",
    "pg_copy_",
    "pg_replication_",
    "pg_logical_",
    "pg_backup_",
    "pg_wal_replay_",
    "pg_log_",
    "pg_rotate_",
    "pg_sync_replication",
    "dblink",
    "postgres_fdw_",
    "query_to_xml",
    "binary_upgrade_",
    "http_",
    "pg_get_wal_record",
    "pg_get_wal_block",
    "pg_get_wal_stats",
    "pg_wal_summary",
];
/// Functions that run the statement in their first argument.
const RUN_A_TEXT: [&str; 6] = [
    "ts_stat",
    "ts_rewrite",
    "crosstab",
    "crosstab2",
    "crosstab3",
    "crosstab4",
];

const CONSTRUCTS: &[&str] = &[
    "all",
    "and",
    "any",
    "array",
    "as",
    "between",
    "case",
    "explain",
    "copy",
    "char",
    "character",
    "bit",
    "dec",
    "decimal",
    "numeric",
    "float",
    "time",
    "timestamp",
    "varchar",
    "nchar",
    "national",
    "distinct",
    "else",
    "end",
    "escape",
    "except",
    "fetch",
    "from",
    "full",
    "group",
    "having",
    "ilike",
    "in",
    "inner",
    "intersect",
    "interval",
    "into",
    "is",
    "join",
    "lateral",
    "left",
    "like",
    "limit",
    "natural",
    "not",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "references",
    "returning",
    "right",
    "select",
    "setof",
    "similar",
    "some",
    "symmetric",
    "asymmetric",
    "table",
    "tablesample",
    "then",
    "to",
    "union",
    "unique",
    "using",
    "values",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "cross",
    "collate",
    "check",
    "primary",
    "foreign",
    "operator",
];
const SOFT_CONSTRUCTS: &[&str] = &[
    "over",
    "filter",
    "within",
    "partition",
    "materialized",
    "sets",
    "rollup",
    "cube",
    "by",
    "key",
    "precision",
    "varying",
    "zone",
    "repeatable",
    "recursive",
    "groups",
    "range",
    "rows",
    "columns",
    "nested",
    "passing",
    "set",
    "at",
    "first",
    "next",
];

static LEADING: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    words(
        "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create \
         current_catalog current_date current_role current_time current_timestamp current_user default deferrable desc distinct do \
         else end except false fetch for foreign from grant group having in initially intersect into lateral leading limit \
         localtime localtimestamp not null offset on only or order placing primary references returning select session_user \
         some symmetric table then to trailing true union unique user using variadic when where window with authorization binary \
         collation concurrently cross current_schema freeze full ilike inner is isnull join left like natural notnull outer \
         overlaps right similar tablesample verbose by escape zone document set values between row rows range groups exclude \
         uescape filter over within content passing columns path default ordinality quotes keys conditional unconditional depth \
         breadth cycle search nothing matched value materialized recursive repeatable no key share update of nowait skip locked \
         ties absent error empty keep omit wrapper version standalone strip whitespace normalized nfc nfd nfkc nfkd unknown scalar \
         explain execute call perform prepare insert delete merge if first next preceding following unbounded others show \
         operator interval partition sets rollup cube grouping nested at overriding system",
    )
});

static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar {
    constructs: CONSTRUCTS,
    soft_constructs: SOFT_CONSTRUCTS,
    leading: &LEADING,
    folds_quoted: false,
});

pub(super) fn classify(statement: &str) -> Verdict {
    nested(statement, 0)
}

/// A statement can stand in a text inside of another; more than three deep nobody means to read.
fn nested(statement: &str, depth: u8) -> Verdict {
    let lexed = match lex(Dialect::Postgres, statement) {
        Ok(lexed) => lexed,
        Err(why) => return Verdict::refuse(why),
    };
    if lexed.loosening_hint {
        return Verdict::refuse("a hint in a comment changes settings");
    }
    match Tokens::single(&lexed.tokens) {
        Ok(tokens) => one(tokens, depth),
        Err(why) => Verdict::refuse(why),
    }
}

fn one(tokens: Tokens<'_, '_>, depth: u8) -> Verdict {
    let head = tokens.head();
    let Some(word) = tokens.word(head) else {
        return Verdict::refuse("it does not begin with a statement");
    };
    let word = word.text.to_ascii_lowercase();
    if head > 0 && !matches!(word.as_str(), "select" | "values" | "table" | "with") {
        return Verdict::refuse("only a query may stand in parentheses");
    }
    match word.as_str() {
        "select" | "values" | "table" | "with" => query(tokens, depth),
        "explain" => explain(tokens, depth),
        "show" => Verdict::read("it shows a setting"),
        "insert" | "update" | "delete" | "merge" => judged(Verdict::write("it changes rows"), tokens, depth),
        "copy" => copy(tokens, depth),
        "truncate" | "vacuum" | "analyze" | "analyse" | "reindex" | "cluster" | "refresh" | "comment"
        | "security" => Verdict::write("it changes tables or what is kept about them"),
        "do" | "call" => Verdict::write("it runs code that can write"),
        "create" | "alter" | "drop" | "grant" | "revoke" | "reassign" | "import" => {
            judged(definition(&word, tokens), tokens, depth)
        }
        "commit" | "end" | "rollback" | "abort" | "begin" | "start" | "savepoint" | "release" => {
            Verdict::refuse("it controls the transaction")
        }
        "set" | "reset" | "discard" | "prepare" | "execute" | "deallocate" | "declare" | "fetch" | "move"
        | "close" | "listen" | "unlisten" | "notify" | "lock" => {
            Verdict::refuse("it controls the session or holds a lock")
        }
        "checkpoint" | "load" => Verdict::refuse("it acts on the server itself"),
        _ => Verdict::refuse(format!("{} begins no statement that is known", shown(&word))),
    }
}

fn query(tokens: Tokens<'_, '_>, depth: u8) -> Verdict {
    let verdict = if tokens.changes_data() {
        Verdict::write("a part of it changes rows")
    } else if selects_into(tokens) {
        Verdict::write("SELECT INTO creates a table")
    } else if tokens.has_pair("for", &["update", "share", "no", "key"]) {
        Verdict::write("it locks rows")
    } else {
        Verdict::read("it is a query")
    };
    judged(verdict, tokens, depth)
}

fn selects_into(tokens: Tokens<'_, '_>) -> bool {
    tokens.all().iter().enumerate().any(|(at, token)| {
        token.is_word("into")
            && !tokens.before(at).is_some_and(|before| {
                before.is_word("as") || before.is_mark(".") || before.is_any(&["insert", "merge"])
            })
    })
}

/// The stricter of `verdict` and what the functions say that are called.
fn judged(verdict: Verdict, tokens: Tokens<'_, '_>, depth: u8) -> Verdict {
    if verdict.class == Class::Refuse {
        return verdict;
    }
    let strict = verdict.class == Class::Read;
    tokens
        .calls(&GRAMMAR)
        .map(|call| function(&call, tokens, strict, depth))
        .fold(verdict, Verdict::or_stricter)
}

/// What calling a function needs. Outside of queries (`strict` is false) an unknown one says nothing new: `t(` may be a table there.
fn function(call: &Call<'_>, tokens: Tokens<'_, '_>, strict: bool, depth: u8) -> Verdict {
    let name = call.name.as_ref();
    if call.escaped {
        return Verdict::refuse("the name of a function hides its letters");
    }
    if listed(name, REFUSED, REFUSED_FRONTS) {
        return Verdict::refuse(format!(
            "{}() reaches beyond the tables of this database",
            shown(name)
        ));
    }
    if RUN_A_TEXT.contains(&name) {
        return text_argument(name, call.open, tokens, depth);
    }
    let builtin = call
        .qualifier
        .as_deref()
        .is_none_or(|schema| matches!(schema, "pg_catalog" | "information_schema" | "extensions"));
    if (builtin && READS.contains(name)) || READ_FRONTS.iter().any(|front| name.starts_with(front)) || !strict
    {
        return Verdict::read("it is a query");
    }
    Verdict::write(format!(
        "{}() is no function that is known to only read",
        shown(name)
    ))
}

fn text_argument(name: &str, open: usize, tokens: Tokens<'_, '_>, depth: u8) -> Verdict {
    let arguments = arguments(tokens, open);
    // ts_rewrite(query, query, query) has no statement in it; with two, the second is one.
    let place = match (name, arguments.len()) {
        ("ts_rewrite", 3) => return Verdict::read("it is a query"),
        ("ts_rewrite", _) => 1,
        _ => 0,
    };
    let Some([text]) = arguments
        .get(place)
        .copied()
        .filter(|words| words.iter().all(|word| word.kind == Kind::Text))
    else {
        return Verdict::refuse(format!("{name}() runs a text that is not written out"));
    };
    let Some(inner) = text
        .text
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''))
        .map(|text| text.replace("''", "'"))
        .or_else(|| dollar_quoted(text.text))
    else {
        return Verdict::refuse(format!("{name}() runs a text with escapes in it"));
    };
    if depth >= 2 {
        return Verdict::refuse("statements stand in texts in texts");
    }
    let verdict = nested(&inner, depth + 1);
    if verdict.class == Class::Read {
        verdict
    } else {
        Verdict::refuse(format!("{name}() runs a text that does not only read"))
    }
}

/// The arguments of a call, each with its tokens.
fn arguments<'t, 'a>(tokens: Tokens<'t, 'a>, open: usize) -> Vec<&'t [Token<'a>]> {
    let end = tokens.get(open).map_or(0, |token| token.pair);
    let mut found = Vec::new();
    let (mut from, mut at) = (open + 1, open + 1);
    while at < end {
        match tokens.get(at) {
            Some(token) if token.is_mark("(") => at = token.pair,
            Some(token) if token.is_mark(",") => {
                found.push(tokens.all().get(from..at).unwrap_or_default());
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    found.push(tokens.all().get(from..end).unwrap_or_default());
    found
}

fn dollar_quoted(text: &str) -> Option<String> {
    let rest = text.strip_prefix('$')?;
    let (tag, rest) = rest.split_once('$')?;
    rest.strip_suffix(&format!("${tag}$")).map(str::to_owned)
}

fn explain(tokens: Tokens<'_, '_>, depth: u8) -> Verdict {
    let mut at = 1;
    let mut runs = false;
    if let Some(open) = tokens.get(1).filter(|token| token.is_mark("(")) {
        // EXPLAIN (SELECT 1) has a query in the parentheses, not options.
        if !tokens.is_at(2, &["select", "values", "table", "with"])
            && !tokens.get(2).is_some_and(|token| token.is_mark("("))
        {
            runs = analyzes(tokens, open.pair);
            at = open.pair.saturating_add(1);
        }
    } else {
        while tokens.is_at(at, &["analyze", "analyse", "verbose"]) {
            runs |= tokens.is_at(at, &["analyze", "analyse"]);
            at += 1;
        }
    }
    let inner = tokens.from(at);
    let relative = one_explained(inner, tokens, at, depth);
    match (runs, relative.class) {
        (_, Class::Refuse) | (true, Class::Write) => relative,
        (true, Class::Read) => Verdict::read("it runs a query and shows its plan"),
        (false, _) => Verdict::read("it shows a plan and runs nothing"),
    }
}

/// Partners of parentheses are numbered from the whole statement, so the inner one is judged inside of it.
fn one_explained(inner: Tokens<'_, '_>, whole: Tokens<'_, '_>, at: usize, depth: u8) -> Verdict {
    let head = at + inner.head();
    let Some(word) = whole.word(head) else {
        return Verdict::refuse("EXPLAIN explains no statement");
    };
    let word = word.text.to_ascii_lowercase();
    match word.as_str() {
        "select" | "values" | "table" | "with" => query(whole, depth),
        "insert" | "update" | "delete" | "merge" => judged(Verdict::write("it changes rows"), whole, depth),
        "create" | "refresh" => judged(Verdict::write("it creates a table"), whole, depth),
        _ => Verdict::refuse("EXPLAIN of such a statement is not known"),
    }
}

fn analyzes(tokens: Tokens<'_, '_>, close: usize) -> bool {
    let mut at = 2;
    let mut runs = false;
    while at < close {
        if tokens.is_at(at, &["analyze", "analyse"]) {
            let off = tokens.is_at(at + 1, &["false", "off"])
                || tokens.get(at + 1).is_some_and(|token| {
                    (token.kind == Kind::Number && token.text == "0")
                        || (token.kind == Kind::Text
                            && matches!(token.text.to_ascii_lowercase().as_str(), "'false'" | "'off'"))
                });
            // The last one counts, so one that runs is enough only while nothing takes it back; being strict costs nothing.
            runs |= !off;
        }
        at += 1;
    }
    runs
}

fn copy(tokens: Tokens<'_, '_>, depth: u8) -> Verdict {
    let close = tokens
        .get(1)
        .filter(|token| token.is_mark("("))
        .map(|token| token.pair);
    if tokens.has(&["program"]) {
        return Verdict::refuse("COPY … PROGRAM runs a program on the server");
    }
    if let Some(close) = close {
        if tokens.changes_data() && tokens.is_at(close + 2, &["stdout"]) {
            return judged(
                Verdict::write("the statement inside of COPY changes rows"),
                tokens,
                depth,
            );
        }
        return Verdict::refuse("COPY … TO writes a file or changes the protocol; send the query itself");
    }
    let mut at = 2;
    while tokens
        .get(at)
        .is_some_and(|token| token.is_mark(".") || token.is_mark("("))
    {
        at = match tokens.get(at) {
            Some(open) if open.is_mark("(") => open.pair.saturating_add(1),
            _ => at + 2,
        };
    }
    if tokens.is_at(at, &["from"]) {
        Verdict::write("COPY … FROM adds rows")
    } else {
        Verdict::refuse("COPY … TO writes a file or changes the protocol; send a query instead")
    }
}

/// What is made, changed or dropped, and what of it reaches beyond the database.
fn definition(word: &str, tokens: Tokens<'_, '_>) -> Verdict {
    let kind = (1..8).find_map(|at| {
        tokens
            .word(at)
            .map(|token| token.text.to_ascii_lowercase())
            .filter(|kind| {
                !matches!(
                    kind.as_str(),
                    "or" | "replace"
                        | "global"
                        | "local"
                        | "temp"
                        | "temporary"
                        | "unlogged"
                        | "unique"
                        | "trusted"
                        | "procedural"
                        | "constraint"
                        | "materialized"
                        | "recursive"
                        | "event"
                )
            })
    });
    let kind = kind.unwrap_or_default();
    match (word, kind.as_str()) {
        (_, "role" | "user" | "group") => Verdict::refuse("it changes accounts of the server"),
        (_, "system") => Verdict::refuse("it changes settings of the server"),
        (_, "tablespace") => Verdict::refuse("it chooses files of the server"),
        (_, "server" | "subscription" | "language" | "access") => {
            Verdict::refuse("it connects or extends the server")
        }
        (_, "foreign") if tokens.is_at(2, &["data"]) => Verdict::refuse("it connects or extends the server"),
        ("import", _) => Verdict::refuse("it connects the server to another"),
        ("alter", "database") => Verdict::refuse("it changes settings of a database"),
        ("grant" | "revoke", _) if !tokens.has(&["on"]) => {
            Verdict::refuse("it changes what an account is a member of")
        }
        ("grant" | "revoke", _)
            if tokens.has_pair(
                "on",
                &["parameter", "foreign", "server", "tablespace", "language"],
            ) =>
        {
            Verdict::refuse("it grants what reaches beyond the database")
        }
        ("create" | "alter", "function" | "procedure") if foreign_language(tokens) => {
            Verdict::refuse("it brings in code in a language that reaches beyond the database")
        }
        _ => Verdict::write("it changes the schema or rights in it"),
    }
}

fn foreign_language(tokens: Tokens<'_, '_>) -> bool {
    tokens.all().windows(2).any(|pair| {
        matches!(pair, [language, name] if language.is_word("language")
        && !matches!(
            name.text.trim_matches(['\'', '"']).to_ascii_lowercase().as_str(),
            "sql" | "plpgsql" | "plperl" | "pltcl" | "plv8" | "plpgsql_check"
        ))
    })
}
