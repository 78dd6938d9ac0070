//! `reply_draft`, the chief's tool: what it takes and how it refuses. Never decides: the app does, also by name.

use muster_app::App;
use muster_app::accounts::AgentCaller;
use muster_app::drafts::{self, FileRefusal};
use muster_core::ids::MessageId;
use rmcp::model::{CallToolResult, JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use super::schema::{object, output};

pub(super) const NAME: &str = "reply_draft";

pub(super) fn tool() -> Tool {
    let input = json!({
        "type": "object",
        "properties": {
            "message_id": {"type": "integer", "minimum": 1, "description": "The message to answer: the number after message_id in its turn. It must have been delivered to you."},
            "body": {"type": "string", "minLength": 1, "maxLength": 16384, "description": "The whole reply as it is to be sent, at most 16 KiB. No invisible characters, addresses of machines, credentials or names of infrastructure: the screen refuses them and says why."}
        },
        "required": ["message_id", "body"],
        "additionalProperties": false
    });
    let answer = json!({"draft_id": {"type": "integer"}, "status": {"type": "string", "const": "pending"}, "superseded": {"type": "integer"}});
    let description = "Files a reply to an inbound message as a draft for your owner, in place of an earlier draft of yours that still waits. \
                       It sends nothing: your owner reads the draft and approves or rejects it. Refused for a message marked no_reply, \
                       while another reply to the same message is on its way, and while 20 of your drafts wait.";
    let mut tool = Tool::new_with_raw(NAME, Some(description.into()), object(input));
    tool.output_schema = Some(output(answer, &["draft_id", "status", "superseded"]));
    tool.title = Some("Draft a reply".to_owned());
    tool.annotations = Some(ToolAnnotations::from_raw(
        None,
        Some(false),
        Some(false),
        Some(false),
        Some(false),
    ));
    tool
}

pub(super) async fn call(app: &App, caller: &AgentCaller, arguments: &JsonObject) -> CallToolResult {
    let message = arguments
        .get("message_id")
        .and_then(Value::as_i64)
        .filter(|id| *id > 0);
    let body = arguments.get("body").and_then(Value::as_str);
    let (Some(message), Some(body)) = (message, body) else {
        return refusal(
            "invalid_argument",
            "reply_draft takes message_id, a whole number, and body, a string; nothing was filed",
        );
    };
    match drafts::file(app, caller, MessageId::new(message), body).await {
        Ok(filed) => CallToolResult::structured(
            json!({"draft_id": filed.id.get(), "status": "pending", "superseded": filed.superseded}),
        ),
        Err(error) => {
            if let FileRefusal::Fault(fault) = &error {
                tracing::error!(error = %fault.chain(), "a draft could not be filed");
            }
            refusal(code(&error), &error.to_string())
        }
    }
}

const fn code(error: &FileRefusal) -> &'static str {
    match error {
        FileRefusal::Off => "plugins_off",
        FileRefusal::NotChief => "not_chief",
        FileRefusal::NoSuchMessage => "not_found",
        FileRefusal::NoReply => "no_reply",
        FileRefusal::Body(_) => "invalid_argument",
        FileRefusal::Screened(_) => "screened",
        FileRefusal::InFlight => "in_flight",
        FileRefusal::TooMany => "too_many_pending",
        FileRefusal::Fault(_) => "fault",
    }
}

fn refusal(code: &'static str, message: &str) -> CallToolResult {
    CallToolResult::structured_error(json!({"error": {"code": code, "message": message}}))
}
