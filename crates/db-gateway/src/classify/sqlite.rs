//! What a statement of SQLite needs. Never takes a PRAGMA for a question because it looks like one.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::lex::{Dialect, Kind, lex};
use super::sql::{Call, Grammar, Tokens, words};
use super::verdict::{Class, Verdict, shown};

static READS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words(include_str!("words/sqlite_reads.txt")));

/// Functions that read or write files, load code or leak pointers.
const REFUSED: &[&str] = &[
    "load_extension",
    "readfile",
    "writefile",
    "edit",
    "fts3_tokenizer",
    "fsdir",
    "lsdir",
    "zipfile",
    "sqlar_compress",
    "sqlar_uncompress",
    "writefile_async",
    "eval",
    "shell",
    "system",
];

/// Pragmas that only tell, with an argument or without.
pub(crate) const ASKING: &[&str] = &[
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "foreign_key_check",
    "integrity_check",
    "quick_check",
];
/// Pragmas that only tell while they have no argument.
pub(crate) const GETTERS: &[&str] = &[
    "application_id",
    "auto_vacuum",
    "automatic_index",
    "busy_timeout",
    "cache_size",
    "cache_spill",
    "cell_size_check",
    "checkpoint_fullfsync",
    "collation_list",
    "compile_options",
    "data_version",
    "database_list",
    "defer_foreign_keys",
    "encoding",
    "foreign_keys",
    "freelist_count",
    "fullfsync",
    "function_list",
    "hard_heap_limit",
    "ignore_check_constraints",
    "journal_mode",
    "journal_size_limit",
    "legacy_alter_table",
    "locking_mode",
    "max_page_count",
    "mmap_size",
    "module_list",
    "page_count",
    "page_size",
    "pragma_list",
    "query_only",
    "read_uncommitted",
    "recursive_triggers",
    "reverse_unordered_selects",
    "schema_version",
    "secure_delete",
    "soft_heap_limit",
    "synchronous",
    "temp_store",
    "threads",
    "trusted_schema",
    "user_version",
    "wal_autocheckpoint",
    "writable_schema",
    "stats",
];
/// Pragmas that write the file, with an argument.
const SETTERS_OF_THE_FILE: &[&str] = &[
    "application_id",
    "user_version",
    "journal_mode",
    "auto_vacuum",
    "page_size",
    "encoding",
    "max_page_count",
];
/// Pragmas that write the file by being called.
const WRITERS: &[&str] = &["optimize", "incremental_vacuum", "wal_checkpoint"];

const CONSTRUCTS: &[&str] = &[
    "all",
    "and",
    "as",
    "between",
    "by",
    "case",
    "cast",
    "check",
    "collate",
    "cross",
    "distinct",
    "else",
    "end",
    "escape",
    "except",
    "exists",
    "explain",
    "plan",
    "filter",
    "from",
    "group",
    "having",
    "in",
    "indexed",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "left",
    "limit",
    "materialized",
    "natural",
    "not",
    "notnull",
    "of",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "primary",
    "raise",
    "recursive",
    "references",
    "returning",
    "right",
    "select",
    "set",
    "table",
    "then",
    "union",
    "unique",
    "using",
    "values",
    "when",
    "where",
    "window",
    "with",
    "key",
    "decimal",
    "varchar",
    "numeric",
    "char",
    "nvarchar",
    "within",
];

static LEADING: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    words(
        "all and as asc between by case cast check collate cross current default desc distinct do each else end escape except \
         exists explain filter following for from full glob group having if in index indexed inner insert intersect into is isnull \
         join left like limit match materialized natural no not nothing notnull null of offset on or order others outer over \
         partition plan preceding query range recursive regexp returning right row rows select set table then to unbounded \
         union unique update using values when where window with within exclude groups ties",
    )
});

pub(super) static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar {
    constructs: CONSTRUCTS,
    soft_constructs: &[],
    leading: &LEADING,
    folds_quoted: true,
});

pub(super) fn classify(statement: &str) -> Verdict {
    let lexed = match lex(Dialect::Sqlite, statement) {
        Ok(lexed) => lexed,
        Err(why) => return Verdict::refuse(why),
    };
    match Tokens::single(&lexed.tokens) {
        Ok(tokens) => one(tokens),
        Err(why) => Verdict::refuse(why),
    }
}

