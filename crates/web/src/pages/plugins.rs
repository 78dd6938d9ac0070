//! `/plugins`: the owner's connectors, their tokens, and the messages that the chief did not confirm. Never shows a token twice.

use askama::Template;
use axum::extract::{Extension, FromRequestParts, State};
use axum::response::Response;
use http::StatusCode;
use http::request::Parts;
use muster_app::accounts::BrowserCaller;
use muster_app::plugins::{self, NewPlugin, Plugin, PluginError};
use muster_app::{chief, messages};
use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{MessageId, PluginId};
use muster_core::text::{DataScope, Label, Slug};
use serde::Deserialize;

use super::caller::Person;
use super::fields::{Fields, Id};
use super::flash::{Flash, Opened, Place, Shown};
use super::packages::{self, Packages};
use super::refuse::{self, sentence};
use super::view::{self, Here, Sender, Shell, When, counted, see_other};
use crate::Web;
use crate::whole::whole;

#[derive(Template)]
#[template(path = "plugins.html")]
pub(super) struct PluginsPage {
    shell: Shell,
    shown: Option<Shown>,
    form: Form,
    errors: Errors,
    live: Vec<PluginView>,
    revoked: Vec<PluginView>,
    unconfirmed: Vec<UnconfirmedView>,
    chief: bool,
    packages: Packages,
    /// The address that a connector is given.
    address: String,
    name: String,
}

#[derive(Debug, Clone)]
struct PluginView {
    id: i64,
    name: String,
    label: String,
    data_scope: String,
    created: When,
    seen: Option<When>,
    revoked: Option<When>,
    waiting: String,
}

impl PluginView {
    fn new(plugin: Plugin, now: Time) -> Self {
        Self {
            id: plugin.id.get(),
            name: plugin.name,
            label: view::one_line(&plugin.label),
            data_scope: view::one_line(&plugin.data_scope),
            created: When::new(plugin.created_at, now),
            seen: When::maybe(plugin.last_seen_at, now),
            revoked: When::maybe(plugin.revoked_at, now),
            waiting: counted(plugin.waiting.unsigned_abs(), "message") + " waiting",
        }
    }
}

/// A message the chief may have read.
#[derive(Debug, Clone)]
struct UnconfirmedView {
    id: i64,
    plugin: String,
    sender: Sender,
    subject: Option<String>,
    stored: When,
    attempts: String,
    /// Whether pressing Retry can work: there is a chief, and the connector is live.
    can_retry: bool,
    plugin_revoked: bool,
}

/// The form, as it was typed.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    name: String,
    #[serde(default)]
    label: String,
    #[serde(default)]
    data_scope: String,
}

/// What each field lacks.
#[derive(Debug, Default)]
struct Errors {
    name: Option<String>,
    label: Option<String>,
    data_scope: Option<String>,
}

/// Lets a request through only where connectors are on; elsewhere these pages do not exist, for anybody.
pub(super) struct On;

impl FromRequestParts<Web> for On {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Response> {
        if web.app.settings.plugins {
            Ok(Self)
        } else {
            Err(refuse::not_found(&parts.headers))
        }
    }
}

pub(super) async fn show(
    State(web): State<Web>,
    _on: On,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    opened: Opened,
) -> Result<Response, Response> {
    let mut page = compose(&web, &caller, Form::default(), Errors::default()).await?;
    page.shown = flash.take(caller.session, Place::Connectors, &opened);
    Ok(view::page(StatusCode::OK, &page))
}

async fn compose(
    web: &Web,
    caller: &BrowserCaller,
    form: Form,
    errors: Errors,
) -> Result<PluginsPage, Response> {
    let shell = Shell::of(web, caller, Here::Connectors, "Connectors").await?;
    let facts = async || -> Result<_, Fault> {
        Ok((
            plugins::list(&web.app, caller.owner).await?,
            messages::unconfirmed(&web.app, caller.owner).await?,
            chief::show(&web.app, caller.owner).await?.is_some(),
        ))
    };
    let (all, unconfirmed, chief) = facts().await.map_err(|fault| refuse::fault(&fault))?;
    let now = web.app.clock.now();
    let (revoked, live): (Vec<_>, Vec<_>) = all
        .into_iter()
        .map(|plugin| PluginView::new(plugin, now))
        .partition(|plugin| plugin.revoked.is_some());
    let unconfirmed = unconfirmed
        .into_iter()
        .map(|message| UnconfirmedView {
            id: message.id.get(),
            plugin: view::one_line(&message.plugin_label),
            sender: Sender::new(message.sender.as_deref(), message.sender_verified),
            subject: message.subject.as_deref().map(view::one_line),
            stored: When::new(message.stored_at, now),
            attempts: counted(message.attempts.unsigned_abs(), "attempt"),
            can_retry: chief && !message.plugin_revoked,
            plugin_revoked: message.plugin_revoked,
        })
        .collect();
    let (address, name) = (web.origin.base().to_owned(), caller.name.clone());
    Ok(PluginsPage {
        shell,
        shown: None,
        form,
        errors,
        live,
        revoked,
        unconfirmed,
        chief,
        packages: packages::list(web).await,
        address,
        name,
    })
}

