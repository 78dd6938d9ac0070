//! The acts of a person on packages, and what may start. Never starts anything itself.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use muster_core::{Clock, Fault};

use crate::cache::{Cache, FileChange, InUse, Staged, compare};
use crate::diagnostic::{Code, Diagnostic, shown};
use crate::error::PluginError;
use crate::events::EventLog;
use crate::inspect::{Inspection, KnownTool, Listed, known};
use crate::ledger::{Book, Capability, Installed, Ledger, make_folder};
use crate::manifest::{self, Checked};
use crate::names::{Kind, ServerKey, StableId, Target};
use crate::package::{Launch, Package};
use crate::processes;
use crate::standing::Standing;
use crate::trust::{Act, Facts, Status, after, status};
use crate::verify::Depth;

/// Packages in one data folder. Cheap to clone; every clone sees the same.
#[derive(Debug, Clone)]
pub struct Host {
    data: PathBuf,
    pub(crate) book: Book,
    pub(crate) cache: Cache,
    pub(crate) clock: Clock,
}

/// A server that may start, with its copy verified and kept while this lives.
#[derive(Debug)]
pub struct Ready {
    /// Which server.
    pub key: ServerKey,
    /// The stored copy it runs from.
    pub root: PathBuf,
    /// The folder for its package's state. It may not exist.
    pub data_dir: PathBuf,
    /// How it is reached.
    pub launch: Launch,
    /// What was approved.
    pub definition: String,
    pub(crate) family: crate::package::Family,
    pub(crate) host: Host,
    pub(crate) _in_use: InUse,
}

/// What a decision was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// The server or hook.
    pub id: StableId,
    /// Its definition.
    pub hash: String,
}

/// What an agent may be given.
#[derive(Debug, Clone, Default)]
pub struct Approved {
    /// Servers that start, in the order of their names.
    pub servers: Vec<ServerKey>,
    /// Servers that are approved and do not start, with the reason.
    pub withheld: Vec<(ServerKey, String)>,
}

impl Host {
    /// Packages in the data folder `data`. Nothing is read or made yet.
    #[must_use]
    pub fn new(data: &Path, clock: Clock) -> Self {
        // A server runs elsewhere, where a relative path would lead elsewhere.
        let data = std::path::absolute(data).unwrap_or_else(|_| data.to_path_buf());
        let plugins = data.join("plugins");
        Self {
            book: Book::new(&plugins),
            cache: Cache::new(&plugins),
            clock,
            data,
        }
    }

    /// The event log.
    #[must_use]
    pub fn events(&self) -> EventLog {
        EventLog::new(&self.data.join("plugins"), self.clock.clone())
    }

    /// Where `settings.json` is.
    #[must_use]
    pub fn settings_path(&self) -> PathBuf {
        self.data.join("settings.json")
    }

    /// The folder for the state of a package. Nothing makes it but the package itself.
    #[must_use]
    pub fn data_dir(&self, plugin: &str) -> PathBuf {
        self.data.join("plugins/data").join(plugin)
    }

    /// The folder for servers whose agent has none of its own, made when it is not there.
    ///
    /// # Errors
    /// A fault, when it cannot be made.
    pub fn work_dir(&self) -> Result<PathBuf, Fault> {
        let folder = self.data.join("plugins/work");
        make_folder(&folder)?;
        Ok(folder)
    }

    /// Ends what servers of this data folder left behind when their launcher and muster were both killed; gives how many processes there were. What
    /// stands below a living launcher belongs to somebody's session. A process that threw its variables away is not known (Linux; elsewhere none is).
    pub fn end_orphans(&self) -> usize {
        let cache = self.data.join("plugins/cache");
        let spelled = |folder: &Path| [b"MUSTER_PLUGIN_ROOT=", folder.as_os_str().as_bytes(), b"/"].concat();
        let roots = [
            spelled(&cache),
            spelled(&cache.canonicalize().unwrap_or(cache.clone())),
        ];
        processes::end_orphans(|variables| {
            variables
                .iter()
                .any(|one| roots.iter().any(|root| one.starts_with(root)))
        })
    }

    /// Looks at a folder as a package.
    #[must_use]
    pub fn validate(&self, folder: &Path) -> Checked {
        manifest::validate(folder)
    }

