//! The words muster is written in: ids, time, bounded text, fences, screens and secrets. Never does I/O beyond reading the clock and the system's randomness.

pub mod clock;
pub mod engine;
pub mod exchange;
pub mod fault;
pub mod fence;
pub mod ids;
pub mod screen;
pub mod secret;
pub mod spell;
pub mod text;

pub use clock::{Clock, Time};
pub use fault::{Fault, FaultKind};
pub use secret::{Secret, TokenHash};
