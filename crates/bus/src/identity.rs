//! Who a connection is: bound by its first act, by its environment or by its token, and never to another id afterwards. Never takes what it cannot read for proof that nobody is there.
//!
//! The threat is a mistaken, broken or taken-over cooperator on this machine or network, not a hostile one on the wire: transport security and
//! signed messages are other people's work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::BusError;
use crate::home::Home;
use crate::last;
use crate::names::SeatId;
use crate::registry::Agents;
use crate::rename;
use crate::sessions::{self, Link, SessionMarker};
use crate::tokens::Tokens;
use crate::transports::{self, Panes};

/// What one file says about whether an id is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sight {
    /// It can be read, and the id is not live by it.
    Absent,
    /// The id is live by it, in words.
    Live(String),
    /// It is there and cannot be read: which file.
    Unreadable(String),
}

/// What a token that was passed is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// None was passed.
    None,
    /// It is the id's.
    Right,
    /// It is not.
    Wrong,
    /// The map cannot be read: which file.
    Unreadable(String),
}

/// Everything that speaks for or against a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// The registry: a heartbeat under five minutes old.
    pub heartbeat: Sight,
    /// The transport marker: live.
    pub marker: Sight,
    /// Another connection that is bound to the id.
    pub session: Sight,
    /// The marker, live or not, names the pane that the claim comes from.
    pub own_pane: bool,
    /// The token.
    pub token: Proof,
}

/// How a connection came to be bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Its environment said so when it started.
    Environment,
    /// Its bearer token is the agent's.
    Bearer,
    /// Its first act, as an id that was not live.
    First,
    /// It runs in the pane that the live agent is reached in.
    OwnPane,
    /// It passed the agent's token.
    Token,
    /// It passed `force:true` against evidence.
    Forced,
    /// Under a token that all share, from the machine that held the id last.
    SameClient,
}

impl How {
    /// Its word in the marker.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Bearer => "bearer",
            Self::First => "first-claim",
            Self::OwnPane => "own-pane",
            Self::Token => "token",
            Self::Forced => "force",
            Self::SameClient => "same-client",
        }
    }
}

/// The answer to a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The connection is that agent already.
    Bound,
    /// It may become it.
    Bind(How),
    /// It is another: which.
    Another(SeatId),
    /// The id is live, by all of this.
    Live(Vec<String>),
    /// It cannot be told, because of this file.
    CannotVerify(String),
    /// The token is not the id's.
    WrongToken,
}

/// Decides a claim of `seat` by a connection bound to `bound`. Pure.
pub fn decide(bound: Option<&SeatId>, seat: &SeatId, force: bool, evidence: &Evidence) -> Verdict {
    match bound {
        Some(bound) if bound == seat => return Verdict::Bound,
        Some(bound) => return Verdict::Another(bound.clone()),
        None => {}
    }
    match &evidence.token {
        Proof::Right => return Verdict::Bind(How::Token),
        // Whoever passes a token means to be known by it.
        Proof::Wrong => return Verdict::WrongToken,
        Proof::Unreadable(what) if !force => return Verdict::CannotVerify(what.clone()),
        Proof::None | Proof::Unreadable(_) => {}
    }
    // A marker that nobody serves any more still proves the pane, unless somebody else acts as the agent elsewhere.
    if evidence.own_pane && (matches!(evidence.marker, Sight::Live(_)) || evidence.session == Sight::Absent) {
        return Verdict::Bind(How::OwnPane);
    }
    let sights = [&evidence.heartbeat, &evidence.marker, &evidence.session];
    let unreadable = sights.into_iter().find_map(|sight| match sight {
        Sight::Unreadable(what) => Some(what.clone()),
        _ => None,
    });
    let live: Vec<String> = sights
        .into_iter()
        .filter_map(|sight| match sight {
            Sight::Live(what) => Some(what.clone()),
            _ => None,
        })
        .collect();
    match unreadable {
        None if live.is_empty() => Verdict::Bind(How::First),
        _ if force => Verdict::Bind(How::Forced),
        Some(what) => Verdict::CannotVerify(what),
        None => Verdict::Live(live),
    }
}

