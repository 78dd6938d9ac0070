//! Both ways to frame messages on a stream, told apart by what comes: a JSON object a line, or `Content-Length` headers. Never holds more than one message
//! of the allowed size, and never loses its place over one that is too large.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

/// Largest message, in bytes. A larger one is thrown away while it arrives.
pub const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// What is kept of a message that is thrown away: enough to find out which call it answered.
const HEAD: usize = 4096;
/// Longest header block.
const LONGEST_HEADERS: usize = 8192;

/// How messages are framed when they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// One JSON object a line.
    #[default]
    Lines,
    /// A `Content-Length` header, an empty line, the object.
    ContentLength,
}

impl Framing {
    /// The bytes on the stream for one message.
    #[must_use]
    pub fn encode(self, message: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(message.len() + 32);
        self.encode_into(message, &mut out);
        out
    }

    /// Puts the bytes on the stream for one message behind those of others.
    pub fn encode_into(self, message: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Lines => {
                // A raw line break cannot stand inside a JSON string, so it stands between tokens, where a blank is the same.
                out.extend(message.iter().map(|byte| match byte {
                    b'\n' | b'\r' => b' ',
                    other => *other,
                }));
                out.push(b'\n');
            }
            Self::ContentLength => {
                out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", message.len()).as_bytes());
                out.extend_from_slice(message);
            }
        }
    }
}

/// What was found on a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message, not parsed beyond its first byte.
    Message(Bytes),
    /// A message that was too large. The call it answered, when its beginning says so.
    TooLarge(Option<u64>),
    /// A line that is no message: a banner, a stray print.
    Noise,
}

#[derive(Debug)]
enum State {
    Line { scanned: usize },
    SkipLine,
    Headers { length: Option<usize> },
    Body { length: usize },
    SkipBody { left: usize },
}

/// Takes bytes as they come and gives frames.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    state: State,
    largest: usize,
    /// The framing of the last message.
    seen: Framing,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new(LARGEST_MESSAGE)
    }
}

impl Decoder {
    /// A decoder for messages of at most `largest` bytes.
    #[must_use]
    pub fn new(largest: usize) -> Self {
        Self {
            buffer: BytesMut::with_capacity(16 * 1024),
            state: State::Line { scanned: 0 },
            largest,
            seen: Framing::Lines,
        }
    }

    /// The framing of the last message.
    #[must_use]
    pub const fn framing(&self) -> Framing {
        self.seen
    }

    /// The buffer to read into.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame, or `None` until more bytes came.
    pub fn next_frame(&mut self) -> Option<Frame> {
        loop {
            match self.state {
                State::Line { scanned } => {
                    let rest = self.buffer.get(scanned..).unwrap_or_default();
                    let Some(at) = memchr(b'\n', rest) else {
                        if self.buffer.len() > self.largest {
                            let head = self.buffer.get(..HEAD).unwrap_or(&self.buffer);
                            let call = answered(head);
                            self.buffer.clear();
                            self.state = State::SkipLine;
                            return Some(Frame::TooLarge(call));
                        }
                        self.state = State::Line {
                            scanned: self.buffer.len(),
                        };
                        return None;
                    };
                    let line = self.buffer.split_to(scanned + at + 1).freeze();
                    self.state = State::Line { scanned: 0 };
                    if let Some(frame) = self.line(line) {
                        return Some(frame);
                    }
                }
                State::SkipLine => {
                    let Some(at) = memchr(b'\n', &self.buffer) else {
                        self.buffer.clear();
                        return None;
                    };
                    self.buffer.advance(at + 1);
                    self.state = State::Line { scanned: 0 };
                }
                State::Headers { length } => {
                    let Some(at) = memchr(b'\n', &self.buffer) else {
                        if self.buffer.len() > LONGEST_HEADERS {
                            self.buffer.clear();
                            self.state = State::SkipLine;
                            return Some(Frame::Noise);
                        }
                        return None;
                    };
                    let line = self.buffer.split_to(at + 1);
                    if at > LONGEST_HEADERS {
                        self.state = State::Line { scanned: 0 };
                        return Some(Frame::Noise);
                    }
                    let line = line.trim_ascii();
                    self.state = match (line.is_empty(), length) {
                        (false, _) => State::Headers {
                            length: content_length(line).or(length),
                        },
                        (true, Some(length)) if length > self.largest => {
                            let here = self.buffer.len().min(length);
                            // What arrived of it already is looked at; the rest is only counted.
                            let head = self.buffer.get(..here.min(HEAD)).unwrap_or_default();
                            let call = answered(head);
                            self.buffer.advance(here);
                            self.state = State::SkipBody { left: length - here };
                            return Some(Frame::TooLarge(call));
                        }
                        (true, Some(length)) => State::Body { length },
                        (true, None) => State::Line { scanned: 0 },
                    };
                }
                State::Body { length } => {
                    if self.buffer.len() < length {
                        self.buffer.reserve((length - self.buffer.len()).min(1 << 20));
                        return None;
                    }
                    let body = self.buffer.split_to(length).freeze();
                    self.state = State::Line { scanned: 0 };
                    self.seen = Framing::ContentLength;
                    return Some(if begins_object(&body) {
                        Frame::Message(body)
                    } else {
                        Frame::Noise
                    });
                }
                State::SkipBody { left } => {
                    let here = self.buffer.len().min(left);
                    self.buffer.advance(here);
                    if here < left {
                        self.state = State::SkipBody { left: left - here };
                        return None;
                    }
                    self.state = State::Line { scanned: 0 };
                }
            }
        }
    }

