//! A policy as its page and a task's permissions show it: the layers, what they come to, what took something away, what an edit would change. Pure; never decides.

use muster_app::policies::{Changed, Explained, Preview, Resolved, Shown, ShownGrant, ShownLayer, Thing};
use muster_app::resources::ResourceRef;

use super::view::{counted_len, one_line};

/// Most rows of a table; the command line shows all of them.
const ROWS: usize = 500;

/// Everything that is shown of a policy. What came from outside is already readable; the template escapes it.
#[derive(Debug, Clone)]
pub(super) struct PolicyView {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) revision: i64,
    pub(super) parent: Option<ThingView>,
    /// The outermost first.
    pub(super) layers: Vec<LayerView>,
    pub(super) resolved: Vec<ResolvedView>,
    pub(super) more_resolved: usize,
    pub(super) taken: Vec<TakenView>,
    pub(super) more_taken: usize,
    /// One line each: what resolves through it.
    pub(super) dependents: Vec<DependentView>,
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct ThingView {
    pub(super) id: String,
    pub(super) name: String,
}

#[derive(Debug, Clone)]
pub(super) struct DependentView {
    /// Such as `task`.
    pub(super) what: &'static str,
    /// Where it is shown; nothing where it has no page.
    pub(super) path: Option<String>,
    pub(super) name: String,
}

#[derive(Debug, Clone)]
pub(super) struct LayerView {
    pub(super) name: &'static str,
    pub(super) covers: &'static str,
    /// `absent`, `empty` or `authored`.
    pub(super) state: &'static str,
    pub(super) count: String,
    pub(super) grants: Vec<GrantView>,
    /// Whether it is edited here; a fork's upper layers are its root's.
    pub(super) own: bool,
}

#[derive(Debug, Clone)]
pub(super) struct GrantView {
    pub(super) action: &'static str,
    /// As a form names it: `any`, or `KIND:ID`.
    pub(super) scope: String,
    pub(super) on: String,
    pub(super) effect: &'static str,
    pub(super) dead: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct ResolvedView {
    pub(super) action: &'static str,
    pub(super) on: String,
    pub(super) effect: &'static str,
}

/// A pair that is refused or asks, and why.
#[derive(Debug, Clone)]
pub(super) struct TakenView {
    pub(super) action: &'static str,
    pub(super) on: String,
    pub(super) verdict: &'static str,
    pub(super) layer: &'static str,
    pub(super) reason: String,
}

/// What an edit would change.
#[derive(Debug, Clone)]
pub(super) struct PreviewView {
    pub(super) revision: i64,
    pub(super) state: &'static str,
    pub(super) grants: Vec<GrantView>,
    pub(super) changes: Vec<ChangedView>,
    pub(super) more: usize,
    /// How many things resolve through the policy.
    pub(super) shared: usize,
}

#[derive(Debug, Clone)]
pub(super) struct ChangedView {
    pub(super) action: &'static str,
    pub(super) on: String,
    pub(super) before: &'static str,
    pub(super) after: &'static str,
}

/// `db_connection staging`; `any` for a scope that names nothing.
pub(super) fn on(resource: &ResourceRef) -> String {
    match &resource.name {
        None => resource.kind.to_owned(),
        Some(name) => format!("{} {}", resource.kind, one_line(name)),
    }
}

/// A scope as a form sends it back.
pub(super) fn scope_word(resource: &ResourceRef) -> String {
    match &resource.id {
        None => resource.kind.to_owned(),
        Some(id) => format!("{}:{id}", resource.kind),
    }
}

fn grant(grant: ShownGrant) -> GrantView {
    GrantView {
        action: grant.action,
        scope: scope_word(&grant.scope),
        on: on(&grant.scope),
        effect: grant.effect,
        dead: grant.dead,
    }
}

fn layer(name: &'static str, covers: &'static str, own: bool, layer: ShownLayer) -> LayerView {
    LayerView {
        name,
        covers,
        state: layer.state,
        count: counted_len(layer.grants.len(), "grant"),
        grants: layer.grants.into_iter().map(grant).collect(),
        own,
    }
}

/// The first rows, and how many are left out.
fn cut<T>(mut rows: Vec<T>) -> (Vec<T>, usize) {
    let more = rows.len().saturating_sub(ROWS);
    rows.truncate(ROWS);
    (rows, more)
}

fn taken(explained: Vec<Explained>) -> Vec<TakenView> {
    explained
        .into_iter()
        .filter(|one| !matches!(one.verdict, "allow" | "unscoped"))
        .map(|one| TakenView {
            action: one.action,
            on: one.resource.as_ref().map(on).unwrap_or_default(),
            verdict: one.verdict,
            layer: one.layer.unwrap_or("none"),
            reason: one_line(&one.reason),
        })
        .collect()
}

fn resolved(rows: Vec<Resolved>) -> Vec<ResolvedView> {
    rows.into_iter()
        .map(|row| ResolvedView {
            action: row.action,
            on: on(&row.resource),
            effect: row.effect,
        })
        .collect()
}

impl PolicyView {
    pub(super) fn new(shown: Shown, explained: Vec<Explained>) -> Self {
        let is_root = shown.parent.is_none();
        let (resolved, more_resolved) = cut(resolved(shown.resolved));
        let (taken, more_taken) = cut(taken(explained));
        let dependents = shown.dependents;
        let lines = |what: &'static str, path: fn(&str) -> Option<String>, things: Vec<Thing>| {
            things.into_iter().map(move |thing| DependentView {
                what,
                path: path(&thing.id),
                name: one_line(&thing.name),
            })
        };
        let tasks = lines("task", |id| Some(format!("/tasks/{id}")), dependents.tasks);
        let projects = lines(
            "default of the project",
            |id| Some(format!("/projects#project-{id}")),
            dependents.projects,
        );
        let runs = lines("queued run of", |_| None, dependents.runs);
        let forks = lines("fork", |id| Some(format!("/policies/{id}")), dependents.forks);
        Self {
            layers: vec![
                layer("global", "Over everything", is_root, shown.layers.global),
                layer(
                    "project",
                    "Over the tasks of a project",
                    is_root,
                    shown.layers.project,
                ),
                layer("task", "Over one task", true, shown.layers.task),
            ],
            id: shown.id,
            name: one_line(&shown.name),
            revision: shown.revision,
            parent: shown.parent.map(|parent| ThingView {
                id: parent.id,
                name: one_line(&parent.name),
            }),
            resolved,
            more_resolved,
            taken,
            more_taken,
            dependents: tasks.chain(projects).chain(runs).chain(forks).collect(),
            notes: shown.notes.iter().map(|note| one_line(note)).collect(),
        }
    }
}

