//! Two owners on one server: neither can read, decide, revoke, retry or even find out about a row of the other's, through any door.

use muster_app::access::{self, AskState, Seat};
use muster_app::accounts;
use muster_core::ids::{AskId, DraftId, MessageId};
use muster_core::secret::TokenKind;
use muster_store::{Sql, owned};
use muster_testkit::{ScriptedChief, Step, message};
use muster_web::{Door, routes};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use super::fleet::{Fleet, Parked};
use super::kit::{Answer, Ask, Connector, Doors, add_owner, doors, filing};

static INSERT_PASSKEY: Sql = owned(
    "tests.insert_passkey",
    "INSERT INTO passkeys (owner_id, credential_id, label, credential, created_at) VALUES ($1, $2, $3, '{}', 0) RETURNING id",
);

/// An id that nothing has.
const NOTHING: i64 = 999_999;

/// One row of each kind of the first owner's.
struct Hers {
    pending: DraftId,
    approved: DraftId,
    collected: DraftId,
    lost: MessageId,
    connector: Connector,
    token: i64,
    passkey: i64,
    fleet: Option<(Fleet, AskId, Parked)>,
}

impl Hers {
    async fn new(doors: &Doors) -> Self {
        let ada = doors.ada();
        let cookie = doors.sign_in("ada").await;
        let connector = doors.connector(ada, "adas-mail").await;
        let collected = doors
            .approved(&cookie, &connector, "adas-first", "Adas first reply.")
            .await;
        doors.claim(&connector).await;
        doors.token(ada, TokenKind::Personal).await;
        let passkey = doors.app.db.write(ada, |tx| {
            Box::pin(async move { tx.number(&INSERT_PASSKEY, ("adas", "adas key")).await })
        });
        Self {
            pending: doors
                .draft(&connector, message("adas-second"), "Adas second reply.")
                .await
                .1,
            approved: doors
                .approved(&cookie, &connector, "adas-third", "Adas third reply.")
                .await,
            collected,
            lost: doors.unconfirmed(&connector, "adas-fourth").await,
            token: accounts::tokens(&doors.app, ada).await.unwrap()[0].id.get(),
            passkey: passkey.await.unwrap(),
            fleet: None,
            connector,
        }
    }

    /// Adds a project, a policy, a task and a call that waits. From then on something runs in the background.
    async fn with_fleet(mut self, doors: &Doors) -> Self {
        let (app, ada) = (&doors.app, doors.ada());
        let fleet = Fleet::asking(doors).await;
        let seat = access::present(app, ada, Seat::Watch).await.unwrap();
        let parked = fleet.parks(doors, fleet.query("SELECT 'adas words'")).await;
        seat.leave().await.unwrap();
        let ask = access::list(app, ada, AskState::Parked).await.unwrap().remove(0);
        self.fleet = Some((fleet, ask.id, parked));
        self
    }

    /// The rows that a route's `{id}` can name.
    fn ids(&self, path: &str) -> Vec<i64> {
        match path {
            "/attention/drafts/{id}/approve"
            | "/attention/drafts/{id}/reject"
            | "/attention/drafts/{id}/withdraw"
            | "/plugin/v1/drafts/{id}/result" => {
                vec![self.pending.get(), self.approved.get(), self.collected.get()]
            }
            "/plugins/{id}/revoke" | "/chief/conversations/{id}" => vec![self.connector.id.get()],
            "/plugins/messages/{id}/retry" | "/api/plugins/messages/{id}/retry" => vec![self.lost.get()],
            "/settings/tokens/{id}/revoke" => vec![self.token],
            "/settings/passkeys/{id}/remove" => vec![self.passkey],
            "/attention/asks/{id}/allow" | "/attention/asks/{id}/refuse" => {
                vec![self.fleet.as_ref().unwrap().1.get()]
            }
            "/tasks/{id}" | "/tasks/{id}/permissions" => vec![self.fleet.as_ref().unwrap().0.task.get()],
            "/projects/{id}" => vec![self.fleet.as_ref().unwrap().0.project.get()],
            "/databases/{id}" => vec![self.fleet.as_ref().unwrap().0.staging.get()],
            "/policies/{id}" => vec![self.fleet.as_ref().unwrap().0.policy.get()],
            other => panic!("{other} names a row, and this test does not say of what kind"),
        }
    }
}

/// The second owner, with everything that lets him in somewhere.
struct Bob {
    cookie: String,
    connector: Connector,
    personal: String,
}

impl Bob {
    async fn new(doors: &Doors) -> Self {
        let bob = add_owner(&doors.app, "bob").await;
        let connector = doors.connector(bob, "bobs-mail").await;
        doors
            .draft(&connector, message("bobs-own"), "Bobs own reply.")
            .await;
        Self {
            cookie: doors.sign_in("bob").await,
            personal: doors.token(bob, TokenKind::Personal).await,
            connector,
        }
    }

