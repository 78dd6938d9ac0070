//! The small JSON files that cannot be read: what is left of them is kept, the file as it was stays beside. Never writes over one without a copy.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::Severity::{Error, Warning};
use super::salvage::salvage;
use super::{Exam, Fix, keep_copy, put_aside};
use crate::error::{BusError, failed};
use crate::files::{open_plain, read_plain};
use crate::home::Home;
use crate::json::{self, Keep};
use crate::known::files;
use crate::names::SeatId;
use crate::registry::Agents;
use crate::rooms::Rooms;
use crate::transports::{self, ConfigError};
use crate::{lock, registry, rooms, sessions};

const NAME: &str = "damaged-file";

pub(super) fn damaged(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let agents = "who is registered cannot be read; nothing is derived from it or written over it";
    mendable::<Agents>(exam, registry::FILE, agents, Value::is_object);
    let channels =
        "topics and members of channels cannot be read; nothing is derived from it or written over it";
    mendable::<Rooms>(exam, rooms::FILE, channels, Value::is_object);
    for name in files(exam.home, "cursors", ".json")? {
        let why = "what this agent has read cannot be read, so all of it is new to it";
        mendable::<Map<String, Value>>(exam, &format!("cursors/{name}.json"), why, |value| {
            !value.is_null()
        });
    }
    for name in files(exam.home, "work", ".json")? {
        let file = format!("work/{name}.json");
        match look::<Map<String, Value>>(exam.home, &file) {
            Err(BusError::Damaged(_)) => {
                let why = "the imported work of a project cannot be read; the documents it came from still hold it, and import_work reads them again";
                exam.fixable(NAME, Error, &file, why, |home| {
                    aside::<Map<String, Value>>(home, &file, &file)
                });
            }
            Err(error) => exam.cannot(NAME, &file, &error),
            Ok(()) => {}
        }
    }
    markers(exam, sessions::FOLDER)?;
    markers(exam, transports::FOLDER)
}

/// Reads a file. One that another program is just writing is looked at twice.
fn look<T: DeserializeOwned>(home: &Home, name: &str) -> Result<(), BusError> {
    if let Err(BusError::Damaged(_)) = json::read::<T>(home, name) {
        std::thread::sleep(Duration::from_millis(40));
    }
    json::read::<T>(home, name).map(drop)
}

/// A file of which the sound entries are kept, as far as they are `right`.
fn mendable<T: DeserializeOwned>(exam: &mut Exam<'_>, name: &str, why: &str, right: fn(&Value) -> bool) {
    match look::<T>(exam.home, name) {
        Ok(()) => {}
        Err(BusError::Damaged(_)) => {
            let why =
                format!("{why}; with fix, its sound entries are kept, and the file as it is stays beside it");
            exam.fixable(NAME, Error, name, why, |home| {
                let _held = lock::lock(home, name)?;
                match json::read::<T>(home, name) {
                    Err(BusError::Damaged(_)) => {}
                    other => return other.map(|_| Fix::NotNeeded),
                }
                let path = home.path(name);
                let text = read_plain(&path).map_err(|error| failed("read", &path, error))?;
                keep_copy(&path)?;
                let mut kept = salvage(&text);
                kept.retain(|_, value| right(value));
                json::write(home, name, &kept, Keep::Durably)?;
                Ok(Fix::Done)
            });
        }
        Err(error) => exam.cannot(NAME, name, &error),
    }
}

/// Moves a damaged file away under its lock.
fn aside<T: DeserializeOwned>(home: &Home, file: &str, lock: &str) -> Result<Fix, BusError> {
    let _held = lock::lock(home, lock)?;
    match json::read::<T>(home, file) {
        Err(BusError::Damaged(_)) => put_aside(&home.path(file)).map(|()| Fix::Done),
        other => other.map(|_| Fix::NotNeeded),
    }
}

