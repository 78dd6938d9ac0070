//! What a window shows of a source: a stretch of it, answers in between, and where the person looks. Never holds more of a source than a few screens around that place.

mod item;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use muster_bus::Source;

use crate::person::{Numbered, Stretch, Way};
use crate::post::Post;
use crate::text::Watch;

use item::{Item, What};
pub(crate) use item::{Row, Tone};

/// Items that are kept.
const KEPT: usize = 3_000;
/// Bytes of them that are kept, where they are long.
const HEAVY: usize = 32 * 1024 * 1024;
/// Rows that are kept as they were drawn.
const DRAWN: usize = 50_000;
/// So near to an end of what is loaded, more is asked for; nearer where little is loaded.
const NEAR: usize = 250;

/// A source as a window shows it.
pub(crate) struct Timeline {
    pub(crate) source: Source,
    items: VecDeque<Item>,
    /// The id of the first item; ids go up by one.
    base: i64,
    total: u64,
    /// Nothing older than what is loaded can be asked for: the source was cut.
    cut: bool,
    /// What is loaded does not go on to the newest: the source was cut, or too much came at once.
    stale: bool,
    /// A stretch was asked for and has not come.
    asked: bool,
    /// The oldest message is gone to as soon as that has come: one stretch is asked for at a time.
    oldest: bool,
    /// The newest stretch was asked for; what is said until it comes stands below it.
    renewing: Option<i64>,
    /// The last row of the window: the item's id and its row. At the end of all without it.
    bottom: Option<(i64, usize)>,
    columns: usize,
    now: i64,
    /// Items that are in sight at most.
    height: usize,
    /// Which way the person went last: only there is more wanted.
    up: bool,
    /// The window is not full.
    short: bool,
    weight: usize,
    drawn: usize,
}

