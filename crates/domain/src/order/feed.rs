//! The feed of changes: every change of every order of an owner, each once.

use std::{fmt, str::FromStr};

use time::OffsetDateTime;

use super::{OrderId, SigningServiceId};

/// The kinds of changes that have no entry in the history: documents were added, a note was added, the order was
/// erased. Triggers of `migrations/` write them.
pub const OTHER_KINDS: [&str; 3] = ["documents_added", "note_added", "erased"];

/// A place in the feed. It depends on nothing but identifiers and numbers that are stored, so it stays valid in a
/// copy of the database, unless it lies behind what the copy has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedCursor {
    /// The creations of orders up to this identifier lie before.
    pub created: OrderId,
    /// The other changes up to this number lie before.
    pub changed: i64,
    /// The epoch in which the place was given. A database that was restored or copied begins another one, because it
    /// gives identifiers and numbers again.
    pub epoch: i64,
}

impl FeedCursor {
    /// Before the oldest change.
    pub const START: Self = Self { created: OrderId(0), changed: 0, epoch: 0 };
}

/// Writes `17-42`, or `17-42-1764504000000` in a later epoch than the first. Clients need not know what it means.
impl fmt::Display for FeedCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.created.0, self.changed)?;
        if self.epoch == 0 { Ok(()) } else { write!(formatter, "-{}", self.epoch) }
    }
}

/// A text that is no place in the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no place in the feed")]
pub struct NoFeedCursor;

impl FromStr for FeedCursor {
    type Err = NoFeedCursor;

    fn from_str(text: &str) -> Result<Self, NoFeedCursor> {
        let (created, rest) = text.split_once('-').ok_or(NoFeedCursor)?;
        let (changed, epoch) = rest.split_once('-').unwrap_or((rest, "0"));
        let number = |text: &str| {
            let number = text.parse::<i64>().ok().filter(|number| *number >= 0);
            number.ok_or(NoFeedCursor)
        };
        let (created, changed) = (OrderId(number(created)?), number(changed)?);
        let cursor = Self { created, changed, epoch: number(epoch)? };
        if cursor.to_string() == text { Ok(cursor) } else { Err(NoFeedCursor) }
    }
}

/// A change in the feed. It has no names, reasons or texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedChange {
    /// The order.
    pub order: OrderId,
    /// Its file number now; `None` if it is erased.
    pub file_number: Option<String>,
    /// The kind of an entry of the history, or one of [`OTHER_KINDS`].
    pub kind: String,
    /// The instant of the change.
    pub at: OffsetDateTime,
    /// The status after the change.
    pub status: String,
    /// The signing service of the order.
    pub signing_service: SigningServiceId,
}

/// An entry of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedEntry {
    /// The place behind it.
    pub cursor: FeedCursor,
    /// The change.
    pub change: FeedChange,
}

/// What a store has behind a place in the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedRead {
    /// No creation can appear any more up to this identifier.
    pub horizon: OrderId,
    /// The creations up to the horizon by identifier: more than the limit of the page, or all.
    pub created: Vec<FeedChange>,
    /// The other changes by number: more than the limit of the page, or all that have one.
    pub changed: Vec<(i64, FeedChange)>,
    /// Whether committed changes wait for a number.
    pub has_waiting: bool,
}

/// A page of the feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedPage {
    /// The entries, the oldest first.
    pub entries: Vec<FeedEntry>,
    /// Where the next page begins.
    pub next: FeedCursor,
    /// Whether there are more entries now.
    pub has_more: bool,
}

impl FeedPage {
    /// Returns the page behind a place: up to `limit` entries by their instants, as far as each order allows it.
    ///
    /// A change of an order follows its creation. One whose creation lies behind the horizon ends the page.
    pub fn of(after: FeedCursor, limit: usize, read: FeedRead) -> Self {
        let FeedRead { horizon, created, changed, has_waiting } = read;
        let (mut created, mut changed) =
            (created.into_iter().peekable(), changed.into_iter().peekable());
        let last = horizon.max(after.created);
        let has_creation = |(_, change): &(i64, FeedChange)| change.order <= last;
        let (mut next, mut entries) = (after, Vec::new());
        while entries.len() < limit {
            let is_creation = match (created.peek(), changed.peek()) {
                (Some(one), Some((_, other))) => one.order <= other.order || one.at <= other.at,
                (Some(_), None) => true,
                (None, _) => false,
            };
            let change = if is_creation {
                created.next().inspect(|change| next.created = change.order)
            } else {
                let numbered = changed.next_if(has_creation);
                numbered.map(|(number, change)| {
                    next.changed = number;
                    change
                })
            };
            let Some(change) = change else { break };
            entries.push(FeedEntry { cursor: next, change });
        }
        let is_full = entries.len() == limit;
        let is_left = created.peek().is_some() || changed.peek().is_some_and(has_creation);
        Self { entries, next, has_more: has_waiting || is_full && is_left }
    }
}

#[cfg(test)]
mod tests {
    use time::{Duration, macros::datetime};

    use super::*;