    /// Installs the package in `folder`. Nothing of it starts before a review.
    ///
    /// # Errors
    /// [`PluginError::Invalid`] and [`PluginError::NameTaken`], with nothing stored; a fault.
    pub fn install(&self, folder: &Path) -> Result<String, PluginError> {
        let checked = self.validate(folder);
        if !checked.ok() {
            return Err(PluginError::Invalid(checked.diagnostics));
        }
        let staged = self.cache.stage(folder)?;
        let Some(package) = staged.checked.package.clone() else {
            return Err(PluginError::Invalid(staged.checked.diagnostics.clone()));
        };
        let source = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        self.change(|ledger| {
            if ledger.packages.contains_key(&package.id) {
                return Err(PluginError::NameTaken(package.id.clone()));
            }
            let installed = self.place(&staged, &package, source)?;
            ledger.packages.insert(package.id.clone(), installed);
            Ok(package.id.clone())
        })
    }

    fn place(&self, staged: &Staged, package: &Package, source: PathBuf) -> Result<Installed, Fault> {
        let digest = self.cache.place(staged, &package.id)?;
        let capabilities = package
            .reviewed(&digest)
            .into_iter()
            .map(|(id, hash)| package.capability(id, hash))
            .collect();
        Ok(Installed {
            name: package.name.clone(),
            version: package.version.clone(),
            source,
            digest,
            at: self.clock.now(),
            problems: staged.checked.diagnostics.clone(),
            capabilities,
        })
    }

    /// Takes the folder again that a package came from. What is approved stays so only while its definition is the same.
    ///
    /// # Errors
    /// [`PluginError::InvalidUpdate`]: the stored copy stays, and nothing of the package starts until an update without errors.
    /// [`PluginError::NoFolder`]: there was nothing to read, and nothing was changed.
    pub fn update(&self, plugin: &str) -> Result<(), PluginError> {
        let source = self.installed(&self.book.read()?, plugin)?.source.clone();
        // A disk that is not mounted says nothing about the package.
        if let Err(error) = std::fs::read_dir(&source) {
            return Err(PluginError::NoFolder {
                plugin: plugin.to_owned(),
                folder: shown(&source.to_string_lossy()),
                why: error.kind(),
            });
        }
        self.update_from(plugin, &source)
    }

    /// As [`Host::update`], from the folder that the ledger named a moment ago.
    fn update_from(&self, plugin: &str, source: &Path) -> Result<(), PluginError> {
        let checked = self.validate(source);
        let staged = if checked.ok() {
            Some(self.cache.stage(source)?)
        } else {
            None
        };
        let mut checked = staged.as_ref().map_or(checked, |staged| staged.checked.clone());
        if let Some(package) = &checked.package
            && package.id != plugin
        {
            let message = format!(
                "the package is called {} now; install it as a package of its own",
                package.id
            );
            checked
                .diagnostics
                .insert(0, Diagnostic::error(Code::InvalidPluginId, message).at("name"));
            checked.package = None;
        }
        let package = checked.package.clone();
        let refused = self.change(|ledger| {
            // Whoever removed it meanwhile and installed it from elsewhere wants that, and not what is here.
            if self.installed(ledger, plugin)?.source != source {
                return Err(PluginError::Moved(plugin.to_owned()));
            }
            match (&package, &staged) {
                (Some(package), Some(staged)) => {
                    let installed = self.place(staged, package, source.to_path_buf())?;
                    ledger.packages.insert(plugin.to_owned(), installed);
                    Ok::<_, PluginError>(false)
                }
                _ => {
                    if let Some(installed) = ledger.packages.get_mut(plugin) {
                        installed.problems.clone_from(&checked.diagnostics);
                    }
                    Ok(true)
                }
            }
        })?;
        if refused {
            return Err(PluginError::InvalidUpdate(checked.diagnostics));
        }
        Ok(())
    }

    /// Removes a package and forgets what was decided about it. Sessions that run from it keep it until they end; its state stays.
    ///
    /// # Errors
    /// [`PluginError::NotFound`]; a fault.
    pub fn remove(&self, plugin: &str) -> Result<(), PluginError> {
        self.change(|ledger| {
            self.installed(ledger, plugin)?;
            ledger.forget(plugin);
            Ok(())
        })
    }

