//! Claims approved replies, hands each over once and reports what became of it. Never sends a draft_id twice, whatever happens between.

use std::collections::BTreeSet;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::error::ConnectorError;
use crate::handover::{self, DETAIL_LIMIT, InOutbox, Outcome, Sendmail};
use crate::options::Way;
use crate::pace::{Backoff, Stop};
use crate::server::{Answer, Claimed, LONGEST_CLAIM, Reported, ResultBody};
use crate::state::{DraftRecord, DraftStage, State};
use crate::text::{cut_bytes, hex, one_line};
use crate::{Connector, ambient, reply};

/// While a result could not be reported, a claim waits only this long, so that the result is tried again soon.
const SHORT_CLAIM: u64 = 5;
/// muster hands queued mails to the chief at the start of a claim and at no other time. While some may wait for a chief that was busy when
/// they were posted, claims are short, so that the next one comes soon.
const BRISK_CLAIM: u64 = 3;
/// How long after a mail was posted claims stay short.
const BRISK: Duration = Duration::from_secs(60);
/// How long a report may still take when it is time to stop.
const GRACE: Duration = Duration::from_secs(5);
/// Longest reference that muster takes, in characters.
const REFERENCE_LIMIT: usize = 200;
/// Attempts of a single pass before it ends with an error.
const ONCE_ATTEMPTS: u32 = 3;

/// Settles what an earlier process left open, by what can be proven. Needs no network.
pub(crate) fn recover(state: &State) -> Result<(), ConnectorError> {
    for mut record in state.open_drafts()? {
        let draft_id = record.draft_id;
        let found = match (record.stage, &record.outbox) {
            (DraftStage::Failed, Some((outbox, name))) => {
                // The kill came between the word and the clearing.
                handover::clear_unfinished(outbox, name)?;
                continue;
            }
            (DraftStage::Sent | DraftStage::Failed, _) => continue,
            (DraftStage::Intent, _) => InOutbox::Unfinished,
            (DraftStage::Handing, Some((outbox, name))) => handover::find_in_outbox(outbox, name)?,
            (DraftStage::Handing, None) => InOutbox::Nowhere,
        };
        match found {
            InOutbox::Delivered => record.stage = DraftStage::Sent,
            InOutbox::Unfinished => {
                record.stage = DraftStage::Failed;
                "Nothing was sent: the connector was stopped before it handed the reply over."
                    .clone_into(&mut record.detail);
            }
            InOutbox::Nowhere => {
                tracing::error!(
                    draft_id,
                    "this reply may have been sent before the connector was stopped; it is not sent again and nothing is reported"
                );
                state.give_up(draft_id)?;
                continue;
            }
        }
        state.record_draft(&record)?;
        if let (DraftStage::Failed, Some((outbox, name))) = (record.stage, &record.outbox) {
            handover::clear_unfinished(outbox, name)?;
        }
    }
    Ok(())
}

/// The loop of claims.
pub(crate) struct Outbound<'c> {
    connector: &'c Connector,
    stop: Stop,
    backoff: Backoff,
    /// Replies that muster said it does not know. A later claim tells whether that was the reply or the whole door.
    doubtful: BTreeSet<u64>,
}

/// What follows a claim.
enum Next {
    Claim,
    Pause(Duration),
    /// There was nothing to claim.
    Idle,
}

impl<'c> Outbound<'c> {
    pub(crate) fn new(connector: &'c Connector, stop: Stop) -> Self {
        Self {
            connector,
            stop,
            backoff: Backoff::new(),
            doubtful: BTreeSet::new(),
        }
    }

