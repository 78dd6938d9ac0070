//! Public shapes: every JSON body of every door. Never decides whether a value obeys a rule; the limits stand here for readers of the OpenAPI document.

pub mod api;
pub mod plugin_v1;
