//! Creates orders in batches.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{idempotency::KeyUse, order::OrderId, ports::CreateError};
use futures_util::future::{BoxFuture, FutureExt as _};
use sql_rows::{PendingOrder, Utc, schema::orders};
use time::OffsetDateTime;

use crate::{
    batch::{Waiting, Work},
    failure::{BreaksConnection as _, Failure, Shared},
    idempotency,
    insert_orders::{FileNumbers, insert_orders},
};

/// A batch that the server rejects within this time has a fault in one of its orders, so each order
/// is tried alone. A later rejection is due to the state of the server.
const FAST_REJECTION: Duration = Duration::from_secs(1);

/// Statements for an order whose file number becomes free again and again while it is created.
const MAX_ATTEMPTS: usize = 20;

/// The trigger by which a document adopts its upload.
pub(crate) const ADOPTION: &str = "documents_adopt_uploads";

/// The trigger that protects an idempotency key in use.
pub(crate) const KEY_IN_USE: &str = "idempotency_keys_in_use";

/// The reason why an order was not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    #[error("the file number is in use")]
    Duplicate { created_at: OffsetDateTime },
    #[error("the idempotency key is in use")]
    KeyInUse(KeyUse),
    #[error("an upload was swept")]
    UploadSwept,
    #[error(transparent)]
    Failed(#[from] Shared),
}

impl From<Failure> for Rejection {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure.into())
    }
}

impl From<Rejection> for CreateError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Duplicate { created_at } => Self::Duplicate { created_at },
            Rejection::KeyInUse(key_use) => Self::KeyInUse(key_use),
            Rejection::UploadSwept => Self::UploadSwept,
            Rejection::Failed(failure) if failure.is_temporary() => {
                Self::Unavailable(failure.into())
            }
            Rejection::Failed(failure) => Self::Internal(failure.into()),
        }
    }
}

impl Work for PendingOrder {
    type Done = OrderId;
    type Error = Rejection;

    /// Returns whether one statement can create both orders. It creates either test orders or real
    /// ones, and touches no row twice.
    fn fits_with(&self, other: &Self) -> bool {
        let key = |order: &Self| {
            order.idempotent_request.as_ref().map(|request| request.attempt.claim.key.clone())
        };
        self.row.is_test == other.row.is_test
            && self.row.file_number != other.row.file_number
            && (self.idempotent_request.is_none() || key(self) != key(other))
    }

    fn commit(
        connection: &mut AsyncPgConnection,
        batch: Vec<Waiting<Self>>,
    ) -> BoxFuture<'_, Result<(), Shared>> {
        create_all(connection, batch, FileNumbers::LeaveOut).boxed()
    }
}

async fn create_all(
    connection: &mut AsyncPgConnection,
    batch: Vec<Waiting<PendingOrder>>,
    file_numbers: FileNumbers,
) -> Result<(), Shared> {
    let began = Instant::now();
    let orders: Vec<&PendingOrder> = batch.iter().map(|waiting| &waiting.work).collect();
    match try_create(connection, &orders, file_numbers).await {
        Ok(created) => reply(connection, batch, created, file_numbers).await,
        // Another statement was faster. The next one takes that into account.
        Err(failure)
            if file_numbers == FileNumbers::LeaveOut && failure.is_repetition_in("orders") =>
        {
            Box::pin(create_all(connection, batch, FileNumbers::TakeOver)).await
        }
        // One order has a fault. Tried alone, it does not fail the others.
        Err(failure)
            if batch.len() > 1
                && (failure.is_constraint()
                    || failure.is_rejection() && began.elapsed() < FAST_REJECTION) =>
        {
            let mut health = Ok(());
            for waiting in batch {
                health = health.and(create_alone(connection, waiting).await);
            }
            health
        }
        Err(failure) => reply_failure(connection, batch, failure).await,
    }
}

/// Creates a batch in one round trip. Returns the orders that were created, by file number.
async fn try_create(
    connection: &mut AsyncPgConnection,
    batch: &[&PendingOrder],
    file_numbers: FileNumbers,
) -> Result<HashMap<String, OrderId>, Failure> {
    let created = insert_orders(connection, batch, file_numbers).await?;
    Ok(created.into_iter().map(|order| (order.file_number, OrderId(order.id))).collect())
}

/// Creates one order. Tries again while the file number is free after all: the order that held it
/// was created after the snapshot of the statement, and its window is over.
async fn create_alone(
    connection: &mut AsyncPgConnection,
    waiting: Waiting<PendingOrder>,
) -> Result<(), Shared> {
    for _ in 0..MAX_ATTEMPTS {
        let outcome = match try_create(connection, &[&waiting.work], FileNumbers::TakeOver).await {
            Ok(created) => match created.into_values().next() {
                Some(id) => Some(Ok(id)),
                None => match reasons(connection, std::slice::from_ref(&waiting)).await {
                    Ok(reasons) => reasons.into_iter().flatten().next().map(Err),
                    Err(failure) => return reply_failure(connection, vec![waiting], failure).await,
                },
            },
            Err(failure) => return reply_failure(connection, vec![waiting], failure).await,
        };
        if let Some(outcome) = outcome {
            waiting.reply(outcome);
            return Ok(());
        }
    }
    reply_failure(connection, vec![waiting], Failure::Timeout).await
}

