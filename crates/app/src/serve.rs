//! Start and graceful stop of the service.

use std::{
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread::available_parallelism,
    time::Duration,
};

use actix_web::{
    dev::{Server, ServerHandle},
    web,
};
use adapter_http::{Api, Capacity, Ops};
use anyhow::{Context as _, Error, Result, anyhow};
use domain::{
    ports::{IdentityProvider, WebhookSender},
    use_cases::accesses::recorder::AccessRecorder,
};
use operator::{
    Machine,
    adapters::{LISTEN, OPS_LISTEN, Storage, identity_providers, webhook_sender},
    address::resolve,
    settings::{Settings, WrongSetting},
};
use prometheus::Registry;
use telemetry::WorkerMetrics;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{
    certificate_watch::TlsFiles,
    dependencies::check_settings,
    listen,
    wiring::Parts,
    workers::{self, LeavesAccesses, Tasks},
};

/// Longest time at a stop in which the service still answers new requests on open connections, and
/// asks their clients to reconnect.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Part of the grace period that requests in progress leave to the workers: time for a call of the
/// database and its repeat.
const WORKERS_SHARE: Duration = Duration::from_secs(3);

/// A service that starts. The operators' endpoints already answer, and say that it is not ready.
pub struct Starting {
    ops: web::Data<Ops>,
    registry: Registry,
    api_address: SocketAddr,
    ops_address: SocketAddr,
    ops_server: ServerHandle,
    pub(crate) tls: Option<TlsFiles>,
    clients: JoinHandle<Result<Clients>>,
    tasks: Tasks,
}

/// What sends requests to other servers: webhooks, and logins of companies.
type Clients = (Arc<dyn WebhookSender>, Vec<Arc<dyn IdentityProvider>>);

/// A running service. [`Service::stop`] ends it.
pub struct Service {
    /// Address of the API.
    pub api_address: SocketAddr,
    /// Address of metrics and health checks.
    pub ops_address: SocketAddr,
    /// Cancelled if mails and webhooks leave. They wait on a copy of a database.
    pub messages_leave: CancellationToken,
    started: Starting,
    api: web::Data<Api>,
    api_server: ServerHandle,
    workers_stop: CancellationToken,
    deliveries_stop: CancellationToken,
    /// For the requests.
    leaves_accesses: LeavesAccesses,
    accesses: Arc<AccessRecorder>,
    grace: Grace,
}

/// How a stop divides the grace period.
#[derive(Debug, Clone, Copy)]
struct Grace {
    total: Duration,
    /// For requests in progress. One slow upload must not take the time of the workers.
    requests: Duration,
    /// The part of it in which new requests on open connections are served.
    close: Duration,
}

impl Grace {
    fn new(total: Duration) -> Self {
        let requests = total.saturating_sub(WORKERS_SHARE.min(total / 4));
        Self { total, requests, close: CLOSE_TIMEOUT.min(requests / 2) }
    }
}

impl Starting {
    /// Serves the operators' endpoints. Fails if a setting cannot be used, before anything is
    /// opened.
    pub async fn listen(settings: &Settings, machine: &Machine) -> Result<Self> {
        check_settings(settings)?;
        // The root certificates take milliseconds, in which the database is opened.
        let (own, clock) = (settings.clone(), machine.clock.clone());
        let clients =
            spawn_blocking(move || Ok((webhook_sender(&own)?, identity_providers(&own, &clock)?)));
        let registry = Registry::new();
        let tls = TlsFiles::open(settings, machine, &registry)?;
        let api_address = resolve(&settings.listen).await.context(LISTEN)?;
        let ops_address = resolve(&settings.ops_listen).await.context(OPS_LISTEN)?;
        let listener = bind(ops_address, OPS_LISTEN)?;
        let ops_address = listener.local_addr()?;
        let limits = settings.time_limits.http;
        let ops = web::Data::new(Ops::new(machine.clock.clone(), registry.clone(), limits)?);
        let server = adapter_http::serve_ops(listener, ops.clone())?;
        let ops_server = server.handle();
        let mut tasks = Tasks::new();
        tasks.spawn(run(server));
        Ok(Self { ops, registry, api_address, ops_address, ops_server, tls, clients, tasks })
    }

