//! The command line as it is spelled: the commands, and those that need few words. Never does anything.

mod access;
mod accounts;
mod bus;
mod inbox;
mod packages;
mod resources;

use clap::{Args, Parser, Subcommand};

pub(crate) use access::{Asks, LayerArgs, Policy, Setting};
pub(crate) use accounts::{Owner, OwnerArg, Token, TokenKind};
pub(crate) use bus::{
    AgentClient, Bus, BusDoctor, BusMode, BusNode, BusNodeCommand, BusNodeDown, BusNodeUp, BusPeek, BusPush,
    BusPusher, BusServe, BusToken, BusTransport, Chat, Init, PeekMode,
};
pub(crate) use inbox::{Chief, Connector, Runtime};
pub(crate) use packages::{Exec, Plugins, Review, ServePackage};
pub(crate) use resources::{Db, DbAdd, DbSetUrl, ForgeKind, Host, Integration, Project, Task, TaskStatus};

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

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where to listen; port 0 picks one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,
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
