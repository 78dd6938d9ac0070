//! The rules of tasks as pure functions: who moves a status where, what a ticket's key is. Never reads a row.

use std::fmt;

use muster_core::ids::TokenId;

use super::TaskError;
use crate::projects::RepoName;

/// Who acts on a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Its owner.
    Owner,
    /// An agent, by its token. That a policy lets it is decided before.
    Agent(TokenId),
}

impl fmt::Display for By {
    /// The word that is stored.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("owner"),
            Self::Agent(token) => write!(f, "agent:{token}"),
        }
    }
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskStatus {
    /// Nobody works on it.
    Open,
    /// Somebody does.
    InProgress,
    /// Somebody has to look at what was done.
    ReadyForReview,
    /// Done, or given up.
    Closed,
}

impl TaskStatus {
    /// Every status.
    pub const ALL: [Self; 4] = [Self::Open, Self::InProgress, Self::ReadyForReview, Self::Closed];

    /// Reads the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// The stored word, which is also the word on every door.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::InProgress => "in_progress",
            Self::ReadyForReview => "ready_for_review",
            Self::Closed => "closed",
        }
    }
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunState {
    /// It waits for a runner.
    Queued,
    /// It was taken back before one took it.
    Cancelled,
}

impl RunState {
    /// Every state.
    pub const ALL: [Self; 2] = [Self::Queued, Self::Cancelled];

    /// Reads the stored word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// The stored word, which is also the word on every door.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Who sets a status, and by which act: each is granted on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mover {
    /// The owner.
    Owner,
    /// An agent that moves a status.
    AgentMoving,
    /// An agent that closes.
    AgentClosing,
}

/// What setting a status does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing: it stands there already.
    Stays,
    /// Moves an open task.
    Moves,
    /// Closes it.
    Closes,
    /// Opens a closed task again.
    Reopens,
}

/// A status that may not be set. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StatusRefusal {
    /// Closing is an act of its own.
    #[error(
        "moving a status does not close a task; close it with muster_close_task, which needs tasks_close; nothing was changed"
    )]
    ClosesByMove,
    /// A closed task is the owner's to open.
    #[error("the task is closed, and only its owner opens it again; nothing was changed")]
    ReopensAsAgent,
}

/// Decides what setting a status does, by where the task stands and who sets it.
///
/// # Errors
/// [`StatusRefusal`].
pub(super) fn step(from: TaskStatus, to: TaskStatus, by: Mover) -> Result<Step, StatusRefusal> {
    use TaskStatus::Closed;
    match (from, to, by) {
        (_, Closed, Mover::AgentMoving) => Err(StatusRefusal::ClosesByMove),
        (Closed, Closed, _) => Ok(Step::Stays),
        (_, Closed, _) => Ok(Step::Closes),
        (Closed, _, Mover::Owner) => Ok(Step::Reopens),
        (Closed, _, _) => Err(StatusRefusal::ReopensAsAgent),
        (from, to, _) if from == to => Ok(Step::Stays),
        _ => Ok(Step::Moves),
    }
}

/// A ticket at a forge: `OWNER/NAME#NUMBER`, spelled in one way only, so that one ticket is imported once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TicketKey(String);

impl TicketKey {
    /// Checks a key.
    ///
    /// # Errors
    /// [`TaskError::Key`].
    pub fn parse(text: &str) -> Result<Self, TaskError> {
        let (repo, number) = text.split_once('#').ok_or(TaskError::Key)?;
        let counts = (1..=18).contains(&number.len())
            && number.bytes().all(|b| b.is_ascii_digit())
            && !number.starts_with('0');
        if counts && RepoName::parse(repo).is_ok() {
            Ok(Self(text.to_owned()))
        } else {
            Err(TaskError::Key)
        }
    }

    /// The key.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOVERS: [Mover; 3] = [Mover::Owner, Mover::AgentMoving, Mover::AgentClosing];

