//! `/policies`: the owner's policies, and the page of each: its layers, what they come to, and every edit. Never saves an edit that was meant for another revision.

use askama::Template;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::StatusCode;
use muster_app::accounts::BrowserCaller;
use muster_app::policies::{
    self, ActionLine, Change, Chosen, Edit, LayerName, PolicyError, PresetLine, WhenShared, Whose,
};
use muster_app::projects;
use muster_core::Fault;
use muster_core::ids::{PolicyId, ProjectId};
use serde::Deserialize;

use super::caller::Person;
use super::fields::{Asked, Fields, Id};
use super::flash::{Flash, Opened, Place, Shown};
use super::policy_view::{PolicyView, PreviewView, on, scope_word};
use super::refuse;
use super::view::{self, Here, Shell, one_line, see_other};
use crate::Web;

#[derive(Template)]
#[template(path = "policies.html")]
pub(super) struct PoliciesPage {
    shell: Shell,
    shown: Option<Shown>,
    policies: Vec<Line>,
}

/// A policy in the list.
#[derive(Debug, Clone)]
struct Line {
    id: i64,
    name: String,
    revision: i64,
    /// The name of the policy it was forked from.
    parent: Option<String>,
}

#[derive(Template)]
#[template(path = "policy.html")]
pub(super) struct PolicyPage {
    shell: Shell,
    shown: Option<Shown>,
    policy: PolicyView,
    preview: Option<PreviewView>,
    /// The edit that is previewed, as its form holds it.
    form: Form,
    actions: Vec<ActionLine>,
    /// What grants can name, by kind.
    kinds: Vec<Kind>,
    presets: Vec<PresetLine>,
    projects: Vec<(i64, String)>,
}

/// The resources of one kind.
#[derive(Debug, Clone)]
struct Kind {
    kind: &'static str,
    /// Value and words of each.
    resources: Vec<(String, String)>,
}

/// An act on a policy, as its form sends it.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    pub(super) act: String,
    #[serde(default)]
    pub(super) revision: String,
    #[serde(default)]
    pub(super) layer: String,
    #[serde(default)]
    pub(super) action: String,
    #[serde(default)]
    pub(super) scope: String,
    #[serde(default)]
    pub(super) effect: String,
    #[serde(default)]
    pub(super) preset: String,
    #[serde(default)]
    pub(super) project: String,
    #[serde(default)]
    pub(super) name: String,
    /// `write` writes a preset to everything that resolves through the task layer.
    #[serde(default)]
    pub(super) shared: String,
}

impl Form {
    pub(super) fn layer(&self) -> Result<LayerName, PolicyError> {
        self.layer.parse().map_err(PolicyError::from)
    }

    pub(super) fn project(&self) -> Result<ProjectId, PolicyError> {
        self.project.parse().map_err(|_| PolicyError::NoSuchProject)
    }

    /// The layer to edit, at the revision that the person saw.
    pub(super) fn edit(&self, policy: PolicyId) -> Result<Edit, PolicyError> {
        Ok(Edit {
            policy,
            layer: self.layer()?,
            revision: Some(self.revision()),
        })
    }

    /// A form of ours always says one; whatever says none was meant for no revision there is.
    fn revision(&self) -> i64 {
        self.revision.parse().unwrap_or(0)
    }

    /// The edit as one that is only considered; nothing for what changes no layer.
    pub(super) fn change(&self) -> Result<Option<(LayerName, Change)>, PolicyError> {
        let change = match self.act.as_str() {
            "grant" => Change::Grant {
                action: self.action.clone(),
                scope: self.scope.clone(),
                effect: self.effect.clone(),
            },
            "revoke" => Change::Revoke {
                action: self.action.clone(),
                scope: self.scope.clone(),
            },
            "clear" => Change::Clear,
            "empty" => Change::Empty,
            "preset" => Change::Preset {
                preset: self.preset.clone(),
                project: self.project()?,
            },
            _ => return Ok(None),
        };
        Ok(Some((self.layer()?, change)))
    }

    /// The words of the previewed edit's button.
    fn words(&self) -> &'static str {
        match self.act.as_str() {
            "clear" => "Clear the layer (inherits)",
            "empty" => "Save the layer empty (denies everything)",
            "revoke" => "Revoke",
            "preset" => "Apply the preset",
            _ => "Grant",
        }
    }
}

