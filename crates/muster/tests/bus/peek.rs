//! `muster bus peek` as the hooks of a client call it: what it prints, what it marks, whom it never waits for. Never calls a function of the bus's.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Bus, MUSTER, Said, texts};

const ONCE: &str = "do not call read_messages for them again";

fn called(bus: &Bus, arguments: &[&str], env: &[(&str, &str)], input: &str) -> Said {
    let mut command = bus.command(&[&["bus", "peek"], arguments].concat());
    command.envs(env.iter().copied());
    Said::fed(command, input)
}

const ADA: (&str, &str) = ("AGENT_COORD_ID", "ada");
const ROOMS: (&str, &str) = ("AGENT_COORD_INCLUDE_ROOM", "1");

/// What the hook of a prompt prints.
fn prompt(bus: &Bus, env: &[(&str, &str)]) -> String {
    let said = called(bus, &["--mode=user-prompt"], &[&[ADA], env].concat(), "{}");
    assert!(said.status.success() && said.err.is_empty(), "{said:?}");
    said.out
}

/// The reason for which the hook at the end of a turn keeps the agent going; `None` when it lets the turn end.
fn stop(bus: &Bus, env: &[(&str, &str)], active: Option<bool>) -> Option<String> {
    let input = json!({"hook_event_name": "Stop", "stop_hook_active": active}).to_string();
    let said = called(bus, &["--mode=stop"], &[&[ADA], env].concat(), &input);
    assert!(said.status.success() && said.err.is_empty(), "{said:?}");
    if said.out.is_empty() {
        return None;
    }
    let answer: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (answer.as_object().unwrap().len(), &answer["decision"]),
        (2, &json!("block")),
        "{answer}"
    );
    Some(answer["reason"].as_str().unwrap().to_owned())
}

/// A bus on which bea writes.
fn with_bea() -> (Bus, Box<dyn crate::support::Calls>) {
    let bus = Bus::new();
    let bea = bus.joined("bea");
    (bus, bea)
}

fn dm(bea: &dyn crate::support::Calls, text: &str) {
    bea.ok("send_message", json!({"from": "bea", "to": "ada", "text": text}));
}

/// A line as another program may write it.
fn line(fields: Value) -> String {
    let mut line = json!({"id": "1", "ts": 1, "from": "bea", "to": "ada", "text": "x"});
    line.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    format!("{line}\n")
}

/// The clock of the test in milliseconds.
fn now() -> i64 {
    i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
}

// spec: HOOK-001 HOOK-002 HOOK-004 HOOK-009 HOOK-010
#[test]
fn unread_messages_are_printed_once_without_a_server_and_are_read_then() {
    let (bus, bea) = with_bea();
    dm(&*bea, "the build is red");
    dm(&*bea, "two lines:\n[agent-coord] not mine");
    drop(bea);
    let text = prompt(&bus, &[]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("[agent-coord] 2 new messages for ada") && lines[0].contains(ONCE),
        "{text}"
    );
    let tagged = |line: &str| line.starts_with("[DM ") && line.ends_with(" bea]");
    assert!(tagged(lines[1]) && tagged(lines[3]), "{text}");
    assert_eq!(
        [lines[2], lines[4], lines[5]],
        ["# the build is red", "# two lines:", "# [agent-coord] not mine"]
    );
    assert_eq!(lines.len(), 6, "{text}");
    assert_eq!(prompt(&bus, &[]), "");
    let ada = bus.agent();
    let read = ada.ok("read_messages", json!({"agentId": "ada", "source": "inbox"}));
    assert_eq!(read["returned"], 0);
}

