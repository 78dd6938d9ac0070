//! Whole agent programs, and daemons that are stopped and killed under open sessions: one at a time.

mod agents;
mod hooks;
mod restarts;
mod snippets;
