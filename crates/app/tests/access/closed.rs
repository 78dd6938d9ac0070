//! What an ask does when nobody can be asked: as the owner's setting says, each time anew. Never cached.

use muster_app::access::{self, AskState};
use muster_app::settings;

use super::kit::{TASK, at, on_desks, tamper};

// spec: ASK-026 ASK-027 ASK-028 ASK-029 ASK-036 AUDIT-003
#[test]
fn with_nobody_to_ask_the_shipped_setting_lets_the_call_run_and_says_so_in_a_row_each() {
    on_desks(|desk| async move {
        let shipped = settings::get(desk.app(), desk.owner(), settings::REQUIRE_WHEN_CLOSED).await;
        assert_eq!(shipped.value, serde_json::json!(false));
        desk.grant(TASK, "db_read", "any", "ask").await;
        for _ in 0..3 {
            assert_eq!(desk.read("staging").await, "auto_allowed_app_closed");
        }
        assert_eq!(desk.outcomes().await, ["auto_allowed_app_closed"; 3]);
        let row = desk.newest_call().await;
        assert_eq!(at(&row.data, "/decided_by"), &serde_json::json!(null));
        assert!(desk.asks(AskState::Parked).await.is_empty());
    });
}

// spec: ASK-030 ASK-032 ASK-033 ASK-034 ASK-035 ASK-039
#[test]
fn neither_the_fallback_nor_the_strict_refusal_is_remembered() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "any", "ask").await;
        assert_eq!(desk.read("staging").await, "auto_allowed_app_closed");
        // Somebody comes: the same call parks.
        let approver = desk.sits().await;
        let (waiting, _) = desk.parked(desk.reads("staging").await).await;
        waiting.abort();
        desk.until_parked(0).await;
        // And leaves: it follows the setting again.
        approver.leave().await.unwrap();
        assert_eq!(desk.read("staging").await, "auto_allowed_app_closed");
        desk.set(settings::REQUIRE_WHEN_CLOSED, "true").await;
        assert_eq!(desk.read("staging").await, "refused_app_closed_strict");
        let approver = desk.sits().await;
        let (waiting, _) = desk.parked(desk.reads("staging").await).await;
        waiting.abort();
        desk.until_parked(0).await;
        approver.leave().await.unwrap();
        assert_eq!(desk.read("staging").await, "refused_app_closed_strict");
        desk.set(settings::REQUIRE_WHEN_CLOSED, "false").await;
        assert_eq!(desk.read("staging").await, "auto_allowed_app_closed");
    });
}

// spec: ASK-031
#[test]
fn a_setting_that_cannot_be_read_counts_as_strict() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "any", "ask").await;
        desk.set(settings::REQUIRE_WHEN_CLOSED, "false").await;
        for unreadable in ["", "FALSE", "no", "0", "fals"] {
            let set =
                format!("UPDATE settings SET value = '{unreadable}' WHERE key = 'asks.require_when_closed'");
            tamper(&desk, &[&set]).await;
            assert_eq!(
                desk.read("staging").await,
                "refused_app_closed_strict",
                "{unreadable:?}"
            );
            let shown = settings::get(desk.app(), desk.owner(), settings::REQUIRE_WHEN_CLOSED).await;
            assert_eq!(shown.value, serde_json::json!(null));
        }
        // Bytes that are no text at all: SQLite keeps them where Postgres would not.
        let bytes = "UPDATE settings SET value = CAST(x'ff' AS TEXT) WHERE key = 'asks.require_when_closed'";
        tamper(&desk, desk.pick(&[bytes], &[])).await;
        let refused = desk.read("staging").await;
        assert!(
            ["refused_error", "refused_app_closed_strict"].contains(&refused.as_str()),
            "{refused}"
        );
        let all = settings::list(desk.app(), desk.owner()).await;
        assert_eq!(all[0].value, serde_json::json!(null));
        desk.set(settings::REQUIRE_WHEN_CLOSED, "false").await;
        assert_eq!(desk.read("staging").await, "auto_allowed_app_closed");
    });
}

// spec: ASK-038 AUDIT-007
#[test]
fn the_setting_says_what_it_does_and_a_change_of_it_is_recorded() {
    on_desks(|desk| async move {
        let shown = settings::get(desk.app(), desk.owner(), settings::REQUIRE_WHEN_CLOSED).await;
        assert!(
            shown
                .description
                .contains("ask behaves as allow whenever nobody can be asked")
        );
        desk.set(settings::REQUIRE_WHEN_CLOSED, "true").await;
        let rows = desk.rows("setting.set").await;
        assert_eq!(rows.len(), 1);
        assert_eq!(at(&rows[0].data, "/key"), "asks.require_when_closed");
        assert_eq!(at(&rows[0].data, "/value"), true);
        let refused = settings::set(desk.app(), desk.owner(), settings::REQUIRE_WHEN_CLOSED, "yes").await;
        assert!(refused.is_err());
        assert_eq!(desk.rows("setting.set").await.len(), 1);
    });
}

// spec: ASK-039
#[test]
fn somebody_who_was_killed_is_not_there_any_more() {
    on_desks(|desk| async move {
        desk.grant(TASK, "db_read", "any", "ask").await;
        let (second, _) = desk.muster.second().await;
        let approver = access::present(&second, desk.owner(), access::Seat::Watch)
            .await
            .unwrap();
        assert!(access::somebody_present(desk.app(), desk.owner()).await.unwrap());
        tamper(&desk, &["UPDATE approvers SET process = 7"]).await;
        assert!(!access::somebody_present(desk.app(), desk.owner()).await.unwrap());
        assert_eq!(desk.read("staging").await, "auto_allowed_app_closed");
        drop(approver);
        second.tasks.stop().await;
        second.db.close().await;
    });
}

#[test]
fn somebody_whose_lock_was_lost_for_a_moment_is_there_again() {
    on_desks(|desk| async move {
        if desk.muster.engine != muster_store::Engine::Sqlite {
            return;
        }
        desk.grant(TASK, "db_read", "any", "ask").await;
        let _approver = desk.sits().await;
        // Somebody tidied up where locks lie.
        let folder = desk.muster.dir.path().join("locks");
        for file in std::fs::read_dir(folder).unwrap() {
            std::fs::remove_file(file.unwrap().path()).unwrap();
        }
        for _ in 0..1_200 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            if access::somebody_present(desk.app(), desk.owner()).await.unwrap() {
                break;
            }
        }
        let (waiting, _) = desk.parked(desk.reads("staging").await).await;
        waiting.abort();
        desk.until_parked(0).await;
    });
}
