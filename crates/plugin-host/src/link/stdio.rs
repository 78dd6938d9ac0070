//! A server over its standard streams: started, its framing found out, then read until it ends. Never writes to a server that it did not start.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use tokio::io::AsyncReadExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::outbox::{Closed, Outbox};
use super::{Budgets, Incoming, Outgoing, Over};
use crate::child::{Launcher, Plan, Running, start};
use crate::frame::{Decoder, Frame, Framing};
use crate::jsonrpc::Message;
use crate::package::Family;

/// Everything that a start needs, to do it again.
#[derive(Debug, Clone)]
pub(crate) struct Starter {
    pub(crate) launcher: Launcher,
    pub(crate) plan: Plan,
    pub(crate) family: Family,
    pub(crate) data_dir: PathBuf,
}

impl Starter {
    async fn start(&self, framing: Framing) -> Result<Candidate, String> {
        let running = start(&self.launcher, &self.plan, self.family, &self.data_dir, framing).await?;
        Ok(Candidate {
            running,
            decoder: Decoder::default(),
        })
    }
}

/// Where messages go.
#[derive(Debug)]
enum Route {
    /// To whoever finds out the framing.
    Probing(mpsc::Sender<Outgoing>),
    /// To the server.
    Direct(Arc<Outbox>, Framing),
}

