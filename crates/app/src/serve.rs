//! Start and graceful stop of the service.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_web::{
    dev::{Server, ServerHandle},
    web,
};
use adapter_http::{
    Api, ApiMetrics, Capacity, ConcurrencyLimit, ConnectionTracker, DetachedTasks, KeysInProgress,
    Ops, RateLimits, Spool,
};
use anyhow::{Context as _, Result, anyhow};
use domain::{
    api_key::Rate, create_order::CreateOrder, delivery::RetryPolicy, document::DocumentLimits,
    duplicate_window::DuplicateWindow, run_deliveries::RunDeliveries, sweep_uploads::SweepUploads,
};
use prometheus::Registry;
use tokio::{
    runtime::Handle,
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Machine,
    adapters::{Storage, create_data_dir, open_blobs, open_notifier},
    listen,
    settings::Settings,
    workers::{self, WorkerMetrics},
};

/// How long clients that go on asking are told to connect elsewhere.
const PARTING: Duration = Duration::from_secs(2);

/// A service that runs. It ends by [`Service::stop`].
pub struct Service {
    /// Where the API listens.
    pub api_address: SocketAddr,
    /// Where operators are answered.
    pub ops_address: SocketAddr,
    api: web::Data<Api>,
    ops: web::Data<Ops>,
    api_listener: TcpListener,
    api_server: ServerHandle,
    ops_server: ServerHandle,
    detached: DetachedTasks,
    workers_stop: CancellationToken,
    /// Servers and workers; one that ends on its own has failed.
    tasks: JoinSet<Result<()>>,
    grace: Duration,
}

impl Service {
    /// Starts the service on storage that is open, once it has found that documents can be stored
    /// and mails handed over. When it returns, the service takes requests.
    pub async fn start(settings: &Settings, machine: &Machine, storage: Storage) -> Result<Self> {
        let api_listener = bind(settings.listen, "--listen (NOTARY_ORDERS_LISTEN)")?;
        let ops_listener = bind(settings.ops_listen, "--ops-listen (NOTARY_ORDERS_OPS_LISTEN)")?;
        let (api_address, ops_address) = (api_listener.local_addr()?, ops_listener.local_addr()?);
        let grace = Duration::from_secs(settings.shutdown_grace_secs.into());

        let detached = DetachedTasks::new(Handle::current());
        let Parts { api, ops, run_deliveries, sweep, worker_metrics } =
            Parts::assemble(settings, machine, storage, detached.clone()).await?;
        let http_workers = std::thread::available_parallelism().map_or(2, usize::from);
        let most = listen::most_connections(settings.database_connections) / http_workers;
        let api_server = adapter_http::serve_api(
            api_listener.try_clone()?,
            api.clone(),
            Capacity { workers: http_workers, connections_per_worker: most.max(1) },
            grace,
        )?;
        let ops_server = adapter_http::serve_ops(ops_listener, ops.clone())?;
        let (api_handle, ops_handle) = (api_server.handle(), ops_server.handle());
        let workers_stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(api_server));
        tasks.spawn(serve(ops_server));
        tasks.spawn(workers::run_deliveries(
            run_deliveries,
            worker_metrics.clone(),
            workers_stop.clone(),
        ));
        tasks.spawn(workers::note_key_uses(api.keys.clone(), workers_stop.clone()));
        tasks.spawn(workers::keep_house(sweep, api.clone(), worker_metrics, workers_stop.clone()));
        tracing::info!(api = %api_address, ops = %ops_address, "listening");
        Ok(Self {
            api_address,
            ops_address,
            api,
            ops,
            api_listener,
            api_server: api_handle,
            ops_server: ops_handle,
            detached,
            workers_stop,
            tasks,
            grace,
        })
    }

    /// Waits until a part of the service fails, which none does on its own.
    pub async fn failed(&mut self) -> anyhow::Error {
        match self.tasks.join_next().await {
            Some(Ok(Err(error))) => error,
            // Not what a panic says, which may quote what was worked on: the log has its place.
            Some(Err(_)) => anyhow!("a part of the service panicked"),
            Some(Ok(Ok(()))) | None => anyhow!("a part of the service ended"),
        }
    }

    /// Stops gracefully: says that it is not ready, takes no more connections, ends those that are
    /// there, finishes the requests that run (for at most the grace period) and the follow-ups that
    /// are leased.
    pub async fn stop(mut self) {
        tracing::info!("stopping");
        let deadline = Instant::now() + self.grace;
        self.ops.stop();
        if let Err(error) = adapter_http::stop_accepting(&self.api_listener) {
            tracing::warn!(%error, "who connects at this moment may be reset");
        }
        self.api.connections.close(self.grace.min(PARTING)).await;
        // With its copy, or the port would stay open.
        drop(self.api_listener);
        self.api_server.stop(true).await;
        if timeout_at(deadline, self.detached.finish()).await.is_err() {
            tracing::warn!(
                "orders with documents were still being placed at the end of the grace period"
            );
        }
        self.workers_stop.cancel();
        self.ops_server.stop(false).await;
        let ended =
            timeout_at(deadline, async { while self.tasks.join_next().await.is_some() {} }).await;
        if ended.is_err() {
            tracing::warn!(
                "follow-ups were still being delivered at the end of the grace period; they will be delivered again"
            );
        }
        tracing::info!("stopped");
    }
}

