//! The operators' endpoints: liveness, readiness and metrics. They require no key, so their address
//! must be private.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use actix_web::{HttpResponse, error::ErrorInternalServerError, web};
use domain::{
    ports::{BlobStore, Clock, DeliveryQueue, OrderRepo, StoreError, WebhookQueue, error_chain},
    use_cases::scan_documents::ScanDocuments,
};
use futures_util::future::OptionFuture;
use prometheus::{
    Gauge, GaugeVec, Registry, TEXT_FORMAT, TextEncoder, register_gauge_vec_with_registry,
    register_gauge_with_registry,
};
use serde::Serialize;
use time::OffsetDateTime;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long the operators' endpoints wait. [`Default`] has the limits of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// A check of a dependency, and the measurement of the queues.
    pub check: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { check: Duration::from_secs(2) }
    }
}

/// How many seconds the metrics report what `/readyz` has found. Load balancers ask more often.
const READINESS_AGE: i64 = 60;

/// The gauges of mails and webhooks: names, and what they count.
const QUEUES: [(&str, &str); 10] = [
    ("notary_orders_mails_pending", "Pending mails in the whole queue."),
    (
        "notary_orders_mails_over_limit",
        "Pending mails that wait because their recipients have had their mails of the hour.",
    ),
    (
        "notary_orders_events_pending",
        "Events of orders whose deliveries are not in the queues yet.",
    ),
    ("notary_orders_mails_failed", "Mails that failed for good and wait for an operator."),
    (
        "notary_orders_mail_oldest_age_seconds",
        "Age of the oldest event or pending mail; 0 if there is none.",
    ),
    ("notary_orders_webhooks_pending", "Pending webhooks of enabled endpoints."),
    ("notary_orders_webhooks_failed", "Webhooks of the last 30 days that failed for good."),
    (
        "notary_orders_webhook_oldest_age_seconds",
        "Age of the oldest webhook without an attempt, of endpoints that do not fail.",
    ),
    ("notary_orders_webhook_endpoints_disabled", "Webhook endpoints that are disabled."),
    (
        "notary_orders_deliveries_due_ahead_seconds",
        "Time until the last pending mail or webhook is due; 0 if there is none.",
    ),
];

/// The state of the operators' endpoints.
pub struct Ops {
    clock: Arc<dyn Clock>,
    registry: Registry,
    queues: Vec<Gauge>,
    /// Which dependencies are available. Checking them costs an object in the document store, so
    /// the metrics report what `/readyz` has found, and nothing if it was not asked lately.
    available: GaugeVec,
    /// When `/readyz` was asked, in seconds since 1970.
    checked_at: AtomicI64,
    database_is_open: AtomicBool,
    /// Set when the service has started.
    dependencies: OnceLock<Dependencies>,
    stopping: AtomicBool,
    limits: TimeLimits,
}

/// The dependencies that make the service ready, and the relay.
pub struct Dependencies {
    /// Stores orders.
    pub orders: Arc<dyn OrderRepo>,
    /// Stores documents.
    pub blobs: Arc<dyn BlobStore>,
    /// Scans documents, if the operator has a scanner.
    pub scan: Option<ScanDocuments>,
    /// Stores deliveries.
    pub queue: Arc<dyn DeliveryQueue>,
    /// Stores webhook deliveries.
    pub webhooks: Arc<dyn WebhookQueue>,
    /// Whether mails can be delivered. Orders continue without the relay.
    pub mail_is_available: Arc<AtomicBool>,
    /// Cancelled if mails and webhooks leave. They wait on a copy of a database.
    pub messages_leave: CancellationToken,
}

impl Ops {
    /// Registers the metrics of the process and of the queue. Fails if a name is already registered.
    pub fn new(
        clock: Arc<dyn Clock>,
        registry: Registry,
        limits: TimeLimits,
    ) -> Result<Self, prometheus::Error> {
        // It reads `/proc`, which other systems do not have.
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let queue = |(name, help)| register_gauge_with_registry!(name, help, registry);
        let queues = QUEUES.into_iter().map(queue).collect::<Result<_, _>>()?;
        let available = register_gauge_vec_with_registry!(
            "notary_orders_dependency_available",
            "1 if a dependency is available; of all but the mail relay, what /readyz has found.",
            &["dependency"],
            registry
        )?;
        Ok(Self {
            clock,
            registry,
            queues,
            available,
            checked_at: AtomicI64::default(),
            database_is_open: AtomicBool::new(false),
            dependencies: OnceLock::new(),
            stopping: AtomicBool::new(false),
            limits,
        })
    }

    /// Reports that the database is open and its schema updated.
    pub fn database_opened(&self) {
        self.database_is_open.store(true, Ordering::Relaxed);
    }

    /// Reports that the service has started, and checks its dependencies from now on.
    pub fn started(&self, dependencies: Dependencies) {
        // Only the first call counts; there is one start.
        let _ = self.dependencies.set(dependencies);
    }

