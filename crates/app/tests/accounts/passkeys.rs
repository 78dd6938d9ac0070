//! Passkeys, with an authenticator in software: register, sign in, confirm, remove, and every answer that must not be taken. Never opens a browser.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_app::accounts::{self, BrowserCaller, PasskeyError};
use muster_app::{App, accounts::Begun};
use muster_core::Secret;
use muster_core::ids::PasskeyId;
use muster_core::text::Label;
use muster_testkit::{TestMuster, add_owner, on_both, settings};
use p256::ecdsa::signature::Signer as _;
use p256::ecdsa::{Signature, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::kit::{DAY, SECOND, events, everything_stored, sign_in, who};

/// The address of the tests' settings, as a browser names it.
const ORIGIN: &str = "http://localhost:7447";

/// One credential of a security key: a key pair on P-256 and a counter. User present and verified, no attestation.
#[derive(Clone)]
struct Authenticator {
    key: SigningKey,
    id: Vec<u8>,
    counter: u32,
    origin: String,
    relying_party: String,
    verified: bool,
}

impl Authenticator {
    fn new(seed: &str) -> Self {
        let bytes = Sha256::digest(seed.as_bytes());
        Self {
            key: SigningKey::from_slice(&bytes).unwrap(),
            id: Sha256::digest(bytes).to_vec(),
            counter: 0,
            origin: ORIGIN.to_owned(),
            relying_party: "localhost".to_owned(),
            verified: true,
        }
    }

    fn client_data(&self, kind: &str, options: &Value) -> Vec<u8> {
        let challenge = &options["publicKey"]["challenge"];
        assert!(challenge.is_string());
        json!({"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": false})
            .to_string()
            .into_bytes()
    }

    /// Relying party, flags and counter: how both answers begin.
    fn head(&self, more: u8) -> Vec<u8> {
        let present_and_verified = if self.verified { 0x05 } else { 0x01 };
        let mut data = Sha256::digest(self.relying_party.as_bytes()).to_vec();
        data.push(present_and_verified | more);
        data.extend(self.counter.to_be_bytes());
        data
    }

    fn register(&mut self, options: &Value) -> Value {
        self.counter += 1;
        let mut data = self.head(0x40);
        data.extend([0; 16]);
        data.extend(u16::try_from(self.id.len()).unwrap().to_be_bytes());
        data.extend(&self.id);
        // COSE in CBOR: {1: 2 (EC2), 3: -7 (ES256), -1: 1 (P-256), -2: x, -3: y}.
        let point = self.key.verifying_key().to_sec1_point(false);
        let (x, y) = point.as_bytes()[1..].split_at(32);
        data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
        data.extend(x);
        data.extend([0x22, 0x58, 0x20]);
        data.extend(y);
        // CBOR: {"fmt": "none", "attStmt": {}, "authData": data}.
        let mut object = vec![0xa3, 0x63];
        object.extend(b"fmt");
        object.push(0x64);
        object.extend(b"none");
        object.push(0x67);
        object.extend(b"attStmt");
        object.extend([0xa0, 0x68]);
        object.extend(b"authData");
        object.push(0x58);
        object.push(u8::try_from(data.len()).unwrap());
        object.extend(data);
        self.answer(&json!({
            "attestationObject": URL_SAFE_NO_PAD.encode(object),
            "clientDataJSON": URL_SAFE_NO_PAD.encode(self.client_data("webauthn.create", options)),
        }))
    }

    fn prove(&mut self, options: &Value) -> Value {
        self.counter += 1;
        let data = self.head(0);
        let client_data = self.client_data("webauthn.get", options);
        let mut signed = data.clone();
        signed.extend(Sha256::digest(&client_data));
        let signature: Signature = self.key.sign(&signed);
        self.answer(&json!({
            "authenticatorData": URL_SAFE_NO_PAD.encode(data),
            "clientDataJSON": URL_SAFE_NO_PAD.encode(client_data),
            "signature": URL_SAFE_NO_PAD.encode(signature.to_der().as_bytes()),
            "userHandle": null,
        }))
    }

    fn answer(&self, response: &Value) -> Value {
        let id = URL_SAFE_NO_PAD.encode(&self.id);
        json!({"id": id, "rawId": id, "type": "public-key", "response": response, "extensions": {}})
    }
}

async fn register(
    app: &App,
    caller: &BrowserCaller,
    key: &mut Authenticator,
) -> Result<PasskeyId, PasskeyError> {
    let begun = accounts::begin_register(app, caller).await?;
    let answer = key.register(&begun.options);
    accounts::finish_register(
        app,
        caller,
        begun.ceremony.expose(),
        Label::parse("label", "key").unwrap(),
        answer,
    )
    .await
}

async fn sign_in_with(app: &App, name: &str, key: &mut Authenticator) -> Result<Secret, PasskeyError> {
    let begun = accounts::begin_sign_in(app, name).await?;
    let answer = key.prove(&begun.options);
    accounts::finish_sign_in(app, begun.ceremony.expose(), answer).await
}

async fn confirm_with(
    app: &App,
    caller: &BrowserCaller,
    key: &mut Authenticator,
) -> Result<(), PasskeyError> {
    let begun = accounts::begin_confirm(app, caller).await?;
    let answer = key.prove(&begun.options);
    accounts::finish_confirm(app, caller, begun.ceremony.expose(), answer).await
}

/// Ada, signed in by password, with one passkey.
async fn with_key(muster: &TestMuster) -> (BrowserCaller, Authenticator, PasskeyId) {
    let caller = signed_in(muster, "ada").await;
    let mut key = Authenticator::new("a key");
    let id = register(&muster.app, &caller, &mut key).await.unwrap();
    (caller, key, id)
}

async fn signed_in(muster: &TestMuster, name: &str) -> BrowserCaller {
    let cookie = sign_in(&muster.app, name).await;
    who(&muster.app, &cookie).await.unwrap()
}

// spec: TOK-026
#[test]
fn a_passkey_signs_in_and_its_session_counts_from_then() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (_, mut key, id) = with_key(&muster).await;
        muster.clock.advance(DAY);
        let cookie = sign_in_with(app, "ada", &mut key).await.unwrap();
        let caller = who(app, &cookie).await.unwrap();
        assert_eq!(
            (caller.owner, caller.signed_in_at),
            (muster.owner, app.clock.now())
        );
        let listed = accounts::passkeys(app, muster.owner).await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!(
            (listed[0].id, listed[0].label.as_str(), listed[0].last_used_at),
            (id, "key", Some(app.clock.now()))
        );
        assert_eq!(events(app, muster.owner, "passkey.registered").await.len(), 1);
        assert_eq!(
            events(app, muster.owner, "owner.signed_in").await[0].data["by"],
            "passkey"
        );
    });
}

