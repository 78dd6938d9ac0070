//! Control commands that a person sends and does not wait for: written as an agent's are, and what became of each told once it is known. Never says that one was typed before its receipt does.

use std::time::{Duration, Instant};

use super::command::{self, Sending};
use crate::error::BusError;
use crate::home::Home;
use crate::names::{RoomName, SeatId};
use crate::push::ControlCommand;
use crate::push::queue::LAPSE;
use crate::push::reminder::Reminders;
use crate::receipts::Typed;
use crate::rooms;
use crate::wait::Watch;

/// How long after it lapsed a command's receipt may still come.
const LATE: Duration = Duration::from_secs(10);
/// How long writing the word after a `/clear` may take.
const REMINDS: Duration = Duration::from_secs(1);

/// Whom a command is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum To {
    /// One agent.
    Agent(SeatId),
    /// Every member of a channel that is reached in a pane, but for who sends it.
    Room(RoomName),
}

/// The commands of one person, as long as something is to be said of them.
pub struct Orders {
    home: Home,
    watch: Watch,
    reminders: Reminders,
    sent: Vec<Order>,
    /// Until when the word after a `/clear` that was typed is on its way.
    reminding: Option<Instant>,
}

/// One command, to one agent or several.
struct Order {
    sending: Sending,
    sent: Instant,
    /// Of which targets it was said what became of the command, in their order.
    said: Vec<bool>,
    /// It was said that no receipt has come.
    late: bool,
}

impl Orders {
    /// None yet.
    pub fn new(home: &Home) -> Self {
        let watch = Watch::new(home);
        Self {
            reminders: Reminders::new(home, &watch),
            home: home.clone(),
            watch,
            sent: Vec::new(),
            reminding: None,
        }
    }

    /// Writes a command for whoever is meant and has a pane. After a `/clear` each of them is told who they are, as long as this value lives. Answers
    /// what was done, a sentence each.
    ///
    /// # Errors
    /// [`BusError::NoRoom`], an own id, [`BusError::Damaged`], a fault. Nothing was written then.
    pub fn send(&mut self, from: &SeatId, to: &To, command: ControlCommand) -> Result<Vec<String>, BusError> {
        let (room, targets) = match to {
            To::Agent(seat) if seat == from => {
                return Err(BusError::Argument("an agent does not send a command to itself"));
            }
            To::Agent(seat) => (None, vec![seat.clone()]),
            To::Room(room) if !rooms::exists(&self.home, room)? => {
                return Err(BusError::NoRoom(room.clone()));
            }
            To::Room(room) => (Some(room.clone()), command::members(&self.home, room, from)?),
        };
        let mut sending = Sending::new(&self.home, command, room);
        sending.write(&self.watch, from, targets)?;
        let mut said: Vec<String> = sending
            .skipped
            .iter()
            .map(|(seat, why)| {
                format!(
                    "{seat}: {command} was not sent, {}",
                    why.as_str().unwrap_or_default()
                )
            })
            .collect();
        if sending.targets.is_empty() {
            if said.is_empty() {
                said.push(format!("{command} was sent to nobody: nobody else is there"));
            }
            return Ok(said);
        }
        if command == ControlCommand::Clear {
            let delay = Duration::from_millis(command::USUAL_REMINDER);
            sending.remind(&self.reminders, from, delay, None);
        }
        let seats: Vec<&str> = sending
            .targets
            .iter()
            .map(|target| target.seat.as_str())
            .collect();
        said.push(format!(
            "{command} was sent to {}; what became of it is said here",
            seats.join(", ")
        ));
        self.sent.push(Order {
            said: vec![false; sending.targets.len()],
            sending,
            sent: Instant::now(),
            late: false,
        });
        Ok(said)
    }

    /// What became of them since the last look, a sentence each.
    pub fn look(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        let mut cleared = false;
        self.sent.retain_mut(|order| order.look(&mut said, &mut cleared));
        if cleared {
            self.reminding = Some(Instant::now() + Duration::from_millis(command::USUAL_REMINDER) + REMINDS);
        }
        said
    }

    /// Whether an answer, or the word after a `/clear`, is on its way and should soon be there.
    pub fn is_busy(&self) -> bool {
        let reminds = self.reminding.is_some_and(|until| Instant::now() < until);
        reminds || self.sent.iter().any(|order| !order.late)
    }
}

impl Order {
    /// Says what is news. Answers whether something is left to be said.
    fn look(&mut self, out: &mut Vec<String>, cleared: &mut bool) -> bool {
        let command = self.sending.command;
        if let Err(error) = self.sending.look() {
            out.push(format!(
                "what became of {command} cannot be told: {}",
                error.chain()
            ));
            return false;
        }
        for (target, said) in self.sending.targets.iter().zip(&mut self.said) {
            let Some(receipt) = target.receipt.as_ref().filter(|_| !*said) else {
                continue;
            };
            *said = true;
            let what = match receipt.typed() {
                Typed::Yes => {
                    *cleared |= command == ControlCommand::Clear;
                    let note = command::provenance(receipt).map(|note| format!(" ({note})"));
                    format!("{command} was typed{}", note.unwrap_or_default())
                }
                Typed::Maybe => format!("{command}: {}", command::maybe(receipt)),
                Typed::Not => format!("{command}: {}", command::not(receipt)),
            };
            out.push(format!("{}: {what}", target.seat));
        }
        if self.said.iter().all(|said| *said) {
            return false;
        }
        if !self.late && self.sent.elapsed() >= Duration::from_millis(command::USUAL_WAIT) {
            self.late = true;
            for (target, _) in self
                .sending
                .targets
                .iter()
                .zip(&self.said)
                .filter(|(_, said)| !**said)
            {
                out.push(format!(
                    "{}: {command}: {}",
                    target.seat,
                    self.sending.late(target)
                ));
            }
        }
        self.sent.elapsed() < LAPSE + LATE
    }
}
