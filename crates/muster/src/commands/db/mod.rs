//! `muster db`: the connections as they are stored, and the gateway for their owner. Never prints an address.

mod classify;
mod look;
mod shell;
mod table;

use muster_app::App;
use muster_app::databases::{
    self, Connection, DatabaseError, DbUrl, LastCheck, NewConnection, NewUrls, NewWrite,
};
use muster_core::Secret;
use muster_core::engine::Engine;
use muster_core::ids::OwnerId;
use muster_core::text::terminal;
use serde_json::{Value, json};

use super::{integration, offline, owner, project, shown, warns_of_the_key};
use crate::cli;
use crate::config::Config;
use crate::output::{self, Failure};

pub(super) use classify::classify;

/// What becomes of a connection whose account nobody could look at yet.
const UNSEEN: &str = "the server was not there when it was added; its account is looked at at the first use, and nothing is read before that";

pub(super) async fn run(config: &Config, command: cli::Db, json: bool) -> Result<(), Failure> {
    warns_of_the_key();
    let app = offline(config).await?;
    let done = on(&app, command, json).await;
    app.db.close().await;
    done
}

async fn on(app: &App, command: cli::Db, json: bool) -> Result<(), Failure> {
    match command {
        cli::Db::Add(args) => {
            let added = add(app, args).await?;
            if !json {
                output::notice(&format!(
                    "no agent reaches it before a grant says so: muster policy grant POLICY --layer task db_read db_connection:{} allow",
                    terminal(&added.name)
                ));
            }
            shown::made(json, &added.id.to_string(), || document(&added))
        }
        cli::Db::List { owner: whose } => {
            let owner = owner(app, &whose).await?;
            let all = databases::list(app, owner).await?;
            let unseen: Vec<String> = all
                .iter()
                .filter(|found| !found.looked)
                .map(|found| terminal(&found.name))
                .collect();
            if !json && !unseen.is_empty() {
                output::notice(&format!(
                    "muster: not looked at yet: {}: {UNSEEN}",
                    unseen.join(", ")
                ));
            }
            shown::list(
                json,
                || all.iter().map(document).collect(),
                &["ID", "NAME", "ENGINE", "PROJECT", "ACCOUNTS"],
                || all.iter().map(|found| cells(found).into()).collect(),
            )
        }
        cli::Db::Show {
            owner: whose,
            connection,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &connection).await?;
            if json {
                return output::document(&document(&found));
            }
            let [id, name, engine, project, mut accounts] = cells(&found);
            if !found.looked {
                accounts = format!("{accounts}: {UNSEEN}");
            }
            let check = databases::last_checks(app, owner).await?.remove(&found.id);
            shown::fields(&[
                ("id", id),
                ("name", name),
                ("engine", engine),
                ("project", project),
                ("accounts", accounts),
                ("last check", checked(check.as_ref())),
            ])
        }
        cli::Db::Test {
            owner: whose,
            connection,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &connection).await?;
            look::test(app, owner, &found, json).await
        }
        cli::Db::Check {
            owner: whose,
            connection,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &connection).await?;
            look::check(app, owner, &found, json).await
        }
        // Answered before anything was opened.
        cli::Db::Classify {
            engine,
            statement,
            from,
        } => classify(&engine, statement.as_deref(), from.as_deref(), json),
        cli::Db::Shell {
            owner: whose,
            connection,
            write,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &connection).await?;
            shell::run(app, owner, found, write, json).await
        }
        cli::Db::SetUrl(args) => {
            let changed = set_url(app, args).await?;
            shown::changed(json, || document(&changed))
        }
        cli::Db::Rename {
            owner: whose,
            connection,
            name,
        } => {
            let name = shown::name(name)?;
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &connection).await?;
            let renamed = databases::rename(app, owner, found.id, name)
                .await
                .map_err(refused)?;
            shown::changed(json, || document(&renamed))
        }
        cli::Db::Remove {
            owner: whose,
            connection,
        } => {
            let owner = owner(app, &whose).await?;
            let found = find(app, owner, &connection).await?;
            let removed = databases::remove(app, owner, found.id).await.map_err(refused)?;
            shown::changed(json, || document(&removed))
        }
    }
}

/// What the last self-test found.
fn checked(check: Option<&LastCheck>) -> String {
    let Some(check) = check else {
        return "none yet; muster db check makes one".to_owned();
    };
    let failed: Vec<String> = check.failed().map(terminal).collect();
    let found = if check.ok() {
        "everything held".to_owned()
    } else {
        format!("failed: {}", failed.join(", "))
    };
    format!("{}, {found}", check.at.rfc3339())
}

