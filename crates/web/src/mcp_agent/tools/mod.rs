//! The tools of MCP server `muster`, the same behind every door: what each takes, charges and answers. Never touches a resource before the permit of the call.
//!
//! A call goes this way: its arguments are held against the schema; what it names is looked up; `access::decide` gives the permit or the
//! refusal; only then the effect. An id that does not exist is charged as a call that names nothing, like one that is missing.

mod answer;
mod arguments;
mod call;
mod databases;
mod diffs;
mod forges;
mod lists;
mod packages;
mod reply_draft;
mod schema;
mod tasks;

use muster_app::App;
use muster_app::accounts::AgentCaller;
use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject, Tool};

use answer::{Done, Failed};
use arguments::Arguments;
use call::Calling;
pub(super) use call::Client;
pub(crate) use databases::Databases;

/// The tools that are listed to this caller: all that agents have, whatever its policy leaves it, and the chief's besides. Being listed grants
/// nothing.
pub(super) fn offered(app: &App, caller: &AgentCaller) -> Vec<Tool> {
    let draft = (app.settings.plugins && caller.chief.is_some()).then(reply_draft::tool);
    draft.into_iter().chain(schema::TOOLS.iter().cloned()).collect()
}

/// Calls a tool by name. A refusal is a result the model can read; only an unknown name is a protocol error.
pub(super) async fn call(
    app: &App,
    databases: &Databases,
    caller: &AgentCaller,
    name: &str,
    arguments: JsonObject,
    client: &Client,
) -> Result<CallToolResult, ErrorData> {
    if name == reply_draft::NAME {
        return Ok(reply_draft::call(app, caller, &arguments).await);
    }
    let Some(tool) = schema::TOOLS.iter().find(|tool| tool.name == name) else {
        return Err(ErrorData::invalid_params(
            "there is no tool of this name; tools/list names them all",
            None,
        ));
    };
    let answered = match Arguments::check(&tool.input_schema, arguments) {
        Ok(arguments) => {
            let calling = Calling {
                app,
                caller,
                tool: &tool.name,
                arguments,
                client,
                databases,
            };
            answer(&calling).await
        }
        Err(failed) => Err(failed),
    };
    Ok(match answered {
        Ok(done) => {
            let mut result = done.result();
            if name == "muster_whoami" {
                // Beside the object, which is what policies grant: other rules decide about these.
                let outlook = packages::outlook(app, caller).await;
                result.content.extend(outlook.map(ContentBlock::text));
            }
            result
        }
        Err(failed) => CallToolResult::structured_error(failed.into_value()),
    })
}

/// The answer to a call that was given up.
pub(super) fn withdrawn() -> CallToolResult {
    CallToolResult::structured_error(Failed::withdrawn().into_value())
}

/// The answer to a call that was at the server when its session was ended.
pub(super) fn given_up() -> CallToolResult {
    let failed = Failed::new(
        "withdrawn",
        "Given up: this session was ended while the call was at the server. If it waited for your owner, it waits no longer and nothing was done; if it ran already, it may be done or not. Look before you call again.",
    );
    CallToolResult::structured_error(failed.into_value())
}

/// The answer to a call whose server went away under it.
pub(super) fn unknown() -> CallToolResult {
    let failed = Failed::new(
        "refused_error",
        "muster ended while this call was under way, so it is not known whether it was done. Look before you call again.",
    );
    CallToolResult::structured_error(failed.into_value())
}

async fn answer(call: &Calling<'_>) -> Result<Done, Failed> {
    let shown = match call.tool {
        "muster_db_preview" => return databases::preview(call).await,
        "muster_db_explain" => return databases::explain(call).await,
        "muster_db_query" => return databases::query(call).await,
        "muster_db_execute" => return databases::execute(call).await,
        "muster_whoami" => lists::whoami(call).await,
        "muster_list_projects" => lists::projects(call).await,
        "muster_list_hosts" => lists::hosts(call).await,
        "muster_list_db_connections" => lists::connections(call).await,
        "muster_list_tasks" => tasks::list(call).await,
        "muster_get_task" => tasks::get(call).await,
        "muster_create_task" => tasks::create(call).await,
        "muster_spawn_task" => tasks::spawn(call).await,
        "muster_set_task_status" => tasks::set_status(call).await,
        "muster_close_task" => tasks::close(call).await,
        "muster_get_worktree" => tasks::worktree(call).await,
        "muster_get_diff" => diffs::diff(call).await,
        "muster_open_pr" => forges::open_pr(call).await,
        "muster_list_issues" => forges::list_issues(call).await,
        "muster_get_issue" => forges::get_issue(call).await,
        "muster_create_issue" => forges::create_issue(call).await,
        "muster_import_issue" => forges::import_issue(call).await,
        "muster_db_schemas" => databases::schemas(call).await,
        "muster_db_objects" => databases::objects(call).await,
        "muster_db_describe" => databases::describe(call).await,
        // A tool that is listed and cannot be called: a test calls each.
        _ => Err(Failed::new(
            "refused_error",
            "the tool is listed and not there; nothing was done",
        )),
    };
    shown.map(Done::Shown)
}
