//! Gemini CLI: the bus in its settings. Never touches what another server says.

use super::claude::server;
use super::{Entry, Settings, users};
use crate::output::Failure;

pub(super) fn files(entry: &Entry) -> Result<Vec<Settings>, Failure> {
    let folder = match &entry.project {
        Some(project) => project.clone(),
        None => users("GEMINI_CLI_HOME", "")?,
    };
    let path = folder.join(".gemini/settings.json");
    Ok(vec![Settings {
        path,
        edit: |text, entry| server(text, entry, None),
    }])
}
