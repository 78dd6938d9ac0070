//! What grants name, as the command line spells it: projects, tasks, hosts, integrations, database connections. Never does anything.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::OwnerArg;

#[derive(Debug, Subcommand)]
pub(crate) enum Project {
    /// Add a project; prints its id
    #[command(
        after_help = "Example: muster project add engine --root ~/src/engine --repo ada/engine --integration hub"
    )]
    Add {
        /// a-z, 0-9, '.', '_' and '-'
        name: String,
        #[command(flatten)]
        owner: OwnerArg,
        /// Its folder
        #[arg(long, value_name = "DIR")]
        root: PathBuf,
        /// Its repository at a forge
        #[arg(long, value_name = "OWNER/NAME", requires = "integration")]
        repo: Option<String>,
        /// The integration that reaches the repository: its id, or its name
        #[arg(long, value_name = "INTEGRATION", requires = "repo")]
        integration: Option<String>,
    },
    /// List projects, oldest first
    #[command(after_help = "Example: muster project list --json")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Show a project
    #[command(after_help = "Example: muster project show engine")]
    Show {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        project: String,
    },
    /// Give a project another name; grants on it stay
    #[command(after_help = "Example: muster project rename engine motor")]
    Rename {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        project: String,
        /// Its new name
        name: String,
    },
    /// Remove a project that has no open task and no database connection; its folder stays
    #[command(after_help = "Example: muster project remove engine")]
    Remove {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        project: String,
    },
    /// Choose the policy that new tasks of a project get
    #[command(
        after_help = "Example: muster project set-default engine careful\nExample: muster project set-default engine --none"
    )]
    SetDefault {
        #[command(flatten)]
        owner: OwnerArg,
        /// The project's id, or its name
        project: String,
        /// The policy's id, or its name
        #[arg(required_unless_present = "none", conflicts_with = "none")]
        policy: Option<String>,
        /// None: new tasks get the built-in policy 'closed', which grants nothing
        #[arg(long)]
        none: bool,
        /// Refuse unless this is the policy's revision now; the built-in one has 0
        #[arg(long, value_name = "N")]
        revision: Option<i64>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum TaskStatus {
    Open,
    InProgress,
    ReadyForReview,
    Closed,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Add a task; prints its id
    #[command(
        after_help = "Example: muster task add --project engine --title 'Speed up the parser' --policy careful"
    )]
    Add {
        #[command(flatten)]
        owner: OwnerArg,
        /// The project's id, or its name
        #[arg(long, value_name = "PROJECT")]
        project: String,
        /// What it is about, in a line
        #[arg(long)]
        title: String,
        /// What has to be done
        #[arg(long, default_value = "", hide_default_value = true)]
        body: String,
        /// Its policy, instead of the project's: its id, or its name
        #[arg(long, value_name = "POLICY", conflicts_with = "unscoped")]
        policy: Option<String>,
        /// No policy at all: nothing its agents do is restricted
        #[arg(long)]
        unscoped: bool,
    },
    /// List tasks, oldest first
    #[command(after_help = "Example: muster task list --project engine")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
        /// Only this project's: its id, or its name
        #[arg(long, value_name = "PROJECT")]
        project: Option<String>,
    },
    /// Show a task
    #[command(after_help = "Example: muster task show 7")]
    Show {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id
        task: String,
    },
    /// Move a task's status; a closed one is opened again this way
    #[command(after_help = "Example: muster task set-status 7 in_progress")]
    SetStatus {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id
        task: String,
        /// The new status
        status: TaskStatus,
    },
    /// Close a task: its queued runs are cancelled, what its agents asked is withdrawn
    #[command(after_help = "Example: muster task close 7")]
    Close {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id
        task: String,
    },
    /// Make the git worktree of a task, or show the one it has; prints its folder
    #[command(after_help = "Example: cd \"$(muster task worktree 7)\"")]
    Worktree {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id
        task: String,
    },
    /// Queue a run of an agent on a task; prints the run's id. Nothing in this version starts a queued run
    #[command(after_help = "Example: muster task spawn 7")]
    Spawn {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id
        task: String,
    },
    /// Take a queued run back
    #[command(after_help = "Example: muster task cancel-run 12")]
    CancelRun {
        #[command(flatten)]
        owner: OwnerArg,
        /// The run's id
        run: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Host {
    /// Add a host; prints its id
    #[command(after_help = "Example: muster host add workstation")]
    Add {
        /// a-z, 0-9, '.', '_' and '-'
        name: String,
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// List hosts, oldest first
    #[command(after_help = "Example: muster host list --json")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Show a host
    #[command(after_help = "Example: muster host show workstation")]
    Show {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        host: String,
    },
    /// Give a host another name; grants on it stay
    #[command(after_help = "Example: muster host rename workstation tower")]
    Rename {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        host: String,
        /// Its new name
        name: String,
    },
    /// Remove a host that no queued run waits for
    #[command(after_help = "Example: muster host remove workstation")]
    Remove {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        host: String,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ForgeKind {
    /// GitHub, GitHub Enterprise
    Github,
    /// GitLab
    Gitlab,
    /// Forgejo, Gitea
    Forgejo,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Integration {
    /// Add an integration; prints its id. The forge is not contacted
    #[command(
        after_help = "Example: printf '%s\\n' \"$TOKEN\" | muster integration add hub --kind github --url https://api.github.com --token-stdin"
    )]
    Add {
        /// a-z, 0-9, '.', '_' and '-'
        name: String,
        #[command(flatten)]
        owner: OwnerArg,
        /// Which API the forge speaks
        #[arg(long)]
        kind: ForgeKind,
        /// Where: https, or http on this machine
        #[arg(long)]
        url: String,
        /// Read your token there from one line of standard input; it is stored sealed and never shown
        #[arg(long, required = true)]
        token_stdin: bool,
    },
    /// List integrations, oldest first
    #[command(after_help = "Example: muster integration list --json")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Show an integration, never its token
    #[command(after_help = "Example: muster integration show hub")]
    Show {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        integration: String,
    },
    /// Give an integration another name; grants on it stay
    #[command(after_help = "Example: muster integration rename hub work")]
    Rename {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        integration: String,
        /// Its new name
        name: String,
    },
    /// Remove an integration that no project uses, and its token
    #[command(after_help = "Example: muster integration remove hub")]
    Remove {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        integration: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Db {
    /// Add a database connection, after a look at its account; prints its id
    #[command(
        after_help = "Example: muster db add staging --project engine --url-stdin < url.txt\nExample: muster db add local --project engine --url sqlite:///srv/engine.db"
    )]
    Add(DbAdd),
    /// List database connections, oldest first; never shows an address
    #[command(after_help = "Example: muster db list --json")]
    List {
        #[command(flatten)]
        owner: OwnerArg,
    },
    /// Show a database connection, never its address
    #[command(after_help = "Example: muster db show staging")]
    Show {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        connection: String,
    },
    /// Reach a database with each account that the connection has; nothing of the data is read
    #[command(after_help = "Example: muster db test staging")]
    Test {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        connection: String,
    },
    /// Try on the live connection what muster promises about reads; exit code 1 when something does not hold
    #[command(after_help = "Example: muster db check staging --json")]
    Check {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        connection: String,
    },
    /// Say what a statement would need: read, write or refuse. No database and no data folder is needed
    #[command(
        after_help = "Example: muster db classify postgres 'SELECT 1'\nExample: muster db classify redis --from statements.jsonl"
    )]
    Classify {
        /// postgres, mysql, mariadb, sqlite, redis or mongodb, or another usual spelling (pg, valkey …)
        engine: String,
        /// SQL, a command line of Redis, or a command of MongoDB as JSON
        #[arg(
            required_unless_present = "from",
            conflicts_with = "from",
            allow_hyphen_values = true
        )]
        statement: Option<String>,
        /// Statements from a file, or from standard input for '-': a JSON string a line, answered by a line each
        #[arg(long, value_name = "FILE")]
        from: Option<String>,
    },
    /// Read a database through the same gateway as your agents do; \? there lists what it takes
    #[command(
        after_help = "Example: muster db shell staging\nExample: echo 'SELECT count(*) FROM orders' | muster db shell staging --json\nReads only, unless --write or \\write on says otherwise. Every statement is in the audit log."
    )]
    Shell {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        connection: String,
        /// Let statements that write through, on the account that writes
        #[arg(long)]
        write: bool,
    },
    /// Replace addresses of a database connection, after a look at the new account; grants on it stay
    #[command(
        after_help = "Example: muster db set-url staging --url-stdin < url.txt\nExample: muster db set-url staging --no-write-url\nAn address that is not named stays. Each call from then on goes to the new one; a muster db shell that is open keeps the old one until it ends."
    )]
    SetUrl(DbSetUrl),
    /// Give a database connection another name; grants on it stay
    #[command(after_help = "Example: muster db rename staging rehearsal")]
    Rename {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        connection: String,
        /// Its new name
        name: String,
    },
    /// Remove a database connection and its addresses; the database stays
    #[command(after_help = "Example: muster db remove staging")]
    Remove {
        #[command(flatten)]
        owner: OwnerArg,
        /// Its id, or its name
        connection: String,
    },
}

