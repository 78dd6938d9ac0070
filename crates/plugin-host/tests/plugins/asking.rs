//! What happens while a call waits for a person: rules, packages and tools that change meanwhile. Never answers an ask before what it is about has changed.

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use muster_plugin_host::session::{Again, Approver, Ask, Options, Overruled, Verdict};
use muster_plugin_host::{Act, Target};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::common::{Agent, World};
use crate::session::error_code;

/// A person who answers when the test says so, and then says yes. It looks again as whoever writes a yes down does, or leaves that to the session.
#[derive(Clone)]
struct Person {
    looks: bool,
    waiting: Arc<Mutex<Vec<oneshot::Sender<()>>>>,
    verdicts: Arc<Mutex<Vec<Verdict>>>,
}

impl Approver for Person {
    fn ask<'a>(&'a self, _ask: Ask, again: Again<'a>) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.waiting.lock().unwrap().push(answer);
            answered.await.unwrap();
            let found = if self.looks { again.await } else { Ok(()) };
            let verdict = found.map_or_else(Verdict::Overruled, |()| Verdict::Allowed);
            self.verdicts.lock().unwrap().push(verdict.clone());
            verdict
        })
    }
}

impl Person {
    fn new(looks: bool) -> Self {
        Self {
            looks,
            waiting: Arc::default(),
            verdicts: Arc::default(),
        }
    }

    fn options(&self, world: &World) -> Options {
        Options {
            approver: Arc::new(self.clone()),
            ..world.options()
        }
    }

    async fn until_asked(&self, count: usize) {
        let reached = async {
            while self.waiting.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reached)
            .await
            .unwrap();
    }

    /// Says yes to the call that has waited longest.
    fn says_yes(&self) {
        self.waiting.lock().unwrap().remove(0).send(()).unwrap();
    }

    /// What the person's own look found, of the calls so far.
    fn overruled(&self) -> Vec<&'static str> {
        let verdicts = self.verdicts.lock().unwrap();
        verdicts
            .iter()
            .map(|verdict| match verdict {
                Verdict::Overruled(Overruled { word, .. }) => *word,
                _ => "",
            })
            .collect()
    }
}

async fn begins(agent: &mut Agent, tool: &str, arguments: Value) -> Value {
    agent
        .start("tools/call", json!({"name": tool, "arguments": arguments}))
        .await
}

/// How often the server was called.
fn called(world: &World) -> usize {
    let path = world.path("data/plugins/data/p/called");
    fs::read_to_string(path).unwrap_or_default().lines().count()
}

fn message(answer: &Value) -> &str {
    answer["result"]["structuredContent"]["error"]["message"]
        .as_str()
        .unwrap()
}

#[tokio::test]
async fn a_rule_that_refuses_by_the_time_of_a_yes_is_what_is_written_down() {
    for looks in [true, false] {
        let world = World::new();
        let key = world.installed("p", &[]);
        fs::create_dir_all(world.path("data/plugins/data/p")).unwrap();
        let person = Person::new(looks);
        let mut agent = world.agent_with(&key, person.options(&world));
        agent.initialize().await;
        let waits = begins(&mut agent, "write", json!({})).await;
        person.until_asked(1).await;
        world.settings(&json!({"permissions": {"deny": ["mcp__plugin_p_s__write"]}}));
        person.says_yes();
        let answer = agent.answer(&waits).await;
        assert_eq!(error_code(&answer["result"]), "refused_denied");
        agent.close().await;
        assert_eq!(person.overruled(), [if looks { "refused_denied" } else { "" }]);
        assert!(world.happenings().contains(&"call deny:rule".to_owned()));
        assert!(!world.happenings().contains(&"call allow:person".to_owned()));
        assert_eq!(called(&world), 0);
    }
}

