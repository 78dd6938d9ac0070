//! `muster doctor`: looks at the installation and says what is wrong. Never repairs.

use std::os::unix::fs::PermissionsExt as _;

use muster_app::{accounts, chief, plugins};
use serde_json::{Value, json};

use super::{app, base, database, open_db};
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
    match open_db(config).await {
        Ok(db) => {
            findings.push(Finding {
                ok: true,
                what: "database",
                detail: format!("{:?}, at this version's schema", db.engine()),
            });
            let app = app(config, db, String::new(), base(config))?;
            findings.extend(owners(&app).await?);
            app.db.close().await;
        }
        Err(failure) => findings.push(Finding {
            ok: false,
            what: "database",
            detail: failure.sentence().to_owned(),
        }),
    }
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
            detail: format!("{} does not exist yet", config.data_dir.display()),
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
        return Ok(vec![Finding {
            ok: false,
            what: "owners",
            detail: "there is none; muster owner add NAME makes one".to_owned(),
        }]);
    }
    let mut findings = Vec::new();
    for owner in owners.iter().filter(|owner| owner.disabled_at.is_none()) {
        let live = plugins::list(app, owner.id)
            .await?
            .iter()
            .filter(|p| p.revoked_at.is_none())
            .count();
        let chief = chief::show(app, owner.id).await?;
        let (ok, detail) = match chief {
            Some(chief) if found(&chief.command) => (
                true,
                format!("{}: chief {}, {live} connectors", owner.name, chief.kind),
            ),
            Some(chief) => (
                false,
                format!(
                    "{}: the chief's program is not found on this machine: {}",
                    owner.name, chief.command
                ),
            ),
            None if live > 0 => (
                false,
                format!(
                    "{}: {live} connectors but no chief, so messages wait; muster chief set",
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
    }
    Ok(findings)
}

/// Whether the first word of a command names a program here.
fn found(command: &str) -> bool {
    let Ok(program) = muster_runtime::Program::parse(command) else {
        return false;
    };
    let executable = |path: &std::path::Path| {
        std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let name = std::path::Path::new(program.name());
    if name.components().count() > 1 {
        return executable(name);
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| executable(&dir.join(name))))
}
