//! The pages of policies: layers, grants, presets with what they would change, forks, deletions; every edit meant for the revision that was shown.

use muster_app::access;
use muster_app::policies::{self, LayerName};
use muster_app::tasks::PolicyChoice;
use serde_json::json;

use super::fleet::{Fleet, task};
use super::kit::{Answer, Ask, Doors, doors, escaped};

/// Sends an act on a policy with the fields of its form.
async fn act(doors: &Doors, cookie: &str, fleet: &Fleet, fields: &[(&str, &str)]) -> Answer {
    doors
        .send(Ask::form(&format!("/policies/{}", fleet.policy), fields).cookie(cookie))
        .await
}

async fn page(doors: &Doors, cookie: &str, fleet: &Fleet) -> String {
    doors.page(cookie, &format!("/policies/{}", fleet.policy)).await
}

/// The section with this id, cut out of a page.
fn section(page: &str, id: &str) -> String {
    let (_, rest) = page
        .split_once(&format!("id=\"{id}\""))
        .unwrap_or_else(|| panic!("no section {id}: {page}"));
    rest.split("</section>").next().unwrap().to_owned()
}

/// The revision that a page's forms carry.
fn revision(page: &str) -> String {
    let (_, rest) = page
        .split_once("name=\"revision\" value=\"")
        .unwrap_or_else(|| panic!("no revision: {page}"));
    rest.split('"').next().unwrap().to_owned()
}

// spec: POL-001 PRE-009
#[test]
fn a_policy_is_made_granted_and_revoked_row_by_row_each_for_the_revision_that_was_shown() {
    doors(|doors| async move {
        let fleet = Fleet::new(&doors).await;
        let cookie = doors.sign_in("ada").await;
        let made = doors
            .send(Ask::form("/policies", &[("name", "mine")]).cookie(&cookie))
            .await;
        assert!(made.status == 303 && made.location().starts_with("/policies/"));
        let html = doors.page(&cookie, made.location()).await;
        assert!(
            html.contains("It has no layers and grants nothing yet") && html.contains("Revision <strong>1<")
        );

        let staging = format!("db_connection:{}", fleet.staging);
        let html = page(&doors, &cookie, &fleet).await;
        assert!(html.contains(&format!(
            "<option value=\"{staging}\">db_connection staging</option>"
        )));
        assert!(html.contains("data-kinds=\"db_connection\">db_read"), "{html}");
        let grant = |revision: &'static str| {
            [
                ("act", "grant"),
                ("revision", revision),
                ("layer", "project"),
                ("action", "db_read"),
                ("effect", "ask"),
            ]
        };
        let with = |fields: [(&'static str, &'static str); 5]| {
            let mut fields = fields.to_vec();
            fields.push(("scope", staging.as_str()));
            fields
        };
        let granted = act(&doors, &cookie, &fleet, &with(grant("1"))).await;
        assert_eq!(
            (granted.status, granted.location()),
            (303, format!("/policies/{}", fleet.policy).as_str()),
            "{}",
            granted.text()
        );
        let html = page(&doors, &cookie, &fleet).await;
        assert_eq!(revision(&html), "2", "an edit raises it by one");
        let layer = section(&html, "layer-project");
        assert!(
            layer.contains("<code>db_read</code> on <bdi>db_connection staging</bdi>")
                && layer.contains(">ask<")
                && layer.contains("Authored: 1 grant")
        );

        for stale in ["1", "", "many"] {
            let revoke = [
                ("act", "revoke"),
                ("revision", stale),
                ("layer", "project"),
                ("action", "db_read"),
                ("scope", staging.as_str()),
            ];
            let refused = act(&doors, &cookie, &fleet, &revoke).await;
            assert_eq!(refused.status, 409, "{stale}");
            assert!(
                refused.text().contains("The policy is at revision 2 by now"),
                "{}",
                refused.text()
            );
        }
        let revoke = [
            ("act", "revoke"),
            ("revision", "2"),
            ("layer", "project"),
            ("action", "db_read"),
            ("scope", staging.as_str()),
        ];
        assert_eq!(act(&doors, &cookie, &fleet, &revoke).await.status, 303);
        let html = page(&doors, &cookie, &fleet).await;
        assert!(
            section(&html, "layer-project").contains("Empty: it denies everything"),
            "without its last grant a layer is empty, not absent"
        );
        let wrong = [
            ("act", "grant"),
            ("revision", "3"),
            ("layer", "task"),
            ("action", "hosts_read"),
            ("scope", staging.as_str()),
            ("effect", "allow"),
        ];
        let refused = act(&doors, &cookie, &fleet, &wrong).await;
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert_eq!(act(&doors, &cookie, &fleet, &[("act", "burn")]).await.status, 400);
    });
}

