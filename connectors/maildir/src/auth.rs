//! Decides from `Authentication-Results` (RFC 8601) whether the From address of a mail is proven. Never checks a signature itself, never looks at SPF, and says no when in doubt.
//!
//! The trust comes from the place of the header, not from its text, because a sender can write any header. A mail
//! server puts what it adds on top of what it received. So a result counts only when it names the configured
//! server and stands above the first `Received` header: nothing that came from outside can stand there. Servers that
//! write their own `Received` headers above their results are allowed a configured number of them; they must then
//! remove incoming results that carry their own name (RFC 8601 section 5), as opendkim, opendmarc and rspamd do.

use crate::headers::Field;

/// Whose results to believe, and where they must stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// The authserv-id that the own mail server writes; compared without regard to case.
    pub authserv_id: String,
    /// How many `Received` headers the own servers write above their results.
    pub received_above: usize,
}

/// One `method=result` with its properties, all names in lower case.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    method: String,
    result: String,
    properties: Vec<(String, String)>,
}

impl Outcome {
    fn property(&self, name: &str) -> Option<&str> {
        let mut found = self.properties.iter().filter(|(key, _)| key == name);
        let (_, value) = found.next()?;
        // A property that is given twice could mean either value.
        found.next().is_none().then_some(value.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.properties.iter().any(|(key, _)| key == name)
    }
}

/// Whether the trusted results prove that the mail comes from `from_domain` (ASCII, lower case): DMARC passed for it, or a
/// DKIM signature passed whose domain is the From domain or a parent of it.
pub(crate) fn proves(fields: &[Field], from_domain: &str, authority: &Authority) -> bool {
    let received = fields.iter().filter(|field| field.name == "received").count();
    if received < authority.received_above.max(1) {
        // Without a Received header below them, the top of the mail may be the sender's own work.
        return false;
    }
    let mut proven = false;
    let mut above = 0_usize;
    for field in fields {
        match field.name.as_str() {
            "received" => above = above.saturating_add(1),
            "authentication-results" if above <= authority.received_above => {
                match verdict(&field.value, from_domain, authority) {
                    Verdict::Silent => {}
                    Verdict::Proves => proven = true,
                    Verdict::Contradicts => return false,
                }
            }
            _ => {}
        }
    }
    proven
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Silent,
    Proves,
    Contradicts,
}

fn verdict(value: &str, from_domain: &str, authority: &Authority) -> Verdict {
    let mut reader = Reader::new(value);
    let named = reader
        .value()
        .is_some_and(|id| id.eq_ignore_ascii_case(&authority.authserv_id));
    if !named {
        return Verdict::Silent;
    }
    // The own server's header that cannot be read: nobody knows what it says.
    let Some(outcomes) = reader.outcomes() else {
        return Verdict::Contradicts;
    };
    let mut verdict = Verdict::Silent;
    for outcome in &outcomes {
        match (outcome.method.as_str(), outcome.result.as_str()) {
            ("dmarc", "pass") => {
                let about = outcome.property("header.from");
                if !about.is_some_and(|domain| same_domain(domain, from_domain)) {
                    return Verdict::Contradicts;
                }
                verdict = Verdict::Proves;
            }
            ("dmarc", "none") => {}
            ("dmarc", _) => return Verdict::Contradicts,
            ("dkim", "pass") if signed_for(outcome, from_domain) => verdict = Verdict::Proves,
            _ => {}
        }
    }
    verdict
}

fn signed_for(outcome: &Outcome, from_domain: &str) -> bool {
    let signer = if outcome.has("header.d") {
        outcome.property("header.d")
    } else {
        outcome
            .property("header.i")
            .and_then(|identity| identity.rsplit_once('@'))
            .map(|(_, domain)| domain)
    };
    signer.is_some_and(|signer| {
        let signer = signer.to_ascii_lowercase();
        // A single label is a whole top-level domain.
        signer.contains('.')
            && !signer.starts_with('.')
            && (same_domain(&signer, from_domain)
                || from_domain
                    .strip_suffix(&signer)
                    .is_some_and(|rest| rest.ends_with('.')))
    })
}

fn same_domain(one: &str, from_domain: &str) -> bool {
    !from_domain.is_empty() && one.eq_ignore_ascii_case(from_domain)
}

/// Reads the grammar of RFC 8601 section 2.2; every function answers `None` for what does not fit it.
struct Reader<'v> {
    rest: &'v str,
}