    fn change(order: i64, kind: &str, second: i64) -> FeedChange {
        FeedChange {
            order: OrderId(order),
            file_number: Some("F-1".to_owned()),
            kind: kind.to_owned(),
            at: datetime!(2026-11-29 12:00 UTC) + Duration::seconds(second),
            status: "NEW".to_owned(),
            signing_service: SigningServiceId(42),
        }
    }

    /// Returns creations of orders at these seconds, and changes of orders with these numbers.
    fn read(horizon: i64, created: &[(i64, i64)], changed: &[(i64, i64, i64)]) -> FeedRead {
        let created = created.iter().map(|&(order, at)| change(order, "created", at));
        let changed =
            changed.iter().map(|&(number, order, at)| (number, change(order, "status", at)));
        FeedRead {
            horizon: OrderId(horizon),
            created: created.collect(),
            changed: changed.collect(),
            has_waiting: false,
        }
    }

    fn place(created: i64, changed: i64) -> FeedCursor {
        FeedCursor { created: OrderId(created), changed, epoch: 0 }
    }

    /// Returns the place behind each entry.
    fn places(page: &FeedPage) -> Vec<FeedCursor> {
        page.entries.iter().map(|entry| entry.cursor).collect()
    }

    #[test]
    fn cursor_is_read_back_from_its_text() {
        let later = FeedCursor { epoch: 7, ..place(17, 42) };
        let last = FeedCursor { epoch: i64::MAX, ..place(i64::MAX, i64::MAX) };
        for cursor in [FeedCursor::START, place(17, 42), later, place(i64::MAX, i64::MAX), last] {
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        assert_eq!("17-42".parse(), Ok(place(17, 42)), "before there were epochs");
        assert_eq!(later.to_string(), "17-42-7");
        for text in [
            "", "-", "1", "1-", "-1-2", "1--2", "1-2-", "1-2-0", "1-2-03", "1-2-3-4", "01-2",
            "+1-2", " 1-2", "1-x",
        ] {
            assert_eq!(text.parse::<FeedCursor>(), Err(NoFeedCursor), "{text}");
        }
        assert!("9223372036854775808-1".parse::<FeedCursor>().is_err());
    }

    #[test]
    fn entries_come_by_their_instants() {
        let page = FeedPage::of(
            FeedCursor::START,
            9,
            read(3, &[(1, 0), (2, 2), (3, 5)], &[(7, 1, 1), (8, 2, 3), (9, 1, 4)]),
        );
        let expected =
            [(1, 0), (1, 7), (2, 7), (2, 8), (2, 9), (3, 9)].map(|(one, other)| place(one, other));
        assert_eq!(places(&page), expected);
        assert_eq!((page.next, page.has_more), (place(3, 9), false));
    }

    /// Clocks of instances differ.
    #[test]
    fn creation_precedes_the_changes_of_its_order() {
        let page = FeedPage::of(FeedCursor::START, 9, read(2, &[(1, 8), (2, 9)], &[(7, 2, 1)]));
        assert_eq!(places(&page), [place(1, 0), place(2, 0), place(2, 7)]);
    }

    #[test]
    fn page_goes_on_behind_the_last_entry() {
        let all = || read(3, &[(1, 0), (2, 2), (3, 5)], &[(7, 1, 1), (8, 2, 3), (9, 1, 4)]);
        let (mut after, mut found) = (FeedCursor::START, Vec::new());
        loop {
            let mut left = all();
            left.created.retain(|change| change.order > after.created);
            left.changed.retain(|(number, _)| *number > after.changed);
            let page = FeedPage::of(after, 2, left);
            found.extend(places(&page));
            assert_eq!(page.next, *found.last().unwrap());
            after = page.next;
            if !page.has_more {
                break;
            }
        }
        assert_eq!(found.len(), 6);
        assert_eq!(found, places(&FeedPage::of(FeedCursor::START, 6, all())));
    }

    /// An order with a smaller identifier may still appear, so the page cannot go on behind its own.
    #[test]
    fn change_beyond_the_horizon_ends_the_page() {
        let page = FeedPage::of(place(4, 0), 9, read(4, &[], &[(7, 3, 1), (8, 5, 2), (9, 3, 3)]));
        assert_eq!(places(&page), [place(4, 7)]);
        assert_eq!((page.next, page.has_more), (place(4, 7), false));
        // A later read may have an earlier horizon.
        let page = FeedPage::of(place(5, 7), 9, read(4, &[], &[(8, 5, 2)]));
        assert_eq!(places(&page), [place(5, 8)]);
    }

    #[test]
    fn empty_page_stays_where_it_is() {
        let page = FeedPage::of(place(4, 7), 9, read(9, &[], &[]));
        assert_eq!((page.entries.len(), page.next, page.has_more), (0, place(4, 7), false));
        let waiting = FeedRead { has_waiting: true, ..read(9, &[], &[]) };
        assert!(FeedPage::of(place(4, 7), 9, waiting).has_more);
    }

    #[test]
    fn full_page_has_more_only_if_there_is_more() {
        for (created, has_more) in
            [(&[(1, 0), (2, 1)][..], false), (&[(1, 0), (2, 1), (3, 2)], true)]
        {
            let page = FeedPage::of(FeedCursor::START, 2, read(3, created, &[]));
            assert_eq!((page.entries.len(), page.has_more), (2, has_more));
        }
    }
}
