//! The laws of messages and their delivery, on both engines.
#![cfg(test)]

use std::time::Duration;

use muster_app::audit::Filter;
use muster_app::chief::{self, Delivery};
use muster_app::messages::{self, MessageError, RetryRefusal, Status};
use muster_app::{accounts, audit, plugins};
use muster_core::ids::MessageId;
use muster_testkit::{Step, TestMuster, add_owner, add_plugin, message, on_both};

async fn events(muster: &TestMuster, event: &str) -> Vec<audit::Entry> {
    audit::list(
        &muster.app.db,
        muster.owner,
        Filter {
            event: event.to_owned(),
            ..Filter::default()
        },
    )
    .await
    .unwrap()
}

// spec: MSG-008 MSG-022 MSG-023 MSG-024 MSG-036 MSG-043
#[test]
fn a_repeat_is_the_stored_message_and_stores_nothing() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        let first = muster.accept(&plugin, "msg-1").await;
        assert!(first.new);
        let mut other = message("msg-1");
        other.no_reply = true;
        let again = messages::accept(&muster.app, &plugin, other).await.unwrap();
        assert_eq!(
            (again.id, again.status, again.new),
            (first.id, Status::Queued, false)
        );
        let elsewhere = muster.plugin("chat").await;
        assert_ne!(muster.accept(&elsewhere, "msg-1").await.id, first.id);
        for _ in 0..100 {
            muster.accept(&plugin, "msg-1").await;
        }
        assert!(muster.accept(&plugin, "msg-2").await.new);
    });
}

// spec: MSG-028
#[test]
fn concurrent_identical_sends_store_one_message() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        let sends: Vec<_> = (0..20)
            .map(|_| {
                let (app, plugin) = (muster.app.clone(), plugin.clone());
                tokio::spawn(async move { messages::accept(&app, &plugin, message("same")).await.unwrap() })
            })
            .collect();
        let mut answers = Vec::new();
        for send in sends {
            answers.push(send.await.unwrap());
        }
        assert_eq!(answers.iter().filter(|a| a.new).count(), 1);
        assert!(answers.iter().all(|a| a.id == answers[0].id));
    });
}

// spec: MSG-032 MSG-034 MSG-035 MSG-037 MSG-038 MSG-039 MSG-044
#[test]
fn the_hourly_cap_holds_under_concurrency_and_says_when_to_come_back() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.accept(&plugin, "m0").await;
        muster.clock.advance(Duration::from_secs(40 * 60));
        for n in 1..59 {
            muster.accept(&plugin, &format!("m{n}")).await;
        }
        let sends: Vec<_> = (0..10)
            .map(|n| {
                let (app, plugin) = (muster.app.clone(), plugin.clone());
                tokio::spawn(
                    async move { messages::accept(&app, &plugin, message(&format!("race{n}"))).await },
                )
            })
            .collect();
        let mut stored = 0;
        for send in sends {
            match send.await.unwrap() {
                Ok(accepted) => stored += usize::from(accepted.new),
                Err(MessageError::HourlyCap { retry_after }) => assert_eq!(retry_after, 20 * 60),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(stored, 1, "exactly one of ten fits");
        assert!(
            !muster.accept(&plugin, "m3").await.new,
            "a repeat is answered past the cap"
        );
        let other = muster.plugin("chat").await;
        assert!(muster.accept(&other, "x").await.new, "the cap is per connector");
        assert!(
            messages::accept(&muster.app, &plugin, message("later"))
                .await
                .is_err()
        );
        muster.clock.advance(Duration::from_secs(20 * 60 + 1));
        assert!(
            muster.accept(&plugin, "later").await.new,
            "a refused message can be sent again"
        );
    });
}

