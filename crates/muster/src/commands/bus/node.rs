//! `muster bus node`: an agent in a tmux session of its own with a pusher beside it, and the end of both. Never hands the token to the agent, and never ends a process or a session that it did not start.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use muster_bus::home::NODE_MARK;
use muster_bus::{SeatId, sessions};
use muster_core::Secret;
use muster_core::text::terminal;
use muster_web::mcp_bus::remote;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::pusher::{self, TOKEN, from_environment};
use super::{folder, seat};
use crate::cli::{BusNode, BusNodeDown, BusNodeUp, BusPush};
use crate::output::{self, Failure};

/// How long a pusher has to say that it is attached.
const ATTACHES: Duration = Duration::from_secs(20);

/// How long a pusher has to end in order.
const ENDS: Duration = Duration::from_secs(20);

/// How long an agent must have lived to count as started.
const LIVES: Duration = Duration::from_millis(400);

/// So much of a note is read; one is a few hundred bytes long.
const NOTE_BYTES: u64 = 64 * 1024;

/// The option of a tmux session that says for which agent it was started: names may meet, because tmux has no dots in them.
const MARK: &str = "@coord-agent";

pub(super) async fn run(args: BusNode, json: bool) -> Result<(), Failure> {
    match args.command {
        Some(crate::cli::BusNodeCommand::Up(up)) => up_with(&up, json).await,
        Some(crate::cli::BusNodeCommand::Down(down)) => down_with(&down, json).await,
        None => up_with(&args.up, json).await,
    }
}

/// Everything that one node is made of.
struct Node {
    seat: SeatId,
    /// The name of its tmux session.
    session: String,
    /// Where its process is noted: the number alone, for people and scripts.
    pid: PathBuf,
    /// What tells that process from a later one of the same number, and how it was reached.
    note: PathBuf,
    log: PathBuf,
    /// What says whose the two folders are.
    mark: PathBuf,
}

/// What is noted of a pusher.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Note {
    pid: u32,
    pid_start: Option<u64>,
    server: String,
    pane: String,
}

impl Node {
    fn of(id: &str, dir: Option<&Path>) -> Result<Self, Failure> {
        let seat = seat(id)?;
        let root = folder(dir)?;
        let (pids, logs) = (root.join("pids"), root.join("logs"));
        Ok(Self {
            // A dot or a colon means something to tmux; no id holds a colon.
            session: format!("coord-{}", seat.as_str().replace('.', "_")),
            pid: pids.join(format!("pusher-{seat}.pid")),
            note: pids.join(format!("pusher-{seat}.json")),
            log: logs.join(format!("pusher-{seat}.log")),
            mark: root.join(NODE_MARK),
            seat,
        })
    }

    /// What was noted of a pusher, if anything was.
    fn noted(&self) -> Result<Option<Note>, Failure> {
        let failed = |error: &dyn std::fmt::Display| failed("read", &self.note, error);
        let mut options = OpenOptions::new();
        options.read(true);
        let file = match regular(&mut options, &self.note) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        let mut text = Vec::new();
        file.take(NOTE_BYTES)
            .read_to_end(&mut text)
            .map_err(|error| failed(&error))?;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| failed(&error))
    }

    /// Whether the process that was noted is the pusher that was started for this agent. A number alone says nothing: it may be another
    /// process's by now.
    fn runs(&self, note: &Note) -> bool {
        note.pid_start.is_some() && sessions::running(note.pid, note.pid_start) && self.is_pusher(note.pid)
    }

    /// Whether the command line of a process is that of a pusher for this agent.
    fn is_pusher(&self, pid: u32) -> bool {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
        let has = |one: &str, other: &str| {
            let mut pairs = words.iter().zip(words.iter().skip(1));
            pairs.any(|(first, second)| *first == one.as_bytes() && *second == other.as_bytes())
        };
        has("bus", "pusher") && has("--agent", self.seat.as_str())
    }

    fn write_down(&self, note: &Note) -> Result<(), Failure> {
        let text = serde_json::to_string(note).map_err(|error| failed("write", &self.note, &error))?;
        replace(&self.note, &text)?;
        replace(&self.pid, &format!("{}\n", note.pid))
    }

    fn forget(&self) {
        for file in [&self.pid, &self.note] {
            // What is left names a process that does not run; the next start writes over it.
            let _ = fs::remove_file(file);
        }
    }

    /// The target that means this session and no other whose name only begins like it.
    fn exactly(&self) -> String {
        format!("={}", self.session)
    }

    fn has_session(&self) -> Result<bool, Failure> {
        Ok(tmux(&["has-session", "-t", &self.exactly()])?.is_ok())
    }

    /// Ends the session, if it is one that was started for this agent.
    fn end_session(&self) -> Result<bool, Failure> {
        let of = tmux(&["show-options", "-v", "-t", &format!("{}:", self.exactly()), MARK])?;
        if of.as_deref() != Ok(self.seat.as_str()) {
            return Ok(false);
        }
        Ok(tmux(&["kill-session", "-t", &self.exactly()])?.is_ok())
    }
}