fn one(tokens: Tokens<'_, '_>) -> Verdict {
    let Some(word) = tokens.word(0) else {
        return Verdict::refuse("it does not begin with a statement");
    };
    let word = word.text.to_ascii_lowercase();
    match word.as_str() {
        "explain" => {
            let at = if tokens.is_at(1, &["query"]) && tokens.is_at(2, &["plan"]) {
                3
            } else {
                1
            };
            match tokens.word(at).map(|word| word.text.to_ascii_lowercase()) {
                Some(inner) if inner != "explain" => {
                    let inner = statement(&inner, tokens, at);
                    if inner.class == Class::Refuse {
                        inner
                    } else {
                        Verdict::read("it shows a plan and runs nothing")
                    }
                }
                _ => Verdict::refuse("EXPLAIN explains no statement"),
            }
        }
        _ => statement(&word, tokens, 0),
    }
}

fn statement(word: &str, tokens: Tokens<'_, '_>, at: usize) -> Verdict {
    match word {
        "select" | "values" => judged(Verdict::read("it is a query"), tokens),
        "with" => {
            let verdict = if tokens.changes_data() {
                Verdict::write("it changes rows")
            } else {
                Verdict::read("it is a query")
            };
            judged(verdict, tokens)
        }
        "insert" | "update" | "delete" | "replace" => judged(Verdict::write("it changes rows"), tokens),
        "create" | "alter" | "drop" | "analyze" | "reindex" => {
            judged(Verdict::write("it changes the schema"), tokens)
        }
        "vacuum" if tokens.has(&["into"]) => {
            Verdict::refuse("VACUUM INTO copies the database into another file")
        }
        "vacuum" => Verdict::write("it rewrites the file"),
        "pragma" => pragma(tokens, at),
        "attach" | "detach" => Verdict::refuse("it opens or closes another file"),
        "begin" | "commit" | "end" | "rollback" | "savepoint" | "release" => {
            Verdict::refuse("it controls the transaction")
        }
        _ => Verdict::refuse(format!("{} begins no statement that is known", shown(word))),
    }
}

fn judged(verdict: Verdict, tokens: Tokens<'_, '_>) -> Verdict {
    let pragmas = tokens
        .all()
        .iter()
        .filter(|token| token.is_name() || token.kind == Kind::Text)
        .filter_map(|token| {
            let name = token.name(true);
            let name = if token.kind == Kind::Text {
                name
            } else {
                token.name(true)
            };
            name.strip_prefix("pragma_").map(as_table)
        });
    let functions = tokens.calls(&GRAMMAR).map(|call| function(&call, verdict.class));
    let strictest = pragmas
        .chain(functions)
        .fold(Verdict::read("it is a query"), Verdict::or_stricter);
    verdict.or_stricter(strictest)
}

/// `SELECT … FROM pragma_NAME`
fn as_table(pragma: &str) -> Verdict {
    if ASKING.contains(&pragma) || GETTERS.contains(&pragma) {
        Verdict::read("it is a query")
    } else if WRITERS.contains(&pragma) {
        Verdict::write(format!("pragma_{pragma} writes the file"))
    } else {
        Verdict::refuse(format!("pragma_{} is no question that is known", shown(pragma)))
    }
}

fn function(call: &Call<'_>, class: Class) -> Verdict {
    let name = call.name.as_ref();
    if REFUSED.contains(&name) {
        return Verdict::refuse(format!("{}() reaches files or memory", shown(name)));
    }
    // SQLite has only the functions that the program gives it, so one that is not known does not exist.
    if class == Class::Read && !READS.contains(name) && !name.starts_with("pragma_") {
        return Verdict::refuse(format!("{}() is no function that is known", shown(name)));
    }
    Verdict::read("it is a query")
}

fn pragma(tokens: Tokens<'_, '_>, at: usize) -> Verdict {
    let mut at = at + 1;
    if tokens.get(at + 1).is_some_and(|dot| dot.is_mark(".")) {
        at += 2;
    }
    let Some(name) = tokens
        .get(at)
        .filter(|token| token.is_name())
        .map(|token| token.name(true))
    else {
        return Verdict::refuse("PRAGMA without a name");
    };
    let name = name.as_ref();
    let argument = tokens.get(at + 1).is_some();
    match argument {
        _ if ASKING.contains(&name) => Verdict::read("it asks about the schema"),
        false if GETTERS.contains(&name) => Verdict::read("it asks for a setting"),
        true if SETTERS_OF_THE_FILE.contains(&name) => Verdict::write("it writes a setting into the file"),
        _ if WRITERS.contains(&name) => Verdict::write("it writes the file"),
        _ => Verdict::refuse(format!(
            "PRAGMA {} changes the session or is not known",
            shown(name)
        )),
    }
}