// spec: MSG-033 MSG-048
#[test]
fn two_hundred_may_wait_and_unconfirmed_ones_do_not_count() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        muster.chief.otherwise(Step::BreakOff);
        for n in 0..5 {
            let id = muster.accept(&plugin, &format!("u{n}")).await.id;
            assert_eq!(
                chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
                Delivery::Unconfirmed
            );
        }
        chief::remove(&muster.app, muster.owner).await.unwrap();
        for n in 0..200 {
            if n % 50 == 0 {
                muster.clock.advance(Duration::from_secs(3601));
            }
            muster.accept(&plugin, &format!("q{n}")).await;
        }
        muster.clock.advance(Duration::from_secs(3601));
        let refused = messages::accept(&muster.app, &plugin, message("one-more")).await;
        assert!(
            matches!(refused, Err(MessageError::UndeliveredCap { .. })),
            "{refused:?}"
        );
    });
}

// spec: DLV-001 DLV-010 DLV-011 DLV-012 DLV-024 AUD-010 MSG-003
#[test]
fn a_turn_is_one_message_and_its_state_is_committed_before_it_starts() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        let state = std::sync::Arc::new(std::sync::Mutex::new(None));
        let (seen, caller) = (state.clone(), plugin.clone());
        muster
            .chief
            .then(muster_testkit::ScriptedChief::acting(move |app, _, _| {
                let (seen, caller) = (seen.clone(), caller.clone());
                async move {
                    *seen.lock().unwrap() = Some(
                        messages::accept(&app, &caller, message("msg-1"))
                            .await
                            .unwrap()
                            .status,
                    );
                    muster_runtime::Outcome::Completed { reply: "read".into() }
                }
            }));
        let id = muster.accept(&plugin, "msg-1").await.id;
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
            Delivery::Delivered
        );
        assert_eq!(
            *state.lock().unwrap(),
            Some(Status::Queued),
            "a running turn reads as queued"
        );
        assert_eq!(muster.accept(&plugin, "msg-1").await.status, Status::Delivered);
        let turns = muster.chief.turns();
        assert_eq!(turns.len(), 1);
        assert!(
            turns[0].text.contains("body of msg-1") && turns[0].text.contains(&format!("message_id {id}"))
        );
        assert_eq!(turns[0].title, "Label of mail");
        let written = events(&muster, "plugin.delivered").await;
        assert_eq!(written.len(), 1);
        assert_eq!(written[0].data["outcome"], "delivered");
    });
}

// spec: DLV-002 TOK-017
#[test]
fn each_connector_has_a_conversation_of_its_own() {
    on_both(|muster| async move {
        let (mail, chat) = (muster.plugin("mail").await, muster.plugin("chat").await);
        muster.set_chief().await;
        for (plugin, id) in [(&mail, "a"), (&chat, "b"), (&mail, "c")] {
            let id = muster.accept(plugin, id).await.id;
            chief::deliver(&muster.app, muster.owner, id).await.unwrap();
        }
        let turns = muster.chief.turns();
        assert_eq!(turns[0].conversation, turns[2].conversation);
        assert_ne!(turns[0].conversation, turns[1].conversation);
        let conversations = chief::conversations(&muster.app, muster.owner).await.unwrap();
        let titles: Vec<_> = conversations
            .iter()
            .map(|c| (c.title.as_str(), c.turns))
            .collect();
        assert_eq!(titles, [("Label of mail", 2), ("Label of chat", 1)]);
    });
}

#[test]
fn why_the_chief_could_not_be_started_is_known_until_it_was_or_another_takes_its_place() {
    on_both(|muster| async move {
        let (app, owner) = (&muster.app, muster.owner);
        let plugin = muster.plugin("mail").await;
        let id = muster.accept(&plugin, "m").await.id;
        let chief = muster.set_chief().await;
        assert_eq!(chief::start_error(app, owner, chief), None, "it was not tried");
        muster.chief.then(Step::NotStarted);
        assert_eq!(chief::deliver(app, owner, id).await.unwrap(), Delivery::Pending);
        let error = chief::start_error(app, owner, chief).unwrap();
        assert_eq!(
            (error.reason.as_str(), error.at),
            ("the script says so", app.clock.now())
        );
        let bob = add_owner(app, "bob").await;
        assert_eq!(chief::start_error(app, bob, chief), None);
        let (other, _) = muster.second().await;
        let next = chief::set(&other, owner, muster_runtime::Kind::Command, "another\u{1b}[2J")
            .await
            .unwrap();
        assert_eq!(
            chief::start_error(app, owner, next),
            None,
            "that one has not been tried"
        );
        let rows = events(&muster, "chief.set").await;
        assert_eq!(
            rows[0].data,
            serde_json::json!({"runtime": "command", "command": "another\u{1b}[2J"})
        );
        muster.chief.then(Step::NotStarted);
        chief::deliver(app, owner, id).await.unwrap();
        assert!(chief::start_error(app, owner, next).is_some());
        assert_eq!(chief::deliver(app, owner, id).await.unwrap(), Delivery::Delivered);
        assert_eq!(chief::start_error(app, owner, next), None, "it was started");
    });
}

