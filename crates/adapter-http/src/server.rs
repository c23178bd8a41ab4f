//! Starts the two HTTP servers: the API and the operators' endpoints.

use std::{io, net::TcpListener, sync::Arc, time::Duration};

use actix_web::{
    App, HttpServer,
    dev::Server,
    http::header,
    middleware::{DefaultHeaders, from_fn},
    web,
};

use crate::{
    form,
    observe::observe,
    ops::{self, Ops},
    routes,
    state::Api,
};

/// Time limit for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for which the rest of a rejected upload is read and discarded, so that its client can read
/// the answer.
const LINGER: Duration = Duration::from_secs(10);
/// Longer than the 60 s of common load balancers, so that the balancer closes idle connections and
/// never sends a request into a closing one.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Threads of each worker that write the spool. They wait for the disk, so more threads would only
/// need more memory.
const BLOCKING_THREADS: usize = 4;

/// The capacity of the API server.
#[derive(Debug, Clone, Copy)]
pub struct Capacity {
    /// Number of worker threads.
    pub workers: usize,
    /// Connections per worker. Further clients wait in the backlog.
    pub connections_per_worker: usize,
}

/// Serves the API until it is stopped. Then finishes the requests in progress, for at most `grace`.
pub fn serve_api(
    listener: TcpListener,
    api: web::Data<Api>,
    capacity: Capacity,
    grace: Duration,
) -> io::Result<Server> {
    let connections = Arc::clone(&api.connections);
    let server = HttpServer::new(move || {
        let observed = api.clone();
        let observe = from_fn(move |request, next| observe(observed.clone(), request, next));
        App::new()
            .app_data(api.clone())
            .app_data(form::parser_config())
            .wrap(observe)
            .configure(|config| routes::configure(config, &api.base_path))
    });
    let server = server
        .workers(capacity.workers)
        .max_connections(capacity.connections_per_worker)
        .on_connect(move |_, connection| connections.opened(connection))
        .worker_max_blocking_threads(BLOCKING_THREADS)
        .disable_signals()
        .shutdown_timeout(grace.as_secs())
        .client_request_timeout(HEAD_TIMEOUT)
        .client_disconnect_timeout(LINGER)
        .keep_alive(KEEP_ALIVE)
        .listen(listener)?;
    Ok(server.run())
}

/// Serves the operators' endpoints until it is stopped.
pub fn serve_ops(listener: TcpListener, ops: web::Data<Ops>) -> io::Result<Server> {
    let server = HttpServer::new(move || {
        let headers = DefaultHeaders::new()
            .add((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .add((header::CACHE_CONTROL, "no-store"));
        App::new().app_data(ops.clone()).wrap(headers).configure(ops::routes)
    });
    Ok(server.workers(1).disable_signals().shutdown_timeout(1).listen(listener)?.run())
}
