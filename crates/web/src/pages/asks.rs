//! `/attention`: the calls that wait for the owner, the two answers to each, and the calls that wait no more. Never decides a call itself, and never shows an argument as markup.

use askama::Template;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::StatusCode;
use muster_app::access::{self, Ask, AskError, AskState, Decider};
use muster_app::accounts::BrowserCaller;
use muster_app::settings;
use muster_core::clock::Time;
use muster_core::ids::{AskId, TokenId};
use muster_core::{Fault, spell};
use serde_json::Value;

use super::caller::Person;
use super::fields::Id;
use super::flash::{Flash, Opened, Place, Shown};
use super::refuse;
use super::view::{self, Here, PAGE, Shell, When, counted, counted_len, lines, one_line, see_other};
use crate::Web;

#[derive(Template)]
#[template(path = "asks.html")]
pub(super) struct AsksPage {
    shell: Shell,
    shown: Option<Shown>,
    /// Oldest first.
    asks: Vec<AskView>,
    /// How long an ask waits from now on.
    expiry: String,
    spoken: String,
}

#[derive(Template)]
#[template(path = "ended.html")]
pub(super) struct EndedPage {
    shell: Shell,
    /// Newest first.
    asks: Vec<AskView>,
    /// Where older ones begin.
    older: Option<i64>,
}

/// How an ask came to its end.
#[derive(Debug, Clone)]
struct EndedView {
    state: &'static str,
    /// What that meant for the call.
    means: &'static str,
    at: Option<When>,
    by: Option<String>,
}

impl EndedView {
    fn new(ask: &Ask, now: Time) -> Option<Self> {
        let means = match ask.state {
            AskState::Parked => return None,
            AskState::Approved => {
                "You said yes: the call could go on, and matching ones did for 60 seconds unless a policy refused them."
            }
            AskState::Refused => "You said no: the call was refused, and the same call asks again.",
            AskState::Expired => {
                "Nobody answered in time, or the process that held the call ended: it was refused."
            }
            AskState::Withdrawn => {
                "Whoever asked went away, the task was closed, or what was asked about changed: nobody waits for an answer."
            }
        };
        Some(Self {
            state: ask.state.as_str(),
            means,
            at: ask.decided_at.map(|at| When::new(at, now)),
            by: ask.decided_by.as_deref().map(one_line),
        })
    }
}

/// An ask as its card shows it. What came from outside is already readable; the template escapes it.
#[derive(Debug, Clone)]
struct AskView {
    id: i64,
    /// Asked by a plugin tool's approval rules, not by a grant.
    plugin_tool: bool,
    agent: String,
    /// The token's number; a session without one has none.
    agent_id: Option<i64>,
    task: Option<(i64, String)>,
    tool: String,
    pairs: Vec<PairView>,
    arguments: Vec<ArgumentView>,
    /// What of it cannot be read; such an ask can only be refused.
    unreadable: Option<String>,
    /// Of a plugin tool: which package's, and what that says of it.
    about: Option<AboutView>,
    asked: When,
    expires: When,
    /// Of one that waits no more.
    ended: Option<EndedView>,
}

/// An action on a resource, with the name that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PairView {
    pub(super) action: String,
    /// Such as `db_connection staging`; empty for a pair that names nothing.
    pub(super) on: String,
    pub(super) id: Option<String>,
}

/// What a plugin tool's call is about.
#[derive(Debug, Clone, PartialEq, Eq)]
struct AboutView {
    plugin: String,
    server: String,
    /// Why it is asked, in muster's words.
    reason: String,
    /// What the server gets beside the arguments.
    beside: Option<String>,
    /// What the server says of the tool.
    description: Option<String>,
}

impl AboutView {
    fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        Some(Self {
            plugin: one_line(text("plugin")?),
            server: one_line(text("server")?),
            reason: one_line(text("reason").unwrap_or_default()),
            beside: text("beside").map(one_line),
            description: text("description").filter(|words| !words.is_empty()).map(lines),
        })
    }
}

/// One argument of the call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ArgumentView {
    name: String,
    /// What kind of value it is, and how long a text is: what ends in blanks shows in no other way.
    kind: String,
    text: String,
}

