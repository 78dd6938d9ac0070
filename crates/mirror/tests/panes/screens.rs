//! Screens recorded from the real Claude Code, Codex and Gemini CLI, and what they are taken for. The first line of each file is where the cursor stood.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use muster_bus::push::Why;
use muster_mirror::composer::{self, Filling, Input, Look, Program};
use muster_mirror::guard::{Pane, Seen, Status, Verdict, judge};
use muster_mirror::screen::{Ghost, Ink, Screen};
use proptest::prelude::*;

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/screens"))
}

fn recorded(name: &str) -> (Screen, (usize, usize)) {
    let bytes = fs::read(folder().join(format!("{name}.txt"))).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut words = head
        .strip_prefix("cursor ")
        .unwrap()
        .split(' ')
        .map(|word| word.parse().unwrap());
    let cursor = (words.next().unwrap(), words.next().unwrap());
    (Screen::parse(&bytes[end + 1..]), cursor)
}

fn judged(name: &str, ghost: &Ghost, claude: Option<&Status>) -> Verdict {
    let (screen, cursor) = recorded(name);
    let pane = Pane {
        cursor: Some(cursor),
        ..Pane::default()
    };
    judge(&Seen {
        pane: Some(&pane),
        screen: Some(&screen),
        claude,
        ghost,
        pause: Duration::ZERO,
    })
}

fn input(name: &str) -> Input {
    let (screen, cursor) = recorded(name);
    match composer::look(&screen, Some(cursor)) {
        Look::Input(input) => input,
        other => panic!("{name}: {other:?}"),
    }
}

/// Each recorded screen, and the reason for which it is not typed into; none where it is.
const TABLE: &[(&str, Option<Why>)] = &[
    ("claude-idle", None),
    ("claude-after-turn", None),
    ("claude-ghost", None),
    ("claude-accept-edits", None),
    ("claude-plan", None),
    ("claude-compacted", None),
    ("claude-cleared", None),
    ("claude-narrow", None),
    ("claude-permission-refused", None),
    // Its keys are vim's. A text is pasted as it is in NORMAL, of which it shows nothing.
    ("claude-vim-insert", None),
    ("claude-vim-normal", None),
    ("claude-vim-visual", Some(Why::InputOff)),
    ("claude-vim-insert-draft", Some(Why::Draft)),
    ("claude-vim-normal-draft", Some(Why::Draft)),
    ("claude-vim-visual-draft", Some(Why::Draft)),
    ("claude-draft", Some(Why::Draft)),
    ("claude-draft-cursor-first", Some(Why::Draft)),
    ("claude-draft-wrapped", Some(Why::Draft)),
    ("claude-narrow-draft", Some(Why::Draft)),
    ("claude-after-esc", Some(Why::Draft)),
    ("claude-ghost-typed", Some(Why::Draft)),
    ("claude-shell-empty", Some(Why::Draft)),
    ("claude-shell", Some(Why::Draft)),
    ("claude-pasted-line", Some(Why::Draft)),
    ("claude-pasted-two", Some(Why::Draft)),
    ("claude-pasted-collapsed", Some(Why::Draft)),
    ("claude-slash-menu", Some(Why::Draft)),
    ("claude-slash-comp", Some(Why::Draft)),
    ("claude-slash-compact", Some(Why::Draft)),
    ("claude-slash-clear", Some(Why::Draft)),
    ("claude-at-menu", Some(Why::Draft)),
    ("claude-busy", Some(Why::Busy)),
    ("claude-busy-queued", Some(Why::Busy)),
    ("claude-busy-draft", Some(Why::Draft)),
    ("claude-permission", Some(Why::Dialog)),
    ("claude-trust", Some(Why::Dialog)),
    ("claude-history-search", Some(Why::Dialog)),
    ("claude-model-menu", Some(Why::Dialog)),
    ("claude-resume-menu", Some(Why::Dialog)),
    ("claude-rewind", Some(Why::Dialog)),
    // It has the very box of the prompt and would start another session.
    ("claude-agents", Some(Why::UnknownScreen)),
    ("claude-transcript", Some(Why::UnknownScreen)),
    ("claude-help", Some(Why::UnknownScreen)),
    ("codex-idle", None),
    ("codex-after", None),
    ("codex-draft", Some(Why::Draft)),
    ("codex-shell", Some(Why::Draft)),
    ("codex-slash-clear", Some(Why::Draft)),
    ("codex-slash-compact", Some(Why::Draft)),
    ("codex-pasted-short", Some(Why::Draft)),
    ("codex-pasted-long", Some(Why::Draft)),
    ("codex-busy", Some(Why::Busy)),
    ("codex-busy-draft", Some(Why::Draft)),
    ("codex-menu", Some(Why::Dialog)),
    ("codex-permission", Some(Why::Dialog)),
    ("gemini-idle", None),
    ("gemini-after", None),
    ("gemini-draft", Some(Why::Draft)),
    ("gemini-edged", Some(Why::Draft)),
    ("gemini-shell", Some(Why::Draft)),
    ("gemini-slash-clear", Some(Why::Draft)),
    ("gemini-slash-compact", Some(Why::Draft)),
    ("gemini-pasted-short", Some(Why::Draft)),
    ("gemini-pasted-long", Some(Why::Draft)),
    ("gemini-busy", Some(Why::Busy)),
    ("gemini-busy-draft", Some(Why::Draft)),
    ("gemini-permission", Some(Why::Dialog)),
];

