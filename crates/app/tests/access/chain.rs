//! The audit log's chain: what was changed, removed or put in shows. Never repaired.

use muster_app::audit;

use super::kit::{TASK, on_desks, tamper};

// spec: AUDIT-009
#[test]
fn a_log_that_was_tampered_with_is_found_out() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.grant(TASK, "db_read", "any", "allow").await;
        for _ in 0..5 {
            desk.read("staging").await;
        }
        let whole = audit::verify(&app.db, owner).await.unwrap();
        assert!(
            whole.ok && whole.rows >= 10 && whole.first_bad.is_none(),
            "{whole:?}"
        );
        let rows = desk.calls().await;
        let off = desk.pick(
            &[
                "DROP TRIGGER audit_append_only_update",
                "DROP TRIGGER audit_append_only_delete",
            ],
            &[
                "DROP TRIGGER audit_append_only_update ON audit",
                "DROP TRIGGER audit_append_only_delete ON audit",
            ],
        );
        tamper(&desk, off).await;
        let (second, third, last) = (rows[1].id, rows[2].id, rows[4].id);
        // Changed.
        let set = |outcome: &str| format!("UPDATE audit SET outcome = '{outcome}' WHERE id = {second}");
        tamper(&desk, &[&set("refused_denied")]).await;
        let found = audit::verify(&app.db, owner).await.unwrap();
        assert_eq!((found.ok, found.first_bad), (false, Some(second.to_string())));
        tamper(&desk, &[&set("allowed")]).await;
        assert!(audit::verify(&app.db, owner).await.unwrap().ok);
        // Removed from the middle; the row after it does not follow.
        let columns = "owner_id, at, actor, event, subject, data, agent, task, tool, outcome, hash";
        let copy = format!("CREATE TABLE kept AS SELECT id, {columns} FROM audit");
        tamper(&desk, &[&copy, &format!("DELETE FROM audit WHERE id = {second}")]).await;
        let found = audit::verify(&app.db, owner).await.unwrap();
        assert_eq!((found.ok, found.first_bad), (false, Some(third.to_string())));
        let back = desk.pick(
            &["INSERT INTO audit (id, owner_id, at, actor, event, subject, data, agent, task, tool, outcome, hash) SELECT id, owner_id, at, actor, event, subject, data, agent, task, tool, outcome, hash FROM kept WHERE id NOT IN (SELECT id FROM audit)"],
            &["INSERT INTO audit (id, owner_id, at, actor, event, subject, data, agent, task, tool, outcome, hash) OVERRIDING SYSTEM VALUE SELECT id, owner_id, at, actor, event, subject, data, agent, task, tool, outcome, hash FROM kept WHERE id NOT IN (SELECT id FROM audit)"],
        );
        let head = format!(
            "UPDATE audit_heads SET length = length - 1, hash = (SELECT hash FROM kept WHERE id = {last}) WHERE owner_id = {owner}"
        );
        tamper(&desk, &[back[0], &head]).await;
        assert!(audit::verify(&app.db, owner).await.unwrap().ok);
        // Removed at the end.
        tamper(&desk, &[&format!("DELETE FROM audit WHERE id = {last}")]).await;
        let found = audit::verify(&app.db, owner).await.unwrap();
        assert_eq!((found.ok, found.first_bad), (false, None));
        tamper(&desk, &[back[0], &head]).await;
        assert!(audit::verify(&app.db, owner).await.unwrap().ok);
        // Bytes that are no text, which SQLite keeps.
        let bytes = format!("UPDATE audit SET data = CAST(x'ff' AS TEXT) WHERE id = {second}");
        let whole = format!(
            "UPDATE audit SET data = (SELECT data FROM kept WHERE id = {second}) WHERE id = {second}"
        );
        if !desk.pick(&["here"], &[]).is_empty() {
            tamper(&desk, &[&bytes]).await;
            let found = audit::verify(&app.db, owner).await.unwrap();
            assert_eq!((found.ok, found.first_bad), (false, Some(second.to_string())));
            tamper(&desk, &[&whole]).await;
            assert!(audit::verify(&app.db, owner).await.unwrap().ok);
        }
        // Put in, as a copy of a row that is there.
        let put = format!("INSERT INTO audit ({columns}) SELECT {columns} FROM audit WHERE id = {third}");
        tamper(&desk, &[&put]).await;
        let found = audit::verify(&app.db, owner).await.unwrap();
        assert!(!found.ok && found.first_bad.is_some());
        // What follows is chained on, and the bad row stays the first.
        let bad = found.first_bad;
        desk.read("staging").await;
        assert_eq!(audit::verify(&app.db, owner).await.unwrap().first_bad, bad);
    });
}

