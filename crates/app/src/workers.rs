//! Background work: calls the steps of the domain's workers until the service stops.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use adapter_mail::remove_old_mails;
use anyhow::Result;
use domain::{
    ports::{DeliveryQueue, NoticeOutcome, Notifier, QueueStats, error_chain},
    use_cases::{
        accesses::{
            keep_accesses::KeepAccesses,
            watch_accesses::{AccessAlert, AccessStep, Memory, WatchAccesses},
        },
        background::Step,
        deliveries::{
            dispatch_events::{DispatchEvents, Dispatched},
            run_deliveries::{MailDeliveries, MailReport, RunDeliveries},
            worker::{Deliveries, DeliveryFailure, DeliveryStep, DeliveryWorker, Sleep},
        },
        keys::note_key_uses::NoteKeyUses,
        note_downloads::NoteDownloads,
        upkeep::{forget_keys::ForgetKeys, sweep_uploads::SweepUploads},
        webhooks::{
            run_webhooks::{RunWebhooks, WebhookDeliveries, WebhooksReport},
            watch_webhooks::{WatchStep, WatchWebhooks},
        },
    },
    webhook::{DisabledBy, EndpointId},
};
use futures_util::FutureExt as _;
use operator::Machine;
use telemetry::WorkerMetrics;
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    outages::{DATABASE, Outages},
    wiring::Parts,
};

/// Pause between two removals of idle rate limits.
const FORGET_RATES_PAUSE: Duration = Duration::from_secs(60);

/// Pause between two checks of a mail relay that was unavailable at the start.
const CHECK_MAIL_PAUSE: Duration = Duration::from_secs(5);

/// The tasks of the service. They end only after a failure or a stop.
pub(crate) type Tasks = JoinSet<Result<()>>;

/// Held by everything that leaves accesses. The worker that stores them ends after the last one is dropped.
pub(crate) type LeavesAccesses = Arc<DropGuard>;

/// Starts the workers that keep the stores tidy. They end after `stop` is cancelled; the one that stores
/// accesses ends after what is returned, and its clones, are dropped.
pub(crate) fn spawn_upkeep(
    parts: &Parts,
    metrics: &WorkerMetrics,
    outages: &Arc<Outages>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
) -> LeavesAccesses {
    let of = |dependency| Fallible { outages: outages.clone(), dependency };
    let Parts { settings, storage, webhooks, .. } = parts;
    let Machine { clock, .. } = &parts.machine;
    let mut uses = NoteKeyUses::new(parts.keys.clone());
    let uses = async move || uses.step().await;
    let failure = "the last use of API keys is not stored until the database answers";
    tasks.spawn(store_notes(stop.clone(), uses, of(DATABASE), failure));
    let mut downloads = NoteDownloads::new(storage.orders.clone(), parts.downloads.clone());
    let downloads = async move || downloads.step().await;
    let failure = "first downloads of documents are not stored until the database answers";
    tasks.spawn(store_notes(stop.clone(), downloads, of(DATABASE), failure));
    let leaves_accesses = spawn_accesses(parts, metrics, outages, stop, tasks);
    let mut forget = ForgetKeys::new(storage.idempotency.clone(), clock.clone());
    let forget = async move || forget.step().await;
    let failure = "expired idempotency keys could not be removed";
    tasks.spawn(repeat(stop.clone(), forget, of(DATABASE), failure, drop));
    let (uploads, blobs) = (storage.uploads.clone(), parts.blobs.clone());
    let sweep = SweepUploads { uploads, blobs, clock: clock.clone() };
    let (sweep, swept) = (async move || sweep.step().await, metrics.clone());
    let failure = "abandoned uploads could not be removed";
    tasks.spawn(repeat(
        stop.clone(),
        sweep,
        of("the store of documents"),
        failure,
        move |uploads| swept.swept(uploads),
    ));
    if let Some(folder) = settings.mail_drop().filter(|_| settings.mail_drop_days > 0) {
        let age = Duration::from_secs(24 * 60 * 60 * u64::from(settings.mail_drop_days));
        let clock = clock.clone();
        let remove = async move || remove_old_mails(folder.clone(), clock.now() - age).await;
        let failure = "old mails could not be removed from the mail drop";
        tasks.spawn(repeat(stop.clone(), remove, of("the mail drop"), failure, |removed| {
            if removed > 0 {
                tracing::info!(removed, "old mails removed from the mail drop");
            }
        }));
    }
    let (rates, stopped) = (parts.rates.clone(), stop.clone());
    tasks.spawn(async move {
        while stopped.run_until_cancelled(sleep(FORGET_RATES_PAUSE)).await.is_some() {
            rates.forget_idle();
        }
        Ok(())
    });
    let watch = WatchWebhooks {
        endpoints: webhooks.endpoints.clone(),
        deliveries: webhooks.deliveries.clone(),
        keys: parts.keys.keys.clone(),
        notifier: parts.notifier.clone(),
        clock: clock.clone(),
        unreadable: Mutex::default(),
    };
    let (watch, watched) = (async move || watch.step().await, metrics.clone());
    let failure = "webhook endpoints that fail could not be looked for";
    tasks.spawn(repeat(stop.clone(), watch, of(DATABASE), failure, move |step| {
        log_watched(step, &watched);
    }));
    leaves_accesses
}

