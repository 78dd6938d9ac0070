//! Whole agent programs, and daemons that are stopped and killed under open sessions: one at a time.

mod agents;
mod restarts;
mod snippets;