    /// Every installed package, by id.
    ///
    /// # Errors
    /// A fault.
    pub fn list(&self) -> Result<Vec<Listed>, PluginError> {
        let ledger = self.book.read()?;
        Ok(ledger
            .packages
            .iter()
            .map(|(id, installed)| Listed {
                id: id.clone(),
                name: installed.name.clone(),
                version: installed.version.clone(),
                source: installed.source.to_string_lossy().into_owned(),
            })
            .collect())
    }

    /// Everything about one package that a person needs for a review.
    ///
    /// # Errors
    /// [`PluginError::NotFound`]; a fault.
    pub fn inspect(&self, plugin: &str) -> Result<Inspection, PluginError> {
        let look = |ledger: &Ledger| {
            let installed = self.installed(ledger, plugin)?;
            let stored = self.cache.verify(plugin, &installed.digest, Depth::Stamps);
            let broken = stored.as_ref().err().map(ToString::to_string);
            let seen = Inspection::of(self, ledger, plugin, installed, broken.as_deref());
            Ok::<_, PluginError>((seen, broken.is_some()))
        };
        let (seen, broken) = look(&self.book.read()?)?;
        if !broken {
            return Ok(seen);
        }
        // As in `ready`. Who may only read the folder is told what was seen first.
        match self.book.still(look) {
            Ok(again) => Ok(again?.0),
            Err(_) => Ok(seen),
        }
    }

    /// Reads every byte of a stored copy again, whatever its stamps say.
    ///
    /// # Errors
    /// [`PluginError::NotFound`]; a fault.
    pub fn reread(&self, plugin: &str) -> Result<bool, PluginError> {
        let ledger = self.book.read()?;
        let installed = self.installed(&ledger, plugin)?;
        Ok(self.cache.verify(plugin, &installed.digest, Depth::Bytes).is_ok())
    }

    /// What changed in the package since the decision about `id`, file by file; `None` without a decision, or when what was decided about is not known
    /// any more.
    ///
    /// # Errors
    /// [`PluginError::NotFound`]; a fault.
    pub fn changes_since_decision(&self, id: &StableId) -> Result<Option<Vec<FileChange>>, PluginError> {
        let ledger = self.book.read()?;
        let installed = self.installed(&ledger, &id.plugin)?;
        let Some(decision) = ledger.trust(id).decision else {
            return Ok(None);
        };
        let indexes = self
            .cache
            .index(&id.plugin, &decision.package)
            .zip(self.cache.index(&id.plugin, &installed.digest));
        Ok(indexes.map(|(old, new)| compare(&old, &new)))
    }

    /// Approves, rejects, enables or disables what `target` names: all of it or, when one part is refused, none.
    ///
    /// `hash`: refuse unless this is the definition hash now.
    ///
    /// # Errors
    /// [`PluginError::NotFound`], [`PluginError::HashMismatch`], [`PluginError::NotAllowed`]; a fault.
    pub fn decide(&self, target: &Target, act: Act, hash: Option<&str>) -> Result<Vec<Decided>, PluginError> {
        let now = self.clock.now();
        self.change(|ledger| {
            let mut decided = Vec::new();
            let installed = self.installed(ledger, target.plugin())?.clone();
            let meant: Vec<&Capability> = installed
                .capabilities
                .iter()
                .filter(|one| match target {
                    Target::Plugin(_) => true,
                    Target::One(id) => one.id == *id,
                })
                .collect();
            if let (true, Target::One(id)) = (meant.is_empty(), target) {
                return Err(PluginError::NotFound(id.to_string()));
            }
            match (hash, meant.as_slice()) {
                (None, _) => {}
                (Some(hash), [one]) if one.hash == hash => {}
                (Some(_), [one]) => {
                    return Err(PluginError::HashMismatch {
                        now: one.hash.clone(),
                    });
                }
                (Some(_), _) => return Err(PluginError::HashOfMany),
            }
            let stored = self
                .cache
                .verify(target.plugin(), &installed.digest, Depth::Stamps)
                .is_ok();
            for one in meant {
                let trust = ledger.trust(&one.id);
                let facts = facts(&installed, one, stored, &trust);
                let new = after(&facts, act, now).map_err(|why| PluginError::NotAllowed {
                    what: one.id.to_string(),
                    why,
                    status: status(&facts),
                })?;
                let changed_tools = ledger.pins.get(&one.id).is_some_and(|pins| {
                    !pins.changed.is_empty()
                        || !pins.gone.is_empty()
                        || !pins.too_long.is_empty()
                        || !pins.fits()
                });
                if act == Act::Approve && (new != trust || changed_tools) {
                    // The tools are pinned anew at the first start after an approval.
                    ledger.pins.remove(&one.id);
                }
                ledger.trust.insert(one.id.clone(), new);
                decided.push(Decided {
                    id: one.id.clone(),
                    hash: one.hash.clone(),
                });
            }
            Ok(decided)
        })
    }