    /// Claims until it is time to stop.
    pub(crate) async fn watch(&mut self) -> Result<(), ConnectorError> {
        loop {
            let settled = self.report_open(false).await?;
            if self.stop.is_set() {
                return Ok(());
            }
            let wait = match settled {
                _ if self.connector.since_posted() < BRISK => BRISK_CLAIM,
                true => LONGEST_CLAIM,
                false => SHORT_CLAIM,
            };
            let started = Instant::now();
            let pause = match self.claim(wait).await? {
                Next::Claim => continue,
                Next::Pause(pause) => pause,
                // A server that answers at once instead of waiting must not be asked in a tight loop.
                Next::Idle if started.elapsed() < Duration::from_secs(wait) / 2 => Duration::from_secs(1),
                Next::Idle => continue,
            };
            if self.stop.sleep(pause).await {
                return Ok(());
            }
        }
    }

    /// Takes every reply that is ready, then ends.
    pub(crate) async fn pass(&mut self) -> Result<(), ConnectorError> {
        let mut troubles = 0_u32;
        loop {
            let settled = self.report_open(false).await?;
            let pause = match self.claim(0).await? {
                Next::Claim => continue,
                Next::Idle if settled || self.report_open(false).await? => return Ok(()),
                Next::Idle => self.backoff.wait(),
                Next::Pause(pause) => pause,
            };
            troubles = troubles.saturating_add(1);
            if troubles >= ONCE_ATTEMPTS {
                return Err(ConnectorError::Unreachable(
                    "replies or their results are still open",
                ));
            }
            if self.stop.sleep(pause).await {
                return Ok(());
            }
        }
    }

    async fn claim(&mut self, wait: u64) -> Result<Next, ConnectorError> {
        let answer = tokio::select! {
            answer = self.connector.server.claim(wait) => answer,
            // A reply that is leased in this very moment lapses to unconfirmed; it is never sent.
            () = self.stop.wait() => return Ok(Next::Idle),
        };
        match answer {
            Answer::Good(claimed) => {
                self.backoff = Backoff::new();
                if !self.doubtful.is_empty() {
                    // The door is open, so a reply that muster still does not know is settled.
                    self.report_open(true).await?;
                }
                let Some(claimed) = claimed else {
                    return Ok(Next::Idle);
                };
                self.take(&claimed).await
            }
            Answer::Wait(pause) => Ok(Next::Pause(pause)),
            Answer::Stop(error) => Err(error),
            Answer::Refused(_) => Ok(Next::Pause(self.backoff.wait())),
            Answer::Trouble(trouble) => {
                let pause = self.backoff.wait();
                let millis = pause.as_millis();
                tracing::warn!(reason = trouble.words(), millis, "no reply claimed; trying again");
                Ok(Next::Pause(pause))
            }
        }
    }

    /// Sends one claimed reply, unless its number was ever taken before.
    async fn take(&mut self, claimed: &Claimed) -> Result<Next, ConnectorError> {
        let state = &self.connector.state;
        let draft_id = claimed.draft_id;
        if let Some(known) = state.draft(draft_id)? {
            self.offered_again(known, claimed).await?;
            // muster never does this, so whoever does must not be asked in a tight loop.
            return Ok(Next::Pause(Duration::from_secs(1)));
        }
        let chance = ambient::chance();
        let from = &self.connector.settings.from;
        let outbox = match &self.connector.settings.way {
            Way::Outbox(outbox) => Some((outbox.clone(), handover::outbox_name(draft_id, chance))),
            Way::Sendmail { .. } => None,
        };
        let mut record = DraftRecord {
            draft_id,
            external_id: claimed.message_external_id.clone(),
            message_id: reply::message_id(draft_id, chance, from),
            body_sha256: body_hash(claimed),
            outbox,
            stage: DraftStage::Intent,
            detail: String::new(),
        };
        // From here on this number is taken, whatever happens to the process.
        state.record_draft(&record)?;
        match self.send(&mut record, claimed).await? {
            Outcome::Sent => record.stage = DraftStage::Sent,
            Outcome::NotSent(detail) => {
                record.stage = DraftStage::Failed;
                cut_bytes(&detail, DETAIL_LIMIT).clone_into(&mut record.detail);
            }
            Outcome::Unknown(reason) => {
                tracing::error!(
                    draft_id,
                    reason,
                    "this reply may have been sent; nothing is reported, it lapses to unconfirmed"
                );
                state.give_up(draft_id)?;
                return Ok(Next::Claim);
            }
        }
        if record.stage == DraftStage::Sent {
            tracing::info!(draft_id, "reply sent");
        } else {
            // One line: the mail program's words may have several.
            tracing::warn!(draft_id, reason = one_line(&record.detail), "reply not sent");
        }
        state.record_draft(&record)?;
        Ok(Next::Claim)
    }

