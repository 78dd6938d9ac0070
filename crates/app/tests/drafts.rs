//! The laws of reply drafts, on both engines: filed, decided, claimed at most once, reported, lapsed and expired. Never speaks HTTP.
#![cfg(test)]

#[path = "drafts/kit.rs"]
mod kit;

#[path = "drafts/claiming.rs"]
mod claiming;
#[path = "drafts/deciding.rs"]
mod deciding;
#[path = "drafts/filing.rs"]
mod filing;
#[path = "drafts/guards.rs"]
mod guards;
#[path = "drafts/model.rs"]
mod model;
#[path = "drafts/races.rs"]
mod races;
#[path = "drafts/reporting.rs"]
mod reporting;
#[path = "drafts/retrying.rs"]
mod retrying;
#[path = "drafts/time.rs"]
mod time;
