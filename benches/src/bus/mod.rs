//! The figures of the coordination bus, on any server that has its tools: another one is measured with `--bus`. Never measures through muster's own library.

mod crowd;
pub(crate) mod speaker;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use serde_json::json;

use crate::report::{Amount, Figure, Samples, Target};
use speaker::{Program, Speaker};

/// Servers that write at once.
const WRITERS: usize = 4;
/// Messages between two agents, for the delay of one.
const DELAYS: usize = 300;
/// Entries behind which one is unread.
const FEW: usize = 1_000;
const MANY: usize = 1_000_000;

/// Every figure of the bus.
pub(crate) fn run(words: &[String], folder: &Path, rounds: usize, time: Duration) -> Result<Vec<Figure>> {
    let program = Program {
        words: words.to_vec(),
    };
    let mut figures = Vec::new();
    figures.extend(starts(&program, folder)?);
    figures.extend(native(&program, folder, rounds, time)?);
    figures.extend(shared(&program, folder, rounds, time)?);
    figures.extend(delays(&program, folder)?);
    figures.extend(reads(&program, folder)?);
    figures.extend(crowd::run(&program, folder, time)?);
    Ok(figures)
}

fn directory(folder: &Path, name: &str, mode: &str) -> Result<PathBuf> {
    let directory = folder.join(name);
    fs::create_dir(&directory)?;
    fs::write(
        directory.join("config.json"),
        json!({"transport": "tmux-push-remote", "mode": mode}).to_string(),
    )?;
    Ok(directory)
}

/// From making the process to the answer of `tools/list`, and what it holds when nobody asks.
fn starts(program: &Program, folder: &Path) -> Result<Vec<Figure>> {
    let directory = directory(folder, "starts", "native")?;
    let (mut listed, mut idle) = (Samples::default(), Samples::default());
    drop(Speaker::start(program, &directory)?);
    for _ in 0..20 {
        let begun = Instant::now();
        let mut speaker = Speaker::start(program, &directory)?;
        speaker.request("tools/list", &json!({}))?;
        listed.add(begun.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(300));
        idle.add(speaker.resident()? / 1024.0);
    }
    Ok(vec![
        Figure::new(
            "bus: start to tools/list answered, p95",
            Amount::of(listed.percentile(0.95), "ms"),
            None,
            Target::Below(30.0),
            format!("20 starts; p50 {:.1} ms", listed.median()),
        ),
        Figure::new(
            "bus: resident when idle, p95",
            Amount::of(idle.percentile(0.95), "MiB"),
            None,
            Target::Below(10.0),
            format!("p50 {:.1} MiB", idle.median()),
        ),
    ])
}

/// What one stretch of load came to.
struct Stretch {
    rate: f64,
    delays: Samples,
    failed: usize,
}

/// Several servers send into one inbox, each one message after the other.
fn stretch(program: &Program, directory: &Path, time: Duration) -> Result<Stretch> {
    let barrier = Barrier::new(WRITERS);
    let results: Vec<Result<(Vec<f64>, usize, f64)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..WRITERS)
            .map(|number| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let name = format!("writer-{number}");
                    let ready = Speaker::start(program, directory).and_then(|mut speaker| {
                        speaker.call("register", &json!({"agentId": name, "force": true}))?;
                        Ok(speaker)
                    });
                    barrier.wait();
                    let mut speaker = ready?;
                    let message = json!({"from": name, "to": "reader", "text": "The build of main is green again; go on with the release notes."});
                    let begun = Instant::now();
                    let (mut took, mut failed) = (Vec::new(), 0);
                    while begun.elapsed() < time {
                        match speaker.timed("send_message", &message) {
                            Ok(ms) => took.push(ms),
                            Err(_) => failed += 1,
                        }
                    }
                    Ok((took, failed, begun.elapsed().as_secs_f64()))
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a writer broke"))))
            .collect()
    });
    let mut all = Stretch {
        rate: 0.0,
        delays: Samples::default(),
        failed: 0,
    };
    for result in results {
        let (took, failed, seconds) = result?;
        all.rate += count(took.len()) / seconds;
        all.failed += failed;
        took.into_iter().for_each(|ms| all.delays.add(ms));
    }
    Ok(all)
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