// spec: DLV-017 DLV-018 DLV-019 DLV-028 RTY-008
#[test]
fn nothing_sent_leaves_the_message_queued_with_no_chief_named() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        let id = muster.accept(&plugin, "m").await.id;
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
            Delivery::Pending,
            "no chief"
        );
        muster.set_chief().await;
        muster.chief.then(Step::NotStarted);
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
            Delivery::Pending,
            "not running"
        );
        assert_eq!(muster.accept(&plugin, "m").await.status, Status::Queued);
        assert!(
            events(&muster, "plugin.delivered").await.is_empty(),
            "nothing was settled"
        );
        assert!(
            chief::turns(
                &muster.app,
                muster.owner,
                plugin.plugin,
                muster_core::ids::TurnId::new(i64::MAX),
                10
            )
            .await
            .unwrap()
            .is_empty()
        );
        muster.set_chief().await;
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
            Delivery::Delivered,
            "the new chief takes it"
        );
    });
}

// spec: DLV-013 DLV-016 CLM-022
#[test]
fn an_unconfirmed_message_is_never_sent_again_by_muster_itself() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        muster.chief.then(Step::BreakOff);
        let id = muster.accept(&plugin, "m").await.id;
        chief::deliver(&muster.app, muster.owner, id).await.unwrap();
        assert_eq!(muster.accept(&plugin, "m").await.status, Status::Unconfirmed);
        for _ in 0..5 {
            muster_app::drafts::claim(&muster.app, &plugin, Duration::ZERO)
                .await
                .unwrap();
            muster.settle().await;
        }
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
            Delivery::NotOurs
        );
        assert_eq!(muster.chief.turns().len(), 1);
    });
}

// spec: DLV-020 DLV-021 DLV-025 AUD-011
#[test]
fn what_a_stop_left_delivering_is_settled_by_the_next_delivery_and_never_resent() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        let gate = std::sync::Arc::new(tokio::sync::Notify::new());
        muster.chief.then(Step::Hold(gate));
        let first = muster.accept(&plugin, "first").await.id;
        // A muster that dies in the middle of a turn: its task and its lock go with it.
        let (app, owner) = (muster.app.clone(), muster.owner);
        let dying = tokio::spawn(async move { chief::deliver(&app, owner, first).await });
        muster.chief.begun(1).await;
        dying.abort();
        assert!(dying.await.unwrap_err().is_cancelled());
        assert_eq!(
            muster.accept(&plugin, "first").await.status,
            Status::Queued,
            "it stays delivering, which reads as queued"
        );
        let (second, chief2) = muster.second().await;
        let next = muster.accept(&plugin, "next").await.id;
        // On Postgres the lock goes when the server sees the connection end.
        let mut outcome = chief::deliver(&second, muster.owner, next).await.unwrap();
        for _ in 0..1_200 {
            if outcome != Delivery::Pending {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            outcome = chief::deliver(&second, muster.owner, next).await.unwrap();
        }
        assert_eq!(outcome, Delivery::Delivered);
        assert_eq!(muster.accept(&plugin, "first").await.status, Status::Unconfirmed);
        let written = events(&muster, "plugin.delivered").await;
        let recovered: Vec<_> = written.iter().filter(|e| e.data["recovered"] == true).collect();
        assert_eq!(recovered.len(), 1);
        assert_eq!(recovered[0].subject, format!("message:{first}"));
        assert_eq!(
            chief2.turns().len(),
            1,
            "the first message was not handed over again"
        );
    });
}

