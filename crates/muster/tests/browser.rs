//! The pages in a real browser: runs each story of `tests/browser` against the program just built. Never lets a story be forgotten: in CI a missing browser fails.
#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the stories need beside the program.
struct Tools {
    /// The folder that holds `npm/node_modules`.
    folder: PathBuf,
    chromium: PathBuf,
}

impl Tools {
    /// What there is, or what is missing.
    fn found() -> Result<Self, String> {
        let folder = std::env::var_os("MUSTER_TEST_TOOLS")
            .map(PathBuf::from)
            .ok_or("MUSTER_TEST_TOOLS is not set")?;
        let chromium = std::env::var_os("MUSTER_TEST_CHROMIUM")
            .map_or_else(|| PathBuf::from("/usr/bin/chromium"), PathBuf::from);
        for needed in [
            &folder.join("npm/node_modules/playwright-core"),
            &folder.join("npm/node_modules/axe-core"),
            &chromium,
        ] {
            if !needed.exists() {
                return Err(format!("{} does not exist", needed.display()));
            }
        }
        let node = Command::new("node")
            .arg("--version")
            .output()
            .map_err(|error| format!("node cannot be started: {error}"))?;
        if node.status.success() {
            Ok(Self { folder, chromium })
        } else {
            Err("node --version fails".to_owned())
        }
    }
}

/// The command that tells a story, unless what it needs is missing.
fn story(story: &str) -> Option<Command> {
    let tools = match Tools::found() {
        Ok(tools) => tools,
        Err(missing) if std::env::var_os("CI").is_some() => {
            panic!("{missing}; ./test installs what the browser tests need")
        }
        Err(missing) => {
            eprintln!("SKIPPED in the browser: {story}: {missing} (./test installs it)");
            return None;
        }
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = Path::new(env!("CARGO_BIN_EXE_muster"));
    let screenshots = program.ancestors().nth(2).unwrap().join("screenshots");
    let mut command = Command::new("node");
    command
        .arg(root.join("tests/browser").join(format!("{story}.mjs")))
        .env("MUSTER_TEST_BINARY", program)
        .env("MUSTER_TEST_TOOLS", tools.folder)
        .env("MUSTER_TEST_CHROMIUM", tools.chromium)
        .env("MUSTER_TEST_SCREENSHOTS", screenshots);
    Some(command)
}

/// Runs one story to its end.
fn tell(name: &str) {
    let Some(mut command) = story(name) else { return };
    let ended = command.status().unwrap();
    assert!(
        ended.success(),
        "the story {name} ended with {ended}; what it said stands above"
    );
}

/// Runs a story that needs an agent to its end, and makes the agent's calls from here: beside the server, on its data folder.
fn tell_with_agent(name: &str) {
    let Some(mut command) = story(name) else { return };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    agent::calls(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let ended = child.wait().unwrap();
    assert!(
        ended.success(),
        "the story {name} ended with {ended}; what it said stands above"
    );
}

/// An agent's calls as the server decides them: a line `CALL {…}` of the story's begins one, and its end is a line back.
mod agent {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::path::Path;
    use std::process::{ChildStdin, ChildStdout};
    use std::sync::{Arc, Mutex};

    use muster_app::{App, access, accounts};
    use muster_core::Clock;
    use muster_policy::{Action, Needs, Resource, ScopeKind, Target};
    use muster_store::{Db, Options};
    use serde_json::{Value, json};

    pub(super) fn calls(said: ChildStdout, back: ChildStdin) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (mut app, back) = (None, Arc::new(Mutex::new(back)));
        for line in BufReader::new(said).lines() {
            let line = line.unwrap();
            let Some(call) = line.strip_prefix("CALL ") else {
                println!("{line}");
                continue;
            };
            let call: Value = serde_json::from_str(call).unwrap();
            let app: App = app
                .get_or_insert_with(|| runtime.block_on(open(call["data"].as_str().unwrap())))
                .clone();
            let back = back.clone();
            runtime.spawn(async move {
                let end = json!({"n": call["n"], "code": end(&app, &call).await});
                writeln!(back.lock().unwrap(), "{end}").unwrap();
            });
        }
        if let Some(app) = app {
            runtime.block_on(app.tasks.stop());
        }
    }

    async fn open(data: &str) -> App {
        let data = Path::new(data);
        let url = format!("sqlite://{}", data.join("muster.db").display());
        let db = Db::open(&Options::new(url, data.join("locks"))).await.unwrap();
        App::new(db, Clock::system(), muster_testkit::settings(data))
    }

    /// `allowed`, or the code of the refusal.
    async fn end(app: &App, call: &Value) -> &'static str {
        let text = |name: &str| call[name].as_str().unwrap();
        let caller = accounts::agent(app, text("token")).await.unwrap().unwrap();
        let host = Target::new(Resource::new(ScopeKind::Host, text("host")).unwrap()).unwrap();
        let call = access::Call {
            tool: text("tool").to_owned(),
            arguments: call["arguments"].clone(),
            needs: Needs::of(Action::HostsRead, host),
        };
        match access::decide(app, &caller, call).await {
            Ok(_) => "allowed",
            Err(refused) => refused.code,
        }
    }
}

/// One browser at a time: it takes both cores of a small machine.
mod heavy {
    use super::{tell, tell_with_agent};

    // spec: TOK-003 TOK-025 TOK-026 UIP-007
    #[test]
    fn an_owner_is_set_up_once_signs_in_and_out_and_ends_every_sign_in() {
        tell("accounts");
    }

    // spec: TOK-026 DRF-043 DRF-044 UIP-007 UIP-021
    #[test]
    fn a_passkey_signs_in_and_confirms_only_when_its_holder_was_verified() {
        tell("passkeys");
    }

    // spec: DRF-035 DRF-036 DRF-037 DRF-081 UIP-005 UIP-008 UIP-009 UIP-016 UIP-017
    #[test]
    fn the_tour_goes_from_its_printed_link_to_a_sent_mail_and_a_hostile_mail_does_nothing() {
        tell("demo");
    }

    // spec: TOK-001 TOK-002 TOK-004 TOK-005 DRF-036..DRF-042 DRF-044..DRF-049 DRF-051 DRF-052 DRF-079 DRF-081
    // spec: UIP-010..UIP-012 UIP-015..UIP-021 RTY-001 RTY-002 RTY-004
    #[test]
    fn every_act_works_without_a_script() {
        tell("without_script");
    }

    // spec: TOK-005 TOK-022 TOK-023 TOK-024 UIP-005 UIP-008 UIP-011 UIP-012 UIP-016 UIP-018
    #[test]
    fn an_open_page_keeps_itself_up_to_date_and_takes_nothing_from_the_hand() {
        tell("live");
    }

    // spec: ASK-002 ASK-003 ASK-008 ASK-009 ASK-013 ASK-027 ASK-035 ASK-039 ASK-046 PRE-014 PRE-018..PRE-021 AUDIT-008
    #[test]
    fn a_call_that_waits_is_answered_on_an_open_page_and_policies_are_edited_with_what_would_change() {
        tell_with_agent("permissions");
    }

    #[test]
    fn a_package_is_read_approved_used_asked_about_and_read_again_when_it_changed() {
        tell("packages");
    }

    // spec: UIP-009
    #[test]
    fn every_page_is_for_everybody() {
        tell("access");
    }
}
