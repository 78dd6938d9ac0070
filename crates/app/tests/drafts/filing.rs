//! Filing: who may draft a reply to what, what takes whose place, and what the owner is told. Never decides a draft but to get on.

use muster_app::drafts::{self, DraftState, FileRefusal};
use muster_app::{App, accounts, chief};
use muster_core::ids::MessageId;
use muster_core::secret::TokenKind;
use muster_core::text::{Label, MessageBody, Subject};
use muster_runtime::{Kind, Outcome};
use muster_testkit::{ScriptedChief, add_owner, add_plugin, message, settings};

use super::kit::{DAY, Desk, LEASE_AND_A_BIT, on_desks, signed_in_now};

/// What must be true after a refusal: no card, no notice, no row.
async fn assert_nothing_filed(desk: &Desk) {
    assert_eq!(desk.states().await, []);
    assert!(desk.notices().await.is_empty());
    assert!(desk.events("plugin.draft.filed").await.is_empty());
}

// spec: DRF-007 DRF-009 DLV-009 AUD-014
#[test]
fn a_draft_filed_during_its_messages_turn_waits_and_sends_nothing() {
    on_desks(|desk| async move {
        let id = desk.muster.accept(&desk.mail, "msg-1").await.id;
        desk.muster
            .chief
            .then(ScriptedChief::acting(move |app, caller, _| async move {
                drafts::file(&app, &caller, id, "Thanks, noon works.")
                    .await
                    .unwrap();
                Outcome::Completed {
                    reply: "drafted".into(),
                }
            }));
        super::kit::deliver(desk.app(), desk.owner(), id).await;
        let cards = drafts::open(desk.app(), desk.owner()).await.unwrap();
        assert_eq!(cards.len(), 1);
        assert_eq!(
            (cards[0].state, cards[0].body.as_str(), cards[0].message.id),
            (DraftState::Pending, "Thanks, noon works.", id)
        );
        assert_eq!(desk.claim().await, None, "a pending draft is nothing to send");
        let filed = desk.events("plugin.draft.filed").await;
        assert_eq!(filed.len(), 1);
        assert_eq!(
            (filed[0].subject.as_str(), &filed[0].data["superseded"]),
            (format!("draft:{}", cards[0].id).as_str(), &0.into())
        );
    });
}

// spec: DRF-008
#[test]
fn only_a_message_that_was_given_to_this_chief_can_be_answered() {
    on_desks(|desk| async move {
        let queued = desk.muster.accept(&desk.mail, "queued").await.id;
        desk.muster.chief.then(muster_testkit::Step::BreakOff);
        let broken_off = desk.muster.accept(&desk.mail, "broken-off").await.id;
        super::kit::deliver(desk.app(), desk.owner(), broken_off).await;
        let bob = add_owner(desk.app(), "bob").await;
        chief::set(desk.app(), bob, Kind::Command, "scripted")
            .await
            .unwrap();
        let bobs = add_plugin(desk.app(), bob, "mail").await;
        let anothers = muster_app::messages::accept(desk.app(), &bobs, message("bobs"))
            .await
            .unwrap()
            .id;
        super::kit::deliver(desk.app(), bob, anothers).await;
        let mut sentences = std::collections::BTreeSet::new();
        for id in [queued, broken_off, anothers, MessageId::new(999_999)] {
            let refused = desk.try_file(id, "Noon works.").await.unwrap_err();
            assert!(matches!(refused, FileRefusal::NoSuchMessage), "{refused:?}");
            sentences.insert(refused.to_string());
        }
        assert_eq!(sentences.len(), 1, "none can be told from another");
        assert_nothing_filed(&desk).await;
        // What the chief before it was given is not this chief's to answer.
        let old = desk.message("for-the-old-chief").await;
        let new = chief::set(desk.app(), desk.owner(), Kind::Command, "scripted")
            .await
            .unwrap();
        let mut agent = desk.agent();
        agent.chief = Some(new);
        assert!(matches!(
            drafts::file(desk.app(), &agent, old, "Noon works.").await,
            Err(FileRefusal::NoSuchMessage)
        ));
        assert_nothing_filed(&desk).await;
    });
}

// spec: DRF-005
#[test]
fn only_the_owners_present_chief_may_file() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let token = accounts::create_token(
            desk.app(),
            desk.owner(),
            TokenKind::Agent,
            Label::parse("label", "helper").unwrap(),
            None,
        )
        .await
        .unwrap();
        let helper = accounts::agent(desk.app(), token.token.expose())
            .await
            .unwrap()
            .unwrap();
        assert!(matches!(
            drafts::file(desk.app(), &helper, id, "Noon works.").await,
            Err(FileRefusal::NotChief)
        ));
        chief::remove(desk.app(), desk.owner()).await.unwrap();
        assert!(
            matches!(desk.try_file(id, "Noon works.").await, Err(FileRefusal::NotChief)),
            "a removed chief's tools end with it"
        );
        assert_nothing_filed(&desk).await;
    });
}

