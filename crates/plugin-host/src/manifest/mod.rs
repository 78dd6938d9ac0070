//! From a folder to a [`Package`]: which format it is, and everything that is wrong with it in one run. Never runs anything and never asks a network.

mod agent;
mod claude;
mod native;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use muster_core::text::unseen;
use serde_json::{Map, Value};

use crate::diagnostic::{Code, Diagnostic, shown};
use crate::once;
use crate::package::{Family, Package};
use crate::tree::{self, Listing};

/// Largest manifest, in bytes.
pub const LARGEST_MANIFEST: u64 = 131_072;

const NATIVE: &str = ".muse-plugin/plugin.json";
const CLAUDE: &str = ".claude-plugin/plugin.json";
const CODEX: &str = ".codex-plugin/plugin.json";
const ROOT: &str = "plugin.json";

/// What a look at a folder found.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The id that the manifest gives, also when the package is refused.
    pub id: Option<String>,
    /// The package, when nothing keeps it from being installed.
    pub package: Option<Package>,
    /// Everything that was found, errors first.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// Whether the package can be installed.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.package.is_some()
    }

    fn broken(diagnostic: Diagnostic) -> Self {
        Self {
            id: None,
            package: None,
            diagnostics: vec![diagnostic],
        }
    }
}

/// Looks at a package's folder. Reads the manifests and the names of all files, nothing else.
#[must_use]
pub fn validate(root: &Path) -> Checked {
    // A link to the folder itself is the caller's way of naming it; below it none is followed.
    let listed = root.canonicalize().and_then(|root| {
        let root = tree::open_root(&root)?;
        let listing = tree::list_below(&root)?;
        Ok((root, listing))
    });
    match listed {
        Ok((root, listing)) => check(&root, &listing),
        Err(error) => Checked::broken(Diagnostic::error(
            Code::InvalidPluginPackage,
            format!(
                "{} could not be read as a package's folder: {error}",
                shown(&root.to_string_lossy())
            ),
        )),
    }
}

/// Reads the package whose files are `listing`.
pub(crate) fn check(root: &File, listing: &Listing) -> Checked {
    let mut found = Findings::new(listing.problems.clone());
    let read = |path: &str| tree::read_below(root, path, LARGEST_MANIFEST);
    let package = read_family(&read, listing, &mut found);
    found.finish(package)
}

