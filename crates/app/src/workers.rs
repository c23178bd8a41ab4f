//! What runs beside the servers: delivery of follow-ups, and house-keeping.

use std::time::Duration;

use actix_web::web;
use adapter_http::Api;
use domain::{
    idempotency::IdempotencyKey,
    manage_keys::ManageKeys,
    ports::{StoreError, error_chain},
    run_deliveries::{DeliveryOutcome, DeliveryReport, RunDeliveries, Unsettled},
    sweep_uploads::SweepUploads,
};
use futures_util::future::join_all;
use prometheus::{IntCounter, IntCounterVec, Opts, Registry};
use tokio_util::sync::CancellationToken;

/// Follow-ups that are leased and delivered side by side.
const BATCH: usize = 16;
/// Pause between batches while orders are placed: who waits for an answer comes before who waits
/// for a mail, and mails take the same disk and cores. Over a hundred are delivered in a second all
/// the same.
const BREATHER: Duration = Duration::from_millis(100);
/// Pause when nothing is due, or nobody's mail is taken.
const POLL: Duration = Duration::from_secs(1);
/// Pause between rounds of house-keeping.
const HOUSE_KEEPING: Duration = Duration::from_secs(60);
/// Uploads that are swept at a time.
const SWEEP: usize = 100;
/// Idempotency keys that are looked at at a time, and how often in a round. At 100 keys a second it
/// passes all of a day in an hour and a half.
const KEYS: usize = 1_000;
const KEY_STEPS: usize = 100;
/// Pause between notes of when keys were used.
const NOTE_USES: Duration = Duration::from_secs(1);

/// What the workers count.
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
        for outcome in ["delivered", "retried", "postponed", "buried", "lease_lost"] {
            mails.with_label_values(&[outcome]);
        }
        let swept = IntCounter::new(
            "notary_orders_uploads_swept_total",
            "Uploads removed because no order adopted them.",
        )?;
        registry.register(Box::new(mails.clone()))?;
        registry.register(Box::new(swept.clone()))?;
        Ok(Self { mails, swept })
    }

    fn record(&self, delivery: &DeliveryReport) {
        let (id, order_id) = (delivery.id.0, delivery.order_id.0);
        let outcome = match &delivery.outcome {
            DeliveryOutcome::Delivered => {
                tracing::info!(delivery = id, order_id, "mail delivered");
                "delivered"
            }
            DeliveryOutcome::Retried(error) => {
                tracing::warn!(delivery = id, order_id, error, "mail not delivered, to be retried");
                "retried"
            }
            // A line for each would flood the log; that there is an outage is said once.
            DeliveryOutcome::Postponed(error) => {
                tracing::debug!(
                    delivery = id,
                    order_id,
                    error,
                    "no mail is taken now, to be retried soon"
                );
                "postponed"
            }
            DeliveryOutcome::Failed(error) => {
                tracing::error!(delivery = id, order_id, error, "mail given up and buried");
                "buried"
            }
            DeliveryOutcome::LeaseLost => {
                tracing::warn!(delivery = id, order_id, "mail took longer than its lease");
                "lease_lost"
            }
        };
        self.mails.with_label_values(&[outcome]).inc();
    }
}

/// Delivers follow-ups until told to stop; then finishes what it has leased.
pub(crate) async fn run_deliveries(
    run: RunDeliveries,
    metrics: WorkerMetrics,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let (mut outage, mut unsettled) = (false, Vec::new());
    while !stop.is_cancelled() {
        let batch = if unsettled.is_empty() {
            match run.run_once(BATCH).await {
                Ok(deliveries) => Batch::record(deliveries, &metrics),
                Err(error) => {
                    tracing::error!(
                        error = error_chain(&error),
                        "follow-ups could not be worked on"
                    );
                    Batch::default()
                }
            }
        } else {
            // First, so that what is delivered already is not leased once more.
            settle_again(&run, unsettled, &metrics).await
        };
        match (outage, &batch.outage) {
            (false, Some(error)) if batch.moved == 0 => {
                tracing::warn!(
                    error,
                    "mails cannot be delivered; all wait, and are retried every few seconds"
                );
                outage = true;
            }
            (true, None) if batch.moved > 0 => {
                tracing::info!("mails are delivered again");
                outage = false;
            }
            _ => {}
        }
        unsettled = batch.unsettled;
        if batch.moved == 0 {
            pause(POLL, &stop).await;
        } else {
            pause(BREATHER, &stop).await;
        }
    }
    // For as long as the service gives it at a stop.
    while !unsettled.is_empty() {
        tokio::time::sleep(POLL).await;
        unsettled = settle_again(&run, unsettled, &metrics).await.unsettled;
    }
    Ok(())
}

