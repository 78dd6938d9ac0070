//! What a task changed in its worktree. Never shows more than the limits, and says what they cut.

use muster_app::projects;
use muster_policy::Action;
use muster_worktree::{Diff, DiffQuery, Limits, Place, Refusal};
use serde_json::{Value, json};

use super::answer::Failed;
use super::call::Calling;
use super::tasks::{charged, worktree_of};

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        match refusal.code() {
            code @ ("not_found" | "invalid_argument") => Self::new(code, refusal.to_string()),
            code => {
                // What it says is for the owner: it names folders of this machine.
                tracing::warn!(error = %refusal, "a worktree could not be read");
                Self::new(
                    "engine_error",
                    "git could not read the worktree, and nothing was done. Your owner finds the reason in muster's log.",
                )
                .with("engine_code", code)
            }
        }
    }
}

pub(super) async fn diff(call: &Calling<'_>) -> Result<Value, Failed> {
    let (permit, task) = charged(call, Action::DiffRead).await?;
    worktree_of(call, &permit, Action::DiffRead, task).await?;
    let owner = call.caller.owner;
    let project = muster_app::tasks::find(call.app, owner, task).await?.project.id;
    let root = projects::root(call.app, owner, project)
        .await
        .map_err(|_| Failed::missing("project"))?;
    let data_dir = call.app.settings.data_dir.clone();
    let path = call.arguments.text("path").map(str::to_owned);
    let stat = call.arguments.flag("stat");
    let reading = tokio::task::spawn_blocking(move || {
        let place = Place {
            root: &root,
            data_dir: &data_dir,
            task: task.get(),
        };
        let query = DiffQuery {
            path: path.as_deref(),
            stat,
        };
        muster_worktree::diff(place, query, &Limits::default())
    });
    let read: Diff = reading.await.map_err(|error| {
        tracing::error!(error = %error, "reading a diff broke");
        Failed::new("refused_error", "reading the diff broke; muster's log says how")
    })??;
    let files: Vec<Value> = read
        .files
        .iter()
        .map(|file| {
            json!({
                "path": file.path,
                "old_path": file.old_path,
                "change": file.change.as_str(),
                "added": file.added,
                "removed": file.removed,
            })
        })
        .collect();
    Ok(json!({"diff": read.diff, "files": files, "truncated": read.truncated}))
}
