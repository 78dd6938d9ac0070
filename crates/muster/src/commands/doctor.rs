//! `muster doctor`: looks at the installation, the bus's directory with it, and says what is wrong. Never repairs.

use std::os::unix::fs::PermissionsExt as _;

use muster_app::databases::DatabaseError;
use muster_app::integrations::IntegrationError;
use muster_app::{accounts, audit, chief, databases, integrations, plugins, policies, seal, settings};
use muster_core::text::terminal;
use serde_json::{Value, json};

use super::chief::missing;
use super::{app, base, connect, database};
use crate::config::Config;
use crate::output::{self, Failure};

struct Finding {
    ok: bool,
    what: &'static str,
    detail: String,
}

pub(super) async fn run(config: &Config, json: bool) -> Result<(), Failure> {
    let mut findings = vec![folder(config), secrets(config)];
    // Before it is opened: opening makes what is missing.
    findings.extend(database::exposed(config).iter().map(|file| Finding {
        ok: false,
        what: "database file",
        detail: format!(
            "{} has mode {:03o}, so other users of this machine may read or write it; chmod 600 it (muster serve does)",
            database::shown(&file.path),
            file.mode
        ),
    }));
    findings.push(switch(config));
    findings.extend(stored(config).await?);
    let (ok, detail) = super::bus::health();
    findings.push(Finding {
        ok,
        what: "bus",
        detail,
    });
    let (ok, detail) = super::plugins::health(config);
    findings.push(Finding {
        ok,
        what: "packages",
        detail,
    });
    for name in Config::unknown() {
        findings.push(Finding {
            ok: false,
            what: "settings",
            detail: format!(
                "{name} is set but muster does not know it; muster config docs lists what there is"
            ),
        });
    }
    let healthy = findings.iter().all(|f| f.ok);
    if json {
        let all: Vec<Value> = findings
            .iter()
            .map(|f| json!({"check": f.what, "ok": f.ok, "detail": f.detail}))
            .collect();
        output::document(&json!({"ok": healthy, "findings": all}))?;
    } else {
        let rows: Vec<Vec<String>> = findings
            .iter()
            .map(|f| {
                vec![
                    if f.ok { "ok" } else { "PROBLEM" }.to_owned(),
                    f.what.to_owned(),
                    f.detail.clone(),
                ]
            })
            .collect();
        output::table(&["", "CHECK", "DETAIL"], &rows)?;
    }
    if healthy { Ok(()) } else { Err(Failure::silent()) }
}

/// The database and what it holds. A file that is not there is not made by looking for it.
async fn stored(config: &Config) -> Result<Vec<Finding>, Failure> {
    if let Some(file) = config.database_file().filter(|file| !file.exists()) {
        let file = database::shown(&file);
        return Ok(vec![
            Finding {
                ok: true,
                what: "database",
                detail: format!("{file} is not made yet; muster serve makes it"),
            },
            nobody(),
        ]);
    }
    let db = match connect(config).await {
        Ok(db) => db,
        Err(failure) => {
            return Ok(vec![Finding {
                ok: false,
                what: "database",
                detail: failure.sentence().to_owned(),
            }]);
        }
    };
    let mut findings = vec![Finding {
        ok: true,
        what: "database",
        detail: format!("{:?}, at this version's schema", db.engine()),
    }];
    let app = app(config, db, String::new(), base(config))?;
    let mut held = all_secrets(&app).await;
    let owners = owners(&app).await;
    app.db.close().await;
    findings.append(&mut held);
    findings.extend(owners?);
    Ok(findings)
}

/// Whether what is stored sealed can be opened: a data folder that was copied or put back without its key looks whole otherwise.
async fn all_secrets(app: &muster_app::App) -> Vec<Finding> {
    let problem = |detail: String| Finding {
        ok: false,
        what: "secrets",
        detail,
    };
    if let Err(error) = seal::looked(app).await {
        return vec![problem(error.to_string())];
    }
    let mut findings = Vec::new();
    for owner in accounts::list(app).await.unwrap_or_default() {
        for one in databases::list(app, owner.id).await.unwrap_or_default() {
            if let Err(error @ DatabaseError::Seal(_)) = databases::url(app, owner.id, one.id).await {
                let name = terminal(&one.name);
                findings.push(problem(format!("{}, database {name}: {error}", owner.name)));
            }
        }
        for one in integrations::list(app, owner.id).await.unwrap_or_default() {
            if let Err(error @ IntegrationError::Seal(_)) =
                integrations::credential(app, owner.id, one.id).await
            {
                let name = terminal(&one.name);
                findings.push(problem(format!("{}, integration {name}: {error}", owner.name)));
            }
        }
    }
    findings
}

/// Whether connectors are let in. Off is a choice and no problem, but it is what a newcomer overlooks.
fn switch(config: &Config) -> Finding {
    let detail = if config.on("MUSTER_PLUGINS") {
        "MUSTER_PLUGINS is on"
    } else {
        "MUSTER_PLUGINS is off here, so a server that is started with these settings takes no connectors and its chief can draft no replies; MUSTER_PLUGINS=1 turns both on (a server that runs already has settings of its own)"
    };
    Finding {
        ok: true,
        what: "connectors",
        detail: detail.to_owned(),
    }
}

