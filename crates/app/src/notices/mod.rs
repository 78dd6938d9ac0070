//! Notices (the texts' pushes): one line in muster's own words that tells an owner what waits or went wrong, cleared when it is decided or old. Never quotes a message or a draft.

use std::time::Duration;

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{DraftId, MessageId, NoticeId, OwnerId};
use muster_store::{Db, Sql, Topic, Tx, owned, system};

use crate::App;

static INSERT: Sql = owned(
    "notices.insert",
    "INSERT INTO notices (owner_id, title, body, link, draft_id, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
);
static CLEAR_DRAFT: Sql = owned(
    "notices.clear_draft",
    "UPDATE notices SET cleared_at = $3 WHERE owner_id = $1 AND draft_id = $2 AND cleared_at IS NULL",
);
/// What was told of the drafts of one message.
static CLEAR_MESSAGE: Sql = owned(
    "notices.clear_message",
    "UPDATE notices SET cleared_at = $3 WHERE owner_id = $1 AND cleared_at IS NULL AND draft_id IN (SELECT id FROM drafts WHERE owner_id = $1 AND message_id = $2)",
);
static CLEAR_OLD: Sql = owned(
    "notices.clear_old",
    "UPDATE notices SET cleared_at = $3 WHERE owner_id = $1 AND cleared_at IS NULL AND created_at <= $2",
);
static OLD_OWNERS: Sql = system(
    "notices.old_owners",
    "SELECT DISTINCT owner_id FROM notices WHERE cleared_at IS NULL AND created_at <= $1",
);
static OPEN: Sql = owned(
    "notices.open",
    "SELECT id, title, body, link, created_at FROM notices WHERE owner_id = $1 AND cleared_at IS NULL ORDER BY id DESC LIMIT 50",
);
static AFTER: Sql = owned(
    "notices.after",
    "SELECT id, title, body, link, created_at FROM notices WHERE owner_id = $1 AND id > $2 AND cleared_at IS NULL ORDER BY id LIMIT 50",
);

/// All of them.
pub static STATEMENTS: &[&Sql] = &[
    &INSERT,
    &CLEAR_DRAFT,
    &CLEAR_MESSAGE,
    &CLEAR_OLD,
    &OLD_OWNERS,
    &OPEN,
    &AFTER,
];

/// How long a notice stays at most. No draft waits longer, and what nobody can decide (a reply that failed) is old news then.
pub const LIFETIME: Duration = Duration::from_secs(7 * 86_400);

/// A notice as its owner sees it.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Its id; later notices have larger ones.
    pub id: NoticeId,
    /// What waits.
    pub title: String,
    /// One more sentence.
    pub body: String,
    /// The page that shows the item.
    pub link: String,
    /// When.
    pub created_at: Time,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    title: String,
    body: String,
    link: String,
    created_at: i64,
}

impl From<Row> for Notice {
    fn from(row: Row) -> Self {
        Self {
            id: NoticeId::new(row.id),
            title: row.title,
            body: row.body,
            link: row.link,
            created_at: Time::from_micros(row.created_at),
        }
    }
}

/// Tells the owner that a draft waits. `unverified` says so in the words the texts fix.
///
/// # Errors
/// A fault.
pub async fn draft_waits(
    tx: &mut Tx,
    owner: OwnerId,
    draft: DraftId,
    unverified: bool,
    now: Time,
) -> Result<(), Fault> {
    let body = if unverified {
        "It answers a message from an unverified sender."
    } else {
        "Read it before you approve it."
    };
    tell(tx, owner, draft, "A reply draft awaits your approval", body, now).await
}

/// Tells the owner that a connector could not send a reply. Clears what was told of it before.
///
/// # Errors
/// A fault.
pub async fn draft_failed(tx: &mut Tx, owner: OwnerId, draft: DraftId, now: Time) -> Result<(), Fault> {
    tx.run(&CLEAR_DRAFT, (draft, now)).await?;
    let title = "A reply was not sent";
    tell(tx, owner, draft, title, "Its connector says why.", now).await
}

/// Tells the owner that a connector took a reply and never said what became of it. Clears what was told of it before.
///
/// # Errors
/// A fault.
pub async fn draft_unconfirmed(tx: &mut Tx, owner: OwnerId, draft: DraftId, now: Time) -> Result<(), Fault> {
    tx.run(&CLEAR_DRAFT, (draft, now)).await?;
    let title = "A reply may not have been sent";
    let body = "Its connector took it and did not say what became of it. muster does not hand it out again.";
    tell(tx, owner, draft, title, body, now).await
}

/// Stores a notice that leads to the draft's card.
async fn tell(
    tx: &mut Tx,
    owner: OwnerId,
    draft: DraftId,
    title: &'static str,
    body: &'static str,
    now: Time,
) -> Result<(), Fault> {
    let link = format!("/attention?tab=drafts#draft-{draft}");
    tx.run(&INSERT, (title, body, link, draft, now)).await?;
    tx.wake(Topic::Owner(owner));
    Ok(())
}

/// Clears the notice of a draft that no longer waits.
///
/// # Errors
/// A fault.
pub async fn clear_draft(tx: &mut Tx, owner: OwnerId, draft: DraftId, now: Time) -> Result<(), Fault> {
    tx.run(&CLEAR_DRAFT, (draft, now)).await?;
    tx.wake(Topic::Owner(owner));
    Ok(())
}

/// Clears every notice of the drafts that answer one message: a new one takes their place.
///
/// # Errors
/// A fault.
pub async fn clear_message(tx: &mut Tx, owner: OwnerId, message: MessageId, now: Time) -> Result<(), Fault> {
    tx.run(&CLEAR_MESSAGE, (message, now)).await?;
    tx.wake(Topic::Owner(owner));
    Ok(())
}

/// Clears every owner's notices that are older than [`LIFETIME`].
///
/// # Errors
/// The first fault; what was done before it stands.
pub async fn sweep(app: &App) -> Result<(), Fault> {
    let now = app.clock.now();
    let before = now.minus(LIFETIME);
    let owners: Vec<(i64,)> = app
        .db
        .system_read("sweep of notices", move |tx| {
            Box::pin(async move { tx.all(&OLD_OWNERS, (before,)).await })
        })
        .await?;
    for (owner,) in owners {
        let owner = OwnerId::new(owner);
        app.db
            .write(owner, move |tx| {
                Box::pin(async move {
                    tx.run(&CLEAR_OLD, (before, now)).await?;
                    tx.wake(Topic::Owner(owner));
                    Ok::<_, Fault>(())
                })
            })
            .await?;
    }
    Ok(())
}

/// What waits for the owner, newest first, 50 at most.
///
/// # Errors
/// A fault.
pub async fn open(db: &Db, owner: OwnerId) -> Result<Vec<Notice>, Fault> {
    let rows: Vec<Row> = db
        .read(owner, |tx| Box::pin(async move { tx.all(&OPEN, ()).await }))
        .await?;
    Ok(rows.into_iter().map(Notice::from).collect())
}

/// Open notices that came after `last`, oldest first: what a page that is open shows as they come.
///
/// # Errors
/// A fault.
pub async fn after(db: &Db, owner: OwnerId, last: NoticeId) -> Result<Vec<Notice>, Fault> {
    let rows: Vec<Row> = db
        .read(owner, move |tx| {
            Box::pin(async move { tx.all(&AFTER, (last,)).await })
        })
        .await?;
    Ok(rows.into_iter().map(Notice::from).collect())
}
