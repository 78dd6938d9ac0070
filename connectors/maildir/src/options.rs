//! The command line of the connector and what it means once checked. Never reads a secret from the command line.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lettre::Address;
use lettre::message::Mailbox;

use crate::error::ConnectorError;
use crate::mail::{Authority, Rules};
use crate::text::one_line;
use crate::{parts, people};

/// The environment variable that holds the token when no file does.
pub const TOKEN_VARIABLE: &str = "MUSTER_CONNECTOR_TOKEN";

/// What to connect, and how replies leave.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Address of the muster server
    #[arg(
        long,
        env = "MUSTER_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:7447"
    )]
    pub url: String,

    /// Maildir to read, with new/, cur/ and tmp/
    #[arg(long, value_name = "DIR", required_unless_present_any = ["status", "dismiss"])]
    pub maildir: Option<PathBuf>,

    /// Folder for what must survive a crash; created with mode 700
    #[arg(long, value_name = "DIR")]
    pub state: PathBuf,

    /// Sender of the replies, and the address whose own mail is not posted
    #[arg(long, value_name = "'NAME <ADDRESS>'", required_unless_present_any = ["status", "dismiss"])]
    pub from: Option<String>,

    /// Hand replies over as files in this Maildir
    #[arg(long, value_name = "DIR", conflicts_with = "sendmail")]
    pub outbox: Option<PathBuf>,

    /// Hand replies over to this program, which must understand `-i -- RECIPIENT…` and exit 0 only when it took the mail
    #[arg(long, value_name = "'PROGRAM ARGS'")]
    pub sendmail: Option<String>,

    /// Seconds after which a sendmail program that does not end is killed
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=100))]
    pub sendmail_seconds: u64,

    /// File that holds the connector's token (otherwise MUSTER_CONNECTOR_TOKEN)
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Believe Authentication-Results of this server id; without it no sender is ever marked as verified
    #[arg(long, value_name = "ID")]
    pub authserv_id: Option<String>,

    /// How many Received headers your own servers write above their Authentication-Results
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=10))]
    pub authserv_hops: u8,

    /// Seconds between two looks into new/
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub poll_seconds: u64,

    /// One pass over new/, then every reply that is ready, then exit
    #[arg(long)]
    pub once: bool,

    /// List set-aside mails and replies whose fate is unknown, then exit
    #[arg(long, conflicts_with_all = ["once", "dismiss"])]
    pub status: bool,

    /// Take a reply whose fate is unknown off that list, then exit; it is never sent again
    #[arg(long, value_name = "DRAFT_ID", conflicts_with = "once")]
    pub dismiss: Option<u64>,
}

/// How a reply leaves.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    Outbox(PathBuf),
    Sendmail {
        program: String,
        arguments: Vec<String>,
        limit: Duration,
    },
}

/// The options after every check that needs no network. Not `Debug`: it holds the token.
pub(crate) struct Settings {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) maildir: PathBuf,
    pub(crate) from: Mailbox,
    pub(crate) way: Way,
    pub(crate) rules: Rules,
    pub(crate) poll: Duration,
    pub(crate) once: bool,
}

fn usage<T>(sentence: impl Into<String>) -> Result<T, ConnectorError> {
    Err(ConnectorError::Usage(sentence.into()))
}

impl Settings {
    pub(crate) fn check(options: &Options) -> Result<Self, ConnectorError> {
        let Some(maildir) = &options.maildir else {
            return usage("Say which Maildir to read: --maildir DIR.");
        };
        if let Some(part) = crate::missing_part(maildir) {
            return usage(format!("{maildir:?} is not a Maildir: it has no folder {part}/."));
        }
        let from = own_mailbox(options.from.as_deref())?;
        let authority = options.authserv_id.as_ref().map(|id| Authority {
            authserv_id: id.clone(),
            received_above: usize::from(options.authserv_hops),
        });
        Ok(Self {
            url: base_url(&options.url)?,
            token: token(options.token_file.as_deref())?,
            maildir: maildir.clone(),
            way: way(options, maildir)?,
            rules: Rules {
                own_address: from.email.to_string(),
                authority,
            },
            from,
            poll: Duration::from_secs(options.poll_seconds),
            once: options.once,
        })
    }
}

fn own_mailbox(from: Option<&str>) -> Result<Mailbox, ConnectorError> {
    const HINT: &str =
        "--from needs an address that replies can come from, as in --from 'Ada <ada@example.org>'.";
    // Read as a mail program reads it, so that a name may have any letters.
    let header = format!("From: {}\n\n", one_line(from.unwrap_or_default()));
    let parsed = parts::headers_of(header.as_bytes());
    let people = people::people(parsed.as_ref().and_then(|message| message.from()));
    let [person] = people.as_slice() else {
        return usage(HINT);
    };
    let Some(address) = person.mailbox() else {
        return usage(HINT);
    };
    let (local, domain) = address.rsplit_once('@').unwrap_or_default();
    Ok(Mailbox::new(person.name(), Address::new_dangerous(local, domain)))
}

