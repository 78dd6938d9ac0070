//! What an agent is and can reach. Never says that something was left out.

use std::collections::HashSet;

use muster_app::access::{self, Reachable};
use muster_app::{databases, hosts, projects};
use muster_policy::{Action, ScopeKind};
use serde_json::{Value, json};

use super::answer::Failed;
use super::call::Calling;

type Answer = Result<Value, Failed>;

pub(super) async fn whoami(call: &Calling<'_>) -> Answer {
    let whoami = access::whoami(call.app, call.caller).await?;
    Ok(json!(whoami))
}

async fn reachable(call: &Calling<'_>, action: Action, kind: ScopeKind) -> Result<HashSet<String>, Failed> {
    let listing = access::reachable(call.app, call.caller, call.tool, action, kind);
    let Reachable { resources, permitted } = call.decided(listing).await?;
    Ok(resources
        .into_iter()
        .filter(|resource| {
            permitted
                .as_ref()
                .is_some_and(|permitted| permitted.permit.covers(action, resource))
        })
        .map(|resource| resource.id().to_owned())
        .collect())
}

pub(super) async fn projects(call: &Calling<'_>) -> Answer {
    let open = reachable(call, Action::ProjectsRead, ScopeKind::Project).await?;
    let all = projects::list(call.app, call.caller.owner).await?;
    let shown: Vec<Value> = all
        .into_iter()
        .filter(|project| open.contains(&project.id.to_string()))
        .map(|project| json!({"id": project.id.to_string(), "name": project.name}))
        .collect();
    Ok(json!({ "projects": shown }))
}

pub(super) async fn hosts(call: &Calling<'_>) -> Answer {
    let open = reachable(call, Action::HostsRead, ScopeKind::Host).await?;
    let all = hosts::list(call.app, call.caller.owner).await?;
    let shown: Vec<Value> = all
        .into_iter()
        .filter(|host| open.contains(&host.id.to_string()))
        .map(|host| json!({"id": host.id.to_string(), "name": host.name}))
        .collect();
    Ok(json!({ "hosts": shown }))
}

pub(super) async fn connections(call: &Calling<'_>) -> Answer {
    let listing = access::connections(call.app, call.caller, call.tool);
    let open = call.decided(listing).await?;
    let all = databases::list(call.app, call.caller.owner).await?;
    let project = call.arguments.text("project_id");
    let shown: Vec<Value> = open
        .into_iter()
        .filter_map(|connection| {
            let known = all
                .iter()
                .find(|known| known.id.to_string() == connection.resource.id())?;
            let wanted = project.is_none_or(|project| known.project.id.to_string() == project);
            wanted.then(|| {
                json!({
                    "id": connection.resource.id(),
                    "name": known.name,
                    "engine": known.engine.as_str(),
                    "read": connection.read,
                    "write": connection.write,
                })
            })
        })
        .collect();
    Ok(json!({ "connections": shown }))
}
