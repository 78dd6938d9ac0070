//! Plugin packages: validated, stored by their hash, reviewed, started in a clean room and served through one proxy. Never starts what was not approved as it is.

mod cache;
mod child;
pub mod config;
mod diagnostic;
mod error;
pub mod events;
pub mod frame;
mod host;
mod inspect;
mod jsonrpc;
pub mod launch;
pub mod ledger;
mod link;
pub mod manifest;
pub mod names;
mod package;
pub mod session;
pub mod settings;
pub mod tree;
pub mod trust;
mod verify;

pub use cache::{Change, FileChange};
pub use child::{Launcher, PASSED_ON, Plan, plan};
pub use diagnostic::{Code, Diagnostic, Severity};
pub use error::PluginError;
pub use events::{Event, EventLog};
pub use host::{Approved, Host, Ready};
pub use inspect::{Inspected, Inspection, Listed};
pub use link::Budgets;
pub use manifest::{Checked, validate};
pub use names::{Kind, ServerKey, StableId, Target};
pub use package::{Cwd, Family, Hook, Launch, Package, Place, Server};
pub use settings::{Mode, Settings};
pub use trust::{Act, Status};
pub use verify::Depth;