impl AskView {
    fn new(ask: Ask, now: Time) -> Self {
        Self {
            ended: EndedView::new(&ask, now),
            id: ask.id.get(),
            plugin_tool: ask.kind == "plugin_tool",
            agent: one_line(&ask.label),
            agent_id: ask.agent.map(TokenId::get),
            task: ask.task.map(|(id, title)| (id.get(), one_line(&title))),
            tool: one_line(&ask.tool),
            pairs: pairs(&ask.pairs),
            about: AboutView::read(&ask.about),
            arguments: arguments(&ask.arguments),
            unreadable: (!ask.unreadable.is_empty()).then(|| ask.unreadable.join(" and ")),
            asked: When::new(ask.created_at, now),
            expires: When::new(ask.expires_at, now),
        }
    }
}

/// The pairs of an ask or of a call's audit row.
pub(super) fn pairs(value: &Value) -> Vec<PairView> {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(one_line);
    let pair = |pair: &Value| {
        let resource = pair.get("resource").filter(|resource| !resource.is_null());
        let on = resource.map(|resource| {
            let kind = text(resource, "kind").unwrap_or_default();
            let name = text(resource, "name").or_else(|| text(resource, "id"));
            format!("{kind} {}", name.unwrap_or_default())
        });
        PairView {
            action: text(pair, "action").unwrap_or_default(),
            on: on.unwrap_or_default(),
            id: resource.and_then(|resource| text(resource, "id")),
        }
    };
    value
        .as_array()
        .map(|all| all.iter().map(pair).collect())
        .unwrap_or_default()
}

/// The arguments one by one; of a value that is no object, the value.
fn arguments(value: &Value) -> Vec<ArgumentView> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| argument(one_line(name), value))
            .collect(),
        Value::Null => Vec::new(),
        other => vec![argument("arguments".to_owned(), other)],
    }
}

fn argument(name: String, value: &Value) -> ArgumentView {
    let (kind, text) = match value {
        Value::String(text) => {
            let long = counted_len(spell::characters(text), "character");
            (format!("text of {long}"), lines(text))
        }
        other => {
            let pretty = serde_json::to_string_pretty(other).unwrap_or_else(|_| other.to_string());
            (kind(other).to_owned(), lines(&pretty))
        }
    };
    ArgumentView { name, kind, text }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "yes or no",
        Value::Number(_) => "number",
        Value::String(_) => "text",
        Value::Array(_) => "list, as JSON",
        Value::Object(_) => "object, as JSON",
    }
}

fn spoken(waiting: usize) -> String {
    match waiting {
        0 => "No call waits for you.".to_owned(),
        1 => "1 call waits for you.".to_owned(),
        many => format!("{} wait for you.", counted_len(many, "call")),
    }
}

/// The page, for the tab that `/attention` opens with.
pub(super) async fn open(
    web: &Web,
    caller: &BrowserCaller,
    flash: &Flash,
    opened: Opened,
) -> Result<Response, Response> {
    let facts = async || -> Result<_, Fault> {
        Ok((
            access::list(&web.app, caller.owner, AskState::Parked).await?,
            settings::get(&web.app, caller.owner, settings::EXPIRY_SECONDS).await,
        ))
    };
    let (asks, expiry) = facts().await.map_err(|fault| refuse::fault(&fault))?;
    // After the look at the asks, which ends those that nobody answered in time.
    let shell = Shell::of(web, caller, Here::Asks, title(asks.len()))
        .await?
        .answering();
    let now = web.app.clock.now();
    let seconds = expiry.value.as_u64().or_else(|| expiry.default.as_u64());
    let page = AsksPage {
        shell,
        shown: flash.take(caller.session, Place::Asks, &opened),
        spoken: spoken(asks.len()),
        asks: asks.into_iter().map(|ask| AskView::new(ask, now)).collect(),
        expiry: counted(seconds.unwrap_or_default(), "second"),
    };
    Ok(view::page(StatusCode::OK, &page))
}

/// A page of the asks that wait no more, those with a smaller id than `before`.
pub(super) async fn ended(web: &Web, caller: &BrowserCaller, before: AskId) -> Result<Response, Response> {
    let found = access::ended(&web.app, caller.owner, before, PAGE)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let shell = Shell::of(web, caller, Here::Asks, "Ended asks").await?;
    let now = web.app.clock.now();
    let page = EndedPage {
        shell,
        older: found.older.map(AskId::get),
        asks: found.asks.into_iter().map(|ask| AskView::new(ask, now)).collect(),
    };
    Ok(view::page(StatusCode::OK, &page))
}

