//! GitLab: the requests as its documents have them, the answers in the shape that it sends. Never asks GitLab.

use muster_forge::{ForgeError, IssueQuery, IssueState, Kind, NewIssue, NewPullRequest, Repo, StateFilter};
use muster_policy::Action;
use serde_json::{Value, json};

use super::server::{Server, get, permit, post};

fn tool() -> Repo {
    Repo::parse("acme/infra/tool").unwrap()
}

fn issue(iid: u64, state: &str) -> Value {
    json!({
        "id": 76, "iid": iid, "project_id": 1, "title": "Ut commodi", "description": "It breaks.", "state": state,
        "created_at": "2026-01-04T15:31:51.081Z", "updated_at": "2026-01-04T15:31:51.081Z", "closed_at": null, "closed_by": null,
        "labels": ["bug", "infra"], "milestone": null, "assignees": [], "assignee": null, "type": "ISSUE", "user_notes_count": 4,
        "author": {"id": 18, "name": "Alexandra", "username": "root", "state": "active", "web_url": "https://gitlab.example/root"},
        "web_url": format!("https://gitlab.example/acme/infra/tool/-/issues/{iid}"),
        "references": {"short": format!("#{iid}"), "relative": format!("#{iid}"), "full": format!("acme/infra/tool#{iid}")}
    })
}

#[tokio::test]
async fn a_merge_request_is_opened_in_a_project_of_a_group_in_a_group() {
    let server = Server::new(
        Kind::GitLab,
        [post(
            "/api/v4/projects/acme%2Finfra%2Ftool/merge_requests",
            json!({"title": "Draft: Faster", "description": "Why.", "source_branch": "muster/task-7", "target_branch": "main"}),
        )
        .gives(
            201,
            json!({"id": 155016530, "iid": 133, "project_id": 15513260, "title": "Draft: Faster", "state": "opened", "draft": true,
                "web_url": "https://gitlab.example/acme/infra/tool/-/merge_requests/133"}),
        )],
    );
    let new = NewPullRequest::new(tool(), "Faster", "Why.", "muster/task-7", "main", true).unwrap();
    let opened = server
        .forge()
        .open_pull_request(&permit(Action::PrWrite, "repo:acme/infra/tool"), &new)
        .await
        .unwrap();
    assert_eq!(opened.number, 133);
    assert_eq!(
        opened.url,
        "https://gitlab.example/acme/infra/tool/-/merge_requests/133"
    );
    server.done();
}

#[tokio::test]
async fn tickets_are_listed_fetched_and_created() {
    let base = "/api/v4/projects/acme%2Finfra%2Ftool/issues";
    let server = Server::new(
        Kind::GitLab,
        [
            get(&format!("{base}?per_page=50&page=1&state=opened&search=it%20breaks&in=title%2Cdescription"))
                .gives(200, json!([issue(2, "opened")]))
                .with("Link", "<https://gitlab.example/x?page=1>; rel=\"first\", <https://gitlab.example/x?page=1>; rel=\"last\""),
            get(&format!("{base}?per_page=50&page=1")).gives(200, json!([issue(2, "opened"), issue(1, "closed")])),
            get(&format!("{base}/1")).gives(200, issue(1, "closed")),
            post(base, json!({"title": "T", "description": "B"})).gives(201, issue(3, "opened")),
        ],
    );
    let forge = server.forge();
    let read = permit(Action::IssuesRead, "integration:7");
    let found = IssueQuery::new(Some("it breaks"), StateFilter::Open, 10).unwrap();
    assert_eq!(
        forge
            .list_issues(&read, &tool(), &found)
            .await
            .unwrap()
            .issues
            .len(),
        1
    );
    let all = IssueQuery::new(None, StateFilter::All, 10).unwrap();
    let all = forge.list_issues(&read, &tool(), &all).await.unwrap();
    let states: Vec<IssueState> = all.issues.iter().map(|issue| issue.state).collect();
    assert_eq!(states, [IssueState::Open, IssueState::Closed]);
    let one = forge
        .get_issue(&read, &"acme/infra/tool#1".parse().unwrap())
        .await
        .unwrap();
    assert_eq!((one.author.as_deref(), one.comments), (Some("root"), 4));
    assert_eq!(one.labels, ["bug", "infra"]);
    let new = NewIssue::new(tool(), "T", "B").unwrap();
    let made = forge
        .create_issue(&permit(Action::IssuesWrite, "integration:7"), &new)
        .await
        .unwrap();
    assert_eq!(made.issue.key.to_string(), "acme/infra/tool#3");
    server.done();
}

#[tokio::test]
async fn a_conflict_and_a_limit_are_told_apart() {
    let body = json!({"title": "T", "description": "", "source_branch": "x", "target_branch": "main"});
    let due = || {
        post(
            "/api/v4/projects/acme%2Finfra%2Ftool/merge_requests",
            body.clone(),
        )
    };
    let server = Server::new(
        Kind::GitLab,
        [
            due().gives(409, json!({"message": ["Another open merge request already exists for this source branch: !1"]})),
            due().gives(429, json!({"message": {"error": "This endpoint has been requested too many times. Try again later."}}))
                .with("RateLimit-Reset", "1800000030"),
            due().gives(403, json!({"error": "insufficient_scope", "error_description": "The request requires higher privileges."})),
        ],
    );
    let forge = server.forge();
    let permit = permit(Action::PrWrite, "repo:acme/infra/tool");
    let new = NewPullRequest::new(tool(), "T", "", "x", "main", false).unwrap();
    let open = || forge.open_pull_request(&permit, &new);
    assert!(matches!(open().await.unwrap_err(), ForgeError::Refused { reason } if reason.contains("!1")));
    let limited = open().await.unwrap_err();
    assert!(limited.to_string().contains("2027-01-15T08:00:30Z"), "{limited}");
    assert!(matches!(open().await.unwrap_err(), ForgeError::Forbidden { .. }));
    server.done();
}
