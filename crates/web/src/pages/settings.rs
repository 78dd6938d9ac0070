//! `/settings`: tokens, passkeys, sign-out everywhere. Never shows a token twice, and never opens a new way to approve to an old sign-in.

use askama::Template;
use axum::Json;
use axum::extract::{Extension, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use muster_app::accounts::{self, BrowserCaller, Passkey, Token};
use muster_app::settings::{self, Key, Setting};
use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{PasskeyId, TokenId};
use muster_core::secret::TokenKind;
use muster_core::text::Label;
use muster_plugin_host::{Effect, Host, Offered};
use serde::Deserialize;
use serde_json::{Value, json};

use super::caller::Person;
use super::confirm;
use super::fields::{Fields, Id, Sent};
use super::flash::{Flash, Opened, Place, Shown};
use super::packages;
use super::refuse::{self, sentence};
use super::sign_in::begun_json;
use super::view::{self, Here, Shell, When, one_line, query_value, see_other, span};
use crate::Web;

/// Where the passkeys stand on the page.
const PASSKEYS: &str = "/settings#passkeys";

#[derive(Template)]
#[template(path = "settings.html")]
pub(super) struct SettingsPage {
    shell: Shell,
    shown: Option<Shown>,
    /// Whether passkeys can belong to this server's address.
    passkeys_possible: bool,
    passkeys: Vec<PasskeyView>,
    personal: Vec<TokenView>,
    mirror_hosts: Vec<TokenView>,
    agents: Vec<TokenView>,
    /// Servers of packages that those agents may use.
    packages: Vec<ServerView>,
    values: Vec<ValueView>,
    form: Form,
    errors: Errors,
    signed_in: When,
    asks_first: bool,
    window: String,
}

#[derive(Debug, Clone)]
struct PasskeyView {
    id: i64,
    label: String,
    created: When,
    used: Option<When>,
}

impl PasskeyView {
    fn new(passkey: Passkey, now: Time) -> Self {
        Self {
            id: passkey.id.get(),
            label: one_line(&passkey.label),
            created: When::new(passkey.created_at, now),
            used: When::maybe(passkey.last_used_at, now),
        }
    }
}

#[derive(Debug, Clone)]
struct TokenView {
    id: i64,
    label: String,
    host: Option<String>,
    /// The task's id and title.
    task: Option<(i64, String)>,
    created: When,
    used: Option<When>,
    revoked: Option<When>,
}

impl TokenView {
    fn new(token: Token, now: Time) -> Self {
        Self {
            id: token.id.get(),
            label: one_line(&token.label),
            host: token.host.as_deref().map(one_line),
            task: token.task.map(|task| (task.id.get(), one_line(&task.title))),
            created: When::new(token.created_at, now),
            used: When::maybe(token.last_used_at, now),
            revoked: When::maybe(token.revoked_at, now),
        }
    }
}

/// A package's server that agents may use.
#[derive(Debug, Clone)]
struct ServerView {
    plugin: String,
    name: String,
    /// How many of its tools run, ask and are refused.
    counts: [usize; 3],
    /// Names of tools that may be called, each with `allow` or `ask`.
    tools: Vec<(String, &'static str)>,
}

impl ServerView {
    fn new(offered: Offered) -> Self {
        let count = |wanted: Effect| {
            offered
                .tools
                .iter()
                .filter(|(_, effect)| *effect == wanted)
                .count()
        };
        Self {
            counts: [count(Effect::Allow), count(Effect::Ask), count(Effect::Deny)],
            name: offered.key.to_string(),
            plugin: offered.key.plugin,
            tools: offered
                .tools
                .into_iter()
                .filter(|(_, effect)| *effect != Effect::Deny)
                .map(|(name, effect)| (name, effect.word()))
                .collect(),
        }
    }
}

/// What agents of this person may call of packages: of the first account's alone. What cannot be read offers nothing, and its own page says why.
async fn offered(web: &Web, caller: &BrowserCaller) -> Result<Vec<ServerView>, Fault> {
    if !packages::decides(web, caller).await? {
        return Ok(Vec::new());
    }
    let offered = packages::look(web, Host::offered).await.unwrap_or_default();
    Ok(offered.into_iter().map(ServerView::new).collect())
}

/// A setting as its form shows it.
#[derive(Debug, Clone)]
struct ValueView {
    key: &'static str,
    description: &'static str,
    value: String,
    default: String,
    /// Whether it is true or false; a number otherwise.
    switch: bool,
    /// Whether what is stored can be read.
    readable: bool,
}

impl ValueView {
    fn new(setting: Setting) -> Self {
        Self {
            key: setting.key,
            description: setting.description,
            switch: setting.default.is_boolean(),
            readable: !setting.value.is_null(),
            default: setting.default.to_string(),
            value: if setting.value.is_null() {
                String::new()
            } else {
                setting.value.to_string()
            },
        }
    }
}

/// A value for a setting.
#[derive(Deserialize)]
pub(super) struct NewValue {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

/// Which token is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    #[default]
    Personal,
    MirrorHost,
}

/// A token's form, as it was typed.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Form {
    kind: Kind,
    #[serde(default)]
    label: String,
    #[serde(default)]
    host: String,
}

impl Form {
    fn personal(&self) -> bool {
        self.kind == Kind::Personal
    }

    fn mirror_host(&self) -> bool {
        self.kind == Kind::MirrorHost
    }
}

/// What each field lacks.
#[derive(Debug, Default)]
struct Errors {
    label: Option<String>,
    host: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Finish {
    ceremony: String,
    label: String,
    answer: Value,
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    opened: Opened,
) -> Result<Response, Response> {
    let mut page = compose(&web, &caller, Form::default(), Errors::default()).await?;
    page.shown = flash.take(caller.session, Place::Settings, &opened);
    Ok(view::page(StatusCode::OK, &page))
}

async fn compose(
    web: &Web,
    caller: &BrowserCaller,
    form: Form,
    errors: Errors,
) -> Result<SettingsPage, Response> {
    let shell = Shell::of(web, caller, Here::Settings, "Settings")
        .await?
        .with_passkeys(web);
    let facts = async || -> Result<_, Fault> {
        Ok((
            accounts::passkeys(&web.app, caller.owner).await?,
            accounts::tokens(&web.app, caller.owner).await?,
            settings::list(&web.app, caller.owner).await,
            offered(web, caller).await?,
        ))
    };
    let (passkeys, tokens, values, packages) = facts().await.map_err(|fault| refuse::fault(&fault))?;
    let now = web.app.clock.now();
    let of = |kind: &str| {
        tokens
            .iter()
            .filter(|token| token.kind == kind)
            .cloned()
            .map(|token| TokenView::new(token, now))
            .collect()
    };
    Ok(SettingsPage {
        shell,
        shown: None,
        passkeys_possible: web.app.passkeys.is_some(),
        passkeys: passkeys
            .into_iter()
            .map(|passkey| PasskeyView::new(passkey, now))
            .collect(),
        personal: of("personal"),
        mirror_hosts: of("mirror-host"),
        agents: of("agent"),
        packages,
        values: values.into_iter().map(ValueView::new).collect(),
        form,
        errors,
        signed_in: When::new(caller.signed_in_at, now),
        asks_first: confirm::stale(web, caller),
        window: span(web.app.settings.stepup_window),
    })
}

pub(super) async fn set_value(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Fields(new): Fields<NewValue>,
) -> Result<Response, Response> {
    let refused = |error: settings::SettingError| refuse::setting(&error);
    let key = Key::find(new.key.trim()).map_err(refused)?;
    settings::set(&web.app, caller.owner, key, new.value.trim())
        .await
        .map_err(refused)?;
    flash.put(
        caller.session,
        Place::Settings,
        Shown::Note("The setting is changed. It holds from the next call on."),
    );
    Ok(see_other("/settings#permissions"))
}

pub(super) async fn create_token(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Fields(form): Fields<Form>,
) -> Result<Response, Response> {
    // A mirrored session decides drafts without a fresh sign-in, so making its token asks for one.
    if form.mirror_host() && confirm::stale(&web, &caller) {
        return Ok(confirm::first("/settings#mirror-hosts"));
    }
    let (label, host) = match read(&form) {
        Ok(fields) => fields,
        Err(errors) => {
            return Ok(view::page(
                StatusCode::BAD_REQUEST,
                &compose(&web, &caller, form, errors).await?,
            ));
        }
    };
    let (kind, what) = match form.kind {
        Kind::Personal => (
            TokenKind::Personal,
            format!("the personal token {}", label.as_str()),
        ),
        Kind::MirrorHost => (
            TokenKind::MirrorHost,
            format!("the mirror host token {}", label.as_str()),
        ),
    };
    let made = accounts::create_token(&web.app, caller.owner, kind, label, host)
        .await
        .map_err(|error| refuse::token(&error))?;
    flash.put(
        caller.session,
        Place::Settings,
        Shown::Token {
            what,
            token: made.token,
        },
    );
    Ok(see_other("/settings"))
}

/// The token that the form asks for, or what its fields lack.
fn read(form: &Form) -> Result<(Label, Option<Label>), Errors> {
    let label = Label::parse("the label", form.label.trim());
    let host = form
        .mirror_host()
        .then(|| Label::parse("the host", form.host.trim()))
        .transpose();
    let errors = Errors {
        label: label.as_ref().err().map(|error| sentence(&error.to_string())),
        host: host.as_ref().err().map(|error| sentence(&error.to_string())),
    };
    match (label, host) {
        (Ok(label), Ok(host)) => Ok((label, host)),
        _ => Err(errors),
    }
}

pub(super) async fn revoke_token(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(token): Id<TokenId>,
) -> Result<Response, Response> {
    accounts::revoke_token(&web.app, caller.owner, token)
        .await
        .map_err(|error| refuse::token(&error))?;
    flash.put(
        caller.session,
        Place::Settings,
        Shown::Note("The token is revoked: it is refused from now on."),
    );
    Ok(see_other("/settings"))
}

pub(super) async fn remove_passkey(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(passkey): Id<PasskeyId>,
) -> Result<Response, Response> {
    accounts::remove_passkey(&web.app, caller.owner, passkey)
        .await
        .map_err(|error| refuse::passkey(&error))?;
    flash.put(
        caller.session,
        Place::Settings,
        Shown::Note("The passkey is removed: it no longer signs in or confirms."),
    );
    Ok(see_other(PASSKEYS))
}

/// A passkey confirms approvals, so an old sign-in must not make itself one: the answer to it, which leads to the confirmation.
fn too_old(web: &Web, caller: &BrowserCaller) -> Option<Response> {
    confirm::stale(web, caller).then(|| {
        let words = "Your sign-in is too old to add a passkey; confirm that it is you first.";
        let body = json!({"error": words, "next": format!("/confirm?next={}", query_value(PASSKEYS))});
        (StatusCode::FORBIDDEN, Json(body)).into_response()
    })
}

pub(super) async fn passkey_begin(
    State(web): State<Web>,
    Person(caller): Person,
) -> Result<Response, Response> {
    if let Some(refusal) = too_old(&web, &caller) {
        return Err(refusal);
    }
    let begun = accounts::begin_register(&web.app, &caller)
        .await
        .map_err(|error| refuse::passkey_json(&error))?;
    Ok(begun_json(&begun))
}

pub(super) async fn passkey_finish(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Sent(sent): Sent<Finish>,
) -> Result<Response, Response> {
    if let Some(refusal) = too_old(&web, &caller) {
        return Err(refusal);
    }
    let label = match Label::parse("the passkey's name", sent.label.trim()) {
        Ok(label) => label,
        Err(error) => return Err(refuse::json(StatusCode::BAD_REQUEST, &error.to_string())),
    };
    accounts::finish_register(&web.app, &caller, &sent.ceremony, label, sent.answer)
        .await
        .map_err(|error| refuse::passkey_json(&error))?;
    flash.put(
        caller.session,
        Place::Settings,
        Shown::Note("The passkey is added. It signs you in and confirms approvals from now on."),
    );
    Ok(Json(json!({"next": PASSKEYS})).into_response())
}

#[cfg(test)]
fn settings_views() -> Vec<ValueView> {
    let view = |key: &Key, value: Value| {
        ValueView::new(Setting {
            key: key.name(),
            value,
            default: json!(key.name() != "asks.require_when_closed"),
            description: "What it does.",
        })
    };
    settings::ALL.iter().map(|key| view(key, Value::Null)).collect()
}

#[cfg(test)]
impl SettingsPage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::{HOSTILE, shell, when};
        let hostile = || HOSTILE.to_owned();
        let token = |id, revoked| TokenView {
            id,
            label: hostile(),
            host: Some(hostile()),
            task: Some((7, hostile())),
            created: when(),
            used: Some(when()),
            revoked,
        };
        let tokens = |first| vec![token(first, None), token(first + 1, Some(when()))];
        let passkey = PasskeyView {
            id: 5,
            label: hostile(),
            created: when(),
            used: Some(when()),
        };
        let page = |passkeys_possible, kind, shown, errors| Self {
            shell: shell(Here::Settings),
            shown,
            passkeys_possible,
            passkeys: vec![passkey.clone()],
            personal: tokens(1),
            mirror_hosts: tokens(3),
            agents: tokens(5),
            packages: vec![ServerView {
                plugin: hostile(),
                name: hostile(),
                counts: [1, 1, 1],
                tools: vec![(hostile(), "allow"), (hostile(), "ask")],
            }],
            values: settings_views(),
            form: Form {
                kind,
                label: hostile(),
                host: hostile(),
            },
            errors,
            signed_in: when(),
            asks_first: true,
            window: "12 hours".to_owned(),
        };
        let errors = || Errors {
            label: Some(hostile()),
            host: Some(hostile()),
        };
        let secret = Shown::Token {
            what: hostile(),
            token: muster_core::Secret::new(HOSTILE),
        };
        let bare = page(
            false,
            Kind::Personal,
            Some(Shown::Note("done")),
            Errors::default(),
        );
        vec![
            page(true, Kind::Personal, Some(secret), errors()),
            page(true, Kind::MirrorHost, None, errors()),
            Self {
                passkeys: vec![],
                personal: vec![],
                mirror_hosts: vec![],
                agents: vec![],
                asks_first: false,
                form: Form::default(),
                ..bare
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_mirror_host_token_names_a_host() {
        let form = |kind, label: &str, host: &str| Form {
            kind,
            label: label.to_owned(),
            host: host.to_owned(),
        };
        assert!(matches!(read(&form(Kind::Personal, "laptop", "")), Ok((_, None))));
        assert!(matches!(
            read(&form(Kind::MirrorHost, "laptop", "tower")),
            Ok((_, Some(_)))
        ));
        let errors = read(&form(Kind::MirrorHost, "", " ")).unwrap_err();
        assert!(errors.label.is_some() && errors.host.is_some());
    }
}
