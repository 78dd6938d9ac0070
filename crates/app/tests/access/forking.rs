//! Forks: children that own a task layer and read the rest from their root. Never copies what must reach them.

use muster_app::policies::{self, Edit, PolicyError};
use muster_policy::LayerName;
use muster_store::Engine;

use super::kit::{GLOBAL, PROJECT, TASK, chosen, on_desks, tamper};

// spec: POL-077 POL-078 POL-079 POL-081
#[test]
fn a_fork_owns_its_task_layer_and_follows_its_root_in_the_rest() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(GLOBAL, "db_read", "any", "allow").await;
        desk.grant(TASK, "db_read", "db_connection:staging", "allow")
            .await;
        let before = desk.shown().await;
        let fork = policies::fork(app, owner, desk.policy, None, "child", Some(desk.task))
            .await
            .unwrap();
        let child = desk.show(fork.id).await;
        assert_eq!(
            child.parent.as_ref().map(|parent| parent.name.as_str()),
            Some("careful")
        );
        assert_eq!(
            child.layers.task, before.layers.task,
            "a copy of the task layer as it was"
        );
        assert_eq!(child.layers.global, before.layers.global);
        assert_eq!(
            child.dependents.tasks.len(),
            1,
            "the task was repointed in the same step"
        );
        let exported = policies::export(app, owner, vec!["child".to_owned()])
            .await
            .unwrap();
        assert!(exported[0].layers.global.is_none() && exported[0].layers.project.is_none());
        assert_eq!(desk.read("staging").await, "allowed");
        // What is done to the root's task layer stays there.
        desk.revoke(TASK, "db_read", "db_connection:staging").await;
        assert_eq!(desk.read("staging").await, "allowed");
        // What is done to its upper layers reaches the fork at its next call.
        desk.grant(PROJECT, "db_read", "db_connection:prod", "allow")
            .await;
        assert_eq!(desk.read("staging").await, "refused_not_granted");
        policies::clear_layer(app, owner, desk.edit(PROJECT))
            .await
            .unwrap();
        assert_eq!(desk.read("staging").await, "allowed");
        desk.revoke(GLOBAL, "db_read", "any").await;
        assert_eq!(desk.read("staging").await, "refused_not_granted");
    });
}

// spec: POL-080 POL-082
#[test]
fn a_fork_of_a_fork_reads_from_the_root_and_no_fork_authors_an_upper_layer() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(GLOBAL, "db_read", "any", "allow").await;
        desk.grant(TASK, "db_read", "any", "allow").await;
        let child = policies::fork(app, owner, desk.policy, None, "child", None)
            .await
            .unwrap();
        let grandchild = policies::fork(app, owner, child.id, None, "grandchild", Some(desk.task))
            .await
            .unwrap();
        assert_eq!(desk.show(grandchild.id).await.parent.unwrap().name, "child");
        assert_eq!(desk.read("staging").await, "allowed");
        desk.grant(GLOBAL, "db_read", "any", "deny").await;
        assert_eq!(desk.read("staging").await, "refused_denied");
        for layer in [GLOBAL, PROJECT] {
            let edit = Edit {
                policy: grandchild.id,
                layer,
                revision: None,
            };
            for refused in [
                policies::grant(app, owner, edit, "db_read", "any", "allow").await,
                policies::save_empty(app, owner, edit).await,
                policies::clear_layer(app, owner, edit).await,
            ] {
                let refused = refused.unwrap_err();
                assert!(matches!(refused, PolicyError::NotARoot(_)), "{refused}");
                assert_eq!(refused.code(), "not_a_root");
            }
        }
        let blocked = policies::delete(app, owner, child.id, None).await.unwrap_err();
        assert_eq!(blocked.code(), "in_use");
        let blocked = policies::delete(app, owner, desk.policy, None).await.unwrap_err();
        assert_eq!(blocked.dependents().unwrap().forks.len(), 2);
    });
}