#[tokio::test]
async fn a_package_that_was_decided_about_or_changed_while_its_call_waited_is_not_called() {
    let changes: [fn(&World); 4] = [
        |world| {
            let package = Target::Plugin("p".to_owned());
            world.host.decide(&package, Act::Reject, None).unwrap();
        },
        |world| {
            let package = Target::Plugin("p".to_owned());
            world.host.decide(&package, Act::Disable, None).unwrap();
        },
        |world| world.host.remove("p").map(drop).unwrap(),
        |world| {
            fs::write(world.path("packages/p/newer"), "").unwrap();
            world.host.update("p").map(drop).unwrap();
            world.approve("p");
        },
    ];
    for change in changes {
        for looks in [true, false] {
            let world = World::new();
            let key = world.installed("p", &[]);
            fs::create_dir_all(world.path("data/plugins/data/p")).unwrap();
            let person = Person::new(looks);
            let mut agent = world.agent_with(&key, person.options(&world));
            agent.initialize().await;
            let waits = begins(&mut agent, "write", json!({})).await;
            person.until_asked(1).await;
            change(&world);
            person.says_yes();
            let answer = agent.answer(&waits).await;
            assert_eq!(error_code(&answer["result"]), "refused_error");
            let said = message(&answer);
            assert!(said.contains("changed") && said.contains("decided"), "{said}");
            agent.close().await;
            assert_eq!(person.overruled(), [if looks { "refused_error" } else { "" }]);
            assert_eq!(called(&world), 0);
        }
    }
}

#[tokio::test]
async fn a_session_that_goes_on_after_its_package_changed_still_asks_and_is_answered() {
    let world = World::new();
    let key = world.installed("p", &[]);
    let person = Person::new(true);
    let mut agent = world.agent_with(&key, person.options(&world));
    agent.initialize().await;
    fs::write(world.path("packages/p/newer"), "").unwrap();
    world.host.update("p").unwrap();
    let waits = begins(&mut agent, "write", json!({})).await;
    person.until_asked(1).await;
    person.says_yes();
    let answer = agent.answer(&waits).await;
    assert_eq!(answer["result"]["content"][0]["text"], "called write with {}");
    agent.close().await;
}

#[tokio::test]
async fn a_ledger_that_somebody_else_holds_holds_up_no_other_request() {
    let world = World::new();
    let key = world.installed("p", &[]);
    let lock = || {
        let file = fs::File::options()
            .append(true)
            .open(world.path("data/plugins/ledger.lock"))
            .unwrap();
        file.lock().unwrap();
        file
    };
    let person = Person::new(true);
    let mut agent = world.agent_with(&key, person.options(&world));
    // The list is to be noted.
    let held = lock();
    agent.initialize().await;
    let list = agent.start("tools/list", json!({})).await;
    for _ in 0..20 {
        assert!(
            agent
                .ask("resources/list", json!({}))
                .await
                .get("error")
                .is_some()
        );
    }
    assert!(agent.others.iter().all(|message| message["id"] != list));
    drop(held);
    assert!(agent.answer(&list).await["result"]["tools"].is_array());
    // The copy is not where it was, and whether it only moves is to be looked at.
    let root = world.host.inspect("p").unwrap().root;
    let held = lock();
    fs::rename(&root, world.path("elsewhere")).unwrap();
    let waits = begins(&mut agent, "write", json!({})).await;
    for _ in 0..20 {
        assert!(
            agent
                .ask("resources/list", json!({}))
                .await
                .get("error")
                .is_some()
        );
    }
    assert_eq!(person.waiting.lock().unwrap().len(), 0);
    fs::rename(world.path("elsewhere"), &root).unwrap();
    drop(held);
    person.until_asked(1).await;
    person.says_yes();
    let answer = agent.answer(&waits).await;
    assert_eq!(answer["result"]["content"][0]["text"], "called write with {}");
    agent.close().await;
}

#[tokio::test]
async fn a_change_of_its_tools_that_a_server_tells_of_while_a_call_waits_is_looked_at() {
    for looks in [true, false] {
        let world = World::new();
        let key = world.installed("p", &["changing"]);
        fs::create_dir_all(world.path("data/plugins/data/p")).unwrap();
        world.settings(&json!({"approval_mode": "always-ask"}));
        let person = Person::new(looks);
        let mut agent = world.agent_with(&key, person.options(&world));
        agent.initialize().await;
        agent.tools().await;
        let first = begins(&mut agent, "look", json!({"a": 1})).await;
        person.until_asked(1).await;
        let second = begins(&mut agent, "look", json!({"a": 2})).await;
        person.until_asked(2).await;
        person.says_yes();
        // The server tells of its change before it answers, and nobody asks it for a list.
        let answer = agent.answer(&first).await;
        assert_eq!(answer["result"]["content"][0]["text"], "looked");
        person.says_yes();
        let answer = agent.answer(&second).await;
        assert_eq!(error_code(&answer["result"]), "refused_error");
        assert!(
            message(&answer).contains("another tool under this name"),
            "{answer}"
        );
        agent.close().await;
        assert_eq!(called(&world), 1);
    }
}
