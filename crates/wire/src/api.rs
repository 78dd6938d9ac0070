//! Bodies of `/api/*`, the owner's scripts. Never seen by a connector.

use serde::{Deserialize, Serialize};

/// A refusal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Refusal {
    /// A sentence: what happened and what to do.
    pub error: String,
}

/// The answer to a retry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Retried {
    /// The message.
    pub id: i64,
    /// Always `queued`: its delivery has started.
    pub status: String,
}
