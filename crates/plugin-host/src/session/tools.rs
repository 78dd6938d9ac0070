//! A server's list of tools: names given, colliding ones withheld, the rest passed on as it came, and what was approved compared with what is there. Never renames a tool into another one's place.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use muster_core::secret::sha256_hex;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::diagnostic::shown;
use crate::jsonrpc::{Fields, quoted};
use crate::ledger::{MOST_TOOLS, Pin, Pins, Says};
use crate::names::{LONGEST_RAW_NAME, ServerKey, sanitise};
use crate::package::canonical;

/// Fields of a tool that a person or a model could have gone by.
const PINNED: [&str; 8] = [
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "icons",
    "execution",
];

/// One tool that is offered.
#[derive(Debug, Clone)]
pub(crate) struct Tool {
    /// The server's own name.
    pub(crate) name: String,
    /// The same as JSON.
    pub(crate) raw: String,
    pub(crate) registered: String,
    pub(crate) description: Option<String>,
    /// It said that it only reads when it was pinned, and is what it was.
    pub(crate) hinted: bool,
    /// It is not what was pinned.
    pub(crate) changed: bool,
    /// The hash of what it was listed as.
    pub(crate) hash: String,
}

/// The tools of one server.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    /// By the name under which the agent calls them.
    pub(crate) offered: HashMap<String, Arc<Tool>>,
    /// The answer to the agent's `tools/list`.
    pub(crate) answer: String,
    /// Registered names that are withheld, with the reason.
    pub(crate) withheld: BTreeMap<String, String>,
}

impl Tools {
    /// Whether one that is offered has one of these names.
    pub(crate) fn meets(&self, taken: &BTreeSet<String>) -> bool {
        !taken.is_empty() && self.offered.values().any(|tool| taken.contains(&tool.registered))
    }
}

/// One tool as the server sent it.
#[derive(Debug)]
struct Listed<'a> {
    name: String,
    fields: Fields<'a>,
    pin: Pin,
    /// A field that differs from one of those in case alone: a client that does not mind the case would read what nobody looked at.
    mistakable: Option<String>,
}

/// What a list has, as far as it is kept.
#[derive(Debug)]
pub(crate) struct Now {
    /// The tools whose names are not too long.
    pub(crate) tools: BTreeMap<String, Pin>,
    /// Beginnings of the names that are.
    pub(crate) too_long: BTreeSet<String>,
}

/// Names that are too long and are kept to be shown.
const MOST_TOO_LONG: usize = 20;

/// Why a tool is withheld whose name another server's tool has as well.
pub(crate) const TAKEN: &str = "a tool of another server would have this name; neither is offered";

/// Why nothing of a list is offered that has more than may be kept.
pub(crate) const TOO_MUCH: &str = "the server has more tools, or more text in them, than may be kept of one server, so none of them is offered; approve it again when it has less";

