//! The inbox socket of the real Claude Code: what is proven before it is written to, and what is said when nothing is seen of the text.

use std::os::unix::net::UnixListener;

use muster_bus::push::{Door, Outcome, Transport as _, Why};
use muster_mirror::{Server, Settings, TmuxPanes};
use serde_json::{Value, json};

use super::real::{Claude, How};
use crate::support::{PASTED, Tmux, held, insist, text, wait};

const SOCKET: Outcome = Outcome::Delivered {
    door: Door::ClaudeSocket,
    verified: true,
};

/// Patient, since a busy machine may take its time.
fn usual(tmux: &Tmux) -> TmuxPanes {
    waiting(tmux, 20)
}

fn waiting(tmux: &Tmux, seconds: u64) -> TmuxPanes {
    let settings = Settings {
        patience: std::time::Duration::from_secs(seconds),
        ..Settings::default()
    };
    TmuxPanes::new(Server::Named(tmux.name.clone()), settings)
}

/// Replaces what the session says of itself, as a damaged or forged file would. It has settled then: a status that it publishes between the
/// reading and the writing here would be lost for good.
fn claims(claude: &Claude<'_>, change: impl FnOnce(&mut Value)) {
    claude.settles();
    let mut session = claude.session().unwrap();
    let file = claude.folder.join(format!("sessions/{}.json", session["pid"]));
    change(&mut session);
    std::fs::write(file, session.to_string()).unwrap();
}

#[test]
fn texts_in_quick_succession_arrive_once_each_and_in_order() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    let panes = usual(&tmux);
    for number in 0..12 {
        let token = format!("t-{number:04}");
        assert_eq!(
            insist(&panes, &claude.pane, &text(&token, "# the same words each time")),
            SOCKET,
            "{token}"
        );
    }
    assert!(claude.is_asked("t-0011"));
    claude.idle();
    let last = claude.asked().pop().unwrap();
    let places: Vec<usize> = (0..12)
        .map(|number| last.find(&format!("t-{number:04}")).unwrap())
        .collect();
    assert!(places.is_sorted(), "{places:?}");
    for number in 0..12 {
        assert_eq!(last.matches(&format!("message t-{number:04}")).count(), 1);
    }
}

#[test]
fn a_socket_of_another_process_is_never_written_to() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    let panes = usual(&tmux);
    let path = tmux.path("other.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let heard = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut stream, &mut said).unwrap();
        said
    });
    claims(&claude, |session| {
        session["messagingSocketPath"] = path.display().to_string().into()
    });
    assert_eq!(insist(&panes, &claude.pane, &text("t-0001", "# hello")), PASTED);
    assert_eq!(heard.join().unwrap(), "");
    assert!(claude.is_asked("t-0001"));
}

#[test]
fn a_file_of_a_session_that_is_not_in_this_pane_is_not_believed() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    let panes = usual(&tmux);
    let lies: [(&str, Value); 3] = [
        ("tmux", json!("claude:@0.%77")),
        ("procStart", json!("1")),
        ("sessionId", json!("../../../../etc/passwd")),
    ];
    for (number, (name, value)) in lies.into_iter().enumerate() {
        claude.settles();
        let before = claude.session().unwrap();
        claims(&claude, |session| session[name] = value);
        let token = format!("t-{number:04}");
        assert_eq!(
            insist(&panes, &claude.pane, &text(&token, "# hello")),
            PASTED,
            "{name}"
        );
        assert!(claude.is_asked(&token), "{name}");
        claims(&claude, |session| session[name] = before[name].clone());
    }
}

#[test]
fn a_session_that_refuses_messages_is_pasted_into_after_the_first() {
    let tmux = Tmux::new();
    let steps = json!([{"text": "done"}]);
    let how = How {
        words: &["--settings", r#"{"crossSessionInbound": "refuse"}"#],
        ..How::default()
    };
    let Some(claude) = Claude::with(&tmux, "claude", &steps, &how) else {
        return;
    };
    claude.idle();
    let panes = waiting(&tmux, 3);
    let outcome = insist(&panes, &claude.pane, &text("t-0001", "# hello"));
    let Outcome::Unknown { door, reason } = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(door, Door::ClaudeSocket);
    assert!(reason.contains("transcript"), "{reason}");
    assert!(claude.asked().is_empty());
    assert_eq!(insist(&panes, &claude.pane, &text("t-0002", "# hello")), PASTED);
    assert!(claude.is_asked("t-0002"));
}

// A session stayed busy for ever after Escape: https://github.com/agent-of-empires/agent-of-empires/pull/2449
#[test]
fn after_escape_the_prompt_that_came_back_is_a_draft_and_the_socket_still_works() {
    let tmux = Tmux::new();
    let steps = json!([{"hang": 20}, {"text": "done"}]);
    let Some(claude) = Claude::new(&tmux, "claude", &steps) else {
        return;
    };
    claude.types("do it");
    claude.key("Enter");
    claude.becomes("busy");
    wait("the request", || !claude.asked().is_empty());
    claude.key("Escape");
    claude.becomes("idle");
    wait("the prompt that comes back", || claude.shows("❯\u{a0}do it"));
    let by_paste = TmuxPanes::new(
        Server::Named(tmux.name.clone()),
        Settings {
            sockets: false,
            ..Settings::default()
        },
    );
    assert_eq!(
        held(&by_paste.deliver(&claude.pane, &text("t-0001", "# hello"))),
        Why::Draft
    );
    assert_eq!(
        insist(&usual(&tmux), &claude.pane, &text("t-0001", "# hello")),
        SOCKET
    );
    assert!(claude.is_asked("t-0001"));
    claude.idle();
    assert!(claude.shows("❯\u{a0}do it"), "the draft stands where it stood");
}
