//! `/attention?tab=drafts`: the reply drafts' cards and what the owner decides about them. Never approves without the app's own check of the sign-in.

use askama::Template;
use axum::extract::{Extension, State};
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use muster_app::App;
use muster_app::accounts::BrowserCaller;
use muster_app::drafts::{self, Card, DecideRefusal, Decider, Page};
use muster_core::Fault;
use muster_core::clock::Time;
use muster_core::ids::{AskId, DraftId, OwnerId};
use serde::Deserialize;

use super::caller::Person;
use super::card::{CardView, asks_first};
use super::fields::{Asked, Id};
use super::flash::{Flash, Opened};
use super::view::{self, Here, PAGE, Shell, counted_len, see_other, span};
use super::{asks, confirm, refuse};
use crate::Web;

/// How often the page looks at most until nothing ends under its eyes. After the last look it shows what it has: each draft once.
const LOOKS: u32 = 4;

#[derive(Template)]
#[template(path = "drafts.html")]
pub(super) struct DraftsPage {
    shell: Shell,
    /// Those that await the owner, newest first.
    pending: Vec<CardView>,
    /// Those that are approved and not yet reported.
    on_the_way: Vec<CardView>,
    archive: ArchiveView,
    /// Whether approving asks for the password or a passkey first.
    asks_first: bool,
    window: String,
    spoken: String,
}

#[derive(Template)]
#[template(path = "archive.html")]
pub(super) struct ArchivePage {
    shell: Shell,
    archive: ArchiveView,
}

/// A page of the decided drafts.
struct ArchiveView {
    cards: Vec<CardView>,
    /// Where older ones begin.
    older: Option<i64>,
}