impl<'v> Reader<'v> {
    fn new(value: &'v str) -> Self {
        Self { rest: value }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let mut letters = self.rest.chars();
        let letter = letters.next()?;
        self.rest = letters.as_str();
        Some(letter)
    }

    fn take_if(&mut self, wanted: char) -> bool {
        let there = self.peek() == Some(wanted);
        if there {
            self.take();
        }
        there
    }

    /// Blanks and comments, which may be nested.
    fn skip_comments(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                Some('(') => depth = depth.checked_add(1)?,
                Some(')') if depth > 0 => depth = depth.checked_sub(1)?,
                Some('\\') if depth > 0 => {
                    self.take();
                }
                Some(letter) if depth > 0 || letter.is_ascii_whitespace() => {}
                None if depth > 0 => return None,
                _ => return Some(()),
            }
            self.take();
        }
    }

    /// Letters up to a blank, a `;`, a comment, a quote or one of `ends`; at least one.
    fn word(&mut self, ends: &[char]) -> Option<String> {
        let mut word = String::new();
        while let Some(letter) = self.peek() {
            let over = letter.is_ascii_whitespace()
                || matches!(letter, ';' | '(' | ')' | '"')
                || ends.contains(&letter);
            if over {
                break;
            }
            word.push(letter);
            self.take();
        }
        (!word.is_empty()).then_some(word)
    }

    fn quoted(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.take()? {
                '"' => return Some(text),
                '\\' => text.push(self.take()?),
                letter => text.push(letter),
            }
        }
    }

    /// A token or a quoted string, or both in a row as in `"local part"@domain`.
    fn value(&mut self) -> Option<String> {
        self.skip_comments()?;
        let mut value = if self.take_if('"') {
            self.quoted()?
        } else {
            self.word(&[])?
        };
        while let Some(letter) = self.peek() {
            if letter == '"' {
                self.take();
                value.push_str(&self.quoted()?);
            } else if letter.is_ascii_whitespace() || matches!(letter, ';' | '(' | ')') {
                break;
            } else {
                value.push_str(&self.word(&[])?);
            }
        }
        Some(value)
    }

    /// The version number, which may be left out; anything but 1 is another language.
    fn version(&mut self) -> Option<()> {
        self.skip_comments()?;
        match self.peek() {
            None | Some(';') => Some(()),
            _ => (self.word(&[])? == "1").then_some(()),
        }
    }

    /// What stands behind the identity: the version and every result.
    fn outcomes(&mut self) -> Option<Vec<Outcome>> {
        self.version()?;
        let mut outcomes = Vec::new();
        loop {
            self.skip_comments()?;
            match self.take() {
                None => break,
                Some(';') => {}
                Some(_) => return None,
            }
            self.skip_comments()?;
            if self.peek().is_none() {
                break;
            }
            outcomes.extend(self.outcome()?);
        }
        Some(outcomes)
    }

    /// `method=result` and its properties; the inner `None` is the word `none`, or a method of a later version.
    fn outcome(&mut self) -> Option<Option<Outcome>> {
        let mut outcome = Outcome {
            method: self.word(&['=', '/'])?.to_ascii_lowercase(),
            ..Outcome::default()
        };
        self.skip_comments()?;
        let mut known = true;
        if self.take_if('/') {
            self.skip_comments()?;
            known = self.word(&['='])? == "1";
            self.skip_comments()?;
        }
        if outcome.method == "none" && matches!(self.peek(), None | Some(';')) {
            return Some(None);
        }
        if !self.take_if('=') {
            return None;
        }
        self.skip_comments()?;
        outcome.result = self.word(&['='])?.to_ascii_lowercase();
        loop {
            self.skip_comments()?;
            if matches!(self.peek(), None | Some(';')) {
                return Some(known.then_some(outcome));
            }
            outcome.properties.push(self.property()?);
        }
    }

    /// `ptype.property=value`, or `reason=value`.
    fn property(&mut self) -> Option<(String, String)> {
        let mut name = self.word(&['=', '.'])?;
        self.skip_comments()?;
        if self.take_if('.') {
            self.skip_comments()?;
            name.push('.');
            name.push_str(&self.word(&['='])?);
            self.skip_comments()?;
        }
        if !self.take_if('=') {
            return None;
        }
        Some((name.to_ascii_lowercase(), self.value()?))
    }
}

#[cfg(test)]
#[path = "auth_tests.rs"]
mod tests;