    /// Reports the service as not ready from now on.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is approximate")]
    async fn measure_queues(&self, dependencies: &Dependencies) -> Result<(), StoreError> {
        let mails = dependencies.queue.stats().await?;
        let webhooks = dependencies.webhooks.stats().await?;
        let now = self.clock.now();
        let age = |oldest: Option<OffsetDateTime>| {
            oldest.map_or(0.0, |at| (now - at).as_seconds_f64().max(0.0))
        };
        let latest = mails.latest_due_at.max(webhooks.latest_due_at);
        // In the order of `QUEUES`.
        let values = [
            mails.pending as f64,
            mails.over_limit as f64,
            mails.events as f64,
            mails.failed as f64,
            age(mails.oldest_created_at),
            webhooks.pending as f64,
            webhooks.failed as f64,
            age(webhooks.oldest_untried_at),
            webhooks.disabled_endpoints as f64,
            latest.map_or(0.0, |at| (at - now).as_seconds_f64().max(0.0)),
        ];
        self.queues.iter().zip(values).for_each(|(gauge, value)| gauge.set(value));
        Ok(())
    }

    fn set_available(&self, dependency: &str, is_available: bool) {
        self.available.with_label_values(&[dependency]).set(f64::from(u8::from(is_available)));
    }
}

pub(crate) async fn healthz() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("ok\n")
}

/// Answers with the status of the service and of each dependency.
pub(crate) async fn readyz(ops: web::Data<Ops>) -> HttpResponse {
    let Some(dependencies) = ops.dependencies.get() else {
        let reason = if ops.database_is_open.load(Ordering::Relaxed) {
            "the document store and the mail relay are being checked"
        } else {
            "the database is being opened, and its schema updated"
        };
        return HttpResponse::ServiceUnavailable().json(Starting { status: "starting", reason });
    };
    let scan = dependencies.scan.as_ref();
    let (database, documents, scanner) = futures_util::join!(
        check(&ops, "database", dependencies.orders.check()),
        check(&ops, "documents", dependencies.blobs.check()),
        OptionFuture::from(scan.map(|scan| check(&ops, "scanner", scan.scanner.check())))
    );
    ops.checked_at.store(ops.clock.now().unix_timestamp(), Ordering::Relaxed);
    // Without a scanner that must scan, orders with documents get 503, as without a bucket.
    let may_scan = scanner == Some("ok") || !scan.is_some_and(|scan| scan.required);
    let mail =
        if dependencies.mail_is_available.load(Ordering::Relaxed) { "ok" } else { "unavailable" };
    // A copy takes orders, and a drill must see it ready.
    let messages = (!dependencies.messages_leave.is_cancelled()).then_some("waiting");
    let status = match () {
        () if ops.stopping.load(Ordering::Relaxed) => "stopping",
        () if database == "ok" && documents == "ok" && may_scan => "ready",
        () => "unavailable",
    };
    let mut response =
        if status == "ready" { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    response.json(Readiness { status, database, documents, mail, scanner, messages })
}

/// The readiness of a service that is starting.
#[derive(Serialize)]
struct Starting {
    status: &'static str,
    reason: &'static str,
}

/// The readiness of the service and of each dependency.
#[derive(Serialize)]
struct Readiness {
    status: &'static str,
    database: &'static str,
    documents: &'static str,
    mail: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scanner: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'static str>,
}

async fn check<E: std::error::Error>(
    ops: &Ops,
    dependency: &'static str,
    check: impl Future<Output = Result<(), E>>,
) -> &'static str {
    let found = match timeout(ops.limits.check, check).await {
        Ok(Ok(())) => "ok",
        Ok(Err(error)) => {
            tracing::warn!(dependency, error = error_chain(&error), "not ready");
            "unavailable"
        }
        Err(_) => {
            tracing::warn!(dependency, "not ready: the check timed out");
            "timeout"
        }
    };
    ops.set_available(dependency, found == "ok");
    found
}

pub(crate) async fn metrics(ops: web::Data<Ops>) -> Result<HttpResponse, actix_web::Error> {
    if let Some(dependencies) = ops.dependencies.get() {
        let checked_at = ops.checked_at.load(Ordering::Relaxed);
        if ops.clock.now().unix_timestamp() - checked_at > READINESS_AGE {
            ops.available.reset();
        }
        ops.set_available("mail", dependencies.mail_is_available.load(Ordering::Relaxed));
        // When a queue does not respond, the gauges keep their last values and the other metrics
        // are still reported.
        match timeout(ops.limits.check, ops.measure_queues(dependencies)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = error_chain(&error), "queue metrics not updated");
            }
            Err(_) => tracing::warn!("queue metrics not updated: the query timed out"),
        }
    }
    let text = TextEncoder::new().encode_to_string(&ops.registry.gather());
    let text = text.map_err(ErrorInternalServerError)?;
    Ok(HttpResponse::Ok().content_type(format!("{TEXT_FORMAT}; charset=utf-8")).body(text))
}
