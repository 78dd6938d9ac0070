//! Accounts and their tokens as the command line spells them, and how every command says whose rows it works on. Never does anything.

use clap::{Args, Subcommand, ValueEnum};

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
