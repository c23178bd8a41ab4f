//! The records of orders and of their documents, which `docs/openapi.json` describes.

use domain::{
    document::StoredDocument,
    order::{Dollars, OrderChange, OrderRequest, StoredOrder},
    ports::HistoryEntry,
};
use serde::Serialize;

use crate::{orders::path, respond::instants::timestamp};

/// The record of an order.
#[derive(Serialize)]
pub(crate) struct OrderRecord<'a> {
    order_id: i64,
    file_number: &'a str,
    order_status: &'a str,
    signer_name: &'a str,
    signing_date: String,
    property_address: &'a str,
    signing_service_id: i64,
    client_company_id: Option<i64>,
    notary_id: Option<i64>,
    invoice_fee: Option<Dollars>,
    notary_pay: Option<Dollars>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents_uploaded: Option<usize>,
    created_at: String,
    updated_at: String,
}

impl<'a> OrderRecord<'a> {
    /// Returns the record of an order. It states the number of documents, unless that is `None`.
    pub(crate) fn of(stored: &'a StoredOrder, documents: Option<usize>) -> Self {
        let order = &stored.order;
        let invoice = &order.signing.invoice;
        Self {
            order_id: stored.id.0,
            file_number: order.file_number.as_str(),
            order_status: stored.status.as_str(),
            signer_name: &order.signing.signer.name,
            signing_date: order.appointment.date.to_string(),
            property_address: &order.signing.property.address,
            signing_service_id: order.signing_service_id.0,
            client_company_id: order.contacts.client_company_id,
            notary_id: stored.notary_id,
            invoice_fee: invoice.fee.map(Dollars),
            notary_pay: invoice.notary_pay.map(Dollars),
            documents_uploaded: documents,
            created_at: timestamp(stored.created_at),
            updated_at: timestamp(stored.updated_at),
        }
    }
}

/// An order as a client reads it.
#[derive(Serialize)]
pub struct WholeOrder<'a> {
    #[serde(flatten)]
    record: OrderRecord<'a>,
    details: OrderRequest,
    documents: Vec<DocumentRecord<'a>>,
    history: Vec<ChangeRecord>,
}

impl<'a> WholeOrder<'a> {
    /// Returns an order as a client reads it below a base path.
    pub fn of(stored: &'a StoredOrder, base_path: &str) -> Self {
        let documents_url = path::of_documents(base_path, stored.id);
        Self {
            record: OrderRecord::of(stored, Some(stored.documents.len())),
            details: OrderRequest::of(&stored.order),
            documents: DocumentRecord::all(&stored.documents, 0, &documents_url).collect(),
            history: stored.history().map(ChangeRecord::of).collect(),
        }
    }

    /// Replaces the newest entries of the history by these.
    pub fn with_history(self, history: impl Iterator<Item = OrderChange>) -> Self {
        Self { history: history.map(ChangeRecord::of).collect(), ..self }
    }
}

/// An entry of the history of an order.
#[derive(Serialize)]
struct ChangeRecord {
    at: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<Vec<u32>>,
    order_status: String,
    notary_id: Option<i64>,
    actor: &'static str,
    reason: Option<String>,
}

impl ChangeRecord {
    fn of(change: OrderChange) -> Self {
        Self {
            at: timestamp(change.at),
            kind: change.kind.as_str(),
            changed: change.kind.changed().map(<[String]>::to_vec),
            documents: change.kind.documents().map(<[u32]>::to_vec),
            order_status: change.status.as_str().to_owned(),
            notary_id: change.notary_id,
            actor: change.actor.as_str(),
            reason: change.reason,
        }
    }
}

/// An entry of the list of the history of an order.
#[derive(Serialize)]
pub(super) struct EntryRecord {
    id: i64,
    #[serde(flatten)]
    change: ChangeRecord,
}

impl EntryRecord {
    pub(super) fn of(entry: HistoryEntry) -> Self {
        Self { id: entry.id.0, change: ChangeRecord::of(entry.change) }
    }
}

/// The record of a document.
#[derive(Serialize)]
pub(super) struct DocumentRecord<'a> {
    position: u32,
    name: &'a str,
    name_as_sent: &'a str,
    media_type: &'a str,
    size: u64,
    sha256: String,
    created_at: String,
    url: String,
}

impl<'a> DocumentRecord<'a> {
    /// Returns the records of documents, of which the first has the position `first`. `url` is the
    /// path of the order's documents.
    pub(super) fn all(
        documents: &'a [StoredDocument],
        first: u32,
        url: &str,
    ) -> impl Iterator<Item = Self> {
        (first..).zip(documents).map(move |(position, document)| Self {
            position,
            name: &document.name,
            name_as_sent: &document.name_as_sent,
            media_type: &document.media_type,
            size: document.size,
            sha256: document.sha256.to_string(),
            created_at: timestamp(document.created_at),
            url: format!("{url}/{position}"),
        })
    }
}
