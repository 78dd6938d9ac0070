//! Markers and the choice of a transport.

use std::fs;

use muster_bus::transports::{self, Attach, ConfigSource, Panes, Report, TransportKind};
use muster_bus::{BusError, registry, sessions};

use crate::{World, bind, seat, sleeper};

fn remote(target: Option<&str>) -> Report<'_> {
    Report {
        transport: "tmux-push-remote",
        target,
        ..Report::default()
    }
}

fn pane(target: &str) -> Attach {
    Attach {
        target: target.to_owned(),
        ..Attach::default()
    }
}

// spec: STO-017 TOOL-096
#[test]
fn each_marker_is_a_file_of_its_own_that_names_transport_and_pane() {
    let world = World::new();
    transports::attach(&world.home, &seat("alice"), pane("w3:p1")).unwrap();
    let report = Report {
        host: Some("box2"),
        since: Some(17),
        ..remote(Some("%4"))
    };
    transports::report(&world.home, &seat("bob"), report).unwrap();

    let alice = world.json("transports/alice.json");
    assert_eq!(alice["transport"], "herdr");
    assert_eq!(
        (&alice["target"], &alice["tmuxTarget"]),
        (&"w3:p1".into(), &"w3:p1".into())
    );
    assert_eq!(alice["pid"], std::process::id());
    assert_eq!(alice["pidStart"].as_u64(), sessions::start_of(std::process::id()));
    assert_eq!(alice["includeRoom"], true);
    let bob = world.json("transports/bob.json");
    assert_eq!(bob["transport"], "tmux-push-remote");
    assert_eq!((&bob["target"], &bob["tmuxTarget"]), (&"%4".into(), &"%4".into()));
    assert_eq!(
        (&bob["host"], &bob["since"], &bob["pid"]),
        (&"box2".into(), &17.into(), &0.into())
    );
    let listed: Vec<String> = transports::all(&world.home)
        .unwrap()
        .into_iter()
        .map(|found| found.id)
        .collect();
    assert_eq!(listed, ["alice", "bob"]);
}

