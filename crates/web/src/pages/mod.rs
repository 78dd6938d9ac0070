//! The pages a person meets: rendered here, every act a plain form of the same origin, usable without a script. Never decides; each page asks the app.

mod asks;
mod audit;
mod audit_export;
mod audit_facts;
mod audit_words;
mod caller;
mod card;
mod chief;
mod confirm;
mod databases;
mod decoy;
mod drafts;
mod events;
mod fields;
mod flash;
mod framed;
mod guess;
mod overview;
mod package_view;
mod packages;
mod permissions;
mod plugins;
mod policies;
mod policy_view;
mod projects;
mod refuse;
mod settings;
mod setup;
mod sign_in;
mod statics;
mod tasks;
mod view;

#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, State};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use http::HeaderMap;

use crate::Web;
use crate::router::{Door, Table};

/// All pages.
pub(crate) fn tables(web: &Web) -> Vec<Table> {
    vec![
        person(web),
        visitor(web),
        Table::of(Door::Anyone).get("/static/{file}", statics::serve),
    ]
}

/// The pages of who is signed in.
fn person(web: &Web) -> Table {
    let flash = flash::Flash::default();
    Table::of(Door::Person)
        .get("/", overview::show)
        .get("/notices", overview::open_notices)
        .get("/events", events::show)
        .get("/attention", drafts::show)
        .post("/attention/asks/{id}/allow", asks::allow)
        .post("/attention/asks/{id}/refuse", asks::refuse)
        .post("/attention/drafts/{id}/approve", drafts::approve)
        .post("/attention/drafts/{id}/reject", drafts::reject)
        .post("/attention/drafts/{id}/withdraw", drafts::withdraw)
        .get("/plugins", plugins::show)
        .post("/plugins", plugins::create)
        .post("/plugins/{id}/revoke", plugins::revoke)
        .post("/plugins/messages/{id}/retry", plugins::retry)
        .get("/plugins/packages", packages::show)
        .get("/plugins/packages/{package}", packages::open)
        .post("/plugins/packages/{package}", packages::decide)
        .get("/chief", chief::show)
        .get("/chief/conversations/{id}", chief::conversation)
        .get("/tasks", tasks::list)
        .post("/tasks", tasks::add)
        .get("/tasks/{id}", tasks::show)
        .post("/tasks/{id}", tasks::act)
        .get("/tasks/{id}/permissions", permissions::show)
        .post("/tasks/{id}/permissions", permissions::apply)
        .get("/projects", projects::show)
        .post("/projects", projects::add)
        .post("/projects/{id}", projects::act)
        .get("/databases", databases::list)
        .get("/databases/{id}", databases::show)
        .post("/databases/{id}", databases::act)
        .get("/policies", policies::list)
        .post("/policies", policies::create)
        .get("/policies/{id}", policies::show)
        .post("/policies/{id}", policies::edit)
        .get("/audit", audit::show)
        .get("/audit/export", audit_export::show)
        .get("/settings", settings::show)
        .post("/settings/values", settings::set_value)
        .post("/settings/tokens", settings::create_token)
        .post("/settings/tokens/{id}/revoke", settings::revoke_token)
        .post("/settings/passkeys/begin", settings::passkey_begin)
        .post("/settings/passkeys/finish", settings::passkey_finish)
        .post("/settings/passkeys/{id}/remove", settings::remove_passkey)
        .get("/confirm", confirm::show)
        .post("/confirm", confirm::submit)
        .post("/confirm/passkey/begin", confirm::passkey_begin)
        .post("/confirm/passkey/finish", confirm::passkey_finish)
        .post("/sign-out", sign_in::sign_out)
        .post("/sign-out-everywhere", sign_in::sign_out_everywhere)
        .wrap(|router| refusing(router, web).layer(Extension(flash)))
}

/// The pages of who is not signed in yet.
fn visitor(web: &Web) -> Table {
    let decoys = decoy::Decoys::default();
    Table::of(Door::Visitor)
        .get("/setup", setup::show)
        .post("/setup", setup::submit)
        .get("/sign-in", sign_in::show)
        .post("/sign-in", sign_in::submit)
        .post("/sign-in/passkey/begin", sign_in::passkey_begin)
        .post("/sign-in/passkey/finish", sign_in::passkey_finish)
        .wrap(|router| refusing(router, web).layer(Extension(decoys)))
}

/// Bounds what a page is sent, and gives its refusals their frame.
fn refusing(router: Router<Web>, web: &Web) -> Router<Web> {
    router
        .layer(DefaultBodyLimit::max(fields::LIMIT))
        .layer(from_fn_with_state(web.clone(), framed::frame))
}

/// What is at no address: the same answer that `/setup` and a page that is off give.
pub(crate) async fn not_found(State(web): State<Web>, headers: HeaderMap) -> Response {
    let refused = refuse::not_found(&headers);
    framed::for_whom(&web, &headers, refused).await
}
