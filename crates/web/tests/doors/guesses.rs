//! How often somebody may try a password: by address, by account and by browser, and who is never locked out by whom.

use http::Method;
use muster_testkit::PASSWORD;
use serde_json::json;

use super::kit::{Answer, Ask, Doors, add_owner, doors};

/// A try from an address of its own, and that of everybody behind one proxy.
fn guess(name: &str, password: &str) -> Ask {
    Ask::form("/sign-in", &[("name", name), ("password", password)])
}

const PROXY: [u8; 4] = [192, 0, 2, 1];

/// Signs in as somebody does who has never been here; answers the mark that the browser keeps.
async fn known(doors: &Doors, name: &str) -> String {
    let answer = doors.send(guess(name, PASSWORD)).await;
    assert_eq!(answer.status, 303, "{}", answer.text());
    answer.mark()
}

fn stopped(answer: &Answer, words: &str) {
    assert_eq!(
        (answer.status, answer.header("set-cookie")),
        (429, ""),
        "{}",
        answer.text()
    );
    let seconds: u64 = answer.header("retry-after").parse().unwrap();
    assert!(
        (1..=7).contains(&seconds)
            && answer.text().contains("Nothing was checked")
            && answer.text().contains(words),
        "{}",
        answer.text()
    );
}

/// Guesses wrongly until nothing is looked at any more: on a busy machine ten guesses take long enough for another to be granted.
async fn use_up(doors: &Doors, wrong: impl Fn() -> Ask) {
    for _ in 0..60 {
        match doors.send(wrong()).await.status {
            429 => return,
            status => assert_eq!(status, 401),
        }
    }
    panic!("60 guesses were looked at");
}

#[test]
fn a_guesser_at_a_name_is_stopped_after_ten_failures_from_wherever_and_whether_it_is_anybodys() {
    doors(|doors| async move {
        let mark = known(&doors, "ada").await;
        add_owner(&doors.app, "grace").await;
        for name in ["ada", "nobody"] {
            for n in 0..10 {
                assert_eq!(
                    doors.send(guess(name, &format!("guess number {n}"))).await.status,
                    401
                );
            }
            for password in ["guess again", PASSWORD] {
                use_up(&doors, || guess(name, "wrong")).await;
                stopped(
                    &doors.send(guess(name, password)).await,
                    "failed tries for this name",
                );
            }
        }
        // Whoever signed in here before is not locked out, from whatever address, and not without end either.
        let back = doors.send(guess("ada", PASSWORD).cookie(&mark)).await;
        assert_eq!((back.status, back.location()), (303, "/"));
        for n in 0..9 {
            let answer = doors
                .send(guess("ada", &format!("forgotten {n}")).cookie(&mark))
                .await;
            assert_eq!(answer.status, 401);
        }
        use_up(&doors, || guess("ada", "wrong").cookie(&mark)).await;
        stopped(
            &doors.send(guess("ada", PASSWORD).cookie(&mark)).await,
            "from this browser",
        );
        // Nobody else is stopped, and another's mark opens nothing.
        let other = known(&doors, "grace").await;
        use_up(&doors, || guess("ada", "wrong")).await;
        stopped(
            &doors.send(guess("ada", PASSWORD).cookie(&other)).await,
            "failed tries for this name",
        );
        let forged = format!("{mark}0");
        use_up(&doors, || guess("ada", "wrong")).await;
        stopped(
            &doors.send(guess("ada", PASSWORD).cookie(&forged)).await,
            "failed tries for this name",
        );
    });
}

#[test]
fn only_failures_count_against_an_account() {
    doors(|doors| async move {
        for _ in 0..12 {
            assert_eq!(doors.send(guess("ada", PASSWORD)).await.status, 303);
        }
        for n in 0..10 {
            assert_eq!(
                doors
                    .send(guess("ada", &format!("guess number {n}")))
                    .await
                    .status,
                401
            );
        }
        use_up(&doors, || guess("ada", "wrong")).await;
        stopped(
            &doors.send(guess("ada", PASSWORD)).await,
            "failed tries for this name",
        );
    });
}

