//! Databases through agents' tools: three gates one after another, and a hidden connection that nothing gives away.

use muster_app::{databases, settings};
use muster_policy::LayerName;
use muster_testkit::{engines, postgres_admin_url};
use serde_json::{Value, json};

use super::agent_kit::{Agent, code, done, refused};
use super::kit::{Ask, Doors, doors};

const TABLE: &str = "CREATE TABLE cats (id INTEGER PRIMARY KEY, name TEXT NOT NULL, weight REAL); INSERT INTO cats VALUES (1, 'Tom', 4.5), (2, 'Mia', NULL);";

/// A SQLite file with a table.
async fn file(doors: &Doors, name: &str) -> String {
    let path = doors.muster.dir.path().join(name);
    let script = TABLE.to_owned();
    let target = path.clone();
    tokio::task::spawn_blocking(move || {
        let connection = rusqlite::Connection::open(target).unwrap();
        connection.execute_batch(&script).unwrap();
    })
    .await
    .unwrap();
    format!("sqlite://{}", path.display())
}

async fn rows(doors: &Doors, name: &str) -> i64 {
    let path = doors.muster.dir.path().join(name);
    tokio::task::spawn_blocking(move || {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection
            .query_row("SELECT count(*) FROM cats", [], |row| row.get(0))
            .unwrap()
    })
    .await
    .unwrap()
}

/// Every tool on a connection, each with arguments that do its work.
fn family(connection: &str) -> Vec<(&'static str, Value)> {
    let with = |extra: Value| {
        let mut arguments = json!({"connection_id": connection});
        for (key, value) in extra.as_object().unwrap() {
            arguments[key] = value.clone();
        }
        arguments
    };
    vec![
        ("muster_db_schemas", with(json!({}))),
        ("muster_db_objects", with(json!({"kind": "table"}))),
        ("muster_db_describe", with(json!({"object": "cats"}))),
        ("muster_db_preview", with(json!({"object": "cats", "limit": 1}))),
        (
            "muster_db_explain",
            with(json!({"statement": "SELECT * FROM cats WHERE id = 1"})),
        ),
        (
            "muster_db_query",
            with(json!({"statement": "SELECT name FROM cats ORDER BY id"})),
        ),
        (
            "muster_db_execute",
            with(json!({"statement": "INSERT INTO cats (name) VALUES ('Leo')", "write": true})),
        ),
    ]
}

