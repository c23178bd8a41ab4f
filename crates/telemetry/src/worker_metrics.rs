//! Log lines and metrics of background work.

use domain::{
    api_key::ApiKeyId,
    clock_watch::Doubt,
    order::{Actor, OrderStatus, Retained, attention::Attention},
    person::{Doer, PersonId},
    ports::{
        BusyReader, Event,
        Settlement::{Done, Fail, Obsolete, OverLimit, Postpone, RetryAt, Unknown},
    },
    use_cases::{
        deliveries::run_deliveries::{
            DeliveryOutcome::{self, LeaseLost, Settled},
            DeliveryReport,
        },
        erase_orders::Erasure,
        upkeep::{count_attention::LateOrders, erase_old_orders::Waiting, watch_clock::ClockState},
        webhooks::run_webhooks::WebhookReport,
    },
    webhook::{DisabledBy, EndpointId, EventChange, EventType},
};
use prometheus::{
    Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Registry,
    register_gauge_with_registry, register_int_counter_vec_with_registry,
    register_int_counter_with_registry, register_int_gauge_vec_with_registry,
    register_int_gauge_with_registry,
};
use tracing::Level;

/// An outcome of an attempt, by its name in metrics, and its line in the log.
type Outcome = (&'static str, Level, &'static str);

const MAILS: [Outcome; 8] = [
    ("delivered", Level::INFO, "mail delivered"),
    ("retried", Level::WARN, "mail not delivered; it will be retried"),
    (
        "unknown",
        Level::WARN,
        "mail sent, and the relay did not say whether it accepted it; it will be repeated",
    ),
    // The outage is one line of its own. A line per mail would flood the log.
    ("postponed", Level::DEBUG, "mail postponed; no mail can be delivered now"),
    ("failed", Level::ERROR, "mail failed for good"),
    // An attack would flood the log. The first of an hour has a line of its own.
    ("over_limit", Level::DEBUG, "mail waits; its recipient has reached its hourly limit"),
    ("obsolete", Level::INFO, "mail not sent; its order has changed"),
    ("lease_lost", Level::WARN, "mail took longer than its lease"),
];

const WEBHOOKS: [Outcome; 5] = [
    ("delivered", Level::INFO, "webhook delivered"),
    ("retried", Level::INFO, "webhook not delivered; it will be retried"),
    ("postponed", Level::ERROR, "webhook postponed"),
    ("failed", Level::WARN, "webhook failed for good"),
    ("lease_lost", Level::WARN, "webhook took longer than its lease, or its endpoint was removed"),
];

/// The name of all other statuses in metrics: a label for each text would be without end.
const OTHER_STATUS: &str = "other";

