//! The human seat as a program of its own, for trying it without the rest of muster. Never used by anything but tests and the curious.

use std::path::PathBuf;
use std::process::ExitCode;

use muster_bus::limits::Limits;
use muster_tui::{ChatError, Options, run};

fn main() -> ExitCode {
    let mut options = Options {
        dir: PathBuf::from(std::env::var_os("AGENT_COORD_DIR").unwrap_or_default()),
        limits: Limits::of(|name| std::env::var(name).ok()).0,
        id: None,
        plain: false,
        doctor: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--id" => options.id = args.next(),
            "--dir" => options.dir = PathBuf::from(args.next().unwrap_or_default()),
            "--plain" => options.plain = true,
            "--doctor" => options.doctor = Some(options.doctor.unwrap_or(false)),
            "--fix" => options.doctor = Some(true),
            _ => return ExitCode::from(2),
        }
    }
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ChatError::Unhealthy) => ExitCode::FAILURE,
        Err(error) => {
            use std::io::Write as _;
            let _ = writeln!(std::io::stderr(), "chat: {error}");
            ExitCode::FAILURE
        }
    }
}
