//! Write scopes: which role owns which shared document, as `scopes.json` declares it, and who wrote last against it. Never prevents a write and never writes the file.
//!
//! `scopes.json` is written by people. The form to write is one object of paths and roles, `{"docs/QUEUE.md": "lead", "docs/*.md":
//! ["docs", "lead"]}`; the form `{"documents": [{"path": "docs/QUEUE.md", "role": "lead"}]}` (or `roles`) is read as well. A relative path
//! means that document in every repository. `*` stands for any part of one name, a component `**` for any number of folders.

use std::io::ErrorKind;
use std::path::Path;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{BusError, failed};
use crate::files::read_plain;
use crate::home::Home;
use crate::names::SeatId;
use crate::registry::{Agent, Agents};

mod drift;

pub use drift::{Drift, Drifted, drift};

/// The file.
pub(crate) const FILE: &str = "scopes.json";

/// One declared document, or several by a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scope {
    /// Its path, as it was declared but for `.`, `..` and doubled slashes.
    pub path: String,
    /// Who may write it; one of them is enough.
    pub roles: Vec<String>,
}

/// Everything that is declared.
///
/// # Errors
/// [`BusError::Scopes`] for a file that is there and does not say who owns what; a fault. An absent file declares nothing.
pub fn list(home: &Home) -> Result<Vec<Scope>, BusError> {
    let path = home.path(FILE);
    let text = match read_plain(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("read", &path, error)),
    };
    let value = serde_json::from_slice(&text).map_err(|_| BusError::Scopes("it is not JSON".to_owned()))?;
    declared(value)
}

fn declared(value: Value) -> Result<Vec<Scope>, BusError> {
    let Value::Object(object) = value else {
        return Err(BusError::Scopes("it is not a JSON object".to_owned()));
    };
    match object.get("documents") {
        // What else such a file says of itself is nobody's path.
        Some(Value::Array(documents)) if documents.iter().all(Value::is_object) => {
            documents.iter().map(document).collect()
        }
        _ => object.iter().map(|(path, roles)| scope(path, roles)).collect(),
    }
}

fn document(value: &Value) -> Result<Scope, BusError> {
    let strange = || BusError::Scopes("an entry of documents lacks its path or its role".to_owned());
    let entry: &Map<String, Value> = value.as_object().ok_or_else(strange)?;
    let path = entry.get("path").and_then(Value::as_str).ok_or_else(strange)?;
    let roles = entry
        .get("roles")
        .or_else(|| entry.get("role"))
        .ok_or_else(strange)?;
    scope(path, roles)
}

fn scope(path: &str, roles: &Value) -> Result<Scope, BusError> {
    let strange = |what: &str| BusError::Scopes(format!("{what} of {path:?}"));
    let roles = match roles {
        Value::String(role) => vec![role.as_str()],
        Value::Array(roles) => roles
            .iter()
            .map(Value::as_str)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| strange("a role that is no text is an owner"))?,
        _ => return Err(strange("neither a role nor a list of roles is the owner")),
    };
    let roles: Vec<String> = roles.into_iter().map(|role| role.trim().to_owned()).collect();
    if roles.is_empty() || roles.iter().any(String::is_empty) {
        return Err(strange("no role is the owner"));
    }
    let path = normal(path).ok_or_else(|| strange("nothing can be found at the path"))?;
    Ok(Scope { path, roles })
}

/// Whether an agent may write a document, by what is declared. An answer, not a lock: nothing holds it to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The path that was asked for.
    pub path: String,
    /// Whether anything declares it.
    pub owned: bool,
    /// Whether the agent may write it: nobody owns it, or its role does.
    pub may_write: bool,
    /// The declaration that counts, when there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The agent's role, when it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The answer in words.
    pub note: String,
}

/// Answers whether `seat` may write `path`, with the role that its registry entry names now. Of several declarations the one that names the
/// document itself counts, else the longest pattern.
///
/// # Errors
/// [`BusError::Scopes`], [`BusError::Damaged`] for the registry, a path that is empty or leads above its beginning; a fault.
pub fn may_write(home: &Home, path: &str, seat: &SeatId) -> Result<Answer, BusError> {
    let scopes = list(home)?;
    let agent = Agents::load(home)?.get(seat);
    answer(&scopes, path, seat, agent.as_ref())
}

/// Who owns a document, whoever asks.
///
/// # Errors
/// As [`may_write`], the registry's aside.
pub fn owner(home: &Home, path: &str) -> Result<Option<Scope>, BusError> {
    let path = asked(path)?;
    Ok(of(&list(home)?, &path).cloned())
}

