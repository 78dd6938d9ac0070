//! Deciding a call: closed unless granted, layers that only narrow, read at the moment of the call. Never asks anybody.

use muster_app::access::{self, Call};
use muster_app::policies;
use muster_app::tasks::PolicyChoice;
use muster_policy::{Action, Basis, LayerName, Needs, ScopeKind};
use serde_json::json;

use super::kit::{GLOBAL, PROJECT, TASK, add_agent, at, chosen, on_desks, tamper};

// spec: POL-001 POL-002 POL-003 POL-031
#[test]
fn what_is_not_granted_is_refused() {
    on_desks(|desk| async move {
        assert_eq!(desk.read("staging").await, "refused_not_granted");
        desk.grant(TASK, "db_read", "db_connection:staging", "allow")
            .await;
        let shown = desk.shown().await;
        let [grant] = shown.layers.task.grants.as_slice() else {
            panic!("{:?}", shown.layers.task);
        };
        assert_eq!(
            (
                grant.action,
                grant.scope.kind,
                grant.scope.name.as_deref(),
                grant.effect
            ),
            ("db_read", "db_connection", Some("staging"), "allow")
        );
        assert_eq!(desk.read("staging").await, "allowed");
        assert_eq!(desk.read("prod").await, "refused_not_granted");
        let hosts = Call {
            tool: "muster_list_hosts".to_owned(),
            arguments: json!({}),
            needs: desk
                .needs(&[(Action::HostsRead, ScopeKind::Host, "workstation")])
                .await,
        };
        assert_eq!(desk.outcome(hosts).await, "refused_not_granted");
    });
}

// spec: POL-054 POL-055 POL-056 POL-057 POL-058 POL-059 POL-060
#[test]
fn a_deny_at_any_layer_beats_an_allow_at_any_other_and_nobody_is_asked() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        for layer in [GLOBAL, PROJECT, TASK] {
            desk.grant(layer, "db_read", "db_connection:staging", "allow")
                .await;
        }
        assert_eq!(desk.read("staging").await, "allowed");
        for layer in [GLOBAL, PROJECT, TASK] {
            desk.grant(layer, "db_read", "db_connection:staging", "deny")
                .await;
            assert_eq!(desk.read("staging").await, "refused_denied", "{layer}");
            desk.grant(layer, "db_read", "db_connection:staging", "allow")
                .await;
        }
        desk.grant(PROJECT, "db_read", "db_connection:staging", "ask")
            .await;
        desk.grant(TASK, "db_read", "any", "deny").await;
        assert_eq!(desk.read("staging").await, "refused_denied");
        assert!(desk.asks(access::AskState::Parked).await.is_empty());
        assert_eq!(desk.outcomes().await.len(), 5);
    });
}

// spec: POL-062 POL-063 POL-064 POL-065 POL-066
#[test]
fn a_layer_never_widens_the_one_above() {
    on_desks(|desk| async move {
        desk.grant(GLOBAL, "db_read", "any", "allow").await;
        desk.grant(PROJECT, "db_read", "db_connection:staging", "allow")
            .await;
        desk.grant(PROJECT, "hosts_read", "any", "allow").await;
        desk.grant(TASK, "db_read", "any", "allow").await;
        desk.grant(TASK, "hosts_read", "any", "allow").await;
        assert_eq!(desk.read("staging").await, "allowed");
        assert_eq!(desk.read("prod").await, "refused_not_granted");
        let hosts = Call {
            tool: "muster_list_hosts".to_owned(),
            arguments: json!({}),
            needs: desk
                .needs(&[(Action::HostsRead, ScopeKind::Host, "workstation")])
                .await,
        };
        assert_eq!(desk.outcome(hosts).await, "refused_not_granted");
        let row = desk.newest_call().await;
        assert_eq!(
            at(&row.data, "/pairs/0/layer"),
            "global",
            "the layer that refused is named"
        );
    });
}

