//! `muster plugins retry`: asks a running server. Never touches the database itself.

use muster_core::ids::MessageId;
use serde_json::Value;

use crate::config::Config;
use crate::output::{self, Failure};

/// How long the server may take. It answers before the turn begins.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

pub(super) async fn run(config: &Config, message_id: &str, json: bool) -> Result<(), Failure> {
    let id: MessageId = message_id
        .parse()
        .map_err(|_| Failure::usage("a message's id is a whole number"))?;
    let base = config
        .text("MUSTER_URL")
        .unwrap_or("http://127.0.0.1:7447")
        .trim_end_matches('/');
    let token = config.secret("MUSTER_TOKEN").ok_or_else(|| {
        Failure::refused(
            "unauthorized",
            "set MUSTER_TOKEN to a personal token; muster token create --kind personal makes one",
        )
    })?;
    let client = reqwest::Client::builder()
        .timeout(PATIENCE)
        .build()
        .map_err(|error| Failure::refused("client", error.to_string()))?;
    let request = client
        .post(format!("{base}/api/plugins/messages/{id}/retry"))
        .bearer_auth(token.expose());
    let answer = request.send().await.map_err(|error| {
        Failure::refused(
            "unreachable",
            format!(
                "no muster answers at {base} ({}); nothing was changed. Is MUSTER_URL right?",
                kind(&error)
            ),
        )
    })?;
    let status = answer.status();
    let body: Value = answer.json().await.unwrap_or(Value::Null);
    if status.is_success() {
        return if json {
            output::document(&body)
        } else {
            output::line("queued")
        };
    }
    let sentence = body
        .get("error")
        .and_then(Value::as_str)
        .unwrap_or("the server refused and did not say why");
    let code = match status.as_u16() {
        401 => "unauthorized",
        404 => "not_found",
        409 => "conflict",
        _ => "refused",
    };
    Err(Failure::refused(code, muster_core::text::terminal(sentence)))
}

fn kind(error: &reqwest::Error) -> &'static str {
    if error.is_connect() {
        "the connection was refused"
    } else if error.is_timeout() {
        "it took too long"
    } else {
        "the request failed"
    }
}
