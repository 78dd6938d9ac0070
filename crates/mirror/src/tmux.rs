//! The tmux program, called with words and never through a shell: one look at a pane in one step of the server, and keys that are pressed only if the pane is still what was looked at, decided by the server in the same step. Never names a pane but by its number.

use std::collections::HashMap;
use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use muster_core::text;

use crate::guard::Pane;
use crate::process;
use crate::screen::{Row, Screen};

/// How long one call may take. The server answers within milliseconds or hangs.
const PATIENCE: Duration = Duration::from_secs(10);
/// What all buffers of ours begin with; the process that made one follows.
const BUFFER: &str = "muster-push-";

/// Which tmux server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Server {
    /// The one that `$TMUX` names, else the user's usual one.
    #[default]
    Usual,
    /// The one of this name, as with `tmux -L`.
    Named(String),
    /// The one behind this socket, as with `tmux -S`.
    Socket(PathBuf),
}

/// The number of a pane, as `%7`: the only way a pane is named, since tmux takes a name for every name that begins with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PaneId(u32);

impl PaneId {
    /// Reads `%` and a number.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('%')?;
        let plain = (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse().ok().map(Self))?
    }
}

impl fmt::Display for PaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "%{}", self.0)
    }
}

/// Why tmux did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no server, so there are no panes.
    NoServer(String),
    /// There is no such pane.
    NoPane,
    /// Anything else, as a sentence.
    Fault(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer(said) => write!(f, "there is no tmux server: {said}"),
            Self::NoPane => f.write_str("there is no such pane in tmux"),
            Self::Fault(said) => f.write_str(said),
        }
    }
}

/// What a look at a pane found.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// The server's process and when it began: numbers of panes mean nothing in another one.
    pub(crate) server: ServerId,
    /// The pane's first process.
    pub(crate) pane_pid: u32,
    /// The second in which a person last pressed a key in the pane's session.
    activity: String,
    /// What tmux calls the program in front. Its name means nothing; that it is still the same does.
    pub(crate) command: String,
    pub(crate) pane: Pane,
    pub(crate) screen: Screen,
}

/// Which server it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ServerId {
    pub(crate) pid: u32,
    pub(crate) start: u64,
}

/// A tmux client that is called anew for each step.
#[derive(Debug)]
pub(crate) struct Tmux {
    server: Server,
    buffers: AtomicU64,
}

