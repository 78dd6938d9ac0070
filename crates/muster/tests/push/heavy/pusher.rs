//! A pusher beside an agent: attached, delivering, and gone without a trace.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;

use crate::bus::{Bus, Calls as _, SHARED, Said, until};
use crate::support::{Pusher, Tmux, a_while, has_marker, in_a_command_line, marker, pusher};

// spec: PUSH-058 PUSH-059 PUSH-062 PUSH-064 PUSH-068 NODE-011
#[test]
fn what_an_agent_has_unread_is_pasted_into_its_pane_and_its_token_stands_nowhere() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, peers) = (bus.mint("me"), bus.mint("peer"));
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let peer = daemon.session(&peers);
    peer.ok("join", json!({"agentId": "peer"}));
    let pushing = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    let found = marker(&bus, "me");
    assert_eq!(found["transport"], "tmux-push-remote", "{found}");
    assert_eq!(
        (&found["target"], &found["tmuxTarget"]),
        (&json!(agent.pane), &json!(agent.pane))
    );
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert_eq!(found["host"], host.trim());
    assert!(found["since"].as_i64().unwrap() > 1_700_000_000_000, "{found}");
    let build = peer.ok("capabilities", json!({}))["answeredBy"]["build"].clone();
    assert_eq!(found["build"], build, "the same program as the server's");
    let agents = peer.ok("list_agents", json!({}));
    let me = agents["agents"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["agentId"] == "me")
        .unwrap()
        .clone();
    assert_eq!(me["transport"]["transport"], "tmux-push-remote", "{me}");

    let begun = Instant::now();
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "first line\nsecond line"}),
    );
    agent.gets("second line");
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(agent.taken().len(), 1, "{:?}", agent.taken());
    let bytes = agent.bytes();
    assert_eq!(
        (
            bytes.matches("\u{1b}[200~").count(),
            bytes.matches("\u{1b}[201~").count()
        ),
        (1, 1),
        "{bytes:?}"
    );
    until("the message is read", || {
        peer.ok("status", json!({"agentId": "me"}))["inboxUnread"] == 0
    });

    assert!(!in_a_command_line(&token), "a token stands in a command line");
    let said = pushing.end_by(Signal::SIGTERM);
    assert!(said.0.success(), "{said:?}");
    assert!(
        said.1.contains("delivered") && said.1.contains("door=\"paste\""),
        "{}",
        said.1
    );
    for secret in [token.as_str(), "first line", "second line"] {
        assert!(!said.1.contains(secret), "{secret}: {}", said.1);
    }
    assert!(!has_marker(&bus, "me"));
}

// spec: PUSH-063
#[test]
fn the_environment_says_the_same_as_the_flags() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, peers) = (bus.mint("me"), bus.mint("peer"));
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let mut command = bus.command(&["bus", "pusher"]);
    command
        .env_remove("AGENT_COORD_DIR")
        .env("AGENT_COORD_SERVER", daemon.url())
        .env("AGENT_COORD_TOKEN", &token)
        .env("AGENT_COORD_ID", "me")
        .env("AGENT_COORD_TMUX_TARGET", &agent.pane)
        .env("TMUX", tmux.env());
    let _pushing = Pusher::start(command);
    let peer = daemon.session(&peers);
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "by the environment"}),
    );
    agent.gets("by the environment");
}

// spec: PUSH-066
#[test]
fn a_pusher_takes_its_marker_with_it_whichever_way_it_is_asked_to_end() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let token = bus.mint("me");
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    // The last is a terminal that closes.
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let pushing = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
        assert!(has_marker(&bus, "me"));
        let begun = Instant::now();
        let said = pushing.end_by(signal);
        assert!(said.0.success(), "{said:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert!(!has_marker(&bus, "me"), "{signal}");
        assert!(!said.1.contains("WARN") && !said.1.contains("rmcp"), "{}", said.1);
    }
    // Unless it was started to outlive its terminal.
    let mut command = std::process::Command::new("nohup");
    let inner = pusher(&bus, &tmux, &daemon.url(), &token, &agent);
    command
        .arg(inner.get_program())
        .args(inner.get_args())
        .env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", std::env::var_os("PATH").unwrap());
    let pushing = Pusher::start(command);
    pushing.process.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_millis(300));
    assert!(has_marker(&bus, "me"));
    assert!(pushing.end_by(Signal::SIGTERM).0.success());
}

