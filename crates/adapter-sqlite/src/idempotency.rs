//! Idempotency keys in use.

use async_trait::async_trait;
use diesel::{
    dsl::{self, sql},
    prelude::*,
    sql_types::{BigInt, Binary, Bool},
    sqlite::SqliteConnection,
};
use domain::{
    idempotency::{AddedRange, Claim, IdempotencyKey, IdempotentRequest, KeyUse},
    order::OrderId,
    ports::{ClaimError, IdempotencyLedger, StoreError, Walked},
};
use sql_rows::{KeyUseRow, Utc, WalkedKeyRow, row_limit, schema::idempotency_keys};
use time::OffsetDateTime;

use crate::{failure::Failure, store::SqliteStore};

#[derive(Insertable)]
// Binds `NULL` for absent values, so the statement text is constant and stays prepared.
#[diesel(table_name = idempotency_keys, treat_none_as_default_value = false)]
struct KeyRow {
    client_id: i64,
    digest: Vec<u8>,
    token: Vec<u8>,
    fingerprint: Option<Vec<u8>>,
    order_id: Option<i64>,
    taken_at: Utc,
    kept_until: Utc,
    first_document: Option<i32>,
    documents: Option<i32>,
}

impl KeyRow {
    fn claimed(claim: &Claim, now: OffsetDateTime, until: OffsetDateTime) -> Self {
        let Claim { key, token } = claim;
        Self {
            client_id: key.client.0,
            digest: key.digest.to_vec(),
            token: token.0.to_vec(),
            fingerprint: None,
            order_id: None,
            taken_at: Utc(now),
            kept_until: Utc(until),
            first_document: None,
            documents: None,
        }
    }
}

#[async_trait]
impl IdempotencyLedger for SqliteStore {
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), ClaimError> {
        let claim = claim.clone();
        let take = move |connection: &mut SqliteConnection| match in_use(connection, &claim, now)? {
            Some(key_use) => Err(ClaimError::InUse(key_use)),
            None => Ok(replace(connection, &KeyRow::claimed(&claim, now, until))?),
        };
        self.writer.run(take).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let claim = claim.clone();
        Ok(self.writer.run(move |connection| release(connection, &claim)).await?)
    }

    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<Walked>, StoreError> {
        let keys =
            self.reader.run(move |connection| some_keys(connection, after, now, limit)).await?;
        let Some((last, _)) = keys.last() else { return Ok(None) };
        let last = last.clone().into_key().map_err(Failure::from)?;
        let free: Vec<_> = keys.into_iter().filter(|(_, is_kept)| !is_kept).collect();
        if free.is_empty() {
            return Ok(Some(Walked { last, forgotten: 0 }));
        }
        let forgotten = self.writer.run(move |connection| forget(connection, &free, now)).await?;
        Ok(Some(Walked { last, forgotten }))
    }
}

/// Selects the rows that keep their keys at `now`. A key that is not kept is free.
fn is_kept(now: OffsetDateTime) -> dsl::Gt<idempotency_keys::kept_until, Utc> {
    idempotency_keys::kept_until.gt(Utc(now))
}

/// Returns what uses the key of a claim at `now`. This is the rule of a key in use: a request was
/// answered with an order under it, or a request is in progress under another claim.
pub(crate) fn in_use(
    connection: &mut SqliteConnection,
    claim: &Claim,
    now: OffsetDateTime,
) -> Result<Option<KeyUse>, Failure> {
    let Claim { key, token } = claim;
    let other_request =
        idempotency_keys::order_id.is_not_null().or(idempotency_keys::token.ne(&token.0[..]));
    let row: Option<KeyUseRow> = idempotency_keys::table
        .find((key.client.0, &key.digest[..]))
        .filter(is_kept(now).and(other_request))
        .select(KeyUseRow::as_select())
        .first(connection)
        .optional()?;
    Ok(row.map(KeyUseRow::into_use).transpose()?)
}

/// Records the order of a request under its key, which must not be [`in_use`], and the documents
/// that the request added to the order.
pub(crate) fn remember(
    connection: &mut SqliteConnection,
    idempotent_request: &IdempotentRequest,
    order: OrderId,
    at: OffsetDateTime,
    added: Option<AddedRange>,
) -> Result<(), Failure> {
    let number = |number: u32| i32::try_from(number).map_err(|e| Failure::Unstorable(e.into()));
    let IdempotentRequest { attempt, kept_until } = idempotent_request;
    let row = KeyRow {
        fingerprint: Some(attempt.fingerprint.0.to_vec()),
        order_id: Some(order.0),
        first_document: added.map(|added| number(added.first_position)).transpose()?,
        documents: added.map(|added| number(added.count)).transpose()?,
        ..KeyRow::claimed(&attempt.claim, at, *kept_until)
    };
    replace(connection, &row)
}

fn replace(connection: &mut SqliteConnection, row: &KeyRow) -> Result<(), Failure> {
    diesel::replace_into(idempotency_keys::table).values(row).execute(connection)?;
    Ok(())
}

fn release(connection: &mut SqliteConnection, claim: &Claim) -> Result<(), Failure> {
    let Claim { key, token } = claim;
    let own = idempotency_keys::order_id.is_null().and(idempotency_keys::token.eq(&token.0[..]));
    diesel::delete(idempotency_keys::table.find((key.client.0, &key.digest[..])).filter(own))
        .execute(connection)?;
    Ok(())
}

/// A key, and whether it is kept.
type ListedKey = (WalkedKeyRow, bool);

/// Returns keys after `after` in the order of the primary key.
fn some_keys(
    connection: &mut SqliteConnection,
    after: Option<IdempotencyKey>,
    now: OffsetDateTime,
    limit: usize,
) -> Result<Vec<ListedKey>, Failure> {
    let WalkedKeyRow { client_id, digest } = WalkedKeyRow::before(after);
    // SQLite looks up a comparison of rows in the primary key; diesel has none.
    let later = sql::<Bool>("(client_id, digest) > (")
        .bind::<BigInt, _>(client_id)
        .sql(", ")
        .bind::<Binary, _>(digest)
        .sql(")");
    Ok(idempotency_keys::table
        .filter(later)
        .order((idempotency_keys::client_id, idempotency_keys::digest))
        .limit(row_limit(limit))
        .select((WalkedKeyRow::as_select(), is_kept(now)))
        .load(connection)?)
}

fn forget(
    connection: &mut SqliteConnection,
    keys: &[ListedKey],
    now: OffsetDateTime,
) -> Result<usize, Failure> {
    let mut forgotten = 0;
    for (key, _) in keys {
        // A request may have taken the key again meanwhile.
        let free = dsl::not(is_kept(now));
        forgotten +=
            diesel::delete(idempotency_keys::table.find((key.client_id, &key.digest)).filter(free))
                .execute(connection)?;
    }
    Ok(forgotten)
}
