//! Tasks: which policy a new one gets, where its status goes and who moves it, its runs, its worktree, tickets that become tasks.

use muster_app::accounts::{self, TokenError};
use muster_app::projects;
use muster_app::tasks::{
    self, By, MadeWorktree, NewRun, PolicyChoice, RunState, StatusRefusal, TaskError, TaskPolicy, TaskStatus,
    Ticket, TicketKey,
};
use muster_core::Fault;
use muster_core::ids::{AskId, HostId, IntegrationId, PolicyId, ProjectId, RunId, TaskId, TokenId};
use muster_core::text::{AgentLabel, Label};
use muster_store::{Sql, owned};
use muster_testkit::{add_owner, on_both};

use super::kit::{
    add_policy, body, delete_policy, events, host, integration, project, task, title, try_task,
};

const AGENT: By = By::Agent(TokenId::new(7));

static PARK: Sql = owned(
    "test.park",
    "INSERT INTO asks (owner_id, state, kind, token_id, task_id, tool, arguments, pairs, parking_key, approval_key, created_at, expires_at) VALUES ($1, 'parked', 'permission', $2, $3, 'a_tool', '{}', '[]', $4, 'k', 1, 2) RETURNING id",
);
static ASK: Sql = owned(
    "test.ask",
    "SELECT state FROM asks WHERE owner_id = $1 AND id = $2",
);
static UNSCOPE: Sql = owned(
    "test.unscope",
    "UPDATE tasks SET unscoped = TRUE, policy_id = NULL WHERE owner_id = $1 AND id = $2",
);

#[test]
fn a_new_task_gets_the_policy_that_was_chosen_or_its_projects_or_the_closed_one() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let (careful, bold) = (
            add_policy(app, owner, "careful").await,
            add_policy(app, owner, "bold").await,
        );
        let is = |id: PolicyId, name: &str| TaskPolicy::Policy {
            id,
            name: name.to_owned(),
            revision: 3,
        };
        let by_choice = async |policy| {
            let made = try_task(app, owner, By::Owner, home.id, policy).await.unwrap();
            assert_eq!(tasks::find(app, owner, made.id).await.unwrap(), made);
            made.policy
        };
        assert_eq!(by_choice(PolicyChoice::Default).await, TaskPolicy::Closed);
        projects::set_default(app, owner, home.id, Some(careful))
            .await
            .unwrap();
        assert_eq!(by_choice(PolicyChoice::Default).await, is(careful, "careful"));
        assert_eq!(by_choice(PolicyChoice::Policy(bold)).await, is(bold, "bold"));
        assert_eq!(by_choice(PolicyChoice::Closed).await, TaskPolicy::Closed);
        assert_eq!(by_choice(PolicyChoice::Unscoped).await, TaskPolicy::Unscoped);
        let policies: Vec<TaskPolicy> = tasks::list(app, owner, None)
            .await
            .unwrap()
            .into_iter()
            .map(|task| task.policy)
            .collect();
        assert_eq!(
            policies,
            [
                TaskPolicy::Closed,
                is(careful, "careful"),
                is(bold, "bold"),
                TaskPolicy::Closed,
                TaskPolicy::Unscoped
            ],
            "a default that is set later changes no task that is there"
        );
    });
}

#[test]
fn an_agents_task_gets_the_projects_policy_or_the_closed_one_and_no_other() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let careful = add_policy(app, owner, "careful").await;
        let made = try_task(app, owner, AGENT, home.id, PolicyChoice::Default)
            .await
            .unwrap();
        assert_eq!(
            (made.policy, made.created_by.as_str()),
            (TaskPolicy::Closed, "agent:7")
        );
        for choice in [
            PolicyChoice::Unscoped,
            PolicyChoice::Policy(careful),
            PolicyChoice::Closed,
        ] {
            assert!(matches!(
                try_task(app, owner, AGENT, home.id, choice).await,
                Err(TaskError::PolicyNotYours)
            ));
        }
        assert_eq!(tasks::list(app, owner, None).await.unwrap().len(), 1);
        let rows = events(&muster, "task.add").await;
        assert_eq!((rows.len(), rows[0].actor.as_str()), (1, "agent:7"));
    });
}

