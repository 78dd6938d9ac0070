//! The command line as it is spelled. Never does anything.

mod access;
mod packages;
mod resources;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use access::{Asks, LayerArgs, Policy, Setting};
pub(crate) use packages::{Exec, Plugins, Review, ServePackage};
pub(crate) use resources::{Db, DbAdd, ForgeKind, Host, Integration, Project, Task, TaskStatus};

/// A self-hosted control plane for your fleet of AI coding agents.
#[derive(Debug, Parser)]
#[command(
    name = "muster",
    version,
    propagate_version = true,
    after_help = "Example: muster demo"
)]
pub(crate) struct Cli {
    /// The folder that holds muster's database and settings (MUSTER_DATA_DIR)
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<std::path::PathBuf>,
    /// The database, sqlite:///PATH or postgres://… (MUSTER_DATABASE_URL)
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) database_url: Option<String>,
    /// Print one JSON document on standard output
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The account that a command works for, where it stands before the command's own words
    #[arg(long, global = true, hide = true, value_name = "NAME")]
    pub(crate) owner: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Cli {
    /// `muster bus serve` and `muster mcp` to the letter. Agent clients start them once for each session, so they are told without the parser, whose
    /// tables of every command would stay in each session's memory.
    pub(crate) fn of_agent_client(args: &[std::ffi::OsString]) -> Option<Self> {
        match args {
            [_, bus, serve] if bus == "bus" && serve == "serve" => Some(Self {
                data_dir: None,
                database_url: None,
                json: false,
                owner: None,
                command: Command::Bus(Bus::Serve(BusServe { dir: None })),
            }),
            [_, mcp] if mcp == "mcp" => Some(Self {
                data_dir: None,
                database_url: None,
                json: false,
                owner: None,
                command: Command::Mcp,
            }),
            _ => None,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server
    #[command(after_help = "Example: MUSTER_PLUGINS=1 muster serve")]
    Serve(Serve),
    /// A tour with nothing to configure: real mails, a real connector, a rule-following chief
    #[command(after_help = "Example: muster demo")]
    Demo(Demo),
    /// Accounts
    #[command(
        subcommand,
        after_help = "Example: printf '%s\\n' \"$PASSWORD\" | muster owner add ada --password-stdin"
    )]
    Owner(Owner),
    /// Personal, mirror host and agent tokens
    #[command(
        subcommand,
        after_help = "Example: muster token create --owner ada --kind personal --label laptop"
    )]
    Token(Token),
    /// Projects: a root folder, perhaps a repository, and the policy that new tasks get
    #[command(
        subcommand,
        after_help = "Example: muster project add engine --root ~/src/engine"
    )]
    Project(Project),
    /// Tasks: work in a project, under a policy
    #[command(
        subcommand,
        after_help = "Example: muster task add --project engine --title 'Speed up the parser'"
    )]
    Task(Task),
    /// Hosts: machines that agents may run on
    #[command(subcommand, after_help = "Example: muster host add workstation")]
    Host(Host),
    /// Integrations: your accounts at forges
    #[command(
        subcommand,
        after_help = "Example: printf '%s\\n' \"$TOKEN\" | muster integration add hub --kind github --url https://api.github.com --token-stdin"
    )]
    Integration(Integration),
    /// Database connections that agents may be let to
    #[command(
        subcommand,
        after_help = "Example: muster db add staging --project engine --url-stdin < url.txt"
    )]
    Db(Db),
    /// Connectors (what MUSTER_PLUGINS=1 lets in): outside processes that bring messages in and send approved replies
    #[command(
        subcommand,
        after_help = "Example: muster connector add mail --label Inbox --data-scope 'the inbox notes'"
    )]
    Connector(Connector),
    /// The agent that reads inbound messages
    #[command(
        subcommand,
        after_help = "Example: muster chief set --runtime claude-code --command 'claude --model sonnet'"
    )]
    Chief(Chief),
    /// Plugin packages (not connectors): folders that bring tools to agents, reviewed before anything in them starts
    #[command(
        subcommand,
        after_help = "Example: muster plugins install ./forecast-tools && muster plugins inspect forecast-tools"
    )]
    Plugins(Plugins),
    /// Run an agent's program with the tools of approved packages, settings.json and .mcp.json
    #[command(
        after_help = "Example: muster exec -- sh -c 'claude --mcp-config \"$MUSTER_MCP_CONFIG\"'\nPROGRAM gets MUSTER_SESSION_ID, and MUSTER_MCP_CONFIG: a file {\"mcpServers\":{…}} that is there while it runs. The exit code is PROGRAM's; signals are passed on to it."
    )]
    Exec(Exec),
    /// Policies: what agents may do, in layers that only narrow
    #[command(
        subcommand,
        after_help = "Example: muster policy grant careful --layer task db_read db_connection:staging allow\nControls cover access through muster: an agent with a shell of its own is outside of them. A worktree or a profile narrows what is near; neither confines a process."
    )]
    Policy(Policy),
    /// Calls that wait for your word
    #[command(subcommand, after_help = "Example: muster asks approve 12")]
    Asks(Asks),
    /// What you chose for asks and databases
    #[command(
        subcommand,
        after_help = "Example: muster setting set asks.require_when_closed true"
    )]
    Setting(Setting),
    /// The audit log
    #[command(
        subcommand,
        after_help = "Example: muster audit list --event plugin.draft.approved\nExample: muster audit verify"
    )]
    Audit(Audit),
    /// Settings: what is in force, and what there is
    #[command(subcommand, after_help = "Example: muster config show")]
    Config(Config),
    /// Choose how the coordination bus is shared and how agents are reached on this machine
    #[command(
        after_help = "Example: muster init --transport tmux-push-remote\nExample: muster init --client claude --id frontend --project ."
    )]
    Init(Init),
    /// The coordination bus: one room for every agent and person
    #[command(subcommand, after_help = "Example: muster bus serve")]
    Bus(Bus),
    /// Sit among the agents: read, post and send direct messages on the bus
    #[command(
        after_help = "Example: muster chat --id david\nExample: printf '/join #ops\\nhello\\n' | muster chat"
    )]
    Chat(Chat),
    /// Check the whole installation, the bus's directory with it
    #[command(after_help = "Example: muster doctor --json")]
    Doctor,
    /// MCP server muster on standard input and output, for an agent's client (MUSTER_AGENT_TOKEN); through MUSTER_URL where it answers, else on the database itself
    #[command(after_help = "Example: claude mcp add muster --env MUSTER_AGENT_TOKEN=mag_… -- muster mcp")]
    Mcp,
    /// Print shell completions
    #[command(after_help = "Example: muster completions bash > /etc/bash_completion.d/muster")]
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    #[command(after_help = "Example: muster man | man -l -")]
    Man,
    /// The Maildir connector as its own process, for the tour
    #[command(hide = true)]
    DemoConnector(muster_maildir::Options),
    /// The tour's rule-following chief
    #[command(hide = true)]
    DemoChief,
}

