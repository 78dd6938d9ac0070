//! The lines that Claude Code reads and writes in its `stream-json` form, as far as a turn needs them. Unknown frames and fields are passed
//! over; nothing here reads, writes or waits.

use serde_json::{Value, json};

use crate::text::{END_OF_TURN, Reply};

/// One line from the program.
pub(super) enum Frame {
    /// The answer to a question of ours.
    Answer(Answer),
    /// A request to the model failed and is sent again.
    Retry,
    /// The model said something.
    Assistant,
    /// The turn is over.
    Result(TurnResult),
    /// Anything else.
    Other,
}

/// An answer to a question of ours, as it came.
pub(super) struct Answer(Value);

/// Whether the program has muster's tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tools {
    Pending,
    Reached,
    Unreachable,
    /// It does not say.
    Unknown,
}

/// The frame that ends a turn, as it came.
pub(super) struct TurnResult(Value);

pub(super) enum Verdict {
    Completed,
    /// The turn did not come to its end; a sentence why.
    Failed(String),
}

impl Frame {
    /// `None` for a line that is no frame, such as a warning that the program prints.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let mut frame: Value = serde_json::from_slice(line).ok()?;
        let kind = frame.get("type")?.as_str()?;
        Some(match kind {
            "control_response" => Self::Answer(Answer(frame.get_mut("response").map(Value::take)?)),
            "system" if word(&frame, "/subtype") == Some("api_retry") => Self::Retry,
            // What the program says in the model's place, for example about a failed request.
            "assistant" if word(&frame, "/message/model") == Some("<synthetic>") => Self::Other,
            "assistant" => Self::Assistant,
            "result" => Self::Result(TurnResult(frame)),
            _ => Self::Other,
        })
    }
}

fn word<'a>(value: &'a Value, path: &str) -> Option<&'a str> {
    value.pointer(path)?.as_str()
}

impl Answer {
    /// Whether it answers the question with this id.
    pub(super) fn is_to(&self, id: &str) -> bool {
        word(&self.0, "/request_id") == Some(id)
    }

    /// True only when the program says so beyond doubt: it would talk to its maker's service and has neither a sign-in nor a key.
    pub(super) fn nobody_is_signed_in(&self) -> bool {
        let key = word(&self.0, "/response/account/apiKeySource");
        word(&self.0, "/response/account/apiProvider") == Some("firstParty")
            && word(&self.0, "/response/account/tokenSource") == Some("none")
            && key.is_none_or(|source| source == "none")
    }

    pub(super) fn tools(&self) -> Tools {
        let servers = self.0.pointer("/response/mcpServers").and_then(Value::as_array);
        let muster = servers.and_then(|servers| {
            servers
                .iter()
                .find(|server| word(server, "/name") == Some("muster"))
        });
        match muster.and_then(|server| word(server, "/status")) {
            Some("pending") => Tools::Pending,
            Some("connected") => Tools::Reached,
            Some("failed" | "needs-auth") => Tools::Unreachable,
            _ => Tools::Unknown,
        }
    }
}

impl TurnResult {
    pub(super) fn verdict(&self) -> Verdict {
        let flag = self.0.get("is_error");
        let reason = word(&self.0, "/terminal_reason");
        if flag.is_some_and(|flag| flag != false) || word(&self.0, "/subtype") != Some("success") {
            Verdict::Failed(
                match (self.0.get("api_error_status").and_then(Value::as_u64), reason) {
                    (Some(status), _) => format!("the model's service answered with status {status}."),
                    (None, Some("api_error")) => "the model's service could not be reached.".to_owned(),
                    (None, _) => "the turn ended with an error.".to_owned(),
                },
            )
        } else if reason.is_some_and(|reason| reason != "completed") {
            Verdict::Failed("the turn was stopped before its end.".to_owned())
        } else if let Some("refusal" | "max_tokens") = word(&self.0, "/stop_reason") {
            Verdict::Failed("the model stopped before the end of the turn.".to_owned())
        } else {
            Verdict::Completed
        }
    }

    /// What the program says about a failure.
    pub(super) fn words(&self) -> String {
        let errors = self
            .0
            .get("errors")
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let errors: Vec<&str> = errors.iter().filter_map(Value::as_str).collect();
        if errors.is_empty() {
            word(&self.0, "/result").unwrap_or_default().to_owned()
        } else {
            errors.join("; ")
        }
    }

    pub(super) fn into_reply(self) -> String {
        let mut reply = Reply::default();
        reply.push(word(&self.0, "/result").unwrap_or_default().as_bytes());
        reply.into_text()
    }
}

/// A question to the program, as one line.
pub(super) fn question(id: &str, subtype: &str) -> String {
    line(&json!({"type": "control_request", "request_id": id, "request": {"subtype": subtype}}))
}

