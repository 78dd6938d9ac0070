//! Doing what a person typed. Never does half of a command in silence: each answer says what was done.

use muster_bus::doctor::{self, doctor};
use muster_bus::limits::MAX_READ;
use muster_bus::push::{ControlCommand, lease};
use muster_bus::read;
use muster_bus::registry::{self, Agents};
use muster_bus::rooms::{self, Line, Rooms};
use muster_bus::tools::{Orders, To};
use muster_bus::{BusError, Entry, RoomName, SeatId, Source, post, rename, transports};

use super::follow::problem;
use super::{Person, Told, Way};
use crate::commands::{Command, help_lines};
use crate::post::Post;
use crate::text::{Watch, bounded, line, short, width};

type Did = Result<Vec<Told>, BusError>;

fn one(text: impl AsRef<str>) -> Did {
    Ok(vec![Told::Lines(vec![line(text.as_ref())])])
}

impl Person {
    /// Does what was typed. New messages, those of the person too, are told by the next look.
    pub(crate) fn obey(&mut self, command: Command, watch: &Watch) -> Vec<Told> {
        let did = match command {
            Command::Nothing => Ok(Vec::new()),
            Command::Say(text) => {
                post::post(&self.home, &self.seat, &self.room, &text, None).map(|_| Vec::new())
            }
            Command::Dm { to, text } => self.dm(&to, &text),
            Command::Msg { room, text } => self.msg(&room, &text),
            Command::Join(room) => self.join(room),
            Command::Part(room) => self.part(room),
            Command::Rooms => self.rooms(),
            Command::Topic(text) => self.line(Line::Topic, text),
            Command::Motd(text) => self.line(Line::Motd, text),
            Command::List => self.list(),
            Command::Whois(seat) => self.whois(&seat, watch),
            Command::Nick(new) => self.nick(&new),
            Command::Away(why) => self.away(Some(why.as_deref().unwrap_or("away"))),
            Command::Back => self.away(None),
            Command::Ignore(who) => self.ignore(who),
            Command::Unignore(who) => self.unignore(&who),
            Command::History(count) => self.history(count, watch),
            Command::Doctor { fix } => Ok(vec![Told::Lines(report(&doctor(
                &self.home,
                &doctor::Options {
                    fix,
                    ..doctor::Options::default()
                },
            )))]),
            Command::Control { to, command } => self.control(&to, command),
            Command::Help => Ok(vec![Told::Lines(help_lines())]),
            Command::Quit(words) => self.quit(words),
        };
        self.stale();
        did.unwrap_or_else(|error| vec![problem(&error)])
    }

    fn dm(&self, to: &SeatId, text: &str) -> Did {
        let now = rename::forwarded(&self.home, to)?;
        let to = now.as_ref().unwrap_or(to);
        let sent = post::send(&self.home, &self.seat, to, text)?;
        let mut told = vec![Told::Direct(Post::direct(&self.seat, to, sent.ts, text))];
        if now.is_some() {
            told.push(Told::Lines(vec![format!(
                "that agent is '{to}' now, and got it under this id"
            )]));
        } else if let Some(new) = rename::forwarded(&self.home, to)? {
            // A rename that came in between: its new id has the message at once.
            rename::gather(&self.home, &new)?;
        }
        if let Some(warning) = sent.warning {
            told.push(Told::Lines(vec![line(&warning)]));
        }
        if let Some(held) = self.held(to) {
            told.push(Told::Lines(vec![format!(
                "nothing is typed into the pane of {to} now ({}), so it waits there, or until {to} reads it",
                short(&held)
            )]));
        }
        Ok(told)
    }

    /// Why nothing is typed into an agent's pane now, in its deliverer's words.
    pub(super) fn held(&self, seat: &SeatId) -> Option<String> {
        lease::standing(&self.home, seat).ok().flatten()?.held
    }

