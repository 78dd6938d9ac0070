//! The HTTP daemon: where it listens, whom it lets in at all, how it starts and stops. Never whose token is whose.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Answer, Bus, Calls as _, Daemon, SHARED, exchange, get, post};

fn list(daemon: &Daemon, token: Option<&str>, headers: &[(&str, &str)]) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    post(&daemon.url(), token, headers, &body)
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// An address of this machine that is not loopback, if it has one.
fn own_address() -> Option<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the kernel only says from where it would be.
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

/// The addresses that a process listens on, as the kernel lists them: address and port in hexadecimal.
fn listening(pid: u32) -> Vec<String> {
    let mut inodes = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let target = std::fs::read_link(entry.unwrap().path()).unwrap_or_default();
        let target = target.to_string_lossy().into_owned();
        if let Some(inode) = target.strip_prefix("socket:[") {
            inodes.push(inode.trim_end_matches(']').to_owned());
        }
    }
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if fields.get(3) == Some(&"0A")
                && fields
                    .get(9)
                    .is_some_and(|inode| inodes.iter().any(|own| own == inode))
            {
                found.push(fields[1].to_owned());
            }
        }
    }
    found
}

// spec: NET-001 NET-002 NET-004 NET-011 NET-025
#[test]
fn a_port_turns_http_on_at_slash_mcp_on_loopback_alone_and_the_process_is_told() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    assert_eq!(daemon.addresses, [format!("127.0.0.1:{}", daemon.port())]);
    assert_eq!(
        listening(daemon.process.pid()),
        [format!("0100007F:{:04X}", daemon.port())]
    );
    daemon.err.says(&format!("(process {};", daemon.process.pid()));
    daemon.session(SHARED).ok("ping", json!({}));
    // Without it: standard streams and no socket.
    let stdio = bus.stdio();
    stdio.ok("ping", json!({}));
    assert!(listening(stdio.pid()).is_empty());
    let (said, _) = daemon.stop();
    assert_eq!(said.out, "", "a daemon says what it says on standard error");
}

// spec: NET-005 NET-006 NET-014
#[test]
fn the_list_of_addresses_replaces_loopback_and_may_hold_it() {
    let Some(address) = own_address() else {
        eprintln!("SKIPPED: this machine has no address but loopback");
        return;
    };
    let bus = Bus::new();
    let token = bus.mint("alice");
    let open = |list: &str, port: &str| {
        let mut command = bus.serving(&[("AGENT_COORD_BIND", list), ("AGENT_COORD_INSECURE", "1")]);
        command.env("AGENT_COORD_HTTP_PORT", port);
        Daemon::start(command).unwrap_or_else(|said| panic!("{said:?}"))
    };
    let port = free_port().to_string();
    let alone = open(&address, &port);
    assert!(
        TcpStream::connect(format!("127.0.0.1:{port}")).is_err(),
        "loopback is not in the list"
    );
    assert_eq!(get(&format!("http://{address}:{port}/healthz")).status, 200);
    alone.stop();
    let both = open(&format!("127.0.0.1,{address}"), &port);
    for host in ["127.0.0.1", address.as_str()] {
        let session = crate::support::Http::connect(&format!("http://{host}:{port}/mcp"), &token);
        session.ok("join", json!({"agentId": "alice"}));
    }
    both.stop();
}

// spec: NET-007 NET-008
#[test]
fn only_the_health_check_is_open() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let base = format!("http://127.0.0.1:{}", daemon.port());
    let healthy = get(&format!("{base}/healthz"));
    assert_eq!((healthy.status, healthy.text.as_str()), (200, "ok\n"));
    for path in [
        "/mcp",
        "/",
        "/nothing",
        "/healthz/x",
        "/mcp/x",
        "/.well-known/oauth-protected-resource",
    ] {
        let answer = get(&format!("{base}{path}"));
        assert_eq!(answer.status, 401, "{path}");
        assert!(
            answer.header("www-authenticate").starts_with("Bearer"),
            "{answer:?}"
        );
    }
    let before = bus.public();
    for token in [None, Some("wrong")] {
        let answer = list(&daemon, token, &[]);
        assert_eq!(answer.status, 401);
        assert!(answer.text.contains("nothing was done"), "{answer:?}");
    }
    for header in [
        ("authorization", format!("Basic {SHARED}")),
        ("authorization", SHARED.to_owned()),
        ("x-token", SHARED.to_owned()),
    ] {
        assert_eq!(
            list(&daemon, None, &[(header.0, &header.1)]).status,
            401,
            "{header:?}"
        );
    }
    // Two of one header are none: which of them counts would be for a proxy to choose.
    for (head, status) in [
        (
            format!("authorization: Bearer {SHARED}\r\nauthorization: Bearer {SHARED}\r\n"),
            "401",
        ),
        (format!("authorization: bearer {SHARED}\r\n"), "404"),
        (
            format!("authorization: Bearer {SHARED}\r\nhost: 127.0.0.1\r\n"),
            "400",
        ),
    ] {
        let request = format!("GET /nothing HTTP/1.1\r\nhost: 127.0.0.1\r\n{head}connection: close\r\n\r\n");
        let said = exchange(daemon.port(), request.as_bytes(), Duration::from_secs(5)).unwrap();
        assert!(said.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {said}");
    }
    assert_eq!(bus.public(), before);
}

