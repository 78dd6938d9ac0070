//! The real Claude Code in a real pane, and many deliveries with everything in their way.

mod claude;
mod disturbed;
mod real;
