//! How a database of muster itself is known from inside, whatever name led there. Never asks for more than the names of tables.

/// Tables that stand together in every database of muster, and in no other.
pub(crate) const TABLES: [&str; 5] = [
    "ask_callers",
    "audit_heads",
    "browser_sessions",
    "db_connections",
    "policy_layers",
];
