//! `/plugins/packages`: what is installed, what changed since it was decided about, and the decisions. Never installs anything, and never decides about
//! something else than what the page showed.

use askama::Template;
use axum::extract::{Extension, Path, State};
use axum::response::Response;
use http::StatusCode;
use muster_app::accounts::{self, BrowserCaller};
use muster_app::packages::{Done, Hash, record};
use muster_core::clock::Time;
use muster_core::{Fault, FaultKind};
use muster_plugin_host::{Act, Host, PluginError, Target};
use serde::Deserialize;

use super::caller::Person;
use super::confirm;
use super::fields::Fields;
use super::flash::{Flash, Opened, Place, Shown};
use super::package_view::{PackageView, Row, rows};
use super::refuse::{self, Back};
use super::view::{self, Here, Shell, see_other};
use crate::Web;
use crate::whole::whole;

/// Where the list is.
pub(super) const LIST: &str = "/plugins/packages";

#[derive(Template)]
#[template(path = "packages.html")]
pub(super) struct PackagesPage {
    shell: Shell,
    packages: Packages,
    /// Whether this person decides.
    decides: bool,
}

/// The packages of a list, or why there is none.
#[derive(Debug, Clone, Default)]
pub(super) struct Packages {
    pub(super) rows: Vec<Row>,
    pub(super) problem: Option<String>,
}

#[derive(Template)]
#[template(path = "package.html")]
pub(super) struct PackagePage {
    shell: Shell,
    shown: Option<Shown>,
    package: PackageView,
    decides: bool,
}

/// One decision.
#[derive(Debug, Deserialize)]
pub(super) struct Form {
    /// The server or hook, by its stable id.
    #[serde(default)]
    about: String,
    #[serde(default)]
    act: String,
    /// The definition that the page showed.
    #[serde(default)]
    hash: String,
}

/// Looks at the packages beside the request: to look at one is to look at each of its files.
pub(super) async fn look<T: Send + 'static>(
    web: &Web,
    look: impl FnOnce(&Host) -> Result<T, PluginError> + Send + 'static,
) -> Result<T, PluginError> {
    let host = web.packages.host().clone();
    blocking(move || look(&host)).await?
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Fault::other("a look at the packages broke off").because(error))
}

/// Packages run as the user that muster runs as, so they are the business of the account that was made with the server.
pub(super) async fn decides(web: &Web, caller: &BrowserCaller) -> Result<bool, Fault> {
    let first = accounts::first(&web.app).await?;
    Ok(first.is_some_and(|first| first.id == caller.owner))
}

/// The list for another page.
pub(super) async fn list(web: &Web) -> Packages {
    match look(web, rows).await {
        Ok(rows) => Packages { rows, problem: None },
        Err(error) => Packages {
            rows: Vec::new(),
            problem: Some(refuse::sentence(&error.to_string())),
        },
    }
}

pub(super) async fn show(State(web): State<Web>, Person(caller): Person) -> Result<Response, Response> {
    let shell = Shell::of(&web, &caller, Here::Packages, "Packages").await?;
    let page = PackagesPage {
        shell,
        packages: list(&web).await,
        decides: decides(&web, &caller)
            .await
            .map_err(|fault| refuse::fault(&fault))?,
    };
    Ok(view::page(StatusCode::OK, &page))
}

pub(super) async fn open(
    State(web): State<Web>,
    Person(caller): Person,
    Path(id): Path<String>,
    Extension(flash): Extension<Flash>,
    opened: Opened,
) -> Result<Response, Response> {
    let decides = decides(&web, &caller)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let (now, address): (Time, String) = (web.app.clock.now(), web.origin.base().to_owned());
    let package = look(&web, move |host| {
        PackageView::read(host, &id, decides, &address, now)
    })
    .await
    .map_err(|error| refused(&error, None))?;
    let shell = Shell::of(&web, &caller, Here::Packages, package.title()).await?;
    let shown = flash.take(caller.session, Place::Packages, &opened);
    let page = PackagePage {
        shell,
        shown,
        package,
        decides,
    };
    Ok(view::page(StatusCode::OK, &page))
}

