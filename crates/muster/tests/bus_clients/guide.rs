//! What docs/bus.md has to state for people, and the numbers in it that the program can be asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Bus, Client, Sdk, tools};

/// The guide on one line.
fn text() -> String {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bus.md")).unwrap();
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != ">").collect();
    words.join(" ")
}

// spec: TOOL-121
#[test]
fn the_guide_has_the_words_for_an_agents_lasting_instructions() {
    let text = text();
    for words in [
        "At the start of a session call `join({agentId: \"frontend\"",
        "At the end call `unregister({agentId: \"frontend\"})`",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

// spec: NET-019 IDN-043 NODE-024
#[test]
fn the_guide_says_what_the_bus_does_not_protect_from() {
    let text = text();
    for words in [
        "TLS is not implemented. Put a TLS proxy in front, or use a private overlay",
        "This protects against a mistaken, broken or taken-over cooperator. It is no defence against a hostile attacker on the network",
        "The stdio entry is always a bus on the client's own machine. It is never a connection to somebody else's",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

/// Whoever copies them has no archive yet, and some day a torn line.
#[test]
fn the_printed_lines_for_jq_pass_over_what_is_missing_or_torn_and_spell_out_what_a_terminal_would_obey() {
    let bus = Bus::new();
    if !Command::new("jq")
        .arg("--version")
        .output()
        .is_ok_and(|said| said.status.success())
    {
        eprintln!("SKIPPED: there is no jq in PATH");
        return;
    }
    let room = concat!(
        r#"{"id":"1","ts":1700000000000,"from":"ada","text":"plain"}"#,
        "\n{\"id\":\"2\",\"ts\":17\n",
        r#"{"id":"3","ts":1700000001000,"from":"bea","kind":"decision","text":"\u001b[2Jwe ship"}"#,
        "\n",
    );
    fs::write(bus.home().join("agent-coord/room.jsonl"), room).unwrap();
    let printed = printed("The files");
    let run = |with: &str| {
        let line = printed.iter().find(|line| line.contains(with)).unwrap();
        let line = line.replace("tail -F", "cat");
        let said = bus.command("sh", &["-c", &line]).output().unwrap();
        assert!(
            said.status.success() && said.stderr.is_empty(),
            "{line}: {said:?}"
        );
        String::from_utf8(said.stdout).unwrap()
    };
    assert_eq!(run("decision"), "[\"bea\",\"\\u001b[2Jwe ship\"]\n");
    let all = run("todate");
    assert_eq!(all.lines().count(), 2, "{all}");
    assert!(
        all.contains("2023-11-14T22:13:20Z") && !all.contains('\u{1b}'),
        "{all}"
    );
    let archive = bus.home().join("agent-coord/archive/rooms");
    fs::create_dir_all(&archive).unwrap();
    fs::write(
        archive.join("general.jsonl"),
        "{\"from\":\"old\",\"kind\":\"decision\",\"text\":\"first\"}\n",
    )
    .unwrap();
    assert!(run("decision").starts_with("[\"old\",\"first\"]\n"));
}

/// The lines of the first block of commands below a heading of the guide.
fn printed(heading: &str) -> Vec<String> {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bus.md")).unwrap();
    let section = text.split_once(&format!("\n## {heading}\n")).unwrap().1;
    let block = section.split_once("```sh\n").unwrap().1;
    let block = block.split_once("```").unwrap().0;
    block.lines().map(str::to_owned).collect()
}

// spec: TOOL-115
#[test]
fn the_guides_table_has_every_tool_with_every_argument_and_no_other() {
    let Some(tools) = tools() else { return };
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bus.md")).unwrap();
    let section = text.split_once("\n## Tools\n").unwrap().1;
    let section = section.split("\n## ").next().unwrap();
    let words = |cell: &str| -> BTreeSet<String> {
        cell.split_whitespace()
            .map(|word| word.replace('`', ""))
            .collect()
    };
    let printed: BTreeMap<String, BTreeSet<String>> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
            assert_eq!(cells.len(), 3, "{line}");
            (cells[0].trim().replace('`', ""), words(cells[1]))
        })
        .collect();
    let bus = Bus::new();
    let mut client = Client::new(Sdk::Python, &tools);
    client.stdio(&bus, "ada", "auto");
    let listed = client.ask("tools", json!({"session": "ada"}));
    let real: BTreeMap<String, BTreeSet<String>> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| {
            let schema = &tool["inputSchema"];
            let required = schema["required"].as_array().cloned().unwrap_or_default();
            let arguments = schema["properties"].as_object().cloned().unwrap_or_default();
            let marked = arguments.keys().map(|name| {
                let mark = if required.contains(&json!(name)) { "" } else { "?" };
                format!("{name}{mark}")
            });
            (tool["name"].as_str().unwrap().to_owned(), marked.collect())
        })
        .collect();
    assert_eq!(printed, real);
}

/// Each sentence of the guide beside what the program does, so that neither drifts away from the other.
// spec: STO-038 TOOL-042 TOOL-045 TOOL-046 TOOL-056 TOOL-069 TOOL-081
#[test]
fn the_program_does_what_the_guide_says_of_it() {
    let Some(tools) = tools() else { return };
    let text = text();
    let says = |words: &str| assert!(text.contains(words), "the guide does not say: {words}");
    let bus = Bus::new();
    let mut client = Client::new(Sdk::Python, &tools);
    client.stdio(&bus, "ada", "auto");
    client.stdio(&bus, "bea", "auto");
    let mut ada = |tool: &str, arguments: Value| client.call("ada", tool, arguments);
    let refused = |answer: Value| assert_eq!(answer["ok"], false, "{answer}");

    says("A `kind` on a direct message is refused.");
    refused(ada(
        "send_message",
        json!({"from": "ada", "to": "bea", "text": "x", "kind": "decision"}),
    ));
    says("A text that is blank, or longer than 256 KiB of UTF-8, is refused, never cut.");
    let largest = "x".repeat(256 * 1024);
    assert_eq!(
        ada(
            "send_message",
            json!({"from": "ada", "room": "new", "text": largest})
        )["ok"],
        true
    );
    refused(ada(
        "send_message",
        json!({"from": "ada", "room": "new", "text": format!("{largest}x")}),
    ));
    says("a post to a new channel makes it, without joining it");
    let rooms = ada("list_rooms", json!({}))["rooms"].clone();
    let made = rooms
        .as_array()
        .unwrap()
        .iter()
        .find(|room| room["room"] == "new")
        .unwrap();
    assert_eq!(made["members"], json!([]));
    says("on a channel that does not exist is refused");
    refused(ada(
        "set_room_topic",
        json!({"agentId": "ada", "room": "nowhere", "topic": "x"}),
    ));
    says("Your own posts are not returned to you and do not count as unread.");
    assert_eq!(
        ada(
            "read_messages",
            json!({"agentId": "ada", "source": "room", "room": "new"})
        )["totalNew"],
        0
    );

    for number in 0..60 {
        ada(
            "send_message",
            json!({"from": "ada", "room": "old", "text": format!("post {number}")}),
        );
    }
    says(
        "Whoever is new to a channel has not read any of it: the first read shows the newest 50 and a digest of the rest.",
    );
    let joined = client.call("bea", "join_room", json!({"agentId": "bea", "room": "old"}));
    let first = client.call(
        "bea",
        "read_messages",
        json!({"agentId": "bea", "source": "room", "room": "old"}),
    );
    assert_eq!(joined["unread"], first["totalNew"]);
    let shown = first["returned"].as_u64().unwrap();
    assert_eq!(
        (shown, first["history"]["older"].as_u64().unwrap() + shown),
        (50, first["totalNew"].as_u64().unwrap())
    );
    says("`wait_for_message` returns at once when something is unread.");
    client.call(
        "ada",
        "send_message",
        json!({"from": "ada", "to": "bea", "text": "there already"}),
    );
    let begun = std::time::Instant::now();
    let got = client.call(
        "bea",
        "wait_for_message",
        json!({"agentId": "bea", "source": "inbox", "timeoutMs": 60_000}),
    );
    assert_eq!(got["returned"], 1);
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

/// What a section says, on one line.
fn section(heading: &str) -> String {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bus.md")).unwrap();
    let (_, after) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = after.split("\n## ").next().unwrap();
    let words: Vec<&str> = section.split_whitespace().filter(|word| *word != ">").collect();
    words.join(" ")
}

fn states(heading: &str, words: &[&str]) {
    let text = section(heading);
    for words in words {
        assert!(text.contains(words), "{heading} does not say: {words}");
    }
}

// spec: PUSH-052
#[test]
fn the_guide_warns_that_pushed_text_is_a_prompt_and_says_how_to_name_who_may_write_it() {
    states(
        "In the terminal",
        &[
            "**What is pushed becomes a prompt.** The agent takes it as if its user had typed it, with every right the session has.",
            "`--allowlist lead,qa` (or `attach: {allowlist: [\"lead\", \"qa\"]}`)",
        ],
    );
}

// spec: NODE-024
#[test]
fn the_guide_says_that_an_installed_program_is_no_connection_to_another_machine() {
    states(
        "Joining from another machine",
        &[
            "**Installing muster on that machine does not connect it.** `muster bus serve` on standard streams is a bus of that machine's own, in its own files.",
            "take the entry with `url`, never the one with `command`",
        ],
    );
}

// spec: MIG-001 MIG-007
#[test]
fn the_guide_leads_a_fleet_through_its_five_states_and_ends_with_a_message_that_is_seen() {
    let text = section("Moving a fleet to another transport");
    let found = [
        "| merged |",
        "| published |",
        "| installed |",
        "| restarted |",
        "| observed |",
    ]
    .map(|state| text.find(state));
    assert!(
        found.iter().all(Option::is_some) && found.is_sorted(),
        "{found:?}"
    );
    states(
        "Moving a fleet to another transport",
        &[
            "you sent the seat a message, and it arrived",
            "Then send it a message and see it arrive.",
            "it must come down to `[]`",
            "To roll back, change the transport in `config.json` back and restart. Markers need no edit",
        ],
    );
}

#[test]
fn the_guide_has_one_table_of_when_a_change_takes_effect() {
    states(
        "When a change takes effect",
        &[
            "| `mode` or `transport` in `config.json` | when a server process starts |",
            "at the next request; at once after `kill -HUP`",
            "what is pushed, within 30 seconds |",
            "| membership, topic, rules | at once; for a pusher on another machine within `--refresh-ms` (30 seconds) |",
        ],
    );
}

/// What the guide prints for hooks is what the program takes, in each way of calling it that is named.
// spec: HOOK-017
#[test]
fn every_printed_way_to_call_the_hook_prints_what_is_new_once() {
    let bus = Bus::new();
    let inbox = bus.home().join("agent-coord/inbox/frontend.jsonl");
    let mut number = 0;
    let mut tells_once = |call: &dyn Fn() -> String| {
        number += 1;
        let row =
            json!({"id": number.to_string(), "ts": number, "from": "bea", "text": format!("news {number}")});
        let mut rows = fs::read_to_string(&inbox).unwrap_or_default();
        rows.push_str(&format!("{row}\n"));
        fs::write(&inbox, rows).unwrap();
        let (told, again) = (call(), call());
        assert!(
            told.contains(&format!("# news {number}")) && !again.contains("news"),
            "{told}\n{again}"
        );
    };
    let shell = |line: &str| {
        let said = bus.command("sh", &["-c", line]).output().unwrap();
        assert!(
            said.status.success() && said.stderr.is_empty(),
            "{line}: {said:?}"
        );
        String::from_utf8(said.stdout).unwrap()
    };

    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bus.md")).unwrap();
    let hooks = text.split_once("\n## Hooks\n").unwrap().1;
    let block = |language: &str| {
        let block = hooks.split_once(&format!("```{language}\n")).unwrap().1;
        block.split_once("```").unwrap().0
    };
    let settings: Value = serde_json::from_str(block("json")).unwrap();
    for event in ["UserPromptSubmit", "Stop"] {
        let command = &settings["hooks"][event][0]["hooks"][0]["command"];
        tells_once(&|| shell(command.as_str().unwrap()).replace("\\n", "\n"));
    }
    // The rules of a client, and a timer's line without its five columns and its file.
    states(
        "Hooks",
        &[
            "*\"At the start of each turn run `AGENT_COORD_ID=frontend muster bus peek` and take what it prints as messages from peers.\"*",
        ],
    );
    tells_once(&|| shell("AGENT_COORD_ID=frontend muster bus peek"));
    let timer = hooks
        .lines()
        .find_map(|line| line.trim().strip_prefix("* * * * * "))
        .unwrap();
    let news = bus.home().join("frontend-news.txt");
    tells_once(&|| {
        let before = fs::read_to_string(&news).unwrap_or_default().len();
        shell(timer);
        fs::read_to_string(&news).unwrap().split_off(before)
    });
    let python: String = block("python")
        .lines()
        .map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line)))
        .collect();
    tells_once(&|| {
        let script = format!("{python}\nprint(news('frontend'), end='')");
        let said = bus.command("python3", &["-c", &script]).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    });
}

