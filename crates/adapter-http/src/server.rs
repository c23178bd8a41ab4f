//! Starts the two HTTP servers: the API and the operators' endpoints.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use actix_http::{HttpService, KeepAlive, Request};
use actix_server::GracefulShutdownSignal;
use actix_service::{
    IntoServiceFactory as _, Service, ServiceFactory as _, ServiceFactoryExt as _, fn_factory,
    fn_service, map_config,
};
use actix_web::{
    App, HttpServer,
    dev::{AppConfig, Server},
    http::{Version, header},
    middleware::{DefaultHeaders, from_fn},
    web,
};
use futures_util::{
    future::{Either, select},
    pending, poll,
};
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    sync::Semaphore,
    task::yield_now,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    authentication::delay_guess,
    connections::ConnectionTracker,
    exchange::{Exchange, HEAD_TIMEOUT, Phase},
    first_head::{self, CROWDED, FirstHead, NO_TLS},
    observe::observe,
    ops::Ops,
    routes,
    state::Api,
    stream::{Handshake, Stream},
    tls::Tls,
    transport::Transport,
};

/// Time for which the rest of a rejected body is discarded, so that its client can read the answer.
const LINGER: Duration = Duration::from_secs(10);

/// Time until the service closes its side of such a connection, so that a client that sends
/// rejected bodies without reading the answers cannot connect again and again.
const RECONNECT_DELAY: Duration = Duration::from_secs(2);

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
/// for at most `grace`.
pub fn serve_api(
    listener: TcpListener,
    api: web::Data<Api>,
    tls: Option<Arc<Tls>>,
    capacity: Capacity,
    grace: Duration,
) -> io::Result<Server> {
    let address = listener.local_addr()?;
    api.connections.expect_at_most(capacity.workers * capacity.connections_per_worker);
    let server = Server::build()
        .workers(capacity.workers)
        .max_concurrent_connections(capacity.connections_per_worker)
        .worker_max_blocking_threads(BLOCKING_THREADS)
        .disable_signals()
        .shutdown_timeout(grace.as_secs());
    let stopping = server.graceful_shutdown_signal();
    let server = server.listen("api", listener, move || {
        let (observed, of_connections) = (api.clone(), (api.clone(), tls.clone()));
        let observe = from_fn(move |request, next| observe(observed.clone(), request, next));
        let app = App::new()
            .app_data(api.clone())
            .wrap(observe)
            .configure(|config| routes::configure(config, &api.base_path))
            .into_factory()
            .map_err(|error: actix_web::Error| error.error_response());
        let (stopping, framework_stopping) = (stopping.clone(), stopping.clone());
        // The transport has the time limits of heads, idle connections and rejected bodies.
        let http = HttpService::build()
            .graceful_shutdown_signal(move || {
                let stopping = framework_stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(KeepAlive::Os)
            .client_request_timeout(Duration::ZERO)
            .client_disconnect_timeout(Duration::ZERO)
            .h1_write_buffer_size(WRITE_BUFFER)
            .local_addr(address)
            .expect(fn_service(keep_continue_back))
            .on_connect_ext(|transport: &Transport, data| {
                data.insert(transport.exchange());
            })
            .h1(map_config(app, |()| AppConfig::default()));
        fn_factory(move || {
            let (starting, (api, tls)) = (http.new_service(()), of_connections.clone());
            let (turns, stopping) = (Semaphore::new(1), stopping.clone());
            async move {
                let worker = Rc::new(Worker { http: starting.await?, turns, api, tls, stopping });
                Ok::<_, ()>(fn_service(move |tcp: TcpStream| {
                    // Boxed, because the framework holds the future twice.
                    Box::pin(serve(tcp, Rc::clone(&worker)))
                }))
            }
        })
    })?;
    Ok(server.run())
}

/// What the connections of a worker share.
struct Worker<H> {
    http: H,
    turns: Semaphore,
    api: web::Data<Api>,
    tls: Option<Arc<Tls>>,
    stopping: GracefulShutdownSignal,
}

/// Serves a connection until it ends.
async fn serve<H>(tcp: TcpStream, worker: Rc<Worker<H>>) -> Result<(), ()>
where
    H: Service<(Transport, Option<SocketAddr>), Response = ()>,
{
    let Worker { http, turns, api, tls, stopping } = &*worker;
    let connections = &api.connections;
    let _open = connections.opened();
    let peer = tcp.peer_addr().ok();
    // Otherwise the end of a download waits until the client has confirmed the bytes before it.
    let _ = tcp.set_nodelay(true);
    let deadline = Instant::now() + HEAD_TIMEOUT;
    let mut stream = match tls {
        None => Stream::Plain(tcp),
        Some(tls) => {
            let handshake = pin!(handshake(tcp, tls, connections, deadline, turns));
            match select(handshake, pin!(stopping.notified())).await {
                Either::Left((Some(stream), _)) => stream,
                _ => return Ok(()),
            }
        }
    };
    let received = {
        let receiving = pin!(first_head::receive(&mut stream, connections, deadline));
        match select(receiving, pin!(stopping.notified())).await {
            Either::Left((first, _)) => first,
            Either::Right(_) => None,
        }
    };
    let Some(FirstHead { bytes, units }) = received else {
        stream.close().await;
        return Ok(());
    };
    if let Some(peer) = peer {
        let delay = pin!(delay_guess(&bytes, peer.ip(), api));
        select(delay, pin!(stopping.notified())).await;
    }
    let exchange = Rc::new(Exchange::new(Arc::clone(connections)));
    if !exchange.serve().await {
        first_head::reject(&mut stream, CROWDED).await;
        return Ok(());
    }
    stream.first_head_taken();
    let transport = Transport::new(stream, bytes, Rc::clone(&exchange));
    // The framework takes the bytes at once.
    drop(units);
    // Boxed, because a connection that the framework does not serve must be small.
    let serving = Box::pin(http.call((transport, peer)));
    let ended = in_turns(serving, || exchange.succeeded(), turns).await;
    exchange.served();
    if let Some(stream) = exchange.take_stream() {
        end(stream, exchange.phase(), stopping).await;
    }
    ended.map_err(drop)
}

/// Waits for the TLS handshake of a client; returns its connection. Handshakes are much work, so
/// they have turns.
async fn handshake(
    tcp: TcpStream,
    tls: &Tls,
    connections: &Arc<ConnectionTracker>,
    deadline: Instant,
    turns: &Semaphore,
) -> Option<Stream> {
    // Boxed, because other connections have no handshake.
    let handshake = Box::pin(Stream::handshake(tcp, tls.current(), Arc::clone(connections)));
    match timeout_at(deadline, in_turns(handshake, || false, turns)).await {
        Ok(Handshake::Done(stream)) => return Some(stream),
        Ok(Handshake::Plain(tcp)) => {
            tls.failed(&io::Error::other("the client does not speak TLS"));
            first_head::reject(&mut Stream::Plain(tcp), NO_TLS).await;
        }
        Ok(Handshake::Gone) => {}
        Ok(Handshake::Failed(error)) => tls.failed(&error),
        Err(elapsed) => tls.failed(&elapsed.into()),
    }
    None
}

/// Ends a connection that the framework no longer serves. If the rest of a body was not read,
/// discards it first, so that the client can read the answer.
async fn end(mut stream: Stream, phase: Phase, stopping: &GracefulShutdownSignal) {
    if phase != Phase::Rest {
        stream.close().await;
        return;
    }
    let rest = pin!(async {
        first_head::discard_rest(stream.tcp(), RECONNECT_DELAY).await;
        let _ = timeout(LINGER, stream.shutdown()).await;
        first_head::discard_rest(stream.tcp(), LINGER).await;
    });
    select(rest, pin!(stopping.notified())).await;
}

/// Polls a connection in turn with the others of its worker, unless its last request succeeded. So
/// a client that creates orders does not wait for thousands of hostile connections.
async fn in_turns<F: Future + Unpin>(
    mut serving: F,
    succeeded: impl Fn() -> bool,
    turns: &Semaphore,
) -> F::Output {
    loop {
        let polled = if succeeded() {
            poll!(&mut serving)
        } else {
            let _turn = turns.acquire().await;
            // Lets the worker look for events of the other connections.
            yield_now().await;
            poll!(&mut serving)
        };
        match polled {
            Poll::Ready(ended) => return ended,
            Poll::Pending => pending!(),
        }
    }
}

/// Lets the transport keep `100 Continue` back until a request reads its body. HTTP/1.0 has none.
async fn keep_continue_back(request: Request) -> Result<Request, actix_http::Error> {
    if let Some(exchange) = request.conn_data::<Rc<Exchange>>() {
        exchange.keep_interim_back(request.version() < Version::HTTP_11);
    }
    Ok(request)
}

/// Serves the operators' endpoints until it is stopped.
pub fn serve_ops(listener: TcpListener, ops: web::Data<Ops>) -> io::Result<Server> {
    let server = HttpServer::new(move || {
        let headers = DefaultHeaders::new()
            .add((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
            .add((header::CACHE_CONTROL, "no-store"));
        App::new().app_data(ops.clone()).wrap(headers).configure(routes::configure_ops)
    });
    Ok(server.workers(1).disable_signals().shutdown_timeout(1).listen(listener)?.run())
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use actix_web::http::StatusCode;

    use super::*;

    #[tokio::test]
    async fn connection_without_success_waits_for_its_turn() {
        let exchange = || Exchange::new(Arc::default());
        let (hostile, client, turns) = (exchange(), exchange(), Semaphore::new(1));
        client.note_status(StatusCode::OK);
        let turn = turns.acquire().await.unwrap();
        let mut waiting = pin!(in_turns(ready(1), || hostile.succeeded(), &turns));

        assert_eq!(poll!(waiting.as_mut()), Poll::Pending);
        assert_eq!(in_turns(ready(2), || client.succeeded(), &turns).await, 2);
        drop(turn);
        assert_eq!(waiting.await, 1);
    }
}
