//! Hands on panes: looking at them, judging whether they may be typed into, typing once, and saying what came of it. Never decides what is typed.

pub mod herdr;