/// Starts the workers that store accesses, remove old ones, and look for keys that read many orders.
fn spawn_accesses(
    parts: &Parts,
    metrics: &WorkerMetrics,
    outages: &Arc<Outages>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
) -> LeavesAccesses {
    let of_database = || Fallible { outages: outages.clone(), dependency: DATABASE };
    let (log, clock) = (parts.storage.accesses.clone(), parts.machine.clock.clone());
    let of_run = || KeepAccesses::new(log.clone(), parts.accesses.clone());
    let (mut keep, mut run) = (of_run(), of_run());
    let keep = async move || keep.step().await;
    let failure = "accesses to orders are not stored until the database answers";
    let all_have_left = CancellationToken::new();
    let stored = store_notes(all_have_left.clone(), keep, of_database(), failure);
    let recorder = parts.accesses.clone();
    tasks.spawn(async move {
        stored.await?;
        // What was answered has its row, even if the database answers only now. The grace period of the stop
        // ends this.
        while recorder.waiting() > 0 {
            let Step { pause, .. } = run.step().await;
            sleep(pause).await;
        }
        if let Err(error) = run.end().await {
            tracing::warn!(error = error_chain(&error), "the end of the accesses is not stored");
        }
        Ok(())
    });
    let mut watch = WatchAccesses {
        log,
        keys: parts.keys.keys.clone(),
        notifier: parts.notifier.clone(),
        clock,
        limits: parts.settings.access_limits(),
        memory: Memory::default(),
    };
    let (watch, watched) = (async move || watch.step().await, metrics.clone());
    let failure = "old accesses could not be removed, or busy keys not be looked for";
    tasks.spawn(repeat(stop.clone(), watch, of_database(), failure, move |step| {
        log_accesses(step, &watched);
    }));
    Arc::new(all_have_left.drop_guard())
}

/// Starts the workers that turn events into deliveries, and send them. The first stop is that of the
/// deliveries, and comes before the other.
pub(crate) fn spawn_deliveries(
    parts: &Parts,
    metrics: WorkerMetrics,
    outages: &Arc<Outages>,
    [stop_deliveries, stop]: [&CancellationToken; 2],
    tasks: &mut Tasks,
) {
    let Parts { settings, storage, webhooks, notifier, .. } = parts;
    let Machine { clock, entropy, .. } = parts.machine.clone();
    let dispatch = DispatchEvents {
        outbox: storage.outbox.clone(),
        queue: storage.queue.clone(),
        services: storage.services.clone(),
        endpoints: webhooks.endpoints.clone(),
        clock: clock.clone(),
        entropy: entropy.clone(),
        mails: settings.mails,
    };
    let dispatch_metrics = metrics.clone();
    tasks.spawn(repeat(
        stop.clone(),
        async move || dispatch.step().await,
        Fallible { outages: outages.clone(), dependency: DATABASE },
        "new orders could not be followed; they are read again in a second",
        move |step| log_dispatched(step, &dispatch_metrics),
    ));
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
    let webhook_metrics = metrics.clone();
    tasks.spawn(deliver(
        webhooks,
        stop_deliveries.clone(),
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
        stop_deliveries.clone(),
        outages.clone(),
        [
            "due mails could not be read",
            "outcomes of mails could not be stored; they will be stored again",
        ],
        move |report| log_mail(report, &metrics, &mail),
    ));
}

