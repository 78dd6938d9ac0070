//! Rows as GitHub and Forgejo write them, as far as they are read; both spell these alike. Never fails on a field that is not used.

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::{ForgeError, Issue, IssueDetail, IssueKey, IssueState, PullRequest, Repo};

/// A pull request that was opened.
#[derive(Debug, Deserialize)]
pub(crate) struct PullRow {
    number: u64,
    html_url: String,
}

impl PullRow {
    pub(crate) fn read(self) -> Result<PullRequest, String> {
        Ok(PullRequest {
            number: self.number,
            url: page(self.html_url)?,
        })
    }
}

/// A ticket, or what the same list also holds.
#[derive(Debug, Deserialize)]
pub(crate) struct IssueRow {
    number: u64,
    title: String,
    state: String,
    html_url: String,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    user: Option<User>,
    #[serde(default)]
    labels: Option<Vec<Label>>,
    #[serde(default)]
    comments: u64,
    #[serde(default)]
    pull_request: Option<IgnoredAny>,
    #[serde(default)]
    repository_url: Option<String>,
}

#[derive(Debug, Deserialize)]
struct User {
    login: String,
}

/// GitHub's interface allows both forms.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Label {
    Word(String),
    Row {
        #[serde(default)]
        name: Option<String>,
    },
}

impl IssueRow {
    pub(crate) const fn is_pull_request(&self) -> bool {
        self.pull_request.is_some()
    }

    /// Whether a row that a search over many repositories found lies in `repo`. One that does not say where it lies, does not.
    pub(crate) fn lies_in(&self, repo: &Repo) -> bool {
        let ending = format!("/repos/{repo}").to_ascii_lowercase();
        self.repository_url
            .as_deref()
            .is_some_and(|url| url.to_ascii_lowercase().ends_with(&ending))
    }

    pub(crate) fn issue(self, repo: &Repo) -> Result<Issue, String> {
        self.read(repo).map(|detail| detail.issue)
    }

    pub(crate) fn read(self, repo: &Repo) -> Result<IssueDetail, String> {
        Ok(IssueDetail {
            issue: Issue {
                key: IssueKey::new(repo.clone(), self.number).map_err(|error| error.to_string())?,
                title: self.title,
                state: state(&self.state)?,
                url: page(self.html_url)?,
            },
            body: self.body.unwrap_or_default(),
            author: self.user.map(|user| user.login),
            labels: self
                .labels
                .unwrap_or_default()
                .into_iter()
                .filter_map(|label| match label {
                    Label::Word(name) => Some(name),
                    Label::Row { name } => name,
                })
                .collect(),
            comments: self.comments,
        })
    }
}

/// The state in any forge's spelling.
pub(crate) fn state(word: &str) -> Result<IssueState, String> {
    match word {
        "open" | "opened" => Ok(IssueState::Open),
        "closed" => Ok(IssueState::Closed),
        _ => Err("a ticket is neither open nor closed".to_owned()),
    }
}

/// An address that may be shown as a link: nothing but the web.
pub(crate) fn page(url: String) -> Result<String, String> {
    let web = url.len() <= 2_000
        && reqwest::Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "https" | "http"));
    if web {
        Ok(url)
    } else {
        Err("the address of a page is none".to_owned())
    }
}

/// That the number of a pull request was given for a ticket's.
pub(crate) fn not_an_issue(key: &IssueKey) -> ForgeError {
    ForgeError::NotFound {
        reason: format!("{key} is a pull request, not a ticket"),
    }
}
