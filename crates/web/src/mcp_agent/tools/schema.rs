//! How each tool describes itself: arguments, results, what it charges, what it changes. Never says that a caller may call it.

use std::sync::{Arc, LazyLock};

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// What a tool does to the world, as its annotations say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Reads what muster keeps.
    Reads,
    /// Reads, at another service.
    ReadsElsewhere,
    /// Adds.
    Adds,
    /// Adds, at another service.
    AddsElsewhere,
    /// Changes what is there; doing it again changes nothing more.
    Sets,
    /// May take away what is there, and cannot be taken back by the agent.
    Destroys,
    /// The same, at another service; doing it again may do more.
    DestroysElsewhere,
}

impl Does {
    fn annotations(self) -> ToolAnnotations {
        let reads = matches!(self, Self::Reads | Self::ReadsElsewhere);
        let destroys = matches!(self, Self::Destroys | Self::DestroysElsewhere);
        let again = reads || matches!(self, Self::Sets | Self::Destroys);
        let elsewhere = matches!(
            self,
            Self::ReadsElsewhere | Self::AddsElsewhere | Self::DestroysElsewhere
        );
        ToolAnnotations::from_raw(None, Some(reads), Some(destroys), Some(again), Some(elsewhere))
    }
}

pub(super) fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(map) => Arc::new(map),
        _ => Arc::new(JsonObject::new()),
    }
}

/// The shape of results: the answer, or an error. Clients hold refusals against it too.
pub(super) fn output(properties: Value, required: &[&str]) -> Arc<JsonObject> {
    let mut properties = properties;
    if let Some(properties) = properties.as_object_mut() {
        properties.insert("error".to_owned(), error());
    }
    object(json!({
        "type": "object",
        "properties": properties,
        "anyOf": [{"required": required}, {"required": ["error"]}],
    }))
}

fn error() -> Value {
    json!({
        "type": "object",
        "description": "Why nothing was done: for a refusal each pair of an action and a resource, with what was found and the layer that decided.",
        "properties": {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "pairs": {"type": "array", "items": {"type": "object"}},
            "ask_id": {"type": "string"},
            "engine_code": {"type": "string"},
            "verdict": {"type": "string"}
        },
        "required": ["code", "message"]
    })
}

fn id(what: &str) -> Value {
    json!({"type": "string", "description": format!("The id of the {what}, not its name.")})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn one_of(words: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": words, "description": description})
}

/// A resource, or whatever else is shown by its id.
fn listed(fields: &[&str]) -> Value {
    let properties: JsonObject = fields
        .iter()
        .map(|field| ((*field).to_owned(), json!({"type": "string"})))
        .collect();
    json!({"type": "array", "items": {"type": "object", "properties": properties, "required": fields}})
}

fn task() -> Value {
    json!({
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "title": {"type": "string"},
            "body": {"type": ["string", "null"]},
            "status": {"type": "string"},
            "project": {"type": "object", "properties": {"kind": {"const": "project"}, "id": {"type": "string"}, "name": {"type": "string"}}},
            "worktree": {
                "type": "object",
                "description": "Only while you may read it.",
                "properties": {"path": {"type": "string"}, "branch": {"type": "string"}}
            }
        },
        "required": ["id", "title", "body", "status", "project"]
    })
}

struct Shape {
    name: &'static str,
    title: &'static str,
    does: Does,
    description: &'static str,
    input: Value,
    required: &'static [&'static str],
    output: (Value, &'static [&'static str]),
}

impl Shape {
    fn tool(self) -> Tool {
        let input = json!({
            "type": "object",
            "properties": self.input,
            "required": self.required,
            "additionalProperties": false,
        });
        let mut tool = Tool::new_with_raw(self.name, Some(self.description.into()), object(input));
        tool.output_schema = Some(output(self.output.0, self.output.1));
        tool.title = Some(self.title.to_owned());
        tool.annotations = Some(self.does.annotations());
        tool
    }
}

/// Every tool of agents', in the order in which it is listed.
pub(super) static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let mut shapes = about_yourself();
    shapes.extend(about_tasks());
    shapes.extend(about_forges());
    shapes.extend(about_databases());
    shapes.into_iter().map(Shape::tool).collect()
});

