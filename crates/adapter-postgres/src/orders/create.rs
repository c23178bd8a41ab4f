//! Creates orders. Orders that wait at the same time are created by one statement.

use std::{collections::HashMap, sync::Arc, time::Duration};

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{order::OrderId, ports::WriteError};
use group_commit::{BatchObserver, Committer, Fit, Group};
use sql_rows::{PendingOrder, Utc, schema::orders};
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use super::insert::insert_orders;
use crate::{
    failure::Failure,
    idempotency,
    pool::{CALL_TIMEOUT, Pool},
    statement::{ADOPTION, KEY_IN_USE},
};

/// Maximum number of orders in one statement. At 64 the commit is a small part of an order's cost.
const BATCH: usize = 64;

/// Batches in progress at the same time: while the server works on one, the next is prepared.
const BATCHES: usize = 2;

/// A batch that the server rejects within this time has a fault in one of its orders, so each order
/// is tried alone. A later rejection is due to the state of the server.
const FAST_REJECTION: Duration = Duration::from_secs(1);

/// An order that has waited longer for its batch is not created: its caller would give up before
/// the outcome is known.
const MAX_WAIT: Duration = Duration::from_millis(1_500);

/// Statements for an order whose file number becomes free again and again while it is created.
const MAX_ATTEMPTS: usize = 20;

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

    fn fit(batch: &[Self], waiting: &Self) -> Fit {
        if waiting.caller.is_closed() || waiting.since.elapsed() > MAX_WAIT {
            Fit::Gone
        } else if batch.iter().all(|other| fit_together(&other.order, &waiting.order)) {
            Fit::Goes
        } else {
            Fit::Waits
        }
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
pub(crate) struct Orders {
    group: Group<Waiting>,
    pool: Pool,
}

impl Orders {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { group: Group::new(BATCHES, BATCH), pool }
    }

    pub(crate) fn observe(&self, observer: BatchObserver) {
        self.group.observe(observer);
    }

    pub(crate) async fn create(&self, order: PendingOrder) -> Result<OrderId, WriteError> {
        let (caller, outcome) = oneshot::channel();
        if let Some(committer) = self.group.join(Waiting { order, since: Instant::now(), caller }) {
            self.pool.runtime.spawn(commit_all(self.pool.clone(), committer));
        }
        match timeout(CALL_TIMEOUT, outcome).await {
            Ok(Ok(outcome)) => outcome,
            // The order waited too long for a batch, or the time of its batch was over.
            Ok(Err(_)) | Err(_) => Err(Failure::Timeout.into()),
        }
    }
}

/// Creates batch after batch until no order waits.
async fn commit_all(pool: Pool, mut committer: Committer<Waiting>) {
    loop {
        match pool.acquire(Instant::now()).await {
            Ok(mut connection) => {
                let Some(batch) = committer.next(Waiting::fit) else { return connection.release() };
                // However late the connection came: a batch that is cut off has no known outcome.
                connection.deadline = Instant::now() + CALL_TIMEOUT;
                // Each caller has its reply, or learns of the failure because its sender is dropped.
                let _ =
                    connection.run(async |connection| create_all(connection, batch).await).await;
            }
            Err(failure) => {
                let failure = Arc::new(failure);
                let failed = || Err(Failure::OfBatch(failure.clone()).into());
                return committer.give_up().for_each(|waiting| waiting.reply(failed()));
            }
        }
    }
}

/// Creates a batch and replies to each order. Orders that nothing bars, and that it left out, follow
/// one by one: old orders hold their file numbers. Tries such an order again while its number is free
/// after all: the order that held it was created after the snapshot of the statement, and its window
/// is over. An error means that the connection may be broken.
async fn create_all(
    connection: &mut AsyncPgConnection,
    mut batch: Vec<Waiting>,
) -> Result<(), Failure> {
    for _ in 0..MAX_ATTEMPTS {
        let (began, is_alone) = (Instant::now(), batch.len() == 1);
        let orders: Vec<&PendingOrder> = batch.iter().map(|waiting| &waiting.order).collect();
        let created = match insert_orders(connection, &orders).await.map_err(Failure::from) {
            Ok(created) => created,
            Err(failure)
                if !is_alone
                    && (failure.is_constraint()
                        || failure.is_rejection() && began.elapsed() < FAST_REJECTION) =>
            {
                // One order has a fault. Tried alone, it does not fail the others.
                return create_each(connection, batch).await;
            }
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
            return create_each(connection, batch).await;
        }
    }
    reply_failure(connection, batch, Failure::Timeout).await
}

/// Creates orders one by one like [`create_all`].
async fn create_each(
    connection: &mut AsyncPgConnection,
    orders: Vec<Waiting>,
) -> Result<(), Failure> {
    let mut health = Ok(());
    for waiting in orders {
        health = health.and(Box::pin(create_all(connection, vec![waiting])).await);
    }
    health
}

/// Returns why orders were not created; `None` if nothing bars the order now. A query of its own:
/// the snapshot of the statement may be older than the order that won.
async fn reasons(
    connection: &mut AsyncPgConnection,
    rejected: &[Waiting],
) -> Result<Vec<Option<WriteError>>, Failure> {
    let held_since = held_since(connection, rejected).await?;
    let mut reasons = Vec::with_capacity(rejected.len());
    for Waiting { order, .. } in rejected {
        let mut key_use = None;
        if let Some(request) = &order.idempotent_request {
            let now = order.row.created_at.0;
            key_use = idempotency::in_use(connection, &request.attempt.claim, now).await?;
        }
        let held_since = held_since
            .get(&order.row.file_number)
            .filter(|created_at| **created_at > order.window_opens_at);
        let duplicate =
            held_since.map(|created_at| WriteError::Duplicate { created_at: created_at.0 });
        reasons.push(key_use.map(WriteError::KeyInUse).or(duplicate));
    }
    Ok(reasons)
}

/// Returns when the orders were created that hold the file numbers of rejected orders.
async fn held_since(
    connection: &mut AsyncPgConnection,
    rejected: &[Waiting],
) -> Result<HashMap<String, Utc>, Failure> {
    let Some(first) = rejected.first() else { return Ok(HashMap::new()) };
    let file_numbers = rejected.iter().map(|waiting| &*waiting.order.row.file_number);
    let holders: Vec<(String, Utc)> = orders::table
        .filter(orders::file_number.eq_any(file_numbers))
        .filter(orders::is_test.eq(first.order.row.is_test))
        .filter(orders::holds_file_number)
        .select((orders::file_number, orders::created_at))
        .load(connection)
        .await?;
    Ok(holders.into_iter().collect())
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
        let error = match (failure.constraint(), &waiting.order.idempotent_request) {
            (Some(ADOPTION), _) => WriteError::UploadSwept,
            (Some(KEY_IN_USE), Some(request)) => {
                let (claim, now) = (&request.attempt.claim, waiting.order.row.created_at.0);
                match idempotency::in_use_or_released(connection, claim, now).await {
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
