//! Codex: the bus in its `config.toml`, comments and order kept. Never touches what another server says.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::edit::ELSEWHERE;
use super::{Edited, Entry, Settings, users};
use crate::output::Failure;

/// A wait for a message may take a minute; Codex ends a call after as much unless told otherwise.
const TIMEOUT: (&str, i64) = ("tool_timeout_sec", 90);
const SERVERS: &str = "mcp_servers";
const NAME: &str = "agent-coord";

pub(super) fn files(entry: &Entry) -> Result<Vec<Settings>, Failure> {
    let folder = match &entry.project {
        Some(project) => project.join(".codex"),
        None => users("CODEX_HOME", ".codex")?,
    };
    let path = folder.join("config.toml");
    Ok(vec![Settings { path, edit }])
}

fn edit(text: &str, entry: &Entry) -> Result<Edited, String> {
    let mut document: DocumentMut = text
        .parse()
        .map_err(|error: toml_edit::TomlError| format!("it is no TOML ({})", error.message()))?;
    let arguments: Value = ["bus", "serve"].into_iter().collect::<Array>().into();
    let mut shown = Vec::new();
    let inline = document.get(SERVERS).is_some_and(Item::is_inline_table);
    let first = document.is_empty();
    let servers = document.entry(SERVERS).or_insert_with(|| {
        let mut servers = Table::new();
        servers.set_implicit(true);
        Item::Table(servers)
    });
    let servers = servers
        .as_table_like_mut()
        .ok_or("its mcp_servers are no table")?;
    if servers.get(NAME).is_none() {
        let mut server = Table::new();
        server.insert("command", entry.program.as_str().into());
        server.insert("args", arguments.into());
        server.insert(TIMEOUT.0, TIMEOUT.1.into());
        let env: InlineTable = entry
            .env()
            .into_iter()
            .map(|(name, value)| (name, Value::from(value)))
            .collect();
        if !env.is_empty() {
            server.insert("env", Value::InlineTable(env).into());
        }
        shown.push(format!("+ [{SERVERS}.{NAME}]"));
        shown.extend(server.to_string().lines().map(|line| format!("+ {line}")));
        if inline {
            servers.insert(NAME, Value::InlineTable(server.into_inline_table()).into());
        } else {
            server.decor_mut().set_prefix(if first { "" } else { "\n" });
            servers.insert(NAME, Item::Table(server));
        }
    } else {
        let server = servers
            .get_mut(NAME)
            .and_then(Item::as_table_like_mut)
            .ok_or("its entry agent-coord is not one of a server")?;
        if server.contains_key("url") {
            return Err(ELSEWHERE.to_owned());
        }
        set(server, "command", entry.program.as_str().into(), &mut shown);
        set(server, "args", arguments, &mut shown);
        let wanted = entry.env();
        if !wanted.is_empty() {
            let env = server
                .entry("env")
                .or_insert(Item::Value(Value::InlineTable(InlineTable::new())));
            let env = env.as_table_like_mut().ok_or("its environment is no table")?;
            for (name, value) in wanted {
                set(env, name, value.into(), &mut shown);
            }
        }
    }
    let text = if shown.is_empty() {
        text.to_owned()
    } else {
        document.to_string()
    };
    Ok(Edited { text, shown })
}

/// Sets a value, with the comment that stands beside the one before.
fn set(table: &mut dyn TableLike, name: &str, mut value: Value, shown: &mut Vec<String>) {
    let place = format!("{SERVERS}.{NAME}: {name}");
    match table.get_mut(name).and_then(Item::as_value_mut) {
        Some(before) if is_same(before, &value) => {}
        Some(before) => {
            shown.push(format!("- {place} = {}", before.to_string().trim()));
            *value.decor_mut() = before.decor().clone();
            shown.push(format!("+ {place} = {}", value.to_string().trim()));
            *before = value;
        }
        None => {
            shown.push(format!("+ {place} = {}", value.to_string().trim()));
            table.insert(name, value.into());
        }
    }
}

/// Whether two texts, or two lists of texts, say the same, however they are written.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other.iter())
                    .all(|(one, other)| is_same(one, other))
        }
        _ => one.as_str().is_some() && one.as_str() == other.as_str(),
    }
}