async fn up_with(args: &BusNodeUp, json: bool) -> Result<(), Failure> {
    let server = args
        .server
        .clone()
        .or_else(|| from_environment("AGENT_COORD_SERVER"));
    let id = args.id.clone().or_else(|| from_environment("AGENT_COORD_ID"));
    let (Some(server), Some(id), Some(command)) = (server, id, args.cmd.as_deref()) else {
        return Err(Failure::usage(
            "a node needs --server URL, --id ID and --cmd CMD, and its token in AGENT_COORD_TOKEN; muster bus node --help shows an example. Nothing was started",
        ));
    };
    let token = pusher::token(args.token.as_deref()).ok_or_else(|| {
        Failure::usage(
            "AGENT_COORD_TOKEN is not set; `muster bus token add ID` on the bus's machine prints the token for it. Nothing was started",
        )
    })?;
    let words = shlex::split(command).filter(|words| !words.is_empty()).ok_or_else(|| {
        Failure::usage("--cmd must be a command line as a shell takes it, with every quote closed; nothing was started")
    })?;
    let node = Node::of(&id, args.dir.as_deref())?;
    vacant(&node)?;
    remote::check(&server, token.clone(), &node.seat, args.push.force)
        .await
        .map_err(|error| Failure::refused("bus", format!("{error}. Nothing was started")))?;
    let pane = start_agent(&node, &words)?;
    let started = start_pusher(&node, &server, &token, &pane, &args.push);
    let pid = match started {
        Ok(pid) => pid,
        Err(failure) => {
            // An agent that nobody can reach was not asked for.
            let _ = node.end_session();
            return Err(failure);
        }
    };
    if json {
        return output::document(&json!({
            "agent": node.seat, "session": node.session, "pane": pane, "pusher": pid, "log": node.log
        }));
    }
    output::line(&format!(
        "{} runs in the tmux session {} (pane {pane}), and its pusher is process {pid} (log {})\nlook: tmux attach -t ={}\nend both: muster bus node down --id {}",
        node.seat,
        node.session,
        terminal(&node.log.display().to_string()),
        node.session,
        node.seat,
    ))
}

/// Refuses when there is one already.
fn vacant(node: &Node) -> Result<(), Failure> {
    let noted = node.noted().map_err(|failure| {
        Failure::refused(
            "io",
            format!(
                "{}; `muster bus node down --id {}` takes that note away. Nothing was started",
                failure.sentence(),
                node.seat
            ),
        )
    })?;
    if let Some(note) = noted.filter(|note| node.runs(note)) {
        return Err(Failure::refused(
            "exists",
            format!(
                "{} has a pusher already, process {}; `muster bus node down --id {}` ends it. Nothing was started",
                node.seat, note.pid, node.seat
            ),
        ));
    }
    if node.has_session()? {
        return Err(Failure::refused(
            "exists",
            format!(
                "there is a tmux session {} already; `muster bus node down --id {}` ends it. Nothing was started",
                node.session, node.seat
            ),
        ));
    }
    Ok(())
}

/// Starts the agent in a session of its own and answers its pane.
fn start_agent(node: &Node, words: &[String]) -> Result<String, Failure> {
    // tmux would expand what follows a '#'.
    let here = std::env::current_dir()?.to_string_lossy().replace('#', "##");
    let mark = format!("{}:", node.exactly());
    let words: Vec<String> = words.iter().map(|word| whole(word)).collect();
    let mut arguments = vec![
        "new-session",
        "-d",
        "-s",
        &node.session,
        "-x",
        "200",
        "-y",
        "50",
        "-c",
        &here,
        "-P",
        "-F",
        "#{pane_id}",
        "--",
        // tmux gives a single word to a shell; env starts it itself, and without the token, wherever that comes from.
        "env",
        "-u",
        TOKEN,
    ];
    arguments.extend(words.iter().map(String::as_str));
    arguments.extend([";", "set-option", "-t", &mark, MARK, node.seat.as_str()]);
    // A server that was started with the token hands it to every pane; in this session, to none that is opened later either.
    arguments.extend([";", "set-environment", "-r", "-t", &mark, TOKEN]);
    let pane = tmux(&arguments)?.map_err(|said| {
        Failure::refused(
            "tmux",
            format!("tmux did not start the agent: {said}; nothing was started"),
        )
    })?;
    std::thread::sleep(LIVES);
    if !node.has_session()? {
        return Err(Failure::refused(
            "agent",
            format!(
                "'{}' ended as soon as it was started; try it in a terminal first. Nothing runs",
                terminal(words.first().map_or("", String::as_str))
            ),
        ));
    }
    Ok(pane)
}

