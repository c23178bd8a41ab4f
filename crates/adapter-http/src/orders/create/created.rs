//! The answer to a created order, and what is counted and logged about it.

use actix_web::{HttpRequest, HttpResponse};
use domain::orders::create_order::CreatedOrder;

use crate::{
    access::idempotency_key::IDEMPOTENCY_REPLAYED,
    observe::{metrics::ApiMetrics, request_notes::note},
    orders::record::OrderRecord,
};

/// The two ways to create an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A JSON body without documents.
    Json,
    /// A multipart form with documents.
    Form,
}

impl Operation {
    /// Returns the name in metrics and fingerprints. It must not change: stored fingerprints
    /// contain it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Form => "multipart",
        }
    }
}

/// Counts an order, and logs its disagreeing UTC datetimes. Works without the request, because the
/// client may have disconnected.
pub(crate) fn count(
    metrics: &ApiMetrics,
    operation: Operation,
    CreatedOrder { stored, utc_disagreements, replayed, unscanned }: &CreatedOrder,
) {
    if *replayed {
        return metrics.replays.inc();
    }
    if stored.is_test {
        metrics.test_orders.with_label_values(&[operation.as_str()]).inc();
    } else {
        metrics.orders.with_label_values(&[operation.as_str()]).inc();
        metrics.stored(stored.documents.iter().map(|document| document.size));
    }
    metrics.stored_unscanned(stored.id, *unscanned);
    for field in utc_disagreements {
        tracing::warn!(
            order_id = stored.id.0,
            field,
            "the supplied UTC datetime disagrees with the local time; the local time is stored"
        );
        metrics.utc_disagreements.with_label_values(&[*field]).inc();
    }
}

/// Builds the 201 response.
pub(crate) fn response(
    request: &HttpRequest,
    operation: Operation,
    created: &CreatedOrder,
) -> HttpResponse {
    note(request, |notes| {
        notes.order = Some(created.stored.id);
        if created.replayed {
            notes.message = Some("order created before, answered again");
        } else {
            notes.message = Some("order created");
            notes.documents = Some(created.stored.documents.len());
            notes.is_test = Some(created.stored.is_test);
        }
    });
    let mut response = HttpResponse::Created();
    if created.replayed {
        response.insert_header((IDEMPOTENCY_REPLAYED, "true"));
    }
    let documents = (operation == Operation::Form).then_some(created.stored.documents.len());
    response.json(OrderRecord::new(&created.stored, documents))
}
