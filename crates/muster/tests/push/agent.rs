//! A stand-in for an agent's program in a pane: it draws the input box of Claude Code, takes pastes and keys as it does, and writes down what came. It tests nothing itself.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// The variable that names the folder where it writes, and makes the test program this agent.
pub(crate) const FOLDER: &str = "MUSTER_TEST_AGENT";

struct Agent {
    folder: PathBuf,
    input: String,
    pasting: bool,
    taken: usize,
}

/// What the pane runs: the test program itself, as this one test.
#[test]
fn role() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else {
        return;
    };
    let terminal = std::io::stdin();
    let mut mode = tcgetattr(terminal.as_fd()).unwrap();
    cfmakeraw(&mut mode);
    tcsetattr(terminal.as_fd(), SetArg::TCSANOW, &mode).unwrap();
    let environment: Vec<String> = std::env::vars()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    fs::write(folder.join("environment"), environment.join("\n")).unwrap();
    let draft = fs::read_to_string(folder.join("draft")).unwrap_or_default();
    let mut agent = Agent {
        folder,
        input: draft,
        pasting: false,
        taken: 0,
    };
    print!("\u{1b}[?2004h");
    agent.draw();
    let mut piece = [0; 64 * 1024];
    let mut held = Vec::new();
    while let Ok(read @ 1..) = terminal.lock().read(&mut piece) {
        append(&agent.folder.join("bytes"), &piece[..read]);
        held.extend_from_slice(&piece[..read]);
        held = agent.take(&held);
        agent.draw();
    }
    std::process::exit(0);
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

impl Agent {
    /// Takes what came; what is not whole yet is kept for later.
    fn take(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return bytes.to_vec();
        };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("\u{1b}[200~") {
                self.pasting = true;
                rest = after;
            } else if let Some(after) = rest.strip_prefix("\u{1b}[201~") {
                self.pasting = false;
                rest = after;
            } else if first == '\u{1b}' && rest.len() < 6 {
                return rest.as_bytes().to_vec();
            } else {
                match first {
                    '\r' if !self.pasting => self.submit(),
                    '\r' => self.input.push('\n'),
                    '\u{15}' => self.input.clear(),
                    '\u{4}' => std::process::exit(0),
                    char => self.input.push(char),
                }
                rest = rest.strip_prefix(first).unwrap();
            }
        }
        Vec::new()
    }

    fn submit(&mut self) {
        let taken = std::mem::take(&mut self.input);
        if taken.is_empty() {
            return;
        }
        self.taken += 1;
        let mut line = serde_json::to_string(&taken).unwrap();
        line.push('\n');
        append(&self.folder.join("taken"), line.as_bytes());
    }

    fn draw(&self) {
        let rule = "\u{2500}".repeat(80);
        let shown = match self.input.matches('\n').count() {
            0 => self.input.chars().take(70).collect::<String>(),
            breaks => format!("[Pasted text #1 +{breaks} lines]"),
        };
        let mut out = std::io::stdout().lock();
        write!(
            out,
            "\u{1b}[2J\u{1b}[H {} messages so far\r\n\r\n{rule}\r\n\u{276f}\u{a0}{shown}\r\n{rule}\r\n  ? for shortcuts\u{1b}[4;{}H",
            self.taken,
            shown.chars().count() + 3
        )
        .unwrap();
        out.flush().unwrap();
    }
}
