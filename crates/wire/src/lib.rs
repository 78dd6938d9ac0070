//! Public shapes: every JSON body of every door. Reads them strictly and writes them; never decides what becomes of them.

pub mod api;
pub mod plugin_v1;
pub mod read;
