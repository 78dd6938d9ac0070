//! Editing policies: words, revisions, deletion, and the rows each act leaves. Never decides a call.

use muster_app::policies::{self, PolicyError};
use muster_app::tasks::{self, By, NewRun, PolicyChoice};
use muster_app::{databases, projects};

use super::kit::{GLOBAL, PROJECT, TASK, add_connection, add_task, at, chosen, on_desks};

// spec: POL-004 POL-005 POL-006 POL-029 POL-030 POL-037
#[test]
fn a_grant_with_a_wrong_word_is_refused_and_changes_nothing() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "any", "allow").await;
        let before = desk.shown().await;
        let cases = [
            ("db_reed", "any", "allow", "usage", "projects_read, tasks_write"),
            ("", "any", "allow", "usage", "is not an action"),
            ("db_read", "any", "maybe", "usage", "allow, ask, deny"),
            ("db_read", "any", "", "usage", "allow, ask, deny"),
            ("db_read", "", "allow", "usage", "is not a scope"),
            (
                "db_read",
                "table:x",
                "allow",
                "usage",
                "is not a kind of resource",
            ),
            (
                "db_read",
                "db_connection:a,b",
                "allow",
                "usage",
                "does not name exactly one",
            ),
            (
                "db_read",
                "db_connection:*",
                "allow",
                "usage",
                "does not name exactly one",
            ),
            (
                "db_read",
                "project:engine",
                "allow",
                "usage",
                "never about a project",
            ),
            (
                "db_read",
                "db_connection:nowhere",
                "allow",
                "not_found",
                "does not exist",
            ),
            (
                "db_read",
                "db_connection:9999",
                "allow",
                "not_found",
                "does not exist",
            ),
        ];
        for (action, scope, effect, code, says) in cases {
            let refused = desk.try_grant(TASK, action, scope, effect).await.unwrap_err();
            assert_eq!(refused.code(), code, "{action} {scope} {effect}");
            assert!(refused.to_string().contains(says), "{refused}");
        }
        assert_eq!(desk.shown().await, before);
        for scope in ["any", "project:engine"] {
            desk.grant(PROJECT, "projects_read", scope, "allow").await;
        }
        desk.grant(PROJECT, "hosts_read", "host:workstation", "ask").await;
    });
}

// spec: PRE-009 PRE-034
#[test]
fn every_edit_raises_the_revision_by_one_and_one_meant_for_an_older_is_refused() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        assert_eq!(desk.shown().await.revision, 1);
        desk.grant(TASK, "db_read", "any", "allow").await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        desk.revoke(TASK, "db_read", "any").await;
        policies::clear_layer(app, owner, desk.edit(TASK)).await.unwrap();
        policies::save_empty(app, owner, desk.edit(TASK)).await.unwrap();
        assert_eq!(desk.shown().await.revision, 6);
        let mut edit = desk.edit(TASK);
        edit.revision = Some(6);
        policies::grant(app, owner, edit, "db_read", "any", "allow")
            .await
            .unwrap();
        let before = desk.shown().await;
        let stale = policies::grant(app, owner, edit, "db_read", "any", "deny")
            .await
            .unwrap_err();
        assert!(
            matches!(stale, PolicyError::StaleRevision { given: 6, current: 7 }),
            "{stale}"
        );
        for refused in [
            policies::revoke(app, owner, edit, "db_read", "any").await,
            policies::clear_layer(app, owner, edit).await,
            policies::save_empty(app, owner, edit).await,
        ] {
            assert_eq!(refused.unwrap_err().code(), "stale_revision");
        }
        let whole = chosen(app, owner, "careful").await;
        for refused in [
            policies::fork(app, owner, desk.policy, Some(6), "child", None)
                .await
                .map(|_| ()),
            policies::attach(app, owner, whole.clone(), Some(6), desk.task).await,
            policies::delete(app, owner, desk.policy, Some(6)).await,
        ] {
            assert_eq!(refused.unwrap_err().code(), "stale_revision");
        }
        assert_eq!(desk.shown().await, before);
        policies::attach(app, owner, whole, Some(7), desk.task)
            .await
            .unwrap();
    });
}

