//! `muster exec`: a program with the tools of approved packages. Never starts it when an added server would take a package's name, and leaves no file behind.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use muster_core::text::terminal;
use muster_plugin_host::config::{mcp_config, read_servers};
use muster_plugin_host::{Host, Kind, ServerKey, Settings, Status};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::Url;
use serde_json::{Map, Value, json};
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Heard, SignalKind, signal};

use super::plugins::{self, serve::fresh};
use crate::cli;
use crate::config::Config;
use crate::output::{self, Failure};

/// Largest file of servers, in bytes.
const LARGEST: u64 = 4 * 1024 * 1024;

pub(super) async fn run(config: &Config, args: cli::Exec) -> Result<(), Failure> {
    let host = plugins::host(config);
    // What a session left that was killed with its launchers goes at the next one, as its file does.
    host.end_orphans();
    let session = fresh()?;
    let added = match &args.mcp_config {
        None => Map::new(),
        Some(path) => servers(path)
            .map_err(|why| not_started("bad_file", &format!("{} was not used: {why}", path.display())))?,
    };
    let document = document(config, &host, &session, &args, &added)?;
    let file = Configuration::write(&config.data_dir, &session, &document)?;
    let Some((program, rest)) = args.program.split_first() else {
        return Err(Failure::usage("name a program behind --; nothing was started"));
    };
    // Heard from before the program is there, so that none is lost or ends this process first.
    let mut signals = Signals::new()?;
    file.hand_on()?;
    let mut child = Command::new(program)
        .args(rest)
        .env("MUSTER_SESSION_ID", &session)
        .env("MUSTER_MCP_CONFIG", &file.path)
        .spawn()
        .map_err(|error| {
            let program = program.to_string_lossy();
            // As a shell tells them apart, and env and nohup: not found, and not to be run.
            let code = if error.kind() == ErrorKind::NotFound {
                127
            } else {
                126
            };
            not_started("not_started", &format!("{program} could not be started: {error}")).with_exit(code)
        })?;
    let ended = signals.until_ended(&mut child).await?;
    drop(file);
    match code(ended) {
        0 => Ok(()),
        code => Err(Failure::ended(code)),
    }
}

/// The shell's way: the exit code, or 128 and the signal.
fn code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    u8::try_from(code & 0xff).unwrap_or(1)
}

fn not_started(code: &'static str, sentence: &str) -> Failure {
    Failure::refused(code, terminal(&format!("{sentence}. PROGRAM was not started")))
}

/// The servers of a file.
fn servers(path: &Path) -> Result<Map<String, Value>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    file.take(LARGEST + 1)
        .read_to_end(&mut text)
        .map_err(|error| error.to_string())?;
    if text.len() as u64 > LARGEST {
        return Err("it has more than 4 MiB".to_owned());
    }
    read_servers(&text)
}

/// The servers of the project's file, which may be anything that the project's author put there.
fn project(path: &Path) -> Result<Map<String, Value>, String> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => servers(path),
        // Reading a pipe would wait for whoever writes into it.
        Ok(_) => Err("it is no regular file".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(error.to_string()),
    }
}

fn document(
    config: &Config,
    host: &Host,
    session: &str,
    args: &cli::Exec,
    added: &Map<String, Value>,
) -> Result<Value, Failure> {
    let (given, all) = approved(host, session)?;
    let settings = match Settings::read(&host.settings_path()) {
        Ok(settings) => settings.servers,
        Err(why) => {
            output::notice(&format!("muster: {}; its servers are left out", terminal(&why)));
            Map::new()
        }
    };
    let project = project(Path::new(".mcp.json")).unwrap_or_else(|why| {
        output::notice(&format!("muster: .mcp.json is left out: {}", terminal(&why)));
        Map::new()
    });
    let proxy = Proxy::new(config, session, args)?;
    let entry = |key: &ServerKey| proxy.entry(key);
    let clash = |clash: muster_plugin_host::config::Clash| {
        not_started("name_taken", &clash.to_string())
            .with("key", json!(clash.key))
            .with("server", json!(clash.server))
    };
    // A package's name stays its own also while it is withheld.
    let mut made = mcp_config(&all, entry, &settings, &project, added).map_err(clash)?;
    for one in &made.diagnostics {
        output::notice(&format!("muster: {}", terminal(&one.message)));
    }
    if let Some(servers) = made.document.get_mut("mcpServers").and_then(Value::as_object_mut) {
        let names: Vec<String> = given.iter().map(ServerKey::entry).collect();
        for withheld in all.iter().filter(|key| !given.contains(key)) {
            if !names.contains(&withheld.entry()) {
                servers.remove(&withheld.entry());
            }
        }
    }
    Ok(made.document)
}

