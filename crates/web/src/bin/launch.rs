//! The launcher as a program of its own. Never does more than hand its words to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster_plugin_host::launch::run(std::env::args_os().skip(1))
}
