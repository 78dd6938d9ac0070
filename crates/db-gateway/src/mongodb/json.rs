//! Documents as relaxed Extended JSON with the keys in their order. Never rounds an integer.

use bson::Bson;

const MAX_EXACT: i64 = (1 << 53) - 1;

/// The name that MongoDB's own `$type` has for it.
pub(super) const fn type_name(value: &Bson) -> &'static str {
    match value {
        Bson::Double(_) => "double",
        Bson::String(_) => "string",
        Bson::Array(_) => "array",
        Bson::Document(_) => "object",
        Bson::Boolean(_) => "bool",
        Bson::Null => "null",
        Bson::RegularExpression(_) => "regex",
        Bson::JavaScriptCode(_) | Bson::JavaScriptCodeWithScope(_) => "javascript",
        Bson::Int32(_) => "int",
        Bson::Int64(_) => "long",
        Bson::Timestamp(_) => "timestamp",
        Bson::Binary(_) => "binData",
        Bson::ObjectId(_) => "objectId",
        Bson::DateTime(_) => "date",
        Bson::Symbol(_) => "symbol",
        Bson::Decimal128(_) => "decimal",
        Bson::Undefined => "undefined",
        Bson::MaxKey => "maxKey",
        Bson::MinKey => "minKey",
        Bson::DbPointer(_) => "dbPointer",
    }
}

pub(super) fn write(value: &Bson) -> String {
    let mut out = String::new();
    put(value, &mut out);
    out
}

fn text(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// The server bounds how deep its documents nest (100), and the driver how deep it reads.
fn put(value: &Bson, out: &mut String) {
    match value {
        Bson::Document(document) => {
            out.push('{');
            for (place, (key, value)) in document.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                out.push_str(&text(key));
                out.push(':');
                put(value, out);
            }
            out.push('}');
        }
        Bson::Array(values) => {
            out.push('[');
            for (place, value) in values.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                put(value, out);
            }
            out.push(']');
        }
        Bson::String(string) => out.push_str(&text(string)),
        Bson::Int64(number) if !(-MAX_EXACT..=MAX_EXACT).contains(number) => {
            out.push_str(&format!("{{\"$numberLong\":\"{number}\"}}"));
        }
        other => out.push_str(&other.clone().into_relaxed_extjson().to_string()),
    }
}
