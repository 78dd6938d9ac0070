//! How soon the human seat shows its first screen, and how long a channel of 100,000 messages takes to show another page. Never reads what is shown, only when.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::pty::{Winsize, openpty};
use serde_json::json;

use crate::report::{Amount, Figure, Samples, Target};
use crate::server::Muster;

const STARTS: usize = 20;
const MESSAGES: usize = 100_000;
const PAGES: usize = 200;
/// A screen is whole when nothing more came for so long.
const QUIET: Duration = Duration::from_millis(30);

/// Every figure of the human seat.
pub(super) fn run(muster: &Muster, folder: &Path) -> Result<Vec<Figure>> {
    let directory = folder.join("chat");
    std::fs::create_dir(&directory)?;
    std::fs::write(
        directory.join("config.json"),
        json!({"transport": "tmux-push-remote", "mode": "native"}).to_string(),
    )?;
    let mut log = std::io::BufWriter::new(File::create(directory.join("room.jsonl"))?);
    for number in 0..MESSAGES {
        writeln!(
            log,
            r#"{{"id":"old-{number}","ts":1767225600000,"from":"writer","room":"general","text":"Message {number}: the build of main is green again; go on with the release notes."}}"#
        )?;
    }
    log.into_inner()?.sync_all()?;
    let mut starts = Samples::default();
    // The first one counts a log that another program wrote.
    Seat::start(muster, &directory)?.end()?;
    for _ in 0..STARTS {
        let begun = Instant::now();
        let seat = Seat::start(muster, &directory)?;
        starts.add(begun.elapsed().as_secs_f64() * 1e3);
        seat.end()?;
    }
    let mut seat = Seat::start(muster, &directory)?;
    seat.settle()?;
    let mut pages = Samples::default();
    for _ in 0..PAGES {
        let begun = Instant::now();
        seat.terminal.write_all(b"\x1b[5~")?;
        let last = seat.settle()?.context("a page up showed nothing")?;
        pages.add(last.saturating_duration_since(begun).as_secs_f64() * 1e3);
    }
    seat.end()?;
    Ok(vec![
        Figure::new(
            "chat: start to the prompt on the screen, p95",
            Amount::of(starts.percentile(0.95), "ms"),
            None,
            Target::Below(50.0),
            format!("{STARTS} starts; p50 {:.1} ms", starts.median()),
        ),
        Figure::new(
            "chat: a page up in a channel of 100,000, p99",
            Amount::of(pages.percentile(0.99), "ms"),
            None,
            Target::Below(50.0),
            format!(
                "{PAGES} pages, key to the last byte of the screen; p50 {:.1} ms, worst {:.1} ms",
                pages.median(),
                pages.percentile(1.0)
            ),
        ),
    ])
}

/// The program on a terminal of its own.
struct Seat {
    child: Child,
    terminal: File,
    shown: Receiver<(Instant, Vec<u8>)>,
}

impl Seat {
    /// Starts it and waits for its prompt.
    fn start(muster: &Muster, directory: &Path) -> Result<Self> {
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pair = openpty(Some(&size), None)?;
        let (own, theirs) = (File::from(pair.master), File::from(pair.slave));
        let child = Command::new(muster.program())
            .args(["chat", "--id", "bench"])
            .env("AGENT_COORD_DIR", directory)
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(theirs.try_clone()?))
            .stdout(Stdio::from(theirs.try_clone()?))
            .stderr(Stdio::from(theirs))
            .spawn()?;
        let (tell, shown) = channel();
        let mut reader = own.try_clone()?;
        std::thread::spawn(move || {
            let mut chunk = [0; 65_536];
            while let Ok(read) = reader.read(&mut chunk) {
                let bytes = chunk.get(..read).unwrap_or_default().to_vec();
                if bytes.is_empty() || tell.send((Instant::now(), bytes)).is_err() {
                    return;
                }
            }
        });
        let mut seat = Self {
            child,
            terminal: own,
            shown,
        };
        seat.prompt()?;
        Ok(seat)
    }

    fn prompt(&mut self) -> Result<()> {
        let (until, mut seen) = (Instant::now() + Duration::from_secs(10), Vec::new());
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let Ok((_, bytes)) = self.shown.recv_timeout(left) else {
                break;
            };
            seen.extend(bytes);
            // Blanks are skipped over on the screen, so the prompt does not come in one piece.
            if String::from_utf8_lossy(&seen).contains(")>") {
                return Ok(());
            }
        }
        bail!("muster chat showed no prompt")
    }

    /// When the last byte came before it became quiet; `None` when none came.
    fn settle(&mut self) -> Result<Option<Instant>> {
        let mut last = None;
        loop {
            let patience = if last.is_some() {
                QUIET
            } else {
                Duration::from_secs(2)
            };
            match self.shown.recv_timeout(patience) {
                Ok((at, _)) => last = Some(at),
                Err(RecvTimeoutError::Timeout) => return Ok(last),
                Err(RecvTimeoutError::Disconnected) => bail!("muster chat ended"),
            }
        }
    }

    fn end(mut self) -> Result<()> {
        self.terminal.write_all(b"\x04")?;
        let until = Instant::now() + Duration::from_secs(5);
        while self.child.try_wait()?.is_none() {
            if Instant::now() > until {
                bail!("muster chat did not end on Ctrl-D");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
