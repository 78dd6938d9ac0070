//! The settings in force: flags beat environment beats `muster.toml`. Never applies a bad value.

mod check;
mod table;

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use muster_core::Secret;
use muster_core::clock::parse_duration;

use crate::cli::Cli;
use crate::output::Failure;

use check::origin;
pub(crate) use table::{Preset, Takes, VARIABLES, Variable, docs};

/// Variables that are read elsewhere and are no settings of this table.
const ELSEWHERE: &[&str] = &[
    "MUSTER_TEST_CLOCK",
    "MUSTER_CONNECTOR_TOKEN",
    "MUSTER_MCP_URL",
    "MUSTER_AGENT_TOKEN",
    "MUSTER_SESSION_ID",
    "MUSTER_MCP_CONFIG",
    "MUSTER_CONVERSATION",
];

/// The settings in force.
pub(crate) struct Config {
    values: BTreeMap<&'static str, (String, &'static str)>,
    /// The data folder.
    pub(crate) data_dir: PathBuf,
}

fn bad(name: &str, reason: &str) -> Failure {
    Failure::refused(
        "bad_setting",
        format!("{name} has a value muster cannot use: {reason}. Nothing was started"),
    )
}

impl Config {
    /// Reads flags, environment and file, in that order of force, and checks every value.
    pub(crate) fn load(cli: &Cli) -> Result<Self, Failure> {
        let mut values = BTreeMap::new();
        for variable in VARIABLES {
            match std::env::var(variable.name) {
                Ok(text) if !text.is_empty() => drop(values.insert(variable.name, (text, "environment"))),
                Ok(_) | Err(std::env::VarError::NotPresent) => {}
                Err(std::env::VarError::NotUnicode(_)) => return Err(bad(variable.name, "it is not UTF-8")),
            }
        }
        if let Some(dir) = &cli.data_dir {
            values.insert("MUSTER_DATA_DIR", (dir.to_string_lossy().into_owned(), "flag"));
        }
        if let Some(url) = &cli.database_url {
            values.insert("MUSTER_DATABASE_URL", (url.clone(), "flag"));
        }
        let data_dir = match values.get("MUSTER_DATA_DIR") {
            Some((dir, _)) => PathBuf::from(dir),
            None => default_data_dir()?,
        };
        read_file(&data_dir.join("muster.toml"), &mut values)?;
        for variable in VARIABLES {
            if let Some((text, _)) = values.get(variable.name) {
                (variable.check)(text).map_err(|reason| bad(variable.name, &reason))?;
            }
        }
        Ok(Self { values, data_dir })
    }

    /// The tour's own settings: a folder of its own and plugins on, whatever the environment says.
    pub(crate) fn tour(&mut self, folder: &Path) -> Result<(), Failure> {
        for name in [
            "MUSTER_DATABASE_URL",
            "MUSTER_PUBLIC_URL",
            "MUSTER_HOOK_TOKEN",
            "MUSTER_INSECURE",
        ] {
            self.values.remove(name);
        }
        self.data_dir = folder.to_owned();
        if self.text("MUSTER_LOG").is_none() {
            self.flag("MUSTER_LOG", Some("warn".to_owned()))?;
        }
        self.flag("MUSTER_PLUGINS", Some("1".to_owned()))
    }

    /// Puts a flag of a command over what was read.
    pub(crate) fn flag(&mut self, name: &'static str, value: Option<String>) -> Result<(), Failure> {
        if let (Some(value), Some(variable)) = (value, VARIABLES.iter().find(|v| v.name == name)) {
            (variable.check)(&value).map_err(|reason| bad(name, &reason))?;
            self.values.insert(name, (value, "flag"));
        }
        Ok(())
    }

