//! What a grant covers and what a call names: resources by their stable ids. Never reads a name as an id that could stand for several resources.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use muster_core::text::terminal;

use crate::invalid::{Invalid, Shown};
use crate::words::ScopeKind;

/// Longest id, in bytes; the segments of a repo's path have this limit each.
const MAX_ID: usize = 64;
/// Longest path of a repo, in bytes.
const MAX_REPO: usize = 200;

/// Differs from process to process, so that nobody can choose ids that fall on one place of an index.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// One resource by its stable id, printed `KIND:ID`.
///
/// The id is what the store gave the resource once and gives to no other; a name that can change is not one. Ids of one kind
/// are compared byte for byte, a repo's without regard to the case of its ASCII letters, as forges do: it is printed as it was written.
#[derive(Clone)]
pub struct Resource {
    /// Made once here, so that a decision never hashes a text.
    print: u64,
    kind: ScopeKind,
    id: Arc<str>,
}

impl Resource {
    /// Checks `id`: 1 to 64 of `A-Z a-z 0-9 . _ -`, a letter or digit first; a repo is at least two such segments with a slash
    /// between them (a segment may start with a dot or an underscore there), 200 bytes in all.
    ///
    /// # Errors
    /// [`Invalid::Id`].
    pub fn new(kind: ScopeKind, id: &str) -> Result<Self, Invalid> {
        let valid = match kind {
            ScopeKind::Repo => is_repo(id),
            ScopeKind::Project
            | ScopeKind::Worktree
            | ScopeKind::DbConnection
            | ScopeKind::Host
            | ScopeKind::Integration => is_id(id),
        };
        if !valid {
            return Err(Invalid::Id {
                kind,
                id: Shown::of(id),
            });
        }
        Ok(Self::unchecked(kind, id))
    }

    fn unchecked(kind: ScopeKind, id: &str) -> Self {
        let print = match kind {
            ScopeKind::Repo => KEYS.hash_one((kind, id.to_ascii_lowercase())),
            ScopeKind::Project
            | ScopeKind::Worktree
            | ScopeKind::DbConnection
            | ScopeKind::Host
            | ScopeKind::Integration => KEYS.hash_one((kind, id)),
        };
        Self {
            print,
            kind,
            id: Arc::from(id),
        }
    }

    /// What kind of thing it is.
    #[must_use]
    pub const fn kind(&self) -> ScopeKind {
        self.kind
    }

    /// The id without its kind.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `KIND:ID` for a sentence, with the name beside it where it has another: `db_connection:3 (staging)`.
    #[must_use]
    pub fn told(&self, names: Names<'_>) -> String {
        match names(self).filter(|name| name != self.id()) {
            Some(name) => format!("{self} ({})", terminal(&name)),
            None => self.to_string(),
        }
    }
}

/// What resources are called besides their ids; nothing for one whose name is not known.
pub type Names<'n> = &'n dyn Fn(&Resource) -> Option<String>;

/// No names at all: a sentence then says ids alone.
pub(crate) const fn nameless(_: &Resource) -> Option<String> {
    None
}

fn is_word(id: &str) -> bool {
    (1..=MAX_ID).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

fn is_id(id: &str) -> bool {
    is_word(id) && id.starts_with(|c: char| c.is_ascii_alphanumeric())
}

fn is_repo(path: &str) -> bool {
    path.len() <= MAX_REPO
        && path.contains('/')
        && path.starts_with(|c: char| c.is_ascii_alphanumeric())
        && path
            .split('/')
            .all(|part| is_word(part) && !part.starts_with('-') && !matches!(part, "." | ".."))
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print && self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Resource {}

impl Hash for Resource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.print);
    }
}

impl Ord for Resource {
    fn cmp(&self, other: &Self) -> Ordering {
        self.kind.cmp(&other.kind).then_with(|| match self.kind {
            ScopeKind::Repo => {
                let mine = self.id.bytes().map(|byte| byte.to_ascii_lowercase());
                mine.cmp(other.id.bytes().map(|byte| byte.to_ascii_lowercase()))
            }
            _ => self.id.cmp(&other.id),
        })
    }
}

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.id)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Resource {
    type Err = Invalid;

    /// Reads `KIND:ID`.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let (kind, id) = text
            .split_once(':')
            .ok_or_else(|| Invalid::Scope(Shown::of(text)))?;
        Self::new(kind.parse()?, id)
    }
}