#[test]
fn an_unreachable_bus_is_one_sentence_and_an_end_before_it_answers_is_none() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let agent = tmux.agent("me");
    let pushing = Pusher::begin(pusher(&bus, &tmux, "http://127.0.0.1:9/mcp", "tk_x", &agent));
    pushing.err.says("asked again");
    std::thread::sleep(Duration::from_secs(1));
    let (status, said) = pushing.end_by(Signal::SIGTERM);
    assert!(status.success(), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert!(
        said.contains("the bus at http://127.0.0.1:9/mcp cannot be reached: Connection refused"),
        "{said}"
    );
    assert!(!said.contains("::<") && !said.contains("rmcp"), "{said}");
}

#[test]
fn a_pusher_does_not_type_into_the_pane_that_shows_its_own_log() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let inner = pusher(&bus, &tmux, "http://127.0.0.1:9/mcp", "tk_x", &tmux.agent("me"));
    let program = inner.get_program().to_str().unwrap();
    let line = format!(
        "AGENT_COORD_TOKEN=tk_x '{program}' bus pusher --server http://127.0.0.1:9/mcp --agent me --tmux $TMUX_PANE; sleep 600"
    );
    let pane = tmux.run(&[
        "new-session",
        "-d",
        "-s",
        "own",
        "-x",
        "200",
        "-y",
        "30",
        "-P",
        "-F",
        "#{pane_id}",
        "--",
        "sh",
        "-c",
        &line,
    ]);
    until("the refusal", || {
        tmux.screen(&pane).contains("Nothing was started")
    });
    let screen = tmux.screen(&pane);
    assert!(
        screen.contains(&format!(
            "the pane {pane} is the one this pusher writes its own log to"
        )),
        "{screen}"
    );
}

#[test]
fn a_pusher_that_ends_leaves_the_marker_of_its_successor() {
    let (bus, tmux, other) = (Bus::new(), Tmux::new(), Tmux::new());
    let token = bus.mint("me");
    let daemon = bus.daemon_with(&[]);
    // The second pane has another number than the first.
    other.run(&["new-session", "-d", "-s", "first", "sleep", "600"]);
    let (agent, next) = (tmux.agent("me"), other.agent("me"));
    assert_ne!(agent.pane, next.pane);
    let first = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    let second = Pusher::start(pusher(&bus, &other, &daemon.url(), &token, &next));
    assert_eq!(marker(&bus, "me")["target"], next.pane);
    assert!(first.end_by(Signal::SIGTERM).0.success());
    assert_eq!(marker(&bus, "me")["target"], next.pane);
    assert!(second.end_by(Signal::SIGTERM).0.success());
    assert!(!has_marker(&bus, "me"));
}

#[test]
fn a_local_pusher_makes_no_bus() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let agent = tmux.agent("me");
    let folder = bus.path("mistyped");
    let mut command = bus.command(&["bus", "pusher", "--local", "--agent", "me", "--tmux", &agent.pane]);
    command.arg("--dir").arg(&folder).env("TMUX", tmux.env());
    let said = Said::of(command);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(said.err.contains("muster init --dir"), "{said:?}");
    assert!(!folder.exists());
}

