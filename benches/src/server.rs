//! Runs the real release program as its users do: commands, the server, its memory, its end. Never measures a debug build.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use muster_core::secret::random_hex;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// The account that everything is measured with.
pub(crate) const OWNER: &str = "bench";

/// The program `muster`.
#[derive(Debug, Clone)]
pub(crate) struct Muster {
    program: PathBuf,
}

/// A fresh data folder, or a fresh database beside one, gone when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
    url: String,
    password: String,
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// From before the process was made until it said that it listens.
    pub(crate) listened_after: Duration,
}

impl Muster {
    /// The program at `given`, or the release build of this workspace, brought up to date first.
    pub(crate) fn find(given: Option<PathBuf>) -> Result<Self> {
        if let Some(program) = given {
            let program = program
                .canonicalize()
                .with_context(|| format!("{} is not there", program.display()))?;
            return Ok(Self { program });
        }
        let own = std::env::current_exe().context("this program does not know where it lies")?;
        let folder = own.parent().context("this program lies in no folder")?;
        if !folder.ends_with("release") {
            bail!(
                "figures of a debug build say nothing: run cargo run --release -p muster-bench, or name a program with --muster"
            );
        }
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build
            .args(["build", "--release", "--package", "muster"])
            .current_dir(workspace()?);
        if let Some(target) = folder.parent() {
            build.arg("--target-dir").arg(target);
        }
        let built = build
            .status()
            .context("cargo could not be started to build muster")?;
        if !built.success() {
            bail!("muster could not be built");
        }
        Ok(Self {
            program: folder.join("muster"),
        })
    }

    /// The program's file.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A command that knows nothing of the caller's own muster.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MUSTER_"))
        {
            command.env_remove(name);
        }
        command
    }

    /// What it calls itself.
    pub(crate) fn version(&self) -> Result<String> {
        let output = self
            .command()
            .arg("--version")
            .output()
            .context("muster could not be started")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}

/// The root of the workspace.
pub(crate) fn workspace() -> Result<PathBuf> {
    let own = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = std::env::current_dir().context("there is no current folder")?;
    let starts = own.into_iter().chain([here]);
    let root = |start: PathBuf| {
        let mut folders = start.ancestors();
        folders
            .find(|folder| folder.join("Cargo.lock").is_file() && folder.join("benches").is_dir())
            .map(Path::to_path_buf)
    };
    starts
        .into_iter()
        .find_map(root)
        .context("run this inside muster's repository")
}

impl Place {
    /// A new SQLite database with an owner below `parent`.
    pub(crate) fn sqlite(muster: &Muster, parent: &Path) -> Result<Self> {
        let folder = TempDir::with_prefix_in("data-", parent).context("no data folder could be made")?;
        let url = format!("sqlite://{}", folder.path().join("muster.db").display());
        Self {
            folder,
            url,
            password: random_hex::<8>()?,
        }
        .with_owner(muster)
    }

    /// An owner in the empty Postgres database `url`; the data folder below `parent` holds what no database does.
    pub(crate) fn postgres(muster: &Muster, parent: &Path, url: String) -> Result<Self> {
        let folder = TempDir::with_prefix_in("data-", parent).context("no data folder could be made")?;
        Self {
            folder,
            url,
            password: random_hex::<8>()?,
        }
        .with_owner(muster)
    }

    fn with_owner(self, muster: &Muster) -> Result<Self> {
        let mut command = self.command(muster);
        command.args(["owner", "add", OWNER, "--password-stdin"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("muster could not be started")?;
        if let Some(mut input) = child.stdin.take() {
            writeln!(input, "{}", self.password)?;
        }
        if !child.wait()?.success() {
            bail!("muster owner add failed");
        }
        Ok(self)
    }

    /// The database's address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The data folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The owner's password.
    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    /// A command of muster's on this place.
    pub(crate) fn command(&self, muster: &Muster) -> Command {
        let mut command = muster.command();
        command
            .env("MUSTER_DATA_DIR", self.folder())
            .env("MUSTER_DATABASE_URL", &self.url);
        command
    }

    /// Starts the server as its README says, on a free port, and waits until it listens.
    pub(crate) fn serve(&self, muster: &Muster, settings: &[(&str, &str)]) -> Result<Server> {
        let log = self.folder().join("server.log");
        let mut command = self.command(muster);
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("MUSTER_PLUGINS", "1")
            .envs(settings.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log)?);
        let begun = Instant::now();
        let mut child = command.spawn().context("muster could not be started")?;
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let listened_after = begun.elapsed();
        let Some(address) = line
            .trim()
            .strip_prefix("listening on http://")
            .and_then(|text| text.parse().ok())
        else {
            // It said no address, so it is ending or of no use.
            child.kill()?;
            child.wait()?;
            bail!(
                "muster serve did not start: {}",
                std::fs::read_to_string(&log).unwrap_or_default()
            );
        };
        Ok(Server {
            child,
            address,
            listened_after,
        })
    }
}

impl Server {
    /// Its resident memory in KiB, as the kernel counts it page by page.
    pub(crate) fn resident(&self) -> Result<f64> {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id()))
            .context("the memory of muster cannot be read")?;
        rollup
            .lines()
            .find_map(|line| line.strip_prefix("Rss:"))
            .and_then(|rest| rest.trim().strip_suffix(" kB"))
            .and_then(|number| number.trim().parse().ok())
            .context("the kernel says nothing about the memory of muster")
    }

    /// Ends it in order.
    pub(crate) fn stop(mut self) -> Result<()> {
        let pid = i32::try_from(self.child.id()).context("a process id is too large")?;
        kill(Pid::from_raw(pid), Signal::SIGTERM)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("muster serve ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After `stop` it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
