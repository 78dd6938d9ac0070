//! Servers that say less than they should: where no mode is entered in which nothing can be written nothing is read either, and what was never heard is not told as done or stopped.
#![cfg(test)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use muster_db_gateway::{Connection, Engine, Error, Limits, Url};
use muster_policy::{Action, Decision, Grant, Layer, Needs, Pair, Permit, Policy, Standing, Target, decide};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const NAME: &str = "db_connection:stub";

fn permit() -> Permit {
    let words = ["db_read", "db_write"];
    let grants = words.map(|word| Grant::parse(word, NAME, "allow").unwrap());
    let layer = Layer::authored(grants).unwrap();
    let policy = Policy::new(layer, Layer::absent(), Layer::absent());
    let target = Target::new(NAME.parse().unwrap()).unwrap();
    let pair = |action| Pair::new(action, target.clone());
    let needs = Needs::new(pair(Action::DbRead), [pair(Action::DbWrite)]);
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

/// What it answers to what every session begins with: whether it looks for its caller, and whether it is muster's own.
fn begins() -> Vec<u8> {
    [message(b'C', b"SELECT 1\0"), message(b'Z', b"I")]
        .concat()
        .repeat(2)
}

// spec: DBA-011
#[tokio::test]
async fn a_server_that_enters_no_read_only_mode_is_not_read() {
    let refusal = message(b'E', b"SERROR\0C0A000\0MREAD ONLY is not supported\0\0");
    let refused = [refusal, message(b'Z', b"I")].concat();
    let (port, heard) = stub(vec![begins(), refused]).await;
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
        [refusal, ready(), done(b"SELECT 1\0"), ready()].concat(),
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

fn short() -> Limits {
    Limits {
        time: Duration::from_millis(200),
        ..Limits::default()
    }
}

fn to(url: &str) -> Connection {
    Connection::new(NAME.parse().unwrap(), Url::parse(url).unwrap(), None).unwrap()
}

/// A server that lets muster in, does what it asks at the beginning, and then says nothing any more.
async fn falls_silent() -> Connection {
    let done = [message(b'C', b"SET\0"), message(b'Z', b"I")].concat();
    let (port, _) = stub(vec![begins(), done, Vec::new()]).await;
    to(&format!("postgres://u@127.0.0.1:{port}/d"))
}

// spec: DBA-013
#[tokio::test]
async fn a_server_that_never_answers_is_given_up() {
    let (port, _) = stub(vec![begins(), Vec::new()]).await;
    let connection = to(&format!("postgres://u@127.0.0.1:{port}/d"));
    let answer = connection.read(&permit(), "SELECT 1", short()).await;
    // It is not said of its statement that the server stopped it, nor that it was slow.
    let Err(error @ Error::Unanswered { .. }) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(
        (error.code(), error.engine_code()),
        ("engine_error", Some("timeout"))
    );
    assert!(error.to_string().contains("nothing was changed"), "{error}");
}

#[tokio::test]
async fn a_write_that_was_hung_up_on_may_be_done_or_not() {
    let connection = falls_silent().await;
    let error = connection
        .write(&permit(), "UPDATE t SET v = 1", true, short())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::GivenUp { .. }), "{error:?}");
    let said = error.to_string();
    assert!(
        said.contains("may be done") && said.contains("Look before"),
        "{said}"
    );
    assert!(!said.contains("Stopped"), "{said}");
}

/// What a server stops at its own limit may have been done in part, by a procedure that commits in between.
#[tokio::test]
async fn a_write_that_the_server_stopped_may_be_done_in_part() {
    let done = [message(b'C', b"SET\0"), message(b'Z', b"I")].concat();
    let stopped = message(
        b'E',
        b"SERROR\0C57014\0Mcanceling statement due to statement timeout\0\0",
    );
    let stopped = [stopped, message(b'Z', b"I")].concat();
    let (port, _) = stub(vec![begins(), done, stopped]).await;
    let connection = to(&format!("postgres://u@127.0.0.1:{port}/d"));
    let error = connection
        .write(&permit(), "CALL p()", true, short())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::GivenUp { .. }), "{error:?}");
}

