//! What the kernel says of processes: parents, groups, names and their first environment. Never sends a signal.

use std::fs;

/// A line of `/proc/<pid>/stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) parent: u32,
    pub(crate) group: u32,
    /// The group in front on its terminal.
    pub(crate) front: Option<u32>,
    /// When it began, in the kernel's ticks since it booted.
    pub(crate) start: u64,
}

/// Of a process that runs; one that has ended and only waits to be collected is none.
pub(crate) fn stat(pid: u32) -> Option<Stat> {
    let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let line = String::from_utf8_lossy(&line);
    // The second field is the program's name in brackets, which may hold spaces and brackets itself.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    if matches!(fields.first(), Some(&("Z" | "X" | "x"))) {
        return None;
    }
    let field = |number: usize| fields.get(number.checked_sub(3)?).copied();
    Some(Stat {
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        front: field(8)?.parse().ok().filter(|group| *group > 0),
        start: field(22)?.parse().ok()?,
    })
}

/// Every process.
fn all() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The processes of a group.
pub(crate) fn group(group: u32) -> Vec<u32> {
    all()
        .filter(|pid| stat(*pid).is_some_and(|stat| stat.group == group))
        .collect()
}

/// Whether `pid` is `ancestor` or one of its children's children.
pub(crate) fn descends(pid: u32, ancestor: u32) -> bool {
    let mut at = pid;
    for _ in 0..64 {
        if at == ancestor {
            return true;
        }
        match stat(at) {
            Some(stat) if stat.parent > 1 => at = stat.parent,
            _ => return false,
        }
    }
    false
}

/// A variable of the environment that a process was started with.
pub(crate) fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_vec()).ok()
    })
}

/// The words a process was started with.
pub(crate) fn words(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// Whether a terminal gathers whole lines or echoes keys, or cannot be asked. Its settings belong to whichever program is in front.
pub(crate) fn gathers_lines(terminal: &str) -> bool {
    use nix::fcntl::OFlag;
    use nix::sys::termios::{LocalFlags, tcgetattr};
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = OFlag::O_NOCTTY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let opened = fs::File::options()
        .read(true)
        .custom_flags(flags.bits())
        .open(terminal);
    let settings = opened.ok().and_then(|terminal| tcgetattr(&terminal).ok());
    settings.is_none_or(|settings| {
        settings
            .local_flags
            .intersects(LocalFlags::ICANON | LocalFlags::ECHO)
    })
}

/// Editors and pagers: on a file that shows an input box they look like a program that has one, and keys are commands to them.
const VIEWERS: [&str; 15] = [
    "emacs", "ex", "joe", "kak", "less", "man", "micro", "more", "most", "nano", "nvim", "vi", "view", "vim",
    "vim.tiny",
];

/// Whether an editor or a pager leads what is in front on the terminal of a pane's first process.
pub(crate) fn viewer_in_front(pane_pid: u32) -> bool {
    let front = stat(pane_pid).and_then(|stat| stat.front);
    let comm = front.and_then(|front| fs::read_to_string(format!("/proc/{front}/comm")).ok());
    comm.is_some_and(|comm| VIEWERS.contains(&comm.trim()))
}

/// Programs that run what is typed.
const SHELLS: [&str; 22] = [
    "ash", "bash", "busybox", "csh", "dash", "elvish", "es", "fish", "ksh", "ksh93", "login", "mksh", "nu",
    "oksh", "osh", "pwsh", "rbash", "rc", "sh", "tcsh", "xonsh", "zsh",
];

/// The name of the shell that a process is, if it is one: by what it is called, what it was started as, or which file it runs.
pub(crate) fn shell(pid: u32) -> Option<String> {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let first = words(pid).into_iter().next();
    let file = fs::read_link(format!("/proc/{pid}/exe"))
        .ok()
        .map(|path| path.to_string_lossy().into_owned());
    [comm, first, file]
        .into_iter()
        .flatten()
        .find_map(|name| shell_name(&name))
}

/// The name of a shell, if a program of this name is one.
pub(crate) fn shell_name(program: &str) -> Option<String> {
    let name = program.trim().rsplit('/').next()?.trim_start_matches('-');
    SHELLS.contains(&name).then(|| name.to_owned())
}

/// The shell in front on the terminal of a pane's first process, if there is nothing but shells in front. A program that a shell script started
/// stands in one group with that shell, and is what is in front.
pub(crate) fn shell_in_front(pane_pid: u32) -> Option<String> {
    let front = stat(pane_pid)?.front?;
    let leader = stat(front).and_then(|_| shell(front));
    if stat(front).is_some() && leader.is_none() {
        return None;
    }
    let members = group(front);
    if members.is_empty() {
        return leader;
    }
    let mut last = None;
    for pid in members {
        last = Some(shell(pid)?);
    }
    leader.or(last)
}
