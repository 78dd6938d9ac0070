//! The `claude-code` runtime: the `claude` program headless, a process per turn, one conversation resumed between turns, muster's tools
//! registered as the MCP server `muster`. It never writes a token to a disk or a command line, and it grants no tool but muster's.
//!
//! A turn goes so: the program is started, is asked to say that it is ready (`initialize`), whether somebody is signed in, and whether it
//! reached muster's tools; only then is the text written. All that fails before that point is certain to have reached no model. The program
//! keeps its conversations itself; the id of one is derived from the work folder and the conversation, so nothing has to be stored here.

mod frames;

use std::ffi::OsString;
use std::path::Path;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::FusedFuture as _;
use muster_core::secret::sha256_hex;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::child::{Group, Lines, Started, after, beside, ending, pump, span, start};
use crate::seat::Seat;
use crate::text::{Complaint, told};
use crate::{Outcome, Program, Runtime, Settings, Turn, TurnFuture};
use frames::{Frame, Tools, Verdict};

/// The longest line the program may write, in bytes. Its frames carry whole tool results.
const LINE_LIMIT: usize = 64 * 1024 * 1024;
/// How long the program may take to store its conversation and go, once the turn is over.
const LEAVE: Duration = Duration::from_secs(10);
/// How long the program may try to reach muster's tools before it is handed the text anyway.
const TOOLS: Duration = Duration::from_secs(10);

pub(crate) struct ClaudeCode {
    program: Program,
    settings: Settings,
}

/// How the program is to find its conversation.
#[derive(Clone, Copy)]
enum Opening {
    Resume,
    New,
}

/// Why a turn did not complete.
enum Failure {
    /// The program ended by itself before the text was written; what it said about it follows the sentence.
    Gone(String),
    /// The text was not written.
    NotStarted(String),
    /// The text, or a part of it, was written.
    BrokenOff(String),
}

impl ClaudeCode {
    pub(crate) fn new(program: Program, settings: Settings) -> Self {
        Self { program, settings }
    }

    async fn run(&self, turn: Turn) -> Outcome {
        let seat = match Seat::take(&self.settings, &turn).await {
            Ok(seat) => seat,
            Err(reason) => return Outcome::NotStarted { reason },
        };
        let deadline = after(self.settings.watchdog);
        let session = session_id(&seat.folder, &turn.conversation);
        let resumed = self
            .attempt(&seat, &turn, &session, Opening::Resume, deadline)
            .await;
        // A conversation that the program does not know, because this is its first turn or it was tidied away, ends the program before
        // it reads anything: then the same id is opened as a new one.
        let result = match resumed {
            Err(Failure::Gone(first)) => {
                let fresh = self.attempt(&seat, &turn, &session, Opening::New, deadline).await;
                match fresh {
                    // The conversation is there, so the first reason is the true one.
                    Err(Failure::Gone(second)) if second.contains("already in use") => {
                        Err(Failure::Gone(first))
                    }
                    other => other,
                }
            }
            other => other,
        };
        match result {
            Ok(reply) => Outcome::Completed { reply },
            Err(Failure::Gone(reason) | Failure::NotStarted(reason)) => Outcome::NotStarted { reason },
            Err(Failure::BrokenOff(reason)) => Outcome::BrokenOff { reason },
        }
    }

    /// One run of the program.
    async fn attempt(
        &self,
        seat: &Seat,
        turn: &Turn,
        session: &str,
        opening: Opening,
        deadline: Instant,
    ) -> Result<String, Failure> {
        let started = start(
            &self.program,
            &arguments(turn, session, opening),
            &self.settings,
            turn,
        );
        let Started {
            mut group,
            stdin,
            stdout,
            stderr,
        } = started.map_err(Failure::NotStarted)?;
        if let Err(reason) = seat.note_child(group.id()) {
            group.end().await;
            return Err(Failure::NotStarted(reason));
        }
        let complaint = Mutex::new(Complaint::default());
        let mut drain = pin!(
            pump(stderr, |piece| complaint
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(piece))
            .fuse()
        );

        let mut talk = Talk {
            lines: Lines::new(stdout, LINE_LIMIT),
            stdin: Some(stdin),
        };
        let result = beside(self.hand_over(&mut talk, turn, deadline), drain.as_mut()).await;
        let result = match result {
            // It closed its output, so it is about to end; how it ended is part of the reason.
            Err(Failure::Gone(said)) => {
                let status = timeout(Duration::from_secs(1), beside(group.wait(), drain.as_mut())).await;
                group.kill();
                let how = status.map_or_else(|_| "closed its output".to_owned(), |status| ending(&status));
                let sentence = format!("the chief's program {how} before the turn began.");
                Err(Failure::Gone(if said.is_empty() {
                    sentence
                } else {
                    told(&sentence, &said)
                }))
            }
            other => other,
        };
        leave(group, talk, &result).await;
        if !drain.is_terminated() {
            let _ = timeout(Duration::from_millis(200), drain.as_mut()).await;
        }
        let complaint = complaint.lock().unwrap_or_else(PoisonError::into_inner);
        result.map_err(|failure| match failure {
            Failure::Gone(reason) => Failure::Gone(complaint.after(&reason)),
            Failure::NotStarted(reason) => Failure::NotStarted(complaint.after(&reason)),
            Failure::BrokenOff(reason) => Failure::BrokenOff(complaint.after(&reason)),
        })
    }

