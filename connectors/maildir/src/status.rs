//! Shows a person what needs their eyes: mails set aside, replies whose fate is unknown. Never shows text of a mail.

use std::io::Write as _;
use std::path::Path;

use crate::error::{ConnectorError, Tried as _};
use crate::state::State;

/// Prints both lists; a connector may be running beside.
pub(crate) fn show(state_folder: &Path) -> Result<(), ConnectorError> {
    let state = State::peek(state_folder)?;
    let mut out = String::new();
    let mut line = |text: &str| {
        out.push_str(text);
        out.push('\n');
    };
    let unknown = state.unknown_drafts()?;
    line(&format!("{} replies whose fate is unknown", unknown.len()));
    for (draft_id, record) in &unknown {
        match record {
            Some(record) => line(&format!(
                "  draft {draft_id}: look for Message-ID {} in the sent mail",
                record.message_id
            )),
            None => line(&format!("  draft {draft_id}: its record cannot be read")),
        }
    }
    if !unknown.is_empty() {
        line("  They are never sent again. Take one off this list with --dismiss DRAFT_ID.");
    }
    let quarantined = state.quarantined()?;
    line(&format!("{} mails set aside", quarantined.len()));
    for (place, reason) in &quarantined {
        line(&format!(
            "  {}: {}",
            place.display(),
            crate::text::one_line(reason)
        ));
    }
    if !quarantined.is_empty() {
        line("  To have one tried again, move its mail.eml into new/ and remove its folder.");
    }
    let stdout = Path::new("standard output");
    std::io::stdout()
        .write_all(out.as_bytes())
        .tried("write to", stdout)
}

/// Takes one reply off the list.
pub(crate) fn dismiss(state_folder: &Path, draft_id: u64) -> Result<(), ConnectorError> {
    if State::peek(state_folder)?.dismiss(draft_id)? {
        Ok(())
    } else {
        Err(ConnectorError::Usage(format!(
            "Draft {draft_id} is not on the list of replies whose fate is unknown. See --status."
        )))
    }
}
