//! Stored text that may be none. Never makes a row unreadable for the sake of one column.

use sqlx::{Database, Decode, Type};

/// The text of a column, or nothing where its bytes are no text, which SQLite keeps when a disk or a person damaged them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored(Option<String>);

impl Stored {
    /// The text, if it is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

impl<DB: Database> Type<DB> for Stored
where
    String: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <String as Type<DB>>::type_info()
    }

    fn compatible(info: &DB::TypeInfo) -> bool {
        <String as Type<DB>>::compatible(info)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Stored
where
    String: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        Ok(Self(String::decode(value).ok()))
    }
}
