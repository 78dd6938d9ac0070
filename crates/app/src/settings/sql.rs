//! The settings' statements. Never decides.

use muster_store::{Sql, owned};

pub(super) static VALUE: Sql = owned(
    "settings.value",
    "SELECT value FROM settings WHERE owner_id = $1 AND key = $2",
);
pub(super) static SET: Sql = owned(
    "settings.set",
    "INSERT INTO settings (owner_id, key, value) VALUES ($1, $2, $3) ON CONFLICT (owner_id, key) DO UPDATE SET value = $3",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[&VALUE, &SET];
