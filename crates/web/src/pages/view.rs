//! What every page shares: its frame, times, outside text made visible, redirects. Never reads a request and never decides.

use askama::Template;
use askama::filters::HtmlSafe;
use axum::response::{Html, IntoResponse, Response};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use muster_app::accounts::BrowserCaller;
use muster_app::{access, notices};
use muster_core::clock::Time;
use muster_core::fence;
use muster_core::text::{is_line_break, spell_char, terminal, unseen};

use super::{refuse, statics};
use crate::Web;

/// Rows on a page of a list that pages.
pub(super) const PAGE: usize = 50;

/// Which entry of the navigation the page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Here {
    Overview,
    Asks,
    Drafts,
    Tasks,
    Projects,
    Databases,
    Policies,
    Connectors,
    Packages,
    Chief,
    Audit,
    Settings,
    Elsewhere,
}

/// Who is signed in, as the frame shows it.
#[derive(Debug, Clone)]
pub(super) struct Signed {
    pub(super) name: String,
    /// How many asks wait.
    pub(super) asks: usize,
    /// How many notices are open.
    pub(super) waiting: usize,
    /// Whether calls that ask would run unasked now.
    pub(super) unasked: bool,
    /// Whether the connectors' page exists.
    pub(super) plugins: bool,
    /// The server's present moment, by which the script keeps times up to date.
    pub(super) now: String,
    /// What the commands on the pages need to work on this data, if anything.
    pub(super) command_needs: String,
}

/// An entry of the navigation.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) path: &'static str,
    pub(super) words: &'static str,
    pub(super) current: bool,
    /// How much waits there.
    pub(super) waiting: usize,
}

impl Signed {
    /// The pages there are, with the one that is open.
    pub(super) fn navigation(&self, here: &Here) -> Vec<Entry> {
        let entry = |path, words, of: Here, waiting| Entry {
            path,
            words,
            current: of == *here,
            waiting,
        };
        let mut all = vec![
            entry("/", "Overview", Here::Overview, 0),
            entry("/attention", "Asks", Here::Asks, self.asks),
            entry(
                "/attention?tab=drafts",
                "Reply drafts",
                Here::Drafts,
                self.waiting,
            ),
            entry("/tasks", "Tasks", Here::Tasks, 0),
            entry("/projects", "Projects", Here::Projects, 0),
            entry("/databases", "Databases", Here::Databases, 0),
            entry("/policies", "Policies", Here::Policies, 0),
        ];
        if self.plugins {
            all.push(entry("/plugins", "Connectors", Here::Connectors, 0));
        }
        all.extend([
            entry("/plugins/packages", "Packages", Here::Packages, 0),
            entry("/chief", "Chief", Here::Chief, 0),
            entry("/audit", "Audit", Here::Audit, 0),
            entry("/settings", "Settings", Here::Settings, 0),
        ]);
        all
    }
}

/// The frame of a page.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    pub(super) title: String,
    pub(super) here: Here,
    pub(super) signed: Option<Signed>,
    /// Where passkeys work: compared by the script with where the page was opened.
    pub(super) passkeys_at: Option<String>,
    /// Whether an open page counts as somebody who can be asked.
    pub(super) answers: bool,
}

impl Shell {
    /// The frame of a page for nobody in particular.
    pub(super) fn bare(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            here: Here::Elsewhere,
            signed: None,
            passkeys_at: None,
            answers: false,
        }
    }

    /// The same, for a page that offers passkeys.
    pub(super) fn with_passkeys(mut self, web: &Web) -> Self {
        self.passkeys_at = web.app.passkeys.as_ref().map(|_| web.origin.base().to_owned());
        self
    }

    /// The same, for a page on which asks are answered: while it is open, somebody can be asked.
    pub(super) fn answering(mut self) -> Self {
        self.answers = true;
        self
    }

    /// Where the page's script hears of changes.
    pub(super) fn events(&self) -> &'static str {
        if self.answers { "/events?asks=1" } else { "/events" }
    }

    /// The frame of a page of who is signed in.
    pub(super) async fn of(
        web: &Web,
        caller: &BrowserCaller,
        here: Here,
        title: impl Into<String>,
    ) -> Result<Self, Response> {
        let open = notices::open(&web.app.db, caller.owner)
            .await
            .map_err(|fault| refuse::fault(&fault))?;
        let asks = access::outlook(&web.app, caller.owner)
            .await
            .map_err(|fault| refuse::fault(&fault))?;
        let signed = Signed {
            name: caller.name.clone(),
            asks: asks.waiting,
            unasked: asks.unasked,
            waiting: open.len(),
            plugins: web.app.settings.plugins,
            now: web.app.clock.now().rfc3339(),
            command_needs: one_line(&web.app.settings.command_needs),
        };
        Ok(Self {
            title: title.into(),
            here,
            signed: Some(signed),
            passkeys_at: None,
            answers: false,
        })
    }

    pub(super) fn css(&self) -> &'static str {
        statics::address("app.css")
    }

    pub(super) fn script(&self) -> &'static str {
        statics::address("app.js")
    }

    pub(super) fn icon(&self) -> &'static str {
        statics::address("icon.svg")
    }

    pub(super) fn manifest(&self) -> &'static str {
        statics::address("manifest.webmanifest")
    }
}

