//! The same rules of push over the wire as beside the files: who is heard, when, and what is never typed.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bus::{Bus, Calls as _, Daemon, Http, until};
use crate::support::{Agent, Pusher, Tmux, a_while, pusher};

struct Scene {
    tmux: Tmux,
    bus: Bus,
    daemon: Daemon,
    agent: Agent,
    token: String,
    peer: Http,
}

impl Scene {
    fn new() -> Self {
        Self::with_draft("")
    }

    fn with_draft(draft: &str) -> Self {
        let (bus, tmux) = (Bus::new(), Tmux::new());
        let (token, peers) = (bus.mint("me"), bus.mint("peer"));
        let daemon = bus.daemon_with(&[]);
        let agent = tmux.agent_with("me", draft);
        let peer = daemon.session(&peers);
        peer.ok("join", json!({"agentId": "peer"}));
        Self {
            tmux,
            bus,
            daemon,
            agent,
            token,
            peer,
        }
    }

    fn command(&self) -> Command {
        pusher(
            &self.bus,
            &self.tmux,
            &self.daemon.url(),
            &self.token,
            &self.agent,
        )
    }

    fn pushing(&self, flags: &[&str]) -> Pusher {
        let mut command = self.command();
        command.args(flags);
        Pusher::start(command)
    }

    fn dm(&self, text: &str) {
        self.peer
            .ok("send_message", json!({"from": "peer", "to": "me", "text": text}));
    }

    fn post(&self, text: &str) {
        self.peer
            .ok("send_message", json!({"from": "peer", "text": text}));
    }

    fn unread(&self) -> Value {
        self.peer.ok("status", json!({"agentId": "me"}))["inboxUnread"].clone()
    }
}

// spec: NODE-017
#[test]
fn without_rooms_only_direct_messages_are_typed() {
    let scene = Scene::new();
    let _pushing = scene.pushing(&["--no-room"]);
    scene.post("BLOCKER: in the room");
    scene.dm("to me alone");
    scene.agent.gets("to me alone");
    a_while();
    assert_eq!(scene.agent.times("in the room"), 0, "{:?}", scene.agent.taken());
}

// spec: NODE-018
#[test]
fn an_allowlist_drops_everybody_else() {
    let scene = Scene::new();
    let others = scene.bus.mint("other");
    let other = scene.daemon.session(&others);
    other.ok("join", json!({"agentId": "other"}));
    let _pushing = scene.pushing(&["--allowlist", "someone,peer"]);
    other.ok(
        "send_message",
        json!({"from": "other", "to": "me", "text": "from a stranger"}),
    );
    other.ok(
        "send_message",
        json!({"from": "other", "text": "BLOCKER: from a stranger"}),
    );
    scene.dm("from a friend");
    scene.agent.gets("from a friend");
    a_while();
    assert_eq!(scene.agent.times("stranger"), 0, "{:?}", scene.agent.taken());
    // Dropped is not lost: the file has it.
    assert_eq!(scene.bus.lines("inbox/me.jsonl").len(), 2);
}

// spec: NODE-019
#[test]
fn what_comes_within_the_debounce_is_one_paste() {
    let scene = Scene::new();
    let _pushing = scene.pushing(&["--debounce-ms", "3000"]);
    let begun = Instant::now();
    scene.dm("number one");
    std::thread::sleep(Duration::from_millis(900));
    scene.dm("number two");
    std::thread::sleep(Duration::from_millis(900));
    scene.dm("number three");
    assert_eq!(scene.agent.taken().len(), 0, "too soon");
    scene.agent.gets("number three");
    assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    let taken = scene.agent.taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    assert!(
        taken[0].contains("number one") && taken[0].contains("number two"),
        "{taken:?}"
    );
}

