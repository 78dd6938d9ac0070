//! One session with PostgreSQL, in the extended protocol and with values as text. Never sends a statement of a caller any other way.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::IsNull;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};
use postgres_protocol::message::backend::{self, ErrorFields, Message};
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::address::{Place, Tls, Url};
use crate::error::{Error, Scrub};
use crate::net::{self, Stream};
use crate::stopping;

/// Above a row's limit a row is read past and never held.
const SLACK: usize = 64 * 1024;
/// What is held of an error; what is behind it is read past.
const ERROR: usize = 64 * 1024;
/// The length that such a beginning says of itself: without its tag, with two ends behind it.
const ERROR_LENGTH: u32 = 64 * 1024 + 1;
/// The largest message of any other kind. The description of as many columns as a server can have takes a seventh of it.
const LARGEST: usize = 1024 * 1024;
/// How long a server is asked to stop a statement, and how often.
const STOPPING: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(250);

pub(super) struct Session {
    stream: Stream,
    inbox: BytesMut,
    pub(super) outbox: BytesMut,
    pub(super) key: (i32, i32),
    pub(super) scrub: Scrub,
    /// Whether it served a call before; then the server may have hung up since.
    pub(super) used: bool,
    /// Whether the server can end a statement by itself when this end of the connection is gone.
    pub(super) looks: bool,
    /// How many answers the server has still to end.
    owed: usize,
}

pub(super) enum Incoming {
    Message(Message),
    /// A row too large to hold; it was read past.
    Oversized,
}

impl Session {
    pub(super) async fn connect(url: &Url) -> Result<Self, Error> {
        let scrub = url.scrub();
        let mut stream = net::connect(url).await?;
        if url.tls != Tls::Off && matches!(url.place, Place::Tcp { .. }) {
            stream = Self::ask_for_tls(url, stream).await?;
        }
        let mut session = Self {
            stream,
            inbox: BytesMut::with_capacity(16 * 1024),
            outbox: BytesMut::new(),
            key: (0, 0),
            scrub,
            used: false,
            looks: false,
            owed: 0,
        };
        session.start(url).await?;
        Ok(session)
    }

    async fn ask_for_tls(url: &Url, mut stream: Stream) -> Result<Stream, Error> {
        let scrub = url.scrub();
        let mut ask = BytesMut::new();
        frontend::ssl_request(&mut ask);
        stream
            .write_all(&ask)
            .await
            .map_err(|error| scrub.unreachable(error))?;
        match stream.read_u8().await.map_err(|error| scrub.unreachable(error))? {
            b'S' => net::encrypt(url, stream).await,
            _ => Err(scrub.unreachable("the server offers no TLS, and ?tls=off was not said")),
        }
    }

