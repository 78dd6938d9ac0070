//! Looking over the whole directory for what has drifted, leaked or broken, and putting right what can be put right without a loss. Never changes a byte unless it is told to, and never takes away what somebody alive holds.

mod damage;
mod documents;
mod environment;
mod locks;
mod logs;
mod markers;
mod offsets;
mod rooms;
mod salvage;
mod seats;
mod sessions;
mod stray;
mod tokens;
mod told;
mod unfinished;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use muster_core::{Clock, text};
use serde::Serialize;

use crate::error::{BusError, failed};
use crate::files::{NotPlain, open_plain};
use crate::home::{self, Home};
use crate::limits::Limits;
use crate::log::scan::scan;

/// Files over this many bytes are reported unless told otherwise.
const MAX_FILE: u64 = 16 * 1024 * 1024;
/// What nobody used for this long, in milliseconds, is left over; what is younger may belong to somebody who is away.
const YOUNG: i64 = 7 * 24 * 60 * 60 * 1_000;
/// The subject of what is about all of the directory.
const WHOLE: &str = ".";
/// Longest message or subject, in characters.
const SHORT: usize = 400;

/// How to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether what can be put right safely is.
    pub fix: bool,
    /// Files over this many bytes are reported; 16 MiB unless given.
    pub max_file_bytes: Option<u64>,
    /// The value of `PATH` to look for programs in. Without it they are not looked for.
    pub path: Option<OsString>,
    /// The value of `AGENT_COORD_TRANSPORT`, which chooses a transport where `config.json` names none.
    pub transport: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            fix: false,
            max_file_bytes: None,
            path: std::env::var_os("PATH"),
            transport: std::env::var("AGENT_COORD_TRANSPORT").ok(),
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The bus is not consistent, or it cannot be told whether it is.
    Error,
    /// Something is left over or out of date.
    Warning,
    /// Good to know.
    Info,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Which check found it.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The file, agent, channel or process it is about.
    pub subject: String,
    /// What it is and what to do. One line, safe to print.
    pub message: String,
    /// Whether a run with `fix` puts it right.
    pub fixable: bool,
    /// Of a run with `fix`: whether it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<bool>,
}

/// What a look over the directory found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The directory that was looked at, safe to print.
    pub dir: String,
    /// Whether the bus is consistent: nothing of severity `error` is left.
    pub healthy: bool,
    /// The worst first.
    pub findings: Vec<Finding>,
    /// Every check that was made, whether or not it found something. One that a damaged file keeps from being made is not among them.
    pub checked: Vec<&'static str>,
    /// How many findings were put right.
    pub fixed: usize,
    /// Whether this run was told to put things right.
    pub fix: bool,
}

