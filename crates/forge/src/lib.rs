//! Pull requests and tickets at a forge: GitHub, GitLab, Forgejo (and Gitea). Never pushes a branch, follows a redirect, tries twice, or acts without a permit.
//!
//! [`Forge::connect`] builds a [`Forge`] for one integration; nothing is sent before the first act. Each act takes the [`Permit`] that a
//! decision gave for the call and refuses one that does not cover it: `pr_write` on the repository, `issues_read` or `issues_write` on the
//! integration.
//!
//! The git side is not done here: the head branch of a pull request must already stand on the forge's remote, pushed by whoever holds it.
//!
//! An act goes out at most once. When it cannot be known whether it arrived, the answer is [`ForgeError::Unknown`], never a second try.

mod error;
mod forgejo;
mod github;
mod gitlab;
mod http;
mod rows;
mod words;

use std::future::Future;
use std::pin::Pin;

use muster_core::{Clock, Secret};
use muster_policy::{Action, Permit, Resource, ScopeKind};

pub use error::ForgeError;
pub use http::Limits;
pub use words::{
    Issue, IssueDetail, IssueKey, IssueList, IssueQuery, IssueState, Kind, NewIssue, NewPullRequest,
    PullRequest, Repo, StateFilter,
};

use http::Http;

/// Most tickets that one [`Forge::list_issues`] returns.
pub const MAX_ISSUES: usize = 200;
/// Tickets asked for at once; the most that every kind of forge gives.
const PER_PAGE: u32 = 50;
/// Most pages that one listing asks for, however few of their rows are tickets.
const MAX_PAGES: u32 = 10;

/// What a forge is reached with.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Which interface it speaks.
    pub kind: Kind,
    /// The address as the owner gave it; see [`check_url`].
    pub url: &'a str,
    /// The access token. It is sent to that address only, and shown nowhere.
    pub token: &'a Secret,
    /// The integration, as grants name it.
    pub integration: &'a Resource,
    /// For the moment at which a limit ends.
    pub clock: Clock,
    /// Bounds in time and size.
    pub limits: Limits,
}

/// Whether `url` can be the address of a forge of this kind. Nothing is sent.
///
/// It is `https://…`; `http://` is taken for this machine only (a loopback address or `localhost`). For GitHub it is the base of the
/// interface (`https://api.github.com`, `https://HOST/api/v3`; `https://github.com` is understood); for GitLab and Forgejo the address of the
/// site, with or without `/api/v4` or `/api/v1` behind it.
///
/// # Errors
/// [`ForgeError::Invalid`].
pub fn check_url(kind: Kind, url: &str) -> Result<(), ForgeError> {
    http::base(kind, url).map(drop)
}

/// One integration.
pub struct Forge {
    api: Box<dyn Api>,
    integration: Resource,
    kind: Kind,
}

impl std::fmt::Debug for Forge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Forge({} {})", self.kind, self.integration)
    }
}

/// What comes back from one act.
type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, ForgeError>> + Send + 'a>>;

/// One page of a listing: the tickets on it, and whether the forge has a further page.
struct Page {
    issues: Vec<Issue>,
    further: bool,
}

/// What one page is asked for with.
#[derive(Clone, Copy)]
struct PageQuery<'a> {
    text: Option<&'a str>,
    state: StateFilter,
    number: u32,
}

/// The small part of a forge's interface that is used, alike for all kinds. Permits were checked before.
trait Api: Send + Sync {
    fn open_pull_request<'a>(&'a self, new: &'a NewPullRequest) -> Reply<'a, PullRequest>;
    fn issues<'a>(&'a self, repo: &'a Repo, query: PageQuery<'a>) -> Reply<'a, Page>;
    fn issue<'a>(&'a self, key: &'a IssueKey) -> Reply<'a, IssueDetail>;
    fn create_issue<'a>(&'a self, new: &'a NewIssue) -> Reply<'a, IssueDetail>;
}