    fn ask(&self, door: Door, method: &str, path: &str) -> Ask {
        match (door, method) {
            (Door::Person, "GET") => Ask::get(path).cookie(&self.cookie),
            (Door::Person, _) => {
                let act = match path.split('/').nth(1) {
                    Some("policies") => "delete",
                    Some("databases") => "check",
                    Some("projects") => "remove",
                    _ => "close",
                };
                Ask::form(path, &[("act", act)]).cookie(&self.cookie)
            }
            (Door::Plugin, _) => Ask::json(path, &json!({"ok": true})).bearer(&self.connector.token),
            (Door::Script, _) => Ask::post(path).bearer(&self.personal),
            _ => panic!("{door:?} names no rows"),
        }
    }
}

fn said(answer: &Answer) -> (u16, String, String) {
    (answer.status, answer.location().to_owned(), answer.text())
}

// spec: TOK-021 DRF-053 RTY-023 RES-009 CLM-014 TOK-007
#[test]
fn an_id_of_anothers_row_is_answered_like_an_id_of_nothing() {
    doors(|doors| async move {
        let (hers, bob) = (Hers::new(&doors).await, Bob::new(&doors).await);
        let hers = hers.with_fleet(&doors).await;
        let before = doors.state(doors.ada()).await;
        let mut tried = BTreeSet::new();
        for route in routes(&doors.web)
            .into_iter()
            .filter(|route| route.path.contains("{id}"))
        {
            let at = |id: i64| route.path.replace("{id}", &id.to_string());
            let nothing = doors.send(bob.ask(route.door, route.method, &at(NOTHING))).await;
            assert_eq!(nothing.status, 404, "{}: {}", route.path, nothing.text());
            for id in hers.ids(route.path) {
                let answer = doors.send(bob.ask(route.door, route.method, &at(id))).await;
                assert_eq!(said(&answer), said(&nothing), "{} {}", route.method, at(id));
                tried.insert((route.path, id));
            }
        }
        assert!(tried.len() >= 22, "{tried:?}");
        assert_eq!(doors.state(doors.ada()).await, before);
        // The same words come from the rows' own owner for what is not there, and her rows answer her.
        let cookie = doors.sign_in("ada").await;
        let missing = doors
            .send(Ask::form(&format!("/attention/drafts/{NOTHING}/reject"), &[]).cookie(&cookie))
            .await;
        assert!(missing.status == 404 && missing.text().contains("No such draft."));
        doors.decide(&cookie, hers.pending, "reject").await;
        doors.decide(&cookie, hers.approved, "withdraw").await;
        let (_, ask, parked) = hers.fleet.unwrap();
        let allowed = doors
            .send(Ask::form(&format!("/attention/asks/{ask}/allow"), &[]).cookie(&cookie))
            .await;
        assert_eq!(allowed.status, 303);
        assert!(parked.await.unwrap().is_ok());
    });
}

#[test]
fn no_page_shows_a_word_of_anothers() {
    doors(|doors| async move {
        let (hers, bob) = (Hers::new(&doors).await, Bob::new(&doors).await);
        let hers = hers.with_fleet(&doors).await;
        let hers_alone = [
            "adas",
            "Tidy up",
            "staging",
            "muster_db_query",
            "Adas",
            "body of adas-second",
            &format!("/plugins/messages/{}/", hers.lost),
            &format!("/attention/drafts/{}/", hers.pending),
        ];
        let mut pages = 0;
        let lists = routes(&doors.web).into_iter().filter(|route| {
            route.method == "GET"
                && route.door == Door::Person
                && !route.path.contains('{')
                && route.path != "/events"
        });
        let mut paths: Vec<String> = lists
            .map(|route| route.path.to_owned())
            .filter(|path| path != "/attention")
            .collect();
        paths.extend(
            [
                "/attention?tab=drafts",
                "/attention?tab=drafts&archived=1",
                "/attention?tab=drafts&archived=1&before=999999",
                "/audit?before=999999",
            ]
            .map(str::to_owned),
        );
        paths.push(format!(
            "/chief/conversations/{}?before={NOTHING}",
            bob.connector.id
        ));
        for path in paths {
            let page = doors.page(&bob.cookie, &path).await;
            for word in hers_alone {
                assert!(!page.contains(word), "{path} shows {word}");
            }
            pages += 1;
        }
        assert!(pages >= 10);
        let his = doors.page(&bob.cookie, "/attention?tab=drafts").await;
        assert!(his.contains("Bobs own reply.") && his.contains("body of bobs-own"));
        let audit = doors.page(&bob.cookie, "/audit").await;
        assert!(
            audit.contains(">plugin.draft.filed</td>") && !audit.contains(">plugin.draft.approved</td>"),
            "hers was approved, his only filed"
        );
    });
}

