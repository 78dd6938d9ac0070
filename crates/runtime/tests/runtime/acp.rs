//! The `acp` runtime with an agent that speaks the real wire: what arrives, what is taken up again, what is refused, and that everything ends.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_core::secret::Secret;
use muster_runtime::{Kind, Program, REPLY_LIMIT, Runtime, Settings, runtime};
use serde_json::Value;

use crate::support::{Place, TOKEN, assert_gone, broken_off, kill, lives, not_started, reply, turn};

const AGENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/runtime/agent.py");

fn agent(place: &Place, manners: &str) -> Program {
    Program::parse(&format!(
        "python3 '{AGENT}' '{}' {manners}",
        place.folder.path().display()
    ))
    .unwrap()
}

fn chief(place: &Place, manners: &str) -> Arc<dyn Runtime> {
    runtime(Kind::Acp, agent(place, manners), place.settings())
}

/// The messages the agent got.
fn heard(place: &Place) -> Vec<Value> {
    let text = fs::read_to_string(place.path("log")).unwrap_or_default();
    muster_testkit::whole_lines(&text)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn methods(place: &Place) -> Vec<String> {
    heard(place)
        .iter()
        .filter_map(|message| message["method"].as_str())
        .map(ToOwned::to_owned)
        .collect()
}

/// The process numbers of the agents that got a message, each once.
fn agents(place: &Place) -> Vec<i32> {
    let mut pids: Vec<i32> = heard(place)
        .iter()
        .map(|message| i32::try_from(message["pid"].as_i64().unwrap()).unwrap())
        .collect();
    pids.dedup();
    pids
}

// spec: DLV-012 DLV-030
#[tokio::test]
async fn an_agent_is_kept_between_turns_with_a_session_per_conversation() {
    let place = Place::new();
    let chief = chief(&place, "chatty");
    assert_eq!(
        reply(chief.turn(turn("c-1", "one\ntwo")).await),
        "heard 1: one\ntwo"
    );
    assert_eq!(reply(chief.turn(turn("c-1", "again")).await), "heard 2: again");
    assert_eq!(reply(chief.turn(turn("c-2", "other")).await), "heard 1: other");
    assert_eq!(agents(&place).len(), 1);
    let begun: Vec<Value> = heard(&place)
        .into_iter()
        .filter(|message| message["method"] == "session/new")
        .collect();
    let about: Vec<&Value> = begun
        .iter()
        .map(|message| &message["params"]["_meta"]["muster"]["conversation"])
        .collect();
    assert_eq!(about, ["c-1", "c-2"]);
    let prompt = heard(&place)
        .into_iter()
        .find(|message| message["method"] == "session/prompt")
        .unwrap();
    let blocks = prompt["params"]["prompt"].as_array().unwrap();
    assert_eq!(blocks[0]["text"], "one\ntwo");
    assert_eq!(
        blocks[1]["text"], "(This turn's text ends here.)",
        "outside text is never the last block"
    );
    drop(chief);
    assert_gone(&agents(&place));
}

#[tokio::test]
async fn what_an_agent_says_after_the_end_is_no_part_of_the_reply() {
    for _ in 0..5 {
        let place = Place::new();
        let outcome = chief(&place, "late").turn(turn("c-1", "x")).await;
        assert_eq!(reply(outcome), "heard 1: x");
    }
}

#[tokio::test]
async fn an_agent_gets_muster_s_tools_over_http_with_its_token() {
    let place = Place::new();
    reply(chief(&place, "").turn(turn("c-1", "x")).await);
    let begun = heard(&place)
        .into_iter()
        .find(|message| message["method"] == "session/new")
        .unwrap();
    let expected = serde_json::json!([{"type": "http", "name": "muster", "url": "http://127.0.0.1:9/mcp",
        "headers": [{"name": "Authorization", "value": format!("Bearer {TOKEN}")}]}]);
    assert_eq!(begun["params"]["mcpServers"], expected);
    let folder = place.path("chief").canonicalize().unwrap();
    assert_eq!(begun["params"]["cwd"], folder.to_str().unwrap());
    let env: Value = serde_json::from_str(&fs::read_to_string(place.path("env")).unwrap()).unwrap();
    assert_eq!(env["MUSTER_AGENT_TOKEN"], TOKEN);
    assert_eq!(env["MUSTER_CONVERSATION"], "c-1");

    let place = Place::new();
    reply(chief(&place, "no-http").turn(turn("c-1", "x")).await);
    let begun = heard(&place)
        .into_iter()
        .find(|message| message["method"] == "session/new")
        .unwrap();
    assert_eq!(begun["params"]["mcpServers"], serde_json::json!([]));
}

// spec: DLV-015
#[tokio::test]
async fn an_agent_that_is_not_ready_leaves_the_turn_not_started() {
    let place = Place::new();
    let settings = place.settings();
    let mut hasty = place.settings();
    hasty.start = Duration::from_millis(700);
    let table = [
        ("die-at-start", "does not answer as an agent", "no configuration"),
        ("sign-in", "asks for a sign-in", "Authentication required"),
        ("version-2", "speaks version 1", ""),
        ("never-ready", "was not ready within 700 milliseconds", ""),
    ];
    for (manner, words, complaint) in table {
        let settings = if manner == "never-ready" {
            &hasty
        } else {
            &settings
        };
        let chief = runtime(Kind::Acp, agent(&place, manner), settings.clone());
        let reason = not_started(chief.turn(turn("c-1", "x")).await);
        assert!(
            reason.contains(words) && reason.contains(complaint),
            "{manner}: {reason}"
        );
    }
    assert!(!methods(&place).contains(&"session/prompt".to_owned()));
    assert_gone(&agents(&place));
    for (line, words) in [
        ("/no/such/agent", "was not found"),
        ("cat", "does not answer as an agent"),
    ] {
        let chief = runtime(Kind::Acp, Program::parse(line).unwrap(), hasty.clone());
        let reason = not_started(chief.turn(turn("c-1", "x")).await);
        assert!(
            reason.contains(words) || reason.contains("was not ready"),
            "{line}: {reason}"
        );
    }
}

// spec: DLV-013
#[tokio::test]
async fn an_agent_that_ends_in_the_turn_breaks_it_off_and_the_next_turn_has_a_new_one() {
    for (manner, complaint) in [
        ("die-in-turn", ": out of \\u{1b}[1mmemory"),
        ("close-output-in-turn", ""),
    ] {
        let place = Place::new();
        let chief = chief(&place, manner);
        let reason = broken_off(chief.turn(turn("c-1", "x")).await);
        assert!(
            reason.starts_with("the chief's agent ended, or closed its output, in the middle of the turn"),
            "{reason}"
        );
        assert!(reason.ends_with(complaint), "{reason}");
        assert_gone(&agents(&place));
        broken_off(chief.turn(turn("c-1", "x")).await);
        assert_eq!(agents(&place).len(), 2);
    }
}

// spec: DLV-013
#[tokio::test]
async fn an_agent_that_falls_silent_is_asked_to_stop_and_ended() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.idle = Duration::from_millis(600);
    let chief = runtime(Kind::Acp, agent(&place, "silent"), settings);
    let begun = Instant::now();
    let reason = broken_off(chief.turn(turn("c-1", "x")).await);
    assert_eq!(
        reason,
        "the chief's agent said nothing for 600 milliseconds, and muster ended it."
    );
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert_eq!(methods(&place).last().unwrap(), "session/cancel");
    assert_gone(&agents(&place));
}