pub(super) async fn decide(
    State(web): State<Web>,
    Person(caller): Person,
    Path(id): Path<String>,
    Extension(flash): Extension<Flash>,
    Fields(form): Fields<Form>,
) -> Result<Response, Response> {
    if !decides(&web, &caller)
        .await
        .map_err(|fault| refuse::fault(&fault))?
    {
        return Err(refuse::page(
            StatusCode::FORBIDDEN,
            "Not decided",
            "What a package does, it does as the user that runs muster, so only the server’s first account decides about it. Nothing was changed.",
            TO_PACKAGES,
        ));
    }
    let Some((target, act, event, note)) = read(&id, &form) else {
        return Err(refuse::unreadable(StatusCode::BAD_REQUEST));
    };
    let own = format!("{LIST}/{id}");
    // What lets a program run asks for a fresh sign-in, as what sends something out does.
    if matches!(act, Act::Approve | Act::Enable) && confirm::stale(&web, &caller) {
        return Ok(confirm::first(&own));
    }
    let (app, host, owner) = (web.app.clone(), web.packages.host().clone(), caller.owner);
    let noted = whole(&web.app, async move {
        let decided = blocking(move || host.decide(&target, act, Some(&form.hash))).await??;
        let rows = decided.into_iter().map(|one| Done {
            event,
            what: one.id.to_string(),
            hash: Hash::Definition(one.hash),
        });
        // By now it is decided, whatever becomes of the row.
        Ok::<_, PluginError>(record(&app, owner, rows.collect()).await)
    })
    .await
    .map_err(|fault| refuse::fault(&fault))?
    .map_err(|error| refused(&error, Some(&own)))?;
    let shown = match noted {
        Ok(()) => Shown::Note(note),
        Err(fault) => {
            tracing::error!(error = %fault.chain(), "a decision about a package stands in the packages' own ledger and has no row in the audit");
            Shown::Warning(UNNOTED)
        }
    };
    flash.put(caller.session, Place::Packages, shown);
    Ok(see_other(&own))
}

/// What is said where a decision was stored and its audit row could not be.
const UNNOTED: &str = "It is done and stands in the packages’ own ledger, but the audit has no row of it: muster could not write to its database just now. The reason is in muster’s log.";

/// What the form asks for, the name of its audit row, and what is said when it was done.
fn read(id: &str, form: &Form) -> Option<(Target, Act, &'static str, &'static str)> {
    let target = Target::parse(&form.about)
        .filter(|target| target.plugin() == id && matches!(target, Target::One(_)))?;
    let (act, event, note) = match form.act.as_str() {
        "approve" => (
            Act::Approve,
            "package.approve",
            "Approved as it is now: it starts with an agent’s next session, and for agents over HTTP with their next call.",
        ),
        "reject" => (
            Act::Reject,
            "package.reject",
            "Rejected: it does not start, and what ran of it for agents over HTTP is being ended.",
        ),
        "enable" => (
            Act::Enable,
            "package.enable",
            "Switched on: it starts with an agent’s next session, and for agents over HTTP with their next call.",
        ),
        "disable" => (
            Act::Disable,
            "package.disable",
            "Switched off: it does not start, and what ran of it for agents over HTTP is being ended.",
        ),
        _ => return None,
    };
    Some((target, act, event, note))
}

const TO_PACKAGES: Back = Back {
    path: std::borrow::Cow::Borrowed(LIST),
    words: "Back to the packages",
};

fn refused(error: &PluginError, own: Option<&str>) -> Response {
    let back = own.map_or(TO_PACKAGES, |own| Back {
        path: own.to_owned().into(),
        words: "Back to the package",
    });
    match error {
        // It is no database that is away: another process holds the packages' own ledger.
        PluginError::Fault(fault) if *fault.kind() == FaultKind::Unavailable => refuse::page(
            StatusCode::SERVICE_UNAVAILABLE,
            "Not now",
            &refuse::sentence(&fault.to_string()),
            back,
        ),
        PluginError::Fault(fault) => refuse::fault(fault),
        PluginError::NotFound(_) => refuse::page(
            StatusCode::NOT_FOUND,
            "Not found",
            "There is no such package, or no such part of it. It may have been removed.",
            TO_PACKAGES,
        ),
        PluginError::HashMismatch { .. } => refuse::page(
            StatusCode::CONFLICT,
            "The package changed",
            "The package is not what the page showed when you decided, so nothing was decided. Read what changed, and decide again.",
            back,
        ),
        other => refuse::page(
            StatusCode::CONFLICT,
            "Not decided",
            &refuse::sentence(&other.to_string()),
            back,
        ),
    }
}

#[cfg(test)]
impl PackagesPage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::shell;
        let page = |rows, problem, decides| Self {
            shell: shell(Here::Packages),
            packages: Packages { rows, problem },
            decides,
        };
        vec![
            page(vec![Row::sample(0), Row::sample(1)], None, true),
            page(vec![], Some(super::tests::HOSTILE.to_owned()), false),
        ]
    }
}

#[cfg(test)]
impl PackagePage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::shell;
        let page = |package, decides| Self {
            shell: shell(Here::Packages),
            shown: Some(Shown::Note("done")),
            package,
            decides,
        };
        PackageView::samples()
            .into_iter()
            .flat_map(|package| [page(package.clone(), true), page(package, false)])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_decides_about_one_part_of_the_package_whose_page_it_came_from() {
        let form = |about: &str, act: &str| Form {
            about: about.to_owned(),
            act: act.to_owned(),
            hash: "h".to_owned(),
        };
        assert!(read("p", &form("plugin:p:mcp_server:s", "approve")).is_some());
        for (about, act) in [
            ("plugin:q:mcp_server:s", "approve"),
            ("p", "approve"),
            ("", "approve"),
            ("plugin:p:mcp_server:s", "run"),
            ("plugin:p:mcp_server:s", ""),
        ] {
            assert!(read("p", &form(about, act)).is_none(), "{about} {act}");
        }
    }
}
