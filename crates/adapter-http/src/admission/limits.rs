//! Limits of what requests hold at the same time.

use std::time::Duration;

use actix_web::{HttpMessage as _, HttpRequest};
use domain::api_key::Party;
use permits::Permits;
pub(crate) use permits::Share;
use tokio::time::timeout;

use crate::{
    request::notes::note,
    respond::problem::{Problem, ProblemCode},
};

/// Number of JSON bodies that are received at the same time. They hold at most 64 MiB.
pub const JSON_BODIES: usize = 256;
/// Number of JSON answers with records, to reads and changes, that are made and sent at the same time.
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

/// Permits for requests. A client has a part of them.
#[derive(Debug)]
pub struct Shares(Permits);

impl Shares {
    /// Permits `max`, of which a client has at most `of_client`.
    pub fn new(max: usize, of_client: usize) -> Self {
        Self(Permits::new(max, of_client))
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
        self.0.used()
    }

    /// Returns the share of a client, without permits yet.
    pub(crate) fn of(&self, party: Party) -> Share {
        self.0.of(party)
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
