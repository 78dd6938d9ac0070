//! Settings and the first start from outside: what is refused and how it is said, what is printed once, who may read what is written. Never sees a secret twice.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Browser, Look, MUSTER, PASSWORD, Place, Server, below, engines, message};

#[test]
fn a_bad_value_stops_the_start_and_names_the_setting() {
    let bad = [
        ("MUSTER_LISTEN", "localhost:80"),
        ("MUSTER_LISTEN", "127.0.0.1"),
        ("MUSTER_LISTEN", "127.0.0.1:70000"),
        ("MUSTER_PUBLIC_URL", "muster.example"),
        ("MUSTER_PUBLIC_URL", "https://muster.example/path"),
        ("MUSTER_PUBLIC_URL", "ftp://muster.example"),
        ("MUSTER_INSECURE", "yes"),
        ("MUSTER_PLUGINS", "on"),
        ("MUSTER_PLUGINS", "true"),
        ("MUSTER_HOOK_TOKEN", "short"),
        ("MUSTER_HOOK_TOKEN", "with a blank in the middle"),
        ("MUSTER_STEPUP_WINDOW", "12"),
        ("MUSTER_STEPUP_WINDOW", "-1h"),
        ("MUSTER_STEPUP_WINDOW", "99999d"),
        ("MUSTER_STEPUP_WINDOW", "0s"),
        ("MUSTER_CHIEF_WATCHDOG", "soon"),
        ("MUSTER_CHIEF_WATCHDOG", "0h"),
        ("MUSTER_DATABASE_URL", "mysql://localhost/x"),
        ("MUSTER_DATABASE_URL", "sqlite://rel.db"),
        ("MUSTER_DATABASE_URL", "sqlite://:memory:"),
        ("MUSTER_DATABASE_URL", "sqlite://"),
        ("MUSTER_DATABASE_CONNECTIONS", "1"),
        ("MUSTER_DATABASE_CONNECTIONS", "many"),
        ("MUSTER_LOG", "muster=loud"),
        ("MUSTER_LOG", "a=b=c"),
        ("MUSTER_LOG_FORMAT", "xml"),
        ("MUSTER_URL", "not an address"),
    ];
    for (name, value) in bad {
        let place = Place::new().with(name, value);
        // A flag would beat the bad address.
        let listen: &[&str] = if name == "MUSTER_LISTEN" {
            &[]
        } else {
            &["--listen", "127.0.0.1:0"]
        };
        let said = place.refused(listen);
        assert_eq!(
            (said.code(), said.out.as_str()),
            (1, ""),
            "{name}={value}: {said:?}"
        );
        assert!(
            said.err.contains(name) && said.err.contains("Nothing was started"),
            "{name}={value}: {}",
            said.err
        );
        assert!(
            !place.data().exists(),
            "{name}={value}: something was made before the setting was checked"
        );
        // A file says the same.
        let place = Place::new();
        std::fs::create_dir(place.data()).unwrap();
        let key = name.strip_prefix("MUSTER_").unwrap().to_lowercase();
        std::fs::write(place.data().join("muster.toml"), format!("{key} = {value:?}\n")).unwrap();
        let said = place.with(name, "").refused(&[]);
        assert!(
            said.code() == 1 && said.err.contains(name),
            "{name}={value} in muster.toml: {said:?}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_understood_stops_the_start() {
    for (text, words) in [
        ("plugns = 1\n", "plugns"),
        ("data_dir = \"/elsewhere\"\n", "data_dir"),
        ("plugins = [1]\n", "plugins"),
        ("plugins = 1.5\n", "plugins"),
        ("plugins = \n", "muster.toml"),
        ("\u{1b}[2J = 1\n", "muster.toml"),
        ("\"\\u001b[2J\" = 1\n", "muster.toml"),
    ] {
        let place = Place::new();
        std::fs::create_dir(place.data()).unwrap();
        std::fs::write(place.data().join("muster.toml"), text).unwrap();
        let said = place.refused(&[]);
        assert!(
            said.code() == 1 && said.err.contains(words) && !said.err.contains('\u{1b}'),
            "{text:?}: {said:?}"
        );
        assert!(!place.data().join("muster.db").exists());
    }
    let place = Place::new();
    std::fs::create_dir(place.data()).unwrap();
    std::fs::write(place.data().join("muster.toml"), b"plugins = \"\xff\"\n").unwrap();
    assert!(place.refused(&[]).err.contains("muster.toml"));
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_beat_the_environment_and_the_environment_beats_the_file() {
    let place = Place::new().with("MUSTER_PLUGINS", "");
    std::fs::create_dir(place.data()).unwrap();
    std::fs::write(
        place.data().join("muster.toml"),
        "plugins = true\nstepup_window = \"1h\"\nlog = \"warn\"\nhook_token = \"a-shared-hook-token\"\n",
    )
    .unwrap();
    let of = |place: &Place, flags: &[&str], name: &str| {
        let all = place.json(&[&["config", "show"], flags].concat());
        all.as_array()
            .unwrap()
            .iter()
            .find(|v| v["name"] == name)
            .map(|v| (v["value"].clone(), v["from"].clone()))
            .unwrap()
    };
    assert_eq!(
        of(&place, &[], "MUSTER_PLUGINS"),
        (json!(true), json!("muster.toml"))
    );
    assert_eq!(
        of(&place, &[], "MUSTER_STEPUP_WINDOW"),
        (json!("1h"), json!("muster.toml"))
    );
    assert_eq!(
        of(&place, &[], "MUSTER_LOG_FORMAT"),
        (json!("text"), json!("default"))
    );
    let place = place
        .with("MUSTER_STEPUP_WINDOW", "2h")
        .with("MUSTER_DATABASE_URL", "sqlite:///nowhere/x.db");
    assert_eq!(
        of(&place, &[], "MUSTER_STEPUP_WINDOW"),
        (json!("2h"), json!("environment"))
    );
    let own = format!("sqlite://{}", place.path("own.db").display());
    assert_eq!(
        of(&place, &["--database-url", &own], "MUSTER_DATABASE_URL"),
        (json!("(set)"), json!("flag"))
    );
    place.ok(&["owner", "list", "--database-url", &own]);
    assert!(place.path("own.db").exists() && !Path::new("/nowhere").exists());

    // The switch of the file is what the server does, and a flag of `serve` beats the environment.
    let place = place
        .with("MUSTER_DATABASE_URL", &own)
        .with("MUSTER_LISTEN", "192.0.2.1:1");
    let server = place.serve();
    assert_eq!(server.http().message("mpl_0", &message("m")).await.status, 401);
}

// spec: CFG-002
#[test]
fn what_is_not_set_has_a_stated_default_or_a_clear_refusal() {
    let place = Place::new()
        .with("MUSTER_DATA_DIR", "")
        .with("MUSTER_PLUGINS", "");
    let all = place.json(&["config", "show"]);
    let folder = place.path("home/.local/share/muster").display().to_string();
    let database = format!("sqlite://{folder}/muster.db");
    let in_force = [
        ("MUSTER_DATA_DIR", "/muster", json!(folder)),
        ("MUSTER_DATABASE_URL", "muster.db", json!(database)),
        ("MUSTER_DATABASE_CONNECTIONS", "16", json!(16)),
        ("MUSTER_LISTEN", "127.0.0.1:7447", json!("127.0.0.1:7447")),
        ("MUSTER_PUBLIC_URL", "listener", json!("http://localhost:7447")),
        ("MUSTER_PLUGINS", "off", json!(false)),
        ("MUSTER_STEPUP_WINDOW", "12h", json!("12h")),
        ("MUSTER_HOOK_TOKEN", "unset", Value::Null),
        ("MUSTER_FLOW_AGENT_DENY_WORDS", "empty", Value::Null),
    ];
    for (name, default, value) in &in_force {
        let variable = all
            .as_array()
            .unwrap()
            .iter()
            .find(|variable| variable["name"] == *name)
            .unwrap();
        assert!(
            variable["value"] == *value && variable["default"].as_str().unwrap().contains(default),
            "{variable}"
        );
    }
    let shown = place.ok(&["config", "show"]);
    assert!(!shown.contains('`'), "{shown}");
    for (name, words) in [
        ("MUSTER_DATA_DIR", folder.as_str()),
        ("MUSTER_DATABASE_URL", database.as_str()),
        ("MUSTER_DATABASE_CONNECTIONS", "16"),
        ("MUSTER_PUBLIC_URL", "http://localhost:7447"),
        ("MUSTER_PLUGINS", "off"),
        ("MUSTER_HOOK_TOKEN", "unset"),
        ("MUSTER_STEPUP_WINDOW", "12h"),
    ] {
        let line = shown
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells, [name, words, "default"]);
    }
    assert!(!place.path("home").exists(), "looking made something");
    place.add_owner("ada");
    assert!(place.path("home/.local/share/muster/muster.db").exists());
    let elsewhere = place.path("xdg").display().to_string();
    let place = place.with("XDG_DATA_HOME", &elsewhere);
    place.add_owner("ada");
    assert!(place.path("xdg/muster/muster.db").exists());
    let mut nowhere = place.command(&["serve"]);
    nowhere.env_remove("HOME").env_remove("XDG_DATA_HOME");
    let said = Server::start(nowhere).err().expect("it found a folder");
    assert!(
        said.code() == 1 && said.err.contains("XDG_DATA_HOME") && said.err.contains("--data-dir"),
        "{said:?}"
    );
}

// spec: CFG-003
#[test]
fn what_is_on_standard_error_at_the_start_names_the_features() {
    #[track_caller]
    fn line(server: &Server) -> String {
        server.err.says("passkeys");
        server.err.text()
    }
    let place = Place::new();
    place.add_owner("ada");
    let on = line(&place.serve());
    assert!(
        on.contains("plugins=\"on\"")
            && on.contains("hook_token=\"unset")
            && on.contains("passkeys=\"on\"")
            && on.contains("database=Sqlite"),
        "{on}"
    );
    let place = place
        .with("MUSTER_PLUGINS", "0")
        .with("MUSTER_HOOK_TOKEN", "0123456789abcdef")
        .with("MUSTER_LOG_FORMAT", "json");
    let off = line(&place.serve());
    let banner: Value = serde_json::from_str(off.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&banner["fields"]["plugins"], &banner["fields"]["hook_token"]),
        (&json!("off"), &json!("set")),
        "{off}"
    );
    assert!(!off.contains("0123456789abcdef"));
    let place = place.with("MUSTER_PLUGIN", "1");
    place.serve().err.says("MUSTER_PLUGIN");
}

#[test]
fn an_address_that_others_can_reach_needs_tls_or_a_word() {
    let place = Place::new();
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.7:0"] {
        let said = place.refused(&["--listen", listen]);
        assert!(
            said.code() == 1 && said.err.contains("MUSTER_LISTEN") && said.err.contains("MUSTER_INSECURE"),
            "{said:?}"
        );
        let said = place.refused(&["--listen", listen, "--public-url", "http://muster.example"]);
        assert!(
            said.code() == 1 && said.err.contains("MUSTER_PUBLIC_URL=https"),
            "{said:?}"
        );
    }
    assert!(!place.data().exists());
    let behind =
        Server::start(place.serving(&["--listen", "0.0.0.0:0", "--public-url", "https://muster.example"]))
            .unwrap();
    behind.err.says("https://muster.example/setup?code=");
    drop(behind);
    let place = place.with("MUSTER_INSECURE", "1");
    let open = Server::start(place.serving(&["--listen", "0.0.0.0:0"])).unwrap();
    open.err.says("MUSTER_INSECURE=1");
}

