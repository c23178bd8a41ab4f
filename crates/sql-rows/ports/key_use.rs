//! Idempotency keys in use.

use diesel::prelude::*;
use domain::idempotency::{Claim, KeyUse};
use sql_rows::{KeyRow, KeyUseRow, Prepared, Utc, key_in_use, schema::idempotency_keys};

use crate::{
    dialect::{Connection, RunQueryDsl},
    failure::Failure,
};

/// Returns what a key is in use for at an instant; `None` if it is free or claimed by this claim.
pub(crate) async fn in_use(
    connection: &mut Connection,
    claim: &Claim,
    now: Utc,
) -> Result<Option<KeyUse>, Failure> {
    let held = key_in_use(claim, now).select(KeyUseRow::as_select());
    let row = Prepared(held).get_result(connection).await.optional()?;
    Ok(row.map(KeyUseRow::into_use).transpose()?)
}

/// Stores a key that is not in use. On PostgreSQL, a trigger rejects the statement if it is.
pub(crate) async fn remember(connection: &mut Connection, row: &KeyRow) -> Result<(), Failure> {
    let stored = diesel::insert_into(idempotency_keys::table)
        .values(row)
        .on_conflict(idempotency_keys::table.primary_key())
        .do_update()
        .set(row);
    Prepared(stored).execute(connection).await?;
    Ok(())
}
