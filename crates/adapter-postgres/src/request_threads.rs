//! The batches of each thread that serves requests.
//!
//! An HTTP worker has a runtime of one thread. It commits the orders of its own requests on
//! connections of its own, so that no order has to wake up another thread.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};

use group_commit::BatchObserver;
use sql_rows::PendingOrder;
use tokio::runtime::{Handle, Id, RuntimeFlavor};

use crate::{batch::Batches, connect::Server, pool::Pool, reads::Asked, uploads::Recorded};

/// Batches that a thread works on at the same time. While the server works on one, the thread
/// reads the requests of the next.
const LEADS_OF_A_THREAD: usize = 1;

/// Batches that all other threads work on at the same time: while the server works on one, the
/// next is prepared.
const LEADS_OF_THE_OTHERS: usize = 2;

/// Connections of a thread: a slow read does not hold up its orders.
const CONNECTIONS_OF_A_THREAD: usize = 2;

/// The calls that share statements.
pub(crate) struct CallBatches {
    pub(crate) orders: Batches<PendingOrder>,
    pub(crate) records: Batches<Recorded>,
    pub(crate) reads: Batches<Asked>,
}

impl CallBatches {
    fn new(pool: &Pool, leads: usize) -> Arc<Self> {
        Arc::new(Self {
            orders: Batches::new(pool.clone(), leads),
            records: Batches::new(pool.clone(), leads),
            reads: Batches::new(pool.clone(), leads),
        })
    }

    fn observe(&self, observer: &BatchObserver) {
        self.orders.observe(observer.clone());
        self.records.observe(observer.clone());
    }
}

/// Finds the batches of a calling thread.
pub(crate) struct RequestThreads {
    pool: Pool,
    others: Arc<CallBatches>,
    threads: RwLock<HashMap<Id, Arc<CallBatches>>>,
    max_threads: usize,
    connections_of_a_thread: usize,
    observer: OnceLock<BatchObserver>,
}

impl RequestThreads {
    /// Divides `connections` among `threads` and all other callers. The threads get at most half.
    /// Without threads, or with more of them than that, all callers share the batches.
    pub(crate) fn new(
        server: Server,
        connections: usize,
        threads: usize,
    ) -> Result<Self, crate::OpenError> {
        let each = (connections / 2).checked_div(threads).unwrap_or(0).min(CONNECTIONS_OF_A_THREAD);
        let pool = Pool::new(server, connections - each * threads)?;
        Ok(Self {
            others: CallBatches::new(&pool, LEADS_OF_THE_OTHERS),
            pool,
            threads: RwLock::default(),
            max_threads: if each > 0 { threads } else { 0 },
            connections_of_a_thread: each,
            observer: OnceLock::new(),
        })
    }

    /// Returns the connection pool of all calls that do not share statements.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Reports how many calls share each statement. There is one observer; a second one is ignored.
    pub(crate) fn observe(&self, observer: &BatchObserver) {
        self.others.observe(observer);
        let _ = self.observer.set(observer.clone());
    }

    /// Returns the batches of the calling thread.
    pub(crate) fn batches(&self) -> Arc<CallBatches> {
        let runtime = Handle::current();
        if self.max_threads == 0 || runtime.runtime_flavor() != RuntimeFlavor::CurrentThread {
            return self.others.clone();
        }
        let known = self.threads.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(batches) = known.get(&runtime.id()) {
            return batches.clone();
        }
        let is_full = known.len() == self.max_threads;
        drop(known);
        if is_full { self.others.clone() } else { self.add(&runtime) }
    }

    fn add(&self, runtime: &Handle) -> Arc<CallBatches> {
        let mut known = self.threads.write().unwrap_or_else(PoisonError::into_inner);
        let pool = (known.len() < self.max_threads)
            .then(|| self.pool.beside(self.connections_of_a_thread))
            .and_then(Result::ok);
        let Some(pool) = pool else { return self.others.clone() };
        let batches = CallBatches::new(&pool, LEADS_OF_A_THREAD);
        if let Some(observer) = self.observer.get() {
            batches.observe(observer);
        }
        known.insert(runtime.id(), batches.clone());
        batches
    }
}
