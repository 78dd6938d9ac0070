//! Claude Code: the bus in its file of servers, and both hooks in its settings. Never touches what another server or hook says.

use serde_json::{Map, Value, json};

use super::edit::{Document, Step};
use super::{Edited, Entry, Settings, users};
use crate::output::Failure;

/// Its events, and what the hook is called with.
const HOOKS: [(&str, &str); 2] = [("UserPromptSubmit", "user-prompt"), ("Stop", "stop")];
/// How long the client waits for a hook, in seconds; muster needs a hundredth of one.
const TIMEOUT: u64 = 10;
/// What the bus is called among the servers.
const NAME: &str = "agent-coord";

pub(super) fn files(entry: &Entry) -> Result<Vec<Settings>, Failure> {
    let (servers, settings) = match &entry.project {
        // The settings that are not shared with others: whose hooks and whose consent they hold is one person's matter.
        Some(project) => (
            project.join(".mcp.json"),
            project.join(".claude/settings.local.json"),
        ),
        None => (
            users("CLAUDE_CONFIG_DIR", "")?.join(".claude.json"),
            users("CLAUDE_CONFIG_DIR", ".claude")?.join("settings.json"),
        ),
    };
    let mut files = vec![Settings {
        path: servers,
        edit: |text, entry| server(text, entry, Some("stdio")),
    }];
    // A hook reads for one agent, so that without one there is none to write.
    if entry.id.is_some() || entry.project.is_some() {
        files.push(Settings {
            path: settings,
            edit: hooks,
        });
    }
    Ok(files)
}

/// Sets the entry of the bus in an `mcpServers` block, which several clients have.
pub(super) fn server(text: &str, entry: &Entry, kind: Option<&str>) -> Result<Edited, String> {
    let mut document = Document::read(text)?;
    let at = [Step::Key("mcpServers"), Step::Key(NAME)];
    let arguments = json!(["bus", "serve"]);
    match document.get(&at)? {
        None => {
            let mut fields = Map::new();
            if let Some(kind) = kind {
                fields.insert("type".to_owned(), kind.into());
            }
            fields.insert("command".to_owned(), entry.program.clone().into());
            fields.insert("args".to_owned(), arguments);
            let env: Map<String, Value> = entry
                .env()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect();
            if !env.is_empty() {
                fields.insert("env".to_owned(), env.into());
            }
            document.set(&at, &fields.into())?;
        }
        Some(Value::Object(fields)) => {
            if ["url", "httpUrl"].iter().any(|name| fields.contains_key(*name)) {
                return Err(super::edit::ELSEWHERE.to_owned());
            }
            let under = |name| [at[0], at[1], Step::Key(name)];
            document.set(&under("command"), &entry.program.clone().into())?;
            document.set(&under("args"), &arguments)?;
            for (name, value) in entry.env() {
                document.set(&[at[0], at[1], Step::Key("env"), Step::Key(name)], &value.into())?;
            }
        }
        Some(_) => return Err("its entry agent-coord is not one of a server".to_owned()),
    }
    Ok(document.done())
}

fn hooks(text: &str, entry: &Entry) -> Result<Edited, String> {
    let mut document = Document::read(text)?;
    if entry.project.is_some() {
        // A server that a project brings along is asked about, unless its user has agreed to it.
        let agreed = [Step::Key("enabledMcpjsonServers")];
        let known = document.get(&agreed)?;
        let lists = |known: &Value| known.as_array().is_some_and(|names| names.contains(&NAME.into()));
        if !known.as_ref().is_some_and(lists) {
            document.push(&agreed, &NAME.into())?;
        }
    }
    for (event, mode) in HOOKS.into_iter().filter(|_| entry.id.is_some()) {
        let command = command(entry, mode)?;
        let groups = [Step::Key("hooks"), Step::Key(event)];
        let found = match document.get(&groups)? {
            None => None,
            Some(Value::Array(found)) => ours(&found),
            Some(_) => return Err(format!("its hooks of {event} are no list")),
        };
        if let Some((group, hook)) = found {
            let hook = [
                Step::At(group),
                Step::Key("hooks"),
                Step::At(hook),
                Step::Key("command"),
            ];
            document.set(&[&groups[..], &hook].concat(), &command.into())?;
            continue;
        }
        let group = json!({"hooks": [{"type": "command", "command": command, "timeout": TIMEOUT}]});
        document.push(&groups, &group)?;
    }
    Ok(document.done())
}

/// What the client's shell runs.
fn command(entry: &Entry, mode: &str) -> Result<String, String> {
    let quoted = |text: &str| {
        shlex::try_quote(text)
            .map(std::borrow::Cow::into_owned)
            .map_err(|error| error.to_string())
    };
    let mut words = Vec::new();
    if let Some(id) = &entry.id {
        words.push(format!("AGENT_COORD_ID={id}"));
    }
    if let Some(dir) = &entry.dir {
        words.push(format!("AGENT_COORD_DIR={}", quoted(dir)?));
    }
    words.push(quoted(&entry.program)?);
    words.push(format!("bus peek --mode={mode}"));
    Ok(words.join(" "))
}

/// Where a hook stands that reads the bus already: this program's, or the script that others use.
fn ours(groups: &[Value]) -> Option<(usize, usize)> {
    groups.iter().enumerate().find_map(|(group, value)| {
        let hooks = value.get("hooks")?.as_array()?;
        let hook = hooks.iter().position(|hook| {
            let command = hook.get("command").and_then(Value::as_str).unwrap_or_default();
            command.contains("peek-coord") || command.contains("bus peek")
        })?;
        Some((group, hook))
    })
}