fn about_yourself() -> Vec<Shape> {
    vec![
        Shape {
            name: "muster_whoami",
            title: "Who am I",
            does: Does::Reads,
            description: "Tells your task, the policy that governs you and everything it leaves you, with the effect allow or ask. Charges nothing.",
            input: json!({}),
            required: &[],
            output: (
                json!({
                    "task": {"type": ["object", "null"]},
                    "policy": {"type": ["object", "null"]},
                    "unscoped": {"type": "boolean"},
                    "grants": {"type": "array", "items": {"type": "object"}}
                }),
                &["task", "policy", "unscoped", "grants"],
            ),
        },
        Shape {
            name: "muster_list_projects",
            title: "List projects",
            does: Does::Reads,
            description: "Lists the projects that you may read. Charges projects_read on each project by itself; what is refused is left out.",
            input: json!({}),
            required: &[],
            output: (json!({"projects": listed(&["id", "name"])}), &["projects"]),
        },
        Shape {
            name: "muster_list_hosts",
            title: "List hosts",
            does: Does::Reads,
            description: "Lists the machines that agents may run on, as far as you may see them. Charges hosts_read on each host by itself; what is refused is left out.",
            input: json!({}),
            required: &[],
            output: (json!({"hosts": listed(&["id", "name"])}), &["hosts"]),
        },
        Shape {
            name: "muster_list_db_connections",
            title: "List database connections",
            does: Does::Reads,
            description: "Lists the database connections that you can reach, each with its engine and with whether reads and writes are allowed, ask or are refused. \
                          Charges db_read on each db_connection by itself; one whose db_read is refused is left out.",
            input: json!({"project_id": id("project whose connections to list; all of them unless given")}),
            required: &[],
            output: (
                json!({"connections": listed(&["id", "name", "engine", "read", "write"])}),
                &["connections"],
            ),
        },
    ]
}

fn about_tasks() -> Vec<Shape> {
    let task_id = || id("task");
    vec![
        Shape {
            name: "muster_list_tasks",
            title: "List tasks",
            does: Does::Reads,
            description: "Lists the tasks of a project, oldest first, closed ones too. Charges projects_read on the project.",
            input: json!({
                "project_id": id("project"),
                "status": one_of(&["open", "in_progress", "ready_for_review", "closed"], "Only tasks with this status.")
            }),
            required: &["project_id"],
            output: (json!({"tasks": listed(&["id", "title", "status"])}), &["tasks"]),
        },
        Shape {
            name: "muster_get_task",
            title: "Read a task",
            does: Does::Reads,
            description: "Reads one task: title, text, status, project. Charges projects_read on the task's project. Path and branch of its worktree are shown only while worktree_read on it is allowed.",
            input: json!({"task_id": task_id()}),
            required: &["task_id"],
            output: (json!({"task": task()}), &["task"]),
        },
        Shape {
            name: "muster_create_task",
            title: "Create a task",
            does: Does::Adds,
            description: "Makes a task in a project. Charges tasks_write on the project. The new task gets the policy that the project gives to new tasks; only the owner chooses another.",
            input: json!({
                "project_id": id("project"),
                "title": {"type": "string", "minLength": 1, "maxLength": 300, "description": "One sentence."},
                "body": text("What is to be done, at most 256 KiB.")
            }),
            required: &["project_id", "title"],
            output: (json!({"task": task()}), &["task"]),
        },
        Shape {
            name: "muster_spawn_task",
            title: "Start an agent on a task",
            does: Does::Adds,
            description: "Queues a run of an agent on a task; the run has the task's policy, not yours. Charges tasks_write on the task's worktree, or on its project while it has none.",
            input: json!({
                "task_id": task_id(),
                "host_id": id("host to run on; any with room unless given"),
                "profile": text("The profile to run under, 1 to 80 characters."),
                "prompt": text("What the agent is told besides the task, at most 256 KiB.")
            }),
            required: &["task_id"],
            output: (
                json!({"run": {"type": "object", "properties": {"id": {"type": "string"}, "state": {"type": "string"}}, "required": ["id", "state"]}}),
                &["run"],
            ),
        },
        Shape {
            name: "muster_set_task_status",
            title: "Move a task's status",
            does: Does::Sets,
            description: "Moves an open task between the statuses open, in_progress and ready_for_review. Charges tasks_write on the task's worktree, or on its project while it has none. \
                          It never closes a task: muster_close_task does, which charges tasks_close.",
            input: json!({"task_id": task_id(), "status": text("open, in_progress or ready_for_review.")}),
            required: &["task_id", "status"],
            output: (json!({"task": task()}), &["task"]),
        },
        Shape {
            name: "muster_close_task",
            title: "Close a task",
            does: Does::Destroys,
            description: "Closes a task: its queued runs are cancelled and its waiting calls withdrawn. Only the owner opens it again. Charges tasks_close on the task's worktree, or on its project while it has none.",
            input: json!({"task_id": task_id(), "reason": text("Why, for the audit log, at most 4 KiB.")}),
            required: &["task_id"],
            output: (json!({"task": task()}), &["task"]),
        },
        Shape {
            name: "muster_get_worktree",
            title: "Find a task's worktree",
            does: Does::Reads,
            description: "Tells the folder and the branch of a task's git worktree, and what it was branched from. It makes none. Charges worktree_read on the worktree, or on the task's project while it has none.",
            input: json!({"task_id": task_id()}),
            required: &["task_id"],
            output: (
                json!({"worktree": {
                    "type": "object",
                    "properties": {"id": {"type": "string"}, "path": {"type": "string"}, "branch": {"type": "string"}, "base": {"type": "string"}},
                    "required": ["id", "path", "branch", "base"]
                }}),
                &["worktree"],
            ),
        },
        Shape {
            name: "muster_get_diff",
            title: "Read a task's diff",
            does: Does::Reads,
            description: "Reads what a task changed in its git worktree since it was branched: commits, uncommitted changes, new files. Text beyond 512 KiB is cut, and that is said. \
                          Charges diff_read on the worktree, or on the task's project while it has none.",
            input: json!({
                "task_id": task_id(),
                "path": text("Only this file, or what lies below this folder, relative to the worktree."),
                "stat": {"type": "boolean", "description": "Only the list of files, without the text."}
            }),
            required: &["task_id"],
            output: (
                json!({
                    "diff": {"type": "string"},
                    "files": {"type": "array", "items": {"type": "object"}},
                    "truncated": {"type": "boolean"}
                }),
                &["diff", "files", "truncated"],
            ),
        },
    ]
}

