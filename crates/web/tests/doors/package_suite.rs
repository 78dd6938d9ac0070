//! The protocol's own suite, through the door of package servers and directly at the same server: all but a server's own questions comes out the same. And the
//! official clients, which hear what a server says before its answer.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The folder of tools when it holds `needed`.
fn tools(needed: &str) -> Option<PathBuf> {
    let found = std::env::var_os("MUSTER_TEST_TOOLS")
        .map(PathBuf::from)
        .filter(|folder| folder.join(needed).exists());
    if found.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "MUSTER_TEST_TOOLS holds no {needed}: ./test installs it"
        );
        eprintln!("SKIPPED: MUSTER_TEST_TOOLS holds no {needed} (./test installs it)");
    }
    found
}

/// A program that ends with the test.
struct Beside(Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the suite says of each scenario.
fn suite(node: &str, program: &str, url: &str) -> BTreeMap<String, String> {
    let done = Command::new(node)
        .args([program, "server", "--url", url, "--suite", "active"])
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    said.lines()
        .filter(|line| line.starts_with(['✓', '✗']))
        .filter_map(|line| line.split_once(": "))
        .map(|(name, found)| {
            let name = name.trim_start_matches(['✓', '✗', ' ']);
            (name.to_owned(), found.to_owned())
        })
        .collect()
}

mod heavy {
    //! Takes the suite's time twice.
    use muster_web::{Limits, Origin, Setup, Web, router, serve};
    use serde_json::json;
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::super::kit::doors;
    use super::super::package_kit::{Packaged, quick};
    use super::*;

    /// Scenarios in which a server asks its client, which this door does not carry, and those that are about HTTP alone.
    fn beyond_an_answer(name: &str) -> bool {
        ["sampling", "elicitation", "sse", "dns-rebinding"]
            .iter()
            .any(|word| name.contains(word))
    }

    // spec: WIR-007
    #[test]
    fn the_official_clients_hear_progress_log_lines_and_changes_of_lists() {
        let needed = "npm/node_modules/@modelcontextprotocol/client/package.json";
        let Some(folder) = tools(needed) else { return };
        let (node, modules) = (folder.join("bin/node"), folder.join("npm"));
        let script = format!("{}/tests/clients/packages.mjs", env!("CARGO_MANIFEST_DIR"));
        doors(|doors| {
            let (node, modules, script) = (node.clone(), modules.clone(), script.clone());
            async move {
                let packaged = Packaged::new(&doors, quick());
                packaged.approved("p", &[]);
                // A tool that changed asks, so each client has its own.
                packaged.approved("q1", &["changing"]);
                packaged.approved("q2", &["changing"]);
                packaged.mode("never-ask");
                let agent = packaged.agent().await;
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address: SocketAddr = listener.local_addr().unwrap();
                let origin = Origin::listener(address);
                let web = Web::new(doors.app.clone(), origin, Setup::default(), None).with_packages(
                    muster_plugin_host::Launcher::new(env!("CARGO_BIN_EXE_muster-web-launch"), Vec::new()),
                    quick(),
                );
                let stop = CancellationToken::new();
                let serving = tokio::spawn(serve(listener, router(web), Limits::default(), stop.clone()));
                for generation in ["1", "2"] {
                    for (package, tool, wanted) in [
                        (
                            "p",
                            "progress",
                            json!({"progress": [[1, 2]], "log": ["half"], "changed": 0, "text": "done"}),
                        ),
                        (
                            if generation == "1" { "q1" } else { "q2" },
                            "look",
                            json!({"progress": [], "log": [], "changed": 1, "text": "looked"}),
                        ),
                    ] {
                        let url = format!("http://{address}/packages/{package}/s/mcp");
                        let mut client = Command::new(&node);
                        client.arg(&script).arg(&modules);
                        client.args([generation, &url, &agent.token, tool]);
                        let said = tokio::task::spawn_blocking(move || client.output().unwrap())
                            .await
                            .unwrap();
                        let heard: serde_json::Value =
                            serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
                        assert_eq!(heard, wanted, "{generation} {tool}");
                    }
                }
                stop.cancel();
                serving.await.unwrap();
                doors.app.tasks.stop().await;
            }
        });
    }

    // spec: MAN-031 LIF-004
    #[test]
    fn the_protocols_own_suite_finds_at_the_door_what_it_finds_at_the_server_itself() {
        let needed = "npm/node_modules/@modelcontextprotocol/conformance/dist/index.js";
        let Some(folder) = tools(needed) else { return };
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let (node, modules) = (text(folder.join("bin/node")), text(folder.join("npm")));
        let program = text(folder.join(needed));
        let server = format!(
            "{}/../plugin-host/tests/servers/conformance.mjs",
            env!("CARGO_MANIFEST_DIR")
        );
        let mut direct = Command::new(&node)
            .args([&server, &modules, "http"])
            .stdout(Stdio::piped())
            .spawn()
            .map(Beside)
            .unwrap();
        let mut port = String::new();
        BufReader::new(direct.0.stdout.take().unwrap())
            .read_line(&mut port)
            .unwrap();
        let directly = suite(&node, &program, &format!("http://127.0.0.1:{}/mcp", port.trim()));
        drop(direct);
        doors(|doors| {
            let (node, server, modules) = (node.clone(), server.clone(), modules.clone());
            let (program, directly) = (program.clone(), directly.clone());
            async move {
                let packaged = Packaged::new(&doors, quick());
                let servers = json!([{"id": "s", "command": [node, server, modules, "stdio"]}]);
                let folder = packaged.folder_of("p", "The suite's own server.", &servers);
                packaged.host.install(&folder).unwrap();
                packaged.decide("p", muster_plugin_host::Act::Approve);
                packaged.mode("never-ask");
                let agent = packaged.agent().await;
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address: SocketAddr = listener.local_addr().unwrap();
                let web = Web::new(
                    doors.app.clone(),
                    Origin::listener(address),
                    Setup::default(),
                    None,
                )
                .with_packages(
                    muster_plugin_host::Launcher::new(env!("CARGO_BIN_EXE_muster-web-launch"), Vec::new()),
                    quick(),
                );
                // The suite knows no token.
                let bearer: http::HeaderValue = format!("Bearer {}", agent.token).parse().unwrap();
                let knowing = axum::middleware::map_request(move |mut request: axum::extract::Request| {
                    let bearer = bearer.clone();
                    async move {
                        request.headers_mut().insert(http::header::AUTHORIZATION, bearer);
                        request
                    }
                });
                let stop = CancellationToken::new();
                let serving = tokio::spawn(serve(
                    listener,
                    router(web).layer(knowing),
                    Limits::default(),
                    stop.clone(),
                ));
                let url = format!("http://{address}/packages/p/s/mcp");
                let through = tokio::task::spawn_blocking(move || suite(&node, &program, &url))
                    .await
                    .unwrap();
                stop.cancel();
                serving.await.unwrap();
                doors.app.tasks.stop().await;
                assert!(directly.len() > 25, "{directly:?}");
                let carried = |all: &BTreeMap<String, String>| -> BTreeMap<String, String> {
                    all.iter()
                        .filter(|(name, _)| !beyond_an_answer(name))
                        .map(|(name, found)| (name.clone(), found.clone()))
                        .collect()
                };
                let (directly, through) = (carried(&directly), carried(&through));
                let passed = directly
                    .values()
                    .filter(|found| found.ends_with(" 0 failed"))
                    .count();
                assert!(passed > 15, "the server itself should pass: {directly:?}");
                assert_eq!(through, directly);
            }
        });
    }
}
