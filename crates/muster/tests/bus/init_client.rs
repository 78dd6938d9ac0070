//! `muster init --client`: what it writes into the settings of other programs, and what it leaves. Never starts one of them.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{Bus, MUSTER, Said};

/// A bus in the usual place, whose programs find `muster` by its name.
fn bus() -> Bus {
    let bus = Bus::new().with("AGENT_COORD_DIR", "");
    fs::create_dir_all(bus.path("home")).unwrap();
    fs::create_dir_all(bus.path("bin")).unwrap();
    symlink(MUSTER, bus.path("bin/muster")).unwrap();
    bus
}

fn command(bus: &Bus, arguments: &[&str]) -> Command {
    let mut command = bus.command(&[&["init"], arguments].concat());
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bus.path("bin").display()));
    command
}

fn init(bus: &Bus, arguments: &[&str]) -> Said {
    Said::of(command(bus, arguments))
}

fn done(bus: &Bus, arguments: &[&str]) -> String {
    let said = init(bus, arguments);
    assert!(said.status.success(), "{said:?}");
    said.out
}

fn refused(bus: &Bus, arguments: &[&str], words: &str) {
    let said = init(bus, arguments);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(said.err.contains(words), "{words}: {said:?}");
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn put(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// The files in a folder, by name.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn claude_code_gets_the_server_and_both_hooks_and_keeps_all_it_had() {
    let bus = bus();
    let (servers, settings) = (
        bus.path("home/.claude.json"),
        bus.path("home/.claude/settings.json"),
    );
    let had = "{\n  \"numStartups\": 12.50,\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\", \"env\": { \"KEY\": \"secret\" } }\n  },\n  \"projects\": {}\n}\n";
    put(&servers, had);
    fs::set_permissions(&servers, fs::Permissions::from_mode(0o640)).unwrap();
    put(
        &settings,
        "{\"model\": \"opus\", \"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]}}",
    );
    let said = done(&bus, &["--client", "claude", "--id", "frontend", "--yes"]);
    assert!(
        said.contains("+ mcpServers.agent-coord: {") && said.contains("+ hooks.UserPromptSubmit: ["),
        "{said}"
    );
    assert!(!said.contains("secret"), "{said}");

    let entry = json!({"type": "stdio", "command": "muster", "args": ["bus", "serve"], "env": {"AGENT_COORD_BOUND_AGENT": "frontend"}});
    let now = read(&servers);
    assert_eq!(now["mcpServers"]["agent-coord"], entry);
    let text = fs::read_to_string(&servers).unwrap();
    assert!(text.starts_with("{\n  \"numStartups\": 12.50,\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\", \"env\": { \"KEY\": \"secret\" } },\n    \"agent-coord\": {"), "{text}");
    assert!(text.ends_with("    }\n  },\n  \"projects\": {}\n}\n"), "{text}");
    let hook = |mode: &str| json!({"hooks": [{"type": "command", "command": format!("AGENT_COORD_ID=frontend muster bus peek --mode={mode}"), "timeout": 10}]});
    let now = read(&settings);
    assert_eq!(now["hooks"]["UserPromptSubmit"], json!([hook("user-prompt")]));
    assert_eq!(
        now["hooks"]["Stop"],
        json!([{"hooks": [{"type": "command", "command": "say done"}]}, hook("stop")])
    );
    assert_eq!(now["model"], "opus");
    // As it was, for whoever wants it back; as closed to others as it was.
    let backup = bus.path("home/.claude.json.before-muster");
    assert_eq!(fs::read_to_string(&backup).unwrap(), had);
    assert_eq!((mode(&servers), mode(&backup)), (0o640, 0o640));
    assert_eq!(
        names(&bus.path("home/.claude")),
        ["settings.json", "settings.json.before-muster"]
    );

    // A second time there is nothing to do, and nothing is asked.
    let before = [&servers, &settings].map(|path| fs::read(path).unwrap());
    let said = done(&bus, &["--client", "claude", "--id", "frontend"]);
    assert_eq!(said.matches("nothing to change").count(), 2, "{said}");
    assert_eq!([&servers, &settings].map(|path| fs::read(path).unwrap()), before);
    assert_eq!(fs::read_to_string(&backup).unwrap(), had);
    // Another id takes the place of the one before.
    done(&bus, &["--client", "claude", "--id", "api", "--yes"]);
    let text = fs::read_to_string(&servers).unwrap() + &fs::read_to_string(&settings).unwrap();
    assert!(
        !text.contains("frontend") && text.matches("api").count() == 3,
        "{text}"
    );
}

#[test]
fn a_client_that_was_never_started_gets_new_files_of_its_users_alone_where_it_looks_for_them() {
    let bus = bus();
    let cases = [
        ("claude", "CLAUDE_CONFIG_DIR", "set", ".claude.json"),
        ("codex", "CODEX_HOME", "set", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", "set", ".gemini/settings.json"),
    ];
    for (client, variable, folder, file) in cases {
        let mut command = command(&bus, &["--client", client, "--yes", "--json"]);
        command.env(variable, bus.path(folder));
        let said = Said::of(command);
        assert!(said.status.success(), "{said:?}");
        let path = bus.path(folder).join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("muster") && text.ends_with('\n'), "{text}");
        assert_eq!(mode(&path), 0o600);
        let answer: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(
            answer["client"],
            json!({"name": client, "files": [{"file": path, "changed": true, "backup": null}]})
        );
        assert_eq!(answer["transport"], "tmux-push-remote");
    }
    for (client, files) in [
        ("claude", vec![".claude.json", ".claude/settings.json"]),
        ("codex", vec![".codex/config.toml"]),
        ("gemini", vec![".gemini/settings.json"]),
    ] {
        done(&bus, &["--client", client, "--yes", "--id", "me"]);
        for file in files {
            assert!(
                fs::read_to_string(bus.path("home").join(file))
                    .unwrap()
                    .contains("me"),
                "{file}"
            );
        }
    }
    assert_eq!(
        names(&bus.path("set")),
        [".claude.json", ".gemini", "config.toml"],
        "without an id there is no hook to write"
    );
}

#[test]
fn codex_gets_its_table_and_keeps_comments_and_order() {
    let bus = bus();
    let path = bus.path("home/.codex/config.toml");
    let had =
        "# mine\nmodel = \"x\" # fast\n\n[mcp_servers.other]\ncommand = \"y\"\n\n[profiles.z]\nmodel = 'w'\n";
    put(&path, had);
    let said = done(&bus, &["--client", "codex", "--id", "worker", "--yes"]);
    assert!(said.contains("+ [mcp_servers.agent-coord]"), "{said}");
    let entry = "\n[mcp_servers.agent-coord]\ncommand = \"muster\"\nargs = [\"bus\", \"serve\"]\ntool_timeout_sec = 90\nenv = { AGENT_COORD_BOUND_AGENT = \"worker\" }\n";
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text.replace(entry, ""), had, "{text}");
    assert_eq!(
        fs::read_to_string(bus.path("home/.codex/config.toml.before-muster")).unwrap(),
        had
    );
    assert!(done(&bus, &["--client", "codex", "--id", "worker"]).contains("nothing to change"));
    // What its owner wrote around the values stays as well.
    put(
        &path,
        "[mcp_servers.agent-coord] # the bus\nargs = [ 'bus', 'serve' ] # as it is\ncommand = 'old' # moved\ntool_timeout_sec = 300\nenv.KEY = \"k\"\n",
    );
    let said = done(&bus, &["--client", "codex", "--id", "worker", "--yes"]);
    assert!(
        said.contains("- mcp_servers.agent-coord: command = 'old'") && !said.contains("KEY"),
        "{said}"
    );
    let text = fs::read_to_string(&path).unwrap();
    for kept in [
        "[mcp_servers.agent-coord] # the bus\n",
        "args = [ 'bus', 'serve' ] # as it is\n",
        "command = \"muster\" # moved\n",
        "tool_timeout_sec = 300\n",
        "KEY = \"k\"",
    ] {
        assert!(text.contains(kept), "{kept}: {text}");
    }
    assert!(text.contains("AGENT_COORD_BOUND_AGENT = \"worker\""), "{text}");
    for inline in [
        "mcp_servers = { a = { command = \"b\" } }\n",
        "mcp_servers = {}\n",
    ] {
        put(&path, inline);
        done(&bus, &["--client", "codex", "--yes"]);
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.contains("agent-coord = { command = \"muster\"")
                && done(&bus, &["--client", "codex"]).contains("nothing to change"),
            "{text}"
        );
    }
}

