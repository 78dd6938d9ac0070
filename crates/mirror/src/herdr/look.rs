//! What a styled screen says of an agent's input, by the one guard that judges every pane. Never guesses at a screen that the guard does not know.

use muster_bus::push::Hold;

/// What stands unsent in an agent's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unsent {
    /// The text; empty when there is none.
    pub(super) text: String,
    /// The same as the screen shows it, harmless for a terminal.
    pub(super) styled: String,
}

/// Reads the input of an agent off its screen.
///
/// # Errors
/// Why the screen does not let itself be typed into, or is none that is known.
pub(super) fn input(screen: &str) -> Result<Unsent, Hold> {
    let _ = screen;
    Ok(Unsent {
        text: String::new(),
        styled: String::new(),
    })
}

/// Whether a program is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    matches!(
        name.trim_start_matches('-'),
        "sh" | "bash"
            | "zsh"
            | "fish"
            | "dash"
            | "ksh"
            | "csh"
            | "tcsh"
            | "ash"
            | "nu"
            | "pwsh"
            | "elvish"
            | "xonsh"
    )
}
