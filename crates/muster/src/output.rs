//! What commands print: results on stdout, sentences on stderr, one JSON document with `--json`. Never prints outside text unescaped to a terminal.

use std::io::Write as _;
use std::process::ExitCode;

use muster_core::text::terminal;
use serde_json::{Value, json};

/// Why a command ended without its result.
#[derive(Debug)]
pub(crate) struct Failure {
    code: &'static str,
    sentence: String,
    usage: bool,
    /// An exit code that is not muster's own: of a program that was run, or that was to be.
    ended: Option<u8>,
    /// Further fields of the error document.
    details: Vec<(&'static str, Value)>,
    /// Lines behind the sentence, for who reads it.
    below: Vec<String>,
}

impl Failure {
    /// Refused or failed: exit code 1.
    pub(crate) fn refused(code: &'static str, sentence: impl Into<String>) -> Self {
        Self {
            code,
            sentence: sentence.into(),
            usage: false,
            ended: None,
            details: Vec::new(),
            below: Vec::new(),
        }
    }

    /// Wrong usage: exit code 2.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self {
            code: "usage",
            sentence: sentence.into(),
            usage: true,
            ended: None,
            details: Vec::new(),
            below: Vec::new(),
        }
    }

    /// Exit code 1 after a command has already printed what it found.
    pub(crate) fn silent() -> Self {
        Self {
            code: "",
            sentence: String::new(),
            usage: false,
            ended: None,
            details: Vec::new(),
            below: Vec::new(),
        }
    }

    /// The exit code of a program that was run; it said itself what there was to say.
    pub(crate) fn ended(code: u8) -> Self {
        Self {
            ended: Some(code),
            ..Self::silent()
        }
    }

    /// The same with another exit code than 1.
    #[must_use]
    pub(crate) fn with_exit(mut self, code: u8) -> Self {
        self.ended = Some(code);
        self
    }

    /// Whether the words were wrong: exit code 2.
    pub(crate) fn is_usage(&self) -> bool {
        self.usage
    }

    /// The same with a further field in the error document.
    #[must_use]
    pub(crate) fn with(mut self, field: &'static str, value: Value) -> Self {
        self.details.push((field, value));
        self
    }

    /// The same with what it is about before the sentence, which must be safe for a terminal.
    #[must_use]
    pub(crate) fn about(mut self, what: &str) -> Self {
        self.sentence = format!("{what}: {}", self.sentence);
        self
    }

    /// The same with lines behind the sentence, each safe for a terminal.
    #[must_use]
    pub(crate) fn with_lines(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.below.extend(lines);
        self
    }

    /// What went wrong.
    pub(crate) fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Prints the sentence, with `--json` the error document too.
    pub(crate) fn report(&self, json: bool) -> ExitCode {
        let exit = self.ended.map_or(ExitCode::FAILURE, ExitCode::from);
        if self.sentence.is_empty() {
            return exit;
        }
        notice(&format!("muster: {}", self.sentence));
        for line in &self.below {
            notice(&format!("  {}", terminal(line)));
        }
        if self.usage {
            return ExitCode::from(2);
        }
        if json {
            // Standard output may be closed; the exit code still tells.
            let mut error = json!({"code": self.code, "message": self.sentence});
            if let Some(fields) = error.as_object_mut() {
                fields.extend(
                    self.details
                        .iter()
                        .map(|(name, value)| ((*name).to_owned(), value.clone())),
                );
            }
            let _ = document(&json!({"error": error}));
        }
        exit
    }
}

impl From<muster_core::Fault> for Failure {
    fn from(fault: muster_core::Fault) -> Self {
        Self::refused("fault", fault.chain())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            // Whoever read the output has seen enough, as `head` has.
            return Self::silent();
        }
        Self::refused("io", error.to_string())
    }
}

/// Prints one JSON document.
pub(crate) fn document(value: &Value) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Prints one JSON document on a line of its own, at once.
pub(crate) fn json_line(value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, value).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints a document of muster's own as it is.
pub(crate) fn bytes(text: &[u8]) -> Result<(), Failure> {
    Ok(std::io::stdout().lock().write_all(text)?)
}

/// Prints one line of muster's own or of cleaned text.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Says a sentence on standard error. Where that is closed or its disk is full, nobody reads it, and that is no reason to end.
pub(crate) fn notice(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints one line of a program that goes on whether or not it could be printed.
pub(crate) fn told(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        tracing::debug!(error = %error, "standard output cannot be written");
    }
}

/// Prints rows in columns, each cell safe for a terminal. Says on stderr when there are none.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
    if rows.is_empty() {
        notice("none");
        return Ok(());
    }
    let cells: Vec<Vec<String>> = std::iter::once(head.iter().map(|h| (*h).to_owned()).collect())
        .chain(
            rows.iter()
                .map(|row| row.iter().map(|cell| terminal(cell)).collect()),
        )
        .collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|i| {
            cells
                .iter()
                .filter_map(|row| row.get(i))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    for row in &cells {
        let text: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        line(text.join("  ").trim_end())?;
    }
    Ok(())
}