impl Tmux {
    pub(crate) fn new(server: Server) -> Self {
        Self {
            server,
            buffers: AtomicU64::new(0),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        // Without -u a client in a plain locale gets underscores for everything that is not ASCII.
        command.arg("-u");
        match &self.server {
            Server::Usual => {}
            Server::Named(name) => {
                command.arg("-L").arg(name);
            }
            Server::Socket(path) => {
                command.arg("-S").arg(path);
            }
        }
        command
    }

    /// The version, as `tmux -V` prints it.
    pub(crate) fn version(&self) -> Result<String, String> {
        self.run(&["-V".to_owned()], &[])
            .map(|said| said.trim().to_owned())
            .map_err(|failure| failure.to_string())
    }

    pub(crate) fn run(&self, words: &[String], input: &[u8]) -> Result<String, Failure> {
        let (good, out, err) = self.call(words, input)?;
        if good { Ok(out) } else { Err(refused(&err)) }
    }

    fn call(&self, words: &[String], input: &[u8]) -> Result<(bool, String, String), Failure> {
        let mut command = self.command();
        command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| {
            Failure::Fault(if error.kind() == ErrorKind::NotFound {
                "tmux is not installed, or not in PATH".to_owned()
            } else {
                format!("tmux could not be started: {error}")
            })
        })?;
        let (tell, told) = mpsc::channel();
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.to_vec();
            std::thread::spawn(move || stdin.write_all(&input));
        }
        for (which, stream) in [
            child
                .stdout
                .take()
                .map(|out| Box::new(out) as Box<dyn std::io::Read + Send>),
            child
                .stderr
                .take()
                .map(|err| Box::new(err) as Box<dyn std::io::Read + Send>),
        ]
        .into_iter()
        .enumerate()
        {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                if let Some(mut stream) = stream {
                    let _ = stream.read_to_end(&mut bytes);
                }
                let _ = tell.send((which, bytes));
            });
        }
        let end = Instant::now() + PATIENCE;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            match told.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok((0, bytes)) => out = bytes,
                Ok((_, bytes)) => err = bytes,
                Err(_) => return Err(slow(child)),
            }
        }
        let status = child
            .wait()
            .map_err(|error| Failure::Fault(format!("tmux could not be waited for: {error}")))?;
        let words = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((status.success(), words(out), words(err)))
    }

    /// One look at a pane: facts, attached clients and screen, in one step of the server.
    pub(crate) fn look(&self, pane: PaneId) -> Result<Look, Failure> {
        let words = [
            "display-message",
            "-p",
            "-t",
            &pane.to_string(),
            FACTS,
            ";",
            "list-clients",
            "-F",
            "#{client_activity}|#{client_control_mode}|#{pane_id}",
            ";",
            "display-message",
            "-p",
            SCREEN,
            ";",
            "capture-pane",
            "-e",
            "-N",
            "-p",
            "-t",
            &pane.to_string(),
        ]
        .map(str::to_owned);
        let (good, out, err) = self.call(&words, &[])?;
        let first = out.split('\n').next().unwrap_or_default();
        // For a pane that is gone tmux fills the format with nothing and complains only at the capture.
        if good && first.starts_with(&format!("{pane}|")) {
            read_look(pane, &out).ok_or_else(|| {
                Failure::Fault(format!("tmux answered what muster cannot read: {}", shown(first)))
            })
        } else if out.starts_with('|') {
            Err(Failure::NoPane)
        } else {
            Err(refused(&err))
        }
    }

    /// Whether a pane is there, and in which server.
    pub(crate) fn find(&self, pane: PaneId) -> Result<ServerId, Failure> {
        let words = [
            "display-message",
            "-p",
            "-t",
            &pane.to_string(),
            "#{pane_id}|#{pid}",
        ]
        .map(str::to_owned);
        let out = self.run(&words, &[])?;
        let (id, pid) = out.trim().split_once('|').unwrap_or_default();
        if id != pane.to_string() {
            return Err(Failure::NoPane);
        }
        pid.parse()
            .ok()
            .and_then(server_id)
            .ok_or_else(|| Failure::Fault("tmux does not say which process its server is".to_owned()))
    }

    /// The newest rows of a pane with what scrolled off, styled or not.
    pub(crate) fn rows(&self, pane: PaneId, lines: usize) -> Result<Screen, Failure> {
        let words = [
            "capture-pane",
            "-e",
            "-p",
            "-S",
            &format!("-{lines}"),
            "-t",
            &pane.to_string(),
        ]
        .map(str::to_owned);
        self.run(&words, &[]).map(|out| Screen::parse(out.as_bytes()))
    }

    /// Every pane: its number and the words by which a person may name it.
    pub(crate) fn panes(&self) -> Result<Vec<Named>, Failure> {
        let format = "#{pane_id}|#{window_active}|#{pane_active}|#{window_index}|#{pane_index}|#{session_name}|#{window_name}";
        let out = self.run(&["list-panes", "-a", "-F", format].map(str::to_owned), &[])?;
        Ok(out.lines().filter_map(Named::read).collect())
    }

    /// Puts a text into a buffer of ours and answers its name.
    pub(crate) fn load(&self, text: &str) -> Result<String, Failure> {
        let pid = std::process::id();
        let start = process::stat(pid).map_or(0, |stat| stat.start);
        let name = format!(
            "{BUFFER}{pid}-{start}-{}",
            self.buffers.fetch_add(1, Ordering::Relaxed)
        );
        let words = ["load-buffer", "-b", &name, "-"].map(str::to_owned);
        self.run(&words, text.as_bytes())?;
        Ok(name)
    }

    /// Removes a buffer of ours, if it is still there.
    pub(crate) fn drop_buffer(&self, name: &str) {
        let _ = self.run(&["delete-buffer", "-b", name].map(str::to_owned), &[]);
    }

    /// Removes buffers that processes of ours left behind when they died: everybody at this server could read them.
    pub(crate) fn sweep(&self) {
        let Ok(out) = self.run(&["list-buffers", "-F", "#{buffer_name}"].map(str::to_owned), &[]) else {
            return;
        };
        for name in out.lines().filter(|name| is_left_over(name)) {
            self.drop_buffer(name);
        }
    }

    /// Runs commands at a pane if it is still what was looked at. Answers whether it was; when not, nothing was done.
    pub(crate) fn act(&self, pane: PaneId, still: &Still, commands: &str) -> Result<bool, Failure> {
        let words = [
            "if-shell",
            "-F",
            "-t",
            &pane.to_string(),
            &still.format(),
            &format!("{commands} ; display-message -p yes"),
            "display-message -p no",
        ]
        .map(str::to_owned);
        match self.run(&words, &[])?.trim() {
            "yes" => Ok(true),
            "no" => Ok(false),
            said => Err(Failure::Fault(format!("tmux answered {}", shown(said)))),
        }
    }
}

