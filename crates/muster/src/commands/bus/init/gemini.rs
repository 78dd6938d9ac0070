//! Gemini CLI: the bus in its settings. Never touches what another server says.

use super::claude::server;
use super::{Settings, users};
use crate::output::Failure;

pub(super) fn files() -> Result<Vec<Settings>, Failure> {
    let path = users("GEMINI_CLI_HOME", "")?.join(".gemini/settings.json");
    Ok(vec![Settings {
        path,
        edit: |text, entry| server(text, entry, None),
    }])
}
