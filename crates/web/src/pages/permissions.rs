//! `/tasks/{id}/permissions`: what a task's agents get in the end, and presets for it. Never changes what another task gets by a preset of this task's layer.

use askama::Template;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::StatusCode;
use muster_app::accounts::BrowserCaller;
use muster_app::policies::{self, Applied, Chosen, PolicyError, PresetLine, WhenShared};
use muster_app::tasks::{self, TaskPolicy};
use muster_core::ids::{PolicyId, TaskId};
use serde::Deserialize;

use super::caller::Person;
use super::fields::{Asked, Fields, Id};
use super::flash::{Flash, Opened, Place, Shown};
use super::policies::{Form, shown};
use super::policy_view::{PolicyView, PreviewView};
use super::refuse;
use super::tasks::{TaskPolicyView, TaskView};
use super::view::{self, Here, Shell, see_other};
use crate::Web;

#[derive(Template)]
#[template(path = "permissions.html")]
pub(super) struct PermissionsPage {
    shell: Shell,
    shown: Option<Shown>,
    task: TaskView,
    /// Nothing for a task that no policy governs.
    policy: Option<PolicyView>,
    /// Whether presets can be applied: the task is under a policy of its owner's.
    own: bool,
    preview: Option<PreviewView>,
    form: Form,
    presets: Vec<PresetLine>,
}

/// A preset for a task, as its form sends it.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Act {
    #[serde(flatten)]
    form: Form,
    /// The policy that the page showed.
    #[serde(default)]
    policy: String,
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    opened: Opened,
    Id(id): Id<TaskId>,
    Asked(form): Asked<Form>,
) -> Result<Response, Response> {
    let task = tasks::find(&web.app, caller.owner, id)
        .await
        .map_err(|error| refuse::task(&error, refuse::TO_TASKS))?;
    let refused = |error: PolicyError| refuse::policy(&error, refuse::to_permissions(id));
    let form = Form {
        project: task.project.id.to_string(),
        ..form
    };
    let (policy, preview) = match &task.policy {
        TaskPolicy::Unscoped => (None, None),
        TaskPolicy::Closed => {
            let closed = shown(&web, &caller, Chosen::Closed).await.map_err(refused)?;
            (Some(closed), None)
        }
        TaskPolicy::Policy { id, .. } => {
            let preview = preview(&web, &caller, *id, &form).await.map_err(refused)?;
            let policy = super::policies::of(&web, &caller, *id).await.map_err(refused)?;
            (Some(policy), preview)
        }
    };
    let page = PermissionsPage {
        shell: Shell::of(&web, &caller, Here::Tasks, format!("Permissions of task {id}")).await?,
        shown: flash.take(caller.session, Place::Tasks, &opened),
        own: matches!(task.policy, TaskPolicy::Policy { .. }),
        task: TaskView::new(&task, web.app.clock.now()),
        policy,
        preview,
        form,
        presets: policies::presets(),
    };
    Ok(view::page(StatusCode::OK, &page))
}

/// What the preset that the address names would change.
async fn preview(
    web: &Web,
    caller: &BrowserCaller,
    policy: PolicyId,
    form: &Form,
) -> Result<Option<PreviewView>, PolicyError> {
    let Some((layer, change)) = form.change()?.filter(|_| form.act == "preset") else {
        return Ok(None);
    };
    let preview = policies::what_would_change(&web.app, caller.owner, policy, layer, change).await?;
    Ok(Some(PreviewView::new(preview)))
}

pub(super) async fn apply(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(id): Id<TaskId>,
    Fields(act): Fields<Act>,
) -> Result<Response, Response> {
    let task = tasks::find(&web.app, caller.owner, id)
        .await
        .map_err(|error| refuse::task(&error, refuse::TO_TASKS))?;
    let refused = |error: PolicyError| refuse::policy(&error, refuse::to_permissions(id));
    let policy = match task.policy {
        TaskPolicy::Policy { id, .. } if id.to_string() == act.policy => id,
        _ => return Err(refuse::another_policy(id)),
    };
    let edit = act.form.edit(policy).map_err(refused)?;
    let applied = policies::apply_preset(
        &web.app,
        caller.owner,
        edit,
        &act.form.preset,
        task.project.id,
        WhenShared::Fork(id),
    )
    .await
    .map_err(refused)?;
    let words = match applied {
        Applied::InPlace => "The preset is in the place of the layer.",
        Applied::Forked(_) => {
            "This task has a fork of its own now, with the preset as its task layer. The shared policy is as it was."
        }
    };
    flash.put(caller.session, Place::Tasks, Shown::Note(words));
    Ok(see_other(&format!("/tasks/{id}/permissions")))
}

#[cfg(test)]
impl PermissionsPage {
    pub(super) fn samples() -> Vec<Self> {
        use super::policy_view::samples::{policy, preview};
        use super::tasks::samples::{task, under_a_policy};
        use super::tests::{HOSTILE, shell};
        let page = |under: TaskPolicyView, policy, own, preview| Self {
            shell: shell(Here::Tasks),
            shown: Some(Shown::Note("done")),
            task: task(under, "open"),
            policy,
            own,
            preview,
            form: Form {
                act: "preset".to_owned(),
                layer: "task".to_owned(),
                preset: HOSTILE.to_owned(),
                ..Form::default()
            },
            presets: policies::presets(),
        };
        vec![
            page(under_a_policy(), Some(policy("5", false)), true, Some(preview(3))),
            page(under_a_policy(), Some(policy("5", true)), true, Some(preview(1))),
            page(TaskPolicyView::Closed, Some(policy("closed", false)), false, None),
            page(TaskPolicyView::Unscoped, None, false, None),
        ]
    }
}

#[cfg(test)]
mod tests {
    use askama::Template as _;

    use super::*;

    #[test]
    fn a_preset_of_a_shared_task_layer_says_that_it_forks_and_one_of_its_own_does_not() {
        let pages: Vec<String> = PermissionsPage::samples()
            .iter()
            .map(|page| page.render().unwrap())
            .collect();
        let forks: Vec<bool> = pages
            .iter()
            .map(|html| html.contains("This task gets a fork of its own"))
            .collect();
        assert_eq!(forks, [true, false, false, false]);
        assert!(pages[3].contains("LEGACY-UNSCOPED"));
    }
}
