//! A chief that does what a test says: at the edge where a model would be. Never answers by itself.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock};

use muster_app::accounts::AgentCaller;
use muster_app::chief::MakeRuntime;
use muster_app::{App, accounts};
use muster_runtime::{Outcome, Runtime, Turn, TurnFuture};
use tokio::sync::Notify;

type Act = Arc<
    dyn Fn(App, AgentCaller, Turn) -> std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync,
>;

/// What the chief does with one turn.
#[derive(Clone)]
pub enum Step {
    /// Completes with these words.
    Complete(&'static str),
    /// Breaks off after it may have read the turn.
    BreakOff,
    /// Cannot be started.
    NotStarted,
    /// Waits until the gate opens, then completes.
    Hold(Arc<Notify>),
    /// Acts with its tools.
    Act(Act),
}

#[derive(Default)]
struct Script {
    steps: VecDeque<Step>,
    otherwise: Option<Step>,
    turns: Vec<Turn>,
    running: usize,
    most_at_once: usize,
}

/// The chief's script and what it was told. Cloning shares it.
#[derive(Clone, Default)]
pub struct ScriptedChief {
    script: Arc<Mutex<Script>>,
    app: Arc<OnceLock<App>>,
}

impl ScriptedChief {
    pub(crate) fn serve(&self, app: App) {
        drop(self.app.set(app));
    }

    pub(crate) fn factory(self) -> MakeRuntime {
        Arc::new(move |_| Arc::new(self.clone()))
    }

    /// Adds a step for the next turn that has none.
    pub fn then(&self, step: Step) {
        self.script.lock().unwrap().steps.push_back(step);
    }

    /// What it does when the steps are used up; it completes when nothing is said.
    pub fn otherwise(&self, step: Step) {
        self.script.lock().unwrap().otherwise = Some(step);
    }

    /// A step that acts with the tools of the turn's own token.
    pub fn acting<F: Future<Output = Outcome> + Send + 'static>(
        act: impl Fn(App, AgentCaller, Turn) -> F + Send + Sync + 'static,
    ) -> Step {
        Step::Act(Arc::new(move |app, caller, turn| {
            Box::pin(act(app, caller, turn))
        }))
    }

    /// The turns it was given, in order.
    pub fn turns(&self) -> Vec<Turn> {
        self.script.lock().unwrap().turns.clone()
    }

    /// How many turns ever ran at the same time.
    pub fn most_at_once(&self) -> usize {
        self.script.lock().unwrap().most_at_once
    }

    /// Waits until `count` turns were begun.
    pub async fn begun(&self, count: usize) {
        for _ in 0..12_000 {
            if self.turns().len() >= count {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the chief was given {} turns, not {count}", self.turns().len());
    }
}

impl Runtime for ScriptedChief {
    fn turn(&self, turn: Turn) -> TurnFuture<'_> {
        Box::pin(async move {
            let step = {
                let mut script = self.script.lock().unwrap();
                let step = script
                    .steps
                    .pop_front()
                    .or_else(|| script.otherwise.clone())
                    .unwrap_or(Step::Complete("done"));
                if !matches!(step, Step::NotStarted) {
                    script.turns.push(turn.clone());
                }
                script.running += 1;
                script.most_at_once = script.most_at_once.max(script.running);
                step
            };
            let outcome = match step {
                Step::Complete(words) => Outcome::Completed {
                    reply: words.to_owned(),
                },
                Step::BreakOff => Outcome::BrokenOff {
                    reason: "the script says so".to_owned(),
                },
                Step::NotStarted => Outcome::NotStarted {
                    reason: "the script says so".to_owned(),
                },
                Step::Hold(gate) => {
                    gate.notified().await;
                    Outcome::Completed {
                        reply: "held".to_owned(),
                    }
                }
                Step::Act(act) => {
                    let app = self.app.get().unwrap().clone();
                    let caller = accounts::agent(&app, turn.agent_token.expose())
                        .await
                        .unwrap()
                        .expect("the turn's token is live");
                    act(app, caller, turn).await
                }
            };
            self.script.lock().unwrap().running -= 1;
            outcome
        })
    }
}