// spec: TOK-026
#[test]
fn a_passkey_confirms_the_session_that_asked() {
    on_both(|muster| async move {
        let app = &muster.app;
        let cookie = sign_in(app, "ada").await;
        let caller = who(app, &cookie).await.unwrap();
        let mut key = Authenticator::new("a key");
        register(app, &caller, &mut key).await.unwrap();
        muster.clock.advance(DAY);
        confirm_with(app, &caller, &mut key).await.unwrap();
        assert_eq!(who(app, &cookie).await.unwrap().signed_in_at, app.clock.now());
        assert_eq!(
            events(app, muster.owner, "owner.confirmed").await[0].data["by"],
            "passkey"
        );
    });
}

async fn refused<T: std::fmt::Debug>(outcome: Result<T, PasskeyError>) {
    assert!(matches!(outcome, Err(PasskeyError::Unverified)), "{outcome:?}");
}

#[test]
fn an_answer_that_does_not_hold_opens_nothing() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (caller, key, _) = with_key(&muster).await;
        let sessions = events(app, muster.owner, "owner.signed_in").await.len();
        // Another key under the same id.
        let mut forger = Authenticator {
            id: key.id.clone(),
            counter: 7,
            ..Authenticator::new("another key")
        };
        refused(sign_in_with(app, "ada", &mut forger).await).await;
        refused(confirm_with(app, &caller, &mut forger).await).await;
        // A key that was never registered.
        refused(sign_in_with(app, "ada", &mut Authenticator::new("another key")).await).await;
        // A page of another origin, another relying party, a user who did not unlock the key.
        refused(
            sign_in_with(
                app,
                "ada",
                &mut Authenticator {
                    origin: "http://localhost:7448".into(),
                    ..key.clone()
                },
            )
            .await,
        )
        .await;
        refused(
            sign_in_with(
                app,
                "ada",
                &mut Authenticator {
                    origin: "http://evil.example".into(),
                    ..key.clone()
                },
            )
            .await,
        )
        .await;
        refused(
            sign_in_with(
                app,
                "ada",
                &mut Authenticator {
                    relying_party: "evil.example".into(),
                    ..key.clone()
                },
            )
            .await,
        )
        .await;
        refused(
            sign_in_with(
                app,
                "ada",
                &mut Authenticator {
                    verified: false,
                    ..key.clone()
                },
            )
            .await,
        )
        .await;
        // The answer to another ceremony's challenge, and no answer at all.
        let (one, two) = (
            accounts::begin_sign_in(app, "ada").await.unwrap(),
            accounts::begin_sign_in(app, "ada").await.unwrap(),
        );
        refused(accounts::finish_sign_in(app, one.ceremony.expose(), key.clone().prove(&two.options)).await)
            .await;
        let begun = accounts::begin_sign_in(app, "ada").await.unwrap();
        refused(accounts::finish_sign_in(app, begun.ceremony.expose(), json!({"id": "x"})).await).await;
        let begun = accounts::begin_register(app, &caller).await.unwrap();
        refused(
            accounts::finish_register(
                app,
                &caller,
                begun.ceremony.expose(),
                Label::parse("label", "k").unwrap(),
                Value::Null,
            )
            .await,
        )
        .await;
        assert_eq!(events(app, muster.owner, "owner.signed_in").await.len(), sessions);
        assert!(events(app, muster.owner, "owner.confirmed").await.is_empty());
        assert_eq!(accounts::passkeys(app, muster.owner).await.unwrap().len(), 1);
        sign_in_with(app, "ada", &mut key.clone()).await.unwrap();
    });
}