fn nobody() -> Finding {
    Finding {
        ok: false,
        what: "owners",
        detail: "there is none; muster owner add NAME makes one".to_owned(),
    }
}

fn folder(config: &Config) -> Finding {
    let what = "data folder";
    match std::fs::metadata(&config.data_dir) {
        Ok(found) if found.permissions().mode() & 0o077 != 0 => Finding {
            ok: false,
            what,
            detail: format!(
                "{} can be read by others; chmod 700 it",
                config.data_dir.display()
            ),
        },
        Ok(_) => Finding {
            ok: true,
            what,
            detail: config.data_dir.display().to_string(),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Finding {
            ok: true,
            what,
            detail: format!(
                "{} is not made yet; muster serve makes it",
                config.data_dir.display()
            ),
        },
        Err(error) => Finding {
            ok: false,
            what,
            detail: format!("{}: {error}", config.data_dir.display()),
        },
    }
}

fn secrets(config: &Config) -> Finding {
    let file = config.data_dir.join("muster.toml");
    let open = std::fs::metadata(&file).is_ok_and(|found| found.permissions().mode() & 0o077 != 0);
    let detail = if open {
        format!("{} can be read by others; chmod 600 it", file.display())
    } else {
        "every value can be used".to_owned()
    };
    Finding {
        ok: !open,
        what: "settings",
        detail,
    }
}

async fn owners(app: &muster_app::App) -> Result<Vec<Finding>, Failure> {
    let owners = accounts::list(app).await?;
    if owners.is_empty() {
        return Ok(vec![nobody()]);
    }
    let mut findings = Vec::new();
    for owner in owners.iter().filter(|owner| owner.disabled_at.is_none()) {
        let live = plugins::list(app, owner.id)
            .await?
            .iter()
            .filter(|p| p.revoked_at.is_none())
            .count();
        let connectors = if live == 1 {
            "1 connector".to_owned()
        } else {
            format!("{live} connectors")
        };
        let chief = chief::show(app, owner.id).await?;
        let (ok, detail) = match chief {
            Some(chief) => match missing(app, chief.id, &chief.command) {
                None => (
                    true,
                    format!("{}: chief {}, {connectors}", owner.name, chief.kind),
                ),
                Some(sentence) => (false, format!("{}: {sentence}", owner.name)),
            },
            None if live > 0 => (
                false,
                format!(
                    "{}: {connectors} but no chief, so messages wait; muster chief set",
                    owner.name
                ),
            ),
            None => (true, format!("{}: no chief, no connectors", owner.name)),
        };
        findings.push(Finding {
            ok,
            what: "owner",
            detail,
        });
        findings.extend(unreadable(app, owner.id, &owner.name).await);
        findings.extend(orphans(app, owner.id, &owner.name).await?);
        let chain = audit::verify(&app.db, owner.id).await?;
        if !chain.ok {
            let from = chain.first_bad.map_or_else(
                || "its end is missing".to_owned(),
                |id| format!("row {id} does not follow the one before it"),
            );
            findings.push(Finding {
                ok: false,
                what: "audit log",
                detail: format!(
                    "{}: somebody changed it past muster; {from}. muster audit verify goes along it, a backup holds what it was",
                    owner.name
                ),
            });
        }
    }
    Ok(findings)
}

/// Layers that are left of policies that are gone, and what that means.
async fn orphans(
    app: &muster_app::App,
    owner: muster_core::ids::OwnerId,
    name: &str,
) -> Result<Vec<Finding>, Failure> {
    let all = policies::orphans(app, owner).await?;
    let finding = |orphan: policies::Orphan| {
        let (layers, policy) = (terminal(&orphan.layers.join(", ")), orphan.policy);
        let means = if orphan.dependents.is_empty() {
            "nothing points at it any more".to_owned()
        } else {
            let whose = orphan.dependents;
            format!(
                "{whose} still point at it, and every call under it is refused; muster policy attach gives a task another policy"
            )
        };
        Finding {
            ok: false,
            what: "policies",
            detail: format!(
                "{name}: policy {policy} is gone and its layers ({layers}) are still there: somebody changed the database past muster. They grant nothing; {means}"
            ),
        }
    };
    Ok(all.into_iter().map(finding).collect())
}

/// Settings whose stored value is none that they take, with what counts meanwhile.
async fn unreadable(app: &muster_app::App, owner: muster_core::ids::OwnerId, name: &str) -> Vec<Finding> {
    let all = settings::list(app, owner).await;
    let broken = all.into_iter().filter(|setting| setting.value.is_null());
    broken
        .map(|setting| Finding {
            ok: false,
            what: "setting",
            detail: format!(
                "{name}: what is stored for {key} is no value that it takes, so calls are refused or its default counts; muster setting set {key} {default} puts it right",
                key = setting.key,
                default = setting.default
            ),
        })
        .collect()
}