/// A rendered page.
pub(super) fn page(status: StatusCode, template: &impl Template) -> Response {
    match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page could not be rendered");
            (
                StatusCode::INTERNAL_SERVER_ERROR,
                "Something broke inside muster while it wrote this page. The server's log says what.\n",
            )
                .into_response()
        }
    }
}

/// 303: the answer to a form is the page that shows its result.
pub(super) fn see_other(path: &str) -> Response {
    let location = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static("/"));
    (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response()
}

/// `next` if it is a path of this site, else `/`. Printable ASCII only, so that no browser reads it otherwise than we do: a second slash or
/// a backslash after the first would name another host.
pub(super) fn own_path(next: Option<&str>) -> &str {
    next.filter(|next| {
        next.len() <= 2048
            && next.starts_with('/')
            && !next.starts_with("//")
            && next.bytes().all(|b| b.is_ascii_graphic() && b != b'\\')
    })
    .unwrap_or("/")
}

/// `text` as the value of a query parameter.
pub(super) fn query_value(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'/') {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// A moment as a page shows it: in words, exactly on hover, and for programs.
#[derive(Debug, Clone, Template)]
#[template(
    ext = "html",
    source = r#"<time datetime="{{ iso }}" title="{{ exact }}">{{ words }}</time>"#
)]
pub(super) struct When {
    iso: String,
    exact: String,
    words: String,
}

impl HtmlSafe for When {}

impl When {
    pub(super) fn new(at: Time, now: Time) -> Self {
        let iso = at.rfc3339();
        let exact = iso.trim_end_matches('Z').replace('T', " ") + " UTC";
        Self {
            words: relative(at, now),
            exact,
            iso,
        }
    }

    pub(super) fn maybe(at: Option<Time>, now: Time) -> Option<Self> {
        at.map(|at| Self::new(at, now))
    }
}

/// How far `at` is from `now`, in words; a date when that says more.
pub(super) fn relative(at: Time, now: Time) -> String {
    let past = at <= now;
    let seconds = if past { now.since(at) } else { at.since(now) }.as_secs();
    // What has passed counts in whole units; what is to come, to the nearest: seven days less a moment are seven days.
    let seconds = if past { seconds } else { to_the_nearest(seconds) };
    let span = match seconds {
        0..60 if past => return "just now".to_owned(),
        0..60 => return "in less than a minute".to_owned(),
        60..3_600 => counted(seconds / 60, "minute"),
        3_600..86_400 => counted(seconds / 3_600, "hour"),
        86_400..5_184_000 => counted(seconds / 86_400, "day"),
        _ => return format!("on {}", at.rfc3339().split('T').next().unwrap_or_default()),
    };
    if past {
        format!("{span} ago")
    } else {
        format!("in {span}")
    }
}

/// `seconds` to the nearest of the units that it is told in.
fn to_the_nearest(seconds: u64) -> u64 {
    let nearest = |unit: u64| (seconds + unit / 2) / unit * unit;
    match seconds {
        0..60 => seconds,
        _ if nearest(60) < 3_600 => nearest(60),
        _ if nearest(3_600) < 86_400 => nearest(3_600),
        _ => nearest(86_400),
    }
}

/// `1 minute`, `2 minutes`.
pub(super) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// The same for what a list holds.
pub(super) fn counted_len(count: usize, what: &str) -> String {
    counted(u64::try_from(count).unwrap_or(u64::MAX), what)
}

/// A stretch of time in words, as settings give it: `12 hours`.
pub(super) fn span(length: std::time::Duration) -> String {
    let seconds = length.as_secs();
    match seconds {
        s if s >= 86_400 && s % 86_400 == 0 => counted(s / 86_400, "day"),
        s if s >= 3_600 && s % 3_600 == 0 => counted(s / 3_600, "hour"),
        s if s >= 60 && s % 60 == 0 => counted(s / 60, "minute"),
        s => counted(s, "second"),
    }
}

/// Outside text as one line in which everything can be seen.
pub(super) fn one_line(text: &str) -> String {
    terminal(text)
}

