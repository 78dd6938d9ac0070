//! The official Python and TypeScript clients with MCP server `muster`, on standard streams and over HTTP.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::{Bus, CLIENTS, Client, MUSTER, tools};

/// A running server in the home of a bus. Dropping it kills it.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn new(bus: &Bus) -> Self {
        let mut child = bus
            .command(MUSTER, &["serve", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(bus: &Bus, arguments: &[&str]) -> String {
    let said = bus.command(MUSTER, arguments).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

// The drivers compile each schema, and the clients hold every result against the tool's own, refusals too.
// spec: DBA-052 DBA-053
#[test]
fn every_official_client_calls_the_tools_on_both_ways_and_accepts_results_and_refusals() {
    let Some(tools) = tools() else { return };
    let bus = Bus::new();
    let owner = bus
        .command(
            "sh",
            &[
                "-c",
                "echo 'correct horse battery' | muster owner add ada --password-stdin",
            ],
        )
        .output()
        .unwrap();
    assert!(owner.status.success(), "{owner:?}");
    let root = bus.home().display().to_string();
    let project = said(&bus, &["project", "add", "shop", "--root", &root]);
    said(&bus, &["policy", "create", "worker"]);
    for action in ["projects_read", "tasks_write"] {
        said(
            &bus,
            &[
                "policy", "grant", "worker", "--layer", "global", action, "any", "allow",
            ],
        );
    }
    let task = said(
        &bus,
        &[
            "task",
            "add",
            "--project",
            "shop",
            "--title",
            "own",
            "--policy",
            "worker",
        ],
    );
    let token = said(&bus, &["token", "create", "--kind", "agent", "--task", &task]);
    let server = Server::new(&bus);
    for (sdk, mode) in CLIENTS {
        let mut client = Client::new(sdk, &tools);
        let mut env: std::collections::HashMap<String, String> = bus.env().into_iter().collect();
        env.insert("MUSTER_AGENT_TOKEN".to_owned(), token.clone());
        let near = json!({"session": "near", "command": [MUSTER, "mcp"], "env": env, "mode": mode});
        assert_eq!(client.ask("open", near)["name"], "muster", "{sdk:?} {mode}");
        client.http(&format!("{}/mcp", server.url), &token, "far", mode);
        let mut lists = Vec::new();
        for way in ["near", "far"] {
            let listed = client.ask("tools", json!({"session": way}));
            assert_eq!(listed["ok"], true, "{sdk:?} {mode} {way}: {listed}");
            lists.push(listed["tools"].clone());
            let whoami = client.call(way, "muster_whoami", json!({}));
            assert_eq!(
                (&whoami["task"]["id"], &whoami["unscoped"]),
                (&json!(task), &json!(false))
            );
            let made = client.call(
                way,
                "muster_create_task",
                json!({"project_id": project, "title": "ünïcode 🦀\nsecond line"}),
            );
            assert_eq!(made["task"]["title"], "ünïcode 🦀\nsecond line");
            for (tool, arguments, code) in [
                (
                    "muster_close_task",
                    json!({"task_id": task}),
                    "refused_not_granted",
                ),
                (
                    "muster_db_schemas",
                    json!({"connection_id": "9"}),
                    "refused_not_granted",
                ),
                (
                    "muster_list_tasks",
                    json!({"project_id": project, "status": "done"}),
                    "invalid_argument",
                ),
            ] {
                let refused = client.whole(way, tool, arguments);
                assert_eq!(
                    (
                        &refused["ok"],
                        &refused["failed"],
                        &refused["body"]["error"]["code"]
                    ),
                    (&json!(true), &json!(true), &json!(code)),
                    "{sdk:?} {mode} {way}: {refused}"
                );
            }
        }
        let names = |list: &Value| -> Vec<String> {
            list.as_array()
                .unwrap()
                .iter()
                .map(|tool| tool["name"].as_str().unwrap().to_owned())
                .collect()
        };
        assert_eq!(names(&lists[0]), names(&lists[1]));
        assert_eq!(names(&lists[0]).len(), 24);
    }
}