async fn settle_again(
    run: &RunDeliveries,
    unsettled: Vec<Unsettled>,
    metrics: &WorkerMetrics,
) -> Batch {
    Batch::record(
        join_all(unsettled.into_iter().map(|unsettled| run.settle_again(unsettled))).await,
        metrics,
    )
}

/// How a batch went.
#[derive(Default)]
struct Batch {
    /// Follow-ups that are settled and were not postponed.
    moved: usize,
    /// Why others were.
    outage: Option<String>,
    /// Those of which the queue does not know yet.
    unsettled: Vec<Unsettled>,
}

impl Batch {
    fn record(deliveries: Vec<Result<DeliveryReport, Unsettled>>, metrics: &WorkerMetrics) -> Self {
        let mut batch = Self::default();
        for delivery in deliveries {
            match delivery {
                Ok(delivery) => {
                    metrics.record(&delivery);
                    match delivery.outcome {
                        DeliveryOutcome::Postponed(error) => batch.outage = Some(error),
                        _ => batch.moved += 1,
                    }
                }
                Err(unsettled) => {
                    tracing::error!(
                        error = error_chain(&unsettled),
                        "tried again until its lease ends"
                    );
                    batch.unsettled.push(unsettled);
                }
            }
        }
        batch
    }
}

/// Notes when API keys were used until told to stop, and then what is left to note.
pub(crate) async fn note_key_uses(keys: ManageKeys, stop: CancellationToken) -> anyhow::Result<()> {
    let mut failing = false;
    loop {
        let stopping = stop.is_cancelled();
        let noted = keys.note_uses().await;
        if let (Err(error), false) = (&noted, failing) {
            tracing::warn!(
                error = error_chain(error),
                "the last use of API keys is not noted until the database answers"
            );
        }
        failing = noted.is_err();
        if stopping {
            return Ok(());
        }
        pause(NOTE_USES, &stop).await;
    }
}

/// Walks on past the idempotency keys, and forgets those that are free again.
async fn forget_free_keys(
    api: &Api,
    last: &mut Option<IdempotencyKey>,
    stop: &CancellationToken,
) -> Result<(), StoreError> {
    let create_order = &api.create_order;
    for _ in 0..KEY_STEPS {
        *last = create_order
            .idempotency
            .forget_free(last.take(), create_order.clock.now(), KEYS)
            .await?;
        if last.is_none() || stop.is_cancelled() {
            break;
        }
    }
    Ok(())
}

/// Sweeps abandoned uploads, forgets idle rate limits and idempotency keys that are free again,
/// until told to stop.
pub(crate) async fn keep_house(
    sweep: SweepUploads,
    api: web::Data<Api>,
    metrics: WorkerMetrics,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut last_key = None;
    while !stop.is_cancelled() {
        api.rates.forget_idle();
        if let Err(error) = forget_free_keys(&api, &mut last_key, &stop).await {
            tracing::error!(
                error = error_chain(&error),
                "idempotency keys that are free again could not be forgotten"
            );
        }
        let swept = match sweep.run_once(SWEEP).await {
            Ok(swept) => {
                metrics.swept.inc_by(swept as u64);
                swept
            }
            Err(error) => {
                tracing::error!(
                    error = error_chain(&error),
                    "abandoned uploads could not be swept"
                );
                0
            }
        };
        if swept > 0 {
            tracing::info!(swept, "abandoned uploads removed");
        }
        if swept < SWEEP {
            pause(HOUSE_KEEPING, &stop).await;
        }
    }
    Ok(())
}

async fn pause(duration: Duration, stop: &CancellationToken) {
    // Woken by the stop or by the time, either way it goes on.
    let _ = tokio::time::timeout(duration, stop.cancelled()).await;
}
