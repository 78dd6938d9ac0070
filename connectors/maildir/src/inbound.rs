//! Posts the mails of new/ to muster and moves each to cur/ once muster has it. Never removes a mail, never lets one bad mail hold up the others.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::error::{ConnectorError, Tried as _};
use crate::mail::{self, Found, Mail, READ_LIMIT, Rules};
use crate::pace::{Backoff, Stop};
use crate::server::{Answer, InboundMessage, Trouble};
use crate::state::{MailRecord, MailStage};
use crate::{Connector, ambient};

/// A mail whose structure takes longer to read than this is set aside.
const READING_LIMIT: Duration = Duration::from_secs(20);
/// Server errors in a row after which a mail has to wait while the others go on.
const PATIENCE: u32 = 5;
/// How long it then waits.
const HOLD: Duration = Duration::from_secs(300);
/// Attempts of a single pass before it ends with an error.
const ONCE_ATTEMPTS: u32 = 3;

/// One file of new/, read.
#[derive(Debug)]
struct Raw {
    head: Vec<u8>,
    size: u64,
    sha256: [u8; 32],
    modified: SystemTime,
}

/// What became of a post.
enum Posting {
    Stored,
    Refused(String),
    /// Not now; the other mails may go on.
    Held,
    /// Not now, and no other either.
    Ended,
}

/// Why a mail could not be read.
enum Unreadable {
    /// It never will be.
    Always(&'static str),
    /// The machine is short of something.
    Now,
}

/// What a pass does after a mail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    EndPass,
}

/// Watches one Maildir.
pub(crate) struct Inbound<'c> {
    connector: &'c Connector,
    stop: Stop,
    /// Mails that wait after repeated server errors.
    held: HashMap<OsString, Instant>,
    /// Files that could not be read or moved, so that the log says it once.
    warned: HashSet<OsString>,
}

impl<'c> Inbound<'c> {
    pub(crate) fn new(connector: &'c Connector, stop: Stop) -> Self {
        Self {
            connector,
            stop,
            held: HashMap::new(),
            warned: HashSet::new(),
        }
    }

    /// Looks into new/ until it is time to stop.
    pub(crate) async fn watch(&mut self) -> Result<(), ConnectorError> {
        loop {
            self.pass().await?;
            if self.stop.is_set() || self.stop.sleep(self.connector.settings.poll).await {
                return Ok(());
            }
        }
    }

    /// Goes through new/ once, oldest first.
    pub(crate) async fn pass(&mut self) -> Result<(), ConnectorError> {
        let new = self.connector.settings.maildir.join("new");
        let names = waiting(&new)?;
        if !self.held.is_empty() || !self.warned.is_empty() {
            let present: HashSet<&OsString> = names.iter().collect();
            self.held.retain(|name, _| present.contains(name));
            self.warned.retain(|name| present.contains(name));
        }
        for name in names {
            if self.stop.is_set() {
                break;
            }
            let held = self.held.get(&name).is_some_and(|until| *until > Instant::now());
            if !held && self.handle(&new.join(&name), &name).await? == Next::EndPass {
                break;
            }
        }
        Ok(())
    }

    async fn handle(&mut self, path: &Path, name: &OsStr) -> Result<Next, ConnectorError> {
        let Some(raw) = self.read(path, name).await? else {
            return Ok(Next::GoOn);
        };
        let state = &self.connector.state;
        let external_id = mail::external_id(&raw.head, &raw.sha256);
        if let Some(record) = state.mail(&external_id)? {
            let settled = match record.stage {
                MailStage::Seen => false,
                MailStage::Posted | MailStage::OwnMail => true,
                // Whoever takes the set-aside copy away wants another try.
                MailStage::Refused => state.is_quarantined(&external_id),
            };
            if settled {
                self.move_to_cur(path, name);
                return Ok(Next::GoOn);
            }
        }
        let modified = raw.modified;
        let mail = match interpret(raw, name, &self.connector.settings.rules).await {
            Ok(mail) => mail,
            Err(Unreadable::Always(reason)) => {
                return self.set_aside(path, name, &external_id, MailRecord::empty(), reason);
            }
            Err(Unreadable::Now) => {
                tracing::warn!(mail = %external_id, "no memory to read this mail now; it stays in new/");
                self.held.insert(name.to_owned(), Instant::now() + HOLD);
                return Ok(Next::GoOn);
            }
        };
        let mut record = MailRecord {
            stage: MailStage::Seen,
            reply: mail.reply.clone(),
        };
        if mail.from_own_address {
            record.stage = MailStage::OwnMail;
            state.record_mail(&external_id, &record)?;
            tracing::info!(mail = %external_id, "not posted: it comes from the own address");
            self.move_to_cur(path, name);
            return Ok(Next::GoOn);
        }
        // Before muster can have it: a reply may be claimed as soon as it does.
        state.record_mail(&external_id, &record)?;
        let message = message(&external_id, mail, modified);
        match self.post(&message, name).await? {
            Posting::Stored => {
                record.stage = MailStage::Posted;
                state.record_mail(&external_id, &record)?;
                self.connector.note_posted();
                tracing::info!(mail = %external_id, no_reply = message.no_reply, "posted");
                self.move_to_cur(path, name);
                Ok(Next::GoOn)
            }
            Posting::Refused(sentence) => self.set_aside(path, name, &external_id, record, &sentence),
            Posting::Held => Ok(Next::GoOn),
            Posting::Ended => Ok(Next::EndPass),
        }
    }