// spec: POL-045 POL-046 POL-047 POL-048 POL-049 POL-051 POL-052 PRE-010 PRE-016
#[test]
fn a_policy_is_deleted_only_when_nothing_resolves_through_it() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let run = tasks::spawn(app, owner, By::Owner, desk.task, NewRun::default())
            .await
            .unwrap();
        let fork = policies::fork(app, owner, desk.policy, None, "narrower", None)
            .await
            .unwrap();
        let (other, _) = desk.another(PolicyChoice::Policy(desk.policy), "other").await;
        projects::set_default(app, owner, desk.project, Some(desk.policy))
            .await
            .unwrap();
        let before = desk.shown().await;
        assert_eq!(before.dependents.tasks.len(), 2);
        assert_eq!(before.dependents.projects[0].name, "engine");
        assert_eq!(before.dependents.runs[0].id, run.id.to_string());
        assert_eq!(before.dependents.forks[0].name, "narrower");
        let refused = policies::delete(app, owner, desk.policy, None).await.unwrap_err();
        let PolicyError::InUse(dependents) = refused else {
            panic!("{refused}");
        };
        assert_eq!(*dependents, before.dependents);
        assert_eq!(desk.shown().await, before, "every pointer is whole");
        let rows = desk.rows("policy.delete_refused").await;
        assert_eq!(at(&rows[0].data, "/dependents/forks/0/name"), "narrower");

        let other_policy = policies::create(app, owner, "other").await.unwrap();
        let to = chosen(app, owner, &other_policy.to_string()).await;
        policies::delete(app, owner, fork.id, None).await.unwrap();
        for task in [desk.task, other] {
            assert_eq!(
                policies::delete(app, owner, desk.policy, None)
                    .await
                    .unwrap_err()
                    .code(),
                "in_use"
            );
            // A closed one counts too: opened again, it must not find a hole.
            if task == other {
                tasks::close(app, owner, By::Owner, task).await.unwrap();
                assert_eq!(
                    policies::delete(app, owner, desk.policy, None)
                        .await
                        .unwrap_err()
                        .code(),
                    "in_use"
                );
            }
            policies::attach(app, owner, to.clone(), None, task)
                .await
                .unwrap();
        }
        projects::set_default(app, owner, desk.project, None)
            .await
            .unwrap();
        assert_eq!(
            policies::delete(app, owner, desk.policy, None)
                .await
                .unwrap_err()
                .code(),
            "in_use",
            "a queued run"
        );
        tasks::cancel_run(app, owner, By::Owner, run.id).await.unwrap();
        policies::delete(app, owner, desk.policy, None).await.unwrap();
        assert!(matches!(
            policies::find(app, owner, &desk.policy.to_string()).await,
            Err(PolicyError::NotFound)
        ));
        let again = policies::create(app, owner, "careful").await.unwrap();
        assert!(again.get() > other_policy.get(), "an id never comes back");
    });
}

// spec: AUDIT-006
#[test]
fn every_act_on_a_policy_leaves_its_row() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "any", "allow").await;
        desk.revoke(TASK, "db_read", "any").await;
        policies::clear_layer(app, owner, desk.edit(TASK)).await.unwrap();
        policies::save_empty(app, owner, desk.edit(TASK)).await.unwrap();
        let fork = policies::fork(app, owner, desk.policy, None, "child", None)
            .await
            .unwrap();
        let child = chosen(app, owner, &fork.id.to_string()).await;
        policies::attach(app, owner, child, None, desk.task)
            .await
            .unwrap();
        policies::apply_preset(
            app,
            owner,
            desk.edit(TASK),
            "observer",
            desk.project,
            policies::WhenShared::Refuse,
        )
        .await
        .unwrap();
        policies::delete(app, owner, fork.id, None).await.unwrap_err();
        let spare = policies::create(app, owner, "spare").await.unwrap();
        policies::delete(app, owner, spare, None).await.unwrap();
        let exported = policies::export(app, owner, vec!["careful".to_owned()])
            .await
            .unwrap();
        policies::import(app, owner, exported, policies::WhenThere::Replace)
            .await
            .unwrap();
        projects::set_default(app, owner, desk.project, Some(desk.policy))
            .await
            .unwrap();
        for (event, count) in [
            ("policy.create", 2),
            ("policy.grant", 1),
            ("policy.revoke", 1),
            ("policy.clear_layer", 1),
            ("policy.save_empty", 1),
            ("policy.fork", 1),
            ("policy.attach", 1),
            ("policy.apply_preset", 1),
            ("policy.delete_refused", 1),
            ("policy.delete", 1),
            ("policy.import", 1),
            ("project.set_default", 1),
        ] {
            assert_eq!(desk.rows(event).await.len(), count, "{event}");
        }
    });
}