// spec: DLV-022
#[test]
fn a_message_left_with_a_replaced_chief_stays_there() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        muster
            .chief
            .then(Step::Hold(std::sync::Arc::new(tokio::sync::Notify::new())));
        let first = muster.accept(&plugin, "first").await.id;
        let (app, owner) = (muster.app.clone(), muster.owner);
        let dying = tokio::spawn(async move { chief::deliver(&app, owner, first).await });
        muster.chief.begun(1).await;
        dying.abort();
        drop(dying.await);
        muster.set_chief().await;
        let next = muster.accept(&plugin, "next").await.id;
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, next).await.unwrap(),
            Delivery::Delivered
        );
        assert_eq!(
            muster.accept(&plugin, "first").await.status,
            Status::Queued,
            "still delivering to the old chief"
        );
        muster_app::drafts::claim(&muster.app, &plugin, Duration::ZERO)
            .await
            .unwrap();
        muster.settle().await;
        assert_eq!(muster.chief.turns().len(), 2, "and not handed over again");
    });
}

// spec: DLV-023 DLV-026
#[test]
fn a_live_turn_of_another_process_is_not_taken_for_a_crashed_one() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        let gate = std::sync::Arc::new(tokio::sync::Notify::new());
        muster.chief.then(Step::Hold(gate.clone()));
        let first = muster.accept(&plugin, "first").await.id;
        let (app, owner) = (muster.app.clone(), muster.owner);
        let running = tokio::spawn(async move { chief::deliver(&app, owner, first).await.unwrap() });
        muster.chief.begun(1).await;
        let (second, chief2) = muster.second().await;
        let next = muster.accept(&plugin, "next").await.id;
        assert_eq!(
            chief::deliver(&second, muster.owner, next).await.unwrap(),
            Delivery::Pending,
            "busy in another process"
        );
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, next).await.unwrap(),
            Delivery::Pending,
            "busy in this process"
        );
        assert_eq!(muster.accept(&plugin, "first").await.status, Status::Queued);
        gate.notify_one();
        assert_eq!(running.await.unwrap(), Delivery::Delivered);
        assert_eq!(chief2.turns().len(), 0);
        assert_eq!(muster.chief.most_at_once(), 1);
    });
}

// spec: CLM-018 CLM-019 CLM-020 CLM-025 GATE-007
#[test]
fn a_claim_hands_all_the_owners_queued_messages_over_oldest_first() {
    on_both(|muster| async move {
        let (mail, chat) = (muster.plugin("mail").await, muster.plugin("chat").await);
        for (plugin, id) in [(&mail, "one"), (&chat, "two"), (&mail, "three")] {
            muster.accept(plugin, id).await;
        }
        muster.set_chief().await;
        muster.settle().await;
        assert!(muster.chief.turns().is_empty(), "nothing but a claim retries");
        muster_app::drafts::claim(&muster.app, &chat, Duration::ZERO)
            .await
            .unwrap();
        muster.settle().await;
        let texts: Vec<_> = muster
            .chief
            .turns()
            .iter()
            .map(|t| {
                ["one", "two", "three"]
                    .iter()
                    .position(|w| t.text.contains(&format!("body of {w}")))
                    .unwrap()
            })
            .collect();
        assert_eq!(texts, [0, 1, 2]);
    });
}

// spec: CLM-021 CLM-023 CLM-024
#[test]
fn a_claim_stops_at_the_first_message_the_chief_cannot_take_and_does_not_wait_for_a_turn() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        let gate = std::sync::Arc::new(tokio::sync::Notify::new());
        muster.chief.then(Step::Hold(gate.clone()));
        for id in ["one", "two", "three"] {
            muster.accept(&plugin, id).await;
        }
        for _ in 0..5 {
            muster_app::drafts::claim(&muster.app, &plugin, Duration::ZERO)
                .await
                .unwrap();
        }
        muster.chief.begun(1).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(
            muster.chief.turns().len(),
            1,
            "a message on its way is not handed over twice, none behind it is tried"
        );
        gate.notify_one();
        muster.settle().await;
        assert_eq!(muster.chief.turns().len(), 3);
        assert_eq!(muster.chief.most_at_once(), 1);
    });
}

