//! What the screen of a reply costs at its worst: the longest reply, the longest list of deny words, each word almost found at every place. Never files anything.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use muster_core::screen::{DenyWords, screen};

use crate::report::{Amount, Figure, Samples, Target};
use crate::seed::text;

/// Most bytes of a reply.
const LONGEST: usize = 16 * 1024;
const WORDS: usize = 500;

/// 500 names of 100 characters that differ only at their end, and a reply that holds their beginning over and over.
fn hostile() -> Result<(String, DenyWords)> {
    let words: Vec<String> = (0..WORDS)
        .map(|number| format!("{}z{number:03}", "a ".repeat(48)))
        .collect();
    Ok(("a ".repeat(LONGEST / 2), DenyWords::parse(&words.join(","))?))
}

/// Names as deployments have them.
fn ordinary() -> Result<DenyWords> {
    let words: Vec<String> = (0..WORDS).map(|number| format!("project-{number}")).collect();
    Ok(DenyWords::parse(&words.join(","))?)
}

/// The figures over `time` each.
pub(crate) fn run(time: Duration) -> Result<Vec<Figure>> {
    let (reply, words) = hostile()?;
    let before = peak()?;
    let worst = measure(&reply, &words, time)?;
    let memory = peak()? - before;
    let prose = measure(&text(1_000), &ordinary()?, time)?;
    Ok(vec![Figure::new(
        "screen of the worst reply, p95",
        Amount::of(worst.percentile(0.95), "ms"),
        Some((
            "1,000 bytes of prose, 500 names, p95",
            Amount::of(prose.percentile(0.95), "ms"),
        )),
        Target::Nothing,
        format!(
            "16 KiB against 500 deny words of 100 characters; p50 {:.1} ms, worst {:.1} ms of {}; peak memory grows by {memory:.0} KiB; on a thread of its own, so no request waits for it",
            worst.median(),
            worst.worst(),
            worst.len()
        ),
    )])
}

fn measure(reply: &str, words: &DenyWords, time: Duration) -> Result<Samples> {
    let (mut samples, begun) = (Samples::default(), Instant::now());
    while begun.elapsed() < time {
        let one = Instant::now();
        if screen(reply, words).is_err() {
            bail!("the screen refused a reply that it should search to its end");
        }
        samples.add(one.elapsed().as_secs_f64() * 1e3);
    }
    Ok(samples)
}

/// The most memory this process has held at once, in KiB.
fn peak() -> Result<f64> {
    let status =
        std::fs::read_to_string("/proc/self/status").context("the memory of this process cannot be read")?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|number| number.trim().parse().ok())
        .context("the kernel says nothing about the peak of this process")
}
