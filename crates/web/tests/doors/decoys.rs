//! The beginning of a sign-in by passkey: what a stranger learns from it about a name, which is nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use muster_app::accounts;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

use super::kit::{Answer, Ask, Doors, add_owner, doors};

/// The point that P-256 begins with: as good a public key as any, of which nobody needs the private one here.
const X: &str = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296";
const Y: &str = "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .map(|digit| u8::try_from(digit.to_digit(16).unwrap()).unwrap())
        .collect();
    digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

/// What an authenticator answers that makes the credential `id`: without attestation nothing of it is signed.
fn made(id: &[u8], options: &Value) -> Value {
    let client = json!({
        "type": "webauthn.create",
        "challenge": options["publicKey"]["challenge"],
        "origin": "http://localhost:7447",
        "crossOrigin": false
    });
    // SHA-256 of "localhost"; present, verified, with a credential; the counter.
    let mut data = bytes("49960de5880e8c687434170f6476605b8fe4aeb9a28632c7995cf3ba831d9763");
    data.push(0x45);
    data.extend([0, 0, 0, 1]);
    data.extend([0; 16]);
    data.extend(u16::try_from(id.len()).unwrap().to_be_bytes());
    data.extend(id);
    // COSE in CBOR: {1: 2 (EC2), 3: -7 (ES256), -1: 1 (P-256), -2: x, -3: y}.
    data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
    data.extend(bytes(X));
    data.extend([0x22, 0x58, 0x20]);
    data.extend(bytes(Y));
    let mut object = vec![0xa3, 0x63];
    object.extend(b"fmt");
    object.push(0x64);
    object.extend(b"none");
    object.push(0x67);
    object.extend(b"attStmt");
    object.extend([0xa0, 0x68]);
    object.extend(b"authData");
    object.extend([0x58, u8::try_from(data.len()).unwrap()]);
    object.extend(data);
    let id = URL_SAFE_NO_PAD.encode(id);
    json!({"id": id, "rawId": id, "type": "public-key", "extensions": {}, "response": {
        "attestationObject": URL_SAFE_NO_PAD.encode(object),
        "clientDataJSON": URL_SAFE_NO_PAD.encode(client.to_string()),
    }})
}

/// Gives who is signed in a passkey.
async fn passkey(doors: &Doors, cookie: &str, id: &[u8]) {
    let begun = doors
        .send(Ask::script("/settings/passkeys/begin", &json!({})).cookie(cookie))
        .await
        .json();
    let finish =
        json!({"ceremony": begun["ceremony"], "label": "key", "answer": made(id, &begun["options"])});
    let finished = doors
        .send(Ask::script("/settings/passkeys/finish", &finish).cookie(cookie))
        .await;
    assert_eq!(finished.status, 200, "{}", finished.text());
}

async fn begin(doors: &Doors, name: &str) -> Value {
    let begun = doors
        .send(Ask::script("/sign-in/passkey/begin", &json!({"name": name})))
        .await;
    assert_eq!(begun.status, 200, "{name:?}: {}", begun.text());
    begun.json()
}

async fn finish(doors: &Doors, begun: &Value) -> Answer {
    let answer = json!({"ceremony": begun["ceremony"], "answer": {"id": "x"}});
    doors.send(Ask::script("/sign-in/passkey/finish", &answer)).await
}

/// The same with every value that differs from one request to the next, or from one credential to the next, told by its kind alone.
fn shape(begun: &Value) -> Value {
    let mut shape = begun.clone();
    let length = |text: &Value| json!(text.as_str().unwrap().len());
    shape["ceremony"] = length(&begun["ceremony"]);
    shape["options"]["publicKey"]["challenge"] = length(&begun["options"]["publicKey"]["challenge"]);
    let credentials = shape["options"]["publicKey"]["allowCredentials"]
        .as_array_mut()
        .unwrap();
    assert!((1..=2).contains(&credentials.len()));
    credentials.truncate(1);
    for credential in credentials {
        let id = URL_SAFE_NO_PAD
            .decode(credential["id"].as_str().unwrap())
            .unwrap();
        assert!([16, 20, 32, 64].contains(&id.len()), "{}", id.len());
        credential["id"] = json!("an id");
    }
    shape
}

fn credentials(begun: &Value) -> &Value {
    &begun["options"]["publicKey"]["allowCredentials"]
}

#[test]
fn a_name_without_a_passkey_is_asked_for_one_as_a_name_with_one_is() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        passkey(&doors, &cookie, &[7; 32]).await;
        add_owner(&doors.app, "grace").await;
        add_owner(&doors.app, "carol").await;
        accounts::disable(&doors.app, "carol").await.unwrap();
        let real = begin(&doors, "ada").await;
        assert_eq!(
            credentials(&real)[0]["id"],
            json!(URL_SAFE_NO_PAD.encode([7; 32]))
        );
        let mut seen = vec![credentials(&real).clone()];
        for name in ["grace", "carol", "nobody", "somebody", ""] {
            let begun = begin(&doors, name).await;
            assert_eq!(shape(&begun), shape(&real), "{name:?}");
            // The same each time, also of another server on the same folder: as a real one's are.
            let again = begin(&doors.without_hook(), name).await;
            assert_eq!(credentials(&begun), credentials(&again), "{name:?}");
            assert_ne!(begun["ceremony"], again["ceremony"]);
            assert_ne!(
                begun["options"]["publicKey"]["challenge"],
                again["options"]["publicKey"]["challenge"]
            );
            assert!(
                !seen.contains(credentials(&begun)),
                "{name:?}: credentials of its own"
            );
            seen.push(credentials(&begun).clone());
        }
        assert_eq!(credentials(&begin(&doors, "ada").await), &seen[0]);
        // What cannot be a name is asked as no name.
        assert_eq!(Some(credentials(&begin(&doors, "Ada").await)), seen.last());
    });
}

#[test]
fn a_ceremony_of_nobody_ends_as_any_other_whose_answer_does_not_hold() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        passkey(&doors, &cookie, &[7; 32]).await;
        let mut ends = Vec::new();
        for name in ["ada", "nobody"] {
            let (first, late) = (begin(&doors, name).await, begin(&doors, name).await);
            let mut lines = vec![
                finish(&doors, &first).await.line(),
                finish(&doors, &first).await.line(),
            ];
            doors.muster.clock.advance(Duration::from_secs(301));
            lines.push(finish(&doors, &late).await.line());
            assert!(
                lines[0].starts_with("401") && lines[0].contains("could not be verified"),
                "{lines:?}"
            );
            assert!(lines[1].starts_with("409") && lines[2] == lines[1], "{lines:?}");
            ends.push(lines);
        }
        assert_eq!(ends[0], ends[1]);
    });
}

#[test]
fn no_answer_about_a_passkey_comes_sooner_for_one_name_than_for_another() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        passkey(&doors, &cookie, &[7; 32]).await;
        for name in ["ada", "nobody"] {
            let start = Instant::now();
            let begun = begin(&doors, name).await;
            let asked = start.elapsed();
            finish(&doors, &begun).await;
            let floor = Duration::from_millis(100);
            assert!(
                asked >= floor && start.elapsed() - asked >= floor,
                "{name}: {asked:?}"
            );
        }
    });
}