/// The counters of the workers.
#[derive(Clone)]
pub struct WorkerMetrics {
    mails: IntCounterVec,
    webhooks: IntCounterVec,
    disabled: IntCounterVec,
    changes: IntCounterVec,
    entered: IntCounterVec,
    swept: IntCounter,
    access_alerts: IntCounter,
    erased: IntCounter,
    due: IntGaugeVec,
    held: IntGauge,
    attention: IntGaugeVec,
    clock_ahead: Gauge,
    erasures_wait: IntGauge,
    deliveries_wait: IntGauge,
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
        let attention = register_int_gauge_vec_with_registry!(
            "notary_orders_attention",
            "Orders that are late, by what they lack. Without test orders.",
            &["code"],
            registry
        )?;
        for code in Attention::ALL {
            attention.with_label_values(&[code.as_str()]);
        }
        Ok(Self {
            mails: counters(
                "notary_orders_mails_total",
                "Attempts to deliver a mail, by outcome.",
                "outcome",
                &MAILS.map(|(name, ..)| name),
            )?,
            webhooks: counters(
                "notary_orders_webhooks_total",
                "Attempts to deliver a webhook, by outcome.",
                "outcome",
                &WEBHOOKS.map(|(name, ..)| name),
            )?,
            disabled: counters(
                "notary_orders_webhook_endpoints_disabled_total",
                "Webhook endpoints that the service has disabled, by reason.",
                "reason",
                &[DisabledBy::Gone, DisabledBy::Failures].map(DisabledBy::as_str),
            )?,
            changes: counters(
                "notary_orders_order_changes_total",
                "Changes of the status or the notary of an order, by actor.",
                "actor",
                &[Actor::Client, Actor::Service, Actor::Operator, Actor::Database]
                    .map(Actor::as_str),
            )?,
            entered: counters(
                "notary_orders_order_status_entered_total",
                "Orders that entered a status, by status.",
                "status",
                &[
                    OrderStatus::USUAL.each_ref().map(OrderStatus::as_str).as_slice(),
                    &[OTHER_STATUS],
                ]
                .concat(),
            )?,
            swept: register_int_counter_with_registry!(
                "notary_orders_uploads_swept_total",
                "Abandoned uploads that were removed.",
                registry
            )?,
            access_alerts: register_int_counter_with_registry!(
                "notary_orders_access_alerts_total",
                "Alerts about API keys and people that read more orders in an hour than --access-alert.",
                registry
            )?,
            erased: register_int_counter_with_registry!(
                "notary_orders_retention_erased_total",
                "Orders that the retention has erased, or the documents of which it has erased.",
                registry
            )?,
            due: register_int_gauge_vec_with_registry!(
                "notary_orders_retention_due",
                "Orders that wait for the erasure of the order or of its documents, up to 10,000.",
                &["what"],
                registry
            )?,
            held: register_int_gauge_with_registry!(
                "notary_orders_held_orders",
                "Orders on hold.",
                registry
            )?,
            attention,
            clock_ahead: register_gauge_with_registry!(
                "notary_orders_clock_ahead_seconds",
                "How far the clock of this machine is ahead of the time of the service; negative if it is behind.",
                registry
            )?,
            erasures_wait: register_int_gauge_with_registry!(
                "notary_orders_erasures_wait",
                "1 while nothing is erased because a clock may be wrong, else 0.",
                registry
            )?,
            deliveries_wait: register_int_gauge_with_registry!(
                "notary_orders_deliveries_wait",
                "1 while no mail or webhook is sent because a clock may be wrong, else 0.",
                registry
            )?,
        })
    }

    /// Counts and logs an attempt to deliver a mail.
    pub fn delivery(&self, report: &DeliveryReport) {
        let (name, error) = named(&report.outcome);
        let ids = [Some(report.id.0), None, None, Some(report.order_id.0)];
        count(&self.mails, &MAILS, name, ids, error);
    }

    /// Counts and logs an attempt to deliver a webhook. The lines have no URL: its path may be a
    /// secret of the client.
    pub fn webhook(&self, report: &WebhookReport) {
        let (name, error) = named(&report.outcome);
        let order_id = report.order_id.map(|id| id.0);
        let ids = [None, Some(report.id.0), Some(report.endpoint.0), order_id];
        count(&self.webhooks, &WEBHOOKS, name, ids, error);
    }

    /// Counts and logs an endpoint that the service has disabled.
    pub fn disabled(&self, endpoint: EndpointId, reason: DisabledBy) {
        let (endpoint, reason) = (endpoint.0, reason.as_str());
        tracing::warn!(endpoint, reason, "webhook endpoint disabled; its deliveries wait");
        self.disabled.with_label_values(&[reason]).inc();
    }

    /// Counts what an event tells of an order. The dispatcher of one process gets each event.
    pub fn order_event(&self, event: &Event) {
        let status = match event.change.as_ref().and_then(EventChange::order) {
            Some(change) => {
                self.changes.with_label_values(&[change.actor.as_str()]).inc();
                (change.order_status != change.previous_status).then_some(&*change.order_status)
            }
            None => (event.event == EventType::OrderCreated).then_some(OrderStatus::NEW.as_str()),
        };
        if let Some(status) = status {
            let is_usual = OrderStatus::USUAL.iter().any(|usual| usual.as_str() == status);
            let name = if is_usual { status } else { OTHER_STATUS };
            self.entered.with_label_values(&[name]).inc();
        }
    }

    /// Counts and logs an alert about a key or a person that reads many orders.
    pub fn busy_reader(&self, BusyReader { doer, orders }: &BusyReader) {
        match doer {
            Doer::Key(ApiKeyId(api_key)) => tracing::warn!(
                api_key,
                orders,
                "an API key has read more orders in an hour than usual"
            ),
            Doer::Person(PersonId(person)) => {
                tracing::warn!(
                    person,
                    orders,
                    "a person has read more orders in an hour than usual"
                );
            }
        }
        self.access_alerts.inc();
    }

    /// Counts and logs what the retention has erased.
    pub fn erased(&self, what: Retained, erasure: &Erasure) {
        let &Erasure { orders, documents, .. } = erasure;
        if orders > 0 {
            match what {
                Retained::Orders => tracing::info!(orders, documents, "old orders erased"),
                Retained::Documents => tracing::info!(orders, documents, "old documents erased"),
            }
            self.erased.inc_by(orders as u64);
        }
    }

    /// Sets the numbers of orders that wait for an erasure, and of those on hold.
    pub fn waiting(&self, waiting: Waiting) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let Waiting { orders, documents, held } = waiting;
        self.due.with_label_values(&["orders"]).set(number(orders));
        self.due.with_label_values(&["documents"]).set(number(documents));
        self.held.set(number(held));
    }

    /// Sets the numbers of orders that are late.
    pub fn attention(&self, late: LateOrders) {
        for (code, count) in late {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.attention.with_label_values(&[code.as_str()]).set(count);
        }
    }

    /// Reports the clocks.
    pub fn clock(&self, state: ClockState) {
        let ClockState { doubt, erasures_wait, deliveries_wait, goes_on, machine_ahead } = state;
        self.clock_ahead.set(machine_ahead.as_seconds_f64());
        self.erasures_wait.set(i64::from(erasures_wait));
        self.deliveries_wait.set(i64::from(deliveries_wait));
        match doubt {
            Some(Doubt::Stepped(by)) => tracing::error!(
                seconds = by.as_seconds_f64(),
                "the clock was set; the service keeps its time and follows in five minutes; on PostgreSQL it delivers \
                 nothing until half a minute after the clocks agree; it erases nothing until they have agreed for an \
                 hour"
            ),
            Some(Doubt::Ahead(by)) => tracing::error!(
                seconds = by.as_seconds_f64(),
                "the clock of this machine is over a minute ahead of the database's, or behind if negative; this \
                 instance delivers nothing until they agree, and erases nothing until they have agreed for an hour"
            ),
            Some(Doubt::Unused(since)) => tracing::warn!(
                seconds = since.as_seconds_f64(),
                "nothing was stored for so long before this start, or the clock is wrong; the service erases nothing \
                 for an hour"
            ),
            None => {}
        }
        if goes_on {
            tracing::info!("the clocks have agreed for an hour; erasures go on");
        }
    }

    /// Counts and logs swept uploads.
    pub fn swept(&self, uploads: usize) {
        if uploads > 0 {
            tracing::info!(swept = uploads, "abandoned uploads removed");
            self.swept.inc_by(uploads as u64);
        }
    }
}

