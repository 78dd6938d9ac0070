//! What the suites share: a bus in a folder of its own, the seat as another process, a terminal to watch it on. Never starts a shell but tmux's.

use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::emulator::Emulator;
use muster_bus::limits::Limits;
use muster_bus::registry::Agents;
use muster_bus::{Home, RoomName, SeatId, post, registry};
use muster_core::Clock;
use muster_tui::{ChatError, Options, run};
use nix::poll::{PollFd, PollFlags, PollTimeout};

const ARGS: &str = "MUSTER_CHAT_TEST";
/// What the program says last before the seat speaks.
const BEGINS: &str = "THE SEAT BEGINS";

/// The program `chat`: arguments as `muster chat` takes them, from the environment.
#[test]
#[ignore = "run as a process of its own by every other test"]
fn seat() {
    let args = std::env::var(ARGS).unwrap();
    let mut options = Options {
        dir: PathBuf::new(),
        limits: Limits::default(),
        id: None,
        plain: false,
        doctor: None,
    };
    let mut args = args.split('\n');
    while let Some(arg) = args.next() {
        match arg {
            "--dir" => options.dir = args.next().unwrap().into(),
            "--id" => options.id = args.next().map(str::to_owned),
            "--plain" => options.plain = true,
            "--doctor" => options.doctor = Some(false),
            "--fix" => options.doctor = Some(true),
            other => panic!("{other}"),
        }
    }
    println!("{BEGINS}");
    let code = match run(options) {
        Ok(()) => 0,
        Err(ChatError::Unhealthy) => 1,
        Err(error) => {
            eprintln!("chat: {error}");
            3
        }
    };
    std::io::stdout().flush().unwrap();
    std::process::exit(code);
}

/// A bus in a folder that ends with the test.
pub(crate) struct Bus {
    pub(crate) home: Home,
    dir: tempfile::TempDir,
}

impl Bus {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(dir.path(), Limits::default(), Clock::system()).unwrap();
        Self { home, dir }
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The texts that stand in a log. A line that is still being written does not stand there yet.
    pub(crate) fn texts(&self, log: &str) -> Vec<String> {
        std::fs::read_to_string(self.path(log))
            .unwrap_or_default()
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
            .map(|line| {
                let entry: serde_json::Value = serde_json::from_str(line).unwrap();
                entry["text"].as_str().unwrap_or_default().to_owned()
            })
            .collect()
    }

    pub(crate) fn registered(&self, id: &str) -> bool {
        Agents::load(&self.home).unwrap().has(id)
    }

    pub(crate) fn register(&self, id: &str) -> SeatId {
        registry::register(&self.home, &name(id), None, None).unwrap();
        name(id)
    }

    /// Posts as somebody.
    pub(crate) fn post(&self, from: &str, room: &str, text: &str) {
        post::post(
            &self.home,
            &name(from),
            &RoomName::parse(room).unwrap(),
            text,
            None,
        )
        .unwrap();
    }

    pub(crate) fn dm(&self, from: &str, to: &str, text: &str) {
        post::send(&self.home, &name(from), &name(to), text).unwrap();
    }

    /// The seat with these arguments, its folder aside.
    pub(crate) fn chat(&self, args: &[&str]) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let dir = self.dir().to_str().unwrap();
        let args: Vec<&str> = ["--dir", dir].into_iter().chain(args.iter().copied()).collect();
        command
            .args(["--exact", "support::seat", "--ignored", "--nocapture"])
            .env(ARGS, args.join("\n"))
            .env("TZ", "UTC")
            .env("TERM", "xterm-256color");
        for unset in [
            "AGENT_COORD_BOUND_AGENT",
            "TMUX_PANE",
            "HERDR_PANE_ID",
            "NO_COLOR",
        ] {
            command.env_remove(unset);
        }
        command
    }

    /// Gives a script to the seat of `id` and waits for its end.
    pub(crate) fn script(&self, id: &str, lines: &[&str]) -> Said {
        run_script(&mut self.chat(&["--id", id]), &lines.join("\n"))
    }
}

pub(crate) fn name(id: &str) -> SeatId {
    SeatId::parse(id).unwrap()
}

/// What a script came to.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) out: Vec<String>,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl Said {
    pub(crate) fn has(&self, part: &str) -> bool {
        self.out.iter().any(|line| line.contains(part))
    }
}

