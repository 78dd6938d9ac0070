//! A node: an agent in a tmux session of its own with a pusher beside it, started and ended by one command.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::bus::{Bus, Calls as _, Daemon, SHARED, Said, until};
use crate::support::{Agent, Tmux, agent_command, has_marker, in_a_command_line, marker};

/// A machine of its own beside the bus's.
struct Machine {
    tmux: Tmux,
    bus: Bus,
    daemon: Daemon,
    token: String,
}

impl Machine {
    fn new(id: &str) -> Self {
        let bus = Bus::new();
        let token = bus.mint(id);
        Self {
            tmux: Tmux::new(),
            daemon: bus.daemon_with(&[]),
            token,
            bus,
        }
    }

    fn folder(&self) -> PathBuf {
        self.bus.path("node")
    }

    /// The agent's command line, as a person writes it.
    fn agent_words(&self) -> String {
        let folder = self.bus.path("an agent's folder");
        fs::create_dir_all(&folder).unwrap();
        let words = agent_command(&folder);
        let quoted = words
            .iter()
            .map(|word| format!("'{}'", word.replace('\'', "'\\''")));
        quoted.collect::<Vec<_>>().join(" ")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bus.command(arguments);
        command
            .env("AGENT_COORD_DIR", self.folder())
            .env("AGENT_COORD_TOKEN", &self.token)
            .env("TMUX", self.tmux.env());
        command
    }

    fn up(&self, id: &str) -> Said {
        self.up_with(id, &self.daemon.url(), &self.agent_words(), &[])
    }

    fn up_with(&self, id: &str, url: &str, cmd: &str, more: &[&str]) -> Said {
        let mut arguments = vec!["bus", "node", "up", "--server", url, "--id", id, "--cmd", cmd];
        arguments.extend(more);
        Said::of(self.command(&arguments))
    }

