//! The documented interfaces against testers that know only the documents: the connector API against its OpenAPI document, `/mcp` against the protocol's own suite. Never tests what is not offered.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Place, Server, TOOLS, message};

/// The folder of installed tools; `None` where there is none, which in CI is a failure.
fn tools(needed: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("MUSTER_TEST_TOOLS")
        .map(PathBuf::from)
        .filter(|folder| folder.join(needed).exists());
    if folder.is_none() {
        assert!(
            std::env::var_os("CI").is_none(),
            "MUSTER_TEST_TOOLS holds no {needed}: ./test installs it"
        );
        eprintln!("SKIPPED: MUSTER_TEST_TOOLS holds no {needed} (./test installs it)");
    }
    folder
}

fn passes(what: &str, output: &Output) {
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what} failed:\n{said}");
    let lines: Vec<&str> = said.lines().collect();
    eprintln!("{what}:\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tester_that_knows_only_the_openapi_document_finds_no_contradiction() {
    let Some(folder) = tools("bin/schemathesis") else {
        return;
    };
    let place = Place::new().with_clock();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    place.set_chief("ada", "turns", "--draft 'Reply to {message}.'");
    let server = place.serve();
    let http = server.http();
    // Replies to claim and to report on, so that their answers are seen too.
    let mut ada = server.sign_in("ada").await;
    for number in 0..12 {
        let name = message(&format!("m-{number}"));
        http.message(&token, &name).await;
        http.settled(&token, &name, "delivered").await;
    }
    for draft in 1..=12 {
        ada.approve(draft).await;
    }
    let mut claimed = Vec::new();
    for _ in 0..4 {
        claimed.push(
            http.claim(&token, 0).await.json()["draft_id"]
                .as_i64()
                .unwrap()
                .to_string(),
        );
    }
    place.ok(&["chief", "set", "--runtime", "command", "--command", "true"]);
    // An hour each moment, so that the hour's allowance is never used up.
    let place = std::sync::Arc::new(place);
    let moving = tokio::spawn({
        let place = place.clone();
        async move {
            for hour in 1.. {
                place.move_clock(hour * 3_700);
                tokio::time::sleep(Duration::from_millis(400)).await;
            }
        }
    });

    let mut command = Command::new(folder.join("bin/schemathesis"));
    command.args([
        "run",
        &format!("{}/openapi.json", server.url()),
        "--checks",
        "all",
        "--max-examples",
        "60",
        "--workers",
        "1",
    ]);
    command.args([
        "--seed",
        "7",
        "--generation-deterministic",
        "--no-color",
        "--phases",
        "examples,coverage,fuzzing",
    ]);
    command
        .args(["--header", &format!("Authorization: Bearer {token}")])
        .current_dir(place.path(""));
    command
        .env("SCHEMATHESIS_HOOKS", "schemathesis_hooks")
        .env("PYTHONPATH", TOOLS)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
        .env("MUSTER_TEST_CLAIMED", claimed.join(","))
        .env("MUSTER_TEST_STATUSES", place.path("statuses"));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    moving.abort();
    passes("schemathesis", &output);
    // It must have met the answers that matter, or it proves little.
    let met = std::fs::read_to_string(place.path("statuses")).unwrap();
    for wanted in [
        "messages 202",
        "messages 200",
        "messages 400",
        "messages 401",
        "claim 200",
        "claim 204",
        "claim 400",
        "result 200",
        "result 409",
        "result 404",
        "result 400",
    ] {
        assert!(
            met.lines().any(|line| line == wanted),
            "no {wanted} among {:?}",
            met.lines().collect::<std::collections::BTreeSet<_>>()
        );
    }
    assert_eq!(http.message(&token, &message("after")).await.status, 202);
    assert!(
        !server.err.text().contains("panicked") && !server.err.text().contains("ERROR"),
        "{}",
        server.err.text()
    );
}

/// Stands before the server and adds the credential that the suite cannot send.
async fn with_token(server: &Server, token: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (own, port, token) = (
        listener.local_addr().unwrap().port(),
        server.port,
        token.to_owned(),
    );
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let token = token.clone();
            // A connection that breaks is the suite's or the server's doing, and one of them says so.
            tokio::spawn(async move { pass_on(client, own, port, &token).await.ok() });
        }
    });
    own
}

/// Passes one request on with the token, under the server's own name; the server closes after its answer.
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
    let lines = head
        .lines()
        .filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let head = lines.collect::<Vec<_>>().join("\r\n")
        + &format!("\r\nauthorization: Bearer {token}\r\nconnection: close");
    let mut server = TcpStream::connect(("127.0.0.1", port)).await?;
    server.write_all(head.as_bytes()).await?;
    server.write_all(&bytes[end..]).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server)
        .await
        .map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_protocols_own_suite_passes_for_what_the_mcp_door_offers() {
    let Some(folder) = tools("npm/node_modules/conformance-next") else {
        return;
    };
    let place = Place::new();
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    // A turn that lasts, so that the suite sees the door as the chief does, with its tool.
    let script = place.path("chief.sh");
    std::fs::write(
        &script,
        "printf %s \"$MUSTER_AGENT_TOKEN\" > \"$1.new\" && mv \"$1.new\" \"$1\" && sleep 600\n",
    )
    .unwrap();
    let file = place.path("token");
    place.ok(&[
        "chief",
        "set",
        "--runtime",
        "command",
        "--command",
        &format!("sh '{}' '{}'", script.display(), file.display()),
    ]);
    let server = place.serve();
    server.http().message(&token, &message("m")).await;
    for _ in 0..6_000 {
        if file.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let agent = std::fs::read_to_string(file).unwrap();
    let listed = server
        .http()
        .send(mcp(&server, &agent, "tools/list", &json!({})))
        .await
        .unwrap();
    assert_eq!(
        listed.json()["result"]["tools"][0]["name"],
        "reply_draft",
        "{listed:?}"
    );

    let port = with_token(&server, &agent).await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    let path = format!(
        "{}:{}",
        folder.join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let suites = [
        (
            "@modelcontextprotocol/conformance",
            "mcp-baseline-2025.yml",
            &["--suite", "active"][..],
        ),
        (
            "conformance-next",
            "mcp-baseline-2026.yml",
            &["--requirements", "2026-07-28"],
        ),
    ];
    for (package, baseline, further) in suites {
        let mut command = Command::new("node");
        command
            .arg(
                folder
                    .join("npm/node_modules")
                    .join(package)
                    .join("dist/index.js"),
            )
            .args(["server", "--url", &url])
            .args(further);
        command
            .arg("--expected-failures")
            .arg(format!("{TOOLS}/{baseline}"))
            .env("PATH", &path)
            .current_dir(place.path(""));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap())
            .await
            .unwrap();
        passes(package, &output);
    }
    assert!(!server.err.text().contains("panicked"), "{}", server.err.text());
}

fn mcp(server: &Server, token: &str, method: &str, params: &serde_json::Value) -> reqwest::RequestBuilder {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = server
        .http()
        .request(reqwest::Method::POST, "/mcp")
        .bearer_auth(token)
        .json(&call);
    request
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2025-06-18")
}
