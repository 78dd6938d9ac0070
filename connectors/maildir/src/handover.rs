//! Hands a composed reply to the outbox Maildir or to a sendmail-compatible program, once. Never tries a second time and never calls an outcome certain that is not.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStderr, Command};

use crate::error::{ConnectorError, Tried as _};
use crate::options::TOKEN_VARIABLE;
use crate::state::{rename_synced, sync_folder, write_synced};
use crate::text::printable;

/// Longest detail that muster takes with a result, in bytes.
pub(crate) const DETAIL_LIMIT: usize = 4096;

/// Longest name of a mail program in a detail, in bytes.
const NAME_LIMIT: usize = 512;

/// What became of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It left.
    Sent,
    /// It certainly did not leave, for this reason.
    NotSent(String),
    /// It may have left. The words are fixed, so that they can be logged.
    Unknown(&'static str),
}

/// Where a file that was meant for the outbox is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InOutbox {
    Delivered,
    /// Still in tmp/: the one rename that delivers it did not happen.
    Unfinished,
    /// Taken by whoever empties the outbox, or never there.
    Nowhere,
}

/// Makes the outbox a Maildir.
pub(crate) fn prepare_outbox(outbox: &Path) -> Result<(), ConnectorError> {
    for part in ["tmp", "new", "cur"] {
        let folder = outbox.join(part);
        fs::create_dir_all(&folder).tried("create", &folder)?;
    }
    Ok(())
}

/// Delivers the mail into the outbox. `handing` is called when everything but the one rename is done.
pub(crate) fn into_outbox(
    outbox: &Path,
    name: &str,
    mail: &[u8],
    handing: impl FnOnce() -> Result<(), ConnectorError>,
) -> Result<Outcome, ConnectorError> {
    let tmp = outbox.join("tmp").join(name);
    if write_synced(&tmp, mail).is_err() {
        // What a full disk let through is of no use.
        let _ = fs::remove_file(&tmp);
        return Ok(Outcome::NotSent(
            "Nothing was sent: the outbox folder could not be written.".to_owned(),
        ));
    }
    handing()?;
    rename_synced(&tmp, &outbox.join("new").join(name))?;
    sync_folder(&outbox.join("tmp"))?;
    Ok(Outcome::Sent)
}

/// Looks for a file that an earlier process meant to deliver. Changes nothing: what is found must be written down before [`clear_unfinished`],
/// or a kill between the two would leave nothing to find.
pub(crate) fn find_in_outbox(outbox: &Path, name: &str) -> Result<InOutbox, ConnectorError> {
    if outbox.join("new").join(name).exists() {
        return Ok(InOutbox::Delivered);
    }
    let cur = outbox.join("cur");
    for entry in fs::read_dir(&cur).tried("read", &cur)? {
        let entry = entry.tried("read", &cur)?.file_name();
        let entry = entry.to_string_lossy();
        if entry.split(':').next() == Some(name) {
            return Ok(InOutbox::Delivered);
        }
    }
    if outbox.join("tmp").join(name).exists() {
        return Ok(InOutbox::Unfinished);
    }
    Ok(InOutbox::Nowhere)
}

/// Removes what an earlier process left in tmp/ of a reply that was not delivered.
pub(crate) fn clear_unfinished(outbox: &Path, name: &str) -> Result<(), ConnectorError> {
    let tmp = outbox.join("tmp").join(name);
    match fs::remove_file(&tmp) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.tried("remove", &tmp),
    }
}

/// A sendmail-compatible program, run without a shell.
#[derive(Debug, Clone)]
pub(crate) struct Sendmail<'a> {
    pub(crate) program: &'a str,
    pub(crate) arguments: &'a [String],
    pub(crate) limit: Duration,
}

