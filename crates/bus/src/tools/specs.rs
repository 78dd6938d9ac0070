//! The list of tools: name, description, arguments, and what carries each out. Never a tool that is not here.

use schemars::{JsonSchema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{Answer, Call, Called, args, command, keeping, panes, pushing, read, seats, talking};

/// A tool as it is listed.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Its name.
    pub name: &'static str,
    /// What it does, for a model.
    pub description: &'static str,
    /// JSON schema of its arguments.
    pub schema: Map<String, Value>,
    /// It changes nothing but its caller's own cursor.
    pub reads: bool,
    /// It may take something away.
    pub destroys: bool,
}

struct Entry {
    name: &'static str,
    description: &'static str,
    effect: Effect,
    schema: fn() -> Map<String, Value>,
    act: fn(&Call<'_>, Map<String, Value>) -> Called,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Writes,
    Destroys,
}

use Effect::{Destroys, Reads, Writes};

macro_rules! tools {
    ($($name:literal $effect:ident $args:path => $act:path, $description:literal;)*) => {
        &[$(Entry {
            name: $name,
            description: $description,
            effect: $effect,
            schema: schema::<$args>,
            act: |call, arguments| run::<$args, _>(call, arguments, $act),
        }),*]
    };
}

static TOOLS: &[Entry] = tools! {
    "join" Writes args::Join => seats::join, "Start of a session: register, attach to your pane if it can be identified, and read your inbox, in one call.";
    "register" Writes args::Register => seats::register, "Only the registry entry; join does more.";
    "unregister" Writes args::Own => seats::unregister, "End of a session: detach and leave the registry. Your messages stay.";
    "status" Reads args::About => seats::status, "Whether an agent is registered and attached, and how much of its inbox is unread.";
    "heartbeat" Writes args::Own => seats::heartbeat, "Say that you are there. Attached agents need not.";
    "list_agents" Writes args::Nothing => seats::list_agents, "Everybody registered: online or not, and by which transport attached. Drops who was silent for 24 hours.";
    "send_message" Writes args::SendMessage => talking::send_message, "A direct message (to) or a channel post (room, default general).";
    "read_messages" Writes args::ReadMessages => talking::read_messages, "What is new in your inbox, a channel or the status stream; marks it read unless peek. A long channel comes as its newest messages and a digest of the rest.";
    "retrieve_room_history" Reads args::Retrieve => talking::retrieve_room_history, "The messages behind a digest, for 30 minutes.";
    "wait_for_message" Writes args::Wait => talking::wait, "Block until something new comes, then return it and mark it read. Unread messages return at once.";
    "post_status" Writes args::PostStatus => talking::post_status, "Append to the status stream, apart from chat.";
    "list_rooms" Reads args::Nothing => talking::list_rooms, "All channels: topic, rules, members, messages, last activity.";
    "join_room" Writes args::InRoom => talking::join_room, "Join a channel; made if new. The first read shows its newest 50 messages and a digest of the rest.";
    "leave_room" Writes args::InRoom => talking::leave_room, "Leave a channel (not general).";
    "set_room_topic" Writes args::Topic => talking::set_room_topic, "Set a channel's topic; posts a notice.";
    "set_room_motd" Writes args::Motd => talking::set_room_motd, "Set a channel's rules; posts a notice.";
    "rename_agent" Writes args::Rename => seats::rename_agent, "Take another id: registry, inbox, cursors, transport, channels and token move along.";
    "attach_agent" Writes args::AttachAgent => panes::attach_agent, "Have messages pushed into your pane.";
    "detach_agent" Writes args::Own => panes::detach_agent, "Stop the push into your pane.";
    "report_transport" Writes args::Report => panes::report_transport, "For a remote pusher: say that this agent is attached.";
    "clear_transport" Writes args::Clear => panes::clear_transport, "For a remote pusher: take that back.";
    "read_pane" Reads args::ReadPane => panes::read_pane, "What another seat's pane shows: state read with the screen, or state unknown with the reason.";
    "send_command" Writes args::SendCommand => command::send_command, "Run /clear, /compact or /reload-skills in an attached agent's own program.";
    "prune" Destroys args::Prune => keeping::prune, "Move aged entries to the archive (receipts are deleted) and sweep members who are gone.";
    "doctor" Destroys args::Doctor => keeping::doctor, "Check the whole directory; fix applies the safe, reversible repairs.";
    "list_scopes" Reads args::Scopes => keeping::list_scopes, "Who owns which shared document. With path and agentId: may this agent write it? Advisory.";
    "import_work" Writes args::ImportWork => keeping::import_work, "Read a project's docs/QUEUE.md, DONE.md and WORKSTREAMS.md into records.";
    "list_work" Reads args::ListWork => keeping::list_work, "A project's work as records; read from the documents when nothing was imported.";
    "export_work" Destroys args::ExportWork => keeping::export_work, "Show the documents as the records give them; write rewrites the files.";
    "capabilities" Reads args::Nothing => panes::capabilities, "Which build answers, how the directory is shared, and which transport is configured and really runs.";
    "ping" Reads args::Ping => seats::ping, "Whether this server, or an agent's seat, is there.";
};

/// Tools that pushers call and no agent needs: they are served and not listed, because every listed byte stands in every agent's context.
static UNLISTED: &[Entry] = tools! {
    "pending_messages" Reads args::PendingMessages => pushing::pending_messages, "For a pusher: what is unread, without marking it read. Waits for something new.";
    "ack_messages" Writes args::AckMessages => pushing::ack_messages, "For a pusher: mark as read what was delivered.";
    "report_receipt" Writes args::ReportReceipt => pushing::report_receipt, "For a pusher: say what became of a command.";
};

fn find(name: &str) -> Option<&'static Entry> {
    TOOLS.iter().chain(UNLISTED).find(|entry| entry.name == name)
}

