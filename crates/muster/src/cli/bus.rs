//! The coordination bus as the command line spells it: the bus itself, who sits there, how a machine is set up for it. Never does anything.

use clap::{Args, Subcommand, ValueEnum};

/// `muster chat`.
#[derive(Debug, Args)]
pub(crate) struct Chat {
    /// Who you are there; your user name unless given
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// The bus's directory (AGENT_COORD_DIR; default ~/agent-coord)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<std::path::PathBuf>,
    /// Line by line, for screen readers, where a full screen could be. In a pipe it always is
    #[arg(long)]
    pub(crate) plain: bool,
    /// Only check the bus's directory; exit code 1 when something is broken
    #[arg(long)]
    pub(crate) doctor: bool,
    /// With --doctor: apply the safe, reversible repairs
    #[arg(long, requires = "doctor")]
    pub(crate) fix: bool,
}

/// `muster init`.
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The bus's directory (AGENT_COORD_DIR; default ~/agent-coord)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<std::path::PathBuf>,
    /// native: only muster writes there; shared: the Node program may run beside it. Default: what is found
    #[arg(long)]
    pub(crate) mode: Option<BusMode>,
    /// How agents of this machine are reached. Default: herdr inside herdr, else tmux-push-remote
    #[arg(long)]
    pub(crate) transport: Option<BusTransport>,
    /// Put the bus into this client's own settings too, after showing the change
    #[arg(long)]
    pub(crate) client: Option<AgentClient>,
    /// The agent that the client's sessions are; Claude Code gets its two hooks as well
    #[arg(long, value_name = "AGENT", requires = "client")]
    pub(crate) id: Option<String>,
    /// Write the settings of this project instead of the user's: an id belongs to one project
    #[arg(long, value_name = "DIR", requires = "client")]
    pub(crate) project: Option<std::path::PathBuf>,
    /// Write the client's settings without asking
    #[arg(long, requires = "client")]
    pub(crate) yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentClient {
    Claude,
    Codex,
    Gemini,
}

