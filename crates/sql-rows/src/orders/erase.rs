//! What an erasure changes, and what erased orders leave elsewhere.

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    delivery::LONGEST_ATTEMPT,
    document::ObjectKey,
    order::{DocumentId, OrderId},
};
use time::OffsetDateTime;

use crate::{
    CondemnedUpload, Utc, farthest,
    orders::queries::{is_signed, nearest, stored_position},
    schema::{deliveries, orders, uploads, webhook_deliveries},
    webhooks::queries::is_waiting,
};

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
            held_until: None,
            documents_erased_at: None,
            last_change_at: None,
            erased_at: Some(instant),
        }
    }
}

/// Selects the upload of a withdrawn document whose object is to be deleted.
#[auto_type(no_type_alias)]
pub fn condemned_of(document: DocumentId) -> _ {
    let order: i64 = document.order.0;
    let signed: bool = is_signed(document.kind);
    let position: i32 = stored_position(document.position);
    uploads::table
        .filter(uploads::order_id.eq(order).and(uploads::condemned))
        .filter(uploads::signed.eq(signed).and(uploads::position.eq(position)))
        .order(uploads::key)
        .select(uploads::key)
}

/// Selects the uploads of orders that no request is storing any more: an erasure does not wait for them.
#[auto_type(no_type_alias)]
pub fn ended_uploads(orders: Vec<i64>) -> _ {
    uploads::table.filter(uploads::order_id.eq_any(orders).and(uploads::condemned))
}

/// Returns the ledger's rows of removed documents, and the keys of their objects by position.
pub fn condemned(
    mut removed: Vec<(bool, i32, Option<String>)>,
    at: Utc,
) -> (Vec<CondemnedUpload>, Vec<ObjectKey>) {
    removed.sort();
    let keys: Vec<String> = removed.into_iter().filter_map(|(.., key)| key).collect();
    let row = |key: &String| CondemnedUpload::of_erased(key.clone(), at);
    let rows = keys.iter().map(row).collect();
    (rows, keys.into_iter().map(ObjectKey::from_stored).collect())
}

/// Selects an order that is not erased.
#[auto_type(no_type_alias)]
pub fn unerased_order(id: OrderId) -> _ {
    let id: i64 = id.0;
    orders::table.filter(orders::id.eq(id).and(orders::erased_at.is_null())).select(orders::id)
}

/// Selects the uploads that requests in progress add to orders that were erased a short time before an
/// instant. Later, the request is over, and the sweeper deletes what it left.
#[auto_type(no_type_alias)]
pub fn uploads_of_erased(at: Utc) -> _ {
    let nearest: Utc = nearest(at);
    uploads::table
        .inner_join(orders::table.on(orders::id.nullable().eq(uploads::order_id)))
        .filter(orders::erased_at.gt(nearest))
}

/// Selects those of the orders that are erased.
#[auto_type(no_type_alias)]
pub fn erased_among(ids: Vec<i64>) -> _ {
    orders::table.filter(orders::id.eq_any(ids)).filter(orders::erased_at.is_not_null())
}

/// Selects the mails of erased orders.
#[auto_type(no_type_alias)]
pub fn mails_of_erased() -> _ {
    deliveries::table
        .inner_join(orders::table.on(orders::id.eq(deliveries::order_id)))
        .filter(orders::erased_at.is_not_null())
}

/// Selects the webhooks of erased orders that a worker attempts: see [`HeldWebhook`].
#[auto_type(no_type_alias)]
pub fn attempted_webhooks_of_erased(at: Utc) -> _ {
    let waits: is_waiting = is_waiting();
    webhook_deliveries::table
        .inner_join(orders::table.on(orders::id.nullable().eq(webhook_deliveries::order_id)))
        .filter(orders::erased_at.is_not_null().and(waits))
        .filter(webhook_deliveries::leased_until.is_not_null())
        .filter(webhook_deliveries::due_at.gt(at))
}

/// Selects the webhooks of orders that wait.
#[auto_type(no_type_alias)]
pub fn waiting_webhooks_of(orders: Vec<i64>) -> _ {
    let waits: is_waiting = is_waiting();
    webhook_deliveries::table.filter(webhook_deliveries::order_id.eq_any(orders).and(waits))
}

/// Selects those of the webhooks that a worker attempts.
#[auto_type(no_type_alias)]
pub fn attempted_webhooks(ids: Vec<i64>) -> _ {
    webhook_deliveries::table
        .filter(webhook_deliveries::id.eq_any(ids))
        .filter(webhook_deliveries::leased_until.is_not_null())
}

/// Keeps a leased mail of an erased order from other workers until no attempt of now can go on. The lease
/// itself does not tell when: its worker may have another clock, and renews it for a slow relay.
#[derive(AsChangeset)]
#[diesel(table_name = deliveries)]
pub struct HeldMail {
    due_at: Utc,
}

/// Keeps a leased webhook of an erased order from other workers until no lease of now can be held any
/// more. Its attempt is shorter.
#[derive(AsChangeset)]
#[diesel(table_name = webhook_deliveries)]
pub struct HeldWebhook {
    due_at: Utc,
}

impl HeldMail {
    /// Returns the change for an erasure at an instant.
    pub fn since(erasure: Utc) -> Self {
        Self { due_at: Utc(erasure.0.saturating_add(LONGEST_ATTEMPT)) }
    }
}

impl HeldWebhook {
    /// Returns the change for an erasure at an instant.
    pub fn since(erasure: Utc) -> Self {
        Self { due_at: farthest(erasure) }
    }
}

/// Selects those of the mails that no worker attempts.
#[auto_type(no_type_alias)]
pub fn free_mails(ids: Vec<i64>) -> _ {
    deliveries::table.filter(deliveries::id.eq_any(ids)).filter(deliveries::leased_until.is_null())
}

/// Selects those of the mails of erased orders that no worker attempts any more: see [`HeldMail`].
#[auto_type(no_type_alias)]
pub fn ended_mails(ids: Vec<i64>, at: Utc) -> _ {
    deliveries::table
        .filter(deliveries::id.eq_any(ids))
        .filter(deliveries::leased_until.is_null().or(deliveries::due_at.le(at)))
}

/// Selects the uploads that no order adopted in time, and those whose clock was ahead. Keys condemned
/// earlier come last: objects that cannot be deleted must not block the others.
#[auto_type(no_type_alias)]
pub fn abandoned_uploads(recorded_before: OffsetDateTime, ahead: OffsetDateTime) -> _ {
    let recorded_before: Utc = Utc(recorded_before);
    let ahead: Utc = Utc(ahead);
    uploads::table
        .filter(
            uploads::condemned
                .or(uploads::recorded_at.lt(recorded_before))
                .or(uploads::recorded_at.gt(ahead)),
        )
        .order((uploads::condemned, uploads::recorded_at, uploads::key))
}
