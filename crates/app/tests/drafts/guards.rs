//! Guards: what the database itself refuses, whoever writes, as the app's own role. Never goes through the app to write.

use muster_core::ids::{DraftId, MessageId};
use muster_store::Engine;
use muster_testkit::message;

use super::kit::{Desk, on_desks};

/// Puts a draft of `message` into the table past the app.
fn insert(message: MessageId, state: &str) -> String {
    format!(
        "INSERT INTO drafts (owner_id, plugin_id, message_id, chief_id, body, state, created_at, expires_at) \
         SELECT owner_id, plugin_id, id, chief_id, 'forced', '{state}', 0, 9000000000000000000 FROM messages WHERE id = {message}"
    )
}

// spec: DRF-010 MSG-051
#[test]
fn the_database_refuses_a_draft_for_a_message_that_nobody_may_answer() {
    on_desks(|desk| async move {
        let mut new = message("no-reply");
        new.no_reply = true;
        let (closed, open) = (desk.message_like(new).await, desk.message("open").await);
        let mut raw = desk.raw().await;
        for state in ["pending", "approved", "rejected"] {
            let said = raw.refusal(&insert(closed, state)).await;
            assert!(said.contains("drafts_no_reply_message"), "{said}");
        }
        assert_eq!(desk.states().await, []);
        // Nor may an existing draft be moved to such a message.
        let draft = desk.file(open, "Noon works.").await;
        let said = raw
            .refusal(&format!(
                "UPDATE drafts SET message_id = {closed} WHERE id = {draft}"
            ))
            .await;
        assert!(said.contains("drafts_text_frozen"), "{said}");
    });
}

// spec: MSG-053 MSG-067
#[test]
fn the_database_refuses_to_change_what_a_message_says_of_itself() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let mut raw = desk.raw().await;
        for change in [
            "no_reply = TRUE",
            "sender_verified = FALSE",
            "body = 'other'",
            "sender = NULL",
            "subject = 'other'",
            "external_id = 'other'",
            "thread = 'other'",
            "received_at = 1",
            "stored_at = 1",
            "human_conversation = TRUE",
        ] {
            let said = raw
                .refusal(&format!("UPDATE messages SET {change} WHERE id = {id}"))
                .await;
            assert!(said.contains("messages_content_frozen"), "{change}: {said}");
        }
        // Writing what stands there already is no change.
        assert_eq!(
            raw.run(&format!(
                "UPDATE messages SET no_reply = FALSE, sender_verified = TRUE WHERE id = {id}"
            ))
            .await,
            1
        );
    });
}

// spec: DRF-072 DRF-073
#[test]
fn the_database_refuses_to_change_a_drafts_text_in_any_state() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.file(id, "Noon works.").await;
        let mut raw = desk.raw().await;
        let mut refuse = async || {
            for change in [
                "body = 'other'",
                "expires_at = 9000000000000000000",
                "created_at = 1",
            ] {
                let said = raw
                    .refusal(&format!("UPDATE drafts SET {change} WHERE id = {draft}"))
                    .await;
                assert!(said.contains("drafts_text_frozen"), "{change}: {said}");
            }
        };
        refuse().await;
        desk.approve(draft).await;
        refuse().await;
        desk.claim().await.unwrap();
        refuse().await;
        desk.report(draft, true).await;
        refuse().await;
        assert_eq!(desk.card(draft).await.body, "Noon works.");
    });
}

// spec: DRF-074
#[test]
fn the_database_knows_eight_states_of_a_draft_and_no_other() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let mut raw = desk.raw().await;
        for odd in ["odd", "PENDING", "", "leased"] {
            let said = raw.refusal(&insert(id, odd)).await;
            assert!(said.contains("drafts_state"), "{said}");
        }
        let draft = desk.file(id, "Noon works.").await;
        let said = raw
            .refusal(&format!("UPDATE drafts SET state = 'odd' WHERE id = {draft}"))
            .await;
        assert!(said.contains("drafts_legal_move"), "{said}");
    });
}

