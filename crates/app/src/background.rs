//! Work that outlives the request that caused it: named, counted, and ended at shutdown. Never starts a task that nobody waits for.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{App, access, accounts, drafts, notices};

/// How often the sweep looks for leases that lapsed, drafts that expired, notices that are old and failed sign-ins to write down.
const SWEEP: Duration = Duration::from_secs(5);
/// How long a stop waits for running work.
const STOP: Duration = Duration::from_secs(10);

/// The running tasks. Cloning shares them.
#[derive(Debug, Clone, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// Runs `work` beside the request; a stop waits for it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(work);
    }

    /// Ends when muster is being stopped.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// How many pieces of work run.
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Asks all work to end and waits for it, ten seconds at most.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tracker.close();
        if tokio::time::timeout(STOP, self.tracker.wait()).await.is_err() {
            tracing::warn!(
                tasks = self.tracker.len(),
                "some work did not end in time and was left"
            );
        }
    }
}

/// Makes lapses and expiries real without anybody asking, so that audit and pages are truthful. Idempotent; reports only faults.
pub fn start_sweep(app: &App) {
    let app = app.clone();
    let stop = app.tasks.stopping();
    app.tasks.clone().spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => {
                    accounts::tell_due(&app, true).await;
                    return;
                }
                () = tokio::time::sleep(SWEEP) => {}
            }
            accounts::tell_due(&app, false).await;
            if let Err(fault) = drafts::sweep(&app).await {
                tracing::warn!(error = %fault.chain(), "the sweep of drafts failed; it runs again");
            }
            if let Err(fault) = access::sweep(&app).await {
                tracing::warn!(error = %fault.chain(), "the sweep of asks failed; it runs again");
            }
            if let Err(fault) = notices::sweep(&app).await {
                tracing::warn!(error = %fault.chain(), "the sweep of notices failed; it runs again");
            }
        }
    });
}