// spec: POL-024 POL-025 POL-031 POL-038 POL-039 POL-040 POL-041 DBA-031..DBA-037
#[test]
fn each_tool_reads_or_writes_its_connection_under_the_grants_for_it() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let url = file(&doors, "one.db").await;
        let staging = doors.connection(project, "staging", &url).await;
        let prod = doors
            .connection(project, "prod", &file(&doors, "two.db").await)
            .await;
        let scope = format!("db_connection:{staging}");
        let (agent, policy) = doors
            .agent_with(project, "reader", &[("db_read", &scope, "allow")])
            .await;
        let tool = async |tool: &str, arguments: Value| doors.tool(&agent, tool, arguments).await;
        let mut answers = Vec::new();
        for (name, arguments) in family(&staging.to_string()) {
            let result = tool(name, arguments).await;
            if name == "muster_db_execute" {
                let error = refused(&result);
                assert_eq!(
                    (
                        &error["code"],
                        &error["pairs"][1]["action"],
                        &error["pairs"][1]["verdict"]
                    ),
                    (
                        &json!("refused_not_granted"),
                        &json!("db_write"),
                        &json!("not_granted")
                    )
                );
            } else {
                answers.push(done(&result));
            }
        }
        assert_eq!(answers[0], json!({"schemas": [{"name": "main"}]}));
        let tables = answers[1]["objects"].as_array().unwrap();
        assert!(
            tables
                .iter()
                .any(|table| table["name"] == "cats" && table["kind"] == "table"),
            "{tables:?}"
        );
        let columns: Vec<&Value> = answers[2]["columns"]
            .as_array()
            .unwrap()
            .iter()
            .map(|column| &column["name"])
            .collect();
        assert_eq!(columns, ["id", "name", "weight"]);
        assert_eq!(
            (
                answers[3]["rows"].as_array().unwrap().len(),
                &answers[3]["truncated"]
            ),
            (1, &json!(true))
        );
        assert!(answers[4]["plan"].to_string().contains("cats"), "{}", answers[4]);
        assert_eq!(
            answers[5],
            json!({"columns": [{"name": "name", "type": "text"}], "rows": [["Tom"], ["Mia"]], "truncated": false})
        );

        // Another connection stays shut, also to a new one of the old name.
        for (name, arguments) in family(&prod.to_string()) {
            assert_eq!(
                code(&tool(name, arguments).await),
                "refused_not_granted",
                "{name}"
            );
        }
        muster_app::databases::rename(
            &doors.app,
            doors.ada(),
            staging,
            muster_core::text::Slug::parse("name", "other").unwrap(),
        )
        .await
        .unwrap();
        let imposter = doors.connection(project, "staging", &url).await;
        let query = |connection: &dyn ToString| json!({"connection_id": connection.to_string(), "statement": "SELECT 1"});
        done(&tool("muster_db_query", query(&staging)).await);
        assert_eq!(
            code(&tool("muster_db_query", query(&imposter)).await),
            "refused_not_granted"
        );

        // Writing alone is no access; with both it writes; any covers what is added later.
        doors.revoke(policy, LayerName::Global, "db_read", &scope).await;
        doors
            .grant(policy, LayerName::Global, "db_write", "any", "allow")
            .await;
        for (name, arguments) in family(&staging.to_string()) {
            assert_eq!(
                code(&tool(name, arguments).await),
                "refused_not_granted",
                "{name}"
            );
        }
        assert_eq!(rows(&doors, "one.db").await, 2);
        doors
            .grant(policy, LayerName::Global, "db_read", "any", "allow")
            .await;
        let written = tool("muster_db_execute", family(&staging.to_string())[6].1.clone()).await;
        assert_eq!(done(&written)["affected"], 1);
        assert_eq!(rows(&doors, "one.db").await, 3);
        let late = doors
            .connection(project, "late", &file(&doors, "late.db").await)
            .await;
        done(&tool("muster_db_query", query(&late)).await);
        let create = json!({"connection_id": late.to_string(), "statement": "CREATE TABLE dogs (id INTEGER)", "write": true});
        done(&tool("muster_db_execute", create).await);
    });
}

#[test]
fn a_call_after_its_address_was_replaced_goes_to_the_new_one_under_the_grants_as_they_are() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let old = file(&doors, "old.db").await;
        let new = file(&doors, "new.db").await;
        let staging = doors.connection(project, "staging", &old).await;
        let scope = format!("db_connection:{staging}");
        let grants = [
            ("db_read", scope.as_str(), "allow"),
            ("db_write", &scope, "allow"),
        ];
        let (agent, _) = doors.agent_with(project, "writer", &grants).await;
        let execute = &family(&staging.to_string())[6].1;
        let write = async || {
            done(&doors.tool(&agent, "muster_db_execute", execute.clone()).await)["affected"].clone()
        };
        assert_eq!(write().await, 1);
        assert_eq!(
            (rows(&doors, "old.db").await, rows(&doors, "new.db").await),
            (3, 2)
        );
        // By another process: the connection of the first call is still kept here.
        let (other, _) = doors.muster.second().await;
        let urls = databases::NewUrls {
            read: Some((
                databases::DbUrl::parse(muster_core::Secret::new(new)).unwrap(),
                false,
                true,
            )),
            write: databases::NewWrite::Kept,
        };
        databases::set_url(&other, doors.ada(), staging, urls)
            .await
            .unwrap();
        assert_eq!(write().await, 1);
        assert_eq!(
            (rows(&doors, "old.db").await, rows(&doors, "new.db").await),
            (3, 3)
        );
    });
}