/// Hands the print of a [`Resource`] through: it is a keyed hash already.
#[derive(Default)]
pub(crate) struct Printed(u64);

impl Hasher for Printed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, print: u64) {
        self.0 = print;
    }
}

/// What a grant covers: `any`, or exactly one resource.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// Every existing resource of the kinds that the grant's action takes, those that come later included; never a call that names none.
    Any,
    /// This one; a project also covers the worktrees that lie in it, for actions that take worktrees.
    One(Resource),
}

impl Scope {
    /// Joins the two columns of a stored row: `any` without an id, or a kind with one.
    ///
    /// # Errors
    /// [`Invalid::Scope`], [`Invalid::Kind`] or [`Invalid::Id`].
    pub fn from_parts(kind: &str, id: Option<&str>) -> Result<Self, Invalid> {
        match (kind, id) {
            ("any", None) => Ok(Self::Any),
            ("any", Some(_)) | (_, None) => Err(Invalid::Scope(Shown::of(kind))),
            (kind, Some(id)) => Ok(Self::One(Resource::new(kind.parse()?, id)?)),
        }
    }

    /// `any` or the word of the kind, for a column of its own.
    #[must_use]
    pub const fn kind_word(&self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::One(resource) => resource.kind().as_str(),
        }
    }

    /// The scope for a sentence, with the name beside the id.
    #[must_use]
    pub fn told(&self, names: Names<'_>) -> String {
        match self {
            Self::Any => self.to_string(),
            Self::One(resource) => resource.told(names),
        }
    }

    /// The id as it was written; of `any` nothing. Scopes that are equal can be spelled in several ways when they name a repo.
    #[must_use]
    pub fn spelling(&self) -> &str {
        match self {
            Self::Any => "",
            Self::One(resource) => resource.id(),
        }
    }

    /// The resource, unless it is `any`.
    #[must_use]
    pub const fn resource(&self) -> Option<&Resource> {
        match self {
            Self::Any => None,
            Self::One(resource) => Some(resource),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::One(resource) => fmt::Display::fmt(resource, f),
        }
    }
}

impl FromStr for Scope {
    type Err = Invalid;

    /// Reads `any` or `KIND:ID`.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == "any" {
            Ok(Self::Any)
        } else {
            text.parse().map(Self::One)
        }
    }
}

/// An existing resource that a call names, with the project around it when it is a worktree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    resource: Resource,
    project: Option<Resource>,
}

impl Target {
    /// A resource that lies in no other.
    ///
    /// # Errors
    /// [`Invalid::NoProject`] for a worktree: without its project a grant on the project, a deny among them, would be missed.
    pub fn new(resource: Resource) -> Result<Self, Invalid> {
        if resource.kind == ScopeKind::Worktree {
            return Err(Invalid::NoProject);
        }
        Ok(Self {
            resource,
            project: None,
        })
    }

    /// A worktree and the project that it lies in, both by id.
    ///
    /// # Errors
    /// [`Invalid::Id`].
    pub fn worktree(id: &str, project: &str) -> Result<Self, Invalid> {
        Ok(Self {
            resource: Resource::new(ScopeKind::Worktree, id)?,
            project: Some(Resource::new(ScopeKind::Project, project)?),
        })
    }

    /// Stands for a resource that is still to be made: no grant can name it, because its id is not a valid one.
    pub(crate) fn to_come(kind: ScopeKind) -> Self {
        let unnamed = |kind| Resource::unchecked(kind, "");
        Self {
            resource: unnamed(kind),
            project: (kind == ScopeKind::Worktree).then(|| unnamed(ScopeKind::Project)),
        }
    }

    /// The resource itself.
    #[must_use]
    pub const fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The project around a worktree.
    #[must_use]
    pub const fn project(&self) -> Option<&Resource> {
        self.project.as_ref()
    }

    /// Whether a grant with this scope covers the resource, the action's kinds aside.
    pub(crate) fn is_covered_by(&self, scope: &Scope) -> bool {
        match scope {
            Scope::Any => true,
            Scope::One(resource) => *resource == self.resource || Some(resource) == self.project.as_ref(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.resource, f)
    }
}
