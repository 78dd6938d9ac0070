//! The server's own key: marks a browser that has signed in before, and makes up what must look like somebody's. Never leaves the data folder, never decides who is let in.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use muster_core::Secret;
use muster_core::clock::Time;
use muster_core::secret::{self, NoRandomness, random_hex};
use sha2::Sha256;

/// Its name in the data folder.
const FILE: &str = "web.key";
/// How long a browser stays known after it signed in: half a year.
pub(crate) const KNOWN: Duration = Duration::from_secs(180 * 86_400);

/// 256 random bits that outlive the process. Cloning shares nothing that changes.
#[derive(Clone)]
pub(crate) struct Key(Option<Secret>);

impl Key {
    /// The key in this data folder, made when there is none. A folder that keeps none costs known browsers their mark at the next start,
    /// and nothing else: the server starts.
    pub(crate) fn of(folder: &Path) -> Self {
        let path = folder.join(FILE);
        match read(&path).or_else(|| make(&path)) {
            Some(key) => Self(Some(key)),
            None => Self(new().ok()),
        }
    }

    /// The bytes that belong to these words under this key, always the same; `None` while the system gives no randomness to make a key of.
    pub(crate) fn bytes(&self, words: &[&str]) -> Option<[u8; 32]> {
        let key = self.0.as_ref()?;
        let mut mac = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes()).ok()?;
        for word in words {
            // The length before the word, so that no two lists of words read alike.
            mac.update(&u64::try_from(word.len()).ok()?.to_be_bytes());
            mac.update(word.as_bytes());
        }
        Some(mac.finalize().into_bytes().into())
    }

    /// A mark for a browser that has just signed in as `name`.
    pub(crate) fn mark(&self, name: &str, now: Time) -> Option<String> {
        let (browser, since) = (random_hex::<16>().ok()?, now.micros().to_string());
        let seal = self.seal(name, &browser, &since)?;
        Some(format!("{browser}.{since}.{seal}"))
    }

    /// Which browser this mark names, when this server made it for `name` less than half a year ago.
    pub(crate) fn known<'m>(&self, mark: &'m str, name: &str, now: Time) -> Option<&'m str> {
        let (browser, rest) = mark.split_once('.')?;
        let (since, seal) = rest.split_once('.')?;
        let fresh = now.since(Time::from_micros(since.parse().ok()?)) <= KNOWN;
        (fresh && secret::same(seal, &self.seal(name, browser, since)?)).then_some(browser)
    }

    fn seal(&self, name: &str, browser: &str, since: &str) -> Option<String> {
        let bytes = self.bytes(&["known browser", name, browser, since])?;
        Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

fn new() -> Result<Secret, NoRandomness> {
    random_hex::<32>().map(Secret::new)
}

/// The key that is there. What is no key (a write that broke off) is none.
fn read(path: &Path) -> Option<Secret> {
    let text = fs::read_to_string(path).ok()?;
    let key = text.trim_end();
    let whole = key.len() == 64 && key.bytes().all(|b| b.is_ascii_hexdigit());
    whole.then(|| Secret::new(key))
}

fn make(path: &Path) -> Option<Secret> {
    let key = new().ok()?;
    match store(path, &key) {
        Ok(()) => Some(key),
        Err(error) => {
            tracing::warn!(%error, "the key of known browsers could not be stored; browsers are known until the next start only");
            None
        }
    }
}

/// Whole or not at all, and for nobody else to read.
fn store(path: &Path, key: &Secret) -> io::Result<()> {
    let new = path.with_extension(format!("key.{}", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| {
            writeln!(file, "{}", key.expose())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // What is left of it is of no use; that it cannot be removed either changes nothing.
        let _ = fs::remove_file(&new);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn now() -> Time {
        Time::from_micros(1_800_000_000_000_000)
    }

    #[test]
    fn a_browser_is_known_for_its_account_for_half_a_year_across_starts() {
        let folder = tempfile::tempdir().unwrap();
        let mark = Key::of(folder.path()).mark("ada", now()).unwrap();
        let again = Key::of(folder.path());
        let known = again.known(&mark, "ada", now().plus(KNOWN)).unwrap();
        assert!(mark.starts_with(known) && known.len() == 32);
        let late = now().plus(KNOWN + Duration::from_secs(1));
        assert!(again.known(&mark, "ada", late).is_none());
        assert!(again.known(&mark, "grace", now()).is_none(), "another's account");
        let other = tempfile::tempdir().unwrap();
        assert!(
            Key::of(other.path()).known(&mark, "ada", now()).is_none(),
            "another server's mark"
        );
    }

    #[test]
    fn a_mark_that_was_changed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let key = Key::of(folder.path());
        let mark = key.mark("ada", now()).unwrap();
        let [browser, since, seal] = mark.split('.').collect::<Vec<_>>().try_into().unwrap();
        let later = (now().micros() + 1).to_string();
        for bad in [
            String::new(),
            "..".to_owned(),
            browser.to_owned(),
            format!("{browser}.{since}"),
            format!("{browser}.{since}."),
            format!("{browser}.{later}.{seal}"),
            format!("{}.{since}.{seal}", "0".repeat(32)),
            format!("{browser}.{since}.{seal}0"),
            format!("{browser}..{seal}"),
        ] {
            assert!(key.known(&bad, "ada", now()).is_none(), "{bad}");
        }
        assert_ne!(key.bytes(&["a", "bc"]), key.bytes(&["ab", "c"]));
    }

    #[test]
    fn the_key_is_for_its_owner_alone_and_one_that_broke_off_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let first = Key::of(folder.path()).bytes(&["x"]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "nothing beside it"
        );
        assert_eq!(Key::of(folder.path()).bytes(&["x"]), first);
        fs::write(&path, "abc").unwrap();
        let second = Key::of(folder.path()).bytes(&["x"]);
        assert!(second.is_some() && second != first);
        assert_eq!(Key::of(folder.path()).bytes(&["x"]), second);
    }

    #[test]
    fn a_folder_that_keeps_no_key_still_has_one_until_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let key = Key::of(&missing);
        let mark = key.mark("ada", now()).unwrap();
        assert!(key.known(&mark, "ada", now()).is_some() && !missing.exists());
    }
}
