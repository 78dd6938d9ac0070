//! Waiting for a message: what ends a wait, what it takes, what it never takes. Times are measured from outside.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Bus, Calls, SHARED, append, by_both_doors, texts};

fn inbox(agent: &str, ms: u64) -> Value {
    json!({"agentId": agent, "source": "inbox", "timeoutMs": ms})
}

fn dm(from: &dyn Calls, sender: &str, to: &str, text: &str) {
    from.ok("send_message", json!({"from": sender, "to": to, "text": text}));
}

/// Long enough for a wait to have begun.
fn settle() {
    std::thread::sleep(Duration::from_millis(300));
}

// spec: TOOL-064 TOOL-070 TOOL-071
#[test]
fn a_wait_ends_with_the_message_it_waits_for_and_other_calls_are_served_meanwhile() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let waiting = bob.wait("wait_for_message", inbox("bob", 30_000));
        settle();
        let begun = Instant::now();
        bob.ok("status", json!({"agentId": "bob"}));
        bob.ok("send_message", json!({"from": "bob", "text": "while I wait"}));
        assert!(begun.elapsed() < Duration::from_secs(25), "{:?}", begun.elapsed());
        assert!(waiting.silent_for(Duration::from_millis(1_000)));
        let sent = Instant::now();
        dm(&*alice, "alice", "bob", "at last");
        let got = waiting.end().ok();
        assert!(sent.elapsed() < Duration::from_secs(20), "{:?}", sent.elapsed());
        assert_eq!(texts(&got), ["at last"]);
        assert_eq!(
            bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}))["returned"],
            0
        );
    });
}

// spec: TOOL-067
#[test]
fn only_the_chosen_channel_and_only_others_posts_end_a_wait() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        for room in ["one", "two"] {
            alice.ok("join_room", json!({"agentId": "alice", "room": room}));
            bob.ok("join_room", json!({"agentId": "bob", "room": room}));
        }
        bob.ok(
            "read_messages",
            json!({"agentId": "bob", "source": "room", "room": "one"}),
        );
        let waiting = bob.wait(
            "wait_for_message",
            json!({"agentId": "bob", "source": "room", "room": "#one", "timeoutMs": 20_000}),
        );
        settle();
        alice.ok(
            "send_message",
            json!({"from": "alice", "room": "two", "text": "elsewhere"}),
        );
        bob.ok(
            "send_message",
            json!({"from": "bob", "room": "one", "text": "my own"}),
        );
        alice.ok(
            "send_message",
            json!({"from": "alice", "to": "bob", "text": "direct"}),
        );
        assert!(waiting.silent_for(Duration::from_millis(1_200)));
        alice.ok(
            "send_message",
            json!({"from": "alice", "room": "one", "text": "here"}),
        );
        assert_eq!(texts(&waiting.end().ok()), ["here"]);
        let waiting = bob.wait(
            "wait_for_message",
            json!({"agentId": "bob", "source": "status", "timeoutMs": 20_000}),
        );
        settle();
        alice.ok("post_status", json!({"agentId": "alice", "status": "done"}));
        assert_eq!(waiting.end().ok()["messages"][0]["status"], "done");
    });
}

// spec: TOOL-068
#[test]
fn a_wait_that_nothing_ends_is_answered_and_is_no_error() {
    by_both_doors(|bus| {
        let bob = bus.joined("bob");
        let begun = Instant::now();
        let got = bob.call("wait_for_message", inbox("bob", 1_000));
        assert!((Duration::from_millis(950)..Duration::from_secs(4)).contains(&begun.elapsed()));
        assert!(!got.failed && got.body.get("error").is_none(), "{got:?}");
        assert_eq!(
            (&got.body["ok"], &got.body["timedOut"], &got.body["messages"]),
            (&json!(false), &json!(true), &json!([]))
        );
    });
}

// spec: TOOL-069
#[test]
fn a_message_that_is_unread_already_is_returned_at_once() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        dm(&*alice, "alice", "bob", "1");
        dm(&*alice, "alice", "bob", "2");
        let begun = Instant::now();
        let got = bob.ok("wait_for_message", inbox("bob", 30_000));
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(texts(&got), ["1", "2"]);
    });
}