// spec: TOK-007 DLV-027
#[test]
fn a_message_never_reaches_another_owners_chief() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        let other = add_owner(&muster.app, "bob").await;
        chief::set(&muster.app, other, muster_runtime::Kind::Command, "scripted")
            .await
            .unwrap();
        let id = muster.accept(&plugin, "m").await.id;
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
            Delivery::Pending
        );
        assert_eq!(
            chief::deliver(&muster.app, other, id).await.unwrap(),
            Delivery::NotOurs
        );
        let bobs = add_plugin(&muster.app, other, "mail").await;
        muster_app::drafts::claim(&muster.app, &bobs, Duration::ZERO)
            .await
            .unwrap();
        muster.settle().await;
        assert!(muster.chief.turns().is_empty());
    });
}

// spec: TOK-034 TOK-029
#[test]
fn a_revoked_connectors_messages_never_reach_the_chief() {
    on_both(|muster| async move {
        let (mail, chat) = (muster.plugin("mail").await, muster.plugin("chat").await);
        let id = muster.accept(&mail, "m").await.id;
        plugins::revoke(&muster.app, muster.owner, mail.plugin)
            .await
            .unwrap();
        muster.set_chief().await;
        muster_app::drafts::claim(&muster.app, &chat, Duration::ZERO)
            .await
            .unwrap();
        muster.settle().await;
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
            Delivery::NotOurs
        );
        assert!(muster.chief.turns().is_empty());
        assert!(matches!(
            messages::accept(&muster.app, &mail, message("n")).await,
            Err(MessageError::NotLive)
        ));
        assert!(
            muster_app::drafts::claim(&muster.app, &mail, Duration::ZERO)
                .await
                .is_err()
        );
    });
}

// spec: TOK-031
#[test]
fn a_disabled_owners_tokens_are_refused_at_once() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        accounts::disable(&muster.app, "ada").await.unwrap();
        assert!(matches!(
            messages::accept(&muster.app, &plugin, message("m")).await,
            Err(MessageError::NotLive)
        ));
        accounts::enable(&muster.app, "ada").await.unwrap();
        assert!(muster.accept(&plugin, "m").await.new);
    });
}

// spec: RTY-007 RTY-009 RTY-010 RTY-011 AUD-012
#[test]
fn a_retry_is_an_ordinary_delivery_whose_preface_says_so() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        muster.chief.then(Step::BreakOff);
        muster.chief.then(Step::BreakOff);
        let id = muster.accept(&plugin, "m").await.id;
        chief::deliver(&muster.app, muster.owner, id).await.unwrap();
        for _ in 0..2 {
            muster.clock.advance(Duration::from_secs(3600));
            messages::retry(&muster.app, muster.owner, id, "test")
                .await
                .unwrap();
            chief::deliver(&muster.app, muster.owner, id).await.unwrap();
        }
        let last = muster.chief.turns().pop().unwrap().text;
        let preface = last.split("=== BEGIN").next().unwrap();
        assert!(
            preface.contains("retry 2") && preface.contains("delivery attempt 3"),
            "{preface}"
        );
        assert!(
            preface.contains("may already have acted")
                && preface.contains("check your tasks and reply drafts")
                && preface.contains("2 hours old"),
            "{preface}"
        );
        assert!(!muster.chief.turns()[0].text.contains("retry"));
        assert_eq!(events(&muster, "plugin.retried").await.len(), 2);
    });
}

