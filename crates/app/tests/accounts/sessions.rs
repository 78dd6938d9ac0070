//! Sign-ins and browser sessions: who gets one, how long it lives, how it ends, and when it last proved who sits there. Never decides a draft.

use std::time::{Duration, Instant};

use muster_app::accounts::{self, SESSION_IDLE, SESSION_LIFETIME, SignInError};
use muster_core::Secret;
use muster_testkit::{PASSWORD, add_owner, on_both};

use super::kit::{DAY, SECOND, add, events, everything_stored, sign_in, try_sign_in, who};

// spec: TOK-026
#[test]
fn a_password_opens_a_session_that_knows_when_it_was_opened() {
    on_both(|muster| async move {
        let app = &muster.app;
        let cookie = sign_in(app, "ada").await;
        let at = app.clock.now();
        muster.clock.advance(SECOND * 90);
        let caller = who(app, &cookie).await.unwrap();
        assert_eq!(
            (caller.owner, caller.name.as_str(), caller.signed_in_at),
            (muster.owner, "ada", at)
        );
        let second = sign_in(app, "ada").await;
        assert_ne!(second.expose(), cookie.expose());
        let other = who(app, &second).await.unwrap();
        assert!(other.session != caller.session && other.signed_in_at == app.clock.now());
        let rows = events(app, muster.owner, "owner.signed_in").await;
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.data["by"] == "password"));
        let all = everything_stored(&muster).await;
        assert!(!all.contains(cookie.expose()), "only the cookie's hash is kept");
        assert!(all.contains(muster_core::TokenHash::of(cookie.expose()).as_str()));
    });
}

#[test]
fn a_wrong_name_a_wrong_password_and_a_disabled_account_are_refused_alike() {
    on_both(|muster| async move {
        let app = &muster.app;
        add_owner(app, "bob").await;
        add(app, "eve", "another password", false).await.unwrap();
        accounts::disable(app, "bob").await.unwrap();
        let mut sentences = std::collections::BTreeSet::new();
        for (name, password) in [
            ("nobody", PASSWORD),
            ("ada", "wrong horse battery"),
            ("ada", ""),
            ("ada", "another password"),
            ("bob", PASSWORD),
            ("bob", "wrong horse battery"),
            ("eve", PASSWORD),
            ("", ""),
            ("ADA", PASSWORD),
            ("ada ", PASSWORD),
            ("ada' OR '1'='1", PASSWORD),
        ] {
            let refused = try_sign_in(app, name, password).await.unwrap_err();
            assert!(matches!(refused, SignInError::Wrong), "{name}: {refused:?}");
            sentences.insert(refused.to_string());
        }
        assert_eq!(sentences.len(), 1);
        assert!(events(app, muster.owner, "owner.signed_in").await.is_empty());
        assert!(try_sign_in(app, "ada", PASSWORD).await.is_ok());
    });
}

#[test]
fn a_wrong_name_takes_as_long_as_a_wrong_password() {
    on_both(|muster| async move {
        let (mut names, mut passwords) = (Vec::new(), Vec::new());
        // Taken in turns, so that a busy machine slows both alike.
        for _ in 0..9 {
            for (name, spans) in [("nobody", &mut names), ("ada", &mut passwords)] {
                let begun = Instant::now();
                assert!(
                    try_sign_in(&muster.app, name, "wrong horse battery")
                        .await
                        .is_err()
                );
                spans.push(begun.elapsed());
            }
        }
        names.sort();
        passwords.sort();
        // Without the same work the wrong name is some ten times faster.
        assert!(
            names[4] * 3 > passwords[4],
            "{:?} against {:?}",
            names[4],
            passwords[4]
        );
    });
}

#[test]
fn only_a_cookie_that_was_handed_out_opens_anything() {
    on_both(|muster| async move {
        let app = &muster.app;
        let cookie = sign_in(app, "ada").await;
        let text = cookie.expose();
        let altered: String = text.chars().rev().collect();
        let hash = muster_core::TokenHash::of(text);
        for bad in [
            "",
            "x",
            text.get(..63).unwrap(),
            &format!("{text}0"),
            &text.to_uppercase().replace(|c: char| c.is_ascii_digit(), "A"),
            &altered,
            hash.as_str(),
        ] {
            assert!(accounts::browser(app, bad).await.unwrap().is_none(), "{bad}");
        }
        assert!(who(app, &cookie).await.is_some());
    });
}