// spec: POL-067 POL-069 POL-044 ASK-044
#[test]
fn each_call_is_decided_by_what_is_granted_at_that_moment() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "db_connection:staging", "allow")
            .await;
        assert_eq!(desk.read("staging").await, "allowed");
        desk.revoke(TASK, "db_read", "db_connection:staging").await;
        assert_eq!(desk.read("staging").await, "refused_not_granted");
        desk.grant(TASK, "db_read", "any", "allow").await;
        assert_eq!(desk.read("staging").await, "allowed");
        assert_eq!(desk.read("prod").await, "allowed");
    });
}

// spec: POL-070
#[test]
fn a_call_that_has_its_permit_ends_as_it_began_and_the_next_one_is_refused() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "db_connection:staging", "allow")
            .await;
        let call = desk.reads("staging").await;
        let running = desk.decide(call.clone()).await.unwrap();
        desk.revoke(TASK, "db_read", "db_connection:staging").await;
        let target = call.needs.pairs()[0].resource().unwrap();
        assert!(running.permit.covers(Action::DbRead, target));
        assert_eq!(desk.outcome(call).await, "refused_not_granted");
    });
}

// spec: POL-033 POL-038 POL-039
#[test]
fn any_covers_what_comes_later_and_a_name_is_never_what_is_granted() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "any", "allow").await;
        let (app, owner) = (desk.app().clone(), desk.owner());
        super::kit::add_connection(&app, owner, desk.project, "later").await;
        assert_eq!(desk.read("later").await, "allowed");
        desk.revoke(TASK, "db_read", "any").await;
        desk.grant(TASK, "db_read", "db_connection:staging", "allow")
            .await;
        let id = muster_app::databases::find(&app, owner, "staging")
            .await
            .unwrap()
            .id;
        muster_app::databases::rename(&app, owner, id, super::kit::slug("renamed"))
            .await
            .unwrap();
        super::kit::add_connection(&app, owner, desk.project, "staging").await;
        assert_eq!(desk.read("renamed").await, "allowed");
        assert_eq!(desk.read("staging").await, "refused_not_granted");
    });
}

// spec: POL-034 POL-035
#[test]
fn any_never_covers_a_call_that_names_no_resource() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "any", "allow").await;
        let call = Call {
            tool: "muster_db_schemas".to_owned(),
            arguments: json!({}),
            needs: Needs::naming_nothing(Action::DbRead),
        };
        assert_eq!(desk.outcome(call).await, "refused_not_granted");
    });
}

// spec: POL-040 POL-041 POL-042 POL-043 POL-044 DBA-015
#[test]
fn a_write_charges_a_read_and_a_connection_that_cannot_be_read_is_hidden() {
    on_desks(|desk| async move {
        let connections = async || {
            let open = access::connections(desk.app(), &desk.agent, "muster_list_db_connections")
                .await
                .unwrap();
            let named = muster_app::resources::list(&desk.app().db, desk.owner())
                .await
                .unwrap();
            open.into_iter()
                .map(|one| (named.named(&one.resource).name.unwrap(), one.read, one.write))
                .collect::<Vec<_>>()
        };
        desk.grant(TASK, "db_write", "db_connection:staging", "allow")
            .await;
        let write = desk.writes("staging", "DELETE FROM t").await;
        assert_eq!(write.needs.pairs().len(), 2, "the read is charged beside it");
        let unknown = Call {
            needs: Needs::naming_nothing(Action::DbWrite),
            ..write.clone()
        };
        let (hidden, nowhere) = (
            desk.decide(write.clone()).await.unwrap_err(),
            desk.decide(unknown).await.unwrap_err(),
        );
        assert_eq!(
            hidden, nowhere,
            "exactly what a connection that does not exist answers"
        );
        assert_eq!(at(&hidden.json(), "/error/pairs/0/layer"), &json!(null));
        assert_eq!(connections().await, []);
        assert_eq!(desk.shown().await.notes.len(), 1);

        desk.grant(TASK, "db_read", "db_connection:staging", "ask").await;
        assert_eq!(connections().await, [("staging".to_owned(), "ask", "allow")]);
        assert_eq!(desk.outcome(write.clone()).await, "auto_allowed_app_closed");
        desk.grant(PROJECT, "db_read", "db_connection:staging", "deny")
            .await;
        desk.grant(PROJECT, "db_write", "db_connection:staging", "allow")
            .await;
        assert_eq!(connections().await, []);
        let refused = desk.decide(write).await.unwrap_err();
        assert_eq!(
            refused.code, "refused_not_granted",
            "the agent is not told of a deny"
        );
        assert_eq!(
            desk.newest_call().await.outcome.as_deref(),
            Some("refused_denied"),
            "the owner is"
        );
    });
}

