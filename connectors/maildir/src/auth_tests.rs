//! The table of what proves a sender and what does not. Never tests how a header is folded; `headers` does.

use super::*;
use crate::headers::split;

const OURS: &str = "Received: from a by mx.ours.test; Mon, 1 Jan 2029 00:00:00 +0000\n";

fn proven(head: &str, from_domain: &str, received_above: usize) -> bool {
    let authority = Authority {
        authserv_id: "mx.ours.test".to_owned(),
        received_above,
    };
    proves(&split(head.as_bytes()), from_domain, &authority)
}

/// (what it shows, value of the one trusted header, proven for `bank.test`)
const ONE_HEADER: &[(&str, &str, bool)] = &[
    (
        "dmarc for the From domain",
        "mx.ours.test; dmarc=pass header.from=bank.test",
        true,
    ),
    ("any case", "MX.Ours.TEST; DMARC=Pass Header.From=BANK.test", true),
    (
        "version 1",
        "mx.ours.test 1; dmarc=pass header.from=bank.test",
        true,
    ),
    (
        "method version 1",
        "mx.ours.test; dmarc/1=pass header.from=bank.test",
        true,
    ),
    (
        "comments everywhere",
        "(a) mx.ours.test (b(c)) 1 (d); (e) dmarc (f) = (g) pass (h;i) header (j) . (k) from (l) = (m) bank.test (n)",
        true,
    ),
    (
        "policy words of a large provider",
        "mx.ours.test; dkim=pass header.i=@bank.test header.s=s1 header.b=\"Ab/c=\"; spf=pass (ours: domain of a@bank.test designates 192.0.2.1) smtp.mailfrom=a@bank.test; dmarc=pass (p=REJECT sp=NONE dis=NONE) header.from=bank.test",
        true,
    ),
    (
        "words without a property type",
        "mx.ours.test; dmarc=pass action=none header.from=bank.test; compauth=pass reason=100",
        true,
    ),
    ("dkim equal", "mx.ours.test; dkim=pass header.d=bank.test", true),
    (
        "dkim with a reason",
        "mx.ours.test; dkim=pass reason=\"good; signature\" header.d=bank.test",
        true,
    ),
    (
        "dkim by identity alone",
        "mx.ours.test; dkim=pass header.i=@bank.test",
        true,
    ),
    (
        "dkim by identity with a local part",
        "mx.ours.test; dkim=pass header.i=\"a b\"@bank.test",
        true,
    ),
    (
        "dkim next to a foreign one that passed",
        "mx.ours.test; dkim=pass header.d=list.test; dkim=pass header.d=bank.test",
        true,
    ),
    (
        "dkim, no dmarc record",
        "mx.ours.test; dmarc=none header.from=bank.test; dkim=pass header.d=bank.test",
        true,
    ),
    (
        "value in quotes",
        "mx.ours.test; dmarc=pass header.from=\"bank.test\"",
        true,
    ),
    (
        "a last semicolon",
        "mx.ours.test; dmarc=pass header.from=bank.test;",
        true,
    ),
    (
        "spf alone",
        "mx.ours.test; spf=pass smtp.mailfrom=a@bank.test",
        false,
    ),
    (
        "spf that calls itself by the header",
        "mx.ours.test; spf=pass header.from=bank.test",
        false,
    ),
    (
        "iprev and auth",
        "mx.ours.test; iprev=pass policy.iprev=192.0.2.1; auth=pass smtp.auth=bank.test",
        false,
    ),
    ("arc", "mx.ours.test; arc=pass header.from=bank.test", false),
    (
        "another server's name",
        "mx.evil.test; dmarc=pass header.from=bank.test",
        false,
    ),
    (
        "a name that only begins like ours",
        "mx.ours.test.evil.test; dmarc=pass header.from=bank.test",
        false,
    ),
    (
        "our name in a comment",
        "(mx.ours.test) mx.evil.test; dmarc=pass header.from=bank.test",
        false,
    ),
    (
        "our name in a second place",
        "mx.evil.test mx.ours.test; dmarc=pass header.from=bank.test",
        false,
    ),
    (
        "dmarc for another domain",
        "mx.ours.test; dmarc=pass header.from=evil.test",
        false,
    ),
    (
        "dmarc for a child of the From domain",
        "mx.ours.test; dmarc=pass header.from=a.bank.test",
        false,
    ),
    (
        "dmarc that does not say for whom",
        "mx.ours.test; dmarc=pass",
        false,
    ),
    (
        "dmarc that says two domains",
        "mx.ours.test; dmarc=pass header.from=evil.test header.from=bank.test",
        false,
    ),
    (
        "dmarc failed beside an aligned signature",
        "mx.ours.test; dkim=pass header.d=bank.test; dmarc=fail header.from=bank.test",
        false,
    ),
    (
        "dmarc failed after dmarc passed",
        "mx.ours.test; dmarc=pass header.from=bank.test; dmarc=fail header.from=bank.test",
        false,
    ),
    (
        "dmarc could not be looked up",
        "mx.ours.test; dkim=pass header.d=bank.test; dmarc=temperror header.from=bank.test",
        false,
    ),
    (
        "pass inside a comment",
        "mx.ours.test; dmarc=fail (dmarc=pass header.from=bank.test) header.from=bank.test",
        false,
    ),
    (
        "pass inside a quoted string",
        "mx.ours.test; spf=fail smtp.mailfrom=\"x; dmarc=pass header.from=bank.test\"",
        false,
    ),
    (
        "pass inside a quoted string with an escaped quote",
        "mx.ours.test; spf=fail smtp.mailfrom=\"x\\\"; dmarc=pass header.from=bank.test; \\\"\"",
        false,
    ),
    (
        "dkim of a foreign domain",
        "mx.ours.test; dkim=pass header.d=evil.test",
        false,
    ),
    (
        "dkim of a domain that only ends alike",
        "mx.ours.test; dkim=pass header.d=ank.test",
        false,
    ),
    (
        "dkim of a child domain",
        "mx.ours.test; dkim=pass header.d=a.bank.test",
        false,
    ),
    (
        "dkim of the whole top-level domain",
        "mx.ours.test; dkim=pass header.d=test",
        false,
    ),
    (
        "dkim with a dot before the top-level domain",
        "mx.ours.test; dkim=pass header.d=.test",
        false,
    ),
    (
        "dkim with a foreign d and a friendly i",
        "mx.ours.test; dkim=pass header.d=evil.test header.i=@bank.test",
        false,
    ),
    (
        "dkim that names two signers",
        "mx.ours.test; dkim=pass header.d=evil.test header.d=bank.test",
        false,
    ),
    (
        "dkim neutral",
        "mx.ours.test; dkim=neutral header.d=bank.test",
        false,
    ),
    (
        "dkim without a signer",
        "mx.ours.test; dkim=pass header.s=s1",
        false,
    ),
    ("no result", "mx.ours.test; none", false),
    ("no results at all", "mx.ours.test", false),
    (
        "version 2",
        "mx.ours.test 2; dmarc=pass header.from=bank.test",
        false,
    ),
    (
        "method version 2",
        "mx.ours.test; dmarc/2=pass header.from=bank.test",
        false,
    ),
    (
        "an unclosed comment",
        "mx.ours.test; dmarc=pass header.from=bank.test (",
        false,
    ),
    (
        "an unclosed quote",
        "mx.ours.test; dmarc=pass header.from=\"bank.test",
        false,
    ),
    (
        "broken after a good part",
        "mx.ours.test; dmarc=pass header.from=bank.test; ???",
        false,
    ),
    (
        "no semicolon",
        "mx.ours.test dmarc=pass header.from=bank.test",
        false,
    ),
    ("empty", "", false),
];

