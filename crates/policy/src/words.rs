//! The closed sets of words: actions, kinds of resources, effects, layers. Never accepts a word that is not listed here.

use std::fmt;
use std::str::FromStr;

use crate::invalid::{Invalid, Shown};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $refusal:ident, { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant),+
        }

        impl $name {
            /// Every one, in the order of the enumeration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it is stored, printed and typed.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err(Invalid::$refusal(Shown::of(text))),
                }
            }
        }
    };
}

words!(
    /// What a grant is about. There are exactly eleven.
    Action, Action, {
        /// Listing projects and tasks, reading the state of a task.
        ProjectsRead = "projects_read",
        /// Creating tasks, spawning them, moving their status.
        TasksWrite = "tasks_write",
        /// Closing a task, which `tasks_write` does not include.
        TasksClose = "tasks_close",
        /// Learning the path and the branch of a task's worktree.
        WorktreeRead = "worktree_read",
        /// Reading the diff of a worktree.
        DiffRead = "diff_read",
        /// Opening pull requests.
        PrWrite = "pr_write",
        /// Listing hosts.
        HostsRead = "hosts_read",
        /// Everything that reads a database, and a part of every call to one.
        DbRead = "db_read",
        /// Statements that change data or schema.
        DbWrite = "db_write",
        /// Listing and fetching tickets.
        IssuesRead = "issues_read",
        /// Creating tickets and importing them as tasks.
        IssuesWrite = "issues_write",
    }
);

words!(
    /// What kind of thing a grant or a call names.
    ScopeKind, Kind, {
        /// A project.
        Project = "project",
        /// The worktree of a task; it lies in a project.
        Worktree = "worktree",
        /// A connection to a database.
        DbConnection = "db_connection",
        /// A machine that runs agents.
        Host = "host",
        /// An account at a forge or tracker.
        Integration = "integration",
        /// A repository at a forge, `OWNER/NAME`.
        Repo = "repo",
    }
);

words!(
    /// What a matching grant does, from the mildest to the strictest.
    Effect, Effect, {
        /// The call goes on.
        Allow = "allow",
        /// A person is asked.
        Ask = "ask",
        /// The call is refused, whatever any other grant says.
        Deny = "deny",
    }
);

words!(
    /// Which layer of a policy, from the outermost to the innermost.
    LayerName, Layer, {
        /// Over everything.
        Global = "global",
        /// Over the tasks of a project.
        Project = "project",
        /// Over one task; the only layer of its own that a fork has.
        Task = "task",
    }
);

impl Action {
    /// The kinds of resources that a call of this action can name and a grant of it can be scoped to, the one that it is mainly about first.
    #[must_use]
    pub const fn kinds(self) -> &'static [ScopeKind] {
        match self {
            Self::ProjectsRead => &[ScopeKind::Project],
            Self::TasksWrite | Self::TasksClose | Self::WorktreeRead | Self::DiffRead => {
                &[ScopeKind::Project, ScopeKind::Worktree]
            }
            Self::PrWrite => &[ScopeKind::Repo],
            Self::HostsRead => &[ScopeKind::Host],
            Self::DbRead | Self::DbWrite => &[ScopeKind::DbConnection],
            Self::IssuesRead | Self::IssuesWrite => &[ScopeKind::Integration],
        }
    }

    /// Whether `kind` is one of [`Self::kinds`].
    #[must_use]
    pub fn takes(self, kind: ScopeKind) -> bool {
        self.kinds().contains(&kind)
    }

    /// What the action opens, in words for a list of actions.
    #[must_use]
    pub const fn covers(self) -> &'static str {
        match self {
            Self::ProjectsRead => "listing projects and tasks, reading the state of a task",
            Self::TasksWrite => "creating tasks, spawning them, moving their status",
            Self::TasksClose => "closing a task",
            Self::WorktreeRead => "learning the path and the branch of a task's worktree",
            Self::DiffRead => "reading the diff of a worktree",
            Self::PrWrite => "opening pull requests",
            Self::HostsRead => "listing hosts",
            Self::DbRead => {
                "schemas, objects, describe, preview, explain and read queries; charged on every database call"
            }
            Self::DbWrite => "statements that change data or schema; of no use without db_read",
            Self::IssuesRead => "listing and fetching tickets",
            Self::IssuesWrite => "creating tickets and importing them as tasks",
        }
    }

    /// Whether the action changes something, so that an approval of it is good for the same arguments only.
    #[must_use]
    pub const fn changes(self) -> bool {
        match self {
            Self::TasksWrite | Self::TasksClose | Self::PrWrite | Self::DbWrite | Self::IssuesWrite => true,
            Self::ProjectsRead
            | Self::WorktreeRead
            | Self::DiffRead
            | Self::HostsRead
            | Self::DbRead
            | Self::IssuesRead => false,
        }
    }

    /// The action's own bit in a mask of actions.
    pub(crate) const fn bit(self) -> u16 {
        1 << (self as u16)
    }
}
