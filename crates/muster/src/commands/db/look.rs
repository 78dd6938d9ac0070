//! What a database's own server says of the accounts of a connection, and whether the guarantees hold on it. Never reads the data.

use muster_app::App;
use muster_app::databases::{self, Checked, Connection, DbUrl};
use muster_core::ids::OwnerId;
use muster_core::text::terminal;
use muster_db_gateway::{Connection as Gateway, Engine, Error, Guarantee, Url, Wide};
use muster_policy::{Resource, ScopeKind};
use muster_web::databases::{NotOpened, check as tried, open};
use serde_json::json;

use super::refused;
use crate::output::{self, Failure};

/// The gateway to a database that is not stored yet.
pub(super) fn gateway(url: &DbUrl, write_url: Option<&DbUrl>) -> Result<Gateway, Failure> {
    let parsed = |url: &DbUrl| {
        Url::parse(url.secret().expose())
            .map_err(|error| Failure::usage(format!("{error} Nothing was stored.")))
    };
    let write = write_url.map(parsed).transpose()?;
    // No permit is ever asked for in its name.
    let nameless = Resource::new(ScopeKind::DbConnection, "0");
    let nameless = nameless.map_err(|error| Failure::refused("fault", error.to_string()))?;
    Gateway::new(nameless, parsed(url)?, write).map_err(|_| refused(databases::DatabaseError::OtherEngine))
}

/// What was found out about the account that reads.
pub(super) struct Account {
    /// Whether it may do more than read.
    pub(super) wide: bool,
    /// Whether it was looked at. One that is wide and was not was taken unseen.
    pub(super) looked: bool,
}

/// Whether the account that reads may do more. One that may is taken only from who accepts it; one that the server does not let in from nobody.
/// Where no server is there it is found out later, or taken as wide from who accepts that.
pub(super) async fn account(gateway: &Gateway, accepted: bool) -> Result<Account, Failure> {
    let seen = |wide| Account { wide, looked: true };
    if gateway.engine() == Engine::Sqlite {
        // A file has no accounts, and may well be made later.
        for tried in [gateway.test().await.map(Some), gateway.test_write().await] {
            match tried {
                Err(Error::Own) => return Err(own()),
                Err(error) => {
                    output::notice(&terminal(&format!(
                        "muster: {} It is stored all the same; muster db test tells when it is there",
                        sentence(&error)
                    )));
                    break;
                }
                Ok(_) => {}
            }
        }
        return Ok(seen(false));
    }
    let found = match gateway.wide().await {
        Ok(found) => found,
        Err(error) if accepted && error.is_away() => {
            unseen(&error);
            return Ok(Account {
                wide: true,
                looked: false,
            });
        }
        Err(error) if error.is_away() => {
            output::notice(&terminal(&format!(
                "muster: {error} So its account could not be looked at: it is stored, and nothing is read through it until that was done, which happens by itself at the first use, or by muster db check"
            )));
            return Ok(Account {
                wide: false,
                looked: false,
            });
        }
        Err(error) => return Err(unreached(&error, "--url")),
    };
    if found.wide && !accepted {
        let sentence = format!(
            "the account of --url may do more than read, so nothing was stored. {} Make one that only reads and add that, or take this one with --accept-wide-account",
            found.reasons.join(" ")
        );
        return Err(too_wide(&found, &sentence));
    }
    match gateway.test_write().await {
        Ok(_) => Ok(seen(found.wide)),
        Err(error) if error.is_away() => {
            output::notice(&terminal(&format!(
                "muster: with the account that writes: {} It is stored all the same",
                sentence(&error)
            )));
            Ok(seen(found.wide))
        }
        Err(error) => Err(unreached(&error, "--write-url")),
    }
}

/// An engine's words with a full stop behind them.
fn sentence(error: &Error) -> String {
    let mut text = error.to_string();
    if !text.ends_with(['.', '!', '?']) {
        text.push('.');
    }
    text
}

fn too_wide(found: &Wide, sentence: &str) -> Failure {
    let mut lines = found.statements.clone();
    lines.insert(0, "These statements, run by an administrator in the very database that is added, make an account that only reads (CHANGE_ME is its password; where the account is there already, leave the first one out):".to_owned());
    Failure::refused("wide_account", terminal(sentence))
        .with("reasons", json!(found.reasons))
        .with("statements", json!(found.statements))
        .with_lines(lines)
}