// spec: NET-010 NET-012 NET-013 NET-015 NET-016 NET-017 NET-018
#[test]
fn a_start_that_would_let_strangers_in_is_refused_before_anything_listens() {
    let port = free_port().to_string();
    let token = ("AGENT_COORD_TOKEN", SHARED);
    let insecure = ("AGENT_COORD_INSECURE", "1");
    let refused = |tokens: bool, env: &[(&str, &str)], words: &str| {
        let bus = Bus::new();
        if tokens {
            bus.mint("alice");
        }
        let mut command = bus.serving(env);
        command.env("AGENT_COORD_HTTP_PORT", &port);
        // Someone else listens there: a socket that was opened before the gate would be complained of instead.
        let taken = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
        let said = Daemon::start(command)
            .err()
            .unwrap_or_else(|| panic!("it started: {env:?}"));
        drop(taken);
        assert_eq!(
            (said.status.code(), said.out.as_str()),
            (Some(1), ""),
            "{env:?} {said:?}"
        );
        assert!(
            said.err.contains(words),
            "{env:?}: {words} is not in {}",
            said.err
        );
    };
    refused(false, &[], "AGENT_COORD_TOKEN");
    refused(false, &[insecure], "muster bus token add");
    for far in [
        "10.0.0.5",
        "127.0.0.1,10.0.0.5",
        "0.0.0.0",
        "::",
        "localhost",
        "bus.example.org",
    ] {
        let bind = ("AGENT_COORD_BIND", far);
        refused(false, &[bind, token], "one shared token");
        refused(false, &[bind, token, insecure], "one shared token");
        refused(true, &[bind], "AGENT_COORD_INSECURE=1");
        refused(true, &[bind, token], "AGENT_COORD_INSECURE=1");
        refused(
            true,
            &[bind, ("AGENT_COORD_INSECURE", "true")],
            "AGENT_COORD_INSECURE=1",
        );
        refused(false, &[bind], "proof of identity");
    }
    for bad in ["x", "70000", "-1"] {
        let bus = Bus::new();
        let mut command = bus.serving(&[token]);
        command.env("AGENT_COORD_HTTP_PORT", bad);
        let said = Daemon::start(command).err().unwrap();
        assert!(said.err.contains("AGENT_COORD_HTTP_PORT"), "{said:?}");
    }
}

// spec: NET-011 NET-017
#[test]
fn every_loopback_address_does_with_the_shared_token() {
    let bus = Bus::new();
    for list in ["127.0.0.1", "127.8.9.10", "127.0.0.1,127.0.0.2"] {
        let daemon = bus.daemon_with(&[("AGENT_COORD_TOKEN", SHARED), ("AGENT_COORD_BIND", list)]);
        assert_eq!(daemon.addresses.len(), list.split(',').count(), "{list}");
        for address in &daemon.addresses {
            assert_eq!(get(&format!("http://{address}/healthz")).status, 200);
        }
    }
    if TcpListener::bind("[::1]:0").is_ok() {
        let daemon = bus.daemon_with(&[("AGENT_COORD_TOKEN", SHARED), ("AGENT_COORD_BIND", "::1")]);
        assert_eq!(
            get(&format!("http://{}/healthz", daemon.addresses[0])).status,
            200
        );
    }
}

// spec: NET-021
#[test]
fn a_session_that_is_not_there_is_404_so_that_its_client_begins_another() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    for bogus in ["bogus", "0b9f3e5e-0000-4000-8000-000000000000"] {
        let headers = [("mcp-session-id", bogus), ("mcp-protocol-version", "2025-11-25")];
        assert_eq!(list(&daemon, Some(SHARED), &headers).status, 404);
    }
    let session = daemon.session(SHARED);
    assert_eq!(session.status(), 200);
    assert!((200..300).contains(&session.leave()));
    assert_eq!(session.status(), 404);
}

