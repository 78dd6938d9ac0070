//! How the programs of push are started, and how they refuse to be.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::bus::{Bus, MUSTER, Said};

fn named(bus: &Bus, name: &str, arguments: &[&str]) -> Said {
    let link = bus.path(name);
    if !link.exists() {
        symlink(MUSTER, &link).unwrap();
    }
    let mut command = Command::new(link);
    command.args(arguments).env_clear().env("HOME", bus.path("home"));
    Said::of(command)
}

// spec: NODE-022
#[test]
fn the_programs_of_push_answer_to_their_own_names() {
    let bus = Bus::new();
    for (name, same) in [
        ("coord-pusher", vec!["bus", "pusher"]),
        ("coord-node", vec!["bus", "node"]),
        ("stop-agent", vec!["bus", "node", "down"]),
        ("coord-token", vec!["bus", "token"]),
        ("agent-coord-mcp", vec!["bus", "serve"]),
    ] {
        let said = named(&bus, name, &["--help"]);
        assert!(said.status.success(), "{name}: {said:?}");
        let mut arguments = same.clone();
        arguments.push("--help");
        let usual = bus.run(&arguments);
        assert_eq!(said.out, usual.out, "{name}");
        assert!(
            said.out.contains(&format!("Usage: muster {}", same.join(" "))),
            "{}",
            said.out
        );
    }
}

// spec: NODE-021
#[test]
fn a_pusher_that_misses_something_says_what_and_how_it_is_used() {
    let bus = Bus::new();
    let said = bus.run(&["bus", "pusher"]);
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    for word in [
        "--server",
        "AGENT_COORD_TOKEN",
        "--agent",
        "--tmux",
        "Usage: muster bus pusher",
    ] {
        assert!(said.err.contains(word), "{word}: {}", said.err);
    }
    let all = [
        "--server",
        "http://127.0.0.1:9/mcp",
        "--agent",
        "me",
        "--tmux",
        "%0",
    ];
    for missing in [0, 2, 4] {
        let mut arguments = vec!["bus", "pusher"];
        arguments.extend(
            all.iter()
                .enumerate()
                .filter(|(at, _)| at / 2 != missing / 2)
                .map(|(_, word)| *word),
        );
        let mut command = bus.command(&arguments);
        command.env("AGENT_COORD_TOKEN", "tk_x");
        let said = Said::of(command);
        assert_eq!(said.status.code(), Some(2), "{said:?}");
        assert!(said.err.contains(all[missing]), "{said:?}");
        let others = (0..3)
            .filter(|other| other * 2 != missing)
            .map(|other| all[other * 2]);
        let (first, _usage) = said.err.split_once("nothing was started").unwrap();
        others.for_each(|other| assert!(!first.contains(other), "{other} is there: {first}"));
    }
    let said = Said::of(bus.command(&["bus", "pusher"].iter().chain(&all).copied().collect::<Vec<_>>()));
    assert_eq!(said.status.code(), Some(2), "{said:?}");
    assert!(said.err.contains("a token in AGENT_COORD_TOKEN"), "{said:?}");
    assert!(
        !bus.path("bus").exists() && !bus.path("home").exists(),
        "it left nothing behind"
    );
}

#[test]
fn a_pusher_refuses_what_makes_no_sense_before_it_starts() {
    let bus = Bus::new();
    let usual = [
        "--server",
        "http://127.0.0.1:9/mcp",
        "--agent",
        "me",
        "--tmux",
        "%0",
    ];
    let run = |more: &[&str], env: &[(&str, &str)]| {
        let mut command = bus.command(
            &["bus", "pusher"]
                .iter()
                .chain(&usual)
                .chain(more)
                .copied()
                .collect::<Vec<_>>(),
        );
        command
            .env("AGENT_COORD_TOKEN", "tk_x")
            .env("TMUX_TMPDIR", bus.path(""))
            .envs(env.iter().copied());
        Said::of(command)
    };
    for (more, env, word) in [
        (&["--debounce-ms", "never"][..], &[][..], "--debounce-ms"),
        (&["--refresh-ms", "0"], &[], "--refresh-ms"),
        (&["--allowlist", "a,../b"], &[], "agent"),
        (&[], &[("AGENT_COORD_TIERS", "maybe")], "AGENT_COORD_TIERS"),
        (
            &[],
            &[("AGENT_COORD_GHOST_TEXT_SGR", "dim")],
            "AGENT_COORD_GHOST_TEXT_SGR",
        ),
    ] {
        let said = run(more, env);
        assert!(!said.status.success(), "{more:?} {env:?}");
        assert!(said.err.contains(word), "{word}: {}", said.err);
    }
    // No tmux server runs here, so there is no pane.
    let said = run(&[], &[]);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(said.err.contains("Nothing was started"), "{said:?}");
    assert!(!said.err.contains("tk_x"), "{said:?}");
}

// spec: NODE-021
#[test]
fn a_node_that_misses_something_starts_nothing() {
    let bus = Bus::new();
    for arguments in [
        vec!["bus", "node"],
        vec!["bus", "node", "up", "--id", "me", "--cmd", "true"],
        vec![
            "bus",
            "node",
            "--server",
            "http://127.0.0.1:9/mcp",
            "--cmd",
            "true",
        ],
        vec!["bus", "node", "--server", "http://127.0.0.1:9/mcp", "--id", "me"],
        vec![
            "bus",
            "node",
            "--server",
            "http://127.0.0.1:9/mcp",
            "--id",
            "me",
            "--cmd",
            "an 'open quote",
        ],
        vec![
            "bus",
            "node",
            "--server",
            "http://127.0.0.1:9/mcp",
            "--id",
            "../me",
            "--cmd",
            "true",
        ],
        vec!["bus", "node", "down"],
    ] {
        let mut command = bus.command(&arguments);
        command.env("AGENT_COORD_TOKEN", "tk_x");
        let said = Said::of(command);
        assert_eq!(said.status.code(), Some(2), "{arguments:?}: {said:?}");
    }
}
