//! API keys.

use async_trait::async_trait;
use diesel::{prelude::*, sqlite::SqliteConnection};
use domain::{
    api_key::{ApiKey, ApiKeyId, NewApiKey},
    ports::{ApiKeyRepo, StoreError},
};
use time::OffsetDateTime;

use crate::{
    SqliteStore,
    failure::Failure,
    rows::{ApiKeyRow, NewApiKeyRow, micros},
    schema::api_keys,
};

#[async_trait]
impl ApiKeyRepo for SqliteStore {
    async fn add(&self, key: &NewApiKey) -> Result<ApiKeyId, StoreError> {
        let row = NewApiKeyRow::new(key);
        Ok(self.writer.run(move |connection| insert(connection, &row)).await?)
    }

    async fn add_first(&self, key: &NewApiKey) -> Result<Option<ApiKeyId>, StoreError> {
        let row = NewApiKeyRow::new(key);
        Ok(self.writer.run(move |connection| insert_first(connection, &row)).await?)
    }

    async fn find(&self, lookup: &str) -> Result<Option<ApiKey>, StoreError> {
        let lookup = lookup.to_owned();
        Ok(self.reader.run(move |connection| find(connection, &lookup)).await?)
    }

    async fn list(&self) -> Result<Vec<ApiKey>, StoreError> {
        Ok(self.reader.run(list).await?)
    }

    async fn revoke(&self, id: ApiKeyId, at: OffsetDateTime) -> Result<Option<ApiKey>, StoreError> {
        Ok(self.writer.run(move |connection| revoke(connection, id, at)).await?)
    }
}

fn insert(connection: &mut SqliteConnection, row: &NewApiKeyRow) -> Result<ApiKeyId, Failure> {
    let id = diesel::insert_into(api_keys::table).values(row).returning(api_keys::id).get_result(connection)?;
    Ok(ApiKeyId(id))
}

fn insert_first(connection: &mut SqliteConnection, row: &NewApiKeyRow) -> Result<Option<ApiKeyId>, Failure> {
    let some = api_keys::table.select(api_keys::id).first::<i64>(connection).optional()?.is_some();
    if some { Ok(None) } else { insert(connection, row).map(Some) }
}

fn find(connection: &mut SqliteConnection, lookup: &str) -> Result<Option<ApiKey>, Failure> {
    let row: Option<ApiKeyRow> = api_keys::table.filter(api_keys::lookup.eq(lookup)).select(ApiKeyRow::as_select()).first(connection).optional()?;
    Ok(row.map(ApiKeyRow::into_key).transpose()?)
}

fn list(connection: &mut SqliteConnection) -> Result<Vec<ApiKey>, Failure> {
    let rows: Vec<ApiKeyRow> = api_keys::table.order(api_keys::id).select(ApiKeyRow::as_select()).load(connection)?;
    Ok(rows.into_iter().map(ApiKeyRow::into_key).collect::<Result<_, _>>()?)
}

fn revoke(connection: &mut SqliteConnection, id: ApiKeyId, at: OffsetDateTime) -> Result<Option<ApiKey>, Failure> {
    let live = api_keys::table.find(id.0).filter(api_keys::revoked_at_us.is_null());
    diesel::update(live).set(api_keys::revoked_at_us.eq(micros(at))).execute(connection)?;
    let row: Option<ApiKeyRow> = api_keys::table.find(id.0).select(ApiKeyRow::as_select()).first(connection).optional()?;
    Ok(row.map(ApiKeyRow::into_key).transpose()?)
}