#[test]
fn another_program_for_the_same_bus_gives_way_and_what_it_was_given_stays() {
    let bus = bus();
    let path = bus.path("home/.gemini/settings.json");
    put(
        &path,
        "{\"mcpServers\": {\"agent-coord\": {\"command\": \"node\", \"args\": [\"/x/server.js\"], \"env\": {\"KEY\": \"secret\"}, \"trust\": true}}}",
    );
    let said = done(&bus, &["--client", "gemini", "--id", "me", "--yes"]);
    assert!(
        said.contains("- mcpServers.agent-coord.command: \"node\"") && !said.contains("secret"),
        "{said}"
    );
    let entry = json!({"command": "muster", "args": ["bus", "serve"], "env": {"KEY": "secret", "AGENT_COORD_BOUND_AGENT": "me"}, "trust": true});
    assert_eq!(read(&path)["mcpServers"]["agent-coord"], entry);
    let settings = bus.path("home/.claude/settings.json");
    put(
        &settings,
        "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"AGENT_COORD_ID=me node /x/peek-coord.mjs --mode=stop\", \"timeout\": 3}]}]}}",
    );
    done(&bus, &["--client", "claude", "--id", "me", "--yes"]);
    let stop = json!([{"hooks": [{"type": "command", "command": "AGENT_COORD_ID=me muster bus peek --mode=stop", "timeout": 3}]}]);
    assert_eq!(read(&settings)["hooks"]["Stop"], stop);
}

