//! URLs and IP addresses in a reply. It never resolves one.

use std::net::Ipv6Addr;

use super::body::Body;
use super::{Found, RefusalKind};

/// The first `scheme://`, at the start of its scheme.
pub(super) fn find_url(body: &Body) -> Found {
    let of_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-');
    (0..body.chars.len())
        .filter(|place| body.has(*place, "://"))
        .find_map(|place| {
            let scheme = body
                .slice(0, place)
                .iter()
                .rev()
                .take_while(|c| of_scheme(**c))
                .count();
            let from = place.saturating_sub(scheme);
            body.slice(from, place)
                .iter()
                .any(char::is_ascii_alphabetic)
                .then_some((from, RefusalKind::Url))
        })
}

/// The first IP address, version 4 or 6, whichever stands first.
pub(super) fn find_ip(body: &Body) -> Found {
    let place = [find_v4(body), find_v6(body)].into_iter().flatten().min()?;
    Some((place, RefusalKind::IpAddress))
}

/// Runs of digits and dots that are four groups of 0 to 255. `1.2.3`, `31.12.2024` and `1.2.3.4.5` are none, and neither is
/// a number whose thousands are set off by dots.
fn find_v4(body: &Body) -> Option<usize> {
    let of_address = |c: char| c.is_ascii_digit() || c == '.';
    let mut place = 0;
    while place < body.chars.len() {
        let end = body.run(place, of_address);
        if end == place {
            place = place.saturating_add(1);
            continue;
        }
        let mut from = place;
        // Ellipses on either side belong to the sentence: "1...10.0.0.5." holds an address.
        for part in split_at_double_dots(body.slice(place, end)) {
            let text: String = part.iter().collect();
            if is_v4(text.trim_matches('.')) {
                let dots = part.iter().take_while(|c| **c == '.').count();
                return Some(from.saturating_add(dots));
            }
            from = from.saturating_add(part.len());
        }
        place = end;
    }
    None
}

/// The pieces of `run` so that each dot that follows a dot starts a new one.
fn split_at_double_dots(run: &[char]) -> impl Iterator<Item = &[char]> {
    run.chunk_by(|a, b| !(*a == '.' && *b == '.'))
}

fn is_v4(text: &str) -> bool {
    let groups: Vec<&str> = text.split('.').collect();
    let small = groups
        .iter()
        .all(|group| group.len() <= 3 && group.parse::<u16>().is_ok_and(|n| n <= 255));
    groups.len() == 4 && small && !is_grouped_number(&groups)
}

/// Whether the groups read as one number with thousands set off, such as 1.250.000.000: all of three digits after the first, one of them with a leading zero.
fn is_grouped_number(groups: &[&str]) -> bool {
    let after_first = groups.get(1..).unwrap_or_default();
    after_first.iter().all(|group| group.len() == 3)
        && after_first.iter().any(|group| group.starts_with('0'))
        && !groups.first().is_some_and(|group| group.starts_with('0'))
}

/// Runs of hexadecimal digits and colons that parse as an address, apart from two words of letters joined by `::`, as programs write them.
fn find_v6(body: &Body) -> Option<usize> {
    let of_address = |c: char| c.is_ascii_hexdigit() || matches!(c, ':' | '.');
    let mut place = 0;
    while place < body.chars.len() {
        let end = body.run(place, of_address);
        if end == place {
            place = place.saturating_add(1);
            continue;
        }
        let text: String = body.slice(place, end).iter().collect();
        // "IPv6:fe80::1": what belongs to the word before is not part of the address.
        let own = if body.before(place).is_some_and(char::is_alphanumeric) {
            text.split_once(':').map_or("", |(_, rest)| rest)
        } else {
            &text
        };
        if !body.at(end).is_some_and(char::is_alphanumeric) && is_v6(own.trim_end_matches('.')) {
            return Some(end.saturating_sub(own.len()));
        }
        place = end;
    }
    None
}

fn is_v6(text: &str) -> bool {
    let whole = |text: &str| {
        let groups = text.split(':').filter(|group| !group.is_empty()).count();
        text.parse::<Ipv6Addr>().is_ok() && (groups > 2 || text.bytes().any(|b| b.is_ascii_digit()))
    };
    // "fe80::1:" before a list, and "see: ::1" have colons of the sentence beside them.
    whole(text) || text.strip_suffix(':').is_some_and(whole) || text.strip_prefix(':').is_some_and(whole)
}