impl AgentClient {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BusMode {
    Native,
    Shared,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum BusTransport {
    Herdr,
    TmuxPushRemote,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Bus {
    /// Serve the bus to an agent: MCP on standard input and output, or over HTTP when AGENT_COORD_HTTP_PORT is set
    #[command(
        after_help = "Example: claude mcp add --scope user agent-coord -- muster bus serve\nExample: AGENT_COORD_HTTP_PORT=8765 muster bus serve"
    )]
    Serve(BusServe),
    /// Tokens of agents that come over HTTP
    #[command(after_help = "Example: muster bus token add worker-2")]
    Token {
        /// The bus's directory (AGENT_COORD_DIR; default ~/agent-coord)
        #[arg(long, global = true, value_name = "DIR")]
        dir: Option<std::path::PathBuf>,
        #[command(subcommand)]
        command: BusToken,
    },
    /// For the hooks of an agent's client: print what is new for the agent AGENT_COORD_ID, and mark it as read
    #[command(
        after_help = "Example: AGENT_COORD_ID=frontend muster bus peek --mode=stop\nAGENT_COORD_INCLUDE_ROOM=1 prints the channels too. It never fails a turn: whatever goes wrong is said on standard error."
    )]
    Peek(BusPeek),
    /// Check the bus's directory; exit 0 when it is consistent, warnings or not, 1 when an error is left
    #[command(after_help = "Example: muster bus doctor --fix")]
    Doctor(BusDoctor),
    /// Type what an agent has unread into its tmux pane
    #[command(
        after_help = "Example: AGENT_COORD_TOKEN=tk_… muster bus pusher --server http://host:8765/mcp --agent me --tmux %3\nExample: muster bus pusher --local --agent me --tmux %3"
    )]
    Pusher(BusPusher),
    /// Start an agent in tmux with a pusher beside it, and end both
    #[command(
        args_conflicts_with_subcommands = true,
        after_help = "Example: AGENT_COORD_TOKEN=tk_… muster bus node --server https://bus:8765/mcp --id worker-2 --cmd claude"
    )]
    Node(BusNode),
    /// Whether this machine's transport runs and every attached agent uses it; exit 0 agrees, 1 not
    #[command(after_help = "Example: muster bus check --json")]
    Check {
        /// The bus's directory (AGENT_COORD_DIR; default ~/agent-coord)
        #[arg(long, value_name = "DIR")]
        dir: Option<std::path::PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct BusServe {
    /// The bus's directory (AGENT_COORD_DIR; default ~/agent-coord)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BusPeek {
    /// user-prompt: plain text. stop: what keeps the agent going, if there is something new
    #[arg(long, default_value = "user-prompt")]
    pub(crate) mode: PeekMode,
    /// The bus's directory (AGENT_COORD_DIR; default ~/agent-coord)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<std::path::PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PeekMode {
    UserPrompt,
    Stop,
}

#[derive(Debug, Args)]
pub(crate) struct BusDoctor {
    /// The bus's directory (AGENT_COORD_DIR; default ~/agent-coord)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<std::path::PathBuf>,
    /// Apply the safe, reversible repairs
    #[arg(long)]
    pub(crate) fix: bool,
    /// Files over this many bytes are a finding
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_file_bytes: Option<u64>,
}

/// What both a pusher and a node that starts one are told.
#[derive(Debug, Args)]
pub(crate) struct BusPush {
    /// Only direct messages, no channel posts
    #[arg(long)]
    pub(crate) no_room: bool,
    /// Only messages of these agents are typed
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    pub(crate) allowlist: Option<Vec<String>>,
    /// What comes within this time is typed as one [default: 1000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pub(crate) debounce_ms: Option<u64>,
    /// How often the channels it joined are looked at again [default: 30000]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=3_600_000))]
    pub(crate) refresh_ms: Option<u64>,
    /// Deliver although a session is live as this agent: under a token that all share nothing else tells its pusher from a stranger
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BusPusher {
    /// The bus (AGENT_COORD_SERVER)
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The agent's token; better given by AGENT_COORD_TOKEN, because others of this machine can read command lines
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// The agent's id (AGENT_COORD_ID)
    #[arg(long, value_name = "ID")]
    pub(crate) agent: Option<String>,
    /// The pane it runs in (AGENT_COORD_TMUX_TARGET)
    #[arg(long, value_name = "PANE")]
    pub(crate) tmux: Option<String>,
    #[command(flatten)]
    pub(crate) push: BusPush,
    /// Without a server: the bus's directory on this machine
    #[arg(long, conflicts_with_all = ["server", "token"])]
    pub(crate) local: bool,
    /// With --local: the bus's directory (AGENT_COORD_DIR; default ~/agent-coord)
    #[arg(long, value_name = "DIR", requires = "local")]
    pub(crate) dir: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BusNode {
    #[command(flatten)]
    pub(crate) up: BusNodeUp,
    #[command(subcommand)]
    pub(crate) command: Option<BusNodeCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BusNodeCommand {
    /// Start the agent in the tmux session coord-ID, and its pusher
    #[command(
        after_help = "Example: AGENT_COORD_TOKEN=tk_… muster bus node up --server https://bus:8765/mcp --id worker-2 --cmd claude"
    )]
    Up(BusNodeUp),
    /// End the pusher and the session, and take the marker away
    #[command(after_help = "Example: muster bus node down --id worker-2")]
    Down(BusNodeDown),
}

#[derive(Debug, Args)]
pub(crate) struct BusNodeUp {
    /// The bus (AGENT_COORD_SERVER)
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The agent's token; better given by AGENT_COORD_TOKEN, because others of this machine can read command lines
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// The agent's id (AGENT_COORD_ID)
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// The agent's command line; split as a shell does it, started without one
    #[arg(long, value_name = "CMD")]
    pub(crate) cmd: Option<String>,
    #[command(flatten)]
    pub(crate) push: BusPush,
    /// Where the pusher's process and log are noted (AGENT_COORD_DIR; default ~/agent-coord)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BusNodeDown {
    /// The agent's id (AGENT_COORD_ID)
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Where the pusher's process was noted (AGENT_COORD_DIR; default ~/agent-coord)
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<std::path::PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BusToken {
    /// Mint an agent's token, or a new one in place of its old one; prints it once
    #[command(after_help = "Example: muster bus token add worker-2")]
    Add {
        /// The agent's id
        agent: String,
    },
    /// List the agents that have a token, never the tokens
    #[command(after_help = "Example: muster bus token list")]
    List,
    /// Take an agent's token away
    #[command(after_help = "Example: muster bus token revoke worker-2")]
    Revoke {
        /// The agent's id
        agent: String,
    },
}
