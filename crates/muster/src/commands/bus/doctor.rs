//! `muster bus doctor`: the same report as the tool `doctor`. Never repairs without `--fix`.

use muster_bus::doctor::{Options, doctor_at};
use muster_bus::limits::Limits;
use muster_core::Clock;
use serde_json::json;

use super::{folder, refused};
use crate::cli::BusDoctor;
use crate::output::{self, Failure};

pub(in crate::commands) fn run(args: &BusDoctor, json: bool) -> Result<(), Failure> {
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
        for line in report.lines() {
            output::line(&line)?;
        }
    }
    if report.healthy {
        Ok(())
    } else {
        Err(Failure::silent())
    }
}
