//! Which bearer token belongs to which agent: `tokens.json`. Never shows, logs or repeats a token, and never trusts half a map.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use muster_core::{Fault, Secret};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

use crate::error::{BusError, failed};
use crate::files::open_plain;
use crate::home::{self, Home};
use crate::json::{self, Keep};
use crate::lock;
use crate::names::SeatId;

/// The file.
pub(crate) const FILE: &str = "tokens.json";

/// The map of tokens as it was when it was read. A server keeps one and reads it again when it is told to.
#[derive(Clone, Default)]
pub struct Tokens {
    entries: BTreeMap<SeatId, Entry>,
}

#[derive(Clone)]
struct Entry {
    token: Secret,
    /// Of equal length whatever the token, so that comparing takes one time.
    print: [u8; 32],
}

impl Entry {
    fn of(token: Secret) -> Self {
        let print = print(token.expose());
        Self { token, print }
    }
}

fn print(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens(of {} agents)", self.entries.len())
    }
}

impl Tokens {
    /// Reads the map: `None` when there is no file, which is not the same as an empty one: an empty map lets nobody in.
    ///
    /// # Errors
    /// [`BusError::Tokens`] when it is no map of agent ids to tokens, when two agents share a token or one stands there twice: none of it is
    /// accepted then. A fault.
    pub fn load(home: &Home) -> Result<Option<Self>, BusError> {
        let pairs = match json::read::<Pairs>(home, FILE) {
            Ok(Some(pairs)) => pairs.0,
            Ok(None) => return Ok(None),
            Err(BusError::Damaged(_)) => return Err(BusError::Tokens("it is not one JSON object")),
            Err(error) => return Err(error),
        };
        let mut entries = BTreeMap::new();
        let mut prints = HashSet::new();
        for (id, token) in pairs {
            let seat = SeatId::parse(&id).map_err(|_| BusError::Tokens("one of its names is no agent id"))?;
            let Value::String(token) = token else {
                return Err(BusError::Tokens("one of its values is no text"));
            };
            if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(BusError::Tokens(
                    "one of its tokens is empty or holds what no header can",
                ));
            }
            let entry = Entry::of(Secret::new(token));
            if !prints.insert(entry.print) {
                return Err(BusError::Tokens("two agents share one token"));
            }
            if entries.insert(seat, entry).is_some() {
                return Err(BusError::Tokens("one agent stands in it twice"));
            }
        }
        Ok(Some(Self { entries }))
    }

    /// Whose token this is. Takes the same time whichever it is and whether or not it is any.
    pub fn find(&self, bearer: &str) -> Option<SeatId> {
        let wanted = print(bearer);
        // One more than its place; 0 for none.
        let mut place = 0_u64;
        for (number, entry) in (1_u64..).zip(self.entries.values()) {
            place.conditional_assign(&number, entry.print.ct_eq(&wanted));
        }
        let place = usize::try_from(place).ok()?.checked_sub(1)?;
        self.entries.keys().nth(place).cloned()
    }

    /// Whether a token is this agent's. An agent without one has none that matches.
    pub fn matches(&self, seat: &SeatId, token: &str) -> bool {
        let wanted = print(token);
        let same = self
            .entries
            .get(seat)
            .map_or(Choice::from(0), |entry| entry.print.ct_eq(&wanted));
        same.into()
    }

    /// Whether an agent has a token.
    pub fn has(&self, seat: &SeatId) -> bool {
        self.entries.contains_key(seat)
    }

    /// The agents that have a token, in order.
    pub fn seats(&self) -> Vec<SeatId> {
        self.entries.keys().cloned().collect()
    }

    fn store(&self, home: &Home) -> Result<(), BusError> {
        let map: BTreeMap<&str, &str> = self
            .entries
            .iter()
            .map(|(seat, entry)| (seat.as_str(), entry.token.expose()))
            .collect();
        // The file is made anew with mode 600 each time, whatever the mode of the one before.
        json::write(home, FILE, &map, Keep::Durably)
    }
}

/// Makes a new token for an agent; one it had before stops working when the servers read the file again. This is the only time it is shown.
///
/// # Errors
/// [`BusError::Tokens`], [`BusError::Held`], a fault; the file stands as it was then.
pub fn mint(home: &Home, seat: &SeatId) -> Result<Secret, BusError> {
    let random = muster_core::secret::random_hex::<24>().map_err(Fault::from)?;
    let token = Secret::new(format!("tk_{random}"));
    let _held = lock::lock(home, FILE)?;
    let mut tokens = Tokens::load(home)?.unwrap_or_default();
    tokens.entries.insert(seat.clone(), Entry::of(token.clone()));
    tokens.store(home)?;
    Ok(token)
}

/// The agents that have a token, in order. Its mode is repaired on the way.
///
/// # Errors
/// [`BusError::Tokens`], a fault.
pub fn list(home: &Home) -> Result<Vec<SeatId>, BusError> {
    tighten(home)?;
    Ok(Tokens::load(home)?.unwrap_or_default().seats())
}

/// Takes an agent's token away. Answers whether it had one. The last one that goes leaves an empty map, which lets nobody in: only removing
/// the file by hand opens the bus to the shared token again.
///
/// # Errors
/// [`BusError::Tokens`], [`BusError::Held`], a fault; the file stands as it was then.
pub fn revoke(home: &Home, seat: &SeatId) -> Result<bool, BusError> {
    let _held = lock::lock(home, FILE)?;
    tighten(home)?;
    let Some(mut tokens) = Tokens::load(home)? else {
        return Ok(false);
    };
    let had = tokens.entries.remove(seat).is_some();
    if had {
        tokens.store(home)?;
    }
    Ok(had)
}

/// Moves an agent's token to another id in one write, so that the same bearer goes on working. Answers whether there was one to move.
///
/// # Errors
/// [`BusError::IdInUse`] when the other id has a token, [`BusError::Tokens`], [`BusError::Held`], a fault; the file stands as it was then.
pub fn rename(home: &Home, old: &SeatId, new: &SeatId) -> Result<bool, BusError> {
    let _held = lock::lock(home, FILE)?;
    let Some(mut tokens) = Tokens::load(home)? else {
        return Ok(false);
    };
    let Some(entry) = tokens.entries.remove(old) else {
        return Ok(false);
    };
    if tokens.entries.insert(new.clone(), entry).is_some() {
        return Err(BusError::IdInUse {
            id: new.clone(),
            why: "it has a token",
        });
    }
    tokens.store(home)?;
    Ok(true)
}

/// Whether others than its user may read the file. False when there is none.
pub fn loose_mode(home: &Home) -> bool {
    home::open_to_others(&home.path(FILE))
}

/// Gives the file its mode 600 back. Answers whether it had another.
///
/// # Errors
/// A fault.
pub fn tighten(home: &Home) -> Result<bool, BusError> {
    if !loose_mode(home) {
        return Ok(false);
    }
    let path = home.path(FILE);
    open_plain(&path, File::options().read(true))
        .and_then(|file| file.set_permissions(Permissions::from_mode(0o600)))
        .map_err(|error| failed("change the mode of", &path, error))?;
    Ok(true)
}

/// The pairs of a JSON object as they stand there: a name that stands twice is seen twice.
struct Pairs(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;

        impl<'de> Visitor<'de> for Each {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of agent ids and tokens")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Each)
    }
}
