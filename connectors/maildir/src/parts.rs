//! Finds the text of a mail in its MIME structure and names what is attached. Never opens an attachment and never reads a mail inside a mail.
//!
//! The library decodes each part while it reads, and copies a decoded mail inside a mail once per level: a small hostile
//! mail would cost gigabytes. So it is told to ignore transfer encodings, and only the parts that are shown are decoded here.

use mail_parser::decoders::base64::base64_decode;
use mail_parser::decoders::charsets::map::charset_decoder;
use mail_parser::decoders::quoted_printable::quoted_printable_decode;
use mail_parser::{HeaderName, Message, MessageParser, MessagePart, MimeHeaders as _, PartType};

use crate::headers;
use crate::text::{cut_chars, from_html, one_line, storable};

/// Most text parts that are joined to one body, and most attachments that are named.
const MOST_PARTS: usize = 20;

/// The mail in its parts, their contents still encoded.
pub(crate) fn parse(head: &[u8]) -> Option<Message<'_>> {
    MessageParser::new()
        .with_minimal_headers()
        .with_message_ids()
        .ignore_header(HeaderName::ContentTransferEncoding)
        .default_header_ignore()
        .parse(head)
}

/// The text of the mail: its plain parts, else its HTML parts as text, else what is left of a broken structure.
pub(crate) fn text(message: &Message<'_>, head: &[u8]) -> String {
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
    let attached = part.content_disposition().is_some_and(|disposition| disposition.is_attachment());
    let readable = part.content_type().is_none_or(|kind| {
        kind.ctype() == "text" && matches!(kind.subtype(), Some("plain" | "html"))
    });
    !attached && readable
}

/// The decoded text of one part.
fn shown(part: &MessagePart<'_>, head: &[u8]) -> Option<String> {
    let is_html = match &part.body {
        PartType::Html(_) => true,
        PartType::Text(_) => part.content_type().is_some_and(|kind| kind.subtype() == Some("html")),
        _ => return None,
    };
    let slice = |from: u32, to: u32| head.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?);
    let encoded = slice(part.raw_body_offset(), part.raw_end_offset())?;
    let fields = headers::split(slice(part.raw_header_offset(), part.raw_body_offset())?);
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
    let mut digits: Vec<u8> = encoded.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let whole = digits.len() / 4 * 4;
    digits.truncate(whole);
    base64_decode(&digits)
}

/// One line that names the attachments.
pub(crate) fn attachments_note(message: &Message<'_>) -> Option<String> {
    let attached: Vec<&MessagePart<'_>> = message
        .attachments()
        .filter(|part| !matches!(part.body, PartType::Text(_) | PartType::Html(_)) || !is_text_to_read(part))
        .collect();
    if attached.is_empty() {
        return None;
    }
    let mut names: Vec<String> = attached
        .iter()
        .take(MOST_PARTS)
        .map(|part| {
            let name = one_line(part.attachment_name().unwrap_or_default());
            match (name.is_empty(), &part.body) {
                (false, _) => cut_chars(&name, 80),
                (true, PartType::Message(_)) => "a mail".to_owned(),
                (true, _) => "a part without a name".to_owned(),
            }
        })
        .collect();
    let more = attached.len().saturating_sub(names.len());
    if more > 0 {
        names.push(format!("{more} more"));
    }
    Some(format!("[attachments, not included: {}]", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(raw: &[u8]) -> String {
        parse(raw).map(|message| text(&message, raw)).unwrap_or_default()
    }

    #[test]
    fn each_encoding_and_charset_is_decoded() {
        for (headers, body, expected) in [
            ("", "plain", "plain"),
            ("Content-Transfer-Encoding: 8bit\nContent-Type: text/plain; charset=utf-8\n", "é", "é"),
            ("Content-Transfer-Encoding: Quoted-Printable (q)\n", "a=C3=A9=\nb", "aéb"),
            ("Content-Transfer-Encoding: base64\nContent-Type: text/plain; charset=iso-8859-1\n", "6eo=\n", "éê"),
            ("Content-Transfer-Encoding: base64\n", "Zmlyc3QgbGluZQpzZW\nNvbmQgbGluZQo=\n", "first line\nsecond line"),
            ("Content-Transfer-Encoding: base64\n", "Y3V0IG9mZ", "cut of"),
            ("Content-Transfer-Encoding: base64\n", "§ not base64 §", "§ not base64 §"),
            ("Content-Transfer-Encoding: base64\nContent-Type: text/plain; charset=shift_jis\n", "k4yLng==\n", "東京"),
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
            let raw = raw.replace("text/plain", "text/html").replace("the beginning", "<p>the beginning");
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
            let message = parse(raw.as_bytes()).unwrap();
            assert_eq!(text(&message, raw.as_bytes()), "outer");
            assert_eq!(attachments_note(&message).as_deref(), Some("[attachments, not included: a mail]"));
        }
    }
}
