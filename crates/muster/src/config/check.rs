//! What a setting's text must be like: one check for each kind, each with what to write instead. Never changes a value.

use std::net::SocketAddr;
use std::time::Duration;

use muster_core::clock::parse_duration;
use muster_core::screen::DenyWords;

pub(super) fn switch(text: &str) -> Result<(), String> {
    if matches!(text, "0" | "1" | "") {
        Ok(())
    } else {
        Err("write 1 for on, or 0 or nothing for off".to_owned())
    }
}

pub(super) fn any(_: &str) -> Result<(), String> {
    Ok(())
}

/// A duration that means something: with none at all nothing could be approved, and no turn could end well.
pub(super) fn duration(text: &str) -> Result<(), String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("no time at all would refuse everything; write at least 1s".to_owned()),
        other => other.map(drop).map_err(str::to_owned),
    }
}

pub(super) fn listen(text: &str) -> Result<(), String> {
    text.parse::<SocketAddr>()
        .map(|_| ())
        .map_err(|_| "write an IP address and a port, such as 127.0.0.1:7447 or [::1]:0".to_owned())
}

pub(super) fn public_url(text: &str) -> Result<(), String> {
    origin(text).map(drop)
}

/// An address as a browser names its origin: small letters, international names in their ASCII form, no port that the scheme implies.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let help = || "write https://HOST or https://HOST:PORT, without a path".to_owned();
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
        .map(|rest| rest.trim_end_matches('/'))
        .ok_or_else(help)?;
    // The parser would pass over some of these, and take others for a path.
    if rest.is_empty() || rest.contains(|c: char| "/\\?#@".contains(c) || c.is_whitespace() || c.is_control())
    {
        return Err(help());
    }
    let url = reqwest::Url::parse(text).map_err(|error| format!("{error}; {}", help()))?;
    Ok(url.origin().ascii_serialization())
}

pub(super) fn database_url(text: &str) -> Result<(), String> {
    match text.strip_prefix("sqlite://") {
        Some(path) if path.starts_with('/') => Ok(()),
        Some(_) => Err(
            "the path behind sqlite:// must be a full one, as in sqlite:///var/lib/muster/muster.db; another would name a different file from each folder that muster is started in"
                .to_owned(),
        ),
        None if text.starts_with("postgres://") || text.starts_with("postgresql://") => Ok(()),
        None => Err("write sqlite:///PATH or postgres://USER@HOST/NAME".to_owned()),
    }
}

pub(super) fn connections(text: &str) -> Result<(), String> {
    text.parse::<u32>()
        .ok()
        .filter(|n| (2..=1000).contains(n))
        .map(|_| ())
        .ok_or_else(|| "write a whole number from 2 to 1000".to_owned())
}

pub(super) fn deny_words(text: &str) -> Result<(), String> {
    DenyWords::parse(text).map(|_| ()).map_err(|e| e.to_string())
}

pub(super) fn hook_token(text: &str) -> Result<(), String> {
    if text.len() >= 16 && text.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(())
    } else {
        Err("use at least 16 printable characters without blanks".to_owned())
    }
}

pub(super) fn log_format(text: &str) -> Result<(), String> {
    if matches!(text, "text" | "json") {
        Ok(())
    } else {
        Err("write text or json".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_values_are_refused() {
        for (check, good, wrong) in [
            (switch as fn(&str) -> Result<(), String>, "1", "yes"),
            (listen, "[::1]:0", "localhost:80"),
            (public_url, "https://muster.example", "https://muster.example/x"),
            (public_url, "http://localhost:1", "muster.example"),
            (database_url, "sqlite:///x", "mysql://x"),
            (connections, "16", "1"),
            (duration, "12h", "12"),
            (duration, "1s", "0s"),
            (database_url, "postgres://x", "sqlite://x"),
            (public_url, "https://[::1]:8443/", "https://muster.example\\x"),
            (public_url, "https://muster.example", "https://mus\tter.example"),
            (
                public_url,
                "https://muster.example",
                "https://muster.example:70000",
            ),
            (hook_token, "0123456789abcdef", "short"),
            (log_format, "json", "xml"),
        ] {
            assert!(check(good).is_ok(), "{good}");
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_public_address_becomes_the_origin_that_a_browser_sends() {
        for (written, sent) in [
            ("https://muster.example:443", "https://muster.example"),
            ("http://muster.example:80/", "http://muster.example"),
            ("https://Muster.Example:8443", "https://muster.example:8443"),
            ("http://localhost:443", "http://localhost:443"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
            ("http://[::1]:80", "http://[::1]"),
        ] {
            assert_eq!(origin(written).as_deref(), Ok(sent), "{written}");
        }
    }
}
