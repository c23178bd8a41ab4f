//! The columns of an order after its erasure.

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    order::{OrderId, change::erasure_event},
    webhook::ErasedFrom,
};

use crate::{Utc, events::NewChangeEventRow, schema::orders};

/// Empties an order, besides its details.
#[derive(AsChangeset)]
#[diesel(table_name = orders, treat_none_as_null = true)]
pub struct ErasedOrder {
    file_number: &'static str,
    holds_file_number: bool,
    starts_at: Option<Utc>,
    ends_at: Option<Utc>,
    notary: Option<String>,
    signing_date: Option<String>,
    search_text: Option<String>,
    day_starts_at: Option<Utc>,
    notary_text: Option<String>,
    held_until: Option<Utc>,
    documents_erased_at: Option<Utc>,
    last_change_at: Option<Utc>,
    erased_at: Option<Utc>,
}

impl ErasedOrder {
    /// Returns the change that erases an order at an instant.
    pub fn at(instant: Utc) -> Self {
        Self {
            file_number: "",
            holds_file_number: false,
            starts_at: None,
            ends_at: None,
            notary: None,
            signing_date: None,
            search_text: None,
            day_starts_at: None,
            notary_text: None,
            held_until: None,
            documents_erased_at: None,
            last_change_at: None,
            erased_at: Some(instant),
        }
    }
}

/// The columns of an erased order that its event tells.
#[derive(Queryable, Selectable)]
#[diesel(table_name = orders)]
pub struct ErasedRow {
    id: i64,
    client_id: i64,
    signing_service_id: i64,
    is_test: bool,
}

impl ErasedRow {
    /// Returns the row of the event of an erasure at an instant.
    pub fn event(&self, at: Utc) -> NewChangeEventRow {
        let Self { id, client_id, signing_service_id, is_test } = *self;
        let erased = ErasedFrom { client_id, signing_service_id, is_test };
        NewChangeEventRow::new(OrderId(id), &erasure_event(erased), at)
    }
}

/// Selects an order that is not erased.
#[auto_type(no_type_alias)]
pub fn unerased_order(id: OrderId) -> _ {
    let id: i64 = id.0;
    orders::table.filter(orders::id.eq(id).and(orders::erased_at.is_null())).select(orders::id)
}

/// Selects those of the orders that are erased.
#[auto_type(no_type_alias)]
pub fn erased_among(ids: Vec<i64>) -> _ {
    orders::table.filter(orders::id.eq_any(ids)).filter(orders::erased_at.is_not_null())
}
