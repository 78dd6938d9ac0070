//! Permissions as the command line spells them: policies, asks, settings. Never does anything.

use clap::{Args, Subcommand};

use super::OwnerArg;

/// Which layer of which policy an edit is for.
#[derive(Debug, Args)]
pub(crate) struct LayerArgs {
    #[command(flatten)]
    pub(crate) owner: OwnerArg,
    /// The policy's id, or its name
    pub(crate) policy: String,
    /// global, project or task
    #[arg(long, value_name = "LAYER")]
    pub(crate) layer: String,
    /// Refuse unless this is the policy's revision now
    #[arg(long, value_name = "N")]
    pub(crate) revision: Option<i64>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Policy {
    /// The eleven actions, the kinds of resources each takes, and what it opens
    #[command(after_help = "Example: muster policy actions")]
    Actions,
    /// Make a policy with no layers, which grants nothing yet; prints its id
    #[command(after_help = "Example: muster policy create careful")]
    Create {
        #[command(flatten)]
        owner: OwnerArg,
        /// a-z, 0-9, '.', '_' and '-'; not digits alone
        name: String,
    },
    /// List policies, oldest first
    #[command(after_help = "Example: muster policy list --json")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Show a policy: its layers, what they come to, what depends on it, rules that can never fire
    #[command(after_help = "Example: muster policy show careful")]
    Show {
        #[command(flatten)]
        owner: OwnerArg,
        /// The policy's id, or its name
        policy: String,
    },
    /// Delete a policy that nothing resolves through any more
    #[command(after_help = "Example: muster policy delete careful")]
    Delete {
        #[command(flatten)]
        owner: OwnerArg,
        /// The policy's id, or its name
        policy: String,
        /// Refuse unless this is the policy's revision now
        #[arg(long, value_name = "N")]
        revision: Option<i64>,
    },
    /// Grant an action on a scope; the same action and scope again replaces the effect
    #[command(
        after_help = "Example: muster policy grant careful --layer task db_read db_connection:staging allow\nA scope is any, or KIND:ID-OR-NAME with one of project, worktree, db_connection, host, integration, repo. An effect is allow, ask or deny.\nThis governs access through muster. An agent with a shell of its own can still run psql itself."
    )]
    Grant {
        #[command(flatten)]
        edit: LayerArgs,
        /// Such as db_read
        action: String,
        /// any, or KIND:ID-OR-NAME
        scope: String,
        /// allow, ask or deny
        effect: String,
    },
    /// Take a grant away; a layer without its last one is empty and denies everything
    #[command(
        after_help = "Example: muster policy revoke careful --layer task db_read db_connection:staging"
    )]
    Revoke {
        #[command(flatten)]
        edit: LayerArgs,
        /// Such as db_read
        action: String,
        /// any, or KIND:ID-OR-NAME
        scope: String,
    },
    /// Make a layer absent: it inherits. Not the same as save-empty
    #[command(after_help = "Example: muster policy clear-layer careful --layer task")]
    ClearLayer {
        #[command(flatten)]
        edit: LayerArgs,
    },
    /// Author a layer without a grant: it denies everything. Not the same as clear-layer
    #[command(after_help = "Example: muster policy save-empty careful --layer task")]
    SaveEmpty {
        #[command(flatten)]
        edit: LayerArgs,
    },
    /// Make a child with a task layer of its own, which reads the other two from the root whenever it is resolved; prints its id
    #[command(after_help = "Example: muster policy fork careful careful-7 --task 7")]
    Fork {
        #[command(flatten)]
        owner: OwnerArg,
        /// The policy's id, or its name
        policy: String,
        /// The child's name
        name: String,
        /// Put this task under the child in the same step
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Refuse unless this is the parent's revision now
        #[arg(long, value_name = "N")]
        revision: Option<i64>,
    },
    /// Put a task under a policy; it holds for the next call of the task's agents
    #[command(after_help = "Example: muster policy attach careful --task 7")]
    Attach {
        #[command(flatten)]
        owner: OwnerArg,
        /// The policy's id, or its name
        policy: String,
        /// The task
        #[arg(long, value_name = "TASK")]
        task: String,
        /// Refuse unless this is the policy's revision now
        #[arg(long, value_name = "N")]
        revision: Option<i64>,
    },
    /// The presets there are
    #[command(after_help = "Example: muster policy presets")]
    Presets,
    /// Replace a whole layer by a preset's grants on a project's real resources
    #[command(
        after_help = "Example: muster policy apply-preset careful analytics-read-only --layer task --project engine --dry-run"
    )]
    ApplyPreset {
        #[command(flatten)]
        edit: LayerArgs,
        /// analytics-read-only, reviewer, implementer, triage or observer
        preset: String,
        /// The project whose resources are named
        #[arg(long, value_name = "PROJECT")]
        project: String,
        /// Write to a task layer that several tasks share
        #[arg(long)]
        force: bool,
        /// Print the grants and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Print policies as a document that import reads; all of them when none is named
    #[command(after_help = "Example: muster policy export > policies.json")]
    Export {
        #[command(flatten)]
        owner: OwnerArg,
        /// Policies by id or name
        policies: Vec<String>,
    },
    /// Read policies from a document, all of them or none
    #[command(after_help = "Example: muster policy import policies.json --replace")]
    Import {
        #[command(flatten)]
        owner: OwnerArg,
        /// The document, - for standard input
        file: String,
        /// Put its layers in the place of those of policies that are there
        #[arg(long)]
        replace: bool,
        /// Refuse unless this is the revision now of each policy in it; one that is not there yet has 0
        #[arg(long, value_name = "N")]
        revision: Option<i64>,
    },
    /// Why an action on a resource is allowed, asked about or refused; over everything when no pair is given
    #[command(
        after_help = "Example: muster policy explain --task 7 db_read db_connection:staging\nExample: muster policy explain --from questions.jsonl"
    )]
    Explain {
        #[command(flatten)]
        owner: OwnerArg,
        /// Under this policy, by id or name
        #[arg(long, value_name = "POLICY", conflicts_with = "task")]
        policy: Option<String>,
        /// For the agents of this task
        #[arg(long, value_name = "TASK")]
        task: Option<String>,
        /// Such as db_read
        #[arg(requires = "resource")]
        action: Option<String>,
        /// KIND:ID-OR-NAME, or none for a call that names nothing
        resource: Option<String>,
        /// Questions from a file, - for standard input: {"policy" or "task","action","resource"} a line
        #[arg(long, value_name = "FILE", conflicts_with_all = ["policy", "task", "action"])]
        from: Option<String>,
    },
    /// Replay the audit log's calls under a policy as a document would have it; prints those answered otherwise
    #[command(after_help = "Example: muster policy simulate careful --with changed.json")]
    Simulate {
        #[command(flatten)]
        owner: OwnerArg,
        /// The policy's id, or its name
        policy: String,
        /// One exported policy, - for standard input
        #[arg(long, value_name = "FILE")]
        with: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Asks {
    /// List the asks that wait, or those in another state
    #[command(after_help = "Example: muster asks list --json")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
        /// parked, approved, refused, expired or withdrawn
        #[arg(long, value_name = "STATE")]
        state: Option<String>,
        /// All that wait no more: approved, refused, expired and withdrawn
        #[arg(long, conflicts_with = "state")]
        ended: bool,
    },
    /// Show what exactly is asked
    #[command(after_help = "Example: muster asks show 12")]
    Show {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id
        id: String,
    },
    /// Say yes: this call goes on, and matching ones for 60 seconds
    #[command(
        after_help = "Example: muster asks approve 12\nA yes counts for 60 seconds from now: matching calls of the same agent go on unasked."
    )]
    Approve {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id
        id: String,
    },
    /// Say no: this call is refused, and the next one asks again
    #[command(after_help = "Example: muster asks refuse 12")]
    Refuse {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id
        id: String,
    },
    /// Stay and print each ask as it comes; while this runs somebody can be asked
    #[command(after_help = "Example: muster asks watch")]
    Watch {
        #[command(flatten)]
        owner: OwnerArg,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Setting {
    /// List settings, what each does and what it is
    #[command(after_help = "Example: muster setting list")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Print one setting
    #[command(after_help = "Example: muster setting get asks.expiry_seconds")]
    Get {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its key
        key: String,
    },
    /// Change one setting; it holds from the next call on
    #[command(
        after_help = "Example: muster setting set asks.require_when_closed true\nWhile asks.require_when_closed is false, a grant of ask behaves as allow whenever nobody can be asked: no Asks page is open and no muster asks watch runs."
    )]
    Set {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its key
        key: String,
        /// Its value
        value: String,
    },
}
