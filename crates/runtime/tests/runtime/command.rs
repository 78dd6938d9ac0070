//! The `command` runtime with real programs: what arrives, what is kept, and that everything ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use crate::support::{Place, again, assert_gone, broken_off, kill, lives, not_started, reply, turn};
use muster_runtime::{Kind, Outcome, Program, REPLY_LIMIT, Settings, Turn, runtime};

async fn run(program: Program, settings: Settings, turn: Turn) -> Outcome {
    runtime(Kind::Command, program, settings).turn(turn).await
}

// spec: DLV-012 DLV-030
#[tokio::test]
async fn a_text_arrives_whole_and_what_the_program_prints_is_the_reply() {
    let place = Place::new();
    let text: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
    assert!(text.len() > 3 * 64 * 1024);
    let outcome = run(
        Program::parse("cat").unwrap(),
        place.settings(),
        turn("c-1", &text),
    )
    .await;
    assert_eq!(reply(outcome), text.trim_end());
    let mode = fs::metadata(place.path("chief")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

// spec: DLV-030
#[tokio::test]
async fn the_program_is_told_where_muster_is_and_runs_in_its_own_folder() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.env = vec![
        ("EXTRA".to_owned(), "yes".to_owned()),
        ("MUSTER_AGENT_TOKEN".to_owned(), "other".to_owned()),
    ];
    let script = place.shell("echo $MUSTER_MCP_URL $MUSTER_AGENT_TOKEN $MUSTER_CONVERSATION $EXTRA; pwd -P");
    let printed = reply(run(script, settings, turn("c-1", "x")).await);
    let folder = place.path("chief").canonicalize().unwrap();
    assert_eq!(
        printed,
        format!(
            "http://127.0.0.1:9/mcp {} c-1 yes\n{}",
            crate::support::TOKEN,
            folder.display()
        )
    );
}

#[test]
fn of_muster_s_own_variables_a_chief_sees_only_its_three() {
    let output = again("command::a_turn_that_prints_its_environment")
        .env("MUSTER_DATABASE_URL", "postgres://secret")
        .env("MUSTER_HOOK_TOKEN", "hook")
        .env("MUSTER_AGENT_TOKEN", "stale")
        .env("CLAUDECODE", "1")
        .env("SOMETHING_ELSE", "kept")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}");
    let names: Vec<&str> = printed
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    let mut muster: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| name.starts_with("MUSTER_"))
        .collect();
    muster.sort_unstable();
    assert_eq!(
        muster,
        ["MUSTER_AGENT_TOKEN", "MUSTER_CONVERSATION", "MUSTER_MCP_URL"]
    );
    assert!(names.contains(&"SOMETHING_ELSE") && names.contains(&"PATH"));
    assert!(!names.contains(&"CLAUDECODE"));
}

#[tokio::test]
#[ignore = "run as a process of its own by of_muster_s_own_variables_a_chief_sees_only_its_three"]
async fn a_turn_that_prints_its_environment() {
    let place = Place::new();
    println!(
        "\n{}",
        reply(run(Program::parse("env").unwrap(), place.settings(), turn("c-1", "x")).await)
    );
}

