//! Background work: the table of workers, and the tasks that drive them until the service stops.
//!
//! | concept | module |
//! |---|---|
//! | one row of the table, and how it is driven | `row` |
//! | accesses: stored to the last one at a stop | `accesses` |
//! | mails and webhooks: leased, attempted and settled | `deliveries` |
//! | erasure of what is kept no longer | `retention` |
//! | what erasures leave outside of the database | `remains` |
//! | what the log says about steps | `report` |

mod accesses;
mod deliveries;
mod remains;
mod report;
mod retention;
mod row;

use std::{path::PathBuf, sync::Arc, time::Duration};

use adapter_http::RateLimits;
use adapter_mail::remove_old_mails;
use anyhow::Result;
use domain::{
    delivery::Settling,
    ports::Clock,
    use_cases::{
        accesses::watch_accesses::{Memory, WatchAccesses},
        background::{Step, Worker},
        deliveries::{bring_forward::BringForward, dispatch_events::DispatchEvents},
        keys::note_key_uses::NoteKeyUses,
        note_downloads::NoteDownloads,
        people::{forget_sessions::ForgetSessions, sessions::NoteSessionUses},
        rejected::tell_rejected::TellRejected,
        upkeep::{
            count_attention::CountAttention, erase_old_orders::CountWaiting, fold_texts::FoldTexts,
            forget_keys::ForgetKeys, sweep_uploads::SweepUploads, watch_clock::WatchClock,
        },
        webhooks::watch_webhooks::{UnreadableLook, WatchWebhooks},
    },
};
use operator::Machine;
use telemetry::WorkerMetrics;
use tokio_util::sync::CancellationToken;

use self::row::Row;
pub(crate) use self::row::{LeavesAccesses, Tasks};
use crate::{
    outages::{DATABASE, Outages},
    wiring::Parts,
};

/// Pause before old mails are looked for again while the clock may be wrong.
const DOUBTED_PAUSE: Duration = Duration::from_secs(60);

/// Pause between two removals of idle rate limits.
const FORGET_RATES_PAUSE: Duration = Duration::from_secs(60);

/// Starts the workers. They end after `stop` is cancelled, and those of deliveries after `stop_deliveries`. The
/// one that stores accesses ends after what is returned, and its clones, are dropped.
pub(crate) fn spawn(
    parts: &Parts,
    metrics: &WorkerMetrics,
    [stop_deliveries, stop]: [&CancellationToken; 2],
    tasks: &mut Tasks,
) -> Result<LeavesAccesses> {
    let outages = Arc::new(Outages::new(parts.machine.clock.clone()));
    let leaves_accesses = accesses::spawn(parts, &outages, tasks);
    let erasing = retention::rows(parts, metrics, &leaves_accesses)?;
    let others = notifying(parts, metrics).into_iter().chain(upkeep(parts, metrics));
    for row in others.chain(erasing) {
        tasks.spawn(row.run(outages.clone(), stop.clone()));
    }
    tasks.spawn(parts.messages.clone().watch(stop.clone()));
    deliveries::spawn(parts, metrics, &outages, [stop_deliveries, stop], tasks);
    Ok(leaves_accesses)
}

/// Returns the workers that mails and webhooks come from. A row has the text of a failure, the dependency that
/// fails, the worker, and what reports its steps.
fn notifying(parts: &Parts, metrics: &WorkerMetrics) -> Vec<Row> {
    let Parts { settings, storage, webhooks, .. } = parts;
    let Machine { clock, entropy, .. } = &parts.machine;
    let (keys, notifier) = (&parts.keys, &parts.notifier);
    // Of those that send.
    let may_leave = &parts.messages.may_leave;
    vec![
        Row::new(
            "rejected requests could not be told to the contacts of their keys",
            DATABASE,
            TellRejected {
                log: storage.rejected.clone(),
                keys: keys.keys.clone(),
                notifier: notifier.clone(),
                clock: clock.clone(),
                removed_at: None,
            },
            report::rejected,
        )
        .after(may_leave),
        Row::new(
            "webhook endpoints that fail could not be looked for",
            DATABASE,
            WatchWebhooks {
                endpoints: webhooks.endpoints.clone(),
                deliveries: webhooks.deliveries.clone(),
                keys: keys.keys.clone(),
                notifier: notifier.clone(),
                clock: clock.clone(),
                look: UnreadableLook::default(),
            },
            report::with(metrics, report::watched),
        )
        .after(may_leave),
        Row::new(
            "old accesses could not be removed, or busy keys and people not be looked for",
            DATABASE,
            WatchAccesses {
                log: storage.accesses.clone(),
                feed: storage.feed.clone(),
                keys: keys.keys.clone(),
                notifier: notifier.clone(),
                clock: clock.clone(),
                recorder: parts.accesses.clone(),
                limits: settings.access_limits(),
                memory: Memory::default(),
            },
            report::with(metrics, report::accesses),
        )
        .after(may_leave),
        Row::new(
            "deliveries that a wrong clock has put off could not be looked for",
            DATABASE,
            BringForward {
                mails: storage.queue.clone(),
                webhooks: webhooks.deliveries.clone(),
                clock: clock.clone(),
            },
            report::brought_forward,
        )
        .after(may_leave),
        Row::new(
            "new orders could not be followed; they are read again in a second",
            DATABASE,
            DispatchEvents {
                outbox: storage.outbox.clone(),
                queue: storage.queue.clone(),
                services: storage.services.clone(),
                endpoints: webhooks.endpoints.clone(),
                clock: clock.clone(),
                entropy: entropy.clone(),
                mails: settings.mails,
                settling: Settling::of_secs(settings.mail_settle_secs),
            },
            report::with(metrics, report::dispatched),
        ),
    ]
}