fn native(program: &Program, folder: &Path, rounds: usize, time: Duration) -> Result<Vec<Figure>> {
    let (mut rates, mut delays, mut failed) = (Samples::default(), Samples::default(), 0);
    let mut floors = Samples::default();
    for round in 0..rounds {
        let directory = directory(folder, &format!("native-{round}"), "native")?;
        floors.add(floor_native(&directory)?);
        let stretch = stretch(program, &directory, time)?;
        rates.add(stretch.rate);
        delays.add(stretch.delays.percentile(0.99));
        failed += stretch.failed;
    }
    Ok(vec![
        Figure::new(
            "bus, native: direct messages a second, 4 servers into one inbox",
            Amount::of(rates.median(), "/s"),
            Some(("one process: lock, append", Amount::of(floors.median(), "/s"))),
            Target::AtLeast(5_000.0),
            format!("medians of {rounds} rounds; {failed} calls failed"),
        ),
        Figure::new(
            "bus, native: p99 of one of them",
            Amount::of(delays.median(), "ms"),
            None,
            Target::Below(10.0),
            "one in flight in each server",
        ),
    ])
}

fn shared(program: &Program, folder: &Path, rounds: usize, time: Duration) -> Result<Vec<Figure>> {
    let (mut rates, mut floors, mut ratios, mut failed) =
        (Samples::default(), Samples::default(), Samples::default(), 0);
    for round in 0..rounds {
        let directory = directory(folder, &format!("shared-{round}"), "shared")?;
        fs::create_dir_all(directory.join("inbox"))?;
        fs::write(directory.join("inbox/reader.jsonl"), "")?;
        let floor = floor_shared(&directory, time)?;
        // While an inbox is new its first messages are looked after; what is measured is one that has been there.
        std::thread::sleep(Duration::from_secs(4).saturating_sub(time));
        let stretch = stretch(program, &directory, time)?;
        rates.add(stretch.rate);
        floors.add(floor);
        ratios.add(stretch.rate / floor);
        failed += stretch.failed;
    }
    Ok(vec![
        Figure::new(
            "bus, shared: direct messages a second, 4 servers into one inbox",
            Amount::of(rates.median(), "/s"),
            Some((
                "one process: mkdir, append, rmdir",
                Amount::of(floors.median(), "/s"),
            )),
            Target::RatioAtLeast(0.8),
            format!("medians of {rounds} rounds; {failed} calls failed"),
        )
        .with_ratio(ratios.median()),
    ])
}

/// A line as long as a message's.
fn line() -> String {
    format!(
        "{}\n",
        json!({"id": "6f2b6a57-5c49-4c5e-9f5c-0d7f0f9a8f11", "ts": 1_767_225_600_000_u64, "from": "writer-1", "to": "reader", "text": "The build of main is green again; go on with the release notes."})
    )
}

fn floor_native(directory: &Path) -> Result<f64> {
    let lock = fs::File::create(directory.join("floor.lock"))?;
    let mut log = fs::File::options()
        .create(true)
        .append(true)
        .open(directory.join("floor.jsonl"))?;
    let (line, begun, mut done) = (line(), Instant::now(), 0);
    while begun.elapsed() < Duration::from_millis(500) {
        lock.lock()?;
        log.write_all(line.as_bytes())?;
        lock.unlock()?;
        done += 1;
    }
    Ok(count(done) / begun.elapsed().as_secs_f64())
}

fn floor_shared(directory: &Path, time: Duration) -> Result<f64> {
    let (log, lock) = (directory.join("floor.jsonl"), directory.join("floor.jsonl.lock"));
    let (line, begun, mut done) = (line(), Instant::now(), 0);
    while begun.elapsed() < time {
        fs::create_dir(&lock)?;
        fs::File::options()
            .create(true)
            .append(true)
            .open(&log)?
            .write_all(line.as_bytes())?;
        fs::remove_dir(&lock)?;
        done += 1;
    }
    Ok(count(done) / begun.elapsed().as_secs_f64())
}

