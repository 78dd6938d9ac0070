//! Pull requests and tickets as agents open, read, create and import them. Never reaches a forge before the permit, or a repository that no project has there.

use muster_app::access;
use muster_app::integrations::{self, IntegrationError};
use muster_app::projects;
use muster_app::tasks::{self, By, Ticket, TicketKey};
use muster_core::ids::{IntegrationId, ProjectId};
use muster_core::text::{TaskBody, TaskTitle};
use muster_forge::{
    Forge, ForgeError, Issue, IssueDetail, IssueKey, IssueQuery, Kind, Limits, MAX_ISSUES, NewIssue,
    NewPullRequest, Repo, Setup, StateFilter,
};
use muster_policy::{Action, Needs, Pair, Permit, Resource, ScopeKind};
use serde_json::{Value, json};

use super::answer::Failed;
use super::call::Calling;
use super::tasks::{named as named_task, shown as shown_task};

type Answer = Result<Value, Failed>;

impl From<ForgeError> for Failed {
    fn from(error: ForgeError) -> Self {
        match error.code() {
            code @ ("invalid_argument" | "not_found") => Self::new(code, error.to_string()),
            code => Self::new("engine_error", error.to_string()).with("engine_code", code),
        }
    }
}

impl From<IntegrationError> for Failed {
    fn from(error: IntegrationError) -> Self {
        match error {
            IntegrationError::Fault(fault) => fault.into(),
            IntegrationError::NotFound => Self::missing("integration"),
            other => {
                // What it says is for the owner: it names files of this machine.
                tracing::error!(error = %other, "an integration's token could not be opened");
                Self::new(
                    "engine_error",
                    "The integration's token cannot be opened, and nothing was done. Your owner finds the reason in muster's log.",
                )
                .with("engine_code", "sealed")
            }
        }
    }
}

/// The way to an integration's forge.
async fn forge(call: &Calling<'_>, id: IntegrationId) -> Result<Forge, Failed> {
    let (integration, token) = integrations::credential(call.app, call.caller.owner, id).await?;
    let kind: Kind = integration.kind.as_str().parse()?;
    let resource =
        Resource::new(ScopeKind::Integration, &id.to_string()).map_err(|_| Failed::missing("integration"))?;
    Ok(Forge::connect(Setup {
        kind,
        url: &integration.url,
        token: &token,
        integration: &resource,
        clock: call.app.clock.clone(),
        limits: Limits::default(),
    })?)
}

/// The repositories of the projects that use an integration, each once, as the oldest of them spells it.
async fn repos(call: &Calling<'_>, id: IntegrationId) -> Result<Vec<String>, Failed> {
    let all = projects::list(call.app, call.caller.owner).await?;
    let mut repos: Vec<String> = all
        .into_iter()
        .filter_map(|project| project.repo)
        .filter(|repo| repo.integration.id == id)
        .map(|repo| repo.path)
        .collect();
    // Stable, so that of several spellings of one the oldest stays.
    repos.sort_by_key(|repo| repo.to_ascii_lowercase());
    repos.dedup_by(|other, first| other.eq_ignore_ascii_case(first));
    Ok(repos)
}

fn id_of(resource: &Resource) -> Result<IntegrationId, Failed> {
    resource.id().parse().map_err(|_| Failed::missing("integration"))
}

/// Charges an action on the integration that the call names.
async fn charged(call: &Calling<'_>, action: Action) -> Result<(Permit, IntegrationId), Failed> {
    let target = call.named(ScopeKind::Integration, "integration_id").await?;
    let (permit, target) = call.charge(action, target, "integration").await?;
    Ok((permit, id_of(target.resource())?))
}

fn listed(issue: &Issue) -> Value {
    json!({
        "key": issue.key.to_string(),
        "title": issue.title,
        "state": issue.state.as_str(),
        "url": issue.url,
    })
}

fn shown(detail: &IssueDetail) -> Value {
    let mut shown = listed(&detail.issue);
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("body".to_owned(), json!(detail.body));
        shown.insert("author".to_owned(), json!(detail.author));
        shown.insert("labels".to_owned(), json!(detail.labels));
        shown.insert("comments".to_owned(), json!(detail.comments));
    }
    shown
}

/// The repository that a call asks about, as its project spells it. One that no project has there is as good as none.
fn among(repos: &[String], repo: &str) -> Result<Repo, Failed> {
    match repos.iter().find(|known| known.eq_ignore_ascii_case(repo)) {
        Some(known) => Ok(Repo::parse(known)?),
        None => Err(Failed::new(
            "not_found",
            "no project of your owner's has this repository at this integration; nothing was done",
        )),
    }
}

fn key(call: &Calling<'_>) -> Result<IssueKey, Failed> {
    Ok(call
        .arguments
        .text("key")
        .unwrap_or_default()
        .parse::<IssueKey>()?)
}

pub(super) async fn list_issues(call: &Calling<'_>) -> Answer {
    let state = call
        .arguments
        .text("state")
        .map_or(Ok(StateFilter::Open), str::parse)?;
    let wanted = call.arguments.text("repo").map(Repo::parse).transpose()?;
    let mut query = IssueQuery::new(call.arguments.text("query"), state, MAX_ISSUES)?;
    let (permit, id) = charged(call, Action::IssuesRead).await?;
    let mut repos = repos(call, id).await?;
    if let Some(wanted) = wanted {
        repos = vec![among(&repos, wanted.as_str())?.as_str().to_owned()];
    }
    let forge = forge(call, id).await?;
    let (mut issues, mut more) = (Vec::new(), false);
    for repo in repos {
        query.limit = MAX_ISSUES.saturating_sub(issues.len());
        if query.limit == 0 {
            more = true;
            break;
        }
        let found = forge.list_issues(&permit, &Repo::parse(&repo)?, &query).await?;
        more |= found.more;
        issues.extend(found.issues.iter().map(listed));
    }
    Ok(json!({"issues": issues, "truncated": more}))
}

