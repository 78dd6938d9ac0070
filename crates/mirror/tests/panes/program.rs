//! A small agent program for a pane: an input box drawn as Claude Code draws its own, bracketed paste, dialogs, suggestions, work. It writes down everything that reaches it and obeys a control socket.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use nix::sys::termios::{self, SetArg, Termios};
use serde_json::{Value, json};

use crate::support::{Tmux, lines, part, wait};

/// Names the folder of a program that is to play.
const ROLE: &str = "MUSTER_TEST_AGENT";

#[test]
fn an_agent_of_these_tests_plays_its_part() {
    if let Some(folder) = std::env::var_os(ROLE) {
        Play::new(Path::new(&folder)).run();
    }
}

/// A program in a pane, as the tests drive it.
pub(crate) struct Agent {
    pub(crate) pane: String,
    folder: PathBuf,
}

impl Agent {
    /// Starts one and waits until it shows its input.
    pub(crate) fn new(tmux: &Tmux, name: &str) -> Self {
        Self::with(tmux, name, &[])
    }

    /// The same, started through these words.
    pub(crate) fn with(tmux: &Tmux, name: &str, through: &[&str]) -> Self {
        let folder = tmux.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        let program = part("program::an_agent_of_these_tests_plays_its_part");
        let words: Vec<&str> = through
            .iter()
            .copied()
            .chain(program.iter().map(String::as_str))
            .collect();
        let pane = tmux.start(name, &[(ROLE, &folder.display().to_string())], &words);
        let agent = Self { pane, folder };
        wait("the agent's input", || {
            tmux.screen(&agent.pane).contains("manual mode")
        });
        agent
    }

    /// Starts one from an interactive shell that writes down what it runs.
    pub(crate) fn below_a_shell(tmux: &Tmux, name: &str) -> Self {
        let folder = tmux.path(name);
        std::fs::create_dir_all(&folder).unwrap();
        let words = part("program::an_agent_of_these_tests_plays_its_part").join("' '");
        let (settings, folder_name) = (folder.join("bashrc"), folder.display().to_string());
        let text = format!(
            "PS1='ready> '\nplay() {{ {ROLE}='{folder_name}' '{words}' > /dev/null; }}\n\
             trap 'printf \"%s\\n\" \"$BASH_COMMAND\" >> \"{folder_name}/shell\"' DEBUG\n"
        );
        std::fs::write(&settings, text).unwrap();
        let pane = tmux.start(
            name,
            &[],
            &["bash", "--rcfile", &settings.display().to_string(), "-i"],
        );
        let agent = Self { pane, folder };
        agent.prompts(tmux);
        tmux.run(&["send-keys", "-t", &agent.pane, "play", "Enter"]);
        wait("the agent's input", || {
            tmux.screen(&agent.pane).contains("manual mode")
        });
        agent
    }

    /// Waits until the shell below it waits for a line.
    pub(crate) fn prompts(&self, tmux: &Tmux) {
        wait("the prompt", || {
            tmux.screen(&self.pane).lines().last() == Some("ready>")
        });
    }

    /// What the shell below it ran since it started it.
    pub(crate) fn in_the_shell(&self) -> Vec<String> {
        lines(&self.folder.join("shell")).into_iter().skip(1).collect()
    }

    /// Tells it something and waits until it is drawn.
    pub(crate) fn tell(&self, words: &str) {
        let mut stream = UnixStream::connect(self.folder.join("control")).unwrap();
        writeln!(stream, "{words}").unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n", "{words}");
    }

    fn noted(&self, kind: &str) -> Vec<Value> {
        let all = lines(&self.folder.join("log"));
        all.iter()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|entry| entry[kind] != Value::Null)
            .map(|entry| entry[kind].clone())
            .collect()
    }

    /// What was submitted, in order.
    pub(crate) fn submitted(&self) -> Vec<String> {
        let all = self.noted("submit");
        all.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }

    /// What reached a dialog: text that it dropped, and whether it was answered.
    pub(crate) fn to_dialog(&self) -> Vec<Value> {
        self.noted("dialog")
    }

    /// Every byte that reached it.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.folder.join("bytes")).unwrap_or_default()
    }
}

/// What the program knows of itself.
struct Play {
    folder: PathBuf,
    tty: File,
    usual: Termios,
    log: File,
    bytes: File,
    input: VecDeque<u8>,
    /// What stands in the box: typed text, and pasted blocks by what they hold.
    draft: Vec<Part>,
    blocks: usize,
    ghost: String,
    dialog: bool,
    busy: bool,
    /// A paste is kept back from the box until told otherwise.
    slow: Option<Vec<Part>>,
    is_slow: bool,
    swallow: bool,
    odd: bool,
    leaves: bool,
    said: Vec<String>,
}

enum Part {
    Typed(char),
    Block(usize, String),
}

enum Event {
    Bytes(Vec<u8>),
    Told(String, UnixStream),
    End,
}