#[test]
fn a_pusher_beside_its_agent_is_no_second_reader() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let token = bus.mint("me");
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let me = daemon.session(&token);
    me.ok("join", json!({"agentId": "me"}));
    let _pushing = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    let both = || bus.markers("me");
    until("both sessions are marked", || {
        both().iter().filter(|marker| marker["pusher"] == true).count() == 1 && both().len() == 2
    });
    let found = || me.ok("doctor", json!({}))["findings"].to_string();
    assert!(!found().contains("duplicate-session-binding"), "{}", found());
    // Two that read are.
    let other = daemon.session(&token);
    other.ok("join", json!({"agentId": "me"}));
    assert!(found().contains("duplicate-session-binding"), "{}", found());
}

// spec: PUSH-034
#[test]
fn a_stop_in_the_middle_of_a_delivery_leaves_nothing_to_be_typed_again() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, peers) = (bus.mint("me"), bus.mint("peer"));
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let peer = daemon.session(&peers);
    let pushing = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "just before the end"}),
    );
    agent.gets("just before the end");
    // It still waits to see that the text was taken.
    assert!(pushing.end_by(Signal::SIGTERM).0.success());
    assert_eq!(peer.ok("status", json!({"agentId": "me"}))["inboxUnread"], 0);
    let _pushing = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    a_while();
    assert_eq!(agent.times("just before the end"), 1, "{:?}", agent.taken());
}

#[test]
fn a_pane_that_is_gone_ends_its_pusher_and_leaves_what_is_unread() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, peers) = (bus.mint("me"), bus.mint("peer"));
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let mut pushing = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    tmux.run(&["kill-session", "-t", "=me"]);
    let peer = daemon.session(&peers);
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "to nobody"}),
    );
    let (status, said) = pushing.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("the pane is gone"), "{said}");
    assert!(!has_marker(&bus, "me"));
    assert_eq!(peer.ok("status", json!({"agentId": "me"}))["inboxUnread"], 1);
}

// spec: PUSH-070
#[test]
fn a_token_that_is_not_taken_ends_the_pusher_with_a_sentence() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, others) = (bus.mint("me"), bus.mint("other"));
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    for wrong in ["tk_wrong", others.as_str()] {
        let mut pushing = Pusher::begin(pusher(&bus, &tmux, &daemon.url(), wrong, &agent));
        let (status, said) = pushing.ended();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("token") || said.contains("bound"), "{said}");
        assert!(!said.contains(wrong), "{said}");
        assert!(!has_marker(&bus, "me"));
    }
    // One that counts no more, too.
    let mut pushing = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    let said = bus.run(&["bus", "token", "revoke", "me"]);
    assert!(said.status.success(), "{said:?}");
    let peer = daemon.session(&others);
    // Whatever it asks for next is refused.
    peer.ok(
        "send_message",
        json!({"from": "other", "to": "me", "text": "are you there?"}),
    );
    let (status, said) = pushing.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("does not take this token"), "{said}");
}

#[test]
fn a_token_on_the_command_line_works_and_is_warned_of() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let token = bus.mint("me");
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let mut command = pusher(&bus, &tmux, &daemon.url(), "", &agent);
    command.args(["--token", &token]);
    let pushing = Pusher::start(command);
    let said = pushing.end_by(Signal::SIGTERM);
    assert!(
        said.1.contains("--token stands in the list of processes"),
        "{}",
        said.1
    );
    assert!(!said.1.contains(&token), "{}", said.1);
}

