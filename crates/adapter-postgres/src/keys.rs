//! API keys.

use async_trait::async_trait;
use diesel::{dsl::exists, prelude::*, select};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection as _};
use domain::{
    api_key::{ApiKey, ApiKeyId, NewApiKey},
    ports::{ApiKeyRepo, StoreError},
};
use futures_util::FutureExt as _;
use time::OffsetDateTime;

use crate::{
    PostgresStore,
    failure::Failure,
    rows::{ApiKeyRow, NewApiKeyRow},
    schema::api_keys,
    statement::Prepared,
};

#[async_trait]
impl ApiKeyRepo for PostgresStore {
    async fn add(&self, key: &NewApiKey) -> Result<ApiKeyId, StoreError> {
        let row = NewApiKeyRow::new(key);
        Ok(self.pool.run(|connection| insert(connection, row).boxed()).await?)
    }

    async fn add_first(&self, key: &NewApiKey) -> Result<Option<ApiKeyId>, StoreError> {
        let row = NewApiKeyRow::new(key);
        Ok(self.pool.run(|connection| connection.transaction(async |connection| insert_first(connection, row).await).boxed()).await?)
    }

    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let lookup = lookup.to_owned();
        Ok(self.pool.run(|connection| find(connection, lookup).boxed()).await?)
    }

    async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        Ok(self.pool.run(|connection| list(connection).boxed()).await?)
    }

    async fn revoke(&self, id: ApiKeyId, at: OffsetDateTime) -> Result<Option<ApiKey>, StoreError> {
        Ok(self.pool.run(move |connection| revoke(connection, id, at).boxed()).await?)
    }
}

async fn insert(connection: &mut AsyncPgConnection, row: NewApiKeyRow) -> Result<ApiKeyId, Failure> {
    let id = diesel::insert_into(api_keys::table).values(row).returning(api_keys::id).get_result(connection).await?;
    Ok(ApiKeyId(id))
}

/// Of two that find no key, the lock lets one go first.
async fn insert_first(connection: &mut AsyncPgConnection, row: NewApiKeyRow) -> Result<Option<ApiKeyId>, Failure> {
    connection.batch_execute("LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE").await?;
    let some: bool = select(exists(api_keys::table.select(api_keys::id))).get_result(connection).await?;
    if some { Ok(None) } else { insert(connection, row).await.map(Some) }
}

async fn find(connection: &mut AsyncPgConnection, lookup: String) -> Result<Option<ApiKey>, Failure> {
    let row: Option<ApiKeyRow> = api_keys::table.filter(api_keys::lookup.eq(lookup)).select(ApiKeyRow::as_select()).first(connection).await.optional()?;
    Ok(row.map(ApiKeyRow::into_key).transpose()?)
}

async fn list(connection: &mut AsyncPgConnection) -> Result<Vec<ApiKey>, Failure> {
    let rows: Vec<ApiKeyRow> = api_keys::table.order(api_keys::id).select(ApiKeyRow::as_select()).load(connection).await?;
    Ok(rows.into_iter().map(ApiKeyRow::into_key).collect::<Result<_, _>>()?)
}

async fn revoke(connection: &mut AsyncPgConnection, id: ApiKeyId, at: OffsetDateTime) -> Result<Option<ApiKey>, Failure> {
    let live = api_keys::table.find(id.0).filter(api_keys::revoked_at.is_null());
    Prepared(diesel::update(live).set(api_keys::revoked_at.eq(at))).execute(connection).await?;
    let row: Option<ApiKeyRow> = api_keys::table.find(id.0).select(ApiKeyRow::as_select()).first(connection).await.optional()?;
    Ok(row.map(ApiKeyRow::into_key).transpose()?)
}
