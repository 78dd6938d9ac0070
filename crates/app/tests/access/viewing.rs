//! Policies as they are shown and explained, held against what calls truly get. Never a view that decides.

use muster_app::access::{self, Call};
use muster_app::databases;
use muster_app::policies::{self, Chosen, Question, Whose};
use muster_app::tasks::PolicyChoice;
use muster_policy::{Action, Needs, Pair, ScopeKind};
use serde_json::json;

use super::kit::{GLOBAL, PROJECT, TASK, chosen, on_desks, tamper};

// spec: POL-011
#[test]
fn there_are_eleven_actions() {
    let words: Vec<_> = policies::actions().into_iter().map(|one| one.action).collect();
    assert_eq!(
        words,
        [
            "projects_read",
            "tasks_write",
            "tasks_close",
            "worktree_read",
            "diff_read",
            "pr_write",
            "hosts_read",
            "db_read",
            "db_write",
            "issues_read",
            "issues_write"
        ]
    );
}

// spec: PRE-008 PRE-013 PRE-014
#[test]
fn what_is_shown_as_resolved_is_what_every_call_gets() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(GLOBAL, "db_read", "any", "allow").await;
        desk.grant(GLOBAL, "db_write", "db_connection:prod", "allow")
            .await;
        desk.grant(GLOBAL, "hosts_read", "any", "ask").await;
        desk.grant(GLOBAL, "projects_read", "any", "allow").await;
        desk.grant(PROJECT, "db_read", "db_connection:staging", "allow")
            .await;
        desk.grant(PROJECT, "db_write", "db_connection:prod", "allow")
            .await;
        desk.grant(PROJECT, "hosts_read", "any", "allow").await;
        desk.grant(PROJECT, "projects_read", "any", "deny").await;
        let shown = desk.shown().await;
        assert_eq!(
            (
                shown.layers.global.state,
                shown.layers.project.state,
                shown.layers.task.state
            ),
            ("authored", "authored", "absent")
        );
        let resources = muster_app::resources::list(&app.db, owner).await.unwrap();
        let mut tried = 0;
        for action in Action::ALL {
            for target in resources.live() {
                if !action.takes(target.resource().kind()) {
                    continue;
                }
                let listed = shown.resolved.iter().find(|row| {
                    row.action == action.as_str()
                        && row.resource.kind == target.resource().kind().as_str()
                        && row.resource.id.as_deref() == Some(target.resource().id())
                });
                let call = Call {
                    tool: "any".to_owned(),
                    arguments: json!({}),
                    needs: Needs::new(Pair::new(*action, target.clone()), []),
                };
                let outcome = desk.outcome(call).await;
                let expected = match listed.map(|row| row.effect) {
                    Some("allow") => "allowed",
                    Some("ask") => "auto_allowed_app_closed",
                    Some(other) => panic!("{other}"),
                    None if outcome == "refused_denied" => "refused_denied",
                    None => "refused_not_granted",
                };
                assert_eq!(outcome, expected, "{action} {target:?}");
                tried += 1;
            }
        }
        assert!(tried > 8);
        let of_policy = Whose::Policy(chosen(app, owner, "careful").await);
        let explained = policies::explain(app, owner, of_policy, "db_read", "db_connection:prod")
            .await
            .unwrap();
        assert_eq!(
            (explained.verdict, explained.layer),
            ("not_granted", Some("project"))
        );
        assert_eq!(explained.layers.global.effect, Some("allow"));
        assert_eq!(explained.layers.project.effect, Some("none"));
        assert_eq!(
            (explained.layers.task.state, explained.layers.task.effect),
            ("absent", None)
        );
    });
}

// spec: PRE-011 PRE-012 PRE-015
#[test]
fn rules_that_can_never_fire_are_marked() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(PROJECT, "db_read", "db_connection:staging", "allow")
            .await;
        desk.grant(PROJECT, "db_write", "db_connection:prod", "allow")
            .await;
        desk.grant(TASK, "db_read", "db_connection:staging", "allow")
            .await;
        desk.grant(TASK, "db_read", "db_connection:prod", "allow").await;
        desk.grant(TASK, "db_write", "db_connection:prod", "allow").await;
        let dead = async || {
            let shown = desk.shown().await;
            shown
                .layers
                .task
                .grants
                .iter()
                .map(|grant| {
                    (
                        grant.action,
                        grant.scope.name.clone().unwrap(),
                        grant.dead.is_some(),
                    )
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(
            dead().await,
            [
                ("db_read", "staging".to_owned(), false),
                ("db_read", "prod".to_owned(), true),
                ("db_write", "prod".to_owned(), true)
            ]
        );
        assert!(desk.shown().await.notes[0].contains("prod has db_write without db_read"));
        let id = databases::find(app, owner, "staging").await.unwrap().id;
        databases::remove(app, owner, id).await.unwrap();
        assert_eq!(
            dead().await[0],
            ("db_read", "staging".to_owned(), true),
            "the database is gone"
        );
        let whose = Whose::Policy(chosen(app, owner, "careful").await);
        let explained = policies::explain(app, owner, whose, "db_read", &format!("db_connection:{id}"))
            .await
            .unwrap();
        assert_eq!(explained.verdict, "not_granted");
        let words = format!("connection removed (id {id}), last named staging");
        assert!(explained.reason.contains(&words), "{}", explained.reason);
        let of_policy = async || Whose::Policy(chosen(app, owner, "careful").await);
        let write = policies::explain(app, owner, of_policy().await, "db_write", "db_connection:prod")
            .await
            .unwrap();
        assert_eq!(write.verdict, "allow");
        let words = "needs db_read as well, and that is not_granted, so none goes through.";
        assert!(write.reason.ends_with(words), "{}", write.reason);
        desk.grant(PROJECT, "db_read", "db_connection:prod", "ask").await;
        let write = policies::explain(app, owner, of_policy().await, "db_write", "db_connection:prod")
            .await
            .unwrap();
        assert!(!write.reason.contains("db_read"), "{}", write.reason);
    });
}