/// Looks at the files. `own` is the claiming connection, whose marker says nothing against it.
pub(crate) fn look(home: &Home, seat: &SeatId, own: &str, panes: &Panes, token: Option<&str>) -> Evidence {
    let agents = Agents::load(home);
    let now = home.now();
    let heartbeat = match &agents {
        Err(_) => Sight::Unreadable("agents.json".to_owned()),
        Ok(agents) => match agents.get(seat) {
            Some(agent) if agent.online(now) && !last::over(home, seat, agent.last_heartbeat) => {
                Sight::Live(format!(
                    "its last heartbeat was {} seconds ago",
                    agent.quiet(now).as_secs()
                ))
            }
            None if agents.has(seat.as_str()) => Sight::Unreadable("agents.json".to_owned()),
            _ => Sight::Absent,
        },
    };
    let (marker, own_pane) = match transports::load(home, seat) {
        Err(_) => (Sight::Unreadable(format!("transports/{seat}.json")), false),
        Ok(None) => (Sight::Absent, false),
        Ok(Some(marker)) => {
            let agent = agents.as_ref().ok().and_then(|agents| agents.get(seat));
            let sight = if transports::alive(&marker, agent.as_ref(), now) {
                let kind = muster_core::text::terminal(&marker.transport);
                Sight::Live(format!("it has a live {kind} transport marker"))
            } else {
                Sight::Absent
            };
            (sight, panes.are_of(&marker))
        }
    };
    Evidence {
        heartbeat,
        marker,
        session: bound_elsewhere(home, seat, own),
        own_pane,
        token: proof(home, seat, token),
    }
}

fn bound_elsewhere(home: &Home, seat: &SeatId, own: &str) -> Sight {
    let Ok(all) = sessions::all(home) else {
        return Sight::Unreadable(sessions::FOLDER.to_owned());
    };
    let mut sight = Sight::Absent;
    for found in all {
        match found.marker {
            Err(_) if found.over => {}
            // Whose it is cannot be told, so it may be this id's.
            Err(_) => return Sight::Unreadable(format!("{}/{}.json", sessions::FOLDER, found.id)),
            Ok(marker) if found.id != own && marker.agent_id == seat.as_str() && marker.alive() => {
                sight = Sight::Live(format!(
                    "another live session, of process {}, is bound to it",
                    marker.pid
                ));
            }
            Ok(_) => {}
        }
    }
    sight
}

fn proof(home: &Home, seat: &SeatId, token: Option<&str>) -> Proof {
    let Some(token) = token else { return Proof::None };
    match Tokens::load(home) {
        Ok(Some(tokens)) if tokens.matches(seat, token) => Proof::Right,
        Ok(_) => Proof::Wrong,
        Err(_) => Proof::Unreadable("tokens.json".to_owned()),
    }
}

/// Who a connection wants to be for a call.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The id in the call.
    pub seat: &'a SeatId,
    /// The token that was passed with it.
    pub token: Option<&'a str>,
    /// `force:true` was passed with it.
    pub force: bool,
    /// The connection came with this agent's own bearer token.
    pub bearer: bool,
    /// Under a token that all share: what tells this machine's connections from another's.
    pub client: Option<&'a str>,
    /// It is one call without a session: its end says nothing of its agent.
    pub once: bool,
}

impl<'a> Ask<'a> {
    /// A call that passes neither token nor force.
    pub fn of(seat: &'a SeatId) -> Self {
        Self {
            seat,
            token: None,
            force: false,
            bearer: false,
            client: None,
            once: false,
        }
    }
}

/// One connection's identity. Cloning shares it; when the last clone goes, its marker goes too.
#[derive(Clone)]
pub struct Session(Arc<Inner>);

struct Inner {
    home: Home,
    id: String,
    link: Link,
    panes: Panes,
    state: Mutex<State>,
    /// It asks for what is to be delivered.
    pusher: AtomicBool,
}

#[derive(Default)]
struct State {
    bound: Option<(SeatId, How)>,
    /// Calls that will bind the connection if one of them succeeds.
    pending: Option<Pending>,
    marked: bool,
    ended: bool,
    /// It was bound by a call without a session: the end of that call says nothing of its agent, who makes the next one.
    once: bool,
}

struct Pending {
    seat: SeatId,
    how: How,
    client: Option<String>,
    calls: usize,
}

impl State {
    /// Who it is, or is about to be.
    fn seat(&self) -> Option<&SeatId> {
        let pending = self.pending.as_ref().map(|pending| &pending.seat);
        self.bound.as_ref().map(|(seat, _)| seat).or(pending)
    }
}

impl Session {
    /// A connection that is nobody yet. `panes` are those it runs in: of this process's environment on standard streams, none over HTTP.
    ///
    /// # Errors
    /// A fault, when the system gives no randomness.
    pub fn new(home: &Home, link: Link, panes: Panes) -> Result<Self, BusError> {
        Ok(Self(Arc::new(Inner {
            home: home.clone(),
            id: sessions::new_id()?,
            link,
            panes,
            state: Mutex::default(),
            pusher: AtomicBool::new(false),
        })))
    }