// spec: DLV-013
#[tokio::test]
async fn an_agent_that_never_finishes_is_ended_by_the_watchdog() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.idle = Duration::from_millis(600);
    settings.watchdog = Duration::from_millis(1500);
    let chief = runtime(Kind::Acp, agent(&place, "restless"), settings);
    let reason = broken_off(chief.turn(turn("c-1", "x")).await);
    assert_eq!(
        reason,
        "the chief's agent did not finish within 1500 milliseconds, and muster ended it."
    );
    assert_gone(&agents(&place));
}

#[tokio::test]
async fn an_agent_that_is_slow_but_heard_is_waited_for() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.idle = Duration::from_millis(600);
    let chief = runtime(Kind::Acp, agent(&place, "slow"), settings);
    let begun = Instant::now();
    assert_eq!(reply(chief.turn(turn("c-1", "x")).await), "heard 1: x");
    assert!(begun.elapsed() > Duration::from_secs(1));
}

#[tokio::test]
async fn every_permission_is_refused_whatever_it_is_called() {
    let place = Place::new();
    let outcome: Value =
        serde_json::from_str(&reply(chief(&place, "ask").turn(turn("c-1", "x")).await)).unwrap();
    assert_eq!(
        outcome,
        serde_json::json!({"outcome": {"outcome": "selected", "optionId": "reject_once"}})
    );
    let place = Place::new();
    let outcome: Value = serde_json::from_str(&reply(
        chief(&place, "ask-without-no").turn(turn("c-1", "x")).await,
    ))
    .unwrap();
    assert_eq!(outcome, serde_json::json!({"outcome": {"outcome": "cancelled"}}));
}

#[tokio::test]
async fn a_conversation_goes_on_in_a_new_agent_that_can_take_it_up() {
    for (manner, method) in [("load", "session/load"), ("resume load", "session/resume")] {
        let place = Place::new();
        assert_eq!(
            reply(chief(&place, manner).turn(turn("c-1", "one")).await),
            "heard 1: one"
        );
        // What the agent repeats while it takes the session up is no part of the reply.
        assert_eq!(
            reply(chief(&place, manner).turn(turn("c-1", "two")).await),
            "heard 2: two"
        );
        assert!(methods(&place).contains(&method.to_owned()));
        assert_eq!(agents(&place).len(), 2);

        for note in fs::read_dir(place.folder.path()).unwrap().flatten() {
            if note.file_name().to_string_lossy().starts_with("session-") {
                fs::remove_file(note.path()).unwrap();
            }
        }
        assert_eq!(
            reply(chief(&place, manner).turn(turn("c-1", "three")).await),
            "heard 1: three"
        );
    }
    let place = Place::new();
    assert_eq!(
        reply(chief(&place, "").turn(turn("c-1", "one")).await),
        "heard 1: one"
    );
    assert_eq!(
        reply(chief(&place, "").turn(turn("c-1", "two")).await),
        "heard 1: two"
    );
}

