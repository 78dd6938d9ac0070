//! `/` and `/notices`: what waits for the owner, how the chief stands, what a newcomer still has to set up. Never changes anything.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_app::accounts::{self, BrowserCaller};
use muster_app::drafts::{self, DraftState};
use muster_app::{chief, messages, notices, plugins};
use muster_core::Fault;
use muster_core::clock::Time;

use super::caller::Person;
use super::refuse;
use super::view::{self, Here, Shell, When, counted, counted_len};
use crate::Web;

#[derive(Template)]
#[template(path = "overview.html")]
pub(super) struct OverviewPage {
    shell: Shell,
    notices: Vec<NoticeView>,
    /// One line each: what waits where.
    waiting: Vec<Waiting>,
    chief: Option<ChiefView>,
    steps: Vec<Step>,
    /// Whether something of what must be set up is missing.
    newcomer: bool,
    /// What the script announces when it changes.
    spoken: String,
}

#[derive(Template)]
#[template(path = "notices.html")]
pub(super) struct NoticesFragment {
    notices: Vec<NoticeView>,
}

/// A notice, in muster's own words.
#[derive(Debug, Clone)]
struct NoticeView {
    id: i64,
    title: String,
    body: String,
    link: String,
    at: When,
}

#[derive(Debug, Clone)]
struct Waiting {
    count: String,
    words: &'static str,
    link: &'static str,
}

#[derive(Debug, Clone)]
struct ChiefView {
    runtime: String,
    command: String,
    since: When,
    stuck: Option<String>,
    last: Option<When>,
}

/// A step of the set-up.
#[derive(Debug, Clone)]
struct Step {
    done: bool,
    /// Everything works without it.
    optional: bool,
    title: &'static str,
    words: String,
    /// A command to type, where it is one.
    command: Option<String>,
    link: Option<(&'static str, &'static str)>,
}

/// What the page is made of.
struct Facts {
    notices: Vec<notices::Notice>,
    drafts: Vec<drafts::Card>,
    unconfirmed: usize,
    plugins: Vec<plugins::Plugin>,
    chief: Option<chief::Chief>,
    last_turn: Option<Time>,
    passkeys: usize,
}

pub(super) async fn show(State(web): State<Web>, Person(caller): Person) -> Result<Response, Response> {
    let shell = Shell::of(&web, &caller, Here::Overview, "Overview").await?;
    let facts = look(&web, &caller).await.map_err(|fault| refuse::fault(&fault))?;
    Ok(view::page(StatusCode::OK, &compose(&web, &caller, shell, facts)))
}

pub(super) async fn open_notices(
    State(web): State<Web>,
    Person(caller): Person,
) -> Result<Response, Response> {
    let now = web.app.clock.now();
    let open = notices::open(&web.app.db, caller.owner)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    Ok(view::page(
        StatusCode::OK,
        &NoticesFragment {
            notices: shown(open, now),
        },
    ))
}

async fn look(web: &Web, caller: &BrowserCaller) -> Result<Facts, Fault> {
    let (app, owner) = (&web.app, caller.owner);
    Ok(Facts {
        notices: notices::open(&app.db, owner).await?,
        drafts: drafts::open(app, owner).await?,
        unconfirmed: messages::unconfirmed(app, owner).await?.len(),
        plugins: plugins::list(app, owner).await?,
        chief: chief::show(app, owner).await?,
        last_turn: chief::conversations(app, owner)
            .await?
            .iter()
            .filter_map(|conversation| conversation.last_at)
            .max(),
        passkeys: accounts::passkeys(app, owner).await?.len(),
    })
}

fn shown(open: Vec<notices::Notice>, now: Time) -> Vec<NoticeView> {
    let view = |notice: notices::Notice| NoticeView {
        id: notice.id.get(),
        title: notice.title,
        body: notice.body,
        link: notice.link,
        at: When::new(notice.created_at, now),
    };
    open.into_iter().map(view).collect()
}

fn compose(web: &Web, caller: &BrowserCaller, shell: Shell, facts: Facts) -> OverviewPage {
    let now = web.app.clock.now();
    let waiting = waiting(web.app.settings.plugins, &facts);
    let spoken = if facts.notices.is_empty() {
        "Nothing waits for you.".to_owned()
    } else {
        format!("{} for you.", counted_len(facts.notices.len(), "thing waiting"))
    };
    let steps = steps(
        web.app.settings.plugins,
        web.app.passkeys.is_some(),
        &caller.name,
        &facts,
    );
    let chief = facts.chief.map(|chief| ChiefView {
        runtime: chief.kind.to_string(),
        command: view::one_line(&chief.command),
        since: When::new(chief.created_at, now),
        stuck: chief::start_error(&web.app, caller.owner, chief.id).map(|error| view::lines(&error.reason)),
        last: When::maybe(facts.last_turn, now),
    });
    let newcomer = steps.iter().any(|step| !step.done && !step.optional);
    OverviewPage {
        shell,
        notices: shown(facts.notices, now),
        waiting,
        chief,
        steps,
        newcomer,
        spoken,
    }
}

