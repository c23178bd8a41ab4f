//! What withdrawals and erasures change, and what erased orders leave elsewhere.

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    delivery::LONGEST_ATTEMPT,
    document::{DocumentKind, ObjectKey, withdrawn_name},
    order::{Actor, ChangeKind, OrderId},
    webhook::{EventChange, EventType},
};
use time::OffsetDateTime;

use crate::{
    NewChangeEventRow, NewChangeRow, Utc, farthest,
    orders::queries::{OrderState, nearest},
    schema::{deliveries, documents, orders, uploads, webhook_deliveries},
    webhooks::queries::is_waiting,
};

/// The change of an order whose documents the retention erases.
#[derive(AsChangeset)]
#[diesel(table_name = orders)]
#[expect(clippy::struct_field_names, reason = "the names of the columns")]
pub struct DocumentsErasedOrder {
    updated_at: Utc,
    documents_erased_at: Option<Utc>,
    last_change_at: Option<Utc>,
}

/// What the erasure of all documents of an order stores besides.
pub struct ErasedDocuments {
    /// Their instant.
    pub at: Utc,
    /// The change of the order.
    pub order: DocumentsErasedOrder,
    /// The entry of the history.
    pub entry: NewChangeRow,
    /// The events, one a kind.
    pub events: Vec<NewChangeEventRow>,
}

impl ErasedDocuments {
    /// Returns the erasure of documents at `now`, each given by whether it is signed and its position.
    pub fn of(order: &OrderState, documents: &[(bool, i32)], now: OffsetDateTime) -> Self {
        let at = order.changed_at(now);
        let kinds = [(DocumentKind::ToSign, false), (DocumentKind::Signed, true)];
        let events = kinds.into_iter().filter_map(|(kind, signed)| {
            let own = documents.iter().filter(|(is_signed, _)| *is_signed == signed);
            let documents: Vec<u32> =
                own.filter_map(|(_, position)| u32::try_from(*position).ok()).collect();
            let is_any = !documents.is_empty();
            let change = EventChange::Documents { documents, actor: Actor::uploading(kind) };
            let event = EventType::DocumentWithdrawn;
            is_any.then(|| NewChangeEventRow::new(event, Some(&change), order.id, at))
        });
        Self {
            at,
            order: DocumentsErasedOrder {
                updated_at: at,
                documents_erased_at: Some(at),
                // No erasure: it has left no documents, so a change has brought those of today.
                last_change_at: Some(order.updated_at),
            },
            events: events.collect(),
            entry: NewChangeRow {
                order_id: order.id,
                at,
                kind: ChangeKind::DocumentsErased.as_str(),
                changed: None,
                documents: None,
                status: order.status.clone(),
                notary_id: order.notary_id,
                actor: Actor::Operator.as_str(),
            },
        }
    }
}

/// Empties a document that its side withdraws, or the retention.
#[derive(AsChangeset)]
#[diesel(table_name = documents, treat_none_as_null = true)]
pub struct WithdrawnDocument {
    key: Option<String>,
    name: String,
    name_as_sent: &'static str,
    withdrawn_at: Option<Utc>,
    is_erased: bool,
}

impl WithdrawnDocument {
    /// Returns the change of a document with a name that its side withdraws at an instant.
    pub fn at(instant: Utc, name: &str) -> Self {
        Self {
            key: None,
            name: withdrawn_name(name),
            name_as_sent: "",
            withdrawn_at: Some(instant),
            is_erased: false,
        }
    }

    /// Returns the change of a document that the retention withdraws.
    pub fn erased(instant: Utc, name: &str) -> Self {
        Self { is_erased: true, ..Self::at(instant, name) }
    }
}

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

/// An upload whose object is to be deleted.
#[derive(Insertable)]
#[diesel(table_name = uploads)]
pub struct CondemnedUpload {
    key: String,
    recorded_at: Utc,
    condemned: bool,
    order_id: Option<i64>,
}

impl CondemnedUpload {
    /// Returns the ledger's row of a document that is withdrawn from an order.
    pub fn withdrawn(key: String, order: OrderId, at: Utc) -> Self {
        Self { key, recorded_at: at, condemned: true, order_id: Some(order.0) }
    }
}

/// Selects the condemned uploads of an order.
#[auto_type(no_type_alias)]
pub fn condemned_of(order: OrderId) -> _ {
    let order: i64 = order.0;
    uploads::table
        .filter(uploads::order_id.eq(order).and(uploads::condemned))
        .order(uploads::key)
        .select(uploads::key)
}

/// Returns the ledger's rows of removed documents, and the keys of their objects by position.
pub fn condemned(
    mut removed: Vec<(bool, i32, Option<String>)>,
    at: Utc,
) -> (Vec<CondemnedUpload>, Vec<ObjectKey>) {
    removed.sort();
    let keys: Vec<String> = removed.into_iter().filter_map(|(.., key)| key).collect();
    let row = |key: &String| {
        let key = key.clone();
        CondemnedUpload { key, recorded_at: at, condemned: true, order_id: None }
    };
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
