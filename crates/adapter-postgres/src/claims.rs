//! Claims of idempotency keys, and why documents were not added.

use domain::{
    idempotency::{Claim, KeyUse},
    ports::{NewDocuments, WriteError},
};
use sql_rows::{KeyRow, Utc};

use crate::{
    failure::Failure,
    orders::create::in_use_or_released,
    ports::key_use,
    statement::{ADOPTION, KEY_IN_USE},
    store::PostgresStore,
};

/// Takes a key that is free at an instant.
pub(crate) async fn claim(
    store: &PostgresStore,
    claim: &Claim,
    now: Utc,
    until: Utc,
) -> Result<(), WriteError> {
    let row = KeyRow::claimed(claim, now, until);
    match store.pool.run(async |connection| key_use::remember(connection, &row).await).await {
        Err(failure) if failure.constraint() == Some(KEY_IN_USE) => {
            Err(WriteError::KeyInUse(taken(store, claim, now).await?))
        }
        claimed => Ok(claimed?),
    }
}

/// Returns why documents were not added.
pub(crate) async fn rejection(
    store: &PostgresStore,
    failure: Failure,
    new: &NewDocuments,
) -> WriteError {
    match (failure.constraint(), &new.idempotent_request) {
        (Some(ADOPTION), _) => WriteError::UploadSwept,
        (Some(KEY_IN_USE), Some(request)) => taken(store, &request.attempt.claim, Utc(new.at))
            .await
            .map_or_else(Into::into, WriteError::KeyInUse),
        _ => failure.into(),
    }
}

async fn taken(store: &PostgresStore, claim: &Claim, now: Utc) -> Result<KeyUse, Failure> {
    store.pool.run(async |connection| in_use_or_released(connection, claim, now).await).await
}