// spec: PRE-014
#[test]
fn clearing_a_layer_and_saving_it_empty_are_two_acts_and_look_different() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        let cookie = doors.sign_in("ada").await;
        let state = async || section(&page(&doors, &cookie, &fleet).await, "layer-global");
        assert!(state().await.contains("Authored: 2 grants"));
        let html = page(&doors, &cookie, &fleet).await;
        assert!(html.contains("Clear layer (inherits)") && html.contains("Save empty (denies everything)"));
        let revision = revision(&html);
        let empty = [
            ("act", "empty"),
            ("revision", revision.as_str()),
            ("layer", "global"),
        ];
        assert_eq!(act(&doors, &cookie, &fleet, &empty).await.status, 303);
        let empty = state().await;
        assert!(empty.contains("Empty: it denies everything") && !empty.contains("Absent"));
        let html = page(&doors, &cookie, &fleet).await;
        let revision = super::policies::revision(&html);
        let clear = [
            ("act", "clear"),
            ("revision", revision.as_str()),
            ("layer", "global"),
        ];
        assert_eq!(act(&doors, &cookie, &fleet, &clear).await.status, 303);
        let absent = state().await;
        assert!(absent.contains("Absent: it inherits") && !absent.contains("Empty"));
        let html = page(&doors, &cookie, &fleet).await;
        for state in ["is-absent", "Nothing: every call is refused"] {
            assert!(html.contains(state), "{state}");
        }
    });
}

// spec: PRE-008 PRE-011..PRE-013 PRE-015
#[test]
fn the_page_shows_what_an_agent_gets_what_took_the_rest_and_what_can_never_fire() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        let (app, ada) = (&doors.app, doors.ada());
        let cookie = doors.sign_in("ada").await;
        let host = format!("host:{}", fleet.host);
        let staging = format!("db_connection:{}", fleet.staging);
        let project = format!("project:{}", fleet.project);
        for (layer, action, scope, effect) in [
            (LayerName::Global, "projects_read", project.as_str(), "allow"),
            (LayerName::Project, "hosts_read", host.as_str(), "allow"),
            (LayerName::Project, "db_read", staging.as_str(), "deny"),
            (LayerName::Task, "projects_read", project.as_str(), "allow"),
            (LayerName::Task, "hosts_read", host.as_str(), "allow"),
        ] {
            policies::grant(app, ada, fleet.edit(layer), action, scope, effect)
                .await
                .unwrap();
        }
        let html = page(&doors, &cookie, &fleet).await;
        let result = section(&html, "resolved");
        let (got, taken) = result.split_once("id=\"taken\"").unwrap();
        assert!(
            got.contains("hosts_read") && got.contains("host tower") && !got.contains("db_read"),
            "{got}"
        );
        assert!(
            !got.contains("projects_read"),
            "the project layer has no grant for it: {got}"
        );
        assert!(
            taken.contains("db_connection staging")
                && taken.contains(&escaped("The project layer denies db_read on db_connection")),
            "{taken}"
        );
        assert!(
            section(&html, "layer-task").contains("the project layer leaves nothing of it"),
            "a rule that an upper layer leaves nothing of is marked"
        );
        let call = access::decide(app, &fleet.agent, fleet.query("SELECT 1")).await;
        assert_eq!(call.unwrap_err().code, "refused_not_granted", "as the page says");

        muster_app::databases::remove(app, ada, fleet.staging)
            .await
            .unwrap();
        let html = page(&doors, &cookie, &fleet).await;
        let layer = section(&html, "layer-project");
        assert!(
            layer.contains("can never fire")
                && layer.contains(&format!(
                    "connection removed (id {}), last named staging",
                    fleet.staging
                )),
            "{layer}"
        );
        assert!(layer.contains("db_connection staging"), "by its last name");

        let other = super::fleet::connection(app, ada, fleet.project, "other", doors.muster.dir.path()).await;
        let writes = policies::create(app, ada, "writes").await.unwrap();
        let edit = policies::Edit {
            policy: writes,
            layer: LayerName::Global,
            revision: None,
        };
        policies::grant(
            app,
            ada,
            edit,
            "db_write",
            &format!("db_connection:{other}"),
            "allow",
        )
        .await
        .unwrap();
        let html = doors.page(&cookie, &format!("/policies/{writes}")).await;
        assert!(
            html.contains("db_connection other has db_write without db_read"),
            "{html}"
        );
    });
}