impl PreviewView {
    pub(super) fn new(preview: Preview) -> Self {
        let changed = |change: Changed| ChangedView {
            action: change.action,
            on: on(&change.resource),
            before: change.before,
            after: change.after,
        };
        let (changes, more) = cut(preview.changes.into_iter().map(changed).collect());
        Self {
            revision: preview.revision,
            state: preview.layer.state,
            grants: preview.layer.grants.into_iter().map(grant).collect(),
            changes,
            more,
            shared: preview.dependents.count(),
        }
    }
}

#[cfg(test)]
pub(super) mod samples {
    use super::super::tests::HOSTILE;
    use super::*;

    fn grants(dead: bool) -> Vec<GrantView> {
        vec![GrantView {
            action: "db_read",
            scope: HOSTILE.to_owned(),
            on: HOSTILE.to_owned(),
            effect: "ask",
            dead: dead.then(|| HOSTILE.to_owned()),
        }]
    }

    pub(in crate::pages) fn policy(id: &str, fork: bool) -> PolicyView {
        let thing = || ThingView {
            id: "3".to_owned(),
            name: HOSTILE.to_owned(),
        };
        let layer = |name, state, grants: Vec<GrantView>, own| LayerView {
            name,
            covers: "Over everything",
            state,
            count: counted_len(grants.len(), "grant"),
            grants,
            own,
        };
        let dependent = |what, path: Option<&str>| DependentView {
            what,
            path: path.map(str::to_owned),
            name: HOSTILE.to_owned(),
        };
        PolicyView {
            id: id.to_owned(),
            name: HOSTILE.to_owned(),
            revision: 4,
            parent: fork.then(thing),
            layers: vec![
                layer("global", "authored", grants(true), !fork),
                layer("project", "absent", vec![], !fork),
                layer("task", "empty", vec![], true),
            ],
            resolved: vec![ResolvedView {
                action: "db_read",
                on: HOSTILE.to_owned(),
                effect: "ask",
            }],
            more_resolved: 2,
            taken: vec![TakenView {
                action: "db_write",
                on: HOSTILE.to_owned(),
                verdict: "deny",
                layer: "project",
                reason: HOSTILE.to_owned(),
            }],
            more_taken: 3,
            dependents: vec![
                dependent("task", Some("/tasks/1")),
                dependent("queued run of", None),
            ],
            notes: vec![HOSTILE.to_owned()],
        }
    }

    pub(in crate::pages) fn preview(shared: usize) -> PreviewView {
        PreviewView {
            revision: 4,
            state: "authored",
            grants: grants(true),
            changes: vec![ChangedView {
                action: "db_read",
                on: HOSTILE.to_owned(),
                before: "allow",
                after: "not_granted",
            }],
            more: 1,
            shared,
        }
    }
}