impl Forge {
    /// Makes ready to speak with a forge; sends nothing.
    ///
    /// # Errors
    /// [`ForgeError::Invalid`] when the address, the token or the integration cannot be used.
    pub fn connect(setup: Setup<'_>) -> Result<Self, ForgeError> {
        if setup.integration.kind() != ScopeKind::Integration {
            return Err(ForgeError::Invalid(
                "a forge is reached through an integration; the resource that was given is none".to_owned(),
            ));
        }
        let kind = setup.kind;
        let integration = setup.integration.clone();
        let http = Http::new(setup)?;
        let api: Box<dyn Api> = match kind {
            Kind::GitHub => Box::new(github::GitHub::new(http)),
            Kind::GitLab => Box::new(gitlab::GitLab::new(http)),
            Kind::Forgejo => Box::new(forgejo::Forgejo::new(http)),
        };
        Ok(Self {
            api,
            integration,
            kind,
        })
    }

    /// Which interface it speaks.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Opens a pull request (at GitLab: a merge request). Charges `pr_write` on the repository. The head branch must exist on the remote.
    ///
    /// # Errors
    /// Any [`ForgeError`]; after [`ForgeError::Unknown`] the pull request may exist.
    pub async fn open_pull_request(
        &self,
        permit: &Permit,
        new: &NewPullRequest,
    ) -> Result<PullRequest, ForgeError> {
        covered(permit, Action::PrWrite, new.repo().resource())?;
        self.takes(new.repo())?;
        self.api.open_pull_request(new).await
    }

    /// Lists tickets of one repository, the newest first, never pull requests. Charges `issues_read` on the integration.
    ///
    /// # Errors
    /// Any [`ForgeError`] but [`ForgeError::Unknown`].
    pub async fn list_issues(
        &self,
        permit: &Permit,
        repo: &Repo,
        query: &IssueQuery,
    ) -> Result<IssueList, ForgeError> {
        covered(permit, Action::IssuesRead, &self.integration)?;
        self.takes(repo)?;
        let limit = query.limit.clamp(1, MAX_ISSUES);
        let mut issues = Vec::new();
        for number in 1..=MAX_PAGES {
            let page = PageQuery {
                text: query.text(),
                state: query.state,
                number,
            };
            let page = self.api.issues(repo, page).await?;
            issues.extend(page.issues);
            if issues.len() > limit || !page.further {
                let more = issues.len() > limit;
                issues.truncate(limit);
                return Ok(IssueList { issues, more });
            }
        }
        Ok(IssueList { issues, more: true })
    }

    /// Fetches one ticket. Charges `issues_read` on the integration.
    ///
    /// # Errors
    /// Any [`ForgeError`] but [`ForgeError::Unknown`]; the number of a pull request is [`ForgeError::NotFound`].
    pub async fn get_issue(&self, permit: &Permit, key: &IssueKey) -> Result<IssueDetail, ForgeError> {
        covered(permit, Action::IssuesRead, &self.integration)?;
        self.takes(key.repo())?;
        self.api.issue(key).await
    }

    /// Fetches the ticket that is about to become a task. Charges `issues_write` on the integration, which is all that an import charges.
    ///
    /// # Errors
    /// As [`Self::get_issue`].
    pub async fn issue_to_import(&self, permit: &Permit, key: &IssueKey) -> Result<IssueDetail, ForgeError> {
        covered(permit, Action::IssuesWrite, &self.integration)?;
        self.takes(key.repo())?;
        self.api.issue(key).await
    }

    /// Creates a ticket. Charges `issues_write` on the integration.
    ///
    /// # Errors
    /// Any [`ForgeError`]; after [`ForgeError::Unknown`] the ticket may exist.
    pub async fn create_issue(&self, permit: &Permit, new: &NewIssue) -> Result<IssueDetail, ForgeError> {
        covered(permit, Action::IssuesWrite, &self.integration)?;
        self.takes(new.repo())?;
        self.api.create_issue(new).await
    }

    /// Only GitLab has groups within groups.
    fn takes(&self, repo: &Repo) -> Result<(), ForgeError> {
        if self.kind != Kind::GitLab && repo.segments().count() != 2 {
            return Err(ForgeError::Invalid(format!(
                "{repo} has more than two parts, and a repository at {} is OWNER/NAME",
                self.kind.name()
            )));
        }
        Ok(())
    }
}

fn covered(permit: &Permit, action: Action, resource: &Resource) -> Result<(), ForgeError> {
    if permit.covers(action, resource) {
        Ok(())
    } else {
        Err(ForgeError::NotCovered {
            action,
            resource: resource.clone(),
        })
    }
}
