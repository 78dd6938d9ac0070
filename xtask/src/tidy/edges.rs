//! Rules about who may know whom: edges between crates, imports that a crate must not have, walls between the slices of `app`. Never builds anything.

use super::rust::{code_only, paths};
use super::{Report, Tree};

/// Each crate's folder and the crates of this repository that it may use. Development dependencies are free.
const EDGES: [(&str, Ours); 20] = [
    ("crates/core", Ours::Only(&[])),
    ("crates/policy", Ours::Only(&["muster-core"])),
    ("crates/forge", Ours::Only(&["muster-core", "muster-policy"])),
    ("crates/worktree", Ours::Only(&["muster-core"])),
    ("crates/wire", Ours::Only(&["muster-core"])),
    ("crates/store", Ours::Only(&["muster-core"])),
    ("crates/runtime", Ours::Only(&["muster-core"])),
    ("crates/bus", Ours::Only(&["muster-core"])),
    ("crates/plugin-host", Ours::Only(&["muster-core"])),
    ("crates/mirror", Ours::Only(&["muster-core", "muster-bus"])),
    ("crates/db-gateway", Ours::Only(&["muster-core", "muster-policy"])),
    ("crates/tui", Ours::Only(&["muster-core", "muster-bus"])),
    (
        "crates/app",
        Ours::Only(&[
            "muster-core",
            "muster-policy",
            "muster-runtime",
            "muster-store",
            "muster-worktree",
        ]),
    ),
    (
        "crates/web",
        Ours::Only(&[
            "muster-core",
            "muster-policy",
            "muster-db-gateway",
            "muster-forge",
            "muster-plugin-host",
            "muster-worktree",
            "muster-app",
            "muster-bus",
            "muster-wire",
        ]),
    ),
    ("crates/muster", Ours::Any),
    ("crates/testkit", Ours::Any),
    // The worked example for authors of connectors: it may know only what they know, the documented HTTP interface.
    ("connectors/maildir", Ours::Only(&[])),
    // A package for authors to begin from: it knows the protocol, not muster.
    ("examples/plugins/word-count", Ours::Only(&[])),
    // Measures the program from outside; fills databases through the store.
    (
        "benches",
        Ours::Only(&[
            "muster-core",
            "muster-db-gateway",
            "muster-plugin-host",
            "muster-policy",
            "muster-store",
        ]),
    ),
    ("xtask", Ours::Only(&[])),
];

enum Ours {
    Any,
    Only(&'static [&'static str]),
}

/// A crate from outside (and those named after it with a dash) and the only folders that may use it.
const GUARDED: [(&str, &[&str]); 11] = [
    (
        "sqlx",
        &["crates/store", "crates/app", "crates/testkit", "benches"],
    ),
    ("axum", &["crates/web", "crates/testkit"]),
    ("tower-http", &["crates/web", "crates/testkit"]),
    ("askama", &["crates/web"]),
    // benches: a server that is measured is written with it.
    (
        "rmcp",
        &["crates/web", "crates/muster", "crates/testkit", "benches"],
    ),
    ("agent-client-protocol", &["crates/runtime", "crates/testkit"]),
    ("octocrab", &["crates/forge"]),
    ("ratatui", &["crates/tui"]),
    ("crossterm", &["crates/tui"]),
    ("xtask", &["crates/testkit", "benches"]),
    ("muster-testkit", &[]),
];

/// `core` is words only: nothing that waits, listens, stores or draws.
const NOT_IN_CORE: [&str; 8] = [
    "tokio", "sqlx", "axum", "hyper", "reqwest", "rmcp", "futures", "tower",
];
const NOT_IMPORTED_BY_CORE: [&str; 7] = [
    "std::fs",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::process",
    "std::thread",
];

/// With the cargo feature `test-clock` the clock reads the file that a test sets it with.
const CLOCK: (&str, &str) = ("crates/core/src/clock.rs", "std::fs::read_to_string");

/// Parts of a slice that only the slice itself may name.
const INSIDES: [&str; 2] = ["sql", "state"];

