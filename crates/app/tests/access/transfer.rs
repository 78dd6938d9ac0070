//! Policies out and in again, and what a changed one would have made of the calls there were. Never half of a document.

use muster_app::access;
use muster_app::policies::{self, Exported, ExportedLayers, WhenThere};
use serde_json::json;

use super::kit::{GLOBAL, PROJECT, TASK, on_desks};

// spec: POL-075
#[test]
fn what_is_exported_comes_back_the_same_empty_layers_too() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(GLOBAL, "db_read", "db_connection:staging", "allow")
            .await;
        desk.grant(GLOBAL, "hosts_read", "any", "ask").await;
        policies::save_empty(app, owner, desk.edit(PROJECT))
            .await
            .unwrap();
        policies::fork(app, owner, desk.policy, None, "child", None)
            .await
            .unwrap();
        let exported = policies::export(app, owner, Vec::new()).await.unwrap();
        let document = serde_json::to_value(&exported).unwrap();
        assert_eq!(
            document[0],
            json!({"name": "careful", "parent": null, "layers": {
                "global": [["hosts_read", "any", "ask"], ["db_read", "db_connection:staging", "allow"]],
                "project": [], "task": null}}),
        );
        assert_eq!(document[1]["parent"], "careful");
        let taken = policies::import(app, owner, exported.clone(), WhenThere::Refuse)
            .await
            .unwrap_err();
        assert_eq!(taken.code(), "name_taken");
        desk.grant(PROJECT, "db_read", "any", "allow").await;
        policies::import(app, owner, exported.clone(), WhenThere::Replace)
            .await
            .unwrap();
        assert_eq!(policies::export(app, owner, Vec::new()).await.unwrap(), exported);
        assert_eq!(desk.shown().await.layers.project.state, "empty");
        assert_eq!(desk.read("staging").await, "refused_not_granted");
    });
}

#[test]
fn a_grant_on_what_is_gone_comes_back_as_dead_as_it_was() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "db_connection:staging", "allow")
            .await;
        let id = muster_app::databases::find(app, owner, "staging")
            .await
            .unwrap()
            .id;
        muster_app::databases::remove(app, owner, id).await.unwrap();
        let exported = policies::export(app, owner, Vec::new()).await.unwrap();
        policies::import(app, owner, exported.clone(), WhenThere::Replace)
            .await
            .unwrap();
        assert_eq!(policies::export(app, owner, Vec::new()).await.unwrap(), exported);
        let shown = desk.shown().await;
        assert!(shown.layers.task.grants[0].dead.is_some());
        let simulated = policies::simulate(app, owner, desk.policy, exported[0].clone())
            .await
            .unwrap();
        assert!(simulated.is_empty());
        // An id that was never anything's is still refused.
        let mut never = exported;
        never[0].layers.task = Some(vec![(
            "db_read".to_owned(),
            "db_connection:999999".to_owned(),
            "allow".to_owned(),
        )]);
        let refused = policies::import(app, owner, never, WhenThere::Replace)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "not_found");
    });
}

#[test]
fn an_import_is_stored_whole_or_not_at_all() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let one = |name: &str, scope: &str| Exported {
            name: name.to_owned(),
            parent: None,
            layers: ExportedLayers {
                task: Some(vec![("db_read".to_owned(), scope.to_owned(), "allow".to_owned())]),
                ..ExportedLayers::default()
            },
        };
        for bad in [
            one("second", "db_connection:nowhere"),
            one("Bad Name", "any"),
            one("first", "any"),
        ] {
            let refused =
                policies::import(app, owner, vec![one("first", "any"), bad], WhenThere::Refuse).await;
            assert!(refused.is_err());
            assert_eq!(
                policies::list(app, owner).await.unwrap().len(),
                1,
                "only the one there was"
            );
        }
        let reparented = Exported {
            parent: Some("careful".to_owned()),
            ..one("careful", "any")
        };
        assert!(
            policies::import(app, owner, vec![reparented], WhenThere::Replace)
                .await
                .is_err()
        );
    });
}

