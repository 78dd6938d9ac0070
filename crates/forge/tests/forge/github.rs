//! GitHub: the requests as its documents have them, the answers in the shape that it sends. Never asks GitHub.

use muster_forge::{
    ForgeError, IssueKey, IssueQuery, IssueState, Kind, NewIssue, NewPullRequest, Repo, StateFilter,
};
use muster_policy::Action;
use serde_json::{Value, json};

use super::server::{NOW, Server, get, permit, post};

fn shop() -> Repo {
    Repo::parse("acme/shop").unwrap()
}

fn user(login: &str) -> Value {
    json!({
        "login": login, "id": 1, "node_id": "MDQ6VXNlcjE=", "avatar_url": "https://avatars.example/u/1", "gravatar_id": "",
        "url": format!("https://api.github.com/users/{login}"), "html_url": format!("https://github.com/{login}"),
        "type": "User", "site_admin": false
    })
}

fn issue(number: u64, title: &str) -> Value {
    json!({
        "id": number + 1000, "node_id": "MDU6SXNzdWUx", "number": number, "title": title, "state": "open", "locked": false,
        "url": format!("https://api.github.com/repos/acme/shop/issues/{number}"),
        "repository_url": "https://api.github.com/repos/acme/shop",
        "html_url": format!("https://github.com/acme/shop/issues/{number}"),
        "user": user("octocat"), "assignee": null, "assignees": [], "milestone": null, "comments": 3,
        "labels": [{"id": 208045946, "node_id": "x", "url": "https://api.github.com/repos/acme/shop/labels/bug", "name": "bug", "description": null, "color": "f29513", "default": true}, "plain"],
        "created_at": "2026-04-22T13:33:48Z", "updated_at": "2026-04-22T13:33:48Z", "closed_at": null,
        "author_association": "COLLABORATOR", "state_reason": null, "body": "It breaks."
    })
}

fn pull_as_issue(number: u64) -> Value {
    let mut row = issue(number, "a pull request");
    row["pull_request"] =
        json!({"url": "u", "html_url": "h", "diff_url": "d", "patch_url": "p", "merged_at": null});
    row
}

#[tokio::test]
async fn a_pull_request_is_opened_as_asked_and_named_by_number_and_page() {
    let server = Server::new(
        Kind::GitHub,
        [post(
            "/repos/acme/shop/pulls",
            json!({"title": "Faster", "body": "Why.", "head": "muster/task-7", "base": "main", "draft": true}),
        )
        .gives(
            201,
            json!({"id": 1, "number": 1347, "state": "open", "html_url": "https://github.com/acme/shop/pull/1347",
                "url": "https://api.github.com/repos/acme/shop/pulls/1347", "draft": true, "user": user("octocat"),
                "head": {"ref": "muster/task-7"}, "base": {"ref": "main"}}),
        )],
    );
    let new = NewPullRequest::new(shop(), " Faster ", "Why.", "muster/task-7", "main", true).unwrap();
    let opened = server
        .forge()
        .open_pull_request(&permit(Action::PrWrite, "repo:acme/shop"), &new)
        .await
        .unwrap();
    assert_eq!(
        (opened.number, opened.url.as_str()),
        (1347, "https://github.com/acme/shop/pull/1347")
    );
    server.done();
}

#[tokio::test]
async fn tickets_are_listed_over_pages_without_the_pull_requests_among_them() {
    let server = Server::new(
        Kind::GitHub,
        [
            get("/repos/acme/shop/issues?state=closed&per_page=50&page=1")
                .gives(200, json!([issue(9, "nine"), pull_as_issue(8), issue(7, "seven")]))
                .with(
                    "Link",
                    "<https://api.github.com/repositories/1/issues?page=2>; rel=\"next\", <https://api.github.com/repositories/1/issues?page=2>; rel=\"last\"",
                ),
            get("/repos/acme/shop/issues?state=closed&per_page=50&page=2").gives(200, json!([issue(6, "six")])),
        ],
    );
    let query = IssueQuery::new(None, StateFilter::Closed, 10).unwrap();
    let list = server
        .forge()
        .list_issues(&permit(Action::IssuesRead, "integration:7"), &shop(), &query)
        .await
        .unwrap();
    let keys: Vec<String> = list.issues.iter().map(|issue| issue.key.to_string()).collect();
    assert_eq!(keys, ["acme/shop#9", "acme/shop#7", "acme/shop#6"]);
    assert!(!list.more);
    assert_eq!(list.issues[0].title, "nine");
    assert_eq!(list.issues[0].state, IssueState::Open);
    assert_eq!(list.issues[0].url, "https://github.com/acme/shop/issues/9");
    server.done();
}

#[tokio::test]
async fn a_search_stays_in_its_repository_even_if_the_forge_does_not() {
    let mut elsewhere = issue(3, "a secret");
    elsewhere["repository_url"] = json!("https://api.github.com/repos/acme/secret");
    let mut nowhere = issue(4, "of no repository");
    nowhere.as_object_mut().unwrap().remove("repository_url");
    let mut shouted = issue(5, "spelled otherwise");
    shouted["repository_url"] = json!("https://api.github.com/repos/ACME/Shop");
    let server = Server::new(
        Kind::GitHub,
        [get(
            "/search/issues?q=%22crash%22+%22repo%3Aacme%2Fsecret%22+repo%3Aacme%2Fshop+is%3Aissue+state%3Aopen&per_page=50&page=1",
        )
        .gives(
            200,
            json!({"total_count": 4, "incomplete_results": false, "items": [issue(2, "a crash"), elsewhere, nowhere, shouted]}),
        )],
    );
    let query = IssueQuery::new(Some("crash repo:acme/secret"), StateFilter::Open, 10).unwrap();
    let list = server
        .forge()
        .list_issues(&permit(Action::IssuesRead, "integration:7"), &shop(), &query)
        .await
        .unwrap();
    let titles: Vec<&str> = list.issues.iter().map(|issue| issue.title.as_str()).collect();
    assert_eq!(titles, ["a crash", "spelled otherwise"]);
    server.done();
}