#[test]
fn nothing_is_filed_while_plugins_are_off() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let mut off = settings(desk.muster.dir.path());
        off.plugins = false;
        let app = App::new(desk.app().db.clone(), desk.app().clock.clone(), off);
        assert!(matches!(
            drafts::file(&app, &desk.agent(), id, "Noon works.").await,
            Err(FileRefusal::Off)
        ));
        assert_nothing_filed(&desk).await;
    });
}

// spec: DRF-010
#[test]
fn a_message_that_nobody_may_answer_takes_no_draft() {
    on_desks(|desk| async move {
        let mut new = message("no-reply");
        new.no_reply = true;
        let id = desk.message_like(new).await;
        assert!(matches!(
            desk.try_file(id, "Noon works.").await,
            Err(FileRefusal::NoReply)
        ));
        assert_nothing_filed(&desk).await;
    });
}

// spec: DRF-012 DRF-013
#[test]
fn a_reply_has_text_and_at_most_sixteen_kibibytes_of_it() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let longest: String = "noon works ".chars().cycle().take(16_384).collect();
        for bad in [String::new(), "  \n\t ".to_owned(), format!("{longest}x")] {
            assert!(matches!(desk.try_file(id, &bad).await, Err(FileRefusal::Body(_))));
        }
        assert_nothing_filed(&desk).await;
        let draft = desk.file(id, &longest).await;
        assert_eq!(desk.card(draft).await.body, longest, "whole, never cut");
    });
}

// spec: DRF-016 DRF-020 DRF-021 DRF-022
#[test]
fn what_the_screen_stops_is_named_and_files_nothing() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        for (body, named) in [
            ("It runs on 10.0.0.5 now.", "IP address"),
            ("It runs on １０.０.０.５ now.", "IP address"),
            ("Ask the BlueBird team.", "this deployment's own names"),
        ] {
            let refused = desk.try_file(id, body).await.unwrap_err();
            assert!(matches!(refused, FileRefusal::Screened(_)), "{body}");
            let said = refused.to_string();
            assert!(said.contains(named) && said.contains("character"), "{said}");
            assert!(
                !said.to_lowercase().contains("bluebird") && !said.contains("10.0"),
                "a refusal repeats nothing of it: {said}"
            );
        }
        assert_nothing_filed(&desk).await;
        desk.file(id, "It runs now.").await;
    });
}

// spec: DRF-014
#[test]
fn what_is_stored_is_the_folded_text() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let draft = desk.file(id, "A ﬁne day at ９.").await;
        assert_eq!(desk.card(draft).await.body, "A fine day at 9.");
    });
}

// spec: DRF-024 AUD-014 AUD-020
#[test]
fn a_newer_draft_takes_the_pending_ones_place_and_only_its_own_row_says_so() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let first = desk.try_file(id, "Noon works.").await.unwrap();
        let second = desk.try_file(id, "One works better.").await.unwrap();
        assert_eq!((first.superseded, second.superseded), (0, 1));
        assert_ne!(first.id, second.id);
        let old = desk.card(first.id).await;
        assert_eq!(
            (old.state, old.superseded_by, old.body.as_str()),
            (DraftState::Superseded, Some(second.id), "Noon works.")
        );
        assert_eq!(desk.state(second.id).await, DraftState::Pending);
        let counts: Vec<_> = desk
            .events("plugin.draft.filed")
            .await
            .iter()
            .map(|row| row.data["superseded"].clone())
            .collect();
        assert_eq!(counts, [1, 0]);
        assert!(desk.events("plugin.draft.superseded").await.is_empty());
        let notices = desk.notices().await;
        assert_eq!(notices.len(), 1, "the old draft's notice went with it");
        assert!(notices[0].link.ends_with(&format!("#draft-{}", second.id)));
    });
}

// spec: DRF-025 DRF-026 DRF-027 CLM-037
#[test]
fn no_draft_is_filed_while_a_reply_is_on_its_way() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let first = desk.approved(id, "Noon works.").await;
        let refused = desk.try_file(id, "One works.").await.unwrap_err();
        assert!(
            matches!(refused, FileRefusal::InFlight),
            "approved and not yet collected: {refused:?}"
        );
        assert!(refused.to_string().contains("on its way"));
        assert_eq!(desk.claim().await.unwrap().id, first);
        assert!(
            matches!(desk.try_file(id, "One works.").await, Err(FileRefusal::InFlight)),
            "collected and within its lease"
        );
        assert_eq!(desk.states().await.len(), 1);
        desk.advance(LEASE_AND_A_BIT);
        let second = desk.file(id, "One works.").await;
        assert_ne!(first, second);
        assert_eq!(
            desk.states().await,
            [(first, DraftState::Unconfirmed), (second, DraftState::Pending)]
        );
        desk.approve(second).await;
        assert_eq!(
            desk.claim().await.unwrap().id,
            second,
            "a new reply has a new id, and only that one is offered"
        );
    });
}

