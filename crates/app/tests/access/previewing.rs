//! What an edit would change is what it then changes, and looking at it changes nothing.

use muster_app::access::{self, Outlook, Seat};
use muster_app::policies::{self, Change, Preview, Resolved, WhenShared};
use muster_app::settings;
use muster_policy::LayerName;

use super::kit::{Desk, GLOBAL, PROJECT, TASK, on_desks};

async fn preview(desk: &Desk, layer: LayerName, change: &Change) -> Preview {
    policies::what_would_change(desk.app(), desk.owner(), desk.policy, layer, change.clone())
        .await
        .unwrap()
}

/// Makes the edit that was considered.
async fn make(desk: &Desk, layer: LayerName, change: &Change) {
    let (app, owner, edit) = (desk.app(), desk.owner(), desk.edit(layer));
    match change {
        Change::Grant {
            action,
            scope,
            effect,
        } => policies::grant(app, owner, edit, action, scope, effect)
            .await
            .unwrap(),
        Change::Revoke { action, scope } => {
            policies::revoke(app, owner, edit, action, scope).await.unwrap();
        }
        Change::Clear => policies::clear_layer(app, owner, edit).await.unwrap(),
        Change::Empty => policies::save_empty(app, owner, edit).await.unwrap(),
        Change::Preset { preset, project } => {
            policies::apply_preset(app, owner, edit, preset, *project, WhenShared::Write)
                .await
                .unwrap();
        }
    }
}

/// What of the result a list of rows has that another has not.
fn gone(before: &[Resolved], after: &[Resolved]) -> Vec<(String, String, String)> {
    let row = |row: &Resolved| {
        let on = format!("{:?}", row.resource);
        (row.action.to_owned(), on, row.effect.to_owned())
    };
    let after: Vec<_> = after.iter().map(row).collect();
    before
        .iter()
        .map(row)
        .filter(|row| !after.contains(row))
        .collect()
}

// spec: PRE-005
#[test]
fn what_an_edit_would_change_is_what_it_changes() {
    on_desks(|desk| async move {
        let grant = |action: &str, scope: &str, effect: &str| Change::Grant {
            action: action.to_owned(),
            scope: scope.to_owned(),
            effect: effect.to_owned(),
        };
        let revoke = |action: &str, scope: &str| Change::Revoke {
            action: action.to_owned(),
            scope: scope.to_owned(),
        };
        let preset = |preset: &str| Change::Preset {
            preset: preset.to_owned(),
            project: desk.project,
        };
        let edits = [
            (GLOBAL, grant("db_read", "any", "allow")),
            (GLOBAL, grant("db_write", "db_connection:staging", "ask")),
            (PROJECT, preset("analytics-read-only")),
            (PROJECT, revoke("db_read", "db_connection:prod")),
            (TASK, Change::Empty),
            (TASK, grant("db_read", "db_connection:staging", "ask")),
            (TASK, grant("db_write", "any", "allow")),
            (PROJECT, Change::Clear),
            (TASK, revoke("db_read", "db_connection:staging")),
            (TASK, Change::Clear),
            (GLOBAL, preset("observer")),
            (GLOBAL, Change::Empty),
        ];
        let mut changed = 0;
        for (layer, change) in edits {
            let before = desk.shown().await;
            let looked = preview(&desk, layer, &change).await;
            assert_eq!(desk.shown().await, before, "{change:?}: looking changes nothing");
            assert_eq!(looked.revision, before.revision);
            make(&desk, layer, &change).await;
            let after = desk.shown().await;
            let shown = match layer {
                LayerName::Global => &after.layers.global,
                LayerName::Project => &after.layers.project,
                LayerName::Task => &after.layers.task,
            };
            assert_eq!(&looked.layer, shown, "{change:?}");
            let side = |refused: fn(&policies::Changed) -> &'static str| {
                looked
                    .changes
                    .iter()
                    .map(|row| {
                        (
                            row.action.to_owned(),
                            format!("{:?}", row.resource),
                            refused(row).to_owned(),
                        )
                    })
                    .filter(|(_, _, effect)| matches!(effect.as_str(), "allow" | "ask"))
                    .collect::<Vec<_>>()
            };
            assert_eq!(
                side(|row| row.before),
                gone(&before.resolved, &after.resolved),
                "{change:?}"
            );
            assert_eq!(
                side(|row| row.after),
                gone(&after.resolved, &before.resolved),
                "{change:?}"
            );
            changed += looked.changes.len();
        }
        assert!(changed > 10, "{changed} rows changed");
    });
}

#[test]
fn an_edit_that_would_be_refused_cannot_be_considered_either() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let fork = policies::fork(app, owner, desk.policy, None, "child", None)
            .await
            .unwrap()
            .id;
        let upper = policies::what_would_change(app, owner, fork, GLOBAL, Change::Empty).await;
        assert_eq!(upper.unwrap_err().code(), "not_a_root");
        let missing = Change::Grant {
            action: "db_read".to_owned(),
            scope: "db_connection:nowhere".to_owned(),
            effect: "allow".to_owned(),
        };
        let missing = policies::what_would_change(app, owner, desk.policy, TASK, missing).await;
        assert_eq!(missing.unwrap_err().code(), "not_found");
        let wrong = Change::Grant {
            action: "hosts_read".to_owned(),
            scope: "db_connection:staging".to_owned(),
            effect: "allow".to_owned(),
        };
        let wrong = policies::what_would_change(app, owner, desk.policy, TASK, wrong).await;
        assert!(wrong.unwrap_err().is_usage());
    });
}

#[test]
fn calls_run_unasked_only_while_somebody_authored_an_ask_nobody_is_there_and_the_setting_lets_them() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let unasked = async || access::outlook(app, owner).await.unwrap();
        let nothing = Outlook {
            waiting: 0,
            unasked: false,
        };
        desk.grant(GLOBAL, "hosts_read", "any", "allow").await;
        assert_eq!(unasked().await, nothing);
        desk.grant(TASK, "db_read", "any", "ask").await;
        assert!(unasked().await.unasked);
        let seat = access::present(app, owner, Seat::Page).await.unwrap();
        assert_eq!(unasked().await, nothing);
        seat.leave().await.unwrap();
        assert!(unasked().await.unasked);
        settings::set(app, owner, settings::REQUIRE_WHEN_CLOSED, "true")
            .await
            .unwrap();
        assert_eq!(unasked().await, nothing);
    });
}