// spec: CMD-035 CMD-037 CMD-040 CMD-041
#[test]
fn every_recorded_screen_is_taken_for_what_it_is() {
    let mut wrong = Vec::new();
    for (name, expected) in TABLE {
        let why = match judged(name, &Ghost::default(), None) {
            Verdict::Paste(_) => None,
            Verdict::Hold(hold) => Some(hold.why),
        };
        if why != *expected {
            wrong.push(format!("{name}: {why:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let files = fs::read_dir(folder()).unwrap().count();
    assert_eq!(files, TABLE.len(), "each file is in the table");
}

#[test]
fn the_three_programs_are_told_apart() {
    assert_eq!(input("claude-idle").program, Program::ClaudeCode);
    assert_eq!(input("codex-idle").program, Program::Codex);
    assert_eq!(input("gemini-idle").program, Program::GeminiCli);
}

#[test]
fn what_a_session_says_of_itself_outweighs_an_idle_screen() {
    let why = |status| match judged("claude-idle", &Ghost::default(), Some(&status)) {
        Verdict::Paste(_) => None,
        Verdict::Hold(hold) => Some(hold.why),
    };
    assert_eq!(why(Status::Idle), None);
    assert_eq!(why(Status::Busy), Some(Why::Busy));
    assert_eq!(
        why(Status::Waiting("permission prompt".to_owned())),
        Some(Why::Dialog)
    );
    assert_eq!(why(Status::Other("parked".to_owned())), Some(Why::UnknownScreen));
}

/// A screen of Claude Code whose input holds this.
fn with_input(content: &str) -> Screen {
    let rule = "─".repeat(60);
    Screen::parse(format!("{rule}\n❯\u{a0}{content}\x1b[0m\n{rule}\n  ⏸ manual mode on\n").as_bytes())
}

fn filling(content: &str, ghost: &Ghost) -> Filling {
    match composer::look(&with_input(content), Some((2, 1))) {
        Look::Input(input) => input.filling(ghost),
        other => panic!("{content:?}: {other:?}"),
    }
}

// spec: CMD-037 CMD-038
#[test]
fn only_what_is_dim_throughout_is_a_suggestion() {
    let dim = Ghost::default();
    let table = [
        ("\x1b[7m \x1b[0m", Filling::Empty),
        ("", Filling::Empty),
        ("\x1b[7mr\x1b[0;2mun the tests", Filling::Suggestion),
        ("\x1b[2mrun the tests", Filling::Suggestion),
        ("\x1b[7mr\x1b[0;2mun the\x1b[0m tests", Filling::Draft),
        ("run\x1b[2m the tests", Filling::Draft),
        ("\x1b[2mrun the tests\x1b[0m!", Filling::Draft),
        ("\x1b[7mr\x1b[0mun the tests", Filling::Draft),
        // One letter under the cursor may be a suggestion or a draft.
        ("\x1b[7my\x1b[0m", Filling::Draft),
        // Grey is not dim.
        ("\x1b[38;5;246mrun the tests", Filling::Draft),
        ("run the tests", Filling::Draft),
    ];
    for (content, expected) in table {
        assert_eq!(filling(content, &dim), expected, "{content:?}");
    }
}

// spec: CMD-039
#[test]
fn another_styling_of_suggestions_can_be_set() {
    let settings = |value: &'static str| {
        muster_mirror::Settings::from_env(move |name| {
            (name == "AGENT_COORD_GHOST_TEXT_SGR").then(|| value.to_owned())
        })
    };
    let table = [
        ("38;5;246", "\x1b[38;5;246mrun the tests", "\x1b[2mrun the tests"),
        ("3", "\x1b[3mrun the tests", "\x1b[2mrun the tests"),
        ("90", "\x1b[90mrun the tests", "\x1b[38;5;246mrun the tests"),
        ("2;3", "\x1b[2;3mrun the tests", "\x1b[2mrun the tests"),
        (
            "38;2;1;2;3",
            "\x1b[38;2;1;2;3mrun the tests",
            "\x1b[38;2;3;2;1mrun the tests",
        ),
    ];
    for (value, suggestion, draft) in table {
        let ghost = settings(value).unwrap().ghost;
        assert_eq!(filling(suggestion, &ghost), Filling::Suggestion, "{value}");
        assert_eq!(filling(draft, &ghost), Filling::Draft, "{value}");
    }
    for value in ["dim", "0", "2m", "\x1b[2m", "999", ";", "2 3"] {
        let refused = settings(value).unwrap_err();
        assert!(
            refused.contains("AGENT_COORD_GHOST_TEXT_SGR") && !refused.contains('\x1b'),
            "{refused}"
        );
    }
    assert_eq!(settings("").unwrap().ghost, Ghost::default());
}

// spec: CMD-036
#[test]
fn the_refusal_quotes_the_styled_line_and_is_harmless() {
    for name in ["claude-draft", "claude-shell", "codex-draft", "gemini-draft"] {
        let Verdict::Hold(hold) = judged(name, &Ghost::default(), None) else {
            panic!()
        };
        assert!(hold.detail.contains("\\u{1b}["), "{}", hold.detail);
        assert!(
            hold.detail.chars().all(|char| !char.is_control()),
            "{}",
            hold.detail
        );
        let words = if name == "claude-shell" {
            "ls -l"
        } else {
            "half a thought"
        };
        assert!(hold.detail.contains(words), "{}", hold.detail);
    }
}

#[test]
fn every_mode_of_vims_keys_but_insert_holds_whatever_it_is_called() {
    let (rule, ghost) = ("─".repeat(60), Ghost::default());
    let why = |footer: &str| {
        let screen = Screen::parse(format!("{rule}\n❯\u{a0}\n{rule}\n  {footer}\n").as_bytes());
        let seen = Seen {
            pane: Some(&Pane::default()),
            screen: Some(&screen),
            claude: None,
            ghost: &ghost,
            pause: Duration::ZERO,
        };
        match judge(&seen) {
            Verdict::Paste(_) => None,
            Verdict::Hold(hold) => Some((hold.why, hold.detail)),
        }
    };
    for footer in [
        "-- INSERT --",
        "-- INSERT -- ⏸ manual mode on",
        "⏸ manual mode on",
    ] {
        assert_eq!(why(footer), None, "{footer}");
    }
    for mode in ["NORMAL", "VISUAL", "VISUAL LINE", "REPLACE"] {
        for footer in [format!("-- {mode} --"), format!("-- {mode} -- ⏸ manual mode on")] {
            let (why, words) = why(&footer).unwrap();
            assert_eq!(why, Why::InputOff, "{footer}");
            assert!(words.contains(mode), "{words}");
        }
    }
    // What only looks like one is none.
    assert_eq!(why("⏸ manual mode on · -- not a mode --"), None);
}

#[test]
fn facts_of_the_pane_come_before_its_screen_in_a_fixed_order() {
    let (screen, cursor) = recorded("claude-permission");
    let mut pane = Pane {
        dead: true,
        input_off: true,
        in_mode: true,
        synchronized: true,
        shell: Some("bash".to_owned()),
        deaf: false,
        typed: Some(Duration::ZERO),
        cursor: Some(cursor),
    };
    let why = |pane: Option<&Pane>| {
        let seen = Seen {
            pane,
            screen: Some(&screen),
            claude: Some(&Status::Busy),
            ghost: &Ghost::default(),
            pause: Duration::from_secs(1),
        };
        match judge(&seen) {
            Verdict::Hold(hold) => hold.why,
            Verdict::Paste(_) => panic!(),
        }
    };
    assert_eq!(why(None), Why::PaneGone);
    assert_eq!(why(Some(&pane)), Why::DeadPane);
    pane.dead = false;
    assert_eq!(why(Some(&pane)), Why::InputOff);
    pane.input_off = false;
    assert_eq!(why(Some(&pane)), Why::CopyMode);
    pane.in_mode = false;
    assert_eq!(why(Some(&pane)), Why::Synchronized);
    pane.synchronized = false;
    assert_eq!(why(Some(&pane)), Why::Shell);
    pane.shell = None;
    assert_eq!(why(Some(&pane)), Why::SomeoneTyping);
    pane.typed = Some(Duration::from_secs(2));
    assert_eq!(why(Some(&pane)), Why::Dialog);
}

#[test]
fn a_screen_that_cannot_be_read_or_a_cursor_elsewhere_is_unknown() {
    let (screen, _) = recorded("claude-idle");
    let ghost = Ghost::default();
    for (screen, cursor) in [
        (None, None),
        (Some(&screen), Some((0, 0))),
        (Some(&screen), Some((2, 29))),
    ] {
        let pane = Pane {
            cursor,
            ..Pane::default()
        };
        let seen = Seen {
            pane: Some(&pane),
            screen,
            claude: None,
            ghost: &ghost,
            pause: Duration::ZERO,
        };
        let Verdict::Hold(hold) = judge(&seen) else {
            panic!("{cursor:?}")
        };
        assert_eq!(hold.why, Why::UnknownScreen);
    }
}

#[test]
fn what_was_pasted_is_found_again_and_nothing_else_is_taken_for_it() {
    let six = "[agent-coord] one\n# two\n# three\n# four\n# five\n# six";
    let long = format!(
        "[agent-coord] one\n{}",
        (0..40)
            .map(|line| format!("# line {line} of a long one that goes on"))
            .collect::<Vec<_>>()
            .join("\n")
    );
    let three = "[agent-coord] one\n# two\n# three";
    let table = [
        ("claude-pasted-line", "one line pasted"),
        ("claude-pasted-two", "alpha\nbeta"),
        ("claude-pasted-collapsed", six),
        ("codex-pasted-short", three),
        ("codex-pasted-long", &long),
        ("gemini-pasted-short", three),
        ("gemini-pasted-long", &long),
        (
            "gemini-edged",
            "[agent-coord] message t-0001\n# one\n# two\n/clear\n! touch x",
        ),
    ];
    for (name, text) in table {
        assert!(input(name).holds(text), "{name}: {:?}", input(name).text());
        assert!(input(name).shows(text), "{name}");
        assert!(!input(name).holds(&format!("{text}\n# and more")), "{name}");
        assert!(!input(name).holds("something else"), "{name}");
        assert!(!input(name).holds(""), "{name}");
    }
    assert!(!input("claude-draft").holds("thought") && !input("claude-draft").holds("half a thought more"));
    assert!(input("claude-draft").holds("half a thought"));
    assert!(!input("claude-idle").holds("half a thought") && !input("claude-idle").shows("half a thought"));
    assert!(!input("claude-shell").holds("ls -l"), "a shell would run it");
}

#[test]
fn the_marked_command_of_an_open_list_is_known() {
    let chosen = |name| input(name).chosen.map(|(_, command)| command);
    assert_eq!(chosen("claude-slash-clear").as_deref(), Some("/clear"));
    assert_eq!(chosen("claude-slash-compact").as_deref(), Some("/compact"));
    assert_eq!(chosen("codex-slash-clear").as_deref(), Some("/clear"));
    assert_eq!(chosen("claude-cleared"), None, "what was said before is no list");
    assert_eq!(chosen("claude-idle"), None);
}

#[test]
fn sgr_is_read_in_every_spelling() {
    let style = |text: &str| Screen::parse(format!("{text}x").as_bytes()).rows[0].cells[0].style;
    assert!(style("\x1b[2m").dim && !style("\x1b[2;22m").dim && !style("\x1b[2m\x1b[m").dim);
    assert!(style("\x1b[1;7m").bold && style("\x1b[1;7m").reverse && !style("\x1b[7;27m").reverse);
    assert_eq!(style("\x1b[38;5;2m").ink, Ink::Indexed(2));
    assert!(!style("\x1b[38;5;2m").dim && !style("\x1b[38;2;2;2;2m").dim && !style("\x1b[48:5:2m").dim);
    assert_eq!(style("\x1b[38:2::1:2:3m").ink, Ink::Rgb(1, 2, 3));
    assert_eq!(style("\x1b[38:5:9;2m").ink, Ink::Indexed(9));
    assert_eq!(style("\x1b[95m").ink, Ink::Indexed(13));
    assert!(!style("\x1b[4:0m").underline && style("\x1b[4:3m").underline);
    let text = |bytes: &[u8]| Screen::parse(bytes).rows[0].text();
    assert_eq!(
        text(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\ \x0elq\x0f\x1b(B\x1b[2Jend  "),
        "link lqend"
    );
    assert_eq!(text(b"a\xff\xfe\x00\x9bb"), "a\u{fffd}\u{fffd}\u{fffd}b");
}

proptest! {
    #[test]
    fn any_bytes_make_a_screen_and_a_judgement(bytes in proptest::collection::vec(any::<u8>(), 0..2000), cursor in (0usize..100, 0usize..40)) {
        let screen = Screen::parse(&bytes);
        let cells = screen.rows.iter().flat_map(|row| &row.cells);
        prop_assert!(cells.into_iter().all(|cell| !cell.char.is_control()));
        let _ = composer::look(&screen, Some(cursor));
        if let Look::Input(input) = composer::look(&screen, None) {
            let _ = (input.filling(&Ghost::default()), input.holds("x"), input.shows("x"));
        }
    }

    #[test]
    fn whatever_stands_in_the_input_undimmed_is_a_draft(words in "[ -~]{0,40}[!-~][ -~]{0,40}", dim in "[ -~]{0,20}") {
        prop_assert_eq!(filling(&format!("{words}\x1b[2m{dim}"), &Ghost::default()), Filling::Draft);
    }

    #[test]
    fn a_style_is_read_as_it_is_written(codes in proptest::collection::vec(0u8..110, 0..8)) {
        let codes: Vec<String> = codes.iter().map(u8::to_string).collect();
        let style = |text: &str| Screen::parse(format!("{text}x").as_bytes()).rows[0].cells[0].style;
        let style1 = style(&format!("\x1b[{}m", codes.join(";")));
        prop_assert_eq!(style(&format!("\x1b[31;1;4m{}", style1.sgr())), style1);
    }
}