// spec: TOOL-066
#[test]
fn a_line_that_another_program_writes_ends_a_wait_whether_or_not_the_kernel_tells_of_it() {
    by_both_doors(|bus| {
        let bob = bus.joined("bob");
        let line = |text: &str| {
            format!(
                "{}\n",
                json!({"id": format!("foreign-{text}"), "ts": 1_796_000_000_000_i64, "from": "other", "to": "bob", "text": text})
            )
        };
        let path = bus.file("inbox/bob.jsonl");
        let waiting = bob.wait("wait_for_message", inbox("bob", 20_000));
        settle();
        let written = Instant::now();
        append(&path, &line("told"));
        assert_eq!(texts(&waiting.end().ok()), ["told"]);
        assert!(
            written.elapsed() < Duration::from_secs(18),
            "{:?}",
            written.elapsed()
        );
        // Another name of the same file, outside the folders that are watched: the kernel tells the watch nothing.
        let elsewhere = bus.path("another-name");
        std::fs::hard_link(&path, &elsewhere).unwrap();
        let waiting = bob.wait("wait_for_message", inbox("bob", 20_000));
        settle();
        let written = Instant::now();
        append(&elsewhere, &line("untold"));
        assert_eq!(texts(&waiting.end().ok()), ["untold"]);
        assert!(
            written.elapsed() < Duration::from_secs(18),
            "{:?}",
            written.elapsed()
        );
    });
}

// spec: TOOL-064 TOOL-066
#[test]
fn a_wait_of_an_agent_without_an_inbox_yet_ends_with_its_very_first_message() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let nobody = bus.agent();
        let waiting = nobody.wait("wait_for_message", inbox("fresh", 20_000));
        settle();
        let sent = Instant::now();
        dm(&*alice, "alice", "fresh", "first ever");
        assert_eq!(texts(&waiting.end().ok()), ["first ever"]);
        assert!(sent.elapsed() < Duration::from_secs(19), "{:?}", sent.elapsed());
    });
}

#[test]
fn a_wait_that_was_taken_back_takes_no_message() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        for round in 0..5 {
            let waiting = bob.wait("wait_for_message", inbox("bob", 30_000));
            settle();
            bob.cancel(&waiting);
            bob.ok("ping", json!({}));
            dm(&*alice, "alice", "bob", &format!("round {round}"));
            std::thread::sleep(Duration::from_millis(700));
            let read = bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}));
            assert_eq!(texts(&read), [format!("round {round}")]);
        }
    });
}

#[test]
fn a_client_that_hangs_up_during_a_wait_loses_no_message() {
    let bus = Bus::new();
    let tokens = ["alice", "then", "now"].map(|agent| bus.mint(agent));
    let daemon = bus.daemon();
    let alice = daemon.session(&tokens[0]);
    alice.ok("join", json!({"agentId": "alice"}));
    let (then, now) = (daemon.session(&tokens[1]), daemon.now(&tokens[2]));
    then.ok("join", json!({"agentId": "then"}));
    now.ok("join", json!({"agentId": "now"}));
    // Twice: the number of a request that was hung up on is free again.
    then.hang_up(
        "wait_for_message",
        &inbox("then", 30_000),
        Duration::from_millis(400),
    );
    then.hang_up(
        "wait_for_message",
        &inbox("then", 30_000),
        Duration::from_millis(400),
    );
    now.hang_up(
        "wait_for_message",
        &inbox("now", 30_000),
        Duration::from_millis(400),
    );
    settle();
    for (agent, id) in [(&then as &dyn Calls, "then"), (&now, "now")] {
        dm(&alice, "alice", id, "after the hang-up");
        std::thread::sleep(Duration::from_millis(800));
        let read = agent.ok("read_messages", json!({"agentId": id, "source": "inbox"}));
        assert_eq!(texts(&read), ["after the hang-up"], "{id}");
    }
}

#[test]
fn each_message_ends_exactly_one_of_two_waits_of_one_agent() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        let mut got: Vec<String> = Vec::new();
        let mut waits = vec![
            bob.wait("wait_for_message", inbox("bob", 30_000)),
            bob.wait("wait_for_message", inbox("bob", 30_000)),
        ];
        for number in 0..40 {
            dm(&*alice, "alice", "bob", &format!("message {number}"));
            if number % 4 == 0 {
                let first = waits.remove(0);
                waits.push(bob.wait("wait_for_message", inbox("bob", 3_000)));
                let answer = first.end();
                got.extend(texts(&answer.body));
            }
        }
        for waiting in waits {
            got.extend(texts(&waiting.end().body));
        }
        let rest = bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}));
        got.extend(texts(&rest));
        got.sort_by_key(|text| text.split_once(' ').unwrap().1.parse::<u32>().unwrap());
        let wanted: Vec<String> = (0..40).map(|number| format!("message {number}")).collect();
        assert_eq!(got, wanted, "each once");
    });
}

// spec: TOOL-071
#[test]
fn a_client_without_sessions_is_served_while_its_own_wait_lasts() {
    let bus = Bus::new();
    let token = bus.mint("worker");
    let daemon = bus.daemon();
    let worker = daemon.now(&token);
    worker.ok("join", json!({"agentId": "worker"}));
    let waiting = worker.wait("wait_for_message", inbox("worker", 20_000));
    settle();
    worker.ok(
        "send_message",
        json!({"from": "worker", "to": "worker", "text": "to myself"}),
    );
    assert_eq!(texts(&waiting.end().ok()), ["to myself"]);
}

