//! Metrics of the API.

use std::time::Duration;

use actix_web::http::Method;
use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};

/// Returns the method of a request for metrics and logs. Clients can send any word as a method, so
/// unknown ones have one name.
pub(crate) fn known_method(method: &Method) -> &str {
    match method.as_str() {
        standard @ ("GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS") => standard,
        _ => "OTHER",
    }
}

/// Counters of the API.
#[derive(Clone)]
pub struct ApiMetrics {
    requests: IntCounterVec,
    durations: HistogramVec,
    orders: IntCounterVec,
    test_orders: IntCounterVec,
    duplicates: IntCounter,
    over_concurrency_limit: IntCounter,
    replays: IntCounter,
    documents: IntCounter,
    document_bytes: IntCounter,
    document_sizes: Histogram,
    utc_disagreements: IntCounterVec,
}

impl ApiMetrics {
    /// Registers the metrics. Fails if a name is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let requests =
            Opts::new("notary_orders_http_requests_total", "Requests by method, route and status.");
        let durations = HistogramOpts::new(
            "notary_orders_http_request_duration_seconds",
            "Time from the head of a request to the head of its answer, by route.",
        )
        .buckets(vec![
            0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
            60.0,
        ]);
        let sizes =
            HistogramOpts::new("notary_orders_document_size_bytes", "Sizes of stored documents.")
                .buckets(prometheus::exponential_buckets(1024.0, 4.0, 8)?);
        let metrics = Self {
            requests: IntCounterVec::new(requests, &["method", "route", "status"])?,
            durations: HistogramVec::new(durations, &["route"])?,
            orders: IntCounterVec::new(
                Opts::new("notary_orders_orders_created_total", "Orders created, by operation."),
                &["operation"],
            )?,
            test_orders: IntCounterVec::new(
                Opts::new(
                    "notary_orders_test_orders_created_total",
                    "Orders created with test keys, by operation.",
                ),
                &["operation"],
            )?,
            replays: IntCounter::new(
                "notary_orders_idempotent_replays_total",
                "Repeated requests that were answered with the order created before.",
            )?,
            duplicates: IntCounter::new(
                "notary_orders_duplicate_orders_total",
                "Orders rejected because their file number was used within the window.",
            )?,
            over_concurrency_limit: IntCounter::new(
                "notary_orders_shed_total",
                "JSON orders answered with 503 because of the concurrency limit.",
            )?,
            documents: IntCounter::new(
                "notary_orders_documents_stored_total",
                "Documents stored.",
            )?,
            document_bytes: IntCounter::new(
                "notary_orders_document_bytes_stored_total",
                "Bytes of documents stored.",
            )?,
            document_sizes: Histogram::with_opts(sizes)?,
            utc_disagreements: IntCounterVec::new(
                Opts::new(
                    "notary_orders_utc_disagreements_total",
                    "Supplied UTC datetimes that disagree with the local time, by field.",
                ),
                &["field"],
            )?,
        };
        for operation in ["json", "multipart"] {
            metrics.orders.with_label_values(&[operation]);
            metrics.test_orders.with_label_values(&[operation]);
        }
        registry.register(Box::new(metrics.requests.clone()))?;
        registry.register(Box::new(metrics.durations.clone()))?;
        registry.register(Box::new(metrics.orders.clone()))?;
        registry.register(Box::new(metrics.test_orders.clone()))?;
        registry.register(Box::new(metrics.duplicates.clone()))?;
        registry.register(Box::new(metrics.replays.clone()))?;
        registry.register(Box::new(metrics.over_concurrency_limit.clone()))?;
        registry.register(Box::new(metrics.documents.clone()))?;
        registry.register(Box::new(metrics.document_bytes.clone()))?;
        registry.register(Box::new(metrics.document_sizes.clone()))?;
        registry.register(Box::new(metrics.utc_disagreements.clone()))?;
        Ok(metrics)
    }

    /// Counts an answered request. Its labels are a closed set, so clients cannot add series.
    pub(crate) fn answered(&self, method: &Method, route: &str, status: u16, duration: Duration) {
        let method = known_method(method);
        self.requests.with_label_values(&[method, route, &status.to_string()]).inc();
        self.durations.with_label_values(&[route]).observe(duration.as_secs_f64());
    }

    pub(crate) fn created(&self, operation: &str, document_sizes: impl Iterator<Item = u64>) {
        self.orders.with_label_values(&[operation]).inc();
        for size in document_sizes {
            self.documents.inc();
            self.document_bytes.inc_by(size);
            #[expect(clippy::cast_precision_loss, reason = "a document is far below 2^53 bytes")]
            self.document_sizes.observe(size as f64);
        }
    }

    pub(crate) fn test_order(&self, operation: &str) {
        self.test_orders.with_label_values(&[operation]).inc();
    }

    pub(crate) fn replayed(&self) {
        self.replays.inc();
    }

    pub(crate) fn over_concurrency_limit(&self) {
        self.over_concurrency_limit.inc();
    }

    pub(crate) fn duplicate(&self) {
        self.duplicates.inc();
    }

    pub(crate) fn utc_disagreement(&self, field: &str) {
        self.utc_disagreements.with_label_values(&[field]).inc();
    }
}