/// What must still hold in the very step in which something is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Still {
    server: u32,
    pane_pid: u32,
    command: String,
    activity: String,
    /// The program must have asked for bracketed paste, as far as the server can tell.
    pub(crate) bracketed: bool,
    /// Rows of the screen, each from end to end, wherever they stand.
    rows: Vec<String>,
}

impl Still {
    /// The pane as it was seen, with the rows of its screen at these places.
    pub(crate) fn of(look: &Look, rows: &[usize]) -> Self {
        let row = |at: &usize| look.screen.rows.get(*at).map(Row::text).unwrap_or_default();
        Self {
            server: look.server.pid,
            pane_pid: look.pane_pid,
            command: look.command.clone(),
            activity: look.activity.clone(),
            bracketed: false,
            rows: rows.iter().map(row).collect(),
        }
    }

    fn format(&self) -> String {
        let mut tests: Vec<String> = [
            ("pid", self.server.to_string()),
            ("pane_pid", self.pane_pid.to_string()),
            ("pane_dead", "0".to_owned()),
            ("pane_in_mode", "0".to_owned()),
            ("pane_input_off", "0".to_owned()),
            ("pane_synchronized", "0".to_owned()),
            // A key that a person pressed since the look is on its way to the program, and what it does is not on the screen yet.
            ("session_activity", self.activity.clone()),
        ]
        .map(|(name, value)| format!("#{{==:#{{{name}}},{value}}}"))
        .into();
        // tmux asks the kernel for the program in front each time: a shell that has just come back has another name.
        tests.push(format!(
            "#{{m/r:^{}$,#{{pane_current_command}}}}",
            pattern(&self.command)
        ));
        // Without bracketed paste each line would be sent by itself. Servers before 3.6 do not say whether it is on.
        if self.bracketed {
            tests.push("#{!=:#{bracket_paste_flag},0}".to_owned());
        }
        for row in &self.rows {
            tests.push(format!("#{{!=:#{{C/r:^{}$}},0}}", pattern(row)));
        }
        tests
            .into_iter()
            .rev()
            .reduce(|rest, test| format!("#{{&&:{test},{rest}}}"))
            .unwrap_or_default()
    }
}

/// A row as a regular expression in a format: what means something in either stands for any character.
fn pattern(row: &str) -> String {
    row.chars()
        .map(|char| {
            if char.is_ascii() && !char.is_ascii_alphanumeric() && char != ' ' {
                '.'
            } else {
                char
            }
        })
        .collect()
}

const FACTS: &str = "#{pane_id}|#{pid}|#{pane_pid}|#{pane_dead}|#{pane_in_mode}|#{pane_input_off}|#{pane_synchronized}|#{cursor_x}|#{cursor_y}|%s|#{session_activity}|#{pane_tty}|#{pane_current_command}";
const SCREEN: &str = "muster: the screen follows";

