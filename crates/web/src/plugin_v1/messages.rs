//! `POST /plugin/v1/messages`. Never answers before the message is durable, and never waits for the chief.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use muster_app::chief;
use muster_app::messages::{self, MessageError, Status};
use muster_wire::plugin_v1::{MessageStatus, StoredMessage, read_message};

use super::body;
use super::caller::Connector;
use super::refuse;
use crate::Web;
use crate::whole::whole;

pub(super) async fn accept(State(web): State<Web>, Connector(caller): Connector, request: Body) -> Response {
    let message = match body::read(request, read_message).await {
        Ok(message) => message,
        Err(error) => return refuse::body(&web, &caller, &error).await,
    };
    let app = web.app.clone();
    // A connector that hangs up once its message is stored must not keep it from the chief: it has no reason to send it again.
    let stored = whole(&web.app, async move {
        let accepted = messages::accept(&app, &caller, message).await?;
        if accepted.deliverable {
            chief::start_delivery(&app, caller.owner, accepted.id);
        }
        Ok::<_, MessageError>(accepted)
    });
    let accepted = match stored.await {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(error)) => return refuse::message(&error),
        Err(fault) => return refuse::fault(&fault),
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
    if accepted.new {
        (StatusCode::ACCEPTED, answer).into_response()
    } else {
        answer.into_response()
    }
}
