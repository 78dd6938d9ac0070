//! Tokens: each good for its own kind's door, shown once, revoked by its owner alone; and the chief's, which live as long as their turn.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use muster_app::accounts::{self, NewToken, TokenError};
use muster_app::chief::{self, Delivery};
use muster_app::{App, drafts, plugins};
use muster_core::ids::{OwnerId, TokenId};
use muster_core::secret::TokenKind;
use muster_core::text::Label;
use muster_core::{Secret, TokenHash};
use muster_runtime::{Kind, Outcome};
use muster_testkit::{ScriptedChief, Step, TestMuster, add_owner, on_both};

use super::kit::{SECOND, events, everything_stored};

const OWN: [TokenKind; 3] = [TokenKind::Personal, TokenKind::MirrorHost, TokenKind::Agent];

fn label(text: &str) -> Label {
    Label::parse("label", text).unwrap()
}

async fn make(app: &App, owner: OwnerId, kind: TokenKind) -> NewToken {
    let host = matches!(kind, TokenKind::MirrorHost).then(|| label("workstation"));
    accounts::create_token(app, owner, kind, label("of a test"), host)
        .await
        .unwrap()
}

/// The kinds as which `token` is let in, and for whom.
async fn doors(app: &App, token: &str) -> Vec<(TokenKind, OwnerId)> {
    let mut open = Vec::new();
    open.extend(
        plugins::authenticate(app, token)
            .await
            .unwrap()
            .map(|caller| (TokenKind::Plugin, caller.owner)),
    );
    open.extend(
        accounts::personal(app, token)
            .await
            .unwrap()
            .map(|caller| (TokenKind::Personal, caller.owner)),
    );
    open.extend(
        accounts::mirror(app, token)
            .await
            .unwrap()
            .map(|caller| (TokenKind::MirrorHost, caller.owner)),
    );
    open.extend(
        accounts::agent(app, token)
            .await
            .unwrap()
            .map(|caller| (TokenKind::Agent, caller.owner)),
    );
    open
}

#[test]
fn a_token_is_let_in_as_its_own_kind_and_as_no_other() {
    on_both(|muster| async move {
        let app = &muster.app;
        for kind in OWN {
            let made = make(app, muster.owner, kind).await;
            let text = made.token.expose().to_owned();
            assert!(kind.matches(&text));
            assert_eq!(doors(app, &text).await, [(kind, muster.owner)]);
            // The same secret behind another kind's prefix is nobody's.
            let secret = text.strip_prefix(kind.prefix()).unwrap();
            for other in TokenKind::ALL.into_iter().filter(|other| *other != kind) {
                assert_eq!(doors(app, &format!("{}{secret}", other.prefix())).await, []);
            }
            for bad in [
                "",
                secret,
                text.get(..text.len() - 1).unwrap(),
                &format!("{text} "),
                &text.to_uppercase(),
                TokenHash::of(&text).as_str(),
            ] {
                assert_eq!(doors(app, bad).await, [], "{bad}");
            }
        }
        let host = make(app, muster.owner, TokenKind::MirrorHost).await;
        let caller = accounts::mirror(app, host.token.expose()).await.unwrap().unwrap();
        assert_eq!((caller.host.as_str(), caller.token), ("workstation", host.id));
    });
}

// spec: TOK-006 AUD-003
#[test]
fn a_tokens_text_is_nowhere_but_in_the_answer_that_made_it() {
    on_both(|muster| async move {
        let app = &muster.app;
        let mut made = Vec::new();
        for kind in OWN {
            let token = make(app, muster.owner, kind).await;
            assert_eq!(doors(app, token.token.expose()).await.len(), 1);
            assert!(!format!("{token:?}").contains(token.token.expose()));
            made.push(token);
        }
        accounts::revoke_token(app, muster.owner, made[0].id)
            .await
            .unwrap();
        let created = events(app, muster.owner, "token.created").await;
        let revoked = events(app, muster.owner, "token.revoked").await;
        assert_eq!((created.len(), revoked.len()), (3, 1));
        assert_eq!(
            (revoked[0].subject.clone(), &revoked[0].data["kind"]),
            (format!("token:{}", made[0].id), &"personal".into())
        );
        let all = everything_stored(&muster).await;
        for (token, kind) in made.iter().zip(OWN) {
            let text = token.token.expose();
            assert!(!all.contains(text.strip_prefix(kind.prefix()).unwrap()));
            assert!(all.contains(TokenHash::of(text).as_str()));
        }
    });
}

