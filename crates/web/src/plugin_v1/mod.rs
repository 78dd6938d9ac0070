//! The connector's door `/plugin/v1/*`: messages in, approved replies out, results back. Never lets any credential in but a live `mpl_` token.

mod body;
mod caller;
mod drafts;
mod messages;
mod openapi;
mod refuse;

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::any;

use crate::Web;
use crate::router::{Door, Table};

pub(crate) fn table(web: &Web) -> Table {
    let off = from_fn_with_state(web.clone(), only_while_on);
    Table::of(Door::Plugin)
        .post("/plugin/v1/messages", messages::accept)
        .post("/plugin/v1/drafts/claim", drafts::claim)
        .post("/plugin/v1/drafts/{id}/result", drafts::report)
        .wrap(move |router| {
            router
                .method_not_allowed_fallback(refuse::wrong_method)
                .route("/plugin", any(refuse::no_route))
                .route("/plugin/", any(refuse::no_route))
                .route("/plugin/{*rest}", any(refuse::no_route))
                .layer(off)
        })
}

/// The document that describes this door; it holds nothing of anybody's.
pub(crate) fn description(web: &Web) -> Table {
    let off = from_fn_with_state(web.clone(), only_while_on);
    Table::of(Door::Anyone)
        .get("/openapi.json", openapi::document)
        .wrap(move |router| router.layer(off))
}

/// Runs before the credential and the body are looked at.
async fn only_while_on(State(web): State<Web>, request: Request, next: Next) -> Response {
    if web.app.settings.plugins {
        next.run(request).await
    } else {
        refuse::off()
    }
}