    /// What the sessions of now may be given. Copies are not verified here; [`Host::ready`] does that.
    ///
    /// # Errors
    /// A fault.
    pub fn approved(&self) -> Result<Approved, PluginError> {
        Ok(Self::approved_in(&self.book.read()?))
    }

    pub(crate) fn approved_in(ledger: &Ledger) -> Approved {
        let all = trusted(ledger);
        let mut approved = Approved::default();
        for key in &all {
            match all
                .iter()
                .find(|other| *other != key && other.entry() == key.entry())
            {
                None => approved.servers.push(key.clone()),
                Some(other) => approved.withheld.push((
                    key.clone(),
                    PluginError::NameCollision {
                        what: key.to_string(),
                        other: other.to_string(),
                    }
                    .to_string(),
                )),
            }
        }
        approved
    }

    /// Tells again and again which servers may start, for who serves many calls.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing::new(self.clone())
    }

    /// The definition hash of each server that may start, as the ledger has it. Copies are not verified here.
    pub(crate) fn definitions(&self) -> Result<BTreeMap<ServerKey, String>, PluginError> {
        let ledger = self.book.read()?;
        let servers = Self::approved_in(&ledger).servers;
        let hash = |key: &ServerKey| {
            let installed = ledger.packages.get(&key.plugin)?;
            let one = installed
                .capabilities
                .iter()
                .find(|one| one.id == key.stable_id())?;
            Some(one.hash.clone())
        };
        Ok(servers
            .into_iter()
            .filter_map(|key| hash(&key).map(|hash| (key, hash)))
            .collect())
    }

    /// The tools that are registered under `name`, as they were listed; more than one when names collide.
    ///
    /// # Errors
    /// A fault.
    pub fn tools_named(&self, name: &str) -> Result<Vec<KnownTool>, PluginError> {
        let ledger = self.book.read()?;
        let servers = ledger.pins.keys().map(|id| ServerKey::new(&id.plugin, &id.id));
        Ok(servers
            .filter(|key| name.starts_with(&key.tool_prefix()))
            .flat_map(|key| known(&ledger, &key))
            .filter(|tool| tool.registered == name)
            .collect())
    }

    /// Verifies a server's copy and answers with all that a start needs.
    ///
    /// # Errors
    /// [`PluginError::NotFound`], [`PluginError::NotRunnable`], [`PluginError::NameCollision`]; a fault.
    pub fn ready(&self, key: &ServerKey) -> Result<Ready, PluginError> {
        match self.look(&self.book.read()?, key) {
            Err(PluginError::NotRunnable {
                status: Status::Blocked,
                ..
            }) => {}
            other => return other,
        }
        // An act of another process may have taken the copy away since the ledger was read. Under its lock nothing moves.
        self.book.still(|ledger| self.look(ledger, key))?
    }

    fn look(&self, ledger: &Ledger, key: &ServerKey) -> Result<Ready, PluginError> {
        let id = key.stable_id();
        let missing = || PluginError::NotFound(key.to_string());
        let installed = ledger.packages.get(&key.plugin).ok_or_else(missing)?;
        let one = installed
            .capabilities
            .iter()
            .find(|one| one.id == id)
            .ok_or_else(missing)?;
        let in_use = self.cache.hold(&key.plugin, &installed.digest)?;
        let trust = ledger.trust(&id);
        let root = self.cache.root(&key.plugin, &installed.digest);
        let stored = self
            .cache
            .verify(&key.plugin, &installed.digest, Depth::Stamps)
            .is_ok()
            && in_use.is_some();
        let refused = |status: Status| PluginError::NotRunnable {
            what: key.to_string(),
            status,
            advice: crate::inspect::advice(status, &key.plugin),
        };
        let in_use = match (status(&facts(installed, one, stored, &trust)), in_use) {
            (Status::TrustedEnabled, Some(in_use)) => in_use,
            (Status::TrustedEnabled, None) => return Err(refused(Status::Blocked)),
            (other, _) => return Err(refused(other)),
        };
        // What is started is read from the verified copy, not from what the ledger says of it.
        let package = manifest::validate(&root)
            .package
            .filter(|package| package.id == key.plugin)
            .ok_or_else(|| refused(Status::Blocked))?;
        let hash = package
            .reviewed(&installed.digest)
            .into_iter()
            .find_map(|(found, hash)| (found == id).then_some(hash));
        let server = package.server(&key.server);
        let (Some(server), true) = (server, hash.as_ref() == Some(&one.hash)) else {
            return Err(refused(Status::Blocked));
        };
        let others: Vec<ServerKey> = trusted(ledger).into_iter().filter(|other| other != key).collect();
        if let Some(other) = others.iter().find(|other| other.entry() == key.entry()) {
            return Err(PluginError::NameCollision {
                what: key.to_string(),
                other: other.to_string(),
            });
        }
        Ok(Ready {
            key: key.clone(),
            root,
            data_dir: self.data_dir(&key.plugin),
            launch: server.launch.clone(),
            definition: one.hash.clone(),
            family: package.family,
            host: self.clone(),
            _in_use: in_use,
        })
    }

    fn installed<'a>(&self, ledger: &'a Ledger, plugin: &str) -> Result<&'a Installed, PluginError> {
        ledger
            .packages
            .get(plugin)
            .ok_or_else(|| PluginError::NotFound(format!("package {}", crate::diagnostic::shown(plugin))))
    }

    /// Changes the ledger. Copies go when the ledger that does not name them stands on the disk, never before: an act that fails, or is killed, leaves
    /// every copy that was approved. What a killed one left over goes at the next.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Ledger) -> Result<T, PluginError>,
    ) -> Result<T, PluginError> {
        self.book.change(change, |ledger| self.sweep(ledger))
    }

    fn sweep(&self, ledger: &Ledger) {
        let keep = ledger
            .packages
            .iter()
            .map(|(id, installed)| (id.clone(), installed.digest.clone()))
            .collect();
        let listings = ledger
            .trust
            .iter()
            .filter_map(|(id, trust)| Some((id.plugin.clone(), trust.decision.as_ref()?.package.clone())))
            .collect();
        self.cache.sweep(&keep, &listings);
    }
}

