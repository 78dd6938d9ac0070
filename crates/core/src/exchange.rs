//! What crosses between a connector and muster, each field already obeying its rule. Never says whether it may be stored.

use crate::clock::Time;
use crate::text::{Detail, ExternalId, ExternalRef, MessageBody, Sender, Subject, ThreadId};

/// An inbound message.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// The idempotency key, unique per connector.
    pub external_id: ExternalId,
    /// Who wrote it, as the connector says.
    pub sender: Option<Sender>,
    /// Its subject.
    pub subject: Option<Subject>,
    /// Its text.
    pub body: MessageBody,
    /// When the upstream received it.
    pub received_at: Option<Time>,
    /// Nobody may answer it.
    pub no_reply: bool,
    /// The connector proved the sender.
    pub sender_verified: bool,
    /// The upstream's thread.
    pub thread: Option<ThreadId>,
    /// A person writes in a direct conversation.
    pub human_conversation: bool,
}

/// What a connector says became of a reply.
#[derive(Debug, Clone)]
pub struct Report {
    /// Sent, or not.
    pub ok: bool,
    /// The upstream's id for what was sent.
    pub external_ref: Option<ExternalRef>,
    /// Anything the owner should read.
    pub detail: Option<Detail>,
}
