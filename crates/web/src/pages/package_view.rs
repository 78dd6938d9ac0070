//! A package as its page shows it. What comes out of a package is outside text: made visible here, escaped by the template. Never shows a file's content.

use muster_core::clock::Time;
use muster_plugin_host::events::{Event, Wanted};
use muster_plugin_host::{
    Change, Diagnostic, FileChange, Host, Inspected, Inspection, Kind, KnownTool, Launch, Package,
    PluginError, Says, Status, Target,
};

use super::view::{When, counted_len, lines, one_line};

/// Files that a change names one by one.
const MOST_FILES: usize = 200;
/// Tools that are shown.
const MOST_TOOLS: usize = 200;
/// Events that are shown, the newest.
const MOST_EVENTS: usize = 50;

/// A package in a list.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) parts: Vec<Part>,
    /// Whether a person has to look.
    pub(super) waits: bool,
}

/// A server or hook in a list.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) status: &'static str,
    /// The colour of the status.
    pub(super) class: &'static str,
}

/// The packages, by id.
pub(super) fn rows(host: &Host) -> Result<Vec<Row>, PluginError> {
    let mut rows = Vec::new();
    for listed in host.list()? {
        let inspection = match host.inspect(&listed.id) {
            Ok(inspection) => inspection,
            // Removed since.
            Err(PluginError::NotFound(_)) => continue,
            Err(error) => return Err(error),
        };
        let parts: Vec<Part> = inspection.capabilities.iter().map(Part::of).collect();
        rows.push(Row {
            id: inspection.id.clone(),
            name: one_line(&inspection.name),
            version: one_line(&inspection.version),
            waits: inspection.capabilities.iter().any(waits),
            parts,
        });
    }
    Ok(rows)
}

/// Whether a decision is wanted.
const fn waits(one: &Inspected) -> bool {
    matches!(one.status, Status::ReviewNeeded | Status::Modified)
}

impl Part {
    fn of(one: &Inspected) -> Self {
        Self {
            id: one_line(&one.id),
            kind: kind(one.kind),
            status: words(one),
            class: class(one.status),
        }
    }
}

const fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::McpServer => "server",
        Kind::Hook => "hook",
    }
}

/// A status in words that say what it means.
const fn words(one: &Inspected) -> &'static str {
    match one.status {
        Status::ReviewNeeded => "review needed",
        Status::TrustedEnabled => "approved, on",
        Status::TrustedDisabled if one.approved_hash.is_some() => "approved, off",
        Status::TrustedDisabled => "rejected",
        Status::Modified => "changed since the decision",
        Status::Invalid => "invalid",
        Status::Blocked => "blocked",
    }
}

const fn class(status: Status) -> &'static str {
    match status {
        Status::TrustedEnabled => "good",
        Status::ReviewNeeded | Status::Modified | Status::Invalid | Status::Blocked => "warn",
        Status::TrustedDisabled => "",
    }
}

/// The whole page's package.
#[derive(Debug, Clone)]
pub(super) struct PackageView {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) source: String,
    pub(super) root: String,
    pub(super) data_dir: String,
    pub(super) digest: String,
    pub(super) findings: Vec<Finding>,
    pub(super) parts: Vec<PartView>,
    pub(super) events: Vec<EventView>,
    /// Why no event is shown.
    pub(super) no_events: Option<String>,
}

/// A diagnostic.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) error: bool,
    pub(super) message: String,
}

