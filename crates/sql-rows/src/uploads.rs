//! Rows of the upload ledger.

use diesel::{dsl::auto_type, prelude::*};
use domain::{
    document::ObjectKey,
    order::{DocumentId, OrderId, change::WithdrawnDocument},
};
use time::OffsetDateTime;

use crate::{
    Utc,
    documents::{is_signed, stored_position},
    instant::nearest,
    schema::{orders, uploads},
};

/// An upload that an order gets.
#[derive(Insertable)]
#[diesel(table_name = uploads)]
pub struct UploadFor {
    key: String,
    recorded_at: Utc,
    order_id: Option<i64>,
}

/// Returns the ledger's rows of documents that an order gets.
pub fn uploads_for(order: OrderId, keys: &[ObjectKey], at: OffsetDateTime) -> Vec<UploadFor> {
    let row = |key| UploadFor { key, recorded_at: Utc(at), order_id: Some(order.0) };
    sorted_keys(keys).into_iter().map(row).collect()
}

/// Returns keys in the order in which every call writes them, so that calls never deadlock.
pub fn sorted_keys(keys: &[ObjectKey]) -> Vec<String> {
    let mut keys: Vec<_> = keys.iter().map(|key| key.as_str().to_owned()).collect();
    keys.sort();
    keys
}

/// An upload whose object is to be deleted.
#[derive(Insertable)]
#[diesel(table_name = uploads)]
pub struct CondemnedUpload {
    key: String,
    recorded_at: Utc,
    condemned: bool,
    order_id: Option<i64>,
    signed: Option<bool>,
    position: Option<i32>,
}

impl CondemnedUpload {
    /// Returns the ledger's row of a document of an erased order.
    pub(crate) fn of_erased(key: String, at: Utc) -> Self {
        let (order_id, signed, position) = (None, None, None);
        Self { key, recorded_at: at, condemned: true, order_id, signed, position }
    }

    /// Returns the ledger's row of a withdrawn document.
    pub(crate) fn of_withdrawn(order: OrderId, document: &WithdrawnDocument, at: Utc) -> Self {
        Self {
            order_id: Some(order.0),
            signed: Some(is_signed(document.kind)),
            position: Some(stored_position(document.position)),
            ..Self::of_erased(document.key.as_str().to_owned(), at)
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

/// Selects the uploads that requests in progress add to orders that were erased a short time before an
/// instant. Later, the request is over, and the sweeper deletes what it left.
#[auto_type(no_type_alias)]
pub fn uploads_of_erased(at: Utc) -> _ {
    let nearest: Utc = nearest(at);
    uploads::table
        .inner_join(orders::table.on(orders::id.nullable().eq(uploads::order_id)))
        .filter(orders::erased_at.gt(nearest))
}

/// Selects the uploads that no order adopted in time, and those whose clock was ahead, after a key.
#[auto_type(no_type_alias)]
pub fn abandoned_uploads(
    recorded_before: OffsetDateTime,
    ahead: OffsetDateTime,
    after: Option<ObjectKey>,
) -> _ {
    let recorded_before: Utc = Utc(recorded_before);
    let ahead: Utc = Utc(ahead);
    // No key is empty.
    let after: String = after.map(|key| key.as_str().to_owned()).unwrap_or_default();
    uploads::table
        .filter(
            uploads::condemned
                .or(uploads::recorded_at.lt(recorded_before))
                .or(uploads::recorded_at.gt(ahead)),
        )
        .filter(uploads::key.gt(after))
        .order(uploads::key)
}
