//! A TCP server that can be stopped and started again on the same port.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use tokio::{
    net::{TcpSocket, TcpStream},
    runtime::Runtime,
};

/// A server on 127.0.0.1 that stops when it is dropped.
pub(crate) struct Restartable {
    pub(crate) address: SocketAddr,
    /// Reserves the port while the server is stopped. The socket is bound but does not listen, so
    /// connections are refused.
    _port: TcpSocket,
    /// Separate from the test's runtime, so that the server answers while the test blocks.
    runtime: Mutex<Option<Runtime>>,
}

impl Restartable {
    pub(crate) fn new() -> Self {
        let port = TcpSocket::new_v4().unwrap();
        port.set_reuseaddr(true).unwrap();
        port.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self { address: port.local_addr().unwrap(), _port: port, runtime: Mutex::default() }
    }

    /// Accepts connections and runs `serve` for each.
    pub(crate) fn start<F>(&self, serve: impl Fn(TcpStream) -> F + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runtime = Runtime::new().unwrap();
        let began = Instant::now();
        let listener = loop {
            match TcpListener::bind(self.address) {
                Ok(listener) => break listener,
                // A process that another test starts has a copy of the listener before, until it
                // runs its program.
                Err(error) => assert!(began.elapsed() < Duration::from_mins(1), "{error}"),
            }
            thread::yield_now();
        };
        listener.set_nonblocking(true).unwrap();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(connection));
            }
        });
        *self.runtime.lock().unwrap() = Some(runtime);
    }

    /// Closes all connections and refuses new ones.
    pub(crate) fn stop(&self) {
        if let Some(runtime) = self.runtime.lock().unwrap().take() {
            // On a separate thread: one runtime cannot wait for another on its own threads.
            thread::spawn(|| runtime.shutdown_timeout(Duration::from_secs(10))).join().unwrap();
        }
    }
}

impl Drop for Restartable {
    fn drop(&mut self) {
        self.stop();
    }
}