pub(super) async fn list(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    opened: Opened,
) -> Result<Response, Response> {
    let all = policies::list(&web.app, caller.owner)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let shell = Shell::of(&web, &caller, Here::Policies, "Policies").await?;
    let name_of = |id: PolicyId| {
        let found = all.iter().find(|found| found.id == id);
        found.map(|found| one_line(&found.name))
    };
    let policies = all
        .iter()
        .map(|found| Line {
            id: found.id.get(),
            name: one_line(&found.name),
            revision: found.revision,
            parent: found.parent.and_then(name_of),
        })
        .collect();
    let page = PoliciesPage {
        shell,
        shown: flash.take(caller.session, Place::Policies, &opened),
        policies,
    };
    Ok(view::page(StatusCode::OK, &page))
}

pub(super) async fn create(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Fields(form): Fields<Form>,
) -> Result<Response, Response> {
    let made = policies::create(&web.app, caller.owner, form.name.trim())
        .await
        .map_err(|error| refuse::policy(&error, refuse::TO_POLICIES))?;
    note(
        &flash,
        &caller,
        "The policy is made. It has no layers and grants nothing yet.",
    );
    Ok(see_other(&format!("/policies/{made}")))
}

fn note(flash: &Flash, caller: &BrowserCaller, words: &'static str) {
    flash.put(caller.session, Place::Policies, Shown::Note(words));
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    opened: Opened,
    Id(policy): Id<PolicyId>,
    Asked(form): Asked<Form>,
) -> Result<Response, Response> {
    let refused = |error: PolicyError| refuse::policy(&error, refuse::to_policy(policy));
    let preview = match form.change().map_err(refused)? {
        None => None,
        Some((layer, change)) => {
            let preview = policies::what_would_change(&web.app, caller.owner, policy, layer, change)
                .await
                .map_err(refused)?;
            Some(PreviewView::new(preview))
        }
    };
    let view = of(&web, &caller, policy)
        .await
        .map_err(|error| refuse::policy(&error, refuse::TO_POLICIES))?;
    let (kinds, projects) = choices(&web, &caller)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let title = format!("Policy {}", view.name);
    let page = PolicyPage {
        shell: Shell::of(&web, &caller, Here::Policies, title).await?,
        shown: flash.take(caller.session, Place::Policies, &opened),
        policy: view,
        preview,
        form,
        actions: policies::actions(),
        kinds,
        presets: policies::presets(),
        projects,
    };
    Ok(view::page(StatusCode::OK, &page))
}

/// A policy of the owner's as it is shown.
pub(super) async fn of(
    web: &Web,
    caller: &BrowserCaller,
    policy: PolicyId,
) -> Result<PolicyView, PolicyError> {
    let chosen = policies::find(&web.app, caller.owner, &policy.to_string()).await?;
    shown(web, caller, chosen).await
}

/// A policy as it is shown, the built-in one too.
pub(super) async fn shown(
    web: &Web,
    caller: &BrowserCaller,
    chosen: Chosen,
) -> Result<PolicyView, PolicyError> {
    let whole = policies::show(&web.app, caller.owner, chosen.clone()).await?;
    let explained = policies::explain_all(&web.app, caller.owner, Whose::Policy(chosen)).await?;
    Ok(PolicyView::new(whole, explained))
}

async fn choices(web: &Web, caller: &BrowserCaller) -> Result<(Vec<Kind>, Vec<(i64, String)>), Fault> {
    let mut kinds: Vec<Kind> = Vec::new();
    for resource in policies::nameable(&web.app, caller.owner).await? {
        let line = (scope_word(&resource), on(&resource));
        match kinds.iter_mut().find(|known| known.kind == resource.kind) {
            Some(known) => known.resources.push(line),
            None => kinds.push(Kind {
                kind: resource.kind,
                resources: vec![line],
            }),
        }
    }
    let projects = projects::list(&web.app, caller.owner).await?;
    let projects = projects
        .into_iter()
        .map(|project| (project.id.get(), one_line(&project.name)))
        .collect();
    Ok((kinds, projects))
}

pub(super) async fn edit(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(policy): Id<PolicyId>,
    Fields(form): Fields<Form>,
) -> Result<Response, Response> {
    let (to, words) = act(&web, &caller, policy, &form)
        .await
        .map_err(|error| refuse::policy(&error, refuse::to_policy(policy)))?
        .ok_or_else(|| refuse::unreadable(StatusCode::BAD_REQUEST))?;
    note(&flash, &caller, words);
    Ok(see_other(&to))
}