#[test]
fn a_revoked_token_is_refused_at_once_and_stays_on_the_list() {
    on_both(|muster| async move {
        let app = &muster.app;
        for kind in OWN {
            let (kept, made) = (
                make(app, muster.owner, kind).await,
                make(app, muster.owner, kind).await,
            );
            assert_eq!(doors(app, made.token.expose()).await.len(), 1);
            muster.clock.advance(SECOND);
            accounts::revoke_token(app, muster.owner, made.id).await.unwrap();
            assert_eq!(doors(app, made.token.expose()).await, []);
            assert_eq!(doors(app, kept.token.expose()).await.len(), 1);
            assert!(
                matches!(
                    accounts::revoke_token(app, muster.owner, made.id).await,
                    Err(TokenError::NotFound)
                ),
                "once"
            );
            let list = accounts::tokens(app, muster.owner).await.unwrap();
            let line = list.iter().find(|token| token.id == made.id).unwrap();
            assert_eq!(
                (line.label.as_str(), line.revoked_at),
                ("of a test", Some(app.clock.now()))
            );
            assert_eq!(
                list.iter().find(|token| token.id == kept.id).unwrap().revoked_at,
                None
            );
        }
        let kinds: Vec<_> = accounts::tokens(app, muster.owner)
            .await
            .unwrap()
            .into_iter()
            .map(|token| token.kind)
            .collect();
        assert_eq!(
            kinds,
            [
                "personal",
                "personal",
                "mirror-host",
                "mirror-host",
                "agent",
                "agent"
            ],
            "oldest first"
        );
    });
}

#[test]
fn one_owner_neither_sees_nor_revokes_anothers_tokens() {
    on_both(|muster| async move {
        let app = &muster.app;
        let bob = add_owner(app, "bob").await;
        let (adas, bobs) = (
            make(app, muster.owner, TokenKind::Personal).await,
            make(app, bob, TokenKind::Personal).await,
        );
        let mut sentences = BTreeSet::new();
        for (owner, id) in [
            (bob, adas.id),
            (muster.owner, bobs.id),
            (bob, TokenId::new(999_999)),
        ] {
            let refused = accounts::revoke_token(app, owner, id).await.unwrap_err();
            assert!(matches!(refused, TokenError::NotFound));
            sentences.insert(refused.to_string());
        }
        assert_eq!(sentences.len(), 1);
        assert_eq!(
            doors(app, adas.token.expose()).await,
            [(TokenKind::Personal, muster.owner)]
        );
        assert_eq!(
            doors(app, bobs.token.expose()).await,
            [(TokenKind::Personal, bob)]
        );
        for (owner, own) in [(muster.owner, adas.id), (bob, bobs.id)] {
            let ids: Vec<_> = accounts::tokens(app, owner)
                .await
                .unwrap()
                .into_iter()
                .map(|token| token.id)
                .collect();
            assert_eq!(ids, [own]);
        }
    });
}

#[test]
fn a_connectors_token_is_not_made_here() {
    on_both(|muster| async move {
        assert!(
            accounts::create_token(
                &muster.app,
                muster.owner,
                TokenKind::Plugin,
                label("of a test"),
                None
            )
            .await
            .is_err()
        );
        assert!(
            accounts::tokens(&muster.app, muster.owner)
                .await
                .unwrap()
                .is_empty()
        );
        assert!(
            events(&muster.app, muster.owner, "token.created")
                .await
                .is_empty()
        );
    });
}

#[test]
fn last_used_is_exact_to_the_minute_and_only_for_the_right_door() {
    on_both(|muster| async move {
        let app = &muster.app;
        let made = make(app, muster.owner, TokenKind::Personal).await;
        let used = || async {
            accounts::tokens(app, muster.owner)
                .await
                .unwrap()
                .remove(0)
                .last_used_at
        };
        assert!(accounts::agent(app, made.token.expose()).await.unwrap().is_none());
        assert_eq!(used().await, None);
        let first = app.clock.now();
        accounts::personal(app, made.token.expose())
            .await
            .unwrap()
            .unwrap();
        muster.clock.advance(SECOND * 59);
        accounts::personal(app, made.token.expose())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(used().await, Some(first), "not a write for every call");
        muster.clock.advance(SECOND);
        accounts::personal(app, made.token.expose())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(used().await, Some(app.clock.now()));
    });
}

/// Keeps the turn's token text for after the turn.
fn keeping(kept: &Arc<Mutex<Vec<Secret>>>, outcome: fn() -> Outcome) -> Step {
    let kept = kept.clone();
    ScriptedChief::acting(move |_, _, turn| {
        let kept = kept.clone();
        async move {
            kept.lock().unwrap().push(turn.agent_token);
            outcome()
        }
    })
}

async fn turn(muster: &TestMuster, external_id: &str, plugin: &plugins::PluginCaller) -> Delivery {
    let id = muster.accept(plugin, external_id).await.id;
    for _ in 0..6_000 {
        // On Postgres a crashed delivery's place is free only when the server has seen its connection end.
        match chief::deliver(&muster.app, muster.owner, id).await.unwrap() {
            Delivery::Pending => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
            ended => return ended,
        }
    }
    panic!("the chief was never free");
}