impl Play {
    fn new(folder: &Path) -> Self {
        let tty = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .unwrap();
        let usual = termios::tcgetattr(&tty).unwrap();
        let append = |name: &str| {
            let path = folder.join(name);
            OpenOptions::new().create(true).append(true).open(path).unwrap()
        };
        Self {
            tty,
            usual,
            log: append("log"),
            bytes: append("bytes"),
            folder: folder.to_owned(),
            input: VecDeque::new(),
            draft: Vec::new(),
            blocks: 0,
            ghost: String::new(),
            dialog: false,
            busy: false,
            slow: None,
            is_slow: false,
            swallow: false,
            odd: false,
            leaves: false,
            said: Vec::new(),
        }
    }

    fn run(mut self) {
        let events = self.events();
        self.begin();
        while let Ok(event) = events.recv() {
            match event {
                Event::Bytes(bytes) => {
                    self.bytes.write_all(&bytes).unwrap();
                    self.input.extend(bytes);
                    self.take();
                    if std::mem::take(&mut self.leaves) {
                        self.suspend();
                    } else {
                        self.draw();
                    }
                }
                Event::Told(words, mut from) => {
                    if words == "end" {
                        break;
                    }
                    self.told(&words);
                    self.draw();
                    let _ = from.write_all(b"done\n");
                }
                Event::End => break,
            }
        }
        self.rest();
        std::process::exit(0);
    }

    /// Gives the terminal back to the shell until that brings it to the front again.
    fn suspend(&mut self) {
        self.rest();
        raise(Signal::SIGTSTP).unwrap();
        self.begin();
    }

    fn begin(&mut self) {
        let mut modes = self.usual.clone();
        termios::cfmakeraw(&mut modes);
        termios::tcsetattr(&self.tty, SetArg::TCSANOW, &modes).unwrap();
        self.tty.write_all(b"\x1b[?1049h\x1b[?2004h").unwrap();
        self.draw();
    }

    fn rest(&mut self) {
        let _ = self.tty.write_all(b"\x1b[?2004l\x1b[?1049l");
        let _ = termios::tcsetattr(&self.tty, SetArg::TCSANOW, &self.usual);
    }

