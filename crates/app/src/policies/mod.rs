//! Policies: what is stored of layers and grants, how they are edited, forked, shown and explained. Never decides a call: `access` does.
//!
//! A policy owns at most one layer of each kind; a fork owns its task layer and reads the other two from its root whenever it is resolved.
//! A layer without a row is absent and inherits; a layer with a row and no grants denies everything. Each edit is one transaction that
//! raises the revision by one and is audited.

mod edit;
mod error;
mod load;
mod orphans;
mod preset;
mod preview;
mod sql;
mod transfer;
mod view;
mod whole;

pub use edit::{Edit, clear_layer, grant, revoke, save_empty};
pub use error::PolicyError;
pub use load::{Chosen, Found, Subjects, find, list};
pub(crate) use load::{Governing, standing_of_task};
pub use muster_policy::LayerName;
pub use orphans::{Orphan, orphans};
pub use preset::{Applied, WhenShared, apply_preset, preview};
pub(crate) use preview::any_ask;
pub use preview::{Change, Changed, PresetLine, Preview, nameable, presets, remarks, what_would_change};
pub use sql::STATEMENTS;
pub use transfer::{
    Exported, ExportedLayers, Simulated, Triple, WhenThere, export, import, import_at, simulate,
};
pub(crate) use view::resolved;
pub use view::{
    ActionLine, Answered, Dependents, Explained, ExplainedLayer, Question, Resolved, Shown, ShownGrant,
    ShownLayer, ShownLayers, Thing, Whose, actions, explain, explain_all, explain_questions, show,
};
pub(crate) use whole::revision;
pub use whole::{Forked, attach, create, delete, fork};
