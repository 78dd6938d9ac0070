//! From `send_message` to the text submitted in an idle tmux pane, through the daemon and a pusher. Never types anything itself.

use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use crate::bus::speaker::{Program, Speaker, resident};
use crate::report::{Amount, Figure, Samples, Target};
use crate::server::Muster;

/// Messages of each kind.
const MESSAGES: u32 = 40;
/// The window that messages are gathered in, for the second figure.
const WINDOW: u32 = 500;
/// What a delivery may take besides that window.
const MOST: f64 = 300.0;
/// How long an idle pusher is watched.
const IDLE: Duration = Duration::from_secs(30);

/// Every figure of the push.
pub(super) fn run(muster: &Muster, folder: &Path) -> Result<Vec<Figure>> {
    let mut bench = Bench::start(muster, folder)?;
    let (at_once, pusher) = bench.delays(0)?;
    // What it did last is over before it is watched.
    std::thread::sleep(Duration::from_secs(3));
    let (before, begun) = (pusher.ticks()?, Instant::now());
    std::thread::sleep(IDLE);
    let used = (pusher.ticks()? - before) / begun.elapsed().as_secs_f64();
    let memory = resident(pusher.0.id())? / 1024.0;
    drop(pusher);
    let (gathered, pusher) = bench.delays(WINDOW)?;
    drop(pusher);
    let figure = |name: &str, samples: &Samples, most: f64| {
        Figure::new(
            name,
            Amount::of(samples.median(), "ms"),
            None,
            Target::Below(most),
            format!(
                "{MESSAGES} messages; p95 {:.0} ms, worst {:.0} ms",
                samples.percentile(0.95),
                samples.percentile(1.0)
            ),
        )
    };
    Ok(vec![
        figure(
            "push: sent to submitted in an idle tmux pane, p50",
            &at_once,
            MOST,
        ),
        figure(
            "push: the same with a window of 500 ms, p50",
            &gathered,
            f64::from(WINDOW) + MOST,
        ),
        Figure::new(
            "push: resident, an idle pusher",
            Amount::of(memory, "MiB"),
            None,
            Target::Below(10.0),
            "after the messages above",
        ),
        Figure::new(
            "push: processor of an idle pusher, share of a core",
            Amount::of(used, "%"),
            None,
            Target::Below(0.1),
            format!("over {} s, in the kernel's ticks", IDLE.as_secs()),
        ),
    ])
}

/// A child of this run, ended with it.
struct Running(Child);

impl Running {
    /// Hundredths of a second that it used; the kernel counts in these.
    fn ticks(&self) -> Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().collect())
            .unwrap_or_default();
        let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok());
        ticks(11)
            .zip(ticks(12))
            .map(|(user, system)| user + system)
            .context("the kernel does not say how much time the pusher used")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Bench<'m> {
    muster: &'m Muster,
    directory: PathBuf,
    tmux: Tmux,
    submitted: BufReader<UnixStream>,
    lead: Speaker,
    url: String,
    token: String,
    _daemon: Running,
}