#[test]
fn a_session_that_is_not_used_ends_after_its_idle_time() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (used, unused) = (sign_in(app, "ada").await, sign_in(app, "ada").await);
        muster.clock.advance(SESSION_IDLE - DAY);
        assert!(who(app, &used).await.is_some());
        muster.clock.advance(DAY);
        assert!(who(app, &unused).await.is_some(), "exactly its idle time");
        muster.clock.advance(SESSION_IDLE - DAY * 2);
        assert!(who(app, &used).await.is_some());
        muster.clock.advance(DAY * 2 + SECOND);
        assert!(who(app, &unused).await.is_none());
        assert!(
            who(app, &unused).await.is_none(),
            "and asking does not bring it back"
        );
    });
}

#[test]
fn a_session_ends_at_its_full_age_however_much_it_is_used_and_confirmed() {
    on_both(|muster| async move {
        let app = &muster.app;
        let cookie = sign_in(app, "ada").await;
        for _ in 0..9 {
            muster.clock.advance(DAY * 10);
            let caller = who(app, &cookie).await.unwrap();
            accounts::confirm_password(app, &caller, &Secret::new(PASSWORD))
                .await
                .unwrap();
        }
        assert_eq!(SESSION_LIFETIME, DAY * 90);
        assert!(who(app, &cookie).await.is_some(), "on its last moment");
        muster.clock.advance(SECOND);
        assert!(who(app, &cookie).await.is_none());
    });
}

#[test]
fn signing_out_ends_this_session_alone() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (here, there) = (sign_in(app, "ada").await, sign_in(app, "ada").await);
        let caller = who(app, &here).await.unwrap();
        accounts::sign_out(app, &caller).await.unwrap();
        assert!(who(app, &here).await.is_none());
        assert!(who(app, &there).await.is_some());
        assert_eq!(events(app, muster.owner, "owner.signed_out").await.len(), 1);
    });
}

#[test]
fn signing_out_everywhere_ends_all_of_this_owners_sessions_and_nobody_elses() {
    on_both(|muster| async move {
        let app = &muster.app;
        add_owner(app, "bob").await;
        let bobs = sign_in(app, "bob").await;
        let mut adas = Vec::new();
        for _ in 0..3 {
            adas.push(sign_in(app, "ada").await);
        }
        let caller = who(app, &adas[1]).await.unwrap();
        accounts::sign_out_everywhere(app, &caller).await.unwrap();
        for cookie in &adas {
            assert!(who(app, cookie).await.is_none());
        }
        assert!(who(app, &bobs).await.is_some());
        let rows = events(app, muster.owner, "owner.signed_out_everywhere").await;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].data["sessions"], 3);
        let again = sign_in(app, "ada").await;
        assert!(who(app, &again).await.is_some());
    });
}

// spec: TOK-026
#[test]
fn a_confirmation_makes_this_sessions_sign_in_count_from_now() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (here, there) = (sign_in(app, "ada").await, sign_in(app, "ada").await);
        let opened = app.clock.now();
        muster.clock.advance(DAY);
        let caller = who(app, &here).await.unwrap();
        for wrong in ["wrong horse battery", ""] {
            assert!(matches!(
                accounts::confirm_password(app, &caller, &Secret::new(wrong)).await,
                Err(SignInError::Wrong)
            ));
        }
        assert_eq!(
            who(app, &here).await.unwrap().signed_in_at,
            opened,
            "a wrong password confirms nothing"
        );
        assert!(events(app, muster.owner, "owner.confirmed").await.is_empty());
        accounts::confirm_password(app, &caller, &Secret::new(PASSWORD))
            .await
            .unwrap();
        assert_eq!(who(app, &here).await.unwrap().signed_in_at, app.clock.now());
        assert_eq!(
            who(app, &there).await.unwrap().signed_in_at,
            opened,
            "nobody was asked there"
        );
        assert_eq!(events(app, muster.owner, "owner.confirmed").await.len(), 1);
    });
}

#[test]
fn a_confirmation_takes_only_the_owners_own_password_and_revives_no_ended_session() {
    on_both(|muster| async move {
        let app = &muster.app;
        add(app, "eve", "another password", false).await.unwrap();
        let cookie = sign_in(app, "ada").await;
        let caller = who(app, &cookie).await.unwrap();
        assert!(
            accounts::confirm_password(app, &caller, &Secret::new("another password"))
                .await
                .is_err()
        );
        accounts::sign_out(app, &caller).await.unwrap();
        let late = accounts::confirm_password(app, &caller, &Secret::new(PASSWORD)).await;
        assert!(matches!(late, Err(SignInError::Wrong)), "{late:?}");
        assert!(who(app, &cookie).await.is_none());
        assert!(events(app, muster.owner, "owner.confirmed").await.is_empty());
    });
}

