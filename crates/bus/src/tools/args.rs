//! What each tool takes, by the names of the text. Never decides more than the shape.

use schemars::JsonSchema;
use serde::Deserialize;

/// Where to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum From {
    Inbox,
    Room,
    Status,
}

/// `false`, or how to attach.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Attach {
    /// false: no transport. true: as if omitted.
    Whether(bool),
    How(AttachHow),
}

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AttachHow {
    /// Pane, such as w3:p1. Default: the pane this server runs in.
    pub(super) tmux_target: Option<String>,
    /// Push joined channels too (default true).
    pub(super) include_room: Option<bool>,
    /// Only these agents' messages are pushed.
    pub(super) allowlist: Option<Vec<String>>,
    /// Bursts within this time become one paste (default 1000).
    pub(super) debounce_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Join {
    /// Your id: a short stable slug, such as the project folder's name.
    pub(super) agent_id: String,
    pub(super) project: Option<String>,
    pub(super) role: Option<String>,
    /// Omit: attach if a pane can be identified. false: do not. Object: how.
    pub(super) attach: Option<Attach>,
    /// Return and mark read what is in your inbox (default true).
    pub(super) read_inbox: Option<bool>,
    /// Your bearer token, to claim an id that is live elsewhere.
    pub(super) token: Option<String>,
    /// Claim an id that is live elsewhere; recorded.
    pub(super) force: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Register {
    /// Your id.
    pub(super) agent_id: String,
    pub(super) project: Option<String>,
    pub(super) role: Option<String>,
    /// Your bearer token, to claim an id that is live elsewhere.
    pub(super) token: Option<String>,
    /// Claim an id that is live elsewhere; recorded.
    pub(super) force: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Own {
    /// Your id.
    pub(super) agent_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct About {
    /// Whose.
    pub(super) agent_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Ping {
    /// Whose seat to look at; without it only the server answers.
    pub(super) to: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReadPane {
    /// Your id.
    pub(super) agent_id: String,
    /// Whose pane.
    pub(super) target_agent_id: String,
    /// Lines from the bottom, 1 to 2000 (default 200).
    #[schemars(range(min = 1, max = 2000))]
    pub(super) lines: Option<u32>,
    /// Keep ANSI styling (default false).
    pub(super) colors: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SendMessage {
    /// Your id.
    pub(super) from: String,
    /// An agent: a direct message. Wins over room.
    pub(super) to: Option<String>,
    /// A channel, with or without #; made if new. Default general.
    pub(super) room: Option<String>,
    /// At most 256 KiB.
    pub(super) text: String,
    /// Channel posts only: decision is kept longer and quoted in digests. Absent: chatter.
    pub(super) kind: Option<crate::Kind>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SendCommand {
    /// Your id.
    pub(super) from: String,
    /// One agent.
    pub(super) to: Option<String>,
    /// Or every attached member of a channel but you.
    pub(super) room: Option<String>,
    /// /clear, /compact or /reload-skills.
    pub(super) command: String,
    /// Delay of the identity reminder after /clear (default 3000, 0 none, at most 60000).
    #[schemars(range(max = 60000))]
    pub(super) reminder_ms: Option<u64>,
    /// The reminder's text.
    pub(super) reminder_text: Option<String>,
    /// Wait for the delivery receipt (default true).
    pub(super) wait_for_delivery: Option<bool>,
    /// How long (default 8000).
    #[schemars(range(min = 1, max = 60000))]
    pub(super) delivery_timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReadMessages {
    /// Your id.
    pub(super) agent_id: String,
    pub(super) source: From,
    /// For source room: the channel (default general).
    pub(super) room: Option<String>,
    /// Most messages to return, 1 to 500. Default: room and status the newest 50, inbox all.
    #[schemars(range(min = 1, max = 500))]
    pub(super) limit: Option<usize>,
    /// Leave them unread.
    pub(super) peek: Option<bool>,
    /// Only newer ones, in ms since 1970. What is older and unread stays unread, and so does what follows it. With peek also what was read already.
    pub(super) since_ts: Option<i64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Retrieve {
    /// Your id.
    pub(super) agent_id: String,
    /// From the history of a read.
    pub(super) hash: String,
    /// Only messages that contain this, whatever the case.
    pub(super) query: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PostStatus {
    /// Your id.
    pub(super) agent_id: String,
    pub(super) status: String,
    pub(super) detail: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Wait {
    /// Your id.
    pub(super) agent_id: String,
    pub(super) source: From,
    /// For source room: the channel (default general).
    pub(super) room: Option<String>,
    /// At most 60000 (default 30000); more counts as 60000.
    pub(super) timeout_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct InRoom {
    /// Your id.
    pub(super) agent_id: String,
    /// With or without #.
    pub(super) room: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Topic {
    /// Your id.
    pub(super) agent_id: String,
    pub(super) room: String,
    pub(super) topic: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Motd {
    /// Your id.
    pub(super) agent_id: String,
    pub(super) room: String,
    /// The channel's rules, shown to whoever joins.
    pub(super) motd: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Rename {
    /// Your id.
    pub(super) agent_id: String,
    pub(super) new_agent_id: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AttachAgent {
    /// Your id.
    pub(super) agent_id: String,
    /// Pane, such as w3:p1. Default: the pane this server runs in.
    pub(super) tmux_target: Option<String>,
    /// Push joined channels too (default true).
    pub(super) include_room: Option<bool>,
    /// Only these agents' messages are pushed.
    pub(super) allowlist: Option<Vec<String>>,
    /// Bursts within this time become one paste (default 1000).
    pub(super) debounce_ms: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Report {
    /// Your id.
    pub(super) agent_id: String,
    /// herdr or tmux-push-remote.
    pub(super) transport: String,
    /// The machine the pane is on.
    pub(super) host: Option<String>,
    pub(super) tmux_target: Option<String>,
    /// The socket of the tmux server that has the pane. Only pushers say it.
    #[schemars(skip)]
    pub(super) tmux_socket: Option<String>,
    /// Since when, in ms since 1970 (default now).
    pub(super) since: Option<i64>,
    /// The pusher's build. Only pushers say it, so it stands in no agent's context.
    #[schemars(skip)]
    pub(super) build: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Clear {
    /// Your id.
    pub(super) agent_id: String,
    /// Only if this is the pane that the marker names. Only pushers say it.
    #[schemars(skip)]
    pub(super) tmux_target: Option<String>,
    /// And only if it is of the tmux server behind this socket. Only pushers say it.
    #[schemars(skip)]
    pub(super) tmux_socket: Option<String>,
    /// Only the lease of this pusher. Only pushers say it.
    #[schemars(skip)]
    pub(super) holder: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PendingMessages {
    /// Your id.
    pub(super) agent_id: String,
    /// A name of this pusher that no other one has: it delivers alone as long as it asks.
    pub(super) holder: String,
    /// Joined channels, too (default true).
    pub(super) include_room: Option<bool>,
    /// How long to wait for something new (default 0, at most 60000).
    pub(super) wait_ms: Option<u64>,
    /// The last answer's `seen`: what it had is known.
    pub(super) seen: Option<String>,
    /// How the push stands, when that changed.
    #[schemars(skip)]
    pub(super) standing: Option<crate::push::Standing>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AckMessages {
    /// Your id.
    pub(super) agent_id: String,
    /// inbox or room.
    pub(super) source: From,
    /// For source room: the channel (default general).
    pub(super) room: Option<String>,
    /// The last entry that was delivered: its id.
    pub(super) up_to: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ReportReceipt {
    /// Your id.
    pub(super) agent_id: String,
    /// The message's id.
    pub(super) id: String,
    /// Who sent it.
    pub(super) from: String,
    /// It was a command.
    #[serde(default)]
    pub(super) control: bool,
    /// It was typed and sent off; absent when that is not known.
    pub(super) submitted: Option<bool>,
    /// It was seen to be taken.
    pub(super) verified: Option<bool>,
    /// Which way it went.
    pub(super) door: Option<String>,
    /// Why it was not typed, or what is not known.
    pub(super) reason: Option<String>,
    /// The pusher's build.
    pub(super) build: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Prune {
    /// Default 7.
    pub(super) older_than_days: Option<f64>,
    /// For kind decision (default 30).
    pub(super) decision_days: Option<f64>,
    /// Only this channel.
    pub(super) room: Option<String>,
    /// Of rooms, status, inbox, receipts, members (default all).
    pub(super) targets: Option<Vec<String>>,
    /// Default true.
    pub(super) archive_empty_rooms: Option<bool>,
    /// Default true: the inbox of an agent that is not registered moves whole, once nothing in it is younger than olderThanDays.
    pub(super) remove_orphan_inboxes: Option<bool>,
    /// Only say what would move.
    pub(super) dry_run: Option<bool>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Scopes {
    pub(super) path: Option<String>,
    /// Who wants to write it.
    pub(super) agent_id: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ImportWork {
    pub(super) project: String,
    /// The folder that holds docs/.
    pub(super) repo: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ListWork {
    pub(super) project: String,
    pub(super) kind: Option<crate::work::Kind>,
    pub(super) priority: Option<String>,
    /// Default false.
    pub(super) include_done: Option<bool>,
    /// The folder that holds docs/, when nothing was imported.
    pub(super) repo: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExportWork {
    pub(super) project: String,
    /// Rewrite the files (default false: only show).
    pub(super) write: Option<bool>,
    pub(super) repo: Option<String>,
    /// Who writes, for the note on scopes.
    pub(super) agent_id: Option<String>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Doctor {
    /// Apply the safe, reversible repairs.
    pub(super) fix: Option<bool>,
    /// Files over this are a finding.
    pub(super) max_file_bytes: Option<u64>,
}
