//! The launcher: the small process between muster and one server. It sees to it that a server begins with nothing but its three streams, and ends, with
//! everything that it started, when its session does, however that ends. Never reads or writes a byte of what the two say to each other.
//!
//! muster starts itself again with the word [`WORD`] and the server's command. The launcher then
//!
//! 1. closes every descriptor above 2 that it inherited,
//! 2. becomes the reaper of its descendants (Linux), so that none can leave by losing its parent,
//! 3. starts the server in a process group of its own, with the launcher's standard input and output and no standard error,
//! 4. waits for two things: the server's end, and the closing of the pipe that is its standard input, whoever held the other end. The kernel
//!    closes that pipe also when muster is killed. The server then has [`GRACE`] to end by itself, gets SIGTERM, has it again, and gets SIGKILL
//!    with whatever is left of its descendants. When muster is dead, the first wait is left out.
//!
//! It tells muster on its standard error, in one line, whether the server was started; its exit code is the server's, or 128 and the signal.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};

/// The first argument of muster for this.
pub const WORD: &str = "plugin-launch";
/// How long a server has to end when its input is closed, and again after SIGTERM.
pub const GRACE: Duration = Duration::from_secs(2);
/// What the line on standard error begins with when the server runs; its process number follows.
pub(crate) const STARTED: &str = "started ";
/// What the line on standard error begins with when it does not; the reason follows.
pub(crate) const FAILED: &str = "failed ";
/// The exit code when nothing was started.
const NOT_STARTED: u8 = 127;

/// Runs the launcher. `command` is the server's program and its arguments, as they stand behind [`WORD`].
#[must_use]
pub fn run(command: impl Iterator<Item = OsString>) -> ExitCode {
    let command: Vec<OsString> = command.collect();
    match supervise(&command) {
        Ok(code) => ExitCode::from(code),
        Err(sentence) => {
            say(&format!("{FAILED}{sentence}"));
            ExitCode::from(NOT_STARTED)
        }
    }
}

fn supervise(command: &[OsString]) -> Result<u8, String> {
    let broken = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    close_inherited().map_err(|error| broken("inherited files could not be closed", &error))?;
    let parent = getppid();
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(|error| broken("the process could not become a reaper", &error))?;
    // A child inherits which signals are blocked, so for its start none is.
    set_signals(SigmaskHow::SIG_SETMASK, &[])
        .map_err(|error| broken("signals could not be freed", &error))?;

    let Some((program, arguments)) = command.split_first() else {
        return Err("the launcher was given no program".to_owned());
    };
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| not_started(&program.to_string_lossy(), &error))?;
    let server = i32::try_from(child.id())
        .map(Pid::from_raw)
        .map_err(|error| broken("the server has no usable process number", &error))?;
    // Whoever ended this process early would leave the server behind; its own end comes from the pipe.
    let block = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGPIPE];
    if let Err(error) = set_signals(SigmaskHow::SIG_BLOCK, &block) {
        end_everything(server);
        return Err(broken("signals could not be blocked", &error));
    }
    // The server alone holds the other end of what muster reads now, so its end is seen there.
    let nothing = OpenOptions::new().write(true).open("/dev/null");
    let let_go = nothing.and_then(|file: File| Ok(nix::unistd::dup2_stdout(file)?));
    if let Err(error) = let_go {
        end_everything(server);
        return Err(broken("standard output could not be let go", &error));
    }
    say(&format!("{STARTED}{server}"));
    std::thread::spawn(move || {
        wait_for_hangup();
        // A process that dies closes its files a moment before its children see its death.
        let step = Duration::from_millis(20);
        let mut left = GRACE;
        while getppid() == parent && !left.is_zero() {
            std::thread::sleep(step);
            left = left.saturating_sub(step);
        }
        let _ = killpg(server, Signal::SIGTERM);
        std::thread::sleep(GRACE);
        let _ = killpg(server, Signal::SIGKILL);
    });
    let code = wait_for(server);
    end_everything(server);
    Ok(code)
}

fn set_signals(how: SigmaskHow, signals: &[Signal]) -> nix::Result<()> {
    let mut set = SigSet::empty();
    for signal in signals {
        set.add(*signal);
    }
    sigprocmask(how, Some(&set), None)
}

/// Reaps until the server itself is over.
fn wait_for(server: Pid) -> u8 {
    loop {
        match waitpid(None, None) {
            Ok(WaitStatus::Exited(pid, code)) if pid == server => {
                return u8::try_from(code & 0xff).unwrap_or(u8::MAX);
            }
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == server => {
                return u8::try_from(128 + signal as i32).unwrap_or(u8::MAX);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return u8::MAX,
        }
    }
}

/// Kills what the server left: its group, then every process whose last living ancestor is this one.
fn end_everything(server: Pid) {
    let _ = killpg(server, Signal::SIGKILL);
    // A process that forks while it is being killed needs more than one round.
    for _ in 0..200 {
        for child in children() {
            let _ = kill(child, Signal::SIGKILL);
        }
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return,
            Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(5)),
            _ => {}
        }
    }
}

/// Processes whose parent is this one.
fn children() -> Vec<Pid> {
    let own = std::process::id();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<i32>().ok())
        else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name of a program may hold blanks and brackets; what follows the last bracket is "state parent …".
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1))
            .and_then(|parent| parent.parse::<u32>().ok());
        if parent == Some(own) {
            found.push(Pid::from_raw(pid));
        }
    }
    found
}

/// Returns when nobody holds the other end of standard input any more.
fn wait_for_hangup() {
    let stdin = io::stdin();
    loop {
        let mut polled = [PollFd::new(stdin.as_fd(), PollFlags::empty())];
        match poll(&mut polled, PollTimeout::NONE) {
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => return,
            Ok(_) => {
                let found = polled
                    .first()
                    .and_then(PollFd::revents)
                    .unwrap_or(PollFlags::POLLERR);
                if found.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
                    return;
                }
            }
        }
    }
}

/// Closes every descriptor above the three streams: a shell or a service manager may have left some open for all its children.
fn close_inherited() -> io::Result<()> {
    let mut open = Vec::new();
    for entry in fs::read_dir("/dev/fd")? {
        let name = entry?.file_name();
        open.extend(
            name.to_str()
                .and_then(|name| name.parse::<i32>().ok())
                .filter(|fd| *fd > 2),
        );
    }
    for fd in open {
        // One of them was the listing's own and is closed already.
        let _ = nix::unistd::close(fd);
    }
    Ok(())
}

fn not_started(program: &str, error: &io::Error) -> String {
    let program = crate::diagnostic::shown(program);
    match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the program {program} was not found (or the interpreter that its first line names, or the folder to run in); install it, or see that it is on PATH"
        ),
        io::ErrorKind::PermissionDenied => {
            format!("the program {program} may not be executed; see to its permissions in the package")
        }
        _ => format!("the program {program} could not be started: {error}"),
    }
}

fn say(line: &str) {
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}