fn asked(path: &str) -> Result<String, BusError> {
    normal(path).ok_or(BusError::Argument(
        "path must name a document, without leading above where it begins",
    ))
}

fn answer(scopes: &[Scope], path: &str, seat: &SeatId, agent: Option<&Agent>) -> Result<Answer, BusError> {
    let path = asked(path)?;
    let roles = agent.map(roles).unwrap_or_default();
    let scope = of(scopes, &path).cloned();
    let may_write = scope.as_ref().is_none_or(|scope| owns(scope, &roles));
    let note = match &scope {
        None => "nobody is declared to own this document".to_owned(),
        Some(_) if may_write => format!("'{seat}' has the role that owns this document"),
        Some(scope) => format!(
            "this document is declared for {}, and '{seat}' {}; nothing prevents the write, its owner should be asked",
            scope.roles.join(" or "),
            match roles.first() {
                Some(role) => format!("is {role}"),
                None if agent.is_some() => "has no role".to_owned(),
                None => "is not registered".to_owned(),
            }
        ),
    };
    Ok(Answer {
        path,
        owned: scope.is_some(),
        may_write,
        scope,
        role: roles.into_iter().next(),
        note,
    })
}

/// The roles of an agent: what it says it does, and the fixed role that other programs keep beside it.
fn roles(agent: &Agent) -> Vec<String> {
    let fixed = agent.more.get("roleId").and_then(Value::as_str);
    let mut roles: Vec<String> = agent
        .role
        .as_deref()
        .into_iter()
        .chain(fixed)
        .map(str::to_owned)
        .collect();
    roles.dedup();
    roles
}

/// Whether one of `roles` owns the scope, whatever its case.
fn owns(scope: &Scope, roles: &[String]) -> bool {
    let is = |role: &String| {
        scope
            .roles
            .iter()
            .any(|owner| owner.eq_ignore_ascii_case(role.trim()))
    };
    roles.iter().any(is)
}

/// The declaration that counts for a path that is normal.
fn of<'s>(scopes: &'s [Scope], path: &str) -> Option<&'s Scope> {
    scopes
        .iter()
        .filter(|scope| covers(&scope.path, path))
        .max_by_key(|scope| (!is_pattern(&scope.path), scope.path.len()))
}

fn is_pattern(path: &str) -> bool {
    path.contains('*')
}

/// Removes `.`, `..` and doubled slashes without looking at a disk. `None` for what then names nothing or leads above its beginning.
fn normal(path: &str) -> Option<String> {
    let path = path.trim();
    if path.is_empty() || path.contains('\0') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    if parts.is_empty() {
        return None;
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    Some(format!("{root}{}", parts.join("/")))
}

/// Whether a declared path stands for an asked one. Where only one of the two is absolute, the other means its end.
fn covers(declared: &str, asked: &str) -> bool {
    let parts = |path: &str| {
        path.split('/')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let (declared_parts, asked_parts): (Vec<String>, Vec<String>) = (parts(declared), parts(asked));
    match (declared.starts_with('/'), asked.starts_with('/')) {
        (true, true) | (false, false) => whole(&declared_parts, &asked_parts),
        (false, true) => (0..asked_parts.len()).any(|from| {
            asked_parts
                .get(from..)
                .is_some_and(|end| whole(&declared_parts, end))
        }),
        (true, false) => (0..declared_parts.len()).any(|from| {
            // Without its beginning a pattern of folders alone would stand for everything.
            declared_parts
                .get(from..)
                .is_some_and(|end| end.first().is_some_and(|part| part != "**") && whole(end, &asked_parts))
        }),
    }
}

/// Whether a pattern stands for the whole of a path, component by component.
fn whole(pattern: &[String], path: &[String]) -> bool {
    // reached[n]: the pattern so far stands for the first n components.
    let mut reached = vec![false; path.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for part in pattern {
        let before = std::mem::replace(&mut reached, vec![false; path.len() + 1]);
        if part == "**" {
            let mut any = false;
            for (now, then) in reached.iter_mut().zip(&before) {
                any |= *then;
                *now = any;
            }
        } else {
            for ((now, then), name) in reached.iter_mut().skip(1).zip(&before).zip(path) {
                *now = *then && named(part.as_bytes(), name.as_bytes());
            }
        }
    }
    reached.last().copied().unwrap_or(false)
}

/// Whether one component's pattern stands for a name.
fn named(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where the last star stands, and how much of the name it has taken.
    let mut star: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(read) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(same) if same == byte => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((stood, taken)) = star else { return false };
                star = Some((stood, taken + 1));
                at = stood + 1;
                read = taken + 1;
            }
        }
    }
    pattern
        .get(at..)
        .is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}

/// An absolute path as scopes count it.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
