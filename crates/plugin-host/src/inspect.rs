//! What `list` and `inspect` print. Never says that something is safe.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::diagnostic::{Code, Diagnostic, shown};
use crate::host::{Host, facts};
use crate::ledger::{Capability, Installed, Ledger, Says};
use crate::names::{Kind, LONGEST_RAW_NAME, ServerKey, TOOL_NAME_LIMIT};
use crate::trust::{Status, Verdict, status};

/// One installed package in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it came from.
    pub source: String,
}

/// One installed package for a review.
#[derive(Debug, Clone, Serialize)]
pub struct Inspection {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it came from.
    pub source: String,
    /// The stored copy.
    pub root: String,
    /// The folder for its state.
    pub data_dir: String,
    /// What the copy hashes to.
    pub digest: String,
    /// Findings about the whole package, of the last update when that failed.
    pub diagnostics: Vec<Diagnostic>,
    /// What there is to review.
    pub capabilities: Vec<Inspected>,
}

/// One server or hook for a review.
#[derive(Debug, Clone, Serialize)]
pub struct Inspected {
    /// Its id in the package.
    pub id: String,
    /// What it is.
    pub kind: Kind,
    /// The id that a review is kept under.
    pub stable_id: String,
    /// `stdio` or `http`.
    pub transport: Option<String>,
    /// What is run.
    pub command: Option<Vec<String>>,
    /// What is asked.
    pub url: Option<String>,
    /// Its status.
    pub status: Status,
    /// The hash of its definition now.
    pub definition_hash: String,
    /// The hash that was approved last, if one was.
    pub approved_hash: Option<String>,
    /// The name that sessions know it by.
    pub registered_name: String,
    /// What the names of its tools begin with.
    pub tool_prefix: String,
    /// Findings about it.
    pub diagnostics: Vec<Diagnostic>,
    /// How its last start went.
    pub last_start: Option<Started>,
    /// What to do now.
    pub advice: String,
    /// Its tools as they were when they were first listed after the approval; none before that.
    #[serde(skip)]
    pub tools: Vec<KnownTool>,
}

/// A tool that a server listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownTool {
    /// The server.
    pub key: ServerKey,
    /// The server's own name of it. Outside text.
    pub name: String,
    /// What rules and logs call it.
    pub registered: String,
    /// Whether it says that it only reads.
    pub read_only: bool,
    /// What else it says of itself.
    pub says: Says,
    /// Whether it was listed differently since, or is new.
    pub changed: bool,
    /// Whether it is new.
    pub added: bool,
    /// Whether the last list had it no more.
    pub gone: bool,
    /// A changed one as it was listed last, where that is kept.
    pub newest: Option<Newest>,
}

/// A changed tool as it was listed last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newest {
    /// Whether it says that it only reads.
    pub read_only: bool,
    /// What else it says of itself.
    pub says: Says,
    /// Whether it is again what it was when it was first listed.
    pub as_it_was: bool,
}

/// The pinned tools of a server, and those that are new since.
pub(crate) fn known(ledger: &Ledger, key: &ServerKey) -> Vec<KnownTool> {
    let Some(pins) = ledger.pins.get(&key.stable_id()) else {
        return Vec::new();
    };
    let names: BTreeSet<&String> = pins.tools.keys().chain(&pins.changed).collect();
    let known = |name: &String| {
        let pin = pins.tools.get(name);
        KnownTool {
            key: key.clone(),
            name: name.clone(),
            registered: key.tool(name),
            read_only: pin.is_some_and(|pin| pin.read_only),
            says: pin.map(|pin| pin.says.clone()).unwrap_or_default(),
            changed: pins.changed.contains(name),
            added: pin.is_none(),
            gone: pins.gone.contains(name),
            newest: pins.newest.get(name).map(|now| Newest {
                read_only: now.read_only,
                says: now.says.clone(),
                as_it_was: pin.is_some_and(|pin| pin.is(now)),
            }),
        }
    };
    names.into_iter().map(known).collect()
}

/// How a start went.
#[derive(Debug, Clone, Serialize)]
pub struct Started {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// Whether it answered.
    pub ok: bool,
    /// Why not.
    pub error: Option<String>,
}

impl Inspection {
    pub(crate) fn of(
        host: &Host,
        ledger: &Ledger,
        plugin: &str,
        installed: &Installed,
        broken: Option<&str>,
    ) -> Self {
        // A warning about a server stands with the server; one about what was left out has no other place.
        let has = |entry: &str| installed.capabilities.iter().any(|one| one.id.id == entry);
        let mut diagnostics: Vec<Diagnostic> = installed
            .problems
            .iter()
            .filter(|problem| problem.is_error() || !problem.entry.as_deref().is_some_and(has))
            .cloned()
            .collect();
        if let Some(broken) = broken {
            diagnostics.push(Diagnostic::error(
                Code::CacheInvalid,
                format!("{broken}; run muster plugins update {plugin} to store it again"),
            ));
        }
        Self {
            id: plugin.to_owned(),
            name: installed.name.clone(),
            version: installed.version.clone(),
            source: installed.source.to_string_lossy().into_owned(),
            root: host
                .cache
                .root(plugin, &installed.digest)
                .to_string_lossy()
                .into_owned(),
            data_dir: host.data_dir(plugin).to_string_lossy().into_owned(),
            digest: installed.digest.clone(),
            diagnostics,
            capabilities: installed
                .capabilities
                .iter()
                .map(|one| Inspected::of(ledger, installed, one, broken.is_none()))
                .collect(),
        }
    }
}

