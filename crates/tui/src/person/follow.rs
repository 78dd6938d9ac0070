//! What is new in the sources that a person hears, found by the look of their files and read from where the last look ended. Never shows an entry twice because a source was cut.

use muster_bus::read::{self, Shape};
use muster_bus::tools::Orders;
use muster_bus::{BusError, Entry, Source, rename};

use super::{Person, Stretch, Told, heard};
use crate::person::here::Stamp;
use crate::text::line;

/// Entries that a look begins with; the person scrolls back for more.
const FEW: usize = 32;
/// Most new messages that one look tells; of more it tells the newest.
const MANY: usize = 500;
/// How often late messages to an earlier id are asked for, in milliseconds.
const GATHER: i64 = 2_000;

/// A source and how far it is known.
pub(super) struct Follow {
    pub(super) source: Source,
    shape: Option<Shape>,
    /// How many entries are known, and the last of them.
    known: u64,
    last: Option<Entry>,
}

/// New messages of a source.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fresh {
    pub(crate) source: Source,
    /// They, and where they stand.
    pub(crate) stretch: Stretch,
    /// The source was cut, so that all numbers are others now.
    pub(crate) cut: bool,
    /// How many there are that are not in the stretch, because there are too many.
    pub(crate) skipped: u64,
}

impl Person {
    /// Looks for new messages. What came before the first look is not new: [`Person::unread`] counts it.
    pub(crate) fn look(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        if let Err(error) = self.refollow() {
            told.push(problem(&error));
        }
        if self.now().saturating_sub(self.gathered) >= GATHER {
            self.gathered = self.now();
            if let Err(error) = rename::gather(&self.home, &self.seat) {
                told.push(problem(&error));
            }
        }
        let news = self.orders.as_mut().map(Orders::look).unwrap_or_default();
        if !news.is_empty() {
            told.push(Told::Lines(news.iter().map(|text| line(text)).collect()));
        }
        let mut followed = std::mem::take(&mut self.followed);
        for follow in &mut followed {
            let shape = read::shape(&self.home, &self.seat, &follow.source);
            if shape == follow.shape {
                continue;
            }
            match self.grown(follow) {
                Ok(Some(fresh)) => told.push(Told::Fresh(fresh)),
                Ok(None) => {}
                Err(error) => told.push(problem(&error)),
            }
            // What failed is tried again when the file changes the next time, and said once.
            follow.shape = shape;
        }
        self.followed = followed;
        told
    }

    /// The sources in order: direct messages first, then the channels.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.followed.iter().map(|follow| &follow.source)
    }

    /// What comes after this stretch is new; it was shown.
    pub(crate) fn caught_up(&mut self, source: &Source, stretch: &Stretch) {
        let follow = self.followed.iter_mut().find(|follow| follow.source == *source);
        if let (Some(follow), Some(last)) = (follow, stretch.last())
            && stretch.end >= follow.known
        {
            follow.known = stretch.end;
            follow.last = Some(last.entry.clone());
            // The next look sees for itself.
            follow.shape = None;
        }
    }

    /// Follows what the person hears by now, from now on.
    fn refollow(&mut self) -> Result<(), BusError> {
        let stamp = Stamp::of(&self.home, &["rooms.json"]);
        if self.joined.as_ref() == Some(&stamp) {
            return Ok(());
        }
        let rooms = heard(&self.home, &self.seat, &self.room)?;
        let wanted = std::iter::once(Source::Inbox).chain(rooms.into_iter().map(Source::Room));
        let mut before = std::mem::take(&mut self.followed);
        for source in wanted {
            let known = before.iter().position(|follow| follow.source == source);
            let follow = match known {
                Some(at) => before.swap_remove(at),
                None => self.follow(source)?,
            };
            self.followed.push(follow);
        }
        self.joined = Some(stamp);
        Ok(())
    }

    fn follow(&self, source: Source) -> Result<Follow, BusError> {
        let shape = read::shape(&self.home, &self.seat, &source);
        let mut page = read::page(&self.home, &self.seat, &source, None, 1)?;
        Ok(Follow {
            shape,
            known: page.total,
            last: page.entries.pop(),
            source,
        })
    }

    /// What a source holds beyond what is known of it.
    fn grown(&self, follow: &mut Follow) -> Result<Option<Fresh>, BusError> {
        let page = |limit| read::page(&self.home, &self.seat, &follow.source, None, limit);
        let mut page = page(FEW).and_then(|few| {
            if few.first > follow.known.saturating_sub(1) {
                page(MANY)
            } else {
                Ok(few)
            }
        })?;
        let (begun, cut) = beyond(&page.entries, page.first, page.total, follow);
        let skipped = page.first.saturating_sub(begun);
        let keep = usize::try_from(begun.saturating_sub(page.first)).unwrap_or(usize::MAX);
        let entries = page.entries.split_off(keep.min(page.entries.len()));
        let first = page.total - entries.len() as u64;
        follow.known = page.total;
        follow.last = entries.last().or(page.entries.last()).cloned();
        if entries.is_empty() && !cut {
            return Ok(None);
        }
        Ok(Some(Fresh {
            source: follow.source.clone(),
            stretch: Stretch {
                first,
                end: page.total,
                total: page.total,
                read: page.read,
                posts: self.posts(&follow.source, first, entries),
            },
            cut,
            skipped,
        }))
    }
}