pub(crate) fn run_script(command: &mut Command, script: &str) -> Said {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // One that refuses at once reads no script.
    let _ = stdin.write_all(script.as_bytes());
    drop(stdin);
    let done = child.wait_with_output().unwrap();
    Said {
        out: said(&String::from_utf8(done.stdout).unwrap()),
        err: String::from_utf8(done.stderr).unwrap(),
        code: done.status.code(),
    }
}

/// The lines of the seat alone.
pub(crate) fn said(out: &str) -> Vec<String> {
    let (_, said) = out.split_once(BEGINS).unwrap();
    said.lines().skip(1).map(str::to_owned).collect()
}

/// A seat that reads a pipe which stays open.
pub(crate) struct Piped {
    child: Child,
    out: std::sync::mpsc::Receiver<String>,
    /// What was said so far.
    pub(crate) said: Vec<String>,
}

impl Piped {
    pub(crate) fn start(mut command: Command) -> Self {
        use std::io::BufRead as _;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = std::io::BufReader::new(child.stdout.take().unwrap());
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let mut piped = Self {
            child,
            out: receive,
            said: Vec::new(),
        };
        piped.wait_for(BEGINS);
        piped.wait_for(")>");
        piped
    }

    pub(crate) fn type_line(&mut self, line: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    }

