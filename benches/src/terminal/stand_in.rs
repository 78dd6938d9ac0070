//! A program for a pane that draws Claude Code's idle input box and tells what is submitted in it. Never answers and never is at work.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context as _, Result};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

/// Columns of the box.
const WIDTH: usize = 100;
const BEGIN: &[u8] = b"\x1b[200~";
const END: &[u8] = b"\x1b[201~";

/// Runs until its input ends; each submitted text goes to `socket`, followed by a NUL.
pub(crate) fn run(socket: &Path) -> Result<()> {
    let mut tell = UnixStream::connect(socket).context("nobody listens for what is submitted")?;
    let (mut input, mut screen) = (std::io::stdin(), std::io::stdout());
    let mut settings = tcgetattr(&input)?;
    cfmakeraw(&mut settings);
    tcsetattr(&input, SetArg::TCSANOW, &settings)?;
    screen.write_all(b"\x1b[?2004h\x1b[?1049h")?;
    let (mut bytes, mut text, mut pasting) = (Vec::new(), Vec::new(), false);
    let mut last = Vec::new();
    draw(&mut screen, &last, &text)?;
    let mut chunk = [0; 4096];
    loop {
        let read = input.read(&mut chunk)?;
        let Some(new) = chunk.get(..read).filter(|new| !new.is_empty()) else {
            return Ok(());
        };
        bytes.extend_from_slice(new);
        while let Some((&first, rest)) = bytes.split_first() {
            if bytes.starts_with(BEGIN) || bytes.starts_with(END) {
                pasting = bytes.starts_with(BEGIN);
                bytes.drain(..BEGIN.len());
            } else if first == 0x1b
                && bytes.len() < BEGIN.len()
                && BEGIN.starts_with(bytes.get(..5).unwrap_or(&bytes))
            {
                break;
            } else if first == b'\r' && !pasting {
                tell.write_all(&text)?;
                tell.write_all(&[0])?;
                last = std::mem::take(&mut text);
                bytes.drain(..1);
            } else {
                text.push(if first == b'\r' { b'\n' } else { first });
                bytes = rest.to_vec();
            }
        }
        draw(&mut screen, &last, &text)?;
    }
}

/// What was submitted last, and the box below it as the real program shows it: a paste of more than two lines stands in it as a word.
fn draw(screen: &mut impl std::io::Write, last: &[u8], text: &[u8]) -> Result<()> {
    let (last, text) = (String::from_utf8_lossy(last), String::from_utf8_lossy(text));
    let last = last.replace('\n', "\r\n  ");
    let breaks = text.matches('\n').count();
    let shown = if breaks > 2 || text.len() > 800 {
        format!("[Pasted text #1 +{breaks} lines]")
    } else {
        text.replace('\n', "\r\n  ")
    };
    let rule = "─".repeat(WIDTH);
    write!(
        screen,
        "\x1b[H\x1b[2J> {last}\r\n\r\n{rule}\r\n❯\u{a0}\x1b7{shown}\r\n{rule}\r\n  ? for shortcuts\x1b8"
    )?;
    screen.flush()?;
    Ok(())
}
