//! Permits, of which calls hold some at the same time. A permit is free again when it is dropped.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use domain::api_key::Party;
use tokio::sync::{AcquireError, Semaphore};

/// A number of permits. A client or a signing service has at most a part of them, whatever keys it uses, so
/// that it cannot shut out the others.
#[derive(Debug)]
pub struct Permits {
    all: Arc<Semaphore>,
    max: usize,
    of_client: usize,
    /// Has an entry for each one that has taken permits, which are few.
    parties: Mutex<HashMap<Party, Arc<Semaphore>>>,
}

impl Permits {
    /// Permits `max`, of which a client has at most `of_client`. If these are all, clients take turns.
    pub fn new(max: usize, of_client: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        let all = Arc::new(Semaphore::new(max));
        Self { all, max, of_client: of_client.min(max), parties: Mutex::default() }
    }

    /// Returns the number of permits that are taken.
    pub fn used(&self) -> usize {
        self.max - self.all.available_permits()
    }

    /// Returns the share of a client, without permits yet.
    pub fn of(&self, party: Party) -> Share {
        let mut parties = self.parties.lock().unwrap_or_else(PoisonError::into_inner);
        let of_client = || Arc::new(Semaphore::new(self.of_client));
        self.share(Arc::clone(parties.entry(party).or_insert_with(of_client)))
    }

    /// Returns the share of a call for no client, such as that of a worker, without permits yet.
    pub fn of_no_client(&self) -> Share {
        self.share(Arc::new(Semaphore::new(self.max)))
    }

    fn share(&self, of_client: Arc<Semaphore>) -> Share {
        Share { all: Arc::clone(&self.all), of_client, count: 0 }
    }
}

/// Permits of a client. They are free again when this is dropped.
#[derive(Debug)]
pub struct Share {
    all: Arc<Semaphore>,
    of_client: Arc<Semaphore>,
    count: usize,
}

impl Share {
    /// Returns the number of permits that it has.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Takes permits, if there are so many.
    pub fn try_take(&mut self, count: usize) -> bool {
        let Ok(many) = u32::try_from(count) else { return false };
        let Ok(of_client) = self.of_client.try_acquire_many(many) else { return false };
        let Ok(of_all) = self.all.try_acquire_many(many) else { return false };
        of_client.forget();
        of_all.forget();
        self.count += count;
        true
    }

    /// Waits for a permit. Waiting calls of one client do not stand before those of another.
    ///
    /// # Errors
    /// Never: the permits are not closed.
    pub async fn take(&mut self) -> Result<(), AcquireError> {
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
    use domain::api_key::ClientId;

    use super::*;

    fn client(number: i64) -> Party {
        Party::Client(ClientId(number))
    }

    #[test]
    fn client_leaves_its_rest_to_others() {
        let permits = Permits::new(4, 2);
        let [mut first, mut same, mut other] = [1, 1, 2].map(|number| permits.of(client(number)));
        assert!(first.try_take(2) && !same.try_take(1) && other.try_take(2));
        assert_eq!((permits.used(), first.count(), same.count()), (4, 2, 0));
        drop(first);
        assert!(same.try_take(1));
    }

    #[test]
    fn calls_for_no_client_use_what_is_free() {
        let permits = Permits::new(4, 2);
        let (mut client, mut worker) = (permits.of(client(1)), permits.of_no_client());
        assert!(client.try_take(1) && !worker.try_take(4) && worker.try_take(3));
        drop(worker);
        assert_eq!(permits.used(), 1);
    }
}
