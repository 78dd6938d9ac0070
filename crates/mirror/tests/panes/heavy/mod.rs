//! The real Claude Code, Codex and Gemini CLI in real panes, and many deliveries with everything in their way.

mod claude;
mod disturbed;
mod others;
mod real;
mod sockets;
