//! The state folder: what must survive a crash. Never keeps anything in memory that a restart would need, and never reads the whole of what it has gathered.
//!
//! ```text
//! lock                          held by the one process that works here
//! tmp/                          half-written files, emptied at the start
//! mails/<2 digits>/<id>.json    one small file per mail: how far it is, and what a reply to it needs
//! drafts/open/<n>.json          replies that are not settled yet
//! drafts/unknown/<n>.json       replies that may have gone or not; never sent again, never reported
//! drafts/closed/<2 digits>/<n>.json   settled replies, kept so that no draft_id is ever sent twice
//! quarantine/<id>/              mails that muster refused: mail.eml and reason.txt
//! ```
//! A file appears whole or not at all: it is written and synced under `tmp/`, renamed into place, and its folder synced.
//! A mail is found by its path, so a hundred thousand handled mails make neither a start nor a look-up slower.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{ConnectorError, Tried as _};
use crate::mail::{ReplyFacts, is_external_id};

type Result<T> = std::result::Result<T, ConnectorError>;

/// How far a mail is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MailStage {
    /// About to be posted; muster may or may not have it.
    Seen,
    /// muster answered that it has it.
    Posted,
    /// From the own address, so never posted.
    OwnMail,
    /// Set aside in the quarantine folder.
    Refused,
}

/// What is kept of a mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MailRecord {
    pub(crate) stage: MailStage,
    pub(crate) reply: ReplyFacts,
}

/// How far a reply is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DraftStage {
    /// Claimed; nothing has left yet.
    Intent,
    /// Being handed over: from here on only a proof can say whether it left.
    Handing,
    /// It left; the result may still have to be reported.
    Sent,
    /// It certainly did not leave; the result may still have to be reported.
    Failed,
}

/// What is kept of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DraftRecord {
    pub(crate) draft_id: u64,
    pub(crate) external_id: String,
    /// The Message-ID that the reply carries, chosen before anything is sent.
    pub(crate) message_id: String,
    /// Tells this draft from another server's draft with the same number.
    pub(crate) body_sha256: String,
    /// The outbox and the file name in it, when the reply leaves as a file.
    pub(crate) outbox: Option<(PathBuf, String)>,
    pub(crate) stage: DraftStage,
    /// What the owner should read about the outcome, at most 4 KiB.
    pub(crate) detail: String,
}

/// The state folder. Dropping it gives up the lock.
#[derive(Debug)]
pub(crate) struct State {
    root: PathBuf,
    counter: AtomicU64,
    _lock: Option<File>,
}

