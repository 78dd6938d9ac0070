//! Who is there: processes that hold calls, and people who can be shown an ask. Never believes a row: each counts while a lock that dies with its process is held.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use muster_core::Fault;
use muster_core::ids::{OwnerId, TokenId};
use muster_core::secret::random_hex;
use muster_store::{Db, HeldLock, Topic};
use tokio::sync::Mutex;

use super::sql;
use crate::App;

/// The class of the locks by which processes see each other.
const CLASS: &str = "process";
/// How often a process makes sure that it still holds its own: a database that was restarted has let go of it.
const KEEP: Duration = Duration::from_millis(500);

/// How long a process must have been gone before its people are forgotten: a lock that a restarted database let go of is taken again.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// This process as others see it, and since when it has seen others gone. Cloning shares it.
#[derive(Clone, Default)]
pub struct Process(
    Arc<Mutex<Option<Own>>>,
    Arc<std::sync::Mutex<HashMap<i64, Instant>>>,
);

struct Own {
    number: i64,
    lock: Option<HeldLock>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Process")
    }
}

impl Process {
    /// The process's number, with its lock held from the first time on.
    pub(super) async fn number(&self, app: &App) -> Result<i64, Fault> {
        let mut own = self.0.lock().await;
        if let Some(own) = own.as_ref() {
            return Ok(own.number);
        }
        // Never given out twice, so that nobody is taken for an earlier process.
        let number = i64::from_str_radix(&random_hex::<6>()?, 16)
            .map_err(|error| Fault::other("a process could not be numbered").because(error))?;
        let lock = app
            .db
            .locks()
            .try_take(CLASS, number)
            .await?
            .ok_or_else(|| Fault::other("a process's own lock is held by another"))?;
        *own = Some(Own {
            number,
            lock: Some(lock),
        });
        drop(own);
        self.clone().keep(app);
        Ok(number)
    }

    /// Those of `gone` that have been gone for long, without a break.
    pub(super) fn long_gone(&self, gone: &[i64]) -> Vec<i64> {
        let mut since = self.1.lock().unwrap_or_else(PoisonError::into_inner);
        since.retain(|process, _| gone.contains(process));
        let now = Instant::now();
        gone.iter()
            .filter(|process| now.duration_since(*since.entry(**process).or_insert(now)) >= FORGOTTEN)
            .copied()
            .collect()
    }

    /// Holds on until muster stops.
    fn keep(self, app: &App) {
        let (app, stop) = (app.clone(), app.tasks.stopping());
        app.tasks.clone().spawn(async move {
            loop {
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(KEEP) => {}
                }
                let mut own = self.0.lock().await;
                let Some(own) = own.as_mut() else { continue };
                let held = match own.lock.as_mut() {
                    Some(lock) => lock.still_held().await,
                    None => false,
                };
                if !held {
                    own.lock = None;
                    match app.db.locks().try_take(CLASS, own.number).await {
                        Ok(lock) => own.lock = lock,
                        Err(fault) => {
                            tracing::warn!(error = %fault.chain(), "this process cannot be seen by others for now; asks of its callers may expire");
                        }
                    }
                }
            }
            // Whoever waits here goes with the process; the others must not take it for alive any longer.
            if let Some(own) = self.0.lock().await.take()
                && let Some(lock) = own.lock
            {
                lock.retire().await;
            }
        });
    }
}

/// Who can be shown an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    /// An open page of the owner's.
    Page,
    /// `muster asks watch`.
    Watch,
}

impl Seat {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Watch => "watch",
        }
    }
}

/// Somebody who is there until this is dropped, or until the process ends.
pub struct Present {
    app: App,
    owner: OwnerId,
    row: i64,
}

impl std::fmt::Debug for Present {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Present({})", self.row)
    }
}

impl Present {
    /// Leaves before it answers; merely dropping leaves shortly after.
    ///
    /// # Errors
    /// A fault; the presence then ends with the process.
    pub async fn leave(self) -> Result<(), Fault> {
        stand_up(&self.app, self.owner, self.row).await
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let (app, owner, row) = (self.app.clone(), self.owner, self.row);
        self.app.tasks.spawn(async move {
            if let Err(fault) = stand_up(&app, owner, row).await {
                tracing::warn!(error = %fault.chain(), "somebody who left could not be noted; they count until this process ends");
            }
        });
    }
}

async fn stand_up(app: &App, owner: OwnerId, row: i64) -> Result<(), Fault> {
    app.db
        .write(owner, move |tx| {
            Box::pin(async move {
                tx.run(&sql::STAND_UP, (row,)).await?;
                tx.wake(Topic::Owner(owner));
                Ok(())
            })
        })
        .await
}

/// Counts somebody as able to be shown an owner's asks, from now until the answer is dropped.
///
/// # Errors
/// A fault; nobody is counted then.
pub async fn present(app: &App, owner: OwnerId, seat: Seat) -> Result<Present, Fault> {
    let process = app.process.number(app).await?;
    let row = app
        .db
        .write(owner, move |tx| {
            Box::pin(async move {
                let row = tx.number(&sql::SIT, (process, seat.as_str())).await?;
                tx.wake(Topic::Owner(owner));
                Ok::<_, Fault>(row)
            })
        })
        .await?;
    Ok(Present {
        app: app.clone(),
        owner,
        row,
    })
}

/// Which processes named in rows are there, and which are gone.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// Whether somebody can be shown an ask.
    pub(super) approver: bool,
    /// Processes that ended with rows left.
    pub(super) gone: Vec<i64>,
}

#[derive(sqlx::FromRow)]
struct ProcessRow {
    process: i64,
    what: String,
}

/// Looks who is there. What cannot be told counts as there: then a call waits, rather than run unasked.
pub(super) async fn look(app: &App, owner: OwnerId) -> Result<Seen, Fault> {
    let rows: Vec<ProcessRow> = app
        .db
        .read(owner, |tx| {
            Box::pin(async move { tx.all(&sql::PROCESSES, ()).await })
        })
        .await?;
    let mut seen = Seen::default();
    let processes: HashSet<i64> = rows.iter().map(|row| row.process).collect();
    for process in processes {
        if is_alive(&app.db, process).await {
            seen.approver |= rows
                .iter()
                .any(|row| row.process == process && row.what == "approver");
        } else {
            seen.gone.push(process);
        }
    }
    Ok(seen)
}

async fn is_alive(db: &Db, process: i64) -> bool {
    match db.locks().try_take(CLASS, process).await {
        Ok(None) => true,
        // Nobody will ever have this number again.
        Ok(Some(lock)) => {
            lock.retire().await;
            false
        }
        Err(fault) => {
            tracing::warn!(error = %fault.chain(), "whether a process is there could not be told; it counts as there");
            true
        }
    }
}

/// Whether the agent of this token is still one: the token is not revoked, nor gone with its turn, and its owner is not disabled.
///
/// # Errors
/// A fault.
pub async fn is_live(app: &App, owner: OwnerId, token: TokenId) -> Result<bool, Fault> {
    app.db
        .read(owner, move |tx| {
            Box::pin(async move { tx.number(&sql::TOKEN_LIVE, (token,)).await })
        })
        .await
        .map(|count| count > 0)
}

/// Whether somebody can be shown an ask of this owner's now.
///
/// # Errors
/// A fault.
pub async fn somebody_present(app: &App, owner: OwnerId) -> Result<bool, Fault> {
    look(app, owner).await.map(|seen| seen.approver)
}