// spec: DLV-015
#[tokio::test]
async fn a_program_that_cannot_be_started_leaves_the_turn_not_started() {
    let place = Place::new();
    let plain = place.path("plain");
    fs::write(&plain, "echo hi").unwrap();
    let no_interpreter = place.path("no-interpreter");
    fs::write(&no_interpreter, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&no_interpreter, fs::Permissions::from_mode(0o755)).unwrap();
    let table = [
        ("/no/such/program".to_owned(), "was not found"),
        ("no-such-program-anywhere --flag".to_owned(), "was not found"),
        (no_interpreter.display().to_string(), "was not found"),
        (plain.display().to_string(), "may not be executed"),
        (place.folder.path().display().to_string(), "may not be executed"),
    ];
    for (line, words) in table {
        let reason =
            not_started(run(Program::parse(&line).unwrap(), place.settings(), turn("c-1", "x")).await);
        assert!(reason.contains(words), "{line}: {reason}");
    }
    let reason = not_started(
        run(
            Program::parse("'/no/\u{1b}[1m'").unwrap(),
            place.settings(),
            turn("c-1", "x"),
        )
        .await,
    );
    assert!(
        reason.contains("/no/\\u{1b}[1m") && !reason.contains('\u{1b}'),
        "{reason}"
    );
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_leaves_the_turn_not_started() {
    let place = Place::new();
    fs::write(place.path("chief"), "a file").unwrap();
    let program = place.shell("touch ../ran");
    let reason = not_started(run(program, place.settings(), turn("c-1", "x")).await);
    assert!(reason.contains("work folder cannot be used"), "{reason}");
    assert!(!place.path("ran").exists());
}

#[tokio::test]
async fn a_conversation_with_an_unfit_id_starts_nothing() {
    let place = Place::new();
    let long = "a".repeat(129);
    for id in ["", "../x", "A", "a/b", "a b", "a\0", &long] {
        let program = place.shell("touch ../ran");
        let reason = not_started(run(program, place.settings(), turn(id, "x")).await);
        assert!(reason.contains("conversation's id"), "{reason}");
    }
    assert!(!place.path("ran").exists());
}

// spec: DLV-013
#[tokio::test]
async fn any_other_end_than_exit_code_0_breaks_the_turn_off() {
    let place = Place::new();
    let script = place
        .shell(r#"cat > /dev/null; echo half a reply; printf '\033[31mout of\ntokens\007\n' >&2; exit 3"#);
    let reason = broken_off(run(script, place.settings(), turn("c-1", "x")).await);
    assert_eq!(
        reason,
        "the chief's program ended with exit code 3: \\u{1b}[31mout of\\ntokens\\u{7}"
    );

    let reason = broken_off(run(place.shell("kill -9 $$"), place.settings(), turn("c-1", "x")).await);
    assert_eq!(reason, "the chief's program was ended by signal 9.");
}

#[tokio::test]
async fn a_program_that_does_not_read_its_text_completes_by_exit_code_0() {
    let place = Place::new();
    let text = "x".repeat(1 << 20);
    let outcome = run(place.shell("echo done"), place.settings(), turn("c-1", &text)).await;
    assert_eq!(reply(outcome), "done");
    let outcome = run(
        place.shell("exec 0<&-; sleep 0.2; echo done"),
        place.settings(),
        turn("c-1", &text),
    )
    .await;
    assert_eq!(reply(outcome), "done");
}

#[tokio::test]
async fn a_reply_that_is_not_text_is_kept_as_text() {
    let place = Place::new();
    let outcome = run(
        place.shell(r"printf 'a\000b\377c\033[1m\n\n'"),
        place.settings(),
        turn("c-1", "x"),
    )
    .await;
    assert_eq!(reply(outcome), "a\u{fffd}b\u{fffd}c\u{1b}[1m");
    assert_eq!(
        reply(run(place.shell("exit 0"), place.settings(), turn("c-1", "x")).await),
        ""
    );
}

// spec: DLV-013
#[tokio::test]
async fn a_turn_that_never_ends_is_ended_with_everything_it_started() {
    let place = Place::new();
    let mut settings = place.settings();
    settings.watchdog = Duration::from_millis(500);
    let scripts = [
        // It closes its output and lives on.
        "echo $$ > ../pids; exec 1>&- 2>&-; exec sleep 60",
        // It neither heeds the request to end nor does what it started.
        "trap '' TERM; (trap '' TERM; sleep 60) & echo $$ > ../pids; echo $! >> ../pids; wait; sleep 60",
        // It never stops writing.
        "echo $$ > ../pids; exec yes",
    ];
    for script in scripts {
        let _ = fs::remove_file(place.path("pids"));
        let begun = Instant::now();
        let reason = broken_off(run(place.shell(script), settings.clone(), turn("c-1", "x")).await);
        assert_eq!(
            reason,
            "the chief's program did not finish within 500 milliseconds, and muster ended it."
        );
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{script} took {:?}",
            begun.elapsed()
        );
        assert_gone(&place.pids("pids", 1));
    }
}

#[tokio::test]
async fn what_a_program_leaves_behind_is_ended_and_does_not_hold_the_turn() {
    let place = Place::new();
    let begun = Instant::now();
    let script = place.shell("sleep 60 & echo $! > ../pids; echo hi");
    assert_eq!(reply(run(script, place.settings(), turn("c-1", "x")).await), "hi");
    assert_gone(&place.pids("pids", 1));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_process_that_left_the_group_does_not_hold_the_turn() {
    let place = Place::new();
    let begun = Instant::now();
    let script = place.shell("setsid sh -c 'echo $$ > ../pids; exec sleep 60' & while [ ! -s ../pids ]; do sleep 0.01; done; echo hi");
    assert_eq!(reply(run(script, place.settings(), turn("c-1", "x")).await), "hi");
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    let escaped = place.pids("pids", 1);
    assert!(
        lives(escaped[0]),
        "this test needs a process outside of the group"
    );
    kill(escaped[0]);
}

#[tokio::test]
async fn a_flood_of_output_ends_and_is_kept_within_bounds() {
    let place = Place::new();
    let gib = 1_u64 << 30;
    let script = place.shell(&format!("yes wordy | head -c {gib}"));
    let text = reply(run(script, place.settings(), turn("c-1", "x")).await);
    assert!(text.starts_with("wordy\nwordy\n") && text.ends_with("kept its first 256 KiB.]"));
    assert!(text.len() < REPLY_LIMIT + 100);

    let script = place.shell(&format!("yes wordy | head -c {gib} >&2; exit 9"));
    let reason = broken_off(run(script, place.settings(), turn("c-1", "x")).await);
    assert!(reason.starts_with("the chief's program ended with exit code 9: "));
    assert!(
        reason.contains("\\nwordy\\nwordy\\n") && reason.len() < 2_200,
        "{}",
        reason.len()
    );
}

// spec: DLV-026
#[tokio::test]
async fn a_chief_takes_one_turn_at_a_time() {
    let place = Place::new();
    let script = place
        .shell("cat > /dev/null; echo $$ >> ../pids; while [ ! -e ../go ]; do sleep 0.02; done; echo done");
    let first = runtime(Kind::Command, script.clone(), place.settings());
    // Another process would come with a runtime of its own over the same folder.
    let second = runtime(Kind::Command, script, place.settings());
    let running = tokio::spawn({
        let first = first.clone();
        async move { first.turn(turn("c-1", "x")).await }
    });
    let pids = place.pids_soon("pids", 1).await;
    assert_eq!(pids.len(), 1);
    for chief in [&first, &second] {
        // The first turn runs until it is told to end: this answer did not wait for it.
        assert_eq!(
            not_started(chief.turn(turn("c-2", "x")).await),
            "the chief is busy with another turn"
        );
    }
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(reply(running.await.unwrap()), "done");
    assert_eq!(reply(second.turn(turn("c-2", "x")).await), "done");
    assert_eq!(place.pids("pids", 2).len(), 2);
}

#[tokio::test]
async fn a_turn_that_is_given_up_ends_its_program_and_frees_the_chief() {
    let place = Place::new();
    let script = place.shell(
        "[ -e ../go ] && { echo done; exit; }; sleep 60 & echo $$ > ../pids; echo $! >> ../pids; wait",
    );
    let chief = runtime(Kind::Command, script, place.settings());
    let given_up = tokio::spawn({
        let chief = chief.clone();
        async move { chief.turn(turn("c-1", "x")).await }
    });
    let pids = place.pids_soon("pids", 2).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    assert_gone(&pids);
    fs::write(place.path("go"), "").unwrap();
    assert_eq!(reply(chief.turn(turn("c-1", "x")).await), "done");
}

#[test]
fn a_program_that_a_killed_muster_left_is_ended_before_the_next_turn() {
    let place = Place::new();
    let folder = place.folder.path().to_str().unwrap();
    let mut muster = again("command::a_turn_in_a_muster_that_is_killed")
        .env("PLACE", folder)
        .spawn()
        .unwrap();
    let pids = place.pids("pids", 2);
    kill(i32::try_from(muster.id()).unwrap());
    muster.wait().unwrap();
    assert!(
        pids.iter().all(|pid| lives(*pid)),
        "this test needs programs that outlive their muster"
    );

    let outcome = tokio::runtime::Runtime::new().unwrap().block_on(run(
        Program::parse("cat").unwrap(),
        place.settings(),
        turn("c-2", "next"),
    ));
    assert_eq!(reply(outcome), "next");
    assert_gone(&pids);
}

#[tokio::test]
#[ignore = "run as a process of its own by a_program_that_a_killed_muster_left_is_ended_before_the_next_turn"]
async fn a_turn_in_a_muster_that_is_killed() {
    let folder = std::env::var("PLACE").unwrap();
    // It is noted before its turn is handed to it; one that is killed with its muster before that has nothing to act on.
    let program =
        Program::parse("sh -c 'cat > /dev/null; sleep 60 & echo $$ > ../pids; echo $! >> ../pids; wait'")
            .unwrap();
    let settings = Settings::new(format!("{folder}/chief"));
    let outcome = run(program, settings, turn("c-1", "x")).await;
    panic!("this process was to be killed in its turn, which ended as {outcome:?}");
}