/// The servers that the session is given, and all that are approved. One that would not start is noted and told.
fn approved(host: &Host, session: &str) -> Result<(Vec<ServerKey>, Vec<ServerKey>), Failure> {
    let approved = host.approved().map_err(plugins::refused)?;
    let mut given = Vec::new();
    let mut withheld = approved.withheld;
    for key in approved.servers {
        match host.ready(&key) {
            Ok(_) => given.push(key),
            Err(error) => withheld.push((key, error.to_string())),
        }
    }
    let events = host.events();
    for (key, why) in &withheld {
        events.server_dropped(session, key, why);
        output::notice(&format!("muster: {}", terminal(why)));
    }
    for sentence in waiting(host, &withheld) {
        output::notice(&format!("muster: {sentence}"));
    }
    let all = given
        .iter()
        .chain(withheld.iter().map(|(key, _)| key))
        .cloned()
        .collect();
    Ok((given, all))
}

/// What the program does not get because nobody has decided about it as it is now: without a word it would look as if it were not there.
fn waiting(host: &Host, withheld: &[(ServerKey, String)]) -> Vec<String> {
    let mut sentences = Vec::new();
    for package in host.list().unwrap_or_default() {
        // What cannot be read is none that starts either, and doctor says why.
        let Ok(found) = host.inspect(&package.id) else {
            continue;
        };
        let servers = found.capabilities.iter().filter(|one| {
            one.kind == Kind::McpServer
                && !matches!(one.status, Status::TrustedEnabled | Status::TrustedDisabled)
                && !withheld
                    .iter()
                    .any(|(key, _)| key.plugin == found.id && key.server == one.id)
        });
        sentences.extend(servers.map(|server| {
            terminal(&format!(
                "the server {} of {} is not offered: it is {}; muster plugins inspect {} shows it",
                server.id,
                found.id,
                server.status.word(),
                found.id
            ))
        }));
    }
    sentences
}

/// How an agent's client starts the way to a server.
struct Proxy {
    program: String,
    arguments: Vec<String>,
    env: Map<String, Value>,
}

impl Proxy {
    fn new(config: &Config, session: &str, args: &cli::Exec) -> Result<Self, Failure> {
        let text = |path: PathBuf| {
            path.into_os_string().into_string().map_err(|path| {
                let path = path.to_string_lossy();
                not_started("bad_path", &format!("the path {path} is not UTF-8"))
            })
        };
        let mut arguments = vec![
            "--session".to_owned(),
            session.to_owned(),
            "--data-dir".to_owned(),
            text(std::path::absolute(&config.data_dir)?)?,
        ];
        if let Some(owner) = super::named_owner(&args.owner) {
            arguments.extend(["--owner".to_owned(), owner.to_owned()]);
        }
        let mut env = Map::new();
        env.insert("MUSTER_SESSION_ID".to_owned(), session.into());
        // Clients give their servers few of their own variables. What the data folder says is found there.
        match config.origin("MUSTER_DATABASE_URL") {
            None | Some((_, "file")) => {}
            Some((url, _)) if !has_password(url) => {
                drop(env.insert("MUSTER_DATABASE_URL".to_owned(), url.into()))
            }
            Some((_, "environment")) => {}
            Some(_) => output::notice(
                "muster: the database's address has a password and is not passed on, so nobody can be asked about calls of packages' tools; put it into MUSTER_DATABASE_URL or muster.toml",
            ),
        }
        Ok(Self {
            program: text(std::env::current_exe()?)?,
            arguments,
            env,
        })
    }

    fn entry(&self, key: &ServerKey) -> Value {
        let mut args = vec![
            "plugins".to_owned(),
            "serve".to_owned(),
            format!("{}:{}", key.plugin, key.server),
        ];
        args.extend(self.arguments.iter().cloned());
        json!({"command": self.program, "args": args, "env": self.env})
    }
}

