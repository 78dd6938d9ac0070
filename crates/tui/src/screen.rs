//! The full screen on a terminal: one thread draws and listens, another one speaks with the bus, so that a slow disk never holds a key. Never leaves the terminal changed.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use muster_bus::{BusError, Source};
use muster_core::Fault;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ratatui::Terminal;

use crate::ChatError;
use crate::app::{App, Effect, Job, Reply};
use crate::bounded::Bounded;
use crate::person::{Person, Told};
use crate::plain::{BEAT, LOOK};
use crate::terminal::{Event, Taken, WAITING, read_keys, read_signals};
use crate::text::{Watch, line};
use crate::view::{Colours, draw};

/// How long the end is waited for: longer than any lock of the bus is.
const PATIENCE: Duration = Duration::from_secs(15);

/// What wakes the screen.
enum Happened {
    Terminal(Event),
    Bus(Reply),
    /// The bus was left, or could not be.
    Left(Result<(), BusError>),
}

impl From<Event> for Happened {
    fn from(event: Event) -> Self {
        Self::Terminal(event)
    }
}

/// Sits down, and returns when the person has left.
pub(crate) fn run(person: Person, watch: Watch, colours: Colours) -> Result<(), ChatError> {
    let (send, happened) = sync_channel(WAITING);
    let (jobs, asked) = channel();
    read_signals(send.clone())?;
    let (app, first) = App::new(person.seat().as_str(), watch.clone(), person.now());
    let clock = person.clock();
    speak(person, watch, asked, send.clone())?;
    let taken = Taken::take(true, true)?;
    read_keys(send)?;
    let mut screen = Screen {
        terminal: Terminal::new(Bounded::new())?,
        taken: Some(taken),
        app,
        jobs,
        colours,
        clock: Box::new(clock),
        left: None,
    };
    let ended = screen.listen(first, &happened);
    screen.taken = None;
    let early = screen.left.take();
    // The bus's thread leaves when nobody can ask it anything any more.
    drop(screen);
    let left = wait(early, &happened);
    ended?;
    left
}

fn wait(early: Option<Result<(), BusError>>, happened: &Receiver<Happened>) -> Result<(), ChatError> {
    if let Some(left) = early {
        return Ok(left?);
    }
    let begun = Instant::now();
    loop {
        match happened.recv_timeout(PATIENCE.saturating_sub(begun.elapsed())) {
            Ok(Happened::Left(left)) => return Ok(left?),
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(ChatError::Terminal(io::Error::other(
                    "the bus could not be left in order; its entry for you counts no more in five minutes",
                )));
            }
        }
    }
}

struct Screen {
    terminal: Terminal<Bounded>,
    taken: Option<Taken>,
    app: App,
    jobs: Sender<Job>,
    colours: Colours,
    clock: Box<dyn Fn() -> i64>,
    /// The bus was left before the screen was.
    left: Option<Result<(), BusError>>,
}

