//! Names and ids: unique while they live, free afterwards; an id stays and never comes back. Removing what is in use is refused with what uses it.

use muster_app::databases::{self, DatabaseError};
use muster_app::hosts::{self, HostError};
use muster_app::integrations::{self, IntegrationError};
use muster_app::projects::{self, NewProject, ProjectError, RepoName};
use muster_app::tasks::{self, By, NewRun};
use muster_core::ids::{IntegrationId, PolicyId, ProjectId};
use muster_testkit::{add_owner, on_both};

use super::kit::{
    add_policy, connection, events, host, integration, project, slug, task, try_connection, try_integration,
    try_project,
};

#[test]
fn a_name_is_taken_while_its_owner_of_it_lives_and_free_afterwards() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let home = project(app, owner, "engine").await;
        assert!(matches!(
            try_project(app, owner, "engine").await,
            Err(ProjectError::NameTaken)
        ));
        // Another owner's is another name; so is another kind's.
        project(app, bob, "engine").await;
        let forge = integration(app, owner, "engine").await;
        let tower = host(app, owner, "engine").await;
        let staging = connection(app, owner, home.id, "engine").await;
        assert!(matches!(
            try_integration(app, owner, "engine", "t").await,
            Err(IntegrationError::NameTaken)
        ));
        assert!(matches!(
            hosts::add(app, owner, slug("engine")).await,
            Err(HostError::NameTaken)
        ));
        assert!(matches!(
            try_connection(app, owner, home.id, "engine").await,
            Err(DatabaseError::NameTaken)
        ));

        databases::remove(app, owner, staging.id).await.unwrap();
        integrations::remove(app, owner, forge.id).await.unwrap();
        hosts::remove(app, owner, tower.id).await.unwrap();
        let again = connection(app, owner, home.id, "engine").await.id;
        assert!(again > staging.id, "an id came back");
        assert!(integration(app, owner, "engine").await.id > forge.id);
        assert!(host(app, owner, "engine").await.id > tower.id);
        databases::remove(app, owner, again).await.unwrap();
        projects::remove(app, owner, home.id).await.unwrap();
        assert!(project(app, owner, "engine").await.id > home.id);
        assert!(matches!(
            projects::find(app, owner, &home.id.to_string()).await,
            Err(ProjectError::NotFound)
        ));
    });
}

#[test]
fn a_renamed_resource_keeps_its_id_and_frees_its_name() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let staging = connection(app, owner, home.id, "staging").await;
        let forge = integration(app, owner, "hub").await;
        let tower = host(app, owner, "tower").await;
        assert_eq!(
            projects::rename(app, owner, home.id, slug("motor"))
                .await
                .unwrap()
                .name,
            "motor"
        );
        databases::rename(app, owner, staging.id, slug("rehearsal"))
            .await
            .unwrap();
        integrations::rename(app, owner, forge.id, slug("work"))
            .await
            .unwrap();
        hosts::rename(app, owner, tower.id, slug("desk")).await.unwrap();
        for word in ["motor".to_owned(), home.id.to_string()] {
            assert_eq!(projects::find(app, owner, &word).await.unwrap().id, home.id);
        }
        assert_eq!(
            databases::find(app, owner, "rehearsal").await.unwrap().id,
            staging.id
        );
        assert_eq!(integrations::find(app, owner, "work").await.unwrap().id, forge.id);
        assert_eq!(hosts::find(app, owner, "desk").await.unwrap().id, tower.id);
        assert!(matches!(
            projects::find(app, owner, "engine").await,
            Err(ProjectError::NotFound)
        ));
        // A new one with the old name is another one.
        assert_ne!(project(app, owner, "engine").await.id, home.id);
        assert!(matches!(
            projects::rename(app, owner, home.id, slug("engine")).await,
            Err(ProjectError::NameTaken)
        ));
        assert_eq!(projects::find(app, owner, "motor").await.unwrap().id, home.id);
        // Its own name is no other's.
        projects::rename(app, owner, home.id, slug("motor"))
            .await
            .unwrap();
    });
}

