//! `muster policy explain`: what a policy answers to one question, to all of them, or to a file of them. Never edits one.

use muster_app::App;
use muster_app::policies::{self, Explained, Question, Whose};
use muster_core::ids::OwnerId;
use muster_core::text::terminal;

use super::documents::read;
use super::{document, refused, task_id};
use crate::output::{self, Failure};

pub(super) async fn whose_answer(
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

pub(super) async fn explain(
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
pub(super) async fn questions(app: &App, owner: OwnerId, file: &str) -> Result<(), Failure> {
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