#[test]
fn a_task_points_at_its_owners_rows_only() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let (mine, theirs) = (
            project(app, owner, "engine").await,
            project(app, bob, "engine").await,
        );
        let policy = add_policy(app, bob, "careful").await;
        for choice in [
            PolicyChoice::Policy(policy),
            PolicyChoice::Policy(PolicyId::new(999)),
        ] {
            assert!(matches!(
                try_task(app, owner, By::Owner, mine.id, choice).await,
                Err(TaskError::NoPolicy)
            ));
        }
        for project in [theirs.id, ProjectId::new(999)] {
            assert!(matches!(
                try_task(app, owner, By::Owner, project, PolicyChoice::Default).await,
                Err(TaskError::NoProject)
            ));
        }
        let hers = task(app, bob, theirs.id).await;
        assert!(matches!(
            tasks::find(app, owner, hers.id).await,
            Err(TaskError::NotFound)
        ));
        assert!(matches!(
            tasks::close(app, owner, By::Owner, hers.id).await,
            Err(TaskError::NotFound)
        ));
        assert!(matches!(
            tasks::set_status(app, owner, By::Owner, hers.id, TaskStatus::InProgress).await,
            Err(TaskError::NotFound)
        ));
        assert!(matches!(
            tasks::spawn(app, owner, By::Owner, hers.id, NewRun::default()).await,
            Err(TaskError::NotFound)
        ));
        assert_eq!(tasks::list(app, owner, None).await.unwrap(), []);
        assert_eq!(tasks::list(app, owner, Some(theirs.id)).await.unwrap(), []);
        projects::remove(app, owner, mine.id).await.unwrap();
        assert!(matches!(
            try_task(app, owner, By::Owner, mine.id, PolicyChoice::Default).await,
            Err(TaskError::NoProject)
        ));
    });
}

#[test]
fn outside_text_is_kept_to_the_letter() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let hostile = "'; DROP TABLE tasks; -- \u{1b}[31m\u{202e}\u{200b}<script>\n\\u{0}";
        let new = tasks::NewTask {
            project: home.id,
            title: title(hostile),
            body: body(hostile),
            policy: PolicyChoice::Default,
        };
        let made = tasks::add(app, owner, By::Owner, new).await.unwrap();
        let found = tasks::find(app, owner, made.id).await.unwrap();
        assert_eq!(
            (found.title.as_str(), found.body.as_deref()),
            (hostile, Some(hostile))
        );
        let listed = tasks::list(app, owner, Some(home.id)).await.unwrap();
        assert_eq!(
            (listed[0].title.as_str(), listed[0].body.as_deref()),
            (hostile, None)
        );
        // And not a word of it in the audit log.
        let rows = events(&muster, "task.add").await;
        assert!(!rows[0].data.to_string().contains("DROP"));
    });
}

// spec: POL-018
#[test]
fn an_agents_status_move_never_closes_and_never_reopens() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let id = task(app, owner, home.id).await.id;
        let set = async |by, to| {
            tasks::set_status(app, owner, by, id, to)
                .await
                .map(|task| task.status)
        };
        assert_eq!(
            set(AGENT, TaskStatus::InProgress).await.unwrap(),
            TaskStatus::InProgress
        );
        assert!(matches!(
            set(AGENT, TaskStatus::Closed).await,
            Err(TaskError::Status(StatusRefusal::ClosesByMove))
        ));
        assert_eq!(
            set(AGENT, TaskStatus::InProgress).await.unwrap(),
            TaskStatus::InProgress
        );
        let closed = tasks::close(app, owner, AGENT, id).await.unwrap();
        assert!(closed.status == TaskStatus::Closed && closed.closed_at.is_some());
        assert!(matches!(
            set(AGENT, TaskStatus::Open).await,
            Err(TaskError::Status(StatusRefusal::ReopensAsAgent))
        ));
        // Closing twice is closing.
        assert_eq!(tasks::close(app, owner, AGENT, id).await.unwrap(), closed);
        let open = tasks::set_status(app, owner, By::Owner, id, TaskStatus::Open)
            .await
            .unwrap();
        assert_eq!((open.status, open.closed_at), (TaskStatus::Open, None));
        assert_eq!(
            set(By::Owner, TaskStatus::Closed).await.unwrap(),
            TaskStatus::Closed
        );
        // Each move that happened has one row; what stayed or was refused has none.
        let moves = events(&muster, "task.set_status").await;
        let to: Vec<_> = moves.iter().map(|row| row.data["to"].clone()).collect();
        assert_eq!(to, ["in_progress", "open"]);
        assert_eq!(events(&muster, "task.close").await.len(), 2);
    });
}