/// Checks each crate's manifest against the tables above, and that it inherits the lints.
pub(super) fn crates(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.texts() {
        let Some(folder) = path
            .strip_suffix("/Cargo.toml")
            .filter(|folder| *folder != "fuzz")
        else {
            continue;
        };
        if !inherits_lints(text) {
            report.finding(
                path,
                1,
                "the crate must take the workspace's lints: `[lints]` with `workspace = true`",
            );
        }
        let Some((_, ours)) = EDGES.iter().find(|(known, _)| *known == folder) else {
            report.finding(
                path,
                1,
                format!("{folder} is not in the table of crates in xtask/src/tidy/edges.rs"),
            );
            continue;
        };
        for (line, name) in dependencies(text) {
            if let (Ours::Only(allowed), true) = (ours, name.starts_with("muster"))
                && !allowed.contains(&name)
            {
                report.finding(path, line, format!("{folder} must not know {name}"));
            }
            if folder == "crates/core" && NOT_IN_CORE.iter().any(|crate_| is_or_extends(name, crate_)) {
                report.finding(path, line, format!("core does no I/O and must not know {name}"));
            }
            for (guarded, allowed) in GUARDED {
                if is_or_extends(name, guarded) && !allowed.contains(&folder) {
                    let home = if allowed.is_empty() {
                        "dev-dependencies".to_owned()
                    } else {
                        allowed.join(" or ")
                    };
                    report.finding(path, line, format!("{name} belongs in {home}, not in {folder}"));
                }
            }
        }
    }
}

/// Checks what single files import although the manifest allows the crate.
pub(super) fn imports(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.rust() {
        if path.starts_with("crates/core/src/") {
            for (line, named) in paths(&code_only(text)) {
                if NOT_IMPORTED_BY_CORE.iter().any(|banned| is_below(&named, banned))
                    && (path, named.as_str()) != CLOCK
                {
                    report.finding(
                        path,
                        line,
                        format!("core does no I/O and must not import {named}"),
                    );
                }
            }
        }
        if path.starts_with("crates/app/src/") {
            for (line, named) in paths(&code_only(text)) {
                if is_below(&named, "sqlx") && !is_below(&named, "sqlx::FromRow") {
                    report.finding(
                        path,
                        line,
                        format!("app reaches the database through store; of sqlx only FromRow, not {named}"),
                    );
                }
            }
        }
    }
}

/// A slice may call another slice and name its types, never its statements or its states.
pub(super) fn slices(tree: &Tree, report: &mut Report) {
    for (path, text) in tree.rust() {
        let Some(inside) = path
            .strip_prefix("crates/app/src/")
            .and_then(|rest| rest.strip_suffix(".rs"))
        else {
            continue;
        };
        // lib.rs and the catalogue see all slices; every other file belongs to the slice it is named after.
        if inside == "lib" || inside == "catalogue" {
            continue;
        }
        let slice = inside.split('/').next().unwrap_or(inside);
        for (line, named) in paths(&code_only(text)) {
            let Some(absolute) = absolute(inside, &named) else {
                continue;
            };
            let mut segments = absolute.split("::");
            if let (Some(other), Some(part)) = (segments.next(), segments.next())
                && other != slice
                && INSIDES.contains(&part)
            {
                report.finding(
                    path,
                    line,
                    format!("{slice} must not reach into {other}::{part}: call its acts instead"),
                );
            }
        }
    }
}

/// The path from the crate's root, for a path that begins with `crate` or leads there by `super`.
fn absolute(file: &str, named: &str) -> Option<String> {
    if let Some(rest) = named.strip_prefix("crate::") {
        return Some(rest.to_owned());
    }
    let file = file.strip_suffix("/mod").unwrap_or(file);
    let mut module: Vec<&str> = file.split('/').collect();
    let mut rest = named;
    while let Some(after) = rest.strip_prefix("super::") {
        module.pop();
        rest = after;
    }
    (rest != named).then(|| [module.as_slice(), &[rest]].concat().join("::"))
}

fn is_or_extends(name: &str, crate_: &str) -> bool {
    name.strip_prefix(crate_)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

fn is_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn inherits_lints(manifest: &str) -> bool {
    let mut section = "";
    manifest.lines().map(str::trim).any(|line| {
        if line.starts_with('[') {
            section = line;
        }
        let spaceless: String = line.split_whitespace().collect();
        section == "[lints]" && spaceless == "workspace=true"
    })
}

/// Names under `[dependencies]`, `[build-dependencies]` and their per-target forms, each with its line.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut listing = false;
    for (number, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let (table, last) = section.rsplit_once('.').unwrap_or(("", section));
            listing = is_listing(last);
            // `[dependencies.name]` names one in the heading itself.
            if is_listing(table.rsplit('.').next().unwrap_or(table)) {
                found.push((number + 1, last));
            }
        } else if listing && !line.starts_with('#') {
            let name = line
                .split(['=', '.', ' '])
                .next()
                .unwrap_or_default()
                .trim_matches('"');
            // What does not look like a name is the inside of a list that goes over several lines.
            if !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
            {
                found.push((number + 1, name));
            }
        }
    }
    found
}

fn is_listing(table: &str) -> bool {
    table == "dependencies" || table == "build-dependencies"
}
