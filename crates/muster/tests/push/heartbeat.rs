//! What a pusher says of itself while nothing happens: it takes a minute to see and nothing of the machine, so it waits beside other tests.

use std::time::{Duration, Instant};

use crate::bus::Bus;
use crate::support::{Pusher, Tmux, pusher};

// spec: PUSH-065
#[test]
fn a_heartbeat_goes_to_the_bus_once_a_minute() {
    let (bus, tmux) = (Bus::new(), Tmux::new());
    let token = bus.mint("me");
    let daemon = bus.daemon_with(&[]);
    let agent = tmux.agent("me");
    let _pushing = Pusher::start(pusher(&bus, &tmux, &daemon.url(), &token, &agent));
    let beat = || bus.json("agents.json")["me"]["lastHeartbeat"].as_i64().unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let (first, begun) = (beat(), Instant::now());
    while beat() == first {
        assert!(begun.elapsed() < Duration::from_secs(66), "no heartbeat came");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!((beat() - first) < 70_000, "{}", beat() - first);
    assert!(
        begun.elapsed() > Duration::from_secs(40),
        "it came too soon: {:?}",
        begun.elapsed()
    );
}
