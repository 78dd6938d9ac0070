//! The note by which an agent's session finds the server of its own data folder. Never believed once the process that wrote it is gone.
//!
//! The note lies in the data folder, is locked as long as its server listens, and says where that is. Whoever can write it can read the database
//! too, so it proves what an answer on a port cannot: that the listener there is this data folder's server, and that a token may be sent to it.

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use serde::{Deserialize, Serialize};

/// The largest note that is read, in bytes.
const NOTE: u64 = 4_096;
/// How often and how far apart the lock of a note is tried.
const TRIES: (u32, Duration) = (50, Duration::from_millis(10));

/// What a note says.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    /// The listener, as this machine reaches it.
    listening: SocketAddr,
    /// The base of the server's links.
    base: String,
}

/// A note that holds as long as this is kept.
#[derive(Debug)]
pub(super) struct Note {
    path: PathBuf,
    _held: File,
}

impl Drop for Note {
    fn drop(&mut self) {
        // One that stays behind is locked by nobody, and so believed by nobody.
        let _ = fs::remove_file(&self.path);
    }
}

fn folder(data: &Path) -> PathBuf {
    data.join("servers")
}

/// Notes that this process listens at `listening` for the data folder.
pub(super) async fn note(data: &Path, listening: SocketAddr, base: &str) -> std::io::Result<Note> {
    let folder = folder(data);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)?;
    let name = listening
        .to_string()
        .replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "_");
    let path = folder.join(format!("{name}.json"));
    let mut held = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)?;
    // Whoever looks holds it for a moment.
    let mut tries = TRIES.0;
    while let Err(error) = held.try_lock() {
        tries = tries.checked_sub(1).ok_or(error)?;
        tokio::time::sleep(TRIES.1).await;
    }
    let said = Said {
        listening,
        base: base.to_owned(),
    };
    held.set_len(0)?;
    held.rewind()?;
    held.write_all(&serde_json::to_vec(&said)?)?;
    Ok(Note { path, _held: held })
}

/// The address at which the server of this data folder is reached, where `url` leads to it and it listens now.
pub(super) fn found(data: &Path, url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    fs::read_dir(folder(data))
        .ok()?
        .flatten()
        .find_map(|entry| leads(&said(&entry.path())?, &url))
}

/// What a note says whose server runs.
fn said(path: &Path) -> Option<Said> {
    let file = OpenOptions::new().read(true).open(path).ok()?;
    // A lock that can be shared is held by nobody, and let go of at once.
    if file.try_lock_shared().is_ok() {
        return None;
    }
    let mut text = Vec::new();
    file.take(NOTE).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Where to go for `url`: to the listener itself where it is named by a name of this machine, so that no other program that the name leads to is
/// met; by the server's own public address otherwise.
fn leads(said: &Said, url: &Url) -> Option<String> {
    let name = url.host_str()?;
    let here = match name.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback() || ip == said.listening.ip(),
        Err(_) => name == "localhost",
    };
    if url.scheme() == "http" && here && url.port_or_known_default() == Some(said.listening.port()) {
        return Some(format!("http://{}", said.listening));
    }
    let base = Url::parse(&said.base).ok()?;
    (base.origin() == url.origin()).then(|| base.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listening() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 7_447))
    }

    #[tokio::test]
    async fn a_note_is_believed_while_its_server_runs_and_for_its_addresses_alone() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(found(data.path(), "http://127.0.0.1:7447"), None);
        let kept = note(data.path(), listening(), "https://muster.example")
            .await
            .unwrap();
        let there = Some("http://127.0.0.1:7447".to_owned());
        for url in [
            "http://127.0.0.1:7447",
            "http://localhost:7447/",
            "http://[::1]:7447",
        ] {
            assert_eq!(found(data.path(), url), there, "{url}");
        }
        assert_eq!(
            found(data.path(), "https://muster.example/").as_deref(),
            Some("https://muster.example")
        );
        for other in [
            "http://127.0.0.1:7448",
            "https://127.0.0.1:7447",
            "http://127.0.0.1",
            "http://muster.example",
            "https://muster.example.org",
            "http://10.0.0.1:7447",
            "none",
        ] {
            assert_eq!(found(data.path(), other), None, "{other}");
        }
        // What a server that was killed leaves is what the next one takes over.
        let left = fs::read(&kept.path).unwrap();
        let path = kept.path.clone();
        drop(kept);
        assert_eq!(found(data.path(), "http://127.0.0.1:7447"), None);
        fs::write(&path, left).unwrap();
        assert_eq!(found(data.path(), "http://127.0.0.1:7447"), None);
        let again = note(data.path(), listening(), "http://localhost:7447")
            .await
            .unwrap();
        assert_eq!(found(data.path(), "http://127.0.0.1:7447"), there);
        drop(again);
    }
}
