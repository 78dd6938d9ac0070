//! `/databases`: the connections, and of each what is promised, who may reach it, what was run. Never shows an address, and never a row of a database.

use askama::Template;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::StatusCode;
use muster_app::accounts::BrowserCaller;
use muster_app::databases::{self, Checked, Connection, DatabaseError, LastCheck, Ran};
use muster_app::policies::{self, Chosen, PolicyError};
use muster_app::tasks::{self, TaskPolicy, TaskStatus};
use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::ConnectionId;
use muster_policy::ScopeKind;
use serde::Deserialize;

use super::caller::Person;
use super::fields::{Fields, Id};
use super::flash::{Flash, Opened, Place, Shown};
use super::refuse;
use super::view::{self, Here, Shell, When, lines, one_line, see_other};
use crate::Web;
use crate::databases::{NotOpened, check};
use crate::whole::whole;

/// Statements on the page.
const STATEMENTS: u32 = 30;

#[derive(Template)]
#[template(path = "databases.html")]
pub(super) struct DatabasesPage {
    shell: Shell,
    connections: Vec<Line>,
}

#[derive(Template)]
#[template(path = "database.html")]
pub(super) struct DatabasePage {
    shell: Shell,
    shown: Option<Shown>,
    connection: Line,
    policies: Vec<ReachView>,
    /// Tasks that no policy restricts.
    unscoped: Vec<TaskLine>,
    statements: Vec<RanView>,
}

/// A connection as the list shows it.
#[derive(Debug, Clone)]
struct Line {
    id: i64,
    name: String,
    engine: &'static str,
    project: String,
    wide: bool,
    /// Whether nobody could look at its account yet.
    unseen: bool,
    has_write_account: bool,
    created: When,
    /// The last self-test, where there was one.
    check: Option<CheckView>,
}

#[derive(Debug, Clone)]
struct CheckView {
    at: When,
    ok: bool,
    /// What does not hold, by its names.
    failed: String,
    found: Vec<Checked>,
}

/// A policy that leaves something of the connection.
#[derive(Debug, Clone)]
struct ReachView {
    id: String,
    name: String,
    read: &'static str,
    /// `None` when it may not be written.
    write: Option<&'static str>,
    tasks: Vec<TaskLine>,
}

#[derive(Debug, Clone)]
struct TaskLine {
    id: String,
    title: String,
    closed: bool,
}

#[derive(Debug, Clone)]
struct RanView {
    at: When,
    who: String,
    by: String,
    outcome: String,
    /// Whether the outcome let it run.
    ran: bool,
    text: String,
    cut: bool,
}

/// An act on a connection.
#[derive(Debug, Default, Clone, Deserialize)]
pub(super) struct Act {
    #[serde(default)]
    act: String,
}

impl Line {
    fn new(found: &Connection, check: Option<LastCheck>, now: Time) -> Self {
        Self {
            id: found.id.get(),
            name: one_line(&found.name),
            engine: found.engine.as_str(),
            project: one_line(&found.project.name),
            wide: found.wide,
            unseen: !found.looked,
            has_write_account: found.has_write_account,
            created: When::new(found.created_at, now),
            check: check.map(|last| CheckView::new(last, now)),
        }
    }
}

impl CheckView {
    fn new(last: LastCheck, now: Time) -> Self {
        Self {
            at: When::new(last.at, now),
            ok: last.ok(),
            failed: last.failed().map(one_line).collect::<Vec<_>>().join(", "),
            found: last
                .found
                .into_iter()
                .map(|one| Checked {
                    id: one_line(&one.id),
                    ok: one.ok,
                    detail: one_line(&one.detail),
                })
                .collect(),
        }
    }
}

impl RanView {
    fn new(ran: Ran, now: Time) -> Self {
        Self {
            at: When::new(ran.at, now),
            who: ran
                .agent
                .map_or_else(|| "you".to_owned(), |label| one_line(&label)),
            by: one_line(&ran.by),
            ran: ran.outcome.contains("allowed"),
            outcome: one_line(&ran.outcome),
            text: lines(&ran.statement),
            cut: ran.cut,
        }
    }
}

