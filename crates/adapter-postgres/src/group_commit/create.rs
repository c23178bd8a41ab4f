//! Creates orders. Orders that wait at the same time are created by one statement.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, OnceLock},
    time::Duration,
};

use diesel::{dsl::not, prelude::*};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{order::OrderId, ports::WriteError};
use sql_rows::{
    BatchObserver, Prepared, Utc,
    orders::{PendingOrder, update::ended},
    schema::orders,
};
use tokio::{
    sync::{
        Mutex,
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        oneshot,
    },
    time::{Instant, timeout},
};

use super::{
    insert::insert_orders,
    key_use::{in_use, in_use_or_released},
};
use crate::{
    TimeLimits,
    failure::Failure,
    pool::Pool,
    statement::{KEY_IN_USE, UPLOAD_SWEPT},
};

/// Maximum number of orders in one statement. At 64 the commit is a small part of an order's cost.
const BATCH: usize = 64;

/// Batches in progress at the same time: one is not stopped by a lock that another waits for.
const BATCHES: usize = 2;

/// How long a batch waits for the one before. A longer wait puts more orders into one commit.
const PATIENCE: Duration = Duration::from_millis(50);

/// Statements for an order whose file number becomes free again and again while it is created.
const MAX_ATTEMPTS: usize = 20;

/// Statements for orders that conflict with other transactions.
const CONFLICTS: usize = 3;

/// An order whose caller waits for the outcome.
struct Waiting {
    order: PendingOrder,
    since: Instant,
    caller: oneshot::Sender<Result<OrderId, WriteError>>,
}

impl Waiting {
    fn reply(self, outcome: Result<OrderId, WriteError>) {
        // The caller may have given up; then the outcome is dropped.
        let _ = self.caller.send(outcome);
    }
}

/// Returns whether one statement can create both orders. It creates either test orders or real
/// ones, and touches no row twice.
fn fit_together(one: &PendingOrder, other: &PendingOrder) -> bool {
    let key = |order: &PendingOrder| {
        order.idempotent_request.as_ref().map(|request| request.attempt.claim.key.clone())
    };
    one.row.is_test == other.row.is_test
        && one.row.file_number != other.row.file_number
        && (one.idempotent_request.is_none() || key(one) != key(other))
}

/// The orders that wait for a statement.
struct Queue {
    joining: UnboundedReceiver<Waiting>,
    waiting: Vec<Waiting>,
}

impl Queue {
    /// Waits for an order. Returns `false` if the store is closed.
    async fn has_any(&mut self) -> bool {
        if self.waiting.is_empty() {
            self.waiting.extend(self.joining.recv().await);
        }
        !self.waiting.is_empty()
    }

    /// Takes in the orders that have joined.
    fn collect(&mut self) {
        while let Ok(waiting) = self.joining.try_recv() {
            self.waiting.push(waiting);
        }
    }

    /// Takes the orders of the next statement. The others wait for another one, in their order.
    /// Drops those that have waited longer than a limit.
    fn take_batch(&mut self, limit: Duration) -> Vec<Waiting> {
        self.collect();
        let mut batch: Vec<Waiting> = Vec::new();
        for waiting in mem::take(&mut self.waiting) {
            let fits = |other: &Waiting| fit_together(&other.order, &waiting.order);
            if waiting.caller.is_closed() || waiting.since.elapsed() > limit {
                // Its caller has stopped waiting, or would before the outcome is known.
            } else if batch.len() < BATCH && batch.iter().all(fits) {
                batch.push(waiting);
            } else {
                self.waiting.push(waiting);
            }
        }
        batch
    }
}

/// Creates the orders that wait at the same time together. A lone order is created at once, and under
/// load a batch is what has arrived during the batch before.
pub(crate) struct Orders {
    joining: UnboundedSender<Waiting>,
    observer: Arc<OnceLock<BatchObserver>>,
    /// Of a call.
    limit: Duration,
}

impl Orders {
    /// Starts the tasks that create orders. They end when this is dropped.
    pub(crate) fn new(pool: &Pool) -> Self {
        let (joining, joined) = mpsc::unbounded_channel();
        let queue = Arc::new(Mutex::new(Queue { joining: joined, waiting: Vec::new() }));
        let in_progress = Arc::new(Mutex::new(()));
        let observer = Arc::default();
        for _ in 0..BATCHES {
            let (queue, in_progress) = (Arc::clone(&queue), Arc::clone(&in_progress));
            let observer = Arc::clone(&observer);
            pool.runtime.spawn(create_batches(pool.clone(), queue, in_progress, observer));
        }
        Self { joining, observer, limit: pool.limits.call }
    }

