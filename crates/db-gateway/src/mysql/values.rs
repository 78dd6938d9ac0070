//! MySQL's values as values. Never rounds: decimals and large integers stay text.

use mysql_async::consts::{ColumnFlags, ColumnType};
use mysql_async::{Column as Described, Value};

use crate::answer::Cell;

const BINARY: u16 = 63;

pub(super) fn type_name(column: &Described) -> String {
    let binary = column.character_set() == BINARY;
    let name = match column.column_type() {
        ColumnType::MYSQL_TYPE_TINY => "tinyint",
        ColumnType::MYSQL_TYPE_SHORT => "smallint",
        ColumnType::MYSQL_TYPE_INT24 => "mediumint",
        ColumnType::MYSQL_TYPE_LONG => "int",
        ColumnType::MYSQL_TYPE_LONGLONG => "bigint",
        ColumnType::MYSQL_TYPE_FLOAT => "float",
        ColumnType::MYSQL_TYPE_DOUBLE => "double",
        ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => "decimal",
        ColumnType::MYSQL_TYPE_YEAR => "year",
        ColumnType::MYSQL_TYPE_DATE | ColumnType::MYSQL_TYPE_NEWDATE => "date",
        ColumnType::MYSQL_TYPE_DATETIME | ColumnType::MYSQL_TYPE_DATETIME2 => "datetime",
        ColumnType::MYSQL_TYPE_TIMESTAMP | ColumnType::MYSQL_TYPE_TIMESTAMP2 => "timestamp",
        ColumnType::MYSQL_TYPE_TIME | ColumnType::MYSQL_TYPE_TIME2 => "time",
        ColumnType::MYSQL_TYPE_JSON => "json",
        ColumnType::MYSQL_TYPE_BIT => "bit",
        ColumnType::MYSQL_TYPE_GEOMETRY => "geometry",
        ColumnType::MYSQL_TYPE_NULL => "null",
        _ if column.flags().contains(ColumnFlags::ENUM_FLAG) => "enum",
        _ if column.flags().contains(ColumnFlags::SET_FLAG) => "set",
        ColumnType::MYSQL_TYPE_VARCHAR | ColumnType::MYSQL_TYPE_VAR_STRING => {
            if binary {
                "varbinary"
            } else {
                "varchar"
            }
        }
        ColumnType::MYSQL_TYPE_STRING => {
            if binary {
                "binary"
            } else {
                "char"
            }
        }
        _ => {
            if binary {
                "blob"
            } else {
                "text"
            }
        }
    };
    let whole = matches!(
        column.column_type(),
        ColumnType::MYSQL_TYPE_TINY
            | ColumnType::MYSQL_TYPE_SHORT
            | ColumnType::MYSQL_TYPE_INT24
            | ColumnType::MYSQL_TYPE_LONG
            | ColumnType::MYSQL_TYPE_LONGLONG
    );
    if whole && column.flags().contains(ColumnFlags::UNSIGNED_FLAG) {
        format!("{name} unsigned")
    } else {
        name.to_owned()
    }
}

/// In MariaDB a JSON column is a LONGTEXT with a check; only such a one is worth asking about.
pub(super) fn may_be_json(column: &Described) -> bool {
    column.character_set() != BINARY
        && column.column_length() == u32::MAX
        && !column.org_table_ref().is_empty()
        && matches!(
            column.column_type(),
            ColumnType::MYSQL_TYPE_BLOB | ColumnType::MYSQL_TYPE_LONG_BLOB
        )
}

pub(super) fn cell(column: &Described, value: Value) -> Cell {
    match value {
        Value::NULL => Cell::Null,
        Value::Int(number) => Cell::int(number),
        Value::UInt(number) => Cell::unsigned(number),
        // Its own shortest text, so that 0.1 stays 0.1.
        Value::Float(number) => number
            .to_string()
            .parse()
            .map_or_else(|_| Cell::Text(number.to_string()), Cell::float),
        Value::Double(number) => Cell::float(number),
        Value::Date(year, month, day, hour, minute, second, micro) => {
            let date = format!("{year:04}-{month:02}-{day:02}");
            Cell::Text(match column.column_type() {
                ColumnType::MYSQL_TYPE_DATE | ColumnType::MYSQL_TYPE_NEWDATE => date,
                kind => {
                    let zone = if matches!(
                        kind,
                        ColumnType::MYSQL_TYPE_TIMESTAMP | ColumnType::MYSQL_TYPE_TIMESTAMP2
                    ) {
                        "Z"
                    } else {
                        ""
                    };
                    format!(
                        "{date}T{hour:02}:{minute:02}:{second:02}{}{zone}",
                        fraction(micro)
                    )
                }
            })
        }
        Value::Time(negative, days, hours, minutes, seconds, micro) => {
            let sign = if negative { "-" } else { "" };
            let hours = days * 24 + u32::from(hours);
            Cell::Text(format!(
                "{sign}{hours:02}:{minutes:02}:{seconds:02}{}",
                fraction(micro)
            ))
        }
        Value::Bytes(bytes) => match column.column_type() {
            ColumnType::MYSQL_TYPE_JSON => {
                std::str::from_utf8(&bytes).map_or_else(|_| Cell::bytes(&bytes), Cell::json)
            }
            ColumnType::MYSQL_TYPE_BIT if bytes.len() <= 8 => Cell::unsigned(
                bytes
                    .iter()
                    .fold(0, |number, byte| number << 8 | u64::from(*byte)),
            ),
            ColumnType::MYSQL_TYPE_GEOMETRY => Cell::bytes(&bytes),
            ColumnType::MYSQL_TYPE_DECIMAL | ColumnType::MYSQL_TYPE_NEWDECIMAL => Cell::text(&bytes),
            _ if column.character_set() == BINARY && holds_bytes(column) => Cell::bytes(&bytes),
            _ => Cell::text(&bytes),
        },
    }
}

fn holds_bytes(column: &Described) -> bool {
    matches!(
        column.column_type(),
        ColumnType::MYSQL_TYPE_STRING
            | ColumnType::MYSQL_TYPE_VARCHAR
            | ColumnType::MYSQL_TYPE_VAR_STRING
            | ColumnType::MYSQL_TYPE_BLOB
            | ColumnType::MYSQL_TYPE_TINY_BLOB
            | ColumnType::MYSQL_TYPE_MEDIUM_BLOB
            | ColumnType::MYSQL_TYPE_LONG_BLOB
    )
}

fn fraction(micro: u32) -> String {
    if micro == 0 {
        String::new()
    } else {
        format!(".{micro:06}").trim_end_matches('0').to_owned()
    }
}
