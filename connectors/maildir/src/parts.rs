//! Finds the text of a mail in its MIME structure and names what is attached. Never opens an attachment and never reads a mail inside a mail.
//!
//! A mail inside a mail is where a reader can be hurt: nesting makes the library recurse, copy and give up in odd places,
//! and nothing in there is shown anyway. So the structure is read from a copy in which no part can call itself a mail; the
//! offsets stay the same, and what is shown is taken from the original bytes. For the same reason the library is told to
//! ignore transfer encodings: only the parts that are shown are decoded, here.

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{HeaderName, Message, MessageParser, MessagePart, MimeHeaders as _, PartType};

use crate::headers;
use crate::text::{cut_chars, from_html, one_line, storable};

/// Most text parts that are joined to one body, and most attachments that are named.
const MOST_PARTS: usize = 20;
/// The words with which a part becomes a mail of its own: `message/…`, and `multipart/digest`, whose parts are mails.
const NESTING: [&[u8]; 2] = [b"message", b"digest"];

/// What a mail says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Content {
    /// Its text, empty when it has none.
    pub(crate) text: String,
    /// One line that names the attachments.
    pub(crate) attachments: Option<String>,
}

/// The headers of the mail, decoded.
pub(crate) fn headers_of(head: &[u8]) -> Option<Message<'_>> {
    MessageParser::new()
        .with_minimal_headers()
        .with_message_ids()
        .default_header_ignore()
        .parse_headers(head)
}

/// The text and the attachments. `None` when there is no header block.
pub(crate) fn content(head: &[u8]) -> Option<Content> {
    let flat = without_nesting(head);
    let message = MessageParser::new()
        .with_mime_headers()
        .ignore_header(HeaderName::ContentTransferEncoding)
        .default_header_ignore()
        .parse(&flat)?;
    Some(Content {
        text: text(&message, head),
        attachments: attachments(&message, head),
    })
}

/// The same bytes with the nesting words blotted out.
fn without_nesting(head: &[u8]) -> Vec<u8> {
    let mut flat = head.to_owned();
    for word in NESTING {
        let mut at = 0_usize;
        while let Some(window) = flat.get_mut(at..at.saturating_add(word.len())) {
            if window.eq_ignore_ascii_case(word) {
                window.fill(b'x');
            }
            at = at.saturating_add(1);
        }
    }
    flat
}

/// Its plain parts, else its HTML parts as text, else what is left of a broken structure.
fn text(message: &Message<'_>, head: &[u8]) -> String {
    let joined = |parts: &mut dyn Iterator<Item = &MessagePart<'_>>| {
        let texts: Vec<String> = parts
            .take(MOST_PARTS)
            .filter_map(|part| shown(part, head))
            .filter(|text| !text.is_empty())
            .collect();
        texts.join("\n\n")
    };
    let plain = joined(&mut message.text_bodies());
    if !plain.is_empty() {
        return plain;
    }
    let html = joined(&mut message.html_bodies());
    if !html.is_empty() {
        return html;
    }
    // A part that is cut off, here or by its sender, belongs to no body for the library.
    joined(&mut message.parts.iter().filter(|part| is_text_to_read(part)))
}

fn is_text_to_read(part: &MessagePart<'_>) -> bool {
    let attached = part
        .content_disposition()
        .is_some_and(|disposition| disposition.is_attachment());
    let readable = part
        .content_type()
        .is_none_or(|kind| kind.ctype() == "text" && matches!(kind.subtype(), Some("plain" | "html")));
    !attached && readable && matches!(part.body, PartType::Text(_) | PartType::Html(_))
}

fn slice(head: &[u8], from: u32, to: u32) -> Option<&[u8]> {
    head.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?)
}

/// The decoded text of one part.
fn shown(part: &MessagePart<'_>, head: &[u8]) -> Option<String> {
    let is_html = match &part.body {
        PartType::Html(_) => true,
        PartType::Text(_) => part
            .content_type()
            .is_some_and(|kind| kind.subtype() == Some("html")),
        _ => return None,
    };
    let encoded = slice(head, part.raw_body_offset(), part.raw_end_offset())?;
    let fields = headers::split(slice(head, part.raw_header_offset(), part.raw_body_offset())?);
    let encoding = headers::values(&fields, "content-transfer-encoding")
        .next()
        .map(|value| headers::without_comments(value).to_ascii_lowercase());
    let decoded = match encoding.as_deref() {
        Some("base64") => decoded_base64(encoded),
        Some("quoted-printable") => quoted_printable_decode(encoded),
        _ => None,
    };
    let bytes = decoded.as_deref().unwrap_or(encoded);
    let charset = part.content_type().and_then(|kind| kind.attribute("charset"));
    let text = match charset.and_then(|charset| charset_decoder(charset.as_bytes())) {
        Some(decode) => decode(bytes),
        None => String::from_utf8_lossy(bytes).into_owned(),
    };
    Some(storable(&if is_html { from_html(&text) } else { text }))
}

/// Also what was cut off in the middle of a group of four.
fn decoded_base64(encoded: &[u8]) -> Option<Vec<u8>> {
    let mut digits: Vec<u8> = encoded
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let whole = digits.len() / 4 * 4;
    digits.truncate(whole);
    base64_decode(&digits)
}

fn attachments(message: &Message<'_>, head: &[u8]) -> Option<String> {
    let attached: Vec<&MessagePart<'_>> = message
        .attachments()
        .filter(|part| !is_text_to_read(part))
        .collect();
    if attached.is_empty() {
        return None;
    }
    let mut names: Vec<String> = attached
        .iter()
        .take(MOST_PARTS)
        .map(|part| name(part, head))
        .collect();
    let more = attached.len().saturating_sub(names.len());
    if more > 0 {
        names.push(format!("{more} more"));
    }
    Some(format!("[attachments, not included: {}]", names.join(", ")))
}