// spec: GATE-002 GATE-003 GATE-004 GATE-005 CFG-001
#[tokio::test(flavor = "multi_thread")]
async fn while_plugins_are_off_their_routes_are_not_there() {
    for value in ["", "0"] {
        let place = Place::new();
        place.add_owner("ada");
        let (token, personal) = (place.add_connector("ada", "mail"), place.add_token("ada"));
        let place = place.with("MUSTER_PLUGINS", value);
        let server = place.serve();
        let http = server.http();
        for path in [
            "/plugin/v1/messages",
            "/plugin/v1/drafts/claim",
            "/plugin/v1/drafts/1/result",
            "/plugin/v1/nope",
            "/plugin/",
            "/plugin",
        ] {
            for credential in [token.as_str(), personal.as_str(), "mpl_0", ""] {
                let mut request = http.request(reqwest::Method::POST, path).body("{not json");
                if !credential.is_empty() {
                    request = request.bearer_auth(credential);
                }
                let answer = http.send(request).await.unwrap();
                assert_eq!(answer.status, 404, "{path} with {credential:?}: {answer:?}");
            }
            assert_eq!(http.get(path).await.status, 404);
        }
        assert_eq!(
            http.post("/api/plugins/messages/1/retry", &personal, &json!({}))
                .await
                .status,
            404
        );
        let ada = server.sign_in("ada").await;
        assert_eq!(ada.get("/plugins").await.status, 404);
        drop(server);
        let place = place.with("MUSTER_PLUGINS", "1");
        let server = place.serve();
        assert_eq!(server.http().message("mpl_0", &message("m")).await.status, 401);
        assert_eq!(server.http().message(&token, &message("m")).await.status, 202);
    }
}

