//! Metrics of the API.

use std::time::Duration;

use actix_web::http::Method;
use domain::{access::DONE, appointment::ZoneDatabase, order::OrderId};
use prometheus::{
    Histogram, HistogramVec, IntCounter, IntCounterVec, Registry, register_gauge_vec_with_registry,
    register_histogram_vec_with_registry, register_histogram_with_registry,
    register_int_counter_vec_with_registry, register_int_counter_with_registry,
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
    pub(crate) problems: IntCounterVec,
    durations: HistogramVec,
    pub(crate) orders: IntCounterVec,
    pub(crate) test_orders: IntCounterVec,
    pub(crate) duplicates: IntCounter,
    pub(crate) over_concurrency_limit: IntCounter,
    pub(crate) replays: IntCounter,
    documents: IntCounter,
    document_bytes: IntCounter,
    document_sizes: Histogram,
    documents_unscanned: IntCounter,
    pub(crate) document_bytes_read: IntCounter,
    pub(crate) documents_missing: IntCounter,
    pub(crate) downloads_cut: IntCounter,
    pub(crate) utc_disagreements: IntCounterVec,
    pub(crate) sign_ins: IntCounterVec,
}

/// Buckets of the duration of a request, in seconds.
const DURATIONS: [f64; 15] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

impl ApiMetrics {
    /// Registers the metrics. Fails if a name is already registered.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter =
            |name: &str, help: &str| register_int_counter_with_registry!(name, help, registry);
        let counters = |name: &str, help: &str, labels: &[&str]| {
            register_int_counter_vec_with_registry!(name, help, labels, registry)
        };
        let metrics = Self {
            requests: counters(
                "notary_orders_http_requests_total",
                "Requests by method, route and status.",
                &["method", "route", "status"],
            )?,
            problems: counters(
                "notary_orders_http_problems_total",
                "Requests that were rejected or failed, by the code of their problem.",
                &["code"],
            )?,
            durations: register_histogram_vec_with_registry!(
                "notary_orders_http_request_duration_seconds",
                "Time from the last byte of a request to the first byte of its answer, by route.",
                &["route"],
                DURATIONS.to_vec(),
                registry
            )?,
            orders: counters(
                "notary_orders_orders_created_total",
                "Orders created, by operation.",
                &["operation"],
            )?,
            test_orders: counters(
                "notary_orders_test_orders_created_total",
                "Orders created with test keys, by operation.",
                &["operation"],
            )?,
            replays: counter(
                "notary_orders_idempotent_replays_total",
                "Repeated requests that were answered with the order created before.",
            )?,
            duplicates: counter(
                "notary_orders_duplicate_orders_total",
                "Orders rejected because their file number was used within the window.",
            )?,
            over_concurrency_limit: counter(
                "notary_orders_shed_total",
                "Requests answered with 503 because a limit of this instance was reached.",
            )?,
            document_sizes: register_histogram_with_registry!(
                "notary_orders_document_size_bytes",
                "Sizes of stored documents.",
                prometheus::exponential_buckets(1024.0, 4.0, 8)?,
                registry
            )?,
            documents: counter("notary_orders_documents_stored_total", "Documents stored.")?,
            document_bytes: counter(
                "notary_orders_document_bytes_stored_total",
                "Bytes of documents stored.",
            )?,
            documents_unscanned: counter(
                "notary_orders_documents_unscanned_total",
                "Documents stored without a scan because the malware scanner was unavailable.",
            )?,
            document_bytes_read: counter(
                "notary_orders_document_bytes_read_total",
                "Bytes of documents sent to clients.",
            )?,
            documents_missing: counter(
                "notary_orders_documents_missing_total",
                "Downloads that failed because the store has no object of the document.",
            )?,
            downloads_cut: counter(
                "notary_orders_downloads_cut_total",
                "Downloads that were cut off because the store failed.",
            )?,
            utc_disagreements: counters(
                "notary_orders_utc_disagreements_total",
                "Supplied UTC datetimes that disagree with the local time, by field.",
                &["field"],
            )?,
            sign_ins: counters(
                "notary_orders_sign_ins_total",
                "Sign-ins by way and outcome: ok, or why nobody was signed in.",
                &["way", "outcome"],
            )?,
        };
        register_versions(registry)?;
        for operation in ["json", "multipart"] {
            metrics.orders.with_label_values(&[operation]);
            metrics.test_orders.with_label_values(&[operation]);
        }
        for way in ["passkey", "login", "key"] {
            metrics.sign_ins.with_label_values(&[way, DONE]);
        }
        Ok(metrics)
    }

    /// Counts an answered request. Its labels are a closed set, so clients cannot add series.
    pub(crate) fn answered(&self, method: &Method, route: &str, status: u16, duration: Duration) {
        let method = known_method(method);
        self.requests.with_label_values(&[method, route, &status.to_string()]).inc();
        self.durations.with_label_values(&[route]).observe(duration.as_secs_f64());
    }

    /// Logs and counts documents that were stored without a scan.
    pub(crate) fn stored_unscanned(&self, OrderId(order_id): OrderId, documents: usize) {
        if documents > 0 {
            tracing::warn!(order_id, documents, "documents stored without a malware scan");
            self.documents_unscanned.inc_by(documents as u64);
        }
    }

    /// Counts stored documents.
    pub(crate) fn stored(&self, document_sizes: impl Iterator<Item = u64>) {
        for size in document_sizes {
            self.documents.inc();
            self.document_bytes.inc_by(size);
            #[expect(clippy::cast_precision_loss, reason = "a document is far below 2^53 bytes")]
            self.document_sizes.observe(size as f64);
        }
    }
}

fn register_versions(registry: &Registry) -> Result<(), prometheus::Error> {
    for (name, help, version) in [
        (
            "notary_orders_build_info",
            "Always 1; the label has the version of the program.",
            env!("CARGO_PKG_VERSION"),
        ),
        (
            "notary_orders_tzdata_info",
            "Always 1; the label has the version of the time zone data.",
            ZoneDatabase::current().version(),
        ),
    ] {
        register_gauge_vec_with_registry!(name, help, &["version"], registry)?
            .with_label_values(&[version])
            .set(1.0);
    }
    Ok(())
}
