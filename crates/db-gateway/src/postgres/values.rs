//! PostgreSQL's texts of values as values. Never rounds: what has no exact form in JSON stays text.

use crate::answer::Cell;

/// Types by their number, for which no catalogue is asked.
const NAMES: &[(u32, &str)] = &[
    (16, "boolean"),
    (17, "bytea"),
    (18, "\"char\""),
    (19, "name"),
    (20, "bigint"),
    (21, "smallint"),
    (23, "integer"),
    (24, "regproc"),
    (25, "text"),
    (26, "oid"),
    (28, "xid"),
    (114, "json"),
    (142, "xml"),
    (194, "pg_node_tree"),
    (600, "point"),
    (650, "cidr"),
    (700, "real"),
    (701, "double precision"),
    (705, "unknown"),
    (790, "money"),
    (829, "macaddr"),
    (869, "inet"),
    (1000, "boolean[]"),
    (1001, "bytea[]"),
    (1002, "\"char\"[]"),
    (1003, "name[]"),
    (1005, "smallint[]"),
    (1007, "integer[]"),
    (1009, "text[]"),
    (1014, "character[]"),
    (1015, "character varying[]"),
    (1016, "bigint[]"),
    (1021, "real[]"),
    (1022, "double precision[]"),
    (1028, "oid[]"),
    (1034, "aclitem[]"),
    (1042, "character"),
    (1043, "character varying"),
    (1082, "date"),
    (1083, "time without time zone"),
    (1114, "timestamp without time zone"),
    (1115, "timestamp without time zone[]"),
    (1182, "date[]"),
    (1184, "timestamp with time zone"),
    (1185, "timestamp with time zone[]"),
    (1186, "interval"),
    (1231, "numeric[]"),
    (1266, "time with time zone"),
    (1560, "bit"),
    (1562, "bit varying"),
    (1700, "numeric"),
    (2205, "regclass"),
    (2206, "regtype"),
    (2249, "record"),
    (2278, "void"),
    (2950, "uuid"),
    (2951, "uuid[]"),
    (3220, "pg_lsn"),
    (3614, "tsvector"),
    (3615, "tsquery"),
    (3802, "jsonb"),
    (3807, "jsonb[]"),
    (199, "json[]"),
    (3904, "int4range"),
    (3906, "numrange"),
    (3908, "tsrange"),
    (3910, "tstzrange"),
    (3912, "daterange"),
    (3926, "int8range"),
    (4072, "jsonpath"),
    (5069, "xid8"),
];

pub(super) fn type_name(oid: u32) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(known, _)| *known == oid)
        .map(|(_, name)| *name)
}

/// The type of the elements, for the arrays that are taken apart.
const fn element(oid: u32) -> Option<u32> {
    Some(match oid {
        1000 => 16,
        1001 => 17,
        1003 => 19,
        1005 => 21,
        1007 => 23,
        1009 => 25,
        1014 => 1042,
        1015 => 1043,
        1016 => 20,
        1021 => 700,
        1022 => 701,
        1028 => 26,
        1115 => 1114,
        1182 => 1082,
        1185 => 1184,
        1231 => 1700,
        2951 => 2950,
        199 => 114,
        3807 => 3802,
        _ => return None,
    })
}

pub(super) fn cell(oid: u32, value: &[u8]) -> Cell {
    let Ok(text) = std::str::from_utf8(value) else {
        return Cell::bytes(value);
    };
    if let Some(element) = element(oid) {
        return array(element, text).unwrap_or_else(|| Cell::Text(text.to_owned()));
    }
    scalar(oid, text)
}

fn scalar(oid: u32, text: &str) -> Cell {
    let plain = || Cell::Text(text.to_owned());
    match oid {
        16 => Cell::Bool(text == "t"),
        20 | 21 | 23 | 26 => text.parse().map_or_else(|_| plain(), Cell::int),
        // A real's shortest text read as a double prints alike.
        700 | 701 => text.parse::<f64>().map_or_else(
            |_| plain(),
            |number| {
                if number.is_finite() {
                    Cell::Float(number)
                } else {
                    plain()
                }
            },
        ),
        17 => text
            .strip_prefix("\\x")
            .and_then(unhex)
            .map_or_else(plain, |bytes| Cell::bytes(&bytes)),
        114 | 3802 => Cell::json(text),
        1114 | 1184 => Cell::Text(timestamp(text)),
        1266 => Cell::Text(offset(text)),
        _ => plain(),
    }
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
            _ => None,
        })
        .collect()
}

