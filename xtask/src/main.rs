//! `cargo xtask`: turns arguments into one of the repository's tasks and its result into an exit code. Never holds a rule itself.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program answers on its standard streams"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use xtask::pg::{Cluster, Durability};
use xtask::tidy;

const USAGE: &str = "\
cargo xtask tidy                             check the house rules
cargo xtask pg start [--durable] [--in DIR]  start a private Postgres, print KEY=VALUE lines to eval
cargo xtask pg stop DIR                      stop it and remove its folder
cargo xtask ci                               run what continuous integration runs";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => run_tidy(),
        ["pg", "start", flags @ ..] => run_pg_start(flags),
        ["pg", "stop", dir] => done(Cluster::open(Path::new(dir)).and_then(Cluster::stop)),
        ["ci"] => run_ci(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => wrong_usage(),
    }
}

fn wrong_usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn done<E: std::fmt::Display>(result: Result<(), E>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_tidy() -> ExitCode {
    let tree = match tidy::Tree::read(&repository()) {
        Ok(tree) => tree,
        Err(error) => return done(Err(error)),
    };
    let report = tidy::check(&tree);
    for note in &report.notes {
        println!("note: {note}");
    }
    for finding in &report.findings {
        eprintln!("{finding}");
    }
    let files = tree.len();
    if report.findings.is_empty() {
        println!("tidy: {files} files, nothing to mend");
        return ExitCode::SUCCESS;
    }
    let count = report.findings.len();
    eprintln!("tidy: {files} files, {count} to mend");
    ExitCode::FAILURE
}

fn run_pg_start(flags: &[&str]) -> ExitCode {
    let mut durability = Durability::Fast;
    let mut parent = None;
    let mut rest = flags.iter();
    while let Some(flag) = rest.next() {
        match (*flag, rest.len()) {
            ("--durable", _) => durability = Durability::Durable,
            ("--in", 1..) => parent = rest.next().map(PathBuf::from),
            _ => return wrong_usage(),
        }
    }
    let started = match parent {
        Some(parent) => Cluster::start_in(&parent, durability),
        None => Cluster::start(durability),
    };
    done(started.map(|cluster| {
        println!("MUSTER_TEST_PG_ADMIN_URL={}", cluster.admin_url());
        println!("MUSTER_TEST_PG_URL={}", cluster.app_url());
        println!("MUSTER_TEST_PG_DIR={}", cluster.leave().display());
    }))
}

fn run_ci() -> ExitCode {
    let script = repository().join(".ci/run");
    match Command::new("bash").arg(&script).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => done(Err(format!(
            "bash could not be started for {}: {error}",
            script.display()
        ))),
    }
}

/// The root of the repository that this program was built from.
fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