impl Sendmail<'_> {
    /// The program as a result names it.
    fn name(&self) -> String {
        printable(self.program.as_bytes(), NAME_LIMIT)
    }

    /// Gives the mail to the program on its standard input, with the recipients as arguments behind `--`.
    pub(crate) async fn send(&self, recipients: &[String], mail: &[u8]) -> Outcome {
        let spawned = Command::new(self.program)
            .args(self.arguments)
            .args(["-i", "--"])
            .args(recipients)
            .env_remove(TOKEN_VARIABLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Its own group: a Ctrl-C meant for the connector must not cut a mail in two.
            .process_group(0)
            .spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                return Outcome::NotSent(format!(
                    "Nothing was sent: the mail program {} could not be started ({}).",
                    self.name(),
                    error.kind()
                ));
            }
        };
        if let Some(mut stdin) = child.stdin.take() {
            let mail = mail.to_owned();
            // A program that does not read to the end still says with its exit code whether it took the mail.
            tokio::spawn(async move {
                let _ = stdin.write_all(&mail).await;
            });
        }
        let said = child
            .stderr
            .take()
            .map(|stderr| tokio::spawn(first_bytes(stderr)));
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        let Ok(ended) = tokio::time::timeout(self.limit, child.wait()).await else {
            if let Some(group) = group {
                // It may have ended in this moment; then there is nothing left to kill.
                let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
            }
            let _ = child.wait().await;
            return Outcome::Unknown("the mail program did not end in time and was killed");
        };
        match ended.map(|status| status.code()) {
            Ok(Some(0)) => Outcome::Sent,
            Ok(Some(code)) => Outcome::NotSent(refusal(&self.name(), code, said).await),
            Ok(None) => Outcome::Unknown("the mail program was killed"),
            Err(_) => Outcome::Unknown("the mail program's end could not be seen"),
        }
    }
}

/// What the program wrote before it refused. A grandchild may hold the pipe open, so this waits only briefly.
async fn refusal(program: &str, code: i32, said: Option<tokio::task::JoinHandle<Vec<u8>>>) -> String {
    let mut said_bytes = Vec::new();
    if let Some(task) = said {
        let abort = task.abort_handle();
        match tokio::time::timeout(Duration::from_secs(1), task).await {
            Ok(Ok(bytes)) => said_bytes = bytes,
            _ => abort.abort(),
        }
    }
    let start = format!("Nothing was sent: the mail program {program} ended with code {code}. It said: ");
    let room = DETAIL_LIMIT.saturating_sub(start.len());
    format!("{start}{}", printable(&said_bytes, room))
}

/// The first 4 KiB that come; the rest is read and dropped, so that the program never waits for a reader.
async fn first_bytes(mut stderr: ChildStderr) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut chunk = [0_u8; 4096];
    while let Ok(length @ 1..) = stderr.read(&mut chunk).await {
        let room = DETAIL_LIMIT.saturating_sub(kept.len());
        kept.extend_from_slice(chunk.get(..length.min(room)).unwrap_or_default());
    }
    kept
}

