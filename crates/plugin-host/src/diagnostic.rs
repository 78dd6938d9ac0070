//! What is wrong with a package, as facts a person or a program can act on. Never stops at the first one.

use muster_core::text::terminal;
use serde::{Deserialize, Serialize};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The package cannot be installed.
    Error,
    /// The package works, perhaps not as its author thinks.
    Warning,
}

/// The kind of a finding. The spellings are public names, two of them with underscores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The folder as a whole is no package: not there, too large, a special file in it.
    InvalidPluginPackage,
    /// The id belongs to a host.
    #[serde(rename = "bundled_plugin_id_reserved")]
    BundledPluginIdReserved,
    /// No manifest of any format.
    MissingManifest,
    /// More than one format in one package.
    MultipleManifests,
    /// The manifest is not JSON.
    InvalidManifestJson,
    /// A field is missing, of a wrong type, or has a value that nothing stands for.
    InvalidManifestSchema,
    /// The manifest says that it lies elsewhere.
    ManifestFamilyMismatch,
    /// The package's id breaks the grammar.
    InvalidPluginId,
    /// The version breaks the grammar.
    InvalidVersion,
    /// A server's or hook's id breaks the grammar or is missing.
    InvalidCapabilityId,
    /// A named file is not in the package.
    MissingCapabilityPath,
    /// A stdio server or hook without a program.
    MissingCapabilityCommand,
    /// An http server without an address.
    MissingCapabilityUrl,
    /// A hook for an event that there is not.
    UnsupportedHookEvent,
    /// Two entries with one id.
    DuplicateCapabilityId,
    /// Two hooks that would do the same twice.
    DuplicateHookSource,
    /// A path that leaves the package, a link, or a name that cannot be shown.
    UnsafePath,
    /// A kind of content that muster does not run.
    UnsupportedCapability,
    /// A field that is not read.
    UnsupportedField,
    /// A declaration of another host that is honoured as it stands.
    HonoredDeclaration,
    /// A version of the portable format that muster does not read.
    UnsupportedAgentSchema,
    /// A file at the root that looks like a manifest and is not the one that counts.
    IgnoredRootManifest,
    /// A part of a portable package is broken; the rest is used.
    AgentComponentInvalid,
    /// A skill of a portable package is left out.
    AgentSkillSkipped,
    /// A server of a portable package is left out.
    AgentMcpServerSkipped,
    /// Another client's folder in a portable package is not used.
    AgentOverlayInactive,
    /// The package changed after the decision.
    #[serde(rename = "modified_definition_hash")]
    ModifiedDefinitionHash,
    /// Two tools would be registered under one name; neither is offered.
    ToolNameCollision,
    /// A registered name is over 64 characters.
    ToolNameTooLong,
    /// A tool is no longer what it was when it was first listed after the approval.
    ToolDefinitionChanged,
    /// The stored copy is missing or not what was installed.
    CacheInvalid,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Its kind.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The server or hook it is about.
    pub entry: Option<String>,
    /// The field it is about.
    pub field: Option<String>,
    /// A sentence that says what to do. Outside text in it is escaped.
    pub message: String,
}

impl Diagnostic {
    pub(crate) fn error(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: Severity::Error,
            entry: None,
            field: None,
            message: message.into(),
        }
    }

    pub(crate) fn warning(code: Code, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(code, message)
        }
    }

    #[must_use]
    pub(crate) fn of(mut self, entry: &str) -> Self {
        self.entry = Some(shown(entry));
        self
    }

    #[must_use]
    pub(crate) fn at(mut self, field: &str) -> Self {
        self.field = Some(shown(field));
        self
    }

    /// Whether it keeps the package from being installed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Outside text for a sentence: escaped, and no longer than a line.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 200;
    if text.chars().count() <= MOST {
        return terminal(text);
    }
    let head: String = text.chars().take(MOST).collect();
    terminal(&head) + "…"
}
