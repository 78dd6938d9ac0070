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
    /// The same, at another service.
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
    ]
}