#[derive(Debug, Args)]
#[group(id = "addresses", required = true, multiple = true, args = ["url", "url_stdin", "write_url", "write_url_stdin", "no_write_url"])]
pub(crate) struct DbSetUrl {
    #[command(flatten)]
    pub(crate) owner: OwnerArg,
    /// Its id, or its name
    pub(crate) connection: String,
    /// Its new address with the account that reads; others of this machine can read command lines, so better --url-stdin
    #[arg(long, conflicts_with = "url_stdin")]
    pub(crate) url: Option<String>,
    /// Read that address from one line of standard input
    #[arg(long)]
    pub(crate) url_stdin: bool,
    /// Its new address with the account that writes
    #[arg(long, value_name = "URL", conflicts_with = "write_url_stdin")]
    pub(crate) write_url: Option<String>,
    /// Read that address from one line of standard input, the second one with --url-stdin
    #[arg(long)]
    pub(crate) write_url_stdin: bool,
    /// Write with the account that reads from now on, as far as that one may
    #[arg(long, conflicts_with_all = ["write_url", "write_url_stdin"])]
    pub(crate) no_write_url: bool,
    /// Take an account that may do more than read, or that cannot be looked at now, and mark the connection as wide
    #[arg(long)]
    pub(crate) accept_wide_account: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DbAdd {
    /// a-z, 0-9, '.', '_' and '-'
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) owner: OwnerArg,
    /// The project it belongs to: its id, or its name
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: String,
    /// Its address with the account that reads; others of this machine can read command lines, so better --url-stdin
    #[arg(long, required_unless_present = "url_stdin", conflicts_with = "url_stdin")]
    pub(crate) url: Option<String>,
    /// Read that address from one line of standard input
    #[arg(long)]
    pub(crate) url_stdin: bool,
    /// Its address with the account that writes, where that is another
    #[arg(long, value_name = "URL", conflicts_with = "write_url_stdin")]
    pub(crate) write_url: Option<String>,
    /// Read that address from one line of standard input, the second one with --url-stdin
    #[arg(long)]
    pub(crate) write_url_stdin: bool,
    /// Take an account that may do more than read, or that cannot be looked at now, and mark the connection as wide
    #[arg(long)]
    pub(crate) accept_wide_account: bool,
}
