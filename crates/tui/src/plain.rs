//! The line-oriented client: messages above, one line below that is typed. Never needs a screen, and never touches what is being typed.

mod line;
mod pipe;

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use muster_bus::Source;

use crate::ChatError;
use crate::commands::{Command, parse};
use crate::completion::Names;
use crate::person::{Fresh, Here, Person, Stretch, Told, Way};
use crate::terminal::{Event, Taken, WAITING, read_keys, read_lines, read_signals};
use crate::text::{Watch, line as safe};

/// How often the directory is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// How often the person is said to be there.
pub(crate) const BEAT: Duration = Duration::from_secs(60);
/// Unread messages of a channel that are shown at the start.
const FIRST: usize = 20;

/// Where lines go, and where they come from.
trait Surface {
    /// Shows lines, which are safe.
    fn show(&mut self, lines: &[String]) -> io::Result<()>;
    /// Shows the prompt, if it is another.
    fn prompt(&mut self, prompt: &str) -> io::Result<()>;
    /// Takes what came and answers what the person wants.
    fn take(&mut self, event: Event, names: &Names) -> io::Result<Vec<Wish>>;
    /// Shows a command that was obeyed, where nothing else shows it.
    fn echo(&mut self, command: &str) -> io::Result<()>;
}

/// What a person wants.
#[derive(Debug, PartialEq, Eq)]
enum Wish {
    /// This was typed.
    Line(String),
    /// Nothing can be made of what was typed, in a sentence.
    Refused(String),
    /// To go.
    Leave,
}

/// At a terminal, whose other features are not used.
pub(crate) fn at_terminal(person: Person, watch: Watch, dumb: bool) -> Result<(), ChatError> {
    let (send, events) = sync_channel(WAITING);
    read_signals(send.clone())?;
    let taken = Taken::take(!dumb, false)?;
    read_keys(send)?;
    let mut client = Client::new(person, watch, line::LineSurface::new(io::stdout()));
    let ended = client.run(&events);
    // The last line stays where it is; the shell's prompt goes below.
    let _ = client.surface.leave();
    drop(taken);
    // Whether lines were refused is for the person at the terminal, who has seen it, and not for the exit code.
    ended.map(drop)
}

/// In a pipe: each line of the input is obeyed, and the end of it is the end.
pub(crate) fn in_pipe(person: Person, watch: Watch) -> Result<(), ChatError> {
    let (send, events) = sync_channel(WAITING);
    read_signals(send.clone())?;
    read_lines(send)?;
    let mut client = Client::new(person, watch, pipe::Pipe::new(io::stdout()));
    client.waits = true;
    match client.run(&events)? {
        0 => Ok(()),
        refused => Err(ChatError::Refused(refused)),
    }
}

struct Client<S> {
    person: Person,
    watch: Watch,
    surface: S,
    here: Here,
    /// What was told of last, so that a lasting trouble is told of once.
    trouble: Option<String>,
    refused: usize,
    /// What became of commands is waited for at the end of the input: nobody sits there to stay.
    waits: bool,
}

impl<S: Surface> Client<S> {
    fn new(person: Person, watch: Watch, surface: S) -> Self {
        Self {
            person,
            watch,
            surface,
            here: Here::default(),
            trouble: None,
            refused: 0,
            waits: false,
        }
    }

    /// Runs until the person leaves; answers how many lines were refused.
    fn run(&mut self, events: &Receiver<Event>) -> Result<usize, ChatError> {
        let ended = self.converse(events).and_then(|()| self.await_answers(events));
        let left = self.person.leave();
        ended?;
        left?;
        Ok(self.refused)
    }