/// The turn's text, as one line.
pub(super) fn user(text: &str) -> String {
    let content = json!([{"type": "text", "text": text}, {"type": "text", "text": END_OF_TURN}]);
    line(
        &json!({"type": "user", "message": {"role": "user", "content": content}, "parent_tool_use_id": null}),
    )
}

fn line(value: &Value) -> String {
    // serde_json writes every line break inside a string as an escape, so the value is one line whatever it holds.
    format!("{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(fields: &str) -> TurnResult {
        match Frame::parse(format!(r#"{{"type":"result",{fields}}}"#).as_bytes()) {
            Some(Frame::Result(result)) => result,
            _ => panic!("no result frame"),
        }
    }

    #[test]
    fn a_turn_is_completed_only_when_every_sign_says_so() {
        let good = r#""subtype":"success","is_error":false,"result":"done""#;
        assert!(matches!(result(good).verdict(), Verdict::Completed));
        assert!(matches!(
            result(&format!(
                r#"{good},"terminal_reason":"completed","stop_reason":"end_turn""#
            ))
            .verdict(),
            Verdict::Completed
        ));
        for bad in [
            r#""subtype":"success","is_error":true,"result":"x""#.to_owned(),
            r#""subtype":"error_max_turns","is_error":false"#.to_owned(),
            r#""result":"no subtype""#.to_owned(),
            r#""subtype":"success","is_error":"yes","result":"x""#.to_owned(),
            r#""subtype":"success","is_error":true,"errors":null,"api_error_status":"529""#.to_owned(),
            format!(r#"{good},"terminal_reason":"aborted_streaming""#),
            format!(r#"{good},"stop_reason":"refusal""#),
            format!(r#"{good},"stop_reason":"max_tokens""#),
        ] {
            assert!(matches!(result(&bad).verdict(), Verdict::Failed(_)), "{bad}");
        }
    }

    #[test]
    fn a_missing_sign_in_is_believed_only_without_any_other_way_in() {
        let signed_in = |account: &str| {
            let frame = format!(
                r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"r","response":{{"account":{account}}}}}}}"#
            );
            match Frame::parse(frame.as_bytes()) {
                Some(Frame::Answer(answer)) => !answer.nobody_is_signed_in(),
                _ => panic!("no answer"),
            }
        };
        assert!(!signed_in(r#"{"tokenSource":"none","apiProvider":"firstParty"}"#));
        assert!(!signed_in(
            r#"{"tokenSource":"none","apiKeySource":"none","apiProvider":"firstParty"}"#
        ));
        assert!(signed_in(
            r#"{"tokenSource":"none","apiKeySource":"ANTHROPIC_API_KEY","apiProvider":"firstParty"}"#
        ));
        assert!(signed_in(
            r#"{"tokenSource":"claude.ai","apiProvider":"firstParty"}"#
        ));
        assert!(signed_in(r#"{"apiProvider":"bedrock"}"#));
        assert!(signed_in(r#"{"tokenSource":"none"}"#));
        assert!(signed_in("{}") && signed_in("null"));
    }

    #[test]
    fn what_is_no_frame_is_passed_over() {
        for line in [
            &b""[..],
            b"warning: x",
            b"[1]",
            b"{\"type\":5}",
            b"{\"kind\":\"x\"}",
            b"\xff",
        ] {
            assert!(Frame::parse(line).is_none(), "{line:?}");
        }
        for line in [
            &br#"{"type":"rate_limit_event"}"#[..],
            br#"{"type":"system"}"#,
            br#"{"type":"user","message":{"role":"user"}}"#,
        ] {
            assert!(
                matches!(Frame::parse(line), Some(Frame::Other)),
                "{}",
                String::from_utf8_lossy(line)
            );
        }
        let synthetic = br#"{"message":{"model":"<synthetic>"},"type":"assistant"}"#;
        assert!(matches!(Frame::parse(synthetic), Some(Frame::Other)));
        assert!(matches!(
            Frame::parse(br#"{"message":{"model":"m"},"type":"assistant"}"#),
            Some(Frame::Assistant)
        ));
    }

    #[test]
    fn a_text_is_one_line_with_muster_s_words_as_the_last_block() {
        let line = user("a\nb\u{2028}c\r\u{0}\"");
        assert_eq!(line.matches('\n').count(), 1);
        let value: Value = serde_json::from_str(&line).unwrap();
        let content = value["message"]["content"].as_array().unwrap();
        assert_eq!(content[0]["text"], "a\nb\u{2028}c\r\u{0}\"");
        assert_eq!(content.last().unwrap()["text"], END_OF_TURN);
    }
}
