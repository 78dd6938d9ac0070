//! What is typed into a pane, and when nothing is.

use muster_bus::push::{ControlCommand, Door, Outcome, Probe, Transport as _, Why};

use muster_bus::transports::TransportKind;

use crate::program::{Agent, moment};
use crate::support::{PASTED, Tmux, command, held, part, quick, text, wait};

fn whole(token: &str, body: &str) -> String {
    format!("[agent-coord] message {token}\n{body}")
}

// spec: PUSH-046 PUSH-047
#[test]
fn a_text_of_many_lines_arrives_as_one_bracketed_paste_and_is_one_prompt() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    let body = "# one\n# two with 'quotes', ; and #{pid}\n# three\ttab, ünïcode ❯ 你好";
    assert_eq!(panes.deliver(&agent.pane, &text("t-0001", body)), PASTED);
    assert_eq!(agent.submitted(), [whole("t-0001", body)]);
    let pasted = whole("t-0001", body).replace('\n', "\r");
    assert_eq!(
        agent.bytes(),
        format!("\x1b[200~{pasted}\x1b[201~\r").into_bytes()
    );
    assert_eq!(tmux.run(&["list-buffers"]), "", "the text stays in no buffer");
}

#[test]
fn a_short_text_and_one_of_sixteen_kilobytes_arrive_whole() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    let long: String = (0..450)
        .map(|line| format!("# line {line} of a long message 12345\n"))
        .collect();
    assert!(long.len() > 14_000);
    for (token, body) in [
        ("t-0001", "# hello"),
        ("t-0002", long.trim_end()),
        ("t-0003", &"# a long line ".repeat(40)),
    ] {
        assert_eq!(
            panes.deliver(&agent.pane, &text(token, body.trim_end())),
            PASTED,
            "{token}"
        );
    }
    let expected = [
        whole("t-0001", "# hello"),
        whole("t-0002", long.trim_end()),
        whole("t-0003", "# a long line ".repeat(40).trim_end()),
    ];
    assert_eq!(agent.submitted(), expected);
}

// spec: PUSH-050 CMD-005
#[test]
fn a_command_is_typed_raw_without_paste_marks_or_anything_before_it() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    let typed = Outcome::Delivered {
        door: Door::Keys,
        verified: true,
    };
    for each in ControlCommand::ALL {
        assert_eq!(panes.deliver(&agent.pane, &command(each)), typed, "{each}");
    }
    assert_eq!(agent.bytes(), b"/clear\r/compact\r/reload-skills\r");
    assert_eq!(agent.submitted(), ["/clear", "/compact", "/reload-skills"]);
}

// spec: CMD-035 CMD-036 CMD-042 CMD-043
#[test]
fn a_draft_is_neither_added_to_nor_sent_and_the_refusal_quotes_it() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    // It is the transport of a pusher on any machine.
    assert_eq!(panes.kind(), TransportKind::TmuxPushRemote);
    tmux.keys(&agent.pane, "half a thought");
    wait("the draft", || {
        tmux.screen(&agent.pane).contains("half a thought")
    });
    for what in [text("t-0001", "# hello"), command(ControlCommand::Clear)] {
        let outcome = panes.deliver(&agent.pane, &what);
        let Outcome::Held(hold) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(hold.why, Why::Draft);
        assert!(hold.detail.contains("half a thought"), "{}", hold.detail);
        assert!(
            hold.detail.contains("\\u{1b}["),
            "with its styling: {}",
            hold.detail
        );
        assert!(!hold.detail.contains('\x1b'), "harmless for a terminal");
    }
    assert_eq!(
        agent.bytes(),
        b"half a thought",
        "not a byte more reached the program"
    );
    tmux.run(&["send-keys", "-t", &agent.pane, "C-u"]);
    wait("the empty input", || {
        !tmux.screen(&agent.pane).contains("half a thought")
    });
    assert_eq!(panes.deliver(&agent.pane, &text("t-0001", "# hello")), PASTED);
    assert_eq!(agent.submitted(), [whole("t-0001", "# hello")]);
}

// spec: CMD-037 CMD-041
#[test]
fn a_dim_suggestion_is_no_draft_and_is_never_sent() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    agent.tell("ghost approve everything and merge");
    assert_eq!(panes.deliver(&agent.pane, &text("t-0001", "# hello")), PASTED);
    assert_eq!(
        panes.deliver(&agent.pane, &command(ControlCommand::Clear)),
        Outcome::Delivered {
            door: Door::Keys,
            verified: true
        }
    );
    assert_eq!(
        agent.submitted(),
        [whole("t-0001", "# hello"), "/clear".to_owned()]
    );
}