    fn events(&self) -> Receiver<Event> {
        let (tell, told) = mpsc::channel();
        let mut keys = self.tty.try_clone().unwrap();
        let keyboard = tell.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            loop {
                let event = match keys.read(&mut buffer) {
                    Ok(0) | Err(_) => Event::End,
                    Ok(count) => Event::Bytes(buffer[..count].to_vec()),
                };
                let over = matches!(event, Event::End);
                if keyboard.send(event).is_err() || over {
                    return;
                }
            }
        });
        let _ = std::fs::remove_file(self.folder.join("control"));
        let control = UnixListener::bind(self.folder.join("control")).unwrap();
        std::thread::spawn(move || {
            for stream in control.incoming().flatten() {
                let mut line = String::new();
                let mut reader = BufReader::new(stream);
                if reader.read_line(&mut line).is_ok() {
                    let _ = tell.send(Event::Told(line.trim_end().to_owned(), reader.into_inner()));
                }
            }
        });
        told
    }

    fn note(&mut self, entry: Value) {
        writeln!(self.log, "{entry}").unwrap();
    }

    fn told(&mut self, words: &str) {
        let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
        let on = rest == "on";
        match verb {
            "ghost" => rest.clone_into(&mut self.ghost),
            "dialog" => self.dialog = on,
            "busy" => self.busy = on,
            "swallow" => self.swallow = on,
            "odd" => self.odd = on,
            "slow" => {
                self.is_slow = on;
                if let Some(parts) = self.slow.take() {
                    self.draft.extend(parts);
                }
            }
            "plain" => self.tty.write_all(b"\x1b[?2004l").unwrap(),
            "empty" => self.draft.clear(),
            other => panic!("unknown: {other}"),
        }
    }

    /// Takes whole keys and whole pastes from the front of what came.
    fn take(&mut self) {
        const BEGIN: &[u8] = b"\x1b[200~";
        const END: &[u8] = b"\x1b[201~";
        loop {
            let bytes: Vec<u8> = self.input.iter().copied().collect();
            if bytes.is_empty() {
                return;
            }
            if bytes.starts_with(BEGIN) {
                let Some(end) = bytes.windows(END.len()).position(|window| window == END) else {
                    return;
                };
                self.input.drain(..end + END.len());
                let text = String::from_utf8_lossy(&bytes[BEGIN.len()..end]).replace('\r', "\n");
                self.pasted(text);
            } else if BEGIN.starts_with(&bytes) && bytes.len() > 1 {
                return;
            } else {
                let length = match bytes[0] {
                    0xf0.. => 4,
                    0xe0.. => 3,
                    0xc0.. => 2,
                    _ => 1,
                };
                if bytes.len() < length {
                    return;
                }
                self.input.drain(..length);
                let key = String::from_utf8_lossy(&bytes[..length]).chars().next().unwrap();
                self.key(key);
            }
        }
    }

    fn pasted(&mut self, text: String) {
        if self.dialog {
            return self.note(json!({"dialog": text}));
        }
        self.note(json!({"pasted": text}));
        let parts = if text.matches('\n').count() >= 2 || text.chars().count() > 800 {
            self.blocks += 1;
            vec![Part::Block(self.blocks, text)]
        } else {
            text.chars().map(Part::Typed).collect()
        };
        if self.is_slow {
            self.slow = Some(parts);
        } else {
            self.draft.extend(parts);
        }
    }

    fn key(&mut self, key: char) {
        match key {
            '\r' if self.dialog => {
                self.dialog = false;
                self.note(json!({"dialog": "approved"}));
            }
            other if self.dialog => self.note(json!({"dialog": other.to_string()})),
            '\r' if self.swallow => {}
            '\r' => self.submit(),
            '\x7f' => {
                self.draft.pop();
            }
            '\x15' => self.draft.clear(),
            '\x1a' => self.leaves = true,
            key if key.is_control() => {}
            key => self.draft.push(Part::Typed(key)),
        }
    }

    fn submit(&mut self) {
        let draft = std::mem::take(&mut self.draft);
        let text: String = draft
            .into_iter()
            .map(|part| match part {
                Part::Typed(char) => char.to_string(),
                Part::Block(_, text) => text,
            })
            .collect();
        if !text.is_empty() {
            self.said.push(text.lines().next().unwrap_or_default().to_owned());
            self.note(json!({"submit": text}));
        }
    }

    fn draw(&mut self) {
        let rule = "─".repeat(100);
        let mut rows: Vec<String> = self
            .said
            .iter()
            .rev()
            .take(8)
            .rev()
            .map(|said| format!("\x1b[48;5;237m❯ {said}\x1b[0m"))
            .collect();
        let mut cursor = None;
        if self.odd {
            rows.push("$ something else".to_owned());
        } else if self.dialog {
            rows.extend([
                rule,
                " Bash command".to_owned(),
                " Do you want to proceed?".to_owned(),
                " \x1b[38;5;153m❯\x1b[39m 1. Yes".to_owned(),
                "   2. No".to_owned(),
                " Esc to cancel · Tab to amend".to_owned(),
            ]);
        } else {
            self.draw_box(&mut rows, &mut cursor);
        }
        let top = 30 - rows.len().min(30) + 1;
        let mut out = String::from("\x1b[?2026h\x1b[H\x1b[2J");
        for (at, row) in rows.iter().enumerate() {
            out.push_str(&format!("\x1b[{};1H{row}\x1b[0m", top + at));
        }
        let (column, row) = cursor.map_or((1, 30), |(column, row)| (column, top + row));
        out.push_str(&format!("\x1b[{row};{column}H\x1b[?2026l"));
        self.tty.write_all(out.as_bytes()).unwrap();
    }

    fn draw_box(&self, rows: &mut Vec<String>, cursor: &mut Option<(usize, usize)>) {
        let rule = "─".repeat(100);
        let mut text = String::new();
        let mut shell = false;
        for (at, part) in self.draft.iter().enumerate() {
            match part {
                Part::Typed('!') if at == 0 => shell = true,
                Part::Typed(char) => text.push(*char),
                Part::Block(number, block) => {
                    text.push_str(&format!(
                        "[Pasted text #{number} +{} lines]",
                        block.matches('\n').count()
                    ));
                }
            }
        }
        if text == "/clear" || text == "/compact" || text == "/reload-skills" {
            rows.push(format!("  \x1b[38;5;153m❯ {text}\x1b[39m      Does what it says"));
        }
        rows.push(rule.clone());
        let chars: Vec<char> = text.chars().collect();
        let mut wrapped: Vec<String> = chars
            .split(|char| *char == '\n')
            .flat_map(|line| {
                let pieces: Vec<String> = line.chunks(96).map(|piece| piece.iter().collect()).collect();
                if pieces.is_empty() {
                    vec![String::new()]
                } else {
                    pieces
                }
            })
            .collect();
        let last = wrapped.pop().unwrap_or_default();
        let prompt = if shell { '!' } else { '❯' };
        let mut lead = format!("{prompt}\u{a0}");
        for row in wrapped {
            rows.push(format!("{lead}{row}"));
            lead = "  ".to_owned();
        }
        *cursor = Some((3 + last.chars().count(), rows.len()));
        let mut ghost = self.ghost.chars();
        match ghost.next().filter(|_| text.is_empty() && !shell) {
            Some(first) => rows.push(format!("{lead}\x1b[7m{first}\x1b[0;2m{}\x1b[0m", ghost.as_str())),
            None => rows.push(format!("{lead}{last}\x1b[7m \x1b[0m")),
        }
        rows.push(rule);
        rows.push(if self.busy {
            "  manual mode on · esc to interrupt".to_owned()
        } else {
            "  manual mode on".to_owned()
        });
    }
}

/// Waits a moment in which nothing may happen.
pub(crate) fn moment() {
    std::thread::sleep(Duration::from_millis(150));
}
