//! From the slices' refusals to this door's wire: a status and `{"error"}`. Never tells more than the refusal's own sentence.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use muster_app::drafts::{ClaimError, ReportRefusal};
use muster_app::messages::MessageError;
use muster_app::plugins::{self, PluginCaller, PluginError};
use muster_core::Fault;
use muster_core::ids::DraftId;
use muster_wire::plugin_v1::{Conflict, Refusal};

use super::body::BodyError;
use crate::Web;

fn answer(status: StatusCode, error: impl Into<String>) -> Response {
    (status, Json(Refusal { error: error.into() })).into_response()
}

/// Plugins are off on this server.
pub(super) fn off() -> Response {
    answer(
        StatusCode::NOT_FOUND,
        "plugins are off on this server; its owner turns them on with MUSTER_PLUGINS=1",
    )
}

/// No such route.
pub(super) async fn no_route() -> Response {
    answer(
        StatusCode::NOT_FOUND,
        "there is no such route; the connector API is described by /openapi.json",
    )
}

/// A known route with another method.
pub(super) async fn wrong_method() -> Response {
    answer(StatusCode::METHOD_NOT_ALLOWED, "this route takes POST only")
}

/// Not a live connector token, for whatever reason.
pub(super) fn not_live() -> Response {
    let mut response = answer(
        StatusCode::UNAUTHORIZED,
        "this is not the token of a live connector; send Authorization: Bearer mpl_… with a token that was not revoked",
    );
    response
        .headers_mut()
        .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

/// Something broke; logged here, once.
pub(crate) fn fault(fault: &Fault) -> Response {
    tracing::error!(error = %fault.chain(), "a connector's request failed inside muster");
    let mut response = answer(StatusCode::SERVICE_UNAVAILABLE, fault.sentence());
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("10"));
    response
}

/// A body that broke a rule. The token is proven first: a dead one hears 401 whatever it sent.
pub(super) async fn body(web: &Web, caller: &PluginCaller, error: &BodyError) -> Response {
    match plugins::touch_now(&web.app, caller).await {
        Ok(()) => {}
        Err(PluginError::Fault(broken)) => return fault(&broken),
        Err(_) => return not_live(),
    }
    let status = match error {
        BodyError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
        _ => StatusCode::BAD_REQUEST,
    };
    answer(status, error.to_string())
}

pub(super) fn message(error: &MessageError) -> Response {
    match error {
        MessageError::HourlyCap { retry_after } | MessageError::UndeliveredCap { retry_after } => {
            let mut response = answer(StatusCode::TOO_MANY_REQUESTS, error.to_string());
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(*retry_after));
            response
        }
        MessageError::NotLive => not_live(),
        MessageError::Fault(broken) => fault(broken),
    }
}

pub(super) fn claim(error: &ClaimError) -> Response {
    match error {
        ClaimError::NotLive => not_live(),
        ClaimError::Fault(broken) => fault(broken),
    }
}

/// An id that names no reply of this connector's.
pub(super) fn no_such_reply() -> Response {
    answer(StatusCode::NOT_FOUND, ReportRefusal::NotFound.to_string())
}

pub(super) fn report(draft: DraftId, error: &ReportRefusal) -> Response {
    match error {
        ReportRefusal::NotLive => not_live(),
        ReportRefusal::NotFound => no_such_reply(),
        ReportRefusal::Conflict(state) => {
            let conflict = Conflict {
                error: error.to_string(),
                draft_id: draft.get(),
                status: state.as_str().to_owned(),
            };
            (StatusCode::CONFLICT, Json(conflict)).into_response()
        }
        ReportRefusal::Fault(broken) => fault(broken),
    }
}
