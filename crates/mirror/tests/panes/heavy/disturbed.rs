//! Many deliveries with everything in their way that a person and an agent can put there. The order of events comes from a fixed seed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use muster_bus::push::{Outcome, Transport as _, Why};
use muster_mirror::{Server, TmuxPanes};

use crate::program::Agent;
use crate::support::{Tmux, quick, text, wait};

/// As many texts as are delivered.
const TEXTS: usize = 320;

/// A small generator of numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pause(&mut self, most: u64) {
        std::thread::sleep(Duration::from_millis(self.below(most)));
    }
}

/// A person at a terminal of his own: the only program of a second server is a client of the first.
struct Person {
    terminal: Tmux,
    pane: String,
}

impl Person {
    fn at(tmux: &Tmux) -> Self {
        let terminal = Tmux::new();
        let client = ["tmux", "-L", &tmux.name, "attach", "-t", "=agent"];
        let pane = terminal.start("person", &[("TMUX", "")], &client);
        terminal.run(&["resize-window", "-x", "121", "-y", "30", "-t", &pane]);
        wait("the person's client", || !tmux.run(&["list-clients"]).is_empty());
        Self { terminal, pane }
    }

    /// Types a draft and takes it back; never presses Enter.
    fn drafts(&self, dice: &mut Dice) {
        let words = "half a thought of mine";
        for letter in words.chars().take(usize::try_from(3 + dice.below(18)).unwrap()) {
            self.terminal.keys(&self.pane, &letter.to_string());
        }
        dice.pause(250);
        self.press("C-u");
    }

    /// Stops the agent, so that its shell comes to the front, and a little later brings it back.
    fn goes_to_the_shell(&self, tmux: &Tmux, agent: &Agent, dice: &mut Dice) {
        self.press("C-z");
        agent.prompts(tmux);
        dice.pause(1500);
        self.terminal.keys(&self.pane, "fg");
        self.press("Enter");
        wait("the agent", || tmux.screen(&agent.pane).contains("manual mode"));
    }

    fn press(&self, key: &str) {
        self.terminal.run(&["send-keys", "-t", &self.pane, key]);
    }
}

fn disturb(tmux: &Tmux, person: &Person, agent: &Agent, dice: &mut Dice, shells: &AtomicUsize) {
    let pane = agent.pane.as_str();
    match dice.below(40) {
        0 => return person.drafts(dice),
        1 => {
            shells.fetch_add(1, Ordering::Relaxed);
            return person.goes_to_the_shell(tmux, agent, dice);
        }
        _ => {}
    }
    match dice.below(5) {
        0 => {
            tmux.run(&["copy-mode", "-t", pane]);
            dice.pause(200);
            tmux.run(&["copy-mode", "-q", "-t", pane]);
        }
        1 => {
            // An agent asks in the middle of its work.
            agent.tell("busy on");
            std::thread::sleep(Duration::from_millis(250));
            agent.tell("dialog on");
            dice.pause(200);
            agent.tell("dialog off");
            agent.tell("busy off");
        }
        2 => {
            tmux.run(&["set-option", "-w", "-t", pane, "synchronize-panes", "on"]);
            dice.pause(150);
            tmux.run(&["set-option", "-w", "-t", pane, "synchronize-panes", "off"]);
        }
        3 => {
            agent.tell("busy on");
            dice.pause(200);
            agent.tell("busy off");
        }
        _ => {
            tmux.run(&["select-pane", "-d", "-t", pane]);
            dice.pause(120);
            tmux.run(&["select-pane", "-e", "-t", pane]);
        }
    }
}

