//! `POST /plugin/v1/messages`. Never answers before the message is durable, and never waits for the chief.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use muster_app::chief;
use muster_app::messages::{self, Status};
use muster_wire::plugin_v1::{MessageStatus, StoredMessage, read_message};

use super::body;
use super::caller::Connector;
use super::refuse;
use crate::Web;

pub(super) async fn accept(State(web): State<Web>, Connector(caller): Connector, request: Body) -> Response {
    let message = match body::read(request, read_message).await {
        Ok(message) => message,
        Err(error) => return refuse::body(&web, &caller, &error).await,
    };
    let accepted = match messages::accept(&web.app, &caller, message).await {
        Ok(accepted) => accepted,
        Err(error) => return refuse::message(&error),
    };
    let status = match accepted.status {
        Status::Queued => MessageStatus::Queued,
        Status::Delivered => MessageStatus::Delivered,
        Status::Unconfirmed => MessageStatus::Unconfirmed,
    };
    let answer = Json(StoredMessage {
        id: accepted.id.get(),
        status,
    });
    if accepted.deliverable {
        chief::start_delivery(&web.app, caller.owner, accepted.id);
    }
    if accepted.new {
        (StatusCode::ACCEPTED, answer).into_response()
    } else {
        answer.into_response()
    }
}