/// Returns the name of an outcome and its error.
fn named(outcome: &DeliveryOutcome) -> (&'static str, Option<&String>) {
    match outcome {
        Settled(Done) => ("delivered", None),
        Settled(Obsolete) => ("obsolete", None),
        Settled(RetryAt { error, .. }) => ("retried", Some(error)),
        Settled(Unknown { error, .. }) => ("unknown", Some(error)),
        Settled(Postpone { error, .. }) => ("postponed", Some(error)),
        Settled(OverLimit { error, .. }) => ("over_limit", Some(error)),
        Settled(Fail { error, .. }) => ("failed", Some(error)),
        LeaseLost => ("lease_lost", None),
    }
}

/// Counts and logs an outcome. The line leaves out what is `None`.
fn count(
    counters: &IntCounterVec,
    outcomes: &[Outcome],
    name: &str,
    [delivery, webhook, endpoint, order_id]: [Option<i64>; 4],
    error: Option<&String>,
) {
    counters.with_label_values(&[name]).inc();
    let Some((_, level, text)) = outcomes.iter().find(|(known, ..)| *known == name) else { return };
    match *level {
        Level::ERROR => tracing::error!(delivery, webhook, endpoint, order_id, error, "{text}"),
        Level::WARN => tracing::warn!(delivery, webhook, endpoint, order_id, error, "{text}"),
        Level::INFO => tracing::info!(delivery, webhook, endpoint, order_id, error, "{text}"),
        _ => tracing::debug!(delivery, webhook, endpoint, order_id, error, "{text}"),
    }
}