/// What the servers and workers run on: use cases on the adapters of the settings.
struct Parts {
    api: web::Data<Api>,
    ops: web::Data<Ops>,
    run_deliveries: RunDeliveries,
    sweep: SweepUploads,
    worker_metrics: WorkerMetrics,
}

impl Parts {
    async fn assemble(
        settings: &Settings,
        machine: &Machine,
        storage: Storage,
        detached: DetachedTasks,
    ) -> Result<Self> {
        create_data_dir(settings)?;
        let blobs = open_blobs(settings).await?;
        let notifier = open_notifier(settings).await?;
        let spool = Spool::open(&settings.in_data_dir("spool"))
            .context("--data-dir (NOTARY_ORDERS_DATA_DIR): spool")?;
        let registry = Registry::new();
        let keys = storage.manage_keys(machine);
        let Machine { clock, entropy } = machine.clone();
        let Storage { orders, uploads, idempotency, queue, .. } = storage;

        let ops = web::Data::new(Ops::new(
            Arc::clone(&orders),
            Arc::clone(&blobs),
            Arc::clone(&queue),
            Arc::clone(&clock),
            registry.clone(),
        )?);
        let worker_metrics = WorkerMetrics::register(&registry)?;
        let run_deliveries = RunDeliveries {
            queue,
            orders: Arc::clone(&orders),
            notifier,
            clock: Arc::clone(&clock),
            entropy: Arc::clone(&entropy),
            retry: RetryPolicy::default(),
        };
        let sweep = SweepUploads {
            uploads: Arc::clone(&uploads),
            blobs: Arc::clone(&blobs),
            clock: Arc::clone(&clock),
            abandoned_after: SweepUploads::ABANDONED_AFTER,
        };
        let api = web::Data::new(Api {
            create_order: CreateOrder {
                orders,
                uploads,
                idempotency,
                blobs,
                clock,
                entropy: Arc::clone(&entropy),
                window: DuplicateWindow(time::Duration::seconds(
                    settings.duplicate_window_secs.into(),
                )),
                remember_for: time::Duration::seconds(settings.idempotency_retention_secs.into()),
            },
            keys,
            rates: Arc::new(rate_limits(settings)),
            trusted_proxies: settings.trusted_proxies.clone(),
            limits: DocumentLimits {
                max_bytes: settings.max_document_bytes,
                ..DocumentLimits::default()
            },
            spool,
            metrics: ApiMetrics::register(&registry)?,
            entropy,
            base_path: settings.base_path.clone(),
            detached,
            keys_in_progress: KeysInProgress::default(),
            connections: Arc::new(ConnectionTracker::default()),
            concurrency: ConcurrencyLimit::new(usize::try_from(settings.max_orders_in_flight)?),
        });
        Ok(Self { api, ops, run_deliveries, sweep, worker_metrics })
    }
}

fn rate_limits(settings: &Settings) -> RateLimits {
    let orders = Rate { per_second: settings.rate_per_second, burst: settings.rate_burst };
    let with_documents = Rate {
        per_second: settings.documents_rate_per_second.unwrap_or(orders.per_second),
        burst: settings.documents_rate_burst.unwrap_or(orders.burst),
    };
    RateLimits::new(orders, with_documents)
}

fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener> {
    listen::listen(address).with_context(|| format!("{setting}: {address}"))
}

async fn serve(server: Server) -> Result<()> {
    server.await.context("server")
}
