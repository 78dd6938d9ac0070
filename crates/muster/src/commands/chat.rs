//! `muster chat`: a person among the agents. Never needs the database, a running server or an account.

use muster_bus::limits::Limits;
use muster_tui::{ChatError, Options};

use super::bus;
use crate::cli::{BusDoctor, Chat};
use crate::output::{self, Failure};

pub(super) fn run(args: Chat, json: bool) -> Result<(), Failure> {
    if json && args.doctor {
        let how = BusDoctor {
            dir: args.dir,
            fix: args.fix,
            max_file_bytes: None,
        };
        return bus::doctor::run(&how, json);
    }
    if json {
        return Err(Failure::usage(
            "a conversation is no JSON document; leave --json out. Nothing was started",
        ));
    }
    let (limits, said) = Limits::of(|name| std::env::var(name).ok());
    for sentence in said {
        output::notice(&format!("muster: {sentence}"));
    }
    let options = Options {
        dir: bus::folder(args.dir.as_deref())?,
        limits,
        id: args.id,
        plain: args.plain,
        doctor: args.doctor.then_some(args.fix),
    };
    muster_tui::run(options).map_err(|error| match error {
        ChatError::Unhealthy => Failure::silent(),
        ChatError::Usage(sentence) => Failure::usage(sentence),
        other => Failure::refused(other.code(), other.to_string()),
    })
}
