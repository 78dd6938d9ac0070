//! The protocol's own suite against the bus's HTTP door. Never tests what is not offered: the baselines beside the tools say what that is, and why.

use std::path::PathBuf;
use std::process::Command;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Bus, runtime};

/// Where the baselines are.
const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bus");

/// Stands before the daemon and adds the credential that the suite cannot send.
fn with_token(port: u16, token: &str) -> u16 {
    let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let own = listener.local_addr().unwrap().port();
    let token = token.to_owned();
    runtime().spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            // A connection that breaks is the suite's or the daemon's doing, and one of them says so.
            let token = token.clone();
            tokio::spawn(async move { pass_on(client, own, port, &token).await.ok() });
        }
    });
    own
}

/// Passes one request on with the token and under the daemon's own name; the daemon closes after its answer.
async fn pass_on(mut client: TcpStream, own: u16, port: u16, token: &str) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    let end = loop {
        if client.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).replace(&format!(":{own}"), &format!(":{port}"));
    let kept: Vec<&str> = head
        .lines()
        .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"))
        .collect();
    let head = format!(
        "{}\r\nauthorization: Bearer {token}\r\nconnection: close",
        kept.join("\r\n")
    );
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    server.write_all(head.as_bytes()).await?;
    server.write_all(&bytes[end..]).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server)
        .await
        .map(drop)
}

#[test]
fn the_protocols_own_suite_passes_for_what_the_buss_door_offers() {
    let needed = "npm/node_modules/conformance-next";
    let Some(folder) = std::env::var_os("MUSTER_TEST_TOOLS")
        .map(PathBuf::from)
        .filter(|folder| folder.join(needed).exists())
    else {
        assert!(
            std::env::var_os("CI").is_none(),
            "MUSTER_TEST_TOOLS holds no {needed}: ./test installs it"
        );
        eprintln!("SKIPPED: MUSTER_TEST_TOOLS holds no {needed} (./test installs it)");
        return;
    };
    let bus = Bus::new();
    let token = bus.mint("suite");
    let daemon = bus.daemon();
    let url = format!("http://127.0.0.1:{}/mcp", with_token(daemon.port(), &token));
    let path = format!(
        "{}:{}",
        folder.join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let suites = [
        (
            "@modelcontextprotocol/conformance",
            "suite-2025.yml",
            &["--suite", "active"][..],
        ),
        (
            "conformance-next",
            "suite-2026.yml",
            &["--requirements", "2026-07-28"],
        ),
    ];
    for (package, baseline, further) in suites {
        let done = Command::new("node")
            .arg(
                folder
                    .join("npm/node_modules")
                    .join(package)
                    .join("dist/index.js"),
            )
            .args(["server", "--url", &url])
            .args(further)
            .args(["--expected-failures", &format!("{HERE}/{baseline}")])
            .env("PATH", &path)
            .current_dir(bus.path(""))
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{package} failed:\n{said}");
    }
    assert!(!daemon.err.text().contains("panicked"), "{}", daemon.err.text());
}
