//! Notices (the texts' pushes): one line in muster's own words that tells an owner what waits, cleared when it is decided. Never quotes a message or a draft.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{DraftId, NoticeId, OwnerId};
use muster_store::{Db, Sql, Topic, Tx, owned};

static INSERT: Sql = owned(
    "notices.insert",
    "INSERT INTO notices (owner_id, title, body, link, draft_id, created_at) VALUES ($1, $2, $3, $4, $5, $6)",
);
static CLEAR_DRAFT: Sql = owned(
    "notices.clear_draft",
    "UPDATE notices SET cleared_at = $3 WHERE owner_id = $1 AND draft_id = $2 AND cleared_at IS NULL",
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
pub static STATEMENTS: &[&Sql] = &[&INSERT, &CLEAR_DRAFT, &OPEN, &AFTER];

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
    let link = format!("/attention?tab=drafts#draft-{draft}");
    tx.run(
        &INSERT,
        ("A reply draft awaits your approval", body, link, draft, now),
    )
    .await?;
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
