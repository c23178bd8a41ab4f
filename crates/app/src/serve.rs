//! Start and graceful stop of the service.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use actix_web::{
    dev::{Server, ServerHandle},
    web,
};
use adapter_http::{Api, Capacity, Ops};
use anyhow::{Context as _, Error, Result, anyhow};
use tokio::{
    task::JoinSet,
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::{adapters::Storage, listen, settings::Settings, system::Machine, wiring::Parts};

/// Longest time at a stop in which the service still answers new requests on open connections, and
/// asks their clients to reconnect.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A running service. [`Service::stop`] ends it.
pub struct Service {
    /// Address of the API.
    pub api_address: SocketAddr,
    /// Address of metrics and health checks.
    pub ops_address: SocketAddr,
    api: web::Data<Api>,
    ops: web::Data<Ops>,
    api_listener: TcpListener,
    api_server: ServerHandle,
    ops_server: ServerHandle,
    workers_stop: CancellationToken,
    /// Servers and workers. They end only after a failure or a stop.
    tasks: JoinSet<Result<()>>,
    grace: Duration,
}

impl Service {
    /// Starts the service on an open storage. Fails if documents cannot be stored or mails cannot
    /// be handed over. When it returns, the service accepts requests.
    pub async fn start(settings: &Settings, machine: &Machine, storage: Storage) -> Result<Self> {
        let api_listener = bind(settings.listen, "--listen (NOTARY_ORDERS_LISTEN)")?;
        let ops_listener = bind(settings.ops_listen, "--ops-listen (NOTARY_ORDERS_OPS_LISTEN)")?;
        let (api_address, ops_address) = (api_listener.local_addr()?, ops_listener.local_addr()?);
        let grace = Duration::from_secs(settings.shutdown_grace_secs.into());

        let Parts { api, ops, workers } = Parts::assemble(settings, machine, storage).await?;
        let api_server = adapter_http::serve_api(
            api_listener.try_clone()?,
            api.clone(),
            capacity(settings),
            grace,
        )?;
        let ops_server = adapter_http::serve_ops(ops_listener, ops.clone())?;
        let (api_handle, ops_handle) = (api_server.handle(), ops_server.handle());
        let workers_stop = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(run(api_server));
        tasks.spawn(run(ops_server));
        workers.spawn(&mut tasks, &workers_stop);
        tracing::info!(api = %api_address, ops = %ops_address, "listening");
        Ok(Self {
            api_address,
            ops_address,
            api,
            ops,
            api_listener,
            api_server: api_handle,
            ops_server: ops_handle,
            workers_stop,
            tasks,
            grace,
        })
    }

    /// Waits until a server or worker fails. Returns its error.
    pub async fn failed(&mut self) -> Error {
        match self.tasks.join_next().await {
            Some(Ok(Err(error))) => error,
            // The message of a panic may quote an order. The log has its location.
            Some(Err(_)) => anyhow!("a part of the service panicked"),
            Some(Ok(Ok(()))) | None => anyhow!("a part of the service ended"),
        }
    }

    /// Stops gracefully, within the grace period. Reports that it is not ready, accepts no more
    /// connections, finishes the requests in progress, and settles the leased deliveries.
    pub async fn stop(mut self) {
        tracing::info!("stopping");
        let deadline = Instant::now() + self.grace;
        self.ops.stop();
        if let Err(error) = adapter_http::stop_accepting(&self.api_listener) {
            tracing::warn!(%error, "connections that open during the stop may be reset");
        }
        self.api.connections.close(self.grace.min(CLOSE_TIMEOUT)).await;
        // The server has a copy of the listener. The port closes when both are dropped.
        drop(self.api_listener);
        self.api_server.stop(true).await;
        if timeout_at(deadline, self.api.detached.finish()).await.is_err() {
            tracing::warn!("orders with documents were in progress when the grace period ended");
        }
        self.workers_stop.cancel();
        self.ops_server.stop(false).await;
        let workers_ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout_at(deadline, workers_ended).await.is_err() {
            tracing::warn!(
                "mails were being delivered when the grace period ended; they will be sent again"
            );
        }
        tracing::info!("stopped");
    }
}

fn bind(address: SocketAddr, setting: &str) -> Result<TcpListener> {
    listen::listen(address).with_context(|| format!("{setting}: {address}"))
}

fn capacity(settings: &Settings) -> Capacity {
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    let connections = listen::max_connections(settings.database_connections);
    Capacity { workers, connections_per_worker: (connections / workers).max(1) }
}

async fn run(server: Server) -> Result<()> {
    server.await.context("server")
}
