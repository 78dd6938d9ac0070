//! The figures of the bus in the terminal: a message into an idle tmux pane, what a pusher costs that has nothing to do, and how soon the human seat answers. Never measures through muster's own library.

mod chat;
mod push;
pub(crate) mod stand_in;

use std::path::Path;

use anyhow::Result;

use crate::report::Figure;
use crate::server::Muster;

/// Every figure of the terminal.
pub(crate) fn run(muster: &Muster, folder: &Path) -> Result<Vec<Figure>> {
    let mut figures = push::run(muster, folder)?;
    figures.extend(chat::run(muster, folder)?);
    Ok(figures)
}