// spec: DBA-013
#[test]
fn a_json_value_reaches_the_agent_as_the_database_wrote_it_beside_a_text_that_reads_well() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let url = file(&doors, "one.db").await;
        let staging = doors.connection(project, "staging", &url).await;
        let (agent, _) = doors
            .agent_with(project, "reader", &[("db_read", "any", "allow")])
            .await;
        let kept = r#"{"z": 12345678901234567890.10, "a": 1, "a": "\"x\""}"#;
        let target = doors.muster.dir.path().join("one.db");
        tokio::task::spawn_blocking(move || {
            let connection = rusqlite::Connection::open(target).unwrap();
            connection
                .execute_batch("CREATE TABLE kept (id INTEGER, j JSON)")
                .unwrap();
            // One of them on several lines, which an answer has not.
            for (id, text) in [
                (1, kept.to_owned()),
                (2, kept.replace(", ", ",\r\n")),
                (3, "[1e999]".to_owned()),
            ] {
                connection
                    .execute("INSERT INTO kept VALUES (?1, ?2)", rusqlite::params![id, text])
                    .unwrap();
            }
        })
        .await
        .unwrap();
        let ask = |statement: &str| {
            let arguments = json!({"connection_id": staging.to_string(), "statement": statement});
            super::agent_kit::call(&agent.token, 1, "muster_db_query", &arguments)
        };
        let answer = doors.send(ask("SELECT j FROM kept ORDER BY id")).await.text();
        let expected = format!(
            r#""structuredContent":{{"columns":[{{"name":"j","type":"json"}}],"rows":[[{kept}],[{}],["[1e999]"]],"truncated":false}}"#,
            kept.replace(", ", ",  ")
        );
        assert!(answer.contains(&expected), "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(
            text,
            format!(
                "j (json)\n{kept}\n{}\n[1e999]\n(3 rows)\n",
                kept.replace(", ", ",  ")
            )
        );
        // What only looks like it stays a text.
        let answer = doors.send(ask("SELECT 'exactly:{\"a\":1.50}' AS t")).await.text();
        assert!(
            answer.contains(r#""rows":[["exactly:{\"a\":1.50}"]]"#),
            "{answer}"
        );
    });
}

// spec: DBA-036 DBA-037 AUDIT-002
#[test]
fn the_gate_stops_a_statement_before_anybody_is_asked_and_the_log_says_so() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let staging = doors
            .connection(project, "staging", &file(&doors, "one.db").await)
            .await;
        let (agent, _) = doors
            .agent_with(
                project,
                "writer",
                &[("db_read", "any", "allow"), ("db_write", "any", "ask")],
            )
            .await;
        let _somebody = doors.somebody().await;
        let insert = "INSERT INTO cats (name) VALUES ('Leo')";
        for (tool, statement, write, verdict) in [
            ("muster_db_query", insert, None, "write"),
            ("muster_db_query", "SELECT 1; SELECT 2", None, "refuse"),
            ("muster_db_query", "ATTACH '/etc/passwd' AS x", None, "refuse"),
            ("muster_db_query", "", None, "refuse"),
            ("muster_db_explain", "SELECT 1; DELETE FROM cats", None, "refuse"),
            ("muster_db_execute", insert, None, "write"),
            ("muster_db_execute", insert, Some(json!(false)), "write"),
            (
                "muster_db_execute",
                "ATTACH '/etc/passwd' AS x",
                Some(json!(true)),
                "refuse",
            ),
        ] {
            let mut arguments = json!({"connection_id": staging.to_string(), "statement": statement});
            if let Some(write) = write {
                arguments["write"] = write;
            }
            let error = refused(&doors.tool(&agent, tool, arguments).await);
            assert_eq!(
                (&error["code"], &error["verdict"]),
                (&json!("refused_gate"), &json!(verdict)),
                "{tool} {statement}"
            );
            assert_eq!(error["pairs"][0]["resource"]["name"], "staging");
            let row = doors.last_call().await;
            assert_eq!(
                (row.tool.as_deref(), row.outcome.as_deref()),
                (Some(tool), Some("refused_gate"))
            );
        }
        assert!(doors.asks(muster_app::access::AskState::Parked).await.is_empty());
        assert_eq!(rows(&doors, "one.db").await, 2);
        // What only reads may be sent either way, and is asked about as what it was sent as.
        let read = doors.waiting(
            &agent,
            1,
            "muster_db_execute",
            json!({"connection_id": staging.to_string(), "statement": "SELECT 7 AS n", "write": true}),
        );
        let ask = doors.parked(1).await.remove(0);
        let pairs: Vec<&Value> = ask
            .pairs
            .as_array()
            .unwrap()
            .iter()
            .map(|pair| &pair["action"])
            .collect();
        assert_eq!(pairs, ["db_read", "db_write"], "one prompt for both");
        muster_app::access::approve(&doors.app, doors.ada(), ask.id, muster_app::access::Decider::Page)
            .await
            .unwrap();
        assert_eq!(done(&read.result().await)["rows"], json!([[7]]));
    });
}

