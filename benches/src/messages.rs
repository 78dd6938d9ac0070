//! How many messages a second muster stores, each answered only once it is durable, beside what the same disk does without muster. Never counts a refused one.

use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::task::spawn_local;
use xtask::pg::{Cluster, Durability};

use crate::client::{Link, bearer, request};
use crate::raw::{self, BODY, Pgbench, SqliteLoop, Table};
use crate::report::{Amount, Figure, Samples, Target};
use crate::seed::{Connector, Seeds, text};
use crate::server::{Muster, Place, Server};

/// Connectors that share the load: each may store 60 new messages an hour.
const CONNECTORS: usize = 3_000;
const MANY: usize = 32;

/// A source of messages from many connectors.
struct Load {
    address: SocketAddr,
    tokens: Vec<String>,
    next: Cell<usize>,
    body: String,
}

/// What a stretch of load came to.
struct Stretch {
    per_second: f64,
    milliseconds: Samples,
}

impl Load {
    fn new(server: &Server, connectors: Vec<Connector>) -> Rc<Self> {
        Rc::new(Self {
            address: server.address,
            tokens: connectors.into_iter().map(|connector| connector.token).collect(),
            next: Cell::new(0),
            body: text(BODY),
        })
    }

    /// The next message, of the next connector.
    fn request(&self) -> Vec<u8> {
        let number = self.next.get();
        self.next.set(number + 1);
        let token = self
            .tokens
            .get(number % self.tokens.len().max(1))
            .map_or("", String::as_str);
        // Plain ASCII without quotes, so that it needs no escapes.
        let body = format!(
            r#"{{"external_id":"message-{number}","sender":"Sender {number} <sender{number}@example.org>","subject":"Question {number} about the order","body":"{}","received_at":"2026-01-01T00:00:00Z","sender_verified":true,"thread":"thread-{number}"}}"#,
            self.body
        );
        request("POST", "/plugin/v1/messages", self.address, &bearer(token), &body)
    }

    /// `clients` connections, each sending its next message as soon as it has an answer.
    async fn run(self: &Rc<Self>, clients: usize, time: Duration) -> Result<Stretch> {
        let mut links = Vec::new();
        for _ in 0..clients {
            links.push(Link::open(self.address).await?);
        }
        let begun = Instant::now();
        let tasks: Vec<_> = links
            .into_iter()
            .map(|link| spawn_local(self.clone().one(link, begun, time)))
            .collect();
        let mut milliseconds = Samples::default();
        for task in tasks {
            for sample in task.await?? {
                milliseconds.add(sample);
            }
        }
        let count = u32::try_from(milliseconds.len()).unwrap_or(u32::MAX);
        Ok(Stretch {
            per_second: f64::from(count) / begun.elapsed().as_secs_f64(),
            milliseconds,
        })
    }

    async fn one(self: Rc<Self>, mut link: Link, begun: Instant, time: Duration) -> Result<Vec<f64>> {
        let mut milliseconds = Vec::new();
        while begun.elapsed() < time {
            let message = self.request();
            let sent = Instant::now();
            let answer = link.call(&message).await?;
            if answer.status != 202 {
                bail!("a message was answered with {}: {}", answer.status, answer.text());
            }
            milliseconds.push(sent.elapsed().as_secs_f64() * 1e3);
        }
        Ok(milliseconds)
    }

    /// Lets every connector be known, and the write-ahead log and the caches grow to their size.
    async fn warm_up(self: &Rc<Self>) -> Result<()> {
        while self.next.get() < self.tokens.len() {
            self.run(MANY, Duration::from_millis(500)).await?;
        }
        Ok(())
    }
}

/// Ratios and rates, round by round.
#[derive(Default)]
struct Rounds {
    raw: Samples,
    rate: Samples,
    ratio: Samples,
    latency: Samples,
}

impl Rounds {
    fn add(&mut self, raw: f64, stretch: &Stretch) {
        self.raw.add(raw);
        self.rate.add(stretch.per_second);
        self.ratio.add(stretch.per_second / raw);
        self.latency.add(stretch.milliseconds.percentile(0.99));
    }