    /// A connection that is known before its first call: by `AGENT_COORD_BOUND_AGENT` or by its bearer token. No evidence is asked for: whoever
    /// can set either is that agent.
    ///
    /// # Errors
    /// [`BusError::Held`], a fault.
    pub fn prebound(
        home: &Home,
        link: Link,
        panes: Panes,
        seat: &SeatId,
        how: How,
    ) -> Result<Self, BusError> {
        let session = Self::new(home, link, panes)?;
        {
            let _held = rename::identity_lock(home)?;
            rename::settle(home, seat)?;
            let mut state = session.0.state();
            session.0.mark(&Ask::of(seat), how)?;
            state.marked = true;
            last::began(home, seat, session.id(), None)?;
            rename::reclaim(home, seat)?;
            state.bound = Some((seat.clone(), how));
        }
        Ok(session)
    }

    /// Notes in its marker that it is a pusher's.
    ///
    /// # Errors
    /// [`BusError::Held`], a fault.
    pub(crate) fn delivers(&self) -> Result<(), BusError> {
        let state = self.0.state();
        match &state.bound {
            Some((seat, how)) if state.marked && !self.0.pusher.swap(true, Ordering::SeqCst) => {
                self.0.mark(&Ask::of(seat), *how)
            }
            _ => Ok(()),
        }
    }

    /// Its name in `sessions/`.
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// How it reached us.
    pub fn link(&self) -> Link {
        self.0.link
    }

    /// The panes it runs in.
    pub fn panes(&self) -> &Panes {
        &self.0.panes
    }

    /// Whom it is bound to.
    pub fn bound(&self) -> Option<SeatId> {
        self.0.state().bound.as_ref().map(|(seat, _)| seat.clone())
    }

    /// How it came to be bound.
    pub fn how(&self) -> Option<How> {
        self.0.state().bound.as_ref().map(|(_, how)| *how)
    }

    /// Asks to act as an agent, before anything is done. What is answered is committed once the call has succeeded; dropped, the connection is
    /// as unbound as before. Until then nobody else gets the id, and this connection no other.
    ///
    /// Calls that only look (`status`, `ping`, `capabilities`, `list_…`) do not ask.
    ///
    /// # Errors
    /// [`BusError::Bound`], [`BusError::Live`], [`BusError::CannotVerify`], [`BusError::WrongToken`], [`BusError::RenameUnfinished`],
    /// [`BusError::Held`], a fault. Nothing is bound and nothing written then.
    pub fn claim(&self, ask: Ask<'_>) -> Result<Claim, BusError> {
        let mut state = self.0.state();
        let claim = |counted| Claim {
            session: self.clone(),
            counted,
        };
        let proven = state.bound.as_ref().is_some_and(|(_, how)| *how == How::Bearer);
        if ask.bearer && proven && state.seat() != Some(ask.seat) {
            // Its token is that agent's now: it was given a new id under another connection.
            self.0.follow(&mut state, ask)?;
            return Ok(claim(false));
        }
        if let Some(seat) = state.seat().filter(|seat| *seat != ask.seat) {
            return Err(BusError::Bound {
                bound: seat.clone(),
                claimed: ask.seat.clone(),
            });
        }
        if state.bound.is_some() {
            return Ok(claim(false));
        }
        if state.ended {
            return Err(BusError::Argument(
                "this session has ended, so it acts as nobody any more",
            ));
        }
        if let Some(pending) = &mut state.pending {
            pending.calls += 1;
            return Ok(claim(true));
        }
        let how = self.0.reserve(ask)?;
        state.marked = true;
        state.once = ask.once;
        state.pending = Some(Pending {
            seat: ask.seat.clone(),
            how,
            client: ask.client.map(str::to_owned),
            calls: 1,
        });
        Ok(claim(true))
    }

    /// Gives its agent a new id, and itself with it.
    ///
    /// # Errors
    /// What [`rename::rename`] answers. After [`BusError::RenameUnfinished`] the connection is bound to the new id: that is how it will end.
    pub fn rename(&self, new: &SeatId) -> Result<(), BusError> {
        let mut state = self.0.state();
        let Some(old) = state.seat().cloned() else {
            return Err(BusError::Argument(
                "this session is bound to no agent, so there is none to rename",
            ));
        };
        let home = &self.0.home;
        let _held = rename::identity_lock(home)?;
        let mut intent = rename::begin(home, &old, new, Some(&self.0.id))?;
        if let Some((seat, _)) = &mut state.bound {
            seat.clone_from(new);
        }
        if let Some(pending) = &mut state.pending {
            pending.seat.clone_from(new);
        }
        rename::go_on(home, &mut intent)?;
        let client = last::of(home, &old).and_then(|last| last.client);
        last::began(home, new, &self.0.id, client.as_deref())
    }