async fn add(app: &App, args: cli::DbAdd) -> Result<Connection, Failure> {
    let name = shown::name(args.name)?;
    // The clap rules leave exactly one of the two for the first, and at most one for the second.
    let url = address(args.url, true)?.ok_or_else(|| refused(DatabaseError::Url))?;
    let write_url = address(args.write_url, args.write_url_stdin)?;
    let gateway = look::gateway(&url, write_url.as_ref())?;
    let owner = owner(app, &args.owner).await?;
    let project = project::find(app, owner, &args.project).await?.id;
    // Before a look at a server that may take its time.
    match databases::find(app, owner, name.as_str()).await {
        Err(DatabaseError::NotFound) => {}
        Ok(_) => return Err(refused(DatabaseError::NameTaken)),
        Err(error) => return Err(refused(error)),
    }
    let account = look::account(&gateway, args.accept_wide_account).await?;
    let new = NewConnection {
        wide: account.wide,
        looked: account.looked,
        name,
        project,
        url,
        write_url,
    };
    databases::add(app, owner, new).await.map_err(refused)
}

/// What was found out about the new account counts; of one that is not replaced its owner's word does.
async fn set_url(app: &App, args: cli::DbSetUrl) -> Result<Connection, Failure> {
    let url = address(args.url, args.url_stdin)?;
    let write_url = address(args.write_url, args.write_url_stdin)?;
    let owner = owner(app, &args.owner).await?;
    let found = find(app, owner, &args.connection).await?;
    for new in [&url, &write_url].into_iter().flatten() {
        if new.engine() != found.engine {
            return Err(refused(DatabaseError::EngineStays));
        }
    }
    let accepted = args.accept_wide_account || (url.is_none() && found.wide);
    let stored = databases::url(app, owner, found.id).await.map_err(refused)?;
    let both = (
        url.clone().unwrap_or(stored.read),
        match (&write_url, args.no_write_url) {
            (Some(url), _) => Some(url.clone()),
            (None, true) => None,
            (None, false) => stored.write,
        },
    );
    let account = look::account(&look::gateway(&both.0, both.1.as_ref())?, accepted).await?;
    let new = NewUrls {
        read: url.map(|url| (url, account.wide, account.looked)),
        write: match write_url {
            Some(url) => NewWrite::Set(url),
            None if args.no_write_url => NewWrite::Removed,
            None => NewWrite::Kept,
        },
    };
    databases::set_url(app, owner, found.id, new)
        .await
        .map_err(refused)
}

/// An address of the command line, or of the next line of standard input where that was said.
fn address(given: Option<String>, on_stdin: bool) -> Result<Option<DbUrl>, Failure> {
    let url = match (given, on_stdin) {
        (Some(url), _) => Secret::new(url),
        (None, true) => shown::secret_line()?,
        (None, false) => return Ok(None),
    };
    DbUrl::parse(whole(url)?).map(Some).map_err(refused)
}

/// The address of a SQLite file with the whole of its path: one that begins where this command was called would lead elsewhere the next time.
fn whole(url: Secret) -> Result<Secret, Failure> {
    let split = url.expose().split_once("://");
    let Some((_, path)) = split.filter(|(scheme, _)| scheme.parse() == Ok(Engine::Sqlite)) else {
        return Ok(url);
    };
    let refused = |what: &str| {
        Failure::refused(
            "bad_url",
            format!("{what}; write sqlite:///PATH. Nothing was stored"),
        )
    };
    if path.is_empty() || path.starts_with(':') {
        return Err(refused("a SQLite address names a file"));
    }
    if path.starts_with('~') {
        return Err(refused(
            "a SQLite address is a path, and no shell has read the ~ in this one",
        ));
    }
    let path = std::path::absolute(path)?;
    if path.is_dir() {
        return Err(refused("the SQLite address names a folder"));
    }
    Ok(Secret::new(format!("sqlite://{}", path.display())))
}

async fn find(app: &App, owner: OwnerId, word: &str) -> Result<Connection, Failure> {
    databases::find(app, owner, word).await.map_err(refused)
}

fn document(found: &Connection) -> Value {
    json!({
        "id": found.id.to_string(),
        "name": found.name,
        "engine": found.engine.as_str(),
        "project": shown::resource("project", &found.project.id.to_string(), &found.project.name),
        "wide": found.wide,
        "looked": found.looked,
        "has_write_account": found.has_write_account,
    })
}

fn cells(found: &Connection) -> [String; 5] {
    let accounts = match (found.wide, found.has_write_account) {
        (false, false) => "one",
        (false, true) => "one that reads, one that writes",
        (true, false) => "one, wide",
        (true, true) => "one that reads (wide), one that writes",
    };
    let accounts = if found.looked {
        accounts.to_owned()
    } else {
        format!("{accounts}; not looked at yet")
    };
    [
        found.id.to_string(),
        found.name.clone(),
        found.engine.as_str().to_owned(),
        found.project.name.clone(),
        accounts,
    ]
}

fn refused(error: DatabaseError) -> Failure {
    let sentence = error.to_string();
    match error {
        DatabaseError::Url | DatabaseError::OtherEngine | DatabaseError::EngineStays => {
            Failure::usage(sentence)
        }
        DatabaseError::NameTaken => Failure::refused("name_taken", sentence),
        DatabaseError::NotFound | DatabaseError::NoProject => Failure::refused("not_found", sentence),
        DatabaseError::Seal(error) => integration::sealed(error),
        DatabaseError::Fault(fault) => fault.into(),
    }
}