    fn figure(&self, name: &str, raw: &str, least: f64, more: &str) -> Figure {
        let note = format!(
            "medians of {} rounds; ratios from {}; p99 of one call {:.1} ms{more}",
            self.ratio.len(),
            self.ratio.spread(),
            self.latency.median()
        );
        let (rate, limit) = (
            Amount::of(self.rate.median(), "/s"),
            Amount::of(self.raw.median(), "/s"),
        );
        Figure::new(name, rate, Some((raw, limit)), Target::RatioAtLeast(least), note)
            .with_ratio(self.ratio.median())
    }
}

/// The figures on SQLite with synchronous=FULL.
pub(crate) async fn sqlite(
    muster: &Muster,
    folder: &Path,
    rounds: usize,
    time: Duration,
) -> Result<Vec<Figure>> {
    let place = Place::sqlite(muster, folder)?;
    let seeds = Seeds::open(&place).await?;
    let connectors = seeds.connectors(CONNECTORS).await?;
    seeds.close().await;
    let bare = Place::sqlite(muster, folder)?;
    let seeds = Seeds::open(&bare).await?;
    let (others, owner) = (seeds.connectors(CONNECTORS).await?, seeds.owner());
    seeds.close().await;
    let mut raw = SqliteLoop::open(bare.url(), owner, &others).await?;

    let server = place.serve(muster, &[("MUSTER_LOG", "warn")])?;
    let load = Load::new(&server, connectors);
    load.warm_up().await?;
    raw.run(Table::Messages, time).await?;
    raw.run(Table::Bare, time).await?;
    let (mut one, mut many, mut plain) = (Rounds::default(), Rounds::default(), Samples::default());
    for _ in 0..rounds {
        let limit = raw.run(Table::Messages, time).await?;
        plain.add(raw.run(Table::Bare, time).await?);
        one.add(limit, &load.run(1, time).await?);
        many.add(limit, &load.run(MANY, time).await?);
    }
    let version = raw.version().await?;
    raw.close().await?;
    server.stop()?;
    let sync = raw::fdatasync(folder, time)?;
    let more = format!(
        "; into a table without indexes the raw loop does {:.0}/s; SQLite {version}",
        plain.median()
    );
    Ok(vec![
        one.figure("messages, SQLite, 1 client", "single-row commits", 0.7, &more),
        many.figure("messages, SQLite, 32 clients", "single-row commits", 2.5, ""),
        Figure::new(
            "fdatasync of 8 KiB",
            Amount::of(sync.median(), "ms"),
            None,
            Target::Nothing,
            format!(
                "so one durable write after another comes to {:.0}/s",
                1e3 / sync.median()
            ),
        ),
    ])
}

/// The figure on Postgres with fsync on.
pub(crate) async fn postgres(
    muster: &Muster,
    folder: &Path,
    rounds: usize,
    time: Duration,
) -> Result<Vec<Figure>> {
    let cluster = Cluster::start_in(folder, Durability::Durable).context("no Postgres to measure")?;
    let place = Place::postgres(muster, folder, cluster.app_url())?;
    let seeds = Seeds::open(&place).await?;
    let (connectors, owner) = (seeds.connectors(CONNECTORS).await?, seeds.owner());
    seeds.close().await;
    let pgbench = Pgbench::prepare(&cluster, folder, owner, &connectors)?;
    // As many connections as there are clients, as pgbench has.
    let server = place.serve(
        muster,
        &[("MUSTER_LOG", "warn"), ("MUSTER_DATABASE_CONNECTIONS", "32")],
    )?;
    let load = Load::new(&server, connectors);
    load.warm_up().await?;
    pgbench.run(MANY, time)?;
    let mut many = Rounds::default();
    for _ in 0..rounds {
        let limit = pgbench.run(MANY, time)?;
        many.add(limit, &load.run(MANY, time).await?);
    }
    server.stop()?;
    let more = format!("; {}, 32 connections", raw::postgres_version(&cluster)?);
    Ok(vec![many.figure(
        "messages, Postgres, 32 clients",
        "pgbench, 32 clients",
        0.5,
        &more,
    )])
}