    fn down(&self, id: &str) -> Said {
        Said::of(self.command(&["bus", "node", "down", "--id", id]))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    fn pid(&self, id: &str) -> u32 {
        let text = fs::read_to_string(self.file(&format!("pids/pusher-{id}.pid"))).unwrap();
        text.trim().parse().unwrap()
    }

    fn agent(&self, id: &str) -> Agent {
        Agent {
            id: id.to_owned(),
            pane: self
                .tmux
                .run(&["list-panes", "-t", &format!("=coord-{id}:"), "-F", "#{pane_id}"]),
            folder: self.bus.path("an agent's folder"),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for entry in fs::read_dir(self.file("pids")).into_iter().flatten().flatten() {
            let number = fs::read_to_string(entry.path())
                .ok()
                .and_then(|text| text.trim().parse().ok());
            if let Some(number) = number.filter(|_| entry.path().extension().is_some_and(|ext| ext == "pid"))
            {
                let _ = kill(Pid::from_raw(number), Signal::SIGKILL);
            }
        }
    }
}

fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

// spec: NODE-009 NODE-010 NODE-011 NODE-012 NODE-013 NODE-014
#[test]
fn one_command_starts_an_agent_with_its_pusher_and_one_ends_both() {
    let machine = Machine::new("worker-2");
    let peers = machine.bus.mint("peer");
    let said = machine.up("worker-2");
    assert!(said.status.success(), "{said:?}");
    assert!(machine.tmux.has("coord-worker-2"), "{said:?}");
    let agent = machine.agent("worker-2");
    assert_eq!(marker(&machine.bus, "worker-2")["tmuxTarget"], agent.pane);
    let pid = machine.pid("worker-2");
    assert!(runs(pid) && said.out.contains(&pid.to_string()), "{said:?}");
    let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    assert!(line.contains("pusher") && line.contains("worker-2"), "{line:?}");

    // The pusher has the token by its environment; nobody's command line, the agent and tmux have it not.
    assert!(
        fs::read_to_string(format!("/proc/{pid}/environ"))
            .unwrap()
            .contains(&machine.token)
    );
    assert!(!in_a_command_line(&machine.token));
    let environment = fs::read_to_string(agent.folder.join("environment")).unwrap();
    assert!(
        !environment.contains(&machine.token) && environment.contains("TMUX_PANE"),
        "{environment}"
    );
    for scope in ["-g", "-t=coord-worker-2:"] {
        assert!(
            !machine
                .tmux
                .run(&["show-environment", scope])
                .contains(&machine.token)
        );
    }
    assert!(!said.out.contains(&machine.token) && !said.err.contains(&machine.token));

    let peer = machine.daemon.session(&peers);
    peer.ok(
        "send_message",
        json!({"from": "peer", "to": "worker-2", "text": "welcome"}),
    );
    agent.gets("welcome");
    let log = || fs::read_to_string(machine.file("logs/pusher-worker-2.log")).unwrap();
    until("the delivery in the log", || log().contains("delivered"));
    assert!(!log().contains("welcome"), "{}", log());

    let said = machine.down("worker-2");
    assert!(said.status.success(), "{said:?}");
    assert!(!machine.tmux.has("coord-worker-2") && !runs(pid), "{said:?}");
    assert!(!has_marker(&machine.bus, "worker-2"));
    assert!(!machine.file("pids/pusher-worker-2.pid").exists());
    let again = machine.down("worker-2");
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    // What is left is not taken for another program's.
    let init = Said::of(machine.command(&["--json", "init"]));
    assert!(init.out.contains("\"mode\": \"native\""), "{init:?}");
}

// spec: NODE-015
#[test]
fn a_node_that_runs_is_not_started_twice() {
    let machine = Machine::new("me");
    assert!(machine.up("me").status.success());
    let (pid, pane) = (machine.pid("me"), machine.agent("me").pane);
    let said = machine.up("me");
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(
        said.err.contains("already") && said.err.contains("Nothing was started"),
        "{said:?}"
    );
    assert_eq!((machine.pid("me"), machine.agent("me").pane), (pid, pane));
    assert!(runs(pid));
    assert!(machine.down("me").status.success());
    // A session of that name that somebody else made is neither taken nor ended; one whose name only begins so is another.
    machine
        .tmux
        .run(&["new-session", "-d", "-s", "coord-me-too", "sleep", "600"]);
    assert!(machine.up("me").status.success());
    assert!(machine.down("me").status.success());
    assert!(machine.tmux.has("coord-me-too"));
    machine
        .tmux
        .run(&["new-session", "-d", "-s", "coord-me", "sleep", "600"]);
    assert_eq!(machine.up("me").status.code(), Some(1));
    assert_eq!(machine.down("me").status.code(), Some(1));
    assert!(machine.tmux.has("coord-me"));
}

// spec: NODE-016
#[test]
fn what_is_wrong_with_the_bus_is_said_before_anything_starts() {
    let machine = Machine::new("me");
    let others = machine.bus.mint("other");
    let words = machine.agent_words();
    let nothing = |said: &Said| {
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        assert!(said.err.contains("Nothing was started"), "{said:?}");
        assert!(!machine.tmux.has("coord-me"), "{said:?}");
        assert!(!machine.bus.path("an agent's folder/environment").exists());
        assert!(!machine.file("pids/pusher-me.pid").exists());
    };
    let nobody = machine.up_with("me", "http://127.0.0.1:9/mcp", &words, &[]);
    nothing(&nobody);
    let elsewhere = format!("http://127.0.0.1:{}/nowhere", machine.daemon.port());
    nothing(&machine.up_with("me", &elsewhere, &words, &[]));
    nothing(&machine.up_with("me", "ftp://127.0.0.1/mcp", &words, &[]));
    for wrong in ["tk_wrong", &others] {
        let mut command = machine.command(&[
            "bus",
            "node",
            "--server",
            &machine.daemon.url(),
            "--id",
            "me",
            "--cmd",
            &words,
        ]);
        command.env("AGENT_COORD_TOKEN", wrong);
        nothing(&Said::of(command));
    }
}

#[test]
fn an_agent_that_ends_at_once_is_told_of_and_leaves_no_pusher() {
    let machine = Machine::new("me");
    for cmd in ["true", "no-such-program-anywhere --x"] {
        let said = machine.up_with("me", &machine.daemon.url(), cmd, &[]);
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        assert!(said.err.contains("ended as soon as it was started"), "{said:?}");
        assert!(!machine.tmux.has("coord-me") && !machine.file("pids/pusher-me.pid").exists());
        assert!(!has_marker(&machine.bus, "me"));
    }
}

#[test]
fn the_command_line_reaches_the_agent_word_by_word_and_no_shell() {
    let machine = Machine::new("me");
    let out = machine.bus.path("words");
    let program = machine.bus.path("print-words");
    let script = format!(
        "#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done > '{}'\nexec sleep 600\n",
        out.display()
    );
    fs::write(&program, script).unwrap();
    let mut mode = fs::metadata(&program).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    fs::set_permissions(&program, mode).unwrap();
    let cmd = format!(
        "'{}' 'two words' \"it's\" '$(touch oops)' '#{{pane_id}}' 'ends;' ';' a\\ b",
        program.display()
    );
    let said = machine.up_with("me", &machine.daemon.url(), &cmd, &[]);
    assert!(said.status.success(), "{said:?}");
    until("the words", || {
        fs::read_to_string(&out).is_ok_and(|text| text.lines().count() == 7)
    });
    let words = fs::read_to_string(&out).unwrap();
    assert_eq!(
        words.lines().collect::<Vec<_>>(),
        [
            "two words",
            "it's",
            "$(touch oops)",
            "#{pane_id}",
            "ends;",
            ";",
            "a b"
        ]
    );
    assert!(machine.down("me").status.success());
}

#[test]
fn a_node_whose_pusher_was_killed_is_ended_all_the_same() {
    let machine = Machine::new("me");
    assert!(machine.up("me").status.success());
    let pid = machine.pid("me");
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    until("its end", || !runs(pid));
    assert!(has_marker(&machine.bus, "me"));
    let said = machine.down("me");
    assert!(said.status.success(), "{said:?}");
    assert!(!has_marker(&machine.bus, "me"), "the token was at hand: {said:?}");
    assert!(!machine.tmux.has("coord-me"));
    // A number that belongs to another process by now is nobody's pusher.
    assert!(machine.up("me").status.success());
    let note = machine.file("pids/pusher-me.json");
    let mut noted: Value = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
    let pusher = noted["pid"].clone();
    let stranger = crate::bus::Process::lasting();
    noted["pid"] = stranger.pid().into();
    fs::write(&note, noted.to_string()).unwrap();
    assert!(machine.down("me").status.success());
    assert!(runs(stranger.pid()), "a stranger was ended");
    let pusher = i32::try_from(pusher.as_i64().unwrap()).unwrap();
    kill(Pid::from_raw(pusher), Signal::SIGKILL).unwrap();
}

#[test]
fn a_note_that_proves_nothing_ends_no_process() {
    let machine = Machine::new("me");
    let stranger = crate::bus::Process::lasting();
    let stat = fs::read_to_string(format!("/proc/{}/stat", stranger.pid())).unwrap();
    let began: u64 = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .nth(19)
        .unwrap()
        .parse()
        .unwrap();
    for start in [json!(began), Value::Null] {
        assert!(machine.up("me").status.success());
        let pusher = machine.pid("me");
        let note = machine.file("pids/pusher-me.json");
        let mut noted: Value = serde_json::from_slice(&fs::read(&note).unwrap()).unwrap();
        noted["pid"] = stranger.pid().into();
        noted["pidStart"] = start;
        fs::write(&note, noted.to_string()).unwrap();
        let said = machine.down("me");
        assert!(said.status.success(), "{said:?}");
        assert!(runs(stranger.pid()), "a stranger was ended: {said:?}");
        assert!(!machine.tmux.has("coord-me"), "{said:?}");
        kill(Pid::from_raw(i32::try_from(pusher).unwrap()), Signal::SIGKILL).unwrap();
    }
}

#[test]
fn a_session_is_ended_whatever_became_of_the_note() {
    let machine = Machine::new("me");
    let note = machine.file("pids/pusher-me.json");
    let damage: [(&str, &dyn Fn()); 4] = [
        ("empty", &|| fs::write(&note, "").unwrap()),
        ("half", &|| fs::write(&note, "{\"pid\": 12").unwrap()),
        ("a link", &|| {
            fs::rename(&note, note.with_extension("moved")).unwrap();
            std::os::unix::fs::symlink(note.with_extension("moved"), &note).unwrap();
        }),
        ("a pipe", &|| {
            fs::remove_file(&note).unwrap();
            assert!(Command::new("mkfifo").arg(&note).status().unwrap().success());
        }),
    ];
    for (what, damaged) in damage {
        assert!(machine.up("me").status.success(), "{what}");
        let pusher = machine.pid("me");
        damaged();
        let said = machine.down("me");
        assert!(said.status.success(), "{what}: {said:?}");
        assert!(said.err.contains("could not read"), "{what}: {said:?}");
        assert!(!machine.tmux.has("coord-me"), "{what}: {said:?}");
        assert!(fs::symlink_metadata(&note).is_err(), "{what}");
        kill(Pid::from_raw(i32::try_from(pusher).unwrap()), Signal::SIGKILL).unwrap();
    }
}

#[test]
fn doctor_takes_a_nodes_pusher_for_nobody_else() {
    let machine = Machine::new("me");
    let up = Said::of({
        let mut command = machine.command(&[
            "bus",
            "node",
            "--server",
            &machine.daemon.url(),
            "--id",
            "me",
            "--cmd",
            &machine.agent_words(),
        ]);
        command.env("AGENT_COORD_DIR", machine.bus.file(""));
        command
    });
    assert!(up.status.success(), "{up:?}");
    let said = machine.bus.run(&["--json", "bus", "doctor"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert!(
        !report["findings"].to_string().contains("foreign-writer"),
        "{report}"
    );
    let down = Said::of({
        let mut command = machine.command(&["bus", "node", "down", "--id", "me"]);
        command.env("AGENT_COORD_DIR", machine.bus.file(""));
        command
    });
    assert!(down.status.success(), "{down:?}");
}

#[test]
fn a_node_starts_tmux_where_none_runs_and_works_under_the_shared_token() {
    let bus = Bus::new();
    let daemon = bus.daemon_with(&[("AGENT_COORD_TOKEN", SHARED)]);
    let folder = bus.path("agent");
    fs::create_dir_all(&folder).unwrap();
    let sockets = tempfile::tempdir().unwrap();
    let words = agent_command(&folder).join(" ");
    let run = |arguments: &[&str]| {
        let mut command = bus.command(arguments);
        command
            .env("AGENT_COORD_DIR", bus.path("node"))
            .env("AGENT_COORD_TOKEN", SHARED)
            .env("TMUX_TMPDIR", sockets.path());
        Said::of(command)
    };
    let said = run(&[
        "bus",
        "node",
        "up",
        "--server",
        &daemon.url(),
        "--id",
        "me",
        "--cmd",
        &words,
    ]);
    let environment = fs::read_to_string(folder.join("environment")).unwrap_or_default();
    let down = run(&["bus", "node", "down", "--id", "me"]);
    assert!(said.status.success(), "{said:?}");
    assert!(down.status.success(), "{down:?}");
    assert!(
        !environment.is_empty() && !environment.contains(SHARED),
        "{environment}"
    );
}

#[test]
fn a_log_that_is_no_file_is_refused_and_nothing_runs() {
    let machine = Machine::new("me");
    let (log, target) = (machine.file("logs/pusher-me.log"), machine.bus.path("elsewhere"));
    fs::create_dir_all(machine.file("logs")).unwrap();
    for what in ["a pipe", "a link"] {
        let _ = fs::remove_file(&log);
        if what == "a pipe" {
            assert!(Command::new("mkfifo").arg(&log).status().unwrap().success());
        } else {
            std::os::unix::fs::symlink(&target, &log).unwrap();
        }
        let said = machine.up("me");
        assert_eq!(said.status.code(), Some(1), "{what}: {said:?}");
        assert!(said.err.contains("could not open"), "{what}: {said:?}");
        assert!(!machine.tmux.has("coord-me") && !target.exists(), "{what}");
        assert!(!machine.file("pids/pusher-me.pid").exists(), "{what}");
    }
}

#[test]
fn no_pane_of_a_node_gets_the_token_from_the_tmux_server_either() {
    let machine = Machine::new("me");
    machine
        .tmux
        .run(&["set-environment", "-g", "AGENT_COORD_TOKEN", &machine.token]);
    let said = machine.up("me");
    assert!(said.status.success(), "{said:?}");
    let environment = fs::read_to_string(machine.agent("me").folder.join("environment")).unwrap();
    assert!(!environment.contains(&machine.token), "{environment}");
    // Nor does one that somebody opens in its session later.
    let seen = machine.bus.path("seen");
    let print = format!("env > '{0}.new'; mv '{0}.new' '{0}'; sleep 60", seen.display());
    machine
        .tmux
        .run(&["split-window", "-d", "-t", "=coord-me:", "sh", "-c", &print]);
    until("the other pane", || seen.exists());
    let environment = fs::read_to_string(&seen).unwrap();
    assert!(
        environment.contains("TMUX_PANE") && !environment.contains(&machine.token),
        "{environment}"
    );
    assert!(machine.down("me").status.success());
}
