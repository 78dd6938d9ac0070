//! Forgejo and Gitea: the requests as their documents have them, the answers in the shape that they send. Never asks a real one.

use muster_forge::{ForgeError, IssueQuery, IssueState, Kind, NewIssue, NewPullRequest, Repo, StateFilter};
use muster_policy::Action;
use serde_json::{Value, json};

use super::server::{Server, get, permit, post};

fn shop() -> Repo {
    Repo::parse("acme/shop").unwrap()
}

fn issue(number: u64, title: &str) -> Value {
    json!({
        "id": 40 + number, "url": format!("https://forge.example/api/v1/repos/acme/shop/issues/{number}"),
        "html_url": format!("https://forge.example/acme/shop/issues/{number}"), "number": number,
        "user": {"id": 1, "login": "ada", "login_name": "", "full_name": "", "email": "ada@noreply.example", "username": "ada"},
        "original_author": "", "original_author_id": 0, "title": title, "body": "It breaks.", "ref": "",
        "labels": [{"id": 1, "name": "bug", "exclusive": false, "is_archived": false, "color": "ee0701", "description": "", "url": "https://forge.example/l/1"}],
        "milestone": null, "assignee": null, "assignees": null, "state": "open", "is_locked": false, "comments": 2,
        "created_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:04:05Z", "closed_at": null, "due_date": null,
        "pull_request": null, "repository": {"id": 1, "name": "shop", "owner": "acme", "full_name": "acme/shop"}, "pin_order": 0
    })
}

#[tokio::test]
async fn a_draft_is_marked_by_its_title() {
    let due = |title: &str| {
        post(
            "/api/v1/repos/acme/shop/pulls",
            json!({"title": title, "body": "", "head": "muster/task-7", "base": "main"}),
        )
        .gives(201, json!({"id": 5, "number": 4, "html_url": "https://forge.example/acme/shop/pulls/4", "state": "open", "draft": true}))
    };
    let server = Server::new(
        Kind::Forgejo,
        [due("WIP: Faster"), due("WIP: Faster"), due("Faster")],
    );
    let forge = server.forge();
    let permit = permit(Action::PrWrite, "repo:acme/shop");
    for (title, draft) in [("Faster", true), ("WIP: Faster", true), ("Faster", false)] {
        let new = NewPullRequest::new(shop(), title, "", "muster/task-7", "main", draft).unwrap();
        let opened = forge.open_pull_request(&permit, &new).await.unwrap();
        assert_eq!(
            (opened.number, opened.url.as_str()),
            (4, "https://forge.example/acme/shop/pulls/4")
        );
    }
    server.done();
}

#[tokio::test]
async fn tickets_are_listed_until_the_forge_names_no_further_page() {
    let next = "<https://forge.example/api/v1/repos/acme/shop/issues?page=2>; rel=\"next\",<https://forge.example/x?page=2>; rel=\"last\"";
    let server = Server::new(
        Kind::Forgejo,
        [
            get("/api/v1/repos/acme/shop/issues?type=issues&state=open&limit=50&page=1&q=it%20%26%20that")
                .gives(200, json!([issue(9, "nine")]))
                .with("Link", next)
                .with("X-Total-Count", "2"),
            get("/api/v1/repos/acme/shop/issues?type=issues&state=open&limit=50&page=2&q=it%20%26%20that")
                .gives(200, json!([issue(8, "eight")]))
                .with("Link", "<https://forge.example/x?page=1>; rel=\"first\""),
        ],
    );
    let query = IssueQuery::new(Some("it & that"), StateFilter::Open, 200).unwrap();
    let list = server
        .forge()
        .list_issues(&permit(Action::IssuesRead, "integration:7"), &shop(), &query)
        .await
        .unwrap();
    let keys: Vec<String> = list.issues.iter().map(|issue| issue.key.to_string()).collect();
    assert_eq!(keys, ["acme/shop#9", "acme/shop#8"]);
    server.done();
}

#[tokio::test]
async fn a_ticket_is_created_and_fetched() {
    let mut closed = issue(12, "twelve");
    closed["state"] = json!("closed");
    let server = Server::new(
        Kind::Forgejo,
        [
            post(
                "/api/v1/repos/acme/shop/issues",
                json!({"title": "twelve", "body": "b"}),
            )
            .gives(201, issue(12, "twelve")),
            get("/api/v1/repos/acme/shop/issues/12").gives(200, closed),
        ],
    );
    let forge = server.forge();
    let new = NewIssue::new(shop(), "twelve", "b").unwrap();
    let made = forge
        .create_issue(&permit(Action::IssuesWrite, "integration:7"), &new)
        .await
        .unwrap();
    let read = forge
        .get_issue(&permit(Action::IssuesRead, "integration:7"), &made.issue.key)
        .await
        .unwrap();
    assert_eq!(read.issue.state, IssueState::Closed);
    assert_eq!(read.author.as_deref(), Some("ada"));
    assert_eq!(
        (read.labels.as_slice(), read.comments),
        (["bug".to_owned()].as_slice(), 2)
    );
    server.done();
}

#[tokio::test]
async fn an_open_pull_request_is_refused_with_the_forges_words() {
    let said = "pull request already exists for these targets [id: 1, issue_id: 4]";
    let server = Server::new(
        Kind::Forgejo,
        [post(
            "/api/v1/repos/acme/shop/pulls",
            json!({"title": "T", "body": "", "head": "x", "base": "main"}),
        )
        .gives(
            409,
            json!({"message": said, "url": "https://forge.example/api/swagger"}),
        )],
    );
    let new = NewPullRequest::new(shop(), "T", "", "x", "main", false).unwrap();
    let error = server
        .forge()
        .open_pull_request(&permit(Action::PrWrite, "repo:acme/shop"), &new)
        .await
        .unwrap_err();
    assert_eq!(
        error,
        ForgeError::Refused {
            reason: said.to_owned()
        }
    );
    server.done();
}
