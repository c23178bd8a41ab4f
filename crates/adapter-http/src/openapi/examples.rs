//! Examples of orders, sent and answered. Each one that is sent creates an order.

use domain::order::OrderRequest;
use serde_json::{Value, json};

/// Returns an order with every field.
pub(super) fn full() -> Value {
    request(include_str!("../../../domain/golden/order-v1-full.json"))
}

/// Returns an order with the required fields of a signing at a time.
pub(super) fn minimal() -> Value {
    request(include_str!("../../../domain/golden/order-v1-minimal.json"))
}

/// Returns the request of a golden file of the domain. A test checks that it has one.
fn request(golden: &str) -> Value {
    serde_json::from_str::<Value>(golden).unwrap_or_default()["request"].take()
}

/// Returns the record of an order with documents.
pub(super) fn record() -> Value {
    json!({
        "order_id": 1,
        "file_number": "REFI-1",
        "order_status": "NEW",
        "signer_name": "Jane Doe",
        "signing_date": "2026-12-01",
        "property_address": "123 Main St, Dallas, TX 75201",
        "signing_service_id": 42,
        "client_company_id": 7,
        "notary_id": null,
        "invoice_fee": 150.5,
        "notary_pay": 100,
        "documents_uploaded": 1,
        "created_at": "2026-11-21T12:00:00.000000Z",
        "updated_at": "2026-11-21T12:00:00.000000Z"
    })
}

/// Returns an order with its details and documents.
pub(super) fn order(base_path: &str) -> Value {
    let mut order = record();
    order["details"] = details();
    order["documents"] = json!([document(base_path)]);
    order
}

/// Returns the details of the minimal order, as the service answers with them.
pub(super) fn details() -> Value {
    let request: Option<OrderRequest> = serde_json::from_value(minimal()).ok();
    let parsed = request.and_then(|request| request.parse().ok());
    let details =
        parsed.and_then(|parsed| serde_json::to_value(OrderRequest::of(&parsed.order)).ok());
    details.unwrap_or_default()
}

/// Returns the record of a document.
pub(super) fn document(base_path: &str) -> Value {
    json!({
        "position": 0,
        "name": "Deed_of_Trust.pdf",
        "name_as_sent": "Deed of Trust.pdf",
        "media_type": "application/pdf",
        "size": 48_213,
        "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "created_at": "2026-11-21T12:00:00.000000Z",
        "url": format!("{base_path}/api/order/1/documents/0")
    })
}

/// Returns a list with one item.
pub(super) fn list(url: &str, item: &Value) -> Value {
    json!({ "object": "list", "url": url, "has_more": false, "data": [item] })
}

/// Returns the answer to added documents.
pub(super) fn added(base_path: &str) -> Value {
    json!({ "order_id": 1, "documents_uploaded": 1, "documents": [document(base_path)] })
}
