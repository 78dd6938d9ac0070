//! `muster policy`. Never decides: it edits, shows and explains.

use std::io::Read as _;

use muster_app::App;
use muster_app::policies::{
    self, Chosen, Edit, Explained, Exported, PolicyError, Question, Shown, ShownGrant, ShownLayer,
    WhenShared, WhenThere, Whose,
};
use muster_core::ids::{OwnerId, PolicyId, TaskId};
use muster_core::text::terminal;
use muster_policy::{LayerName, Preset};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{offline, owner, project};
use crate::cli::{self, LayerArgs, OwnerArg};
use crate::config::Config;
use crate::output::{self, Failure};

/// Most bytes of a document that is read.
const DOCUMENT: u64 = 64 * 1024 * 1024;

pub(super) async fn run(config: &Config, command: cli::Policy, json: bool) -> Result<(), Failure> {
    match command {
        // Neither needs a database.
        cli::Policy::Actions => return actions(json),
        cli::Policy::Presets => return presets(json),
        _ => {}
    }
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &App, command: cli::Policy, json: bool) -> Result<(), Failure> {
    use cli::Policy as P;
    match command {
        P::Actions => actions(json),
        P::Presets => presets(json),
        P::Create { owner: whose, name } => {
            let owner = owner(app, &whose).await?;
            let id = policies::create(app, owner, &name).await.map_err(refused)?;
            made(app, owner, id, json).await
        }
        P::List { owner: whose } => list(app, &whose, json).await,
        P::Show { owner: whose, policy } => {
            let owner = owner(app, &whose).await?;
            let chosen = policies::find(app, owner, &policy).await.map_err(refused)?;
            let shown = policies::show(app, owner, chosen).await.map_err(refused)?;
            if json { document(&shown) } else { in_full(&shown) }
        }
        P::Delete {
            owner: whose,
            policy,
            revision,
        } => {
            let owner = owner(app, &whose).await?;
            let id = own(app, owner, &policy).await?;
            policies::delete(app, owner, id, revision)
                .await
                .map_err(refused)?;
            said(json, || json!({"id": id.to_string(), "deleted": true}))
        }
        P::Grant {
            edit,
            action,
            scope,
            effect,
        } => {
            let (owner, edit) = editing(app, &edit).await?;
            policies::grant(app, owner, edit, &action, &scope, &effect)
                .await
                .map_err(refused)?;
            // It is made; what keeps it or others from firing is worth knowing, and no reason to fail.
            for why in policies::remarks(app, owner, edit, &action, &scope)
                .await
                .unwrap_or_default()
            {
                output::notice(&format!("muster: the grant was stored, but {}", terminal(&why)));
            }
            changed(app, owner, edit.policy, json).await
        }
        P::Revoke { edit, action, scope } => {
            let (owner, edit) = editing(app, &edit).await?;
            policies::revoke(app, owner, edit, &action, &scope)
                .await
                .map_err(refused)?;
            changed(app, owner, edit.policy, json).await
        }
        P::ClearLayer { edit } => {
            let (owner, edit) = editing(app, &edit).await?;
            policies::clear_layer(app, owner, edit).await.map_err(refused)?;
            changed(app, owner, edit.policy, json).await
        }
        P::SaveEmpty { edit } => {
            let (owner, edit) = editing(app, &edit).await?;
            policies::save_empty(app, owner, edit).await.map_err(refused)?;
            changed(app, owner, edit.policy, json).await
        }
        P::Fork {
            owner: whose,
            policy,
            name,
            task,
            revision,
        } => {
            let owner = owner(app, &whose).await?;
            let task = task.map(|word| task_id(&word)).transpose()?;
            let id = own(app, owner, &policy).await?;
            let forked = policies::fork(app, owner, id, revision, &name, task)
                .await
                .map_err(refused)?;
            made(app, owner, forked.id, json).await
        }
        P::Attach {
            owner: whose,
            policy,
            task,
            revision,
        } => {
            let owner = owner(app, &whose).await?;
            let task = task_id(&task)?;
            let chosen = policies::find(app, owner, &policy).await.map_err(refused)?;
            policies::attach(app, owner, chosen.clone(), revision, task)
                .await
                .map_err(refused)?;
            let shown = policies::show(app, owner, chosen).await.map_err(refused)?;
            if json { document(&shown) } else { Ok(()) }
        }
        P::ApplyPreset {
            edit,
            preset,
            project,
            force,
            dry_run,
        } => {
            let (owner, edit) = editing(app, &edit).await?;
            let project = project::find(app, owner, &project).await?.id;
            if dry_run {
                let grants = policies::preview(app, owner, edit, &preset, project)
                    .await
                    .map_err(refused)?;
                return if json {
                    document(&json!({"grants": grants}))
                } else {
                    grant_rows(&grants)
                };
            }
            let shared = if force {
                WhenShared::Write
            } else {
                WhenShared::Refuse
            };
            policies::apply_preset(app, owner, edit, &preset, project, shared)
                .await
                .map_err(refused)?;
            changed(app, owner, edit.policy, json).await
        }
        P::Export {
            owner: whose,
            policies: words,
        } => {
            let owner = owner(app, &whose).await?;
            let all = policies::export(app, owner, words).await.map_err(refused)?;
            document(&json!({"policies": all}))
        }
        P::Import {
            owner: whose,
            file,
            replace,
            revision,
        } => {
            let there = if replace {
                WhenThere::Replace
            } else {
                WhenThere::Refuse
            };
            import(app, &whose, &file, there, revision, json).await
        }
        P::Explain {
            owner: whose,
            policy,
            task,
            action,
            resource,
            from,
        } => {
            let owner = owner(app, &whose).await?;
            if let Some(file) = from {
                return questions(app, owner, &file).await;
            }
            let whose = whose_answer(app, owner, policy, task).await?;
            explain(app, owner, whose, action.zip(resource), json).await
        }
        P::Simulate {
            owner: whose,
            policy,
            with,
        } => {
            let owner = owner(app, &whose).await?;
            let id = own(app, owner, &policy).await?;
            let changed = one_exported(&read(&with)?)?;
            let found = policies::simulate(app, owner, id, changed)
                .await
                .map_err(refused)?;
            if json {
                return document(&found);
            }
            let rows: Vec<Vec<String>> = found
                .iter()
                .map(|one| {
                    vec![
                        one.audit_id.clone(),
                        one.tool.clone(),
                        one.was.to_owned(),
                        one.would_be.to_owned(),
                    ]
                })
                .collect();
            output::table(&["AUDIT ID", "TOOL", "WAS", "WOULD BE"], &rows)
        }
    }
}

