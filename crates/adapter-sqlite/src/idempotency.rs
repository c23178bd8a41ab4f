//! Idempotency keys in use.

use async_trait::async_trait;
use diesel::{
    dsl::sql,
    prelude::*,
    sql_types::{BigInt, Binary, Bool},
    sqlite::{Sqlite, SqliteConnection},
};
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
#[diesel(table_name = idempotency_keys, check_for_backend(Sqlite), treat_none_as_null = true, treat_none_as_default_value = false)]
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
        Unreadable {
            table: "idempotency_keys",
            row: format!("of client {}", self.client_id),
            column,
        }
    }

    fn instant(&self, micros: i64, column: &'static str) -> Result<OffsetDateTime, Unreadable> {
        instant(micros).ok_or_else(|| self.unreadable(column))
    }

    fn answered(&self) -> Result<Option<Answered>, Unreadable> {
        let (Some(order_id), Some(fingerprint)) = (self.order_id, &self.fingerprint) else {
            return Ok(None);
        };
        let fingerprint =
            fingerprint.as_slice().try_into().map_err(|_| self.unreadable("fingerprint"))?;
        Ok(Some(Answered { fingerprint: Fingerprint(fingerprint), order_id: OrderId(order_id) }))
    }

    fn key_use(&self) -> Result<KeyUse, Unreadable> {
        Ok(match self.answered()? {
            Some(answered) => KeyUse::Answered(answered),
            None => KeyUse::InFlight { until: self.instant(self.kept_until_us, "kept_until_us")? },
        })
    }

    fn into_remembered(self) -> Result<RememberedRequest, Unreadable> {
        Ok(RememberedRequest {
            key: read_key(self.client_id, &self.digest)?,
            answered: self.answered()?.ok_or_else(|| self.unreadable("order_id"))?,
            taken_at: self.instant(self.taken_at_us, "taken_at_us")?,
            kept_until: self.instant(self.kept_until_us, "kept_until_us")?,
        })
    }
}

fn read_key(client: i64, digest: &[u8]) -> Result<IdempotencyKey, Unreadable> {
    let unreadable = |_| Unreadable {
        table: "idempotency_keys",
        row: format!("of client {client}"),
        column: "digest",
    };
    Ok(IdempotencyKey { client: ApiKeyId(client), digest: digest.try_into().map_err(unreadable)? })
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
    async fn claim(
        &self,
        claim: &Claim,
        now: OffsetDateTime,
        until: OffsetDateTime,
    ) -> Result<(), ClaimError> {
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

    async fn forget_free(
        &self,
        after: Option<IdempotencyKey>,
        now: OffsetDateTime,
        limit: usize,
    ) -> Result<Option<IdempotencyKey>, StoreError> {
        let (looked, now) = (
            self.reader.run(move |connection| some_keys(connection, after, limit)).await?,
            micros(now),
        );
        let last = looked
            .last()
            .map(|(client, digest, _)| read_key(*client, digest))
            .transpose()
            .map_err(Failure::from)?;
        let free: Vec<_> = looked
            .into_iter()
            .filter(|(_, _, until)| *until <= now)
            .map(|(client, digest, _)| (client, digest))
            .collect();
        if !free.is_empty() {
            self.writer.run(move |connection| forget(connection, &free, now)).await?;
        }
        Ok(last)
    }
}

/// What a key is in use for at `now`, unless for this very claim.
pub(crate) fn in_use(
    connection: &mut SqliteConnection,
    claim: &Claim,
    now: OffsetDateTime,
) -> Result<Option<KeyUse>, Failure> {
    let Claim { key, token } = claim;
    let others =
        idempotency_keys::order_id.is_not_null().or(idempotency_keys::token.ne(&token.0[..]));
    let row: Option<KeyRow> = idempotency_keys::table
        .find((key.client.0, &key.digest[..]))
        .filter(idempotency_keys::kept_until_us.gt(micros(now)).and(others))
        .select(KeyRow::as_select())
        .first(connection)
        .optional()?;
    Ok(row.map(|row| row.key_use()).transpose()?)
}

/// Remembers a request under its key, which is not [`in_use`].
pub(crate) fn remember(
    connection: &mut SqliteConnection,
    remembrance: &Remembrance,
    order: OrderId,
    created_at: OffsetDateTime,
) -> Result<(), Failure> {
    let Remembrance { attempt, kept_until } = remembrance;
    let claimed = KeyRow::claimed(&attempt.claim, created_at, *kept_until);
    keep(
        connection,
        &KeyRow {
            fingerprint: Some(attempt.fingerprint.0.to_vec()),
            order_id: Some(order.0),
            ..claimed
        },
    )
}

fn keep(connection: &mut SqliteConnection, row: &KeyRow) -> Result<(), Failure> {
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

/// Whether a key comes after another, or after none: a comparison of rows, which SQLite looks up in
/// the primary key. The type is too long to be written down.
macro_rules! later {
    ($after:expr) => {{
        let (client, digest) = $after.map_or((i64::MIN, Vec::new()), |key: IdempotencyKey| {
            (key.client.0, key.digest.to_vec())
        });
        sql::<Bool>("(client_id, digest) > (")
            .bind::<BigInt, _>(client)
            .sql(", ")
            .bind::<Binary, _>(digest)
            .sql(")")
    }};
}

/// Keys after `after`, each with when it is free again.
fn some_keys(
    connection: &mut SqliteConnection,
    after: Option<IdempotencyKey>,
    limit: usize,
) -> Result<Vec<(i64, Vec<u8>, i64)>, Failure> {
    let keys = idempotency_keys::table
        .filter(later!(after))
        .order((idempotency_keys::client_id, idempotency_keys::digest))
        .limit(row_limit(limit));
    Ok(keys
        .select((
            idempotency_keys::client_id,
            idempotency_keys::digest,
            idempotency_keys::kept_until_us,
        ))
        .load(connection)?)
}

fn forget(
    connection: &mut SqliteConnection,
    keys: &[(i64, Vec<u8>)],
    now: i64,
) -> Result<(), Failure> {
    for (client, digest) in keys {
        // One may have been taken again in between.
        diesel::delete(
            idempotency_keys::table
                .find((client, digest))
                .filter(idempotency_keys::kept_until_us.le(now)),
        )
        .execute(connection)?;
    }
    Ok(())
}

/// Requests that are remembered under keys after `after`.
pub(crate) fn remembered(
    connection: &mut SqliteConnection,
    after: Option<IdempotencyKey>,
    limit: usize,
) -> Result<Vec<RememberedRequest>, Failure> {
    let rows: Vec<KeyRow> = idempotency_keys::table
        .filter(idempotency_keys::order_id.is_not_null().and(later!(after)))
        .order((idempotency_keys::client_id, idempotency_keys::digest))
        .limit(row_limit(limit))
        .select(KeyRow::as_select())
        .load(connection)?;
    Ok(rows.into_iter().map(KeyRow::into_remembered).collect::<Result<_, _>>()?)
}
