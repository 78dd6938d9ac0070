//! The chain of the audit log: each row's hash takes in the hash of the row before it, so that a row that was changed, removed or put in shows. Never repairs a chain.

use muster_core::Fault;
use muster_core::ids::{AuditId, OwnerId};
use muster_core::secret::sha256_hex;
use muster_store::{Db, Tx};
use serde::Serialize;
use serde_json::json;

use super::ops::Row;
use super::sql;

/// How many rows are read at a time.
const PAGE: i64 = 2_000;

/// What a row's hash is made of besides the hash before it: everything that is shown of the row or that it is found by.
pub(super) struct Link<'r> {
    pub(super) owner: OwnerId,
    pub(super) at: i64,
    pub(super) actor: &'r str,
    pub(super) event: &'r str,
    pub(super) subject: &'r str,
    pub(super) data: &'r str,
    pub(super) agent: Option<&'r str>,
    pub(super) task: Option<&'r str>,
    pub(super) tool: Option<&'r str>,
    pub(super) outcome: Option<&'r str>,
}

impl Link<'_> {
    /// The row's hash when it follows the row with the hash `before`; the first row follows an empty one.
    pub(super) fn after(&self, before: &str) -> String {
        let link = json!([
            before,
            self.owner,
            self.at,
            self.actor,
            self.event,
            self.subject,
            self.data,
            self.agent,
            self.task,
            self.tool,
            self.outcome
        ]);
        sha256_hex(link.to_string().as_bytes())
    }
}

/// What going along an owner's whole chain found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Whether every row follows the one before it and the last is the end of the chain.
    pub ok: bool,
    /// How many rows there are.
    pub rows: i64,
    /// The first row that does not follow the one before it: it was changed or put in, or what stood before it was removed. `None` with
    /// `ok` false: rows at the end are missing.
    pub first_bad: Option<String>,
}

/// Goes along an owner's chain in one snapshot.
///
/// Rows that were stored before there was a chain have no hash; they can only stand at its beginning.
///
/// # Errors
/// A fault.
pub async fn verify(db: &Db, owner: OwnerId) -> Result<Verified, Fault> {
    match db.read(owner, move |tx| Box::pin(walk(tx, owner))).await {
        Ok(verified) => Ok(verified),
        Err(fault) => match unreadable(db, owner).await? {
            Some((rows, first)) => Ok(Verified {
                ok: false,
                rows,
                first_bad: Some(AuditId::new(first).to_string()),
            }),
            None => Err(fault),
        },
    }
}

/// How many rows there are and the first that holds what is no text, if one does.
async fn unreadable(db: &Db, owner: OwnerId) -> Result<Option<(i64, i64)>, Fault> {
    let (mut rows, mut last, mut first) = (0_i64, i64::MIN, None);
    loop {
        let page: Vec<(i64,)> = db
            .read(owner, move |tx| {
                Box::pin(async move { tx.all(&sql::IDS_ONWARDS, (last, PAGE)).await })
            })
            .await?;
        for (id,) in &page {
            (rows, last) = (rows + 1, *id);
            if first.is_none() {
                let (id, row) = (*id, |row: Option<Row>| row.map(drop));
                let read = db
                    .read(owner, move |tx| {
                        Box::pin(async move { tx.optional(&sql::ROW, (id,)).await.map(row) })
                    })
                    .await;
                first = read.is_err().then_some(id);
            }
        }
        if page.is_empty() {
            return Ok(first.map(|first| (rows, first)));
        }
    }
}

async fn walk(tx: &mut Tx, owner: OwnerId) -> Result<Verified, Fault> {
    // Whoever removes the end of the chain has changed the log.
    let end: Option<(i64, String)> = tx.optional(&sql::LENGTH, ()).await?;
    let (mut before, mut rows, mut linked, mut last) = (String::new(), 0_i64, 0_i64, i64::MIN);
    let mut first_bad = None;
    loop {
        let page: Vec<Row> = tx.all(&sql::ONWARDS, (last, PAGE)).await?;
        for row in &page {
            rows += 1;
            last = row.id;
            if row.hash.is_empty() && linked == 0 {
                continue;
            }
            linked += 1;
            if first_bad.is_none() && row.hash != row.link(owner).after(&before) {
                first_bad = Some(AuditId::new(row.id).to_string());
            }
            before.clone_from(&row.hash);
        }
        if page.is_empty() {
            break;
        }
    }
    Ok(Verified {
        ok: first_bad.is_none() && end == Some((linked, before)),
        rows,
        first_bad,
    })
}
