//! Plugin packages as the command line spells them. Never does anything.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::OwnerArg;

/// What a review is about.
#[derive(Debug, Args)]
pub(crate) struct Review {
    /// PLUGIN, PLUGIN:mcp_server:SERVER or plugin:PLUGIN:mcp_server:SERVER; other names of one server are understood too
    pub(crate) target: String,
    /// Refuse unless this is the definition hash now
    #[arg(long, value_name = "HASH")]
    pub(crate) hash: Option<String>,
}

/// `muster plugins serve`.
#[derive(Debug, Args)]
pub(crate) struct ServePackage {
    #[command(flatten)]
    pub(crate) owner: OwnerArg,
    /// PLUGIN:SERVER
    pub(crate) server: String,
    /// The session's id; MUSTER_SESSION_ID, or a new one, unless given
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Plugins {
    /// Look for every fault of a package at once; starts and stores nothing
    #[command(after_help = "Example: muster plugins validate ./forecast-tools")]
    Validate {
        /// The package's folder
        dir: PathBuf,
    },
    /// Store a copy of a package; nothing of it starts before it is approved
    #[command(after_help = "Example: muster plugins install ./forecast-tools")]
    Install {
        /// The package's folder
        dir: PathBuf,
    },
    /// List the packages that are installed
    #[command(after_help = "Example: muster plugins list --json")]
    List,
    /// Show what a package would run, what was decided about it, what changed since, and what to do
    #[command(after_help = "Example: muster plugins inspect forecast-tools")]
    Inspect {
        /// The package's id
        plugin: String,
    },
    /// Take the folder again that a package came from; what changed has to be approved again
    #[command(after_help = "Example: muster plugins update forecast-tools")]
    Update {
        /// The package's id
        plugin: String,
    },
    /// Remove a package and forget what was decided about it; its own state stays
    #[command(after_help = "Example: muster plugins remove forecast-tools")]
    Remove {
        /// The package's id
        plugin: String,
    },
    /// Say that a package, or one server of it, may run just as it is now, from the next session on
    #[command(
        after_help = "Example: muster plugins approve forecast-tools:mcp_server:forecast --hash 3f5a…\nRead the package first. A change of any byte asks for another approval."
    )]
    Approve(Review),
    /// Say that a package, or one server of it, may not run
    #[command(after_help = "Example: muster plugins reject forecast-tools")]
    Reject(Review),
    /// Switch what was approved on again
    #[command(after_help = "Example: muster plugins enable forecast-tools")]
    Enable(Review),
    /// Switch what was approved off, and keep the approval
    #[command(after_help = "Example: muster plugins disable forecast-tools")]
    Disable(Review),
    /// Serve one approved server on standard input and output, for an agent's client
    #[command(
        after_help = "Example: claude mcp add plugin_forecast_tools_forecast -- muster plugins serve forecast-tools:forecast\nCalls that have to be asked about become asks of the agent whose token is in MUSTER_AGENT_TOKEN, else of the session."
    )]
    Serve(ServePackage),
    /// What happened to servers: starts, ends, calls and how each was decided; oldest first
    #[command(after_help = "Example: muster plugins log --plugin forecast-tools")]
    Log {
        /// Only this package
        #[arg(long, value_name = "PLUGIN")]
        plugin: Option<String>,
        /// Only this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
    },
    /// Of connectors, not packages: hand an unconfirmed message to the chief again, on a running server (MUSTER_URL, MUSTER_TOKEN)
    #[command(
        after_help = "Example: MUSTER_URL=http://127.0.0.1:7447 MUSTER_TOKEN=mst_… muster plugins retry 42"
    )]
    Retry {
        /// The message's id
        message_id: String,
    },
}

/// `muster exec`.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    pub(crate) owner: OwnerArg,
    /// Servers to add, as {"mcpServers":{…}}
    #[arg(long, value_name = "FILE")]
    pub(crate) mcp_config: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}