// spec: POL-007 POL-008 POL-009
#[test]
fn a_refusal_names_the_pair_and_the_layer_and_what_the_owner_can_do() {
    on_desks(|desk| async move {
        desk.grant(PROJECT, "hosts_read", "any", "deny").await;
        let call = Call {
            tool: "muster_list_hosts".to_owned(),
            arguments: json!({}),
            needs: desk
                .needs(&[(Action::HostsRead, ScopeKind::Host, "workstation")])
                .await,
        };
        let refused = desk.decide(call).await.unwrap_err();
        let error = refused.json();
        assert_eq!(at(&error, "/error/code"), "refused_denied");
        assert_eq!(at(&error, "/error/pairs/0/action"), "hosts_read");
        assert_eq!(at(&error, "/error/pairs/0/resource/name"), "workstation");
        assert_eq!(at(&error, "/error/pairs/0/layer"), "project");
        assert_eq!(at(&error, "/error/pairs/0/verdict"), "deny");
        for word in ["hosts_read", "project layer", "owner can revoke"] {
            assert!(refused.message.contains(word), "{}", refused.message);
        }
    });
}

// spec: POL-050 POL-076
#[test]
fn a_task_without_a_policy_is_closed_and_only_one_marked_so_is_unscoped() {
    on_desks(|desk| async move {
        let (closed, of_closed) = desk.another(PolicyChoice::Default, "closed").await;
        let call = desk.reads("staging").await;
        let refused = access::decide(desk.app(), &of_closed, call.clone())
            .await
            .unwrap_err();
        assert_eq!(refused.code, "refused_not_granted");
        let (_, of_unscoped) = desk.another(PolicyChoice::Unscoped, "unscoped").await;
        let permitted = access::decide(desk.app(), &of_unscoped, call.clone())
            .await
            .unwrap();
        assert_eq!(permitted.permit.basis(), Basis::Unscoped);
        assert_eq!(at(&desk.newest_call().await.data, "/policy"), &json!(null));
        let me = access::whoami(desk.app(), &of_unscoped).await.unwrap();
        assert!(me.unscoped && me.policy.is_none());
        let me = access::whoami(desk.app(), &of_closed).await.unwrap();
        assert!(!me.unscoped);
        assert_eq!(me.policy.unwrap().name, "closed");
        // An agent that works on no task has nothing either.
        let stray = add_agent(desk.app(), desk.owner(), None, "stray").await;
        assert_eq!(
            access::decide(desk.app(), &stray, call.clone())
                .await
                .unwrap_err()
                .code,
            "refused_not_granted"
        );
        // An attached policy without layers grants nothing; nothing puts the task out of it again.
        let blank = policies::create(desk.app(), desk.owner(), "blank").await.unwrap();
        let found = chosen(desk.app(), desk.owner(), &blank.to_string()).await;
        policies::attach(desk.app(), desk.owner(), found, None, closed)
            .await
            .unwrap();
        assert_eq!(
            access::decide(desk.app(), &of_closed, call)
                .await
                .unwrap_err()
                .code,
            "refused_not_granted"
        );
    });
}

