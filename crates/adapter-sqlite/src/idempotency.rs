//! Idempotency keys in use.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::Sqlite, sqlite::SqliteConnection};
use domain::{
    api_key::ApiKeyId,
    idempotency::{Answered, Claim, Fingerprint, IdempotencyKey, KeyUse, Remembrance},
    order::OrderId,
    ports::{ClaimError, IdempotencyLedger, RememberedRequest, StoreError},
};
use time::OffsetDateTime;

use crate::{
    SqliteStore,
    failure::{Failure, Unreadable},
    rows::{instant, micros, row_limit},
    schema::idempotency_keys,
};

#[derive(Insertable, AsChangeset, Queryable, Selectable)]
#[diesel(table_name = idempotency_keys, check_for_backend(Sqlite), treat_none_as_null = true)]
struct KeyRow {
    client_id: i64,
    digest: Vec<u8>,
    token: Vec<u8>,
    fingerprint: Option<Vec<u8>>,
    order_id: Option<i64>,
    taken_at_us: i64,
    kept_until_us: i64,
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
            taken_at_us: micros(now),
            kept_until_us: micros(until),
        }
    }

    fn unreadable(&self, column: &'static str) -> Unreadable {
        Unreadable { table: "idempotency_keys", row: format!("of client {}", self.client_id), column }
    }

    fn instant(&self, micros: i64, column: &'static str) -> Result<OffsetDateTime, Unreadable> {
        instant(micros).ok_or_else(|| self.unreadable(column))
    }

    fn answered(&self) -> Result<Option<Answered>, Unreadable> {
        let (Some(order_id), Some(fingerprint)) = (self.order_id, &self.fingerprint) else { return Ok(None) };
        let fingerprint = fingerprint.as_slice().try_into().map_err(|_| self.unreadable("fingerprint"))?;
        Ok(Some(Answered { fingerprint: Fingerprint(fingerprint), order_id: OrderId(order_id) }))
    }

    fn key_use(&self) -> Result<KeyUse, Unreadable> {
        Ok(match self.answered()? {
            Some(answered) => KeyUse::Answered(answered),
            None => KeyUse::InFlight { until: self.instant(self.kept_until_us, "kept_until_us")? },
        })
    }

    fn into_remembered(self) -> Result<RememberedRequest, Unreadable> {
        let digest = self.digest.as_slice().try_into().map_err(|_| self.unreadable("digest"))?;
        Ok(RememberedRequest {
            key: IdempotencyKey { client: ApiKeyId(self.client_id), digest },
            answered: self.answered()?.ok_or_else(|| self.unreadable("order_id"))?,
            taken_at: self.instant(self.taken_at_us, "taken_at_us")?,
            kept_until: self.instant(self.kept_until_us, "kept_until_us")?,
        })
    }
}

/// Why a key was not claimed.
enum NotClaimed {
    Taken(KeyUse),
    Failed(Failure),
}

impl From<Failure> for NotClaimed {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<NotClaimed> for ClaimError {
    fn from(not_claimed: NotClaimed) -> Self {
        match not_claimed {
            NotClaimed::Taken(taken) => Self::Taken(taken),
            NotClaimed::Failed(failure) => match failure.into() {
                StoreError::Unavailable(cause) => Self::Unavailable(cause),
                StoreError::Internal(cause) => Self::Internal(cause),
            },
        }
    }
}

#[async_trait]
impl IdempotencyLedger for SqliteStore {
    async fn claim(&self, claim: &Claim, now: OffsetDateTime, until: OffsetDateTime) -> Result<(), ClaimError> {
        let claim = claim.clone();
        let take = move |connection: &mut SqliteConnection| match in_use(connection, &claim, now)? {
            Some(taken) => Err(NotClaimed::Taken(taken)),
            None => Ok(keep(connection, &KeyRow::claimed(&claim, now, until))?),
        };
        Ok(self.writer.run(take).await?)
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let claim = claim.clone();
        Ok(self.writer.run(move |connection| release(connection, &claim)).await?)
    }

    async fn forget_free(&self, now: OffsetDateTime, limit: usize) -> Result<usize, StoreError> {
        Ok(self.writer.run(move |connection| forget_free(connection, now, limit)).await?)
    }
}

/// What a key is in use for at `now`, unless for this very claim.
pub(crate) fn in_use(connection: &mut SqliteConnection, claim: &Claim, now: OffsetDateTime) -> Result<Option<KeyUse>, Failure> {
    let Claim { key, token } = claim;
    let others = idempotency_keys::order_id.is_not_null().or(idempotency_keys::token.ne(&token.0[..]));
    let row: Option<KeyRow> = idempotency_keys::table
        .find((key.client.0, &key.digest[..]))
        .filter(idempotency_keys::kept_until_us.gt(micros(now)).and(others))
        .select(KeyRow::as_select())
        .first(connection)
        .optional()?;
    Ok(row.map(|row| row.key_use()).transpose()?)
}

/// Remembers a request under its key, which is not [`in_use`].
pub(crate) fn remember(connection: &mut SqliteConnection, remembrance: &Remembrance, order: OrderId, placed_at: OffsetDateTime) -> Result<(), Failure> {
    let Remembrance { attempt, kept_until } = remembrance;
    let claimed = KeyRow::claimed(&attempt.claim, placed_at, *kept_until);
    keep(connection, &KeyRow { fingerprint: Some(attempt.fingerprint.0.to_vec()), order_id: Some(order.0), ..claimed })
}

fn keep(connection: &mut SqliteConnection, row: &KeyRow) -> Result<(), Failure> {
    diesel::replace_into(idempotency_keys::table).values(row).execute(connection)?;
    Ok(())
}

fn release(connection: &mut SqliteConnection, claim: &Claim) -> Result<(), Failure> {
    let Claim { key, token } = claim;
    let own = idempotency_keys::order_id.is_null().and(idempotency_keys::token.eq(&token.0[..]));
    diesel::delete(idempotency_keys::table.find((key.client.0, &key.digest[..])).filter(own)).execute(connection)?;
    Ok(())
}

fn forget_free(connection: &mut SqliteConnection, now: OffsetDateTime, limit: usize) -> Result<usize, Failure> {
    let free: Vec<(i64, Vec<u8>)> = idempotency_keys::table
        .filter(idempotency_keys::kept_until_us.le(micros(now)))
        .order(idempotency_keys::kept_until_us)
        .limit(row_limit(limit))
        .select((idempotency_keys::client_id, idempotency_keys::digest))
        .load(connection)?;
    for (client, digest) in &free {
        diesel::delete(idempotency_keys::table.find((client, digest))).execute(connection)?;
    }
    Ok(free.len())
}

/// Requests that are remembered under keys after `after`.
pub(crate) fn remembered(connection: &mut SqliteConnection, after: Option<IdempotencyKey>, limit: usize) -> Result<Vec<RememberedRequest>, Failure> {
    let (client, digest) = after.map_or((i64::MIN, Vec::new()), |key| (key.client.0, key.digest.to_vec()));
    let later = idempotency_keys::client_id.gt(client).or(idempotency_keys::client_id.eq(client).and(idempotency_keys::digest.gt(digest)));
    let rows: Vec<KeyRow> = idempotency_keys::table
        .filter(idempotency_keys::order_id.is_not_null().and(later))
        .order((idempotency_keys::client_id, idempotency_keys::digest))
        .limit(row_limit(limit))
        .select(KeyRow::as_select())
        .load(connection)?;
    Ok(rows.into_iter().map(KeyRow::into_remembered).collect::<Result<_, _>>()?)
}