// spec: POL-034 POL-035 POL-042 POL-043
#[test]
fn a_connection_that_may_not_be_read_answers_byte_for_byte_as_one_that_does_not_exist() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let hidden = doors
            .connection(project, "hidden", &file(&doors, "one.db").await)
            .await;
        let (agent, policy) = doors
            .agent_with(project, "writer", &[("db_write", "any", "allow")])
            .await;
        let compare = async |agent: &Agent, why: &str| {
            for (name, arguments) in family(&hidden.to_string()) {
                for statement in ["SELECT 1", "INSERT INTO cats (name) VALUES ('x')", "garbage"] {
                    let mut real = arguments.clone();
                    if real["statement"].is_string() {
                        real["statement"] = json!(statement);
                    }
                    let answer = async |id: Option<Value>| {
                        let mut asked = real.clone();
                        match id {
                            Some(id) => asked["connection_id"] = id,
                            None => drop(asked.as_object_mut().unwrap().remove("connection_id")),
                        }
                        doors
                            .send(super::agent_kit::call(&agent.token, 1, name, &asked))
                            .await
                            .text()
                    };
                    let seen = answer(Some(json!(hidden.to_string()))).await;
                    for id in [
                        Some(json!("999999")),
                        Some(json!("hidden")),
                        Some(json!("")),
                        None,
                    ] {
                        assert_eq!(answer(id.clone()).await, seen, "{why}: {name} {statement} {id:?}");
                    }
                    let result: Value = serde_json::from_str(&seen).unwrap();
                    let error = refused(&result["result"]);
                    assert_eq!(error["code"], "refused_not_granted");
                    assert!(
                        error["pairs"]
                            .as_array()
                            .unwrap()
                            .iter()
                            .all(|pair| pair["layer"].is_null() && pair["resource"].is_null())
                    );
                }
            }
            let list = done(&doors.tool(agent, "muster_list_db_connections", json!({})).await);
            assert_eq!(list, json!({"connections": []}), "{why}");
        };
        compare(&agent, "not granted").await;
        doors
            .grant(policy, LayerName::Global, "db_read", "any", "deny")
            .await;
        compare(&agent, "denied").await;
        assert!(
            doors
                .calls()
                .await
                .iter()
                .any(|row| row.outcome.as_deref() == Some("refused_denied")),
            "the log keeps what was"
        );
        doors
            .grant(policy, LayerName::Global, "db_read", "any", "allow")
            .await;
        // Under any a call that names none is refused even with a single connection to choose.
        let none = doors.tool(&agent, "muster_db_schemas", json!({})).await;
        assert_eq!(code(&none), "refused_not_granted");
        done(
            &doors
                .tool(
                    &agent,
                    "muster_db_schemas",
                    json!({"connection_id": hidden.to_string()}),
                )
                .await,
        );
    });
}

#[test]
fn what_the_engine_says_comes_back_with_its_code_and_limits_are_the_owners() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let staging = doors
            .connection(project, "staging", &file(&doors, "one.db").await)
            .await;
        let gone = doors
            .connection(project, "gone", "postgres://reader:hunter2@127.0.0.1:1/app")
            .await;
        let (agent, _) = doors
            .agent_with(project, "reader", &[("db_read", "any", "allow")])
            .await;
        let query = async |id: &dyn ToString, statement: &str| {
            doors
                .tool(
                    &agent,
                    "muster_db_query",
                    json!({"connection_id": id.to_string(), "statement": statement}),
                )
                .await
        };
        let error = refused(&query(&staging, "SELECT nothing FROM cats").await);
        assert_eq!(error["code"], "engine_error", "{error}");
        assert!(error["engine_code"].is_string(), "{error}");
        let error = refused(&query(&gone, "SELECT 1").await);
        assert_eq!(
            (&error["code"], &error["engine_code"]),
            (&json!("engine_error"), &json!("unreachable"))
        );
        assert!(!error.to_string().contains("hunter2"), "{error}");
        let missing = doors
            .tool(
                &agent,
                "muster_db_describe",
                json!({"connection_id": staging.to_string(), "object": "dogs"}),
            )
            .await;
        assert_eq!(code(&missing), "not_found");
        settings::set(&doors.app, doors.ada(), settings::DB_MAX_ROWS, "1")
            .await
            .unwrap();
        let cut = done(&query(&staging, "SELECT name FROM cats ORDER BY id").await);
        assert_eq!(
            (&cut["rows"], &cut["truncated"]),
            (&json!([["Tom"]]), &json!(true))
        );
        for limit in [json!(0), json!(-1), json!("5"), json!(1.5)] {
            let bad = doors
                .tool(
                    &agent,
                    "muster_db_preview",
                    json!({"connection_id": staging.to_string(), "object": "cats", "limit": limit}),
                )
                .await;
            assert_eq!(code(&bad), "invalid_argument");
        }
    });
}

