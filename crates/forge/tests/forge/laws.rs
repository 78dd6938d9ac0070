//! What holds for every kind of forge: permits, bounds, one try, and a token that goes to one address and shows nowhere. Never depends on a forge's spelling.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use muster_forge::{
    Forge, ForgeError, IssueKey, IssueQuery, Kind, Limits, NewIssue, NewPullRequest, Repo, StateFilter,
    check_url,
};
use muster_policy::{Action, Permit};
use serde_json::{Value, json};

use super::server::{Play, Server, TOKEN, connect, get, permit, post};

fn shop() -> Repo {
    Repo::parse("acme/shop").unwrap()
}

fn key() -> IssueKey {
    IssueKey::new(shop(), 1).unwrap()
}

fn pull() -> NewPullRequest {
    NewPullRequest::new(shop(), "T", "", "x", "main", false).unwrap()
}

fn read_target(kind: Kind) -> &'static str {
    match kind {
        Kind::GitHub => "/repos/acme/shop/issues/1",
        Kind::GitLab => "/api/v4/projects/acme%2Fshop/issues/1",
        Kind::Forgejo => "/api/v1/repos/acme/shop/issues/1",
    }
}

fn write_target(kind: Kind) -> (&'static str, Value) {
    match kind {
        Kind::GitHub => ("/repos/acme/shop/issues", json!({"title": "T", "body": ""})),
        Kind::GitLab => (
            "/api/v4/projects/acme%2Fshop/issues",
            json!({"title": "T", "description": ""}),
        ),
        Kind::Forgejo => (
            "/api/v1/repos/acme/shop/issues",
            json!({"title": "T", "body": ""}),
        ),
    }
}

async fn read(forge: &Forge) -> ForgeError {
    let permit = permit(Action::IssuesRead, "integration:7");
    forge.get_issue(&permit, &key()).await.unwrap_err()
}

async fn write(forge: &Forge) -> ForgeError {
    let permit = permit(Action::IssuesWrite, "integration:7");
    let new = NewIssue::new(shop(), "T", "").unwrap();
    forge.create_issue(&permit, &new).await.unwrap_err()
}

/// Every act with one permit: how many of the five does it open?
async fn opened(forge: &Forge, permit: &Permit) -> Vec<&'static str> {
    let query = IssueQuery::new(None, StateFilter::Open, 1).unwrap();
    let new = NewIssue::new(shop(), "T", "").unwrap();
    let answers = [
        ("open", forge.open_pull_request(permit, &pull()).await.err()),
        ("list", forge.list_issues(permit, &shop(), &query).await.err()),
        ("get", forge.get_issue(permit, &key()).await.err()),
        ("import", forge.issue_to_import(permit, &key()).await.err()),
        ("create", forge.create_issue(permit, &new).await.err()),
    ];
    answers
        .into_iter()
        .filter(|(_, error)| !matches!(error, Some(ForgeError::NotCovered { .. })))
        .map(|(act, _)| act)
        .collect()
}

// spec: POL-022 POL-026..POL-028
#[tokio::test]
async fn no_act_goes_out_with_a_permit_for_something_else() {
    // Nobody listens there: an act that is let through says that it could not be reached.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for kind in Kind::ALL {
        let forge = connect(kind, &format!("http://127.0.0.1:{port}"), Limits::default()).unwrap();
        let table: [(Action, &str, &[&str]); 9] = [
            (Action::PrWrite, "repo:acme/shop", &["open"]),
            (Action::PrWrite, "repo:acme/other", &[]),
            // The same one: no forge tells two by the case of their letters.
            (Action::PrWrite, "repo:acme/Shop", &["open"]),
            (Action::IssuesRead, "integration:7", &["list", "get"]),
            (Action::IssuesRead, "integration:8", &[]),
            (Action::IssuesWrite, "integration:7", &["import", "create"]),
            (Action::IssuesWrite, "integration:70", &[]),
            (Action::ProjectsRead, "project:7", &[]),
            (Action::DbRead, "db_connection:7", &[]),
        ];
        for (action, resource, acts) in table {
            assert_eq!(
                opened(&forge, &permit(action, resource)).await,
                acts,
                "{kind} {action} {resource}"
            );
        }
    }
}