// spec: PRE-001 PRE-002 PRE-004 PRE-005 PRE-034
#[test]
fn a_preset_is_shown_with_what_it_would_change_before_it_is_saved_and_saved_for_that_revision_alone() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        let cookie = doors.sign_in("ada").await;
        let project = fleet.project.to_string();
        let address = format!(
            "/policies/{}?act=preset&layer=global&preset=observer&project={project}",
            fleet.policy
        );
        let before = doors.state(doors.ada()).await;
        let html = doors.page(&cookie, &address).await;
        let preview = section(&html, "preview");
        for words in [
            "hosts_read",
            "host tower",
            ">ask<",
            ">allow<",
            "projects_read",
            "project engine",
            ">not_granted<",
        ] {
            assert!(preview.contains(words), "{words}: {preview}");
        }
        assert_eq!(doors.state(doors.ada()).await, before, "looking changes nothing");
        let revision = revision(&preview);
        let apply = [
            ("act", "preset"),
            ("revision", revision.as_str()),
            ("layer", "global"),
            ("preset", "observer"),
            ("project", project.as_str()),
        ];
        assert_eq!(act(&doors, &cookie, &fleet, &apply).await.status, 303);
        let layer = section(&page(&doors, &cookie, &fleet).await, "layer-global");
        assert!(
            layer.contains("project engine") && !layer.contains("db_read"),
            "{layer}"
        );
        let again = act(&doors, &cookie, &fleet, &apply).await;
        assert_eq!(again.status, 409, "the revision that was previewed is gone");
        let (host, revision) = (
            format!("host:{}", fleet.host),
            super::policies::revision(&page(&doors, &cookie, &fleet).await),
        );
        let revoke = [
            ("act", "revoke"),
            ("revision", revision.as_str()),
            ("layer", "global"),
            ("action", "hosts_read"),
            ("scope", host.as_str()),
        ];
        assert_eq!(act(&doors, &cookie, &fleet, &revoke).await.status, 303);
        let layer = section(&page(&doors, &cookie, &fleet).await, "layer-global");
        assert!(
            layer.contains("project engine") && !layer.contains("host tower"),
            "{layer}"
        );
        let bad = doors
            .send(Ask::get(&address.replace("observer", "everything")).cookie(&cookie))
            .await;
        assert_eq!(bad.status, 400, "{}", bad.text());
    });
}