    async fn hand_over(&self, talk: &mut Talk, turn: &Turn, deadline: Instant) -> Result<String, Failure> {
        let ready = deadline.min(after(self.settings.start));
        let too_slow = || {
            let limit = span(self.settings.start.min(self.settings.watchdog));
            Failure::NotStarted(format!(
                "the chief's program was not ready within {limit}, and muster ended it."
            ))
        };
        timeout_at(ready, talk.until_ready())
            .await
            .map_err(|_| too_slow())??;
        // A program that does not know, or does not say, is handed the text all the same.
        if let Ok(Err(failure)) = timeout_at(ready.min(after(TOOLS)), talk.until_tools()).await {
            return Err(failure);
        }

        let limit = span(self.settings.watchdog);
        timeout_at(deadline, talk.deliver(&turn.text))
            .await
            .map_err(|_| {
                Failure::BrokenOff(format!(
                    "the chief's program did not finish within {limit}, and muster ended it."
                ))
            })?
    }
}

impl Runtime for ClaudeCode {
    fn turn(&self, turn: Turn) -> TurnFuture<'_> {
        Box::pin(self.run(turn))
    }
}

/// Lets a program that finished its turn go by itself, and ends any other.
async fn leave(mut group: Group, talk: Talk, result: &Result<String, Failure>) {
    let Talk { mut lines, stdin } = talk;
    drop(stdin);
    if result.is_ok() {
        // What it still writes is read and dropped, so that a full pipe does not keep it.
        let mut rest = pin!(async { while let Ok(Some(_)) = lines.next().await {} }.fuse());
        let _ = timeout(LEAVE, beside(group.wait(), rest.as_mut())).await;
    }
    group.end().await;
}

/// A conversation's id in the program's own form. Two installations, or two chiefs, never share one: their folders differ.
fn session_id(folder: &Path, conversation: &str) -> String {
    let mut seed = folder.as_os_str().as_encoded_bytes().to_vec();
    seed.push(0);
    seed.extend_from_slice(conversation.as_bytes());
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(sha256_hex(&seed).as_bytes().chunks(2)) {
        *byte = std::str::from_utf8(pair)
            .ok()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .unwrap_or_default();
    }
    uuid::Builder::from_sha1_bytes(bytes).into_uuid().to_string()
}

fn arguments(turn: &Turn, session: &str, opening: Opening) -> Vec<OsString> {
    // The program fills in the variable itself: the token is in its environment, and on no command line.
    let servers = serde_json::json!({"mcpServers": {"muster": {
        "type": "http",
        "url": turn.mcp_url,
        "headers": {"Authorization": "Bearer ${MUSTER_AGENT_TOKEN}"},
    }}});
    let find = match opening {
        Opening::Resume => "--resume",
        Opening::New => "--session-id",
    };
    let mut words = vec![
        "-p",
        "--input-format",
        "stream-json",
        "--output-format",
        "stream-json",
        "--verbose",
    ];
    words.extend([
        "--allowedTools",
        "mcp__muster",
        "--strict-mcp-config",
        "--mcp-config",
    ]);
    let mut words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    words.push(servers.to_string().into());
    words.extend([find.into(), session.into()]);
    let title: String = muster_core::text::terminal(&turn.title)
        .chars()
        .take(120)
        .collect();
    if !title.is_empty() {
        words.push(format!("--name={title}").into());
    }
    words
}

/// The two pipes of a run.
struct Talk {
    lines: Lines<ChildStdout>,
    stdin: Option<ChildStdin>,
}

