//! What a database answered, as a person reads it on a terminal. Never prints outside text unescaped, and never lets a missing value look like a text.

use std::fmt::Write as _;

use muster_core::text::terminal;
use muster_db_gateway::{Answer, Cell, Rows};

/// Columns are not padded beyond this.
const WIDEST: usize = 40;

/// The answer in lines, each ended.
pub(super) fn text(answer: &Answer) -> String {
    match answer {
        Answer::Rows(rows) => table(rows),
        Answer::Reply { reply, truncated } => {
            let mut out = String::new();
            match reply {
                Cell::List(cells) if !cells.is_empty() => {
                    for (number, one) in cells.iter().enumerate() {
                        // Writing to a String cannot fail.
                        let _ = writeln!(out, "{}) {}", number + 1, cell(one));
                    }
                }
                one => {
                    let _ = writeln!(out, "{}", cell(one));
                }
            }
            told(&mut out, *truncated);
            out
        }
        Answer::Document { document, truncated } => {
            let mut out = json(document.get());
            told(&mut out, *truncated);
            out
        }
    }
}

fn told(out: &mut String, truncated: bool) {
    if truncated {
        out.push_str("(more was cut off)\n");
    }
}

/// A JSON text over several lines, its keys in their order and its numbers as they were written.
pub(super) fn json(text: &str) -> String {
    let mut out = String::new();
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    let mut letters = text
        .chars()
        .filter(|letter| !matches!(letter, '\n' | '\r'))
        .peekable();
    let broken = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    while let Some(letter) = letters.next() {
        match letter {
            _ if quoted => {
                quoted = escaped || letter != '"';
                escaped = !escaped && letter == '\\';
                out.push(letter);
            }
            ' ' | '\t' => {}
            '{' | '[' => {
                out.push(letter);
                if let Some(end) = letters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    broken(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                broken(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                broken(&mut out, depth);
            }
            ':' => out.push_str(": "),
            other => {
                quoted = other == '"';
                out.push(other);
            }
        }
    }
    lines(&out)
}

/// A text of several lines.
pub(super) fn lines(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", terminal(line))).collect()
}

fn table(rows: &Rows) -> String {
    let head: Vec<String> = rows.columns.iter().map(|column| terminal(&column.name)).collect();
    let body: Vec<Vec<String>> = rows
        .rows
        .iter()
        .map(|row| row.iter().map(cell).collect())
        .collect();
    let mut out = aligned(&head, &body);
    let count = body.len();
    let word = if count == 1 { "row" } else { "rows" };
    // Writing to a String cannot fail.
    let _ = match (rows.truncated, rows.affected) {
        (true, _) => writeln!(out, "(the first {count} {word}; more were cut off)"),
        (false, Some(changed)) => writeln!(out, "({count} {word}; {changed} changed)"),
        (false, None) => writeln!(out, "({count} {word})"),
    };
    out
}

/// Texts under their names. A column without a text is left out.
pub(super) fn texts(names: &[&str], rows: &[Vec<String>]) -> String {
    let told = |place: &usize| {
        rows.iter()
            .any(|row| row.get(*place).is_some_and(|text| !text.is_empty()))
    };
    let places: Vec<usize> = (0..names.len()).filter(told).collect();
    let picked = |row: Vec<String>| {
        places
            .iter()
            .filter_map(|place| row.get(*place).map(|text| terminal(text)))
            .collect()
    };
    let head: Vec<String> = picked(names.iter().map(|name| (*name).to_owned()).collect());
    let body: Vec<Vec<String>> = rows.iter().cloned().map(picked).collect();
    aligned(&head, &body)
}

/// Cells that are fit for a terminal, in columns under a head and a rule.
fn aligned(head: &[String], body: &[Vec<String>]) -> String {
    let width = |place: usize| {
        let all = std::iter::once(head).chain(body.iter().map(Vec::as_slice));
        let widths = all
            .filter_map(|row| row.get(place))
            .map(|text| text.chars().count());
        widths.max().unwrap_or(0).min(WIDEST)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut out = String::new();
    if !head.is_empty() {
        line(&mut out, head, &widths);
        let rule: Vec<String> = widths.iter().map(|width| "-".repeat((*width).max(1))).collect();
        line(&mut out, &rule, &widths);
        for row in body {
            line(&mut out, row, &widths);
        }
    }
    out
}

fn line(out: &mut String, cells: &[String], widths: &[usize]) {
    let padded: Vec<String> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:<width$}"))
        .collect();
    out.push_str(padded.join(" | ").trim_end());
    out.push('\n');
}

/// A value. A text that could be taken for no value, or for a quoted one, is in quotes.
fn cell(value: &Cell) -> String {
    match value {
        Cell::Null => "NULL".to_owned(),
        Cell::Text(text) if text.is_empty() || text == "NULL" || text.starts_with('"') => {
            format!("\"{}\"", terminal(text))
        }
        Cell::Text(text) => terminal(text),
        other => terminal(&serde_json::to_string(other).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use muster_db_gateway::Column;

    use super::*;

    fn rows(names: &[&str], cells: Vec<Vec<Cell>>) -> Rows {
        Rows {
            columns: names
                .iter()
                .map(|name| Column {
                    name: (*name).to_owned(),
                    kind: "text".to_owned(),
                })
                .collect(),
            rows: cells,
            truncated: false,
            affected: None,
        }
    }

    #[test]
    fn a_missing_value_never_looks_like_a_text() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let of = |cells| table(&rows(&["a", "b"], cells));
        assert_eq!(
            of(vec![
                vec![Cell::Null, text("NULL")],
                vec![text(""), text("\"x\"")],
                vec![Cell::Int(7), Cell::Bool(true)]
            ]),
            "a    | b\n---- | ------\nNULL | \"NULL\"\n\"\"   | \"\"x\"\"\n7    | true\n(3 rows)\n"
        );
    }

    #[test]
    fn what_is_described_stands_in_columns_and_one_that_says_nothing_is_left_out() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            texts(
                &["column", "type", "default"],
                &[row(["id", "integer", ""]), row(["a\u{1b}b", "text", ""])]
            ),
            "column   | type\n-------- | -------\nid       | integer\na\\u{1b}b | text\n"
        );
    }

    #[test]
    fn a_document_keeps_its_keys_and_its_digits_on_its_lines() {
        assert_eq!(
            json(r#"{"z":12345678901234567890.10,"a":[{},[],"x, {\"y\": [1]}"],"z":null}"#),
            "{\n  \"z\": 12345678901234567890.10,\n  \"a\": [\n    {},\n    [],\n    \"x, {\\\"y\\\": [1]}\"\n  ],\n  \"z\": null\n}\n"
        );
    }

    #[test]
    fn nothing_of_an_answer_moves_the_cursor_or_breaks_a_line() {
        let evil = "\u{1b}[2J\u{202e}x\r\ny\0";
        let mut answer = rows(&[evil], vec![vec![Cell::Text(evil.to_owned())]]);
        answer.truncated = true;
        let out = table(&answer);
        assert_eq!(out.lines().count(), 4, "{out:?}");
        assert!(
            out.chars().all(|c| c == '\n' || !c.is_control()) && !out.contains('\u{202e}'),
            "{out:?}"
        );
        assert!(out.ends_with("(the first 1 row; more were cut off)\n"));
        let document = Answer::Document {
            document: serde_json::from_str("{\"a\":\"\u{202e}\u{9b}\"}").unwrap(),
            truncated: true,
        };
        let out = text(&document);
        assert!(!out.contains('\u{202e}') && !out.contains('\u{9b}'), "{out:?}");
        assert!(out.ends_with("(more was cut off)\n"));
    }
}