// spec: PUSH-042
#[test]
fn two_pushers_for_one_seat_paste_a_message_once() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, peers) = (bus.mint("me"), bus.mint("peer"));
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let peer = daemon.session(&peers);
    let first = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    // On one machine the second is refused at once.
    let mut same = Pusher::begin(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    let (status, said) = same.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("another pusher"), "{said}");
    // However it reaches the bus: by another name, by another tmux environment, or by the files.
    let localhost = format!("http://localhost:{}/mcp", daemon.port());
    let mut renamed = pusher(&bus, &tmux, &localhost, &token, &agent);
    renamed.env("TMUX_TMPDIR", bus.path("elsewhere"));
    let mut local = bus.command(&["bus", "pusher", "--local", "--agent", "me", "--tmux", &agent.pane]);
    local.env("TMUX", tmux.env());
    for command in [renamed, local] {
        let (status, said) = Pusher::begin(command).ended();
        assert_eq!(status.code(), Some(1), "{said}");
        let pid = first.process.pid();
        assert!(
            said.contains(&format!("process {pid},")) && said.contains(&format!("`kill {pid}`")),
            "{said}"
        );
    }
    // One for another pane waits for its turn, as one of another machine does.
    let other = Tmux::new();
    let waiting = other.agent("me");
    let second = Pusher::start(pusher(&bus, &other, &localhost, &token, &waiting));
    for round in 0..3 {
        peer.ok(
            "send_message",
            json!({"from": "peer", "to": "me", "text": format!("message {round}")}),
        );
        agent.gets(&format!("message {round}"));
    }
    a_while();
    for round in 0..3 {
        assert_eq!(agent.times(&format!("message {round}")), 1, "{:?}", agent.taken());
    }
    assert_eq!(waiting.taken().len(), 0, "{:?}", waiting.taken());
    // The seat goes over once the first is gone.
    assert!(first.end_by(Signal::SIGTERM).0.success());
    drop(second);
}

#[test]
fn under_a_token_that_all_share_a_pusher_says_that_it_means_a_live_agent() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let daemon = bus.daemon_with(&[("AGENT_COORD_TOKEN", SHARED)]);
    let agent = tmux.agent("me");
    let me = daemon.session(SHARED);
    me.ok("join", json!({"agentId": "me"}));
    // It could be anybody who mistyped an id.
    let mut unsaid = Pusher::begin(pusher(&bus, &tmux, &daemon.url(), SHARED, &agent));
    let (status, said) = unsaid.ended();
    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("is live") && said.contains("--force"), "{said}");
    assert!(!has_marker(&bus, "me"));
    let mut command = pusher(&bus, &tmux, &daemon.url(), SHARED, &agent);
    command.arg("--force");
    let _pushing = Pusher::start(command);
    let peer = daemon.session(SHARED);
    peer.ok("join", json!({"agentId": "peer"}));
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "to the pane"}),
    );
    agent.gets("to the pane");
    me.ok(
        "send_message",
        json!({"from": "me", "to": "peer", "text": "still me"}),
    );
}

#[test]
fn a_local_pusher_goes_on_under_the_new_id_of_its_agent() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let agent = tmux.agent("me");
    let (me, peer) = (bus.joined("me"), bus.joined("peer"));
    let mut command = bus.command(&["bus", "pusher", "--local", "--agent", "me", "--tmux", &agent.pane]);
    command.env("TMUX", tmux.env());
    let pushing = Pusher::start(command);
    me.ok("rename_agent", json!({"agentId": "me", "newAgentId": "myself"}));
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "myself", "text": "under the new name"}),
    );
    agent.gets("under the new name");
    until("the message is read", || {
        peer.ok("status", json!({"agentId": "myself"}))["inboxUnread"] == 0
    });
    assert!(pushing.end_by(Signal::SIGTERM).0.success());
    assert!(!has_marker(&bus, "myself") && !has_marker(&bus, "me"));
}

