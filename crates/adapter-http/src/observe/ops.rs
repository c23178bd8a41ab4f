//! The operators' endpoints: liveness, readiness and metrics. They require no key, so their address
//! must be private.

use std::{
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use actix_web::{HttpResponse, web};
use domain::{
    orders::scan_documents::ScanDocuments,
    ports::{
        BlobStore, Clock, DeliveryQueue, OrderRepo, QueueStats, StoreError, WebhookQueue,
        WebhookStats, error_chain,
    },
};
use futures_util::future::OptionFuture;
use prometheus::{
    Encoder as _, Gauge, GaugeVec, Registry, TextEncoder, register_gauge_vec_with_registry,
    register_gauge_with_registry,
};
use serde::Serialize;
use time::OffsetDateTime;
use tokio::time::timeout;

/// Time limit for a check of a dependency.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How many seconds the metrics report what `/readyz` has found. Load balancers ask more often.
const READINESS_AGE: i64 = 60;

/// What the operators' endpoints report on.
pub struct Ops {
    clock: Arc<dyn Clock>,
    registry: Registry,
    mails: MailGauges,
    webhooks: WebhookGauges,
    availability: Availability,
    database_is_open: AtomicBool,
    /// Set when the service has started.
    dependencies: OnceLock<Dependencies>,
    stopping: AtomicBool,
}

/// What the service needs to be ready, and the relay.
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
}