#[test]
fn a_request_with_the_number_of_one_under_way_is_refused_and_the_first_one_answered() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let bob = daemon.session(SHARED);
    bob.ok("join", json!({"agentId": "bob"}));
    let waiting = bob.wait("wait_for_message", inbox("bob", 20_000));
    settle();
    let params = json!({"name": "ping", "arguments": {}});
    let again =
        bob.post(&json!({"jsonrpc": "2.0", "id": waiting.id, "method": "tools/call", "params": params}));
    assert_eq!(again.status, 409, "{again:?}");
    assert!(again.text.contains("nothing was done"), "{again:?}");
    bob.ok("send_message", json!({"from": "bob", "to": "bob", "text": "now"}));
    assert_eq!(texts(&waiting.end().ok()), ["now"]);
    // A number may come again once its request was answered.
    for _ in 0..5 {
        let again = bob.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        assert_eq!(again.status, 200, "{again:?}");
        assert_eq!(again.message()["result"]["structuredContent"]["ok"], true);
    }
}

// spec: TOOL-065
#[test]
fn no_wait_lasts_longer_than_a_minute() {
    let bus = Bus::new();
    let tokens = [bus.mint("far"), bus.mint("now")];
    let daemon = bus.daemon();
    let (near, far, now) = (bus.stdio(), daemon.session(&tokens[0]), daemon.now(&tokens[1]));
    let all: [(&dyn Calls, &str); 3] = [(&near, "near"), (&far, "far"), (&now, "now")];
    let begun = Instant::now();
    let waits: Vec<_> = all
        .iter()
        .map(|(agent, id)| {
            agent.ok("join", json!({"agentId": id}));
            agent.wait("wait_for_message", inbox(id, 600_000))
        })
        .collect();
    for waiting in waits {
        let got = waiting.end();
        assert_eq!(got.body["timedOut"], json!(true), "{got:?}");
        assert!((Duration::from_secs(59)..Duration::from_secs(64)).contains(&begun.elapsed()));
    }
}

#[test]
fn a_cancelled_call_of_any_tool_that_reads_takes_nothing_however_late_its_turn_comes() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        for (tool, arguments) in [
            ("wait_for_message", inbox("bob", 30_000)),
            ("read_messages", json!({"agentId": "bob", "source": "inbox"})),
            ("join", json!({"agentId": "bob", "attach": false})),
        ] {
            // Somebody else holds the inbox while the call is made and taken back.
            let text = format!("for {tool}");
            dm(&*alice, "alice", "bob", &text);
            let lock = std::fs::File::options()
                .write(true)
                .open(bus.file(".muster/locks/inbox+bob.jsonl"))
                .unwrap();
            lock.lock().unwrap();
            let waiting = bob.wait(tool, arguments);
            settle();
            bob.cancel(&waiting);
            settle();
            drop(lock);
            settle();
            let got = bob.ok("read_messages", json!({"agentId": "bob", "source": "inbox"}));
            assert_eq!(texts(&got), [text], "{tool}");
        }
    });
}

#[test]
fn nobody_is_woken_by_the_notice_of_an_own_act_and_everybody_else_is_told_of_it() {
    by_both_doors(|bus| {
        let alice = bus.joined("alice");
        let bob = bus.joined("bob");
        bob.ok("join_room", json!({"agentId": "bob", "room": "seo"}));
        let room = |agent: &str, room: &str| json!({"agentId": agent, "source": "room", "room": room, "timeoutMs": 300});
        alice.ok("join_room", json!({"agentId": "alice", "room": "seo"}));
        alice.ok(
            "read_messages",
            json!({"agentId": "alice", "source": "room", "room": "seo"}),
        );
        alice.ok(
            "set_room_topic",
            json!({"agentId": "alice", "room": "seo", "topic": "words"}),
        );
        alice.ok(
            "set_room_motd",
            json!({"agentId": "alice", "room": "seo", "motd": "be brief"}),
        );
        let got = alice.call("wait_for_message", room("alice", "seo"));
        assert_eq!(got.body["timedOut"], true, "{got:?}");
        let told = texts(&bob.ok("wait_for_message", room("bob", "seo")));
        assert_eq!(
            told,
            [
                "alice joined #seo",
                "alice set the topic of #seo: words",
                "alice set the rules of #seo: be brief"
            ]
        );
        alice.ok("rename_agent", json!({"agentId": "alice", "newAgentId": "ann"}));
        let got = alice.call("wait_for_message", room("ann", "general"));
        assert_eq!(got.body["timedOut"], true, "{got:?}");
        let told = texts(&bob.ok("wait_for_message", room("bob", "general")));
        assert_eq!(told, ["alice is now known as ann"]);
    });
}