impl State {
    /// Opens the folder, creating it when it is not there, and takes its lock.
    pub(crate) fn open(root: &Path) -> Result<Self> {
        private_folder(root)?;
        let lock_path = root.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .tried("open", &lock_path)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ConnectorError::Busy(root.to_owned())),
            Err(TryLockError::Error(error)) => return Err(error).tried("lock", &lock_path),
        }
        let state = Self {
            root: root.to_owned(),
            counter: AtomicU64::new(0),
            _lock: Some(lock),
        };
        for folder in [
            "tmp",
            "mails",
            "drafts/open",
            "drafts/unknown",
            "drafts/closed",
            "quarantine",
        ] {
            state.folder(&root.join(folder))?;
        }
        state.empty_tmp()?;
        Ok(state)
    }

    /// Looks into the folder beside a connector that may be running: every file in it is whole, and a move is one rename.
    pub(crate) fn peek(root: &Path) -> Result<Self> {
        if !root.join("lock").is_file() {
            let sentence = format!("{root:?} is not the state folder of a connector.");
            return Err(ConnectorError::Usage(sentence));
        }
        Ok(Self {
            root: root.to_owned(),
            counter: AtomicU64::new(0),
            _lock: None,
        })
    }

    fn empty_tmp(&self) -> Result<()> {
        let tmp = self.root.join("tmp");
        for entry in fs::read_dir(&tmp).tried("read", &tmp)? {
            let path = entry.tried("read", &tmp)?.path();
            if path.is_dir() {
                fs::remove_dir_all(&path).tried("remove", &path)?;
            } else {
                fs::remove_file(&path).tried("remove", &path)?;
            }
        }
        Ok(())
    }

    /// Creates a folder under the root with what lies between, durably.
    fn folder(&self, folder: &Path) -> Result<()> {
        if folder.is_dir() {
            return Ok(());
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .tried("create", folder)?;
        for parent in folder
            .ancestors()
            .skip(1)
            .take_while(|path| path.starts_with(&self.root))
        {
            sync_folder(parent)?;
        }
        Ok(())
    }

    fn tmp_path(&self) -> PathBuf {
        let number = self.counter.fetch_add(1, Ordering::Relaxed);
        self.root
            .join("tmp")
            .join(format!("{}-{number}", std::process::id()))
    }

    fn write<T: Serialize>(&self, path: &Path, content: &T) -> Result<()> {
        let bytes = serde_json::to_vec(content)
            .map_err(std::io::Error::from)
            .tried("write", path)?;
        if let Some(folder) = path.parent() {
            self.folder(folder)?;
        }
        let tmp = self.tmp_path();
        write_synced(&tmp, &bytes)?;
        rename_synced(&tmp, path)
    }

    fn mail_path(&self, external_id: &str) -> Option<PathBuf> {
        // The last digits belong to the hash of the whole mail, which nobody can aim at one folder cheaply.
        let shard = external_id.get(external_id.len().checked_sub(2)?..)?;
        is_external_id(external_id).then(|| {
            self.root
                .join("mails")
                .join(shard)
                .join(format!("{external_id}.json"))
        })
    }

    /// What is known of a mail. A record that cannot be read counts as none: the mail is posted again, which is safe.
    pub(crate) fn mail(&self, external_id: &str) -> Result<Option<MailRecord>> {
        match self.mail_path(external_id) {
            Some(path) => read(&path),
            None => Ok(None),
        }
    }

    /// Records how far a mail is.
    pub(crate) fn record_mail(&self, external_id: &str, record: &MailRecord) -> Result<()> {
        match self.mail_path(external_id) {
            Some(path) => self.write(&path, record),
            None => Ok(()),
        }
    }

    fn quarantine_path(&self, external_id: &str) -> PathBuf {
        self.root.join("quarantine").join(external_id)
    }

    /// Whether the set-aside copy is still there; taking it away asks for another try.
    pub(crate) fn is_quarantined(&self, external_id: &str) -> bool {
        self.quarantine_path(external_id).is_dir()
    }

    /// Sets a copy of the mail aside with the reason beside it.
    pub(crate) fn quarantine(&self, external_id: &str, mail: &Path, reason: &str) -> Result<()> {
        let place = self.quarantine_path(external_id);
        if place.is_dir() {
            return Ok(());
        }
        let tmp = self.tmp_path();
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&tmp)
            .tried("create", &tmp)?;
        let copy = tmp.join("mail.eml");
        fs::copy(mail, &copy).tried("copy", mail)?;
        File::open(&copy)
            .and_then(|file| file.sync_all())
            .tried("write", &copy)?;
        write_synced(&tmp.join("reason.txt"), format!("{reason}\n").as_bytes())?;
        sync_folder(&tmp)?;
        rename_synced(&tmp, &place)
    }

    /// The set-aside mails with their reasons, by id.
    pub(crate) fn quarantined(&self) -> Result<Vec<(PathBuf, String)>> {
        let folder = self.root.join("quarantine");
        let mut list = Vec::new();
        for entry in fs::read_dir(&folder).tried("read", &folder)? {
            let path = entry.tried("read", &folder)?.path();
            let reason = fs::read(path.join("reason.txt")).unwrap_or_default();
            list.push((path, crate::text::printable(&reason, 4096)));
        }
        list.sort();
        Ok(list)
    }

    fn draft_path(&self, place: &str, draft_id: u64) -> PathBuf {
        let folder = self.root.join("drafts").join(place);
        let name = format!("{draft_id}.json");
        if place == "closed" {
            folder.join(format!("{:02x}", draft_id % 256)).join(name)
        } else {
            folder.join(name)
        }
    }

    /// What is known of a draft, wherever it is filed. `Some(None)` is a record that cannot be read: it still says that the
    /// draft was taken once, so it must not be sent.
    pub(crate) fn draft(&self, draft_id: u64) -> Result<Option<Option<DraftRecord>>> {
        for place in ["open", "unknown", "closed"] {
            let path = self.draft_path(place, draft_id);
            if path.exists() {
                return Ok(Some(read(&path)?));
            }
        }
        Ok(None)
    }

    /// Records how far a reply is; it stays open until [`State::close`].
    pub(crate) fn record_draft(&self, record: &DraftRecord) -> Result<()> {
        self.write(&self.draft_path("open", record.draft_id), record)
    }

    /// Files a reply as settled.
    pub(crate) fn close(&self, draft_id: u64) -> Result<()> {
        self.move_draft(draft_id, "open", "closed")
    }

    /// Files a reply as one whose fate nobody knows.
    pub(crate) fn give_up(&self, draft_id: u64) -> Result<()> {
        self.move_draft(draft_id, "open", "unknown")
    }

    /// Takes a reply off the list of unknown ones; `false` when it is not on it.
    pub(crate) fn dismiss(&self, draft_id: u64) -> Result<bool> {
        if !self.draft_path("unknown", draft_id).exists() {
            return Ok(false);
        }
        self.move_draft(draft_id, "unknown", "closed")?;
        Ok(true)
    }

    fn move_draft(&self, draft_id: u64, from: &str, to: &str) -> Result<()> {
        let target = self.draft_path(to, draft_id);
        if let Some(folder) = target.parent() {
            self.folder(folder)?;
        }
        let source = self.draft_path(from, draft_id);
        rename_synced(&source, &target)?;
        source.parent().map_or(Ok(()), sync_folder)
    }

    /// The open replies by number. One whose record cannot be read is filed as unknown: it may have been sent.
    pub(crate) fn open_drafts(&self) -> Result<Vec<DraftRecord>> {
        let mut drafts = Vec::new();
        for draft_id in self.numbers("open")? {
            match read(&self.draft_path("open", draft_id))? {
                Some(record) => drafts.push(record),
                None => self.give_up(draft_id)?,
            }
        }
        Ok(drafts)
    }

    /// The replies whose fate is unknown: number and, when its record can be read, the rest.
    pub(crate) fn unknown_drafts(&self) -> Result<Vec<(u64, Option<DraftRecord>)>> {
        self.numbers("unknown")?
            .into_iter()
            .map(|draft_id| Ok((draft_id, read(&self.draft_path("unknown", draft_id))?)))
            .collect()
    }

    fn numbers(&self, place: &str) -> Result<Vec<u64>> {
        let folder = self.root.join("drafts").join(place);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&folder).tried("read", &folder)? {
            let name = entry.tried("read", &folder)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(".json"));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
}

