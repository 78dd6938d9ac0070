//! What may be set of how panes are judged and how long is waited. Never read from the environment behind a caller's back.

use std::path::PathBuf;
use std::time::Duration;

use muster_core::text;

use crate::composer::Program;
use crate::screen::Ghost;

/// Overrides how a suggestion is drawn: the numbers of an SGR sequence.
pub const GHOST_TEXT: &str = "AGENT_COORD_GHOST_TEXT_SGR";

/// The settings of a transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How suggestions are drawn that nobody typed.
    pub ghost: Ghost,
    /// Where Claude Code keeps its files when its own process does not say.
    pub claude_folder: Option<PathBuf>,
    /// Whether a Claude Code session's inbox socket is used where there is one.
    pub sockets: bool,
    /// A person who pressed a key more recently is still typing. tmux counts in whole seconds.
    pub pause: Duration,
    /// How long an agent must look idle before it counts as idle: between two calls of a tool it looks so for a moment.
    pub steady: Duration,
    /// How long a program's input must have been seen before the first text: a program that has just begun draws its input before it is ready
    /// to take a paste as one.
    pub warm: Duration,
    /// How long what was typed must stand in the input before Enter: right after a paste some programs take Enter for a part of it.
    pub settle: Duration,
    /// How long what was typed may take to show before Enter is given up.
    pub second_look: Duration,
    /// How long is waited to see that it was taken.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ghost: Ghost::default(),
            claude_folder: None,
            sockets: true,
            pause: Duration::from_secs(3),
            steady: Duration::from_millis(300),
            warm: Duration::from_millis(1_200),
            settle: Duration::from_millis(250),
            second_look: Duration::from_secs(8),
            patience: Duration::from_secs(6),
        }
    }
}

/// What Claude Code needs of that: texts of up to 16 KiB were taken whole with no pause at all before Enter.
const CLAUDE_SETTLES: Duration = Duration::from_millis(40);
/// Claude Code shows that it is at work between two calls of a tool, too; this covers the moment of drawing.
const CLAUDE_STEADY: Duration = Duration::from_millis(120);

impl Settings {
    /// How long what was typed must stand in the input of a program before Enter.
    pub(crate) fn settle_in(&self, program: Program) -> Duration {
        match program {
            Program::ClaudeCode => self.settle.min(CLAUDE_SETTLES),
            Program::Codex | Program::GeminiCli => self.settle,
        }
    }

    /// How long a program must look idle.
    pub(crate) fn steady_in(&self, program: Program) -> Duration {
        match program {
            Program::ClaudeCode => self.steady.min(CLAUDE_STEADY),
            Program::Codex | Program::GeminiCli => self.steady,
        }
    }

    /// Takes what is set out of an environment.
    ///
    /// # Errors
    /// A sentence, when the styling of suggestions is none.
    pub fn from_env(get: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let set = |name: &str| get(name).filter(|value| !value.is_empty());
        let ghost = match set(GHOST_TEXT) {
            None => Ghost::default(),
            Some(value) => Ghost::parse(&value).ok_or_else(|| {
                let shown = text::terminal(&value.chars().take(64).collect::<String>());
                format!(
                    "{GHOST_TEXT} is '{shown}'; give the numbers of the styling in which suggestions are drawn, as 2 or 38;5;244"
                )
            })?,
        };
        let claude_folder = set("CLAUDE_CONFIG_DIR")
            .map(PathBuf::from)
            .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".claude")));
        Ok(Self {
            ghost,
            claude_folder,
            ..Self::default()
        })
    }
}