// spec: CLM-014 RES-008 MSG-008
#[test]
fn a_connector_meets_only_its_own_messages_and_replies() {
    doors(|doors| async move {
        let (hers, bob) = (Hers::new(&doors).await, Bob::new(&doors).await);
        let second = doors.connector(doors.ada(), "adas-chat").await;
        for other in [&bob.connector, &second] {
            let claim = doors
                .send(Ask::post("/plugin/v1/drafts/claim").bearer(&other.token))
                .await;
            assert_eq!(claim.status, 204, "{}", claim.text());
            let same = Ask::json(
                "/plugin/v1/messages",
                &json!({"external_id": "adas-second", "body": "mine"}),
            )
            .bearer(&other.token);
            let stored = doors.send(same).await;
            assert_eq!(stored.status, 202, "another connector's external_id is free");
            for id in [hers.pending, hers.approved, hers.collected] {
                let report = doors
                    .send(
                        Ask::json(&format!("/plugin/v1/drafts/{id}/result"), &json!({"ok": false}))
                            .bearer(&other.token),
                    )
                    .await;
                assert_eq!(
                    report.line(),
                    r#"404 application/json {"error":"there is no such reply of this connector's"}"#
                );
            }
        }
        let mine = doors.claim(&hers.connector).await;
        assert_eq!(mine["draft_id"], hers.approved.get());
    });
}

#[test]
fn a_chief_can_answer_no_message_of_anothers() {
    doors(|doors| async move {
        let (hers, bob) = (Hers::new(&doors).await, Bob::new(&doors).await);
        let before = doors.state(doors.ada()).await;
        let said = Arc::new(Mutex::new(Vec::new()));
        let (heard, theirs) = (said.clone(), [hers.lost, MessageId::new(NOTHING)]);
        let own = doors.store(&bob.connector, message("bobs-second")).await;
        let step = ScriptedChief::acting(move |app, caller, _| {
            let heard = heard.clone();
            async move {
                for message in theirs {
                    let refusal = muster_app::drafts::file(&app, &caller, message, "To whom it concerns.")
                        .await
                        .unwrap_err();
                    heard.lock().unwrap().push(refusal.to_string());
                }
                muster_runtime::Outcome::Completed { reply: String::new() }
            }
        });
        doors.deliver(bob.connector.owner, own, step).await;
        let said = said.lock().unwrap().clone();
        assert!(
            said.len() == 2
                && said[0] == said[1]
                && said[0].contains("does not name a message that was delivered to you"),
            "{said:?}"
        );
        assert_eq!(doors.state(doors.ada()).await, before);
    });
}

#[test]
fn a_sign_out_everywhere_ends_nobody_elses_sessions() {
    doors(|doors| async move {
        add_owner(&doors.app, "bob").await;
        let (ada, bob) = (doors.sign_in("ada").await, doors.sign_in("bob").await);
        doors
            .send(Ask::form("/sign-out-everywhere", &[]).cookie(&bob))
            .await;
        assert_eq!(doors.send(Ask::get("/").cookie(&bob)).await.status, 303);
        assert_eq!(doors.send(Ask::get("/").cookie(&ada)).await.status, 200);
    });
}

// spec: TOK-007 TOK-017
#[test]
fn what_a_connector_posts_reaches_its_own_owners_chief_and_pages_only() {
    doors(|doors| async move {
        let bob = add_owner(&doors.app, "bob").await;
        let (hers, his) = (
            doors.connector(doors.ada(), "hers").await,
            doors.connector(bob, "his").await,
        );
        for owner in [doors.ada(), bob] {
            doors.chief_of(owner).await;
        }
        for (connector, text) in [(&hers, "for ada alone"), (&his, "for bob alone")] {
            doors.muster.chief.then(Step::Complete("read"));
            let posted = doors
                .send(
                    Ask::json("/plugin/v1/messages", &json!({"external_id": "m", "body": text}))
                        .bearer(&connector.token),
                )
                .await;
            assert_eq!(posted.status, 202);
            doors.muster.settle().await;
        }
        for (name, connector, own, others) in [
            ("ada", &hers, "for ada alone", "for bob alone"),
            ("bob", &his, "for bob alone", "for ada alone"),
        ] {
            let cookie = doors.sign_in(name).await;
            let page = doors
                .page(&cookie, &format!("/chief/conversations/{}", connector.id))
                .await;
            assert!(page.contains(own) && !page.contains(others), "{name}");
            let chief = doors.page(&cookie, "/chief").await;
            assert!(
                chief.contains(&format!("Label of {}", connector.caller.name))
                    && chief.matches("/chief/conversations/").count() == 1
            );
        }
        let turns = doors.muster.chief.turns();
        assert!(turns.len() == 2 && turns[0].title == "Label of hers" && turns[1].title == "Label of his");
        assert_ne!(turns[0].agent_token.expose(), turns[1].agent_token.expose());
    });
}

#[test]
fn the_same_words_file_a_draft_where_the_message_is_the_chiefs_own() {
    doors(|doors| async move {
        let connector = doors.connector(doors.ada(), "mail").await;
        doors.chief_of(doors.ada()).await;
        let own = doors.store(&connector, message("own")).await;
        doors
            .deliver(doors.ada(), own, filing(own, "To whom it concerns."))
            .await;
        assert!(doors.newest_draft(doors.ada(), own).await.get() > 0);
    });
}
