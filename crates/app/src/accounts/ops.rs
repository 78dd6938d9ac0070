//! Owners: add, list, disable, enable, a new password. Never deletes one: its rows are history.

use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::OwnerId;
use muster_store::Topic;
use serde_json::json;

use super::state::{OwnerName, Password};
use super::{AccountError, password, sql};
use crate::App;
use crate::audit::{self, Event, Subject};

const DISABLED: &str = "owner.disabled";
const ENABLED: &str = "owner.enabled";

/// An account as an administrator sees it.
#[derive(Debug, Clone)]
pub struct Owner {
    /// Its id.
    pub id: OwnerId,
    /// Its name.
    pub name: String,
    /// When it was made.
    pub created_at: Time,
    /// When it was disabled.
    pub disabled_at: Option<Time>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    name: String,
    created_at: i64,
    disabled_at: Option<i64>,
}

impl From<Row> for Owner {
    fn from(row: Row) -> Self {
        Self {
            id: OwnerId::new(row.id),
            name: row.name,
            created_at: Time::from_micros(row.created_at),
            disabled_at: row.disabled_at.map(Time::from_micros),
        }
    }
}

/// Makes an account. With `first` only on a server that has none, decided in the same transaction.
///
/// # Errors
/// [`AccountError`]; nothing was stored then.
pub async fn add(
    app: &App,
    name: OwnerName,
    password: Password,
    first: bool,
) -> Result<OwnerId, AccountError> {
    let hash = password::hash(app, password.secret()).await?;
    let now = app.clock.now();
    app.db
        .system_write("adding an owner", move |tx| {
            Box::pin(async move {
                if first {
                    tx.number(&sql::FIRST_ALONE, ()).await?;
                    if tx.number(&sql::COUNT, ()).await? > 0 {
                        return Err(AccountError::AlreadySetUp);
                    }
                }
                let inserted: Option<(i64,)> = tx
                    .optional(&sql::INSERT_OWNER, (name.as_str(), hash.as_str(), now))
                    .await?;
                let (id,) = inserted.ok_or(AccountError::NameTaken)?;
                let id = OwnerId::new(id);
                audit::record_for(tx, id, now, event("owner.added", id)).await?;
                Ok(id)
            })
        })
        .await
}

/// What an administrator did to an account.
fn event(name: &'static str, owner: OwnerId) -> Event {
    Event {
        name,
        actor: "administrator".into(),
        subject: Subject::Owner(owner),
        data: json!({}),
    }
}

/// Every account, oldest first.
///
/// # Errors
/// A fault.
pub async fn list(app: &App) -> Result<Vec<Owner>, Fault> {
    let rows: Vec<Row> = app
        .db
        .system_read("listing owners", |tx| {
            Box::pin(async move { tx.all(&sql::LIST, ()).await })
        })
        .await?;
    Ok(rows.into_iter().map(Owner::from).collect())
}

/// Whether the server has an owner at all.
///
/// # Errors
/// A fault.
pub async fn any_owner(app: &App) -> Result<bool, Fault> {
    app.db
        .system_read("counting owners", |tx| {
            Box::pin(async move { tx.number(&sql::COUNT, ()).await })
        })
        .await
        .map(|count| count > 0)
}

/// The server's first account, while it is enabled: whom the shared hook token acts for. It never moves to another account.
///
/// # Errors
/// A fault.
pub async fn first(app: &App) -> Result<Option<Owner>, Fault> {
    Ok(list(app)
        .await?
        .into_iter()
        .next()
        .filter(|owner| owner.disabled_at.is_none()))
}

/// The account of this name.
///
/// # Errors
/// [`AccountError::NotFound`], or a fault.
pub async fn find(app: &App, name: &str) -> Result<Owner, AccountError> {
    list(app)
        .await?
        .into_iter()
        .find(|owner| owner.name == name)
        .ok_or(AccountError::NotFound)
}

/// Gives an account another password and ends all its browser sessions, so that nobody who knew the old one stays; answers how many ended.
/// Tokens and passkeys stay, and a disabled account stays disabled.
///
/// # Errors
/// [`AccountError::NotFound`], or a fault; nothing was changed then.
pub async fn set_password(app: &App, name: &str, password: Password) -> Result<u64, AccountError> {
    let owner = find(app, name).await?.id;
    let hash = password::hash(app, password.secret()).await?;
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                // First the password: a sign-in with the old one that is under way stores no session after it.
                tx.run(&sql::SET_PASSWORD, (hash.as_str(),)).await?;
                let ended = tx.run(&sql::END_SESSIONS, (now,)).await?;
                // Every open page says so.
                tx.wake(Topic::Owner(owner));
                let event = Event {
                    data: json!({"sessions": ended}),
                    ..event("owner.password_changed", owner)
                };
                audit::record(tx, now, event).await?;
                Ok(ended)
            })
        })
        .await
        .map_err(AccountError::Fault)
}

/// Disables an account: no token, session or sign-in of it works from now on. Nothing of it is deleted.
///
/// # Errors
/// [`AccountError::NotFound`], or a fault.
pub async fn disable(app: &App, name: &str) -> Result<(), AccountError> {
    set_disabled(app, name, true).await
}

/// Enables a disabled account again.
///
/// # Errors
/// [`AccountError::NotFound`], or a fault.
pub async fn enable(app: &App, name: &str) -> Result<(), AccountError> {
    set_disabled(app, name, false).await
}

async fn set_disabled(app: &App, name: &str, disabled: bool) -> Result<(), AccountError> {
    let owner = find(app, name).await?.id;
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                if tx.run(&sql::SWITCH, (disabled.then_some(now), disabled)).await? == 0 {
                    return Ok(());
                }
                if disabled {
                    // Enabling the account again must not bring a stolen cookie back.
                    tx.run(&sql::END_SESSIONS, (now,)).await?;
                }
                audit::record(tx, now, event(if disabled { DISABLED } else { ENABLED }, owner)).await
            })
        })
        .await
        .map_err(AccountError::Fault)
}