/// Outside text with its line breaks, everything else that cannot be seen spelled out. The page escapes it.
pub(super) fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' | '\t' => out.push(c),
            c if unseen(c).is_some() => {
                spell_char(&mut out, c);
                // What some program takes for a new line reads like one here too.
                if is_line_break(c) {
                    out.push('\n');
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// Who a message says it is from.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    /// One line in which everything can be seen.
    pub(super) name: String,
    /// The mark that follows the name of a sender whom nobody proved.
    pub(super) mark: Option<&'static str>,
}

impl Sender {
    pub(super) fn new(sender: Option<&str>, verified: bool) -> Self {
        Self {
            name: fence::marked_sender(sender, true),
            mark: (!verified).then_some(fence::UNVERIFIED),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_is_told_in_words_on_both_sides_of_now() {
        let now = Time::parse_rfc3339("2026-03-04T05:06:07Z").unwrap();
        let table = [
            (0, "just now", "just now"),
            (59, "just now", "in less than a minute"),
            (60, "1 minute ago", "in 1 minute"),
        ];
        let longer = [
            (119, "1 minute ago", "in 2 minutes"),
            (3_599, "59 minutes ago", "in 1 hour"),
            (86_399 * 7, "6 days ago", "in 7 days"),
            (3_600, "1 hour ago", "in 1 hour"),
            (86_400 * 2, "2 days ago", "in 2 days"),
        ];
        for (seconds, past, future) in table.into_iter().chain(longer) {
            assert_eq!(relative(now.minus(Duration::from_secs(seconds)), now), past);
            assert_eq!(relative(now.plus(Duration::from_secs(seconds)), now), future);
        }
        assert_eq!(
            relative(now.minus(Duration::from_secs(86_400 * 60)), now),
            "on 2026-01-03"
        );
        let shown = When::new(now.minus(Duration::from_secs(180)), now).to_string();
        assert_eq!(
            shown,
            r#"<time datetime="2026-03-04T05:03:07Z" title="2026-03-04 05:03:07 UTC">3 minutes ago</time>"#
        );
    }

    #[test]
    fn the_navigation_names_the_connectors_only_where_they_are_on() {
        let paths = |plugins| {
            let signed = Signed {
                name: "ada".to_owned(),
                asks: 1,
                waiting: 3,
                unasked: false,
                plugins,
                now: String::new(),
                command_needs: String::new(),
            };
            signed
                .navigation(&Here::Asks)
                .into_iter()
                .map(|entry| (entry.path, entry.current, entry.waiting))
                .collect::<Vec<_>>()
        };
        assert!(
            paths(true).contains(&("/plugins", false, 0))
                && paths(true).contains(&("/attention", true, 1))
                && paths(true).contains(&("/attention?tab=drafts", false, 3))
        );
        assert!(paths(false).iter().all(|(path, ..)| *path != "/plugins"));
    }

    #[test]
    fn a_setting_is_told_in_its_largest_whole_unit() {
        for (seconds, words) in [
            (43_200, "12 hours"),
            (60, "1 minute"),
            (90, "90 seconds"),
            (172_800, "2 days"),
            (0, "0 seconds"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), words);
        }
    }

    #[test]
    fn only_a_path_of_this_site_is_followed() {
        for good in [
            "/",
            "/plugins",
            "/attention?tab=drafts#draft-7",
            "/chief/conversations/3?before=9",
        ] {
            assert_eq!(own_path(Some(good)), good);
        }
        let long = format!("/{}", "a".repeat(2048));
        for bad in [
            "",
            "plugins",
            "//evil.example",
            "/\\evil.example",
            "/a\\b",
            "https://evil.example/",
            "/a b",
            "/\r\nSet-Cookie: a=b",
            "/\t/evil.example",
            "/é",
            "javascript:alert(1)",
            long.as_str(),
        ] {
            assert_eq!(own_path(Some(bad)), "/", "{bad:?}");
        }
        assert_eq!(own_path(None), "/");
    }

    #[test]
    fn a_query_value_holds_nothing_that_ends_it() {
        assert_eq!(
            query_value("/attention?tab=drafts#draft-1&x=é"),
            "/attention%3Ftab%3Ddrafts%23draft-1%26x%3D%C3%A9"
        );
    }

    #[test]
    fn outside_text_keeps_its_lines_and_hides_nothing() {
        assert_eq!(lines("a\r\nb\nc\td"), "a\nb\nc\td");
        assert_eq!(lines("a\rb"), "a\\u{d}\nb");
        assert_eq!(
            lines("x\u{2028}y\u{202e}z\u{200b}\u{1b}[31m"),
            "x\\u{2028}\ny\\u{202e}z\\u{200b}\\u{1b}[31m"
        );
        assert_eq!(one_line("a\nb\u{202e}"), "a\\nb\\u{202e}");
    }

    #[test]
    fn a_sender_nobody_proved_is_marked_whatever_it_says() {
        let shown = Sender::new(Some("Bob \u{202e}(verified)"), false);
        assert_eq!(
            (shown.name.as_str(), shown.mark),
            ("Bob \\u{202e}(verified)", Some(fence::UNVERIFIED))
        );
        assert!(Sender::new(Some("Bob"), true).mark.is_none());
        assert_eq!(Sender::new(None, false).name, "(no sender given)");
    }
}