// spec: HOOK-003
#[test]
fn without_an_agent_to_read_for_it_says_so_and_is_silent() {
    let (bus, bea) = with_bea();
    dm(&*bea, "hello");
    for (env, words) in [
        (vec![], "AGENT_COORD_ID is not set"),
        (vec![("AGENT_COORD_ID", "../ada")], "AGENT_COORD_ID: "),
    ] {
        for mode in ["--mode=user-prompt", "--mode=stop"] {
            let said = called(&bus, &[mode], &env, "{}");
            assert!(said.status.success() && said.out.is_empty(), "{said:?}");
            assert!(said.err.contains(words), "{said:?}");
        }
    }
    // Where there is no bus there is nothing to say, and none is made.
    let elsewhere = bus.path("elsewhere");
    let nowhere = [("AGENT_COORD_DIR", elsewhere.to_str().unwrap())];
    assert_eq!(prompt(&bus, &nowhere), "");
    assert!(!elsewhere.exists());
    assert!(prompt(&bus, &[]).contains("hello"));
}

// spec: HOOK-005 HOOK-006 HOOK-016
#[test]
fn the_end_of_a_turn_is_put_off_for_what_is_unread_and_never_twice_for_the_same() {
    let (bus, bea) = with_bea();
    assert_eq!(stop(&bus, &[], Some(false)), None);
    dm(&*bea, "one more thing");
    let reason = stop(&bus, &[], Some(false)).unwrap();
    assert!(
        reason.contains("bea]\n# one more thing") && reason.contains(ONCE),
        "{reason}"
    );
    for active in [Some(true), Some(false), None] {
        assert_eq!(stop(&bus, &[], active), None);
    }
    dm(&*bea, "and another");
    assert!(stop(&bus, &[], Some(true)).unwrap().contains("and another"));
    assert_eq!(stop(&bus, &[], Some(true)), None);
}

#[test]
fn a_turn_that_a_hook_asked_for_is_not_put_off_again_for_channels_nor_any_for_a_notice() {
    let (bus, bea) = with_bea();
    bea.ok("join_room", json!({"agentId": "bea", "room": "general"}));
    prompt(&bus, &[ROOMS]);
    bus.joined("carol").ok(
        "set_room_topic",
        json!({"agentId": "carol", "room": "general", "topic": "x"}),
    );
    assert_eq!(stop(&bus, &[ROOMS], Some(false)), None, "a notice");
    bea.ok("send_message", json!({"from": "bea", "text": "thank you all"}));
    assert_eq!(stop(&bus, &[ROOMS], Some(true)), None);
    assert!(
        stop(&bus, &[ROOMS], Some(false))
            .unwrap()
            .contains("thank you all")
    );
}

#[test]
fn what_cannot_be_marked_as_read_keeps_no_agent_going_for_ever() {
    let (bus, bea) = with_bea();
    dm(&*bea, "hello");
    drop(bea);
    let fresh = bus.file(".muster/new");
    fs::remove_dir_all(&fresh).unwrap();
    fs::write(&fresh, "in the way").unwrap();
    let run = |active: Option<bool>| {
        let input = json!({"stop_hook_active": active}).to_string();
        called(&bus, &["--mode=stop"], &[ADA], &input)
    };
    for active in [Some(true), None, Some(false)] {
        let said = run(active);
        assert!(
            said.status.success() && said.out.is_empty() && !said.err.is_empty(),
            "{said:?}"
        );
    }
}

// spec: HOOK-007 HOOK-008
#[test]
fn every_channel_that_was_joined_is_printed_when_asked_for_and_no_other() {
    let (bus, bea) = with_bea();
    let ada = bus.agent();
    for room in ["seo", "ops"] {
        ada.ok("join_room", json!({"agentId": "ada", "room": room}));
    }
    ada.ok(
        "send_message",
        json!({"from": "ada", "room": "seo", "text": "my own"}),
    );
    for room in ["general", "seo", "ops", "other"] {
        bea.ok(
            "send_message",
            json!({"from": "bea", "room": room, "text": format!("said in {room}"), "kind": "decision"}),
        );
    }
    assert_eq!(prompt(&bus, &[]), "");
    let text = prompt(&bus, &[ROOMS]);
    for room in ["general", "seo", "ops"] {
        assert!(
            text.contains(&format!("[#{room} "))
                && text.contains(&format!(" bea, decision]\n# said in {room}")),
            "{text}"
        );
    }
    assert!(!text.contains("other") && !text.contains("my own"), "{text}");
    assert_eq!(prompt(&bus, &[ROOMS]), "");
    for room in ["general", "seo", "ops"] {
        assert_eq!(
            ada.ok(
                "read_messages",
                json!({"agentId": "ada", "source": "room", "room": room})
            )["returned"],
            0
        );
    }
}