    /// Waits for a line that holds `part`, and answers it.
    pub(crate) fn wait_for(&mut self, part: &str) -> String {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(20) {
            if let Ok(line) = self.out.recv_timeout(Duration::from_millis(100)) {
                self.said.push(line.clone());
                if line.contains(part) {
                    return line;
                }
            }
        }
        panic!("{part:?} was not said: {:#?}", self.said);
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Closes its input and waits for the end.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        self.child.wait().unwrap()
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        // It has ended in a test that went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The seat in a tmux window of its own, on a server of its own.
pub(crate) struct Pane {
    socket: String,
    done: PathBuf,
}

static PANES: AtomicU32 = AtomicU32::new(0);

impl Pane {
    /// `None` where there is no tmux; in CI there has to be one.
    pub(crate) fn open(bus: &Bus, args: &[&str], columns: u16, rows: u16) -> Option<Self> {
        let (pane, line) = Self::prepare(bus, args)?;
        // The shell stays, so that what the seat leaves behind can be looked at.
        let line = format!("{line}; echo $? > '{}'; cat", pane.done.display());
        let size = (columns.to_string(), rows.to_string());
        pane.tmux(&[
            "new-session",
            "-d",
            "-x",
            &size.0,
            "-y",
            &size.1,
            "sh",
            "-c",
            &line,
        ]);
        Some(pane)
    }

    /// In a shell with jobs, as a person has one.
    pub(crate) fn open_as_job(bus: &Bus, args: &[&str]) -> Option<Self> {
        let (pane, line) = Self::prepare(bus, args)?;
        let script = bus.dir().join("seat");
        std::fs::write(&script, line).unwrap();
        let shell = ["env", "PS1=ready ", "bash", "--norc", "--noprofile", "-i"];
        pane.tmux(&[&["new-session", "-d", "-x", "100", "-y", "24"][..], &shell].concat());
        pane.shows("ready");
        pane.line(&format!(". {}", script.display()));
        Some(pane)
    }

    fn prepare(bus: &Bus, args: &[&str]) -> Option<(Self, String)> {
        if Command::new("tmux").arg("-V").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "tmux is needed");
            eprintln!("SKIPPED: there is no tmux");
            return None;
        }
        let number = PANES.fetch_add(1, Ordering::SeqCst);
        let socket = format!("muster-test-chat-{}-{number}", std::process::id());
        let done = bus.dir().join(format!("done-{number}"));
        let chat = bus.chat(args);
        let mut words: Vec<String> = vec!["env".into()];
        let text = |word: &std::ffi::OsStr| word.to_str().unwrap().to_owned();
        for (name, _) in chat.get_envs().filter(|(_, value)| value.is_none()) {
            words.extend(["-u".to_owned(), text(name)]);
        }
        let set = chat
            .get_envs()
            .filter_map(|(name, value)| Some(format!("{}={}", text(name), text(value?))));
        words.extend(set);
        words.push(chat.get_program().to_str().unwrap().to_owned());
        words.extend(chat.get_args().map(|arg| arg.to_str().unwrap().to_owned()));
        let quoted: Vec<String> = words
            .iter()
            .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
            .collect();
        Some((Self { socket, done }, quoted.join(" ")))
    }

    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let done = Command::new("tmux")
            .args(["-L", &self.socket, "-f", "/dev/null"])
            .args(args)
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
        String::from_utf8(done.stdout).unwrap()
    }

    /// Types a text.
    pub(crate) fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "--", text]);
    }

    /// Presses keys, by tmux's names.
    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn line(&self, text: &str) {
        self.type_text(text);
        self.press(&["Enter"]);
    }

    pub(crate) fn screen(&self) -> Vec<String> {
        self.tmux(&["capture-pane", "-p"])
            .lines()
            .map(str::to_owned)
            .collect()
    }

    /// Waits until the screen is as `looks` says, and answers it.
    pub(crate) fn until(&self, what: &str, looks: impl Fn(&[String]) -> bool) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if looks(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {screen:#?}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Waits until a row holds `part`.
    pub(crate) fn shows(&self, part: &str) -> Vec<String> {
        self.until(part, |screen| screen.iter().any(|row| row.contains(part)))
    }

    /// Waits until the last row that is not empty is this one.
    pub(crate) fn typed_row(&self, row: &str) -> Vec<String> {
        self.until(row, |screen| {
            screen
                .iter()
                .rev()
                .find(|row| !row.is_empty())
                .is_some_and(|last| last == row)
        })
    }

    /// Waits for the end of the seat and answers its exit code.
    pub(crate) fn code(&self) -> i32 {
        let begun = Instant::now();
        loop {
            let code = std::fs::read_to_string(&self.done).unwrap_or_default();
            if code.ends_with('\n') {
                return code.trim().parse().unwrap();
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{:#?}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The process of the seat: the child of the pane's shell.
    pub(crate) fn pid(&self) -> i32 {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = format!("/proc/{shell}/task/{shell}/children");
        let begun = Instant::now();
        loop {
            let pids = std::fs::read_to_string(&children).unwrap();
            if let Some(pid) = pids.split_whitespace().next() {
                return pid.parse().unwrap();
            }
            assert!(begun.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Pane {
    fn drop(&mut self) {
        let _ = Command::new("tmux")
            .args(["-L", &self.socket, "-f", "/dev/null", "kill-server"])
            .output();
    }
}

/// Waits for something that another process does.
pub(crate) fn eventually(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The seat on a terminal of which every byte is kept.
pub(crate) struct Raw {
    child: Child,
    master: std::fs::File,
    bytes: Arc<Mutex<Vec<u8>>>,
    emulator: Emulator,
    stop: Arc<AtomicBool>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Raw {
    pub(crate) fn open(mut command: Command, columns: u16, rows: u16) -> Self {
        let size = nix::pty::Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = nix::pty::openpty(Some(&size), None).unwrap();
        // The seat must not hold the end that is taken from it.
        for end in [&pty.master, &pty.slave] {
            let alone = nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC);
            nix::fcntl::fcntl(end, alone).unwrap();
        }
        let child = command
            .stdin(Stdio::from(pty.slave.try_clone().unwrap()))
            .stdout(Stdio::from(pty.slave))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The command holds the terminal's other end, which must be the child's alone for it to hang up.
        drop(command);
        let master = std::fs::File::from(pty.master);
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (mut out, kept, ends) = (master.try_clone().unwrap(), bytes.clone(), stop.clone());
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 64 * 1024];
            while !ends.load(Ordering::SeqCst) {
                let mut fds = [PollFd::new(out.as_fd(), PollFlags::POLLIN)];
                if nix::poll::poll(&mut fds, PollTimeout::from(50_u8)).unwrap() == 0 {
                    continue;
                }
                match out.read(&mut buffer) {
                    Ok(0) | Err(_) => return,
                    Ok(length) => kept.lock().unwrap().extend_from_slice(&buffer[..length]),
                }
            }
        });
        Self {
            child,
            master,
            bytes,
            emulator: Emulator::new(columns, rows),
            stop,
            reader: Some(reader),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }

    pub(crate) fn press(&mut self, bytes: &[u8]) {
        self.master.write_all(bytes).unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What stands on the screen now.
    pub(crate) fn screen(&mut self) -> Vec<String> {
        let bytes = self.bytes.lock().unwrap();
        self.emulator.take(&bytes);
        self.emulator.rows()
    }

    /// Waits until a row holds `part`.
    pub(crate) fn shows(&mut self, part: &str) {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if screen.iter().any(|row| row.contains(part)) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{part:?}: {screen:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Raw {
    /// Takes the terminal away from the seat, as a connection that breaks does.
    pub(crate) fn hang_up(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.reader.take().unwrap().join().unwrap();
        self.master = std::fs::File::open("/dev/null").unwrap();
    }
}
