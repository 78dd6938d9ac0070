//! A draft as its card shows it: the message in a box of its own, the reply as it will be sent, the times. Pure; never decides.

use std::time::Duration;

use muster_app::drafts::{Card, DraftState};
use muster_core::clock::Time;
use muster_core::spell;
use muster_core::text::{spell_char, unseen};

use super::view::{Sender, When, counted_len, lines, one_line};

/// Everything a card shows. What came from outside is already readable; the template escapes it.
#[derive(Debug, Clone)]
pub(super) struct CardView {
    pub(super) id: i64,
    pub(super) state: DraftState,
    pub(super) connector: String,
    pub(super) connector_revoked: bool,
    pub(super) message: MessageView,
    /// The reply as [`spell::spell`] writes it.
    pub(super) reply: String,
    /// The reply as who gets it reads it, where that looks otherwise than `reply`. `reply` is what counts.
    pub(super) as_read: Option<String>,
    pub(super) length: String,
    /// An earlier reply to the same message may have gone out.
    pub(super) maybe_twice: bool,
    pub(super) written: When,
    /// When it expires; of one that no longer can, nothing.
    pub(super) expires: Option<When>,
    pub(super) approved: Option<When>,
    pub(super) collected: Option<When>,
    /// Until when the connector that collected it may report; of one that was reported, nothing.
    pub(super) lease: Option<When>,
    /// How it came to its end, and when.
    pub(super) ended: Option<Ended>,
    pub(super) external_ref: Option<String>,
    pub(super) detail: Option<String>,
    pub(super) decided_via: Option<String>,
    pub(super) superseded_by: Option<i64>,
    /// What became of it, in a sentence.
    pub(super) outcome: &'static str,
}

/// The end of a draft.
#[derive(Debug, Clone)]
pub(super) struct Ended {
    pub(super) how: &'static str,
    pub(super) at: When,
}

/// The message a draft answers.
#[derive(Debug, Clone)]
pub(super) struct MessageView {
    pub(super) id: i64,
    pub(super) sender: Sender,
    pub(super) verified: bool,
    pub(super) subject: Option<String>,
    pub(super) text: String,
    pub(super) received: Option<When>,
    pub(super) stored: When,
}

impl CardView {
    pub(super) fn new(card: Card, now: Time) -> Self {
        let message = card.message;
        Self {
            outcome: outcome(card.state, card.approved_at.is_some()),
            id: card.id.get(),
            state: card.state,
            connector: one_line(&card.plugin_label),
            connector_revoked: card.plugin_revoked,
            message: MessageView {
                id: message.id.get(),
                sender: Sender::new(message.sender.as_deref(), message.sender_verified),
                verified: message.sender_verified,
                subject: message
                    .subject
                    .as_deref()
                    .filter(|subject| !subject.is_empty())
                    .map(one_line),
                text: lines(&message.body),
                received: When::maybe(message.received_at, now),
                stored: When::new(message.stored_at, now),
            },
            as_read: as_read(&card.body),
            reply: spell::spell(&card.body),
            length: counted_len(spell::characters(&card.body), "character"),
            maybe_twice: card.unconfirmed_replies > 0,
            written: When::new(card.created_at, now),
            expires: may_expire(card.state, card.claimed_at.is_some())
                .then(|| When::new(card.expires_at, now)),
            approved: When::maybe(card.approved_at, now),
            collected: When::maybe(card.claimed_at, now),
            lease: awaits_report(card.state)
                .then(|| When::maybe(card.lease_until, now))
                .flatten(),
            ended: how_ended(card.state, card.approved_at.is_some())
                .zip(card.ended_at)
                .map(|(how, at)| Ended {
                    how,
                    at: When::new(at, now),
                }),
            external_ref: card.external_ref.as_deref().map(one_line),
            detail: card.detail.as_deref().map(lines),
            decided_via: card.decided_via.as_deref().map(one_line),
            superseded_by: card.superseded_by.map(muster_core::ids::DraftId::get),
        }
    }

    pub(super) fn pending(&self) -> bool {
        self.state == DraftState::Pending
    }

    pub(super) fn approved_and_waiting(&self) -> bool {
        self.state == DraftState::Approved && self.collected.is_none()
    }

    pub(super) fn with_the_connector(&self) -> bool {
        self.state == DraftState::Approved && self.collected.is_some()
    }

    pub(super) fn state_word(&self) -> &'static str {
        match self.state {
            DraftState::Approved if self.collected.is_some() => "collected",
            state => state.as_str(),
        }
    }
}