#[test]
fn questions_are_answered_in_their_order_and_each_as_a_call_would_be() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "any", "allow").await;
        let (unscoped, _) = desk.another(PolicyChoice::Unscoped, "unscoped").await;
        let staging = databases::find(app, owner, "staging").await.unwrap().id;
        let question =
            |policy: Option<&str>, task: Option<String>, action: &str, resource: Option<String>| Question {
                policy: policy.map(str::to_owned),
                task,
                action: action.to_owned(),
                resource,
            };
        let questions = vec![
            question(
                Some("careful"),
                None,
                "db_read",
                Some(format!("db_connection:{staging}")),
            ),
            question(
                None,
                Some(desk.task.to_string()),
                "db_write",
                Some(format!("db_connection:{staging}")),
            ),
            question(
                None,
                Some(unscoped.to_string()),
                "db_write",
                Some(format!("db_connection:{staging}")),
            ),
            question(Some("careful"), None, "db_read", None),
            question(
                Some("careful"),
                None,
                "db_read",
                Some("db_connection:9999".to_owned()),
            ),
            question(
                Some("closed"),
                None,
                "db_read",
                Some(format!("db_connection:{staging}")),
            ),
            question(
                Some("careful"),
                None,
                "db_read",
                Some("project:engine".to_owned()),
            ),
        ];
        let answers = policies::explain_questions(app, owner, questions).await.unwrap();
        let verdicts: Vec<_> = answers.iter().map(|one| (one.verdict, one.layer)).collect();
        assert_eq!(
            verdicts,
            [
                ("allow", Some("task")),
                ("not_granted", Some("task")),
                ("unscoped", None),
                ("not_granted", Some("task")),
                ("not_granted", Some("task")),
                ("not_granted", None),
                ("not_granted", Some("task"))
            ]
        );
        assert!(answers[2].policy.is_none() && answers[3].resource.is_none());
        assert!(answers[4].reason.contains("does not exist"));
        let bad = vec![
            question(Some("careful"), None, "db_read", None),
            question(Some("nowhere"), None, "db_read", None),
        ];
        let (line, error) = policies::explain_questions(app, owner, bad).await.unwrap_err();
        assert_eq!((line, error.code()), (2, "not_found"));
        let all = policies::explain_all(app, owner, Whose::Policy(Chosen::Closed))
            .await
            .unwrap();
        assert!(
            all.iter()
                .all(|one| one.verdict == "not_granted" && one.layer.is_none())
        );
    });
}

#[test]
fn an_agent_sees_what_it_may_do() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "db_connection:staging", "ask").await;
        let me = access::whoami(desk.app(), &desk.agent).await.unwrap();
        assert_eq!(me.task.unwrap().id, desk.task.to_string());
        assert_eq!(me.grants.len(), 1);
        assert_eq!((me.grants[0].action, me.grants[0].effect), ("db_read", "ask"));
        let kind = ScopeKind::DbConnection.as_str();
        assert_eq!(me.grants[0].resource.kind, kind);
    });
}

