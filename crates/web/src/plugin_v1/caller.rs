//! The one extractor of a connector's token. Never proves that the token is still live: the act does, inside its own transaction.

use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;
use muster_app::plugins::{self, PluginCaller};

use super::refuse;
use crate::Web;
use crate::credential::bearer_alone;

/// Whose token the request carries.
pub(super) struct Connector(pub(super) PluginCaller);

impl FromRequestParts<Web> for Connector {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Response> {
        let Some(token) = bearer_alone(&parts.headers, &web.origin) else {
            return Err(refuse::not_live());
        };
        match plugins::authenticate(&web.app, token).await {
            Ok(Some(caller)) => Ok(Self(caller)),
            Ok(None) => Err(refuse::not_live()),
            Err(fault) => Err(refuse::fault(&fault)),
        }
    }
}
