//! Projects: a root folder, perhaps a repository at a forge, and the policy that new tasks get. Never reads what is in the folder.

mod error;
mod ops;
mod sql;
mod state;

pub use error::ProjectError;
pub use ops::{
    NewProject, PolicyName, Project, Repo, add, find, list, policy, remove, rename, root, set_default,
    set_default_at,
};
pub use sql::STATEMENTS;
pub use state::RepoName;