impl Command {
    /// Whether this process starts programs whose files are their user's, not muster's.
    pub(crate) fn starts_programs(&self) -> bool {
        matches!(self, Self::Exec(_) | Self::Plugins(Plugins::Serve(_)))
    }

    /// Whether this process works for one agent and nothing else, perhaps over TLS.
    pub(crate) fn pushes(&self) -> bool {
        matches!(self, Self::Bus(Bus::Pusher(_)) | Self::Mcp) || self.starts_programs()
    }

    /// Whether this process serves one agent, or one person, on its standard streams and nothing else.
    pub(crate) fn serves_one(&self) -> bool {
        let serves = matches!(self, Self::Bus(Bus::Serve(_)));
        matches!(self, Self::Chat(_)) || (serves && std::env::var_os("AGENT_COORD_HTTP_PORT").is_none())
    }
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen (MUSTER_LISTEN); port 0 picks one
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) listen: Option<String>,
    /// The address people use, when it is not the listener's (MUSTER_PUBLIC_URL)
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
}

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

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where to listen; port 0 picks one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Owner {
    /// Make an account; prints its id
    #[command(after_help = "Example: muster owner add ada")]
    Add {
        /// a-z, 0-9, '.', '_' and '-'
        name: String,
        /// Read the password from one line of standard input instead of asking on the terminal
        #[arg(long)]
        password_stdin: bool,
    },
    /// List accounts
    #[command(after_help = "Example: muster owner list --json")]
    List,
    /// Set another password; ends every sign-in, keeps tokens and passkeys
    #[command(after_help = "Example: muster owner passwd ada")]
    Passwd {
        /// The account
        name: String,
        /// Read the password from one line of standard input instead of asking on the terminal
        #[arg(long)]
        password_stdin: bool,
    },
    /// Refuse every sign-in and token of an account; nothing is deleted
    #[command(after_help = "Example: muster owner disable ada")]
    Disable {
        /// The account
        name: String,
    },
    /// Let a disabled account in again
    #[command(after_help = "Example: muster owner enable ada")]
    Enable {
        /// The account
        name: String,
    },
}

