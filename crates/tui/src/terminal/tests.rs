//! Lines of scripts, and a terminal that is given back by a program that breaks.

use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};

use nix::sys::termios::{LocalFlags, tcgetattr};

use super::*;

#[test]
fn a_line_of_a_script_is_taken_whole_or_refused() {
    let mut script = b"one\r\n\n\xff\n".to_vec();
    script.extend(vec![b'x'; LONGEST + 5]);
    script.extend(b"\nlast");
    let mut lines = Lines::new(io::BufReader::with_capacity(7, script.as_slice()));
    assert_eq!(lines.next(), Some(Ok("one".into())));
    assert_eq!(lines.next(), Some(Ok(String::new())));
    assert!(lines.next().unwrap().unwrap_err().contains("not UTF-8"));
    assert!(
        lines
            .next()
            .unwrap()
            .unwrap_err()
            .contains("longer than any message")
    );
    assert_eq!(lines.next(), Some(Ok("last".into())));
    assert_eq!(lines.next(), None);
}

#[test]
#[ignore = "run as a process of its own by a_program_that_breaks_gives_the_terminal_back"]
fn a_program_that_breaks() {
    let _taken = Taken::take(true, true).unwrap();
    println!("TAKEN");
    panic!("it broke");
}

#[test]
fn a_program_that_breaks_gives_the_terminal_back() {
    let pty = nix::pty::openpty(None, None).unwrap();
    let before = tcgetattr(pty.slave.as_fd()).unwrap();
    assert!(before.local_flags.contains(LocalFlags::ECHO | LocalFlags::ICANON));
    let broke = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "terminal::tests::a_program_that_breaks",
            "--ignored",
            "--nocapture",
        ])
        .stdin(Stdio::from(pty.slave.try_clone().unwrap()))
        .stdout(Stdio::from(pty.slave.try_clone().unwrap()))
        .stderr(Stdio::from(pty.slave.try_clone().unwrap()))
        .status()
        .unwrap();
    assert!(!broke.success());
    let after = tcgetattr(pty.slave.as_fd()).unwrap();
    assert_eq!(before.local_flags, after.local_flags);
    assert_eq!(before.input_flags, after.input_flags);
    assert_eq!(before.output_flags, after.output_flags);
    drop(pty.slave);
    let mut said = Vec::new();
    // The end of a terminal that nobody holds any more is an error here.
    let _ = std::fs::File::from(pty.master).read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    let place = |part: &str| said.find(part).unwrap_or_else(|| panic!("{part:?}: {said:?}"));
    assert!(place("\u{1b}[?1049h") < place("TAKEN"));
    // What it says of itself stands on the screen that stays.
    assert!(place("\u{1b}[?1049l") < place("it broke"));
    assert!(place("\u{1b}[?2004l") < place("it broke"));
}