    fn control(&mut self, to: &To, command: ControlCommand) -> Did {
        let orders = self.orders.get_or_insert_with(|| Orders::new(&self.home));
        let said = orders.send(&self.seat, to, command)?;
        Ok(vec![Told::Lines(said.iter().map(|text| line(text)).collect())])
    }

    fn msg(&self, room: &RoomName, text: &str) -> Did {
        let heard = self.sources().any(|source| *source == Source::Room(room.clone()));
        post::post(&self.home, &self.seat, room, text, None)?;
        // What is not heard is not shown by the next look, so it is said.
        if heard {
            Ok(Vec::new())
        } else {
            one(format!("posted to #{room}, which you have not joined"))
        }
    }

    fn join(&mut self, room: RoomName) -> Did {
        let entry = rooms::join(&self.home, &self.seat, &room)?;
        let members = rooms::members(&room, Some(&entry), &Agents::load(&self.home)?);
        let mut lines = vec![format!("#{room}: {}", list_of(&members))];
        if let Some(topic) = &entry.topic {
            lines.push(format!("topic: {}", short(topic)));
        }
        if let Some(motd) = &entry.motd {
            lines.extend(bounded(&format!("rules: {motd}")));
        }
        self.focus(room.clone());
        Ok(vec![Told::Moved(room), Told::Lines(lines)])
    }

    fn part(&mut self, room: Option<RoomName>) -> Did {
        let room = room.unwrap_or_else(|| self.room.clone());
        let left = rooms::leave(&self.home, &self.seat, &room)?;
        let mut told = Vec::new();
        if room == self.room {
            self.focus(RoomName::general());
            told.push(Told::Moved(RoomName::general()));
        }
        told.push(Told::Lines(vec![if left {
            format!("you left #{room}")
        } else {
            format!("you were not in #{room}")
        }]));
        Ok(told)
    }

    fn rooms(&self) -> Did {
        let joined = super::heard(&self.home, &self.seat, &self.room)?;
        let mut rows = Vec::new();
        for listed in rooms::list(&self.home)? {
            let unread = if joined.contains(&listed.room) {
                format!("{} unread", self.unread(&Source::Room(listed.room.clone()))?)
            } else {
                "not joined".to_owned()
            };
            let members = match listed.member_count {
                1 => "1 member".to_owned(),
                count => format!("{count} members"),
            };
            rows.push([
                format!("#{}", listed.room),
                members,
                unread,
                listed.topic.map(|topic| short(&topic)).unwrap_or_default(),
                list_of(&listed.members),
            ]);
        }
        Ok(vec![Told::Lines(columns(&rows))])
    }

    fn line(&self, what: Line, text: Option<String>) -> Did {
        if let Some(text) = text {
            // The channel is told by a notice, which the next look shows.
            return rooms::set(&self.home, &self.seat, &self.room, what, &text).map(|()| Vec::new());
        }
        let entry = Rooms::load(&self.home)?.get(&self.room).unwrap_or_default();
        let (word, text) = match what {
            Line::Topic => ("topic", entry.topic),
            Line::Motd => ("rules", entry.motd),
        };
        let Some(text) = text else {
            return one(format!("#{} has no {word}", self.room));
        };
        let mut lines = bounded(&text);
        if let Some(first) = lines.first_mut() {
            *first = format!("{word} of #{}: {first}", self.room);
        }
        Ok(vec![Told::Lines(lines)])
    }

    fn list(&self) -> Did {
        let peers = self.peers(&Agents::load(&self.home)?)?;
        let rows: Vec<[String; 4]> = peers
            .into_iter()
            .map(|peer| {
                let presence = match (&peer.away, peer.online) {
                    (Some(why), true) => format!("away: {why}"),
                    (Some(why), false) => format!("offline, away: {why}"),
                    (None, true) => "online".to_owned(),
                    (None, false) => format!("offline for {}", ago(peer.quiet)),
                };
                let held = peer.held.map_or_else(String::new, |why| format!(", held: {why}"));
                let reached = peer.attached.map_or_else(
                    || "not attached".to_owned(),
                    |how| format!("attached: {how}{held}"),
                );
                [peer.id, presence, reached, peer.role.unwrap_or_default()]
            })
            .collect();
        Ok(vec![Told::Lines(columns(&rows))])
    }