/// The number of the first entry that is new, and whether the source was cut since it was known.
fn beyond(entries: &[Entry], first: u64, total: u64, follow: &Follow) -> (u64, bool) {
    let Some(last) = &follow.last else {
        // Nothing stood there.
        return (0, false);
    };
    let at = |number: u64| {
        number
            .checked_sub(first)
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| entries.get(at))
    };
    let before = follow.known.saturating_sub(1);
    if follow.known <= total && (at(before) == Some(last) || before < first) {
        return (follow.known, false);
    }
    // Cut: the numbers are others now, the entries are not.
    if let Some(found) = entries.iter().rposition(|entry| entry == last) {
        return (first + found as u64 + 1, true);
    }
    let ts = |entry: &Entry| entry.get("ts").and_then(serde_json::Value::as_i64).unwrap_or(0);
    let newer = entries.iter().rposition(|entry| ts(entry) <= ts(last));
    (first + newer.map_or(0, |at| at as u64 + 1), true)
}

/// A failure as a sentence.
pub(super) fn problem(error: &BusError) -> Told {
    Told::Problem(crate::text::line(&error.chain()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entries(numbers: std::ops::Range<i64>) -> Vec<Entry> {
        numbers
            .map(|number| json!({"id": number, "ts": number}).as_object().unwrap().clone())
            .collect()
    }

    fn follow(known: u64, last: i64) -> Follow {
        Follow {
            source: Source::Inbox,
            shape: None,
            known,
            last: entries(last..last + 1).pop(),
        }
    }

    #[test]
    fn what_is_new_begins_behind_what_is_known() {
        assert_eq!(beyond(&entries(0..5), 0, 5, &follow(3, 2)), (3, false));
        assert_eq!(beyond(&entries(3..5), 3, 5, &follow(5, 4)), (5, false));
        // More is new than was read: all of what was read is.
        assert_eq!(beyond(&entries(90..100), 90, 100, &follow(3, 2)), (3, false));
    }

    #[test]
    fn a_cut_neither_repeats_nor_loses_what_came_with_it() {
        // Ten were known; the oldest seven went and one came.
        assert_eq!(beyond(&entries(7..11), 0, 4, &follow(10, 9)), (3, true));
        // The known one went, too: what was written later is new.
        assert_eq!(beyond(&entries(20..24), 0, 4, &follow(10, 9)), (0, true));
        assert_eq!(beyond(&[], 0, 0, &follow(10, 9)), (0, true));
    }
}