fn unseen(error: &Error) {
    output::notice(&terminal(&format!(
        "muster: {error} So what the account may do is not known: it is stored, and marked as wide. Add it again when the database is there"
    )));
}

/// The word of a server that did not answer as it should.
fn word(error: &Error) -> &'static str {
    match error.engine_code() {
        Some("unreachable") => "unreachable",
        Some("sign_in") => "sign_in",
        Some("timeout") => "timeout",
        Some("own_database") => "own_database",
        _ => error.code(),
    }
}

fn failed(error: &Error, sentence: &str) -> Failure {
    let failure = Failure::refused(word(error), terminal(sentence));
    match error.engine_code() {
        Some(code) => failure.with("engine_code", json!(code)),
        None => failure,
    }
}

fn own() -> Failure {
    failed(&Error::Own, &format!("{} Nothing was stored.", Error::Own))
}

fn unreached(error: &Error, which: &str) -> Failure {
    if *error == Error::Own {
        return own();
    }
    failed(
        error,
        &format!("what the account of {which} may do could not be looked at, so nothing was stored. {error}"),
    )
}

/// The gateway to a stored database.
pub(super) async fn stored(app: &App, owner: OwnerId, found: &Connection) -> Result<Gateway, Failure> {
    open(app, owner, found.id).await.map_err(not_opened)
}

fn not_opened(error: NotOpened) -> Failure {
    let sentence = error.to_string();
    match error {
        NotOpened::Stored(error) => refused(error),
        NotOpened::Address(_) | NotOpened::Together(_) => Failure::refused("bad_address", sentence),
        NotOpened::Unseen(error) => failed(&error, &sentence),
        NotOpened::Wide(found) => too_wide(&found, &sentence),
    }
}

/// Reaches the server with each account, and says of each what it found.
pub(super) async fn test(app: &App, owner: OwnerId, found: &Connection, json: bool) -> Result<(), Failure> {
    let gateway = stored(app, owner, found).await?;
    let which = |account: &str, what: &str| match found.has_write_account {
        true => format!("the account that {account}: {what}"),
        false => what.to_owned(),
    };
    let version = gateway
        .test()
        .await
        .map_err(|error| failed(&error, &which("reads", &error.to_string())))?;
    if !json {
        output::line(&terminal(&which("reads", &version)))?;
    }
    let writes = gateway
        .test_write()
        .await
        .map_err(|error| failed(&error, &which("writes", &error.to_string())))?;
    if json {
        return output::document(&json!({"ok": true, "version": version, "write_version": writes}));
    }
    match writes {
        Some(version) => output::line(&terminal(&which("writes", &version))),
        None => Ok(()),
    }
}

/// Tries the guarantees, and writes what came of it into the audit log.
pub(super) async fn check(app: &App, owner: OwnerId, found: &Connection, json: bool) -> Result<(), Failure> {
    let guarantees = tried(app, owner, found.id).await.map_err(not_opened)?;
    let checked: Vec<Checked> = guarantees.iter().map(of).collect();
    databases::checked(app, owner, found.id, checked)
        .await
        .map_err(refused)?;
    let ok = guarantees.iter().all(|one| one.ok);
    if json {
        output::document(
            &json!({"ok": ok, "guarantees": guarantees.iter().map(document).collect::<Vec<_>>()}),
        )?;
    } else {
        let rows: Vec<Vec<String>> = guarantees
            .iter()
            .map(|one| {
                let holds = if one.ok { "holds" } else { "FAILS" };
                vec![holds.to_owned(), one.id.to_owned(), one.detail.clone()]
            })
            .collect();
        output::table(&["", "GUARANTEE", "WHAT WAS TRIED"], &rows)?;
        let failed: Vec<&str> = guarantees
            .iter()
            .filter(|one| !one.ok)
            .map(|one| one.id)
            .collect();
        output::notice(&match failed.as_slice() {
            [] => format!("muster: all {} hold", guarantees.len()),
            some => format!(
                "muster: {} of {} do not hold: {}; each says above what to do",
                some.len(),
                guarantees.len(),
                some.join(", ")
            ),
        });
    }
    if ok { Ok(()) } else { Err(Failure::silent()) }
}

fn of(one: &Guarantee) -> Checked {
    Checked {
        id: one.id.to_owned(),
        ok: one.ok,
        detail: one.detail.clone(),
    }
}

fn document(one: &Guarantee) -> serde_json::Value {
    json!({"id": one.id, "ok": one.ok, "detail": one.detail})
}
