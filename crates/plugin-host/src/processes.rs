//! Whose child each process is, and since when, as /proc tells. Never signals a process that it was not asked to end; where there is no /proc it finds none.

use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::launch::NAME;

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

/// Ends every process that was started with variables as `ours` knows them and that stands below no launcher, with what is below it; gives how many there
/// were. A launcher ends what it started by itself, so these are the ones whose launcher was killed. What cannot be told for certain is left alone.
pub(crate) fn end_orphans(ours: impl Fn(&[&[u8]]) -> bool) -> usize {
    let all = all();
    let own = line(&all, Pid::this()).unwrap_or_default();
    let orphans = all.iter().filter(|one| {
        !one.over
            && !own.contains(&one.pid)
            && fs::read(format!("/proc/{}/environ", one.pid)).is_ok_and(|variables| {
                let variables: Vec<&[u8]> = variables.split(|byte| *byte == 0).collect();
                ours(&variables)
            })
            && line(&all, one.pid).is_some_and(|line| !line.iter().copied().any(is_launcher))
    });
    let mut ended = 0;
    for one in orphans {
        // Its number may be another one's by now.
        if seen(one.pid).is_some_and(|now| now.began == one.began) {
            kill_below(one.pid);
            ended += usize::from(kill(one.pid, Signal::SIGKILL).is_ok());
        }
    }
    ended
}

/// A process and all above it, to the first of all; `None` when one of them is not among those that were seen.
fn line(all: &[Seen], pid: Pid) -> Option<Vec<Pid>> {
    let mut line = vec![pid];
    let mut at = pid;
    loop {
        let parent = all.iter().find(|one| one.pid == at)?.parent;
        if parent.as_raw() <= 0 {
            return Some(line);
        }
        if line.contains(&parent) {
            return None;
        }
        line.push(parent);
        at = parent;
    }
}

fn is_launcher(pid: Pid) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).next() == Some(NAME.as_bytes())
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

    #[test]
    fn what_no_launcher_holds_any_more_is_ended_and_what_one_holds_is_not() {
        use std::os::unix::process::CommandExt as _;
        let mark = format!("MUSTER_TEST_MARK={}", std::process::id());
        let value = std::process::id().to_string();
        let ours = |variables: &[&[u8]]| variables.contains(&mark.as_bytes());
        // The shell of this name stands for a launcher; its children have the mark.
        let start = |name: &str| {
            std::process::Command::new("sh")
                .arg0(name)
                .args([
                    "-c",
                    "MUSTER_TEST_MARK=$1 sleep 600 & MUSTER_TEST_MARK=$1 sleep 600; :",
                    "sh",
                    &value,
                ])
                .spawn()
                .unwrap()
        };
        let below = |shell: &std::process::Child| {
            let root = Pid::from_raw(i32::try_from(shell.id()).unwrap());
            let marked = |one: &Seen| {
                one.parent == root
                    && fs::read(format!("/proc/{}/environ", one.pid))
                        .is_ok_and(|text| ours(&text.split(|byte| *byte == 0).collect::<Vec<_>>()))
            };
            all().into_iter().filter(marked).filter(|one| !one.over).count()
        };
        let (mut held, mut other) = (start(NAME), start("sh"));
        while below(&held) < 2 || below(&other) < 2 {
            std::thread::yield_now();
        }
        assert_eq!(end_orphans(ours), 2);
        // A killed process is there until it is scheduled; the shell ends when its children have.
        other.wait().unwrap();
        assert_eq!((below(&held), below(&other)), (2, 0));
        assert_eq!(kill_below(Pid::from_raw(i32::try_from(held.id()).unwrap())), 2);
        held.wait().unwrap();
    }
}
