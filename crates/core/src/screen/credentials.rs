//! Credentials in a reply, told by their shape. It never says what it read.
//!
//! Three shapes: a known beginning followed by enough of a token, a password or token given by name (`password: …`,
//! `token=…`), and a long run of letters and digits too mixed to be words.

use super::body::{Body, joined};
use super::{Found, RefusalKind};

/// A kind of token that tells itself by its first characters.
struct Prefix {
    text: &'static str,
    /// Fewest token characters (letters, digits, `_`, `-`) that must follow.
    least: usize,
    /// Whether one of them must be a digit, because the prefix could start an ordinary compound.
    digit: bool,
    what: &'static str,
}

const fn prefix(text: &'static str, least: usize, digit: bool, what: &'static str) -> Prefix {
    Prefix {
        text,
        least,
        digit,
        what,
    }
}

const PREFIXES: &[Prefix] = &[
    prefix("mpl_", 6, false, "a connector token of muster"),
    prefix("mst_", 6, false, "a personal token of muster"),
    prefix("mag_", 6, false, "an agent token of muster"),
    prefix("mmh_", 6, false, "a mirror host token of muster"),
    prefix("ghp_", 6, false, "a code host's token"),
    prefix("gho_", 6, false, "a code host's token"),
    prefix("ghu_", 6, false, "a code host's token"),
    prefix("ghs_", 6, false, "a code host's token"),
    prefix("ghr_", 6, false, "a code host's token"),
    prefix("github_pat_", 6, false, "a code host's token"),
    prefix("glpat-", 6, false, "a code host's token"),
    prefix("sk-", 12, true, "an API key"),
    prefix("sk_live_", 6, false, "a payment key"),
    prefix("sk_test_", 6, false, "a payment key"),
    prefix("rk_live_", 6, false, "a payment key"),
    prefix("whsec_", 6, false, "a webhook secret"),
    prefix("xoxb-", 6, false, "a chat token"),
    prefix("xoxp-", 6, false, "a chat token"),
    prefix("xoxa-", 6, false, "a chat token"),
    prefix("xoxr-", 6, false, "a chat token"),
    prefix("xoxs-", 6, false, "a chat token"),
    prefix("xoxe-", 6, false, "a chat token"),
    prefix("xapp-", 6, true, "a chat token"),
    prefix("AIza", 30, false, "a cloud API key"),
    prefix("ya29.", 20, false, "a cloud access token"),
    prefix("npm_", 20, false, "a package registry token"),
    prefix("pypi-", 20, true, "a package registry token"),
    prefix("hf_", 20, false, "a model registry token"),
    prefix("dop_v1_", 20, false, "a cloud access token"),
    prefix("Bearer ", 12, true, "a bearer token"),
    prefix("bearer ", 12, true, "a bearer token"),
    prefix("AKIA", 12, false, "a cloud access key"),
    prefix("ASIA", 12, false, "a cloud access key"),
];

/// Names after which `:`, `=` or "is" gives a secret away.
const PASSWORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "passwort",
    "kennwort",
    "mot de passe",
    "contraseña",
    "senha",
    "hasło",
    "heslo",
    "wachtwoord",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
];

/// Names that stand in ordinary sentences too, so that what follows must look like a token.
const TOKENS: &[&str] = &[
    "token",
    "secret",
    "api key",
    "api_key",
    "api-key",
    "apikey",
    "access key",
    "access_key",
    "secret key",
    "secret_key",
    "private key",
    "private_key",
    "client_secret",
    "client secret",
    "credential",
    "credentials",
    "auth",
    "authorization",
    "pin",
];

/// The first credential, whichever shape it has.
pub(super) fn find(body: &Body) -> Found {
    let found = [
        find_key_block(body),
        find_prefix(body),
        find_web_token(body),
        find_given(body),
        find_run(body),
    ];
    let (place, what) = found.into_iter().flatten().min()?;
    Some((place, RefusalKind::Credential(what)))
}

type Shape = Option<(usize, &'static str)>;

fn of_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Whether a token can start at `place`: not in the middle of a word.
fn starts(body: &Body, place: usize) -> bool {
    !body.before(place).is_some_and(|c| c.is_ascii_alphanumeric())
}

fn find_key_block(body: &Body) -> Shape {
    (0..body.chars.len())
        .find(|place| body.has(*place, "-----BEGIN"))
        .map(|place| (place, "a key block"))
}

fn find_prefix(body: &Body) -> Shape {
    (0..body.chars.len())
        .filter(|place| starts(body, *place))
        .find_map(|place| {
            let prefix = PREFIXES
                .iter()
                .find(|prefix| body.has(place, prefix.text) && follows(body, place, prefix))?;
            Some((place, prefix.what))
        })
}

fn follows(body: &Body, place: usize, prefix: &Prefix) -> bool {
    // Prefixes are ASCII, so bytes and characters agree.
    let from = place.saturating_add(prefix.text.len());
    let to = body.run(from, of_token);
    let digit = body.slice(from, to).iter().any(char::is_ascii_digit);
    to.saturating_sub(from) >= prefix.least && (digit || !prefix.digit)
}

/// Three base64url parts joined by dots, of which the first is a JSON object.
fn find_web_token(body: &Body) -> Shape {
    (0..body.chars.len())
        .filter(|place| starts(body, *place) && body.has(*place, "eyJ"))
        .find_map(|place| {
            let end = body.run(place, of_token);
            let long = end.saturating_sub(place) >= 10;
            (long && body.at(end) == Some('.') && body.at(end.saturating_add(1)).is_some_and(of_token))
                .then_some((place, "a web token"))
        })
}

/// `password: x`, `token = x`, "the password is x1".
fn find_given(body: &Body) -> Shape {
    let named = |names: &'static [&'static str], strong: bool| {
        names.iter().filter_map(move |name| {
            let phrase: Vec<char> = name.chars().collect();
            let first = *phrase.first()?;
            (0..body.lower.len())
                .filter(|place| body.lower.get(*place) == Some(&first))
                .find(|place| {
                    !body.before(*place).is_some_and(|c| joined(c, first))
                        && body
                            .phrase_end(*place, &phrase)
                            .is_some_and(|end| is_given(body, end, strong))
                })
        })
    };
    let place = named(PASSWORDS, true).chain(named(TOKENS, false)).min()?;
    Some((place, "a secret given by name"))
}