pub(super) async fn get_issue(call: &Calling<'_>) -> Answer {
    let key = key(call)?;
    let (permit, id) = charged(call, Action::IssuesRead).await?;
    among(&repos(call, id).await?, key.repo().as_str())?;
    let found = forge(call, id).await?.get_issue(&permit, &key).await?;
    Ok(json!({"issue": shown(&found)}))
}

pub(super) async fn create_issue(call: &Calling<'_>) -> Answer {
    let title = call.arguments.text("title").unwrap_or_default();
    let body = call.arguments.text("body").unwrap_or_default();
    let wanted = call.arguments.text("repo").map(Repo::parse).transpose()?;
    let (permit, id) = charged(call, Action::IssuesWrite).await?;
    let repos = repos(call, id).await?;
    let repo = match (wanted, repos.as_slice()) {
        (Some(wanted), _) => among(&repos, wanted.as_str())?,
        (None, [only]) => Repo::parse(only)?,
        (None, []) => {
            return Err(Failed::new(
                "not_found",
                "no project of your owner's has a repository at this integration; nothing was done",
            ));
        }
        (None, several) => {
            return Err(Failed::argument(format!(
                "several repositories use this integration, so the argument repo must say which: {}",
                several.join(", ")
            )));
        }
    };
    let new = NewIssue::new(repo, title, body)?;
    let made = forge(call, id).await?.create_issue(&permit, &new).await?;
    Ok(json!({"issue": shown(&made)}))
}

pub(super) async fn import_issue(call: &Calling<'_>) -> Answer {
    let key = key(call)?;
    let (permit, id) = charged(call, Action::IssuesWrite).await?;
    let project = readable_project(call).await?;
    // In one spelling, so that one ticket becomes one task.
    let repo = among(&repos(call, id).await?, key.repo().as_str())?;
    let key = IssueKey::new(repo, key.number())?;
    let ticket = TicketKey::parse(&key.to_string())?;
    let found = forge(call, id).await?.issue_to_import(&permit, &key).await?;
    let ticket = Ticket {
        integration: id,
        key: ticket,
        title: TaskTitle::parse("the ticket's title", &found.issue.title)?,
        body: TaskBody::parse("the ticket's text", &found.body)?,
    };
    let by = By::Agent(call.caller.token);
    let (task, created) = tasks::import(call.app, call.caller.owner, by, project, ticket).await?;
    Ok(json!({"task": shown_task(call, &task).await?, "created": created}))
}

/// The project that a ticket becomes a task of: one that the caller may read, or be asked about reading.
async fn readable_project(call: &Calling<'_>) -> Result<ProjectId, Failed> {
    let missing = || Failed::missing("project that you may read");
    let target = call.named(ScopeKind::Project, "project_id").await?;
    let target = target.ok_or_else(missing)?;
    let id = target.resource().id().parse().map_err(|_| missing())?;
    let read = Pair::new(Action::ProjectsRead, target);
    let left = access::leaves(call.app, call.caller, read).await?;
    left.map(|_| id).ok_or_else(missing)
}

pub(super) async fn open_pr(call: &Calling<'_>) -> Answer {
    let title = call.arguments.text("title").unwrap_or_default();
    let body = call.arguments.text("body").unwrap_or_default();
    let named = named_task(call).await?;
    let target = named.as_ref().and_then(|(_, of)| of.repo.clone());
    let needs = target.clone().map_or_else(
        || Needs::naming_nothing(Action::PrWrite),
        |target| Needs::of(Action::PrWrite, target),
    );
    let permit = call.permitted(needs).await?;
    let (Some((task, _)), Some(target)) = (named, target) else {
        return Err(Failed::missing("task whose project has a repository"));
    };
    let task = tasks::find(call.app, call.caller.owner, task).await?;
    let project = projects::find(call.app, call.caller.owner, &task.project.id.to_string())
        .await
        .map_err(|_| Failed::missing("project"))?;
    // What is named now must be what was charged.
    let repo = project
        .repo
        .filter(|repo| repo.path.eq_ignore_ascii_case(target.resource().id()))
        .ok_or_else(|| Failed::missing("repository"))?;
    let worktree = task.worktree.ok_or_else(|| {
        Failed::new(
            "not_found",
            "the task has no worktree, so there is no branch to open a pull request from; nothing was done",
        )
    })?;
    let base = match call.arguments.text("base") {
        Some(base) => base,
        None if is_commit(&worktree.base) => {
            return Err(Failed::argument(
                "the task's branch was made from a commit, so the argument base must name a branch",
            ));
        }
        None => &worktree.base,
    };
    let new = NewPullRequest::new(
        Repo::parse(&repo.path)?,
        title,
        body,
        &worktree.branch,
        base,
        call.arguments.flag("draft"),
    )?;
    let forge = forge(call, repo.integration.id).await?;
    let opened = forge.open_pull_request(&permit, &new).await?;
    Ok(json!({"pull_request": {"number": opened.number, "url": opened.url}}))
}

/// Whether a base is the id of a commit rather than a name.
fn is_commit(base: &str) -> bool {
    matches!(base.len(), 40 | 64) && base.bytes().all(|b| b.is_ascii_hexdigit())
}
