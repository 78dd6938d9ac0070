//! What is left when a part of the push dies: nothing is lost, and nothing that was delivered comes twice.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::bus::{Bus, Calls as _, until};
use crate::support::{Pusher, Tmux, a_while, has_marker, pusher};

// spec: PUSH-069
#[test]
fn a_pusher_outlives_its_server() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, peers) = (bus.mint("me"), bus.mint("peer"));
    let daemon = bus.daemon_with(&[]);
    let (port, url) = (daemon.port().to_string(), daemon.url());
    let agent = tmux.agent("me");
    let pushing = Pusher::start(pusher(&bus, &tmux, &url, &token, &agent));
    let said = |text: &str| json!({"from": "peer", "to": "me", "text": text});
    daemon.session(&peers).ok("send_message", said("before"));
    agent.gets("before");
    until("the message is read", || {
        daemon.session(&peers).ok("status", json!({"agentId": "me"}))["inboxUnread"] == 0
    });
    daemon.stop();
    // While nobody serves, a message comes by the files.
    let local = bus.stdio();
    local.ok("join", json!({"agentId": "local"}));
    local.ok(
        "send_message",
        json!({"from": "local", "to": "me", "text": "meanwhile"}),
    );
    std::thread::sleep(Duration::from_secs(2));
    let daemon = bus.daemon_with(&[("AGENT_COORD_HTTP_PORT", &port)]);
    agent.gets("meanwhile");
    daemon.session(&peers).ok("send_message", said("after"));
    agent.gets("after");
    // And one that dies without a word.
    daemon.process.signal(Signal::SIGKILL);
    drop(daemon);
    std::thread::sleep(Duration::from_secs(1));
    let daemon = bus.daemon_with(&[("AGENT_COORD_HTTP_PORT", &port)]);
    daemon.session(&peers).ok("send_message", said("at last"));
    agent.gets("at last");
    a_while();
    for text in ["before", "meanwhile", "after", "at last"] {
        assert_eq!(agent.times(text), 1, "{text}: {:?}", agent.taken());
    }
    assert!(pushing.end_by(Signal::SIGTERM).0.success());
    assert!(!has_marker(&bus, "me"));
}

#[test]
fn a_pusher_waits_for_a_server_that_is_not_up_yet() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, peers) = (bus.mint("me"), bus.mint("peer"));
    let daemon = bus.daemon_with(&[]);
    let (port, url) = (daemon.port().to_string(), daemon.url());
    daemon.stop();
    let agent = tmux.agent("me");
    let pushing = Pusher::begin(pusher(&bus, &tmux, &url, &token, &agent));
    pushing.err.says("asked again");
    let daemon = bus.daemon_with(&[("AGENT_COORD_HTTP_PORT", &port)]);
    pushing.err.says("muster: attached: ");
    let peer = daemon.session(&peers);
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "there you are"}),
    );
    agent.gets("there you are");
    daemon.stop();
    // Without a server it ends all the same.
    let (status, said) = pushing.end_by(Signal::SIGTERM);
    assert!(status.success(), "{said}");
    assert!(said.contains("could not be taken away"), "{said}");
}

// spec: PUSH-034
#[test]
fn a_pusher_that_was_killed_leaves_nothing_lost_and_its_successor_types_nothing_twice() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, peers) = (bus.mint("me"), bus.mint("peer"));
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let peer = daemon.session(&peers);
    let say = |text: &str| peer.ok("send_message", json!({"from": "peer", "to": "me", "text": text}));
    let unread = || peer.ok("status", json!({"agentId": "me"}))["inboxUnread"].clone();
    let start = || Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    let pushing = start();
    say("before");
    agent.gets("before");
    until("the message is read", || unread() == 0);
    let (status, _) = pushing.end_by(Signal::SIGKILL);
    assert!(!status.success());
    say("meanwhile");
    assert_eq!(unread(), 1);
    // Its own lease does not keep it out.
    let pushing = start();
    agent.gets("meanwhile");
    until("the message is read", || unread() == 0);
    // One that dies between a message and its paste.
    say("in the gap");
    let (status, _) = pushing.end_by(Signal::SIGKILL);
    assert!(!status.success());
    let _pushing = start();
    agent.gets("in the gap");
    a_while();
    for text in ["before", "meanwhile", "in the gap"] {
        assert_eq!(agent.times(text), 1, "{text}: {:?}", agent.taken());
    }
}

#[test]
fn what_was_read_by_hand_is_not_pushed_later() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let (token, peers) = (bus.mint("me"), bus.mint("peer"));
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let (me, peer) = (daemon.session(&token), daemon.session(&peers));
    me.ok("join", json!({"agentId": "me"}));
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "by hand"}),
    );
    let read = me.ok("read_messages", json!({"agentId": "me", "source": "inbox"}));
    assert!(read.to_string().contains("by hand"), "{read}");
    let _pushing = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "me", "text": "by push"}),
    );
    agent.gets("by push");
    a_while();
    assert_eq!(agent.times("by hand"), 0, "{:?}", agent.taken());
}