fn document<T: serde::Serialize>(value: &T) -> Result<(), Failure> {
    let value = serde_json::to_value(value).map_err(|error| Failure::refused("io", error.to_string()))?;
    output::document(&value)
}

fn said(json: bool, value: impl FnOnce() -> Value) -> Result<(), Failure> {
    if json { output::document(&value()) } else { Ok(()) }
}

fn actions(json: bool) -> Result<(), Failure> {
    let all = policies::actions();
    if json {
        return document(&all);
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| vec![one.action.to_owned(), one.kinds.join(" "), one.covers.to_owned()])
        .collect();
    output::table(&["ACTION", "TAKES", "COVERS"], &rows)?;
    output::notice(
        "These govern access through muster. An agent with a shell of its own can still run such programs itself; worktrees and profiles narrow what is near, and confine nothing.",
    );
    Ok(())
}

fn presets(json: bool) -> Result<(), Failure> {
    if json {
        let all: Vec<Value> = Preset::ALL
            .iter()
            .map(|preset| json!({"name": preset.as_str(), "description": preset.description()}))
            .collect();
        return output::document(&Value::Array(all));
    }
    let rows: Vec<Vec<String>> = Preset::ALL
        .iter()
        .map(|preset| vec![preset.as_str().to_owned(), preset.description().to_owned()])
        .collect();
    output::table(&["PRESET", "WHAT IT IS FOR"], &rows)
}