/// The name from the original header of the part.
fn name(part: &MessagePart<'_>, head: &[u8]) -> String {
    let header = slice(head, part.raw_header_offset(), part.raw_body_offset()).and_then(headers_of);
    let header = header.as_ref().and_then(|header| header.parts.first());
    let name = one_line(
        header
            .and_then(|header| header.attachment_name())
            .unwrap_or_default(),
    );
    let is_mail = header
        .and_then(|header| header.content_type())
        .is_some_and(|kind| kind.ctype() == "message");
    match (name.is_empty(), is_mail) {
        (false, _) => cut_chars(&name, 80),
        (true, true) => "a mail".to_owned(),
        (true, false) => "a part without a name".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(raw: &[u8]) -> String {
        content(raw).unwrap_or_default().text
    }

    #[test]
    fn each_encoding_and_charset_is_decoded() {
        for (headers, body, expected) in [
            ("", "plain", "plain"),
            (
                "Content-Transfer-Encoding: 8bit\nContent-Type: text/plain; charset=utf-8\n",
                "é",
                "é",
            ),
            (
                "Content-Transfer-Encoding: Quoted-Printable (q)\n",
                "a=C3=A9=\nb",
                "aéb",
            ),
            (
                "Content-Transfer-Encoding: base64\nContent-Type: text/plain; charset=iso-8859-1\n",
                "6eo=\n",
                "éê",
            ),
            (
                "Content-Transfer-Encoding: base64\n",
                "Zmlyc3QgbGluZQpzZW\nNvbmQgbGluZQo=\n",
                "first line\nsecond line",
            ),
            ("Content-Transfer-Encoding: base64\n", "Y3V0IG9mZ", "cut of"),
            (
                "Content-Transfer-Encoding: base64\n",
                "§ not base64 §",
                "§ not base64 §",
            ),
            (
                "Content-Transfer-Encoding: base64\nContent-Type: text/plain; charset=shift_jis\n",
                "k4yLng==\n",
                "東京",
            ),
            ("Content-Type: text/plain; charset=x-unknown\n", "abc", "abc"),
        ] {
            let raw = format!("From: a@x.test\n{headers}\n{body}");
            assert_eq!(text_of(raw.as_bytes()), expected, "{headers}{body}");
        }
    }

    #[test]
    fn a_text_that_is_cut_off_is_still_shown() {
        for kind in ["mixed", "alternative", "related"] {
            let raw = format!(
                "From: a@x.test\nContent-Type: multipart/{kind}; boundary=A\n\n--A\nContent-Type: text/plain\n\nthe beginning of"
            );
            assert_eq!(text_of(raw.as_bytes()), "the beginning of", "{kind}");
            let raw = raw
                .replace("text/plain", "text/html")
                .replace("the beginning", "<p>the beginning");
            assert_eq!(text_of(raw.as_bytes()), "the beginning of", "{kind}");
            let raw = raw.replace("text/html", "text/html\nContent-Disposition: attachment");
            assert_eq!(text_of(raw.as_bytes()), "", "{kind}");
        }
    }

    #[test]
    fn a_mail_inside_a_mail_is_named_and_not_read() {
        for encoding in ["7bit", "base64"] {
            let raw = format!(
                "From: a@x.test\nContent-Type: multipart/mixed; boundary=A\n\n--A\n\nouter\n--A\n\
                 Content-Type: message/rfc822\nContent-Transfer-Encoding: {encoding}\n\nSubject: inner\n\ninner text\n--A--\n"
            );
            let content = content(raw.as_bytes()).unwrap();
            assert_eq!(content.text, "outer");
            assert_eq!(
                content.attachments.as_deref(),
                Some("[attachments, not included: a mail]")
            );
        }
    }

    #[test]
    fn a_text_about_messages_and_an_attachment_called_digest_keep_their_words() {
        let raw = "From: a@x.test\nContent-Type: multipart/mixed; boundary=message-digest\n\n--message-digest\n\n\
             A Message about Content-Type: message/rfc822 and a DIGEST\n--message-digest\n\
             Content-Type: application/pdf; name=\"message digest.pdf\"\n\nx\n--message-digest--\n";
        let content = content(raw.as_bytes()).unwrap();
        assert_eq!(
            content.text,
            "A Message about Content-Type: message/rfc822 and a DIGEST"
        );
        assert_eq!(
            content.attachments.as_deref(),
            Some("[attachments, not included: message digest.pdf]")
        );
    }

    #[test]
    fn no_spelling_makes_a_part_a_mail() {
        for spelling in [
            "Content-Type: message/rfc822",
            "CONTENT-TYPE : MESSAGE / global (c)",
            " Content-Type:\n message/rfc822",
            "Con tent-Type: (c)message(c)/(c)rfc822",
            "Content-Type: multipart/digest; boundary=D\n\n--D",
        ] {
            let raw = format!(
                "From: a@x.test\nContent-Type: multipart/mixed; boundary=A\n\n--A\n{spelling}\n\nSubject: inner\n\ninner\n--A--\n"
            );
            let flat = without_nesting(raw.as_bytes());
            let message = MessageParser::default().parse(&flat).unwrap();
            let nested = message
                .parts
                .iter()
                .any(|part| matches!(part.body, PartType::Message(_)));
            assert!(!nested, "{spelling}");
        }
    }
}
