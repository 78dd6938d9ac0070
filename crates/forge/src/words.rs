//! What is asked of a forge and what comes back, checked once when it is made. Never sends anything.

use std::fmt;
use std::str::FromStr;

use muster_core::text::terminal;
use muster_policy::{Resource, ScopeKind};

use crate::ForgeError;

/// Most characters of a title.
const MAX_TITLE: usize = 255;
/// Most bytes of a body.
const MAX_BODY: usize = 60 * 1024;
/// Most bytes of a branch's name.
const MAX_BRANCH: usize = 244;
/// Most characters to search for.
const MAX_SEARCH: usize = 200;

/// Which interface a forge speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// GitHub and GitHub Enterprise Server.
    GitHub,
    /// GitLab, version 4 of its interface.
    GitLab,
    /// Forgejo and Gitea, version 1.
    Forgejo,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::GitHub, Self::GitLab, Self::Forgejo];

    /// The word as it is stored, printed and typed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GitHub => "github",
            Self::GitLab => "gitlab",
            Self::Forgejo => "forgejo",
        }
    }

    /// Its name in a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
            Self::Forgejo => "Forgejo",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Self, ForgeError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| {
                ForgeError::Invalid("a forge is one of three kinds: github, gitlab, forgejo".to_owned())
            })
    }
}

/// A repository at a forge, `OWNER/NAME` (at GitLab also `GROUP/SUBGROUP/NAME`), spelled as grants name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Repo(Resource);

impl Repo {
    /// Checks the name: the rule that grants have for repositories, and besides none that ends in `.git` or `.atom`.
    ///
    /// # Errors
    /// [`ForgeError::Invalid`].
    pub fn parse(text: &str) -> Result<Self, ForgeError> {
        let resource =
            Resource::new(ScopeKind::Repo, text).map_err(|error| ForgeError::Invalid(error.to_string()))?;
        let folded = text.to_ascii_lowercase();
        if folded.ends_with(".git") || folded.ends_with(".atom") {
            return Err(ForgeError::Invalid(format!(
                "{text} is no name of a repository: leave out the ending"
            )));
        }
        Ok(Self(resource))
    }

    /// The repository as grants name it.
    #[must_use]
    pub const fn resource(&self) -> &Resource {
        &self.0
    }

    /// `OWNER/NAME`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.id()
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &str> {
        self.as_str().split('/')
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A ticket's name, `OWNER/NAME#N`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IssueKey {
    repo: Repo,
    number: u64,
}

impl IssueKey {
    /// The ticket with this number in `repo`.
    ///
    /// # Errors
    /// [`ForgeError::Invalid`] for zero.
    pub fn new(repo: Repo, number: u64) -> Result<Self, ForgeError> {
        if number == 0 {
            return Err(ForgeError::Invalid("tickets are numbered from 1".to_owned()));
        }
        Ok(Self { repo, number })
    }

    /// The repository that it is in.
    #[must_use]
    pub const fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Its number there.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }
}

impl fmt::Display for IssueKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.repo, self.number)
    }
}

impl FromStr for IssueKey {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Self, ForgeError> {
        let number = |digits: &str| {
            let plain = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| plain)
        };
        match text.split_once('#') {
            Some((repo, digits)) => match number(digits) {
                Some(number) => Self::new(Repo::parse(repo)?, number),
                None => Err(not_a_key()),
            },
            None => Err(not_a_key()),
        }
    }
}

fn not_a_key() -> ForgeError {
    ForgeError::Invalid("a ticket is named OWNER/NAME#NUMBER, such as acme/shop#12".to_owned())
}

/// A pull request to open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPullRequest {
    repo: Repo,
    title: String,
    body: String,
    head: String,
    base: String,
    draft: bool,
}

impl NewPullRequest {
    /// Checks each part: a title of 1 to 255 characters on one line, a body of at most 60 KiB, two different names of branches.
    ///
    /// # Errors
    /// [`ForgeError::Invalid`].
    pub fn new(
        repo: Repo,
        title: &str,
        body: &str,
        head: &str,
        base: &str,
        draft: bool,
    ) -> Result<Self, ForgeError> {
        if head == base {
            return Err(ForgeError::Invalid(
                "a pull request needs two branches, and head and base are the same".to_owned(),
            ));
        }
        Ok(Self {
            repo,
            title: checked_title(title)?,
            body: checked_body(body)?,
            head: checked_branch("head", head)?,
            base: checked_branch("base", base)?,
            draft,
        })
    }

    /// Where it is opened.
    #[must_use]
    pub const fn repo(&self) -> &Repo {
        &self.repo
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }

    pub(crate) fn head(&self) -> &str {
        &self.head
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) const fn draft(&self) -> bool {
        self.draft
    }

    /// The title with `prefix` before it, for forges where a draft is known by its title.
    pub(crate) fn prefixed(&self, prefix: &str) -> String {
        if self.draft && !self.title.starts_with(prefix) {
            format!("{prefix}{}", self.title)
        } else {
            self.title.clone()
        }
    }
}

