//! Asking a person about a package tool's call: an ask on the same queue as permissions. Never decides, and never shows other arguments than those that would be sent.

use futures::future::BoxFuture;
use muster_app::App;
use muster_app::access::{self, Asker, Overruled, ToolPrompt, Unanswered};
use muster_plugin_host::session::{self, Again, Approver, Ask, Verdict};
use serde_json::Value;

/// The queue of asks, for one caller's session.
#[derive(Clone)]
pub struct Queue {
    app: App,
    asker: Asker,
}

impl Queue {
    /// Asks for this caller.
    #[must_use]
    pub const fn new(app: App, asker: Asker) -> Self {
        Self { app, asker }
    }
}

impl Approver for Queue {
    fn ask<'a>(&'a self, ask: Ask, again: Again<'a>) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let prompt = ToolPrompt {
                plugin: ask.key.plugin,
                server: ask.key.server,
                tool: ask.tool,
                definition: ask.definition,
                arguments: faithful(&ask.arguments),
                beside: ask.beside,
                description: ask.description,
                reason: ask.reason,
            };
            let again = async {
                let found = again.await;
                found.map_err(|found| Overruled {
                    outcome: found.word,
                    sentence: found.sentence,
                })
            };
            match access::prompt(&self.app, &self.asker, prompt, again).await {
                Ok(_) => Verdict::Allowed,
                Err(Unanswered::ByPerson) => Verdict::Refused,
                Err(Unanswered::Overruled(found)) => Verdict::Overruled(session::Overruled {
                    word: found.outcome,
                    sentence: found.sentence,
                }),
                Err(Unanswered::Expired) => Verdict::Expired,
                Err(Unanswered::NobodyToAsk) => Verdict::NobodyToAsk(None),
                Err(Unanswered::Saturated) => Verdict::Saturated,
                Err(Unanswered::TooLarge(bytes)) => Verdict::TooLarge(bytes),
                Err(Unanswered::Withdrawn) => Verdict::Withdrawn(None),
            }
        })
    }
}

/// The arguments as a value. What would read otherwise than it is sent (a name that stands twice, a number with more digits than a value
/// holds) is the text itself: a person must not be shown one thing while the tool gets another.
fn faithful(sent: &str) -> Value {
    serde_json::from_str::<Value>(sent)
        .ok()
        .filter(|value| outline(&value.to_string()) == outline(sent))
        .unwrap_or_else(|| Value::String(sent.to_owned()))
}

/// How many names a JSON text has, and its words and numbers in order of the alphabet.
fn outline(text: &str) -> (usize, Vec<String>) {
    let (mut names, mut outside) = (0, String::new());
    let (mut inside, mut escaped) = (false, false);
    for letter in text.chars() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => inside = !inside,
            _ if inside => {}
            ':' => {
                names += 1;
                outside.push(' ');
            }
            '{' | '}' | '[' | ']' | ',' => outside.push(' '),
            other => outside.push(other),
        }
    }
    let mut words: Vec<String> = outside.split_whitespace().map(str::to_owned).collect();
    words.sort_unstable();
    (names, words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_person_is_shown_the_arguments_that_would_be_sent() {
        let plain = r#" {"b" : [1, -2.5, true, null, "caf\u00e9 \"\\", 1.0], "a": {"x:y": {}}} "#;
        assert_eq!(
            faithful(plain),
            json!({"a": {"x:y": {}}, "b": [1, -2.5, true, null, "café \"\\", 1.0]})
        );
        for odd in [
            r#"{"path":"/tmp/mine","path":"/"}"#,
            r#"{"deep":[{"path":"/tmp/mine","path":"/"}]}"#,
            r#"{"amount":12345678901234567890123}"#,
            r#"{"amount":0.10000000000000000000001}"#,
            r#"{"amount":1e400}"#,
            r#"{"p":1,"p":1}"#,
        ] {
            assert_eq!(faithful(odd), json!(odd));
        }
    }
}
