//! The launcher: the small process between muster and one server. It sees to it that a server begins with nothing but its three streams, and ends, with
//! everything that it started, when its session does, however that ends. Never reads or writes a byte of what the two say to each other.
//!
//! muster starts itself again with the word [`WORD`] and the server's command. The launcher then
//!
//! 1. leaves its session for one of its own, which has no terminal: a server could type into the owner's otherwise; and closes every descriptor above 2
//!    that it inherited,
//! 2. reads from its standard input who its parent is and what the server's variables are; it has none itself, because a variable of a
//!    package's can make any program run the package's code,
//! 3. becomes the reaper of its descendants (Linux), so that none can leave by losing its parent, and closes itself to their looks,
//! 4. starts the server in a process group of its own, with the launcher's standard input and output and no standard error,
//! 5. waits for two things: the server's end, and the session's. The session is over when the pipe that is standard input is closed by
//!    whoever held the other end, which the kernel does also when muster is killed; when nobody reads standard error any more, should the
//!    server hold the other end of its own input; and when the parent is another one, should it hold both. The server then has [`GRACE`] to
//!    end by itself, gets SIGTERM, has it again, and gets SIGKILL with whatever is left of its descendants. When muster is dead, the first
//!    wait is left out.
//!
//! It tells muster on its standard error, in one line, whether the server was started; its exit code is the server's, or 128 and the signal.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgid, getppid, setsid};

use crate::processes;

/// The first argument of muster for this.
pub const WORD: &str = "plugin-launch";
/// What a launcher is called among processes.
pub(crate) const NAME: &str = "muster-plugin-launch";
/// How long a server has to end when its input is closed, and again after SIGTERM.
pub const GRACE: Duration = Duration::from_secs(2);
/// What the line on standard error begins with when the server runs; its process number follows.
pub(crate) const STARTED: &str = "started ";
/// What the line on standard error begins with when it does not; the reason follows.
pub(crate) const FAILED: &str = "failed ";
/// How often it is looked whether the parent is still the same one.
const LOOK: Duration = Duration::from_secs(1);
/// The exit code when nothing was started.
const NOT_STARTED: u8 = 127;

/// What the launcher is told before the server reads its first byte.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Handed {
    /// Who started the launcher.
    pub(crate) parent: u32,
    /// All the variables of the server.
    pub(crate) env: BTreeMap<OsString, OsString>,
}

impl Handed {
    /// The parent, the number of variables, and each name and value behind its length.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let number = |length: usize| {
            u32::try_from(length)
                .map(u32::to_be_bytes)
                .map_err(io::Error::other)
        };
        let mut bytes = self.parent.to_be_bytes().to_vec();
        bytes.extend(number(self.env.len())?);
        for text in self.env.iter().flat_map(|(name, value)| [name, value]) {
            bytes.extend(number(text.len())?);
            bytes.extend(text.as_bytes());
        }
        Ok(bytes)
    }

    /// Takes no byte more than was encoded: what follows is the server's.
    fn read(mut from: impl Read) -> io::Result<Self> {
        fn number(from: &mut impl Read) -> io::Result<u32> {
            let mut bytes = [0; 4];
            from.read_exact(&mut bytes)?;
            Ok(u32::from_be_bytes(bytes))
        }
        fn text(from: &mut impl Read) -> io::Result<OsString> {
            let length = u64::from(number(from)?);
            let mut bytes = Vec::new();
            if from.take(length).read_to_end(&mut bytes)? as u64 == length {
                Ok(OsString::from_vec(bytes))
            } else {
                Err(io::ErrorKind::UnexpectedEof.into())
            }
        }
        let parent = number(&mut from)?;
        let mut env = BTreeMap::new();
        for _ in 0..number(&mut from)? {
            let name = text(&mut from)?;
            env.insert(name, text(&mut from)?);
        }
        Ok(Self { parent, env })
    }
}

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
    setsid().map_err(|error| broken("the process could not leave the owner's terminal", &error))?;
    close_inherited().map_err(|error| broken("inherited files could not be closed", &error))?;
    // Not through the buffered one, which would take what is the server's.
    let handed = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let handed = handed
        .and_then(Handed::read)
        .map_err(|error| broken("the server's variables did not come", &error))?;
    let parent = getppid();
    if u32::try_from(parent.as_raw()) != Ok(handed.parent) {
        return Err("muster is gone".to_owned());
    }
    #[cfg(target_os = "linux")]
    {
        nix::sys::prctl::set_child_subreaper(true)
            .map_err(|error| broken("the process could not become a reaper", &error))?;
        // The files of this process are nobody's to open, the pipes by which it hears of the end among them. The server's own are as usual.
        nix::sys::prctl::set_dumpable(false)
            .map_err(|error| broken("the process could not be closed to others", &error))?;
    }
    // A child inherits which signals are blocked, so for its start none is.
    set_signals(SigmaskHow::SIG_SETMASK, &[])
        .map_err(|error| broken("signals could not be freed", &error))?;

    let Some((program, arguments)) = command.split_first() else {
        return Err("the launcher was given no program".to_owned());
    };
    let child = Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&handed.env)
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
        wait_for_the_end(parent);
        // A process that dies closes its files a moment before its children see its death.
        let step = Duration::from_millis(20);
        let mut left = GRACE;
        while getppid() == parent && !left.is_zero() {
            std::thread::sleep(step);
            left = left.saturating_sub(step);
        }
        let _ = killpg(server, Signal::SIGTERM);
        if getpgid(Some(server)) != Ok(server) {
            // It went into another group.
            let _ = kill(server, Signal::SIGTERM);
        }
        std::thread::sleep(GRACE);
        let _ = killpg(server, Signal::SIGKILL);
        let _ = kill(server, Signal::SIGKILL);
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
        let all = processes::all();
        for child in all.iter().filter(|one| one.parent == Pid::this()) {
            let _ = kill(child.pid, Signal::SIGKILL);
        }
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Err(Errno::ECHILD) => return,
            Ok(WaitStatus::StillAlive) => std::thread::sleep(Duration::from_millis(5)),
            _ => {}
        }
    }
}

/// Returns when nobody holds the other end of standard input any more, or of standard error, or when the parent is gone.
fn wait_for_the_end(parent: Pid) {
    let (stdin, stderr) = (io::stdin(), io::stderr());
    let look = PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::MAX);
    while getppid() == parent {
        let mut polled = [
            PollFd::new(stdin.as_fd(), PollFlags::empty()),
            PollFd::new(stderr.as_fd(), PollFlags::empty()),
        ];
        match poll(&mut polled, look) {
            Ok(0) | Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => return,
            Ok(_) => {
                let over = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
                let found = |one: &PollFd| one.revents().unwrap_or(PollFlags::POLLERR);
                if polled.iter().any(|one| found(one).intersects(over)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_is_read_to_its_last_byte_and_no_further() {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let handed = Handed {
            parent: 4_711,
            env: [(text(b"EMPTY"), text(b"")), (text(b"LINES"), text(b"a\nb=c\xff"))].into(),
        };
        let encoded = handed.encode().unwrap();
        let all = [encoded.as_slice(), b"of the server"].concat();
        let mut from = all.as_slice();
        assert_eq!(Handed::read(&mut from).unwrap(), handed);
        assert_eq!(from, b"of the server");
        for cut in 0..encoded.len() {
            assert!(Handed::read(encoded.get(..cut).unwrap()).is_err(), "{cut}");
        }
    }
}
