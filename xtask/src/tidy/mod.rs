//! The house rules as programs: reads every file of the repository and says which line breaks which rule. Never changes a file.
//!
//! Each rule is a function from the [`Tree`] to findings, so that a test can hand it a tree of samples.

mod docs;
mod edges;
mod rust;
mod source;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::process::Command;

/// One broken rule, in the `path:line: sentence` form that editors turn into a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    sentence: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.sentence)
    }
}

/// What [`check`] found.
#[derive(Debug, Default)]
pub struct Report {
    /// Broken rules; any of them fails the run.
    pub findings: Vec<Finding>,
    /// Things to look at that fail nothing: files that outgrew one reading.
    pub notes: Vec<Finding>,
}

impl Report {
    fn finding(&mut self, path: &str, line: usize, sentence: impl Into<String>) {
        self.findings.push(Finding {
            path: path.to_owned(),
            line,
            sentence: sentence.into(),
        });
    }

    fn note(&mut self, path: &str, line: usize, sentence: impl Into<String>) {
        self.notes.push(Finding {
            path: path.to_owned(),
            line,
            sentence: sentence.into(),
        });
    }
}

/// The repository's files: path from the root, with `/`, to the text. What is not UTF-8 is listed without a text.
#[derive(Debug, Default)]
pub struct Tree {
    texts: BTreeMap<String, String>,
    others: BTreeSet<String>,
}

impl Tree {
    /// Reads every file that git tracks or would track (not what is ignored).
    ///
    /// # Errors
    /// A sentence, when git cannot list the files or one of them cannot be read.
    pub fn read(root: &Path) -> Result<Self, String> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|error| format!("git could not be started to list the files: {error}"))?;
        if !listed.status.success() {
            let said = String::from_utf8_lossy(&listed.stderr);
            return Err(format!(
                "git could not list the files of {}: {}",
                root.display(),
                said.trim()
            ));
        }
        let mut tree = Self::default();
        for path in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
            let file = root.join(path);
            // Listed but deleted in the work tree, or a link to a folder.
            if !file.is_file() {
                continue;
            }
            let bytes = std::fs::read(&file).map_err(|error| format!("{path} could not be read: {error}"))?;
            match String::from_utf8(bytes) {
                Ok(text) => drop(tree.texts.insert(path.to_owned(), text)),
                Err(_) => drop(tree.others.insert(path.to_owned())),
            }
        }
        Ok(tree)
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.len() + self.others.len()
    }

    /// Whether there is no file at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// Whether a file or folder of this path exists.
    fn holds(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        let below = |found: &String| found.starts_with(&folder);
        self.texts.contains_key(path)
            || self.others.contains(path)
            || path.is_empty()
            || self
                .texts
                .range(folder.clone()..)
                .next()
                .is_some_and(|(found, _)| below(found))
            || self.others.range(folder.clone()..).next().is_some_and(below)
    }
}

/// Runs every rule.
#[must_use]
pub fn check(tree: &Tree) -> Report {
    let mut report = Report::default();
    source::first_line_says_what_for(tree, &mut report);
    source::nothing_is_left_unfinished(tree, &mut report);
    source::no_query_error_is_dropped(tree, &mut report);
    source::no_word_of_the_build_machine(tree, &mut report);
    source::sizes(tree, &mut report);
    edges::crates(tree, &mut report);
    edges::imports(tree, &mut report);
    edges::slices(tree, &mut report);
    docs::decisions(tree, &mut report);
    docs::links(tree, &mut report);
    report.findings.sort();
    report.notes.sort();
    report
}