    fn whois(&self, seat: &SeatId, watch: &Watch) -> Did {
        let agents = Agents::load(&self.home)?;
        let Some(agent) = agents.get(seat) else {
            return one(match rename::forwarded(&self.home, seat)? {
                Some(now) => format!("'{seat}' is '{now}' now"),
                None => format!("nobody is registered as '{seat}'"),
            });
        };
        let now = self.now();
        let role = agent.role.as_deref().map_or_else(|| "no role".to_owned(), short);
        let project = agent
            .project
            .as_deref()
            .map_or_else(String::new, |project| format!(", project {}", short(project)));
        let mut lines = vec![format!("{seat}: {role}{project}")];
        let marker = transports::load(&self.home, seat)?;
        let live = marker
            .filter(|marker| transports::alive(marker, Some(&agent), now))
            .map(|marker| {
                line(&format!(
                    "{} {}",
                    marker.transport,
                    marker.pane().unwrap_or_default()
                ))
            });
        let online = if agent.online(now) || live.is_some() {
            "online"
        } else {
            "offline"
        };
        let attached = live.map_or_else(
            || "not attached".to_owned(),
            |how| format!("attached: {}", how.trim_end()),
        );
        lines.push(format!(
            "  {online}, last heartbeat {} ago, {attached}",
            ago(agent.quiet(now).as_secs())
        ));
        lines.extend(self.push_of(seat)?);
        if let Some(why) = &agent.away {
            lines.push(format!("  away: {}", short(why)));
        }
        let mut channels = Rooms::load(&self.home)?.of(seat);
        channels.push(RoomName::general());
        channels.sort();
        channels.dedup();
        let channels: Vec<String> = channels.iter().map(|room| format!("#{room}")).collect();
        lines.push(format!("  channels: {}", channels.join(" ")));
        lines.push(match self.status(seat)? {
            Some(entry) => {
                let said = |name| entry.get(name).and_then(serde_json::Value::as_str).map(short);
                let ts = entry.get("ts").and_then(serde_json::Value::as_i64).unwrap_or(0);
                let detail = said("detail").map_or_else(String::new, |detail| format!(" ({detail})"));
                format!(
                    "  status at {}: {}{detail}",
                    watch.at(ts, now),
                    said("status").unwrap_or_default()
                )
            }
            None => "  status: none".to_owned(),
        });
        Ok(vec![Told::Lines(lines)])
    }

    /// How the push to an agent stands, where something is to be said of it.
    fn push_of(&self, seat: &SeatId) -> Result<Option<String>, BusError> {
        let Some(standing) = lease::standing(&self.home, seat)? else {
            return Ok(None);
        };
        let counted = |count: u64, what: &str| (count > 0).then(|| format!("{count} {what}"));
        let said: Vec<String> = [
            standing
                .held
                .as_deref()
                .map(|held| format!("held, {}", short(held))),
            counted(
                standing.unconfirmed,
                "may have been typed and are not typed again",
            ),
            counted(standing.suppressed, "were never typed"),
        ]
        .into_iter()
        .flatten()
        .collect();
        Ok((!said.is_empty()).then(|| format!("  push: {}", said.join("; "))))
    }

    /// The last status of an agent, among the newest two thousand of all.
    fn status(&self, seat: &SeatId) -> Result<Option<Entry>, BusError> {
        let mut before = None;
        for _ in 0..4 {
            let page = read::page(&self.home, &self.seat, &Source::Status, before, MAX_READ)?;
            let found = page.entries.into_iter().rfind(|entry| {
                entry.get("agentId").and_then(serde_json::Value::as_str) == Some(seat.as_str())
            });
            if found.is_some() || page.first == 0 {
                return Ok(found);
            }
            before = Some(page.first);
        }
        Ok(None)
    }

