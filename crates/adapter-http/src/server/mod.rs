//! Starts the two HTTP servers: the API and the operators' endpoints.

use std::{
    future::ready,
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

use actix_http::{HttpService, Protocol, Request, error::DispatchError};
use actix_server::GracefulShutdownSignal;
use actix_service::{IntoServiceFactory, ServiceFactoryExt as _, map_config};
use actix_tls::accept::{
    TlsError, max_concurrent_tls_connect,
    rustls_0_23::{Acceptor, TlsStream},
};
use actix_web::{
    App, Error, HttpServer,
    body::{BodySize, MessageBody},
    dev::{AppConfig, Server, ServiceFactory, ServiceRequest, ServiceResponse, fn_service},
    http::{ConnectionType, Version, header},
    middleware::{DefaultHeaders, Next, from_fn},
    rt::net::TcpStream,
    web,
};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    guard::{Connections, KEEP_ALIVE},
    observe::observe,
    ops::Ops,
    routes,
    server::{gated::Gated, tls::Tls},
    state::Api,
};

/// Time limit for a TLS handshake, and then for the first head of a connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which the rest of a rejected body is discarded, so that its client can read the answer.
const LINGER: Duration = Duration::from_secs(10);

/// Bytes of an answer that wait for a client to read. Answers of orders are smaller.
const WRITE_BUFFER: usize = 8 * 1024;

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

/// Serves the API until it is stopped, with TLS or without. Then finishes the requests in progress,
/// for at most `grace`. Call it in a Tokio runtime.
///
/// This is what `actix_web::HttpServer` does, with a gate below: it has no way to put one there.
pub fn serve_api(
    listener: TcpListener,
    api: web::Data<Api>,
    tls: Option<Arc<Tls>>,
    capacity: Capacity,
    grace: Duration,
) -> io::Result<Server> {
    let server = Server::build()
        .workers(capacity.workers)
        .max_concurrent_connections(capacity.connections_per_worker)
        .worker_max_blocking_threads(BLOCKING_THREADS)
        .disable_signals()
        .shutdown_timeout(whole_seconds(grace));
    let stop = server.graceful_shutdown_signal();
    let name = "api";
    let server = match tls {
        None => server.listen(name, listener, move || {
            let connections = Arc::clone(&api.connections);
            let accept = move |tcp: TcpStream| {
                ready(Ok::<_, DispatchError>(gated(tcp, |tcp| tcp, &connections)))
            };
            fn_service(accept).and_then(http_service(&api, stop.clone()))
        })?,
        Some(tls) => {
            // Unfinished handshakes must not keep other clients waiting.
            max_concurrent_tls_connect(capacity.connections_per_worker);
            let mut acceptor = Acceptor::new(Arc::clone(&tls).config()?);
            acceptor.set_handshake_timeout(HEAD_TIMEOUT);
            server.listen(name, listener, move || {
                let (connections, tls) = (Arc::clone(&api.connections), Arc::clone(&tls));
                let accept = move |stream: TlsStream<TcpStream>| {
                    tls.completed.inc();
                    let gated = gated(stream, |stream| stream.get_ref().0, &connections);
                    ready(Ok::<_, TlsError<io::Error, DispatchError>>(gated))
                };
                let http = http_service(&api, stop.clone()).map_err(TlsError::Service);
                acceptor
                    .clone()
                    .map_err(TlsError::into_service_error)
                    .and_then(accept)
                    .and_then(http)
            })?
        }
    };
    Ok(server.run())
}

/// A connection as actix takes it.
type Accepted<Io> = (Gated<Io>, Protocol, Option<SocketAddr>);

/// Guards an accepted connection.
fn gated<Io: AsyncRead + Unpin>(
    io: Io,
    tcp: impl Fn(&Io) -> &TcpStream,
    connections: &Arc<Connections>,
) -> Accepted<Io> {
    let socket = tcp(&io);
    // Otherwise the end of a download waits until the client has confirmed the bytes before it. A failure only
    // makes it slower.
    let _ = socket.set_nodelay(true);
    let (peer, connection) = (socket.peer_addr().ok(), connections.accept(socket));
    (Gated::new(io, connection, connections), Protocol::Http1, peer)
}

/// Returns what serves connections, until `stop` begins.
fn http_service<Io: AsyncRead + AsyncWrite + Unpin + 'static>(
    api: &web::Data<Api>,
    stop: GracefulShutdownSignal,
) -> impl ServiceFactory<Accepted<Io>, Config = (), Response = (), Error = DispatchError, InitError = ()>
+ use<Io> {
    let (api, observed) = (api.clone(), api.clone());
    let app = App::new()
        .app_data(api.clone())
        .wrap(from_fn(move |request, next| observe(observed.clone(), request, next)))
        .wrap(from_fn(no_chunks_before_1_1))
        .configure(|config| routes::configure(config, &api.base_path, api.has_console));
    let app = IntoServiceFactory::<_, Request>::into_factory(app);
    let app = app.map_err(|error: Error| error.error_response());
    HttpService::build()
        .graceful_shutdown_signal(move || {
            let stop = stop.clone();
            async move { stop.notified().await }
        })
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(HEAD_TIMEOUT)
        .client_disconnect_timeout(LINGER)
        .h1_write_buffer_size(WRITE_BUFFER)
        .on_connect_ext(|io: &Gated<Io>, data| {
            data.insert(Arc::clone(&io.connection));
        })
        .finish(map_config(app, |()| AppConfig::default()))
}

/// Rounds up: a shorter time would cut requests in progress off.
fn whole_seconds(grace: Duration) -> u64 {
    grace.as_secs() + u64::from(grace.subsec_nanos() > 0)
}

/// Serves the operators' endpoints until it is stopped.
pub fn serve_ops(listener: TcpListener, ops: web::Data<Ops>) -> io::Result<Server> {
    let server = HttpServer::new(move || {
        let headers = DefaultHeaders::new()
            .add((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .add((header::CACHE_CONTROL, "no-store"));
        let close = from_fn(close_after_upgrade);
        App::new().app_data(ops.clone()).wrap(headers).wrap(close).configure(routes::configure_ops)
    });
    Ok(server.workers(1).disable_signals().shutdown_timeout(1).listen(listener)?.run())
}

/// Sends a body of unknown length to a client of HTTP/1.0 without chunks, which such a client does not
/// know (RFC 9112, section 6.1): the end of the connection is the end of the body.
async fn no_chunks_before_1_1(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let is_old = request.version() < Version::HTTP_11;
    let mut response = next.call(request).await?;
    if is_old && response.response().body().size() == BodySize::Stream {
        let head = response.response_mut().head_mut();
        head.no_chunking(true);
        head.set_connection_type(ConnectionType::Close);
    }
    Ok(response)
}

/// Closes the connection of a client that offers another protocol. actix itself would answer
/// `connection: upgrade`.
async fn close_after_upgrade(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let must_close = request.head().upgrade();
    let mut response = next.call(request).await?;
    if must_close {
        response.response_mut().head_mut().set_connection_type(ConnectionType::Close);
    }
    Ok(response)
}

mod gated;
pub(crate) mod tls;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grace_is_rounded_up_to_whole_seconds() {
        let rounded = [0, 1, 999, 1_000, 1_001].map(|at| whole_seconds(Duration::from_millis(at)));
        assert_eq!(rounded, [0, 1, 1, 1, 2]);
    }
}