/// Creates the folder for its owner alone, or refuses one that others can look into.
fn private_folder(root: &Path) -> Result<()> {
    if !root.is_dir() {
        return fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(root)
            .tried("create", root);
    }
    let mode = fs::metadata(root).tried("read", root)?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    let is_empty = fs::read_dir(root).tried("read", root)?.next().is_none();
    if !is_empty {
        return Err(ConnectorError::Usage(format!(
            "The state folder {root:?} is open to other users and not empty, so it may be the wrong one. \
             If it is the right one: chmod 700 it."
        )));
    }
    fs::set_permissions(root, fs::Permissions::from_mode(0o700)).tried("protect", root)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => {
            let content = serde_json::from_slice(&bytes).ok();
            if content.is_none() {
                tracing::warn!(file = ?path, "a state file cannot be read and is taken as missing");
            }
            Ok(content)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).tried("read", path),
    }
}

/// Writes a new file and waits until the disk has it.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::options()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .tried("create", path)?;
    file.write_all(bytes).tried("write", path)?;
    file.sync_all().tried("write", path)
}

/// Moves a file into its place and waits until the disk has the new name.
pub(crate) fn rename_synced(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).tried("create", to)?;
    to.parent().map_or(Ok(()), sync_folder)
}

/// Waits until the disk has the names in a folder.
pub(crate) fn sync_folder(folder: &Path) -> Result<()> {
    File::open(folder)
        .and_then(|file| file.sync_all())
        .tried("write", folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(last: u8) -> String {
        crate::mail::external_id(b"Message-ID: <a@x>\n\n", &[last; 32])
    }

    fn draft(draft_id: u64, stage: DraftStage) -> DraftRecord {
        DraftRecord {
            draft_id,
            external_id: id(1),
            message_id: "<m@x>".to_owned(),
            body_sha256: "00".to_owned(),
            outbox: None,
            stage,
            detail: String::new(),
        }
    }

    #[test]
    fn a_record_survives_reopening_and_a_broken_one_counts_as_none() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("state");
        let record = MailRecord {
            stage: MailStage::Posted,
            reply: ReplyFacts::default(),
        };
        let state = State::open(&root).unwrap();
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        state.record_mail(&id(1), &record).unwrap();
        drop(state);
        fs::write(root.join("tmp/half"), b"x").unwrap();
        let state = State::open(&root).unwrap();
        assert_eq!(fs::read_dir(root.join("tmp")).unwrap().count(), 0);
        assert_eq!(state.mail(&id(1)).unwrap(), Some(record));
        assert_eq!(state.mail(&id(2)).unwrap(), None);
        assert_eq!(state.mail("../../etc/passwd").unwrap(), None);
        fs::write(state.mail_path(&id(1)).unwrap(), b"{").unwrap();
        assert_eq!(state.mail(&id(1)).unwrap(), None);
    }

    #[test]
    fn a_second_process_is_told_that_the_folder_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("state");
        let state = State::open(&root).unwrap();
        assert!(matches!(State::open(&root), Err(ConnectorError::Busy(_))));
        drop(state);
        assert!(State::open(&root).is_ok());
    }

    #[test]
    fn a_folder_that_others_can_read_is_refused_unless_it_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("state");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(root.join("something"), b"").unwrap();
        assert!(matches!(State::open(&root), Err(ConnectorError::Usage(_))));
        assert!(!root.join("lock").exists());
        fs::remove_file(root.join("something")).unwrap();
        assert!(State::open(&root).is_ok());
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_draft_is_known_for_ever_wherever_it_is_filed() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(&folder.path().join("state")).unwrap();
        for draft_id in [7, 300, 1] {
            assert_eq!(state.draft(draft_id).unwrap(), None);
            state.record_draft(&draft(draft_id, DraftStage::Intent)).unwrap();
        }
        let open: Vec<_> = state
            .open_drafts()
            .unwrap()
            .iter()
            .map(|draft| draft.draft_id)
            .collect();
        assert_eq!(open, [1, 7, 300]);
        state.close(7).unwrap();
        state.give_up(300).unwrap();
        fs::write(state.draft_path("open", 1), b"").unwrap();
        assert_eq!(state.open_drafts().unwrap(), []);
        for draft_id in [7, 300, 1] {
            assert!(state.draft(draft_id).unwrap().is_some(), "{draft_id}");
        }
        let unknown: Vec<_> = state
            .unknown_drafts()
            .unwrap()
            .iter()
            .map(|(id, _)| *id)
            .collect();
        assert_eq!(unknown, [1, 300]);
        assert!(state.dismiss(300).unwrap());
        assert!(!state.dismiss(300).unwrap());
        assert!(state.draft(300).unwrap().is_some());
    }

    #[test]
    fn a_quarantined_mail_lies_beside_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(&folder.path().join("state")).unwrap();
        let mail = folder.path().join("mail");
        fs::write(&mail, b"raw").unwrap();
        assert!(!state.is_quarantined(&id(1)));
        state.quarantine(&id(1), &mail, "because\x1b").unwrap();
        state.quarantine(&id(1), &mail, "again").unwrap();
        assert!(state.is_quarantined(&id(1)));
        let list = state.quarantined().unwrap();
        assert_eq!(list.len(), 1);
        let (place, reason) = list.first().unwrap();
        assert_eq!(fs::read(place.join("mail.eml")).unwrap(), b"raw");
        assert_eq!(reason, "because\\u{1b}\n");
    }
}