#[test]
fn the_chiefs_token_is_good_for_its_turn_and_refused_after_it() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        let chief = muster.set_chief().await;
        let kept = Arc::new(Mutex::new(Vec::new()));
        let during = Arc::new(Mutex::new(Vec::new()));
        let seen = during.clone();
        muster.chief.then(ScriptedChief::acting(move |app, caller, turn| {
            let seen = seen.clone();
            async move {
                let listed = accounts::tokens(&app, caller.owner).await.unwrap().len();
                let revoked = accounts::revoke_token(&app, caller.owner, caller.token)
                    .await
                    .is_ok();
                let open = doors(&app, turn.agent_token.expose()).await;
                seen.lock().unwrap().push((caller.chief, listed, revoked, open));
                Outcome::Completed { reply: "read".into() }
            }
        }));
        assert_eq!(turn(&muster, "one", &plugin).await, Delivery::Delivered);
        let expected = (Some(chief), 0, false, vec![(TokenKind::Agent, muster.owner)]);
        assert_eq!(
            *during.lock().unwrap(),
            [expected],
            "the chief's during the turn, and neither listed nor revocable by hand"
        );
        muster
            .chief
            .then(keeping(&kept, || Outcome::Completed { reply: "read".into() }));
        assert_eq!(turn(&muster, "two", &plugin).await, Delivery::Delivered);
        muster.chief.then(keeping(&kept, || Outcome::BrokenOff {
            reason: "the script says so".into(),
        }));
        assert_eq!(turn(&muster, "three", &plugin).await, Delivery::Unconfirmed);
        let tokens = kept.lock().unwrap().clone();
        assert_eq!(tokens.len(), 2);
        assert_ne!(tokens[0].expose(), tokens[1].expose(), "each turn has its own");
        for token in &tokens {
            assert_eq!(doors(&muster.app, token.expose()).await, []);
        }
        let all = everything_stored(&muster).await;
        assert!(
            tokens
                .iter()
                .all(|token| !all.contains(token.expose().strip_prefix("mag_").unwrap()))
        );
    });
}

#[test]
fn a_token_that_a_crash_left_over_ends_with_the_chiefs_next_turn() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        muster
            .chief
            .then(Step::Hold(Arc::new(tokio::sync::Notify::new())));
        let id = muster.accept(&plugin, "first").await.id;
        let (app, owner) = (muster.app.clone(), muster.owner);
        let dying = tokio::spawn(async move { chief::deliver(&app, owner, id).await });
        muster.chief.begun(1).await;
        let token = muster.chief.turns()[0].agent_token.clone();
        dying.abort();
        drop(dying.await);
        assert_eq!(turn(&muster, "next", &plugin).await, Delivery::Delivered);
        assert_eq!(doors(&muster.app, token.expose()).await, []);
    });
}

// spec: DRF-005
#[test]
fn a_turns_token_stops_being_the_chiefs_when_another_takes_its_place() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        let old = muster.set_chief().await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (kept, id) = (seen.clone(), muster.accept(&plugin, "m").await.id);
        muster.chief.then(ScriptedChief::acting(move |app, before, turn| {
            let kept = kept.clone();
            async move {
                chief::set(&app, before.owner, Kind::Command, "scripted")
                    .await
                    .unwrap();
                let after = accounts::agent(&app, turn.agent_token.expose())
                    .await
                    .unwrap()
                    .unwrap();
                let filed = drafts::file(&app, &after, id, "Noon works.").await;
                let with_the_old_caller = drafts::file(&app, &before, id, "Noon works.").await;
                kept.lock().unwrap().push((
                    before.chief,
                    after.chief,
                    filed.is_ok(),
                    with_the_old_caller.is_ok(),
                ));
                Outcome::Completed { reply: "read".into() }
            }
        }));
        chief::deliver(&muster.app, muster.owner, id).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), [(Some(old), None, false, false)]);
        assert!(drafts::open(&muster.app, muster.owner).await.unwrap().is_empty());
    });
}

// spec: DRF-005 TOK-031
#[test]
fn an_agents_token_that_the_owner_made_is_no_chiefs_and_a_disabled_owners_turn_has_none() {
    on_both(|muster| async move {
        let plugin = muster.plugin("mail").await;
        muster.set_chief().await;
        let helper = make(&muster.app, muster.owner, TokenKind::Agent).await;
        assert_eq!(
            accounts::agent(&muster.app, helper.token.expose())
                .await
                .unwrap()
                .unwrap()
                .chief,
            None
        );
        let id = muster.accept(&plugin, "m").await.id;
        let seen = Arc::new(Mutex::new(None));
        let kept = seen.clone();
        muster.chief.then(ScriptedChief::acting(move |app, _, turn| {
            let kept = kept.clone();
            async move {
                accounts::disable(&app, "ada").await.unwrap();
                *kept.lock().unwrap() = Some(doors(&app, turn.agent_token.expose()).await);
                accounts::enable(&app, "ada").await.unwrap();
                Outcome::Completed { reply: "read".into() }
            }
        }));
        chief::deliver(&muster.app, muster.owner, id).await.unwrap();
        assert_eq!(*seen.lock().unwrap(), Some(Vec::new()));
    });
}
