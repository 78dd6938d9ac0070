//! Where the bus may listen, and with what proof of identity: decided before a socket is opened. Never resolves a name and never opens anything.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

/// Why the bus does not start as an HTTP daemon.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum GateError {
    /// The port is no port.
    #[error(
        "AGENT_COORD_HTTP_PORT must be a port number from 1 to 65535 (or 0, which picks one), and it is '{0}'"
    )]
    Port(String),
    /// An entry of the list is not an address.
    #[error(
        "AGENT_COORD_BIND is a comma-separated list of addresses; entry {0} is neither an IP address nor a host name"
    )]
    Bind(usize),
    /// The list is there and empty.
    #[error("AGENT_COORD_BIND is empty; leave it unset to listen on 127.0.0.1")]
    Empty,
    /// Anybody could use the bus.
    #[error(
        "the bus is not served over HTTP without a proof of identity: mint tokens with `muster bus token add AGENT`, or set AGENT_COORD_TOKEN"
    )]
    NoAuth,
    /// A shared token beyond this machine.
    #[error(
        "AGENT_COORD_BIND leaves this machine ({0}), where one shared token would let any holder act as any agent: mint a token for each agent with `muster bus token add AGENT`. Nothing was opened"
    )]
    SharedToken(String),
    /// Tokens in the clear beyond this machine.
    #[error(
        "AGENT_COORD_BIND leaves this machine ({0}), where tokens would travel unencrypted. If the network is a private overlay (Tailscale, WireGuard) or a TLS proxy stands in front, say so with AGENT_COORD_INSECURE=1. Nothing was opened"
    )]
    Insecure(String),
}

/// What the settings say about listening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    /// There is a map of agents to tokens.
    pub tokens: bool,
    /// There is a token that all share.
    pub shared: bool,
    /// The owner says that what lies between is encrypted.
    pub insecure: bool,
}

/// Where to listen: a host and a port, each still to be resolved.
///
/// # Errors
/// [`GateError`]: a list that cannot be read, or one that needs a better proof than there is.
pub fn gate(bind: Option<&str>, port: &str, proof: Proof) -> Result<Vec<(String, u16)>, GateError> {
    let port: u16 = port.trim().parse().map_err(|_| {
        let said: String = port.chars().take(64).collect();
        GateError::Port(muster_core::text::terminal(&said))
    })?;
    let hosts = hosts(bind)?;
    if !proof.tokens && !proof.shared {
        return Err(GateError::NoAuth);
    }
    if let Some(open) = hosts.iter().find(|host| !loopback(host)) {
        if !proof.tokens {
            return Err(GateError::SharedToken(open.clone()));
        }
        if !proof.insecure {
            return Err(GateError::Insecure(open.clone()));
        }
    }
    Ok(hosts.into_iter().map(|host| (host, port)).collect())
}

fn hosts(bind: Option<&str>) -> Result<Vec<String>, GateError> {
    let Some(bind) = bind else {
        return Ok(vec!["127.0.0.1".to_owned()]);
    };
    if bind.trim().is_empty() {
        return Err(GateError::Empty);
    }
    bind.split(',')
        .enumerate()
        .map(|(place, entry)| {
            let entry = entry.trim();
            let bare = entry
                .strip_prefix('[')
                .and_then(|entry| entry.strip_suffix(']'))
                .unwrap_or(entry);
            let named = !bare.is_empty()
                && bare.len() <= 253
                && bare
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
            if bare.parse::<IpAddr>().is_ok() || named {
                Ok(bare.to_owned())
            } else {
                Err(GateError::Bind(place + 1))
            }
        })
        .collect()
}

/// Whether an entry cannot leave this machine. A name may mean anything tomorrow, so it counts as one that can.
fn loopback(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| match address {
        IpAddr::V4(address) => address.is_loopback(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback())
        }
    })
}

/// Whether a `Host` header names one of the addresses that the bus listens on, or this machine: a page of another site, whose name was made
/// to point here, names itself.
pub(super) fn is_host(host: &str, listening: &[SocketAddr], names: &[String]) -> bool {
    let bare = without_port(host);
    if bare.eq_ignore_ascii_case("localhost") || names.iter().any(|name| name.eq_ignore_ascii_case(bare)) {
        return true;
    }
    // An address cannot be made to point elsewhere by a name server.
    bare.parse::<IpAddr>().is_ok() && !listening.is_empty()
}