#[test]
fn reasons_and_refusals_say_names_beside_ids() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "db_connection:staging", "deny").await;
        let id = desk.shown().await.layers.task.grants[0].scope.id.clone().unwrap();
        let named = format!("db_connection:{id} (staging)");
        let careful = chosen(app, owner, "careful").await;
        let explained = policies::explain(
            app,
            owner,
            Whose::Policy(careful),
            "db_read",
            "db_connection:staging",
        )
        .await
        .unwrap();
        assert_eq!(
            explained.reason,
            format!("The task layer denies db_read on {named}: `db_read {named} deny`.")
        );
        desk.revoke(TASK, "db_read", "db_connection:staging").await;
        desk.grant(TASK, "hosts_read", "any", "deny").await;
        let missing = policies::revoke(app, owner, desk.edit(TASK), "db_read", "db_connection:staging")
            .await
            .unwrap_err();
        assert!(missing.to_string().contains(&named), "{missing}");
        let twice = policies::Exported {
            name: "other".to_owned(),
            parent: None,
            layers: serde_json::from_value(serde_json::json!({"task": [
                ["db_read", "db_connection:staging", "deny"], ["db_read", format!("db_connection:{id}"), "allow"]]}))
            .unwrap(),
        };
        let twice = policies::import(app, owner, vec![twice], policies::WhenThere::Refuse)
            .await
            .unwrap_err();
        assert!(twice.to_string().contains(&named), "{twice}");
        // Of a host the refusal is told as it is; a hidden database never is.
        let call = muster_app::access::Call {
            tool: "muster_list_hosts".to_owned(),
            arguments: serde_json::json!({}),
            needs: desk
                .needs(&[(
                    muster_policy::Action::HostsRead,
                    muster_policy::ScopeKind::Host,
                    "workstation",
                )])
                .await,
        };
        let refused = desk.decide(call).await.unwrap_err();
        assert!(
            refused
                .message
                .contains(" (workstation) is denied by the task layer"),
            "{}",
            refused.message
        );
        let call = desk.reads("prod").await;
        assert!(!desk.decide(call).await.unwrap_err().message.contains("prod"));
    });
}

#[test]
fn layers_whose_policy_is_gone_are_told_with_what_points_at_it() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "any", "allow").await;
        desk.grant(GLOBAL, "db_read", "any", "allow").await;
        assert_eq!(policies::orphans(app, owner).await.unwrap(), []);
        let gone = format!("DELETE FROM policies WHERE id = {}", desk.policy);
        let keys = desk.pick(
            &["PRAGMA foreign_keys = OFF"],
            &[
                "ALTER TABLE policy_layers DROP CONSTRAINT policy_layers_owner_id_policy_id_fkey",
                "ALTER TABLE tasks DROP CONSTRAINT tasks_owner_id_policy_id_fkey",
            ],
        );
        let statements: Vec<&str> = keys.iter().copied().chain([gone.as_str()]).collect();
        tamper(&desk, &statements).await;
        let found = policies::orphans(app, owner).await.unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].policy, found[0].layers.as_slice()),
            (desk.policy, ["task".to_owned(), "global".to_owned()].as_slice())
        );
        assert_eq!(found[0].dependents.tasks[0].id, desk.task.to_string());
        assert_eq!(desk.read("staging").await, "refused_error", "what it means");
    });
}

#[test]
fn a_connections_last_statements_are_its_own_however_busy_another_is_and_none_is_read_whole() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "any", "allow").await;
        desk.grant(TASK, "db_write", "any", "allow").await;
        let staging = databases::find(app, owner, "staging").await.unwrap().id;
        let prod = databases::find(app, owner, "prod").await.unwrap().id;
        let look = |statement: &str| databases::Look {
            act: "query",
            statement: Some(statement.to_owned()),
            of: None,
            writes: false,
        };
        let last = async || databases::last_statements(app, owner, staging, 30).await.unwrap();
        assert!(last().await.is_empty());

        let most = "\u{1}".repeat(2_000);
        for statement in ["SELECT '\"'", &most, &"\u{1f408}".repeat(40_000)] {
            desk.outcome(desk.query("staging", statement).await).await;
        }
        let _ = databases::by_owner(app, owner, staging, look("SELECT 'own'"))
            .await
            .unwrap();
        // One that only speaks of the connection, as a row about it would.
        let posing = format!(r#""kind":"db_connection","id":"{staging}" db_connection:{staging}"#);
        desk.outcome(desk.query("prod", &posing).await).await;
        desk.outcome(desk.writes("prod", &posing).await).await;
        for _ in 0..510 {
            let _ = databases::by_owner(app, owner, prod, look(&posing))
                .await
                .unwrap();
        }

        let found = last().await;
        let shown: Vec<(&str, &str, bool)> = found
            .iter()
            .map(|ran| (ran.by.as_str(), ran.statement.as_str(), ran.cut))
            .collect();
        let cats = "\u{1f408}".repeat(2_000);
        assert_eq!(
            shown,
            [
                ("query", "SELECT 'own'", false),
                ("muster_db_query", cats.as_str(), true),
                ("muster_db_query", most.as_str(), false),
                ("muster_db_query", "SELECT '\"'", false),
            ]
        );
        assert_eq!(
            (
                found[0].agent.as_deref(),
                found[1].agent.as_deref(),
                found[1].outcome.as_str()
            ),
            (None, Some("worker"), "allowed")
        );
        assert_eq!(
            databases::last_statements(app, owner, prod, 3)
                .await
                .unwrap()
                .len(),
            3
        );
    });
}
