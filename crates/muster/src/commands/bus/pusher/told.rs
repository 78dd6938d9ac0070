//! A pusher's hands, whose every delivery is told of in the log. Never says what was delivered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use muster_bus::push::{Delivery, Outcome, Probe, Screen, Stop, Transport, Why};
use muster_bus::transports::TransportKind;
use muster_core::text::terminal;
use muster_mirror::TmuxPanes;

/// The same hands, with a line in the log for what came of each delivery.
pub(super) struct Told<'p> {
    panes: &'p TmuxPanes,
    stop: &'p Stop,
    /// The pane is gone for good.
    gone: AtomicBool,
    /// The last hold that was told of: it is tried again every few seconds.
    last: Mutex<Option<String>>,
}

impl<'p> Told<'p> {
    /// Asks the deliverer to end once the pane is gone.
    pub(super) fn new(panes: &'p TmuxPanes, stop: &'p Stop) -> Self {
        Self {
            panes,
            stop,
            gone: AtomicBool::new(false),
            last: Mutex::default(),
        }
    }

    /// Whether the pane is gone.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }
}

impl Transport for Told<'_> {
    fn kind(&self) -> TransportKind {
        self.panes.kind()
    }

    fn available(&self) -> Result<(), String> {
        self.panes.available()
    }

    fn probe(&self, target: &str) -> Probe {
        self.panes.probe(target)
    }

    fn read(&self, target: &str, lines: usize, colors: bool) -> Result<Screen, String> {
        self.panes.read(target, lines, colors)
    }

    fn deliver(&self, target: &str, what: &Delivery) -> Outcome {
        let outcome = self.panes.deliver(target, what);
        let kind = match what {
            Delivery::Text { .. } => "text",
            Delivery::Command(command) => command.as_str(),
        };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut held = None;
        match &outcome {
            Outcome::Delivered { door, verified } => {
                tracing::info!(what = kind, door = door.as_str(), verified, "delivered");
            }
            Outcome::Held(hold) => {
                let reason = format!("{}: {}", hold.why.as_str(), hold.detail);
                if last.as_ref() != Some(&reason) {
                    tracing::info!(what = kind, reason = %terminal(&reason), "held; it is tried again");
                }
                held = Some(reason);
                if hold.why == Why::PaneGone {
                    self.gone.store(true, Ordering::SeqCst);
                    self.stop.set();
                }
            }
            Outcome::Unknown { door, reason } => {
                tracing::warn!(what = kind, door = door.as_str(), reason = %terminal(reason), "it is not known whether it arrived; it is not typed again");
            }
        }
        *last = held;
        outcome
    }
}
