//! Throw-away Postgres clusters for tests and benches: private, reached by unix socket only, gone when stopped. Never touches a cluster it did not make.
//!
//! Postgres refuses to run as root. When root calls, every program of Postgres runs as the system user `postgres`
//! through `setpriv`; anybody else runs them as themselves.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Role that may do everything; the tests make and drop databases with it.
pub const ADMIN: &str = "postgres";
/// Role that muster runs as: owns its databases, is bound by row-level security, may create nothing outside them.
pub const APP: &str = "muster_app";

/// Lies in each folder made here. A folder without it is never stopped or removed.
const MARK: &str = "muster-test-cluster";
/// The longest path that a unix socket's address holds, less the name that Postgres appends.
const LONGEST_SOCKET_FOLDER: usize = 107 - "/.s.PGSQL.5432".len();
/// Above what the widest test opens at once (several servers, each with its pools, beside the tests' own).
const MAX_CONNECTIONS: u32 = 400;

/// What happened to a cluster, as a sentence for the person who runs the tests.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// `fsync` is off: quick, and right for tests that end Postgres in an orderly way or only kill its clients.
    Fast,
    /// `fsync` stays on: for benches, and for tests that kill Postgres itself.
    Durable,
}

/// How a running server is brought down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Clients are cut off, their transactions rolled back, and the server ends in order.
    Fast,
    /// As if it had crashed: no checkpoint, recovery at the next start.
    Immediate,
}

/// One cluster. Dropping it stops the server and removes the folder, unless [`Cluster::leave`] was called.
#[derive(Debug)]
pub struct Cluster {
    dir: PathBuf,
    bin: PathBuf,
    left: bool,
}

impl Cluster {
    /// Starts a cluster in the system's folder for temporary files, or in memory where nothing is to outlive a crash and there is room.
    ///
    /// # Errors
    /// Postgres is not installed, or one of its programs failed; the sentence carries what it said.
    pub fn start(durability: Durability) -> Result<Self, Error> {
        Self::start_of(find_bin()?, &folder_for(durability)?, durability)
    }

    /// Starts a cluster in a new folder below `parent`, which must be on the disk to measure when it is for a bench.
    ///
    /// # Errors
    /// As [`Cluster::start`]; also when the path is too long for a unix socket or has unusual characters.
    pub fn start_in(parent: &Path, durability: Durability) -> Result<Self, Error> {
        Self::start_of(find_bin()?, parent, durability)
    }