#[test]
fn a_burst_of_sign_ins_is_worked_off_and_each_gets_its_own_session() {
    on_both(|muster| async move {
        let tries: Vec<_> = (0..12)
            .map(|n| {
                let app = muster.app.clone();
                tokio::spawn(async move {
                    try_sign_in(
                        &app,
                        "ada",
                        if n % 3 == 0 {
                            "wrong horse battery"
                        } else {
                            PASSWORD
                        },
                    )
                    .await
                })
            })
            .collect();
        let mut cookies = std::collections::BTreeSet::new();
        for (n, one) in tries.into_iter().enumerate() {
            match tokio::time::timeout(Duration::from_secs(60), one)
                .await
                .unwrap()
                .unwrap()
            {
                Ok(cookie) => assert!(n % 3 != 0 && cookies.insert(cookie.expose().to_owned())),
                Err(refused) => assert!(n % 3 == 0 && matches!(refused, SignInError::Wrong)),
            }
        }
        assert_eq!(cookies.len(), 8);
    });
}

#[test]
fn failed_sign_ins_leave_one_row_an_account_and_minute_with_a_count() {
    on_both(|muster| async move {
        let app = &muster.app;
        let bob = add_owner(app, "bob").await;
        let rows = async |owner| {
            muster.settle().await;
            let rows = events(app, owner, "owner.sign_in_failed").await;
            rows.iter()
                .map(|row| row.data["count"].as_u64().unwrap())
                .collect::<Vec<_>>()
        };
        for _ in 0..3 {
            assert!(try_sign_in(app, "ada", "wrong horse battery").await.is_err());
        }
        assert_eq!(
            rows(muster.owner).await,
            [1],
            "the first at once, the others with what follows"
        );
        // What is right is no failure, and a wrong confirmation is one.
        let cookie = sign_in(app, "ada").await;
        let caller = who(app, &cookie).await.unwrap();
        assert!(
            accounts::confirm_password(app, &caller, &Secret::new("x"))
                .await
                .is_err()
        );
        muster.clock.advance(SECOND * 59);
        assert!(try_sign_in(app, "ada", "").await.is_err());
        assert_eq!(rows(muster.owner).await, [1]);
        muster.clock.advance(SECOND);
        assert!(try_sign_in(app, "ada", "wrong horse battery").await.is_err());
        assert_eq!(rows(muster.owner).await, [5, 1]);
        assert_eq!(rows(bob).await, [0; 0]);

        accounts::disable(app, "bob").await.unwrap();
        assert!(try_sign_in(app, "bob", PASSWORD).await.is_err());
        for nobody in ["eve", "", "wrong horse battery"] {
            assert!(try_sign_in(app, nobody, PASSWORD).await.is_err());
        }
        assert_eq!((rows(bob).await, rows(muster.owner).await), (vec![1], vec![5, 1]));
        let row = &events(app, muster.owner, "owner.sign_in_failed").await[0];
        assert_eq!(
            (row.actor.as_str(), row.subject.clone(), &row.data["by"]),
            ("visitor", format!("owner:{}", muster.owner), &"password".into())
        );
        assert!(!row.data.to_string().contains("horse"));
    });
}

#[test]
fn what_failed_is_written_down_by_the_sweep_and_when_muster_stops() {
    on_both(|muster| async move {
        let app = &muster.app;
        // The pace of the sweep takes real seconds, and what it does is the same on both engines.
        if muster.engine != muster_store::Engine::Sqlite {
            return;
        }
        let fail = || async { assert!(try_sign_in(app, "ada", "wrong").await.is_err()) };
        let rows = || async { events(app, muster.owner, "owner.sign_in_failed").await.len() };
        fail().await;
        fail().await;
        muster.settle().await;
        assert_eq!(rows().await, 1);
        muster_app::background::start_sweep(app);
        muster.clock.advance(SECOND * 60);
        for _ in 0..600 {
            if rows().await == 2 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(rows().await, 2, "nobody had to fail again");
        fail().await;
        assert_eq!(rows().await, 2);
        app.tasks.stop().await;
        assert_eq!(rows().await, 3);
    });
}