/// Replies to created orders first: the reasons for the others take a query.
async fn reply(
    connection: &mut AsyncPgConnection,
    batch: Vec<Waiting<PendingOrder>>,
    created: HashMap<String, OrderId>,
    file_numbers: FileNumbers,
) -> Result<(), Shared> {
    let mut rejected = Vec::new();
    for waiting in batch {
        match created.get(&waiting.work.row.file_number) {
            Some(id) => waiting.reply(Ok(*id)),
            None => rejected.push(waiting),
        }
    }
    match reasons(connection, &rejected).await {
        Ok(reasons) => {
            let (mut health, mut outside_the_window) = (Ok(()), Vec::new());
            for (waiting, reason) in rejected.into_iter().zip(reasons) {
                match (reason, file_numbers) {
                    (Some(reason), _) => waiting.reply(Err(reason)),
                    (None, FileNumbers::LeaveOut) => outside_the_window.push(waiting),
                    (None, FileNumbers::TakeOver) => {
                        health = health.and(create_alone(connection, waiting).await);
                    }
                }
            }
            if outside_the_window.is_empty() {
                return health;
            }
            Box::pin(create_all(connection, outside_the_window, FileNumbers::TakeOver)).await
        }
        Err(failure) => {
            let failure = Shared::from(failure);
            for waiting in rejected {
                waiting.reply(Err(Rejection::Failed(failure.clone())));
            }
            Err(failure)
        }
    }
}

/// Returns why orders were not created; `None` if nothing bars the order now. A query of its own:
/// the snapshot of the statement may be older than the order that won.
async fn reasons(
    connection: &mut AsyncPgConnection,
    rejected: &[Waiting<PendingOrder>],
) -> Result<Vec<Option<Rejection>>, Failure> {
    let (mut key_uses, mut duplicates) = (Vec::with_capacity(rejected.len()), Vec::new());
    for Waiting { work: order, .. } in rejected {
        let key_use = match &order.idempotent_request {
            Some(idempotent_request) => {
                idempotency::in_use(
                    connection,
                    &idempotent_request.attempt.claim,
                    order.row.created_at.0,
                )
                .await?
            }
            None => None,
        };
        duplicates.extend(key_use.is_none().then_some(order));
        key_uses.push(key_use);
    }
    let held_since = held_since(connection, &duplicates).await?;
    let reason = |(waiting, key_use): (&Waiting<PendingOrder>, Option<KeyUse>)| {
        let order = &waiting.work;
        let held_since = held_since.get(&order.row.file_number).copied();
        key_use.map(Rejection::KeyInUse).or_else(|| {
            held_since
                .filter(|created_at| *created_at > order.window_opens_at)
                .map(|created_at| Rejection::Duplicate { created_at: created_at.0 })
        })
    };
    Ok(rejected.iter().zip(key_uses).map(reason).collect())
}

/// Returns when the orders were created that hold the file numbers of these orders.
async fn held_since(
    connection: &mut AsyncPgConnection,
    duplicates: &[&PendingOrder],
) -> Result<HashMap<String, Utc>, Failure> {
    let Some(first) = duplicates.first() else { return Ok(HashMap::new()) };
    let file_numbers: Vec<&str> = duplicates.iter().map(|order| &*order.row.file_number).collect();
    let holders: Vec<(String, Utc)> = orders::table
        .filter(orders::file_number.eq_any(file_numbers))
        .filter(orders::is_test.eq(first.row.is_test))
        .filter(orders::holds_file_number)
        .select((orders::file_number, orders::created_at))
        .load(connection)
        .await?;
    Ok(holders.into_iter().collect())
}

/// Replies to a batch of which no order was created. A constraint names the fault of the only
/// order. Any other failure concerns all of them.
async fn reply_failure(
    connection: &mut AsyncPgConnection,
    batch: Vec<Waiting<PendingOrder>>,
    failure: Failure,
) -> Result<(), Shared> {
    let failure = Shared::from(failure);
    let mut health = if failure.breaks_connection() { Err(failure.clone()) } else { Ok(()) };
    for waiting in batch {
        let rejection = match (failure.constraint(), &waiting.work.idempotent_request) {
            (Some(ADOPTION), _) => Rejection::UploadSwept,
            (Some(KEY_IN_USE), Some(idempotent_request)) => {
                let now = waiting.work.row.created_at.0;
                match idempotency::in_use(connection, &idempotent_request.attempt.claim, now).await
                {
                    // None if the other request has released the key in between.
                    Ok(key_use) => {
                        Rejection::KeyInUse(key_use.unwrap_or(KeyUse::InProgress { until: now }))
                    }
                    Err(failure) => {
                        let failure = Shared::from(failure);
                        health = health.and(Err(failure.clone()));
                        Rejection::Failed(failure)
                    }
                }
            }
            _ => Rejection::Failed(failure.clone()),
        };
        waiting.reply(Err(rejection));
    }
    health
}