    /// Starts a cluster of the Postgres whose programs lie in `bin`, rather than of the one that is installed. When root calls, the user
    /// `postgres` must be able to reach that folder.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_from(bin: &Path, durability: Durability) -> Result<Self, Error> {
        Self::start_of(bin.to_path_buf(), &folder_for(durability)?, durability)
    }

    fn start_of(bin: PathBuf, parent: &Path, durability: Durability) -> Result<Self, Error> {
        let dir = new_folder(parent)?;
        // From here on dropping `cluster` cleans up, whatever fails.
        let cluster = Self {
            dir,
            bin,
            left: false,
        };
        cluster.set_up(durability)?;
        cluster.resume()?;
        cluster.create_roles()?;
        Ok(cluster)
    }

    /// Takes over a cluster that [`Cluster::leave`] left running.
    ///
    /// # Errors
    /// `dir` was not made here, or Postgres is not installed any more.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        if !dir.join(MARK).is_file() {
            let dir = dir.display();
            return Err(Error(format!(
                "{dir} is not the folder of a test cluster, so it was left alone. \
                 Name the folder that `cargo xtask pg start` printed."
            )));
        }
        Ok(Self {
            dir: dir.to_path_buf(),
            bin: find_bin()?,
            left: false,
        })
    }

    /// Leaves the server running and gives its folder, to be stopped later through [`Cluster::open`].
    #[must_use = "the folder is the only way to stop the server later"]
    pub fn leave(mut self) -> PathBuf {
        self.left = true;
        self.dir.clone()
    }

    /// Stops the server and removes its folder.
    ///
    /// # Errors
    /// The server did not stop, or the folder could not be removed.
    pub fn stop(mut self) -> Result<(), Error> {
        self.left = true;
        self.remove()
    }

    /// Brings the server down; the data stays for [`Cluster::resume`].
    ///
    /// # Errors
    /// `pg_ctl` failed; the sentence carries what it said.
    pub fn halt(&self, how: Shutdown) -> Result<(), Error> {
        let mode = match how {
            Shutdown::Fast => "fast",
            Shutdown::Immediate => "immediate",
        };
        self.run("pg_ctl", &["-D", "data", "-m", mode, "-w", "stop"])
            .map(drop)
    }

    /// Starts the server on the data it has and waits until it answers.
    ///
    /// # Errors
    /// The server did not come up within a minute; the sentence carries the end of its log.
    pub fn resume(&self) -> Result<(), Error> {
        let started = self.run("pg_ctl", &["-D", "data", "-w", "-t", "60", "-l", "log", "start"]);
        started.map(drop).map_err(|Error(sentence)| {
            let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let end = lines
                .get(lines.len().saturating_sub(10)..)
                .unwrap_or_default()
                .join("\n");
            Error(format!("{sentence}\nThe end of its log:\n{end}"))
        })
    }

    /// The folder that holds everything of this cluster.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The folder of Postgres' own programs (`psql`, `pgbench`, `pg_dump`).
    #[must_use]
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// Address of a database of this cluster as `role`. There are no passwords: the socket lies in a private folder.
    #[must_use]
    pub fn url(&self, role: &str, database: &str) -> String {
        format!(
            "postgres://{role}@localhost/{database}?host={}",
            self.dir.display()
        )
    }

    /// Address for the superuser.
    #[must_use]
    pub fn admin_url(&self) -> String {
        self.url(ADMIN, ADMIN)
    }

    /// Address for muster's own role, of an empty database that it owns.
    #[must_use]
    pub fn app_url(&self) -> String {
        self.url(APP, "muster_test")
    }

    fn set_up(&self, durability: Durability) -> Result<(), Error> {
        self.run(
            "initdb",
            &[
                "-D",
                "data",
                "-U",
                ADMIN,
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
                "--no-instructions",
            ],
        )?;
        let settings = settings(&self.dir, durability);
        // In the file, not on the command line, so that a restart keeps them. Appending keeps the file's owner.
        let file = self.dir.join("data/postgresql.conf");
        fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .and_then(|mut open| open.write_all(settings.as_bytes()))
            .map_err(|error| Error(format!("{} could not be written: {error}", file.display())))
    }

    fn create_roles(&self) -> Result<(), Error> {
        let socket = self.dir.to_string_lossy();
        let role = format!("CREATE ROLE {APP} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS");
        let database = format!("CREATE DATABASE muster_test OWNER {APP}");
        let options = [
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            &socket,
            "-U",
            ADMIN,
            "-d",
            ADMIN,
        ];
        let statements = ["-c", &role, "-c", &database];
        self.run("psql", &[&options[..], &statements[..]].concat())
            .map(drop)
    }

    fn remove(&self) -> Result<(), Error> {
        // The data goes next, so nothing is gained by waiting for a checkpoint.
        if self.dir.join("data/postmaster.pid").exists() {
            self.halt(Shutdown::Immediate)?;
        }
        fs::remove_dir_all(&self.dir)
            .map_err(|error| Error(format!("{} could not be removed: {error}", self.dir.display())))
    }

    /// Runs one of Postgres' programs in the cluster's folder, as the user who owns it.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<Output, Error> {
        let path = self.bin.join(program);
        let mut command = if is_root()? {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"])
                .arg(path);
            command
        } else {
            Command::new(path)
        };
        // A PGHOST or PGOPTIONS of the caller's must not lead elsewhere.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .current_dir(&self.dir)
            .stdin(Stdio::null());
        checked(program, command)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !self.left {
            // A drop has nobody to tell; what stays behind is a folder of temporary files.
            let _ = self.remove();
        }
    }
}

/// What differs from the defaults; added to the cluster's own configuration file.
fn settings(socket_folder: &Path, durability: Durability) -> String {
    let socket_folder = socket_folder.display();
    let speed = match durability {
        // Nothing is kept, so nothing needs to be tidied up or to outlive a crash.
        Durability::Fast => {
            "fsync = off\nfull_page_writes = off\nwal_level = minimal\nmax_wal_senders = 0\nautovacuum = off\n"
        }
        Durability::Durable => "",
    };
    format!(
        "listen_addresses = ''\n\
         unix_socket_directories = '{socket_folder}'\n\
         unix_socket_permissions = 0700\n\
         max_connections = {MAX_CONNECTIONS}\n\
         timezone = 'UTC'\n\
         {speed}"
    )
}