#[test]
fn a_row_put_in_before_all_others_shows_and_so_does_a_chain_without_its_end() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        desk.read("staging").await;
        assert!(audit::verify(&app.db, owner).await.unwrap().ok);
        // As an intruder who knows how the end of the chain is kept.
        let put = desk.pick(
            &["DROP TRIGGER audit_head_moves", "INSERT INTO audit (id, owner_id, at, actor, event, subject, data, hash) SELECT -1, owner_id, at, actor, event, subject, data, hash FROM audit ORDER BY id LIMIT 1"],
            &["DROP TRIGGER audit_head_moves ON audit", "INSERT INTO audit (id, owner_id, at, actor, event, subject, data, hash) OVERRIDING SYSTEM VALUE SELECT -1, owner_id, at, actor, event, subject, data, hash FROM audit ORDER BY id LIMIT 1"],
        );
        tamper(&desk, put).await;
        assert!(!audit::verify(&app.db, owner).await.unwrap().ok);
        let gone = desk.pick(
            &["DROP TRIGGER audit_append_only_delete"],
            &["DROP TRIGGER audit_append_only_delete ON audit"],
        );
        tamper(&desk, &[gone[0], "DELETE FROM audit WHERE id = -1"]).await;
        assert!(audit::verify(&app.db, owner).await.unwrap().ok);
        // One without a hash, as from before there was a chain.
        let old = desk.pick(
            &["INSERT INTO audit (id, owner_id, at, actor, event, subject, data, hash) SELECT -1, owner_id, at, actor, event, subject, data, '' FROM audit ORDER BY id LIMIT 1"],
            &["INSERT INTO audit (id, owner_id, at, actor, event, subject, data, hash) OVERRIDING SYSTEM VALUE SELECT -1, owner_id, at, actor, event, subject, data, '' FROM audit ORDER BY id LIMIT 1"],
        );
        tamper(&desk, old).await;
        let found = audit::verify(&app.db, owner).await.unwrap();
        assert_eq!((found.ok, found.first_bad.as_deref()), (false, Some("-1")));
        tamper(
            &desk,
            &["DELETE FROM audit WHERE id = -1", "DELETE FROM audit_heads"],
        )
        .await;
        let found = audit::verify(&app.db, owner).await.unwrap();
        assert_eq!((found.ok, found.first_bad), (false, None));
    });
}

#[test]
fn many_writers_at_once_make_one_chain() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "any", "allow").await;
        let call = desk.reads("staging").await;
        let calls: Vec<_> = (0..40).map(|_| desk.start(&desk.agent, call.clone())).collect();
        for call in calls {
            super::kit::ended(call).await.unwrap();
        }
        let found = audit::verify(&desk.app().db, desk.owner()).await.unwrap();
        assert!(found.ok, "{found:?}");
        assert_eq!(desk.calls().await.len(), 40);
    });
}

#[test]
fn rows_that_changed_places_show_and_a_number_alone_says_nothing() {
    on_desks(|desk| async move {
        let (app, owner) = (desk.app(), desk.owner());
        for _ in 0..4 {
            desk.read("staging").await;
        }
        let off = desk.pick(
            &["DROP TRIGGER audit_append_only_update"],
            &[
                "DROP TRIGGER audit_append_only_update ON audit",
                "ALTER TABLE audit ALTER COLUMN id DROP IDENTITY",
            ],
        );
        tamper(&desk, off).await;
        let rows = desk.calls().await;
        let (first, second) = (rows[1].id.get(), rows[2].id.get());
        let swap = async || {
            let moves = [(first, -first), (second, first), (-first, second)]
                .map(|(from, to)| format!("UPDATE audit SET id = {to} WHERE id = {from}"));
            let moves: Vec<&str> = moves.iter().map(String::as_str).collect();
            tamper(&desk, &moves).await;
        };
        swap().await;
        let found = audit::verify(&app.db, owner).await.unwrap();
        assert_eq!((found.ok, found.first_bad), (false, Some(first.to_string())));
        swap().await;
        assert!(audit::verify(&app.db, owner).await.unwrap().ok);
        // The order is what the chain holds: another number in the same place is the same log.
        let last = rows[3].id.get();
        tamper(
            &desk,
            &[&format!("UPDATE audit SET id = {} WHERE id = {last}", last + 50)],
        )
        .await;
        assert!(audit::verify(&app.db, owner).await.unwrap().ok);
    });
}

#[test]
fn a_row_that_is_no_text_is_listed_as_far_as_it_goes_and_hides_no_other() {
    on_desks(|desk| async move {
        for _ in 0..3 {
            desk.read("staging").await;
        }
        let rows = desk.calls().await;
        let off = desk.pick(
            &["DROP TRIGGER audit_append_only_update"],
            &["DROP TRIGGER audit_append_only_update ON audit"],
        );
        tamper(&desk, off).await;
        let broken = rows[1].id;
        // What is no JSON both engines keep, bytes that are no text SQLite alone.
        let columns = desk.pick(
            &[
                "data", "tool", "outcome", "actor", "subject", "hash", "agent", "task",
            ],
            &["data"],
        );
        for column in columns {
            let bytes = desk.pick(&["CAST(x'ff' AS TEXT)"], &["'{'"])[0];
            tamper(
                &desk,
                &[&format!(
                    "UPDATE audit SET {column} = {bytes} WHERE id = {broken}"
                )],
            )
            .await;
        }
        let listed = desk.calls().await;
        assert_eq!(
            listed.iter().map(|row| row.id).collect::<Vec<_>>(),
            rows.iter().map(|row| row.id).collect::<Vec<_>>()
        );
        let mut unreadable = listed[1].unreadable.clone();
        unreadable.sort_unstable();
        let mut columns = columns.to_vec();
        columns.sort_unstable();
        assert_eq!(unreadable, columns);
        assert!(listed[1].data.is_null());
        if columns.len() > 1 {
            assert_eq!(listed[1].tool.as_deref(), Some(audit::UNREADABLE));
            // An event that is none is among all events.
            tamper(
                &desk,
                &[&format!(
                    "UPDATE audit SET event = CAST(x'ff' AS TEXT) WHERE id = {broken}"
                )],
            )
            .await;
            let all = audit::list(&desk.app().db, desk.owner(), audit::Filter::default())
                .await
                .unwrap();
            let found = all.iter().find(|row| row.id == broken).unwrap();
            assert_eq!(found.event, audit::UNREADABLE);
        }
        for whole in [0, 2] {
            assert_eq!(listed[whole].unreadable, [""; 0]);
            assert_eq!(listed[whole].hash, rows[whole].hash);
        }
        let found = audit::verify(&desk.app().db, desk.owner()).await.unwrap();
        assert_eq!((found.ok, found.first_bad), (false, Some(broken.to_string())));
    });
}
