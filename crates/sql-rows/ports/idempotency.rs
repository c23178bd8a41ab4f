//! The ledger of idempotency keys.

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_types::{BigInt, Binary, Bool},
};
use domain::{
    idempotency::{Claim, IdempotencyKey},
    ports::{IdempotencyLedger, StoreError, WriteError},
};
use sql_rows::{Utc, key_of, row_limit, schema::idempotency_keys};
use time::OffsetDateTime;

use crate::{
    claims,
    dialect::{Connection, RunQueryDsl, Store},
    failure::Failure,
};

/// The primary key of an idempotency key.
type Row = (i64, bool, Vec<u8>);

#[async_trait]
impl IdempotencyLedger for Store {
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), WriteError> {
        claims::claim(self, claim, Utc(now), Utc(until)).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let Claim { key, token } = claim;
        let own = idempotency_keys::table
            .find((key.client.0, key.is_test, key.digest.to_vec()))
            .filter(idempotency_keys::order_id.is_null())
            .filter(idempotency_keys::token.eq(token.0.to_vec()));
        self.execute(diesel::delete(own)).await.map(drop)
    }

    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<IdempotencyKey>, StoreError> {
        // The databases look up a comparison of rows in the primary key; diesel has none.
        let beyond = |condition: &str, (client, is_test, digest): Row| {
            let key = sql::<Bool>(condition).bind::<BigInt, _>(client).sql(", ");
            key.bind::<Bool, _>(is_test).sql(", ").bind::<Binary, _>(digest).sql(")")
        };
        let row = |key: IdempotencyKey| (key.client.0, key.is_test, key.digest.to_vec());
        let first = after.map_or((i64::MIN, false, Vec::new()), row);
        let later = beyond("(client_id, is_test, digest) > (", first.clone());
        let is_kept = idempotency_keys::kept_until.gt(Utc(now));
        let walk = async move |connection: &mut Connection| {
            let walk = idempotency_keys::table
                .filter(later)
                .order(idempotency_keys::table.primary_key())
                .limit(row_limit(limit))
                .select((idempotency_keys::table.primary_key(), is_kept));
            let keys: Vec<(Row, bool)> = walk.get_results(connection).await?;
            Ok(keys)
        };
        let mut keys = self.read_ported(walk).await?;
        let has_free = keys.iter().any(|(_, is_kept)| !is_kept);
        let Some((last, _)) = keys.pop() else { return Ok(None) };
        if has_free {
            // A request may have taken a key again meanwhile.
            let free = idempotency_keys::table
                .filter(idempotency_keys::kept_until.le(Utc(now)))
                .filter(beyond("(client_id, is_test, digest) > (", first))
                .filter(beyond("(client_id, is_test, digest) <= (", last.clone()));
            self.execute(diesel::delete(free)).await?;
        }
        Ok(Some(key_of(last).map_err(Failure::from)?))
    }
}
