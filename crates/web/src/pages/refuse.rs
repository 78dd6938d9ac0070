//! How a page says no: one table from each refusal of the app to its status and its sentence. Never tells more than the app's own words.

use std::borrow::Cow;

use askama::Template;
use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{ACCEPT, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use muster_app::access::AskError;
use muster_app::accounts::{AccountError, PasskeyError, SignInError, TokenError};
use muster_app::databases::DatabaseError;
use muster_app::drafts::DecideRefusal;
use muster_app::messages::RetryRefusal;
use muster_app::plugins::PluginError;
use muster_app::policies::PolicyError;
use muster_app::projects::ProjectError;
use muster_app::settings::SettingError;
use muster_app::tasks::TaskError;
use muster_core::Fault;
use muster_core::ids::{PolicyId, TaskId};
use serde_json::json;

use super::framed::Refused;
use super::view::{self, Shell, query_value, see_other};
use crate::tries::TooMany;

/// Where a refusal leads back to.
#[derive(Debug, Clone)]
pub(super) struct Back {
    pub(super) path: Cow<'static, str>,
    pub(super) words: &'static str,
}

pub(super) const TO_OVERVIEW: Back = Back {
    path: Cow::Borrowed("/"),
    words: "To the overview",
};
pub(super) const TO_ASKS: Back = Back {
    path: Cow::Borrowed("/attention"),
    words: "Back to the asks",
};
pub(super) const TO_DRAFTS: Back = Back {
    path: Cow::Borrowed("/attention?tab=drafts"),
    words: "Back to the reply drafts",
};
pub(super) const TO_CONNECTORS: Back = Back {
    path: Cow::Borrowed("/plugins"),
    words: "Back to the connectors",
};
pub(super) const TO_SETTINGS: Back = Back {
    path: Cow::Borrowed("/settings"),
    words: "Back to the settings",
};
pub(super) const TO_AUDIT: Back = Back {
    path: Cow::Borrowed("/audit"),
    words: "Back to the audit log",
};
pub(super) const TO_POLICIES: Back = Back {
    path: Cow::Borrowed("/policies"),
    words: "To the policies",
};
pub(super) const TO_PROJECTS: Back = Back {
    path: Cow::Borrowed("/projects"),
    words: "Back to the projects",
};
pub(super) const TO_DATABASES: Back = Back {
    path: Cow::Borrowed("/databases"),
    words: "Back to the databases",
};
pub(super) const TO_TASKS: Back = Back {
    path: Cow::Borrowed("/tasks"),
    words: "To the tasks",
};
pub(super) const TO_SIGN_IN: Back = Back {
    path: Cow::Borrowed("/sign-in"),
    words: "Back to the sign-in",
};

pub(super) fn to_policy(policy: PolicyId) -> Back {
    Back {
        path: format!("/policies/{policy}").into(),
        words: "Back to the policy",
    }
}

pub(super) fn to_task(task: TaskId) -> Back {
    Back {
        path: format!("/tasks/{task}").into(),
        words: "Back to the task",
    }
}

pub(super) fn to_permissions(task: TaskId) -> Back {
    Back {
        path: format!("/tasks/{task}/permissions").into(),
        words: "Back to the task’s permissions",
    }
}

#[derive(Template)]
#[template(path = "refusal.html")]
pub(super) struct Refusal {
    shell: Shell,
    sentence: String,
    back: Back,
}

impl Refusal {
    pub(super) fn new(shell: Shell, refused: Refused) -> Self {
        Self {
            shell,
            sentence: refused.sentence,
            back: refused.back,
        }
    }
}

/// A refusal as a page, with what it takes to write it once more in the frame of who is signed in.
pub(super) fn page(status: StatusCode, heading: &str, words: &str, back: Back) -> Response {
    let refused = Refused {
        heading: heading.to_owned(),
        sentence: sentence(words),
        back,
    };
    let bare = Refusal::new(Shell::bare(heading), refused.clone());
    let mut response = view::page(status, &bare);
    response.extensions_mut().insert(refused);
    response
}

/// The app's words as a sentence of their own.
pub(super) fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let mut text: String = chars
        .next()
        .map(|first| first.to_uppercase().collect())
        .unwrap_or_default();
    text.push_str(chars.as_str());
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

/// 303 to the sign-in, and back to `path` from there.
pub(super) fn sign_in_first(path: &str) -> Response {
    match view::own_path(Some(path)) {
        "/" => see_other("/sign-in"),
        path => see_other(&format!("/sign-in?next={}", query_value(path))),
    }
}

/// A token has doors of its own.
pub(super) fn token_on_a_page() -> Response {
    page(
        StatusCode::UNAUTHORIZED,
        "Not with a token",
        "This page takes a browser's sign-in and no token. Send the request without the Authorization header; a token is good at its own door only",
        TO_OVERVIEW,
    )
}

/// A form that another site sent.
pub(super) fn foreign_origin() -> Response {
    page(
        StatusCode::FORBIDDEN,
        "Not from here",
        "This request did not come from one of muster's own pages, so nothing was done. Open the page here and press its button",
        TO_OVERVIEW,
    )
}

/// Something broke: logged here, once.
pub(super) fn fault(fault: &Fault) -> Response {
    tracing::error!(error = %fault.chain(), "a page could not be answered");
    page(
        StatusCode::SERVICE_UNAVAILABLE,
        "Something broke",
        fault.sentence(),
        TO_OVERVIEW,
    )
}

/// A body that is no form of ours.
pub(super) fn unreadable(status: StatusCode) -> Response {
    let words = match status {
        StatusCode::PAYLOAD_TOO_LARGE => "the form was longer than 64 KiB, so nothing was done",
        _ => "the form could not be read, so nothing was done. Open the page again and use its own form",
    };
    page(status, "Not understood", words, TO_OVERVIEW)
}

/// There is no such page, or nothing that this caller may know of.
pub(super) fn not_found(headers: &HeaderMap) -> Response {
    if is_for_a_browser(headers) {
        no_such_page()
    } else {
        nothing_here()
    }
}

fn is_for_a_browser(headers: &HeaderMap) -> bool {
    headers
        .get(ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

fn nothing_here() -> Response {
    (StatusCode::NOT_FOUND, "There is nothing at this address.\n").into_response()
}

/// Not the link to the setup that counts now. The same words whether there is an owner or not.
pub(super) fn no_setup(headers: &HeaderMap) -> Response {
    if !is_for_a_browser(headers) {
        return nothing_here();
    }
    page(
        StatusCode::NOT_FOUND,
        "Nothing to set up here",
        "a link to the setup is good once, until there is an owner and until the server is started again. Who has an account signs in; where there is none, muster serve prints a new link at its start",
        TO_SIGN_IN,
    )
}

fn no_such_page() -> Response {
    page(
        StatusCode::NOT_FOUND,
        "Nothing here",
        "there is nothing at this address",
        TO_OVERVIEW,
    )
}

/// Too many tries, in words.
pub(super) fn too_many_words(much: &TooMany) -> String {
    format!(
        "{}. Nothing was checked; try again in {}",
        much.words,
        view::counted(much.seconds, "second")
    )
}

/// Too many tries to sign in or to confirm.
pub(super) fn too_many(much: &TooMany) -> Response {
    let mut response = page(
        StatusCode::TOO_MANY_REQUESTS,
        "Too many tries",
        &too_many_words(much),
        TO_SIGN_IN,
    );
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from(much.seconds));
    response
}

/// A refused decision about a draft. [`DecideRefusal::ConfirmFirst`] is no refusal on a page but a step before, see `drafts`.
pub(super) fn decision(refusal: &DecideRefusal) -> Response {
    let status = match refusal {
        DecideRefusal::Fault(broken) => return fault(broken),
        DecideRefusal::NotFound => StatusCode::NOT_FOUND,
        DecideRefusal::ConfirmFirst => StatusCode::FORBIDDEN,
        DecideRefusal::NotPending(_)
        | DecideRefusal::NotApproved(_)
        | DecideRefusal::Collected
        | DecideRefusal::InFlight
        | DecideRefusal::Revoked => StatusCode::CONFLICT,
    };
    page(status, "Not done", &refusal.to_string(), TO_DRAFTS)
}

/// An answer to an ask that came too late, or was the second one.
pub(super) fn ask(error: &AskError) -> Response {
    let status = match error {
        AskError::Fault(broken) => return fault(broken),
        AskError::NotFound => StatusCode::NOT_FOUND,
        AskError::AlreadyDecided(_) | AskError::Unreadable(_) => StatusCode::CONFLICT,
    };
    page(status, "Not done", &error.to_string(), TO_ASKS)
}

/// A refused look at a database connection.
pub(super) fn database(error: &DatabaseError) -> Response {
    match error {
        DatabaseError::Fault(broken) => fault(broken),
        other => page(
            super::databases::status(other),
            "Not done",
            &other.to_string(),
            TO_DATABASES,
        ),
    }
}

/// A refused act on a policy.
pub(super) fn policy(error: &PolicyError, back: Back) -> Response {
    let status = match error {
        PolicyError::Fault(broken) => return fault(broken),
        PolicyError::NotFound
        | PolicyError::NoSuchTask
        | PolicyError::NoSuchProject
        | PolicyError::NoSuchResource(_) => StatusCode::NOT_FOUND,
        PolicyError::NameTaken
        | PolicyError::SeveralRemoved(_)
        | PolicyError::BuiltIn
        | PolicyError::StaleRevision { .. }
        | PolicyError::NotARoot(_)
        | PolicyError::InUse(_)
        | PolicyError::Shared(_) => StatusCode::CONFLICT,
        PolicyError::Name | PolicyError::Invalid(_) | PolicyError::Import(_) => StatusCode::BAD_REQUEST,
    };
    let back = match error {
        PolicyError::NotFound => TO_POLICIES,
        _ => back,
    };
    page(status, "Not done", &error.to_string(), back)
}

/// A form of a task's permissions that was shown under another policy than the task has by now.
pub(super) fn another_policy(task: TaskId) -> Response {
    page(
        StatusCode::CONFLICT,
        "Not done",
        "the task has another policy by now; look at it again. Nothing was changed",
        to_permissions(task),
    )
}

/// A refused act on a task.
pub(super) fn task(error: &TaskError, back: Back) -> Response {
    let status = match error {
        TaskError::Fault(broken) => return fault(broken),
        TaskError::NotFound
        | TaskError::NoProject
        | TaskError::NoPolicy
        | TaskError::NoIntegration
        | TaskError::NoHost
        | TaskError::NoRun => StatusCode::NOT_FOUND,
        TaskError::Key => StatusCode::BAD_REQUEST,
        TaskError::PolicyNotYours => StatusCode::FORBIDDEN,
        _ => StatusCode::CONFLICT,
    };
    let back = match error {
        TaskError::NotFound => TO_TASKS,
        _ => back,
    };
    page(status, "Not done", &error.to_string(), back)
}

/// The status of a refusal about a project.
pub(super) fn project_status(error: &ProjectError) -> StatusCode {
    match error {
        ProjectError::Root { .. } | ProjectError::Repo => StatusCode::BAD_REQUEST,
        ProjectError::NotFound | ProjectError::NoIntegration | ProjectError::NoPolicy => {
            StatusCode::NOT_FOUND
        }
        ProjectError::NameTaken | ProjectError::StaleRevision { .. } | ProjectError::InUse { .. } => {
            StatusCode::CONFLICT
        }
        ProjectError::Fault(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// A refused act on a project.
pub(super) fn project(error: &ProjectError) -> Response {
    match error {
        ProjectError::Fault(broken) => fault(broken),
        other => page(project_status(other), "Not done", &other.to_string(), TO_PROJECTS),
    }
}

/// A setting that was not changed.
pub(super) fn setting(error: &SettingError) -> Response {
    let status = match error {
        SettingError::Fault(broken) => return fault(broken),
        SettingError::Unknown(_) => StatusCode::NOT_FOUND,
        SettingError::Value { .. } => StatusCode::BAD_REQUEST,
    };
    page(status, "Not done", &error.to_string(), TO_SETTINGS)
}

/// A refused retry.
pub(super) fn retry(refusal: &RetryRefusal) -> Response {
    let status = match refusal {
        RetryRefusal::Fault(broken) => return fault(broken),
        RetryRefusal::NotFound => StatusCode::NOT_FOUND,
        RetryRefusal::Queued
        | RetryRefusal::Delivering
        | RetryRefusal::Delivered
        | RetryRefusal::Drafted(_)
        | RetryRefusal::Revoked
        | RetryRefusal::NoChief => StatusCode::CONFLICT,
    };
    page(status, "Not retried", &refusal.to_string(), TO_CONNECTORS)
}

/// The status of a refusal about a connector; the page with its form shows the sentence.
pub(super) fn plugin_status(error: &PluginError) -> StatusCode {
    match error {
        PluginError::NameTaken => StatusCode::CONFLICT,
        PluginError::Field(_) => StatusCode::BAD_REQUEST,
        PluginError::NotFound | PluginError::NotLive => StatusCode::NOT_FOUND,
        PluginError::Fault(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// A refusal about a connector as a page of its own.
pub(super) fn plugin(error: &PluginError) -> Response {
    match error {
        PluginError::Fault(broken) => fault(broken),
        other => page(
            plugin_status(other),
            "Not done",
            &other.to_string(),
            TO_CONNECTORS,
        ),
    }
}

/// A refusal about a token as a page of its own.
pub(super) fn token(error: &TokenError) -> Response {
    let status = match error {
        TokenError::Fault(broken) => return fault(broken),
        TokenError::Label(_) => StatusCode::BAD_REQUEST,
        TokenError::NotFound | TokenError::NoTask => StatusCode::NOT_FOUND,
    };
    page(status, "Not done", &error.to_string(), TO_SETTINGS)
}

/// The status of a refusal about an account.
pub(super) fn account_status(error: &AccountError) -> StatusCode {
    match error {
        AccountError::Name | AccountError::Password => StatusCode::BAD_REQUEST,
        AccountError::NameTaken => StatusCode::CONFLICT,
        AccountError::NotFound | AccountError::AlreadySetUp => StatusCode::NOT_FOUND,
        AccountError::Fault(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The status of a refused sign-in.
pub(super) fn sign_in_status(error: &SignInError) -> StatusCode {
    match error {
        SignInError::Wrong => StatusCode::UNAUTHORIZED,
        SignInError::Fault(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The status of a refusal about a passkey.
pub(super) fn passkey_status(error: &PasskeyError) -> StatusCode {
    match error {
        PasskeyError::NoHost | PasskeyError::Stale => StatusCode::CONFLICT,
        PasskeyError::None | PasskeyError::Unverified => StatusCode::UNAUTHORIZED,
        PasskeyError::Label(_) => StatusCode::BAD_REQUEST,
        PasskeyError::NotFound => StatusCode::NOT_FOUND,
        PasskeyError::Fault(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// A refusal about a passkey as a page of its own.
pub(super) fn passkey(error: &PasskeyError) -> Response {
    match error {
        PasskeyError::Fault(broken) => fault(broken),
        other => page(passkey_status(other), "Not done", &other.to_string(), TO_SETTINGS),
    }
}

/// A refusal to the script that talks to the browser's passkeys.
pub(super) fn passkey_json(error: &PasskeyError) -> Response {
    if let PasskeyError::Fault(broken) = error {
        tracing::error!(error = %broken.chain(), "a passkey request could not be answered");
    }
    json(passkey_status(error), &error.to_string())
}

/// A refusal to the script, in words that it shows.
pub(super) fn json(status: StatusCode, words: &str) -> Response {
    (status, Json(json!({"error": sentence(words)}))).into_response()
}

#[cfg(test)]
impl Refusal {
    pub(super) fn samples() -> Vec<Self> {
        let hostile = super::tests::HOSTILE;
        vec![
            Self {
                shell: Shell::bare(hostile),
                sentence: sentence(hostile),
                back: TO_DRAFTS,
            },
            Self {
                shell: super::tests::shell(super::view::Here::Elsewhere),
                sentence: sentence(hostile),
                back: TO_OVERVIEW,
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use http::header::LOCATION;
    use muster_app::drafts::DraftState;

    use super::*;

    #[test]
    fn the_apps_words_become_a_sentence() {
        assert_eq!(sentence("there is no such message"), "There is no such message.");
        assert_eq!(sentence("No such draft."), "No such draft.");
        assert_eq!(sentence(""), ".");
    }

    // spec: TOK-003
    #[test]
    fn who_is_not_signed_in_is_sent_to_sign_in_and_back_to_the_page_only() {
        let to = |path: &str| {
            let response = sign_in_first(path);
            (
                response.status(),
                response
                    .headers()
                    .get(LOCATION)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned(),
            )
        };
        assert_eq!(
            to("/plugins"),
            (StatusCode::SEE_OTHER, "/sign-in?next=/plugins".to_owned())
        );
        assert_eq!(
            to("/attention?tab=drafts").1,
            "/sign-in?next=/attention%3Ftab%3Ddrafts"
        );
        assert_eq!(to("//evil.example").1, "/sign-in");
    }

    #[test]
    fn a_refusal_about_a_state_is_a_conflict_and_a_missing_thing_is_not_found() {
        assert_eq!(
            decision(&DecideRefusal::NotPending(DraftState::Expired)).status(),
            StatusCode::CONFLICT
        );
        assert_eq!(decision(&DecideRefusal::Collected).status(), StatusCode::CONFLICT);
        assert_eq!(decision(&DecideRefusal::NotFound).status(), StatusCode::NOT_FOUND);
        assert_eq!(retry(&RetryRefusal::Queued).status(), StatusCode::CONFLICT);
        assert_eq!(retry(&RetryRefusal::NotFound).status(), StatusCode::NOT_FOUND);
        assert_eq!(
            fault(&Fault::other("x")).status(),
            StatusCode::SERVICE_UNAVAILABLE
        );
        let limited = too_many(&TooMany {
            words: "there were too many tries",
            seconds: 7,
        });
        assert_eq!(
            (
                limited.status(),
                limited.headers().get(RETRY_AFTER).unwrap().to_str().unwrap()
            ),
            (StatusCode::TOO_MANY_REQUESTS, "7")
        );
    }

    #[test]
    fn only_a_browser_gets_a_page_for_what_is_not_there() {
        let mut headers = HeaderMap::new();
        assert!(
            not_found(&headers)
                .headers()
                .get("content-type")
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("text/plain")
        );
        headers.insert(ACCEPT, HeaderValue::from_static("text/html,*/*"));
        assert!(
            not_found(&headers)
                .headers()
                .get("content-type")
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("text/html")
        );
    }
}
