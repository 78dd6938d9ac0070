//! Permissions through the agents' door: what a tool call that is allowed takes with a thousand policies stored, and how soon a parked call goes on after the owner's click. Never answers an ask it did not see parked.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tokio::task::spawn_local;

use crate::browser::Browser;
use crate::client::{Link, bearer, request};
use crate::raw::fdatasync;
use crate::report::{Amount, Figure, Samples, Target};
use crate::server::{Muster, Place, Server};

const POLICIES: usize = 1_000;
const CALLS: usize = 2_000;
const CLICKS: usize = 100;

/// What the calls are made on.
struct World {
    /// An agent whose policy allows what it calls.
    allowed: String,
    /// Those whose policy asks: one a click, because an approval covers an agent's matching calls for a minute.
    asking: Vec<String>,
    /// A task to look at.
    task: String,
}

/// Runs a command that must succeed; the first line it printed.
fn told(place: &Place, muster: &Muster, words: &[&str]) -> Result<String> {
    let output = place.command(muster).args(words).output()?;
    if !output.status.success() {
        bail!(
            "muster {} failed: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

fn world(place: &Place, muster: &Muster) -> Result<World> {
    let root = place.folder().display().to_string();
    told(place, muster, &["project", "add", "engine", "--root", &root])?;
    let layer = |effect: &str| {
        json!([
            ["projects_read", "project:engine", effect],
            ["hosts_read", "any", "allow"]
        ])
    };
    let policies: Vec<Value> = (0..POLICIES)
        .map(|number| {
            let effect = if number == 1 { "ask" } else { "allow" };
            json!({"name": format!("policy-{number}"), "layers": {"global": layer(effect), "task": layer(effect)}})
        })
        .collect();
    let document = place.folder().join("policies.json");
    std::fs::write(&document, json!({ "policies": policies }).to_string())?;
    told(
        place,
        muster,
        &["policy", "import", &document.display().to_string()],
    )?;
    let add = |policy: &str| {
        let words = [
            "task",
            "add",
            "--project",
            "engine",
            "--title",
            "Look",
            "--policy",
            policy,
        ];
        told(place, muster, &words)
    };
    let token = |task: &str| {
        told(
            place,
            muster,
            &["token", "create", "--kind", "agent", "--task", task],
        )
    };
    let (task, gated) = (add("policy-0")?, add("policy-1")?);
    Ok(World {
        allowed: token(&task)?,
        asking: (0..CLICKS).map(|_| token(&gated)).collect::<Result<_>>()?,
        task,
    })
}

/// A call of `muster_get_task`, as a client without a session sends it.
fn call(server: &Server, token: &str, id: usize, task: &str) -> Vec<u8> {
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
        "name": "muster_get_task", "arguments": {"task_id": task},
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                  "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
                  "io.modelcontextprotocol/clientCapabilities": {}}}});
    let headers = format!(
        "{}content-type: application/json\r\naccept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: muster_get_task\r\n",
        bearer(token)
    );
    request("POST", "/mcp", server.address, &headers, &body.to_string())
}

fn went(answer: &crate::client::Answer) -> Result<()> {
    let body: Value = serde_json::from_slice(&answer.body).context("an answer is not JSON")?;
    let went = body.pointer("/result/structuredContent/task/status") == Some(&json!("open"));
    if answer.status != 200 || !went {
        bail!("a call was answered with {}: {}", answer.status, answer.text());
    }
    Ok(())
}

/// The figures on SQLite.
pub(crate) async fn run(muster: &Muster, folder: &Path, time: Duration) -> Result<Vec<Figure>> {
    let place = Place::sqlite(muster, folder)?;
    let world = world(&place, muster)?;
    let sync = fdatasync(folder, time)?.median();
    let server = place.serve(muster, &[("MUSTER_LOG", "warn")])?;
    let calls = calls(&server, &world).await?;
    let clicks = clicks(&server, &place, &world).await?;
    server.stop()?;
    let p50 = calls.median();
    Ok(vec![
        Figure::new(
            "permissions: tools/call through /mcp to its allowed result, 1,000 policies, p50",
            Amount::of(p50, "ms"),
            Some(("fdatasync of a small write", Amount::of(sync, "ms"))),
            Target::Below(1.5),
            format!("{CALLS} calls, layers read anew for each, its audit row committed before the result"),
        ),
        Figure::new(
            "permissions: the same, p99",
            Amount::of(calls.percentile(0.99), "ms"),
            None,
            Target::Below(5.0),
            format!("worst {:.2} ms", calls.worst()),
        ),
        Figure::new(
            "permissions: from the owner's click to the parked call's result, p99",
            Amount::of(clicks.percentile(0.99), "ms"),
            None,
            Target::Below(20.0),
            format!("{CLICKS} asks on the page; p50 {:.2} ms", clicks.median()),
        ),
    ])
}

async fn calls(server: &Server, world: &World) -> Result<Samples> {
    let mut link = Link::open(server.address).await?;
    let mut samples = Samples::default();
    for id in 0..CALLS + 100 {
        let request = call(server, &world.allowed, id + 1, &world.task);
        let begun = Instant::now();
        let answer = link.call(&request).await?;
        let took = begun.elapsed();
        went(&answer)?;
        // The first ones open what a server opens once.
        if id >= 100 {
            samples.add(took.as_secs_f64() * 1e3);
        }
    }
    Ok(samples)
}

async fn clicks(server: &Server, place: &Place, world: &World) -> Result<Samples> {
    let mut browser = Browser::sign_in(server, place).await?;
    // An open Asks page: somebody can be asked while its stream is.
    let _stream = browser.stream("/events?asks=1").await?;
    let mut samples = Samples::default();
    for (number, token) in world.asking.iter().enumerate() {
        let mut link = Link::open(server.address).await?;
        let request = call(server, token, number + 1, &world.task);
        let waiting = spawn_local(async move {
            let answer = link.call(&request).await?;
            Ok::<_, anyhow::Error>((Instant::now(), answer))
        });
        let ask = browser.parked().await?;
        let clicked = Instant::now();
        browser.allow(ask).await?;
        let (answered, answer) = waiting.await??;
        went(&answer)?;
        samples.add(answered.saturating_duration_since(clicked).as_secs_f64() * 1e3);
    }
    Ok(samples)
}