#[test]
fn an_import_takes_no_layer_away_that_it_does_not_name_and_no_policy_twice() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(GLOBAL, "db_read", "any", "deny").await;
        let revision = desk.shown().await.revision;
        let document = |text: serde_json::Value| serde_json::from_value::<Exported>(text).unwrap();
        let short = document(json!({"name": "careful", "layers": {"task": [["db_read", "any", "allow"]]}}));
        let nothing = document(json!({"name": "careful", "layers": {}}));
        let told = document(
            json!({"name": "careful", "layers": {"global": null, "task": [["db_read", "any", "allow"]]}}),
        );
        for unsaid in [&short, &nothing] {
            let refused = policies::import(app, owner, vec![unsaid.clone()], WhenThere::Replace)
                .await
                .unwrap_err();
            assert_eq!(refused.code(), "bad_import");
            assert!(
                refused
                    .to_string()
                    .contains("says nothing of the global layer of careful"),
                "{refused}"
            );
        }
        let twins = policies::import(app, owner, vec![told.clone(), told.clone()], WhenThere::Replace)
            .await
            .unwrap_err();
        assert!(
            twins.to_string().contains("two policies called careful"),
            "{twins}"
        );
        assert_eq!(desk.shown().await.revision, revision, "nothing was changed");
        // What is said is done, and a policy that is new has nothing to lose.
        policies::import(app, owner, vec![told], WhenThere::Replace)
            .await
            .unwrap();
        assert_eq!(desk.shown().await.layers.global.state, "absent");
        let new = document(json!({"name": "new", "layers": {"task": []}}));
        policies::import(app, owner, vec![new], WhenThere::Refuse)
            .await
            .unwrap();
    });
}

#[test]
fn a_simulation_lists_the_calls_that_would_be_answered_otherwise() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "any", "allow").await;
        assert_eq!(desk.read("staging").await, "allowed");
        assert_eq!(desk.read("prod").await, "allowed");
        assert_eq!(
            desk.outcome(desk.writes("prod", "DELETE FROM t").await).await,
            "refused_not_granted"
        );
        let changed: Exported = serde_json::from_value(json!({"name": "careful", "parent": null,
            "layers": {"global": null, "project": null, "task": [["db_read", "db_connection:staging", "ask"]]}}))
        .unwrap();
        let found = policies::simulate(app, owner, desk.policy, changed)
            .await
            .unwrap();
        let calls = desk.calls().await;
        let lines: Vec<_> = found
            .iter()
            .map(|one| (one.audit_id.clone(), one.was, one.would_be))
            .collect();
        assert_eq!(
            lines,
            [
                (calls[0].id.to_string(), "allow", "ask"),
                (calls[1].id.to_string(), "allow", "not_granted")
            ]
        );
        assert_eq!(found[0].tool, "muster_db_query");
        let same = policies::export(app, owner, vec!["careful".to_owned()])
            .await
            .unwrap()
            .remove(0);
        assert!(
            policies::simulate(app, owner, desk.policy, same)
                .await
                .unwrap()
                .is_empty()
        );
    });
}

#[test]
fn a_list_is_simulated_as_a_list_which_leaves_out_what_is_refused() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let layers = |task: serde_json::Value| -> Exported {
            serde_json::from_value(json!({"name": "careful", "parent": null, "layers": {"global": null, "project": null, "task": task}})).unwrap()
        };
        let list = async || {
            access::connections(desk.app(), &desk.agent, "muster_list_db_connections")
                .await
                .unwrap()
                .len()
        };
        desk.grant(TASK, "db_read", "any", "allow").await;
        assert_eq!(list().await, 2);
        let one = layers(json!([["db_read", "db_connection:staging", "allow"]]));
        let found = policies::simulate(app, owner, desk.policy, one).await.unwrap();
        assert_eq!(found, [], "it would still be a list");
        let none = layers(json!([]));
        let found = policies::simulate(app, owner, desk.policy, none).await.unwrap();
        assert_eq!((found[0].was, found[0].would_be), ("allow", "not_granted"));
        desk.revoke(TASK, "db_read", "any").await;
        assert_eq!(list().await, 0);
        let wider = layers(json!([["db_read", "db_connection:prod", "allow"]]));
        let found = policies::simulate(app, owner, desk.policy, wider).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].was, found[0].would_be), ("not_granted", "allow"));
    });
}
