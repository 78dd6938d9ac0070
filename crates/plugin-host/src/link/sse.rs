//! Event streams as a server of Streamable HTTP sends them. Never holds more than one event of the allowed size.

use bytes::BytesMut;
use memchr::memchr;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) data: String,
    pub(crate) id: Option<String>,
}

/// Takes bytes as they come and gives events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    buffer: BytesMut,
    /// How much of the buffer holds no end of a line, so that a line which comes in many pieces is looked at once.
    looked_at: usize,
    data: String,
    id: Option<String>,
    /// Milliseconds until a broken stream should be taken up again, when the server said so.
    pub(crate) retry: Option<u64>,
}

/// An event, or a line of one, is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLarge;

impl Events {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole event.
    pub(crate) fn next_event(&mut self, largest: usize) -> Result<Option<Event>, TooLarge> {
        loop {
            let fresh = self.buffer.get(self.looked_at..).unwrap_or_default();
            let Some(at) = memchr(b'\n', fresh) else {
                self.looked_at = self.buffer.len();
                return if self.buffer.len() > largest {
                    Err(TooLarge)
                } else {
                    Ok(None)
                };
            };
            let line = self.buffer.split_to(self.looked_at + at + 1);
            self.looked_at = 0;
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let data = std::mem::take(&mut self.data);
                if data.is_empty() && self.id.is_none() {
                    continue;
                }
                return Ok(Some(Event {
                    data,
                    id: self.id.take(),
                }));
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "data" => {
                    if self.data.len() + value.len() > largest {
                        return Err(TooLarge);
                    }
                    if !self.data.is_empty() {
                        self.data.push('\n');
                    }
                    self.data.push_str(value);
                }
                "id" if !value.contains('\0') => self.id = Some(value.to_owned()),
                "retry" => self.retry = value.parse().ok().or(self.retry),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_stream_is_cut() {
        let text = ": hello\r\nid: 7\r\ndata:\r\n\r\nretry: 500\nevent: message\ndata: {\"a\":\ndata: 1}\nid: 8\n\ndata: {}\n\ndata: cut";
        for piece in 1..text.len() {
            let mut events = Events::default();
            let mut found = Vec::new();
            for piece in text.as_bytes().chunks(piece) {
                events.push(piece);
                while let Some(event) = events.next_event(1_000).unwrap() {
                    found.push(event);
                }
            }
            let event = |data: &str, id: Option<&str>| Event {
                data: data.to_owned(),
                id: id.map(str::to_owned),
            };
            assert_eq!(
                found,
                [
                    event("", Some("7")),
                    event("{\"a\":\n1}", Some("8")),
                    event("{}", None)
                ]
            );
            assert_eq!(events.retry, Some(500));
        }
    }

    #[test]
    fn what_was_looked_at_is_not_looked_at_again() {
        let mut events = Events::default();
        for pieces in 1..=50 {
            events.push(b"data: xxxx");
            assert_eq!(events.next_event(1_000), Ok(None));
            assert_eq!(events.looked_at, pieces * 10);
        }
        events.push(b"\n\ndata: y\n\ndata");
        assert_eq!(events.next_event(1_000).unwrap().unwrap().data.len(), 50 * 10 - 6);
        assert_eq!(events.looked_at, 0);
        assert_eq!(events.next_event(1_000).unwrap().unwrap().data, "y");
        assert_eq!(events.next_event(1_000), Ok(None));
        assert_eq!(events.looked_at, 4);
    }

    #[test]
    fn an_endless_line_and_an_endless_event_are_too_large() {
        let mut events = Events::default();
        events.push(&[b'x'; 200]);
        assert_eq!(events.next_event(100), Err(TooLarge));
        let mut events = Events::default();
        events.push("data: xxxxxxxxxx\n".repeat(20).as_bytes());
        assert_eq!(events.next_event(100), Err(TooLarge));
    }
}