    /// Ends the connection: its marker goes. It stays bound, so a late call acts as nobody else.
    ///
    /// # Errors
    /// [`BusError::Held`], a fault.
    pub fn end(&self) -> Result<(), BusError> {
        let mut state = self.0.state();
        state.ended = true;
        self.0.unmark(&mut state)
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mark(&self, ask: &Ask<'_>, how: How) -> Result<(), BusError> {
        let mut marker = SessionMarker::here(&self.home, ask.seat, self.link);
        marker.how = Some(how.as_str().to_owned());
        marker.forced = how == How::Forced;
        marker.pusher = self.pusher.load(Ordering::SeqCst);
        sessions::mark(&self.home, &self.id, &marker)
    }

    /// Becomes the agent that its token names by now.
    fn follow(&self, state: &mut State, ask: Ask<'_>) -> Result<(), BusError> {
        let _held = rename::identity_lock(&self.home)?;
        rename::settle(&self.home, ask.seat)?;
        if state.marked {
            self.mark(&ask, How::Bearer)?;
            last::began(&self.home, ask.seat, &self.id, None)?;
        }
        rename::reclaim(&self.home, ask.seat)?;
        state.bound = Some((ask.seat.clone(), How::Bearer));
        Ok(())
    }

    /// Looks and marks under one lock: of two who claim an id at once, the second one sees the first.
    fn reserve(&self, ask: Ask<'_>) -> Result<How, BusError> {
        let _held = rename::identity_lock(&self.home)?;
        rename::settle(&self.home, ask.seat)?;
        let proven = if ask.bearer {
            Some(How::Bearer)
        } else if ask.token.is_none() && last::returns(&self.home, &ask, &self.id) {
            Some(How::SameClient)
        } else {
            None
        };
        if let Some(how) = proven {
            return self.mark(&ask, how).map(|()| how);
        }
        let evidence = look(&self.home, ask.seat, &self.id, &self.panes, ask.token);
        let id = ask.seat.clone();
        match decide(None, ask.seat, ask.force, &evidence) {
            Verdict::Bind(how) => self.mark(&ask, how).map(|()| how),
            Verdict::Live(evidence) => Err(BusError::Live {
                id,
                evidence: evidence.join("; "),
            }),
            Verdict::CannotVerify(what) => Err(BusError::CannotVerify { id, what }),
            Verdict::WrongToken => Err(BusError::WrongToken(id)),
            // Neither is answered about a connection that is nobody.
            Verdict::Bound | Verdict::Another(_) => Err(BusError::CannotVerify {
                id,
                what: "this session".to_owned(),
            }),
        }
    }

    /// Takes the marker away; one that was bound, and was more than a single call, is noted to have ended. A claim that failed leaves no trace, so what was known of the last
    /// holder of the id stays known.
    fn unmark(&self, state: &mut State) -> Result<(), BusError> {
        if !state.marked {
            return Ok(());
        }
        sessions::unmark(&self.home, &self.id)?;
        state.marked = false;
        match &state.bound {
            Some((seat, _)) if !state.once => last::ended(&self.home, seat, &self.id),
            _ => Ok(()),
        }
    }

    /// The same where nobody hears of a failure.
    fn unmark_quietly(&self, state: &mut State) {
        if let Err(error) = self.unmark(state) {
            tracing::warn!(session = %self.id, error = %error.chain(), "the marker of a session that ended could not be removed; it counts no more once this process has ended");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut *self.state());
        self.unmark_quietly(&mut state);
    }
}

/// Leave to act as an agent for one call.
#[must_use = "a claim that is not committed does not bind"]
pub struct Claim {
    session: Session,
    /// It is one of the calls that the connection waits for.
    counted: bool,
}

impl Claim {
    /// The call has succeeded: the connection is that agent from now on.
    pub fn commit(self) {
        let inner = &self.session.0;
        let mut state = inner.state();
        if state.bound.is_some() {
            return;
        }
        let Some(pending) = &state.pending else { return };
        let (seat, how, client) = (pending.seat.clone(), pending.how, pending.client.clone());
        state.bound = Some((seat.clone(), how));
        let ended = state.ended;
        drop(state);
        let home = &inner.home;
        let noted = rename::identity_lock(home).and_then(|_held| {
            if !ended {
                last::began(home, &seat, &inner.id, client.as_deref())?;
            }
            // Somebody is this id again: what is sent to it goes nowhere else any more.
            rename::reclaim(home, &seat)
        });
        if let Err(error) = noted {
            tracing::warn!(agent = %seat, error = %error.chain(), "what was known of an earlier holder of this id could not be forgotten; an earlier rename of it ends when the agent registers");
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.counted {
            return;
        }
        let inner = &self.session.0;
        let mut state = inner.state();
        let Some(pending) = &mut state.pending else { return };
        pending.calls = pending.calls.saturating_sub(1);
        if pending.calls > 0 {
            return;
        }
        state.pending = None;
        if state.bound.is_none() {
            inner.unmark_quietly(&mut state);
        }
    }
}
