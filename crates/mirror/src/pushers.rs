//! Panes of whatever machines the pushers of a bus run on: known only by what those report. Never types and never reads a pane; the pusher beside it does.

use muster_bus::Home;
use muster_bus::push::{Delivery, Hold, Outcome, Probe, Screen, Transport, Why};
use muster_bus::transports::{self, TransportKind};

/// Why a process that serves the bus does nothing with such a pane.
const ELSEWHERE: &str = "this pane is on whatever machine its pusher runs, and only that pusher reaches it";

/// The panes that the pushers of one bus reported.
#[derive(Clone)]
pub struct Pushers {
    home: Home,
}

impl Pushers {
    /// Those of a bus's directory.
    pub fn new(home: &Home) -> Self {
        Self { home: home.clone() }
    }
}

impl Transport for Pushers {
    fn kind(&self) -> TransportKind {
        TransportKind::TmuxPushRemote
    }

    /// Whether reports can be read, which is all that this transport is made of here.
    fn available(&self) -> Result<(), String> {
        transports::all(&self.home)
            .map(drop)
            .map_err(|error| error.chain())
    }

    /// Whether a pusher reported a pane of this name.
    fn probe(&self, target: &str) -> Probe {
        match transports::all(&self.home) {
            Err(error) => Probe::Unknown {
                reason: error.chain(),
            },
            Ok(found) => {
                let reported = found
                    .iter()
                    .filter_map(|found| found.marker.as_ref().ok())
                    .any(|marker| {
                        marker.transport == TransportKind::TmuxPushRemote.as_str()
                            && marker.pane() == Some(target)
                    });
                if reported {
                    Probe::Found
                } else {
                    Probe::Gone {
                        reason: "no pusher reported such a pane".to_owned(),
                    }
                }
            }
        }
    }

    fn read(&self, _: &str, _: usize, _: bool) -> Result<Screen, String> {
        Err(ELSEWHERE.to_owned())
    }

    fn deliver(&self, _: &str, _: &Delivery) -> Outcome {
        Outcome::Held(Hold {
            why: Why::Unavailable,
            detail: ELSEWHERE.to_owned(),
        })
    }
}
