//! The seal's statement. Never decides.

use muster_store::{Sql, system};

/// How many rows of anybody's only the key opens.
pub(super) static SEALED: Sql = system(
    "seal.sealed",
    "SELECT (SELECT count(*) FROM integrations WHERE secret <> '') + (SELECT count(*) FROM db_connections WHERE url <> '')",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[&SEALED];
