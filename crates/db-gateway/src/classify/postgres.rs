//! What a statement of PostgreSQL needs. Never connects.
//!
//! Names of functions are judged as the server's own. Whether somebody gave one of them to a function of theirs is asked of the server
//! (`asked`).
//!
//! What calls a function without naming it (a view, an operator, a cast, a domain, a computed column) is not seen here. The
//! read-only transaction keeps such a function from this database; what it does elsewhere, over a connection of its own or with a
//! lock, nothing here stops. `attribute` has the rule for names behind a dot.

use super::attribute::{self, Dotted};
use super::lex::{Dialect, Kind, Token, lex};
use super::postgres_words::{GEOGRAPHY, GRAMMAR, NO_COLUMNS, READS, REFUSED, REFUSED_FRONTS, RUN_A_TEXT};
use super::sql::{Call, Tokens, listed};
use super::verdict::{Class, Verdict, shown};

pub(super) fn classify(statement: &str) -> Verdict {
    let how = How {
        depth: 0,
        asks: false,
    };
    nested(statement, how)
}

/// The class of a statement that is sent to a server only after that was asked about it (`asked`): a field behind a value then is a read.
pub(super) fn classify_asking(statement: &str) -> Verdict {
    let how = How { depth: 0, asks: true };
    nested(statement, how)
}

/// How a statement is judged.
#[derive(Clone, Copy)]
struct How {
    /// In how many texts of other statements it stands.
    depth: u8,
    /// Whether the server is asked before it runs whether a field behind a value is one.
    asks: bool,
}

/// A statement can stand in a text inside of another; more than three deep nobody means to read.
fn nested(statement: &str, how: How) -> Verdict {
    let lexed = match lex(Dialect::Postgres, statement) {
        Ok(lexed) => lexed,
        Err(why) => return Verdict::refuse(why),
    };
    if lexed.loosening_hint {
        return Verdict::refuse("a hint in a comment changes settings");
    }
    if lexed.tokens.iter().any(|token| token.kind == Kind::Escaped) {
        return Verdict::refuse("a name hides its letters; write it without U&");
    }
    match Tokens::single(&lexed.tokens) {
        Ok(tokens) => one(tokens, how),
        Err(why) => Verdict::refuse(why),
    }
}

