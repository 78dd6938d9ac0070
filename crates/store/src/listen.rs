//! Passes wake-ups of other servers on one Postgres database on. Never carries data, and never gives up while the database is open.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};

use crate::tx::ACQUIRE;
use crate::wake::{Topic, Wakeups};

/// The channel that Postgres carries wake-ups on.
pub(crate) const CHANNEL: &str = "muster_wake";

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Listens until the database is closed. A lost connection loses hints, so everybody is woken when it is lost and once it is back.
pub(crate) async fn listen(pool: PgPool, connect: PgConnectOptions, wakeups: Wakeups) {
    let mut pause = FIRST_PAUSE;
    while !pool.is_closed() {
        let lost = hear(&connect, &wakeups, &mut pause).await;
        tracing::warn!(error = %lost, "the connection for wake-ups was lost; it is opened again");
        wakeups.wake_all();
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Hears until the connection is lost for good; answers why.
async fn hear(connect: &PgConnectOptions, wakeups: &Wakeups, pause: &mut Duration) -> sqlx::Error {
    let mut listener = match subscribe(connect).await {
        Ok(listener) => listener,
        Err(error) => return error,
    };
    *pause = FIRST_PAUSE;
    wakeups.wake_all();
    loop {
        match listener.try_recv().await {
            Ok(Some(heard)) => {
                if let Some(topic) = Topic::decode(heard.payload()) {
                    wakeups.wake(topic);
                }
            }
            // The listener has just connected again; what was sent meanwhile is lost.
            Ok(None) => wakeups.wake_all(),
            Err(error) => return error,
        }
    }
}

async fn subscribe(connect: &PgConnectOptions) -> Result<PgListener, sqlx::Error> {
    // A pool of its own, so that a server whose connections are all busy still hears.
    let own = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(ACQUIRE)
        .connect_with(connect.clone())
        .await?;
    let mut listener = PgListener::connect_with(&own).await?;
    listener.listen(CHANNEL).await?;
    Ok(listener)
}
