//! The one check of an agent's token. Never lets it in beside a browser's session.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use muster_app::accounts;

use crate::Web;
use crate::credential::bearer_alone;

/// Lets a request with a live agent token through, with its `AgentCaller` as an extension.
pub(crate) async fn agents_only(State(web): State<Web>, mut request: Request, next: Next) -> Response {
    let Some(token) = bearer_alone(request.headers(), &web.origin) else {
        return unauthorized();
    };
    match accounts::agent(&web.app, token).await {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(None) => unauthorized(),
        Err(fault) => {
            tracing::error!(error = %fault.chain(), "an agent's request failed inside muster");
            (StatusCode::SERVICE_UNAVAILABLE, fault.sentence()).into_response()
        }
    }
}

fn unauthorized() -> Response {
    let challenge = [(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))];
    (
        StatusCode::UNAUTHORIZED,
        challenge,
        "this door takes a live agent token: Authorization: Bearer mag_…\n",
    )
        .into_response()
}