/// `body` as its reader sees it, if anything in it is spelled on the card: letters and lines as themselves. What cannot be seen, a tab
/// and what turns text around included, stays spelled out here too.
fn as_read(body: &str) -> Option<String> {
    if spell::spell(body) == body {
        return None;
    }
    let mut out = String::with_capacity(body.len());
    for c in body.chars() {
        if c != '\n' && unseen(c).is_some() {
            spell_char(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Some(out)
}

/// Whether time can still end a draft: it waits, and nobody has collected it.
const fn may_expire(state: DraftState, collected: bool) -> bool {
    match state {
        DraftState::Pending => true,
        DraftState::Approved => !collected,
        DraftState::Sent
        | DraftState::Failed
        | DraftState::Unconfirmed
        | DraftState::Rejected
        | DraftState::Superseded
        | DraftState::Expired => false,
    }
}

/// Whether a report is, or was, awaited and did not come.
const fn awaits_report(state: DraftState) -> bool {
    matches!(state, DraftState::Approved | DraftState::Unconfirmed)
}

/// What the moment is called at which a draft came to its end; nothing of one that has not.
const fn how_ended(state: DraftState, approved: bool) -> Option<&'static str> {
    match (state, approved) {
        // A late report may still come about one that nobody reported.
        (DraftState::Pending | DraftState::Approved | DraftState::Unconfirmed, _) => None,
        (DraftState::Sent, _) => Some("Reported sent"),
        (DraftState::Failed, _) => Some("Reported not sent"),
        (DraftState::Rejected, false) => Some("Rejected"),
        (DraftState::Rejected, true) => Some("Approval withdrawn"),
        (DraftState::Superseded, _) => Some("Superseded"),
        (DraftState::Expired, _) => Some("Expired"),
    }
}

/// What became of a draft.
const fn outcome(state: DraftState, approved: bool) -> &'static str {
    match (state, approved) {
        (DraftState::Pending, _) => "It awaits your decision.",
        (DraftState::Approved, _) => "You approved it.",
        (DraftState::Sent, _) => "The connector reported that it was sent.",
        (DraftState::Failed, _) => "The connector reported that it was not sent.",
        (DraftState::Unconfirmed, _) => {
            "The connector collected it and never reported a result. It may have been sent; it is never offered again."
        }
        (DraftState::Rejected, false) => "You rejected it. Nothing was sent.",
        (DraftState::Rejected, true) => {
            "You withdrew the approval before a connector collected it. Nothing was sent."
        }
        (DraftState::Superseded, _) => {
            "Another reply to the same message took its place. This one was not sent."
        }
        (DraftState::Expired, _) => "It was not sent within 7 days of being written, so it no longer can be.",
    }
}

/// Whether a sign-in of this age is asked to confirm before it approves. The app decides; the card only tells beforehand.
pub(super) fn asks_first(signed_in_at: Time, now: Time, window: Duration) -> bool {
    now.since(signed_in_at) > window
}

#[cfg(test)]
pub(super) mod samples {
    use muster_app::drafts::CardMessage;
    use muster_core::ids::{DraftId, MessageId};

    use super::*;
    use crate::pages::tests::HOSTILE;

    pub(crate) fn now() -> Time {
        Time::parse_rfc3339("2026-03-04T05:06:07Z").unwrap()
    }

    /// A draft in `state`, with every outside field hostile.
    pub(crate) fn card(state: DraftState, body: &str) -> Card {
        let (now, hour) = (now(), Duration::from_secs(3_600));
        let approved = !matches!(state, DraftState::Pending | DraftState::Rejected);
        let collected = matches!(
            state,
            DraftState::Sent | DraftState::Failed | DraftState::Unconfirmed
        );
        let hostile = || Some(HOSTILE.to_owned());
        Card {
            id: DraftId::new(7),
            state,
            body: body.to_owned(),
            message: CardMessage {
                id: MessageId::new(5),
                sender: hostile(),
                sender_verified: false,
                subject: hostile(),
                body: format!("{HOSTILE}\nsecond line"),
                received_at: Some(now.minus(hour)),
                stored_at: now.minus(hour),
            },
            plugin_label: HOSTILE.to_owned(),
            plugin_revoked: false,
            created_at: now.minus(hour),
            expires_at: now.plus(hour * 24 * 6),
            approved_at: approved.then_some(now),
            claimed_at: collected.then_some(now),
            lease_until: collected.then_some(now.plus(Duration::from_secs(120))),
            ended_at: super::how_ended(state, false).is_some().then_some(now),
            external_ref: hostile(),
            detail: hostile(),
            decided_via: Some("browser".to_owned()),
            superseded_by: (state == DraftState::Superseded).then_some(DraftId::new(8)),
            unconfirmed_replies: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_a_word_and_a_sentence_of_its_own() {
        let mut sentences = std::collections::BTreeSet::new();
        for state in DraftState::ALL {
            let view = CardView::new(samples::card(state, "x"), samples::now());
            assert!(!view.state_word().is_empty());
            sentences.insert(view.outcome);
        }
        assert_eq!(sentences.len(), DraftState::ALL.len());
        assert_ne!(
            outcome(DraftState::Rejected, true),
            outcome(DraftState::Rejected, false)
        );
    }

    #[test]
    fn the_readers_look_shows_letters_and_lines_and_still_hides_nothing() {
        assert_eq!(as_read("Yes, noon works. (a\\b)"), None, "nothing is spelled");
        assert_eq!(
            as_read("Grüße, 明日。\n\nשלום").as_deref(),
            Some("Grüße, 明日。\n\nשלום")
        );
        assert_eq!(
            as_read("a\u{202e}b\u{2066}c\u{200b}d\te\u{1b}f\rg\u{2028}h\u{e0041}").as_deref(),
            Some("a\\u{202e}b\\u{2066}c\\u{200b}d\\u{9}e\\u{1b}f\\u{d}g\\u{2028}h\\u{e0041}")
        );
    }

    #[test]
    fn an_old_sign_in_is_told_beforehand() {
        let (now, window) = (samples::now(), Duration::from_secs(60));
        assert!(!asks_first(now.minus(window), now, window));
        assert!(asks_first(now.minus(window * 2), now, window));
    }
}
