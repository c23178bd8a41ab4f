//! Log lines and metrics of background work.

use domain::{
    delivery::run_deliveries::{
        DeliveryOutcome::{LeaseLost, Settled},
        DeliveryReport, OVER_LIMIT,
    },
    ports::Settlement::{Done, Fail, Postpone, RetryAt},
    webhook::{DisabledBy, EndpointId, run_webhooks::WebhookReport},
};
use prometheus::{
    IntCounter, IntCounterVec, Registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry,
};
use tracing::Level;

/// The counters of the workers.
#[derive(Clone)]
pub struct WorkerMetrics {
    mails: IntCounterVec,
    webhooks: IntCounterVec,
    disabled: IntCounterVec,
    swept: IntCounter,
}

impl WorkerMetrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name, help, label, values: &[&str]| {
            let counters = register_int_counter_vec_with_registry!(name, help, &[label], registry)?;
            for value in values {
                counters.with_label_values(&[value]);
            }
            Ok::<_, prometheus::Error>(counters)
        };
        Ok(Self {
            mails: counters(
                "notary_orders_mails_total",
                "Attempts to deliver a mail, by outcome.",
                "outcome",
                &["delivered", "retried", "postponed", "buried", "over_limit", "lease_lost"],
            )?,
            webhooks: counters(
                "notary_orders_webhooks_total",
                "Attempts to deliver a webhook, by outcome.",
                "outcome",
                &["delivered", "retried", "postponed", "failed", "lease_lost"],
            )?,
            disabled: counters(
                "notary_orders_webhook_endpoints_disabled_total",
                "Webhook endpoints that the service has disabled, by reason.",
                "reason",
                &[DisabledBy::Gone, DisabledBy::Failures].map(DisabledBy::as_str),
            )?,
            swept: register_int_counter_with_registry!(
                "notary_orders_uploads_swept_total",
                "Abandoned uploads that were removed.",
                registry
            )?,
        })
    }

    /// Counts and logs an attempt to deliver a mail.
    pub fn delivery(&self, report: &DeliveryReport) {
        let (outcome, level, text, error) = match &report.outcome {
            Settled(Done) => ("delivered", Level::INFO, "mail delivered", None),
            Settled(RetryAt { error, .. }) => {
                ("retried", Level::WARN, "mail not delivered; it will be retried", Some(error))
            }
            // The outage is one line of its own. A line per mail would flood the log.
            Settled(Postpone { error, .. }) => {
                let text = "mail postponed; no mail can be delivered now";
                ("postponed", Level::DEBUG, text, Some(error))
            }
            // An attack would flood the log. The queue keeps each of them for the operator.
            Settled(Fail { error, .. }) if error == OVER_LIMIT => {
                ("over_limit", Level::DEBUG, "mail failed for good", Some(error))
            }
            Settled(Fail { error, .. }) => {
                ("buried", Level::ERROR, "mail failed for good", Some(error))
            }
            LeaseLost => ("lease_lost", Level::WARN, "mail took longer than its lease", None),
        };
        let (delivery, order_id) = (Some(report.id.0), Some(report.order_id.0));
        log(level, text, &Subject { delivery, order_id, ..Subject::default() }, error);
        self.mails.with_label_values(&[outcome]).inc();
    }

    /// Counts and logs an attempt to deliver a webhook. The lines have no URL: its path may be a
    /// secret of the client.
    pub fn webhook(&self, report: &WebhookReport) {
        let (outcome, level, text, error) = match &report.outcome {
            Settled(Done) => ("delivered", Level::INFO, "webhook delivered", None),
            Settled(RetryAt { error, .. }) => {
                ("retried", Level::INFO, "webhook not delivered; it will be retried", Some(error))
            }
            Settled(Postpone { error, .. }) => {
                ("postponed", Level::ERROR, "webhook postponed", Some(error))
            }
            Settled(Fail { error, .. }) => {
                ("failed", Level::WARN, "webhook failed for good", Some(error))
            }
            LeaseLost => {
                let text = "webhook took longer than its lease, or its endpoint was removed";
                ("lease_lost", Level::WARN, text, None)
            }
        };
        let (webhook, endpoint) = (Some(report.id.0), Some(report.endpoint.0));
        let order_id = report.order_id.map(|id| id.0);
        log(level, text, &Subject { webhook, endpoint, order_id, delivery: None }, error);
        self.webhooks.with_label_values(&[outcome]).inc();
    }

    /// Counts and logs an endpoint that the service has disabled.
    pub fn disabled(&self, endpoint: EndpointId, reason: DisabledBy) {
        let (endpoint, reason) = (endpoint.0, reason.as_str());
        tracing::warn!(endpoint, reason, "webhook endpoint disabled; its deliveries wait");
        self.disabled.with_label_values(&[reason]).inc();
    }

    /// Counts and logs swept uploads.
    pub fn swept(&self, uploads: usize) {
        if uploads > 0 {
            tracing::info!(swept = uploads, "abandoned uploads removed");
            self.swept.inc_by(uploads as u64);
        }
    }
}

/// What a line is about.
#[derive(Default)]
struct Subject {
    delivery: Option<i64>,
    webhook: Option<i64>,
    endpoint: Option<i64>,
    order_id: Option<i64>,
}

/// Logs an outcome. The line leaves out what is `None`.
fn log(level: Level, text: &str, subject: &Subject, error: Option<&String>) {
    let Subject { delivery, webhook, endpoint, order_id } = *subject;
    match level {
        Level::ERROR => tracing::error!(delivery, webhook, endpoint, order_id, error, "{text}"),
        Level::WARN => tracing::warn!(delivery, webhook, endpoint, order_id, error, "{text}"),
        Level::INFO => tracing::info!(delivery, webhook, endpoint, order_id, error, "{text}"),
        _ => tracing::debug!(delivery, webhook, endpoint, order_id, error, "{text}"),
    }
}
