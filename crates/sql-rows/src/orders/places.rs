//! Places of orders in a list, and the ranges of a page.

use std::ops::RangeInclusive;

use diesel::{dsl::sql, expression::SqlLiteral};
use domain::{
    order::OrderId,
    ports::{Cursor, ListPlace, ListedOrder},
};
use time::macros::datetime;

use crate::{Instant, Utc};

/// When an order begins, as the indexes of appointments have it. An any-time appointment of version 0.1.0 has the
/// instant of its creation, until its texts are folded.
pub(crate) const STARTS: &str = "coalesce(starts_at, day_starts_at, created_at)";

/// Selects when an order begins, as the indexes of appointments have it.
pub fn starts() -> SqlLiteral<Instant> {
    sql(STARTS)
}

/// A place in a list: the start of an order and its identifier. In the order of identifiers, all starts are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The start.
    pub starts: Utc,
    /// The identifier.
    pub id: i64,
}

/// A range of places.
pub type Span = RangeInclusive<Place>;

impl Place {
    /// Before every order: both databases store this instant.
    const FIRST: Self = Self { starts: Utc(datetime!(-4000-01-01 0:00 UTC)), id: i64::MIN };
    /// After every order.
    const LAST: Self = Self { starts: Utc(datetime!(9999-12-31 23:59:59 UTC)), id: i64::MAX };

    /// Returns the place of an order.
    pub fn of(by_appointment: bool, starts: Utc, id: i64) -> Self {
        Self { starts: if by_appointment { starts } else { Self::FIRST.starts }, id }
    }

    /// Returns the place as a page tells it.
    pub fn told(self, by_appointment: bool) -> ListPlace {
        ListPlace { id: self.id, starts: by_appointment.then_some(self.starts.0) }
    }

    /// Returns the last place before this one.
    pub(crate) fn before(self) -> Self {
        Self { id: self.id.saturating_sub(1), ..self }
    }

    /// Returns the first place behind this one.
    pub(crate) fn behind(self) -> Self {
        Self { id: self.id.saturating_add(1), ..self }
    }
}

/// An order of a list, and its place.
pub struct Found {
    /// The place.
    pub place: Place,
    /// The order.
    pub order: ListedOrder,
}

/// The ranges of a page.
pub struct PageRanges {
    /// The orders of the page.
    pub page: Span,
    /// The orders on the other side of the cursor.
    pub others: Option<Span>,
    /// Whether the page goes toward smaller places.
    pub descends: bool,
}

impl PageRanges {
    /// Returns the ranges of a cursor; `at` is the place of its order.
    pub fn of(cursor: &Cursor, at: Option<Place>, by_appointment: bool) -> Self {
        let is_toward_end = !matches!(cursor, Cursor::NewerThan(_));
        let descends = is_toward_end != by_appointment;
        let (page, others) = match at {
            None => (Place::FIRST..=Place::LAST, None),
            Some(at) if descends => (Place::FIRST..=at.before(), Some(at..=Place::LAST)),
            Some(at) => (at.behind()..=Place::LAST, Some(Place::FIRST..=at)),
        };
        Self { page, others, descends }
    }

    /// Returns the order of a cursor, which must be one of the owner; `None` if it is at an end of the list.
    pub fn order_at(cursor: &Cursor) -> Option<i64> {
        match cursor {
            // No order has an identifier below 1.
            Cursor::Newest | Cursor::NewerThan(OrderId(0)) => None,
            Cursor::OlderThan(id) | Cursor::NewerThan(id) => Some(id.0),
        }
    }

    /// Leaves out orders behind an identifier, in the order of identifiers.
    pub fn end_at(&mut self, id: i64) {
        let end = *self.page.end();
        self.page = *self.page.start()..=Place { id: end.id.min(id), ..end };
    }
}
