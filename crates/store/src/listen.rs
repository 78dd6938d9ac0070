//! Passes wake-ups between the servers on one Postgres database. Never carries data, and never gives up while the database is open.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgListener, PgPool, PgPoolOptions};
use sqlx::{Connection as _, PgConnection};
use tokio::sync::Notify;

use crate::tx::ACQUIRE;
use crate::wake::{Topic, Wakeups};

/// The channel that Postgres carries wake-ups on.
const CHANNEL: &str = "muster_wake";

const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// How long a database that is closed waits for what is still to be told.
const GOODBYE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What is to be told to other servers. Cloning shares it.
///
/// It is told after the commit it speaks of, and not by a NOTIFY inside the transaction: that takes a lock under which Postgres lets one
/// commit at a time through. A server that dies in between leaves others to find out for themselves, when a claim's wait ends.
#[derive(Clone, Default)]
pub(crate) struct Teller {
    shared: Arc<Telling>,
}

#[derive(Default)]
struct Telling {
    topics: Mutex<HashSet<Topic>>,
    ring: Notify,
    /// Topics that were taken and are on their way.
    underway: AtomicBool,
    told: Notify,
    /// The process of Postgres that tells it; 0 while there is none. What comes back from it is known here already.
    own: AtomicU32,
}

impl Teller {
    /// Soon tells every other server that these changed, each once however often it did.
    pub(crate) fn tell(&self, topics: impl IntoIterator<Item = Topic>) {
        self.topics().extend(topics);
        self.shared.ring.notify_one();
    }

    /// Ends once everything was told, or after a second: a command that changed something and ends at once has told it then.
    pub(crate) async fn told(&self) {
        let all = async {
            loop {
                let told = self.shared.told.notified();
                if self.topics().is_empty() && !self.shared.underway.load(Ordering::Acquire) {
                    return;
                }
                told.await;
            }
        };
        if tokio::time::timeout(GOODBYE, all).await.is_err() {
            tracing::warn!(
                "other servers on this database were not told what changed; they find out when a wait of theirs ends"
            );
        }
    }

    /// What is to be told now; from here until [`Teller::done`] it is on its way.
    fn take(&self) -> HashSet<Topic> {
        let mut topics = self.topics();
        self.shared.underway.store(!topics.is_empty(), Ordering::Release);
        std::mem::take(&mut *topics)
    }

    fn done(&self) {
        self.shared.underway.store(false, Ordering::Release);
        self.shared.told.notify_waiters();
    }

    fn is_own(&self, process: u32) -> bool {
        self.shared.own.load(Ordering::Acquire) == process
    }

    fn topics(&self) -> MutexGuard<'_, HashSet<Topic>> {
        self.shared.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells other servers what changed until the database is closed. What could not be told is told again on the next connection.
pub(crate) async fn speak(pool: PgPool, connect: PgConnectOptions, teller: Teller) {
    let mut pause = FIRST_PAUSE;
    while !pool.is_closed() {
        let lost = say(&connect, &teller, &mut pause).await;
        tracing::warn!(error = %lost, "the connection that tells other servers what changed was lost; it is opened again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Speaks until the connection is lost; answers why.
async fn say(connect: &PgConnectOptions, teller: &Teller, pause: &mut Duration) -> sqlx::Error {
    let mut conn = match announced(connect, teller).await {
        Ok(conn) => conn,
        Err(error) => return error,
    };
    *pause = FIRST_PAUSE;
    loop {
        let topics = teller.take();
        if topics.is_empty() {
            teller.shared.ring.notified().await;
            continue;
        }
        let texts: Vec<String> = topics.iter().map(|topic| topic.encode()).collect();
        let said = sqlx::query("SELECT count(pg_notify($1, topic)) FROM unnest($2::text[]) AS topic")
            .bind(CHANNEL)
            .bind(texts)
            .execute(&mut conn)
            .await;
        if let Err(error) = said {
            teller.topics().extend(topics);
            teller.done();
            return error;
        }
        teller.done();
    }
}

/// A connection of its own, so that a server whose connections are all busy still tells; its process is noted.
async fn announced(connect: &PgConnectOptions, teller: &Teller) -> Result<PgConnection, sqlx::Error> {
    let mut conn = PgConnection::connect_with(connect).await?;
    let (process,): (i32,) = sqlx::query_as("SELECT pg_backend_pid()")
        .fetch_one(&mut conn)
        .await?;
    teller.shared.own.store(process.unsigned_abs(), Ordering::Release);
    Ok(conn)
}

/// Listens until the database is closed. A lost connection loses hints, so everybody is woken when it is lost and once it is back.
pub(crate) async fn listen(pool: PgPool, connect: PgConnectOptions, wakeups: Wakeups, teller: Teller) {
    let mut pause = FIRST_PAUSE;
    while !pool.is_closed() {
        let lost = hear(&connect, &wakeups, &teller, &mut pause).await;
        tracing::warn!(error = %lost, "the connection for wake-ups was lost; it is opened again");
        wakeups.wake_all();
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Hears until the connection is lost for good; answers why.
async fn hear(
    connect: &PgConnectOptions,
    wakeups: &Wakeups,
    teller: &Teller,
    pause: &mut Duration,
) -> sqlx::Error {
    let mut listener = match subscribe(connect).await {
        Ok(listener) => listener,
        Err(error) => return error,
    };
    *pause = FIRST_PAUSE;
    wakeups.wake_all();
    loop {
        match listener.try_recv().await {
            Ok(Some(heard)) if teller.is_own(heard.process_id()) => {}
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
