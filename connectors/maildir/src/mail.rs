//! Turns one raw mail into the message that muster is told about, and the facts that a later reply needs. Never touches a file or the network, never fails: any bytes give some message.

use jiff::Timestamp;
use mail_parser::{DateTime, HeaderValue, Message};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use crate::auth::Authority;
use crate::headers::{self, Field};
use crate::people::{self, Person};
use crate::text::{cut_bytes, cut_chars, hex, one_line, printable, storable};
use crate::{auth, automatic, parts};

/// How many bytes of a mail are read for its headers and its text; the rest of a longer one is only hashed.
pub const READ_LIMIT: usize = 256 * 1024;
/// Longest body that muster accepts, in bytes.
pub const BODY_LIMIT: usize = 16 * 1024;
/// Longest sender and subject that muster accepts, in characters.
pub const LINE_LIMIT: usize = 200;
/// Longest thread id that muster accepts, in bytes.
const THREAD_LIMIT: usize = 200;
/// Longest Message-ID that is repeated in a reply, in bytes.
const LONGEST_ID: usize = 250;
/// Most ids in the References header of a reply.
const MOST_REFERENCES: usize = 50;
/// Longest subject that is kept for a reply, in characters.
const REPLY_SUBJECT_LIMIT: usize = 300;

/// What the owner of the mailbox has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The address that replies come from; mail from it is not posted.
    pub own_address: String,
    /// Whose results prove a sender; without one no sender is proven.
    pub authority: Option<Authority>,
}

/// One raw mail as it was found.
#[derive(Debug, Clone, Copy)]
pub struct Found<'a> {
    /// Its first [`READ_LIMIT`] bytes.
    pub head: &'a [u8],
    /// Its whole length in bytes.
    pub size: u64,
    /// The name of its file in the Maildir, without flags.
    pub file_name: &'a str,
}

/// A mail in the words of muster's door, every field within its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// `Name <address>` of the first From address.
    pub sender: Option<String>,
    /// The decoded subject.
    pub subject: Option<String>,
    /// The text, with notes about attachments, recipients and what was left out at its end.
    pub body: String,
    /// The moment of the Date header when it is a believable one.
    pub sent_at: Option<Timestamp>,
    /// The same for all mails of one conversation.
    pub thread: Option<String>,
    /// Whether nobody can answer it.
    pub no_reply: bool,
    /// Whether the own mail server has proven the sender's address.
    pub sender_verified: bool,
    /// Whether it comes from the own address.
    pub from_own_address: bool,
    /// What a reply needs.
    pub reply: ReplyFacts,
}

/// What a reply to a mail needs to reach the right people in the right thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyFacts {
    /// The addresses that get the reply; none when nobody can be reached.
    pub recipients: Vec<String>,
    /// The subject of the mail on one line.
    pub subject: String,
    /// Its Message-ID without brackets.
    pub message_id: Option<String>,
    /// The ids that the reply's References header has before that, without brackets.
    pub references: Vec<String>,
}

/// The idempotency key of a mail: a hash of its Message-ID and the hash of all its bytes. The file name has no part in it.
///
/// The Message-ID alone would not do: it can be missing, repeated, or chosen to shadow another mail.
pub fn external_id(head: &[u8], sha256_of_all: &[u8; 32]) -> String {
    let fields = headers::split(head);
    let message_id = headers::values(&fields, "message-id").next().unwrap_or_default();
    let id_hash = hex(&Sha256::digest(message_id.trim().as_bytes()));
    let short = id_hash.get(..16).unwrap_or_default();
    format!("m-{short}-{}", hex(sha256_of_all))
}