/// `2026-01-02 03:04:05.6+00` as RFC 3339; one without a zone keeps none, years before Christ and infinity stay as they are.
fn timestamp(text: &str) -> String {
    match text.split_once(' ') {
        Some((day, time)) if !time.contains(' ') => format!("{day}T{}", offset(time)),
        _ => text.to_owned(),
    }
}

/// `+02` as `+02:00`, `+00` as `Z`.
fn offset(time: &str) -> String {
    let Some(at) = time.rfind(['+', '-']) else {
        return time.to_owned();
    };
    let (clock, zone) = time.split_at(at);
    match zone {
        "+00" => format!("{clock}Z"),
        zone if zone.len() == 3 => format!("{clock}{zone}:00"),
        _ => time.to_owned(),
    }
}

/// `{1,NULL,"a b"}`, nested or not; one with bounds of its own stays text.
fn array(element: u32, text: &str) -> Option<Cell> {
    let mut open: Vec<Vec<Cell>> = Vec::new();
    let mut letters = text.chars().peekable();
    loop {
        match letters.next()? {
            '{' => {
                if open.len() >= 6 {
                    return None;
                }
                open.push(Vec::new());
                if letters.peek() == Some(&'}') {
                    continue;
                }
                if letters.peek() == Some(&'{') {
                    continue;
                }
                let value = item(element, &mut letters)?;
                open.last_mut()?.push(value);
            }
            ',' => {
                if letters.peek() == Some(&'{') {
                    continue;
                }
                let value = item(element, &mut letters)?;
                open.last_mut()?.push(value);
            }
            '}' => {
                let done = Cell::List(open.pop()?);
                match open.last_mut() {
                    Some(outer) => outer.push(done),
                    None => return letters.next().is_none().then_some(done),
                }
            }
            _ => return None,
        }
    }
}

fn item(element: u32, letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Cell> {
    let mut value = String::new();
    if letters.next_if_eq(&'"').is_some() {
        loop {
            match letters.next()? {
                '"' => return Some(scalar(element, &value)),
                '\\' => value.push(letters.next()?),
                letter => value.push(letter),
            }
        }
    }
    while let Some(letter) = letters.next_if(|letter| !matches!(letter, ',' | '}' | '{')) {
        value.push(if letter == '\\' { letters.next()? } else { letter });
    }
    Some(if value == "NULL" {
        Cell::Null
    } else {
        scalar(element, &value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(oid: u32, text: &str) -> String {
        serde_json::to_string(&cell(oid, text.as_bytes())).unwrap()
    }

    #[test]
    fn no_value_is_rounded_on_the_way_to_json() {
        assert_eq!(json(20, "9007199254740991"), "9007199254740991");
        assert_eq!(json(20, "9007199254740992"), "\"9007199254740992\"");
        assert_eq!(json(1700, "0.10"), "\"0.10\"");
        assert_eq!(json(701, "0.1"), "0.1");
        assert_eq!(json(701, "NaN"), "\"NaN\"");
        assert_eq!(json(17, "\\x00ff"), "\"AP8=\"");
        assert_eq!(
            json(3802, "{\"b\": 1.50, \"a\": 12345678901234567890}"),
            "{\"b\": 1.50, \"a\": 12345678901234567890}"
        );
    }

    #[test]
    fn times_are_rfc_3339() {
        assert_eq!(
            json(1184, "2026-01-02 03:04:05.6+00"),
            "\"2026-01-02T03:04:05.6Z\""
        );
        assert_eq!(
            json(1184, "2026-01-02 03:04:05-05"),
            "\"2026-01-02T03:04:05-05:00\""
        );
        assert_eq!(
            json(1184, "2026-01-02 03:04:05+05:30"),
            "\"2026-01-02T03:04:05+05:30\""
        );
        assert_eq!(json(1114, "2026-01-02 03:04:05"), "\"2026-01-02T03:04:05\"");
        assert_eq!(json(1184, "infinity"), "\"infinity\"");
        assert_eq!(json(1114, "0044-03-15 00:00:00 BC"), "\"0044-03-15 00:00:00 BC\"");
    }

    #[test]
    fn arrays_become_lists_and_odd_ones_stay_text() {
        assert_eq!(json(1007, "{1,NULL,3}"), "[1,null,3]");
        assert_eq!(json(1007, "{}"), "[]");
        assert_eq!(json(1007, "{{1,2},{3,4}}"), "[[1,2],[3,4]]");
        assert_eq!(
            json(1009, "{a,\"b c\",\"d\\\"\\\\e\",\"NULL\",NULL,\"\"}"),
            r#"["a","b c","d\"\\e","NULL",null,""]"#
        );
        assert_eq!(json(1007, "[0:1]={1,2}"), "\"[0:1]={1,2}\"");
    }
}