#[test]
fn a_name_is_unique_and_of_one_shape_and_closed_is_built_in() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        for bad in ["", "Careful", "7", "-x", "a b", "a/b", "ü", &"a".repeat(65)] {
            assert_eq!(
                policies::create(app, owner, bad).await.unwrap_err().code(),
                "usage",
                "{bad:?}"
            );
        }
        for taken in ["careful", "closed"] {
            assert_eq!(
                policies::create(app, owner, taken).await.unwrap_err().code(),
                "name_taken"
            );
        }
        policies::create(app, owner, &"a".repeat(64)).await.unwrap();
        let closed = chosen(app, owner, "closed").await;
        let shown = policies::show(app, owner, closed.clone()).await.unwrap();
        assert_eq!((shown.name.as_str(), shown.resolved.len()), ("closed", 0));
        policies::attach(app, owner, closed, None, desk.task)
            .await
            .unwrap();
        assert_eq!(desk.read("staging").await, "refused_not_granted");
        assert!(
            policies::list(app, owner)
                .await
                .unwrap()
                .iter()
                .all(|one| one.name != "closed")
        );
    });
}

#[test]
fn a_grant_on_what_is_gone_can_be_revoked_by_its_last_name() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "db_connection:staging", "allow")
            .await;
        let id = databases::find(app, owner, "staging").await.unwrap().id;
        databases::remove(app, owner, id).await.unwrap();
        let shown = desk.shown().await;
        assert!(shown.layers.task.grants[0].dead.is_some());
        assert_eq!(shown.layers.task.grants[0].scope.name.as_deref(), Some("staging"));
        desk.revoke(TASK, "db_read", "db_connection:staging").await;
        assert_eq!(desk.shown().await.layers.task.state, "empty");
        let again = policies::revoke(app, owner, desk.edit(TASK), "db_read", "any")
            .await
            .unwrap_err();
        assert_eq!(again.code(), "not_found");
    });
}

#[test]
fn grants_on_removed_ones_of_one_name_are_told_apart_by_their_ids() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let mut ids = Vec::new();
        for round in 0..3 {
            let id = if round == 0 {
                databases::find(app, owner, "staging").await.unwrap().id
            } else {
                add_connection(app, owner, desk.project, "staging").await
            };
            desk.grant(TASK, "db_read", "db_connection:staging", "allow")
                .await;
            ids.push(id);
            if round < 2 {
                databases::remove(app, owner, id).await.unwrap();
            }
        }
        let shown = desk.shown().await.layers.task.grants;
        let told: Vec<_> = shown
            .iter()
            .map(|grant| (grant.removed, grant.dead.clone()))
            .collect();
        let removed = |id| Some(format!("connection removed (id {id}), last named staging"));
        assert_eq!(
            told,
            [(true, removed(ids[0])), (true, removed(ids[1])), (false, None)]
        );
        // The existing one is meant first; of several that are gone none is guessed.
        desk.revoke(TASK, "db_read", "db_connection:staging").await;
        let left = || async { desk.shown().await.layers.task.grants.len() };
        assert_eq!(left().await, 2);
        let several = policies::revoke(app, owner, desk.edit(TASK), "db_read", "db_connection:staging")
            .await
            .unwrap_err();
        assert_eq!(several.code(), "ambiguous");
        for id in &ids[..2] {
            assert!(
                several.to_string().contains(&format!("db_connection:{id}")),
                "{several}"
            );
        }
        assert_eq!(left().await, 2);
        desk.revoke(TASK, "db_read", &format!("db_connection:{}", ids[1]))
            .await;
        desk.revoke(TASK, "db_read", "db_connection:staging").await;
        assert_eq!(desk.shown().await.layers.task.state, "empty");
    });
}

#[test]
fn another_owner_reaches_nothing() {
    on_desks(|desk| async move {
        let app = desk.app();
        let bob = muster_testkit::add_owner(app, "bob").await;
        assert!(policies::list(app, bob).await.unwrap().is_empty());
        let refused = policies::grant(app, bob, desk.edit(TASK), "db_read", "any", "allow")
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "not_found");
        assert_eq!(
            policies::delete(app, bob, desk.policy, None)
                .await
                .unwrap_err()
                .code(),
            "not_found"
        );
        let theirs = policies::create(app, bob, "careful").await.unwrap();
        let to = chosen(app, bob, &theirs.to_string()).await;
        assert_eq!(
            policies::attach(app, bob, to, None, desk.task)
                .await
                .unwrap_err()
                .code(),
            "not_found"
        );
        let mine = add_task(app, desk.owner(), desk.project, PolicyChoice::Default).await;
        assert!(tasks::find(app, bob, mine).await.is_err());
    });
}