type Check = fn(&mut Exam<'_>) -> Result<(), BusError>;

/// Each check with the names of what it finds, in this order: what others build on comes first, so that one run with `fix` is enough. The
/// first name is also that of a check that could not be made.
const CHECKS: [(&[&str], Check); 28] = [
    (&["directory"], environment::directory),
    (&["disk-space"], environment::disk_space),
    (&["missing-program"], environment::programs),
    (&["symbolic-link", "not-a-file"], environment::links),
    (&["oversized-file"], environment::oversized),
    (&["stale-lock"], locks::locks),
    (&["foreign-writer"], locks::foreign_writers),
    (&["damaged-file"], damage::damaged),
    (&["transport-config"], damage::transport),
    (&["strange-entry"], damage::strange),
    (&["tokens"], tokens::tokens),
    (&["unfinished-rename"], unfinished::renames),
    (&["unfinished-cut"], unfinished::cuts),
    (&["leftover-file"], unfinished::leftovers),
    (&["unused-file"], unfinished::unused),
    (&["stray-file"], stray::strays),
    (&["session-leftover"], sessions::leftovers),
    (&["duplicate-session-binding"], sessions::duplicates),
    (&["stale-server", "stale-server-marker"], sessions::stale_servers),
    (&["orphan-marker", "dead-marker", "odd-marker"], markers::orphans),
    (
        &["stale-pusher", "stale-server-marker", "unstamped-marker"],
        markers::builds,
    ),
    (&["agent-id"], seats::ids),
    (&["stale-agent"], seats::stale),
    (&["orphan-membership"], rooms::members),
    (&["channel-mismatch", "channel-name"], rooms::mismatches),
    (
        &[
            "malformed-line",
            "unfinished-line",
            "duplicate-id",
            "unreadable-log",
        ],
        logs::logs,
    ),
    (&["orphan-inbox", "orphan-cursor"], seats::orphans),
    (&["cursor-past-end", "cursor-offset"], offsets::offsets),
];

/// Looks over the directory.
pub fn doctor(home: &Home, options: &Options) -> Report {
    let mut exam = Exam {
        home,
        options,
        now: home.now(),
        findings: Vec::new(),
        counts: HashMap::new(),
        held_up: BTreeMap::new(),
    };
    let mut checked = Vec::new();
    for (names, check) in CHECKS {
        match check(&mut exam) {
            Ok(()) => {}
            Err(error) if exam.holds_up(names, &error) => continue,
            Err(error) => exam.cannot(names.first().copied().unwrap_or_default(), WHOLE, &error),
        }
        checked.extend(names);
    }
    checked.extend(documents::documents(&mut exam));
    exam.tell_what_is_held_up();
    checked.sort_unstable();
    checked.dedup();
    exam.report(checked)
}

/// The same for a directory that may not open, because its `config.json` cannot be used or a folder in it is a link. Without `fix` that is all
/// that is found then. Makes nothing without `fix`, and never a bus where there is none.
///
/// # Errors
/// [`BusError::NoBus`]; what [`Home::open`] answers, but for what is told of as a finding.
pub fn doctor_at(root: &Path, limits: Limits, clock: &Clock, options: &Options) -> Result<Report, BusError> {
    if !home::is_bus(root) {
        return Err(BusError::NoBus(root.to_owned()));
    }
    let open = || {
        if options.fix {
            return Home::open(root, limits, clock.clone());
        }
        Home::look(root, limits, clock.clone())?.ok_or_else(|| BusError::NoBus(root.to_owned()))
    };
    let alone = |check, subject: &str, message: String| Finding {
        check,
        severity: Severity::Error,
        subject: subject.to_owned(),
        message,
        fixable: false,
        fixed: None,
    };
    let finding = match open() {
        Ok(home) => return Ok(doctor(&home, options)),
        Err(BusError::Damaged(name)) if name == "config.json" => {
            let why = "how the directory is shared and which transport is used cannot be read, so no server starts; with fix, what can be read of it is kept and the file as it is stays beside it";
            let mut finding = alone("damaged-file", &name, why.to_owned());
            finding.fixable = true;
            if options.fix {
                finding.message = damage::mend_config(root)?;
                finding.fixed = Some(true);
                let mut report = doctor(&open()?, options);
                report.findings.insert(0, finding);
                report.fixed += 1;
                return Ok(report);
            }
            finding
        }
        Err(error @ BusError::Mode(_)) => alone("damaged-file", "config.json", error.to_string()),
        Err(BusError::LinkedFolder(folder)) => {
            let why = BusError::LinkedFolder(folder.clone()).to_string();
            alone("symbolic-link", &folder, why)
        }
        Err(error) => {
            // How the directory is shared is read first of all, so nothing else can be looked at.
            let meta = fs::symlink_metadata(root.join("config.json"));
            let Some(odd) = meta.ok().and_then(|meta| NotPlain::of(meta.file_type())) else {
                return Err(error);
            };
            let why = format!(
                "{odd} where the bus keeps a file, so no server starts; move it away, and put the file back"
            );
            alone("not-a-file", "config.json", why)
        }
    };
    Ok(Report {
        dir: text::terminal(&root.display().to_string()),
        healthy: false,
        checked: vec![finding.check],
        findings: vec![finding],
        fixed: 0,
        fix: options.fix,
    })
}

/// What came of an attempt to put something right.
enum Fix {
    /// It is right now.
    Done,
    /// Somebody else did it, or it was only in passing.
    NotNeeded,
    /// It stays, for this reason.
    Left(&'static str),
}

struct Exam<'a> {
    home: &'a Home,
    options: &'a Options,
    now: i64,
    findings: Vec<Finding>,
    /// Entries of the logs that were counted.
    counts: HashMap<String, u64>,
    /// The checks that could not be made, by the damaged file that kept them from it.
    held_up: BTreeMap<String, Vec<&'static str>>,
}

impl Exam<'_> {
    /// Whether a check could not be made because of a damaged file that was told of already. It is told of there then, once.
    fn holds_up(&mut self, names: &[&'static str], error: &BusError) -> bool {
        let file = match error {
            BusError::Damaged(file) => file.as_str(),
            BusError::Tokens(_) => crate::tokens::FILE,
            _ => return false,
        };
        let told = |finding: &Finding| {
            finding.subject == file && finding.severity == Severity::Error && finding.fixed != Some(true)
        };
        let told = self.findings.iter().any(told);
        if told {
            self.held_up.entry(file.to_owned()).or_default().extend(names);
        }
        told
    }

    fn tell_what_is_held_up(&mut self) {
        for (file, names) in std::mem::take(&mut self.held_up) {
            if let Some(finding) = self.findings.iter_mut().find(|finding| {
                finding.subject == file && finding.severity == Severity::Error && finding.fixed != Some(true)
            }) {
                let message = format!(
                    "{}; until it is right, this cannot be verified: {}",
                    finding.message,
                    names.join(", ")
                );
                finding.message = short(&message);
            }
        }
    }

    /// Reports something that no repair helps.
    fn find(&mut self, check: &'static str, severity: Severity, subject: &str, message: impl Into<String>) {
        self.findings.push(Finding {
            check,
            severity,
            subject: short(subject),
            message: short(&message.into()),
            fixable: false,
            fixed: None,
        });
    }

    /// Reports something that `fix` puts right, and does so if this run may.
    fn fixable(
        &mut self,
        check: &'static str,
        severity: Severity,
        subject: &str,
        message: impl Into<String>,
        fix: impl FnOnce(&Home) -> Result<Fix, BusError>,
    ) {
        let mut message = message.into();
        let fixed = if self.options.fix {
            match fix(self.home) {
                Ok(Fix::Done) => Some(true),
                Ok(Fix::NotNeeded) => return,
                Ok(Fix::Left(why)) => {
                    message = format!("{message}; it was left as it is: {why}");
                    Some(false)
                }
                Err(error) => {
                    message = format!("{message}; it could not be put right: {}", error.chain());
                    Some(false)
                }
            }
        } else {
            None
        };
        self.find(check, severity, subject, message);
        if let Some(finding) = self.findings.last_mut() {
            finding.fixable = true;
            finding.fixed = fixed;
        }
    }

    /// Reports what cannot be read: whether it is sound is not known, so it is not called sound.
    fn cannot(&mut self, check: &'static str, subject: &str, error: &BusError) {
        self.find(
            check,
            Severity::Error,
            subject,
            format!("this cannot be verified: {}", error.chain()),
        );
    }

    /// How many entries a log holds. Counted once.
    fn entries(&mut self, log: &str) -> Result<u64, BusError> {
        if let Some(count) = self.counts.get(log) {
            return Ok(*count);
        }
        let count = scan(&self.home.path(log), |_, _| {})?.entries;
        self.counts.insert(log.to_owned(), count);
        Ok(count)
    }

    /// Milliseconds since a file changed. `None` when it is absent.
    fn age(&self, path: &Path) -> Option<i64> {
        let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
        let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(self.now.saturating_sub(i64::try_from(since.as_millis()).ok()?))
    }

    fn report(mut self, checked: Vec<&'static str>) -> Report {
        self.findings.sort_by_key(|finding| finding.severity);
        let open = |finding: &Finding| finding.severity == Severity::Error && finding.fixed != Some(true);
        Report {
            dir: text::terminal(&self.home.root().display().to_string()),
            healthy: !self.findings.iter().any(open),
            fixed: self
                .findings
                .iter()
                .filter(|finding| finding.fixed == Some(true))
                .count(),
            findings: self.findings,
            checked,
            fix: self.options.fix,
        }
    }
}

/// Outside text as one short line.
fn short(text: &str) -> String {
    let safe = text::terminal(text);
    if safe.chars().count() <= SHORT {
        return safe;
    }
    safe.chars().take(SHORT).chain(['…']).collect()
}

/// The name of a copy that is not there yet: `file.bak`, `file.bak.1` and so on.
fn copy_name(path: &Path, number: u32) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(if number == 0 {
        ".bak".to_owned()
    } else {
        format!(".bak.{number}")
    });
    name.into()
}