#[test]
fn a_closed_task_of_a_removed_project_stays_closed() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let id = task(app, owner, home.id).await.id;
        tasks::close(app, owner, By::Owner, id).await.unwrap();
        projects::remove(app, owner, home.id).await.unwrap();
        assert!(matches!(
            tasks::set_status(app, owner, By::Owner, id, TaskStatus::Open).await,
            Err(TaskError::ProjectRemoved)
        ));
        assert_eq!(
            tasks::find(app, owner, id).await.unwrap().status,
            TaskStatus::Closed
        );
    });
}

#[test]
fn a_task_never_loses_its_policy_whatever_writes() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let id = task(app, owner, home.id).await.id;
        let done: Result<u64, Fault> = app
            .db
            .write(owner, move |tx| {
                Box::pin(async move { tx.run(&UNSCOPE, (id,)).await })
            })
            .await;
        assert_eq!(done.unwrap_err().constraint(), Some("tasks_never_unscoped_later"));
        assert_eq!(
            tasks::find(app, owner, id).await.unwrap().policy,
            TaskPolicy::Closed
        );
    });
}

#[test]
fn closing_a_task_cancels_its_queued_runs_and_withdraws_what_its_agents_asked() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let home = project(app, owner, "engine").await;
        let (one, other) = (task(app, owner, home.id).await, task(app, owner, home.id).await);
        let label = || AgentLabel::parse("label", "worker").unwrap();
        let park = async |task: TaskId, key: &'static str| {
            let token = accounts::create_agent_token(app, owner, label(), task)
                .await
                .unwrap()
                .id;
            let id: Result<i64, Fault> = app
                .db
                .write(owner, move |tx| {
                    Box::pin(async move { tx.number(&PARK, (token, task, key)).await })
                })
                .await;
            AskId::new(id.unwrap())
        };
        let state = async |ask: AskId| {
            let row: Result<(String,), Fault> = app
                .db
                .read(owner, move |tx| {
                    Box::pin(async move { tx.one(&ASK, (ask,)).await })
                })
                .await;
            row.unwrap().0
        };
        let (asked, elsewhere) = (park(one.id, "a").await, park(other.id, "b").await);
        let spawn = async |task| {
            tasks::spawn(app, owner, By::Owner, task, NewRun::default())
                .await
                .unwrap()
        };
        let (first, second, theirs) = (spawn(one.id).await, spawn(one.id).await, spawn(other.id).await);
        tasks::cancel_run(app, owner, By::Owner, first.id).await.unwrap();
        let closed = tasks::close(app, owner, By::Owner, one.id).await.unwrap();
        assert!(closed.runs.iter().all(|run| run.state == RunState::Cancelled) && closed.runs.len() == 2);
        assert_eq!(
            (state(asked).await, state(elsewhere).await),
            ("withdrawn".into(), "parked".into())
        );
        let kept = tasks::find(app, owner, other.id).await.unwrap();
        assert_eq!(
            (kept.runs.len(), kept.runs[0].id, kept.runs[0].state),
            (1, theirs.id, RunState::Queued)
        );
        let row = &events(&muster, "task.close").await[0];
        assert_eq!(
            row.data["cancelled_runs"],
            serde_json::json!([second.id.to_string()])
        );
        assert_eq!(row.data["withdrawn_asks"], 1);
        // No new agent and no new run for a closed task.
        assert!(matches!(
            accounts::create_agent_token(app, owner, label(), one.id).await,
            Err(TokenError::NoTask)
        ));
        assert!(matches!(
            tasks::spawn(app, owner, By::Owner, one.id, NewRun::default()).await,
            Err(TaskError::Closed)
        ));
    });
}