/// Whether an address may carry a password; it does not leave this process then.
fn has_password(url: &str) -> bool {
    // Read as whoever connects reads it: decoded, and without the characters that are left out of addresses.
    if let Ok(url) = Url::parse(url)
        && (url.password().is_some() || url.query_pairs().any(|(key, _)| key.contains("password")))
    {
        return true;
    }
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':')) || rest.contains("password=")
}

/// The file that the program reads, for as long as this lives.
struct Configuration {
    path: PathBuf,
    /// Locked, so that a later session sees that this one lives, or its program.
    held: File,
}

impl Configuration {
    fn write(data: &Path, session: &str, document: &Value) -> Result<Self, Failure> {
        let folder = std::path::absolute(data)?.join("plugins/sessions");
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        Self::sweep(&folder);
        let path = folder.join(format!("{session}.json"));
        let fresh = path.with_extension("new");
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        file.lock()?;
        file.write_all(document.to_string().as_bytes())?;
        fs::rename(&fresh, &path)?;
        Ok(Self { path, held: file })
    }

    /// Lets the program have the lock as well: it may outlive this process and read the file later.
    fn hand_on(&self) -> Result<(), Failure> {
        fcntl(&self.held, FcntlArg::F_SETFD(FdFlag::empty())).map_err(std::io::Error::from)?;
        Ok(())
    }

    /// Removes what a session left that was killed, when its program is gone too.
    fn sweep(folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let left = path.extension().is_some_and(|extension| extension == "json")
                && File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
            if left {
                let _ = fs::remove_file(&path);
            }
        }
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => output::notice(&format!(
                "muster: {} could not be removed: {error}",
                terminal(&self.path.display().to_string())
            )),
            _ => {}
        }
    }
}

/// Signals that are the program's.
struct Signals {
    hangup: Heard,
    interrupt: Heard,
    quit: Heard,
    terminate: Heard,
    first: Heard,
    second: Heard,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            first: signal(SignalKind::user_defined1())?,
            second: signal(SignalKind::user_defined2())?,
        })
    }

    async fn until_ended(&mut self, child: &mut Child) -> Result<ExitStatus, Failure> {
        loop {
            let heard = tokio::select! {
                ended = child.wait() => return Ok(ended?),
                _ = self.hangup.recv() => Signal::SIGHUP,
                _ = self.interrupt.recv() => Signal::SIGINT,
                _ = self.quit.recv() => Signal::SIGQUIT,
                _ = self.terminate.recv() => Signal::SIGTERM,
                _ = self.first.recv() => Signal::SIGUSR1,
                _ = self.second.recv() => Signal::SIGUSR2,
            };
            // A key on the terminal reaches the program as well.
            if matches!(heard, Signal::SIGINT | Signal::SIGQUIT) && in_the_foreground() {
                continue;
            }
            let pid = child.id().and_then(|id| i32::try_from(id).ok());
            if let Some(pid) = pid {
                // It may have ended a moment ago, and is not reaped yet.
                let _ = kill(Pid::from_raw(pid), heard);
            }
        }
    }
}

/// Whether this process and the program are who the terminal's keys go to.
fn in_the_foreground() -> bool {
    let stdin = std::io::stdin();
    let terminal = if stdin.is_terminal() {
        nix::unistd::tcgetpgrp(&stdin)
    } else {
        match File::open("/dev/tty") {
            Ok(tty) => nix::unistd::tcgetpgrp(tty),
            Err(_) => return false,
        }
    };
    terminal.is_ok_and(|group| group == nix::unistd::getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_password_is_known() {
        for url in [
            "postgres://ada:secret@db/muster",
            "postgres://db/muster?password=secret",
            "postgres://ada:p@ss@db",
            "postgres://db/muster?pass%77ord=secret",
            "postgres://db/muster?sslmode=require&%70assword=secret",
            "postgres://db/muster?pass\tword=secret",
        ] {
            assert!(has_password(url), "{url}");
        }
        for url in [
            "sqlite:///home/ada/muster.db",
            "postgres://ada@db:5432/muster",
            "postgres://db/muster",
            "postgres://db/muster?application_name=a%20b",
        ] {
            assert!(!has_password(url), "{url}");
        }
    }
}
