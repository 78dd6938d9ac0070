//! Races: two acts on one name, one row or one pointer at the same moment, in one process and, where several may share a database, in two.
//! Never relies on which comes first: each outcome that may come is named, and all others fail.

use muster_app::App;
use muster_app::hosts::{self, HostError};
use muster_app::projects::{self, ProjectError};
use muster_app::tasks::{
    self, By, NewRun, PolicyChoice, RunState, TaskError, TaskPolicy, TaskStatus, Ticket, TicketKey,
};
use muster_store::Engine;
use muster_testkit::{TestMuster, on_both};

use super::kit::{
    add_policy, body, delete_policy, integration, project, slug, task, title, try_project, try_task,
};

/// The app that the other side of a race runs in: another server's where several may share the database.
async fn rival(muster: &TestMuster) -> App {
    match muster.engine {
        Engine::Sqlite => muster.app.clone(),
        Engine::Postgres => muster.second().await.0,
    }
}

/// How often each race is run.
const ROUNDS: usize = 25;

#[test]
fn of_two_who_take_one_name_one_gets_it() {
    on_both(|muster| async move {
        let (app, owner, other) = (&muster.app, muster.owner, rival(&muster).await);
        for round in 0..ROUNDS {
            let name = format!("name-{round}");
            let (mine, theirs) =
                tokio::join!(try_project(app, owner, &name), try_project(&other, owner, &name));
            assert_ne!(mine.is_ok(), theirs.is_ok(), "{mine:?} {theirs:?}");
            assert!(
                [mine, theirs]
                    .into_iter()
                    .all(|one| matches!(one, Ok(_) | Err(ProjectError::NameTaken)))
            );
            let (mine, theirs) = tokio::join!(
                hosts::add(app, owner, slug(&name)),
                hosts::add(&other, owner, slug(&name))
            );
            assert_ne!(mine.is_ok(), theirs.is_ok());
            assert!(
                [mine, theirs]
                    .into_iter()
                    .all(|one| matches!(one, Ok(_) | Err(HostError::NameTaken)))
            );
        }
        assert_eq!(projects::list(app, owner).await.unwrap().len(), ROUNDS);
        assert_eq!(hosts::list(app, owner).await.unwrap().len(), ROUNDS);
    });
}

// spec: POL-053
#[test]
fn a_task_never_points_at_a_policy_that_is_gone() {
    on_both(|muster| async move {
        let (app, owner, other) = (&muster.app, muster.owner, rival(&muster).await);
        let home = project(app, owner, "engine").await;
        let (mut attached, mut deleted) = (0, 0);
        for round in 0..ROUNDS {
            let policy = add_policy(app, owner, &format!("policy-{round}")).await;
            let (made, gone) = tokio::join!(
                async {
                    if round % 2 == 0 {
                        tokio::task::yield_now().await;
                    }
                    try_task(app, owner, By::Owner, home.id, PolicyChoice::Policy(policy)).await
                },
                delete_policy(&other, owner, policy)
            );
            match (made, gone) {
                (Ok(task), false) => {
                    attached += 1;
                    let found = tasks::find(app, owner, task.id).await.unwrap();
                    assert!(matches!(found.policy, TaskPolicy::Policy { id, .. } if id == policy));
                }
                (Err(TaskError::NoPolicy), true) => deleted += 1,
                outcome => panic!("{outcome:?}"),
            }
        }
        assert_eq!(attached + deleted, ROUNDS);
        assert_eq!(tasks::list(app, owner, None).await.unwrap().len(), attached);
    });
}

#[test]
fn a_project_that_is_removed_has_no_open_task() {
    on_both(|muster| async move {
        let (app, owner, other) = (&muster.app, muster.owner, rival(&muster).await);
        for round in 0..ROUNDS {
            let home = project(app, owner, &format!("engine-{round}")).await;
            let (made, removed) = tokio::join!(
                try_task(app, owner, By::Owner, home.id, PolicyChoice::Default),
                projects::remove(&other, owner, home.id)
            );
            match (made, removed) {
                (Ok(_), Err(ProjectError::InUse { .. })) | (Err(TaskError::NoProject), Ok(_)) => {}
                outcome => panic!("{outcome:?}"),
            }
        }
    });
}

#[test]
fn a_task_that_is_closed_has_no_queued_run() {
    on_both(|muster| async move {
        let (app, owner, other) = (&muster.app, muster.owner, rival(&muster).await);
        let home = project(app, owner, "engine").await;
        for _ in 0..ROUNDS {
            let id = task(app, owner, home.id).await.id;
            let (spawned, closed) = tokio::join!(
                tasks::spawn(app, owner, By::Owner, id, NewRun::default()),
                tasks::close(&other, owner, By::Owner, id)
            );
            closed.unwrap();
            assert!(matches!(spawned, Ok(_) | Err(TaskError::Closed)), "{spawned:?}");
            let found = tasks::find(app, owner, id).await.unwrap();
            assert_eq!(found.status, TaskStatus::Closed);
            assert_eq!(found.runs.len(), usize::from(spawned.is_ok()));
            assert!(found.runs.iter().all(|run| run.state == RunState::Cancelled));
        }
    });
}

#[test]
fn a_ticket_that_two_import_at_once_is_one_task() {
    on_both(|muster| async move {
        let (app, owner, other) = (&muster.app, muster.owner, rival(&muster).await);
        let home = project(app, owner, "engine").await;
        let hub = integration(app, owner, "hub").await.id;
        for round in 1..=ROUNDS {
            let ticket = || Ticket {
                integration: hub,
                key: TicketKey::parse(&format!("ada/engine#{round}")).unwrap(),
                title: title("a ticket"),
                body: body(""),
            };
            let (mine, theirs) = tokio::join!(
                tasks::import(app, owner, By::Owner, home.id, ticket()),
                tasks::import(&other, owner, By::Owner, home.id, ticket())
            );
            let ((mine, first), (theirs, second)) = (mine.unwrap(), theirs.unwrap());
            assert_eq!(mine.id, theirs.id);
            assert_ne!(first, second, "exactly one of them made it");
        }
        assert_eq!(tasks::list(app, owner, None).await.unwrap().len(), ROUNDS);
    });
}

#[test]
fn servers_that_seal_their_first_secret_at_once_share_a_key() {
    on_both(|muster| async move {
        let (app, owner, other) = (&muster.app, muster.owner, rival(&muster).await);
        let names: Vec<String> = (0..8).map(|n| format!("hub-{n}")).collect();
        let mut adding = tokio::task::JoinSet::new();
        for (n, name) in names.into_iter().enumerate() {
            let app = if n % 2 == 0 { app.clone() } else { other.clone() };
            adding.spawn(async move {
                super::kit::try_integration(&app, owner, &name, &name)
                    .await
                    .unwrap()
            });
        }
        for added in adding.join_all().await {
            let (_, token) = muster_app::integrations::credential(app, owner, added.id)
                .await
                .unwrap();
            assert_eq!(token.expose(), added.name);
        }
    });
}