#[test]
fn a_list_of_objects_that_was_cut_says_so() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let url = file(&doors, "one.db").await;
        let staging = doors.connection(project, "staging", &url).await;
        let (agent, _) = doors
            .agent_with(project, "reader", &[("db_read", "any", "allow")])
            .await;
        let objects = async || {
            let arguments = json!({"connection_id": staging.to_string()});
            done(&doors.tool(&agent, "muster_db_objects", arguments).await)
        };
        let whole = objects().await;
        assert_eq!(whole["objects"].as_array().unwrap().len(), 1, "{whole}");
        assert!(whole.get("truncated").is_none(), "{whole}");
        let path = doors.muster.dir.path().join("one.db");
        tokio::task::spawn_blocking(move || {
            let connection = rusqlite::Connection::open(path).unwrap();
            for number in 0..200 {
                let made = format!("CREATE TABLE t{number} (id INTEGER)");
                connection.execute_batch(&made).unwrap();
            }
        })
        .await
        .unwrap();
        settings::set(&doors.app, doors.ada(), settings::DB_MAX_BYTES, "1024")
            .await
            .unwrap();
        let cut = objects().await;
        assert_eq!(cut["truncated"], true, "{cut}");
        assert!(cut["objects"].as_array().unwrap().len() < 200, "{cut}");
    });
}

#[test]
fn every_statement_of_an_agents_is_in_the_log_as_it_was_sent() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let staging = doors
            .connection(project, "staging", &file(&doors, "one.db").await)
            .await;
        let (agent, _) = doors
            .agent_with(
                project,
                "writer",
                &[("db_read", "any", "allow"), ("db_write", "any", "allow")],
            )
            .await;
        let send = async |tool: &str, statement: &str| {
            let arguments =
                json!({"connection_id": staging.to_string(), "statement": statement, "write": true});
            let arguments = match tool {
                "muster_db_execute" => arguments,
                _ => json!({"connection_id": staging.to_string(), "statement": statement}),
            };
            doors.tool(&agent, tool, arguments).await;
            doors.last_call().await
        };
        let evil = "SELECT '\u{1b}[2J\u{202e}</pre><script>' AS x";
        let long = format!("SELECT '{}'", "\u{e9}".repeat(50_000));
        for (tool, statement, outcome) in [
            ("muster_db_query", "SELECT name FROM cats", "allowed"),
            ("muster_db_query", "DELETE FROM cats", "refused_gate"),
            (
                "muster_db_execute",
                "UPDATE cats SET name = 'secret-ish'",
                "allowed",
            ),
            ("muster_db_explain", "SELECT * FROM cats", "allowed"),
            ("muster_db_query", evil, "allowed"),
        ] {
            let row = send(tool, statement).await;
            assert_eq!(
                (
                    row.outcome.as_deref(),
                    &row.data["statement"],
                    row.data.get("statement_cut")
                ),
                (Some(outcome), &json!(statement), None),
                "{tool}"
            );
        }
        let row = send("muster_db_query", &long).await;
        let held = row.data["statement"].as_str().unwrap();
        assert!(held.len() <= 65_536 && held.len() > 65_530 && long.starts_with(held));
        assert_eq!(
            row.data["statement_cut"],
            json!({"bytes": long.len(), "sha256": muster_core::secret::sha256_hex(long.as_bytes())})
        );
        // A call without one says nothing of one.
        doors
            .tool(
                &agent,
                "muster_db_schemas",
                json!({"connection_id": staging.to_string()}),
            )
            .await;
        let none = doors.last_call().await.data;
        assert!(
            ["statement", "schema", "object"]
                .iter()
                .all(|field| none.get(field).is_none())
        );
        // What is looked at by name is named, what does not exist and what hides too.
        let hidden = "cats\u{1b}[2J\u{202e}<script>".repeat(100);
        for (tool, field, name) in [
            ("muster_db_objects", "schema", "main"),
            ("muster_db_describe", "object", "cats"),
            ("muster_db_preview", "object", "cats"),
            ("muster_db_describe", "object", hidden.as_str()),
        ] {
            let mut arguments = json!({"connection_id": staging.to_string()});
            arguments[field] = json!(name);
            doors.tool(&agent, tool, arguments).await;
            let row = doors.last_call().await;
            let held = row.data[field].as_str().unwrap();
            assert_eq!(row.tool.as_deref(), Some(tool));
            assert!(name.starts_with(held), "{tool}");
            assert!(
                held.len() == name.len() || (1_000..=1_024).contains(&held.len()),
                "{tool}"
            );
        }
        assert!(
            muster_app::audit::verify(&doors.app.db, doors.ada())
                .await
                .unwrap()
                .ok
        );

        let cookie = doors.sign_in("ada").await;
        let page = doors.page(&cookie, &format!("/databases/{staging}")).await;
        let log = doors.page(&cookie, "/audit").await;
        for html in [&page, &log] {
            assert!(
                html.contains("secret-ish")
                    && html.contains("DELETE FROM cats")
                    && html.contains("muster_db_preview"),
                "{html}"
            );
            assert!(
                !html.contains('\u{1b}') && !html.contains('\u{202e}') && !html.contains("<script>' AS"),
                "{html}"
            );
        }
        assert!(
            page.len() < 40_000 && log.len() < 60_000,
            "{} {}",
            page.len(),
            log.len()
        );
    });
}

