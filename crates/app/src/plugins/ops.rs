//! The connectors' acts: create, list, revoke, and letting a token in. Never hands a token out twice.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use muster_core::clock::Time;
use muster_core::ids::{OwnerId, PluginId};
use muster_core::secret::TokenKind;
use muster_core::text::{DataScope, Label, Slug};
use muster_core::{Fault, Secret, TokenHash};
use muster_store::{Topic, Tx};
use serde_json::json;

use super::{PluginError, sql};
use crate::App;
use crate::audit::{self, Event, Subject};
use crate::named::is_taken;

/// Most tokens whose connector is remembered; past it the memory starts again.
const REMEMBERED: usize = 100_000;

/// A new connector, its fields already checked.
#[derive(Debug, Clone)]
pub struct NewPlugin {
    /// Unique among the owner's live connectors.
    pub name: Slug,
    /// What the chief's conversation for it is called.
    pub label: Label,
    /// Where the chief may record what it learns from this connector's messages.
    pub data_scope: DataScope,
}

/// A connector that was just made, with the only copy of its token.
#[derive(Debug)]
pub struct Created {
    /// Its id.
    pub id: PluginId,
    /// The `mpl_` token: shown once, never stored.
    pub token: Secret,
}

/// A connector's line on `/plugins`.
#[derive(Debug, Clone)]
pub struct Plugin {
    /// Its id.
    pub id: PluginId,
    /// Its slug.
    pub name: String,
    /// Its label.
    pub label: String,
    /// Its data scope.
    pub data_scope: String,
    /// When it was made.
    pub created_at: Time,
    /// Its last authenticated call of any kind.
    pub last_seen_at: Option<Time>,
    /// When it was revoked.
    pub revoked_at: Option<Time>,
    /// How many of its messages still wait to reach the chief.
    pub waiting: i64,
}

/// Whose token a request carries. That the token is still live is proven by [`touch`], inside the act's own transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginCaller {
    /// The owner it acts as.
    pub owner: OwnerId,
    /// The connector.
    pub plugin: PluginId,
    /// Its name, for audit rows.
    pub name: String,
}

/// Which connector a token's hash belongs to. It never changes, so it may be remembered; revocation is not part of it.
#[derive(Debug, Clone, Default)]
pub struct Known(Arc<RwLock<HashMap<String, PluginCaller>>>);

#[derive(sqlx::FromRow)]
struct TokenRow {
    id: i64,
    owner_id: i64,
    name: String,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    name: String,
    label: String,
    data_scope: String,
    created_at: i64,
    last_seen_at: Option<i64>,
    last_stored_at: Option<i64>,
    revoked_at: Option<i64>,
    waiting: i64,
}

/// Makes a connector of `owner`'s and its token.
///
/// # Errors
/// [`PluginError::NameTaken`], or a fault.
pub async fn create(app: &App, owner: OwnerId, new: NewPlugin) -> Result<Created, PluginError> {
    let token = TokenKind::Plugin.mint().map_err(Fault::from)?;
    let hash = TokenHash::of(token.expose());
    let now = app.clock.now();
    let id = app
        .db
        .write(owner, move |tx| {
            Box::pin(async move {
                let inserted = tx
                    .number(
                        &sql::INSERT,
                        (
                            new.name.as_str(),
                            new.label.as_str(),
                            new.data_scope.as_str(),
                            &hash,
                            now,
                        ),
                    )
                    .await;
                let id = PluginId::new(inserted.map_err(name_taken)?);
                let data = json!({"name": new.name.as_str()});
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "plugin.created",
                        actor: "owner".into(),
                        subject: Subject::Plugin(id),
                        data,
                    },
                )
                .await?;
                tx.wake(Topic::Owner(owner));
                Ok::<_, PluginError>(id)
            })
        })
        .await?;
    Ok(Created { id, token })
}

