//! The connector's door `/plugin/v1/*`: messages in, approved replies out, results back. Never lets any credential in but a live `mpl_` token.

mod body;
mod caller;
mod drafts;
mod messages;
mod openapi;
mod refuse;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::any;

use crate::Web;
use crate::router::{Door, Table};

pub(crate) fn table(web: &Web) -> Table {
    let on = web.app.settings.plugins;
    Table::of(Door::Plugin)
        .post("/plugin/v1/messages", messages::accept)
        .post("/plugin/v1/drafts/claim", drafts::claim)
        .post("/plugin/v1/drafts/{id}/result", drafts::report)
        .wrap(move |router| {
            let router = router
                .method_not_allowed_fallback(refuse::wrong_method)
                .route("/plugin", any(refuse::no_route))
                .route("/plugin/", any(refuse::no_route))
                .route("/plugin/{*rest}", any(refuse::no_route));
            only_while(on, router)
        })
}

/// The document that describes this door; it holds nothing of anybody's.
pub(crate) fn description(web: &Web) -> Table {
    let on = web.app.settings.plugins;
    Table::of(Door::Anyone)
        .get("/openapi.json", openapi::document)
        .wrap(move |router| only_while(on, router))
}

/// While plugins are off every route says so before the credential and the body are looked at. While they are on nothing stands in
/// between: whatever did would wait with every claim.
fn only_while(on: bool, router: Router<Web>) -> Router<Web> {
    if on { router } else { router.layer(from_fn(off)) }
}

async fn off(_request: Request, _next: Next) -> Response {
    refuse::off()
}
