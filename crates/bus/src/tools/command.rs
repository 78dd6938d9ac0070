//! Commands for other agents' own programs: written into their inboxes, typed by whoever delivers to them, and answered by receipts that no agent reads. Never typed here, and never said to be typed before a receipt says so.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::args::SendCommand;
use super::waiting::{Awaited, Waiting};
use super::{Answer, Call, Called, Tools, object};
use crate::error::BusError;
use crate::home::Home;
use crate::names::{RoomName, SeatId};
use crate::push::reminder::{Reminders, Wanted};
use crate::push::{ControlCommand, lease};
use crate::receipts::{self, Receipt, Typed};
use crate::registry::Agents;
use crate::rooms::{self, Rooms};
use crate::transports::{self, TransportKind};
use crate::wait::{Waiter, Watch};
use crate::{build_id, message, post, rename};

/// How long the receipt is waited for, unless the caller says otherwise.
pub(super) const USUAL_WAIT: u64 = 8_000;
/// How long after a `/clear` its reminder comes, unless the caller says otherwise.
pub(super) const USUAL_REMINDER: u64 = 3_000;

/// What came of a call.
pub(super) enum Sent {
    Done(Map<String, Value>),
    Wait(Waiting),
}

impl From<Result<Sent, BusError>> for Called {
    fn from(sent: Result<Sent, BusError>) -> Self {
        match sent {
            Ok(Sent::Done(body)) => Self::Done(Answer::of(Ok(body))),
            Ok(Sent::Wait(waiting)) => Self::Wait(Box::new(waiting)),
            Err(error) => Self::Done(Answer::of(Err(error))),
        }
    }
}

pub(super) fn send_command(call: &Call<'_>, args: SendCommand) -> Result<Sent, BusError> {
    let command = checked(&args)?;
    let to = args.to.as_deref().map(SeatId::parse).transpose()?;
    let room = args.room.as_deref().map(RoomName::parse).transpose()?;
    call.acting(&args.from, |from| {
        let targets = match (&to, &room) {
            (Some(_), Some(_)) => {
                return Err(BusError::Argument(
                    "name an agent (to) or a channel (room), not both",
                ));
            }
            (Some(to), None) if to == from => {
                return Err(BusError::Argument("an agent does not send a command to itself"));
            }
            (Some(to), None) => vec![to.clone()],
            (None, Some(room)) => members(call.home(), room, from)?,
            (None, None) => return Err(BusError::Argument("name an agent (to) or a channel (room)")),
        };
        let mut sending = Sending::new(call.home(), command, room.clone());
        sending.write(call.tools.watch(), from, targets)?;
        if sending.targets.is_empty() {
            return Ok(Sent::Done(sending.nobody()));
        }
        if command == ControlCommand::Clear {
            let delay = Duration::from_millis(args.reminder_ms.unwrap_or(USUAL_REMINDER));
            sending.remind(call.tools.reminders(), from, delay, args.reminder_text.as_deref());
        }
        if !args.wait_for_delivery.unwrap_or(true) {
            return Ok(Sent::Done(sending.body("pending")));
        }
        let wait = Duration::from_millis(args.delivery_timeout_ms.unwrap_or(USUAL_WAIT));
        Ok(Sent::Wait(Waiting::new(wait, sending)))
    })
}

/// What can be said of the arguments alone.
fn checked(args: &SendCommand) -> Result<ControlCommand, BusError> {
    let command = ControlCommand::parse(&args.command).ok_or(BusError::Argument(
        "command must be exactly /clear, /compact or /reload-skills",
    ))?;
    if args.reminder_ms.is_some_and(|ms| ms > 60_000) {
        return Err(BusError::Argument("reminderMs is at most 60000"));
    }
    if args.delivery_timeout_ms.is_some_and(|ms| ms == 0 || ms > 60_000) {
        return Err(BusError::Argument(
            "deliveryTimeoutMs must be a number from 1 to 60000",
        ));
    }
    if let Some(text) = &args.reminder_text {
        message::text("reminderText", text)?;
        if text.trim_start().starts_with('/') {
            return Err(BusError::Argument(
                "reminderText begins with '/', and no such text is ever typed into a pane",
            ));
        }
    }
    Ok(command)
}