    async fn start(&mut self, url: &Url) -> Result<(), Error> {
        let user = url.user.as_deref().unwrap_or("postgres");
        let parameters = [
            ("user", user),
            ("database", url.database.as_deref().unwrap_or(user)),
            ("client_encoding", "UTF8"),
            ("application_name", "muster"),
            ("DateStyle", "ISO"),
            ("standard_conforming_strings", "on"),
        ];
        frontend::startup_message(parameters, &mut self.outbox)
            .map_err(|error| self.scrub.unreachable(error))?;
        self.send().await?;
        let mut scram: Option<ScramSha256> = None;
        loop {
            match self.message(usize::MAX).await? {
                Message::AuthenticationOk => {}
                Message::BackendKeyData(body) => self.key = (body.process_id(), body.secret_key()),
                Message::ReadyForQuery(_) => return Ok(()),
                Message::AuthenticationCleartextPassword => {
                    if !url.is_encrypted_or_local() {
                        return Err(self
                            .scrub
                            .unreachable("the server wants the password in the open"));
                    }
                    self.answer_password(url.password.as_deref().unwrap_or_default().as_bytes())
                        .await?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let password = url.password.as_deref().unwrap_or_default();
                    let hash = md5_hash(user.as_bytes(), password.as_bytes(), body.salt());
                    self.answer_password(hash.as_bytes()).await?;
                }
                Message::AuthenticationSasl(_) => {
                    let password = url.password.as_deref().unwrap_or_default();
                    let begun = ScramSha256::new(password.as_bytes(), ChannelBinding::unsupported());
                    frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), &mut self.outbox)
                        .map_err(|error| self.scrub.unreachable(error))?;
                    scram = Some(begun);
                    self.send().await?;
                }
                Message::AuthenticationSaslContinue(body) => {
                    let running = scram
                        .as_mut()
                        .ok_or_else(|| self.scrub.unreachable("the server answers what was not asked"))?;
                    running
                        .update(body.data())
                        .map_err(|error| self.scrub.unreachable(error))?;
                    let answer = running.message().to_vec();
                    frontend::sasl_response(&answer, &mut self.outbox)
                        .map_err(|error| self.scrub.unreachable(error))?;
                    self.send().await?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    let running = scram
                        .as_mut()
                        .ok_or_else(|| self.scrub.unreachable("the server answers what was not asked"))?;
                    running
                        .finish(body.data())
                        .map_err(|error| self.scrub.unreachable(error))?;
                }
                Message::ErrorResponse(body) => {
                    let (code, message, _) = told(&mut body.fields());
                    let why = format!("{message} ({code})");
                    return Err(if does_not_let_in(&code) {
                        self.scrub.not_let_in(why)
                    } else {
                        self.scrub.unreachable(why)
                    });
                }
                Message::ParameterStatus(_) | Message::NoticeResponse(_) => {}
                _ => {
                    return Err(self
                        .scrub
                        .unreachable("the server asks for a way to sign in that muster does not know"));
                }
            }
        }
    }

    async fn answer_password(&mut self, password: &[u8]) -> Result<(), Error> {
        frontend::password_message(password, &mut self.outbox)
            .map_err(|error| self.scrub.unreachable(error))?;
        self.send().await
    }

    pub(super) async fn send(&mut self) -> Result<(), Error> {
        let sent = self.stream.write_all(&self.outbox).await;
        self.outbox.clear();
        sent.map_err(|error| self.scrub.unreachable(error))
    }

    /// Parse, bind (values and results as text), describe when wanted, execute.
    pub(super) fn put(
        &mut self,
        statement: &str,
        values: &[&str],
        describe: bool,
        rows: i32,
    ) -> Result<(), Error> {
        let out = &mut self.outbox;
        let put = (|| {
            frontend::parse("", statement, [], out)?;
            frontend::bind(
                "",
                "",
                [0_i16; 0],
                values,
                |value, out| {
                    out.extend_from_slice(value.as_bytes());
                    Ok(IsNull::No)
                },
                Some(0),
                out,
            )
            .map_err(|_| std::io::Error::other("a value is too long"))?;
            if describe {
                frontend::describe(b'P', "", out)?;
            }
            frontend::execute("", rows, out)
        })();
        put.map_err(|error| Error::Invalid(error.to_string()))
    }

    pub(super) fn put_sync(&mut self) {
        frontend::sync(&mut self.outbox);
        self.owed += 1;
    }

    /// A constant of this crate, never a text of a caller.
    pub(super) fn put_own(&mut self, constant: &str) -> Result<(), Error> {
        self.owed += 1;
        frontend::query(constant, &mut self.outbox).map_err(|error| Error::Invalid(error.to_string()))
    }

    pub(super) fn put_copy_fail(&mut self) -> Result<(), Error> {
        frontend::copy_fail("the gateway copies nothing in", &mut self.outbox)
            .map_err(|error| Error::Invalid(error.to_string()))?;
        frontend::sync(&mut self.outbox);
        self.owed += 1;
        Ok(())
    }

    pub(super) async fn message(&mut self, largest: usize) -> Result<Message, Error> {
        loop {
            if let Incoming::Message(message) = self.incoming(largest).await? {
                return Ok(message);
            }
        }
    }

    /// The next message; a row of more than `largest` bytes and some slack is read past.
    pub(super) async fn incoming(&mut self, largest: usize) -> Result<Incoming, Error> {
        loop {
            if let Some(header) =
                backend::Header::parse(&self.inbox).map_err(|error| self.scrub.unreachable(error))?
            {
                let length = usize::try_from(header.len()).unwrap_or(0) + 1;
                match header.tag() {
                    backend::DATA_ROW_TAG if length > largest.saturating_add(SLACK) => {
                        self.skip(length).await?;
                        return Ok(Incoming::Oversized);
                    }
                    backend::DATA_ROW_TAG => {}
                    backend::ERROR_RESPONSE_TAG if length > ERROR => {
                        return self.shortened(length).await.map(Incoming::Message);
                    }
                    // Nobody reads either.
                    backend::NOTICE_RESPONSE_TAG | backend::COPY_DATA_TAG if length > ERROR => {
                        self.skip(length).await?;
                        continue;
                    }
                    _ if length > LARGEST => {
                        return Err(self
                            .scrub
                            .unreachable("the server sent a message larger than 1 MiB that is no row"));
                    }
                    _ => {}
                }
            }
            match Message::parse(&mut self.inbox).map_err(|error| self.scrub.unreachable(error))? {
                Some(
                    Message::NoticeResponse(_)
                    | Message::ParameterStatus(_)
                    | Message::NotificationResponse(_),
                ) => {}
                Some(message) => {
                    if matches!(message, Message::ReadyForQuery(_)) {
                        self.owed = self.owed.saturating_sub(1);
                    }
                    return Ok(Incoming::Message(message));
                }
                None => self.fill().await?,
            }
        }
    }

    /// An error too large to hold: its beginning, in which its code stands.
    async fn shortened(&mut self, length: usize) -> Result<Message, Error> {
        while self.inbox.len() < ERROR {
            self.fill().await?;
        }
        let mut begun = self.inbox.split_to(ERROR);
        self.skip(length - ERROR).await?;
        // The ends of the text that was cut and of the list of fields.
        begun.extend_from_slice(&[0, 0]);
        let told = ERROR_LENGTH.to_be_bytes();
        for (place, byte) in begun.iter_mut().skip(1).zip(told) {
            *place = byte;
        }
        Message::parse(&mut begun).ok().flatten().ok_or_else(|| {
            self.scrub
                .unreachable("the server sent an error that nobody understands")
        })
    }

    /// Reads up to the end of every answer, or until the server hangs up.
    async fn settled(&mut self) {
        while self.owed > 0 {
            if self.incoming(0).await.is_err() {
                return;
            }
        }
    }

    async fn fill(&mut self) -> Result<(), Error> {
        self.inbox.reserve(16 * 1024);
        match self.stream.read_buf(&mut self.inbox).await {
            Ok(0) => Err(self.scrub.unreachable("the server hung up")),
            Ok(_) => Ok(()),
            Err(error) => Err(self.scrub.unreachable(error)),
        }
    }

    async fn skip(&mut self, length: usize) -> Result<(), Error> {
        let mut left = length;
        loop {
            let here = left.min(self.inbox.len());
            let _ = self.inbox.split_to(here);
            left -= here;
            if left == 0 {
                return Ok(());
            }
            self.fill().await?;
        }
    }
}

