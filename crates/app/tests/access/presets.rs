//! Presets: whole layers from named shapes, on a project's real resources. Never `any`.

use muster_app::policies::{self, Applied, WhenShared};
use muster_app::projects::{self, NewProject};
use muster_app::tasks::PolicyChoice;
use muster_policy::LayerName;

use super::kit::{GLOBAL, PROJECT, TASK, on_desks, slug};

// spec: PRE-001 PRE-002 PRE-003 PRE-004 PRE-005 PRE-007
#[test]
fn a_preset_replaces_the_layer_by_grants_on_what_the_project_has() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "hosts_read", "any", "allow").await;
        let preview = policies::preview(app, owner, desk.edit(TASK), "analytics-read-only", desk.project)
            .await
            .unwrap();
        let names: Vec<_> = preview
            .iter()
            .map(|grant| grant.scope.name.clone().unwrap())
            .collect();
        assert_eq!(names, ["staging", "prod"]);
        let before = desk.shown().await;
        assert_eq!(before.layers.task.grants.len(), 1, "a preview changes nothing");
        let applied = policies::apply_preset(
            app,
            owner,
            desk.edit(TASK),
            "analytics-read-only",
            desk.project,
            WhenShared::Refuse,
        )
        .await
        .unwrap();
        assert_eq!(applied, Applied::InPlace);
        let shown = desk.shown().await;
        assert_eq!(shown.layers.task.grants, preview);
        assert_eq!(shown.revision, before.revision + 1);
        for grant in &shown.layers.task.grants {
            assert_eq!((grant.action, grant.effect), ("db_read", "allow"));
            assert_ne!(grant.scope.kind, "any");
        }
        desk.revoke(TASK, "db_read", "db_connection:prod").await;
        assert_eq!(desk.shown().await.layers.task.grants.len(), 1);
        let unknown = policies::preview(app, owner, desk.edit(TASK), "everything", desk.project)
            .await
            .unwrap_err();
        assert!(unknown.is_usage() && unknown.to_string().contains("analytics-read-only"));
    });
}

// spec: PRE-006
#[test]
fn a_preset_that_finds_nothing_leaves_an_empty_layer_that_denies() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(GLOBAL, "db_read", "any", "allow").await;
        let root = desk.muster.dir.path().join("bare");
        std::fs::create_dir_all(&root).unwrap();
        let bare = NewProject {
            name: slug("bare"),
            root,
            repo: None,
        };
        let bare = projects::add(app, owner, bare).await.unwrap().id;
        policies::apply_preset(
            app,
            owner,
            desk.edit(TASK),
            "analytics-read-only",
            bare,
            WhenShared::Refuse,
        )
        .await
        .unwrap();
        assert_eq!(desk.shown().await.layers.task.state, "empty");
        assert_eq!(desk.read("staging").await, "refused_not_granted");
    });
}

// spec: PRE-018 PRE-019 PRE-020 PRE-021 PRE-022 PRE-026
#[test]
fn on_a_tasks_page_a_shared_policy_is_forked_for_it_and_left_as_it_is() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "hosts_read", "any", "allow").await;
        let fork = WhenShared::Fork(desk.task);
        let apply = async |policy, preset| {
            let edit = policies::Edit {
                policy,
                layer: TASK,
                revision: None,
            };
            policies::apply_preset(app, owner, edit, preset, desk.project, fork)
                .await
                .unwrap()
        };
        // One task alone: in place.
        assert_eq!(apply(desk.policy, "observer").await, Applied::InPlace);
        let (sibling, of_sibling) = desk.another(PolicyChoice::Policy(desk.policy), "sibling").await;
        let exported = policies::export(app, owner, vec!["careful".to_owned()])
            .await
            .unwrap();
        let (before, theirs) = (
            desk.shown().await,
            muster_app::access::whoami(app, &of_sibling).await.unwrap(),
        );
        let Applied::Forked(child) = apply(desk.policy, "analytics-read-only").await else {
            panic!("it was not forked");
        };
        let after = desk.shown().await;
        assert_eq!((after.revision, &after.layers), (before.revision, &before.layers));
        assert_eq!(
            policies::export(app, owner, vec!["careful".to_owned()])
                .await
                .unwrap(),
            exported
        );
        assert_eq!(
            muster_app::access::whoami(app, &of_sibling).await.unwrap(),
            theirs
        );
        let shown = desk.show(child).await;
        assert_eq!(shown.layers.task.grants.len(), 2);
        assert_eq!(
            shown
                .dependents
                .tasks
                .iter()
                .map(|task| task.id.clone())
                .collect::<Vec<_>>(),
            [desk.task.to_string()]
        );
        assert_eq!(shown.parent.unwrap().name, "careful");
        assert_eq!(desk.read("staging").await, "allowed");
        // On its own child it is edited in place.
        assert_eq!(apply(child, "observer").await, Applied::InPlace);
        assert_eq!(policies::list(app, owner).await.unwrap().len(), 2);
        let _ = sibling;
    });
}

// spec: PRE-023 PRE-024 PRE-027 PRE-028 PRE-029 PRE-030 PRE-032 PRE-033
#[test]
fn a_script_never_rescopes_a_shared_task_layer_by_accident() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let apply = async |layer: LayerName, shared| {
            policies::apply_preset(
                app,
                owner,
                desk.edit(layer),
                "analytics-read-only",
                desk.project,
                shared,
            )
            .await
        };
        assert_eq!(apply(TASK, WhenShared::Refuse).await.unwrap(), Applied::InPlace);
        // One task and a project's default share it.
        projects::set_default(app, owner, desk.project, Some(desk.policy))
            .await
            .unwrap();
        let before = desk.shown().await;
        let refused = apply(TASK, WhenShared::Refuse).await.unwrap_err();
        assert_eq!(refused.code(), "shared");
        assert!(
            refused.to_string().contains("--force")
                && refused.to_string().contains(&format!("task {}", desk.task))
        );
        assert_eq!(refused.dependents().unwrap().projects.len(), 1);
        assert_eq!(desk.shown().await, before);
        for layer in [GLOBAL, PROJECT] {
            assert_eq!(apply(layer, WhenShared::Refuse).await.unwrap(), Applied::InPlace);
        }
        assert_eq!(apply(TASK, WhenShared::Write).await.unwrap(), Applied::InPlace);
        assert_eq!(desk.shown().await.revision, before.revision + 3);
        assert_eq!(desk.read("staging").await, "allowed");
    });
}

#[test]
fn a_preset_is_previewed_for_the_revision_and_the_layer_that_it_is_applied_to() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let current = desk.shown().await.revision;
        let at = |revision, layer| policies::Edit {
            revision: Some(revision),
            ..desk.edit(layer)
        };
        let name = "analytics-read-only";
        for edit in [at(current + 1, TASK), at(current - 1, TASK)] {
            let previewed = policies::preview(app, owner, edit, name, desk.project)
                .await
                .unwrap_err();
            let applied = policies::apply_preset(app, owner, edit, name, desk.project, WhenShared::Write)
                .await
                .unwrap_err();
            assert_eq!(
                (previewed.code(), previewed.to_string()),
                ("stale_revision", applied.to_string())
            );
        }
        assert!(
            policies::preview(app, owner, at(current, TASK), name, desk.project)
                .await
                .is_ok()
        );
        let fork = policies::fork(app, owner, desk.policy, None, "child", None)
            .await
            .unwrap();
        let upper = policies::Edit {
            policy: fork.id,
            layer: GLOBAL,
            revision: None,
        };
        let refused = policies::preview(app, owner, upper, name, desk.project)
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "not_a_root");
    });
}
