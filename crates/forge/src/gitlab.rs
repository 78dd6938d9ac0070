//! GitLab's interface, version 4. Never asks for more than tickets of one project.

use ::http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::http::{Http, unreadable, with_query};
use crate::rows::{page, state};
use crate::{
    Api, ForgeError, Issue, IssueDetail, IssueKey, NewIssue, NewPullRequest, PER_PAGE, Page, PageQuery,
    PullRequest, Reply, Repo, StateFilter,
};

/// What marks a draft there: the beginning of its title.
const DRAFT: &str = "Draft: ";

/// A server that speaks it.
pub(crate) struct GitLab {
    http: Http,
}

#[derive(Debug, Deserialize)]
struct MergeRow {
    iid: u64,
    web_url: String,
}

#[derive(Debug, Deserialize)]
struct Row {
    iid: u64,
    title: String,
    state: String,
    web_url: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    author: Option<Author>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    user_notes_count: u64,
}

#[derive(Debug, Deserialize)]
struct Author {
    username: String,
}

impl Row {
    fn read(self, repo: &Repo) -> Result<IssueDetail, String> {
        Ok(IssueDetail {
            issue: Issue {
                key: IssueKey::new(repo.clone(), self.iid).map_err(|error| error.to_string())?,
                title: self.title,
                state: state(&self.state)?,
                url: page(self.web_url)?,
            },
            body: self.description.unwrap_or_default(),
            author: self.author.map(|author| author.username),
            labels: self.labels,
            comments: self.user_notes_count,
        })
    }
}

/// A project by its path; the slashes in it are encoded.
fn project(repo: &Repo) -> String {
    let path: Vec<&str> = repo.segments().collect();
    format!("/projects/{}", path.join("%2F"))
}

impl GitLab {
    pub(crate) const fn new(http: Http) -> Self {
        Self { http }
    }

    async fn open(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let body = json!({
            "title": new.prefixed(DRAFT),
            "source_branch": new.head(),
            "target_branch": new.base(),
            "description": new.body(),
        });
        let path = format!("{}/merge_requests", project(new.repo()));
        let row: MergeRow = self.http.post(&path, &body).await?;
        Ok(PullRequest {
            number: row.iid,
            url: page(row.web_url).map_err(|detail| unreadable(&Method::POST, &detail))?,
        })
    }

    async fn list(&self, repo: &Repo, query: PageQuery<'_>) -> Result<Page, ForgeError> {
        let state = match query.state {
            StateFilter::Open => Some("opened"),
            StateFilter::Closed => Some("closed"),
            StateFilter::All => None,
        };
        let (per_page, number) = (PER_PAGE.to_string(), query.number.to_string());
        let mut parameters = vec![("per_page", per_page.as_str()), ("page", number.as_str())];
        parameters.extend(state.map(|state| ("state", state)));
        if let Some(text) = query.text {
            parameters.extend([("search", text), ("in", "title,description")]);
        }
        let path = with_query(&format!("{}/issues", project(repo)), &parameters);
        let (rows, answer): (Vec<Row>, _) = self.http.get(&path).await?;
        let further = answer.has_further_page(rows.len(), PER_PAGE);
        let issues = rows
            .into_iter()
            .map(|row| row.read(repo).map(|detail| detail.issue))
            .collect::<Result<_, _>>()
            .map_err(|detail| unreadable(&Method::GET, &detail))?;
        Ok(Page { issues, further })
    }

    async fn fetch(&self, key: &IssueKey) -> Result<IssueDetail, ForgeError> {
        let path = format!("{}/issues/{}", project(key.repo()), key.number());
        let (row, _): (Row, _) = self.http.get(&path).await?;
        row.read(key.repo())
            .map_err(|detail| unreadable(&Method::GET, &detail))
    }

    async fn create(&self, new: &NewIssue) -> Result<IssueDetail, ForgeError> {
        let body = json!({"title": new.title(), "description": new.body()});
        let path = format!("{}/issues", project(new.repo()));
        let row: Row = self.http.post(&path, &body).await?;
        row.read(new.repo())
            .map_err(|detail| unreadable(&Method::POST, &detail))
    }
}

impl Api for GitLab {
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