/// A server or hook with everything that a review needs.
#[derive(Debug, Clone)]
pub(super) struct PartView {
    /// Its place on the page, for addresses within it.
    pub(super) at: usize,
    pub(super) part: Part,
    /// The word of its status that commands print.
    pub(super) status: &'static str,
    pub(super) stable_id: String,
    pub(super) hash: String,
    pub(super) approved_hash: Option<String>,
    /// Its program and arguments.
    pub(super) command: Vec<String>,
    pub(super) url: Option<String>,
    /// Variables or headers that the package sets, with their values for who decides: a value may be a key to something.
    pub(super) sets: Vec<(String, Option<String>)>,
    pub(super) registered: String,
    /// Where agents reach it over HTTP.
    pub(super) address: Option<String>,
    pub(super) findings: Vec<Finding>,
    pub(super) last_start: Option<StartView>,
    pub(super) advice: String,
    pub(super) tools: Vec<ToolView>,
    pub(super) more_tools: usize,
    /// How many of all tools are not what they were.
    pub(super) changed_tools: usize,
    pub(super) changes: Option<Changes>,
    /// What can be decided now: the word, the button, its class.
    pub(super) acts: Vec<(&'static str, &'static str, &'static str)>,
}

/// How a start went.
#[derive(Debug, Clone)]
pub(super) struct StartView {
    pub(super) at: Option<When>,
    /// Why it failed.
    pub(super) error: Option<String>,
}

/// What changed since the decision.
#[derive(Debug, Clone)]
pub(super) struct Changes {
    pub(super) words: String,
    pub(super) files: Vec<FileView>,
    pub(super) more: usize,
}

/// A file that is not what it was.
#[derive(Debug, Clone)]
pub(super) struct FileView {
    pub(super) path: String,
    pub(super) change: &'static str,
    pub(super) old: Option<String>,
    pub(super) new: Option<String>,
}

/// A tool.
#[derive(Debug, Clone)]
pub(super) struct ToolView {
    pub(super) name: String,
    pub(super) registered: String,
    /// At the approval.
    pub(super) says: SaysView,
    /// Whether the last list had it no more.
    pub(super) gone: bool,
    /// What is to be said of a changed one.
    pub(super) changed: Option<&'static str>,
    /// A changed one as it was listed last.
    pub(super) newest: Option<SaysView>,
}

/// What a tool says of itself.
#[derive(Debug, Clone)]
pub(super) struct SaysView {
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) hints: Vec<&'static str>,
}

/// A line of the log.
#[derive(Debug, Clone)]
pub(super) struct EventView {
    pub(super) at: Option<When>,
    pub(super) server: String,
    pub(super) session: String,
    pub(super) event: String,
    pub(super) tool: Option<String>,
    pub(super) decision: Option<String>,
    pub(super) detail: Option<String>,
}

impl PackageView {
    /// Reads everything about one package, what waits for a decision first. The log and the values that the package sets are only for who decides.
    ///
    /// # Errors
    /// [`PluginError::NotFound`]; a fault.
    pub(super) fn read(
        host: &Host,
        id: &str,
        decides: bool,
        base: &str,
        now: Time,
    ) -> Result<Self, PluginError> {
        let found = host.inspect(id)?;
        let package = host.validate(std::path::Path::new(&found.root)).package;
        let mut parts = Vec::new();
        let mut ordered: Vec<&Inspected> = found.capabilities.iter().collect();
        ordered.sort_by_key(|one| !waits(one));
        for (at, one) in ordered.into_iter().enumerate() {
            let changes = changes(host, one)?;
            let sets = sets(package.as_ref(), one, decides);
            parts.push(PartView {
                sets,
                changes,
                ..PartView::new(at, &found, one, base, now)
            });
        }
        let (events, no_events) = if decides {
            log(host, id, now)
        } else {
            (Vec::new(), None)
        };
        Ok(Self {
            name: one_line(&found.name),
            version: one_line(&found.version),
            source: one_line(&found.source),
            root: one_line(&found.root),
            data_dir: one_line(&found.data_dir),
            digest: found.digest.clone(),
            findings: findings(&found.diagnostics),
            id: found.id,
            parts,
            events,
            no_events,
        })
    }

    /// The title of its page.
    pub(super) fn title(&self) -> String {
        format!("Package {}", self.id)
    }
}

fn log(host: &Host, id: &str, now: Time) -> (Vec<EventView>, Option<String>) {
    let wanted = Wanted {
        plugin: Some(id.to_owned()),
        session: None,
    };
    match host.events().read(&wanted) {
        Ok(all) => {
            let newest = all.iter().rev().take(MOST_EVENTS);
            (newest.map(|event| EventView::new(event, now)).collect(), None)
        }
        Err(fault) => (Vec::new(), Some(super::refuse::sentence(&fault.to_string()))),
    }
}

fn findings(all: &[Diagnostic]) -> Vec<Finding> {
    all.iter()
        .map(|one| Finding {
            error: one.is_error(),
            message: super::refuse::sentence(&one_line(&one.message)),
        })
        .collect()
}

fn changes(host: &Host, one: &Inspected) -> Result<Option<Changes>, PluginError> {
    if one.status != Status::Modified {
        return Ok(None);
    }
    let Some(Target::One(id)) = Target::parse(&one.stable_id) else {
        return Ok(None);
    };
    Ok(Some(match host.changes_since_decision(&id)? {
        Some(files) => Changes::new(&files),
        None => Changes {
            words: "Which files changed is not known any more: read the whole package.".to_owned(),
            files: Vec::new(),
            more: 0,
        },
    }))
}

