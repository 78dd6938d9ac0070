//! The words of PostgreSQL: functions that read, functions that are refused, keywords. Never decides.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::sql::{Grammar, words};

pub(super) static READS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words(include_str!("words/postgres_reads.txt")));

/// Functions of PostGIS and h3 that read. They stand in a schema of their own as often as in the default one.
pub(super) static GEOGRAPHY: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words(include_str!("words/postgis_reads.txt")));

/// Files, programs, the network, other sessions, locks, settings, waits.
pub(super) const REFUSED: &[&str] = &[
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
    "http",
    "heap_force_kill",
    "heap_force_freeze",
    "pg_isolation_test_session_is_blocked",
];
pub(super) const REFUSED_FRONTS: &[&str] = &[
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
/// Fronts of refused functions that no column has.
pub(super) const NO_COLUMNS: &[&str] = &[
    "pg_sleep",
    "pg_advisory_",
    "pg_try_advisory_",
    "pg_read_",
    "pg_ls_",
    "pg_file_",
    "pg_create_",
    "pg_logical_",
    "lo_import",
];
/// Functions that run a statement in a text.
pub(super) const RUN_A_TEXT: [&str; 6] = [
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

pub(super) static LEADING: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
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

pub(super) static GRAMMAR: LazyLock<Grammar> = LazyLock::new(|| Grammar {
    constructs: CONSTRUCTS,
    soft_constructs: SOFT_CONSTRUCTS,
    leading: &LEADING,
    folds_quoted: false,
});

/// What may stand behind a table without being its alias.
pub(super) const AFTER_A_TABLE: &[&str] = &[
    "where",
    "join",
    "inner",
    "left",
    "right",
    "full",
    "cross",
    "natural",
    "on",
    "using",
    "group",
    "having",
    "window",
    "order",
    "limit",
    "offset",
    "fetch",
    "for",
    "union",
    "except",
    "intersect",
    "tablesample",
    "returning",
    "with",
    "when",
];
