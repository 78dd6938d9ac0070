//! `settings.json`: who may call what without being asked. Read at every call; what cannot be read refuses. Never guesses what an unknown word means.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use serde_json::{Map, Value};

use crate::diagnostic::shown;
use crate::ledger::is_absent;
use crate::once;
use crate::tree::{self, Stamp};

/// Largest settings file, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

/// What happens to a call that no rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// A tool that says that it only reads runs; any other call asks.
    #[default]
    OnRequest,
    /// Every call asks.
    AlwaysAsk,
    /// Every call runs.
    NeverAsk,
}

impl Mode {
    /// The word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::OnRequest => "on-request",
            Self::AlwaysAsk => "always-ask",
            Self::NeverAsk => "never-ask",
        }
    }
}

/// The settings as far as packages are concerned.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The approval mode.
    pub mode: Mode,
    /// Registered names that run.
    pub allow: BTreeSet<String>,
    /// Registered names that ask.
    pub prompt: BTreeSet<String>,
    /// Registered names that are refused.
    pub deny: BTreeSet<String>,
    /// The owner's own servers.
    pub servers: Map<String, Value>,
    /// Keys beside the three, which say nothing to muster. Outside text.
    pub strangers: Vec<String>,
}

impl Settings {
    /// Reads the file; an absent one is the defaults.
    ///
    /// # Errors
    /// A sentence that says what is wrong. Every call is refused while it stands.
    pub fn read(path: &Path) -> Result<Self, String> {
        match tree::read_own(path, LARGEST) {
            Ok(text) => Self::parse(&text),
            // A link that leads nowhere is no absent file.
            Err(error) if error.kind() == io::ErrorKind::NotFound && is_absent(path) => Ok(Self::default()),
            Err(error) => Err(format!(
                "settings.json cannot be read ({error}), so every call is refused"
            )),
        }
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    /// As [`Settings::read`].
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let refused = |what: String| format!("settings.json {what}, so every call is refused; mend it");
        let value: Value = serde_json::from_slice(text).map_err(|error| {
            refused(format!(
                "is not JSON (line {}, column {})",
                error.line(),
                error.column()
            ))
        })?;
        once::check(text).map_err(|error| {
            refused(format!(
                "names a key twice in one object (line {}, column {})",
                error.line(),
                error.column()
            ))
        })?;
        let map = value
            .as_object()
            .ok_or_else(|| refused("is not a JSON object".to_owned()))?;
        let mode = match map.get("approval_mode") {
            None => Mode::default(),
            Some(word) => [Mode::OnRequest, Mode::AlwaysAsk, Mode::NeverAsk]
                .into_iter()
                .find(|mode| word.as_str() == Some(mode.word()))
                .ok_or_else(|| {
                    refused(format!(
                        "has the approval_mode {}, which is none of on-request, always-ask and never-ask",
                        shown(&word.to_string())
                    ))
                })?,
        };
        let known = ["approval_mode", "permissions", "mcpServers"];
        let strangers = map.keys().filter(|key| !known.contains(&key.as_str()));
        let mut settings = Self {
            mode,
            strangers: strangers.cloned().collect(),
            ..Self::default()
        };
        match map.get("permissions") {
            None => {}
            Some(Value::Object(lists)) => {
                for (word, names) in lists {
                    let list = match word.as_str() {
                        "allow" => &mut settings.allow,
                        "prompt" => &mut settings.prompt,
                        "deny" => &mut settings.deny,
                        other => {
                            return Err(refused(format!(
                                "has \"{}\" under permissions, which is none of allow, prompt and deny",
                                shown(other)
                            )));
                        }
                    };
                    let names = names.as_array().and_then(|names| {
                        names
                            .iter()
                            .map(|name| name.as_str().map(str::to_owned))
                            .collect::<Option<BTreeSet<_>>>()
                    });
                    *list = names.ok_or_else(|| {
                        refused(format!("has permissions.{word}, which is no list of strings"))
                    })?;
                }
            }
            Some(_) => return Err(refused("has permissions that are no object".to_owned())),
        }
        match map.get("mcpServers") {
            None => {}
            Some(Value::Object(servers)) if servers.values().all(Value::is_object) => {
                settings.servers.clone_from(servers);
            }
            Some(_) => return Err(refused("has mcpServers that are no object of objects".to_owned())),
        }
        Ok(settings)
    }

