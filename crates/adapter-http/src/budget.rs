//! The disk space that the uploads of all requests in progress share.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use actix_web::{HttpMessage as _, HttpRequest};
use domain::api_key::ApiKeyId;

use crate::{
    problem::{Problem, ProblemCode},
    request_notes::OverConcurrencyLimit,
};

/// Retry delay for a client when permits or disk are used up. Slow requests end within half a minute.
const RETRY_SECONDS: u64 = 5;

/// There are no bytes for this request now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UsedUp;

/// Limits the bytes that all uploads hold together. Those of one API key hold at most half of it, so
/// that one client cannot shut out the others.
#[derive(Debug)]
pub struct Budget {
    limit: u64,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    total: u64,
    by_key: HashMap<ApiKeyId, u64>,
}

impl Budget {
    /// Creates a budget of so many bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: Mutex::default() })
    }

    /// Returns how many bytes all requests hold.
    pub(crate) fn used(&self) -> u64 {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// Starts the share of an upload.
    pub fn share(self: &Arc<Self>, key: ApiKeyId) -> Share {
        Share { budget: Arc::clone(self), key, held: 0 }
    }
}

/// The bytes that an upload holds. They return to the budget when the share is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    key: ApiKeyId,
    held: u64,
}

impl Share {
    /// Takes bytes from the budget.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), UsedUp> {
        let (limit, bytes) = (self.budget.limit, bytes as u64);
        let mut used = self.budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = used.by_key.get(&self.key).copied().unwrap_or(0);
        if used.total + bytes > limit || of_key + bytes > limit / 2 {
            return Err(UsedUp);
        }
        used.total += bytes;
        used.by_key.insert(self.key, of_key + bytes);
        self.held += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.held == 0 {
            return;
        }
        let mut used = self.budget.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.total -= self.held;
        if let Some(of_key) = used.by_key.get_mut(&self.key) {
            *of_key -= self.held;
            if *of_key == 0 {
                used.by_key.remove(&self.key);
            }
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
    use super::*;

    const KIB: usize = 1024;
    const LIMIT: u64 = 1024 * 1024;

    fn share(budget: &Arc<Budget>, key: i64) -> Share {
        budget.share(ApiKeyId(key))
    }

    #[test]
    fn key_holds_at_most_half() {
        let budget = Budget::new(LIMIT);
        let mut first = share(&budget, 1);
        assert_eq!(first.take(512 * KIB), Ok(()));
        assert_eq!(first.take(1), Err(UsedUp));
        assert_eq!(share(&budget, 1).take(1), Err(UsedUp));
        assert_eq!(share(&budget, 2).take(256 * KIB), Ok(()));
    }

    #[test]
    fn dropped_share_returns_its_bytes() {
        let budget = Budget::new(LIMIT);
        let mut first = share(&budget, 1);
        first.take(200 * KIB).unwrap();
        first.take(100 * KIB).unwrap();
        drop(first);
        let used = budget.used.lock().unwrap();
        assert_eq!((used.total, used.by_key.len()), (0, 0));
    }
}
