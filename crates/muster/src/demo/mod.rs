//! `muster demo`: the whole loop with nothing to configure, made of the real parts. Never touches an existing installation.

pub(crate) mod chief;
pub(crate) mod connector;
mod mails;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;

use muster_app::accounts::{self, OwnerName, Password};
use muster_app::{chief as chiefs, plugins};
use muster_core::Secret;
use muster_core::secret::random_hex;
use muster_core::text::{DataScope, Label, Slug};
use muster_runtime::Kind;
use tokio::process::{Child, ChildStdin, Command};

use crate::cli;
use crate::commands::serve::{self, Ready};
use crate::config::Config;
use crate::output::{self, Failure};

const OWNER: &str = "demo";
/// Whose mail the tour's connector reads; every name in it is reserved for documentation.
pub(super) const ADDRESS: &str = "You <you@example.org>";

pub(crate) async fn run(mut config: Config, args: cli::Demo, chosen: bool) -> Result<(), Failure> {
    let folder = fresh_folder(&config, chosen)?;
    config.flag("MUSTER_LISTEN", Some(args.listen))?;
    config.tour(&folder)?;
    serve::log(&config)?;
    let stop = serve::stop_signal()?;
    let ready = serve::prepare(&config).await?;
    let password = set_up(&ready, &folder).await?;
    let maildir = mails::lay_out(&folder)?;
    let (mut connector, tie) = start_connector(&ready, &folder, &maildir)?;
    tell(&ready, &folder, &password);
    let mut serving = pin!(ready.serve(stop.clone()));
    let ended = tokio::select! {
        () = &mut serving => None,
        status = connector.wait() => Some(status),
    };
    if let Some(status) = ended {
        output::notice(&format!(
            "The connector ended by itself ({}); see {}",
            status.map_or_else(|e| e.to_string(), |s| s.to_string()),
            folder.join("connector.log").display()
        ));
        // The server still ends in order.
        stop.cancel();
        serving.await;
    }
    end(&mut connector).await;
    drop(tie);
    output::told(&format!(
        "\nStopped. The data is in {folder}; the sent replies are in {}.\nLook again with `MUSTER_PLUGINS=1 muster --data-dir {folder} serve`; delete the folder when you are done.",
        folder.join("outbox/new").display(),
        folder = folder.display()
    ));
    Ok(())
}

fn fresh_folder(config: &Config, chosen: bool) -> Result<PathBuf, Failure> {
    let folder = if chosen {
        config.data_dir.clone()
    } else {
        std::env::temp_dir().join(format!(
            "muster-demo-{}",
            random_hex::<4>().map_err(muster_core::Fault::from)?
        ))
    };
    let empty = match std::fs::read_dir(&folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    };
    if empty {
        Ok(folder)
    } else {
        Err(Failure::refused(
            "not_empty",
            format!(
                "{} is not empty; the tour starts in a fresh folder",
                folder.display()
            ),
        ))
    }
}

/// Makes the owner and the chief.
async fn set_up(ready: &Ready, folder: &Path) -> Result<Secret, Failure> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| Failure::refused("demo", format!("{what}: {error}"));
    let password = Secret::new(random_hex::<6>().map_err(muster_core::Fault::from)?);
    let name = OwnerName::parse(OWNER).map_err(|e| failed("the owner", &e))?;
    let owner = accounts::add(
        &ready.app,
        name,
        Password::parse(password.expose()).map_err(|e| failed("the owner", &e))?,
        true,
    )
    .await
    .map_err(|e| failed("the owner", &e))?;
    let own = own_program()?;
    chiefs::set(&ready.app, owner, Kind::Command, &format!("{own} demo-chief"))
        .await
        .map_err(|e| failed("the chief", &e))?;
    let new = plugins::NewPlugin {
        name: Slug::parse("name", "mail").map_err(|e| failed("the connector", &e))?,
        label: Label::parse("label", "Inbox").map_err(|e| failed("the connector", &e))?,
        data_scope: DataScope::parse("data scope", "notes about the inbox")
            .map_err(|e| failed("the connector", &e))?,
    };
    let made = plugins::create(&ready.app, owner, new)
        .await
        .map_err(|e| failed("the connector", &e))?;
    std::fs::write(folder.join("connector.token"), made.token.expose())?;
    Ok(password)
}

/// This program's path as one shell word, as the chief's command line is split.
fn own_program() -> Result<String, Failure> {
    let path = std::env::current_exe()?;
    let text = path
        .to_str()
        .ok_or_else(|| Failure::refused("demo", "the path of this program is not UTF-8"))?;
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}

/// Starts the connector, and the pipe whose end tells it that the tour is gone, in whatever way.
fn start_connector(
    ready: &Ready,
    folder: &Path,
    maildir: &Path,
) -> Result<(Child, Option<ChildStdin>), Failure> {
    let log = std::fs::File::create(folder.join("connector.log"))?;
    let mut connector = Command::new(std::env::current_exe()?)
        .arg("demo-connector")
        .arg("--url")
        .arg(format!("http://{}", ready.address))
        .arg("--maildir")
        .arg(maildir)
        .arg("--state")
        .arg(folder.join("connector"))
        .arg("--outbox")
        .arg(folder.join("outbox"))
        .args([
            "--from",
            ADDRESS,
            "--authserv-id",
            mails::AUTHSERV,
            "--poll-seconds",
            "1",
        ])
        .arg("--token-file")
        .arg(folder.join("connector.token"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        // In a group of its own a terminal's signals reach the tour alone, which ends the connector in its turn.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure::refused("demo", format!("the connector could not be started: {error}")))?;
    // Taken out, for a wait for the child would close it.
    let tie = connector.stdin.take();
    Ok((connector, tie))
}

fn tell(ready: &Ready, folder: &Path, password: &Secret) {
    output::told(&format!(
        "listening on http://{}\n\nThree mails are on their way through a Maildir connector to a chief that follows plain rules.\nOpen this, sign in, read the drafts and approve one:\n\n  {}/attention?tab=drafts\n\n  name      {OWNER}\n  password  {}\n\nThe approved reply lands in {}.\nCtrl-C ends the tour.",
        ready.address,
        ready.base,
        password.expose(),
        folder.join("outbox/new").display()
    ));
}

/// Asks the connector to end, and ends it when it does not.
async fn end(connector: &mut Child) {
    if let Some(pid) = connector.id().and_then(|id| i32::try_from(id).ok()) {
        // It may have ended already.
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGTERM);
    }
    if tokio::time::timeout(std::time::Duration::from_secs(5), connector.wait())
        .await
        .is_err()
    {
        let _ = connector.kill().await;
    }
}
