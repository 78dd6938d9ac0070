//! The report as lines that a person reads, the same wherever it is printed. Never a word that the report does not hold.

use super::{Finding, Report, Severity};

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
        let mut lines: Vec<String> = self.findings.iter().map(line).collect();
        lines.push(self.verdict());
        lines
    }

    /// The verdict on the directory, which it names, and what is left to do.
    pub fn verdict(&self) -> String {
        let open = |finding: &&Finding| finding.fixed != Some(true);
        let errors = self
            .findings
            .iter()
            .filter(open)
            .filter(|finding| finding.severity == Severity::Error);
        // What a run with fix could not put right, the next one will not either.
        let (mendable, by_hand): (Vec<&Finding>, Vec<&Finding>) =
            errors.partition(|finding| finding.fixable && finding.fixed.is_none());
        let dir = &self.dir;
        if self.healthy {
            let warnings = self
                .findings
                .iter()
                .filter(open)
                .filter(|finding| finding.severity == Severity::Warning);
            return match warnings.count() {
                0 => format!("healthy: the bus at {dir} is consistent"),
                1 => format!("healthy: the bus at {dir} is consistent; 1 warning is left"),
                more => format!("healthy: the bus at {dir} is consistent; {more} warnings are left"),
            };
        }
        let mut said = format!("not healthy: the bus at {dir}");
        if !mendable.is_empty() {
            said.push_str("; `muster bus doctor --fix` applies the safe, reversible repairs");
        }
        match by_hand.len() {
            0 => {}
            1 => said.push_str("; 1 error is to be put right by hand"),
            more => said.push_str(&format!("; {more} errors are to be put right by hand")),
        }
        said
    }
}

fn line(finding: &Finding) -> String {
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
}
