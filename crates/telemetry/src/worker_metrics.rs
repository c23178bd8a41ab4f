//! Log lines and metrics of background work.

use domain::{
    delivery::run_deliveries::{DeliveryOutcome, DeliveryReport, OVER_LIMIT},
    ports::Settlement,
    webhook::{DisabledBy, EndpointId, run_webhooks::WebhookReport},
};
use prometheus::{
    IntCounter, IntCounterVec, Registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry,
};

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

    /// Counts and logs an attempt.
    pub fn delivery(&self, report: &DeliveryReport) {
        let (delivery, order_id) = (report.id.0, report.order_id.0);
        let outcome = match &report.outcome {
            DeliveryOutcome::Settled(Settlement::Done) => {
                tracing::info!(delivery, order_id, "mail delivered");
                "delivered"
            }
            DeliveryOutcome::Settled(Settlement::RetryAt { error, .. }) => {
                tracing::warn!(delivery, order_id, error, "mail not delivered; it will be retried");
                "retried"
            }
            // The outage is one line of its own. A line per mail would flood the log.
            DeliveryOutcome::Settled(Settlement::Postpone { error, .. }) => {
                tracing::debug!(
                    delivery,
                    order_id,
                    error,
                    "mail postponed; no mail can be delivered now"
                );
                "postponed"
            }
            // An attack would flood the log. The queue keeps each of them for the operator.
            DeliveryOutcome::Settled(Settlement::Fail { error, .. }) if error == OVER_LIMIT => {
                tracing::debug!(delivery, order_id, error, "mail failed for good");
                "over_limit"
            }
            DeliveryOutcome::Settled(Settlement::Fail { error, .. }) => {
                tracing::error!(delivery, order_id, error, "mail failed for good");
                "buried"
            }
            DeliveryOutcome::LeaseLost => {
                tracing::warn!(delivery, order_id, "mail took longer than its lease");
                "lease_lost"
            }
        };
        self.mails.with_label_values(&[outcome]).inc();
    }

    /// Counts and logs an attempt. The lines have no URL: its path may be a secret of the client.
    pub fn webhook(&self, report: &WebhookReport) {
        let (webhook, endpoint) = (report.id.0, report.endpoint.0);
        let order_id = report.order_id.map(|id| id.0);
        let outcome = match &report.outcome {
            DeliveryOutcome::Settled(Settlement::Done) => {
                tracing::info!(webhook, endpoint, order_id, "webhook delivered");
                "delivered"
            }
            DeliveryOutcome::Settled(Settlement::RetryAt { error, .. }) => {
                tracing::info!(
                    webhook,
                    endpoint,
                    order_id,
                    error,
                    "webhook not delivered; it will be retried"
                );
                "retried"
            }
            DeliveryOutcome::Settled(Settlement::Postpone { error, .. }) => {
                tracing::error!(webhook, endpoint, order_id, error, "webhook postponed");
                "postponed"
            }
            DeliveryOutcome::Settled(Settlement::Fail { error, .. }) => {
                tracing::warn!(webhook, endpoint, order_id, error, "webhook failed for good");
                "failed"
            }
            DeliveryOutcome::LeaseLost => {
                tracing::warn!(
                    webhook,
                    endpoint,
                    order_id,
                    "webhook took longer than its lease, or its endpoint was removed"
                );
                "lease_lost"
            }
        };
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
