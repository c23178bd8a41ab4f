//! The records of orders and of their documents.

use domain::{
    document::StoredDocument,
    order::{Money, OrderChange, OrderRequest, StoredOrder},
    ports::HistoryEntry,
};
use serde_json::{Value, json};

use crate::{orders::path, respond::instants::timestamp};

/// Returns the record of an order, which `docs/openapi.json` describes. It states the number of
/// documents, unless that is `None`.
pub(crate) fn order_record(stored: &StoredOrder, documents: Option<usize>) -> Value {
    let order = &stored.order;
    let mut record = json!({
        "order_id": stored.id.0,
        "file_number": order.file_number.as_str(),
        "order_status": stored.status.as_str(),
        "signer_name": order.signing.signer.name,
        "signing_date": order.appointment.date.to_string(),
        "property_address": order.signing.property.address,
        "signing_service_id": order.signing_service_id.0,
        "client_company_id": order.contacts.client_company_id,
        "notary_id": stored.notary_id,
        "invoice_fee": order.signing.invoice.fee.map(Money::to_json),
        "notary_pay": order.signing.invoice.notary_pay.map(Money::to_json),
    });
    if let Some(documents) = documents {
        record["documents_uploaded"] = documents.into();
    }
    record["created_at"] = timestamp(stored.created_at).into();
    record["updated_at"] = timestamp(stored.updated_at).into();
    record
}

/// Returns an order as a client reads it: record, details, records of documents and history.
pub fn whole_order(stored: &StoredOrder, base_path: &str) -> Value {
    let documents_url = path::of_documents(base_path, stored.id);
    let mut record = order_record(stored, Some(stored.documents.len()));
    record["details"] = OrderRequest::of(&stored.order);
    record["documents"] = document_records(&stored.documents, 0, &documents_url).collect();
    record["history"] = stored.history().map(|change| change_record(&change)).collect();
    record
}

/// Returns an entry of the history of an order.
pub fn change_record(change: &OrderChange) -> Value {
    json!({
        "at": timestamp(change.at),
        "order_status": change.status.as_str(),
        "notary_id": change.notary_id,
        "actor": change.actor.as_str(),
        "reason": change.reason,
    })
}

/// Returns an entry of the list of the history of an order.
pub(super) fn entry_record(entry: &HistoryEntry) -> Value {
    let mut record = json!({ "id": entry.id.0 });
    if let (Value::Object(record), Value::Object(change)) =
        (&mut record, change_record(&entry.change))
    {
        record.extend(change);
    }
    record
}

/// Returns the records of documents, of which the first has the position `first`. `url` is the path
/// of the order's documents.
pub(super) fn document_records(
    documents: &[StoredDocument],
    first: u32,
    url: &str,
) -> impl Iterator<Item = Value> {
    (first..).zip(documents).map(move |(position, document)| {
        json!({
            "position": position,
            "name": document.name,
            "name_as_sent": document.name_as_sent,
            "media_type": document.media_type,
            "size": document.size,
            "sha256": document.sha256.to_string(),
            "created_at": timestamp(document.created_at),
            "url": format!("{url}/{position}"),
        })
    })
}