    async fn read(&mut self, path: &Path, name: &OsStr) -> Result<Option<Raw>, ConnectorError> {
        let place = path.to_owned();
        let read = tokio::task::spawn_blocking(move || read_raw(&place)).await;
        match read.unwrap_or_else(|_| Err(ErrorKind::Other.into())) {
            Ok(raw) => Ok(raw),
            // Someone else moved it.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => {
                self.warn(name, "a file in new/ cannot be read and is passed over", &error);
                Ok(None)
            }
        }
    }

    fn warn(&mut self, name: &OsStr, what: &'static str, error: &io::Error) {
        if self.warned.insert(name.to_owned()) {
            tracing::warn!(file = ?name, kind = %error.kind(), "{what}");
        }
    }

    fn set_aside(
        &mut self,
        path: &Path,
        name: &OsStr,
        external_id: &str,
        mut record: MailRecord,
        reason: &str,
    ) -> Result<Next, ConnectorError> {
        let state = &self.connector.state;
        state.quarantine(external_id, path, reason)?;
        record.stage = MailStage::Refused;
        state.record_mail(external_id, &record)?;
        tracing::warn!(mail = %external_id, "set aside: the reason lies beside the copy in the quarantine folder");
        self.move_to_cur(path, name);
        Ok(Next::GoOn)
    }

    /// Posts until there is a definite answer, or a reason to stop trying for now.
    async fn post(&mut self, message: &InboundMessage, name: &OsStr) -> Result<Posting, ConnectorError> {
        let once = self.connector.settings.once;
        let mut backoff = Backoff::new();
        let mut attempts = 0_u32;
        let mut bad_answers = 0_u32;
        loop {
            let answer = tokio::select! {
                answer = self.connector.server.post_message(message) => answer,
                // Whether muster took it does not matter: the next start posts it again.
                () = self.stop.wait() => return Ok(Posting::Ended),
            };
            attempts = attempts.saturating_add(1);
            let pause = match answer {
                Answer::Good(()) => return Ok(Posting::Stored),
                Answer::Refused(sentence) => return Ok(Posting::Refused(sentence)),
                Answer::Stop(error) => return Err(error),
                Answer::Wait(pause) => {
                    tracing::info!(
                        seconds = pause.as_secs(),
                        "muster asks to wait; mails stay in new/"
                    );
                    if once {
                        return Ok(Posting::Ended);
                    }
                    pause
                }
                Answer::Trouble(trouble) => {
                    let pause = backoff.wait();
                    let (words, millis) = (trouble.words(), pause.as_millis());
                    tracing::warn!(mail = %message.external_id, reason = words, millis, "not posted; trying again");
                    if once && attempts >= ONCE_ATTEMPTS {
                        return Err(ConnectorError::Unreachable(words));
                    }
                    if !matches!(trouble, Trouble::Silent(_)) {
                        bad_answers = bad_answers.saturating_add(1);
                    }
                    if bad_answers >= PATIENCE {
                        self.held.insert(name.to_owned(), Instant::now() + HOLD);
                        return Ok(Posting::Held);
                    }
                    pause
                }
            };
            if self.stop.sleep(pause).await {
                return Ok(Posting::Ended);
            }
        }
    }

    /// Moves a handled mail to cur/ as seen. When this fails, the record keeps it from being posted again.
    fn move_to_cur(&mut self, path: &Path, name: &OsStr) {
        let cur = self.connector.settings.maildir.join("cur");
        match fs::rename(path, free_name(&cur, name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                self.warn(name, "a handled mail cannot be moved to cur/", &error);
            }
            _ => {}
        }
    }
}

