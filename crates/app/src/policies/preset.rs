//! Presets put in the place of a layer. Never `any`, and never a layer that several things share without a word.

use muster_core::ids::{OwnerId, PolicyId, ProjectId, TaskId};
use muster_policy::{Layer, LayerName, Preset, may_author};
use muster_store::Tx;
use serde_json::json;

use super::edit::{Edit, about, at, finish, open, owner_event, replace};
use super::whole::{child, repoint};
use super::{PolicyError, load, sql, view};
use crate::App;
use crate::audit;
use crate::resources::{self, Resources};

/// What a preset does where several things resolve through the task layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenShared {
    /// Refuse: a script must not re-scope every task on a shared policy by accident.
    Refuse,
    /// Write to the shared policy all the same.
    Write,
    /// Give this task a fork of its own and leave the shared policy as it is.
    Fork(TaskId),
}

/// What [`apply_preset`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The named policy was edited.
    InPlace,
    /// A fork was made for the task, and the task repointed to it.
    Forked(PolicyId),
}

#[derive(sqlx::FromRow)]
struct ProjectRow {
    id: i64,
    repo: Option<String>,
    integration_id: Option<i64>,
}

pub(super) async fn expand(
    tx: &mut Tx,
    preset: Preset,
    project: ProjectId,
) -> Result<(Layer, Resources), PolicyError> {
    let row: ProjectRow = tx
        .optional(&sql::PROJECT, (project,))
        .await?
        .ok_or(PolicyError::NoSuchProject)?;
    let resources = resources::all(tx).await?;
    let integration = row.integration_id.map(|id| id.to_string());
    let of_project = resources.of_project(&row.id.to_string(), row.repo.as_deref(), integration.as_deref());
    let layer = preset.expand(&of_project)?;
    Ok((layer, resources))
}

/// The grants that a preset would put into a layer, without putting them there.
///
/// # Errors
/// [`PolicyError`]; a stale revision and a layer that the policy cannot have are refused as [`apply_preset`] does.
pub async fn preview(
    app: &App,
    owner: OwnerId,
    edit: Edit,
    preset: &str,
    project: ProjectId,
) -> Result<Vec<view::ShownGrant>, PolicyError> {
    let preset: Preset = preset.parse()?;
    app.db
        .read(owner, move |tx| {
            Box::pin(async move {
                let found = at(load::by_id(tx, edit.policy).await?, edit.revision)?;
                may_author(found.parent.is_some(), edit.layer)?;
                let (layer, resources) = expand(tx, preset, project).await?;
                Ok(layer
                    .grants()
                    .iter()
                    .map(|grant| view::shown_grant(&resources, grant, None))
                    .collect())
            })
        })
        .await
}

/// Replaces a whole layer by a preset's grants on the project's real resources; where none fits, by an empty layer.
///
/// # Errors
/// [`PolicyError`]; [`PolicyError::Shared`] for a task layer that several things resolve through, unless `shared` says otherwise.
pub async fn apply_preset(
    app: &App,
    owner: OwnerId,
    edit: Edit,
    preset: &str,
    project: ProjectId,
    shared: WhenShared,
) -> Result<Applied, PolicyError> {
    let preset: Preset = preset.parse()?;
    let now = app.clock.now();
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                let found = open(tx, edit).await?;
                let (layer, resources) = expand(tx, preset, project).await?;
                let grants: Vec<_> = layer
                    .grants()
                    .iter()
                    .map(|grant| view::shown_grant(&resources, grant, None))
                    .collect();
                let more = json!({"layer": edit.layer.as_str(), "preset": preset.as_str(), "project": project.to_string(), "grants": grants});
                let dependents = view::dependents(tx, edit.policy).await?;
                if edit.layer == LayerName::Task && dependents.count() > 1 {
                    match shared {
                        WhenShared::Write => {}
                        WhenShared::Refuse => return Err(PolicyError::Shared(Box::new(dependents))),
                        WhenShared::Fork(task) => {
                            let name = free_name(tx, &found.name, task).await?;
                            let id = child(tx, &found, &name, &layer, now).await?;
                            repoint(tx, task, Some(id), now).await?;
                            let child = load::by_id(tx, id).await?;
                            let data = about(&child, child.revision, more);
                            audit::record(tx, now, owner_event("policy.apply_preset", id, data)).await?;
                            return Ok(Applied::Forked(id));
                        }
                    }
                }
                replace(tx, edit.policy, edit.layer, &layer, now).await?;
                finish(tx, now, &found, "policy.apply_preset", more).await?;
                Ok(Applied::InPlace)
            })
        })
        .await
}

/// A name for a task's own fork that no policy has yet.
async fn free_name(tx: &mut Tx, of: &str, task: TaskId) -> Result<String, PolicyError> {
    let stem: String = of.chars().take(40).collect();
    for n in 1.. {
        let name = if n == 1 {
            format!("{stem}-task-{task}")
        } else {
            format!("{stem}-task-{task}-{n}")
        };
        match load::find_in(tx, &name).await {
            Err(PolicyError::NotFound) => return Ok(name),
            Err(error) => return Err(error),
            Ok(_) => {}
        }
    }
    Err(PolicyError::NameTaken)
}