// spec: DRF-028 DRF-029
#[test]
fn a_new_draft_is_taken_after_every_end_of_the_one_before_and_needs_its_own_approval() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let rejected = desk.file(id, "one").await;
        desk.try_reject(rejected).await.unwrap();
        let withdrawn = desk.approved(id, "two").await;
        desk.try_withdraw(withdrawn).await.unwrap();
        let failed = desk.claimed(id, "three").await;
        desk.report(failed, false).await;
        let expired = desk.file(id, "four").await;
        desk.advance(DAY * 7);
        let sent = desk.claimed(id, "five").await;
        desk.report(sent, true).await;
        let next = desk.file(id, "six").await;
        let ends = [
            (rejected, DraftState::Rejected),
            (withdrawn, DraftState::Rejected),
            (failed, DraftState::Failed),
            (expired, DraftState::Expired),
            (sent, DraftState::Sent),
            (next, DraftState::Pending),
        ];
        assert_eq!(desk.states().await, ends);
        assert_eq!(
            desk.claim().await,
            None,
            "the earlier approval is not the new draft's"
        );
    });
}

// spec: DRF-030 DRF-031 DRF-078
#[test]
fn twenty_of_a_chiefs_drafts_may_wait_and_a_redraft_needs_no_place() {
    on_desks(|desk| async move {
        let mut messages = Vec::new();
        for n in 0..23 {
            messages.push(desk.message(&format!("m{n}")).await);
        }
        let mut filed = Vec::new();
        for id in &messages[..20] {
            filed.push(desk.file(*id, "Noon works.").await);
        }
        let refused = desk.try_file(messages[20], "Noon works.").await.unwrap_err();
        assert!(
            matches!(refused, FileRefusal::TooMany) && refused.to_string().contains("20"),
            "{refused}"
        );
        let again = desk.try_file(messages[3], "One works.").await.unwrap();
        assert_eq!(again.superseded, 1);
        assert!(
            matches!(
                desk.try_file(messages[20], "Noon works.").await,
                Err(FileRefusal::TooMany)
            ),
            "and gives none back"
        );
        desk.try_reject(filed[0]).await.unwrap();
        desk.file(messages[20], "Noon works.").await;
        assert!(matches!(
            desk.try_file(messages[21], "Noon works.").await,
            Err(FileRefusal::TooMany)
        ));
        desk.approve(filed[1]).await;
        desk.file(messages[21], "an approved one no longer waits").await;
        assert!(matches!(
            desk.try_file(messages[22], "Noon works.").await,
            Err(FileRefusal::TooMany)
        ));
        desk.advance(DAY * 7);
        desk.file(messages[22], "expired ones free their places").await;
        let open = desk
            .states()
            .await
            .into_iter()
            .filter(|(_, state)| *state == DraftState::Pending)
            .count();
        assert_eq!(open, 1);
    });
}

#[test]
fn the_cap_is_each_chiefs_own() {
    on_desks(|desk| async move {
        for n in 0..20 {
            let id = desk.message(&format!("m{n}")).await;
            desk.file(id, "Noon works.").await;
        }
        let bob = add_owner(desk.app(), "bob").await;
        let bobs_chief = chief::set(desk.app(), bob, Kind::Command, "scripted")
            .await
            .unwrap();
        let bobs = add_plugin(desk.app(), bob, "mail").await;
        let id = muster_app::messages::accept(desk.app(), &bobs, message("bobs"))
            .await
            .unwrap()
            .id;
        super::kit::deliver(desk.app(), bob, id).await;
        let mut agent = desk.agent();
        (agent.owner, agent.chief) = (bob, Some(bobs_chief));
        drafts::file(desk.app(), &agent, id, "Noon works.").await.unwrap();
    });
}

