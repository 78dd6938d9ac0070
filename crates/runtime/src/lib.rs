//! How one turn of text reaches the owner's chief program, and what is known about it afterwards. It stores no message, decides nothing about
//! one, and takes everything it needs as arguments.
//!
//! A turn has one of three [`Outcome`]s, and the line between them is drawn before the first byte of the turn's text is written: a failure
//! before it is [`Outcome::NotStarted`], every failure after it is [`Outcome::BrokenOff`], because the text may have been read and acted on.
//!
//! Three [`Kind`]s of program are known: any `command`, the `claude` program, and any agent that speaks the Agent Client Protocol. All of them
//! run in a process group of their own, are given `MUSTER_MCP_URL`, `MUSTER_AGENT_TOKEN` and `MUSTER_CONVERSATION`, and are ended as a whole
//! when the turn is over, too long, or no longer wanted.

mod acp;
mod child;
mod claude_code;
mod command;
mod seat;
mod text;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use muster_core::secret::Secret;

pub use seat::end_left_over;

/// The longest reply that is kept, in bytes of UTF-8. What a chief says beyond it is cut, with a note in its place.
pub const REPLY_LIMIT: usize = 256 * 1024;

/// What kind of program the chief is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A program per turn: the text on its standard input, the reply on its standard output.
    Command,
    /// Claude Code, headless, one conversation resumed between turns.
    ClaudeCode,
    /// An agent that speaks the Agent Client Protocol, kept running between turns.
    Acp,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 3] = [Self::Command, Self::ClaudeCode, Self::Acp];

    /// The word for it in commands, pages and the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::ClaudeCode => "claude-code",
            Self::Acp => "acp",
        }
    }

    /// The program that is meant when the owner names none; only Claude Code has one.
    pub fn default_program(self) -> Option<Program> {
        match self {
            Self::ClaudeCode => Some(Program {
                name: "claude".to_owned(),
                arguments: Vec::new(),
            }),
            Self::Command | Self::Acp => None,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The word names no kind of chief.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chief's runtime is one of command, claude-code and acp; nothing was changed")]
pub struct UnknownKind;

impl std::str::FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or(UnknownKind)
    }
}

/// A program and its arguments, as the owner wrote them. No shell ever sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    name: String,
    arguments: Vec<String>,
}

/// Why a line is not a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// Nothing but blanks, or an empty first word.
    #[error("the chief's command is empty; name a program, for example 'claude --model opus'")]
    Empty,
    /// A quotation mark or a backslash at the end has no partner.
    #[error(
        "the chief's command has a quotation mark or a backslash without its partner; nothing was changed"
    )]
    Unbalanced,
    /// A NUL byte, which no program argument can hold.
    #[error("the chief's command has a NUL character, which no program can be given; nothing was changed")]
    Nul,
}

impl Program {
    /// Splits one line into a program and its arguments the way a shell splits words: blanks, quotation marks, backslashes, and a `#` at the
    /// start of a word that makes the rest a comment. Variables, patterns, pipes and everything else stay as they are written.
    ///
    /// A program without a slash is looked up on `PATH`; a relative path with one is relative to the chief's work folder.
    ///
    /// # Errors
    /// When no program is left, or the quotation is unbalanced.
    pub fn parse(line: &str) -> Result<Self, ProgramError> {
        if line.contains('\0') {
            return Err(ProgramError::Nul);
        }
        let mut words = shlex::Shlex::new(line);
        let name = words.next();
        let arguments: Vec<String> = words.by_ref().collect();
        if words.had_error {
            return Err(ProgramError::Unbalanced);
        }
        match name {
            Some(name) if !name.is_empty() => Ok(Self { name, arguments }),
            _ => Err(ProgramError::Empty),
        }
    }

    /// The program itself: the first word.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The words after the first.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }
}