impl ArchiveView {
    fn new(page: Page, now: Time) -> Self {
        Self {
            older: page.older.map(DraftId::get),
            cards: page
                .cards
                .into_iter()
                .map(|card| CardView::new(card, now))
                .collect(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Which {
    tab: Option<String>,
    archived: Option<String>,
    ended: Option<String>,
    before: Option<String>,
}

pub(super) async fn show(
    State(web): State<Web>,
    Person(caller): Person,
    Extension(flash): Extension<Flash>,
    opened: Opened,
    headers: HeaderMap,
    Asked(which): Asked<Which>,
) -> Result<Response, Response> {
    match which.tab.as_deref() {
        None | Some("asks") => match (which.ended.as_deref(), which.before.as_deref().map(str::parse)) {
            (None, _) => asks::open(&web, &caller, &flash, opened).await,
            (Some("1"), None) => asks::ended(&web, &caller, AskId::new(i64::MAX)).await,
            (Some("1"), Some(Ok(before))) => asks::ended(&web, &caller, before).await,
            _ => Err(refuse::not_found(&headers)),
        },
        Some("drafts") => match (which.archived.as_deref(), which.before.as_deref().map(str::parse)) {
            (None, None) => open(&web, &caller).await,
            (Some("1"), None) => archived(&web, &caller, DraftId::new(i64::MAX)).await,
            (Some("1"), Some(Ok(before))) => archived(&web, &caller, before).await,
            _ => Err(refuse::not_found(&headers)),
        },
        Some(_) => Err(refuse::not_found(&headers)),
    }
}

async fn open(web: &Web, caller: &BrowserCaller) -> Result<Response, Response> {
    let now = web.app.clock.now();
    let (cards, page) = at_once(&web.app, caller.owner)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    // After the look at the drafts, which clears the notices of those that expired.
    let shell = Shell::of(web, caller, Here::Drafts, "Reply drafts").await?;
    let (pending, on_the_way): (Vec<_>, Vec<_>) = cards
        .into_iter()
        .map(|card| CardView::new(card, now))
        .partition(CardView::pending);
    let window = web.app.settings.stepup_window;
    let page = DraftsPage {
        shell,
        spoken: spoken(pending.len()),
        pending,
        on_the_way,
        archive: ArchiveView::new(page, now),
        asks_first: asks_first(caller.signed_in_at, now, window),
        window: span(window),
    };
    Ok(view::page(StatusCode::OK, &page))
}

/// The open drafts and the newest that have ended, each draft in one of the two.
///
/// They are two reads, and a draft can come to its end between them: a connector reports within milliseconds of an approval. No draft goes
/// the other way, so one that was found in both has ended, and what else is open is then read again with it.
async fn at_once(app: &App, owner: OwnerId) -> Result<(Vec<Card>, Page), Fault> {
    let mut looks_left = LOOKS;
    loop {
        let mut open = drafts::open(app, owner).await?;
        let ended = drafts::archived(app, owner, DraftId::new(i64::MAX), PAGE).await?;
        looks_left -= 1;
        if without_the_ended(&mut open, &ended) == 0 || looks_left == 0 {
            return Ok((open, ended));
        }
    }
}

/// Takes out of `open` what has ended meanwhile; answers how many.
fn without_the_ended(open: &mut Vec<Card>, ended: &Page) -> usize {
    let before = open.len();
    open.retain(|card| ended.cards.iter().all(|other| other.id != card.id));
    before - open.len()
}

fn spoken(pending: usize) -> String {
    match pending {
        0 => "No reply draft awaits you.".to_owned(),
        1 => "1 reply draft awaits you.".to_owned(),
        many => format!("{} await you.", counted_len(many, "reply draft")),
    }
}

async fn archived(web: &Web, caller: &BrowserCaller, before: DraftId) -> Result<Response, Response> {
    let now = web.app.clock.now();
    let page = drafts::archived(&web.app, caller.owner, before, PAGE)
        .await
        .map_err(|fault| refuse::fault(&fault))?;
    let shell = Shell::of(web, caller, Here::Drafts, "Archived reply drafts").await?;
    Ok(view::page(
        StatusCode::OK,
        &ArchivePage {
            shell,
            archive: ArchiveView::new(page, now),
        },
    ))
}

pub(super) async fn approve(
    State(web): State<Web>,
    Person(caller): Person,
    Id(draft): Id<DraftId>,
) -> Response {
    decided(
        draft,
        drafts::approve(&web.app, &Decider::Browser(caller), draft).await,
    )
}

pub(super) async fn reject(
    State(web): State<Web>,
    Person(caller): Person,
    Id(draft): Id<DraftId>,
) -> Response {
    decided(
        draft,
        drafts::reject(&web.app, &Decider::Browser(caller), draft).await,
    )
}

pub(super) async fn withdraw(
    State(web): State<Web>,
    Person(caller): Person,
    Id(draft): Id<DraftId>,
) -> Response {
    decided(
        draft,
        drafts::withdraw(&web.app, &Decider::Browser(caller), draft).await,
    )
}

/// Back to the card; by way of a confirmation when the sign-in was too old, with nothing approved.
fn decided(draft: DraftId, result: Result<(), DecideRefusal>) -> Response {
    let card = format!("/attention?tab=drafts#draft-{draft}");
    match result {
        Ok(()) => see_other(&card),
        Err(DecideRefusal::ConfirmFirst) => confirm::first(&card),
        Err(refusal) => refuse::decision(&refusal),
    }
}

#[cfg(test)]
mod samples {
    use muster_app::drafts::DraftState;

    use super::super::card::samples::{card, now};
    use super::super::tests::{HOSTILE, shell};
    use super::*;

    pub(super) fn page(cards: Vec<Card>) -> DraftsPage {
        let (open, ended): (Vec<_>, Vec<_>) = cards
            .into_iter()
            .map(|card| CardView::new(card, now()))
            .partition(|card| matches!(card.state, DraftState::Pending | DraftState::Approved));
        let (pending, on_the_way): (Vec<_>, Vec<_>) = open.into_iter().partition(CardView::pending);
        DraftsPage {
            shell: Shell::bare("Reply drafts"),
            spoken: spoken(pending.len()),
            pending,
            on_the_way,
            archive: ArchiveView {
                cards: ended,
                older: Some(7),
            },
            asks_first: true,
            window: "12 hours".to_owned(),
        }
    }

    impl DraftsPage {
        pub(in crate::pages) fn samples() -> Vec<Self> {
            let mut cards = DraftState::ALL.map(|state| card(state, HOSTILE)).to_vec();
            for (id, card) in (10..).zip(&mut cards) {
                card.id = DraftId::new(id);
            }
            let mut revoked = card(DraftState::Approved, HOSTILE);
            (revoked.plugin_revoked, revoked.id) = (true, DraftId::new(9));
            let mut twice = card(DraftState::Pending, HOSTILE);
            (
                twice.unconfirmed_replies,
                twice.message.sender_verified,
                twice.plugin_revoked,
            ) = (1, true, true);
            let all = [page(cards), page(vec![revoked, twice]), page(vec![])];
            all.into_iter()
                .map(|page| Self {
                    shell: shell(Here::Drafts),
                    ..page
                })
                .collect()
        }
    }

    impl ArchivePage {
        pub(in crate::pages) fn samples() -> Vec<Self> {
            let all = || DraftsPage::samples().into_iter().map(|page| page.archive);
            all()
                .map(|archive| Self {
                    shell: shell(Here::Drafts),
                    archive,
                })
                .collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use askama::Template as _;
    use http::header::LOCATION;
    use muster_app::drafts::DraftState;
    use muster_core::fence::UNVERIFIED;

    use super::super::card::samples::{card, now};
    use super::super::tests::HOSTILE;
    use super::samples::page;
    use super::*;

    fn html(card: Card) -> String {
        page(vec![card]).render().unwrap()
    }

    /// As askama escapes it.
    fn escaped(text: &str) -> String {
        text.replace('&', "&#38;")
            .replace('<', "&#60;")
            .replace('>', "&#62;")
            .replace('"', "&#34;")
            .replace('\'', "&#39;")
    }

    // spec: DRF-037 UIP-017
    #[test]
    fn the_message_stands_escaped_in_its_own_box_labelled_untrusted() {
        let html = html(card(DraftState::Pending, "x"));
        assert!(
            html.contains("Untrusted") && html.contains(UNVERIFIED) && html.contains("unverified sender")
        );
        assert!(html.contains("&#60;script&#62;") && !html.contains("<script>"));
        assert!(
            html.contains("\\u{202e}") && !html.contains('\u{202e}'),
            "what turns text around is spelled out"
        );
        assert!(html.contains("\nsecond line"), "lines stay lines");
    }

    // spec: DRF-038..DRF-042
    #[test]
    fn the_reply_is_shown_exactly_as_it_will_be_sent_with_its_length() {
        let printable: String = (' '..='~').collect();
        let shown = html(card(DraftState::Pending, &printable));
        assert!(shown.contains(&format!(">{}<", escaped(&printable))) && shown.contains("95 characters"));
        let shown = html(card(DraftState::Pending, "café\nx\\n"));
        assert!(shown.contains("caf\\u{e9}\\nx\\\\n") && shown.contains("8 characters"));
    }

    #[test]
    fn a_spelled_reply_can_also_be_read_as_its_reader_will_and_hides_nothing_there() {
        let shown = html(card(DraftState::Pending, "Café <b>\n\u{202e}שלום"));
        let (spelled, read) = shown.split_once("As the reader will see it").unwrap();
        assert!(
            spelled.contains(&escaped("Caf\\u{e9} <b>\\n\\u{202e}\\u{5e9}")),
            "{spelled}"
        );
        assert!(
            read.contains(&format!(
                "<pre class=\"reply-read\" dir=\"auto\">{}</pre>",
                escaped("Café <b>\n\\u{202e}שלום")
            )),
            "{read}"
        );
        assert!(!shown.contains('\u{202e}') && !shown.contains("<b>"));
        let plain = html(card(DraftState::Pending, "Yes, noon works."));
        assert!(
            !plain.contains("As the reader will see it"),
            "nothing was spelled"
        );
    }

    // spec: UIP-018 DRF-047
    #[test]
    fn only_what_can_be_done_is_offered() {
        let offers = |card: Card| {
            let html = html(card);
            ["approve", "reject", "withdraw"]
                .map(|act| html.contains(&format!("/attention/drafts/7/{act}\"")))
        };
        assert_eq!(offers(card(DraftState::Pending, "x")), [true, true, false]);
        assert_eq!(offers(card(DraftState::Approved, "x")), [false, false, true]);
        let collected = |state| {
            let mut card = card(state, "x");
            (card.claimed_at, card.lease_until) =
                (Some(now()), Some(now().plus(std::time::Duration::from_secs(120))));
            card
        };
        assert_eq!(offers(collected(DraftState::Approved)), [false, false, false]);
        assert!(
            html(collected(DraftState::Approved)).contains("in 2 minutes"),
            "until when it is the connector's"
        );
        let mut revoked = card(DraftState::Pending, "x");
        revoked.plugin_revoked = true;
        assert_eq!(offers(revoked), [false, true, false], "nobody could collect it");
        for state in DraftState::ALL
            .into_iter()
            .filter(|state| !matches!(state, DraftState::Pending | DraftState::Approved))
        {
            assert_eq!(offers(card(state, "x")), [false, false, false], "{state:?}");
        }
    }

    // spec: DRF-052
    #[test]
    fn a_pending_card_says_when_the_sender_may_get_both() {
        let mut twice = card(DraftState::Pending, "x");
        assert!(!html(twice.clone()).contains("may get both"));
        twice.unconfirmed_replies = 1;
        assert!(html(twice).contains("may get both"));
    }

    #[test]
    fn a_card_of_a_revoked_connector_says_that_nobody_can_collect() {
        let mut revoked = card(DraftState::Pending, "x");
        revoked.plugin_revoked = true;
        assert!(html(revoked).contains("nobody can collect"));
    }

    // spec: DRF-081
    #[test]
    fn the_archive_tells_the_state_the_times_and_the_connectors_words() {
        for state in DraftState::ALL
            .into_iter()
            .filter(|state| !matches!(state, DraftState::Pending | DraftState::Approved))
        {
            let html = html(card(state, "x"));
            assert!(
                html.contains("Archived")
                    && html.contains(state.as_str())
                    && html.contains("The connector’s own words"),
                "{state:?}"
            );
            assert!(html.contains(&escaped(&view::one_line(HOSTILE))));
        }
    }

    /// A card in each state, with the two that the state's word does not tell apart.
    fn every_kind() -> Vec<(&'static str, Card)> {
        let mut all = DraftState::ALL
            .map(|state| (state.as_str(), card(state, "x")))
            .to_vec();
        let mut collected = card(DraftState::Approved, "x");
        (collected.claimed_at, collected.lease_until) =
            (Some(now()), Some(now().plus(std::time::Duration::from_secs(120))));
        let mut withdrawn = card(DraftState::Rejected, "x");
        withdrawn.approved_at = Some(now());
        all.extend([("collected", collected), ("withdrawn", withdrawn)]);
        all
    }

    // spec: DRF-081
    #[test]
    fn a_card_says_when_it_expires_only_while_it_can_and_then_what_happened_instead() {
        let ends = [
            "Reported sent",
            "Reported not sent",
            "Rejected",
            "Approval withdrawn",
            "Superseded",
            "Expired",
            "No report by",
        ];
        let mut seen = 0;
        for (kind, card) in every_kind() {
            let (expiry, says) = match kind {
                "pending" | "approved" => (true, None),
                "collected" => (false, None),
                "sent" => (false, Some("Reported sent")),
                "failed" => (false, Some("Reported not sent")),
                "unconfirmed" => (false, Some("No report by")),
                "rejected" => (false, Some("Rejected")),
                "withdrawn" => (false, Some("Approval withdrawn")),
                "superseded" => (false, Some("Superseded")),
                "expired" => (false, Some("Expired")),
                other => panic!("{other} has no sentence"),
            };
            let expires = view::When::new(card.expires_at, now()).to_string();
            let html = html(card);
            assert_eq!(html.contains(&expires), expiry, "{kind}: {html}");
            assert_eq!(html.contains(", expires "), expiry, "{kind}: {html}");
            for end in ends {
                assert_eq!(
                    html.contains(&format!("<dt>{end}</dt>")),
                    says == Some(end),
                    "{kind}: {end}: {html}"
                );
            }
            let to_come = html.contains("exactly as it will be sent");
            assert_eq!(to_come, says.is_none(), "{kind}: what has ended is not to come");
            assert_eq!(html.contains("Its time to report"), kind == "collected", "{kind}");
            assert_eq!(
                html.contains("No connector has collected it yet"),
                kind == "approved",
                "{kind}"
            );
            seen += 1;
        }
        assert_eq!(seen, DraftState::ALL.len() + 2);
    }

    // spec: DRF-044 DRF-045
    #[test]
    fn an_old_sign_in_is_led_to_the_confirmation_and_back_to_the_card() {
        let to = |result| {
            decided(DraftId::new(7), result)
                .headers()
                .get(LOCATION)
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(to(Ok(())), "/attention?tab=drafts#draft-7");
        assert_eq!(
            to(Err(DecideRefusal::ConfirmFirst)),
            "/confirm?next=/attention%3Ftab%3Ddrafts%23draft-7"
        );
        assert_eq!(
            decided(DraftId::new(7), Err(DecideRefusal::Collected)).status(),
            StatusCode::CONFLICT
        );
    }
}