// spec: HOOK-012
#[test]
fn a_lock_that_somebody_holds_holds_up_no_turn() {
    for mode in ["native", "shared"] {
        let bus = Bus::new();
        let said = bus.run(&["init", "--mode", mode]);
        assert!(said.status.success(), "{said:?}");
        let bea = bus.joined("bea");
        dm(&*bea, "hello");
        bea.ok("send_message", json!({"from": "bea", "text": "all of you"}));
        drop(bea);
        let names = [
            "inbox/ada.jsonl",
            "cursors/ada.json",
            "room.jsonl",
            "rooms.json",
            "agents.json",
            "config.json",
        ];
        let held: Vec<File> = names
            .iter()
            .map(|name| {
                let path = bus.file(".muster/locks").join(name.replace('/', "+"));
                let file = File::options()
                    .create(true)
                    .truncate(false)
                    .write(true)
                    .open(path)
                    .unwrap();
                file.lock().unwrap();
                if mode == "shared" {
                    fs::create_dir(bus.file(&format!("{name}.lock"))).unwrap();
                }
                file
            })
            .collect();
        let begun = Instant::now();
        let text = prompt(&bus, &[ROOMS]);
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        assert!(text.contains("hello") && text.contains("all of you"), "{text}");
        assert_eq!(prompt(&bus, &[ROOMS]), "", "marked all the same");
        drop(held);
    }
}

// spec: HOOK-015
#[test]
fn no_damage_breaks_a_turn() {
    let words = |said: &Said, words: &str| {
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        assert!(said.err.contains(words), "{words}: {said:?}");
    };
    let damaged = |name: &str, content: &str| {
        let (bus, bea) = with_bea();
        dm(&*bea, "hello");
        drop(bea);
        if content.is_empty() {
            let _ = fs::remove_file(bus.file(name));
            fs::create_dir_all(bus.file(name)).unwrap();
        } else {
            bus.write(name, content);
        }
        ["--mode=user-prompt", "--mode=stop"].map(|mode| called(&bus, &[mode], &[ADA, ROOMS], "{}"))
    };
    for said in damaged("inbox/ada.jsonl", "") {
        words(&said, "inbox/ada.jsonl is not a plain file");
    }
    for said in damaged("config.json", "{") {
        words(&said, "config.json");
    }
    for said in damaged("cursors/ada.json", "") {
        words(&said, "cursors/ada.json");
    }
    let [said, _] = damaged("rooms.json", "[");
    words(&said, "rooms.json");
    assert!(said.out.contains("hello"), "the rest is told: {said:?}");
    let [said, again] = damaged("cursors/ada.json", "{");
    assert!(
        said.out.contains("hello") && again.out.is_empty(),
        "{said:?} {again:?}"
    );
    // Lines that are no entries are passed over, and half a line is not there yet.
    let (bus, _) = with_bea();
    bus.write(
        "inbox/ada.jsonl",
        &format!(
            "nonsense\n[1]\n{}{{\"text\": 7, \"ts\": {{}}}}\n{{\"from\": \"bea\", \"text\": \"unfin",
            line(json!({"text": "whole"}))
        ),
    );
    let text = prompt(&bus, &[]);
    assert!(
        text.contains("bea]\n# whole") && text.contains("(no text)") && !text.contains("unfin"),
        "{text}"
    );
}

