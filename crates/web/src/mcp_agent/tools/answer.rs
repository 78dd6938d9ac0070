//! What a tool answers: a document, what a database said, or why it did not do its work, as a code, a sentence, the pairs. Never a protocol error: a model must be able to read it.

use muster_app::access::Refused;
use muster_app::tasks::TaskError;
use muster_core::Fault;
use muster_core::text::TextError;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::mcp_agent::exact;

/// What a call that did its work answers.
pub(super) enum Done {
    /// A document of muster's own; its text is the same document.
    Shown(Value),
    /// What a database said, with a text that a model reads well.
    Said {
        /// JSON of one line, as the database wrote it.
        json: String,
        /// The text.
        text: String,
    },
}

impl From<Value> for Done {
    fn from(value: Value) -> Self {
        Self::Shown(value)
    }
}

impl Done {
    /// As the protocol has it.
    pub(super) fn result(self) -> CallToolResult {
        match self {
            Self::Shown(value) => CallToolResult::structured(value),
            Self::Said { json, text } => {
                let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
                result.structured_content = Some(exact::value(&json));
                result
            }
        }
    }
}

/// Why a call did not do its work.
#[derive(Debug)]
pub(super) struct Failed(Value);

impl Failed {
    pub(super) fn new(code: &str, message: impl Into<String>) -> Self {
        Self(json!({"error": {"code": code, "message": message.into(), "pairs": []}}))
    }

    /// Nobody waits for the call any more.
    pub(super) fn withdrawn() -> Self {
        Self::new(
            "withdrawn",
            "Withdrawn, and nothing was done: the call was given up before it was decided.",
        )
    }

    /// Arguments that cannot be meant.
    pub(super) fn argument(message: impl std::fmt::Display) -> Self {
        Self::new("invalid_argument", format!("{message}; nothing was done"))
    }

    /// The call may run, and there is nothing that it could run on.
    pub(super) fn missing(what: &str) -> Self {
        Self::new("not_found", format!("there is no such {what}; nothing was done"))
    }

    /// The same with another field.
    #[must_use]
    pub(super) fn with(mut self, field: &str, value: &str) -> Self {
        let error = self.0.get_mut("error").and_then(Value::as_object_mut);
        if let Some(error) = error {
            error.insert(field.to_owned(), json!(value));
        }
        self
    }

    /// What the result carries.
    pub(super) fn into_value(self) -> Value {
        self.0
    }
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Self {
        Self(refused.json())
    }
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        tracing::error!(error = %fault.chain(), "an agent's call failed inside muster");
        Self::new("refused_error", fault.sentence())
    }
}

impl From<TextError> for Failed {
    fn from(error: TextError) -> Self {
        Self::argument(error)
    }
}

impl From<TaskError> for Failed {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Fault(fault) => fault.into(),
            TaskError::NotFound
            | TaskError::NoProject
            | TaskError::NoPolicy
            | TaskError::NoIntegration
            | TaskError::NoHost
            | TaskError::NoRun => Self::new("not_found", error.to_string()),
            TaskError::PolicyNotYours
            | TaskError::Key
            | TaskError::Status(_)
            | TaskError::Closed
            | TaskError::ProjectRemoved
            | TaskError::Worktree(_)
            | TaskError::NotQueued => Self::new("invalid_argument", error.to_string()),
        }
    }
}
