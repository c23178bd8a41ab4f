//! Placing orders, those that wait at the same time by one statement.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use diesel::{prelude::*, result::Error::NotFound};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{idempotency::KeyUse, order::OrderId, ports::CreateError};
use futures_util::future::{BoxFuture, FutureExt as _};
use time::OffsetDateTime;

use crate::{
    batch::{Waiting, Work},
    failure::{BreaksConnection as _, Failure, Shared},
    idempotency,
    insert_orders::{InsertOrders, PendingOrder},
    schema::orders,
    statement::Prepared,
};

/// A batch that the server refuses within this time was refused for something in it, and each of
/// its orders is tried alone; after a longer wait it is the server's state.
const REFUSAL: Duration = Duration::from_secs(1);

/// The trigger by which a document adopts its upload.
const ADOPTION: &str = "documents_adopt_uploads";

/// The trigger that keeps an idempotency key for the order that has it.
const KEY_IN_USE: &str = "idempotency_keys_in_use";

/// Why an order was not placed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the file number was used a moment ago")]
    Duplicate { created_at: OffsetDateTime },
    #[error("the idempotency key is in use")]
    KeyTaken(KeyUse),
    #[error("an upload was swept")]
    UploadSwept,
    #[error(transparent)]
    Failed(#[from] Shared),
}

impl From<Refusal> for CreateError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Duplicate { created_at } => Self::Duplicate { created_at },
            Refusal::KeyTaken(taken) => Self::KeyTaken(taken),
            Refusal::UploadSwept => Self::UploadSwept,
            Refusal::Failed(failure) if failure.get().is_passing() => {
                Self::Unavailable(failure.into())
            }
            Refusal::Failed(failure) => Self::Internal(failure.into()),
        }
    }
}

impl Work for PendingOrder {
    type Done = OrderId;
    type Refusal = Refusal;

    /// One statement has one table of file numbers and one window, and touches no row twice.
    fn goes_with(&self, other: &Self) -> bool {
        let same_kind = (self.is_test, self.window) == (other.is_test, other.window);
        same_kind
            && self.file_number() != other.file_number()
            && (self.key().is_none() || self.key() != other.key())
    }

    fn commit(
        connection: &mut AsyncPgConnection,
        batch: Vec<Waiting<Self>>,
    ) -> BoxFuture<'_, Result<(), Shared>> {
        create_all(connection, batch).boxed()
    }
}

/// Places a batch and tells each its outcome.
async fn create_all(
    connection: &mut AsyncPgConnection,
    batch: Vec<Waiting<PendingOrder>>,
) -> Result<(), Shared> {
    let began = Instant::now();
    match try_create(connection, batch.iter().map(|waiting| &waiting.work)).await {
        Ok(stored) => tell_placed(connection, batch, stored).await,
        // Something in it is at fault, and that fails alone.
        Err(failure)
            if batch.len() > 1
                && (failure.is_constraint()
                    || failure.is_refusal() && began.elapsed() < REFUSAL) =>
        {
            let mut doubt = Ok(());
            for waiting in batch {
                let told = match try_create(connection, std::iter::once(&waiting.work)).await {
                    Ok(stored) => tell_placed(connection, vec![waiting], stored).await,
                    Err(failure) => tell_failure(connection, vec![waiting], failure).await,
                };
                doubt = doubt.and(told);
            }
            doubt
        }
        Err(failure) => tell_failure(connection, batch, failure).await,
    }
}

/// By one statement, and so one round trip and one transaction. Answers who was placed, by file
/// number.
async fn try_create(
    connection: &mut AsyncPgConnection,
    batch: impl Iterator<Item = &PendingOrder> + Clone,
) -> Result<HashMap<String, OrderId>, Failure> {
    let statement = Prepared(InsertOrders::of(batch)?);
    // All rows: they come before the commit, and the end of the rows after it.
    let stored: Vec<(i64, String)> = statement.get_results(connection).await?;
    Ok(stored.into_iter().map(|(id, file_number)| (file_number, OrderId(id))).collect())
}