impl MailRecord {
    fn empty() -> Self {
        Self {
            stage: MailStage::Seen,
            reply: mail::ReplyFacts::default(),
        }
    }
}

/// The name without the flags that a Maildir puts behind a colon.
fn base_name(name: &OsStr) -> &[u8] {
    name.as_bytes()
        .split(|byte| *byte == b':')
        .next()
        .unwrap_or_default()
}

/// A path in cur/ with the seen flag that no other mail has.
fn free_name(cur: &Path, name: &OsStr) -> PathBuf {
    let mut tries = 0_u32;
    loop {
        let mut wanted = base_name(name).to_owned();
        if tries > 0 {
            wanted.extend_from_slice(format!(".{tries}").as_bytes());
        }
        wanted.extend_from_slice(b":2,S");
        let path = cur.join(OsString::from_vec(wanted));
        if path.symlink_metadata().is_err() {
            return path;
        }
        tries = tries.saturating_add(1);
    }
}

/// The regular files of new/, oldest first.
fn waiting(new: &Path) -> Result<Vec<OsString>, ConnectorError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(new).tried("read", new)? {
        let entry = entry.tried("read", new)?;
        let name = entry.file_name();
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        // A file that vanishes here was moved by someone else.
        if let Ok(meta) = entry.metadata()
            && meta.is_file()
        {
            files.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), name));
        }
    }
    files.sort();
    Ok(files.into_iter().map(|(_, name)| name).collect())
}

/// Reads the beginning of the file and hashes all of it. `None` for what is not a regular file.
fn read_raw(path: &Path) -> io::Result<Option<Raw>> {
    let mut file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(None);
    }
    let mut head = Vec::new();
    let mut hash = Sha256::new();
    let mut size = 0_u64;
    let mut chunk = vec![0_u8; 64 * 1024];
    loop {
        let length = match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = chunk.get(..length).unwrap_or_default();
        hash.update(bytes);
        size = size.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        let room = READ_LIMIT.saturating_sub(head.len());
        head.extend_from_slice(bytes.get(..length.min(room)).unwrap_or_default());
    }
    let modified = meta.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(Some(Raw {
        head,
        size,
        sha256: hash.finalize().into(),
        modified,
    }))
}

/// Reads the mail on a thread of its own: whatever a hostile structure does to the reader, the connector goes on.
async fn interpret(raw: Raw, name: &OsStr, rules: &Rules) -> Result<Mail, Unreadable> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let rules = rules.clone();
    let file_name = String::from_utf8_lossy(base_name(name)).into_owned();
    let work = move || {
        let found = Found {
            head: &raw.head,
            size: raw.size,
            file_name: &file_name,
        };
        // Nobody listens any more when the time is over.
        let _ = sender.send(mail::read(found, &rules, ambient::now().as_second()));
    };
    std::thread::Builder::new()
        .name("mail-reader".to_owned())
        .spawn(work)
        .map_err(|_| Unreadable::Now)?;
    match tokio::time::timeout(READING_LIMIT, receiver).await {
        Ok(Ok(mail)) => Ok(mail),
        Ok(Err(_)) => Err(Unreadable::Always(
            "The structure of this mail makes the mail reader fail.",
        )),
        Err(_) => Err(Unreadable::Always(
            "The structure of this mail takes longer than 20 seconds to read.",
        )),
    }
}

