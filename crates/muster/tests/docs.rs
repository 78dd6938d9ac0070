//! The owner's guide states what it has to state.
#![cfg(test)]

fn guide() -> String {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/inbox.md")).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

// spec: DLV-032
#[test]
fn the_guide_says_that_the_data_scope_is_advisory() {
    assert!(guide().contains(
        "The data-scope sentence is advisory: the chief's own memory credential can write anywhere"
    ));
}

// spec: DRF-023
#[test]
fn the_guide_says_that_the_screen_is_a_heuristic_and_the_approval_the_control() {
    assert!(guide().contains("The screen is a heuristic; your approval is the real control."));
}

// spec: DBA-054 DBA-055
#[test]
fn the_guide_says_where_permissions_end() {
    let guide =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/permissions.md")).unwrap();
    let guide = guide.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in [
        "It governs access **through muster**. An agent with a shell of its own can still run `psql`, `git push` or `curl` itself",
        "narrow what is near to an agent. Neither confines a process: it can read any path that its user can.",
    ] {
        assert!(guide.contains(says), "{says}");
    }
    // What narrows is never called a wall.
    for never in ["isolates", "sandbox", "confines an agent", "cannot read other"] {
        assert!(!guide.contains(never), "{never}");
    }
}
