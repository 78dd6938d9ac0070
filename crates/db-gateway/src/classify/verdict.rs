//! What a statement would need: the words and why. Never decides who may have it.

use std::borrow::Cow;
use std::fmt;

/// What a statement needs to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// It only reads: it runs under `db_read`.
    Read,
    /// It changes data or schema, or may: it needs `db_write` and a call that says so.
    Write,
    /// It never runs through the gateway: control of a session or transaction, files, programs, the network, other sessions,
    /// settings of the server, code that nobody sees, endless waits, and everything that is not understood.
    Refuse,
}

impl Class {
    /// The word that is printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Refuse => "refuse",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A class and the reason for it, half a sentence for a person. Serialised it is `{"verdict","reason"}`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    /// What the statement needs.
    #[serde(rename = "verdict", serialize_with = "as_word")]
    pub class: Class,
    /// Why; nothing of it is longer than a name.
    pub reason: Cow<'static, str>,
}

fn as_word<S: serde::Serializer>(class: &Class, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(class.as_str())
}

impl Verdict {
    pub(super) fn read(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Class::Read, reason)
    }

    pub(crate) fn write(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Class::Write, reason)
    }

    pub(super) fn refuse(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::of(Class::Refuse, reason)
    }

    pub(super) fn of(class: Class, reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            class,
            reason: reason.into(),
        }
    }

    /// The stricter of two; of two alike the first.
    #[must_use]
    pub(super) fn or_stricter(self, other: Self) -> Self {
        if other.class > self.class { other } else { self }
    }
}

/// A name out of a statement, short and without anything that a terminal or a page would act on.
pub(crate) fn shown(name: &str) -> String {
    let mut letters = name.chars();
    let short: String = letters.by_ref().take(48).flat_map(char::escape_debug).collect();
    if letters.next().is_some() {
        format!("{short}…")
    } else {
        short
    }
}
