//! A server of tools on standard streams: one JSON object a line in, one out, the end of the input is the end. Never writes anything else to standard output.

use std::io::{self, BufRead as _, Write as _};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line?) else {
            continue;
        };
        // A notification wants no answer.
        let (Some(id), Some(method)) = (message.get("id"), message.get("method").and_then(Value::as_str))
        else {
            continue;
        };
        let params = message.get("params").cloned().unwrap_or_default();
        let reply = match answer(method, &params) {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => {
                let error = json!({"code": -32_601, "message": "there is no such method or tool"});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        writeln!(out, "{reply}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(method: &str, params: &Value) -> Option<Value> {
    match method {
        "initialize" => Some(json!({
            "protocolVersion": params.get("protocolVersion").and_then(Value::as_str).unwrap_or("2025-11-25"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "word-count", "version": env!("CARGO_PKG_VERSION")},
        })),
        "ping" => Some(json!({})),
        "tools/list" => Some(json!({"tools": [tool()]})),
        "tools/call" if params.get("name").and_then(Value::as_str) == Some("count.words") => {
            let text = params
                .get("arguments")
                .and_then(|arguments| arguments.get("text"))
                .and_then(Value::as_str);
            Some(match text {
                Some(text) => counted(text),
                None => json!({
                    "content": [{"type": "text", "text": "\"text\" must be a string."}],
                    "isError": true,
                }),
            })
        }
        _ => None,
    }
}

/// The dot becomes an underscore where an agent sees the name; a call arrives under this one.
fn tool() -> Value {
    json!({
        "name": "count.words",
        "title": "Count words",
        "description": "Counts the lines, words and characters of a text.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "lines": {"type": "integer"},
                "words": {"type": "integer"},
                "characters": {"type": "integer"},
            },
            "required": ["lines", "words", "characters"],
        },
        "annotations": {"readOnlyHint": true},
    })
}

fn counted(text: &str) -> Value {
    let counts = json!({
        "lines": text.lines().count(),
        "words": text.split_whitespace().count(),
        "characters": text.chars().count(),
    });
    json!({
        "content": [{"type": "text", "text": counts.to_string()}],
        "structuredContent": counts,
    })
}
