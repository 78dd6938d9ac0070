//! Typing into a pane: put once what is to be taken, look again, press Enter once, see what came of it. Never presses Enter on anything else.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use muster_bus::push::{ControlCommand, Door, Hold, Outcome, Why};
use muster_core::text;

use super::{Open, TICK, TmuxPanes, Typed, left_behind, unreached};
use crate::claude::{self, Found, Session};
use crate::composer::{self, Filling, Input, Program};
use crate::guard::{self, Seen, hold};
use crate::process;
use crate::tmux::{Look, PaneId, Still};

/// So many characters of the end of a text are looked for where it was taken.
const TAIL: usize = 48;
/// How long a list of commands may take to open under a typed command.
const MENU: Duration = Duration::from_millis(700);

impl TmuxPanes {
    pub(super) fn by_typing(&self, pane: PaneId, typed: &Typed<'_>) -> Result<Outcome, Hold> {
        let first = self.judge(pane)?;
        let steady = self.settings.steady_in(first.input.program);
        std::thread::sleep(
            steady.max(
                self.settings
                    .warm
                    .saturating_sub(self.seen_for(pane, &first.look)),
            ),
        );
        let open = self.judge(pane)?;
        let session = self.session(pane, &open.look);
        if let Some(command) = typed.command {
            has_command(open.input.program, command)?;
            let usual = self.settings.claude_folder.as_deref();
            // A text is pasted in every mode but VISUAL; keys are not typed as they are.
            if open.input.program == Program::ClaudeCode
                && open.input.mode.is_none()
                && claude::has_vim_keys(open.look.pane_pid, session.as_ref(), usual)
            {
                let words = "Claude Code has vim's keys and does not show INSERT, so that the keys of a command could be vim's; i begins to insert";
                return Err(hold(Why::InputOff, words.to_owned()));
            }
        }
        let mark = session.as_ref().map(Session::mark);
        if let Some(reason) = self.put(pane, &open, typed)? {
            return Ok(Outcome::Unknown {
                door: typed.door,
                reason,
            });
        }
        let shown = match self.submit(pane, &open, typed) {
            Ok(shown) => shown,
            Err(reason) => {
                return Ok(Outcome::Unknown {
                    door: typed.door,
                    reason,
                });
            }
        };
        // The session wrote down what it was told. A command that takes long is written down only at its end.
        let took = || {
            session
                .as_ref()
                .zip(mark.as_ref())
                .is_some_and(|(session, mark)| {
                    let busy = || {
                        session
                            .again()
                            .is_some_and(|now| now.status == guard::Status::Busy)
                    };
                    session.took(mark, &typed.token) || (typed.command.is_some() && busy())
                })
        };
        Ok(self.taken(pane, &open, typed, &shown, took))
    }

    /// How long ago this very program's input was first seen open in the pane.
    fn seen_for(&self, pane: PaneId, look: &Look) -> Duration {
        let front = process::stat(look.pane_pid).and_then(|stat| stat.front);
        let program = front.and_then(|front| Some((front, process::stat(front)?.start)));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let first = seen.entry(pane).or_insert_with(|| (program, Instant::now()));
        if first.0 != program {
            *first = (program, Instant::now());
        }
        first.1.elapsed()
    }

    /// Puts the text into the input. `Some` is the reason for which it is not known whether it is there.
    fn put(&self, pane: PaneId, open: &Open, typed: &Typed<'_>) -> Result<Option<String>, Hold> {
        let mut still = Still::of(&open.look, &[open.input.top]);
        still.bracketed = typed.door == Door::Paste;
        let (buffer, command) = if typed.door == Door::Keys {
            (None, format!("send-keys -t {pane} -l {}", typed.text))
        } else {
            let buffer = self
                .tmux
                .load(typed.text)
                .map_err(|failure| unreached(&failure))?;
            let command = format!("paste-buffer -p -d -b {buffer} -t {pane}");
            (Some(buffer), command)
        };
        let done = self.tmux.act(pane, &still, &command);
        if let (Some(buffer), Ok(false) | Err(_)) = (&buffer, &done) {
            self.tmux.drop_buffer(buffer);
        }
        match done {
            Ok(true) => Ok(None),
            Ok(false) => {
                // Whatever changed in between is the reason; if it is over already, the next attempt will do.
                self.judge(pane)?;
                let words = "the screen changed at the moment of typing, so nothing was typed";
                Err(hold(Why::UnknownScreen, words.to_owned()))
            }
            Err(failure) => Ok(Some(format!(
                "whether the text was typed is not known: {failure}"
            ))),
        }
    }

