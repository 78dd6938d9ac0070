//! Composes the reply mail (RFC 5322) from the approved text and the facts of the mail it answers. Never sends, and lets no outside text end a header line.

use std::time::SystemTime;

use lettre::Address;
use lettre::message::header::ContentTransferEncoding;
use lettre::message::{Body, Mailboxes, SinglePart, header};

pub use lettre::message::Mailbox;

use crate::mail::ReplyFacts;
use crate::text::one_line;

/// Why a reply cannot be written; the sentence is shown to the owner as the reason that nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// The mail has no address that a reply could go to.
    #[error("Nothing was sent: the mail has no address that a reply could go to.")]
    NoRecipient,
    /// The mail library refused the parts.
    #[error("Nothing was sent: the reply could not be written as a mail.")]
    Unwritable,
}

/// A Message-ID with brackets for the reply to this draft. `chance` makes it unique among servers that count alike.
pub fn message_id(draft_id: u64, chance: u128, from: &Mailbox) -> String {
    format!("<muster.{draft_id}.{chance:032x}@{}>", ascii_host(from))
}

fn ascii_host(from: &Mailbox) -> String {
    crate::people::ascii_domain(from.email.domain()).unwrap_or_else(|| "localhost".to_owned())
}

/// The reply as bytes with LF line ends, as programs that read a Maildir or the sendmail pipe expect.
///
/// # Errors
/// When the facts name no recipient, or the mail library refuses the parts.
pub fn compose(
    facts: &ReplyFacts,
    from: &Mailbox,
    message_id: &str,
    text: &str,
    date: SystemTime,
) -> Result<Vec<u8>, ReplyError> {
    if facts.recipients.is_empty() {
        return Err(ReplyError::NoRecipient);
    }
    let mut to = Mailboxes::new();
    for recipient in &facts.recipients {
        to.push(Mailbox::new(None, address(recipient)?));
    }
    // One part with all headers is a whole mail. The library's message builder would parse the addresses again, by rules
    // that refuse some that exist.
    let mut mail = SinglePart::builder()
        .header(header::From::from(Mailboxes::from(from.clone())))
        .header(header::To::from(to))
        .header(header::Subject::from(subject(&facts.subject)))
        .header(header::Date::new(date))
        .header(header::MessageId::from(one_line(message_id)));
    if let Some(original) = &facts.message_id {
        let all = facts.references.iter().chain([original]);
        let references: Vec<String> = all.map(|id| bracketed(id)).collect();
        mail = mail
            .header(header::InReplyTo::from(bracketed(original)))
            .header(header::References::from(references.join(" ")));
    }
    // The library ends the last line itself.
    let text = text.trim_end_matches(['\r', '\n']).to_owned();
    let body = Body::new_with_encoding(text, ContentTransferEncoding::QuotedPrintable)
        .map_err(|_| ReplyError::Unwritable)?;
    let mail = mail
        .header(header::MIME_VERSION_1_0)
        .header(header::ContentType::TEXT_PLAIN)
        .body(body);
    Ok(with_line_feeds(&mail.formatted()))
}

fn bracketed(id: &str) -> String {
    format!("<{}>", one_line(id))
}

/// The recipient, which [`crate::people::mailbox`] has checked more strictly than the mail library would.
fn address(recipient: &str) -> Result<Address, ReplyError> {
    let checked = crate::people::mailbox(recipient).ok_or(ReplyError::NoRecipient)?;
    let (local, domain) = checked.rsplit_once('@').ok_or(ReplyError::NoRecipient)?;
    Ok(Address::new_dangerous(local, domain))
}

/// `Re: ` and the subject on one line, once.
fn subject(original: &str) -> String {
    // Text that merely looks like an encoded word would be decoded a second time by the reader.
    let line = one_line(original).replace("=?", "= ?");
    let again = line
        .get(..3)
        .is_some_and(|start| start.eq_ignore_ascii_case("re:"));
    if again {
        line
    } else {
        format!("Re: {line}").trim_end().to_owned()
    }
}

/// Every CRLF as LF. The encoded body has no carriage return of its own: quoted-printable spells it out.
fn with_line_feeds(mail: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(mail.len());
    for (at, byte) in mail.iter().enumerate() {
        if *byte != b'\r' || mail.get(at.saturating_add(1)) != Some(&b'\n') {
            bytes.push(*byte);
        }
    }
    bytes
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
