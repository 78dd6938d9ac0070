//! Agent ids and channel names: parsed once at the door, so that none can name a file outside its folder or share one with another. Never touches a disk.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::BusError;

/// Longest name, in bytes.
pub const MAX_NAME: usize = 64;

/// An agent's (or person's) id. Its files bear its name as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SeatId(String);

impl SeatId {
    /// Reads an id. The programs that shared this directory before named files after an id with every other character replaced by `_`, so
    /// that two ids could share an inbox; only ids that are their own file name are accepted.
    ///
    /// # Errors
    /// [`BusError::SeatName`].
    pub fn parse(text: &str) -> Result<Self, BusError> {
        let reserved = ["system", "__proto__", "constructor", "prototype"].contains(&text);
        if reserved || !plain(text, |b| b.is_ascii_alphanumeric()) {
            return Err(BusError::SeatName);
        }
        Ok(Self(text.to_owned()))
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A channel's name, without `#`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RoomName(String);

impl RoomName {
    /// The channel that everybody is in.
    pub const GENERAL: &'static str = "general";

    /// Reads a name, with or without `#`, in either case.
    ///
    /// # Errors
    /// [`BusError::RoomName`]: characters that other programs would drop are refused, so that `#a/b` is not `#ab`.
    pub fn parse(text: &str) -> Result<Self, BusError> {
        let name = text.trim().trim_start_matches('#').to_ascii_lowercase();
        if !plain(&name, |b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            return Err(BusError::RoomName);
        }
        Ok(Self(name))
    }

    /// The channel that everybody is in.
    pub fn general() -> Self {
        Self(Self::GENERAL.to_owned())
    }

    /// Whether this is the channel that everybody is in.
    pub fn is_general(&self) -> bool {
        self.0 == Self::GENERAL
    }

    /// The name, without `#`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn plain(text: &str, letter: impl Fn(u8) -> bool) -> bool {
    let first = text.bytes().next();
    first.is_some_and(|b| b != b'.' && b != b'-')
        && text.len() <= MAX_NAME
        && text.bytes().all(|b| letter(b) || matches!(b, b'.' | b'_' | b'-'))
}

macro_rules! shown {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}
shown!(SeatId);
shown!(RoomName);