/// Reads the pages of a list. `pinned` notes what is listed; it gives what was approved and the registered names of other servers' tools.
///
/// # Errors
/// A sentence, when a page is not a list of tools, or the list has more than is kept of one server.
pub(crate) fn read(
    key: &ServerKey,
    pages: &[String],
    pinned: impl FnOnce(&Now) -> Result<(Option<Pins>, BTreeSet<String>), String>,
) -> Result<Tools, String> {
    let strange = |_| "the server's list of tools could not be read".to_owned();
    let mut listed = Vec::new();
    for page in pages {
        let page = Fields::parse(page).map_err(strange)?;
        let Some(tools) = page.get("tools") else {
            return Err("the server's answer holds no list of tools".to_owned());
        };
        let tools: Vec<&RawValue> = serde_json::from_str(tools.get()).map_err(strange)?;
        for tool in tools {
            listed.push(one(tool)?);
        }
        if listed.len() > MOST_TOOLS {
            return Err(TOO_MUCH.to_owned());
        }
    }
    let (listed, long): (Vec<_>, Vec<_>) = listed
        .into_iter()
        .partition(|tool| tool.name.len() <= LONGEST_RAW_NAME);
    let mut groups: BTreeMap<String, usize> = BTreeMap::new();
    for tool in &listed {
        *groups.entry(key.tool(&tool.name)).or_default() += 1;
    }
    let now = Now {
        tools: listed
            .iter()
            .map(|tool| (tool.name.clone(), tool.pin.clone()))
            .collect(),
        too_long: long
            .iter()
            .take(MOST_TOO_LONG)
            .map(|tool| shown(&tool.name))
            .collect(),
    };
    let (pins, taken) = pinned(&now)?;
    let mut tools = Tools::default();
    for tool in &long {
        let reason = format!("its name has more than {LONGEST_RAW_NAME} bytes; it is not offered");
        tools
            .withheld
            .insert(key.tool_prefix() + &shown(&tool.name), reason);
    }
    let mut texts = Vec::new();
    for tool in &listed {
        let registered = key.tool(&tool.name);
        if tool.name.is_empty() {
            let reason = "its name is empty; it is not offered".to_owned();
            tools.withheld.insert(registered, reason);
            continue;
        }
        if groups.get(&registered).is_some_and(|count| *count > 1) {
            let reason = format!("more than one tool of {key} would have this name; none of them is offered");
            tools.withheld.insert(registered, reason);
            continue;
        }
        if taken.contains(&registered) {
            tools.withheld.insert(registered, TAKEN.to_owned());
            continue;
        }
        if let Some(field) = &tool.mistakable {
            let reason = format!(
                "it has a field {} that could be taken for one of the protocol's; it is not offered",
                shown(field)
            );
            tools.withheld.insert(registered, reason);
            continue;
        }
        let pin = pins.as_ref().and_then(|pins| pins.tools.get(&tool.name));
        // What was once something else asks until the next approval, also when it is as it was again.
        let once = pins
            .as_ref()
            .is_some_and(|pins| pins.changed.contains(&tool.name));
        let same = !once && pin.is_some_and(|pin| pin.is(&tool.pin));
        let called = sanitise(&tool.name);
        texts.push(text(tool, &called, &registered));
        tools.offered.insert(
            called,
            Arc::new(Tool {
                name: tool.name.clone(),
                raw: quoted(&tool.name),
                description: tool.fields.text("description").map(std::borrow::Cow::into_owned),
                hinted: same && tool.pin.read_only,
                changed: !same,
                hash: tool.pin.hash.clone(),
                registered,
            }),
        );
    }
    tools.answer = answer(pages, &texts);
    Ok(tools)
}

fn one(tool: &RawValue) -> Result<Listed<'_>, String> {
    let fields = Fields::parse(tool.get()).map_err(|_| "a tool of the server's list could not be read")?;
    let name = fields
        .text("name")
        .ok_or("a tool of the server's list has no name")?
        .into_owned();
    let mut shown = serde_json::Map::new();
    for field in PINNED {
        if let Some(value) = fields.get(field) {
            let value: Value = serde_json::from_str(value.get())
                .map_err(|_| "a tool of the server's list is nested too deeply")?;
            shown.insert(field.to_owned(), value);
        }
    }
    let read_only = shown
        .get("annotations")
        .and_then(|annotations| annotations.get("readOnlyHint"))
        == Some(&Value::Bool(true));
    let hash = sha256_hex(canonical(&Value::Object(shown.clone())).as_bytes());
    let known: Vec<&str> = PINNED.into_iter().chain(["_meta"]).collect();
    let mistakable = fields.mistakable(&known).map(str::to_owned);
    Ok(Listed {
        name,
        mistakable,
        fields,
        pin: Pin {
            hash,
            read_only,
            says: says(&shown),
        },
    })
}

/// Characters of a title and of a description that are kept for people: from its beginning, and from its end where it is longer.
const TITLE: [usize; 2] = [150, 50];
const DESCRIPTION: [usize; 2] = [400, 200];

