//! Log lines and metrics of background work.

use domain::{
    ports::Settlement,
    run_deliveries::{DeliveryOutcome, DeliveryReport, OVER_LIMIT},
};
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

/// The counters of the workers.
#[derive(Clone)]
pub(crate) struct WorkerMetrics {
    mails: IntCounterVec,
    swept: IntCounter,
}

impl WorkerMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let mails = IntCounterVec::new(
            Opts::new("notary_orders_mails_total", "Attempts to deliver a mail, by outcome."),
            &["outcome"],
        )?;
        for outcome in ["delivered", "retried", "postponed", "buried", "over_limit", "lease_lost"] {
            mails.with_label_values(&[outcome]);
        }
        let swept = IntCounter::new(
            "notary_orders_uploads_swept_total",
            "Abandoned uploads that were removed.",
        )?;
        registry.register(Box::new(mails.clone()))?;
        registry.register(Box::new(swept.clone()))?;
        Ok(Self { mails, swept })
    }

    /// Counts and logs an attempt.
    pub(crate) fn delivery(&self, report: &DeliveryReport) {
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

    /// Counts and logs swept uploads.
    pub(crate) fn swept(&self, uploads: usize) {
        if uploads > 0 {
            tracing::info!(swept = uploads, "abandoned uploads removed");
            self.swept.inc_by(uploads as u64);
        }
    }
}