    fn nick(&mut self, new: &SeatId) -> Did {
        if *new == self.seat {
            return one(format!("you are '{new}' already"));
        }
        let renamed = self.session.rename(new);
        if let Some(now) = self.session.bound() {
            self.seat = now;
        }
        self.joined = None;
        match renamed {
            Ok(()) => Ok(vec![
                Told::Named(self.seat.clone()),
                Told::Lines(vec![format!("you are '{new}' now")]),
            ]),
            Err(error) => Ok(vec![Told::Named(self.seat.clone()), problem(&error)]),
        }
    }

    fn away(&self, why: Option<&str>) -> Did {
        self.beat()?;
        registry::away(&self.home, &self.seat, why)?;
        one(match why {
            Some(why) => format!("you are away: {why}"),
            None => "you are back".to_owned(),
        })
    }

    fn ignore(&mut self, who: Option<String>) -> Did {
        let Some(who) = who else {
            let muted: Vec<String> = self.ignored.iter().cloned().collect();
            return one(if muted.is_empty() {
                "you mute nobody".to_owned()
            } else {
                format!("you mute {}", muted.join(", "))
            });
        };
        if who.eq_ignore_ascii_case(self.seat.as_str()) {
            return one("that is you; nobody was muted");
        }
        self.ignored.insert(who.to_ascii_lowercase());
        one(format!(
            "'{who}' is muted until you quit; what is muted counts as read. /unignore {who} ends it"
        ))
    }

    fn unignore(&mut self, who: &str) -> Did {
        one(if self.ignored.remove(&who.to_ascii_lowercase()) {
            format!("'{who}' is heard again")
        } else {
            format!("'{who}' was not muted")
        })
    }

    fn history(&self, count: usize, watch: &Watch) -> Did {
        let source = Source::Room(self.room.clone());
        let Some(stretch) = self.stretch(&source, &Way::Newest, count.max(2))? else {
            return Ok(Vec::new());
        };
        let posts = stretch.posts.get(stretch.posts.len().saturating_sub(count)..);
        let mut lines = Vec::new();
        for numbered in posts.unwrap_or_default() {
            lines.extend(numbered.post.plain(None, watch, self.now()));
        }
        if lines.is_empty() {
            lines.push(format!("#{} is empty", self.room));
        }
        Ok(vec![Told::Lines(lines)])
    }

    fn quit(&mut self, words: Option<String>) -> Did {
        if let Some(words) = words {
            post::post(&self.home, &self.seat, &self.room, &words, None)?;
        }
        Ok(vec![Told::Quit])
    }
}

/// A report of the doctor as it is printed everywhere.
pub(crate) fn report(report: &doctor::Report) -> Vec<String> {
    report.lines().iter().map(|text| line(text)).collect()
}

/// Names in a row.
fn list_of(names: &[String]) -> String {
    if names.is_empty() {
        return "nobody".to_owned();
    }
    names
        .iter()
        .map(|name| short(name))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Seconds in the largest unit that fits.
fn ago(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Rows with their cells one below the other.
fn columns<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let mut widths = [0; N];
    for row in rows {
        for (wide, cell) in widths.iter_mut().zip(row) {
            *wide = width(cell).min(40).max(*wide);
        }
    }
    rows.iter()
        .map(|row| {
            let mut text = String::new();
            for (cell, wide) in row.iter().zip(widths) {
                text.push_str(cell);
                let pad = wide.saturating_sub(width(cell)) + 2;
                text.extend(std::iter::repeat_n(' ', pad));
            }
            text.trim_end().to_owned()
        })
        .collect()
}