/// The name of the file in the outbox: from the draft and the chance in its Message-ID, so that two servers that count
/// alike never meet in one outbox.
pub(crate) fn outbox_name(draft_id: u64, chance: u128) -> String {
    format!("draft-{draft_id}.{chance:032x}.muster")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_in_the_outbox_until_someone_takes_it() {
        let folder = tempfile::tempdir().unwrap();
        let outbox = folder.path().join("outbox");
        prepare_outbox(&outbox).unwrap();
        let name = outbox_name(17, 1);
        assert_eq!(find_in_outbox(&outbox, &name).unwrap(), InOutbox::Nowhere);
        let halted = into_outbox(&outbox, &name, b"mail", || Err(ConnectorError::TokenRefused));
        assert!(halted.is_err());
        for _ in 0..2 {
            assert_eq!(find_in_outbox(&outbox, &name).unwrap(), InOutbox::Unfinished);
        }
        for _ in 0..2 {
            clear_unfinished(&outbox, &name).unwrap();
            assert_eq!(find_in_outbox(&outbox, &name).unwrap(), InOutbox::Nowhere);
        }
        assert_eq!(
            into_outbox(&outbox, &name, b"mail", || Ok(())).unwrap(),
            Outcome::Sent
        );
        assert_eq!(find_in_outbox(&outbox, &name).unwrap(), InOutbox::Delivered);
        assert_eq!(fs::read(outbox.join("new").join(&name)).unwrap(), b"mail");
        fs::rename(
            outbox.join("new").join(&name),
            outbox.join("cur").join(format!("{name}:2,S")),
        )
        .unwrap();
        assert_eq!(find_in_outbox(&outbox, &name).unwrap(), InOutbox::Delivered);
        fs::remove_dir_all(outbox.join("tmp")).unwrap();
        let outcome = into_outbox(&outbox, "other", b"mail", || Ok(())).unwrap();
        assert!(matches!(outcome, Outcome::NotSent(_)));
    }

    async fn run(script: &str, recipients: &[&str], limit: Duration) -> Outcome {
        let arguments = ["-c".to_owned(), script.to_owned(), "sendmail".to_owned()];
        let recipients: Vec<String> = recipients.iter().map(ToString::to_string).collect();
        let sendmail = Sendmail {
            program: "/bin/sh",
            arguments: &arguments,
            limit,
        };
        sendmail.send(&recipients, b"From: a\n\nhello\n").await
    }

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn the_exit_code_says_whether_the_mail_left() {
        assert_eq!(
            run("exec cat >/dev/null", &["a@x.test"], LONG).await,
            Outcome::Sent
        );
        assert_eq!(run("exit 0", &["a@x.test"], LONG).await, Outcome::Sent);
        let Outcome::NotSent(detail) = run("echo 'no\u{1b}[2J route' >&2; exit 75", &[], LONG).await else {
            panic!("a refusal is not sent");
        };
        assert!(
            detail.contains("the mail program /bin/sh ended with code 75"),
            "{detail}"
        );
        assert!(detail.ends_with("no\\u{1b}[2J route\n"), "{detail}");
        assert!(matches!(run("kill -9 $$", &[], LONG).await, Outcome::Unknown(_)));
        let missing = Sendmail {
            program: "/nonexistent/sendmail",
            arguments: &[],
            limit: LONG,
        };
        let Outcome::NotSent(detail) = missing.send(&[], b"x").await else {
            panic!("a program that is not there sends nothing");
        };
        assert!(
            detail.contains("/nonexistent/sendmail could not be started"),
            "{detail}"
        );
    }

    #[tokio::test]
    async fn recipients_are_arguments_and_the_mail_is_the_input() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("seen");
        let script = format!("printf '[%s]' \"$@\" >{0}; cat >>{0}", out.display());
        let outcome = run(&script, &["-oQ/tmp@x.test", "$(id)@x.test"], LONG).await;
        assert_eq!(outcome, Outcome::Sent);
        let seen = fs::read_to_string(out).unwrap();
        assert_eq!(seen, "[-i][--][-oQ/tmp@x.test][$(id)@x.test]From: a\n\nhello\n");
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed_with_its_children_and_the_fate_is_unknown() {
        let started = std::time::Instant::now();
        let outcome = run("sleep 600 & sleep 600", &[], Duration::from_millis(300)).await;
        assert!(matches!(outcome, Outcome::Unknown(_)));
        assert!(started.elapsed() < Duration::from_secs(20));
    }

    #[tokio::test]
    async fn a_flood_of_complaints_is_cut_and_never_blocks() {
        let script = "i=0; while [ $i -lt 3000 ]; do echo 'a long complaint of the program' >&2; i=$((i+1)); done; exit 1";
        let Outcome::NotSent(detail) = run(script, &[], LONG).await else {
            panic!("a refusal is not sent");
        };
        assert!(detail.len() <= DETAIL_LIMIT && detail.len() > DETAIL_LIMIT / 2);
        let holder = "sleep 30 & exit 1";
        let started = std::time::Instant::now();
        assert!(matches!(run(holder, &[], LONG).await, Outcome::NotSent(_)));
        assert!(started.elapsed() < Duration::from_secs(20));
    }
}
