//! The full screen as a machine: what happened goes in, what is to be done comes out. Never reads a file, a clock or a key itself.

#[cfg(test)]
mod tests;

use muster_bus::{RoomName, Source};

use crate::commands::{Command, help_lines, parse};
use crate::keys::{Code, Input, Key};
use crate::person::{Fresh, Here, Numbered, Stretch, Told, Way};
use crate::text::Watch;
use crate::timeline::{Timeline, Tone};
use crate::typing::{Typed, Typing};

/// Messages of other sources that are shown at once; of more only their number is.
const SHOWN: usize = 5;
/// Messages that a page is asked for with.
pub(crate) const PAGE: usize = 200;
/// Unread direct messages that are shown where the person is; of more their number is.
const DIRECT: u64 = 200;

/// What is asked of the bus.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Job {
    Obey(Command),
    /// Puts a channel in focus that the person hears.
    Focus(RoomName),
    Stretch {
        source: Source,
        way: Way,
        limit: usize,
    },
    Seen {
        source: Source,
        number: u64,
        entry: muster_bus::Entry,
    },
}

/// What the bus answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Told(Told),
    Here(Here),
    Unread(Source, u64),
    /// `None` when the entry to go on from is gone.
    Stretch {
        source: Source,
        way: Way,
        stretch: Option<Stretch>,
    },
    /// A page could not be read.
    Unreadable {
        source: Source,
        sentence: String,
    },
    /// Something does not work, in a sentence.
    Trouble(String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    Job(Job),
    /// The person leaves.
    Quit,
    /// The screen is drawn anew.
    Redraw,
    /// The program stops until it is called back.
    Suspend,
}

/// The state of the screen.
pub(crate) struct App {
    pub(crate) here: Here,
    pub(crate) typing: Typing,
    pub(crate) timeline: Timeline,
    /// Unread messages by source; those in sight are read.
    pub(crate) unread: Vec<(Source, u64)>,
    pub(crate) watch: Watch,
    pub(crate) now: i64,
    /// Where plain text goes.
    room: RoomName,
    /// The message of the source in sight that was last noted as seen.
    seen: Option<u64>,
    trouble: Option<String>,
    /// Rows of the messages' window.
    pub(crate) height: usize,
}

impl App {
    /// The person sits in `general`. The first effects ask for what is there.
    pub(crate) fn new(me: &str, watch: Watch, now: i64) -> (Self, Vec<Effect>) {
        let general = RoomName::general();
        let source = Source::Room(general.clone());
        let app = Self {
            here: Here {
                me: me.to_owned(),
                room: general.as_str().to_owned(),
                joined: vec![general.clone()],
                ..Here::default()
            },
            typing: Typing::default(),
            timeline: Timeline::new(source.clone()),
            unread: Vec::new(),
            watch,
            now,
            room: general,
            seen: None,
            trouble: None,
            height: 20,
        };
        let first = app.asks(Way::Newest);
        (app, vec![first])
    }

    fn asks(&self, way: Way) -> Effect {
        Effect::Job(Job::Stretch {
            source: self.timeline.source.clone(),
            way,
            limit: PAGE,
        })
    }

    /// The prompt; in the window of direct messages it says so.
    pub(crate) fn prompt(&self) -> String {
        match self.timeline.source {
            Source::Inbox => format!("{} direct messages>", self.here.me),
            _ => self.here.prompt(),
        }
    }

    /// What is unread in a source.
    pub(crate) fn unread(&self, source: &Source) -> u64 {
        self.unread
            .iter()
            .find(|(of, _)| of == source)
            .map_or(0, |(_, count)| *count)
    }

    fn set_unread(&mut self, source: &Source, count: u64) {
        self.unread.retain(|(of, _)| of != source);
        if count > 0 {
            self.unread.push((source.clone(), count));
        }
    }

    /// Everything that can be in sight, in the order of the list.
    pub(crate) fn sources(&self) -> Vec<Source> {
        std::iter::once(Source::Inbox)
            .chain(self.here.joined.iter().cloned().map(Source::Room))
            .collect()
    }

