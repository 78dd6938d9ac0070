//! Messages and channels. Never marks as read what a call that went away would have returned.

use std::time::Duration;

use serde_json::{Map, Value};

use super::args::{self, From, InRoom, Motd, PostStatus, ReadMessages, Retrieve, SendMessage, Topic};
use super::waiting::{Awaited, Waiting};
use super::{Answer, Call, Said, Tools, object, said};
use crate::cursor::Source;
use crate::error::BusError;
use crate::history;
use crate::limits::MAX_WAIT;
use crate::log::Entry;
use crate::names::{RoomName, SeatId};
use crate::post;
use crate::push::tier::{self, Sort};
use crate::read::{Want, read_for, unread};
use crate::registry::Agents;
use crate::rename;
use crate::rooms::{self, Line, Rooms};
use crate::transports;
use crate::wait::Waiter;

/// The messages of an answer that has none.
const NONE: [Entry; 0] = [];

const USUAL_WAIT: Duration = Duration::from_secs(30);

pub(super) fn send_message(call: &Call<'_>, args: SendMessage) -> Said {
    // An empty recipient was a public post once; nobody means that.
    let to = args.to.as_deref().map(recipient).transpose()?;
    call.acting(&args.from, |from| match &to {
        Some(_) if args.kind.is_some() => Err(BusError::Argument(
            "kind belongs to channel posts; a direct message has none",
        )),
        Some(to) => {
            let now = rename::forwarded(call.home(), to)?;
            let to = now.as_ref().unwrap_or(to);
            let sent = post::send(call.home(), from, to, &args.text)?;
            // A rename that came in between: its new id has the message at once, and not only at its next look.
            if now.is_none()
                && let Ok(Some(new)) = rename::forwarded(call.home(), to)
                && let Err(error) = rename::gather(call.home(), &new)
            {
                tracing::warn!(error = %error.chain(), "a late message is fetched when its reader looks next");
            }
            let mut body = object! {"id": sent.id, "ts": sent.ts, "to": to};
            let renamed = now.as_ref().map(|now| format!("that agent is '{now}' now, and got it under this id"));
            if let Some(warning) = renamed.or(sent.warning) {
                body.insert("warning".to_owned(), warning.into());
            }
            Ok(body)
        }
        None => {
            let room = channel(args.room.as_deref())?;
            let sent = post::post(call.home(), from, &room, &args.text, args.kind)?;
            let mut body = object! {"id": sent.id, "ts": sent.ts, "room": room};
            if meant_an_agent(call, &room) {
                let warning = format!(
                    "'{room}' is an agent, too, and is not in the channel #{room}, where this was posted: a direct message names it as to"
                );
                body.insert("warning".to_owned(), warning.into());
            }
            Ok(body)
        }
    })
}

fn recipient(to: &str) -> Result<SeatId, BusError> {
    if to.starts_with('#') {
        return Err(BusError::Argument(
            "to names an agent, and that is a channel: pass it as room",
        ));
    }
    SeatId::parse(to)
}

/// Whether a channel bears the name of an agent who is not in it. What cannot be read warns of nothing.
fn meant_an_agent(call: &Call<'_>, room: &RoomName) -> bool {
    let agents = Agents::seen(call.home());
    if room.is_general() || !agents.is_ok_and(|agents| agents.has(room.as_str())) {
        return false;
    }
    Rooms::load(call.home()).is_ok_and(|rooms| {
        let entry = rooms.get(room).unwrap_or_default();
        !entry.members.iter().any(|member| member == room.as_str())
    })
}

pub(super) fn read_messages(call: &Call<'_>, args: ReadMessages) -> Said {
    let source = source(args.source, args.room.as_deref())?;
    let want = Want {
        limit: args.limit,
        peek: args.peek.unwrap_or(false),
        since: args.since_ts,
    };
    call.acting(&args.agent_id, |seat| match &source {
        Source::Inbox => inbox(call, seat, want),
        source => {
            let body = said(&read_for(call.home(), seat, source, want, call.wanted)?)?;
            let pushed = matches!(source, Source::Room(_));
            Ok(if pushed {
                marked(call, seat, false, body)
            } else {
                body
            })
        }
    })
}

/// An agent's direct messages, those among them that were sent to an earlier id of its own.
pub(super) fn inbox(call: &Call<'_>, seat: &SeatId, want: Want) -> Said {
    rename::gather(call.home(), seat)?;
    let body = said(&read_for(call.home(), seat, &Source::Inbox, want, call.wanted)?)?;
    Ok(marked(call, seat, true, body))
}

/// Says of each message that is never typed into its reader's pane that it is not, and why. What was read is read, whether or not that can
/// be told.
fn marked(call: &Call<'_>, seat: &SeatId, direct: bool, mut body: Map<String, Value>) -> Map<String, Value> {
    let Ok(Some(marker)) = transports::load(call.home(), seat) else {
        return body;
    };
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Sort::Never(why) = tier::sort(direct, message, marker.allowlist.as_deref()) {
            message.insert("notPushed".to_owned(), why.as_str().into());
        }
    }
    body
}

