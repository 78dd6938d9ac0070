//! May this happen? Actions, scopes and effects in three layers that only narrow, and the permit that a decision mints. Never does I/O, reads a clock or waits.
//!
//! A call charges [`Needs`]: pairs of an [`Action`] and the resource that it names. A [`Policy`] is three [`Layer`]s of [`Grant`]s;
//! [`decide`] holds the one against the other and gives a [`Decision`]. In each layer that counts the strictest of the matching grants
//! stands, and over the layers the strictest of those: deny, then nothing that matches, then ask, then allow. So no grant can
//! widen what another layer leaves, an absent layer does not count, and an empty one, in which nothing can match, refuses
//! everything. A pair that names no resource matches nothing, not even `any`.
//!
//! The rest reads policies back: [`explain()`] for one pair, [`effective`] for a table, [`dead_rules`] for grants that can never
//! fire, [`diff`] for what an edit would change, [`Preset`] to author a layer, [`Policy::to_json`] and [`Policy::from_json`] to keep one.

mod dead;
mod decision;
mod dump;
mod explain;
mod invalid;
mod layer;
mod needs;
mod policy;
mod presets;
mod scope;
mod words;

pub use dead::{Dead, DeadRule, dead_rules};
pub use decision::{Approval, Asked, Basis, Decision, Judged, Permit, Refusal, decide, weigh};
pub use dump::{Damaged, MAX_JSON};
pub use explain::{Change, Explanation, LayerExplanation, Row, diff, effective, explain};
pub use invalid::{Invalid, Shown};
pub use layer::{Grant, Layer, LayerEffect, LayerState, MAX_GRANTS};
pub use needs::{APPROVAL_COVERS, Needs, Pair, Request, is_covered};
pub use policy::{Answer, MAX_FORKS_DEEP, Policy, Standing, Tangled, Verdict, may_author, root_of};
pub use presets::Preset;
pub use scope::{Names, Resource, Scope, Target};
pub use words::{Action, Effect, LayerName, ScopeKind};