    async fn send(&self, record: &mut DraftRecord, claimed: &Claimed) -> Result<Outcome, ConnectorError> {
        let state = &self.connector.state;
        let settings = &self.connector.settings;
        let Some(mail) = state.mail(&record.external_id)? else {
            return Ok(Outcome::NotSent(
                "Nothing was sent: the connector's state folder has no record of the mail that this answers."
                    .to_owned(),
            ));
        };
        let date = ambient::system_time(ambient::now());
        let composed = reply::compose(
            &mail.reply,
            &settings.from,
            &record.message_id,
            &claimed.body,
            date,
        );
        let bytes = match composed {
            Ok(bytes) => bytes,
            Err(error) => return Ok(Outcome::NotSent(error.to_string())),
        };
        match (&settings.way, record.outbox.clone()) {
            (Way::Outbox(_), Some((outbox, name))) => handover::into_outbox(&outbox, &name, &bytes, || {
                record.stage = DraftStage::Handing;
                state.record_draft(record)
            }),
            (
                Way::Sendmail {
                    program,
                    arguments,
                    limit,
                },
                _,
            ) => {
                record.stage = DraftStage::Handing;
                state.record_draft(record)?;
                let sendmail = Sendmail {
                    program,
                    arguments,
                    limit: *limit,
                };
                Ok(sendmail.send(&mail.reply.recipients, &bytes).await)
            }
            (Way::Outbox(_), None) => Ok(Outcome::NotSent(
                "Nothing was sent: there is no outbox.".to_owned(),
            )),
        }
    }

    /// A number that was taken before is never sent. Its known outcome is reported again; another server's draft with the
    /// same number is reported as not sent.
    async fn offered_again(
        &self,
        known: Option<DraftRecord>,
        claimed: &Claimed,
    ) -> Result<(), ConnectorError> {
        let draft_id = claimed.draft_id;
        let Some(record) = known else {
            tracing::error!(
                draft_id,
                "this reply was offered before and its record cannot be read; nothing is sent or reported"
            );
            return Ok(());
        };
        if record.body_sha256 != body_hash(claimed) || record.external_id != claimed.message_external_id {
            tracing::error!(
                draft_id,
                "another reply had this number before, so this one is not sent; give each muster server its own --state folder"
            );
            let result = ResultBody {
                ok: false,
                external_ref: None,
                detail: "Nothing was sent: the connector's state folder knows another reply with this number. Give each muster server its own state folder.",
            };
            return match self.connector.server.report(draft_id, &result).await {
                Answer::Stop(error) => Err(error),
                _ => Ok(()),
            };
        }
        match record.stage {
            DraftStage::Sent | DraftStage::Failed => {
                tracing::warn!(
                    draft_id,
                    "offered again; not sent again, its outcome is reported again"
                );
                self.connector.state.record_draft(&record)
            }
            DraftStage::Intent | DraftStage::Handing => {
                tracing::error!(
                    draft_id,
                    "offered again; it may have been sent, so it is not sent and nothing is reported"
                );
                Ok(())
            }
        }
    }

    /// Reports every outcome that muster has not confirmed, one attempt each; `true` when nothing is left.
    async fn report_open(&mut self, door_is_open: bool) -> Result<bool, ConnectorError> {
        let mut settled = true;
        for record in self.connector.state.open_drafts()? {
            if !matches!(record.stage, DraftStage::Sent | DraftStage::Failed) {
                continue;
            }
            if self.report(&record, door_is_open).await? {
                self.doubtful.remove(&record.draft_id);
                self.connector.state.close(record.draft_id)?;
            } else {
                settled = false;
            }
        }
        Ok(settled)
    }

