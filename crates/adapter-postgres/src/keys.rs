//! API keys.

use async_trait::async_trait;
use diesel::{
    dsl::exists,
    prelude::*,
    select,
    sql_types::{Array, BigInt, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use domain::{
    api_key::{ApiKey, ApiKeyId, KeyChange, KeyEvent, NewApiKey},
    ports::{ApiKeyRepo, StoreError},
};
use futures_util::FutureExt as _;
use sql_rows::{
    ApiKeyRow, KeyEventRow, NewApiKeyRow, Utc,
    schema::{api_keys, key_events},
};
use time::OffsetDateTime;

use crate::{PostgresStore, failure::Failure};

#[async_trait]
impl ApiKeyRepo for PostgresStore {
    async fn add(&self, key: &NewApiKey, by: &str) -> Result<ApiKeyId, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        Ok(self
            .pool
            .transaction(move |connection| async move { add(connection, &key, &by).await }.boxed())
            .await?)
    }

    async fn add_first(&self, key: &NewApiKey, by: &str) -> Result<Option<ApiKeyId>, StoreError> {
        let (key, by) = (key.clone(), by.to_owned());
        Ok(self
            .pool
            .transaction(move |connection| {
                async move { add_first(connection, &key, &by).await }.boxed()
            })
            .await?)
    }

    async fn rotate(
        &self,
        id: ApiKeyId,
        successor: &NewApiKey,
        until: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError> {
        let (successor, by) = (successor.clone(), by.to_owned());
        let rotated = self.pool.transaction(move |connection| {
            async move { rotate(connection, id, &successor, until, &by).await }.boxed()
        });
        Ok(rotated.await?)
    }

    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let lookup = lookup.to_owned();
        Ok(self.pool.run(|connection| find(connection, lookup).boxed()).await?)
    }

    async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        Ok(self.pool.run(|connection| list(connection).boxed()).await?)
    }

    async fn revoke(
        &self,
        id: ApiKeyId,
        at: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKey>, StoreError> {
        let by = by.to_owned();
        Ok(self
            .pool
            .transaction(move |connection| {
                async move { revoke(connection, id, at, &by).await }.boxed()
            })
            .await?)
    }

    async fn note_uses(&self, uses: &[(ApiKeyId, OffsetDateTime)]) -> Result<(), StoreError> {
        let (ids, instants) = uses.iter().map(|(id, at)| (id.0, *at)).unzip();
        Ok(self.pool.run(move |connection| note_uses(connection, ids, instants).boxed()).await?)
    }

    async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError> {
        Ok(self.pool.run(|connection| trail(connection).boxed()).await?)
    }
}

async fn insert(connection: &mut AsyncPgConnection, key: &NewApiKey) -> Result<ApiKeyId, Failure> {
    let id = diesel::insert_into(api_keys::table)
        .values(NewApiKeyRow::from(key))
        .returning(api_keys::id)
        .get_result(connection)
        .await?;
    Ok(ApiKeyId(id))
}

async fn record(connection: &mut AsyncPgConnection, event: KeyEventRow) -> Result<(), Failure> {
    diesel::insert_into(key_events::table).values(event).execute(connection).await?;
    Ok(())
}

async fn add(
    connection: &mut AsyncPgConnection,
    key: &NewApiKey,
    by: &str,
) -> Result<ApiKeyId, Failure> {
    let id = insert(connection, key).await?;
    record(connection, KeyEventRow::new(id, KeyChange::Issued, key.issued_at, by)).await?;
    Ok(id)
}

/// Adds a key if the table is empty. The lock makes concurrent calls wait, so that only one of them
/// finds no key.
async fn add_first(
    connection: &mut AsyncPgConnection,
    key: &NewApiKey,
    by: &str,
) -> Result<Option<ApiKeyId>, Failure> {
    connection.batch_execute("LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE").await?;
    let has_keys: bool =
        select(exists(api_keys::table.select(api_keys::id))).get_result(connection).await?;
    if has_keys { Ok(None) } else { add(connection, key, by).await.map(Some) }
}

async fn rotate(
    connection: &mut AsyncPgConnection,
    id: ApiKeyId,
    successor: &NewApiKey,
    until: OffsetDateTime,
    by: &str,
) -> Result<Option<ApiKeyId>, Failure> {
    let valid = api_keys::revoked_at
        .is_null()
        .and(api_keys::expires_at.is_null().or(api_keys::expires_at.gt(Utc(successor.issued_at))));
    let valid = api_keys::table.find(id.0).filter(valid).select(api_keys::expires_at).for_update();
    let expires_at: Option<Option<Utc>> = valid.first(connection).await.optional()?;
    let Some(expires_at) = expires_at else { return Ok(None) };
    let earlier = expires_at.map_or(Utc(until), |end| end.min(Utc(until)));
    diesel::update(api_keys::table.find(id.0))
        .set(api_keys::expires_at.eq(earlier))
        .execute(connection)
        .await?;
    let successor_id = add(connection, successor, by).await?;
    record(
        connection,
        KeyEventRow::new(
            id,
            KeyChange::Rotated { successor: successor_id },
            successor.issued_at,
            by,
        ),
    )
    .await?;
    Ok(Some(successor_id))
}

async fn find(
    connection: &mut AsyncPgConnection,
    lookup: String,
) -> Result<Option<ApiKey>, Failure> {
    let row: Option<ApiKeyRow> = api_keys::table
        .filter(api_keys::lookup.eq(lookup))
        .select(ApiKeyRow::as_select())
        .first(connection)
        .await
        .optional()?;
    Ok(row.map(ApiKeyRow::into_key).transpose()?)
}

async fn list(connection: &mut AsyncPgConnection) -> Result<Vec<ApiKey>, Failure> {
    let rows: Vec<ApiKeyRow> =
        api_keys::table.order(api_keys::id).select(ApiKeyRow::as_select()).load(connection).await?;
    Ok(rows.into_iter().map(ApiKeyRow::into_key).collect::<Result<_, _>>()?)
}

async fn revoke(
    connection: &mut AsyncPgConnection,
    id: ApiKeyId,
    at: OffsetDateTime,
    by: &str,
) -> Result<Option<ApiKey>, Failure> {
    let valid = api_keys::table.find(id.0).filter(api_keys::revoked_at.is_null());
    if diesel::update(valid).set(api_keys::revoked_at.eq(Utc(at))).execute(connection).await? > 0 {
        record(connection, KeyEventRow::new(id, KeyChange::Revoked, at, by)).await?;
    }
    let row: Option<ApiKeyRow> = api_keys::table
        .find(id.0)
        .select(ApiKeyRow::as_select())
        .first(connection)
        .await
        .optional()?;
    Ok(row.map(ApiKeyRow::into_key).transpose()?)
}

/// Locks the keys by identifier, so that two instances never deadlock.
async fn note_uses(
    connection: &mut AsyncPgConnection,
    ids: Vec<i64>,
    instants: Vec<OffsetDateTime>,
) -> Result<(), Failure> {
    const NOTE: &str = "WITH locked AS (\
            SELECT id FROM api_keys WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE\
        ) UPDATE api_keys SET last_used_at = used.at \
        FROM locked JOIN unnest($1, $2) AS used (id, at) USING (id) \
        WHERE api_keys.id = locked.id AND (last_used_at IS NULL OR last_used_at < used.at)";
    diesel::sql_query(NOTE)
        .bind::<Array<BigInt>, _>(ids)
        .bind::<Array<Timestamptz>, _>(instants)
        .execute(connection)
        .await?;
    Ok(())
}

async fn trail(connection: &mut AsyncPgConnection) -> Result<Vec<KeyEvent>, Failure> {
    let rows: Vec<KeyEventRow> = key_events::table
        .order(key_events::id)
        .select(KeyEventRow::as_select())
        .load(connection)
        .await?;
    Ok(rows.into_iter().map(KeyEventRow::into_event).collect::<Result<_, _>>()?)
}