fn read_look(pane: PaneId, out: &str) -> Option<Look> {
    let (head, screen) = out.split_once(&format!("{SCREEN}\n"))?;
    let mut lines = head.lines();
    let facts: Vec<&str> = lines.next()?.splitn(13, '|').collect();
    let number = |at: usize| facts.get(at)?.parse::<u64>().ok();
    let flag = |at: usize| number(at).map(|value| value != 0);
    let small = |at: usize| u32::try_from(number(at)?).ok();
    let (server, pane_pid, now) = (server_id(small(1)?)?, small(2)?, number(9)?);
    let typed = lines.filter_map(|line| {
        let mut words = line.split('|');
        let (activity, control, shows) = (words.next()?, words.next()?, words.next()?);
        // A control client is a program, whose every command counts as activity.
        let here = shows == pane.to_string() && control != "1";
        here.then(|| activity.parse::<u64>().ok())?
    });
    let dead = flag(3)?;
    Some(Look {
        server,
        pane_pid,
        activity: (*facts.get(10)?).to_owned(),
        command: (*facts.get(12)?).to_owned(),
        pane: Pane {
            dead,
            in_mode: flag(4)?,
            input_off: flag(5)?,
            synchronized: flag(6)?,
            shell: if dead {
                None
            } else {
                process::shell_in_front(pane_pid)
            },
            deaf: !dead && (process::gathers_lines(facts.get(11)?) || process::viewer_in_front(pane_pid)),
            typed: typed
                .max()
                .map(|last| Duration::from_secs(now.saturating_sub(last))),
            cursor: Some((
                usize::try_from(number(7)?).ok()?,
                usize::try_from(number(8)?).ok()?,
            )),
        },
        screen: Screen::parse(screen.as_bytes()),
    })
}

fn server_id(pid: u32) -> Option<ServerId> {
    process::stat(pid).map(|stat| ServerId {
        pid,
        start: stat.start,
    })
}

/// A pane and its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: PaneId,
    /// It is the one in front of its session.
    front: bool,
    /// It is the one in front of its window.
    active: bool,
    window: String,
    pane: String,
    session: String,
    title: String,
}

impl Named {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, '|');
        let id = PaneId::parse(words.next()?)?;
        let (window_active, active) = (words.next()? == "1", words.next()? == "1");
        let (window, pane) = (words.next()?.to_owned(), words.next()?.to_owned());
        let (session, title) = words.next()?.split_once('|')?;
        Some(Self {
            id,
            front: window_active && active,
            active,
            window,
            pane,
            session: session.to_owned(),
            title: title.to_owned(),
        })
    }

    /// Whether `SESSION`, `SESSION:WINDOW` or `SESSION:WINDOW.PANE` names it, to the letter.
    pub(crate) fn is(&self, words: &str) -> bool {
        let Some((session, rest)) = words.split_once(':') else {
            return words == self.session && self.front;
        };
        let window = |name: &str| name == self.window || name == self.title;
        session == self.session
            && (rest.is_empty() && self.front
                || window(rest) && self.active
                || rest
                    .rsplit_once('.')
                    .is_some_and(|(name, pane)| window(name) && pane == self.pane))
    }
}

/// A buffer of ours whose process is gone.
fn is_left_over(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(BUFFER) else {
        return false;
    };
    let mut words = rest.split('-');
    let pid = words.next().and_then(|word| word.parse().ok());
    let start: Option<u64> = words.next().and_then(|word| word.parse().ok());
    pid.is_some_and(|pid| process::stat(pid).map(|stat| stat.start) != start)
}

fn slow(mut child: Child) -> Failure {
    let _ = child.kill();
    let _ = child.wait();
    Failure::Fault(format!(
        "tmux did not answer within {} seconds; what it was told may still happen",
        PATIENCE.as_secs()
    ))
}

fn refused(said: &str) -> Failure {
    let said = said.trim();
    let none = [
        "no server running",
        "error connecting to",
        "server exited",
        "lost server",
    ];
    if none.iter().any(|words| said.contains(words)) && !said.contains("Permission denied") {
        Failure::NoServer(shown(said))
    } else if said.starts_with("can't find pane") {
        Failure::NoPane
    } else {
        Failure::Fault(format!("tmux refused: {}", shown(said)))
    }
}

fn shown(said: &str) -> String {
    text::terminal(&said.chars().take(200).collect::<String>())
}

/// Which server each pane was first seen in.
#[derive(Debug, Default)]
pub(crate) struct Known(std::sync::Mutex<HashMap<PaneId, ServerId>>);

impl Known {
    /// Whether a pane is in the server in which it was first seen; the first time, it is noted.
    pub(crate) fn is_same(&self, pane: PaneId, server: ServerId) -> bool {
        let mut known = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *known.entry(pane).or_insert(server) == server
    }
}
