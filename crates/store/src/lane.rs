//! The write lane of SQLite: queued jobs share one durable commit, each in its own savepoint, and are answered only after it. Never waits for anything but the connection.

use std::sync::Arc;
use std::time::Duration;

use muster_core::ids::OwnerId;
use muster_core::{Fault, FaultKind};
use sqlx::{Connection as _, SqliteConnection};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::JobFuture;
use crate::tx::{Conn, Tx, attempt, eager, kind};
use crate::wake::{Topic, Wakeups};

/// Most jobs that share a commit. More would make the first of them wait longer than the disk does.
const BATCH: usize = 64;
/// Jobs that may wait before a caller is held back.
const QUEUE: usize = 4096;
/// How often the lane looks whether another process wrote.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// What a savepoint ended as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Keep,
    Undo,
}

/// One queued write.
trait Job: Send {
    /// Whether somebody still waits for the answer; a job that nobody waits for is not begun.
    fn wanted(&self) -> bool;
    fn owner(&self) -> Option<OwnerId>;
    fn run<'t>(&'t mut self, tx: &'t mut Tx) -> JobFuture<'t, End>;
    fn answer(self: Box<Self>, commit: Result<(), Fault>);
}

struct Typed<F, T, E> {
    owner: Option<OwnerId>,
    job: Option<F>,
    outcome: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Job for Typed<F, T, E>
where
    F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: From<Fault> + Send + 'static,
{
    fn wanted(&self) -> bool {
        !self.reply.is_closed()
    }

    fn owner(&self) -> Option<OwnerId> {
        self.owner
    }

    fn run<'t>(&'t mut self, tx: &'t mut Tx) -> JobFuture<'t, End> {
        Box::pin(async move {
            let Some(job) = self.job.take() else {
                return End::Undo;
            };
            let outcome = attempt(tx, job).await;
            let end = if outcome.is_ok() { End::Keep } else { End::Undo };
            self.outcome = Some(outcome);
            end
        })
    }

    fn answer(self: Box<Self>, commit: Result<(), Fault>) {
        let answer = match (self.outcome, commit) {
            (Some(Ok(value)), Ok(())) => Ok(value),
            (Some(Ok(_)), Err(fault)) => Err(fault.into()),
            (Some(Err(refusal)), _) => Err(refusal),
            (None, Err(fault)) => Err(fault.into()),
            (None, Ok(())) => Err(Fault::other("a write was dropped before it ran").into()),
        };
        // The caller may have gone away; the commit stands all the same.
        let _ = self.reply.send(answer);
    }
}

/// A handle to the lane. Cloning shares it.
#[derive(Clone)]
pub(crate) struct Lane {
    jobs: mpsc::Sender<Box<dyn Job>>,
    ended: watch::Receiver<bool>,
    stop: Arc<Notify>,
}

impl Lane {
    /// Starts the lane's task on the one writing connection.
    pub(crate) fn start(conn: SqliteConnection, wakeups: Wakeups) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let (end, ended) = watch::channel(false);
        let stop = Arc::new(Notify::new());
        tokio::spawn(serve(conn, queue, wakeups, stop.clone(), end));
        Self { jobs, ended, stop }
    }

    /// Ends the lane after the jobs that are queued and waits until its connection is closed.
    pub(crate) async fn close(&self) {
        self.stop.notify_one();
        let mut ended = self.ended.clone();
        // An error means that the task is gone, and with it the connection.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    pub(crate) async fn write<F, T, E>(&self, owner: Option<OwnerId>, job: F) -> Result<T, E>
    where
        F: for<'t> FnOnce(&'t mut Tx) -> JobFuture<'t, Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Typed {
            owner,
            job: Some(job),
            outcome: None,
            reply,
        });
        let closed = || Fault::new(FaultKind::Unavailable, "the database is closed");
        self.jobs.send(job).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

async fn serve(
    conn: SqliteConnection,
    mut queue: mpsc::Receiver<Box<dyn Job>>,
    wakeups: Wakeups,
    stop: Arc<Notify>,
    end: watch::Sender<bool>,
) {
    let mut tx = Tx::new(Conn::Lane(conn), None);
    let mut look = tokio::time::interval(ELSEWHERE);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut seen = None;
    loop {
        tokio::select! {
            biased;
            // Closed first, so that what is queued still runs and nothing joins.
            () = stop.notified() => queue.close(),
            _ = look.tick() => elsewhere(&mut tx, &mut seen, &wakeups).await,
            job = queue.recv() => match job {
                Some(first) => batch(&mut tx, first, &mut queue, &wakeups).await,
                None => break,
            },
        }
    }
    if let Conn::Lane(conn) = tx.conn {
        // A clean close checkpoints the write-ahead log; a failure leaves it to the next start.
        if let Err(error) = conn.close().await {
            tracing::warn!(error = %error, "closing the database failed");
        }
    }
    // Nobody waits for the end when the last handle was dropped.
    let _ = end.send(true);
}

