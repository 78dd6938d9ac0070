//! A server without a mode in which nothing can be written: nothing is read from it either.
#![cfg(test)]

use std::sync::{Arc, Mutex};

use muster_db_gateway::{Connection, Error, Limits, Url};
use muster_policy::{Action, Decision, Grant, Layer, Needs, Permit, Policy, Standing, Target, decide};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const NAME: &str = "db_connection:stub";

fn permit() -> Permit {
    let layer = Layer::authored([Grant::parse("db_read", NAME, "allow").unwrap()]).unwrap();
    let policy = Policy::new(layer, Layer::absent(), Layer::absent());
    let needs = Needs::of(Action::DbRead, Target::new(NAME.parse().unwrap()).unwrap());
    match decide(Standing::Under(&policy), &needs) {
        Decision::Allow(permit) => permit,
        other => panic!("{other:?}"),
    }
}

fn message(mark: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[mark][..], &length, body].concat()
}

/// Speaks enough of PostgreSQL to be signed in to, and then gives its answers in turn, the last one for ever. Keeps what it was sent.
async fn stub(answers: Vec<Vec<u8>>) -> (u16, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let keeping = Arc::clone(&heard);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (answers, keeping) = (answers.clone(), Arc::clone(&keeping));
            tokio::spawn(async move {
                let mut buffer = vec![0; 64 * 1024];
                let _ = stream.read(&mut buffer).await;
                let hello = [
                    message(b'R', &[0; 4]),
                    message(b'K', &[0; 8]),
                    message(b'Z', b"I"),
                ]
                .concat();
                let _ = stream.write_all(&hello).await;
                let mut next = 0;
                while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                    keeping.lock().unwrap().extend_from_slice(&buffer[..length]);
                    let answer = &answers[next.min(answers.len() - 1)];
                    next += 1;
                    if stream.write_all(answer).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    (port, heard)
}

// spec: DBA-011
#[tokio::test]
async fn a_server_that_enters_no_read_only_mode_is_not_read() {
    let refusal = message(b'E', b"SERROR\0C0A000\0MREAD ONLY is not supported\0\0");
    let (port, heard) = stub(vec![[refusal, message(b'Z', b"I")].concat()]).await;
    let url = Url::parse(&format!("postgres://u:SECRET@127.0.0.1:{port}/d")).unwrap();
    let connection = Connection::new(NAME.parse().unwrap(), url, None).unwrap();
    let error = connection
        .read(&permit(), "SELECT 1", Limits::default())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, Error::Unguarded { why } if why.contains("not supported")),
        "{error:?}"
    );
    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    let begun = heard.find("READ ONLY").unwrap();
    assert!(
        begun < heard.find("transaction_read_only").unwrap(),
        "the mode is asked for, then looked at"
    );
    assert!(heard.find("transaction_read_only").unwrap() < heard.find("SELECT 1\0").unwrap());
}

/// An older server, or one of another make, does not know how to look for its caller.
#[tokio::test]
async fn a_server_that_cannot_look_for_its_caller_is_read_all_the_same() {
    let refusal = message(
        b'E',
        b"SERROR\0C42704\0Munrecognized configuration parameter \"client_connection_check_interval\"\0\0",
    );
    let ready = || message(b'Z', b"I");
    let done = |tag: &[u8]| message(b'C', tag);
    let column = [
        &b"\0\x01n\0"[..],
        &[0; 6],
        &23_u32.to_be_bytes(),
        &[0, 4, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    let row = [&b"\0\x01"[..], &1_u32.to_be_bytes(), b"7"].concat();
    let read = [
        done(b"BEGIN\0"),
        done(b"SELECT 1\0"),
        done(b"SELECT 1\0"),
        message(b'T', &column),
        message(b'D', &row),
        done(b"SELECT 1\0"),
        ready(),
    ];
    let settled = [done(b"ROLLBACK\0"), ready(), done(b"DISCARD ALL\0"), ready()];
    let (port, heard) = stub(vec![
        [refusal, ready()].concat(),
        read.concat(),
        settled.concat(),
        read.concat(),
        settled.concat(),
    ])
    .await;
    let url = Url::parse(&format!("postgres://u@127.0.0.1:{port}/d")).unwrap();
    let connection = Connection::new(NAME.parse().unwrap(), url, None).unwrap();
    for _ in 0..2 {
        let answer = connection
            .read(&permit(), "SELECT 7 AS n", Limits::default())
            .await;
        let rows = answer.unwrap().rows().unwrap().rows.clone();
        assert_eq!(serde_json::to_string(&rows).unwrap(), "[[7]]");
    }
    let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
    assert_eq!(heard.matches("'1s'").count(), 1, "it was asked once: {heard}");
    // The bound value of the guard that would set it is empty.
    assert!(!heard.contains("\u{2}1s"), "{heard}");
}

// spec: DBA-013
#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let (port, _) = stub(vec![Vec::new()]).await;
    let url = Url::parse(&format!("postgres://u@127.0.0.1:{port}/d")).unwrap();
    let connection = Connection::new(NAME.parse().unwrap(), url, None).unwrap();
    let limits = Limits {
        time: std::time::Duration::from_millis(100),
        ..Limits::default()
    };
    let answer = connection.read(&permit(), "SELECT 1", limits).await;
    assert!(matches!(answer, Err(Error::TimedOut { .. })), "{answer:?}");
}