#[test]
fn an_account_that_turns_out_to_be_wide_is_read_through_no_tool_and_its_self_test_fails_and_is_kept() {
    if engines().len() < 2 {
        return;
    }
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let wide = doors.connection(project, "wide", &postgres_admin_url()).await;
        let all = [("db_read", "any", "allow"), ("db_write", "any", "allow")];
        let (agent, _) = doors.agent_with(project, "reader", &all).await;
        for (tool, arguments) in family(&wide.to_string()) {
            let error = refused(&doors.tool(&agent, tool, arguments).await);
            assert_eq!(error["code"], "wide_account", "{tool} {error}");
        }
        let cookie = doors.sign_in("ada").await;
        let address = format!("/databases/{wide}");
        let tried = doors
            .send(Ask::form(&address, &[("act", "check")]).cookie(&cookie))
            .await;
        assert_eq!((tried.status, tried.location()), (303, address.as_str()));
        let page = doors.page(&cookie, &address).await;
        for words in [
            "Something that was tried does not hold",
            "narrow_account",
            "may do: more than read",
            "--accept-wide-account",
            "Not looked at yet",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
    });
}

#[test]
fn a_connection_that_nobody_could_look_at_says_so_and_what_comes_of_it() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let file = doors
            .connection(project, "file", &file(&doors, "one.db").await)
            .await;
        let away = doors
            .connection(project, "away", "postgres://reader:hunter2@127.0.0.1:1/app")
            .await;
        let cookie = doors.sign_in("ada").await;
        let list = doors.page(&cookie, "/databases").await;
        assert_eq!(list.matches("not looked at yet").count(), 1, "{list}");
        let page = doors.page(&cookie, &format!("/databases/{away}")).await;
        for words in [
            "Not looked at yet",
            "nothing is read before that",
            "refused each time",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(
            !doors
                .page(&cookie, &format!("/databases/{file}"))
                .await
                .contains("Not looked at")
        );
        // The self-test says it too, where it still cannot look.
        doors
            .send(Ask::form(&format!("/databases/{away}"), &[("act", "check")]).cookie(&cookie))
            .await;
        let page = doors.page(&cookie, &format!("/databases/{away}")).await;
        assert!(
            page.contains("narrow_account") && page.contains("was not looked at yet"),
            "{page}"
        );
    });
}

