//! Deliveries to the real Claude Code.

use muster_bus::push::{ControlCommand, Door, Outcome, Transport as _, Why};
use muster_mirror::{Server, Settings, TmuxPanes};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use super::real::{Claude, How};
use crate::program::moment;
use crate::support::{PASTED, Tmux, command, held, holds, insist, text, wait};

const SOCKET: Outcome = Outcome::Delivered {
    door: Door::ClaudeSocket,
    verified: true,
};
const KEYS: Outcome = Outcome::Delivered {
    door: Door::Keys,
    verified: true,
};

fn by_paste(tmux: &Tmux) -> TmuxPanes {
    let settings = Settings {
        sockets: false,
        ..Settings::default()
    };
    TmuxPanes::new(Server::Named(tmux.name.clone()), settings)
}

fn usual(tmux: &Tmux) -> TmuxPanes {
    TmuxPanes::new(Server::Named(tmux.name.clone()), Settings::default())
}

#[test]
fn a_text_goes_through_the_inbox_socket_and_is_seen_in_the_transcript() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    let panes = usual(&tmux);
    claude.types("half a thought");
    assert_eq!(
        insist(&panes, &claude.pane, &text("t-0001", "# by the socket")),
        SOCKET
    );
    assert!(claude.is_asked("t-0001"));
    claude.idle();
    assert!(claude.shows("half a thought"), "the draft stands where it stood");
    assert_eq!(
        insist(
            &panes,
            &claude.pane,
            &text("t-0002", "# by the socket\n! touch x\n/clear\n@/etc/hostname")
        ),
        SOCKET
    );
    assert!(claude.is_asked("t-0002"));
}

// spec: PUSH-047 PUSH-051
#[test]
fn without_the_socket_a_text_is_pasted_and_is_one_prompt() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    let panes = by_paste(&tmux);
    let body: String = (0..200).map(|line| format!("# line {line} of many\n")).collect();
    for (token, body) in [
        ("t-0001", "# hello"),
        ("t-0002", "# one\n# two\n# three"),
        ("t-0003", body.trim_end()),
    ] {
        assert_eq!(
            insist(&panes, &claude.pane, &text(token, body)),
            PASTED,
            "{}",
            tmux.screen(&claude.pane)
        );
        assert!(claude.is_asked(token), "{token}");
    }
    assert_eq!(claude.asked().len(), 3, "each text is one prompt");
    assert!(claude.is_asked("# line 199 of many"));
    // Nothing inside a text acts, not even at the beginning of a line.
    claude.idle();
    let (touched, before) = (
        tmux.path("touched"),
        claude.session().unwrap()["sessionId"].clone(),
    );
    let body = format!("\n/clear\n! touch {}\n/exit", touched.display());
    assert_eq!(insist(&panes, &claude.pane, &text("t-0004", &body)), PASTED);
    assert!(
        claude.is_asked("/clear") && claude.is_asked("t-0001"),
        "it still knows what came before"
    );
    claude.idle();
    assert_eq!(claude.session().unwrap()["sessionId"], before);
    assert!(!touched.exists());
}

// spec: CMD-005
#[test]
fn commands_are_typed_and_run() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    let panes = usual(&tmux);
    assert_eq!(
        insist(&panes, &claude.pane, &text("t-0001", "# remember this")),
        SOCKET
    );
    claude.idle();
    let before = claude.session().unwrap()["sessionId"].clone();
    assert_eq!(
        insist(&panes, &claude.pane, &command(ControlCommand::Compact)),
        KEYS
    );
    wait("the compaction", || claude.shows("Compacted"));
    assert_eq!(
        insist(&panes, &claude.pane, &command(ControlCommand::ReloadSkills)),
        KEYS
    );
    wait("the skills", || claude.shows("Reloaded skills"));
    assert_eq!(
        insist(&panes, &claude.pane, &command(ControlCommand::Clear)),
        KEYS
    );
    wait("a new session", || {
        claude.session().unwrap()["sessionId"] != before
    });
    // What comes next reaches the new session.
    assert_eq!(
        insist(&panes, &claude.pane, &text("t-0002", "# afterwards")),
        SOCKET
    );
    assert!(claude.is_asked("t-0002") && !claude.asked().last().unwrap().contains("t-0001"));
}

