//! Passkeys: register one, sign in with one, confirm with one. A ceremony's state stays in the database and serves once.

use muster_core::clock::Time;
use muster_core::ids::{BrowserSessionId, OwnerId, PasskeyId};
use muster_core::secret::random_hex;
use muster_core::text::Label;
use muster_core::{Fault, Secret, TokenHash};
use serde_json::{Value, json};
use webauthn_rs::prelude::{
    PasskeyAuthentication, PasskeyRegistration, PublicKeyCredential, RegisterPublicKeyCredential, Url, Uuid,
    Webauthn, WebauthnBuilder,
};

use super::state::CEREMONY;
use super::{BrowserCaller, PasskeyError, sessions, sql};
use crate::App;
use crate::audit::{self, Event, Subject};

/// The relying party: who passkeys of this server belong to.
pub struct Passkeys {
    webauthn: Webauthn,
}

impl Passkeys {
    /// The relying party of a public address; `None` when its host is a bare IP address. On the loopback address passkeys belong to `localhost`.
    pub fn of(public_url: &str) -> Option<Self> {
        let mut origin = Url::parse(public_url).ok()?;
        let host = origin.host_str()?.to_owned();
        if matches!(host.as_str(), "127.0.0.1" | "[::1]") {
            origin.set_host(Some("localhost")).ok()?;
        } else if host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok() {
            return None;
        }
        let host = origin.host_str()?.to_owned();
        let webauthn = WebauthnBuilder::new(&host, &origin)
            .ok()?
            .rp_name("muster")
            .build()
            .ok()?;
        Some(Self { webauthn })
    }
}

/// A ceremony that waits for the authenticator.
#[derive(Debug)]
pub struct Begun {
    /// Names the ceremony when it is finished; serves once, for five minutes.
    pub ceremony: Secret,
    /// What the page hands to the browser's credentials API.
    pub options: Value,
}

/// A passkey as its owner sees it.
#[derive(Debug, Clone)]
pub struct Passkey {
    /// Its id.
    pub id: PasskeyId,
    /// What the owner calls it.
    pub label: String,
    /// When it was registered.
    pub created_at: Time,
    /// When it last signed in or confirmed.
    pub last_used_at: Option<Time>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    credential_id: String,
    label: String,
    credential: String,
    created_at: i64,
    last_used_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct OwnerRow {
    id: i64,
    disabled_at: Option<i64>,
}

#[derive(sqlx::FromRow)]
struct CeremonyRow {
    owner_id: i64,
    state: String,
    expires_at: i64,
}

/// What a ceremony keeps between its two requests.
#[derive(serde::Serialize, serde::Deserialize)]
struct State<T> {
    of: T,
    /// The browser session that began it, when one did; nobody else may finish it.
    session: Option<BrowserSessionId>,
}

/// The owner's passkeys, oldest first.
///
/// # Errors
/// A fault.
pub async fn passkeys(app: &App, owner: OwnerId) -> Result<Vec<Passkey>, Fault> {
    Ok(rows(app, owner)
        .await?
        .into_iter()
        .map(|row| Passkey {
            id: PasskeyId::new(row.id),
            label: row.label,
            created_at: Time::from_micros(row.created_at),
            last_used_at: row.last_used_at.map(Time::from_micros),
        })
        .collect())
}

async fn rows(app: &App, owner: OwnerId) -> Result<Vec<Row>, Fault> {
    app.db
        .read(owner, |tx| {
            Box::pin(async move { tx.all(&sql::PASSKEYS, ()).await })
        })
        .await
}

fn credentials(rows: &[Row]) -> Result<Vec<webauthn_rs::prelude::Passkey>, Fault> {
    rows.iter()
        .map(|row| {
            serde_json::from_str(&row.credential)
                .map_err(|_| Fault::contradiction("passkeys", row.id, "its credential cannot be read"))
        })
        .collect()
}

/// Begins to register a passkey for who is signed in.
///
/// # Errors
/// [`PasskeyError`].
pub async fn begin_register(app: &App, caller: &BrowserCaller) -> Result<Begun, PasskeyError> {
    let relying = app.passkeys.clone().ok_or(PasskeyError::NoHost)?;
    let existing = credentials(&rows(app, caller.owner).await?)?
        .iter()
        .map(|key| key.cred_id().clone())
        .collect();
    // Stable per owner and of no meaning elsewhere.
    let user = Uuid::from_u128(
        0x6d75_7374_6572_0000_0000_0000_0000_0000 | u128::from(caller.owner.get().unsigned_abs()),
    );
    let (options, state) = relying
        .webauthn
        .start_passkey_registration(user, &caller.name, &caller.name, Some(existing))
        .map_err(|e| fault("a passkey could not be begun", e))?;
    let ceremony = keep(
        app,
        caller.owner,
        "register",
        &State {
            of: state,
            session: Some(caller.session),
        },
    )
    .await?;
    Ok(Begun {
        ceremony,
        options: serde_json::to_value(options).map_err(|e| fault("a passkey could not be begun", e))?,
    })
}

/// Stores the passkey that the authenticator made.
///
/// # Errors
/// [`PasskeyError`]; nothing was stored then.
pub async fn finish_register(
    app: &App,
    caller: &BrowserCaller,
    ceremony: &str,
    label: Label,
    answer: Value,
) -> Result<PasskeyId, PasskeyError> {
    let relying = app.passkeys.clone().ok_or(PasskeyError::NoHost)?;
    let (owner, state): (_, State<PasskeyRegistration>) = take(app, ceremony, "register").await?;
    if owner != caller.owner || state.session != Some(caller.session) {
        return Err(PasskeyError::Stale);
    }
    let answer: RegisterPublicKeyCredential =
        serde_json::from_value(answer).map_err(|_| PasskeyError::Unverified)?;
    let key = relying
        .webauthn
        .finish_passkey_registration(&answer, &state.of)
        .map_err(|_| PasskeyError::Unverified)?;
    let credential_id = id_text(key.cred_id());
    let credential = serde_json::to_string(&key).map_err(|e| fault("a passkey could not be stored", e))?;
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let inserted = tx
                    .number(
                        &sql::INSERT_PASSKEY,
                        (credential_id, label.as_str(), credential, now),
                    )
                    .await;
                // Registered already, perhaps by another owner: one refusal for both.
                let id = PasskeyId::new(inserted.map_err(|fault| {
                    if fault.constraint().is_some() {
                        PasskeyError::Unverified
                    } else {
                        fault.into()
                    }
                })?);
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "passkey.registered",
                        actor: "owner".into(),
                        subject: Subject::Passkey(id),
                        data: json!({}),
                    },
                )
                .await?;
                Ok(id)
            })
        })
        .await
}