/// What the tool says of itself, cut to what a page shows.
fn says(shown: &serde_json::Map<String, Value>) -> Says {
    let text = |field: &str, [head, tail]: [usize; 2]| {
        let text = shown.get(field)?.as_str()?;
        let left_out = text.chars().count().saturating_sub(head + tail);
        if left_out == 0 {
            return Some(text.to_owned());
        }
        // Somebody reads it who is to decide: that there is more is said, and how much.
        let first: String = text.chars().take(head).collect();
        let last: String = text.chars().skip(head + left_out).collect();
        Some(format!("{first} […{left_out} more characters…] {last}"))
    };
    let hint = |name: &str| shown.get("annotations")?.get(name)?.as_bool();
    Says {
        title: text("title", TITLE),
        description: text("description", DESCRIPTION),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

/// The tool for the agent: its name, and the whole registered name in `_meta`; everything else as it came.
fn text(tool: &Listed<'_>, called: &str, registered: &str) -> String {
    const KEY: &str = "muster/registered_name";
    let registered = quoted(registered);
    let meta = tool
        .fields
        .get("_meta")
        .and_then(|meta| Fields::parse(meta.get()).ok())
        .map_or_else(
            || format!("{{\"{KEY}\":{registered}}}"),
            |meta| meta.with(&[(KEY, &registered)]),
        );
    tool.fields.with(&[("name", &quoted(called)), ("_meta", &meta)])
}

/// One page with all tools; its other fields are those of the server's first.
fn answer(pages: &[String], texts: &[String]) -> String {
    let tools = format!("[{}]", texts.join(","));
    let Some(Ok(mut first)) = pages.first().map(|page| Fields::parse(page)) else {
        return "{\"tools\":[]}".to_owned();
    };
    first.0.retain(|(name, _)| name != "nextCursor");
    first.with(&[("tools", &tools)])
}

/// What to remember when `now` is listed: the pins of the approved definition as they are, with what differs from them as it is now; or all of it, the
/// first time.
///
/// # Errors
/// A sentence, when that is more than is kept of one server.
pub(crate) fn pin(known: Option<&Pins>, definition: &str, now: &Now) -> Result<Pins, String> {
    let pins = match known.filter(|pins| pins.definition == definition) {
        None => Pins {
            definition: definition.to_owned(),
            tools: now.tools.clone(),
            changed: BTreeSet::new(),
            newest: BTreeMap::new(),
            gone: BTreeSet::new(),
            too_long: now.too_long.clone(),
        },
        Some(pins) => {
            let mut pins = pins.clone();
            // Kept until the next approval, also when the tool is as it was again.
            for (name, pin) in &now.tools {
                if !pins.tools.get(name).is_some_and(|approved| approved.is(pin)) {
                    pins.changed.insert(name.clone());
                }
                if pins.changed.contains(name) {
                    pins.newest.insert(name.clone(), pin.clone());
                }
            }
            let known = pins.tools.keys().chain(&pins.changed);
            pins.gone = known
                .filter(|name| !now.tools.contains_key(*name))
                .cloned()
                .collect();
            for name in &now.too_long {
                if pins.too_long.len() < MOST_TOO_LONG {
                    pins.too_long.insert(name.clone());
                }
            }
            // No tool is withheld for what is only shown.
            if !pins.fits() {
                pins.gone.clear();
            }
            if !pins.fits() {
                pins.newest.clear();
            }
            pins
        }
    };
    pins.fits().then_some(pins).ok_or_else(|| TOO_MUCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> ServerKey {
        ServerKey::new("p", "s")
    }

    fn list(page: &str, taken: &[&str], pins: Option<&Pins>) -> Tools {
        let taken = taken.iter().map(|name| (*name).to_owned()).collect();
        read(&key(), &[page.to_owned()], |now| {
            let pins = pins.cloned().unwrap_or_else(|| pin(None, "d", now).unwrap());
            Ok((Some(pins), taken))
        })
        .unwrap()
    }

    /// What is kept when `page` is listed after `known` was.
    fn kept(known: Option<&Pins>, definition: &str, page: &str) -> Result<Pins, String> {
        let mut kept = None;
        read(&key(), &[page.to_owned()], |now| {
            kept = Some(pin(known, definition, now)?);
            Ok((kept.clone(), BTreeSet::new()))
        })?;
        Ok(kept.unwrap())
    }

    // spec: NAM-010 NAM-011 NAM-012 NAM-013
    #[test]
    fn every_tool_of_a_colliding_group_is_withheld_and_named() {
        let page = r#"{"tools":[{"name":"read.file"},{"name":"read-file"},{"name":"ok"},{"name":"twice"},{"name":"twice"},{"name":"c__d"}]}"#;
        let tools = list(page, &["mcp__plugin_p_s__c__d"], None);
        assert_eq!(tools.offered.keys().collect::<Vec<_>>(), ["ok"]);
        let withheld: Vec<&str> = tools.withheld.keys().map(String::as_str).collect();
        assert_eq!(
            withheld,
            [
                "mcp__plugin_p_s__c__d",
                "mcp__plugin_p_s__read_file",
                "mcp__plugin_p_s__twice"
            ]
        );
        assert!(!tools.answer.contains("read"));
    }

    #[test]
    fn a_tool_with_a_field_that_is_one_of_the_protocols_but_for_its_case_is_withheld() {
        for odd in [
            r#""Description":"ignore all""#,
            r#""InputSchema":{}"#,
            r#""\u0049cons":[]"#,
            r#""_META":{}"#,
            r#""newer":1,"Newer":2"#,
        ] {
            let page =
                format!(r#"{{"tools":[{{"name":"a","description":"d",{odd}}},{{"name":"b","newer":1}}]}}"#);
            let tools = list(&page, &[], None);
            assert_eq!(tools.offered.keys().collect::<Vec<_>>(), ["b"], "{odd}");
            assert!(
                tools.withheld["mcp__plugin_p_s__a"].contains("not offered"),
                "{odd}"
            );
            assert!(!tools.answer.contains("ignore all"), "{odd}");
        }
    }

    #[test]
    fn a_tool_without_a_name_is_withheld() {
        let tools = list(r#"{"tools":[{"name":""},{"name":"a"}]}"#, &[], None);
        assert_eq!(tools.offered.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(tools.withheld.keys().collect::<Vec<_>>(), ["mcp__plugin_p_s__"]);
        assert!(!tools.answer.contains(r#""name":"""#));
    }

    // spec: NAM-008
    #[test]
    fn a_tool_keeps_all_that_it_came_with_and_its_own_name_for_the_way_back() {
        let page = r#"{"ttlMs":5,"nextCursor":"x","tools":[{"name":"get.it","title":"T","inputSchema":{"b":1,"a":2.50},"_meta":{"k":1},"newer":[1e400]}],"resultType":"complete"}"#;
        let tools = list(page, &[], None);
        assert_eq!(
            tools.answer,
            r#"{"ttlMs":5,"tools":[{"name":"get_it","title":"T","inputSchema":{"b":1,"a":2.50},"_meta":{"k":1,"muster/registered_name":"mcp__plugin_p_s__get_it"},"newer":[1e400]}],"resultType":"complete"}"#
        );
        assert_eq!(tools.offered["get_it"].raw, "\"get.it\"");
    }

    // spec: APR-011
    #[test]
    fn only_a_true_hint_is_one() {
        for (hint, wanted) in [
            ("true", true),
            ("false", false),
            ("\"true\"", false),
            ("1", false),
            ("null", false),
        ] {
            let page = format!(r#"{{"tools":[{{"name":"a","annotations":{{"readOnlyHint":{hint}}}}}]}}"#);
            assert_eq!(list(&page, &[], None).offered["a"].hinted, wanted, "{hint}");
        }
        assert!(!list(r#"{"tools":[{"name":"a"}]}"#, &[], None).offered["a"].hinted);
    }

    #[test]
    fn of_a_long_description_both_ends_are_kept_for_people_and_how_much_lies_between() {
        let said = |text: &str| {
            let page = format!(r#"{{"tools":[{{"name":"a","description":"{text}"}}]}}"#);
            kept(None, "d", &page).unwrap().tools["a"].clone()
        };
        let long = |tail: &str| format!("HEAD{}{tail}", "é".repeat(100_000));
        let (old, new) = (said(&long("OLDTAIL")), said(&long("NEWTAIL")));
        assert!(!old.is(&new));
        let text = new.says.description.clone().unwrap();
        assert!(text.starts_with("HEADé") && text.ends_with("éNEWTAIL"), "{text}");
        assert!(text.contains("[…99411 more characters…]"), "{text}");
        assert_ne!(old.says, new.says);
        assert_eq!(said(&"é".repeat(600)).says.description.unwrap(), "é".repeat(600));
        // A ledger that keeps more or less of the same tool knows it all the same.
        let other = Pin {
            says: Says::default(),
            ..old.clone()
        };
        assert!(other.is(&old));
        let page = r#"{"tools":[{"name":"a","description":"d","annotations":{"readOnlyHint":true}}]}"#;
        let mut pins = kept(None, "d", page).unwrap();
        pins.tools.get_mut("a").unwrap().says = Says::default();
        let listed = list(page, &[], Some(&pins));
        assert!(listed.offered["a"].hinted && !listed.offered["a"].changed);
    }

    // spec: APR-012
    #[test]
    fn a_tool_that_is_not_what_was_pinned_loses_the_hint_whatever_changed() {
        let tool = |text: &str| {
            format!(r#"{{"tools":[{{"name":"a","annotations":{{"readOnlyHint":true}}{text}}}]}}"#)
        };
        let first = tool(r#","description":"d","inputSchema":{"x":1,"y":2}"#);
        let pins = kept(None, "d", &first).unwrap();
        // The order of keys says nothing.
        let same = list(
            &tool(r#","inputSchema":{"y":2,"x":1},"description":"d""#),
            &[],
            Some(&pins),
        );
        assert!(same.offered["a"].hinted && !same.offered["a"].changed);
        for other in [
            r#","description":"e","inputSchema":{"x":1,"y":2}"#,
            r#","description":"d","inputSchema":{"x":1,"y":3}"#,
            r#","description":"d","inputSchema":{"x":1,"y":2},"title":"t""#,
            r#","description":"d","inputSchema":{"x":1,"y":2},"icons":[{"src":"data:,"}]"#,
            r#","description":"d","inputSchema":{"x":1,"y":2},"execution":{"taskSupport":"required"}"#,
            r#","description":"d""#,
        ] {
            let now = list(&tool(other), &[], Some(&pins));
            assert!(!now.offered["a"].hinted && now.offered["a"].changed, "{other}");
            let later = kept(Some(&pins), "d", &tool(other)).unwrap();
            assert!(later.changed.contains("a"));
            // Both are kept for who approves it again: as it was, and as it was listed last.
            assert_eq!(later.tools, pins.tools);
            let other = kept(None, "d", &tool(other)).unwrap();
            assert_eq!(later.newest, other.tools);
            // And back again.
            let again = kept(Some(&later), "d", &first).unwrap();
            assert_eq!(again.newest, pins.tools);
            let back = list(&first, &[], Some(&again));
            assert!(!back.offered["a"].hinted && back.offered["a"].changed);
        }
        let new = r#"{"tools":[{"name":"b","annotations":{"readOnlyHint":true}}]}"#;
        assert!(list(new, &[], Some(&pins)).offered["b"].changed);
        // What is listed no more is told as that until it is listed again, also what was never approved.
        let without = kept(Some(&pins), "d", new).unwrap();
        assert_eq!(without.gone, BTreeSet::from(["a".to_owned()]));
        assert_eq!(without.tools, pins.tools);
        let back = kept(Some(&without), "d", &first).unwrap();
        assert_eq!(back.gone, BTreeSet::from(["b".to_owned()]));
        // Another definition was approved since: pinned anew.
        assert_eq!(
            kept(Some(&pins), "e", new).unwrap().tools,
            kept(None, "e", new).unwrap().tools
        );
    }

    #[test]
    fn a_list_is_kept_within_bounds_or_withheld_as_a_whole() {
        let page = |names: &mut dyn Iterator<Item = String>| {
            let tools: Vec<String> = names.map(|name| format!("{{\"name\":\"{name}\"}}")).collect();
            format!("{{\"tools\":[{}]}}", tools.join(","))
        };
        let full = page(&mut (0..MOST_TOOLS).map(|n| format!("t{n}")));
        let pins = kept(None, "d", &full).unwrap();
        assert_eq!(pins.tools.len(), MOST_TOOLS);
        assert!(kept(None, "d", &page(&mut (0..=MOST_TOOLS).map(|n| format!("t{n}")))).is_err());
        // New names at each list add up to no more than a full list.
        let mut pins = kept(None, "d", &page(&mut std::iter::once("first".to_owned()))).unwrap();
        let mut refused = 0;
        for round in 0..40 {
            match kept(
                Some(&pins),
                "d",
                &page(&mut (0..100).map(|n| format!("r{round}-{n}"))),
            ) {
                Ok(more) => pins = more,
                Err(_) => refused += 1,
            }
        }
        assert_eq!((pins.changed.len(), refused), (MOST_TOOLS, 20));
        // What is only shown is let go before a tool is withheld for it.
        let said = |word: &str| {
            let tools: Vec<String> = (0..1_600)
                .map(|n| format!("{{\"name\":\"t{n}\",\"description\":\"{}\"}}", word.repeat(600)))
                .collect();
            format!("{{\"tools\":[{}]}}", tools.join(","))
        };
        let first = kept(None, "d", &said("é")).unwrap();
        let (some, all) = (
            kept(Some(&first), "d", &said("e")),
            kept(Some(&first), "d", &said("ü")),
        );
        assert_eq!(some.unwrap().newest.len(), 1_600);
        let all = all.unwrap();
        assert_eq!((all.newest.len(), all.changed.len()), (0, 1_600));
        // Many long names, each of which is short enough, are too much together.
        let long = page(&mut (0..MOST_TOOLS).map(|n| format!("{n:0>9}{}", "\\u0001".repeat(500))));
        assert!(kept(None, "d", &long).is_err());
    }

    #[test]
    fn a_name_that_is_too_long_is_withheld_and_only_its_beginning_is_kept() {
        let longest = "x".repeat(LONGEST_RAW_NAME);
        let page = format!(
            r#"{{"tools":[{{"name":"{longest}"}},{{"name":"{longest}y"}},{{"name":"{}"}}]}}"#,
            "z".repeat(1 << 20)
        );
        let tools = list(&page, &[], None);
        assert_eq!(tools.offered.keys().collect::<Vec<_>>(), [&longest]);
        assert_eq!(tools.withheld.len(), 2);
        assert!(tools.withheld.keys().all(|name| name.len() < 300));
        let pins = kept(None, "d", &page).unwrap();
        assert_eq!((pins.tools.len(), pins.too_long.len()), (1, 2));
        assert!(serde_json::to_vec(&pins).unwrap().len() < 2_000);
    }
}
