//! How long a person waits: for the first frame, and for each page of a channel of 100,000 messages. Never judges: it measures and prints one JSON object.
//!
//! `scroll` measures the seat as a program of its own; `scroll PROGRAM ARGS…` measures another one that takes `--dir` and `--id`, such as
//! `scroll muster chat`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use muster_bus::limits::Limits;
use muster_tui::{Options, run};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};

const MESSAGES: usize = 100_000;
const STARTS: usize = 20;
const PAGES: usize = 400;
/// The end of a frame: the cursor is shown again.
const FRAME: &[u8] = b"\x1b[?25h";
/// A word of the prompt.
const PROMPT: &[u8] = b"peers)>";
const PATIENCE: Duration = Duration::from_secs(10);

type Failed = Box<dyn Error>;

fn main() -> ExitCode {
    let measured = match std::env::var_os("MUSTER_SCROLL_SEAT") {
        Some(dir) => sit(Path::new(&dir)),
        None => measure(),
    };
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "scroll: {error}");
            ExitCode::FAILURE
        }
    }
}

fn sit(dir: &Path) -> Result<(), Failed> {
    Ok(run(Options {
        dir: dir.to_owned(),
        limits: Limits::default(),
        id: Some("david".to_owned()),
        plain: false,
        doctor: None,
    })?)
}

/// The seat on a terminal.
struct Seat {
    child: Child,
    master: std::fs::File,
    seen: Vec<u8>,
}

impl Seat {
    fn start(dir: &Path) -> Result<Self, Failed> {
        let mut args = std::env::args_os().skip(1);
        let mut command = match args.next() {
            Some(program) => {
                let mut command = Command::new(program);
                command.args(args).arg("--dir").arg(dir).args(["--id", "david"]);
                command
            }
            None => {
                let mut command = Command::new(std::env::current_exe()?);
                command.env("MUSTER_SCROLL_SEAT", dir);
                command
            }
        };
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(Some(&size), None)?;
        for end in [&pty.master, &pty.slave] {
            fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
        }
        let child = command
            .env("TERM", "xterm-256color")
            .stdin(Stdio::from(pty.slave.try_clone()?))
            .stdout(Stdio::from(pty.slave))
            .spawn()?;
        Ok(Self {
            child,
            master: pty.master.into(),
            seen: Vec::new(),
        })
    }

    /// Reads until `mark` came; what stood before it is forgotten.
    fn until(&mut self, mark: &[u8]) -> Result<(), Failed> {
        let begun = Instant::now();
        loop {
            let found = self.seen.windows(mark.len()).position(|part| part == mark);
            if let Some(at) = found {
                self.seen.drain(..at + mark.len());
                return Ok(());
            }
            let left = PATIENCE
                .checked_sub(begun.elapsed())
                .ok_or("the seat says nothing")?;
            self.read(left)?;
        }
    }

    /// Reads what comes within a time; answers whether something came.
    fn read(&mut self, patience: Duration) -> Result<bool, Failed> {
        let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, PollTimeout::try_from(patience)?)? == 0 {
            return Ok(false);
        }
        let mut bytes = [0; 64 * 1024];
        let length = self.master.read(&mut bytes)?;
        self.seen
            .extend_from_slice(bytes.get(..length).unwrap_or_default());
        Ok(true)
    }

    /// Reads until nothing comes any more; answers when the last of it came.
    fn settle(&mut self) -> Result<Instant, Failed> {
        let mut last = Instant::now();
        while self.read(Duration::from_millis(400))? {
            last = Instant::now();
        }
        self.seen.clear();
        Ok(last)
    }

    /// From a key to the end of the frame that it brings, in milliseconds.
    fn press(&mut self, key: &[u8]) -> Result<f64, Failed> {
        self.seen.clear();
        let pressed = Instant::now();
        self.master.write_all(key)?;
        self.until(FRAME)?;
        Ok(pressed.elapsed().as_secs_f64() * 1_000.0)
    }

    fn end(mut self) -> Result<(), Failed> {
        self.master.write_all(b"\x03")?;
        self.child.wait()?;
        Ok(())
    }
}

fn measure() -> Result<(), Failed> {
    let dir = std::env::temp_dir().join(format!("muster-scroll-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let measured = measure_in(&dir);
    std::fs::remove_dir_all(&dir)?;
    writeln!(std::io::stdout(), "{}", measured?)?;
    Ok(())
}

fn measure_in(dir: &Path) -> Result<String, Failed> {
    let mut lines = String::new();
    for number in 0..MESSAGES {
        let said = "with some words in it ".repeat(number % 9);
        let ts = 1_700_000_000_000_u64 + number as u64;
        writeln!(
            lines,
            r#"{{"id":"m{number}","ts":{ts},"from":"bob","room":"general","text":"message {number} {said}"}}"#
        )?;
    }
    std::fs::write(dir.join("room.jsonl"), lines)?;
    let mut starts = Vec::new();
    for _ in 0..=STARTS {
        let begun = Instant::now();
        let mut seat = Seat::start(dir)?;
        seat.until(PROMPT)?;
        seat.until(FRAME)?;
        starts.push(begun.elapsed().as_secs_f64() * 1_000.0);
        seat.settle()?;
        seat.end()?;
    }
    // The first one counts the channel, once in its life.
    let first = starts.remove(0);
    let mut seat = Seat::start(dir)?;
    seat.until(PROMPT)?;
    seat.settle()?;
    let mut up = Vec::new();
    for _ in 0..PAGES {
        up.push(seat.press(b"\x1b[5~")?);
    }
    seat.settle()?;
    let pressed = Instant::now();
    seat.master.write_all(b"\x1b[1;5H")?;
    let to_oldest = seat.settle()?.duration_since(pressed).as_secs_f64() * 1_000.0;
    let mut down = Vec::new();
    for _ in 0..PAGES {
        down.push(seat.press(b"\x1b[6~")?);
    }
    seat.settle()?;
    seat.end()?;
    Ok(format!(
        r#"{{"messages":{MESSAGES},"first_start_ms":{first:.1},"start_ms":{},"page_up_ms":{},"page_down_ms":{},"to_oldest_ms":{to_oldest:.1}}}"#,
        spread(starts),
        spread(up),
        spread(down)
    ))
}

fn spread(mut of: Vec<f64>) -> String {
    of.sort_by(f64::total_cmp);
    let at = |part: usize| {
        of.get((of.len() * part / 100).min(of.len() - 1))
            .copied()
            .unwrap_or(0.0)
    };
    format!(
        r#"{{"p50":{:.1},"p99":{:.1},"max":{:.1}}}"#,
        at(50),
        at(99),
        at(100)
    )
}