pub(super) async fn list(State(web): State<Web>, Person(caller): Person) -> Result<Response, Response> {
    let facts = async || -> Result<_, Fault> {
        Ok((
            databases::list(&web.app, caller.owner).await?,
            databases::last_checks(&web.app, caller.owner).await?,
        ))
    };
    let (all, mut checks) = facts().await.map_err(|fault| refuse::fault(&fault))?;
    let now = web.app.clock.now();
    let page = DatabasesPage {
        shell: Shell::of(&web, &caller, Here::Databases, "Databases").await?,
        connections: all
            .iter()
            .map(|found| Line::new(found, checks.remove(&found.id), now))
            .collect(),
    };
    Ok(view::page(StatusCode::OK, &page))
}

/// The owner's connection of this id.
async fn find(web: &Web, caller: &BrowserCaller, id: ConnectionId) -> Result<Connection, Response> {
    databases::find(&web.app, caller.owner, &id.to_string())
        .await
        .map_err(|error| refuse::database(&error))
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(id): Id<ConnectionId>,
    opened: Opened,
) -> Result<Response, Response> {
    let found = find(&web, &caller, id).await?;
    let (app, owner, now) = (&web.app, caller.owner, web.app.clock.now());
    let facts = async || -> Result<_, Fault> {
        Ok((
            databases::last_checks(app, owner).await?.remove(&id),
            databases::last_statements(app, owner, id, STATEMENTS).await?,
        ))
    };
    let (check, statements) = facts().await.map_err(|fault| refuse::fault(&fault))?;
    let (policies, unscoped) = reach(&web, &caller, id).await?;
    let page = DatabasePage {
        shell: Shell::of(
            &web,
            &caller,
            Here::Databases,
            format!("Database {}", one_line(&found.name)),
        )
        .await?,
        shown: flash.take(caller.session, Place::Databases, &opened),
        connection: Line::new(&found, check, now),
        policies,
        unscoped,
        statements: statements.into_iter().map(|ran| RanView::new(ran, now)).collect(),
    };
    Ok(view::page(StatusCode::OK, &page))
}

/// The policies that leave something of the connection, with the tasks under them, and the tasks that no policy restricts.
async fn reach(
    web: &Web,
    caller: &BrowserCaller,
    id: ConnectionId,
) -> Result<(Vec<ReachView>, Vec<TaskLine>), Response> {
    let (app, owner) = (&web.app, caller.owner);
    let broken = |fault: Fault| refuse::fault(&fault);
    let tasks = tasks::list(app, owner, None).await.map_err(broken)?;
    let line = |id: &str, title: &str| TaskLine {
        id: one_line(id),
        title: one_line(title),
        closed: tasks
            .iter()
            .any(|task| task.status == TaskStatus::Closed && task.id.to_string() == id),
    };
    let unscoped = tasks
        .iter()
        .filter(|task| task.policy == TaskPolicy::Unscoped)
        .map(|task| line(&task.id.to_string(), &task.title))
        .collect();
    let mut found = Vec::new();
    for policy in policies::list(app, owner).await.map_err(broken)? {
        let policy = match policies::show(app, owner, Chosen::Own(policy)).await {
            Ok(policy) => policy,
            // It went away since the list was read.
            Err(PolicyError::NotFound) => continue,
            Err(error) => return Err(refuse::policy(&error, refuse::TO_DATABASES)),
        };
        let effect = |action: &str| {
            let mut rows = policy.resolved.iter();
            let row = rows.find(|row| {
                row.action == action
                    && row.resource.kind == ScopeKind::DbConnection.as_str()
                    && row.resource.id.as_deref() == Some(&id.to_string())
            });
            row.map(|row| row.effect)
        };
        // Without reading there is no writing either.
        if let Some(read) = effect("db_read") {
            found.push(ReachView {
                read,
                write: effect("db_write"),
                tasks: policy
                    .dependents
                    .tasks
                    .iter()
                    .map(|task| line(&task.id, &task.name))
                    .collect(),
                name: one_line(&policy.name),
                id: policy.id,
            });
        }
    }
    Ok((found, unscoped))
}