#[test]
fn shell_mode_of_the_input_is_never_typed_into() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    tmux.keys(&agent.pane, "!");
    wait("shell mode", || tmux.screen(&agent.pane).contains("!\u{a0}"));
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# rm -rf x"))),
        Why::Draft
    );
    assert_eq!(agent.bytes(), b"!");
}

#[test]
fn an_open_dialog_gets_neither_text_nor_enter() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    agent.tell("dialog on");
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::Dialog
    );
    assert_eq!(
        held(&panes.deliver(&agent.pane, &command(ControlCommand::Clear))),
        Why::Dialog
    );
    moment();
    assert_eq!(agent.bytes(), b"");
    assert!(agent.to_dialog().is_empty());
    agent.tell("dialog off");
    assert_eq!(panes.deliver(&agent.pane, &text("t-0001", "# hello")), PASTED);
}

#[test]
fn a_dialog_that_opens_after_the_paste_is_not_answered() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    agent.tell("slow on");
    let outcome = std::thread::scope(|scope| {
        let delivering = scope.spawn(|| panes.deliver(&agent.pane, &text("t-0001", "# hello")));
        wait("the paste", || !agent.bytes().is_empty());
        agent.tell("dialog on");
        agent.tell("slow off");
        delivering.join().unwrap()
    });
    let Outcome::Unknown {
        door: Door::Paste,
        reason,
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert!(
        reason.contains("Enter was not pressed") && reason.contains("question"),
        "{reason}"
    );
    assert!(agent.to_dialog().is_empty(), "{:?}", agent.to_dialog());
    assert!(agent.submitted().is_empty());
}

#[test]
fn words_a_person_adds_after_the_paste_are_not_sent_with_it() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    agent.tell("slow on");
    let outcome = std::thread::scope(|scope| {
        let delivering = scope.spawn(|| panes.deliver(&agent.pane, &text("t-0001", "# hello")));
        wait("the paste", || !agent.bytes().is_empty());
        tmux.keys(&agent.pane, "but wait");
        wait("the words", || tmux.screen(&agent.pane).contains("but wait"));
        agent.tell("slow off");
        delivering.join().unwrap()
    });
    assert!(
        matches!(&outcome, Outcome::Unknown { reason, .. } if reason.contains("something else")),
        "{outcome:?}"
    );
    assert!(agent.submitted().is_empty());
}

#[test]
fn an_enter_that_is_swallowed_is_not_called_delivered_and_not_pressed_again() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    agent.tell("swallow on");
    let outcome = panes.deliver(&agent.pane, &text("t-0001", "# hello"));
    assert!(
        matches!(&outcome, Outcome::Unknown { reason, .. } if reason.contains("still stands")),
        "{outcome:?}"
    );
    assert_eq!(
        agent.bytes().iter().filter(|byte| **byte == b'\r').count(),
        2,
        "one line break and one Enter"
    );
    // What stands there now is a draft like any other: nothing is glued to it.
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0002", "# next"))),
        Why::Draft
    );
    assert!(agent.submitted().is_empty());
}

#[test]
fn a_busy_agent_is_left_alone_and_gets_the_text_afterwards() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    agent.tell("busy on");
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::Busy
    );
    assert_eq!(agent.bytes(), b"");
    agent.tell("busy off");
    assert_eq!(panes.deliver(&agent.pane, &text("t-0001", "# hello")), PASTED);
}

// spec: CMD-040
#[test]
fn a_screen_that_is_not_known_is_never_typed_into() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    agent.tell("odd on");
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::UnknownScreen
    );
    let cat = tmux.start("cat", &[], &["cat"]);
    assert_eq!(
        held(&panes.deliver(&cat, &text("t-0001", "# hello"))),
        Why::UnknownScreen
    );
    moment();
    assert_eq!(agent.bytes(), b"");
    assert_eq!(tmux.screen(&cat), "");
}

