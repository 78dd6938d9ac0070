//! From a message to the pane.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{World, until};

// spec: PUSH-012 PUSH-038 PUSH-058 PUSH-059
#[test]
fn a_direct_message_is_in_the_pane_within_a_moment_and_then_it_is_read() {
    let world = World::new();
    let (alice, bob) = (world.agent("alice"), world.agent("bob"));
    let said = bob.attach("w1:p1");
    assert!(said["hint"].as_str().unwrap().contains("allowlist"));
    let marker = world.json("transports/bob.json");
    assert_eq!(said["transport"], marker);
    assert_eq!(
        (&marker["target"], &marker["tmuxTarget"]),
        (&json!("w1:p1"), &json!("w1:p1"))
    );
    assert_eq!(
        (&marker["transport"], &marker["pid"]),
        (&json!("herdr"), &json!(std::process::id()))
    );
    assert!(
        marker["since"].is_i64() && marker["build"].is_string(),
        "{marker}"
    );

    let begun = Instant::now();
    alice.dm("bob", "how far are you?");
    let typed = world.fake.wait(1);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let arrival = world.fake.arrived.lock().unwrap()[0].clone();
    assert_eq!(arrival.target, "w1:p1");
    let lines: Vec<&str> = typed[0].lines().collect();
    assert!(lines[0].starts_with("[agent-coord] "), "{typed:?}");
    assert!(
        lines[1].starts_with("[DM ") && lines[1].ends_with(" alice]"),
        "{typed:?}"
    );
    assert_eq!(lines[2], "# how far are you?");
    until(|| bob.unread("inbox").is_empty());
}
