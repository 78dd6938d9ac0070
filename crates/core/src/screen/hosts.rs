//! Host names and e-mail addresses in a reply. It never takes a full stop between words for a host name when the last word is no top-level domain.
//!
//! A host name is two or more labels joined by dots, of which the last is a known top-level domain ([`super::domains`]).
//! After an at sign any domain will do. Otherwise, unless a path or a port follows, these are prose or file names:
//! - single letters before a country code: `p.es`, `M.Sc`, `m.in`;
//! - two labels whose last is a common file extension: `main.rs`, `notes.md`, `backup.zip`;
//! - two labels whose last starts with a capital as a new sentence does: `done.So`; the domains that no sentence starts with still count;
//! - numbers alone before a country code: `5.in`;
//! - a few names that only look like one: `ASP.NET`, `Co.KG`.

use super::body::{Body, lower};
use super::domains::{is_country, is_domain, is_file_extension, is_plain_host_domain};
use super::{Found, RefusalKind};
use crate::text::is_unspaced;

/// Names of two labels that are no hosts though their last label is a top-level domain.
const NOT_HOSTS: &[&str] = &["asp.net", "vb.net", "ado.net", "co.kg"];

/// Labels joined by dots, as places in the text.
struct Name {
    from: usize,
    to: usize,
    labels: Vec<(usize, usize)>,
}

/// The first host name or e-mail address.
pub(super) fn find(body: &Body) -> Found {
    let mut place = 0;
    while place < body.chars.len() {
        if !body.at(place).is_some_and(of_label) {
            place = place.saturating_add(1);
            continue;
        }
        let name = name_from(body, place);
        if let Some(kind) = judge(body, &name) {
            return Some((name.from, kind));
        }
        place = name.to;
    }
    None
}

/// Scripts without blanks end a name, since it may stand right beside their words.
fn of_label(c: char) -> bool {
    (c.is_alphanumeric() && !is_unspaced(c)) || matches!(c, '-' | '_')
}

fn name_from(body: &Body, from: usize) -> Name {
    let mut to = body.run(from, of_label);
    let mut labels = vec![(from, to)];
    while is_dot(body, to) {
        let start = to.saturating_add(1);
        let end = body.run(start, of_label);
        if end == start {
            break;
        }
        labels.push((start, end));
        to = end;
    }
    Name { from, to, labels }
}

/// Browsers take the ideographic full stop for a dot; between ASCII letters it is no full stop of a sentence.
fn is_dot(body: &Body, place: usize) -> bool {
    let beside_ascii = || {
        let after = body.at(place.saturating_add(1));
        [body.before(place), after]
            .into_iter()
            .all(|c| c.is_some_and(|c| c.is_ascii_alphanumeric()))
    };
    match body.at(place) {
        Some('.') => true,
        Some('。') => beside_ascii(),
        _ => false,
    }
}

fn judge(body: &Body, name: &Name) -> Option<RefusalKind> {
    let (last_label, earlier) = name.labels.split_last()?;
    if earlier.is_empty() {
        return None;
    }
    let written = trimmed(body, *last_label);
    let last: String = written.chars().map(lower).collect();
    if body.before(name.from) == Some('@') {
        let letters = last.chars().count() >= 2 && last.chars().all(|c| c.is_alphabetic());
        return (letters || is_domain(&last)).then_some(RefusalKind::MailAddress);
    }
    if !is_domain(&last) {
        return None;
    }
    if !is_addressed(body, name) && is_prose(body, earlier, &written, &last) {
        return None;
    }
    Some(RefusalKind::HostName)
}

/// Whether a path or a port follows, which no word of a sentence has.
fn is_addressed(body: &Body, name: &Name) -> bool {
    let next = body.at(name.to.saturating_add(1));
    match body.at(name.to) {
        Some('/') => next.is_some_and(|c| c.is_alphanumeric()),
        Some(':') => next.is_some_and(|c| c.is_ascii_digit()),
        _ => false,
    }
}

fn is_prose(body: &Body, earlier: &[(usize, usize)], written: &str, last: &str) -> bool {
    let country = is_country(last);
    let single_letters = earlier.iter().all(|(from, to)| to.saturating_sub(*from) == 1);
    let numbers = earlier
        .iter()
        .all(|(from, to)| body.slice(*from, *to).iter().all(char::is_ascii_digit));
    if country && (single_letters || numbers) {
        return true;
    }
    let [first] = earlier else { return false };
    let first: String = trimmed(body, *first).chars().map(lower).collect();
    is_file_extension(last)
        || (starts_a_sentence(written) && !is_plain_host_domain(last))
        || NOT_HOSTS.contains(&format!("{first}.{last}").as_str())
}

fn starts_a_sentence(label: &str) -> bool {
    let mut letters = label.chars();
    letters.next().is_some_and(char::is_uppercase) && letters.all(|c| !c.is_uppercase())
}

/// A label without the hyphens and underscores around it, which are emphasis or dashes.
fn trimmed(body: &Body, (from, to): (usize, usize)) -> String {
    let label: String = body.slice(from, to).iter().collect();
    label.trim_matches(['-', '_']).to_owned()
}
