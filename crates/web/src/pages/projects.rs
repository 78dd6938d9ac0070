//! `/projects`: the folders that work goes on in, and the policy that their new tasks get. Never touches what is in a folder.

use std::path::PathBuf;

use askama::Template;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::StatusCode;
use muster_app::accounts::BrowserCaller;
use muster_app::projects::{self, NewProject, Project, ProjectError, RepoName};
use muster_app::{integrations, policies};
use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{IntegrationId, ProjectId};
use muster_core::text::Slug;
use serde::Deserialize;

use super::caller::Person;
use super::fields::{Fields, Id};
use super::flash::{Flash, Opened, Place, Shown};
use super::refuse::{self, sentence};
use super::view::{self, Here, Shell, When, one_line, see_other};
use crate::Web;

#[derive(Template)]
#[template(path = "projects.html")]
pub(super) struct ProjectsPage {
    shell: Shell,
    shown: Option<Shown>,
    projects: Vec<ProjectView>,
    policies: Vec<(i64, String)>,
    integrations: Vec<(i64, String)>,
    form: Form,
    error: Option<String>,
}

#[derive(Debug, Clone)]
struct ProjectView {
    id: i64,
    name: String,
    root: String,
    repo: Option<(String, String)>,
    /// The policy of new tasks; 0 for the built-in one.
    default: i64,
    created: When,
}

impl ProjectView {
    fn new(project: Project, now: Time) -> Self {
        Self {
            id: project.id.get(),
            name: one_line(&project.name),
            root: one_line(&project.root),
            repo: project
                .repo
                .map(|repo| (one_line(&repo.path), one_line(&repo.integration.name))),
            default: project.default_policy.map_or(0, |policy| policy.id.get()),
            created: When::new(project.created_at, now),
        }
    }
}

/// A new project, as it was typed.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    name: String,
    #[serde(default)]
    root: String,
    #[serde(default)]
    repo: String,
    #[serde(default)]
    integration: String,
}

/// An act on a project.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Act {
    #[serde(default)]
    act: String,
    #[serde(default)]
    name: String,
    /// A policy's id; empty for the built-in one.
    #[serde(default)]
    policy: String,
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    opened: Opened,
) -> Result<Response, Response> {
    let mut page = compose(&web, &caller, Form::default()).await?;
    page.shown = flash.take(caller.session, Place::Projects, &opened);
    Ok(view::page(StatusCode::OK, &page))
}

async fn compose(web: &Web, caller: &BrowserCaller, form: Form) -> Result<ProjectsPage, Response> {
    let (app, owner) = (&web.app, caller.owner);
    let facts = async || -> Result<_, Fault> {
        Ok((
            projects::list(app, owner).await?,
            policies::list(app, owner).await?,
            integrations::list(app, owner).await?,
        ))
    };
    let (projects, policies, integrations) = facts().await.map_err(|fault| refuse::fault(&fault))?;
    let now = web.app.clock.now();
    Ok(ProjectsPage {
        shell: Shell::of(web, caller, Here::Projects, "Projects").await?,
        shown: None,
        projects: projects
            .into_iter()
            .map(|project| ProjectView::new(project, now))
            .collect(),
        policies: policies
            .iter()
            .map(|found| (found.id.get(), one_line(&found.name)))
            .collect(),
        integrations: integrations
            .iter()
            .map(|integration| (integration.id.get(), one_line(&integration.name)))
            .collect(),
        form,
        error: None,
    })
}

/// The project that the form asks for, or what it lacks.
fn read(form: &Form) -> Result<NewProject, String> {
    let name = Slug::parse("the name", form.name.trim()).map_err(|error| error.to_string())?;
    let root = PathBuf::from(form.root.trim());
    if !root.is_absolute() {
        return Err("the root is the absolute path of a folder on the machine that runs muster".to_owned());
    }
    let repo = match (form.repo.trim(), form.integration.parse::<IntegrationId>()) {
        ("", _) => None,
        (_, Err(_)) => return Err("a repository needs the integration that reaches it".to_owned()),
        (repo, Ok(integration)) => {
            let repo = RepoName::parse(repo).map_err(|error| error.to_string())?;
            Some((repo, integration))
        }
    };
    Ok(NewProject { name, root, repo })
}

