//! Browser sessions: sign in, confirm, sign out. Never keeps the cookie's text.

use muster_core::clock::Time;
use muster_core::ids::{BrowserSessionId, OwnerId};
use muster_core::secret::random_hex;
use muster_core::{Fault, Secret, TokenHash};
use muster_store::Topic;
use serde_json::json;

use super::state::{self, SEEN_EVERY};
use super::{SignInError, failed, password, sql};
use crate::App;
use crate::audit::{self, Event, Subject};

/// A person who is signed in.
#[derive(Debug, Clone)]
pub struct BrowserCaller {
    /// Whose account.
    pub owner: OwnerId,
    /// Its name.
    pub name: String,
    /// Which session.
    pub session: BrowserSessionId,
    /// When this session last proved who it is, by password or passkey.
    pub signed_in_at: Time,
}

#[derive(sqlx::FromRow)]
struct OwnerRow {
    id: i64,
    password_hash: Option<String>,
    disabled_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct SessionRow {
    id: i64,
    owner_id: i64,
    name: String,
    created_at: i64,
    signed_in_at: i64,
    last_seen_at: i64,
}

/// Signs in with a password; answers the cookie's text.
///
/// # Errors
/// [`SignInError::Wrong`] for any mismatch, after the same work each time.
pub async fn sign_in_password(app: &App, name: &str, given: &Secret) -> Result<Secret, SignInError> {
    let wanted = name.to_owned();
    let row: Option<OwnerRow> = app
        .db
        .system_read("sign-in", move |tx| {
            Box::pin(async move { tx.optional(&sql::BY_NAME, (wanted,)).await })
        })
        .await?;
    let hash = row
        .as_ref()
        .filter(|row| row.disabled_at.is_none())
        .and_then(|row| row.password_hash.clone());
    let owner = row.map(|row| OwnerId::new(row.id));
    if password::fits(app, given, hash.clone()).await?
        && let Some(owner) = owner
        && let Some(cookie) = open(app, owner, "password", hash).await?
    {
        return Ok(cookie);
    }
    failed::note(app, owner);
    Err(SignInError::Wrong)
}

/// Opens a browser session for an owner who has just proved who they are; `None` when the account has been disabled meanwhile, or has another
/// password than the one whose hash was `checked`.
///
/// # Errors
/// A fault.
pub(super) async fn open(
    app: &App,
    owner: OwnerId,
    by: &'static str,
    checked: Option<String>,
) -> Result<Option<Secret>, Fault> {
    let cookie = Secret::new(random_hex::<32>()?);
    let (hash, now) = (TokenHash::of(cookie.expose()), app.clock.now());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let checked = checked.as_deref().unwrap_or_default();
                let opened: Option<(i64,)> = tx.optional(&sql::INSERT_SESSION, (&hash, now, checked)).await?;
                if opened.is_none() {
                    return Ok(None);
                }
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "owner.signed_in",
                        actor: "owner".into(),
                        subject: Subject::Owner(owner),
                        data: json!({"by": by}),
                    },
                )
                .await?;
                Ok(Some(cookie))
            })
        })
        .await
}

/// Who a cookie belongs to, if its session lives and its owner is enabled.
///
/// # Errors
/// A fault.
pub async fn browser(app: &App, cookie: &str) -> Result<Option<BrowserCaller>, Fault> {
    if cookie.len() != 64 {
        return Ok(None);
    }
    let hash = TokenHash::of(cookie);
    let row: Option<SessionRow> = app
        .db
        .system_read("session look-up", move |tx| {
            Box::pin(async move { tx.optional(&sql::SESSION, (&hash,)).await })
        })
        .await?;
    let Some(row) = row else { return Ok(None) };
    let (now, seen) = (app.clock.now(), Time::from_micros(row.last_seen_at));
    if !state::session_lives(Time::from_micros(row.created_at), seen, now) {
        return Ok(None);
    }
    let caller = BrowserCaller {
        owner: OwnerId::new(row.owner_id),
        name: row.name,
        session: BrowserSessionId::new(row.id),
        signed_in_at: Time::from_micros(row.signed_in_at),
    };
    if now.since(seen) >= SEEN_EVERY {
        let session = caller.session;
        app.db
            .write(caller.owner, move |tx| {
                Box::pin(async move { tx.run(&sql::SEEN, (session, now)).await })
            })
            .await
            .map(|_| ())?;
    }
    Ok(Some(caller))
}

/// Proves anew who sits there: the session's sign-in counts from now.
///
/// # Errors
/// [`SignInError::Wrong`], or a fault.
pub async fn confirm_password(app: &App, caller: &BrowserCaller, given: &Secret) -> Result<(), SignInError> {
    let row: Option<(Option<String>,)> = app
        .db
        .read(caller.owner, |tx| {
            Box::pin(async move { tx.optional(&sql::PASSWORD, ()).await })
        })
        .await
        .map_err(SignInError::Fault)?;
    if !password::fits(app, given, row.and_then(|(hash,)| hash)).await? {
        failed::note(app, Some(caller.owner));
        return Err(SignInError::Wrong);
    }
    if confirmed(app, caller.owner, caller.session, "password").await? {
        Ok(())
    } else {
        Err(SignInError::Wrong)
    }
}

/// Notes that a session has just proved who it is; answers whether it still lives.
///
/// # Errors
/// A fault.
pub(super) async fn confirmed(
    app: &App,
    owner: OwnerId,
    session: BrowserSessionId,
    by: &'static str,
) -> Result<bool, Fault> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                if tx.run(&sql::CONFIRMED, (session, now)).await? == 0 {
                    return Ok(false);
                }
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "owner.confirmed",
                        actor: "owner".into(),
                        subject: Subject::Owner(owner),
                        data: json!({"by": by}),
                    },
                )
                .await?;
                Ok(true)
            })
        })
        .await
}

/// Ends this session.
///
/// # Errors
/// A fault.
pub async fn sign_out(app: &App, caller: &BrowserCaller) -> Result<(), Fault> {
    let (owner, session, now) = (caller.owner, caller.session, app.clock.now());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                tx.run(&sql::END_SESSION, (session, now)).await?;
                // A page of this session that is still open says so.
                tx.wake(Topic::Owner(owner));
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "owner.signed_out",
                        actor: "owner".into(),
                        subject: Subject::Owner(owner),
                        data: json!({}),
                    },
                )
                .await
            })
        })
        .await
}

/// Ends every session of the owner's, this one too.
///
/// # Errors
/// A fault.
pub async fn sign_out_everywhere(app: &App, caller: &BrowserCaller) -> Result<(), Fault> {
    let (owner, now) = (caller.owner, app.clock.now());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let ended = tx.run(&sql::END_SESSIONS, (now,)).await?;
                // Every open page says so.
                tx.wake(Topic::Owner(owner));
                let event = Event {
                    name: "owner.signed_out_everywhere",
                    actor: "owner".into(),
                    subject: Subject::Owner(owner),
                    data: json!({"sessions": ended}),
                };
                audit::record(tx, now, event).await
            })
        })
        .await
}
