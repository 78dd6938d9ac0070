//! Named shapes of a whole layer, expanded against real resources. Never authors `any`, and never leaves a layer absent.

use std::fmt;
use std::str::FromStr;

use crate::invalid::{Invalid, Shown};
use crate::layer::{Grant, Layer};
use crate::scope::{Scope, Target};
use crate::words::{Action, Effect};

/// A named shape of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Preset {
    /// Reads databases.
    AnalyticsReadOnly,
    /// Reads tasks, worktrees and diffs.
    Reviewer,
    /// A reviewer that also works on tasks and asks before it opens a pull request.
    Implementer,
    /// Reads and writes tickets.
    Triage,
    /// Sees what is there and changes nothing.
    Observer,
}

impl Preset {
    /// Every one.
    pub const ALL: &'static [Self] = &[
        Self::AnalyticsReadOnly,
        Self::Reviewer,
        Self::Implementer,
        Self::Triage,
        Self::Observer,
    ];

    /// The name as it is typed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AnalyticsReadOnly => "analytics-read-only",
            Self::Reviewer => "reviewer",
            Self::Implementer => "implementer",
            Self::Triage => "triage",
            Self::Observer => "observer",
        }
    }

    /// What it is for, in a sentence.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::AnalyticsReadOnly => "Reads every database connection of the project, and nothing else.",
            Self::Reviewer => "Reads the project's tasks, their worktrees and their diffs.",
            Self::Implementer => {
                "Reads tasks, worktrees and diffs, creates, spawns and moves tasks, and asks before it opens a pull request."
            }
            Self::Triage => "Reads, creates and imports tickets.",
            Self::Observer => "Lists the project's tasks, the hosts and the tickets, and changes nothing.",
        }
    }

    const fn shape(self) -> &'static [(Action, Effect)] {
        match self {
            Self::AnalyticsReadOnly => &[(Action::DbRead, Effect::Allow)],
            Self::Reviewer => &[
                (Action::ProjectsRead, Effect::Allow),
                (Action::WorktreeRead, Effect::Allow),
                (Action::DiffRead, Effect::Allow),
            ],
            Self::Implementer => &[
                (Action::ProjectsRead, Effect::Allow),
                (Action::TasksWrite, Effect::Allow),
                (Action::WorktreeRead, Effect::Allow),
                (Action::DiffRead, Effect::Allow),
                (Action::PrWrite, Effect::Ask),
            ],
            Self::Triage => &[
                (Action::IssuesRead, Effect::Allow),
                (Action::IssuesWrite, Effect::Allow),
            ],
            Self::Observer => &[
                (Action::ProjectsRead, Effect::Allow),
                (Action::HostsRead, Effect::Allow),
                (Action::IssuesRead, Effect::Allow),
            ],
        }
    }

    /// The layer that the preset makes of `resources`, those of the project: a grant for each of them whose kind the action is mainly about.
    ///
    /// A project stands for the worktrees in it, those to come included. Where no resource fits, the layer is empty and refuses everything.
    ///
    /// # Errors
    /// [`Invalid::TooMany`].
    pub fn expand(self, resources: &[Target]) -> Result<Layer, Invalid> {
        let mut grants: Vec<Grant> = self
            .shape()
            .iter()
            .flat_map(|(action, effect)| {
                resources
                    .iter()
                    .filter(|target| action.kinds().first() == Some(&target.resource().kind()))
                    .map(|target| Grant {
                        action: *action,
                        scope: Scope::One(target.resource().clone()),
                        effect: *effect,
                    })
            })
            .collect();
        grants.sort_unstable();
        grants.dedup();
        Layer::authored(grants)
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Preset {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .iter()
            .copied()
            .find(|preset| preset.as_str() == text)
            .ok_or_else(|| Invalid::Preset(Shown::of(text)))
    }
}
