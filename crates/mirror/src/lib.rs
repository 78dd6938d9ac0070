//! Hands on panes: looking at them, judging whether they may be typed into, typing once, and saying what came of it. Never decides what is typed.

mod claude;
pub mod composer;
pub mod guard;
pub mod herdr;
mod pane_lock;
mod process;
pub mod pushers;
pub mod screen;
mod settings;
mod tmux;
mod tmux_panes;

pub use settings::{GHOST_TEXT, Settings};
pub use tmux::{PaneId, Server};
pub use tmux_panes::TmuxPanes;