// spec: POL-071 POL-072 POL-073 POL-074
#[test]
fn an_empty_layer_denies_everything_and_an_absent_one_inherits() {
    on_desks(|desk| async move {
        desk.grant(GLOBAL, "db_read", "any", "allow").await;
        assert_eq!(desk.shown().await.layers.task.state, "absent");
        assert_eq!(desk.read("staging").await, "allowed");
        policies::save_empty(desk.app(), desk.owner(), desk.edit(TASK))
            .await
            .unwrap();
        assert_eq!(desk.shown().await.layers.task.state, "empty");
        assert_eq!(desk.read("staging").await, "refused_not_granted");
        // Another process reads it as it is stored.
        let (second, _) = desk.muster.second().await;
        assert_eq!(
            super::kit::show(&second, desk.owner(), desk.policy)
                .await
                .layers
                .task
                .state,
            "empty"
        );
        policies::clear_layer(desk.app(), desk.owner(), desk.edit(TASK))
            .await
            .unwrap();
        assert_eq!(desk.shown().await.layers.task.state, "absent");
        assert_eq!(desk.read("staging").await, "allowed");
        desk.grant(TASK, "db_read", "any", "allow").await;
        desk.revoke(TASK, "db_read", "any").await;
        assert_eq!(
            desk.shown().await.layers.task.state,
            "empty",
            "without its last grant a layer does not become absent"
        );
        assert_eq!(desk.read("staging").await, "refused_not_granted");
        second.db.close().await;
    });
}

// spec: AUDIT-001 AUDIT-005
#[test]
fn every_decision_leaves_a_row_that_says_who_what_and_under_which_revision() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "db_connection:staging", "allow")
            .await;
        desk.read("staging").await;
        let revision = desk.shown().await.revision;
        let row = desk.newest_call().await;
        assert_eq!(row.tool.as_deref(), Some("muster_db_query"));
        assert_eq!(row.agent, Some(desk.agent.token.to_string()));
        assert_eq!(row.task, Some(desk.task.to_string()));
        assert_eq!(row.outcome.as_deref(), Some("allowed"));
        assert_eq!(row.at, desk.app().clock.now());
        assert_eq!(at(&row.data, "/agent/label"), "worker");
        assert_eq!(
            at(&row.data, "/policy"),
            &json!({"id": desk.policy.to_string(), "name": "careful", "revision": revision})
        );
        assert_eq!(at(&row.data, "/pairs/0/action"), "db_read");
        assert_eq!(at(&row.data, "/pairs/0/verdict"), "allow");
        assert_eq!(at(&row.data, "/pairs/0/layer"), LayerName::Task.as_str());
        desk.grant(TASK, "hosts_read", "any", "allow").await;
        desk.read("prod").await;
        let row = desk.newest_call().await;
        assert_eq!(at(&row.data, "/policy/revision"), revision + 1);
        assert_eq!(at(&row.data, "/pairs/0/layer"), "task");
        assert_eq!(row.outcome.as_deref(), Some("refused_not_granted"));
    });
}

// spec: POL-010 AUDIT-010
#[test]
fn what_cannot_be_read_or_recorded_is_refused() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "any", "allow").await;
        assert_eq!(desk.read("staging").await, "allowed");
        let corrupt = desk.pick(
            &["UPDATE grants SET action = 'db_reed'"],
            &[
                "ALTER TABLE grants DROP CONSTRAINT grants_action",
                "UPDATE grants SET action = 'db_reed'",
            ],
        );
        tamper(&desk, corrupt).await;
        assert_eq!(desk.read("staging").await, "refused_error");
        tamper(&desk, &["UPDATE grants SET action = 'db_read'"]).await;
        assert_eq!(desk.read("staging").await, "allowed");
        let rows = desk.calls().await.len();
        let close = desk.pick(
            &["CREATE TRIGGER shut BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'shut'); END"],
            &[
                "CREATE FUNCTION shut() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'shut'; END $$",
                "CREATE TRIGGER shut BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION shut()",
            ],
        );
        tamper(&desk, close).await;
        let refused = desk.decide(desk.reads("staging").await).await.unwrap_err();
        assert_eq!(refused.code, "refused_error");
        let open = desk.pick(&["DROP TRIGGER shut"], &["DROP TRIGGER shut ON audit"]);
        tamper(&desk, open).await;
        assert_eq!(
            desk.calls().await.len(),
            rows,
            "nothing was recorded, so nothing ran"
        );
        assert_eq!(desk.read("staging").await, "allowed");
    });
}
