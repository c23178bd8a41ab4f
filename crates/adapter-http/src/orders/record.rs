//! The record of a created order.

use domain::order::{Money, StoredOrder};
use serde::Serialize;
use time::{OffsetDateTime, macros::format_description};
use utoipa::ToSchema;

/// A created order.
#[derive(Serialize, ToSchema)]
pub(crate) struct OrderRecord<'a> {
    /// Identifier of the new order.
    order_id: i64,
    /// Echo of `fileNumber`.
    file_number: &'a str,
    /// Status of the order: `NEW` on creation.
    #[schema(pattern = "^NEW$")]
    order_status: &'a str,
    /// Echo of `signerName`.
    signer_name: &'a str,
    /// Date of the signing, `YYYY-MM-DD`.
    #[schema(format = Date)]
    signing_date: String,
    /// Echo of `propertyAddress`.
    property_address: &'a str,
    /// Identifier of the signing service of the order.
    signing_service_id: i64,
    /// Echo of `clientCompanyId`.
    #[schema(required = true)]
    client_company_id: Option<i64>,
    /// The assigned notary; null on creation.
    #[schema(required = true)]
    notary_id: Option<i64>,
    /// Echo of `invoiceFee`.
    #[schema(required = true, value_type = Option<f64>)]
    invoice_fee: Option<Money>,
    /// Echo of `notaryPay`.
    #[schema(required = true, value_type = Option<f64>)]
    notary_pay: Option<Money>,
    /// Number of stored documents; only for orders with documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1)]
    documents_uploaded: Option<usize>,
    /// When the order was created: RFC 3339 in UTC, with microseconds.
    #[schema(
        format = DateTime,
        pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$"
    )]
    created_at: String,
    /// When the order was last changed: RFC 3339 in UTC, with microseconds.
    #[schema(
        format = DateTime,
        pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z$"
    )]
    updated_at: String,
}

impl<'a> OrderRecord<'a> {
    /// Returns the record of an order. `with_documents` adds the number of documents.
    pub(crate) fn new(stored: &'a StoredOrder, with_documents: bool) -> Self {
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
            invoice_fee: order.signing.invoice.fee,
            notary_pay: order.signing.invoice.notary_pay,
            documents_uploaded: with_documents.then_some(stored.documents.len()),
            created_at: timestamp(stored.created_at),
            updated_at: timestamp(stored.updated_at),
        }
    }
}

/// Formats an instant as RFC 3339 in UTC with microseconds, always of the same length.
fn timestamp(instant: OffsetDateTime) -> String {
    let format =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    instant.format(format).unwrap_or_else(|_| instant.to_string())
}
