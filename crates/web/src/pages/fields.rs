//! Reading what a page sends: a form, the passkey script's JSON, an id in the path. A refusal is a page, or JSON for the script. Never keeps a body.

use std::str::FromStr;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::response::Response;
use axum::{Form, Json};
use http::request::Parts;
use serde::de::DeserializeOwned;

use super::refuse;
use crate::Web;

/// Most bytes of a form or of a passkey's answer.
pub(super) const LIMIT: usize = 64 * 1024;

/// A form of ours.
pub(super) struct Fields<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Web> for Fields<T> {
    type Rejection = Response;

    async fn from_request(request: Request, web: &Web) -> Result<Self, Response> {
        match Form::<T>::from_request(request, web).await {
            Ok(Form(fields)) => Ok(Self(fields)),
            Err(rejection) => Err(refuse::unreadable(rejection.status())),
        }
    }
}

/// What the address asks for behind its `?`.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequestParts<Web> for Asked<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Response> {
        match Query::<T>::from_request_parts(parts, web).await {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(_) => Err(refuse::not_found(&parts.headers)),
        }
    }
}

/// JSON of our own script.
pub(super) struct Sent<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<Web> for Sent<T> {
    type Rejection = Response;

    async fn from_request(request: Request, web: &Web) -> Result<Self, Response> {
        match Json::<T>::from_request(request, web).await {
            Ok(Json(sent)) => Ok(Self(sent)),
            Err(rejection) => Err(refuse::json(
                rejection.status(),
                "the passkey request could not be read, so nothing was done",
            )),
        }
    }
}

/// The one id in the path. What is no id names nothing.
pub(super) struct Id<T>(pub(super) T);

impl<T: FromStr> FromRequestParts<Web> for Id<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Response> {
        let text = Path::<String>::from_request_parts(parts, web).await.ok();
        text.and_then(|Path(text)| text.parse().ok())
            .map(Self)
            .ok_or_else(|| refuse::not_found(&parts.headers))
    }
}
