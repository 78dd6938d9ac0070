//! Declared documents: whether their owners can be read, and whether somebody else wrote them last. Never opens a document.

use super::Exam;
use super::Severity::{Error, Info, Warning};
use crate::scopes;

const NAME: &str = "document-drift";

/// Answers the names of the checks that were made.
pub(super) fn documents(exam: &mut Exam<'_>) -> &'static [&'static str] {
    let drift = match scopes::drift(exam.home) {
        Ok(drift) => drift,
        Err(error) if exam.holds_up(&[NAME], &error) => return &[],
        Err(error) => {
            exam.find(
                NAME,
                Error,
                "scopes.json",
                format!("who may write which document cannot be told: {}", error.chain()),
            );
            return &[NAME];
        }
    };
    for drifted in drift.drifted {
        let role = drifted.role.as_deref().unwrap_or("no role");
        let why = format!(
            "'{}' ({role}) committed it last, and it belongs to {}; ask them to look at it",
            drifted.agent,
            drifted.owners.join(" and ")
        );
        exam.find(NAME, Warning, &drifted.path, why);
    }
    for unknown in drift.unknown {
        exam.find(NAME, Info, "scopes.json", unknown);
    }
    &[NAME]
}