/// A word as tmux takes it whole: it ends a command where a word ends with ';'.
fn whole(word: &str) -> String {
    word.strip_suffix(';')
        .map_or_else(|| word.to_owned(), |rest| format!("{rest}\\;"))
}

/// Starts the pusher in the background and waits until it is attached; its process.
fn start_pusher(
    node: &Node,
    server: &str,
    token: &Secret,
    pane: &str,
    push: &BusPush,
) -> Result<u32, Failure> {
    for file in [&node.pid, &node.log] {
        make_folder(file)?;
    }
    // The directory may become a bus's one day, and nobody else has been there.
    replace(&node.mark, "")?;
    let mut appended = OpenOptions::new();
    appended.create(true).append(true).read(true).mode(0o600);
    let mut log = regular(&mut appended, &node.log).map_err(|error| failed("open", &node.log, &error))?;
    let begun = log
        .seek(SeekFrom::End(0))
        .map_err(|error| failed("read", &node.log, &error))?;
    let program = std::env::current_exe().map_err(|error| Failure::refused("io", error.to_string()))?;
    let mut command = Command::new(program);
    command
        .args([
            "bus",
            "pusher",
            "--server",
            server,
            "--agent",
            node.seat.as_str(),
            "--tmux",
            pane,
        ])
        .args(options(push))
        .env(TOKEN, token.expose())
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log.try_clone()?)
        // A terminal that closes or is interrupted ends what is in front of it only.
        .process_group(0);
    let mut child = command
        .spawn()
        .map_err(|error| Failure::refused("pusher", format!("the pusher could not be started: {error}")))?;
    let note = Note {
        pid: child.id(),
        pid_start: sessions::start_of(child.id()),
        server: server.to_owned(),
        pane: pane.to_owned(),
    };
    let attached = node
        .write_down(&note)
        .and_then(|()| attaches(&mut child, &mut log, begun));
    if let Err(failure) = attached {
        if !end(node, &note) {
            // It is this process's own child, so that its number is nobody else's yet.
            let _ = child.kill();
        }
        let _ = child.wait();
        node.forget();
        return Err(failure);
    }
    Ok(note.pid)
}

/// The flags of `muster bus pusher` that were given to the node.
fn options(push: &BusPush) -> Vec<OsString> {
    let mut options: Vec<OsString> = Vec::new();
    for (flag, given) in [("--no-room", push.no_room), ("--force", push.force)] {
        if given {
            options.push(flag.into());
        }
    }
    if let Some(allowed) = &push.allowlist {
        options.extend(["--allowlist".into(), allowed.join(",").into()]);
    }
    for (flag, value) in [
        ("--debounce-ms", push.debounce_ms),
        ("--refresh-ms", push.refresh_ms),
    ] {
        if let Some(value) = value {
            options.extend([flag.into(), value.to_string().into()]);
        }
    }
    options
}