    /// Looks again and presses Enter once, on exactly what was put there. Answers how the input showed it.
    fn submit(&self, pane: PaneId, open: &Open, typed: &Typed<'_>) -> Result<String, String> {
        let first = &open.look;
        let begun = Instant::now();
        let mut why = "it did not show in the input".to_owned();
        let mut stands_since = None;
        while begun.elapsed() < self.settings.second_look {
            match self.second(pane, first, typed, begun) {
                Ok((still, shown)) => {
                    let since = *stands_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.settings.settle_in(open.input.program) {
                        match self.tmux.act(pane, &still, &format!("send-keys -t {pane} -H 0d")) {
                            Ok(true) => return Ok(shown),
                            Ok(false) => "the screen changed before Enter".clone_into(&mut why),
                            Err(failure) => {
                                return Err(format!(
                                    "the text was typed, and whether Enter was pressed is not known: {failure}"
                                ));
                            }
                        }
                    }
                }
                Err(reason) => {
                    stands_since = None;
                    why = reason;
                }
            }
            std::thread::sleep(TICK);
        }
        Err(format!("the text was typed and Enter was not pressed: {why}"))
    }

    /// What must still be there at the moment of Enter, if the input shows exactly what was typed and nothing lies over it.
    fn second(
        &self,
        pane: PaneId,
        first: &Look,
        typed: &Typed<'_>,
        begun: Instant,
    ) -> Result<(Still, String), String> {
        let look = self.look(pane).map_err(|hold| hold.detail)?;
        if look.pane_pid != first.pane_pid {
            return Err("another program runs in the pane now".to_owned());
        }
        let found = self.find(pane, &look);
        let status = match &found {
            Found::Session(session) => Some(&session.status),
            Found::None | Found::Died(_) | Found::Odd(_) => None,
        };
        let seen = Seen {
            pane: Some(&look.pane),
            screen: Some(&look.screen),
            claude: status,
            ghost: &self.settings.ghost,
            pause: self.settings.pause,
        };
        guard::pane(&seen).map_err(|hold| hold.detail)?;
        if let Some(guard::Status::Waiting(what)) = status {
            return Err(format!(
                "Claude Code waits for an answer: {}",
                text::terminal(what)
            ));
        }
        let input = match composer::look(&look.screen, look.pane.cursor) {
            composer::Look::Input(input) => input,
            composer::Look::Dialog(row) => {
                return Err(format!("a question or a menu is open: {}", guard::quoted(&row)));
            }
            composer::Look::Unknown => {
                return Err("the screen shows no input box that muster knows".to_owned());
            }
        };
        if let (Found::Died(pid), Program::ClaudeCode) = (&found, input.program) {
            return Err(left_behind(*pid).detail);
        }
        if let Some(mode) = input.takes_orders() {
            return Err(format!("the input went into vim's {mode} mode"));
        }
        // At work it may open a dialog at any moment, and Enter would answer it.
        if input.working || status == Some(&guard::Status::Busy) {
            return Err("the agent began to work".to_owned());
        }
        let whole = match typed.command {
            None => input.holds(typed.text),
            Some(command) => !input.shell && input.text() == command.as_str(),
        };
        if !whole {
            let shown = input.raw.iter().map(|raw| guard::quoted(raw)).next_back();
            return Err(format!(
                "the input shows something else: {}",
                shown.unwrap_or_default()
            ));
        }
        let last = input
            .rows
            .iter()
            .rposition(|cells| cells.iter().any(|cell| !cell.is_blank()));
        let mut rows = vec![input.top + last.unwrap_or(0)];
        if let Some(command) = typed.command {
            match &input.chosen {
                Some((_, chosen)) if chosen != command.as_str() => {
                    return Err(format!(
                        "the list of commands has {} chosen",
                        text::terminal(chosen)
                    ));
                }
                Some((at, _)) => rows.push(*at),
                None if begun.elapsed() < MENU => {
                    return Err("the list of commands has not opened".to_owned());
                }
                None => {}
            }
        }
        // The line below the input says when it begins to work.
        let below = input.top + input.rows.len();
        let footer = look.screen.rows.iter().enumerate().skip(below);
        rows.extend(
            footer
                .filter(|(_, row)| !row.is_blank() && !composer::is_line(row))
                .map(|(at, _)| at)
                .take(3),
        );
        Ok((Still::of(&look, &rows), input.text()))
    }