fn issue() -> Value {
    json!({
        "type": "object",
        "properties": {
            "key": {"type": "string"},
            "title": {"type": "string"},
            "state": {"type": "string"},
            "url": {"type": "string"},
            "body": {"type": "string"},
            "author": {"type": ["string", "null"]},
            "labels": {"type": "array", "items": {"type": "string"}},
            "comments": {"type": "integer"}
        },
        "required": ["key", "title", "state", "url"]
    })
}

fn about_forges() -> Vec<Shape> {
    let integration_id = || id("integration");
    let key = || text("The ticket, OWNER/NAME#NUMBER.");
    let repo = || text("The repository, OWNER/NAME; needed only where several projects use the integration.");
    let body = || text("The text, at most 60 KiB.");
    let title = || json!({"type": "string", "minLength": 1, "maxLength": 255, "description": "One line."});
    vec![
        Shape {
            name: "muster_open_pr",
            title: "Open a pull request",
            does: Does::AddsElsewhere,
            description: "Opens a pull request from a task's branch, which must stand on the forge's remote already; muster pushes nothing. Charges pr_write on the repo of the task's project.",
            input: json!({
                "task_id": id("task"),
                "title": title(),
                "body": body(),
                "base": text("The branch to merge into; what the task's branch was made from unless given."),
                "draft": {"type": "boolean", "description": "Open it as a draft."}
            }),
            required: &["task_id", "title"],
            output: (
                json!({"pull_request": {"type": "object", "properties": {"number": {"type": "integer"}, "url": {"type": "string"}}, "required": ["number", "url"]}}),
                &["pull_request"],
            ),
        },
        Shape {
            name: "muster_list_issues",
            title: "List tickets",
            does: Does::ReadsElsewhere,
            description: "Lists tickets of the repositories that projects have at an integration, the newest first, at most 200. Charges issues_read on the integration.",
            input: json!({
                "integration_id": integration_id(),
                "query": text("Plain words to look for, on one line, at most 200 characters."),
                "state": one_of(&["open", "closed", "all"], "In which state; open unless given."),
                "repo": text("Only this repository, OWNER/NAME.")
            }),
            required: &["integration_id"],
            output: (
                json!({"issues": {"type": "array", "items": issue()}, "truncated": {"type": "boolean"}}),
                &["issues"],
            ),
        },
        Shape {
            name: "muster_get_issue",
            title: "Read a ticket",
            does: Does::ReadsElsewhere,
            description: "Reads one ticket with its text, author and labels, all of which are outside text. Charges issues_read on the integration.",
            input: json!({"integration_id": integration_id(), "key": key()}),
            required: &["integration_id", "key"],
            output: (json!({"issue": issue()}), &["issue"]),
        },
        Shape {
            name: "muster_create_issue",
            title: "Create a ticket",
            does: Does::AddsElsewhere,
            description: "Creates a ticket in a repository of a project that uses the integration. Charges issues_write on the integration.",
            input: json!({"integration_id": integration_id(), "title": title(), "body": body(), "repo": repo()}),
            required: &["integration_id", "title"],
            output: (json!({"issue": issue()}), &["issue"]),
        },
        Shape {
            name: "muster_import_issue",
            title: "Make a ticket a task",
            does: Does::AddsElsewhere,
            description: "Makes a task of a ticket, once: a second import answers the task that is there. Charges issues_write on the integration alone; \
                          the task lands only in a project that you may read (projects_read), under the policy that project gives to new tasks.",
            input: json!({"integration_id": integration_id(), "key": key(), "project_id": id("project")}),
            required: &["integration_id", "key", "project_id"],
            output: (
                json!({"task": task(), "created": {"type": "boolean"}}),
                &["task", "created"],
            ),
        },
    ]
}

