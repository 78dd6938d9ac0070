//! How soon `muster serve` is ready on a database that has months in it, and what it holds in memory when nobody asks. Never starts on an empty one.

use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::client::{Link, request};
use crate::page::filled;
use crate::report::{Amount, Figure, Samples, Target};
use crate::server::Muster;

/// How long a server is left alone before its memory is read.
const QUIET: Duration = Duration::from_millis(500);

/// The figures of `starts` starts.
pub(crate) async fn run(muster: &Muster, folder: &Path, starts: usize) -> Result<Vec<Figure>> {
    let place = filled(muster, folder).await?;
    let (mut ready, mut listening, mut resident, mut process) = (
        Samples::default(),
        Samples::default(),
        Samples::default(),
        Samples::default(),
    );
    // The first one reads the program and the database from the disk.
    place.serve(muster, &[])?.stop()?;
    for _ in 0..starts {
        process.add(bare_process(muster)?);
        let begun = Instant::now();
        let server = place.serve(muster, &[])?;
        listening.add(server.listened_after.as_secs_f64() * 1e3);
        let mut link = Link::open(server.address).await?;
        let answer = link
            .call(&request("GET", "/healthz", server.address, "", ""))
            .await?;
        ready.add(begun.elapsed().as_secs_f64() * 1e3);
        if answer.status != 200 {
            bail!("/healthz was answered with {}", answer.status);
        }
        drop(link);
        tokio::time::sleep(QUIET).await;
        resident.add(server.resident()? / 1024.0);
        let address = server.address;
        server.stop()?;
        if TcpStream::connect(address).is_ok() {
            bail!("a stopped server still listens");
        }
    }
    let size = std::fs::metadata(muster.program())?.len();
    Ok(vec![
        Figure::new(
            "muster serve ready on 10,000 messages, p95",
            Amount::of(ready.percentile(0.95), "ms"),
            Some(("muster --version, p50", Amount::of(process.median(), "ms"))),
            Target::Below(150.0),
            format!(
                "{} starts; first answer of /healthz p50 {:.1} ms, \"listening on\" p50 {:.1} ms, p95 {:.1} ms",
                ready.len(),
                ready.median(),
                listening.median(),
                listening.percentile(0.95)
            ),
        ),
        Figure::new(
            "resident when idle, p95",
            Amount::of(resident.percentile(0.95), "MiB"),
            Some(("the program's file", Amount::of(mebibytes(size), "MiB"))),
            Target::Below(40.0),
            format!(
                "half a second after it was ready; p50 {:.1} MiB",
                resident.median()
            ),
        ),
    ])
}

fn mebibytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1024).unwrap_or(u32::MAX)) / 1024.0
}

/// Milliseconds from making a process of the program until it has said its version and is gone.
fn bare_process(muster: &Muster) -> Result<f64> {
    let begun = Instant::now();
    let ended = muster
        .command()
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .context("muster could not be started")?;
    let took = begun.elapsed();
    if !ended.success() {
        bail!("muster --version failed");
    }
    Ok(took.as_secs_f64() * 1e3)
}