    /// `true` when muster's answer is final.
    async fn report(&mut self, record: &DraftRecord, door_is_open: bool) -> Result<bool, ConnectorError> {
        let draft_id = record.draft_id;
        let ok = record.stage == DraftStage::Sent;
        let fits = record.message_id.chars().count() <= REFERENCE_LIMIT;
        let mut result = ResultBody {
            ok,
            external_ref: (ok && fits).then_some(record.message_id.as_str()),
            detail: &record.detail,
        };
        loop {
            let mut stop = self.stop.clone();
            let answer = tokio::select! {
                answer = self.connector.server.report(draft_id, &result) => answer,
                () = async { stop.wait().await; tokio::time::sleep(GRACE).await } => return Ok(false),
            };
            return match answer {
                Answer::Good(Reported::Recorded) => {
                    tracing::info!(draft_id, sent = ok, "result recorded");
                    Ok(true)
                }
                Answer::Good(Reported::Contradicted) => {
                    tracing::warn!(draft_id, sent = ok, "muster has settled this reply otherwise");
                    Ok(true)
                }
                Answer::Good(Reported::Unknown) if door_is_open && self.doubtful.contains(&draft_id) => {
                    tracing::warn!(draft_id, sent = ok, "muster does not know this reply");
                    Ok(true)
                }
                Answer::Good(Reported::Unknown) => {
                    self.doubtful.insert(draft_id);
                    Ok(false)
                }
                Answer::Good(Reported::Malformed)
                    if result.external_ref.is_some() || !result.detail.is_empty() =>
                {
                    // The outcome matters more than what is said about it.
                    result.external_ref = None;
                    result.detail = "";
                    continue;
                }
                Answer::Good(Reported::Malformed) => {
                    tracing::error!(draft_id, sent = ok, "muster does not take this result");
                    Ok(true)
                }
                Answer::Stop(error) => Err(error),
                Answer::Refused(_) | Answer::Wait(_) | Answer::Trouble(_) => {
                    tracing::warn!(draft_id, sent = ok, "result not recorded yet; it is posted again");
                    Ok(false)
                }
            };
        }
    }
}

fn body_hash(claimed: &Claimed) -> String {
    hex(&Sha256::digest(claimed.body.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_recovery_that_is_cut_short_keeps_what_can_be_proven() {
        let folder = tempfile::tempdir().unwrap();
        let (root, outbox) = (folder.path().join("state"), folder.path().join("outbox"));
        handover::prepare_outbox(&outbox).unwrap();
        let state = State::open(&root).unwrap();
        let half = outbox.join("tmp/half");
        let record = |stage, detail: &str| DraftRecord {
            draft_id: 10,
            external_id: "x".to_owned(),
            message_id: "<m@x>".to_owned(),
            body_sha256: "00".to_owned(),
            outbox: Some((outbox.clone(), "half".to_owned())),
            stage,
            detail: detail.to_owned(),
        };
        for begun in [DraftStage::Intent, DraftStage::Handing] {
            fs::write(&half, b"mail").unwrap();
            state.record_draft(&record(begun, "")).unwrap();
            // The first recovery ends where it would write down what it found.
            fs::rename(root.join("tmp"), root.join("away")).unwrap();
            assert!(recover(&state).is_err());
            fs::rename(root.join("away"), root.join("tmp")).unwrap();
            recover(&state).unwrap();
            let known = state.draft(10).unwrap().unwrap().unwrap();
            assert_eq!(known.stage, DraftStage::Failed, "begun as {begun:?}");
            assert!(!half.exists());
            assert_eq!(state.unknown_drafts().unwrap(), []);
            // It may also end between the word and the clearing.
            fs::write(&half, b"mail").unwrap();
            recover(&state).unwrap();
            assert!(!half.exists());
            assert_eq!(state.draft(10).unwrap().unwrap().unwrap(), known);
        }
    }
}