#[test]
fn only_dmarc_or_an_aligned_signature_proves_a_sender() {
    for (what, value, expected) in ONE_HEADER {
        let head = format!("Authentication-Results: {value}\n{OURS}From: a@bank.test\n");
        assert_eq!(proven(&head, "bank.test", 0), *expected, "{what}");
    }
}

#[test]
fn a_signature_of_a_parent_domain_counts() {
    let head = format!("Authentication-Results: mx.ours.test; dkim=pass header.d=bank.test\n{OURS}");
    assert!(proven(&head, "news.bank.test", 0));
    assert!(proven(&head, "a.b.bank.test", 0));
    assert!(!proven(&head, "newsbank.test", 0));
    assert!(!proven(&head, "", 0));
}

#[test]
fn a_result_below_the_first_received_header_is_the_senders_own_work() {
    const PASS: &str = "Authentication-Results: mx.ours.test; dmarc=pass header.from=bank.test\n";
    const FAIL: &str = "Authentication-Results: mx.ours.test; dmarc=fail header.from=bank.test\n";
    const NOTE: &str = "Authentication-Results: mx.ours.test; spf=pass smtp.mailfrom=a@evil.test\n";
    for (what, head, above, expected) in [
        ("ours on top", format!("{PASS}{OURS}"), 0, true),
        ("ours in two headers", format!("{NOTE}{PASS}{OURS}"), 0, true),
        ("forged below", format!("{OURS}{PASS}"), 0, false),
        (
            "forged below ours that is silent",
            format!("{NOTE}{OURS}{PASS}"),
            0,
            false,
        ),
        (
            "forged below ours that failed",
            format!("{FAIL}{OURS}{PASS}"),
            0,
            false,
        ),
        (
            "ours failed beside a pass",
            format!("{PASS}{FAIL}{OURS}"),
            0,
            false,
        ),
        ("no Received header at all", PASS.to_owned(), 0, false),
        ("one own Received header above", format!("{OURS}{PASS}"), 1, true),
        ("one allowed, two above", format!("{OURS}{OURS}{PASS}"), 1, false),
        ("two allowed, two above", format!("{OURS}{OURS}{PASS}"), 2, true),
        (
            "two allowed, only one in the mail",
            format!("{OURS}{PASS}"),
            2,
            false,
        ),
        ("one allowed and none used", format!("{PASS}{OURS}"), 1, true),
        ("another header name", format!("ARC-{PASS}{OURS}"), 0, false),
        ("an old header name", format!("X-{PASS}{OURS}"), 0, false),
    ] {
        assert_eq!(proven(&head, "bank.test", above), expected, "{what}");
    }
}