/// One turn of text for the chief.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The conversation's stable id: `a-z`, `0-9` and `-`, at most 128 of them. Turns of one conversation see each other.
    pub conversation: String,
    /// What the conversation is called where the program can show a name.
    pub title: String,
    /// The text, already fenced.
    pub text: String,
    /// Where the chief finds muster's tools.
    pub mcp_url: String,
    /// What it shows there. It reaches the program in its environment, never on a command line or on a disk.
    pub agent_token: Secret,
}

/// What is known about a turn once it is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing reached the chief: the same text can be handed over again.
    NotStarted {
        /// Why, as a sentence; what the program wrote about it may follow after a colon, bounded and with control characters escaped.
        reason: String,
    },
    /// The chief finished the turn.
    Completed {
        /// The chief's words: outside text, at most [`REPLY_LIMIT`] bytes and a note, without NUL characters.
        reply: String,
    },
    /// The text may have been read and acted on, but the turn did not come to its end.
    BrokenOff {
        /// Why, as for [`Outcome::NotStarted`].
        reason: String,
    },
}

/// What a chief's program is given and how long it may take.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder it runs in, one per chief; created with mode 700 when it is missing. Small state lies in it: a lock, the running child's
    /// number, and for `acp` which session belongs to which conversation.
    pub work_dir: PathBuf,
    /// How long a turn may take as a whole, from the start of the program on.
    pub watchdog: Duration,
    /// How long an `acp` agent may say nothing at all during a turn.
    pub idle: Duration,
    /// How long a program may take until it is ready for the text (`claude-code` and `acp`).
    pub start: Duration,
    /// Further environment for the program. It cannot replace the three variables that muster sets.
    pub env: Vec<(String, String)>,
}

impl Settings {
    /// Half an hour for a turn, ten minutes of silence, two minutes for a start, and no further environment.
    pub fn new(work_dir: impl Into<PathBuf>) -> Self {
        Self {
            work_dir: work_dir.into(),
            watchdog: Duration::from_secs(30 * 60),
            idle: Duration::from_secs(10 * 60),
            start: Duration::from_secs(2 * 60),
            env: Vec::new(),
        }
    }
}

/// A future of a turn; dropping it ends the program.
pub type TurnFuture<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// A chief that can be handed a turn.
pub trait Runtime: Send + Sync {
    /// Hands one turn over and waits until it is over. A chief takes one turn at a time, also from several processes that share its work
    /// folder: while one runs, another is [`Outcome::NotStarted`] at once. Must be called on a tokio runtime with time and I/O.
    fn turn(&self, turn: Turn) -> TurnFuture<'_>;
}

/// The runtime of a chief. Starts nothing by itself.
pub fn runtime(kind: Kind, program: Program, settings: Settings) -> Arc<dyn Runtime> {
    match kind {
        Kind::Command => Arc::new(command::Command::new(program, settings)),
        Kind::ClaudeCode => Arc::new(claude_code::ClaudeCode::new(program, settings)),
        Kind::Acp => Arc::new(acp::Acp::new(program, settings)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_split_like_a_shell_does_and_is_never_run_by_one() {
        let program = Program::parse(r#"  claude --model 'opus x' "a\"b" c\ d $HOME *.txt ;rm "#).unwrap();
        assert_eq!(program.name(), "claude");
        assert_eq!(
            program.arguments(),
            ["--model", "opus x", "a\"b", "c d", "$HOME", "*.txt", ";rm"]
        );
    }

    #[test]
    fn a_command_line_without_a_program_is_refused() {
        for line in ["", "  \t ", "''", "'' x"] {
            assert_eq!(Program::parse(line), Err(ProgramError::Empty), "{line:?}");
        }
        for line in ["a 'b", "a \"b", "a b\\", "'"] {
            assert_eq!(Program::parse(line), Err(ProgramError::Unbalanced), "{line:?}");
        }
        assert_eq!(Program::parse("a\0b"), Err(ProgramError::Nul));
    }

    #[test]
    fn a_kind_is_read_back_from_its_own_word() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("Command".parse::<Kind>(), Err(UnknownKind));
        assert_eq!("".parse::<Kind>(), Err(UnknownKind));
    }
}
