//! The door of the owner's scripts `/api/*`: a personal token or the shared hook token. Never lets a browser session or any other token in.

mod caller;
mod refuse;

use axum::Json;
use axum::extract::{Path, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use muster_app::{chief, messages};
use muster_core::ids::MessageId;
use muster_wire::api::Retried;

use crate::Web;
use crate::router::{Door, Table};
use crate::whole::whole;
use caller::Script;

pub(crate) fn table(web: &Web) -> Table {
    let off = from_fn_with_state(web.clone(), only_while_on);
    Table::of(Door::Script)
        .post("/api/plugins/messages/{id}/retry", retry)
        .wrap(move |router| {
            router
                .method_not_allowed_fallback(refuse::wrong_method)
                .layer(off)
                .route("/api", any(refuse::no_route))
                .route("/api/", any(refuse::no_route))
                .route("/api/{*rest}", any(refuse::no_route))
        })
}

/// Routes about connectors' messages do not exist while plugins are off, whoever asks.
async fn only_while_on(State(web): State<Web>, request: axum::extract::Request, next: Next) -> Response {
    if web.app.settings.plugins {
        next.run(request).await
    } else {
        refuse::no_route().await
    }
}

async fn retry(State(web): State<Web>, Script(caller): Script, Path(id): Path<String>) -> Response {
    let Ok(message) = id.parse::<MessageId>() else {
        return refuse::retry(&messages::RetryRefusal::NotFound);
    };
    let app = web.app.clone();
    let queued = whole(&web.app, async move {
        messages::retry(&app, caller.owner, message, "api").await?;
        chief::start_delivery(&app, caller.owner, message);
        Ok::<_, messages::RetryRefusal>(())
    });
    match queued.await {
        Ok(Ok(())) => Json(Retried {
            id: message.get(),
            status: "queued".to_owned(),
        })
        .into_response(),
        Ok(Err(refusal)) => refuse::retry(&refusal),
        Err(fault) => refuse::fault(&fault),
    }
}
