//! Who delivers to a seat: one row for each in `.muster/deliverers/`, so that two processes never type the same message. Never types and never waits for another deliverer to end.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{BusError, failed};
use crate::files;
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock;
use crate::names::SeatId;
use crate::{fresh, sessions};

use super::Standing;

/// The folder. Its lock stands for every row in it.
const FOLDER: &str = ".muster/deliverers";

/// A row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    /// Which deliverer.
    pub(crate) holder: String,
    /// Its process, on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    /// When that process began, in the kernel's ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pid_start: Option<u64>,
    /// Until when it holds, in milliseconds; of a deliverer on another machine, which says again and again that it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<i64>,
    /// How its push stands.
    #[serde(default)]
    pub(crate) standing: Standing,
}

impl Row {
    /// Whether its deliverer is still there, at `now` milliseconds.
    fn holds(&self, now: i64) -> bool {
        match (self.pid, self.until) {
            (Some(pid), _) if pid == std::process::id() && self.is_of_this_process() => {
                here().contains(&self.holder)
            }
            (Some(pid), _) => sessions::running(pid, self.pid_start),
            (None, Some(until)) => now < until,
            (None, None) => false,
        }
    }

    fn is_of_this_process(&self) -> bool {
        self.pid_start.is_none() || self.pid_start == sessions::start_of(std::process::id())
    }
}

/// The deliverers of this process that have not ended.
fn here() -> MutexGuard<'static, HashSet<String>> {
    static HERE: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn file(seat: &SeatId) -> String {
    format!("{FOLDER}/{seat}.json")
}

/// The row of a seat. One that cannot be read is none: it is replaced by the next deliverer.
pub(crate) fn row(home: &Home, seat: &SeatId) -> Result<Option<Row>, BusError> {
    match json::read(home, &file(seat)) {
        Err(BusError::Damaged(_)) => Ok(None),
        other => other,
    }
}

/// The row of a seat whose deliverer is there.
pub(crate) fn live(home: &Home, seat: &SeatId) -> Result<Option<Row>, BusError> {
    Ok(row(home, seat)?.filter(|row| row.holds(home.now())))
}

/// How the push to a seat stands; `None` when nobody delivers to it now.
///
/// # Errors
/// A fault.
pub fn standing(home: &Home, seat: &SeatId) -> Result<Option<Standing>, BusError> {
    Ok(live(home, seat)?.map(|row| row.standing))
}

/// Takes the lease of a seat for `holder`, or renews it. Answers who holds it, when that is another.
fn take(home: &Home, seat: &SeatId, mut wanted: Row) -> Result<Option<String>, BusError> {
    let now = home.now();
    let before = row(home, seat)?;
    if let Some(row) = &before {
        if row.holder != wanted.holder && row.holds(now) {
            return Ok(Some(row.holder.clone()));
        }
        if row.holder == wanted.holder {
            if row.until.is_none() && wanted.until.is_none() {
                return Ok(None);
            }
            wanted.standing = row.standing.clone();
        }
    }
    home::make_folder(&home.path(FOLDER))?;
    let _held = lock::lock(home, FOLDER)?;
    if let Some(row) = row(home, seat)?.filter(|row| row.holder != wanted.holder && row.holds(now)) {
        return Ok(Some(row.holder));
    }
    json::write(home, &file(seat), &wanted, Keep::Quickly)?;
    Ok(None)
}

/// Takes a seat's lease away, whoever holds it: nothing is written to that id any more.
pub(crate) fn forget(home: &Home, seat: &SeatId) -> Result<(), BusError> {
    let path = home.path(&file(seat));
    if !files::exists(&path) {
        return Ok(());
    }
    let _held = lock::lock(home, FOLDER)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", &path, error)),
        _ => Ok(()),
    }
}

/// Gives a lease back, unless another has it by now.
fn release(home: &Home, seat: &SeatId, holder: &str) -> Result<(), BusError> {
    let _held = lock::lock(home, FOLDER)?;
    if row(home, seat)?.is_none_or(|row| row.holder != holder) {
        return Ok(());
    }
    let path = home.path(&file(seat));
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", &path, error)),
        _ => Ok(()),
    }
}

/// Notes how the push of a holder stands.
pub(crate) fn note(home: &Home, seat: &SeatId, holder: &str, standing: &Standing) -> Result<(), BusError> {
    let _held = lock::lock(home, FOLDER)?;
    match row(home, seat)? {
        Some(mut row) if row.holder == holder && row.standing != *standing => {
            row.standing = standing.clone();
            json::write(home, &file(seat), &row, Keep::Quickly)
        }
        _ => Ok(()),
    }
}

/// How long a remote deliverer holds a seat beyond what it waits for: it types and reports meanwhile.
const REMOTE: Duration = Duration::from_secs(60);

/// Takes or renews the lease of a remote deliverer, which will ask again after `wait`. Answers who holds the seat, when that is another.
pub(crate) fn remote(
    home: &Home,
    seat: &SeatId,
    holder: &str,
    wait: Duration,
) -> Result<Option<String>, BusError> {
    let span = i64::try_from((wait + REMOTE).as_millis()).unwrap_or(i64::MAX);
    let row = Row {
        holder: holder.to_owned(),
        pid: None,
        pid_start: None,
        until: Some(home.now().saturating_add(span)),
        standing: Standing::default(),
    };
    take(home, seat, row)
}

/// Forgets the lease of a remote deliverer, which says that it has ended; of whichever holds it, when it does not say who it is.
pub(crate) fn ended(home: &Home, seat: &SeatId, holder: Option<&str>) -> Result<(), BusError> {
    match row(home, seat)? {
        Some(row) if row.until.is_some() && holder.is_none_or(|holder| holder == row.holder) => {
            release(home, seat, &row.holder)
        }
        _ => Ok(()),
    }
}

/// The lease of a deliverer of this process. It is given back when this is dropped, and dies with the process.
pub(crate) struct Lease {
    home: Home,
    seat: SeatId,
    holder: String,
}

impl Lease {
    /// For a deliverer that begins. Nothing is taken yet.
    pub(crate) fn new(home: &Home, seat: &SeatId) -> Result<Self, BusError> {
        let holder = format!("{}-{}", std::process::id(), fresh::id()?);
        here().insert(holder.clone());
        Ok(Self {
            home: home.clone(),
            seat: seat.clone(),
            holder,
        })
    }

    /// Takes it, or makes sure that it is held. Answers who holds it, when that is another.
    pub(crate) fn hold(&self) -> Result<Option<String>, BusError> {
        let pid = std::process::id();
        let row = Row {
            holder: self.holder.clone(),
            pid: Some(pid),
            pid_start: sessions::start_of(pid),
            until: None,
            standing: Standing::default(),
        };
        take(&self.home, &self.seat, row)
    }

    /// Notes how the push stands.
    pub(crate) fn note(&self, standing: &Standing) -> Result<(), BusError> {
        note(&self.home, &self.seat, &self.holder, standing)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        here().remove(&self.holder);
        if let Err(error) = release(&self.home, &self.seat, &self.holder) {
            tracing::warn!(error = %error.chain(), "the lease of a seat could not be given back; it counts no more once this process has ended");
        }
    }
}