    /// Reports the number of orders of each batch. There is one observer; a second one is ignored.
    pub(crate) fn observe(&self, observer: BatchObserver) {
        let _ = self.observer.set(observer);
    }

    pub(crate) async fn create(&self, order: PendingOrder) -> Result<OrderId, WriteError> {
        let (caller, outcome) = oneshot::channel();
        // Fails if the runtime has ended. The sender is dropped then.
        let _ = self.joining.send(Waiting { order, since: Instant::now(), caller });
        match timeout(self.limit, outcome).await {
            Ok(Ok(outcome)) => outcome,
            // The order waited too long for a batch, or the time of its batch was over.
            Ok(Err(_)) | Err(_) => Err(Failure::Timeout.into()),
        }
    }
}

/// Creates batch after batch until the store is closed. Gets a connection before it takes orders.
async fn create_batches(
    pool: Pool,
    queue: Arc<Mutex<Queue>>,
    in_progress: Arc<Mutex<()>>,
    observer: Arc<OnceLock<BatchObserver>>,
) {
    loop {
        let mut waiting = queue.lock().await;
        if !waiting.has_any().await {
            return;
        }
        let _in_progress = timeout(PATIENCE, in_progress.lock()).await;
        let mut connection = match pool.acquire(Instant::now()).await {
            Ok(connection) => connection,
            Err(failure) => {
                let failure = Arc::new(failure);
                waiting.collect();
                for waiting in mem::take(&mut waiting.waiting) {
                    waiting.reply(Err(Failure::OfBatch(Arc::clone(&failure)).into()));
                }
                continue;
            }
        };
        let batch = waiting.take_batch(pool.limits.batch);
        drop(waiting);
        if batch.is_empty() {
            connection.release();
            continue;
        }
        if let Some(observer) = observer.get() {
            observer(batch.len());
        }
        // However late the connection came: a batch that is cut off has no known outcome.
        connection.deadline = Instant::now() + pool.limits.call;
        let limits = &pool.limits;
        // Each caller has its reply, or learns of the failure because its sender is dropped.
        let _ =
            connection.run(async |connection| create_all(connection, batch, limits).await).await;
    }
}

/// Creates a batch and replies to each order. The statement skips an order whose file number is taken. If the
/// holder is older than the window, the number is free, so these orders are inserted one by one. An order is
/// tried again if its number becomes free meanwhile, or after a conflict with other transactions. An error means
/// that the connection may be broken.
///
/// A batch that the server rejects within [`TimeLimits::fast_rejection`] has a fault in one of its orders, so each
/// order is tried alone. A later rejection is due to the state of the server.
async fn create_all(
    connection: &mut AsyncPgConnection,
    mut batch: Vec<Waiting>,
    limits: &TimeLimits,
) -> Result<(), Failure> {
    for attempt in 1..=MAX_ATTEMPTS {
        let (began, is_alone) = (Instant::now(), batch.len() == 1);
        let orders: Vec<&PendingOrder> = batch.iter().map(|waiting| &waiting.order).collect();
        let created =
            match insert_orders(connection, &orders, limits.lock).await.map_err(Failure::from) {
                Ok(created) => created,
                Err(failure)
                    if !is_alone
                        && (failure.is_constraint()
                            || failure.is_rejection()
                                && began.elapsed() < limits.fast_rejection) =>
                {
                    // One order has a fault. Tried alone, it does not fail the others.
                    return create_each(connection, batch, limits).await;
                }
                Err(failure) if failure.is_conflict() && attempt < CONFLICTS => continue,
                Err(failure) => return reply_failure(connection, batch, failure).await,
            };
        let created: HashMap<String, i64> =
            created.into_iter().map(|order| (order.file_number, order.id)).collect();
        // Created orders are answered first: the reasons for the others take a query.
        let mut rejected = Vec::new();
        for waiting in batch {
            match created.get(&waiting.order.row.file_number) {
                Some(id) => waiting.reply(Ok(OrderId(*id))),
                None => rejected.push(waiting),
            }
        }
        let reasons = match reasons(connection, &rejected).await {
            Ok(reasons) => reasons,
            Err(failure) => return reply_failure(connection, rejected, failure).await,
        };
        batch = Vec::new();
        for (waiting, reason) in rejected.into_iter().zip(reasons) {
            match reason {
                Some(reason) => waiting.reply(Err(reason)),
                None => batch.push(waiting),
            }
        }
        if batch.is_empty() || !is_alone {
            return create_each(connection, batch, limits).await;
        }
    }
    reply_failure(connection, batch, Failure::Timeout).await
}

