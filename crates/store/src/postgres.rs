//! Transactions on Postgres, each on a task of its own: it ends in order whatever becomes of its caller. Never gives a connection back that is still inside one.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_core::ids::OwnerId;
use muster_core::{Fault, FaultKind};
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::JobFuture;
use crate::listen::Teller;
use crate::tx::{ACQUIRE, Conn, Tx, attempt, caught, kind};
use crate::wake::Wakeups;

/// How a writing transaction begins: every move of a state is one guarded statement, so nothing stricter is needed.
const WRITE: &str = "BEGIN";
/// How a reading one does: one snapshot for all its statements, and no writes, as on SQLite.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// What every transaction on one database shares. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Server {
    /// Opens connections. It never gets one back, because it would ask each whether it still lives, one more trip to Postgres for every
    /// transaction; a connection that does not is found out at its next BEGIN.
    opens: PgPool,
    /// Connections outside any transaction, ready for the next.
    idle: Arc<Mutex<Vec<PgConnection>>>,
    /// One for each connection there may be.
    places: Arc<Semaphore>,
    teller: Teller,
    wakeups: Wakeups,
}

/// A connection that is lent to one transaction. Dropping it closes it, for nobody knows what it is in the middle of;
/// [`Lent::give_back`] keeps it.
pub(crate) struct Lent {
    conn: PgConnection,
    idle: Arc<Mutex<Vec<PgConnection>>>,
    _place: OwnedSemaphorePermit,
}

/// Whose rows a transaction may touch: an owner's, or any for a named reason.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    /// Held from the beginning to the end, against other transactions that hold the same.
    pub(crate) held: Option<i64>,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) reason: &'static str,
}

impl Server {
    pub(crate) fn of(opens: PgPool, teller: Teller, wakeups: Wakeups) -> Self {
        let places = Arc::new(Semaphore::new(places(&opens)));
        Self {
            opens,
            idle: Arc::default(),
            places,
            teller,
            wakeups,
        }
    }

    /// Lends nothing more, waits for what is lent, and closes every connection.
    pub(crate) async fn close(&self) {
        self.opens.close().await;
        let all = u32::try_from(places(&self.opens)).unwrap_or(u32::MAX);
        let ended = self.places.acquire_many(all).await;
        let idle = std::mem::take(&mut *lock(&self.idle));
        drop(ended);
        self.teller.told().await;
        for conn in idle {
            if let Err(error) = conn.close().await {
                tracing::debug!(error = %error, "a connection was already gone");
            }
        }
    }

    /// Lends a connection: one that is idle, or a new one.
    pub(crate) async fn lend(&self) -> Result<Lent, sqlx::Error> {
        let place = tokio::time::timeout(ACQUIRE, self.places.clone().acquire_owned()).await;
        let place = place
            .map_err(|_| sqlx::Error::PoolTimedOut)?
            .map_err(|_| sqlx::Error::PoolClosed)?;
        if self.opens.is_closed() {
            return Err(sqlx::Error::PoolClosed);
        }
        let idle = lock(&self.idle).pop();
        let conn = match idle {
            Some(conn) => conn,
            None => self.opens.acquire().await?.detach(),
        };
        Ok(Lent {
            conn,
            idle: self.idle.clone(),
            _place: place,
        })
    }

    /// Runs `job` and answers once it is committed, or undone.
    pub(crate) async fn write<F, T, E>(&self, reach: Reach, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        let (mut reply, answer) = oneshot::channel();
        let server = self.clone();
        tokio::spawn(async move {
            let mut tx = match server.begin(WRITE, reach, &mut reply).await {
                Ok(Some(tx)) => tx,
                // The caller went away before anything was begun for it.
                Ok(None) => return,
                // The caller may have gone away; there is nothing to undo.
                Err(fault) => return drop(reply.send(Err(fault.into()))),
            };
            let outcome = match attempt(&mut tx, job).await {
                Ok(value) => server.commit(tx).await.map(|()| value).map_err(E::from),
                Err(refusal) => {
                    roll_back(tx).await;
                    Err(refusal)
                }
            };
            // The caller may have gone away; the commit stands all the same.
            let _ = reply.send(outcome);
        });
        answer.await.unwrap_or_else(|_| Err(unanswered().into()))
    }

    /// Runs `job` on a snapshot.
    pub(crate) async fn read<F, T, E>(&self, reach: Reach, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        let (mut reply, answer) = oneshot::channel();
        let server = self.clone();
        tokio::spawn(async move {
            match server.begin(READ, reach, &mut reply).await {
                Ok(Some(mut tx)) => {
                    let outcome = caught(&mut tx, job).await;
                    // Nobody has to wait for the end of what changed nothing.
                    let _ = reply.send(outcome);
                    roll_back(tx).await;
                }
                Ok(None) => {}
                Err(fault) => drop(reply.send(Err(fault.into()))),
            }
        });
        answer.await.unwrap_or_else(|_| Err(unanswered().into()))
    }

