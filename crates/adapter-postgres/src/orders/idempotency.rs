//! The ledger of idempotency keys.

use async_trait::async_trait;
use diesel::prelude::*;
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    idempotency::{Claim, IdempotencyKey, KeyUse},
    ports::{IdempotencyLedger, OrderCommandRequest, StoreError, WriteError},
};
use sql_rows::{
    Utc,
    idempotency_keys::{KeyRow, first_key, free_keys, key_of, key_row, keys_after, own_claim},
    row_limit,
    schema::idempotency_keys,
};
use time::OffsetDateTime;

use crate::{
    failure::Failure,
    group_commit::key_use::{in_use_or_released, remember},
    statement::{KEY_IN_USE, UPLOAD_SWEPT},
    store::PostgresStore,
};

#[async_trait]
impl IdempotencyLedger for PostgresStore {
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), WriteError> {
        let row = KeyRow::claimed(claim, Utc(now), Utc(until));
        match self.pool.run(async |connection| remember(connection, &row).await).await {
            Err(failure) if failure.rejected_by() == Some(KEY_IN_USE) => {
                Err(WriteError::KeyInUse(taken(self, claim, Utc(now)).await?))
            }
            claimed => Ok(claimed?),
        }
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
        let walk = async move |connection: &mut AsyncPgConnection| {
            let walk = later.limit(row_limit(limit)).select((
                idempotency_keys::table.primary_key(),
                idempotency_keys::kept_until.gt(Utc(now)),
            ));
            Ok(walk.get_results::<((i64, bool, Vec<u8>), bool)>(connection).await?)
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

/// Returns the error of a command that failed.
pub(super) async fn rejection(
    store: &PostgresStore,
    failure: Failure,
    OrderCommandRequest { idempotent_request, at, .. }: &OrderCommandRequest,
) -> WriteError {
    match (failure.rejected_by(), idempotent_request) {
        (Some(UPLOAD_SWEPT), _) => WriteError::UploadSwept,
        (Some(KEY_IN_USE), Some(request)) => taken(store, &request.attempt.claim, Utc(*at))
            .await
            .map_or_else(Into::into, WriteError::KeyInUse),
        _ => failure.into(),
    }
}

async fn taken(store: &PostgresStore, claim: &Claim, now: Utc) -> Result<KeyUse, Failure> {
    store.pool.run(async |connection| in_use_or_released(connection, claim, now).await).await
}
