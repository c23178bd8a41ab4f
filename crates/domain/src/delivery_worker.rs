//! Use case: deliver mails until the service stops.

use std::{mem, sync::Arc, time::Duration};

use futures_util::future::join_all;

use crate::{
    background::Step,
    order_traffic::OrderTraffic,
    ports::{Settlement, StoreError},
    run_deliveries::{DeliveryOutcome, DeliveryReport, RunDeliveries, Unsettled},
};

/// Maximum number of deliveries that a step attempts concurrently.
const BATCH: usize = 16;

/// Pause when no delivery is due, or no mail can be delivered.
const POLL: Duration = Duration::from_secs(1);

/// Pause between batches while orders arrive. Clients wait for orders, not for mails.
/// A worker still delivers more than 100 mails per second.
const YIELD: Duration = Duration::from_millis(100);

/// What a step did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DeliveryStep {
    /// Deliveries whose outcome is stored.
    pub reports: Vec<DeliveryReport>,
    /// Set when an outage begins or ends.
    pub outage: Option<OutageChange>,
}

/// The beginning or the end of a time in which no mail can be delivered.
#[derive(Debug, PartialEq, Eq)]
pub enum OutageChange {
    /// It began, with this error.
    Began(String),
    /// It ended.
    Ended,
}

/// Delivers mails in batches, and sets the pace.
pub struct DeliveryWorker {
    deliveries: RunDeliveries,
    traffic: Arc<OrderTraffic>,
    unsettled: Vec<Unsettled>,
    in_outage: bool,
}

impl DeliveryWorker {
    /// Returns a worker that slows down while `traffic` grows.
    pub fn new(deliveries: RunDeliveries, traffic: Arc<OrderTraffic>) -> Self {
        Self { deliveries, traffic, unsettled: Vec::new(), in_outage: false }
    }

    /// Returns the attempts whose outcome is not stored yet. Keep calling [`Self::step`] while
    /// there are any: otherwise their mails are sent again when the leases end.
    pub fn unsettled(&self) -> &[Unsettled] {
        &self.unsettled
    }

    /// Stores the outcomes that are not stored yet. If there are none, attempts a batch of due
    /// deliveries.
    pub async fn step(&mut self) -> Step<DeliveryStep> {
        let orders = self.traffic.count();
        let outcomes = match self.settle_or_deliver().await {
            Ok(outcomes) => outcomes,
            Err(error) => return Step { result: Err(error), pause: POLL },
        };
        let mut reports = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            match outcome {
                Ok(report) => reports.push(report),
                Err(unsettled) => self.unsettled.push(unsettled),
            }
        }
        let outage = self.outage_change(&reports);
        let pause = if !has_progress(&reports) {
            POLL
        } else if self.traffic.count() > orders {
            YIELD
        } else {
            Duration::ZERO
        };
        Step { result: Ok(DeliveryStep { reports, outage }), pause }
    }

    async fn settle_or_deliver(
        &mut self,
    ) -> Result<Vec<Result<DeliveryReport, Unsettled>>, StoreError> {
        if self.unsettled.is_empty() {
            return self.deliveries.run_batch(BATCH).await;
        }
        let unsettled = mem::take(&mut self.unsettled).into_iter();
        Ok(join_all(unsettled.map(|unsettled| self.deliveries.settle_again(unsettled))).await)
    }

    fn outage_change(&mut self, reports: &[DeliveryReport]) -> Option<OutageChange> {
        let postponed = reports.iter().find_map(postponed);
        match (self.in_outage, postponed, has_progress(reports)) {
            (false, Some(error), false) => {
                self.in_outage = true;
                Some(OutageChange::Began(error.to_owned()))
            }
            (true, None, true) => {
                self.in_outage = false;
                Some(OutageChange::Ended)
            }
            _ => None,
        }
    }
}

/// Checks whether an attempt counted. A postponed delivery did not count as one.
fn has_progress(reports: &[DeliveryReport]) -> bool {
    reports.iter().any(|report| postponed(report).is_none())
}

fn postponed(report: &DeliveryReport) -> Option<&str> {
    match &report.outcome {
        DeliveryOutcome::Settled(Settlement::Postpone { error, .. }) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
#[path = "delivery_worker_tests.rs"]
mod tests;