    /// What happens to a call of the tool registered as `name`.
    ///
    /// `hinted`: it said that it only reads when it was pinned, and is what it was. `changed`: it is not what was pinned.
    #[must_use]
    pub fn ruling(&self, name: &str, hinted: bool, changed: bool) -> Ruling {
        if self.deny.contains(name) {
            return Ruling::Deny;
        }
        if self.prompt.contains(name) {
            return Ruling::Prompt("a rule of yours asks before this tool runs");
        }
        if changed {
            // An allow rule was made for the tool as it was.
            return Ruling::Prompt("this tool is not what it was when it was approved");
        }
        if self.allow.contains(name) {
            return Ruling::Allow(Why::Rule);
        }
        match self.mode {
            Mode::OnRequest if hinted => Ruling::Allow(Why::Hint),
            Mode::NeverAsk => Ruling::Allow(Why::Mode),
            Mode::OnRequest | Mode::AlwaysAsk => Ruling::Prompt("no rule of yours decides about this tool"),
        }
    }
}

/// The file as it is at each look, parsed again only when it may have changed since it was read.
///
/// A file whose inode says what it said (device, number, size and ctime, which no program can set) holds what it held, once that was read two seconds
/// after it was first seen: a change within one tick of the clock shows only in its bytes.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<Option<Seen>>);

#[derive(Debug)]
struct Seen {
    stamp: Stamp,
    size: u64,
    first: Instant,
    settled: bool,
    found: Result<Arc<Settings>, String>,
}

const SETTLES: Duration = Duration::from_secs(2);

impl Watched {
    /// The settings now.
    pub(crate) fn read(&self, path: &Path) -> Result<Arc<Settings>, String> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = match fs::symlink_metadata(path) {
            // A link that leads nowhere is no absent file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *seen = None;
                return Ok(Arc::default());
            }
            Ok(itself) if itself.is_symlink() => fs::metadata(path),
            found => found,
        };
        // The reading says why.
        let Ok(now) = now else {
            return Settings::read(path).map(Arc::new);
        };
        let stamp = Stamp::of(&now);
        let known = seen
            .as_ref()
            .filter(|seen| seen.stamp == stamp && seen.size == now.len());
        if let Some(seen) = known.filter(|seen| seen.settled) {
            return seen.found.clone();
        }
        let first = known.map_or_else(Instant::now, |seen| seen.first);
        let settled = first.elapsed() >= SETTLES;
        let found = Settings::read(path).map(Arc::new);
        *seen = Some(Seen {
            stamp,
            size: now.len(),
            first,
            settled,
            found: found.clone(),
        });
        found
    }
}

/// What the rules say about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ruling {
    /// It runs.
    Allow(Why),
    /// A person is asked, for this reason.
    Prompt(&'static str),
    /// It is refused.
    Deny,
}