    fn converse(&mut self, events: &Receiver<Event>) -> io::Result<()> {
        self.begin()?;
        let mut beaten = Instant::now();
        loop {
            match events.recv_timeout(LOOK) {
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Ok(event) => {
                    for wish in self.surface.take(event, &self.here.names)? {
                        if !self.grant(wish)? {
                            return Ok(());
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.look()?;
            if beaten.elapsed() >= BEAT {
                beaten = Instant::now();
                match self.person.beat() {
                    Ok(()) => {}
                    Err(error) => self.trouble(&safe(&error.chain()))?,
                }
            }
        }
    }

    /// Waits for what became of commands, unless a signal says to end.
    fn await_answers(&mut self, events: &Receiver<Event>) -> io::Result<()> {
        while self.waits && self.person.is_awaiting() {
            match events.recv_timeout(LOOK) {
                Ok(Event::Stop) => return Ok(()),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                // The input ended, and with it whoever told of that.
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK),
            }
            self.look()?;
        }
        Ok(())
    }

    /// What the person missed, and the first prompt.
    fn begin(&mut self) -> io::Result<()> {
        self.look()?;
        let sources: Vec<Source> = self.person.sources().cloned().collect();
        for source in sources {
            if let Err(error) = self.missed(&source)? {
                self.trouble(&safe(&error.chain()))?;
            }
        }
        self.look()
    }

    fn missed(&mut self, source: &Source) -> io::Result<Result<(), muster_bus::BusError>> {
        let unread = match self.person.unread(source) {
            Ok(0) => return Ok(Ok(())),
            Ok(unread) => unread,
            Err(error) => return Ok(Err(error)),
        };
        // Of a channel the newest; direct messages are all for this person.
        let (mut way, limit) = match source {
            Source::Inbox => (Way::From(0), muster_bus::limits::MAX_READ),
            _ => (Way::Newest, FIRST),
        };
        if *source == Source::Inbox {
            way = match self.person.stretch(source, &Way::Newest, 2) {
                Ok(Some(newest)) => Way::From(newest.read),
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
        }
        loop {
            let stretch = match self.person.stretch(source, &way, limit) {
                Ok(Some(stretch)) => stretch,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
            let older = stretch.first.saturating_sub(stretch.read);
            if let (Source::Room(room), true) = (source, older > 0) {
                self.surface.show(&[format!(
                    "(#{room}: {unread} unread; the newest follow, /history shows more)"
                )])?;
            }
            self.show(source, &stretch, stretch.read)?;
            self.person.caught_up(source, &stretch);
            match (source, stretch.last()) {
                (Source::Inbox, Some(last)) if stretch.end < stretch.total => {
                    way = Way::After(last.number, last.entry.clone());
                }
                _ => return Ok(Ok(())),
            }
        }
    }

    /// Shows the messages of a stretch from number `from` on, and notes that they were seen.
    fn show(&mut self, source: &Source, stretch: &Stretch, from: u64) -> io::Result<()> {
        let tag = match source {
            Source::Room(room) if room != self.person.room() => Some(format!("#{room}")),
            _ => None,
        };
        let now = self.person.now();
        let lines: Vec<String> = stretch
            .posts
            .iter()
            .filter(|found| found.number >= from && !found.post.muted)
            .flat_map(|found| found.post.plain(tag.as_deref(), &self.watch, now))
            .collect();
        self.surface.show(&lines)?;
        if let Some(last) = stretch.last()
            && let Err(error) = self.person.seen(source, last.number, &last.entry)
        {
            self.trouble(&safe(&error.chain()))?;
        }
        Ok(())
    }

    /// Shows what is new, and the prompt as it is now.
    fn look(&mut self) -> io::Result<()> {
        let told = self.person.look();
        self.tell(told)?;
        match self.person.here() {
            Ok(Some(here)) => {
                self.surface.prompt(&here.prompt())?;
                self.here = here;
            }
            Ok(None) => {}
            Err(error) => self.trouble(&safe(&error.chain()))?,
        }
        Ok(())
    }

    /// Answers whether the person stays.
    fn tell(&mut self, told: Vec<Told>) -> io::Result<bool> {
        let (mut stays, mut moved) = (true, false);
        for told in told {
            match told {
                Told::Lines(lines) => self.surface.show(&lines)?,
                Told::Problem(sentence) => self.trouble(&sentence)?,
                Told::Direct(post) => {
                    let lines = post.plain(None, &self.watch, self.person.now());
                    self.surface.show(&lines)?;
                }
                Told::Fresh(fresh) => self.fresh(&fresh)?,
                Told::Moved(_) => moved = true,
                Told::Named(_) => {}
                Told::Quit => stays = false,
            }
        }
        if moved {
            self.look()?;
            let source = Source::Room(self.person.room().clone());
            if let Err(error) = self.missed(&source)? {
                self.trouble(&safe(&error.chain()))?;
            }
        }
        Ok(stays)
    }

    fn fresh(&mut self, fresh: &Fresh) -> io::Result<()> {
        if fresh.skipped > 0 {
            self.surface.show(&[format!(
                "({} messages came at once; the newest follow, /history shows more)",
                fresh.skipped + fresh.stretch.posts.len() as u64
            )])?;
        }
        self.show(&fresh.source, &fresh.stretch, 0)
    }

    /// Does what was typed; answers whether the person stays.
    fn grant(&mut self, wish: Wish) -> io::Result<bool> {
        let typed = match wish {
            Wish::Leave => return Ok(false),
            Wish::Refused(sentence) => {
                self.refuse(&sentence)?;
                return Ok(true);
            }
            Wish::Line(typed) => typed,
        };
        let command = match parse(&typed) {
            Ok(command) => command,
            Err(sentence) => {
                self.surface.echo(&typed)?;
                self.refuse(&sentence)?;
                return Ok(true);
            }
        };
        if !matches!(command, Command::Say(_) | Command::Nothing) {
            self.surface.echo(&typed)?;
        }
        let told = self.person.obey(command, &self.watch);
        for problem in &told {
            if let Told::Problem(sentence) = problem {
                self.refuse(sentence)?;
            }
        }
        let rest = told
            .into_iter()
            .filter(|told| !matches!(told, Told::Problem(_)))
            .collect();
        let stays = self.tell(rest)?;
        // In the order of a script: what a line brought stands before the next one.
        self.look()?;
        Ok(stays)
    }

    fn refuse(&mut self, sentence: &str) -> io::Result<()> {
        self.refused += 1;
        self.surface.show(&[format!("error: {sentence}")])
    }

    fn trouble(&mut self, sentence: &str) -> io::Result<()> {
        if self.trouble.as_deref() == Some(sentence) {
            return Ok(());
        }
        self.trouble = Some(sentence.to_owned());
        self.surface.show(&[format!("error: {sentence}")])
    }
}
