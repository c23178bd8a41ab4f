//! Use cases on the adapters of the settings.

use std::sync::{Arc, atomic::AtomicBool};

use actix_web::web;
use adapter_http::{
    Api, ApiMetrics, BodyLimit, Closing, ConcurrencyLimit, Connections, Dependencies,
    DetachedTasks, InProgress, KeysInProgress, RateLimits, Spool,
};
use adapter_mail::RemoveOldMails;
use anyhow::{Context as _, Result};
use domain::{
    add_documents::AddDocuments,
    create_order::CreateOrder,
    delivery_slots::DeliverySlots,
    delivery_worker::{DeliveryWorker, Sleep},
    dispatch_events::DispatchEvents,
    forget_keys::ForgetKeys,
    intake::Intake,
    manage_webhooks::ManageWebhooks,
    note_key_uses::NoteKeyUses,
    ports::{DeliveryQueue, Notifier, Outbox},
    read_order::ReadOrder,
    run_deliveries::{MailDeliveries, RunDeliveries},
    run_webhooks::{RunWebhooks, WebhookDeliveries},
    scan_documents::ScanDocuments,
    sweep_uploads::SweepUploads,
    watch_webhooks::WatchWebhooks,
};
use futures_util::FutureExt as _;
use operator::{
    Machine,
    adapters::{Storage, create_data_dir, open_blobs, open_notifier, open_scanner},
    settings::Settings,
};
use prometheus::Registry;
use telemetry::{
    ObservedScanner, WorkerMetrics, gauges, logging,
    traced_ports::{TracedBlobs, TracedNotifier, TracedOrders, TracedWebhooks},
};
use tokio::runtime::Handle;

use crate::workers::Workers;

/// The parts of the service that run.
pub(crate) struct Parts {
    pub(crate) api: web::Data<Api>,
    pub(crate) dependencies: Dependencies,
    pub(crate) workers: Workers,
}

impl Parts {
    /// Opens the document store and the mail relay, and connects every part.
    pub(crate) async fn assemble(
        settings: &Settings,
        machine: &Machine,
        storage: Storage,
        registry: &Registry,
    ) -> Result<Self> {
        create_data_dir(settings)?;
        let mut blobs = open_blobs(settings).await?;
        let scan = open_scan(settings, registry).await?;
        let (mut notifier, mail_is_available) = open_notifier(settings).await?;
        let spool = Spool::open(&settings.in_data_dir("spool"), mebibytes(settings.spool_mb))
            .context("--data-dir (NOTARY_ORDERS_DATA_DIR): spool")?;
        register_gauges(settings, registry, &storage)?;
        let keys = storage.manage_keys(machine);
        let (orders, with_documents) = (settings.rate(), settings.documents_rate());
        let rates = Arc::new(RateLimits::new(orders, with_documents, settings.reads_rate()));
        let Machine { clock, entropy, traces } = machine.clone();
        let mut webhooks = storage.manage_webhooks(settings, machine)?;
        let Storage { mut orders, reader, uploads, idempotency, outbox, queue, .. } = storage;
        if let Some(traces) = &traces {
            traces.register(registry)?;
            orders = Arc::new(TracedOrders(orders));
            blobs = Arc::new(TracedBlobs(blobs));
            notifier = Arc::new(TracedNotifier(notifier));
            webhooks.sender = Arc::new(TracedWebhooks(webhooks.sender));
        }

        let mail_is_available = Arc::new(AtomicBool::new(mail_is_available));
        let dependencies = Dependencies {
            orders: orders.clone(),
            blobs: blobs.clone(),
            scan: scan.clone(),
            queue: queue.clone(),
            webhooks: webhooks.deliveries.clone(),
            mail_is_available: mail_is_available.clone(),
        };
        let Deliveries { dispatch_events, mails, webhooks: webhook_worker } =
            Deliveries::new(settings, outbox, queue, &notifier, &webhooks);
        let mail_drop = settings.mail_drop().filter(|_| settings.mail_drop_days > 0);
        let workers = Workers {
            dispatch_events,
            remove_old_mails: mail_drop
                .map(|folder| RemoveOldMails::new(folder, settings.mail_drop_days, clock.clone())),
            mails,
            webhooks: webhook_worker,
            watch_webhooks: WatchWebhooks {
                endpoints: webhooks.endpoints.clone(),
                deliveries: webhooks.deliveries.clone(),
                keys: keys.keys.clone(),
                notifier: notifier.clone(),
                clock: clock.clone(),
            },
            note_key_uses: NoteKeyUses::new(keys.clone()),
            forget_keys: ForgetKeys::new(idempotency.clone(), clock.clone()),
            sweep_uploads: SweepUploads {
                uploads: uploads.clone(),
                blobs: blobs.clone(),
                clock: clock.clone(),
            },
            rates: rates.clone(),
            notifier,
            mail_is_available,
            metrics: WorkerMetrics::register(registry)?,
        };
        let intake = Intake {
            orders,
            reader,
            uploads,
            idempotency,
            blobs,
            scan,
            clock,
            entropy: entropy.clone(),
            idempotency_retention: settings.idempotency_retention(),
        };
        let api = web::Data::new(Api {
            add_documents: AddDocuments { intake: intake.clone() },
            webhooks,
            read_order: ReadOrder { reader: intake.reader.clone(), blobs: intake.blobs.clone() },
            create_order: CreateOrder { intake, window: settings.duplicate_window() },
            keys,
            rates,
            trusted_proxies: settings.trusted_proxies.clone(),
            limits: settings.document_limits(),
            spool,
            metrics: ApiMetrics::register(registry)?,
            entropy,
            base_path: settings.base_path.clone(),
            traces: traces.map(|traces| traces as _),
            detached: DetachedTasks::new(Handle::current()),
            keys_in_progress: KeysInProgress::default(),
            replays: InProgress::default(),
            closing: Closing::default(),
            connections: Connections::new(
                usize::try_from(settings.connections_per_address)?,
                settings.trusted_proxies.clone(),
            ),
            concurrency: ConcurrencyLimit::new(usize::try_from(settings.max_orders_in_flight)?),
            json_bodies: BodyLimit::default(),
            uploads: BodyLimit::new(usize::try_from(settings.max_uploads_in_flight)?),
        });
        adapter_http::register_gauges(registry, &api)?;
        Ok(Self { api, dependencies, workers })
    }
}