/// Reads one manifest and its companions out of memory, as if they lay in a package with no other file but `files`. For the fuzzer.
#[must_use]
pub fn check_texts(texts: &BTreeMap<String, Vec<u8>>, files: &[&str]) -> Checked {
    let mut listing = Listing::default();
    for (path, text) in texts {
        listing.files.insert(path.clone(), text.len() as u64);
    }
    listing
        .files
        .extend(files.iter().map(|path| ((*path).to_owned(), 0)));
    let mut found = Findings::new(Vec::new());
    let read = |path: &str| {
        let text = texts.get(path).ok_or(std::io::ErrorKind::NotFound)?;
        if text.len() as u64 > LARGEST_MANIFEST {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        Ok(text.clone())
    };
    let package = read_family(&read, &listing, &mut found);
    found.finish(package)
}

type Read<'a> = dyn Fn(&str) -> std::io::Result<Vec<u8>> + 'a;

fn read_family(read: &Read<'_>, listing: &Listing, found: &mut Findings) -> Option<Package> {
    let has = |path: &str| listing.files.contains_key(path);
    let root = has(ROOT).then(|| agent::claims(read));
    let mut families = Vec::new();
    for (path, family) in [
        (NATIVE, Some(Family::Native)),
        (CLAUDE, Some(Family::ClaudeCode)),
        (CODEX, None),
    ] {
        if has(path) {
            families.push((path, family));
        }
    }
    match root {
        // At the root the name alone says little: only its `$schema` makes it a manifest, unless it is the only candidate.
        Some(claims) if claims || families.is_empty() => families.push((ROOT, Some(Family::AgentPlugins))),
        Some(_) => found.add(
            Diagnostic::warning(
                Code::IgnoredRootManifest,
                "plugin.json at the root names no schema of Agent Plugins and is not read",
            )
            .at(ROOT),
        ),
        None => {}
    }
    match *families.as_slice() {
        [] if listing.cut => None,
        [] => {
            found.add(Diagnostic::error(
                Code::MissingManifest,
                format!("there is no manifest; write {NATIVE}"),
            ));
            None
        }
        [(_, Some(Family::Native))] => native::read(read, listing, found),
        [(_, Some(Family::ClaudeCode))] => claude::read(read, listing, found),
        [(_, Some(Family::AgentPlugins))] => agent::read(read, listing, found),
        [(path, None)] => {
            found.add(
                Diagnostic::error(
                    Code::MissingManifest,
                    format!("muster does not read {path}; write {NATIVE}, or plugin.json and mcp.json as Agent Plugins has them"),
                )
                .at(path),
            );
            None
        }
        _ => {
            let paths: Vec<&str> = families.iter().map(|(path, _)| *path).collect();
            found.add(Diagnostic::error(
                Code::MultipleManifests,
                format!(
                    "a package has exactly one manifest, and this one has {}; keep one",
                    paths.join(", ")
                ),
            ));
            None
        }
    }
}

/// The findings of one run, and the id as far as it is known.
pub(crate) struct Findings {
    id: Option<String>,
    all: Vec<Diagnostic>,
}

impl Findings {
    fn new(all: Vec<Diagnostic>) -> Self {
        Self { id: None, all }
    }

    fn add(&mut self, diagnostic: Diagnostic) {
        // A manifest of 128 KiB can hold very many faults; nobody reads more than this.
        if self.all.len() < 500 {
            self.all.push(diagnostic);
        }
    }

    fn schema(&mut self, field: &str, message: impl Into<String>) {
        self.add(Diagnostic::error(Code::InvalidManifestSchema, message).at(field));
    }

    fn finish(mut self, package: Option<Package>) -> Checked {
        self.all.sort_by_key(|diagnostic| !diagnostic.is_error());
        let broken = self.all.iter().any(Diagnostic::is_error);
        Checked {
            id: self.id,
            package: package.filter(|_| !broken),
            diagnostics: self.all,
        }
    }
}

/// Reads a manifest as a JSON object. A fault is found under the two names it has: where the text breaks off, and that no field could be read.
fn object(read: &Read<'_>, path: &str, found: &mut Findings) -> Option<Map<String, Value>> {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
            found.add(
                Diagnostic::error(
                    Code::InvalidPluginPackage,
                    format!("{path} has more than {LARGEST_MANIFEST} bytes"),
                )
                .at(path),
            );
            return None;
        }
        Err(error) => {
            found.add(
                Diagnostic::error(
                    Code::InvalidPluginPackage,
                    format!("{path} could not be read: {error}"),
                )
                .at(path),
            );
            return None;
        }
    };
    match serde_json::from_slice::<Value>(&text) {
        Ok(Value::Object(map)) => match once::check(&text) {
            Ok(()) => Some(map),
            Err(error) => {
                found.schema(
                    path,
                    format!(
                        "{path} names a key twice in one object (line {}, column {}): whoever reads it could take the other value; name it once",
                        error.line(),
                        error.column()
                    ),
                );
                None
            }
        },
        Ok(_) => {
            found.schema(path, format!("{path} must be a JSON object"));
            None
        }
        Err(error) => {
            found.add(
                Diagnostic::error(
                    Code::InvalidManifestJson,
                    format!(
                        "{path} is not JSON: it breaks off at line {}, column {}",
                        error.line(),
                        error.column()
                    ),
                )
                .at(path),
            );
            found.schema(
                path,
                format!("no field of {path} could be read; repair the JSON first"),
            );
            None
        }
    }
}

/// A text that must be there and hold something.
fn required_text(map: &Map<String, Value>, field: &str, found: &mut Findings) -> Option<String> {
    match map.get(field) {
        Some(Value::String(text)) if !text.trim().is_empty() => Some(text.clone()),
        Some(Value::String(_)) => {
            found.schema(field, format!("\"{field}\" is blank"));
            None
        }
        Some(_) => {
            found.schema(field, format!("\"{field}\" must be a string"));
            None
        }
        None => {
            found.schema(field, format!("\"{field}\" is missing"));
            None
        }
    }
}