/// Whether a value stands after the name that ends at `end`.
fn is_given(body: &Body, end: usize, strong: bool) -> bool {
    let gap = |c: char| matches!(c, ' ' | '\t' | '"' | '\'' | '`' | '*');
    let sign = body.run(end, gap);
    let after_sign = body.run(sign, |c| matches!(c, ':' | '=' | '>'));
    let from = body.run(after_sign, gap);
    let to = body.run(from, |c| !c.is_whitespace());
    let written: String = body.slice(from, to).iter().collect();
    let value = written
        .trim_matches(|c: char| matches!(c, '.' | ',' | ';' | '!' | '?' | ')' | '"' | '\'' | '`' | '*'));
    let digit = value.chars().any(|c| c.is_ascii_digit());
    let length = value.chars().count();
    if after_sign == sign {
        return strong && value == "is" && is_given_by_is(body, to);
    }
    if value.is_empty() {
        return false;
    }
    if body.slice(sign, after_sign).contains(&'=') {
        return true;
    }
    if strong {
        return !starts_a_sentence(body, value, to);
    }
    (digit && length >= 8) || length >= 20 || (length >= 4 && value.chars().all(|c| c.is_ascii_digit()))
}

/// "… is hunter2": a value of six or more characters with a digit in it.
fn is_given_by_is(body: &Body, after_is: usize) -> bool {
    let from = body.run(after_is, char::is_whitespace);
    let to = body.run(from, |c| !c.is_whitespace());
    let value = body.slice(from, to);
    value.len() >= 6 && value.iter().any(char::is_ascii_digit)
}

/// "Password: please reset it" is a sentence: a plain word, and at least two more on the line.
fn starts_a_sentence(body: &Body, value: &str, to: usize) -> bool {
    let line_end = body.run(to, |c| c != '\n');
    let rest: String = body.slice(to, line_end).iter().collect();
    value.chars().all(char::is_alphabetic) && rest.split_whitespace().count() >= 2
}

/// A run of 32 or more characters of base64 or hexadecimal that changes between upper case, lower case and digits too often for words.
fn find_run(body: &Body) -> Shape {
    let of_run = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '_' | '-' | '=');
    let mut place = 0;
    while place < body.chars.len() {
        let end = body.run(place, of_run);
        if is_random(body.slice(place, end)) {
            return Some((place, "a long run of mixed letters and digits"));
        }
        place = end.max(place.saturating_add(1));
    }
    None
}

fn is_random(run: &[char]) -> bool {
    let parts = || run.split(|c| !c.is_ascii_alphanumeric());
    // One unbroken part: words change nowhere, so a few changes are enough.
    let solid = |part: &[char]| part.len() >= 32 && mixes(part) && percent(changes(part), part.len()) >= 15;
    let classes = [
        char::is_ascii_uppercase,
        char::is_ascii_lowercase,
        char::is_ascii_digit,
    ];
    let all_classes = classes.iter().all(|class| run.iter().any(class));
    let odd: usize = parts()
        .map(|part| changes(part).saturating_sub(usize::from(is_capitalised(part))))
        .sum();
    parts().any(solid) || (run.len() >= 32 && all_classes && percent(odd, run.len()) >= 25)
}

fn percent(part: usize, whole: usize) -> usize {
    part.saturating_mul(100) / whole.max(1)
}

fn mixes(part: &[char]) -> bool {
    part.iter().any(char::is_ascii_digit) && part.iter().any(char::is_ascii_alphabetic)
}

/// Whether the part starts as a name does; that change of class is no sign of chance.
fn is_capitalised(part: &[char]) -> bool {
    matches!(part, [first, second, ..] if first.is_ascii_uppercase() && second.is_ascii_lowercase())
}

/// How often neighbours differ in class: upper case, lower case, digit.
fn changes(part: &[char]) -> usize {
    let class = |c: char| (c.is_ascii_uppercase(), c.is_ascii_digit());
    part.iter()
        .zip(part.iter().skip(1))
        .filter(|(a, b)| class(**a) != class(**b))
        .count()
}