pub(super) async fn create(
    State(web): State<Web>,
    _on: On,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Fields(form): Fields<Form>,
) -> Result<Response, Response> {
    let new = match read(&form) {
        Ok(new) => new,
        Err(errors) => {
            return Ok(view::page(
                StatusCode::BAD_REQUEST,
                &compose(&web, &caller, form, errors).await?,
            ));
        }
    };
    match plugins::create(&web.app, caller.owner, new).await {
        Ok(created) => {
            let what = format!("the connector {}", form.name.trim());
            flash.put(
                caller.session,
                Place::Connectors,
                Shown::Token {
                    what,
                    token: created.token,
                },
            );
            Ok(see_other("/plugins"))
        }
        Err(PluginError::Fault(fault)) => Err(refuse::fault(&fault)),
        Err(refused) => {
            let errors = Errors {
                name: Some(sentence(&refused.to_string())),
                ..Errors::default()
            };
            Ok(view::page(
                refuse::plugin_status(&refused),
                &compose(&web, &caller, form, errors).await?,
            ))
        }
    }
}

/// The connector that the form asks for, or what its fields lack.
fn read(form: &Form) -> Result<NewPlugin, Errors> {
    let name = Slug::parse("the name", form.name.trim());
    let label = Label::parse("the label", form.label.trim());
    let data_scope = DataScope::parse("the data scope", form.data_scope.trim());
    let errors = Errors {
        name: name.as_ref().err().map(|error| sentence(&error.to_string())),
        label: label.as_ref().err().map(|error| sentence(&error.to_string())),
        data_scope: data_scope
            .as_ref()
            .err()
            .map(|error| sentence(&error.to_string())),
    };
    match (name, label, data_scope) {
        (Ok(name), Ok(label), Ok(data_scope)) => Ok(NewPlugin {
            name,
            label,
            data_scope,
        }),
        _ => Err(errors),
    }
}

pub(super) async fn revoke(
    State(web): State<Web>,
    _on: On,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(plugin): Id<PluginId>,
) -> Result<Response, Response> {
    plugins::revoke(&web.app, caller.owner, plugin)
        .await
        .map_err(|error| refuse::plugin(&error))?;
    let note =
        "The connector is revoked: its token is refused from now on. Its messages and drafts stay readable.";
    flash.put(caller.session, Place::Connectors, Shown::Note(note));
    Ok(see_other("/plugins"))
}

pub(super) async fn retry(
    State(web): State<Web>,
    _on: On,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(message): Id<MessageId>,
) -> Result<Response, Response> {
    let app = web.app.clone();
    whole(&web.app, async move {
        messages::retry(&app, caller.owner, message, "browser").await?;
        chief::start_delivery(&app, caller.owner, message);
        Ok::<_, messages::RetryRefusal>(())
    })
    .await
    .map_err(|fault| refuse::fault(&fault))?
    .map_err(|refusal| refuse::retry(&refusal))?;
    flash.put(
        caller.session,
        Place::Connectors,
        Shown::Note("The message is queued again and on its way to your chief."),
    );
    Ok(see_other("/plugins#unconfirmed"))
}

#[cfg(test)]
impl PluginsPage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::{HOSTILE, shell, when};
        let hostile = || HOSTILE.to_owned();
        let plugin = |revoked| PluginView {
            id: 4,
            name: hostile(),
            label: hostile(),
            data_scope: hostile(),
            created: when(),
            seen: Some(when()),
            revoked,
            waiting: "2 messages waiting".to_owned(),
        };
        let message = |id, can_retry, plugin_revoked| UnconfirmedView {
            id,
            plugin: hostile(),
            sender: Sender::new(Some(HOSTILE), false),
            subject: Some(hostile()),
            stored: when(),
            attempts: "1 attempt".to_owned(),
            can_retry,
            plugin_revoked,
        };
        let page = |shown, chief, unconfirmed| Self {
            shell: shell(Here::Connectors),
            shown,
            form: Form {
                name: hostile(),
                label: hostile(),
                data_scope: hostile(),
            },
            errors: Errors {
                name: Some(hostile()),
                label: Some(hostile()),
                data_scope: Some(hostile()),
            },
            live: vec![plugin(None)],
            revoked: vec![plugin(Some(when()))],
            unconfirmed,
            chief,
            packages: Packages::default(),
            address: "http://localhost:7447".to_owned(),
            name: hostile(),
        };
        let token = Shown::Token {
            what: hostile(),
            token: muster_core::Secret::new(HOSTILE),
        };
        let empty = Self {
            errors: Errors::default(),
            live: vec![],
            revoked: vec![],
            ..page(None, false, vec![])
        };
        vec![
            page(Some(token), true, vec![message(9, true, false)]),
            page(
                Some(Shown::Note("done")),
                false,
                vec![message(9, false, false), message(10, false, true)],
            ),
            empty,
        ]
    }
}

#[cfg(test)]
mod tests {
    use askama::Template as _;

    use super::*;

    // spec: TOK-016
    #[test]
    fn a_name_is_a_slug_and_every_wrong_field_is_named() {
        let form = |name: &str, label: &str, data_scope: &str| Form {
            name: name.to_owned(),
            label: label.to_owned(),
            data_scope: data_scope.to_owned(),
        };
        assert!(read(&form(" agent-mail ", "Inbox", "mail")).is_ok());
        let errors = read(&form("Agent Mail!", "", "a\u{202e}b")).unwrap_err();
        assert!(errors.name.is_some() && errors.label.is_some() && errors.data_scope.is_some());
    }

    // spec: RTY-004 UIP-015
    #[test]
    fn without_a_chief_retry_is_disabled_and_the_section_says_why() {
        let [with, without, _] = PluginsPage::samples()
            .try_into()
            .unwrap_or_else(|_| panic!("three samples"));
        let (with, without) = (with.render().unwrap(), without.render().unwrap());
        assert!(
            with.contains("Not confirmed by your chief") && without.contains("Not confirmed by your chief")
        );
        assert!(with.contains("/plugins/messages/9/retry") && !with.contains("disabled"));
        assert_eq!(without.matches("disabled").count(), 2);
        assert!(without.contains("You have no chief"));
    }
}
