//! `/sign-in`, `/sign-out`, `/sign-out-everywhere`: how a browser session begins and ends. Never says which part of a sign-in was wrong.

use std::net::SocketAddr;

use askama::Template;
use axum::Json;
use axum::extract::{ConnectInfo, State};
use axum::response::{IntoResponse, Response};
use governor::clock::{Clock as _, DefaultClock};
use http::header::SET_COOKIE;
use http::{HeaderValue, StatusCode};
use muster_app::accounts::{self, OwnerName, PasskeyError, SESSION_LIFETIME};
use muster_core::Secret;
use serde::Deserialize;
use serde_json::{Value, json};

use super::caller::{Person, Visitor};
use super::fields::{Asked, Fields, Sent};
use super::refuse;
use super::view::{self, Shell, own_path, see_other};
use crate::Web;
use crate::credential::cookie_name;
use crate::state::Guesser;

/// Addresses whose tries are remembered before the old ones are let go.
const REMEMBERED: usize = 10_000;

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage {
    shell: Shell,
    next: String,
    name: String,
    error: Option<String>,
}

/// Where to go after signing in.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Next {
    pub(super) next: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    name: String,
    #[serde(default)]
    password: String,
    next: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Begin {
    name: String,
}

#[derive(Deserialize)]
pub(super) struct Finish {
    pub(super) ceremony: String,
    pub(super) answer: Value,
    pub(super) next: Option<String>,
}

pub(super) async fn show(State(web): State<Web>, _visitor: Visitor, Asked(query): Asked<Next>) -> Response {
    form(&web, StatusCode::OK, query.next.as_deref(), String::new(), None)
}

fn form(web: &Web, status: StatusCode, next: Option<&str>, name: String, error: Option<String>) -> Response {
    let shell = Shell::bare("Sign in").with_passkeys(web);
    view::page(
        status,
        &SignInPage {
            shell,
            next: own_path(next).to_owned(),
            name,
            error,
        },
    )
}

pub(super) async fn submit(
    State(web): State<Web>,
    _visitor: Visitor,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Fields(sent): Fields<Form>,
) -> Result<Response, Response> {
    admit(&web, Guesser::Address(peer.ip())).map_err(refuse::too_many)?;
    let name = known_shape(&sent.name);
    match accounts::sign_in_password(&web.app, &name, &Secret::new(sent.password)).await {
        Ok(cookie) => Ok(signed_in(
            &web,
            see_other(own_path(sent.next.as_deref())),
            &cookie,
        )),
        Err(accounts::SignInError::Fault(fault)) => Err(refuse::fault(&fault)),
        Err(refused) => {
            let words = refuse::sentence(&refused.to_string());
            Err(form(
                &web,
                refuse::sign_in_status(&refused),
                sent.next.as_deref(),
                sent.name,
                Some(words),
            ))
        }
    }
}

/// The name as it may be looked up. What cannot be a name is looked up as no name, so that it takes as long as any other.
fn known_shape(name: &str) -> String {
    OwnerName::parse(name.trim()).map_or_else(|_| String::new(), |name| name.as_str().to_owned())
}

/// Whether this address or session may try once more; if not, after how many seconds.
pub(super) fn admit(web: &Web, who: Guesser) -> Result<(), u64> {
    if web.sign_ins.len() > REMEMBERED {
        web.sign_ins.retain_recent();
    }
    web.sign_ins.check_key(&who).map(|_| ()).map_err(|until| {
        until
            .wait_time_from(DefaultClock::default().now())
            .as_secs()
            .saturating_add(1)
    })
}

pub(super) async fn passkey_begin(
    State(web): State<Web>,
    _visitor: Visitor,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Sent(sent): Sent<Begin>,
) -> Result<Response, Response> {
    admit(&web, Guesser::Address(peer.ip())).map_err(too_many_json)?;
    let begun = accounts::begin_sign_in(&web.app, &known_shape(&sent.name))
        .await
        .map_err(|error| refuse::passkey_json(&error))?;
    Ok(begun_json(&begun))
}