    /// A setting's text, when it is set.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|(text, _)| text.as_str())
    }

    /// A setting and where it comes from.
    pub(crate) fn origin(&self, name: &str) -> Option<(&str, &'static str)> {
        self.values.get(name).map(|(text, from)| (text.as_str(), *from))
    }

    /// What is in force for a setting, set or not; `None` where nothing is, or only a running server knows.
    pub(crate) fn in_force(&self, variable: &Variable) -> Option<String> {
        if let Some(text) = self.text(variable.name) {
            return Some(text.to_owned());
        }
        match (variable.default, variable.name) {
            (Preset::Value(text), _) => Some(text.to_owned()),
            (_, "MUSTER_DATA_DIR") => Some(self.data_dir.display().to_string()),
            (_, "MUSTER_DATABASE_URL") => Some(self.database_url()),
            _ if variable.takes == Takes::Switch => Some("0".to_owned()),
            _ => None,
        }
    }

    /// Whether a switch is on: only as `1`.
    pub(crate) fn on(&self, name: &str) -> bool {
        self.text(name) == Some("1")
    }

    /// A duration, or its default.
    pub(crate) fn duration(&self, name: &str, default: Duration) -> Duration {
        self.text(name)
            .and_then(|text| parse_duration(text).ok())
            .unwrap_or(default)
    }

    /// A secret, when it is set.
    pub(crate) fn secret(&self, name: &str) -> Option<Secret> {
        self.text(name).map(Secret::new)
    }

    /// The address people use as a browser names it, when it is set.
    pub(crate) fn public_url(&self) -> Option<String> {
        self.text("MUSTER_PUBLIC_URL").and_then(|text| origin(text).ok())
    }

    /// The file of the database, when it is one.
    pub(crate) fn database_file(&self) -> Option<PathBuf> {
        self.database_url().strip_prefix("sqlite://").map(PathBuf::from)
    }

    /// The database's address.
    pub(crate) fn database_url(&self) -> String {
        self.text("MUSTER_DATABASE_URL").map_or_else(
            || format!("sqlite://{}", self.data_dir.join("muster.db").display()),
            str::to_owned,
        )
    }

    /// The data folder's own database file, when it is what counts and is not there.
    pub(crate) fn missing_file(&self) -> Option<PathBuf> {
        let own = self.text("MUSTER_DATABASE_URL").is_none();
        own.then(|| self.data_dir.join("muster.db")).filter(|file| {
            std::fs::symlink_metadata(file).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        })
    }

    /// The flag without which a command of this user would work on other data; empty where the data folder is the usual one.
    pub(crate) fn command_needs(&self) -> String {
        let folder = std::path::absolute(&self.data_dir).unwrap_or_else(|_| self.data_dir.clone());
        if default_data_dir().is_ok_and(|usual| usual == folder) {
            return String::new();
        }
        let folder = folder.to_string_lossy();
        let quoted = shlex::try_quote(&folder).unwrap_or_default();
        format!("--data-dir {quoted}")
    }

    /// Makes the data folder, for its user alone.
    pub(crate) fn make_data_dir(&self) -> Result<(), Failure> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.data_dir)
            .map_err(|error| {
                Failure::refused(
                    "data_dir",
                    format!(
                        "the data folder {} could not be made: {error}. Choose another with --data-dir",
                        self.data_dir.display()
                    ),
                )
            })
    }

    /// Variables in the environment that begin with MUSTER_ and that muster does not know: most likely a slip of the pen.
    pub(crate) fn unknown() -> Vec<String> {
        std::env::vars_os()
            .filter_map(|(name, _)| name.into_string().ok())
            .filter(|name| {
                name.starts_with("MUSTER_")
                    && !ELSEWHERE.contains(&name.as_str())
                    && !VARIABLES.iter().any(|v| v.name == name)
            })
            .collect()
    }
}

fn default_data_dir() -> Result<PathBuf, Failure> {
    let set = |name: &str| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    set("XDG_DATA_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/share")))
        .map(|base| base.join("muster"))
        .ok_or_else(|| {
            Failure::refused(
                "data_dir",
                "neither XDG_DATA_HOME nor HOME names a folder; say where to keep data with --data-dir",
            )
        })
}

fn read_file(
    path: &Path,
    values: &mut BTreeMap<&'static str, (String, &'static str)>,
) -> Result<(), Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        // Without the folder there is no file; what lies in the folder's place is named when the folder is made.
        Err(error)
            if matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            ) =>
        {
            return Ok(());
        }
        Err(error) => {
            return Err(Failure::refused(
                "bad_setting",
                format!(
                    "{} could not be read: {error}. Nothing was started",
                    path.display()
                ),
            ));
        }
    };
    let refuse = |reason: String| {
        Failure::refused(
            "bad_setting",
            format!("{}: {reason}. Nothing was started", path.display()),
        )
    };
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| refuse(error.message().to_owned()))?;
    for (key, value) in table {
        let name = format!("MUSTER_{}", key.to_ascii_uppercase());
        let known = VARIABLES
            .iter()
            .find(|v| v.name == name && v.name != "MUSTER_DATA_DIR");
        let variable = known.ok_or_else(|| {
            refuse(format!(
                "there is no setting {key:?}; muster config docs lists them"
            ))
        })?;
        let text = variable
            .takes
            .text(value)
            .map_err(|reason| refuse(format!("{key} {reason}")))?;
        values.entry(variable.name).or_insert((text, "muster.toml"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_needs_the_flag_only_where_the_data_is_not_in_the_usual_folder() {
        let needs = |data_dir: PathBuf| {
            let values = BTreeMap::new();
            Config { values, data_dir }.command_needs()
        };
        assert_eq!(needs(default_data_dir().unwrap()), "");
        assert_eq!(
            needs(PathBuf::from("/srv/mus'ter; x")),
            "--data-dir \"/srv/mus'ter; x\""
        );
        let here = std::env::current_dir().unwrap().join("data");
        assert_eq!(
            needs(PathBuf::from("data")),
            format!("--data-dir {}", here.display())
        );
    }
}
