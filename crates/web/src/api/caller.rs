//! The one extractor of a script's credential: an `mst_` token, or the hook token of an armed server. Never lets it in beside a browser's session.

use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;
use muster_app::accounts::{self, PersonalCaller};
use muster_core::Fault;
use muster_core::secret;

use super::refuse;
use crate::Web;
use crate::credential::bearer_alone;

/// Whom the script acts for.
pub(super) struct Script(pub(super) PersonalCaller);

impl FromRequestParts<Web> for Script {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Response> {
        let Some(token) = bearer_alone(&parts.headers, &web.origin) else {
            return Err(refuse::unauthorized());
        };
        match find(web, token).await {
            Ok(Some(caller)) => Ok(Self(caller)),
            Ok(None) => Err(refuse::unauthorized()),
            Err(fault) => Err(refuse::fault(&fault)),
        }
    }
}

async fn find(web: &Web, token: &str) -> Result<Option<PersonalCaller>, Fault> {
    if let Some(hook) = &web.hook_token
        && secret::same(hook.expose(), token)
    {
        // The hook token belongs to the server, so it acts for the server's first account.
        return Ok(accounts::first(&web.app)
            .await?
            .map(|owner| PersonalCaller { owner: owner.id }));
    }
    accounts::personal(&web.app, token).await
}
