//! Every way an act on policies is refused, with its sentence. Never repeats outside text unescaped.

use muster_core::Fault;
use muster_policy::Invalid;

use super::view::Dependents;

/// Why an act on a policy was refused. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// No such policy.
    #[error("there is no such policy; muster policy list shows those there are")]
    NotFound,
    /// No such task.
    #[error("there is no such task; muster task list shows those there are")]
    NoSuchTask,
    /// No such project.
    #[error("there is no such project; muster project list shows those there are")]
    NoSuchProject,
    /// The scope names nothing that exists.
    #[error("{0} does not exist, so nothing was granted on it")]
    NoSuchResource(String),
    /// Several that were removed had the name.
    #[error(
        "several that were removed had this name: {0}; name the one that is meant by its id. Nothing was changed"
    )]
    SeveralRemoved(String),
    /// A second policy of this name.
    #[error("there is a policy of this name already; nothing was made")]
    NameTaken,
    /// The name has the wrong shape.
    #[error(
        "a policy's name is 1 to 64 of the characters a-z, 0-9, dot, underscore and hyphen, starts with a letter or digit and is not digits alone"
    )]
    Name,
    /// The built-in policy is what it is.
    #[error(
        "closed is built in: it has no layers and grants nothing, and nobody can change, fork or delete it; make a policy of your own"
    )]
    BuiltIn,
    /// The policy has changed since.
    #[error(
        "the policy is at revision {current} by now and not at {given}; look at it again. Nothing was changed"
    )]
    StaleRevision {
        /// The revision that the edit was meant for.
        given: i64,
        /// The revision there is.
        current: i64,
    },
    /// An upper layer on a fork.
    #[error("{0}")]
    NotARoot(Invalid),
    /// A grant, a scope or a layer that cannot be.
    #[error("{0}")]
    Invalid(Invalid),
    /// Something still resolves through it.
    #[error(
        "the policy is still in use by {0}; give those another policy first. It was not deleted, and they keep it"
    )]
    InUse(Box<Dependents>),
    /// Several things resolve through the task layer.
    #[error(
        "the policy's task layer is shared by {0}, so it was left as it was; fork the policy for one task, or write to all of them with --force"
    )]
    Shared(Box<Dependents>),
    /// An import that cannot be read as one.
    #[error("{0}; nothing was imported")]
    Import(String),
    /// Something broke.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl From<Invalid> for PolicyError {
    fn from(invalid: Invalid) -> Self {
        match invalid {
            Invalid::NotARoot(_) => Self::NotARoot(invalid),
            other => Self::Invalid(other),
        }
    }
}

impl PolicyError {
    /// The stable code, as `--json` and tools print it.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotFound | Self::NoSuchTask | Self::NoSuchProject | Self::NoSuchResource(_) => "not_found",
            Self::SeveralRemoved(_) => "ambiguous",
            Self::NameTaken => "name_taken",
            Self::Name => "usage",
            Self::BuiltIn => "built_in",
            Self::StaleRevision { .. } => "stale_revision",
            Self::NotARoot(_) => "not_a_root",
            Self::Invalid(Invalid::NoSuchGrant { .. }) => "not_found",
            Self::Invalid(_) => "usage",
            Self::InUse(_) => "in_use",
            Self::Shared(_) => "shared",
            Self::Import(_) => "bad_import",
            Self::Fault(_) => "fault",
        }
    }

    /// Whether the words were wrong rather than refused: the command line's exit code 2.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        match self {
            Self::Name => true,
            Self::Invalid(invalid) => {
                !matches!(invalid, Invalid::NoSuchGrant { .. } | Invalid::TooMany { .. })
            }
            _ => false,
        }
    }

    /// What still depends on the policy, where that is why.
    #[must_use]
    pub fn dependents(&self) -> Option<&Dependents> {
        match self {
            Self::InUse(dependents) | Self::Shared(dependents) => Some(dependents),
            _ => None,
        }
    }
}
