//! The records of orders and of their documents.

use domain::{
    document::StoredDocument,
    order::{Money, OrderRequest, StoredOrder},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{orders::path, respond::instants::timestamp};

/// An order.
#[derive(Serialize)]
pub(crate) struct OrderRecord<'a> {
    /// Identifier of the order.
    order_id: i64,
    /// Echo of `fileNumber`.
    file_number: &'a str,
    /// Status of the order: `NEW` on creation. Systems of the operator set others.
    order_status: &'a str,
    /// Echo of `signerName`.
    signer_name: &'a str,
    /// Date of the signing, `YYYY-MM-DD`.
    signing_date: String,
    /// Echo of `propertyAddress`.
    property_address: &'a str,
    /// Identifier of the signing service of the order.
    signing_service_id: i64,
    /// Echo of `clientCompanyId`.
    client_company_id: Option<i64>,
    /// The assigned notary; null on creation.
    notary_id: Option<i64>,
    /// Echo of `invoiceFee`.
    invoice_fee: Option<Value>,
    /// Echo of `notaryPay`.
    notary_pay: Option<Value>,
    /// Number of documents. Absent in the answer that creates an order without documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    documents_uploaded: Option<usize>,
    /// When the order was created: RFC 3339 in UTC, with microseconds.
    created_at: String,
    /// When the order was last changed: RFC 3339 in UTC, with microseconds.
    updated_at: String,
}

impl<'a> OrderRecord<'a> {
    /// Returns the record of an order, and states the number of its documents.
    pub(crate) fn new(stored: &'a StoredOrder, documents: Option<usize>) -> Self {
        let order = &stored.order;
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
            invoice_fee: order.signing.invoice.fee.map(Money::to_json),
            notary_pay: order.signing.invoice.notary_pay.map(Money::to_json),
            documents_uploaded: documents,
            created_at: timestamp(stored.created_at),
            updated_at: timestamp(stored.updated_at),
        }
    }
}

/// An order with everything that is known of it.
#[derive(Serialize)]
struct WholeOrder<'a> {
    #[serde(flatten)]
    record: OrderRecord<'a>,
    details: Value,
    documents: Vec<Value>,
}

/// Returns an order as a client reads it: record, details and records of documents.
pub fn whole_order<'a>(stored: &'a StoredOrder, base_path: &str) -> impl Serialize + use<'a> {
    let documents_url = path::of_documents(base_path, stored.id);
    WholeOrder {
        record: OrderRecord::new(stored, Some(stored.documents.len())),
        details: OrderRequest::of(&stored.order),
        documents: document_records(&stored.documents, 0, &documents_url).collect(),
    }
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
