//! The two servers.

use std::{io, net::TcpListener, time::Duration};

use actix_web::{
    App, HttpServer,
    dev::Server,
    http::header,
    middleware::{DefaultHeaders, from_fn},
    web,
};

use crate::{
    api::{self, Api},
    connections, form,
    observe::observe,
    ops::{self, Ops},
};

/// Longest time from the first byte of a request's head to its last.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// How long a refused upload is still read and thrown away, so that its client gets to read the
/// answer.
const LINGER: Duration = Duration::from_secs(10);
/// Longer than the 60 s after which common load balancers drop an idle connection, so that it is
/// they who do.
const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// Threads of each worker that write the spool. They wait for the disk, which more of them do not
/// make faster, and each that allocates keeps memory.
const BLOCKING_THREADS: usize = 4;

/// How many threads serve how many clients.
#[derive(Debug, Clone, Copy)]
pub struct Crowd {
    /// Threads.
    pub workers: usize,
    /// Connections of each of them. Beyond those, clients wait to be accepted until others leave.
    pub connections: usize,
}

/// Serves the API until it is stopped; then finishes what runs, for at most `grace`.
pub fn serve_api(
    listener: TcpListener,
    api: web::Data<Api>,
    crowd: Crowd,
    grace: Duration,
) -> io::Result<Server> {
    let connected = api.clone();
    let server = HttpServer::new(move || {
        let observed = api.clone();
        let observe = from_fn(move |request, next| observe(observed.clone(), request, next));
        App::new()
            .app_data(api.clone())
            .app_data(form::parser_config())
            .wrap(observe)
            .configure(|config| api::routes(config, &api.base_path))
    });
    let server = server
        .workers(crowd.workers)
        .max_connections(crowd.connections)
        .on_connect(move |_, connection| connections::opened(&connected, connection))
        .worker_max_blocking_threads(BLOCKING_THREADS)
        .disable_signals()
        .shutdown_timeout(grace.as_secs())
        .client_request_timeout(HEAD_PATIENCE)
        .client_disconnect_timeout(LINGER)
        .keep_alive(KEEP_ALIVE)
        .listen(listener)?;
    Ok(server.run())
}

/// Serves operators until it is stopped.
pub fn serve_ops(listener: TcpListener, ops: web::Data<Ops>) -> io::Result<Server> {
    let server = HttpServer::new(move || {
        let headers = DefaultHeaders::new()
            .add((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .add((header::CACHE_CONTROL, "no-store"));
        App::new().app_data(ops.clone()).wrap(headers).configure(ops::routes)
    });
    Ok(server.workers(1).disable_signals().shutdown_timeout(1).listen(listener)?.run())
}