/// Wakes everybody when another process wrote to the file. SQLite sends no hints; its data version moves only on other connections' commits.
async fn elsewhere(tx: &mut Tx, seen: &mut Option<i64>, wakeups: &Wakeups) {
    let Conn::Lane(conn) = &mut tx.conn else { return };
    match sqlx::query_as::<_, (i64,)>("PRAGMA data_version")
        .fetch_one(conn)
        .await
    {
        Ok((version,)) => {
            if seen.replace(version).is_some_and(|before| before != version) {
                wakeups.wake_all();
            }
        }
        Err(error) => tracing::warn!(error = %error, "the database's version could not be read"),
    }
}

async fn batch(
    tx: &mut Tx,
    first: Box<dyn Job>,
    queue: &mut mpsc::Receiver<Box<dyn Job>>,
    wakeups: &Wakeups,
) {
    let mut done: Vec<Box<dyn Job>> = Vec::new();
    let mut wakes: Vec<Topic> = Vec::new();
    let mut stand = Stand::Closed;
    let mut next = Some(first);
    let mut failed = None;
    while let Some(mut job) = next.take() {
        if job.wanted() {
            match step(tx, &mut stand, &mut job).await {
                Ok(()) => wakes.append(&mut tx.wakes),
                Err(fault) => {
                    done.push(job);
                    failed = Some(fault);
                    break;
                }
            }
            done.push(job);
        }
        if done.len() < BATCH {
            next = queue.try_recv().ok();
        }
    }
    let commit = match failed {
        Some(fault) => Err(fault),
        None if stand == Stand::Closed => Ok(()),
        // It takes a savepoint that still stands along.
        None => statement(tx, "COMMIT").await,
    };
    let commit = match commit {
        Ok(()) => Ok(()),
        Err(fault) => {
            // After a failed COMMIT the transaction may still be open; nothing of it may survive.
            if let Err(error) = statement(tx, "ROLLBACK").await {
                tracing::debug!(error = %error.chain(), "no transaction was left to roll back");
            }
            wakes.clear();
            Err(fault)
        }
    };
    let jobs = done.len();
    for job in done {
        job.answer(copy(&commit));
    }
    // Told after the answers: a log that cannot be written must not keep them.
    if let Err(fault) = &commit {
        tracing::error!(error = %fault.chain(), jobs, "a batch of writes was not committed");
    }
    for topic in wakes {
        wakeups.wake(topic);
    }
}

/// Where the lane's transaction stands between two jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// There is none.
    Closed,
    /// It holds jobs that are kept.
    Open,
    /// The same, and the savepoint of the last of them, which goes with the next job's: each statement is a trip to the connection's thread.
    Held,
}

/// Runs one job. The first of a transaction needs no savepoint: when it fails, the whole transaction is its own.
async fn step(tx: &mut Tx, stand: &mut Stand, job: &mut Box<dyn Job>) -> Result<(), Fault> {
    let first = *stand == Stand::Closed;
    // Runs with the job's first statement.
    tx.before = match *stand {
        Stand::Closed => "BEGIN IMMEDIATE",
        Stand::Open => "SAVEPOINT job",
        Stand::Held => "RELEASE job; SAVEPOINT job",
    };
    tx.owner = job.owner();
    tx.wakes.clear();
    tx.failed = None;
    let end = job.run(tx).await;
    if end == End::Undo {
        tx.wakes.clear();
    }
    if !std::mem::take(&mut tx.before).is_empty() {
        // The job ran no statement, so it began nothing.
        return Ok(());
    }
    match (end, first) {
        (End::Keep, true) => *stand = Stand::Open,
        (End::Keep, false) => *stand = Stand::Held,
        (End::Undo, true) => {
            *stand = Stand::Closed;
            // SQLite rolls back by itself on some errors (a full disk), after which there is nothing left to undo.
            if let Err(error) = statement(tx, "ROLLBACK").await {
                tracing::debug!(error = %error.chain(), "the transaction had already ended");
            }
        }
        (End::Undo, false) => {
            *stand = Stand::Open;
            undo(tx).await?;
        }
    }
    Ok(())
}

/// Undoes one job of several. On some errors (a full disk) SQLite has undone the whole transaction by itself, the jobs before this one
/// with it: then no savepoint is left, and what broke this job is what broke them.
async fn undo(tx: &mut Tx) -> Result<(), Fault> {
    statement(tx, "ROLLBACK TO job; RELEASE job")
        .await
        .map_err(|fault| match tx.failed.take() {
            Some(kind) => {
                Fault::new(kind, "the transaction of a write ended before its commit").because(fault)
            }
            None => fault,
        })
}

async fn statement(tx: &mut Tx, text: &'static str) -> Result<(), Fault> {
    match &mut tx.conn {
        Conn::Lane(conn) => eager(sqlx::query(text).execute(conn))
            .await
            .map(|_| ())
            .map_err(|e| Fault::new(kind(&e), "a write was not stored").because(e)),
        _ => Err(Fault::other("the lane lost its connection")),
    }
}

/// A commit's result for one more job: the cause stays with the log.
fn copy(commit: &Result<(), Fault>) -> Result<(), Fault> {
    match commit {
        Ok(()) => Ok(()),
        Err(fault) => Err(Fault::new(fault.kind().clone(), fault.chain())),
    }
}