impl Talk {
    /// The next frame; `None` at the end of the output.
    async fn frame(&mut self) -> std::io::Result<Option<Frame>> {
        while let Some(line) = self.lines.next().await? {
            if let Some(frame) = Frame::parse(&line) {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    async fn write(&mut self, line: &str) -> std::io::Result<()> {
        let Some(stdin) = self.stdin.as_mut() else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        stdin.write_all(line.as_bytes()).await?;
        stdin.flush().await
    }

    /// Asks one question and waits for its answer, before the text is written.
    async fn ask(&mut self, id: &str, subtype: &str) -> Result<frames::Answer, Failure> {
        let mut said = String::new();
        // A program that is gone cannot be written to; what it wrote before it went is read all the same.
        let _ = self.write(&frames::question(id, subtype)).await;
        loop {
            match self.frame().await {
                Ok(Some(Frame::Answer(answer))) if answer.is_to(id) => return Ok(answer),
                Ok(Some(Frame::Result(result))) => said = result.words(),
                Ok(Some(_)) => {}
                Ok(None) => return Err(Failure::Gone(said)),
                Err(error) => {
                    return Err(Failure::NotStarted(format!(
                        "the chief's program could not be understood ({error})."
                    )));
                }
            }
        }
    }

    async fn until_ready(&mut self) -> Result<(), Failure> {
        let answer = self.ask("muster-ready", "initialize").await?;
        if answer.nobody_is_signed_in() {
            return Err(Failure::NotStarted(
                "Claude Code is not signed in; run claude once as the user that muster runs as and sign in, or set ANTHROPIC_API_KEY for muster."
                    .to_owned(),
            ));
        }
        Ok(())
    }

    async fn until_tools(&mut self) -> Result<(), Failure> {
        let mut number = 0_u64;
        loop {
            number = number.wrapping_add(1);
            match self
                .ask(&format!("muster-tools-{number}"), "mcp_status")
                .await?
                .tools()
            {
                Tools::Pending => sleep(Duration::from_millis(50)).await,
                Tools::Reached | Tools::Unknown => return Ok(()),
                Tools::Unreachable => {
                    let reason = "Claude Code could not reach muster's tools; check that MUSTER_PUBLIC_URL is reachable from this machine.";
                    return Err(Failure::NotStarted(reason.to_owned()));
                }
            }
        }
    }

    /// Writes the text and reads to the end of the turn.
    async fn deliver(&mut self, text: &str) -> Result<String, Failure> {
        let line = frames::user(text);
        let Some(mut stdin) = self.stdin.take() else {
            return Err(Failure::NotStarted(
                "the chief's program cannot be written to.".to_owned(),
            ));
        };
        let mut write = pin!(
            async {
                // An error shows in what the program says, or in its end.
                let _ = stdin.write_all(line.as_bytes()).await;
                let _ = stdin.flush().await;
            }
            .fuse()
        );
        let outcome = beside(self.until_result(), write.as_mut()).await;
        drop(stdin);
        outcome
    }

    async fn until_result(&mut self) -> Result<String, Failure> {
        // Set when a request to the model failed, and until the model was heard again. The program can give up such a request and still
        // call the turn completed, with nothing said.
        let mut unanswered = false;
        loop {
            match self.frame().await {
                Ok(Some(Frame::Retry)) => unanswered = true,
                Ok(Some(Frame::Assistant)) => unanswered = false,
                Ok(Some(Frame::Result(result))) => {
                    return match result.verdict() {
                        Verdict::Completed if unanswered => Err(Failure::BrokenOff(
                            "the connection to the model broke in the turn, and the model was not heard again.".to_owned(),
                        )),
                        Verdict::Completed => Ok(result.into_reply()),
                        Verdict::Failed(sentence) => Err(Failure::BrokenOff(told(&sentence, &result.words()))),
                    };
                }
                Ok(Some(_)) => {}
                Ok(None) => {
                    return Err(Failure::BrokenOff(
                        "the chief's program ended in the middle of the turn.".to_owned(),
                    ));
                }
                Err(error) => {
                    return Err(Failure::BrokenOff(format!(
                        "the chief's program could not be understood ({error})."
                    )));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_core::secret::Secret;

    #[test]
    fn a_conversation_keeps_its_id_and_shares_it_with_no_other() {
        let id = session_id(Path::new("/a"), "c-1");
        assert_eq!(id, session_id(Path::new("/a"), "c-1"));
        assert_eq!(id.parse::<uuid::Uuid>().unwrap().get_version_num(), 5);
        for (folder, conversation) in [("/a", "c-2"), ("/b", "c-1"), ("/a/c", "-1")] {
            assert_ne!(id, session_id(Path::new(folder), conversation));
        }
    }

    #[test]
    fn no_argument_holds_the_token() {
        let turn = Turn {
            conversation: "c".to_owned(),
            title: "-Mail \u{1b}[1m".to_owned(),
            text: "t".to_owned(),
            mcp_url: "http://127.0.0.1:1/mcp".to_owned(),
            agent_token: Secret::new("mag_very_secret"),
        };
        let words = arguments(&turn, "id", Opening::New);
        assert!(
            words
                .iter()
                .all(|word| !word.to_string_lossy().contains("very_secret"))
        );
        assert!(words.iter().any(|word| word == "--name=-Mail \\u{1b}[1m"));
    }
}
