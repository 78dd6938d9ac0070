//! Acts whose second half must follow their first, whoever still listens. Never decides what they are.

use muster_app::App;
use muster_core::Fault;
use tokio::sync::oneshot;

/// Does `act` to its end, beside the request: a caller that hangs up in the middle ends its request, and would else end the act between a
/// commit and what has to follow it.
///
/// # Errors
/// A fault when the act broke off by itself.
pub(crate) async fn whole<T: Send + 'static>(
    app: &App,
    act: impl Future<Output = T> + Send + 'static,
) -> Result<T, Fault> {
    let (tell, told) = oneshot::channel();
    app.tasks.spawn(async move {
        // Whoever asked may have gone away; what was done stands.
        let _ = tell.send(act.await);
    });
    told.await
        .map_err(|_| Fault::other("an act of several steps broke off inside muster"))
}