#[test]
fn a_copy_of_a_key_that_lags_behind_its_counter_is_refused() {
    on_both(|muster| async move {
        let (_, mut key, _) = with_key(&muster).await;
        let mut copy = key.clone();
        sign_in_with(&muster.app, "ada", &mut key).await.unwrap();
        sign_in_with(&muster.app, "ada", &mut key).await.unwrap();
        refused(sign_in_with(&muster.app, "ada", &mut copy).await).await;
    });
}

async fn stale<T: std::fmt::Debug>(outcome: Result<T, PasskeyError>) {
    assert!(matches!(outcome, Err(PasskeyError::Stale)), "{outcome:?}");
}

#[test]
fn a_ceremony_serves_once_for_five_minutes_and_for_its_own_purpose() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (caller, mut key, _) = with_key(&muster).await;
        let begin = || async { accounts::begin_sign_in(app, "ada").await.unwrap() };
        let begun = begin().await;
        let answer = key.prove(&begun.options);
        accounts::finish_sign_in(app, begun.ceremony.expose(), answer.clone())
            .await
            .unwrap();
        stale(accounts::finish_sign_in(app, begun.ceremony.expose(), answer).await).await;
        // A refused answer uses the ceremony up too, so that nobody tries many.
        let begun = begin().await;
        refused(accounts::finish_sign_in(app, begun.ceremony.expose(), json!({})).await).await;
        let answer = key.prove(&begun.options);
        stale(accounts::finish_sign_in(app, begun.ceremony.expose(), answer).await).await;
        let begun = begin().await;
        muster.clock.advance(SECOND * 300);
        let answer = key.prove(&begun.options);
        stale(accounts::finish_sign_in(app, begun.ceremony.expose(), answer).await).await;
        let begun = begin().await;
        muster.clock.advance(SECOND * 299);
        let answer = key.prove(&begun.options);
        accounts::finish_sign_in(app, begun.ceremony.expose(), answer)
            .await
            .unwrap();
        // A sign-in's ceremony confirms nothing, and a confirmation's opens nothing.
        let begun = begin().await;
        let answer = key.prove(&begun.options);
        stale(accounts::finish_confirm(app, &caller, begun.ceremony.expose(), answer).await).await;
        let begun = accounts::begin_confirm(app, &caller).await.unwrap();
        let answer = key.prove(&begun.options);
        stale(accounts::finish_sign_in(app, begun.ceremony.expose(), answer).await).await;
        stale(accounts::finish_sign_in(app, "", json!({})).await).await;
        assert!(!everything_stored(&muster).await.contains(begun.ceremony.expose()));
    });
}

#[test]
fn only_the_session_that_began_a_ceremony_may_finish_it() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (caller, mut key, _) = with_key(&muster).await;
        let elsewhere = signed_in(&muster, "ada").await;
        add_owner(app, "bob").await;
        let bob = signed_in(&muster, "bob").await;
        for other in [&elsewhere, &bob] {
            let begun = accounts::begin_confirm(app, &caller).await.unwrap();
            let answer = key.prove(&begun.options);
            stale(accounts::finish_confirm(app, other, begun.ceremony.expose(), answer).await).await;
            let begun: Begun = accounts::begin_register(app, &caller).await.unwrap();
            let answer = Authenticator::new("a third key").register(&begun.options);
            stale(
                accounts::finish_register(
                    app,
                    other,
                    begun.ceremony.expose(),
                    Label::parse("label", "k").unwrap(),
                    answer,
                )
                .await,
            )
            .await;
        }
        assert!(events(app, muster.owner, "owner.confirmed").await.is_empty());
        assert!(accounts::passkeys(app, bob.owner).await.unwrap().is_empty());
        assert_eq!(accounts::passkeys(app, muster.owner).await.unwrap().len(), 1);
    });
}