    #[test]
    fn statuses_and_states_are_spelled_as_they_are_stored() {
        for status in TaskStatus::ALL {
            assert_eq!(TaskStatus::parse(status.as_str()), Some(status));
        }
        for state in RunState::ALL {
            assert_eq!(RunState::parse(state.as_str()), Some(state));
        }
        assert_eq!(
            (TaskStatus::parse("Open"), RunState::parse("running")),
            (None, None)
        );
    }

    // spec: POL-018
    #[test]
    fn a_status_move_of_an_agents_never_closes() {
        for from in TaskStatus::ALL {
            assert_eq!(
                step(from, TaskStatus::Closed, Mover::AgentMoving),
                Err(StatusRefusal::ClosesByMove)
            );
        }
    }

    #[test]
    fn every_combination_is_decided_as_the_table_says() {
        use TaskStatus::Closed;
        for from in TaskStatus::ALL {
            for to in TaskStatus::ALL {
                for by in MOVERS {
                    let expected = if to == Closed && by == Mover::AgentMoving {
                        Err(StatusRefusal::ClosesByMove)
                    } else if from == to {
                        Ok(Step::Stays)
                    } else if to == Closed {
                        Ok(Step::Closes)
                    } else if from != Closed {
                        Ok(Step::Moves)
                    } else if by == Mover::Owner {
                        Ok(Step::Reopens)
                    } else {
                        Err(StatusRefusal::ReopensAsAgent)
                    };
                    // An agent's move that stays in closed is the first line: it asks for what it may not.
                    assert_eq!(step(from, to, by), expected, "{from:?} {to:?} {by:?}");
                }
            }
        }
    }

    fn status() -> impl Strategy<Value = TaskStatus> {
        prop::sample::select(TaskStatus::ALL.to_vec())
    }

    proptest! {
        /// Whatever agents try one after another by moving statuses, a closed task stays closed and none becomes closed.
        #[test]
        fn no_sequence_of_agents_moves_crosses_the_closed_line(
            first in status(),
            wanted in prop::collection::vec(status(), 0..20),
        ) {
            let mut now = first;
            for to in wanted {
                match step(now, to, Mover::AgentMoving) {
                    Ok(Step::Moves) => now = to,
                    Ok(Step::Stays) | Err(_) => {}
                    Ok(other) => prop_assert!(false, "{other:?}"),
                }
                prop_assert_eq!(now == TaskStatus::Closed, first == TaskStatus::Closed);
            }
        }

        /// What a step says is what happened between the two statuses.
        #[test]
        fn a_step_describes_its_ends(from in status(), to in status(), by in prop::sample::select(MOVERS.to_vec())) {
            if let Ok(step) = step(from, to, by) {
                let (was, is) = (from == TaskStatus::Closed, to == TaskStatus::Closed);
                let described = match step {
                    Step::Stays => from == to,
                    Step::Moves => !was && !is && from != to,
                    Step::Closes => !was && is,
                    Step::Reopens => was && !is && by == Mover::Owner,
                };
                prop_assert!(described);
            }
        }
    }

    #[test]
    fn a_ticket_has_one_spelling() {
        for good in ["ada/engine#1", "group/sub/x#123456789012345678"] {
            assert_eq!(TicketKey::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            "",
            "#1",
            "ada#1",
            "ada/engine",
            "ada/engine#",
            "ada/engine#0",
            "ada/engine#01",
            "ada/engine#-1",
            "ada/engine#1#2",
            "ada/engine#1 ",
            " ada/engine#1",
            "ada/engine#1234567890123456789",
            "ada/engine!1",
            "ada/../x#1",
        ] {
            assert!(matches!(TicketKey::parse(bad), Err(TaskError::Key)), "{bad:?}");
        }
    }

    #[test]
    fn who_acted_is_one_word() {
        assert_eq!(By::Owner.to_string(), "owner");
        assert_eq!(By::Agent(TokenId::new(7)).to_string(), "agent:7");
    }
}
