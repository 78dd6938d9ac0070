//! The moments around a start, from outside: what the file may say, which address is told, who may read the database, streams that cannot be written. Never with a running owner.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Http, Place, Server, exchange, status};

#[test]
fn a_value_of_another_type_names_the_file_the_key_and_the_type_that_is_wanted() {
    for (text, key, wanted, found) in [
        ("listen = true", "listen", "a string in quotes", "boolean"),
        (
            "stepup_window = 12",
            "stepup_window",
            "a string in quotes",
            "integer",
        ),
        (
            "hook_token = 1234567890123456",
            "hook_token",
            "a string in quotes",
            "integer",
        ),
        (
            "public_url = false",
            "public_url",
            "a string in quotes",
            "boolean",
        ),
        ("log = [\"info\"]", "log", "a string in quotes", "array"),
        (
            "database_connections = true",
            "database_connections",
            "a whole number",
            "boolean",
        ),
        (
            "database_connections = 8.5",
            "database_connections",
            "a whole number",
            "float",
        ),
        ("plugins = 1.5", "plugins", "true or false", "float"),
        ("insecure = {}", "insecure", "true or false", "table"),
    ] {
        let place = Place::new();
        std::fs::create_dir(place.data()).unwrap();
        let file = place.data().join("muster.toml");
        std::fs::write(&file, format!("{text}\n")).unwrap();
        let said = place.refused(&[]);
        assert_eq!(said.code(), 1, "{text}: {said:?}");
        for words in [
            &file.display().to_string(),
            key,
            wanted,
            found,
            "Nothing was started",
        ] {
            assert!(said.err.contains(words), "{text}: {words} is not in {}", said.err);
        }
    }
    // What is of the right type, in each way of writing it.
    let place = Place::new().with("MUSTER_PLUGINS", "");
    std::fs::create_dir(place.data()).unwrap();
    for text in [
        "plugins = true\ndatabase_connections = 8",
        "plugins = 1\ndatabase_connections = \"8\"",
    ] {
        std::fs::write(place.data().join("muster.toml"), text).unwrap();
        let all = place.json(&["config", "show"]);
        let of = |name: &str| {
            let all = all.as_array().unwrap();
            all.iter().find(|v| v["name"] == name).unwrap()["value"].clone()
        };
        assert_eq!(
            (of("MUSTER_PLUGINS"), of("MUSTER_DATABASE_CONNECTIONS")),
            (true.into(), 8.into()),
            "{text}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_the_scheme_implies_is_no_part_of_the_public_address() {
    let place = Place::new();
    let server = Server::start(place.serving(&[
        "--listen",
        "127.0.0.1:0",
        "--public-url",
        "https://Muster.Example:443/",
    ]))
    .unwrap();
    server.err.says("\n  https://muster.example/setup?code=");
    let text = server.err.text();
    let code = text
        .split("code=")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap();
    // As a browser behind the proxy asks: it leaves the port out.
    let fields = format!("code={code}&name=ada&password=12345678&again=another");
    let ask = |host: &str, origin: &str| {
        let request = format!(
            "POST /setup HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{fields}",
            fields.len()
        );
        status(&exchange(server.port, request).0)
    };
    assert_eq!(
        ask("muster.example", "https://muster.example"),
        400,
        "the form was read: its passwords differ"
    );
    assert_eq!(ask("muster.example", "https://evil.example"), 403);
    assert_eq!(ask("evil.example", "https://muster.example"), 421);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_that_is_told_leads_to_the_listener() {
    let place = Place::new();
    for (listen, name, asked) in [
        ("127.0.0.1:0", "localhost", "localhost"),
        // What `localhost` means here is the system's choice; browsers try both.
        ("[::1]:0", "localhost", "[::1]"),
        ("127.0.0.2:0", "127.0.0.2", "127.0.0.2"),
        ("0.0.0.0:0", "localhost", "localhost"),
    ] {
        let insecure = if listen.starts_with('0') { "1" } else { "0" };
        let mut command = place.serving(&["--listen", listen]);
        command.env("MUSTER_INSECURE", insecure);
        let server = match Server::start(command) {
            // A machine may be without IPv6.
            Err(said) if listen.starts_with('[') && said.err.contains("cannot be listened on") => continue,
            started => started.unwrap(),
        };
        let base = format!("http://{name}:{}", server.port);
        server.err.says(&format!("\n  {base}/setup?code="));
        let text = server.err.text();
        let path = text
            .split(&base)
            .nth(1)
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap();
        let http = Http::new(&format!("http://{asked}:{}", server.port));
        assert_eq!(http.get(path).await.status, 200, "{listen}");
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o666)).unwrap();
}

#[test]
fn a_database_that_others_may_read_is_reported_and_a_server_closes_it_to_them() {
    let place = Place::new();
    place.add_owner("ada");
    let file = place.data().join("muster.db");
    let finding = |place: &Place| {
        let said = place.run(&["doctor", "--json"]);
        let all: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let findings = all["findings"].as_array().unwrap().clone();
        findings
            .into_iter()
            .find(|finding| finding["check"] == "database file")
            .map(|finding| finding["detail"].as_str().unwrap().to_owned())
    };
    assert_eq!(finding(&place), None);
    open_to_all(&file);
    let found = finding(&place).unwrap();
    assert!(
        found.contains(&file.display().to_string()) && found.contains("666") && found.contains("chmod 600"),
        "{found}"
    );
    assert_eq!(mode(&file), 0o666, "doctor never repairs");
    let server = place.serve();
    server.err.says("the file now has mode 600");
    for name in ["muster.db", "muster.db-wal", "muster.db-shm"] {
        assert_eq!(mode(&place.data().join(name)), 0o600, "{name}");
    }
    drop(server);
    assert_eq!(finding(&place), None);

    // Somebody else's file is left as it is; root alone can make and use one.
    if nix::unistd::Uid::effective().is_root() {
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        open_to_all(&file);
        let server = place.serve();
        server.err.says("user with the number 65534");
        assert_eq!((mode(&file), file.metadata().unwrap().uid()), (0o666, 65534));
    }
}

/// A port that is free now.
fn free() -> SocketAddr {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    taken.local_addr().unwrap()
}

/// Waits until a server answers there, while its process lives.
async fn answers(address: SocketAddr, child: &mut std::process::Child) {
    let (http, end) = (
        Http::new(&format!("http://{address}")),
        Instant::now() + Duration::from_secs(20),
    );
    loop {
        let request = http.request(reqwest::Method::GET, "/healthz");
        if http.send(request).await.is_ok_and(|answer| answer.status == 200) {
            return;
        }
        if let Some(status) = child.try_wait().unwrap() {
            panic!("it ended: {status}");
        }
        assert!(Instant::now() < end, "nothing answers");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A stream that takes nothing: on a disk that is full, or with nobody at its other end.
fn dead(full: bool) -> Stdio {
    if full {
        std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
            .into()
    } else {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        writer.into()
    }
}

fn on_dead_streams(mut command: Command, full: bool) -> std::process::Child {
    command
        .stdin(Stdio::null())
        .stdout(dead(full))
        .stderr(dead(full))
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_cannot_be_written_end_neither_a_server_nor_the_tour() {
    for full in [true, false] {
        for words in [&["serve"][..], &["demo"]] {
            let (place, address) = (Place::new(), free());
            let listen = address.to_string();
            let arguments = [words, &["--listen", &listen]].concat();
            let mut child = on_dead_streams(place.command(&arguments), full);
            answers(address, &mut child).await;
            let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).unwrap());
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
            let ended = child.wait().unwrap();
            assert_eq!(ended.code(), Some(0), "{words:?}, full: {full}");
        }
        // A refusal keeps its exit code.
        let place = Place::new();
        for (words, code) in [
            (&["token", "list"][..], 1),
            (&["token", "create", "--kind", "x"], 2),
        ] {
            let ended = on_dead_streams(place.command(words), full).wait().unwrap();
            assert_eq!(ended.code(), Some(code), "{words:?}, full: {full}");
        }
    }
}
