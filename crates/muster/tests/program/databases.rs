//! `muster db` of the real program against real servers: which accounts are taken, what is promised, the shell. It compares what the server has before and after.

use std::process::Command;

use mongodb::Client;
use mongodb::bson::doc;
use muster_testkit::PgDatabase;
use serde_json::{Value, json};

use crate::mcp::Wire;
use crate::support::{Look, Place, Said, engines};

#[path = "../../../db-gateway/tests/live/servers.rs"]
mod servers;

/// A place with an owner and a project.
pub(crate) fn place() -> Place {
    furnished(Place::new())
}

/// With an owner and a project.
pub(crate) fn furnished(place: Place) -> Place {
    place.add_owner("ada");
    std::fs::create_dir_all(place.path("root")).unwrap();
    let root = place.path("root").display().to_string();
    place.ok(&["project", "add", "engine", "--root", &root]);
    place
}

pub(crate) fn add(place: &Place, name: &str, url: &str, more: &[&str]) -> Said {
    let words = ["db", "add", name, "--project", "engine", "--json", "--url", url];
    place.run(&[&words, more].concat())
}

pub(crate) fn document(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

/// A PostgreSQL database with a table `t`, and an account that only reads it.
pub(crate) struct Postgres {
    database: PgDatabase,
    pub(crate) admin: Look,
    role: String,
}

impl Postgres {
    /// None where the tests run on SQLite alone.
    pub(crate) async fn start() -> Option<Self> {
        if engines().len() < 2 {
            return None;
        }
        let database = PgDatabase::empty().await;
        let admin = Look::postgres(&database.admin_url()).await;
        let role = format!("reader_{}", database.name);
        for statement in [
            "CREATE TABLE t (id int PRIMARY KEY, v text)",
            "INSERT INTO t VALUES (1, 'a'), (2, NULL), (3, 'NULL'), (4, E'\\x1b[2J\\u202e\\nx')",
            &format!("CREATE ROLE {role} LOGIN PASSWORD 'SECRET-word'"),
            &format!("GRANT SELECT ON t TO {role}"),
        ] {
            admin.damage(statement).await;
        }
        Some(Self {
            database,
            admin,
            role,
        })
    }

    pub(crate) fn wide(&self) -> String {
        self.database.admin_url()
    }

    pub(crate) fn reader(&self) -> String {
        self.with_account(&format!("{}:SECRET-word", self.role))
    }

    pub(crate) fn with_account(&self, account: &str) -> String {
        let url = self.database.admin_url();
        let (_, rest) = url.split_once('@').unwrap();
        format!("postgres://{account}@{rest}")
    }

    /// How many other sessions run a statement with these words now.
    pub(crate) async fn running(&self, words: &str) -> i64 {
        self.admin
            .number(&format!(
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%{words}%' AND pid <> pg_backend_pid() AND datname = current_database() AND backend_type = 'client backend'"
            ))
            .await
    }

    /// Waits until as many statements with these words run.
    pub(crate) async fn runs(&self, words: &str, wanted: i64) {
        for _ in 0..600 {
            if self.running(words).await == wanted {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{words} does not run {wanted} times");
    }

    pub(crate) async fn end(self, roles: &[&str]) {
        for role in roles.iter().copied().chain([self.role.as_str()]) {
            self.admin
                .damage(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
                .await;
        }
        self.admin.close().await;
        self.database.drop_now().await;
    }
}

/// A read of PostgreSQL's that does not end; its number tells it from others.
pub(crate) fn endless(number: u32) -> String {
    format!(
        "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d WHERE a.attnum + b.attnum <> {number}"
    )
}

/// What may only read is taken; what may do more is refused with what makes one that may not, unless the owner insists.
fn takes_narrow_accounts(place: &Place, engine: &str, narrow: &str, wide: &str) -> Vec<String> {
    let refused = add(place, "wide", wide, &[]);
    assert_eq!(refused.code(), 1, "{engine} {refused:?}");
    let error = document(&refused)["error"].clone();
    assert_eq!(error["code"], "wide_account", "{engine} {error}");
    assert!(refused.err.contains(error["message"].as_str().unwrap()));
    let statements: Vec<String> = serde_json::from_value(error["statements"].clone()).unwrap();
    assert!(!statements.is_empty(), "{engine}");
    for statement in &statements {
        assert!(
            refused.err.contains(statement),
            "{engine}: {statement} {refused:?}"
        );
    }
    assert_eq!(place.json(&["db", "list"]), json!([]), "{engine} stored it");

    let wrong = narrow
        .replace("SECRET-word", "SECRET-wrong")
        .replace("CHANGE_ME", "SECRET-wrong");
    // The PostgreSQL of the tests asks nobody for a password.
    if engine != "postgres" {
        let refused = add(place, "wrong", &wrong, &[]);
        assert_eq!(refused.code(), 1, "{engine} {refused:?}");
        assert!(refused.err.contains("nothing was stored"), "{refused:?}");
    }
    assert_eq!(place.json(&["db", "list"]), json!([]), "{engine} stored it");

    let taken = document(&add(place, "wide", wide, &["--accept-wide-account"]));
    assert_eq!((&taken["wide"], &taken["engine"]), (&json!(true), &json!(engine)));
    assert_eq!(place.json(&["db", "show", "wide"]), taken);
    // Accepting what is not there marks nothing.
    let taken = document(&add(place, "narrow", narrow, &["--accept-wide-account"]));
    assert_eq!(taken["wide"], json!(false), "{engine}");
    let twice = document(&add(place, "narrow", narrow, &[]));
    assert_eq!(twice["error"]["code"], "name_taken");
    for (name, ok) in [("narrow", true), ("wide", false)] {
        assert_eq!(place.json(&["db", "test", name])["ok"], json!(true));
        let said = place.run(&["db", "check", name, "--json"]);
        let found = document(&said);
        assert_eq!(
            (said.code(), &found["ok"]),
            (i32::from(!ok), &json!(ok)),
            "{engine} {found}"
        );
        let all = found["guarantees"].as_array().unwrap();
        assert!(all.len() > 2, "{found}");
        for one in all {
            assert!(one["id"].is_string() && one["ok"].is_boolean(), "{one}");
            let detail = one["detail"].as_str().unwrap();
            let tried = [
                "Tried ",
                "Asked ",
                "Reached it",
                "Read ",
                "Let ",
                "Changed ",
                "Set ",
            ];
            assert!(tried.iter().any(|word| detail.starts_with(word)), "{one}");
            // What is wide says what to do.
            let mend = one["id"] != "narrow_account" || detail.contains("muster prints the statements");
            assert!(one["ok"] == true || mend, "{one}");
        }
        let told = place.run(&["db", "check", name]);
        let words = if ok { "all " } else { "do not hold: narrow_account" };
        assert!(told.err.contains(words), "{engine} {told:?}");
        let shown = place.ok(&["db", "show", name]);
        let words = if ok {
            "everything held"
        } else {
            "failed: narrow_account"
        };
        assert!(
            shown.contains("last check") && shown.contains(words),
            "{engine} {shown}"
        );
        assert_eq!(all.iter().any(|one| one["ok"] == false), !ok);
        let last = place.json(&["audit", "list", "--event", "db.check"]);
        assert_eq!(
            last.as_array().unwrap().last().unwrap()["data"]["guarantees"],
            found["guarantees"]
        );
    }
    statements
}

/// Reads pass, writes need the switch, and the log has each statement.
fn shell_reads_and_writes(place: &Place, read: &str, write: &str) {
    let said = place.run_with(&["db", "shell", "narrow"], &format!("{read}\n"));
    let out = said.ok();
    assert!(!out.is_empty());
    let said = place.run_with(
        &["db", "shell", "narrow", "--json"],
        &format!("{write}\n{read}\n"),
    );
    assert_eq!(said.code(), 1, "{said:?}");
    let lines: Vec<Value> = said
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2, "what was refused ends nothing: {said:?}");
    assert_eq!(
        (&lines[0]["error"]["code"], &lines[0]["error"]["verdict"]),
        (&json!("refused_gate"), &json!("write"))
    );
    assert!(lines[1].get("error").is_none(), "{said:?}");
    let log = place.json(&["audit", "list", "--event", "db.shell"]);
    let row = |nth: usize| log.as_array().unwrap()[nth].clone();
    assert_eq!(row(0)["agent"], Value::Null);
    assert_eq!(row(0)["data"]["statement"], read.trim());
    assert_eq!(
        (&row(1)["data"]["statement"], &row(1)["data"]["outcome"]),
        (&json!(write.trim()), &json!("refused_gate"))
    );
}

/// An agent that may read everything: through its tools reads are answered and writes stopped by each gate in turn, until all are open.
fn tools_read_and_write(place: &Place, reads: &[&str], write: &str) {
    place.ok(&["policy", "create", "worker"]);
    let grant = |action: &str| {
        place.ok(&[
            "policy", "grant", "worker", "--layer", "global", action, "any", "allow",
        ]);
    };
    grant("db_read");
    place.ok(&[
        "task",
        "add",
        "--project",
        "engine",
        "--title",
        "look",
        "--policy",
        "worker",
    ]);
    let token = place.ok(&["token", "create", "--kind", "agent", "--task", "1"]);
    let mut wire = Wire::new(place, token.trim_end(), None);
    let id = |name: &str| place.json(&["db", "show", name])["id"].clone();
    let mut call = |tool: &str, name: &str, statement: &str| {
        let mut arguments = json!({"connection_id": id(name), "statement": statement});
        if tool == "muster_db_execute" {
            arguments["write"] = json!(true);
        }
        wire.call(json!({"name": tool, "arguments": arguments}))
    };
    let code = |answer: &Value| answer["structuredContent"]["error"]["code"].clone();
    for read in reads {
        let answer = call("muster_db_query", "narrow", read);
        assert_ne!(answer["isError"], json!(true), "{read}: {answer}");
    }
    for name in ["narrow", "wide"] {
        let answer = call("muster_db_query", name, write);
        assert_eq!(code(&answer), "refused_gate", "{answer}");
        let answer = call("muster_db_execute", name, write);
        assert_eq!(code(&answer), "refused_not_granted", "{answer}");
    }
    grant("db_write");
    let answer = call("muster_db_execute", "narrow", write);
    assert_eq!(code(&answer), "engine_error", "the account stops it: {answer}");
    let answer = call("muster_db_execute", "wide", write);
    assert_ne!(answer["isError"], json!(true), "{answer}");
    wire.leave();
}

#[test]
fn the_shell_says_of_a_list_that_it_was_cut() {
    let place = place();
    let file = place.path("many.db");
    std::fs::write(&file, "").unwrap();
    let url = format!("sqlite://{}", file.display());
    add(&place, "many", &url, &[]).ok();
    let tables: String = (0..200)
        .map(|number| format!("CREATE TABLE t{number} (id INTEGER);\n"))
        .collect();
    place.run_with(&["db", "shell", "many", "--write"], &tables).ok();
    let listed = |words: &[&str]| place.run_with(words, "\\objects\n").ok();
    let whole = listed(&["db", "shell", "many"]);
    assert_eq!((whole.lines().count(), whole.contains("cut off")), (200, false));
    let json = |out: String| serde_json::from_str::<Value>(&out).unwrap();
    let whole = json(listed(&["db", "shell", "many", "--json"]));
    assert!(whole.get("truncated").is_none(), "{whole}");
    place.ok(&["setting", "set", "db.max_bytes", "1024"]);
    let cut = listed(&["db", "shell", "many"]);
    let count = cut.lines().count() - 1;
    let last = format!("(the first {count}; more were cut off)");
    assert!(count < 200 && cut.lines().last() == Some(&last), "{cut}");
    let cut = json(listed(&["db", "shell", "many", "--json"]));
    assert_eq!(cut["truncated"], true, "{cut}");
}

mod heavy {
    use super::*;

    // spec: DBA-002
    #[tokio::test(flavor = "multi_thread")]
    async fn postgres_accounts_are_taken_narrow_and_wide_ones_by_their_owners_word() {
        let Some(server) = Postgres::start().await else {
            return;
        };
        let place = place();
        let statements = takes_narrow_accounts(&place, "postgres", &server.reader(), &server.wide());
        shell_reads_and_writes(
            &place,
            "SELECT id, v FROM t ORDER BY id;",
            "INSERT INTO t VALUES (9, 'x');",
        );
        assert_eq!(server.admin.number("SELECT count(*) FROM t").await, 4);
        tools_read_and_write(&place, &["SELECT v FROM t"], "INSERT INTO t VALUES (10, 'x')");
        assert_eq!(server.admin.number("SELECT count(*) FROM t").await, 5);
        // What is printed makes an account that is taken.
        server.admin.damage(&statements.join("\n")).await;
        let made = add(
            &place,
            "made",
            &server.with_account("muster_reader:CHANGE_ME"),
            &[],
        );
        assert_eq!(document(&made)["wide"], json!(false), "{made:?}");
        server.end(&["muster_reader"]).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn mariadb_accounts_are_taken_narrow_and_wide_ones_by_their_owners_word() {
        let Some(running) = servers::mariadb() else { return };
        let client = |text: &str| {
            let output = servers::out(
                Command::new("mariadb")
                    .arg("--no-defaults")
                    .arg(format!("--socket={}", servers::socket(&running)))
                    .args(["-uroot", "-N", "-e", text]),
            );
            String::from_utf8(output.stdout).unwrap()
        };
        client(
            "CREATE DATABASE app; USE app; CREATE TABLE t (id INT PRIMARY KEY, v TEXT); INSERT INTO t VALUES (1,'a'); \
             CREATE USER reader@localhost IDENTIFIED BY 'SECRET-word'; GRANT SELECT ON app.* TO reader@localhost",
        );
        let url = |account: &str| {
            format!(
                "mariadb://{account}@localhost/app?socket={}",
                servers::socket(&running)
            )
        };
        let place = place();
        takes_narrow_accounts(&place, "mariadb", &url("reader:SECRET-word"), &url("root"));
        shell_reads_and_writes(&place, "SELECT id, v FROM t;", "INSERT INTO t VALUES (9, 'x');");
        assert_eq!(client("SELECT count(*) FROM app.t").trim(), "1");
        tools_read_and_write(&place, &["SELECT v FROM t"], "INSERT INTO t VALUES (10, 'x')");
        assert_eq!(client("SELECT count(*) FROM app.t").trim(), "2");
    }

    // spec: DBA-017 DBA-018
    #[test]
    fn redis_accounts_are_taken_narrow_and_wide_ones_by_their_owners_word() {
        for running in servers::redis_and_valkey() {
            let cli = |words: &[&str]| {
                let output = servers::out(
                    Command::new("redis-cli")
                        .arg("-s")
                        .arg(servers::socket(&running))
                        .args(["--user", "default", "--pass", "SECRET-root", "--no-auth-warning"])
                        .args(words),
                );
                String::from_utf8(output.stdout).unwrap()
            };
            let open = |account: &str| {
                format!(
                    "redis://{account}localhost/0?socket={}",
                    servers::socket(&running)
                )
            };
            cli(&["SET", "k", "v"]);
            let place = place();
            let error = document(&add(&place, "open", &open(""), &[]));
            assert_eq!(error["error"]["code"], "wide_account");
            let made: Vec<&str> = error["error"]["statements"][0]
                .as_str()
                .unwrap()
                .split(' ')
                .collect();
            cli(&made);
            cli(&["CONFIG", "SET", "requirepass", "SECRET-root"]);
            takes_narrow_accounts(
                &place,
                "redis",
                &open("muster_reader:CHANGE_ME@"),
                &open(":SECRET-root@"),
            );
            shell_reads_and_writes(&place, "GET k", "GETDEL k");
            assert_eq!(cli(&["GET", "k"]).trim(), "v");
            // Written is what was said to be, on the account that there is.
            let said = place.run_with(
                &["db", "shell", "wide", "--write"],
                "SET k w\n\\write off\nSET k x\n",
            );
            assert_eq!(said.code(), 1, "{said:?}");
            assert_eq!(cli(&["GET", "k"]).trim(), "w");
            tools_read_and_write(&place, &["GET k", "TTL k"], "GETDEL k");
            assert_eq!(cli(&["GET", "k"]).trim(), "");
        }
    }

    // spec: DBA-022
    #[tokio::test(flavor = "multi_thread")]
    async fn mongodb_accounts_are_taken_narrow_and_wide_ones_by_their_owners_word() {
        let prepare = async |port: u16| {
            let client = Client::with_uri_str(format!("mongodb://127.0.0.1:{port}/?directConnection=true"))
                .await
                .unwrap();
            let app = client.database("app");
            app.run_command(doc! { "insert": "a", "documents": [{ "_id": 1, "v": "x" }] })
                .await
                .unwrap();
            for (user, role) in [("reader", "read"), ("writer", "readWrite")] {
                let create = doc! { "createUser": user, "pwd": "SECRET-word", "roles": [{ "role": role, "db": "app" }] };
                app.run_command(create).await.unwrap();
            }
        };
        let Some((_running, port)) = servers::mongodb(prepare).await else {
            return;
        };
        let url = |user: &str| {
            format!("mongodb://{user}:SECRET-word@127.0.0.1:{port}/app?directConnection=true&authSource=app")
        };
        let place = place();
        takes_narrow_accounts(&place, "mongodb", &url("reader"), &url("writer"));
        shell_reads_and_writes(
            &place,
            "{\"find\": \"a\",\n \"filter\": {}}",
            "{\"delete\": \"a\", \"deletes\": [{\"q\": {}, \"limit\": 0}]}",
        );
        let left = place.run_with(&["db", "shell", "narrow", "--json"], "{\"count\": \"a\"}\n");
        assert_eq!(document(&left)["document"]["n"], json!(1), "{left:?}");
        tools_read_and_write(
            &place,
            &["{\"find\": \"a\"}"],
            "{\"insert\": \"a\", \"documents\": [{\"_id\": 2}]}",
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_shell_shows_what_is_there_and_nothing_that_acts_on_a_terminal() {
        let Some(server) = Postgres::start().await else {
            return;
        };
        let place = place();
        add(
            &place,
            "narrow",
            &server.reader(),
            &["--write-url", &server.wide()],
        )
        .ok();
        let tested = place.ok(&["db", "test", "narrow"]);
        let accounts: Vec<_> = tested
            .lines()
            .map(|line| line.split(": ").next().unwrap())
            .collect();
        assert_eq!(
            accounts,
            ["the account that reads", "the account that writes"],
            "{tested}"
        );
        let table = place
            .run_with(
                &["db", "shell", "narrow"],
                "SELECT v AS \"a\u{202e}b\"\nFROM t ORDER BY id;\n",
            )
            .ok();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            (lines.len(), lines[2], lines[3], lines[4], lines[6]),
            (7, "a", "NULL", "\"NULL\"", "(4 rows)"),
            "{table:?}"
        );
        assert!(
            table.chars().all(|c| c == '\n' || !c.is_control()) && !table.contains('\u{202e}'),
            "{table:?}"
        );
        let said = place.run_with(&["db", "shell", "narrow"], "\\schemas\n\\objects public\n\\describe t\n\\preview t\n\\explain SELECT 1\n\\write on\nUPDATE t SET v = 'w' WHERE id = 1;\n");
        let out = said.ok();
        for words in [
            "public",
            "table  public.t",
            "column | type    | null\n------ | ------- | --------\nid     | integer | not null\nv      | text    | null\n\nkind ",
            "(4 rows)",
            "Result",
            "1 changed",
        ] {
            assert!(out.contains(words), "{words:?} is not in {out:?}");
        }
        assert_eq!(server.admin.text("SELECT v FROM t WHERE id = 1").await, "w");
        // The log says what was looked at by name.
        let log = place.json(&["audit", "list", "--event", "db.shell"]);
        let looks: Vec<Value> = log
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["data"].clone())
            .filter(|data| !data["act"].as_str().unwrap().starts_with(['q', 'e']))
            .map(|data| json!([data["act"], data["schema"], data["object"], data["statement"]]))
            .collect();
        assert_eq!(
            looks,
            [
                json!(["schemas", null, null, null]),
                json!(["objects", "public", null, null]),
                json!(["describe", null, "t", null]),
                json!(["preview", null, "t", null])
            ]
        );
        // What cannot be a statement ends nothing.
        let evil = [&b"\xff\xfe\n"[..], &b"\\nothing\nSELECT 1;\n"[..]].concat();
        let mut command = place.command(&["db", "shell", "narrow", "--json"]);
        let file = place.path("evil");
        std::fs::write(&file, evil).unwrap();
        let output = command
            .stdin(std::fs::File::open(&file).unwrap())
            .output()
            .unwrap();
        let out = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.code(), out.lines().count()), (Some(1), 3), "{out}");
        assert!(out.lines().last().unwrap().contains("\"rows\":[[1]]"), "{out}");
        server.end(&[]).await;
    }

    // spec: DBA-013
    #[tokio::test(flavor = "multi_thread")]
    async fn the_owners_limits_reach_the_server_and_what_they_cut_is_told() {
        let Some(server) = Postgres::start().await else {
            return;
        };
        let place = place();
        add(&place, "narrow", &server.reader(), &[]).ok();
        let ask = |statement: &str| {
            let said = place.run_with(&["db", "shell", "narrow", "--json"], &format!("{statement};\n"));
            document(&said)
        };
        let many = "SELECT n, repeat('x', 100) FROM generate_series(1, 1000000) n";
        let cut = ask(many);
        assert_eq!(
            (cut["rows"].as_array().unwrap().len(), &cut["truncated"]),
            (1000, &json!(true))
        );
        let cell = ask("SELECT repeat('x', 50000000)");
        assert_eq!(
            (cell["rows"].as_array().unwrap().len(), &cell["truncated"]),
            (0, &json!(true))
        );
        for (key, value) in [("db.max_rows", "3"), ("db.timeout_seconds", "1")] {
            place.ok(&["setting", "set", key, value]);
        }
        assert_eq!(ask(many)["rows"].as_array().unwrap().len(), 3);
        let begun = std::time::Instant::now();
        let slow = ask(&endless(100));
        assert_eq!(
            (&slow["error"]["code"], &slow["error"]["engine_code"]),
            (&json!("engine_error"), &json!("timeout"))
        );
        assert!(begun.elapsed().as_secs() < 60);
        server.runs("<> 100", 0).await;
        place.ok(&["setting", "set", "db.max_rows", "1000000"]);
        place.ok(&["setting", "set", "db.max_bytes", "10240"]);
        place.ok(&["setting", "set", "db.timeout_seconds", "60"]);
        let cut = ask(many);
        let rows = cut["rows"].as_array().unwrap().len();
        assert!((1..=102).contains(&rows) && cut["truncated"] == true, "{rows}");
        // A statement of 64 KiB runs, and the log has it whole.
        let long = format!("SELECT length('{}')", "y".repeat(65_000));
        assert_eq!(ask(&long)["rows"], json!([[65_000]]));
        let log = place.json(&["audit", "list", "--event", "db.shell"]);
        let last = log.as_array().unwrap().last().unwrap();
        assert_eq!(last["data"]["statement"], format!("{long};"));
        let table = place
            .run_with(&["db", "shell", "narrow"], &format!("{many};\n"))
            .ok();
        assert!(table.ends_with("rows; more were cut off)\n"), "{table}");
        server.end(&[]).await;
    }
}

// spec: DBA-019 DBA-023 DBA-028
#[test]
fn a_statement_is_classified_without_a_server_and_without_a_data_folder() {
    let place = Place::new();
    for (engine, statement, verdict) in [
        ("postgres", "SELECT 'delete'", "read"),
        ("postgres", "COPY t FROM STDIN", "write"),
        ("postgres", "COMMIT; DELETE FROM t", "refuse"),
        ("postgres", "-- nothing", "refuse"),
        ("mysql", "REPLACE INTO t VALUES (1)", "write"),
        ("mariadb", "SELECT 1", "read"),
        ("sqlite", "PRAGMA user_version = 1", "write"),
        ("redis", " getdel k", "write"),
        ("redis", "TTL k", "read"),
        ("mongodb", "{\"find\": \"a\"}", "read"),
        (
            "mongodb",
            "{\"aggregate\": \"a\", \"pipeline\": [{\"$out\": \"b\"}], \"cursor\": {}}",
            "write",
        ),
        ("PostgreSQL", "SELECT 'delete'", "read"),
        ("pg", "COPY t FROM STDIN", "write"),
        ("sqlite3", "PRAGMA user_version = 1", "write"),
        ("valkey", "TTL k", "read"),
        ("mongo", "{\"find\": \"a\"}", "read"),
    ] {
        let said = place.json(&["db", "classify", engine, statement]);
        assert_eq!(said["verdict"], verdict, "{engine} {statement}: {said}");
        assert!(said["reason"].as_str().unwrap().len() > 3);
        let said = place.ok(&["db", "classify", engine, statement]);
        assert!(
            said.starts_with(&format!("{verdict}: ")) && said.lines().count() == 1,
            "{said}"
        );
    }
    let lines = "\"SELECT 1\"\n\n\"DROP TABLE t\"\n\"\\u001b[2J\"\n";
    for json in [&[][..], &["--json"]] {
        let words = [&["db", "classify", "postgres", "--from", "-"], json].concat();
        let said = place.run_with(&words, lines).ok();
        let verdicts: Vec<Value> = said
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["verdict"].clone())
            .collect();
        assert_eq!(verdicts, ["read", "write", "refuse"]);
    }
    let said = place.run_with(
        &["db", "classify", "redis", "--from", "-", "--json"],
        "\"GET a\"\nGET a\n",
    );
    assert_eq!(
        (said.code(), &document(&said)["error"]["code"]),
        (1, &json!("bad_statement"))
    );
    for words in [
        &["db", "classify", "oracle", "SELECT 1"][..],
        &["db", "classify", "postgres"],
        &["db", "classify"],
        &["db", "classify", "postgres", "SELECT 1", "--from", "-"],
    ] {
        assert_eq!(place.run(words).code(), 2, "{words:?}");
    }
    assert!(!place.data().exists(), "a look made a data folder");
}

#[test]
fn a_file_has_no_accounts_and_is_taken_before_it_is_there() {
    let place = place();
    let file = place.path("shop.db");
    let url = format!("sqlite://{}", file.display());
    let said = add(&place, "shop", &url, &["--accept-wide-account"]);
    assert_eq!(document(&said)["wide"], json!(false));
    assert!(said.err.contains("stored all the same"), "{said:?}");
    let error = document(&place.run(&["db", "test", "shop", "--json"]));
    assert_eq!(error["error"]["code"], "unreachable");
    assert_eq!(place.run(&["db", "check", "shop"]).code(), 1);
    std::fs::write(&file, "").unwrap();
    assert!(place.ok(&["db", "test", "shop"]).starts_with("SQLite 3"));
    assert_eq!(place.json(&["db", "check", "shop"])["ok"], json!(true));
    let script = "CREATE TABLE t (a);\nINSERT INTO t VALUES (NULL), (1);\nSELECT * FROM t;\n";
    let said = place.run_with(&["db", "shell", "shop", "--write"], script).ok();
    assert!(said.ends_with("a\n----\nNULL\n1\n(2 rows)\n"), "{said}");
    let gone = document(&place.run(&["db", "shell", "none", "--json"]));
    assert_eq!(gone["error"]["code"], "not_found");
}

#[test]
fn a_refused_write_is_told_once_how_to_write_and_one_that_is_only_explained_is_not() {
    let place = place();
    // The gate needs no server.
    let away = "postgres://reader@127.0.0.1:1/app";
    add(&place, "away", away, &["--accept-wide-account"]).ok();
    let hints = |script: &str| {
        let said = place.run_with(&["db", "shell", "away"], script);
        assert_eq!(said.code(), 1, "{said:?}");
        assert!(said.err.contains("Refused by the gate"), "{said:?}");
        said.err.matches("--write").count()
    };
    assert_eq!(hints("UPDATE t SET v = 'w';\n"), 1);
    assert_eq!(hints("\\explain EXPLAIN ANALYZE UPDATE t SET v = 'w'\n"), 0);
}

// spec: DBA-013
#[test]
fn a_json_value_is_printed_digit_by_digit_by_the_shell_and_to_an_agent() {
    let place = place();
    let file = place.path("shop.db");
    let kept = r#"{"z": 12345678901234567890.10, "a": 1, "a": 2}"#;
    std::fs::write(&file, "").unwrap();
    add(&place, "shop", &format!("sqlite://{}", file.display()), &[]).ok();
    let made = format!("CREATE TABLE kept (j JSON);\nINSERT INTO kept VALUES ('{kept}');\n");
    place.run_with(&["db", "shell", "shop", "--write"], &made).ok();
    let rows = format!(r#"{{"columns":[{{"name":"j","type":"json"}}],"rows":[[{kept}]],"truncated":false}}"#);
    let script = "SELECT j FROM kept;\n\\preview kept\n";
    let said = place.run_with(&["db", "shell", "shop", "--json"], script).ok();
    assert_eq!(said, format!("{rows}\n{rows}\n"));

    place.ok(&["policy", "create", "worker"]);
    place.ok(&[
        "policy", "grant", "worker", "--layer", "global", "db_read", "any", "allow",
    ]);
    let task = [
        "task",
        "add",
        "--project",
        "engine",
        "--title",
        "look",
        "--policy",
        "worker",
    ];
    place.ok(&task);
    let token = place.ok(&["token", "create", "--kind", "agent", "--task", "1"]);
    let id = place.json(&["db", "show", "shop"])["id"].clone();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let call = json!({"name": "muster_db_query", "arguments": {"connection_id": id, "statement": "SELECT j FROM kept"}});
    let mut lines = String::new();
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ] {
        lines.push_str(&format!("{message}\n"));
    }
    let mut child = place
        .command(&["mcp"])
        .env("MUSTER_AGENT_TOKEN", token.trim_end())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines.as_bytes()).unwrap();
    let out = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(out.contains(&format!("\"structuredContent\":{rows}")), "{out}");
    assert_eq!(out.lines().count(), 2, "{out}");
}

