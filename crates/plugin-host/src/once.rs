//! JSON that names no key twice: of two under one name a program takes the last and a person may read the first. Never says what the keys mean.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Looks at a text that is JSON already.
///
/// # Errors
/// An object in it, however deep, names a key twice; the error has the place.
pub(crate) fn check(text: &[u8]) -> Result<(), serde_json::Error> {
    serde_json::from_slice::<Once>(text).map(|Once| ())
}

/// JSON in which no object, however deep, names a key twice.
struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;
        impl<'de> Visitor<'de> for Read {
            type Value = Once;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON that names no key twice")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Once, M::Error> {
                let mut keys = BTreeSet::new();
                while let Some((key, Once)) = map.next_entry::<String, Once>()? {
                    if !keys.insert(key) {
                        return Err(M::Error::custom("a key is named twice"));
                    }
                }
                Ok(Once)
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<Once, S::Error> {
                while seq.next_element::<Once>()?.is_some() {}
                Ok(Once)
            }

            fn visit_str<E>(self, _: &str) -> Result<Once, E> {
                Ok(Once)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Once, E> {
                Ok(Once)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Once, E> {
                Ok(Once)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Once, E> {
                Ok(Once)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Once, E> {
                Ok(Once)
            }

            fn visit_unit<E>(self) -> Result<Once, E> {
                Ok(Once)
            }
        }
        deserializer.deserialize_any(Read)
    }
}
