//! `POST /plugin/v1/drafts/claim` and `/{id}/result`. Never hands a reply out without a commit, and never undoes one.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use muster_app::drafts;
use muster_core::ids::DraftId;
use muster_wire::plugin_v1::{ClaimedReply, Recorded, read_claim, read_result};

use super::body;
use super::caller::Connector;
use super::refuse;
use crate::Web;

pub(super) async fn claim(State(web): State<Web>, Connector(caller): Connector, request: Body) -> Response {
    let wait = match body::read(request, read_claim).await {
        Ok(wait) => wait,
        Err(error) => return refuse::body(&web, &caller, &error).await,
    };
    match drafts::claim(&web.app, &caller, wait).await {
        Ok(Some(claimed)) => Json(ClaimedReply {
            draft_id: claimed.id.get(),
            message_external_id: claimed.message_external_id,
            body: claimed.body,
            approved_at: claimed.approved_at.rfc3339(),
        })
        .into_response(),
        Ok(None) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => refuse::claim(&error),
    }
}

pub(super) async fn report(
    State(web): State<Web>,
    Connector(caller): Connector,
    Path(id): Path<String>,
    request: Body,
) -> Response {
    let report = match body::read(request, read_result).await {
        Ok(report) => report,
        Err(error) => return refuse::body(&web, &caller, &error).await,
    };
    let Ok(draft) = id.parse::<DraftId>() else {
        return refuse::no_such_reply();
    };
    match drafts::report(&web.app, &caller, draft, report).await {
        Ok(reported) => Json(Recorded {
            draft_id: reported.id.get(),
            status: reported.state.as_str().to_owned(),
        })
        .into_response(),
        Err(error) => refuse::report(draft, &error),
    }
}