/// A tab that nobody looks at tells by its title that something waits.
fn title(waiting: usize) -> String {
    match waiting {
        0 => "Asks".to_owned(),
        many => format!("({many}) Asks"),
    }
}

pub(super) async fn allow(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(ask): Id<AskId>,
) -> Response {
    let done = access::approve(&web.app, caller.owner, ask, Decider::Page).await;
    let note = "Allowed: the call goes on, and matching calls of the same agent do for 60 seconds from now.";
    answered(&caller, &flash, done, note)
}

pub(super) async fn refuse(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(ask): Id<AskId>,
) -> Response {
    let done = access::refuse(&web.app, caller.owner, ask, Decider::Page).await;
    let note = "Refused: the call ended, and the same call asks again.";
    answered(&caller, &flash, done, note)
}

fn answered(
    caller: &BrowserCaller,
    flash: &Flash,
    done: Result<(), AskError>,
    note: &'static str,
) -> Response {
    if let Err(error) = done {
        return refuse::ask(&error);
    }
    flash.put(caller.session, Place::Asks, Shown::Note(note));
    see_other("/attention")
}

#[cfg(test)]
impl AsksPage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::{HOSTILE, shell, when};
        let hostile = || HOSTILE.to_owned();
        let ask = |id, plugin_tool| AskView {
            id,
            plugin_tool,
            agent: hostile(),
            agent_id: (!plugin_tool).then_some(3),
            task: (!plugin_tool).then(|| (4, hostile())),
            tool: hostile(),
            pairs: if plugin_tool {
                vec![]
            } else {
                vec![PairView {
                    action: hostile(),
                    on: hostile(),
                    id: Some(hostile()),
                }]
            },
            arguments: if plugin_tool {
                vec![]
            } else {
                vec![ArgumentView {
                    name: hostile(),
                    kind: hostile(),
                    text: hostile(),
                }]
            },
            unreadable: None,
            about: plugin_tool.then(|| AboutView {
                plugin: hostile(),
                server: hostile(),
                reason: hostile(),
                beside: Some(hostile()),
                description: Some(hostile()),
            }),
            asked: when(),
            expires: when(),
            ended: None,
        };
        let page = |asks: Vec<AskView>, shown| Self {
            shell: shell(Here::Asks),
            shown,
            spoken: spoken(asks.len()),
            asks,
            expiry: "300 seconds".to_owned(),
        };
        vec![
            page(vec![ask(1, false), ask(2, true)], Some(Shown::Note("done"))),
            page(vec![], None),
        ]
    }
}

#[cfg(test)]
impl EndedPage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::{HOSTILE, shell, when};
        let ended = || EndedView {
            state: "approved",
            means: "It was.",
            at: Some(when()),
            by: Some(HOSTILE.to_owned()),
        };
        let [asks, _] = AsksPage::samples()
            .try_into()
            .unwrap_or_else(|_| panic!("two samples"));
        let asks = asks.asks.into_iter().map(|ask| AskView {
            ended: Some(ended()),
            ..ask
        });
        let page = |asks, older| Self {
            shell: shell(Here::Asks),
            asks,
            older,
        };
        vec![page(asks.collect(), Some(7)), page(vec![], None)]
    }
}

#[cfg(test)]
mod tests {
    use askama::Template as _;
    use muster_core::ids::TaskId;
    use serde_json::json;

    use super::*;

    fn ask(arguments: Value) -> Ask {
        Ask {
            id: AskId::new(7),
            state: AskState::Parked,
            kind: "permission".to_owned(),
            agent: Some(TokenId::new(3)),
            label: "the \u{202e}agent".to_owned(),
            task: Some((TaskId::new(4), "Tidy <up>".to_owned())),
            tool: "muster_db_query".to_owned(),
            arguments,
            about: Value::Null,
            pairs: json!([
                {"action": "db_read", "resource": {"kind": "db_connection", "id": "9", "name": "staging"}},
                {"action": "hosts_read", "resource": null},
            ]),
            created_at: Time::from_micros(1_700_000_000_000_000),
            expires_at: Time::from_micros(1_700_000_300_000_000),
            decided_at: None,
            decided_by: None,
            unreadable: Vec::new(),
        }
    }

