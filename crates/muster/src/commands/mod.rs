//! One file a command. Never a rule: each calls the app or a running server and prints.

mod asks;
mod audit;
pub(crate) mod bus;
mod chat;
mod chief;
mod config;
mod connector;
mod database;
mod db;
mod doctor;
mod exec;
mod host;
mod integration;
mod man;
mod mcp;
mod owner;
mod plugins;
mod policy;
mod project;
pub(crate) mod serve;
mod serving;
mod setting;
mod shown;
mod task;
mod token;

use std::sync::OnceLock;

use clap::CommandFactory as _;
use muster_app::{App, Settings};
use muster_core::Clock;
use muster_core::clock::Time;
use muster_core::ids::OwnerId;
use muster_core::screen::DenyWords;
use muster_core::text::terminal;
use muster_store::{Db, Options};
use serde_json::{Value, json};

use crate::cli::{Cli, Command, OwnerArg};
use crate::config::Config;
use crate::output::Failure;
use crate::{demo, output};

/// The account that MUSTER_OWNER names, from before the command begins on.
static WHOSE: OnceLock<String> = OnceLock::new();

/// Does what the command line says.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    match &cli.command {
        Command::Completions { shell } => {
            // Into memory first: the generator takes a reader that left early for a bug.
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut visible(), "muster", &mut script);
            return output::bytes(&script);
        }
        Command::Man => return output::bytes(&man::page()?),
        Command::Config(crate::cli::Config::Docs) => return output::line(crate::config::docs().trim_end()),
        Command::Init(args) => return bus::init(args, cli.json),
        Command::Bus(_) => {
            let Command::Bus(command) = cli.command else {
                return Ok(());
            };
            return bus::run(command, cli.json).await;
        }
        Command::Chat(_) => {
            let Command::Chat(args) = cli.command else {
                return Ok(());
            };
            return chat::run(args, cli.json);
        }
        Command::Db(crate::cli::Db::Classify {
            engine,
            statement,
            from,
        }) => return db::classify(engine, statement.as_deref(), from.as_deref(), cli.json),
        // Its text is for a person; a script could not wait for its end.
        Command::Demo(_) if cli.json => {
            return Err(Failure::usage(
                "muster demo has no JSON to print; leave --json out. Nothing was started",
            ));
        }
        Command::DemoChief => return demo::chief::run().await,
        Command::DemoConnector(options) => return demo::connector::run(options.clone()).await,
        _ => {}
    }
    let config = Config::load(&cli)?;
    if let Some(name) = config.text("MUSTER_OWNER") {
        WHOSE.get_or_init(|| name.to_owned());
    }
    let json = cli.json;
    match cli.command {
        Command::Serve(args) => serve::run(config, args, json).await,
        Command::Demo(args) => demo::run(config, args, cli.data_dir.is_some()).await,
        Command::Owner(command) => owner::run(&config, command, json).await,
        Command::Token(command) => token::run(&config, command, json).await,
        Command::Project(command) => project::run(&config, command, json).await,
        Command::Task(command) => task::run(&config, command, json).await,
        Command::Host(command) => host::run(&config, command, json).await,
        Command::Integration(command) => integration::run(&config, command, json).await,
        Command::Db(command) => db::run(&config, command, json).await,
        Command::Connector(command) => connector::run(&config, command, json).await,
        Command::Chief(command) => chief::run(&config, command, json).await,
        Command::Plugins(command) => plugins::run(config, command, json).await,
        Command::Exec(args) => exec::run(&config, args).await,
        Command::Policy(command) => policy::run(&config, command, json).await,
        Command::Asks(command) => asks::run(&config, command, json).await,
        Command::Setting(command) => setting::run(&config, command, json).await,
        Command::Audit(command) => audit::run(&config, command, json).await,
        Command::Config(_) => config::show(&config, json),
        Command::Mcp => mcp::run(config).await,
        Command::Doctor => doctor::run(&config, json).await,
        Command::Init(_)
        | Command::Bus(_)
        | Command::Chat(_)
        | Command::Completions { .. }
        | Command::Man
        | Command::DemoChief
        | Command::DemoConnector(_) => Ok(()),
    }
}

/// The command line without what is not meant for people: a completion would offer it all the same.
fn visible() -> clap::Command {
    let whole = Cli::command();
    clap::Command::new("muster")
        .version(env!("CARGO_PKG_VERSION"))
        .propagate_version(true)
        .about(whole.get_about().cloned().unwrap_or_default())
        .args(whole.get_arguments().cloned())
        .subcommands(
            whole
                .get_subcommands()
                .filter(|command| !command.is_hide_set())
                .cloned(),
        )
}

/// Opens the database of the configuration.
pub(crate) async fn open_db(config: &Config) -> Result<Db, Failure> {
    config.make_data_dir()?;
    connect(config).await
}

/// The same for a look: a data folder that is not there stays away.
async fn connect(config: &Config) -> Result<Db, Failure> {
    let url = config.database_url();
    // Beside a SQLite file, whatever data folder names it: two servers on one file must find each other's locks.
    let file = config.database_file();
    let beside = file
        .as_deref()
        .and_then(std::path::Path::parent)
        .filter(|dir| !dir.as_os_str().is_empty());
    let locks = beside.unwrap_or(&config.data_dir).join("locks");
    let mut options = Options::new(url, locks);
    if let Some(connections) = config
        .text("MUSTER_DATABASE_CONNECTIONS")
        .and_then(|text| text.parse().ok())
    {
        options.connections = connections;
    }
    Db::open(&options)
        .await
        .map_err(|error| Failure::refused("database", error.to_string()))
}

