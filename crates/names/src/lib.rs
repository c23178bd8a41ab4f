//! Names of hosts, resolved by threads of their own, and words for failures of TLS.
//!
//! The resolver of the system blocks, for half a minute if no name server answers. The threads for
//! blocking work are few: on them it would hold up uploads and mails.

mod tls;

pub use tls::{is_invalid_certificate, tls_failure};

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    sync::Arc,
    thread,
};

use tokio::sync::{Semaphore, oneshot};

/// Asks the resolver of the system on a new thread. A dropped call leaves its thread, which keeps
/// what `ask` owns until the system answers.
pub async fn on_thread<T: Send + 'static>(
    ask: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let (answer, answered) = oneshot::channel();
    thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        // An error means that the call was dropped.
        let _ = answer.send(ask());
    })?;
    answered.await.map_err(io::Error::other)?
}

/// Finds the addresses of `HOST:PORT`. Takes a permit, which is kept until the system answers.
///
/// # Errors
/// The name has no address now, or no thread can be started.
pub async fn addresses(permits: &Arc<Semaphore>, server: String) -> io::Result<Vec<SocketAddr>> {
    // The semaphore is never closed.
    let permit = Arc::clone(permits).acquire_owned().await;
    on_thread(move || {
        let _permit = permit;
        Ok(server.to_socket_addrs()?.collect())
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use tokio::{task::spawn_blocking, time::timeout};

    use super::*;

    #[test]
    fn dead_resolver_holds_up_no_blocking_work() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let (name_server, dead) = mpsc::channel::<()>();
        runtime.block_on(async {
            let ask = on_thread(move || dead.recv().map_err(io::Error::other));
            // The thread has begun, and waits for as long as the test runs.
            timeout(Duration::ZERO, ask).await.unwrap_err();
            timeout(Duration::from_mins(1), spawn_blocking(|| {})).await.unwrap().unwrap();
        });
        drop(name_server);
    }
}
