//! The `command` runtime: a program per turn, the text on its standard input, the reply on its standard output. It never keeps anything
//! between turns.

use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::{timeout, timeout_at};

use crate::child::{Started, after, beside, ending, feed, pump, span, start};
use crate::seat::Seat;
use crate::text::{Complaint, Reply};
use crate::{Outcome, Program, Runtime, Settings, Turn, TurnFuture};

/// How long the pipes of a program that ended are still read, should a process that left its group hold them open.
const LEFTOVER: Duration = Duration::from_secs(1);

pub(crate) struct Command {
    program: Program,
    settings: Settings,
}

impl Command {
    pub(crate) fn new(program: Program, settings: Settings) -> Self {
        Self { program, settings }
    }

    async fn run(&self, turn: Turn) -> Outcome {
        let seat = match Seat::take(&self.settings, &turn).await {
            Ok(seat) => seat,
            Err(reason) => return Outcome::NotStarted { reason },
        };
        let deadline = after(self.settings.watchdog);
        let Started {
            mut group,
            stdin,
            stdout,
            stderr,
        } = match start(&self.program, &[], &self.settings, &turn) {
            Ok(started) => started,
            Err(reason) => return Outcome::NotStarted { reason },
        };
        if let Err(reason) = seat.note_child(group.id()) {
            // The text has not been written yet, but the program runs and may act without it: it is ended before that is said.
            group.end().await;
            return Outcome::NotStarted { reason };
        }

        let (mut reply, mut complaint) = (Reply::default(), Complaint::default());
        let status = {
            let read = async {
                tokio::join!(
                    pump(stdout, |piece| reply.push(piece)),
                    pump(stderr, |piece| complaint.push(piece))
                );
            };
            let mut read = pin!(read.fuse());
            let mut write = pin!(feed(stdin, turn.text.as_bytes()).fuse());
            // The end of the program decides, not the end of its output: a pipe may be closed early or held open by others.
            let status = timeout_at(
                deadline,
                beside(beside(group.wait(), read.as_mut()), write.as_mut()),
            )
            .await;
            if status.is_ok() {
                group.kill();
                if !futures::future::FusedFuture::is_terminated(&read) {
                    let _ = timeout(LEFTOVER, read).await;
                }
            }
            status
        };
        match status {
            Ok(status) => settle(&status, reply, &complaint),
            Err(_) => {
                group.end().await;
                let limit = span(self.settings.watchdog);
                Outcome::BrokenOff {
                    reason: complaint.after(&format!(
                        "the chief's program did not finish within {limit}, and muster ended it."
                    )),
                }
            }
        }
    }
}

fn settle(status: &io::Result<ExitStatus>, reply: Reply, complaint: &Complaint) -> Outcome {
    if status.as_ref().is_ok_and(ExitStatus::success) {
        Outcome::Completed {
            reply: reply.into_text(),
        }
    } else {
        Outcome::BrokenOff {
            reason: complaint.after(&format!("the chief's program {}.", ending(status))),
        }
    }
}

impl Runtime for Command {
    fn turn(&self, turn: Turn) -> TurnFuture<'_> {
        Box::pin(self.run(turn))
    }
}