pub(super) async fn add(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Fields(form): Fields<Form>,
) -> Result<Response, Response> {
    let (status, words) = match read(&form) {
        Err(words) => (StatusCode::BAD_REQUEST, words),
        Ok(new) => match projects::add(&web.app, caller.owner, new).await {
            Ok(_) => {
                note(&flash, &caller, "The project is added.");
                return Ok(see_other("/projects"));
            }
            Err(ProjectError::Fault(fault)) => return Err(refuse::fault(&fault)),
            Err(error) => (refuse::project_status(&error), error.to_string()),
        },
    };
    let mut page = compose(&web, &caller, form).await?;
    page.error = Some(sentence(&words));
    Ok(view::page(status, &page))
}

fn note(flash: &Flash, caller: &BrowserCaller, words: &'static str) {
    flash.put(caller.session, Place::Projects, Shown::Note(words));
}

pub(super) async fn act(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(project): Id<ProjectId>,
    Fields(form): Fields<Act>,
) -> Result<Response, Response> {
    let (app, owner) = (&web.app, caller.owner);
    let refused = |error: ProjectError| refuse::project(&error);
    let words = match form.act.as_str() {
        "default" => {
            let policy = match form.policy.as_str() {
                "" => None,
                id => Some(id.parse().map_err(|_| refused(ProjectError::NoPolicy))?),
            };
            projects::set_default(app, owner, project, policy)
                .await
                .map_err(refused)?;
            "New tasks of the project get this policy. Tasks that are there keep theirs."
        }
        "rename" => {
            let name = Slug::parse("the name", form.name.trim()).map_err(|error| {
                refuse::page(
                    StatusCode::BAD_REQUEST,
                    "Not done",
                    &error.to_string(),
                    refuse::TO_PROJECTS,
                )
            })?;
            projects::rename(app, owner, project, name)
                .await
                .map_err(refused)?;
            "The project is renamed. Grants on it stay, since they hold its id."
        }
        "remove" => {
            projects::remove(app, owner, project).await.map_err(refused)?;
            "The project is removed. Nothing in its folder was touched."
        }
        _ => return Err(refuse::unreadable(StatusCode::BAD_REQUEST)),
    };
    note(&flash, &caller, words);
    Ok(see_other("/projects"))
}

#[cfg(test)]
impl ProjectsPage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::{HOSTILE, shell, when};
        let hostile = || HOSTILE.to_owned();
        let project = |id, repo, default| ProjectView {
            id,
            name: hostile(),
            root: hostile(),
            repo,
            default,
            created: when(),
        };
        let page = |projects, error| Self {
            shell: shell(Here::Projects),
            shown: Some(Shown::Note("done")),
            projects,
            policies: vec![(5, hostile())],
            integrations: vec![(6, hostile())],
            form: Form {
                name: hostile(),
                root: hostile(),
                repo: hostile(),
                integration: "6".to_owned(),
            },
            error,
        };
        let projects = vec![project(1, Some((hostile(), hostile())), 5), project(2, None, 0)];
        vec![
            page(projects, Some(hostile())),
            Self {
                integrations: vec![],
                ..page(vec![], None)
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_an_absolute_folder_and_a_repository_comes_with_its_integration() {
        let form = |root: &str, repo: &str, integration: &str| Form {
            name: "engine".to_owned(),
            root: root.to_owned(),
            repo: repo.to_owned(),
            integration: integration.to_owned(),
        };
        assert!(read(&form("/srv/engine", "", "")).is_ok());
        assert!(
            read(&form("/srv/engine", "ada/engine", "3"))
                .unwrap()
                .repo
                .is_some()
        );
        for bad in [
            form("engine", "", ""),
            form("/srv", "ada/engine", ""),
            form("/srv", "ada", "3"),
        ] {
            assert!(read(&bad).is_err(), "{bad:?}");
        }
    }
}
