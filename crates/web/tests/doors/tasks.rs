//! The pages of tasks, projects, settings and the audit log of calls: what they show, and what their forms do.

use muster_app::access::{self, Seat};
use muster_app::tasks::PolicyChoice;
use muster_app::{audit, settings};
use serde_json::{Value, json};

use super::fleet::{Fleet, task};
use super::kit::{Ask, doors};

#[test]
fn a_task_is_added_moved_put_under_a_policy_and_closed_on_its_page() {
    doors(|doors| async move {
        let fleet = Fleet::new(&doors).await;
        let cookie = doors.sign_in("ada").await;
        let project = fleet.project.to_string();
        let new = [
            ("project", project.as_str()),
            ("title", "Sweep <b>"),
            ("body", "first\r\nsecond"),
        ];
        let added = doors.send(Ask::form("/tasks", &new).cookie(&cookie)).await;
        assert_eq!(added.status, 303, "{}", added.text());
        let address = added.location().to_owned();
        let html = doors.page(&cookie, &address).await;
        for words in [
            "Sweep &#60;b&#62;",
            "first\nsecond",
            "closed, the built-in policy that grants nothing",
            ">open<",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
        let act = async |fields: &[(&str, &str)]| {
            let answer = doors.send(Ask::form(&address, fields).cookie(&cookie)).await;
            (answer.status, answer.text())
        };
        let policy = fleet.policy.to_string();
        assert_eq!(act(&[("act", "attach"), ("policy", &policy)]).await.0, 303);
        assert_eq!(act(&[("act", "status"), ("status", "in_progress")]).await.0, 303);
        let html = doors.page(&cookie, &address).await;
        assert!(
            html.contains(&format!("href=\"/policies/{policy}\"")) && html.contains(">in_progress<"),
            "{html}"
        );
        assert_eq!(act(&[("act", "attach"), ("policy", "999999")]).await.0, 404);
        assert_eq!(act(&[("act", "status"), ("status", "done")]).await.0, 400);
        assert_eq!(act(&[("act", "attach"), ("policy", "")]).await.0, 303);
        assert_eq!(act(&[("act", "close")]).await.0, 303);
        assert!(doors.page(&cookie, &address).await.contains(">closed<"));
        let list = doors.page(&cookie, &format!("/tasks?project={project}")).await;
        assert!(list.contains("Tidy up") && list.contains("Sweep &#60;b&#62;"));
        assert!(
            doors
                .page(&cookie, "/tasks?project=999999")
                .await
                .contains("No tasks.")
        );
        assert_eq!(
            doors
                .send(Ask::get("/tasks?project=x").cookie(&cookie))
                .await
                .status,
            404
        );
        let short = [("project", project.as_str()), ("title", " ")];
        let refused = doors.send(Ask::form("/tasks", &short).cookie(&cookie)).await;
        assert!(refused.status == 400 && refused.text().contains("role=\"alert\""));
    });
}

#[test]
fn a_task_that_no_policy_governs_says_so_wherever_it_is_shown() {
    doors(|doors| async move {
        let fleet = Fleet::new(&doors).await;
        let cookie = doors.sign_in("ada").await;
        let all = doors.page(&cookie, "/tasks").await;
        assert!(!all.contains("LEGACY-UNSCOPED"));
        let free = task(
            &doors.app,
            doors.ada(),
            fleet.project,
            "Old",
            PolicyChoice::Unscoped,
        )
        .await;
        for path in [
            "/tasks".to_owned(),
            format!("/tasks/{free}"),
            format!("/tasks/{free}/permissions"),
        ] {
            assert!(
                doors.page(&cookie, &path).await.contains("LEGACY-UNSCOPED"),
                "{path}"
            );
        }
        let scoped = doors
            .page(&cookie, &format!("/tasks/{}/permissions", fleet.task))
            .await;
        assert!(!scoped.contains("LEGACY-UNSCOPED"));
    });
}

#[test]
fn a_project_is_added_renamed_given_a_policy_and_removed_when_nothing_is_in_it() {
    doors(|doors| async move {
        let fleet = Fleet::new(&doors).await;
        let cookie = doors.sign_in("ada").await;
        let root = doors.muster.dir.path().to_str().unwrap().to_owned();
        let add = [("name", "second"), ("root", root.as_str())];
        let added = doors.send(Ask::form("/projects", &add).cookie(&cookie)).await;
        assert_eq!(
            (added.status, added.location()),
            (303, "/projects"),
            "{}",
            added.text()
        );
        let twice = doors.send(Ask::form("/projects", &add).cookie(&cookie)).await;
        assert!(twice.status == 409 && twice.text().contains("You already have a project of this name"));
        let projects = muster_app::projects::list(&doors.app, doors.ada()).await.unwrap();
        let second = projects
            .iter()
            .find(|project| project.name == "second")
            .unwrap()
            .id;
        let address = format!("/projects/{second}");
        let act = async |address: &str, fields: &[(&str, &str)]| {
            let answer = doors.send(Ask::form(address, fields).cookie(&cookie)).await;
            (answer.status, answer.text())
        };
        let policy = fleet.policy.to_string();
        assert_eq!(
            act(&address, &[("act", "default"), ("policy", &policy)]).await.0,
            303
        );
        assert_eq!(
            act(&address, &[("act", "rename"), ("name", "renamed")]).await.0,
            303
        );
        let html = doors.page(&cookie, "/projects").await;
        assert!(html.contains("renamed") && html.contains(&format!("<option value=\"{policy}\" selected>")));
        let (status, text) = act(&format!("/projects/{}", fleet.project), &[("act", "remove")]).await;
        assert!(
            status == 409 && text.contains("1 open task and 1 database connection"),
            "{text}"
        );
        assert_eq!(act(&address, &[("act", "remove")]).await.0, 303);
        assert!(!doors.page(&cookie, "/projects").await.contains("renamed"));
        assert_eq!(
            act(&address, &[("act", "rename"), ("name", "again")]).await.0,
            404
        );
    });
}

// spec: ASK-018 ASK-029 ASK-038
#[test]
fn the_settings_page_tells_what_each_setting_does_and_changes_it() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let html = doors.page(&cookie, "/settings").await;
        assert!(
            html.contains("While it is false, a grant of ask behaves as allow whenever nobody can be asked"),
            "{html}"
        );
        assert!(
            html.contains("<option value=\"false\" selected>false</option>"),
            "as it is shipped"
        );
        assert!(html.contains("How many seconds an ask waits for an answer before it expires"));
        let set = async |key: &str, value: &str| {
            let answer = doors
                .send(Ask::form("/settings/values", &[("key", key), ("value", value)]).cookie(&cookie))
                .await;
            (answer.status, answer.text())
        };
        assert_eq!(set("asks.require_when_closed", "true").await.0, 303);
        assert_eq!(set("asks.expiry_seconds", "60").await.0, 303);
        let html = doors.page(&cookie, "/settings").await;
        assert!(
            html.contains("<option value=\"true\" selected>true</option>") && html.contains("value=\"60\"")
        );
        let (status, text) = set("asks.expiry_seconds", "0").await;
        assert!(
            status == 400 && text.contains("takes a whole number from 1 to 86400"),
            "{text}"
        );
        assert_eq!(set("asks.nothing", "1").await.0, 404);
        let setting = settings::get(&doors.app, doors.ada(), settings::EXPIRY_SECONDS).await;
        assert_eq!(setting.value, json!(60));
    });
}