/// Whether the code of an error before a session has begun speaks of the account or the database: the class of sign-in, no such database, no right
/// to connect to it. A server that starts, ends or is full has others.
fn does_not_let_in(code: &str) -> bool {
    code.starts_with("28") || matches!(code, "3D000" | "42501")
}

/// Code, message with the hint, place.
pub(super) fn told(fields: &mut ErrorFields<'_>) -> (String, String, Option<u32>) {
    let (mut code, mut message, mut hint, mut place) = (String::new(), String::new(), None, None);
    while let Ok(Some(field)) = fields.next() {
        let value = String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'C' => code = value,
            b'M' => message = value,
            b'H' => hint = Some(value),
            b'P' => place = value.parse().ok(),
            _ => {}
        }
    }
    if let Some(hint) = hint {
        message = format!("{message} ({hint})");
    }
    (code, message, place)
}

/// A session while it runs something. Let go before its answers have ended, the server is asked on a second connection to stop.
pub(super) struct Held {
    url: Arc<Url>,
    session: Option<Session>,
}

impl Held {
    pub(super) fn new(url: &Arc<Url>, session: Session) -> Self {
        Self {
            url: Arc::clone(url),
            session: Some(session),
        }
    }

    pub(super) fn get(&mut self) -> Result<&mut Session, Error> {
        let url = &self.url;
        self.session
            .as_mut()
            .ok_or_else(|| url.scrub().unreachable("the session is over"))
    }