// spec: RTY-012 RTY-013 RTY-014 RTY-021 RTY-022 RTY-023 RTY-024
#[test]
fn a_retry_is_refused_by_each_rule_and_then_changes_nothing() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        let id = muster.accept(&plugin, "m").await.id;
        let retry = |id| {
            let (app, owner) = (muster.app.clone(), muster.owner);
            async move { messages::retry(&app, owner, id, "test").await }
        };
        assert!(matches!(retry(id).await, Err(RetryRefusal::Queued)));
        assert!(matches!(
            retry(MessageId::new(999_999)).await,
            Err(RetryRefusal::NotFound)
        ));
        let bob = add_owner(&muster.app, "bob").await;
        assert!(matches!(
            messages::retry(&muster.app, bob, id, "test").await,
            Err(RetryRefusal::NotFound)
        ));
        muster.set_chief().await;
        let gate = std::sync::Arc::new(tokio::sync::Notify::new());
        muster.chief.then(Step::Hold(gate.clone()));
        let (app, owner) = (muster.app.clone(), muster.owner);
        let running = tokio::spawn(async move { chief::deliver(&app, owner, id).await.unwrap() });
        muster.chief.begun(1).await;
        assert!(matches!(retry(id).await, Err(RetryRefusal::Delivering)));
        gate.notify_one();
        running.await.unwrap();
        assert!(matches!(retry(id).await, Err(RetryRefusal::Delivered)));
        muster.chief.then(Step::BreakOff);
        let lost = muster.accept(&plugin, "lost").await.id;
        chief::deliver(&muster.app, muster.owner, lost).await.unwrap();
        chief::remove(&muster.app, muster.owner).await.unwrap();
        assert!(matches!(retry(lost).await, Err(RetryRefusal::NoChief)));
        muster.set_chief().await;
        plugins::revoke(&muster.app, muster.owner, plugin.plugin)
            .await
            .unwrap();
        assert!(matches!(retry(lost).await, Err(RetryRefusal::Revoked)));
        assert_eq!(
            messages::unconfirmed(&muster.app, muster.owner)
                .await
                .unwrap()
                .len(),
            1,
            "still unconfirmed after every refusal"
        );
        assert!(events(&muster, "plugin.retried").await.is_empty());
    });
}

// spec: RTY-026
#[test]
fn of_concurrent_retries_exactly_one_succeeds() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        muster.chief.then(Step::BreakOff);
        let id = muster.accept(&plugin, "m").await.id;
        chief::deliver(&muster.app, muster.owner, id).await.unwrap();
        let tries: Vec<_> = (0..10)
            .map(|_| {
                let (app, owner) = (muster.app.clone(), muster.owner);
                tokio::spawn(async move { messages::retry(&app, owner, id, "test").await.is_ok() })
            })
            .collect();
        let mut won = 0;
        for one in tries {
            won += usize::from(one.await.unwrap());
        }
        assert_eq!(won, 1);
        assert_eq!(events(&muster, "plugin.retried").await.len(), 1);
    });
}

// spec: TOK-022 TOK-023 TOK-024
#[test]
fn last_seen_moves_with_any_authenticated_call_and_waiting_counts_what_the_chief_has_not() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        let line = || async { plugins::list(&muster.app, muster.owner).await.unwrap().remove(0) };
        assert_eq!(line().await.last_seen_at, None);
        for id in ["a", "b", "c"] {
            muster.accept(&plugin, id).await;
        }
        assert_eq!(line().await.waiting, 3);
        let seen = line().await.last_seen_at.unwrap();
        muster.clock.advance(Duration::from_secs(60));
        assert_eq!(
            plugins::authenticate(&muster.app, &format!("mpl_{}", "0".repeat(64)))
                .await
                .unwrap(),
            None
        );
        assert_eq!(
            line().await.last_seen_at.unwrap(),
            seen,
            "a bad token is not seen"
        );
        muster_app::drafts::claim(&muster.app, &plugin, Duration::ZERO)
            .await
            .unwrap();
        assert_eq!(
            line().await.last_seen_at.unwrap(),
            seen.plus(Duration::from_secs(60))
        );
    });
}

#[test]
fn a_disabled_owners_queue_waits_for_the_account() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        let id = muster.accept(&plugin, "m").await.id;
        muster.set_chief().await;
        accounts::disable(&muster.app, "ada").await.unwrap();
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
            Delivery::NotOurs
        );
        assert!(muster.chief.turns().is_empty());
        accounts::enable(&muster.app, "ada").await.unwrap();
        assert_eq!(
            chief::deliver(&muster.app, muster.owner, id).await.unwrap(),
            Delivery::Delivered
        );
    });
}