#[test]
fn a_permission_dialog_is_not_answered() {
    let tmux = Tmux::new();
    let touched = tmux.path("touched");
    let steps = json!([
        {"tool": "Bash", "input": {"command": format!("touch {}", touched.display()), "description": "x"}},
        {"text": "done"}
    ]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    claude.types("do it");
    claude.key("Enter");
    claude.becomes("waiting");
    wait("the dialog", || claude.shows("Do you want to proceed?"));
    for panes in [usual(&tmux), by_paste(&tmux)] {
        holds(&panes, &claude.pane, &text("t-0001", "# hello"), Why::Dialog);
        holds(&panes, &claude.pane, &command(ControlCommand::Clear), Why::Dialog);
    }
    moment();
    assert!(claude.shows("Do you want to proceed?") && !touched.exists());
    claude.key("Escape");
    claude.becomes("idle");
    assert_eq!(
        insist(&by_paste(&tmux), &claude.pane, &text("t-0001", "# hello")),
        PASTED
    );
    assert!(!touched.exists());
}

#[test]
fn a_busy_session_is_left_alone_until_it_is_idle() {
    let tmux = Tmux::new();
    let go = tmux.path("go");
    let steps = json!([{"text": "done", "when": go.display().to_string()}, {"text": "and done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    claude.types("do it");
    claude.key("Enter");
    claude.becomes("busy");
    for panes in [usual(&tmux), by_paste(&tmux)] {
        assert_eq!(
            held(&panes.deliver(&claude.pane, &text("t-0001", "# hello"))),
            Why::Busy
        );
        assert_eq!(
            held(&panes.deliver(&claude.pane, &command(ControlCommand::Clear))),
            Why::Busy
        );
    }
    std::fs::write(&go, "").unwrap();
    claude.becomes("idle");
    assert_eq!(
        insist(&usual(&tmux), &claude.pane, &text("t-0001", "# hello")),
        SOCKET
    );
    assert!(claude.is_asked("t-0001"));
}

#[test]
fn drafts_shell_mode_and_menus_are_never_pasted_into() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    let panes = by_paste(&tmux);
    let both = [text("t-0001", "# hello"), command(ControlCommand::Clear)];
    for draft in ["half a thought", "!", "!ls", "/", "/clear", "@"] {
        tmux.keys(&claude.pane, draft);
        // The mark of shell mode takes the place of the prompt.
        let row = match draft.strip_prefix('!') {
            Some(rest) => format!("!\u{a0}{rest}"),
            None => format!("❯\u{a0}{draft}"),
        };
        wait(draft, || {
            tmux.screen(&claude.pane)
                .lines()
                .any(|line| line.trim_end_matches(' ') == row)
        });
        for what in &both {
            let why = held(&panes.deliver(&claude.pane, what));
            assert!(matches!(why, Why::Draft | Why::Dialog), "{draft}: {why:?}");
        }
        for _ in draft.chars() {
            claude.key("BSpace");
        }
    }
    wait("an empty input", || {
        insist(&panes, &claude.pane, &both[0]) == PASTED
    });
    assert!(claude.is_asked("t-0001"));
    assert_eq!(claude.asked().len(), 1);
}

// spec: CMD-037
#[test]
fn a_suggestion_is_not_sent() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "I looked at the files."}, {"text": "I looked again. Shall I run the tests?"}, {"text": "run the tests"}, {"text": "done"}]);
    let how = How {
        env: &[("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "true")],
        ..How::default()
    };
    let Some(claude) = Claude::with(&tmux, "claude", &steps, &how) else {
        return;
    };
    claude.idle();
    for words in ["look at it", "look again"] {
        claude.types(words);
        claude.key("Enter");
        wait("a turn", || claude.is_asked(words));
        claude.becomes("idle");
    }
    wait("the suggestion", || claude.shows("❯\u{a0}run the tests"));
    let panes = by_paste(&tmux);
    assert_eq!(insist(&panes, &claude.pane, &text("t-0001", "# hello")), PASTED);
    assert!(claude.is_asked("t-0001"));
    let prompts: Vec<String> = claude.asked();
    assert!(
        !prompts.last().unwrap().contains("\"run the tests\""),
        "{}",
        prompts.last().unwrap()
    );
}

#[test]
fn the_question_whether_a_folder_is_trusted_is_not_answered() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let how = How {
        strange: true,
        ..How::default()
    };
    let Some(claude) = Claude::with(&tmux, "claude", &steps, &how) else {
        return;
    };
    wait("the question", || claude.shows("Yes, I trust this folder"));
    for panes in [usual(&tmux), by_paste(&tmux)] {
        holds(&panes, &claude.pane, &text("t-0001", "# hello"), Why::Dialog);
        holds(&panes, &claude.pane, &command(ControlCommand::Clear), Why::Dialog);
    }
    moment();
    assert!(claude.shows("Yes, I trust this folder"));
}

#[test]
fn a_session_that_would_hold_messages_gets_them_pasted() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let how = How {
        words: &["--dangerously-skip-permissions"],
        env: &[("IS_SANDBOX", "1")],
        ..How::default()
    };
    let Some(claude) = Claude::with(&tmux, "claude", &steps, &how) else {
        return;
    };
    claude.idle();
    assert_eq!(
        insist(&usual(&tmux), &claude.pane, &text("t-0001", "# hello")),
        PASTED
    );
    assert!(claude.is_asked("t-0001"));
}