    fn line(&mut self, line: Bytes) -> Option<Frame> {
        let text = line.trim_ascii();
        // First of all: of a line that came in pieces nothing else was looked at either.
        if line.len() > self.largest {
            return Some(Frame::TooLarge(answered(text.get(..HEAD).unwrap_or(text))));
        }
        if text.is_empty() {
            return None;
        }
        if let Some(length) = content_length(text) {
            self.state = State::Headers { length: Some(length) };
            return None;
        }
        if header_name(text).is_some_and(|name| name.eq_ignore_ascii_case(b"content-type")) {
            self.state = State::Headers { length: None };
            return None;
        }
        if begins_object(text) {
            self.seen = Framing::Lines;
            Some(Frame::Message(line))
        } else {
            Some(Frame::Noise)
        }
    }
}

fn begins_object(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'{')
}

fn header_name(line: &[u8]) -> Option<&[u8]> {
    line.split(|byte| *byte == b':')
        .next()
        .filter(|name| name.len() < line.len())
}

fn content_length(line: &[u8]) -> Option<usize> {
    let name = header_name(line)?;
    if !name.eq_ignore_ascii_case(b"content-length") {
        return None;
    }
    let value = line.get(name.len() + 1..)?.trim_ascii();
    if value.is_empty() || value.len() > 12 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// The number under `"id"` at the top of an object of which only the beginning is there; `None` unless it stands before the answer itself.
fn answered(head: &[u8]) -> Option<u64> {
    let (mut depth, mut at, mut key) = (0_u32, 0_usize, None);
    while let Some(byte) = head.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let begin = at + 1;
                at = begin;
                loop {
                    match head.get(at)? {
                        b'\\' => at += 2,
                        b'"' => break,
                        _ => at += 1,
                    }
                }
                key = head.get(begin..at);
            }
            b':' if depth == 1 => match key {
                Some(b"id") => {
                    let rest = head.get(at + 1..)?.trim_ascii_start();
                    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    // A number that is cut off could be another one.
                    rest.get(digits)?;
                    return std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok();
                }
                Some(b"result" | b"error" | b"params") => return None,
                _ => {}
            },
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8], piece: usize, largest: usize) -> Vec<Frame> {
        let mut decoder = Decoder::new(largest);
        let mut found = Vec::new();
        for piece in bytes.chunks(piece.max(1)) {
            decoder.buffer().extend_from_slice(piece);
            while let Some(frame) = decoder.next_frame() {
                found.push(frame);
            }
            assert!(decoder.buffer.len() <= largest + LONGEST_HEADERS + piece.len());
        }
        found
    }

    fn message(text: &str) -> Frame {
        Frame::Message(Bytes::copy_from_slice(text.as_bytes()))
    }

    // spec: WIR-001 WIR-002 WIR-005 WIR-006
    #[test]
    fn frames_are_the_same_however_the_stream_is_cut_also_inside_a_character() {
        let text = "Server ready on ☃\n{\"a\":\"é☃𝄞\"}\n\r\nContent-Length: 12\r\nContent-Type: x\r\n\r\n{\"b\":\"é☃\"}{\"c\":1}\ncontent-length:8\n\n{\n\"d\":2}{\"e\":3}\n";
        let wanted: Vec<Frame> = all(text.as_bytes(), text.len(), 1 << 20);
        assert_eq!(wanted[0], Frame::Noise);
        assert_eq!(wanted[1], message("{\"a\":\"é☃𝄞\"}\n"));
        assert_eq!(wanted.len(), 6);
        for piece in 1..text.len() {
            assert_eq!(all(text.as_bytes(), piece, 1 << 20), wanted, "{piece}");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_no_header_however_it_came() {
        let text = format!("Content-Type: {}\n{{\"hd\"\n", "x".repeat(300));
        for piece in [1, 100, 255, 400] {
            let found = all(text.as_bytes(), piece, 256);
            assert_eq!(found.last(), Some(&message("{\"hd\"\n")), "{piece}");
        }
    }

    #[test]
    fn a_message_that_is_too_large_costs_no_memory_names_its_call_and_is_stepped_over() {
        let large = "x".repeat(5_000);
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":42,\"result\":\"{large}\"}}\n{{\"a\":1}}\n");
        let body = format!("{{\"id\":7,\"result\":\"{large}\"}}");
        let framed = format!("Content-Length: {}\r\n\r\n{body}{{\"a\":1}}\n", body.len());
        for piece in [64, 100, 1_000] {
            assert_eq!(
                all(line.as_bytes(), piece, 1_000),
                [Frame::TooLarge(Some(42)), message("{\"a\":1}\n")]
            );
            let found = all(framed.as_bytes(), piece, 1_000);
            assert!(matches!(found[0], Frame::TooLarge(_)));
            assert_eq!(found[1..], [message("{\"a\":1}\n")]);
        }
        // An id inside the answer, or a number that is cut off, is nobody's.
        assert_eq!(answered(b"{\"result\":{\"id\":1"), None);
        assert_eq!(answered(b"{\"x\":{\"id\":1},\"id\":12"), None);
        assert_eq!(answered(b"{\"x\":{\"id\":1},\"id\":12,"), Some(12));
        assert_eq!(answered(b"{\"\\\"id\":1,\"id\": 3 }"), Some(3));
    }

    #[test]
    fn a_header_without_a_number_or_a_flood_of_headers_is_noise() {
        assert_eq!(
            all(b"Content-Length: ten\n{\"a\":1}\n", 7, 100)[1],
            message("{\"a\":1}\n")
        );
        let flood = format!("Content-Length: 5\r\n{}", "x".repeat(20_000));
        assert_eq!(all(flood.as_bytes(), 100, 100), [Frame::Noise]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again_in_both_framings(
            values in proptest::collection::vec(".{0,40}", 1..6), headers: bool, piece in 1_usize..50,
        ) {
            let framing = if headers { Framing::ContentLength } else { Framing::Lines };
            let messages: Vec<String> = values.iter().map(|v| serde_json::json!({"v": v}).to_string()).collect();
            let stream: Vec<u8> = messages.iter().flat_map(|m| framing.encode(m.as_bytes())).collect();
            let found = all(&stream, piece, 1 << 20);
            prop_assert_eq!(found.len(), messages.len());
            for (found, wanted) in found.iter().zip(&messages) {
                let Frame::Message(bytes) = found else { panic!("no message") };
                prop_assert_eq!(bytes.trim_ascii(), wanted.as_bytes());
            }
        }

        #[test]
        fn no_bytes_whatever_make_it_hold_more_than_its_limit(bytes in proptest::collection::vec(any::<u8>(), 0..3_000), piece in 1_usize..200) {
            all(&bytes, piece, 256);
        }
    }
}