fn one(tokens: Tokens<'_, '_>, how: How) -> Verdict {
    let head = tokens.head();
    let Some(word) = tokens.word(head) else {
        return Verdict::refuse("it does not begin with a statement");
    };
    let word = word.text.to_ascii_lowercase();
    if head > 0 && !matches!(word.as_str(), "select" | "values" | "table" | "with") {
        return Verdict::refuse("only a query may stand in parentheses");
    }
    match word.as_str() {
        "select" | "values" | "table" | "with" => query(tokens, how),
        "explain" => explain(tokens, how),
        "show" => Verdict::read("it shows a setting"),
        "insert" | "update" | "delete" | "merge" => judged(Verdict::write("it changes rows"), tokens, how),
        "copy" => copy(tokens, how),
        "truncate" | "vacuum" | "analyze" | "analyse" | "reindex" | "cluster" | "refresh" | "comment"
        | "security" => Verdict::write("it changes tables or what is kept about them"),
        "do" | "call" => Verdict::write("it runs code that can write"),
        "create" | "alter" | "drop" | "grant" | "revoke" | "reassign" | "import" => {
            judged(definition(&word, tokens), tokens, how)
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

fn query(tokens: Tokens<'_, '_>, how: How) -> Verdict {
    let verdict = if tokens.has_pair("for", &["update", "share", "no", "key"]) {
        Verdict::write("it locks rows")
    } else if tokens.changes_data() {
        Verdict::write("a part of it changes rows")
    } else if selects_into(tokens) {
        Verdict::write("SELECT INTO creates a table")
    } else {
        Verdict::read("it is a query")
    };
    judged(verdict, tokens, how)
}

fn selects_into(tokens: Tokens<'_, '_>) -> bool {
    tokens.all().iter().enumerate().any(|(at, token)| {
        token.is_word("into")
            && !tokens
                .before(at)
                .is_some_and(|before| before.is_word("as") || before.is_mark("."))
            && !at
                .checked_sub(1)
                .is_some_and(|before| tokens.begins_a_change(before))
    })
}

/// The stricter of `verdict` and what the functions say that are called.
fn judged(verdict: Verdict, tokens: Tokens<'_, '_>, how: How) -> Verdict {
    if verdict.class == Class::Refuse {
        return verdict;
    }
    let strict = verdict.class == Class::Read;
    let verdict = calls(tokens, strict, how).fold(verdict, Verdict::or_stricter);
    attribute::dotted(tokens)
        .iter()
        .map(|dotted| behind_a_dot(dotted, strict, how))
        .fold(verdict, Verdict::or_stricter)
}

fn calls(tokens: Tokens<'_, '_>, strict: bool, how: How) -> impl Iterator<Item = Verdict> {
    tokens
        .calls(&GRAMMAR)
        .map(move |call| function(&call, tokens, strict, how))
}

fn reaches_beyond(name: &str) -> bool {
    listed(name, REFUSED, REFUSED_FRONTS)
}

fn beyond(name: &str) -> Verdict {
    Verdict::refuse(format!(
        "{}() reaches beyond the tables of this database",
        shown(name)
    ))
}

/// What calling a function needs. Outside of queries (`strict` is false) an unknown one says nothing new: `t(` may be a table there.
fn function(call: &Call<'_>, tokens: Tokens<'_, '_>, strict: bool, how: How) -> Verdict {
    let name = call.name.as_ref();
    if reaches_beyond(name) {
        return beyond(name);
    }
    if RUN_A_TEXT.contains(&name) {
        return text_argument(name, call.open, tokens, how);
    }
    let known = match call.qualifier.as_deref() {
        None => reads(name),
        Some("pg_catalog" | "information_schema") => READS.contains(name),
        Some("extensions") => reads(name),
        Some("postgis") => GEOGRAPHY.contains(name),
        Some(_) => false,
    };
    if known || !strict {
        return Verdict::read("it is a query");
    }
    Verdict::write(format!(
        "{}() is no function that is known to only read",
        shown(name)
    ))
}

/// What a name behind a dot needs: see the module `attribute`.
fn behind_a_dot(dotted: &Dotted<'_>, strict: bool, how: How) -> Verdict {
    let name = dotted.name.as_ref();
    if !dotted.of_value {
        // No function of the server takes a row for its argument; but nobody has a column of such a name either.
        return if REFUSED.contains(&name)
            || !dotted.of_table && NO_COLUMNS.iter().any(|front| name.starts_with(front))
        {
            beyond(name)
        } else {
            Verdict::read("it is a query")
        };
    }
    if reaches_beyond(name) || RUN_A_TEXT.contains(&name) {
        return beyond(name);
    }
    if !strict || how.asks || reads(name) {
        return Verdict::read("it is a query");
    }
    may_be_a_call(name)
}

/// Whether a function of this name is known to only read.
pub(super) fn reads(name: &str) -> bool {
    READS.contains(name) || GEOGRAPHY.contains(name)
}

/// What a name behind a value is in doubt.
pub(crate) fn may_be_a_call(name: &str) -> Verdict {
    Verdict::write(format!(
        "{0} behind a dot may call {0}(); a field is read by t.{0}, by (…).* or by to_jsonb(…)",
        shown(name)
    ))
}

fn text_argument(name: &str, open: usize, tokens: Tokens<'_, '_>, how: How) -> Verdict {
    let arguments = arguments(tokens, open);
    match (name, arguments.as_slice()) {
        // ts_rewrite(query, query, query) has no statement in it; with two, the second is one.
        ("ts_rewrite", [_, _, _]) => Verdict::read("it is a query"),
        ("ts_rewrite", [_, text]) | ("ts_stat", [text] | [text, _]) => run_text(name, text, how),
        // Of two texts it runs both; the other form has a number.
        (_, [text, [number]]) if number.kind == Kind::Number => run_text(name, text, how),
        (_, texts) => texts
            .iter()
            .map(|text| run_text(name, text, how))
            .fold(Verdict::read("it is a query"), Verdict::or_stricter),
    }
}

/// A statement that stands as a text in an argument.
fn run_text(name: &str, argument: &[Token<'_>], how: How) -> Verdict {
    let [text] = argument else {
        return Verdict::refuse(format!("{name}() runs a text that is not written out"));
    };
    if text.kind != Kind::Text {
        return Verdict::refuse(format!("{name}() runs a text that is not written out"));
    }
    let Some(inner) = written_out(text.text) else {
        return Verdict::refuse(format!(
            "{name}() runs a text with escapes in it, or one in several parts"
        ));
    };
    if how.depth >= 2 {
        return Verdict::refuse("statements stand in texts in texts");
    }
    let verdict = nested(
        &inner,
        How {
            depth: how.depth + 1,
            ..how
        },
    );
    if verdict.class == Class::Read {
        verdict
    } else {
        Verdict::refuse(format!("{name}() runs a text that does not only read"))
    }
}

/// The arguments of a call, each with its tokens.
pub(super) fn arguments<'t, 'a>(tokens: Tokens<'t, 'a>, open: usize) -> Vec<&'t [Token<'a>]> {
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

/// A statement that is written out as a text; nothing of a text with escapes, or of one that goes on behind a line break.
pub(super) fn written_out(text: &str) -> Option<String> {
    unquoted(text).or_else(|| dollar_quoted(text))
}

fn unquoted(text: &str) -> Option<String> {
    let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut letters = inner.chars();
    let mut found = String::with_capacity(inner.len());
    while let Some(letter) = letters.next() {
        if letter == '\'' && letters.next() != Some('\'') {
            return None;
        }
        found.push(letter);
    }
    Some(found)
}

fn dollar_quoted(text: &str) -> Option<String> {
    let rest = text.strip_prefix('$')?;
    let (tag, rest) = rest.split_once('$')?;
    rest.strip_suffix(&format!("${tag}$")).map(str::to_owned)
}

fn explain(tokens: Tokens<'_, '_>, how: How) -> Verdict {
    let mut at = 1;
    let mut runs = false;
    if let Some(open) = tokens.get(1).filter(|token| token.is_mark("(")) {
        // EXPLAIN (SELECT 1) has a query in the parentheses, not options.
        if !tokens.is_at(2, &["select", "values", "table", "with"])
            && !tokens.get(2).is_some_and(|token| token.is_mark("("))
        {
            runs = analyzes(tokens, 1);
            at = open.pair.saturating_add(1);
        }
    } else {
        while tokens.is_at(at, &["analyze", "analyse", "verbose"]) {
            runs |= tokens.is_at(at, &["analyze", "analyse"]);
            at += 1;
        }
    }
    let inner = tokens.from(at);
    let relative = one_explained(inner, tokens, at, how);
    match (runs, relative.class) {
        (_, Class::Refuse) | (true, Class::Write) => relative,
        (true, Class::Read) => Verdict::read("it runs a query and shows its plan"),
        (false, _) => Verdict::read("it shows a plan and runs nothing").or_stricter(planned(tokens, how)),
    }
}

/// To make a plan the server calls functions that say they change nothing, and whoever made one may have said so wrongly.
fn planned(tokens: Tokens<'_, '_>, how: How) -> Verdict {
    let none = Verdict::read("it shows a plan and runs nothing");
    // `ON CONFLICT (a)` looks like a call behind ON.
    let changes = tokens.changes_data();
    tokens
        .calls(&GRAMMAR)
        .filter(|call| {
            let name = call.open.saturating_sub(1);
            !(changes
                && tokens.is_at(name, &["conflict"])
                && tokens.before(name).is_some_and(|on| on.is_word("on")))
        })
        .map(|call| function(&call, tokens, true, how))
        .chain(
            attribute::dotted(tokens)
                .iter()
                .map(|dotted| behind_a_dot(dotted, true, how)),
        )
        .fold(none, Verdict::or_stricter)
}

/// Partners of parentheses are numbered from the whole statement, so the inner one is judged inside of it.
fn one_explained(inner: Tokens<'_, '_>, whole: Tokens<'_, '_>, at: usize, how: How) -> Verdict {
    let head = at + inner.head();
    let Some(word) = whole.word(head) else {
        return Verdict::refuse("EXPLAIN explains no statement");
    };
    let word = word.text.to_ascii_lowercase();
    match word.as_str() {
        "select" | "values" | "table" | "with" => query(whole, how),
        "insert" | "update" | "delete" | "merge" => judged(Verdict::write("it changes rows"), whole, how),
        "create" | "refresh" => judged(Verdict::write("it creates a table"), whole, how),
        _ => Verdict::refuse("EXPLAIN of such a statement is not known"),
    }
}

/// Whether one of the options runs the statement. Names of options may stand in quotes. Of two alike the last counts, so one that
/// runs is enough only while nothing takes it back; being strict costs nothing.
fn analyzes(tokens: Tokens<'_, '_>, open: usize) -> bool {
    arguments(tokens, open).iter().any(|option| match option {
        [name, value @ ..]
            if name.is_name() && matches!(name.name(false).as_ref(), "analyze" | "analyse") =>
        {
            !matches!(value, [value] if is_off(value))
        }
        _ => false,
    })
}

fn is_off(value: &Token<'_>) -> bool {
    let word = match value.kind {
        Kind::Text => value.text.trim_matches('\'').to_ascii_lowercase(),
        Kind::Number => return value.text == "0",
        _ => value.name(true).into_owned(),
    };
    matches!(word.as_str(), "false" | "off")
}

fn copy(tokens: Tokens<'_, '_>, how: How) -> Verdict {
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
                how,
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