/// Markers that say nothing. While one stands there nobody can be bound to an id, since whose it is cannot be told.
fn markers(exam: &mut Exam<'_>, folder: &'static str) -> Result<(), BusError> {
    for id in sessions::stems(exam.home, folder)? {
        let file = format!("{folder}/{id}.json");
        let sound = if folder == sessions::FOLDER {
            look::<sessions::SessionMarker>(exam.home, &file)
        } else {
            look::<transports::Marker>(exam.home, &file)
        };
        match sound {
            Ok(()) => {}
            Err(BusError::Damaged(_)) => {
                let why = "whose this marker is cannot be read; unless it is empty or older than this machine's start, nobody new is bound to an id until it is gone";
                if runs(exam.home, &file) {
                    exam.find(
                        NAME,
                        Error,
                        &file,
                        format!("{why}; the process it seems to name runs, so it stays"),
                    );
                    continue;
                }
                exam.fixable(
                    NAME,
                    Error,
                    &file,
                    format!("{why}; with fix, it is moved aside"),
                    |home| {
                        if runs(home, &file) {
                            return Ok(Fix::Left("the process it seems to name runs"));
                        }
                        if folder == sessions::FOLDER {
                            aside::<sessions::SessionMarker>(home, &file, folder)
                        } else {
                            aside::<transports::Marker>(home, &file, folder)
                        }
                    },
                );
            }
            Err(error) => exam.cannot(NAME, &file, &error),
        }
    }
    Ok(())
}

/// Whether what is left of a marker names a process that runs.
fn runs(home: &Home, file: &str) -> bool {
    let text = read_plain(&home.path(file)).unwrap_or_default();
    let pid = salvage(&text).get("pid").and_then(Value::as_u64);
    pid.and_then(|pid| u32::try_from(pid).ok())
        .is_some_and(|pid| sessions::running(pid, None))
}

/// Whether a transport is chosen, and whether it exists. Where servers run, their own environment chose one.
pub(super) fn transport(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let said = exam.options.transport.clone();
    match transports::configured(exam.home, |_| said.clone()) {
        Ok(_) => {}
        Err(ConfigError::Missing { .. }) => {
            let runs = !sessions::live(exam.home)?.is_empty();
            let (severity, why) = if runs {
                let why = "it names no transport, so only a server that is given AGENT_COORD_TRANSPORT starts: run `muster init`";
                (Warning, why)
            } else {
                (
                    Error,
                    "it names no transport, so no server starts: run `muster init`",
                )
            };
            exam.find("transport-config", severity, "config.json", why);
        }
        Err(error) => exam.find("transport-config", Error, "config.json", error.to_string()),
    }
    Ok(())
}

/// Entries of the registry that are no agents. They are kept, since another program may know what they are.
pub(super) fn strange(exam: &mut Exam<'_>) -> Result<(), BusError> {
    let agents = Agents::load(exam.home)?;
    for id in agents.ids() {
        let readable = SeatId::parse(id).map_or(true, |seat| agents.get(&seat).is_some());
        if !readable {
            exam.find("strange-entry", Warning, id, "this entry of agents.json has a strange shape, so the agent is shown to nobody; registering again puts it right");
        }
    }
    Ok(())
}

/// Writes a `config.json` of what can still be read of the damaged one, which stays beside it. Where it does not say how the directory is
/// shared, the careful way is taken. Answers what was done, in words.
pub(super) fn mend_config(root: &Path) -> Result<String, BusError> {
    let path = root.join("config.json");
    let broke = |error| failed("mend", &path, error);
    let text = read_plain(&path).map_err(broke)?;
    keep_copy(&path)?;
    let mut kept = salvage(&text);
    let chosen = kept
        .get("mode")
        .and_then(Value::as_str)
        .is_some_and(|mode| mode == "native" || mode == "shared");
    if !chosen {
        kept.insert("mode".to_owned(), json!("shared"));
    }
    let mut text = serde_json::to_vec_pretty(&kept).map_err(|error| broke(std::io::Error::other(error)))?;
    text.push(b'\n');
    let beside = path.with_extension("new");
    // Nobody else can open the directory meanwhile, and whoever mends it at the same time writes the same.
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    open_plain(&beside, &options)
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| fs::rename(&beside, &path))
        .map_err(broke)?;
    let kept = "it could not be read, so no server started; what could be read of it was kept, and the file as it was stays beside it";
    Ok(if chosen {
        kept.to_owned()
    } else {
        format!(
            "{kept}. It does not say any more how the directory is shared, so the careful mode was taken, shared: `muster init --mode native` puts native back where only muster writes"
        )
    })
}
