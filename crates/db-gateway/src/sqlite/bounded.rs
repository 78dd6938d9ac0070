//! Functions of SQLite that hold each byte of one value against each of another: let through only as long as that ends soon. Never computes anything itself.
//!
//! Within one call of a function nothing interrupts SQLite, and with two values of some megabytes such a call takes hours. The work is done by
//! the function that is replaced here, on a connection that has nothing in it.

use std::cell::OnceCell;

use rusqlite::functions::{Context, FunctionFlags, SubType};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result};

/// Most pairs of bytes of a call: a second or less.
const PAIRS: usize = 1 << 28;
/// The mark of a value that is JSON.
const JSON: u32 = b'J' as u32;

/// Name, number of arguments, and the same call with places for them.
const FUNCTIONS: &[(&str, i32, &str)] = &[
    ("instr", 2, "SELECT instr(?1, ?2)"),
    ("replace", 3, "SELECT replace(?1, ?2, ?3)"),
    ("trim", 2, "SELECT trim(?1, ?2)"),
    ("ltrim", 2, "SELECT ltrim(?1, ?2)"),
    ("rtrim", 2, "SELECT rtrim(?1, ?2)"),
    ("unhex", 2, "SELECT unhex(?1, ?2)"),
    ("json_patch", 2, "SELECT json_patch(?1, ?2)"),
    ("jsonb_patch", 2, "SELECT jsonb_patch(?1, ?2)"),
];

const fn bytes(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        // A number is written with a few letters.
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 32,
    }
}

fn call(
    context: &Context<'_>,
    own: &OnceCell<Connection>,
    name: &str,
    asked: &str,
) -> Result<(Value, SubType)> {
    let pairs = bytes(context.get_raw(0)).saturating_mul(bytes(context.get_raw(1)));
    if pairs > PAIRS {
        return Err(Error::UserFunctionError(
            format!("the arguments of {name}() are too large together; cut one of them with substr()").into(),
        ));
    }
    let connection = match own.get() {
        Some(connection) => connection,
        None => {
            let made = Connection::open_in_memory()?;
            own.get_or_init(|| made)
        }
    };
    let mut statement = connection.prepare(asked)?;
    for at in 0..context.len() {
        statement.raw_bind_parameter(
            at + 1,
            rusqlite::types::ToSqlOutput::Borrowed(context.get_raw(at)),
        )?;
    }
    let mut rows = statement.raw_query();
    let value: Value = match rows.next()? {
        Some(row) => row.get(0)?,
        None => Value::Null,
    };
    let is_json = name == "json_patch" && value != Value::Null;
    Ok((value, is_json.then_some(JSON)))
}

/// Puts the functions in the place of SQLite's own.
pub(super) fn put(connection: &Connection) -> Result<()> {
    for (name, arguments, asked) in FUNCTIONS {
        let flags = FunctionFlags::SQLITE_UTF8
            | FunctionFlags::SQLITE_DETERMINISTIC
            | FunctionFlags::SQLITE_INNOCUOUS
            | FunctionFlags::SQLITE_RESULT_SUBTYPE;
        let own = OnceCell::new();
        connection.create_scalar_function(*name, *arguments, flags, move |context| {
            call(context, &own, name, asked)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_let_through_is_what_sqlite_itself_computes() {
        let plain = Connection::open_in_memory().unwrap();
        let bounded = Connection::open_in_memory().unwrap();
        put(&bounded).unwrap();
        for asked in [
            "instr('aäb', 'b')",
            "instr(x'00ff01', x'01')",
            "instr(12.5, '.')",
            "instr(NULL, 'a')",
            "replace(0.1 + 0.2, '.', ',')",
            "replace('aaa', '', 'b')",
            "replace('äöä', 'ä', NULL)",
            "replace(x'6162', 'a', 5)",
            "trim('xxaxx', 'x')",
            "ltrim('äöa', 'öä')",
            "rtrim(1000, 0)",
            "unhex('AB-CD', '-')",
            "json_patch('{\"a\":1}', '{\"b\":1.50,\"a\":null}')",
            "json_array(json_patch('{\"a\":1}', '{}'))",
            "hex(jsonb_patch('{\"a\":1}', '{\"b\":2}'))",
            "typeof(json_patch(NULL, '{}'))",
        ] {
            let of = |connection: &Connection| -> Value {
                connection
                    .query_row(&format!("SELECT {asked}"), [], |row| row.get(0))
                    .unwrap()
            };
            assert_eq!(of(&bounded), of(&plain), "{asked}");
        }
    }

    #[test]
    fn what_would_take_hours_is_refused_and_said() {
        let bounded = Connection::open_in_memory().unwrap();
        put(&bounded).unwrap();
        let large = "hex(zeroblob(1500000))";
        for asked in [
            format!("instr({large}, {large} || '1')"),
            format!("replace({large}, {large}, '')"),
            format!("trim({large}, {large})"),
            format!("json_patch({large}, {large})"),
        ] {
            let failed = bounded
                .query_row(&format!("SELECT {asked}"), [], |row| row.get::<_, Value>(0))
                .unwrap_err();
            assert!(failed.to_string().contains("too large together"), "{failed}");
        }
    }
}
