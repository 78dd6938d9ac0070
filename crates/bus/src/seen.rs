//! A small JSON file as it was last read, for what every message asks. Never trusted once the file is another.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::BusError;

/// What was read, and what its file looked like then.
pub(crate) struct Seen<T>(Mutex<Option<(Stamp, Arc<T>)>>);

type Stamp = (u64, u64, i64, i64);

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Seen<T> {
    /// What `load` read from the file at `path`, which is asked again only when the file is another than the last time.
    ///
    /// # Errors
    /// What `load` answers.
    pub(crate) fn get(
        &self,
        path: &Path,
        load: impl FnOnce() -> Result<T, BusError>,
    ) -> Result<Arc<T>, BusError> {
        // Before the read: a file that changes in between is read again the next time.
        let now = stamp(path);
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(now), Some((then, value))) = (now, &*seen)
            && *then == now
        {
            return Ok(value.clone());
        }
        let value = Arc::new(load()?);
        *seen = now.map(|now| (now, value.clone()));
        Ok(value)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}
