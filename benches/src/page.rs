//! How long the archive's page takes with 10,000 decided drafts behind it. Never measures an answer that is not the page.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::browser::Browser;
use crate::client::{Link, request};
use crate::report::{Amount, Figure, Samples, Target};
use crate::seed::Seeds;
use crate::server::{Muster, Place};

/// Decided drafts in the archive.
const ARCHIVED: usize = 10_000;

/// A database with [`ARCHIVED`] messages and as many decided drafts.
pub(crate) async fn filled(muster: &Muster, folder: &Path) -> Result<Place> {
    let place = Place::sqlite(muster, folder)?;
    let seeds = Seeds::open(&place).await?;
    let connectors = seeds.connectors(5).await?;
    seeds.archived(&connectors, ARCHIVED).await?;
    seeds.close().await;
    Ok(place)
}

/// The figures of `requests` requests a page.
pub(crate) async fn run(muster: &Muster, folder: &Path, requests: usize) -> Result<Vec<Figure>> {
    let place = filled(muster, folder).await?;
    let server = place.serve(muster, &[("MUSTER_LOG", "warn")])?;
    let mut browser = Browser::sign_in(&server, &place).await?;
    let mut link = Link::open(server.address).await?;
    let mut floor = Samples::default();
    for _ in 0..requests {
        let begun = Instant::now();
        link.call(&request("GET", "/healthz", server.address, "", ""))
            .await?;
        floor.add(begun.elapsed().as_secs_f64() * 1e3);
    }
    let mut figures = Vec::new();
    for (name, path) in [
        (
            "the archive's first page",
            "/attention?tab=drafts&archived=1".to_owned(),
        ),
        (
            "a page from its middle",
            format!("/attention?tab=drafts&archived=1&before={}", ARCHIVED / 2),
        ),
        ("the drafts' page", "/attention?tab=drafts".to_owned()),
    ] {
        let cards = browser.open(&path).await?.matches("id=\"draft-").count();
        if cards != 50 {
            bail!("{path} shows {cards} drafts, not the 50 of a page");
        }
        let (mut times, mut size) = (Samples::default(), 0);
        for _ in 0..requests {
            let begun = Instant::now();
            size = browser.open(&path).await?.len();
            times.add(begun.elapsed().as_secs_f64() * 1e3);
        }
        figures.push(Figure::new(
            format!("{name}, 10,000 archived drafts, p95"),
            Amount::of(times.percentile(0.95), "ms"),
            Some(("/healthz, p95", Amount::of(floor.percentile(0.95), "ms"))),
            Target::Below(50.0),
            format!(
                "{} requests; p50 {:.2} ms, worst {:.2} ms; 50 cards, {} KiB",
                times.len(),
                times.median(),
                times.worst(),
                size / 1024
            ),
        ));
    }
    server.stop()?;
    Ok(figures)
}
