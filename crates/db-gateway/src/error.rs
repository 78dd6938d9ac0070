//! Why a call was not answered, as sentences. Never holds an address's password: every text of a server passes [`Scrub`] first.

use std::fmt;
use std::time::Duration;

use crate::classify::Verdict;

/// Why a call was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The permit is not one for this call.
    #[error("Refused, and nothing was sent: the call has no permit for {missing} on this connection.")]
    NotPermitted {
        /// The action that is missing.
        missing: &'static str,
    },
    /// The gate stopped the statement.
    #[error("Refused by the gate, and nothing was sent: {}. {}", verdict.reason, what_to_do(verdict))]
    Gate {
        /// What the statement would need.
        verdict: Verdict,
    },
    /// The engine answered with an error.
    #[error("The database answered with error {code}: {message}{}", place(*position))]
    Engine {
        /// Its own code: an SQLSTATE, a number, a word.
        code: String,
        /// What it said, without secrets.
        message: String,
        /// Where in the statement, counted in characters from 1.
        position: Option<u32>,
    },
    /// The engine refused a write for lack of rights, and the account is the one that reads: none is stored for writes.
    #[error(
        "The database answered with error {code}: {message}. muster signs in here with one account, which may not do this. Whoever owns the connection can give it a second one for writes (muster db set-url --write-url)."
    )]
    MayNotWrite {
        /// The engine's own code.
        code: String,
        /// What it said, without secrets.
        message: String,
    },
    /// It took too long and was stopped.
    #[error("Stopped after {} s: the statement took too long. Ask for less of it.", after.as_secs_f64())]
    TimedOut {
        /// The limit.
        after: Duration,
    },
    /// No answer to a read came at all, not even that the server had stopped it at its own limit.
    #[error(
        "Given up after {} s: the database had not answered by then, nor said that it stopped the statement. Its server may be overloaded or gone silent. It was a read, so nothing was changed.",
        after.as_secs_f64()
    )]
    Unanswered {
        /// The limit.
        after: Duration,
    },
    /// A statement that writes was given up, and nobody said what became of it.
    #[error(
        "Given up after {} s: by then the database had not said that the statement is done. It writes, so it may be done all the same, in part, or not at all. Look before you send it again.",
        after.as_secs_f64()
    )]
    GivenUp {
        /// The limit.
        after: Duration,
    },
    /// There is no way to the server, or what answers there is not understood.
    #[error("The database could not be reached: {why}.")]
    Unreachable {
        /// Why, without secrets.
        why: String,
        /// Whether nobody is there at all: refused, no such name, no route, silence. Otherwise somebody answered.
        away: bool,
    },
    /// The server is there, and does not let this account into this database.
    #[error(
        "The database did not let muster in: {why}. Check the name, the password and the database in its address."
    )]
    NotLetIn {
        /// The server's own words, without secrets.
        why: String,
    },
    /// It is a database of muster itself: whoever reads and writes there stands above every grant.
    #[error(
        "This is a database in which muster keeps its grants, tokens and audit log, so it is no connection; nothing of it was read or changed."
    )]
    Own,
    /// The mode in which nothing can be written could not be entered, so nothing was read either.
    #[error(
        "Nothing was read, because the database did not enter the mode in which it cannot be changed: {why}."
    )]
    Unguarded {
        /// Why, without secrets.
        why: String,
    },
    /// There is no such thing in the database.
    #[error("There is no {what} in this database.")]
    NotFound {
        /// What was asked for, escaped.
        what: String,
    },
    /// The engine has nothing like it.
    #[error("{engine} has no {what}.")]
    Unsupported {
        /// Which engine.
        engine: &'static str,
        /// What it has none of.
        what: &'static str,
    },
    /// An argument makes no sense.
    #[error("{0}.")]
    Invalid(String),
}

fn what_to_do(verdict: &Verdict) -> &'static str {
    match verdict.class {
        crate::Class::Read => "Send it as it is.",
        crate::Class::Write => "It needs db_write and a call that says write.",
        crate::Class::Refuse => "No call of the gateway runs it.",
    }
}

fn place(position: Option<u32>) -> String {
    position.map_or_else(String::new, |at| format!(" (at character {at})"))
}

impl Error {
    /// The engine's own code, where the engine gave one.
    #[must_use]
    pub fn engine_code(&self) -> Option<&str> {
        match self {
            Self::Engine { code, .. } | Self::MayNotWrite { code, .. } => Some(code),
            Self::TimedOut { .. } | Self::Unanswered { .. } | Self::GivenUp { .. } => Some("timeout"),
            Self::Unreachable { .. } => Some("unreachable"),
            Self::NotLetIn { .. } => Some("sign_in"),
            Self::Own => Some("own_database"),
            Self::Unguarded { .. } => Some("unguarded"),
            _ => None,
        }
    }