impl Ops {
    /// Registers the metrics of the process and of the queue. Fails if a name is already registered.
    pub fn new(clock: Arc<dyn Clock>, registry: Registry) -> Result<Self, prometheus::Error> {
        // It reads `/proc`, which other systems do not have.
        #[cfg(target_os = "linux")]
        registry.register(Box::new(prometheus::process_collector::ProcessCollector::for_self()))?;
        let mails = MailGauges::register(&registry)?;
        let webhooks = WebhookGauges::register(&registry)?;
        let availability = Availability::register(&registry)?;
        Ok(Self {
            clock,
            registry,
            mails,
            webhooks,
            availability,
            database_is_open: AtomicBool::new(false),
            dependencies: OnceLock::new(),
            stopping: AtomicBool::new(false),
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

    async fn measure_queue(&self) -> Result<(), StoreError> {
        let Some(dependencies) = self.dependencies.get() else { return Ok(()) };
        self.mails.set(&dependencies.queue.stats().await?, self.clock.now());
        self.webhooks.set(&dependencies.webhooks.stats().await?, self.clock.now());
        Ok(())
    }
}

fn gauge(registry: &Registry, name: &str, help: &str) -> Result<Gauge, prometheus::Error> {
    register_gauge_with_registry!(name, help, registry)
}

/// Returns the age of the oldest item in seconds; 0 if there is none.
fn age(oldest: Option<OffsetDateTime>, now: OffsetDateTime) -> f64 {
    oldest.map_or(0.0, |at| (now - at).as_seconds_f64().max(0.0))
}

/// The gauges of events and mails.
struct MailGauges {
    events: Gauge,
    pending: Gauge,
    failed: Gauge,
    oldest: Gauge,
}

impl MailGauges {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| gauge(registry, name, help);
        Ok(Self {
            pending: gauge(
                "notary_orders_follow_ups_pending",
                "Pending mails in the whole queue.",
            )?,
            events: gauge(
                "notary_orders_events_pending",
                "Events of orders whose deliveries are not in the queues yet.",
            )?,
            failed: gauge(
                "notary_orders_follow_ups_buried",
                "Mails that failed for good and wait for an operator.",
            )?,
            oldest: gauge(
                "notary_orders_follow_up_oldest_age_seconds",
                "Age of the oldest event or pending mail; 0 if there is none.",
            )?,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is approximate")]
    fn set(&self, stats: &QueueStats, now: OffsetDateTime) {
        self.events.set(stats.events as f64);
        self.pending.set(stats.pending as f64);
        self.failed.set(stats.failed as f64);
        self.oldest.set(age(stats.oldest_created_at, now));
    }
}

/// The gauges of webhooks.
struct WebhookGauges {
    pending: Gauge,
    failed: Gauge,
    oldest: Gauge,
    disabled: Gauge,
}

impl WebhookGauges {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name, help| gauge(registry, name, help);
        Ok(Self {
            pending: gauge(
                "notary_orders_webhooks_pending",
                "Pending webhooks of enabled endpoints.",
            )?,
            failed: gauge(
                "notary_orders_webhooks_failed",
                "Webhooks of the last 30 days that failed for good.",
            )?,
            oldest: gauge(
                "notary_orders_webhook_oldest_age_seconds",
                "Age of the oldest webhook without an attempt, of endpoints that do not fail.",
            )?,
            disabled: gauge(
                "notary_orders_webhook_endpoints_disabled",
                "Webhook endpoints that are disabled.",
            )?,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "a gauge is approximate")]
    fn set(&self, stats: &WebhookStats, now: OffsetDateTime) {
        self.pending.set(stats.pending as f64);
        self.failed.set(stats.failed as f64);
        self.disabled.set(stats.disabled_endpoints as f64);
        self.oldest.set(age(stats.oldest_untried_at, now));
    }
}

/// Which dependencies are available. Checking them costs an object in the document store, so the
/// metrics report what `/readyz` has found, and nothing if it was not asked lately.
struct Availability {
    gauge: GaugeVec,
    /// When `/readyz` was asked, in seconds since 1970.
    checked_at: AtomicI64,
}

impl Availability {
    fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = register_gauge_vec_with_registry!(
            "notary_orders_dependency_available",
            "1 if a dependency is available; of all but the mail relay, what /readyz has found.",
            &["dependency"],
            registry
        )?;
        Ok(Self { gauge, checked_at: AtomicI64::default() })
    }

    fn checked(&self, database: &str, documents: &str, scanner: Option<&str>, now: OffsetDateTime) {
        self.set("database", database == "ok");
        self.set("documents", documents == "ok");
        if let Some(scanner) = scanner {
            self.set("scanner", scanner == "ok");
        }
        self.checked_at.store(now.unix_timestamp(), Ordering::Relaxed);
    }

    fn update(&self, mail_is_available: bool, now: OffsetDateTime) {
        if now.unix_timestamp() - self.checked_at.load(Ordering::Relaxed) > READINESS_AGE {
            self.gauge.reset();
        }
        self.set("mail", mail_is_available);
    }

    fn set(&self, dependency: &str, is_available: bool) {
        self.gauge.with_label_values(&[dependency]).set(f64::from(u8::from(is_available)));
    }
}

pub(crate) async fn healthz() -> HttpResponse {
    HttpResponse::Ok().content_type("text/plain; charset=utf-8").body("ok\n")
}

/// The body of `/readyz`: the status of the service and of each dependency.
#[derive(Serialize)]
struct Readiness {
    status: &'static str,
    database: &'static str,
    documents: &'static str,
    /// `None` without a scanner.
    #[serde(skip_serializing_if = "Option::is_none")]
    scanner: Option<&'static str>,
    mail: &'static str,
}

/// The body of `/readyz` before the service has started.
#[derive(Serialize)]
struct Starting {
    status: &'static str,
    reason: &'static str,
}

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
        check("database", dependencies.orders.check()),
        check("documents", dependencies.blobs.check()),
        OptionFuture::from(scan.map(|scan| check("scanner", scan.scanner.check())))
    );
    ops.availability.checked(database, documents, scanner, ops.clock.now());
    // Without a scanner that must scan, orders with documents get 503, as without a bucket.
    let may_scan = scanner == Some("ok") || !scan.is_some_and(|scan| scan.required);
    let mail =
        if dependencies.mail_is_available.load(Ordering::Relaxed) { "ok" } else { "unavailable" };
    let status = match () {
        () if ops.stopping.load(Ordering::Relaxed) => "stopping",
        () if database == "ok" && documents == "ok" && may_scan => "ready",
        () => "unavailable",
    };
    let mut response =
        if status == "ready" { HttpResponse::Ok() } else { HttpResponse::ServiceUnavailable() };
    response.json(Readiness { status, database, documents, scanner, mail })
}

async fn check<E: std::error::Error>(
    dependency: &'static str,
    check: impl Future<Output = Result<(), E>>,
) -> &'static str {
    match timeout(TIMEOUT, check).await {
        Ok(Ok(())) => "ok",
        Ok(Err(error)) => {
            tracing::warn!(dependency, error = error_chain(&error), "not ready");
            "unavailable"
        }
        Err(_) => {
            tracing::warn!(dependency, "not ready: the check timed out");
            "timeout"
        }
    }
}

pub(crate) async fn metrics(ops: web::Data<Ops>) -> HttpResponse {
    if let Some(dependencies) = ops.dependencies.get() {
        let mail_is_available = dependencies.mail_is_available.load(Ordering::Relaxed);
        ops.availability.update(mail_is_available, ops.clock.now());
    }
    // When the queue does not respond, its gauges keep their last values and the other metrics are
    // still reported.
    match timeout(TIMEOUT, ops.measure_queue()).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = error_chain(&error), "queue metrics not updated"),
        Err(_) => tracing::warn!("queue metrics not updated: the query timed out"),
    }
    let mut text = Vec::new();
    let encoder = TextEncoder::new();
    match encoder.encode(&ops.registry.gather(), &mut text) {
        Ok(()) => HttpResponse::Ok()
            .content_type(format!("{}; charset=utf-8", encoder.format_type()))
            .body(text),
        Err(error) => {
            tracing::error!(error = error_chain(&error), "metrics could not be encoded");
            HttpResponse::InternalServerError().finish()
        }
    }
}