// spec: PRE-010 PRE-016
#[test]
fn the_page_lists_what_depends_on_a_policy_and_a_deletion_in_use_is_refused_with_it() {
    doors(|doors| async move {
        let fleet = Fleet::new(&doors).await;
        let (app, ada) = (&doors.app, doors.ada());
        let cookie = doors.sign_in("ada").await;
        let other = task(
            app,
            ada,
            fleet.project,
            "Sweep <up>",
            PolicyChoice::Policy(fleet.policy),
        )
        .await;
        muster_app::projects::set_default(app, ada, fleet.project, Some(fleet.policy))
            .await
            .unwrap();
        let run = muster_app::tasks::NewRun::default();
        muster_app::tasks::spawn(app, ada, muster_app::tasks::By::Owner, other, run)
            .await
            .unwrap();
        let forked = act(&doors, &cookie, &fleet, &[("act", "fork"), ("name", "mine")]).await;
        assert_eq!(forked.status, 303, "{}", forked.text());
        let child = doors.page(&cookie, forked.location()).await;
        assert!(child.contains("a fork of") && child.contains("The fork is made"));
        let depends = section(&page(&doors, &cookie, &fleet).await, "dependents");
        for words in [
            "Tidy up",
            "Sweep &#60;up&#62;",
            "queued run of",
            "default of the project",
            "engine",
            "fork",
            "mine",
        ] {
            assert!(depends.contains(words), "{words}: {depends}");
        }
        let seen = |page: &str| -> String {
            let rest = page.split("name=\"revision\" value=\"").nth(1).unwrap();
            rest.split('"').next().unwrap().to_owned()
        };
        let (of_child, of_fleet) = (seen(&child), seen(&page(&doors, &cookie, &fleet).await));
        let refused = act(
            &doors,
            &cookie,
            &fleet,
            &[("act", "delete"), ("revision", &of_fleet)],
        )
        .await;
        assert_eq!(refused.status, 409);
        assert!(
            refused.text().contains("The policy is still in use by task")
                && refused
                    .text()
                    .contains(&format!("href=\"/policies/{}\"", fleet.policy)),
            "{}",
            refused.text()
        );
        // A page that shows another revision than there is deletes nothing.
        let delete = |revision: &str| {
            let fields = [("act", "delete"), ("revision", revision)];
            doors.send(Ask::form(forked.location(), &fields).cookie(&cookie))
        };
        let stale = delete("99").await;
        assert!(
            stale.status == 409 && stale.text().contains("at revision"),
            "{}",
            stale.text()
        );
        let gone = delete(&of_child).await;
        assert_eq!((gone.status, gone.location()), (303, "/policies"));
        assert_eq!(
            doors
                .send(Ask::get(forked.location()).cookie(&cookie))
                .await
                .status,
            404
        );
    });
}

/// The policy's layers and revision as a text.
async fn dump(doors: &Doors, fleet: &Fleet) -> String {
    let chosen = policies::find(&doors.app, doors.ada(), &fleet.policy.to_string())
        .await
        .unwrap();
    let shown = policies::show(&doors.app, doors.ada(), chosen).await.unwrap();
    json!([shown.revision, shown.layers, shown.resolved]).to_string()
}