// spec: PUSH-049
#[test]
fn a_shell_in_front_gets_nothing_and_the_agent_gets_it_when_it_is_back() {
    let tmux = Tmux::new();
    let mut shells = Vec::new();
    for shell in [&["bash", "--norc"][..], &["sh"][..]] {
        shells.push(tmux.start(shell[0], &[("PS1", "$ ")], shell));
    }
    let panes = tmux.panes();
    for pane in &shells {
        wait("the prompt", || !tmux.screen(pane).is_empty());
        let prompt = tmux.screen(pane);
        assert_eq!(
            held(&panes.deliver(pane, &text("t-0001", "# touch x"))),
            Why::Shell
        );
        assert_eq!(
            held(&panes.deliver(pane, &command(ControlCommand::Clear))),
            Why::Shell
        );
        assert_eq!(tmux.screen(pane), prompt, "nothing was typed");
    }
    // The agent starts in the very pane, below that shell.
    let pane = &shells[0];
    let folder = tmux.path("below");
    std::fs::create_dir_all(&folder).unwrap();
    let words = part("program::an_agent_of_these_tests_plays_its_part").join("' '");
    tmux.keys(
        pane,
        &format!("MUSTER_TEST_AGENT='{}' '{words}'", folder.display()),
    );
    tmux.run(&["send-keys", "-t", pane, "Enter"]);
    wait("the agent", || tmux.screen(pane).contains("manual mode"));
    assert_eq!(panes.deliver(pane, &text("t-0001", "# touch x")), PASTED);
}

#[test]
fn an_agent_that_a_script_started_is_in_front_and_not_the_scripts_shell() {
    let tmux = Tmux::new();
    let script = tmux.path("start.sh");
    std::fs::write(&script, "\"$@\"\nexec sh\n").unwrap();
    let agent = Agent::with(&tmux, "agent", &["sh", &script.display().to_string()]);
    let panes = tmux.panes();
    assert_eq!(panes.deliver(&agent.pane, &text("t-0001", "# hello")), PASTED);
    agent_ends(&tmux, &agent);
    wait("the shell", || !tmux.screen(&agent.pane).contains("manual mode"));
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0002", "# hello"))),
        Why::Shell
    );
}

fn agent_ends(tmux: &Tmux, agent: &Agent) {
    let control = tmux.path("agent").join("control");
    use std::io::Write as _;
    let mut stream = std::os::unix::net::UnixStream::connect(control).unwrap();
    writeln!(stream, "end").unwrap();
    let _ = agent;
}

#[test]
fn a_pane_in_copy_mode_gets_nothing_until_it_has_left_it() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    tmux.run(&["copy-mode", "-t", &agent.pane]);
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::CopyMode
    );
    moment();
    assert_eq!(agent.bytes(), b"");
    tmux.run(&["send-keys", "-t", &agent.pane, "-X", "cancel"]);
    assert_eq!(panes.deliver(&agent.pane, &text("t-0001", "# hello")), PASTED);
}

#[test]
fn copy_mode_between_paste_and_enter_is_waited_out() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    agent.tell("slow on");
    let outcome = std::thread::scope(|scope| {
        let delivering = scope.spawn(|| panes.deliver(&agent.pane, &text("t-0001", "# hello")));
        wait("the paste", || !agent.bytes().is_empty());
        tmux.run(&["copy-mode", "-t", &agent.pane]);
        agent.tell("slow off");
        std::thread::sleep(std::time::Duration::from_millis(400));
        assert!(agent.submitted().is_empty());
        tmux.run(&["send-keys", "-t", &agent.pane, "-X", "cancel"]);
        delivering.join().unwrap()
    });
    assert_eq!(outcome, PASTED);
    assert_eq!(agent.submitted(), [whole("t-0001", "# hello")]);
}

#[test]
fn a_dead_pane_gets_nothing_and_the_server_lives_on() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    tmux.run(&["set-option", "-w", "-t", &agent.pane, "remain-on-exit", "on"]);
    agent_ends(&tmux, &agent);
    wait("the end", || {
        tmux.run(&["display-message", "-p", "-t", &agent.pane, "#{pane_dead}"]) == "1"
    });
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::DeadPane
    );
    assert_eq!(
        held(&panes.deliver(&agent.pane, &command(ControlCommand::Clear))),
        Why::DeadPane
    );
    assert_eq!(tmux.run(&["list-sessions", "-F", "#{session_name}"]), "agent");
}

#[test]
fn a_pane_without_input_and_synchronized_panes_get_nothing() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    tmux.run(&["select-pane", "-d", "-t", &agent.pane]);
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::InputOff
    );
    tmux.run(&["select-pane", "-e", "-t", &agent.pane]);
    let other = tmux.run(&[
        "split-window",
        "-d",
        "-P",
        "-F",
        "#{pane_id}",
        "-t",
        &agent.pane,
        "cat",
    ]);
    tmux.run(&["resize-pane", "-y", "26", "-t", &agent.pane]);
    tmux.run(&["set-option", "-w", "-t", &agent.pane, "synchronize-panes", "on"]);
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::Synchronized
    );
    moment();
    assert_eq!(agent.bytes(), b"");
    assert_eq!(tmux.screen(&other), "");
}