fn name_taken(fault: Fault) -> PluginError {
    if is_taken(&fault, "plugins") {
        PluginError::NameTaken
    } else {
        PluginError::Fault(fault)
    }
}

/// Which connector `token` belongs to, live or not; `None` when nobody's.
///
/// # Errors
/// A fault.
pub async fn authenticate(app: &App, token: &str) -> Result<Option<PluginCaller>, Fault> {
    if !TokenKind::Plugin.matches(token) {
        return Ok(None);
    }
    let hash = TokenHash::of(token);
    if let Some(caller) = app
        .known_plugins
        .0
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(hash.as_str())
    {
        return Ok(Some(caller.clone()));
    }
    let wanted = hash.clone();
    let row: Option<TokenRow> = app
        .db
        .system_read("token look-up", move |tx| {
            Box::pin(async move { tx.optional(&sql::BY_TOKEN, (&wanted,)).await })
        })
        .await?;
    let caller = row.map(|row| PluginCaller {
        owner: OwnerId::new(row.owner_id),
        plugin: PluginId::new(row.id),
        name: row.name,
    });
    if let Some(caller) = &caller {
        let mut known = app
            .known_plugins
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(hash.as_str().to_owned(), caller.clone());
    }
    Ok(caller)
}

/// Proves inside an act's transaction that the caller's token is live and its owner enabled, and notes that it was seen.
/// On Postgres the row stays locked until the act ends, which makes acts of one connector follow one another.
///
/// # Errors
/// [`PluginError::NotLive`], or a fault.
pub async fn touch(tx: &mut Tx, caller: &PluginCaller, now: Time) -> Result<(), PluginError> {
    match tx.run(&sql::TOUCH, (caller.plugin, now)).await? {
        0 => Err(PluginError::NotLive),
        _ => Ok(()),
    }
}

/// [`touch`] in a transaction of its own: for a request that is refused for another reason after its token was good.
///
/// # Errors
/// As [`touch`].
pub async fn touch_now(app: &App, caller: &PluginCaller) -> Result<(), PluginError> {
    let (caller, now) = (caller.clone(), app.clock.now());
    app.db
        .write(caller.owner, move |tx| {
            Box::pin(async move { touch(tx, &caller, now).await })
        })
        .await
}

/// The owner's connectors, oldest first, revoked ones too.
///
/// # Errors
/// A fault.
pub async fn list(app: &App, owner: OwnerId) -> Result<Vec<Plugin>, Fault> {
    let rows: Vec<Row> = app
        .db
        .read(owner, |tx| Box::pin(async move { tx.all(&sql::LIST, ()).await }))
        .await?;
    Ok(rows
        .into_iter()
        .map(|row| Plugin {
            id: PluginId::new(row.id),
            name: row.name,
            label: row.label,
            data_scope: row.data_scope,
            created_at: Time::from_micros(row.created_at),
            last_seen_at: row.last_seen_at.max(row.last_stored_at).map(Time::from_micros),
            revoked_at: row.revoked_at.map(Time::from_micros),
            waiting: row.waiting,
        })
        .collect())
}

/// Ends a connector: its token is refused from now on. Its messages and drafts stay readable.
///
/// # Errors
/// [`PluginError::NotFound`] for another owner's, a missing or an already revoked one.
pub async fn revoke(app: &App, owner: OwnerId, plugin: PluginId) -> Result<(), PluginError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let (name,): (String,) = tx
                    .optional(&sql::REVOKE, (plugin, now))
                    .await?
                    .ok_or(PluginError::NotFound)?;
                let event = Event {
                    name: "plugin.revoked",
                    actor: "owner".into(),
                    subject: Subject::Plugin(plugin),
                    data: json!({"name": name}),
                };
                audit::record(tx, now, event).await?;
                tx.wake(Topic::Plugin(plugin));
                tx.wake(Topic::Owner(owner));
                Ok(())
            })
        })
        .await
}
