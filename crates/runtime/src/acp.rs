//! The `acp` runtime: any agent that speaks the Agent Client Protocol, kept running between turns, one session per conversation. It answers
//! every request for a permission with a refusal, whatever the request is called: its title can be a command line or a name that was chosen by
//! whoever wrote the text the agent is reading. What a chief may do without asking, muster's tools among it, is set in the agent itself; only
//! Claude's agent is told in `session/new` that muster's tools are allowed, because it has a place for that which no text can reach.
//!
//! The agent is started with the turn's address and token. When a later turn brings others, it is started anew, and its sessions are taken up
//! again if it can do that; so an agent never works with a token of another time. `MUSTER_CONVERSATION` is the conversation that it was started
//! for; each session names its own in `_meta.muster` of `session/new`.

mod connection;
mod sessions;

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, PromptRequest, SessionId, StopReason, TextContent,
};
use agent_client_protocol::{Error, is_connection_terminated, is_incoming_transport_closed};
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

use crate::child::{after, later, span};
use crate::seat::Seat;
use crate::text::{END_OF_TURN, Reply, told};
use crate::{Outcome, Program, Runtime, Settings, Turn, TurnFuture};
use connection::{CANCEL, Live};

pub(crate) struct Acp {
    program: Program,
    settings: Settings,
    /// The running agent between two turns. A turn takes it out and puts it back only when the agent is sound, so that a turn that is
    /// given up, or breaks off, ends the agent.
    idle: Mutex<Option<Live>>,
}

impl Acp {
    pub(crate) fn new(program: Program, settings: Settings) -> Self {
        Self {
            program,
            settings,
            idle: Mutex::new(None),
        }
    }

    async fn run(&self, turn: Turn) -> Outcome {
        let seat = match Seat::take(&self.settings, &turn).await {
            Ok(seat) => seat,
            Err(reason) => return Outcome::NotStarted { reason },
        };
        let deadline = after(self.settings.watchdog);
        let kept = self.idle.lock().await.take();
        let (live, session) = match self.prepare(kept, &seat, &turn).await {
            Ok(prepared) => prepared,
            Err(reason) => return Outcome::NotStarted { reason },
        };
        if Instant::now() >= deadline {
            live.end().await;
            return Outcome::NotStarted {
                reason: self.too_slow(),
            };
        }
        let (outcome, sound) = self.prompt(&live, session, &turn, deadline).await;
        if sound {
            *self.idle.lock().await = Some(live);
            return outcome;
        }
        let complaint = live.end().await;
        match outcome {
            Outcome::BrokenOff { reason } => Outcome::BrokenOff {
                reason: told(&reason, &complaint),
            },
            other => other,
        }
    }

    /// An agent with a session for the conversation. A kept one that fails here is replaced once: nothing was handed to it.
    async fn prepare(
        &self,
        kept: Option<Live>,
        seat: &Seat,
        turn: &Turn,
    ) -> Result<(Live, SessionId), String> {
        if let Some(mut live) = kept {
            if live.serves(turn)
                && let Ok(Ok(session)) = timeout(self.settings.start, live.session(seat, turn)).await
            {
                return Ok((live, session));
            }
            live.end().await;
        }
        let mut live = Live::start(&self.program, &self.settings, seat, turn).await?;
        let ready = timeout(self.settings.start, async {
            live.introduce().await?;
            live.session(seat, turn).await
        });
        let failure = match ready.await {
            Ok(Ok(session)) => return Ok((live, session)),
            Ok(Err(reason)) => reason,
            Err(_) => self.too_slow(),
        };
        let complaint = live.end().await;
        Err(told(&failure, &complaint))
    }

    fn too_slow(&self) -> String {
        let limit = span(self.settings.start.min(self.settings.watchdog));
        format!("the chief's agent was not ready within {limit}, and muster ended it.")
    }

    /// Hands the text over and waits for the end of the turn. The flag says whether the agent can take another turn.
    async fn prompt(
        &self,
        live: &Live,
        session: SessionId,
        turn: &Turn,
        deadline: Instant,
    ) -> (Outcome, bool) {
        live.hearing.begin(&session);
        let blocks = [turn.text.as_str(), END_OF_TURN].map(|text| ContentBlock::Text(TextContent::new(text)));
        let request = PromptRequest::new(session.clone(), blocks.to_vec());
        // Ordered: the callback is over before the agent's next message is heard, so that what it says after the end of the turn is
        // no part of the reply.
        let (tell, told_end) = oneshot::channel();
        let hearing = live.hearing.clone();
        let sent = live
            .connection
            .prepare_request(request)
            .on_receiving_result(async move |result| {
                let _ = tell.send((result.map(|response| response.stop_reason), hearing.end()));
                Ok(())
            });
        if sent.is_err() {
            return (cut(), false);
        }
        let mut answer = std::pin::pin!(told_end);
        let stuck = loop {
            let silent = later(live.hearing.last(), self.settings.idle);
            tokio::select! {
                answer = &mut answer => return answer.map_or_else(|_| (cut(), false), |(answer, reply)| settle(live, answer, reply)),
                () = sleep_until(deadline.min(silent)) => {}
            }
            if Instant::now() >= deadline {
                break format!(
                    "the chief's agent did not finish within {}, and muster ended it.",
                    span(self.settings.watchdog)
                );
            }
            if Instant::now() >= later(live.hearing.last(), self.settings.idle) {
                break format!(
                    "the chief's agent said nothing for {}, and muster ended it.",
                    span(self.settings.idle)
                );
            }
        };
        // Asked to stop first, so that it can tidy up; whatever it answers now, the turn is broken off.
        if live
            .connection
            .send_notification(CancelNotification::new(session))
            .is_ok()
        {
            let _ = timeout(CANCEL, answer).await;
        }
        (Outcome::BrokenOff { reason: stuck }, false)
    }
}

fn cut() -> Outcome {
    Outcome::BrokenOff {
        reason: "the chief's agent ended, or closed its output, in the middle of the turn.".to_owned(),
    }
}

fn settle(live: &Live, answer: Result<StopReason, Error>, reply: Reply) -> (Outcome, bool) {
    let reason = match answer {
        Ok(StopReason::EndTurn) => {
            return (
                Outcome::Completed {
                    reply: reply.into_text(),
                },
                true,
            );
        }
        Ok(StopReason::MaxTokens) => "the model ran out of tokens before the end of the turn.".to_owned(),
        Ok(StopReason::MaxTurnRequests) => {
            "the chief's agent reached its limit of requests before the end of the turn.".to_owned()
        }
        Ok(StopReason::Refusal) => "the chief's agent refused to go on with the turn.".to_owned(),
        Ok(StopReason::Cancelled) => "the chief's agent reports the turn as cancelled.".to_owned(),
        Ok(_) => "the chief's agent ended the turn for a reason that muster does not know.".to_owned(),
        Err(error)
            if live.is_cut() || is_incoming_transport_closed(&error) || is_connection_terminated(&error) =>
        {
            return (cut(), false);
        }
        Err(error) => told(
            "the chief's agent answered the turn with an error.",
            &error.to_string(),
        ),
    };
    (Outcome::BrokenOff { reason }, true)
}

impl Runtime for Acp {
    fn turn(&self, turn: Turn) -> TurnFuture<'_> {
        Box::pin(self.run(turn))
    }
}

/// Shared by the connection's callbacks and the turn.
type Shared<T> = Arc<std::sync::Mutex<T>>;