/// Creates orders one by one like [`create_all`].
async fn create_each(
    connection: &mut AsyncPgConnection,
    orders: Vec<Waiting>,
    limits: &TimeLimits,
) -> Result<(), Failure> {
    let mut health = Ok(());
    for waiting in orders {
        let created = Box::pin(create_all(connection, vec![waiting], limits)).await;
        health = health.and(created);
    }
    health
}

/// Returns why orders were not created; `None` if the order can be created now. A query of its own:
/// the snapshot of the statement may be older than the order that won.
async fn reasons(
    connection: &mut AsyncPgConnection,
    rejected: &[Waiting],
) -> Result<Vec<Option<WriteError>>, Failure> {
    let Some(first) = rejected.first() else { return Ok(Vec::new()) };
    let file_numbers = rejected.iter().flat_map(|waiting| waiting.order.forms());
    let holders: Vec<(String, (i64, i64, Utc))> = orders::table
        .filter(orders::file_number.eq_any(file_numbers))
        .filter(orders::is_test.eq(first.order.row.is_test))
        .filter(orders::holds_file_number)
        .select((orders::file_number, (orders::id, orders::client_id, orders::created_at)))
        .load(connection)
        .await?;
    let holders: HashMap<String, (i64, i64, Utc)> = holders.into_iter().collect();
    let mut reasons = Vec::with_capacity(rejected.len());
    for Waiting { order, .. } in rejected {
        let mut key_use = None;
        if let Some(request) = &order.idempotent_request {
            let now = order.row.created_at;
            key_use = in_use(connection, &request.attempt.claim, now).await?;
        }
        let bars = |(id, client, created_at): &&(i64, i64, Utc)| {
            let is_own = *client == order.row.client_id;
            *created_at > order.window_opens_at && order.only_after != Some(*id)
                || order.only_after.is_some_and(|after| is_own && *id > after)
        };
        let holder = order.forms().filter_map(|form| holders.get(form)).find(bars);
        let barred_since = match holder {
            Some((.., created_at)) => Some(*created_at),
            None => barring_order(connection, order).await?,
        };
        let duplicate =
            barred_since.map(|created_at| WriteError::Duplicate { created_at: created_at.0 });
        reasons.push(key_use.map(WriteError::KeyInUse).or(duplicate));
    }
    Ok(reasons)
}

/// Returns the creation of an order that is newer than the client's newest may be, and holds no file number any
/// more; or that of the client's newest, if it takes changes again.
async fn barring_order(
    connection: &mut AsyncPgConnection,
    order: &PendingOrder,
) -> Result<Option<Utc>, Failure> {
    let PendingOrder { row, only_after: Some(after), .. } = order else { return Ok(None) };
    let open = orders::table
        .filter(orders::id.eq(*after).and(orders::erased_at.is_null()))
        .filter(orders::status.ne_all(ended()))
        .select(orders::created_at);
    let open: Option<Utc> = Prepared(open).get_result(connection).await.optional()?;
    if open.is_some() {
        return Ok(open);
    }
    let newer = orders::table
        .filter(orders::file_number.eq_any(order.forms()).and(orders::client_id.eq(row.client_id)))
        .filter(orders::is_test.eq(row.is_test).and(not(orders::holds_file_number)))
        .filter(orders::erased_at.is_null().and(orders::id.gt(*after)))
        .select(orders::created_at);
    Ok(Prepared(newer.limit(1)).get_result(connection).await.optional()?)
}

/// Replies to orders that were not created. A constraint names the fault of the only order. Any
/// other failure concerns all of them.
async fn reply_failure(
    connection: &mut AsyncPgConnection,
    batch: Vec<Waiting>,
    failure: Failure,
) -> Result<(), Failure> {
    let failure = Arc::new(failure);
    let mut is_broken = failure.breaks_connection();
    for waiting in batch {
        let error = match (failure.rejected_by(), &waiting.order.idempotent_request) {
            (Some(UPLOAD_SWEPT), _) => WriteError::UploadSwept,
            (Some(KEY_IN_USE), Some(request)) => {
                let (claim, now) = (&request.attempt.claim, waiting.order.row.created_at);
                match in_use_or_released(connection, claim, now).await {
                    Ok(key_use) => WriteError::KeyInUse(key_use),
                    Err(failure) => {
                        is_broken |= failure.breaks_connection();
                        failure.into()
                    }
                }
            }
            _ => Failure::OfBatch(failure.clone()).into(),
        };
        waiting.reply(Err(error));
    }
    if is_broken { Err(Failure::Lost) } else { Ok(()) }
}