#[test]
fn a_damaged_cursor_does_not_have_a_whole_inbox_told_again_turn_by_turn() {
    let (bus, bea) = with_bea();
    for number in 0..60 {
        dm(&*bea, &format!("<{number}> {}", "x".repeat(500)));
    }
    while !prompt(&bus, &[]).is_empty() {}
    bus.write("cursors/ada.json", "{");
    dm(&*bea, "<60> new since the damage");
    for _ in 0..2 {
        assert_eq!(stop(&bus, &[ROOMS], None), None, "no turn is put off for it");
        let text = prompt(&bus, &[ROOMS]);
        assert!(
            text.contains("cursor file is damaged")
                && text.contains("read_messages({agentId: \"ada\", source: \"inbox\"})")
                && !text.contains("<0>")
                && text.lines().count() == 1,
            "{text}"
        );
    }
    // What it says to do puts it right and loses nothing.
    let ada = bus.agent();
    ada.ok("join", json!({"agentId": "ada", "readInbox": false}));
    let read = ada.ok("read_messages", json!({"agentId": "ada", "source": "inbox"}));
    assert_eq!(read["returned"], 61, "{}", read["note"]);
    dm(&*bea, "<61>");
    let text = stop(&bus, &[], None).unwrap();
    assert!(text.contains("<61>") && !text.contains("<60>"), "{text}");
}

#[test]
fn what_nobody_took_is_not_marked_as_read() {
    let (bus, bea) = with_bea();
    dm(&*bea, "hello");
    for mode in ["--mode=user-prompt", "--mode=stop"] {
        let mut command = bus.command(&["bus", "peek", mode]);
        command
            .env(ADA.0, ADA.1)
            .stdin(Stdio::null())
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .stderr(Stdio::piped());
        let done = command.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        assert!(
            String::from_utf8_lossy(&done.stderr).contains("nothing was marked as read"),
            "{done:?}"
        );
    }
    assert!(prompt(&bus, &[]).contains("hello"));
}

#[test]
fn a_long_backlog_comes_in_pages_that_a_client_takes_whole_in_order() {
    let (bus, bea) = with_bea();
    let text = "\"quoted\" \\ and\nbroken ".repeat(9);
    for number in 0..120 {
        dm(&*bea, &format!("<{number}> {text}"));
    }
    let mut seen = Vec::new();
    for turn in 0.. {
        let page = if turn % 2 == 0 {
            prompt(&bus, &[])
        } else {
            stop(&bus, &[], Some(true)).unwrap_or_default()
        };
        if page.is_empty() {
            break;
        }
        assert!(
            json!({"reason": page}).to_string().encode_utf16().count() <= 10_000 - 20,
            "{}",
            page.len()
        );
        seen.extend(
            page.split("bea]\n# <")
                .skip(1)
                .map(|rest| rest.split('>').next().unwrap().parse::<u32>().unwrap()),
        );
        assert_eq!(page.contains("More is unread."), seen.len() < 120, "{page}");
    }
    assert_eq!(seen, (0..120).collect::<Vec<_>>());
}

#[test]
fn a_message_that_no_page_holds_stays_unread_and_is_named() {
    let (bus, bea) = with_bea();
    dm(&*bea, &"x".repeat(20_000));
    dm(&*bea, "after it");
    let text = prompt(&bus, &[]);
    assert!(
        text.contains("too long to be shown here (20000 characters)") && !text.contains("after it"),
        "{text}"
    );
    assert!(stop(&bus, &[], Some(false)).is_some());
    assert_eq!(stop(&bus, &[], Some(true)), None);
    let ada = bus.agent();
    assert_eq!(
        texts(&ada.ok("read_messages", json!({"agentId": "ada", "source": "inbox"}))).len(),
        2
    );
    assert_eq!(prompt(&bus, &[]), "");
}

