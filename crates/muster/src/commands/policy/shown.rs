//! Policies, their grants and what they may hold, as a person reads them on a terminal. Never asks the database.

use muster_app::policies::{self, Shown, ShownGrant, ShownLayer};
use muster_core::text::terminal;
use muster_policy::Preset;
use serde_json::{Value, json};

use super::document;
use crate::output::{self, Failure};

pub(super) fn actions(json: bool) -> Result<(), Failure> {
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

pub(super) fn presets(json: bool) -> Result<(), Failure> {
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

fn scope(grant: &ShownGrant) -> String {
    match (&grant.scope.id, &grant.scope.name) {
        // As revoke takes it: an id never comes back, where a name may be another's by now.
        (Some(id), _) if grant.removed => format!("{}:{id}", grant.scope.kind),
        (Some(_), Some(name)) => format!("{}:{name}", grant.scope.kind),
        _ => grant.scope.kind.to_owned(),
    }
}

pub(super) fn grant_rows(grants: &[ShownGrant]) -> Result<(), Failure> {
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

pub(super) fn in_full(shown: &Shown) -> Result<(), Failure> {
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