fn message(external_id: &str, mail: Mail, modified: SystemTime) -> InboundMessage {
    let at = mail
        .sent_at
        .or_else(|| Timestamp::try_from(modified).ok())
        .and_then(|at| Timestamp::from_second(at.as_second()).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH);
    InboundMessage {
        external_id: external_id.to_owned(),
        sender: mail.sender,
        subject: mail.subject,
        body: mail.body,
        received_at: at.to_string(),
        no_reply: mail.no_reply,
        sender_verified: mail.sender_verified,
        thread: mail.thread,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mail_in_cur_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let name = OsStr::new("1.a.host:2,F");
        assert_eq!(free_name(folder.path(), name), folder.path().join("1.a.host:2,S"));
        fs::write(folder.path().join("1.a.host:2,S"), b"").unwrap();
        assert_eq!(
            free_name(folder.path(), name),
            folder.path().join("1.a.host.1:2,S")
        );
    }

    #[test]
    fn only_regular_files_wait_and_the_oldest_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for (name, age) in [("young", 1), ("old", 500), ("middle", 50), (".hidden", 900)] {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 - age))
                .unwrap();
        }
        fs::create_dir(folder.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.path().join("link")).unwrap();
        nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(waiting(folder.path()).unwrap(), ["old", "middle", "young"]);
    }

    #[test]
    fn a_long_file_is_hashed_whole_and_read_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        let bytes = vec![b'x'; READ_LIMIT + 100_000];
        fs::write(&path, &bytes).unwrap();
        let raw = read_raw(&path).unwrap().unwrap();
        assert_eq!(raw.head.len(), READ_LIMIT);
        assert_eq!(usize::try_from(raw.size).unwrap(), bytes.len());
        assert_eq!(raw.sha256[..], Sha256::digest(&bytes)[..]);
    }

    /// Mails as long as the read limit whose structure asks the most of a reader.
    fn hostile_structures() -> Vec<(&'static str, Vec<u8>)> {
        let full = |start: &str, unit: &str| {
            let mut raw = start.to_owned();
            while raw.len() + unit.len() < READ_LIMIT {
                raw.push_str(unit);
            }
            raw.into_bytes()
        };
        let nested = full("", "Content-Type:message/global\n\n");
        let mut encoded =
            b"From: a@x.test\nContent-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n".to_vec();
        encoded.extend(base64(&nested[..READ_LIMIT / 4 * 3 - 200]));
        let mut numbered = String::from("From: a@x.test\n");
        for level in 0.. {
            let unit = format!("Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n");
            if numbered.len() + unit.len() > READ_LIMIT {
                break;
            }
            numbered.push_str(&unit);
        }
        vec![
            ("messages in messages", nested),
            ("messages in messages, encoded", encoded),
            ("parts in parts", numbered.into_bytes()),
            (
                "parts with a boundary that never comes",
                full(
                    "Content-Type: multipart/mixed; boundary=a\n\n--a\n",
                    "Content-Type: multipart/mixed; boundary=z\n\n--a\n",
                ),
            ),
            (
                "digests in digests",
                full("", "Content-Type: multipart/digest; boundary=a\n\n--a\n\n"),
            ),
            (
                "many small parts",
                full("Content-Type: multipart/mixed; boundary=a\n\n--a\n", "\n\n--a\n"),
            ),
            ("many headers", full("", "a:\n")),
            (
                "html that never ends a tag",
                full("Content-Type: text/html\n\n", "<a "),
            ),
        ]
    }

    fn base64(bytes: &[u8]) -> Vec<u8> {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let digit = |three: u32, shift: u32| LETTERS[usize::try_from(three >> shift & 63).unwrap()];
        bytes
            .as_chunks::<3>()
            .0
            .iter()
            .flat_map(|three| {
                let three = u32::from_be_bytes([0, three[0], three[1], three[2]]);
                [
                    digit(three, 18),
                    digit(three, 12),
                    digit(three, 6),
                    digit(three, 0),
                ]
            })
            .collect()
    }

    #[tokio::test]
    async fn the_most_hostile_structure_is_read_or_set_aside_in_bounded_time() {
        let rules = Rules {
            own_address: "me@ours.test".to_owned(),
            authority: None,
        };
        for (what, bytes) in hostile_structures() {
            assert!(bytes.len() <= READ_LIMIT, "{what}");
            let raw = Raw {
                size: u64::try_from(bytes.len()).unwrap(),
                head: bytes,
                sha256: [0; 32],
                modified: SystemTime::UNIX_EPOCH,
            };
            let started = Instant::now();
            let read = interpret(raw, OsStr::new("1.a.host"), &rules).await;
            println!("{what}: {:?} {}", started.elapsed(), read.is_ok());
            assert!(
                started.elapsed() < READING_LIMIT + Duration::from_secs(10),
                "{what}"
            );
            assert!(!matches!(read, Err(Unreadable::Now)), "{what}");
        }
    }
}