#[test]
fn hundreds_of_texts_arrive_once_and_whole_whatever_gets_in_their_way() {
    let tmux = Tmux::new();
    let agent = Agent::below_a_shell(&tmux, "agent");
    // A second pane of the window: what synchronized panes would get shows there.
    let other = tmux.run(&[
        "split-window",
        "-h",
        "-d",
        "-l",
        "20",
        "-P",
        "-F",
        "#{pane_id}",
        "-t",
        &agent.pane,
        "cat",
    ]);
    tmux.run(&["resize-window", "-x", "121", "-y", "30", "-t", &agent.pane]);
    tmux.run(&["resize-pane", "-x", "100", "-t", &agent.pane]);
    tmux.run(&["set-option", "-g", "status", "off"]);
    let person = Person::at(&tmux);
    let mut settings = quick();
    settings.pause = Duration::from_secs(1);
    settings.second_look = Duration::from_secs(6);
    let panes = TmuxPanes::new(Server::Named(tmux.name.clone()), settings);
    let (over, shells) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (mut delivered, mut unknown, mut held) = (
        Vec::new(),
        Vec::new(),
        std::collections::HashMap::<Why, usize>::new(),
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = Dice(20_261_130);
            while !over.load(Ordering::Relaxed) {
                disturb(&tmux, &person, &agent, &mut dice, &shells);
                dice.pause(300);
            }
        });
        for number in 0..TEXTS {
            let token = format!("t-{number:04}");
            let body = match number % 3 {
                0 => format!("# short {number}"),
                1 => format!("# one of {number}\n# two\n# three\n# four"),
                _ => format!("# line of {number}\n").repeat(120).trim_end().to_owned(),
            };
            let what = text(&token, &body);
            let end = Instant::now() + Duration::from_secs(180);
            loop {
                match panes.deliver(&agent.pane, &what) {
                    Outcome::Delivered { verified: true, .. } => break delivered.push((token, body)),
                    // What is left in the input is taken out by the person of this test.
                    Outcome::Delivered { verified: false, .. } => {
                        break unknown.push((token, body, "not seen to be taken".to_owned()));
                    }
                    Outcome::Unknown { reason, .. } => break unknown.push((token, body, reason)),
                    Outcome::Held(hold) => {
                        *held.entry(hold.why).or_default() += 1;
                        assert!(
                            Instant::now() < end,
                            "held for three minutes: {hold:?}\n{}",
                            tmux.screen(&agent.pane)
                        );
                        std::thread::sleep(Duration::from_millis(20));
                    }
                }
            }
        }
        over.store(true, Ordering::Relaxed);
    });
    let reasons: Vec<&String> = unknown.iter().map(|(_, _, reason)| reason).collect();
    println!(
        "held {held:?}, shells {}, not known {}: {reasons:#?}",
        shells.load(Ordering::Relaxed),
        unknown.len()
    );
    let submitted = agent.submitted();
    let whole = |token: &str, body: &str| format!("[agent-coord] message {token}\n{body}");
    // Each that was called delivered arrived once and whole; each of which it is not known at most once and whole.
    for (token, body) in &delivered {
        let near: Vec<&String> = submitted
            .iter()
            .filter(|text| text.contains(token.as_str()))
            .collect();
        assert_eq!(
            submitted
                .iter()
                .filter(|text| **text == whole(token, body))
                .count(),
            1,
            "{token}: {near:?}"
        );
    }
    for (token, body, reason) in &unknown {
        assert!(
            submitted
                .iter()
                .filter(|text| **text == whole(token, body))
                .count()
                <= 1,
            "{token}: {reason}"
        );
    }
    // Nothing else was ever sent: no draft, no mixture, no half of a text.
    let all: Vec<String> = delivered
        .iter()
        .map(|(token, body)| whole(token, body))
        .chain(unknown.iter().map(|(token, body, _)| whole(token, body)))
        .collect();
    let strange: Vec<&String> = submitted.iter().filter(|text| !all.contains(text)).collect();
    assert!(strange.is_empty(), "{strange:?}");
    // No dialog was answered or fed, no shell ran anything, no other pane got a key of ours.
    assert!(
        agent.to_dialog().iter().all(|what| what != "approved"),
        "{:?}",
        agent.to_dialog()
    );
    assert!(
        !tmux.screen(&other).contains("agent-coord"),
        "{}",
        tmux.screen(&other)
    );
    assert!(
        agent.in_the_shell().iter().all(|line| line == "fg"),
        "{:?}",
        agent.in_the_shell()
    );
    assert_eq!(delivered.len() + unknown.len(), TEXTS);
    assert!(
        unknown.len() * 10 <= TEXTS,
        "{} of {TEXTS} are not known: {reasons:#?}",
        unknown.len()
    );
    assert!(
        shells.load(Ordering::Relaxed) > 0 && held.len() >= 6,
        "too little got in the way: {held:?}"
    );
}