/// Waits until the log says that the pusher is attached.
fn attaches(child: &mut Child, log: &mut File, begun: u64) -> Result<(), Failure> {
    let until = Instant::now() + ATTACHES;
    loop {
        let ended = child.try_wait()?;
        let mut said = Vec::new();
        log.seek(SeekFrom::Start(begun))?;
        log.take(64 * 1024).read_to_end(&mut said)?;
        let said = String::from_utf8_lossy(&said).into_owned();
        if ended.is_none() && said.contains(pusher::ATTACHED) {
            return Ok(());
        }
        if ended.is_some() || Instant::now() >= until {
            let last = said.lines().next_back().unwrap_or("it said nothing");
            return Err(Failure::refused(
                "pusher",
                format!(
                    "the pusher did not attach: {}. Nothing runs",
                    terminal(last.trim_end_matches('.'))
                ),
            ));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

async fn down_with(args: &BusNodeDown, json: bool) -> Result<(), Failure> {
    let Some(id) = args.id.clone().or_else(|| from_environment("AGENT_COORD_ID")) else {
        return Err(Failure::usage("say which node ends: --id ID"));
    };
    let node = Node::of(&id, args.dir.as_deref())?;
    // The session is known by its own mark, so that it ends whatever became of the note.
    let noted = node.noted().unwrap_or_else(|failure| {
        output::notice(&format!(
            "muster: {}; it counts as no note, and a pusher that still runs ends when it finds its pane gone",
            failure.sentence()
        ));
        None
    });
    if let Some(note) = noted
        .as_ref()
        .filter(|note| note.pid_start.is_none() && sessions::running(note.pid, None))
    {
        output::notice(&format!(
            "muster: the note does not say when process {} began, so that it may be another one by now and is left alone",
            note.pid
        ));
    }
    let running = noted.as_ref().filter(|note| node.runs(note));
    let stopped = running.map(|note| end(&node, note));
    let session = node.end_session()?;
    node.forget();
    if noted.is_none() && !session {
        return Err(Failure::refused(
            "not_found",
            format!(
                "there is no node {} on this machine: no pusher was noted and no tmux session {} runs",
                node.seat, node.session
            ),
        ));
    }
    // A pusher that ends in order has taken the marker with it.
    let cleared = stopped == Some(true) || clear(&node, noted.as_ref()).await;
    if json {
        return output::document(&json!({
            "agent": node.seat, "pusher": stopped.is_some(), "session": session, "cleared": cleared
        }));
    }
    let said = |what: &str, ended: bool| format!("{what} {}", if ended { "ended" } else { "did not run" });
    output::line(&format!(
        "{}: {}, {}{}",
        node.seat,
        said("the pusher", stopped.is_some()),
        said("the session", session),
        if cleared {
            ""
        } else {
            "; its marker is left at the bus and counts no more in five minutes"
        },
    ))
}

/// Takes the marker of a pusher away that could not do it itself, where the token is at hand.
async fn clear(node: &Node, note: Option<&Note>) -> bool {
    let (Some(note), Some(token)) = (note, pusher::token(None)) else {
        return false;
    };
    remote::clear(&note.server, token, &node.seat, &note.pane)
        .await
        .is_ok()
}

/// Ends a pusher; whether it ended in order. A process that is not known to be the one that was noted is left alone.
fn end(node: &Node, note: &Note) -> bool {
    let Ok(number) = i32::try_from(note.pid) else {
        return false;
    };
    let pid = Pid::from_raw(number);
    for (signal, time) in [(Signal::SIGTERM, ENDS), (Signal::SIGKILL, Duration::from_secs(1))] {
        if !node.runs(note) {
            return false;
        }
        match kill(pid, signal) {
            Err(Errno::ESRCH) => return signal == Signal::SIGTERM,
            Err(_) => return false,
            Ok(()) => {}
        }
        let until = Instant::now() + time;
        while Instant::now() < until {
            if !sessions::running(note.pid, note.pid_start) {
                return signal == Signal::SIGTERM;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    false
}

/// Runs tmux; what it printed, or what it complained of. The token is kept from a server that it may start.
fn tmux(arguments: &[&str]) -> Result<Result<String, String>, Failure> {
    let done = Command::new("tmux")
        .args(arguments)
        .env_remove(TOKEN)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            Failure::refused(
                "tmux",
                format!(
                    "tmux cannot be run: {error}; a node needs it (apt install tmux). Nothing was started"
                ),
            )
        })?;
    let text = |bytes: &[u8]| terminal(String::from_utf8_lossy(bytes).trim());
    Ok(if done.status.success() {
        Ok(text(&done.stdout))
    } else {
        Err(text(&done.stderr))
    })
}

fn make_folder(file: &Path) -> Result<(), Failure> {
    let Some(folder) = file.parent() else {
        return Ok(());
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| failed("make", folder, &error))
}

/// Opens a file that is nothing but a file: a link could lead anywhere, and what is no file could keep its reader waiting forever.
fn regular(options: &mut OpenOptions, path: &Path) -> std::io::Result<File> {
    let file = options
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(std::io::Error::other("it is no regular file"))
    }
}

/// Writes a file anew, so that after a crash it is the old one or the new one, and whole.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let write = || {
        // One of this name was left by a process of this number that has ended.
        let _ = fs::remove_file(&fresh);
        let mut file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        path.parent()
            .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    };
    write().map_err(|error| failed("write", path, &error))
}

fn failed(what: &str, path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::refused(
        "io",
        format!(
            "could not {what} {}: {error}",
            terminal(&path.display().to_string())
        ),
    )
}
