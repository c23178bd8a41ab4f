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

/// Time limit of a check.
const CHECK_TIME_LIMIT: Duration = Duration::from_secs(2);

/// Scans documents with clamd. Each scan has a connection of its own.
#[derive(Debug)]
pub struct Clamd {
    address: Address,
    lookups: Arc<Semaphore>,
    connections: Semaphore,
    time_limit: Duration,
}

impl Clamd {
    /// Opens the scanner at a URL: `unix:///PATH` or `tcp://HOST:PORT`. Connects only for a scan.
    pub fn open(url: &str) -> Result<Self, InvalidUrl> {
        Ok(Self {
            address: url.parse()?,
            lookups: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            connections: Semaphore::new(MAX_CONNECTIONS),
            time_limit: SCAN_TIME_LIMIT.unsigned_abs(),
        })
    }

    #[cfg(test)]
    pub(crate) fn with_time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
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
        timeout(self.time_limit, scan).await.unwrap_or_else(|_| Err(timed_out().into()))
    }

    /// Needs no permit: it tells whether clamd answers, even while scans wait.
    async fn check(&self) -> Result<(), ScanError> {
        let time_limit = CHECK_TIME_LIMIT.min(self.time_limit);
        let check = async { exchange::ping(self.address.connect(&self.lookups).await?).await };
        Ok(timeout(time_limit, check).await.unwrap_or_else(|_| Err(timed_out()))?)
    }
}