impl Timeline {
    /// An empty window, whose newest messages were asked for.
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            items: VecDeque::new(),
            base: 0,
            total: 0,
            cut: false,
            stale: false,
            asked: true,
            oldest: false,
            renewing: Some(0),
            bottom: None,
            columns: 80,
            now: 0,
            height: 0,
            up: true,
            short: false,
            weight: 0,
            drawn: 0,
        }
    }

    /// Whether the newest message is in sight.
    pub(crate) fn at_end(&self) -> bool {
        self.bottom.is_none() && !self.behind()
    }

    /// Messages that are newer than what is loaded or in sight.
    pub(crate) fn below(&self) -> u64 {
        let Some((id, _)) = self.bottom else {
            return 0;
        };
        let shown = self
            .items
            .iter()
            .take(usize::try_from(id - self.base + 1).unwrap_or(0))
            .rev()
            .find_map(Item::number);
        self.total.saturating_sub(shown.map_or(0, |number| number + 1))
    }

    /// The newest message that was shown, once it is in sight.
    pub(crate) fn newest(&self) -> Option<&Numbered> {
        if !self.at_end() || self.renewing.is_some() {
            return None;
        }
        self.items.iter().rev().find_map(Item::numbered)
    }

    /// Whether there are newer messages than those that are loaded.
    fn behind(&self) -> bool {
        self.stale || self.end() < self.total
    }

    fn end(&self) -> u64 {
        self.items
            .iter()
            .rev()
            .find_map(Item::number)
            .map_or(self.total, |number| number + 1)
    }

    /// Adds lines of an answer, and goes to where they stand. Answers what must be asked for.
    pub(crate) fn say(&mut self, tone: Tone, lines: Vec<String>) -> Option<Way> {
        self.local(What::Lines(tone, lines));
        self.go_to_end()
    }

    /// Adds a message of the person's that stands in another's inbox, and goes to where it is shown.
    pub(crate) fn sent(&mut self, post: Post) -> Option<Way> {
        self.local(What::Other(None, Box::new(post)));
        self.go_to_end()
    }

    /// Adds a message of another source, where its reader sees it.
    pub(crate) fn overhear(&mut self, tag: Option<String>, post: Post) {
        if !self.behind() {
            self.local(What::Other(tag, Box::new(post)));
        }
    }

    fn local(&mut self, what: What) {
        self.push(Item::new(what));
        self.trim_front();
    }

    /// Goes to the newest message. Answers what must be asked for.
    pub(crate) fn go_to_end(&mut self) -> Option<Way> {
        self.bottom = None;
        self.oldest = false;
        (self.behind() && self.renewing.is_none()).then(|| self.renew())
    }

    /// Goes to the oldest message.
    pub(crate) fn go_to_start(&mut self) -> Option<Way> {
        self.bottom = Some((self.base, 0));
        self.up = false;
        self.oldest = true;
        self.wants_oldest()
    }

    /// The oldest stretch, when the person wants to be there and it is not loaded and can be asked for now.
    fn wants_oldest(&mut self) -> Option<Way> {
        if self.asked || !self.oldest {
            return None;
        }
        self.oldest = false;
        let begins = self.items.iter().find_map(Item::number);
        if self.cut || begins == Some(0) {
            self.bottom = Some((self.base, 0));
            return None;
        }
        self.asked = true;
        Some(Way::Oldest)
    }

    /// All anew from the newest message on; what is said from now on stands below it.
    pub(crate) fn renew(&mut self) -> Way {
        self.asked = true;
        // The last item may be the answer that asked for this.
        let ids = i64::try_from(self.items.len()).unwrap_or(i64::MAX);
        let said = self.items.back().is_some_and(|item| item.number().is_none());
        self.renewing = Some(self.base + ids - i64::from(said));
        Way::Newest
    }

    /// Takes what was asked for; nothing when it is not there any more.
    pub(crate) fn take(&mut self, way: &Way, stretch: Option<Stretch>) {
        self.asked = false;
        let Some(stretch) = stretch else {
            self.cut = true;
            return;
        };
        self.total = stretch.total;
        match way {
            Way::Newest => {
                let from = self.renewing.take().unwrap_or(self.base);
                let said = self.items.split_off(
                    usize::try_from(from - self.base)
                        .unwrap_or(0)
                        .min(self.items.len()),
                );
                let said = said.into_iter().filter(|item| item.number().is_none()).collect();
                self.fill(stretch);
                let mut said: VecDeque<Item> = said;
                self.items.append(&mut said);
                self.bottom = None;
                self.cut = false;
                self.stale = false;
            }
            Way::Oldest => {
                self.fill(stretch);
                self.bottom = Some((self.base, 0));
                self.cut = false;
                self.stale = false;
            }
            Way::Before(..) => {
                for found in stretch.posts.into_iter().rev() {
                    self.base -= 1;
                    let item = Item::of(found);
                    self.weight += item.weight;
                    self.items.push_front(item);
                }
                self.trim_back();
            }
            Way::After(..) | Way::From(_) => {
                stretch
                    .posts
                    .into_iter()
                    .for_each(|found| self.push(Item::of(found)));
                self.trim_front();
            }
        }
    }

    fn push(&mut self, item: Item) {
        self.weight += item.weight;
        self.items.push_back(item);
    }

    fn fill(&mut self, stretch: Stretch) {
        self.items.clear();
        (self.weight, self.drawn) = (0, 0);
        let (read, total) = (stretch.read, stretch.total);
        for found in stretch.posts {
            if found.number == read && read > 0 && read < total {
                self.push(Item::new(What::Unread));
            }
            self.push(Item::of(found));
        }
    }

    /// Takes new messages. Answers what must be asked for.
    pub(crate) fn grow(&mut self, stretch: Stretch, cut: bool, skipped: u64) -> Option<Way> {
        if self.renewing.is_some() {
            // What was asked for comes later and has them.
            return None;
        }
        if cut || skipped > 0 {
            self.cut = cut || self.cut;
            self.stale = true;
            return if self.bottom.is_none() {
                Some(self.renew())
            } else {
                self.total = self.total.max(stretch.total);
                None
            };
        }
        let (end, behind) = (self.end(), self.behind());
        self.total = stretch.total;
        if behind {
            return None;
        }
        if stretch.first > end {
            return (self.bottom.is_none()).then(|| self.renew());
        }
        // A page that came meanwhile may have had some of them.
        let new = stretch.posts.into_iter().filter(|found| found.number >= end);
        new.for_each(|found| self.push(Item::of(found)));
        self.trim_front();
        None
    }

    /// What was asked for could not be read; it may be asked for again.
    pub(crate) fn failed(&mut self) {
        self.asked = false;
        self.renewing = None;
    }

    /// What is needed around the place that is looked at, if it was not asked for.
    pub(crate) fn wants(&mut self) -> Option<Way> {
        if self.asked {
            return None;
        }
        if let Some(way) = self.wants_oldest() {
            return Some(way);
        }
        let at = self.bottom.map_or(self.items.len(), |(id, _)| {
            usize::try_from(id - self.base).unwrap_or(0)
        });
        let near = NEAR.min(self.items.len() / 3);
        let way = if self.stale {
            None
        } else if self.up || self.short {
            let first = self.items.iter().find_map(Item::numbered)?;
            let wanted = (at < near || self.short) && first.number > 0 && !self.cut;
            wanted.then(|| Way::Before(first.number, first.entry.clone()))
        } else {
            let last = self.items.iter().rev().find_map(Item::numbered)?;
            let wanted = self.bottom.is_some() && at + near >= self.items.len() && self.behind();
            wanted.then(|| Way::After(last.number, last.entry.clone()))
        };
        if way.is_none() && self.stale && self.bottom.is_some_and(|(id, _)| id >= self.last_id()) {
            // Nothing loaded is left below, and what comes next does not follow on it.
            return Some(self.renew());
        }
        self.asked = way.is_some();
        way
    }

    fn over(&self) -> bool {
        self.items.len() > KEPT || self.weight > HEAVY
    }

    /// Drops the oldest of too much, never what is in sight.
    fn trim_front(&mut self) {
        let last = self.bottom.map_or(self.last_id(), |(id, _)| id);
        let sight = i64::try_from(self.height).unwrap_or(i64::MAX);
        while self.over() && self.base < last - sight {
            let gone = self.items.pop_front().map_or(0, |item| item.weight);
            self.weight -= gone;
            self.base += 1;
        }
    }

    /// The same with the newest.
    fn trim_back(&mut self) {
        while self.over() && self.bottom.is_some_and(|(id, _)| id < self.last_id()) {
            let gone = self.items.pop_back().map_or(0, |item| item.weight);
            self.weight -= gone;
        }
    }

    /// Moves the window up by some rows, or down by a negative number of them.
    pub(crate) fn scroll(&mut self, up: isize, height: usize, watch: &Watch) {
        let last = self.last_id();
        self.up = up > 0;
        self.oldest = false;
        if self.items.is_empty() {
            return;
        }
        let (mut id, mut row) = self
            .bottom
            .unwrap_or_else(|| (last, self.rows(last, watch).saturating_sub(1)));
        if up > 0 {
            let mut left = up.unsigned_abs();
            while left > 0 {
                if row >= left {
                    row -= left;
                    break;
                }
                if id <= self.base {
                    row = 0;
                    break;
                }
                left -= row + 1;
                id -= 1;
                let rows = self.rows(id, watch);
                if rows == 0 {
                    left += 1;
                    row = 0;
                } else {
                    row = rows - 1;
                }
            }
        } else {
            let mut left = up.unsigned_abs();
            loop {
                let rows = self.rows(id, watch);
                if row + left < rows {
                    row += left;
                    break;
                }
                if id >= last {
                    self.bottom = if self.behind() {
                        Some((last, rows.saturating_sub(1)))
                    } else {
                        None
                    };
                    return;
                }
                left -= rows.saturating_sub(row);
                id += 1;
                row = 0;
            }
        }
        self.bottom = Some((id, row));
        self.settle(height, watch);
    }

    /// Above the first row there is nothing to see: the window begins at it at the earliest.
    fn settle(&mut self, height: usize, watch: &Watch) {
        let Some((mut id, mut row)) = self.bottom else {
            return;
        };
        id = id.clamp(self.base, self.last_id().max(self.base));
        let mut above = row + 1;
        let mut at = id;
        while above < height && at > self.base {
            at -= 1;
            above += self.rows(at, watch);
        }
        let mut missing = height.saturating_sub(above);
        while missing > 0 {
            let rows = self.rows(id, watch);
            if row + missing < rows {
                row += missing;
                missing = 0;
            } else if id >= self.last_id() {
                row = rows.saturating_sub(1);
                if !self.behind() {
                    self.bottom = None;
                    return;
                }
                missing = 0;
            } else {
                missing -= rows.saturating_sub(row + 1);
                id += 1;
                let next = self.rows(id, watch);
                if next == 0 {
                    row = 0;
                } else {
                    missing -= 1;
                    row = 0;
                }
            }
        }
        self.bottom = Some((id, row));
    }

    fn last_id(&self) -> i64 {
        self.base + i64::try_from(self.items.len()).unwrap_or(i64::MAX) - 1
    }

    /// The rows of a window of that size, top first.
    pub(crate) fn window(&mut self, columns: usize, height: usize, now: i64, watch: &Watch) -> Vec<Row> {
        if self.columns != columns || now.div_euclid(86_400_000) != self.now.div_euclid(86_400_000) {
            self.columns = columns;
            self.forget_rows();
        }
        (self.now, self.height) = (now, height);
        let window = self.rows_above(height, watch);
        self.short = window.len() < height;
        if self.drawn > DRAWN {
            self.forget_rows();
        }
        window.into()
    }

    fn forget_rows(&mut self) {
        self.drawn = 0;
        for item in &mut self.items {
            item.rows = None;
        }
    }

    /// The rows from the last one in sight upwards.
    fn rows_above(&mut self, height: usize, watch: &Watch) -> VecDeque<Row> {
        let mut window = VecDeque::with_capacity(height);
        if self.items.is_empty() || height == 0 {
            return window;
        }
        self.settle(height, watch);
        let last = self.last_id();
        let (mut id, row) = self
            .bottom
            .unwrap_or_else(|| (last, self.rows(last, watch).saturating_sub(1)));
        let mut until = row + 1;
        loop {
            self.rows(id, watch);
            let rows = self
                .item(id)
                .and_then(|item| item.rows.as_deref())
                .unwrap_or_default();
            for row in rows.iter().take(until).rev() {
                window.push_front(row.clone());
                if window.len() == height {
                    return window;
                }
            }
            if id <= self.base {
                return window;
            }
            id -= 1;
            until = usize::MAX;
        }
    }

    fn item(&self, id: i64) -> Option<&Item> {
        self.items.get(usize::try_from(id - self.base).ok()?)
    }

    /// How many rows an item takes.
    fn rows(&mut self, id: i64, watch: &Watch) -> usize {
        let (columns, now) = (self.columns, self.now);
        let Some(item) = usize::try_from(id - self.base)
            .ok()
            .and_then(|at| self.items.get_mut(at))
        else {
            return 0;
        };
        if let Some(rows) = &item.rows {
            return rows.len();
        }
        let rows = item.what.rows(columns, now, watch);
        let count = rows.len();
        item.rows = Some(rows);
        self.drawn += count;
        count
    }
}
