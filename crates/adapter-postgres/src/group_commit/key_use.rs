//! Idempotency keys in use.

use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::idempotency::{Claim, KeyUse};
use sql_rows::{
    Prepared, Utc,
    idempotency_keys::{KeyRow, KeyUseRow, key_in_use},
    schema::idempotency_keys,
};

use crate::{failure::Failure, statement::columns};

/// Returns what a key is in use for at an instant; `None` if it is free or claimed by this claim.
pub(crate) async fn in_use(
    connection: &mut AsyncPgConnection,
    claim: &Claim,
    now: Utc,
) -> Result<Option<KeyUse>, Failure> {
    let held = key_in_use(claim, now).select(columns::<KeyUseRow>());
    let row = Prepared(held).get_result(connection).await.optional()?;
    Ok(row.map(KeyUseRow::into_use).transpose()?)
}

/// Stores a key. A trigger rejects the statement if the key is in use.
pub(crate) async fn remember(
    connection: &mut AsyncPgConnection,
    row: &KeyRow,
) -> Result<(), Failure> {
    let stored = diesel::insert_into(idempotency_keys::table)
        .values(row)
        .on_conflict(idempotency_keys::table.primary_key())
        .do_update()
        .set(row);
    Prepared(stored).execute(connection).await?;
    Ok(())
}

/// Returns what a key was in use for that could not be taken. The other request may have released
/// it in between; then the next attempt gets it.
pub(crate) async fn in_use_or_released(
    connection: &mut AsyncPgConnection,
    claim: &Claim,
    now: Utc,
) -> Result<KeyUse, Failure> {
    let key_use = in_use(connection, claim, now).await?;
    Ok(key_use.unwrap_or(KeyUse::InProgress { until: now.0 }))
}