/// The members of a channel, its sender aside.
pub(super) fn members(home: &Home, room: &RoomName, from: &SeatId) -> Result<Vec<SeatId>, BusError> {
    if !rooms::exists(home, room)? {
        return Err(BusError::NoRoom(room.clone()));
    }
    let entry = Rooms::load(home)?.get(room);
    let members = rooms::members(room, entry.as_ref(), &Agents::load(home)?);
    Ok(members
        .iter()
        .filter_map(|member| SeatId::parse(member).ok())
        .filter(|member| member != from)
        .collect())
}

/// Why a command is not written for an agent; `None` when somebody types for it.
fn unattached(home: &Home, seat: &SeatId, agents: &Agents) -> Result<Option<&'static str>, BusError> {
    let Some(marker) = transports::load(home, seat)? else {
        return Ok(Some("not attached"));
    };
    Ok(match TransportKind::parse(&marker.transport) {
        Err(_) => Some("its transport is of a kind that nobody delivers by any more"),
        Ok(_) if !transports::alive(&marker, agents.get(seat).as_ref(), home.now()) => {
            Some("its transport is gone")
        }
        Ok(_) => None,
    })
}

/// One agent that a command was written for.
pub(super) struct Target {
    pub(super) seat: SeatId,
    /// The message.
    id: String,
    pub(super) receipt: Option<Receipt>,
    waiter: Waiter,
    looked: bool,
}

impl Target {
    /// Looks for its receipt, if there is none yet and there may be one.
    fn look(&mut self, home: &Home) -> Result<(), BusError> {
        if self.receipt.is_some() || self.looked && !self.waiter.grew() {
            return Ok(());
        }
        self.waiter.note();
        self.looked = true;
        self.receipt = receipts::find(home, &self.seat, &self.id)?;
        Ok(())
    }
}

/// A command that was written, and what is known of it.
pub(super) struct Sending {
    home: Home,
    pub(super) command: ControlCommand,
    room: Option<RoomName>,
    pub(super) targets: Vec<Target>,
    pub(super) skipped: Map<String, Value>,
}

impl Sending {
    pub(super) fn new(home: &Home, command: ControlCommand, room: Option<RoomName>) -> Self {
        Self {
            home: home.clone(),
            command,
            room,
            targets: Vec::new(),
            skipped: Map::new(),
        }
    }

    /// Looks for the receipts that are not there yet.
    pub(super) fn look(&mut self) -> Result<(), BusError> {
        let home = &self.home;
        self.targets.iter_mut().try_for_each(|target| target.look(home))
    }

