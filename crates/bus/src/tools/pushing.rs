//! The tools of a pusher on another machine: what is unread, what was delivered, what became of a command. Served and never listed: every listed byte stands in every agent's context, and no agent calls these.

use std::time::{Duration, Instant};

use muster_core::secret::sha256_hex;
use serde_json::{Map, Value};

use super::args::{AckMessages, From, PendingMessages, ReportReceipt};
use super::waiting::{Awaited, Waiting};
use super::{Answer, Call, Said, Tools, object, said};
use crate::cursor::Source;
use crate::error::BusError;
use crate::home::Home;
use crate::limits::MAX_WAIT;
use crate::message;
use crate::names::{RoomName, SeatId};
use crate::push::feed::{Sources, keys};
use crate::push::{Pending, lease};
use crate::read;
use crate::receipts::{self, Receipt};
use crate::rename;
use crate::wait::Waiter;

/// How often a pusher that is not the one looks whether it is.
const OTHER: Duration = Duration::from_secs(2);

/// A pusher's wait for something new.
struct Unread {
    home: Home,
    seat: SeatId,
    holder: String,
    wait: Duration,
    seen: Option<String>,
    sources: Sources,
    /// What there was at the last look.
    last: Map<String, Value>,
    /// When another deliverer was seen last.
    other: Option<Instant>,
}

pub(super) fn pending_messages(call: &Call<'_>, args: PendingMessages) -> Result<Waiting, BusError> {
    message::short("holder", &args.holder)?;
    let wait = Duration::from_millis(args.wait_ms.unwrap_or(0)).min(MAX_WAIT);
    let begun = call.acting(&args.agent_id, |seat| {
        let home = call.home();
        if let Some(standing) = &args.standing {
            standing
                .held
                .as_deref()
                .map_or(Ok(()), |held| message::short("held", held))?;
            lease::note(home, seat, &args.holder, standing)?;
        }
        let watch = call.tools.watch();
        let unread = Unread {
            home: home.clone(),
            sources: Sources::new(home, watch, seat, args.include_room.unwrap_or(true)),
            seat: seat.clone(),
            holder: args.holder.clone(),
            wait,
            seen: args.seen.clone(),
            last: Map::new(),
            other: None,
        };
        Ok(Waiting::new(wait, unread))
    })?;
    call.session().delivers()?;
    Ok(begun)
}

impl Unread {
    fn look(&mut self, tools: &Tools) -> Result<Option<Answer>, BusError> {
        let home = tools.home();
        // Its inbox went along, so nothing would ever come here again.
        if let Some(now) = rename::forwarded(home, &self.seat)? {
            return Err(BusError::Renamed {
                bound: now,
                claimed: self.seat.clone(),
            });
        }
        if let Some(holder) = lease::remote(home, &self.seat, &self.holder, self.wait)? {
            self.other = Some(Instant::now());
            self.last = body(&Pending {
                other_deliverer: Some(holder),
                now: home.now(),
                ..Pending::default()
            })?;
            return Ok(self.wait.is_zero().then(|| self.timed_out()));
        }
        let was_other = self.other.take().is_some();
        self.last = body(&self.sources.look()?)?;
        let seen = self.last.get("seen").and_then(Value::as_str);
        let new = was_other || self.seen.is_none() || self.seen.as_deref() != seen;
        Ok((new || self.wait.is_zero()).then(|| self.timed_out()))
    }
}

/// What a pusher is told, with a word by which it says at its next call that it knows all this.
fn body(pending: &Pending) -> Said {
    let mut print = String::new();
    for (source, key) in keys(pending) {
        print.push_str(&format!("{source} {key}\n"));
    }
    let mut body = said(pending)?;
    let hash = sha256_hex(print.as_bytes());
    body.insert(
        "seen".to_owned(),
        hash.chars().take(16).collect::<String>().into(),
    );
    Ok(body)
}

impl Awaited for Unread {
    fn read(&mut self, tools: &Tools, wanted: &dyn Fn() -> bool) -> Option<Answer> {
        if !wanted() {
            return Some(self.gone());
        }
        match self.look(tools) {
            Ok(answer) => answer,
            Err(error) => Some(Answer::of(Err(error))),
        }
    }

    fn waiters(&mut self) -> Vec<&mut Waiter> {
        self.sources.waiters()
    }

    fn grew(&self) -> bool {
        match self.other {
            Some(seen) => seen.elapsed() > OTHER,
            None => self.sources.grew(),
        }
    }

    fn timed_out(&self) -> Answer {
        let mut body = self.last.clone();
        body.insert("now".to_owned(), self.home.now().into());
        Answer::of(Ok(body))
    }

    fn gone(&self) -> Answer {
        Answer {
            body: object! {"ok": false, "cancelled": true},
            failed: false,
        }
    }
}

pub(super) fn ack_messages(call: &Call<'_>, args: AckMessages) -> Said {
    let source = match args.source {
        From::Inbox => Source::Inbox,
        From::Room => Source::Room(
            args.room
                .as_deref()
                .map_or_else(|| Ok(RoomName::general()), RoomName::parse)?,
        ),
        From::Status => return Err(BusError::Argument("the status stream is not delivered")),
    };
    call.acting(&args.agent_id, |seat| {
        Ok(object! {"acked": read::ack(call.home(), seat, &source, &args.up_to)?})
    })
}

pub(super) fn report_receipt(call: &Call<'_>, args: ReportReceipt) -> Said {
    let fields = [
        ("id", Some(&args.id)),
        ("from", Some(&args.from)),
        ("door", args.door.as_ref()),
        ("reason", args.reason.as_ref()),
        ("build", args.build.as_ref()),
    ];
    for (field, text) in fields {
        text.map_or(Ok(()), |text| message::short(field, text))?;
    }
    call.acting(&args.agent_id, |seat| {
        let mut receipt = Receipt::new(call.home(), seat, &args.id, &args.from);
        receipt.control = args.control;
        receipt.submitted = args.submitted;
        receipt.verified = args.verified;
        receipt.door = args.door;
        receipt.reason = args.reason;
        receipt.build = args.build.map(Value::String);
        receipts::write(call.home(), seat, &receipt)?;
        Ok(object! {"id": receipt.id, "ts": receipt.ts})
    })
}