/// What a server's definition sets: variables of a program, headers for an address.
fn sets(package: Option<&Package>, one: &Inspected, decides: bool) -> Vec<(String, Option<String>)> {
    let server = package
        .filter(|_| one.kind == Kind::McpServer)
        .and_then(|package| package.servers.iter().find(|server| server.id == one.id));
    let pairs = match server.map(|server| &server.launch) {
        Some(Launch::Stdio { env, .. }) => env,
        Some(Launch::Http { headers, .. }) => headers,
        None => return Vec::new(),
    };
    let shown = |(name, value): (&String, &String)| (one_line(name), decides.then(|| one_line(value)));
    pairs.iter().map(shown).collect()
}

impl Changes {
    fn new(all: &[FileChange]) -> Self {
        let words = match all.len() {
            0 => "No file of the package changed: its definition in the manifest is read differently now."
                .to_owned(),
            many => format!("{} changed since the decision.", counted_len(many, "file")),
        };
        Self {
            words,
            files: all.iter().take(MOST_FILES).map(FileView::new).collect(),
            more: all.len().saturating_sub(MOST_FILES),
        }
    }
}

impl FileView {
    fn new(file: &FileChange) -> Self {
        Self {
            path: one_line(&file.path),
            change: match (file.change, file.old == file.new) {
                (Change::Added, _) => "added",
                (Change::Removed, _) => "removed",
                (Change::Changed, false) => "changed",
                (Change::Changed, true) => "may be executed, or may not any more",
            },
            old: file.old.clone(),
            new: file.new.clone(),
        }
    }
}

impl PartView {
    fn new(at: usize, found: &Inspection, one: &Inspected, base: &str, now: Time) -> Self {
        let server = one.kind == Kind::McpServer;
        Self {
            at,
            part: Part::of(one),
            status: one.status.word(),
            stable_id: one.stable_id.clone(),
            hash: one.definition_hash.clone(),
            approved_hash: one.approved_hash.clone(),
            command: one.command.iter().flatten().map(|word| one_line(word)).collect(),
            url: one.url.as_deref().map(one_line),
            sets: Vec::new(),
            registered: one.registered_name.clone(),
            address: server.then(|| format!("{base}/packages/{}/{}/mcp", found.id, one.id)),
            findings: findings(&one.diagnostics),
            last_start: one.last_start.as_ref().map(|start| StartView {
                at: moment(&start.at, now),
                error: (!start.ok).then(|| one_line(start.error.as_deref().unwrap_or("it is not known why"))),
            }),
            advice: one.advice.clone(),
            tools: one.tools.iter().take(MOST_TOOLS).map(ToolView::new).collect(),
            more_tools: one.tools.len().saturating_sub(MOST_TOOLS),
            changed_tools: one.tools.iter().filter(|tool| tool.changed).count(),
            changes: None,
            acts: acts(one),
        }
    }
}

fn moment(text: &str, now: Time) -> Option<When> {
    When::maybe(Time::parse_rfc3339(text), now)
}

/// What can be decided about something in this status.
fn acts(one: &Inspected) -> Vec<(&'static str, &'static str, &'static str)> {
    const APPROVE: (&str, &str, &str) = ("approve", "Approve", "primary");
    const REJECT: (&str, &str, &str) = ("reject", "Reject", "danger");
    const ENABLE: (&str, &str, &str) = ("enable", "Switch on", "primary");
    const DISABLE: (&str, &str, &str) = ("disable", "Switch off", "");
    match one.status {
        Status::ReviewNeeded | Status::Modified => vec![APPROVE, REJECT],
        Status::TrustedEnabled => vec![DISABLE, REJECT],
        Status::TrustedDisabled if one.approved_hash.is_some() => vec![ENABLE, REJECT],
        Status::TrustedDisabled => vec![APPROVE],
        Status::Invalid | Status::Blocked => vec![REJECT],
    }
}

impl ToolView {
    fn new(tool: &KnownTool) -> Self {
        let newest = tool.newest.as_ref();
        Self {
            name: one_line(&tool.name),
            registered: tool.registered.clone(),
            says: SaysView::new(tool.read_only, &tool.says),
            gone: tool.gone,
            changed: tool.changed.then_some(match newest {
                None => "What it says now is not kept.",
                Some(_) if tool.added => "It was not there at the approval. Listed last as:",
                Some(now) if now.as_it_was => "Listed last as it was at the approval, and differently between.",
                Some(now) if now.read_only == tool.read_only && now.says == tool.says => {
                    "What is shown of it is as it was; its schema or another part that is not shown, such as the middle of a long description, is another one."
                }
                Some(_) => "Listed last as:",
            }),
            newest: newest
                .filter(|now| !now.as_it_was)
                .map(|now| SaysView::new(now.read_only, &now.says)),
        }
    }
}

