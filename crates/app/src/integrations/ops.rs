//! The integrations' acts. Never hands a token to anything but the call that needs it.

use muster_core::clock::Time;
use muster_core::ids::{IntegrationId, OwnerId, ProjectId};
use muster_core::text::Slug;
use muster_core::{Fault, Secret};
use muster_store::Tx;
use serde_json::{Value, json};

use super::{ForgeKind, ForgeUrl, IntegrationError, sql, state};
use crate::audit::{self, Event, Subject};
use crate::named::{Named, Word, is_taken};
use crate::{App, RESOURCES, seal};

/// An account at a forge, without its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Integration {
    /// Its id.
    pub id: IntegrationId,
    /// Its name.
    pub name: String,
    /// Which API it speaks.
    pub kind: ForgeKind,
    /// Where.
    pub url: String,
    /// When it was added.
    pub created_at: Time,
}

/// A new integration, its fields already checked but for the token.
#[derive(Debug, Clone)]
pub struct NewIntegration {
    /// Unique among the owner's live integrations.
    pub name: Slug,
    /// Which API it speaks.
    pub kind: ForgeKind,
    /// Where.
    pub url: ForgeUrl,
    /// What the forge knows the owner by.
    pub token: Secret,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: i64,
    name: String,
    kind: String,
    url: String,
    created_at: i64,
}

impl TryFrom<Row> for Integration {
    type Error = Fault;

    fn try_from(row: Row) -> Result<Self, Fault> {
        let kind = ForgeKind::parse(&row.kind)
            .ok_or_else(|| Fault::contradiction("integrations", row.id, "its kind is no kind"))?;
        Ok(Self {
            id: IntegrationId::new(row.id),
            name: row.name,
            kind,
            url: row.url,
            created_at: Time::from_micros(row.created_at),
        })
    }
}

fn name_taken(fault: Fault) -> IntegrationError {
    if is_taken(&fault, "integrations") {
        IntegrationError::NameTaken
    } else {
        IntegrationError::Fault(fault)
    }
}

fn event(name: &'static str, integration: IntegrationId, data: Value) -> Event {
    Event::by_owner(name, Subject::Integration(integration), data)
}

/// What a token is sealed for: its own row of its own owner.
fn place(owner: OwnerId, integration: IntegrationId) -> String {
    format!("muster/integration/{owner}/{integration}/token")
}

/// Adds an integration. The forge is not contacted.
///
/// # Errors
/// [`IntegrationError::Token`], [`IntegrationError::NameTaken`], [`IntegrationError::Seal`], or a fault.
pub async fn add(app: &App, owner: OwnerId, new: NewIntegration) -> Result<Integration, IntegrationError> {
    if !state::is_token(&new.token) {
        return Err(IntegrationError::Token);
    }
    let key = seal::ready(app).await?;
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let (name, kind, url) = (new.name.as_str(), new.kind.as_str(), new.url.as_str());
                let id = tx
                    .number(&sql::INSERT, (name, kind, url, now))
                    .await
                    .map_err(name_taken)?;
                let id = IntegrationId::new(id);
                let sealed = key.seal(&place(owner, id), &new.token)?;
                tx.run(&sql::SET_SECRET, (id, sealed)).await?;
                let data = json!({"name": name, "kind": kind});
                audit::record(tx, now, event("integration.add", id, data)).await?;
                Ok(Integration {
                    id,
                    name: name.to_owned(),
                    kind: new.kind,
                    url: url.to_owned(),
                    created_at: now,
                })
            })
        })
        .await
}

/// The owner's integrations, oldest first, without removed ones.
///
/// # Errors
/// A fault.
pub async fn list(app: &App, owner: OwnerId) -> Result<Vec<Integration>, Fault> {
    let rows: Vec<Row> = app
        .db
        .read(owner, |tx| Box::pin(async move { tx.all(&sql::LIST, ()).await }))
        .await?;
    rows.into_iter().map(Integration::try_from).collect()
}

/// The live integration that a word names: its id, or its name.
///
/// # Errors
/// [`IntegrationError::NotFound`], or a fault.
pub async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Integration, IntegrationError> {
    let word = Word::of(word);
    app.db
        .read(owner, move |tx| Box::pin(async move { found(tx, word).await }))
        .await
}

async fn found(tx: &mut Tx, word: Word) -> Result<Integration, IntegrationError> {
    let row: Option<Row> = tx.optional(&sql::FIND, (word.id, word.name)).await?;
    Ok(Integration::try_from(row.ok_or(IntegrationError::NotFound)?)?)
}

pub(crate) async fn of(tx: &mut Tx, integration: IntegrationId) -> Result<Integration, IntegrationError> {
    found(tx, Word::of_id(integration.get())).await
}

/// A live integration with its token, for a call to its forge.
///
/// # Errors
/// [`IntegrationError::NotFound`], [`IntegrationError::Seal`], or a fault.
pub async fn credential(
    app: &App,
    owner: OwnerId,
    integration: IntegrationId,
) -> Result<(Integration, Secret), IntegrationError> {
    let (found, sealed): (Integration, String) = app
        .db
        .read(owner, move |tx| {
            Box::pin(async move {
                let found = of(tx, integration).await?;
                let (sealed,): (String,) = tx.one(&sql::SECRET, (integration,)).await?;
                Ok::<_, IntegrationError>((found, sealed))
            })
        })
        .await?;
    let token = seal::held(app)?.open(&place(owner, integration), &sealed)?;
    Ok((found, token))
}

/// Gives an integration another name. Its id, which is what grants hold, stays.
///
/// # Errors
/// [`IntegrationError::NotFound`], [`IntegrationError::NameTaken`], or a fault.
pub async fn rename(
    app: &App,
    owner: OwnerId,
    integration: IntegrationId,
    name: Slug,
) -> Result<Integration, IntegrationError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, integration).await?;
                tx.run(&sql::RENAME, (integration, name.as_str()))
                    .await
                    .map_err(name_taken)?;
                let data = json!({"from": before.name, "to": name.as_str()});
                audit::record(tx, now, event("integration.rename", integration, data)).await?;
                Ok(Integration {
                    name: name.into_string(),
                    ..before
                })
            })
        })
        .await
}

/// Removes an integration that no live project uses, and its token with it: its name is free again, its id never comes back.
///
/// # Errors
/// [`IntegrationError::NotFound`], [`IntegrationError::InUse`], or a fault.
pub async fn remove(
    app: &App,
    owner: OwnerId,
    integration: IntegrationId,
) -> Result<Integration, IntegrationError> {
    let now = app.clock.now();
    app.db
        .write_in_turn(owner, RESOURCES, owner.get(), move |tx| {
            Box::pin(async move {
                let before = of(tx, integration).await?;
                let users: Vec<(i64, String)> = tx.all(&sql::USED_BY, (integration,)).await?;
                if !users.is_empty() {
                    let projects = users.into_iter().map(|(id, name)| Named {
                        id: ProjectId::new(id),
                        name,
                    });
                    return Err(IntegrationError::InUse(projects.collect()));
                }
                tx.run(&sql::REMOVE, (integration, now)).await?;
                let data = json!({"name": before.name});
                audit::record(tx, now, event("integration.remove", integration, data)).await?;
                Ok(before)
            })
        })
        .await
}