    fn html(ask: Ask) -> String {
        let now = Time::from_micros(1_700_000_060_000_000);
        let [_, empty] = AsksPage::samples()
            .try_into()
            .unwrap_or_else(|_| panic!("two samples"));
        let page = AsksPage {
            shell: Shell::bare("Asks"),
            asks: vec![AskView::new(ask, now)],
            ..empty
        };
        page.render().unwrap()
    }

    // spec: ASK-008
    #[test]
    fn a_card_shows_agent_task_tool_pairs_and_the_arguments_as_inert_text() {
        let sql = "DELETE FROM t;\n-- \u{202e}harmless\u{200b} </pre><script>alert(1)</script>";
        let shown = html(ask(json!({"sql": sql, "limit": 5, "deep": {"a": ["\u{2066}"]}})));
        for words in [
            "the \\u{202e}agent",
            "as token 3",
            "/tasks/4",
            "Tidy &#60;up&#62;",
            "muster_db_query",
            "db_read",
            "db_connection staging",
            "hosts_read",
            "\n-- \\u{202e}harmless\\u{200b} &#60;/pre&#62;&#60;script&#62;",
            "\\u{2066}",
            "text of 60 characters",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        assert!(
            !shown.contains("<script>alert") && !shown.contains('\u{202e}') && !shown.contains('\u{2066}')
        );
    }

    // spec: ASK-018
    #[test]
    fn a_card_says_since_when_and_until_when_it_waits() {
        let shown = html(ask(json!({})));
        assert!(
            shown.contains("1 minute ago") && shown.contains("in 4 minutes") && shown.contains("300 seconds"),
            "{shown}"
        );
    }

    // spec: ASK-046
    #[test]
    fn the_button_says_that_once_is_a_window_of_60_seconds() {
        let shown = html(ask(json!({})));
        assert!(
            shown.contains("Allow for 60 seconds") && shown.contains("every matching call of this agent"),
            "{shown}"
        );
    }

    #[test]
    fn a_card_of_what_cannot_be_read_says_so_and_has_no_button_that_allows_it() {
        let shown = html(Ask {
            pairs: Value::Null,
            unreadable: vec!["the arguments", "what it charges"],
            ..ask(Value::Null)
        });
        assert!(
            shown.contains("the arguments and what it charges of this ask cannot be read"),
            "{shown}"
        );
        for untrue in [
            "The call has no arguments",
            "this call of a plugin",
            "Allow for 60 seconds",
            "/allow",
        ] {
            assert!(!shown.contains(untrue), "{untrue}: {shown}");
        }
        assert!(shown.contains("/attention/asks/7/refuse"));
        assert!(html(ask(json!({}))).contains("/attention/asks/7/allow"));
    }

    #[test]
    fn an_ask_that_ended_says_how_when_and_by_whom_and_has_no_button() {
        let now = Time::from_micros(1_700_000_400_000_000);
        for (state, words) in [
            (AskState::Approved, "You said yes"),
            (AskState::Refused, "You said no"),
            (AskState::Expired, "Nobody answered in time"),
            (AskState::Withdrawn, "went away"),
        ] {
            let ended = Ask {
                state,
                decided_at: Some(Time::from_micros(1_700_000_280_000_000)),
                decided_by: Some("a<b\u{202e}".to_owned()),
                ..ask(json!({"sql": "SELECT 1"}))
            };
            let page = EndedPage {
                shell: Shell::bare("Ended asks"),
                asks: vec![AskView::new(ended, now)],
                older: Some(7),
            };
            let html = page.render().unwrap();
            for part in [
                words,
                state.as_str(),
                "2 minutes ago",
                "a&#60;b\\u{202e}",
                "SELECT 1",
                "db_connection staging",
                "/attention?ended=1&#38;before=7",
            ] {
                let part = part.replace("&#38;", "&amp;");
                assert!(html.contains(&part), "{part}: {html}");
            }
            assert!(!html.contains("/allow") && !html.contains("/refuse\""), "{html}");
        }
    }

    #[test]
    fn arguments_that_are_no_object_are_shown_whole() {
        assert!(arguments(&Value::Null).is_empty());
        let list = arguments(&json!([1, "a"]));
        assert_eq!(
            (list.len(), list[0].kind.as_str(), list[0].text.as_str()),
            (1, "list, as JSON", "[\n  1,\n  \"a\"\n]")
        );
    }

    #[test]
    fn the_title_of_the_tab_tells_how_many_wait() {
        assert_eq!((title(0), title(2)), ("Asks".to_owned(), "(2) Asks".to_owned()));
    }
}
