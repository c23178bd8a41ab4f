//! The ledger of idempotency keys.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    idempotency::{Claim, IdempotencyKey, KeyUse},
    ports::{IdempotencyLedger, StoreError, WriteError},
};
use sql_rows::{
    Prepared, Utc,
    idempotency_keys::{
        KeyRow, KeyUseRow, first_key, free_keys, key_in_use, key_of, key_row, keys_after, own_claim,
    },
    row_limit,
    schema::idempotency_keys,
};
use time::OffsetDateTime;

use crate::{
    failure::Failure,
    store::{SqliteStore, columns},
};

#[async_trait]
impl IdempotencyLedger for SqliteStore {
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), WriteError> {
        let claim = claim.clone();
        let take = move |connection: &mut SqliteConnection| {
            let key_use = in_use(connection, &claim, Utc(now))?;
            if key_use.is_none() {
                remember(connection, &KeyRow::claimed(&claim, Utc(now), Utc(until)))?;
            }
            Ok(key_use)
        };
        let key_use = self.transaction::<_, WriteError>(take).await?;
        key_use.map_or(Ok(()), |key_use| Err(WriteError::KeyInUse(key_use)))
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        self.execute(diesel::delete(own_claim(claim))).await.map(drop)
    }

    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<IdempotencyKey>, StoreError> {
        let first = after.as_ref().map_or_else(first_key, key_row);
        let later = keys_after(first.clone());
        let walk = move |connection: &mut SqliteConnection| {
            let walk = later.limit(row_limit(limit)).select((
                idempotency_keys::table.primary_key(),
                idempotency_keys::kept_until.gt(Utc(now)),
            ));
            Ok(walk.get_results::<((i64, bool, Vec<u8>), bool)>(connection)?)
        };
        let mut keys = self.read(walk).await?;
        let has_free = keys.iter().any(|(_, is_kept)| !is_kept);
        let Some((last, _)) = keys.pop() else { return Ok(None) };
        if has_free {
            // A request may have taken a key again meanwhile.
            self.execute(diesel::delete(free_keys(first, last.clone(), now))).await?;
        }
        Ok(Some(key_of(last).map_err(Failure::from)?))
    }
}

/// Returns what a key is in use for at an instant; `None` if it is free or claimed by this claim.
pub(super) fn in_use(
    connection: &mut SqliteConnection,
    claim: &Claim,
    now: Utc,
) -> Result<Option<KeyUse>, Failure> {
    let held = key_in_use(claim, now).select(columns::<KeyUseRow>());
    let row = Prepared(held).get_result(connection).optional()?;
    Ok(row.map(KeyUseRow::into_use).transpose()?)
}

/// Stores a key that is not in use.
pub(super) fn remember(connection: &mut SqliteConnection, row: &KeyRow) -> Result<(), Failure> {
    let stored = diesel::insert_into(idempotency_keys::table)
        .values(row)
        .on_conflict(idempotency_keys::table.primary_key())
        .do_update()
        .set(row);
    Prepared(stored).execute(connection)?;
    Ok(())
}