    /// Waits until it is seen that what was submitted was taken: not only that it left the input, which a person can bring about, too.
    fn taken(
        &self,
        pane: PaneId,
        open: &Open,
        typed: &Typed<'_>,
        shown: &str,
        took: impl Fn() -> bool,
    ) -> Outcome {
        let door = typed.door;
        let end = Instant::now() + self.settings.patience;
        let mut stands = false;
        while Instant::now() < end {
            if took() {
                return Outcome::Delivered { door, verified: true };
            }
            let look = match self.look(pane) {
                Ok(look) => look,
                Err(hold) => {
                    let reason = format!("Enter was pressed, and then: {}", hold.detail);
                    return Outcome::Unknown { door, reason };
                }
            };
            if let composer::Look::Input(input) = composer::look(&look.screen, look.pane.cursor) {
                stands = input.filling(&self.settings.ghost) == Filling::Draft && input.shows(typed.text);
                if !stands && appeared(open, &look, &input, typed, shown) {
                    return Outcome::Delivered { door, verified: true };
                }
            }
            std::thread::sleep(TICK);
        }
        if stands {
            let reason = "Enter was pressed, and the text still stands in the input".to_owned();
            Outcome::Unknown { door, reason }
        } else {
            Outcome::Delivered {
                door,
                verified: false,
            }
        }
    }
}

/// Whether what was submitted stands above the input now, where the program shows what it was told: a text by its word, by its end or by what
/// stood for it in the input, a command by the change it brought.
fn appeared(open: &Open, look: &Look, input: &Input, typed: &Typed<'_>, shown: &str) -> bool {
    let close = |text: &str| -> String { text.chars().filter(|char| !char.is_whitespace()).collect() };
    let above = |look: &Look, top: usize| -> String {
        let rows = look.screen.rows.iter().take(top);
        rows.map(|row| close(&row.text())).collect()
    };
    let (before, now) = (above(&open.look, open.input.top), above(look, input.top));
    if typed.command.is_some() {
        return input.chosen.is_none() && before != now;
    }
    let whole = close(typed.text);
    let begins = whole.char_indices().rev().nth(TAIL).map_or(0, |(at, _)| at);
    let end = whole.get(begins..).unwrap_or_default();
    let more = |words: &str| !words.is_empty() && now.matches(words).count() > before.matches(words).count();
    more(&close(&typed.token)) || more(end) || (shown.starts_with('[') && more(&close(shown)))
}

/// Whether a program has a command at all: one that has not would take it for a message.
fn has_command(program: Program, command: ControlCommand) -> Result<(), Hold> {
    let has = match program {
        Program::ClaudeCode => true,
        Program::Codex => command != ControlCommand::ReloadSkills,
        Program::GeminiCli => command == ControlCommand::Clear,
    };
    if has {
        Ok(())
    } else {
        let words = format!("{} has no command {command}", program.as_str());
        Err(hold(Why::UnknownScreen, words))
    }
}
