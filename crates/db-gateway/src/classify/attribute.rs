//! PostgreSQL calls a function by a dot as well: `(x).f` and `t.f` are `f(x)` and `f(t)` where there is no column `f`. Finds the dots
//! that may be such a call. Never knows a catalogue, so it judges by what stands before the dot.
//!
//! A column wins over a function, and with `t.f` the function is given a row of `t`. No function of the server acts on a row, so
//! `t.f` calls at most one that was made for the rows of that table, to be read like a column of it; it passes, as a view does.
//! What stands in for a value is another matter: the alias of a function in FROM (`FROM unnest(…) u`, then `u.f`) and every
//! expression in parentheses or with a subscript. There a name is taken for a field only where no value can stand: of a
//! function that gives rows, of `t.*`, of `ROW(…)`, of a table in FROM by the table's own name. Elsewhere the dot is a call.
//!
//! What passes here is asked of the server once more: a connection runs a statement only where no function that could be called by
//! one of its dots, and is not known to only read, exists there (`behind_dots`, `asked`, `postgres/mod.rs`).

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::clauses::Clause;
use super::lex::{Kind, Token};
use super::sql::Tokens;
use super::work;

/// Functions in FROM or in parentheses that give rows with several columns.
const GIVES_ROWS: &[&str] = &[
    "row",
    "json_each",
    "json_each_text",
    "jsonb_each",
    "jsonb_each_text",
    "json_populate_record",
    "jsonb_populate_record",
    "json_populate_recordset",
    "jsonb_populate_recordset",
    "json_to_record",
    "jsonb_to_record",
    "json_to_recordset",
    "jsonb_to_recordset",
    "each",
    "populate_record",
    "aclexplode",
    "crosstab",
    "crosstab2",
    "crosstab3",
    "crosstab4",
    "ts_parse",
    "ts_token_type",
    "ts_debug",
    "ts_stat",
    "pg_available_extensions",
    "pg_available_extension_versions",
    "pg_buffercache_pages",
    "pg_control_checkpoint",
    "pg_control_init",
    "pg_control_recovery",
    "pg_control_system",
    "pg_cursor",
    "pg_extension_update_paths",
    "pg_get_backend_memory_contexts",
    "pg_get_catalog_foreign_keys",
    "pg_get_keywords",
    "pg_get_loaded_modules",
    "pg_get_multixact_members",
    "pg_get_object_address",
    "pg_get_publication_tables",
    "pg_get_replication_slots",
    "pg_get_shmem_allocations",
    "pg_get_wal_resource_managers",
    "pg_identify_object",
    "pg_identify_object_as_address",
    "pg_input_error_info",
    "pg_last_committed_xact",
    "pg_lock_status",
    "pg_mcv_list_items",
    "pg_options_to_table",
    "pg_partition_tree",
    "pg_prepared_statement",
    "pg_prepared_xact",
    "pg_sequence_parameters",
    "pg_show_all_settings",
    "pg_stat_get_activity",
    "pg_stat_get_archiver",
    "pg_stat_get_io",
    "pg_stat_get_progress_info",
    "pg_stat_get_replication_slot",
    "pg_stat_get_slru",
    "pg_stat_get_subscription",
    "pg_stat_get_subscription_stats",
    "pg_stat_get_wal",
    "pg_stat_get_wal_receiver",
    "pg_stat_get_wal_senders",
    "pg_stat_statements",
    "pg_stat_statements_info",
    "pg_timezone_abbrevs",
    "pg_timezone_names",
    "pg_visibility",
    "pg_visibility_map",
    "pg_visibility_map_summary",
    "pg_walfile_name_offset",
    "pgrowlocks",
    "pgstatginindex",
    "pgstathashindex",
    "pgstatindex",
    "pgstattuple",
    "pgstattuple_approx",
    "hypertable_detailed_size",
    "chunks_detailed_size",
    "st_dump",
    "st_dumppoints",
    "st_dumprings",
    "st_dumpsegments",
    "st_isvaliddetail",
    "st_minimumboundingradius",
    "st_maximuminscribedcircle",
    "st_largestemptycircle",
    "st_pixelaspolygons",
    "st_pixelascentroids",
    "st_pixelaspoints",
    "st_dumpaspolygons",
    "st_dumpvalues",
    "st_summarystats",
    "st_summarystatsagg",
    "st_valuecount",
    "st_histogram",
    "st_quantile",
    "st_metadata",
    "st_bandmetadata",
    "st_georeference",
    "st_worldtorastercoord",
    "st_rastertoworldcoord",
    "st_squaregrid",
    "st_hexagongrid",
    "st_subdividegrid",
];

