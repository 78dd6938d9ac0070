//! The one extractor of a browser session: a signed-in person on a same-origin request. Never accepts any other credential beside it.

use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;
use muster_app::accounts::{self, BrowserCaller};

use super::refuse;
use crate::Web;
use crate::credential::{Authorization, authorization, session};
use crate::guard::same_origin;

/// A person who is signed in.
pub(crate) struct Person(pub(crate) BrowserCaller);

/// A person who need not be signed in, on a request that may act: `/sign-in` and `/setup`.
pub(crate) struct Visitor;

impl FromRequestParts<Web> for Person {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Response> {
        if let Some(refusal) = inadmissible(parts, web) {
            return Err(refusal);
        }
        let Some(text) = session(&parts.headers, &web.origin) else {
            return Err(refuse::sign_in_first(&path(parts)));
        };
        match accounts::browser(&web.app, &text).await {
            Ok(Some(caller)) => Ok(Self(caller)),
            Ok(None) => Err(refuse::sign_in_first(&path(parts))),
            Err(fault) => Err(refuse::fault(&fault)),
        }
    }
}

impl FromRequestParts<Web> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Response> {
        inadmissible(parts, web).map_or(Ok(Self), Err)
    }
}

/// A token has doors of its own, also when it comes beside a good cookie; and a form must come from our own pages.
fn inadmissible(parts: &Parts, web: &Web) -> Option<Response> {
    if authorization(&parts.headers) != Authorization::Absent {
        Some(refuse::token_on_a_page())
    } else if same_origin(&web.origin, &parts.method, &parts.headers) {
        None
    } else {
        Some(refuse::foreign_origin())
    }
}

/// Where to come back to after signing in: only for a page that was read, never for a form.
fn path(parts: &Parts) -> String {
    match parts.method {
        http::Method::GET => parts
            .uri
            .path_and_query()
            .map_or_else(|| "/".to_owned(), ToString::to_string),
        _ => "/".to_owned(),
    }
}
