//! Bodies of `/plugin/v1/*`, the connector API. Never seen by a person.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An inbound message.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct NewMessage {
    /// The idempotency key, unique per connector: 1 to 200 bytes, no blanks or control characters.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[!-~]{1,200}$")]
    pub external_id: String,
    /// Who wrote it: at most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, nullable = false)]
    pub sender: Option<String>,
    /// At most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, nullable = false)]
    pub subject: Option<String>,
    /// 1 byte to 16 KiB of UTF-8.
    #[schema(min_length = 1, max_length = 16384)]
    pub body: String,
    /// When the upstream received it, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime, nullable = false)]
    pub received_at: Option<String>,
    /// Nobody may answer this message.
    #[serde(default)]
    #[schema(default = false)]
    pub no_reply: bool,
    /// The connector authenticated `sender`.
    #[serde(default)]
    #[schema(default = false)]
    pub sender_verified: bool,
    /// The upstream's thread id: 1 to 200 bytes, no blanks or control characters, matched exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 200, pattern = r"^[!-~]{1,200}$", nullable = false)]
    pub thread: Option<String>,
    /// A person writes in a direct conversation.
    #[serde(default)]
    #[schema(default = false)]
    pub human_conversation: bool,
}

/// The stored message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StoredMessage {
    /// muster's id of it.
    pub id: i64,
    /// Where it stands.
    pub status: MessageStatus,
}

/// What a connector is told of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageStatus {
    /// Waiting for the chief, or with it.
    Queued,
    /// The chief's turn completed.
    Delivered,
    /// The turn broke off; the owner decides.
    Unconfirmed,
}

/// What a claim asks.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// How long to wait for an approved reply, in seconds; more than 25 counts as 25.
    #[serde(default)]
    #[schema(minimum = 0, default = 0)]
    pub wait_seconds: u64,
}

/// One approved reply, leased to the claimer for two minutes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ClaimedReply {
    /// Record it durably before sending; it is never offered again.
    pub draft_id: i64,
    /// The `external_id` of the message it answers.
    pub message_external_id: String,
    /// Exactly the text the owner approved.
    pub body: String,
    /// When the owner approved it, RFC 3339.
    #[schema(format = DateTime)]
    pub approved_at: String,
}

/// What became of a claimed reply.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct SendResult {
    /// `true`: sent. `false`: it was not sent.
    pub ok: bool,
    /// The upstream's id of what was sent: at most 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, nullable = false)]
    pub external_ref: Option<String>,
    /// Anything the owner should read: at most 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096, nullable = false)]
    pub detail: Option<String>,
}

/// A recorded result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Recorded {
    /// The reply.
    pub draft_id: i64,
    /// `sent` or `failed`.
    pub status: String,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    /// A sentence: what happened and what to do.
    pub error: String,
}

/// A result that contradicts what is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Conflict {
    /// A sentence.
    pub error: String,
    /// The reply.
    pub draft_id: i64,
    /// Where it stands.
    pub status: String,
}