#[test]
fn the_tools_of_a_pusher_take_the_arguments_that_the_guide_names_and_no_other() {
    let Some(tools) = tools() else { return };
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bus.md")).unwrap();
    let (_, table) = text.split_once("\n### A pusher of your own\n").unwrap();
    let (table, _) = table.split_once("\n### ").unwrap();
    let sample = json!({
        "agentId": "ada", "holder": "mine", "includeRoom": true, "waitMs": 0, "seen": "x", "standing": {"suppressed": 0},
        "source": "room", "room": "general", "upTo": "nothing", "id": "nothing", "from": "bea", "control": true,
        "submitted": true, "verified": true, "door": "keys", "reason": "none", "build": "x"
    });
    let bus = Bus::new();
    let mut client = Client::new(Sdk::Python, &tools);
    client.stdio(&bus, "ada", "auto");
    client.call("ada", "join", json!({"agentId": "ada"}));
    let mut found = 0;
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let mut cells = row.split('|').skip(1).map(str::trim);
        let tool = cells.next().unwrap().trim_matches('`');
        let names: Vec<&str> = cells
            .next()
            .unwrap()
            .split_whitespace()
            .map(|name| name.trim_matches('`').trim_end_matches('?'))
            .collect();
        let named: serde_json::Map<String, Value> = names
            .iter()
            .map(|name| ((*name).to_owned(), sample[*name].clone()))
            .collect();
        assert!(named.values().all(|value| !value.is_null()), "{tool}: {names:?}");
        let answer = client.whole("ada", tool, named.clone().into());
        assert_ne!(answer["body"]["code"], "invalid_arguments", "{tool}: {answer}");
        let mut more = named;
        more.insert("other".to_owned(), 1.into());
        let answer = client.whole("ada", tool, more.into());
        assert!(answer.to_string().contains("other"), "{tool}: {answer}");
        found += 1;
    }
    assert_eq!(found, 3);
}
