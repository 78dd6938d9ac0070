//! The table of contents: every route, its method and its door. A route can only be added together with its entry here. Never handles a request.

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, on};
use tower::util::MapResponseLayer;
use tower_http::catch_panic::CatchPanicLayer;

use crate::{Web, api, guard, health, mcp_agent, packages, pages, plugin_v1};

/// Who a route is for; each takes exactly one kind of credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    /// Anyone: no credential, and none is looked at.
    Anyone,
    /// A person who is not signed in yet: sign-in and set-up.
    Visitor,
    /// A person with a browser session.
    Person,
    /// A connector with an `mpl_` token.
    Plugin,
    /// The owner's scripts: an `mst_` token, or the hook token.
    Script,
    /// An agent with a `mag_` token.
    Agent,
    /// Loopback callers.
    Loopback,
}

/// One route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Its path, with `{name}` for a part that varies.
    pub path: &'static str,
    /// Who it is for.
    pub door: Door,
}

/// Routes of one door while they are being listed.
pub(crate) struct Table {
    door: Door,
    router: Router<Web>,
    routes: Vec<Route>,
}

impl Table {
    pub(crate) fn of(door: Door) -> Self {
        Self {
            door,
            router: Router::new(),
            routes: Vec::new(),
        }
    }

    pub(crate) fn get<H: Handler<T, Web>, T: 'static>(mut self, path: &'static str, handler: H) -> Self {
        self.routes.push(Route {
            method: "GET",
            path,
            door: self.door,
        });
        self.router = self.router.route(path, on(MethodFilter::GET, handler));
        self
    }

    pub(crate) fn post<H: Handler<T, Web>, T: 'static>(mut self, path: &'static str, handler: H) -> Self {
        self.routes.push(Route {
            method: "POST",
            path,
            door: self.door,
        });
        self.router = self.router.route(path, on(MethodFilter::POST, handler));
        self
    }

    /// Wraps the door's routes in what only they need.
    pub(crate) fn wrap(mut self, wrap: impl FnOnce(Router<Web>) -> Router<Web>) -> Self {
        self.router = wrap(self.router);
        self
    }
}

/// All doors in the order of the interface's page.
fn tables(web: &Web) -> Vec<Table> {
    let mut tables = pages::tables(web);
    tables.extend([
        plugin_v1::table(web),
        plugin_v1::description(web),
        api::table(web),
        mcp_agent::table(web),
        packages::table(web),
    ]);
    tables.extend(health::tables());
    tables
}

/// Every route there is: what the credential matrix walks.
pub fn routes(web: &Web) -> Vec<Route> {
    tables(web).into_iter().flat_map(|table| table.routes).collect()
}

/// The whole server.
pub fn router(web: Web) -> Router {
    let doors = tables(&web)
        .into_iter()
        .fold(Router::new(), |all, table| all.merge(table.router));
    doors
        .fallback(pages::not_found)
        .layer(guard::OwnHost::of(&web))
        .layer(CatchPanicLayer::new())
        .layer(MapResponseLayer::new(guard::headers))
        .with_state(web)
}