fn checked(program: &str, mut command: Command) -> Result<Output, Error> {
    let output = command
        .output()
        .map_err(|error| Error(format!("{program} could not be started: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = [output.stdout, output.stderr].concat();
    Err(Error(format!(
        "{program} failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&said).trim()
    )))
}

/// The folder with `initdb` and its siblings: the one on PATH, else the newest of Debian's.
fn find_bin() -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|folder| folder.join("initdb"));
    let mut candidates: Vec<PathBuf> = on_path.filter_map(|file| fs::canonicalize(file).ok()).collect();
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            Some((
                entry.file_name().to_str()?.parse().ok()?,
                entry.path().join("bin/initdb"),
            ))
        })
        .collect();
    versions.sort();
    candidates.extend(versions.into_iter().rev().map(|(_, file)| file));
    candidates
        .iter()
        .filter_map(|file| file.parent())
        .find(|folder| {
            ["initdb", "pg_ctl", "postgres", "psql"]
                .iter()
                .all(|name| folder.join(name).is_file())
        })
        .map(Path::to_path_buf)
        .ok_or_else(|| {
            Error(
                "no Postgres server was found (initdb, pg_ctl, postgres and psql side by side). \
                 On Debian: apt-get install postgresql"
                    .to_owned(),
            )
        })
}

/// The folder of what may be lost at any time. A disk's file system can take ten times as long to make and to remove the hundreds of small
/// files of a database, of which each test has one.
const MEMORY: &str = "/dev/shm";
/// Room that a cluster in memory must find, in KiB: databases of a few tests at once, and [`settings`]' log.
const MEMORY_KIB: u64 = 2 * 1024 * 1024;

fn folder_for(durability: Durability) -> Result<PathBuf, Error> {
    match durability {
        Durability::Fast if is_roomy(MEMORY) => Ok(PathBuf::from(MEMORY)),
        _ => temporary_folder(),
    }
}

/// Whether a folder lies in memory and has [`MEMORY_KIB`]. Where that cannot be learned, it has not.
fn is_roomy(folder: &str) -> bool {
    let mut command = Command::new("df");
    command.args(["-P", "-k", folder]);
    checked("df", command).is_ok_and(|output| has_room(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads what `df -P -k` says of one folder.
fn has_room(table: &str) -> bool {
    let fields: Vec<&str> = table
        .lines()
        .nth(1)
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let free = fields.get(3).and_then(|free| free.parse::<u64>().ok());
    fields.first() == Some(&"tmpfs") && free.is_some_and(|free| free >= MEMORY_KIB)
}

/// Where temporary files go; for root only a place that the user `postgres` can reach.
fn temporary_folder() -> Result<PathBuf, Error> {
    let folder = std::env::temp_dir();
    let open_to_all =
        |path: &Path| fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    let reachable = !is_root()? || folder.ancestors().all(open_to_all);
    Ok(if reachable { folder } else { PathBuf::from("/tmp") })
}

fn new_folder(parent: &Path) -> Result<PathBuf, Error> {
    let failed = |path: &Path, error| Error(format!("{} could not be made: {error}", path.display()));
    let parent = fs::canonicalize(parent).map_err(|error| failed(parent, error))?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    if !parent.to_string_lossy().chars().all(plain) {
        let parent = parent.display();
        return Err(Error(format!(
            "{parent} has characters that would need quoting in a database address. \
             Set TMPDIR to a folder whose path has only letters, digits, '.', '_' and '-'."
        )));
    }
    let pid = std::process::id();
    for number in 0_u32.. {
        let dir = parent.join(format!("muster-pg-{pid}-{number}"));
        if dir.as_os_str().len() > LONGEST_SOCKET_FOLDER {
            let dir = dir.display();
            return Err(Error(format!(
                "{dir} is too long for a unix socket. Set TMPDIR to a shorter path."
            )));
        }
        match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return own(&dir).map(|()| dir),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&dir, error)),
        }
    }
    Err(Error(format!("{} holds too many clusters", parent.display())))
}