    pub(super) fn write(
        &mut self,
        watch: &Watch,
        from: &SeatId,
        targets: Vec<SeatId>,
    ) -> Result<(), BusError> {
        let home = &self.home;
        let agents = Agents::load(home)?;
        for seat in targets {
            let seat = match rename::forwarded(home, &seat)? {
                Some(now) if self.room.is_none() => now,
                _ => seat,
            };
            match unattached(home, &seat, &agents) {
                Ok(None) => {}
                Ok(Some(why)) => {
                    self.skipped.insert(seat.as_str().to_owned(), why.into());
                    continue;
                }
                // One damaged marker does not keep a channel's other members from the command.
                Err(error) if self.room.is_some() => {
                    self.skipped
                        .insert(seat.as_str().to_owned(), error.to_string().into());
                    continue;
                }
                Err(error) => return Err(error),
            }
            // Before the command is there: what is written from now on is told.
            let waiter = watch.waiter(&receipts::file(&seat));
            match post::command(home, from, &seat, self.command) {
                Ok(sent) => self.targets.push(Target {
                    seat,
                    id: sent.id,
                    receipt: None,
                    waiter,
                    looked: false,
                }),
                // What was written for others is not taken back, so they are told of.
                Err(error) if !self.targets.is_empty() => {
                    self.skipped
                        .insert(seat.as_str().to_owned(), error.to_string().into());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(super) fn remind(&self, reminders: &Reminders, from: &SeatId, delay: Duration, text: Option<&str>) {
        if delay.is_zero() {
            return;
        }
        for target in &self.targets {
            reminders.after(Wanted {
                from: from.clone(),
                to: target.seat.clone(),
                id: target.id.clone(),
                delay,
                text: text.map(str::to_owned),
            });
        }
    }

    fn nobody(self) -> Map<String, Value> {
        object! {
            "ok": false,
            "code": "not_attached",
            "error": "nobody that this names has a live transport, so nothing was written",
            "command": self.command,
            "skipped": self.skipped,
        }
    }

    /// What is the same in every answer.
    fn body(&self, delivery: &str) -> Map<String, Value> {
        let mut body = object! {"ok": true, "command": self.command, "delivery": delivery};
        match &self.room {
            None => {
                if let Some(target) = self.targets.first() {
                    body.insert("to".to_owned(), target.seat.as_str().into());
                    body.insert("id".to_owned(), target.id.as_str().into());
                }
            }
            Some(room) => {
                let ids = self.targets.iter();
                let ids: Map<String, Value> = ids
                    .map(|target| (target.seat.as_str().to_owned(), target.id.as_str().into()))
                    .collect();
                body.insert("room".to_owned(), room.as_str().into());
                body.insert("ids".to_owned(), ids.into());
                body.insert("skipped".to_owned(), self.skipped.clone().into());
            }
        }
        body
    }

    fn answer(&self) -> Map<String, Value> {
        match (&self.room, self.targets.first()) {
            (None, Some(target)) => self.of_one(target),
            _ => self.of_room(),
        }
    }

    fn of_one(&self, target: &Target) -> Map<String, Value> {
        let Some(receipt) = &target.receipt else {
            let mut body = self.body("pending");
            body.insert("warning".to_owned(), self.late(target).into());
            return body;
        };
        match receipt.typed() {
            Typed::Yes => {
                let mut body = self.body("confirmed");
                body.insert("deliveredAt".to_owned(), receipt.ts.into());
                body.insert("verified".to_owned(), json!(receipt.verified));
                if let Some(warning) = provenance(receipt) {
                    body.insert("warning".to_owned(), warning.into());
                }
                body
            }
            Typed::Maybe => {
                let mut body = self.body("pending");
                body.insert("warning".to_owned(), maybe(receipt).into());
                body
            }
            Typed::Not => {
                let mut body = self.body("refused");
                body.insert("ok".to_owned(), false.into());
                body.insert("code".to_owned(), "not_delivered".into());
                body.insert("error".to_owned(), not(receipt).into());
                body
            }
        }
    }

    fn of_room(&self) -> Map<String, Value> {
        let (mut confirmed, mut pending) = (Vec::new(), Vec::new());
        let (mut notes, mut skipped) = (Map::new(), self.skipped.clone());
        let mut latest = 0;
        for target in &self.targets {
            let seat = target.seat.as_str();
            let typed = target.receipt.as_ref().map(|receipt| (receipt, receipt.typed()));
            let note = match typed {
                Some((receipt, Typed::Yes)) => {
                    confirmed.push(seat);
                    latest = latest.max(receipt.ts);
                    provenance(receipt)
                }
                Some((receipt, Typed::Not)) => {
                    skipped.insert(seat.to_owned(), not(receipt).into());
                    None
                }
                Some((receipt, Typed::Maybe)) => {
                    pending.push(seat);
                    Some(maybe(receipt))
                }
                None => {
                    pending.push(seat);
                    Some(self.late(target))
                }
            };
            if let Some(note) = note {
                notes.insert(seat.to_owned(), note.into());
            }
        }
        let delivery = match (confirmed.is_empty(), pending.is_empty()) {
            (false, true) => "confirmed",
            (false, false) => "partial",
            (true, false) => "pending",
            (true, true) => "refused",
        };
        let mut body = self.body(delivery);
        if delivery == "refused" {
            body.insert("ok".to_owned(), false.into());
            body.insert("code".to_owned(), "not_delivered".into());
            body.insert(
                "error".to_owned(),
                "the command was typed into nobody's pane; skipped says why".into(),
            );
        }
        if !confirmed.is_empty() {
            body.insert("deliveredAt".to_owned(), latest.into());
        }
        body.insert("confirmed".to_owned(), json!(confirmed));
        if !pending.is_empty() {
            body.insert("pending".to_owned(), json!(pending));
        }
        body.insert("skipped".to_owned(), skipped.into());
        if !notes.is_empty() {
            body.insert("notes".to_owned(), notes.into());
        }
        body
    }

    /// Why there may be no receipt yet.
    pub(super) fn late(&self, target: &Target) -> String {
        let row = lease::live(&self.home, &target.seat).ok().flatten();
        let why = match row.map(|row| row.standing) {
            None => "nobody delivers to this seat now".to_owned(),
            Some(standing) => match standing.held {
                Some(held) => format!("its pane takes nothing now ({held})"),
                None => "whoever delivers to this seat has not answered".to_owned(),
            },
        };
        format!(
            "no receipt came in time: {why}. The command is written and is still typed if that is possible within two minutes of being sent; run doctor, or have '{}' attach again",
            target.seat
        )
    }
}

pub(super) fn maybe(receipt: &Receipt) -> String {
    format!(
        "it may have been typed and is not typed again: {}",
        reason(receipt)
    )
}

pub(super) fn not(receipt: &Receipt) -> String {
    format!("the command was not typed: {}", reason(receipt))
}

fn reason(receipt: &Receipt) -> String {
    let reason = receipt
        .reason
        .as_deref()
        .unwrap_or("whoever delivers did not say why");
    muster_core::text::terminal(&reason.chars().take(1_000).collect::<String>())
}

/// What should be known of the build that confirmed a command; nothing when it is the one on the disk.
pub(super) fn provenance(receipt: &Receipt) -> Option<String> {
    let Some(build) = &receipt.build else {
        return Some("it was confirmed by a build that does not say which it is, so nothing is known of how it was confirmed".to_owned());
    };
    let Some(stamp) = build.as_str() else {
        return Some(
            "it was confirmed by another program, whose build cannot be compared with the one installed here"
                .to_owned(),
        );
    };
    match build_id::is_behind(stamp) {
        Ok(false) => None,
        Ok(true) => Some(format!(
            "it was confirmed by build {}, which is not the one installed here: that process runs older code, or other code, until it is restarted",
            muster_core::text::terminal(&stamp.chars().take(64).collect::<String>())
        )),
        Err(error) => Some(format!(
            "whether the build that confirmed it is the one installed here cannot be told: {error}"
        )),
    }
}

impl Awaited for Sending {
    fn read(&mut self, _: &Tools, wanted: &dyn Fn() -> bool) -> Option<Answer> {
        if !wanted() {
            return Some(self.gone());
        }
        if let Err(error) = self.look() {
            return Some(Answer::of(Err(error)));
        }
        let all = self.targets.iter().all(|target| target.receipt.is_some());
        all.then(|| Answer::of(Ok(self.answer())))
    }

    fn waiters(&mut self) -> Vec<&mut Waiter> {
        let missing = self.targets.iter_mut().filter(|target| target.receipt.is_none());
        missing.map(|target| &mut target.waiter).collect()
    }

    fn grew(&self) -> bool {
        let mut missing = self.targets.iter().filter(|target| target.receipt.is_none());
        missing.any(|target| target.waiter.grew())
    }

    fn timed_out(&self) -> Answer {
        Answer::of(Ok(self.answer()))
    }

    fn gone(&self) -> Answer {
        let mut body = self.body("pending");
        body.insert("ok".to_owned(), false.into());
        body.insert("cancelled".to_owned(), true.into());
        Answer { body, failed: false }
    }
}
