//! Whether somebody may try to sign in once more, and the mark of a browser that has signed in before. Never looks at a password.

use std::net::IpAddr;

use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue};

use crate::Web;
use crate::credential::cookie;
use crate::key::KNOWN;
use crate::tries::{Guesser, TooMany};

/// A try that is let through. Unless it [was no guess](Self::was_none) it stays counted against the account.
pub(super) struct Guess(Option<Guesser>);

impl Guess {
    /// The try was no guess: it was right, or nothing could be checked.
    pub(super) fn was_none(self, web: &Web) {
        if let Some(account) = self.0 {
            web.tries.give_back(&account);
        }
    }
}

/// Lets a try at the password of `name` through. A browser that has signed in as `name` before has an allowance of its own, so that no
/// stranger can lock it out; everybody else is counted by address and by name, whether there is such an account or not.
///
/// # Errors
/// It is one too many.
pub(super) fn admit(web: &Web, headers: &HeaderMap, peer: IpAddr, name: &str) -> Result<Guess, TooMany> {
    if admit_to_ask(web, headers, peer, name)? {
        return Ok(Guess(None));
    }
    // Counted beforehand, so that tries at the same time cannot all be the last.
    let account = Guesser::Account(name.to_owned());
    if let Err(much) = web.tries.take(&account) {
        // Not the name: it may be a password typed into the wrong field.
        tracing::warn!(
            seconds = much.seconds,
            "a name had too many failed sign-ins; tries for it are refused for a while"
        );
        return Err(much);
    }
    Ok(Guess(Some(account)))
}

/// Lets through what guesses at nothing and costs a little work: the beginning of a passkey's sign-in. Answers whether the browser is known.
///
/// # Errors
/// It is one too many.
pub(super) fn admit_to_ask(
    web: &Web,
    headers: &HeaderMap,
    peer: IpAddr,
    name: &str,
) -> Result<bool, TooMany> {
    let mark = cookie(headers, &mark_name(web)).unwrap_or_default();
    let known = web.key.known(&mark, name, web.app.clock.now());
    let who = match known {
        Some(browser) => Guesser::Known(browser.to_owned()),
        None => Guesser::Address(peer),
    };
    web.tries.take(&who)?;
    Ok(known.is_some())
}

fn mark_name(web: &Web) -> String {
    format!("{}-known", web.origin.cookie())
}

/// The cookie that makes a browser known which has just signed in as `name`. It lets nobody in.
pub(super) fn mark(web: &Web, name: &str) -> Option<(http::HeaderName, HeaderValue)> {
    let mark = web.key.mark(name, web.app.clock.now())?;
    let secure = if web.origin.secure() { "; Secure" } else { "" };
    let text = format!(
        "{}={mark}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{secure}",
        mark_name(web),
        KNOWN.as_secs()
    );
    Some((SET_COOKIE, HeaderValue::from_str(&text).ok()?))
}