    /// The session, whose answers have all ended.
    pub(super) fn release(mut self) -> Option<Session> {
        self.session.take()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // The caller is gone, so somebody else has to ask.
        if let Some(session) = self.session.take().filter(|session| session.owed > 0) {
            let url = Arc::clone(&self.url);
            stopping::spawn(async move {
                let _ = tokio::time::timeout(STOPPING, stop(&url, session)).await;
            });
        }
    }
}

/// Asks until the answers end: a server overhears a request that comes between two messages of one statement.
async fn stop(url: &Url, mut session: Session) {
    loop {
        ask_to_stop(url, session.key).await;
        if tokio::time::timeout(AGAIN, session.settled()).await.is_ok() {
            return;
        }
    }
}

async fn ask_to_stop(url: &Url, key: (i32, i32)) {
    let Ok(mut stream) = net::connect(url).await else {
        return;
    };
    if url.tls != Tls::Off && matches!(url.place, Place::Tcp { .. }) {
        let Ok(encrypted) = Session::ask_for_tls(url, stream).await else {
            return;
        };
        stream = encrypted;
    }
    let mut ask = BytesMut::new();
    frontend::cancel_request(key.0, key.1, &mut ask);
    let _ = stream.write_all(&ask).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    /// A session with somebody who says `said` and then `again` without end.
    async fn told(said: Vec<u8>, again: Vec<u8>) -> Session {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            if stream.write_all(&said).await.is_ok() {
                while !again.is_empty() && stream.write_all(&again).await.is_ok() {}
            }
        });
        let url = Url::parse(&format!("postgres://u@127.0.0.1:{port}/d")).unwrap();
        Session {
            stream: net::connect(&url).await.unwrap(),
            inbox: BytesMut::new(),
            outbox: BytesMut::new(),
            key: (0, 0),
            scrub: url.scrub(),
            used: false,
            looks: false,
            owed: 0,
        }
    }

    fn message(tag: u8, length: u32, body: &[u8]) -> Vec<u8> {
        [&[tag][..], &(length + 4).to_be_bytes(), body].concat()
    }

    #[tokio::test]
    async fn of_an_error_only_its_beginning_is_held() {
        let mut body = b"SERROR\0VERROR\0C22P02\0M".to_vec();
        body.resize(3_000_000, b'x');
        let mut said = message(b'E', 3_000_002, &body);
        said.extend_from_slice(&[0, 0]);
        // Notices of any size are read past.
        said.splice(..0, message(b'N', 3_000_000, &body));
        said.extend_from_slice(&message(b'Z', 1, b"I"));
        let mut session = told(said, Vec::new()).await;
        let Message::ErrorResponse(error) = session.message(1000).await.unwrap() else {
            panic!()
        };
        let (code, message, _) = super::told(&mut error.fields());
        assert_eq!(code, "22P02");
        assert!(
            message.len() < ERROR && message.starts_with("xxx"),
            "{}",
            message.len()
        );
        assert!(matches!(
            session.message(1000).await.unwrap(),
            Message::ReadyForQuery(_)
        ));
        assert!(session.inbox.capacity() < 4 * LARGEST);
    }

    #[tokio::test]
    async fn a_message_that_is_no_row_and_larger_than_any_has_to_be_ends_the_session() {
        for tag in [b'T', b'S', b'C', b'R', b'A'] {
            let mut session = told(message(tag, 0x7fff_0000, &[]), vec![b'x'; 65_536]).await;
            let Err(error) = session.message(1000).await else {
                panic!("{tag}")
            };
            assert!(error.to_string().contains("larger than 1 MiB"), "{error}");
            assert!(session.inbox.capacity() < 4 * LARGEST);
        }
    }

    #[tokio::test]
    async fn an_error_without_end_is_not_held_either() {
        let mut session = told(message(b'E', 0x7fff_0000, &[]), vec![b'x'; 65_536]).await;
        let waited = tokio::time::timeout(Duration::from_millis(300), session.message(1000)).await;
        assert!(waited.is_err());
        assert!(
            session.inbox.capacity() < 4 * LARGEST,
            "{}",
            session.inbox.capacity()
        );
    }
}