// spec: AUDIT-002 AUDIT-008
#[test]
fn calls_are_readable_in_the_audit_log_found_by_agent_task_tool_outcome_and_time_and_exported() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        let (app, ada) = (&doors.app, doors.ada());
        let cookie = doors.sign_in("ada").await;
        access::decide(app, &fleet.agent, fleet.listing(json!({})))
            .await
            .unwrap();
        doors.muster.clock.advance(std::time::Duration::from_secs(3600));
        let seat = access::present(app, ada, Seat::Page).await.unwrap();
        let call = fleet.parks(&doors, fleet.query("SELECT 1")).await;
        let ask = access::list(app, ada, access::AskState::Parked)
            .await
            .unwrap()
            .remove(0);
        access::refuse(app, ada, ask.id, access::Decider::Page)
            .await
            .unwrap();
        call.await.unwrap().unwrap_err();
        seat.leave().await.unwrap();

        let rows = async |query: &str| {
            let html = doors.page(&cookie, &format!("/audit?event=call{query}")).await;
            let table = html.split("<tbody").nth(1).map(str::to_owned).unwrap_or_default();
            (table.matches("<tr").count(), html)
        };
        let (all, html) = rows("").await;
        assert_eq!(all, 2);
        for words in [
            "helper (agent:",
            "auto_allowed_app_closed",
            "refused_by_person",
            "on db_connection staging: ask",
            "by the global layer",
            "shared, revision",
            "decided by</span> ada",
            "for Tidy up",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
        let task = fleet.task;
        for (query, count) in [
            ("&outcome=auto_allowed_app_closed".to_owned(), 1),
            ("&agent=helper".to_owned(), 2),
            (format!("&agent={}", fleet.agent.token), 2),
            ("&agent=stranger".to_owned(), 0),
            (format!("&task={task}"), 2),
            ("&task=999999".to_owned(), 0),
            ("&tool=muster_db_query".to_owned(), 1),
            ("&since=2027-01-15T08:30".to_owned(), 1),
            ("&until=2027-01-15T08:30".to_owned(), 1),
            ("&since=2027-01-15T08:00&until=2027-01-15T08:00".to_owned(), 1),
        ] {
            assert_eq!(rows(&query).await.0, count, "{query}");
        }
        let bad = doors
            .send(Ask::get("/audit?since=yesterday").cookie(&cookie))
            .await;
        assert!(bad.status == 400 && bad.text().contains("2026-03-04T05:06"));

        let export = doors
            .send(Ask::get("/audit/export?event=call&tool=muster_db_query").cookie(&cookie))
            .await;
        assert_eq!(
            export.header("content-disposition"),
            "attachment; filename=\"muster-audit.jsonl\""
        );
        let lines: Vec<Value> = export
            .text()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), 1);
        assert_eq!(
            (
                &lines[0]["outcome"],
                &lines[0]["decided_by"],
                &lines[0]["agent"]["label"]
            ),
            (&json!("refused_by_person"), &json!("ada"), &json!("helper"))
        );
        assert_eq!(lines[0]["pairs"][0]["resource"]["name"], json!("staging"));

        let verified = doors.page(&cookie, "/audit?verify=1").await;
        assert!(verified.contains("The chain holds"), "{verified}");
    });
}

#[test]
fn an_export_holds_every_row_however_many_there_are() {
    doors(|doors| async move {
        let cookie = doors.sign_in("ada").await;
        let ada = doors.ada();
        doors
            .app
            .db
            .write(ada, move |tx| {
                Box::pin(async move {
                    for n in 0..2_100_i64 {
                        let event = audit::Event {
                            name: "setting.set",
                            actor: "owner".to_owned(),
                            subject: audit::Subject::Setting("db.max_rows"),
                            data: json!({"value": n}),
                        };
                        audit::record(tx, muster_core::clock::Time::from_micros(n), event).await?;
                    }
                    Ok::<_, muster_core::Fault>(())
                })
            })
            .await
            .unwrap();
        let export = doors
            .send(Ask::get("/audit/export?event=setting.set").cookie(&cookie))
            .await
            .text();
        let values: Vec<i64> = export
            .lines()
            .map(|line| {
                serde_json::from_str::<Value>(line).unwrap()["data"]["value"]
                    .as_i64()
                    .unwrap()
            })
            .collect();
        assert_eq!(
            values,
            (0..2_100).rev().collect::<Vec<_>>(),
            "each once, the newest first"
        );
    });
}