/// Most copies of one file that are kept beside it.
const COPIES: u32 = 1_000;

/// Keeps a copy of a file beside it, on the disk before this returns. None is ever written over.
fn keep_copy(path: &Path) -> Result<(), BusError> {
    let broke = |error| failed("keep a copy of", path, error);
    let mut from = open_plain(path, File::options().read(true)).map_err(broke)?;
    for number in 0..COPIES {
        let beside = copy_name(path, number);
        let mut to = match File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
        {
            Ok(to) => to,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
            Err(error) => return Err(broke(error)),
        };
        return std::io::copy(&mut from, &mut to)
            .and_then(|_| to.sync_all())
            .map_err(|error| {
                let _ = fs::remove_file(&beside);
                broke(error)
            });
    }
    Err(broke(std::io::Error::other("there are too many already")))
}

/// Moves a file aside, to a name beside it that nothing reads.
fn put_aside(path: &Path) -> Result<(), BusError> {
    let broke = |error| failed("put aside", path, error);
    for number in 0..COPIES {
        // A link first: unlike a move it never takes the place of an older copy.
        match fs::hard_link(path, copy_name(path, number)) {
            Ok(()) => return fs::remove_file(path).map_err(broke),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(broke(error)),
        }
    }
    Err(broke(std::io::Error::other("there are too many copies already")))
}