    /// Takes what was done at the keyboard.
    pub(crate) fn input(&mut self, input: Input) -> Vec<Effect> {
        match self.typing.take(input, &self.here.names) {
            Typed::Edited => Vec::new(),
            Typed::Leave => vec![Effect::Quit],
            Typed::Refused(sentence) => self.problem(sentence),
            Typed::Line(typed) => self.line(typed),
            Typed::Other(key) => self.key(key),
        }
    }

    /// After everything that happened: what is missing around the place that is looked at.
    pub(crate) fn settle(&mut self) -> Vec<Effect> {
        self.timeline
            .wants()
            .map(|way| self.asks(way))
            .into_iter()
            .collect()
    }

    fn line(&mut self, typed: String) -> Vec<Effect> {
        let command = match parse(&typed) {
            Ok(command) => command,
            Err(sentence) => return self.problem(sentence),
        };
        let mut effects = Vec::new();
        match &command {
            Command::Nothing => return effects,
            Command::Say(_) if self.timeline.source == Source::Inbox => {
                return self.problem(
                    "these are your direct messages, so nothing was posted; /dm <agent> <text> writes one, and Alt-Down goes to a channel"
                        .to_owned(),
                );
            }
            // They act on the channel in focus, which is not the one in sight.
            Command::Topic(_) | Command::Motd(_) | Command::History(_) | Command::Part(None)
                if self.timeline.source == Source::Inbox =>
            {
                return self.problem(format!(
                    "these are your direct messages and no channel, so nothing was done; Alt-Down goes to a channel, and #{} is the last you were in",
                    self.room
                ));
            }
            Command::Say(_) => effects.extend(self.timeline.go_to_end().map(|way| self.asks(way))),
            Command::Help => {
                let mut lines = help_lines();
                lines.extend(KEYS.iter().map(|line| (*line).to_owned()));
                return self.say(Tone::Answer, lines);
            }
            _ => {}
        }
        effects.push(Effect::Job(Job::Obey(command)));
        effects
    }

    fn key(&mut self, key: Key) -> Vec<Effect> {
        let page = isize::try_from(self.height.saturating_sub(2).max(1)).unwrap_or(1);
        match (key.code, key.ctrl, key.alt) {
            (Code::PageUp, ..) => self.scroll(page),
            (Code::PageDown, ..) => self.scroll(-page),
            (Code::Up, _, false) => self.scroll(1),
            (Code::Down, _, false) => self.scroll(-1),
            (Code::Up, false, true) => self.step(-1),
            (Code::Down, false, true) => self.step(1),
            (Code::Home, ..) => self
                .timeline
                .go_to_start()
                .map(|way| self.asks(way))
                .into_iter()
                .collect(),
            (Code::End, ..) | (Code::Esc, ..) => {
                let mut effects: Vec<Effect> = self
                    .timeline
                    .go_to_end()
                    .map(|way| self.asks(way))
                    .into_iter()
                    .collect();
                effects.extend(self.now_seen());
                effects
            }
            (Code::Char('a'), false, true) => self.next_unread(),
            (Code::Char(digit @ '0'..='9'), false, true) => {
                let at = digit as usize - '0' as usize;
                self.sources()
                    .get(at)
                    .cloned()
                    .map(|source| self.open(source))
                    .unwrap_or_default()
            }
            (Code::Char('l'), true, _) => vec![Effect::Redraw],
            (Code::Char('z'), true, _) => vec![Effect::Suspend],
            _ => Vec::new(),
        }
    }

    fn scroll(&mut self, up: isize) -> Vec<Effect> {
        self.timeline.scroll(up, self.height, &self.watch);
        let mut effects: Vec<Effect> = self
            .timeline
            .wants()
            .map(|way| self.asks(way))
            .into_iter()
            .collect();
        effects.extend(self.now_seen());
        effects
    }

