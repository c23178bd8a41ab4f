//! Use cases on the adapters of the settings.

use std::sync::{Arc, atomic::AtomicBool};

use actix_web::web;
use adapter_http::{
    Api, ApiMetrics, BodyMemory, Budget, ConcurrencyLimit, ConnectionTracker, Dependencies,
    DetachedTasks, KeysInProgress, RateLimits, Spool,
};
use adapter_mail::RemoveOldMails;
use anyhow::{Context as _, Result};
use domain::{
    add_documents::AddDocuments,
    create_order::CreateOrder,
    delivery_worker::DeliveryWorker,
    dispatch_events::DispatchEvents,
    forget_keys::ForgetKeys,
    intake::Intake,
    note_key_uses::NoteKeyUses,
    order_traffic::{OrderTraffic, Signal},
    read_order::ReadOrder,
    run_deliveries::RunDeliveries,
    sweep_uploads::SweepUploads,
};
use futures_util::FutureExt as _;
use prometheus::Registry;
use tokio::runtime::Handle;

use crate::{
    adapters::{Storage, create_data_dir, open_blobs, open_notifier},
    database_metrics, logging,
    settings::Settings,
    system::Machine,
    worker_metrics::WorkerMetrics,
    workers::Workers,
};

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
        let blobs = open_blobs(settings).await?;
        let (notifier, mail_is_available) = open_notifier(settings).await?;
        let spool =
            Spool::open(&settings.in_data_dir("spool"), Budget::new(mebibytes(settings.spool_mb)))
                .context("--data-dir (NOTARY_ORDERS_DATA_DIR): spool")?;
        database_metrics::register(registry, &storage.observed)?;
        if let Some(dropped) = logging::dropped_lines() {
            registry.register(Box::new(dropped.clone()))?;
        }
        let keys = storage.manage_keys(machine);
        let (orders, with_documents) = (settings.rate(), settings.documents_rate());
        let rates = Arc::new(RateLimits::new(orders, with_documents, settings.reads_rate()));
        let traffic = Arc::<OrderTraffic>::default();
        let Machine { clock, entropy } = machine.clone();
        let Storage { orders, reader, uploads, idempotency, outbox, queue, .. } = storage;

        let mail_is_available = Arc::new(AtomicBool::new(mail_is_available));
        let dependencies = Dependencies {
            orders: orders.clone(),
            blobs: blobs.clone(),
            queue: queue.clone(),
            mail_is_available: mail_is_available.clone(),
        };
        let dispatched = Arc::<Signal>::default();
        let dispatch_events = DispatchEvents {
            outbox,
            queue: queue.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            traffic: traffic.clone(),
            dispatched: dispatched.clone(),
        };
        let deliveries = RunDeliveries {
            queue,
            notifier: notifier.clone(),
            clock: clock.clone(),
            entropy: entropy.clone(),
            mails_per_recipient_hour: settings.mails_per_recipient_hour,
        };
        let mail_drop = settings.mail_drop().filter(|_| settings.mail_drop_days > 0);
        let mails = match settings.mail_drop() {
            Some(_) => settings.deliveries_in_flight,
            None => settings.deliveries_in_flight.min(adapter_mail::MAX_CONNECTIONS),
        };
        let workers = Workers {
            dispatch_events,
            remove_old_mails: mail_drop
                .map(|folder| RemoveOldMails::new(folder, settings.mail_drop_days, clock.clone())),
            deliveries: DeliveryWorker::new(
                deliveries,
                mails.into(),
                traffic.clone(),
                dispatched,
                |pause| tokio::time::sleep(pause).boxed(),
            ),
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
            clock,
            entropy: entropy.clone(),
            idempotency_retention: settings.idempotency_retention(),
        };
        let api = web::Data::new(Api {
            add_documents: AddDocuments { intake: intake.clone() },
            read_order: ReadOrder { reader: intake.reader.clone(), blobs: intake.blobs.clone() },
            create_order: CreateOrder { intake, window: settings.duplicate_window(), traffic },
            keys,
            rates,
            trusted_proxies: settings.trusted_proxies.clone(),
            limits: settings.document_limits(),
            spool,
            metrics: ApiMetrics::register(registry)?,
            entropy,
            base_path: settings.base_path.clone(),
            detached: DetachedTasks::new(Handle::current()),
            keys_in_progress: KeysInProgress::default(),
            connections: Arc::<ConnectionTracker>::default(),
            concurrency: ConcurrencyLimit::new(usize::try_from(settings.max_orders_in_flight)?),
            uploads: ConcurrencyLimit::new(usize::try_from(settings.max_uploads_in_flight)?),
            body_memory: BodyMemory::new(mebibytes(settings.body_memory_mb)),
        });
        adapter_http::register_gauges(registry, &api)?;
        Ok(Self { api, dependencies, workers })
    }
}

fn mebibytes(count: u32) -> u64 {
    u64::from(count) * 1024 * 1024
}