fn base_url(url: &str) -> Result<String, ConnectorError> {
    match reqwest::Url::parse(url) {
        Ok(parsed)
            if matches!(parsed.scheme(), "http" | "https")
                && parsed.has_host()
                && parsed.query().is_none()
                && parsed.fragment().is_none() =>
        {
            Ok(url.trim_end_matches('/').to_owned())
        }
        _ => usage("--url needs the address of the server, as in --url http://127.0.0.1:7447."),
    }
}

fn token(file: Option<&Path>) -> Result<String, ConnectorError> {
    let text = match file {
        Some(file) => match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => return usage(format!("Cannot read the token file {file:?}: {error}.")),
        },
        None => match std::env::var(TOKEN_VARIABLE) {
            Ok(text) => text,
            Err(_) => {
                return usage(format!("No token: set {TOKEN_VARIABLE} or --token-file FILE."));
            }
        },
    };
    let token = text.trim();
    if !token.starts_with("mpl_") || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return usage("This is not a connector token: those begin with mpl_ and have no blanks.");
    }
    Ok(token.to_owned())
}

fn way(options: &Options, maildir: &Path) -> Result<Way, ConnectorError> {
    match (&options.outbox, &options.sendmail) {
        (Some(outbox), None) => {
            let same = match (outbox.canonicalize(), maildir.canonicalize()) {
                (Ok(one), Ok(other)) => one == other,
                _ => outbox == maildir,
            };
            if same {
                return usage(
                    "--outbox and --maildir are the same folder: the replies would be read as new mail.",
                );
            }
            Ok(Way::Outbox(outbox.clone()))
        }
        (None, Some(line)) => {
            let mut words = shlex::split(line).unwrap_or_default().into_iter();
            match words.next() {
                Some(program) if !program.is_empty() && !is_program(&program) => usage(format!(
                    "the mail program {} is not found; name another with --sendmail, or use --outbox DIR.",
                    one_line(&program)
                )),
                Some(program) if !program.is_empty() => Ok(Way::Sendmail {
                    program,
                    arguments: words.collect(),
                    limit: Duration::from_secs(options.sendmail_seconds),
                }),
                _ => usage(
                    "--sendmail needs a program, as in --sendmail '/usr/sbin/sendmail -f ada@example.org'.",
                ),
            }
        }
        _ => usage("Say how replies leave: either --outbox DIR or --sendmail 'PROGRAM ARGS'."),
    }
}

/// Whether a program of this name can be started here: a path as it is, any other name on PATH.
fn is_program(name: &str) -> bool {
    let runs = |path: &Path| {
        std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return runs(Path::new(name));
    }
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| runs(&folder.join(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_address_is_normalised_or_refused() {
        let read = |text| {
            own_mailbox(Some(text))
                .map(|from| (from.name, from.email.to_string()))
                .unwrap()
        };
        assert_eq!(
            read("Jürgen <J@Bücher.test>"),
            (Some("Jürgen".to_owned()), "J@xn--bcher-kva.test".to_owned())
        );
        assert_eq!(
            read("\"Müller, J.\" <j@x.test>"),
            (Some("Müller, J.".to_owned()), "j@x.test".to_owned())
        );
        assert_eq!(read("me@ours.test"), (None, "me@ours.test".to_owned()));
        for wrong in [
            None,
            Some(""),
            Some("ada"),
            Some("\"a b\"@x.test"),
            Some("a@localhost"),
            Some("a@x.test, b@x.test"),
        ] {
            assert!(
                matches!(own_mailbox(wrong), Err(ConnectorError::Usage(_))),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_mail_program_is_a_file_that_can_be_started() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        for found in ["sh", "/bin/sh"] {
            assert!(is_program(found), "{found}");
        }
        for missing in [
            "/usr/sbin/no-sendmail",
            "no-sendmail",
            "/bin",
            plain.to_str().unwrap(),
        ] {
            assert!(!is_program(missing), "{missing}");
        }
    }

    #[test]
    fn only_a_plain_http_address_is_a_server() {
        assert!(matches!(
            base_url("http://127.0.0.1:7447/").as_deref(),
            Ok("http://127.0.0.1:7447")
        ));
        assert!(matches!(
            base_url("https://m.test/muster").as_deref(),
            Ok("https://m.test/muster")
        ));
        for wrong in [
            "",
            "127.0.0.1:7447",
            "ftp://x.test",
            "file:///x",
            "http://x.test/?a",
            "http://x.test/#a",
        ] {
            assert!(base_url(wrong).is_err(), "{wrong}");
        }
    }
}