#[test]
fn a_pusher_goes_on_under_the_new_id_of_its_agent_over_the_wire_too() {
    for rooms in [true, false] {
        let (bus, tmux) = (Bus::new(), Tmux::new());
        let (token, peers) = (bus.mint("me"), bus.mint("peer"));
        let daemon = bus.daemon_with(&[]);
        let agent = tmux.agent("me");
        let (me, peer) = (daemon.session(&token), daemon.session(&peers));
        me.ok("join", json!({"agentId": "me"}));
        peer.ok("join", json!({"agentId": "peer"}));
        let mut command = pusher(&bus, &tmux, &daemon.url(), &token, &agent);
        if !rooms {
            command.arg("--no-room");
        }
        let pushing = Pusher::start(command);
        // Long enough for its question to wait at the bus, which is told of the rename there.
        std::thread::sleep(Duration::from_millis(500));
        let begun = Instant::now();
        me.ok("rename_agent", json!({"agentId": "me", "newAgentId": "myself"}));
        peer.ok(
            "send_message",
            json!({"from": "peer", "to": "myself", "text": "under the new name"}),
        );
        agent.gets("under the new name");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        until("the message is read", || {
            peer.ok("status", json!({"agentId": "myself"}))["inboxUnread"] == 0
        });
        assert_eq!(marker(&bus, "myself")["tmuxTarget"], agent.pane);
        assert!(
            !bus.file(".muster/deliverers/me.json").exists(),
            "nobody delivers to the old id"
        );
        let said = pushing.end_by(Signal::SIGTERM);
        assert!(said.0.success(), "{said:?}");
        assert!(said.1.contains("was renamed"), "{}", said.1);
        assert!(!has_marker(&bus, "myself") && !has_marker(&bus, "me"));
    }
}

#[test]
fn under_a_token_that_all_share_it_follows_where_it_may_be_a_live_agent() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let daemon = bus.daemon_with(&[("AGENT_COORD_TOKEN", SHARED)]);
    let agent = tmux.agent("me");
    let (me, peer) = (daemon.session(SHARED), daemon.session(SHARED));
    me.ok("join", json!({"agentId": "me"}));
    peer.ok("join", json!({"agentId": "peer"}));
    let mut command = pusher(&bus, &tmux, &daemon.url(), SHARED, &agent);
    command.arg("--force");
    let _pushing = Pusher::start(command);
    me.ok("rename_agent", json!({"agentId": "me", "newAgentId": "myself"}));
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "myself", "text": "under the new name"}),
    );
    agent.gets("under the new name");
}

#[test]
fn a_local_pusher_needs_no_server() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let agent = tmux.agent("me");
    let peer = bus.joined("peer");
    let local = || {
        let mut command = bus.command(&["bus", "pusher", "--local", "--agent", "me", "--tmux", &agent.pane]);
        command.env("TMUX", tmux.env());
        command
    };
    let pushing = Pusher::start(local());
    assert_eq!(marker(&bus, "me")["target"], agent.pane);
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "from next door"}),
    );
    agent.gets("from next door");
    until("the message is read", || {
        peer.ok("status", json!({"agentId": "me"}))["inboxUnread"] == 0
    });
    assert!(pushing.end_by(Signal::SIGTERM).0.success());
    assert!(!has_marker(&bus, "me"));
    let said = Said::of({
        let mut both = local();
        both.args(["--server", "http://127.0.0.1:9/mcp"]);
        both
    });
    assert_eq!(said.status.code(), Some(2), "{said:?}");
}

#[test]
fn two_agents_in_panes_of_one_number_in_two_tmux_servers_are_both_pushed_to() {
    let (bus, one, two) = (Bus::new(), Tmux::new(), Tmux::new());
    let peer = bus.joined("peer");
    let agents = [(&one, one.agent("me")), (&two, two.agent("you"))];
    assert_eq!(
        agents[0].1.pane, agents[1].1.pane,
        "each server counts for itself"
    );
    let _pushing: Vec<Pusher> = agents
        .iter()
        .map(|(tmux, agent)| {
            let mut command = bus.command(&[
                "bus",
                "pusher",
                "--local",
                "--agent",
                &agent.id,
                "--tmux",
                &agent.pane,
            ]);
            command.env("TMUX", tmux.env());
            Pusher::start(command)
        })
        .collect();
    for (_, agent) in &agents {
        let text = format!("for {}", agent.id);
        peer.ok(
            "send_message",
            json!({"from": "peer", "to": agent.id, "text": text}),
        );
        agent.gets(&text);
    }
    assert_ne!(
        marker(&bus, "me")["tmuxSocket"],
        marker(&bus, "you")["tmuxSocket"]
    );
}