    /// Begins on a connection that works; `None` when the caller went away while it waited for one. A connection that broke while nobody
    /// used it (Postgres was restarted) is found out here, before anything was asked of it, so the next is tried: at most all that may lie
    /// in the pool, and a new one.
    async fn begin<T>(
        &self,
        how: &'static str,
        reach: Reach,
        caller: &mut oneshot::Sender<T>,
    ) -> Result<Option<Tx>, Fault> {
        let begin = begin_text(how, reach);
        let mut left = places(&self.opens);
        loop {
            let lent = tokio::select! {
                () = caller.closed() => return Ok(None),
                lent = self.lend() => lent,
            };
            let begun = match lent {
                Ok(mut lent) => control(&mut lent, begin.clone()).await.map(|()| lent),
                Err(error) => Err(error),
            };
            match begun {
                Ok(lent) => return Ok(Some(Tx::new(Conn::Postgres(lent), reach.owner))),
                Err(error) if left > 0 && broke(&error) => left -= 1,
                Err(error) => {
                    return Err(Fault::new(kind(&error), "the database did not answer").because(error));
                }
            }
        }
    }

    /// Commits, and only then wakes whom it concerns: here at once, at other servers as soon as they hear of it.
    async fn commit(&self, tx: Tx) -> Result<(), Fault> {
        let Conn::Postgres(mut lent) = tx.conn else {
            return Err(Fault::other("a transaction changed its engine"));
        };
        if let Err(error) = control(&mut lent, "COMMIT".to_owned()).await {
            let what = "Postgres did not confirm a commit; the write may be stored or not";
            return Err(Fault::new(kind(&error), what).because(error));
        }
        lent.give_back();
        for topic in &tx.wakes {
            self.wakeups.wake(*topic);
        }
        if !tx.wakes.is_empty() {
            self.teller.tell(tx.wakes);
        }
        Ok(())
    }
}

/// One round trip for the beginning and its reach. Both settings are local to the transaction and both are set, so that nothing of an
/// earlier one can show through; the policies of row-level security read them.
fn begin_text(how: &'static str, reach: Reach) -> String {
    let owner = reach.owner.map_or_else(String::new, |owner| owner.to_string());
    let system = if reach.owner.is_some() { "" } else { reach.reason };
    let system = system.replace('\'', "''");
    let held = reach.held.map_or_else(String::new, |key| {
        format!("; SELECT pg_advisory_xact_lock({key})")
    });
    format!("{how}; SET LOCAL muster.owner = '{owner}'; SET LOCAL muster.system = '{system}'{held}")
}

/// Runs what begins or ends a transaction: made of constants and a number, nothing from outside.
async fn control(lent: &mut Lent, text: String) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(text))
        .execute(&mut **lent)
        .await
        .map(drop)
}

/// Ends a transaction of which nothing stays.
async fn roll_back(tx: Tx) {
    let Conn::Postgres(mut lent) = tx.conn else { return };
    match control(&mut lent, "ROLLBACK".to_owned()).await {
        Ok(()) => lent.give_back(),
        Err(error) => {
            tracing::debug!(error = %error, "a connection broke before its transaction was rolled back")
        }
    }
}

/// How many connections there may be.
fn places(opens: &PgPool) -> usize {
    usize::try_from(opens.options().get_max_connections()).unwrap_or(Semaphore::MAX_PERMITS)
}

fn lock(idle: &Mutex<Vec<PgConnection>>) -> MutexGuard<'_, Vec<PgConnection>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lent {
    /// Keeps the connection for the next transaction: this one has ended.
    pub(crate) fn give_back(self) {
        lock(&self.idle).push(self.conn);
    }
}

impl Deref for Lent {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.conn
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.conn
    }
}

/// Whether it was the connection that broke. A pool that had none to give, or that is closed, has waited already or will never have one.
fn broke(error: &sqlx::Error) -> bool {
    kind(error) == FaultKind::Unavailable
        && !matches!(error, sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed)
}

fn unanswered() -> Fault {
    Fault::new(
        FaultKind::Unavailable,
        "the database was closed while it was asked",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_has_one_reach_and_says_both_settings() {
        let owner = Reach {
            held: None,
            owner: Some(OwnerId::new(7)),
            reason: "",
        };
        assert_eq!(
            begin_text(WRITE, owner),
            "BEGIN; SET LOCAL muster.owner = '7'; SET LOCAL muster.system = ''"
        );
        let system = Reach {
            held: None,
            owner: None,
            reason: "the owner's first",
        };
        assert!(
            begin_text(READ, system)
                .ends_with("; SET LOCAL muster.owner = ''; SET LOCAL muster.system = 'the owner''s first'")
        );
    }
}
