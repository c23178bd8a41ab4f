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
    ports::{IdempotencyLedger, StoreError, Walked, WriteError},
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
    fn claimed(claim: &Claim, now: Utc, until: OffsetDateTime) -> Self {
        let Claim { key, token } = claim;
        Self {
            client_id: key.client.0,
            digest: key.digest.to_vec(),
            token: token.0.to_vec(),
            fingerprint: None,
            order_id: None,
            taken_at: now,
            kept_until: Utc(until),
            first_document: None,
            documents: None,
        }
    }

    fn replace(&self, connection: &mut SqliteConnection) -> Result<(), Failure> {
        diesel::replace_into(idempotency_keys::table).values(self).execute(connection)?;
        Ok(())
    }
}

#[async_trait]
impl IdempotencyLedger for SqliteStore {
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), WriteError> {
        let (claim, now) = (claim.clone(), Utc(now));
        let take = move |connection: &mut SqliteConnection| match in_use(connection, &claim, now)? {
            Some(key_use) => Err(WriteError::KeyInUse(key_use)),
            None => Ok(KeyRow::claimed(&claim, now, until).replace(connection)?),
        };
        self.writer.run(take).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let Claim { key, token } = claim.clone();
        let release = move |connection: &mut SqliteConnection| {
            let own = idempotency_keys::table
                .find((key.client.0, &key.digest[..]))
                .filter(idempotency_keys::order_id.is_null())
                .filter(idempotency_keys::token.eq(&token.0[..]));
            diesel::delete(own).execute(connection)?;
            Ok(())
        };
        self.write(release).await
    }

    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<Walked>, StoreError> {
        let keys = self.read(move |connection| some_keys(connection, after, now, limit)).await?;
        let Some((last, _)) = keys.last() else { return Ok(None) };
        let last = last.clone().into_key().map_err(Failure::from)?;
        let free: Vec<_> =
            keys.into_iter().filter_map(|(key, is_kept)| (!is_kept).then_some(key)).collect();
        if free.is_empty() {
            return Ok(Some(Walked { last, forgotten: 0 }));
        }
        let forget = move |connection: &mut SqliteConnection| {
            let mut forgotten = 0;
            for WalkedKeyRow { client_id, digest } in &free {
                // A request may have taken the key again meanwhile.
                let free = idempotency_keys::table.find((client_id, digest));
                let free = free.filter(dsl::not(is_kept(Utc(now))));
                forgotten += diesel::delete(free).execute(connection)?;
            }
            Ok(forgotten)
        };
        Ok(Some(Walked { last, forgotten: self.write(forget).await? }))
    }
}

/// Selects the rows that keep their keys at `now`. A key that is not kept is free.
fn is_kept(now: Utc) -> dsl::Gt<idempotency_keys::kept_until, Utc> {
    idempotency_keys::kept_until.gt(now)
}

/// Returns what uses the key of a claim at `now`. This is the rule of a key in use: a request was
/// answered with an order under it, or a request is in progress under another claim.
fn in_use(
    connection: &mut SqliteConnection,
    Claim { key, token }: &Claim,
    now: Utc,
) -> Result<Option<KeyUse>, Failure> {
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

/// Returns what uses the key of a request, if it has one.
pub(crate) fn in_use_by(
    connection: &mut SqliteConnection,
    request: Option<&IdempotentRequest>,
    now: Utc,
) -> Result<Option<KeyUse>, Failure> {
    request.map_or(Ok(None), |request| in_use(connection, &request.attempt.claim, now))
}

/// Records the order of a request under its key, which must not be in use, and the documents that
/// the request added to the order.
pub(crate) fn remember(
    connection: &mut SqliteConnection,
    IdempotentRequest { attempt, kept_until }: &IdempotentRequest,
    order_id: i64,
    at: Utc,
    added: Option<AddedRange>,
) -> Result<(), Failure> {
    let number = |number: u32| i32::try_from(number).map_err(|e| Failure::Unstorable(e.into()));
    let row = KeyRow {
        fingerprint: Some(attempt.fingerprint.0.to_vec()),
        order_id: Some(order_id),
        first_document: added.map(|added| number(added.first_position)).transpose()?,
        documents: added.map(|added| number(added.count)).transpose()?,
        ..KeyRow::claimed(&attempt.claim, at, *kept_until)
    };
    row.replace(connection)
}

/// Returns keys after `after` in the order of the primary key, and whether each is kept.
fn some_keys(
    connection: &mut SqliteConnection,
    after: Option<IdempotencyKey>,
    now: OffsetDateTime,
    limit: usize,
) -> Result<Vec<(WalkedKeyRow, bool)>, Failure> {
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
        .select((WalkedKeyRow::as_select(), is_kept(Utc(now))))
        .load(connection)?)
}