pub(super) fn retrieve_room_history(call: &Call<'_>, args: Retrieve) -> Said {
    call.acting(&args.agent_id, |seat| {
        let messages = history::retrieve(call.home(), seat, &args.hash, args.query.as_deref())?;
        Ok(object! {"returned": messages.len(), "messages": messages})
    })
}

pub(super) fn post_status(call: &Call<'_>, args: PostStatus) -> Said {
    call.acting(&args.agent_id, |seat| {
        let sent = post::status(call.home(), seat, &args.status, args.detail.as_deref())?;
        Ok(object! {"id": sent.id, "ts": sent.ts})
    })
}

pub(super) fn list_rooms(call: &Call<'_>, _: args::Nothing) -> Said {
    Ok(object! {"rooms": rooms::list(call.home())?})
}

pub(super) fn join_room(call: &Call<'_>, args: InRoom) -> Said {
    let room = RoomName::parse(&args.room)?;
    call.acting(&args.agent_id, |seat| {
        rooms::join(call.home(), seat, &room)?;
        shown(call, seat, &room)
    })
}

/// A channel as whoever joins it sees it.
pub(super) fn shown(call: &Call<'_>, seat: &SeatId, room: &RoomName) -> Said {
    let home = call.home();
    let entry = Rooms::load(home)?.get(room);
    let agents = crate::registry::Agents::load(home)?;
    let members = rooms::members(room, entry.as_ref(), &agents);
    let unread = unread(home, seat, &Source::Room(room.clone()))?;
    let (topic, motd) = entry.map_or((None, None), |entry| (entry.topic, entry.motd));
    Ok(object! {"room": room, "topic": topic, "motd": motd, "members": members, "unread": unread})
}

pub(super) fn leave_room(call: &Call<'_>, args: InRoom) -> Said {
    let room = RoomName::parse(&args.room)?;
    call.acting(&args.agent_id, |seat| {
        let left = rooms::leave(call.home(), seat, &room)?;
        Ok(object! {"room": room, "left": left})
    })
}

pub(super) fn set_room_topic(call: &Call<'_>, args: Topic) -> Said {
    set(call, &args.agent_id, &args.room, Line::Topic, &args.topic)
}

pub(super) fn set_room_motd(call: &Call<'_>, args: Motd) -> Said {
    set(call, &args.agent_id, &args.room, Line::Motd, &args.motd)
}

fn set(call: &Call<'_>, id: &str, room: &str, what: Line, text: &str) -> Said {
    let room = RoomName::parse(room)?;
    call.acting(id, |seat| {
        rooms::set(call.home(), seat, &room, what, text)?;
        shown(call, seat, &room)
    })
}

/// A wait for a message.
struct NewMessage {
    seat: SeatId,
    source: Source,
    waiter: Waiter,
}

pub(super) fn wait(call: &Call<'_>, args: args::Wait) -> Result<Waiting, BusError> {
    let source = source(args.source, args.room.as_deref())?;
    let timeout = args
        .timeout_ms
        .map_or(USUAL_WAIT, Duration::from_millis)
        .min(MAX_WAIT);
    call.acting(&args.agent_id, |seat| {
        if let Source::Room(room) = &source
            && !rooms::exists(call.home(), room)?
        {
            return Err(BusError::NoRoom(room.clone()));
        }
        if source == Source::Inbox {
            rename::gather(call.home(), seat)?;
        }
        let awaited = NewMessage {
            waiter: call.tools.watch().waiter(&source.log(seat)),
            seat: seat.clone(),
            source: source.clone(),
        };
        Ok(Waiting::new(timeout, awaited))
    })
}

impl Awaited for NewMessage {
    fn read(&mut self, tools: &Tools, wanted: &dyn Fn() -> bool) -> Option<Answer> {
        // Before the read: what is written during it is told.
        self.waiter.note();
        match read_for(tools.home(), &self.seat, &self.source, Want::default(), wanted) {
            Err(BusError::Gone) => Some(self.gone()),
            Ok(batch) if batch.returned == 0 => None,
            Ok(batch) => Some(Answer::of(said(&batch))),
            Err(error) => Some(Answer::of(Err(error))),
        }
    }

    fn waiters(&mut self) -> Vec<&mut Waiter> {
        vec![&mut self.waiter]
    }

    fn grew(&self) -> bool {
        self.waiter.grew()
    }

    fn timed_out(&self) -> Answer {
        Answer {
            body: object! {"ok": false, "timedOut": true, "messages": NONE, "returned": 0},
            failed: false,
        }
    }

    fn gone(&self) -> Answer {
        Answer {
            body: object! {"ok": false, "cancelled": true, "messages": NONE, "returned": 0},
            failed: false,
        }
    }
}

fn channel(room: Option<&str>) -> Result<RoomName, BusError> {
    room.map_or_else(|| Ok(RoomName::general()), RoomName::parse)
}

fn source(from: From, room: Option<&str>) -> Result<Source, BusError> {
    Ok(match from {
        From::Inbox => Source::Inbox,
        From::Status => Source::Status,
        From::Room => Source::Room(channel(room)?),
    })
}