impl<'m> Bench<'m> {
    fn start(muster: &'m Muster, folder: &Path) -> Result<Self> {
        let directory = folder.join("push");
        std::fs::create_dir(&directory)?;
        std::fs::write(
            directory.join("config.json"),
            json!({"transport": "tmux-push-remote", "mode": "native"}).to_string(),
        )?;
        let socket = folder.join("said");
        let listener = UnixListener::bind(&socket)?;
        let tmux = Tmux::start(&socket)?;
        let (submitted, _) = listener.accept()?;
        submitted.set_read_timeout(Some(Duration::from_secs(20)))?;
        let minted = clean(muster.program())
            .args(["bus", "token", "add", "seat"])
            .env("AGENT_COORD_DIR", &directory)
            .output()?;
        let token = String::from_utf8(minted.stdout)?
            .split_whitespace()
            .find(|word| word.starts_with("tk_"))
            .context("muster bus token add printed no token")?
            .to_owned();
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let daemon = clean(muster.program())
            .args(["bus", "serve"])
            .env("AGENT_COORD_DIR", &directory)
            .env("AGENT_COORD_HTTP_PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let daemon = Running(daemon);
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            ensure!(
                begun.elapsed() < Duration::from_secs(10),
                "the daemon does not listen"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        let program = Program {
            words: vec![
                muster.program().display().to_string(),
                "bus".to_owned(),
                "serve".to_owned(),
            ],
        };
        let mut lead = Speaker::start(&program, &directory)?;
        lead.call("register", &json!({"agentId": "lead"}))?;
        Ok(Self {
            muster,
            directory,
            tmux,
            submitted: BufReader::new(submitted),
            lead,
            url: format!("http://127.0.0.1:{port}/mcp"),
            token,
            _daemon: daemon,
        })
    }

    /// The delays with a pusher that gathers for `window` milliseconds, and that pusher.
    fn delays(&mut self, window: u32) -> Result<(Samples, Running)> {
        let log = std::fs::File::create(self.directory.join(format!("pusher-{window}.log")))?;
        let pusher = clean(self.muster.program())
            .args(["bus", "pusher", "--server", &self.url, "--agent", "seat"])
            .args(["--tmux", &self.tmux.pane, "--debounce-ms", &window.to_string()])
            .env("AGENT_COORD_TOKEN", &self.token)
            .env("TMUX", &self.tmux.variable)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let pusher = Running(pusher);
        let begun = Instant::now();
        loop {
            let agents = self.lead.call("list_agents", &json!({}))?;
            let attached = agents
                .pointer("/agents")
                .and_then(serde_json::Value::as_array)
                .is_some_and(|agents| {
                    agents
                        .iter()
                        .any(|agent| agent["agentId"] == "seat" && agent["attached"] == true)
                });
            if attached {
                break;
            }
            ensure!(
                begun.elapsed() < Duration::from_secs(10),
                "the pusher did not attach"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        let mut samples = Samples::default();
        for number in 0..MESSAGES {
            // Never in step with anything that looks at fixed times.
            std::thread::sleep(Duration::from_millis(150 + u64::from(number * 37 % 211)));
            let word = format!("message-{window}-{number}");
            let begun = Instant::now();
            self.lead.call(
                "send_message",
                &json!({"from": "lead", "to": "seat", "text": word}),
            )?;
            let mut text = Vec::new();
            self.submitted
                .read_until(0, &mut text)
                .with_context(|| format!("{word} was not submitted"))?;
            let took = begun.elapsed();
            if !String::from_utf8_lossy(&text).contains(&word) {
                bail!("another text than {word} was submitted");
            }
            samples.add(took.as_secs_f64() * 1e3);
        }
        Ok((samples, pusher))
    }
}

/// Muster without what this shell says of a bus or a pane.
fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let known = name.to_string_lossy();
        if known.starts_with("AGENT_COORD_") || known.starts_with("TMUX") || known.starts_with("HERDR") {
            command.env_remove(&name);
        }
    }
    command
}

/// A tmux server of this run with the stand-in in its one pane.
struct Tmux {
    name: String,
    pane: String,
    variable: String,
}

impl Tmux {
    fn start(socket: &Path) -> Result<Self> {
        let mut tmux = Self {
            name: format!("muster-bench-{}", std::process::id()),
            pane: String::new(),
            variable: String::new(),
        };
        let stand_in = std::env::current_exe()?;
        let started = tmux
            .command()
            .args(["-f", "/dev/null", "new-session", "-d", "-x", "110", "-y", "30"])
            .arg(stand_in)
            .arg("stand-in")
            .arg(socket)
            .status()
            .context("tmux could not be started; apt-get install tmux")?;
        ensure!(started.success(), "tmux did not start a session");
        let said = tmux
            .command()
            .args(["display-message", "-p", "#{pane_id} #{socket_path},#{pid},0"])
            .output()?;
        let said = String::from_utf8(said.stdout)?;
        let (pane, variable) = said
            .trim()
            .split_once(' ')
            .context("tmux does not say its pane")?;
        tmux.pane = pane.to_owned();
        tmux.variable = variable.to_owned();
        Ok(tmux)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("tmux");
        command.env_remove("TMUX").args(["-L", &self.name]);
        command
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let _ = self.command().arg("kill-server").status();
    }
}