/// Whether the text has the form that [`external_id`] gives, so that it is safe as a file name.
pub fn is_external_id(text: &str) -> bool {
    let digits = |part: &str, length| {
        part.len() == length && part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    text.strip_prefix("m-")
        .and_then(|rest| rest.split_once('-'))
        .is_some_and(|(id, all)| digits(id, 16) && digits(all, 64))
}

/// Reads a mail. `now`, in seconds since 1970, bounds the dates that are believed.
pub fn read(found: Found<'_>, rules: &Rules, now: i64) -> Mail {
    let fields = headers::split(found.head);
    let parsed = parts::headers_of(found.head);
    let message = parsed.as_ref();

    let from = people::people(message.and_then(Message::from));
    let reply_to = people::people(message.and_then(Message::reply_to));
    let from_addresses: Vec<String> = from.iter().filter_map(Person::mailbox).collect();
    let own = &rules.own_address;
    let recipients = people::recipients(&reply_to, &from, own);

    let first = from.first();
    let sender = first.and_then(|person| person.label(LINE_LIMIT));
    let only_sender_answered = match (first.and_then(Person::mailbox), recipients.as_slice()) {
        (Some(sender), [only]) => sender.eq_ignore_ascii_case(only),
        _ => false,
    };
    let subject = one_line(message.and_then(Message::subject).unwrap_or_default());
    let message_id = message.and_then(Message::message_id).map(str::to_owned);
    let earlier = earlier_ids(message);
    let thread = earlier.first().or(message_id.as_ref()).map(|id| thread_id(id));

    let mut notes = Vec::new();
    if first.is_some() && sender.is_none() {
        notes.push("[the sender's address is too long to be shown]".to_owned());
    }
    if !recipients.is_empty() && !only_sender_answered {
        notes.push(format!("[a reply goes to: {}]", recipients.join(", ")));
    }
    let content = parts::content(found.head);
    notes.extend(content.as_ref().and_then(|content| content.attachments.clone()));

    Mail {
        no_reply: automatic::takes_no_reply(&fields, &from_addresses, &recipients),
        // The mark lets an answer go out without the owner; so the answer must go to the proven address and nowhere else.
        sender_verified: sender.is_some() && only_sender_answered && is_proven(&fields, &from, rules),
        from_own_address: from_addresses
            .iter()
            .any(|address| address.eq_ignore_ascii_case(own)),
        subject: (!subject.is_empty()).then(|| cut_chars(&subject, LINE_LIMIT)),
        body: body(content.map(|content| content.text), &notes, found),
        sent_at: message
            .and_then(Message::date)
            .and_then(|date| believable(date, now)),
        sender,
        thread,
        reply: ReplyFacts {
            recipients,
            subject: cut_chars(&subject, REPLY_SUBJECT_LIMIT),
            message_id: message_id.filter(|id| is_repeatable(id)),
            references: repeated_ids(message, earlier),
        },
    }
}

fn is_proven(fields: &[Field], from: &[Person], rules: &Rules) -> bool {
    rules.authority.as_ref().is_some_and(|authority| {
        people::unambiguous_from(fields, from).is_some_and(|domain| auth::proves(fields, &domain, authority))
    })
}

/// The instant in the Date header, when it is one that a mail can have: not before 1971, at most two days ahead.
fn believable(date: &DateTime, now: i64) -> Option<Timestamp> {
    const YEAR: i64 = 365 * 24 * 60 * 60;
    const TWO_DAYS: i64 = 2 * 24 * 60 * 60;
    let seconds = date.is_valid().then(|| date.to_timestamp())?;
    (YEAR..=now.saturating_add(TWO_DAYS))
        .contains(&seconds)
        .then(|| Timestamp::from_second(seconds).ok())?
}

fn ids(value: &HeaderValue<'_>) -> Vec<String> {
    match value {
        HeaderValue::Text(id) => vec![id.to_string()],
        HeaderValue::TextList(ids) => ids.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

/// The ids of the mails before this one: References, else In-Reply-To.
fn earlier_ids(message: Option<&Message<'_>>) -> Vec<String> {
    let Some(message) = message else {
        return Vec::new();
    };
    let references = ids(message.references());
    if references.is_empty() {
        ids(message.in_reply_to())
    } else {
        references
    }
}

/// The ids that go before the mail's own in the References header of a reply: the first and the latest ones.
fn repeated_ids(message: Option<&Message<'_>>, mut earlier: Vec<String>) -> Vec<String> {
    let has_references = message.is_some_and(|message| !ids(message.references()).is_empty());
    if !has_references && earlier.len() > 1 {
        // RFC 5322 section 3.6.4: several ids in In-Reply-To do not say which thread it is.
        return Vec::new();
    }
    earlier.retain(|id| is_repeatable(id));
    let surplus = earlier.len().saturating_sub(MOST_REFERENCES - 1);
    if surplus > 0 {
        earlier.drain(1..=surplus);
    }
    earlier
}

/// Whether an id can stand between angle brackets in a header of ours.
fn is_repeatable(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len())
        && id
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'<' | b'>'))
}

/// An id as muster takes it, or its hash when it has blanks or is too long.
fn thread_id(id: &str) -> String {
    let fits = (1..=THREAD_LIMIT).contains(&id.len())
        && !id.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    if fits {
        id.to_owned()
    } else {
        format!("t-{}", hex(&Sha256::digest(id.as_bytes())))
    }
}

/// Text and notes in at most [`BODY_LIMIT`] bytes. What does not fit is counted in a last line, which also says where the
/// whole mail is: muster refuses what is too long, so the choice of what to leave out is made here, in the open.
fn body(text: Option<String>, notes: &[String], found: Found<'_>) -> String {
    // A mail without a header block is all text.
    let mut text = text.unwrap_or_else(|| storable(&String::from_utf8_lossy(found.head)));
    if text.is_empty() {
        text = "[this mail has no text]".to_owned();
    }
    let mut end = String::new();
    if !notes.is_empty() {
        end = format!("\n\n{}", cut_bytes(&notes.join("\n"), BODY_LIMIT / 2));
    }
    let unread = found.size > u64::try_from(found.head.len()).unwrap_or(u64::MAX);
    let place = printable(found.file_name.as_bytes(), 300).replace('\n', "?");
    let last_line = |left_out: usize| {
        let at_least = if unread { "at least " } else { "" };
        format!(
            "\n\n[left out: {at_least}{left_out} bytes of text; the whole mail is the file {place} in the Maildir]"
        )
    };
    if text.len().saturating_add(end.len()) <= BODY_LIMIT && !unread {
        return text + &end;
    }
    if unread && text.len().saturating_add(end.len()).saturating_add(500) <= BODY_LIMIT {
        return format!(
            "{text}{end}\n\n[only the first {} bytes of {} were read; the whole mail is the file {place} in the Maildir]",
            found.head.len(),
            found.size
        );
    }
    // The number of bytes left out has at most as many digits as the length of the text.
    let room = BODY_LIMIT.saturating_sub(end.len().saturating_add(last_line(text.len()).len()));
    let kept = cut_bytes(&text, room);
    format!("{kept}{end}{}", last_line(text.len().saturating_sub(kept.len())))
}

#[cfg(test)]
#[path = "mail_tests.rs"]
mod tests;
