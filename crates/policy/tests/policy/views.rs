//! Policies read back: explanations, dead rules, presets. Never checks a page, only what stands on it.

use muster_policy::{
    Answer, Dead, Effect, Layer, LayerName, LayerState, Pair, Policy, Preset, Standing, Target, dead_rules,
    diff, effective, explain,
};

use crate::support::{answer, layer, pair, policy, target, world};

fn why(policy: &Policy, live: &[Target]) -> Vec<String> {
    dead_rules(policy, live)
        .iter()
        .map(|dead| format!("{}: {}: {}", dead.layer, dead.grant, dead.why))
        .collect()
}

#[test]
fn an_explanation_names_each_layers_state_and_rows_and_the_layer_that_took_the_pair_away() {
    let policy = policy(
        layer("db_read any allow"),
        layer("db_read db_connection:d1 deny, db_read any ask"),
        Layer::absent(),
    );
    let question = pair("db_read db_connection:d1");
    let explained = explain(Standing::Under(&policy), &question);
    assert_eq!(explained.verdict.answer, Answer::Deny);
    assert_eq!(explained.narrowed_by(), Some(LayerName::Project));
    let shown: Vec<(LayerState, Option<&str>, usize)> = explained
        .layers
        .iter()
        .map(|layer| {
            (
                layer.state,
                layer.effect.map(|effect| effect.as_str()),
                layer.rows.len(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (LayerState::Authored, Some("allow"), 1),
            (LayerState::Authored, Some("deny"), 2),
            (LayerState::Absent, None, 0),
        ]
    );
    assert_eq!(
        explained.reason(),
        "The project layer denies db_read on db_connection:d1: `db_read db_connection:d1 deny`."
    );
    let downgraded = explain(Standing::Under(&policy), &pair("db_read db_connection:d2"));
    assert_eq!(downgraded.narrowed_by(), Some(LayerName::Project));
    assert_eq!(
        downgraded.reason(),
        "The project layer asks for db_read on db_connection:d2: `db_read any ask`."
    );
}

#[test]
fn every_answer_has_its_reason() {
    let allowed = policy(layer("db_read any allow"), Layer::absent(), Layer::absent());
    let emptied = allowed.with(LayerName::Task, Layer::empty());
    for (policy, question, reason) in [
        (
            &allowed,
            "db_read db_connection:d1",
            "Every layer that is authored allows",
        ),
        (
            &allowed,
            "db_read none",
            "not even `any` covers a call that names none",
        ),
        (&allowed, "db_read host:h1", "db_read is never about a host"),
        (
            &allowed,
            "hosts_read host:h1",
            "The global layer has no grant that matches",
        ),
        (
            &emptied,
            "db_read db_connection:d1",
            "The task layer is authored and empty",
        ),
        (
            &Policy::closed(),
            "db_read db_connection:d1",
            "All three layers are absent",
        ),
    ] {
        let explained = explain(Standing::Under(policy), &pair(question));
        assert!(explained.reason().contains(reason), "{}", explained.reason());
    }
    let unscoped = explain(Standing::Unscoped, &pair("db_read db_connection:d1"));
    assert!(unscoped.reason().contains("LEGACY-UNSCOPED") && unscoped.layers.is_empty());
    assert_eq!(unscoped.narrowed_by(), None);
}

// spec: POL-041
#[test]
fn the_table_shows_that_a_write_without_a_read_gives_no_access() {
    let policy = policy(
        layer("db_write any allow, db_read db_connection:d2 ask"),
        Layer::absent(),
        Layer::absent(),
    );
    let rows = effective(Standing::Under(&policy), &world());
    let of = |question: &str| {
        let pair = pair(question);
        let row = rows
            .iter()
            .find(|row| row.action == pair.action() && Some(&row.target) == pair.target())
            .unwrap();
        (row.verdict.answer.leaves(), row.call.leaves())
    };
    assert_eq!(of("db_write db_connection:d1"), (Some(Effect::Allow), None));
    assert_eq!(
        of("db_write db_connection:d2"),
        (Some(Effect::Allow), Some(Effect::Ask))
    );
    assert_eq!(of("db_read db_connection:d1"), (None, None));
    // Five actions take projects, four of them worktrees; then one for each repo and host, two for each connection and integration.
    assert_eq!(rows.len(), 5 * 2 + 4 * 3 + 2 + 2 + 2 * 2 + 2 * 2);
}

#[test]
fn a_rule_that_can_never_fire_is_marked_with_the_cause() {
    let policy = policy(
        layer(
            "db_read db_connection:d1 allow, db_read db_connection:deleted allow, db_read project:p1 allow, db_write any allow",
        ),
        Layer::absent(),
        layer(
            "db_read db_connection:d2 allow, db_read any ask, db_write db_connection:d2 allow, db_write db_connection:d1 allow",
        ),
    );
    assert_eq!(
        why(&policy, &world()),
        [
            "global: db_read project:p1 allow: its action is never about this kind of resource",
            "global: db_read db_connection:deleted allow: the resource does not exist any more",
            "task: db_read db_connection:d2 allow: the global layer leaves nothing of it",
            "task: db_write db_connection:d2 allow: db_write without a db_read that can be reached gives no access",
        ]
    );
}

#[test]
fn any_is_dead_only_when_nothing_made_later_could_wake_it() {
    let any = "db_read any allow";
    let open = policy(layer(any), Layer::absent(), layer(any));
    assert!(why(&open, &[]).is_empty());
    let narrowed = policy(
        layer("db_read db_connection:d1 allow"),
        Layer::absent(),
        layer(any),
    );
    assert!(why(&narrowed, &world()).is_empty());
    let gone = dead_rules(&narrowed, &[])
        .into_iter()
        .map(|dead| dead.why)
        .collect::<Vec<_>>();
    assert_eq!(gone, [Dead::Gone, Dead::Shadowed(LayerName::Global)]);
    // Each upper layer leaves something, both together nothing.
    let apart = policy(
        layer("db_read db_connection:d1 allow"),
        layer("db_read db_connection:d2 allow"),
        layer(any),
    );
    assert_eq!(
        why(&apart, &world()),
        [
            "project: db_read db_connection:d2 allow: the global layer leaves nothing of it",
            "task: db_read any allow: the global layer leaves nothing of it",
        ]
    );
    // A worktree still to come in the project.
    let inside = policy(
        layer("diff_read project:p1 allow"),
        Layer::absent(),
        layer("diff_read any allow"),
    );
    assert!(why(&inside, &[target("project:p1")]).is_empty());
}

#[test]
fn a_stricter_row_of_the_same_layer_overrules_and_a_deny_is_dead_only_below_a_deny() {
    let overruled = policy(
        layer(
            "db_read any deny, db_read db_connection:d1 allow, hosts_read any ask, hosts_read host:h1 allow",
        ),
        Layer::absent(),
        Layer::absent(),
    );
    let causes: Vec<Dead> = dead_rules(&overruled, &world())
        .into_iter()
        .map(|dead| dead.why)
        .collect();
    assert_eq!(causes, [Dead::Overruled, Dead::Overruled]);
    let deny_below = |above: &str| {
        let policy = policy(layer(above), Layer::absent(), layer("db_read any deny"));
        dead_rules(&policy, &world()).len()
    };
    assert_eq!(deny_below("db_read db_connection:d1 deny"), 0);
    assert_eq!(deny_below("hosts_read any allow"), 0);
    assert_eq!(deny_below("db_read any deny"), 1);
}

fn expanded(preset: Preset, resources: &[&str]) -> Vec<String> {
    let resources: Vec<Target> = resources.iter().map(|text| target(text)).collect();
    let layer = preset.expand(&resources).unwrap();
    layer.grants().iter().map(ToString::to_string).collect()
}

// spec: PRE-002 PRE-003 PRE-007
#[test]
fn a_preset_names_the_real_resources_and_never_any() {
    let project = [
        "project:p1",
        "worktree:w1@p1",
        "db_connection:reports",
        "db_connection:events",
        "host:h1",
        "integration:i1",
        "repo:acme/app",
    ];
    assert_eq!(
        expanded(Preset::AnalyticsReadOnly, &project),
        [
            "db_read db_connection:events allow",
            "db_read db_connection:reports allow"
        ]
    );
    assert_eq!(
        expanded(Preset::Reviewer, &project),
        [
            "projects_read project:p1 allow",
            "worktree_read project:p1 allow",
            "diff_read project:p1 allow"
        ]
    );
    assert_eq!(
        expanded(Preset::Implementer, &project),
        [
            "projects_read project:p1 allow",
            "tasks_write project:p1 allow",
            "worktree_read project:p1 allow",
            "diff_read project:p1 allow",
            "pr_write repo:acme/app ask",
        ]
    );
    assert_eq!(
        expanded(Preset::Triage, &project),
        [
            "issues_read integration:i1 allow",
            "issues_write integration:i1 allow"
        ]
    );
    assert_eq!(
        expanded(Preset::Observer, &project),
        [
            "projects_read project:p1 allow",
            "hosts_read host:h1 allow",
            "issues_read integration:i1 allow"
        ]
    );
    for preset in Preset::ALL {
        let layer = preset.expand(&world()).unwrap();
        assert!(
            layer
                .grants()
                .iter()
                .all(|grant| grant.scope.resource().is_some() && grant.check().is_ok())
        );
        assert_eq!(preset.as_str().parse::<Preset>().as_ref(), Ok(preset));
        assert!(preset.description().ends_with('.'));
    }
    for read_only in [Preset::AnalyticsReadOnly, Preset::Reviewer, Preset::Observer] {
        let layer = read_only.expand(&world()).unwrap();
        assert!(layer.grants().iter().all(|grant| !grant.action.changes()));
    }
    assert!(
        "analyst"
            .parse::<Preset>()
            .unwrap_err()
            .to_string()
            .contains("analytics-read-only, reviewer")
    );
}

// spec: PRE-006
#[test]
fn a_preset_without_a_resource_to_name_makes_an_empty_layer_that_refuses() {
    for preset in Preset::ALL {
        let layer = preset.expand(&[]).unwrap();
        assert_eq!(layer.state(), LayerState::Empty, "{preset}");
    }
    let layer = Preset::AnalyticsReadOnly
        .expand(&[target("project:p1"), target("host:h1")])
        .unwrap();
    assert_eq!(layer.state(), LayerState::Empty);
    let policy = policy(crate::support::layer("db_read any allow"), Layer::absent(), layer);
    assert_eq!(answer(&policy, "db_read db_connection:d1"), Answer::NotGranted);
}

#[test]
fn what_would_change_is_told_before_and_after() {
    let before = policy(layer("db_read any allow"), Layer::absent(), Layer::absent());
    let after = before.with(LayerName::Project, layer("db_read db_connection:d1 ask"));
    let questions: Vec<Pair> = [
        "db_read db_connection:d1",
        "db_read db_connection:d2",
        "hosts_read host:h1",
    ]
    .map(pair)
    .to_vec();
    let changes = diff(Standing::Under(&before), Standing::Under(&after), &questions);
    let told: Vec<String> = changes
        .iter()
        .map(|change| {
            let (before, after) = (change.before.answer.as_str(), change.after.answer.as_str());
            format!("{}: {before} to {after}", change.pair)
        })
        .collect();
    assert_eq!(
        told,
        [
            "db_read on db_connection:d1: allow to ask",
            "db_read on db_connection:d2: allow to not_granted",
        ]
    );
}