#[test]
fn what_is_another_owners_or_gone_is_not_there() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let home = project(app, bob, "engine").await;
        let staging = connection(app, bob, home.id, "staging").await;
        let forge = integration(app, bob, "hub").await;
        let tower = host(app, bob, "tower").await;
        for word in [home.id.to_string(), "engine".to_owned()] {
            assert!(matches!(
                projects::find(app, owner, &word).await,
                Err(ProjectError::NotFound)
            ));
        }
        assert!(matches!(
            projects::rename(app, owner, home.id, slug("mine")).await,
            Err(ProjectError::NotFound)
        ));
        assert!(matches!(
            projects::remove(app, owner, home.id).await,
            Err(ProjectError::NotFound)
        ));
        assert!(matches!(
            projects::set_default(app, owner, home.id, None).await,
            Err(ProjectError::NotFound)
        ));
        assert!(matches!(
            projects::root(app, owner, home.id).await,
            Err(ProjectError::NotFound)
        ));
        assert!(matches!(
            databases::remove(app, owner, staging.id).await,
            Err(DatabaseError::NotFound)
        ));
        assert!(matches!(
            databases::url(app, owner, staging.id).await,
            Err(DatabaseError::NotFound)
        ));
        assert!(matches!(
            try_connection(app, owner, home.id, "staging").await,
            Err(DatabaseError::NoProject)
        ));
        assert!(matches!(
            integrations::credential(app, owner, forge.id).await,
            Err(IntegrationError::NotFound)
        ));
        assert!(matches!(
            integrations::remove(app, owner, forge.id).await,
            Err(IntegrationError::NotFound)
        ));
        assert!(matches!(
            hosts::rename(app, owner, tower.id, slug("mine")).await,
            Err(HostError::NotFound)
        ));
        assert!(matches!(
            hosts::remove(app, owner, tower.id).await,
            Err(HostError::NotFound)
        ));
        hosts::remove(app, bob, tower.id).await.unwrap();
        assert!(matches!(
            hosts::remove(app, bob, tower.id).await,
            Err(HostError::NotFound)
        ));
    });
}

#[test]
fn a_root_is_a_folder_without_links() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let real = app.settings.data_dir.join("real");
        let (file, link) = (
            app.settings.data_dir.join("file"),
            app.settings.data_dir.join("link"),
        );
        std::fs::create_dir(&real).unwrap();
        std::fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let add = |name: &'static str, root| {
            let new = NewProject {
                name: slug(name),
                root,
                repo: None,
            };
            projects::add(app, owner, new)
        };
        for wrong in [file, app.settings.data_dir.join("none"), "".into()] {
            assert!(matches!(
                add("engine", wrong).await,
                Err(ProjectError::Root { .. })
            ));
        }
        assert_eq!(projects::list(app, owner).await.unwrap(), []);
        let added = add("engine", link).await.unwrap();
        let real = real.canonicalize().unwrap();
        assert_eq!(added.root, real.to_str().unwrap());
        assert_eq!(projects::root(app, owner, added.id).await.unwrap(), real);
    });
}

#[test]
fn a_repository_is_reached_by_a_live_integration_of_its_owner() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let forge = integration(app, owner, "hub").await;
        let gone = integration(app, owner, "gone").await;
        integrations::remove(app, owner, gone.id).await.unwrap();
        let theirs = integration(app, bob, "hub").await;
        let add = |name: &'static str, integration: IntegrationId| {
            let new = NewProject {
                name: slug(name),
                root: app.settings.data_dir.clone(),
                repo: Some((RepoName::parse("ada/engine").unwrap(), integration)),
            };
            projects::add(app, owner, new)
        };
        for wrong in [gone.id, theirs.id, IntegrationId::new(999)] {
            assert!(matches!(
                add("engine", wrong).await,
                Err(ProjectError::NoIntegration)
            ));
        }
        let added = add("engine", forge.id).await.unwrap();
        let repo = projects::find(app, owner, "engine").await.unwrap().repo.unwrap();
        assert_eq!(
            (
                repo.path.as_str(),
                repo.integration.id,
                repo.integration.name.as_str()
            ),
            ("ada/engine", forge.id, "hub")
        );
        // While a project uses it, it stays.
        match integrations::remove(app, owner, forge.id).await {
            Err(IntegrationError::InUse(users)) => {
                assert_eq!(
                    (users[0].id, users[0].name.as_str(), users.len()),
                    (added.id, "engine", 1)
                );
            }
            other => panic!("{other:?}"),
        }
        projects::remove(app, owner, added.id).await.unwrap();
        integrations::remove(app, owner, forge.id).await.unwrap();
    });
}

