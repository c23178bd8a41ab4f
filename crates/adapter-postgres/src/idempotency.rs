//! Idempotency keys in use.

use async_trait::async_trait;
use diesel::{
    pg::Pg,
    prelude::*,
    sql_types::{BigInt, Binary, Timestamptz},
    upsert::excluded,
};
use diesel_async::{AsyncPgConnection, RunQueryDsl};
use domain::{
    api_key::ApiKeyId,
    idempotency::{Answered, Claim, Fingerprint, IdempotencyKey, KeyUse},
    order::OrderId,
    ports::{ClaimError, IdempotencyLedger, RememberedRequest, StoreError},
};
use futures_util::FutureExt as _;
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    failure::{Failure, Unreadable},
    rows::row_limit,
    schema::idempotency_keys,
    statement::Prepared,
};

#[derive(Insertable)]
#[diesel(table_name = idempotency_keys)]
pub(crate) struct NewKeyRow {
    client_id: i64,
    digest: Vec<u8>,
    token: Vec<u8>,
    fingerprint: Option<Vec<u8>>,
    order_id: Option<i64>,
    taken_at: OffsetDateTime,
    kept_until: OffsetDateTime,
}

impl NewKeyRow {
    fn claimed(claim: Claim, now: OffsetDateTime, until: OffsetDateTime) -> Self {
        let Claim { key, token } = claim;
        let (digest, token) = (key.digest.to_vec(), token.0.to_vec());
        Self {
            client_id: key.client.0,
            digest,
            token,
            fingerprint: None,
            order_id: None,
            taken_at: now,
            kept_until: until,
        }
    }

    /// Of a request that was remembered in another store, where its claim stays.
    pub(crate) fn moved(remembered: &RememberedRequest) -> Self {
        let RememberedRequest { key, answered, taken_at, kept_until } = remembered;
        Self {
            client_id: key.client.0,
            digest: key.digest.to_vec(),
            token: vec![0; 16],
            fingerprint: Some(answered.fingerprint.0.to_vec()),
            order_id: Some(answered.order_id.0),
            taken_at: *taken_at,
            kept_until: *kept_until,
        }
    }
}

#[derive(Queryable, Selectable)]
#[diesel(table_name = idempotency_keys, check_for_backend(Pg))]
struct KeyUseRow {
    client_id: i64,
    fingerprint: Option<Vec<u8>>,
    order_id: Option<i64>,
    kept_until: OffsetDateTime,
}

impl KeyUseRow {
    fn into_use(self) -> Result<KeyUse, Unreadable> {
        let (Some(order_id), Some(fingerprint)) = (self.order_id, self.fingerprint) else {
            return Ok(KeyUse::InFlight { until: self.kept_until });
        };
        let unreadable = |_| Unreadable {
            table: "idempotency_keys",
            row: format!("of client {}", self.client_id),
            column: "fingerprint",
        };
        Ok(KeyUse::Answered(Answered {
            fingerprint: Fingerprint(fingerprint.try_into().map_err(unreadable)?),
            order_id: OrderId(order_id),
        }))
    }
}

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
            Ok(Some(taken)) => Err(ClaimError::Taken(taken)),
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
    ) -> Result<Option<IdempotencyKey>, StoreError> {
        Ok(self
            .pool
            .run(move |connection| forget_free(connection, after, now, limit).boxed())
            .await?)
    }
}

async fn try_claim(
    connection: &mut AsyncPgConnection,
    claim: Claim,
    now: OffsetDateTime,
    until: OffsetDateTime,
) -> Result<Option<KeyUse>, Failure> {
    use diesel::query_dsl::methods::FilterDsl as _;

    use crate::schema::idempotency_keys::dsl;

    let own = dsl::order_id.is_null().and(dsl::token.eq(claim.token.0.to_vec()));
    let take = diesel::insert_into(idempotency_keys::table)
        .values(NewKeyRow::claimed(claim.clone(), now, until))
        .on_conflict((dsl::client_id, dsl::digest))
        .do_update()
        .set((
            dsl::token.eq(excluded(dsl::token)),
            dsl::fingerprint.eq(excluded(dsl::fingerprint)),
            dsl::order_id.eq(excluded(dsl::order_id)),
            dsl::taken_at.eq(excluded(dsl::taken_at)),
            dsl::kept_until.eq(excluded(dsl::kept_until)),
        ))
        .filter(dsl::kept_until.le(now).or(own));
    if Prepared(take).execute(connection).await? > 0 {
        return Ok(None);
    }
    // Who had it may have given it up in between; then the next attempt gets it.
    Ok(Some(in_use(connection, &claim, now).await?.unwrap_or(KeyUse::InFlight { until: now })))
}

/// What a key is in use for at `now`, unless for this very claim.
pub(crate) async fn in_use(
    connection: &mut AsyncPgConnection,
    claim: &Claim,
    now: OffsetDateTime,
) -> Result<Option<KeyUse>, Failure> {
    let Claim { key, token } = claim;
    let others =
        idempotency_keys::order_id.is_not_null().or(idempotency_keys::token.ne(token.0.to_vec()));
    let row: Option<KeyUseRow> = idempotency_keys::table
        .find((key.client.0, key.digest.to_vec()))
        .filter(idempotency_keys::kept_until.gt(now).and(others))
        .select(KeyUseRow::as_select())
        .first(connection)
        .await
        .optional()?;
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

/// Rows are found by their place once they were looked at, so that no plan reads the whole table.
/// What another instance is at is left to it.
const FORGET_FREE: &str = "WITH looked AS (
        SELECT ctid, client_id, digest, kept_until FROM idempotency_keys WHERE (client_id, digest) > ($1, $2) ORDER BY client_id, digest LIMIT $3
    ), free AS (
        SELECT ctid FROM idempotency_keys WHERE ctid = ANY (ARRAY(SELECT ctid FROM looked WHERE kept_until <= $4)) AND kept_until <= $4
        FOR UPDATE SKIP LOCKED
    ), forgotten AS (
        DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(SELECT ctid FROM free))
    ) SELECT client_id, digest FROM looked ORDER BY client_id DESC, digest DESC LIMIT 1";

#[derive(QueryableByName)]
#[diesel(table_name = idempotency_keys, check_for_backend(Pg))]
struct Looked {
    client_id: i64,
    digest: Vec<u8>,
}

async fn forget_free(
    connection: &mut AsyncPgConnection,
    after: Option<IdempotencyKey>,
    now: OffsetDateTime,
    limit: usize,
) -> Result<Option<IdempotencyKey>, Failure> {
    let (client, digest) =
        after.map_or((i64::MIN, Vec::new()), |key| (key.client.0, key.digest.to_vec()));
    let walk = diesel::sql_query(FORGET_FREE).bind::<BigInt, _>(client).bind::<Binary, _>(digest);
    let looked: Vec<Looked> = walk
        .bind::<BigInt, _>(row_limit(limit))
        .bind::<Timestamptz, _>(now)
        .get_results(connection)
        .await?;
    let read = |Looked { client_id, digest }| {
        let unreadable = |_| Unreadable {
            table: "idempotency_keys",
            row: format!("of client {client_id}"),
            column: "digest",
        };
        Ok::<_, Failure>(IdempotencyKey {
            client: ApiKeyId(client_id),
            digest: digest.try_into().map_err(unreadable)?,
        })
    };
    looked.into_iter().next().map(read).transpose()
}
