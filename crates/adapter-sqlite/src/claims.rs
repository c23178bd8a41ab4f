//! Claims of idempotency keys, and requests that are remembered under them.

use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    idempotency::{Claim, IdempotentRequest, KeyUse},
    ports::ClaimError,
};
use sql_rows::{KeyRow, KeyUseRow, Utc, key_in_use, schema::idempotency_keys};

use crate::{failure::Failure, store::SqliteStore};

/// Takes a key that is free at an instant.
pub(crate) async fn claim(
    store: &SqliteStore,
    claim: &Claim,
    now: Utc,
    until: Utc,
) -> Result<(), ClaimError> {
    let claim = claim.clone();
    let take = move |connection: &mut SqliteConnection| match in_use(connection, &claim, now)? {
        Some(key_use) => Err(ClaimError::InUse(key_use)),
        None => Ok(remember(connection, &KeyRow::claimed(&claim, now, until))?),
    };
    store.writer.run(take).await
}

/// Stores a key, which must not be in use.
pub(crate) fn remember(connection: &mut SqliteConnection, row: &KeyRow) -> Result<(), Failure> {
    diesel::replace_into(idempotency_keys::table).values(row).execute(connection)?;
    Ok(())
}

fn in_use(
    connection: &mut SqliteConnection,
    claim: &Claim,
    now: Utc,
) -> Result<Option<KeyUse>, Failure> {
    let held = key_in_use(claim, now).select(KeyUseRow::as_select());
    let row: Option<KeyUseRow> = held.first(connection).optional()?;
    Ok(row.map(KeyUseRow::into_use).transpose()?)
}

/// Returns what uses the key of a request, if it has one.
pub(crate) fn in_use_by(
    connection: &mut SqliteConnection,
    request: Option<&IdempotentRequest>,
    now: Utc,
) -> Result<Option<KeyUse>, Failure> {
    request.map_or(Ok(None), |request| in_use(connection, &request.attempt.claim, now))
}