#[test]
fn a_project_or_a_host_in_use_is_not_removed_and_the_refusal_names_what_uses_it() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let open = task(app, owner, home.id).await;
        let closed = task(app, owner, home.id).await;
        tasks::close(app, owner, By::Owner, closed.id).await.unwrap();
        let staging = connection(app, owner, home.id, "staging").await;
        match projects::remove(app, owner, home.id).await {
            Err(ProjectError::InUse { tasks, connections }) => {
                assert_eq!((tasks.len(), tasks[0].id), (1, open.id));
                assert_eq!((connections.len(), connections[0].id), (1, staging.id));
            }
            other => panic!("{other:?}"),
        }
        let tower = host(app, owner, "tower").await;
        let new = NewRun {
            host: Some(tower.id),
            ..NewRun::default()
        };
        let run = tasks::spawn(app, owner, By::Owner, open.id, new).await.unwrap();
        match hosts::remove(app, owner, tower.id).await {
            Err(HostError::InUse(runs)) => assert_eq!((runs.len(), runs[0].id), (1, run.id)),
            other => panic!("{other:?}"),
        }
        assert_eq!(hosts::list(app, owner).await.unwrap().len(), 1);
        tasks::close(app, owner, By::Owner, open.id).await.unwrap();
        databases::remove(app, owner, staging.id).await.unwrap();
        hosts::remove(app, owner, tower.id).await.unwrap();
        projects::remove(app, owner, home.id).await.unwrap();
        // What is closed keeps the project's last name.
        let kept = tasks::find(app, owner, closed.id).await.unwrap();
        assert_eq!((kept.project.id, kept.project.name.as_str()), (home.id, "engine"));
    });
}

#[test]
fn a_default_policy_is_one_of_the_owners_and_holds_it() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let home = project(app, owner, "engine").await;
        assert_eq!(home.default_policy, None);
        let careful = add_policy(app, owner, "careful").await;
        let theirs = add_policy(app, bob, "careful").await;
        for wrong in [theirs, PolicyId::new(999)] {
            assert!(matches!(
                projects::set_default(app, owner, home.id, Some(wrong)).await,
                Err(ProjectError::NoPolicy)
            ));
        }
        assert_eq!(projects::policy(app, owner, "careful").await.unwrap().id, careful);
        assert_eq!(
            projects::policy(app, owner, &careful.to_string())
                .await
                .unwrap()
                .name,
            "careful"
        );
        let set = projects::set_default(app, owner, home.id, Some(careful))
            .await
            .unwrap();
        assert_eq!(set.default_policy.unwrap().name, "careful");
        assert!(!super::kit::delete_policy(app, owner, careful).await);
        projects::set_default(app, owner, home.id, None).await.unwrap();
        assert!(super::kit::delete_policy(app, owner, careful).await);
        let rows = events(&muster, "project.set_default").await;
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].data["to"], careful.to_string());
        assert_eq!(rows[1].data["from"], careful.to_string());
    });
}

#[test]
fn a_removed_project_holds_no_policy() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let careful = add_policy(app, owner, "careful").await;
        projects::set_default(app, owner, home.id, Some(careful))
            .await
            .unwrap();
        projects::remove(app, owner, home.id).await.unwrap();
        assert!(super::kit::delete_policy(app, owner, careful).await);
    });
}

#[test]
fn each_edit_has_its_row_in_the_audit_log() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let staging = connection(app, owner, home.id, "staging").await;
        let forge = integration(app, owner, "hub").await;
        let tower = host(app, owner, "tower").await;
        projects::rename(app, owner, home.id, slug("motor"))
            .await
            .unwrap();
        databases::rename(app, owner, staging.id, slug("rehearsal"))
            .await
            .unwrap();
        integrations::rename(app, owner, forge.id, slug("work"))
            .await
            .unwrap();
        hosts::rename(app, owner, tower.id, slug("desk")).await.unwrap();
        databases::remove(app, owner, staging.id).await.unwrap();
        integrations::remove(app, owner, forge.id).await.unwrap();
        hosts::remove(app, owner, tower.id).await.unwrap();
        projects::remove(app, owner, home.id).await.unwrap();
        for (kind, subject, first, second) in [
            ("project", format!("project:{}", home.id), "engine", "motor"),
            (
                "db",
                format!("db_connection:{}", staging.id),
                "staging",
                "rehearsal",
            ),
            ("integration", format!("integration:{}", forge.id), "hub", "work"),
            ("host", format!("host:{}", tower.id), "tower", "desk"),
        ] {
            for (act, field, value) in [
                ("add", "name", first),
                ("rename", "to", second),
                ("remove", "name", second),
            ] {
                let rows = events(&muster, &format!("{kind}.{act}")).await;
                assert_eq!(rows.len(), 1, "{kind}.{act}");
                assert_eq!(
                    (
                        rows[0].subject.as_str(),
                        rows[0].actor.as_str(),
                        &rows[0].data[field]
                    ),
                    (subject.as_str(), "owner", &value.into())
                );
            }
        }
        // What was refused has none.
        assert!(
            projects::rename(app, owner, ProjectId::new(999), slug("x"))
                .await
                .is_err()
        );
        assert_eq!(events(&muster, "project.rename").await.len(), 1);
    });
}
