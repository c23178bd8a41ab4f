//! Limits of what requests hold at the same time. A permit is free again when it is dropped.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::{HttpMessage as _, HttpRequest};
use domain::api_key::Party;
use tokio::{
    sync::{AcquireError, Semaphore},
    time::timeout,
};

use crate::{
    request::notes::note,
    respond::problem::{Problem, ProblemCode},
};

/// Number of JSON bodies that are received at the same time. They hold at most 64 MiB.
pub const JSON_BODIES: usize = 256;
/// Number of JSON answers to reads that are made and sent at the same time.
pub const ANSWERS: usize = 256;
/// Number of documents and archives that are sent at the same time. Each holds a block of 256 KiB.
pub const DOWNLOADS: usize = 256;
/// Longest wait for a permit.
const WAIT: Duration = Duration::from_secs(5);
/// Retry delay for a client when permits or disk are used up. Slow requests end within half a
/// minute.
const RETRY_SECONDS: u64 = 5;
/// Retry delay at the concurrency limit. A permit becomes free within milliseconds.
const OVERLOADED_SECONDS: u64 = 1;

/// Returns the problem of a request that there is no permit or disk for.
pub(crate) fn used_up(request: &HttpRequest) -> Problem {
    let detail = "The service holds as many unfinished requests as it can. This one was not carried \
        out; retry after the given delay.";
    over_limit(request, detail, RETRY_SECONDS)
}

/// Reports a request above a limit. It is counted and not logged, because logging would increase the
/// overload.
fn over_limit(request: &HttpRequest, detail: &'static str, retry_seconds: u64) -> Problem {
    note(request, |notes| notes.is_over_limit = true);
    Problem::new(ProblemCode::Unavailable, detail).retry_after(retry_seconds)
}

/// A number of permits. A client or a signing service has at most a part of them, whatever keys it uses, so
/// that it cannot shut out the others.
#[derive(Debug)]
pub struct Shares {
    all: Arc<Semaphore>,
    max: usize,
    of_client: usize,
    /// Has an entry for each one that has taken permits, which are few.
    parties: Mutex<HashMap<Party, Arc<Semaphore>>>,
}

impl Shares {
    /// Permits `max`, of which a client has at most `of_client`.
    pub fn new(max: usize, of_client: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        let all = Arc::new(Semaphore::new(max));
        Self { all, max, of_client: of_client.min(max), parties: Mutex::default() }
    }

    /// Permits `max` bodies or answers at the same time. A client has at most a quarter of them.
    pub fn of_bodies(max: usize) -> Self {
        Self::new(max, max.div_ceil(4))
    }

    /// Permits `max` reads that walk through many orders at the same time. A client has at most half of them.
    /// If there is one only, clients take turns.
    pub fn of_walks(max: usize) -> Self {
        Self::new(max, max.div_ceil(2))
    }

    /// Returns the number of permits that are taken.
    pub(crate) fn used(&self) -> usize {
        self.max - self.all.available_permits()
    }

    /// Returns the share of a client, without permits yet.
    pub(crate) fn of(&self, party: Party) -> Share {
        let mut parties = self.parties.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = || Arc::new(Semaphore::new(self.of_client));
        let of_client = Arc::clone(parties.entry(party).or_insert_with(of_client));
        Share { all: Arc::clone(&self.all), of_client, count: 0 }
    }

    /// Waits for a permit, for at most five seconds. Call it before a body is read.
    pub(crate) async fn acquire(
        &self,
        request: &HttpRequest,
        party: Party,
    ) -> Result<Share, Problem> {
        let mut share = self.of(party);
        match timeout(WAIT, share.take()).await {
            Ok(Ok(())) => Ok(share),
            _ => Err(used_up(request)),
        }
    }

    /// Waits for a permit like [`Self::acquire`], and keeps it until the answer is sent.
    pub(crate) async fn hold(&self, request: &HttpRequest, party: Party) -> Result<(), Problem> {
        let share = self.acquire(request, party).await?;
        request.extensions_mut().insert(share);
        Ok(())
    }

    /// Returns a permit to create an order. At the limit the request is rejected at once instead of
    /// queueing, so that accepted requests are answered quickly under any load.
    pub(crate) fn acquire_now(
        &self,
        request: &HttpRequest,
        party: Party,
    ) -> Result<Share, Problem> {
        let detail = "The service is at its concurrency limit. The order was not created; \
            retry after the given delay.";
        let mut share = self.of(party);
        let taken = share.try_take(1).then_some(share);
        taken.ok_or_else(|| over_limit(request, detail, OVERLOADED_SECONDS))
    }
}

/// Permits of a client. They are free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    all: Arc<Semaphore>,
    of_client: Arc<Semaphore>,
    pub(crate) count: usize,
}

impl Share {
    /// Takes permits, if there are so many.
    pub(crate) fn try_take(&mut self, count: usize) -> bool {
        let Ok(many) = u32::try_from(count) else { return false };
        let Ok(of_client) = self.of_client.try_acquire_many(many) else { return false };
        let Ok(of_all) = self.all.try_acquire_many(many) else { return false };
        of_client.forget();
        of_all.forget();
        self.count += count;
        true
    }

    /// Waits for a permit.
    pub(crate) async fn take(&mut self) -> Result<(), AcquireError> {
        let of_client = self.of_client.acquire().await?;
        self.all.acquire().await?.forget();
        of_client.forget();
        self.count += 1;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.all.add_permits(self.count);
        self.of_client.add_permits(self.count);
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use domain::api_key::ClientId;
    use futures_util::future::join_all;
    use tokio::time::Instant;

    use super::*;

    fn client(number: i64) -> Party {
        Party::Client(ClientId(number))
    }

    #[tokio::test(start_paused = true)]
    async fn client_has_at_most_a_quarter() {
        let (limit, request) = (Shares::of_bodies(8), TestRequest::default().to_http_request());
        let acquire = |number| limit.acquire(&request, client(number));
        let held = [acquire(1).await.unwrap(), acquire(1).await.unwrap()];
        let started = Instant::now();
        assert!(acquire(1).await.is_err());
        assert_eq!(started.elapsed(), WAIT);
        acquire(2).await.unwrap();
        drop(held);
        acquire(1).await.unwrap();
        assert_eq!(limit.used(), 0);
    }

    /// The waiting requests of one client do not stand before those of another.
    #[tokio::test(start_paused = true)]
    async fn clients_take_turns() {
        let (limit, request) = (Shares::of_walks(1), TestRequest::default().to_http_request());
        let order = std::cell::RefCell::new(Vec::new());
        let walk = async |number| {
            let _held = limit.acquire(&request, client(number)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            order.borrow_mut().push(number);
        };
        join_all([1, 1, 1, 2, 3].map(walk)).await;
        assert_eq!(order.into_inner(), [1, 2, 3, 1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn all_clients_share_the_limit() {
        let (limit, request) = (Shares::of_bodies(4), TestRequest::default().to_http_request());
        let acquire = |number| limit.acquire(&request, client(number));
        let held = join_all((1..=4).map(acquire)).await;
        assert!(held.iter().all(Result::is_ok) && limit.used() == 4);
        assert!(acquire(5).await.is_err());
        drop(held);
        acquire(5).await.unwrap();
    }
}
