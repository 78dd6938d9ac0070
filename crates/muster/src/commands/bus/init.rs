//! `muster init`: how the bus's directory is shared, how agents are reached on this machine, and, when asked for, the entry in an agent client's own settings. Never writes to a client's settings what was not shown first.

mod claude;
mod codex;
mod edit;
mod file;
mod gemini;

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use muster_bus::transports::{self, TransportKind};
use muster_bus::{Mode, SeatId};
use muster_core::text::terminal;
use serde_json::{Map, Value, json};

use super::{folder, open, refused, seat};
use crate::cli::{AgentClient, BusMode, BusTransport, Init};
use crate::output::{self, Failure};

/// `muster init`.
pub(crate) fn init(args: &Init, json: bool) -> Result<(), Failure> {
    // Before anything is written: what cannot be done is refused as a whole.
    let wiring = args.client.map(|client| Wiring::of(client, args)).transpose()?;
    let dir = folder(args.dir.as_deref())?;
    let foreign = muster_bus::home::foreign_traces(&dir);
    let before = std::fs::read(dir.join("config.json")).ok();
    let home = open(Some(&dir))?;
    let mode = match args.mode {
        Some(BusMode::Native) => Mode::Native,
        Some(BusMode::Shared) => Mode::Shared,
        None if foreign => Mode::Shared,
        None => home.mode(),
    };
    let config = home.root().join("config.json");
    home.choose(mode).map_err(refused)?;
    let chosen = transports::configured(&home, |_| None)
        .ok()
        .map(|chosen| chosen.kind);
    let kind = match (args.transport, chosen) {
        (Some(BusTransport::Herdr), _) => TransportKind::Herdr,
        (Some(BusTransport::TmuxPushRemote), _) => TransportKind::TmuxPushRemote,
        (None, Some(kind)) => kind,
        // Inside herdr its own panes are what there is to type into; everywhere else a pusher beside the agent, or nothing.
        (None, None) if std::env::var_os("HERDR_ENV").is_some() => TransportKind::Herdr,
        (None, None) => TransportKind::TmuxPushRemote,
    };
    if chosen != Some(kind) {
        transports::choose(&home, kind).map_err(refused)?;
    }
    let did = if before.is_some() && before == std::fs::read(&config).ok() {
        "nothing to do in"
    } else {
        "wrote"
    };
    let mode = match mode {
        Mode::Native => "native",
        Mode::Shared => "shared",
    };
    if !json {
        let others = if foreign {
            " (another program has written here and may still run)"
        } else {
            ""
        };
        output::line(&format!(
            "{did} {}: mode {mode}{others}, transport {kind}",
            shown(&config)
        ))?;
    }
    let client = match &wiring {
        Some(wiring) => Some(wiring.write(args.yes, json)?),
        None if !json => {
            output::line("next: claude mcp add --scope user agent-coord -- muster bus serve")?;
            None
        }
        None => None,
    };
    if !json {
        return Ok(());
    }
    let mut said = Map::new();
    said.insert("dir".to_owned(), json!(home.root()));
    said.insert("config".to_owned(), json!(config));
    said.insert("mode".to_owned(), mode.into());
    said.insert("transport".to_owned(), kind.as_str().into());
    said.extend(client.map(|client| ("client".to_owned(), client)));
    output::document(&said.into())
}

/// What every client's entry says.
struct Entry {
    /// As the client finds it.
    program: String,
    id: Option<SeatId>,
    /// Where it is not the one that is found without it.
    dir: Option<String>,
    /// The project whose settings are meant, instead of the user's.
    project: Option<PathBuf>,
}

impl Entry {
    /// The variables that the server needs from the client.
    fn env(&self) -> Vec<(&'static str, String)> {
        let id = self
            .id
            .as_ref()
            .map(|id| ("AGENT_COORD_BOUND_AGENT", id.to_string()));
        let dir = self.dir.clone().map(|dir| ("AGENT_COORD_DIR", dir));
        id.into_iter().chain(dir).collect()
    }
}

/// A text that was edited: what it is now, and each change as a person reads it.
struct Edited {
    text: String,
    shown: Vec<String>,
}

/// One file of a client's settings, and what is done to its text. The text of a file that is absent is empty.
struct Settings {
    path: PathBuf,
    edit: fn(&str, &Entry) -> Result<Edited, String>,
}

/// The wiring of one client.
struct Wiring {
    client: AgentClient,
    entry: Entry,
    files: Vec<Settings>,
}

impl Wiring {
    fn of(client: AgentClient, args: &Init) -> Result<Self, Failure> {
        let id = args.id.as_deref().map(seat).transpose()?;
        let entry = Entry {
            program: program()?,
            id,
            dir: directory(args.dir.as_deref())?,
            project: args.project.as_deref().map(project).transpose()?,
        };
        let files = match client {
            AgentClient::Claude => claude::files(&entry)?,
            AgentClient::Codex => codex::files(&entry)?,
            AgentClient::Gemini => gemini::files(&entry)?,
        };
        let wiring = Self { client, entry, files };
        wiring.edits()?;
        Ok(wiring)
    }