async fn list(app: &App, whose: &OwnerArg, json: bool) -> Result<(), Failure> {
    let owner = owner(app, whose).await?;
    let all = policies::list(app, owner).await?;
    if json {
        let all: Vec<Value> = all
            .iter()
            .map(|one| json!({"id": one.id.to_string(), "name": one.name, "revision": one.revision}))
            .collect();
        return output::document(&Value::Array(all));
    }
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|one| vec![one.id.to_string(), one.name.clone(), one.revision.to_string()])
        .collect();
    output::table(&["ID", "NAME", "REVISION"], &rows)
}

fn task_id(word: &str) -> Result<TaskId, Failure> {
    word.parse().map_err(|_| refused(PolicyError::NoSuchTask))
}

/// A policy of the owner's, which can be edited; the built-in one cannot.
async fn own(app: &App, owner: OwnerId, word: &str) -> Result<PolicyId, Failure> {
    match policies::find(app, owner, word).await.map_err(refused)? {
        Chosen::Own(found) => Ok(found.id),
        Chosen::Closed => Err(refused(PolicyError::BuiltIn)),
    }
}

async fn editing(app: &App, args: &LayerArgs) -> Result<(OwnerId, Edit), Failure> {
    let layer: LayerName = args
        .layer
        .parse()
        .map_err(|error: muster_policy::Invalid| Failure::usage(error.to_string()))?;
    let owner = owner(app, &args.owner).await?;
    let policy = own(app, owner, &args.policy).await?;
    let edit = Edit {
        policy,
        layer,
        revision: args.revision,
    };
    Ok((owner, edit))
}

async fn show_own(app: &App, owner: OwnerId, id: PolicyId) -> Result<Shown, Failure> {
    let chosen = policies::find(app, owner, &id.to_string())
        .await
        .map_err(refused)?;
    policies::show(app, owner, chosen).await.map_err(refused)
}

async fn made(app: &App, owner: OwnerId, id: PolicyId, json: bool) -> Result<(), Failure> {
    if json {
        document(&show_own(app, owner, id).await?)
    } else {
        output::line(&id.to_string())
    }
}

async fn changed(app: &App, owner: OwnerId, id: PolicyId, json: bool) -> Result<(), Failure> {
    if json {
        document(&show_own(app, owner, id).await?)
    } else {
        Ok(())
    }
}

fn scope(grant: &ShownGrant) -> String {
    match (&grant.scope.id, &grant.scope.name) {
        // As revoke takes it: an id never comes back, where a name may be another's by now.
        (Some(id), _) if grant.removed => format!("{}:{id}", grant.scope.kind),
        (Some(_), Some(name)) => format!("{}:{name}", grant.scope.kind),
        _ => grant.scope.kind.to_owned(),
    }
}

fn grant_rows(grants: &[ShownGrant]) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = grants
        .iter()
        .map(|grant| {
            let dead = grant.dead.as_ref().map(|why| format!("can never fire: {why}"));
            vec![
                grant.action.to_owned(),
                scope(grant),
                grant.effect.to_owned(),
                dead.unwrap_or_default(),
            ]
        })
        .collect();
    output::table(&["ACTION", "SCOPE", "EFFECT", ""], &rows)
}

