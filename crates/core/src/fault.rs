//! A fault: something broke that no rule of muster's speaks of (a disk, a network, a row that cannot exist). Never shown to an outsider beyond its sentence.

use std::error::Error;
use std::fmt;

/// What kind of thing broke, as far as a caller can act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// The disk or the quota is full.
    StorageFull,
    /// The data folder or database cannot be written.
    ReadOnly,
    /// The database does not answer (stopped, restarting, too many connections, locked for too long).
    Unavailable,
    /// A named constraint or trigger of the database refused the row.
    Constraint(String),
    /// A row that the model says cannot exist.
    Contradiction,
    /// Anything else.
    Other,
}

/// An opaque failure with its cause kept for the log.
#[derive(Debug)]
pub struct Fault {
    kind: FaultKind,
    what: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Fault {
    /// A fault with muster's own words for what was being done.
    pub fn new(kind: FaultKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            what: what.into(),
            source: None,
        }
    }

    /// A fault of no particular kind.
    pub fn other(what: impl Into<String>) -> Self {
        Self::new(FaultKind::Other, what)
    }

    /// A row that contradicts the model. `table` and `id` say which; nothing of its content is kept.
    pub fn contradiction(table: &'static str, id: i64, what: &'static str) -> Self {
        Self::new(FaultKind::Contradiction, format!("{table} {id}: {what}"))
    }

    /// The same fault with its cause.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// What kind of thing broke.
    pub fn kind(&self) -> &FaultKind {
        &self.kind
    }

    /// The name of the constraint that refused, when one did.
    pub fn constraint(&self) -> Option<&str> {
        match &self.kind {
            FaultKind::Constraint(name) => Some(name),
            _ => None,
        }
    }

    /// A sentence for a person outside, without the cause.
    pub fn sentence(&self) -> &'static str {
        match self.kind {
            FaultKind::StorageFull => {
                "muster's disk is full, so nothing was stored. Try again once its owner has made room."
            }
            FaultKind::ReadOnly => {
                "muster cannot write to its database, so nothing was stored. Its owner has to make the data folder writable."
            }
            FaultKind::Unavailable => {
                "muster's database did not answer in time, so it is not known whether this was stored. Send it again shortly: what is sent twice is stored once."
            }
            _ => {
                "Something broke inside muster. Nothing was stored by this request. The server's log says what."
            }
        }
    }

    /// The whole chain in one line, for the log.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut next = self.source();
        while let Some(cause) = next {
            text.push_str(": ");
            text.push_str(&cause.to_string());
            next = cause.source();
        }
        crate::text::terminal(&text)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl Error for Fault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|s| s as &(dyn Error + 'static))
    }
}

impl From<crate::secret::NoRandomness> for Fault {
    fn from(cause: crate::secret::NoRandomness) -> Self {
        Fault::other("no secret could be made").because(cause)
    }
}