/// The app on an open database. `base` is the address of this server, for what is told to a chief.
pub(crate) fn app(config: &Config, db: Db, mcp_url: String, public_url: String) -> Result<App, Failure> {
    let deny_words = DenyWords::parse(config.text("MUSTER_FLOW_AGENT_DENY_WORDS").unwrap_or_default())
        .map_err(|error| Failure::refused("bad_setting", format!("MUSTER_FLOW_AGENT_DENY_WORDS: {error}")))?;
    Ok(App::new(
        db,
        Clock::system(),
        Settings {
            plugins: config.on("MUSTER_PLUGINS"),
            stepup_window: config.duration("MUSTER_STEPUP_WINDOW", std::time::Duration::from_secs(12 * 3600)),
            deny_words,
            mcp_url,
            data_dir: config.data_dir.clone(),
            command_needs: config.command_needs(),
            turn_watchdog: config.duration("MUSTER_CHIEF_WATCHDOG", std::time::Duration::from_secs(30 * 60)),
            public_url,
        },
    ))
}

/// Lets the library of sealed secrets warn on standard error, where a command says nothing else of what it does there: it closes a key that others
/// could read.
fn warns_of_the_key() {
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::filter::Targets;
    use tracing_subscriber::layer::SubscriberExt as _;
    use tracing_subscriber::util::SubscriberInitExt as _;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .with_filter(Targets::new().with_target("muster_app::seal", tracing::Level::WARN));
    // A second subscriber in one process cannot be, and is not needed.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// The app for a command that needs no running server. Where nothing of muster is yet, nothing is made either: the folder may be a slip of the pen,
/// and an empty answer about it would pass for one about another folder.
async fn offline(config: &Config) -> Result<App, Failure> {
    match config.missing_file() {
        None => offline_anew(config).await,
        Some(file) => Err(Failure::refused(
            "not_found",
            format!(
                "there is no owner yet: {} is not there, and nothing was made. If another data folder is meant, name it with --data-dir; to begin in this one: muster owner add NAME",
                file.display()
            ),
        )),
    }
}

/// The same for a command with which one begins.
async fn offline_anew(config: &Config) -> Result<App, Failure> {
    let db = open_db(config).await?;
    app(config, db, String::new(), base(config))
}

/// The base of links where no server of this process says it.
fn base(config: &Config) -> String {
    config
        .public_url()
        .unwrap_or_else(|| "http://localhost:7447".to_owned())
}

/// The account that was named for a command, by the flag or by MUSTER_OWNER.
fn named_owner(arg: &OwnerArg) -> Option<&str> {
    arg.owner.as_deref().or_else(|| WHOSE.get().map(String::as_str))
}

/// The owner a command works for: the one that the flag names, the one that MUSTER_OWNER names, or the only one.
async fn owner(app: &App, arg: &OwnerArg) -> Result<OwnerId, Failure> {
    if let Some(name) = &arg.owner {
        return muster_app::accounts::find(app, name)
            .await
            .map(|owner| owner.id)
            .map_err(account);
    }
    if let Some(name) = WHOSE.get() {
        let named = |failure: Failure| failure.about(&format!("MUSTER_OWNER is {}", terminal(name)));
        return muster_app::accounts::find(app, name)
            .await
            .map(|owner| owner.id)
            .map_err(|error| named(account(error)));
    }
    let owners = muster_app::accounts::list(app).await?;
    match owners.as_slice() {
        [only] => Ok(only.id),
        [] => Err(Failure::refused(
            "not_found",
            "there is no owner yet; make one with muster owner add NAME",
        )),
        several => {
            const MOST: usize = 20;
            let mut names: Vec<String> = several.iter().take(MOST).map(|one| terminal(&one.name)).collect();
            if several.len() > MOST {
                names.push(format!("{} more", several.len() - MOST));
            }
            Err(Failure::usage(format!(
                "there are several accounts, {}; say which with --owner NAME or the variable MUSTER_OWNER. Nothing was done",
                names.join(", ")
            )))
        }
    }
}

fn account(error: muster_app::accounts::AccountError) -> Failure {
    use muster_app::accounts::AccountError;
    match error {
        AccountError::Name | AccountError::Password => Failure::usage(error.to_string()),
        AccountError::NameTaken => Failure::refused("name_taken", error.to_string()),
        AccountError::NotFound => Failure::refused("not_found", error.to_string()),
        AccountError::AlreadySetUp => Failure::refused("already_set_up", error.to_string()),
        AccountError::Fault(fault) => fault.into(),
    }
}

fn field(error: &muster_core::text::TextError) -> Failure {
    Failure::usage(error.to_string())
}

/// A moment that may be missing, as JSON.
fn moment(time: Option<Time>) -> Value {
    time.map_or(Value::Null, |time| json!(time.rfc3339()))
}

/// A moment that may be missing, for a table.
fn moment_text(time: Option<Time>) -> String {
    time.map_or_else(|| "never".to_owned(), Time::rfc3339)
}
