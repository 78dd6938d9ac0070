//! `/confirm`: proves anew who sits there, then leads back. Never does what the proof was asked for.

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use muster_app::accounts::{self, BrowserCaller};
use muster_core::Secret;
use serde::Deserialize;

use super::caller::Person;
use super::fields::{Asked, Fields, Sent};
use super::refuse;
use super::sign_in::{Finish, Next, begun_json, go_on, too_many_json};
use super::view::{self, Here, Shell, own_path, query_value, see_other, span};
use crate::Web;
use crate::tries::{Guesser, TooMany};

#[derive(Template)]
#[template(path = "confirm.html")]
pub(super) struct ConfirmPage {
    shell: Shell,
    next: String,
    window: String,
    /// Whether this owner has a passkey to confirm with.
    passkey: bool,
    stale: bool,
    error: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Form {
    #[serde(default)]
    password: String,
    next: Option<String>,
}

/// 303 to the confirmation, and back to `next` from there.
pub(super) fn first(next: &str) -> Response {
    see_other(&format!("/confirm?next={}", query_value(next)))
}

/// Whether this sign-in is too old for what sends something out or opens a new way to do so.
pub(super) fn stale(web: &Web, caller: &BrowserCaller) -> bool {
    web.app.clock.now().since(caller.signed_in_at) > web.app.settings.stepup_window
}

/// Whether this session may try once more: it has an allowance of its own, which no stranger can use up.
fn admit(web: &Web, caller: &BrowserCaller) -> Result<(), TooMany> {
    web.tries.take(&Guesser::Session(caller.session))
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    Asked(query): Asked<Next>,
) -> Result<Response, Response> {
    form(&web, &caller, StatusCode::OK, query.next.as_deref(), None).await
}

async fn form(
    web: &Web,
    caller: &BrowserCaller,
    status: StatusCode,
    next: Option<&str>,
    error: Option<String>,
) -> Result<Response, Response> {
    let shell = Shell::of(web, caller, Here::Elsewhere, "Confirm that it is you")
        .await?
        .with_passkeys(web);
    let keys = accounts::passkeys(&web.app, caller.owner)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let window = span(web.app.settings.stepup_window);
    let (next, passkey, stale) = (own_path(next).to_owned(), !keys.is_empty(), stale(web, caller));
    Ok(view::page(
        status,
        &ConfirmPage {
            shell,
            next,
            window,
            passkey,
            stale,
            error,
        },
    ))
}

pub(super) async fn submit(
    State(web): State<Web>,
    Person(caller): Person,
    Fields(sent): Fields<Form>,
) -> Result<Response, Response> {
    admit(&web, &caller).map_err(|much| refuse::too_many(&much))?;
    match accounts::confirm_password(&web.app, &caller, &Secret::new(sent.password)).await {
        Ok(()) => Ok(see_other(own_path(sent.next.as_deref()))),
        Err(accounts::SignInError::Fault(fault)) => Err(refuse::fault(&fault)),
        Err(refused) => {
            let words = "This is not the password of your account. Nothing was confirmed.".to_owned();
            form(
                &web,
                &caller,
                refuse::sign_in_status(&refused),
                sent.next.as_deref(),
                Some(words),
            )
            .await
        }
    }
}

pub(super) async fn passkey_begin(
    State(web): State<Web>,
    Person(caller): Person,
) -> Result<Response, Response> {
    admit(&web, &caller).map_err(|much| too_many_json(&much))?;
    let begun = accounts::begin_confirm(&web.app, &caller)
        .await
        .map_err(|error| refuse::passkey_json(&error))?;
    Ok(begun_json(&begun))
}

pub(super) async fn passkey_finish(
    State(web): State<Web>,
    Person(caller): Person,
    Sent(sent): Sent<Finish>,
) -> Result<Response, Response> {
    accounts::finish_confirm(&web.app, &caller, &sent.ceremony, sent.answer)
        .await
        .map_err(|error| refuse::passkey_json(&error))?;
    Ok(go_on(sent.next.as_deref()))
}

#[cfg(test)]
impl ConfirmPage {
    pub(super) fn samples() -> Vec<Self> {
        let hostile = super::tests::HOSTILE.to_owned();
        let page = |passkey, passkeys_at, error| Self {
            shell: Shell {
                passkeys_at,
                ..super::tests::shell(Here::Elsewhere)
            },
            // As hostile as a path of this site can be.
            next: own_path(Some("/\"'><script>alert(1)</script>")).to_owned(),
            window: "12 hours".to_owned(),
            passkey,
            stale: passkey,
            error,
        };
        vec![
            page(false, None, None),
            page(
                true,
                Some("http://localhost:7447".to_owned()),
                Some(hostile.clone()),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use http::header::LOCATION;

    use super::*;

    // spec: DRF-044
    #[test]
    fn the_confirmation_leads_back_to_the_card() {
        let response = first("/attention?tab=drafts#draft-7");
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
        assert_eq!(
            response.headers().get(LOCATION).unwrap(),
            "/confirm?next=/attention%3Ftab%3Ddrafts%23draft-7"
        );
    }
}
