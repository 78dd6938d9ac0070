//! Whose child each process is, and since when, as /proc tells. Never signals a process that it was not asked to end; where there is no /proc it finds none.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that was there a moment ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) pid: Pid,
    pub(crate) parent: Pid,
    /// It is over and waits for its parent to look.
    pub(crate) over: bool,
    /// When it began, in the kernel's own count: with the number, this is one process and no later one.
    pub(crate) began: u64,
}

/// All processes.
pub(crate) fn all() -> Vec<Seen> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| seen(Pid::from_raw(pid)))
        .collect()
}

/// One process.
pub(crate) fn seen(pid: Pid) -> Option<Seen> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name of a program may hold blanks and brackets; what follows the last bracket is "state parent …", and the beginning is the 20th of that.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let began = fields.nth(17)?.parse().ok()?;
    Some(Seen {
        pid,
        parent: Pid::from_raw(parent),
        over: matches!(state, "Z" | "X"),
        began,
    })
}

/// Kills every process below `root` that is there now, not `root` itself; gives how many there were.
pub(crate) fn kill_below(root: Pid) -> usize {
    let all = all();
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        at += 1;
        for one in &all {
            if one.parent == parent && !found.contains(&one.pid) {
                found.push(one.pid);
            }
        }
    }
    let living = all
        .iter()
        .filter(|one| one.pid != root && !one.over && found.contains(&one.pid));
    living
        .filter(|one| kill(one.pid, Signal::SIGKILL).is_ok())
        .count()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_number_and_ends_with_its_kind() {
        let own = seen(Pid::this()).unwrap();
        assert_eq!(own.parent, nix::unistd::getppid());
        assert!(!own.over && own.began > 0);
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 600 & sleep 600; :"])
            .spawn()
            .unwrap();
        let root = Pid::from_raw(i32::try_from(shell.id()).unwrap());
        while all().iter().filter(|one| one.parent == root).count() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(kill_below(root), 2);
        shell.wait().unwrap();
        assert_eq!(seen(root), None);
    }
}