/// What the script hands to the browser's credentials API.
pub(super) fn begun_json(begun: &accounts::Begun) -> Response {
    Json(json!({"ceremony": begun.ceremony.expose(), "options": begun.options})).into_response()
}

pub(super) fn too_many_json(seconds: u64) -> Response {
    let words = format!(
        "there were too many tries from your address. Nothing was checked; try again in {}",
        view::counted(seconds, "second")
    );
    let mut response = refuse::json(StatusCode::TOO_MANY_REQUESTS, &words);
    response
        .headers_mut()
        .insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

pub(super) async fn passkey_finish(
    State(web): State<Web>,
    _visitor: Visitor,
    Sent(sent): Sent<Finish>,
) -> Result<Response, Response> {
    let cookie = accounts::finish_sign_in(&web.app, &sent.ceremony, sent.answer)
        .await
        .map_err(|error: PasskeyError| refuse::passkey_json(&error))?;
    Ok(signed_in(&web, go_on(sent.next.as_deref()), &cookie))
}

/// Tells the script which page to open.
pub(super) fn go_on(next: Option<&str>) -> Response {
    Json(json!({"next": own_path(next)})).into_response()
}

/// `response`, with the session's cookie.
pub(super) fn signed_in(web: &Web, response: Response, cookie: &Secret) -> Response {
    with_cookie(web, response, cookie.expose(), SESSION_LIFETIME.as_secs())
}

fn with_cookie(web: &Web, mut response: Response, value: &str, seconds: u64) -> Response {
    let secure = web.origin.secure();
    if let Ok(header) = HeaderValue::from_str(&cookie_text(secure, value, seconds)) {
        response.headers_mut().append(SET_COOKIE, header);
    }
    response
}

/// Only this origin, no script, not on a form that another site sends.
fn cookie_text(secure: bool, value: &str, seconds: u64) -> String {
    let mark = if secure { "; Secure" } else { "" };
    format!(
        "{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{mark}",
        cookie_name(secure)
    )
}

pub(super) async fn sign_out(State(web): State<Web>, Person(caller): Person) -> Result<Response, Response> {
    accounts::sign_out(&web.app, &caller)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    Ok(with_cookie(&web, see_other("/sign-in"), "", 0))
}

pub(super) async fn sign_out_everywhere(
    State(web): State<Web>,
    Person(caller): Person,
) -> Result<Response, Response> {
    accounts::sign_out_everywhere(&web.app, &caller)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    Ok(with_cookie(&web, see_other("/sign-in"), "", 0))
}

#[cfg(test)]
impl SignInPage {
    pub(super) fn samples() -> Vec<Self> {
        let hostile = super::tests::HOSTILE.to_owned();
        let with = Shell {
            passkeys_at: Some("http://localhost:7447".to_owned()),
            ..Shell::bare("Sign in")
        };
        vec![
            Self {
                shell: Shell::bare("Sign in"),
                next: "/".to_owned(),
                name: String::new(),
                error: None,
            },
            Self {
                shell: with,
                next: hostile.clone(),
                name: hostile.clone(),
                error: Some(hostile),
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_kept_from_scripts_and_marked_secure_only_over_tls() {
        assert_eq!(
            cookie_text(false, "ab", 5),
            "muster=ab; Path=/; HttpOnly; SameSite=Lax; Max-Age=5"
        );
        assert_eq!(
            cookie_text(true, "ab", 0),
            "__Host-muster=ab; Path=/; HttpOnly; SameSite=Lax; Max-Age=0; Secure"
        );
    }

    #[test]
    fn what_cannot_be_a_name_is_looked_up_as_no_name() {
        assert_eq!(known_shape(" ada "), "ada");
        for bad in ["", "Ada", "a\0b", "ada'; --", "é"] {
            assert_eq!(known_shape(bad), "");
        }
    }
}