/// The dependency of a step.
pub(crate) struct Fallible {
    pub(crate) outages: Arc<Outages>,
    pub(crate) dependency: &'static str,
}

/// Repeats a step until the stop. Logs what it did, or why it failed.
pub(crate) async fn repeat<T>(
    stop: CancellationToken,
    mut work: impl AsyncFnMut() -> Step<T>,
    on: Fallible,
    failure: &'static str,
    log: impl Fn(T),
) -> Result<()> {
    while !stop.is_cancelled() {
        let Step { result, pause } = work().await;
        match result {
            Ok(done) => {
                on.outages.worked(on.dependency);
                log(done);
            }
            Err(error) => on.outages.failed(on.dependency, failure, &error),
        }
        let _ = stop.run_until_cancelled(sleep(pause)).await;
    }
    Ok(())
}

/// Delivers until the stop, and then settles what is leased: it would be sent again. The grace
/// period of the stop ends this.
async fn deliver<D: Deliveries>(
    mut worker: DeliveryWorker<D>,
    stop: CancellationToken,
    outages: Arc<Outages>,
    [unread, unstored]: [&'static str; 2],
    log: impl Fn(D::Report),
) -> Result<()> {
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
            "the recipient of this mail has had its mails of this hour from this client; its further \
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

fn log_dispatched(step: Dispatched, metrics: &WorkerMetrics) {
    step.events.iter().for_each(|event| metrics.order_event(event));
    for (order_id, error) in step.unreadable {
        tracing::error!(
            order_id = order_id.0,
            error = error_chain(&error),
            "an order cannot be read; its mails and webhooks wait, and it is read again in a minute"
        );
    }
}

fn log_watched(step: WatchStep, metrics: &WorkerMetrics) {
    let WatchStep { disabled, notices, unreadable, .. } = step;
    for row in unreadable {
        tracing::warn!(
            row,
            "this version of the service cannot read all of a row; what it knows is used and sent, and the \
             rest waits for the version that wrote it"
        );
    }
    for id in disabled {
        metrics.disabled(id, DisabledBy::Failures);
    }
    for (EndpointId(endpoint), outcome) in notices {
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
}

fn log_accesses(AccessStep { removed, alerts }: AccessStep, metrics: &WorkerMetrics) {
    if removed > 0 {
        tracing::info!(removed, "old accesses removed");
    }
    for AccessAlert { key, is_new, mail } in alerts {
        if is_new {
            metrics.busy_key(&key);
        }
        let api_key = key.key.0;
        match mail {
            NoticeOutcome::Told => {
                tracing::info!(api_key, "the contact of a busy API key was told");
            }
            NoticeOutcome::NoContact => tracing::warn!(
                api_key,
                "a busy API key has no contact; ask its client, and revoke the key if it does not \
                 read so many orders itself"
            ),
            NoticeOutcome::Failed(error) => {
                tracing::error!(api_key, error, "the contact of a busy API key could not be told");
            }
            NoticeOutcome::Later(error) => tracing::warn!(
                api_key,
                error,
                "the mail about a busy API key is sent again in a minute"
            ),
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

/// Stores what requests have noted until the stop, and once more after it.
async fn store_notes(
    stop: CancellationToken,
    mut store: impl AsyncFnMut() -> Step<()>,
    on: Fallible,
    failure: &'static str,
) -> Result<()> {
    loop {
        let is_last = stop.is_cancelled();
        let Step { result, pause } = store().await;
        if let Err(error) = result {
            on.outages.failed(on.dependency, failure, &error);
        }
        if is_last && !pause.is_zero() {
            return Ok(());
        }
        let _ = stop.run_until_cancelled(sleep(pause)).await;
    }
}