// spec: DRF-033 DRF-034 MSG-063
#[test]
fn the_owner_is_told_once_in_musters_own_words_until_the_draft_no_longer_waits() {
    on_desks(|desk| async move {
        let mut new = message("unverified");
        new.sender_verified = false;
        new.subject = Some(Subject::parse("subject", "quaggasubject").unwrap());
        new.body = MessageBody::parse("body", "quaggabody").unwrap();
        let unverified = desk.message_like(new).await;
        let verified = desk.message("verified").await;
        let first = desk.file(unverified, "quaggareply").await;
        let second = desk.file(verified, "quaggareply").await;
        let notices = desk.notices().await;
        assert_eq!(notices.len(), 2);
        for (notice, draft) in notices.iter().zip([second, first]) {
            assert_eq!(notice.title, "A reply draft awaits your approval");
            assert!(
                notice.link.ends_with(&format!("#draft-{draft}")),
                "{}",
                notice.link
            );
            let all = format!("{}{}{}", notice.title, notice.body, notice.link).to_lowercase();
            assert!(!all.contains("quagga") && !all.contains("ada@"), "{all}");
        }
        assert!(
            notices[1].body.contains("unverified sender") && !notices[0].body.contains("unverified sender")
        );
        desk.approve(first).await;
        desk.try_reject(second).await.unwrap();
        assert!(desk.notices().await.is_empty(), "decided");
        let third = desk.file(verified, "quaggareply").await;
        assert_eq!(desk.notices().await.len(), 1);
        desk.advance(DAY * 7);
        assert_eq!(desk.state(third).await, DraftState::Expired);
        assert!(desk.notices().await.is_empty(), "expired");
    });
}

#[test]
fn no_owner_sees_anothers_drafts() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let open = desk.file(id, "Noon works.").await;
        desk.try_reject(open).await.unwrap();
        let draft = desk.file(id, "One works.").await;
        let bob = add_owner(desk.app(), "bob").await;
        assert!(super::kit::states(desk.app(), bob).await.is_empty());
        assert!(drafts::card(desk.app(), bob, draft).await.unwrap().is_none());
        assert!(
            muster_app::notices::open(&desk.app().db, bob)
                .await
                .unwrap()
                .is_empty()
        );
        assert!(
            super::kit::events(desk.app(), bob, "plugin.draft.filed")
                .await
                .is_empty()
        );
        assert!(
            drafts::approve(desk.app(), &signed_in_now(desk.app(), bob), draft)
                .await
                .is_err()
        );
    });
}

// spec: MSG-025 MSG-046 MSG-052 MSG-056
#[test]
fn a_repeat_changes_no_mark_of_the_stored_message() {
    on_desks(|desk| async move {
        let id = desk.message("msg-1").await;
        let mut repeat = muster_testkit::message("msg-1");
        repeat.no_reply = true;
        repeat.sender_verified = false;
        repeat.thread = Some(muster_core::text::ThreadId::parse("thread", "T1").unwrap());
        repeat.human_conversation = true;
        let again = muster_app::messages::accept(desk.app(), &desk.mail, repeat)
            .await
            .unwrap();
        assert_eq!((again.id, again.new), (id, false));
        let unchanged = format!(
            "SELECT count(*) FROM messages WHERE id = {id} AND thread IS NULL AND human_conversation = FALSE AND no_reply = FALSE AND sender_verified = TRUE"
        );
        assert_eq!(desk.raw().await.number(&unchanged).await, 1);
        assert!(
            desk.try_file(id, "Thanks, noon works.").await.is_ok(),
            "it can still be answered"
        );
    });
}

#[test]
fn a_draft_that_a_rule_refused_leaves_a_row_without_its_text() {
    on_desks(|desk| async move {
        let id = desk.message("m").await;
        let mut deaf = message("deaf");
        deaf.no_reply = true;
        let deaf = desk.message_like(deaf).await;
        let missing = MessageId::new(999_999);
        for (message, body, code) in [
            (id, "quagga at 10.0.0.5", "screened"),
            (id, "  ", "invalid_argument"),
            (deaf, "quagga", "no_reply"),
            (missing, "quagga", "not_found"),
        ] {
            let before = desk.events("plugin.draft.refused").await.len();
            desk.try_file(message, body).await.unwrap_err();
            let rows = desk.events("plugin.draft.refused").await;
            assert_eq!(rows.len(), before + 1, "{code}");
            assert_eq!(
                (rows[0].actor.as_str(), rows[0].subject.clone()),
                ("chief", format!("message:{message}"))
            );
            assert_eq!(
                rows[0].data,
                serde_json::json!({"message": message.get(), "code": code})
            );
        }
        assert_nothing_filed(&desk).await;
        desk.approved(id, "Noon works.").await;
        let refused = desk.try_file(id, "quagga").await.unwrap_err();
        assert!(matches!(refused, FileRefusal::InFlight));
        let rows = desk.events("plugin.draft.refused").await;
        assert_eq!((rows.len(), &rows[0].data["code"]), (5, &"in_flight".into()));
        // Who is no chief leaves nothing: it is not the chief's row to have.
        let mut stranger = desk.agent();
        stranger.chief = None;
        drafts::file(desk.app(), &stranger, id, "quagga")
            .await
            .unwrap_err();
        assert_eq!(desk.events("plugin.draft.refused").await.len(), 5);
    });
}
