//! One request to herdr, on a connection of its own over its Unix socket. Never waits without end, and always tells what was not asked from what was not answered.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_core::text;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The longest request that herdr reads, in bytes, its line break with it.
const REQUEST: usize = 1024 * 1024;

/// The longest answer that is read, in bytes: a thousand rows with their styling fit in.
const ANSWER: usize = 8 * 1024 * 1024;

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Broke {
    /// herdr never got a whole request: nothing was done.
    Unsent(String),
    /// It may have got it, and nobody knows what it did.
    Unanswered(String),
    /// It says no.
    Refused {
        /// Its word for why.
        code: String,
        /// Its sentence, as it came.
        message: String,
    },
}

impl Broke {
    /// The word of a refusal.
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Refused { code, .. } => Some(code),
            Self::Unsent(_) | Self::Unanswered(_) => None,
        }
    }

    /// Whether herdr does not know the method at all: an older one, or a newer one that dropped it.
    pub(super) fn is_unknown_method(&self) -> bool {
        matches!(
            self.code(),
            Some("invalid_request" | "unknown_method" | "method_not_found")
        )
    }

    /// What it is, for a person; harmless for a terminal.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Unsent(why) | Self::Unanswered(why) => why.clone(),
            Self::Refused { code, message } => {
                format!("herdr refuses it: {} ({})", shown(message), shown(code))
            }
        }
    }
}

/// What herdr says, as a sentence may quote it.
pub(super) fn shown(text: &str) -> String {
    text::terminal(&text.chars().take(200).collect::<String>())
}

/// Where herdr listens, by the environment: `HERDR_SOCKET_PATH`, else the session that `HERDR_SESSION` names, else the one without a name.
///
/// # Errors
/// A sentence, when the environment names no place.
pub(super) fn place(env: impl Fn(&str) -> Option<String>) -> Result<PathBuf, String> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    if let Some(path) = set("HERDR_SOCKET_PATH") {
        return Ok(PathBuf::from(path));
    }
    let config = set("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(".config")))
        .ok_or("neither HERDR_SOCKET_PATH nor HOME says where herdr listens")?;
    let herdr = config.join("herdr");
    let Some(name) = set("HERDR_SESSION") else {
        return Ok(herdr.join("herdr.sock"));
    };
    let plain = !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if plain {
        Ok(herdr.join("sessions").join(name).join("herdr.sock"))
    } else {
        Err("HERDR_SESSION names no session: only letters, digits, '-', '_' and '.' make a name".to_owned())
    }
}

/// Asks one thing and waits for its answer, `patience` at most.
///
/// # Errors
/// [`Broke`].
pub(super) fn ask(socket: &Path, method: &str, params: &Value, patience: Duration) -> Result<Value, Broke> {
    let until = Instant::now() + patience;
    let id = format!("muster-{}", std::process::id());
    let mut line = json!({"id": id, "method": method, "params": params}).to_string();
    line.push('\n');
    if line.len() > REQUEST {
        return Err(Broke::Unsent(format!(
            "{} bytes are more than herdr takes at once",
            line.len()
        )));
    }
    let mut stream = reach(socket, until)?;
    send(&mut stream, line.as_bytes(), until)?;
    let answer = receive(&mut stream, until)?;
    read(&answer, &id)
}

fn left(until: Instant) -> Option<Duration> {
    until
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
}

fn reach(socket_path: &Path, until: Instant) -> Result<UnixStream, Broke> {
    let broke = |error: nix::Error| {
        Broke::Unsent(format!(
            "herdr cannot be reached at {}: {}",
            shown(&socket_path.display().to_string()),
            match error {
                nix::Error::EAGAIN => "it takes no connection",
                other => other.desc(),
            }
        ))
    };
    let left = left(until).ok_or_else(|| broke(nix::Error::ETIMEDOUT))?;
    let address = UnixAddr::new(socket_path).map_err(broke)?;
    let socket = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .map_err(broke)?;
    // It bounds the wait for a listener whose queue is full, too.
    let time = TimeVal::microseconds(i64::try_from(left.as_micros()).unwrap_or(i64::MAX));
    setsockopt(&socket, sockopt::SendTimeout, &time).map_err(broke)?;
    connect(socket.as_raw_fd(), &address).map_err(broke)?;
    Ok(UnixStream::from(socket))
}

