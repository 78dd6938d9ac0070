//! One session with Redis in RESP2, arguments as an array. Never reads more of a reply than the limits allow.

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::address::{Place, Tls, Url};
use crate::answer::Cell;
use crate::error::{Error, Scrub};
use crate::limits::Limits;
use crate::net::{self, Stream};

const MAX_DEPTH: usize = 32;
/// What the server's own words leave out.
const BUSY: &str = " Until that script has ended the server answers nobody, and no call of the gateway can end it: your owner can, with SCRIPT KILL, \
     or FUNCTION KILL, on an account that may. Nothing was done.";

pub(super) struct Session {
    stream: Stream,
    inbox: BytesMut,
    pub(super) scrub: Scrub,
}

/// A reply and whether a part of it was left in the socket, which is of no further use then.
pub(super) struct Reply {
    pub(super) cell: Cell,
    pub(super) truncated: bool,
}

/// An array that is being filled.
struct Open {
    left: usize,
    cells: Vec<Cell>,
}

impl Session {
    /// A session that has not said who it is.
    pub(super) async fn bare(url: &Url) -> Result<Self, Error> {
        let mut stream = net::connect(url).await?;
        if url.tls != Tls::Off && matches!(url.place, Place::Tcp { .. }) {
            stream = net::encrypt(url, stream).await?;
        }
        Ok(Self {
            stream,
            inbox: BytesMut::with_capacity(4096),
            scrub: url.scrub(),
        })
    }

    pub(super) async fn connect(url: &Url) -> Result<Self, Error> {
        let mut session = Self::bare(url).await?;
        if let Some(password) = &url.password {
            let mut auth: Vec<&str> = vec!["AUTH"];
            auth.extend(url.user.as_deref());
            auth.push(password);
            session
                .own(&auth)
                .await
                .map_err(|error| refused(error, |_| true, &session.scrub))?;
        }
        if let Some(database) = url.database.as_deref().filter(|database| *database != "0") {
            // ERR: it has no database of that number.
            let account = |code: &str| matches!(code, "NOAUTH" | "NOPERM" | "ERR");
            session
                .own(&["SELECT", database])
                .await
                .map_err(|error| refused(error, account, &session.scrub))?;
        }
        Ok(session)
    }

    /// A command of this crate.
    pub(super) async fn own(&mut self, words: &[&str]) -> Result<Cell, Error> {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let limits = Limits {
            rows: 20_000,
            ..Limits::default()
        };
        self.send(&words, limits).await.map(|reply| reply.cell)
    }

