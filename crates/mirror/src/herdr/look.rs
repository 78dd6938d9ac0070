//! What a pane's screen and its front say of it, judged by the one guard of every pane. Never guesses at a screen that the guard does not know.

use muster_bus::push::Hold;

use crate::composer::{self, Filling, Look};
use crate::guard::{self, Pane, Seen, Verdict};
use crate::screen::{Ghost, Screen};

/// Whether a pane with this screen may be typed into, as far as the screen shows it.
///
/// # Errors
/// Why not.
pub(super) fn judge(screen: &str, ghost: &Ghost) -> Result<(), Hold> {
    let screen = Screen::parse(screen.as_bytes());
    let seen = Seen {
        pane: Some(&Pane::default()),
        screen: Some(&screen),
        claude: None,
        ghost,
        // herdr does not say when a person last pressed a key.
        pause: std::time::Duration::ZERO,
    };
    match guard::judge(&seen) {
        Verdict::Paste(_) => Ok(()),
        Verdict::Hold(hold) => Err(hold),
    }
}

/// Whether exactly this command stands in the input, and no other is marked in a list of choices.
pub(super) fn stands(screen: &str, command: &str) -> bool {
    match composer::look(&Screen::parse(screen.as_bytes()), None) {
        Look::Input(input) => {
            input.holds(command) && input.chosen.as_ref().is_none_or(|(_, chosen)| chosen == command)
        }
        Look::Dialog(_) | Look::Unknown => false,
    }
}

/// Whether the input is open and nobody's text stands in it.
pub(super) fn is_empty(screen: &str, ghost: &Ghost) -> bool {
    match composer::look(&Screen::parse(screen.as_bytes()), None) {
        Look::Input(input) => input.filling(ghost) != Filling::Draft,
        Look::Dialog(_) | Look::Unknown => false,
    }
}