#[test]
fn two_processes_of_one_session_are_no_address() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    let panes = usual(&tmux);
    assert_eq!(insist(&panes, &claude.pane, &text("t-0001", "# hello")), SOCKET);
    claude.idle();
    // Another live process says that it runs the same session.
    let mut other = std::process::Command::new("sleep").arg("300").spawn().unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", other.id())).unwrap();
    let start = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_ascii_whitespace()
        .nth(19)
        .unwrap()
        .to_owned();
    let mut copy = claude.session().unwrap();
    copy["pid"] = other.id().into();
    copy["procStart"] = start.into();
    std::fs::write(
        claude.folder.join(format!("sessions/{}.json", other.id())),
        copy.to_string(),
    )
    .unwrap();
    assert_eq!(insist(&panes, &claude.pane, &text("t-0002", "# hello")), PASTED);
    let _ = other.kill();
    let _ = other.wait();
    assert!(claude.is_asked("t-0002"));
}

#[test]
fn with_vims_keys_a_text_is_pasted_in_every_mode_but_visual_and_a_command_is_typed_in_insert_only() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let how = How {
        vim: true,
        ..How::default()
    };
    let Some(claude) = Claude::with(&tmux, "claude", &steps, &how) else {
        return;
    };
    claude.idle();
    let panes = by_paste(&tmux);
    wait("INSERT", || claude.shows("-- INSERT --"));
    assert_eq!(
        insist(&panes, &claude.pane, &text("t-0001", "# in insert")),
        PASTED
    );
    assert!(claude.is_asked("t-0001"));
    claude.idle();
    claude.key("Escape");
    wait("NORMAL", || !claude.shows("-- INSERT --"));
    assert_eq!(
        insist(&panes, &claude.pane, &text("t-0002", "# in normal\n# dd")),
        PASTED
    );
    assert!(claude.is_asked("t-0002"));
    claude.idle();
    // The keys of a command would be vim's.
    claude.key("Escape");
    moment();
    let clear = command(ControlCommand::Clear);
    holds(&panes, &claude.pane, &clear, Why::InputOff);
    claude.key("v");
    wait("VISUAL", || claude.shows("-- VISUAL --"));
    for what in [&clear, &text("t-0003", "# in visual")] {
        holds(&panes, &claude.pane, what, Why::InputOff);
    }
    claude.key("Escape");
    wait("NORMAL", || !claude.shows("-- VISUAL --"));
    claude.key("i");
    wait("INSERT", || claude.shows("-- INSERT --"));
    let before = claude.session().unwrap()["sessionId"].clone();
    assert_eq!(insist(&panes, &claude.pane, &clear), KEYS);
    wait("a new session", || {
        claude.session().unwrap()["sessionId"] != before
    });
    assert!(!claude.is_asked("t-0003"));
}

#[test]
fn what_a_killed_claude_code_left_on_the_screen_below_its_wrapper_is_not_typed_into() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let how = How {
        below: &[
            "python3",
            "-c",
            "import subprocess, sys, time; subprocess.run(sys.argv[1:]); time.sleep(600)",
        ],
        ..How::default()
    };
    let Some(claude) = Claude::with(&tmux, "claude", &steps, &how) else {
        return;
    };
    claude.idle();
    let panes = by_paste(&tmux);
    assert_eq!(insist(&panes, &claude.pane, &text("t-0001", "# hello")), PASTED);
    assert!(claude.is_asked("t-0001"));
    claude.idle();
    // Of what is left the last that it drew is seen, so it has drawn that it is idle.
    moment();
    wait("an idle screen", || {
        !claude.shows("esc to interrupt") && !claude.shows("…")
    });
    let pid = claude.session().unwrap()["pid"].as_i64().unwrap();
    kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL).unwrap();
    wait("its end", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
    });
    assert!(claude.shows("manual mode on"), "its input still stands there");
    for (panes, who) in [
        (&panes, "one that saw it live"),
        (&by_paste(&tmux), "one that did not"),
    ] {
        let outcome = panes.deliver(&claude.pane, &text("t-0002", "# to nobody"));
        assert_eq!(held(&outcome), Why::UnknownScreen, "{who}");
    }
    // Another session may sweep the file; who saw it live still knows.
    std::fs::remove_file(claude.folder.join(format!("sessions/{pid}.json"))).unwrap();
    let outcome = panes.deliver(&claude.pane, &text("t-0002", "# to nobody"));
    assert_eq!(held(&outcome), Why::UnknownScreen);
    assert!(!claude.shows("t-0002"));
}