    fn step(&mut self, by: isize) -> Vec<Effect> {
        let sources = self.sources();
        let at = sources
            .iter()
            .position(|source| *source == self.timeline.source)
            .unwrap_or(0);
        let count = isize::try_from(sources.len()).unwrap_or(1);
        let to = (isize::try_from(at).unwrap_or(0) + by).rem_euclid(count.max(1));
        let to = usize::try_from(to).unwrap_or(0);
        sources
            .get(to)
            .cloned()
            .map(|source| self.open(source))
            .unwrap_or_default()
    }

    fn next_unread(&mut self) -> Vec<Effect> {
        let waits = |source: &Source| self.unread(source) > 0 && *source != self.timeline.source;
        let next = self.sources().into_iter().find(waits);
        next.map(|source| self.open(source)).unwrap_or_default()
    }

    /// Brings a source into sight.
    fn open(&mut self, source: Source) -> Vec<Effect> {
        let mut effects = Vec::new();
        if source == self.timeline.source {
            return effects;
        }
        if let Source::Room(room) = &source
            && *room != self.room
        {
            self.room = room.clone();
            room.as_str().clone_into(&mut self.here.room);
            effects.push(Effect::Job(Job::Focus(room.clone())));
        }
        self.timeline = Timeline::new(source);
        self.seen = None;
        effects.push(self.asks(Way::Newest));
        effects
    }

    /// Takes what the bus answers.
    pub(crate) fn reply(&mut self, reply: Reply) -> Vec<Effect> {
        match reply {
            Reply::Told(told) => self.told(told),
            Reply::Here(here) => {
                // An answer about the channel before this one.
                if here.room == self.room.as_str() {
                    self.here = here;
                }
                Vec::new()
            }
            Reply::Unread(source, count) => self.missed(&source, count),
            Reply::Stretch { source, way, stretch } => {
                if source != self.timeline.source {
                    return self.direct(&source, stretch);
                }
                self.timeline.take(&way, stretch);
                self.now_seen()
            }
            Reply::Unreadable { source, sentence } => {
                if source == self.timeline.source {
                    self.timeline.failed();
                }
                self.trouble(sentence)
            }
            Reply::Trouble(sentence) => self.trouble(sentence),
        }
    }

    /// What was unread when the person came.
    fn missed(&mut self, source: &Source, count: u64) -> Vec<Effect> {
        if *source == self.timeline.source {
            return Vec::new();
        }
        self.set_unread(source, count);
        match source {
            Source::Inbox if (1..=DIRECT).contains(&count) => vec![Effect::Job(Job::Stretch {
                source: Source::Inbox,
                way: Way::Newest,
                limit: usize::try_from(count).unwrap_or(PAGE),
            })],
            Source::Inbox if count > 0 => self.say(
                Tone::Answer,
                vec![format!("{count} direct messages are unread; Alt-0 shows them")],
            ),
            _ => Vec::new(),
        }
    }

    /// Direct messages that came while the person was away, shown where they are now.
    fn direct(&mut self, source: &Source, stretch: Option<Stretch>) -> Vec<Effect> {
        let Some(stretch) = stretch.filter(|_| *source == Source::Inbox) else {
            return Vec::new();
        };
        let unread = stretch
            .posts
            .into_iter()
            .filter(|found| found.number >= stretch.read)
            .collect();
        self.show_direct(unread)
    }

    fn show_direct(&mut self, posts: Vec<Numbered>) -> Vec<Effect> {
        let Some(last) = posts.last().cloned() else {
            return Vec::new();
        };
        for found in posts {
            self.timeline.overhear(None, found.post);
        }
        if !self.timeline.at_end() {
            return Vec::new();
        }
        self.set_unread(&Source::Inbox, 0);
        vec![Effect::Job(Job::Seen {
            source: Source::Inbox,
            number: last.number,
            entry: last.entry,
        })]
    }