/// Marks the folder as ours and gives it to the user who will run Postgres.
fn own(dir: &Path) -> Result<(), Error> {
    let failed = |error| Error(format!("{} could not be prepared: {error}", dir.display()));
    fs::write(
        dir.join(MARK),
        "made by cargo xtask pg, removed by cargo xtask pg stop\n",
    )
    .map_err(failed)?;
    if is_root()? {
        let (user, group) = (id(&["-u", "postgres"])?, id(&["-g", "postgres"])?);
        std::os::unix::fs::chown(dir, Some(user), Some(group)).map_err(failed)?;
    }
    Ok(())
}

fn is_root() -> Result<bool, Error> {
    // The owner of our own entry in /proc is the effective user; `id` answers where there is no /proc.
    match fs::metadata("/proc/self") {
        Ok(found) => Ok(found.uid() == 0),
        Err(_) => Ok(id(&["-u"])? == 0),
    }
}

fn id<S: AsRef<OsStr>>(arguments: &[S]) -> Result<u32, Error> {
    let mut command = Command::new("id");
    command.args(arguments);
    let said = checked("id", command)?.stdout;
    let said = String::from_utf8_lossy(&said);
    said.trim()
        .parse()
        .map_err(|_| Error(format!("id answered {said:?} instead of a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn psql(cluster: &Cluster, url: &str, statement: &str) -> String {
        let output = cluster
            .run("psql", &["-X", "-A", "-t", "-d", url, "-c", statement])
            .unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn a_cluster_serves_two_roles_survives_a_crash_and_leaves_nothing() {
        let cluster = match Cluster::start(Durability::Fast) {
            Ok(cluster) => cluster,
            // ./test installs Postgres; a bare `cargo test` without it has nothing to start.
            Err(error)
                if std::env::var_os("CI").is_none()
                    && error.to_string().starts_with("no Postgres server") =>
            {
                eprintln!("SKIPPED: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let (admin, app) = (cluster.admin_url(), cluster.app_url());
        assert_eq!(psql(&cluster, &admin, "SHOW fsync"), "off");
        assert_eq!(psql(&cluster, &admin, "SHOW listen_addresses"), "");
        assert_eq!(psql(&cluster, &admin, "SHOW max_connections"), "400");
        let rights = "SELECT rolsuper, rolbypassrls, rolcreatedb, rolcreaterole FROM pg_roles WHERE rolname = current_user";
        assert_eq!(psql(&cluster, &app, rights), "f|f|f|f");
        psql(&cluster, &app, "CREATE TABLE kept AS SELECT 7 AS n");

        cluster.halt(Shutdown::Immediate).unwrap();
        cluster.resume().unwrap();
        assert_eq!(psql(&cluster, &app, "SELECT n FROM kept"), "7");

        let dir = cluster.leave();
        Cluster::open(&dir).unwrap().stop().unwrap();
        assert!(!dir.exists());
    }

    #[test]
    fn only_what_may_be_lost_lies_in_memory_and_only_where_there_is_room() {
        let df = |kind: &str, free: u64| {
            format!(
                "Filesystem 1024-blocks Used Available Capacity Mounted on\n{kind} 9 1 {free} 1% /dev/shm\n"
            )
        };
        assert!(has_room(&df("tmpfs", MEMORY_KIB)));
        assert!(!has_room(&df("tmpfs", MEMORY_KIB - 1)));
        assert!(!has_room(&df("/dev/vda", MEMORY_KIB)));
        assert!(!has_room(""));
        assert_eq!(
            folder_for(Durability::Durable).unwrap(),
            temporary_folder().unwrap()
        );
    }

    #[test]
    fn a_durable_cluster_keeps_fsync() {
        assert!(settings(Path::new("/x"), Durability::Fast).contains("fsync = off"));
        assert!(!settings(Path::new("/x"), Durability::Durable).contains("fsync"));
    }

    #[test]
    fn a_folder_that_was_not_made_here_is_never_removed() {
        let dir = std::env::temp_dir().join(format!("muster-pg-foreign-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let refused = Cluster::open(&dir).unwrap_err().to_string();
        assert!(refused.contains("left alone"), "{refused}");
        assert!(dir.exists());
        fs::remove_dir(&dir).unwrap();
    }
}