#[test]
fn a_default_is_chosen_for_the_revision_that_was_looked_at() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let current = desk.shown().await.revision;
        let choose = async |policy, revision| {
            projects::set_default_at(app, owner, desk.project, policy, Some(revision)).await
        };
        let stale = choose(Some(desk.policy), current + 1).await.unwrap_err();
        assert!(
            matches!(stale, projects::ProjectError::StaleRevision { given, current: now } if (given, now) == (current + 1, current)),
            "{stale:?}"
        );
        assert!(
            projects::list(app, owner).await.unwrap()[0]
                .default_policy
                .is_none()
        );
        let set = choose(Some(desk.policy), current).await.unwrap();
        assert_eq!(set.default_policy.unwrap().id, desk.policy);
        // The built-in policy has revision 0.
        assert!(matches!(
            choose(None, 1).await,
            Err(projects::ProjectError::StaleRevision { current: 0, .. })
        ));
        assert!(choose(None, 0).await.unwrap().default_policy.is_none());
    });
}

#[test]
fn a_document_is_imported_for_the_revision_that_it_was_written_for() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "any", "allow").await;
        let current = desk.shown().await.revision;
        let document = policies::export(app, owner, vec!["careful".to_owned()])
            .await
            .unwrap();
        let import = async |document: Vec<policies::Exported>, revision| {
            policies::import_at(app, owner, document, policies::WhenThere::Replace, Some(revision)).await
        };
        let stale = import(document.clone(), current - 1).await.unwrap_err();
        assert_eq!(stale.code(), "stale_revision");
        assert_eq!(desk.shown().await.revision, current);
        let done = import(document.clone(), current).await.unwrap();
        assert_eq!(done[0].revision, current + 1);
        // One that is not there is at no revision, and the whole document is refused with it.
        let new = policies::Exported {
            name: "other".to_owned(),
            ..document[0].clone()
        };
        let both = vec![document[0].clone(), new.clone()];
        assert_eq!(
            import(both, current + 1).await.unwrap_err().code(),
            "stale_revision"
        );
        assert_eq!(desk.shown().await.revision, current + 1);
        assert_eq!(import(vec![new], 0).await.unwrap()[0].revision, 1);
    });
}

#[test]
fn a_grant_that_can_never_fire_is_told_and_made_all_the_same() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let told = async |layer, action: &str, scope: &str, effect: &str| {
            desk.grant(layer, action, scope, effect).await;
            policies::remarks(app, owner, desk.edit(layer), action, scope)
                .await
                .unwrap()
                .join("; ")
        };
        assert_eq!(told(GLOBAL, "db_read", "db_connection:prod", "deny").await, "");
        let shadowed = told(TASK, "db_read", "db_connection:prod", "allow").await;
        assert!(
            shadowed.contains("(prod) can never fire: the global layer leaves nothing of it"),
            "{shadowed}"
        );
        assert_eq!(desk.shown().await.layers.task.grants.len(), 1);
        assert_eq!(
            told(GLOBAL, "db_read", "db_connection:staging", "allow").await,
            ""
        );
        assert_eq!(told(TASK, "db_read", "db_connection:staging", "allow").await, "");
        // No integration is registered.
        let nothing = told(GLOBAL, "issues_read", "any", "allow").await;
        assert!(
            nothing.contains("nothing is registered yet") && nothing.contains("issues_read"),
            "{nothing}"
        );
        assert_eq!(told(GLOBAL, "hosts_read", "any", "allow").await, "");
    });
}

#[test]
fn what_a_grant_takes_from_other_layers_is_told() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let told = async |layer, action: &str, scope: &str, effect: &str| {
            desk.grant(layer, action, scope, effect).await;
            policies::remarks(app, owner, desk.edit(layer), action, scope)
                .await
                .unwrap()
        };
        for action in [
            "projects_read",
            "tasks_write",
            "worktree_read",
            "db_read",
            "hosts_read",
        ] {
            assert_eq!(told(TASK, action, "any", "allow").await, [""; 0], "{action}");
        }
        // The first grant of an upper layer makes that layer count, for every action.
        let all = told(GLOBAL, "projects_read", "any", "allow").await;
        assert_eq!(all.len(), 4, "{all:?}");
        for one in all.iter().take(3) {
            assert!(
                one.contains("of the task layer can fire no more: the global layer leaves nothing of it"),
                "{one}"
            );
        }
        assert!(all[3].contains("1 more"), "{all:?}");
        // What is dead already is not told again, and what is granted there as well fires again.
        assert_eq!(told(GLOBAL, "tasks_write", "any", "allow").await, [""; 0]);
    });
}
