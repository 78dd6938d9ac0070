//! Calls that a person is asked about: what is asked, the look after a yes, and what goes to the server. Never sends a call by a look from before the yes, nor
//! more of it than the person saw.

use super::calls::DENIED;
use super::tools::Tool;
use super::{Ask, Inner, Overruled, Verdict};
use crate::jsonrpc::{Fields, code, failure};
use crate::settings::Ruling;

/// What is told of a tool that is not the one which was asked about.
const ANOTHER: &str = "The server lists another tool under this name than the one that was asked about, or none. Nothing was sent to it; call it again to ask about what it is now.";

/// What the protocol has beside a call's name and arguments, and a person is shown with them.
const BESIDE: [&str; 3] = ["task", "inputResponses", "requestState"];

/// The parameters of a call that a person was asked about, without what the person did not see: of `_meta` there is what is the protocol's own.
fn shown_alone(fields: &Fields<'_>) -> String {
    const OWN: [&str; 4] = ["progressToken", "traceparent", "tracestate", "baggage"];
    let meta = fields
        .get("_meta")
        .and_then(|meta| Fields::parse(meta.get()).ok());
    let meta = meta
        .map(|meta| meta.only(|name| OWN.contains(&name) || name.starts_with("io.modelcontextprotocol/")));
    let kept = fields.only(|name| matches!(name, "name" | "arguments") || BESIDE.contains(&name));
    match (meta, Fields::parse(&kept)) {
        (Some(meta), Ok(kept)) => kept.with(&[("_meta", &meta)]),
        _ => kept,
    }
}

impl Inner {
    /// Asks a person, and sends the call or answers why not.
    pub(super) async fn ask_person(&self, id: &str, fields: &Fields<'_>, tool: &Tool, reason: &'static str) {
        let arguments = fields.get("arguments").map_or("{}", |arguments| arguments.get());
        let beside = fields.only(|name| BESIDE.contains(&name));
        let shown = shown_alone(fields);
        let Ok(sent) = Fields::parse(&shown) else {
            let sentence = "\"params\" could not be read; nothing was sent";
            self.tell(&failure(id, code::INVALID_PARAMS, sentence)).await;
            return;
        };
        let meta = sent.get("_meta").map(|meta| meta.get());
        let approved = self.is_approved().await;
        let ask = Ask {
            session: self.options.session.clone(),
            key: self.ready.key.clone(),
            tool: tool.registered.clone(),
            definition: format!(
                "{} {} {}",
                self.ready.definition,
                tool.hash,
                if tool.changed { "changed" } else { "as approved" }
            ),
            arguments: arguments.to_owned(),
            beside: (beside != "{}").then_some(beside),
            description: tool.description.clone(),
            reason,
        };
        let again = Box::pin(self.is_still_asked(tool, approved, meta));
        let mut verdict = self.options.approver.ask(ask, again).await;
        if verdict == Verdict::Allowed {
            // Writing a yes down takes its time too, and a yes of the last minute was looked at by nobody.
            match self.is_still_asked(tool, approved, meta).await {
                Ok(()) => {
                    if self.record(id, tool, verdict.decision(), None).await {
                        self.run(id, &sent, tool).await;
                    }
                    return;
                }
                Err(overruled) => verdict = Verdict::Overruled(overruled),
            }
        }
        let (word, sentence) = verdict.refusal();
        self.refuse(id, tool, verdict.decision(), word, &sentence, verdict.detail())
            .await;
    }

    /// Whether what is served is what may be started now. A session goes on when it is not, until its end.
    async fn is_approved(&self) -> bool {
        let (host, key) = (self.ready.host.clone(), self.ready.key.clone());
        let definition = self.ready.definition.clone();
        // It looks at each file of the copy, and may wait for the ledger.
        let look = move || host.ready(&key).is_ok_and(|ready| ready.definition == definition);
        tokio::task::spawn_blocking(look).await.unwrap_or(false)
    }

    /// Looks once more at what decides, now that a person has said yes: a rule that refuses by now counts, and so does a package that was `approved` when
    /// it was asked about, and a tool that is another one by now.
    async fn is_still_asked(&self, tool: &Tool, approved: bool, meta: Option<&str>) -> Result<(), Overruled> {
        let refused = |word, sentence: String| Err(Overruled { word, sentence });
        match self.settings.read(&self.settings_path) {
            Err(why) => return refused("refused_error", why),
            Ok(settings) => {
                if matches!(
                    settings.ruling(&tool.registered, tool.hinted, tool.changed),
                    Ruling::Deny
                ) {
                    return refused("refused_denied", DENIED.to_owned());
                }
            }
        }
        if approved && !self.is_approved().await {
            let sentence = "The package of this tool was changed, or its owner decided about it anew, while the call waited to be approved. Nothing was sent to it.";
            return refused("refused_error", sentence.to_owned());
        }
        let known = self.state().tools.clone();
        // The server may have said meanwhile that its list is another one.
        let listed = match known {
            Some(tools) => tools,
            None => match self.tools(meta.map(str::to_owned), false).await {
                Ok(tools) => tools,
                Err(why) => {
                    let sentence = format!(
                        "The tool could not be looked at again before it was called: {}. Nothing was sent to it.",
                        why.sentence()
                    );
                    return refused("refused_error", sentence);
                }
            },
        };
        let same = listed
            .offered
            .values()
            .any(|now| now.name == tool.name && now.hash == tool.hash);
        match self.beside.now(&self.ready.host, &self.ready.key) {
            Ok(noted) if same && (tool.changed || !noted.changed.contains(&tool.name)) => Ok(()),
            Ok(_) => refused("refused_error", ANOTHER.to_owned()),
            Err(fault) => refused("refused_error", format!("{fault}; nothing was sent")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_did_not_see_goes_with_no_call_that_was_asked_about() {
        let params = r#"{"name":"a","arguments":{"x":1.50},"extra":"rm -rf","task":{"ttl":5},"_meta":{"target":"/","progressToken":7,"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocolx":1}}"#;
        assert_eq!(
            shown_alone(&Fields::parse(params).unwrap()),
            r#"{"name":"a","arguments":{"x":1.50},"task":{"ttl":5},"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"v"}}"#
        );
        for (params, kept) in [
            (r#"{"name":"a"}"#, r#"{"name":"a"}"#),
            (
                r#"{"name":"a","requestState":"s","inputResponses":{"k":{}},"other":1}"#,
                r#"{"name":"a","requestState":"s","inputResponses":{"k":{}}}"#,
            ),
            (r#"{"name":"a","_meta":"x"}"#, r#"{"name":"a"}"#),
            (r#"{"_meta":{"a":1},"name":"a"}"#, r#"{"name":"a","_meta":{}}"#),
        ] {
            assert_eq!(shown_alone(&Fields::parse(params).unwrap()), kept);
        }
    }
}