impl SaysView {
    fn new(read_only: bool, says: &Says) -> Self {
        let hint = |said: Option<bool>, yes: &'static str, no: &'static str| {
            said.map(|said| if said { yes } else { no })
        };
        let hints = [
            read_only.then_some("says it only reads"),
            hint(
                says.destructive,
                "says it may destroy",
                "says it destroys nothing",
            ),
            hint(
                says.idempotent,
                "says that twice is as once",
                "says that twice is not as once",
            ),
            hint(
                says.open_world,
                "says it reaches outside",
                "says it reaches nothing outside",
            ),
        ];
        Self {
            title: says.title.as_deref().map(one_line),
            description: says.description.as_deref().map(lines),
            hints: hints.into_iter().flatten().collect(),
        }
    }
}

impl EventView {
    fn new(event: &Event, now: Time) -> Self {
        let word = serde_json::to_value(event.event).ok();
        Self {
            at: moment(&event.at, now),
            server: one_line(&event.server),
            session: one_line(&event.session),
            event: word
                .as_ref()
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default()
                .replace('_', " "),
            tool: event.tool.as_deref().map(one_line),
            decision: event.decision.as_deref().map(one_line),
            detail: event.detail.as_deref().map(one_line),
        }
    }
}

#[cfg(test)]
impl Row {
    pub(super) fn sample(number: usize) -> Self {
        use super::tests::HOSTILE;
        Self {
            id: format!("p{number}"),
            name: HOSTILE.to_owned(),
            version: HOSTILE.to_owned(),
            parts: vec![Part {
                id: HOSTILE.to_owned(),
                kind: "server",
                status: "review needed",
                class: "warn",
            }],
            waits: number == 0,
        }
    }
}

#[cfg(test)]
impl PackageView {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::{HOSTILE, when};
        let hostile = || HOSTILE.to_owned();
        let finding = |error| Finding {
            error,
            message: hostile(),
        };
        let says = || SaysView {
            title: Some(hostile()),
            description: Some(hostile()),
            hints: vec!["says it only reads"],
        };
        let part = |at, changes| PartView {
            at,
            part: Row::sample(at).parts.remove(0),
            status: "modified",
            stable_id: hostile(),
            hash: hostile(),
            approved_hash: Some(hostile()),
            command: vec![hostile(), hostile()],
            url: Some(hostile()),
            sets: vec![(hostile(), Some(hostile())), (hostile(), None)],
            registered: hostile(),
            address: Some("http://localhost:7447/packages/p/s/mcp".to_owned()),
            findings: vec![finding(true), finding(false)],
            last_start: Some(StartView {
                at: Some(when()),
                error: Some(hostile()),
            }),
            advice: hostile(),
            tools: vec![ToolView {
                gone: true,
                name: hostile(),
                registered: hostile(),
                says: says(),
                changed: Some("Listed last as:"),
                newest: Some(says()),
            }],
            more_tools: 3,
            changed_tools: 1,
            changes,
            acts: vec![("approve", "Approve", "primary"), ("reject", "Reject", "danger")],
        };
        let changes = Changes {
            words: "1 file changed since the decision.".to_owned(),
            files: vec![FileView {
                path: hostile(),
                change: "changed",
                old: Some("0".repeat(64)),
                new: None,
            }],
            more: 2,
        };
        let bare = PartView {
            approved_hash: None,
            command: vec![],
            url: None,
            sets: vec![],
            address: None,
            findings: vec![],
            last_start: None,
            tools: vec![],
            more_tools: 0,
            changed_tools: 0,
            ..part(1, None)
        };
        let package = |parts, events, no_events| Self {
            id: "p".to_owned(),
            name: hostile(),
            version: hostile(),
            source: hostile(),
            root: hostile(),
            data_dir: hostile(),
            digest: hostile(),
            findings: vec![finding(true)],
            parts,
            events,
            no_events,
        };
        let event = EventView {
            at: Some(when()),
            server: hostile(),
            session: hostile(),
            event: hostile(),
            tool: Some(hostile()),
            decision: Some(hostile()),
            detail: Some(hostile()),
        };
        vec![
            package(vec![part(0, Some(changes)), bare], vec![event], None),
            package(vec![], vec![], Some(hostile())),
        ]
    }
}