/// Whose rows a command works on.
#[derive(Debug, Args)]
pub(crate) struct OwnerArg {
    /// The account (MUSTER_OWNER); may be left out while there is one
    #[arg(long, value_name = "NAME")]
    pub(crate) owner: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TokenKind {
    /// mst_: your scripts and hooks, on /api
    Personal,
    /// mmh_: a mirror host's daemon
    MirrorHost,
    /// mag_: an agent, on /mcp
    Agent,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token; prints it alone, once
    #[command(
        after_help = "Example: muster token create --owner ada --kind personal --label laptop\nExample: muster token create --kind agent --task 7 --label worker"
    )]
    Create {
        #[command(flatten)]
        owner: OwnerArg,
        /// What it may be used for
        #[arg(long)]
        kind: TokenKind,
        /// What you call it
        #[arg(long, default_value = "unnamed")]
        label: String,
        /// The host it is for (mirror-host)
        #[arg(long)]
        host: Option<String>,
        /// The task it is for (agent): its policy decides what the agent may do
        #[arg(long, value_name = "TASK", conflicts_with = "host")]
        task: Option<String>,
    },
    /// List tokens; never shows their text
    #[command(after_help = "Example: muster token list --owner ada")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Refuse a token from now on
    #[command(after_help = "Example: muster token revoke 3")]
    Revoke {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Connector {
    /// Make a connector; prints its mpl_ token alone, once
    #[command(
        after_help = "Example: muster connector add mail --owner ada --label Inbox --data-scope 'the inbox notes'"
    )]
    Add {
        /// a-z, 0-9, '.', '_' and '-'
        name: String,
        #[command(flatten)]
        owner: OwnerArg,
        /// What your chief's conversation for it is called
        #[arg(long)]
        label: String,
        /// Where your chief may record what it learns from its messages
        #[arg(long, value_name = "SCOPE")]
        data_scope: String,
    },
    /// List connectors
    #[command(after_help = "Example: muster connector list --json")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// End a connector: its token is refused from now on
    #[command(after_help = "Example: muster connector revoke mail")]
    Revoke {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        connector: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Runtime {
    /// A program per turn: the text on standard input, the reply on standard output
    Command,
    /// Claude Code, headless, one conversation per connector
    ClaudeCode,
    /// Any agent that speaks the Agent Client Protocol
    Acp,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Chief {
    /// Make a program your chief, in place of any other
    #[command(
        after_help = "Example: muster chief set --owner ada --runtime command --command 'my-chief --fast'"
    )]
    Set {
        #[command(flatten)]
        owner: OwnerArg,
        /// How turns reach it
        #[arg(long)]
        runtime: Runtime,
        /// The program and its arguments, split as a shell splits words; no shell runs it
        #[arg(long, value_name = "'PROGRAM ARGS…'")]
        command: Option<String>,
    },
    /// Show who your chief is
    #[command(after_help = "Example: muster chief show --json")]
    Show {
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Be without a chief: messages wait
    #[command(after_help = "Example: muster chief remove")]
    Remove {
        #[command(flatten)]
        owner: OwnerArg,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// List events, oldest first
    #[command(after_help = "Example: muster audit list --limit 20 --event plugin.delivered")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
        /// Only this event
        #[arg(long, value_name = "EVENT")]
        event: Option<String>,
        /// Only calls of this agent: its token's id, or its label
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// Only calls of agents on this task
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Only calls of this tool
        #[arg(long, value_name = "TOOL")]
        tool: Option<String>,
        /// Only calls with this outcome, such as auto_allowed_app_closed
        #[arg(long, value_name = "OUTCOME")]
        outcome: Option<String>,
        /// Only at or after this moment, RFC 3339
        #[arg(long, value_name = "TIME")]
        since: Option<String>,
        /// Only before this moment, RFC 3339
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
        /// Only the newest N
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
        limit: Option<i64>,
    },
    /// Go along the log: exit 1 when a row was changed, removed or put in
    #[command(after_help = "Example: muster audit verify --json")]
    Verify {
        #[command(flatten)]
        owner: OwnerArg,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show what is in force and where it comes from; secrets are never shown
    #[command(after_help = "Example: muster config show --json")]
    Show,
    /// Print the documentation of every setting
    #[command(after_help = "Example: muster config docs > docs/configuration.md")]
    Docs,
}