fn register_gauges(settings: &Settings, registry: &Registry, storage: &Storage) -> Result<()> {
    let (connections, waiting) = (Arc::clone(&storage.observed), Arc::clone(&storage.observed));
    let sizes = gauges::register_database(
        registry,
        move || connections.open_connections(),
        move || waiting.waiting_calls(),
    )?;
    // A batch is far smaller than 2^32.
    let observe = move |calls| sizes.observe(f64::from(u32::try_from(calls).unwrap_or(u32::MAX)));
    storage.observed.observe_batches(Arc::new(observe));
    gauges::register_disk(registry, &settings.data_dir)?;
    Ok(logging::register(registry)?)
}

/// Opens the scan of documents, if the settings name a scanner.
async fn open_scan(settings: &Settings, registry: &Registry) -> Result<Option<ScanDocuments>> {
    let Some(scanner) = open_scanner(settings).await? else { return Ok(None) };
    let scanner = Arc::new(ObservedScanner::register(scanner, registry)?);
    Ok(Some(ScanDocuments { scanner, required: settings.scan_required }))
}

/// The workers that turn events into deliveries, and send them.
struct Deliveries {
    dispatch_events: DispatchEvents,
    mails: DeliveryWorker<MailDeliveries>,
    webhooks: DeliveryWorker<WebhookDeliveries>,
}

impl Deliveries {
    fn new(
        settings: &Settings,
        outbox: Arc<dyn Outbox>,
        queue: Arc<dyn DeliveryQueue>,
        notifier: &Arc<dyn Notifier>,
        webhooks: &ManageWebhooks,
    ) -> Self {
        let ManageWebhooks { endpoints, deliveries, sender, secrets, clock, entropy } =
            webhooks.clone();
        let dispatch_events = DispatchEvents {
            outbox,
            queue: queue.clone(),
            endpoints,
            clock: clock.clone(),
            entropy: entropy.clone(),
        };
        let run_webhooks = RunWebhooks {
            queue: deliveries,
            orders: queue.clone(),
            sender,
            secrets,
            clock: clock.clone(),
            entropy: entropy.clone(),
        };
        let run_mails = RunDeliveries {
            queue,
            notifier: notifier.clone(),
            clock,
            entropy,
            mails_per_recipient_hour: settings.mails_per_recipient_hour,
        };
        let slots = Arc::new(DeliverySlots::new(settings.deliveries_in_flight.into()));
        let share = slots.share();
        let mail_slots = match settings.mail_drop() {
            Some(_) => share,
            None => share.min(adapter_mail::MAX_CONNECTIONS.into()),
        };
        let sleep: Sleep = |pause| tokio::time::sleep(pause).boxed();
        let mails = MailDeliveries::new(run_mails, mail_slots);
        let webhooks = WebhookDeliveries::new(run_webhooks, share);
        Self {
            dispatch_events,
            mails: DeliveryWorker::new(mails, slots.clone(), sleep),
            webhooks: DeliveryWorker::new(webhooks, slots, sleep),
        }
    }
}

fn mebibytes(count: u32) -> u64 {
    u64::from(count) * 1024 * 1024
}
