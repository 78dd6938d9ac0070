//! `POST /plugin/v1/messages`. Never answers before the message is durable, and never waits for the chief.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use muster_app::chief;
use muster_app::messages::{self, NewMessage, Status};
use muster_core::text::{ExternalId, MessageBody, Sender, Subject, ThreadId};
use muster_wire::plugin_v1::{MessageStatus, StoredMessage};

use super::body::{self, BodyError, Fields};
use super::caller::Connector;
use super::refuse;
use crate::Web;

pub(super) async fn accept(State(web): State<Web>, Connector(caller): Connector, request: Body) -> Response {
    let message = match body::bytes(request).await.and_then(|bytes| parse(&bytes)) {
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
    let answer = Json(StoredMessage { id: accepted.id.get(), status });
    if accepted.new {
        chief::start_delivery(&web.app, caller.owner, accepted.id);
        (StatusCode::ACCEPTED, answer).into_response()
    } else {
        answer.into_response()
    }
}

/// Reads a message; unknown fields are ignored, so that a newer connector can talk to an older muster.
pub(crate) fn parse(bytes: &[u8]) -> Result<NewMessage, BodyError> {
    let mut fields = Fields::parse(bytes)?;
    Ok(NewMessage {
        external_id: ExternalId::parse("external_id", fields.required("external_id")?)?,
        sender: fields.text("sender")?.map(|text| Sender::parse("sender", text)).transpose()?,
        subject: fields.text("subject")?.map(|text| Subject::parse("subject", text)).transpose()?,
        body: MessageBody::parse("body", fields.required("body")?)?,
        received_at: fields.time("received_at")?,
        no_reply: fields.flag("no_reply")?.unwrap_or(false),
        sender_verified: fields.flag("sender_verified")?.unwrap_or(false),
        thread: fields.text("thread")?.map(|text| ThreadId::parse("thread", text)).transpose()?,
        human_conversation: fields.flag("human_conversation")?.unwrap_or(false),
    })
}
