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
use tokio::{io::AsyncWriteExt as _, net::TcpStream, sync::Semaphore, task::yield_now};

use crate::{
    authentication::delay_guess,
    exchange::{Exchange, Phase},
    first_head::{self, CROWDED, FirstHead},
    observe::observe,
    ops::Ops,
    routes,
    state::Api,
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

/// Serves the API until it is stopped. Then finishes the requests in progress, for at most `grace`.
pub fn serve_api(
    listener: TcpListener,
    api: web::Data<Api>,
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
        let (observed, of_connections) = (api.clone(), api.clone());
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
            let (starting, api) = (http.new_service(()), of_connections.clone());
            let (turns, stopping) = (Rc::new(Semaphore::new(1)), stopping.clone());
            async move {
                let http = Rc::new(starting.await?);
                Ok::<_, ()>(fn_service(move |stream: TcpStream| {
                    let (http, turns) = (Rc::clone(&http), Rc::clone(&turns));
                    // Boxed, because the framework holds the future twice.
                    Box::pin(serve(stream, http, turns, api.clone(), stopping.clone()))
                }))
            }
        })
    })?;
    Ok(server.run())
}

/// Serves a connection until it ends. `turns` are those of its worker.
async fn serve<H>(
    mut stream: TcpStream,
    http: Rc<H>,
    turns: Rc<Semaphore>,
    api: web::Data<Api>,
    stopping: GracefulShutdownSignal,
) -> Result<(), ()>
where
    H: Service<(Transport, Option<SocketAddr>), Response = ()>,
{
    let connections = &api.connections;
    let _open = connections.opened();
    let peer = stream.peer_addr().ok();
    // Otherwise the end of a download waits until the client has confirmed the bytes before it.
    let _ = stream.set_nodelay(true);
    let FirstHead { bytes, units } = {
        let receiving = pin!(first_head::receive(&mut stream, connections));
        match select(receiving, pin!(stopping.notified())).await {
            Either::Left((Some(first), _)) => first,
            _ => return Ok(()),
        }
    };
    if let Some(peer) = peer {
        let delay = pin!(delay_guess(&bytes, peer.ip(), &api));
        select(delay, pin!(stopping.notified())).await;
    }
    let exchange = Rc::new(Exchange::new(Arc::clone(connections)));
    if !exchange.serve().await {
        first_head::reject(&mut stream, CROWDED).await;
        return Ok(());
    }
    let transport = Transport::new(stream, bytes, Rc::clone(&exchange));
    // The framework takes the bytes at once.
    drop(units);
    // Boxed, because a connection that the framework does not serve must be small.
    let ended = in_turns(Box::pin(http.call((transport, peer))), &exchange, &turns).await;
    exchange.served();
    if let (Some(mut stream), Phase::Rest) = (exchange.take_ended(), exchange.phase()) {
        let rest = pin!(async {
            first_head::discard_rest(&stream, RECONNECT_DELAY).await;
            let _ = stream.shutdown().await;
            first_head::discard_rest(&stream, LINGER).await;
        });
        select(rest, pin!(stopping.notified())).await;
    }
    ended.map_err(drop)
}

/// Polls a connection in turn with the others of its worker, unless its last request succeeded. So
/// a client that creates orders does not wait for thousands of hostile connections.
async fn in_turns<F: Future + Unpin>(
    mut serving: F,
    exchange: &Exchange,
    turns: &Semaphore,
) -> F::Output {
    loop {
        let polled = if exchange.succeeded() {
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
        let mut waiting = pin!(in_turns(ready(1), &hostile, &turns));

        assert_eq!(poll!(waiting.as_mut()), Poll::Pending);
        assert_eq!(in_turns(ready(2), &client, &turns).await, 2);
        drop(turn);
        assert_eq!(waiting.await, 1);
    }
}
