//! Decides from the header whether a person can be answered at all (RFC 3834 and its neighbours). Never reads the body, whose words prove nothing.

use crate::headers::{Field, values, without_comments};

/// Whether nobody can answer this mail: a list, a machine, a bounce, or only addresses that take no replies.
///
/// `from` are the From addresses, `recipients` those that a reply would go to.
/// `List-Unsubscribe` alone does not count: address books and sales tools add it to mail that a person wrote.
pub(crate) fn takes_no_reply(fields: &[Field], from: &[String], recipients: &[String]) -> bool {
    says_automatic(fields)
        || recipients.iter().all(|address| refuses_replies(address))
        || from.iter().any(|address| is_mail_system(address))
}

fn says_automatic(fields: &[Field]) -> bool {
    let words =
        |name: &'static str| values(fields, name).map(|value| without_comments(value).to_ascii_lowercase());
    words("auto-submitted").any(|value| {
        let keyword = value.split(';').next().unwrap_or_default();
        keyword.trim() != "no"
    }) || fields
        .iter()
        .any(|field| matches!(field.name.as_str(), "list-id" | "list-post"))
        || words("precedence").any(|value| matches!(value.as_str(), "bulk" | "list" | "junk" | "auto_reply"))
        || words("x-auto-response-suppress").any(|value| {
            value
                .split(',')
                .any(|word| matches!(word.trim(), "all" | "autoreply"))
        })
        || words("return-path").any(|value| value.replace(' ', "") == "<>")
        || words("content-type").any(|value| value.starts_with("multipart/report"))
}

/// The part before the `@`, without a `+tag` and without the marks that people put between the words.
fn plain_local_part(address: &str) -> String {
    let local = address.rsplit_once('@').map_or(address, |(local, _)| local);
    let local = local.split('+').next().unwrap_or_default();
    local
        .chars()
        .filter(|letter| !matches!(letter, '-' | '_' | '.' | '"'))
        .collect::<String>()
        .to_ascii_lowercase()
}

fn refuses_replies(address: &str) -> bool {
    let local = plain_local_part(address);
    is_mail_system(address)
        || ["noreply", "donotreply"]
            .iter()
            .any(|word| local.starts_with(word) || local.ends_with(word))
}

fn is_mail_system(address: &str) -> bool {
    matches!(plain_local_part(address).as_str(), "mailerdaemon" | "postmaster")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::split;

    fn marked(header: &str, from: &str) -> bool {
        let from = [from.to_owned()];
        takes_no_reply(&split(header.as_bytes()), &from, &from)
    }

    #[test]
    fn lists_machines_and_bounces_take_no_reply() {
        for header in [
            "Auto-Submitted: auto-generated",
            "auto-submitted: auto-replied; owner=\"x\"",
            "AUTO-SUBMITTED:\r\n Auto-Notified (cron)",
            "Auto-Submitted: ",
            "List-Id: Gardeners <garden.lists.example>",
            "List-Post: <mailto:garden@lists.example>",
            "Precedence: bulk",
            "Precedence:  LIST (all)",
            "Precedence: junk",
            "X-Auto-Response-Suppress: All",
            "X-Auto-Response-Suppress: DR, OOF, AutoReply",
            "Return-Path: <>",
            "Return-Path: < > (bounce)",
            "Content-Type: multipart/report; report-type=delivery-status; boundary=x",
        ] {
            assert!(marked(header, "ada@example.test"), "{header}");
        }
    }

    #[test]
    fn ordinary_mail_can_be_answered() {
        for header in [
            "Subject: noon?",
            "Auto-Submitted: no",
            "Auto-Submitted: No (a person)",
            "Precedence: normal",
            "Precedence: first-class",
            "X-Auto-Response-Suppress: OOF",
            "Return-Path: <ada@example.test>",
            "List-Unsubscribe: <mailto:out@example.test>",
            "X-List-Id: no",
            "Content-Type: text/plain",
        ] {
            assert!(!marked(header, "ada@example.test"), "{header}");
        }
    }

    #[test]
    fn addresses_that_say_so_take_no_reply() {
        for address in [
            "noreply@x.test",
            "No-Reply@x.test",
            "no_reply@x.test",
            "no.reply@x.test",
            "donotreply@x.test",
            "do-not-reply@x.test",
            "noreply+token=1@x.test",
            "no-reply-accounts@x.test",
            "drive-shares-noreply@x.test",
            "MAILER-DAEMON@x.test",
            "postmaster@x.test",
            "postmaster+1@x.test",
        ] {
            assert!(marked("Subject: x", address), "{address}");
        }
        for address in [
            "ada@noreply.test",
            "reply@x.test",
            "noemi.reply@x.test",
            "post@x.test",
            "norbert@x.test",
            "ada+noreply@x.test",
        ] {
            assert!(!marked("Subject: x", address), "{address}");
        }
    }

    #[test]
    fn the_address_that_would_get_the_reply_decides() {
        let fields = split(b"Subject: x");
        let machine = ["noreply@forge.test".to_owned()];
        let person = ["reply+abc@forge.test".to_owned()];
        assert!(!takes_no_reply(&fields, &machine, &person));
        assert!(takes_no_reply(&fields, &person, &machine));
        assert!(takes_no_reply(&fields, &person, &[]));
        let bounce = ["mailer-daemon@x.test".to_owned()];
        assert!(takes_no_reply(&fields, &bounce, &person));
    }
}