    pub(super) async fn send(&mut self, words: &[Vec<u8>], limits: Limits) -> Result<Reply, Error> {
        let mut out = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            out.extend_from_slice(word);
            out.extend_from_slice(b"\r\n");
        }
        self.stream
            .write_all(&out)
            .await
            .map_err(|error| self.scrub.unreachable(error))?;
        self.reply(limits).await
    }

    async fn reply(&mut self, limits: Limits) -> Result<Reply, Error> {
        let mut open: Vec<Open> = Vec::new();
        let (mut bytes, mut leaves) = (0_usize, 0_usize);
        loop {
            let line = self.line().await?;
            let (mark, rest) = line.split_at_checked(1).unwrap_or((line.as_str(), ""));
            let number = || {
                rest.parse::<i64>()
                    .map_err(|_| self.scrub.unreachable("the server does not speak RESP2"))
            };
            let mut cut = false;
            let cell = match mark {
                "+" => Cell::Text(rest.to_owned()),
                ":" => Cell::int(number()?),
                "-" if open.is_empty() => {
                    let (code, message) = rest.split_once(' ').unwrap_or((rest, ""));
                    let mut message = self.scrub.clean(message);
                    if code == "BUSY" {
                        message.push_str(BUSY);
                    }
                    return Err(Error::Engine {
                        code: code.to_owned(),
                        message,
                        position: None,
                    });
                }
                "-" => Cell::Text(self.scrub.clean(rest)),
                "$" => match usize::try_from(number()?) {
                    Err(_) => Cell::Null,
                    Ok(length) => {
                        let room = limits.bytes.saturating_sub(bytes);
                        let body = self.body(length, room).await?;
                        cut = body.len() < length;
                        value(&body, cut)
                    }
                },
                "*" => match usize::try_from(number()?) {
                    Err(_) => Cell::Null,
                    Ok(0) => Cell::List(Vec::new()),
                    Ok(left) => {
                        if open.len() >= MAX_DEPTH {
                            return Err(self.scrub.unreachable("the reply nests too deep"));
                        }
                        open.push(Open {
                            left,
                            cells: Vec::new(),
                        });
                        continue;
                    }
                },
                _ => return Err(self.scrub.unreachable("the server does not speak RESP2")),
            };
            bytes += cell.size();
            leaves += 1;
            cut |= bytes > limits.bytes.saturating_add(8) || (leaves >= limits.rows && unfinished(&open));
            if let Some(done) = fold(&mut open, cell, cut) {
                return Ok(Reply {
                    cell: done,
                    truncated: cut,
                });
            }
        }
    }

    async fn line(&mut self) -> Result<String, Error> {
        loop {
            if let Some(end) = self.inbox.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.inbox.split_to(end);
                self.inbox.advance(2);
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            if self.inbox.len() > 64 * 1024 {
                return Err(self.scrub.unreachable("a line of the reply does not end"));
            }
            self.fill().await?;
        }
    }

    /// `length` bytes and the line's end, or as many as there is room for.
    async fn body(&mut self, length: usize, room: usize) -> Result<BytesMut, Error> {
        let wanted = length.min(room);
        while self.inbox.len() < wanted {
            self.fill().await?;
        }
        let body = self.inbox.split_to(wanted);
        if wanted == length {
            while self.inbox.len() < 2 {
                self.fill().await?;
            }
            self.inbox.advance(2);
        }
        Ok(body)
    }

    async fn fill(&mut self) -> Result<(), Error> {
        self.inbox.reserve(16 * 1024);
        match self.stream.read_buf(&mut self.inbox).await {
            Ok(0) => Err(self.scrub.unreachable("the server hung up")),
            Ok(_) => Ok(()),
            Err(error) => Err(self.scrub.unreachable(error)),
        }
    }
}

/// What the answer to a command that begins a session means. `account` says of which codes it is that the account or the database is not taken; a server
/// that is busy or still loads its data says nothing of either.
fn refused(error: Error, account: impl Fn(&str) -> bool, scrub: &Scrub) -> Error {
    match error {
        // It would let muster in, and just cannot say so.
        Error::Engine { ref code, .. } if code == "BUSY" => error,
        Error::Engine { code, message, .. } => {
            let why = format!("{code} {message}");
            // Said with the word of every other error, before the server has looked at any name.
            let full = message.starts_with("max number of clients");
            if code != "LOADING" && !full && account(&code) {
                scrub.not_let_in(why)
            } else {
                scrub.unreachable(why)
            }
        }
        other => other,
    }
}

/// Text stays text; where it was cut, up to the last whole character.
fn value(body: &[u8], cut: bool) -> Cell {
    match std::str::from_utf8(body) {
        Ok(text) => Cell::Text(text.to_owned()),
        Err(error) if cut && error.error_len().is_none() => {
            Cell::text(body.get(..error.valid_up_to()).unwrap_or_default())
        }
        Err(_) => Cell::bytes(body),
    }
}

/// Whether anything comes behind the cell at hand; the innermost array still lacks that one.
fn unfinished(open: &[Open]) -> bool {
    open.iter().any(|array| array.left > 1)
}

/// Puts the cell where it belongs and closes what is full; with `all` closes everything. The whole reply, once it is closed.
fn fold(open: &mut Vec<Open>, mut cell: Cell, all: bool) -> Option<Cell> {
    loop {
        let Some(array) = open.last_mut() else {
            return Some(cell);
        };
        array.cells.push(cell);
        array.left -= 1;
        if array.left > 0 && !all {
            return None;
        }
        cell = Cell::List(open.pop().map(|array| array.cells).unwrap_or_default());
    }
}