#[tokio::test]
async fn a_refused_act_sends_nothing() {
    for kind in Kind::ALL {
        let server = Server::new(kind, []);
        let forge = server.forge();
        assert_eq!(
            opened(&forge, &permit(Action::HostsRead, "host:7")).await,
            Vec::<&str>::new()
        );
        assert_eq!(server.count(), 0);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_other_address_hears_nothing() {
    for kind in Kind::ALL {
        let other = Server::new(kind, []);
        let away = format!("http://127.0.0.1:{}{}", other.port, read_target(kind));
        let (target, body) = write_target(kind);
        let server = Server::new(
            kind,
            [
                get(read_target(kind))
                    .gives(302, json!({}))
                    .with("Location", &away),
                post(target, body).gives(307, json!({})).with("Location", &away),
            ],
        );
        let forge = server.forge();
        for error in [read(&forge).await, write(&forge).await] {
            assert!(
                matches!(&error, ForgeError::Moved { to } if *to == away),
                "{error}"
            );
        }
        server.done();
        assert_eq!(other.count(), 0);
    }
}

#[tokio::test]
async fn a_broken_answer_to_a_write_is_unknown_and_never_tried_again() {
    let short = Limits {
        total: Duration::from_millis(700),
        ..Limits::default()
    };
    for kind in Kind::ALL {
        for play in [0, 1, 2] {
            let make = || match play {
                0 => Play::Hangup,
                1 => Play::Silence,
                _ => Play::Answer {
                    status: 201,
                    headers: Vec::new(),
                    body: "<html>".to_owned(),
                },
            };
            let (target, body) = write_target(kind);
            let server = Server::new(
                kind,
                [
                    get(read_target(kind)).plays(make()),
                    post(target, body).plays(make()),
                ],
            );
            let forge = server.forge_with(short);
            let begin = Instant::now();
            let error = read(&forge).await;
            assert!(!error.may_have_happened(), "{kind} {play}: {error}");
            assert!(
                matches!(
                    error,
                    ForgeError::Unreachable { .. } | ForgeError::Unexpected { .. }
                ),
                "{error}"
            );
            let error = write(&forge).await;
            assert!(error.may_have_happened(), "{kind} {play}: {error}");
            assert!(begin.elapsed() < Duration::from_secs(30));
            server.done();
            assert_eq!(server.count(), 2);
        }
    }
}

#[tokio::test]
async fn an_answer_beyond_the_bound_is_not_read_on() {
    for kind in Kind::ALL {
        let server = Server::new(kind, [get(read_target(kind)).plays(Play::Flood)]);
        let error = read(&server.forge()).await;
        assert!(error.to_string().contains("more than 8388608 bytes"), "{error}");
    }
}

#[tokio::test]
async fn a_forge_that_is_not_there_is_unreachable_for_reads_and_writes_alike() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for kind in Kind::ALL {
        let forge = connect(kind, &format!("http://127.0.0.1:{port}"), Limits::default()).unwrap();
        for error in [read(&forge).await, write(&forge).await] {
            assert!(matches!(error, ForgeError::Unreachable { .. }), "{error}");
        }
    }
}

#[tokio::test]
async fn a_listing_stops_at_its_limit_and_at_ten_pages() {
    for kind in Kind::ALL {
        let row = |number: u64| {
            json!({"number": number, "iid": number, "title": "t", "state": if kind == Kind::GitLab { "opened" } else { "open" },
                "html_url": "https://forge.example/1", "web_url": "https://forge.example/1"})
        };
        let target = |page: u32| match kind {
            Kind::GitHub => format!("/repos/acme/shop/issues?state=open&per_page=50&page={page}"),
            Kind::GitLab => {
                format!("/api/v4/projects/acme%2Fshop/issues?per_page=50&page={page}&state=opened")
            }
            Kind::Forgejo => {
                format!("/api/v1/repos/acme/shop/issues?type=issues&state=open&limit=50&page={page}")
            }
        };
        let next = "<https://elsewhere.example/next>; rel=\"next\"";
        let full: Vec<Value> = (1..=50).map(row).collect();
        let server = Server::new(kind, [get(&target(1)).gives(200, json!(full)).with("Link", next)]);
        let query = IssueQuery::new(None, StateFilter::Open, 3).unwrap();
        let permit = permit(Action::IssuesRead, "integration:7");
        let list = server
            .forge()
            .list_issues(&permit, &shop(), &query)
            .await
            .unwrap();
        assert_eq!((list.issues.len(), list.more), (3, true));
        server.done();

        // A forge that always has one more page with one row is left after ten.
        let pages = (1..=10).map(|page| get(&target(page)).gives(200, json!([row(1)])).with("Link", next));
        let server = Server::new(kind, pages);
        let query = IssueQuery::new(None, StateFilter::Open, usize::MAX).unwrap();
        let list = server
            .forge()
            .list_issues(&permit, &shop(), &query)
            .await
            .unwrap();
        assert_eq!((list.issues.len(), list.more), (10, true));
        server.done();
    }
}

#[tokio::test]
async fn the_token_is_in_no_error_and_no_debug_form_even_if_the_forge_repeats_it() {
    for kind in Kind::ALL {
        let echo = json!({"message": format!("{} {TOKEN}", "x".repeat(290)), "errors": [TOKEN], "state": TOKEN, "number": 1, "iid": 1,
            "title": TOKEN, "html_url": "https://forge.example/1", "web_url": "https://forge.example/1"});
        let read_due = || get(read_target(kind));
        let (target, body) = write_target(kind);
        let server = Server::new(
            kind,
            [
                read_due().gives(200, echo.clone()),
                read_due().gives(404, echo.clone()),
                read_due().gives(403, echo.clone()),
                read_due()
                    .gives(302, echo.clone())
                    .with("Location", &format!("https://elsewhere.example/?t={TOKEN}")),
                read_due().gives(500, echo.clone()),
                post(target, body).gives(422, echo),
            ],
        );
        let forge = server.forge();
        let mut shown = format!("{forge:?}");
        for _ in 0..5 {
            let error = read(&forge).await;
            shown.push_str(&format!("{error:?} {error}"));
        }
        let error = write(&forge).await;
        shown.push_str(&format!("{error:?} {error}"));
        assert!(!shown.contains(TOKEN.get(..8).unwrap()), "{shown}");
        server.done();
    }
}

#[test]
fn what_can_be_seen_to_be_wrong_is_refused_before_it_is_sent() {
    for name in [
        "",
        "shop",
        "acme/",
        "/shop",
        "acme/shop/",
        "acme/../x",
        "acme/sh op",
        "acme/shop?x",
        "acme/shop#1",
        "acme/shop.git",
        "a%2Fb/c",
        "-a/b",
    ] {
        assert!(Repo::parse(name).is_err(), "{name}");
    }
    for text in [
        "acme/shop",
        "acme/shop#",
        "acme/shop#0",
        "acme/shop#01",
        "acme/shop#-1",
        "acme/shop#1x",
        "#1",
        "acme/shop#99999999999999999999",
    ] {
        assert!(text.parse::<IssueKey>().is_err(), "{text}");
    }
    for branch in [
        "", "-x", "a b", "a..b", "a~1", "a^", "a:b", "x/", "/x", "a//b", ".a", "a/.b", "a.lock", "a.lock/b",
        "a@{1}", "@", "a.", "a\nb",
    ] {
        assert!(
            NewPullRequest::new(shop(), "T", "", branch, "main", false).is_err(),
            "{branch}"
        );
        assert!(
            NewPullRequest::new(shop(), "T", "", "x", branch, false).is_err(),
            "{branch}"
        );
    }
    assert!(NewPullRequest::new(shop(), "T", "", "main", "main", false).is_err());
    assert!(NewPullRequest::new(shop(), "T", "", "größe/ä", "main", false).is_ok());
    for title in ["", "  ", "two\nlines", &"x".repeat(256)] {
        assert!(NewIssue::new(shop(), title, "").is_err());
    }
    assert!(NewIssue::new(shop(), &"ü".repeat(255), "").is_ok());
    assert!(NewIssue::new(shop(), "T", &"x".repeat(60 * 1024 + 1)).is_err());
    assert!(IssueQuery::new(Some("a\u{1b}b"), StateFilter::Open, 1).is_err());
    assert!(IssueQuery::new(Some(&"x".repeat(201)), StateFilter::Open, 1).is_err());
}

#[tokio::test]
async fn over_https_nothing_is_said_before_the_other_side_has_shown_who_it_is() {
    use std::io::Read as _;
    for kind in Kind::ALL {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = vec![0; 16 * 1024];
            let count = stream.read(&mut bytes).unwrap();
            bytes.truncate(count);
            bytes
        });
        let forge = connect(kind, &format!("https://127.0.0.1:{port}"), Limits::default()).unwrap();
        let error = write(&forge).await;
        assert!(matches!(error, ForgeError::Unreachable { .. }), "{error}");
        let heard = heard.join().unwrap();
        // The first record of a handshake.
        assert_eq!(heard.first(), Some(&0x16));
        let token = TOKEN.as_bytes();
        assert!(!heard.windows(token.len()).any(|window| window == token));
    }
}

#[tokio::test]
async fn only_gitlab_has_groups_within_groups() {
    let deep = Repo::parse("acme/infra/tool").unwrap();
    for kind in [Kind::GitHub, Kind::Forgejo] {
        let server = Server::new(kind, []);
        let permit = permit(Action::PrWrite, "repo:acme/infra/tool");
        let new = NewPullRequest::new(deep.clone(), "T", "", "x", "main", false).unwrap();
        let error = server.forge().open_pull_request(&permit, &new).await.unwrap_err();
        assert!(matches!(error, ForgeError::Invalid(_)), "{error}");
        assert_eq!(server.count(), 0);
    }
}

#[test]
fn the_words_for_kinds_are_read_as_they_are_printed() {
    for kind in Kind::ALL {
        assert_eq!(kind.to_string().parse::<Kind>().unwrap(), kind);
        assert!(check_url(kind, "https://forge.example").is_ok());
        assert!(check_url(kind, "http://forge.example").is_err());
    }
    assert!("bitbucket".parse::<Kind>().is_err());
}
