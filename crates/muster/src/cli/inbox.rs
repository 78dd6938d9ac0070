//! The two ends of the inbox as the command line spells them: connectors and the chief. Never does anything.

use clap::{Subcommand, ValueEnum};

use super::OwnerArg;

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
