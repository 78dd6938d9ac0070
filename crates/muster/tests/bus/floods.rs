//! What one caller or one stuck process can take from the others: threads, memory, an answer. Never lasts longer than the law it tests.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Bus, Calls as _, SHARED, Stdio, post, runtime};

#[test]
fn a_request_that_cannot_be_read_is_answered_with_its_number() {
    let bus = Bus::new();
    let session = bus.stdio();
    session.ok("join", json!({"agentId": "ann"}));
    let numbers: Vec<u64> = (9_001..).take(4).collect();
    let call = |number: u64, text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{{"name":"send_message","arguments":{{"from":"ann","text":{text}}}}}}}"#
        )
    };
    let deep = "[".repeat(300) + &"]".repeat(300);
    for (number, text) in numbers
        .iter()
        .zip([r#""\ud800""#, r#""a\udc00""#, &deep, r#""\udfff\ud800""#])
    {
        session.send(&call(*number, text));
    }
    // Nobody can be told of these, and the session goes on behind them.
    session.send("not json at all");
    session.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"reason":"\ud800"}}"#);
    session.ok("send_message", json!({"from": "ann", "text": "whole \u{1f980}"}));
    let answers = |session: &Stdio| -> Vec<Value> {
        let lines = session.lines.lock().unwrap();
        lines
            .iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|answer| answer["error"]["code"] == -32700)
            .collect()
    };
    crate::support::until("each is answered", || answers(&session).len() == numbers.len());
    let answered: Vec<u64> = answers(&session)
        .iter()
        .map(|answer| answer["id"].as_u64().unwrap())
        .collect();
    assert_eq!(answered, numbers);
    let said = answers(&session)[0]["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        said.contains("cannot be read") && said.ends_with("nothing was done"),
        "{said}"
    );
    let posts: Vec<Value> = bus
        .lines("room.jsonl")
        .iter()
        .map(|row| row["text"].clone())
        .collect();
    assert_eq!(posts, ["whole \u{1f980}"]);
}

#[test]
fn over_http_it_is_answered_as_well() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let session = daemon.session(SHARED);
    session.ok("join", json!({"agentId": "ann"}));
    let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"send_message","arguments":{"from":"ann","text":"\ud800"}}}"#;
    let headers = [
        ("mcp-session-id", session.session.as_str()),
        ("mcp-protocol-version", "2025-11-25"),
    ];
    let answer = post(&daemon.url(), Some(SHARED), &headers, body);
    assert!((400..500).contains(&answer.status), "{answer:?}");
    assert!(bus.lines("room.jsonl").is_empty());
}

mod heavy {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn a_lock_that_somebody_never_lets_go_keeps_nobody_waiting_who_does_not_need_it() {
        let bus = Bus::new();
        let daemon = bus.daemon();
        let (ann, carl) = (daemon.session(SHARED), daemon.session(SHARED));
        ann.ok("join", json!({"agentId": "ann"}));
        carl.ok("join", json!({"agentId": "carl"}));
        ann.ok(
            "send_message",
            json!({"from": "ann", "to": "bob", "text": "the first"}),
        );
        let stuck = std::fs::File::options()
            .write(true)
            .open(bus.file(".muster/locks/inbox+bob.jsonl"))
            .unwrap();
        stuck.lock().unwrap();
        // More than there are threads that may block.
        let waiting: Vec<_> = (0..700)
            .map(|number| {
                ann.wait(
                    "send_message",
                    json!({"from": "ann", "to": "bob", "text": number.to_string()}),
                )
            })
            .collect();
        std::thread::sleep(Duration::from_secs(2));
        let begun = Instant::now();
        carl.ok(
            "send_message",
            json!({"from": "carl", "to": "ann", "text": "hello"}),
        );
        carl.ok("send_message", json!({"from": "carl", "text": "hello all"}));
        carl.ok("list_agents", json!({}));
        let late = daemon.session(SHARED);
        late.ok("join", json!({"agentId": "late"}));
        assert_eq!(
            late.ok("read_messages", json!({"agentId": "late", "source": "room"}))["returned"],
            1
        );
        ann.ok("read_messages", json!({"agentId": "ann", "source": "inbox"}));
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        // Those who do need it hear so, all of them, and nothing of theirs is half done.
        for pending in waiting {
            let said = pending.end().broke("busy");
            assert!(said.contains("nothing was"), "{said}");
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        drop(stuck);
        ann.ok(
            "send_message",
            json!({"from": "ann", "to": "bob", "text": "the last"}),
        );
        let texts: Vec<Value> = bus
            .lines("inbox/bob.jsonl")
            .iter()
            .map(|row| row["text"].clone())
            .collect();
        assert_eq!(texts, ["the first", "the last"]);
    }

    #[test]
    fn messages_under_way_take_so_much_memory_and_no_more() {
        const SIZE: usize = 2 * 1024 * 1024;
        let bus = Bus::new();
        let daemon = bus.daemon();
        let small = || post(&daemon.url(), Some(SHARED), &[], "{}");
        assert_ne!(small().status, 503);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {SHARED}\r\nContent-Type: application/json\r\nContent-Length: {SIZE}\r\n\r\n"
        );
        let mut held = runtime().block_on(async {
            let mut held = Vec::new();
            // All of them come to what one token may have under way, but for the last byte of each.
            for _ in 0..32 {
                let mut stream = TcpStream::connect(("127.0.0.1", daemon.port())).await.unwrap();
                stream.write_all(head.as_bytes()).await.unwrap();
                stream.write_all(&vec![b' '; SIZE - 1]).await.unwrap();
                held.push(stream);
            }
            held
        });
        let large = format!("{{\"x\":\"{}\"}}", "y".repeat(1_000));
        crate::support::until("there is no room", || {
            let answer = post(&daemon.url(), Some(SHARED), &[], &large);
            if answer.status != 503 {
                return false;
            }
            assert_eq!(answer.header("retry-after"), "1", "{answer:?}");
            assert!(answer.text.contains("nothing was done"), "{answer:?}");
            true
        });
        // What is answered, and whoever hangs up, makes room.
        runtime().block_on(async {
            let mut answered = held.pop().unwrap();
            answered.write_all(b" ").await.unwrap();
            let mut answer = [0; 12];
            answered.read_exact(&mut answer).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
        });
        crate::support::until("there is room", || small().status != 503);
        drop(held);
        crate::support::until("there is room again", || {
            post(&daemon.url(), Some(SHARED), &[], &large).status != 503
        });
        let session = daemon.session(SHARED);
        session.ok("join", json!({"agentId": "ann"}));
    }
}
