//! `muster bus doctor`: the same report as the tool `doctor`. Never repairs without `--fix`.

use muster_bus::doctor::{Options, Severity, doctor_at};
use muster_bus::limits::Limits;
use muster_core::Clock;
use serde_json::json;

use super::{folder, refused};
use crate::cli::BusDoctor;
use crate::output::{self, Failure};

pub(super) fn run(args: &BusDoctor, json: bool) -> Result<(), Failure> {
    let options = Options {
        fix: args.fix,
        max_file_bytes: args.max_file_bytes,
        ..Options::default()
    };
    let (limits, said) = Limits::of(|name| std::env::var(name).ok());
    for sentence in said {
        output::notice(&format!("muster: {sentence}"));
    }
    let report =
        doctor_at(&folder(args.dir.as_deref())?, limits, &Clock::system(), &options).map_err(refused)?;
    if json {
        output::document(&json!(report))?;
    } else {
        for finding in &report.findings {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "info",
            };
            let fixed = if finding.fixed == Some(true) {
                " (repaired)"
            } else {
                ""
            };
            output::line(&format!(
                "{severity}: {} {}: {}{fixed}",
                finding.check, finding.subject, finding.message
            ))?;
        }
        output::line(if report.healthy {
            "healthy: the bus is internally consistent"
        } else {
            "not healthy: `muster bus doctor --fix` applies the safe, reversible repairs"
        })?;
    }
    if report.healthy {
        Ok(())
    } else {
        Err(Failure::silent())
    }
}