/// Tells those who were placed first; why the others were not has to be asked for.
async fn tell_placed(
    connection: &mut AsyncPgConnection,
    batch: Vec<Waiting<PendingOrder>>,
    stored: HashMap<String, OrderId>,
) -> Result<(), Shared> {
    let mut refused = Vec::new();
    for waiting in batch {
        match stored.get(waiting.work.file_number()) {
            Some(id) => waiting.tell(Ok(*id)),
            None => refused.push(waiting),
        }
    }
    match reasons(connection, &refused).await {
        Ok(reasons) => {
            refused
                .into_iter()
                .zip(reasons)
                .for_each(|(waiting, reason)| waiting.tell(Err(reason)));
            Ok(())
        }
        Err(failure) => {
            let failure = Shared::from(failure);
            for waiting in refused {
                waiting.tell(Err(Refusal::Failed(failure.clone())));
            }
            Err(failure)
        }
    }
}

/// Why orders got no file number. Asked for now, because the statement saw what was there when it
/// began, which may be before the order that won.
async fn reasons(
    connection: &mut AsyncPgConnection,
    refused: &[Waiting<PendingOrder>],
) -> Result<Vec<Refusal>, Failure> {
    let (mut taken, mut duplicates) = (Vec::with_capacity(refused.len()), Vec::new());
    for Waiting { work: wanted, .. } in refused {
        let key_use = match &wanted.remembrance {
            Some(remembrance) => {
                idempotency::in_use(connection, &remembrance.attempt.claim, wanted.created_at)
                    .await?
            }
            None => None,
        };
        duplicates.extend(key_use.is_none().then_some(wanted));
        taken.push(key_use);
    }
    let used = last_uses(connection, &duplicates).await?;
    let reason = |(Waiting { work: wanted, .. }, taken): (
        &Waiting<PendingOrder>,
        Option<KeyUse>,
    )| match (taken, used.get(wanted.file_number())) {
        (Some(taken), _) => Refusal::KeyTaken(taken),
        (None, Some(&created_at)) => Refusal::Duplicate { created_at },
        // Who had the key has given it up in between.
        (None, None) if wanted.remembrance.is_some() => {
            Refusal::KeyTaken(KeyUse::InFlight { until: wanted.created_at })
        }
        (None, None) => Refusal::Failed(Failure::from(NotFound).into()),
    };
    Ok(refused.iter().zip(taken).map(reason).collect())
}

/// When file numbers were used last.
async fn last_uses(
    connection: &mut AsyncPgConnection,
    duplicates: &[&PendingOrder],
) -> Result<HashMap<String, OffsetDateTime>, Failure> {
    let Some(first) = duplicates.first() else { return Ok(HashMap::new()) };
    let wanted: Vec<&str> = duplicates.iter().map(|wanted| wanted.file_number()).collect();
    let used: Vec<(String, OffsetDateTime)> = orders::table
        .filter(orders::file_number.eq_any(wanted))
        .filter(orders::is_test.eq(first.is_test))
        .filter(orders::holds_file_number)
        .select((orders::file_number, orders::created_at))
        .load(connection)
        .await?;
    Ok(used.into_iter().collect())
}

/// Tells a batch that none of it was placed: one order why, if it is at fault itself, and several
/// that they have met the same.
async fn tell_failure(
    connection: &mut AsyncPgConnection,
    batch: Vec<Waiting<PendingOrder>>,
    failure: Failure,
) -> Result<(), Shared> {
    let failure = Shared::from(failure);
    let mut doubt = if failure.breaks_connection() { Err(failure.clone()) } else { Ok(()) };
    for waiting in batch {
        let refusal = match (failure.get().constraint(), &waiting.work.remembrance) {
            (Some(ADOPTION), _) => Refusal::UploadSwept,
            (Some(KEY_IN_USE), Some(remembrance)) => {
                let created_at = waiting.work.created_at;
                match idempotency::in_use(connection, &remembrance.attempt.claim, created_at)
                    .await
                    .map_err(Shared::from)
                {
                    // None, if who was first has given up the key in between.
                    Ok(taken) => {
                        Refusal::KeyTaken(taken.unwrap_or(KeyUse::InFlight { until: created_at }))
                    }
                    Err(failure) => {
                        doubt = doubt.and(Err(failure.clone()));
                        Refusal::Failed(failure)
                    }
                }
            }
            _ => Refusal::Failed(failure.clone()),
        };
        waiting.tell(Err(refusal));
    }
    doubt
}