/// Sends a line. It counts as unsent as long as its last byte but one did not go: what came until then is no JSON.
fn send(stream: &mut UnixStream, line: &[u8], until: Instant) -> Result<(), Broke> {
    let mut sent = 0;
    while let Some(rest) = line.get(sent..).filter(|rest| !rest.is_empty()) {
        let wrote = match left(until) {
            None => Err(ErrorKind::TimedOut.into()),
            Some(left) => stream
                .set_write_timeout(Some(left))
                .and_then(|()| stream.write(rest)),
        };
        match wrote {
            Ok(wrote @ 1..) => sent += wrote,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => {
                let why = other.map_or_else(|error| error.to_string(), |_| "it closed".to_owned());
                let sentence = format!("herdr did not take the whole request: {why}");
                return Err(if sent + 1 < line.len() {
                    Broke::Unsent(sentence)
                } else {
                    Broke::Unanswered(sentence)
                });
            }
        }
    }
    Ok(())
}

fn receive(stream: &mut UnixStream, until: Instant) -> Result<Vec<u8>, Broke> {
    let mut answer = Vec::new();
    let mut piece = vec![0; 16 * 1024];
    loop {
        let got = match left(until) {
            None => Err(ErrorKind::TimedOut.into()),
            Some(left) => stream
                .set_read_timeout(Some(left))
                .and_then(|()| stream.read(&mut piece)),
        };
        let got = match got {
            Ok(0) => {
                return Err(Broke::Unanswered(if answer.is_empty() {
                    "herdr closed the connection without an answer".to_owned()
                } else {
                    "herdr's answer broke off".to_owned()
                }));
            }
            Ok(got) => piece.get(..got).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(Broke::Unanswered("herdr does not answer".to_owned()));
            }
            Err(error) => return Err(Broke::Unanswered(format!("herdr's answer broke off: {error}"))),
        };
        if let Some(end) = got.iter().position(|byte| *byte == b'\n') {
            answer.extend_from_slice(got.get(..end).unwrap_or_default());
            return Ok(answer);
        }
        answer.extend_from_slice(got);
        if answer.len() > ANSWER {
            return Err(Broke::Unanswered("herdr's answer has no end".to_owned()));
        }
    }
}

#[derive(Deserialize)]
struct Answer {
    id: String,
    result: Option<Value>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    code: String,
    #[serde(default)]
    message: String,
}

fn read(line: &[u8], id: &str) -> Result<Value, Broke> {
    let answer: Answer = serde_json::from_slice(line)
        .map_err(|_| Broke::Unanswered("herdr's answer cannot be read".to_owned()))?;
    match answer {
        Answer {
            id: of,
            error: Some(Refusal { code, message }),
            ..
        } if of == id || of.is_empty() => Err(Broke::Refused { code, message }),
        Answer {
            id: of,
            result: Some(result),
            ..
        } if of == id => Ok(result),
        _ => Err(Broke::Unanswered(
            "herdr answered another question than was asked".to_owned(),
        )),
    }
}

/// What an answer of one kind holds under `field`.
pub(super) fn part<T: DeserializeOwned>(mut answer: Value, kind: &str, field: &str) -> Result<T, Broke> {
    let odd = || Broke::Unanswered("herdr's answer is none to what was asked".to_owned());
    if answer.get("type").and_then(Value::as_str) != Some(kind) {
        return Err(odd());
    }
    let part = answer.get_mut(field).map(Value::take).unwrap_or_default();
    serde_json::from_value(part).map_err(|_| odd())
}
