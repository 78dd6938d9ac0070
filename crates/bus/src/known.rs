//! Which ids somebody may still come back to. Never guesses: what cannot be read is an error, so that nothing is taken for abandoned.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;

use serde_json::{Map, Value};

use crate::error::{BusError, failed};
use crate::home::Home;
use crate::json;
use crate::registry::Agents;
use crate::{sessions, tokens, transports};

/// Ids with an entry in the registry, a token, or a process of their own that lives, as the names of their files.
pub(crate) struct Known {
    stems: BTreeSet<String>,
    live: BTreeSet<String>,
}

impl Known {
    /// Reads the registry and the tokens' owners.
    ///
    /// # Errors
    /// [`BusError::Damaged`], a fault.
    pub(crate) fn load(home: &Home) -> Result<Self, BusError> {
        let agents = Agents::load(home)?;
        let tokens: Map<String, Value> = match json::read(home, tokens::FILE) {
            // Nothing mends that file but a person.
            Err(BusError::Damaged(_)) => return Err(BusError::Tokens("it is not one JSON object")),
            other => other?.unwrap_or_default(),
        };
        let ids = agents.ids().chain(tokens.keys().map(String::as_str));
        let mut stems: BTreeSet<String> = ids.map(stem).collect();
        // What comes to an id that was renamed is still to be fetched.
        stems.extend(sessions::stems(home, ".muster/alias")?);
        let mut live = BTreeSet::new();
        // Who was silent for a day has left the registry, and may sit there still.
        for (_, session) in sessions::live(home)? {
            live.insert(stem(&session.agent_id));
        }
        for found in transports::all(home)? {
            // Whoever left a marker that cannot be read is rather known once too often.
            let runs = found
                .marker
                .map_or(true, |marker| sessions::running(marker.pid, marker.pid_start));
            if runs {
                live.insert(stem(&found.id));
            }
        }
        stems.extend(live.iter().cloned());
        Ok(Self { stems, live })
    }

    /// Whether the file `stem` (without its ending) belongs to one of them.
    pub(crate) fn has(&self, stem: &str) -> bool {
        self.stems.contains(stem)
    }

    /// Whether a process of this id lives.
    pub(crate) fn lives(&self, id: &str) -> bool {
        self.live.contains(&stem(id))
    }
}

/// The names of the files in a folder that end so, without the ending, in order. Only those that some program here would write.
///
/// # Errors
/// A fault.
pub(crate) fn files(home: &Home, folder: &str, ending: &str) -> Result<Vec<String>, BusError> {
    let path = home.path(folder);
    let broke = |error| failed("read", &path, error);
    let entries = match fs::read_dir(&path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(broke(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(broke)?.file_name();
        let stem = name.to_str().and_then(|name| name.strip_suffix(ending));
        names.extend(stem.filter(|stem| is_stem(stem)).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

/// What other programs name an id's files after: every character that they do not like becomes `_`, so that two ids may share a file.
pub(crate) fn stem(id: &str) -> String {
    id.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}

/// Whether a file name without its ending is one that any program here writes.
pub(crate) fn is_stem(name: &str) -> bool {
    !name.is_empty() && name.len() <= 250 && !name.starts_with('.') && stem(name) == name
}