/// From sending in one server to the return of another's wait.
fn delays(program: &Program, folder: &Path) -> Result<Vec<Figure>> {
    let directory = directory(folder, "delays", "native")?;
    let mut sender = Speaker::start(program, &directory)?;
    sender.call("register", &json!({"agentId": "sender"}))?;
    let (mut usual, mut first) = (Samples::default(), Samples::default());
    let mut waiter = Speaker::start(program, &directory)?;
    for _ in 0..DELAYS {
        usual.add(delay(&mut sender, &mut waiter, "waiter")?);
    }
    for number in 0..DELAYS / 10 {
        // An agent nobody knows yet: its inbox is made by the very message it waits for.
        let mut waiter = Speaker::start(program, &directory)?;
        first.add(delay(&mut sender, &mut waiter, &format!("new-{number}"))?);
    }
    let figure = |name: &str, value: f64, most: f64, note: String| {
        Figure::new(name, Amount::of(value, "ms"), None, Target::Below(most), note)
    };
    Ok(vec![
        figure(
            "bus: send to another process's wait returning, p50",
            usual.median(),
            2.0,
            format!("{DELAYS} messages; worst {:.2} ms", usual.percentile(1.0)),
        ),
        figure("bus: the same, p99", usual.percentile(0.99), 10.0, String::new()),
        figure(
            "bus: the same for the first message ever, p50",
            first.median(),
            2.0,
            format!(
                "{} new agents; worst {:.2} ms",
                DELAYS / 10,
                first.percentile(1.0)
            ),
        ),
    ])
}

fn delay(sender: &mut Speaker, waiter: &mut Speaker, name: &str) -> Result<f64> {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let answer = waiter.call(
                "wait_for_message",
                &json!({"agentId": name, "source": "inbox", "timeoutMs": 10_000}),
            )?;
            let returned = Instant::now();
            answer
                .pointer("/messages/0")
                .context("a wait returned without a message")
                .map(|_| returned)
        });
        // Time for the wait to be waited.
        std::thread::sleep(Duration::from_millis(15));
        let begun = Instant::now();
        sender.call(
            "send_message",
            &json!({"from": "sender", "to": name, "text": "now"}),
        )?;
        let returned = waiting
            .join()
            .unwrap_or_else(|_| Err(anyhow!("a waiter broke")))?;
        Ok(returned.saturating_duration_since(begun).as_secs_f64() * 1e3)
    })
}

/// One unread message behind few and behind many.
fn reads(program: &Program, folder: &Path) -> Result<Vec<Figure>> {
    let few = read_behind(program, folder, FEW)?;
    let many = read_behind(program, folder, MANY)?;
    Ok(vec![
        Figure::new(
            "bus: read_messages with 1 unread behind 1,000,000, p95",
            Amount::of(many.0.percentile(0.95), "ms"),
            Some(("the same behind 1,000", Amount::of(few.0.percentile(0.95), "ms"))),
            Target::Below(2.0),
            format!(
                "100 reads; p50 {:.2} ms and {:.2} ms; the first read of a directory that another program wrote counted it in {:.0} ms",
                many.0.median(),
                few.0.median(),
                many.2
            ),
        ),
        Figure::new(
            "bus: resident after these reads",
            Amount::of(many.1 / 1024.0, "MiB"),
            Some(("the same behind 1,000", Amount::of(few.1 / 1024.0, "MiB"))),
            Target::Below(20.0),
            String::new(),
        ),
    ])
}

fn read_behind(program: &Program, folder: &Path, entries: usize) -> Result<(Samples, f64, f64)> {
    let directory = directory(folder, &format!("reads-{entries}"), "native")?;
    for part in ["inbox", "cursors"] {
        fs::create_dir_all(directory.join(part))?;
    }
    let mut log = std::io::BufWriter::new(fs::File::create(directory.join("inbox/reader.jsonl"))?);
    for number in 0..entries {
        writeln!(
            log,
            r#"{{"id":"old-{number}","ts":1767225600000,"from":"writer","to":"reader","text":"The build of main is green again; go on with the release notes."}}"#
        )?;
    }
    log.into_inner()?.sync_all()?;
    fs::write(
        directory.join("cursors/reader.json"),
        json!({"inboxOffset": entries}).to_string(),
    )?;
    let mut sender = Speaker::start(program, &directory)?;
    sender.call("register", &json!({"agentId": "sender"}))?;
    let mut reader = Speaker::start(program, &directory)?;
    let read = json!({"agentId": "reader", "source": "inbox"});
    let counted = reader.timed("read_messages", &read)?;
    let mut samples = Samples::default();
    for number in 0..100 {
        sender.call(
            "send_message",
            &json!({"from": "sender", "to": "reader", "text": format!("message {number}")}),
        )?;
        let begun = Instant::now();
        let answer = reader.call("read_messages", &read)?;
        samples.add(begun.elapsed().as_secs_f64() * 1e3);
        let returned = answer
            .pointer("/messages")
            .and_then(serde_json::Value::as_array)
            .map(Vec::len);
        if returned != Some(1) {
            return Err(anyhow!(
                "a read returned {returned:?} messages where one was unread"
            ));
        }
    }
    Ok((samples, reader.resident()?, counted))
}
