//! Requests to servers to stop a statement whose caller is gone. Never waits for a statement, only for the request to be made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

/// How many requests are under way.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// Told whenever one is over.
static OVER: Notify = Notify::const_new();

/// Counts one request for as long as it is there, however it ends.
struct Counted;

impl Counted {
    fn new() -> Self {
        UNDER_WAY.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::SeqCst);
        OVER.notify_waiters();
    }
}

/// Makes a request on a task of its own: who wanted the statement is gone.
pub(crate) fn spawn(request: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        let counted = Counted::new();
        runtime.spawn(async move {
            let _counted = counted;
            request.await;
        });
    }
}

/// Waits until every server was told of the statements that nobody waits for any more, at most this long. A program that is
/// about to end would otherwise take the requests with it, and leave the statements running.
pub async fn stopped(at_most: Duration) {
    let all = async {
        loop {
            let over = OVER.notified();
            let mut over = std::pin::pin!(over);
            // Before the look, so that what ends in between is heard.
            over.as_mut().enable();
            if UNDER_WAY.load(Ordering::SeqCst) == 0 {
                return;
            }
            over.await;
        }
    };
    let _ = tokio::time::timeout(at_most, all).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_waits_for_the_requests_and_no_longer_than_it_is_told_to() {
        let (go, gone) = tokio::sync::oneshot::channel::<()>();
        spawn(async move {
            let _ = gone.await;
        });
        let begun = std::time::Instant::now();
        stopped(Duration::from_millis(50)).await;
        assert!(begun.elapsed() >= Duration::from_millis(50));
        assert!(UNDER_WAY.load(Ordering::SeqCst) > 0);
        go.send(()).unwrap();
        stopped(Duration::from_secs(60)).await;
        assert_eq!(UNDER_WAY.load(Ordering::SeqCst), 0);
    }
}
