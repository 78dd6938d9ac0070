//! More than one process at a pane, and processes that die at the worst moment.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use muster_bus::push::{Outcome, Transport as _, Why};
use muster_mirror::{Server, TmuxPanes};

use crate::program::Agent;
use crate::support::{PASTED, Tmux, held, insist, part, quick, text, wait};

/// What a deliverer in another process is to do: server, pane, name, count.
const ROLE: &str = "MUSTER_TEST_DELIVERER";

#[test]
fn a_deliverer_of_these_tests_plays_its_part() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let mut settings = quick();
    settings.second_look = Duration::from_secs(60);
    let panes = TmuxPanes::new(Server::Named(words[0].to_owned()), settings);
    for number in 0..words[3].parse().unwrap() {
        let what = text(
            &format!("{}-{number:04}", words[2]),
            &format!("# {} {number}\n# and more", words[2]),
        );
        assert_eq!(insist(&panes, words[1], &what), PASTED);
    }
}

fn deliverer(tmux: &Tmux, agent: &Agent, name: &str, count: usize) -> Child {
    let words = part("claims::a_deliverer_of_these_tests_plays_its_part");
    Command::new(&words[0])
        .args(&words[1..])
        .env(ROLE, format!("{} {} {name} {count}", tmux.name, agent.pane))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn two_processes_never_mix_what_they_type_into_one_pane() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let children: Vec<Child> = ["ann", "bob", "cy"]
        .iter()
        .map(|name| deliverer(&tmux, &agent, name, 12))
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let submitted = agent.submitted();
    assert_eq!(submitted.len(), 36);
    for name in ["ann", "bob", "cy"] {
        let mine: Vec<&String> = submitted.iter().filter(|text| text.contains(name)).collect();
        let expected: Vec<String> = (0..12)
            .map(|number| format!("[agent-coord] message {name}-{number:04}\n# {name} {number}\n# and more"))
            .collect();
        assert_eq!(mine, expected.iter().collect::<Vec<_>>());
    }
}

#[test]
fn what_a_killed_deliverer_left_in_the_input_is_a_draft_and_is_never_sent_with_the_next() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    // The program is slow to show what was pasted, so the deliverer waits between paste and Enter.
    agent.tell("slow on");
    let mut child = deliverer(&tmux, &agent, "ann", 1);
    wait("the paste", || !agent.bytes().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    agent.tell("slow off");
    let panes = tmux.panes();
    let outcome = panes.deliver(&agent.pane, &text("t-0001", "# next"));
    let Outcome::Held(hold) = &outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(hold.why, Why::Draft);
    assert!(
        hold.detail.contains("[Pasted text #1 +2 lines]"),
        "{}",
        hold.detail
    );
    assert!(agent.submitted().is_empty());
    // A person looks at it and removes it; then things go on.
    tmux.run(&["send-keys", "-t", &agent.pane, "C-u"]);
    assert_eq!(insist(&panes, &agent.pane, &text("t-0001", "# next")), PASTED);
    assert_eq!(agent.submitted().len(), 1);
}

#[test]
fn a_buffer_that_a_dead_deliverer_left_behind_is_removed_and_no_other() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let (stale, live) = (
        format!("muster-push-{}-77-0", gone.id()),
        format!("muster-push-{}-", std::process::id()),
    );
    let start = std::fs::read_to_string("/proc/self/stat").unwrap();
    let start = start
        .rsplit_once(')')
        .unwrap()
        .1
        .split_ascii_whitespace()
        .nth(19)
        .unwrap()
        .to_owned();
    let live = format!("{live}{start}-99");
    for name in [stale.as_str(), live.as_str(), "mine"] {
        tmux.run(&["set-buffer", "-b", name, "text"]);
    }
    let panes = tmux.panes();
    let left = tmux.run(&["list-buffers", "-F", "#{buffer_name}"]);
    let mut left: Vec<&str> = left.lines().collect();
    left.sort_unstable();
    assert_eq!(left, ["mine", live.as_str()]);
    assert_eq!(panes.deliver(&agent.pane, &text("t-0001", "# hello")), PASTED);
}

#[test]
fn a_program_that_replaced_the_agent_between_looking_and_typing_gets_nothing() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    // The agent's screen is still there while a shell takes its place.
    for _ in 0..5 {
        let pane = agent.pane.clone();
        std::thread::scope(|scope| {
            let delivering = scope.spawn(|| panes.deliver(&agent.pane, &text("t-0001", "# hello")));
            std::thread::sleep(Duration::from_millis(25));
            tmux.run(&[
                "respawn-pane",
                "-k",
                "-t",
                &pane,
                "sh",
                "-c",
                "read -r line; echo got $line; sleep 100",
            ]);
            let outcome = delivering.join().unwrap();
            assert!(!matches!(outcome, Outcome::Delivered { .. }), "{outcome:?}");
        });
        assert!(!tmux.screen(&pane).contains("got"), "{}", tmux.screen(&pane));
    }
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::Shell
    );
}
