//! Background work: calls the steps of the domain's workers until the service stops.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use adapter_http::RateLimits;
use adapter_mail::RemoveOldMails;
use domain::{
    background::Step,
    delivery_worker::{DeliveryFailure, DeliveryStep, DeliveryWorker, OutageChange},
    dispatch_events::{DispatchEvents, DispatchStep},
    forget_keys::ForgetKeys,
    note_key_uses::NoteKeyUses,
    ports::{Notifier, error_chain},
    sweep_uploads::SweepUploads,
    watch_webhooks::{NoticeOutcome, WatchStep, WatchWebhooks},
    webhook::{DisabledBy, EndpointId},
    webhook_worker::{WebhookStep, WebhookWorker},
};
use telemetry::WorkerMetrics;
use tokio::{runtime::Handle, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

/// Pause between two removals of idle rate limits.
const FORGET_RATES_PAUSE: Duration = Duration::from_secs(60);

/// Pause between two checks of a mail relay that was unavailable at the start.
const CHECK_MAIL_PAUSE: Duration = Duration::from_secs(5);

/// The workers of the service.
pub(crate) struct Workers {
    pub(crate) dispatch_events: DispatchEvents,
    pub(crate) deliveries: DeliveryWorker,
    pub(crate) webhooks: WebhookWorker,
    pub(crate) watch_webhooks: WatchWebhooks,
    pub(crate) note_key_uses: NoteKeyUses,
    pub(crate) forget_keys: ForgetKeys,
    pub(crate) sweep_uploads: SweepUploads,
    /// Only for a mail drop.
    pub(crate) remove_old_mails: Option<RemoveOldMails>,
    pub(crate) rates: Arc<RateLimits>,
    pub(crate) notifier: Arc<dyn Notifier>,
    pub(crate) mail_is_available: Arc<AtomicBool>,
    pub(crate) metrics: WorkerMetrics,
}

impl Workers {
    /// Starts every worker as a task on threads. The tasks end after `stop` is cancelled, and those
    /// of deliveries after `stop_deliveries`.
    pub(crate) fn spawn(
        self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        threads: &Handle,
        stop_deliveries: &CancellationToken,
        stop: &CancellationToken,
    ) {
        let mail = self.mail_is_available;
        tasks.spawn_on(note_key_uses(self.note_key_uses, stop.clone()), threads);
        tasks.spawn_on(forget_keys(self.forget_keys, stop.clone()), threads);
        tasks.spawn_on(
            sweep_uploads(self.sweep_uploads, self.metrics.clone(), stop.clone()),
            threads,
        );
        if let Some(remove_old_mails) = self.remove_old_mails {
            tasks.spawn_on(remove_mails(remove_old_mails, stop.clone()), threads);
        }
        tasks.spawn_on(dispatch(self.dispatch_events, stop.clone()), threads);
        tasks.spawn_on(forget_rates(self.rates, stop.clone()), threads);
        tasks.spawn_on(check_mail(self.notifier, mail.clone(), stop.clone()), threads);
        tasks.spawn_on(
            watch_webhooks(self.watch_webhooks, self.metrics.clone(), stop.clone()),
            threads,
        );
        tasks.spawn_on(
            deliver_webhooks(self.webhooks, self.metrics.clone(), stop_deliveries.clone()),
            threads,
        );
        tasks.spawn_on(
            deliver(self.deliveries, self.metrics, mail, stop_deliveries.clone()),
            threads,
        );
    }
}

async fn dispatch(worker: DispatchEvents, stop: CancellationToken) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let Step { result, pause } = worker.step().await;
        let is_idle = match result {
            Ok(DispatchStep { unreadable, is_idle }) => {
                for (order_id, error) in unreadable {
                    tracing::error!(
                        order_id = order_id.0,
                        error = error_chain(&error),
                        "an order cannot be read; its mails and webhooks wait, and it is read again in \
                         a minute"
                    );
                }
                is_idle
            }
            Err(error) => {
                tracing::error!(
                    error = error_chain(&error),
                    "new orders could not be followed; they are read again in a second"
                );
                false
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = worker.woken(), if is_idle => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

async fn deliver(
    mut worker: DeliveryWorker,
    metrics: WorkerMetrics,
    mail_is_available: Arc<AtomicBool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    while let Some(done) = stop.run_until_cancelled(worker.step()).await {
        log_deliveries(&done, &metrics, &mail_is_available);
    }
    // Unsettled mails would be sent again. The grace period of the stop ends this loop.
    worker.stop();
    while !worker.is_done() {
        log_deliveries(&worker.step().await, &metrics, &mail_is_available);
    }
    Ok(())
}

fn log_deliveries(done: &DeliveryStep, metrics: &WorkerMetrics, mail_is_available: &AtomicBool) {
    done.reports.iter().for_each(|report| metrics.delivery(report));
    log_failure(done.failure.as_ref(), "mails");
    match &done.outage {
        Some(OutageChange::Began(error)) => {
            mail_is_available.store(false, Ordering::Relaxed);
            tracing::warn!(
                error,
                "mails cannot be delivered; all wait, and one is tried every second"
            );
        }
        Some(OutageChange::Ended) => {
            mail_is_available.store(true, Ordering::Relaxed);
            tracing::info!("mails are delivered again");
        }
        None => {}
    }
}

fn log_failure(failure: Option<&DeliveryFailure>, kind: &str) {
    match failure {
        Some(DeliveryFailure::Lease(error)) => {
            tracing::error!(error = error_chain(error), "due {kind} could not be read");
        }
        Some(DeliveryFailure::Settle { deliveries, error }) => tracing::error!(
            deliveries,
            error = error_chain(error),
            "the outcomes of {kind} could not be stored; they will be stored again"
        ),
        None => {}
    }
}

async fn deliver_webhooks(
    mut worker: WebhookWorker,
    metrics: WorkerMetrics,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    while let Some(done) = stop.run_until_cancelled(worker.step()).await {
        log_webhooks(&done, &metrics);
    }
    // As for mails.
    worker.stop();
    while !worker.is_done() {
        log_webhooks(&worker.step().await, &metrics);
    }
    Ok(())
}

fn log_webhooks(done: &WebhookStep, metrics: &WorkerMetrics) {
    done.reports.iter().for_each(|report| metrics.webhook(report));
    log_failure(done.failure.as_ref(), "webhooks");
    for endpoint in &done.gone {
        metrics.disabled(*endpoint, DisabledBy::Gone);
    }
}

async fn watch_webhooks(
    worker: WatchWebhooks,
    metrics: WorkerMetrics,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let Step { result, pause } = worker.step().await;
        match result {
            Ok(WatchStep { disabled, notices, forgotten: _ }) => {
                for id in disabled {
                    metrics.disabled(id, DisabledBy::Failures);
                }
                for (id, outcome) in notices {
                    log_notice(id, &outcome);
                }
            }
            Err(error) => tracing::error!(
                error = error_chain(&error),
                "webhook endpoints that fail could not be looked for"
            ),
        }
        sleep_unless_stopped(pause, &stop).await;
    }
    Ok(())
}

fn log_notice(endpoint: EndpointId, outcome: &NoticeOutcome) {
    let endpoint = endpoint.0;
    match outcome {
        NoticeOutcome::Told => {
            tracing::info!(endpoint, "the client was told of a webhook endpoint that fails");
        }
        NoticeOutcome::NoContact => tracing::warn!(
            endpoint,
            "a webhook endpoint fails, and no valid key of its client has a contact; tell the \
             client, and issue a key with --client and --contact"
        ),
        NoticeOutcome::Failed(error) => tracing::error!(
            endpoint,
            error,
            "the client could not be told of a webhook endpoint that fails"
        ),
        NoticeOutcome::Later(error) => tracing::warn!(
            endpoint,
            error,
            "the mail about a webhook endpoint that fails is sent again in a minute"
        ),
    }
}

/// Checks a relay that was unavailable at the start until it answers. Later outages show in the
/// deliveries.
async fn check_mail(
    notifier: Arc<dyn Notifier>,
    is_available: Arc<AtomicBool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    while !is_available.load(Ordering::Relaxed) && !stop.is_cancelled() {
        sleep_unless_stopped(CHECK_MAIL_PAUSE, &stop).await;
        if let Some(Ok(())) = stop.run_until_cancelled(notifier.check()).await {
            is_available.store(true, Ordering::Relaxed);
            tracing::info!("the mail relay is available");
        }
    }
    // The end of a worker is a failure of the service.
    stop.cancelled().await;
    Ok(())
}

async fn note_key_uses(mut worker: NoteKeyUses, stop: CancellationToken) -> anyhow::Result<()> {
    loop {
        // Read before the step, so that the last step stores every use.
        let is_last = stop.is_cancelled();
        let Step { result, pause } = worker.step().await;
        if let Err(error) = result {
            tracing::warn!(
                error = error_chain(&error),
                "the last use of API keys is not stored until the database answers"
            );
        }
        if is_last {
            return Ok(());
        }
        sleep_unless_stopped(pause, &stop).await;
    }
}

async fn forget_keys(mut worker: ForgetKeys, stop: CancellationToken) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let Step { result, pause } = worker.step().await;
        if let Err(error) = result {
            tracing::error!(
                error = error_chain(&error),
                "expired idempotency keys could not be removed"
            );
        }
        sleep_unless_stopped(pause, &stop).await;
    }
    Ok(())
}

async fn sweep_uploads(
    worker: SweepUploads,
    metrics: WorkerMetrics,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let Step { result, pause } = worker.step().await;
        match result {
            Ok(swept) => metrics.swept(swept),
            Err(error) => tracing::error!(
                error = error_chain(&error),
                "abandoned uploads could not be removed"
            ),
        }
        sleep_unless_stopped(pause, &stop).await;
    }
    Ok(())
}

async fn remove_mails(mut worker: RemoveOldMails, stop: CancellationToken) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let Step { result, pause } = worker.step().await;
        match result {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "old mails removed from the mail drop"),
            Err(error) => tracing::error!(
                error = error_chain(&error),
                "old mails could not be removed from the mail drop"
            ),
        }
        sleep_unless_stopped(pause, &stop).await;
    }
    Ok(())
}

async fn forget_rates(rates: Arc<RateLimits>, stop: CancellationToken) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        rates.forget_idle();
        sleep_unless_stopped(FORGET_RATES_PAUSE, &stop).await;
    }
    Ok(())
}

async fn sleep_unless_stopped(pause: Duration, stop: &CancellationToken) {
    let _ = stop.run_until_cancelled(sleep(pause)).await;
}