// spec: PRE-018..PRE-021 PRE-026
#[test]
fn a_task_layer_preset_on_a_shared_policy_forks_it_for_this_task_once_and_moves_no_sibling() {
    doors(|doors| async move {
        let fleet = Fleet::asking(&doors).await;
        let (app, ada) = (&doors.app, doors.ada());
        let cookie = doors.sign_in("ada").await;
        task(
            app,
            ada,
            fleet.project,
            "Sibling",
            PolicyChoice::Policy(fleet.policy),
        )
        .await;
        let before = dump(&doors, &fleet).await;
        let address = format!("/tasks/{}/permissions", fleet.task);
        let html = doors
            .page(
                &cookie,
                &format!("{address}?act=preset&layer=task&preset=analytics-read-only"),
            )
            .await;
        let preview = section(&html, "preview");
        assert!(preview.contains("This task gets a fork of its own"), "{preview}");
        let (revision, policy) = (revision(&preview), fleet.policy.to_string());
        let preset = [
            ("act", "preset"),
            ("revision", revision.as_str()),
            ("layer", "task"),
            ("preset", "analytics-read-only"),
            ("policy", policy.as_str()),
        ];
        let applied = doors.send(Ask::form(&address, &preset).cookie(&cookie)).await;
        assert_eq!((applied.status, applied.location()), (303, address.as_str()));
        assert_eq!(
            dump(&doors, &fleet).await,
            before,
            "the shared policy is as it was, revision included"
        );
        let html = doors.page(&cookie, &address).await;
        assert!(
            html.contains("a fork of its own now") && html.contains("the policy that it was forked from"),
            "{html}"
        );
        assert!(section(&html, "layer-task").contains("db_connection staging"));
        assert!(
            section(&html, "layer-global").contains("hosts_read"),
            "read from the root"
        );
        assert!(
            !section(&html, "resolved")
                .split("id=\"taken\"")
                .next()
                .unwrap()
                .contains("hosts_read")
        );

        let stale = doors.send(Ask::form(&address, &preset).cookie(&cookie)).await;
        assert_eq!(stale.status, 409, "the task has another policy by now");
        let count = policies::list(app, ada).await.unwrap().len();
        let html = doors
            .page(
                &cookie,
                &format!("{address}?act=preset&layer=task&preset=observer"),
            )
            .await;
        let preview = section(&html, "preview");
        assert!(
            !preview.contains("gets a fork of its own"),
            "it has one: {preview}"
        );
        let (_, rest) = preview.split_once("name=\"policy\" value=\"").unwrap();
        let (child, revision) = (
            rest.split('"').next().unwrap(),
            super::policies::revision(&preview),
        );
        let again = [
            ("act", "preset"),
            ("revision", revision.as_str()),
            ("layer", "task"),
            ("preset", "observer"),
            ("policy", child),
        ];
        assert_eq!(
            doors
                .send(Ask::form(&address, &again).cookie(&cookie))
                .await
                .status,
            303
        );
        assert_eq!(
            policies::list(app, ada).await.unwrap().len(),
            count,
            "edited in place"
        );
    });
}

// spec: PRE-022..PRE-024
#[test]
fn a_preset_of_a_policy_that_one_task_has_or_of_an_upper_layer_edits_the_policy_itself() {
    doors(|doors| async move {
        let fleet = Fleet::new(&doors).await;
        let (app, ada) = (&doors.app, doors.ada());
        let cookie = doors.sign_in("ada").await;
        let address = format!("/tasks/{}/permissions", fleet.task);
        let policy = fleet.policy.to_string();
        let apply = async |layer: &str, revision: &str| {
            let preset = [
                ("act", "preset"),
                ("revision", revision),
                ("layer", layer),
                ("preset", "reviewer"),
                ("policy", policy.as_str()),
            ];
            doors
                .send(Ask::form(&address, &preset).cookie(&cookie))
                .await
                .status
        };
        assert_eq!(apply("task", "1").await, 303);
        assert_eq!(policies::list(app, ada).await.unwrap().len(), 1, "no fork");
        assert_eq!(revision(&page(&doors, &cookie, &fleet).await), "2");
        task(
            app,
            ada,
            fleet.project,
            "Sibling",
            PolicyChoice::Policy(fleet.policy),
        )
        .await;
        let warned = doors
            .page(
                &cookie,
                &format!("{address}?act=preset&layer=global&preset=reviewer"),
            )
            .await;
        assert!(warned.contains("everything that resolves through it changes"));
        assert_eq!(apply("global", "2").await, 303);
        assert_eq!(apply("project", "3").await, 303);
        assert_eq!(policies::list(app, ada).await.unwrap().len(), 1, "still no fork");
        let html = page(&doors, &cookie, &fleet).await;
        for layer in ["layer-global", "layer-project", "layer-task"] {
            assert!(section(&html, layer).contains("project engine"), "{layer}");
        }
        assert_eq!(apply("task", "3").await, 409, "a stale revision");
    });
}