    fn told(&mut self, told: Told) -> Vec<Effect> {
        match told {
            Told::Lines(lines) => self.say(Tone::Answer, lines),
            Told::Problem(sentence) => self.problem(sentence),
            Told::Direct(post) => {
                let way = if self.timeline.source == Source::Inbox {
                    self.timeline.go_to_end()
                } else {
                    None
                };
                let sent = self.timeline.sent(post);
                way.or(sent).map(|way| self.asks(way)).into_iter().collect()
            }
            Told::Moved(room) => {
                let effects = self.open(Source::Room(room));
                // The bus has moved already.
                effects
                    .into_iter()
                    .filter(|effect| !matches!(effect, Effect::Job(Job::Focus(_))))
                    .collect()
            }
            Told::Named(seat) => {
                seat.as_str().clone_into(&mut self.here.me);
                Vec::new()
            }
            Told::Fresh(fresh) => self.fresh(fresh),
            Told::Quit => vec![Effect::Quit],
        }
    }

    fn fresh(&mut self, fresh: Fresh) -> Vec<Effect> {
        let Fresh {
            source,
            stretch,
            cut,
            skipped,
        } = fresh;
        if source == self.timeline.source {
            let way = self.timeline.grow(stretch, cut, skipped);
            let mut effects: Vec<Effect> = way.map(|way| self.asks(way)).into_iter().collect();
            effects.extend(self.now_seen());
            return effects;
        }
        let heard = |found: &Numbered| !found.post.mine && !found.post.muted;
        let new = stretch.posts.iter().filter(|found| heard(found)).count() as u64 + skipped;
        self.set_unread(&source, self.unread(&source) + new);
        match &source {
            Source::Inbox => return self.show_direct(stretch.posts),
            Source::Room(room) if skipped > 0 || stretch.posts.len() > SHOWN => {
                let lines = vec![format!("#{room}: {new} new messages")];
                if self.timeline.at_end() {
                    return self.say(Tone::Tag, lines);
                }
            }
            Source::Room(room) => {
                for found in stretch.posts.into_iter().filter(|found| !found.post.muted) {
                    self.timeline.overhear(Some(format!("#{room}")), found.post);
                }
            }
            Source::Status => {}
        }
        Vec::new()
    }

    /// Notes what is in sight as seen.
    fn now_seen(&mut self) -> Vec<Effect> {
        let Some(newest) = self.timeline.newest() else {
            return Vec::new();
        };
        let (number, entry) = (newest.number, newest.entry.clone());
        let source = self.timeline.source.clone();
        self.set_unread(&source, 0);
        if self.seen == Some(number) {
            return Vec::new();
        }
        self.seen = Some(number);
        vec![Effect::Job(Job::Seen {
            source,
            number,
            entry,
        })]
    }

    fn say(&mut self, tone: Tone, lines: Vec<String>) -> Vec<Effect> {
        let way = self.timeline.say(tone, lines);
        let mut effects: Vec<Effect> = way.map(|way| self.asks(way)).into_iter().collect();
        effects.extend(self.now_seen());
        effects
    }

    fn problem(&mut self, sentence: String) -> Vec<Effect> {
        self.say(Tone::Problem, vec![sentence])
    }

    /// A lasting trouble is told of once.
    fn trouble(&mut self, sentence: String) -> Vec<Effect> {
        if self.trouble.as_ref() == Some(&sentence) {
            return Vec::new();
        }
        self.trouble = Some(sentence.clone());
        self.problem(sentence)
    }
}

/// What the keys do, for `/help`.
const KEYS: [&str; 9] = [
    "Enter                sends; Alt-Enter or Ctrl-J breaks the line",
    "Tab                  completes a command, an agent or a channel; again: the next one",
    "Up, Down             what you typed before",
    "PageUp, PageDown     scroll; Ctrl-Up, Ctrl-Down by a row; Ctrl-Home, Esc to the ends",
    "Alt-Up, Alt-Down     the channel above or below; Alt-0 to Alt-9 the nth, 0 your direct messages",
    "Alt-A                the next channel with unread messages",
    "Ctrl-A E B F W U K Y edit the line as in a shell",
    "Ctrl-L, Ctrl-Z       draw anew, suspend",
    "Ctrl-C, Ctrl-D       unregister and end",
];