/// Values that stand in FROM without parentheses: `FROM current_user u`.
const VALUES_WITHOUT_PARENTHESES: &[&str] = &[
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "session_user",
    "system_user",
    "user",
];

/// Words with a parenthesis in FROM that are no functions, or whose rows have columns of their own.
const NO_VALUES: &[&str] = &[
    "only",
    "lateral",
    "xmltable",
    "json_table",
    "values",
    "select",
    "from",
    "join",
    "on",
    "using",
    "in",
    "tablesample",
];

/// What a name behind a dot may be.
pub(super) struct Dotted<'a> {
    pub(super) name: Cow<'a, str>,
    /// It may stand behind a value, and then it is a call.
    pub(super) of_value: bool,
    /// It stands in the list of tables, where `schema.table` is meant.
    pub(super) of_table: bool,
}

/// The columns that a value in FROM is known to have.
enum Item<'a> {
    Any,
    Named(HashSet<Cow<'a, str>>),
}

/// What stands before the dots.
#[derive(Clone, Copy)]
enum Root {
    Name(usize),
    Expression,
}

/// Every name behind a dot as the catalogue has it, but those that a parenthesis calls: these are judged by their names.
#[cfg(feature = "connect")]
pub(super) fn behind_dots(tokens: Tokens<'_, '_>) -> HashSet<String> {
    let all = tokens.all().windows(2).enumerate();
    all.filter(|(at, pair)| {
        matches!(pair, [dot, name] if dot.is_mark(".") && name.is_name())
            && !tokens.get(at + 2).is_some_and(|next| next.is_mark("("))
    })
    .filter_map(|(_, pair)| pair.last())
    .map(|name| name.name(false).into_owned())
    .collect()
}

/// Every name behind a dot that is not called with a parenthesis.
pub(super) fn dotted<'a>(tokens: Tokens<'_, 'a>) -> Vec<Dotted<'a>> {
    let all = tokens.all();
    if !all.iter().any(|token| token.is_mark(".")) {
        return Vec::new();
    }
    let items = items(tokens);
    let mut relations = None;
    let mut root = Root::Expression;
    let mut found = Vec::new();
    for (dot, _) in all.iter().enumerate().filter(|(_, token)| token.is_mark(".")) {
        let Some(before) = tokens.before(dot) else {
            continue;
        };
        let goes_on =
            before.is_name() && dot > 1 && tokens.get(dot - 2).is_some_and(|token| token.is_mark("."));
        if !goes_on {
            root = if before.is_name() {
                Root::Name(dot - 1)
            } else {
                Root::Expression
            };
        }
        let Some(name) = tokens.get(dot + 1).filter(|token| token.is_name()) else {
            continue;
        };
        // `schema.f(` is a call by its name.
        if tokens.get(dot + 2).is_some_and(|token| token.is_mark("(")) && matches!(root, Root::Name(_)) {
            continue;
        }
        let name = name.name(false);
        let of_value = match root {
            Root::Name(at) => {
                at + 1 == dot
                    && tokens.get(at).is_some_and(|of| {
                        items.get(of.name(false).as_ref()).is_some_and(|item| match item {
                            Item::Any => false,
                            Item::Named(names) => !names.contains(name.as_ref()),
                        })
                    })
            }
            Root::Expression => goes_on || !is_row(tokens, dot - 1, &items, &mut relations),
        };
        found.push(Dotted {
            name,
            of_value,
            of_table: tokens.get(dot).is_some_and(|token| token.clause == Clause::From),
        });
    }
    found
}