#[tokio::test]
async fn a_ticket_is_fetched_with_text_author_labels_and_comments() {
    let mut orphan = issue(13, "of an account that is gone");
    orphan["user"] = Value::Null;
    orphan["body"] = Value::Null;
    orphan["state"] = json!("closed");
    let server = Server::new(
        Kind::GitHub,
        [
            get("/repos/acme/shop/issues/12").gives(200, issue(12, "twelve")),
            get("/repos/acme/shop/issues/13").gives(200, orphan),
            get("/repos/acme/shop/issues/14").gives(200, pull_as_issue(14)),
        ],
    );
    let forge = server.forge();
    let permit = permit(Action::IssuesRead, "integration:7");
    let ticket = forge
        .get_issue(&permit, &"acme/shop#12".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(ticket.issue.key, IssueKey::new(shop(), 12).unwrap());
    assert_eq!(ticket.body, "It breaks.");
    assert_eq!(ticket.author.as_deref(), Some("octocat"));
    assert_eq!(ticket.labels, ["bug", "plain"]);
    assert_eq!(ticket.comments, 3);
    let orphan = forge
        .get_issue(&permit, &"acme/shop#13".parse().unwrap())
        .await
        .unwrap();
    assert_eq!(
        (orphan.author, orphan.body.as_str(), orphan.issue.state),
        (None, "", IssueState::Closed)
    );
    let refused = forge
        .get_issue(&permit, &"acme/shop#14".parse().unwrap())
        .await
        .unwrap_err();
    assert!(matches!(refused, ForgeError::NotFound { .. }), "{refused}");
    server.done();
}

#[tokio::test]
async fn a_ticket_is_created() {
    let server = Server::new(
        Kind::GitHub,
        [post(
            "/repos/acme/shop/issues",
            json!({"title": "New \u{1f980}", "body": "line one\nline two"}),
        )
        .gives(201, issue(77, "New \u{1f980}"))],
    );
    let new = NewIssue::new(shop(), "New \u{1f980}", "line one\nline two").unwrap();
    let made = server
        .forge()
        .create_issue(&permit(Action::IssuesWrite, "integration:7"), &new)
        .await
        .unwrap();
    assert_eq!(made.issue.key.to_string(), "acme/shop#77");
    server.done();
}

#[tokio::test]
async fn each_refusal_of_github_has_its_own_sentence() {
    let reset = (NOW.micros() / 1_000_000 + 120).to_string();
    let body = json!({"title": "T", "body": "", "head": "x", "base": "main", "draft": false});
    let due = || post("/repos/acme/shop/pulls", body.clone());
    let server = Server::new(
        Kind::GitHub,
        [
            due().gives(401, json!({"message": "Bad credentials", "documentation_url": "https://docs.github.com/rest", "status": "401"})),
            due().gives(403, json!({"message": "Resource not accessible by personal access token", "status": "403"})),
            due().gives(404, json!({"message": "Not Found", "documentation_url": "https://docs.github.com/rest", "status": "404"})),
            due().gives(422, json!({"message": "Validation Failed", "errors": [{"resource": "PullRequest", "code": "custom", "message": "No commits between main and x"}]})),
            due().gives(403, json!({"message": "API rate limit exceeded for user ID 1."}))
                .with("X-RateLimit-Remaining", "0")
                .with("X-RateLimit-Reset", &reset),
            due().gives(403, json!({"message": "You have exceeded a secondary rate limit."})).with("Retry-After", "60"),
            due().gives(301, json!({"message": "Moved Permanently"})).with("Location", "https://api.github.com/repositories/1/pulls"),
            due().gives(502, json!({"message": "Server Error"})),
            due().gives(201, json!({"message": "no pull request at all"})),
        ],
    );
    let forge = server.forge();
    let permit = permit(Action::PrWrite, "repo:acme/shop");
    let new = NewPullRequest::new(shop(), "T", "", "x", "main", false).unwrap();
    let mut sentences = Vec::new();
    for code in [
        "forge_unauthorised",
        "forge_forbidden",
        "not_found",
        "forge_refused",
        "forge_rate_limited",
        "forge_rate_limited",
        "forge_moved",
        "forge_unknown",
        "forge_unknown",
    ] {
        let error = forge.open_pull_request(&permit, &new).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        sentences.push(error.to_string());
    }
    assert!(
        sentences[3].contains("No commits between main and x"),
        "{}",
        sentences[3]
    );
    assert!(
        sentences[4].contains(&NOW.plus(std::time::Duration::from_secs(120)).to_string()),
        "{}",
        sentences[4]
    );
    assert!(
        sentences[5].contains(&NOW.plus(std::time::Duration::from_secs(60)).to_string()),
        "{}",
        sentences[5]
    );
    assert!(sentences[6].contains("repositories/1/pulls"), "{}", sentences[6]);
    server.done();
}