impl Inspected {
    fn of(ledger: &Ledger, installed: &Installed, one: &Capability, stored: bool) -> Self {
        let trust = ledger.trust(&one.id);
        let status = status(&facts(installed, one, stored, &trust));
        let key = ServerKey::new(&one.id.plugin, &one.id.id);
        let approved = trust
            .decision
            .as_ref()
            .filter(|decision| decision.verdict == Verdict::Approved);
        let mut diagnostics: Vec<Diagnostic> = installed
            .problems
            .iter()
            .filter(|problem| problem.entry.as_deref() == Some(one.id.id.as_str()))
            .cloned()
            .collect();
        if status == Status::Modified {
            let message = "the package changed after the decision about this definition";
            diagnostics.push(Diagnostic::warning(Code::ModifiedDefinitionHash, message).of(&one.id.id));
        }
        diagnostics.extend(tools(ledger, &key));
        let last_start = ledger.starts.get(&one.id).map(|start| Started {
            at: start.at.rfc3339(),
            ok: start.ok,
            error: start.error.clone(),
        });
        Self {
            id: one.id.id.clone(),
            kind: one.id.kind,
            stable_id: one.id.to_string(),
            transport: one.transport.clone(),
            command: one.command.clone(),
            url: one.url.clone(),
            status,
            definition_hash: one.hash.clone(),
            approved_hash: approved.map(|decision| decision.hash.clone()),
            registered_name: match one.id.kind {
                Kind::McpServer => key.registered(),
                Kind::Hook => one.id.to_string(),
            },
            tool_prefix: match one.id.kind {
                Kind::McpServer => key.tool_prefix(),
                Kind::Hook => String::new(),
            },
            diagnostics,
            last_start,
            advice: advice(status, &one.id.plugin),
            tools: match one.id.kind {
                Kind::McpServer => known(ledger, &key),
                Kind::Hook => Vec::new(),
            },
        }
    }
}

/// What is to be said about the names and definitions of a server's pinned tools.
fn tools(ledger: &Ledger, key: &ServerKey) -> Vec<Diagnostic> {
    let Some(pins) = ledger.pins.get(&key.stable_id()) else {
        return Vec::new();
    };
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (id, other) in &ledger.pins {
        let other_key = ServerKey::new(&id.plugin, &id.id);
        for tool in other.tools.keys() {
            let whose = format!("{} of {other_key}", shown(tool));
            by_name.entry(other_key.tool(tool)).or_default().push(whose);
        }
    }
    let mut found = Vec::new();
    for tool in pins.tools.keys() {
        let name = key.tool(tool);
        if let Some(group) = by_name.get(&name).filter(|group| group.len() > 1) {
            let message = format!(
                "{} would all be registered as {}; none of them is offered",
                group.join(", "),
                shown(&name)
            );
            found.push(Diagnostic::warning(Code::ToolNameCollision, message).of(&key.server));
        }
        if name.len() > TOOL_NAME_LIMIT {
            let message = format!(
                "{} has {} characters; some models refuse names over {TOOL_NAME_LIMIT}",
                shown(&name),
                name.len()
            );
            found.push(Diagnostic::warning(Code::ToolNameTooLong, message).of(&key.server));
        }
    }
    for tool in &pins.too_long {
        let message = format!(
            "{} has more than {LONGEST_RAW_NAME} bytes and is not offered",
            shown(tool)
        );
        found.push(Diagnostic::warning(Code::ToolNameTooLong, message).of(&key.server));
    }
    if !pins.fits() {
        let message = "more is kept of its tools than may be, so none of them is offered until the server is approved again";
        found.push(Diagnostic::warning(Code::ToolDefinitionChanged, message).of(&key.server));
    }
    for tool in &pins.changed {
        let message = format!(
            "{} is not what it was when it was first listed after the approval; it asks before it runs until the server is approved again",
            shown(tool)
        );
        found.push(Diagnostic::warning(Code::ToolDefinitionChanged, message).of(&key.server));
    }
    found
}

/// What to do about a status.
pub(crate) fn advice(status: Status, plugin: &str) -> String {
    const HINT: &str = "A tool may say of itself that it only reads (readOnlyHint), and then runs unasked in the mode on-request; believe that only of a package you have read.";
    match status {
        Status::ReviewNeeded => format!(
            "Nothing of it starts yet. Read the package, then run muster plugins approve {plugin}. {HINT}"
        ),
        Status::TrustedEnabled => format!("It starts with the next new session. {HINT}"),
        Status::TrustedDisabled => {
            format!(
                "It does not start. To have it again, run muster plugins enable {plugin}; where it was rejected, muster plugins approve {plugin}."
            )
        }
        Status::Modified => format!(
            "The package changed. Read the change again, run muster plugins approve {plugin}, and start a new session. {HINT}"
        ),
        Status::Invalid => {
            format!("The package fails its validation. Mend it, then run muster plugins update {plugin}.")
        }
        Status::Blocked => format!(
            "The stored copy is not what was installed, so nothing of it starts. Run muster plugins update {plugin} to store it again."
        ),
    }
}