async fn refuses_moves(desk: &Desk, draft: DraftId, moves: &[&str]) {
    let mut raw = desk.raw().await;
    for change in moves {
        let said = raw
            .refusal(&format!("UPDATE drafts SET {change} WHERE id = {draft}"))
            .await;
        assert!(
            said.contains("drafts_legal_move") || said.contains("drafts_lease_of_a_claim"),
            "{change}: {said}"
        );
    }
}

// spec: CLM-028 CLM-031
#[test]
fn the_database_refuses_to_offer_a_claimed_reply_again() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.claimed(id, "Noon works.").await;
        let moves = [
            "claimed_at = NULL, lease_until = NULL",
            "claimed_at = claimed_at + 1",
            "state = 'pending'",
            "state = 'rejected'",
            "state = 'expired'",
            "state = 'superseded'",
            "state = 'sent', claimed_at = NULL, lease_until = NULL",
        ];
        refuses_moves(&desk, draft, &moves).await;
        desk.advance(super::kit::LEASE_AND_A_BIT);
        assert_eq!(
            desk.state(draft).await,
            muster_app::drafts::DraftState::Unconfirmed
        );
        refuses_moves(
            &desk,
            draft,
            &[
                "state = 'approved'",
                "state = 'pending'",
                "state = 'expired'",
                "claimed_at = claimed_at + 1",
            ],
        )
        .await;
        desk.report(draft, true).await;
        refuses_moves(
            &desk,
            draft,
            &[
                "state = 'approved'",
                "state = 'failed'",
                "state = 'unconfirmed'",
                "state = 'pending'",
            ],
        )
        .await;
    });
}

#[test]
fn the_database_brings_no_decided_draft_back() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let superseded = desk.file(id, "one").await;
        let rejected = desk.file(id, "two").await;
        desk.try_reject(rejected).await.unwrap();
        for draft in [superseded, rejected] {
            refuses_moves(
                &desk,
                draft,
                &[
                    "state = 'pending'",
                    "state = 'approved', approved_at = 1",
                    "state = 'sent'",
                ],
            )
            .await;
        }
        let pending = desk.file(id, "three").await;
        refuses_moves(
            &desk,
            pending,
            &["state = 'sent'", "state = 'failed'", "state = 'unconfirmed'"],
        )
        .await;
    });
}

// spec: DRF-002
#[test]
fn the_database_holds_one_pending_and_one_approved_draft_a_message() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        desk.file(id, "Noon works.").await;
        let mut raw = desk.raw().await;
        let named = |said: &str, index: &str| match desk.muster.engine {
            // SQLite names the column of a unique index, not the index.
            Engine::Sqlite => said.contains("drafts.message_id"),
            Engine::Postgres => said.contains(index),
        };
        let said = raw.refusal(&insert(id, "pending")).await;
        assert!(named(&said, "drafts_one_pending"), "{said}");
        raw.run(&insert(id, "approved")).await;
        let said = raw.refusal(&insert(id, "approved")).await;
        assert!(named(&said, "drafts_one_in_flight"), "{said}");
        let said = raw
            .refusal("UPDATE drafts SET state = 'approved', approved_at = 1 WHERE state = 'pending'")
            .await;
        assert!(named(&said, "drafts_one_in_flight"), "{said}");
    });
}

// spec: AUD-001
#[test]
fn the_database_refuses_to_change_or_remove_an_audit_row() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        desk.file(id, "Noon works.").await;
        let before = desk.events("").await;
        let row = &before[0];
        assert_eq!((row.at, row.actor.as_str()), (desk.app().clock.now(), "chief"));
        assert!(row.subject.starts_with("draft:"));
        let mut raw = desk.raw().await;
        for change in [
            "UPDATE audit SET actor = 'nobody'",
            "UPDATE audit SET data = '{}' WHERE id = 1",
            "DELETE FROM audit",
        ] {
            let said = raw.refusal(change).await;
            assert!(said.contains("audit_append_only"), "{change}: {said}");
        }
        if desk.muster.engine == Engine::Postgres {
            let said = raw.refusal("TRUNCATE audit").await;
            assert!(said.contains("audit_append_only"), "{said}");
        }
        assert_eq!(desk.events("").await.len(), before.len());
    });
}
