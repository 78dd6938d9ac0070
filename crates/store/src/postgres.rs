//! Transactions on Postgres, each on a task of its own: it ends in order whatever becomes of its caller. Never gives a connection back that is still inside one.

use muster_core::ids::OwnerId;
use muster_core::{Fault, FaultKind};
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Postgres};
use tokio::sync::oneshot;

use crate::JobFuture;
use crate::listen::Teller;
use crate::tx::{Conn, Tx, attempt, caught, kind};
use crate::wake::Wakeups;

/// How a writing transaction begins: every move of a state is one guarded statement, so nothing stricter is needed.
const WRITE: &str = "BEGIN";
/// How a reading one does: one snapshot for all its statements, and no writes, as on SQLite.
const READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// What every transaction on one database shares. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) pool: PgPool,
    pub(crate) teller: Teller,
    pub(crate) wakeups: Wakeups,
}

/// Whose rows a transaction may touch: an owner's, or any for a named reason.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    pub(crate) owner: Option<OwnerId>,
    pub(crate) reason: &'static str,
}

impl Server {
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
        let mut left = self.pool.options().get_max_connections();
        loop {
            let acquired = tokio::select! {
                () = caller.closed() => return Ok(None),
                acquired = self.pool.acquire() => acquired,
            };
            let begun = match acquired {
                Ok(conn) => begin_on(conn, begin.clone()).await,
                Err(error) => Err(error),
            };
            match begun {
                Ok(conn) => return Ok(Some(Tx::new(Conn::Postgres(conn), reach.owner))),
                Err(error) if left > 0 && broke(&error) => left -= 1,
                Err(error) => {
                    return Err(Fault::new(kind(&error), "the database did not answer").because(error));
                }
            }
        }
    }

    /// Commits, and only then wakes whom it concerns: here at once, at other servers as soon as they hear of it.
    async fn commit(&self, tx: Tx) -> Result<(), Fault> {
        let Conn::Postgres(mut conn) = tx.conn else {
            return Err(Fault::other("a transaction changed its engine"));
        };
        if let Err(error) = sqlx::raw_sql("COMMIT").execute(&mut *conn).await {
            conn.close_on_drop();
            let what = "Postgres did not confirm a commit; the write may be stored or not";
            return Err(Fault::new(kind(&error), what).because(error));
        }
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
    format!("{how}; SET LOCAL muster.owner = '{owner}'; SET LOCAL muster.system = '{system}'")
}

async fn begin_on(
    mut conn: PoolConnection<Postgres>,
    begin: String,
) -> Result<PoolConnection<Postgres>, sqlx::Error> {
    // Made of a number and a constant, neither from outside.
    match sqlx::raw_sql(AssertSqlSafe(begin)).execute(&mut *conn).await {
        Ok(_) => Ok(conn),
        Err(error) => {
            conn.close_on_drop();
            Err(error)
        }
    }
}

/// Ends a transaction of which nothing stays.
async fn roll_back(tx: Tx) {
    let Conn::Postgres(mut conn) = tx.conn else { return };
    if let Err(error) = sqlx::raw_sql("ROLLBACK").execute(&mut *conn).await {
        tracing::debug!(error = %error, "a connection broke before its transaction was rolled back");
        conn.close_on_drop();
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
            owner: Some(OwnerId::new(7)),
            reason: "",
        };
        assert_eq!(
            begin_text(WRITE, owner),
            "BEGIN; SET LOCAL muster.owner = '7'; SET LOCAL muster.system = ''"
        );
        let system = Reach {
            owner: None,
            reason: "the owner's first",
        };
        assert!(
            begin_text(READ, system)
                .ends_with("; SET LOCAL muster.owner = ''; SET LOCAL muster.system = 'the owner''s first'")
        );
    }
}