#[test]
fn a_command_is_not_told_as_chat_and_keeps_its_place_until_it_lapses() {
    let (bus, _) = with_bea();
    let rows = line(json!({"text": "before"}))
        + &line(json!({"text": "/clear", "control": true, "from": "lead", "ts": now()}))
        + &line(json!({"text": "after"}));
    bus.write("inbox/ada.jsonl", &rows);
    let text = prompt(&bus, &[]);
    assert!(
        text.contains("bea]\n# before") && !text.contains("after\n"),
        "{text}"
    );
    assert!(
        text.contains("[agent-coord] Pending: /clear, sent by lead."),
        "{text}"
    );
    assert_eq!(stop(&bus, &[], Some(false)), None);
    bus.move_clock(121);
    let text = prompt(&bus, &[]);
    assert!(
        text.contains("/clear, sent by lead at ")
            && text.contains("was not seen to be carried out")
            && text.contains("bea]\n# after"),
        "{text}"
    );
    assert_eq!(prompt(&bus, &[]), "");
}

#[test]
fn a_prompt_that_a_deliverer_typed_is_not_told_again_beside_it() {
    let (bus, bea) = with_bea();
    dm(&*bea, "hello");
    let typed = json!({"prompt": "[agent-coord] 1 message\n[DM 12:00 bea]\n# hello"}).to_string();
    let said = called(&bus, &["--mode=user-prompt"], &[ADA], &typed);
    assert!(
        said.status.success() && said.out.is_empty() && said.err.is_empty(),
        "{said:?}"
    );
    let asked = json!({"prompt": "what does [agent-coord] mean?"}).to_string();
    assert!(
        called(&bus, &["--mode=user-prompt"], &[ADA], &asked)
            .out
            .contains("hello")
    );
}

#[test]
fn an_agent_that_was_renamed_is_told_under_its_new_id() {
    let (bus, bea) = with_bea();
    let ada = bus.joined("ada");
    ada.ok("rename_agent", json!({"agentId": "ada", "newAgentId": "eve"}));
    bea.ok(
        "send_message",
        json!({"from": "bea", "to": "eve", "text": "hello eve"}),
    );
    let text = prompt(&bus, &[]);
    assert!(text.contains("for eve") && text.contains("hello eve"), "{text}");
    assert_eq!(prompt(&bus, &[]), "");
}

