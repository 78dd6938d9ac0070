//! What several do at once: attach against delete, two approvers, two editors. Never a task that points at nothing.

use muster_app::access::{self, AskError, Decider};
use muster_app::policies;

use super::kit::{TASK, chosen, ended, on_desks};

// spec: POL-053
#[test]
fn attaching_and_deleting_never_leave_a_task_without_its_policy() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app().clone(), desk.owner());
        let (mut attached, mut deleted) = (0, 0);
        for n in 0..25 {
            let name = format!("p{n}");
            let policy = policies::create(&app, owner, &name).await.unwrap();
            let found = chosen(&app, owner, &name).await;
            let (one, other) = (app.clone(), app.clone());
            let task = desk.task;
            let attach = tokio::spawn(async move { policies::attach(&one, owner, found, None, task).await });
            let delete = tokio::spawn(async move { policies::delete(&other, owner, policy, None).await });
            let (attach, delete) = (attach.await.unwrap(), delete.await.unwrap());
            attached += i32::from(attach.is_ok());
            deleted += i32::from(delete.is_ok());
            assert!(attach.is_ok() != delete.is_ok(), "{attach:?} {delete:?}");
            // The task still resolves, through whatever it points at.
            assert_eq!(desk.read("staging").await, "refused_not_granted");
        }
        assert_eq!(attached + deleted, 25);
    });
}

#[test]
fn of_two_approvers_one_decides() {
    on_desks(|desk| async move {
        let _approver = desk.sits().await;
        desk.grant(TASK, "db_read", "any", "ask").await;
        for n in 0..10 {
            let (waiting, ask) = desk
                .parked(desk.query("staging", &format!("SELECT {n}")).await)
                .await;
            let answers: Vec<_> = [true, false, true]
                .into_iter()
                .map(|yes| {
                    let (app, owner, id) = (desk.app().clone(), desk.owner(), ask.id);
                    tokio::spawn(async move {
                        if yes {
                            access::approve(&app, owner, id, Decider::Page).await
                        } else {
                            access::refuse(&app, owner, id, Decider::CommandLine).await
                        }
                    })
                })
                .collect();
            let mut decided = Vec::new();
            for answer in answers {
                match answer.await.unwrap() {
                    Ok(()) => decided.push(true),
                    Err(AskError::AlreadyDecided(_)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(decided.len(), 1);
            let shown = access::show(desk.app(), desk.owner(), ask.id).await.unwrap();
            let went = ended(waiting).await.is_ok();
            assert_eq!(went, shown.state == access::AskState::Approved);
            desk.advance(std::time::Duration::from_secs(61));
        }
    });
}

#[test]
fn of_two_edits_meant_for_one_revision_one_is_stored() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app().clone(), desk.owner());
        for n in 0..10 {
            let revision = desk.shown().await.revision;
            let edits: Vec<_> = ["allow", "ask", "deny"]
                .into_iter()
                .map(|effect| {
                    let app = app.clone();
                    let edit = policies::Edit {
                        policy: desk.policy,
                        layer: TASK,
                        revision: Some(revision),
                    };
                    tokio::spawn(
                        async move { policies::grant(&app, owner, edit, "db_read", "any", effect).await },
                    )
                })
                .collect();
            let mut stored = 0;
            for edit in edits {
                match edit.await.unwrap() {
                    Ok(()) => stored += 1,
                    Err(error) => assert_eq!(error.code(), "stale_revision"),
                }
            }
            assert_eq!(
                (stored, desk.shown().await.revision),
                (1, revision + 1),
                "round {n}"
            );
        }
    });
}