    /// Starts the service on an open storage. Fails if a setting of the document store or the mail
    /// relay is wrong. When it returns, the service accepts requests.
    pub async fn start(
        mut self,
        settings: &Settings,
        machine: &Machine,
        storage: Storage,
    ) -> Result<Service> {
        let (registry, ops_address) = (self.registry.clone(), self.ops_address);
        self.ops.database_opened();
        let listener = bind(self.api_address, LISTEN).map_err(|error| {
            let is_own = self.api_address.port() == ops_address.port();
            if is_own { WrongSetting(error.context(OPS_LISTEN)).into() } else { error }
        })?;
        let api_address = listener.local_addr()?;
        let grace = Grace::new(Duration::from_secs(settings.shutdown_grace_secs));
        let clients = (&mut self.clients).await??;
        let parts = Parts::open(settings, machine, storage, clients, &registry).await?;
        let threads = available_parallelism().map_or(2, usize::from);
        let connections =
            listen::max_connections(settings.database_connections, settings.webhooks_in_flight);
        let api = parts.api(&registry)?;
        let api_server = adapter_http::serve_api(
            listener,
            api.clone(),
            self.tls.as_ref().map(|files| files.tls.clone()),
            Capacity { workers: threads, connections_per_worker: (connections / threads).max(1) },
            grace.requests.saturating_sub(grace.close),
        )?;
        let api_handle = api_server.handle();
        let workers_stop = CancellationToken::new();
        let deliveries_stop = workers_stop.child_token();
        self.tasks.spawn(run(api_server));
        let metrics = WorkerMetrics::register(&registry)?;
        let stops = [&deliveries_stop, &workers_stop];
        let leaves_accesses = workers::spawn(&parts, &metrics, stops, &mut self.tasks)?;
        if let Some(tls) = self.tls.take() {
            self.tasks.spawn(tls.watch(workers_stop.clone()));
        }
        self.ops.started(parts.dependencies());
        tracing::info!(api = %api_address, ops = %ops_address, "listening");
        Ok(Service {
            api_address,
            ops_address,
            messages_leave: parts.messages.may_leave.clone(),
            started: self,
            api,
            api_server: api_handle,
            workers_stop,
            deliveries_stop,
            leaves_accesses,
            accesses: parts.accesses.clone(),
            grace,
        })
    }
}

impl Service {
    /// Waits until a server or worker fails. Returns its error.
    pub async fn failed(&mut self) -> Error {
        match self.started.tasks.join_next().await {
            Some(Ok(Err(error))) => error,
            // The message of a panic may quote an order. The log has its location.
            Some(Err(_)) => anyhow!("a part of the service panicked"),
            Some(Ok(Ok(()))) | None => anyhow!("a part of the service ended"),
        }
    }

    /// Reports that the service is not ready, and serves requests on for this long. Load balancers
    /// see it, and send new requests to other instances.
    pub async fn drain(&self, time: Duration) {
        self.started.ops.stop();
        if !time.is_zero() {
            tracing::info!(seconds = time.as_secs(), "not ready; serving requests before the stop");
            sleep(time).await;
        }
    }

    /// Stops gracefully, within the grace period: finishes the requests in progress, settles the
    /// leased deliveries, and stores the last use of keys.
    pub async fn stop(mut self) {
        tracing::info!("stopping");
        let began = Instant::now();
        let (requests_end, end) = (began + self.grace.requests, began + self.grace.total);
        self.started.ops.stop();
        // Deliveries have the whole time; requests in progress do not wait for them.
        self.deliveries_stop.cancel();
        self.api.closing.begin(self.grace.close).await;
        let requests_ended = async {
            // Work whose clients have disconnected may use connections of the server's threads.
            let _ = timeout(self.grace.close, self.api.detached.finish()).await;
            self.api_server.stop(true).await;
            self.api.detached.finish().await;
        };
        if timeout_at(requests_end, requests_ended).await.is_err() {
            tracing::warn!("requests were in progress when their part of the grace period ended");
        }
        self.workers_stop.cancel();
        drop(self.leaves_accesses);
        self.started.ops_server.stop(false).await;
        let workers_ended = async { while self.started.tasks.join_next().await.is_some() {} };
        if timeout_at(end, workers_ended).await.is_err() {
            tracing::warn!(
                "background work was in progress when the grace period ended; mails in progress \
                 will be sent again"
            );
        }
        let lost = self.accesses.waiting();
        if lost > 0 {
            tracing::error!(lost, "the database did not store the last reads of orders");
        }
        tracing::info!("stopped");
    }
}

fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener> {
    // Another process may still use the address, or an interface may come up later.
    listen::listen(address).with_context(|| format!("{setting}: {address}"))
}

async fn run(server: Server) -> Result<()> {
    server.await.context("server")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_time_for_workers() {
        for (total, requests, close) in
            [(30_000, 27_000, 2_000), (8_000, 6_000, 2_000), (1_000, 750, 375)]
        {
            let grace = Grace::new(Duration::from_millis(total));
            assert_eq!((grace.requests.as_millis(), grace.close.as_millis()), (requests, close));
        }
    }
}
