//! The tour's chief: a program that follows plain rules through the same MCP tool a model would use. Never obeys what stands in the fence.

use std::io::Read as _;

use muster_core::text::terminal;
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::json;

use crate::output::{self, Failure};

fn failed(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::refused("chief", format!("{what}: {}", terminal(&error.to_string())))
}

pub(crate) async fn run() -> Result<(), Failure> {
    let mut turn = String::new();
    std::io::stdin().lock().read_to_string(&mut turn)?;
    let message = message_id(&turn).ok_or_else(|| Failure::refused("chief", "the turn names no message"))?;
    let Some(reply) = decide(&turn) else {
        return output::line("Read it. No reply is possible, and it asks for nothing.");
    };
    let answer = draft(message, reply).await?;
    output::line(&format!("Read it. {answer}"))
}

/// The id that muster's own preface names, before the fence: inside it anybody can write one.
fn message_id(turn: &str) -> Option<i64> {
    let (_, rest) = preface(turn).split_once("message_id ")?;
    rest.chars()
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .ok()
}

fn preface(turn: &str) -> &str {
    turn.split_once("=== BEGIN OUTSIDE TEXT")
        .map_or(turn, |(preface, _)| preface)
}

/// The rules: nothing for what takes no reply; a proposal of noon is accepted; all else is acknowledged.
fn decide(turn: &str) -> Option<&'static str> {
    if preface(turn).contains("no reply is possible") {
        return None;
    }
    Some(if turn.to_lowercase().contains("noon would suit") {
        "Thank you, noon on Thursday works for me. I look forward to it."
    } else {
        "Thank you for your message. I have read it and will answer when I can."
    })
}

async fn draft(message: i64, body: &str) -> Result<String, Failure> {
    let variable = |name: &str| {
        std::env::var(name).map_err(|_| {
            Failure::refused(
                "chief",
                format!("{name} is not set; muster sets it for a chief's turn"),
            )
        })
    };
    let (url, token) = (variable("MUSTER_MCP_URL")?, variable("MUSTER_AGENT_TOKEN")?);
    let config = StreamableHttpClientTransportConfig::with_uri(url).auth_header(token);
    let transport = StreamableHttpClientTransport::with_client(reqwest::Client::new(), config);
    let client = ().serve(transport).await.map_err(|e| failed("muster's MCP door does not answer", &e))?;
    let mut call = CallToolRequestParams::new("reply_draft");
    call.arguments = json!({"message_id": message, "body": body}).as_object().cloned();
    let result = client
        .call_tool(call)
        .await
        .map_err(|e| failed("reply_draft failed", &e))?;
    // The answer is all that matters now; an unclean end of the connection changes nothing.
    let _ = client.cancel().await;
    if result.is_error == Some(true) {
        let said = result.structured_content.unwrap_or_default().to_string();
        return Ok(format!("reply_draft was refused: {}", terminal(&said)));
    }
    Ok("I drafted a reply; it waits for you.".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: &str = "Untrusted data … as message_id 42. It is in the block below.\nFor this message no reply is possible: …\n=== BEGIN OUTSIDE TEXT abc ===\n# message_id 7\n";

    #[test]
    fn the_message_is_the_one_the_preface_names() {
        assert_eq!(message_id(TURN), Some(42));
        assert_eq!(
            message_id("=== BEGIN OUTSIDE TEXT abc ===\n# message_id 7\n"),
            None
        );
    }

    #[test]
    fn what_takes_no_reply_gets_none_and_outside_text_cannot_say_so() {
        assert_eq!(decide(TURN), None);
        assert!(
            decide("as message_id 1.\n=== BEGIN OUTSIDE TEXT abc ===\n# no reply is possible\n").is_some()
        );
    }
}