/// The functions and values in FROM, by the name that their rows go by.
fn items<'a>(tokens: Tokens<'_, 'a>) -> HashMap<Cow<'a, str>, Item<'a>> {
    let mut found: HashMap<Cow<'a, str>, Item<'a>> = HashMap::new();
    for (at, token) in tokens.all().iter().enumerate() {
        if token.clause != Clause::From || !token.is_name() {
            continue;
        }
        let open = tokens.get(at + 1).filter(|next| next.is_mark("("));
        let rows_from =
            token.is_word("from") && tokens.before(at).is_some_and(|before| before.is_word("rows"));
        let end = match open {
            Some(open) if rows_from || !token.is_any(NO_VALUES) => open.pair,
            None if token.is_any(VALUES_WITHOUT_PARENTHESES) => at,
            _ => continue,
        };
        let start = tokens.chain(at);
        let begins = tokens.before(start).is_some_and(|before| {
            before.is_any(&["from", "join", "lateral"]) || before.is_mark(",") || before.is_mark("(")
        });
        if !begins && !rows_from {
            continue;
        }
        let own = token.name(false);
        let gives_rows = !rows_from && GIVES_ROWS.contains(&own.as_ref());
        let (alias, columns) = alias(tokens, end + 1);
        let mut names: HashSet<Cow<'a, str>> = ["key", "value", "ordinality"].map(Cow::Borrowed).into();
        names.extend(columns);
        let known_as = alias.unwrap_or_else(|| own.clone());
        names.extend([own, known_as.clone()]);
        match found.get_mut(&known_as) {
            // Two of one name: what both know is known.
            Some(Item::Named(before)) if !gives_rows => before.retain(|name| names.contains(name)),
            Some(Item::Named(_)) => {}
            _ if gives_rows => {
                found.insert(known_as, Item::Any);
            }
            _ => {
                found.insert(known_as, Item::Named(names));
            }
        }
    }
    found
}

/// `[WITH ORDINALITY] [AS] name [(columns)]`
fn alias<'a>(tokens: Tokens<'_, 'a>, from: usize) -> (Option<Cow<'a, str>>, Vec<Cow<'a, str>>) {
    let mut at = from;
    if tokens.is_at(at, &["with"]) && tokens.is_at(at + 1, &["ordinality"]) {
        at += 2;
    }
    let named = tokens.is_at(at, &["as"]);
    if named {
        at += 1;
    }
    let alias = tokens
        .get(at)
        .filter(|token| token.is_name() && (named || !token.is_any(super::postgres_words::AFTER_A_TABLE)))
        .map(|token| token.name(false));
    let open = at + usize::from(alias.is_some());
    let columns = tokens
        .get(open)
        .filter(|token| token.is_mark("(") && (alias.is_some() || named))
        .and_then(|token| tokens.all().get(open + 1..token.pair))
        .unwrap_or_default();
    let columns = columns.iter().filter(|token| token.is_name());
    (alias, columns.map(|token| token.name(false)).collect())
}