/// Does what the form says; where to go then, and what was done. Nothing for an act that there is not.
async fn act(
    web: &Web,
    caller: &BrowserCaller,
    policy: PolicyId,
    form: &Form,
) -> Result<Option<(String, &'static str)>, PolicyError> {
    let (app, owner) = (&web.app, caller.owner);
    let here = format!("/policies/{policy}");
    let words = match form.act.as_str() {
        "grant" => {
            let edit = form.edit(policy)?;
            policies::grant(app, owner, edit, &form.action, &form.scope, &form.effect).await?;
            "Granted. It holds from the next call on."
        }
        "revoke" => {
            policies::revoke(app, owner, form.edit(policy)?, &form.action, &form.scope).await?;
            "Revoked. It holds from the next call on, also for agents that are at work."
        }
        "clear" => {
            policies::clear_layer(app, owner, form.edit(policy)?).await?;
            "The layer is absent: it inherits."
        }
        "empty" => {
            policies::save_empty(app, owner, form.edit(policy)?).await?;
            "The layer is empty: it denies everything."
        }
        "preset" => {
            let shared = if form.shared == "write" {
                WhenShared::Write
            } else {
                WhenShared::Refuse
            };
            let (edit, project) = (form.edit(policy)?, form.project()?);
            policies::apply_preset(app, owner, edit, &form.preset, project, shared).await?;
            "The preset is in the place of the layer. Edit it row by row."
        }
        "fork" => {
            let forked = policies::fork(app, owner, policy, None, form.name.trim(), None).await?;
            let words =
                "The fork is made. Its upper two layers are read from its root, whenever it is resolved.";
            return Ok(Some((format!("/policies/{}", forked.id), words)));
        }
        "delete" => {
            policies::delete(app, owner, policy, Some(form.revision())).await?;
            return Ok(Some(("/policies".to_owned(), "The policy is deleted.")));
        }
        _ => return Ok(None),
    };
    Ok(Some((here, words)))
}

#[cfg(test)]
mod samples {
    use super::super::policy_view::samples::{policy, preview};
    use super::super::tests::{HOSTILE, shell};
    use super::*;

    impl PoliciesPage {
        pub(in crate::pages) fn samples() -> Vec<Self> {
            let line = Line {
                id: 7,
                name: HOSTILE.to_owned(),
                revision: 2,
                parent: Some(HOSTILE.to_owned()),
            };
            let page = |policies, shown| Self {
                shell: shell(Here::Policies),
                shown,
                policies,
            };
            vec![page(vec![line], Some(Shown::Note("done"))), page(vec![], None)]
        }
    }

    impl PolicyPage {
        pub(in crate::pages) fn samples() -> Vec<Self> {
            let hostile = || HOSTILE.to_owned();
            let page = |fork, preview| Self {
                shell: shell(Here::Policies),
                shown: None,
                policy: policy("7", fork),
                preview,
                form: Form {
                    act: "preset".to_owned(),
                    revision: hostile(),
                    layer: hostile(),
                    action: hostile(),
                    scope: hostile(),
                    effect: hostile(),
                    preset: hostile(),
                    project: hostile(),
                    name: hostile(),
                    shared: hostile(),
                },
                actions: policies::actions(),
                kinds: vec![Kind {
                    kind: "host",
                    resources: vec![(hostile(), hostile())],
                }],
                presets: policies::presets(),
                projects: vec![(3, hostile())],
            };
            vec![page(false, Some(preview(2))), page(true, None)]
        }
    }
}

#[cfg(test)]
mod tests {
    use askama::Template as _;

    use super::*;

    // spec: PRE-014
    #[test]
    fn an_absent_an_empty_and_an_authored_layer_look_different() {
        let [root, _] = PolicyPage::samples()
            .try_into()
            .unwrap_or_else(|_| panic!("two samples"));
        let html = root.render().unwrap();
        for (state, words) in [
            ("absent", "Absent: it inherits"),
            ("empty", "Empty: it denies everything"),
            ("authored", "Authored: 1 grant"),
        ] {
            assert!(html.contains(&format!("layer is-{state}")), "{state}");
            assert_eq!(html.matches(words).count(), 1, "{words}: {html}");
        }
        // An absent layer cannot be cleared, and one that is saved empty stays what it is.
        assert_eq!(html.matches("Clear layer (inherits)").count(), 2);
        assert_eq!(html.matches("Save empty (denies everything)").count(), 3);
    }

    #[test]
    fn a_forks_upper_layers_are_not_edited_on_its_page() {
        let forms = |fork: usize| {
            let page = PolicyPage::samples().swap_remove(fork);
            let html = page.render().unwrap();
            html.matches("name=\"act\" value=\"empty\"").count()
        };
        assert_eq!((forms(0), forms(1)), (3, 1));
    }

    #[test]
    fn an_edit_without_a_revision_was_meant_for_none() {
        let form = Form {
            layer: "task".to_owned(),
            ..Form::default()
        };
        let edit = form.edit(PolicyId::new(7)).unwrap();
        assert_eq!(edit.revision, Some(0));
        assert!(matches!(
            Form::default().edit(PolicyId::new(7)),
            Err(PolicyError::Invalid(_))
        ));
    }
}
