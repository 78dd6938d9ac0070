//! `muster project`. Never touches a project's folder.

use muster_app::App;
use muster_app::projects::{self, NewProject, Project, ProjectError, RepoName};
use muster_core::ids::{OwnerId, PolicyId};
use serde_json::{Value, json};

use super::{integration, offline, owner, shown};
use crate::cli;
use crate::config::Config;
use crate::output::{self, Failure};

/// The policy that grants nothing, which no row stands for.
pub(super) const CLOSED: &str = "closed";

pub(super) async fn run(config: &Config, command: cli::Project, json: bool) -> Result<(), Failure> {
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &App, command: cli::Project, json: bool) -> Result<(), Failure> {
    match command {
        cli::Project::Add {
            name,
            owner: whose,
            root,
            repo,
            integration,
        } => {
            let name = shown::name(name)?;
            let repo = repo
                .map(|repo| RepoName::parse(&repo))
                .transpose()
                .map_err(refused)?;
            let owner = owner(app, &whose).await?;
            let repo = match repo.zip(integration) {
                Some((repo, word)) => Some((repo, integration::find(app, owner, &word).await?.id)),
                None => None,
            };
            let added = projects::add(app, owner, NewProject { name, root, repo })
                .await
                .map_err(refused)?;
            shown::made(json, &added.id.to_string(), || document(&added))
        }
        cli::Project::List { owner: whose } => {
            let owner = owner(app, &whose).await?;
            let all = projects::list(app, owner).await?;
            shown::list(
                json,
                || all.iter().map(document).collect(),
                &["ID", "NAME", "ROOT", "REPO", "DEFAULT POLICY"],
                || all.iter().map(row).collect(),
            )
        }
        cli::Project::Show {
            owner: whose,
            project,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &project).await?;
            if json {
                return output::document(&document(&found));
            }
            let [id, name, root, repo, policy] = cells(&found);
            shown::fields(&[
                ("id", id),
                ("name", name),
                ("root", root),
                ("repo", repo),
                ("default policy", policy),
            ])
        }
        cli::Project::Rename {
            owner: whose,
            project,
            name,
        } => {
            let name = shown::name(name)?;
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &project).await?;
            let renamed = projects::rename(app, owner, found.id, name)
                .await
                .map_err(refused)?;
            shown::changed(json, || document(&renamed))
        }
        cli::Project::Remove {
            owner: whose,
            project,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &project).await?;
            let removed = projects::remove(app, owner, found.id).await.map_err(refused)?;
            shown::changed(json, || document(&removed))
        }
        cli::Project::SetDefault {
            owner: whose,
            project,
            policy: word,
            none: _,
            revision,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &project).await?;
            let chosen = match word {
                Some(word) => policy(app, owner, &word).await?,
                None => None,
            };
            let set = projects::set_default_at(app, owner, found.id, chosen, revision)
                .await
                .map_err(refused)?;
            shown::changed(json, || document(&set))
        }
    }
}

/// The live project that a word names.
pub(super) async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Project, Failure> {
    projects::find(app, owner, word).await.map_err(refused)
}

/// The policy that a word names; `None` for the built-in one that grants nothing.
pub(super) async fn policy(app: &App, owner: OwnerId, word: &str) -> Result<Option<PolicyId>, Failure> {
    if word == CLOSED {
        return Ok(None);
    }
    let found = projects::policy(app, owner, word).await.map_err(refused)?;
    Ok(Some(found.id))
}

fn document(project: &Project) -> Value {
    json!({
        "id": project.id.to_string(),
        "name": project.name,
        "root": project.root,
        "repo": project.repo.as_ref().map(|repo| shown::resource("repo", &repo.path, &repo.path)),
        "default_policy": project.default_policy.as_ref().map(shown::named),
    })
}

fn cells(project: &Project) -> [String; 5] {
    [
        project.id.to_string(),
        project.name.clone(),
        project.root.clone(),
        project
            .repo
            .as_ref()
            .map(|repo| format!("{} at {}", repo.path, repo.integration.name))
            .unwrap_or_default(),
        project
            .default_policy
            .as_ref()
            .map_or_else(|| CLOSED.to_owned(), |policy| policy.name.clone()),
    ]
}

fn row(project: &Project) -> Vec<String> {
    cells(project).into()
}

fn refused(error: ProjectError) -> Failure {
    let sentence = error.to_string();
    match error {
        ProjectError::Repo => Failure::usage(sentence),
        ProjectError::Root { .. } => Failure::refused("not_a_folder", sentence),
        ProjectError::StaleRevision { .. } => Failure::refused("stale_revision", sentence),
        ProjectError::NameTaken => Failure::refused("name_taken", sentence),
        ProjectError::NotFound | ProjectError::NoIntegration | ProjectError::NoPolicy => {
            Failure::refused("not_found", sentence)
        }
        ProjectError::InUse { tasks, connections } => {
            let listed = [shown::listed(&tasks), shown::listed(&connections)].join(", ");
            let listed = listed.trim_matches([',', ' ']);
            Failure::refused("in_use", format!("{sentence} ({listed})")).with(
                "dependents",
                json!({"tasks": shown::all_named(&tasks), "db_connections": shown::all_named(&connections)}),
            )
        }
        ProjectError::Fault(fault) => fault.into(),
    }
}