pub(crate) fn facts<'a>(
    installed: &'a Installed,
    one: &'a Capability,
    stored: bool,
    trust: &'a crate::trust::Trust,
) -> Facts<'a> {
    Facts {
        stored,
        valid: !installed.problems.iter().any(Diagnostic::is_error),
        hash: &one.hash,
        package: &installed.digest,
        trust,
    }
}

/// Every server that is approved and on, whatever its copy looks like.
fn trusted(ledger: &Ledger) -> Vec<ServerKey> {
    ledger
        .packages
        .values()
        .flat_map(|installed| installed.capabilities.iter().map(move |one| (installed, one)))
        .filter(|(installed, one)| {
            let trust = ledger.trust(&one.id);
            one.id.kind == Kind::McpServer
                && status(&facts(installed, one, true, &trust)) == Status::TrustedEnabled
        })
        .map(|(_, one)| ServerKey::new(&one.id.plugin, &one.id.id))
        .collect()
}

/// The registered names of the tools of all approved servers but `key`, as far as they are known: as they were pinned, and what was listed since.
pub(crate) fn taken(ledger: &Ledger, key: &ServerKey) -> BTreeSet<String> {
    let mut taken = BTreeSet::new();
    for other in trusted(ledger).into_iter().filter(|other| other != key) {
        if let Some(pins) = ledger.pins.get(&other.stable_id()) {
            taken.extend(
                pins.tools
                    .keys()
                    .chain(&pins.changed)
                    .map(|tool| other.tool(tool)),
            );
        }
    }
    taken
}
