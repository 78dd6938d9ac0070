//! The frame of a refusal: with the navigation for who is signed in, without for everybody else. Never changes what is refused, or why.

use askama::Template as _;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use muster_app::accounts;

use super::refuse::{Back, Refusal};
use super::view::{Here, Shell};
use crate::Web;
use crate::credential::{Authorization, authorization, session};

/// What a page of refusal says, kept beside its answer until it is known for whom it is.
#[derive(Debug, Clone)]
pub(super) struct Refused {
    pub(super) heading: String,
    pub(super) sentence: String,
    pub(super) back: Back,
}

/// Writes the refusals of the pages behind it in the frame of who is signed in.
pub(super) async fn frame(State(web): State<Web>, request: Request, next: Next) -> Response {
    let headers = request.headers().clone();
    let response = next.run(request).await;
    for_whom(&web, &headers, response).await
}

/// `response`, in the frame of whoever sent `headers` if it is a page of refusal. Everything else stays as it is.
pub(super) async fn for_whom(web: &Web, headers: &HeaderMap, mut response: Response) -> Response {
    let Some(refused) = response.extensions_mut().remove::<Refused>() else {
        return response;
    };
    // A token has doors of its own; whoever sends one here is told so and nothing else.
    if authorization(headers) != Authorization::Absent {
        return response;
    }
    let Some(shell) = shell(web, headers, &refused.heading).await else {
        return response;
    };
    if let Ok(html) = Refusal::new(shell, refused).render() {
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(html);
    }
    response
}

/// The frame of who is signed in. Where that cannot be found out just now, the refusal keeps its plain one.
async fn shell(web: &Web, headers: &HeaderMap, heading: &str) -> Option<Shell> {
    let text = session(headers, &web.origin).filter(|text| !text.is_empty())?;
    let caller = accounts::browser(&web.app, &text).await.ok()??;
    Shell::of(web, &caller, Here::Elsewhere, heading).await.ok()
}
