//! Bodies of `/plugin/v1/*`, the connector API. Never seen by a person.

use std::time::Duration;

use muster_core::exchange;
use muster_core::text::{Detail, ExternalId, ExternalRef, MessageBody, Sender, Subject, ThreadId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::read::{Fields, ReadError};

/// The longest a claim waits, in seconds.
const LONGEST_WAIT: u64 = 25;

/// An inbound message.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct NewMessage {
    /// The idempotency key, unique per connector: 1 to 200 bytes, no blanks or control characters.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[!-~]{1,200}$")]
    pub external_id: String,
    /// Who wrote it: at most 200 characters, no NUL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, pattern = "^[^\\u0000]*$", nullable = false)]
    pub sender: Option<String>,
    /// At most 200 characters, no NUL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, pattern = "^[^\\u0000]*$", nullable = false)]
    pub subject: Option<String>,
    /// 1 byte to 16 KiB of UTF-8, no NUL.
    #[schema(min_length = 1, max_length = 16384, pattern = "^[^\\u0000]*$")]
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
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = r"^[!-~]{1,200}$",
        nullable = false
    )]
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
    /// The upstream's id of what was sent: at most 200 characters, no NUL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 200, pattern = "^[^\\u0000]*$", nullable = false)]
    pub external_ref: Option<String>,
    /// Anything the owner should read: at most 4 KiB, no NUL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 4096, pattern = "^[^\\u0000]*$", nullable = false)]
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

/// Reads a message; unknown fields are ignored, so that a newer connector can talk to an older muster.
///
/// # Errors
/// The first rule that is broken.
pub fn read_message(bytes: &[u8]) -> Result<exchange::NewMessage, ReadError> {
    let mut fields = Fields::parse(bytes)?;
    Ok(exchange::NewMessage {
        external_id: ExternalId::parse("external_id", fields.required("external_id")?)?,
        sender: fields
            .text("sender")?
            .map(|text| Sender::parse("sender", text))
            .transpose()?,
        subject: fields
            .text("subject")?
            .map(|text| Subject::parse("subject", text))
            .transpose()?,
        body: MessageBody::parse("body", fields.required("body")?)?,
        received_at: fields.time("received_at")?,
        no_reply: fields.flag("no_reply")?.unwrap_or(false),
        sender_verified: fields.flag("sender_verified")?.unwrap_or(false),
        thread: fields
            .text("thread")?
            .map(|text| ThreadId::parse("thread", text))
            .transpose()?,
        human_conversation: fields.flag("human_conversation")?.unwrap_or(false),
    })
}

/// Reads a claim: an empty body counts as `{"wait_seconds": 0}`; any other field is a mistake that would otherwise wait for nothing.
///
/// # Errors
/// The first rule that is broken.
pub fn read_claim(bytes: &[u8]) -> Result<Duration, ReadError> {
    if bytes.is_empty() {
        return Ok(Duration::ZERO);
    }
    let mut fields = Fields::parse(bytes)?;
    if fields.names().any(|name| name != "wait_seconds") {
        return Err(ReadError::Field(
            "the body may hold wait_seconds and nothing else".to_owned(),
        ));
    }
    let seconds = fields.whole("wait_seconds")?.unwrap_or(0);
    Ok(Duration::from_secs(seconds.min(LONGEST_WAIT)))
}

/// Reads a result; unknown fields are ignored.
///
/// # Errors
/// The first rule that is broken.
pub fn read_result(bytes: &[u8]) -> Result<exchange::Report, ReadError> {
    let mut fields = Fields::parse(bytes)?;
    let said = fields.flag("ok")?;
    Ok(exchange::Report {
        ok: said.ok_or_else(|| {
            ReadError::Field("ok is required: true when the reply was sent, false when it was not".to_owned())
        })?,
        external_ref: fields
            .text("external_ref")?
            .map(|text| ExternalRef::parse("external_ref", text))
            .transpose()?,
        detail: fields
            .text("detail")?
            .map(|text| Detail::parse("detail", text))
            .transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: CLM-001 CLM-002 CLM-003 CLM-005 CLM-006
    #[test]
    fn a_claim_waits_as_long_as_it_asks_and_25_seconds_at_most() {
        let wait = |body: &str| read_claim(body.as_bytes()).map(|wait| wait.as_secs()).ok();
        for (body, seconds) in [
            ("", 0),
            ("{}", 0),
            (r#"{"wait_seconds": 0}"#, 0),
            (r#"{"wait_seconds": 10}"#, 10),
            (r#"{"wait_seconds": 25}"#, 25),
        ] {
            assert_eq!(wait(body), Some(seconds), "{body}");
        }
        for more in [
            "26",
            "999",
            "18446744073709551615",
            "18446744073709551616",
            "1e300",
            "25.0",
        ] {
            assert_eq!(wait(&format!("{{\"wait_seconds\": {more}}}")), Some(25), "{more}");
        }
        for bad in [
            "-1", "1.5", "-0.5", "\"5\"", "null", "true", "[5]", "1e400", "NaN",
        ] {
            assert_eq!(wait(&format!("{{\"wait_seconds\": {bad}}}")), None, "{bad}");
        }
    }
}
