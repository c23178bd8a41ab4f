//! API keys.

use async_trait::async_trait;
use diesel::{
    dsl::exists,
    prelude::*,
    select, sql_query,
    sql_types::{Array, BigInt, Timestamptz},
};
use diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use domain::{
    api_key::{ApiKey, ApiKeyId, KeyChange, KeyEvent, NewApiKey},
    ports::{ApiKeyRepo, StoreError},
};
use sql_rows::{
    ApiKeyRow, KeyEventRow, NewApiKeyRow, Utc,
    schema::{api_keys, key_events},
};
use time::OffsetDateTime;

use crate::{PostgresStore, failure::Failure};

/// Locks the keys by identifier, so that two instances never deadlock.
const NOTE_USES: &str = "WITH locked AS (\
        SELECT id FROM api_keys WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE\
    ) UPDATE api_keys SET last_used_at = used.at \
    FROM locked JOIN unnest($1, $2) AS used (id, at) USING (id) \
    WHERE api_keys.id = locked.id AND (last_used_at IS NULL OR last_used_at < used.at)";

#[async_trait]
impl ApiKeyRepo for PostgresStore {
    async fn add(&self, key: &NewApiKey, by: &str) -> Result<ApiKeyId, StoreError> {
        Ok(self.pool.transaction(async |connection| add(connection, key, by).await).await?)
    }

    /// The lock makes concurrent calls wait, so that only one of them finds no key.
    async fn add_first(&self, key: &NewApiKey, by: &str) -> Result<Option<ApiKeyId>, StoreError> {
        let added = self.pool.transaction(async |connection| {
            connection.batch_execute("LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE").await?;
            let any = select(exists(api_keys::table.select(api_keys::id)));
            if any.get_result(connection).await? {
                return Ok(None);
            }
            add(connection, key, by).await.map(Some)
        });
        Ok(added.await?)
    }

    async fn rotate(
        &self,
        id: ApiKeyId,
        successor: &NewApiKey,
        until: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKeyId>, StoreError> {
        let at = successor.issued_at;
        let rotated = self.pool.transaction(async |connection| {
            let valid = api_keys::expires_at.is_null().or(api_keys::expires_at.gt(Utc(at)));
            let valid = api_keys::table
                .find(id.0)
                .filter(api_keys::revoked_at.is_null().and(valid))
                .select(api_keys::expires_at)
                .for_update();
            let expires_at: Option<Option<Utc>> = valid.first(connection).await.optional()?;
            let Some(expires_at) = expires_at else { return Ok(None) };
            let earlier = expires_at.map_or(Utc(until), |end| end.min(Utc(until)));
            diesel::update(api_keys::table.find(id.0))
                .set(api_keys::expires_at.eq(earlier))
                .execute(connection)
                .await?;
            let successor = add(connection, successor, by).await?;
            let change = KeyChange::Rotated { successor };
            record(connection, KeyEventRow::new(id, change, at, by)).await?;
            Ok(Some(successor))
        });
        Ok(rotated.await?)
    }

    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let key = api_keys::table.filter(api_keys::lookup.eq(lookup));
        let key = key.select(ApiKeyRow::as_select());
        Ok(self.pool.all(key, ApiKeyRow::into_key).await?.pop())
    }

    async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        let all = api_keys::table.order(api_keys::id).select(ApiKeyRow::as_select());
        Ok(self.pool.all(all, ApiKeyRow::into_key).await?)
    }

    async fn revoke(
        &self,
        id: ApiKeyId,
        at: OffsetDateTime,
        by: &str,
    ) -> Result<Option<ApiKey>, StoreError> {
        let revoked = self.pool.transaction(async |connection| {
            let key = api_keys::table.find(id.0);
            let valid = diesel::update(key.filter(api_keys::revoked_at.is_null()));
            if valid.set(api_keys::revoked_at.eq(Utc(at))).execute(connection).await? > 0 {
                record(connection, KeyEventRow::new(id, KeyChange::Revoked, at, by)).await?;
            }
            let row = key.select(ApiKeyRow::as_select()).first(connection).await.optional()?;
            Ok(row.map(ApiKeyRow::into_key).transpose()?)
        });
        Ok(revoked.await?)
    }

    async fn note_uses(&self, uses: &[(ApiKeyId, OffsetDateTime)]) -> Result<(), StoreError> {
        let (ids, instants): (Vec<i64>, Vec<OffsetDateTime>) =
            uses.iter().map(|(id, at)| (id.0, *at)).unzip();
        let note = sql_query(NOTE_USES)
            .bind::<Array<BigInt>, _>(ids)
            .bind::<Array<Timestamptz>, _>(instants);
        self.pool.write(note).await?;
        Ok(())
    }

    async fn trail(&self) -> Result<Vec<KeyEvent>, StoreError> {
        let all = key_events::table.order(key_events::id).select(KeyEventRow::as_select());
        Ok(self.pool.all(all, KeyEventRow::into_event).await?)
    }
}

async fn add(
    connection: &mut AsyncPgConnection,
    key: &NewApiKey,
    by: &str,
) -> Result<ApiKeyId, Failure> {
    let added = diesel::insert_into(api_keys::table)
        .values(NewApiKeyRow::from(key))
        .returning(api_keys::id);
    let id = ApiKeyId(added.get_result(connection).await?);
    record(connection, KeyEventRow::new(id, KeyChange::Issued, key.issued_at, by)).await?;
    Ok(id)
}

async fn record(connection: &mut AsyncPgConnection, event: KeyEventRow) -> Result<(), Failure> {
    diesel::insert_into(key_events::table).values(event).execute(connection).await?;
    Ok(())
}