#[test]
fn a_connections_page_says_what_holds_who_may_reach_it_and_what_was_run() {
    doors(|doors| async move {
        let project = doors.project("one", None).await;
        let staging = doors
            .connection(project, "staging", &file(&doors, "one.db").await)
            .await;
        let gone = doors
            .connection(project, "gone", "postgres://reader:hunter2@127.0.0.1:1/app")
            .await;
        let scope = format!("db_connection:{staging}");
        let (agent, policy) = doors
            .agent_with(project, "reader", &[("db_read", &scope, "ask")])
            .await;
        doors
            .agent_with(project, "blind", &[("db_write", "any", "allow")])
            .await;
        let cookie = doors.sign_in("ada").await;
        let list = doors.page(&cookie, "/databases").await;
        for id in [staging, gone] {
            assert!(list.contains(&format!("href=\"/databases/{id}\"")), "{list}");
        }
        assert_eq!(list.matches("No self-test yet").count(), 2, "{list}");
        let address = format!("/databases/{staging}");
        let page = doors.page(&cookie, &address).await;
        assert!(
            page.contains("Not tried yet") && page.contains("None yet."),
            "{page}"
        );
        assert!(page.contains(&format!("href=\"/policies/{policy}\"")), "{page}");
        assert!(
            !page.contains("blind"),
            "a policy that leaves nothing is named: {page}"
        );

        let tried = doors
            .send(Ask::form(&address, &[("act", "check")]).cookie(&cookie))
            .await;
        assert_eq!((tried.status, tried.location()), (303, address.as_str()));
        let page = doors.page(&cookie, &address).await;
        assert!(
            page.contains("Everything that was tried holds") && page.contains("no_other_file"),
            "{page}"
        );
        let away = format!("/databases/{gone}");
        doors
            .send(Ask::form(&away, &[("act", "check")]).cookie(&cookie))
            .await;
        let page = doors.page(&cookie, &away).await;
        assert!(
            page.contains("does not hold") && !page.contains("hunter2"),
            "{page}"
        );
        assert!(
            page.contains("<p class=\"warning\" role=\"status\">Something that was tried does not hold"),
            "{page}"
        );
        assert!(page.contains("Nobody: no policy grants"), "{page}");
        let row = |html: &str, id: &dyn ToString| {
            let from = html
                .split_once(&format!("id=\"database-{}\"", id.to_string()))
                .unwrap()
                .1;
            from.split_once("</li>").unwrap().0.to_owned()
        };
        let list = doors.page(&cookie, "/databases").await;
        let held = row(&list, &staging);
        assert!(held.contains(">holds<") && held.contains("Self-test"), "{held}");
        let failed = row(&list, &gone);
        assert!(
            failed.contains(">does not hold<") && failed.contains("reachable, narrow_account"),
            "{failed}"
        );
        // The log says it in words, and has the whole of it folded away.
        let log = doors.page(&cookie, "/audit?event=db.check").await;
        let (told, _) = log.split_once("As it is stored").unwrap();
        assert!(
            told.contains("fails") && told.contains("reachable, narrow_account") && !told.contains("&quot;"),
            "{log}"
        );
        assert!(
            log.contains("&#34;detail&#34;") || log.contains("&quot;detail&quot;"),
            "{log}"
        );
        let odd = doors
            .send(Ask::form(&address, &[("act", "drop")]).cookie(&cookie))
            .await;
        assert_eq!(odd.status, 400);

        // Nobody is there to be asked, so it runs; then the task becomes one that nothing restricts.
        let query = json!({"connection_id": staging.to_string(), "statement": "SELECT 41 + 1"});
        done(&doors.tool(&agent, "muster_db_query", query).await);
        let task = doors
            .task_of(project, "Old hand", muster_app::tasks::PolicyChoice::Unscoped)
            .await;
        let page = doors.page(&cookie, &address).await;
        assert!(
            page.contains("SELECT 41 + 1") && page.contains("auto_allowed_app_closed"),
            "{page}"
        );
        assert!(
            page.contains("LEGACY-UNSCOPED") && page.contains(&format!("href=\"/tasks/{task}\"")),
            "{page}"
        );
        assert!(doors.page(&cookie, &away).await.contains("Old hand"));
        assert!(!doors.page(&cookie, &away).await.contains("SELECT 41"));
    });
}