// spec: TOOL-111
#[test]
fn reading_markers_filters_none_and_changes_no_byte() {
    let world = World::new();
    world.put("transports/dead.json", r#"{"agentId":"dead","transport":"tmux-push","pid":1999999999,"tmuxTarget":"%1","since":5,"scriptMtime":1.5,"odd":{"k":[1]}}"#);
    world.put("transports/broken.json", "{\"agentId\":");
    world.put(
        "transports/other.json",
        r#"{"agentId":"somebody","transport":"herdr","pid":1}"#,
    );
    world.put(
        "transports/.hidden.json",
        r#"{"agentId":".hidden","transport":"herdr"}"#,
    );
    world.put("transports/note.txt", "no marker");
    let before = world.files();

    let all = transports::all(&world.home).unwrap();
    let ids: Vec<&str> = all.iter().map(|found| found.id.as_str()).collect();
    assert_eq!(ids, [".hidden", "broken", "dead", "other"]);
    for found in &all {
        match (found.id.as_str(), &found.marker) {
            ("dead", Ok(marker)) => {
                assert!(!transports::alive(marker, None, world.home.now()));
                assert_eq!(
                    (marker.pane(), &marker.more["odd"]["k"][0]),
                    (Some("%1"), &1.into())
                );
            }
            ("broken", Err(BusError::Damaged(file))) => assert_eq!(file, "transports/broken.json"),
            ("other" | ".hidden", Err(BusError::Odd { .. })) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(transports::load(&world.home, &seat("dead")).unwrap().is_some());
    assert_eq!(transports::load(&world.home, &seat("nobody")).unwrap(), None);
    assert_eq!(world.files(), before);
}

// spec: TOOL-098
#[test]
fn an_unknown_kind_is_refused_with_the_valid_ones() {
    let world = World::new();
    for word in ["heardr", "tmux-push", "", "HERDR", "herdr\u{1b}[2J"] {
        let report = Report {
            transport: word,
            ..Report::default()
        };
        let said = transports::report(&world.home, &seat("alice"), report)
            .unwrap_err()
            .to_string();
        assert!(said.contains("herdr and tmux-push-remote"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
    assert!(!world.exists("transports/alice.json"));
}

// spec: TOOL-097
#[test]
fn clearing_takes_the_marker_alone_and_may_be_done_twice() {
    let world = World::new();
    registry::register(&world.home, &seat("alice"), None, None).unwrap();
    transports::report(&world.home, &seat("alice"), remote(None)).unwrap();
    transports::report(&world.home, &seat("bob"), remote(None)).unwrap();
    let mut rest = world.files();
    rest.remove("transports/alice.json").unwrap();

    assert!(transports::clear(&world.home, &seat("alice")).unwrap());
    assert!(!transports::clear(&world.home, &seat("alice")).unwrap());
    assert_eq!(world.files(), rest);
    world.put("transports/carol.json", "damaged");
    assert!(transports::clear(&world.home, &seat("carol")).unwrap());
}

#[test]
fn a_remote_marker_lives_by_its_agents_heartbeat() {
    let world = World::new();
    let marker = transports::report(&world.home, &seat("alice"), remote(None)).unwrap();
    let alive = |agent| transports::alive(&marker, agent, world.home.now());
    assert!(!alive(None), "nobody of that id is registered");
    let agent = registry::register(&world.home, &seat("alice"), None, None).unwrap();
    world.pass(299);
    assert!(alive(Some(&agent)));
    world.pass(1);
    assert!(!alive(Some(&agent)));
}

#[test]
fn a_marker_lives_with_its_process_and_not_with_one_of_the_same_number() {
    let world = World::new();
    let mut child = sleeper();
    let start = sessions::start_of(child.id()).unwrap();
    let marker = |start: u64| {
        world.put(
            "transports/alice.json",
            &format!(
                r#"{{"agentId":"alice","transport":"herdr","pid":{},"pidStart":{start},"target":"p"}}"#,
                child.id()
            ),
        );
        transports::load(&world.home, &seat("alice")).unwrap().unwrap()
    };
    let (same, other) = (marker(start), marker(start + 1));
    assert!(transports::alive(&same, None, 0));
    assert!(!transports::alive(&other, None, 0));

    let agent = registry::register(&world.home, &seat("alice"), None, None).unwrap();
    child.kill().unwrap();
    // Not collected yet: it has a number still and does nothing any more.
    while sessions::start_of(child.id()).is_some() {
        std::thread::yield_now();
    }
    assert!(
        !transports::alive(&same, Some(&agent), world.home.now()),
        "a heartbeat does not replace the process"
    );
    child.wait().unwrap();
    assert!(!transports::alive(&same, Some(&agent), world.home.now()));
}

// spec: TOOL-100
#[test]
fn a_pane_that_another_live_agent_holds_is_refused() {
    let world = World::new();
    transports::attach(&world.home, &seat("alice"), pane("w3:p1")).unwrap();
    let refused = transports::attach(&world.home, &seat("bob"), pane("w3:p1"));
    assert!(matches!(refused, Err(BusError::PaneHeld { by, .. }) if by == "alice"));
    let here = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let same_machine = Report {
        host: Some(here.trim()),
        ..remote(Some("w3:p1"))
    };
    let refused = transports::report(&world.home, &seat("bob"), same_machine);
    assert!(matches!(refused, Err(BusError::PaneHeld { .. })));
    assert!(!world.exists("transports/bob.json"));

    // Its own pane again, another pane, and a pane of that name on another machine are free.
    transports::attach(&world.home, &seat("alice"), pane("w3:p1")).unwrap();
    transports::attach(&world.home, &seat("bob"), pane("w3:p2")).unwrap();
    let elsewhere = Report {
        host: Some("another-machine-than-this"),
        ..remote(Some("w3:p1"))
    };
    transports::report(&world.home, &seat("carol"), elsewhere).unwrap();
}

// spec: IDN-013
#[test]
fn a_pane_of_a_machine_that_is_not_named_is_nobodys_own() {
    let panes = Panes::of(|name| (name == "TMUX_PANE").then(|| "%0".to_owned()));
    let world = World::new();
    let alice = seat("alice");
    let here = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for (host, own) in [
        (None, false),
        (Some(transports::UNKNOWN), false),
        (Some("another-machine-than-this"), false),
        (Some(here.trim()), true),
    ] {
        let report = Report {
            host,
            ..remote(Some("%0"))
        };
        registry::register(&world.home, &alice, None, None).unwrap();
        let marker = transports::report(&world.home, &alice, report).unwrap();
        assert_eq!(panes.are_of(&marker), own, "{host:?}");
        let bound = bind(&world.session_in("TMUX_PANE", "%0"), "alice");
        assert_eq!(bound.is_ok(), own, "{host:?}: {bound:?}");
    }
    // A process of this machine needs no name.
    let own = std::process::id();
    world.put(
        "transports/alice.json",
        &format!(r#"{{"agentId":"alice","transport":"tmux-push","pid":{own},"target":"%0"}}"#),
    );
    assert!(panes.are_of(&transports::load(&world.home, &alice).unwrap().unwrap()));
}

#[test]
fn a_pane_whose_holder_is_gone_is_free() {
    let world = World::new();
    world.put(
        "transports/alice.json",
        r#"{"agentId":"alice","transport":"herdr","pid":1999999999,"target":"w3:p1"}"#,
    );
    world.put("transports/broken.json", "{");
    transports::attach(&world.home, &seat("bob"), pane("w3:p1")).unwrap();
    // Without the registry nobody can say whether a remote holder lives.
    world.put("agents.json", "{\"torn");
    assert!(matches!(
        transports::report(&world.home, &seat("carol"), remote(Some("w3:p1"))),
        Err(BusError::Damaged(_))
    ));
}

#[test]
fn of_two_that_attach_to_one_pane_at_once_one_is_refused() {
    let world = World::new();
    for round in 0..50 {
        let target = format!("p{round}");
        let results: Vec<bool> = std::thread::scope(|scope| {
            let workers: Vec<_> = ["a", "b", "c", "d"]
                .map(|id| {
                    let (home, target) = (&world.home, &target);
                    scope.spawn(move || transports::attach(home, &seat(id), pane(target)).is_ok())
                })
                .into_iter()
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|won| **won).count(), 1, "round {round}");
    }
}

// spec: TOOL-099
#[test]
fn without_a_pane_of_its_own_an_attach_asks_for_one() {
    let said = Panes::default().target(None).unwrap_err().to_string();
    assert!(said.contains("tmuxTarget"), "{said}");
    assert_eq!(Panes::default().target(Some("w1:p2")).unwrap(), "w1:p2");
    let own = Panes::of(|name| (name == "HERDR_PANE_ID").then(|| "w1:p9".to_owned()));
    assert_eq!(own.target(None).unwrap(), "w1:p9");
    assert_eq!(own.target(Some("w1:p2")).unwrap(), "w1:p2");
    // A tmux pane is none that herdr could type into.
    let tmux = Panes::of(|name| (name == "TMUX_PANE").then(|| "%3".to_owned()));
    assert!(matches!(tmux.target(None), Err(BusError::NoPane)));
}

// spec: STO-016
#[test]
fn the_machines_file_outranks_the_environment_and_neither_is_a_default() {
    let world = World::new();
    let env =
        |value: &'static str| move |name: &str| (name == "AGENT_COORD_TRANSPORT").then(|| value.to_owned());
    let said = transports::configured(&world.home, |_| None)
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("herdr") && said.contains("tmux-push-remote") && said.contains("config.json"),
        "{said}"
    );
    let chosen = transports::configured(&world.home, env("herdr")).unwrap();
    assert_eq!(
        (chosen.kind, chosen.source),
        (TransportKind::Herdr, ConfigSource::Env)
    );

    world.put("config.json", r#"{"keep":1}"#);
    transports::choose(&world.home, TransportKind::TmuxPushRemote).unwrap();
    assert_eq!(world.json("config.json")["keep"], 1);
    let chosen = transports::configured(&world.home, env("herdr")).unwrap();
    assert_eq!(
        (chosen.kind, chosen.source.as_str()),
        (TransportKind::TmuxPushRemote, "machine-config")
    );

    for (file, env) in [
        (r#"{"transport":"heardr"}"#, env("herdr")),
        (r#"{"transport":"tmux-push"}"#, env("herdr")),
        (r#"{"transport":null}"#, env("herdr")),
        (r#"{"transport":["herdr"]}"#, env("herdr")),
        (r#"{"transport":"her"#, env("herdr")),
        ("", env("herdr")),
        ("{}", env("heardr")),
        ("{}", env("\u{1b}[2Jx")),
        ("{}", env("")),
    ] {
        world.put("config.json", file);
        let said = transports::configured(&world.home, env).unwrap_err().to_string();
        assert!(
            said.contains("herdr") && said.contains("tmux-push-remote"),
            "{file}: {said}"
        );
        assert!(!said.contains('\u{1b}'), "{said:?}");
        assert_eq!(
            fs::read_to_string(world.dir.path().join("config.json")).unwrap(),
            file
        );
    }
}

#[test]
fn the_line_that_chooses_a_transport_works_in_a_shell_and_writes_over_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let odd = dir.path().join("it's a $HOME `x`");
    let home = muster_bus::Home::open(
        &odd,
        muster_bus::limits::Limits::default(),
        muster_core::Clock::system(),
    )
    .unwrap();
    let said = transports::configured(&home, |_| None).unwrap_err().to_string();
    let line = said.split_once("This chooses one: ").unwrap().1;
    assert!(
        std::process::Command::new("sh")
            .args(["-c", line])
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(
        transports::configured(&home, |_| None).unwrap().kind,
        TransportKind::Herdr
    );

    fs::write(odd.join("config.json"), "{\"mode\":\"native\"}").unwrap();
    let said = transports::configured(&home, |_| None).unwrap_err().to_string();
    assert!(
        !said.contains("echo") && said.contains("AGENT_COORD_TRANSPORT=herdr"),
        "{said}"
    );
}

#[test]
fn a_pane_is_one_of_its_own_tmux_server_alone() {
    let world = World::new();
    let (alice, bob) = (seat("alice"), seat("bob"));
    let here = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let at = |socket| Report {
        host: Some(here.trim()),
        socket,
        ..remote(Some("%0"))
    };
    registry::register(&world.home, &alice, None, None).unwrap();
    let marker = transports::report(&world.home, &alice, at(Some("/tmp/tmux-1/work"))).unwrap();
    assert_eq!(
        world.json("transports/alice.json")["tmuxSocket"],
        "/tmp/tmux-1/work"
    );
    // The same number in another server is another pane; where the server is not said, it may be the same one.
    for (socket, free) in [
        (Some("/tmp/tmux-1/default"), true),
        (Some("/tmp/tmux-1/work"), false),
        (None, false),
    ] {
        let reported = transports::report(&world.home, &bob, at(socket));
        assert_eq!(reported.is_ok(), free, "{socket:?}: {reported:?}");
        transports::clear(&world.home, &bob).unwrap();
    }
    for (tmux, own) in [
        (Some("/tmp/tmux-1/work,77,0"), true),
        (Some("/tmp/tmux-1/default,77,0"), false),
        (None, true),
    ] {
        let panes = Panes::of(|name| match name {
            "TMUX_PANE" => Some("%0".to_owned()),
            "TMUX" => tmux.map(str::to_owned),
            _ => None,
        });
        assert_eq!(panes.are_of(&marker), own, "{tmux:?}");
    }
    // A pusher that ends takes no marker of another server's pane with it.
    let clear = |socket| transports::clear_of(&world.home, &alice, "%0", socket).unwrap();
    assert!(!clear(Some("/tmp/tmux-1/default")) && world.exists("transports/alice.json"));
    assert!(clear(Some("/tmp/tmux-1/work")) && !world.exists("transports/alice.json"));
}
