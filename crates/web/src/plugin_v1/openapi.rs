//! The OpenAPI document of the connector API. Never describes any other door.

use axum::Json;
use axum::extract::State;
use muster_wire::plugin_v1::{
    Claim, ClaimedReply, Conflict, MessageStatus, NewMessage, Recorded, Refusal, SendResult, StoredMessage,
};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::server::Server;
use utoipa::openapi::{RefOr, Required};
use utoipa::{Modify, OpenApi};

use crate::Web;

#[derive(OpenApi)]
#[openapi(
    info(title = "muster connector API", description = "A connector brings messages in and collects the replies the owner approved. See docs/connectors.md."),
    paths(messages, claim, result),
    components(schemas(NewMessage, StoredMessage, MessageStatus, Claim, ClaimedReply, SendResult, Recorded, Refusal, Conflict)),
    modifiers(&BearerToken, &BodyMayBeEmpty)
)]
struct Document;

struct BearerToken;

impl Modify for BearerToken {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        if let Some(components) = document.components.as_mut() {
            components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
        }
    }
}

/// A claim without a body counts as one that does not wait.
struct BodyMayBeEmpty;

impl Modify for BodyMayBeEmpty {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let claim = document
            .paths
            .paths
            .get_mut("/plugin/v1/drafts/claim")
            .and_then(|path| path.post.as_mut());
        if let Some(RefOr::T(body)) = claim.and_then(|claim| claim.request_body.as_mut()) {
            body.required = Some(Required::False);
        }
    }
}

/// Stores a message once and starts its delivery.
#[expect(dead_code, reason = "carries the description of a handler")]
#[utoipa::path(post, path = "/plugin/v1/messages", request_body = NewMessage, security(("token" = [])), responses(
    (status = 202, description = "Stored; its delivery has started.", body = StoredMessage),
    (status = 200, description = "This external_id was sent before: the stored message.", body = StoredMessage),
    (status = 400, description = "A field breaks a rule; nothing was stored.", body = Refusal),
    (status = 401, description = "Not the token of a live connector.", body = Refusal),
    (status = 404, description = "Plugins are off.", body = Refusal),
    (status = 408, description = "The body came too slowly.", body = Refusal),
    (status = 413, description = "The body is too large; nothing was stored.", body = Refusal),
    (status = 429, description = "A cap is reached; nothing was stored.", body = Refusal, headers(("Retry-After" = u64, description = "Seconds."))),
    (status = 503, description = "muster could not store it.", body = Refusal),
))]
fn messages() {}

/// Waits for an approved reply and leases it for two minutes.
#[expect(dead_code, reason = "carries the description of a handler")]
#[utoipa::path(post, path = "/plugin/v1/drafts/claim", request_body(content = Claim, description = "An empty body counts as 0."), security(("token" = [])), responses(
    (status = 200, description = "One approved reply, now leased.", body = ClaimedReply),
    (status = 204, description = "Nothing to send within the wait."),
    (status = 400, description = "The body is not {\"wait_seconds\": n}.", body = Refusal),
    (status = 401, description = "Not the token of a live connector.", body = Refusal),
    (status = 404, description = "Plugins are off.", body = Refusal),
    (status = 408, description = "The body came too slowly.", body = Refusal),
    (status = 413, description = "The body is too large.", body = Refusal),
    (status = 503, description = "muster could not lease it.", body = Refusal),
))]
fn claim() {}

/// Records what became of a claimed reply.
#[expect(dead_code, reason = "carries the description of a handler")]
#[utoipa::path(post, path = "/plugin/v1/drafts/{id}/result", params(("id" = i64, Path, description = "The draft_id.", minimum = 1)), request_body = SendResult, security(("token" = [])), responses(
    (status = 200, description = "Recorded, now or before.", body = Recorded),
    (status = 400, description = "A field breaks a rule; the reply stays as it was.", body = Refusal),
    (status = 401, description = "Not the token of a live connector.", body = Refusal),
    (status = 404, description = "No such reply of this connector's, or plugins are off.", body = Refusal),
    (status = 408, description = "The body came too slowly.", body = Refusal),
    (status = 409, description = "The other result is recorded, or it was never claimed.", body = Conflict),
    (status = 413, description = "The body is too large.", body = Refusal),
    (status = 503, description = "muster could not record it; send it again.", body = Refusal),
))]
fn result() {}

pub(super) async fn document(State(web): State<Web>) -> Json<utoipa::openapi::OpenApi> {
    let mut document = Document::openapi();
    document.servers = Some(vec![Server::new(web.origin.base())]);
    Json(document)
}
