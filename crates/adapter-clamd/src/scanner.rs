//! One scan: its connection and its time limit.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use domain::{
    document::SpooledFile,
    ports::{DocumentScanner, SCAN_TIME_LIMIT, ScanError, Verdict},
};
use tokio::{sync::Semaphore, time::timeout};

use crate::{
    address::{Address, InvalidUrl},
    exchange,
    failure::Failure,
};

/// Greatest number of scans at the same time. clamd scans 10 files at the same time by default
/// (`MaxThreads`).
pub(crate) const MAX_CONNECTIONS: usize = 8;

/// How long the service waits for clamd. [`Default`] has the limits of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// A scan, with the wait for a connection.
    pub scan: Duration,
    /// A check. The readiness endpoint allows two seconds.
    pub check: Duration,
}

impl Default for TimeLimits {
    fn default() -> Self {
        Self { scan: SCAN_TIME_LIMIT.unsigned_abs(), check: Duration::from_secs(2) }
    }
}

/// Scans documents with clamd. Each scan has a connection of its own.
#[derive(Debug)]
pub struct Clamd {
    address: Address,
    lookups: Arc<Semaphore>,
    connections: Semaphore,
    limits: TimeLimits,
}

impl Clamd {
    /// Opens the scanner at a URL: `unix:///PATH` or `tcp://HOST:PORT`. Connects only for a scan.
    pub fn open(url: &str, limits: TimeLimits) -> Result<Self, InvalidUrl> {
        Ok(Self {
            address: url.parse()?,
            lookups: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            connections: Semaphore::new(MAX_CONNECTIONS),
            limits,
        })
    }
}

fn timed_out() -> Failure {
    Failure::Other("no answer in time".into())
}

#[async_trait]
impl DocumentScanner for Clamd {
    async fn scan(&self, file: &SpooledFile) -> Result<Verdict, ScanError> {
        let scan = async {
            // The semaphore is never closed.
            let _permit = self.connections.acquire().await;
            exchange::scan(self.address.connect(&self.lookups).await?, file).await
        };
        timeout(self.limits.scan, scan).await.unwrap_or_else(|_| Err(timed_out().into()))
    }

    /// Needs no permit: it tells whether clamd answers, even while scans wait.
    async fn check(&self) -> Result<(), ScanError> {
        let check = async { exchange::ping(self.address.connect(&self.lookups).await?).await };
        Ok(timeout(self.limits.check, check).await.unwrap_or_else(|_| Err(timed_out()))?)
    }
}
