//! A thousand connectors wait: what each costs the server, and how soon the right one has the reply that the owner approves. Never approves what was not read as waiting.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use crate::browser::Browser;
use crate::client::{Link, bearer, request};
use crate::raw::{SqliteLoop, Table};
use crate::report::{Amount, Figure, Samples, Target};
use crate::seed::{Connector, Seeds};
use crate::server::{Muster, Place, Server};

const WAITING: usize = 1_000;
/// The first of them, after whom the server has opened what it opens once; what the later ones add is what each costs.
const FIRST: usize = 100;
const LATER: f64 = 900.0;
/// Decided drafts of the months before.
const ARCHIVED: usize = 10_000;
/// Between two approvals, so that the connector before is waiting again.
const PAUSE: Duration = Duration::from_millis(5);

/// Those who expect an answer, by draft.
type Expected = Rc<RefCell<HashMap<i64, oneshot::Sender<Instant>>>>;

/// One connector: waits, collects, reports that it sent, waits again, until it is dropped.
async fn connector(address: SocketAddr, token: String, expected: Expected) -> Result<()> {
    let mut link = Link::open(address).await?;
    let headers = bearer(&token);
    let claim = request(
        "POST",
        "/plugin/v1/drafts/claim",
        address,
        &headers,
        r#"{"wait_seconds":25}"#,
    );
    loop {
        let answer = link.call(&claim).await?;
        let now = Instant::now();
        match answer.status {
            204 => {}
            200 => {
                let draft = answer.number("draft_id")?;
                if let Some(expects) = expected.borrow_mut().remove(&draft) {
                    // An approver that gave up has said so already.
                    let _ = expects.send(now);
                }
                let path = format!("/plugin/v1/drafts/{draft}/result");
                let reported = link
                    .call(&request("POST", &path, address, &headers, r#"{"ok":true}"#))
                    .await?;
                if reported.status != 200 {
                    bail!(
                        "a result was answered with {}: {}",
                        reported.status,
                        reported.text()
                    );
                }
            }
            other => bail!("a claim was answered with {other}: {}", answer.text()),
        }
    }
}

/// Waits until the server itself counts so many waiting connectors.
async fn until_waiting(server: &Server, link: &mut Link, count: usize) -> Result<()> {
    let line = format!("muster_claims_waiting {count}");
    for _ in 0..600 {
        let answer = link
            .call(&request("GET", "/metrics", server.address, "", ""))
            .await?;
        if answer.text().lines().any(|found| found == line) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bail!("{count} connectors do not wait after half a minute")
}

/// Each connection needs a descriptor on this side too.
fn raise_descriptors() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?)
}

/// Resident memory once things are at rest, in KiB.
async fn at_rest(server: &Server) -> Result<f64> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    server.resident()
}

/// What a connection costs that only said hello, in KiB.
async fn idle_connection(server: &Server) -> Result<f64> {
    let mut links = Vec::with_capacity(WAITING);
    let mut first = 0.0;
    for number in 0..WAITING {
        if number == FIRST {
            first = at_rest(server).await?;
        }
        let mut link = Link::open(server.address).await?;
        link.call(&request("GET", "/healthz", server.address, "", ""))
            .await?;
        links.push(link);
    }
    Ok((at_rest(server).await? - first) / LATER)
}

/// The figures on SQLite.
pub(crate) async fn run(muster: &Muster, folder: &Path, time: Duration) -> Result<Vec<Figure>> {
    raise_descriptors()?;
    let place = Place::sqlite(muster, folder)?;
    let seeds = Seeds::open(&place).await?;
    let connectors = seeds.connectors(WAITING).await?;
    seeds.archived(&connectors, ARCHIVED).await?;
    let drafts = seeds.pending(&connectors).await?;
    seeds.close().await;
    let commit = commit_alone(muster, folder, time).await?;

    let server = place.serve(muster, &[("MUSTER_LOG", "warn")])?;
    let idle = idle_connection(&server).await?;
    server.stop()?;

    let server = place.serve(muster, &[("MUSTER_LOG", "warn")])?;
    let expected = Expected::default();
    let begin = |some: &[Connector]| -> Vec<_> {
        some.iter()
            .map(|one| spawn_local(connector(server.address, one.token.clone(), expected.clone())))
            .collect()
    };
    let mut watch = Link::open(server.address).await?;
    let (first, later) = connectors.split_at(FIRST);
    let mut tasks = begin(first);
    until_waiting(&server, &mut watch, FIRST).await?;
    let before = at_rest(&server).await?;
    tasks.extend(begin(later));
    until_waiting(&server, &mut watch, WAITING).await?;
    // Nobody has signed in yet: a password's 19 MiB would leave room in the heap that hides what a waiting one takes.
    let each = (at_rest(&server).await? - before) / LATER;

    let mut browser = Browser::sign_in(&server, &place).await?;
    let (mut from_request, mut from_answer) = (Samples::default(), Samples::default());
    for draft in drafts {
        let (tell, told) = oneshot::channel();
        expected.borrow_mut().insert(draft, tell);
        let asked = Instant::now();
        browser.approve(draft).await?;
        let answered = Instant::now();
        let collected = tokio::time::timeout(Duration::from_secs(30), told)
            .await
            .context("an approved reply was not collected")??;
        from_request.add(collected.duration_since(asked).as_secs_f64() * 1e3);
        from_answer.add(collected.saturating_duration_since(answered).as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    if let Some(ended) = tasks.iter().position(tokio::task::JoinHandle::is_finished) {
        bail!("connector {ended} ended while the others waited");
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    server.stop()?;
    let note = |samples: &Samples| {
        format!(
            "p50 {:.2} ms, p95 {:.2} ms, worst {:.2} ms of {}",
            samples.median(),
            samples.percentile(0.95),
            samples.worst(),
            samples.len()
        )
    };
    let floor = Amount::of(2.0 * commit, "ms");
    let target = Target::Below(20.0);
    Ok(vec![
        Figure::new(
            "approval sent to reply collected, p99, 1,000 waiting",
            Amount::of(from_request.percentile(0.99), "ms"),
            Some(("the two commits it takes, alone", floor)),
            target,
            note(&from_request),
        ),
        Figure::new(
            "approval answered to reply collected, p99, 1,000 waiting",
            Amount::of(from_answer.percentile(0.99), "ms"),
            Some(("the claim's commit, alone", Amount::of(commit, "ms"))),
            target,
            note(&from_answer),
        ),
        Figure::new(
            "memory of one waiting connector",
            Amount::of(each, "KiB"),
            Some(("a kept connection that asks nothing", Amount::of(idle, "KiB"))),
            Target::Below(20.0),
            "resident memory with 1,000 waiting less that with 100, by 900",
        ),
    ])
}

/// One SQLite commit after another, in milliseconds.
async fn commit_alone(muster: &Muster, folder: &Path, time: Duration) -> Result<f64> {
    let place = Place::sqlite(muster, folder)?;
    let seeds = Seeds::open(&place).await?;
    let (connectors, owner) = (seeds.connectors(100).await?, seeds.owner());
    seeds.close().await;
    let mut raw = SqliteLoop::open(place.url(), owner, &connectors).await?;
    raw.run(Table::Messages, time).await?;
    let rate = raw.run(Table::Messages, time).await?;
    raw.close().await?;
    Ok(1e3 / rate)
}
