//! The report as lines that a person reads, the same wherever it is printed. Never a word that the report does not hold.

use super::{Report, Severity};

impl Severity {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

impl Report {
    /// A line for each finding, the worst first, and the verdict last. Safe to print.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .findings
            .iter()
            .map(|finding| {
                let fixed = if finding.fixed == Some(true) {
                    " (repaired)"
                } else {
                    ""
                };
                format!(
                    "{}: {} {}: {}{fixed}",
                    finding.severity.as_str(),
                    finding.check,
                    finding.subject,
                    finding.message
                )
            })
            .collect();
        lines.push(
            if self.healthy {
                "healthy: the bus is internally consistent"
            } else {
                "not healthy: `muster bus doctor --fix` applies the safe, reversible repairs"
            }
            .to_owned(),
        );
        lines
    }
}