/// Returns the workers that store what waits in memory, remove what is old, and measure.
fn upkeep(parts: &Parts, metrics: &WorkerMetrics) -> Vec<Row> {
    let Parts { settings, storage, .. } = parts;
    let (keys, clock) = (&parts.keys, &parts.machine.clock);
    let mut rows = vec![
        Row::new(
            "the clock of the database could not be read",
            DATABASE,
            WatchClock::new(parts.clock.clone(), parts.database_time.clone()),
            report::with(metrics, WorkerMetrics::clock),
        ),
        Row::storing(
            "the last use of API keys is not stored until the database answers",
            NoteKeyUses { keys: keys.keys.clone(), uses: keys.uses.clone() },
        ),
        Row::storing(
            "the last use of sessions is not stored until the database answers",
            NoteSessionUses {
                sessions: storage.sessions.clone(),
                uses: parts.sessions.uses.clone(),
            },
        ),
        Row::new(
            "sessions that have ended could not be removed",
            DATABASE,
            ForgetSessions { sessions: storage.sessions.clone(), clock: clock.clone() },
            drop,
        ),
        Row::storing(
            "first downloads of documents are not stored until the database answers",
            NoteDownloads { orders: storage.orders.clone(), downloads: parts.downloads.clone() },
        ),
        Row::storing(
            "counts of rejected requests are not stored until the database answers",
            parts.rejected.clone(),
        ),
        Row::new(
            "expired idempotency keys could not be removed",
            DATABASE,
            ForgetKeys::new(storage.idempotency.clone(), clock.clone()),
            drop,
        ),
        Row::new(
            "abandoned uploads could not be removed",
            "the store of documents",
            SweepUploads::new(storage.uploads.clone(), parts.blobs.clone(), clock.clone()),
            report::with(metrics, WorkerMetrics::swept),
        )
        // The original may still have the objects.
        .after(&parts.messages.may_leave),
        Row::new(
            "idle rate limits could not be removed",
            "the memory of the service",
            ForgetRates(parts.rates.clone()),
            drop,
        ),
        Row::new(
            "orders that wait for an erasure could not be counted",
            DATABASE,
            CountWaiting::new(settings.retention(), storage.admin.clone(), clock.clone()),
            report::with(metrics, WorkerMetrics::waiting),
        ),
        Row::new(
            "orders that are late could not be counted",
            DATABASE,
            CountAttention::new(storage.admin.clone(), clock.clone()),
            report::with(metrics, WorkerMetrics::attention),
        ),
        Row::new(
            "orders of another version or system are not found by all words until the database answers",
            DATABASE,
            FoldTexts { admin: storage.admin.clone() },
            report::kept_texts,
        ),
    ];
    if let Some(folder) = settings.mail_drop().filter(|_| settings.mail_drop_days > 0) {
        let age = Duration::from_secs(24 * 60 * 60 * u64::from(settings.mail_drop_days));
        rows.push(Row::new(
            "old mails could not be removed from the mail drop",
            "the mail drop",
            RemoveOldMails { folder, age, clock: clock.clone() },
            report::old_mails,
        ));
    }
    rows
}

/// Removes mails from the mail drop after some days.
struct RemoveOldMails {
    folder: PathBuf,
    age: Duration,
    clock: Arc<dyn Clock>,
}

impl Worker for RemoveOldMails {
    type Done = usize;

    async fn step(&mut self) -> Step<usize> {
        match self.clock.now_to_erase() {
            Some(now) => remove_old_mails(self.folder.clone(), now - self.age).await,
            None => Step { result: Ok(0), pause: DOUBTED_PAUSE },
        }
    }
}

/// Removes idle rate limits.
struct ForgetRates(Arc<RateLimits>);

impl Worker for ForgetRates {
    type Done = ();

    async fn step(&mut self) -> Step<()> {
        self.0.forget_idle();
        Step { result: Ok(()), pause: FORGET_RATES_PAUSE }
    }
}