// spec: NET-022
#[test]
fn what_comes_from_another_sites_page_is_turned_away() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let port = daemon.port();
    for origin in [
        "http://evil.example".to_owned(),
        format!("http://evil.example:{port}"),
        "null".to_owned(),
        format!("http://127.0.0.1.evil.example:{port}"),
        "http://203.0.113.9".to_owned(),
        format!("http://203.0.113.9:{port}"),
        format!("http://[2001:db8::9]:{port}"),
    ] {
        let answer = list(&daemon, Some(SHARED), &[("origin", &origin)]);
        assert_eq!(answer.status, 403, "{origin}: {answer:?}");
    }
    for host in [
        "evil.example".to_owned(),
        format!("127.0.0.1.evil.example:{port}"),
    ] {
        let answer = list(&daemon, Some(SHARED), &[("host", &host)]);
        assert_eq!(answer.status, 421, "{host}: {answer:?}");
    }
    // Also before the token is looked at, and for the health check.
    let open = b"GET /healthz HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    let said = exchange(port, open, Duration::from_secs(5)).unwrap();
    assert!(said.starts_with("HTTP/1.1 421"), "{said}");
    for name in ["127.0.0.1", "localhost"] {
        let own = format!("http://{name}:{port}");
        let host = format!("{name}:{port}");
        let answer = list(&daemon, Some(SHARED), &[("origin", &own), ("host", &host)]);
        assert!(![401, 403, 421].contains(&answer.status), "{name}: {answer:?}");
    }
}

// spec: NET-023
#[test]
fn a_stop_ends_waits_with_an_answer_and_the_daemon_within_moments() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let bus = Bus::new();
        let tokens = [bus.mint("bob"), bus.mint("now")];
        let daemon = bus.daemon();
        let (bob, now) = (daemon.session(&tokens[0]), daemon.now(&tokens[1]));
        bob.ok("join", json!({"agentId": "bob"}));
        now.ok("join", json!({"agentId": "now"}));
        let wait = |id: &str| json!({"agentId": id, "source": "inbox", "timeoutMs": 60_000});
        let waits = [
            bob.wait("wait_for_message", wait("bob")),
            now.wait("wait_for_message", wait("now")),
        ];
        std::thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        daemon.process.signal(signal);
        for waiting in waits {
            let got = waiting.end();
            assert_eq!(got.body["cancelled"], true, "{got:?}");
        }
        let (said, _) = daemon.stop_after();
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert!(said.status.success(), "{said:?}");
        assert!(bus.markers("bob").is_empty(), "its sessions ended in order");
    }
    // On standard streams a stop ends a wait as well.
    let bus = Bus::new();
    let bob = bus.stdio();
    bob.ok("join", json!({"agentId": "bob"}));
    let waiting = bob.wait(
        "wait_for_message",
        json!({"agentId": "bob", "source": "inbox", "timeoutMs": 60_000}),
    );
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    let (status, ..) = bob.end_by(Signal::SIGTERM);
    assert!(status.success() && begun.elapsed() < Duration::from_secs(20));
    drop(waiting);
}

// spec: NET-024
#[test]
fn a_port_in_use_is_said_and_ends_the_start() {
    let bus = Bus::new();
    let daemon = bus.daemon();
    let mut command = bus.serving(&[("AGENT_COORD_TOKEN", SHARED)]);
    command.env("AGENT_COORD_HTTP_PORT", daemon.port().to_string());
    let said = Daemon::start(command).err().unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(said.err.contains(&format!("port {}", daemon.port())), "{said:?}");
    daemon.session(SHARED).ok("ping", json!({}));
}

mod heavy {
    use super::*;
    use crate::support::Http;

    const EACH: usize = 1_200;

    #[test]
    fn a_client_that_only_begins_sessions_is_told_to_stop_and_keeps_those_it_has() {
        let bus = Bus::new();
        let (alice, bob) = (bus.mint("alice"), bus.mint("bob"));
        let daemon = bus.daemon_with(&[]);
        let held = daemon.session(&alice);
        held.ok("join", json!({"agentId": "alice"}));
        assert_eq!(
            Http::begin_many(&daemon.url(), &alice, EACH - 1),
            vec![200; EACH - 1]
        );
        let refused = Http::begin_many(&daemon.url(), &alice, 20);
        assert_eq!(refused, vec![503; 20]);
        held.ok("heartbeat", json!({"agentId": "alice"}));
        // Neither another agent nor a client without sessions is in the way of it.
        daemon.session(&bob).ok("join", json!({"agentId": "bob"}));
        daemon.now(&alice).ok("heartbeat", json!({"agentId": "alice"}));
        assert!((200..300).contains(&held.leave()));
        assert_eq!(Http::begin_many(&daemon.url(), &alice, 2), [200, 503]);
        assert!(!daemon.err.text().contains("panicked"), "{}", daemon.err.text());
    }
}