impl Screen {
    fn listen(&mut self, first: Vec<Effect>, happened: &Receiver<Happened>) -> io::Result<()> {
        if !self.act(first)? {
            return Ok(());
        }
        self.draw()?;
        loop {
            // The time of the day goes on, too.
            match happened.recv_timeout(Duration::from_secs(30)) {
                Ok(what) => {
                    if !self.take(what)? {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            // What has come meanwhile is drawn with it.
            for what in happened.try_iter().take(WAITING) {
                if !self.take(what)? {
                    return Ok(());
                }
            }
            let more = self.app.settle();
            self.act(more)?;
            self.draw()?;
        }
    }

    fn draw(&mut self) -> io::Result<()> {
        self.app.now = (self.clock)();
        let (app, colours) = (&mut self.app, self.colours);
        self.terminal.draw(|frame| draw(frame, app, colours)).map(drop)
    }

    /// Answers whether the person stays.
    fn take(&mut self, what: Happened) -> io::Result<bool> {
        match what {
            Happened::Terminal(Event::Input(inputs)) => {
                for input in inputs {
                    let effects = self.app.input(input);
                    if !self.act(effects)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Happened::Terminal(Event::Resize | Event::Line(_)) => Ok(true),
            Happened::Terminal(Event::Stop | Event::End) => Ok(false),
            Happened::Left(left) => {
                self.left = Some(left);
                Ok(false)
            }
            Happened::Bus(reply) => {
                let effects = self.app.reply(reply);
                self.act(effects)
            }
        }
    }

    fn act(&mut self, effects: Vec<Effect>) -> io::Result<bool> {
        for effect in effects {
            match effect {
                Effect::Job(job) => {
                    if self.jobs.send(job).is_err() {
                        return Ok(false);
                    }
                }
                Effect::Quit => return Ok(false),
                Effect::Redraw => self.redraw()?,
                Effect::Suspend => self.suspend()?,
            }
        }
        Ok(true)
    }

    /// Gives the terminal to the shell until the person comes back.
    fn suspend(&mut self) -> io::Result<()> {
        self.taken = None;
        // The whole job, as the terminal itself would: the shell waits for all of it.
        kill(Pid::from_raw(0), Signal::SIGTSTP)?;
        // Another thread may take the signal: this one must not take the terminal back before all of them stand still.
        thread::sleep(Duration::from_millis(100));
        self.taken = Some(Taken::take(true, true)?);
        self.redraw()
    }

    /// The next frame is drawn whole. (To clear it otherwise would ask the terminal where its cursor is, and wait for an answer.)
    fn redraw(&mut self) -> io::Result<()> {
        let size = self.terminal.size()?;
        self.terminal.resize(size.into())
    }
}

/// Speaks with the bus on a thread of its own until nobody asks any more, then leaves it.
fn speak(person: Person, watch: Watch, jobs: Receiver<Job>, out: SyncSender<Happened>) -> io::Result<()> {
    let mut speaker = Speaker {
        person,
        watch,
        out,
        counted: Vec::new(),
    };
    thread::Builder::new()
        .name("chat-bus".to_owned())
        .spawn(move || {
            let bell = Bell(Some(speaker.out.clone()));
            speaker.run(&jobs);
            let left = speaker.person.leave();
            bell.ring(left);
        })
        .map(drop)
}

/// Tells the screen that the bus was left, also when its thread breaks.
struct Bell(Option<SyncSender<Happened>>);

impl Bell {
    fn ring(mut self, left: Result<(), BusError>) {
        if let Some(out) = self.0.take() {
            // A screen that is gone already has said so itself.
            let _ = out.send(Happened::Left(left));
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        if let Some(out) = self.0.take() {
            let broken = Fault::other("the part that speaks with the bus broke; the lines above say where");
            let _ = out.send(Happened::Left(Err(broken.into())));
        }
    }
}

struct Speaker {
    person: Person,
    watch: Watch,
    out: SyncSender<Happened>,
    /// The sources whose unread messages were counted.
    counted: Vec<Source>,
}

/// The screen has ended.
struct Gone;

impl Speaker {
    fn run(&mut self, jobs: &Receiver<Job>) {
        let mut beaten = Instant::now();
        loop {
            let asked = jobs.recv_timeout(LOOK);
            let done = match asked {
                Ok(job) => self.job(job),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if done.and_then(|()| self.look()).is_err() {
                return;
            }
            if beaten.elapsed() >= BEAT {
                beaten = Instant::now();
                if let Err(error) = self.person.beat()
                    && self.trouble(&error).is_err()
                {
                    return;
                }
            }
        }
    }

    fn say(&self, reply: Reply) -> Result<(), Gone> {
        self.out.send(Happened::Bus(reply)).map_err(|_| Gone)
    }

    fn trouble(&self, error: &BusError) -> Result<(), Gone> {
        self.say(Reply::Trouble(line(&error.chain())))
    }

    fn job(&mut self, job: Job) -> Result<(), Gone> {
        match job {
            Job::Obey(command) => {
                for told in self.person.obey(command, &self.watch) {
                    self.say(Reply::Told(told))?;
                }
            }
            Job::Focus(room) => self.person.focus(room),
            Job::Stretch { source, way, limit } => {
                let reply = match self.person.stretch(&source, &way, limit) {
                    Ok(stretch) => Reply::Stretch { source, way, stretch },
                    Err(error) => Reply::Unreadable {
                        source,
                        sentence: line(&error.chain()),
                    },
                };
                self.say(reply)?;
            }
            Job::Seen {
                source,
                number,
                entry,
            } => {
                if let Err(error) = self.person.seen(&source, number, &entry) {
                    self.trouble(&error)?;
                }
            }
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), Gone> {
        for told in self.person.look() {
            let reply = match told {
                Told::Problem(sentence) => Reply::Trouble(sentence),
                told => Reply::Told(told),
            };
            self.say(reply)?;
        }
        match self.person.here() {
            Ok(Some(here)) => self.say(Reply::Here(here))?,
            Ok(None) => {}
            Err(error) => self.trouble(&error)?,
        }
        let sources: Vec<Source> = self.person.sources().cloned().collect();
        for source in &sources {
            if self.counted.contains(source) {
                continue;
            }
            match self.person.unread(source) {
                Ok(count) => self.say(Reply::Unread(source.clone(), count))?,
                Err(error) => self.trouble(&error)?,
            }
        }
        self.counted = sources;
        Ok(())
    }
}
