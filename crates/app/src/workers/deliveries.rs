//! The workers that attempt mails and webhooks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Result;
use domain::{
    ports::{DeliveryQueue, Notifier, QueueStats},
    use_cases::{
        deliveries::{
            run_deliveries::{MailDeliveries, MailReport, RunDeliveries},
            worker::{Deliveries, DeliveryFailure, DeliveryStep, DeliveryWorker, Sleep},
        },
        webhooks::run_webhooks::{RunWebhooks, WebhookDeliveries, WebhooksReport},
    },
    webhook::DisabledBy,
};
use futures_util::FutureExt as _;
use operator::Machine;
use telemetry::WorkerMetrics;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::row::Tasks;
use crate::{
    outages::{DATABASE, Outages},
    wiring::Parts,
};

/// Pause between two checks of a mail relay that was unavailable at the start.
const CHECK_MAIL_PAUSE: Duration = Duration::from_secs(5);

/// Starts the workers. The first stop is that of the deliveries, and comes before the other.
pub(super) fn spawn(
    parts: &Parts,
    metrics: &WorkerMetrics,
    outages: &Arc<Outages>,
    [stop_deliveries, stop]: [&CancellationToken; 2],
    tasks: &mut Tasks,
) {
    let Parts { settings, storage, webhooks, notifier, .. } = parts;
    let Machine { clock, entropy, .. } = parts.machine.clone();
    let mail = parts.mail_is_available.clone();
    tasks.spawn(check_mail(storage.queue.clone(), notifier.clone(), mail.clone(), stop.clone()));
    let run_webhooks = RunWebhooks {
        queue: webhooks.deliveries.clone(),
        orders: storage.queue.clone(),
        sender: webhooks.sender.clone(),
        secrets: webhooks.secrets.clone(),
        clock: clock.clone(),
        entropy: entropy.clone(),
    };
    let run_mails = RunDeliveries {
        services: storage.services.clone(),
        queue: storage.queue.clone(),
        notifier: notifier.clone(),
        clock,
        entropy,
        mails_per_recipient_hour: settings.mails_per_recipient_hour,
    };
    let mail_slots = match settings.mail_drop() {
        Some(_) => settings.deliveries_in_flight,
        None => settings.deliveries_in_flight.min(adapter_mail::MAX_CONNECTIONS.into()),
    };
    let sleep: Sleep = |pause| sleep(pause).boxed();
    let mails = DeliveryWorker::new(MailDeliveries::new(run_mails, mail_slots), sleep);
    let webhooks = WebhookDeliveries::new(run_webhooks, settings.webhooks_in_flight);
    let webhooks = DeliveryWorker::new(webhooks, sleep);
    let (webhook_metrics, mail_metrics) = (metrics.clone(), metrics.clone());
    let tokens = [stop_deliveries.clone(), parts.messages.may_leave.clone()];
    tasks.spawn(deliver(
        webhooks,
        tokens.clone(),
        outages.clone(),
        [
            "due webhooks could not be read",
            "outcomes of webhooks could not be stored; they will be stored again",
        ],
        move |report| match report {
            WebhooksReport::Attempt(report) => webhook_metrics.webhook(&report),
            WebhooksReport::Gone(id) => webhook_metrics.disabled(id, DisabledBy::Gone),
        },
    ));
    tasks.spawn(deliver(
        mails,
        tokens,
        outages.clone(),
        [
            "due mails could not be read",
            "outcomes of mails could not be stored; they will be stored again",
        ],
        move |report| log_mail(report, &mail_metrics, &mail),
    ));
}

/// Waits until messages may leave. Delivers until the stop, and then settles what is leased: it would be sent again. The grace
/// period of the stop ends this.
async fn deliver<D: Deliveries>(
    mut worker: DeliveryWorker<D>,
    [stop, may_leave]: [CancellationToken; 2],
    outages: Arc<Outages>,
    [unread, unstored]: [&'static str; 2],
    log: impl Fn(D::Report),
) -> Result<()> {
    if stop.run_until_cancelled(may_leave.cancelled()).await.is_none() {
        return Ok(());
    }
    loop {
        if stop.is_cancelled() {
            worker.stop();
        }
        let DeliveryStep { reports, failure } = worker.step().await;
        reports.into_iter().for_each(&log);
        match failure {
            // Another worker finds out when the database answers again: a step may not ask it.
            Some(DeliveryFailure::Lease(error)) => outages.failed(DATABASE, unread, &error),
            Some(DeliveryFailure::Settle { error, .. }) => {
                outages.failed(DATABASE, unstored, &error);
            }
            None => {}
        }
        if worker.is_done() {
            return Ok(());
        }
        tokio::select! {
            () = worker.wait() => {}
            () = stop.cancelled(), if !stop.is_cancelled() => {}
        }
    }
}

fn log_mail(report: MailReport, metrics: &WorkerMetrics, mail_is_available: &AtomicBool) {
    match report {
        MailReport::Attempt(report) => metrics.delivery(&report),
        MailReport::LimitReached(delivery, order_id) => tracing::warn!(
            delivery = delivery.0,
            order_id = order_id.0,
            "the recipient of this mail has reached its hourly limit of mails from this client; further \
             ones wait for the next hour"
        ),
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

/// Logs mails of earlier runs that need an operator. Then checks a relay that was unavailable at the start
/// until it answers. Later outages show in the deliveries.
async fn check_mail(
    queue: Arc<dyn DeliveryQueue>,
    notifier: Arc<dyn Notifier>,
    is_available: Arc<AtomicBool>,
    stop: CancellationToken,
) -> Result<()> {
    if let Ok(QueueStats { over_limit, failed, .. }) = queue.stats().await
        && (over_limit > 0 || failed > 0)
    {
        tracing::warn!(
            over_limit,
            failed,
            "mails failed for good, or wait because their recipients have had the mails of this hour; \
             `notary-orders doctor` says what to do"
        );
    }
    while !is_available.load(Ordering::Relaxed) && !stop.is_cancelled() {
        let _ = stop.run_until_cancelled(sleep(CHECK_MAIL_PAUSE)).await;
        if let Some(Ok(())) = stop.run_until_cancelled(notifier.check()).await {
            is_available.store(true, Ordering::Relaxed);
            tracing::info!("the mail relay is available");
        }
    }
    // The end of a worker is a failure of the service.
    stop.cancelled().await;
    Ok(())
}