/// Why a call runs unasked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// A rule allows it.
    Rule,
    /// The tool says that it only reads.
    Hint,
    /// The mode lets everything run.
    Mode,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAME: &str = "mcp__plugin_a_b__c";

    // spec: APR-002 APR-003 APR-004 APR-006 APR-008 APR-009 APR-010 NAM-009
    #[test]
    fn deny_over_prompt_over_allow_over_the_hint_over_the_mode() {
        let parse = |text: &str| Settings::parse(text.as_bytes()).unwrap();
        let asks =
            |settings: &Settings, hinted| matches!(settings.ruling(NAME, hinted, false), Ruling::Prompt(_));
        let fresh = Settings::default();
        assert_eq!(fresh.mode.word(), "on-request");
        assert!(asks(&fresh, false));
        assert_eq!(fresh.ruling(NAME, true, false), Ruling::Allow(Why::Hint));
        let always = parse(r#"{"approval_mode":"always-ask"}"#);
        assert!(asks(&always, true));
        let never = parse(r#"{"approval_mode":"never-ask"}"#);
        assert_eq!(never.ruling(NAME, true, false), Ruling::Allow(Why::Mode));
        let allow = parse(&format!(
            r#"{{"approval_mode":"always-ask","permissions":{{"allow":["{NAME}"]}}}}"#
        ));
        assert_eq!(allow.ruling(NAME, false, false), Ruling::Allow(Why::Rule));
        assert!(matches!(allow.ruling("a:b:c", false, false), Ruling::Prompt(_)));
        let prompt = parse(&format!(
            r#"{{"permissions":{{"allow":["{NAME}"],"prompt":["{NAME}"]}}}}"#
        ));
        assert!(asks(&prompt, true));
        let deny = parse(&format!(
            r#"{{"approval_mode":"never-ask","permissions":{{"allow":["{NAME}"],"prompt":["{NAME}"],"deny":["{NAME}"]}}}}"#
        ));
        assert_eq!(deny.ruling(NAME, true, true), Ruling::Deny);
    }

    #[test]
    fn a_tool_that_changed_asks_whatever_lets_it_run_otherwise() {
        let settings = Settings::parse(
            format!(r#"{{"approval_mode":"never-ask","permissions":{{"allow":["{NAME}"]}}}}"#).as_bytes(),
        )
        .unwrap();
        assert!(matches!(settings.ruling(NAME, true, true), Ruling::Prompt(_)));
    }

    #[test]
    fn an_unknown_word_or_a_broken_file_is_an_error_and_no_default() {
        for text in [
            "",
            "[]",
            "{",
            r#"{"approval_mode":"yolo"}"#,
            r#"{"approval_mode":null}"#,
            r#"{"permissions":[]}"#,
            r#"{"permissions":{"allows":[]}}"#,
            r#"{"permissions":{"allow":"x"}}"#,
            r#"{"permissions":{"allow":[1]}}"#,
            r#"{"mcpServers":[]}"#,
            r#"{"mcpServers":{"a":1}}"#,
            r#"{"permissions":{"deny":["a"]},"permissions":{}}"#,
            r#"{"permissions":{"deny":["a"],"deny":[]}}"#,
            r#"{"permissions":{"deny":["a"],"d\u0065ny":[]}}"#,
            r#"{"approval_mode":"always-ask","approval_mode":"never-ask"}"#,
            r#"{"mcpServers":{"a":{"env":{"X":"1","X":"2"}}}}"#,
            r#"{"newer":[[{"a":null,"b":1.5e3,"a":-1}]]}"#,
        ] {
            assert!(Settings::parse(text.as_bytes()).is_err(), "{text}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert!(Settings::read(&dir.path().join("absent")).is_ok());
        assert!(Settings::read(dir.path()).is_err());
        let whole =
            r#"{"newer":[[{"a":null,"b":1.5e3,"c":-1,"d":true}],{"a":"x"}],"a":18446744073709551615}"#;
        assert!(Settings::parse(whole.as_bytes()).is_ok());
    }

    #[test]
    fn a_link_that_leads_nowhere_refuses_and_is_no_absent_file() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        let target = dir.path().join("elsewhere.json");
        let watched = Watched::default();
        assert!(Settings::read(&path).is_ok() && watched.read(&path).is_ok());
        symlink(&target, &path).unwrap();
        assert!(Settings::read(&path).is_err() && watched.read(&path).is_err());
        fs::write(&target, r#"{"approval_mode":"always-ask"}"#).unwrap();
        assert_eq!(watched.read(&path).unwrap().mode, Mode::AlwaysAsk);
        fs::remove_file(&target).unwrap();
        assert!(watched.read(&path).is_err());
        symlink(&path, &target).unwrap();
        assert!(Settings::read(&path).is_err() && watched.read(&path).is_err());
        fs::remove_file(&path).unwrap();
        assert!(watched.read(&path).is_ok());
    }

    #[test]
    fn every_change_of_the_file_counts_at_the_next_look_however_soon_it_comes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("settings.json");
        let watched = Watched::default();
        let mode = || watched.read(&path).map(|settings| settings.mode.word());
        assert_eq!(mode(), Ok("on-request"));
        let turn = |word: &str| fs::write(&path, format!("{{\"approval_mode\":\"{word}\"}}")).unwrap();
        for round in 0..200 {
            // As long as each other, and within one tick of the clock.
            turn("always-ask");
            assert_eq!(mode(), Ok("always-ask"), "{round}");
            turn("never-ask ");
            assert!(mode().is_err(), "{round}");
            turn("never-ask");
            assert_eq!(mode(), Ok("never-ask"), "{round}");
        }
        std::thread::sleep(SETTLES + Duration::from_millis(100));
        assert_eq!(mode(), Ok("never-ask"));
        assert!(watched.0.lock().unwrap().as_ref().unwrap().settled);
        turn("always-ask");
        assert_eq!(mode(), Ok("always-ask"));
        fs::remove_file(&path).unwrap();
        assert_eq!(mode(), Ok("on-request"));
    }

    proptest! {
        #[test]
        fn a_denied_name_never_runs_and_never_asks(
            allow: bool, prompt: bool, hinted: bool, changed: bool,
            mode in prop_oneof![Just(Mode::OnRequest), Just(Mode::AlwaysAsk), Just(Mode::NeverAsk)],
        ) {
            let set = |on: bool| if on { BTreeSet::from([NAME.to_owned()]) } else { BTreeSet::new() };
            let mut settings = Settings { mode, allow: set(allow), prompt: set(prompt), ..Settings::default() };
            let free = settings.ruling(NAME, hinted, changed);
            if prompt || changed {
                prop_assert!(matches!(free, Ruling::Prompt(_)));
            }
            settings.deny = set(true);
            prop_assert_eq!(settings.ruling(NAME, hinted, changed), Ruling::Deny);
        }
    }
}