#[test]
fn a_fork_without_its_root_grants_nothing() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(GLOBAL, "db_read", "any", "deny").await;
        let root = policies::create(app, owner, "root").await.unwrap();
        let child = policies::fork(app, owner, root, None, "child", Some(desk.task))
            .await
            .unwrap();
        let own = Edit {
            policy: child.id,
            layer: TASK,
            revision: None,
        };
        policies::grant(app, owner, own, "db_read", "any", "allow")
            .await
            .unwrap();
        assert_eq!(desk.read("staging").await, "allowed");
        let gone = format!("DELETE FROM policies WHERE id = {root}");
        tamper(
            &desk,
            desk.pick(
                &["PRAGMA foreign_keys = 0", &gone],
                &[
                    "ALTER TABLE policies DROP CONSTRAINT policies_owner_id_root_id_fkey, DROP CONSTRAINT policies_owner_id_parent_id_fkey",
                    &gone,
                ],
            ),
        )
        .await;
        assert_eq!(desk.read("staging").await, "refused_error");
    });
}

// spec: POL-083
#[test]
fn no_policy_becomes_its_own_ancestor_whatever_writes() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let child = policies::fork(app, owner, desk.policy, None, "child", None)
            .await
            .unwrap();
        let turn = format!(
            "UPDATE policies SET parent_id = {0}, root_id = {0} WHERE id = {1}",
            child.id, desk.policy
        );
        let url = desk.muster.url.clone();
        let refused = match desk.muster.engine {
            Engine::Sqlite => run_sqlite(&url, &turn).await,
            Engine::Postgres => run_postgres(&url, &turn).await,
        };
        assert!(refused.contains("policies_descent_frozen"), "{refused}");
        // An upper layer put into a fork by hand is refused by the database too.
        let layer = format!(
            "INSERT INTO policy_layers (owner_id, policy_id, layer, authored_at) VALUES ({owner}, {}, 'global', 1)",
            child.id
        );
        let refused = match desk.muster.engine {
            Engine::Sqlite => run_sqlite(&url, &layer).await,
            Engine::Postgres => run_postgres(&url, &layer).await,
        };
        assert!(refused.contains("policy_layers_fork_owns_task"), "{refused}");
        tamper(&desk, &["SELECT 1"]).await;
    });
}

async fn run_sqlite(url: &str, statement: &str) -> String {
    use sqlx::{Connection as _, Executor as _};
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(url.strip_prefix("sqlite://").unwrap());
    let mut conn = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let refused = conn
        .execute(sqlx::AssertSqlSafe(statement.to_owned()))
        .await
        .unwrap_err();
    refused.to_string()
}

async fn run_postgres(url: &str, statement: &str) -> String {
    use sqlx::{Connection as _, Executor as _};
    let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
    conn.execute("SELECT set_config('muster.system', 'test', false)")
        .await
        .unwrap();
    let refused = conn
        .execute(sqlx::AssertSqlSafe(statement.to_owned()))
        .await
        .unwrap_err();
    refused.to_string()
}

// spec: POL-075 PRE-025
#[test]
fn a_fork_of_an_empty_layer_is_empty_and_of_an_absent_one_absent() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        let absent = policies::fork(app, owner, desk.policy, None, "of-absent", None)
            .await
            .unwrap();
        assert_eq!(desk.show(absent.id).await.layers.task.state, "absent");
        policies::save_empty(app, owner, desk.edit(LayerName::Task))
            .await
            .unwrap();
        let empty = policies::fork(app, owner, desk.policy, None, "of-empty", None)
            .await
            .unwrap();
        assert_eq!(desk.show(empty.id).await.layers.task.state, "empty");
        assert_eq!(desk.shown().await.revision, 2, "the parent stays as it is");
        let taken = policies::fork(app, owner, desk.policy, None, "of-empty", None)
            .await
            .unwrap_err();
        assert_eq!(taken.code(), "name_taken");
        let none = policies::fork(
            app,
            owner,
            desk.policy,
            None,
            "for-none",
            Some(muster_core::ids::TaskId::new(9_999)),
        )
        .await;
        assert_eq!(none.unwrap_err().code(), "not_found");
        assert!(
            policies::find(app, owner, "for-none").await.is_err(),
            "neither half was kept"
        );
        let _ = chosen(app, owner, "of-empty").await;
    });
}
