//! HTTP/1.1 on kept connections with as little work as possible, so that what is measured is the server. Never follows, retries or keeps a cookie.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// One connection.
pub(crate) struct Link {
    stream: TcpStream,
    read: Vec<u8>,
}

/// What a call answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// A header's value, by its name in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// The body as text, for a sentence about a refusal.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A number in the body's JSON object.
    pub(crate) fn number(&self, name: &str) -> Result<i64> {
        let value: serde_json::Value = serde_json::from_slice(&self.body).context("an answer is not JSON")?;
        value
            .get(name)
            .and_then(serde_json::Value::as_i64)
            .with_context(|| format!("an answer has no {name}"))
    }
}

impl Link {
    /// Opens a connection.
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .await
            .context("muster does not accept a connection")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            read: Vec::with_capacity(4096),
        })
    }

    /// Sends a whole request and reads the whole answer.
    pub(crate) async fn call(&mut self, request: &[u8]) -> Result<Answer> {
        self.stream.write_all(request).await?;
        loop {
            if let Some((answer, length)) = parse(&self.read)? {
                self.read.drain(..length);
                return Ok(answer);
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                bail!("muster closed a connection in the middle of an answer");
            }
        }
    }
}

/// A request's bytes. `headers` are whole lines, each with its line end.
pub(crate) fn request(method: &str, path: &str, address: SocketAddr, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: {length}\r\n\r\n{body}")
        .into_bytes()
}

/// The line that carries a token.
pub(crate) fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// The first answer in `read` and how many bytes it takes, when all of it is there.
fn parse(read: &[u8]) -> Result<Option<(Answer, usize)>> {
    const END: &[u8] = b"\r\n\r\n";
    let Some(end) = read.windows(END.len()).position(|window| window == END) else {
        return Ok(None);
    };
    let (head, rest) = read.split_at(end + END.len());
    let head = std::str::from_utf8(head).context("an answer's head is not text")?;
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .context("an answer has no status")?;
    if header(head, "transfer-encoding").is_some() {
        bail!("an answer came in chunks, which this client does not read");
    }
    let length = match header(head, "content-length") {
        Some(text) => text.parse().context("an answer's length is no number")?,
        None => 0,
    };
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    let answer = Answer {
        status,
        head: head.to_owned(),
        body: body.to_vec(),
    };
    Ok(Some((answer, end + END.len() + length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_only_when_all_of_it_is_there() {
        let whole = b"HTTP/1.1 202 Accepted\r\nContent-Length: 8\r\n\r\n{\"id\":7}HTTP/1.1 2";
        let length = whole.len() - "HTTP/1.1 2".len();
        for cut in 0..length {
            assert!(parse(whole.get(..cut).unwrap()).unwrap().is_none(), "{cut}");
        }
        let (answer, taken) = parse(whole).unwrap().unwrap();
        assert_eq!(
            (answer.status, taken, answer.number("id").unwrap()),
            (202, length, 7)
        );
        assert!(answer.number("status").is_err());
    }

    #[test]
    fn an_answer_without_a_length_has_no_body() {
        let (answer, _) = parse(b"HTTP/1.1 204 No Content\r\ndate: x\r\n\r\n")
            .unwrap()
            .unwrap();
        assert_eq!(
            (answer.status, answer.body.len(), answer.header("date")),
            (204, 0, Some("x"))
        );
    }
}