/// A pull request that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number in the repository.
    pub number: u64,
    /// Its page.
    pub url: String,
}

/// A ticket to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIssue {
    repo: Repo,
    title: String,
    body: String,
}

impl NewIssue {
    /// Checks each part: a title of 1 to 255 characters on one line, a body of at most 60 KiB.
    ///
    /// # Errors
    /// [`ForgeError::Invalid`].
    pub fn new(repo: Repo, title: &str, body: &str) -> Result<Self, ForgeError> {
        Ok(Self {
            repo,
            title: checked_title(title)?,
            body: checked_body(body)?,
        })
    }

    /// Where it is created.
    #[must_use]
    pub const fn repo(&self) -> &Repo {
        &self.repo
    }

    pub(crate) fn title(&self) -> &str {
        &self.title
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }
}

/// Which tickets a listing shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateFilter {
    /// Those that are open.
    #[default]
    Open,
    /// Those that are closed.
    Closed,
    /// Both.
    All,
}

impl FromStr for StateFilter {
    type Err = ForgeError;

    fn from_str(text: &str) -> Result<Self, ForgeError> {
        match text {
            "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed),
            "all" => Ok(Self::All),
            _ => Err(ForgeError::Invalid(
                "the state of tickets to list is open, closed or all".to_owned(),
            )),
        }
    }
}

/// What to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueQuery {
    text: Option<String>,
    /// In which state.
    pub state: StateFilter,
    /// Most tickets to return, 1 to [`crate::MAX_ISSUES`].
    pub limit: usize,
}

impl IssueQuery {
    /// Words to look for in title and body (none lists all): plain words on one line, at most 200 characters. They are never read as
    /// a forge's own query language.
    ///
    /// # Errors
    /// [`ForgeError::Invalid`].
    pub fn new(text: Option<&str>, state: StateFilter, limit: usize) -> Result<Self, ForgeError> {
        let text = text.map(str::trim).filter(|text| !text.is_empty());
        if let Some(text) = text
            && (text.chars().count() > MAX_SEARCH || text.chars().any(char::is_control))
        {
            return Err(ForgeError::Invalid(format!(
                "what to search for must be one line of at most {MAX_SEARCH} characters"
            )));
        }
        Ok(Self {
            text: text.map(str::to_owned),
            state,
            limit,
        })
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

/// Open or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IssueState {
    /// Open.
    Open,
    /// Closed.
    Closed,
}

impl IssueState {
    /// The word, alike for every forge.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// A ticket in a list. Title and address are the forge's: outside text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Its name.
    pub key: IssueKey,
    /// Its title.
    pub title: String,
    /// Open or closed.
    pub state: IssueState,
    /// Its page.
    pub url: String,
}

/// Tickets, and whether the limit kept some back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueList {
    /// The newest first.
    pub issues: Vec<Issue>,
    /// Whether there are more.
    pub more: bool,
}

/// A ticket with everything that is read of it. All text is the forge's: outside text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssueDetail {
    /// Name, title, state and page.
    pub issue: Issue,
    /// Its text; empty when it has none.
    pub body: String,
    /// Who wrote it, unless that account is gone.
    pub author: Option<String>,
    /// Its labels.
    pub labels: Vec<String>,
    /// How many comments it has.
    pub comments: u64,
}

fn checked_title(title: &str) -> Result<String, ForgeError> {
    let title = title.trim();
    let length = title.chars().count();
    if length == 0 || length > MAX_TITLE || title.chars().any(char::is_control) {
        return Err(ForgeError::Invalid(format!(
            "a title is one line of 1 to {MAX_TITLE} characters"
        )));
    }
    Ok(title.to_owned())
}

fn checked_body(body: &str) -> Result<String, ForgeError> {
    if body.len() > MAX_BODY || body.contains('\0') {
        return Err(ForgeError::Invalid(format!(
            "a body has at most {MAX_BODY} bytes and no NUL; it has {}",
            body.len()
        )));
    }
    Ok(body.to_owned())
}

/// The rules of git for the name of a branch, as far as they matter here: what passes is one name and no expression.
fn checked_branch(field: &str, name: &str) -> Result<String, ForgeError> {
    let forbidden = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let valid = !name.is_empty()
        && name.len() <= MAX_BRANCH
        && !name.chars().any(forbidden)
        && !name.starts_with('-')
        && name != "@"
        && !name.contains("..")
        && !name.contains("@{")
        && name
            .split('/')
            .all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
        && !name.ends_with('.');
    if valid {
        Ok(name.to_owned())
    } else {
        let beginning: String = name.chars().take(60).collect();
        Err(ForgeError::Invalid(format!(
            "{field} must be the name of a branch, and \"{}\" is none",
            terminal(&beginning)
        )))
    }
}
