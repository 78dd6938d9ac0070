//! Drafts as the owner reads them: open cards and the archive. Never changes one.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{DraftId, MessageId, OwnerId};

use super::{DraftState, lapse_owner, sql};
use crate::App;

/// The message a card answers. All of it is outside text.
#[derive(Debug, Clone)]
pub struct CardMessage {
    /// Its id.
    pub id: MessageId,
    /// Who wrote it, as the connector says.
    pub sender: Option<String>,
    /// Whether the connector proved that.
    pub sender_verified: bool,
    /// Its subject.
    pub subject: Option<String>,
    /// Its text.
    pub body: String,
    /// When the upstream received it.
    pub received_at: Option<Time>,
    /// When muster stored it.
    pub stored_at: Time,
}

/// One draft with everything its card shows.
#[derive(Debug, Clone)]
pub struct Card {
    /// Its id.
    pub id: DraftId,
    /// Where it stands.
    pub state: DraftState,
    /// The exact text that is or would be sent.
    pub body: String,
    /// The message it answers.
    pub message: CardMessage,
    /// The label of the connector.
    pub plugin_label: String,
    /// Whether that connector was revoked, so that nobody can collect the reply.
    pub plugin_revoked: bool,
    /// When it was written.
    pub created_at: Time,
    /// When it expires.
    pub expires_at: Time,
    /// When it was approved.
    pub approved_at: Option<Time>,
    /// When a claim took it.
    pub claimed_at: Option<Time>,
    /// Until when it is the claimer's.
    pub lease_until: Option<Time>,
    /// When it came to its end.
    pub ended_at: Option<Time>,
    /// The upstream's id, outside text.
    pub external_ref: Option<String>,
    /// The connector's words, outside text.
    pub detail: Option<String>,
    /// Where it was decided.
    pub decided_via: Option<String>,
    /// The draft that took its place.
    pub superseded_by: Option<DraftId>,
    /// Other replies to the same message that may have been sent.
    pub unconfirmed_replies: i64,
}

/// A page of the archive.
#[derive(Debug, Clone)]
pub struct Page {
    /// Newest first.
    pub cards: Vec<Card>,
    /// Where the next page starts, when there is one.
    pub older: Option<DraftId>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    message_id: i64,
    body: String,
    state: String,
    created_at: i64,
    expires_at: i64,
    approved_at: Option<i64>,
    claimed_at: Option<i64>,
    lease_until: Option<i64>,
    ended_at: Option<i64>,
    external_ref: Option<String>,
    detail: Option<String>,
    decided_via: Option<String>,
    superseded_by: Option<i64>,
    plugin_label: String,
    plugin_revoked_at: Option<i64>,
    sender: Option<String>,
    sender_verified: bool,
    subject: Option<String>,
    message_body: String,
    received_at: Option<i64>,
    stored_at: i64,
    unconfirmed: i64,
}

fn read(row: Row) -> Result<Card, Fault> {
    let state = DraftState::parse(&row.state)
        .ok_or_else(|| Fault::contradiction("drafts", row.id, "its state is none of the eight"))?;
    Ok(Card {
        id: DraftId::new(row.id),
        state,
        body: row.body,
        message: CardMessage {
            id: MessageId::new(row.message_id),
            sender: row.sender,
            sender_verified: row.sender_verified,
            subject: row.subject,
            body: row.message_body,
            received_at: row.received_at.map(Time::from_micros),
            stored_at: Time::from_micros(row.stored_at),
        },
        plugin_label: row.plugin_label,
        plugin_revoked: row.plugin_revoked_at.is_some(),
        created_at: Time::from_micros(row.created_at),
        expires_at: Time::from_micros(row.expires_at),
        approved_at: row.approved_at.map(Time::from_micros),
        claimed_at: row.claimed_at.map(Time::from_micros),
        lease_until: row.lease_until.map(Time::from_micros),
        ended_at: row.ended_at.map(Time::from_micros),
        external_ref: row.external_ref,
        detail: row.detail,
        decided_via: row.decided_via,
        superseded_by: row.superseded_by.map(DraftId::new),
        unconfirmed_replies: row.unconfirmed,
    })
}

/// Drafts that wait for the owner or for a claim, newest first, 500 at most.
///
/// # Errors
/// A fault.
pub async fn open(app: &App, owner: OwnerId) -> Result<Vec<Card>, Fault> {
    lapse_owner(app, owner).await?;
    let rows: Vec<Row> = app
        .db
        .read(owner, |tx| Box::pin(async move { tx.all(&sql::OPEN, ()).await }))
        .await?;
    rows.into_iter().map(read).collect()
}

/// Drafts that came to an end, newest first: those with an id below `before`, `limit` at most.
///
/// # Errors
/// A fault.
pub async fn archived(app: &App, owner: OwnerId, before: DraftId, limit: usize) -> Result<Page, Fault> {
    lapse_owner(app, owner).await?;
    let asked = i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1;
    let rows: Vec<Row> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.all(&sql::ARCHIVED, (before, asked)).await })
        })
        .await?;
    let more = rows.len() > limit;
    let cards: Vec<Card> = rows.into_iter().take(limit).map(read).collect::<Result<_, _>>()?;
    let older = if more {
        cards.last().map(|card| card.id)
    } else {
        None
    };
    Ok(Page { cards, older })
}

/// One draft's card, whatever its state; `None` for a missing or another owner's.
///
/// # Errors
/// A fault.
pub async fn card(app: &App, owner: OwnerId, draft: DraftId) -> Result<Option<Card>, Fault> {
    lapse_owner(app, owner).await?;
    let row: Option<Row> = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move { tx.optional(&sql::CARD, (draft,)).await })
        })
        .await?;
    row.map(read).transpose()
}
