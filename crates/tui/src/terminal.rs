//! The terminal's own state: how it is taken, how it is given back, and what comes from it. Never left changed, whatever ends the program but its being killed.

#[cfg(test)]
mod tests;

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;

use crossterm::cursor::Show;
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::keys::{Input, Parser};

/// What comes to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// Keys and pastes.
    Input(Vec<Input>),
    /// A line of a script, or why it is none.
    Line(Result<String, String>),
    /// The terminal has another size.
    Resize,
    /// A signal says to end.
    Stop,
    /// There is no more input.
    End,
}

/// Events that wait to be dealt with; whoever writes faster waits.
pub(crate) const WAITING: usize = 256;

/// How the terminal was changed: bits of what is to be undone.
static CHANGED: AtomicU8 = AtomicU8::new(0);
const RAW: u8 = 1;
const PASTE: u8 = 2;
const SCREEN: u8 = 4;

/// A terminal that was taken over. Dropped, it is as before.
pub(crate) struct Taken(());

impl Taken {
    /// Takes the terminal: keys come as they are pressed, with `paste` pastes are marked, with `screen` there is an empty screen.
    ///
    /// # Errors
    /// What the terminal answers; it is as before then.
    pub(crate) fn take(paste: bool, screen: bool) -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                restore();
                before(info);
            }));
        });
        enable_raw_mode()?;
        CHANGED.store(RAW, Ordering::SeqCst);
        // Dropped on the way out of a failure.
        let taken = Self(());
        let mut out = io::stdout().lock();
        if screen {
            CHANGED.fetch_or(SCREEN, Ordering::SeqCst);
            crossterm::execute!(out, EnterAlternateScreen)?;
        }
        if paste {
            CHANGED.fetch_or(PASTE, Ordering::SeqCst);
            crossterm::execute!(out, EnableBracketedPaste)?;
        }
        Ok(taken)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back, once. A terminal that is gone takes nothing back, and that is no failure.
fn restore() {
    let changed = CHANGED.swap(0, Ordering::SeqCst);
    let mut out = io::stdout();
    if changed & PASTE != 0 {
        let _ = crossterm::execute!(out, DisableBracketedPaste);
    }
    if changed & SCREEN != 0 {
        let _ = crossterm::execute!(out, LeaveAlternateScreen, Show);
    }
    if changed & RAW != 0 {
        let _ = disable_raw_mode();
    }
    let _ = out.flush();
}

/// Sends what is typed at the terminal, until it is gone.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn read_keys<E: From<Event> + Send + 'static>(events: SyncSender<E>) -> io::Result<()> {
    let read = move || {
        let mut parser = Parser::default();
        let mut bytes = vec![0; 16 * 1024];
        loop {
            // Only time tells the escape key from the beginning of a sequence.
            if parser.waits() && !comes_soon() {
                let inputs = parser.settle();
                if !inputs.is_empty() && events.send(Event::Input(inputs).into()).is_err() {
                    return;
                }
            }
            match io::stdin().lock().read(&mut bytes) {
                Ok(0) => break,
                Ok(length) => {
                    let inputs = parser.feed(bytes.get(..length).unwrap_or_default());
                    if !inputs.is_empty() && events.send(Event::Input(inputs).into()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        // Nobody is left to hear of it when the client has ended.
        let _ = events.send(Event::End.into());
    };
    thread::Builder::new()
        .name("chat-keys".to_owned())
        .spawn(read)
        .map(drop)
}

fn comes_soon() -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::from(40_u8)).is_ok_and(|ready| ready > 0)
}

/// Sends the lines of a pipe, until it ends.
///
/// # Errors
/// When no thread can be started.
pub(crate) fn read_lines<E: From<Event> + Send + 'static>(events: SyncSender<E>) -> io::Result<()> {
    let read = move || {
        let mut lines = Lines::new(io::stdin().lock());
        while let Some(line) = lines.next() {
            if events.send(Event::Line(line).into()).is_err() {
                return;
            }
        }
        let _ = events.send(Event::End.into());
    };
    thread::Builder::new()
        .name("chat-lines".to_owned())
        .spawn(read)
        .map(drop)
}

/// Lines of a script, of which none takes more memory than a message may.
struct Lines<R> {
    read: R,
}

/// Longest line that is kept: a command and the longest text.
const LONGEST: usize = muster_bus::limits::MAX_TEXT + 1024;

impl<R: io::BufRead> Lines<R> {
    fn new(read: R) -> Self {
        Self { read }
    }

    fn next(&mut self) -> Option<Result<String, String>> {
        let (mut line, mut length) = (Vec::new(), 0_usize);
        loop {
            let bytes = match self.read.fill_buf() {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A pipe that fails has no more to say.
                Err(_) => &[],
            };
            if bytes.is_empty() {
                if length == 0 {
                    return None;
                }
                break;
            }
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes);
            if line.len() <= LONGEST {
                line.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            length += used;
            self.read.consume(used);
            if end.is_some() {
                break;
            }
        }
        if line.len() > LONGEST {
            return Some(Err(format!(
                "a line of {length} bytes is longer than any message may be, so nothing was posted of it"
            )));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Some(
            String::from_utf8(line)
                .map_err(|_| "a line is not UTF-8, so nothing was posted of it".to_owned()),
        )
    }
}

/// Sends the signals that end a program or tell of another size.
///
/// # Errors
/// When they cannot be listened to.
pub(crate) fn read_signals<E: From<Event> + Send + 'static>(events: SyncSender<E>) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGHUP, SIGINT, SIGWINCH])?;
    let read = move || {
        for signal in signals.forever() {
            let event = if signal == SIGWINCH {
                Event::Resize
            } else {
                Event::Stop
            };
            if events.send(event.into()).is_err() {
                return;
            }
        }
    };
    thread::Builder::new()
        .name("chat-signals".to_owned())
        .spawn(read)
        .map(drop)
}