/// Rows of SQL, a reply of Redis or a document of MongoDB.
fn answer() -> (Value, &'static [&'static str]) {
    (
        json!({
            "columns": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "type": {"type": "string"}}}},
            "rows": {"type": "array", "items": {"type": "array"}},
            "truncated": {"type": "boolean"},
            "affected": {"type": "integer"},
            "reply": {},
            "document": {"type": "object"}
        }),
        // Each engine has its own form, and all of them say whether something was cut off.
        &["truncated"],
    )
}

const STATEMENT: &str =
    "One statement: SQL; a Redis command line quoted as in redis-cli; a MongoDB command as JSON text.";
const OBJECT: &str = "A table, view, collection or key: NAME or SCHEMA.NAME, a part in double quotes where it has a dot in it.";

fn about_databases() -> Vec<Shape> {
    let connection_id = || id("database connection");
    let cut = || json!({"type": "boolean", "description": "true where there are more than the limits allow; left out where this is all."});
    let limit = || json!({"type": "integer", "minimum": 1, "description": "Most rows; the owner's setting db.max_rows bounds it."});
    vec![
        Shape {
            name: "muster_db_schemas",
            title: "List schemas",
            does: Does::ReadsElsewhere,
            description: "Lists the schemas of a database. Charges db_read on the db_connection.",
            input: json!({"connection_id": connection_id()}),
            required: &["connection_id"],
            output: (
                json!({"schemas": listed(&["name"]), "truncated": cut()}),
                &["schemas"],
            ),
        },
        Shape {
            name: "muster_db_objects",
            title: "List tables and views",
            does: Does::ReadsElsewhere,
            description: "Lists tables, views and their like. Charges db_read on the db_connection.",
            input: json!({
                "connection_id": connection_id(),
                "schema": text("Only this schema; all but the engine's own unless given."),
                "kind": text("Only this kind, such as table or view.")
            }),
            required: &["connection_id"],
            output: (
                json!({"objects": {"type": "array", "items": {"type": "object", "properties": {"schema": {"type": ["string", "null"]}, "name": {"type": "string"}, "kind": {"type": "string"}}, "required": ["name", "kind"]}}, "truncated": cut()}),
                &["objects"],
            ),
        },
        Shape {
            name: "muster_db_describe",
            title: "Describe a table",
            does: Does::ReadsElsewhere,
            description: "Tells columns, types, keys and indexes of a table or view. Charges db_read on the db_connection.",
            input: json!({"connection_id": connection_id(), "object": text(OBJECT)}),
            required: &["connection_id", "object"],
            output: (
                json!({
                    "object": {"type": "object"},
                    "columns": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}, "type": {"type": "string"}, "nullable": {"type": "boolean"}}, "required": ["name", "type", "nullable"]}},
                    "keys": {"type": "array"},
                    "indexes": {"type": "array"}
                }),
                &["columns"],
            ),
        },
        Shape {
            name: "muster_db_preview",
            title: "Show first rows",
            does: Does::ReadsElsewhere,
            description: "Shows the first rows of a table or view, 20 unless limit says otherwise, in a mode in which nothing can be written. Charges db_read on the db_connection.",
            input: json!({"connection_id": connection_id(), "object": text(OBJECT), "limit": limit()}),
            required: &["connection_id", "object"],
            output: answer(),
        },
        Shape {
            name: "muster_db_explain",
            title: "Explain a statement",
            does: Does::ReadsElsewhere,
            description: "Tells how the engine would run a statement, without running a write. Charges db_read on the db_connection.",
            input: json!({"connection_id": connection_id(), "statement": text(STATEMENT)}),
            required: &["connection_id", "statement"],
            output: (json!({"plan": {}}), &["plan"]),
        },
        Shape {
            name: "muster_db_query",
            title: "Read from a database",
            does: Does::ReadsElsewhere,
            description: "Runs one statement that only reads, in a mode in which nothing can be written. A statement that is not known to read is refused: muster_db_execute runs those that write. Charges db_read on the db_connection.",
            input: json!({"connection_id": connection_id(), "statement": text(STATEMENT), "limit": limit()}),
            required: &["connection_id", "statement"],
            output: answer(),
        },
        Shape {
            name: "muster_db_execute",
            title: "Write to a database",
            does: Does::DestroysElsewhere,
            description: "Runs one statement that may change data or schema; the only way to write. The call must say write: true. Charges db_read and db_write on the db_connection.",
            input: json!({
                "connection_id": connection_id(),
                "statement": text(STATEMENT),
                "write": {"type": "boolean", "description": "true, to say that a write is meant."}
            }),
            required: &["connection_id", "statement", "write"],
            output: answer(),
        },
    ]
}