#[test]
fn one_guesser_behind_a_proxy_keeps_nobody_known_there_out_and_others_for_a_second_at_a_time() {
    doors(|doors| async move {
        let mark = known(&doors, "ada").await;
        let mut tries = 0;
        let refused = loop {
            // Without a look at a password, so that the proxy's allowance is used up faster than it grows.
            let asks = (0..30).map(|n| {
                let name = json!({"name": format!("name{n}")});
                doors.sending(Ask::script("/sign-in/passkey/begin", &name).sent_from(PROXY))
            });
            let mut refused = None;
            for sent in asks.collect::<Vec<_>>() {
                let answer = sent.await.unwrap();
                if answer.status == 429 {
                    refused = Some(answer);
                } else {
                    tries += 1;
                }
            }
            assert!(tries < 500, "the address has no bound");
            if let Some(refused) = refused {
                break refused;
            }
        };
        assert!(tries >= 60, "{tries}: wide enough for all who share an address");
        assert!(refused.header("retry-after").parse::<u64>().unwrap() <= 2);
        assert!(refused.error().contains("from your address"));
        let back = doors
            .send(guess("ada", PASSWORD).sent_from(PROXY).cookie(&mark))
            .await;
        assert_eq!(back.status, 303, "{}", back.text());
        let asked = Ask::script("/sign-in/passkey/begin", &json!({"name": "ada"})).sent_from(PROXY);
        assert_eq!(
            doors.send(asked.cookie(&mark)).await.status,
            200,
            "nor from a passkey"
        );
        for path in ["/sign-in", "/healthz"] {
            assert_eq!(doors.send(Ask::get(path).sent_from(PROXY)).await.status, 200);
        }
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        let anybody = doors.send(guess("ada", PASSWORD).sent_from(PROXY)).await;
        assert_eq!(anybody.status, 303, "after a second there is room for one more");
    });
}

#[test]
fn a_session_confirms_by_an_allowance_of_its_own() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        for n in 0..11 {
            doors
                .send(guess("ada", &format!("guess number {n}")).sent_from(PROXY))
                .await;
        }
        let confirm = |password: &'static str| {
            Ask::form("/confirm", &[("password", password)])
                .cookie(&cookie)
                .sent_from(PROXY)
        };
        assert_eq!(doors.send(confirm(PASSWORD)).await.status, 303);
        for _ in 0..9 {
            assert_eq!(doors.send(confirm("a guess")).await.status, 401);
        }
        use_up(&doors, || confirm("a guess")).await;
        stopped(&doors.send(confirm(PASSWORD)).await, "from this browser");
        let other = doors.send(Ask::get("/").cookie(&cookie).sent_from(PROXY)).await;
        assert_eq!(other.status, 200);
    });
}

#[test]
fn the_mark_of_a_known_browser_is_kept_from_scripts_outlives_a_sign_out_and_lets_nobody_in() {
    doors(|http| async move {
        let https = http.public("https://muster.example");
        for (doors, name, secure) in [
            (&http, "muster-7447-known=", false),
            (&https, "__Host-muster-known=", true),
        ] {
            let answer = doors.send(guess("ada", PASSWORD)).await;
            let mark = answer.mark();
            assert!(mark.starts_with(name) && mark.split('.').count() == 3, "{mark}");
            let sets: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
            assert_eq!(sets.len(), 2);
            let attributes: Vec<&str> = sets[1].to_str().unwrap().split("; ").skip(1).collect();
            for wanted in ["Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=15552000"] {
                assert!(attributes.contains(&wanted), "{attributes:?}");
            }
            assert_eq!(attributes.contains(&"Secure"), secure);
            for method in [Method::GET, Method::HEAD] {
                let alone = doors.send(Ask::new(method, "/").cookie(&mark)).await;
                assert_eq!((alone.status, alone.location()), (303, "/sign-in"));
            }
            let both = format!("{}; {mark}", answer.cookie());
            let out = doors.send(Ask::form("/sign-out", &[]).cookie(&both)).await;
            assert_eq!(
                (out.status, out.mark().as_str()),
                (303, ""),
                "it is not taken away"
            );
        }
        let wrong = http.send(guess("ada", "wrong password")).await;
        assert_eq!((wrong.status, wrong.mark().as_str()), (401, ""));
    });
}