/// A host or an address as it stands in a header, without its port and without brackets.
fn without_port(host: &str) -> &str {
    let bare = match host.rsplit_once(':') {
        Some((bare, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !bare.ends_with(':') => bare,
        _ => host,
    };
    bare.trim_start_matches('[').trim_end_matches(']')
}

/// Whether an `Origin` header names an address or a name that the bus listens on. Another machine's page may stand under an address too, so
/// here an address has to be ours. Where the bus listens on every address, ours is the one that `host` says the request was sent to.
pub(super) fn is_origin(origin: &str, host: &str, listening: &[SocketAddr], names: &[String]) -> bool {
    let Some((_, origin)) = origin.split_once("://") else {
        return false;
    };
    let bare = without_port(origin);
    if names.iter().any(|name| name.eq_ignore_ascii_case(bare)) {
        return true;
    }
    let address = |text: &str| text.parse::<IpAddr>().ok().map(|address| address.to_canonical());
    let (page, sent_to) = (address(bare), address(without_port(host)));
    let localhost = bare.eq_ignore_ascii_case("localhost");
    listening.iter().map(|own| own.ip().to_canonical()).any(|own| {
        let near = localhost || page.is_some_and(|page| page.is_loopback());
        if own.is_unspecified() {
            near || (page.is_some() && page == sent_to)
        } else if own.is_loopback() {
            near
        } else {
            page == Some(own)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKENS: Proof = Proof {
        tokens: true,
        shared: false,
        insecure: false,
    };
    const SHARED: Proof = Proof {
        tokens: false,
        shared: true,
        insecure: false,
    };

    fn hosts_of(bind: Option<&str>, proof: Proof) -> Result<Vec<String>, GateError> {
        gate(bind, "8765", proof).map(|list| list.into_iter().map(|(host, _)| host).collect())
    }

    // spec: NET-004 NET-005 NET-006 NET-011
    #[test]
    fn the_list_replaces_loopback_and_does_not_extend_it() {
        assert_eq!(hosts_of(None, SHARED).unwrap(), ["127.0.0.1"]);
        let open = Proof {
            insecure: true,
            ..TOKENS
        };
        assert_eq!(hosts_of(Some("10.0.0.5"), open).unwrap(), ["10.0.0.5"]);
        assert_eq!(
            hosts_of(Some("127.0.0.1, 100.64.0.7"), open).unwrap(),
            ["127.0.0.1", "100.64.0.7"]
        );
    }

    // spec: NET-010 NET-012 NET-013 NET-014 NET-015 NET-016
    #[test]
    fn one_address_beyond_this_machine_needs_tokens_and_a_word_about_the_network() {
        let none = Proof {
            shared: false,
            ..SHARED
        };
        assert_eq!(hosts_of(None, none), Err(GateError::NoAuth));
        for list in ["10.0.0.5", "127.0.0.1,10.0.0.5"] {
            let open = "10.0.0.5".to_owned();
            for insecure in [false, true] {
                let shared = Proof { insecure, ..SHARED };
                assert_eq!(
                    hosts_of(Some(list), shared),
                    Err(GateError::SharedToken(open.clone()))
                );
            }
            assert_eq!(hosts_of(Some(list), TOKENS), Err(GateError::Insecure(open)));
            let both = Proof {
                insecure: true,
                ..TOKENS
            };
            assert!(hosts_of(Some(list), both).is_ok());
        }
    }

    // spec: NET-017
    #[test]
    fn only_loopback_addresses_count_as_this_machine() {
        for near in ["127.0.0.1", "127.8.9.10", "::1", "[::1]", "::ffff:127.0.0.1"] {
            assert!(hosts_of(Some(near), SHARED).is_ok(), "{near}");
        }
        for far in [
            "0.0.0.0",
            "::",
            "localhost",
            "bus.example.org",
            "192.168.1.2",
            "fe80::1",
        ] {
            assert!(
                matches!(hosts_of(Some(far), SHARED), Err(GateError::SharedToken(_))),
                "{far}"
            );
        }
    }

    // spec: NET-022
    #[test]
    fn a_page_is_ours_only_by_a_name_or_an_address_that_the_bus_listens_on() {
        let names = ["bus.example.org".to_owned()];
        let of = |origin: &str, host: &str, listening: &[&str]| {
            let listening: Vec<SocketAddr> =
                listening.iter().map(|address| address.parse().unwrap()).collect();
            is_origin(origin, host, &listening, &names)
        };
        let near = "127.0.0.1:8765";
        for own in [
            "http://127.0.0.1:8765",
            "http://127.0.0.1",
            "http://localhost:8765",
            "http://[::1]:8765",
            "https://BUS.example.org",
        ] {
            assert!(of(own, near, &["127.0.0.1:8765"]), "{own}");
        }
        for foreign in [
            "http://203.0.113.9",
            "http://203.0.113.9:8765",
            "http://[2001:db8::1]:8765",
            "http://0.0.0.0:8765",
            "http://evil.example",
            "null",
            "127.0.0.1",
            "http://127.0.0.1.evil.example",
            "http://evil.example@127.0.0.1",
        ] {
            assert!(!of(foreign, near, &["127.0.0.1:8765"]), "{foreign}");
            assert!(!of(foreign, near, &["10.0.0.5:8765"]), "{foreign}");
            assert!(!of(foreign, near, &["0.0.0.0:8765"]), "{foreign}");
            assert!(!of(foreign, near, &["[::]:8765"]), "{foreign}");
        }
        assert!(of("http://10.0.0.5:8765", "10.0.0.5:8765", &["10.0.0.5:8765"]));
        assert!(!of("http://localhost:8765", "10.0.0.5:8765", &["10.0.0.5:8765"]));
        assert!(of("http://10.0.0.5:8765", "10.0.0.5:8765", &["0.0.0.0:8765"]));
        assert!(of("http://127.0.0.1:8765", "127.0.0.1:8765", &["[::]:8765"]));
    }

    #[test]
    fn what_is_no_list_or_no_port_is_refused() {
        assert_eq!(hosts_of(Some(" "), TOKENS), Err(GateError::Empty));
        for bad in ["127.0.0.1,,", "a b", "http://x", "1.2.3.4/8"] {
            assert!(
                matches!(hosts_of(Some(bad), TOKENS), Err(GateError::Bind(_))),
                "{bad}"
            );
        }
        for port in ["", "x", "70000", "-1"] {
            let said = GateError::Port(port.to_owned());
            assert!(said.to_string().ends_with(&format!("'{port}'")));
            assert_eq!(gate(None, port, TOKENS), Err(said));
        }
    }
}