pub(super) async fn act(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    Id(id): Id<ConnectionId>,
    Fields(form): Fields<Act>,
) -> Result<Response, Response> {
    find(&web, &caller, id).await?;
    if form.act != "check" {
        return Err(refuse::unreadable(StatusCode::BAD_REQUEST));
    }
    let (app, owner) = (web.app.clone(), caller.owner);
    // What was tried is written down, whoever still waits for it.
    let checked = whole(&web.app, async move {
        let found: Vec<Checked> = check(&app, owner, id)
            .await?
            .into_iter()
            .map(|one| Checked {
                id: one.id.to_owned(),
                ok: one.ok,
                detail: one.detail,
            })
            .collect();
        let ok = found.iter().all(|one| one.ok);
        databases::checked(&app, owner, id, found).await?;
        Ok::<_, NotOpened>(ok)
    })
    .await
    .map_err(|fault| refuse::fault(&fault))?;
    let words = match checked {
        Ok(true) => "Everything that was tried holds.",
        Ok(false) => "Something that was tried does not hold; it is marked below.",
        Err(NotOpened::Stored(error)) => return Err(refuse::database(&error)),
        Err(error) => {
            return Err(refuse::page(
                StatusCode::CONFLICT,
                "Not done",
                &one_line(&error.to_string()),
                refuse::TO_DATABASES,
            ));
        }
    };
    let failed = matches!(checked, Ok(false));
    let shown = if failed {
        Shown::Warning(words)
    } else {
        Shown::Note(words)
    };
    flash.put(caller.session, Place::Databases, shown);
    Ok(see_other(&format!("/databases/{id}")))
}

/// How a page says that a connection is not there.
pub(super) fn status(error: &DatabaseError) -> StatusCode {
    match error {
        DatabaseError::NotFound | DatabaseError::NoProject => StatusCode::NOT_FOUND,
        DatabaseError::Url | DatabaseError::OtherEngine | DatabaseError::EngineStays => {
            StatusCode::BAD_REQUEST
        }
        DatabaseError::NameTaken | DatabaseError::Seal(_) => StatusCode::CONFLICT,
        DatabaseError::Fault(_) => StatusCode::SERVICE_UNAVAILABLE,
    }
}

#[cfg(test)]
impl DatabasesPage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::shell;
        let page = |connections| Self {
            shell: shell(Here::Databases),
            connections,
        };
        vec![
            page(vec![
                sample(true, Some(sample_check(false))),
                sample(false, Some(sample_check(true))),
            ]),
            page(vec![sample(false, None)]),
            page(vec![]),
        ]
    }
}

#[cfg(test)]
fn sample(wide: bool, check: Option<CheckView>) -> Line {
    use super::tests::{HOSTILE, when};
    Line {
        id: i64::from(wide),
        name: HOSTILE.to_owned(),
        engine: "postgres",
        project: HOSTILE.to_owned(),
        wide,
        unseen: !wide,
        has_write_account: !wide,
        created: when(),
        check,
    }
}

#[cfg(test)]
fn sample_check(ok: bool) -> CheckView {
    use super::tests::{HOSTILE, when};
    let checked = |ok| Checked {
        id: HOSTILE.to_owned(),
        ok,
        detail: HOSTILE.to_owned(),
    };
    CheckView {
        at: when(),
        ok,
        failed: HOSTILE.to_owned(),
        found: vec![checked(true), checked(ok)],
    }
}

#[cfg(test)]
impl DatabasePage {
    pub(super) fn samples() -> Vec<Self> {
        use super::tests::{HOSTILE, shell, when};
        let hostile = || HOSTILE.to_owned();
        let task = |closed| TaskLine {
            id: "7".to_owned(),
            title: hostile(),
            closed,
        };
        let ran = |ran| RanView {
            at: when(),
            who: hostile(),
            by: hostile(),
            outcome: hostile(),
            ran,
            text: hostile(),
            cut: ran,
        };
        let reach = |write, tasks| ReachView {
            id: "3".to_owned(),
            name: hostile(),
            read: "allow",
            write,
            tasks,
        };
        let page = |wide, check, policies, unscoped, statements| Self {
            shell: shell(Here::Databases),
            shown: Some(Shown::Note("done")),
            connection: sample(wide, check),
            policies,
            unscoped,
            statements,
        };
        let check = |ok| Some(sample_check(ok));
        vec![
            page(
                true,
                check(false),
                vec![reach(Some("ask"), vec![task(false), task(true)])],
                vec![task(false)],
                vec![ran(true), ran(false)],
            ),
            page(false, check(true), vec![reach(None, vec![])], vec![], vec![]),
            page(false, None, vec![], vec![], vec![]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_statement_is_out_of_sight() {
        let ran = Ran {
            at: Time::from_micros(0),
            agent: None,
            by: "query".to_owned(),
            outcome: "allowed".to_owned(),
            statement: "SELECT '\u{202e}'\nFROM t".to_owned(),
            cut: false,
        };
        let shown = RanView::new(ran, Time::from_micros(0));
        assert!(!shown.text.contains('\u{202e}') && shown.text.lines().count() == 2);
    }
}
