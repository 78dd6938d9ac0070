//! From refusals to this door's wire: a status and `{"error"}`. Never tells more than the refusal's own sentence.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use muster_app::messages::RetryRefusal;
use muster_core::Fault;
use muster_wire::api::Refusal;

fn answer(status: StatusCode, error: impl Into<String>) -> Response {
    (status, Json(Refusal { error: error.into() })).into_response()
}

pub(super) fn unauthorized() -> Response {
    let mut response = answer(
        StatusCode::UNAUTHORIZED,
        "this route takes a live personal token: Authorization: Bearer mst_…; make one with muster token create --kind personal",
    );
    response
        .headers_mut()
        .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

pub(super) async fn no_route() -> Response {
    answer(StatusCode::NOT_FOUND, "there is no such route on this server")
}

pub(super) async fn wrong_method() -> Response {
    answer(StatusCode::METHOD_NOT_ALLOWED, "this route takes another method")
}

pub(super) fn fault(fault: &Fault) -> Response {
    tracing::error!(error = %fault.chain(), "a script's request failed inside muster");
    answer(StatusCode::SERVICE_UNAVAILABLE, fault.sentence())
}

pub(super) fn retry(refusal: &RetryRefusal) -> Response {
    match refusal {
        RetryRefusal::NotFound => answer(StatusCode::NOT_FOUND, refusal.to_string()),
        RetryRefusal::Fault(broken) => fault(broken),
        _ => answer(StatusCode::CONFLICT, refusal.to_string()),
    }
}