/// The way to a server over its streams.
#[derive(Debug)]
pub(crate) struct StdioLink {
    route: Arc<tokio::sync::Mutex<Route>>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl StdioLink {
    /// Starts the server. What comes of it is given to `incoming`.
    pub(crate) async fn open(
        starter: Starter,
        budgets: Budgets,
        incoming: mpsc::Sender<Incoming>,
    ) -> Result<Self, String> {
        let first = starter.start(Framing::Lines).await?;
        let (sender, queue) = mpsc::channel(64);
        let route = Arc::new(tokio::sync::Mutex::new(Route::Probing(sender)));
        let (stop, stopped) = oneshot::channel();
        let probe = Probe {
            starter,
            budgets,
            queue,
            history: Vec::new(),
            begun: None,
            candidates: [Some(first), None],
            other_tried: false,
            again_tried: false,
        };
        let task = tokio::spawn(pump(probe, route.clone(), incoming, stopped));
        Ok(Self {
            route,
            stop: Mutex::new(Some(stop)),
            task: Mutex::new(Some(task)),
        })
    }

    /// Sends messages one after the other; together they are no larger than the outbox holds.
    pub(crate) async fn send_all(&self, messages: Vec<Outgoing>) -> Result<(), Closed> {
        // Held while a message waits for room, so that messages keep their order.
        match &*self.route.lock().await {
            Route::Probing(queue) => {
                for message in messages {
                    queue.send(message).await.map_err(|_| Closed)?;
                }
                Ok(())
            }
            Route::Direct(outbox, framing) => {
                let mut bytes = Vec::new();
                for message in messages {
                    framing.encode_into(message.body.as_bytes(), &mut bytes);
                }
                outbox.send(bytes).await
            }
        }
    }

    pub(crate) fn abandon(&self) {
        drop(self.stop.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    pub(crate) async fn stop(&self) {
        self.abandon();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            let _ = task.await;
        }
    }
}

#[derive(Debug)]
struct Candidate {
    running: Running,
    decoder: Decoder,
}

impl Candidate {
    async fn read(&mut self) -> io::Result<usize> {
        let buffer = self.decoder.buffer();
        buffer.reserve(64 * 1024);
        self.running.stdout.read_buf(buffer).await
    }

    async fn write(&self, message: &str) {
        // One that does not read any more is noticed where its output ends.
        let bytes = self.running.framing.encode(message.as_bytes());
        let _ = self.running.stdin.send(bytes).await;
    }

    /// The first frame that is no noise.
    fn word(&mut self) -> Option<Frame> {
        loop {
            match self.decoder.next_frame()? {
                Frame::Noise => {}
                frame => return Some(frame),
            }
        }
    }
}

async fn read(candidate: &mut Option<Candidate>) -> io::Result<usize> {
    match candidate {
        Some(candidate) => candidate.read().await,
        None => std::future::pending().await,
    }
}

/// Finding out how a server frames its messages: lines first; when it ends on them, or is silent for a while, `Content-Length`.
struct Probe {
    starter: Starter,
    budgets: Budgets,
    queue: mpsc::Receiver<Outgoing>,
    /// What was sent so far, for a server that is started again.
    history: Vec<Outgoing>,
    begun: Option<Instant>,
    candidates: [Option<Candidate>; 2],
    other_tried: bool,
    again_tried: bool,
}

enum Probed {
    Answered(Box<Candidate>, Frame),
    Over(Over),
    Stopped,
}

async fn pump(
    mut probe: Probe,
    route: Arc<tokio::sync::Mutex<Route>>,
    incoming: mpsc::Sender<Incoming>,
    mut stopped: oneshot::Receiver<()>,
) {
    let (mut server, first) = match probe.run(&incoming, &mut stopped).await {
        Probed::Answered(server, first) => (*server, first),
        Probed::Over(over) => {
            probe.queue.close();
            let _ = incoming.send(Incoming::Closed(over)).await;
            probe.end().await;
            return;
        }
        Probed::Stopped => {
            probe.end().await;
            return;
        }
    };
    let framing = match server.decoder.framing() {
        Framing::ContentLength => Framing::ContentLength,
        Framing::Lines => server.running.framing,
    };
    // Whoever holds the route may wait for room in the queue, so the queue is emptied until the route is free, and then to its end.
    let mut free = loop {
        tokio::select! {
            biased;
            Some(message) = probe.queue.recv() => {
                let _ = server.running.stdin.send(framing.encode(message.body.as_bytes())).await;
            }
            free = route.lock() => break free,
        }
    };
    *free = Route::Direct(server.running.stdin.clone(), framing);
    drop(free);
    tokio::spawn(async move { probe.end().await });

    let mut frame = Some(first);
    loop {
        while let Some(found) = frame.take().or_else(|| server.decoder.next_frame()) {
            let found = match found {
                Frame::Message(bytes) => Incoming::Message(bytes),
                Frame::TooLarge(call) => Incoming::TooLarge(call),
                Frame::Noise => continue,
            };
            tokio::select! {
                biased;
                _ = &mut stopped => return server.running.stop().await,
                sent = incoming.send(found) => if sent.is_err() {
                    return server.running.stop().await;
                },
            }
        }
        let count = tokio::select! {
            biased;
            _ = &mut stopped => return server.running.stop().await,
            count = server.read() => count.unwrap_or(0),
        };
        if count == 0 {
            let how = server.running.finish().await;
            let _ = incoming.send(Incoming::Closed(Over::Ended(how))).await;
            return;
        }
    }
}

impl Probe {
    async fn run(
        &mut self,
        incoming: &mpsc::Sender<Incoming>,
        stopped: &mut oneshot::Receiver<()>,
    ) -> Probed {
        loop {
            let begun = self.begun;
            let at = |span| async move {
                match begun {
                    Some(begun) => sleep_until(begun + span).await,
                    None => std::future::pending().await,
                }
            };
            let [lines, headers] = &mut self.candidates;
            tokio::select! {
                biased;
                _ = &mut *stopped => return Probed::Stopped,
                message = self.queue.recv() => match message {
                    Some(message) => self.pass_on(message).await,
                    None => return Probed::Stopped,
                },
                count = read(lines) => if let Some(done) = self.came(0, count, incoming).await {
                    return done;
                },
                count = read(headers) => if let Some(done) = self.came(1, count, incoming).await {
                    return done;
                },
                () = at(self.budgets.framing), if !self.other_tried => {
                    self.other_tried = true;
                    // The silent one keeps its chance: it may only be slow.
                    if let Ok(candidate) = self.starter.start(Framing::ContentLength).await {
                        self.tell(candidate, 1).await;
                    }
                },
                () = at(self.budgets.initialize) => return Probed::Over(Over::Silent),
            }
        }
    }

    async fn pass_on(&mut self, message: Outgoing) {
        self.begun.get_or_insert_with(Instant::now);
        for candidate in self.candidates.iter().flatten() {
            candidate.write(&message.body).await;
        }
        self.history.push(message);
    }

    /// Puts a new start in its place and tells it what was said so far.
    async fn tell(&mut self, candidate: Candidate, place: usize) {
        for message in &self.history {
            candidate.write(&message.body).await;
        }
        if let Some(slot) = self.candidates.get_mut(place) {
            *slot = Some(candidate);
        }
    }

    /// Looks at what one of the two said, or at its end.
    async fn came(
        &mut self,
        place: usize,
        count: io::Result<usize>,
        incoming: &mpsc::Sender<Incoming>,
    ) -> Option<Probed> {
        let slot = self.candidates.get_mut(place)?;
        if count.is_ok_and(|count| count > 0) {
            let word = slot.as_mut()?.word()?;
            return Some(Probed::Answered(Box::new(slot.take()?), word));
        }
        let how = slot.take()?.running.finish().await;
        if self.candidates.iter().any(Option::is_some) {
            return None;
        }
        let next = if let (false, Some(question)) = (self.again_tried, self.only_discovery()) {
            // An older server may end on a question that it does not know: it is answered in its place, and the server starts anew.
            self.again_tried = true;
            self.history.clear();
            self.begun = None;
            let _ = incoming.send(Incoming::Unknown(question)).await;
            Framing::Lines
        } else if self.other_tried {
            return Some(Probed::Over(Over::Unstarted(format!(
                "the server {how} before it answered"
            ))));
        } else {
            self.other_tried = true;
            Framing::ContentLength
        };
        match self.starter.start(next).await {
            Ok(candidate) => {
                self.tell(candidate, usize::from(next == Framing::ContentLength))
                    .await;
                None
            }
            Err(why) => Some(Probed::Over(Over::Unstarted(why))),
        }
    }

    /// The number of the newer era's first question, when nothing else was sent.
    fn only_discovery(&self) -> Option<u64> {
        let [only] = self.history.as_slice() else {
            return None;
        };
        let message = Message::parse(only.body.as_bytes())?;
        (message.method.as_deref() == Some("server/discover")).then_some(only.id?)
    }

    async fn end(&mut self) {
        let left = self.candidates.iter_mut().filter_map(Option::take);
        join_all(left.map(|candidate| candidate.running.stop())).await;
    }
}
