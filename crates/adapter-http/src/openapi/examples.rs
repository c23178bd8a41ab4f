//! Examples of orders. Each creates an order when sent.

use serde_json::Value;

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