// spec: NODE-020
#[test]
fn a_channel_that_is_joined_meanwhile_is_followed_within_the_refresh() {
    let scene = Scene::new();
    let _pushing = scene.pushing(&["--refresh-ms", "2000"]);
    let me = scene.daemon.session(&scene.token);
    me.ok("join_room", json!({"agentId": "me", "room": "#crew"}));
    scene
        .peer
        .ok("join_room", json!({"agentId": "peer", "room": "#crew"}));
    std::thread::sleep(Duration::from_millis(2_500));
    scene.peer.ok(
        "send_message",
        json!({"from": "peer", "room": "#crew", "text": "BLOCKER: all hands"}),
    );
    scene.agent.gets("all hands");
    me.ok("leave_room", json!({"agentId": "me", "room": "#crew"}));
    std::thread::sleep(Duration::from_millis(2_500));
    scene.peer.ok(
        "send_message",
        json!({"from": "peer", "room": "#crew", "text": "BLOCKER: without me"}),
    );
    a_while();
    assert_eq!(scene.agent.times("without me"), 0, "{:?}", scene.agent.taken());
}

// spec: PUSH-067 CMD-042
#[test]
fn tiers_digest_and_safety_are_the_same_over_the_wire() {
    let scene = Scene::new();
    let mut command = scene.command();
    command.env("AGENT_COORD_MAX_QUEUE_MS", "0");
    let _pushing = Pusher::start(command);
    for text in ["FYI: one", "chatter two", "blocker: three"] {
        scene.post(text);
    }
    scene.dm("/clear");
    scene.dm("\n /compact");
    a_while();
    assert_eq!(scene.agent.taken().len(), 0, "{:?}", scene.agent.taken());
    scene.post("BLOCKER: four");
    scene.agent.gets("four");
    let taken = scene.agent.taken();
    assert_eq!(taken.len(), 1, "{taken:?}");
    let block = &taken[0];
    assert!(
        block.contains("[agent-coord] +3 routine (pre-consumed, FYI, no reply):"),
        "{block}"
    );
    for text in ["FYI: one", "chatter two", "blocker: three"] {
        assert_eq!(block.matches(text).count(), 1, "{block}");
    }
    assert!(
        !block.contains("/clear") && !block.contains("/compact"),
        "{block}"
    );
    // What is in a text acts nowhere: it stays inside the paste.
    scene.dm("before\u{1b}[201~\rafter\u{3}\u{9b}31m");
    scene.agent.gets("after");
    assert_eq!(scene.agent.taken().len(), 2, "{:?}", scene.agent.taken());
    let bytes = scene.agent.bytes();
    assert_eq!(bytes.matches("\u{1b}[201~").count(), 2, "{bytes:?}");
    assert!(!bytes.contains('\u{3}') && !bytes.contains('\u{9b}'), "{bytes:?}");
}

// spec: CMD-042
#[test]
fn a_draft_in_the_pane_holds_a_message_back_until_it_is_gone() {
    let scene = Scene::with_draft("half a thought");
    let pushing = scene.pushing(&[]);
    scene.dm("not over my words");
    pushing.err.says("half a thought");
    a_while();
    assert_eq!((scene.agent.taken().len(), scene.unread()), (0, json!(1)));
    assert_eq!(scene.agent.bytes(), "");
    // The person takes it back.
    scene.tmux.run(&["send-keys", "-t", &scene.agent.pane, "C-u"]);
    scene.agent.gets("not over my words");
    until("the message is read", || scene.unread() == 0);
    assert_eq!(scene.agent.times("half a thought"), 0);
}

// spec: CMD-028
#[test]
fn a_command_is_typed_by_the_pusher_and_its_sender_is_told() {
    let scene = Scene::new();
    let _pushing = scene.pushing(&[]);
    let told = scene.peer.ok(
        "send_command",
        json!({"from": "peer", "to": "me", "command": "/compact"}),
    );
    assert_eq!(told["delivery"], "confirmed", "{told}");
    assert!(
        told["deliveredAt"].is_i64() || told["deliveredAt"].is_string(),
        "{told}"
    );
    assert!(
        told.get("warning").is_none(),
        "the pusher is the installed build: {told}"
    );
    assert_eq!(scene.agent.taken(), ["/compact"]);
    assert!(!scene.agent.bytes().contains("\u{1b}[200~"), "typed, not pasted");
    let receipt = scene.bus.lines("receipts/me.jsonl").pop().unwrap();
    assert_eq!(
        receipt["build"],
        crate::support::marker(&scene.bus, "me")["build"],
        "{receipt}"
    );
}