/// Whether the expression that ends at `end` is a row with fields, whatever the catalogue says.
fn is_row(
    tokens: Tokens<'_, '_>,
    end: usize,
    items: &HashMap<Cow<'_, str>, Item<'_>>,
    relations: &mut Option<HashMap<String, Uses>>,
) -> bool {
    let Some(close) = tokens.get(end).filter(|token| token.is_mark(")")) else {
        return false;
    };
    let (mut open, mut close) = (close.pair, end);
    // `((t))` is `(t)`.
    while tokens
        .get(open + 1)
        .is_some_and(|inner| inner.is_mark("(") && inner.pair + 1 == close)
    {
        open += 1;
        close -= 1;
    }
    let (first, last) = (open + 1, close.saturating_sub(1));
    if first == last {
        let Some(name) = tokens.get(first).filter(|token| token.is_name()) else {
            return false;
        };
        let relations = relations.get_or_insert_with(|| uses(tokens));
        return relations
            .get(name.name(false).as_ref())
            .is_some_and(|uses| uses.as_table && !uses.otherwise);
    }
    // t.*
    let star = tokens.get(last).is_some_and(|token| token.is_mark("*"))
        && tokens.before(last).is_some_and(|token| token.is_mark("."));
    if star {
        let name = last.saturating_sub(2);
        // Of a function that gives one value, u.* is the value.
        return tokens.get(name).is_some_and(|of| {
            of.is_name() && !matches!(items.get(of.name(false).as_ref()), Some(Item::Named(_)))
        }) && tokens.chain(name) == first;
    }
    // f(…)
    if let Some(called) = tokens.get(last).filter(|token| token.is_mark(")"))
        && let Some(name) = called.pair.checked_sub(1)
        && tokens.get(name).is_some_and(Token::is_name)
        && tokens.chain(name) == first
    {
        let schema = tokens.get(first).map(|token| token.name(false));
        let ours = first == name || matches!(schema.as_deref(), Some("pg_catalog"));
        return ours
            && tokens
                .get(name)
                .is_some_and(|token| GIVES_ROWS.contains(&token.name(false).as_ref()));
    }
    false
}

/// How a name without dots is used in a statement.
#[derive(Default)]
struct Uses {
    /// As a table in FROM that has no alias.
    as_table: bool,
    /// As anything else than in parentheses before a dot: then it may be the name of a value.
    otherwise: bool,
}

fn uses(tokens: Tokens<'_, '_>) -> HashMap<String, Uses> {
    let mut found: HashMap<String, Uses> = HashMap::new();
    for (at, token) in tokens
        .all()
        .iter()
        .enumerate()
        .filter(|(_, token)| token.is_name())
    {
        work::count(1);
        let (before, next) = (tokens.before(at), tokens.get(at + 1));
        let is_mark = |token: Option<&Token<'_>>, mark: &str| token.is_some_and(|token| token.is_mark(mark));
        let after_table = next.is_none_or(|next| {
            next.is_mark(",") || next.is_mark(")") || next.is_any(super::postgres_words::AFTER_A_TABLE)
        });
        // Looked for only where a table ends: a long row of names is walked once.
        let begins = || {
            let first = tokens.chain(at);
            tokens.before(first).is_some_and(|before| {
                before.is_any(&["from", "join", "only"]) || before.is_mark(",") || before.is_mark("(")
            })
        };
        let uses = found.entry(token.name(false).into_owned()).or_default();
        if token.clause == Clause::From && after_table && begins() {
            uses.as_table = true;
        } else if is_mark(next, ".") || is_mark(before, ".") {
            // A qualifier, or a column that says whose it is.
        } else if !in_parentheses(tokens, at) {
            uses.otherwise = true;
        }
    }
    found
}

/// `(t).` or `((t)`, where the parenthesis belongs to no function, alias or list.
fn in_parentheses(tokens: Tokens<'_, '_>, at: usize) -> bool {
    let Some(open) = at
        .checked_sub(1)
        .filter(|open| tokens.get(*open).is_some_and(|token| token.is_mark("(")))
    else {
        return false;
    };
    let closed = tokens.get(at + 1).is_some_and(|token| token.is_mark(")"));
    let dot = tokens
        .get(at + 2)
        .is_some_and(|token| token.is_mark(".") || token.is_mark(")"));
    let alone = tokens.before(open).is_none_or(|before| match before.kind {
        Kind::Word => before.is_any(&[
            "select", "where", "and", "or", "not", "on", "by", "distinct", "all", "when", "then", "else",
            "case", "having",
        ]),
        Kind::Mark => !before.is_mark(")"),
        _ => false,
    });
    closed && dot && alone
}
