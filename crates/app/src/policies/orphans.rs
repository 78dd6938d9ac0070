//! Layers that are left of policies that are gone, which a database that was changed past muster can hold. Never takes them for anybody's layers.

use std::collections::BTreeMap;

use muster_core::Fault;
use muster_core::ids::{OwnerId, PolicyId};
use muster_store::Stored;

use super::sql;
use super::view::{self, Dependents};
use crate::App;

/// What is left of a policy that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// The policy's id.
    pub policy: PolicyId,
    /// Its layers that are still there.
    pub layers: Vec<String>,
    /// What still points at it: every call of theirs is refused.
    pub dependents: Dependents,
}

/// An owner's layers without a policy, by policy, the oldest first.
///
/// # Errors
/// A fault.
pub async fn orphans(app: &App, owner: OwnerId) -> Result<Vec<Orphan>, Fault> {
    app.db
        .read(owner, |tx| {
            Box::pin(async move {
                let rows: Vec<(i64, Stored, Option<i64>)> = tx.all(&sql::ORPHANS, ()).await?;
                let mut layers: BTreeMap<i64, Vec<String>> = BTreeMap::new();
                for (policy, layer, _) in rows.into_iter().filter(|(.., there)| there.is_none()) {
                    let layer = layer.text().unwrap_or("unreadable").to_owned();
                    layers.entry(policy).or_default().push(layer);
                }
                let mut found = Vec::with_capacity(layers.len());
                for (policy, layers) in layers {
                    let policy = PolicyId::new(policy);
                    found.push(Orphan {
                        policy,
                        layers,
                        dependents: view::dependents(tx, policy).await?,
                    });
                }
                Ok(found)
            })
        })
        .await
}
