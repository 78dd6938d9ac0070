//! Reads the addresses of a mail: who it says it is from, whom a reply would reach. Never invents or repairs an address.

use mail_parser::Address;

use crate::headers::{Field, values, without_comments};
use crate::text::{cut_chars, one_line};

/// Most recipients that one reply goes to.
const MOST_RECIPIENTS: usize = 10;
/// Longest address that SMTP can carry, in bytes (RFC 5321: a path of 256 with its brackets).
const LONGEST_ADDRESS: usize = 254;

/// A name and an address as the mail states them, each on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Person {
    name: String,
    address: Option<String>,
}

/// The people of an address header, groups opened.
pub(crate) fn people(header: Option<&Address<'_>>) -> Vec<Person> {
    let Some(header) = header else {
        return Vec::new();
    };
    header
        .iter()
        .map(|entry| {
            let address = entry.address().map(str::trim);
            let address = address.filter(|text| {
                text.contains('@')
                    && !text.contains(|letter: char| {
                        letter.is_whitespace() || letter.is_control() || matches!(letter, '<' | '>')
                    })
            });
            let name = entry.name().or(match address {
                None => entry.address(),
                Some(_) => None,
            });
            Person {
                // Angle brackets in a name would make it look like an address.
                name: one_line(&name.unwrap_or_default().replace(['<', '>'], " ")),
                address: address.map(str::to_owned),
            }
        })
        .collect()
}

impl Person {
    /// `Name <address>` in at most `limit` characters. Only the name is ever cut; `None` when the address alone is too long.
    pub(crate) fn label(&self, limit: usize) -> Option<String> {
        let Some(address) = &self.address else {
            return (!self.name.is_empty()).then(|| cut_chars(&self.name, limit));
        };
        let length = address.chars().count();
        let room = limit.checked_sub(length)?.saturating_sub(" <>".len());
        if self.name.is_empty() || room < 2 {
            return Some(address.clone());
        }
        Some(format!("{} <{address}>", cut_chars(&self.name, room)))
    }

    /// The name, when there is one.
    pub(crate) fn name(&self) -> Option<String> {
        (!self.name.is_empty()).then(|| self.name.clone())
    }

    /// The address in the form in which two addresses are compared and a reply is sent; `None` when no reply can reach it.
    pub(crate) fn mailbox(&self) -> Option<String> {
        self.address.as_deref().and_then(mailbox)
    }
}

/// An address with its domain in ASCII and lower case. `None` for what cannot stand unquoted in a mail header.
pub(crate) fn mailbox(address: &str) -> Option<String> {
    let (local, domain) = address.rsplit_once('@')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(letter);
    if local.is_empty() || !local.chars().all(plain) {
        return None;
    }
    let mailbox = format!("{local}@{}", ascii_domain(domain)?);
    (mailbox.len() <= LONGEST_ADDRESS).then_some(mailbox)
}

/// The domain in ASCII (IDNA) and lower case, `None` when it is not a host name of at least two labels.
pub(crate) fn ascii_domain(domain: &str) -> Option<String> {
    let ascii = idna::domain_to_ascii(domain).ok()?.to_ascii_lowercase();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'))
    };
    (ascii.contains('.') && ascii.len() <= 253 && ascii.split('.').all(label)).then_some(ascii)
}

/// Where a reply goes: the Reply-To addresses, else the From addresses, without doubles and without the own address.
pub(crate) fn recipients(reply_to: &[Person], from: &[Person], own: &str) -> Vec<String> {
    let reachable = |people: &[Person]| {
        let mut list: Vec<String> = Vec::new();
        for mailbox in people.iter().filter_map(Person::mailbox) {
            let double = list.iter().any(|known| known.eq_ignore_ascii_case(&mailbox));
            if !double && !mailbox.eq_ignore_ascii_case(own) && list.len() < MOST_RECIPIENTS {
                list.push(mailbox);
            }
        }
        list
    };
    let list = reachable(reply_to);
    if list.is_empty() { reachable(from) } else { list }
}

/// The domain of the From address when there is exactly one From header with exactly one plainly written address.
///
/// A mail server and this connector could read an odd From header differently; then a result about one address would be
/// taken for another. So only a form that can be read in one way is accepted.
pub(crate) fn unambiguous_from(fields: &[Field], from: &[Person]) -> Option<String> {
    let mut headers = values(fields, "from");
    let (Some(written), None) = (headers.next(), headers.next()) else {
        return None;
    };
    let [person] = from else { return None };
    let mailbox = person.mailbox()?;
    let bare = without_quotes(&without_comments(written))?;
    let address = match bare.split_once('<') {
        Some((name, rest)) => {
            let inside = rest.strip_suffix('>')?;
            if name.contains(['@', ',', ';', ':', '>']) {
                return None;
            }
            inside
        }
        None => bare.as_str(),
    };
    let address = address.trim();
    (self::mailbox(address)? == mailbox).then_some(())?;
    let (_, domain) = mailbox.rsplit_once('@')?;
    Some(domain.to_owned())
}