fn in_full(shown: &Shown) -> Result<(), Failure> {
    let parent = shown
        .parent
        .as_ref()
        .map(|parent| format!(", a fork of {} ({})", parent.name, parent.id))
        .unwrap_or_default();
    output::line(&format!(
        "{} ({}), revision {}{parent}",
        shown.name, shown.id, shown.revision
    ))?;
    let layers: [(&str, &ShownLayer); 3] = [
        ("global", &shown.layers.global),
        ("project", &shown.layers.project),
        ("task", &shown.layers.task),
    ];
    for (name, layer) in layers {
        let means = match layer.state {
            "absent" => "absent: inherits",
            "empty" => "authored, empty: denies everything",
            _ => "authored",
        };
        output::line(&format!("\n{name} layer, {means}"))?;
        if !layer.grants.is_empty() {
            grant_rows(&layer.grants)?;
        }
    }
    output::line("\nresolved")?;
    let rows: Vec<Vec<String>> = shown
        .resolved
        .iter()
        .map(|row| {
            let name = row.resource.name.clone().unwrap_or_default();
            vec![
                row.action.to_owned(),
                format!("{}:{name}", row.resource.kind),
                row.effect.to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() {
        output::line("nothing is granted")?;
    } else {
        output::table(&["ACTION", "RESOURCE", "EFFECT"], &rows)?;
    }
    let groups = [
        ("task", &shown.dependents.tasks),
        ("project", &shown.dependents.projects),
        ("queued run", &shown.dependents.runs),
        ("fork", &shown.dependents.forks),
    ];
    let rows: Vec<Vec<String>> = groups
        .iter()
        .flat_map(|(kind, things)| {
            things
                .iter()
                .map(|thing| vec![(*kind).to_owned(), thing.id.clone(), thing.name.clone()])
        })
        .collect();
    if !rows.is_empty() {
        output::line("\ndepending on it")?;
        output::table(&["KIND", "ID", "NAME"], &rows)?;
    }
    for note in &shown.notes {
        output::line(&format!("\nnote: {}", terminal(note)))?;
    }
    Ok(())
}

/// A whole document from a file or standard input, bounded.
pub(super) fn read(file: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let mut bounded: Box<dyn std::io::Read> = if file == "-" {
        Box::new(std::io::stdin().lock().take(DOCUMENT + 1))
    } else {
        let opened = std::fs::File::open(file)
            .map_err(|error| Failure::refused("io", format!("{} cannot be read: {error}", terminal(file))))?;
        Box::new(opened.take(DOCUMENT + 1))
    };
    bounded
        .read_to_string(&mut text)
        .map_err(|error| Failure::refused("io", format!("{} cannot be read: {error}", terminal(file))))?;
    if text.len() as u64 > DOCUMENT {
        return Err(Failure::refused(
            "too_long",
            "the document is longer than 64 MiB; nothing was read",
        ));
    }
    Ok(text)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    policies: Vec<Exported>,
}

fn broken(error: &serde_json::Error) -> String {
    format!(
        "the document cannot be read as exported policies: {}",
        terminal(&error.to_string())
    )
}

/// One policy, alone or as the only one of a document, for a simulation.
fn one_exported(text: &str) -> Result<Exported, Failure> {
    let unfit = |what: String| Failure::refused("bad_document", format!("{what}; nothing was replayed"));
    let unread = |error: serde_json::Error| unfit(broken(&error));
    let value: Value = serde_json::from_str(text).map_err(unread)?;
    if value.get("policies").is_none() {
        return serde_json::from_value(value).map_err(unread);
    }
    let document: Document = serde_json::from_value(value).map_err(unread)?;
    let mut policies = document.policies.into_iter();
    match (policies.next(), policies.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(unfit("the document holds other than one policy".to_owned())),
    }
}

async fn import(
    app: &App,
    whose: &OwnerArg,
    file: &str,
    there: WhenThere,
    revision: Option<i64>,
    json: bool,
) -> Result<(), Failure> {
    let document: Document =
        serde_json::from_str(&read(file)?).map_err(|error| refused(PolicyError::Import(broken(&error))))?;
    let owner = owner(app, whose).await?;
    let found = policies::import_at(app, owner, document.policies, there, revision)
        .await
        .map_err(refused)?;
    let all: Vec<Value> = found
        .iter()
        .map(|one| json!({"id": one.id.to_string(), "name": one.name, "revision": one.revision}))
        .collect();
    said(json, || json!({"policies": all}))
}

async fn whose_answer(
    app: &App,
    owner: OwnerId,
    policy: Option<String>,
    task: Option<String>,
) -> Result<Whose, Failure> {
    match (policy, task) {
        (Some(word), None) => Ok(Whose::Policy(
            policies::find(app, owner, &word).await.map_err(refused)?,
        )),
        (None, Some(word)) => Ok(Whose::Task(task_id(&word)?)),
        _ => Err(Failure::usage("say whose answer: --policy POLICY or --task TASK")),
    }
}

fn explained_row(one: &Explained) -> Vec<String> {
    let resource = one.resource.as_ref().map_or_else(
        || "none".to_owned(),
        |resource| format!("{}:{}", resource.kind, resource.name.clone().unwrap_or_default()),
    );
    vec![
        one.action.to_owned(),
        resource,
        one.verdict.to_owned(),
        one.layer.unwrap_or("-").to_owned(),
    ]
}

async fn explain(
    app: &App,
    owner: OwnerId,
    whose: Whose,
    pair: Option<(String, String)>,
    json: bool,
) -> Result<(), Failure> {
    let Some((action, resource)) = pair else {
        let all = policies::explain_all(app, owner, whose).await.map_err(refused)?;
        if json {
            return document(&all);
        }
        let rows: Vec<Vec<String>> = all.iter().map(explained_row).collect();
        return output::table(&["ACTION", "RESOURCE", "VERDICT", "LAYER"], &rows);
    };
    let one = policies::explain(app, owner, whose, &action, &resource)
        .await
        .map_err(refused)?;
    if json {
        return document(&one);
    }
    output::line(&format!("{}: {}", one.verdict, terminal(&one.reason)))?;
    let rows: Vec<Vec<String>> = [
        ("global", &one.layers.global),
        ("project", &one.layers.project),
        ("task", &one.layers.task),
    ]
    .iter()
    .map(|(name, layer)| {
        vec![
            (*name).to_owned(),
            layer.state.to_owned(),
            layer.effect.unwrap_or("does not count").to_owned(),
        ]
    })
    .collect();
    output::table(&["LAYER", "STATE", "EFFECT"], &rows)
}

/// A question a line, an answer a line, in their order.
async fn questions(app: &App, owner: OwnerId, file: &str) -> Result<(), Failure> {
    let text = read(file)?;
    let mut questions = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let question: Question = serde_json::from_str(line).map_err(|error| {
            let what = terminal(&error.to_string());
            Failure::refused(
                "bad_question",
                format!("line {} is no question: {what}; nothing was answered", number + 1),
            )
        })?;
        questions.push(question);
    }
    let answers = policies::explain_questions(app, owner, questions)
        .await
        .map_err(|(line, error)| {
            let failure = refused(error);
            let sentence = format!("question {line}: {}", failure.sentence());
            if failure.is_usage() {
                Failure::usage(sentence)
            } else {
                Failure::refused("not_found", sentence)
            }
        })?;
    let mut out = String::new();
    for answer in answers {
        let line =
            serde_json::to_string(&answer).map_err(|error| Failure::refused("io", error.to_string()))?;
        out.push_str(&line);
        out.push('\n');
    }
    output::bytes(out.as_bytes())
}

/// A refusal of a policy's, for the command line.
pub(super) fn refused(error: PolicyError) -> Failure {
    if let PolicyError::Fault(fault) = error {
        return fault.into();
    }
    if error.is_usage() {
        return Failure::usage(error.to_string());
    }
    let failure = Failure::refused(error.code(), error.to_string());
    match error.dependents() {
        Some(dependents) => {
            let dependents = serde_json::to_value(dependents).unwrap_or(Value::Null);
            failure.with("dependents", dependents)
        }
        None => failure,
    }
}