/// Removes a passkey.
///
/// # Errors
/// [`PasskeyError::NotFound`], or a fault.
pub async fn remove_passkey(app: &App, owner: OwnerId, passkey: PasskeyId) -> Result<(), PasskeyError> {
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                tx.optional::<(String,)>(&sql::DELETE_PASSKEY, (passkey,))
                    .await?
                    .ok_or(PasskeyError::NotFound)?;
                audit::record(
                    tx,
                    now,
                    Event {
                        name: "passkey.removed",
                        actor: "owner".into(),
                        subject: Subject::Passkey(passkey),
                        data: json!({}),
                    },
                )
                .await?;
                Ok(())
            })
        })
        .await
}

/// Begins a sign-in by passkey for the account of this name.
///
/// # Errors
/// [`PasskeyError::None`] when there is nothing to sign in with, whatever the reason.
pub async fn begin_sign_in(app: &App, name: &str) -> Result<Begun, PasskeyError> {
    let name = name.to_owned();
    let row: Option<OwnerRow> = app
        .db
        .system_read("sign-in", move |tx| {
            Box::pin(async move { tx.optional(&sql::BY_NAME, (name,)).await })
        })
        .await
        .map_err(PasskeyError::Fault)?;
    let owner = row
        .filter(|row| row.disabled_at.is_none())
        .map(|row| OwnerId::new(row.id))
        .ok_or(PasskeyError::None)?;
    begin_proof(app, owner, "sign_in", None).await
}

/// Signs in with the authenticator's answer; answers the cookie's text.
///
/// # Errors
/// [`PasskeyError`].
pub async fn finish_sign_in(app: &App, ceremony: &str, answer: Value) -> Result<Secret, PasskeyError> {
    let (owner, _) = finish_proof(app, ceremony, "sign_in", None, answer).await?;
    sessions::open(app, owner, "passkey", None)
        .await?
        .ok_or(PasskeyError::None)
}

/// Begins to prove anew who sits there.
///
/// # Errors
/// [`PasskeyError::None`] when this owner has no passkey.
pub async fn begin_confirm(app: &App, caller: &BrowserCaller) -> Result<Begun, PasskeyError> {
    begin_proof(app, caller.owner, "confirm", Some(caller.session)).await
}

/// Confirms with the authenticator's answer: the session's sign-in counts from now.
///
/// # Errors
/// [`PasskeyError`].
pub async fn finish_confirm(
    app: &App,
    caller: &BrowserCaller,
    ceremony: &str,
    answer: Value,
) -> Result<(), PasskeyError> {
    let (owner, _) = finish_proof(app, ceremony, "confirm", Some(caller), answer).await?;
    if sessions::confirmed(app, owner, caller.session, "passkey").await? {
        Ok(())
    } else {
        Err(PasskeyError::Stale)
    }
}

