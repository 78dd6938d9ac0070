//! Reading the command line. Never repeats a word of it unescaped, and never breaks an example of the help into lines.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, FromArgMatches as _};
use muster_core::text::{terminal, unseen};

use crate::cli::Cli;

/// Stands for a blank of an example while the help is laid out, because lines are broken at blanks. No word of muster's holds it.
const KEPT: char = '\u{e000}';
/// How a line begins that is there to be copied.
const EXAMPLE: &str = "Example: ";

/// The command that these words are; what else they come to is printed, and the process ends with the code.
pub(crate) fn command_line(args: Vec<OsString>) -> Result<Cli, ExitCode> {
    let mut command = kept(Cli::command());
    let read = command.try_get_matches_from_mut(args);
    read.and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map_err(|error| told(error.with_cmd(&command)))
}

/// The same command, with examples that are not broken.
fn kept(command: clap::Command) -> clap::Command {
    let after = command.get_after_help().map(|help| {
        let help = help.to_string();
        let lines: Vec<String> = help.lines().map(keep).collect();
        lines.join("\n")
    });
    let command = match after {
        Some(after) => command.after_help(after),
        None => command,
    };
    command.mut_subcommands(kept)
}

fn keep(line: &str) -> String {
    if line.starts_with(EXAMPLE) {
        line.replace(' ', &KEPT.to_string())
    } else {
        line.to_owned()
    }
}

/// Prints help, a version or a refusal, each where it belongs.
fn told(mut error: clap::Error) -> ExitCode {
    let asked_for = matches!(
        error.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    );
    if !asked_for {
        escape(&mut error);
    }
    let stderr = error.use_stderr();
    let styled = if stderr {
        std::io::stderr().is_terminal()
    } else {
        std::io::stdout().is_terminal()
    };
    let text = printed(&error.render(), styled && wants_colours());
    // Whoever closed the stream reads nothing; the code still tells.
    let _ = if stderr {
        std::io::stderr().lock().write_all(text.as_bytes())
    } else {
        std::io::stdout().lock().write_all(text.as_bytes())
    };
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn wants_colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn printed(text: &StyledStr, styled: bool) -> String {
    let text = if styled {
        text.ansi().to_string()
    } else {
        text.to_string()
    };
    text.replace(KEPT, " ")
}

/// Spells out what cannot be seen in the words that a refusal repeats.
fn escape(error: &mut clap::Error) {
    let mut odd = false;
    let mut safe = |text: &String| {
        let shown = terminal(text);
        odd |= shown != *text;
        shown
    };
    let mut shown: Vec<(ContextKind, ContextValue)> = Vec::new();
    for (kind, value) in error.context() {
        match value {
            ContextValue::String(text) => shown.push((kind, ContextValue::String(safe(text)))),
            ContextValue::Strings(texts) => {
                shown.push((kind, ContextValue::Strings(texts.iter().map(&mut safe).collect())));
            }
            _ => {}
        }
    }
    let hints = error.get(ContextKind::Suggested).map(ToString::to_string);
    odd |= hints.is_some_and(|text| text.chars().any(|c| c != '\n' && unseen(c).is_some()));
    for (kind, value) in shown {
        error.insert(kind, value);
    }
    if odd {
        // A hint repeats the word among marks of style, where it cannot be told from them.
        error.remove(ContextKind::Suggested);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the words come to, without a terminal.
    fn refused(words: &[&str]) -> (String, i32) {
        let mut command = kept(Cli::command());
        let args = ["muster"].iter().chain(words);
        let mut error = command
            .try_get_matches_from_mut(args)
            .unwrap_err()
            .with_cmd(&command);
        escape(&mut error);
        (printed(&error.render(), true), error.exit_code())
    }

    #[test]
    fn a_wrong_word_is_repeated_with_everything_in_it_that_cannot_be_seen_spelled_out() {
        let odd = "a\u{202e}b\u{1b}[31mc\u{200b}\nd";
        let shown = terminal(odd);
        let flag = format!("--{odd}");
        let valued = format!("--{odd}=x");
        for words in [
            &[odd][..],
            &["policy", odd],
            &["help", odd],
            &[flag.as_str()],
            &["policy", "list", flag.as_str()],
            &["policy", "list", valued.as_str()],
            &["policy", "list", odd],
            &["token", "create", "--kind", odd],
            &["audit", "list", "--limit", odd],
            &["completions", odd],
        ] {
            let (text, code) = refused(words);
            assert_eq!(code, 2, "{text:?}");
            assert!(text.contains(&shown), "{text:?}");
            assert!(
                !text.contains(odd) && !text.contains(['\u{202e}', '\u{200b}']),
                "{text:?}"
            );
            assert!(!text.contains("\u{1b}[31mc"), "{text:?}");
        }
        // What can be seen is repeated as it was, with its hint.
        let (text, _) = refused(&["policy", "list", "--jsn"]);
        assert!(text.contains("--jsn") && text.contains("--json"), "{text:?}");
    }

    #[test]
    fn an_example_stands_on_one_line_however_long_it_is_and_other_text_is_broken() {
        fn commands(
            command: &clap::Command,
            path: &[String],
            law: &mut impl FnMut(&clap::Command, &[String]),
        ) {
            law(command, path);
            for sub in command.get_subcommands() {
                let path: Vec<String> = path.iter().cloned().chain([sub.get_name().to_owned()]).collect();
                commands(sub, &path, law);
            }
        }
        let (mut long, mut broken) = (0, 0);
        commands(&Cli::command(), &[], &mut |command, path| {
            let Some(after) = command.get_after_help().map(ToString::to_string) else {
                return;
            };
            let mut whole = kept(Cli::command()).term_width(60);
            let words = ["muster"]
                .into_iter()
                .chain(path.iter().map(String::as_str))
                .chain(["--help"]);
            let error = whole.try_get_matches_from_mut(words).unwrap_err();
            let help = printed(&error.render(), false);
            assert!(!help.contains(KEPT));
            for line in after.lines() {
                if line.starts_with(EXAMPLE) {
                    assert!(help.lines().any(|other| other == line), "{line}\n{help}");
                    long += usize::from(line.len() > 100);
                } else if line.len() > 60 {
                    assert!(!help.lines().any(|other| other == line), "{line}\n{help}");
                    broken += 1;
                }
            }
        });
        assert!(long > 3 && broken > 3, "{long} {broken}");
    }
}