#[test]
fn a_key_that_others_could_read_is_closed_with_a_word_and_a_pipe_is_not_waited_for() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = place();
    let url = |name: &str| format!("sqlite://{}", place.path(name).display());
    let said = add(&place, "one", &url("one.db"), &[]);
    assert!(!said.err.contains("secret.key"), "{said:?}");
    let key = place.data().join("secret.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = add(&place, "two", &url("two.db"), &[]);
    assert_eq!(said.code(), 0, "{said:?}");
    assert!(
        said.err.contains("secret.key") && said.err.contains("other users of this machine could read"),
        "{said:?}"
    );
    document(&said);
    let mode = std::fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::remove_file(&key).unwrap();
    assert!(Command::new("mkfifo").arg(&key).status().unwrap().success());
    let said = add(&place, "three", &url("three.db"), &[]);
    assert_eq!(said.code(), 1, "{said:?}");
    assert!(said.err.contains("is damaged"), "{said:?}");
}

#[test]
fn a_sqlite_file_is_the_same_one_wherever_muster_is_called() {
    let place = Place::new();
    place.add_owner("ada");
    let root = place.path("root").display().to_string();
    std::fs::create_dir_all(&root).unwrap();
    place.ok(&["project", "add", "engine", "--root", &root]);
    std::fs::write(place.path("root/near.db"), "").unwrap();
    let words = |url: &'static str| ["db", "add", "near", "--project", "engine", "--url", url];
    for bad in ["sqlite://~/near.db", "sqlite://../root", "sqlite://:memory:"] {
        let said = place.command(&words(bad)).current_dir(&root).output().unwrap();
        assert_eq!(said.status.code(), Some(1), "{bad}: {said:?}");
        assert!(
            String::from_utf8_lossy(&said.stderr).contains("Nothing was stored"),
            "{bad}: {said:?}"
        );
    }
    let said = place
        .command(&words("sqlite://near.db"))
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(said.status.success(), "{said:?}");
    place.ok(&["db", "test", "near"]);
}
