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
    api_key::note_key_uses::NoteKeyUses,
    background::Step,
    delivery::{
        dispatch_events::{DispatchEvents, UnreadableOrders},
        run_deliveries::{MailDeliveries, MailReport},
        worker::{Deliveries, DeliveryFailure, DeliveryStep, DeliveryWorker},
    },
    orders::{forget_keys::ForgetKeys, sweep_uploads::SweepUploads},
    ports::{Notifier, error_chain},
    webhook::{
        DisabledBy, EndpointId,
        run_webhooks::{WebhookDeliveries, WebhooksReport},
        watch_webhooks::{NoticeOutcome, WatchStep, WatchWebhooks},
    },
};
use telemetry::WorkerMetrics;
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

/// Pause between two removals of idle rate limits.
const FORGET_RATES_PAUSE: Duration = Duration::from_secs(60);

/// Pause between two checks of a mail relay that was unavailable at the start.
const CHECK_MAIL_PAUSE: Duration = Duration::from_secs(5);

/// The workers of the service.
pub(crate) struct Workers {
    pub(crate) dispatch_events: DispatchEvents,
    pub(crate) mails: DeliveryWorker<MailDeliveries>,
    pub(crate) webhooks: DeliveryWorker<WebhookDeliveries>,
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
    /// Starts every worker as a task. The tasks end after `stop` is cancelled, and those of
    /// deliveries after `stop_deliveries`.
    pub(crate) fn spawn(
        self,
        tasks: &mut JoinSet<anyhow::Result<()>>,
        stop_deliveries: &CancellationToken,
        stop: &CancellationToken,
    ) {
        let (metrics, mail) = (self.metrics, self.mail_is_available);
        tasks.spawn(note_key_uses(self.note_key_uses, stop.clone()));
        let mut forget = self.forget_keys;
        tasks.spawn(repeat(stop.clone(), async move || log_forgotten(forget.step().await)));
        let (sweep, swept) = (self.sweep_uploads, metrics.clone());
        tasks.spawn(repeat(stop.clone(), async move || log_swept(sweep.step().await, &swept)));
        if let Some(remove) = self.remove_old_mails {
            tasks.spawn(repeat(stop.clone(), async move || log_removed(remove.step().await)));
        }
        let dispatch = self.dispatch_events;
        tasks.spawn(repeat(stop.clone(), async move || log_dispatched(dispatch.step().await)));
        let rates = self.rates;
        tasks.spawn(repeat(stop.clone(), async move || {
            rates.forget_idle();
            FORGET_RATES_PAUSE
        }));
        tasks.spawn(check_mail(self.notifier, mail.clone(), stop.clone()));
        let (watch, watched) = (self.watch_webhooks, metrics.clone());
        tasks.spawn(repeat(stop.clone(), async move || log_watched(watch.step().await, &watched)));
        let webhook_metrics = metrics.clone();
        tasks.spawn(deliver(self.webhooks, stop_deliveries.clone(), "webhooks", move |report| {
            match report {
                WebhooksReport::Attempt(report) => webhook_metrics.webhook(&report),
                WebhooksReport::Gone(id) => webhook_metrics.disabled(id, DisabledBy::Gone),
            }
        }));
        tasks.spawn(deliver(self.mails, stop_deliveries.clone(), "mails", move |report| {
            log_mail(report, &metrics, &mail);
        }));
    }
}

/// Repeats a step until the stop. Each returns the pause that follows it.
async fn repeat(
    stop: CancellationToken,
    mut work: impl AsyncFnMut() -> Duration,
) -> anyhow::Result<()> {
    while !stop.is_cancelled() {
        let pause = work().await;
        sleep_unless_stopped(pause, &stop).await;
    }
    Ok(())
}

/// Delivers until the stop, and then settles what is leased: it would be sent again. The grace
/// period of the stop ends this.
async fn deliver<D: Deliveries>(
    mut worker: DeliveryWorker<D>,
    stop: CancellationToken,
    kind: &str,
    log: impl Fn(D::Report),
) -> anyhow::Result<()> {
    loop {
        if stop.is_cancelled() {
            worker.stop();
        }
        let DeliveryStep { reports, failure } = worker.step().await;
        reports.into_iter().for_each(&log);
        match failure {
            Some(DeliveryFailure::Lease(error)) => {
                tracing::error!(error = error_chain(&error), "due {kind} could not be read");
            }
            Some(DeliveryFailure::Settle { deliveries, error }) => tracing::error!(
                deliveries,
                error = error_chain(&error),
                "the outcomes of {kind} could not be stored; they will be stored again"
            ),
            None => {}
        }
        if worker.is_done() {
            return Ok(());
        }
        if stop.is_cancelled() {
            worker.wait().await;
        } else {
            let _ = stop.run_until_cancelled(worker.wait()).await;
        }
    }
}

fn log_mail(report: MailReport, metrics: &WorkerMetrics, mail_is_available: &AtomicBool) {
    match report {
        MailReport::Attempt(report) => metrics.delivery(&report),
        MailReport::OutageBegan(error) => {
            mail_is_available.store(false, Ordering::Relaxed);
            tracing::warn!(
                error,
                "mails cannot be delivered; all wait, and one is tried every second"
            );
        }
        MailReport::OutageEnded => {
            mail_is_available.store(true, Ordering::Relaxed);
            tracing::info!("mails are delivered again");
        }
    }
}

fn log_dispatched(Step { result, pause }: Step<UnreadableOrders>) -> Duration {
    match result {
        Ok(unreadable) => {
            for (order_id, error) in unreadable {
                tracing::error!(
                    order_id = order_id.0,
                    error = error_chain(&error),
                    "an order cannot be read; its mails and webhooks wait, and it is read again in a \
                     minute"
                );
            }
        }
        Err(error) => tracing::error!(
            error = error_chain(&error),
            "new orders could not be followed; they are read again in a second"
        ),
    }
    pause
}

fn log_watched(Step { result, pause }: Step<WatchStep>, metrics: &WorkerMetrics) -> Duration {
    match result {
        Ok(WatchStep { disabled, notices, forgotten: _ }) => {
            for id in disabled {
                metrics.disabled(id, DisabledBy::Failures);
            }
            for (id, outcome) in &notices {
                log_notice(*id, outcome);
            }
        }
        Err(error) => tracing::error!(
            error = error_chain(&error),
            "webhook endpoints that fail could not be looked for"
        ),
    }
    pause
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

fn log_forgotten(Step { result, pause }: Step<()>) -> Duration {
    if let Err(error) = result {
        tracing::error!(
            error = error_chain(&error),
            "expired idempotency keys could not be removed"
        );
    }
    pause
}

fn log_swept(Step { result, pause }: Step<usize>, metrics: &WorkerMetrics) -> Duration {
    match result {
        Ok(swept) => metrics.swept(swept),
        Err(error) => {
            tracing::error!(error = error_chain(&error), "abandoned uploads could not be removed");
        }
    }
    pause
}

fn log_removed(Step { result, pause }: Step<usize>) -> Duration {
    match result {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "old mails removed from the mail drop"),
        Err(error) => tracing::error!(
            error = error_chain(&error),
            "old mails could not be removed from the mail drop"
        ),
    }
    pause
}

async fn sleep_unless_stopped(pause: Duration, stop: &CancellationToken) {
    let _ = stop.run_until_cancelled(sleep(pause)).await;
}