    /// Each file as it is, and as it is to be.
    fn edits(&self) -> Result<Vec<(file::Found, Edited)>, Failure> {
        let edit = |settings: &Settings| {
            let found = file::Found::read(&settings.path)?;
            let mut edited = (settings.edit)(found.text(), &self.entry).map_err(|why| {
                Failure::refused(
                    "settings",
                    format!("{}: {why}. Nothing was changed in it", shown(&settings.path)),
                )
            })?;
            edited.text = file::with_breaks(found.text(), edited.text);
            Ok((found, edited))
        };
        self.files.iter().map(edit).collect()
    }

    /// Shows what is to be written, asks, and writes it.
    fn write(&self, yes: bool, json: bool) -> Result<Value, Failure> {
        let edits = self.edits()?;
        let changed = edits.iter().any(|(_, edited)| !edited.shown.is_empty());
        let say = |text: &str| {
            if json {
                output::notice(text);
                Ok(())
            } else {
                output::line(text)
            }
        };
        for (found, edited) in &edits {
            if edited.shown.is_empty() {
                say(&format!("{}: nothing to change", shown(found.path())))?;
                continue;
            }
            let new = if found.is_there() { "" } else { " (new)" };
            say(&format!("{}{new}:", shown(found.path())))?;
            for line in &edited.shown {
                say(&format!("  {}", terminal(line)))?;
            }
        }
        if changed && !yes && !asked()? {
            return Err(Failure::refused(
                "not_confirmed",
                "nothing was changed in the client's settings",
            ));
        }
        let mut files = Vec::new();
        // Read once more: the client may have written while the person was reading.
        for (found, edited) in self.edits()? {
            let backup = if edited.shown.is_empty() {
                None
            } else {
                found.replace(&edited.text)?
            };
            files.push(json!({"file": found.path(), "changed": !edited.shown.is_empty(), "backup": backup}));
            if let Some(backup) = backup {
                say(&format!(
                    "wrote {}; as it was: {}",
                    shown(found.path()),
                    shown(&backup)
                ))?;
            } else if !edited.shown.is_empty() {
                say(&format!("wrote {}", shown(found.path())))?;
            }
        }
        if self.client == AgentClient::Claude && self.entry.id.is_none() {
            say(
                "no hooks were written, since they read for one agent: name it with --id ID, and the folder it works in with --project DIR",
            )?;
        }
        if let (Some(id), None) = (&self.entry.id, &self.entry.project) {
            say(&format!(
                "every session of this client is {id} now, whatever it works on; --project DIR gives an id to one project"
            ))?;
        }
        if changed {
            say("it counts in sessions that start from now on")?;
        }
        Ok(json!({"name": self.client.as_str(), "files": files}))
    }
}

/// Asks on the terminal whether to write.
fn asked() -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::refused(
            "not_confirmed",
            "there is no terminal to ask on, so nothing was changed in the client's settings; pass --yes to write what is shown above",
        ));
    }
    let mut err = std::io::stderr().lock();
    write!(err, "Write this? [y/N] ").and_then(|()| err.flush())?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn shown(path: &Path) -> String {
    terminal(&path.display().to_string())
}

/// This program, as another one calls it: by its name where that finds it, else by its place.
fn program() -> Result<String, Failure> {
    let this = std::env::current_exe()?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("muster"))
        .find(|file| file.is_file());
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    if found.is_some_and(|found| real(&found).is_some() && real(&found) == real(&this)) {
        return Ok("muster".to_owned());
    }
    text(&this)
}

/// The bus's directory, where it is not the one that `muster bus serve` takes without a word.
fn directory(named: Option<&Path>) -> Result<Option<String>, Failure> {
    let dir = std::path::absolute(folder(named)?)?;
    let usual = std::env::home_dir().map(|home| home.join("agent-coord"));
    if usual.as_deref() == Some(&dir) {
        return Ok(None);
    }
    text(&dir).map(Some)
}

/// A path for a settings file, which holds text.
fn text(path: &Path) -> Result<String, Failure> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::refused(
            "path",
            format!("{path:?} is no UTF-8, so that no settings file can name it; nothing was changed"),
        )
    })
}

/// A project's folder, which is there.
fn project(dir: &Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(dir)
        .ok()
        .filter(|dir| dir.is_dir())
        .ok_or_else(|| {
            Failure::usage(format!(
                "--project {}: there is no such folder; nothing was changed",
                shown(dir)
            ))
        })
}

/// A folder of the user's: what a variable names, else a place in the home folder.
fn users(variable: &str, usual: &str) -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os(variable).filter(|named| !named.is_empty()) {
        return Ok(PathBuf::from(named));
    }
    std::env::home_dir().map(|home| home.join(usual)).ok_or_else(|| {
        Failure::refused(
            "no_home",
            "there is no home folder, so no settings of a client's; nothing was changed",
        )
    })
}