/// Every tool, as it is listed.
pub fn all() -> Vec<Spec> {
    TOOLS
        .iter()
        .map(|entry| Spec {
            name: entry.name,
            description: entry.description,
            schema: (entry.schema)(),
            reads: entry.effect == Reads,
            destroys: entry.effect == Destroys,
        })
        .collect()
}

/// The names of all tools.
pub(super) fn names() -> Vec<&'static str> {
    TOOLS.iter().map(|entry| entry.name).collect()
}

/// Whether there is a tool of this name, listed or not.
pub fn exists(name: &str) -> bool {
    find(name).is_some()
}

/// Carries a call out.
pub(super) fn act(call: &Call<'_>, name: &str, arguments: Map<String, Value>) -> Called {
    match find(name) {
        Some(entry) => (entry.act)(call, arguments),
        None => Called::Done(Answer::not_ok(
            "there is no tool of this name".to_owned(),
            "unknown_tool",
            true,
        )),
    }
}

fn run<T: DeserializeOwned, R: Into<Called>>(
    call: &Call<'_>,
    arguments: Map<String, Value>,
    act: fn(&Call<'_>, T) -> R,
) -> Called {
    match read(arguments) {
        Ok(args) => act(call, args).into(),
        Err(answer) => Called::Done(answer),
    }
}

/// A schema without what no client needs: every byte of it stands in every agent's context.
fn schema<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = schemars::generate::SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    let mut value = schema.to_value();
    strip(&mut value);
    match value {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.remove("title");
            // A number's width is this program's affair; its range says what is accepted.
            if map.get("type").is_some_and(|kind| kind != "object") {
                map.remove("format");
            }
            optional(map);
            map.values_mut().for_each(strip);
        }
        Value::Array(values) => values.iter_mut().for_each(strip),
        _ => {}
    }
}

/// What may be left out need not be allowed as null besides.
fn optional(map: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = map.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            map.insert("type".to_owned(), kind);
        }
    }
    if let Some(Value::Array(kinds)) = map.get_mut("anyOf") {
        kinds.retain(|kind| kind.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = kinds.as_slice() {
            let only = only.clone();
            map.remove("anyOf");
            for (name, value) in only {
                map.entry(name).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}