    /// The word for callers of tools: `refused_gate`, `not_found`, `invalid_argument`, `engine_error`, `refused_not_granted`.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotPermitted { .. } => "refused_not_granted",
            Self::Gate { .. } => "refused_gate",
            Self::NotFound { .. } => "not_found",
            Self::Unsupported { .. } | Self::Invalid(_) => "invalid_argument",
            Self::Engine { .. }
            | Self::MayNotWrite { .. }
            | Self::TimedOut { .. }
            | Self::Unanswered { .. }
            | Self::GivenUp { .. }
            | Self::Unreachable { .. }
            | Self::NotLetIn { .. }
            | Self::Own
            | Self::Unguarded { .. } => "engine_error",
        }
    }

    /// Whether nobody answered where the address points, so that nothing is known of the server or the account.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        matches!(self, Self::Unreachable { away: true, .. })
    }

    /// The verdict of the gate, where it was the gate.
    #[must_use]
    pub const fn verdict(&self) -> Option<&Verdict> {
        match self {
            Self::Gate { verdict } => Some(verdict),
            _ => None,
        }
    }
}

/// Most letters of a text that are looked at.
const LONGEST: usize = 16_000;

/// Takes secrets out of what a server or a library says.
#[derive(Clone, Default)]
pub(crate) struct Scrub {
    secrets: Vec<String>,
}

impl fmt::Debug for Scrub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrub")
    }
}

/// Secrets of fewer letters are taken out only where they stand as a word: a single letter is in every other word, and a text full of stars would tell it.
const SHORT: usize = 6;

fn without(text: &str, secret: &str) -> String {
    if secret.chars().count() >= SHORT {
        return text.replace(secret, "***");
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(secret) {
        let joined = |letter: Option<char>| letter.is_some_and(char::is_alphanumeric);
        let last = before.chars().next_back().or_else(|| out.chars().next_back());
        out.push_str(before);
        let stays = joined(last) || joined(after.chars().next());
        out.push_str(if stays { secret } else { "***" });
        rest = after;
    }
    out.push_str(rest);
    out
}

impl Scrub {
    pub(crate) fn of(secrets: impl IntoIterator<Item = String>) -> Self {
        let mut secrets: Vec<String> = secrets.into_iter().filter(|secret| !secret.is_empty()).collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self { secrets }
    }

    /// At most 2,000 characters, secrets and whatever a terminal acts on replaced.
    pub(crate) fn clean(&self, said: &str) -> String {
        // Whatever a server sends, only the beginning of it is worked on.
        let mut text: String = said.chars().take(LONGEST).collect();
        let cut = text.len() < said.len();
        for secret in &self.secrets {
            if text.contains(secret.as_str()) {
                text = without(&text, secret);
            }
        }
        // The cut may have gone through a secret.
        let whole = text.chars().count()
            - if cut {
                self.longest().min(text.chars().count())
            } else {
                0
            };
        text.chars()
            .take(whole.min(2000))
            .map(|letter| {
                if letter.is_control() && letter != '\n' {
                    ' '
                } else {
                    letter
                }
            })
            .collect()
    }

    fn longest(&self) -> usize {
        self.secrets.first().map_or(0, |secret| secret.chars().count())
    }

    /// The server refused the name, the password or the database.
    pub(crate) fn not_let_in(&self, why: impl fmt::Display) -> Error {
        let why = self.clean(&why.to_string());
        Error::NotLetIn {
            why: why.trim_end_matches(['.', ' ']).to_owned(),
        }
    }

    /// Somebody answered, and not as a server that can be talked to.
    pub(crate) fn unreachable(&self, why: impl fmt::Display) -> Error {
        self.closed(why, false)
    }

    /// Nobody answered within `patience`, which is all that a call has for reaching its server.
    pub(crate) fn silent(&self, patience: Duration) -> Error {
        self.away(format!(
            "no whole answer came within {} s",
            patience.as_secs_f64()
        ))
    }

    /// Nobody answered.
    pub(crate) fn away(&self, why: impl fmt::Display) -> Error {
        self.closed(why, true)
    }

    /// Either, as `away` says.
    pub(crate) fn closed(&self, why: impl fmt::Display, away: bool) -> Error {
        let mut why = self.clean(&why.to_string());
        // A server that breaks off with an error need not say which.
        if !why.contains(|letter: char| letter.is_alphanumeric()) {
            "the server gave no reason".clone_into(&mut why);
        }
        Error::Unreachable { why, away }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_secret_is_left_where_a_text_is_cut() {
        let secret = "hunter2-hunter2-hunter2-hunter2-".repeat(4);
        let scrub = Scrub::of([secret.clone()]);
        for before in 0..130 {
            let said = format!("{}{}", "x".repeat(before), secret.repeat(300));
            let told = scrub.clean(&said);
            assert!(!told.contains("hunter2"), "{before}: {told}");
            assert!(told.contains("***"));
        }
        assert_eq!(scrub.clean("it is hunter"), "it is hunter");
        assert_eq!(scrub.clean(&"y".repeat(100_000)).len(), 2000);
    }

    #[test]
    fn a_short_secret_goes_where_it_stands_alone_and_spoils_no_other_word() {
        let scrub = Scrub::of(["p".to_owned()]);
        assert_eq!(
            scrub.clean("failed to lookup: p, 'p'"),
            "failed to lookup: ***, '***'"
        );
        assert_eq!(scrub.clean("p ppp p"), "*** ppp ***");
        let scrub = Scrub::of(["a+b".to_owned()]);
        assert_eq!(scrub.clean("xa+b a+b a+ba+b"), "xa+b *** a+ba+b");
        let scrub = Scrub::of(["hunter".to_owned()]);
        assert_eq!(scrub.clean("xhunterx"), "x***x");
    }
}
