//! Forgejo's and Gitea's interface, version 1. Never asks for more than tickets of one repository.

use ::http::Method;
use serde_json::json;

use crate::http::{Http, unreadable, with_query};
use crate::rows::{IssueRow, PullRow, not_an_issue};
use crate::{
    Api, ForgeError, IssueDetail, IssueKey, NewIssue, NewPullRequest, PER_PAGE, Page, PageQuery, PullRequest,
    Reply, Repo, StateFilter,
};

/// What marks a draft there: the beginning of its title.
const DRAFT: &str = "WIP: ";

/// A server that speaks it.
pub(crate) struct Forgejo {
    http: Http,
}

impl Forgejo {
    pub(crate) const fn new(http: Http) -> Self {
        Self { http }
    }

    async fn open(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = json!({
            "title": new.prefixed(DRAFT),
            "head": new.head(),
            "base": new.base(),
            "body": new.body(),
        });
        let row: PullRow = self
            .http
            .post(&format!("/repos/{}/pulls", new.repo()), &body)
            .await?;
        row.read().map_err(|detail| unreadable(&Method::POST, &detail))
    }

    async fn list(&self, repo: &Repo, query: PageQuery<'_>) -> Result<Page, ForgeError> {
        let state = match query.state {
            StateFilter::Open => "open",
            StateFilter::Closed => "closed",
            StateFilter::All => "all",
        };
        let (limit, number) = (PER_PAGE.to_string(), query.number.to_string());
        let mut parameters = vec![
            ("type", "issues"),
            ("state", state),
            ("limit", limit.as_str()),
            ("page", number.as_str()),
        ];
        parameters.extend(query.text.map(|text| ("q", text)));
        let path = with_query(&format!("/repos/{repo}/issues"), &parameters);
        let (rows, answer): (Vec<IssueRow>, _) = self.http.get(&path).await?;
        let further = answer.has_further_page(rows.len(), PER_PAGE);
        let issues = rows
            .into_iter()
            .filter(|row| !row.is_pull_request())
            .map(|row| row.issue(repo))
            .collect::<Result<_, _>>()
            .map_err(|detail| unreadable(&Method::GET, &detail))?;
        Ok(Page { issues, further })
    }

    async fn fetch(&self, key: &IssueKey) -> Result<IssueDetail, ForgeError> {
        let path = format!("/repos/{}/issues/{}", key.repo(), key.number());
        let (row, _): (IssueRow, _) = self.http.get(&path).await?;
        if row.is_pull_request() {
            return Err(not_an_issue(key));
        }
        row.read(key.repo())
            .map_err(|detail| unreadable(&Method::GET, &detail))
    }

    async fn create(&self, new: &NewIssue) -> Result<IssueDetail, ForgeError> {
        let body = json!({"title": new.title(), "body": new.body()});
        let row: IssueRow = self
            .http
            .post(&format!("/repos/{}/issues", new.repo()), &body)
            .await?;
        row.read(new.repo())
            .map_err(|detail| unreadable(&Method::POST, &detail))
    }
}

impl Api for Forgejo {
    fn open_pull_request<'a>(&'a self, new: &'a NewPullRequest) -> Reply<'a, PullRequest> {
        Box::pin(self.open(new))
    }

    fn issues<'a>(&'a self, repo: &'a Repo, query: PageQuery<'a>) -> Reply<'a, Page> {
        Box::pin(self.list(repo, query))
    }

    fn issue<'a>(&'a self, key: &'a IssueKey) -> Reply<'a, IssueDetail> {
        Box::pin(self.fetch(key))
    }

    fn create_issue<'a>(&'a self, new: &'a NewIssue) -> Reply<'a, IssueDetail> {
        Box::pin(self.create(new))
    }
}