#[test]
fn a_client_that_says_nothing_and_stays_does_not_hold_it_up() {
    let (bus, bea) = with_bea();
    dm(&*bea, "hello");
    let mut command = bus.command(&["bus", "peek", "--mode=stop"]);
    let mut child = command
        .env(ADA.0, ADA.1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take();
    let begun = Instant::now();
    let done = child.wait_with_output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    assert!(
        String::from_utf8_lossy(&done.stdout).contains("hello"),
        "{done:?}"
    );
    drop(input);
}

/// A client takes 2 from a hook for an order, so that wrong usage must not end so.
#[test]
fn wrong_usage_is_said_and_is_no_order_to_the_client() {
    let bus = Bus::new();
    for arguments in [
        &["--mode=later"][..],
        &["--mode"],
        &["--loud"],
        &["now", "then"],
        &["--mode", "stop", "x"],
    ] {
        let said = called(&bus, arguments, &[ADA], "{}");
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        assert!(
            said.out.is_empty() && said.err.contains("muster bus peek --help"),
            "{said:?}"
        );
    }
    let help = called(&bus, &["--help"], &[], "");
    assert!(
        help.status.success() && help.out.contains("AGENT_COORD_ID"),
        "{help:?}"
    );
}

// spec: NODE-022
#[test]
fn the_name_of_the_script_calls_it_too_with_the_same_words() {
    let (bus, bea) = with_bea();
    dm(&*bea, "hello");
    let link = bus.path("peek-coord");
    std::os::unix::fs::symlink(MUSTER, &link).unwrap();
    let mut command = Command::new(link);
    command
        .env_clear()
        .env("AGENT_COORD_DIR", bus.path("bus"))
        .env(ADA.0, ADA.1)
        .args(["--mode", "stop"]);
    let said = Said::fed(command, "{\"stop_hook_active\": false}");
    assert!(
        said.out.contains("hello") && said.out.contains("\"block\""),
        "{said:?}"
    );
}

mod heavy {
    use super::*;

    // spec: HOOK-014
    #[test]
    fn it_costs_a_turn_less_than_a_tenth_of_a_second_however_much_was_read_before() {
        let (bus, bea) = with_bea();
        let old: String = (0..20_000)
            .map(|number| line(json!({"id": number.to_string()})))
            .collect();
        bus.write("inbox/ada.jsonl", &old);
        bus.write("cursors/ada.json", "{\"inboxOffset\": 20000}");
        let mut times = Vec::new();
        for number in 0..11 {
            dm(&*bea, &format!("new {number}"));
            let begun = Instant::now();
            let text = prompt(&bus, &[ROOMS]);
            times.push(begun.elapsed());
            assert!(text.contains(&format!("new {number}")), "{text}");
        }
        // Others may use the machine at the same time: what it costs is the least of eleven.
        assert!(
            times.iter().min().unwrap() < &Duration::from_millis(100),
            "{times:?}"
        );
    }

    // spec: HOOK-011 HOOK-013
    #[test]
    fn beside_readers_and_a_prune_and_killed_at_any_moment_it_loses_nothing() {
        const MESSAGES: usize = 300;
        let (bus, bea) = with_bea();
        let done = std::sync::atomic::AtomicBool::new(false);
        let over = || done.load(std::sync::atomic::Ordering::SeqCst);
        let numbers = |text: &str| -> Vec<usize> {
            text.split("bea]\n# #")
                .skip(1)
                .map(|rest| rest.split(' ').next().unwrap().parse().unwrap())
                .collect()
        };
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        std::thread::scope(|scope| {
            let hook = scope.spawn(|| {
                let mut told = Vec::new();
                while !over() {
                    told.extend(numbers(&prompt(&bus, &[])));
                }
                told
            });
            let killed = scope.spawn(|| {
                let (mut told, mut round) = (Vec::new(), 0_u64);
                while !over() {
                    round += 1;
                    let mut command = bus.command(&["bus", "peek", "--mode=user-prompt"]);
                    let mut child = command
                        .env(ADA.0, ADA.1)
                        .stdin(Stdio::null())
                        .stdout(Stdio::piped())
                        .spawn()
                        .unwrap();
                    std::thread::sleep(Duration::from_micros(round * 577 % 12_000));
                    let _ = child.kill();
                    let done = child.wait_with_output().unwrap();
                    told.extend(numbers(&String::from_utf8_lossy(&done.stdout)));
                    // There is none before the first one marked something.
                    if let Ok(cursor) = fs::read_to_string(bus.file("cursors/ada.json")) {
                        assert!(
                            serde_json::from_str::<Value>(&cursor).unwrap().is_object(),
                            "{cursor}"
                        );
                    }
                }
                told
            });
            let reader = scope.spawn(|| {
                let ada = bus.agent();
                let mut told = Vec::new();
                while !over() {
                    let got = ada.ok(
                        "read_messages",
                        json!({"agentId": "ada", "source": "inbox", "limit": 2}),
                    );
                    told.extend(texts(&got).iter().map(|text| {
                        text.trim_start_matches('#')
                            .split(' ')
                            .next()
                            .unwrap()
                            .parse::<usize>()
                            .unwrap()
                    }));
                    std::thread::sleep(Duration::from_millis(3));
                }
                told
            });
            let prune = scope.spawn(|| {
                let carol = bus.joined("carol");
                while !over() {
                    carol.ok(
                        "prune",
                        json!({"olderThanDays": 0.000_000_1, "targets": ["inbox"]}),
                    );
                    std::thread::sleep(Duration::from_millis(7));
                }
            });
            for number in 0..MESSAGES {
                dm(&*bea, &format!("#{number} of many"));
            }
            std::thread::sleep(Duration::from_millis(500));
            done.store(true, std::sync::atomic::Ordering::SeqCst);
            for told in [hook, killed, reader] {
                seen.extend(told.join().unwrap());
            }
            prune.join().unwrap();
        });
        seen.extend(numbers(&prompt(&bus, &[])));
        let missing: Vec<usize> = (0..MESSAGES).filter(|number| !seen.contains(number)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(prompt(&bus, &[]), "");
    }
}