async fn begin_proof(
    app: &App,
    owner: OwnerId,
    kind: &'static str,
    session: Option<BrowserSessionId>,
) -> Result<Begun, PasskeyError> {
    let relying = app.passkeys.clone().ok_or(PasskeyError::NoHost)?;
    let keys = credentials(&rows(app, owner).await?)?;
    if keys.is_empty() {
        return Err(PasskeyError::None);
    }
    let (options, state) = relying
        .webauthn
        .start_passkey_authentication(&keys)
        .map_err(|e| fault("a passkey could not be asked for", e))?;
    let ceremony = keep(app, owner, kind, &State { of: state, session }).await?;
    Ok(Begun {
        ceremony,
        options: serde_json::to_value(options).map_err(|e| fault("a passkey could not be asked for", e))?,
    })
}

async fn finish_proof(
    app: &App,
    ceremony: &str,
    kind: &'static str,
    caller: Option<&BrowserCaller>,
    answer: Value,
) -> Result<(OwnerId, PasskeyId), PasskeyError> {
    let relying = app.passkeys.clone().ok_or(PasskeyError::NoHost)?;
    let (owner, state): (_, State<PasskeyAuthentication>) = take(app, ceremony, kind).await?;
    if state.session != caller.map(|caller| caller.session)
        || caller.is_some_and(|caller| caller.owner != owner)
    {
        return Err(PasskeyError::Stale);
    }
    let answer: PublicKeyCredential = serde_json::from_value(answer).map_err(|_| PasskeyError::Unverified)?;
    let result = relying
        .webauthn
        .finish_passkey_authentication(&answer, &state.of)
        .map_err(|_| PasskeyError::Unverified)?;
    let used = id_text(result.cred_id());
    // Read again: the passkey may have been removed while the authenticator was asked.
    let row = rows(app, owner)
        .await?
        .into_iter()
        .find(|row| row.credential_id == used)
        .ok_or(PasskeyError::Unverified)?;
    let mut key: webauthn_rs::prelude::Passkey = serde_json::from_str(&row.credential)
        .map_err(|_| Fault::contradiction("passkeys", row.id, "its credential cannot be read"))?;
    key.update_credential(&result);
    let credential = serde_json::to_string(&key).map_err(|e| fault("a passkey could not be stored", e))?;
    let (id, now) = (PasskeyId::new(row.id), app.clock.now());
    app.db
        .write(owner, move |tx| {
            Box::pin(async move { tx.run(&sql::PASSKEY_USED, (id, credential, now)).await })
        })
        .await
        .map_err(PasskeyError::Fault)?;
    Ok((owner, id))
}

async fn keep<T: serde::Serialize>(
    app: &App,
    owner: OwnerId,
    kind: &'static str,
    state: &State<T>,
) -> Result<Secret, Fault> {
    let ceremony = Secret::new(random_hex::<32>()?);
    let (hash, now) = (TokenHash::of(ceremony.expose()), app.clock.now());
    let state =
        serde_json::to_string(state).map_err(|e| Fault::other("a ceremony could not be kept").because(e))?;
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                tx.run(&sql::DROP_CEREMONIES, (now,)).await?;
                tx.run(&sql::INSERT_CEREMONY, (&hash, kind, state, now.plus(CEREMONY)))
                    .await
            })
        })
        .await
        .map(|_| ())?;
    Ok(ceremony)
}

async fn take<T: serde::de::DeserializeOwned>(
    app: &App,
    ceremony: &str,
    kind: &'static str,
) -> Result<(OwnerId, State<T>), PasskeyError> {
    let hash = TokenHash::of(ceremony);
    let row: Option<CeremonyRow> = app
        .db
        .system_write("taking a ceremony", move |tx| {
            Box::pin(async move { tx.optional(&sql::TAKE_CEREMONY, (&hash, kind)).await })
        })
        .await
        .map_err(PasskeyError::Fault)?;
    let row = row
        .filter(|row| app.clock.now() < Time::from_micros(row.expires_at))
        .ok_or(PasskeyError::Stale)?;
    let state = serde_json::from_str(&row.state).map_err(|e| fault("a ceremony could not be read", e))?;
    Ok((OwnerId::new(row.owner_id), state))
}

fn id_text(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn fault(what: &'static str, cause: impl std::error::Error + Send + Sync + 'static) -> PasskeyError {
    PasskeyError::Fault(Fault::other(what).because(cause))
}