#[test]
fn what_cannot_be_read_or_leads_elsewhere_is_refused_before_anything_is_written() {
    let bus = bus();
    let (servers, settings) = (
        bus.path("home/.claude.json"),
        bus.path("home/.claude/settings.json"),
    );
    let codex = bus.path("home/.codex/config.toml");
    let far = "{\"mcpServers\": {\"agent-coord\": {\"type\": \"http\", \"url\": \"http://far\", \"headers\": {\"Authorization\": \"Bearer t\"}}}}";
    let cases: [(&Path, &str, &str, &str); 8] = [
        (&servers, "claude", "{ // mine\n}", ".claude.json: it is no JSON"),
        (&servers, "claude", far, "leads to a bus on another address"),
        (
            &servers,
            "claude",
            "{\"mcpServers\": {\"agent-coord\": 7}}",
            "is not one of a server",
        ),
        (
            &servers,
            "claude",
            "{\"mcpServers\": {}, \"mcpServers\": {}}",
            "says mcpServers twice",
        ),
        (
            &settings,
            "claude",
            "{\"hooks\": {\"Stop\": {}}}",
            "hooks of Stop are no list",
        ),
        (&settings, "claude", "{\"hooks\": []}", "its hooks is no object"),
        (&codex, "codex", "[mcp_servers", "config.toml: it is no TOML"),
        (
            &codex,
            "codex",
            "[mcp_servers.agent-coord]\nurl = \"http://far\"\n",
            "leads to a bus on another address",
        ),
    ];
    for (path, client, text, words) in cases {
        for path in [&servers, &settings] {
            put(path, "{}");
        }
        put(path, text);
        refused(&bus, &["--client", client, "--id", "me", "--yes"], words);
        assert_eq!(fs::read_to_string(path).unwrap(), text);
        for other in [&servers, &settings]
            .into_iter()
            .filter(|other| other.as_path() != path)
        {
            assert_eq!(fs::read_to_string(other).unwrap(), "{}");
        }
        assert!(!bus.path("home/agent-coord").exists(), "nor the bus");
    }
    fs::remove_file(&settings).unwrap();
    fs::create_dir(&settings).unwrap();
    refused(
        &bus,
        &["--client", "claude", "--id", "me", "--yes"],
        "settings.json cannot be read",
    );
    // A link to nothing is somebody's plan, and no place for a new file.
    fs::remove_dir(&settings).unwrap();
    symlink("nowhere", &settings).unwrap();
    refused(
        &bus,
        &["--client", "claude", "--id", "me", "--yes"],
        "settings.json cannot be read",
    );
    for arguments in [
        &["--id", "me"][..],
        &["--yes"],
        &["--client", "claude", "--id", "../me"],
        &["--client", "emacs"],
    ] {
        assert_eq!(init(&bus, arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn settings_behind_a_link_are_changed_where_they_are() {
    let bus = bus();
    let (real, link) = (bus.path("dotfiles/claude.json"), bus.path("home/.claude.json"));
    put(&real, "{}");
    symlink(&real, &link).unwrap();
    done(&bus, &["--client", "claude", "--yes"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(read(&real)["mcpServers"]["agent-coord"]["command"], "muster");
}

#[test]
fn an_entry_names_the_program_and_the_directory_where_they_are_not_the_usual_ones() {
    let bus = bus();
    let away = bus.path("a b");
    let said = Said::of({
        let mut command = bus.command(&[
            "init",
            "--client",
            "claude",
            "--id",
            "me",
            "--yes",
            "--dir",
            away.to_str().unwrap(),
        ]);
        command.env("PATH", "/usr/bin");
        command
    });
    assert!(said.status.success(), "{said:?}");
    let entry = &read(&bus.path("home/.claude.json"))["mcpServers"]["agent-coord"];
    assert_eq!(
        fs::canonicalize(entry["command"].as_str().unwrap()).unwrap(),
        fs::canonicalize(MUSTER).unwrap()
    );
    assert_eq!(entry["env"]["AGENT_COORD_DIR"], away.to_str().unwrap());
    // The hook's command runs as it stands there, in a shell.
    let hook = &read(&bus.path("home/.claude/settings.json"))["hooks"]["Stop"][0]["hooks"][0]["command"];
    let inbox = away.join("inbox/me.jsonl");
    fs::write(inbox, "{\"from\":\"bea\",\"text\":\"hello\",\"ts\":1}\n").unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", hook.as_str().unwrap()])
        .env_clear()
        .env("PATH", "/usr/bin:/bin");
    let said = Said::of(shell);
    assert!(
        said.status.success() && said.out.contains("bea]\\n# hello"),
        "{said:?}"
    );
}

#[test]
fn an_id_is_given_to_one_project_in_settings_of_its_own() {
    let bus = bus();
    let shop = bus.path("shop");
    fs::create_dir_all(&shop).unwrap();
    for client in ["claude", "codex", "gemini"] {
        let said = done(
            &bus,
            &[
                "--client",
                client,
                "--id",
                "shop",
                "--project",
                shop.to_str().unwrap(),
                "--yes",
            ],
        );
        assert!(!said.contains("every session of this client"), "{said}");
        let said = done(&bus, &["--client", client, "--id", "shop", "--project", "shop"]);
        assert!(
            said.contains("nothing to change") && !said.contains("wrote"),
            "{said}"
        );
    }
    assert_eq!(names(&bus.path("home")), ["agent-coord"], "nothing of the user's");
    assert_eq!(names(&shop), [".claude", ".codex", ".gemini", ".mcp.json"]);
    let entry = &read(&shop.join(".mcp.json"))["mcpServers"]["agent-coord"];
    assert_eq!(entry["env"]["AGENT_COORD_BOUND_AGENT"], "shop");
    let settings = read(&shop.join(".claude/settings.local.json"));
    assert_eq!(settings["enabledMcpjsonServers"], json!(["agent-coord"]));
    assert_eq!(
        settings["hooks"]["Stop"][0]["hooks"][0]["command"],
        "AGENT_COORD_ID=shop muster bus peek --mode=stop"
    );
    assert!(
        fs::read_to_string(shop.join(".codex/config.toml"))
            .unwrap()
            .contains("\"shop\"")
    );
    assert_eq!(
        read(&shop.join(".gemini/settings.json"))["mcpServers"]["agent-coord"]["env"]["AGENT_COORD_BOUND_AGENT"],
        "shop"
    );
    let said = done(&bus, &["--client", "gemini", "--id", "shop", "--yes"]);
    assert!(
        said.contains("every session of this client is shop now"),
        "{said}"
    );
    assert_eq!(
        init(&bus, &["--client", "claude", "--project", "nowhere"])
            .status
            .code(),
        Some(2)
    );
}

/// Runs a command on a terminal of its own and types an answer to its question; what it printed.
fn on_a_terminal(mut command: Command, answer: &str) -> (bool, String) {
    let pty = nix::pty::openpty(None, None).unwrap();
    let side = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
    let mut child = command
        .stdin(side(&pty.slave))
        .stdout(side(&pty.slave))
        .stderr(side(&pty.slave))
        .spawn()
        .unwrap();
    drop((pty.slave, command));
    let mut terminal = fs::File::from(pty.master);
    let mut shown = String::new();
    let mut answered = false;
    let mut buffer = [0; 4096];
    // The terminal is gone with the last one who holds its other side.
    while let Ok(read) = terminal.read(&mut buffer) {
        shown.push_str(&String::from_utf8_lossy(&buffer[..read]));
        if !answered && shown.contains("Write this? [y/N] ") {
            answered = true;
            writeln!(terminal, "{answer}").unwrap();
        }
        if read == 0 {
            break;
        }
    }
    (child.wait().unwrap().success(), shown)
}

#[test]
fn the_change_is_shown_first_and_written_only_after_a_yes() {
    let bus = bus();
    let path: PathBuf = bus.path("home/.gemini/settings.json");
    put(&path, "{\"theme\": \"x\"}");
    let said = init(&bus, &["--client", "gemini"]);
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    assert!(
        said.out.contains("+ mcpServers.agent-coord: {") && said.err.contains("pass --yes"),
        "{said:?}"
    );
    for answer in ["n", "", "what"] {
        let (good, shown) = on_a_terminal(command(&bus, &["--client", "gemini"]), answer);
        assert!(
            !good && shown.contains("+ mcpServers.agent-coord: {") && shown.contains("nothing was changed"),
            "{shown}"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"theme\": \"x\"}");
        assert_eq!(names(path.parent().unwrap()), ["settings.json"]);
    }
    let (good, shown) = on_a_terminal(command(&bus, &["--client", "gemini"]), "y");
    assert!(good && shown.contains("wrote"), "{shown}");
    assert_eq!(
        read(&path)["mcpServers"]["agent-coord"]["args"],
        json!(["bus", "serve"])
    );
}

#[test]
fn what_an_earlier_run_kept_is_never_written_over() {
    let bus = bus();
    let servers = bus.path("home/.claude.json");
    let first = "{\n  \"mine\": 1\n}\n";
    put(&servers, first);
    done(&bus, &["--client", "claude", "--yes"]);
    let second = "{\n  \"mine\": 2\n}\n";
    put(&servers, second);
    let said = done(&bus, &["--client", "claude", "--yes"]);
    assert!(said.contains(".claude.json.before-muster.1"), "{said}");
    let kept =
        |end: &str| fs::read_to_string(bus.path(&format!("home/.claude.json.before-muster{end}"))).unwrap();
    assert_eq!((kept(""), kept(".1")), (first.to_owned(), second.to_owned()));
    // What is kept already is not kept twice.
    put(&servers, first);
    let said = done(&bus, &["--client", "claude", "--yes"]);
    assert!(
        said.contains(".before-muster\n") && !said.contains("before-muster.2"),
        "{said}"
    );
    assert_eq!((kept(""), kept(".1")), (first.to_owned(), second.to_owned()));
}

#[test]
fn line_breaks_of_another_system_stay_as_they_are() {
    let bus = bus();
    let config = bus.path("home/.codex/config.toml");
    put(
        &config,
        "# mine\r\nmodel = \"x\"\r\n\r\n[mcp_servers.other]\r\ncommand = \"y\"\r\n",
    );
    done(&bus, &["--client", "codex", "--yes"]);
    let text = fs::read_to_string(&config).unwrap();
    assert!(
        text.starts_with("# mine\r\nmodel = \"x\"\r\n\r\n[mcp_servers.other]\r\ncommand = \"y\"\r\n"),
        "{text:?}"
    );
    assert!(text.contains("[mcp_servers.agent-coord]\r\n"), "{text:?}");
    assert_eq!(
        text.matches('\n').count(),
        text.matches("\r\n").count(),
        "{text:?}"
    );
    let servers = bus.path("home/.claude.json");
    put(&servers, "{\r\n  \"mine\": 1\r\n}\r\n");
    done(&bus, &["--client", "claude", "--yes"]);
    let text = fs::read_to_string(&servers).unwrap();
    assert_eq!(read(&servers)["mine"], 1);
    assert!(text.contains("agent-coord"), "{text:?}");
    assert_eq!(
        text.matches('\n').count(),
        text.matches("\r\n").count(),
        "{text:?}"
    );
}

#[test]
fn what_is_no_file_or_far_too_large_is_refused_and_not_waited_for() {
    let bus = bus();
    let servers = bus.path("home/.claude.json");
    let made = Command::new("mkfifo").arg(&servers).status().unwrap();
    assert!(made.success());
    let begun = std::time::Instant::now();
    refused(&bus, &["--client", "claude", "--yes"], "no regular file");
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
    fs::remove_file(&servers).unwrap();
    fs::File::create(&servers).unwrap().set_len(3 << 30).unwrap();
    refused(&bus, &["--client", "claude", "--yes"], "larger than 32 MiB");
    assert_eq!(fs::metadata(&servers).unwrap().len(), 3 << 30);
}