#[tokio::test]
async fn a_new_token_is_a_new_agent() {
    let place = Place::new();
    let chief = chief(&place, "load");
    assert_eq!(reply(chief.turn(turn("c-1", "one")).await), "heard 1: one");
    let mut second = turn("c-1", "two");
    second.agent_token = Secret::new("mag_second");
    assert_eq!(reply(chief.turn(second).await), "heard 2: two");
    let pids = agents(&place);
    assert_eq!(pids.len(), 2);
    assert_gone(&pids[..1]);
    let env: Value = serde_json::from_str(&fs::read_to_string(place.path("env")).unwrap()).unwrap();
    assert_eq!(env["MUSTER_AGENT_TOKEN"], "mag_second");
    let loaded = heard(&place)
        .into_iter()
        .find(|message| message["method"] == "session/load")
        .unwrap();
    assert_eq!(
        loaded["params"]["mcpServers"][0]["headers"][0]["value"],
        "Bearer mag_second"
    );
}

// spec: DLV-013
#[tokio::test]
async fn only_the_end_of_the_turn_completes_it() {
    for (stop, words) in [
        ("max_tokens", "ran out of tokens"),
        ("max_turn_requests", "limit of requests"),
        ("refusal", "refused"),
        ("cancelled", "cancelled"),
    ] {
        let place = Place::new();
        let chief = chief(&place, &format!("stop={stop}"));
        let reason = broken_off(chief.turn(turn("c-1", "x")).await);
        assert!(reason.contains(words), "{stop}: {reason}");
    }
    let place = Place::new();
    let chief = chief(&place, "error");
    for _ in 0..2 {
        let reason = broken_off(chief.turn(turn("c-1", "x")).await);
        assert_eq!(
            reason,
            "the chief's agent answered the turn with an error: it went\\nwrong"
        );
    }
    assert_eq!(agents(&place).len(), 1, "an agent that answers is kept");
}

// spec: DLV-026
#[tokio::test]
async fn a_busy_agent_is_not_started() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.idle = Duration::from_secs(2);
    let chief = runtime(Kind::Acp, agent(&place, "silent"), settings);
    let running = tokio::spawn({
        let chief = chief.clone();
        async move { chief.turn(turn("c-1", "x")).await }
    });
    until_prompted(&place, 1).await;
    assert_eq!(
        not_started(chief.turn(turn("c-2", "x")).await),
        "the chief is busy with another turn"
    );
    broken_off(running.await.unwrap());
}

#[tokio::test]
async fn a_turn_that_is_given_up_ends_the_agent() {
    let place = Place::new();
    let chief = chief(&place, "silent");
    let running = tokio::spawn({
        let chief = chief.clone();
        async move { chief.turn(turn("c-1", "x")).await }
    });
    until_prompted(&place, 1).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    assert_gone(&agents(&place));
}

#[tokio::test]
async fn an_agent_that_ended_between_two_turns_is_replaced() {
    let place = Place::new();
    let chief = chief(&place, "load");
    assert_eq!(reply(chief.turn(turn("c-1", "one")).await), "heard 1: one");
    let first = agents(&place);
    assert!(lives(first[0]));
    kill(first[0]);
    assert_gone(&first);
    assert_eq!(reply(chief.turn(turn("c-1", "two")).await), "heard 2: two");
    assert_eq!(agents(&place).len(), 2);
}

#[tokio::test]
async fn a_flood_of_words_is_kept_within_bounds() {
    let place = Place::new();
    let text = reply(chief(&place, "flood").turn(turn("c-1", "x")).await);
    assert!(text.starts_with("wordy wordy ") && text.ends_with("kept its first 256 KiB.]"));
    assert!(text.len() < REPLY_LIMIT + 100);
}

async fn until_prompted(place: &Place, count: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    while methods(place)
        .iter()
        .filter(|method| *method == "session/prompt")
        .count()
        < count
    {
        assert!(Instant::now() < end, "no prompt arrived");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn nothing_of_the_token_lies_on_the_disk() {
    let place = Place::new();
    reply(chief(&place, "load").turn(turn("c-1", "x")).await);
    let chief_folder: Settings = place.settings();
    let kept = crate::support::files(&chief_folder.work_dir);
    assert!(!kept.is_empty());
    for file in kept {
        assert!(
            !String::from_utf8_lossy(&fs::read(&file).unwrap()).contains(TOKEN),
            "{}",
            file.display()
        );
    }
}