#[test]
fn a_queued_run_holds_its_tasks_policy_until_it_is_taken_back() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let home = project(app, owner, "engine").await;
        let careful = add_policy(app, owner, "careful").await;
        let under = try_task(app, owner, By::Owner, home.id, PolicyChoice::Policy(careful))
            .await
            .unwrap();
        let (tower, theirs) = (host(app, owner, "tower").await, host(app, bob, "tower").await);
        for host in [theirs.id, HostId::new(999)] {
            let new = NewRun {
                host: Some(host),
                ..NewRun::default()
            };
            assert!(matches!(
                tasks::spawn(app, owner, By::Owner, under.id, new).await,
                Err(TaskError::NoHost)
            ));
        }
        let new = NewRun {
            host: Some(tower.id),
            profile: Some(Label::parse("profile", "fast").unwrap()),
            prompt: Some(body("be quick")),
        };
        let run = tasks::spawn(app, owner, AGENT, under.id, new).await.unwrap();
        assert_eq!((run.task, run.state), (under.id, RunState::Queued));
        let holders: Result<i64, Fault> = app
            .db
            .read(owner, move |tx| {
                Box::pin(async move { tx.number(&HOLDERS, (careful,)).await })
            })
            .await;
        assert_eq!(holders.unwrap(), 1);
        for (owner, id) in [(bob, run.id), (owner, RunId::new(999))] {
            assert!(matches!(
                tasks::cancel_run(app, owner, By::Owner, id).await,
                Err(TaskError::NoRun)
            ));
        }
        let cancelled = tasks::cancel_run(app, owner, By::Owner, run.id).await.unwrap();
        assert_eq!((cancelled.id, cancelled.state), (run.id, RunState::Cancelled));
        assert!(matches!(
            tasks::cancel_run(app, owner, By::Owner, run.id).await,
            Err(TaskError::NotQueued)
        ));
        let holders: Result<i64, Fault> = app
            .db
            .read(owner, move |tx| {
                Box::pin(async move { tx.number(&HOLDERS, (careful,)).await })
            })
            .await;
        assert_eq!(holders.unwrap(), 0);
        // The task holds it still.
        assert!(!delete_policy(app, owner, careful).await);
        let rows = events(&muster, "task.spawn").await;
        assert_eq!(
            (rows[0].actor.as_str(), rows[0].data["run"].as_str()),
            ("agent:7", Some(run.id.to_string().as_str()))
        );
        assert_eq!(events(&muster, "task.cancel_run").await.len(), 1);
    });
}

static HOLDERS: Sql = owned(
    "test.holders",
    "SELECT count(*) FROM runs WHERE owner_id = $1 AND policy_id = $2",
);

#[test]
fn a_ticket_becomes_a_task_once_in_each_project() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let (home, other) = (
            project(app, owner, "engine").await,
            project(app, owner, "motor").await,
        );
        let careful = add_policy(app, owner, "careful").await;
        projects::set_default(app, owner, home.id, Some(careful))
            .await
            .unwrap();
        let (hub, lab) = (
            integration(app, owner, "hub").await.id,
            integration(app, owner, "lab").await.id,
        );
        let ticket = |integration: IntegrationId, key: &str, text: &str| Ticket {
            integration,
            key: TicketKey::parse(key).unwrap(),
            title: title(text),
            body: body("as the ticket says"),
        };
        let import = async |project, ticket| tasks::import(app, owner, AGENT, project, ticket).await;
        let (made, created) = import(home.id, ticket(hub, "ada/engine#7", "first"))
            .await
            .unwrap();
        assert!(created);
        assert!(matches!(made.policy, TaskPolicy::Policy { id, .. } if id == careful));
        let source = made.source.clone().unwrap();
        assert_eq!((source.integration, source.key.as_str()), (hub, "ada/engine#7"));
        tasks::close(app, owner, By::Owner, made.id).await.unwrap();
        let (again, created) = import(home.id, ticket(hub, "ada/engine#7", "second"))
            .await
            .unwrap();
        assert_eq!(
            (again.id, again.title.as_str(), again.status, created),
            (made.id, "first", TaskStatus::Closed, false)
        );
        for (project, ticket) in [
            (home.id, ticket(hub, "ada/engine#8", "x")),
            (home.id, ticket(lab, "ada/engine#7", "x")),
            (other.id, ticket(hub, "ada/engine#7", "x")),
        ] {
            assert!(import(project, ticket).await.unwrap().1);
        }
        assert_eq!(tasks::list(app, owner, None).await.unwrap().len(), 4);
        assert_eq!(tasks::list(app, owner, Some(home.id)).await.unwrap().len(), 3);
        assert!(matches!(
            import(home.id, ticket(IntegrationId::new(999), "ada/engine#9", "x")).await,
            Err(TaskError::NoIntegration)
        ));
        assert!(matches!(
            import(ProjectId::new(999), ticket(hub, "ada/engine#9", "x")).await,
            Err(TaskError::NoProject)
        ));
        assert_eq!(events(&muster, "task.add").await.len(), 4);
    });
}

