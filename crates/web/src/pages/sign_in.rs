//! `/sign-in`, `/sign-out`, `/sign-out-everywhere`: how a browser session begins and ends. Never says which part of a sign-in was wrong.

use std::net::SocketAddr;

use askama::Template;
use axum::Json;
use axum::extract::{ConnectInfo, Extension, State};
use axum::response::{IntoResponse, Response};
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue, StatusCode};
use muster_app::accounts::{self, OwnerName, PasskeyError, SESSION_LIFETIME};
use muster_core::Secret;
use serde::Deserialize;
use serde_json::{Value, json};

use super::caller::{Person, Visitor};
use super::decoy::{Decoys, like_any_other};
use super::fields::{Asked, Fields, Sent};
use super::view::{self, Shell, own_path, see_other};
use super::{guess, refuse};
use crate::Web;
use crate::state::Origin;
use crate::tries::TooMany;

#[derive(Template)]
#[template(path = "sign_in.html")]
pub(super) struct SignInPage {
    shell: Shell,
    next: String,
    name: String,
    error: Option<String>,
    /// Nobody can sign in yet.
    no_owner: bool,
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
    form(&web, StatusCode::OK, query.next.as_deref(), String::new(), None).await
}

async fn form(
    web: &Web,
    status: StatusCode,
    next: Option<&str>,
    name: String,
    error: Option<String>,
) -> Response {
    let no_owner = web.setup.waits(&web.app).await.unwrap_or_else(|fault| {
        tracing::warn!(error = %fault.chain(), "whether muster has an owner could not be read; the sign-in is offered all the same");
        false
    });
    let shell = Shell::bare("Sign in").with_passkeys(web);
    view::page(
        status,
        &SignInPage {
            shell,
            next: own_path(next).to_owned(),
            name,
            error,
            no_owner,
        },
    )
}

pub(super) async fn submit(
    State(web): State<Web>,
    _visitor: Visitor,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    Fields(sent): Fields<Form>,
) -> Result<Response, Response> {
    let name = known_shape(&sent.name);
    let guess = guess::admit(&web, &headers, peer.ip(), &name).map_err(|much| refuse::too_many(&much))?;
    match accounts::sign_in_password(&web.app, &name, &Secret::new(sent.password)).await {
        Ok(cookie) => {
            guess.was_none(&web);
            let on = see_other(own_path(sent.next.as_deref()));
            Ok(signed_in(&web, on, &cookie, &name))
        }
        Err(accounts::SignInError::Fault(fault)) => {
            guess.was_none(&web);
            Err(refuse::fault(&fault))
        }
        Err(refused) => {
            let words = refuse::sentence(&refused.to_string());
            Err(form(
                &web,
                refuse::sign_in_status(&refused),
                sent.next.as_deref(),
                sent.name,
                Some(words),
            )
            .await)
        }
    }
}

/// The name as it may be looked up. What cannot be a name is looked up as no name, so that it takes as long as any other.
fn known_shape(name: &str) -> String {
    OwnerName::parse(name.trim()).map_or_else(|_| String::new(), |name| name.as_str().to_owned())
}

pub(super) async fn passkey_begin(
    State(web): State<Web>,
    _visitor: Visitor,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    Extension(decoys): Extension<Decoys>,
    headers: HeaderMap,
    Sent(sent): Sent<Begin>,
) -> Result<Response, Response> {
    let name = known_shape(&sent.name);
    guess::admit_to_ask(&web, &headers, peer.ip(), &name).map_err(|much| too_many_json(&much))?;
    let begun = like_any_other(async {
        match accounts::begin_sign_in(&web.app, &name).await {
            // Whether a name has a passkey, or is anybody's, is nothing that a stranger learns.
            Err(PasskeyError::None) => decoys.begin(&web, &name).map_err(PasskeyError::Fault),
            begun => begun,
        }
    })
    .await
    .map_err(|error| refuse::passkey_json(&error))?;
    Ok(begun_json(&begun))
}

/// What the script hands to the browser's credentials API.
pub(super) fn begun_json(begun: &accounts::Begun) -> Response {
    Json(json!({"ceremony": begun.ceremony.expose(), "options": begun.options})).into_response()
}

pub(super) fn too_many_json(much: &TooMany) -> Response {
    let mut response = refuse::json(StatusCode::TOO_MANY_REQUESTS, &refuse::too_many_words(much));
    response
        .headers_mut()
        .insert(http::header::RETRY_AFTER, HeaderValue::from(much.seconds));
    response
}

pub(super) async fn passkey_finish(
    State(web): State<Web>,
    _visitor: Visitor,
    Extension(decoys): Extension<Decoys>,
    Sent(sent): Sent<Finish>,
) -> Result<Response, Response> {
    let decoy = decoys.take(&web, &sent.ceremony);
    let cookie = like_any_other(async {
        match accounts::finish_sign_in(&web.app, &sent.ceremony, sent.answer).await {
            // As a real ceremony says it whose answer does not hold.
            Err(PasskeyError::Stale) if decoy => Err(PasskeyError::Unverified),
            finished => finished,
        }
    })
    .await
    .map_err(|error| refuse::passkey_json(&error))?;
    let name = match accounts::browser(&web.app, cookie.expose()).await {
        Ok(Some(caller)) => caller.name,
        // Signed in all the same; the browser is not known afterwards.
        Ok(None) | Err(_) => String::new(),
    };
    Ok(signed_in(&web, go_on(sent.next.as_deref()), &cookie, &name))
}

/// Tells the script which page to open.
pub(super) fn go_on(next: Option<&str>) -> Response {
    Json(json!({"next": own_path(next)})).into_response()
}

/// `response`, with the session's cookie and the mark that makes this browser known as one of `name`'s.
pub(super) fn signed_in(web: &Web, response: Response, cookie: &Secret, name: &str) -> Response {
    let mut response = with_cookie(web, response, cookie.expose(), SESSION_LIFETIME.as_secs());
    if let Some((header, mark)) = guess::mark(web, name) {
        response.headers_mut().append(header, mark);
    }
    response
}

fn with_cookie(web: &Web, mut response: Response, value: &str, seconds: u64) -> Response {
    if let Ok(header) = HeaderValue::from_str(&cookie_text(&web.origin, value, seconds)) {
        response.headers_mut().append(SET_COOKIE, header);
    }
    response
}

/// Only this origin, no script, not on a form that another site sends.
fn cookie_text(origin: &Origin, value: &str, seconds: u64) -> String {
    let mark = if origin.secure() { "; Secure" } else { "" };
    format!(
        "{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{mark}",
        origin.cookie()
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
                no_owner: true,
            },
            Self {
                shell: with,
                next: hostile.clone(),
                name: hostile.clone(),
                error: Some(hostile),
                no_owner: false,
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
            cookie_text(&Origin::public("http://localhost:7447"), "ab", 5),
            "muster-7447=ab; Path=/; HttpOnly; SameSite=Lax; Max-Age=5"
        );
        assert_eq!(
            cookie_text(&Origin::public("https://muster.example"), "ab", 0),
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