/// A text that may be left out.
fn optional_text(map: &Map<String, Value>, field: &str, found: &mut Findings) -> Option<String> {
    match map.get(field) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => {
            found.schema(field, format!("\"{field}\" must be a string"));
            None
        }
    }
}

fn version(text: &str, found: &mut Findings) {
    let sound = text.len() <= 64
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+' | b'_'));
    if !sound {
        found.add(
            Diagnostic::error(
                Code::InvalidVersion,
                format!("\"{}\" is no version; write one such as 1.0.0", shown(text)),
            )
            .at("version"),
        );
    }
}

/// Whether an address can be one of Streamable HTTP, and if not, why.
fn url_fault(text: &str) -> Option<&'static str> {
    // A parser of addresses drops some of these, and what is reviewed must be what is asked.
    if text.chars().any(|c| c.is_whitespace() || unseen(c).is_some()) {
        return Some("holds blanks or characters that cannot be seen");
    }
    match reqwest::Url::parse(text) {
        Err(_) => Some("is no absolute address"),
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            Some("must begin with http:// or https://; muster speaks Streamable HTTP")
        }
        Ok(url) if url.host_str().is_none_or(str::is_empty) => Some("names no host"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Some("must not hold a user name or password")
        }
        Ok(_) => None,
    }
}

/// Whether the address stays on this machine.
pub(crate) fn is_loopback(url: &reqwest::Url) -> bool {
    match url.host_str() {
        Some("localhost") => true,
        Some(host) => host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}

/// Where a relative path leads that is meant to stay in the package: the path without `.` segments, or `None` when it has a `..` or is absolute.
fn inside(path: &str) -> Option<String> {
    if path.starts_with('/') || path.contains('\0') {
        return None;
    }
    let mut clean = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => return None,
            other => clean.push(other),
        }
    }
    Some(clean.join("/"))
}

/// Strings of a list, or `None` when it is no list of strings.
fn strings(value: &Value) -> Option<Vec<String>> {
    value
        .as_array()?
        .iter()
        .map(|item| item.as_str().map(str::to_owned))
        .collect()
}

/// Pairs of a map of strings, or `None` when it is none.
fn string_map(value: &Value) -> Option<BTreeMap<String, String>> {
    value
        .as_object()?
        .iter()
        .map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// Headers that carry a secret; no package sends one.
const CREDENTIALS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Headers of an entry that may be sent, or why the entry is refused.
fn headers(value: Option<&Value>) -> Result<(BTreeMap<String, String>, Vec<String>), &'static str> {
    let Some(value) = value else {
        return Ok((BTreeMap::new(), Vec::new()));
    };
    let map = string_map(value).ok_or("\"headers\" must be an object of strings")?;
    let (mut sent, mut kept_back) = (BTreeMap::new(), Vec::new());
    for (name, text) in map {
        let lower = name.to_ascii_lowercase();
        if reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_err()
            || reqwest::header::HeaderValue::from_str(&text).is_err()
        {
            return Err("\"headers\" holds what is no header");
        }
        if CREDENTIALS.contains(&lower.as_str()) {
            kept_back.push(name);
        } else if sent.insert(lower, text).is_some() {
            return Err("\"headers\" names one header twice");
        }
    }
    Ok((sent, kept_back))
}

/// Variables that an entry may set beside the ones every server gets, or why the entry is refused.
fn environment(value: Option<&Value>) -> Result<BTreeMap<String, String>, &'static str> {
    let Some(value) = value else {
        return Ok(BTreeMap::new());
    };
    let map = string_map(value).ok_or("\"env\" must be an object of strings")?;
    for (name, text) in &map {
        if name.is_empty() || name.contains(['=', '\0']) || text.contains('\0') {
            return Err("\"env\" holds what is no variable");
        }
        if ["MUSTER_", "MUSE_", "PLUGIN_", "CLAUDE_PLUGIN_"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
        {
            return Err("\"env\" sets a variable that only the host sets");
        }
    }
    Ok(map)
}