/// Who takes a connection and says nothing is not there, however short the time of a statement is: nothing was asked of it yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_server_is_away_and_no_statement_that_takes_too_long() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for url in [
        "postgres://u:p@127.0.0.1:PORT/d",
        "postgres://u:p@127.0.0.1:PORT/d?tls=unverified",
        "mysql://u:p@127.0.0.1:PORT/d",
        "redis://:p@127.0.0.1:PORT/0",
        "rediss://:p@127.0.0.1:PORT/0",
        "mongodb://u:p@127.0.0.1:PORT/d?directConnection=true",
    ] {
        let connection = to(&url.replace("PORT", &port.to_string()));
        let (reading, writing) = match connection.engine() {
            Engine::Redis => ("GET k", "SET k v"),
            Engine::Mongodb => (r#"{"find":"a"}"#, r#"{"insert":"a","documents":[{"a":1}]}"#),
            _ => ("SELECT 1", "DELETE FROM t"),
        };
        for answer in [
            connection.read(&permit(), reading, short()).await,
            connection.write(&permit(), writing, true, short()).await,
        ] {
            let error = answer.unwrap_err();
            assert!(error.is_away(), "{url}: {error:?}");
            assert!(error.to_string().contains("within 0.2 s"), "{error}");
        }
    }
    // One that lets muster in and is then silent before anything was asked of it.
    let (port, _) = stub(vec![Vec::new()]).await;
    let connection = to(&format!("postgres://u@127.0.0.1:{port}/d"));
    let error = connection.read(&permit(), "SELECT 1", short()).await.unwrap_err();
    assert!(error.is_away(), "{error:?}");
}

/// What a server says before a session has begun, by its code and not by its words.
#[tokio::test]
async fn only_what_is_said_of_the_account_or_the_database_is_told_as_that() {
    for (code, account) in [
        ("28P01", true),
        ("28000", true),
        ("3D000", true),
        ("42501", true),
        ("53300", false),
        ("57P03", false),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            let said = format!("SFATAL\0C{code}\0Mpassword authentication failed for SECRET\u{1b}[2J.\0\0");
            let _ = stream.write_all(&message(b'E', said.as_bytes())).await;
        });
        let connection = to(&format!("postgres://u:SECRET@127.0.0.1:{port}/d"));
        let error = connection
            .read(&permit(), "SELECT 1", Limits::default())
            .await
            .unwrap_err();
        assert_eq!(
            matches!(error, Error::NotLetIn { .. }),
            account,
            "{code} {error:?}"
        );
        assert!(!error.is_away(), "{code}");
        let said = format!("{error} {error:?}");
        assert!(said.contains(code) && !said.contains("SECRET"), "{said}");
        assert!(!error.to_string().contains('\u{1b}'), "{error:?}");
    }
}

/// A kept session that the server ended is replaced once; that the new one is not let in is not taken for another lost one.
#[tokio::test]
async fn a_session_that_is_replaced_tells_who_is_not_let_in() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let begun = Arc::new(Mutex::new(0));
    let counting = Arc::clone(&begun);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; 64 * 1024];
            let _ = stream.read(&mut buffer).await;
            // The lost session is asked to stop as well, on a connection that signs nobody in.
            if buffer.get(4..8) != Some(&[0, 3, 0, 0]) {
                continue;
            }
            *counting.lock().unwrap() += 1;
            let first = *counting.lock().unwrap() == 1;
            if !first {
                let said = b"SFATAL\0C28P01\0Mno\0\0";
                let _ = stream.write_all(&message(b'E', said)).await;
                continue;
            }
            let ready = || message(b'Z', b"I");
            let done = |tag: &[u8]| message(b'C', tag);
            let hello = [message(b'R', &[0; 4]), message(b'K', &[0; 8]), ready()].concat();
            let read = [
                done(b"BEGIN\0"),
                done(b"SELECT 1\0"),
                done(b"SELECT 1\0"),
                done(b"SELECT 0\0"),
                ready(),
            ];
            let settled = [done(b"ROLLBACK\0"), ready(), done(b"DISCARD ALL\0"), ready()];
            for answer in [hello, begins(), read.concat(), settled.concat()] {
                let _ = stream.write_all(&answer).await;
                let _ = stream.read(&mut buffer).await;
            }
            // What was read last was the second statement; it hangs up.
        }
    });
    let connection = to(&format!("postgres://u:SECRET@127.0.0.1:{port}/d"));
    let read = async || connection.read(&permit(), "SELECT 1", Limits::default()).await;
    read().await.unwrap();
    let error = read().await.unwrap_err();
    assert!(matches!(error, Error::NotLetIn { .. }), "{error:?}");
    assert_eq!(*begun.lock().unwrap(), 2);
}