/// The text without its quoted strings, trimmed; `None` when a quote is not closed.
fn without_quotes(text: &str) -> Option<String> {
    let mut kept = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '"' {
            kept.push(letter);
            continue;
        }
        loop {
            match letters.next()? {
                '"' => break,
                '\\' => {
                    letters.next()?;
                }
                _ => {}
            }
        }
    }
    Some(kept.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::split;
    use mail_parser::MessageParser;

    fn from_of(raw: &str) -> Vec<Person> {
        let message = MessageParser::default().parse(raw.as_bytes());
        people(message.as_ref().and_then(|message| message.from()))
    }

    fn domain_of(raw: &str) -> Option<String> {
        unambiguous_from(&split(raw.as_bytes()), &from_of(raw))
    }

    #[test]
    fn a_label_cuts_the_name_and_never_the_address() {
        let label = |raw: &str, limit| from_of(raw).first().and_then(|person| person.label(limit));
        let raw = "From: Ada Lovelace <ada@example.test>\n\nx";
        assert_eq!(
            label(raw, 200).as_deref(),
            Some("Ada Lovelace <ada@example.test>")
        );
        assert_eq!(label(raw, 25).as_deref(), Some("Ada L… <ada@example.test>"));
        assert_eq!(label(raw, 16).as_deref(), Some("ada@example.test"));
        assert_eq!(label(raw, 15), None);
        let raw = "From: =?utf-8?q?J=C3=BCrgen?= <j@example.test>\n\nx";
        assert_eq!(label(raw, 200).as_deref(), Some("Jürgen <j@example.test>"));
        let raw = "From: \"boss <boss@bank.test>\" <evil@evil.test>\n\nx";
        assert_eq!(
            label(raw, 200).as_deref(),
            Some("boss boss@bank.test <evil@evil.test>")
        );
        assert_eq!(
            label("From: just a name\n\nx", 200).as_deref(),
            Some("just a name")
        );
    }

    #[test]
    fn only_addresses_that_a_header_can_hold_are_mailboxes() {
        assert_eq!(mailbox("Ada@Example.TEST").as_deref(), Some("Ada@example.test"));
        assert_eq!(mailbox("a@bücher.test").as_deref(), Some("a@xn--bcher-kva.test"));
        let long = format!("reply+{}@forge.test", "A".repeat(120));
        assert_eq!(mailbox(&long), Some(long.clone()));
        for wrong in [
            "",
            "a",
            "@x.test",
            "a@",
            "a@b",
            "a b@x.test",
            "\"a\"@x.test",
            "a@[192.0.2.1]",
            "a@x..test",
            "ü@x.test",
            "a\r\nBcc: b@x.test",
            "a@x.test\nBcc:b",
            "a@x.test>",
            "-f<x>@x.test",
        ] {
            assert_eq!(mailbox(wrong), None, "{wrong:?}");
        }
        assert_eq!(mailbox(&format!("{}@x.test", "a".repeat(250))), None);
    }

    #[test]
    fn a_from_header_that_could_be_read_in_two_ways_names_no_domain() {
        for good in [
            "From: ada@bank.test\n\nx",
            "From: Ada <ada@bank.test>\n\nx",
            "From: \"Lovelace, Ada <x@evil.test>\" <ada@bank.test>\n\nx",
            "From: <ada@BANK.test> (Ada, at home)\n\nx",
            "From: =?utf-8?q?A=2Cda?= <ada@bank.test>\n\nx",
        ] {
            assert_eq!(domain_of(good).as_deref(), Some("bank.test"), "{good}");
        }
        for odd in [
            "Subject: no From\n\nx",
            "From: ada@bank.test\nFrom: eve@evil.test\n\nx",
            "From : eve@evil.test\nFrom: ada@bank.test\n\nx",
            "From: ada@bank.test, eve@evil.test\n\nx",
            "From: ada@bank.test <eve@evil.test>\n\nx",
            "From: <eve@evil.test> <ada@bank.test>\n\nx",
            "From: Group: ada@bank.test;\n\nx",
            "From: Ada <@evil.test:ada@bank.test>\n\nx",
            "From: \"ada@bank.test\"@evil.test\n\nx",
            "From: Ada <ada@bank.test\n\nx",
            "From: \"Ada <ada@bank.test>\n\nx",
            "From: undisclosed:;\n\nx",
        ] {
            assert_eq!(domain_of(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_reply_goes_to_reply_to_without_doubles_and_never_to_the_own_address() {
        let person = |address: &str| Person {
            name: String::new(),
            address: Some(address.to_owned()),
        };
        let from = [person("ada@x.test")];
        let own = "me@ours.test";
        assert_eq!(recipients(&[], &from, own), ["ada@x.test"]);
        let reply_to = [
            person("b@x.test"),
            person("B@X.test"),
            person("ME@ours.test"),
            person("broken@"),
        ];
        assert_eq!(recipients(&reply_to, &from, own), ["b@x.test"]);
        assert_eq!(recipients(&[person("me@ours.test")], &from, own), ["ada@x.test"]);
        let crowd: Vec<_> = (0..50).map(|n| person(&format!("p{n}@x.test"))).collect();
        assert_eq!(recipients(&crowd, &from, own).len(), 10);
    }
}
