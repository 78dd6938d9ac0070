//! `POST /plugin/v1/drafts/claim` and `/{id}/result`. Never hands a reply out without a commit, and never undoes one.

use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use muster_app::drafts::{self, Report};
use muster_core::ids::DraftId;
use muster_core::text::{Detail, ExternalRef};
use muster_wire::plugin_v1::{ClaimedReply, Recorded};

use super::body::{self, BodyError, Fields};
use super::caller::Connector;
use super::refuse;
use crate::Web;

/// The longest a claim waits, in seconds.
const LONGEST_WAIT: u64 = 25;

pub(super) async fn claim(State(web): State<Web>, Connector(caller): Connector, request: Body) -> Response {
    let wait = match body::bytes(request).await.and_then(|bytes| parse_claim(&bytes)) {
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

/// Reads a claim: an empty body counts as `{"wait_seconds": 0}`; any other field is a mistake that would otherwise wait for nothing.
pub(crate) fn parse_claim(bytes: &[u8]) -> Result<Duration, BodyError> {
    if bytes.is_empty() {
        return Ok(Duration::ZERO);
    }
    let mut fields = Fields::parse(bytes)?;
    if fields.names().any(|name| name != "wait_seconds") {
        return Err(BodyError::Field("the body may hold wait_seconds and nothing else".to_owned()));
    }
    let seconds = fields.whole("wait_seconds")?.unwrap_or(0);
    Ok(Duration::from_secs(seconds.min(LONGEST_WAIT)))
}

pub(super) async fn report(State(web): State<Web>, Connector(caller): Connector, Path(id): Path<String>, request: Body) -> Response {
    let report = match body::bytes(request).await.and_then(|bytes| parse_report(&bytes)) {
        Ok(report) => report,
        Err(error) => return refuse::body(&web, &caller, &error).await,
    };
    let Ok(draft) = id.parse::<DraftId>() else {
        return refuse::no_such_reply();
    };
    match drafts::report(&web.app, &caller, draft, report).await {
        Ok(reported) => Json(Recorded { draft_id: reported.id.get(), status: reported.state.as_str().to_owned() }).into_response(),
        Err(error) => refuse::report(draft, &error),
    }
}

/// Reads a result; unknown fields are ignored.
pub(crate) fn parse_report(bytes: &[u8]) -> Result<Report, BodyError> {
    let mut fields = Fields::parse(bytes)?;
    Ok(Report {
        ok: fields.flag("ok")?.ok_or_else(|| BodyError::Field("ok is required: true when the reply was sent, false when it was not".to_owned()))?,
        external_ref: fields.text("external_ref")?.map(|text| ExternalRef::parse("external_ref", text)).transpose()?,
        detail: fields.text("detail")?.map(|text| Detail::parse("detail", text)).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: CLM-001 CLM-002 CLM-003 CLM-005 CLM-006
    #[test]
    fn a_claim_waits_as_long_as_it_asks_and_25_seconds_at_most() {
        let wait = |body: &str| parse_claim(body.as_bytes()).map(|wait| wait.as_secs()).ok();
        for (body, seconds) in [("", 0), ("{}", 0), (r#"{"wait_seconds": 0}"#, 0), (r#"{"wait_seconds": 10}"#, 10), (r#"{"wait_seconds": 25}"#, 25)] {
            assert_eq!(wait(body), Some(seconds), "{body}");
        }
        for more in ["26", "999", "18446744073709551615", "18446744073709551616", "1e300", "25.0"] {
            assert_eq!(wait(&format!("{{\"wait_seconds\": {more}}}")), Some(25), "{more}");
        }
        for bad in ["-1", "1.5", "-0.5", "\"5\"", "null", "true", "[5]", "1e400", "NaN"] {
            assert_eq!(wait(&format!("{{\"wait_seconds\": {bad}}}")), None, "{bad}");
        }
    }
}