/// What waits, where it is dealt with; what does not wait is left out, and so is what no page deals with while plugins are off.
fn waiting(plugins_on: bool, facts: &Facts) -> Vec<Waiting> {
    let pending = facts
        .drafts
        .iter()
        .filter(|card| card.state == DraftState::Pending)
        .count();
    let on_its_way = facts.drafts.len() - pending;
    let queued = facts.plugins.iter().map(|plugin| plugin.waiting).sum::<i64>();
    let drafts = "/attention?tab=drafts";
    let mut lines = Vec::new();
    if pending > 0 {
        let words = if pending == 1 {
            "awaits your approval"
        } else {
            "await your approval"
        };
        lines.push(Waiting {
            count: counted_len(pending, "reply draft"),
            words,
            link: drafts,
        });
    }
    if on_its_way > 0 {
        lines.push(Waiting {
            count: counted_len(on_its_way, "approved reply").replace("replys", "replies"),
            words: "on the way to a connector",
            link: drafts,
        });
    }
    if plugins_on && facts.unconfirmed > 0 {
        lines.push(Waiting {
            count: counted_len(facts.unconfirmed, "message"),
            words: "not confirmed by your chief",
            link: "/plugins#unconfirmed",
        });
    }
    if plugins_on && queued > 0 {
        let count = counted(queued.unsigned_abs(), "message");
        lines.push(Waiting {
            count,
            words: "still to reach your chief",
            link: "/plugins",
        });
    }
    lines
}

/// From nothing to the first reply, in order.
fn steps(plugins_on: bool, passkeys_on: bool, name: &str, facts: &Facts) -> Vec<Step> {
    let mut steps = Vec::new();
    if !plugins_on {
        steps.push(Step {
            done: false,
            optional: false,
            title: "Turn connectors on",
            words: "This server runs without them. Set this variable and start it again.".to_owned(),
            command: Some("MUSTER_PLUGINS=1 muster serve".to_owned()),
            link: None,
        });
    }
    steps.push(Step {
        done: facts.plugins.iter().any(|plugin| plugin.revoked_at.is_none()),
        optional: false,
        title: "Make a connector",
        words: "A connector brings messages in and sends the replies you approve. Its token is shown once."
            .to_owned(),
        command: None,
        link: plugins_on.then_some(("/plugins#new", "Make one")),
    });
    steps.push(Step {
        done: facts.chief.is_some(),
        optional: false,
        title: "Set a chief",
        words: "Your chief is the agent that reads the messages and drafts replies. Name its program on the machine that runs muster.".to_owned(),
        command: Some(format!("muster chief set --owner {name} --runtime command --command 'PROGRAM ARGS'")),
        link: None,
    });
    if passkeys_on {
        steps.push(Step {
            done: facts.passkeys > 0,
            optional: true,
            title: "Add a passkey",
            words: "With one, confirming an approval is a touch and not a password.".to_owned(),
            command: None,
            link: Some(("/settings#passkeys", "Add one")),
        });
    }
    steps
}

#[cfg(test)]
fn sample_notice() -> NoticeView {
    let hostile = || super::tests::HOSTILE.to_owned();
    NoticeView {
        id: 3,
        title: hostile(),
        body: hostile(),
        link: "/attention?tab=drafts#draft-3".to_owned(),
        at: super::tests::when(),
    }
}

#[cfg(test)]
impl OverviewPage {
    pub(super) fn samples() -> Vec<Self> {
        let hostile = || super::tests::HOSTILE.to_owned();
        let (since, last) = (super::tests::when(), Some(super::tests::when()));
        let facts = Facts {
            notices: vec![],
            drafts: vec![],
            unconfirmed: 2,
            plugins: vec![],
            chief: None,
            last_turn: None,
            passkeys: 0,
        };
        let full = Self {
            shell: super::tests::shell(Here::Overview),
            notices: vec![sample_notice()],
            waiting: waiting(true, &facts),
            chief: Some(ChiefView {
                runtime: hostile(),
                command: hostile(),
                since,
                stuck: Some(hostile()),
                last,
            }),
            steps: steps(false, true, super::tests::HOSTILE, &facts),
            newcomer: true,
            spoken: hostile(),
        };
        let empty = Self {
            shell: super::tests::shell(Here::Overview),
            notices: vec![],
            waiting: vec![],
            chief: None,
            steps: vec![],
            newcomer: false,
            spoken: String::new(),
        };
        vec![full, empty]
    }
}

#[cfg(test)]
impl NoticesFragment {
    pub(super) fn samples() -> Vec<Self> {
        vec![
            Self {
                notices: vec![sample_notice()],
            },
            Self { notices: vec![] },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_is_led_from_nothing_to_the_first_reply() {
        let nothing = Facts {
            notices: vec![],
            drafts: vec![],
            unconfirmed: 0,
            plugins: vec![],
            chief: None,
            last_turn: None,
            passkeys: 0,
        };
        let titles = |steps: Vec<Step>| {
            steps
                .into_iter()
                .filter(|step| !step.done)
                .map(|step| step.title)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            titles(steps(false, false, "ada", &nothing)),
            ["Turn connectors on", "Make a connector", "Set a chief"]
        );
        assert_eq!(
            titles(steps(true, true, "ada", &nothing)),
            ["Make a connector", "Set a chief", "Add a passkey"]
        );
        assert!(waiting(true, &nothing).is_empty());
    }
}
