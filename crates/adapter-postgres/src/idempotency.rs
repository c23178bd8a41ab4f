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
    ports::{ClaimError, IdempotencyLedger, StoreError, Walked},
};
use futures_util::FutureExt as _;
use sql_rows::{KeyUseRow, WalkedKeyRow, row_limit, schema::idempotency_keys};
use time::OffsetDateTime;

use crate::{PostgresStore, failure::Failure, statement::Prepared};

#[async_trait]
impl IdempotencyLedger for PostgresStore {
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), ClaimError> {
        let claim = claim.clone();
        match self
            .pool
            .run(move |connection| try_claim(connection, claim, now, until).boxed())
            .await
        {
            Ok(None) => Ok(()),
            Ok(Some(taken)) => Err(ClaimError::InUse(taken)),
            Err(failure) => Err(match StoreError::from(failure) {
                StoreError::Unavailable(cause) => ClaimError::Unavailable(cause),
                StoreError::Internal(cause) => ClaimError::Internal(cause),
            }),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let claim = claim.clone();
        Ok(self.pool.run(move |connection| release(connection, claim).boxed()).await?)
    }

    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<Walked>, StoreError> {
        Ok(self
            .pool
            .run(move |connection| forget_free(connection, after, now, limit).boxed())
            .await?)
    }
}

/// Takes a key that is not in use.
const CLAIM: &str = "INSERT INTO idempotency_keys AS held \
    (client_id, digest, token, taken_at, kept_until) VALUES ($1, $2, $3, $4, $5) \
    ON CONFLICT (client_id, digest) DO UPDATE SET token = excluded.token, fingerprint = NULL, \
    order_id = NULL, taken_at = excluded.taken_at, kept_until = excluded.kept_until \
    WHERE NOT idempotency_key_in_use(held, excluded.token, excluded.taken_at)";

async fn try_claim(
    connection: &mut AsyncPgConnection,
    claim: Claim,
    now: OffsetDateTime,
    until: OffsetDateTime,
) -> Result<Option<KeyUse>, Failure> {
    let Claim { key, token } = &claim;
    let take = sql_query(CLAIM)
        .bind::<BigInt, _>(key.client.0)
        .bind::<Binary, _>(&key.digest)
        .bind::<Binary, _>(&token.0)
        .bind::<Timestamptz, _>(now)
        .bind::<Timestamptz, _>(until);
    if Prepared(take).execute(connection).await? > 0 {
        return Ok(None);
    }
    // The other request may have released the key in between; then the next attempt gets it.
    Ok(Some(in_use(connection, &claim, now).await?.unwrap_or(KeyUse::InProgress { until: now })))
}

/// Returns what a key is in use for at `now`; `None` if it is free or just claimed by this claim.
pub(crate) async fn in_use(
    connection: &mut AsyncPgConnection,
    claim: &Claim,
    now: OffsetDateTime,
) -> Result<Option<KeyUse>, Failure> {
    const IN_USE: &str = "SELECT client_id, fingerprint, order_id, kept_until, first_document, \
        documents FROM idempotency_keys AS held WHERE client_id = $1 AND digest = $2 \
        AND idempotency_key_in_use(held, $3, $4)";
    let Claim { key, token } = claim;
    let query = sql_query(IN_USE)
        .bind::<BigInt, _>(key.client.0)
        .bind::<Binary, _>(&key.digest)
        .bind::<Binary, _>(&token.0)
        .bind::<Timestamptz, _>(now);
    let row: Option<KeyUseRow> = Prepared(query).get_result(connection).await.optional()?;
    Ok(row.map(KeyUseRow::into_use).transpose()?)
}

async fn release(connection: &mut AsyncPgConnection, claim: Claim) -> Result<(), Failure> {
    let Claim { key, token } = claim;
    let own =
        idempotency_keys::order_id.is_null().and(idempotency_keys::token.eq(token.0.to_vec()));
    Prepared(diesel::delete(
        idempotency_keys::table.find((key.client.0, key.digest.to_vec())).filter(own),
    ))
    .execute(connection)
    .await?;
    Ok(())
}

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

async fn forget_free(
    connection: &mut AsyncPgConnection,
    after: Option<IdempotencyKey>,
    now: OffsetDateTime,
    limit: usize,
) -> Result<Option<Walked>, Failure> {
    let WalkedKeyRow { client_id, digest } = WalkedKeyRow::before(after);
    let walked: Option<WalkRow> = sql_query(FORGET_FREE)
        .bind::<BigInt, _>(client_id)
        .bind::<Binary, _>(digest)
        .bind::<BigInt, _>(row_limit(limit))
        .bind::<Timestamptz, _>(now)
        .get_result(connection)
        .await
        .optional()?;
    let Some(WalkRow { last, forgotten }) = walked else { return Ok(None) };
    let forgotten = usize::try_from(forgotten).unwrap_or_default();
    Ok(Some(Walked { last: last.into_key()?, forgotten }))
}
