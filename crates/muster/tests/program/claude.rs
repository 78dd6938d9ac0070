//! The loop with the real Claude Code program as chief, against a scripted model on loopback. Nothing leaves the machine.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Place, TOOLS, message, offered};

/// The scripted model; it ends with this value.
struct Model {
    process: Child,
    port: u16,
    log: PathBuf,
}

impl Model {
    fn new(place: &Place, steps: &Value) -> Self {
        let (script, log) = (place.path("steps.json"), place.path("requests.jsonl"));
        std::fs::write(&script, steps.to_string()).unwrap();
        let mut command = Command::new("python3");
        command
            .arg(format!("{TOOLS}/fake_model.py"))
            .arg("--script")
            .arg(&script)
            .arg("--log")
            .arg(&log);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            process,
            port: line.trim().parse().unwrap(),
            log,
        }
    }

    /// What the model was asked in each turn's last request that offers tools, as JSON text.
    fn asked(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.log).unwrap();
        let requests = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        requests
            .filter(|request| request["door"] == "model" && request["body"]["tools"][0].is_object())
            .map(|request| request["body"].to_string())
            .collect()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// The same place whose server passes on what the program needs: its own home, the scripted model, nothing that would leave the machine.
fn prepared(place: Place, port: u16) -> Place {
    let home = place.path("home");
    std::fs::create_dir_all(&home).unwrap();
    let config = home.join(".claude").display().to_string();
    let fixed = [
        ("ANTHROPIC_API_KEY", "sk-ant-dummy-000"),
        ("TERM", "dumb"),
        ("LANG", "C.UTF-8"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("DISABLE_TELEMETRY", "1"),
        ("DISABLE_ERROR_REPORTING", "1"),
        ("DISABLE_AUTOUPDATER", "1"),
        ("DISABLE_BUG_COMMAND", "1"),
        ("DISABLE_COST_WARNINGS", "1"),
        ("CLAUDE_CODE_ENABLE_TELEMETRY", "0"),
        ("ENABLE_TOOL_SEARCH", "false"),
        ("CLAUDE_CODE_MAX_RETRIES", "1"),
    ];
    let place = fixed
        .into_iter()
        .fold(place, |place, (name, value)| place.with(name, value));
    place
        .with("CLAUDE_CONFIG_DIR", &config)
        .with("ANTHROPIC_BASE_URL", &format!("http://127.0.0.1:{port}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn claude_code_drafts_a_reply_through_musters_own_door() {
    let Some(program) = std::env::var_os("MUSTER_TEST_CLAUDE").map(PathBuf::from) else {
        assert!(
            std::env::var_os("CI").is_none(),
            "MUSTER_TEST_CLAUDE is not set: ./test installs Claude Code and sets it"
        );
        eprintln!("SKIPPED: MUSTER_TEST_CLAUDE is not set (./test sets it)");
        return;
    };
    let place = Place::new();
    let call = |id: i64, body: &str| json!({"tool": "mcp__muster__reply_draft", "input": {"message_id": id, "body": body}});
    // The second reply holds what the screen refuses; the model is told why and tries again.
    let steps = json!([call(1, "Noon works for me."), {"text": "I drafted a reply."}, call(2, "Ask 10.0.0.1 about it."), call(2, "Ask a colleague about it."), {"text": "Done."}]);
    let model = Model::new(&place, &steps);
    let place = prepared(place, model.port);
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    let command = format!("'{}' --model claude-sonnet-4-5", program.display());
    place.ok(&["chief", "set", "--runtime", "claude-code", "--command", &command]);
    let server = place.serve();
    let http = server.http();
    let mut ada = server.sign_in("ada").await;

    // The scripted model knows the ids beforehand: each message is sent once, since a repeat may use one up.
    let look = place.look().await;
    assert_eq!(http.message(&token, &message("first")).await.json()["id"], 1);
    look.becomes("SELECT state FROM messages WHERE id = 1", "delivered")
        .await;
    let page = ada.get("/attention?tab=drafts").await.text;
    assert_eq!(offered(&page), [1]);
    assert!(
        page.contains("Noon works for me.") && page.contains("body of first"),
        "{page}"
    );
    ada.approve(1).await;
    let claimed = http.claim(&token, 5).await;
    assert_eq!(
        (claimed.status, claimed.json()["body"].as_str()),
        (200, Some("Noon works for me."))
    );

    assert_eq!(http.message(&token, &message("second")).await.json()["id"], 2);
    look.becomes("SELECT state FROM messages WHERE id = 2", "delivered")
        .await;
    look.close().await;
    let page = ada.get("/attention?tab=drafts").await.text;
    assert_eq!(offered(&page), [2]);
    assert!(
        page.contains("Ask a colleague about it.") && !page.contains("10.0.0.1"),
        "{page}"
    );
    let asked = model.asked();
    assert_eq!(asked.len(), 5, "{asked:#?}");
    assert!(
        asked[3].contains("screened"),
        "the model was not told why: {}",
        asked[3]
    );
    assert!(
        asked[2].contains("body of first") && asked[2].contains("I drafted a reply."),
        "the conversation was not resumed"
    );
    let conversation = ada.get("/chief/conversations/1").await.text;
    assert!(
        conversation.contains("I drafted a reply.") && conversation.contains("Done."),
        "{conversation}"
    );
    let (said, _) = server.stop();
    assert!(said.code() == 0 && !said.err.contains("WARN"), "{said:?}");
}
