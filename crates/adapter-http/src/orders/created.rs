//! The answer to a created order, and what is counted and logged about it.

use actix_web::{HttpRequest, HttpResponse, HttpResponseBuilder, http::header};
use domain::{order::OrderId, use_cases::create_order::CreatedOrder};

use crate::{
    admission::idempotency_key::IDEMPOTENCY_REPLAYED,
    orders::{path, record::OrderRecord},
    request::{metrics::ApiMetrics, notes::note},
    state::Api,
};

/// Name of the operation with a JSON body, in metrics and fingerprints. It must not change, as that of
/// the form: stored fingerprints contain them.
pub(crate) const JSON: &str = "json";
/// Name of the operation with a multipart form.
pub(crate) const FORM: &str = "multipart";

/// Counts an order, and its disagreeing UTC datetimes. Works without the request, because the
/// client may have disconnected.
pub(crate) fn count(
    metrics: &ApiMetrics,
    operation: &str,
    CreatedOrder { stored, utc_disagreements, replayed, unscanned }: &CreatedOrder,
) {
    if *replayed {
        return metrics.replays.inc();
    }
    if stored.is_test {
        metrics.test_orders.with_label_values(&[operation]).inc();
    } else {
        metrics.orders.with_label_values(&[operation]).inc();
        metrics.stored(stored.documents.iter().map(|document| document.size));
    }
    metrics.stored_unscanned(stored.id, *unscanned);
    warn(metrics, stored.id, utc_disagreements);
}

/// Logs and counts the UTC datetimes of a request that disagree with the local times.
pub(crate) fn warn(metrics: &ApiMetrics, order: OrderId, utc_disagreements: &[&'static str]) {
    for field in utc_disagreements {
        tracing::warn!(
            order_id = order.0,
            field,
            "the supplied UTC datetime disagrees with the local time; the local time is stored"
        );
        metrics.utc_disagreements.with_label_values(&[*field]).inc();
    }
}

/// Builds the 201 response.
pub(crate) fn response(
    request: &HttpRequest,
    api: &Api,
    operation: &str,
    CreatedOrder { stored, replayed, .. }: &CreatedOrder,
) -> HttpResponse {
    let messages = ["order created", "order created before, answered again"];
    let documents = stored.documents.len();
    let mut response = begin(request, stored.id, documents, *replayed, messages);
    note(request, |notes| notes.is_test = (!replayed).then_some(stored.is_test));
    let documents = (operation == FORM).then_some(documents);
    response.insert_header((header::LOCATION, path::of_order(&api.base_path, stored.id)));
    response.json(OrderRecord::created(stored, documents))
}

/// Begins the 201 response to a request that has stored documents of an order, or repeats one that
/// has. The log gets the first message or the second.
pub(super) fn begin(
    request: &HttpRequest,
    order: OrderId,
    documents: usize,
    replayed: bool,
    [stored, repeated]: [&'static str; 2],
) -> HttpResponseBuilder {
    note(request, |notes| {
        notes.order = Some(order);
        notes.message = Some(if replayed { repeated } else { stored });
        notes.documents = (!replayed).then_some(documents);
    });
    let mut response = HttpResponse::Created();
    if replayed {
        response.insert_header((IDEMPOTENCY_REPLAYED, "true"));
    }
    response
}
