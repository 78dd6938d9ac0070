//! GitHub's interface through octocrab, over the one bounded way out. Never lets a search reach beyond its repository.

use std::sync::Arc;

use ::http::{Method, Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use octocrab::{AuthState, Octocrab, OctocrabBuilder};
use serde_json::json;

use crate::http::{Http, describe, unreadable};
use crate::rows::{IssueRow, PullRow, not_an_issue};
use crate::{
    Api, ForgeError, IssueDetail, IssueKey, NewIssue, NewPullRequest, PER_PAGE, Page, PageQuery, PullRequest,
    Reply, Repo, StateFilter,
};

/// GitHub, or a server of one's own that speaks like it.
pub(crate) struct GitHub {
    http: Arc<Http>,
}

impl GitHub {
    pub(crate) fn new(http: Http) -> Self {
        Self { http: Arc::new(http) }
    }

    /// The library with our own way out under it: it builds requests and reads pages; connections, bounds, the token and refusals are ours.
    fn crab(&self) -> Result<Octocrab, ForgeError> {
        let http = Arc::clone(&self.http);
        let way_out =
            tower::service_fn(move |request: Request<octocrab::OctoBody>| carry(Arc::clone(&http), request));
        OctocrabBuilder::new_empty()
            .with_service(way_out)
            .with_auth(AuthState::None)
            .build()
            .map_err(|error| match error {})
    }

    async fn open(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = json!({
            "title": new.title(),
            "head": new.head(),
            "base": new.base(),
            "body": new.body(),
            "draft": new.draft(),
        });
        let row: PullRow = self
            .crab()?
            .post(format!("/repos/{}/pulls", new.repo()), Some(&body))
            .await
            .map_err(|error| failed(&Method::POST, error))?;
        row.read().map_err(|detail| unreadable(&Method::POST, &detail))
    }

    async fn list(&self, repo: &Repo, query: PageQuery<'_>) -> Result<Page, ForgeError> {
        let (per_page, number) = (PER_PAGE.to_string(), query.number.to_string());
        let paging = [("per_page", per_page.as_str()), ("page", number.as_str())];
        let crab = self.crab()?;
        let page: octocrab::Page<IssueRow> = match query.text {
            None => {
                let state = match query.state {
                    StateFilter::Open => "open",
                    StateFilter::Closed => "closed",
                    StateFilter::All => "all",
                };
                let parameters = [&[("state", state)], paging.as_slice()].concat();
                crab.get(format!("/repos/{repo}/issues"), Some(&parameters)).await
            }
            Some(text) => {
                let q = search(repo, text, query.state);
                let parameters = [&[("q", q.as_str())], paging.as_slice()].concat();
                crab.get("/search/issues", Some(&parameters)).await
            }
        }
        .map_err(|error| failed(&Method::GET, error))?;
        let further = page.next.is_some();
        let searched = query.text.is_some();
        let issues = page
            .items
            .into_iter()
            // Whatever the search understood, a ticket of another repository is not shown.
            .filter(|row| !row.is_pull_request() && (!searched || row.lies_in(repo)))
            .map(|row| row.issue(repo))
            .collect::<Result<_, _>>()
            .map_err(|detail| unreadable(&Method::GET, &detail))?;
        Ok(Page { issues, further })
    }

    async fn fetch(&self, key: &IssueKey) -> Result<IssueDetail, ForgeError> {
        let row: IssueRow = self
            .crab()?
            .get(
                format!("/repos/{}/issues/{}", key.repo(), key.number()),
                None::<&()>,
            )
            .await
            .map_err(|error| failed(&Method::GET, error))?;
        if row.is_pull_request() {
            return Err(not_an_issue(key));
        }
        row.read(key.repo())
            .map_err(|detail| unreadable(&Method::GET, &detail))
    }

    async fn create(&self, new: &NewIssue) -> Result<IssueDetail, ForgeError> {
        let body = json!({"title": new.title(), "body": new.body()});
        let row: IssueRow = self
            .crab()?
            .post(format!("/repos/{}/issues", new.repo()), Some(&body))
            .await
            .map_err(|error| failed(&Method::POST, error))?;
        row.read(new.repo())
            .map_err(|detail| unreadable(&Method::POST, &detail))
    }
}

impl Api for GitHub {
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

/// The words to look for, each quoted so that none is read as a qualifier, within one repository.
fn search(repo: &Repo, text: &str, state: StateFilter) -> String {
    let words: Vec<String> = text
        .replace('"', " ")
        .split_whitespace()
        .map(|word| format!("\"{word}\""))
        .collect();
    let state = match state {
        StateFilter::Open => " state:open",
        StateFilter::Closed => " state:closed",
        StateFilter::All => "",
    };
    format!("{} repo:{repo} is:issue{state}", words.join(" "))
}

/// One request of the library's, sent our way.
async fn carry(
    http: Arc<Http>,
    request: Request<octocrab::OctoBody>,
) -> Result<Response<Full<Bytes>>, ForgeError> {
    let (parts, body) = request.into_parts();
    let body = body
        .collect()
        .await
        .map_err(|_| ForgeError::Invalid("the request could not be written".to_owned()))?
        .to_bytes();
    let mut headers = parts.headers;
    headers.remove(::http::header::CONTENT_LENGTH);
    // Only the path: whatever address a request names, it goes to the integration's.
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let answer = http.send(parts.method, path, &headers, body).await?;
    let mut response = Response::new(Full::new(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    Ok(response)
}

/// Our own refusal comes back out of the library as it went in; everything else is an answer that it could not read.
fn failed(method: &Method, error: octocrab::Error) -> ForgeError {
    match error {
        octocrab::Error::Service { source, .. } => match source.downcast::<ForgeError>() {
            Ok(ours) => *ours,
            Err(_) => unreadable(method, "the request could not be carried"),
        },
        octocrab::Error::Json { source, .. } => unreadable(method, &describe(source.inner())),
        octocrab::Error::Serde { source, .. } => unreadable(method, &describe(&source)),
        _ => unreadable(method, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_searched_for_is_never_a_qualifier() {
        let repo = Repo::parse("acme/shop").unwrap();
        assert_eq!(
            search(&repo, "crash repo:acme/secret \"is:pr", StateFilter::Open),
            "\"crash\" \"repo:acme/secret\" \"is:pr\" repo:acme/shop is:issue state:open"
        );
        assert_eq!(
            search(&repo, "x", StateFilter::All),
            "\"x\" repo:acme/shop is:issue"
        );
    }
}