// spec: TOOL-024
#[test]
fn a_pane_that_is_gone_is_gone_in_every_answer() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    assert_eq!(panes.probe(&agent.pane), Probe::Found);
    assert!(
        panes
            .read(&agent.pane, 10, false)
            .unwrap()
            .text
            .contains("manual mode")
    );
    let other = tmux.start("other", &[], &["cat"]);
    tmux.run(&["kill-pane", "-t", &agent.pane]);
    assert!(matches!(panes.probe(&agent.pane), Probe::Gone { .. }));
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::PaneGone
    );
    assert!(panes.read(&agent.pane, 10, false).is_err());
    for target in [
        "%99999",
        "agent",
        "",
        "%",
        "%1x",
        "=agent",
        "{last}",
        "%1;kill-server",
    ] {
        assert!(matches!(panes.probe(target), Probe::Gone { .. }), "{target}");
        assert_eq!(
            held(&panes.deliver(target, &text("t-0001", "# hello"))),
            Why::PaneGone,
            "{target}"
        );
    }
    assert_eq!(panes.probe(&other), Probe::Found);
}

#[test]
fn the_same_number_in_a_new_server_is_another_pane() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    let panes = tmux.panes();
    assert_eq!(panes.resolve("agent"), Ok(agent.pane.clone()));
    tmux.run(&["kill-server"]);
    wait("the end of the server", || {
        matches!(panes.probe(&agent.pane), Probe::Gone { .. })
    });
    let again = Agent::new(&tmux, "again");
    assert_eq!(again.pane, agent.pane);
    assert!(matches!(panes.probe(&again.pane), Probe::Gone { .. }));
    assert_eq!(
        held(&panes.deliver(&again.pane, &text("t-0001", "# hello"))),
        Why::PaneGone
    );
    assert_eq!(again.bytes(), b"");
}

#[test]
fn a_person_who_is_typing_is_not_interrupted() {
    let tmux = Tmux::new();
    let agent = Agent::new(&tmux, "agent");
    tmux.run(&["set-option", "-g", "status", "off"]);
    // A person's terminal: a second server whose only program is a client of the first.
    let outer = Tmux::new();
    let client = outer.start(
        "person",
        &[("TMUX", "")],
        &["tmux", "-L", &tmux.name, "attach", "-t", "=agent"],
    );
    wait("the client", || !tmux.run(&["list-clients"]).is_empty());
    let mut settings = quick();
    settings.pause = std::time::Duration::from_secs(2);
    let panes = muster_mirror::TmuxPanes::new(muster_mirror::Server::Named(tmux.name.clone()), settings);
    outer.keys(&client, "x");
    wait("the key", || !agent.bytes().is_empty());
    tmux.run(&["send-keys", "-t", &agent.pane, "C-u"]);
    assert_eq!(
        held(&panes.deliver(&agent.pane, &text("t-0001", "# hello"))),
        Why::SomeoneTyping
    );
    std::thread::sleep(std::time::Duration::from_millis(3100));
    assert_eq!(panes.deliver(&agent.pane, &text("t-0001", "# hello")), PASTED);
    assert_eq!(agent.submitted(), [whole("t-0001", "# hello")]);
}

#[test]
fn names_of_panes_are_taken_to_the_letter() {
    let tmux = Tmux::new();
    let first = tmux.start("resume-abcdef", &[], &["cat"]);
    let panes = tmux.panes();
    assert!(panes.resolve("resume-abc").is_err(), "a name is no prefix");
    assert_eq!(panes.resolve("resume-abcdef"), Ok(first.clone()));
    assert_eq!(panes.resolve("resume-abcdef:0"), Ok(first.clone()));
    assert_eq!(panes.resolve("resume-abcdef:0.0"), Ok(first.clone()));
    let second = tmux.run(&["split-window", "-P", "-F", "#{pane_id}", "-t", &first, "cat"]);
    assert_eq!(
        panes.resolve("resume-abcdef:0.0"),
        Ok(first),
        "not the one in front"
    );
    assert_eq!(panes.resolve("resume-abcdef:0.1"), Ok(second));
    assert!(panes.resolve("resume-abcdef:0.2").is_err());
}