#[test]
fn there_is_nothing_to_sign_in_with_for_a_stranger_a_keyless_owner_and_a_disabled_one_alike() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (_, mut key, _) = with_key(&muster).await;
        add_owner(app, "bob").await;
        let begun = accounts::begin_sign_in(app, "ada").await.unwrap();
        accounts::disable(app, "ada").await.unwrap();
        let mut sentences = std::collections::BTreeSet::new();
        for name in ["nobody", "bob", "ada", ""] {
            let refused = accounts::begin_sign_in(app, name).await.unwrap_err();
            assert!(matches!(refused, PasskeyError::None), "{name}: {refused:?}");
            sentences.insert(refused.to_string());
        }
        assert_eq!(sentences.len(), 1);
        // Disabled while the authenticator was being asked: no session, not even one for later.
        let answer = key.prove(&begun.options);
        assert!(matches!(
            accounts::finish_sign_in(app, begun.ceremony.expose(), answer).await,
            Err(PasskeyError::None)
        ));
        accounts::enable(app, "ada").await.unwrap();
        let by_passkey = events(app, muster.owner, "owner.signed_in")
            .await
            .into_iter()
            .filter(|row| row.data["by"] == "passkey")
            .count();
        assert_eq!(by_passkey, 0);
        assert!(matches!(
            accounts::begin_confirm(app, &signed_in(&muster, "bob").await).await,
            Err(PasskeyError::None)
        ));
    });
}

#[test]
fn a_removed_passkey_signs_in_nobody_and_only_its_owner_removes_it() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (caller, mut key, id) = with_key(&muster).await;
        let mut second = Authenticator::new("a second key");
        register(app, &caller, &mut second).await.unwrap();
        let bob = add_owner(app, "bob").await;
        assert!(matches!(
            accounts::remove_passkey(app, bob, id).await,
            Err(PasskeyError::NotFound)
        ));
        let begun = accounts::begin_sign_in(app, "ada").await.unwrap();
        accounts::remove_passkey(app, muster.owner, id).await.unwrap();
        let answer = key.prove(&begun.options);
        refused(accounts::finish_sign_in(app, begun.ceremony.expose(), answer).await).await;
        refused(sign_in_with(app, "ada", &mut key).await).await;
        sign_in_with(app, "ada", &mut second).await.unwrap();
        assert!(
            matches!(
                accounts::remove_passkey(app, muster.owner, id).await,
                Err(PasskeyError::NotFound)
            ),
            "once"
        );
        assert_eq!(events(app, muster.owner, "passkey.removed").await.len(), 1);
    });
}

#[test]
fn a_key_is_registered_once_whoever_tries_again() {
    on_both(|muster| async move {
        let app = &muster.app;
        let (caller, key, _) = with_key(&muster).await;
        let begun = accounts::begin_register(app, &caller).await.unwrap();
        let excluded = &begun.options["publicKey"]["excludeCredentials"][0]["id"];
        assert_eq!(
            excluded.as_str(),
            Some(URL_SAFE_NO_PAD.encode(&key.id).as_str()),
            "the browser is told which keys there are"
        );
        refused(register(app, &caller, &mut key.clone()).await).await;
        add_owner(app, "bob").await;
        let bob = signed_in(&muster, "bob").await;
        refused(register(app, &bob, &mut key.clone()).await).await;
        assert!(accounts::passkeys(app, bob.owner).await.unwrap().is_empty());
        assert_eq!(accounts::passkeys(app, muster.owner).await.unwrap().len(), 1);
    });
}

#[test]
fn passkeys_need_a_host_name_and_loopback_counts_as_localhost() {
    on_both(|muster| async move {
        let caller = signed_in(&muster, "ada").await;
        let app_at = |url: &str| {
            let mut settings = settings(muster.dir.path());
            settings.public_url = url.to_owned();
            App::new(muster.app.db.clone(), muster.app.clock.clone(), settings)
        };
        for bare in [
            "http://192.0.2.7:7447",
            "http://[2001:db8::1]:7447",
            "not an address",
        ] {
            let app = app_at(bare);
            assert!(
                matches!(
                    accounts::begin_register(&app, &caller).await,
                    Err(PasskeyError::NoHost)
                ),
                "{bare}"
            );
            assert!(matches!(
                accounts::finish_register(
                    &app,
                    &caller,
                    "",
                    Label::parse("label", "k").unwrap(),
                    Value::Null
                )
                .await,
                Err(PasskeyError::NoHost)
            ));
        }
        for (url, relying_party) in [
            ("http://127.0.0.1:7447", "localhost"),
            ("http://[::1]:7447", "localhost"),
            ("https://muster.example", "muster.example"),
        ] {
            let begun = accounts::begin_register(&app_at(url), &caller).await.unwrap();
            assert_eq!(begun.options["publicKey"]["rp"]["id"], relying_party, "{url}");
        }
    });
}