// spec: GATE-001 GATE-007
#[tokio::test(flavor = "multi_thread")]
async fn what_is_stored_outlives_the_switch() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let token = place.add_connector("ada", "mail");
        let stored = place.serve().http().message(&token, &message("kept")).await;
        assert_eq!(stored.status, 202);
        let place = place.with("MUSTER_PLUGINS", "");
        assert_eq!(
            place
                .serve()
                .http()
                .message(&token, &message("kept"))
                .await
                .status,
            404
        );
        let place = place.with("MUSTER_PLUGINS", "1");
        let again = place.serve().http().message(&token, &message("kept")).await;
        assert_eq!(
            (again.status, again.json()),
            (200, json!({"id": stored.json()["id"], "status": "queued"}))
        );
        place.end().await;
    }
}

/// The set-up link that a server printed.
fn link(server: &Server) -> String {
    server.err.says("/setup?code=");
    let text = server.err.text();
    assert_eq!(
        text.matches("/setup?code=").count(),
        1,
        "the link is printed once"
    );
    assert!(!server.out.text().contains("/setup"), "the link is no result");
    let path = text
        .split("/setup?code=")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap();
    format!("/setup?code={path}")
}

// spec: TOK-025
#[tokio::test(flavor = "multi_thread")]
async fn the_set_up_link_is_printed_once_and_opens_once() {
    let place = Place::new();
    let server = place.serve();
    let first = link(&server);
    let mut browser = Browser::new(&server.url());
    for wrong in [
        "/setup",
        "/setup?code=",
        "/setup?code=00000000000000000000000000000000",
    ] {
        assert_eq!(browser.get(wrong).await.status, 404, "{wrong}");
    }
    assert_eq!(browser.get(&first).await.status, 200);
    assert_eq!(
        browser.get(&first).await.status,
        200,
        "looking does not use it up"
    );
    server.kill();

    // A restart makes a new one.
    let server = place.serve();
    let second = link(&server);
    assert_ne!(first, second);
    browser = Browser::new(&server.url());
    assert_eq!(browser.get(&first).await.status, 404);
    let code = second.split_once('=').unwrap().1.to_owned();
    let fields = |password: &'static str, again: &'static str| {
        [
            ("code", code.clone()),
            ("name", "ada".to_owned()),
            ("password", password.to_owned()),
            ("again", again.to_owned()),
        ]
    };
    let submit = async |browser: &mut Browser, fields: [(&str, String); 4]| {
        let pairs: Vec<(&str, &str)> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        browser.submit("/setup", &pairs).await
    };
    let refused = submit(&mut browser, fields(PASSWORD, "another one")).await;
    assert!(
        refused.status == 400 && refused.text.contains("differ"),
        "{refused:?}"
    );
    assert_eq!(place.json(&["owner", "list"]), json!([]));
    let done = submit(&mut browser, fields(PASSWORD, PASSWORD)).await;
    assert_eq!((done.status, done.header("location")), (303, "/"), "{done:?}");
    assert_eq!(
        browser.get("/plugins").await.status,
        200,
        "who set muster up is signed in"
    );
    assert_eq!(browser.get(&second).await.status, 404);
    assert_eq!(submit(&mut browser, fields(PASSWORD, PASSWORD)).await.status, 404);
    server.kill();

    let server = place.serve();
    assert_eq!(server.http().get("/healthz").await.status, 200);
    assert!(
        !server.err.text().contains("/setup"),
        "there is an owner: {}",
        server.err.text()
    );
    assert_eq!(Browser::new(&server.url()).get(&second).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_made_by_a_command_closes_the_link_of_a_running_server() {
    let place = Place::new();
    let server = place.serve();
    let path = link(&server);
    let browser = Browser::new(&server.url());
    assert_eq!(browser.get(&path).await.status, 200);
    place.add_owner("ada");
    assert_eq!(browser.get(&path).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_muster_writes_is_its_users_alone() {
    let place = Place::new();
    // The caller's own mask must not matter.
    let mut command = std::process::Command::new("sh");
    command
        .args([
            "-c",
            "umask 000; exec \"$0\" owner add ada --password-stdin",
            MUSTER,
        ])
        .env_clear()
        .env("MUSTER_DATA_DIR", place.data());
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    std::io::Write::write_all(
        &mut child.stdin.take().unwrap(),
        format!("{PASSWORD}\n").as_bytes(),
    )
    .unwrap();
    assert!(child.wait().unwrap().success());
    let token = place.add_connector("ada", "mail");
    place.set_chief("ada", "turns", "");
    let server = place.serve();
    server.http().message(&token, &message("m")).await;
    place.recorded("turns", 1).await;
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&place.data()), 0o700);
    let all = below(&place.data());
    assert!(
        all.iter().any(|path| path.ends_with("muster.db-wal"))
            && all.iter().any(|path| path.ends_with("chiefs/1")),
        "{all:?}"
    );
    for path in all {
        assert_eq!(
            mode(&path) & 0o077,
            0,
            "{} is mode {:o}",
            path.display(),
            mode(&path)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_neither_shown_nor_logged() {
    let secrets = [
        "hook-token-kept-secret",
        "bluebird-kept-secret",
        "mst_personal-kept-secret",
        "url-kept-secret",
    ];
    let place = Place::new()
        .with("MUSTER_HOOK_TOKEN", secrets[0])
        .with("MUSTER_FLOW_AGENT_DENY_WORDS", secrets[1])
        .with("MUSTER_TOKEN", secrets[2])
        .with("MUSTER_LOG", "trace");
    place.add_owner("ada");
    let token = place.add_connector("ada", "mail");
    let server = place.serve();
    let http = server.http();
    http.message(&token, &message("m")).await;
    http.claim(&token, 0).await;
    http.post("/api/plugins/messages/1/retry", secrets[0], &json!({}))
        .await;
    let mut ada = server.sign_in("ada").await;
    let signed_in = ada.cookie().to_owned();
    ada.get("/plugins").await;
    ada.submit("/sign-out", &[]).await;
    let cookie = signed_in.split_once('=').unwrap().1.to_owned();
    assert_eq!(cookie.len(), 64);
    let (said, _) = server.stop();
    let mut all = said.err
        + &place.ok(&["config", "show"])
        + &place.ok(&["config", "show", "--json"])
        + &place.run(&["doctor"]).out;
    let wrong = place.with(
        "MUSTER_DATABASE_URL",
        &format!("postgres://muster:{}@127.0.0.1:1/muster", secrets[3]),
    );
    let said = wrong.refused(&["--listen", "127.0.0.1:0"]);
    assert_eq!(said.code(), 1);
    all += &said.err;
    all += &wrong.ok(&["config", "show"]);
    for secret in [
        &secrets[..],
        &[PASSWORD, token.trim_start_matches("mpl_"), &cookie],
    ]
    .concat()
    {
        assert!(
            !all.contains(secret),
            "{secret} stands in {}",
            all.lines().find(|line| line.contains(secret)).unwrap()
        );
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = place.refused(&["--listen", &address]);
    assert!(
        said.code() == 1
            && said.out.is_empty()
            && said.err.contains(&address)
            && said.err.contains("--listen"),
        "{said:?}"
    );
    assert!(!said.err.contains("/setup?code"), "a link that leads nowhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_a_newer_version_is_left_as_it_is() {
    for engine in engines() {
        let place = Place::on(engine).await;
        place.add_owner("ada");
        let look = place.look().await;
        look.damage("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) SELECT 9001, 'later', success, checksum, 0 FROM _sqlx_migrations LIMIT 1").await;
        for said in [
            place.refused(&["--listen", "127.0.0.1:0"]),
            place.run(&["owner", "list"]),
            place.run(&["doctor"]),
        ] {
            assert_eq!(said.code(), 1);
            assert!(
                (said.out + &said.err).contains("newer muster"),
                "it does not say why"
            );
        }
        assert_eq!(look.number("SELECT count(*) FROM owners").await, 1);
        look.damage("DELETE FROM _sqlx_migrations WHERE version = 9001")
            .await;
        assert_eq!(place.json(&["owner", "list"])[0]["name"], "ada");
        // A version that is known but was made of another text.
        look.damage(if engine == crate::support::Engine::Sqlite {
            "UPDATE _sqlx_migrations SET checksum = x'00'"
        } else {
            "UPDATE _sqlx_migrations SET checksum = '\\x00'"
        })
        .await;
        let said = place.run(&["owner", "list"]);
        assert!(
            said.code() == 1 && said.err.contains("different build"),
            "{said:?}"
        );
        look.close().await;
        place.end().await;
    }
}

/// muster as a user who is bound by file permissions, which root is not.
fn unprivileged(place: &Place, arguments: &[&str]) -> std::process::Command {
    let plain = place.command(arguments);
    if !nix::unistd::Uid::effective().is_root() {
        return plain;
    }
    // The program may lie where only root can go.
    let program = place.path("muster");
    if !program.exists() {
        std::fs::copy(MUSTER, &program).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::set_permissions(place.path(""), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut command = std::process::Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(program)
        .args(arguments)
        .current_dir(place.path(""))
        .env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Gives everything below a folder to the user of [`unprivileged`] with this mode for folders.
fn hand_over(folder: &Path, folders: u32, files: u32) {
    for path in below(folder) {
        let mode = if path.is_dir() { folders } else { files };
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        if nix::unistd::Uid::effective().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
        }
    }
}

#[test]
fn a_data_folder_that_cannot_be_written_is_named() {
    let place = Place::new();
    place.add_owner("ada");
    hand_over(&place.data(), 0o500, 0o400);
    let folder = place.data().display().to_string();
    let mut command = unprivileged(&place, &["serve", "--listen", "127.0.0.1:0"]);
    let said = Server::start({
        command.stdin(std::process::Stdio::null());
        command
    })
    .err()
    .expect("it started in a folder that it cannot write");
    assert!(said.code() == 1 && said.err.contains(&folder), "{said:?}");
    hand_over(&place.data(), 0o700, 0o600);
    let listed = unprivileged(&place, &["owner", "list", "--json"])
        .output()
        .unwrap();
    assert!(
        String::from_utf8(listed.stdout).unwrap().contains("ada"),
        "something was lost"
    );

    // Where no folder can be made, and where a file lies in its place.
    let place = Place::new();
    std::fs::write(place.data(), "").unwrap();
    let said = place.refused(&["--listen", "127.0.0.1:0"]);
    assert!(
        said.code() == 1
            && said.err.contains(&place.data().display().to_string())
            && said.err.contains("--data-dir"),
        "{said:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_no_database_is_left_as_it_is() {
    let place = Place::new();
    std::fs::create_dir(place.data()).unwrap();
    let junk = vec![0x5a_u8; 20_000];
    std::fs::write(place.data().join("muster.db"), &junk).unwrap();
    let said = place.refused(&["--listen", "127.0.0.1:0"]);
    assert!(said.code() == 1 && said.err.contains("muster.db"), "{said:?}");
    assert_eq!(std::fs::read(place.data().join("muster.db")).unwrap(), junk);
    std::fs::remove_file(place.data().join("muster.db")).unwrap();
    place.add_owner("ada");
    Look::open(&place.data().join("muster.db")).await.close().await;
}