#[test]
fn a_task_has_one_worktree_and_the_first_one_stays() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let home = project(app, owner, "engine").await;
        let (one, two) = (
            task(app, owner, home.id).await.id,
            task(app, owner, home.id).await.id,
        );
        let made = |path: &str| MadeWorktree {
            path: path.to_owned(),
            branch: "muster/task-1".to_owned(),
            base: "main".to_owned(),
        };
        let noted = tasks::record_worktree(app, owner, By::Owner, one, made("/a"))
            .await
            .unwrap();
        let again = tasks::record_worktree(app, owner, AGENT, one, made("/b"))
            .await
            .unwrap();
        assert_eq!((again.id, again.path.as_str()), (noted.id, "/a"));
        assert_eq!(tasks::find(app, owner, one).await.unwrap().worktree, Some(noted));
        assert_eq!(tasks::find(app, owner, two).await.unwrap().worktree, None);
        assert!(matches!(
            tasks::record_worktree(app, bob, By::Owner, two, made("/c")).await,
            Err(TaskError::NotFound)
        ));
        tasks::close(app, owner, By::Owner, two).await.unwrap();
        assert!(matches!(
            tasks::record_worktree(app, owner, By::Owner, two, made("/c")).await,
            Err(TaskError::Closed)
        ));
        assert_eq!(events(&muster, "task.worktree").await.len(), 1);
    });
}

/// A git repository with one commit, made as a person makes it.
fn repository(folder: &std::path::Path) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join("file"), "one\n").unwrap();
    for words in [
        &["init", "-q", "-b", "main"][..],
        &["add", "file"],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-q",
            "-m",
            "one",
        ],
    ] {
        let done = std::process::Command::new("git")
            .args(words)
            .current_dir(folder)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(done.status.success(), "{words:?} {done:?}");
    }
}

#[test]
fn a_worktree_is_made_of_the_projects_repository_and_shown_after_the_task_is_closed() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let root = app.settings.data_dir.join("source");
        repository(&root);
        let new = projects::NewProject {
            name: super::kit::slug("engine"),
            root,
            repo: None,
        };
        let home = projects::add(app, owner, new).await.unwrap();
        let (id, closed) = (
            task(app, owner, home.id).await.id,
            task(app, owner, home.id).await.id,
        );
        let made = tasks::worktree(app, owner, AGENT, id).await.unwrap();
        assert_eq!(
            (made.branch.as_str(), made.base.as_str()),
            (format!("muster/task-{id}").as_str(), "main")
        );
        assert_eq!(
            std::fs::read_to_string(std::path::Path::new(&made.path).join("file")).unwrap(),
            "one\n"
        );
        let events = events(&muster, "task.worktree").await;
        assert_eq!((events.len(), events[0].actor.as_str()), (1, "agent:7"));
        // A folder that went away is made again and is the same worktree.
        std::fs::remove_dir_all(&made.path).unwrap();
        assert_eq!(tasks::worktree(app, owner, By::Owner, id).await.unwrap(), made);
        assert!(std::path::Path::new(&made.path).join("file").exists());
        tasks::close(app, owner, By::Owner, id).await.unwrap();
        tasks::close(app, owner, By::Owner, closed).await.unwrap();
        assert_eq!(tasks::worktree(app, owner, By::Owner, id).await.unwrap(), made);
        assert!(matches!(
            tasks::worktree(app, owner, By::Owner, closed).await,
            Err(TaskError::Closed)
        ));
        assert!(matches!(
            tasks::worktree(app, bob, By::Owner, id).await,
            Err(TaskError::NotFound)
        ));
        // No repository, no worktree, and nothing noted.
        let bare = project(app, owner, "bare").await;
        let id = task(app, owner, bare.id).await.id;
        assert!(matches!(
            tasks::worktree(app, owner, By::Owner, id).await,
            Err(TaskError::Worktree(_))
        ));
        assert_eq!(tasks::find(app, owner, id).await.unwrap().worktree, None);
    });
}

#[test]
fn an_agents_token_knows_its_task_and_its_label() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let bob = add_owner(app, "bob").await;
        let home = project(app, owner, "engine").await;
        let id = task(app, owner, home.id).await.id;
        let label = || AgentLabel::parse("label", "worker\u{202e}\u{1b}").unwrap();
        let made = accounts::create_agent_token(app, owner, label(), id)
            .await
            .unwrap();
        let caller = accounts::agent(app, made.token.expose()).await.unwrap().unwrap();
        assert_eq!(
            (
                caller.owner,
                caller.token,
                caller.chief,
                caller.task,
                caller.label.as_str()
            ),
            (owner, made.id, None, Some(id), "worker\u{202e}\u{1b}")
        );
        let listed = accounts::tokens(app, owner).await.unwrap();
        let shown = listed[0].task.clone().unwrap();
        assert_eq!((shown.id, shown.title.as_str()), (id, "a title"));
        for (owner, task) in [(bob, id), (owner, TaskId::new(999))] {
            assert!(matches!(
                accounts::create_agent_token(app, owner, label(), task).await,
                Err(TokenError::NoTask)
            ));
        }
        assert_eq!(accounts::tokens(app, bob).await.unwrap().len(), 0);
    });
}
