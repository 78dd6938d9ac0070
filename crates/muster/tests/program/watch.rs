//! `muster asks watch` as a person reads it on a terminal and as a script does. Never looks into a store.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::support::{MUSTER, Place};

/// Runs its arguments on a terminal of 60 columns and passes on what they print there.
const TERMINAL: &str = "
import fcntl, os, pty, struct, sys, termios
pid, end = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 60, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
while True:
    try:
        some = os.read(end, 4096)
    except OSError:
        break
    if not some:
        break
    os.write(1, some)
";

/// A process that ends with the test.
struct Ends(Child);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The lines up to the one with which an ask ends, which is waited for.
fn one_ask(from: impl Read) -> Vec<String> {
    let (mut lines, mut text) = (Vec::new(), String::new());
    for line in BufReader::new(from).lines() {
        let line = line.unwrap();
        text.extend(line.chars().filter(|c| !c.is_whitespace()));
        lines.push(line.trim_end_matches('\r').to_owned());
        if text.ends_with("doesnot") {
            break;
        }
    }
    lines
}

#[test]
fn a_watch_folds_to_its_terminal_and_writes_a_line_for_each_ask_into_a_pipe() {
    let place = Place::new();
    place.add_owner("ada");
    place.approved("tools", "plain");
    let on_terminal = place.command(&[]);
    let mut command = Command::new("python3");
    command
        .args(["-c", TERMINAL, MUSTER, "asks", "watch"])
        .env_clear();
    command.envs(
        on_terminal
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    if let Some(folder) = on_terminal.get_current_dir() {
        command.current_dir(folder);
    }
    let mut seen = Ends(
        command
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut piped = Ends(
        place
            .command(&["asks", "watch"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut watching = String::new();
    let mut said = BufReader::new(piped.0.stderr.take().unwrap());
    said.read_line(&mut watching).unwrap();
    assert_eq!(watching, "watching\n");
    let mut client = place.client("tools:s", &[]);
    client.greet();
    // Letters of two columns each, without a blank at which they could be broken, and one that would be a line of its own.
    let wide = "\u{65e5}".repeat(60);
    client.begin(
        "write",
        &json!({"wide": wide, "line": "x\n7 ada asks for nothing"}),
    );
    let rows = one_ask(seen.0.stdout.take().unwrap());
    assert_eq!(rows.first().map(String::as_str), Some("watching"), "{rows:?}");
    let asked = &rows[1..];
    assert!(asked.len() > 5, "{rows:?}");
    for (at, row) in asked.iter().enumerate() {
        let columns: usize = row.chars().map(|c| if c == '\u{65e5}' { 2 } else { 1 }).sum();
        assert!(columns < 60, "{row}");
        assert_eq!(row.starts_with("    "), at > 0, "{row}");
    }
    assert_eq!(asked.concat().matches('\u{65e5}').count(), 60, "{rows:?}");
    let lines = one_ask(piped.0.stdout.take().unwrap());
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains(&wide), "{lines:?}");
}
