//! The ledger of idempotency keys.

use async_trait::async_trait;
use diesel::{
    prelude::*,
    sql_query,
    sql_types::{BigInt, Binary, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    idempotency::{Claim, IdempotencyKey, KeyUse},
    ports::{IdempotencyLedger, StoreError, Walked, WriteError},
};
use sql_rows::{KeyUseRow, WalkedKeyRow, row_limit, schema::idempotency_keys};
use time::OffsetDateTime;

use crate::{PostgresStore, failure::Failure, statement::Prepared};

/// Takes a key that is not in use.
const CLAIM: &str = "INSERT INTO idempotency_keys AS held \
    (client_id, digest, token, taken_at, kept_until) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (client_id, digest) DO UPDATE SET token = excluded.token, fingerprint = NULL, \
    order_id = NULL, taken_at = excluded.taken_at, kept_until = excluded.kept_until \
    WHERE NOT idempotency_key_in_use(held, excluded.token, excluded.taken_at)";

const IN_USE: &str = "SELECT client_id, fingerprint, order_id, kept_until, first_document, \
    documents FROM idempotency_keys AS held WHERE client_id = $1 AND digest = $2 \
    AND idempotency_key_in_use(held, $3, $4)";

/// Deletes by `ctid`, so that no plan reads the whole table. Skips rows that another instance has
/// locked.
const FORGET_FREE: &str = "WITH looked AS (\
        SELECT ctid, client_id, digest, kept_until FROM idempotency_keys \
        WHERE (client_id, digest) > ($1, $2) ORDER BY client_id, digest LIMIT $3\
    ), free AS (\
        SELECT ctid FROM idempotency_keys \
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM looked WHERE kept_until <= $4)) \
        AND kept_until <= $4 FOR UPDATE SKIP LOCKED\
    ), forgotten AS (\
        DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(SELECT ctid FROM free)) RETURNING digest\
    ) SELECT client_id, digest, (SELECT count(*) FROM forgotten) AS forgotten FROM looked \
    ORDER BY client_id DESC, digest DESC LIMIT 1";

#[derive(QueryableByName)]
#[diesel(table_name = idempotency_keys)]
struct WalkRow {
    #[diesel(embed)]
    last: WalkedKeyRow,
    #[diesel(sql_type = BigInt)]
    forgotten: i64,
}

#[async_trait]
impl IdempotencyLedger for PostgresStore {
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), WriteError> {
        let claimed = self.pool.run(async |connection| {
            let take = sql_query(CLAIM)
                .bind::<BigInt, _>(claim.key.client.0)
                .bind::<Binary, _>(&claim.key.digest)
                .bind::<Binary, _>(&claim.token.0)
                .bind::<Timestamptz, _>(now)
                .bind::<Timestamptz, _>(until);
            if Prepared(take).execute(connection).await? > 0 {
                return Ok(Ok(()));
            }
            Ok(Err(WriteError::KeyInUse(in_use_or_released(connection, claim, now).await?)))
        });
        claimed.await?
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let Claim { key, token } = claim;
        let own =
            idempotency_keys::order_id.is_null().and(idempotency_keys::token.eq(&token.0[..]));
        let key = idempotency_keys::table.find((key.client.0, &key.digest[..]));
        self.pool.write(diesel::delete(key.filter(own))).await?;
        Ok(())
    }

    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<Walked>, StoreError> {
        let WalkedKeyRow { client_id, digest } = WalkedKeyRow::before(after);
        let forget = sql_query(FORGET_FREE)
            .bind::<BigInt, _>(client_id)
            .bind::<Binary, _>(digest)
            .bind::<BigInt, _>(row_limit(limit))
            .bind::<Timestamptz, _>(now);
        let walked = self.pool.all(forget, |WalkRow { last, forgotten }| {
            let forgotten = usize::try_from(forgotten).unwrap_or_default();
            Ok(Walked { last: last.into_key()?, forgotten })
        });
        Ok(walked.await?.pop())
    }
}

/// Returns what a key is in use for at `now`; `None` if it is free or just claimed by this claim.
pub(crate) async fn in_use(
    connection: &mut AsyncPgConnection,
    claim: &Claim,
    now: OffsetDateTime,
) -> Result<Option<KeyUse>, Failure> {
    let query = sql_query(IN_USE)
        .bind::<BigInt, _>(claim.key.client.0)
        .bind::<Binary, _>(&claim.key.digest)
        .bind::<Binary, _>(&claim.token.0)
        .bind::<Timestamptz, _>(now);
    let row: Option<KeyUseRow> = Prepared(query).get_result(connection).await.optional()?;
    Ok(row.map(KeyUseRow::into_use).transpose()?)
}

/// Returns what a key was in use for that could not be taken. The other request may have released
/// it in between; then the next attempt gets it.
pub(crate) async fn in_use_or_released(
    connection: &mut AsyncPgConnection,
    claim: &Claim,
    now: OffsetDateTime,
) -> Result<KeyUse, Failure> {
    Ok(in_use(connection, claim, now).await?.unwrap_or(KeyUse::InProgress { until: now }))
}
