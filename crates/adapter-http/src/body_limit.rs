//! Limits how many bodies are received at the same time.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::{HttpMessage as _, HttpRequest};
use domain::api_key::ApiKeyId;
use tokio::{
    sync::{AcquireError, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use crate::{
    problem::{Problem, ProblemCode},
    request_notes::OverConcurrencyLimit,
};

/// Longest wait for a permit.
const WAIT: Duration = Duration::from_secs(5);
/// Retry delay for a client when permits or disk are used up. Slow requests end within half a
/// minute.
const RETRY_SECONDS: u64 = 5;

/// Permits to receive bodies. A key has at most a quarter of them, so that the slow bodies of one
/// key cannot shut out the others.
#[derive(Debug)]
pub struct BodyLimit {
    all: Arc<Semaphore>,
    of_key: usize,
    /// Has an entry for each key that has sent a body, which are few.
    keys: Mutex<HashMap<ApiKeyId, Arc<Semaphore>>>,
}

/// A permit to receive a body. It is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct BodyPermit {
    _of_key: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// The limit of JSON bodies. They hold at most 64 MiB.
impl Default for BodyLimit {
    fn default() -> Self {
        Self::new(256)
    }
}

impl BodyLimit {
    /// Permits `max` bodies at the same time.
    pub fn new(max: usize) -> Self {
        let all = Arc::new(Semaphore::new(max));
        Self { all, of_key: max.div_ceil(4), keys: Mutex::default() }
    }

    /// Returns the number of bodies that are being received.
    pub(crate) fn used(&self) -> usize {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.values().map(|key| self.of_key - key.available_permits()).sum()
    }

    /// Waits for a permit, for at most five seconds. Call it before the body is read.
    pub(crate) async fn acquire(
        &self,
        request: &HttpRequest,
        key: ApiKeyId,
    ) -> Result<BodyPermit, Problem> {
        let keys = || self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = || Arc::new(Semaphore::new(self.of_key));
        let of_key = Arc::clone(keys().entry(key).or_insert_with(of_key));
        let acquire = async {
            let of_key = of_key.acquire_owned().await?;
            let of_all = Arc::clone(&self.all).acquire_owned().await?;
            Ok::<_, AcquireError>(BodyPermit { _of_key: of_key, _of_all: of_all })
        };
        match timeout(WAIT, acquire).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(used_up(request)),
        }
    }
}

/// Returns the problem of a request that there is no permit or disk for. It is counted and not logged,
/// like a request above the concurrency limit.
pub(crate) fn used_up(request: &HttpRequest) -> Problem {
    request.extensions_mut().insert(OverConcurrencyLimit);
    let detail = "The service holds as many unfinished requests as it can. The order was not \
        created; retry after the given delay.";
    Problem::new(ProblemCode::Unavailable, detail).retry_after(RETRY_SECONDS)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use futures_util::future::join_all;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn key_has_at_most_a_quarter() {
        let (limit, request) = (BodyLimit::new(8), TestRequest::default().to_http_request());
        let acquire = |key| limit.acquire(&request, ApiKeyId(key));
        let held = [acquire(1).await.unwrap(), acquire(1).await.unwrap()];
        let started = Instant::now();
        assert!(acquire(1).await.is_err());
        assert_eq!(started.elapsed(), WAIT);
        acquire(2).await.unwrap();
        drop(held);
        acquire(1).await.unwrap();
        assert_eq!(limit.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn all_keys_share_the_limit() {
        let (limit, request) = (BodyLimit::new(4), TestRequest::default().to_http_request());
        let acquire = |key| limit.acquire(&request, ApiKeyId(key));
        let held = join_all((1..=4).map(acquire)).await;
        assert!(held.iter().all(Result::is_ok) && limit.used() == 4);
        assert!(acquire(5).await.is_err());
        drop(held);
        acquire(5).await.unwrap();
    }
}
